"""The grammars that models were trained in: what their replies are read as, what is refused, and how they are asked."""

from __future__ import annotations

import json
import math
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from agent import GRAMMARS, TOOLS, ReplyError, Size, native_call, read_any
from tests import fuzz_grammars, seams
from tests.samples import sample

FILE = Path(__file__).parent / "data" / "grammars.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
PICTURE = (1536, 864)


def read(
    grammar: str, text: Any, reason: str | None = "stop", picture: tuple[int, int] = PICTURE
) -> Any:
    message = text if isinstance(text, dict) else {"role": "assistant", "content": text}
    return GRAMMARS[grammar].read(message, reason, picture)


def act(grammar: str, text: Any, *how: Any) -> Any:
    """(name, arguments), or None where no call is certain."""
    try:
        call = read(grammar, text, *how)
    except ReplyError:
        return None
    return call.name, call.arguments


def json_call(action: Any, **arguments: Any) -> str:
    called = {"name": "computer_use", "arguments": {"action": action, **arguments}}
    return f"<tool_call>\n{json.dumps(called)}\n</tool_call>"


def xml_call(action: str, **arguments: str) -> str:
    return function_call("tool_call", "computer_use", action=action, **arguments)


def seed_call(function: str, **arguments: str) -> str:
    return function_call("seed:tool_call", function, **arguments)


def function_call(tag: str, function: str, **arguments: str) -> str:
    given = [f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items()]
    return f"<{tag}>\n<function={function}>\n{''.join(given)}</function>\n</{tag}>"


