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

import contextlib
import http.client
import json
import math
import os
import random
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from email.utils import parsedate_to_datetime
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

ANSWER_BYTES_MOST = 8 << 20  # a reply is a few kB; anything near this is not a reply
NESTING_MOST = 64  # deeper JSON would break whoever writes it down again (RecursionError)
DISCOVERY_TIMEOUT_S = 15.0  # a list of models is quick, and a server that is loading says so
RETRY_AFTER_MOST_S = 60.0
CONTEXT_LEAST = 6000  # tokens: one executor turn is about 3,900, its reply up to 1,400 (DESIGN.md)
BACKOFF_S = {"loading": 5.0}  # seconds before the second try (else 0.5), then doubled; some GB take half a minute
ONE_RETRY = ("not_json", "bad_shape", "empty", "error")  # garbage may be a slip: one further try, not request_retries


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counted them; None where it does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True)
class Reply:
    """What the model said: the unread `message`, and its cost; `seconds` is the last exchange alone."""

    message: dict[str, Any]
    finish_reason: str | None
    usage: Usage
    model: str
    seconds: float
    tries: int


@dataclass(frozen=True)
class ModelInfo:
    """A model as the server lists it; None where it does not say. `note` is a sentence for the person, or empty."""

    name: str
    vision: bool | None = None
    loaded: bool | None = None
    context_length: int | None = None
    note: str = ""


@dataclass(frozen=True)
class _Answer:
    """One whole HTTP answer; `sized` if its length was announced, so that nothing can be missing."""

    status: int
    body: bytes
    sized: bool
    encoding: str
    retry_after: str


# fmt: off
_Row = tuple[Any, str, bool, str]  # what to look for, kind, whether asking again is of use, what the server does
# What servers say, whatever the status; the first match wins. Sources: lmstudio-bug-tracker #237 #546 #908 #1251 #1680,
# llama.cpp server-common.cpp and #15780, Ollama's openai package, vLLM's serving engine.
_SAID: tuple[_Row, ...] = (
    (r"context (length|size|window|the overflows)|context overflow|exceed_context|too long to fit|prompt is too long",
     "context", False, "got more than its model's context holds ({said}); load the model with 8192 tokens or more"),
    (r"(not|n't) support (images?|vision)|image input is not supported|not a multimodal model|mmproj|at most 0 image",
     "no_vision", False, "has a model that cannot see images ({said}); load a vision model such as Qwen3-VL"),
    (r"(not|n't) support tools|enable-auto-tool-choice|requires --jinja|tools param",
     "no_tools", False, "takes no tools with this model ({said}); load one that can call tools, such as Qwen3-VL"),
    (r"failed to load|error loading model|insufficient system resources",
     "no_model", False, "could not load the model ({said}); choose a smaller one"),
    (r"no models? (are |is |currently )*loaded|please load a model",
     "no_model", False, "has no model loaded ({said}); load Qwen3-VL in LM Studio, or with `lms load`"),
    (r"\bloading model|model is (still |currently )?loading|is being loaded",
     "loading", True, "is still loading its model; wait a little and start again"),
    (r"model (has |is |was )*(unloaded|reloaded|crashed)",
     "server", True, "lost its model ({said}); look at its log and at the free memory"),
    (r"model .{0,200}(not found|does not exist)|model_not_found|invalid model identifier|multiple models are loaded",
     "wrong_model", False, "does not have the model ({said}); set lmstudio_model to one that it has"),
    (r"(invalid|incorrect|missing|malformed).{0,30}api.?(key|token)|unauthori[sz]ed",
     "auth", False, "wants another API key ({said}); set LMSTUDIO_API_KEY"),
    (r"unexpected endpoint or method|page not found|^(file )?not found",
     "not_found", False, "has no such page ({said}); check that lmstudio_endpoint ends in /v1/chat/completions"),
    (r"server busy|maximum pending requests|no slot available|rate limit|overloaded",
     "busy", True, "is busy ({said}); close other programs that use it"),
)
_STATUS: tuple[_Row, ...] = (  # the same by status, for answers that say nothing known
    (range(200, 300), "error", True, "answered with an error ({said}); look at its log"),
    (range(300, 400), "redirect", False, "wants the request sent elsewhere ({said}), which is not done; set"
     " lmstudio_endpoint to the final address"),
    ((401, 403), "auth", False, "wants another API key ({said}); set LMSTUDIO_API_KEY"),
    ((404, 405), "not_found", False, "has no such page ({said}); check that lmstudio_endpoint is right"),
    ((408, 409, 429), "busy", True, "is busy ({said}); close other programs that use it"),
    ((500, 502, 503, 504), "server", True, "failed ({said}); look at its log"),
    (range(100, 1000), "error", False, "refused the request ({said}); look at its log"),
)
_WIRE: tuple[_Row, ...] = (  # what can happen on the way there and back
    (ConnectionRefusedError, "refused", True, "is not running, nothing listens there; start it in LM Studio or with"
     " `lms server start`, or set lmstudio_endpoint"),
    (TimeoutError, "timeout", False, "did not finish in {seconds:g} s; use a smaller model or raise lmstudio_timeout"),
    (socket.gaierror, "refused", False, "is on no computer that is known ({said}); check lmstudio_endpoint"),
    (http.client.IncompleteRead, "incomplete", True, "broke off its answer; look at its log"),
    (ConnectionError, "reset", True, "closed the connection without an answer; look at its log"),
    (http.client.HTTPException, "incomplete", True, "sent no whole HTTP answer; check that it is a model server"),
    (OSError, "refused", True, "cannot be reached ({said}); check lmstudio_endpoint"),
)
_ANSWER: tuple[_Row, ...] = (  # what can be wrong with a whole answer
    ("", "encoding", False, "sent a compressed answer ({said}), unasked; turn compression off there"),
    ("", "too_big", False, "answered with more than {said}; check that it is a model server"),
    ("", "empty", True, "sent an empty answer; look at its log and at the model's context length"),
    ("", "not_json", True, "did not answer in JSON ({said}); check that it is a model server"),
    ("", "bad_shape", True, "answered without {said}; check that it is a chat completions server"),
)
_ROWS = {row[1]: row for row in (*reversed(_WIRE), *reversed(_SAID), *_ANSWER)}  # the first row of each kind
# fmt: on


