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

import base64
import json
import math
import os
import re
import struct
import threading
import time
import zlib
from array import array
from collections import deque
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
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
# Room 4 - PNG: the picture format, written with zlib alone, and what is drawn into a picture
########################################################################################################################


PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_MOST_PIXELS = 1 << 26  # 8192x8192: a picture that claims more is refused before its pixels are unpacked


def png_pack(tag: bytes, data: bytes) -> bytes:
    """One PNG chunk: length, tag, data, CRC-32 of tag and data."""
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(tag)))


def _png_file(width: int, height: int, data: bytes) -> bytes:
    """A whole 8-bit RGB file around its compressed rows."""
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return PNG_SIGNATURE + png_pack(b"IHDR", header) + png_pack(b"IDAT", data) + png_pack(b"IEND", b"")


def rgb_to_png(rgb: bytes, width: int, height: int) -> bytes:
    """The straightforward encoder, kept as the reference: no filter, one zlib stream. `rgb` is width*height*3 bytes."""
    stride = width * 3
    if min(width, height) < 1 or len(rgb) != stride * height:
        raise ValueError(f"{len(rgb)} bytes are not a picture of {width}x{height} RGB pixels")
    rows = b"".join([b"\0" + rgb[start : start + stride] for start in range(0, len(rgb), stride)])
    return _png_file(width, height, zlib.compress(rows, 6))


