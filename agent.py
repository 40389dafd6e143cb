#!/usr/bin/env python3
"""agent.py - a small local vision model carries out a task on your real Windows desktop.

One file, standard library only: copy it onto a Windows 10/11 machine, start LM Studio with a Qwen3-VL model, then

    python agent.py                 asks for a task in plain words and carries it out
    python agent.py "TASK"          the same, with the task as an argument
    python agent.py --demo          a whole run on any OS, against a drawn desktop and a built-in model server

The file is divided into rooms; a room uses only rooms above it. `grep -A1 '^####' agent.py` prints their map.

Safety: it moves the real mouse and keyboard on a small model's word. Ctrl+C stops it at once and releases whatever it
holds. Everything it sees and does is written to dumps/run_NNNN/, screenshots included.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

__version__ = "0.1.0"

########################################################################################################################
# Room 1 - Errors: what can go wrong, told apart by who has to do something about it
########################################################################################################################


class AgentError(Exception):
    """Something a person can act on: its text is one sentence that says what was wrong, where, and what to do."""

    exit_code = 1


class ConfigError(AgentError):
    """Wrong usage or configuration."""

    exit_code = 2


class Win32Error(AgentError):
    """A Windows call failed or the desktop is not usable; `function` and `code` (GetLastError) say which and why."""

    exit_code = 3

    def __init__(self, text: str, function: str = "", code: int = 0) -> None:
        super().__init__(text)
        self.function, self.code = function, code


class ModelError(AgentError):
    """The model server did not give a usable answer; `kind` is a word for programs, `retry` whether asking again is safe."""

    exit_code = 3

    def __init__(self, text: str, kind: str = "server", retry: bool = False) -> None:
        super().__init__(text)
        self.kind, self.retry = kind, retry


class ToolError(AgentError):
    """A call that is not carried out; the text is meant for the model, `kind` is the error type of the tool message."""

    def __init__(self, text: str, kind: str = "invalid_args") -> None:
        super().__init__(text)
        self.kind = kind


class ReplyError(ToolError):
    """No call can be read from a reply with certainty; the text tells the model the defect and what is valid."""


class Stopped(AgentError):
    """The person stopped the run."""

    exit_code = 130


########################################################################################################################
# Room 2 - Config: every number and name that can be changed, with its unit and reason
########################################################################################################################


def _setting(default: Any, text: str, env: str = "", least: float | None = None, most: float | None = None) -> Any:
    """One field of Config: its default, what it means (with unit), its environment variable and its range."""
    return field(default=default, metadata={"text": text, "env": env, "least": least, "most": most})


@dataclass(frozen=True)
class Config:
    """Everything that can be set: defaults <- profile <- JSON file <- environment <- command line (see `load_config`)."""

    # fmt: off
    # -- model server
    lmstudio_endpoint: str = _setting("http://127.0.0.1:1234/v1/chat/completions", "chat completions URL", "LMSTUDIO_ENDPOINT")
    lmstudio_model: str = _setting("qwen3-vl-2b-instruct", "model to ask for", "LMSTUDIO_MODEL")
    lmstudio_timeout: float = _setting(240.0, "seconds for one whole exchange, connect to last byte", "LMSTUDIO_TIMEOUT", 1, 86400)
    lmstudio_temperature: float = _setting(0.5, "sampling of the acting role; higher = more varied acts", "LMSTUDIO_TEMPERATURE", 0, 2)
    planner_temperature: float = _setting(0.35, "sampling of the planning role; low = consistent plans", "", 0, 2)
    executor_max_tokens: int = _setting(1400, "tokens of one reply of the acting role", "LMSTUDIO_MAX_TOKENS", 16, 65536)
    planner_max_tokens: int = _setting(1800, "tokens of one reply of the planning role", "", 16, 65536)
    request_retries: int = _setting(3, "further tries where asking again is safe (refused, reset, 5xx ...)", "", 0, 10)
    reply_corrections: int = _setting(2, "short corrections in one turn when no call can be read", "", 0, 5)
    # -- eyes
    screen_capture_w: int = _setting(1536, "pixels; 1536x864 = 1296 image tokens, grounding wants 1024-2048", "AGENT_IMAGE_W", 64, 8192)
    screen_capture_h: int = _setting(864, "pixels", "AGENT_IMAGE_H", 64, 8192)
    area: str = _setting("primary", "where it may look and act: primary, all, or LEFT,TOP,WIDTH,HEIGHT in pixels")
    # -- hands
    dry_run: bool = _setting(False, "look, ask and log, but move and press nothing")
    drag_steps: int = _setting(15, "interpolated moves of a drag", "", 1, 500)
    drag_step_ms: float = _setting(8.0, "milliseconds between the moves of a drag and before its release", "", 0, 1000)
    text_batch_events: int = _setting(100, "most keyboard events in one SendInput", "", 4, 1000)
    char_input_delay: float = _setting(0.0, "seconds between batches of text (the described systems: 0.01)", "", 0, 5)
    # -- pace
    settle_floor_ms: float = _setting(60.0, "milliseconds after an act before the first look", "", 0, 10000)
    settle_patience_ms: float = _setting(250.0, "milliseconds to wait for a first change before 'did not change'", "", 0, 10000)
    settle_cap_ms: float = _setting(2000.0, "milliseconds after which a restless screen is taken as it is", "", 0, 60000)
    settle_interval_ms: float = _setting(40.0, "milliseconds between two looks", "", 1, 5000)
    ui_settle_delay: float = _setting(0.0, "further fixed seconds after an act (the described systems: 0.3)", "", 0, 60)
    turn_delay: float = _setting(0.0, "fixed seconds between turns (the described systems: 0.4 to 1.5)", "AGENT_STEP_DELAY", 0, 60)
    # -- limits of a run
    max_steps: int = _setting(50, "turns", "AGENT_MAX_STEPS", 1, 100000)
    review_interval: int = _setting(7, "executor turns between two planner reviews", "", 1, 1000)
    memory_compression_threshold: int = _setting(12, "active actions that make archiving due", "", 2, 1000)
    memory_keep_actions: int = _setting(4, "latest actions that the program keeps active when it archives by itself", "", 0, 1000)
    evidence_chars: int = _setting(100, "least characters of evidence in a completion report", "", 0, 10000)
    verify_completion: bool = _setting(True, "check a completion report with one fresh look")
    stall_tell: int = _setting(2, "turns without progress until the executor is told", "", 1, 1000)
    stall_review: int = _setting(4, "... until the planner reviews", "", 1, 1000)
    stall_recover: int = _setting(6, "... until the recovery keys", "", 1, 1000)
    stall_stop: int = _setting(10, "... until the run ends as stuck", "", 1, 1000)
    enable_loop_recovery: bool = _setting(True, "whether the recovery keys may be pressed")
    loop_recovery_cooldown: int = _setting(3, "turns between two recoveries", "", 0, 1000)
    # -- files
    dump_dir: str = _setting("dumps", "folder that holds the runs; nothing is written elsewhere", "AGENT_DUMP_DIR")
    # fmt: on


def _convert(name: str, kind: str, value: Any, where: str) -> Any:
    """One value in the field's type, or ConfigError naming `where` it stands and what it takes."""
    words = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}
    if kind == "bool" and str(value).strip().lower() in ("true", "1", "yes", "on", "false", "0", "no", "off"):
        return str(value).strip().lower() in ("true", "1", "yes", "on")
    try:
        if kind == "str" and isinstance(value, str):
            return value
        if kind in ("int", "float") and not isinstance(value, bool) and isinstance(value, (str, int, float)):
            number = float(value)
            if kind == "float" and number == number and abs(number) != float("inf"):
                return number
            if kind == "int" and number == int(number):
                return int(number)
    except (ValueError, OverflowError):
        pass
    raise ConfigError(f"{where}: {name} takes {words[kind]}, not {str(value)[:60]!r}.")


