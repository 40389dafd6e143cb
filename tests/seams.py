"""Where tests meet the program beside `main()`, a scripted server and a simulated Windows: whoever writes a room anew
puts the new way here, and leaves the tests as they are."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.fakes import VirtualClock

# -- What main() meets: its desktop and clock, Windows, the person, the terminal


@contextlib.contextmanager
def desktop_of_main(make: Callable[[Any], Any] | None = None) -> Iterator[list[Any]]:
    """What main() opens as its desktop: `make(clock)`, or what it would; gives those that it opened."""
    opened: list[Any] = []
    opening = agent.open_desktop

    def open_desktop(options: Any, clock: Any) -> Any:
        opened.append(make(clock) if make else opening(options, clock))
        return opened[-1]

    with mock.patch.object(agent, "open_desktop", open_desktop):
        yield opened


def clock_of_main(make: Callable[[agent.Stop], Any] | VirtualClock = VirtualClock) -> Any:
    """The clock that main() uses: this one, or made for its stop; a virtual one if none is given."""

    def this(stop: agent.Stop) -> Any:
        vars(make)["stop"] = stop
        return make

    return mock.patch.object(agent, "SystemClock", this if isinstance(make, VirtualClock) else make)


def little_patience(seconds: float = 0.05) -> Any:
    """How long the program waits for what may hang for ever: a drive, a shell, another program's text."""
    within = agent.taken_within
    return mock.patch.object(agent, "taken_within", lambda _, *items: within(seconds, *items))


def windows_of_main(world: Any) -> Any:
    """The Windows that main() finds: a FakeWin32, or one of fake controls."""
    return mock.patch.object(agent, "load_win32", lambda *_: world.api)


def person_there(there: bool = True) -> Any:
    """Whether somebody sits at the console, which Windows asks and a test does not have."""
    return mock.patch.object(agent, "_person_is_there", lambda: there)


def person_says(answer: Callable[[Any, str], str]) -> Any:
    """What the person types at the console where `answer(terminal, question)` is asked."""
    return mock.patch.object(agent.Terminal, "ask", answer)


def platform(name: str) -> Any:
    """The system that the program finds itself on."""
    return mock.patch.object(sys, "platform", name)


def terminal_columns(columns: int) -> Any:
    """How wide the terminal is."""
    size = os.terminal_size((columns, 24))
    return mock.patch.object(shutil, "get_terminal_size", lambda *_: size)


# -- A run's parts, wired as main() does it


def make_engine(
    config: Any,
    profile: Any,
    desktop: Any,
    server: Any,
    model: Any,
    clock: Any,
    stop: agent.Stop,
    say: Callable[[str], None] = lambda line: None,
    old: Path | None = None,
) -> Any:
    """The engine of a run, without anybody who looks on; its logger is to be closed."""
    actuator = agent.Actuator(desktop, config, clock, stop)
    logger = agent.ExecutionLogger(config, old=old)
    logger.listeners.append(
        lambda event: say(event.text) if getattr(event, "level", 2) < 2 else None
    )
    eyes = agent.Eyes(actuator, logger)
    session = agent.Session(
        config, model, server, logger.say, profile=profile, logger=logger, clock=clock
    )
    grammar = agent.chosen_grammar(config, profile, model)
    return agent.Run(config, profile, eyes, session, actuator, logger, clock, grammar)


# -- Windows' side: keys, pictures, tools

VK_MAP = agent.VK_MAP  # the keys that a model may name, with their virtual-key codes


def act(name: str, /, **arguments: Any) -> agent.Act:
    """What a model means with this tool, called by the program's own name for it."""
    return agent.Vocabulary({name: name}).parse(agent.ToolCall(name, arguments))


# Made once: a mock takes as long as what it stands for here.
NO_CONTROLS = mock.Mock(knows_focus=False, **{"one.return_value": None})


def steps_of(whole: agent.Act) -> list[agent.Act]:
    """The acts that one takes where Windows is asked for no control: most themselves alone."""
    area = agent.Rect(0, 0, 640, 360)
    frame = agent.Frame(1, 1, 1, b"", b"", area, area, 0.0)
    return list(agent.Typing(NO_CONTROLS, whole, frame, []).steps())