# Each action of a grammar as a reply, and the act; None: refused.
CASES: dict[str, list[tuple[Any, Any]]] = {
    "qwen3-vl": [
        (json_call("left_click") + json_call("left_click", coordinate=[5, 6]), None),  # a broken one is not skipped
        (json_call("type", text="<think>a</think> b"), ("type_text", {"text": "<think>a</think> b"})),
        (json_call("type", text="<thinking>a</thinking>"), ("type_text", {"text": "<thinking>a</thinking>"})),
        (json_call("left_click", coordinate=[500, 300]), ("click", {"position": [500, 300]})),
        (json_call("right_click", coordinate=[0, 1000]), ("right_click", {"position": [0, 1000]})),
        (json_call("middle_click", coordinate="[5, 6]"), ("middle_click", {"position": [5, 6]})),
        (json_call("double_click", coordinate=[5.0, 6.4]), ("double_click", {"position": [5, 6]})),
        (json_call("triple_click", coordinate=[5, 6]), ("triple_click", {"position": [5, 6]})),
        (json_call("mouse_move", coordinate=[5, 6]), ("move", {"position": [5, 6]})),
        (json_call("left_click_drag", coordinate=[5, 6]), ("drag", {"end": [5, 6]})),
        (json_call("key", keys=["Ctrl", "S"]), ("press_key", {"key": "ctrl+s"})),
        (json_call("key", keys=["ctrl+s", "enter"]), ("press_key", {"key": "ctrl+s", "then": ["enter"]})),
        (json_call("key", keys=["keys=['ctrl", "a']"]), ("press_key", {"key": "ctrl+a"})),
        (json_call("type", text=" a\n"), ("type_text", {"text": " a\n"})),
        (json_call("scroll", pixels="-5", coordinate=[5, 6]), ("scroll", {"ticks": -5, "position": [5, 6]})),
        (json_call("scroll", pixels=150), ("scroll", {"ticks": 2})),
        (json_call("hscroll", pixels=-196), ("hscroll", {"ticks": -2})),
        (json_call("wait", time=1.5), ("wait", {"seconds": 1.5})),
        (json_call("terminate", status="success"), ("finished", {})),
        (json_call("terminate", status="failure"), ("failed", {})),
        (json_call("answer", text="42"), ("answer", {"text": "42"})),
        (xml_call("left_click", coordinate="[5, 6]"), ("click", {"position": [5, 6]})),
        (json_call("left_click", coordinate=[1001, 5]), None),
        (json_call("left_click", coordinate=[0.5, 0.5]), None),
        (json_call("left_click", coordinate=[1, 2], coordinate2=[3, 4]), None),
        (json_call("left_click", coordinate=[1, 2], text="hello"), None),
        (json_call("tap", coordinate=[1, 2]), None),
        (json_call("left click", coordinate=[1, 2]), ("click", {"position": [1, 2]})),
        (json_call("type", text="a\x08c"), None),
        (json_call("key", keys=["ctrl", "a", "delete"]), None),
        (json_call("key", keys=["nosuchkey"]), None),
        (json_call("scroll", pixels=0), None),
        (json_call("wait"), ("wait", {"seconds": 1})),
        (json_call("terminate", status="done"), None),
        ('<tool_call>{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [5, 6', None),
        ('<tool_call>{"name": "computer_use", "arguments": {"action": "type", "text": "abc}}</tool_call>', None),
        ('<tool_call>{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": 136, 99]}}</tool_call>', None),
        ("I would click at [500, 300].", None),
        ("", None),
    ],
    "qwen2.5-vl": [
        (json_call("left_click", coordinate=[1540, 868]), ("click", {"position": [1000, 1000]})),
        (json_call("left_click", coordinate=[770, 434]), ("click", {"position": [500, 500]})),
        (json_call("left_click", coordinate=[1541, 434]), None),
        ('<tool_call>\n{"name": "computer_use", "arguments": {"action": "type", "text": "a⚗', None),
    ],
    "qwen3.5-xml": [
        ("<tool_call>\n<function=computer_use>\n" + xml_call("screenshot"), None),
        (xml_call("type", text="<think>a</think> b"), ("type_text", {"text": "<think>a</think> b"})),
        (xml_call("call_user", text="Log in"), ("ask_person", {"text": "Log in"})),
        (xml_call("left_click", coordinate="[5, 6]", text="ctrl+shift"), ("click", {"position": [5, 6], "modifiers": "ctrl+shift"})),
        (xml_call("type", text="a\nb <c>"), ("type_text", {"text": "a\nb <c>"})),
        (xml_call("key", keys="['ctrl', 'a']"), ("press_key", {"key": "ctrl+a"})),
        (xml_call("key", keys='["[\'ctrl", "a\']"]'), ("press_key", {"key": "ctrl+a"})),
        (xml_call("key_down", keys='["shift"]'), ("key_down", {"key": "shift"})),
        (xml_call("left_mouse_up", coordinate="[5, 6]"), ("mouse_up", {"position": [5, 6]})),
        (xml_call("screenshot"), ("screenshot", {})),
        (xml_call("left_click", coordinate="[5, 6]", text="hello"), None),
        (xml_call("left_click"), None),
        (xml_call("left_click", coordinate="[5, 6]").replace("</function>", ""), None),
        ("<think>x</think>" + xml_call("screenshot"), ("screenshot", {})),
        (xml_call("left_click", coordinate="[5, 6]") + "\n</think>\n" + xml_call("screenshot"), ("screenshot", {})),
    ],
    "gui-owl-1.5": [
        (json_call("fly") + json_call("wait", time=1), None),
        (json_call("interact", text="Log in"), ("ask_person", {"text": "Log in"})),
        ("Action: a\n" + json_call("wait"), ("wait", {"seconds": 1})),
        ("Action: a\n" + json_call("click", coordinate=[5, 6]), ("click", {"position": [5, 6]})),
        (json_call("open app", app_name="Notepad"), ("open_app", {"name": "Notepad"})),
        (json_call("done"), ("finished", {})),
        (json_call("drag", coordinate=[1, 2], coordinate2=[3, 4]), None),
    ],
    "ui-tars-1.0": [
        ("Action: click(start_box='(5')\nAction: wait()", None),
        ("Action: type(content='<think>a</think> b')", ("type_text", {"text": "<think>a</think> b"})),
        ("Action: call_user()", ("ask_person", {})),
        ("Action: click(start_box='(5,6)')", ("click", {"position": [5, 6]})),
        ('Action: left_double(start_box="[5, 6]")', ("double_click", {"position": [5, 6]})),
        ("Action: right_single(start_box='(10,20,30,40)')", ("right_click", {"position": [20, 30]})),
        ("Action: drag(start_box='(1,2)', end_box='(3,4)')", ("drag", {"start": [1, 2], "end": [3, 4]})),
        ("Action: hotkey(key='page down')", ("press_key", {"key": "pagedown"})),
        ("Action: type(content='it\\'s\\n')", ("type_text", {"text": "it's\n"})),
        ("Action: scroll(start_box='(5,6)', direction='up')", ("scroll", {"position": [5, 6], "ticks": 5})),
        ("Action: scroll(direction='right')", ("hscroll", {"ticks": 5})),
        ("<think>Action: wait()</think>\nAction: finished()", ("finished", {})),
        ("Action: click(start_box='(5,6')", None),
        ("Action: click(start_box='(5,6)') or so", None),
        ("Action: click(start_box='(30,40,10,20)')", None),
        ("Action: click(start_box='(5,1001)')", None),
        ("Action: click(start_box='(5,6)', end_box='(7,8)')", None),
        ("Action: click(point='<point>5 6</point>')", None),
        ("Action: type(content='it's')", None),
        ("Action: type(content='C:\\Users')", None),
        ("Action: type('abc')", None),
        ("Action: tap(start_box='(5,6)')", None),
        ("Action: click(start_box='oops')\n\nclick(start_box='(5,6)')", None),
        ("click(start_box='(5,6)')", None),
        ("Thought: I wait. Action: wait()", ("wait", {"seconds": 5})),
        ("Thought: Action: wait() may help\nAction: finished()", None),
        ("Action: type(content='a\nb')", ("type_text", {"text": "a\nb"})),
        ("<think>Action: wait()", None),
    ],
    "ui-tars-1.5": [
        ("Action: click(start_box='(1540,868)')", ("click", {"position": [1000, 1000]})),
        ("Action: click(start_box='<|box_start|>(770,434)<|box_end|>')", ("click", {"position": [500, 500]})),
        ("Action: click(start_box='(1541,434)')", None),
    ],
    "ui-tars-2": [
        (seed_call("fly") + seed_call("wait"), None),
        (seed_call("call_user"), ("ask_person", {})),
        (seed_call("click", point="<point>17 58</point>"), ("click", {"position": [17, 58]})),
        (seed_call("mouse_down", point="<point>1 2</point>", button="right"), ("mouse_down", {"position": [1, 2], "button": "right"})),
        (seed_call("wait"), ("wait", {"seconds": 5})),
        (seed_call("drag", start_point="<point>1 2</point>", end_point="<point>3 4</point>"), ("drag", {"start": [1, 2], "end": [3, 4]})),
        (seed_call("click", point="<point>1 2"), None),
        (seed_call("click", start_box="(1,2)"), None),
        ("<gui_think>" + seed_call("wait") + "</gui_think>" + seed_call("finished"), ("finished", {})),
        ("<think_never_used_51bce0>" + seed_call("wait"), None),
        (seed_call("open_computer"), None),
    ],
    "fara-7b": [
        (json_call("type", text="a", coordinate=[770, 434]), ("type_text", {"text": "a", "position": [500, 500], "submit": True})),
        (json_call("type", text="a", press_enter=False, delete_existing_text=True), ("type_text", {"text": "a", "submit": False, "clear": True})),
        (json_call("scroll", pixels=-500), ("scroll", {"ticks": -8})),
        (json_call("key", keys=["ArrowUp"]), ("press_key", {"key": "up"})),
        (json_call("visit_url", url="example.org"), None),
    ],
    "opencua": [
        ("```python\npyautogui.click(x=)\npyautogui.click(1, 2)\n```", None),
        ("## Code:\n```python\npyautogui.click(770, 434)\n```", ("click", {"position": [500, 500]})),
        ("```python\npyautogui.dragTo(x=770, y=434, button='left')\n```", ("drag", {"end": [500, 500]})),
        ("```python\npyautogui.hotkey('ctrl', 'c')\npyautogui.press('enter')\n```", ("press_key", {"key": "ctrl+c"})),
        ("```python\npyautogui.write(message='a')\n```", ("type_text", {"text": "a"})),
        ("```python\npyautogui.scroll(-5)\n```", ("scroll", {"ticks": -5})),
        ("```python\ncomputer.terminate(status='failure')\n```", ("failed", {})),
        ("```python\npyautogui.click(770, 434, clicks=2)\n```", None),
        ("```python\nos.system('x')\n```", None),
        ("pyautogui.click(770, 434)", None),
    ],
}  # fmt: skip


