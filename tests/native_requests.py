"""What profile native asks a model, field by field, beside the form that the model's own documents give.

    python -m tests.native_requests [GRAMMAR ...]

Each grammar carries out seven turns of a run against a scripted server, and its first and its last request are taken
apart. Beside each field stands what the documents say (../shared/GRAMMARS.md has their sources), and whether the two
are the same or why they differ. The exit code is 1 where a field differs without a reason, or has one and does not.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, NamedTuple

import agent
from tests.scripted import FEWER_REQUESTS, text
from tests.spoken import spoken
from tests.test_native import NativeCase, is_verifier

Request = dict[str, Any]
TURNS = 7
TASK = "Press the button"  # that of tests/scripted.py
SIZE = (448, 224)  # of the picture: multiples of 16, 28 and 32


class Documented(NamedTuple):
    """What the documents say of a field, and why ours differs, if it does; None: they say nothing."""

    value: str | None
    because: str = ""


class Compared(NamedTuple):
    """A field of a request beside its documented form."""

    field: str
    sent: str
    documented: Documented

    @property
    def same(self) -> bool:
        return self.sent == self.documented.value

    @property
    def holds(self) -> bool:
        """Whether the field is as documented, or differs for a reason that still is one."""
        return self.documented.value is None or self.same != bool(self.documented.because)

    def __str__(self) -> str:
        documented, because = self.documented
        if documented is None:
            verdict = "not documented"
        elif self.same:
            verdict = "same"
        else:
            verdict = f"differs because {because}" if because else "DIFFERS"
        lines = [f"  {self.field}: {verdict}", f"      sent        {self.sent}"]
        if documented is not None and not self.same:
            lines.append(f"      documented  {documented}")
        return "\n".join(lines)


##########################################################################
# What is sent
##########################################################################


def replies_of(grammar: agent.Grammar) -> list[str]:
    """A click a turn, and the end."""
    found = []
    for number in range(1, TURNS):
        place = [100 * number, 500]
        found.append(spoken(grammar, "click", place, SIZE, f"Click number {number}."))
    return [*found, spoken(grammar, "end", why="It is done.")]


def requests_of(grammar: agent.Grammar) -> list[Request]:
    """The requests of a run to the model that acts."""
    left = [text(reply) for reply in replies_of(grammar)]

    def decide(request: Request) -> Request:
        return text("YES: it is") if is_verifier(request) else left.pop(0)

    case = NativeCase()
    case.setUp()
    try:
        width, height = SIZE
        trial = case.trial(
            decide,
            "native",
            executor_grammar=grammar.name,
            screen_capture_w=width,
            screen_capture_h=height,
            **FEWER_REQUESTS,
        )
        outcome = trial.run()
        if outcome.kind != "completed":
            raise SystemExit(f"{grammar.name}: the run ended as {outcome.kind}: {outcome.text}")
        return case.asked(trial)
    finally:
        case.doCleanups()


def parts_of(message: Request) -> list[str]:
    """A message's texts, with "<picture>" for each picture."""
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [part.get("text", "<picture>") for part in content]


def fields_of(grammar: agent.Grammar) -> dict[str, str]:
    """The fields of the requests, in words that can be compared."""
    requests = requests_of(grammar)
    first, last = requests[0], requests[-1]
    messages = first["messages"]
    system = parts_of(messages[0])[0] if messages[0]["role"] == "system" else ""
    users = [message for message in messages if message["role"] == "user"]
    opening = parts_of(users[0])[0]
    later = [parts_of(message) for message in last["messages"] if message["role"] == "user"]
    function = re.search(r"<tools>\n(.*)\n</tools>", system)
    asked = {
        "role of the instructions": "system" if system else "user",
        "system text begins": system.partition("\n")[0] or "none",
        "tools of the request": str(len(first["tools"])) if "tools" in first else "none",
        "actions": actions_in(function[1] if function else "", opening),
        "arguments": arguments_in(function[1]) if function else "none",
        "declared resolution": resolution_in(system, grammar),
        "form of a reply": form_in(system or opening),
        "question": question_in(opening),
        "before the first step": no_steps_in(opening),
        "text and picture": " | ".join(layout_of(message) for message in users),
        "pictures shown": str(sum(parts.count("<picture>") for parts in later)),
        "earlier steps": steps_in(later[0][0]),
        "earlier replies": earlier_replies(grammar, last),
        "space of places": "resized" if grammar.in_pixels else "0..1000",
        "sizes of a picture": "multiples of {}, {} to {} pixels".format(*grammar.picture),
    }
    for name in SAMPLING:
        asked[name] = str(first[name]) if name in first else "none"
    return asked