def chord(text: str) -> tuple[str, ...]:
    """The keys that a model presses with this text; raises agent.ToolError for none."""
    return tuple(str(act("press_key", key=text).args["key"]).split("+"))


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks of a PNG, each with its name, as the standard lays them out."""
    at = 8
    while at < len(png):
        length, name = struct.unpack_from(">I4s", png, at)
        yield name, png[at + 8 : at + 8 + length]
        at += 12 + length


def record(kind: str, **fields: Any) -> Any:
    """A line of the journal as it is read back."""
    read = agent.from_json({"kind": kind, **fields})
    assert vars(read).keys() >= fields.keys(), fields
    return read


def check_of_model(config: agent.Config, profile: str, server: Any) -> dict[str, str]:
    """What --check finds of a server's model, each by its name."""
    found = agent.check_model(config, agent.PROFILES[profile], server)
    return {one.what: one.text for one in found if not isinstance(one, agent.Phase)}


def marked_pixels(
    picture: tuple[bytes, int, int], turns: Sequence[Any], boxes: Sequence[Any]
) -> bytes:
    """A picture (BGRX, width, height) with the marks of a story's turns, latest first, and boxes."""
    pixels, width, height = picture
    area = agent.Rect(0, 0, width, height)
    frame = agent.Frame(1, width, height, pixels, pixels, area, area, 0.0)
    return agent.annotate(frame, turns[:4], boxes, agent.marks_of("{}"))


def rgb_of(pixels: bytes) -> bytes:
    """Pixels of a screen as the three bytes that a PNG has of each."""
    rgb = bytearray(len(pixels) // 4 * 3)
    rgb[0::3], rgb[1::3], rgb[2::3] = pixels[2::4], pixels[1::4], pixels[0::4]
    return bytes(rgb)


def rgb_picture(png: bytes) -> tuple[bytes, int, int]:
    """The pixels of a picture as three bytes each, its width and its height."""
    pixels, *size = agent.png_to_bgrx(png)
    return rgb_of(pixels), *size


def chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


# -- The person at the console


def asked_for(question: str, switch: str) -> str:
    """What the person is asked, with the names of the risks behind a colon."""
    risks = [entry.partition(" in ")[0] for entry in switch.split("; ")]
    return f"{question}: {', '.join(risks)}"


class Keyboard:
    """A console's standard input, at which a test types."""

    def __init__(self) -> None:
        self._lines = queue.SimpleQueue[str]()
        self._asked = threading.Semaphore(0)  # by the program, for one more line

    def isatty(self) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        while True:
            self._asked.release()
            line = self._lines.get()
            if not line:  # Ctrl+D
                return
            yield line

    def type(self, line: str) -> None:
        """Types a line and Enter; the program has read it then."""
        self._lines.put(line + "\n")
        self._asked.acquire()
        self._asked.acquire()
        self._asked.release()

    def end(self) -> None:
        self._lines.put("")


def printed(terminal: agent.Terminal) -> bool:
    """Whether all that was said is printed in good time."""
    done = terminal.lines.all_tasks_done
    with done:
        return done.wait_for(lambda: not terminal.lines.unfinished_tasks, 60)


Types = Callable[[str], str | None]  # what a person types to what stands on the screen


class PersonsClock(VirtualClock):
    """With each sleep the person types what `types` says to what stands on the screen by then, if anything."""

    def __init__(self, stop: agent.Stop, keyboard: Keyboard, types: Types) -> None:
        super().__init__(stop)
        self.keyboard, self.types = keyboard, types
        self.terminal: agent.Terminal | None = None  # the one that asks

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        assert len(self.sleeps) < 100_000, "what the person waits for never comes"
        # The minutes of a question do not pass before it is printed to its end, and nobody types before.
        assert self.terminal is None or printed(self.terminal)
        line = self.types(sys.stdout.getvalue())  # type: ignore[attr-defined]
        if line is not None:
            self.keyboard.type(line)


@contextlib.contextmanager
def person_at_main(types: Types) -> Iterator[Keyboard]:
    """A person sits at main()'s console, in virtual time; to be given as its standard input."""
    keyboard = Keyboard()

    def ask(terminal: agent.Terminal, *words: Any) -> str:
        if isinstance(terminal.clock, PersonsClock):
            terminal.clock.terminal = terminal
        return asks(terminal, *words)

    asks = agent.Terminal.ask
    with (
        person_there(),
        clock_of_main(lambda stop: PersonsClock(stop, keyboard, types)),
        person_says(ask),
    ):
        yield keyboard


@contextlib.contextmanager
def tool_for_a_while(name: str, takes: str, hand: Callable[[Any, Any], None]) -> Any:
    """A new tool by the two rows that it takes: what it is, and what mouse and keyboard do."""
    tool = agent.TOOLS["click"]._replace(
        name=name, takes=dict.fromkeys(takes.split(), ""), done="Done"
    )
    with mock.patch.dict(agent.TOOLS, {name: tool}), mock.patch.dict(agent.HANDS, {name: hand}):
        yield
