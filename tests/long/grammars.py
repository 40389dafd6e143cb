"""Mutated replies in the grammars that models were trained in.

Only a GrammarCall or a ReplyError may come out, within a bound of time. And no wrong act: every reply is written here from
an act that is known, by means of its own. What does not touch its call (thoughts with other calls in them, words, a second
call, a cut) gives that act or none. What does touch it gives an act whose word, numbers and text stand in the reply as it
then is: nothing is invented, rounded to an edge or put together from pieces.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from agent import GRAMMARS, ReplyError
from tests.long.replies import ODD, SIGNS, mutated, oddly_shaped

# The sizes that pictures have before the model, as they are documented for a factor of 28.
RESIZED = {(1920, 1080): (1932, 1092), (1440, 900): (1428, 896), (1536, 864): (1540, 868)}
SECONDS_MOST = 0.25  # of the processor's time, for one reply
SAMPLES = 300  # written before they are mutated again and again
TEXTS = (
    *("hello", "it's", 'say "no"', "C:\\temp\\x", "a\nb", "北京天气", "5, 6", "<b>", "x"),
    "ls -l | wc",
)
KEYS = (["enter"], ["ctrl", "s"], ["ctrl", "shift", "t"], ["f5"], ["pagedown"])
REASONS = ("stop", "tool_calls", None)


Json = dict[str, Any]


class Sample(NamedTuple):
    """A reply's call as its grammar writes it, and the act that it is."""

    call: str
    name: str
    arguments: dict[str, Any]
    before: str = ""  # what comes before the call
    after: str = ""


class Space(NamedTuple):
    """The largest numbers of a grammar, and what they are on the grid."""

    width: int
    height: int

    def grid(self, x: float, y: float) -> list[int]:
        return [int(x * 1000 / self.width + 0.5), int(y * 1000 / self.height + 0.5)]

    def place(self, rng: random.Random) -> tuple[int, int]:
        return rng.randint(2, self.width), rng.randint(2, self.height)


def space_of(name: str, picture: tuple[int, int]) -> Space:
    in_pixels = name in ("qwen2.5-vl", "ui-tars-1.5", "fara-7b", "opencua")
    return Space(*RESIZED[picture]) if in_pixels else Space(1000, 1000)


# -- replies, each written from an act


def qwen_act(rng: random.Random, space: Space, grammar: str) -> tuple[Json, str, Json]:
    """The arguments of computer_use as written, and the act."""
    x, y = space.place(rng)
    at, there = space.grid(x, y), {"coordinate": [x, y]}
    text, keys = rng.choice(TEXTS), rng.choice(KEYS)
    amount = rng.choice((3, -5, 10, -99, 100, -300, 501))
    sign = 1 if amount > 0 else -1
    ticks = amount if abs(amount) <= 20 else (abs(amount) + 50) // 100 * sign
    typed: Json = {"text": text}
    acts: list[tuple[Json, str, Json]] = [
        ({"action": "left_click", **there}, "click", {"position": at}),
        ({"action": "mouse_move", **there}, "move", {"position": at}),
        ({"action": "key", "keys": keys}, "press_key", {"key": "+".join(keys)}),
        ({"action": "wait", "time": 2}, "wait", {"seconds": 2}),
        ({"action": "terminate", "status": "failure"}, "failed", {}),
    ]
    if grammar == "fara-7b":
        ticks, typed = 8 * sign, {"text": text, "submit": True}
    else:
        acts.append(({"action": "left_click_drag", **there}, "drag", {"end": at}))
        acts.append(({"action": "right_click", **there}, "right_click", {"position": at}))
    acts.append(({"action": "scroll", "pixels": amount}, "scroll", {"ticks": ticks}))
    acts.append(({"action": "type", "text": text}, "type_text", typed))
    return rng.choice(acts)


def qwen_reply(rng: random.Random, space: Space, grammar: str) -> Sample:
    written, name, arguments = qwen_act(rng, space, grammar)
    called = {"name": "computer_use", "arguments": written}
    call = f"<tool_call>\n{json.dumps(called, ensure_ascii=rng.random() < 0.5)}\n</tool_call>"
    if grammar == "qwen3.5-xml":
        call = xml_call("tool_call", "computer_use", written)
    return Sample(call, name, arguments, "Action: Do it.\n")


def xml_call(tag: str, function: str, written: Json) -> str:
    inside = ""
    for key, value in written.items():
        said = value if isinstance(value, str) else json.dumps(value)
        inside += f"<parameter={key}>\n{said}\n</parameter>\n"
    return f"<{tag}>\n<function={function}>\n{inside}</function>\n</{tag}>"


