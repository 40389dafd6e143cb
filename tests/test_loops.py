"""What every profile's loop promises, and the loop of two agents: it plans, acts, reviews, archives, always ends."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import agent
from tests.scripted import (
    FEWER_REQUESTS,
    PLAN,
    PROOF,
    EngineCase,
    Trial,
    call,
    in_words,
    qwen,
    role_of,
    text,
    user_text,
)
from tests.seams import record

Json = dict[str, Any]
WORDS = text("I would click the button now.")


def story(*actions: Json, observation: str = "I see it.") -> Json:
    """A reply as profile story wants it."""
    said = {"observation": observation, "bboxes": [], "actions": list(actions)}
    return text(json.dumps(said))


CLICK = {
    "planner": call("click_screen_element", element_name="Button", position=[500, 500]),
    "commander": call("click_element", label="Button", position=[500, 500]),
    "chat": call("click_element", label="Button", box=[500, 500]),
    "pointer": call("click_mouse"),
    "story": story({"name": "click", "x1": 500, "y1": 500}),
    "native": qwen("left_click", coordinate=[500, 500]),
}
CLAIM = {
    "planner": call("report_mission_complete", evidence=PROOF),
    "commander": call("report_completion", evidence=PROOF),
    "chat": text("It is pressed."),
    "pointer": text("It is pressed."),
    "story": story({"name": "done"}, observation=PROOF),
    "native": qwen("terminate", status="success"),
}
ASK = {
    "story": story({"name": "ask", "question": "Which file?"}),
    "native": qwen("interact", text="Which file?"),
    **dict.fromkeys(
        ("planner", "commander", "chat", "pointer"), call("ask_person", question="Which file?")
    ),
}
PLANS = {
    "planner": PLAN,
    "commander": call("spawn_operator", operator_instructions="Click it.", rationale="first"),
}
NO_STOP = {"stall_stop": 10}  # a story goes on where no limit is set


class Contract:
    """What every loop promises, whatever profile it runs; a class of tests is made of it for each."""

    profile = ""
    base = FEWER_REQUESTS

    def saying(self, *replies: Json, verdict: str = "YES: so it is", **settings: Any) -> Trial:
        """A run whose acting model says these one after the other, the last again and again."""
        left = list(replies)

        def decide(request: Json) -> Json:
            if role_of(request) == "verifier":
                return text(verdict)
            if role_of(request) == "planner":
                return PLANS[self.profile]
            return left.pop(0) if len(left) > 1 else left[0]

        if self.profile == "native":
            settings = {"executor_grammar": "qwen3-vl", **settings}
        trial = self.trial(decide, self.profile, **settings)
        self.begin(trial)
        return trial

    def clicking(self, **settings: Any) -> Trial:
        first = [call("take_screenshot")] if self.profile == "pointer" else []
        return self.saying(*first, CLICK[self.profile], **settings)

    def test_a_stop_ends_the_run_before_anything_is_pressed(self) -> None:
        trial = self.clicking()
        trial.stop.set("test")
        self.assertRaises(agent.Stopped, trial.run)
        self.assertEqual(trial.inputs, [])

    def test_words_alone_press_nothing_and_the_run_ends(self) -> None:
        trial = self.saying(WORDS, **NO_STOP)
        asks = agent.PROFILES[self.profile].loop in (
            "chat",
            "story",
        )  # whether words may be the end
        wanted = "completed" if asks else "stuck"
        self.assertEqual((trial.run().kind, trial.inputs), (wanted, []))
        self.assertLess(trial.state.turn, trial.config.max_steps)

    def test_a_dead_spot_is_told_of_then_left_by_the_recovery_keys_then_the_end(self) -> None:
        trial = self.clicking(max_steps=40, **NO_STOP)
        trial.desktop.dead = True
        self.assertEqual(trial.run().kind, "stuck")
        asked = str(trial.requests)
        self.assertIn("no progress", asked)
        if self.profile not in PLANS:  # there the planner is asked for another way
            self.assertIn("The program pressed Escape", asked)
        tools = [entry["tool"] for entry in trial.records("intent")]
        self.assertGreaterEqual(tools.index("recover"), 3)
        self.assertIn(("key", "escape", True), trial.inputs)
        held = [event[2] for event in trial.inputs if event[0] in ("button", "key")]
        self.assertEqual(held.count(True), held.count(False))

    def test_a_claim_counts_when_a_fresh_look_confirms_it_and_what_is_missing_is_told(self) -> None:
        for verdict, ends in (("YES: it is", True), ("NO: it is grey", False)):
            settings = {"max_steps": 4, "verify_completion": True, "verdict": verdict}
            trial = self.saying(CLAIM[self.profile], **settings)
            self.assertEqual(trial.run().kind == "completed", ends)
            told = str([one for one in trial.requests if role_of(one) != "verifier"][1:])
            self.assertEqual("it is grey" in told, not ends)

    def test_nothing_is_done_in_a_window_that_came_up_while_the_model_was_thinking(self) -> None:
        trial = self.clicking(max_steps=3)
        plain = trial.desktop.foreground()
        trial.desktop.foreground = lambda: replace(plain, handle=len(trial.requests))
        trial.run()
        self.assertEqual(trial.inputs, [])

    def test_after_a_pause_nothing_is_done_before_a_fresh_look(self) -> None:
        trial = self.clicking(max_steps=6)
        look, decide = trial.engine.eyes.look, trial.server.complete
        events: list[str] = []

        def paused(body: bytes) -> agent.Reply:
            reply = decide(body)
            if reply.message == CLICK[self.profile] and "pause" not in events:
                trial.stop.paused = "test"
                events[:] = ["pause"]
                trial.clock.at(30, lambda: setattr(trial.stop, "paused", ""))
            return reply

        trial.server.complete = paused
        trial.engine.eyes.look = lambda *name: (events.append("look"), look(*name))[1]
        trial.desktop.button = lambda name, down: events.append("press")
        trial.run()
        self.assertLess(events.index("look"), events.index("press"))

    def test_a_dry_run_presses_nothing_and_is_told_to_each_role(self) -> None:
        trial = self.clicking(dry_run=True, max_steps=3)
        trial.run()
        self.assertEqual(trial.inputs, [])
        for request in trial.requests:
            self.assertIn("DRY RUN", str(request["messages"]))

    def test_what_the_person_says_is_told_once(self) -> None:
        trial = self.clicking(max_steps=3)
        trial.hear("press the green one")
        trial.run()
        self.assertIn("HINT FROM THE PERSON: press the green one", str(trial.requests[:2]))
        if agent.PROFILES[self.profile].loop != "chat":  # there it stays a part of what was said
            self.assertNotIn("green one", str(trial.requests[2:]))

    def test_what_the_person_says_is_told_until_a_reply_can_be_used(self) -> None:
        """Else an act would come from a model that has never heard of it."""
        if agent.PROFILES[self.profile].loop == "chat":
            return  # there words alone are a reply
        lost = 1 if self.profile == "story" else 4  # more than a turn's corrections
        trial = self.saying(*[WORDS] * lost, CLICK[self.profile], max_steps=4)
        trial.hear("press the green one")
        trial.run()
        asked = [str(one) for one in trial.requests if role_of(one) == "executor"]
        told = ["HINT FROM THE PERSON: press the green one" in one for one in asked]
        self.assertEqual(told[: lost + 2], [True] * (lost + 1) + [False])

    def test_the_person_is_asked_at_most_three_times_and_the_answer_told(self) -> None:
        for answer in (r"C:\Bob's\a.txt", None):
            questions: list[str] = []
            own = {"executor_grammar": "gui-owl-1.5"} if self.profile == "native" else {}
            trial = self.saying(ASK[self.profile], max_steps=12, stall_stop=8, **own)
            trial.engine.actuator.person.answers = lambda q, a=answer, n=questions: n.append(q) or a
            self.assertIn(trial.run().kind, ("stuck", "max_steps"))
            self.assertEqual(questions, ["The model asks: Which file?"] * 3)
            # As it is: what a model reads with two backslashes it types with two.
            told = f'The person answers: "{answer}"' if answer else "Nobody is there"
            texts = [record["result"] for record in trial.records("action")]
            self.assertIn(told, " ".join(texts))
            self.assertIn(told.partition(":")[0], str(trial.requests[1:]))
            self.assertEqual(trial.inputs, [])

    def test_each_act_has_its_intent_before_its_result_after_it_and_no_log_an_image(self) -> None:
        trial = self.clicking(max_steps=4)
        trial.run()
        kinds = [r["kind"] for r in trial.records() if r["kind"] not in ("look", "stage")]
        acts = [n for n, kind in enumerate(kinds) if kind == "intent"]
        self.assertTrue(acts)
        self.assertEqual({kinds[n + 1] for n in acts}, {"result"})
        for file in trial.folder.glob("*.*"):
            if file.suffix != ".png":
                self.assertNotRegex(file.read_text("utf-8"), "[A-Za-z0-9+/]{200}")

    def test_an_act_that_may_have_been_done_is_told_and_not_repeated(self) -> None:
        old = self.saying(WORDS)
        old.write(record("intent", turn=3, tool="type_text", args={"text": "hello"}))
        old.close()
        trial = self.trial(lambda r: WORDS, self.profile, old.folder, max_steps=5)
        trial.resume()
        trial.run()
        self.assertIn("ended in the middle of it", str(trial.requests[0]["messages"]))
        self.assertEqual(trial.inputs, [])

    def test_it_is_told_too_where_the_resumed_run_ended_before_its_first_turn(self) -> None:
        old = self.saying(WORDS)
        old.write(record("intent", turn=3, tool="type_text", args={"text": "hello"}))
        old.close()
        ended = self.trial(lambda r: WORDS, self.profile, old.folder, max_steps=5)
        ended.resume()
        ended.close()
        trial = self.trial(lambda r: WORDS, self.profile, old.folder, max_steps=5)
        trial.resume()
        trial.run()
        self.assertIn("ended in the middle of it", str(trial.requests[0]["messages"]))


for name in CLICK:
    globals()[name.title()] = type(name.title(), (Contract, EngineCase), {"profile": name})


class TwoAgents(EngineCase):
    base = FEWER_REQUESTS

    def playing(self, executor: Any, planner: Any = PLAN, **settings: Any) -> Trial:
        """A planner's run, ready; each role says its reply, or what a function of the request gives."""
        said = {"planner": planner, "executor": executor, "verifier": text("YES: it is")}

        def decide(request: Json) -> Json:
            reply = said[role_of(request)]
            return reply(request) if callable(reply) else reply

        return self.trial(decide, **settings)

    def clicks(self) -> Any:
        """Clicks on one place after the other."""
        places = itertools.count()
        return lambda _: call("click_screen_element", element_name="x", position=[next(places), 7])

    def test_a_planner_that_only_archives_speaks_twice_in_a_row(self) -> None:
        archive = call("archive_completed_actions", summary="s", archived_turns=[1])
        trial = self.playing(self.clicks(), archive, max_steps=12, described=True)
        trial.run()
        roles = "".join(role_of(request)[0] for request in trial.requests)
        self.assertIn("pp", roles)
        self.assertNotIn("ppp", roles)

    def test_memory_never_stays_full_whatever_the_planner_archives(self) -> None:
        """As described, what was archived as wanted is kept; else the program archives by itself."""
        for turns in ([2, 3, 4], [998, 999], None):
            archive = {"summary": "Clicked.", "patterns_detected": "none", "archived_turns": turns}
            wanted = call("archive_completed_actions", **archive) if turns else PLAN
            trial = self.playing(
                self.clicks(),
                lambda r, a=wanted: a if "ARCHIVE_NOW" in user_text(r) else PLAN,
                max_steps=40,
                review_interval=7,
                described=turns is not None,
            )
            trial.run()
            archived = trial.state.memory.all_snapshots
            self.assertGreater(len(archived), 0)
            self.assertLessEqual(
                len(trial.state.memory.active_history), trial.config.memory_compression_threshold
            )
            if turns == [2, 3, 4]:
                self.assertEqual((archived[0].summary, archived[0].turns), ("Clicked.", (2, 3, 4)))

    def test_two_dead_spots_by_turns_are_a_loop_although_the_screen_changes(self) -> None:
        spots = itertools.cycle([[100, 100], [900, 900]])
        trial = self.playing(
            lambda _: call("click_screen_element", element_name="x", position=next(spots)),
            enable_loop_recovery=False,
        )
        trial.desktop.glance = lambda a, w, h: (  # type: ignore[method-assign]
            bytes([200 if trial.desktop.place.x > 30 else 50]) * (w * h * 4 - 4) + b"\1\2\3\4"
        )
        self.assertEqual(trial.run().kind, "stuck")

    def test_a_name_that_is_nearly_a_tools_is_told_with_the_one_that_is_meant(self) -> None:
        for name, told in (
            ("start_app", "(start_app is the tool open_app.)"),
            ("press_key", "(press_key is the tool press_keyboard_key.)"),
            ("open_app", ""),
            ("my_file", ""),
            ('"press_key"', ""),  # a text
            ("do_it", ""),
        ):
            words = f"Use {name} for Notepad."
            trial = self.playing(
                self.clicks(), call("update_execution_plan", instructions=words), max_steps=1
            )
            trial.run()
            asked = next(user_text(r) for r in trial.requests if role_of(r) == "executor")
            self.assertIn(f"INSTRUCTIONS:\n{words} {told}".rstrip() + "\n\n", asked)

    def test_a_goal_is_neither_done_nor_blocked_before_anything_was_done(self) -> None:
        def reports(status: str) -> Json:
            given = {"goal_identifier": "1", "completion_status": status}
            return call("report_goal_status", **given)

        for status in ("BLOCKED", "DONE"):
            trial = self.playing(reports(status), max_steps=3)
            trial.run()
            self.assertEqual(trial.server.roles, ["planner"] + ["executor"] * 3)
            self.assertIn("not accepted, since nothing was done yet", user_text(trial.requests[2]))
            acts = iter([call("press_keyboard_key", key="tab")])
            trial = self.playing(lambda _, s=status, a=acts: next(a, reports(s)), max_steps=3)
            trial.run()
            self.assertEqual(trial.server.roles[:4], ["planner", "executor", "executor", "planner"])
        trial = self.playing(reports("IN_PROGRESS"), max_steps=3)
        trial.run()
        self.assertIn("not accepted, since nothing was done yet", user_text(trial.requests[2]))

    def test_the_executor_is_asked_for_the_next_step_and_for_the_first_one_before_any_was_done(
        self,
    ) -> None:
        for profile, press, orders in (
            ("planner", call("press_keyboard_key", key="tab"), "INSTRUCTIONS ask"),
            ("commander", call("press_key", key="tab"), "CURRENT_BRIEF asks"),
        ):
            named = orders.split()[0]
            replies = itertools.chain([call("wait", seconds=1)], itertools.repeat(press))

            def decide(request: Json, plan: Json = PLANS[profile], rest: Any = replies) -> Json:
                return plan if role_of(request) == "planner" else next(rest)

            trial = self.trial(decide, profile, max_steps=3)
            trial.run()
            asked = [
                user_text(r).splitlines()[-1] for r in trial.requests if role_of(r) != "planner"
            ]
            first = f"Nothing was done yet. Do the first step of {named}: call one tool."
            later = f"If the last action worked, do what {orders} for next: call one tool."
            self.assertEqual(asked[:3], [first, first, later], profile)

    def test_in_a_next_task_the_executor_is_told_of_turns_that_it_has(self) -> None:
        trial = self.playing(self.clicks(), max_steps=3)
        trial.state.first = trial.state.turn = 60
        trial.run()
        told = [re.findall(r"CURRENT_TURN: (\d+) of (\d+)", str(r)) for r in trial.requests]
        self.assertEqual([*itertools.chain(*told)], [(turn, "64") for turn in ("62", "63", "64")])

    def test_after_a_question_at_the_console_the_window_of_before_is_in_front_again(self) -> None:
        delete = call("click_screen_element", element_name="Delete", position=[500, 500])
        key = call("press_keyboard_key", key="a")
        for question in (ASK["planner"], delete):
            replies = iter((question, key))
            trial = self.playing(lambda _, left=replies: next(left), max_steps=2)
            plain = trial.desktop.foreground()
            fronts = [plain]

            def asked(_: str, fronts: list[Any] = fronts, plain: Any = plain) -> Any:
                fronts.append(replace(plain, handle=7, own=True))
                return ""

            trial.desktop.foreground = lambda fronts=fronts: fronts[-1]
            trial.desktop.bring_to_front = fronts.append
            trial.engine.actuator.person.answers = asked
            trial.ask(asked)
            trial.run()
            self.assertIn(("key", "a", True), trial.inputs)

    def test_a_question_is_put_while_the_desktop_is_locked(self) -> None:
        def locked() -> agent.Window:
            raise agent.Win32Error("OpenInputDesktop failed")

        def decide(_: Json) -> Json:  # by when the look is taken
            trial.desktop.foreground = locked
            return ASK["planner"]

        def asked(_: str) -> str:
            trial.desktop.foreground = plain
            return "a.txt"

        trial = self.playing(decide, max_steps=1)
        plain = trial.desktop.foreground
        trial.engine.actuator.person.answers = asked
        self.assertEqual(trial.run().kind, "max_steps")


