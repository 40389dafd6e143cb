"""Places, texts, keys, tools and vocabularies: what a model says becomes an act only if it is certain."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

import agent
from agent import Coordinate, Point, Rect, ToolCall, ToolError, Vocabulary
from tests.scripted import call
from tests.seams import VK_MAP, act, chord

AREAS = (
    *(Rect(0, 0, 1920, 1080), Rect(-1920, 200, 1536, 864), Rect(5, -3000, 3840, 2160)),
    *(Rect(10, 10, 1001, 1001), Rect(7, 8, 1, 1), Rect(7, 8, 2, 3), Rect(0, 0, 17, 9)),
)
TOOLS = {"click": "click_it", "drag": "drag", "type_text": "write", "press_key": "press"}
TOOLS |= {"scroll_down": "down", "report_complete": "done", "archive": "forget"}
ARGUMENTS: dict[str, Any] = {
    "click.element_name": "label",
    "position": "place",
    "click.reasoning": "justification",
    "evidence": "proof",
}
WORDS = Vocabulary(TOOLS, ARGUMENTS, {"modifiers"})
OK = {"label": "OK"}


def parse(name: str, /, **arguments: Any) -> Any:
    """A call as the journal has it."""
    return WORDS.parse(ToolCall(name, arguments))


def read(name: str, /, **arguments: Any) -> Any:
    """A call as a model says it."""
    message = {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
    return agent.read_call(agent.Reply(message, "stop"), WORDS)


class Values(unittest.TestCase):
    def test_a_place_is_the_pixel_that_is_nearest_to_it(self) -> None:
        """Counted by hand: 500 of 1000 on 1920 pixels is 959.5, and a half goes up."""
        for area, place, pixel in (
            (Rect(0, 0, 1920, 1080), (500, 500), (960, 540)),
            (Rect(0, 0, 1920, 1080), (250, 750), (480, 809)),
            (Rect(0, 0, 1920, 1080), (1, 999), (2, 1078)),
            (Rect(0, 0, 64, 36), (100, 900), (6, 32)),
            (Rect(0, 0, 64, 36), (333, 14), (21, 0)),
            (Rect(0, 0, 64, 36), (334, 15), (21, 1)),
            (Rect(-1920, 200, 1920, 1080), (250, 500), (-1440, 740)),
        ):
            self.assertEqual(agent.to_point(Coordinate(*place), area), pixel, (area, place))
        for x, y in ((-1, 0), (0, -1), (1001, 0), (0, 1001)):  # refused, never clamped
            with self.assertRaisesRegex(ToolError, rf"\({x}, {y}\)"):
                Coordinate(x, y)

    def test_the_grid_goes_from_the_first_pixel_to_the_last_and_nowhere_beyond(self) -> None:
        for area in AREAS:
            points = [agent.to_point(Coordinate(at, at), area) for at in range(1001)]
            self.assertEqual(points[0], Point(area.left, area.top))
            self.assertEqual(points[-1], Point(area.right - 1, area.bottom - 1))
            self.assertTrue(all(area.contains(point) for point in points), area)

    def test_a_rectangle_ends_before_the_pixel_after_its_last(self) -> None:
        rect = Rect(-10, 5, 20, 10)
        inside = [Point(-10, 5), Point(9, 14), Point(0, 10)]
        outside = [Point(-11, 5), Point(10, 5), Point(-10, 4), Point(-10, 15)]
        self.assertEqual([rect.contains(p) for p in inside + outside], [True] * 3 + [False] * 4)
        self.assertEqual(rect.intersection(Rect(5, -10, 100, 20)), Rect(5, 5, 5, 5))
        for apart in (Rect(10, 5, 5, 5), Rect(-10, 15, 5, 5), Rect(-32000, -32000, 160, 28)):
            common = rect.intersection(apart)
            self.assertEqual(common.width * common.height, 0)
            self.assertGreaterEqual(min(common.width, common.height), 0)


class Texts(unittest.TestCase):
    def test_a_text_is_typed_as_it_stands_but_for_its_line_ends(self) -> None:
        odd = "  Grüße „x“ 日本 😀👩‍👩‍👧 e\u0301 \u202eabc\u200b\ufeff \u00a0\U0010fffd\ue000 {} null  "
        for text in (odd, "true", "null", "5", "[1, 2]", "{}", " ", "\\n"):
            self.assertEqual(parse("write", text=text).args["text"], text)
        typed = parse("write", text="a\r\nb\rc\nd\r\r\n\te").args["text"]
        self.assertEqual(typed, "a\nb\nc\nd\n\n\te")

    def test_what_cannot_be_typed_is_refused_with_its_place(self) -> None:
        for code in [*range(9), 11, 12, *range(14, 32), *range(127, 160)]:
            with self.assertRaisesRegex(ToolError, rf"Character 3 of the text \(U\+{code:04X}\)"):
                parse("write", text=f"ab{chr(code)}c")
        for lone in ("\ud83d", "\ude00", "\ude00\ud83d"):
            with self.assertRaisesRegex(ToolError, "whole characters"):
                parse("write", text="a" + lone)


class Calls(unittest.TestCase):
    def refused(self, take: Any, name: str, given: dict[str, Any], kind: str, words: str) -> None:
        with self.subTest(name, given=given), self.assertRaises(ToolError) as caught:
            take(name, **given)
        self.assertEqual(caught.exception.kind, kind)
        self.assertRegex(str(caught.exception), r"^[^\n]*\.$")
        self.assertIn(words, str(caught.exception))

    def test_a_good_call_becomes_an_act_with_its_arguments(self) -> None:
        act = read("click_it", label="OK", place=[0, 1000], justification="secret")
        args = act.args
        self.assertEqual((args["element_name"], args["position"]), ("OK", Coordinate(0, 1000)))
        self.assertEqual((act.name, act.reasoning), ("click", "secret"))
        self.assertEqual(str(act), 'click "OK" (0, 1000)')
        self.assertEqual(read("click_it", label="OK", place=[1, 2]).reasoning, "")
        self.assertEqual(read("press", key="Control + ESC").args["key"], "ctrl+escape")
        forgotten = read("forget", summary="s", archived_turns=[1, 2]).args["archived_turns"]
        self.assertEqual(forgotten, (1, 2))

    def test_what_is_not_certain_is_refused_in_the_names_that_the_model_knows(self) -> None:
        every = ", ".join(TOOLS.values())
        for name, told in (
            ("click", "click_it"),
            ("click_on_it", "click_it"),
            ("Click_it", "click_it"),
            ("scroll_down", "down"),
            ("archive", every),
        ):
            words = f"There is no tool {name!r}; there is {told}."
            self.refused(read, name, {**OK, "place": [1, 2]}, "unknown_tool", words)
        self.refused(read, "click_it", OK, "missing_place", " place ")
        self.refused(read, "click_it", {**OK, "position": [1, 2]}, "missing_place", " place ")
        self.refused(read, "done", {}, "missing_proof", " proof ")
        self.refused(read, "write", {"text": ""}, "empty_text", "empty")
        for text in (True, ["a"], {"a": 1}, 1.5):
            self.refused(read, "write", {"text": text}, "invalid_args", "text must be a text")
        for turns in (["one"], "one", 1, [1.5], [True]):
            given = {"summary": "s", "archived_turns": turns}
            self.refused(read, "forget", given, "invalid_args", "archived_turns must")
        wanted = "place must be [x, y] in whole numbers from 0 to 1000"
        shapes: tuple[Any, ...] = ([1], [1, 2, 3], [], {"a": 1, "y": 2}, 5, [0.5, 2], [True, False])
        for place in (*shapes, [[1]], [None, 1]):
            self.refused(read, "click_it", {**OK, "place": place}, "invalid_box", wanted)
        for box in ([300, 300, 400, 100], [300, 300, 100, 400]):  # it may be x, y, width, height
            self.refused(read, "click_it", {**OK, "place": box}, "invalid_box", "")
        for place in ([1001, 5], [-1, 5], [5, -1], [960, 1040], [10**30, 0]):  # never clamped
            self.refused(read, "click_it", {**OK, "place": place}, "invalid_box", "")
            self.refused(parse, "click_it", {**OK, "place": place}, "invalid_box", "0 to 1000")

    def test_a_call_that_somebody_changed_in_a_journal_is_refused(self) -> None:
        for name, arguments, kind, words in (
            ("klick", {"label": "OK", "place": [1, 2]}, "unknown_tool", "There is no tool 'klick'"),
            ("click_it", {"label": "OK", "place": 5}, "invalid_box", "place must be"),
            ("click_it", {"place": ["1", "2"]}, "missing_label", "label is missing"),
            ("click_it", {"label": None, "place": [1, 2]}, "invalid_args", "label must be"),
            ("press", {"key": "ctrl+foo"}, "invalid_key", "no key 'foo'"),
        ):
            self.refused(parse, name, arguments, kind, words)

    def test_null_is_where_the_mouse_is_in_a_journal_alone(self) -> None:
        def by_client(name: str, /, **arguments: Any) -> Any:
            return WORDS.parse(ToolCall(name, arguments), by_model=True)

        nowhere = {**OK, "place": None}
        self.assertEqual(parse("click_it", **nowhere).args["position"], None)
        self.refused(by_client, "click_it", nowhere, "invalid_box", "place must be")
        endless = {"element_name": "OK", "start": None, "end": None}
        self.refused(parse, "drag", endless, "invalid_box", "end must be")

    def test_a_scroll_by_nothing_or_by_more_than_100_is_refused(self) -> None:
        for ticks in (-100, -1, 1, 100):
            self.assertEqual(act("scroll", ticks=ticks).args["ticks"], ticks)
        for ticks in (-101, 0, 101):
            with self.assertRaisesRegex(ToolError, f"must be 1 to 100 ticks.*, not {ticks}"):
                act("scroll", ticks=ticks)


CHAT = agent.PROFILES["chat"].vocabulary
FILE = Path(__file__).parent / "data" / "chords.jsonl"
# Chords by their own names, and what else they are called: by people, in the documentation of pyautogui and X11, by models.
CHORDS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def pressed(key: object) -> str:
    """The chord of a model's call, as the actuator takes it; raises ToolError."""
    act = agent.read_call(agent.Reply(call("press_key", key=key), "stop"), CHAT)
    return "+".join(chord(str(act.call.arguments["key"])))