def bgrx_to_rgb(pixels: bytes) -> bytes:
    """Packed RGB from what Windows delivers; slice assignment is the quickest way the standard library has."""
    rgb = bytearray(len(pixels) // 4 * 3)
    rgb[0::3], rgb[1::3], rgb[2::3] = pixels[2::4], pixels[1::4], pixels[0::4]
    return bytes(rgb)


def bgrx_to_png(pixels: bytes, width: int, height: int) -> bytes:
    """A screenshot as PNG, 32 rows at a time, so that every temporary stays in the processor's cache."""
    if min(width, height) < 1 or len(pixels) != width * height * 4:
        raise ValueError(f"{len(pixels)} bytes are not a picture of {width}x{height} BGRX pixels")
    packer, stride, parts = zlib.compressobj(3), width * 3, []
    for start in range(0, len(pixels), width * 128):
        rgb = bgrx_to_rgb(pixels[start : start + width * 128])
        parts.append(packer.compress(b"".join([b"\0" + rgb[at : at + stride] for at in range(0, len(rgb), stride)])))
    return _png_file(width, height, b"".join([*parts, packer.flush()]))


def _png_chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks (tag, data) of a PNG up to IEND, each CRC checked; raises AgentError."""
    if not png.startswith(PNG_SIGNATURE):
        raise AgentError("This is not a PNG: its signature is missing.")
    at, tag = len(PNG_SIGNATURE), b""
    while tag != b"IEND":
        length, tag = struct.unpack(">I4s", png[at : at + 8].ljust(8, b"\xff"))
        data = png[at + 8 : at + 8 + length]
        if len(data) < length or png[at : at + 12 + length] != png_pack(tag, data):
            raise AgentError(f"The PNG is damaged or cut off at byte {at}.")
        at += 12 + length
        yield tag, data


def png_to_rgb(png: bytes) -> tuple[bytes, int, int]:
    """(RGB bytes, width, height) of an 8-bit RGB PNG without interlace; anything else raises AgentError."""
    chunks = list(_png_chunks(png))
    if chunks[0][0] != b"IHDR" or len(chunks[0][1]) != 13:
        raise AgentError("The PNG does not begin with a header of 13 bytes.")
    width, height, *kind = struct.unpack(">2I5B", chunks[0][1])
    if kind != [8, 2, 0, 0, 0]:
        raise AgentError(f"Only 8-bit RGB PNGs without interlace can be read; this one's header says {kind}.")
    if not 0 < width * height <= PNG_MOST_PIXELS:
        raise AgentError(f"A PNG of {width}x{height} pixels is not read; at most {PNG_MOST_PIXELS} pixels are.")
    size, unpacker = (width * 3 + 1) * height, zlib.decompressobj()
    try:  # no more than the header promises, so that a small file cannot fill the memory
        rows = unpacker.decompress(b"".join([data for tag, data in chunks if tag == b"IDAT"]), size + 1)
    except zlib.error as error:
        raise AgentError(f"The PNG's pixels cannot be unpacked: {error}.") from None
    if len(rows) != size or not unpacker.eof:
        raise AgentError(f"The PNG's pixels do not fill {width}x{height} exactly.")
    return _unfilter(rows, width * 3), width, height


def _unfilter(rows: bytes, stride: int) -> bytes:
    """Pixels from filtered rows, each led by its filter's number."""
    above, done = bytes(stride), []
    for start in range(0, len(rows), stride + 1):
        name, row = rows[start], rows[start + 1 : start + 1 + stride]
        if name > 4:
            raise AgentError(f"The PNG uses filter {name}; there are only 0 to 4.")
        above = row if name == 0 else _unfilter_row(name, row, above)
        done.append(above)
    return b"".join(done)


def _unfilter_row(name: int, row: bytes, above: bytes) -> bytes:
    """One row undone: 1 adds the pixel to the left, 2 the one above, 3 their mean, 4 the likeliest of three (Paeth)."""
    if name == 2:  # the quick one, since our own encoder uses it: all bytes added at once, without their top bits
        a, b, low = int.from_bytes(row, "big"), int.from_bytes(above, "big"), int.from_bytes(b"\x7f" * len(row), "big")
        return (((a & low) + (b & low)) ^ ((a ^ b) & ~low)).to_bytes(len(row), "big")
    out = bytearray(row)
    for i, up in enumerate(above):
        left, corner = (out[i - 3], above[i - 3]) if i > 2 else (0, 0)
        if name == 4:
            near = (abs(up - corner), abs(left - corner), abs(left + up - 2 * corner))
            out[i] = (row[i] + (left, up, corner)[near.index(min(near))]) & 255  # ties: left, then up
        else:
            out[i] = (row[i] + (left if name == 1 else (left + up) // 2)) & 255
    return bytes(out)


def scale_bgrx(pixels: bytes, stride: int, part: Rect, width: int, height: int) -> bytes:
    """`part` of a picture of `stride` pixels a row, at width*height, nearest neighbour; `part` must lie inside it.

    With part.width / width cut down to step / period, every period-th pixel comes from every step-th one: a few
    strided copies instead of a look-up for each pixel, 32 rows at a time, so that they stay in the processor's cache
    (1280x720 to 1536x864: 5 ms, in one piece 11 ms).
    """
    common, size, bands = math.gcd(part.width, width), width * 4, []
    step, period = part.width // common, width // common
    for band in range(0, height, 32):
        lines = [part.top + y * part.height // height for y in range(band, min(band + 32, height))]
        starts = {line: (line * stride + part.left) * 4 for line in lines}
        source = array("I", b"".join([pixels[start : start + part.width * 4] for start in starts.values()]))
        wide = array("I", bytes(len(starts) * size))
        for k in range(period):
            wide[k::period] = source[k * step // period :: step]
        scaled = wide.tobytes()
        rows = {line: scaled[n * size : n * size + size] for n, line in enumerate(starts)}
        bands += [rows[line] for line in lines]
    return b"".join(bands)


# A 5x7 font with two rows for descenders: nine digits to base 32 a character, one a row, from blank to a box (127).
FONT = (
    "000000000ggggg0g00kkk000000aavavaa004fke5u400pp248jj00cik8lid00ggg00000048ggg8400g84448g000level0000044v4400"
    "00000088g0000s0000000000g0011248gg00ciiiiic008o8888s00eh1248v00eh161he0026aiv2200vgu11he0068guhhe00v12488800"
    "ehhehhe00ehhf12c0000g000g0000800088g02484200000u0u00000g848g000eh1240400ehnlnge00ehhvhhh00uhhuhhu00ehggghe00"
    "uhhhhhu00vgguggv00vgguggg00ehgnhhf00hhhvhhh00s88888s0022222ic00hikokih00ggggggu00hrllhhh00hppljjh00ehhhhhe00"
    "uhhuggg00ehhhhhe30uhhukih00fgge11u00v44444400hhhhhhe00hhhhaa400hhhllrh00hha4ahh00hha444400v1248gv00sgggggs00"
    "gg8421100s44444s004ah0000000000000v0g8000000000e2eie00ggsiiis0000eggge0022eiiie0000ciuge0068u88880000eiiie2c"
    "ggsiiii00g0ggggg004044444k8ggikoki00gggggg80000ullll0000siiii0000ciiic0000siiisgg00eiiie2200moggg0000egc2s00"
    "88u88860000iiiie0000hhaa40000hllla0000iicii0000iiiie2c00u2cgu00688g88600gggggggg0o44244o000008l2000vhhhhhv00"
)


@lru_cache(maxsize=1024)
def _glyph(char: str, scale: int) -> tuple[int, tuple[tuple[int, int, int, int, float], ...]]:
    """(width, rectangles (x, y, width, height, alpha)) of a character; whatever the font lacks is the box.

    Where two cells touch at their corners only, both empty neighbours get a half-tone, which turns stairs into slopes.
    """
    code = ord(char) - 32 if " " <= char <= "~" else 95
    rows = [int(digit, 32) for digit in FONT[code * 9 : code * 9 + 9]]
    ink = {(x, y) for y, row in enumerate(rows) for x in range(5) if row & 16 >> x}
    parts = [(x * scale, y * scale, scale, scale, 1.0) for x, y in sorted(ink)]
    half = scale // 2
    for x, y in sorted((x, y) for x in range(5) for y in range(9) if half and (x, y) not in ink):
        for dx, dy in ((-1, -1), (1, -1), (-1, 1), (1, 1)):
            if {(x + dx, y), (x, y + dy)} <= ink and (x + dx, y + dy) not in ink:
                place = (x * scale + (dx + 1) // 2 * (scale - half), y * scale + (dy + 1) // 2 * (scale - half))
                parts.append((*place, half, half, 0.5))
    return (max((x for x, _ in ink), default=2) + 2) * scale, tuple(parts)


def text_width(text: str, scale: int = 2) -> int:
    """Pixels that Canvas.text moves on for `text`."""
    return sum(_glyph(char, scale)[0] for char in text)


def wrap_text(text: str, width: int, scale: int = 2) -> list[str]:
    """Lines of at most `width` pixels, broken between any two characters, since text may have no blanks."""
    lines, used = [""], 0
    for char in text:
        if char == "\n" or used + _glyph(char, scale)[0] > width:
            lines.append("")
            used = 0
        if char != "\n":
            lines[-1] += char
            used += _glyph(char, scale)[0]
    return lines


@lru_cache(maxsize=1024)
def _mixing(level: int, part: int) -> bytes:
    """A table that moves each of the 256 channel values part/32 of the way to `level`."""
    return bytes([value + (level - value) * part // 32 for value in range(256)])


class Canvas:
    """Drawing on BGRX bytes, top row first. A colour is 0xRRGGBB; whatever lies outside is cut off."""

    def __init__(self, width: int, height: int, pixels: bytes | None = None) -> None:
        self.width, self.height = width, height
        self.pixels = bytearray(width * height * 4 if pixels is None else pixels)

    def run(self, x: int, y: int, length: int, colour: int, alpha: float = 1.0) -> None:
        """A horizontal line; `alpha` below 1 mixes it with what is there."""
        left, right = max(0, x), min(self.width, x + length)
        if left >= right or not 0 <= y < self.height:
            return
        start, end = (y * self.width + left) * 4, (y * self.width + right) * 4
        if alpha >= 1:
            self.pixels[start:end] = colour.to_bytes(4, "little") * (right - left)
            return
        for channel, level in enumerate(colour.to_bytes(3, "little")):
            mixed = self.pixels[start + channel : end : 4].translate(_mixing(level, round(alpha * 32)))
            self.pixels[start + channel : end : 4] = mixed

    def fill(self, rect: Rect, colour: int, radius: int = 0, alpha: float = 1.0) -> None:
        """A rectangle, its corners rounded and smoothed when `radius` says so."""
        for row in range(rect.height):
            depth = radius - 0.5 - min(row, rect.height - 1 - row)
            inset = radius - math.sqrt(max(0.0, radius * radius - depth * depth)) if depth > 0 else 0.0
            whole = math.ceil(inset)
            left, right, y = rect.left + whole, rect.left + rect.width - whole, rect.top + row
            self.run(left, y, right - left, colour, alpha)
            if whole > inset:
                self.run(left - 1, y, 1, colour, alpha * (whole - inset))
                self.run(right, y, 1, colour, alpha * (whole - inset))

    def outline(self, rect: Rect, colour: int, thick: int = 1) -> None:
        """The border of a rectangle, `thick` pixels wide, inside it."""
        for y in range(rect.top, rect.top + rect.height):
            edge = min(y - rect.top, rect.top + rect.height - 1 - y) < thick
            self.run(rect.left, y, rect.width if edge else thick, colour)
            self.run(rect.left + rect.width - thick, y, thick, colour)

    def text(self, x: int, y: int, text: str, colour: int, scale: int = 2) -> int:
        """One line of text from its top left corner, 9*scale high; returns the x after it."""
        for char in text:
            width, parts = _glyph(char, scale)
            for left, top, wide, high, alpha in parts:
                for row in range(high):
                    self.run(x + left, y + top + row, wide, colour, alpha)
            x += width
        return x


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

DEMO_TASK = 'Open Notes, write "Hello from agent.py" and save it.'
DEMO_SCREEN = Rect(0, 0, 1280, 720)
# The colours by which the built-in model knows the controls: all that it and the desktop share. Each stands for one
# thing only and is no other colour's bytes in rotated order, so that it can be searched for in packed RGB.
DEMO_SIGNS = {
    "Notes icon": 0xF5B83D,
    "Notes in the menu": 0xF0A92B,
    "Start button": 0x1F6FEB,
    "text area": 0xFCFDFE,
    "caret": 0x4C8DF6,
    "text": 0x1B2430,
    "Save button": 0x2457D6,
    "saved mark": 0x2DA44E,
    "pointer": 0xFFFFFF,
}
DEMO_LIGHT, DEMO_PANE, DEMO_LINE, DEMO_GREY = 0xF8FAFC, 0xEEF2F7, 0xD3DBE6, 0x5B6675
DEMO_KEYS = {"escape": "esc", "return": "enter", "control": "ctrl", "lctrl": "ctrl", "lwin": "win", "windows": "win"}
DEMO_POINTER = "X XX X.X X..X X...X X....X X.....X X......X X.......X X........X X.....XXXXX X..X..X X.X_X..X XX__XX"


@dataclass(frozen=True)
class DemoState:
    """All that the demo desktop knows; its picture and its controls follow from this alone."""

    opened: bool = False
    menu: bool = False
    selected: bool = False
    focus: bool = False
    text: str = ""
    saved_text: str = ""
    clean: bool = False

    @property
    def title(self) -> str:
        return ("Saved" if self.clean else "Untitled *" if self.text else "Untitled") + " - Notes"

    def places(self) -> dict[str, Rect]:
        """What can be clicked now, topmost first."""
        menu = {"Notes in the menu": Rect(28, 576, 268, 58), "menu": Rect(12, 524, 300, 130)}
        window = {"close": Rect(982, 96, 48, 40), "Save button": Rect(902, 532, 108, 40)}
        window |= {"text area": Rect(350, 152, 660, 364), "window": Rect(330, 96, 700, 496)}
        under = {"Start button": Rect(10, 677, 38, 38), "Notes icon": Rect(28, 28, 92, 104), "desktop": DEMO_SCREEN}
        return (menu if self.menu else {}) | (window if self.opened else {}) | under

    def after(self, action: str) -> DemoState:
        """The state after a click on a control or a key with the modifiers held; most do nothing."""
        changes: dict[str, dict[str, Any]] = {
            "Start button": {"menu": not self.menu},
            "Notes icon": {"selected": True, "focus": False},
            "Notes icon twice": {"selected": False, "opened": True, "menu": False},
            "close": {"opened": False, "text": "", "clean": False, "focus": False},
            "Save button": {"saved_text": self.text, "clean": True} if self.opened else {},
            "text area": {"focus": True, "selected": False},
            "desktop": {"focus": False, "selected": False},
            "esc": {"menu": False},
        }
        same = {"win": "Start button", "ctrl+esc": "Start button", "ctrl+s": "Save button", "alt+f4": "close"}
        return replace(self, **changes.get(same.get(action, action.replace("in the menu", "icon twice")), {}))

    def typed(self, text: str) -> DemoState:
        """The state after characters at the caret, of which a backspace takes one away; they need the focus."""
        if not (text and self.opened and self.focus and not self.menu):
            return self
        return replace(self, text=self.text[:-1] if text == "\b" else self.text + text, clean=False)


@lru_cache(maxsize=4)
def _demo_ground(opened: bool, menu: bool, selected: bool) -> bytes:
    """All that typing does not change: three hills at dusk, the taskbar, the icon, the empty window and the menu."""
    canvas, places = Canvas(DEMO_SCREEN.width, DEMO_SCREEN.height), DemoState(opened, menu).places()
    for y in range(720):
        canvas.run(0, y, 1280, (28 + y // 8) << 16 | (44 + y // 6) << 8 | 110 + y // 7)
    for x, y, size, colour in ((900, 180, 1100, 0x7C5CE0), (-300, 330, 1000, 0x2FA8C9), (420, 470, 1300, 0x3B62D8)):
        canvas.fill(Rect(x, y, size, size), colour, size // 2, 0.35)
    canvas.fill(Rect(0, 672, 1280, 48), DEMO_PANE, 0, 0.9)
    canvas.text(1256 - text_width("demo desktop"), 688, "demo desktop", DEMO_GREY)
    for x, y in ((18, 685), (30, 685), (18, 697), (30, 697)):
        canvas.fill(Rect(x, y, 11, 11), DEMO_SIGNS["Start button"], 2)
    canvas.fill(places["Notes icon"], DEMO_LIGHT, 8, 0.3 * selected)
    for rect in [places[name] for name in ("window", "menu") if name in places]:
        for grow in (15, 12, 9, 6, 3):  # a soft shadow of translucent sheets
            shadow = Rect(rect.left - grow, rect.top - grow + 6, rect.width + 2 * grow, rect.height + 2 * grow)
            canvas.fill(shadow, 0x000000, 10 + grow, 0.0625)
        canvas.fill(rect, DEMO_PANE, 10)
    if opened:
        canvas.fill(Rect(60, 677, 112, 38), DEMO_LIGHT, 6)
        canvas.text(89, 688, "Notes", DEMO_GREY)
        canvas.text(1002, 110, "x", DEMO_GREY)
        canvas.fill(places["Save button"], DEMO_SIGNS["Save button"], 8)
        canvas.text(934, 545, "Save", DEMO_LIGHT)
    if menu:
        canvas.text(32, 544, "Programs", DEMO_GREY)
        canvas.fill(places["Notes in the menu"], DEMO_LIGHT, 8)
    icons = [("Notes icon", 52, 40, 47, 102, DEMO_LIGHT), ("Notes in the menu", 44, 580, 108, 597, DEMO_GREY)]
    for name, left, top, x, y, colour in icons[: 1 + menu]:  # a sheet with three lines, and its name
        canvas.fill(Rect(left, top, 44, 50), DEMO_SIGNS[name], 7)
        for down, width in ((14, 26), (23, 26), (32, 17)):
            canvas.fill(Rect(left + 9, top + down, width, 4), 0x8A5A00)
        canvas.text(x, y, "Notes", colour)
    return bytes(canvas.pixels)


def _demo_draw(state: DemoState) -> bytes:
    """The picture of a state, without the pointer."""
    canvas = Canvas(DEMO_SCREEN.width, DEMO_SCREEN.height, _demo_ground(state.opened, state.menu, state.selected))
    if state.opened:
        paper = state.places()["text area"]
        x, y = paper.left, paper.top
        canvas.text(x, y - 42, state.title, DEMO_GREY)
        canvas.fill(paper, DEMO_SIGNS["caret"] if state.focus else DEMO_LINE, 6)
        canvas.fill(Rect(x + 2, y + 2, paper.width - 4, paper.height - 4), DEMO_SIGNS["text area"], 5)
        lines = wrap_text(state.text[-2000:], paper.width - 40)[-13:]  # its end, so that a long text costs no more
        for number, line in enumerate(lines):
            end = canvas.text(x + 16, y + 16 + number * 26, line, DEMO_SIGNS["text"])
        if state.focus:
            canvas.fill(Rect(end, y - 12 + len(lines) * 26, 2, 21), DEMO_SIGNS["caret"])
        elif not state.text:
            canvas.text(x + 16, y + 16, "Click here and write", DEMO_LINE)
        canvas.fill(Rect(x, y + 393, 14 * state.clean, 14), DEMO_SIGNS["saved mark"], 7 * state.clean)
        status = f"{'Saved ' * state.clean}{len(state.text)} characters"
        canvas.text(x + 24 * state.clean, y + 393, status, DEMO_GREY)
    return bytes(canvas.pixels)


class DemoDesktop:
    """A drawn Desktop with an icon, a start menu and a note program; `acts` are the input events that reached it."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.state, self.held = clock, DemoState(), set[str]()
        self.acts: deque[str] = deque(maxlen=10_000)  # bounded, since a run may take any number of turns
        self._cursor, self._pressed, self._clicked, self._captures = Point(640, 620), "", ("", -1e9, Point(0, 0)), 0
        self._drawn: tuple[DemoState | None, bytes] = (None, b"")
        self._scaled: dict[tuple[Rect, int, int], bytes] = {}

    @property
    def saved_text(self) -> str:
        return self.state.saved_text

    def screen(self) -> Rect:
        return DEMO_SCREEN

    primary = screen

    def cursor(self) -> Point:
        return self._cursor

    def double_click_ms(self) -> int:
        return 500

    def foreground(self) -> Window | None:
        names = {"menu": "Start", "window": self.state.title, "desktop": "Desktop"}
        name, rect = next((name, rect) for name, rect in self.state.places().items() if name in names)
        return Window(list(names).index(name) + 1, names[name], "demo", rect)

    def glance(self, area: Rect, width: int, height: int) -> bytes:
        """The scaled picture, drawn again only after a change and scaled once for each size."""
        if area.intersection(DEMO_SCREEN) != area or min(area.width, area.height, width, height) < 1:
            raise Win32Error(f"{area} does not lie on the demo desktop, which has 1280x720 pixels.")
        if self._drawn[0] != self.state:
            self._drawn, self._scaled = (self.state, _demo_draw(self.state)), {}
        key = (area, width, height)
        if key not in self._scaled:
            self._scaled[key] = scale_bgrx(self._drawn[1], DEMO_SCREEN.width, area, width, height)
        return self._scaled[key]

    def capture(self, area: Rect, width: int, height: int) -> Frame:
        clean = self.glance(area, width, height)
        canvas, self._captures = Canvas(width, height, clean), self._captures + 1
        left = ((self._cursor.x - area.left) * 2 + 1) * width // (2 * area.width)
        top = ((self._cursor.y - area.top) * 2 + 1) * height // (2 * area.height)
        for y, row in enumerate(DEMO_POINTER.split()):
            for x, mark in enumerate(row):
                canvas.run(left + x, top + y, int(mark != "_"), DEMO_SIGNS["pointer"] if mark == "." else 0x000000)
        pixels, now, window = bytes(canvas.pixels), self.clock.now(), self.foreground()
        return Frame(self._captures, width, height, pixels, clean, area, DEMO_SCREEN, now, window)

    def move(self, point: Point) -> None:
        self.acts.append(f"move {point.x} {point.y}")
        self._cursor = Point(min(max(point.x, 0), 1279), min(max(point.y, 0), 719))

    def button(self, name: str, down: bool) -> None:
        self._hold("button", name, down)
        target = next(place for place, rect in self.state.places().items() if rect.contains(self._cursor))
        if name == "left" and down:
            self._pressed = target
        elif name == "left" and target == self._pressed:  # a control acts when the button goes up over it again
            self._click(target)

    def _click(self, target: str) -> None:
        (last, then, place), now, here = self._clicked, self.clock.now(), self._cursor
        near = max(abs(here.x - place.x), abs(here.y - place.y)) <= 4
        twice = target == last and near and (now - then) * 1000 <= self.double_click_ms()
        self._clicked = ("" if twice else target, now, here)  # a third click begins anew
        if target not in ("Start button", "menu"):
            self.state = replace(self.state, menu=False)
        self.state = self.state.after(f"{target} twice" if twice and target == "Notes icon" else target)

    def _hold(self, kind: str, name: str, down: bool) -> None:
        self.acts.append(f"{kind} {name} {'down' if down else 'up'}")
        (self.held.add if down else self.held.discard)(name)

    def wheel(self, units: int, horizontal: bool = False) -> None:
        self.acts.append(f"wheel {units}{' horizontal' * horizontal}")

    def key(self, name: str, down: bool) -> None:
        name = DEMO_KEYS.get(name, name)
        self._hold("key", name, down)
        held = [key for key in ("ctrl", "alt", "win") if key in self.held and key != name]
        char = {"space": " ", "enter": "\n", "tab": "    ", "backspace": "\b"}.get(name, name if len(name) == 1 else "")
        if down:
            self.state = self.state.after("+".join([*held, name]))
            self.state = self.state.typed("" if held else char.upper() if "shift" in self.held else char)

    def text(self, text: str) -> None:
        self.acts.append(f"text {text}")
        self.state = self.state.typed(text)


# The built-in model. It reads the tools that it is sent: which of them does a step, what its properties are called.
DEMO_TOOLS = {
    "archive": ("archive_completed_actions", "compress_memory"),
    "plan": ("update_execution_plan", "spawn_operator"),
    "look": ("observe_screen", "take_screenshot"),
    "double click": ("double_click_screen_element", "double_click_element"),
    "click": ("click_screen_element", "click_element", "click_mouse"),
    "move": ("move_mouse",),
    "type": ("type_text_input", "type_text"),
    "finish": ("report_mission_complete", "report_completion"),
    "give up": ("report_goal_status", "report_progress"),
}
# What is seen (or not: -), the step, its target, and why; the first row that fits and whose tool exists is taken.
DEMO_STEPS = (
    ("saved mark", "finish", "saved mark", "Notes shows its green mark, so the text is saved"),
    ("text area, -caret, -text", "click", "text area", "Notes is open and its text area has no caret"),
    ("text area, -text", "type", "text area", "The caret stands in the empty text area"),
    ("Save button", "click", "Save button", "The text stands in Notes and is not saved"),
    ("Notes in the menu", "click", "Notes in the menu", "The Start menu is open and lists Notes"),
    ("Notes icon", "double click", "Notes icon", "The desktop shows the Notes icon and no window"),
    ("Start button", "click", "Start button", "The desktop shows the Start button and no window"),
)


def _demo_sights(png: bytes) -> tuple[dict[str, tuple[int, int]], int]:
    """(what a screenshot shows: sign -> its centre on the grid, the tokens of the image)."""
    rgb, width, height = png_to_rgb(png)
    sights, stride = {}, width * 3
    for name, colour in DEMO_SIGNS.items():
        run = colour.to_bytes(3, "big") * (1 if name == "pointer" else 2)  # a lone pixel may be a smoothed edge
        first, last = rgb.find(run) // stride, rgb.rfind(run) // stride
        rows = [rgb[y * stride : y * stride + stride] for y in range(max(0, first), last + 1)]
        if rows:
            left = min(row.find(run) for row in rows if run in row) // 3
            right = max(row.rfind(run) for row in rows) // 3
            x, y = (left - 1, first - 2) if name == "pointer" else ((left + right) // 2, (first + last) // 2)
            sights[name] = (max(0, x) * GRID // (width - 1), max(0, y) * GRID // (height - 1))
    return sights, width * height // 1024


def _demo_read(messages: list[dict[str, Any]], looking: bool) -> tuple[str, bytes]:
    """(all that the user wrote, the latest screenshot); one that can look has no use for a screenshot before a call."""
    texts: list[str] = []
    png = b""
    for message in messages:
        content = message.get("content") or ""
        parts: list[dict[str, Any]] = [{"text": content}] if isinstance(content, str) else content
        for part in parts:
            if "image_url" in part:
                png = base64.b64decode(part["image_url"]["url"].partition(",")[2])
            elif message["role"] == "user":
                texts.append(part["text"])
        png = b"" if looking and message.get("tool_calls") else png
    return "\n".join(texts), png


def _demo_choose(sights: dict[str, tuple[int, int]], tools: Container[str]) -> tuple[str, str, str]:
    """(step, target, reason): the first row that fits what is seen and what can be done."""
    able = {step for step, names in DEMO_TOOLS.items() if any(name in tools for name in names)} | {"finish"}
    absent = {f"-{name}" for name in DEMO_SIGNS if name not in sights}
    fitting = (row[1:] for row in DEMO_STEPS if row[1] in able and {*row[0].split(", ")} <= absent | set(sights))
    step, target, why = next(fitting, ("give up", "", "None of the known controls can be seen"))
    here, there = sights.get("pointer", (-99, -99)), sights.get(target, (0, 0))
    if step == "click" and "move_mouse" in tools and max(abs(here[0] - there[0]), abs(here[1] - there[1])) > 4:
        step = "move"  # where a click has no place of its own
    return step, target, why


def demo_reply(request: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """(the assistant's message, the tokens of the image), decided from this one request alone."""
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in request.get("tools") or []}
    text, png = _demo_read(request["messages"], any(name in tools for name in DEMO_TOOLS["look"]))
    sights, tokens = _demo_sights(png) if png else ({}, 0)
    if not tools:  # a verification; the answer to a profile that wants JSON instead of calls belongs here, too
        verdict = "YES: the green mark says Saved." if "saved mark" in sights else "NO: there is no mark of saving."
        return {"role": "assistant", "content": verdict}, tokens
    if png:
        step, target, why = _demo_choose(sights, tools)
    else:  # the planner's requests, and an agent that has yet to look
        planning = any(name in tools for name in DEMO_TOOLS["plan"])
        step = "archive" if "ARCHIVE_NOW" in text.splitlines() else "plan" if planning else "look"
        target, why = "", "The task needs these steps in this order"
    said = f"SCREEN_SHOWS: {why}.\nNEXT_STEP: {step} {target}".rstrip()
    message: dict[str, Any] = {"role": "assistant", "content": said}
    name = next((name for name in DEMO_TOOLS[step] if name in tools), "")
    if name:
        arguments = _demo_arguments(tools[name], text, target, why, sights.get(target, (0, 0)))
        function = {"name": name, "arguments": json.dumps(arguments)}
        message["tool_calls"] = [{"id": f"call_{len(request['messages'])}", "type": "function", "function": function}]
    return message, tokens


def _demo_arguments(schema: dict[str, Any], text: str, target: str, why: str, place: tuple[int, int]) -> dict[str, Any]:
    """Arguments for a tool by the names of its properties; an unknown required one gets the reason."""
    wanted = re.search(r'(?i)\b(?:write|type)\s+"(.+?)"', text)
    note = wanted.group(1) if wanted else "Hello"
    order = f'Open Notes, click into its text area, type "{note}" and press Save. Done when it shows its green mark.'
    proof = f"{why}. The text area holds the note, the status line counts its characters and the title bar says Saved."
    words: dict[str, Any] = {"text": note, "x": place[0], "y": place[1], "evidence": proof if target else why}
    words |= dict.fromkeys(("position", "box"), list(place)) | dict.fromkeys(("element_name", "label"), target)
    words |= dict.fromkeys(("instructions", "operator_instructions", "summary", "compression_summary"), order)
    words |= dict.fromkeys(("completion_status", "status"), "BLOCKED")
    words["archived_turns"] = sorted({int(turn) for turn in re.findall(r"\bTurn[_ ](\d+)", text)})
    known = [name for name in schema["properties"] if name in words or name in schema.get("required", [])]
    return {name: words.get(name, why) for name in known}


class DemoModel:
    """The model server of --demo on 127.0.0.1, started at once; it answers from the requests, knowing no desktop."""

    def __init__(self) -> None:
        from http.server import BaseHTTPRequestHandler  # here, since nothing but a demo needs them
        from socketserver import ThreadingTCPServer  # not HTTPServer: that one asks the name server for its own name

        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

            def do_GET(self) -> None:
                request = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, answer = model.respond(self.path, request)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: the terminal belongs to the run."""

        self.requests, self._before = 0, ""
        self._server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}/v1/chat/completions"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def respond(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """(HTTP status, JSON) for a request."""
        if path in ("/v1/models", "/api/v0/models"):
            limits = {"max_context_length": 32768, "loaded_context_length": 16384}
            return 200, {"data": [{"id": "demo-model", "object": "model", "type": "vlm", "state": "loaded", **limits}]}
        if path != "/v1/chat/completions":
            return 404, {"error": {"message": f"Unexpected endpoint: {path}"}}
        try:
            request = json.loads(body)
            message, image = demo_reply(request)
        except (AgentError, ValueError, LookupError, TypeError, AttributeError) as error:
            return 400, {"error": {"message": f"The request cannot be read: {error!r}"}}
        self.requests += 1
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        usage = self._usage(request, image, len(json.dumps(message)) // 4)
        return 200, {"object": "chat.completion", "model": "demo-model", "choices": [choice], "usage": usage}

    def _usage(self, request: dict[str, Any], image: int, completion: int) -> dict[str, Any]:
        """Tokens by rule of thumb, a quarter of the characters; cached is what began the last prompt, too."""
        messages = request["messages"]
        text = json.dumps([messages[:1], request.get("tools"), messages[1:]])
        text = re.sub(r"data:image[^\"]+", lambda data: f"\0{zlib.crc32(data[0].encode()):08x}", text)
        common, self._before = len(os.path.commonprefix([text, self._before])), text
        prompt, cached = len(text) // 4 + image, common // 4 + image * (common > text.rfind("\0") + 8)
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        return usage | {"prompt_tokens_details": {"cached_tokens": cached}}


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
