"""A model that presses buttons and misses now and then, for buttons.py and engine_driver.py.

A window has 30 named buttons, ten of them small. The model is to press one after the other, and misses 20 % of its
clicks onto a neighbour; of what it is told it takes the place, with the same aim.
"""

from __future__ import annotations

import random
import re
from typing import Any, NamedTuple

import agent
from tests.scripted import PROOF, Trial, call

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


class Model:
    """Presses so many buttons, chosen by chance, each until it was pressed or another one was, but now and then a
    neighbour; `placed` are where `area` shows them, and `pressed` grows with each."""

    def __init__(
        self,
        seed: int,
        placed: list[agent.Control],
        area: agent.Rect,
        pressed: list[str],
        presses: int,
    ) -> None:
        self.chance = random.Random(seed)
        self.placed, self.area = placed, area
        self.pressed, self.presses = pressed, presses
        self.begun = len(pressed)
        self.wanted: list[str] = []

    @property
    def wrong(self) -> int:
        """How many other buttons were pressed."""
        pairs = zip(self.pressed[self.begun :], self.wanted, strict=False)
        return sum(pressed != wanted for pressed, wanted in pairs)

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        done = len(self.pressed) - self.begun
        if done == self.presses:
            return call("report_mission_complete", evidence=PROOF)
        if done == len(self.wanted):
            self.wanted.append(self.chance.choice(NAMES))
        return self.press(self.wanted[-1], request)

    def press(self, wanted: str, request: dict[str, Any]) -> dict[str, Any]:
        target = next(button for button in self.placed if button.name == wanted)
        place = self.centre(target)
        last = str(request["messages"][-1]["content"])
        told = re.search(rf"'{wanted}' is at \[(\d+), (\d+)\]", last)
        if told:
            place = (int(told[1]), int(told[2]))
        if self.chance.random() < MISSES:
            place = self.centre(self.chance.choice(self.neighbours(target)))
        return call(
            "click_screen_element",
            element_name=wanted,
            position=list(place),
            reasoning="next",
        )

    def centre(self, button: agent.Control) -> tuple[int, int]:
        """The middle of a button on the grid."""
        rect, area = button.rect, self.area
        x = (rect.left + rect.width // 2 - area.left) * 1000 / (area.width - 1)
        y = (rect.top + rect.height // 2 - area.top) * 1000 / (area.height - 1)
        return round(x), round(y)

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


# One role that acts, without a planner before it and a judge behind it.
SETTINGS = {
    "executor_grammar": "tools",
    "confirm": "never",
    "max_steps": 100_000,
    "auto_zoom": False,
    "verify_completion": False,
    "last_look": False,
    "stall_stop": 0,
}


def press_all(trial: Trial, model: Model) -> Figures:
    """A run that presses what its model wants."""
    trial.server.decide = model
    trial.run()
    return Figures(model.wrong, trial.state.turn, len(trial.requests))


def line(controls: str, presses: int, found: Figures) -> str:
    """The figures of one setting as a line."""
    return (
        f"controls={controls}: {found.wrong} of {presses} presses wrong,"
        f" {found.turns} turns, {found.requests} requests"
    )
