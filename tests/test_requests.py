"""What a server is sent: in which order, with calls or without, with the switch of thinking."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import agent
from tests.scripted import (
    FEWER_REQUESTS,
    PLAN,
    EngineCase,
    call,
    in_words,
    role_of,
    text,
    user_text,
)
from tests.seams import check_of_model

Request = dict[str, Any]


def parts(request: Request) -> list[str]:
    """The first user message's content: its texts, and the URL of its picture between them."""
    content = request["messages"][1]["content"]
    return [part.get("text") or part["image_url"]["url"] for part in content]


class WhereThePictureStands(EngineCase):
    """What a server has read already is not read anew: it stands where it stood."""

    def requests(self, *acts: Request) -> list[Request]:
        """The executor's requests of a run in which it does this, then scrolls."""
        replies = itertools.chain(acts, itertools.repeat(call("scroll_screen_down")))
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else next(replies), max_steps=6
        )
        trial.run()
        return [r for r in trial.requests if role_of(r) == "executor"]

    def test_with_a_new_picture_the_whole_context_stands_before_it(self) -> None:
        requests = self.requests()
        self.assertEqual(len({parts(request)[1] for request in requests}), len(requests))
        for one, other in itertools.pairwise(requests):
            self.assertTrue(parts(other)[0].startswith(parts(one)[0]))
            self.assertGreater(len(parts(other)[0]), len(parts(one)[0]))
            self.assertNotIn("SINCE_THIS_PICTURE", parts(other)[2])

    def test_while_the_picture_stays_the_same_so_does_all_before_it(self) -> None:
        status = call(
            "report_goal_status", goal_identifier="1", completion_status="IN_PROGRESS", evidence=""
        )
        before, same, new, *_ = self.requests(status)
        self.assertEqual(parts(before)[:2], parts(same)[:2])
        self.assertNotEqual(parts(same)[1], parts(new)[1])
        lines = parts(same)[2].partition("\n\n")[0].removeprefix("SINCE_THIS_PICTURE:")
        self.assertIn("report_goal_status", lines)
        self.assertTrue(parts(new)[0].startswith(parts(same)[0] + lines))


class Corrections(EngineCase):
    def test_a_refused_reply_is_shown_as_its_own_call_or_not_at_all(self) -> None:
        refused = [
            text("NEXT_STEP: press_keyboard_key tab"),
            call("press_keyboard_key", keys="tab"),
            call("press_keyboard_key", key="tab"),
        ]
        replies = iter(refused)
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else next(replies),
            max_steps=1,
            **FEWER_REQUESTS,
        )
        trial.run()
        last = [r for r in trial.requests if role_of(r) == "executor"][-1]["messages"][2:]
        self.assertEqual([m["role"] for m in last], ["user", "assistant", "tool"])
        self.assertRegex(
            last[0]["content"], r'^You wrote "NEXT_STEP: press_keyboard_key tab"\. Call it: '
        )
        self.assertEqual(last[1]["content"], "")
        [shown] = last[1]["tool_calls"]
        self.assertEqual(json.loads(shown["function"]["arguments"]), {"keys": "tab"})
        self.assertEqual(last[2]["tool_call_id"], shown["id"])
        self.assertIn("The argument key is missing.", last[2]["content"])
        self.assertEqual(len(trial.inputs), 2)


