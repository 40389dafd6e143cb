"""How much of each prompt the server keeps, by its own counters.

    python -m tests.llama.reuse [NAME ...]          the rows whose names begin so, or all

Long runs on the demo desktop, each of them in front of a fresh server. A row counts the requests
of the role that acts (or the verifier's): the share of all their tokens that was reused, and the
tokens reused and computed a request, on average and in the middle one.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from typing import NamedTuple

import agent
from tests.llama.server import Between, Json, LlamaServer, Program, role_of
from tests.wine.model import Step, spoken


class Scene(NamedTuple):
    """One row: how the program is started, and what its model does."""

    name: str
    profile: str
    turns: int
    still: int = 0  # every so many acts one changes nothing on the screen
    context: int = 16384
    role: str = "executor"
    writes: int = 1000  # lines before it saves, and says that it is done


RUN_S = 1800  # the longest takes 3 minutes alone, and several times that on a busy machine
SCENES = (
    Scene("planner", "planner", 50),
    Scene("planner, every third screen unchanged", "planner", 50, still=3),
    Scene("commander", "commander", 30),
    Scene("story", "story", 30),
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
    unread: int
    code: int
    text: str

    @property
    def share(self) -> float:
        """The part of all the prompts' tokens that was not computed again."""
        return sum(self.reused) / (sum(self.reused) + sum(self.computed))

    def warm(self) -> Row:
        """A short run's figures without the first request, of which nothing can be known yet."""
        return self._replace(reused=self.reused[1:], computed=self.computed[1:])


class LongWriter:
    """The demo's model, but one that has many lines to write into Notes before it saves them."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.acts = self.orders = 0
        self.writing = False

    def __call__(self, request: Json) -> Json:
        message: Json = dict(agent.demo_reply(request))
        role, called = role_of(request), called_by(message)
        if role == "planner" and re.search("_plan$|^spawn", called):
            self.orders += 1
            return {**message, **spoken(self.order(), request)}
        self.writing |= called.startswith("type")
        looks = re.search("^observe|^take_screenshot", called)
        is_over = not self.writing or self.acts >= self.scene.writes
        if role != "executor" or looks or is_over:
            return message
        self.acts += 1
        return self.act(request)

    def order(self) -> Step:
        """The next instructions, other ones each time."""
        first = self.orders * 10 - 9
        text = (
            f"Write the lines {first} to {first + 9} of the list into Notes, one a "
            f"turn. Done when line {first + 9} stands at the end of the text area."
        )
        reason = f"Step {self.orders} of the plan: the lines before {first} stand in Notes."
        return Step("plan", reason, text=text, more={"done_when": [reason]})

    def act(self, request: Json) -> Json:
        """A line is typed, or a key pressed that does nothing."""
        number = self.acts
        step = Step(
            "type",
            f"Line {number} is the next one of the list",
            text=f"{number} is a line of the list. ",
        )
        if self.scene.still and number % self.scene.still == 0:
            step = step._replace(action="key", key="f6")
        if not request.get("tools"):
            value = {"key": step.key} if step.key else {"text": step.text}
            actions = [{"name": step.action, **value}]
            seen = f"Typing line {number - 1} worked, it stands at the end. Notes is open and has the keyboard. "
            seen += f"Next I type line {number} of the list."
            story = {"observation": seen, "bboxes": [], "actions": actions}
            return {"role": "assistant", "content": json.dumps(story)}
        said = (
            f"LAST_ACTION_RESULT: worked, line {number - 1} stands at the end of the text\n"
            "CURRENT_GOAL: write the lines of the list into Notes\n"
            "SUCCESS_CRITERIA: each line stands in the text area with its number\n"
            f"SCREEN_SHOWS: Notes with its text area, {number} lines, the caret after the last\n"
            f"NEXT_STEP: type line {number}, since it is the next one of the list"
        )
        return {**spoken(step, request), "content": said}


def called_by(message: Json) -> str:
    """The name of the tool that a message calls, or of a story's first action."""
    if message.get("tool_calls"):
        return str(message["tool_calls"][0]["function"]["name"])
    found = re.search(r'"actions": \[\{"name": "(\w+)"', message.get("content") or "")
    return found[1] if found else ""


def measure(server: LlamaServer, scene: Scene) -> Row:
    """One scene in front of a server: the figures of the requests that it is about."""
    with Between(server.base, LongWriter(scene)) as between:
        options = "--profile", scene.profile, "--max-steps", str(scene.turns)
        done = Program(between.endpoint, *options).finish(RUN_S)
    wanted = [one for one in between.exchanges if one.role == scene.role and one.status == 200]
    reused, computed = [one.reused for one in wanted], [one.computed for one in wanted]
    archives, unread = len(done.records("archive")), len(done.records("no_call"))
    return Row(reused, computed, archives, unread, done.code, done.text)


def main() -> None:
    """Prints the table."""
    print(f"{'':<38} {'requests':>8} {'share':>6} {'mean':>13} {'middle':>13} {'archives':>8}")
    for scene in SCENES:
        if not scene.name.startswith(tuple(sys.argv[1:]) or ""):
            continue
        with LlamaServer(context=scene.context) as server:
            row = measure(server, scene)
        figures = [
            f"{find(row.reused):.0f} / {find(row.computed):.0f}"
            for find in (statistics.mean, statistics.median)
        ]
        counts = f"{len(row.reused):>8} {row.share:>6.0%}"
        print(
            f"{scene.name:<38} {counts} {figures[0]:>13} {figures[1]:>13} {row.archives:>8}",
            flush=True,
        )
        if row.code not in (0, 1):
            sys.exit(f"{scene.name} ended with {row.code}:\n{row.text[-2000:]}")


if __name__ == "__main__":
    main()
