"""The breaks apply to the present file, and the tool tells one that is seen from one that is not."""

from __future__ import annotations

import io
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

from tests import breaks
from tests.breaks import Break

TEXT = breaks.shape.SOURCE.read_text(encoding="utf-8")
BAR = "#" * 100
SMALL = f'''{BAR}
# Sums - what is added up
{BAR}

LEAST = 2


def is_enough(number):
    """Whether a number is not below the least one."""
    print(number)
    return number >= LEAST


def is_much(number):
    return number > 9
'''
SMALL_TEST = """import unittest
import agent


class Sums(unittest.TestCase):
    def test_the_least_is_enough(self):
        self.assertTrue(agent.is_enough(2))
"""
OF_CHANCE = """
    def test_of_chance(self):
        import os
        if os.path.exists("odd"):
            os.remove("odd")
        else:
            open("odd", "w").close()
            self.assertEqual(agent.LEAST, 2)
"""
ROW = ("turned", "Sums", "the least is enough", "is_enough", "number >= LEAST", "number > LEAST")


class Aimed(unittest.TestCase):
    def test_every_break_applies_to_the_file_as_it_is(self) -> None:
        """Where the code has moved: aim the row anew in breaks_table.py, at the same behaviour."""
        rows = breaks.all_breaks()
        known = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
        for one in rows:
            with self.subTest(one.name):
                self.assertNotEqual(one.applied(TEXT), TEXT)
                self.assertLessEqual(set(breaks.modules_of(one.room)), known)
        self.assertEqual(len({one.name for one in rows}), len(rows))
        self.assertGreaterEqual(len({one.room for one in rows}), 30)

    def test_one_that_no_longer_applies_is_said(self) -> None:
        for field, value in (
            ("room", "Nowhere"),
            ("place", "is_little"),
            ("old", "number"),  # more than once
            ("old", "number == LEAST"),
            ("new", "number >= (LEAST)"),  # the same
            ("new", "number >="),
        ):
            one = Break(*ROW)._replace(**{field: value})
            with self.subTest(field, value=value), self.assertRaises(breaks.Misaimed):
                one.applied(SMALL)

    def test_the_list_has_a_line_for_each(self) -> None:
        with redirect_stdout(io.StringIO()) as out:
            self.assertEqual(breaks.main(["--list"]), 0)
        self.assertEqual(len(out.getvalue().splitlines()), len(breaks.all_breaks()))


class Trials(unittest.TestCase):
    """The tool on a checkout of one small file and one test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "whole"
        (self.root / "tests").mkdir(parents=True)
        (self.root / "agent.py").write_text(SMALL, encoding="utf-8")
        (self.root / "tests" / "__init__.py").touch()
        (self.root / "tests" / "test_sums.py").write_text(SMALL_TEST, encoding="utf-8")
        self.bench = breaks.Bench(self.root, Path(folder.name))

    def seen_by(self, *row: str, learned: str = SMALL) -> str:
        self.bench.learn(learned, ["test_sums"])
        return self.bench.seen_by(self.trial(*row))

    def trial(self, *row: str) -> breaks.Trial:
        return breaks.Trial(row[0], Break(*row).applied(SMALL), ("test_sums",))

    def test_a_break_that_a_test_fails_on_is_seen_and_another_is_not(self) -> None:
        self.assertEqual(self.seen_by(*ROW), "test_sums")
        self.assertEqual(self.seen_by("much", "Sums", "", "is_much", "> 9", "> 8"), "")
        self.assertEqual((self.root / "agent.py").read_text(encoding="utf-8"), SMALL)

    def test_one_that_never_ends_is_seen(self) -> None:
        self.bench.green["test_sums"] = 0.5
        never = "\n    import threading; threading.Event().wait()"
        with mock.patch.multiple(breaks, PATIENCE_S=1, PATIENCE=1):
            trial = self.trial("hangs", "Sums", "", "is_enough", "print(number)", never)
            self.assertEqual(self.bench.seen_by(trial), "test_sums")

    def test_what_fails_without_a_break_is_told_and_sees_nothing(self) -> None:
        self.assertEqual(self.seen_by(*ROW, learned=""), "")
        with redirect_stdout(io.StringIO()) as out:
            self.bench.tell()
        self.assertEqual(out.getvalue(), "Left out, since they fail without a break: test_sums.\n")

    def test_what_fails_every_other_time_is_told_and_sees_nothing(self) -> None:
        for copy in self.bench.free:
            (copy / "tests" / "test_sums.py").write_text(SMALL_TEST + OF_CHANCE, encoding="utf-8")
        self.bench.learn(SMALL, ["test_sums"])
        self.bench.free[-1].joinpath("odd").unlink(missing_ok=True)
        trial = breaks.Trial("", SMALL.replace("LEAST = 2", "LEAST = 1"), ("test_sums",))
        self.assertEqual((self.bench.seen_by(trial), self.bench.flaky), ("", {"test_sums"}))


class Chance(unittest.TestCase):
    def test_comparisons_calls_and_numbers_of_functions_are_changed_and_texts_are_not(self) -> None:
        parts = {(SMALL[one.begin : one.end], one.new) for one in breaks.mutations(SMALL)}
        wanted = {
            ("print(number)", "pass"),
            ("number >= LEAST", "(number < LEAST)"),
            ("number > 9", "(number <= 9)"),
            ("9", "36"),
        }
        self.assertEqual(parts, wanted)

    def test_a_seed_gives_the_same_ones_again_each_of_them_python(self) -> None:
        first = breaks.chosen(TEXT, 3, seed=3)
        self.assertEqual(first, breaks.chosen(TEXT, 3, seed=3))
        self.assertNotEqual(first, breaks.chosen(TEXT, 3, seed=4))
        for mutation in first:
            self.assertNotEqual(mutation.applied(TEXT), TEXT)

    def test_it_is_tried_with_the_modules_of_its_room_and_with_the_whole_runs(self) -> None:
        for room, wanted in (("Replay", ("test_replay", "test_kept")), ("Nowhere", ("test_kept",))):
            mutation = breaks.Mutation(7, 0, 0, "")
            self.assertEqual(breaks.modules_at(SMALL.replace("Sums", room), mutation), wanted)


if __name__ == "__main__":
    unittest.main()
