"""The chat loop: one conversation, screenshots on demand, errors as tool messages, and a history that stays small."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import unittest
from dataclasses import replace
from typing import Any
from unittest import mock

import agent
from tests.samples import sample
from tests.scripted import EngineCase, Trial, call, reused, role_of, text
from tests.seams import clock_of_main, desktop_of_main, record
from tests.test_main import CommandLineCase

Message = dict[str, Any]
CLICK = call("click_element", label="Button", box=[500, 500])
LOOK = call("observe_screen")


def native(*calls: tuple[str, str], content: str = "", **more: Any) -> Message:
    """A reply with these native calls, arguments as they are written."""
    listed = [
        {"id": f"x{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": content, "tool_calls": listed, **more}


def in_turn(*replies: Message) -> Any:
    """A model that says these one after the other, then that it is done."""
    rest = iter(replies)
    return lambda request: next(rest, text("All done."))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What the model is told about its last call, wherever it stands."""
    told = [
        m
        for m in request["messages"]
        if m["role"] in ("tool", "user") and isinstance(m["content"], str)
    ]
    return json.loads(told[-1]["content"])


def images(request: dict[str, Any]) -> list[Message]:
    return [m for m in request["messages"] if isinstance(m["content"], list)]


class ChatCase(EngineCase):
    def chat(
        self, *replies: Message, profile: str = "chat", **settings: Any
    ) -> tuple[Trial, agent.Outcome]:
        trial = self.trial(in_turn(*replies), profile, **settings)
        self.state = trial.state
        return trial, trial.run()

    def check_history(self, request: dict[str, Any]) -> None:
        """Every call is answered at once and every answer belongs to a call; no image stands without its text."""
        roles = [m["role"] for m in request["messages"]]
        self.assertEqual(roles[:2], ["system", "user"])
        waiting, seen = [], set()
        for message in request["messages"]:
            if message["role"] == "tool":
                self.assertEqual(message["tool_call_id"], waiting.pop(0))
                continue
            self.assertEqual(waiting, [])
            waiting = [c["id"] for c in message.get("tool_calls", [])]
            self.assertFalse(seen & set(waiting))
            seen |= set(waiting)
            for c in message.get("tool_calls", []):
                self.assertIsInstance(json.loads(c["function"]["arguments"]), dict)
            if isinstance(message["content"], list):
                self.assertEqual(
                    [part["type"] for part in message["content"]], ["image_url", "text"]
                )
                self.assertTrue(message["content"][1]["text"])
        self.assertEqual(waiting, [])