class Keys(unittest.TestCase):
    def refusal(self, text: str) -> str:
        with self.assertRaises(agent.ToolError) as caught:
            chord(text)
        self.assertEqual(caught.exception.kind, "invalid_key")
        self.assertRegex(str(caught.exception), r"^[^\n]*\.$")
        return str(caught.exception)

    def test_a_chord_is_the_same_by_all_its_names(self) -> None:
        for row in CHORDS:
            for name in [row["chord"], *row["names"]]:
                with self.subTest(name):
                    self.assertEqual("+".join(chord(name)), row["chord"])
        self.assertEqual((chord(" "), chord("ctrl+space")), (("space",), ("ctrl", "space")))

    def test_every_key_of_the_table_is_a_chord_of_its_own(self) -> None:
        wanted = "apps numpad9 lshift volumeup playpause a Z 0 ; = , / [ ] comma slash ` ' \\"
        for name in [*VK_MAP, *wanted.split()]:
            self.assertEqual(len(chord(name)), 1, name)
            self.assertEqual(chord(f"ctrl+{name}")[-1], chord(name)[0])

    def test_what_is_no_key_is_refused_by_name(self) -> None:
        signs = "kaboom|ctrl+s+|+s|ctrl+|ctrl-|++||\n\n|f25|ctrl++s|é|Hello|+++"
        for text in signs.split("|"):
            self.assertIn(f"no key '{' '.join(text.split())}';", self.refusal(text))
        self.assertIn("no key 'foo';", self.refusal("ctrl+foo"))
        self.assertLess(len(self.refusal("e" + "[" * 2000)), 120)
        for text in ("a+b", "ctrl+k+c", "enter+tab", "up up"):
            self.assertIn("names 2 keys at once", self.refusal(text))

    def test_a_list_of_keys_is_their_chord_and_another_list_is_refused(self) -> None:
        for keys, wanted in (
            (["s", "Ctrl"], "ctrl+s"),
            (["Control", "Shift", "Page Up"], "ctrl+shift+pageup"),
            (["enter"], "enter"),
            (["ctrl", "+"], "ctrl+numadd"),
        ):
            self.assertEqual(pressed(keys), wanted)
        for keys in (["a", "b"], ["ctrl", "nonsense"], ["ctrl", 5], ["ctrl+a", "x"], [["ctrl"]]):
            with self.subTest(keys), self.assertRaises(agent.ToolError):
                pressed(keys)
