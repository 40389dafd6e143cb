"""Model calls and model seconds of four tasks, with the described tools alone and with the further ones.

    AGENT_WINDOWS_PYTHON=... python3 tests/wine/turns_table.py [TASK ...]

The model sees pixels or knows its steps, and never errs: what is left is what the tools and the program cost. The
seconds follow from the requests: 4.0 a new picture, 1.9 for 9,000 characters that the server has to compute again,
0.017 a token of reply at four characters. A server computes again from the first sign on that differs from the request
before. Exit code 0 if the further tools save at least 35 % of the calls over all tasks.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pixel_model import (
    PLANNERS,
    VOCABULARIES,
    Exchange,
    ModelServer,
    PixelModel,
    Step,
    Task,
    reply_with,
    shared_prefix,
    texts,
    tool_names,
)
from rig import AGENT, Desktop, Target, windows_path

PICTURE_S = 4.0
TEXT_S = 1.9 / 9000  # a character
REPLY_S = 0.017 / 4  # a character
WANTED = 0.35  # of the calls, that are to be saved
NEW_TEXT_MOST = 1600  # characters that change every turn, in the median of the Notepad task

FIRST = Task("milk, bread and eggs", r"C:\the shopping list.txt")
SECOND = Task("call Zoe at four", r"C:\the other reminder.txt")
FIELD_TEXT = "Ada Lovelace, London"
DESCRIBED = ("--described",)


@dataclass(frozen=True)
class LongStep(Step):
    """A step that only the further tools do in one."""

    submit: bool = True
    clear: bool = True


FURTHER = {
    "open": [("open_app", {"name": "text", "reasoning": "why"})],
    "enter": [("type_text_input", {"text": "text", "submit": "submit", "reasoning": "why"})],
    "fill": [
        (
            "type_text_input",
            {
                "text": "text",
                "element_name": "target",
                "position": "position",
                "clear": "clear",
                "submit": "submit",
                "reasoning": "why",
            },
        )
    ],
}


class Mind(PixelModel):
    """The model that sees pixels; where further tools are offered it uses them, and names the checks."""

    check = "The title of the window in front shows the file's name."

    def __init__(self, task: Task = FIRST) -> None:
        super().__init__(task)
        VOCABULARIES["click_screen_element"].calls.update(FURTHER)
        self.offered = frozenset[str]()
        self.asked = ""

    def planner_reply(self, body: dict[str, Any]) -> dict[str, Any]:
        reply = super().planner_reply(body)
        function = reply["tool_calls"][0]["function"]
        if function["name"] == PLANNERS[0] and '"done_when"' in json.dumps(body["tools"]):
            values = {**json.loads(function["arguments"]), "done_when": [self.check]}
            return reply_with(PLANNERS[0], values)
        return reply

    def executor_reply(self, body: dict[str, Any]) -> tuple[Step, dict[str, Any]]:
        self.offered = frozenset(tool_names(body))
        self.asked = " ".join(texts(body["messages"][-1]))
        return super().executor_reply(body)

    def patient(self, step: Step) -> Step:
        if "open_app" not in self.offered:
            return super().patient(step)
        if step.target == "Start button":
            return LongStep("open", text="notepad", why="Notepad is not open.")
        if step.target == "File name field":
            return LongStep("enter", step.target, text=step.text, why=step.why)
        return super().patient(step)


class TwoFiles(Mind):
    """Notepad twice: once the first file is saved, Ctrl+N begins the second one."""

    def patient(self, step: Step) -> Step:
        if step.action == "done" and self.task == FIRST:
            self.task = SECOND
            return Step("key", key="ctrl+n", why="The first file is saved; a new one begins.")
        return super().patient(step)


class OpenProgram(Mind):
    """A program by its name, which is there when the window in front has its title."""

    check = "The window in front is WineMine."

    def patient(self, step: Step) -> Step:
        if 'WINDOW: "WineMine"' in self.asked:
            return Step("done", why=EVIDENCE.format("the window WineMine stands in front"))
        if "open_app" in self.offered:
            return LongStep("open", text="winemine", why="WineMine is not open.")
        if step.text == "notepad":
            step = replace(step, text="winemine")
        return super().patient(step)

    def reply_to(self, kind: str, body: dict[str, Any]) -> tuple[Step, dict[str, Any]]:
        if kind != "verification":
            return super().reply_to(kind, body)
        asked = " ".join(text for message in body["messages"] for text in texts(message))
        there = 'in front is "WineMine"' in asked
        return said(f"{'YES' if there else 'NO'}: the window in front")


class FillField(Mind):
    """A field whose text is replaced; it is in the middle of the left half of its window."""

    check = "The field holds the new text."

    def __init__(self, target: Target) -> None:
        super().__init__()
        left, top, right, bottom = target.edit
        self.target = target
        self.place = ((left + right) * 500 // 1920, (top + bottom) * 500 // 1080)
        self.left: list[Step] = []

    def steps(self) -> list[Step]:
        """What the field takes, with the further tools in one."""
        if "open_app" in self.offered:
            return [
                LongStep("fill", "Text field", self.place, FIELD_TEXT, why="The text is replaced.")
            ]
        return [
            Step("click", "Text field", self.place, why="The field gets the keyboard."),
            Step("key", key="ctrl+a", why="All of the old text is selected."),
            Step("type", "Text field", text=FIELD_TEXT, why="The new text replaces it."),
            Step("key", key="enter", why="Enter ends the line."),
        ]

    def patient(self, step: Step) -> Step:
        if not self.left and not field_is_filled(self.target):
            self.left = self.steps()
        if self.left:
            return self.left.pop(0)
        return Step("done", why=EVIDENCE.format("the field holds the new text"))

    def reply_to(self, kind: str, body: dict[str, Any]) -> tuple[Step, dict[str, Any]]:
        if kind != "verification":
            return super().reply_to(kind, body)
        return said("YES: it does" if field_is_filled(self.target) else "NO: it does not")


EVIDENCE = "The screenshot proves it: {}, nothing else has changed, and no question or dialog is open any more."


def said(text: str) -> tuple[Step, dict[str, Any]]:
    return Step("look"), {"role": "assistant", "content": text}


def field_is_filled(target: Target) -> bool:
    return target.text().split("\r\n")[0] == FIELD_TEXT and "old" not in target.text()


class Job(NamedTuple):
    """A task with what prepares the desktop for it; `begin` gives the mind and whether the task is done."""

    text: str
    begin: Callable[[Desktop], tuple[Mind, Callable[[], bool]]]


def wrote(desktop: Desktop, *tasks: Task) -> Callable[[], bool]:
    def done() -> bool:
        paths = [desktop.file(task.path) for task in tasks]
        held = [path.read_bytes() if path.exists() else b"" for path in paths]
        return held == [task.file_bytes for task in tasks]

    return done


def begin_notepad(desktop: Desktop) -> tuple[Mind, Callable[[], bool]]:
    return Mind(FIRST), wrote(desktop, FIRST)


def begin_two_files(desktop: Desktop) -> tuple[Mind, Callable[[], bool]]:
    return TwoFiles(FIRST), wrote(desktop, FIRST, SECOND)


def begin_program(desktop: Desktop) -> tuple[Mind, Callable[[], bool]]:
    mind = OpenProgram()
    return mind, lambda: 'WINDOW: "WineMine"' in mind.asked


def begin_field(desktop: Desktop) -> tuple[Mind, Callable[[], bool]]:
    target = Target(desktop, "--at", "300,200", "--size", "900,500")
    target.command("focus log")
    mind = FillField(target)
    return mind, lambda: field_is_filled(target)


JOBS = {
    "notepad": Job(
        f"Open Notepad, write the line {FIRST.text!r} and save it as {FIRST.path}", begin_notepad
    ),
    "two files": Job(
        f'Write {FIRST.text!r} in Notepad and save it as "{FIRST.path}", then write {SECOND.text!r}'
        f' into a new file and save that as "{SECOND.path}"',
        begin_two_files,
    ),
    "program": Job("Open WineMine", begin_program),
    "field": Job(
        f"Replace the text of the field in the window Target by {FIELD_TEXT!r} and press Enter",
        begin_field,
    ),
}


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    calls: int
    acting: int  # calls that plan or act, without those that judge
    seconds: float  # of the model, as the requests say
    new_text: float  # characters of an executor's request behind what it shares with the one before


def flat(body: dict[str, Any]) -> Iterator[str]:
    """A request in the order in which the server reads it; a picture stands as its hash."""
    messages = body["messages"]
    yield from (text for message in messages[:1] for text in texts(message))
    yield json.dumps(body.get("tools") or [])
    for message in messages[1:]:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for part in parts:
            yield part["text"] if part["type"] == "text" else part["image_url"]["url"]
        yield json.dumps(message.get("tool_calls") or "")


IMAGE = re.compile(r"\[\d+ bytes, sha256 \w+\]")


def cost_of(exchanges: list[Exchange]) -> Cost:
    """The calls and the model's seconds of a run, for a server that keeps the request before."""
    seconds = 0.0
    before = ""
    of_executor: list[str] = []
    new_text = []
    for exchange in exchanges:
        request = "\n".join(flat(exchange.body))
        new = request[shared_prefix(before, request) :]
        seconds += PICTURE_S * len(IMAGE.findall(new)) + TEXT_S * len(IMAGE.sub("", new))
        seconds += REPLY_S * len(json.dumps(exchange.reply, ensure_ascii=False))
        before = request
        if exchange.kind == "executor":
            if of_executor:
                shared = shared_prefix(of_executor[-1], request)
                new_text.append(len(IMAGE.sub("", request[shared:])))
            of_executor.append(request)
    kinds = [exchange.kind for exchange in exchanges]
    acting = kinds.count("planner") + kinds.count("executor")
    return Cost(len(exchanges), acting, seconds, statistics.median(new_text or [0]))


