"""A model server that looks: it speaks LM Studio's API and decides every step from the PNG it is sent.

    python3 tests/wine/pixel_model.py --text "Grüße, 5 € & mehr" --path "C:\\a note from Cologne.txt" --log model.jsonl

The task it knows, on an empty Wine desktop: Start, Run, notepad, type a text, Ctrl+S, type the path, Enter.
It knows windows by their captions, fields by their white boxes and text by its ink.
Nobody tells it anything about the screen.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import random
import re
import socket
import struct
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any

Json = dict[str, Any]
Rgb = tuple[int, int, int]

##########################################################################
# PNG: 8-bit RGB, every filter, any number of IDATs
##########################################################################


@dataclass(frozen=True)
class Pixels:
    """A picture as rows of RGB bytes."""

    width: int
    height: int
    data: bytes

    def rgb(self, x: int, y: int) -> Rgb:
        at = (y * self.width + x) * 3
        return self.data[at], self.data[at + 1], self.data[at + 2]

    def mask(self, colour: Rgb, tolerance: int) -> bytes:
        """One byte a pixel: 1 where every channel is within `tolerance` of `colour`."""
        both = -1
        for channel, wanted in enumerate(colour):
            near = bytes(abs(value - wanted) <= tolerance for value in range(256))
            both &= int.from_bytes(self.data[channel::3].translate(near), "big")
        return both.to_bytes(self.width * self.height, "big")


def _add_bytes(a: bytes, b: bytes) -> bytes:
    """a + b, byte by byte modulo 256, in one big-integer addition without carries between bytes."""
    low, high = int.from_bytes(b"\x7f" * len(a), "big"), int.from_bytes(b"\x80" * len(a), "big")
    x, y = int.from_bytes(a, "big"), int.from_bytes(b, "big")
    return (((x & low) + (y & low)) ^ ((x ^ y) & high)).to_bytes(len(a), "big")


def _undo_sub(row: bytes) -> bytes:
    out = bytearray(len(row))
    for channel in range(3):
        out[channel::3] = bytes(value & 255 for value in accumulate(row[channel::3]))
    return bytes(out)


def _undo_average(row: bytes, above: bytes) -> bytes:
    out = bytearray(3) + bytearray(row)
    for i, up in enumerate(above):
        out[i + 3] = (out[i + 3] + ((out[i] + up) >> 1)) & 255
    return bytes(out[3:])


def _undo_paeth(row: bytes, above: bytes) -> bytes:
    out, up = bytearray(3) + bytearray(row), bytes(3) + above
    for i in range(len(row)):
        a, b, c = out[i], up[i + 3], up[i]
        pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - c - c)
        out[i + 3] = (out[i + 3] + (a if pa <= pb and pa <= pc else b if pb <= pc else c)) & 255
    return bytes(out[3:])


def read_png(png: bytes) -> Pixels:
    """Decode an 8-bit RGB PNG, checking every CRC; ValueError says what is wrong with it."""
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("not a PNG")
    at, parts, header, ended = 8, [], b"", False
    while at + 12 <= len(png) and not ended:
        (length,) = struct.unpack_from(">I", png, at)
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if png[at + 8 + length : at + 12 + length] != struct.pack(">I", zlib.crc32(kind + body)):
            raise ValueError(f"bad checksum in {kind!r}")
        header = body if kind == b"IHDR" else header
        parts += [body] if kind == b"IDAT" else []
        ended = kind == b"IEND"
        at += 12 + length
    if not ended:
        raise ValueError("the PNG ends early")
    width, height, *form = struct.unpack(">IIBBBBB", header)
    if form != [8, 2, 0, 0, 0]:
        raise ValueError(f"not a plain 8-bit RGB PNG: {form}")
    raw, stride = zlib.decompress(b"".join(parts)), width * 3
    if len(raw) != height * (stride + 1):
        raise ValueError(f"{len(raw)} bytes of pixels, {height * (stride + 1)} expected")
    return Pixels(width, height, b"".join(_undo_filters(raw, stride)))


def _undo_filters(raw: bytes, stride: int) -> Iterator[bytes]:
    above = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        kind, row = raw[start], raw[start + 1 : start + 1 + stride]
        if kind == 1:
            row = _undo_sub(row)
        elif kind == 2:
            row = _add_bytes(row, above)
        elif kind == 3:
            row = _undo_average(row, above)
        elif kind == 4:
            row = _undo_paeth(row, above)
        elif kind != 0:
            raise ValueError(f"unknown filter {kind}")
        above = row
        yield row


##########################################################################
# Seeing: captions, white boxes, ink. Sizes are in pixels of a 1536x864 frame of a 1920x1080 desktop.
##########################################################################

WHITE, FACE, ACTIVE, INACTIVE = (255, 255, 255), (245, 245, 245), (50, 150, 250), (128, 128, 128)


@dataclass(frozen=True)
class Box:
    """Pixels left..right, top..bottom, the last ones included."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left + 1

    @property
    def height(self) -> int:
        return self.bottom - self.top + 1

    @property
    def centre(self) -> tuple[int, int]:
        return (self.left + self.right) // 2, (self.top + self.bottom) // 2


