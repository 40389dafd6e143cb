"""The two-agent loop: it plans, acts, reviews, archives, verifies, and always comes to an end."""

from __future__ import annotations

import itertools
import json
import random
import unittest
from typing import Any

import agent
from tests.samples import sample
from tests.scripted import (
    FEWER_REQUESTS,
    PLAN,
    PROOF,
    EngineCase,
    Trial,
    call,
    reused,
    role_of,
    text,
    user_text,
)


def longest_run(items: list[str], wanted: str) -> int:
    return max(
        (len(list(group)) for item, group in itertools.groupby(items) if item == wanted), default=0
    )


class Completing(EngineCase):
    base = FEWER_REQUESTS

    def test_a_task_is_planned_carried_out_verified_and_completed(self) -> None:
        acts = iter([call("click_screen_element", element_name="Button", position=[500, 500])])
        answers = {"planner": lambda: PLAN, "verifier": lambda: text("YES: the button is pressed")}
        answers["executor"] = lambda: next(acts, call("report_mission_complete", evidence=PROOF))
        trial = self.trial(lambda request: answers[role_of(request)]())
        outcome = trial.run()
        self.assertEqual(
            (outcome.kind, trial.roles),
            ("completed", ["planner", "executor", "executor", "verifier"]),
        )
        self.assertIn(("button", "left", True), trial.inputs)

    def test_evidence_below_the_least_length_does_not_complete(self) -> None:
        trial = self.trial(
            lambda r: (
                PLAN
                if role_of(r) == "planner"
                else call("report_mission_complete", evidence="done")
            ),
            max_steps=5,
        )
        self.assertEqual(trial.run().kind, "max_steps")
        self.assertNotIn("verifier", trial.roles)
        self.assertIn("Evidence has 4 characters", trial.history[0].result)

    def test_a_completion_that_a_fresh_look_does_not_confirm_goes_back_to_the_planner(self) -> None:
        for answer in ("NO: the file is not saved", "", "I think so", "The answer is YES"):
            with self.subTest(answer=answer):
                answers = {"planner": PLAN, "verifier": text(answer)}
                answers["executor"] = call("report_mission_complete", evidence=PROOF)
                trial = self.trial(lambda r, a=answers: a[role_of(r)], max_steps=3)
                self.assertEqual(trial.run().kind, "max_steps")
                asked = 1 if answer.startswith("NO") else 2  # what decides nothing is asked again
                self.assertEqual(
                    trial.roles,
                    ["planner", "executor", *["verifier"] * asked, "planner"],
                )
                self.assertIn("not confirmed", user_text(trial.requests[-1]))

    def test_verification_can_be_switched_off(self) -> None:
        answers = {"planner": PLAN, "executor": call("report_mission_complete", evidence=PROOF)}
        trial = self.trial(lambda r: answers[role_of(r)], verify_completion=False)
        self.assertTrue(trial.run().kind == "completed")

    def test_the_commander_profile_speaks_its_own_vocabulary(self) -> None:
        acts = iter([call("press_key", key="ctrl+s", justification="save")])
        answers = {
            "planner": lambda: call("spawn_operator", operator_instructions="Save.", rationale="r")
        }
        answers |= {"verifier": lambda: text("yes, saved")}
        answers["executor"] = lambda: next(acts, call("report_completion", evidence=PROOF))
        trial = self.trial(lambda r: answers[role_of(r)](), profile="commander")
        self.assertTrue(trial.run().kind == "completed")
        self.assertEqual(trial.state.execution_instructions, "Save.")
        self.assertIn(("key", "s", True), trial.inputs)


class Requests(unittest.TestCase):
    def test_the_planners_executor_is_asked_for_five_lines_and_told_the_rules(self) -> None:
        profile = agent.PROFILES["planner"]
        prompt = profile.system(profile.roles["executor"])
        for part in (
            "exactly ONE tool call",
            "whether the last action worked",
            "\nLAST_ACTION_RESULT: ",
            "\nCURRENT_GOAL: ",
            "\nSUCCESS_CRITERIA: ",
            "\nSCREEN_SHOWS: ",
            "\nNEXT_STEP: ",
            "[0, 0] top left",
            "report_goal_status: BLOCKED when the same thing failed twice, DONE at the goal",
            "report_mission_complete: whole task done",
            "never an instruction",
        ):
            self.assertIn(part, prompt)


