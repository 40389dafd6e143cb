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

import ast
import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
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

# A call counts only if it is certain: nothing below closes a string or a number, compares names loosely or moves a
# coordinate. A reply can be megabytes of anything, so every pattern is linear and every loop only goes forward.
_NAME_KEYS = ("name", "function", "tool", "tool_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args")
_OTHER_KEYS = ("id", "type", "index")
_ENDED = ("stop", "tool_calls", "function_call")  # the server says that the model ended the reply by itself
_CUT = ("length", "max_tokens", "content_filter")
_PYTHON_CHARS = 20_000  # ast.parse is slow and hungry; no honest call is longer
_MAX_TAGS = 1000  # looked at in one reply; what holds more is no answer to anything
_MAX_BROKEN = 3  # tags without a call, each followed by more thinking, before a reply is given up

_TEMPLATE = r"<\|(?:im_end|im_start|endoftext)\|>"
_STRING = r""""[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)"""
_TOKEN = re.compile(_STRING + r"|[\[\](){}]", re.S)
_SLIP = re.compile(_STRING + r"|\\[nrt]|,(?=(?:\s|\\[nrt])*[}\]])", re.S)
_LITERAL = re.compile(_STRING, re.S)
_ESCAPE = re.compile(r"\\.", re.S)
_PLAIN_PYTHON = re.compile(r"(?:[\s{}\[\](),:]|\0(?!\s*\0)|True|False|None|-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?![\w.]))*")
_REST = re.compile(rf"[\s}}]*(?:{_TEMPLATE}[\s}}]*)*")
_TAIL = re.compile(r"\s*(?:</tool_call>|</function_call>|\[END_TOOL_REQUEST\])?\s*")
_NEXT = re.compile(r"</|<tool_call>|<function|<think>|\[(?:END_)?TOOL_REQUEST\]|```|\{|\Z")
_OPENER = re.compile(
    r"</?think>|<tool_call>|<function_call>|\[TOOL_REQUEST\]|<function(?:=| name=)[\"']?([\w.\-]{1,100})[\"']?>"
)
_BARE = re.compile(r"\s*(?:```[\w-]*\s*)?(?:<(?:tools?|response|json)>\s*)?(?=\{|\[\s*\{)", re.I)
_BARE_END = re.compile(r"(?:</(?:tools?|response|json|function_call)>\s*)?(?:```\s*)?", re.I)
_PARAMETER = re.compile(r"\s*<parameter(?:=| name=)[\"']?([\w.\-]{1,100})[\"']?>(.*?)</parameter>", re.S)
_TAG_IN_VALUE = re.compile(r"<parameter[= ]|</?function|<tool_call>")
_PARAMETER_TAG = re.compile(r"</parameter|<parameter|<function")
_FUNCTION_END = re.compile(r"\s*</function>")
_DIGITS = re.compile(r"\s*[+-]?[0-9]{1,15}(\.[0-9]{1,15})?\s*")
_BLANKS = re.compile(r"\s*")
_END_TOKENS = re.compile(rf"(?:{_TEMPLATE})+\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _show(value: Any) -> str:
    """A value as it can stand in a sentence: short, one line, no half characters."""
    try:
        text = repr(value[:60] if isinstance(value, str) else value)
    except ValueError:  # an integer with more digits than Python prints
        text = "a huge number"
    text = _SURROGATE.sub("?", text)
    return text if len(text) <= 60 else text[:57] + "..."


# -- JSON, and the few slips in it that leave no doubt


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys, stray blanks aside, say one thing each."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        name = key.strip()
        if name in found and repr(found[name]) != repr(value):
            raise ReplyError(f"The call gives {_show(name)} twice, with two values.", "invalid_args")
        found[name] = value
    return found


def _whole(digits: str) -> int:
    """A JSON integer, as long as Python's own limit on digits is far; NaN and Infinity come here to be refused."""
    if len(digits) > 18 or not digits.lstrip("-").isdigit():
        raise ReplyError(f"The call holds {_show(digits)}, which is no usable number.", "invalid_json")
    return int(digits)


# strict=False takes a line break inside a string for what it is
_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_whole, parse_constant=_whole, strict=False)


def _extent(text: str, start: int) -> tuple[int, int]:
    """Where the brackets that open at `start` close, strings skipped, and how many are still open there."""
    end, depth = start, 0
    for token in _TOKEN.finditer(text, start):
        if token[0] not in "[({])}":
            continue
        depth += 1 if token[0] in "[({" else -1
        end = token.end()
        if depth <= 0:
            break
    return end, depth


