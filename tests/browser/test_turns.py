"""What the page makes of a turn's records: who spoke, what was said, done and noted."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from chrome import InChrome, wait_for  # noqa: E402 - both lie elsewhere, and this folder is no package
from test_report_page import run  # noqa: E402

import agent  # noqa: E402

Json = dict[str, Any]
TURNS = """return turns.map(({ turn, role, said, call, result, changed, notes, acts, asked, shots }) =>
  ({ turn, role, said, call, result, changed, notes, acts, asked, shots }))"""


class Turns(InChrome):
    def turns(self, page: Path) -> list[Json]:
        """The turns of a report, as its page has them."""
        self.chrome.open(page.as_uri())
        wait_for(lambda: self.chrome.run("return turns.length"))
        return list(self.chrome.run(TURNS))

    def told(self, *lines: Json) -> list[Json]:
        """The turns that the page makes of these lines of a journal."""
        records = [json.dumps({"time": 1.0, **line}) for line in ({"kind": "run"}, *lines)]
        journal = self.folder / "turns.jsonl"
        journal.write_text("\n".join(records) + "\n", encoding="utf-8")
        self.assertEqual(agent.main(["--report", str(self.folder)]), 0)
        return self.turns(self.folder / "report.html")

    def test_a_turn_has_who_spoke_what_was_said_called_and_done(self) -> None:
        turns = self.turns(run(self.folder) / "report.html")
        self.assertEqual([turn["turn"] for turn in turns], [1, 2, 3, 4, 5, 6])
        self.assertEqual([turn["role"] for turn in turns], ["planner"] + ["executor"] * 5)
        plan, click, *_, end = turns
        self.assertEqual([kind for kind, _ in plan["notes"]], ["plan"])
        self.assertTrue(click["said"].startswith("SCREEN_SHOWS: "))
        self.assertTrue(click["call"].startswith("double_click_screen_element "))
        self.assertEqual((click["changed"], click["acts"][0]["changed"]), (True, True))
        self.assertEqual(click["acts"][0]["screenshot"], click["shots"][0])
        self.assertEqual([kind for kind, _ in end["notes"]], ["verification"])
        self.assertEqual(end["result"], "Mission complete")

    def test_a_storys_reply_is_about_the_next_turn_and_its_actions_stand_as_written(self) -> None:
        turns = self.turns(run(self.folder, "--profile", "story") / "report.html")
        self.assertEqual({turn["role"] for turn in turns[:-1]}, {"story"})
        self.assertEqual(turns[1]["said"], "The desktop shows the Notes icon and no window")
        self.assertNotIn("{", "".join(turn["said"] for turn in turns))
        asked = [fate for turn in turns for fate in turn["asked"]]
        self.assertEqual((asked[0]["action"]["name"], asked[0]["became"]), ("double_click", "done"))

    def test_a_pause_is_told_apart_from_a_refusal(self) -> None:
        for refused, kind in (("stale_frame", "stale_frame"), ("blocked_key", "refused")):
            (turn,) = self.told(
                {"kind": "intent", "turn": 1, "tool": "click"},
                {"kind": "result", "turn": 1, "result": "Not done.", "refused": refused},
            )
            self.assertEqual(turn["notes"], [[kind, "Not done."]])

    def test_each_note_is_shown_with_its_name(self) -> None:
        lines = [
            {"kind": "hint", "text": "one"},
            {"kind": "model_failed", "text": "two"},
            {"kind": "no_call", "text": "three"},
            {"kind": "archive", "summary": "four"},
            {"kind": "verification", "text": "five"},
            {"kind": "plan", "done": "plan: six"},
        ]
        self.told(*({"turn": 1, **line} for line in lines))
        shown = self.chrome.run(
            "return [...document.querySelectorAll('.text')].map((e) => e.innerText)"
        )
        for note in ("hint\none", "failed\ntwo", "correction\nthree", "archive\nfour", "plan\nsix"):
            self.assertIn(note, shown)

    def test_an_act_without_a_reply_is_not_the_planners(self) -> None:
        turns = self.told(
            {"kind": "reply", "turn": 1, "call": 1, "role": "planner"},
            {"kind": "plan", "turn": 1, "done": "plan: go"},
            {"kind": "action", "turn": 2, "tool": "click"},
        )
        self.assertEqual([turn["role"] for turn in turns], ["planner", ""])

    def test_a_picture_that_lies_elsewhere_is_none(self) -> None:
        names = ("//evil.example/a.png", "../a.png", "screenshots/turn_0001.png", "file:///a.png")
        (turn,) = self.told(*({"kind": "look", "turn": 1, "screenshot": name} for name in names))
        self.assertEqual(turn["shots"], ["screenshots/turn_0001.png"])


if __name__ == "__main__":
    unittest.main()
