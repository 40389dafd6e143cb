"""python tests/fuzz_replies.py N [SEED] - reads N mutated and cut replies.

Only an Act or a ReplyError may come out, and no cut reply may give a call that differs from the uncut one's.
"""

import copy
import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from agent import PROFILES, Act, ReplyError, Vocabulary, read_call

FOLDER = Path(__file__).parent / "replies"
PLANNER = PROFILES["planner"].vocabulary.tools
# By what names the cases call the tools.
VOCABULARIES = {
    **{name: PROFILES[name].vocabulary for name in ("commander", "chat", "pointer", "story")},
    "planner": Vocabulary(
        {**PLANNER, "scroll": "scroll_screen"}, {"ticks": "amount", "modifiers": {}}
    ),
    "other": Vocabulary({"wait": "wait"}),
}
PIECES = (
    '"',
    "'",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    " ",
    "\n",
    "\\n",
    "\0",
    "\ud800",
    "\U0001f600",
    "é",
    "true",
    "None",
    "NaN",
    "-",
    ".",
    "0",
    "9" * 30,
    "9" * 5000,
    "1e999",
    "1e-9",
    "{" * 40,
    "[" * 2000,
    '{"a":' * 40,
    "{{",
    "}}",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_REQUEST]",
    "[END_TOOL_REQUEST]",
    "<|im_end|>",
    "<function=press_keyboard_key>",
    "<parameter=key>",
    "</parameter>",
    "</function>",
    "```",
    "```json\n",
    "<tools>",
    '"name": ',
    '"key": "a", ',
    '"arguments": {',
    '"position": [1, 2], ',
    "functions.",
    '{"tool_calls": []}',
    '{"name": "press_keyboard_key", "arguments": {"key": "tab"}}',
    "[1, 2]",
    '"x": 0.5, "y": 0.25, ',
    "\u0664",
)
ODD = (
    None,
    True,
    0,
    -1,
    10**5000,
    1e308,
    float("nan"),
    "",
    "x",
    "\ud800",
    "{}",
    [],
    [[]],
    {},
    {"name": None},
    {"x": {}},
    [None],
    {1: 2},
    {"function": {}},
    {"tool_calls": []},
)
REASONS = ("stop", "tool_calls", "length", None)


def load_cases():
    """Every case of the project, each with the name of its file."""
    texts = ((path.stem, path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.jsonl")))
    return [
        {**json.loads(line), "file": name}
        for name, text in texts
        for line in text.split("\n")
        if line
    ]


def place_of_text(message):
    """Where the text stands that a server could cut: the object and its key, or None."""
    calls = message.get("tool_calls")
    if calls:
        holder = (
            calls[0].get("function", calls[0])
            if isinstance(calls, list) and isinstance(calls[0], dict)
            else {}
        )
        return (
            (holder, "arguments")
            if isinstance(holder, dict) and isinstance(holder.get("arguments"), str)
            else None
        )
    for key in ("content", "reasoning_content"):
        if isinstance(message.get(key), str) and message[key]:
            return message, key
    return None


def reading(read, message, reason, words):
    """The call as it was read, or None for a ReplyError; anything else comes through."""
    try:
        act = read(message, reason, words)
    except ReplyError as error:
        assert error.kind and 0 < len(str(error)) < 600, repr(error)
        return None
    assert type(act) is Act, repr(act)
    return act.call


def cut_reasons(key, text, reason):
    """How a server may label the cut. What stands before a </think>, or in the reasoning, is known for thought only
    by what follows; for these the label has to be honest."""
    return (
        ("length",)
        if "</think>" in text or key == "reasoning_content"
        else ("length", reason, None)
    )


def check_cuts(read, message, reason, tools, whole, ends):
    """Reads the reply cut at `ends`, under each label; returns how many were read."""
    holder, key = place_of_text(message)
    text, count = holder[key], 0
    data = text.encode("utf-8", "surrogatepass")
    for end in ends:
        holder[key] = data[:end].decode("utf-8", "replace")
        for label in cut_reasons(key, text, reason):
            call, count = reading(read, message, label, tools), count + 1
            if call is not None and (call.name, call.arguments) != (whole.name, whole.arguments):
                raise AssertionError(
                    f"{holder[key]!r} ({label}) gave {call}, but {text!r} gives {whole}"
                )
    holder[key] = text
    return count


def cut_everywhere(case, read=read_call, places=(0, 1)):
    """Cuts one good reply at every byte, or from one on at every so-manyth; returns how many replies were read."""
    message, tools = copy.deepcopy(case["message"]), VOCABULARIES[case["tools"]]
    place, whole = place_of_text(message), reading(read, message, case["finish_reason"], tools)
    if not place or whole is None:
        return 0
    size = len(place[0][place[1]].encode("utf-8", "surrogatepass"))
    return check_cuts(
        read, message, case["finish_reason"], tools, whole, range(places[0], size, places[1])
    )


def mutated(rng, text):
    """The text with bytes cut, swapped, doubled, or something odd put in."""
    here, there = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    return (
        lambda: text[:here] + rng.choice(PIECES) + text[here:],
        lambda: text[:here] + rng.choice(PIECES) + text[here + 1 :],
        lambda: text[:here] + text[here + 1 : there] + text[here : here + 1] + text[there:],
        lambda: text[:here] + text[there:],
        lambda: text[:there] + text[here:],
        lambda: text[:here],
        lambda: json.dumps(text),
    )[rng.randrange(7)]()


def oddly_shaped(rng, message):
    """Puts an odd value at a random place of the message."""
    node, key = message, rng.choice(("content", "tool_calls", "reasoning_content", "function_call"))
    while isinstance(node, (dict, list)) and node:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        parent, key = node, rng.choice(keys)
        node = node[key]
        if rng.random() < 0.3:
            parent[key] = rng.choice(ODD)
            return
    message[rng.choice(("content", "tool_calls", "reasoning_content", "function_call"))] = (
        rng.choice(ODD)
    )


def run(count, seed=0, read=read_call):
    """Reads at least `count` replies; returns how many."""
    rng, done = random.Random(seed), 0
    cases = [case for case in load_cases() if len(str(case)) < 3000]
    texts = [
        holder[key]
        for holder, key in filter(None, (place_of_text(case["message"]) for case in cases))
    ]
    while done < count:
        case = rng.choice(cases)
        message, tools, reason = (
            copy.deepcopy(case["message"]),
            VOCABULARIES[case["tools"]],
            rng.choice(REASONS),
        )
        place = place_of_text(message)
        if place is None or rng.random() < 0.1:
            oddly_shaped(rng, message)
            place = None
        else:
            holder, key = place
            for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
                holder[key] = mutated(rng, holder[key])
            if rng.random() < 0.05:
                holder[key] += rng.choice(("", " ", "\n")) + rng.choice(texts)
        whole, done = reading(read, message, reason, tools), done + 1
        if whole is not None and place is not None and place[0][place[1]]:
            size = len(place[0][place[1]].encode("utf-8", "surrogatepass"))
            done += check_cuts(
                read, message, reason, tools, whole, [rng.randrange(size) for _ in range(2)]
            )
    return done


if __name__ == "__main__":
    wanted, chosen = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    begin = time.perf_counter()
    total = run(wanted, chosen)
    print(
        f"{total} replies read in {time.perf_counter() - begin:.1f} s (seed {chosen}): only acts and ReplyError."
    )
