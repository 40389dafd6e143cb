"""The demo's drawn desktop with a program more, for a model that errs: a dialog with a small check box."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import agent
from agent import Canvas, DemoDesktop, DemoState, Rect
from tests.seams import rgb_picture

HANDLE = 4  # of its window
# By these colours a model that reads pixels knows what it sees, as by those of the demo.
SIGNS = {
    "Settings icon": 0x9FB4D2,
    "Settings pin": 0x8DA4C6,
    "check box": 0xE6EEF9,
    "ticked box": 0x3A6FD8,
    "OK button": 0x2559D9,
    "night light mark": 0x2DA650,
}
SCREEN = Rect(0, 0, 1280, 720)
WRITES = {"space": " ", "enter": "\n", "tab": "    "}
LIGHT, PANE, INK, GREY = 0xF8FAFC, 0xEEF2F7, 0x1B2430, 0x5B6675
GROUND = DemoState().places()["desktop"]


def place(rect: Rect, name: str, role: str, window: int = HANDLE) -> Any:
    """A place as the demo has them."""
    return replace(GROUND, rect=rect, name=name, role=role, window=window)


LAUNCHERS = {
    "Settings icon": place(Rect(28, 148, 92, 104), "Settings", "list item", 3),
    "Settings pin": place(Rect(58, 677, 38, 38), "Settings", "button", 3),
}
SETTINGS = {
    "check box": place(Rect(444, 262, 14, 14), "Night light", "checkbox"),
    "OK button": place(Rect(636, 440, 104, 40), "OK", "button"),
    "Cancel button": place(Rect(752, 440, 104, 40), "Cancel", "button"),
    "program": place(Rect(400, 170, 480, 330), "Settings", "window"),
}


@dataclass(frozen=True)
class DrawnState(DemoState):
    """What that desktop knows."""

    is_open: bool = False
    ticked: bool = False  # the check box, which counts with OK
    settings_kept: bool = False  # OK was pressed, and the notice of it shows
    night_light: bool = False

    def places(self) -> dict[str, Any]:
        places: dict[str, Any] = {}
        if self.is_open:
            places = {**SETTINGS}
            places["check box"] = replace(places["check box"], checked=self.ticked)
        return {**places, **LAUNCHERS, **super().places()}

    def after(self, act: str) -> DrawnState:
        if act in LAUNCHERS:
            return replace(self, is_open=True, focus=False, settings_kept=False)
        if act == "Notes icon":
            return replace(self, opened=True, focus=False, is_open=False)
        if act == "check box":
            return replace(self, ticked=not self.ticked)
        if act == "OK button":
            return replace(self, is_open=False, night_light=self.ticked, settings_kept=True)
        if act == "Cancel button":
            return replace(self, is_open=False, ticked=self.night_light)
        changed = super().after(act)
        assert isinstance(changed, DrawnState)
        return changed


TASK = 'Open Settings, switch "Night light" on and press OK.'


def is_done(state: DemoState) -> bool:
    return isinstance(state, DrawnState) and state.night_light and not state.is_open


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
    for name, place in reversed(state.places().items()):
        if place.window == HANDLE:
            draw(canvas, name, place, state)


@lru_cache(maxsize=8)
def sights(png: bytes) -> dict[str, agent.Coordinate]:
    """Where a screenshot shows these signs, as the demo's model sees its own."""
    rgb, width, height = rgb_picture(png)
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
    """The program's window, a button, or the check box."""
    left, top = place.rect.left, place.rect.top
    if name == "program":
        canvas.fill(place.rect, PANE, 10)
        canvas.text(left + 24, top + 20, place.name, GREY)
    elif place.role == "button":
        canvas.fill(place.rect, SIGNS.get(name, GREY), 8)
        canvas.text(left + 24, top + 13, place.name, LIGHT)
    else:
        canvas.fill(place.rect, SIGNS["ticked box"] if state.ticked else GREY, 3)
        inside = Rect(left + 2, top + 2, 10, 10)
        canvas.fill(inside, SIGNS["ticked box" if state.ticked else "check box"], 1)
        canvas.text(left + 28, top - 2, place.name, INK)
        canvas.text(left + 340, top - 2, "On" if state.ticked else "Off", GREY)


@lru_cache(maxsize=16)  # a state is looked at many times
def drawn(state: DrawnState, ground: bytes, area: Rect, width: int, height: int) -> bytes:
    canvas = Canvas(1280, 720, ground)
    drawn_on(canvas, state)
    return agent.scale_bgrx(bytes(canvas.pixels), 1280, area, width, height)


class DrawnDesktop(DemoDesktop):
    """The demo's desktop in any such state, with a keyboard that writes and saves."""

    def __init__(self, clock: agent.Clock, state: DemoState) -> None:
        super().__init__(clock)
        self.state = state
        self.held = set[str]()  # the keys that are down

    def glance(self, area: Rect, width: int, height: int) -> bytes:
        if not isinstance(self.state, DrawnState):
            return super().glance(area, width, height)
        return drawn(self.state, super().glance(SCREEN, 1280, 720), area, width, height)

    def foreground(self) -> agent.Window | None:
        return self.window(HANDLE) or super().foreground()

    def windows(self) -> list[agent.Window]:
        program = self.window(HANDLE)
        return [program, *super().windows()] if program else super().windows()

    def programs(self) -> list[agent.Program]:
        more = [agent.Program("Settings", "Settings.demo")]
        return super().programs() + more * isinstance(self.state, DrawnState)

    def start_program(self, program: agent.Program) -> None:
        self.state = self.state.after(f"{program.name} icon")

    def bring_to_front(self, window: agent.Window) -> None:
        super().bring_to_front(window)
        if isinstance(self.state, DrawnState) and window.handle != HANDLE:
            self.state = replace(self.state, is_open=False)

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