def tars_act(
    rng: random.Random, space: Space, spelled: Callable[[int, int], str], key: str
) -> tuple[str, dict[str, str], str, Json]:
    """Verb and arguments as written, and the act; `key` names a place."""
    x, y = space.place(rng)
    at, text, keys = space.grid(x, y), rng.choice(TEXTS), rng.choice(KEYS)
    there = {key: spelled(x, y)}
    acts: list[tuple[str, dict[str, str], str, Json]] = [
        ("click", there, "click", {"position": at}),
        ("left_double", there, "double_click", {"position": at}),
        ("type", {"content": text}, "type_text", {"text": text}),
        ("hotkey", {"key": " ".join(keys)}, "press_key", {"key": "+".join(keys)}),
        ("scroll", {**there, "direction": "down"}, "scroll", {"position": at, "ticks": -5}),
        ("finished", {"content": text}, "finished", {"text": text}),
    ]
    return rng.choice(acts)


def verb_reply(rng: random.Random, space: Space, grammar: str) -> Sample:
    box = rng.choice(
        ("({},{})", "<|box_start|>({},{})<|box_end|>", "[{}, {}]", "<bbox>{} {}</bbox>", "{}, {}")
    )
    verb, written, name, arguments = tars_act(rng, space, box.format, "start_box")
    quote = rng.choice("''\"")
    given = ", ".join(f"{key}={quote}{escaped(value)}{quote}" for key, value in written.items())
    return Sample(f"Action: {verb}({given})", name, arguments, "Thought: I see it.\n")


