"""The grammars that models were trained in: what their replies are read as, what is refused, and how they are asked."""

from __future__ import annotations

import contextlib
import json
import math
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from agent import GRAMMARS, TOOLS, Reply, ReplyError, Size, read_any
from tests.long import grammars
from tests.long.grammars import named
from tests.samples import sample

DATA = Path(__file__).parent / "data"


def lines(file: str) -> list[Any]:
    return [json.loads(line) for line in (DATA / file).read_text("utf-8").splitlines()]


# Replies with the act that each is, if it is one that is certain; and each action of a grammar as a reply.
ROWS, CASES = lines("grammars.jsonl"), lines("grammar_cases.jsonl")
PICTURE = (1536, 864)


def read(
    grammar: str, text: Any, reason: str | None = "stop", picture: tuple[int, int] = PICTURE
) -> Any:
    message = text if isinstance(text, dict) else {"role": "assistant", "content": text}
    return GRAMMARS[grammar].read(Reply(message, reason), picture)


def act(grammar: str, text: Any, *how: Any) -> Any:
    """(name, arguments), or None where no call is certain."""
    try:
        return named(read(grammar, text, *how))
    except ReplyError:
        return None


class Reading(unittest.TestCase):
    def test_every_given_reply_becomes_what_it_must_or_is_told_in_short_what_it_lacks(self) -> None:
        for row in ROWS:
            with self.subTest(row["id"]):
                how = row["message"], row["finish_reason"], tuple(row.get("image", PICTURE))
                got = act(row["grammar"], *how)
                named = got and {"name": got[0], "arguments": got[1]}
                self.assertIn(named, [row["expect"], *row.get("also_ok", [])])
                if "said" in row:
                    made = read(row["grammar"], *how)
                    self.assertEqual((made.said, made.call.thought), (row["said"], row["thought"]))
                if "told" in row:
                    with self.assertRaises(ReplyError) as caught:
                        read(row["grammar"], *how)
                    correction = GRAMMARS[row["grammar"]].correction(caught.exception)
                    self.assertIn(row["told"], correction)
                    self.assertIn("Nothing was done", correction)
                    self.assertLess(len(correction), 600)

    def test_every_action_is_read_as_an_act_of_the_program_and_every_doubt_refused(self) -> None:
        self.assertEqual({row["grammar"] for row in CASES}, set(GRAMMARS))
        for row in CASES:
            name, reply = row["grammar"], row["reply"]
            wanted = (row["act"], row["arguments"]) if "act" in row else None
            with self.subTest(name, reply=reply):
                self.assertEqual(act(name, reply), wanted)
                self.assertFalse(wanted and act(name, reply, "length"), "it may be cut")
                if wanted:
                    made = read(name, reply)
                    self.assertEqual({*made.args}, {*made.args} & {*TOOLS[made.name].takes})


class Asking(unittest.TestCase):
    """What the system and the first question hold is compared with the models' documents in test_native."""

    def test_a_picture_is_seen_in_the_documented_sizes_and_has_their_tokens(self) -> None:
        rule = GRAMMARS["qwen2.5-vl"].picture
        sizes = {(1920, 1080): (1932, 1092), (1440, 900): (1428, 896), (3840, 2160): (3836, 2156)}
        for sent, seen in sizes.items():
            self.assertEqual(rule.seen_size(Size(*sent)), seen)
        self.assertEqual(GRAMMARS["qwen3-vl"].picture.seen_size(Size(1536, 864)), (1536, 864))
        self.assertLessEqual(rule.seen_size(Size(8000, 5000)).pixels, 12_845_056)
        self.assertGreaterEqual(rule.seen_size(Size(20, 20)).pixels, 3_136)
        for name, tokens in {"qwen3-vl": 3600, "gui-owl-1.5": 3600, "ui-tars-1.5": 4702}.items():
            self.assertEqual(GRAMMARS[name].picture.tokens(Size(2560, 1440)), tokens)

    def test_all_that_is_announced_is_read_and_every_word_has_a_tool(self) -> None:
        groups = [group for row in GRAMMARS.values() for group in row.words.values()]
        acts = {word.act for group in groups for word in group}
        self.assertLessEqual(acts, TOOLS.keys())
        for name in ("qwen3-vl", "gui-owl-1.5", "qwen3.5-xml", "fara-7b"):
            self.assertLessEqual({*GRAMMARS[name].actions.split()}, GRAMMARS[name].words.keys())

    def test_a_task_stands_in_the_question_as_it_was_given(self) -> None:
        steps = ["Press win.", "Type {x}."]
        asked = GRAMMARS["qwen3-vl"].first_text("Open {it}", steps)
        end = "Instruction: Open {it}\n\nPrevious actions:\nStep 1: Press win.\nStep 2: Type {x}."
        self.assertEqual(asked[-len(end) :], end)
        self.assertRegex(GRAMMARS["ui-tars-1.5"].first_text("Open {x}", []), r"\nOpen \{x\}$")


class OtherGrammars(unittest.TestCase):
    def test_the_own_comes_first_another_is_read_where_certain_and_a_place_in_doubt_no_click(
        self,
    ) -> None:
        """Two grammars read it differently, its own refuses it, or there is no act beside it."""
        for row in lines("other_grammars.jsonl"):
            message, found = {"content": row["reply"]}, None
            with contextlib.suppress(ReplyError):
                read_act, is_its_form = read_any(Reply(message, "stop"), PICTURE, row["asked_in"])
                found = [is_its_form, *named(read_act)]
            self.assertEqual(found, row["read"], row)


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
                    grammar.read(Reply({"content": text}, "stop"), PICTURE)


if __name__ == "__main__":
    unittest.main()
