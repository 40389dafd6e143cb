"""How much of each prompt the server keeps, by its own counters, for any checkout's agent.py.

    python tests/llama/reuse.py [AGENT_PY] [--only NAME ...] [--slots N]

Long runs on the demo desktop, each of them in front of a fresh server. A row counts the requests
of the role that acts (or the verifier's): the share of all their tokens that was reused, and the
tokens reused and computed a request, on average and in the middle one.

Of a story all but the instructions is new each time: the picture, and the observation, which its
prompt asks for in three short sentences. The built-in model's is one sentence; both are rows.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from between import Between, Exchange, Json, role_of
from program import AGENT, DemoWriter, run
from server import LlamaServer


class Scene(NamedTuple):
    """One row: how the program is started, and what its model does."""

    name: str
    profile: str
    turns: int
    still: int = 0  # every so many acts one changes nothing on the screen
    context: int = 16384
    role: str = "executor"
    writes: int = 1000  # lines before it saves, and says that it is done
    sentences: int = 1  # of an observation


RUN_S = 1800  # the longest takes 3 minutes alone, and several times that on a busy machine
SCENES = (
    Scene("planner", "planner", 50),
    Scene("planner, every third screen unchanged", "planner", 50, still=3),
    Scene("commander", "commander", 30),
    Scene("story", "story", 30),
    Scene("story, three sentences", "story", 30, sentences=3),
    Scene("chat at 16384", "chat", 100),
    Scene("chat at 8192", "chat", 100, context=8192),
    Scene("verifier", "planner", 50, role="verifier", writes=0),
)


class Row(NamedTuple):
    """What one scene cost; `archives` counts how often the program shortened its memory.

    `unread` are the model's calls that it refused to read: a scene with some measures nothing.
    """

    reused: list[int]
    computed: list[int]
    archives: int
    code: int
    text: str
    unread: int = 0

    @property
    def share(self) -> float:
        """The part of all the prompts' tokens that was not computed again."""
        return sum(self.reused) / (sum(self.reused) + sum(self.computed))

    @property
    def computed_mean(self) -> float:
        """Tokens computed for a request."""
        return statistics.mean(self.computed)


class LongWriter:
    """The demo's model, but one that has many lines to write into Notes before it saves them."""

    def __init__(self, demo: DemoWriter, scene: Scene) -> None:
        self.demo = demo
        self.lines = scene.writes
        self.still = scene.still
        self.sentences = scene.sentences
        self.acts = 0
        self.orders = 0
        self.writing = False

    def __call__(self, request: Json) -> Json:
        message = self.demo(request)
        role, called = role_of(request), names_in(message)
        if role == "planner" and re.search("_plan$|^spawn", called):
            self.orders += 1
            return self.order(request, message, called)
        self.writing |= called.startswith("type")
        looks = re.search("^observe|^take_screenshot", called)
        if role != "executor" or looks or not self.writing or self.acts >= self.lines:
            return message
        self.acts += 1
        return self.act(request)

    def order(self, request: Json, message: Json, name: str) -> Json:
        """The next instructions, other ones each time."""
        first = self.orders * 10 - 9
        values = {
            "instructions": f"Write the lines {first} to {first + 9} of the list into Notes, one a "
            f"turn. Done when line {first + 9} stands at the end of the text area.",
        }
        reason = f"Step {self.orders} of the plan: the lines before {first} stand in Notes."
        call = {"name": name, "arguments": json.dumps(filled(request, name, values, reason))}
        return {**message, "tool_calls": [{"id": "call1", "type": "function", "function": call}]}

    def act(self, request: Json) -> Json:
        """A line is typed, or a key pressed that does nothing."""
        number = self.acts
        said = (
            f"LAST_ACTION_RESULT: worked, line {number - 1} stands at the end of the text\n"
            "CURRENT_GOAL: write the lines of the list into Notes\n"
            "SUCCESS_CRITERIA: each line stands in the text area with its number\n"
            f"SCREEN_SHOWS: Notes with its text area, {number} lines, the caret after the last\n"
            f"NEXT_STEP: type line {number}, since it is the next one of the list"
        )
        reason = f"Line {number} is the next one of the list"
        idle = self.still and number % self.still == 0
        values = {"key": "f6"} if idle else {"text": f"{number} is a line of the list. "}
        if not request.get("tools"):
            action = {"name": "key" if idle else "type", **values}
            seen = self.observation(reason)
            return said_only(json.dumps({"observation": seen, "bboxes": [], "actions": [action]}))
        begins = "press_key" if idle else "type"
        name = next(name for name in tools_of(request) if re.match(f"{begins}|press_.*_key", name))
        call = {"name": name, "arguments": json.dumps(filled(request, name, values, reason))}
        tool_call = {"id": f"call{number}", "type": "function", "function": call}
        return {**said_only(said), "tool_calls": [tool_call]}

    def observation(self, reason: str) -> str:
        """What a story's turn saw: the reason alone, as the built-in model, or the whole."""
        if self.sentences == 1:
            return reason
        return (
            f"Typing line {self.acts - 1} worked, it stands at the end. Notes is open and has the "
            f"keyboard. Next I type line {self.acts} of the list."
        )