class Steps(ChatCase):
    def test_chat_shows_a_screenshot_before_the_first_request_as_if_it_had_been_asked_for(
        self,
    ) -> None:
        trial, outcome = self.chat()
        roles = [m["role"] for m in trial.requests[0]["messages"]]
        self.assertEqual(roles, ["system", "user", "assistant", "tool", "user"])
        self.assertEqual(trial.requests[0]["messages"][1]["content"], "TASK: Press the button")
        self.assertEqual((outcome.kind, outcome.text), ("completed", "All done."))

    def test_pointer_sees_nothing_until_it_asks(self) -> None:
        trial, _ = self.chat(call("take_screenshot"), profile="pointer")
        self.assertEqual([len(images(r)) for r in trial.requests], [0, 1])
        self.assertEqual(
            answer_to(trial, 1),
            {
                "ok": True,
                "screenshot": 1,
                "file": "screenshots/screen_0001.png",
                "size": [64, 64],
                "screen_size": [64, 36],
                "window": "Plain",
            },
        )

    def test_the_tools_are_offered_under_the_described_names_and_shapes(self) -> None:
        trial, _ = self.chat()
        tools = {
            t["function"]["name"]: t["function"]["parameters"] for t in trial.requests[0]["tools"]
        }
        self.assertEqual(
            {n: list(t["properties"]) for n, t in tools.items()},
            {
                "observe_screen": [],
                "click_element": ["label", "box"],
                "type_text": ["text"],
                "press_key": ["key"],
                "scroll_at_position": ["box"],
            },
        )
        box = tools["click_element"]["properties"]["box"]
        self.assertEqual((box["minItems"], box["maxItems"], box["items"]["maximum"]), (2, 4, 1000))
        trial, _ = self.chat(profile="pointer")
        tools = {
            t["function"]["name"]: t["function"]["parameters"] for t in trial.requests[0]["tools"]
        }
        self.assertEqual(
            {n: t["required"] for n, t in tools.items()},
            {
                "take_screenshot": [],
                "move_mouse": ["x", "y"],
                "click_mouse": [],
                "type_text": ["text"],
                "scroll_down": [],
            },
        )

    def test_every_box_format_clicks_its_centre(self) -> None:
        for box in (
            [500, 500],
            [400, 300, 600, 700],
            [[400, 300], [600, 700]],
            "[400, 300, 600, 700]",
        ):
            with self.subTest(box=box):
                trial, _ = self.chat(call("click_element", label="Button", box=box))
                self.assertEqual(trial.inputs[0], ("move", 32, 18))
                self.assertEqual(
                    answer_to(trial, 1),
                    {
                        "ok": True,
                        "result": "Clicked: Button",
                        "screen": "changed",
                        "region": [15, 0, 1000, 63],
                    },
                )

    def test_pointer_moves_clicks_types_and_scrolls_where_the_mouse_is(self) -> None:
        calls = [
            call("move_mouse", x=500, y=500),
            call("click_mouse"),
            call("type_text", text="żółw 🐢"),
            call("scroll_down"),
        ]
        trial, _ = self.chat(*calls, profile="pointer", scroll_ticks=1)
        self.assertEqual(
            trial.inputs,
            [
                ("move", 32, 18),
                ("button", "left", True),
                ("button", "left", False),
                ("text", "żółw 🐢"),
                ("wheel", -120, False),
            ],
        )
        self.assertEqual(answer_to(trial, 1), {"ok": True, "result": "Moved to (500, 500)"})

    def test_chat_scrolls_down_at_a_place(self) -> None:
        trial, _ = self.chat(call("scroll_at_position", box=[0, 0, 1000, 1000]), scroll_ticks=1)
        self.assertEqual(trial.inputs, [("move", 32, 18), ("wheel", -120, False)])

    def test_a_screenshot_is_sent_only_when_asked_for(self) -> None:
        trial, _ = self.chat(CLICK, LOOK)
        self.assertEqual([len(images(r)) for r in trial.requests], [1, 1, 2])

    def test_an_act_that_changes_nothing_is_told(self) -> None:
        trial = self.trial(in_turn(CLICK), "chat")
        trial.desktop.dead = True
        trial.run()
        self.assertEqual(answer_to(trial, 1)["screen"], "did not change")

    def test_extra_calls_are_refused_one_by_one_and_only_the_first_is_carried_out(self) -> None:
        three = native(
            ("press_key", '{"key": "a"}'),
            ("press_key", '{"key": "b"}'),
            ("type_text", '{"text": "c"}'),
        )
        trial, _ = self.chat(three)
        self.assertEqual(trial.inputs, [("key", "a", True), ("key", "a", False)])
        told = [
            json.loads(m["content"]) for m in trial.requests[1]["messages"] if m["role"] == "tool"
        ][1:]
        self.assertEqual(
            [t.get("error", {}).get("type") for t in told],
            [None, "too_many_tool_calls", "too_many_tool_calls"],
        )
        self.check_history(trial.requests[1])

    def test_a_call_written_as_text_comes_back_as_a_clean_native_one(self) -> None:
        spoken = 'I click.\n<tool_call>\n{"name": "press_key", "arguments": {"key": "enter"}}\n</tool_call>'
        trial, _ = self.chat(text(spoken))
        said = trial.requests[1]["messages"][5]
        self.assertEqual(said["content"], "I click.")
        self.assertEqual(
            said["tool_calls"][0]["function"],
            {"name": "press_key", "arguments": '{"key": "enter"}'},
        )
        self.check_history(trial.requests[1])

    def test_half_characters_never_reach_the_server(self) -> None:
        trial, _ = self.chat(native(("press_key", '{"key": "\\ud83d"}'), content="odd \ud83d"))
        json.dumps(trial.requests[1], ensure_ascii=False).encode()  # raises for half a character
        self.assertIn("odd ?", trial.requests[1]["messages"][5]["content"])

    def test_an_act_on_a_screen_of_another_size_than_the_one_shown_is_refused(self) -> None:
        trial = self.trial(in_turn(CLICK), "chat")
        shown = trial.desktop.screen
        trial.desktop.screen = lambda: shown() if not trial.requests else agent.Rect(0, 0, 128, 72)
        trial.run()
        self.assertEqual((answer_to(trial, 1)["error"]["type"], trial.inputs), ("stale_frame", []))

    def test_a_refusal_by_a_gate_is_an_error_for_the_model(self) -> None:
        trial = self.trial(in_turn(call("click_mouse")), "pointer")
        trial.desktop.cursor = lambda: agent.Point(999, 999)
        trial.run()
        self.assertEqual((answer_to(trial, 1)["error"]["type"], trial.inputs), ("invalid_box", []))


