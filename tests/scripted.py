"""A whole engine around a scripted model and a plain desktop, in virtual time: the loops are tested with it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import unittest
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import agent
from tests.fakes import VirtualClock
from tests.seams import asked_for, make_engine, record

Message = dict[str, Any]
PICTURE_TOKENS = 1536 * 864 // 1024


class PlainDesktop:
    """A grey screen with one square that moves to another place with each input, unless it is `dead`.

    `control_source` knows its controls, of which there are none.
    """

    def __init__(self, clock: agent.Clock) -> None:
        self.clock = clock
        self.dead = False
        self.inputs: list[tuple[Any, ...]] = []
        self.number = 0
        self.place = agent.Point(0, 0)
        self.title = "Plain"
        self.control_source = agent.KnownControls()
        self.copied: int | None = None

    def screen(self) -> agent.Rect:
        return agent.Rect(0, 0, 64, 36)

    def monitor_at(self, point: agent.Point) -> agent.Rect:
        return self.screen() if self.screen().contains(point) else agent.Rect(0, 0, 0, 0)

    def capture(self, area: agent.Rect, width: int, height: int) -> agent.Frame:
        self.number += 1
        pixels = self.glance(area, width, height)
        rest = (self.screen(), self.clock.now(), self.foreground())
        return agent.Frame(self.number, width, height, pixels, pixels, area, *rest)

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        pixels = bytearray(b"\x80\x80\x80\x00" * (width * height))
        spot = 0 if self.dead else len(self.inputs) * 80 % (width * height)
        pixels[spot * 4 : spot * 4 + 64] = b"\xff" * len(pixels[spot * 4 : spot * 4 + 64])
        pixels[:4] = b"\x01\x02\x03\x00"
        return bytes(pixels)

    def cursor(self) -> agent.Point:
        return self.place

    def foreground(self) -> agent.Window | None:
        return agent.Window(1, self.title, "notepad.exe", self.screen())

    def window_at(self, point: agent.Point) -> agent.Window | None:
        return self.foreground()

    def window(self, handle: int) -> agent.Window | None:
        return next((window for window in self.windows() if window.handle == handle), None)

    def windows(self) -> list[agent.Window]:
        return [window for window in [self.foreground()] if window]

    def programs(self) -> list[agent.Program]:
        return [agent.Program("Plain", "plain.lnk", ("plain.exe",))]

    def clipboard_length(self) -> int | None:
        return self.copied

    def idle_s(self) -> float:
        return math.inf

    def used_by_hand(self) -> bool:
        return False

    def held_keys(self) -> list[str]:
        return []

    def double_click_ms(self) -> int:
        return 500

    def move(self, point: agent.Point) -> None:
        self.place = point
        self.inputs.append(("move", point.x, point.y))

    def button(self, name: str, down: bool) -> None:
        self.inputs.append(("button", name, down))

    def wheel(self, units: int, horizontal: bool = False) -> None:
        self.inputs.append(("wheel", units, horizontal))

    def key(self, name: str, down: bool) -> None:
        self.inputs.append(("key", name, down))

    def text(self, text: str) -> None:
        self.inputs.append(("text", text))

    def types(self, character: str, code: int) -> bool:
        return True

    def start_program(self, program: agent.Program) -> None:
        self.inputs.append(("start", program.name))

    def bring_to_front(self, window: agent.Window) -> None:
        self.inputs.append(("front", window.title))


class ScriptedServer:
    """Answers each request with what `decide(request)` gives: a message, or an exception to raise."""

    deeds = True  # whether it says of each task that it wants something done

    def __init__(self, decide: Callable[[dict[str, Any]], Message]) -> None:
        self.decide = decide
        self.requests: list[dict[str, Any]] = []
        self.roles: list[str] = []

    def complete(self, body: bytes) -> agent.Reply:
        request = json.loads(body)
        usage = agent.Usage(100, 10, None)
        if self.deeds and " DEED" in str(request["messages"]):  # which no script has to know
            return agent.Reply(text("DEED"), "stop", usage, "scripted", 0.1)
        self.requests.append(request)
        self.roles.append(role_of(request))
        return agent.Reply(self.decide(request), "stop", usage, "scripted", 0.1)


def role_of(request: dict[str, Any]) -> str:
    """planner, executor, verifier or examiner, told by the tools and the prompt of a request."""
    names = {item["function"]["name"] for item in request.get("tools", [])}
    if names & {"update_execution_plan", "spawn_operator"}:
        return "planner"
    for name in ("verifier", "examiner"):
        if request["messages"][0]["content"] == agent.PROFILES["planner"].roles[name].prompt:
            return name
    return "executor"


def user_text(request: dict[str, Any]) -> str:
    """The text of a request's user message, before and behind its image."""
    content = next(m["content"] for m in request["messages"] if m["role"] == "user")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def server_reads(request: dict[str, Any]) -> str:
    """What a server reads of a request, in its order; a picture is as long as a text of as many tokens."""
    read = json.dumps(request.get("tools"))
    for message in request["messages"]:
        content = message["content"]
        for part in [{"text": content}] if isinstance(content, str) else content:
            url = part.get("image_url", {}).get("url", "")
            drawn = hashlib.md5(url.encode()).hexdigest() * (PICTURE_TOKENS * 4 // 32)
            read += drawn if url else part["text"]
        read += json.dumps({name: value for name, value in message.items() if name != "content"})
    return read


def reused(before: dict[str, Any], after: dict[str, Any]) -> float:
    """The share of a request that stands, from its start, in the one before, too."""
    read = server_reads(after)
    return len(os.path.commonprefix([read, server_reads(before)])) / len(read)


def call(name: str, /, **arguments: Any) -> Message:
    """An assistant message with one native tool call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }


def in_words(name: str, /, **arguments: Any) -> str:
    """A call as a model writes it into its text, where its server reads none."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def text(content: str) -> Message:
    return {"role": "assistant", "content": content}


def qwen(action: str, sentence: str = "Do it", **given: Any) -> Message:
    """A reply as Qwen3-VL writes it."""
    called = {"name": "computer_use", "arguments": {"action": action, **given}}
    return text(f"Action: {sentence}\n<tool_call>\n{json.dumps(called)}\n</tool_call>")


PLAN = call("update_execution_plan", instructions="Click the button.", reasoning="first step")
PROOF = "The button is pressed, the window shows the result and the title says that everything was saved as it should be."


class Trial:
    """A profile's run against a scripted server and a simulated desktop: what goes in, what comes out.

    The one place of the tests that says of what an engine consists.
    """

    def __init__(self, engine: Any) -> None:
        self.engine, self.state = engine, engine.progress
        self.config, self.clock = engine.config, engine.clock
        self.stop = engine.actuator.stop
        self.folder = engine.logger.folder

    @property
    def profile(self) -> agent.Profile:
        return self.engine.profile

    @profile.setter
    def profile(self, profile: agent.Profile) -> None:
        self.engine.profile = self.engine.session.profile = profile
        self.engine.__post_init__()

    @property
    def desktop(self) -> Any:
        return self.engine.eyes.desktop

    @desktop.setter
    def desktop(self, desktop: Any) -> None:
        self.engine.eyes.desktop = self.engine.actuator.desktop = desktop

    @property
    def server(self) -> Any:
        return self.engine.session.server

    @server.setter
    def server(self, server: Any) -> None:
        self.engine.session.server = server

    @property
    def hidden(self) -> agent.Secrets:
        """What may be typed, and is shown nowhere."""
        return self.engine.actuator.secrets

    @hidden.setter
    def hidden(self, secrets: agent.Secrets) -> None:
        self.engine.actuator.secrets = secrets
        self.engine.logger.hide = secrets.hide

    def choose(self, model: agent.ModelInfo) -> None:
        """The model that the server has."""
        self.engine.session.model = model

    def ask(self, confirm: Callable[[str], bool]) -> None:
        """Who answers what the program asks the person."""

        def asked(question: str, switch: str) -> bool:
            return confirm(asked_for(question, switch))

        self.engine.actuator.person.allows = asked

    def hear(self, *hints: str) -> None:
        """What the person said on the page before the next turn."""
        for hint in hints:
            self.engine.session.inbox.hints.put(hint)

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.server.requests

    @property
    def inputs(self) -> list[tuple[Any, ...]]:
        return self.desktop.inputs

    def run(self) -> agent.Outcome:
        return agent.run_agent(self.engine)

    def resume(self) -> None:
        """Brings the run to where the journal of its folder ends."""
        agent.resume(self.engine)

    def look(self, turn: int = 1, *name: str) -> agent.Look:
        self.engine.logger.turn = turn
        return self.engine.eyes.look(*name)

    def zoom(self, point: agent.Point) -> None:
        """The next look shows the part around `point`, closer."""
        self.engine.eyes.zoom(point)

    def blank(self) -> None:
        """A secret is in the window in front from now on."""
        window = self.desktop.foreground()
        assert window
        place = agent.SecretRecord(
            place=1, handle=window.handle, window=window.rect, box=window.rect
        )
        self.engine.eyes.secrets[1] = place

    def perform(self, act: agent.Act, look: agent.Look, turn: int = 1) -> agent.Deed:
        self.engine.logger.turn = turn
        return agent.touch(self.engine, act, look)

    def write(self, *records: agent.Record) -> None:
        """Puts lines into the journal."""
        for line in records:
            self.engine.logger.tell(line)

    def listen(self, listener: Callable[[agent.Event], None]) -> None:
        """Tells a listener, as the page is told, what the run does."""
        self.engine.logger.listeners.append(listener)

    def close(self) -> None:
        """Ends the journal, as the end of the program does."""
        self.engine.logger.close()

    def records(self, kind: str = "") -> list[dict[str, Any]]:
        """The lines of one kind, or all, in the run's turns.jsonl."""
        lines = (self.folder / "turns.jsonl").read_text(encoding="utf-8").splitlines()
        return [r for r in map(json.loads, lines) if kind in ("", r["kind"])]


# For scripts that answer no request of a judge: each of these asks once more.
FEWER_REQUESTS = {"last_look": False, "second_opinion": False}


class EngineCase(unittest.TestCase):
    """Builds engines in a temporary folder that goes away with the test."""

    desktop_type: Callable[[agent.Clock], Any] = PlainDesktop
    clock_type: Callable[[agent.Stop], Any] = VirtualClock
    base: Mapping[str, Any] = {}  # settings other than those that ship
    model = agent.ModelInfo("scripted")

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def trial(
        self,
        decide: Callable[[dict[str, Any]], Message],
        profile: str = "planner",
        old: Path | None = None,
        **settings: Any,
    ) -> Trial:
        """A profile's run, ready to begin; with `old` it goes on in the folder of that run."""
        base = {
            "screen_capture_w": 64,
            "screen_capture_h": 64,
            "dump_dir": str(self.folder / "dumps"),
            "closer_look": False,  # most scripts answer no request about a place
            **self.base,
            "verify_completion": agent.PROFILES[profile].loop
            != "chat",  # most scripts end in words
        }
        layers = {"profile": agent.PROFILES[profile].settings, "test": {**base, **settings}}
        config, stop = agent.load_config(layers), agent.Stop()
        clock = self.clock_type(stop)
        desktop, self.lines = self.desktop_type(clock), []
        known, server, say = (
            agent.chosen_profile(profile, config),
            ScriptedServer(decide),
            self.lines.append,
        )
        engine = make_engine(config, known, desktop, server, self.model, clock, stop, say, old)
        # Most scripts claim at once what nothing was done for.
        engine.actuator.person.vouches = lambda question: True
        self.addCleanup(engine.logger.close)
        engine.progress = agent.Progress(task="Press the button")
        return Trial(engine)

    def begin(self, trial: Trial, task: str = "Press") -> None:
        """The record with which a run begins."""
        config = vars(trial.config)
        trial.write(
            record("run", version="1", profile="planner", model="m", task=task, config=config)
        )