def said_only(text: str) -> Json:
    """A message without a call."""
    return {"role": "assistant", "content": text}


def names_in(message: Json) -> str:
    """The name of the tool that a message calls, or of a story's first action."""
    calls = message.get("tool_calls")
    if calls:
        return str(calls[0]["function"]["name"])
    found = re.search(r'"actions": \[\{"name": "(\w+)"', message.get("content") or "")
    return found[1] if found else ""


def tools_of(request: Json) -> dict[str, Json]:
    """The properties of each tool of a request."""
    functions = [tool["function"] for tool in request["tools"]]
    return {function["name"]: function["parameters"]["properties"] for function in functions}


def filled(request: Json, name: str, values: dict[str, str], reason: str) -> Json:
    """A tool's arguments: each text gets the value whose name it contains, or the reason.

    The checks of a plan are the reason alone; places, lists of keys and the like are left out.
    """
    arguments: Json = {}
    for key, schema in tools_of(request)[name].items():
        if key == "done_when":
            arguments[key] = [reason]
        elif schema["type"] == "string":
            fitting = [value for word, value in values.items() if word in key]
            arguments[key] = fitting[0] if fitting else reason
    return arguments


def measure(server: LlamaServer, scene: Scene, agent: Path = AGENT) -> Row:
    """One scene in front of a server."""
    options = ["--profile", scene.profile, "--max-steps", str(scene.turns)]
    with (
        DemoWriter(agent) as demo,
        Between(server.base, LongWriter(demo, scene)) as between,
    ):
        done = run(between.endpoint, *options, agent=agent, seconds=RUN_S)
    row = row_of(scene, between.exchanges, done.code, len(done.records("archive")), done.text)
    return row._replace(unread=len(done.records("no_call")))


def row_of(scene: Scene, exchanges: list[Exchange], code: int, archives: int, text: str) -> Row:
    """The figures of the requests that a scene is about."""
    wanted = [one for one in exchanges if one.role == scene.role and one.status == 200]
    reused, computed = [one.reused for one in wanted], [one.computed for one in wanted]
    return Row(reused, computed, archives, code, text)


def line_of(scene: Scene, row: Row) -> str:
    """A row as it is printed."""
    means = f"{statistics.mean(row.reused):.0f} / {row.computed_mean:.0f}"
    middle = f"{statistics.median(row.reused):.0f} / {statistics.median(row.computed):.0f}"
    requests, share = len(row.reused), f"{row.share:.0%}"
    return f"{scene.name:<38} {requests:>8} {share:>6} {means:>13} {middle:>13} {row.archives:>8}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("agent", nargs="?", type=Path, default=AGENT)
    parser.add_argument("--only", nargs="*", default=[], help="the rows whose name begins so")
    parser.add_argument("--slots", type=int, default=1)
    options = parser.parse_args()
    print(f"{'':<38} {'requests':>8} {'share':>6} {'mean':>13} {'middle':>13} {'archives':>8}")
    for scene in SCENES:
        if not options.only or any(scene.name.startswith(name) for name in options.only):
            with LlamaServer("mute", context=scene.context, slots=options.slots) as server:
                row = measure(server, scene, options.agent.resolve())
            print(line_of(scene, row), flush=True)
            if row.code not in (0, 1):
                sys.exit(f"{scene.name} ended with {row.code}:\n{row.text[-2000:]}")


if __name__ == "__main__":
    main()