class Words(EngineCase):
    """What each role is told, and not twice."""

    base = FEWER_REQUESTS

    def asked(self, *acts: Request, profile: str = "planner", **settings: Any) -> list[Request]:
        """The executor's requests of a run with these replies."""
        replies = iter(acts)
        plan = {"instructions": "Go on.", "operator_instructions": "Go on."}
        trial = self.trial(
            lambda r: (
                call(r["tools"][0]["function"]["name"], **plan)
                if role_of(r) == "planner"
                else next(replies, text(""))
            ),
            profile,
            **{"max_steps": len(acts), **settings},
        )
        trial.profile = agent.chosen_profile(profile, trial.config)
        trial.run()
        self.made = trial
        return [r for r in trial.requests if role_of(r) == "executor"]

    def test_no_line_of_a_prompt_looks_like_an_answer_but_as_described(self) -> None:
        for profile, label in (("planner", "NEXT_STEP: "), ("commander", "ACT: ")):
            known = agent.PROFILES[profile]
            for role in known.roles.values():
                self.assertNotRegex(known.system(role), r"(?m)^[A-Z_]{3,}: ")
            described = self.trial(lambda request: PLAN, profile, described=True).profile
            self.assertIn(f"\n{label}", described.system(described.roles["executor"]))

    def test_why_an_act_was_done_stands_in_the_next_request_once(self) -> None:
        why = "The list is longer than the window."
        *_, last = self.asked(call("scroll_screen_down", reasoning=why), call("wait"))
        self.assertEqual(user_text(last).count(why), 1)

    def test_what_is_done_again_for_nothing_is_one_short_line_with_its_count(self) -> None:
        key = call("press_keyboard_key", key="f9", reasoning="It may help.")
        with mock.patch.object(self.desktop_type, "glance", lambda *_: b"\x80" * 4 * 64 * 64):
            *_, last = self.asked(key, key, key, key, call("wait"), text(""))
        told = user_text(last)
        self.assertEqual(told.count("Turn_2: press_keyboard_key"), 1)
        self.assertIn("\n  Turn_3: the same, 2 times now, for nothing\n", told)
        self.assertEqual(told.count("Response: It may help."), 3)  # once objected to, then obeyed

    def test_who_gets_no_pictures_is_told_of_none_and_offered_no_closer_look(self) -> None:
        for profile in ("planner", "commander", "native"):
            asked, *_ = self.asked(text(""), profile=profile, controls="only")
            system = asked["messages"][0]["content"]
            self.assertIn("list of controls", system)
            names = [tool["function"]["name"] for tool in asked["tools"]]
            for words in ("screenshot", "zoom"):
                self.assertNotIn(words, system)
            self.assertNotIn("zoom", names)

    def test_with_nothing_but_the_desktop_in_front_it_is_told_what_starts_a_program(self) -> None:
        plain = agent.Window(1, "", "explorer.exe")
        for window, told in (
            (plain, True),
            (None, True),
            (agent.Window(1, "Program Manager", "explorer.exe", class_name="Progman"), True),
            (
                agent.Window(
                    1,
                    "in",
                    "explorer.exe",
                    agent.Rect(0, 0, 4000, 4000),
                    class_name="CabinetWClass",
                ),
                False,
            ),
        ):
            with mock.patch.object(self.desktop_type, "foreground", lambda _, w=window: w):
                typed = call("type_text_input", text="hello")
                asked, *_ = self.asked(typed, reply_corrections=0)
            starts = "only the desktop: no program is open. open_app starts one\n"
            self.assertEqual(starts in user_text(asked), told)
            self.assertEqual([deed for deed in self.made.inputs if deed[0] == "text"] == [], told)
            self.assertEqual("no program is open to take it" in str(self.made.records()), told)

    def test_a_reply_has_as_many_tokens_as_a_call_needs(self) -> None:
        self.asked(call("wait"))
        self.assertEqual({r["max_tokens"] for r in self.made.requests}, {800})


class CallsInTheText(EngineCase):
    base = FEWER_REQUESTS

    def run_with(
        self, decide: Any, profile: str = "planner", model: Any = None, **settings: Any
    ) -> list[Request]:
        """A run's requests."""
        trial = self.trial(decide, profile, **{"max_steps": 3, **settings})
        if model:
            trial.choose(model)
        trial.run()
        return trial.requests

    def test_who_makes_no_call_takes_no_tools_or_reads_none_is_given_them_in_the_text(self) -> None:
        refused = agent.ModelError("It does not support tools.", "no_tools")
        for answer, times, told in (
            (text("I would make a plan."), 3, "sent no tool call in its first replies"),
            (
                {**text(""), "unread_call": "I could not read it."},
                3,
                "no tool call in its first replies",
            ),
            (refused, 1, "It does not support tools; from now on"),
        ):

            def decide(request: Request, answer: Any = answer) -> Request:
                if "tools" in request:
                    return mock.Mock(side_effect=[answer])()
                if "update_execution_plan" in request["messages"][0]["content"]:
                    return text(in_words("update_execution_plan", instructions="Press tab."))
                return text(in_words("press_keyboard_key", key="tab"))

            with self.subTest(told):
                requests = self.run_with(decide, max_steps=4)
                offered = ["tools" in request for request in requests]
                self.assertEqual(offered[: times + 2], [True] * times + [False] * 2)
                self.assertIn(told, "\n".join(self.lines))
                self.assertEqual(sum("stand in the text" in line for line in self.lines), 1)
                system = requests[-1]["messages"][0]["content"]
                self.assertIn('{"name": "press_keyboard_key", "description": "Press keys."', system)
                self.assertIn("<tool_call>", system)
                self.assertNotIn("tool_choice", requests[-1])
        with self.assertRaises(agent.ModelError):
            self.run_with(mock.Mock(side_effect=refused), calls="tools")

    def test_tools_in_the_text_that_help_no_model_go_back_into_the_list(self) -> None:
        silent = iter([text("I look.")] * 3)  # by chance

        def decide(request: Request) -> Request:
            if "tools" not in request:  # it knows no other form
                return text("Nothing can be called here.")
            act = PLAN if role_of(request) == "planner" else call("press_keyboard_key", key="tab")
            return next(silent, act)

        requests = self.run_with(decide, max_steps=5)
        told = [line for line in self.lines if "warning: " in line and "call" in line]
        self.assertEqual(sum("sent no tool call" in line for line in told), 1, told)
        self.assertIn("the tools stand in their list again", told[-1])
        offered = ["tools" in request for request in requests]
        self.assertEqual(offered[:6], [True] * 3 + [False] * 3)
        self.assertEqual(set(offered[6:]), {True})

    def test_what_is_known_of_the_server_or_set_decides_how_a_call_is_asked_for(self) -> None:
        llama = agent.ModelInfo("scripted", server="llamacpp")
        one_call = [text("A plan."), PLAN]  # is enough
        for profile, begin, model, settings, choice in (
            ("planner", one_call, None, {"max_steps": 6}, "auto"),
            ("planner", [], None, {"calls": "tools"}, "auto"),
            ("planner", [], None, {"calls": "text"}, None),
            # Where the server sees to it:
            ("planner", one_call, llama, {"max_steps": 1}, "required"),
            (
                "chat",
                [call("press_key", key="tab")],
                llama,
                {"max_steps": 1},
                "auto",
            ),  # and none must end the run
            ("planner", one_call, llama, {"max_steps": 1, "calls": "tools"}, "auto"),
        ):
            replies = iter(begin)

            def decide(_: Request, replies: Iterator[Request] = replies) -> Request:
                return next(replies, text("I look."))

            with self.subTest(profile=profile, choice=choice, **settings):
                requests = self.run_with(decide, profile, model, **settings)
                found = {(("tools" in r), r.get("tool_choice")) for r in requests}
                self.assertEqual(found, {(choice is not None, choice)})

    def test_a_request_that_can_never_fit_is_sent_once(self) -> None:
        for profile, kind in itertools.product(agent.PROFILES, ("context", "no_vision")):
            with self.subTest(profile=profile, kind=kind):
                fault = agent.ModelError("It has 3000 of 2048 tokens.", kind)
                trial = self.trial(mock.Mock(side_effect=fault), profile)
                with self.assertRaisesRegex(agent.ModelError, "3000 of 2048") as caught:
                    trial.run()
                self.assertEqual((caught.exception.exit_code, len(trial.requests)), (3, 1))


