"""Values, keys and text, tools and vocabularies: what a model says becomes an act only if it is certain."""

from __future__ import annotations

import itertools
import re
import unittest
from dataclasses import dataclass, field, fields
from typing import Any

import agent
from agent import Coordinate, Point, Rect, ToolCall, ToolError, Vocabulary
from tests.seams import VK_MAP, act, chord, new_tool

AREAS = [
    Rect(0, 0, 1920, 1080),
    Rect(-1920, 200, 1536, 864),
    Rect(5, -3000, 3840, 2160),
    Rect(10, 10, 1001, 1001),
]
# What keys are called beside their own names, by people, in other programs' documentation and by models.
ALIASES = {
    "ctrl": "control strg",
    "lctrl": "lcontrol",
    "rctrl": "ctrlright rcontrol",
    "ralt": "altgr altright",
    "win": "windows super meta cmd command lwin",
    "rwin": "winright",
    "escape": "esc",
    "enter": "return ret kpenter",
    "backspace": "back",
    "delete": "del",
    "insert": "ins",
    "pageup": "pgup prior",
    "pagedown": "pgdn next",
    "left": "ArrowLeft",
    "down": "downarrow",
    "printscreen": "prtsc snapshot",
    "numadd": "plus add",
    "-": "minus",
    ".": "period dot",
    "num7": "numpad7",
}
CLICK = {"element_name": "OK", "position": [10, 20]}


def refused(test: unittest.TestCase, kind: str, act: Any, *arguments: Any) -> str:
    """The text of the ToolError of that kind; it is one sentence without line breaks."""
    with test.assertRaises(ToolError) as caught:
        act(*arguments)
    test.assertEqual(caught.exception.kind, kind)
    test.assertRegex(str(caught.exception), r"^[^\n]*\.$")
    return str(caught.exception)


def cleaned(text: str) -> Any:
    """The text that is typed when a model asks for this one."""
    return parse("write", text=text).args.text


class Values(unittest.TestCase):
    def test_a_coordinate_outside_the_grid_is_refused_never_clamped(self) -> None:
        for x, y in ((-1, 0), (0, -1), (1001, 0), (0, 1001), (5000, 5000)):
            self.assertIn(f"({x}, {y})", refused(self, "invalid_args", Coordinate, x, y))
        for x, y in ((0, 0), (1000, 1000), (0, 1000), (1000, 0)):
            self.assertEqual(str(Coordinate(x, y)), f"({x}, {y})")

    def test_the_ends_of_the_grid_are_the_first_and_last_pixels(self) -> None:
        for area in [*AREAS, Rect(7, 8, 1, 1), Rect(7, 8, 2, 3), Rect(-5, -5, 64, 36)]:
            self.assertEqual(agent.to_point(Coordinate(0, 0), area), Point(area.left, area.top))
            last = Point(area.left + area.width - 1, area.top + area.height - 1)
            self.assertEqual(agent.to_point(Coordinate(1000, 1000), area), last)

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

    def test_every_place_of_the_grid_lies_inside_the_area(self) -> None:
        for area in [*AREAS, Rect(3, 3, 1, 1), Rect(0, 0, 17, 9)]:
            for value in range(1001):
                self.assertTrue(
                    area.contains(agent.to_point(Coordinate(value, 1000 - value), area))
                )

    def test_a_rectangle_contains_its_first_but_not_the_pixel_after_its_last(self) -> None:
        rect = Rect(-10, 5, 20, 10)
        inside = [Point(-10, 5), Point(9, 14), Point(0, 10)]
        outside = [Point(-11, 5), Point(10, 5), Point(-10, 4), Point(-10, 15)]
        self.assertEqual([rect.contains(p) for p in inside + outside], [True] * 3 + [False] * 4)

    def test_the_common_part_of_rectangles(self) -> None:
        rect = Rect(0, 0, 100, 50)
        self.assertEqual(rect.intersection(Rect(90, -10, 100, 20)), Rect(90, 0, 10, 10))
        self.assertEqual(rect.intersection(rect), rect)
        for apart in (Rect(100, 0, 5, 5), Rect(0, 50, 5, 5), Rect(-32000, -32000, 160, 28)):
            common = rect.intersection(apart)
            self.assertEqual(common.width * common.height, 0)
            self.assertGreaterEqual(min(common.width, common.height), 0)