class _Exchange(urllib.request.AbstractHTTPHandler):
    """One request and its answer, in a thread of its own: a blocked recv on Windows does not wake up for Ctrl+C.

    It is urllib's handler too, to get at the socket, whose closing is all that ends a thread in recv.
    """

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_

    def __init__(self, request: urllib.request.Request, timeout_s: float) -> None:
        super().__init__()
        self.request, self.timeout_s = request, timeout_s
        self.answer: _Answer | None = None
        self.failure: BaseException = AssertionError("an exchange ends with an answer or a failure")
        self._socket: socket.socket | None = None
        self._done, self._lock, self._abandoned = threading.Event(), threading.Lock(), False

    def wait(self, stop: Stop) -> _Answer:
        """The answer; raises what went wrong, TimeoutError at the deadline, Stopped within a slice of the stop."""
        end = time.monotonic() + self.timeout_s
        threading.Thread(target=self._run, name="model exchange", daemon=True).start()
        try:
            while not self._done.wait(max(0.0, min(0.05, end - time.monotonic()))):
                stop.check()
                if time.monotonic() >= end:
                    raise TimeoutError
        finally:
            self._abandon()
        if self.answer is None:
            raise self.failure
        return self.answer

    def _run(self) -> None:
        opener = urllib.request.OpenerDirector()  # bare: no proxy, redirect, cookie or login, and every status returns
        opener.add_handler(self)
        try:
            with opener.open(self.request, timeout=self.timeout_s) as response:
                self.answer = _whole(response)
        except urllib.error.URLError as error:
            self.failure = error.reason if isinstance(error.reason, BaseException) else error
        except Exception as error:  # raised again by wait()
            self.failure = error
        finally:
            self._done.set()

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        def connection(host: str, **options: Any) -> http.client.HTTPConnection:
            kind = http.client.HTTPSConnection if request.type == "https" else http.client.HTTPConnection
            made = kind(host, **options)
            made.connect = lambda: self._connect(made, kind)  # type: ignore[method-assign]
            return made

        return self.do_open(connection, request)

    https_open = http_open

    def _connect(self, made: http.client.HTTPConnection, kind: type[http.client.HTTPConnection]) -> None:
        kind.connect(made)
        with self._lock:
            self._socket = made.sock
            if self._abandoned:
                raise ConnectionAbortedError

    def _abandon(self) -> None:
        """Ends the worker, whatever it waits for; the server sees the connection close and may stop computing."""
        with self._lock:
            self._abandoned = True
            if self._socket is not None and not self._done.is_set():
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)


