"""The grammars that models were trained in: what their replies are read as, what is refused, and how they are asked."""

from __future__ import annotations

import json
import math
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from agent import (
    GRAMMARS,
    ReplyError,
    Size,
    grammar_for,
    native_call,
    read_any,
)
from tests import fuzz_grammars, seams
from tests.samples import sample

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "grammars.jsonl").read_text("utf-8").splitlines()
]
PICTURE = (1536, 864)
NAMES = (
    "qwen3-vl qwen2.5-vl qwen3.5-xml gui-owl-1.5 ui-tars-1.0 ui-tars-1.5 ui-tars-2 fara-7b opencua"
).split()


def read(
    grammar: str, text: Any, reason: str | None = "stop", picture: tuple[int, int] = PICTURE
) -> Any:
    message = text if isinstance(text, dict) else {"role": "assistant", "content": text}
    return GRAMMARS[grammar].read(message, reason, picture)


def act(
    grammar: str, text: Any, reason: str | None = "stop", picture: tuple[int, int] = PICTURE
) -> Any:
    """(name, arguments), or None where no call is certain."""
    try:
        call = read(grammar, text, reason, picture)
    except ReplyError:
        return None
    return call.name, call.arguments


def json_call(**arguments: Any) -> str:
    return (
        f"<tool_call>\n{json.dumps({'name': 'computer_use', 'arguments': arguments})}\n</tool_call>"
    )


def xml_call(**arguments: str) -> str:
    inside = "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items()
    )
    return f"<tool_call>\n<function=computer_use>\n{inside}</function>\n</tool_call>"


def seed_call(function: str, **arguments: str) -> str:
    inside = "".join(
        f"<parameter={name}>{value}</parameter>\n" for name, value in arguments.items()
    )
    return f"<seed:tool_call>\n<function={function}>\n{inside}</function>\n</seed:tool_call>"