def _mended(body: str) -> Any:
    """JSON without trailing commas or spelled-out line breaks between its values; its strings stay as they are."""
    return _JSON.decode(_SLIP.sub(lambda slip: slip[0] if slip[0][0] in "\"'" else " ", body))


def _literal(node: ast.AST) -> Any:
    """The value of a Python literal, with JSON's types."""
    if isinstance(node, ast.Dict):
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        return _unique(list(zip(keys, map(_literal, node.values), strict=True)))
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_literal(node.operand)
    if isinstance(node, ast.Constant):
        return node.value
    raise ValueError("not a literal")


def _python(body: str) -> Any:
    """A Python literal such as {'key': 'enter'}. Two strings side by side, which Python joins, are no literal here,
    and neither are the escapes that JSON does not know: 'C:\\apps' would ring a bell."""
    plain = _LITERAL.sub("\0", body) if len(body) <= _PYTHON_CHARS and "\0" not in body else "?"
    if not _PLAIN_PYTHON.fullmatch(plain) or any(e[0][1] not in "\\'\"nrtu" for e in _ESCAPE.finditer(body)):
        raise ValueError("not a literal")
    return _literal(ast.parse(body.strip(), mode="eval").body)


def _decode(text: str, start: int = 0, closable: bool = False) -> tuple[Any, int]:
    """The value that starts there and where it ends; `closable`: the last brace of a whole call may be missing."""
    start += text.startswith("{{", start)  # doubled outer braces; _REST takes the spare closing one
    try:
        return _JSON.raw_decode(text, start)
    except ValueError as error:
        defect = str(getattr(error, "msg", error))
    end, depth = _extent(text, start)
    closing = closable and depth == 1 and text[end - 1] == "}" and _TAIL.fullmatch(text, end) is not None
    if end == start or (depth and not closing):
        raise ReplyError("The call is incomplete: its JSON does not end.", "cut")
    for read in (_mended, _python):
        try:
            value = read(text[start:end] + "}" * closing)
        except (ValueError, SyntaxError, MemoryError):
            continue
        # A brace is added only behind complete arguments: inside them, a missing end may hide one more argument.
        if not closing or (isinstance(value, dict) and any(isinstance(value.get(key), dict) for key in _ARGUMENT_KEYS)):
            return value, end
    raise ReplyError(f"The call is not valid JSON: {defect}.", "cut" if closing else "invalid_json")


# -- Finding the calls


def _past(pattern: re.Pattern[str], text: str, start: int) -> int:
    """The place behind what `pattern` matches there, if it does."""
    match = pattern.match(text, start)
    return match.end() if match else start


