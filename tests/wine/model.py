"""Model servers for runs on the real desktop: one that follows a script, and one that writes and saves in Notepad.

They speak LM Studio's API.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.scripted import PROOF, call, role_of, text
from tests.servers import Answering
from tests.wine.rig import Desktop

Json = dict[str, Any]
Message = dict[str, Any]
MODEL = {
    "id": "qwen3-vl-4b-instruct",
    "type": "vlm",
    "arch": "qwen3vl",
    "state": "loaded",
    "max_context_length": 262144,
    "loaded_context_length": 16384,
    "capabilities": ["tool_use"],
}  # as LM Studio lists it
WAIT = call("press_keyboard_key", key="shift")  # which does nothing by itself
# For a run whose way is gone again: what a busy machine has not yet painted would be compared with.
PAINTED = "--set", "turn_delay=2"
PATIENCE = 8  # pictures without the window that an act should have brought up


class Server(Answering):
    """`reply` says a message, one request at a time; `requests` came, `errors` those that it could not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Json] = []
        self.errors: list[str] = []
        self.lock = threading.Lock()

    def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        if not body:
            return 200, json.dumps({"data": [MODEL]}).encode()
        with self.lock:
            request = json.loads(body)
            self.requests.append(request)
            try:
                reply = self.reply(request)
            except Exception as error:  # the test has to hear of it
                self.errors.append(repr(error))
                return 500, b"{}"
        finish = "tool_calls" if reply.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 3000, "completion_tokens": 30}
        choices = [{"message": reply, "finish_reason": finish}]
        answer = {"model": MODEL["id"], "choices": choices, "usage": usage}
        return 200, json.dumps(answer).encode()

    @property
    def roles(self) -> list[str]:
        return list(map(self.role, self.requests))

    def role(self, request: Json) -> str:
        """planner, executor, or verifier for all who are offered no tool."""
        return role_of(request) if request.get("tools") else "verifier"

    def reply(self, request: Json) -> Message:
        """A plan, or that all is so; `act` says the executor's."""
        role = self.role(request)
        if role == "verifier":
            return text("YES: it is." if self.is_done() else "NO: it is not.")
        if role == "planner":
            return call("update_execution_plan", instructions="Go on.", reasoning="-")
        return self.act()

    def is_done(self) -> bool:
        """What the verifier says."""
        return True

    def act(self) -> Message:
        raise NotImplementedError


class Scripted(Server):
    """These calls one after the other, then the report.

    `before(number)` runs before the executor's reply of that number, from 1, is sent.
    """

    def __init__(
        self, calls: Iterable[Message], before: Callable[[int], None] = lambda number: None
    ) -> None:
        super().__init__()
        self.calls, self.before, self.asked = list(calls), before, 0

    def act(self) -> Message:
        self.asked += 1
        self.before(self.asked)
        return self.calls.pop(0) if self.calls else call("report_mission_complete", evidence=PROOF)


class Task(NamedTuple):
    text: str  # what cp1252 has, which is what Notepad writes
    path: str

    @property
    def file_bytes(self) -> bytes:
        return self.text.encode("cp1252")

    @property
    def words(self) -> str:
        return f'Open Notepad, write the line "{self.text}" and save it with Ctrl+S as {self.path}'


def key(name: str) -> Message:
    return call("press_keyboard_key", key=name)


def click(name: str, *position: int) -> Message:
    return call("click_screen_element", element_name=name, position=position)


class Writer(Server):
    """Does the task, going on by the journal where acts were done without it; each when its window is in front.

    A `quick` one uses the tools that save turns.
    """

    def __init__(self, desktop: Desktop, task: Task, quick: bool = False) -> None:
        super().__init__()
        self.desktop, self.task, self.waits, self.again = desktop, task, 0, 0
        # At 1920x1080, with the desktop's own fonts.
        opens = [
            ("", click("Start button", 15, 991)),
            ("", click("Run...", 16, 973)),
            ("Run", call("type_text_input", text="notepad")),
            ("Run", key("enter")),
        ]
        writes = [
            ("Notepad", call("type_text_input", text=task.text)),
            ("Notepad", key("ctrl+s")),
            ("Save As", call("type_text_input", text=task.path, submit=quick)),
        ]
        self.steps = [("", call("open_app", name="notepad"))] if quick else opens
        self.steps += writes if quick else [*writes, ("Save As", key("enter"))]

    def is_done(self) -> bool:
        file = self.desktop.file(self.task.path)
        return file.exists() and file.read_bytes() == self.task.file_bytes

    def act(self) -> Message:
        done, counts, title = 0, True, ""
        for entry in self.desktop.journal():
            if entry["kind"] == "look":
                title = entry["title"] or ""
            elif entry["kind"] == "intent":
                counts = entry["args"].get("key") != "shift"
                done += counts
            elif entry["kind"] == "result":
                done -= counts and bool(entry["refused"])
        place = done - self.again
        if place >= len(self.steps):
            if "Notepad" in title:
                return call("report_mission_complete", evidence=PROOF)
            wanted, said = "Error", key("alt+y")  # to the question whether to replace the file
        else:
            wanted, said = self.steps[place]
        if title.endswith(wanted) and (wanted or not title):
            self.waits = 0
            return said
        self.waits += 1
        if self.waits == PATIENCE and place:  # what was cut off in the act before
            self.again, self.waits = self.again + 1, 0
        return WAIT
