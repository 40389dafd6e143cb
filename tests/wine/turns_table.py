"""Model calls of four tasks by role, with the described tools alone and with the further ones.

    AGENT_WINDOWS_PYTHON=... python3 -m tests.wine.turns_table [TASK ...]

The model sees pixels or knows its steps, and never errs: what is left is what the tools and the program cost. Exit code
0 if the further tools save at least 35 % of the calls over all tasks.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.wine.model import STARTED, Message, PixelModel, Sight, Step, Task
from tests.wine.rig import ALONE, Desktop, Window, target

WANTED = 0.35  # of the calls, that are to be saved

FIRST = Task("milk, bread and eggs", r"C:\the shopping list.txt")
SECOND = Task("call Zoe at four", r"C:\the other reminder.txt")
FIELD_TEXT = "Ada Lovelace, London"


class Mind(PixelModel):
    """The model that sees pixels; where further tools are offered it uses them, and names the checks."""

    check = "The title of the window in front shows the file's name."
    done = True  # as far as it can tell by itself

    def __init__(self, task: Task = FIRST) -> None:
        super().__init__(task, quick=True)

    def planner(self, request: dict[str, Any]) -> Message:
        reply = super().planner(request)
        function = reply["tool_calls"][0]["function"]
        if (
            '"done_when"' in json.dumps(request["tools"])
            and "instructions" in function["arguments"]
        ):
            values = {**json.loads(function["arguments"]), "done_when": [self.check]}
            function["arguments"] = json.dumps(values)
        return reply


class TwoFiles(Mind):
    """Notepad twice: once the first file is saved, Ctrl+N begins the second one."""

    def decide(self, sight: Sight) -> Step:
        step = super().decide(sight)
        if step.action == "done" and self.task == FIRST:
            self.task = SECOND
            self.forget()
            return Step("key", "The first file is saved; a new one begins.", key="ctrl+n")
        return step


class OpenProgram(Mind):
    """A program by its name, which is there when a window comes."""

    check = "The window in front is WineMine."
    done = False

    def next_step(self, sight: Sight, offers_more: bool = False) -> Step:
        started = self.before.why == STARTED or self.before.action == "open"
        self.done = started and bool(sight.windows())
        if self.done:
            return Step("done", EVIDENCE.format("the window WineMine stands in front"))
        step = super().next_step(sight, offers_more)
        return step._replace(text="winemine") if step.text == "notepad" else step

    def verdict(self, sight: Sight) -> str:
        return "YES: it is" if self.done else "NO: it is not"


class FillField(Mind):
    """A field whose text is replaced, in the left half of its window."""

    check = "The field holds the new text."

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window
        x, y = window.place("edit")
        self.place = x, y
        self.left: list[Step] = []

    def is_filled(self) -> bool:
        return self.window.text().split("\r\n")[0] == FIELD_TEXT

    def next_step(self, sight: Sight, offers_more: bool = False) -> Step:
        self.done = self.is_filled()
        if not self.left and not self.done:
            self.left = self.whole() if offers_more else self.parts()
        if self.left:
            return self.left.pop(0)
        return Step("done", EVIDENCE.format("the field holds the new text"))

    def whole(self) -> list[Step]:
        """With the further tools it is one step."""
        more = {"element_name": "Text field", "position": [*self.place]}
        more |= {"clear": True, "submit": True}
        return [Step("type", "The text is replaced.", "Text field", text=FIELD_TEXT, more=more)]

    def parts(self) -> list[Step]:
        return [
            Step("click", "The field gets the keyboard.", "Text field", self.place),
            Step("key", "All of the old text is selected.", key="ctrl+a"),
            Step("type", "The new text replaces it.", text=FIELD_TEXT),
            Step("key", "Enter ends the line.", key="enter"),
        ]

    def verdict(self, sight: Sight) -> str:
        return "YES: it does" if self.is_filled() else "NO: it does not"


EVIDENCE = "The screenshot proves it: {}, nothing else has changed, and no question or dialog is open any more."


class Job(NamedTuple):
    """A task: what `begin` makes on the desktop is the mind, and these files it has to write."""

    text: str
    begin: Callable[[Desktop], Mind]
    files: Sequence[Task] = ()


def begin_field(desktop: Desktop) -> Mind:
    window = target(desktop, (300, 200, 900, 500))
    window.order("focus area")
    return FillField(window)


JOBS = {
    "notepad": Job(
        f"Open Notepad, write the line {FIRST.text!r} and save it as {FIRST.path}",
        lambda desktop: Mind(),
        [FIRST],
    ),
    "two files": Job(
        f'Write {FIRST.text!r} in Notepad and save it as "{FIRST.path}", then write {SECOND.text!r}'
        f' into a new file and save that as "{SECOND.path}"',
        lambda desktop: TwoFiles(),
        [FIRST, SECOND],
    ),
    "program": Job("Open WineMine", lambda desktop: OpenProgram()),
    "field": Job(
        f"Replace the text of the field in the window Target by {FIELD_TEXT!r} and press Enter",
        begin_field,
    ),
}


def run(job: Job, *options: str) -> Counter[str]:
    """The calls of a run on a fresh desktop by role; AssertionError unless its task is really done."""
    with Desktop() as desktop, job.begin(desktop) as mind:
        program = desktop.agent("--endpoint", mind.url, "--confirm", "never", *ALONE, *options)
        program.say(job.text + "\n")
        code, output = program.finish(120)
        paths = [desktop.file(task.path) for task in job.files]
        held = [path.read_bytes() if path.exists() else b"" for path in paths]
        if code or not mind.done or held != [task.file_bytes for task in job.files]:
            raise AssertionError("\n".join([f"exit code {code}", output, *map(str, mind.steps)]))
    return Counter(exchange.role for exchange in mind.exchanges)


def main(names: list[str]) -> int:
    before_all = after_all = 0
    print(f"{'task':10} {'calls':>13} {'planner':>9} {'executor':>10} {'verifier':>9}")
    for name in names or JOBS:
        before, after = run(JOBS[name], "--described"), run(JOBS[name])
        calls = before.total(), after.total()
        before_all, after_all = before_all + calls[0], after_all + calls[1]
        row = f"{name:10} {calls[0]:3} -> {calls[1]:2} {1 - calls[1] / calls[0]:4.0%}"
        for role in ("planner", "executor", "verifier"):
            row += f"   {before[role]:2} -> {after[role]:2}"
        print(row, flush=True)
    saved = 1 - after_all / before_all
    print(f"all: {before_all} -> {after_all} calls, {saved:.0%} fewer (wanted: {WANTED:.0%})")
    return 0 if saved >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