# One row for each action of a grammar: the reply, and the act; None: refused.
CASES: dict[str, list[tuple[Any, Any]]] = {
    "qwen3-vl": [
        (
            json_call(action="left_click", coordinate=[500, 300]),
            ("click", {"position": [500, 300]}),
        ),
        (
            json_call(action="right_click", coordinate=[0, 1000]),
            ("right_click", {"position": [0, 1000]}),
        ),
        (
            json_call(action="middle_click", coordinate="[5, 6]"),
            ("middle_click", {"position": [5, 6]}),
        ),
        (
            json_call(action="double_click", coordinate=[5.0, 6.4]),
            ("double_click", {"position": [5, 6]}),
        ),
        (
            json_call(action="triple_click", coordinate=[5, 6]),
            ("triple_click", {"position": [5, 6]}),
        ),
        (json_call(action="mouse_move", coordinate=[5, 6]), ("move", {"position": [5, 6]})),
        (json_call(action="left_click_drag", coordinate=[5, 6]), ("drag", {"end": [5, 6]})),
        (json_call(action="key", keys=["Ctrl", "S"]), ("press_key", {"key": "ctrl+s"})),
        (
            json_call(action="key", keys=["ctrl+s", "enter"]),
            ("press_key", {"key": "ctrl+s", "then": ["enter"]}),
        ),
        (
            json_call(action="key", keys=["down", "down"]),
            ("press_key", {"key": "down", "then": ["down"]}),
        ),
        (json_call(action="key", keys=["keys=['ctrl", "a']"]), ("press_key", {"key": "ctrl+a"})),
        (json_call(action="type", text=" a\n"), ("type_text", {"text": " a\n"})),
        (
            json_call(action="scroll", pixels="-5", coordinate=[5, 6]),
            ("scroll", {"ticks": -5, "position": [5, 6]}),
        ),
        (json_call(action="scroll", pixels=20), ("scroll", {"ticks": 20})),
        (json_call(action="scroll", pixels=-21), ("scroll", {"ticks": -1})),
        (json_call(action="scroll", pixels=99), ("scroll", {"ticks": 1})),
        (json_call(action="scroll", pixels=150), ("scroll", {"ticks": 2})),
        (json_call(action="hscroll", pixels=-196), ("hscroll", {"ticks": -2})),
        (json_call(action="wait", time=1.5), ("wait", {"seconds": 1.5})),
        (json_call(action="terminate", status="success"), ("finished", {})),
        (json_call(action="terminate", status="failure"), ("failed", {})),
        (json_call(action="answer", text="42"), ("answer", {"text": "42"})),
        (xml_call(action="left_click", coordinate="[5, 6]"), ("click", {"position": [5, 6]})),
        (json_call(action="left_click", coordinate=[1001, 5]), None),
        (json_call(action="left_click", coordinate=[-1, 5]), None),
        (json_call(action="left_click", coordinate=[0.5, 0.5]), None),
        (json_call(action="left_click", coordinate=[1.0, 1.0]), None),
        (json_call(action="left_click", coordinate=[1, 2, 3]), None),
        (json_call(action="left_click", coordinate=[1, 2, 3, 4]), None),
        (json_call(action="left_click", coordinate=[[1, 2]]), None),
        (json_call(action="left_click", coordinate=[1, 2], coordinate2=[3, 4]), None),
        (json_call(action="left_click", coordinate=[1, 2], text="hello"), None),
        (json_call(action="left_click", coordinate=[1, 2], bbox=[1, 2, 3, 4]), None),
        (json_call(action="left_click", x=1, y=2), None),
        (json_call(action="tap", coordinate=[1, 2]), None),
        (json_call(action="left click", coordinate=[1, 2]), ("click", {"position": [1, 2]})),
        (json_call(action=["left_click"], coordinate=[1, 2]), None),
        (json_call(coordinate=[1, 2]), None),
        (json_call(action="type"), None),
        (json_call(action="type", text=""), None),
        (json_call(action="type", text=["a"]), None),
        (json_call(action="type", text="a\bc"), None),  # a backspace
        (json_call(action="key", keys=["ctrl", "a", "delete"]), None),
        (json_call(action="key", keys=["nosuchkey"]), None),
        (json_call(action="key", keys=[]), None),
        (json_call(action="scroll", pixels=0), None),
        (json_call(action="scroll", pixels="much"), None),
        (json_call(action="scroll"), None),
        (json_call(action="wait"), ("wait", {"seconds": 1})),
        (json_call(action="wait", time=-1), None),
        (json_call(action="terminate"), ("finished", {})),
        (json_call(action="terminate", status="done"), None),
        (
            '<tool_call>{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [5, 6',
            None,
        ),
        (
            '<tool_call>{"name": "computer_use", "arguments": {"action": "type", "text": "abc}}</tool_call>',
            None,
        ),
        (
            '<tool_call>{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": 136, 99]}}</tool_call>',
            None,
        ),
        ("I would click at [500, 300].", None),
        ("", None),
        ({"content": None}, None),
    ],
    "qwen2.5-vl": [
        (
            json_call(action="left_click", coordinate=[1540, 868]),
            ("click", {"position": [1000, 1000]}),
        ),
        (
            json_call(action="left_click", coordinate=[770, 434]),
            ("click", {"position": [500, 500]}),
        ),
        (json_call(action="left_click", coordinate=[1541, 434]), None),
        ('<tool_call>\n{"name": "computer_use", "arguments": {"action": "type", "text": "a⚗', None),
    ],
    "qwen3.5-xml": [
        (
            xml_call(action="left_click", coordinate="[5, 6]", text="ctrl+shift"),
            ("click", {"position": [5, 6], "modifiers": "ctrl+shift"}),
        ),
        (xml_call(action="type", text="a\nb <c>"), ("type_text", {"text": "a\nb <c>"})),
        (xml_call(action="key", keys="['ctrl', 'a']"), ("press_key", {"key": "ctrl+a"})),
        (xml_call(action="key", keys='["[\'ctrl", "a\']"]'), ("press_key", {"key": "ctrl+a"})),
        (xml_call(action="key_down", keys='["shift"]'), ("key_down", {"key": "shift"})),
        (xml_call(action="key_up", keys='["shift"]'), ("key_up", {"key": "shift"})),
        (xml_call(action="left_mouse_down"), ("mouse_down", {})),
        (xml_call(action="left_mouse_up", coordinate="[5, 6]"), ("mouse_up", {"position": [5, 6]})),
        (xml_call(action="screenshot"), ("screenshot", {})),
        (xml_call(action="wait"), ("wait", {"seconds": 1})),
        (xml_call(action="terminate"), ("finished", {})),
        (xml_call(action="left_click", coordinate="[5, 6]", text="hello"), None),
        (xml_call(action="left_click", coordinate="[5, 6"), None),
        (xml_call(action="left_click"), None),
        (xml_call(coordinate="[5, 6]"), None),
        (xml_call(action="left_click", coordinate="[5, 6]").replace("</function>", ""), None),
        ("<think>x</think>" + xml_call(action="screenshot"), ("screenshot", {})),
        (
            xml_call(action="left_click", coordinate="[5, 6]")
            + "\n</think>\n"
            + xml_call(action="screenshot"),
            ("screenshot", {}),
        ),
    ],
    "gui-owl-1.5": [
        ("Action: a\n" + json_call(action="wait"), ("wait", {"seconds": 1})),
        (
            "Action: a\n" + json_call(action="click", coordinate=[5, 6]),
            ("click", {"position": [5, 6]}),
        ),
        (json_call(action="open app", app_name="Notepad"), ("open_app", {"name": "Notepad"})),
        (json_call(action="done"), ("finished", {})),
        (json_call(action="scroll"), None),
        (json_call(action="drag", coordinate=[1, 2], coordinate2=[3, 4]), None),
    ],
    "ui-tars-1.0": [
        ("Action: click(start_box='(5,6)')", ("click", {"position": [5, 6]})),
        ('Action: left_double(start_box="[5, 6]")', ("double_click", {"position": [5, 6]})),
        (
            "Action: right_single(start_box='(10,20,30,40)')",
            ("right_click", {"position": [20, 30]}),
        ),
        (
            "Action: drag(start_box='(1,2)', end_box='(3,4)')",
            ("drag", {"start": [1, 2], "end": [3, 4]}),
        ),
        ("Action: hotkey(key='ctrl shift t')", ("press_key", {"key": "ctrl+shift+t"})),
        ("Action: hotkey(key='page down')", ("press_key", {"key": "pagedown"})),
        ("Action: type(content='it\\'s\\n')", ("type_text", {"text": "it's\n"})),
        ("Action: type(content='a\\nb')", ("type_text", {"text": "a\nb"})),
        (
            "Action: scroll(start_box='(5,6)', direction='up')",
            ("scroll", {"position": [5, 6], "ticks": 5}),
        ),
        ("Action: scroll(direction='right')", ("hscroll", {"ticks": 5})),
        ("Action: wait()", ("wait", {"seconds": 5})),
        ("Action: finished()", ("finished", {})),
        ("Action: finished(content='ok')", ("finished", {"text": "ok"})),
        ("<think>Action: wait()</think>\nAction: finished()", ("finished", {})),
        ("Action: wait()\nAction: finished()", ("wait", {"seconds": 5})),
        ("Action: click(start_box='(5,6)", None),
        ("Action: click(start_box='(5,6')", None),
        ("Action: click(start_box='(5,6)') or so", None),
        ("Action: click(start_box='(5,6,7)')", None),
        ("Action: click(start_box='(30,40,10,20)')", None),
        ("Action: click(start_box='(5,1001)')", None),
        ("Action: click(start_box='(5,6)', end_box='(7,8)')", None),
        ("Action: click(point='<point>5 6</point>')", None),
        ("Action: click()", None),
        ("Action: type(content='it's')", None),
        ("Action: type(content='C:\\Users')", None),
        ("Action: type('abc')", None),
        ("Action: tap(start_box='(5,6)')", None),
        ("Action: Click the button", None),
        ("Action: click(start_box='oops')\n\nclick(start_box='(5,6)')", None),
        ("click(start_box='(5,6)')", None),
        ("Thought: I wait. Action: wait()", ("wait", {"seconds": 5})),
        ("Thought: Action: wait() may help\nAction: finished()", None),
        ("Action: type(content='a\nb')", ("type_text", {"text": "a\nb"})),
        ("<think>Action: wait()", None),
    ],
    "ui-tars-1.5": [
        ("Action: click(start_box='(1540,868)')", ("click", {"position": [1000, 1000]})),
        (
            "Action: click(start_box='<|box_start|>(770,434)<|box_end|>')",
            ("click", {"position": [500, 500]}),
        ),
        ("Action: click(start_box='(1541,434)')", None),
    ],
    "ui-tars-2": [
        (seed_call("click", point="<point>17 58</point>"), ("click", {"position": [17, 58]})),
        (seed_call("move_to", point="<point>17 58</point>"), ("move", {"position": [17, 58]})),
        (
            seed_call("mouse_down", point="<point>1 2</point>", button="right"),
            ("mouse_down", {"position": [1, 2], "button": "right"}),
        ),
        (seed_call("mouse_up"), ("mouse_up", {})),
        (seed_call("wait", time="2"), ("wait", {"seconds": 2})),
        (seed_call("wait"), ("wait", {"seconds": 5})),
        (seed_call("press", key="ctrl"), ("key_down", {"key": "ctrl"})),
        (seed_call("release", key="ctrl"), ("key_up", {"key": "ctrl"})),
        (
            seed_call("drag", start_point="<point>1 2</point>", end_point="<point>3 4</point>"),
            ("drag", {"start": [1, 2], "end": [3, 4]}),
        ),
        (seed_call("click", point="<point>1 2"), None),
        (seed_call("click", start_box="(1,2)"), None),
        (seed_call("take_screenshot"), ("screenshot", {})),
        (seed_call("type", content="a"), ("type_text", {"text": "a"})),
        (
            "<gui_think>" + seed_call("wait") + "</gui_think>" + seed_call("finished"),
            ("finished", {}),
        ),
        ("<think_never_used_51bce0>" + seed_call("wait"), None),
        (seed_call("click", point="<point>17</point>"), None),
        (seed_call("open_computer"), None),
    ],
    "fara-7b": [
        (
            json_call(action="type", text="a", coordinate=[770, 434]),
            ("type_text", {"text": "a", "position": [500, 500], "submit": True}),
        ),
        (
            json_call(action="type", text="a", press_enter=False, delete_existing_text=True),
            ("type_text", {"text": "a", "submit": False, "clear": True}),
        ),
        (json_call(action="scroll", pixels=-500), ("scroll", {"ticks": -8})),
        (json_call(action="key", keys=["ArrowUp"]), ("press_key", {"key": "up"})),
        (json_call(action="visit_url", url="example.org"), None),
    ],
    "opencua": [
        (
            "## Code:\n```python\npyautogui.click(770, 434)\n```",
            ("click", {"position": [500, 500]}),
        ),
        (
            "```python\npyautogui.dragTo(x=770, y=434, button='left')\n```",
            ("drag", {"end": [500, 500]}),
        ),
        (
            "```python\npyautogui.hotkey('ctrl', 'c')\npyautogui.press('enter')\n```",
            ("press_key", {"key": "ctrl+c"}),
        ),
        ("```python\npyautogui.write(message='a')\n```", ("type_text", {"text": "a"})),
        ("```python\npyautogui.scroll(-5)\n```", ("scroll", {"ticks": -5})),
        (
            "```python\ncomputer.triple_click(x=770, y=434)\n```",
            ("triple_click", {"position": [500, 500]}),
        ),
        ("```python\ncomputer.terminate(status='failure')\n```", ("failed", {})),
        ("```python\npyautogui.click(770, 434, clicks=2)\n```", None),
        ("```python\nimport os\n```", None),
        ("```python\nos.system('x')\n```", None),
        ("```python\npyautogui.click(x=770, y=\n```", None),
        ("pyautogui.click(770, 434)", None),
    ],
}