def answer_to(trial: Trial, number: int) -> dict[str, Any]:
    """The last tool message of a request."""
    told = [m for m in trial.requests[number]["messages"] if m["role"] == "tool"]
    return json.loads(told[-1]["content"])


class Errors(ChatCase):
    CASES = (
        ("missing_label", "click_element", '{"box": [1, 2]}'),
        ("missing_box", "click_element", '{"label": "x"}'),
        ("missing_box", "scroll_at_position", "{}"),
        ("invalid_box", "click_element", '{"label": "x", "box": [1, 2, 3]}'),
        ("invalid_box", "click_element", '{"label": "x", "box": [1200, 20]}'),
        ("invalid_box", "click_element", '{"label": "x", "box": [600, 600, 400, 400]}'),
        ("invalid_box", "click_element", '{"label": "x", "box": "there"}'),
        ("invalid_args", "type_text", '{"text": ["a"]}'),
        ("invalid_args", "type_text", '{"text": "\\u0007"}'),
        ("empty_text", "type_text", '{"text": ""}'),
        ("empty_text", "type_text", "{}"),
        ("missing_key", "press_key", "{}"),
        ("invalid_key", "press_key", '{"key": "any key"}'),
        ("unknown_tool", "open_program", '{"name": "notepad"}'),
    )

    def test_each_error_comes_back_as_a_tool_message_with_its_type_and_nothing_is_done(
        self,
    ) -> None:
        for kind, name, arguments in self.CASES:
            with self.subTest(kind=kind, arguments=arguments):
                trial, outcome = self.chat(native((name, arguments)))
                self.assertEqual(trial.requests[1]["messages"][-1]["role"], "tool")
                told = answer(trial.requests[1])
                self.assertEqual((told["ok"], told["error"]["type"]), (False, kind))
                self.assertTrue(told["error"]["message"])
                self.assertEqual((trial.inputs, outcome.kind), ([], "completed"))
                self.check_history(trial.requests[1])

    def test_pointer_refuses_half_a_place_and_one_off_the_grid(self) -> None:
        for kind, arguments in (
            ("invalid_arguments", '{"x": 5}'),
            ("invalid_arguments", '{"x": 5, "y": 1300}'),
        ):
            with self.subTest(arguments=arguments):
                trial, _ = self.chat(native(("move_mouse", arguments)), profile="pointer")
                self.assertEqual(
                    (
                        answer(trial.requests[1])["error"]["type"],
                        trial.inputs,
                    ),
                    (kind, []),
                )

    def test_a_broken_call_is_never_sent_back(self) -> None:
        broken = (
            native(("press_key", '{"key": "ent')),
            native(("press_key", "{key}")),
            native(("press key!", "{}")),
            text('<tool_call>{"name": "press_key", "arguments": {"key": </tool_call>'),
            {"role": "assistant", "content": "", "tool_calls": ["press_key"]},
        )
        for reply in broken:
            with self.subTest(reply=reply):
                trial, outcome = self.chat(reply)
                first, told = trial.requests[1]["messages"][-2:]
                self.assertEqual(
                    first, {"role": "assistant", "content": "I gave no usable tool call."}
                )
                self.assertEqual(told["role"], "user")
                self.assertIn(
                    json.loads(told["content"])["error"]["type"], ("invalid_json", "unknown_tool")
                )
                self.assertEqual((trial.inputs, outcome.text), ([], "All done."))

    def test_a_reply_cut_by_the_token_limit_is_not_the_end(self) -> None:
        trial = self.trial(in_turn(text("I see a window and")), "chat")
        plain, first = trial.server.complete, itertools.count()
        trial.server.complete = lambda body: replace(
            plain(body), finish_reason="stop" if next(first) else "length"
        )
        self.assertEqual(trial.run().text, "All done.")
        self.assertEqual(answer(trial.requests[1])["error"]["type"], "invalid_json")


