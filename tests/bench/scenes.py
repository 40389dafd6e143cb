"""What a model is measured with: drawn screens with one thing to click, to read or to judge in each."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import agent
from tests.scripted import PlainDesktop

SIZES = (8, 12, 16, 24, 32, 48, 64)  # pixels of the shorter side of what is to be clicked
LETTERS = {9: 1, 18: 2}  # pixels of a text's height, by how large it is drawn
CELL = (190, 100)  # pixels that a thing and its words have at least
THINGS = 6  # in a picture
WORDS = (
    "Save Open Close Print Search Delete Options Network Sound Mail Photos Music Calendar Notes"
    " Backup Profile History Filter Export Import Report Update Weather Camera Archive Paint"
).split()
PHRASES = (
    "Invoice {} paid",
    "{} files left",
    "Room {}, second floor",
    "Order no. {}-B",
    "Version {}.4 ready",
    "Total: {} EUR",
)
THEMES = (  # behind everything, of a thing, of the words beside it, of what stands out
    (0xDDE3EA, 0xFFFFFF, 0x1B2430, 0x2457D6),
    (0x101418, 0x262C33, 0xF2F5F8, 0x4C8DF6),
    (0x2C4A6E, 0xD5DDE8, 0xF2F5F8, 0xB3401F),
    (0xF3EFE4, 0xFFFBF0, 0x3A2F1E, 0x2F7D4F),
)


class Thing(NamedTuple):
    """What stands on a drawn screen: `words` are on a button or row, beside a box or an icon."""

    kind: str
    place: agent.Rect
    words: str
    ticked: bool = False


@dataclass(frozen=True)
class Item:
    """One thing that is asked of a model, and what is known about the right answer."""

    part: str
    name: str  # unique, for the journal
    task: str
    things: tuple[Thing, ...] = ()  # the first one is to be clicked
    theme: int = 0
    expected: str = ""  # a text, a kind of act, or yes and no
    size: int = 0  # pixels: of the target, or of the letters
    kind: str = ""  # the grammar of a call


def pointing(seed: int, number: int, whole: agent.Rect) -> list[Item]:
    """Targets of all sizes in turn, each among others of its kind."""
    dice = random.Random(f"{seed} pointing")
    items = []
    for place in range(number):
        size = SIZES[place % len(SIZES)]
        # What is smaller than letters has its words beside it; of twins two have the same words.
        kinds = ("check box", "icon", "button", "list row", "twin")[: 2 if size < 16 else 5]
        items.append(pointed(dice, f"pointing {place + 1}", dice.choice(kinds), size, whole))
    return items


def pointed(dice: random.Random, name: str, kind: str, size: int, whole: agent.Rect) -> Item:
    """One target, something right above or below it, and other things elsewhere."""
    columns, rows = max(1, whole.width // CELL[0]), max(2, whole.height // CELL[1])
    width, height = whole.width // columns, whole.height // rows
    spots = [(column, row) for row in range(rows) for column in range(columns)]
    column, row = dice.choice(spots)
    beside = (column, row + 1 if row + 1 < rows else row - 1)
    others = [spot for spot in spots if spot not in ((column, row), beside)]
    dice.shuffle(others)
    words = dice.sample(WORDS, THINGS)
    shown, which = kind, ""
    if kind == "twin":
        shown, words[1] = "button", words[0]
        which = "upper " if row < beside[1] else "lower "
    things = []
    for spot, word in zip([(column, row), beside, *others], words, strict=False):
        cell = agent.Rect(spot[0] * width, spot[1] * height, width, height)
        things.append(Thing(shown, placed(dice, cell, shown, size, word), word))
    task = f'Click the {which}{shown} "{words[0]}".'
    return Item("pointing", name, task, tuple(things), dice.randrange(len(THEMES)), size=size)


def placed(dice: random.Random, cell: agent.Rect, kind: str, size: int, words: str) -> agent.Rect:
    """Where in its cell a thing stands; on it or beside it is room for its words."""
    room = text_width(words, 2) + 8
    width = {"button": max(size, room + 4), "list row": cell.width - 8}.get(kind, size)
    taken = width if kind in ("button", "list row") else width + room
    right = dice.randrange(max(1, cell.width - taken))
    down = dice.randrange(max(1, cell.height - size))
    return agent.Rect(cell.left + right, cell.top + down, width, size)


def text_width(words: str, scale: int) -> int:
    return agent.Canvas(1, 1).text(0, 0, words, 0, scale)


def reading(seed: int, number: int, whole: agent.Rect) -> list[Item]:
    """Texts of all heights in turn, to be typed as they stand."""
    dice = random.Random(f"{seed} reading")
    items = []
    for place in range(number):
        height = list(LETTERS)[place % len(LETTERS)]
        words = dice.choice(PHRASES).format(dice.randrange(100, 9999))
        width = text_width(words, LETTERS[height])
        left, top = dice.randrange(whole.width - width), dice.randrange(whole.height - height)
        shown = Thing("text", agent.Rect(left, top, width, height), words)
        task = "Type the text that the picture shows, exactly as it stands there, nothing else."
        item = Item("reading", f"reading {place + 1}", task, (shown,), 0, words, height)
        items.append(item)
    return items


CALLS = (
    ("Press the key escape.", "key"),
    ('Type "Hello, world".', "text"),
    ("Press ctrl and s together.", "key"),
    ('Type "42".', "text"),
    ("Press the key enter.", "key"),
)


def calling(number: int, grammars: Iterable[str]) -> list[Item]:
    """Orders that one certain kind of act carries out, in each grammar."""
    items = []
    for grammar in grammars:
        for place in range(number):
            task, kind = CALLS[place % len(CALLS)]
            name = f"calling {grammar} {place + 1}"
            items.append(Item("calling", name, task, expected=kind, kind=grammar))
    return items


def judging(seed: int, number: int, whole: agent.Rect) -> list[Item]:
    """Pairs of screens, finished and not, about which the same is claimed."""
    dice = random.Random(f"{seed} judging")
    items = []
    for place in range(number):
        left = dice.randrange(whole.width // 2)
        at = agent.Rect(left, dice.randrange(whole.height - 40), 32, 32)
        word, other = dice.sample(WORDS, 2)
        wide = at._replace(width=200)
        task, *pair = (
            (f'Tick the box "{word}".', Thing("check box", at, word, True)),
            (f'Choose "{word}" on the button.', Thing("button", wide, word)),
            (f'Write "{word} 12".', Thing("text", wide, f"{word} 12")),
        )[place % 3]
        pair.append(pair[0]._replace(ticked=False, words=word if place % 3 == 0 else other))
        for expected, thing in zip(("yes", "no"), pair, strict=True):
            name = f"judging {place + 1} {expected}"
            items.append(Item("judging", name, task, (thing,), expected=expected))
    return items


# -- drawing


def drawn(item: Item, whole: agent.Rect) -> bytes:
    """The item's screen as BGRX."""
    canvas = agent.Canvas(whole.width, whole.height)
    back, pane, ink, accent = THEMES[item.theme]
    canvas.fill(whole, back)
    # Never one single colour, which a run takes for a screen that is switched off.
    canvas.fill(agent.Rect(0, whole.height - 8, whole.width, 8), accent)
    for thing in item.things:
        place = thing.place
        middle = place.top + place.height // 2
        if thing.kind == "text":
            canvas.text(place.left, place.top, thing.words, 0, LETTERS.get(place.height, 2))
        elif thing.kind in ("button", "list row"):
            is_button = thing.kind == "button"
            canvas.fill(place, accent if is_button else pane, min(6, place.height // 4))
            scale = 2 if place.height >= 20 else 1
            colour = 0xFFFFFF if is_button else 0x1B2430
            canvas.text(place.left + 6, middle - 9 * scale // 2, thing.words, colour, scale)
        else:
            rim = place.width // 4 if thing.kind == "icon" else max(1, place.width // 10)
            canvas.fill(place, accent, place.width // 6)
            if not thing.ticked:
                canvas.fill(inside(place, rim), pane)
            canvas.text(place.right + 6, middle - 9, thing.words, ink)
    return bytes(canvas.pixels)


def inside(place: agent.Rect, rim: int) -> agent.Rect:
    side = place.width - 2 * rim
    return agent.Rect(place.left + rim, place.top + rim, side, side)


class Drawing(PlainDesktop):
    """A desktop that shows an item's screen, and notes what is done to it."""

    def __init__(self, item: Item, whole: agent.Rect, clock: agent.Clock) -> None:
        super().__init__(clock)
        self.whole = whole
        self.pixels = array("I", drawn(item, whole))

    def screen(self) -> agent.Rect:
        return self.whole

    primary = screen

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        if (width, height) == (self.whole.width, self.whole.height):
            return self.pixels.tobytes()
        shown = array("I")
        for row in range(height):
            begin = (area.top + row * area.height // height) * self.whole.width
            places = (begin + area.left + x * area.width // width for x in range(width))
            shown.extend(self.pixels[place] for place in places)
        return shown.tobytes()

    @property
    def first(self) -> str:
        """The kind of the first input but the mouse's way: button, key, text, wheel ..."""
        return next((event[0] for event in self.inputs if event[0] != "move"), "")

    @property
    def clicked(self) -> tuple[int, int] | None:
        """Where the first click was."""
        place = (0, 0)
        for event in self.inputs:
            if event[0] == "move":
                place = event[1:]
            if event[0] == "button":
                return place
        return None

    @property
    def typed(self) -> str:
        return "".join(event[1] for event in self.inputs if event[0] == "text")
