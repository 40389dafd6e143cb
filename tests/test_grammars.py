"""The grammars that models were trained in: what their replies are read as, what is refused, and how they are asked."""

from __future__ import annotations

import json
import math
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from agent import GRAMMARS, TOOLS, ReplyError, Size, native_call, read_any
from tests import seams
from tests.long import grammars
from tests.samples import sample

DATA = Path(__file__).parent / "data"
# Replies that were seen, and each action of a grammar as a reply with the act, if it is one that is certain.
ROWS, CASES = (
    [json.loads(line) for line in (DATA / file).read_text("utf-8").splitlines()]
    for file in ("grammars.jsonl", "grammar_cases.jsonl")
)
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


def seed_call(function: str, **arguments: str) -> str:
    given = [f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items()]
    inner = f"<function={function}>\n{''.join(given)}</function>"
    return f"<seed:tool_call>\n{inner}\n</seed:tool_call>"


# Sentence and thought of a reply, which are no part of its act.
WAIT = json_call("wait", time=1)
REASONED = {"content": f"<action>Wait.</action>{WAIT}", "reasoning_content": "why"}
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
        self.assertEqual({row["grammar"] for row in CASES}, set(GRAMMARS))
        for row in CASES:
            name, reply = row["grammar"], row["reply"]
            wanted = (row["act"], row["arguments"]) if "act" in row else None
            with self.subTest(name, reply=reply):
                self.assertEqual(act(name, reply), wanted)
                self.assertFalse(wanted and act(name, reply, "length"), "it may be cut")
                if wanted and wanted[0] not in NO_TOOL:
                    call = native_call(read(name, reply))
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
    """What the system and the first question hold is compared with the models' documents in test_native."""

    def test_a_picture_is_seen_in_the_documented_sizes_and_has_their_tokens(self) -> None:
        rule = GRAMMARS["qwen2.5-vl"].picture
        for sent, seen in (
            ((1920, 1080), (1932, 1092)),
            ((1440, 900), (1428, 896)),
            ((3840, 2160), (3836, 2156)),
        ):
            self.assertEqual(rule.seen_size(Size(*sent)), seen)
        self.assertEqual(GRAMMARS["qwen3-vl"].picture.seen_size(Size(1536, 864)), (1536, 864))
        self.assertLessEqual(rule.seen_size(Size(8000, 5000)).pixels, 12_845_056)
        self.assertGreaterEqual(rule.seen_size(Size(20, 20)).pixels, 3_136)
        for name, tokens in {"qwen3-vl": 3600, "gui-owl-1.5": 3600, "ui-tars-1.5": 4702}.items():
            self.assertEqual(GRAMMARS[name].picture.tokens(Size(2560, 1440)), tokens)

    def test_all_that_is_announced_is_read_and_every_word_has_a_tool(self) -> None:
        words = [
            word for row in GRAMMARS.values() for group in row.words.values() for word in group
        ]
        acts = {word.act for word in words}
        self.assertEqual(acts - TOOLS.keys(), {"screenshot", "finished"})
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
                with mock.patch.object(grammars, "SECONDS_MOST", math.inf):
                    calls = grammars.run(sample(400, 75), name, seed=1)
                self.assertGreater(calls, 5)

    def test_long_replies_of_anything_are_refused_soon(self) -> None:
        for name, grammar in GRAMMARS.items():
            for piece in PIECES:
                text = piece * (sample(50_000, 4_000) // len(piece))
                with self.subTest(name, piece=piece), self.assertRaises(ReplyError):
                    grammar.read({"content": text}, "stop", PICTURE)


if __name__ == "__main__":
    unittest.main()