def escaped(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace("'", "\\'").replace('"', '\\"')


def seed_reply(rng: random.Random, space: Space, grammar: str) -> Sample:
    verb, written, name, arguments = tars_act(rng, space, "<point>{} {}</point>".format, "point")
    return Sample(xml_call("seed:tool_call", verb, written), name, arguments)


def code_reply(rng: random.Random, space: Space, grammar: str) -> Sample:
    x, y = space.place(rng)
    text, keys = rng.choice(TEXTS), rng.choice(KEYS)
    at = space.grid(x, y)
    quoted = "', '".join(keys)
    line, name, arguments = rng.choice(
        [
            (f"pyautogui.click(x={x}, y={y})", "click", {"position": at}),
            (f"pyautogui.rightClick({x}, {y})", "right_click", {"position": at}),
            (f"pyautogui.write(message='{escaped(text)}')", "type_text", {"text": text}),
            (f"pyautogui.hotkey(['{quoted}'])", "press_key", {"key": "+".join(keys)}),
            ("pyautogui.scroll(-5)", "scroll", {"ticks": -5}),
            ("computer.terminate(status='success')", "finished", {}),
        ]
    )
    return Sample(f"```python\n{line}\n```", name, arguments, "## Action:\nDo it.\n## Code:\n")


# Those of the other grammars are Qwen's.
WRITERS = {
    "ui-tars-1.0": verb_reply,
    "ui-tars-1.5": verb_reply,
    "ui-tars-2": seed_reply,
    "opencua": code_reply,
}

# -- what happens to replies

THOUGHT_NAMES = ("think", "thinking", "thinkt", "gui_think", "grounding_think")
WORDS = ("I will do it.", "  \n", "Thought: ok\n", "First {this}.", "Note: 5 < 6.\n", "3, 4")
ENDINGS = ("<|im_end|>", "\n", "  ", "\nDone.", "<|endoftext|>", "\n\n")
# Beside those of all replies.
PIECES = (
    *SIGNS,
    *"\\u0041 1e3 <thinking> </thinking> <seed:tool_call> <function=click> <parameter=action>".split(),
    *"<function=computer_use> <answer> </answer> <point>9 9</point> ⚗ click( start_box= = < >".split(
        " "
    ),
    *("[" * 500, "Action: ", "\nAction: ", '"action": ', '"coordinate": [7, 8], ', "x=1, ", "159"),
    "coordinate2",
)
ODD_SENT = ODD[:-2]


def kept(rng: random.Random, sample: Sample, other: Sample) -> str:
    """The reply with its first call untouched among what does not count."""
    name = rng.choice(THOUGHT_NAMES)
    thought = f"<{name}>{rng.choice(WORDS)}{other.call}{rng.choice(WORDS)}</{name}>"
    before, after = sample.before, sample.after
    chance = rng.random()
    if chance < 0.3:
        before = f"{thought}\n{before}"
    elif chance < 0.5:
        before = f"{rng.choice(WORDS)}{before}"
    if rng.random() < 0.3:
        after = f"{after}\n\n{other.before}{other.call}"
    elif rng.random() < 0.5:
        after += rng.choice(ENDINGS)
    return before + sample.call + after


# -- what may come of them

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


def numbers_in(text: str) -> list[float]:
    """The numbers that a place or an amount can be, in order."""
    return [float(found) for found in NUMBER.findall(text) if abs(float(found)) < NUMBER_MOST]


def places_in(text: str, space: Space) -> Iterator[list[int]]:
    """Every place that two numbers beside each other, or the centre of four, can mean."""
    numbers = numbers_in(text)
    for number in range(len(numbers) - 1):
        yield space.grid(*numbers[number : number + 2])
        if number + 3 < len(numbers):
            left, top, right, bottom = numbers[number : number + 4]
            yield space.grid((left + right) / 2, (top + bottom) / 2)


def check_stands_there(call: Any, text: str, space: Space) -> None:
    """Raises AssertionError unless everything the call says stands in the reply."""
    for name, value in call.arguments.items():
        if name in ("position", "start", "end"):
            assert value in list(places_in(text, space)), f"place {value} of nowhere"
            assert all(0 <= axis <= 1000 for axis in value), f"place {value} beyond the grid"
        elif name == "text":
            said = (part.replace("\n", "") for part in (text, unescaped(text)))
            assert any(value.replace("\n", "") in part for part in said), f"text {value!r}"
        elif name in ("seconds", "ticks") and not isinstance(value, bool):
            amounts = {abs(number) for number in numbers_in(text)}
            hundreds = {float(int(amount + 50) // 100) for amount in amounts}
            assert abs(value) in amounts | hundreds | {1, 2, 3, 5, 8}, f"{name} {value} of nowhere"
        elif name == "key":
            signs = [part for part in value.split("+") if len(part) == 1]
            assert all(sign in text.lower() for sign in signs), f"key {value!r}"


def outcome(grammar: str, message: Any, reason: Any, picture: tuple[int, int]) -> Any:
    """A call, or None for a ReplyError; anything else comes through, and slowness is an error."""
    begin = time.thread_time()
    try:
        call: Any = GRAMMARS[grammar].read(message, reason, picture)
    except ReplyError as error:
        assert error.kind and 0 < len(str(error)) < 600, repr(error)
        assert 0 < len(GRAMMARS[grammar].correction(error)) < 900
        call = None
    assert time.thread_time() - begin < SECONDS_MOST, f"slow: {message!r:.300}"
    assert call is None or type(call).__name__ == "GrammarCall", repr(call)
    return call


def read_one(
    rng: random.Random, grammar: str, picture: tuple[int, int], samples: list[Sample]
) -> bool:
    """Mutates and reads one reply; whether a call came of it. Raises AssertionError."""
    sample, other = rng.choice(samples), rng.choice(samples)
    text, reason, chance = kept(rng, sample, other), rng.choice(REASONS), rng.random()
    if chance < 0.03:
        message: Json = {"role": "assistant", "content": text}
        oddly_shaped(rng, message, ODD_SENT)
        outcome(grammar, message, reason, picture)
        return False
    untouched = chance < 0.45
    if chance < 0.25:
        text = text[: rng.randrange(len(text))]
    for _ in range(0 if untouched else rng.choice((1, 1, 1, 2, 3))):
        text = mutated(rng, text, PIECES)
    call = outcome(grammar, {"role": "assistant", "content": text}, reason, picture)
    if call is None:
        return False
    if untouched:
        wanted = (sample.name, sample.arguments)
        said = f"{call} instead of {wanted} from {text!r}"
        assert (call.name, call.arguments) == wanted, said
        return True
    try:
        check_stands_there(call, text, space_of(grammar, picture))
    except AssertionError as error:
        raise AssertionError(f"{error}: {call} from {text!r}") from None
    return True


def run(count: int, grammar: str, seed: int = 0) -> int:
    """Reads so many replies in one grammar; raises AssertionError for the first wrong one.

    Returns how many calls came of them.
    """
    rng = random.Random(f"{grammar} {seed}")
    calls = 0
    for number in range(count):
        if number % (10 * SAMPLES) == 0:
            picture = rng.choice(list(RESIZED))
            space = space_of(grammar, picture)
            samples = [
                WRITERS.get(grammar, qwen_reply)(rng, space, grammar) for _ in range(SAMPLES)
            ]
        calls += read_one(rng, grammar, picture, samples)
    return calls


def main(count: int = 1_000_000, seed: int = 0) -> bool:
    for name in GRAMMARS:
        print(f"{name}: {run(count // len(GRAMMARS), name, seed)} calls", flush=True)
    return True