class Chords(unittest.TestCase):
    def test_a_sign_between_blanks_is_no_part_of_a_keys_name(self) -> None:
        for keys in ("alt - left", "win - left", "ctrl - l"):
            self.assertEqual(chord(keys), tuple(keys.split(" - ")))

    def test_every_key_of_the_table_is_a_chord_of_its_own(self) -> None:
        for name in VK_MAP:
            self.assertEqual(chord(name), (name,))
            self.assertEqual(chord(f"ctrl+{name}")[-1], name)

    def test_every_alias_means_its_key(self) -> None:
        for key, aliases in ALIASES.items():
            for alias in aliases.split():
                self.assertEqual(chord(alias), (key,), alias)

    def test_the_keys_that_people_and_models_ask_for_exist(self) -> None:
        wanted = """ctrl control alt shift win windows cmd esc escape enter return tab space backspace delete del insert
            ins home end pageup pgup page_up PageDown pgdn up ArrowUp arrow_left Right f1 F12 f24 capslock caps_lock
            printscreen menu apps num0 numpad9 numadd lctrl rctrl lshift rshift lalt ralt altgr volumeup playpause
            a Z 0 9 ; = , - . / [ ] minus plus comma period slash""".split()
        for name in [*wanted, "Page Down", "`", "'", "\\", " "]:
            self.assertEqual(len(chord(name)), 1, name)

    def test_case_blanks_and_order_do_not_matter(self) -> None:
        for text in (
            "ctrl+shift+s",
            "Ctrl+Shift+S",
            " CTRL + shift + s ",
            "s+shift+ctrl",
            "control+SHIFT+s",
            "ctrl-shift-s",
            "ctrl shift s",
        ):
            keys = chord(text)
            self.assertEqual((set(keys[:2]), keys[2]), ({"ctrl", "shift"}, "s"), text)

    def test_modifiers_keep_the_order_in_which_they_were_named_and_come_once(self) -> None:
        self.assertEqual(chord("shift+ctrl+tab"), ("shift", "ctrl", "tab"))
        self.assertEqual(chord("ctrl+control+c"), ("ctrl", "c"))
        self.assertEqual(chord("win"), ("win",))
        self.assertEqual(chord("ctrl+shift"), ("ctrl", "shift"))

    def test_plus_and_minus_are_keys_too(self) -> None:
        for text, keys in {
            "+": ("numadd",),
            "ctrl++": ("ctrl", "numadd"),
            "ctrl + +": ("ctrl", "numadd"),
            "ctrl+plus": ("ctrl", "numadd"),
            "-": ("-",),
            "ctrl+-": ("ctrl", "-"),
            "ctrl--": ("ctrl", "-"),
            "ctrl+minus": ("ctrl", "-"),
            "ctrl+=": ("ctrl", "="),
            "ctrl-c": ("ctrl", "c"),
            "alt-f4": ("alt", "f4"),
            "page-up": ("pageup",),
            "ctrl+page-up": ("ctrl", "pageup"),
            " ": ("space",),
            "ctrl+space": ("ctrl", "space"),
        }.items():
            self.assertEqual(chord(text), keys, text)

    def test_what_is_no_key_is_refused_by_name(self) -> None:
        for text, wrong in {
            "ctrl+foo": "'foo'",
            "kaboom": "'kaboom'",
            "ctrl+s+": "'ctrl+s+'",
            "+s": "'+s'",
            "ctrl+": "'ctrl+'",
            "ctrl-": "'ctrl-'",
            "ctrl -": "'ctrl -'",
            "++": "'++'",
            "": "''",
            "\n": "'\\n'",
            "f25": "'f25'",
            "ctrl++s": "'ctrl++s'",
            "lctl+a": "'lctl'",
            "é": "'é'",
            "Hello": "'Hello'",
            "+++": "'+++'",
        }.items():
            self.assertIn(f"no key {wrong};", refused(self, "invalid_key", chord, text))

    def test_of_an_endless_name_the_refusal_repeats_the_beginning(self) -> None:
        said = refused(self, "invalid_key", chord, "e" + "[" * 2000)
        self.assertIn("no key 'e[[[", said)
        self.assertLess(len(said), 120)

    def test_two_keys_at_once_are_refused(self) -> None:
        for text in ("a+b", "ctrl+k+c", "enter+tab", "up up"):
            self.assertIn("names 2 keys at once", refused(self, "invalid_key", chord, text))

    def test_a_chord_reads_the_same_after_it_was_written_down(self) -> None:
        for text in ("ctrl++", "Ctrl+Shift+Esc", "ctrl+-", "win+r", "ctrl+\\", "alt+space"):
            args = parse("press", key=text).args
            self.assertEqual(chord(args.key), chord(text))
        self.assertEqual(parse("press", key="Control + ESC").args.key, "ctrl+escape")