def _flat(value: Any) -> list[Any]:
    """The call objects in a value that may be one, a list of them, or {"tool_calls": [...]}."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list) and len(value) == 1:
        return list(value["tool_calls"])
    return value if isinstance(value, list) else [value]


def _objects(text: str, start: int, closable: bool) -> tuple[list[Any], int]:
    """The call objects that follow each other from `start`, the further ones without repairs, and where they end."""
    value, end = _decode(text, start, closable)
    found = _flat(value)
    while text.startswith("{", end := _past(_REST, text, end)):
        try:
            value, end = _JSON.raw_decode(text, end)
        except (ValueError, ReplyError):
            break
        found += _flat(value)
    return found, end


def _xml_arguments(text: str, start: int) -> tuple[dict[str, Any], int]:
    """<parameter=NAME>VALUE</parameter>... </function>: the values exactly, less the line breaks of the tag form."""
    pairs: list[tuple[str, Any]] = []
    while parameter := _PARAMETER.match(text, start):
        value, start = parameter[2], parameter.end()
        if _TAG_IN_VALUE.search(value):
            raise ReplyError(f"The parameter {_show(parameter[1])} holds another tag; close each one.", "invalid_args")
        pairs.append((parameter[1], value.removeprefix("\n").removesuffix("\n")))
    end, stray = _FUNCTION_END.match(text, start), _PARAMETER_TAG.search(text, start)
    if not end:
        raise ReplyError("The call is incomplete: </function> must follow its last </parameter>.", "cut")
    if stray and stray[0] == "</parameter":  # maybe the value holds the closing tags itself
        raise ReplyError("The call has one </parameter> too many; where the value ends is unclear.", "invalid_args")
    return _unique(pairs), end.end()


def _opened(text: str, opener: re.Match[str], closable: bool) -> tuple[list[Any], int]:
    """The calls behind one opening tag and where they end; none for a tag that only goes around <function=...>."""
    name, start = opener[1], _past(_BLANKS, text, opener.end())
    if name and not text.startswith("{", start):
        arguments, end = _xml_arguments(text, start)
        return [{"name": name, "arguments": arguments}], end
    if name:
        arguments, end = _decode(text, start)
        calls, end = [{"name": name, "arguments": arguments}], _past(_REST, text, end)
    elif text.startswith(("{", "["), start):
        calls, end = _objects(text, start, closable)
    elif text.startswith("<function", start):
        return [], start
    else:
        raise ReplyError(f"No JSON object follows {opener[0]}.", "invalid_json")
    if not _NEXT.match(text, end):
        raise ReplyError("Text follows the JSON inside its tag; send the call alone.", "invalid_json")
    return calls, end


def _spoken_calls(text: str, closable: bool) -> list[Any]:
    """The calls in a reply's text, in order; what stands before a </think> was only thought."""
    calls: list[Any] = []
    start, broken, prose = 0, 0, False
    for _ in range(_MAX_TAGS):
        bare = None if calls or prose else _BARE.match(text, start)
        if bare:  # a reply that is nothing but JSON, or one fence or tag around it
            calls, start = _objects(text, bare.end(), closable)
            if _BARE_END.fullmatch(text, start):
                return calls
            raise ReplyError("JSON with other text around it is not taken for a call.", "no_call")
        opener = _OPENER.search(text, start)
        if not opener:
            return calls
        if opener[0] == "</think>":
            calls, start, prose = [], opener.end(), False
        elif opener[0] == "<think>":
            prose = prose or bool(text[start : opener.start()].strip())
            start = text.find("</think>", opener.end())
            if start < 0 and not calls:
                raise ReplyError("The reply ends inside <think>: close it with </think>, then call a tool.", "no_call")
            start += len("</think>") if start >= 0 else 0
        else:
            try:
                found, start = _opened(text, opener, closable)
                calls += found
                prose = True
            except ReplyError:  # harmless in thoughts whose opening tag the server swallowed
                broken, start = broken + 1, text.find("</think>", opener.end())
                if not calls and (start < 0 or broken > _MAX_BROKEN):
                    raise
        if start < 0:
            return calls
    raise ReplyError("The reply repeats its tags without end.", "repetition")


def _plain_text(content: Any) -> str:
    """A message's content, which may also come as a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in (None, "text")]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _found_calls(message: dict[str, Any], finish_reason: str | None) -> list[Any]:
    """All call objects of a reply, in order, as written; ReplyError when there is none."""
    native = message.get("tool_calls") or message.get("function_call")
    if native:
        return native if isinstance(native, list) else [native]
    text, ended = _plain_text(message.get("content")), finish_reason in _ENDED
    thought = _plain_text(message.get("reasoning_content") or message.get("reasoning")).rstrip()
    if finish_reason in _CUT:
        raise ReplyError("The reply was cut.", "cut")
    calls = _spoken_calls(text, ended)
    if not text.strip() and ended and thought.endswith(("</tool_call>", "</function>", "[END_TOOL_REQUEST]")):
        # Some servers sort a real call into the reasoning: it is then the only one, and the last thing said.
        calls = _spoken_calls(thought, False)
        calls = calls if len(calls) == 1 else []
    if not calls:
        what = "holds no tool call" if text.strip() else "is empty"
        raise ReplyError(f"The reply {what}.", "no_call")
    return calls


# -- Reading one call against the tools that were sent


def _name_and_arguments(call: Any) -> tuple[Any, Any, str]:
    """Name, arguments (None if it has none) and id of a call object in any of its spellings."""
    if isinstance(call, dict) and isinstance(call.get("function"), dict):
        inner = call["function"]
        if call.keys() & inner.keys() & {*_NAME_KEYS, *_ARGUMENT_KEYS}:
            raise ReplyError("The call says its name or its arguments twice.", "invalid_json")
        call = {**{key: value for key, value in call.items() if key != "function"}, **inner}
    if not isinstance(call, dict):
        raise ReplyError(f"A call must be an object with name and arguments, not {_show(call)}.", "invalid_json")
    names, given = ([call[key] for key in keys if key in call] for keys in (_NAME_KEYS, _ARGUMENT_KEYS))
    if len(names) != 1:
        raise ReplyError("The call does not name one tool.", "invalid_json" if names else "no_call")
    if len(given) > 1 or (not given and call.keys() - {*_NAME_KEYS, *_OTHER_KEYS}):
        raise ReplyError('The call must hold all its arguments in one object, "arguments".', "invalid_args")
    identity = call.get("id")
    return names[0], given[0] if given else None, identity if isinstance(identity, str) else ""


def _tool_names(tools: list[dict[str, Any]]) -> str:
    return ", ".join(tool["function"]["name"] for tool in tools)


def _tool(name: Any, tools: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The tool's exact name and its parameters' schema."""
    schemas = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}
    said = name.strip() if isinstance(name, str) else ""
    for known in (said, said.removeprefix("functions.")):
        if known in schemas:
            return known, schemas[known]
    raise ReplyError(f"There is no tool {_show(name)}; the tools are {_tool_names(tools)}.", "unknown_tool")


