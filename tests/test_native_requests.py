"""What profile native asks a model, field by field, is the form that the model's own documents give.

Each grammar carries out seven turns of a run against a scripted server, and its first and its last request are taken
apart. ../shared/GRAMMARS.md has the sources of what the documents say; what they do not say is not listed here.
"""

from __future__ import annotations

import json
import re
import unittest

import agent
from tests.scripted import FEWER_REQUESTS, text
from tests.spoken import spoken
from tests.test_native import NativeCase, Request, is_verifier

TURNS = 7
TASK = "Press the button"  # that of tests/scripted.py
SIZE = (448, 224)  # of the picture: multiples of 16, 28 and 32
SAMPLING = ("temperature", "top_p", "top_k", "repetition_penalty", "repeat_penalty", "max_tokens")
# What an instruction holds that asks for this form of a reply.
FORMS = {
    "Action: sentence, <tool_call> JSON": "1) Action: a short imperative",
    "Thought: ..., Action: verb(...)": "Thought: ...\nAction: ...",
    "<tool_call> XML": "<function=example_function_name>",
    "<seed:tool_call> XML": "<seed:tool_call>",
    "## Thought, ## Action, ## Code": "## Code:",
    "<tool_call> JSON": "<tool_call>",
}


def replies_of(grammar: agent.Grammar) -> list[str]:
    """A click a turn, and the end."""
    clicks = [
        spoken(grammar, "click", [100 * number, 500], SIZE, f"Click number {number}.")
        for number in range(1, TURNS)
    ]
    return [*clicks, spoken(grammar, "end", why="It is done.")]


def parts_of(message: Request) -> list[str]:
    """A message's texts, with "picture" for each picture."""
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [part.get("text", "picture") for part in content]


def fields_of(grammar: agent.Grammar, requests: list[Request]) -> dict[str, str]:
    """The fields of the requests, in words that can be compared."""
    first, last = requests[0], requests[-1]
    messages = first["messages"]
    system = parts_of(messages[0])[0] if messages[0]["role"] == "system" else ""
    users = [parts_of(message) for message in messages if message["role"] == "user"]
    later = [parts_of(message) for message in last["messages"] if message["role"] == "user"]
    layout = [", ".join(p if p == "picture" else "text" for p in parts) for parts in users]
    opening = users[0][0]
    return {
        "role of the instructions": "system" if system else "user",
        "system text begins": system.partition("\n")[0] or "none",
        **function_in(system, opening),
        "declared resolution": resolution_in(system, grammar),
        "form of a reply": next(form for form in FORMS if FORMS[form] in (system or opening)),
        "question": question_in(opening),
        "text and picture": " | ".join(layout),
        "pictures shown": str(sum(parts.count("picture") for parts in later)),
        "earlier steps": found_in(r"(?m)^(.*Step 1:.*(?:\n## Action:\n.*)?)$", later[0][0]),
        "space of places": "resized" if grammar.in_pixels else "0..1000",
        "sizes of a picture": "multiples of {}, {} to {} pixels".format(*grammar.picture),
        **{name: str(first.get(name, "none")) for name in SAMPLING},
    }


def found_in(pattern: str, words: str, otherwise: str = "none") -> str:
    found = re.search(pattern, words)
    return found[1].replace("\n", " / ") if found else otherwise


def function_in(system: str, opening: str) -> dict[str, str]:
    """The actions that are announced and the arguments that they take."""
    written = re.search(r"<tools>\n(.*)\n</tools>", system)
    if written:
        function = json.loads(written[1])["function"]
        properties = function["parameters"]["properties"]
        actions = f"{function['name']}: {' '.join(properties['action']['enum'])}"
        taken = ", ".join(f"{name} {schema['type']}" for name, schema in properties.items())
        return {"actions": actions, "arguments": taken}
    space = opening.partition("## Action Space")[2].partition("## Note")[0]
    listed = opening.partition("The functions")[2]
    verbs = re.findall(r"(?m)^(\w+)\(", space) or re.findall(r"(\w+)\([\w, ]*\)", listed)
    return {"actions": " ".join(verbs) or "none listed", "arguments": "none"}


