"""Runs of profile native in which three of ten replies are malformed in the ways of their grammar.

    python -m tests.native_noise [GRAMMAR ...]

A run is three clicks, a key, a text and the end, on a plain desktop in virtual time, from a scripted server that speaks the
grammar. The ways are those that ../shared/GRAMMARS.md has seen. A malformed reply may be refused or be read as what it
still says for certain; nothing else may be done. Printed are the runs of 20 that completed, the replies of each way and
how many of them were refused. The exit code is 1 where fewer than 19 complete or a wrong act was done.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import agent
from tests.scripted import text
from tests.spoken import spoken
from tests.test_native import NativeCase, is_verifier

Way = Callable[[str], str]
RUNS = 20
COMPLETE_LEAST = 19
SHARE = 0.3
CLICKS = 3
TYPED = "hello"
KEY = "enter"


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


class Noise(NamedTuple):
    """What came of the runs of one grammar."""

    grammar: str
    completed: int
    wrong: int  # runs in which something else was done than was said
    replies: Counter[str]  # malformed ones by their way
    refused: int  # corrections, of all of them

    @property
    def holds(self) -> bool:
        return self.completed >= COMPLETE_LEAST and not self.wrong

    def __str__(self) -> str:
        ways = ", ".join(f"{number} {way}" for way, number in sorted(self.replies.items()))
        return (
            f"{self.grammar}: {self.completed} of {RUNS} runs completed, {self.wrong} with a wrong act;"
            f" {sum(self.replies.values())}"
            f" malformed replies, {self.refused} refused ({ways})"
        )


def next_reply(grammar: agent.Grammar, inputs: list[tuple[Any, ...]]) -> str:
    """What a model that looks says next, by what was done so far."""
    clicks = inputs.count(("button", "left", True))
    if clicks < CLICKS:
        return spoken(grammar, "click", [100 + 200 * clicks, 500])
    if not any(kind == "key" for kind, *_ in inputs):
        return spoken(grammar, "key")
    if not any(kind == "text" for kind, *_ in inputs):
        return spoken(grammar, "type")
    return spoken(grammar, "end")


def is_right(inputs: list[tuple[Any, ...]]) -> bool:
    """Whether what was done is what the model meant, as far as the run came."""
    xs = [what[1] for what in inputs if what[0] == "move"]
    wanted = [
        agent.to_point(agent.Coordinate(x, 500), agent.Rect(0, 0, 64, 36)).x
        for x in (100, 300, 500)
    ]
    near = all(abs(x - want) <= 1 for x, want in zip(xs, wanted, strict=False))
    texts = [what[1] for what in inputs if what[0] == "text"]
    presses = inputs.count(("button", "left", True))
    keys = [what[1] for what in inputs if what[0] == "key"]  # down and up
    if texts not in ([], [TYPED]) or keys not in ([], [KEY] * 2):
        return False
    return near and len(xs) == presses <= CLICKS


class Ran(NamedTuple):
    """What came of one run."""

    kind: str
    right: bool
    ways: list[str]  # of its malformed replies
    refused: int


def noisy_run(grammar: agent.Grammar, seed: int, share: float) -> Ran:
    """One run with so many of its replies malformed."""
    chance = random.Random(seed)
    ways = WAYS[grammar.name]
    used: list[str] = []
    case = NativeCase()
    case.setUp()

    def decide(request: dict[str, Any]) -> dict[str, Any]:
        if is_verifier(request):
            return text("YES: it is")
        good = next_reply(grammar, trial.inputs)
        if chance.random() >= share:
            return text(good)
        # Of the ways those that change this reply: a text has no place to lose.
        used.append(chance.choice([way for way, spoil in ways.items() if spoil(good) != good]))
        return text(ways[used[-1]](good))

    try:
        trial = case.trial(decide, "native", executor_grammar=grammar.name)
        outcome = trial.run()
        refused = len(trial.records("no_call"))
        return Ran(outcome.kind, is_right(trial.inputs), used, refused)
    finally:
        case.doCleanups()


def noisy_runs(grammar: agent.Grammar, runs: int = RUNS, share: float = SHARE) -> Noise:
    """So many runs, each with a seed of its own."""
    ran = [noisy_run(grammar, seed, share) for seed in range(runs)]
    return Noise(
        grammar.name,
        sum(run.kind == "completed" for run in ran),
        sum(not run.right for run in ran),
        Counter(way for run in ran for way in run.ways),
        sum(run.refused for run in ran),
    )


def main(names: list[str]) -> int:
    found = []
    for grammar in agent.GRAMMARS.values():
        if not names or grammar.name in names:
            found.append(noisy_runs(grammar))
            print(found[-1], flush=True)
    return 0 if all(noise.holds for noise in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