class CleanText(unittest.TestCase):
    def test_every_line_end_becomes_one(self) -> None:
        self.assertEqual(cleaned("a\r\nb\rc\nd\r\r\n\te"), "a\nb\nc\nd\n\n\te")

    def test_everything_else_stays_exactly_as_it_is(self) -> None:
        text = "  Grüße „x“ 日本 😀👩‍👩‍👧 e\u0301 \u202eabc\u200b\ufeff \u00a0\U0010fffd\ue000 true {} null  "
        self.assertEqual(cleaned(text), text)

    def test_control_characters_are_refused_with_their_place(self) -> None:
        for code in [*range(9), 11, 12, *range(14, 32), *range(127, 160)]:
            text = refused(self, "invalid_args", cleaned, f"ab{chr(code)}c")
            self.assertIn(f"Character 3 of the text (U+{code:04X})", text)

    def test_lone_surrogates_are_refused(self) -> None:
        for lone in ("\ud83d", "\ude00", "\ude00\ud83d"):
            said = refused(self, "invalid_args", cleaned, "a" + lone)
            self.assertIn("whole characters", said)
        self.assertEqual(cleaned(" "), " ")


WORDS = Vocabulary(
    {
        "click": "click_it",
        "drag": "drag",
        "type_text": "write",
        "press_key": "press",
        "scroll_down": "down",
        "report_complete": "done",
        "archive": "forget",
    },
    {
        "click.element_name": "label",
        "position": "place",
        "click.reasoning": "justification",
        "evidence": "proof",
        "modifiers": {},
    },
)


def parse(name: str, /, **arguments: Any) -> agent.Act:
    return WORDS.parse(ToolCall(name, arguments))


class Schemas(unittest.TestCase):
    def test_a_schema_has_the_names_of_its_vocabulary(self) -> None:
        (schema,) = WORDS.schemas(["click"])
        self.assertEqual(schema["type"], "function")
        function = schema["function"]
        self.assertEqual(
            (function["name"], function["parameters"]["required"]), ("click_it", ["label", "place"])
        )
        properties = function["parameters"]["properties"]
        self.assertEqual(list(properties), ["label", "place", "justification"])
        self.assertEqual(properties["label"], {"type": "string"})
        self.assertEqual(
            properties["place"],
            {
                "type": "array",
                "items": {"type": "integer", "minimum": 0, "maximum": 1000},
                "minItems": 2,
                "maxItems": 2,
            },
        )

    def test_what_a_schema_leaves_to_the_prompt_is_checked_when_a_reply_is_read(self) -> None:
        for place in ([1], [1, 2, 3], [-1, 5], [5, -1], [], [1001, 5], [1, 2]):
            function = {"name": "click_it", "arguments": {"label": "OK", "place": place}}
            message = {"tool_calls": [{"type": "function", "function": function}]}
            if place == [1, 2]:
                self.assertEqual(
                    agent.read_call(message, "stop", WORDS).call.arguments["place"], place
                )
            else:
                refused(self, "invalid_box", agent.read_call, message, "stop", WORDS)

    def test_schemas_come_in_the_order_asked_for_and_only_those(self) -> None:
        names = [
            schema["function"]["name"]
            for schema in WORDS.schemas(["report_complete", "click", "scroll_down"])
        ]
        self.assertEqual(names, ["done", "click_it", "down"])

    def test_every_tool_has_a_schema_and_a_short_description(self) -> None:
        every = Vocabulary({name: f"x_{name}" for name in agent.TOOLS})
        for name, schema in zip(agent.TOOLS, every.schemas(list(agent.TOOLS)), strict=True):
            function = schema["function"]
            self.assertEqual(function["name"], f"x_{name}")
            self.assertLess(len(function["description"]), 120)
            optional = {f.name for f in fields(agent.TOOLS[name].args)} - set(
                function["parameters"]["required"]
            )
            self.assertLessEqual({n for n in optional if n == "reasoning"}, {"reasoning"})
            self.assertEqual(function["parameters"]["type"], "object")

    def test_required_numbers_are_a_list_of_integers(self) -> None:
        (schema,) = WORDS.schemas(["archive"])
        parameters = schema["function"]["parameters"]
        self.assertEqual(parameters["properties"]["archived_turns"]["type"], "array")
        self.assertEqual(set(parameters["required"]), {"summary", "archived_turns"})

    def test_a_call_made_from_the_schema_is_accepted(self) -> None:
        samples = {"string": "ctrl+s", "array": [100, 200], "boolean": True, "integer": 5}
        every = Vocabulary({name: name for name in agent.TOOLS})
        for schema in every.schemas(list(agent.TOOLS)):
            function = schema["function"]
            given = {
                n: samples[p.get("type", "integer")]
                for n, p in function["parameters"]["properties"].items()
            }
            if "then" in given:
                given["then"] = ["tab", "enter"]
            if function["name"] == "drag":
                given["end"] = [300, 400]
            given |= {name: "ctrl" for name in given if name == "modifiers"}
            given |= {name: "right" for name in given if name == "button"}
            act = every.parse(ToolCall(function["name"], given))
            self.assertEqual(act.name, function["name"])
            self.assertIsInstance(act.args, agent.TOOLS[function["name"]].args)