def resolution_in(system: str, grammar: agent.Grammar) -> str:
    found = found_in(r"resolution is (\d+x\d+)", system)
    seen = "{}x{}".format(*grammar.picture.seen_size(agent.Size(*SIZE)))
    return "that of the resized picture" if found == seen else found


def question_in(opening: str) -> str:
    """The lines that structure the first user text: headings, names before a colon, the task."""
    lines = [line.replace(TASK, "{task}") for line in opening.splitlines()]
    telling = r"## .*|[A-Z]\w+( \w+)?:( {task})?|{task}"
    return ", ".join(line for line in lines if re.fullmatch(telling, line))


# -- What the documents say

COMPUTER_USE = "computer_use: key type mouse_move left_click left_click_drag right_click middle_click double_click"
TYPES = "action string, keys array, text string, coordinate array, pixels number, time number, status string"

QWEN3_VL = {
    "role of the instructions": "system",
    "system text begins": "You are a helpful assistant.",
    "actions": f"{COMPUTER_USE} triple_click scroll hscroll wait terminate answer",
    "arguments": TYPES,
    "declared resolution": "1000x1000",
    "form of a reply": "Action: sentence, <tool_call> JSON",
    "question": "Instruction: {task}, Previous actions:",
    "text and picture": "text, picture",
    "pictures shown": "5",
    "earlier steps": "Step 1: Click number 1.",
    "space of places": "0..1000",
    "sizes of a picture": "multiples of 32, 3136 to 12845056 pixels",
    "temperature": "0",
    "top_p": "0.9",
    "max_tokens": "32768",
}
TARS = {
    "role of the instructions": "user",
    "system text begins": "none",
    "actions": "click left_double right_single drag hotkey type scroll wait finished call_user",
    "arguments": "none",
    "declared resolution": "none",
    "form of a reply": "Thought: ..., Action: verb(...)",
    "question": "## Output Format, ## Action Space, ## Note, ## User Instruction, {task}",
    "text and picture": "text | picture",
    "pictures shown": "5",
    "earlier steps": "none",
    "space of places": "0..1000",
    "sizes of a picture": "multiples of 28, 78400 to 2116800 pixels",
    "temperature": "0",
    "top_p": "0.7",
    "max_tokens": "1000",
}
TWENTY_EIGHT = "multiples of 28, 3136 to 12845056 pixels"
UNSAID_OF_QWEN = "question, text and picture".split(", ")
DOCUMENTED: dict[str, dict[str, str | None]] = {
    "qwen3-vl": {**QWEN3_VL},
    "qwen2.5-vl": QWEN3_VL
    | dict.fromkeys([*UNSAID_OF_QWEN, "earlier steps", "top_p", "max_tokens"])
    | {
        "actions": f"{COMPUTER_USE} scroll wait terminate",
        "declared resolution": "that of the resized picture",
        "form of a reply": "<tool_call> JSON",
        "pictures shown": "1",
        "space of places": "resized",
        "sizes of a picture": TWENTY_EIGHT,
    },
    "qwen3.5-xml": QWEN3_VL
    | dict.fromkeys(UNSAID_OF_QWEN)
    | {
        "system text begins": "# Tools",
        "form of a reply": "<tool_call> XML",
        "earlier steps": "all turns, their pictures left out",
        "temperature": "0.6",
        "top_p": "0.95",
        "top_k": "20",
        "max_tokens": "8192",
    },
    "gui-owl-1.5": QWEN3_VL
    | {
        "system text begins": "# Tools",
        "actions": f"{COMPUTER_USE} triple_click scroll hscroll wait terminate answer interact",
        "sizes of a picture": "multiples of 16, 3136 to 10035200 pixels",
        "top_k": "-1",
        "repetition_penalty": "1.05",
        "repeat_penalty": "1.05",  # the same in LM Studio and llama.cpp
        "max_tokens": "4096",
    },
    "ui-tars-1.0": {**TARS},
    "ui-tars-1.5": TARS
    | {
        "space of places": "resized",
        "sizes of a picture": "multiples of 28, 78400 to 12845056 pixels",
        "max_tokens": "65535",
    },
    "ui-tars-2": {
        "actions": "click left_double right_single move_to drag scroll type hotkey press release mouse_down mouse_up"
        " wait take_screenshot finished call_user open_computer",
        "form of a reply": "<seed:tool_call> XML",
        "space of places": "0..1000",
    },
    "fara-7b": {
        "role of the instructions": "system",
        "actions": "computer_use: key type mouse_move left_click scroll visit_url web_search history_back"
        " pause_and_memorize_fact wait terminate",
        "arguments": f"{TYPES}, press_enter boolean, delete_existing_text boolean, url string, query string, fact string",
        "declared resolution": "that of the resized picture",
        "form of a reply": "<tool_call> JSON",
        "question": "the URL, the next step",
        "pictures shown": "3",
        "space of places": "resized",
        "sizes of a picture": TWENTY_EIGHT,
        "temperature": "0",
    },
    "opencua": {
        "form of a reply": "## Thought, ## Action, ## Code",
        "pictures shown": "3",
        "earlier steps": "# Step 1: / ## Action: / Click number 1.",
        "space of places": "resized",
        "sizes of a picture": TWENTY_EIGHT,
        "temperature": "0",
        "top_p": "0.9",
        "max_tokens": "1500",
    },
}
# Where ours differs, and why.
OTHERWISE = {
    "the picture needs the room of a small context": "qwen3-vl: max_tokens | gui-owl-1.5: max_tokens | ui-tars-1.5: max_tokens",
    "what is a multiple of 32 is one of 16": "gui-owl-1.5: sizes of a picture",
    "no limit is what temperature 0 comes to, and not every server knows -1": "gui-owl-1.5: top_k",
    "the model would begin again when its first pictures go": "ui-tars-1.0: earlier steps | ui-tars-1.5: earlier steps",
    "the sentence tells risks and earlier steps, as makers of these models ask elsewhere": "qwen2.5-vl: form of a reply",
    "every kept turn costs prompt time at each turn": "qwen3.5-xml: earlier steps",
    "there is one computer, and it is open": "ui-tars-2: actions",
    "a browser alone has it": "fara-7b: actions | fara-7b: arguments | fara-7b: question",
}


