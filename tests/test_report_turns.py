"""What a turn of the report says in each profile: its role, its tokens, its replies, its number."""

from __future__ import annotations

import re
import unittest
from pathlib import Path
from typing import Any

import agent
from tests import seams
from tests.test_main import CommandLineCase
from tests.test_report import blocks


class Profiles(CommandLineCase):
    def report(self, profile: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The run and its turns, the latest block of each, as the page of a live run has them."""
        self.recorded("--profile", profile)
        page = Path(self.run_folder() / "report.html").read_text(encoding="utf-8")
        book = {block["turn"]: block for block in blocks(page)}
        run = book.pop(-1)
        return run, [book[number] for number in sorted(book)]

    def test_the_turns_of_a_story_show_their_role_and_their_tokens(self) -> None:
        _, turns = self.report("story")
        self.assertEqual({turn["role"] for turn in turns[:-1]}, {"story"})
        for turn in turns[:-1]:
            self.assertGreater(turn["sums"]["prompt"], 0, turn["turn"])
            self.assertNotIn("{", turn["said"])
        self.assertEqual(turns[1]["said"], "The desktop shows the Notes icon and no window")

    def test_the_look_before_the_first_turn_of_a_chat_is_no_turn(self) -> None:
        run, turns = self.report("chat")
        journal = agent.read_journal(self.run_folder()).records
        end = next(record for record in journal if record.kind == "end")
        self.assertEqual([turns[0]["turn"], turns[-1]["turn"]], [0, end.turns])
        self.assertEqual(run["sums"]["turns"], end.turns)
        self.assertEqual(dict(map(tuple, run["figures"]))["turns"], str(end.turns))

    def test_a_turn_has_its_replies_as_they_came_and_the_plan_it_made(self) -> None:
        _, turns = self.report("planner")
        self.assertEqual(
            [one["role"] for one in turns[-1]["exchanges"] if "message" in one],
            ["executor", "examiner", "verifier", "verifier"],
        )
        for turn in turns:
            for reply in turn["exchanges"][1::2]:
                self.assertLessEqual(
                    {"call", "role", "message", "tokens", "finish_reason", "time"}, reply.keys()
                )
        self.assertIn("Open Notes", turns[0]["instructions"])
        self.assertTrue(turns[0]["plan"].startswith(turns[0]["instructions"]))
        self.assertEqual({turn["plan"] for turn in turns[1:]}, {""})
        self.assertEqual(turns[-1]["role"], "executor")


class Plans(unittest.TestCase):
    def plan(self, said: str) -> str:
        book = agent.Book("run_0001")
        told = {"plan": said, "instructions": "Open Notes.", "done_when": ["It is saved."]}
        book.take(seams.record("run"))
        book.take(seams.record("reply", turn=1, call=1, role="planner"))
        book.take(seams.record("plan", turn=1, **told))
        return str(book.turns[0]["plan"])

    def test_the_plan_is_what_the_planner_said_with_what_proves_the_task_done(self) -> None:
        self.assertEqual(self.plan("First A."), "First A.\n\nDone when:\n1. It is saved.")

    def test_a_planner_that_said_nothing_or_an_executors_report_has_its_instructions_shown(
        self,
    ) -> None:
        for said in ("", "SCREEN_SHOWS: The task needs steps.\nNEXT_STEP: plan", "**ACT**: go"):
            self.assertTrue(self.plan(said).startswith("Open Notes.\n"), said)


class Roles(unittest.TestCase):
    def test_an_act_without_a_reply_is_not_the_planners(self) -> None:
        book = agent.Book("run_0001")
        book.take(seams.record("run"))
        book.take(seams.record("reply", turn=1, call=1, role="planner"))
        book.take(seams.record("plan", turn=1, done="plan: go"))
        book.take(seams.record("action", turn=2, tool="click"))
        self.assertEqual([turn["role"] for turn in book.turns], ["planner", ""])


class Notes(CommandLineCase):
    def test_the_page_has_a_tone_for_each_kind_of_note(self) -> None:
        lines = [
            {"kind": "run"},
            *({"kind": kind, "turn": 1} for kind in ("plan", "hint", "model_failed", "no_call")),
            *({"kind": "result", "turn": 1, "refused": why} for why in ("stale_frame", "windows")),
            *({"kind": kind, "turn": 1} for kind in ("archive", "verification")),
        ]
        book = agent.Book("run_0001")
        for line in lines:
            book.take(agent.from_json(line)[0])
        kinds = {kind for kind, _ in book.turns[0]["notes"]}
        tones = re.search(r"NOTE_TONES = \{(.*?)\}", agent.PAGE, re.S)
        assert tones
        self.assertEqual(len(kinds), 8)
        self.assertEqual(kinds - set(re.findall(r'^ +"?([a-z ]+)"?:', tones[1], re.M)), set())

    def test_the_turn_of_a_story_has_its_actions_as_they_were_written_and_what_became_of_each(
        self,
    ) -> None:
        self.recorded("--profile", "story")
        book = agent.book_of(self.run_folder())
        asked = [
            fate for turn in book.turns for stage in turn["stages"] for fate in stage.asked or ()
        ]
        self.assertEqual(asked[0]["action"]["name"], "double_click")
        self.assertEqual(asked[0]["became"], "done")
        self.assertIn("turn.stages", agent.PAGE)


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
        self.assertEqual([turn["sums"]["seconds"] for turn in book.turns], [4.0, 2.0])
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


class Held(unittest.TestCase):
    def notes(self, refused: str) -> list[tuple[str, str]]:
        book = agent.Book("run_0001")
        book.take(seams.record("run"))
        book.take(seams.record("intent", turn=1, tool="click", args={}))
        book.take(seams.record("result", turn=1, result="Not done.", refused=refused))
        return book.turns[0]["notes"]

    def test_a_pause_is_told_apart_from_a_refusal(self) -> None:
        self.assertEqual(self.notes("stale_frame"), [("held up", "Not done.")])
        self.assertEqual(self.notes("blocked_key"), [("refused", "Not done.")])


if __name__ == "__main__":
    unittest.main()