class Parsing(unittest.TestCase):
    def refused(self, kind: str, name: str, /, **arguments: Any) -> str:
        return refused(self, kind, WORDS.parse, ToolCall(name, arguments))

    def test_a_good_call_becomes_an_act_with_its_arguments(self) -> None:
        call = ToolCall("click_it", {"label": "OK", "place": [0, 1000], "justification": "why"})
        act = WORDS.parse(call)
        said = (act.args.element_name, act.args.position, act.args.reasoning)
        self.assertEqual(said, ("OK", Coordinate(0, 1000), "why"))
        self.assertEqual((act.name, act.call), ("click", call))

    def test_an_optional_argument_may_be_missing(self) -> None:
        self.assertEqual(parse("click_it", label="OK", place=[1, 2]).args.reasoning, "")
        self.assertEqual(parse("down").args.reasoning, "")

    def read(self, name: str, /, **arguments: Any) -> agent.Act:
        """The way of a model's call."""
        message = {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
        return agent.read_call(message, "stop", WORDS)

    def unread(self, kind: str, name: str, /, **arguments: Any) -> str:
        return refused(self, kind, lambda: self.read(name, **arguments))

    def test_an_unknown_tool_is_told_the_tools_of_its_vocabulary(self) -> None:
        for name in ("click", "Click_it", "scroll_down", "archive"):
            text = self.unread("unknown_tool", name, label="OK", place=[1, 2])
            self.assertEqual(
                text,
                f"There is no tool {name!r}; the tools are "
                "click_it, drag, write, press, down, done, forget.",
            )

    def test_a_missing_argument_is_named_as_the_model_knows_it(self) -> None:
        self.assertIn(" place ", self.unread("missing_place", "click_it", label="OK"))
        self.assertIn(" proof ", self.unread("missing_proof", "done"))
        # the canonical name is not the shown one
        self.assertIn(
            " place ", self.unread("missing_place", "click_it", label="OK", position=[1, 2])
        )

    def test_a_place_is_two_whole_numbers(self) -> None:
        for value in (
            [1],
            [1, 2, 3],
            [],
            {"a": 1, "y": 2},
            5,
            [0.5, 2],
            [True, False],
            [[1, 2]],
            [None, 1],
        ):
            text = self.unread("invalid_box", "click_it", label="OK", place=value)
            self.assertIn("place must be [x, y] in whole numbers from 0 to 1000", text)

    def test_a_place_outside_the_grid_is_refused_never_clamped(self) -> None:
        for value in ([1001, 5], [-1, 5], [960, 1040], [10**30, 0]):
            self.unread("invalid_box", "click_it", label="OK", place=value)
            self.assertIn(
                "0 to 1000", self.refused("invalid_box", "click_it", label="OK", place=value)
            )

    def test_a_text_is_text(self) -> None:
        for value in (True, ["a"], {"a": 1}, 1.5):
            self.assertIn("text must be a text", self.unread("invalid_args", "write", text=value))

    def test_a_call_that_somebody_changed_in_a_journal_is_refused(self) -> None:
        for name, arguments, kind, words in (
            ("klick", {"label": "OK", "place": [1, 2]}, "unknown_tool", "There is no tool 'klick'"),
            ("click_it", {"label": "OK"}, "missing_place", "place is missing"),
            ("click_it", {"label": "OK", "place": 5}, "invalid_box", "place must be"),
            ("click_it", {"place": ["1", "2"]}, "missing_label", "label is missing"),
            ("click_it", {"label": None, "place": [1, 2]}, "invalid_args", "label must be"),
            ("write", {"text": ["a"]}, "invalid_args", "text must be"),
            ("write", {}, "missing_text", "text is missing"),
            ("forget", {"summary": "", "archived_turns": 1}, "invalid_args", "archived_turns must"),
        ):
            self.assertIn(words, self.refused(kind, name, **arguments))

    def test_what_looks_like_another_type_is_typed_as_it_stands(self) -> None:
        for text in ("true", "null", "5", "[1, 2]", "{}", " ", "\\n"):
            self.assertEqual(parse("write", text=text).args.text, text)

    def test_line_ends_are_made_one_and_what_cannot_be_typed_is_refused(self) -> None:
        self.assertEqual(parse("write", text="a\r\nb").args.text, "a\nb")
        self.refused("invalid_args", "write", text="a\x00")
        self.assertIn("empty", self.unread("empty_text", "write", text=""))

    def test_a_key_is_checked_when_the_call_is_read(self) -> None:
        self.assertEqual(parse("press", key="Control+S").args.key, "ctrl+s")
        self.refused("invalid_key", "press", key="ctrl+foo")

    def test_a_list_of_turns_is_a_list_of_whole_numbers(self) -> None:
        self.assertEqual(
            parse("forget", summary="s", archived_turns=[1, 2]).args.archived_turns, (1, 2)
        )
        for value in (["one"], "one", 1, [1.5], [True]):
            self.unread("invalid_args", "forget", summary="s", archived_turns=value)

    def test_an_act_shows_itself_with_canonical_names_and_without_the_reasoning(self) -> None:
        act = parse("click_it", label="OK", place=[1, 2], justification="secret")
        self.assertEqual(str(act), 'click "OK" (1, 2)')
        self.assertEqual(str(parse("down")), "scroll_down")

    def test_nothing_but_a_tool_error_comes_out_of_any_arguments(self) -> None:
        values: list[Any] = [
            None,
            True,
            0,
            -1,
            1.5,
            "",
            "x",
            [],
            [1, 2],
            [1, "2"],
            {},
            {"a": []},
            "\ud800",
        ]
        for shown in WORDS.tools.values():
            names = (
                "label place element_name start end text key proof summary archived_turns".split()
            )
            for value, other in itertools.product(values, values):
                given = {name: (value if i % 2 else other) for i, name in enumerate(names)}
                try:
                    WORDS.parse(ToolCall(shown, given))
                except ToolError as error:
                    self.assertTrue(re.fullmatch(r"[^\n]*\.", str(error)))


class Ticks(unittest.TestCase):
    def test_a_scroll_by_nothing_or_by_more_than_100_is_refused(self) -> None:
        for ticks in (-100, -1, 1, 100):
            self.assertEqual(vars(act("scroll", ticks=ticks).args)["ticks"], ticks)
        for ticks in (-101, 0, 101):
            with self.assertRaisesRegex(ToolError, f"must be 1 to 100 ticks.*, not {ticks}"):
                act("scroll", ticks=ticks)


class NewTool(unittest.TestCase):
    def test_a_tool_is_declared_once_and_named_by_each_vocabulary(self) -> None:
        @dataclass(frozen=True)
        class WaveArgs:
            position: Coordinate = field(metadata={"description": "where"})

        self.addCleanup(agent.TOOLS.pop, "wave")
        agent.TOOLS["wave"] = new_tool("wave", WaveArgs)
        for shown, argument in (("wave_at", "at"), ("winken", "ort")):
            words = Vocabulary({"wave": shown}, {"position": argument})
            self.assertEqual(
                words.schemas(["wave"])[0]["function"]["parameters"]["required"], [argument]
            )
            self.assertEqual(
                words.parse(ToolCall(shown, {argument: [1, 2]})).args, WaveArgs(Coordinate(1, 2))
            )
            self.assertEqual(words.tools["wave"], shown)

    def test_each_acting_role_is_offered_its_vocabulary_without_the_planners_tools(self) -> None:
        for name in ("planner", "commander"):
            profile = agent.PROFILES[name]
            offered = {role: set(profile.roles[role].tools) for role in ("planner", "executor")}
            self.assertEqual(offered["planner"], {"update_plan", "archive"})
            self.assertEqual(
                offered["executor"], set(profile.vocabulary.tools) - offered["planner"]
            )


if __name__ == "__main__":
    unittest.main()
