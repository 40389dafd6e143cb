"""What of a reply is told again in later requests: its words, never its calls, and not more than fits."""

from __future__ import annotations

import itertools
import json
import unittest
from typing import Any

import agent
from tests.scripted import FEWER_REQUESTS, EngineCase, in_words, role_of, text, user_text
from tests.seams import record

Request = dict[str, Any]


def said_call(name: str, /, **arguments: Any) -> Request:
    """A call that its server left in the text, behind a sentence."""
    return text(f"A sentence.\n{in_words(name, **arguments)}")


class ToldAgain(EngineCase):
    base = FEWER_REQUESTS

    def test_a_call_in_the_text_is_no_part_of_the_plan_or_of_a_report(self) -> None:
        def decide(request: Request) -> Request:
            if role_of(request) == "planner":
                return said_call("update_execution_plan", instructions="Scroll.")
            return said_call("scroll_screen_down")

        trial = self.trial(decide, max_steps=10)
        trial.run()
        self.assertEqual(trial.state.plan, "A sentence.")
        for line in trial.records("action"):
            self.assertEqual(line["response_text"], "A sentence.")
        for request in trial.requests:
            self.assertNotIn("<tool_call>", json.dumps(request["messages"]))

    def test_a_model_with_tools_and_no_planner_does_not_outgrow_its_context(self) -> None:
        places = itertools.count()
        trial = self.trial(
            lambda r: said_call(
                "click_screen_element", element_name="x", position=[next(places), 5]
            ),
            "native",
            max_steps=40,
        )
        trial.run()
        self.assertLessEqual(len(trial.history), trial.state.memory.threshold)
        self.assertTrue(trial.state.memory.all_snapshots)
        sizes = [len(json.dumps(request)) for request in trial.requests]
        self.assertLess(max(sizes[20:]), 1.3 * max(sizes[:20]))

    def test_what_outgrows_the_context_in_the_middle_of_a_run_is_archived(self) -> None:
        most = 0

        def decide(request: Request) -> Request:
            size = len(json.dumps(request["messages"]))
            if size > most > 0:
                raise agent.ModelError("The context is full.", "context")
            if role_of(request) == "planner":
                return said_call("update_execution_plan", instructions="Click them all.")
            place = [len(trial.requests), 5]
            return said_call("click_screen_element", element_name="x", position=place)

        trial = self.trial(decide, max_steps=12, memory_compression_threshold=40)
        trial.run()
        most = max(len(json.dumps(r["messages"])) for r in trial.requests)
        trial = self.trial(decide, max_steps=30, memory_compression_threshold=40)
        outcome = trial.run()
        self.assertEqual(outcome.kind, "max_steps")
        self.assertTrue(trial.records("model_failed"))
        self.assertGreater(len(trial.records("archive")), 1)

    def test_a_context_without_room_for_the_least_ends_the_run(self) -> None:
        def decide(request: Request) -> Request:
            raise agent.ModelError("The context is full.", "context")

        trial = self.trial(decide, max_steps=30)
        with self.assertRaises(agent.ModelError):
            trial.run()
        self.assertEqual(len(trial.requests), 1)

    def test_the_last_action_is_not_offered_for_archiving(self) -> None:
        trial = self.trial(lambda r: text("-"), memory_compression_threshold=3, max_steps=6)
        for turn in (2, 3, 5):
            trial.state.memory.add_action(record("action", turn=turn, tool="press_keyboard_key"))
        trial.run()
        self.assertIn("among [2, 3].", user_text(trial.requests[0]))


if __name__ == "__main__":
    unittest.main()
