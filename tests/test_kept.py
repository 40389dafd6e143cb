"""No change of behaviour goes unseen: each seam comes to what somebody looked at last; and a comparison tells how."""

from __future__ import annotations

import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import agent
from tests import compare, kept
from tests.samples import sample

LOOK = "`python -m tests.compare HEAD --seams {}` shows how, `python -m tests.kept` keeps it"
CASES = 25  # of each seam; enough for what is planted
SEAMS = sample(compare.SEAMS, ("replies", "verdicts", "lines"))
# Tiny changes in a copy of agent.py, by their seam: what stands there, what instead, and a sign that is told.
# All are made at once; none but the one of contexts changes which marks are left there.
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
    "contexts": ("steps // 2))", "steps // 4))", "mark-"),
    "pictures": ("0x0F141E, alpha=0.75", "0x0F141E, alpha=0.5", "pictures: "),
    "demos": ("| demo desktop\n", "| demo desk\n", "demos: "),
    "lines": ("is no task; did you mean", "is no job; did you mean", "job"),
    "places": ("SCATTERS_LEAST = 5 ", "SCATTERS_LEAST = 1 ", "places: "),
}


def kept_seam(seam: str) -> type[unittest.TestCase]:
    """A case of its own a seam, so that one that fails hides no other."""

    class Kept(unittest.TestCase):
        def test_what_comes_of_each_case_is_as_it_was(self) -> None:
            wrong = kept.differing(kept.read()[seam], kept.now()[seam])
            self.assertEqual(list(wrong), [], LOOK.format(seam))

    Kept.__name__ = Kept.__qualname__ = seam.title()
    return Kept


globals().update({seam.title(): kept_seam(seam) for seam in compare.SEAMS})


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
        plain = compare.put_agent(str(compare.HERE), Path(folder.name, "plain"))
        with ThreadPoolExecutor(2) as both:
            came = [*both.map(lambda side: compare.drive(side, SEAMS, CASES), (plain, planted))]
        asked = {case.split(",")[0] for seam, case in came[0] if seam == "runs"}
        self.assertEqual(asked, set(agent.PROFILES) if "runs" in SEAMS else set())
        found = [*compare.differences(*came)]
        for seam in SEAMS:
            with self.subTest(seam):
                here = [f"{seam}: {one.old} {one.new}" for one in found if one.seam == seam]
                self.assertTrue(any(PLANTED[seam][2] in one for one in here))

    def test_each_difference_is_told_by_its_place_and_with_both_sides(self) -> None:
        for old, new, *wanted in (
            ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, [".a[].b: x"], [".a[].b: y"]),
            ({"c": 1, "d": True}, {"d": 1}, [".c = 1", ".d = true"], [".d = 1"]),
            ({"e": "null"}, {"e": None}, [".e: null"], [".e = null"]),
            ("a\nb\nc", "a\nB\nc", [": b"], [": B"]),
            ([1, 2, 3, 4], [1, 3, 4], ["[] = 2"], []),
            ([], {}, [" = []"], [" = {}"]),
            ('{"a": 1}', '{"a":1}', ['{"a": 1}'], ['{"a":1}']),
        ):
            with self.subTest(old=old, new=new):
                sides = ({("runs", "case"): side} for side in (old, new))
                found = [[list(one.old), list(one.new)] for one in compare.differences(*sides)]
                self.assertEqual(found, [wanted])

    def test_another_order_and_a_case_of_one_side_alone_are_found(self) -> None:
        orders = ({("runs", "a"): {"a": 1, "b": 2}}, {("runs", "a"): {"b": 2, "a": 1}})
        self.assertEqual(len(list(compare.differences(*orders))), 2)
        found = list(compare.differences({("runs", "a"): "x"}, {("runs", "b"): "y"}))
        wanted = [("runs", "a", ("the case a",), ()), ("runs", "b", (), ("the case b",))]
        self.assertEqual(found, wanted)


if __name__ == "__main__":
    unittest.main()