def _whole(response: http.client.HTTPResponse) -> _Answer:
    """The whole answer, or just more than the most bytes of it; raises IncompleteRead when bytes are missing."""
    sized = response.chunked or response.length is not None
    try:
        body = response.read(ANSWER_BYTES_MOST + 1)
    except ValueError:  # http.client lets a negative chunk size through
        raise http.client.IncompleteRead(b"") from None
    missing = 0 if len(body) > ANSWER_BYTES_MOST else response.length or 0
    if missing or not (body or sized):  # without a length an empty body is a cut inside the headers
        raise http.client.IncompleteRead(body, missing)
    encoding, retry_after = response.headers.get("Content-Encoding", ""), response.headers.get("Retry-After", "")
    return _Answer(response.status, body, sized, encoding.strip().lower(), retry_after.strip())


def _strict_json(body: bytes) -> Any:
    """The value of a body in UTF-8 (a BOM may pass: some proxies add one), finite numbers, not nested deeply."""

    def number(text: str) -> int | float:
        value = float(text)  # thousands of digits are infinite here, before int() is slow or refuses them
        if not math.isfinite(value):
            raise ValueError(f"the number {text[:20]} is not usable")
        return int(text) if text.lstrip("-").isdigit() else value

    value = json.loads(body.decode("utf-8-sig"), parse_constant=number, parse_float=number, parse_int=number)
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > NESTING_MOST:
            raise ValueError("nested too deeply")
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list))]
        level = [item for items in inner for item in items]
    return value


def _count(value: Any) -> int | None:
    """A number of tokens, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _dict(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    """The value if it is a JSON list, else an empty one."""
    return value if isinstance(value, list) else []


def _plain(text: str) -> str:
    """What a server says, for people: one line, printable, shortened."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text[:1000]).split())[:120].rstrip(" .:,;")


def _error_text(value: Any) -> str:
    """What went wrong, if anything: `error` is text or an object; vLLM and FastAPI write at the top."""
    value = value if isinstance(value, dict) else {"message": value}
    error = value.get("error") or ("choices" not in value and (value.get("message") or value.get("detail"))) or ""
    words = [error.get(key) for key in ("message", "code")] if isinstance(error, dict) else [str(error)]
    return " ".join(word for word in words if isinstance(word, str)) or str(error)


def _usage(value: dict[str, Any]) -> Usage:
    """Token counts from `usage`; the cached ones also from llama.cpp's `timings`."""
    usage = _dict(value.get("usage"))
    cached = _count(_dict(usage.get("prompt_tokens_details")).get("cached_tokens"))
    cached = _count(_dict(value.get("timings")).get("cache_n")) if cached is None else cached
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), cached)


def _endpoint(text: str) -> urllib.parse.SplitResult:
    """The chat completions URL, with 127.0.0.1 for localhost (IPv6 delay on Windows); raises ConfigError."""
    try:
        url = urllib.parse.urlsplit(text)
        host, port = url.hostname, url.port
        if not re.fullmatch(r"[!-~]+", text) or url.scheme not in ("http", "https") or not host or "@" in url.netloc:
            raise ValueError("http:// or https://, a host, no login, no blanks")
    except ValueError as error:
        shown = re.sub(r"//.*@", "//***@", text)[:100]
        example = "http://127.0.0.1:1234/v1/chat/completions"
        raise ConfigError(f"lmstudio_endpoint {shown!r} is not usable ({error}); it looks like {example}.") from None
    host = "127.0.0.1" if host == "localhost" else f"[{host}]" if ":" in host else host
    path = url.path.rstrip("/")
    path += {"": "/v1/chat/completions", "/v1": "/chat/completions"}.get(path, "")
    return url._replace(netloc=host if port is None else f"{host}:{port}", path=path, fragment="")