class Endings(ChatCase):
    def test_the_final_text_has_its_thinking_stripped(self) -> None:
        for said in (
            "<think>done?</think>Yes, open.",
            "so it is</think>\nYes, open.",
            "Yes, open.<think>what now",
        ):
            with self.subTest(said=said):
                self.assertEqual(self.chat(text(said))[1], agent.Outcome("completed", "Yes, open."))

    def test_thinking_alone_is_no_answer(self) -> None:
        for reply in (
            text("<think>hm"),
            text("<think>hm</think>"),
            text(""),
            {**text(""), "reasoning_content": "hm"},
        ):
            with self.subTest(reply=reply):
                trial, outcome = self.chat(reply)
                self.assertEqual((len(trial.requests), outcome.text), (2, "All done."))

    def test_an_attempt_at_a_call_is_no_answer_however_often_it_comes(self) -> None:
        attempt = text(
            'Now I click: {"name": "click_element", "arguments": {"label": "x", "box": [1, 2]}} and wait.'
        )
        trial, outcome = self.chat(*[attempt] * 20)
        self.assertIn(outcome.kind, ("stuck", "max_steps"))
        self.assertEqual((len(trial.requests), trial.inputs), (10, []))

    def test_words_that_name_a_tool_are_asked_for_the_call_twice_and_then_believed(self) -> None:
        trial, outcome = self.chat(text("I will use click_element on the button."), CLICK)
        self.assertIn(("button", "left", True), trial.inputs)
        trial, outcome = self.chat(*[text("I used click_element.")] * 9)
        self.assertEqual(
            (len(trial.requests), outcome),
            (3, agent.Outcome("completed", "I used click_element.")),
        )

    def test_a_model_that_repeats_the_programs_own_words_has_not_answered(self) -> None:
        trial, _ = self.chat(text("I gave no usable tool call."))
        self.assertEqual(len(trial.requests), 2)

    def test_a_model_that_never_ends_is_stopped_by_the_turns(self) -> None:
        keys = ("a", "b", "c")
        trial = self.trial(lambda r: call("press_key", key=random.choice(keys)), "chat")
        self.assertEqual(trial.run().kind, "max_steps")
        self.assertEqual(len(trial.requests), 11)  # the last act is asked for in vain
        self.assertEqual(trial.state.touched, 10)
        self.assertGreaterEqual(trial.clock.now(), 10 * 0.4)

    def test_a_model_that_only_looks_is_stuck_and_hears_of_it_before(self) -> None:
        trial = self.trial(lambda r: LOOK, "chat", max_steps=50)
        self.assertEqual(trial.run().kind, "stuck")
        self.assertIn("no progress", answer_to(trial, -1)["note"])
        self.assertLess(len(trial.requests), 15)

    def test_after_the_recovery_keys_the_model_is_told(self) -> None:
        trial = self.trial(lambda r: CLICK, "chat", max_steps=8)
        trial.desktop.dead = True
        trial.run()
        self.assertIn(("key", "escape", True), trial.inputs)
        self.assertIn("The program pressed Escape", json.dumps(trial.requests[-1]))

    def test_after_the_recovery_keys_it_is_told_of_them_behind_refused_words_too(self) -> None:
        def decide(request: dict[str, Any]) -> Message:
            if role_of(request) == "verifier":
                return text("1 NO: the button is not pressed")
            return CLICK if trial.state.stalled < 5 else text("All done.")

        trial = self.trial(decide, "chat", max_steps=8, verify_completion=True)
        trial.desktop.dead = True
        trial.run()
        self.assertIn(("key", "escape", True), trial.inputs)
        told = [r["messages"][-2:] for r in trial.requests if role_of(r) == "executor"]
        refused = next(last for _, last in told if "The program pressed Escape" in str(last))
        before = next(first for first, last in told if last == refused)
        self.assertIn("Completion not confirmed", str(before))


