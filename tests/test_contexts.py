"""What each role is told of the run so far: words and never calls, and not more than fits."""

from __future__ import annotations

import itertools
import json
import re
import unittest
from typing import Any

import agent
from tests.scripted import FEWER_REQUESTS, EngineCase, call, in_words, role_of, text, user_text
from tests.seams import record

Request = dict[str, Any]
COVERED = "a message 'Access denied' covers the window and has a button OK"
# Every sentence another one, since what a model says again and again is cut.
LONG = " ".join(
    f"Row {n} of the list {n * 37} shows name, size and date {n * 91}." for n in range(24)
)
TO_DO = "click_element OK, to get rid of it"
WHY = "it is in the way"


def click(place: int, observed: str) -> Request:
    """The commander's operator clicks, and says what it sees."""
    told = call("click_element", label="OK", position=[place, 5], justification=WHY)
    sitrep = f"OBJ: open the settings\nDOD: the list is visible\nOBS: {observed}\nACT: {TO_DO}"
    return {**told, "content": sitrep}


def planner_click(place: int, shows: str) -> Request:
    told = call("click_screen_element", element_name="OK", position=[place, 5], reasoning=WHY)
    words = (
        "LAST_ACTION_RESULT: failed, nothing opened\nCURRENT_GOAL: open it\n"
        f"SUCCESS_CRITERIA: the list is visible\nSCREEN_SHOWS: {shows}\nNEXT_STEP: click again"
    )
    return {**told, "content": words}


def said_call(name: str, /, **arguments: Any) -> Request:
    """A call that its server left in the text, behind a sentence."""
    return text(f"A sentence.\n{in_words(name, **arguments)}")


class ContextCase(EngineCase):
    def contexts(self, profile: str, *acts: Request, **settings: Any) -> dict[str, list[str]]:
        """The texts of all requests to each role of a run in which the executor replies so."""
        plans = {
            "planner": call("update_execution_plan", instructions="Open it.", reasoning="first"),
            "commander": call("spawn_operator", operator_instructions="Open it.", rationale="1"),
        }
        replies = itertools.chain(acts, itertools.repeat(acts[-1]))
        trial = self.trial(
            lambda r: plans[profile] if role_of(r) == "planner" else next(replies),
            profile=profile,
            **{"max_steps": len(acts) + 2, "review_interval": len(acts), **settings},
        )
        trial.run()
        found: dict[str, list[str]] = {"planner": [], "executor": [], "verifier": []}
        for request in trial.requests:
            found[role_of(request)].append(user_text(request))
        return found

    def leader(self, *acts: Request) -> str:
        """What the commander's leader is told last."""
        return self.contexts("commander", *acts)["planner"][-1]


class TheLeader(ContextCase):
    """It has no eyes but the operator's report."""

    def test_reads_the_last_report_whole_and_of_older_ones_what_was_seen_and_done(self) -> None:
        silent = call("report_progress", objective_id="1", status="BLOCKED", evidence="")
        whole = f"OBJ: open the settings DOD: the list is visible OBS: {COVERED} ACT: {TO_DO}\n"
        told = self.leader(click(1, "a desktop"), click(200, COVERED))
        self.assertIn(f"LAST_REPORT (Turn_3): {whole}", told)
        self.assertIn(f"LAST_REPORT (Turn_2): {whole}", self.leader(click(1, COVERED), silent))
        told = self.leader(click(1, COVERED), click(200, LONG))
        self.assertIn(f"    Response: OBS: {COVERED} ACT: {TO_DO}\n", told)
        older = re.findall("Response: (.*)", told)
        self.assertLessEqual(max(map(len, older)), 140)
        self.assertIn("ACT: click_element OK", older[1])

    def test_a_report_that_must_be_cut_keeps_what_is_seen_and_done(self) -> None:
        (told,) = re.findall(r"LAST_REPORT \(Turn_2\): (.*)", self.leader(click(1, LONG)))
        self.assertTrue(told.startswith("OBS: Row 0 of the list"), told)
        self.assertIn(f"ACT: {TO_DO}", told)
        self.assertTrue(560 < len(told) <= 600)

    def test_fields_are_found_however_a_small_model_writes_them(self) -> None:
        for written in (
            "OBS: a desktop\nACT: click it",
            "**OBS:** a desktop\n**ACT:** click it",
            "OBS: a desktop ACT: click it",
            "Well.\n- *OBS*: a\n desktop\n- ACT : click it",
        ):
            told = self.leader({**click(1, ""), "content": f"{written} {LONG}"})
            wanted = r"LAST_REPORT \(Turn_2\): OBS: a desktop( -)? ACT: click it Row 0"
            self.assertRegex(told, wanted)


