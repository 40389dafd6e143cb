"""Reading replies: the project's own cases by kind, cuts at every byte, hostile shapes, and what the model is told."""

import contextlib
import json
import unittest
from pathlib import Path

from agent import (
    ReplyError,
    correction,
    read_call,
    read_story,
)
from tests import fuzz_replies
from tests.growth import MOST, growth
from tests.samples import sample
from tests.scripted import EngineCase

FOLDER = Path(__file__).parent / "replies"
TOOLS = fuzz_replies.VOCABULARIES
CASES = fuzz_replies.load_cases()


def outcome(case):
    """What a case gives: ("call", name, arguments) or ("error", kind, text)."""
    try:
        call = read_call(case["message"], case["finish_reason"], TOOLS[case["tools"]]).call
    except ReplyError as error:
        return "error", error.kind, str(error)
    return "call", call.name, call.arguments


def says(text):
    return {"role": "assistant", "content": text}


def native(arguments, name="press_keyboard_key", **more):
    return {
        "content": None,
        "tool_calls": [{"function": {"name": name, "arguments": arguments}, **more}],
    }


def typed(text):
    """What is typed where a model says this."""
    call = native({"text": text}, "type_text_input")
    return read_call(call, "stop", TOOLS["planner"]).args.text


class CaseFiles(unittest.TestCase):
    def check(self, name):
        cases = [case for case in CASES if case["file"] == name]
        self.assertTrue(cases)
        for case in cases:
            with self.subTest(case["rule"]):
                got = outcome(case)
                if "kind" in case:
                    self.assertEqual(got[:2], ("error", case["kind"]), got)
                else:
                    self.assertEqual(got, ("call", case["call"]["name"], case["call"]["arguments"]))

    def test_native_calls(self):
        self.check("native")

    def test_calls_wrapped_in_text(self):
        self.check("wrapped")

    def test_calls_in_and_behind_thoughts(self):
        self.check("thinking")

    def test_slips_that_leave_no_doubt_are_mended_and_others_are_not(self):
        self.check("slips")

    def test_cut_calls_are_refused(self):
        self.check("cut")

    def test_coordinates_of_every_shape(self):
        self.check("coordinates")

    def test_values_of_every_type(self):
        self.check("values")

    def test_replies_that_hold_no_call(self):
        self.check("unusable")

    def test_every_case_file_is_run(self):
        self.assertEqual(
            {case["file"] for case in CASES},
            {"native", "wrapped", "thinking", "slips", "cut", "coordinates", "values", "unusable"},
        )

    def test_further_calls_are_counted(self):
        counted = [case for case in CASES if "ignored" in case]
        self.assertGreaterEqual(len(counted), 8)
        for case in counted:
            with self.subTest(case["rule"]):
                act = read_call(case["message"], case["finish_reason"], TOOLS[case["tools"]])
                self.assertEqual(act.call.ignored, case["ignored"])

    def test_every_error_is_one_sentence_that_can_be_sent(self):
        for case in CASES:
            got = outcome(case)
            if got[0] == "error":
                with self.subTest(case["rule"]):
                    got[2].encode("utf-8")
                    self.assertNotIn("\n", got[2])
                    self.assertTrue(got[2].endswith("."), got[2])
                    self.assertLess(len(got[2]), 400)