def run(job: Job, *options: str) -> Cost:
    """A run of the program on a fresh desktop; AssertionError unless its task is really done."""
    with Desktop() as desktop:
        mind, done = job.begin(desktop)
        with ModelServer(mind) as server:
            code, output = desktop.run(
                windows_path(AGENT),
                "--endpoint",
                server.url + "/chat/completions",
                "--confirm",
                "never",
                *options,
                stdin=job.text + "\n",
                timeout=120,
            )
            if code or not done():
                steps = [f"{e.number} {e.kind} {e.step}" for e in mind.exchanges]
                raise AssertionError("\n".join([f"exit code {code}", output, *steps]))
    return cost_of(mind.exchanges)


def main(names: list[str]) -> int:
    before_all = after_all = 0
    fits = True
    print("task       calls         that act      model seconds    new text of a turn")
    for name in names or JOBS:
        before = run(JOBS[name], *DESCRIBED)
        after = run(JOBS[name])
        before_all += before.calls
        after_all += after.calls
        print(
            f"{name:10} {before.calls:2} -> {after.calls:2} {1 - after.calls / before.calls:4.0%}"
            f"  {before.acting:2} -> {after.acting:2} {1 - after.acting / before.acting:4.0%}"
            f"  {before.seconds:5.1f} -> {after.seconds:4.1f} s"
            f"  {before.new_text:5.0f} -> {after.new_text:4.0f} characters",
            flush=True,
        )
        if name == "notepad":
            fits = max(before.new_text, after.new_text) <= NEW_TEXT_MOST
    saved = 1 - after_all / before_all
    print(f"all: {before_all} -> {after_all} calls, {saved:.0%} fewer (wanted: {WANTED:.0%})")
    print(f"new text of a Notepad turn at most {NEW_TEXT_MOST} characters: {fits}")
    return 0 if fits and saved >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
