"""What a model is measured with: drawn screens with one thing to click, to read or to judge in each."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

import agent
from tests.scripted import PlainDesktop

SIZES = (8, 16, 24, 32, 48)  # pixels of the height of what is to be clicked
LETTERS = {9: 1, 18: 2}  # pixels of a text's height, by how large it is drawn
CELL = 200, 100  # pixels that a thing and its words have
THINGS = 6  # in a picture
WORDS = (
    "Save Open Close Print Search Delete Options Network Sound Mail Photos Music Calendar Notes"
    " Backup Profile History Filter Export Import Report Update Weather Camera Archive Paint"
).split()
PHRASES = ("Invoice {} paid", "Room {}, second floor", "Order no. {}-B", "Total: {} EUR")
BACK, PANE, INK, ACCENT = 0xDDE3EA, 0xFFFFFF, 0x1B2430, 0x2457D6
CALLS = (("Press the key escape.", "key"), ('Type "Hello, world".', "text"), ("Press ctrl and s together.", "key"))  # fmt: skip


class Thing(NamedTuple):
    """What stands on a drawn screen: `words` are on a button or beside a check box."""

    kind: str
    place: agent.Rect
    words: str
    ticked: bool = False


class Item(NamedTuple):
    """One thing that is asked of a model, and the right answer."""

    part: str
    name: str  # unique, for the journal
    task: str
    things: tuple[Thing, ...] = ()  # the first one is to be clicked
    expected: str = ""  # a text, a kind of act, or yes and no
    kind: str = ""  # the pixels of a target or of letters, or the grammar of a call


def pointing(dice: random.Random, number: int, whole: agent.Rect) -> Iterable[Item]:
    """A target of each size in turn, among others like it; what is too small for its words has them beside it."""
    columns, rows = max(1, whole.width // CELL[0]), max(1, whole.height // CELL[1])
    for place in range(number):
        size = SIZES[place % len(SIZES)]
        kind, width = ("check box", size) if size < 24 else ("button", 150)
        spots = [(column, row) for row in range(rows) for column in range(columns)]
        dice.shuffle(spots)
        things = []
        for (column, row), word in zip(spots, dice.sample(WORDS, THINGS), strict=False):
            left = column * CELL[0] + dice.randrange(CELL[0] - 150)
            top = row * CELL[1] + dice.randrange(CELL[1] - size - 8)
            things.append(Thing(kind, agent.Rect(left, top, width, size), word))
        task = f'Click the {kind} "{things[0].words}".'
        yield Item("pointing", f"pointing {place}", task, tuple(things), kind=str(size))


def reading(dice: random.Random, number: int, whole: agent.Rect) -> Iterable[Item]:
    """Texts of all heights in turn, to be typed as they stand."""
    for place in range(number):
        height = list(LETTERS)[place % len(LETTERS)]
        words = dice.choice(PHRASES).format(dice.randrange(100, 9999))
        left, top = dice.randrange(whole.width // 3), dice.randrange(whole.height - height - 8)
        shown = Thing("text", agent.Rect(left, top, whole.width // 2, height), words)
        task = "Type the text that the picture shows, exactly as it stands there, nothing else."
        yield Item("reading", f"reading {place}", task, (shown,), words, str(height))


def calling(number: int, grammars: Iterable[str]) -> Iterable[Item]:
    """Orders that one certain kind of act carries out, in each grammar."""
    for grammar in grammars:
        for place in range(number):
            task, act = CALLS[place % len(CALLS)]
            yield Item("calling", f"{grammar} {place}", task, expected=act, kind=grammar)


def judging(dice: random.Random, number: int, whole: agent.Rect) -> Iterable[Item]:
    """Pairs of screens, finished and not, about which the same is claimed."""
    for place in range(number):
        left, top = dice.randrange(whole.width // 2), dice.randrange(whole.height - 40)
        word, other = dice.sample(WORDS, 2)
        box = Thing("check box", agent.Rect(left, top, 32, 32), word, ticked=True)
        note = Thing("text", agent.Rect(left, top, 200, 18), f"{word} 12")
        task, done, undone = (
            (f'Tick the box "{word}".', box, box._replace(ticked=False)),
            (f'Write "{word} 12".', note, note._replace(words=f"{other} 12")),
        )[place % 2]
        for expected, thing in (("yes", done), ("no", undone)):
            yield Item("judging", f"judging {place} {expected}", task, (thing,), expected)


def drawn(item: Item, whole: agent.Rect) -> bytes:
    """The item's screen as BGRX."""
    canvas = agent.Canvas(whole.width, whole.height)
    canvas.fill(whole, BACK)
    # Never one single colour, which a run takes for a screen that is switched off.
    canvas.fill(agent.Rect(0, whole.height - 8, whole.width, 8), ACCENT)
    for kind, place, words, ticked in item.things:
        middle = place.top + place.height // 2
        if kind == "text":
            canvas.text(place.left, place.top, words, 0, LETTERS[place.height])
            continue
        canvas.fill(place, ACCENT)
        if kind == "button":
            canvas.text(place.left + 6, middle - 9, words, PANE, 2)
            continue
        rim = max(1, place.width // 10)
        if not ticked:
            side = place.width - 2 * rim
            canvas.fill(agent.Rect(place.left + rim, place.top + rim, side, side), PANE)
        canvas.text(place.right + 6, middle - 9, words, INK, 2)
    return bytes(canvas.pixels)


class Drawing(PlainDesktop):
    """A desktop that shows an item's screen, and notes what is done to it."""

    def __init__(self, item: Item, whole: agent.Rect, clock: agent.Clock) -> None:
        super().__init__(clock)
        self.whole = whole
        self.pixels = drawn(item, whole)

    def screen(self) -> agent.Rect:
        return self.whole

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        return agent.scale_bgrx(self.pixels, self.whole.width, area, width, height)
