"""How many clicks land on another control than the one that was meant, with the check and without.

    python -m tests.bench.misclicks [PRESSES] [SEED]

A drawn window has 30 named buttons, ten of them small. A model is to press one after the other, and misses 20 % of
its clicks onto a neighbour; of what it is told it takes the place, with the same aim. Prints, for each setting of
`controls`, the wrong presses, and the turns and requests that all of it took. tests/wine/buttons.py does the same with
real buttons on a real Win32 desktop.
"""

from __future__ import annotations

import random
import re
import sys
from typing import Any, NamedTuple

import agent
from tests.scripted import EngineCase, PlainDesktop, call

MISSES = 0.2
COLUMNS = 6
NAMES = (
    "Open Save Print Find Undo Redo Cut Copy Paste Delete Bold Italic Left Right Center Table Chart Shape"
    " Insert Remove Up Down First Last Zoom Help Share Mail Lock Exit"
).split()


def buttons() -> list[agent.Control]:
    """Five rows of six; every third one is 16 pixels wide and high, the others 80 by 24."""
    made = []
    for number, name in enumerate(NAMES):
        left = 40 + number % COLUMNS * 90
        top = 40 + number // COLUMNS * 34
        size = (16, 16) if number % 3 == 0 else (80, 24)
        made.append(agent.Control(name, "button", agent.Rect(left, top, *size), window=1))
    return made


class ButtonWindow(PlainDesktop):
    """A window with these buttons; `pressed` are the names of those that were."""

    def __init__(self, clock: agent.Clock) -> None:
        super().__init__(clock)
        window = agent.Control("Buttons", "window", self.screen(), window=1)
        self.known = agent.KnownControls([*buttons(), window])
        self.pressed: list[str] = []

    def screen(self) -> agent.Rect:
        return agent.Rect(0, 0, 640, 360)

    primary = screen

    def button(self, name: str, down: bool) -> None:
        super().button(name, down)
        hit = self.known.control_at(self.place)
        if down and hit:
            self.pressed.append(hit.name)


class Model:
    """Presses the buttons that it is asked for, but now and then a neighbour; `placed` are where `area` shows them."""

    def __init__(self, seed: int, placed: list[agent.Control], area: agent.Rect) -> None:
        self.chance = random.Random(seed)
        self.placed = placed
        self.area = area
        self.wanted = ""

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        target = next(button for button in self.placed if button.name == self.wanted)
        place = self.centre(target)
        last = str(request["messages"][-1]["content"])
        told = re.search(rf"'{self.wanted}' is at \[(\d+), (\d+)\]", last)
        if told:
            place = agent.Coordinate(int(told[1]), int(told[2]))
        if self.chance.random() < MISSES:
            place = self.centre(self.chance.choice(self.neighbours(target)))
        return call(
            "click_screen_element",
            element_name=self.wanted,
            position=[place.x, place.y],
            reasoning="next",
        )

    def centre(self, button: agent.Control) -> agent.Coordinate:
        return agent.to_grid(agent.middle_of(button.rect), self.area)

    def neighbours(self, target: agent.Control) -> list[agent.Control]:
        """The buttons beside, above and below."""
        at = self.placed.index(target)
        column = at % COLUMNS
        places = [at - COLUMNS, at + COLUMNS]
        places += [at - 1] if column else []
        places += [at + 1] if column < COLUMNS - 1 else []
        return [self.placed[place] for place in places if 0 <= place < len(self.placed)]


class Figures(NamedTuple):
    """What the presses of a run came to."""

    wrong: int
    turns: int
    requests: int


SETTINGS = {"confirm": "never", "max_steps": 100_000, "auto_zoom": False}


def press_all(
    engine: agent.Engine,
    state: agent.AgentState,
    model: Model,
    pressed: list[str],
    presses: int,
) -> Figures:
    """So many buttons, chosen by chance, each until it was pressed or another one was; `pressed` grows with each."""
    wrong = 0
    state.execution_instructions = "Press the buttons."
    for _ in range(presses):
        model.wanted = model.chance.choice(NAMES)
        before = len(pressed)
        while len(pressed) == before:
            state.increment_turn()
            state.mode = "EXECUTION"
            agent.execute_turn(engine, state)
        wrong += pressed[-1] != model.wanted
    return Figures(wrong, state.turn, engine.voice.requests)


class Bench(EngineCase):
    """Wires an engine as the tests do."""

    desktop_type = ButtonWindow

    def runTest(self) -> None:
        """Nothing: the bench calls `measure`."""

    def measure(self, controls: str, presses: int, seed: int) -> Figures:
        """The figures of one setting on the drawn window."""
        model = Model(seed, buttons(), agent.Rect(0, 0, 640, 360))
        engine, state = self.engine(model, controls=controls, **SETTINGS)
        desktop = engine.eyes.desktop
        assert isinstance(desktop, ButtonWindow)
        return press_all(engine, state, model, desktop.pressed, presses)


def measure(controls: str, presses: int, seed: int) -> Figures:
    """The figures of one setting, in a folder that goes away."""
    bench = Bench()
    bench.setUp()
    try:
        return bench.measure(controls, presses, seed)
    finally:
        bench.doCleanups()


def line(controls: str, presses: int, found: Figures) -> str:
    """The figures of one setting as a line."""
    return (
        f"controls={controls}: {found.wrong} of {presses} presses wrong,"
        f" {found.turns} turns, {found.requests} requests"
    )


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for setting in ("off", "check"):
        found = measure(setting, number, first)
        print(line(setting, number, found))