class Hygiene(ChatCase):
    def test_screenshots_grow_to_the_second_limit_and_are_then_cut_to_the_last_two(self) -> None:
        keys = itertools.cycle("abcdefg")
        looks = itertools.chain.from_iterable((call("press_key", key=key), LOOK) for key in keys)
        trial = self.trial(lambda r: next(looks), "chat", max_steps=10)
        trial.run()
        self.assertEqual(
            [len(images(r)) for r in trial.requests[::2]],
            [1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 2],
        )
        self.assertIn("left out", json.dumps(trial.requests[-1]))
        for request in trial.requests:
            self.check_history(request)

    def test_thoughts_are_kept_in_tags_wherever_they_came_from_and_old_ones_leave_a_placeholder(
        self,
    ) -> None:
        keys = itertools.count()
        ways = (
            lambda n: native(
                ("press_key", '{"key": "a"}'), content=f"<think>thought {n}</think>said"
            ),
            lambda n: native(
                ("press_key", '{"key": "b"}'), content="said", reasoning_content=f"thought {n}"
            ),
            lambda n: native(("press_key", '{"key": "c"}'), content=f"thought {n}</think>said"),
            lambda n: native(("press_key", '{"key": "d"}'), content=f"said<think>thought {n}"),
        )
        trial = self.trial(lambda r: ways[(n := next(keys)) % 4](n), "chat", max_steps=9)
        trial.run()
        said = [m["content"] for m in trial.requests[8]["messages"] if m["role"] == "assistant"][1:]
        self.assertEqual(
            [
                f"<think>\n{t}\n</think>\n\nsaid"
                for t in ["(left out)"] * 6 + ["thought 6", "thought 7"]
            ],
            said,
        )

    def test_a_random_conversation_never_leaves_an_orphan(self) -> None:
        for seed in range(sample(8, 1)):
            chance = random.Random(seed)
            replies = (
                lambda c: LOOK,
                lambda c: call("click_element", label="x", box=[c.randint(0, 1000), 5]),
                lambda c: native(
                    *[("press_key", '{"key": "a"}')] * c.randint(1, 6), reasoning_content="hm"
                ),
                lambda c: native(("press_key", "{")),
                lambda c: native(("nothing", "{}")),
                lambda c: text("<think>x"),
                lambda c: native(
                    ("press_key", '{"key": "b"}'),
                    ("press_key", "{"),
                    content="<think>why</think>so",
                ),
            )
            limits = {
                "keep_last_screenshots": chance.randint(0, 6),
                "keep_last_thinks": chance.randint(0, 3),
            }
            trial = self.trial(
                lambda r, c=chance, w=replies: c.choice(w)(c),
                "chat",
                max_steps=sample(80, 40),
                stall_stop=1000,
                memory_compression_threshold=chance.randint(6, 12),
                **limits,
            )
            trial.run()
            for request in trial.requests:
                self.check_history(request)

    def test_hundreds_of_steps_stay_within_a_bounded_request(self) -> None:
        places, steps = itertools.count(), sample(200, 80)

        def decide(request: dict[str, Any]) -> Message:
            number = next(places)
            return {
                **(
                    LOOK if number % 2 else call("click_element", label="x", box=[number % 1000, 7])
                ),
                "reasoning_content": f"thought {number} " * 20,
                "content": "I see a window. " * 20,
            }

        trial = self.trial(decide, "chat", max_steps=steps // 2)
        self.assertEqual(trial.run().kind, "max_steps")
        sizes = [len(json.dumps(request)) for request in trial.requests]
        self.assertEqual(len(sizes), steps + 1)
        self.assertLessEqual(max(sizes[60:]), max(sizes[:60]) * 1.05)
        self.assertIn("EARLIER STEPS: Turns", trial.requests[-1]["messages"][1]["content"])
        shares = [reused(*pair) for pair in itertools.pairwise(trial.requests)]
        self.assertGreater(sum(shares) / len(shares), 0.6)  # pictures counted

    def test_a_full_context_is_pruned_before_it_overflows(self) -> None:
        looks = itertools.cycle((CLICK, LOOK))
        trial = self.trial(lambda r: next(looks), "chat", max_steps=12, keep_last_screenshots=50)
        trial.choose(
            agent.ModelInfo("scripted", True, True, 2100)
        )  # the scripted server counts 100 tokens a prompt
        trial.run()
        self.assertLessEqual(max(len(images(r)) for r in trial.requests), 3)
        self.assertIn("EARLIER STEPS", trial.requests[-1]["messages"][1]["content"])

    def test_after_an_overflow_the_least_of_the_conversation_is_tried(self) -> None:
        looks = itertools.cycle((CLICK, LOOK))
        trial = self.trial(lambda r: next(looks), "chat", max_steps=4, keep_last_screenshots=50)
        plain, count = trial.server.complete, itertools.count()

        def overflowing(body: bytes) -> agent.Reply:
            if next(count) == 6:
                raise agent.ModelError("It does not fit.", "context")
            return plain(body)

        trial.server.complete = overflowing
        self.assertEqual(trial.run().kind, "max_steps")
        self.assertEqual([len(images(r)) for r in trial.requests], [1, 1, 2, 2, 3, 3, 1, 1, 2])
        self.check_history(trial.requests[6])

    def test_a_resumed_conversation_begins_with_what_was_done(self) -> None:
        trial = self.trial(in_turn(), "chat")
        trial.state.turn = 3
        for turn in (1, 2, 3):
            trial.state.memory.add_action(
                record("action", turn=turn, tool="click_element", args="x", result="Clicked: x")
            )
        trial.run()
        self.assertIn(
            "EARLIER STEPS: Turns 1-3: click_element x3",
            trial.requests[0]["messages"][1]["content"],
        )


class Traces(ChatCase):
    def test_the_journal_has_what_the_other_loop_writes(self) -> None:
        trial, _ = self.chat(CLICK, call("press_key", key="nokey"))
        kinds = [
            json.loads(line)["kind"]
            for line in (trial.folder / "turns.jsonl").read_text().splitlines()
        ]
        kinds = [kind for kind in kinds if kind != "look"]
        acted, corrected = (
            ["request", "reply", "intent", "result", "action", "state"],
            ["request", "reply", "no_call", "action", "state"],
        )
        self.assertEqual(kinds, ["action", *acted, *corrected, "request", "reply", "action"])
        actions = trial.records("action")
        self.assertEqual(
            [a["tool"] for a in actions],
            ["observe_screen", "click_element", "no_call", "final_answer"],
        )
        self.assertEqual(
            (actions[1]["changed"], actions[1]["screenshot"]), (True, "screenshots/turn_0001.png")
        )
        log = trial.log()
        self.assertEqual(
            re.findall(r"(?m)^\S+ (\d+) chat: (\w+)", log),
            [
                ("0", "observe_screen"),
                ("1", "click_element"),
                ("2", "no_call"),
                ("3", "final_answer"),
            ],
        )

    def test_screenshots_that_the_model_saw_carry_the_prefix_and_the_index(self) -> None:
        trial, _ = self.chat(LOOK, dump_prefix="shot-", dump_start=7)
        names = sorted(path.name for path in (trial.folder / "screenshots").iterdir())
        self.assertEqual(names, ["shot-0007.png", "shot-0008.png"])

    def test_the_log_of_exchanges_reads_like_a_conversation_and_holds_no_image(self) -> None:
        trial, _ = self.chat({**CLICK, "content": "<think>the button</think>I press it."}, LOOK)
        log = trial.log()
        for line in (
            "user: TASK: Press the button",
            "thinks: the button",
            "says: I press it.",
            'calls: click_element {"label": "Button", "box": [500, 500]}',
            '"result": "Clicked: Button"',
            "says: All done.",
            "REQUEST 2 to chat: 7 messages, 1 images",
            "sha256",
        ):
            self.assertIn(line, log)
        self.assertEqual(log.count("TASK:"), 1)
        for file in trial.folder.glob("*.*"):
            self.assertNotRegex(file.read_text(encoding="utf-8"), "[A-Za-z0-9+/]{100}")


class Scenarios(CommandLineCase):
    def started(self, *argv: str) -> tuple[str, str]:
        """Profile and task of a run that is started so."""
        demo = agent.DemoModel()
        self.addCleanup(demo.close)
        with desktop_of_main(agent.DemoDesktop), clock_of_main():
            self.main(*argv, "--endpoint", demo.endpoint, "--max-steps", "1")
        begun = self.records(len(list((self.folder / "dumps").iterdir())))[0]
        return begun["profile"], begun["task"]

    def test_they_are_chosen_by_name_with_their_profile(self) -> None:
        for name in ("notepad", " NotePad "):
            profile, task = self.started("--scenario", name)
            self.assertIn("select all", task)
            self.assertEqual(profile, "chat")
        self.assertEqual(self.started("--scenario", "click")[0], "pointer")
        self.assertEqual(self.started("--scenario", "click", "--profile", "chat")[0], "chat")

    def test_the_list_shows_numbers_names_profiles_and_tasks(self) -> None:
        lines = self.main("--scenarios")[1].splitlines()
        self.assertEqual(len(lines), 7)
        self.assertRegex(lines[0], r"^chat +1  web-chat +The browser")
        self.assertRegex(lines[3], r"^pointer +1  see-cursor +Take a screenshot")

    def test_numbers_count_as_each_profile_is_described(self) -> None:
        for line in self.main("--scenarios")[1].splitlines()[2:5]:
            profile, number, _, words = line.split(maxsplit=3)
            begun = self.started("--profile", profile, "--scenario", number)
            self.assertEqual(begun[0], profile)
            self.assertTrue(begun[1].startswith(words.partition("...")[0].strip()), begun)

    def test_an_unknown_scenario_and_a_second_task_are_refused(self) -> None:
        for argv, words in (
            (("99",), "with --profile their numbers"),
            (("1",), "with --profile their numbers"),
            (("4", "--profile", "chat"), "with --profile their numbers"),
            (("click", "and more"), ""),
        ):
            code, out, err = self.main("--scenario", *argv)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1))
            self.assertIn(words, err)


