"""Mutated and cut replies: only an Act or a ReplyError may come of one.

No cut reply may give a call that differs from the uncut one's.
"""

import copy
import json
import random
from pathlib import Path

from agent import PROFILES, Act, Reply, ReplyError, Vocabulary, read_call

FOLDER = Path(__file__).parents[1] / "replies"
PLANNER = PROFILES["planner"].vocabulary.tools
# By what names the cases call the tools.
VOCABULARIES = {
    **{name: PROFILES[name].vocabulary for name in ("commander", "chat", "pointer", "story")},
    "planner": Vocabulary(
        {**PLANNER, "scroll": "scroll_screen"}, {"ticks": "amount"}, {"modifiers"}
    ),
    "other": Vocabulary({"wait": "wait"}),
}
# What is put into replies, in any grammar and in JSON.
SIGNS = (
    *"\"'\\{}[](),: \n\0.-0é\ud800\U0001f600\u0664",
    *"\\n true None NaN {{ }} ``` <think> </think> <tool_call> </tool_call> <|im_end|>".split(),
    *("9" * 30, "{" * 40, "</parameter>", "</function>", "[1, 2]"),
)
PIECES = (
    *SIGNS,
    *"1e999 1e-9 [TOOL_REQUEST] [END_TOOL_REQUEST] <tools> functions. <parameter=key>".split(),
    *("9" * 5000, "[" * 2000, '{"a":' * 40, "<function=press_keyboard_key>", "```json\n"),
    *('"name": ', '"key": "a", ', '"arguments": {', '"position": [1, 2], ', '{"tool_calls": []}'),
    *('{"name": "press_keyboard_key", "arguments": {"key": "tab"}}', '"x": 0.5, "y": 0.25, '),
)
# What is put in the place of a value; no server can send the last two.
ODD = (
    *(None, True, 0, -1, 1e308, float("nan"), "", "x", "\ud800", "{}", [], [[]], {}, [None]),
    *({"name": None}, {"x": {}}, {"function": {}}, {"tool_calls": []}, 10**5000, {1: 2}),
)
REASONS = ("stop", "tool_calls", "length", None)
PLACES = ("content", "tool_calls", "reasoning_content", "function_call")


def load_cases():
    """Every case of the project, each with the name of its file."""
    return [
        {**json.loads(line), "file": path.stem}
        for path in sorted(FOLDER.glob("*.jsonl"))
        for line in path.read_text("utf-8").split("\n")
        if line
    ]


def place_of_text(message):
    """Where the text stands that a server could cut: the object and its key, or None."""
    calls = message.get("tool_calls")
    if calls:
        first = calls[0] if isinstance(calls, list) else None
        holder = first.get("function", first) if isinstance(first, dict) else None
        is_text = isinstance(holder, dict) and isinstance(holder.get("arguments"), str)
        return (holder, "arguments") if is_text else None
    keys = ("content", "reasoning_content")
    return next(
        ((message, key) for key in keys if message.get(key) and type(message[key]) is str), None
    )


def reading(read, message, reason, words):
    """The call's name and arguments as they were read, or None for a ReplyError; anything else comes through."""
    try:
        act = read(Reply(message, reason), words)
    except ReplyError as error:
        assert error.kind and 0 < len(str(error)) < 600, repr(error)
        return None
    assert type(act) is Act, repr(act)
    return act.call.name, act.call.arguments


def check_cuts(read, message, reason, tools, whole, ends):
    """Reads the reply cut at `ends`, under each label that a server may give it; returns how many were read.

    What stands before the end of thoughts, or in the reasoning, is known for thought only by what follows; for these the
    label has to be honest.
    """
    holder, key = place_of_text(message)
    text, count = holder[key], 0
    thinks = "think" in text or key == "reasoning_content"
    data = text.encode("utf-8", "surrogatepass")
    for end in ends:
        holder[key] = data[:end].decode("utf-8", "replace")
        for label in ("length",) if thinks else ("length", reason, None):
            call, count = reading(read, message, label, tools), count + 1
            assert call in (None, whole), (holder[key], label, call, text, whole)
    holder[key] = text
    return count


def cut_everywhere(case, read=read_call, places=(0, 1)):
    """Cuts one good reply at every byte, or from one on at every so-manyth; returns how many replies were read."""
    message, tools = copy.deepcopy(case["message"]), VOCABULARIES[case["tools"]]
    reason, place = case["finish_reason"], place_of_text(message)
    whole = reading(read, message, reason, tools)
    if not place or whole is None:
        return 0
    ends = range(places[0], size_of(place), places[1])
    return check_cuts(read, message, reason, tools, whole, ends)


def size_of(place):
    holder, key = place
    return len(holder[key].encode("utf-8", "surrogatepass"))


def mutated(rng, text, pieces=PIECES):
    """The text with signs cut, swapped, doubled, or something odd put in."""
    here, there = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    return (
        lambda: text[:here] + rng.choice(pieces) + text[here:],
        lambda: text[:here] + rng.choice(pieces) + text[here + 1 :],
        lambda: text[:here] + text[here + 1 : there] + text[here : here + 1] + text[there:],
        lambda: text[:here] + text[here + 1 :],
        lambda: text[:here] + text[there:],
        lambda: text[:there] + text[here:],
        lambda: text[:here],
        lambda: json.dumps(text),
    )[rng.randrange(8)]()


def oddly_shaped(rng, message, odd=ODD):
    """Puts an odd value at a random place of the message."""
    node = message
    while isinstance(node, (dict, list)) and node:
        parent, key = node, rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        node = node[key]
        if rng.random() < 0.3:
            parent[key] = copy.deepcopy(rng.choice(odd))
            return
    message[rng.choice(PLACES)] = copy.deepcopy(rng.choice(odd))


def run(count, seed=0, read=read_call):
    """Reads at least `count` replies; returns how many."""
    rng, done = random.Random(seed), 0
    cases = [case for case in load_cases() if len(str(case)) < 3000]
    places = filter(None, (place_of_text(case["message"]) for case in cases))
    texts = [holder[key] for holder, key in places]
    while done < count:
        case, reason = rng.choice(cases), rng.choice(REASONS)
        message, tools = copy.deepcopy(case["message"]), VOCABULARIES[case["tools"]]
        place = place_of_text(message)
        if place is None or rng.random() < 0.1:
            place = None
            oddly_shaped(rng, message)
        else:
            holder, key = place
            for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
                holder[key] = mutated(rng, holder[key])
            if rng.random() < 0.05:
                holder[key] += rng.choice(("", " ", "\n")) + rng.choice(texts)
        whole, done = reading(read, message, reason, tools), done + 1
        if place and whole is not None and size_of(place):
            ends = [rng.randrange(size_of(place)) for _ in range(2)]
            done += check_cuts(read, message, reason, tools, whole, ends)
    return done


def main(count=1_000_000, seed=0):
    """A wrong one is raised as an AssertionError."""
    print(f"{run(count, seed)} replies")
    return True
