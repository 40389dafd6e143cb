"""The demo's drawn desktop with two programs more, for models that are measured: a dialog with a small check box, and
a list that has to be scrolled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import agent
from agent import Canvas, DemoDesktop, DemoState, Rect

CONTACTS = "Ada Ben Cleo Dario Emma Finn Greta Hugo Iris Jonas Mira Otto Paula Zoe".split()
ROWS = 8  # of the contacts that the list shows
HANDLE = 4  # of the window of either program
# By these colours a model that reads pixels knows what it sees, as by those of the demo.
SIGNS = {
    "Settings icon": 0x9FB4D2,
    "Settings pin": 0x8DA4C6,
    "Contacts icon": 0x45B8A9,
    "Contacts pin": 0x37AA9D,
    "check box": 0xE6EEF9,
    "ticked box": 0x3A6FD8,
    "OK button": 0x2559D9,
    "Call button": 0x2A5BDB,
    "night light mark": 0x2DA650,
    "call mark": 0x2DA852,
}
SCREEN = Rect(0, 0, 1280, 720)
WRITES = {"space": " ", "enter": "\n", "tab": "    "}
LIGHT, PANE, LINE, INK, GREY = 0xF8FAFC, 0xEEF2F7, 0xD3DBE6, 0x1B2430, 0x5B6675


GROUND = DemoState().places()["desktop"]


def place(rect: Rect, name: str, role: str, window: int = HANDLE) -> Any:
    """A place as the demo has them."""
    return replace(GROUND, rect=rect, name=name, role=role, window=window)


LAUNCHERS = {
    "Settings icon": place(Rect(28, 148, 92, 104), "Settings", "list item", 3),
    "Settings pin": place(Rect(58, 677, 38, 38), "Settings", "button", 3),
    "Contacts icon": place(Rect(28, 268, 92, 104), "Contacts", "list item", 3),
    "Contacts pin": place(Rect(106, 677, 38, 38), "Contacts", "button", 3),
}
SETTINGS = {
    "check box": place(Rect(444, 262, 14, 14), "Night light", "checkbox"),
    "OK button": place(Rect(636, 440, 104, 40), "OK", "button"),
    "Cancel button": place(Rect(752, 440, 104, 40), "Cancel", "button"),
    "program": place(Rect(400, 170, 480, 330), "Settings", "window"),
}
CALL = place(Rect(742, 504, 108, 40), "Call", "button")
CONTACTS_WINDOW = Rect(430, 84, 440, 484)


@dataclass(frozen=True)
class DrawnState(DemoState):
    """What that desktop knows."""

    program: str = ""  # the one that is open beside Notes
    ticked: bool = False  # the check box, which counts with OK
    settings_kept: bool = False  # OK was pressed, and the notice of it shows
    night_light: bool = False
    first_contact: int = 0  # how many are scrolled away above
    picked: str = ""
    called: str = ""

    @property
    def contacts_shown(self) -> list[str]:
        return CONTACTS[self.first_contact :][:ROWS]

    def places(self) -> dict[str, Any]:
        places: dict[str, Any] = {}
        if self.program == "Settings":
            places = {**SETTINGS}
            places["check box"] = replace(places["check box"], checked=self.ticked)
        if self.program == "Contacts":
            for row, name in enumerate(self.contacts_shown):
                rect = Rect(450, 140 + 42 * row, 400, 42)
                places[f"{name} in the list"] = place(rect, name, "list item")
            title = f"Calling {self.called} - Contacts" if self.called else "Contacts"
            places["Call button"] = CALL
            places["program"] = place(CONTACTS_WINDOW, title, "window")
        return {**places, **LAUNCHERS, **super().places()}

    def after(self, act: str) -> DrawnState:
        name, _, how = act.partition(" ")
        if name in ("Settings", "Contacts") and how in ("icon", "pin"):
            return replace(self, program=name, focus=False, settings_kept=False)
        if act == "Notes icon":
            return replace(self, opened=True, focus=False, program="")
        if act == "check box":
            return replace(self, ticked=not self.ticked)
        if act == "OK button":
            return replace(self, program="", night_light=self.ticked, settings_kept=True)
        if act == "Cancel button":
            return replace(self, program="", ticked=self.night_light)
        if act == "Call button":
            return replace(self, called=self.picked)
        if how == "in the list":
            return replace(self, picked=name, called="")
        changed = super().after(act)
        assert isinstance(changed, DrawnState)
        return changed

    def scrolled(self, units: int) -> DrawnState:
        first = self.first_contact - units * 3 // 120
        return replace(self, first_contact=min(max(first, 0), len(CONTACTS) - ROWS))


class Task(NamedTuple):
    """What a model can be asked for, the desktop at its beginning, and whether it is truly done."""

    name: str
    text: str
    begin: DemoState
    is_done: Callable[[DemoState], bool]


TASKS = {
    task.name: task
    for task in (
        Task(
            "note",
            'Open Notes, write "Hello from agent.py" and save it.',
            DemoState(),
            lambda state: state.saved_text == state.text == "Hello from agent.py",
        ),
        Task(
            "settings",
            'Open Settings, switch "Night light" on and press OK.',
            DrawnState(),
            lambda state: isinstance(state, DrawnState) and state.night_light and not state.program,
        ),
        Task(
            "contacts",
            'Open Contacts, pick "Zoe" and press Call.',
            DrawnState(),
            lambda state: isinstance(state, DrawnState) and state.called == "Zoe",
        ),
    )
}


def drawn_on(canvas: Canvas, state: DrawnState) -> None:
    """What is shown beside Notes: icons, pins, the notice of the settings, and the open program."""
    for name, launcher in LAUNCHERS.items():
        rect, words = launcher.rect, launcher.name
        if name.endswith("icon"):
            canvas.fill(Rect(rect.left + 24, rect.top + 12, 44, 44), SIGNS[name], 7)
            canvas.text(rect.left, rect.top + 74, words, LIGHT)
        else:
            canvas.fill(Rect(rect.left + 5, rect.top + 5, 28, 28), SIGNS[name], 4)
            canvas.text(rect.left + 14, rect.top + 12, words[0], LIGHT)
    if state.settings_kept:
        canvas.fill(Rect(1000, 592, 260, 60), PANE, 10)
        if state.night_light:
            canvas.fill(Rect(1022, 615, 14, 14), SIGNS["night light mark"], 7)
        canvas.text(1046, 614, f"Night light is {'on' if state.night_light else 'off'}", GREY)
    places = state.places()
    if state.program:
        rect, title = places["program"].rect, places["program"].name
        canvas.fill(rect, PANE, 10)
        canvas.text(rect.left + 24, rect.top + 20, title, GREY)
    for name, place in places.items():
        if place.window == HANDLE and name != "program":
            draw(canvas, name, place, state)
    if state.program == "Contacts":
        draw_call(canvas, state)


@lru_cache(maxsize=8)
def sights(png: bytes) -> dict[str, agent.Coordinate]:
    """Where a screenshot shows these signs, as the demo's model sees its own."""
    rgb, width, height = agent.png_to_rgb(png)
    found = {}
    for name, colour in SIGNS.items():
        wanted = colour.to_bytes(3, "big") * 2
        first, last = rgb.find(wanted) // 3, rgb.rfind(wanted) // 3
        if first >= 0:
            x = (first % width + last % width) // 2
            y = (first // width + last // width) // 2
            found[name] = agent.Coordinate(x * 1000 // (width - 1), y * 1000 // (height - 1))
    return found


def draw(canvas: Canvas, name: str, place: Any, state: DrawnState) -> None:
    """A button, a row of the list, or the check box."""
    left, top = place.rect.left, place.rect.top
    if place.role == "button":
        canvas.fill(place.rect, SIGNS.get(name, GREY), 8)
        canvas.text(left + 24, top + 13, place.name, LIGHT)
    elif place.role == "list item":
        colour = 0xDCE8FB if place.name == state.picked else LIGHT
        canvas.fill(place.rect, colour)
        canvas.text(left + 20, top + 14, place.name, INK)
    else:
        canvas.fill(place.rect, SIGNS["ticked box"] if state.ticked else GREY, 3)
        inside = Rect(left + 2, top + 2, 10, 10)
        canvas.fill(inside, SIGNS["ticked box" if state.ticked else "check box"], 1)
        canvas.text(left + 28, top - 2, place.name, INK)
        canvas.text(left + 340, top - 2, "On" if state.ticked else "Off", GREY)


def draw_call(canvas: Canvas, state: DrawnState) -> None:
    """Which part of the list is shown, who is picked, and whether there is a call."""
    canvas.fill(Rect(854, 140, 8, 336), LINE)
    canvas.fill(Rect(854, 140 + 336 * state.first_contact // len(CONTACTS), 8, 192), GREY)
    status = f"Calling {state.called}" if state.called else state.picked or "Pick somebody"
    if state.called:
        canvas.fill(Rect(450, 517, 14, 14), SIGNS["call mark"], 7)
    canvas.text(474, 517, status, GREY)


class DrawnDesktop(DemoDesktop):
    """The demo's desktop in any such state, with a keyboard that writes and saves."""

    def __init__(self, clock: agent.Clock, state: DemoState) -> None:
        super().__init__(clock)
        self.state = state
        self.held = set[str]()  # the keys that are down

    def glance(self, area: Rect, width: int, height: int) -> bytes:
        if not isinstance(self.state, DrawnState):
            return super().glance(area, width, height)
        canvas = Canvas(1280, 720, super().glance(SCREEN, 1280, 720))
        drawn_on(canvas, self.state)
        return agent.scale_bgrx(bytes(canvas.pixels), 1280, area, width, height)

    def foreground(self) -> agent.Window | None:
        return self.window(HANDLE) or super().foreground()

    def windows(self) -> list[agent.Window]:
        program = self.window(HANDLE)
        return [program, *super().windows()] if program else super().windows()

    def programs(self) -> list[agent.Program]:
        more = ("Settings", "Contacts") if isinstance(self.state, DrawnState) else ()
        return [*super().programs(), *(agent.Program(name, f"{name}.demo") for name in more)]

    def start_program(self, program: agent.Program) -> None:
        self.state = self.state.after(f"{program.name} icon")

    def bring_to_front(self, window: agent.Window) -> None:
        super().bring_to_front(window)
        if isinstance(self.state, DrawnState) and window.handle != HANDLE:
            self.state = replace(self.state, program="")

    def key(self, name: str, down: bool) -> None:
        """A key acts when it goes down, with what else is held; it writes without."""
        self.held.discard(name)
        if not down:
            return
        chord = "+".join([*sorted(self.held - {"shift"}), name])
        written = WRITES.get(chord, chord if len(chord) == 1 else "")
        if "shift" in self.held:
            written = written.upper()
        self.held.add(name)
        if chord == "ctrl+s" and self.state.opened:
            self.state = self.state.after("Save button")
        elif chord == "backspace" and self.state.focus:
            self.state = replace(self.state, text=self.state.text[:-1])
        else:
            self.text(written)

    def wheel(self, units: int, horizontal: bool = False) -> None:
        super().wheel(units, horizontal)
        inside = Rect(450, 140, 400, 42 * ROWS).contains(self.cursor())
        if isinstance(self.state, DrawnState) and self.state.program == "Contacts" and inside:
            self.state = self.state.scrolled(0 if horizontal else units)