def _retry_after(header: str) -> float:
    """Seconds from a Retry-After header, given as a number or as a date; 0 if it cannot be read."""
    try:
        seconds = float(header) if header.isdigit() else parsedate_to_datetime(header).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError, OSError):
        return 0.0
    return max(0.0, min(RETRY_AFTER_MOST_S, seconds))


class ModelServer:
    """The client of one model server: strict, patient where that is safe, stoppable at any time."""

    def __init__(self, config: Config, clock: Clock, stop: Stop, api_key: str = "",
                 notice: Callable[[str], None] = lambda text: None, jitter: Callable[[], float] = random.random,
                 ) -> None:  # fmt: skip
        self.config, self.clock, self.stop, self.notice, self.jitter = config, clock, stop, notice, jitter
        self.url, self._key = _endpoint(config.lmstudio_endpoint), api_key.strip()
        if not re.fullmatch(r"[!-~]*", self._key):
            raise ConfigError("LMSTUDIO_API_KEY holds blanks or unusual characters; copy it once more.")
        self.where = f"{self.url.scheme}://{self.url.netloc}"
        self.info: ModelInfo | None = None  # what discover() found
        self.exchanges = 0  # HTTP requests, further tries included
        self._retry_after = 0.0

    def complete(self, body: bytes) -> Reply:
        """Posts a chat completion request; raises ModelError. Asking again is safe: nothing on the desktop changes."""
        value, seconds, tries = self._ask(self.url.geturl(), body, self.config.lmstudio_timeout, self._with_message)
        choice, model = value["choices"][0], value.get("model")
        reason = choice.get("finish_reason")
        reply = Reply(choice["message"], reason if isinstance(reason, str) else None, _usage(value),
                      model if isinstance(model, str) else "", seconds, tries)  # fmt: skip
        if self._overflowed(reply):
            raise self._fault(_ROWS["context"], said="an empty reply")
        return reply

    def _with_message(self, value: Any) -> dict[str, Any]:
        first = (_list(_dict(value).get("choices")) or [None])[0]
        if not isinstance(_dict(first).get("message"), dict):
            raise self._fault(_ROWS["bad_shape"], said="choices[0].message")
        return _dict(value)

    def _overflowed(self, reply: Reply) -> bool:
        """Whether an empty reply is an overflow in disguise (lmstudio-bug-tracker #2339)."""
        if any(reply.message.get(key) for key in ("content", "tool_calls", "function_call", "reasoning_content")):
            return False
        used, context = reply.usage, self.info.context_length if self.info else None
        full = context is not None and (used.prompt_tokens or 0) + (used.completion_tokens or 0) >= context
        return full or (reply.finish_reason == "length" and used.completion_tokens == 0)

    def _ask(self, url: str, body: bytes | None, timeout_s: float, check: Callable[[Any], dict[str, Any]]
             ) -> tuple[dict[str, Any], float, int]:  # fmt: skip
        """One exchange, again where that is safe: the checked JSON, the seconds of the last exchange, the tries."""
        tries = 0
        while True:
            tries, started = tries + 1, self.clock.now()
            try:
                return check(self._exchange(url, body, timeout_s)), self.clock.now() - started, tries
            except ModelError as error:
                most = min(1 if error.kind in ONE_RETRY else 10, self.config.request_retries)
                if error.kind == "refused" and body is None:
                    most = 0  # before a run there is nobody to wait for, and each try takes 2 s on Windows
                if not error.retry or tries > most:
                    tried = f" ({tries} tries)" if tries > 1 else ""
                    raise ModelError(f"{str(error)[:-1]}{tried}.", error.kind, error.retry) from None
                wait_s = BACKOFF_S.get(error.kind, 0.5) * 2 ** (tries - 1) * (0.5 + self.jitter())
                wait_s = max(wait_s, self._retry_after)
                self.notice(f"{str(error)[:-1]}; asking again in {wait_s:.1f} s.")
                self.clock.sleep(wait_s)

    def _exchange(self, url: str, body: bytes | None, timeout_s: float) -> Any:
        """The JSON of one exchange; raises ModelError."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": f"agent.py/{__version__}",
                   **({"Content-Type": "application/json"} if body else {}),
                   **({"Authorization": f"Bearer {self._key}"} if self._key else {})}  # fmt: skip
        self.exchanges, self._retry_after = self.exchanges + 1, 0.0
        try:
            answer = _Exchange(urllib.request.Request(url, body, headers), timeout_s).wait(self.stop)
        except (OSError, http.client.HTTPException) as error:
            row = next(row for row in _WIRE if isinstance(error, row[0]))
            raise self._fault(row, said=str(error), seconds=timeout_s) from None
        self._retry_after = _retry_after(answer.retry_after)
        return self._value(answer)

    def _value(self, answer: _Answer) -> Any:
        """The JSON of a good answer; raises ModelError for everything else."""
        good = 200 <= answer.status < 300
        if answer.encoding not in ("", "identity"):
            raise self._fault(_ROWS["encoding"], said=answer.encoding)
        if len(answer.body) > ANSWER_BYTES_MOST:
            raise self._fault(_ROWS["too_big"], said=f"{ANSWER_BYTES_MOST >> 20} MB")
        if good and not answer.body.strip():
            raise self._fault(_ROWS["empty"])
        try:
            value = _strict_json(answer.body)
        except (ValueError, RecursionError) as error:
            if good:
                raise self._fault(_ROWS["not_json"] if answer.sized else _ROWS["incomplete"], said=str(error)) from None
            value = answer.body[:1000].decode("utf-8", "replace")  # error pages may be anything
        said = _error_text(value)
        if good and not said:
            return value
        known = [row for row in _SAID if re.search(row[0], said, re.IGNORECASE) and not 300 <= answer.status < 400]
        row = (known + [row for row in _STATUS if answer.status in row[0]])[0]
        raise self._fault(row, said=said if good else f"status {answer.status}: {said}")

    def _fault(self, row: _Row, said: str = "", **values: Any) -> ModelError:
        """A row of the tables as an error; a server that repeats the key does not get it into a message."""
        said = _plain(said.replace(self._key, "***") if self._key else said)
        return ModelError(f"The server at {self.where} {row[3].format(said=said, **values)}.", row[1], row[2])

    def discover(self) -> ModelInfo:
        """The model to use, with a note if it is not the configured one; raises ModelError. LM Studio's lists first."""
        prefix = self.url.path.removesuffix("/chat/completions")
        root, found, failures = prefix.removesuffix("/v1"), list[tuple[ModelInfo, str]](), list[ModelError]()
        paths = (f"{root}/api/v1/models", f"{root}/api/v0/models", f"{prefix}/models")
        for path in paths:
            url = self.url._replace(path=path, query="").geturl()
            try:
                value, _, _ = self._ask(url, None, min(DISCOVERY_TIMEOUT_S, self.config.lmstudio_timeout), _dict)
                found = _models(value)
            except ModelError as error:
                if error.kind in ("refused", "reset", "timeout", "auth", "loading", "busy"):
                    raise
                failures.append(error)  # another kind of server has no such page, and says so in its own way
            if found:
                break
        if len(failures) == len(paths):
            raise failures[-1]
        self.info = self._choose(found)
        return self.info

    def _choose(self, found: list[tuple[ModelInfo, str]]) -> ModelInfo:
        """The configured model, else the loaded one that sees, else the only one; raises ModelError."""
        wanted, models = self.config.lmstudio_model, [info for info, _ in found]
        there = [info for info, key in found if wanted in (info.name, key)]
        for info in there or [info for info, key in found if _same_model(wanted, key)]:
            if info.vision is False:
                raise self._fault(_ROWS["no_vision"], said=f"{info.name} reads text only")
            late = f"The model {_plain(info.name)} is not loaded yet, so that the first reply may take a minute."
            return replace(info, note=late if info.loaded is False else "")
        seeing = [info for sure in (True, None) for info in models if info.loaded and info.vision is sure]
        only = models if len(models) == 1 and models[0].loaded is None else []
        for info in seeing + only:
            kind = "loaded" if info.loaded else "only"
            note = f"The configured model {wanted} is not there; using the {kind} one, {_plain(info.name)}."
            return replace(info, note=note)
        names = ", ".join(info.name for info in models if info.vision is not False)[:100] or "none that sees images"
        if blind := [info.name for info in models if info.loaded]:
            raise self._fault(_ROWS["no_vision"], said=f"{blind[0]} reads text only")
        if any(info.loaded is None for info in models):
            raise self._fault(_ROWS["wrong_model"], said=f"{wanted}; listed: {names}")
        raise self._fault(_ROWS["no_model"], said=f"{wanted} is not there; listed: {names}")


