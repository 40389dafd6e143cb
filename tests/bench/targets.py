"""Drawn screens with one thing to find, to read or to judge in each."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from agent import (
    Canvas,
    DemoState,
    PngEncoder,
    Point,
    Rect,
    Stop,
    SystemClock,
    scale_bgrx,
    verifier_text,
)
from tests import drawn
from tests.drawn import DrawnDesktop, DrawnState

BENCH_PROMPT = """You see a picture of a computer's screen and do with one tool call what you are \
asked for. Positions are [x, y] on a grid over the screenshot: [0, 0] top left, [1000, 0] \
top right, [1000, 1000] bottom right. Aim at an element's centre."""
READING_PROMPT = "You read texts in pictures. Answer with the text alone, exactly as it stands."
READING_QUESTION = "What does the black text say?"


def text_width(words: str, scale: int) -> int:
    """How wide a drawn text is, in pixels."""
    return Canvas(1, 1).text(0, 0, words, 0, scale)


def pointing_text(kind: str, words: str, which: str) -> str:
    """The request to click one thing of a drawn screen; `which` tells two of a name apart."""
    return f'Click the {which}{kind} "{words}".'


LETTER_ROWS = 9  # of the drawn letters, before they are enlarged
BENCH_SIZES = (8, 12, 16, 24, 32, 48, 64)  # pixels of the shorter side
BENCH_CELL = Rect(0, 0, 190, 100)  # what a thing and its words have at most
BENCH_THINGS = 6  # in a picture
READING_HEIGHTS = (9, 10, 11, 12, 13, 14)  # pixels
READING_SCALE = 3  # drawn so large, then made smaller
BENCH_WORDS = (
    "Save Open Close Print Search Delete Options Network Sound Mail Photos Music Calendar Notes"
    " Backup Profile History Filter Export Import Report Update Weather Camera Archive Paint"
).split()
READING_PHRASES = (
    "Invoice {} paid",
    "{} files left",
    "Room {}, second floor",
    "Order no. {}-B",
    "Version {}.4 ready",
    "Total: {} EUR",
)


class BenchTheme(NamedTuple):
    """Colours of a drawn screen."""

    back: int
    pane: int
    ink: int
    accent: int


BENCH_THEMES = (
    BenchTheme(
        back=0xDDE3EA,
        pane=0xFFFFFF,
        ink=0x1B2430,
        accent=0x2457D6,
    ),
    BenchTheme(
        back=0x101418,
        pane=0x262C33,
        ink=0xF2F5F8,
        accent=0x4C8DF6,
    ),
    BenchTheme(
        back=0x2C4A6E,
        pane=0xD5DDE8,
        ink=0xF2F5F8,
        accent=0xB3401F,
    ),
    BenchTheme(
        back=0xF3EFE4,
        pane=0xFFFBF0,
        ink=0x3A2F1E,
        accent=0x2F7D4F,
    ),
)


class BenchThing(NamedTuple):
    """A thing on a drawn screen: `words` stand on it, or beside it where they have no room."""

    kind: str
    place: Rect
    words: str


class BenchText(NamedTuple):
    """A text to be read: its height in pixels, and where its left upper corner is."""

    words: str
    height: int
    place: Point


@dataclass(frozen=True)
class BenchScene:
    """A drawn screen of things or with a text, or the demo desktop in that state."""

    theme: BenchTheme = BENCH_THEMES[0]
    things: Sequence[BenchThing] = ()
    demo: DemoState | None = None
    text: BenchText | None = None


@dataclass(frozen=True)
class BenchItem:
    """One request of the bench, and what is known about its right answer."""

    part: str
    name: str  # unique, for the journal
    question: str
    scene: BenchScene | None
    expected: str = ""  # a text, a tool, or yes and no
    size: int = 0  # pixels: of the target, or of the letters
    kind: str = ""

    @property
    def target(self) -> Rect:
        """What is to be clicked: the first thing of the scene."""
        return self._places[0]

    @property
    def neighbours(self) -> list[Rect]:
        """The other things."""
        return self._places[1:]

    @property
    def _places(self) -> list[Rect]:
        """Where the things of the scene are."""
        if not self.scene:
            return []
        return [thing.place for thing in self.scene.things]


class Middle(NamedTuple):
    """The centre of something, in whatever unit, unrounded."""

    x: float
    y: float


def centre_of(rect: Rect) -> Middle:
    """The centre of a rectangle in pixels."""
    right = rect.right - 1
    bottom = rect.bottom - 1
    return Middle(
        x=(rect.left + right) / 2,
        y=(rect.top + bottom) / 2,
    )


def grid_place(rect: Rect, whole: Rect) -> Middle:
    """The centre of a rectangle on the grid, as `to_point` places it."""
    middle = centre_of(rect)
    return Middle(
        x=middle.x * 1000 / (whole.width - 1),
        y=middle.y * 1000 / (whole.height - 1),
    )


# Which kinds of things there are of a size; what is smaller than letters has them beside it.
SMALL_KINDS = ("check box", "icon")
LARGE_KINDS = ("button", "list row", "check box", "icon", "twin")


def pointing_items(seed: int, number: int, whole: Rect) -> list[BenchItem]:
    """Targets of all sizes in turn, each among others of its kind."""
    dice = random.Random(f"{seed} pointing")
    items: list[BenchItem] = []
    for place in range(number):
        size = BENCH_SIZES[place % len(BENCH_SIZES)]
        kinds = SMALL_KINDS if size < 16 else LARGE_KINDS
        kind = dice.choice(kinds)
        items.append(_pointing_item(dice, f"pointing {place + 1}", kind, size, whole))
    return items


def _pointing_item(dice: random.Random, name: str, kind: str, size: int, whole: Rect) -> BenchItem:
    """One target in a screen of its own."""
    cells = _cells_of(dice, whole)
    words = dice.sample(BENCH_WORDS, BENCH_THINGS)
    shown = "button" if kind == "twin" else kind
    which = ""
    if kind == "twin":
        words[1] = words[0]
        which = "upper " if cells[0].top < cells[1].top else "lower "
    things: list[BenchThing] = []
    for cell, word in zip(cells, words, strict=False):
        place = _place_in(dice, cell, shown, size, word)
        things.append(BenchThing(shown, place, word))
    scene = BenchScene(dice.choice(BENCH_THEMES), tuple(things))
    question = pointing_text(shown, words[0], which)
    return BenchItem("pointing", name, question, scene, size=size, kind=kind)


def _cells_of(dice: random.Random, whole: Rect) -> list[Rect]:
    """Places for things: any one, the one right above or below it, and any others."""
    columns = max(1, whole.width // BENCH_CELL.width)
    rows = max(2, whole.height // BENCH_CELL.height)
    width = whole.width // columns
    height = whole.height // rows
    cells: list[Rect] = []
    for row in range(rows):
        for column in range(columns):
            cell = Rect(
                left=column * width,
                top=row * height,
                width=width,
                height=height,
            )
            cells.append(cell)
    first = dice.choice(cells)
    down = height
    if first.top + height not in range(0, rows * height, height):
        down = -height
    beside = first.moved(0, down)
    others = [cell for cell in cells if cell not in (first, beside)]
    dice.shuffle(others)
    return [first, beside, *others[: BENCH_THINGS - 2]]


def _place_in(dice: random.Random, cell: Rect, kind: str, size: int, words: str) -> Rect:
    """Where in its cell a thing stands; beside or on it there is room for its words."""
    room_for_words = text_width(words, 2) + 8
    width = size
    if kind == "button":
        width = max(size, room_for_words + 4)
        room_for_words = 0
    if kind == "list row":
        width = cell.width - 8
        room_for_words = 0
    free = cell.width - width - room_for_words
    to_right = dice.randrange(max(1, free))
    down = dice.randrange(max(1, cell.height - size))
    return Rect(
        left=cell.left + to_right,
        top=cell.top + down,
        width=width,
        height=size,
    )


def reading_items(seed: int, number: int, whole: Rect) -> list[BenchItem]:
    """Texts of all heights in turn."""
    dice = random.Random(f"{seed} reading")
    items: list[BenchItem] = []
    for place in range(number):
        height = READING_HEIGHTS[place % len(READING_HEIGHTS)]
        phrase = dice.choice(READING_PHRASES)
        words = phrase.format(dice.randrange(100, 9999))
        corner = Point(
            x=dice.randrange(max(1, whole.width - 260)),
            y=dice.randrange(max(1, whole.height - 20)),
        )
        item = BenchItem(
            part="reading",
            name=f"reading {place + 1}",
            question=READING_QUESTION,
            scene=BenchScene(text=BenchText(words, height, corner)),
            expected=words,
            size=height,
        )
        items.append(item)
    return items


class CallTask(NamedTuple):
    """An order in words, and the tool that carries it out."""

    order: str
    tool: str


CALL_TASKS = (
    CallTask("Press the key escape.", "press_key"),
    CallTask('Type "Hello, world".', "type_text"),
    CallTask("Press ctrl and s together.", "press_key"),
    CallTask('Type "42".', "type_text"),
    CallTask("Press the key enter.", "press_key"),
)
BENCH_GRAMMARS = ("tools", "text")


def calling_items(number: int, grammars: Iterable[str] = BENCH_GRAMMARS) -> list[BenchItem]:
    """Orders that one certain tool carries out, in each grammar."""
    items: list[BenchItem] = []
    for grammar in grammars:
        for place in range(number):
            task = CALL_TASKS[place % len(CALL_TASKS)]
            item = BenchItem(
                part="calling",
                name=f"calling {grammar} {place + 1}",
                question=task.order,
                scene=None,
                expected=task.tool,
                kind=grammar,
            )
            items.append(item)
    return items


def cost_items() -> list[BenchItem]:
    """The words of the reading part without a picture: what it has more is what a picture costs."""
    return [BenchItem(part="cost", name="cost 1", question=READING_QUESTION, scene=None)]


def task_items(profiles: Iterable[str], runs: int = 1) -> list[BenchItem]:
    """The demo's tasks, each so many times with the whole loop of each of these profiles."""
    items: list[BenchItem] = []
    for profile, task, run in product(profiles, drawn.TASKS.values(), range(1, runs + 1)):
        item = BenchItem(
            part="tasks",
            name=f"tasks {profile} {task.name} {run}",
            question=task.text,
            scene=None,
            expected=task.name,
            kind=profile,
        )
        items.append(item)
    return items