QUIET = {"chat_template_kwargs": {"enable_thinking": False}}
THINKING = {"chat_template_kwargs": {"enable_thinking": True}}


class Thinking(EngineCase):
    """What a request says of thinking: `said` gives that of each one of a run."""

    def said(self, profile: str, model: agent.ModelInfo, thinking: str) -> list[Request]:
        self.model = model
        story = {"observation": "I see.", "bboxes": [], "actions": [{"action": "click", "x": 1}]}

        def decide(request: Request) -> Request:
            if role_of(request) == "planner":
                return PLAN
            if profile == "story":
                return text(json.dumps(story))
            return call("scroll_screen_down") if request.get("tools") else text("YES: done")

        trial = self.trial(decide, profile, max_steps=2, thinking=thinking)
        trial.run()
        told = ("chat_template_kwargs", "reasoning_effort")
        return [{name: r[name] for name in told if name in r} for r in trial.requests]

    def test_off_stands_in_each_request_of_each_profile_and_of_the_check(self) -> None:
        for profile in agent.PROFILES:
            said = self.said(profile, self.model, "off")
            self.assertEqual(said, [QUIET] * max(1, len(said)), profile)
        config = agent.load_config({"test": {"thinking": "off"}})
        for profile in ("chat", "native"):
            server = mock.Mock(where="here", config=config)
            server.discover.return_value = agent.ModelInfo("qwen3.5-4b")
            message = call("press_key", key="escape")
            usage = agent.Usage(1, 1, None)
            server.complete.return_value = agent.Reply(message, "stop", usage, "", 0.1)
            check_of_model(config, profile, server)
            asked = [json.loads(asked.args[0]) for asked in server.complete.call_args_list]
            self.assertGreaterEqual(len(asked), 2)
            switches = [body["chat_template_kwargs"] for body in asked]
            self.assertEqual(switches, [{"enable_thinking": False}] * len(asked))

    def test_each_model_has_its_own_switch_or_none(self) -> None:
        thinker = agent.ModelInfo("qwen/qwen3.5-4b", efforts={"off": "none", "on": "medium"})
        ollama = agent.ModelInfo("qwen3.5:4b", efforts={"off": "none"})
        named = agent.ModelInfo
        for model, thinking, wanted in (
            (named("qwen3.5-4b"), "off", QUIET),
            (named("qwen3.5-4b"), "on", THINKING),
            (named("qwen3.5-4b"), "auto", {}),
            (named("my-model"), "off", QUIET),
            (named("qwen3-vl-8b-thinking"), "off", {}),
            (thinker, "off", {"reasoning_effort": "none"}),
            (thinker, "on", {"reasoning_effort": "medium"}),
            (named("qwen/qwen3-vl-4b"), "off", {}),
            (ollama, "off", {"reasoning_effort": "none"}),
        ):
            with self.subTest(f"{model.name} {thinking}"):
                said = self.said("planner", model, thinking)[0]
                self.assertEqual({**said, **wanted}, said)
                self.assertEqual(bool(said), bool(wanted))
        self.assertNotIn("reasoning_effort", self.said("planner", ollama, "on")[0])