class Environment(CommandLineCase):
    NAMES = {
        "LMSTUDIO_ENDPOINT": "lmstudio_endpoint",
        "LMSTUDIO_MODEL": "lmstudio_model",
        "LMSTUDIO_TIMEOUT": "lmstudio_timeout",
        "LMSTUDIO_TEMPERATURE": "lmstudio_temperature",
        "LMSTUDIO_MAX_TOKENS": "executor_max_tokens",
        "AGENT_IMAGE_W": "screen_capture_w",
        "AGENT_IMAGE_H": "screen_capture_h",
        "AGENT_DUMP_DIR": "dump_dir",
        "AGENT_DUMP_PREFIX": "dump_prefix",
        "AGENT_DUMP_START": "dump_start",
        "AGENT_KEEP_LAST_SCREENSHOTS": "keep_last_screenshots",
        "AGENT_KEEP_LAST_THINKS": "keep_last_thinks",
        "AGENT_MAX_STEPS": "max_steps",
        "AGENT_STEP_DELAY": "turn_delay",
    }

    def config(self, environ: dict[str, str], *argv: str) -> agent.Config:
        options = agent.command_line().parse_args(["--profile", "planner", *argv])
        return agent.read_config(options, environ)

    def test_every_described_variable_sets_its_field_and_stands_in_the_help(self) -> None:
        shown = self.main("--settings")[1]
        for name, setting in self.NAMES.items():
            value = "x" if isinstance(getattr(agent.Config(), setting), str) else "80"
            value = {"LMSTUDIO_TEMPERATURE": "1", "AGENT_STEP_DELAY": "50"}.get(name, value)
            self.assertEqual(
                str(getattr(self.config({name: value}), setting)).removesuffix(".0"), value
            )
            (told,) = re.findall(rf"(?m)^{setting} = .*\n(?:  .*\n)+", shown)
            self.assertIn(f"environment {name}", " ".join(told.split()))

    def test_the_help_fits_one_screen(self) -> None:
        lines = self.main("--help")[1].splitlines()
        self.assertLessEqual((len(lines), max(map(len, lines))), (50, 120))

    def test_a_wrong_value_names_its_variable(self) -> None:
        wrong = {
            "AGENT_KEEP_LAST_SCREENSHOTS": "two",
            "AGENT_KEEP_LAST_THINKS": "-1",
            "AGENT_MAX_STEPS": "0",
            "AGENT_STEP_DELAY": "soon",
            "AGENT_DUMP_START": "1.5",
            "AGENT_DUMP_PREFIX": "../up/",
            "LMSTUDIO_TEMPERATURE": "hot",
            "LMSTUDIO_TIMEOUT": "nan",
            "AGENT_IMAGE_W": "1e9",
        }
        for name, value in wrong.items():
            with self.subTest(name=name), self.assertRaisesRegex(agent.ConfigError, name):
                self.config({name: value})

    def test_the_profiles_have_the_described_settings_and_variables_go_before_them(self) -> None:
        chat, pointer = (
            self.config({}, "--profile", "chat"),
            self.config({}, "--profile", "pointer"),
        )
        names = (
            "lmstudio_temperature",
            "executor_max_tokens",
            "max_steps",
            "turn_delay",
        )
        self.assertEqual([getattr(chat, name) for name in names], [0.6, 2048, 10, 0.4])
        self.assertEqual([getattr(pointer, name) for name in names], [0.2, 2048, 10, 0.4])
        self.assertEqual(chat.lmstudio_model, "qwen3-vl-8b-instruct")
        self.assertEqual(self.config({"AGENT_MAX_STEPS": "33"}, "--profile", "chat").max_steps, 33)


