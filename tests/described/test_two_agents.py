"""The profiles planner and commander with --described, point by point with the lines of their descriptions."""

from __future__ import annotations

import itertools
import unittest
from functools import cached_property
from typing import Any

from tests.described.exchange import Exchange, has_what_is_described, said
from tests.scripted import PROOF, EngineCase, text

REPORT = "LAST_ACTION_RESULT: worked\nCURRENT_GOAL: press\nSUCCESS_CRITERIA: it is pressed\n\
SCREEN_SHOWS: a button\nNEXT_STEP: click"
SITREP = "OBJ: press\nDOD: it is pressed\nOBS: a button\nACT: click"


def why(name: str, **given: Any) -> dict[str, Any]:
    """A call of the planner's executor."""
    return said(REPORT, name, **given, reasoning="it is next")


def act(name: str, **given: Any) -> dict[str, Any]:
    """A call of the commander's operator."""
    return said(SITREP, name, **given, justification="it is next")


def plan(words: str, instructions: str) -> dict[str, Any]:
    given = {"instructions": instructions, "reasoning": "it is next"}
    return said(words, "update_execution_plan", **given)


def brief(words: str, instructions: str) -> dict[str, Any]:
    given = {"operator_instructions": instructions, "rationale": "it is next"}
    return said(words, "spawn_operator", **given)


def goal(status: str) -> dict[str, Any]:
    given = {"goal_identifier": "g", "completion_status": status, "evidence": "e"}
    return said(REPORT, "report_goal_status", **given)


THING = {"element_name": "Button", "position": [500, 500]}
ARCHIVE = {"summary": "pressed it", "patterns_detected": "none", "archived_turns": [2, 3, 4]}
COMPRESS = {"compression_summary": "s", "loop_analysis": "none", "archived_turns": [2, 3]}
FIRST = plan("First press it.", "Press it.")
SHORT = said(REPORT, "report_mission_complete", evidence="done")
PLANNER = [  # each with its turn; in turns 7 and 14 nobody is asked
    FIRST,  # 1
    why("click_screen_element", **THING),
    why("type_text_input", text="hello"),
    why("press_keyboard_key", key="enter"),
    why("scroll_screen_down"),
    goal("DONE"),  # 6
    plan("Now the rest.", "Go on."),  # 8
    text("I am not sure."),  # 9
    SHORT,  # 10
    why("double_click_screen_element", **THING),
    why("right_click_screen_element", **THING),
    why("drag_screen_element", element_name="Button", start=[100, 100], end=[900, 900]),  # 13
    said("", "archive_completed_actions", **ARCHIVE),  # 15
    plan("The end.", "Report."),  # 16
    why("scroll_screen_up"),  # 17
    said(REPORT, "report_mission_complete", evidence=PROOF),  # 18
]
BLOCKED = {"objective_id": "o", "status": "BLOCKED", "evidence": "e"}
COMMANDER = [  # in turns 5 and 8 nobody is asked
    brief("Press it.", "Press it."),  # 1
    act("click_element", label="Button", position=[500, 500]),  # 2
    act("type_text", text="hello"),
    act("press_key", key="enter"),  # 4
    brief("On.", "Go on."),  # 6
    said(SITREP, "report_progress", **BLOCKED),  # 7
    said("", "compress_memory", **COMPRESS),  # 9
    brief("New way.", "By keys."),  # 10
    said(SITREP, "report_completion", evidence=PROOF),  # 11
]


