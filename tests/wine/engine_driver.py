"""The program's turn engine on a real desktop, told what to call: run by the Windows Python, see rig.Driver.

python.exe engine_driver.py AGENT_PY    then one JSON object a line on standard input; the answers are on standard output
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from driver import serve
from presses import SETTINGS, Model, press_all

import agent
from tests.scripted import EngineCase, text

PRESSED_S = 5.0  # within which a window tells that it was clicked
PICTURE = {"screen_capture_w": 640, "screen_capture_h": 360}  # nobody looks at it


class Hands(agent.WindowsDesktop):
    """The desktop with its controls; `pressed` are the items of a form_window.py that were clicked."""

    def __init__(self, clock: agent.Clock) -> None:
        super().__init__(agent.load_win32(), clock)
        agent.init_dpi(self.api)
        self.log = Path()
        self.pressed: list[str] = []

    def button(self, name: str, down: bool) -> None:
        super().button(name, down)
        if not down and self.log.name:
            self.wait_for_press()

    def wait_for_press(self) -> None:
        """Until the window has told of a click: a busy machine lets it tell late."""
        end = time.monotonic() + PRESSED_S
        before = len(self.pressed)
        while len(self.pressed) == before and time.monotonic() < end:
            entries = map(json.loads, self.log.read_text(encoding="utf-8").splitlines())
            pressed = [entry["name"] for entry in entries if entry["message"] == "PRESSED"]
            self.pressed += pressed[before:]
            time.sleep(0.01)


class Case(EngineCase):
    """Wires an engine to this desktop and to the real clock."""

    desktop_type = Hands
    clock_type = agent.SystemClock

    def runTest(self) -> None:
        """Nothing: it is used for its engine."""


class EngineDriver:
    """A run that was told which `controls` to use, and what is done with it."""

    def __init__(self) -> None:
        self.case = Case()
        self.trial: Any = None

    def begin(self, controls: str) -> dict[str, Any]:
        """A fresh run, as it begins, the process that knows the controls being ready."""
        self.case.doCleanups()
        self.case.setUp()
        # Nobody sits here; Wine takes a window that appears under the pointer for the mouse's doing.
        settings = {**SETTINGS, **PICTURE, "controls": controls, "takeover_quiet": 0}
        self.trial = self.case.trial(text, "native", **settings)
        desktop = self.trial.desktop
        if controls != "off":
            source = desktop.control_source = agent.ControlsWorker(desktop.api)
            self.case.addCleanup(source.close)
            source.query(None, 120.0)
        return {}

    def press(self, log: str, presses: int, seed: int) -> dict[str, Any]:
        """Has a model press the buttons of a form_window.py; see presses.py."""
        desktop = self.trial.desktop
        desktop.log = Path(log)
        items = json.loads(desktop.log.read_text(encoding="utf-8").splitlines()[0])["items"]
        placed = [agent.Control(name, "button", agent.Rect(*at)) for name, at in items.items()]
        model = Model(seed, placed, desktop.screen(), desktop.pressed, presses)
        began = time.monotonic()
        figures = press_all(self.trial, model)
        return {**figures._asdict(), "seconds": time.monotonic() - began}

    def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """One call in the planner profile's words, its position being a pixel, and what a model is told of it."""
        look, told = self.trial.look(), self.trial.engine.controls
        if "position" in arguments:
            x, y = arguments["position"]
            area = look.frame.area
            x = round((x - area.left) * 1000 / (area.width - 1))
            arguments["position"] = [x, round((y - area.top) * 1000 / (area.height - 1))]
        act = agent.PLANNER_WORDS.parse(agent.ToolCall(tool, arguments))
        deed = self.trial.perform(act, look)
        return {
            "result": deed.result,
            "refused": deed.refused,
            "known": deed.known,
            "facts": told.facts(),
        }

    def listed(self) -> dict[str, Any]:
        """The controls in front: [name, role, left, top, width, height] of each."""
        desktop = self.trial.desktop
        front = desktop.foreground()
        known = desktop.control_source.ask(front)
        rows = [[control.name, control.role, *control.rect] for control in known]
        return {"title": front.title, "controls": rows}

    def end(self) -> dict[str, Any]:
        self.case.doCleanups()
        return {}


if __name__ == "__main__":
    sys.exit(serve(EngineDriver()))
