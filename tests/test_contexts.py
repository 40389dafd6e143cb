"""What each role is told of the run so far: the leader has no eyes but the operator's report.

python -m tests.test_contexts print     prints the contexts of a scripted run of both profiles
"""

from __future__ import annotations

import itertools
import re
import sys
import unittest
from typing import Any

import agent
from tests.scripted import EngineCase, call, role_of, text, user_text

COVERED = "a message 'Access denied' covers the window and has a button OK"
# Every sentence another one, since what a model says again and again is cut.
LONG = " ".join(
    f"Row {n} of the list {n * 37} shows name, size and date {n * 91}." for n in range(24)
)


def said(message: dict[str, Any], content: str) -> dict[str, Any]:
    """A reply that calls a tool and says something, too."""
    return {**message, "content": content}


def sitrep(observed: str, act: str = "click_element OK, to get rid of it") -> str:
    return f"OBJ: open the settings\nDOD: the list is visible\nOBS: {observed}\nACT: {act}"


def report(shows: str, result: str = "failed, nothing opened") -> str:
    return (
        f"LAST_ACTION_RESULT: {result}\nCURRENT_GOAL: open it\n"
        f"SUCCESS_CRITERIA: the list is visible\nSCREEN_SHOWS: {shows}\nNEXT_STEP: click again"
    )


def commander_click(place: int, observed: str) -> dict[str, Any]:
    """The operator clicks, and says what it sees."""
    message = call(
        "click_element", label="OK", position=[place, 5], justification="it is in the way"
    )
    return said(message, sitrep(observed))


def planner_click(place: int, shows: str) -> dict[str, Any]:
    message = call(
        "click_screen_element", element_name="OK", position=[place, 5], reasoning="it is in the way"
    )
    return said(message, report(shows))