class JudgedPair(NamedTuple):
    """The demo desktop finished and not, and what the verifier is asked about both."""

    finished: DemoState
    unfinished: DemoState
    check: str


def judging_items(seed: int, number: int) -> list[BenchItem]:
    """Pairs of screens with the same question to both."""
    dice = random.Random(f"{seed} judging")
    items: list[BenchItem] = []
    for place in range(number):
        make_pair = JUDGED_PAIRS[place % len(JUDGED_PAIRS)]
        pair = make_pair(dice)
        question = verifier_text(pair.check, "It is done.", [pair.check])
        states = {"yes": pair.finished, "no": pair.unfinished}
        for expected, state in states.items():
            item = BenchItem(
                part="judging",
                name=f"judging {place + 1} {expected}",
                question=question,
                scene=BenchScene(demo=state),
                expected=expected,
            )
            items.append(item)
    return items


def _saved_pair(dice: random.Random) -> JudgedPair:
    """A note that is saved, or was only written."""
    word = dice.choice(BENCH_WORDS)
    text = f"{word} {dice.randrange(10, 99)}"
    written = DemoState(opened=True, text=text)
    saved = replace(written, saved_text=text)
    return JudgedPair(saved, written, f'Notes holds the text "{text}" and is saved')


def _settings_pair(dice: random.Random) -> JudgedPair:
    """A setting that was kept, or a dialog that is still open, ticked or not."""
    before = DrawnState()
    kept = replace(before, night_light=True, ticked=True, settings_kept=True)
    ticked = dice.random() < 0.5
    waiting = replace(before, program="Settings", ticked=ticked)
    return JudgedPair(kept, waiting, "The night light is on and the settings are closed")