class Samples(unittest.TestCase):
    def test_every_given_reply_becomes_what_it_must(self) -> None:
        self.assertEqual(len(ROWS), 26)
        for row in ROWS:
            with self.subTest(row["id"]):
                got = act(
                    row["grammar"],
                    row["message"],
                    row["finish_reason"],
                    tuple(row.get("image", PICTURE)),
                )
                named = got and {"name": got[0], "arguments": got[1]}
                self.assertIn(named, [row["expect"], *row.get("also_ok", [])])

    def test_a_cut_reply_is_never_read(self) -> None:
        for name, cases in CASES.items():
            for text, wanted in cases:
                if wanted:
                    self.assertIsNone(act(name, text, "length"), text)


class EachGrammar(unittest.TestCase):
    def test_the_grammars_are_those_that_were_asked_for(self) -> None:
        self.assertEqual(set(GRAMMARS), set(NAMES))
        self.assertEqual(
            {name: row.name for name, row in GRAMMARS.items()}, {name: name for name in NAMES}
        )

    def test_every_action_is_read_and_every_doubt_refused(self) -> None:
        self.assertEqual(set(CASES), set(GRAMMARS))
        for name, cases in CASES.items():
            for text, wanted in cases:
                with self.subTest(name, text=text):
                    self.assertEqual(act(name, text), wanted)

    def test_every_act_is_one_that_a_tool_of_the_program_does(self) -> None:
        """But for those that need no tool: the program itself looks, waits, or ends the run."""
        for name, cases in CASES.items():
            for text, wanted in cases:
                if wanted and wanted[0] not in {
                    "wait",
                    "screenshot",
                    "finished",
                    "answer",
                    "failed",
                }:
                    with self.subTest(name, text=text):
                        call = native_call(read(name, text))
                        self.assertEqual(seams.act(call.name, **call.arguments).name, wanted[0])

    def test_a_broken_first_call_is_never_skipped_for_a_good_second_one(self) -> None:
        broken = {
            "qwen3-vl": json_call(action="left_click")
            + json_call(action="left_click", coordinate=[5, 6]),
            "qwen3.5-xml": "<tool_call>\n<function=computer_use>\n" + xml_call(action="screenshot"),
            "gui-owl-1.5": json_call(action="fly") + json_call(action="wait", time=1),
            "ui-tars-1.0": "Action: click(start_box='(5')\nAction: wait()",
            "ui-tars-2": seed_call("fly") + seed_call("wait"),
            "opencua": "```python\npyautogui.click(x=)\npyautogui.click(1, 2)\n```",
        }
        for name, text in broken.items():
            with self.subTest(name):
                self.assertIsNone(act(name, text))

    def test_a_text_to_type_keeps_the_tags_that_it_holds(self) -> None:
        for tag in ("think", "thinking"):
            typed = f"<{tag}>a</{tag}> b"
            for name, said in (
                ("qwen3-vl", json_call(action="type", text=typed)),
                ("qwen3.5-xml", xml_call(action="type", text=typed)),
                ("ui-tars-1.0", f"Action: type(content='{typed}')"),
            ):
                with self.subTest(name, tag=tag):
                    self.assertEqual(act(name, said), ("type_text", {"text": typed}))

    def test_who_asks_for_the_person_gets_the_person(self) -> None:
        asked = {
            "gui-owl-1.5": (
                json_call(action="interact", text="Close the window"),
                "Close the window",
            ),
            "qwen3.5-xml": (xml_call(action="call_user", text="Log in"), "Log in"),
            "ui-tars-1.0": ("Action: call_user()", ""),
            "ui-tars-2": (seed_call("call_user"), ""),
        }
        for name, (text, words) in asked.items():
            with self.subTest(name):
                call = read(name, text)
                self.assertEqual((call.name, call.arguments.get("text", "")), ("ask_person", words))

    def test_sentence_and_thought_are_kept_apart_from_the_act(self) -> None:
        call = read("gui-owl-1.5", "Action: Wait a little.\n" + json_call(action="wait", time=1))
        self.assertEqual((call.said, call.thought), ("Wait a little.", ""))
        call = read("qwen3-vl", "<thinking>hm</thinking>" + json_call(action="wait", time=1))
        self.assertEqual((call.said, call.thought), ("", "hm"))
        call = read("qwen3-vl", "Thought: So.\nAction: Wait.\n" + json_call(action="wait", time=1))
        self.assertEqual(call.said, "Wait.")
        call = read("ui-tars-1.0", "<think>a</think>Thought: Now wait.\nAction: wait()")
        self.assertEqual((call.said, call.thought), ("Now wait.", "a"))
        message = {
            "content": "<action>Wait.</action>" + xml_call(action="wait"),
            "reasoning_content": "why",
        }
        call = read("qwen3.5-xml", message)
        self.assertEqual((call.said, call.thought), ("Wait.", "why"))

    def test_a_correction_is_short_and_shows_the_form_of_its_grammar(self) -> None:
        marks = {
            "qwen3-vl": "<tool_call>",
            "qwen3.5-xml": "<parameter=action>",
            "ui-tars-1.0": "Action: click(start_box",
            "ui-tars-2": "<seed:tool_call>",
        }
        for name, mark in marks.items():
            with self.subTest(name), self.assertRaises(ReplyError) as caught:
                read(name, "no" * 500)
            correction = GRAMMARS[name].correction(caught.exception)
            self.assertIn(mark, correction)
            self.assertIn("Nothing was done", correction)
            self.assertLess(len(correction), 600)

    def test_an_action_that_does_not_exist_is_told_apart_from_one_that_lacks_its_choice(
        self,
    ) -> None:
        told = {
            json_call(action="tap"): "There is no action 'tap'; there are key, type, mouse_move",
            json_call(action="terminate", status="done"): (
                "terminate must be said with status=failure or status=success."
            ),
        }
        for text, words in told.items():
            with self.subTest(text), self.assertRaises(ReplyError) as caught:
                read("qwen3-vl", text)
            self.assertIn(words, str(caught.exception))