# Sentence and thought of a reply, which are no part of its act.
WAIT, WAIT_XML = json_call("wait", time=1), xml_call("wait")
REASONED = {"content": f"<action>Wait.</action>{WAIT_XML}", "reasoning_content": "why"}
SENTENCES: tuple[tuple[str, Any, str, str], ...] = (
    ("gui-owl-1.5", f"Action: Wait a little.\n{WAIT}", "Wait a little.", ""),
    ("qwen3-vl", f"<thinking>hm</thinking>{WAIT}", "", "hm"),
    ("qwen3-vl", f"Thought: So.\nAction: Wait.\n{WAIT}", "Wait.", ""),
    ("ui-tars-1.0", "<think>a</think>Thought: Now wait.\nAction: wait()", "Now wait.", "a"),
    ("qwen3.5-xml", REASONED, "Wait.", "why"),
)
# What the program itself does: it looks, waits, asks the person, or ends the run.
NO_TOOL = ("wait", "screenshot", "finished", "answer", "failed", "ask_person")


class Reading(unittest.TestCase):
    def test_every_given_reply_becomes_what_it_must(self) -> None:
        self.assertEqual(len(ROWS), 26)
        for row in ROWS:
            with self.subTest(row["id"]):
                picture = tuple(row.get("image", PICTURE))
                got = act(row["grammar"], row["message"], row["finish_reason"], picture)
                named = got and {"name": got[0], "arguments": got[1]}
                self.assertIn(named, [row["expect"], *row.get("also_ok", [])])

    def test_every_action_is_read_as_an_act_of_the_program_and_every_doubt_refused(self) -> None:
        self.assertEqual(set(CASES), set(GRAMMARS))
        for name, cases in CASES.items():
            for text, wanted in cases:
                with self.subTest(name, text=text):
                    self.assertEqual(act(name, text), wanted)
                    if wanted:
                        self.assertIsNone(act(name, text, "length"), "it may be cut")
                    if wanted and wanted[0] not in NO_TOOL:
                        call = native_call(read(name, text))
                        self.assertEqual(seams.act(call.name, **call.arguments).name, wanted[0])

    def test_sentence_and_thought_are_kept_apart_from_the_act(self) -> None:
        for name, reply, sentence, thought in SENTENCES:
            with self.subTest(name, reply=reply):
                call = read(name, reply)
                self.assertEqual((call.said, call.thought), (sentence, thought))

    def test_a_correction_is_short_and_shows_the_form_of_its_grammar(self) -> None:
        for name, text, part in (
            ("qwen3-vl", "no" * 500, "<tool_call>"),
            ("qwen3.5-xml", "no" * 500, "<parameter=action>"),
            ("ui-tars-1.0", "no" * 500, "Action: click(start_box"),
            ("ui-tars-2", "no" * 500, "<seed:tool_call>"),
            ("qwen3-vl", json_call("tap"), "There is no action 'tap'; there are key, type, mouse"),
            ("qwen3-vl", json_call("terminate", status="no"), "status=failure or status=success."),
            ("qwen3-vl", json_call("left_click", coordinate=[1290, 540]), "x from 0 to 1000 and y from 0 to 1000, not [1290, 540]"),
            ("ui-tars-1.5", "Action: click(start_box='(1700,2)')", "x from 0 to 1540 and y from 0 to 868"),
        ):  # fmt: skip
            with self.subTest(name, part=part):
                with self.assertRaises(ReplyError) as caught:
                    read(name, text)
                correction = GRAMMARS[name].correction(caught.exception)
                self.assertIn(part, correction)
                self.assertIn("Nothing was done", correction)
                self.assertLess(len(correction), 600)