class Requests(NativeCase):
    base = FEWER_REQUESTS

    def requests_of(self, grammar: agent.Grammar) -> list[Request]:
        """The requests of a run to the model that acts."""
        left = [text(reply) for reply in replies_of(grammar)]

        def decide(request: Request) -> Request:
            return text("YES: it is") if is_verifier(request) else left.pop(0)

        width, height = SIZE
        trial = self.native(decide, grammar.name, screen_capture_w=width, screen_capture_h=height)
        self.assertEqual(trial.run().kind, "completed")
        return self.asked(trial)

    def test_each_field_is_as_documented_or_has_a_reason_that_still_is_one(self) -> None:
        self.assertEqual(set(DOCUMENTED), set(agent.GRAMMARS))
        otherwise = " | ".join(OTHERWISE.values()).split(" | ")
        for grammar in agent.GRAMMARS.values():
            sent = fields_of(grammar, self.requests_of(grammar))
            for field, documented in DOCUMENTED[grammar.name].items():
                with self.subTest(grammar.name, field=field):
                    if f"{grammar.name}: {field}" in otherwise:
                        self.assertNotIn(sent[field], (documented, None), "a reason no more")
                    elif documented is not None:
                        self.assertEqual(sent[field], documented)


if __name__ == "__main__":
    unittest.main()
