"""What of a reply is told again in later requests: its words, never its calls, and not more than fits."""

from __future__ import annotations

import itertools
import json
import unittest
from typing import Any

import agent
from tests.scripted import EngineCase, role_of, text

Request = dict[str, Any]


def said_call(name: str, /, **arguments: Any) -> Request:
    """A call that its server left in the text, behind a sentence."""
    return text(f"A sentence.\n{agent.call_in_text(name, json.dumps(arguments))}")


class ToldAgain(EngineCase):
    def test_a_call_in_the_text_is_no_part_of_the_plan_or_of_a_report(self) -> None:
        def decide(request: Request) -> Request:
            if role_of(request) == "planner":
                return said_call("update_execution_plan", instructions="Scroll.")
            return said_call("scroll_screen_down")

        engine, state = self.engine(decide, max_steps=10)
        agent.run_agent(engine, state)
        self.assertEqual(state.plan, "A sentence.")
        for record in self.records(engine, "action"):
            self.assertEqual(record["response_text"], "A sentence.")
        for request in engine.voice.server.requests:
            self.assertNotIn("<tool_call>", json.dumps(request["messages"]))

    def test_a_model_with_tools_and_no_planner_does_not_outgrow_its_context(self) -> None:
        places = itertools.count()
        engine, state = self.engine(
            lambda r: said_call(
                "click_screen_element", element_name="x", position=[next(places), 5]
            ),
            "native",
            max_steps=40,
        )
        agent.run_agent(engine, state)
        self.assertLessEqual(len(state.memory.active_history), state.memory.threshold)
        self.assertTrue(state.memory.all_snapshots)
        sizes = [len(json.dumps(request)) for request in engine.voice.server.requests]
        self.assertLess(max(sizes[20:]), 1.3 * max(sizes[:20]))

    def test_what_outgrows_the_context_in_the_middle_of_a_run_is_archived(self) -> None:
        most = 0

        def decide(request: Request) -> Request:
            size = len(json.dumps(request["messages"]))
            if size > most > 0:
                raise agent.ModelError("The context is full.", "context")
            if role_of(request) == "planner":
                return said_call("update_execution_plan", instructions="Click them all.")
            place = [len(engine.voice.server.requests), 5]
            return said_call("click_screen_element", element_name="x", position=place)

        engine, state = self.engine(decide, max_steps=12, memory_compression_threshold=40)
        agent.run_agent(engine, state)
        most = max(len(json.dumps(r["messages"])) for r in engine.voice.server.requests)
        engine, state = self.engine(decide, max_steps=30, memory_compression_threshold=40)
        outcome = agent.run_agent(engine, state)
        self.assertEqual(outcome.kind, "max_steps")
        self.assertTrue(self.records(engine, "model_failed"))
        self.assertGreater(len(self.records(engine, "archive")), 1)

    def test_a_context_without_room_for_the_least_ends_the_run(self) -> None:
        def decide(request: Request) -> Request:
            raise agent.ModelError("The context is full.", "context")

        engine, state = self.engine(decide, max_steps=30)
        with self.assertRaises(agent.ModelError):
            agent.run_agent(engine, state)
        self.assertEqual(len(engine.voice.server.requests), 1)

    def test_the_last_action_is_not_offered_for_archiving(self) -> None:
        engine, state = self.engine(lambda r: text("-"))
        for turn in (2, 3, 5):
            state.memory.add_action(agent.ActionRecord(turn, "press_keyboard_key"))
        state.memory.threshold = 3
        asked = agent.planner_question(state, engine.config, agent.PLANNER_REPORT)
        self.assertIn("among [2, 3].", asked)


if __name__ == "__main__":
    unittest.main()