def _same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: the last part of a path counts, LM Studio's instance number does not."""
    tails = [re.sub(r":\d+$", "", name.replace("\\", "/").rsplit("/", 1)[-1].lower()) for name in (one, other)]
    return tails[0] == tails[1]


def _models(value: dict[str, Any]) -> list[tuple[ModelInfo, str]]:
    """The models in any server's list, loaded ones first, each with the name under which it is stored.

    LM Studio v1: `models` with `key`; its v0 and every OpenAI-compatible list: `data` with `id` (v0 adds type and
    state, vLLM `max_model_len`, llama.cpp `meta` and a second list `models` that tells which can take images).
    """
    found = []
    stored = [_dict(model) for model in _list(value.get("models"))]
    for model in stored:
        key, vision = model.get("key"), _dict(model.get("capabilities")).get("vision")
        if not isinstance(key, str) or model.get("type") == "embedding":
            continue
        vision = vision if isinstance(vision, bool) else None
        running = [_dict(instance) for instance in _list(model.get("loaded_instances"))]
        for instance in running:
            length = _count(_dict(instance.get("config")).get("context_length"))
            found.append((ModelInfo(str(instance.get("id") or key), vision, True, length), key))
        found += [(ModelInfo(key, vision, False), key)] if not running else []
    seeing = [model.get("name") for model in stored if "multimodal" in _list(model.get("capabilities"))]
    for model in map(_dict, _list(value.get("data"))):
        name, kind = model.get("id"), str(model.get("type"))
        if isinstance(name, str) and name and kind != "embeddings" and not name.startswith("text-embedding-"):
            sees = True if name in seeing else {"vlm": True, "llm": False}.get(kind)
            state = {"loaded": True, "not-loaded": False}.get(str(model.get("state")))
            length = model.get("loaded_context_length") or model.get("max_model_len")
            length = _count(length or _dict(model.get("meta")).get("n_ctx"))
            found.append((ModelInfo(name, sees, state, length), name))
    return sorted(found, key=lambda pair: pair[0].loaded is not True)


def reply_warnings(reply: Reply, asked: str, info: ModelInfo | None = None, image_tokens: int = 0,
                   text_chars: int = 0) -> list[str]:  # fmt: skip
    """What a person should know about a reply, a sentence each.

    `image_tokens` is the image's own count (Qwen3-VL: one token for 32x32 pixels, 1536x864 = 1296), `text_chars` the
    length of everything else; a token is taken as five characters, so that a false alarm is unlikely.
    """
    warnings, length, counted = [], info.context_length if info else None, reply.usage.prompt_tokens
    if reply.model and not _same_model(asked, reply.model):
        warnings.append(f"The server answered with the model {_plain(reply.model)} instead of {asked}.")
    if length is not None and length < CONTEXT_LEAST:
        warnings.append(f"The model is loaded with a context of {length} tokens, which is small for one screenshot;"
                        f" load it with 8192 or more.")  # fmt: skip
    if image_tokens and counted is not None and counted - text_chars // 5 < 0.6 * image_tokens:
        warnings.append(f"The server counted {counted} tokens where the screenshot alone has {image_tokens}: it shrank"
                        f" or lost the image.")  # fmt: skip
    return warnings


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