def _call_pair(dice: random.Random) -> JudgedPair:
    """A contact who is called, or only picked."""
    before = DrawnState(program="Contacts")
    name = dice.choice(before.contacts_shown)
    picked = replace(before, picked=name)
    called = replace(picked, called=name)
    return JudgedPair(called, picked, f"Contacts is calling {name}")


JUDGED_PAIRS = (_saved_pair, _settings_pair, _call_pair)


# -- drawing, only when a picture is needed


def bench_picture(scene: BenchScene, whole: Rect) -> bytes:
    """The screen as the base64 text of a PNG."""
    pixels = _demo_pixels(scene.demo, whole) if scene.demo else _scene_pixels(scene, whole)
    return PngEncoder().encode(pixels, whole.width, whole.height).base64


def _demo_pixels(state: DemoState, whole: Rect) -> bytes:
    """The demo desktop in that size."""
    desktop = DrawnDesktop(SystemClock(Stop()), state)
    return desktop.glance(desktop.screen(), whole.width, whole.height)


def _scene_pixels(scene: BenchScene, whole: Rect) -> bytes:
    """The things of a scene, or its text."""
    canvas = Canvas(whole.width, whole.height)
    canvas.fill(whole, scene.theme.back)
    for thing in scene.things:
        if thing.kind in WORDED_KINDS:
            _draw_worded(canvas, thing, scene.theme)
        else:
            _draw_small(canvas, thing, scene.theme)
    if scene.text:
        _draw_reading(canvas, scene.text)
    return bytes(canvas.pixels)


