"""The comparison of two checkouts must see what differs at each of its seams, and only that."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import agent
from tests import compare
from tests.compare import Difference, Row

CHECKOUT = Path(agent.__file__).resolve().parent
CASES = 25  # of each seam; enough for what is planted


class Planted(NamedTuple):
    """A tiny change in a copy of agent.py, and a sign that the tool has to show for it."""

    seam: str
    old: str
    new: str
    sign: str


PLANTED = (
    Planted(
        "runs", "You are the Computer Task Executor", "You are the Computer Work Executor", "Work"
    ),
    Planted("replies", "{error} Nothing was done.", "{error} Nothing was broken.", "broken"),
    Planted("verdicts", "is blocked.", "is forbidden.", "forbidden"),
    Planted("changes", "CARET_WIDTH = 4 ", "CARET_WIDTH = 6 ", "changes: "),
    Planted("books", "not told by this server", "never told by it", "never told"),
    Planted(
        "contexts",
        "thoughts_most = config.keep_last_thinks",
        "thoughts_most = config.keep_last_thinks + 1",
        "mark-",
    ),
)
PLANTED_MORE = (
    Planted("pictures", "0x0F141E, alpha=0.75", "0x0F141E, alpha=0.5", "pictures: "),
    Planted("demos", "| demo desktop\n", "| demo desk\n", "demos: "),
    Planted("lines", "is no task; did you mean", "is no job; did you mean", "job"),
    Planted("places", "SURE_99 = 2.575829", "SURE_99 = 1.0", "places: "),
)


class Drives(unittest.TestCase):
    """The program itself, driven through few cases, and copies of it with a tiny change."""

    folder: Path
    plain: dict[tuple[str, str], Any]

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        side = compare.put_agent(str(CHECKOUT), cls.folder / "plain")
        cls.plain = compare.drive(side, compare.SEAMS, CASES)

    def found(self, side: Path, seams: Sequence[str]) -> list[Difference]:
        """How a copy differs from the program at these seams."""
        plain = {key: value for key, value in self.plain.items() if key[0] in seams}
        return list(compare.differences(plain, compare.drive(side, seams, CASES)))

    def test_each_seam_has_cases(self) -> None:
        self.assertEqual({seam for seam, _ in self.plain}, set(compare.SEAMS))

    def test_a_tiny_change_is_found_at_each_seam(self) -> None:
        """Each shows by a sign of its own; that of the contexts, which runs have too, is tried alone."""
        planted_all = [planted.seam for planted in (*PLANTED, *PLANTED_MORE)]
        self.assertEqual(planted_all, list(compare.SEAMS))
        for number, together in enumerate((PLANTED[:-1] + PLANTED_MORE, PLANTED[-1:])):
            source = (CHECKOUT / "agent.py").read_text("utf-8")
            for planted in together:
                self.assertTrue(planted.old in source, planted)  # the whole source is no message
                source = source.replace(planted.old, planted.new, 1)
            side = self.folder / f"changed {number}"
            side.mkdir()
            (side / "agent.py").write_text(source, "utf-8")
            found = self.found(side, [planted.seam for planted in together])
            for planted in together:
                with self.subTest(planted.seam):
                    here = [difference for difference in found if difference.seam == planted.seam]
                    verdict = compare.judge(here, [], len(self.plain))
                    self.assertFalse(verdict.fine)
                    self.assertIn(planted.sign, "\n".join(compare.told(verdict)))

    def test_all_six_profiles_are_driven(self) -> None:
        asked = {case.split(",")[0] for seam, case in self.plain if seam == "runs"}
        self.assertEqual(asked, set(agent.PROFILES))


class Verdicts(unittest.TestCase):
    maxDiff = None

    def found(self, old: Any, new: Any) -> list[tuple[str, str | None, str | None]]:
        sides = ({("runs", "case"): side} for side in (old, new))
        return [(found.where, found.old, found.new) for found in compare.differences(*sides)]

    def test_values_are_told_by_their_place(self) -> None:
        old = {"a": [1, {"b": "x"}], "c": 1, "d": True}
        new = {"a": [1, {"b": "y"}], "d": 1, "e": None}
        self.assertEqual(
            self.found(old, new),
            [(".a[1].b", "x", "y"), (".c", "1", None), (".d", "true", "1"), (".e", None, "null")],
        )

    def test_texts_are_told_by_their_lines_and_an_item_more_is_one_difference(self) -> None:
        self.assertEqual(self.found("a\nb\nc", "a\nB\nc"), [("", "b", "B")])
        self.assertEqual(self.found([1, 2, 3, 4], [1, 3, 4]), [("[1]", "2", None)])

    def test_another_order_and_other_bytes_of_the_same_request_are_found(self) -> None:
        self.assertEqual(
            self.found({"a": 1, "b": 2}, {"b": 2, "a": 1}),
            [(" (order)", '["a", "b"]', '["b", "a"]')],
        )
        self.assertEqual(self.found('{"a": 1}', '{"a":1}'), [(" (bytes)", '{"a": 1}', '{"a":1}')])

    def test_a_case_of_one_side_alone_is_found(self) -> None:
        found = list(compare.differences({("runs", "a"): "x"}, {("runs", "b"): "y"}))
        wanted = [Difference("runs", "a", "", "x", None), Difference("runs", "b", "", None, "y")]
        self.assertEqual(found, wanted)

    def test_what_follows_from_a_wanted_difference_is_wanted_and_in_its_own_run_alone(self) -> None:
        found = [
            Difference("runs", f"{run}: {name}", "", "x", "y")
            for run in ("a", "b")
            for name in ("executor 2", "main")
        ]
        row = Row("runs", "another act", case="a: executor \\d+", follows=True)
        self.assertEqual(compare.judge(found, [row], 4).unlisted, found[2:])
        plain = row._replace(follows=False)
        self.assertEqual(compare.judge(found, [plain], 4).unlisted, found[1:])

    def test_a_run_that_one_side_cannot_carry_out_is_one_difference(self) -> None:
        came = {("runs", f"a: {name}"): name for name in ("main", "executor 1", "report")}
        left = {("runs", "a: cannot"): "no setting x", ("runs", "b: main"): "y"}
        found = list(compare.differences({**came, ("runs", "b: main"): "x"}, left))
        wanted = [
            Difference("runs", "b: main", "", "x", "y"),
            Difference("runs", "a: cannot", "", None, "no setting x"),
        ]
        self.assertEqual(found, wanted)

    def test_a_row_of_the_ledger_silences_what_it_covers_and_nothing_else(self) -> None:
        found = [
            Difference("runs", f"{profile}: main", ".said", "12 acts", new)
            for profile, new in (("chat", "13 acts"), ("story", "13 acts"), ("chat", "none"))
        ]
        row = Row("runs", "because", case="chat: .*", where=r"\.said", old=".*", new=r"\d+ acts")
        verdict = compare.judge(found, [row], 3)
        self.assertEqual(verdict.unlisted, found[1:])
        self.assertEqual(verdict.covered, {row: 1})
        self.assertFalse(verdict.fine)
        self.assertTrue(compare.judge(found[:1], [row], 3).fine)
        for other in (row._replace(seam="books"), row._replace(old="12"), row._replace(new="acts")):
            self.assertEqual(compare.judge(found, [other], 3).unlisted, found)

    def test_a_row_that_covers_nothing_is_told_as_stale(self) -> None:
        row = Row("runs", "it was better once")
        verdict = compare.judge([], [row], 3)
        self.assertEqual(verdict.stale, [row])
        self.assertRegex("\n".join(compare.told(verdict)), "stale: .*: it was better once")

    def test_what_is_told_is_short_and_names_equal_differences_once(self) -> None:
        long = "the same words " * 50
        found = [
            Difference("runs", f"case {n}", f"[{n}]", f"{long}old {n}", f"{long}new {n}")
            for n in range(50)
        ]
        said = list(compare.told(compare.judge(found, [], 50)))
        self.assertEqual(len(said), 4, said)
        self.assertIn("(and 49 more like it)", said[0])
        self.assertRegex(said[1], r"^    - \.\.\..{,60}old 0$")
        self.assertRegex(said[2], r"^    \+ \.\.\..{,60}new 0$")

    def test_each_row_of_the_ledger_has_a_seam_a_reason_and_patterns(self) -> None:
        for row in compare.read_ledger(compare.LEDGER).rows:
            self.assertIn(row.seam, compare.SEAMS)
            self.assertGreater(len(row.why.split()), 3, row)
            self.assertNotEqual(row[2:], Row("", "")[2:], "it would silence the whole seam")


class CommandLine(unittest.TestCase):
    def setUp(self) -> None:
        """What one file does is found out once."""
        came: dict[bytes, Any] = {}
        drive = compare.drive

        def drive_once(checkout: Path, *how: Any) -> Any:
            text = (checkout / "agent.py").read_bytes()
            if text not in came:
                came[text] = drive(checkout, *how)
            return came[text]

        driven = mock.patch.object(compare, "drive", drive_once)
        driven.start()
        self.addCleanup(driven.stop)

    def test_a_name_that_is_no_checkout_is_told_so(self) -> None:
        with self.assertRaises(SystemExit) as caught:
            compare.main(["no_such_commit", "--seams", "runs"])
        self.assertEqual(
            str(caught.exception), "no_such_commit is no commit and no folder with an agent.py"
        )

    def test_a_seam_that_there_is_not_is_told_so(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            compare.main([".", "--seams", "runs,walls"])
        self.assertIn("there is no seam walls; there are runs", said.getvalue())

    def compared(self, *rows: dict[str, str], new: str = str(CHECKOUT)) -> tuple[int, str]:
        """Exit code and output of a comparison of few cases with a ledger of these rows."""
        with tempfile.TemporaryDirectory() as name:
            ledger = Path(name, "ledger.json")
            ledger.write_text(json.dumps({"since": str(CHECKOUT), "rows": rows}))
            given = [str(CHECKOUT), new, "--cases", "40", "--seams", "changes"]
            with contextlib.redirect_stdout(io.StringIO()) as said:
                code = compare.main([*given, "--ledger", str(ledger)])
        return code, said.getvalue()

    def test_the_exit_code_tells_whether_all_differences_are_wanted(self) -> None:
        row = {"seam": "changes", "why": "a caret may be wider", "old": ".*"}
        code, said = self.compared(row)
        self.assertEqual(code, 0)
        self.assertRegex(said, r"stale: .*: a caret may be wider\n40 cases, 0 differences")
        with tempfile.TemporaryDirectory() as name:
            source = (CHECKOUT / "agent.py").read_text("utf-8")
            changed = source.replace("CARET_WIDTH = 4 ", "CARET_WIDTH = 6 ")
            Path(name, "agent.py").write_text(changed, "utf-8")
            self.assertEqual(self.compared(new=name)[0], 1)
            code, said = self.compared(row, new=name)
        self.assertEqual(code, 0)
        self.assertRegex(said, r"wanted, \d+ times: a caret may be wider\n40 cases, 0 differences")


if __name__ == "__main__":
    unittest.main()
