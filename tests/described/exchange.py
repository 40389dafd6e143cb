"""A run with --described against replies written by hand, in virtual time, on a plain desktop."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import agent
from tests.fakes import VirtualClock
from tests.scripted import EngineCase, Message, PlainDesktop, role_of, text, user_text
from tests.seams import clock_of_main, desktop_of_main, person_there
from tests.servers import ScriptedServer, Step, answer, hang_up, reply

TASK = "Press the button"
# What each request of a run has by its description: its tools with their arguments, words of its texts.
FILE = Path(__file__).with_name("requests.jsonl")


ROWS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def said(content: str, name: str, /, **given: Any) -> Message:
    """A reply with words and one call."""
    function = {"name": name, "arguments": json.dumps(given)}
    tool_calls = [{"id": "1", "type": "function", "function": function}]
    return {"role": "assistant", "content": content, "tool_calls": tool_calls}


def replies_of(run: str) -> list[Message]:
    """What the models of a profile's run say, one after the other (replies.jsonl)."""
    lines = FILE.with_name("replies.jsonl").read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["run"] == run]
    return [
        said(row.get("words", ""), row["tool"], **row["arguments"])
        if "tool" in row
        else text(row["words"])
        for row in rows
    ]


MODELS = {"data": [{"id": "scripted", "type": "vlm", "state": "loaded"}]}


class Model(ScriptedServer):
    """A model server that says one reply after the other; `times` are those of the requests."""

    def __init__(self, replies: Sequence[Message], now: Callable[[], float]) -> None:
        super().__init__(hang_up)
        self.now = now
        self.script = list(replies)
        self.asked: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.times: list[float] = []

    def _step(self) -> Step:
        head, _, body = self.requests[-1].partition(b"\r\n\r\n")
        if head.startswith(b"GET"):
            return answer(200 if b"/api/v0/models" in head else 404, MODELS)
        self.bodies.append(body)
        self.asked.append(json.loads(body))
        self.times.append(self.now())
        finish = [{"message": self.script.pop(0), "finish_reason": "stop"}]
        return answer(200, reply(choices=finish))


class Exchange:
    """What `agent.py --described` asked, did and left: main() with a scripted server and desktop."""

    def __init__(
        self,
        case: EngineCase,
        profile: str,
        replies: Sequence[Message],
        *more: str,
        desktop: Callable[[Any], Any] | None = PlainDesktop,  # None: Windows' own
        clock: VirtualClock | None = None,
    ) -> None:
        time = clock or VirtualClock()

        def clock_of(stop: agent.Stop) -> VirtualClock:
            time.stop = stop
            return time

        dumps = case.folder / "dumps"
        out = io.StringIO()
        with (
            Model(replies, time.now) as model,
            desktop_of_main(desktop) as desktops,
            person_there(False),
            clock_of_main(clock_of),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            settings = ["--set", f"dump_dir={dumps}", "--set", "controls=off"]
            words = [TASK, "--profile", profile, "--described", "--endpoint", model.url]
            self.code = agent.main([*words, *settings, *more])
        self.out = out.getvalue()
        self.desktop = desktops[0]
        self.requests, self.bodies, self.times = model.asked, model.bodies, model.times
        self.roles = [role_of(request) for request in self.requests]
        self.left = len(model.script)
        self.folder = max(dumps.glob("run_*"))
        self.log = (self.folder / "execution_log.txt").read_text("utf-8")
        lines = (self.folder / "turns.jsonl").read_text("utf-8").splitlines()
        self.records = [json.loads(line) for line in lines]

    @property
    def config(self) -> agent.Config:
        """The settings of the run, as its journal has them."""
        return agent.load_config({"journal": self.records[0]["config"]})

    @property
    def outcome(self) -> tuple[str, str]:
        """How it ended: the kind, and in words."""
        (end,) = (record for record in self.records if record["kind"] == "end")
        return end["outcome"], end["text"]

    def system(self, number: int) -> str:
        """The system prompt of a request, the first of which is 1."""
        return str(self.requests[number - 1]["messages"][0]["content"])

    def user(self, number: int) -> str:
        """The text of its user message."""
        return user_text(self.requests[number - 1])

    def parts(self, number: int) -> list[str]:
        """The kinds of the parts of its user message, in their order."""
        content = self.requests[number - 1]["messages"][1]["content"]
        return ["text"] if isinstance(content, str) else [part["type"] for part in content]

    def screenshots(self) -> list[str]:
        """The names of the run's screenshots."""
        return sorted(path.name for path in (self.folder / "screenshots").iterdir())


def has_what_is_described(case: EngineCase, profile: str, run: Exchange) -> None:
    """Holds the requests of a run against their rows in requests.jsonl."""
    for row in ROWS:
        if row["profile"] != profile:
            continue
        number = row["request"]
        for words in row.get("system", []):
            with case.subTest(profile, number=number, words=words):
                case.assertIn(words, run.system(number))
        for words in row.get("user", []):
            with case.subTest(profile, number=number, words=words):
                case.assertIn(words, run.user(number))
        if "tools" in row:
            functions = [item["function"] for item in run.requests[number - 1]["tools"]]
            offered = {f["name"]: f["parameters"]["properties"].keys() for f in functions}
            case.assertEqual(offered.keys(), row["tools"].keys())
            for name, given in row["tools"].items():  # a conversation has more of its own
                same = set(given) == set(offered[name]) if "planner" in run.roles else True
                case.assertTrue(same and set(given) <= set(offered[name]), name)