class Sight:
    """What can be measured in one frame."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels
        self.width, self.height = pixels.width, pixels.height
        self.white = pixels.mask(WHITE, 6)
        self.blue = pixels.mask(ACTIVE, 12)
        self.grey = pixels.mask(INACTIVE, 6)
        self.face = pixels.mask(FACE, 3)
        # A field, also where its text is selected: white, the selection's blue and every blend of the two.
        self.paper = pixels.data[2::3].translate(bytes(value >= 248 for value in range(256)))

    def at(self, mask: bytes, x: int, y: int) -> int:
        return mask[y * self.width + x] if 0 <= x < self.width and 0 <= y < self.height else 0

    def down(self, mask: bytes, x: int, y: int, step: int = 1) -> int:
        """How many pixels from (x, y) downwards are set."""
        count = 0
        while self.at(mask, x, y + step * count):
            count += 1
        return count

    def count(self, mask: bytes, box: Box) -> int:
        return sum(
            sum(self.row(mask, y, box.left, box.right)) for y in range(box.top, box.bottom + 1)
        )

    def row(self, mask: bytes, y: int, left: int = 0, right: int | None = None) -> bytes:
        last = self.width - 1 if right is None else min(right, self.width - 1)
        return (
            mask[y * self.width + max(left, 0) : y * self.width + last + 1]
            if 0 <= y < self.height
            else b""
        )

    def boxes(self, mask: bytes, inside: Box, least: int) -> list[Box]:
        """Upright filled rectangles at least `least` wide, told by their first row and their left edge."""
        found: list[Box] = []
        runs = re.compile(rb"\x01{%d,}" % least)
        for y in range(inside.top, inside.bottom + 1):
            for run in runs.finditer(self.row(mask, y, inside.left, inside.right)):
                left, right = run.start() + inside.left, run.end() - 1 + inside.left
                if any(
                    b.top <= y <= b.bottom and left <= b.right and right >= b.left for b in found
                ):
                    continue
                found.append(Box(left, y, right, y + self.down(mask, left + 1, y) - 1))
        return found

    def ink(self, box: Box, contrast: int = 55) -> list[int]:
        """How many pixels of each column differ by `contrast` in brightness from the box's commonest colour."""
        data, width = self.pixels.data, self.width
        starts = range(box.top * width, (box.bottom + 1) * width, width)
        rows = [data[(start + box.left) * 3 : (start + box.right + 1) * 3] for start in starts]
        light = [
            [(row[i] * 3 + row[i + 1] * 6 + row[i + 2]) // 10 for i in range(0, len(row), 3)]
            for row in rows
        ]
        ground = Counter(value for line in light for value in line).most_common(1)[0][0]
        return [
            sum(abs(value - ground) > contrast for value in column)
            for column in zip(*light, strict=True)
        ]

    def has_text(self, box: Box) -> bool:
        """A text cursor alone is one or two columns; text is more."""
        return sum(1 for column in self.ink(box) if column) > 3

    # ---- the parts of this desktop ----

    def taskbar_top(self) -> int:
        """The first row of the white bar at the bottom, read at its empty right end."""
        return self.height - self.down(self.white, self.width - 3, self.height - 2, -1) - 1

    def start_menu(self) -> Box | None:
        """The white popup that stands on the taskbar in the left corner."""
        bottom = self.taskbar_top() - 2
        run = re.match(rb"\x00{0,3}(\x01{50,400})\x00", self.row(self.white, bottom))
        if run is None:
            return None
        tall = self.down(self.paper, 6, bottom, -1)
        return (
            Box(run.start(1), bottom - tall + 1, run.end(1) - 1, bottom)
            if 18 <= tall <= 400
            else None
        )

    def captions(self) -> list[tuple[Box, bool]]:
        """Every window's caption bar, topmost row first, with whether it is the active one."""
        limit = Box(0, 0, self.width - 1, self.taskbar_top() - 1)
        bars = [
            (replace(box, bottom=box.top + self.bar_height(mask, box) - 1), active)
            for mask, active in ((self.blue, True), (self.grey, False))
            for box in self.boxes(mask, limit, 110)
        ]
        return [
            (bar, active)
            for bar, active in bars
            if 8 <= bar.height <= 30 and self.buttons_left(bar) is not None
        ]

    def bar_height(self, mask: bytes, bar: Box) -> int:
        """At the column where it is tallest: the icon, the title, a button or a shadow covers any single one."""
        columns = {bar.left, bar.right, *range(bar.left + 1, bar.right, max(1, bar.width // 9))}
        return max(self.down(mask, x, bar.top) for x in columns)

    def buttons_left(self, caption: Box) -> int | None:
        """Where the light buttons at a caption's right end begin; None tells a caption from a selected line."""
        middle = caption.centre[1]
        zone = range(caption.right - 56, caption.right + 1)
        light = [
            x for x in zone if min(self.pixels.rgb(min(max(x, 0), self.width - 1), middle)) > 215
        ]
        return light[0] if len(light) >= 6 and light[-1] > caption.right - 8 else None


@dataclass(frozen=True)
class View:
    """The screen as far as the task needs it."""

    menu: Box | None = None
    notepad: Box | None = None  # its caption
    notepad_active: bool = False  # it has the keyboard
    page: Box | None = None  # its edit area
    page_filled: bool = False
    untitled: bool = True
    run_field: Box | None = None
    run_filled: bool = False
    save_name: Box | None = None
    save_filled: bool = False
    encoding: Box | None = None
    encoding_is_utf8: bool = False
    encoding_list: Box | None = None
    question: Box | None = None  # a message box: its caption
    unclear: Box | None = None  # a window that is not drawn to the end: its caption
    start: tuple[int, int] = (0, 0)


def look(pixels: Pixels) -> View:
    sight = Sight(pixels)
    view = View(menu=sight.start_menu(), start=(23, (sight.taskbar_top() + sight.height) // 2))
    for caption, active in sight.captions():
        buttons = sight.buttons_left(caption)
        if buttons is not None and buttons < caption.right - 24:
            view = replace(_look_at_notepad(sight, caption, buttons, view), notepad_active=active)
        else:
            view = _look_at_dialog(sight, caption, view)
    return view


def _look_at_notepad(sight: Sight, caption: Box, buttons: int, view: View) -> View:
    # Down near the right end: the menu bar, the edit area's dark upper edge, then paper.
    x, y = caption.right - 60, caption.bottom + 3
    y += sight.down(sight.white, x, y)
    while y < sight.height and not sight.down(sight.white, x, y) > 40:
        y += 1
    if y == sight.height:
        return replace(view, unclear=caption)
    page = Box(caption.left + 5, y, caption.right - 20, y + sight.down(sight.white, x, y) - 1)
    return replace(
        view,
        notepad=caption,
        page=page,
        untitled=_says_untitled(sight, caption, buttons),
        page_filled=sight.has_text(replace(page, bottom=min(page.bottom, page.top + 60))),
    )


# "Untitled" is about as wide as the word "Notepad" beside it, in any font and any hinting. A task's file name is much
# wider than that, so the title tells whether the file is saved without anybody reading it.
UNTITLED_WIDTH = (0.7, 1.3)
NAME_LEAST = 14  # characters of a file name: about twice as wide


def title_words(sight: Sight, caption: Box, buttons: int) -> list[list[int]]:
    """The words of a caption, each as its ink per column."""
    # Low contrast, as an inactive caption is light grey on grey.
    after_icon = caption.left + caption.height * 9 // 8 + 1
    columns = sight.ink(Box(after_icon, caption.top + 2, buttons - 4, caption.bottom - 1), 30)
    words = re.finditer(rb"[^\x00]+(?:\x00{1,2}[^\x00]+)*", bytes(columns))
    return [list(word.group()) for word in words]


def _says_untitled(sight: Sight, caption: Box, buttons: int) -> bool:
    words = [len(word) for word in title_words(sight, caption, buttons)]
    return len(words) == 3 and UNTITLED_WIDTH[0] <= words[0] / words[2] <= UNTITLED_WIDTH[1]


def _look_at_dialog(sight: Sight, caption: Box, view: View) -> View:
    bottom = caption.bottom + 2 + sight.down(sight.face, caption.left + 1, caption.bottom + 2)
    inside = Box(caption.left, caption.bottom + 2, caption.right, bottom)
    boxes = sight.boxes(sight.paper, inside, 30)
    lists = [box for box in boxes if box.height > 80 and box.width > 200]
    fields = [box for box in boxes if 9 <= box.height <= 24 and box.width > 120]
    if lists:
        return _look_at_save_dialog(
            sight, inside, [box for box in fields if box.top > lists[0].bottom], view
        )
    if fields:
        text = replace(fields[0], right=fields[0].right - 22)
        return replace(view, run_field=fields[0], run_filled=_was_typed(sight, text))
    buttons = [box for box in boxes if 9 <= box.height <= 24]
    return replace(view, question=caption) if buttons else replace(view, unclear=caption)


def _was_typed(sight: Sight, text: Box) -> bool:
    """A text that is there and not selected; a selected one is a suggestion that typing replaces."""
    return sight.has_text(text) and sight.count(sight.blue, text) < 20


def _look_at_save_dialog(sight: Sight, inside: Box, fields: list[Box], view: View) -> View:
    if len(fields) < 3:  # name, type, encoding
        return replace(view, unclear=inside)
    name, _, encoding = fields[:3]
    text = replace(name, right=name.right - 22)
    view = replace(view, save_name=name, save_filled=_was_typed(sight, text), encoding=encoding)
    below = encoding.bottom + 4
    tall = sight.down(sight.paper, encoding.right - 30, below)
    if (
        30 <= tall <= 120
        and sight.count(sight.blue, Box(encoding.left, below, encoding.right, below + tall)) > 300
    ):
        return replace(view, encoding_list=Box(encoding.left, below, encoding.right, below + tall))
    # Inset, as a combo box with the focus shows its selection inside a white rim.
    written = sight.ink(
        Box(encoding.left + 3, encoding.top + 2, encoding.right - 22, encoding.bottom - 2)
    )
    label = sight.ink(Box(inside.left + 2, encoding.top - 3, encoding.left - 6, encoding.bottom))
    return replace(view, encoding_is_utf8=_extent(written) > 1.5 * _extent(label))


def _extent(columns: list[int]) -> int:
    marked = [x for x, count in enumerate(columns) if count]
    return marked[-1] - marked[0] + 1 if marked else 0


##########################################################################
# Deciding
##########################################################################


@dataclass(frozen=True)
class Task:
    text: str = "Grüße aus Köln: 5 € & 100 % – fertig!"
    path: str = r"C:\a note from the agent.txt"
    encoding: str = (
        ""  # "ansi" (Notepad's cp1252), "utf-8" (with a byte order mark); "": ansi if the text fits
    )

    def __post_init__(self) -> None:
        if len(re.split(r"[\\/]", self.path)[-1]) < NAME_LEAST:
            raise ValueError(
                f"the file name needs {NAME_LEAST} characters, so that its title is wider than Untitled"
            )

    @property
    def utf8(self) -> bool:
        if self.encoding:
            return self.encoding == "utf-8"
        return self.text != self.text.encode("cp1252", "ignore").decode("cp1252")

    @property
    def file_bytes(self) -> bytes:
        """What Notepad must have written."""
        return self.text.encode("utf-8-sig" if self.utf8 else "cp1252")


@dataclass(frozen=True)
class Step:
    """What to do next; `position` is on the 0..1000 grid, for a text that of its field."""

    action: str  # click, type, key, wait, done
    target: str = ""
    position: tuple[int, int] = (0, 0)
    text: str = ""
    key: str = ""
    why: str = ""


STARTED = "The Run dialog holds a name; Enter starts it."
# Shift does nothing by itself, so pressing it is the waiting that every vocabulary has.
WAIT = Step("wait", key="shift", why="The screen is not complete yet; look again.")


def decide(pixels: Pixels, task: Task = Task()) -> Step:
    """The next step of the task, from the pixels alone."""
    view = look(pixels)

    def grid(point: tuple[int, int]) -> tuple[int, int]:
        return (2 * point[0] + 1) * 500 // pixels.width, (2 * point[1] + 1) * 500 // pixels.height

    def click(target: str, point: tuple[int, int], why: str) -> Step:
        return Step("click", target, grid(point), why=why)

    if view.question:  # first, as it lies above whatever else there is
        # With a text that does not fit, the question is whether to lose characters: no.
        return Step(
            "key", key="escape" if task.utf8 else "enter", why="A message box asks something."
        )
    if view.unclear:
        return WAIT
    if view.save_name:
        if not view.save_filled:
            return Step(
                "type",
                "File name field",
                text=task.path,
                why="The Save As dialog waits for a file name.",
            )
        if view.encoding_list:
            last = view.encoding_list
            return click(
                "Unicode (UTF-8)",
                (last.left + 40, last.bottom - 6),
                "UTF-8 is the last entry of the list.",
            )
        if task.utf8 and view.encoding and not view.encoding_is_utf8:
            return click(
                "Encoding list",
                (view.encoding.right - 8, view.encoding.centre[1]),
                "The encoding is not Unicode yet.",
            )
        return Step("key", key="enter", why="The file name is typed; Enter saves.")
    if view.run_field:
        if not view.run_filled:
            place = grid(view.run_field.centre)
            return Step(
                "type",
                "Open field",
                place,
                "notepad",
                why="The Run dialog waits for a program's name.",
            )
        return Step("key", key="enter", why=STARTED)
    if view.notepad:
        if view.menu and not view.notepad_active:
            # Wine leaves the menu open whatever is clicked if a program starts meanwhile: then it does not matter.
            return click(
                "Notepad page",
                (view.page or view.notepad).centre,
                "The Start menu is open beside Notepad and not needed.",
            )
        if not view.page_filled:
            place = grid((view.page or view.notepad).centre)
            return Step(
                "type",
                "Notepad page",
                place,
                task.text,
                why="Notepad is open and its page is empty.",
            )
        if view.untitled:
            return Step(
                "key", key="ctrl+s", why="The text is on the page; the title still says Untitled."
            )
        return Step(
            "done",
            why="Notepad's title bar shows the name of the saved file instead of Untitled, the typed "
            "line stands on its page and no dialog is open any more.",
        )
    if view.menu:
        item = view.menu.left + 24, view.menu.bottom - 6
        return click("Run...", item, "The Start menu is open; Run is its last entry.")
    return click(
        "Start button", view.start, "The desktop is empty; programs start at the Start button."
    )


##########################################################################
# Speaking: a step in the words of the tools that the request offers
##########################################################################


@dataclass(frozen=True)
class Vocabulary:
    """How one profile names tools; each call is (tool, {argument: field of Step}) and an action may take several."""

    calls: dict[str, list[tuple[str, dict[str, str]]]]
    plan: tuple[str, dict[str, str]] = ("", {})
    archive: tuple[str, dict[str, str]] = ("", {})
    look: str = (
        ""  # the tool that asks for a picture, where the program does not send one by itself
    )


VOCABULARIES = {
    # found by the tool named here being offered
    "click_screen_element": Vocabulary(
        {
            "click": [
                (
                    "click_screen_element",
                    {"element_name": "target", "position": "position", "reasoning": "why"},
                )
            ],
            "type": [("type_text_input", {"text": "text", "reasoning": "why"})],
            "key": [("press_keyboard_key", {"key": "key", "reasoning": "why"})],
            "done": [("report_mission_complete", {"evidence": "why"})],
        }
    ),
    "report_completion": Vocabulary(
        {
            "click": [
                (
                    "click_element",
                    {"label": "target", "position": "position", "justification": "why"},
                )
            ],
            "type": [("type_text", {"text": "text", "justification": "why"})],
            "key": [("press_key", {"key": "key", "justification": "why"})],
            "done": [("report_completion", {"evidence": "why"})],
        }
    ),
    "observe_screen": Vocabulary(
        {
            "click": [("click_element", {"label": "target", "box": "position"})],
            "type": [("type_text", {"text": "text"})],
            "key": [("press_key", {"key": "key"})],
        },
        look="observe_screen",
    ),
    "take_screenshot": Vocabulary(
        {
            "click": [("move_mouse", {"x": "x", "y": "y"}), ("click_mouse", {})],
            "type": [("type_text", {"text": "text"})],
            "key": [("press_key", {"key": "key"})],
        },
        look="take_screenshot",
    ),
    "update_execution_plan": Vocabulary(
        {},
        ("update_execution_plan", {"instructions": "text", "reasoning": "why"}),
        (
            "archive_completed_actions",
            {"summary": "text", "patterns_detected": "why", "archived_turns": "turns"},
        ),
    ),
    "spawn_operator": Vocabulary(
        {},
        ("spawn_operator", {"operator_instructions": "text", "rationale": "why"}),
        (
            "compress_memory",
            {"compression_summary": "text", "loop_analysis": "why", "archived_turns": "turns"},
        ),
    ),
}
PLANNERS = ("update_execution_plan", "spawn_operator")

Call = tuple[str, Json]


def speak(step: Step, calls: list[tuple[str, dict[str, str]]]) -> list[Call]:
    values: Json = {
        **vars(step),
        "position": list(step.position),
        "x": step.position[0],
        "y": step.position[1],
    }
    return [
        (tool, {name: values[source] for name, source in names.items()}) for tool, names in calls
    ]


def tool_names(body: Json) -> list[str]:
    return [str(tool["function"]["name"]) for tool in body.get("tools") or []]


def texts(message: Json) -> Iterator[str]:
    """Every text part of a message."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else []:
        if part.get("type") == "text":
            yield str(part["text"])


def images(message: Json) -> Iterator[bytes]:
    """Every picture of a message, as PNG bytes."""
    content = message.get("content")
    for part in content if isinstance(content, list) else []:
        if part.get("type") == "image_url":
            head, _, coded = str(part["image_url"]["url"]).partition(",")
            if head != "data:image/png;base64":
                raise ValueError(f"an image that is not a PNG data URL: {head[:40]!r}")
            yield base64.b64decode(coded, validate=True)


MARKS = {
    "red": (224, 32, 32),
    "green": (32, 160, 64),
    "blue": (32, 64, 224),
    "orange": (240, 144, 16),
    "black": (16, 16, 16),
}  # what these words mean, within 40


def asked_marks(body: Json) -> list[str]:
    """The colour of the square for which a calibration asks."""
    asked = " ".join(text for message in body["messages"] for text in texts(message))
    return [name for name in MARKS if f"the {name} square" in asked]


def find_marks(pixels: Pixels, names: list[str]) -> dict[str, list[int]]:
    """The centre of each coloured square on the 0..1000 grid."""
    found = {}
    for name in names:
        mask = pixels.mask(MARKS[name], 40)
        rows = [
            y for y in range(pixels.height) if 1 in mask[y * pixels.width : (y + 1) * pixels.width]
        ]
        row = mask[rows[len(rows) // 2] * pixels.width :][: pixels.width] if rows else b""
        if rows:
            x, y = (row.find(1) + row.rfind(1)) / 2, (rows[0] + rows[-1]) / 2
            found[name] = [round(1000 * x / pixels.width), round(1000 * y / pixels.height)]
    return found


def fresh_image(messages: list[Json]) -> bytes | None:
    """The last picture, unless something was done since it was taken (a chat that must look again)."""
    for message in reversed(messages):
        for png in images(message):
            return png
        if any(
            call["function"]["name"] not in ("observe_screen", "take_screenshot")
            for call in message.get("tool_calls") or []
        ):
            return None
    return None


##########################################################################
# Faults and noise
##########################################################################

Reply = Json  # an assistant message


def reply_with(name: str, arguments: Any, content: str | None = None) -> Reply:
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {
                "id": f"{random.getrandbits(30):09d}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": arguments if not isinstance(arguments, dict) else _json(arguments),
                },
            }
        ],
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _said(content: str | None) -> Reply:
    return {"role": "assistant", "content": content}


def _with_raw_object(name: str, arguments: Json) -> Reply:
    reply = reply_with(name, "")
    reply["tool_calls"][0]["function"]["arguments"] = arguments
    return reply


# Ten ways a small model or its server spoils a call.
NOISE: dict[str, Callable[[str, Json], Reply]] = {
    "text_only": lambda name, arguments: _said(f"I will use {name} now, as the instruction says."),
    "empty": lambda name, arguments: _said(""),
    "null": lambda name, arguments: _said(None),
    "unknown_tool": lambda name, arguments: reply_with("use_computer", arguments),
    "cut_arguments": lambda name, arguments: reply_with(
        name, _json(arguments)[: 1 + len(_json(arguments)) // 2]
    ),
    "tool_call_tag": lambda name, arguments: _said(
        f"<tool_call>\n{_json({'name': name, 'arguments': arguments})}\n</tool_call>"
    ),
    "fenced_json": lambda name, arguments: _said(
        f"```json\n{_json({'name': name, 'arguments': arguments})}\n```"
    ),
    "tool_request": lambda name, arguments: _said(
        f"[TOOL_REQUEST]\n{_json({'name': name, 'arguments': arguments})}\n[END_TOOL_REQUEST]"
    ),
    "object_arguments": _with_raw_object,
    "no_arguments": lambda name, arguments: reply_with(name, "{}"),
}

FAULTS: dict[str, Callable[[str, Json], Reply]] = {
    "empty": lambda name, arguments: _said(""),
    "text": lambda name, arguments: _said(
        "The screen shows the desktop. I should go on with the next part."
    ),
    "unknown_tool": lambda name, arguments: reply_with("tap_on_screen", arguments),
    "out_of_range": lambda name, arguments: reply_with(
        name,
        {
            key: [1290, 540] if key in ("position", "box") else 1290 if key == "x" else value
            for key, value in arguments.items()
        },
    ),
}

##########################################################################
# The server
##########################################################################

MODEL = "qwen3-vl-4b-instruct"
PLAN = (
    "Open the Start menu, choose Run, start notepad, type the given line, save it with Ctrl+S under the given path "
    "and report completion when the title bar shows the file's name."
)


@dataclass
class Exchange:
    """One chat request and its answer; times are time.monotonic() seconds."""

    number: int
    kind: str  # planner, executor, verification, other
    arrived: float
    body: Json  # pictures replaced by their length and SHA-256
    step: str = ""
    fault: str = ""
    reply: Json = field(default_factory=dict)
    answered: float = 0.0


class PixelModel:
    """The model's mind: what to answer to a chat request. One request at a time."""

    model = MODEL  # as the server names it ...
    architecture = "qwen3vl"  # ... and its kind

    def __init__(
        self,
        task: Task = Task(),
        faults: Iterable[str | None] = (),
        noise: tuple[int, float] | None = None,
        log: str | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self.task = task
        self.faults = list(faults)
        self.noise_share = noise[1] if noise else 0.0
        self.random = random.Random(noise[0] if noise else 0)
        self.log = log
        self.delay_s = delay_s
        self.exchanges: list[Exchange] = []
        self.lock = threading.Lock()
        self._queue: list[Call] = []  # the rest of a step that takes several calls
        self._before = Step("")  # the last step that was not a wait
        self._starting = False  # the last step pressed Enter in the Run dialog
        self._waits = 0

    def answer(self, body: Json) -> tuple[Exchange, str]:
        """The exchange with its reply, and the transport fault to act out, if any."""
        fault = self.next_fault()
        kind = self.kind_of(body)
        exchange = Exchange(
            len(self.exchanges) + 1, kind, time.monotonic(), redacted(body), fault=fault or ""
        )
        self.exchanges.append(exchange)
        if fault not in ("drop", "http500"):
            kept = self._queue.copy(), self._before
            step, exchange.reply = self.reply_to(kind, body)
            exchange.step = _json(vars(step))
            if fault or (kind == "executor" and self.random.random() < self.noise_share):
                # A spoilt reply may not be carried out: the next look decides afresh.
                self._queue, self._before = kept
                exchange.fault = fault or self.random.choice(list(NOISE))
                exchange.reply = self.spoil(
                    exchange.fault, FAULTS if fault else NOISE, exchange.reply
                )
        time.sleep(self.delay_s)
        return exchange, fault or ""

    def next_fault(self) -> str | None:
        return self.faults.pop(0) if self.faults else None

    def kind_of(self, body: Json) -> str:
        names = tool_names(body)
        if any(name in PLANNERS for name in names):
            return "planner"
        if names:
            return "executor"
        return (
            "verification"
            if any(True for message in body["messages"] for _ in images(message))
            else "other"
        )

    def reply_to(self, kind: str, body: Json) -> tuple[Step, Reply]:
        if kind == "planner":
            return Step("plan"), self.planner_reply(body)
        if kind == "executor":
            return self.executor_reply(body)
        if kind == "verification":
            png = fresh_image(body["messages"])
            marks = asked_marks(body)
            if marks:
                return Step("find"), _said(_json(find_marks(read_png(png or b""), marks)))
            step = decide(read_png(png or b""), self.task)
            return step, _said(
                ("YES: " if step.action == "done" else "NO: it is not finished. ") + step.why
            )
        return Step("talk"), _said("Ready.")

    def planner_reply(self, body: Json) -> Reply:
        names = tool_names(body)
        vocabulary = next(VOCABULARIES[name] for name in PLANNERS if name in names)
        asked = " ".join(texts([m for m in body["messages"] if m["role"] == "user"][-1]))
        tool, arguments = vocabulary.plan
        values: Json = {"text": PLAN, "why": "This is the shortest way to the goal."}
        if "ARCHIVE_NOW" in asked and vocabulary.archive[0] in names:
            tool, arguments = vocabulary.archive
            last = max([int(n) for n in re.findall(r"(?i)\bturn[ _#]*(\d+)", asked)], default=1)
            values = {
                "text": "The steps so far were carried out.",
                "why": "none",
                "turns": list(range(1, last + 1)),
            }
        return reply_with(tool, {name: values[source] for name, source in arguments.items()})

    def executor_reply(self, body: Json) -> tuple[Step, Reply]:
        names = tool_names(body)
        asked = " ".join(text for message in body["messages"] for text in texts(message))
        order = re.search(r"\bPress the key (\w+)\.", asked)
        if order and len(names) == 1:  # a test of tool calls
            return Step("key", key=order[1]), reply_with(next(iter(names)), {"key": order[1]})
        vocabulary = next((v for marker, v in VOCABULARIES.items() if marker in names), None)
        if vocabulary is None:
            return Step("lost"), _said("None of these tools is known to me.")
        if self._queue:
            return self._before, reply_with(*self._queue.pop(0))
        png = fresh_image(body["messages"])
        if png is None:
            step = Step("look")
            return step, reply_with(vocabulary.look, {}) if vocabulary.look else _said(
                "There is no picture here."
            )
        step = self.patient(decide(read_png(png), self.task))
        if step.action != "wait":
            self._before, self._starting = step, step.why == STARTED
        spoken = "key" if step.action == "wait" else step.action
        calls = speak(step, vocabulary.calls.get(spoken, []))
        if not calls or any(tool not in names for tool, _ in calls):
            return step, _said(step.why)
        self._queue = calls[1:]
        return step, reply_with(*calls[0])

    def patient(self, step: Step) -> Step:
        """Wait where a picture right after an act cannot show its effect yet: a program starts, a text is drawn."""
        last = self._before
        # Also after a spoilt reply: a client may well have carried it out.
        starting = self._starting and step.target == "Start button"
        unseen = step.action in ("type", "key") and step == last
        if self._waits < (8 if starting else 1 if unseen else 0):
            self._waits += 1
            return WAIT
        self._waits = 0
        if step == last and step.target == "Notepad page" and step.action == "click":
            return replace(
                step, action="key", key="escape", why="The click did not close the menu."
            )
        if unseen and step.action == "type" and step.position != (0, 0):
            return replace(
                step,
                action="click",
                why="The typed text did not appear; give the field the keyboard.",
            )
        return step

    def spoil(self, way: str, ways: dict[str, Callable[[str, Json], Reply]], reply: Reply) -> Reply:
        calls = reply.get("tool_calls")
        if not calls:
            return ways[way]("nothing", {})
        function = calls[0]["function"]
        return ways[way](function["name"], json.loads(function["arguments"]))

    def finish(self, exchange: Exchange) -> None:
        """Note when the answer leaves, and write the exchange to the log file."""
        exchange.answered = time.monotonic()
        if self.log:
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(_json(vars(exchange)) + "\n")

    # ---- what tests ask ----

    def client_seconds(self) -> list[float]:
        """The client's own time after each executor reply: until its next request arrived."""
        pairs = zip(self.exchanges, self.exchanges[1:], strict=False)
        return [
            after.arrived - before.answered for before, after in pairs if before.kind == "executor"
        ]

    def prefix_shares(self) -> list[float]:
        """For each executor request after the first: how much of its text starts as the one before did."""
        sent = [
            request_text(exchange.body)
            for exchange in self.exchanges
            if exchange.kind == "executor"
        ]
        return [
            shared_prefix(old, new) / len(new) for old, new in zip(sent, sent[1:], strict=False)
        ]


def request_text(body: Json) -> str:
    """A request's text in the order the server reads it: system, tools, then the other messages."""
    system = [text for m in body["messages"] if m["role"] == "system" for text in texts(m)]
    others = [text for m in body["messages"] if m["role"] != "system" for text in texts(m)]
    return "\n".join([*system, _json(body.get("tools") or []), *others])


def shared_prefix(old: str, new: str) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )


def redacted(value: Any) -> Any:
    """The same, with every picture replaced by its length and SHA-256."""
    if isinstance(value, dict):
        return {key: redacted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if isinstance(value, str) and value.startswith("data:image/"):
        png = base64.b64decode(value.partition(",")[2])
        return f"[{len(png)} bytes, sha256 {hashlib.sha256(png).hexdigest()}]"
    return value


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            mind = self.server.mind
            model = {"id": mind.model, "object": "model", "owned_by": "organization_owner"}
            self.send(200, {"object": "list", "data": [model]})
        elif self.path == "/api/v0/models":
            self.send(
                200,
                {
                    "object": "list",
                    "data": [
                        {
                            "id": self.server.mind.model,
                            "object": "model",
                            "type": "vlm",
                            "publisher": "qwen",
                            "arch": self.server.mind.architecture,
                            "compatibility_type": "gguf",
                            "quantization": "Q4_K_M",
                            "state": "loaded",
                            "max_context_length": 262144,
                            "loaded_context_length": 16384,
                            "capabilities": ["tool_use"],
                        }
                    ],
                },
            )
        else:
            self.unknown()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/v1/chat/completions":
            self.unknown()
            return
        mind = self.server.mind
        with mind.lock:
            try:
                exchange, fault = mind.answer(json.loads(raw))
            except (ValueError, KeyError, TypeError) as error:
                # What a real server does with a request it cannot read, and what a test then sees.
                self.server.errors.append(repr(error))
                self.send(400, {"error": f"Invalid request: {error!r}"})
                return
            mind.finish(exchange)  # before sending, so that whoever has the answer finds it noted
            if mind.faults[:1] == ["refuse"]:
                mind.next_fault()
                self.server.refuse()
            if fault == "drop":
                self.close_connection = True
            elif fault == "http500":
                self.send(
                    500,
                    {"error": {"message": "The model has crashed without additional information."}},
                )
            else:
                self.send(200, completion(exchange, mind.model))

    def unknown(self) -> None:
        self.send(404, {"error": f"Unexpected endpoint or method. ({self.command} {self.path})"})

    def send(self, status: int, body: Json) -> None:
        data = _json(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def completion(exchange: Exchange, model: str = MODEL) -> Json:
    reply = exchange.reply
    prompt = len(request_text(exchange.body)) // 4 + 1296 * _json(exchange.body).count(
        " bytes, sha256 "
    )
    return {
        "id": f"chatcmpl-{exchange.number:024d}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "logprobs": None,
                "message": reply,
                "finish_reason": "tool_calls" if reply.get("tool_calls") else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": (spoken := len(_json(reply)) // 4),
            "total_tokens": prompt + spoken,
        },
        "stats": {},
        "system_fingerprint": model,
    }


REFUSED_S = 1.2  # longer than the client thinks and waits before its first new try, shorter than all its tries


class ModelServer(ThreadingHTTPServer):
    """`with ModelServer(PixelModel(...)) as server:` serves on server.url until the block ends."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, mind: PixelModel, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.mind = mind
        self.errors: list[str] = []  # requests that could not be read
        self._absence: threading.Thread | None = None
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> ModelServer:
        threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def __exit__(self, *args: object) -> None:
        if self._absence:
            self._absence.join()
        self.shutdown()
        self.server_close()

    def refuse(self) -> None:
        """Nobody listens on the port for a while, beginning now; afterwards all is as before."""
        self.shutdown()
        self.socket.close()

        def listen_again() -> None:
            time.sleep(REFUSED_S)
            self.socket = socket.socket(self.address_family, self.socket_type)
            self.server_bind()
            self.server_activate()
            self.__enter__()

        self._absence = threading.Thread(target=listen_again, daemon=True)
        self._absence.start()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="A model server that decides from the pixels it is sent."
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--text", default=Task.text)
    parser.add_argument("--path", default=Task.path)
    parser.add_argument("--encoding", choices=["", "ansi", "utf-8"], default="")
    parser.add_argument(
        "--faults", default="", help="comma-separated, one a chat request; empty for a normal reply"
    )
    parser.add_argument("--noise", help="SEED:SHARE of executor replies to spoil, such as 7:0.3")
    parser.add_argument("--log", help="JSON lines: every request and its answer")
    parser.add_argument(
        "--delay", type=float, default=0.0, help="seconds of thinking before each reply"
    )
    options = parser.parse_args(argv)
    seed, _, share = (options.noise or "").partition(":")
    mind = PixelModel(
        Task(options.text, options.path, options.encoding),
        [fault or None for fault in options.faults.split(",")] if options.faults else [],
        (int(seed), float(share)) if options.noise else None,
        options.log,
        options.delay,
    )
    with ModelServer(mind, options.port) as server:
        print(server.server_address[1], flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