class ContextCase(EngineCase):
    def contexts(
        self, profile: str, acts: list[dict[str, Any]], **settings: Any
    ) -> dict[str, list[str]]:
        """The texts of all requests to each role of a run in which the executor replies so."""
        order = {"planner": "Open the settings.", "commander": "Open them, sergeant."}[profile]
        plans = {
            "planner": call("update_execution_plan", instructions=order, reasoning="first"),
            "commander": call("spawn_operator", operator_instructions=order, rationale="first"),
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


class TheLeader(ContextCase):
    def test_reads_the_last_report_whole(self) -> None:
        acts = [commander_click(1, "a desktop"), commander_click(200, COVERED)]
        last = self.contexts("commander", acts)["planner"][-1]
        self.assertIn(
            "LAST_REPORT (Turn_3): OBJ: open the settings DOD: the list is visible"
            f" OBS: {COVERED} ACT: click_element OK, to get rid of it\n",
            last,
        )

    def test_reads_of_older_reports_what_was_seen_and_done(self) -> None:
        acts = [commander_click(1, COVERED), commander_click(200, LONG)]
        last = self.contexts("commander", acts)["planner"][-1]
        self.assertIn(
            f"    Response: OBS: {COVERED} ACT: click_element OK, to get rid of it\n", last
        )
        older = re.findall("Response: (.*)", last)
        self.assertLessEqual(max(map(len, older)), 140)
        self.assertIn("ACT: click_element OK", older[1])

    def test_a_report_that_must_be_cut_keeps_what_is_seen_and_done(self) -> None:
        last = self.contexts("commander", [commander_click(1, LONG)])["planner"][-1]
        told = re.search(r"LAST_REPORT \(Turn_2\): (.*)", last)
        assert told
        self.assertTrue(told[1].startswith("OBS: Row 0 of the list"), told[1])
        self.assertIn("ACT: click_element OK, to get rid of it", told[1])
        self.assertLessEqual(len(told[1]), 600)
        self.assertGreater(len(told[1]), 560)

    def test_reads_the_evidence_of_a_report_on_an_objective(self) -> None:
        for status in ("BLOCKED", "DONE"):
            proof = f"{status}: {LONG}"[:400].strip()
            act = call("report_progress", objective_id="1", status=status, evidence=proof)
            last = self.contexts("commander", [act])["planner"][-1]
            self.assertIn(f"report_progress -> Goal status: 1 -> {status}\n", last)
            self.assertIn(f"    Evidence: {proof}\n", last)

    def test_reads_the_last_report_even_if_a_turn_without_one_came_after_it(self) -> None:
        silent = call("report_progress", objective_id="1", status="BLOCKED", evidence="")
        last = self.contexts("commander", [commander_click(1, COVERED), silent])["planner"][-1]
        self.assertIn("LAST_REPORT (Turn_2): OBJ: open the settings", last)

    def test_is_told_the_brief_and_when_the_next_review_comes(self) -> None:
        told = self.contexts("commander", [commander_click(1, "x")], review_interval=5)
        self.assertIn("NEXT_REVIEW: after 5 turns at the latest", told["planner"][0])
        self.assertIn("CURRENT_BRIEF:\nOpen them, sergeant.", told["executor"][0])
        self.assertNotIn("INSTRUCTIONS", told["executor"][0])

    def test_its_prompt_says_how_modes_switch(self) -> None:
        profile = agent.PROFILES["commander"]
        prompt = profile.system(profile.roles["planner"])
        self.assertIn("spawn_operator switches to EXECUTION", prompt)
        self.assertIn("switches back at DONE, BLOCKED", prompt)
        self.assertIn("NEXT_REVIEW", prompt)

    def test_reads_the_reason_of_an_operator_that_says_nothing(self) -> None:
        act = call("click_element", label="OK", position=[5, 5], justification="it is in the way")
        last = self.contexts("commander", [act])["planner"][-1]
        self.assertIn("LAST_REPORT (Turn_2): it is in the way", last)


class ThePlan(ContextCase):
    def test_is_told_with_as_many_characters_as_each_description_says(self) -> None:
        for profile, chars in (("planner", 400), ("commander", 500)):
            with self.subTest(profile):
                trial = self.trial(lambda _: text("-"), profile, max_steps=1)
                trial.state.plan = "p" * 900
                trial.run()
                told = re.search(r"CURRENT_PLAN:\n(.*)", user_text(trial.requests[0]))
                assert told
                self.assertEqual(len(told[1]), chars)


class ThePlanner(ContextCase):
    def test_reads_the_last_response_with_what_came_of_it_and_what_is_seen(self) -> None:
        acts = [planner_click(1, COVERED), planner_click(200, LONG)]
        last = self.contexts("planner", acts)["planner"][-1]
        told = re.search(r"LAST_REPORT \(Turn_3\): (.*)", last)
        assert told
        self.assertTrue(
            told[1].startswith("LAST_ACTION_RESULT: failed, nothing opened SCREEN_SHOWS: Row")
        )
        self.assertLessEqual(len(told[1]), 300)
        self.assertIn(f"SCREEN_SHOWS: {COVERED[:40]}", re.findall("Response: (.*)", last)[0])

    def test_its_instructions_keep_their_name(self) -> None:
        told = self.contexts("planner", [planner_click(1, "x")])
        self.assertIn("INSTRUCTIONS:\nOpen the settings.", told["executor"][0])


class TheExecutor(ContextCase):
    def test_sees_why_it_acted_and_what_was_to_come_of_it_in_one_line_each(self) -> None:
        acts = [planner_click(1, "x"), planner_click(200, "x")]
        first, second = self.contexts("planner", acts)["executor"][:2]
        self.assertNotIn("REASONING", first)
        self.assertIn(
            "LAST_ACTION: Clicked: OK\nREASONING: it is in the way\n"
            "EXPECTED_RESULT: the list is visible\n",
            second,
        )

    def test_the_operator_sees_them_under_its_own_names(self) -> None:
        act = said(
            call("click_element", label="OK", position=[5, 5]), sitrep("x", "click OK, it is old")
        )
        second = self.contexts("commander", [act, act])["executor"][1]
        self.assertIn(
            "REASONING: click OK, it is old\nEXPECTED_RESULT: the list is visible\n", second
        )

    def test_the_history_only_grows_at_its_end(self) -> None:
        acts = [commander_click(number, f"{number} {LONG}") for number in range(5)]
        texts = self.contexts("commander", acts)["executor"]
        histories = [one.partition("\nWINDOW:")[0] for one in texts]
        for before, after in itertools.pairwise(histories[1:]):
            self.assertTrue(after.startswith(before))


class Reports(ContextCase):
    def test_fields_are_found_however_a_small_model_writes_them(self) -> None:
        for written in (
            "OBS: a desktop\nACT: click it",
            "**OBS:** a desktop\n**ACT:** click it",
            "OBS: a desktop ACT: click it",
            "Well.\n- *OBS*: a\n desktop\n- ACT : click it",
        ):
            reply = said(call("click_element", label="OK", position=[1, 5]), f"{written} {LONG}")
            last = self.contexts("commander", [reply])["planner"][-1]
            self.assertRegex(
                last, r"LAST_REPORT \(Turn_2\): OBS: a desktop( -)? ACT: click it Row 0"
            )


def print_contexts() -> None:
    """The contexts of a scripted run, the last of each role."""
    for profile, click in (("commander", commander_click), ("planner", planner_click)):
        case = TheLeader()
        case.setUp()
        report_tool = {"commander": "report_progress", "planner": "report_goal_status"}[profile]
        names = agent.PROFILES[profile].vocabulary.arguments
        blocked = call(
            report_tool,
            **{
                names.get("goal_identifier", "goal_identifier"): "settings",
                names.get("completion_status", "completion_status"): "BLOCKED",
                "evidence": f"After two clicks {COVERED}.",
            },
        )
        texts = case.contexts(profile, [click(1, "a desktop"), click(300, COVERED), blocked])
        for role in ("planner", "executor"):
            name = agent.PROFILES[profile].roles[role].name
            print(f"==== {profile}: {name}\n{texts[role][-1]}\n")
        case.doCleanups()


if __name__ == "__main__":
    if "print" in sys.argv:
        print_contexts()
    else:
        unittest.main()
