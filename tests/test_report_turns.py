"""What the report is told of each turn in each profile: its role, its tokens, its replies, its plan."""

from __future__ import annotations

import json
import re
import unittest
from pathlib import Path
from typing import Any

import agent
from tests import seams
from tests.test_main import CommandLineCase
from tests.test_report import records_in, run_of, sums_of


class Profiles(CommandLineCase):
    def report(self, profile: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The run and its records, as the page of a live run has them."""
        self.recorded("--profile", profile)
        page = Path(self.run_folder() / "report.html").read_text(encoding="utf-8")
        return run_of(page), records_in(page)

    def test_the_turns_of_a_story_have_their_role_and_their_tokens(self) -> None:
        run, items = self.report("story")
        roles = {item["role"] for item in items if item["kind"] == "reply"}
        self.assertEqual(roles, {"story", "examiner", "verifier"})
        for turn in range(1, run["sums"]["turns"]):
            self.assertGreater(sums_of(items, turn)["prompt"], 0, turn)

    def test_the_look_before_the_first_turn_of_a_chat_is_no_turn(self) -> None:
        run, items = self.report("chat")
        journal = agent.read_journal(self.run_folder()).records
        end = next(record for record in journal if record.kind == "end")
        self.assertEqual([items[0]["turn"], items[-1]["turn"]], [0, end.turns])
        self.assertEqual(run["sums"]["turns"], end.turns)
        self.assertEqual(dict(map(tuple, run["figures"]))["turns"], str(end.turns))

    def test_a_turn_has_its_replies_as_they_came_and_the_plan_it_made(self) -> None:
        _, items = self.report("planner")
        replies = [item for item in items if item["kind"] == "reply"]
        last = [reply["role"] for reply in replies if reply["turn"] == items[-1]["turn"]]
        self.assertEqual(last, ["executor", "examiner", "verifier", "verifier"])
        for reply in replies:
            self.assertLessEqual(
                {"call", "role", "message", "tokens", "finish_reason", "time"}, reply.keys()
            )
        (plan,) = [item for item in items if item["kind"] == "plan"]
        self.assertIn("Open Notes", plan["instructions"])
        self.assertTrue(plan["plan"].startswith(plan["instructions"]))


class Plans(unittest.TestCase):
    def plan(self, said: str) -> str:
        book = agent.Book("run_0001")
        told = {"plan": said, "instructions": "Open Notes.", "done_when": ["It is saved."]}
        book.take(seams.record("run"))
        book.take(seams.record("plan", turn=1, **told))
        return str(book.items[0]["plan"])

    def test_the_plan_is_what_the_planner_said_with_what_proves_the_task_done(self) -> None:
        self.assertEqual(self.plan("First A."), "First A.\n\nDone when:\n1. It is saved.")

    def test_a_planner_that_said_nothing_or_an_executors_report_has_its_instructions_shown(
        self,
    ) -> None:
        for said in ("", "SCREEN_SHOWS: The task needs steps.\nNEXT_STEP: plan", "**ACT**: go"):
            self.assertTrue(self.plan(said).startswith("Open Notes.\n"), said)


class Notes(CommandLineCase):
    def test_the_page_has_a_name_and_a_tone_for_each_record_that_is_a_note(self) -> None:
        table = re.search(r"NOTES = \{(.*?)\};", agent.PAGE, re.S)
        assert table
        named = re.findall(r"(?m)^ +(\w+): \[", table[1])
        self.assertEqual(len(named), 8)
        self.assertLessEqual({*named} - {"refused", "stale_frame"}, agent.RECORDS.keys())
        self.assertLessEqual(agent.COUNTED.keys(), {*named})

    def test_the_page_knows_who_judges(self) -> None:
        self.assertIn(f"const JUDGES = {json.dumps([*agent._JUDGES])};", agent.PAGE)

    def test_a_story_has_its_actions_as_they_were_written_and_what_became_of_each(self) -> None:
        self.recorded("--profile", "story")
        items = agent.book_of(self.run_folder()).items
        asked = [fate for item in items for fate in item.get("asked", ())]
        self.assertEqual(asked[0]["action"]["name"], "double_click")
        self.assertEqual(asked[0]["became"], "done")


class Resumed(unittest.TestCase):
    def test_the_time_between_two_processes_belongs_to_no_turn_even_if_it_was_in_the_middle_of_one(
        self,
    ) -> None:
        book = agent.Book("run_0001")
        book.take(seams.record("run", turn=0, time=1000.0))
        book.take(seams.record("reply", turn=1, call=1, role="executor", time=1003.0))
        book.take(seams.record("resume", turn=0, time=9000.0))
        book.take(seams.record("look", turn=1, screenshot="", time=9001.0))
        book.take(seams.record("action", turn=2, tool="click", time=9003.0))
        seconds = [sums_of([*book.items], turn)["seconds"] for turn in (1, 2)]
        self.assertEqual(seconds, [4.0, 2.0])
        self.assertEqual((book.run["sums"]["seconds"], book.run["sums"]["turns"]), (6.0, 2))


class TheFirstLook(CommandLineCase):
    def test_a_conversation_is_opened_in_the_seconds_that_this_takes(self) -> None:
        _, out, _ = self.recorded("--profile", "chat")
        (seconds,) = re.findall(r"^ +0  chat .* ([\d.]+) s ", out, re.M)
        self.assertLess(float(seconds), 60)

    def test_a_resumed_conversation_has_the_same_number_of_turns_everywhere(self) -> None:
        self.main("--demo", "--profile", "chat", "--max-steps", "2")
        _, out, _ = self.main("--demo", "--resume", "--set", "max_steps=20")
        _, runs, _ = self.main("--runs")
        (turns,) = re.findall(r"^(\d+) turns, ", out, re.M)
        self.assertRegex(runs, rf"chat +completed +{turns} ")
        self.assertEqual(self.records()[-1]["turns"], int(turns))


if __name__ == "__main__":
    unittest.main()