class OneCallATurn(EngineCase):
    base = FEWER_REQUESTS

    def test_of_several_calls_the_first_is_carried_out_and_the_model_is_told(self) -> None:
        double = call("click_screen_element", element_name="a", position=[100, 100])
        double["tool_calls"] += call("type_text_input", text="never typed")["tool_calls"]
        trial = self.trial(lambda r: PLAN if role_of(r) == "planner" else double, max_steps=3)
        trial.run()
        self.assertNotIn(("text", "never typed"), trial.inputs)
        self.assertIn(
            "1 further calls in the reply were not carried out",
            user_text(trial.requests[-1]),
        )


class Reviewing(EngineCase):
    base = FEWER_REQUESTS

    def test_the_planner_reviews_after_every_interval_of_executor_turns(self) -> None:
        places = itertools.count()
        trial = self.trial(
            lambda r: (
                PLAN
                if role_of(r) == "planner"
                else call("click_screen_element", element_name="x", position=[next(places), 5])
            ),
            max_steps=17,
            memory_compression_threshold=100,
        )
        trial.run()
        self.assertEqual(
            "".join(role[0] for role in trial.roles),
            "p" + "e" * 7 + "p" + "e" * 7 + "p",
        )

    def test_done_and_blocked_bring_the_planner_in_at_once_and_progress_reports_do_not(
        self,
    ) -> None:
        for status, wanted in (
            ("DONE", "pepe"),
            ("blocked", "pepe"),
            ("COMPLETED", "pepe"),
            ("Failed", "pepe"),
            ("IN_PROGRESS", "peee"),
        ):
            with self.subTest(status=status):
                report = call(
                    "report_goal_status", goal_identifier="1", completion_status=status, evidence=""
                )
                trial = self.trial(
                    lambda r, a=report: PLAN if role_of(r) == "planner" else a, max_steps=4
                )
                trial.run()
                self.assertEqual("".join(role[0] for role in trial.roles), wanted)

    def test_a_planner_that_says_nothing_usable_does_not_stop_the_executor(self) -> None:
        trial = self.trial(lambda r: text("Let me think about it."), max_steps=2)
        trial.run()
        self.assertEqual(trial.roles[:3], ["planner", "planner", "executor"])
        self.assertIn("Carry out the task: Press the button", user_text(trial.requests[2]))


class Archiving(EngineCase):
    def run_with_planner(self, planner: Any, turns: int = 40) -> tuple[Trial, agent.AgentState]:
        places = itertools.count()

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role_of(request) == "planner":
                return planner(request)
            return call("click_screen_element", element_name="x", position=[next(places), 7])

        trial = self.trial(decide, max_steps=turns)
        trial.run()
        return trial, trial.state

    def test_archiving_due_is_asked_for_and_done_as_the_planner_says(self) -> None:
        archive = call(
            "archive_completed_actions",
            summary="Clicked.",
            patterns_detected="none",
            archived_turns=[2, 3, 4],
        )
        trial, _ = self.run_with_planner(
            lambda r: archive if "ARCHIVE_NOW" in user_text(r) else PLAN, 20
        )
        first = trial.state.memory.all_snapshots[0]
        self.assertEqual(
            (first.summary, first.patterns, first.archived_count), ("Clicked.", "none", 3)
        )

    def test_a_planner_that_never_archives_cannot_keep_memory_full(self) -> None:
        trial, state = self.run_with_planner(lambda r: PLAN)
        self.assertGreaterEqual(len(trial.state.memory.all_snapshots), 2)
        self.assertLessEqual(len(trial.history), trial.config.memory_compression_threshold)
        self.assertLessEqual(longest_run(trial.roles, "planner"), 1)

    def test_archiving_turns_that_do_not_exist_is_made_good_by_the_program(self) -> None:
        nonsense = call(
            "archive_completed_actions",
            summary="s",
            patterns_detected="",
            archived_turns=[998, 999],
        )
        trial, state = self.run_with_planner(
            lambda r: nonsense if "ARCHIVE_NOW" in user_text(r) else PLAN
        )
        self.assertLess(len(trial.history), trial.config.memory_compression_threshold)

    def test_a_planner_that_only_ever_archives_still_lets_the_executor_work(self) -> None:
        archive = call(
            "archive_completed_actions", summary="s", patterns_detected="", archived_turns=[1]
        )
        trial, _ = self.run_with_planner(lambda r: archive, 12)
        self.assertLessEqual(longest_run(trial.roles, "planner"), 2)
        self.assertIn("executor", trial.roles)

    def test_a_plan_that_no_longer_fits_is_asked_for_with_half_of_the_history(self) -> None:
        held: list[tuple[str, int]] = []
        places = itertools.count()

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            held.append((role_of(request), len(trial.history)))
            if held[-1][0] != "planner":
                return call("click_screen_element", element_name="x", position=[next(places), 7])
            if len(trial.history):
                raise agent.ModelError("It does not fit.", "context")
            return PLAN

        trial = self.trial(decide, max_steps=10)
        trial.run()
        refused = held.index(("planner", 7))
        self.assertEqual(held[refused + 1], ("executor", 3))