SAMPLING = ("temperature", "top_p", "top_k", "repetition_penalty", "repeat_penalty", "max_tokens")


def actions_in(function: str, opening: str) -> str:
    if function:
        called = json.loads(function)["function"]
        return f"{called['name']}: " + " ".join(
            called["parameters"]["properties"]["action"]["enum"]
        )
    space = opening.partition("## Action Space")[2].partition("## Note")[0]
    verbs = re.findall(r"^(\w+)\(", space, re.MULTILINE) or re.findall(
        r"(\w+)\([\w, ]*\)", opening.partition("The functions")[2]
    )
    return " ".join(verbs) or "none listed"


def arguments_in(function: str) -> str:
    properties = json.loads(function)["function"]["parameters"]["properties"]
    return ", ".join(f"{name} {schema['type']}" for name, schema in properties.items())


def resolution_in(system: str, grammar: agent.Grammar) -> str:
    found = re.search(r"resolution is (\d+x\d+)", system)
    if not found:
        return "none"
    seen = "{}x{}".format(*grammar.picture.seen_size(agent.Size(*SIZE)))
    return "that of the resized picture" if found[1] == seen else found[1]


# What an instruction holds that asks for this form of a reply.
FORMS = {
    "Action: sentence, <tool_call> JSON": "1) Action: a short imperative",
    "<thinking>, <tool_call> JSON, <conclusion>": "<conclusion>",
    "Thought: ..., Action: verb(...)": "Thought: ...\nAction: ...",
    "<tool_call> XML": "<function=example_function_name>",
    "<seed:tool_call> XML": "<seed:tool_call>",
    "## Thought, ## Action, ## Code": "## Code:",
    "<tool_call> JSON": "<tool_call>",
}


def form_in(instructions: str) -> str:
    return next(form for form, mark in FORMS.items() if mark in instructions)


def question_in(opening: str) -> str:
    """The lines that structure the first user text: headings, names before a colon, the task."""
    lines = [line.replace(TASK, "{task}") for line in opening.splitlines()]
    telling = [
        line
        for line in lines
        if line.startswith("## ") or re.fullmatch(r"[A-Z]\w+( \w+)?:( {task})?|{task}", line)
    ]
    return ", ".join(telling)


def no_steps_in(opening: str) -> str:
    return opening.partition("Previous actions:\n")[2].partition("\n")[0] or "nothing is said"


def layout_of(message: Request) -> str:
    return ", ".join("picture" if part == "<picture>" else "text" for part in parts_of(message))


def steps_in(opening: str) -> str:
    """How the steps are told whose pictures are not shown any more."""
    found = re.search(r"^(.*Step 1:.*(?:\n## Action:\n.*)?)$", opening, re.MULTILINE)
    return found[1].replace("\n", " / ") if found else "none"


def earlier_replies(grammar: agent.Grammar, last: Request) -> str:
    said = [parts_of(m)[0] for m in last["messages"] if m["role"] == "assistant"]
    given = replies_of(grammar)[TURNS - 1 - len(said) : TURNS - 1]
    if not said:
        return "none"
    return "as they were" if said == given else "without their thoughts"


##########################################################################
# What the documents say
##########################################################################

