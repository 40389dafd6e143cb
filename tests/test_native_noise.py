"""Runs of profile native in which three of ten replies are malformed in the ways of their grammar.

A run is three clicks, a key, a text and the end, on a plain desktop in virtual time, from a scripted server that speaks the
grammar. The ways are those that ../shared/GRAMMARS.md has seen. A malformed reply may be refused or be read as what it
still says for certain; nothing else may be done.
"""

from __future__ import annotations

import random
import re
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import agent
from tests.samples import sample
from tests.scripted import text
from tests.spoken import spoken
from tests.test_native import NativeCase, is_verifier

Way = Callable[[str], str]
RUNS = 20
COMPLETE_LEAST = 19
SOME = sample(RUNS, 2)  # runs of each grammar
CLICKS = (100, 300, 500)  # their places
NEAR = agent.Rect(0, 0, 64, 36)
EVERY = list(agent.GRAMMARS.values())


def changed(*pairs: tuple[str, str]) -> Way:
    """The reply with these words replaced."""

    def spoil(good: str) -> str:
        for old, new in pairs:
            good = good.replace(old, new)
        return good

    return spoil


def rewritten(pattern: str, replacement: str) -> Way:
    """The reply with what matches rewritten."""
    return lambda good: re.sub(pattern, replacement, good)


# What any small model does.
COMMON: dict[str, Way] = {
    "empty": lambda good: "",
    "words only": lambda good: "I will do the next step now.",
    "cut": lambda good: good[: len(good) * 2 // 3],
    "unknown action": changed(
        ("click", "tap_on"), ("type", "enter_text"), ("terminate", "stop_all"), ("finished", "over")
    ),
    "misspelt argument": changed(
        ("coordinate", "cordinate"), ("start_box", "box_"), ("point", "pt"), ("x=", "xx=")
    ),
}
JSON_WAYS: dict[str, Way] = {
    "action as function": rewritten(
        r'"computer_use", "arguments": \{"action": "(\w+)"', r'"\1", "arguments": {"a": 1'
    ),
    "bracket lost": changed(('"coordinate": [', '"coordinate": ')),
    "nested keys": changed(('"keys": [', '"keys": ["[')),
    "mobile function": changed(('"computer_use"', '"mobile_use"')),
    "two calls": lambda good: f"{good}\n{good}",
}
PIXELS_ON_A_GRID: dict[str, Way] = {"pixels on a grid": changed(("00", "0000"))}
CLOSING_SIGN: dict[str, Way] = {
    "closed with a sign": changed(("</tool_call>", "\u2697")),
    "extra brace": changed(("}}\n", "}}}\n")),
}
XML_WAYS: dict[str, Way] = {
    "unclosed parameter": changed(
        ("<parameter=action>", "<parameter=computer_use>\n<parameter=action>")
    ),
    "no action": changed(("<parameter=action>", "<parameter=act>")),
    "words behind the call": lambda good: f"{good}\nDone, now I click <parameter=action> again.",
}
VERB_WAYS: dict[str, Way] = {
    "quotes lost": changed(("='", "="), ("')", ")")),
    "brackets lost": changed(("(start_box", " start_box"), ("(point", " point")),
    "half a place": rewritten(r"[ ,]\d+([)<])", r"\1"),
    "full-width colon": changed(("Action:", "Action\uff1a")),
}
CODE_WAYS: dict[str, Way] = {
    "fence lost": changed(("```python", "")),
    "two lines of code": changed(("```python\n", "```python\nimport os\n")),
}
WAYS: dict[str, dict[str, Way]] = {
    "qwen3-vl": COMMON | JSON_WAYS | PIXELS_ON_A_GRID,
    "qwen2.5-vl": COMMON | JSON_WAYS | CLOSING_SIGN,
    "qwen3.5-xml": COMMON | XML_WAYS | PIXELS_ON_A_GRID,
    "gui-owl-1.5": COMMON | JSON_WAYS | PIXELS_ON_A_GRID,
    "ui-tars-1.0": COMMON | VERB_WAYS | PIXELS_ON_A_GRID,
    "ui-tars-1.5": COMMON | VERB_WAYS,
    "ui-tars-2": COMMON | PIXELS_ON_A_GRID | {"no function": changed(("<function=", "<func="))},
    "fara-7b": COMMON | JSON_WAYS | CLOSING_SIGN,
    "opencua": COMMON | CODE_WAYS,
}


def next_reply(grammar: agent.Grammar, inputs: list[tuple[Any, ...]]) -> str:
    """What a model that looks says next, by what was done so far."""
    clicks = inputs.count(("button", "left", True))
    if clicks < len(CLICKS):
        return spoken(grammar, "click", [CLICKS[clicks], 500])
    kinds = {kind for kind, *_ in inputs}
    return spoken(grammar, "key" if "key" not in kinds else "end" if "text" in kinds else "type")


def is_right(inputs: list[tuple[Any, ...]]) -> bool:
    """Whether what was done is what the model meant, as far as the run came."""
    done = {
        kind: [what[1] for what in inputs if what[0] == kind] for kind in ("move", "text", "key")
    }
    wanted = [agent.to_point(agent.Coordinate(x, 500), NEAR).x for x in CLICKS]
    near = all(abs(x - want) <= 1 for x, want in zip(done["move"], wanted, strict=False))
    presses = inputs.count(("button", "left", True))
    right = done["text"] in ([], ["hello"]) and done["key"] in ([], ["enter"] * 2)
    return right and near and len(done["move"]) == presses <= len(CLICKS)


def noisy_run(grammar: agent.Grammar, seed: int, share: float = 0.3) -> tuple[bool, bool, int]:
    """One run with so many of its replies malformed: whether it completed, was right, and how many it refused."""
    chance = random.Random(seed)
    case = NativeCase()
    case.setUp()

    def decide(request: dict[str, Any]) -> dict[str, Any]:
        if is_verifier(request):
            return text("YES: it is")
        good = next_reply(grammar, trial.inputs)
        if chance.random() >= share:
            return text(good)
        # Of the ways those that change this reply: a text has no place to lose.
        ways = [spoil(good) for spoil in WAYS[grammar.name].values() if spoil(good) != good]
        return text(chance.choice(ways))

    try:
        trial = case.native(decide, grammar.name)
        completed = trial.run().kind == "completed"
        return completed, is_right(trial.inputs), len(trial.records("no_call"))
    finally:
        case.doCleanups()


class Noise(unittest.TestCase):
    def test_with_three_of_ten_replies_malformed_nineteen_of_twenty_runs_complete(self) -> None:
        """In the suite the first runs of some grammars."""
        completed = runs = 0
        for grammar in sample(EVERY, EVERY[::3]):
            ran = [noisy_run(grammar, seed) for seed in range(SOME)]
            done, right, refused = (sum(figures) for figures in zip(*ran, strict=True))
            with self.subTest(grammar.name):
                self.assertEqual(right, SOME)
                self.assertGreater(refused, 0)
                self.assertGreaterEqual(done, SOME - RUNS + COMPLETE_LEAST)
            runs += SOME
            completed += done
        self.assertGreaterEqual(completed / runs, COMPLETE_LEAST / RUNS)

    def test_a_wrong_act_is_seen(self) -> None:
        grammar = agent.GRAMMARS["qwen3-vl"]
        aside = {"aside": changed(("[100,", "[900,"))}
        with mock.patch.dict(WAYS, {grammar.name: aside | COMMON}):
            ran = [noisy_run(grammar, seed, share=0.9) for seed in range(3)]
        self.assertFalse(all(right for _, right, _ in ran))


if __name__ == "__main__":
    unittest.main()