def load_config(layers: Mapping[str, Mapping[str, Any]]) -> Config:
    """A Config from layers, later ones win: {where it stands (for messages): {field: value}}; raises ConfigError."""
    known = {f.name: f for f in fields(Config)}
    values: dict[str, Any] = {}
    for where, layer in layers.items():
        for name, value in layer.items():
            spec = known.get(name)
            if spec is None:
                raise ConfigError(f"{where}: there is no setting {name!r}; `--help` names the page that lists them.")
            values[name] = value = _convert(name, str(spec.type), value, where)
            least, most = spec.metadata["least"], spec.metadata["most"]
            if (least is not None and value < least) or (most is not None and value > most):
                raise ConfigError(f"{where}: {name} must lie between {least} and {most}, not {value}.")
    return replace(Config(), **values)


def environment_layers(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The settings given as environment variables, one layer each, so that a wrong one is named."""
    names = {f.metadata["env"]: f.name for f in fields(Config) if f.metadata["env"]}
    return {f"environment variable {env}": {name: environ[env]} for env, name in names.items() if environ.get(env)}


def file_layer(path: str) -> dict[str, dict[str, Any]]:
    """The settings in a JSON file (one object); raises ConfigError naming the file and the place."""
    try:
        with open(path, encoding="utf-8-sig") as source:
            values = json.load(source)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold one JSON object, such as {{\"max_steps\": 30}}.")
    return {path: values}


########################################################################################################################
# Room 3 - Values: grid and pixels, frames and windows, and the two seams for time and stopping
########################################################################################################################

GRID = 1000  # Qwen3-VL answers on a 0..1000 grid for both axes, whatever the size of the image


@dataclass(frozen=True)
class Coordinate:
    """A place on the model's grid, 0..1000 on both axes, relative to the working area. Out of range raises ToolError."""

    x: int
    y: int

    def __post_init__(self) -> None:
        if not (0 <= self.x <= GRID and 0 <= self.y <= GRID):
            raise ToolError(f"Position ({self.x}, {self.y}) is outside the grid; x and y must lie between 0 and {GRID}.")

    def __str__(self) -> str:
        return f"({self.x}, {self.y})"


@dataclass(frozen=True)
class Point:
    """A pixel of the virtual screen; monitors left of or above the primary one have negative coordinates."""

    x: int
    y: int


@dataclass(frozen=True)
class Rect:
    """A rectangle of pixels on the virtual screen: left, top, width, height."""

    left: int
    top: int
    width: int
    height: int

    def contains(self, point: Point) -> bool:
        return self.left <= point.x < self.left + self.width and self.top <= point.y < self.top + self.height

    def intersection(self, other: Rect) -> Rect:
        """The common part; its width or height is 0 where there is none."""
        left, top = max(self.left, other.left), max(self.top, other.top)
        right = min(self.left + self.width, other.left + other.width)
        bottom = min(self.top + self.height, other.top + other.height)
        return Rect(left, top, max(0, right - left), max(0, bottom - top))

    @property
    def center(self) -> Point:
        return Point(self.left + self.width // 2, self.top + self.height // 2)


def to_point(place: Coordinate, area: Rect) -> Point:
    """Grid to pixel: 0 is the first and 1000 the last pixel of `area`, so that every edge can be reached."""
    x = area.left + (place.x * (area.width - 1) + GRID // 2) // GRID
    return Point(x, area.top + (place.y * (area.height - 1) + GRID // 2) // GRID)


def to_coordinate(point: Point, area: Rect) -> Coordinate:
    """Pixel to grid, the nearest grid place; a pixel outside `area` raises ToolError."""
    wide, high = max(1, area.width - 1), max(1, area.height - 1)
    x, y = (point.x - area.left) * GRID + wide // 2, (point.y - area.top) * GRID + high // 2
    return Coordinate(x // wide, y // high)


@dataclass(frozen=True)
class Window:
    """A top-level window: its title, the program's file name, its place, and whether it is out of reach (elevated)."""

    handle: int
    title: str
    program: str = ""
    rect: Rect = Rect(0, 0, 0, 0)
    elevated: bool = False


@dataclass(frozen=True)
class Frame:
    """One look at the working area.

    `pixels` and `clean` are width*height*4 bytes, top row first, blue green red unused (BGRX); `pixels` shows the mouse
    pointer, `clean` does not, so that comparing two frames never sees the pointer move. `screen` is the whole virtual
    screen at that time; `number` rises with every capture.
    """

    number: int
    width: int
    height: int
    pixels: bytes
    clean: bytes
    area: Rect
    screen: Rect
    taken_at: float
    window: Window | None = None


class Stop:
    """The one flag that ends a run: set from a signal handler or any thread, looked at between single events."""

    def __init__(self) -> None:
        self._event, self.reason = threading.Event(), ""

    def set(self, reason: str) -> None:
        self.reason = self.reason or reason
        self._event.set()

    def check(self) -> None:
        """Raises Stopped once the flag is set."""
        if self._event.is_set():
            raise Stopped(f"Stopped: {self.reason}.")

    def wait(self, seconds: float) -> bool:
        """Waits in slices, since a wait on Windows does not wake up for Ctrl+C; true if the flag is set."""
        end = time.monotonic() + seconds
        while not self._event.wait(max(0.0, min(0.05, end - time.monotonic()))):
            if time.monotonic() >= end:
                return False
        return True


class Clock(Protocol):
    """Time as the program knows it, so that tests run in virtual time."""

    def now(self) -> float:
        """Monotonic seconds."""

    def sleep(self, seconds: float) -> None:
        """Returns after that time; raises Stopped as soon as the run is stopped."""


class SystemClock:
    """The real Clock; sleeping ends at once when `stop` is set."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop

    def now(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        self.stop.wait(seconds)
        self.stop.check()


########################################################################################################################
# Room 4 - PNG: the picture format, written with zlib alone
########################################################################################################################

########################################################################################################################
# Room 5 - Win32 table: structures, constants, and every function with its types and its check
########################################################################################################################

########################################################################################################################
# Room 6 - Desktop: what the program needs of a screen, a mouse and a keyboard, and Windows' answer to it
########################################################################################################################


class Desktop(Protocol):
    """A screen, a mouse and a keyboard. Only the actuator may call the five input methods."""

    def screen(self) -> Rect:
        """The whole virtual screen, all monitors, in pixels."""

    def primary(self) -> Rect:
        """The primary monitor."""

    def capture(self, area: Rect, width: int, height: int) -> Frame:
        """A look at `area`, scaled to width*height, with the mouse pointer; raises Win32Error."""

    def glance(self, area: Rect, width: int, height: int) -> bytes:
        """A small quick look without the pointer, BGRX bytes, only good for comparing with another one."""

    def cursor(self) -> Point:
        """Where the mouse is."""

    def foreground(self) -> Window | None:
        """The window that has the keyboard, if any."""

    def double_click_ms(self) -> int:
        """The longest time between two clicks that make a double click."""

    def move(self, point: Point) -> None:
        """Puts the mouse on exactly that pixel."""

    def button(self, name: str, down: bool) -> None:
        """Presses or releases `left`, `right` or `middle` where the mouse is."""

    def wheel(self, units: int, horizontal: bool = False) -> None:
        """Turns the wheel; 120 units are a notch, positive is up or right."""

    def key(self, name: str, down: bool) -> None:
        """Presses or releases a key by its name in VK_MAP."""

    def text(self, text: str) -> None:
        """Types one batch of characters, each pressed and released, whatever the keyboard layout."""


########################################################################################################################
# Room 7 - Demo desktop: a small drawn desktop with real behaviour, for --demo and the tests
########################################################################################################################

########################################################################################################################
# Room 8 - Tools: what a model can call, declared once; vocabularies only rename
########################################################################################################################


@dataclass(frozen=True)
class ToolCall:
    """One call as the model named it: arguments checked against the tools sent, coordinates as [x, y] integers.

    `ignored` counts further calls in the same reply, which are not carried out.
    """

    name: str
    arguments: dict[str, Any]
    id: str = ""
    ignored: int = 0


########################################################################################################################
# Room 9 - Actuator: the one place through which input leaves, with every gate before it
########################################################################################################################

########################################################################################################################
# Room 10 - Model: the HTTP client, finding the model, errors told apart
########################################################################################################################

########################################################################################################################
# Room 11 - Replies: reading one call out of whatever the model said
########################################################################################################################

########################################################################################################################
# Room 12 - Memory and state: what was done, what was archived, where the run stands
########################################################################################################################

########################################################################################################################
# Room 13 - Prompts and profiles: the five systems as data
########################################################################################################################

########################################################################################################################
# Room 14 - Journal: the run's folder, log, records and screenshots
########################################################################################################################

########################################################################################################################
# Room 15 - Turn engine: observe, ask, read, act, settle, record - once
########################################################################################################################

########################################################################################################################
# Room 16 - Loops: whom to ask and when to stop
########################################################################################################################

########################################################################################################################
# Room 18 - Command line: the only place where things are constructed and wired
########################################################################################################################