class Pictures(unittest.TestCase):
    def test_a_picture_is_seen_in_the_documented_sizes(self) -> None:
        rule = GRAMMARS["qwen2.5-vl"].picture
        seen = {
            (1920, 1080): (1932, 1092),
            (1440, 900): (1428, 896),
            (1536, 864): (1540, 868),
            (2560, 1440): (2548, 1428),
            (3840, 2160): (3836, 2156),
        }
        for sent, size in seen.items():
            self.assertEqual(rule.seen_size(Size(*sent)), size)
        self.assertEqual(GRAMMARS["qwen3-vl"].picture.seen_size(Size(1536, 864)), (1536, 864))

    def test_a_picture_beyond_the_limits_is_brought_within_them(self) -> None:
        rule = GRAMMARS["qwen2.5-vl"].picture
        self.assertLessEqual(rule.seen_size(Size(8000, 5000)).pixels, 12_845_056)
        self.assertGreaterEqual(rule.seen_size(Size(20, 20)).pixels, 3_136)
        for size in ((0, 5), (5000, 5)):
            with self.assertRaises(ReplyError):
                rule.seen_size(Size(*size))


class Announcing(unittest.TestCase):
    def function(self, name: str, picture: tuple[int, int] = PICTURE) -> Any:
        system = GRAMMARS[name].announce(picture)
        return json.loads(system.partition("<tools>\n")[2].partition("\n</tools>")[0])

    def test_qwen3_vl_is_asked_field_by_field_as_documented(self) -> None:
        system = GRAMMARS["qwen3-vl"].announce(PICTURE)
        self.assertTrue(system.startswith("You are a helpful assistant.\n\n# Tools\n\n"))
        self.assertIn(
            '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
            system,
        )
        self.assertIn("# Response format", system)
        tool = self.function("qwen3-vl")
        self.assertEqual(tool["type"], "function")
        self.assertEqual(tool["function"]["name"], "computer_use")
        self.assertIn("resolution is 1000x1000", tool["function"]["description"])
        parameters = tool["function"]["parameters"]
        self.assertEqual((parameters["type"], parameters["required"]), ("object", ["action"]))
        properties = parameters["properties"]
        self.assertEqual(
            properties["action"]["enum"],
            "key type mouse_move left_click left_click_drag right_click middle_click double_click triple_click scroll"
            " hscroll wait terminate answer".split(),
        )
        types = {name: schema["type"] for name, schema in properties.items()}
        self.assertEqual(
            types,
            {
                "action": "string",
                "keys": "array",
                "text": "string",
                "coordinate": "array",
                "pixels": "number",
                "time": "number",
                "status": "string",
            },
        )
        self.assertEqual(properties["status"]["enum"], ["success", "failure"])

    def test_the_variants_differ_in_what_is_documented(self) -> None:
        self.assertIn(
            "1932x1092", self.function("qwen2.5-vl", (1920, 1080))["function"]["description"]
        )
        self.assertIn("1428x896", self.function("fara-7b", (1440, 900))["function"]["description"])
        owl = self.function("gui-owl-1.5")["function"]["parameters"]["properties"]["action"]["enum"]
        self.assertEqual(owl[-1], "interact")
        self.assertTrue(GRAMMARS["gui-owl-1.5"].announce(PICTURE).startswith("# Tools"))
        xml = GRAMMARS["qwen3.5-xml"].announce(PICTURE)
        for mark in ("<function=example_function_name>", "<IMPORTANT>", "with NO suffix"):
            self.assertIn(mark, xml)

    def test_ui_tars_is_asked_in_the_first_user_turn(self) -> None:
        for name, form in (("ui-tars-1.0", "start_box='"), ("ui-tars-1.5", "end_box='")):
            self.assertEqual(GRAMMARS[name].announce(PICTURE), "")
            text = GRAMMARS[name].first_text("Open {x}", [])
            for mark in ("## Output Format", "Thought: ...", "## Action Space", form, "## Note"):
                self.assertIn(mark, text)
            self.assertTrue(text.endswith("## User Instruction\nOpen {x}"))

    def test_task_and_earlier_steps_stand_in_the_user_turn(self) -> None:
        text = GRAMMARS["qwen3-vl"].first_text("Open {it}", ["Press win.", "Type {x}."])
        self.assertTrue(
            text.endswith(
                "Instruction: Open {it}\n\nPrevious actions:\nStep 1: Press win.\nStep 2: Type {x}."
            )
        )
        self.assertTrue(
            GRAMMARS["gui-owl-1.5"].first_text("a", []).endswith("Previous actions:\nNone")
        )

    def test_only_what_is_announced_is_in_the_enum_and_all_of_it_is_read(self) -> None:
        for name in ("qwen3-vl", "gui-owl-1.5", "qwen3.5-xml", "fara-7b"):
            enum = self.function(name)["function"]["parameters"]["properties"]["action"]["enum"]
            self.assertEqual(enum, GRAMMARS[name].actions.split())
            self.assertEqual(set(enum) - GRAMMARS[name].words.keys(), set())