WORDED_KINDS = ("button", "list row")


def _draw_worded(canvas: Canvas, thing: BenchThing, theme: BenchTheme) -> None:
    """A button or a row, its words inside."""
    colour = theme.pane
    ink = theme.ink
    if thing.kind == "button":
        colour = theme.accent
        ink = drawn.LIGHT
    place = thing.place
    canvas.fill(place, colour, min(6, place.height // 4))
    scale = 2 if place.height >= 20 else 1
    half = LETTER_ROWS * scale // 2
    middle = place.top + place.height // 2
    canvas.text(place.left + 6, middle - half, thing.words, ink, scale)


def _draw_small(canvas: Canvas, thing: BenchThing, theme: BenchTheme) -> None:
    """A check box, which is empty, or an icon; its words stand to the right."""
    place = thing.place
    rim = place.width // 4
    if thing.kind == "check box":
        rim = max(1, place.width // 10)
    canvas.fill(place, theme.accent, place.width // 6)
    inside = Rect(
        left=place.left + rim,
        top=place.top + rim,
        width=place.width - 2 * rim,
        height=place.height - 2 * rim,
    )
    canvas.fill(inside, theme.pane)
    middle = place.top + place.height // 2
    canvas.text(place.right + 6, middle - LETTER_ROWS, thing.words, theme.ink)


def _draw_reading(canvas: Canvas, text: BenchText) -> None:
    """Black letters on white, made smaller from larger ones."""
    rows = LETTER_ROWS * READING_SCALE
    columns = text_width(text.words, READING_SCALE)
    whole = Rect(0, 0, columns, rows)
    large = Canvas(columns, rows)
    large.fill(whole, 0xFFFFFF)
    large.text(0, 0, text.words, 0x000000, READING_SCALE)
    width = columns * text.height // rows
    small = scale_bgrx(bytes(large.pixels), columns, whole, width, text.height)
    x, y = text.place
    length = min(width, canvas.width - x) * 4
    height = min(text.height, canvas.height - y)
    for row in range(height):
        source = row * width * 4
        target = (y + row) * canvas.width + x
        line = small[source : source + length]
        canvas.pixels[target * 4 : target * 4 + length] = line