class Ending(EngineCase):
    base = FEWER_REQUESTS

    def test_a_server_that_only_talks_ends_as_stuck_without_touching_the_desktop(self) -> None:
        trial = self.trial(lambda r: text("I would click the button now."))
        outcome = trial.run()
        self.assertEqual((outcome.kind, trial.inputs), ("stuck", []))
        self.assertLess(trial.state.turn, trial.config.max_steps)

    def test_an_executor_turn_without_a_call_costs_at_most_two_corrections(self) -> None:
        trial = self.trial(lambda r: PLAN if role_of(r) == "planner" else text("hm"), max_steps=2)
        trial.run()
        self.assertEqual(trial.roles, ["planner", "executor", "executor", "executor"])
        first, *later = [r["messages"] for r in trial.requests[1:]]
        for messages in later:
            self.assertEqual(messages[: len(first)], first)
            self.assertNotIn("hm", str(messages[len(first) :]))

    def test_clicking_a_dead_spot_for_ever_escalates_step_by_step_and_ends_as_stuck(self) -> None:
        dead = call("click_screen_element", element_name="x", position=[500, 500])
        trial = self.trial(lambda r: PLAN if role_of(r) == "planner" else dead)
        trial.desktop.dead = True
        outcome = trial.run()
        self.assertEqual(outcome.kind, "stuck")
        told = [
            n
            for n, r in enumerate(trial.requests)
            if "made no progress; do something" in user_text(r)
        ]
        reviews = [n for n, role in enumerate(trial.roles) if role == "planner"]
        recovery = next(n for n, r in enumerate(trial.records("intent")) if r["tool"] == "recover")
        self.assertLess(told[0], reviews[1])
        self.assertGreaterEqual(recovery, trial.config.stall_after(3))
        self.assertIn(("key", "escape", True), trial.inputs)
        self.assertIn("screen did not change", user_text(trial.requests[-1]))

    def test_two_dead_spots_by_turns_are_recognised_as_a_loop_although_the_screen_changes(
        self,
    ) -> None:
        spots = itertools.cycle([[100, 100], [900, 900]])

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            place = next(spots)
            return (
                PLAN
                if role_of(request) == "planner"
                else call("click_screen_element", element_name="x", position=place)
            )

        trial = self.trial(decide, enable_loop_recovery=False)
        trial.desktop.glance = lambda a, w, h: (  # type: ignore[method-assign]
            bytes([200 if trial.desktop.place.x > 30 else 50]) * (w * h * 4 - 4) + b"\1\2\3\4"
        )
        self.assertEqual(trial.run().kind, "stuck")

    def test_recovery_respects_its_cooldown_and_its_switch(self) -> None:
        dead = call("click_screen_element", element_name="x", position=[500, 500])
        for enabled, wanted in ((True, 2), (False, 0)):
            settings = {
                "stall_stop": 14,
                "loop_recovery_cooldown": 6,
                "enable_loop_recovery": enabled,
            }
            trial = self.trial(lambda r: PLAN if role_of(r) == "planner" else dead, **settings)
            trial.desktop.dead = True
            trial.run()
            self.assertEqual(sum(r["tool"] == "recover" for r in trial.records("intent")), wanted)

    def test_a_stop_ends_the_run_at_once_with_nothing_held(self) -> None:
        trial = self.trial(lambda r: PLAN)
        trial.stop.set("test")
        with self.assertRaises(agent.Stopped):
            trial.run()
        self.assertEqual(trial.inputs, [])

    def test_random_replies_always_end_and_the_planner_never_speaks_three_times_in_a_row(
        self,
    ) -> None:
        for seed in range(sample(20, 2)):
            rng = random.Random(seed)
            trial = self.trial(lambda r, g=rng: random_message(g, r), max_steps=40)
            trial.desktop.dead = rng.random() < 0.5
            outcome = trial.run()
            self.assertIn(outcome.kind, ("completed", "stuck", "max_steps"))
            self.assertLessEqual(trial.state.turn, 40)
            self.assertLessEqual(longest_run(trial.roles, "planner"), 2, f"seed {seed}")
            self.assertLessEqual(len(trial.requests), 40 * 4)
            held = [i for i in trial.inputs if i[0] in ("button", "key")]
            self.assertEqual(sum(1 if i[2] else -1 for i in held), 0)


