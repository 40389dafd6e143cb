"""The breaks apply to the present file, and the tool tells one that is seen from one that is not."""

from __future__ import annotations

import io
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

from tests import breaks, breaks_table
from tests.breaks import Break
from tests.samples import some
from tests.test_shape import TEXT, room

SMALL = room(
    "Sums",
    """LEAST = 2
def is_enough(number):
    print(number)
    return number >= LEAST
def is_much(number):
    return number > 9""",
)
TEST = """import os, unittest
import agent
class Sums(unittest.TestCase):
    def test_the_least_is_enough(self):
        self.assertTrue(agent.is_enough(2))
    def test_of_chance(self):
        if os.path.exists("odd"):
            os.remove("odd")
        else:
            open("odd", "w").close()
            self.assertEqual(agent.LEAST, 2)
"""
TURNED = Break("turned", "Sums", "", "is_enough", "number >= LEAST", "number > LEAST")
NEVER = "\n    import threading; threading.Event().wait()"


class Aimed(unittest.TestCase):
    def test_every_break_applies_to_the_file_as_it_is(self) -> None:
        """Where the code has moved: aim the row anew in breaks_table.py, at the same behaviour."""
        known = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
        for one in some(breaks.BREAKS, 4, lambda one: one.room):
            with self.subTest(one.name):
                self.assertNotEqual(one.applied(TEXT), TEXT)
                self.assertLessEqual(set(one.modules), known)

    def test_one_that_no_longer_applies_is_said(self) -> None:
        for field, value in (
            ("room", "Nowhere"),
            ("place", "is_little"),
            ("old", "number"),  # more than once
            ("old", "number == LEAST"),
            ("new", "number >= (LEAST)"),  # the same
            ("new", "number >="),
        ):
            with self.subTest(field, value=value), self.assertRaises(breaks.Misaimed):
                TURNED._replace(**{field: value}).applied(SMALL)


class Trials(unittest.TestCase):
    """The tool on a checkout of one small file and one test."""

    def seen_by(self, *rows: Break, test: str = TEST) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder, "whole")
            (root / "tests").mkdir(parents=True)
            (root / "agent.py").write_text(SMALL, encoding="utf-8")
            (root / "tests" / "test_sums.py").write_text(test, encoding="utf-8")
            with (
                mock.patch.dict(breaks_table.MODULES, Sums="test_sums"),
                redirect_stdout(io.StringIO()),
            ):
                return breaks.Bench(root, root.parent).results(rows)

    def test_what_a_test_fails_on_always_is_seen_and_nothing_else(self) -> None:
        much = Break("much", "Sums", "", "is_much", "> 9", "> 8")
        by_chance = Break("by chance", "Sums", "", "", "LEAST = 2", "LEAST = 1")
        self.assertEqual(self.seen_by(TURNED, much, by_chance), ["test_sums", "", ""])
        self.assertEqual(self.seen_by(TURNED, test="fails without a break"), [""])

    def test_one_that_never_ends_is_seen(self) -> None:
        hangs = TURNED._replace(old="print(number)", new=NEVER)
        with mock.patch.object(breaks, "PATIENCE_S", 1):
            self.assertEqual(self.seen_by(hangs), ["test_sums"])


if __name__ == "__main__":
    unittest.main()