class ThePlanner(ContextCase):
    def test_reads_the_last_response_with_what_came_of_it_and_what_is_seen(self) -> None:
        last = self.contexts("planner", planner_click(1, COVERED), planner_click(200, LONG))
        (told,) = re.findall(r"LAST_REPORT \(Turn_3\): (.*)", last["planner"][-1])
        begin = "LAST_ACTION_RESULT: failed, nothing opened SCREEN_SHOWS: Row"
        self.assertEqual(told[: len(begin)], begin)
        self.assertLessEqual(len(told), 300)
        older = re.findall("Response: (.*)", last["planner"][-1])
        self.assertIn(f"SCREEN_SHOWS: {COVERED[:40]}", older[0])


class TheExecutor(ContextCase):
    def test_sees_why_it_acted_and_what_was_to_come_of_it_in_one_line_each(self) -> None:
        words = {"content": click(1, "x")["content"]}
        silent = {**call("click_element", label="OK", position=[5, 5]), **words}
        for profile, act, why in (
            ("planner", planner_click(1, "x"), WHY),
            ("commander", click(1, "x"), WHY),
            ("commander", silent, TO_DO),
        ):
            first, second = self.contexts(profile, act, act)["executor"][:2]
            self.assertNotIn("REASONING", first)
            expected = "EXPECTED_RESULT: the list is visible\n"
            self.assertIn(f"REASONING: {why}\n{expected}", second)


class ToldAgain(EngineCase):
    """Of a reply its words are told again, never its calls."""

    base = FEWER_REQUESTS

    def test_a_call_in_the_text_is_no_part_of_the_plan_or_of_a_report(self) -> None:
        def decide(request: Request) -> Request:
            if role_of(request) == "planner":
                return said_call("update_execution_plan", instructions="Scroll.")
            return said_call("scroll_screen_down")

        trial = self.trial(decide, max_steps=10)
        trial.run()
        self.assertEqual(trial.state.plan, "A sentence.")
        self.assertEqual({r["response_text"] for r in trial.records("action")}, {"A sentence."})
        for request in trial.requests:
            self.assertNotIn("<tool_call>", json.dumps(request["messages"]))

    def clicking(self, request: Request, number: int) -> Request:
        """The next step: a plan, or a click on another place."""
        if role_of(request) == "planner":
            return said_call("update_execution_plan", instructions="Click them all.")
        return said_call("click_screen_element", element_name="x", position=[number, 5])

    def test_a_model_with_tools_and_no_planner_does_not_outgrow_its_context(self) -> None:
        count = itertools.count()
        trial = self.trial(lambda r: self.clicking(r, next(count)), "native", max_steps=40)
        trial.run()
        self.assertLessEqual(len(trial.history), trial.state.memory.threshold)
        self.assertTrue(trial.state.memory.all_snapshots)
        sizes = [len(json.dumps(request)) for request in trial.requests]
        self.assertLess(max(sizes[20:]), 1.3 * max(sizes[:20]))

    def test_what_outgrows_the_context_is_archived_and_without_room_for_the_least_it_ends(
        self,
    ) -> None:
        most = 0

        def decide(request: Request) -> Request:
            size = len(json.dumps(request["messages"]))
            if size > most > 0:
                raise agent.ModelError("The context is full.", "context")
            return self.clicking(request, len(trial.requests))

        trial = self.trial(decide, max_steps=12, memory_compression_threshold=40)
        trial.run()
        most = max(len(json.dumps(r["messages"])) for r in trial.requests)
        trial = self.trial(decide, max_steps=30, memory_compression_threshold=40)
        self.assertEqual(trial.run().kind, "max_steps")
        self.assertTrue(trial.records("model_failed"))
        self.assertGreater(len(trial.records("archive")), 1)
        most = 1
        trial = self.trial(decide, max_steps=30)
        self.assertRaises(agent.ModelError, trial.run)
        self.assertEqual(len(trial.requests), 1)

    def test_the_last_action_is_not_offered_for_archiving(self) -> None:
        trial = self.trial(lambda r: text("-"), memory_compression_threshold=3, max_steps=6)
        for turn in (2, 3, 5):
            trial.state.memory.add_action(record("action", turn=turn, tool="press_keyboard_key"))
        trial.run()
        self.assertIn("among [2, 3].", user_text(trial.requests[0]))


if __name__ == "__main__":
    unittest.main()