def _arguments(value: Any, tool: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments as an object; an empty text, which may have been cut, is one only for a tool that takes none."""
    known = schema.get("properties") or {}
    if value is None or (isinstance(value, str) and not value.strip() and not known):
        return {}
    for _ in range(2):  # encoded once by the protocol, and once more by some models
        if isinstance(value, str):
            text, start = value, _past(_BLANKS, value, 0)
            value, end = _decode(text, start) if text.startswith(("{", '"'), start) else (None, 0)
            if value is not None and not _REST.fullmatch(text, end):
                raise ReplyError(f"The arguments of {tool} must be one JSON object and nothing else.", "invalid_json")
    if isinstance(value, dict) and value.get("name") == tool and len(value) == 2 and not known.keys() & value.keys():
        _, value, _ = _name_and_arguments(value)  # the whole call again, inside its own arguments
    if not isinstance(value, dict):
        raise ReplyError(f"The arguments of {tool} must be one JSON object.", "invalid_json")
    if value.keys() & {"properties", *_ARGUMENT_KEYS} - known.keys():
        raise ReplyError(f"The arguments of {tool} hold a schema or another call.", "invalid_args")
    return _unique([(str(key), item) for key, item in value.items() if item is not None])


# -- Values


def _number(value: Any) -> int | float | None:
    """A number, also one written as a string, or None; true and false are no numbers."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = float(value) if "." in value else int(value)
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18
    return value if good else None


def _listed(value: Any) -> Any:
    """A string such as "[1, 2]", "(1, 2)" or "1, 2" as the list or object that it spells; other values unchanged."""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        return value
    text = text if text.startswith(("[", "(", "{")) else f"[{text}]"
    try:
        found, end = _decode(text)
    except ReplyError:
        return value
    return found if end == len(text) else value


def _on_grid(name: str, values: list[Any]) -> list[int]:
    """Numbers on the 0..1000 grid, rounded; fractions of the screen count if all of them are. Nothing is clamped."""
    numbers = [number for number in map(_number, values) if number is not None]
    if len(numbers) != len(values):
        raise ReplyError(f"{name} must be numbers, not {_show(values)}.", "invalid_box")
    fractions = [0 < number < 1 for number in numbers]
    unclear = any(fractions) or (max(numbers) == 1 and any(isinstance(number, float) for number in numbers))
    if not all(0 <= number <= GRID for number in numbers) or (unclear and not all(fractions)):
        text = f"{name} is {_show(numbers)}, but x and y are whole numbers from 0 to {GRID}, not pixels; look again."
        raise ReplyError(text, "invalid_box")
    return [int(number * (GRID if unclear else 1) + 0.5) for number in numbers]


def _point(name: str, spec: dict[str, Any], value: Any) -> list[int]:
    """[x, y] from a pair, an object with x and y, or a box, whose centre it is."""
    value = _listed(value)
    if isinstance(value, dict):
        value = [value.get(key) for key in (("x", "y") if len(value) == 2 else ("x1", "y1", "x2", "y2"))]
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, list) and len(v) == 2 for v in value):
        value = [*value[0], *value[1]]
    if not isinstance(value, list) or len(value) not in (2, 4):
        raise ReplyError(f"{name} must be [x, y], not {_show(value)}.", "invalid_box")
    grid = _on_grid(name, value)
    if len(grid) == 4 and not (grid[0] <= grid[2] and grid[1] <= grid[3]):  # maybe x, y, width, height
        raise ReplyError(f"{name} {grid} is no box x1, y1, x2, y2; send its centre as [x, y].", "invalid_box")
    return [(grid[0] + grid[-2]) // 2, (grid[1] + grid[-1]) // 2]


def _text(name: str, spec: dict[str, Any], value: Any) -> str:
    """A string exactly as said, less a template token that leaked in at its end."""
    if isinstance(value, int) and _number(value) is not None:
        value = str(value)
    if not isinstance(value, str) or _SURROGATE.search(value):
        raise ReplyError(f"{name} must be a text of whole characters, not {_show(value)}.", "invalid_args")
    return _END_TOKENS.sub("", value)


def _real(name: str, spec: dict[str, Any], value: Any) -> int | float:
    """A number in its range; a whole one for type integer."""
    number, least, most = _number(value), spec.get("minimum", -math.inf), spec.get("maximum", math.inf)
    whole = spec.get("type") == "integer"
    if number is None or not least <= number <= most or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number"
        limits = f" from {least} to {most}" if {"minimum", "maximum"} <= spec.keys() else ""
        raise ReplyError(f"{name} must be {kind}{limits}, not {_show(value)}.", "invalid_args")
    return int(number) if whole else number


def _items(name: str, spec: dict[str, Any], value: Any) -> list[Any]:
    """A list, each item read by its own type."""
    items = spec.get("items") or {}
    value = _listed(value) if items.get("type") in ("integer", "number") else value
    least, most = spec.get("minItems", 0), spec.get("maxItems", math.inf)
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise ReplyError(f"{name} must be a list such as [1, 2], not {_show(value)}.", "invalid_args")
    return [_value(name, items, item) for item in value]


def _flag(name: str, spec: dict[str, Any], value: Any) -> bool:
    """true or false; text is never taken for either."""
    if not isinstance(value, bool):
        raise ReplyError(f"{name} must be true or false, not {_show(value)}.", "invalid_args")
    return value


_Reader = Callable[[str, dict[str, Any], Any], Any]
_READERS: dict[Any, _Reader] = {"string": _text, "integer": _real, "number": _real, "boolean": _flag, "array": _items}


def _is_point(spec: dict[str, Any]) -> bool:
    """Whether a property takes a place: two numbers, or a box of up to four."""
    numbers = (spec.get("items") or {}).get("type") in ("integer", "number")
    return numbers and spec.get("minItems") == 2 and spec.get("maxItems") in (2, 4)


def _value(name: str, spec: dict[str, Any], value: Any) -> Any:
    """One value as its property's schema wants it; what has no reader is taken as it is."""
    read = _point if _is_point(spec) else _READERS.get(spec.get("type"))
    result = read(name, spec, value) if read else value
    choices = spec.get("enum", [result])
    if result not in choices:
        raise ReplyError(f"{name} must be one of {', '.join(map(str, choices))}, not {_show(value)}.", "invalid_args")
    return result


def _gathered(given: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    """x and y beside each other as the one place that the tool takes, unless they are only a part of something."""
    points = [name for name, spec in properties.items() if _is_point(spec)]
    if len(points) != 1 or not {"x", "y"} <= given.keys() - properties.keys():
        return given
    pair = [given["x"], given["y"]]
    both = points[0] in given and _point(points[0], {}, given[points[0]]) != _point("x, y", {}, pair)
    if both or given.keys() & {"x1", "y1", "x2", "y2", "width", "height"}:
        raise ReplyError(f"{points[0]} must be [x, y] alone.", "invalid_box")
    return {**given, points[0]: pair}


def _filled(given: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The known arguments, each read by its schema; one that the tool does not have is left out."""
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    given, found = _gathered(given, properties), {}
    axes = [name for name in ("x", "y", "x2", "y2") if (properties.get(name) or {}).get("maximum") == GRID]
    for name, spec in properties.items():
        if name in given:
            found[name] = given[name] if name in axes else _value(name, spec, given[name])
        empty = isinstance(found.get(name), str) and not (found[name] if name == "text" else found[name].strip())
        if name in required and (empty or name not in found):
            kind = "empty_text" if empty and name == "text" else f"missing_{name}"
            raise ReplyError(f"The argument {name} is {'empty' if empty else 'missing'}.", kind)
    axes = [name for name in axes if name in found]
    if len(axes) % 2:
        raise ReplyError(f"{axes[-1]} stands alone; x and y come in pairs.", "invalid_box")
    places = _on_grid(", ".join(axes), [found[name] for name in axes]) if axes else []
    return {**found, **dict(zip(axes, places, strict=True))}


def _checked(call: Any, tools: list[dict[str, Any]]) -> ToolCall:
    """A call object as a ToolCall that the tools allow, or ReplyError."""
    name, arguments, identity = _name_and_arguments(call)
    tool, schema = _tool(name, tools)
    return ToolCall(tool, _filled(_arguments(arguments, tool, schema), schema), identity)


def _is_complete(call: Any, tools: list[dict[str, Any]]) -> bool:
    try:
        return bool(_checked(call, tools))
    except ReplyError:
        return False


def read_call(message: dict[str, Any], finish_reason: str | None, tools: list[dict[str, Any]]) -> ToolCall:
    """The first call in a reply, read with certainty against `tools` (as sent in the request); raises ReplyError.

    A broken first call is never skipped for a later one: what follows was meant for the screen after it.
    """
    message = message if isinstance(message, dict) else {}
    try:
        first, *further = _found_calls(message, finish_reason)
        return replace(_checked(first, tools), ignored=sum(_is_complete(call, tools) for call in further))
    except RecursionError:
        error = ReplyError("The call is nested too deeply.", "invalid_json")
    except ReplyError as refusal:
        error = refusal
    if error.kind in ("no_call", "invalid_json", "cut"):
        if any(True for text in _said(message) for _ in _repeats(text)):
            error = ReplyError("The reply repeats itself without end.", "repetition")
        elif finish_reason in _CUT:
            error = ReplyError("The reply was cut before a call was complete.", "cut")
    raise error


# -- Repeats, thoughts, and what to answer


def _said(message: dict[str, Any]) -> list[str]:
    """Every text of a reply, whatever its shape."""
    texts = [_plain_text(message.get(key)) for key in ("content", "reasoning_content", "reasoning")]
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        texts.append(_plain_text(function.get("arguments") if isinstance(function, dict) else None))
    return texts


def _repeats(text: str) -> Iterator[tuple[int, int, int]]:
    """Start, end and period of every stretch that repeats itself at least 6 times over 240 characters or more."""
    done = place = 0
    while place + 40 < len(text):
        start, end = place, place + 40
        period = text.find(text[start:end], start + 1, start + 1000) - start
        if period > 0:
            while end + 500 < len(text) and text[end : end + 500] == text[end - period : end - period + 500]:
                end += 500
            while end < len(text) and text[end] == text[end - period]:
                end += 1
            while start > done and text[start - 1] == text[start - 1 + period]:
                start -= 1
            if end - start >= max(240, 6 * period):
                yield start, end, period
                done = end
        place = max(done, place + 100)


def cut_repetition(text: str) -> str:
    """The text with every endless repeat cut to its first two rounds, for the history and the log."""
    parts, done = [], 0
    for start, end, period in _repeats(text):
        parts.append(f"{text[done : start + 2 * period]} [repeated {(end - start) // period} times] ")
        done = end
    return "".join(parts) + text[done:]


def strip_think(text: str) -> str:
    """A final text without its thinking: closed, unclosed, or with only its end marked."""
    parts, start, thinking = [], 0, False
    for tag in re.finditer(r"</?think>", text):
        if tag[0] == "<think>" and not thinking:
            parts.append(text[start : tag.start()])
        elif tag[0] == "</think>" and not thinking:
            parts.clear()
        thinking, start = tag[0] == "<think>", tag.end()
    return "".join(parts if thinking else [*parts, text[start:]]).strip()


_ADVICE = {
    "cut": "Be brief: one tool call, a few words in each field, nothing else.",
    "repetition": "Stop repeating; answer with one short tool call.",
    "no_call": "Do not describe the step, call one tool: {tools}.",
    "unknown_tool": "Call one of them with its exact name.",
    "invalid_box": "Call again with the coordinates of what you see in the screenshot.",
    "empty_text": "Call again with the text to type.",
}


def correction(error: ReplyError, tools: list[dict[str, Any]]) -> str:
    """What the model is told when no call could be read: the defect and the one thing to do; at most 60 words."""
    advice = _ADVICE.get(error.kind, "Call again, with complete and valid JSON arguments.")
    words = f"{error} Nothing was done. {advice.format(tools=_tool_names(tools))}".split()
    return " ".join(words if len(words) <= 60 else [*words[:59], "..."])


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