class Asking(unittest.TestCase):
    """What the system and the first question hold is compared with the models' documents in test_native_requests."""

    def test_a_picture_is_seen_in_the_documented_sizes(self) -> None:
        rule = GRAMMARS["qwen2.5-vl"].picture
        for sent, seen in (
            ((1920, 1080), (1932, 1092)),
            ((1440, 900), (1428, 896)),
            ((1536, 864), (1540, 868)),
            ((2560, 1440), (2548, 1428)),
            ((3840, 2160), (3836, 2156)),
        ):
            self.assertEqual(rule.seen_size(Size(*sent)), seen)
        self.assertEqual(GRAMMARS["qwen3-vl"].picture.seen_size(Size(1536, 864)), (1536, 864))
        self.assertLessEqual(rule.seen_size(Size(8000, 5000)).pixels, 12_845_056)
        self.assertGreaterEqual(rule.seen_size(Size(20, 20)).pixels, 3_136)
        for size in ((0, 5), (5000, 5)):
            with self.assertRaises(ReplyError):
                rule.seen_size(Size(*size))

    def test_a_picture_costs_what_the_model_makes_of_it(self) -> None:
        for name, tokens in {"qwen3-vl": 3600, "gui-owl-1.5": 3600, "ui-tars-1.5": 4702}.items():
            self.assertEqual(GRAMMARS[name].picture.tokens(Size(2560, 1440)), tokens)

    def test_all_that_is_announced_is_read_and_every_word_has_a_tool(self) -> None:
        words = [
            word for row in GRAMMARS.values() for group in row.words.values() for word in group
        ]
        acts = {word.act for word in words}
        self.assertEqual(acts - TOOLS.keys(), {"screenshot", "finished", "ask_person"})
        for name in ("qwen3-vl", "gui-owl-1.5", "qwen3.5-xml", "fara-7b"):
            self.assertEqual(
                set(GRAMMARS[name].actions.split()) - GRAMMARS[name].words.keys(), set()
            )

    def test_a_task_stands_in_the_question_as_it_was_given(self) -> None:
        steps = ["Press win.", "Type {x}."]
        asked = GRAMMARS["qwen3-vl"].first_text("Open {it}", steps)
        end = "Instruction: Open {it}\n\nPrevious actions:\nStep 1: Press win.\nStep 2: Type {x}."
        self.assertEqual(asked[-len(end) :], end)
        self.assertRegex(GRAMMARS["ui-tars-1.5"].first_text("Open {x}", []), r"\nOpen \{x\}$")