class Cutting(unittest.TestCase):
    def test_no_case_cut_at_any_byte_gives_another_call(self):
        """In the suite at every fifth byte, which of the many cases are others."""
        every = sample(1, 5)
        cuts = 0
        for number, case in enumerate(CASES):
            if "call" in case:
                cuts += fuzz_replies.cut_everywhere(case, places=(number % every, every))
        self.assertGreater(cuts, 20_000 // every)

    def test_thousands_of_mutated_replies_give_a_call_or_a_reply_error(self):
        count = sample(20_000, 3_000)
        self.assertGreaterEqual(fuzz_replies.run(count, seed=3), count)

    def test_the_fuzzer_notices_a_reader_that_closes_strings(self):
        def closing(message, finish_reason, tools):
            try:
                return read_call(message, finish_reason, tools)
            except ReplyError:
                function = message["tool_calls"][0]["function"]
                closed = {"name": function["name"], "arguments": function["arguments"] + '"}'}
                return read_call({"tool_calls": [{"function": closed}]}, finish_reason, tools)

        case = {
            "message": native('{"text": "whole"}', "type_text_input"),
            "finish_reason": "stop",
            "tools": "planner",
        }
        with self.assertRaises(AssertionError):
            fuzz_replies.cut_everywhere(case, closing)


class Hostile(unittest.TestCase):
    def assertRefused(self, message, kind=None, tools="planner", finish_reason="stop"):
        with self.assertRaises(ReplyError) as caught:
            read_call(message, finish_reason, TOOLS[tools])
        if kind:
            self.assertEqual(caught.exception.kind, kind)

    def test_a_message_that_is_no_object(self):
        for message in (None, [], "text", 5, b"x"):
            with self.subTest(message):
                self.assertRefused(message, "no_call")

    def test_odd_finish_reasons_are_taken_for_unknown(self):
        for reason in (None, 5, [], {}, "eos"):
            with self.subTest(reason):
                act = read_call(native('{"key": "tab"}'), reason, TOOLS["planner"])
                self.assertEqual(act.call.arguments, {"key": "tab"})

    def test_numbers_that_json_cannot_hold(self):
        huge = 10**5000
        for position in (
            [float("nan"), 1],
            [float("inf"), 1],
            [10**300, 1],
            {"x": -(10**300), "y": 1},
            10**300,
        ):
            arguments = {"element_name": "OK", "position": position}
            self.assertRefused(native(arguments, "click_screen_element"), "invalid_box")
        for position in (
            [huge, 1],
            {"x": -huge, "y": 1},
            huge,
        ):  # which no body with finite numbers holds
            self.assertRefused(
                native({"element_name": "OK", "position": position}, "click_screen_element")
            )
        self.assertRefused(native({"text": 10**300}, "type_text_input"), "invalid_args")

    def test_keys_that_are_no_text(self):
        self.assertRefused(native({1: 2}), "missing_key")

    def test_text_nested_deeply_and_closed(self):
        for depth in (500, 5_000, 50_000):  # what Python can still decode depends on its version
            self.assertRefused(native('{"key": ' * depth + "1" + "}" * depth))
            self.assertRefused(says("<tool_call>" + '{"name": ' * depth + "1" + "}" * depth))

    def test_deep_values_that_are_already_decoded(self):
        deep = []
        for _ in range(100_000):
            deep = [deep]
        self.assertRefused(native({"key": deep}))
        self.assertRefused(native(deep))
        self.assertRefused({"tool_calls": deep})
        while deep:  # taken apart by hand: old Pythons overflow the C stack when they free it
            deep = deep.pop()

    def test_more_tags_than_any_answer_has_are_refused(self):
        calls = [
            f'<tool_call>{{"name": "type_text_input", "arguments": {{"text": "{n}"}}}}</tool_call>'
            for n in range(1001)
        ]
        self.assertEqual(
            read_call(says("".join(calls[:998])), "stop", TOOLS["planner"]).call.ignored, 997
        )
        self.assertRefused(says("".join(calls)), "repetition")

    def test_long_repeats_of_anything_give_a_call_or_a_reply_error(self):
        call = '{"name": "press_keyboard_key", "arguments": {"key": "tab"}}'
        pieces = (
            " ",
            "{",
            "[",
            '"',
            "'",
            "\\",
            '\\"',
            "!",
            ", ",
            "{}",
            "{{",
            "9",
            "1" * 18 + ",",
            "-1,",
            "\\n",
            "``` ",
            "<think>",
            "</think>",
            "<think></think>",
            "<tool_call>",
            "<tool_call>{",
            "<tool_call> ",
            "<|im_end|>",
            "<function=a>",
            "<function=a></function>",
            "<function=a><parameter=b>",
            '{"a":',
            '{"a":1},',
            "{'a':1},",
            "<function=a><parameter=b></parameter>",
            '{"a":1,"a":1},',
            f"<tool_call>{call}</tool_call>",
            f"<tool_call>{call}{{",
            call,
            "<tool_call>{'a':'",
            '<tool_call>{"a":"</think>',
            "<tool_call>[{'a",
            '<tool_call>{"a":1,}',
            '<tool_call>{"a":1,}</think>',
        )
        starts = (
            "",
            "<tool_call>",
            "<tool_call>{'a': '",
            '{"name": "press_keyboard_key", "arguments": {"key": [',
        )
        size = sample(8_000, 1_000)
        for start in starts:
            for piece in pieces:
                with self.subTest(start=start, piece=piece):
                    text = start + piece * (size // len(piece))
                    self.outcome(says(text))
                    self.outcome(native(text))

    def outcome(self, message):
        """A call or a short sentence, whatever it is."""
        try:
            read_call(message, "stop", TOOLS["planner"])
        except ReplyError as error:
            self.assertLess(len(str(error)), 400)


class LongTexts(unittest.TestCase):
    """Whatever 200 kB hold, the time for them grows with their length, not with its square."""

    def assertLinear(self, read, piece, tail=""):
        with self.subTest(piece=piece, tail=tail):
            self.assertLess(growth(read, piece, tail), MOST)

    def test_template_tokens_that_leaked_into_a_text(self):
        self.assertLinear(typed, "<|im_end|>", "x")
        self.assertLinear(typed, "<|im_end|>x")
        self.assertLinear(typed, "x<|im_start|><|endoftext|>")

    def test_words_that_hold_no_call(self):
        for piece in ("<think>", "</think>", '"name" ', "{ ", "<think>a</think> "):
            self.assertLinear(lambda text: read_story(says(text)), piece)


class Answers(unittest.TestCase):
    def told(self, message, finish_reason="stop", tools="planner"):
        with self.assertRaises(ReplyError) as caught:
            read_call(message, finish_reason, TOOLS[tools])
        return correction(caught.exception, TOOLS[tools])

    def test_an_unknown_tool_is_answered_with_the_valid_names(self):
        told = self.told(native("{}", "open_menu"), tools="chat")
        for name in (
            "open_menu",
            "observe_screen",
            "click_element",
            "type_text",
            "press_key",
            "scroll_at_position",
        ):
            self.assertIn(name, told)

    def test_prose_is_answered_with_how_to_call(self):
        told = self.told(says("I will press tab."), tools="pointer")
        self.assertIn("move_mouse", told)
        self.assertIn("no tool call", told)

    def test_a_call_that_was_only_thought_is_not_carried_out_whatever_the_thoughts_tag(
        self,
    ) -> None:
        calls = [
            json.dumps({"name": "press_keyboard_key", "arguments": {"key": key}})
            for key in ("alt+f4", "escape")
        ]
        close, escape = (f"<tool_call>{call}</tool_call>" for call in calls)
        for tag in ("think", "gui_think", "grounding_think", "thinking", "thinkt"):
            with self.subTest(tag):
                thought = f"<{tag}>I could {close}</{tag}>"
                for said in (f"{thought} {escape}", f"I could {close}</{tag}> {escape}"):
                    act = read_call({"content": said}, "stop", TOOLS["planner"])
                    self.assertIn("escape", str(act.call.arguments))
                with self.assertRaises(ReplyError):
                    read_call({"content": thought}, "stop", TOOLS["planner"])

    def test_a_text_to_type_keeps_its_tags_wherever_its_call_begins(self) -> None:
        for begin, end in (("<tools>", "</tools>"), ("x</think>", ""), ("<json>", "</json>")):
            for words in ("a <think>b</think> c", "<think>x", "a</think>b"):
                written = {"name": "type_text_input", "arguments": {"text": words}}
                said = {"content": f"{begin}{json.dumps(written)}{end}"}
                with self.subTest(f"{begin} {words}"), contextlib.suppress(ReplyError):
                    act = read_call(said, "stop", TOOLS["planner"])
                    self.assertEqual(act.call.arguments["text"], words)

    def test_a_call_in_open_thoughts_is_answered_with_the_tag_that_is_missing(self):
        self.assertIn("</think>", self.told(says("<think>Next: <tool_call>{}</tool_call>")))

    def test_a_cut_reply_is_asked_to_be_brief(self):
        self.assertIn("brief", self.told(native('{"key": "t'), "length"))

    def test_pixels_are_answered_with_the_grid_and_the_values(self):
        told = self.told(
            native('{"element_name": "a", "position": [1290, 540]}', "click_screen_element")
        )
        for part in ("position", "1290", "0 to 1000"):
            self.assertIn(part, told)

    def test_a_missing_argument_is_named(self):
        self.assertIn("key", self.told(native("{}")))

    def test_every_correction_has_at_most_60_words_and_no_broken_call(self):
        for case in CASES:
            if "kind" in case:
                with self.subTest(case["rule"]):
                    told = self.told(case["message"], case["finish_reason"], case["tools"])
                    self.assertLessEqual(len(told.split()), 60)
                    self.assertNotIn("tool_call>", told)


class Texts(EngineCase):
    def test_thoughts_are_left_out_of_final_texts(self):
        for said, rest in (
            ("<think>a</think> b", "b"),
            ("a <think>b</think> c <think>d</think>", "a c"),
            ("a <think>b", "a"),
            ("a</think> b", "b"),
            ("<think>a<think>b</think>c", "c"),
            ("no thoughts", "no thoughts"),
        ):
            with self.subTest(said):
                self.assertEqual(self.trial(lambda _, s=said: says(s), "chat").run().text, rest)

    def test_leaked_tokens_are_left_out_at_the_end_of_a_text_alone(self):
        for text, rest in (
            ("a<|im_end|>", "a"),
            ("a<|im_end|><|im_start|><|endoftext|>", "a"),
            ("a<|im_end|>b", "a<|im_end|>b"),
            ("a<|im_end|> ", "a<|im_end|> "),
            ("a<|im_end|>b<|im_end|>", "a<|im_end|>b"),
            ("a<|im_end<|im_end|>", "a<|im_end"),
            ("a<|other|>", "a<|other|>"),
        ):
            with self.subTest(text):
                self.assertEqual(typed(text), rest)

    def told_again(self, observation):
        """A story's observation as it stands in the next request."""
        said = says(json.dumps({"observation": observation, "bboxes": [], "actions": []}))
        trial = self.trial(lambda _: said, "story", max_steps=2)
        trial.run()
        return trial.requests[1]["messages"][2]["content"]

    def test_endless_repeats_are_cut_to_two_rounds(self):
        for unit in ("!", "ab", "The window is open. ", "x" * 50 + "y" * 60):
            with self.subTest(unit):
                left = self.told_again("Before. " + unit * 400 + "After.")
                self.assertLess(len(left), 60 + 4 * len(unit))
                self.assertTrue(left.startswith("Before. ") and left.endswith("After."), left)
                self.assertIn("repeated", left)

    def test_ordinary_texts_are_not_cut(self):
        numbered = "".join(f"Line {number} says something else. " for number in range(40))
        said_again = "".join(f"Line {number} is of another kind. " for number in range(8)) * 5
        for text in ("short", "-" * 100, numbered.strip(), "a b c " * 20 + "d", said_again + "."):
            self.assertEqual(self.told_again(text), text)


if __name__ == "__main__":
    unittest.main()