class TwoAgents(EngineCase):
    @cached_property
    def runs(self) -> dict[str, Exchange]:
        return {
            "planner": Exchange(self, "planner", PLANNER),
            "commander": Exchange(self, "commander", COMMANDER),
        }

    def of_planner(self, *replies: Any, steps: int) -> Exchange:
        return Exchange(self, "planner", replies, "--max-steps", str(steps))

    def test_each_role_is_asked_in_its_turns_and_every_reply_is_used(self) -> None:
        """Turn divisible by review_interval ... continue; needs_review flag set (DONE/BLOCKED)."""
        for profile, wanted in (("planner", "peeeeepeeeeeppee"), ("commander", "peeepeppe")):
            run = self.runs[profile]
            self.assertEqual("".join(role[0] for role in run.roles), wanted)
            self.assertEqual(run.left, 0)
        # "If no tool_call returned: sleep and continue"
        self.assertEqual(len(self.runs["planner"].requests[8]["messages"]), 2)
        run = self.of_planner(FIRST, goal("BLOCKED"), PLANNER[6], steps=4)
        self.assertEqual(run.roles, ["planner", "executor", "planner"])

    def test_each_request_has_the_described_tools_and_texts(self) -> None:
        """2 tools; ClickArgs; Identity; SITREP Format; RECENT_ACTIONS (count=X); COMPLETED_WORK; ..."""
        for profile, run in self.runs.items():
            has_what_is_described(self, profile, run)

    def test_what_was_archived_or_is_older_than_eight_actions_is_not_told_again(self) -> None:
        """Marks old actions as archived; shows last 8 active actions; no judge besides."""
        planner, commander = self.runs["planner"], self.runs["commander"]
        for told in (planner.user(16), commander.user(9)):
            self.assertNotRegex(told, "Turn_[23]:")
        self.assertEqual(planner.user(13).count("\n  Turn_"), 8)
        self.assertNotIn("WINDOW", str(planner.requests))

    def test_each_request_has_the_described_settings_and_parts(self) -> None:
        """Tool choice: auto; Temperature; Max tokens; planner: text only."""
        for profile, leader, worker in (
            ("planner", (0.35, 1800), (0.5, 1400)),
            ("commander", (0.35, 1200), (0.5, 1024)),
        ):
            run = self.runs[profile]
            self.assertEqual({request["tool_choice"] for request in run.requests}, {"auto"})
            sent = [(one["temperature"], one["max_tokens"]) for one in run.requests[:2]]
            self.assertEqual(sent, [leader, worker])
            self.assertEqual((run.parts(1), run.parts(2)), (["text"], ["text", "image_url"]))
            # "Turn Delay: Sleep 1.5s", "ui_settle_delay (0.3s) after every action"
            self.assertEqual(run.times[1] - run.times[0], 1.5)
            self.assertTrue(1.8 <= round(run.times[2] - run.times[1], 3) < 2.1)

    def test_the_wheel_turns_one_notch_in_the_middle_of_the_screen(self) -> None:
        """MOUSEEVENTF_WHEEL with +-120 delta; moves mouse to screen center."""
        done = self.runs["planner"].desktop.inputs
        turned = [pair for pair in itertools.pairwise(done) if pair[1][0] == "wheel"]
        self.assertEqual(
            [(m, w[1]) for m, w in turned], [(("move", 32, 18), n) for n in (-120, 120)]
        )

    def test_the_files_and_the_log_are_the_described_ones(self) -> None:
        """turn_NNNN.png; PLANNING: no screenshot; replaces base64-encoded image data."""
        for profile, shown, unseen, headers in (
            ("planner", (0, 2, 7, 14, 18), (1, 8, 15, 16), ("7 - EXECUTION", "8 - PLANNING")),
            ("commander", (0, 2, 5, 8, 11), (), ("6 - EVALUATION", "7 - EXECUTION")),
        ):
            run = self.runs[profile]
            self.assertLessEqual({f"turn_{n:04d}.png" for n in shown}, set(run.screenshots()))
            self.assertFalse({f"turn_{n:04d}.png" for n in unseen} & set(run.screenshots()))
            for header in headers:
                self.assertIn(f"TURN {header}", run.log)
            self.assertIn("base64 characters", run.log)
            self.assertNotIn("iVBORw0KGgo", run.log)

    def test_the_end_is_told_as_described(self) -> None:
        """Returns "Mission completed in {turn} turns"; "Max steps reached (50)"."""
        ended = ("completed", "Mission completed in 18 turns")
        self.assertEqual(self.runs["planner"].outcome, ended)
        self.assertEqual(self.runs["commander"].outcome[0], "completed")
        run = self.of_planner(FIRST, PLANNER[1], steps=2)
        self.assertEqual(run.outcome, ("max_steps", "Max steps reached (2)"))

    def test_so_many_actions_lead_to_the_planner_which_is_to_archive(self) -> None:
        """OR memory.needs_compression (12+ active actions); commander: 8."""
        keys = [why("press_keyboard_key", key=key) for key in "abcdefghijkl"]
        replies = [FIRST, *keys[:5], FIRST, *keys[5:10], FIRST, *keys[10:], PLANNER[12]]
        planner = self.of_planner(*replies, steps=19)
        order = COMMANDER[0]
        keys = [act("press_key", key=key) for key in "abcdefgh"]
        replies = [order, *keys[:3], order, *keys[3:6], order, *keys[6:], COMMANDER[6]]
        commander = Exchange(self, "commander", replies, "--max-steps", "15")
        for run in (planner, commander):
            self.assertEqual((run.roles[-1], run.left), ("planner", 0))
            self.assertIn("ARCHIVE_NOW", run.user(len(run.requests)))
            self.assertNotIn("ARCHIVE_NOW", run.user(len(run.requests) - 3))


if __name__ == "__main__":
    unittest.main()
