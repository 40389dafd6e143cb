"""What `agent.py --described` asks, does and leaves: main() with a scripted server, a plain desktop and virtual time."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import agent
from tests.fakes import VirtualClock
from tests.scripted import Message, PlainDesktop, call, role_of, text, user_text
from tests.seams import clock_of_main, desktop_of_main, person_there
from tests.servers import ScriptedServer, Step, answer, hang_up, reply

TASK = "Press the button"
MODELS = {"data": [{"id": "scripted", "type": "vlm", "state": "loaded"}]}


def rows(file: str) -> list[dict[str, Any]]:
    """What the descriptions say of settings (values) and requests, and what models say (replies)."""
    path = Path(__file__).with_name(file)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def said(words: str, name: str, /, **given: Any) -> Message:
    """A reply with words and one call."""
    return {**call(name, **given), "content": words}


def replies_of(profile: str) -> list[Message]:
    return [
        said(row.get("words", ""), row["tool"], **row["arguments"])
        if "tool" in row
        else text(row["words"])
        for row in rows("replies.jsonl")
        if row["run"] == profile
    ]


class Model(ScriptedServer):
    """Says one reply after the other; `times` are those of the requests."""

    def __init__(self, replies: Sequence[Message], now: Callable[[], float]) -> None:
        super().__init__(hang_up)
        self.now, self.script = now, list(replies)
        self.bodies, self.times = list[bytes](), list[float]()

    def _step(self) -> Step:
        head, _, body = self.requests[-1].partition(b"\r\n\r\n")
        if head.startswith(b"GET"):
            return answer(200 if b"/api/v0/models" in head else 404, MODELS)
        self.bodies.append(body)
        self.times.append(self.now())
        message = self.script.pop(0)
        return answer(200, reply(choices=[{"message": message, "finish_reason": "stop"}]))


class Exchange:
    def __init__(self, profile: str, replies: Sequence[Message], *settings: str) -> None:
        time, out = VirtualClock(), io.StringIO()
        temporary = tempfile.TemporaryDirectory()
        atexit.register(temporary.cleanup)
        dumps = Path(temporary.name, "dumps")

        with (
            Model(replies, time.now) as model,
            desktop_of_main(PlainDesktop) as desktops,
            person_there(False),
            clock_of_main(time),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            laid = (f"dump_dir={dumps}", "controls=off", *settings)
            words = [part for setting in laid for part in ("--set", setting)]
            command = [TASK, "--profile", profile, "--described", "--endpoint", model.url]
            agent.main([*command, *words])
        self.inputs = desktops[0].inputs
        self.times, self.left = model.times, len(model.script)
        self.requests = list(map(json.loads, model.bodies))
        self.roles = "".join(role_of(request)[0] for request in self.requests)
        (self.folder,) = dumps.glob("run_*")
        self.log = (self.folder / "execution_log.txt").read_text("utf-8")
        lines = (self.folder / "turns.jsonl").read_text("utf-8").splitlines()
        self.records = [json.loads(line) for line in lines]
        (end,) = (record for record in self.records if record["kind"] == "end")
        self.outcome = end["outcome"], end["text"]

    def system(self, number: int) -> str:
        """The system prompt of a request, the first of which is 1."""
        return str(self.requests[number - 1]["messages"][0]["content"])

    def user(self, number: int) -> str:
        return user_text(self.requests[number - 1])