LOGGED = ("--profile", "pointer", "--described")


class ServerLog(CommandLineCase):
    """From the command line, against the drawn desktop as if it were the real one, with LM Studio's log beside it."""

    def setUp(self) -> None:
        super().setUp()
        self.home = self.folder / "home"
        places = mock.patch.dict(os.environ, HOME=str(self.home), USERPROFILE=str(self.home))
        places.start()
        self.addCleanup(places.stop)

    def write(self, name: str, content: bytes, root: str = ".lmstudio/server-logs") -> None:
        path = self.home / root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            log.write(content)

    def asked(self, path: str) -> None:
        """The server writes its log of a request."""
        self.write("2026-06/2026-06-27.1.log", f"[2026-06-27 10:00:05][INFO] {path}\n".encode())

    def start(self, *argv: str, at_reply: Any = lambda: None) -> int:
        demo = agent.DemoModel()
        self.addCleanup(demo.close)
        plain = demo.respond

        def respond(body: bytes) -> dict[str, Any]:
            self.asked("/v1/chat/completions" if body else "/api/v1/models")
            return (body and at_reply()) or plain(body)

        demo.respond = respond
        with desktop_of_main(agent.DemoDesktop), clock_of_main():
            return self.main(*argv, "--endpoint", demo.endpoint)[0]

    def logs(self) -> tuple[str, str]:
        """What was copied of the server's log, and the log of the last run."""
        folder = max((self.folder / "dumps").iterdir())
        raw, human = folder / "lmstudio_raw.log", folder / "execution_log.txt"
        return raw.read_text() if raw.exists() else "", human.read_text(encoding="utf-8")

    def test_only_what_was_written_during_the_run_is_copied_raw_and_cleaned(self) -> None:
        self.write("2026-06/2026-06-27.1.log", b"[2026-06-27 10:00:00][INFO] before\n")
        self.write("2026-06/2026-06-26.1.log", b"[2026-06-26 10:00:00][INFO] yesterday\n")
        image = b'{"url": "data:image/png;base64,' + b"A1+/" * 4000 + b'=="}\r\n'
        others = iter([image])

        def at_reply() -> None:
            for other in others:
                self.write("2026-06/2026-06-27.1.log", other)
                self.write("2026-06/2026-06-27.2.log", b"[2026-06-27 10:00:09][INFO] next file\n")

        task = 'Write "Hi" into Notes and save it.'
        self.assertEqual(self.start(*LOGGED, "--max-steps", "100", task, at_reply=at_reply), 0)
        raw, human = self.logs()
        self.assertNotIn("before", raw)
        self.assertNotIn("yesterday", raw)
        self.assertGreater(raw.count("/v1/chat/completions"), 10)
        self.assertEqual(raw.count("A1+/"), 4000)
        self.assertTrue(raw.endswith("next file\n"))
        clean = (self.run_folder() / "lmstudio_clean.log").read_text()
        self.assertRegex(clean, r'base64,<\d+ characters>"}')
        self.assertIn("LM Studio's log of this run copied", human)

    def test_the_older_place_is_known_too(self) -> None:
        self.asked = lambda path: self.write(  # type: ignore[method-assign]
            "2025-01/2025-01-02.1.log", b"old place\n", ".cache/lm-studio/server-logs"
        )
        self.start(*LOGGED, "--max-steps", "1", "x")
        self.assertIn("old place\n", self.logs()[0])

    def test_without_such_a_log_no_file_appears(self) -> None:
        self.asked = lambda path: None  # type: ignore[method-assign]
        self.start(*LOGGED, "--max-steps", "1", "x")
        raw, human = self.logs()
        self.assertEqual(raw, "")
        self.assertIn("no log of this run", human)

    def test_a_run_that_is_stopped_or_fails_keeps_the_log_too(self) -> None:
        stop = lambda: signal.raise_signal(signal.SIGINT)  # noqa: E731
        term = lambda: signal.raise_signal(signal.SIGTERM)  # noqa: E731
        fail = lambda: (400, {"error": {"message": "no"}})  # noqa: E731
        for happens, code in ((stop, 130), (term, 130), (fail, 3)):
            calls = itertools.count()
            at_reply = lambda c=calls, what=happens: what() if next(c) > 4 else None  # noqa: E731
            self.assertEqual(self.start(*LOGGED, "x", at_reply=at_reply), code)
            self.assertIn("/v1/chat/completions", self.logs()[0])

    def test_without_the_switch_nothing_outside_of_the_runs_folder_is_read(self) -> None:
        for words in (("--profile", "pointer"), ("--profile", "chat", "--described")):
            with self.subTest(words=words):
                self.start(*words, "--max-steps", "2", "x")
                raw, human = self.logs()
                self.assertEqual((raw, "LM Studio" in human), ("", False))


if __name__ == "__main__":
    unittest.main()