SAME = Documented  # a field that is as documented
UNSAID = Documented(None)
SHORT = "a reply is one sentence and one call, and the picture needs the room of a small context"
ONE_LINE = (
    "older turns are told in a line each, since every kept one costs prompt time at each turn"
)
RISKS = (
    "the sentence tells risks and earlier steps, and makers of these models ask for it elsewhere"
)
COMPUTER_USE = "computer_use: key type mouse_move left_click left_click_drag right_click middle_click double_click"
TYPES = "action string, keys array, text string, coordinate array, pixels number, time number, status string"

QWEN3_VL = {
    "role of the instructions": SAME("system"),
    "system text begins": SAME("You are a helpful assistant."),
    "tools of the request": SAME("none"),
    "actions": SAME(f"{COMPUTER_USE} triple_click scroll hscroll wait terminate answer"),
    "arguments": SAME(TYPES),
    "declared resolution": SAME("1000x1000"),
    "form of a reply": SAME("Action: sentence, <tool_call> JSON"),
    "question": SAME("Instruction: {task}, Previous actions:"),
    "before the first step": SAME("None"),
    "text and picture": SAME("text, picture"),
    "pictures shown": SAME("5"),
    "earlier steps": SAME("Step 1: Click number 1."),
    "earlier replies": SAME("as they were"),
    "space of places": SAME("0..1000"),
    "sizes of a picture": SAME("multiples of 32, 3136 to 12845056 pixels"),
    "temperature": SAME("0"),
    "top_p": SAME("0.9"),
    "top_k": UNSAID,
    "repetition_penalty": UNSAID,
    "repeat_penalty": UNSAID,
    "max_tokens": Documented("32768", SHORT),
}
GUI_OWL = QWEN3_VL | {
    "system text begins": SAME("# Tools"),
    "actions": SAME(f"{COMPUTER_USE} triple_click scroll hscroll wait terminate answer interact"),
    "sizes of a picture": Documented(
        "multiples of 16, 3136 to 10035200 pixels", "what is a multiple of 32 is one of 16"
    ),
    "top_k": Documented(
        "-1", "no limit is what temperature 0 comes to, and not every server knows -1"
    ),
    "repetition_penalty": SAME("1.05"),
    "repeat_penalty": SAME("1.05"),  # the same in LM Studio and llama.cpp
    "max_tokens": Documented("4096", SHORT),
}
TARS = {
    "role of the instructions": SAME("user"),
    "system text begins": SAME("none"),
    "tools of the request": SAME("none"),
    "actions": SAME(
        "click left_double right_single drag hotkey type scroll wait finished call_user"
    ),
    "arguments": SAME("none"),
    "declared resolution": SAME("none"),
    "form of a reply": SAME("Thought: ..., Action: verb(...)"),
    "question": SAME("## Output Format, ## Action Space, ## Note, ## User Instruction, {task}"),
    "before the first step": SAME("nothing is said"),
    "text and picture": SAME("text | picture"),
    "pictures shown": SAME("5"),
    "earlier steps": Documented(
        "none", "the model would begin again as soon as the pictures of its first steps go"
    ),
    "earlier replies": SAME("as they were"),
    "space of places": SAME("0..1000"),
    "sizes of a picture": SAME("multiples of 28, 78400 to 2116800 pixels"),
    "temperature": SAME("0"),
    "top_p": SAME("0.7"),
    "top_k": UNSAID,
    "repetition_penalty": UNSAID,
    "repeat_penalty": UNSAID,
    "max_tokens": SAME("1000"),
}
BROWSER_ONLY = "a desktop has no equal of what is done in a browser alone"
DOCUMENTED: dict[str, dict[str, Documented]] = {
    "qwen3-vl": QWEN3_VL,
    "qwen2.5-vl": QWEN3_VL
    | {
        "actions": SAME(f"{COMPUTER_USE} scroll wait terminate"),
        "declared resolution": SAME("that of the resized picture"),
        "form of a reply": Documented("<tool_call> JSON", RISKS),
        "question": UNSAID,
        "before the first step": UNSAID,
        "text and picture": UNSAID,
        "pictures shown": SAME("1"),
        "earlier steps": UNSAID,
        "earlier replies": UNSAID,
        "space of places": SAME("resized"),
        "sizes of a picture": SAME("multiples of 28, 3136 to 12845056 pixels"),
        "top_p": UNSAID,
        "max_tokens": UNSAID,
    },
    "qwen3.5-xml": QWEN3_VL
    | {
        "system text begins": SAME("# Tools"),
        "form of a reply": SAME("<tool_call> XML"),
        "question": UNSAID,
        "before the first step": UNSAID,
        "text and picture": UNSAID,
        "earlier steps": Documented("all turns, their pictures left out", ONE_LINE),
        "temperature": SAME("0.6"),
        "top_p": SAME("0.95"),
        "top_k": SAME("20"),
        "max_tokens": SAME("8192"),
    },
    "gui-owl-1.5": GUI_OWL,
    "ui-tars-1.0": TARS,
    "ui-tars-1.5": TARS
    | {
        "space of places": SAME("resized"),
        "sizes of a picture": SAME("multiples of 28, 78400 to 12845056 pixels"),
        "max_tokens": Documented("65535", SHORT),
    },
    "ui-tars-2": dict.fromkeys(TARS, UNSAID)
    | {
        "actions": Documented(
            "click left_double right_single move_to drag scroll type hotkey press release mouse_down mouse_up wait"
            " take_screenshot finished call_user open_computer",
            "there is one computer, and it is open",
        ),
        "form of a reply": SAME("<seed:tool_call> XML"),
        "space of places": SAME("0..1000"),
    },
    "fara-7b": dict.fromkeys(TARS, UNSAID)
    | {
        "role of the instructions": SAME("system"),
        "tools of the request": SAME("none"),
        "actions": Documented(
            "computer_use: key type mouse_move left_click scroll visit_url web_search history_back"
            " pause_and_memorize_fact wait terminate",
            BROWSER_ONLY,
        ),
        "arguments": Documented(
            f"{TYPES}, press_enter boolean, delete_existing_text boolean, url string, query string, fact string",
            BROWSER_ONLY,
        ),
        "declared resolution": SAME("that of the resized picture"),
        "form of a reply": SAME("<tool_call> JSON"),
        "question": Documented("the URL, the next step", BROWSER_ONLY),
        "pictures shown": SAME("3"),
        "space of places": SAME("resized"),
        "sizes of a picture": SAME("multiples of 28, 3136 to 12845056 pixels"),
        "temperature": SAME("0"),
    },
    "opencua": dict.fromkeys(TARS, UNSAID)
    | {
        "form of a reply": SAME("## Thought, ## Action, ## Code"),
        "pictures shown": SAME("3"),
        "earlier steps": SAME("# Step 1: / ## Action: / Click number 1."),
        "space of places": SAME("resized"),
        "sizes of a picture": SAME("multiples of 28, 3136 to 12845056 pixels"),
        "temperature": SAME("0"),
        "top_p": SAME("0.9"),
        "max_tokens": SAME("1500"),
    },
}


def compared(grammar: agent.Grammar) -> list[Compared]:
    """Every field of a grammar's requests beside its documented form."""
    documented = DOCUMENTED[grammar.name]
    return [Compared(name, sent, documented[name]) for name, sent in fields_of(grammar).items()]


def main(names: list[str]) -> int:
    wrong = 0
    for grammar in agent.GRAMMARS.values():
        if names and grammar.name not in names:
            continue
        fields = compared(grammar)
        print(grammar.name)
        print("\n".join(map(str, fields)))
        same = sum(item.same for item in fields)
        unsaid = sum(item.documented.value is None for item in fields)
        lost = [item.field for item in fields if not item.holds]
        wrong += len(lost)
        print(
            f"  {same} the same, {len(fields) - same - unsaid} otherwise, {unsaid} not documented"
            f"; without a reason: {', '.join(lost) or 'none'}\n"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
