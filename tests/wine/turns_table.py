"""Model calls and model seconds of four tasks, with the described tools alone and with the further ones.

    AGENT_WINDOWS_PYTHON=... python3 -m tests.wine.turns_table [TASK ...]

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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.wine.model import Exchange, Message, PixelModel, Sight, Step, Task, texts
from tests.wine.rig import Desktop, Window, target

PICTURE_S = 4.0
TEXT_S = 1.9 / 9000  # a character
REPLY_S = 0.017 / 4  # a character
WANTED = 0.35  # of the calls, that are to be saved
NEW_TEXT_MOST = 1600  # characters that change every turn, in the median of the Notepad task

FIRST = Task("milk, bread and eggs", r"C:\the shopping list.txt")
SECOND = Task("call Zoe at four", r"C:\the other reminder.txt")
FIELD_TEXT = "Ada Lovelace, London"
DESCRIBED = ("--described",)


class Mind(PixelModel):
    """The model that sees pixels; where further tools are offered it uses them, and names the checks."""

    check = "The title of the window in front shows the file's name."
    done = True  # as far as it can tell by itself

    def __init__(self, task: Task = FIRST) -> None:
        super().__init__(task, quick=True)
        self.asked = ""

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

    def reply(self, request: dict[str, Any]) -> Message | str:
        self.asked = "\n".join(texts(request))
        return super().reply(request)


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
    """A program by its name, which is there when the window in front has its title."""

    check = "The window in front is WineMine."
    done = False

    def next_step(self, sight: Sight, offers_more: bool = False) -> Step:
        self.done = 'WINDOW: "WineMine"' in self.asked
        if self.done:
            return Step("done", EVIDENCE.format("the window WineMine stands in front"))
        step = super().next_step(sight, offers_more)
        return step._replace(text="winemine") if step.text == "notepad" else step

    def verdict(self, sight: Sight) -> str:
        return "YES: it is" if 'in front is "WineMine"' in self.asked else "NO: it is not"


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


class Cost(NamedTuple):
    """What one run took."""

    calls: int
    acting: int  # calls that plan or act, without those that judge
    seconds: float  # of the model, as the requests say
    new_text: float  # characters of an executor's request behind what it shares with the one before


def flat(body: dict[str, Any]) -> Iterator[str]:
    """A request in the order in which the server reads it; a picture stands as its hash."""
    first, *others = body["messages"]
    yield first["content"]
    yield json.dumps(body.get("tools") or [])
    for message in others:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for part in parts:
            yield part["text"] if part["type"] == "text" else part["image_url"]["url"]
        yield json.dumps(message.get("tool_calls") or "")


IMAGE = re.compile(r"data:image/png;base64,\w+")


def unshared(before: str, request: str) -> str:
    """What of a request lies behind its beginning that is also the other's."""
    pairs = enumerate(zip(before, request, strict=False))
    same = min(len(before), len(request))
    return request[next((at for at, (old, new) in pairs if old != new), same) :]


def cost_of(exchanges: list[Exchange]) -> Cost:
    """The calls and the model's seconds of a run, for a server that keeps the request before."""
    seconds = 0.0
    before = acted = ""
    new_text = []
    for exchange in exchanges:
        request = "\n".join(flat(exchange.body))
        new = unshared(before, request)
        seconds += PICTURE_S * len(IMAGE.findall(new)) + TEXT_S * len(IMAGE.sub("", new))
        seconds += REPLY_S * len(json.dumps(exchange.reply, ensure_ascii=False))
        before = request
        if exchange.role == "executor":
            if acted:
                new_text.append(len(IMAGE.sub("", unshared(acted, request))))
            acted = request
    roles = [exchange.role for exchange in exchanges]
    acting = len(roles) - roles.count("verifier")
    return Cost(len(roles), acting, seconds, statistics.median(new_text or [0]))


def run(job: Job, *options: str) -> Cost:
    """A run of the program on a fresh desktop; AssertionError unless its task is really done."""
    with Desktop() as desktop, job.begin(desktop) as mind:
        words = "--endpoint", mind.url, "--confirm", "never", *options
        program = desktop.agent(*words)
        program.say(job.text + "\n")
        code, output = program.finish(120)
        paths = [desktop.file(task.path) for task in job.files]
        held = [path.read_bytes() if path.exists() else b"" for path in paths]
        if code or not mind.done or held != [task.file_bytes for task in job.files]:
            raise AssertionError("\n".join([f"exit code {code}", output, *map(str, mind.steps)]))
    return cost_of(mind.exchanges)


def main(names: list[str]) -> int:
    before_all = after_all = 0
    fits = True
    print("task       calls         that act      model seconds    new text of a turn")
    for name in names or JOBS:
        before, after = run(JOBS[name], *DESCRIBED), run(JOBS[name])
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
