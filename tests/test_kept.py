"""No change of behaviour goes unseen: each seam comes to what somebody looked at last; and a comparison tells how."""

from __future__ import annotations

import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import agent
from tests import kept
from tests.samples import sample

LOOK = "`python -m tests.kept HEAD {}` shows how, `python -m tests.kept` keeps it"
CASES = 25  # of each seam; enough for what is planted
SEAMS = sample(kept.SEAMS, ("replies", "verdicts", "lines"))
# Tiny changes in a copy of agent.py, by their seam: what stands there, what instead, and a sign that is told.
# All are made at once.
PLANTED = {
    "runs": ("You are the Computer Task Executor", "You are the Computer Work Executor", "Work"),
    "replies": (
        "{error} Nothing was done. {advice",
        "{error} Nothing was lost. {advice",
        "lost",
    ),
    "verdicts": ("runs as administrator, so", "runs as Administrator, so", "Administrator, so"),
    "changes": ("CARET_WIDTH = 4 ", "CARET_WIDTH = 6 ", "changes: "),
    "books": ("not told by this server", "never told by it", "never told"),
    "demos": ("| demo desktop\n", "| demo desk\n", "demos: "),
    "lines": ("is no task; did you mean", "is no job; did you mean", "job"),
}


def kept_seam(seam: str) -> type[unittest.TestCase]:
    """A case of its own a seam, so that one that fails hides no other."""

    class Kept(unittest.TestCase):
        def test_what_comes_of_each_case_is_as_it_was(self) -> None:
            wrong = kept.differing(kept.read()[seam], kept.now()[seam])
            self.assertEqual(list(wrong), [], LOOK.format(seam))

    Kept.__name__ = Kept.__qualname__ = seam.title()
    return Kept


globals().update({seam.title(): kept_seam(seam) for seam in kept.SEAMS})


class Comparison(unittest.TestCase):
    def test_a_tiny_change_is_found_at_each_seam_and_each_profile_is_driven(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        planted = Path(folder.name, "planted")
        planted.mkdir()
        source = Path(agent.__file__).read_text("utf-8")
        for old, new, _ in PLANTED.values():
            self.assertTrue(old in source, old)  # the whole source is no message
            source = source.replace(old, new, 1)
        (planted / "agent.py").write_text(source, "utf-8")
        plain = kept.put_agent(kept.HERE, Path(folder.name, "plain"))
        with ThreadPoolExecutor(2) as both:
            came = [*both.map(lambda side: kept.drive(side, SEAMS, CASES), (plain, planted))]
        asked = {case.split(",")[0] for seam, case in came[0] if seam == "runs"}
        self.assertEqual(asked, set(agent.PROFILES) if "runs" in SEAMS else set())
        found = kept.differences(*came)
        for seam in SEAMS:
            with self.subTest(seam):
                here = [f"{case} {changed}" for case, changed in found.items()]
                self.assertTrue(
                    any(one.startswith(seam) and PLANTED[seam][2] in one for one in here)
                )

    def test_each_difference_is_told_by_its_place_and_with_both_sides(self) -> None:
        for old, new, *wanted in (
            ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, "-.a[].b: x", "+.a[].b: y"),
            ({"c": 1, "d": True}, {"d": 1}, "-.c = 1", "-.d = true", "+.d = 1"),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "+.b = 2", "-.b = 2"),
            ("a\nb\nc", "a\nB\nc", "-: b", "+: B"),
            ([], {}, "- = []", "+ = {}"),
        ):
            with self.subTest(old=old, new=new):
                sides = ({("runs", "case"): side} for side in (old, new))
                self.assertEqual(kept.differences(*sides), {"runs: case": wanted})
        alone = kept.differences({("runs", "a"): "x"}, {("runs", "b"): "y"})
        self.assertEqual(alone, {"runs: a": ["-: x"], "runs: b": ["+: y"]})


if __name__ == "__main__":
    unittest.main()