class Room(EngineCase):
    base = FEWER_REQUESTS

    def clicking(self, request: Json, number: int) -> Json:
        """The next step, whose call its server left in the text."""
        name, given = "click_screen_element", {"element_name": "x", "position": [number, 5]}
        if role_of(request) == "planner":
            name, given = "update_execution_plan", {"instructions": "Click them all."}
        return text(f"A sentence.\n{in_words(name, **given)}")

    def test_what_ends_a_run_before_its_first_turn_is_its_outcome(self) -> None:
        def begin(run: agent.Run) -> Any:
            raise agent.End(agent.Outcome("stuck", "Nothing opens."))

        trial = self.trial(lambda request: text("Done."))
        self.assertEqual(agent.run_agent(trial.engine, begin).text, "Nothing opens.")

    def test_a_model_with_tools_and_no_planner_does_not_outgrow_its_context(self) -> None:
        count = itertools.count()
        trial = self.trial(lambda r: self.clicking(r, next(count)), "native", max_steps=40)
        trial.run()
        self.assertLessEqual(
            len(trial.state.memory.active_history), trial.config.memory_compression_threshold
        )
        self.assertTrue(trial.state.memory.all_snapshots)
        sizes = [len(json.dumps(request)) for request in trial.requests]
        self.assertLess(max(sizes[20:]), 1.3 * max(sizes[:20]))

    def test_an_archive_names_the_acts_that_changed_something(self) -> None:
        count = itertools.count()
        most = {"max_steps": 8, "memory_compression_threshold": 6}
        trial = self.trial(lambda r: self.clicking(r, next(count)), **most)
        trial.run()
        archive = trial.records("archive")[0]
        self.assertIn(': click_screen_element "x" (', archive["summary"])
        helped = len(re.findall(r"\(\d+, 5\)", archive["summary"]))
        self.assertGreater(helped, 1)
        vain = len(archive["turns"]) - helped
        self.assertIn(
            f"{vain} of {len(archive['turns'])} actions changed nothing", archive["patterns"]
        )

    def test_what_outgrows_the_context_is_archived_and_without_any_room_it_ends(self) -> None:
        most = 0

        def decide(request: Json) -> Json:
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