class Choosing(unittest.TestCase):
    def test_a_models_name_tells_its_grammar(self) -> None:
        names = {
            "qwen/qwen3-vl-4b": "qwen3-vl",
            "Qwen3-VL-8B-Instruct-Q4_K_M.gguf": "qwen3-vl",
            "qwen3-vl-8b-thinking": "qwen3-vl",
            "qwen3vl:4b": "qwen3-vl",
            "qwen2.5-vl-7b-instruct": "qwen2.5-vl",
            "qwen/qwen2.5-vl-7b": "qwen2.5-vl",
            "Qwen2_5-VL-3B": "qwen2.5-vl",
            "qwen3.5-4b": "qwen3.5-xml",
            "qwen/qwen3.6-35b-a3b": "qwen3.5-xml",
            "gui-owl-1.5-8b-instruct": "gui-owl-1.5",
            "GUI-Owl-1.5-2B-Instruct-Q8_0.gguf": "gui-owl-1.5",
            "gui-owl-7b": "tools",
            "mplug/gui_owl-32b": "tools",
            "ui-tars-1.5-7b": "ui-tars-1.5",
            "bytedance/UI-TARS-1.5-7B@q4_k_m": "ui-tars-1.5",
            "ui-tars-7b-dpo": "ui-tars-1.0",
            "ui-tars-2b-sft": "ui-tars-1.0",
            "UI-TARS-72B-DPO": "ui-tars-1.0",
            "ui-tars-2": "ui-tars-2",
            "doubao-1.5-ui-tars-250428": "tools",
            "mai-ui-8b": "tools",
            "Holo1-7B": "tools",
            "holo1.5-7b": "tools",
            "holo2-4b": "tools",
            "fara-7b": "fara-7b",
            "OpenCUA-7B": "opencua",
            "qwen3-8b": "tools",
            "qwen3-4b-2507": "tools",
            "gemma-3-12b": "tools",
            "holo3-35b-a3b": "tools",
            "fara1.5-9b": "tools",
            "OpenCUA-A3B": "tools",
            "qwen2-vl-7b-instruct": "tools",
            "": "tools",
        }
        for name, grammar in names.items():
            with self.subTest(name):
                self.assertEqual(grammar_for(name), grammar)

    def test_what_the_server_tells_counts_where_the_name_says_nothing(self) -> None:
        self.assertEqual(grammar_for("my-model", "qwen3_vl"), "qwen3-vl")
        self.assertEqual(grammar_for("my-model", "qwen3vl"), "qwen3-vl")
        self.assertEqual(grammar_for("my-model", "qwen2_5_vl"), "qwen2.5-vl")
        self.assertEqual(grammar_for("my-model", "qwen2vl"), "tools")
        self.assertEqual(grammar_for("ui-tars-1.5-7b", "qwen2_5_vl"), "ui-tars-1.5")
        self.assertEqual(grammar_for("gta1-7b", "qwen2_5_vl"), "tools")


