"""The profiles planner and commander with --described, point by point with the lines of their descriptions."""

from __future__ import annotations

import itertools
import unittest
from functools import cached_property
from typing import Any

from tests.described.exchange import Exchange, has_what_is_described, replies_of, said
from tests.scripted import EngineCase

# Each in turns of its own; in turns 7 and 14 of the planner, 5 and 8 of the commander, nobody is asked.
PLANNER, COMMANDER = replies_of("planner"), replies_of("commander")


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
        given = {"goal_identifier": "g", "completion_status": "BLOCKED", "evidence": "e"}
        blocked = said("", "report_goal_status", **given)
        run = self.of_planner(PLANNER[0], blocked, PLANNER[6], steps=4)
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
        run = self.of_planner(*PLANNER[:2], steps=2)
        self.assertEqual(run.outcome, ("max_steps", "Max steps reached (2)"))

    def test_so_many_actions_lead_to_the_planner_which_is_to_archive(self) -> None:
        """OR memory.needs_compression (12+ active actions); commander: 8."""
        order = PLANNER[0]
        keys = [said("", "press_keyboard_key", key=key) for key in "abcdefghijkl"]
        replies = [order, *keys[:5], order, *keys[5:10], order, *keys[10:], PLANNER[12]]
        planner = self.of_planner(*replies, steps=19)
        order = COMMANDER[0]
        keys = [said("", "press_key", key=key) for key in "abcdefgh"]
        replies = [order, *keys[:3], order, *keys[3:6], order, *keys[6:], COMMANDER[6]]
        commander = Exchange(self, "commander", replies, "--max-steps", "15")
        for run in (planner, commander):
            self.assertEqual((run.roles[-1], run.left), ("planner", 0))
            self.assertIn("ARCHIVE_NOW", run.user(len(run.requests)))
            self.assertNotIn("ARCHIVE_NOW", run.user(len(run.requests) - 3))


if __name__ == "__main__":
    unittest.main()
