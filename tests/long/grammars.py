"""Mutated replies in the grammars that models were trained in.

Only an Act or a ReplyError may come out, within a bound of time. And no wrong act: each reply begins as a row of
data/grammar_cases.jsonl, whose act is known. What does not touch its call (thoughts with other calls in them, words, a
second call, a cut) gives that act or none. What does touch it gives an act whose word, numbers and text stand in the reply
as it then is: nothing is invented, rounded to an edge or put together from pieces.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from agent import GRAMMARS, Reply, ReplyError
from tests.long.replies import ODD, SIGNS, mutated, oddly_shaped

DATA = Path(__file__).parents[1] / "data" / "grammar_cases.jsonl"
PICTURE = (1536, 864)
RESIZED = (1540, 868)  # as it is before the model, documented for a factor of 28
IN_PIXELS = ("qwen2.5-vl", "ui-tars-1.5", "fara-7b", "opencua")
SECONDS_MOST = 0.25  # of the processor's time, for one reply
REASONS = ("stop", "tool_calls", None)
Sample = tuple[str, str, dict[str, Any]]  # a reply that is a call, and the act that it is


@cache
def samples(grammar: str) -> list[Sample]:
    """The rows of a grammar, and those of others that it reads as the same act."""
    found = []
    for row in map(json.loads, DATA.read_text("utf-8").splitlines()):
        if "act" not in row or "think" in row["reply"]:
            continue
        wanted = (row["act"], row.get("arguments", {}))
        call = outcome(grammar, {"role": "assistant", "content": row["reply"]}, "stop")
        if row["grammar"] == grammar or (call and wanted == named(call)):
            found.append((row["reply"], *wanted))
    return found


# -- what happens to replies

THOUGHT_NAMES = ("think", "thinking", "thinkt", "gui_think", "grounding_think")
WORDS = ("I will do it.", "  \n", "Thought: ok\n", "First {this}.", "Note: 5 < 6.\n", "3, 4")
ENDINGS = ("<|im_end|>", "\n", "  ", "\nDone.", "<|endoftext|>", "\n\n")
# Beside those of all replies.
PIECES = (
    *SIGNS,
    *"\\u0041 1e3 <thinking> </thinking> <seed:tool_call> <function=click> <parameter=action>".split(),
    *"<function=computer_use> <answer> </answer> ⚗ click( start_box= = < > coordinate2 159".split(),
    *("<point>9 9</point>", "[" * 500, "Action: ", "\nAction: ", '"action": ', "x=1, "),
    '"coordinate": [7, 8], ',
)


def kept(rng: random.Random, call: str, other: str) -> str:
    """The reply with its first call untouched among what does not count."""
    name, before, after = rng.choice(THOUGHT_NAMES), "", ""
    chance = rng.random()
    if chance < 0.3:
        before = f"<{name}>{rng.choice(WORDS)}{other}{rng.choice(WORDS)}</{name}>\n"
    elif chance < 0.5:
        before = rng.choice(WORDS)
    if rng.random() < 0.3:
        after = f"\n\n{other}"
    elif rng.random() < 0.5:
        after = rng.choice(ENDINGS)
    return before + call + after


# -- what may come of them

SHIFTED = dict(zip("1234567890-=[]\\;',./`", '!@#$%^&*()_+{}|:"<>?~', strict=True))
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
NUMBER_MOST = 1e7  # larger ones are no place and no amount
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
ESCAPES = {"n": "\n", "t": "\t", "r": "\n"}  # every line end is typed as one


def unescaped(text: str) -> str:
    """A reply with every escape as the sign that it stands for."""

    def sign(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else ESCAPES.get(code, code)

    return ESCAPE.sub(sign, text)


def places_of(numbers: list[float], grammar: str) -> Iterator[list[int]]:
    """Every place that two numbers beside each other, or the centre of four, can mean."""
    width, height = RESIZED if grammar in IN_PIXELS else (1000, 1000)
    pairs = [*zip(numbers, numbers[1:], strict=False)]
    for (left, top), (right, bottom) in zip(pairs, pairs[2:], strict=False):
        pairs.append(((left + right) / 2, (top + bottom) / 2))
    for x, y in pairs:
        yield [int(x * 1000 / width + 0.5), int(y * 1000 / height + 0.5)]


# What the rows call acts of the program that have another name.
ALSO = {"observe": "screenshot", "report_complete": "finished"}


def named(act: Any) -> tuple[str, Any]:
    """An act as a row has it: its name, and its arguments as the grammar has them."""
    return ALSO.get(act.name, act.name), act.call.arguments


def check_stands_there(call: Any, text: str, grammar: str) -> None:
    """Raises AssertionError unless everything the call says stands in the reply."""
    numbers = [float(found) for found in NUMBER.findall(text) if abs(float(found)) < NUMBER_MOST]
    for name, value in call.arguments.items():
        said = f"{name} {value!r} of nowhere: {call} from {text!r}"
        if name in ("position", "start", "end"):
            assert value in list(places_of(numbers, grammar)), said
            assert all(0 <= axis <= 1000 for axis in value), said
        elif name == "text":
            forms = (part.replace("\n", "") for part in (text, unescaped(text)))
            assert any(value.replace("\n", "") in part for part in forms), said
        elif name in ("seconds", "ticks") and not isinstance(value, bool):
            amounts = {abs(number) for number in numbers}
            hundreds = {float(int(amount + 50) // 100) for amount in amounts}
            assert abs(value) in amounts | hundreds | {1, 2, 3, 5, 8}, said
        elif name == "key":
            signs = [part for part in value.split("+") if len(part) == 1]
            # A key may be named by what it types with shift.
            assert all({sign, SHIFTED.get(sign, sign)} & {*text.lower()} for sign in signs), said


def outcome(grammar: str, message: Any, reason: Any) -> Any:
    """A call, or None for a ReplyError; anything else comes through, and slowness is an error."""
    begin = time.thread_time()
    try:
        call: Any = GRAMMARS[grammar].read(Reply(message, reason), PICTURE)
    except ReplyError as error:
        assert error.kind and 0 < len(str(error)) < 600, repr(error)
        assert 0 < len(GRAMMARS[grammar].correction(error)) < 900
        call = None
    assert time.thread_time() - begin < SECONDS_MOST, f"slow: {message!r:.300}"
    assert call is None or type(call).__name__ == "Act", repr(call)
    return call


def read_one(rng: random.Random, grammar: str) -> bool:
    """Mutates and reads one reply; whether a call came of it. Raises AssertionError."""
    (reply, *wanted), (other, *_) = rng.choice(samples(grammar)), rng.choice(samples(grammar))
    text, reason, chance = kept(rng, reply, other), rng.choice(REASONS), rng.random()
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if chance < 0.03:
        oddly_shaped(rng, message, ODD[:-2])
        outcome(grammar, message, reason)
        return False
    untouched = chance < 0.45
    if chance < 0.25:
        text = text[: rng.randrange(len(text))]
    for _ in range(0 if untouched else rng.choice((1, 1, 1, 2, 3))):
        text = mutated(rng, text, PIECES)
    call = outcome(grammar, {**message, "content": text}, reason)
    if call and untouched:
        assert [*named(call)] == wanted, f"{call} instead of {wanted} from {text!r}"
    elif call:
        check_stands_there(call.call, text, grammar)
    return call is not None


def run(count: int, grammar: str, seed: int = 0) -> int:
    """How many calls came of so many replies; raises AssertionError for the first wrong one."""
    rng = random.Random(f"{grammar} {seed}")
    return sum(read_one(rng, grammar) for _ in range(count))


def main(count: int = 1_000_000, seed: int = 0) -> bool:
    for name in GRAMMARS:
        print(f"{name}: {run(count // len(GRAMMARS), name, seed)} calls", flush=True)
    return True