class OtherGrammars(unittest.TestCase):
    def other(self, text: str, asked_in: str) -> Any:
        try:
            call, is_its_form = read_any({"content": text}, "stop", PICTURE, asked_in)
        except ReplyError:
            return None
        return is_its_form, call.name, call.arguments

    def test_a_reply_in_another_grammar_is_read_where_it_is_certain(self) -> None:
        self.assertEqual(
            self.other(seed_call("click", point="<point>1 2</point>"), "qwen3-vl"),
            (False, "click", {"position": [1, 2]}),
        )
        self.assertEqual(
            self.other("Action: type(content='a')", "qwen3-vl"), (False, "type_text", {"text": "a"})
        )

    def test_the_grammar_that_was_asked_in_comes_first(self) -> None:
        text = "Action: click(start_box='(770,434)')"
        for name, place in (("ui-tars-1.5", [500, 500]), ("ui-tars-1.0", [770, 434])):
            self.assertEqual(self.other(text, name), (True, "click", {"position": place}))

    def test_a_place_that_two_grammars_read_differently_is_refused(self) -> None:
        self.assertIsNone(self.other("Action: click(start_box='(100,200)')", "qwen3-vl"))
        call = json_call(action="left_click", coordinate=[100, 200])
        self.assertIsNone(self.other(call, "ui-tars-1.0"))

    def test_what_its_own_grammar_refuses_is_not_read_in_another_space(self) -> None:
        for action in ("left_click", "click"):
            call = json_call(action=action, coordinate=[1100, 200])
            self.assertIsNone(self.other(call, "qwen3-vl"))
        self.assertIsNone(self.other("Action: click(start_box='(1100,200)')", "ui-tars-1.0"))

    def test_a_bare_place_is_no_click(self) -> None:
        for text in ('{"x": 5, "y": 6}', "Click(5, 6)", '<answer>{"coordinate":[1,2]}</answer>'):
            self.assertIsNone(self.other(text, "qwen3-vl"))


class Hostile(unittest.TestCase):
    def test_mutated_replies_give_the_act_that_they_hold_or_none(self) -> None:
        for name in GRAMMARS:
            with self.subTest(name):
                # Without the program's limit of time, which a collection of garbage may pass.
                with mock.patch.object(fuzz_grammars, "SECONDS_MOST", math.inf):
                    done = fuzz_grammars.run(sample(400, 75), name, seed=1)
                self.assertGreater(done.calls, 5)

    def test_long_replies_of_anything_are_refused_soon(self) -> None:
        pieces = (
            "<think>",
            "</think>",
            "<thinking>",
            "</thinking>",
            "Action: ",
            "Action: click(",
            "\n",
            "{",
            "[",
            "'",
            "\\",
            "(",
            " ",
            "x=1,",
            "<function=a>",
            "<parameter=a>",
            "```python\n",
            "<point>",
        )
        for name, grammar in GRAMMARS.items():
            for piece in pieces:
                text = piece * (sample(50_000, 4_000) // len(piece))
                with self.subTest(name, piece=piece), self.assertRaises(ReplyError):
                    grammar.read({"content": text}, "stop", PICTURE)


if __name__ == "__main__":
    unittest.main()