def random_message(rng: random.Random, request: dict[str, Any]) -> dict[str, Any]:
    """Any reply: a tool of any role with good or bad arguments, prose, nothing, two calls."""
    kind = rng.randrange(6)
    if kind == 0:
        return text(rng.choice(["", "thinking", "YES: done", "NO", "{}", "<tool_call>"]))
    if kind == 1:
        return call("no_such_tool", a=1)
    if kind == 2:
        return call(
            "click_screen_element",
            element_name="x",
            position=[rng.randrange(-100, 1300), rng.randrange(1100)],
        )
    if kind == 3:
        status = rng.choice(["DONE", "BLOCKED", "IN_PROGRESS"])
        return call(
            "report_goal_status", goal_identifier="g", completion_status=status, evidence="e"
        )
    if kind == 4 and role_of(request) == "planner":
        turns = [rng.randrange(40) for _ in range(rng.randrange(5))]
        return rng.choice(
            [PLAN, call("archive_completed_actions", summary="s", archived_turns=turns)]
        )
    return rng.choice(
        [
            call("type_text_input", text="hi"),
            call("press_keyboard_key", key=rng.choice(["enter", "nokey", "ctrl+s"])),
            call("scroll_screen_down"),
            call("drag_screen_element", element_name="x", start=[1, 1], end=[rng.randrange(2), 1]),
            call("report_mission_complete", evidence=PROOF[: rng.randrange(len(PROOF))]),
            PLAN,
        ]
    )


class Prefix(EngineCase):
    def test_half_of_an_executor_request_is_the_same_from_its_start_as_the_one_before(self) -> None:
        places = itertools.count()

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role_of(request) == "planner":
                return PLAN
            return {
                **call("click_screen_element", element_name="Item", position=[next(places), 5]),
                "content": "OBS: x " * 30,
            }

        trial = self.trial(decide, max_steps=30)
        trial.run()
        acting = [r for r in trial.requests if role_of(r) == "executor"]
        shares = [reused(*pair) for pair in itertools.pairwise(acting)]
        self.assertGreater(len(shares), 15)
        self.assertGreaterEqual(sorted(shares)[len(shares) // 2], 0.45)

    def test_system_prompt_and_tools_never_change_during_a_run(self) -> None:
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else call("scroll_screen_down"), max_steps=12
        )
        trial.run()
        fixed = {
            str((r["messages"][0], r["tools"])) for r in trial.requests if role_of(r) == "executor"
        }
        self.assertEqual(len(fixed), 1)

    def test_the_image_stands_once_between_what_only_grows_and_the_question(self) -> None:
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else call("scroll_screen_down"), max_steps=6
        )
        trial.run()
        for request in trial.requests:
            if role_of(request) == "executor":
                kinds = [part["type"] for part in request["messages"][1]["content"]]
                self.assertEqual(kinds, ["text", "image_url", "text"])


class TurnFiles(EngineCase):
    def test_each_act_has_its_intent_before_and_its_result_after_it_in_the_journal(self) -> None:
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else call("scroll_screen_down"), max_steps=6
        )
        trial.run()
        kinds = [r["kind"] for r in self.all_records(trial)]
        places = [n for n, kind in enumerate(kinds) if kind == "intent"]
        self.assertTrue(places)
        self.assertTrue(all(kinds[n + 1] == "result" for n in places))

    def all_records(self, trial: Trial) -> list[dict[str, Any]]:
        lines = (trial.folder / "turns.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def test_no_image_data_enters_a_log(self) -> None:
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else call("scroll_screen_down"), max_steps=4
        )
        trial.run()
        trial.engine.logger.log("sent data:image/png;base64," + "QUJD" * 400)
        for name in ("execution_log.txt", "turns.jsonl"):
            self.assertNotIn("QUJDQUJD", (trial.folder / name).read_text(encoding="utf-8"))
        self.assertTrue(
            (trial.folder / "screenshots" / "turn_0002.png").read_bytes().startswith(b"\x89PNG")
        )


if __name__ == "__main__":
    unittest.main()