class OtherGrammars(unittest.TestCase):
    def other(self, text: str, asked_in: str = "qwen3-vl") -> Any:
        try:
            call, is_its_form = read_any({"content": text}, "stop", PICTURE, asked_in)
        except ReplyError:
            return None
        return is_its_form, call.name, call.arguments

    def test_a_reply_in_another_grammar_is_read_where_it_is_certain(self) -> None:
        pointed = seed_call("click", point="<point>1 2</point>")
        self.assertEqual(self.other(pointed), (False, "click", {"position": [1, 2]}))
        typed = self.other("Action: type(content='a')")
        self.assertEqual(typed, (False, "type_text", {"text": "a"}))

    def test_the_grammar_that_was_asked_in_comes_first(self) -> None:
        text = "Action: click(start_box='(770,434)')"
        for name, place in (("ui-tars-1.5", [500, 500]), ("ui-tars-1.0", [770, 434])):
            self.assertEqual(self.other(text, name), (True, "click", {"position": place}))

    def test_a_place_in_doubt_is_no_click(self) -> None:
        """Two grammars read it differently, its own refuses it, or there is no act beside it."""
        for text, asked_in in (
            ("Action: click(start_box='(100,200)')", "qwen3-vl"),
            (json_call("left_click", coordinate=[100, 200]), "ui-tars-1.0"),
            (json_call("left_click", coordinate=[1100, 200]), "qwen3-vl"),
            (json_call("click", coordinate=[1100, 200]), "qwen3-vl"),
            ("Action: click(start_box='(1100,200)')", "ui-tars-1.0"),
            ('{"x": 5, "y": 6}', "qwen3-vl"),
            ("Click(5, 6)", "qwen3-vl"),
            ('<answer>{"coordinate":[1,2]}</answer>', "qwen3-vl"),
        ):
            self.assertIsNone(self.other(text, asked_in), text)


# What is said again and again.
PIECES = (
    *"<think> </think> <thinking> </thinking> { [ ' \\ ( x=1, <function=a> <parameter=a> <point>".split(),
    *("Action: ", "Action: click(", "\n", " ", "```python\n"),
)


class Hostile(unittest.TestCase):
    def test_mutated_replies_give_the_act_that_they_hold_or_none(self) -> None:
        for name in GRAMMARS:
            with self.subTest(name):
                # Without the program's limit of time, which a collection of garbage may pass.
                with mock.patch.object(fuzz_grammars, "SECONDS_MOST", math.inf):
                    calls = fuzz_grammars.run(sample(400, 75), name, seed=1)
                self.assertGreater(calls, 5)

    def test_long_replies_of_anything_are_refused_soon(self) -> None:
        for name, grammar in GRAMMARS.items():
            for piece in PIECES:
                text = piece * (sample(50_000, 4_000) // len(piece))
                with self.subTest(name, piece=piece), self.assertRaises(ReplyError):
                    grammar.read({"content": text}, "stop", PICTURE)


if __name__ == "__main__":
    unittest.main()
