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
                self.assertLessEqual(set(one.modules), known)
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


class Trials(unittest.TestCase):
    """The tool on a checkout of one small file and one test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "whole"
        (self.root / "tests").mkdir(parents=True)
        (self.root / "tests" / "__init__.py").touch()

    def seen_by(
        self, *rows: tuple[str, ...], test: str = SMALL_TEST, whole: str = SMALL
    ) -> tuple[list[str], str]:
        """Who sees each of these breaks, and what is printed."""
        (self.root / "agent.py").write_text(whole, encoding="utf-8")
        (self.root / "tests" / "test_sums.py").write_text(test, encoding="utf-8")
        bench = breaks.Bench(self.root, self.root.parent)
        trials = [breaks.Trial(row[0], Break(*row).applied(SMALL), ("test_sums",)) for row in rows]
        with redirect_stdout(io.StringIO()) as out:
            return [*bench.results(trials)], out.getvalue()

    def test_a_break_that_a_test_fails_on_is_seen_and_another_is_not(self) -> None:
        seen, said = self.seen_by(ROW, ("much", "Sums", "", "is_much", "> 9", "> 8"))
        self.assertEqual(seen, ["test_sums", ""])
        self.assertRegex(said, "test_sums +turned\nNOT SEEN +much\n")

    def test_one_that_never_ends_is_seen(self) -> None:
        never = "\n    import threading; threading.Event().wait()"
        with mock.patch.object(breaks, "PATIENCE_S", 1):
            row = ("hangs", "Sums", "", "is_enough", "print(number)", never)
            self.assertEqual(self.seen_by(row)[0], ["test_sums"])

    def test_what_fails_without_a_break_is_told_and_sees_nothing(self) -> None:
        seen, said = self.seen_by(ROW, whole="")
        self.assertEqual(seen, [""])
        self.assertIn("Left out, since they fail without a break: test_sums.\n", said)

    def test_what_fails_every_other_time_sees_nothing(self) -> None:
        row = ("least", "Sums", "", "", "LEAST = 2", "LEAST = 1")
        self.assertEqual(self.seen_by(row, test=SMALL_TEST + OF_CHANCE)[0], [""])


if __name__ == "__main__":
    unittest.main()
