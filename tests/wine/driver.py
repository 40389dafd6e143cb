"""The program's own eyes and hands on a real desktop, told what to do: run by the Windows Python, see rig.Driver.

python.exe driver.py      then one JSON object a line on standard input; the answers are on standard output
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import random
import sys
from ctypes import c_int32, c_ssize_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import agent
from tests.scripted import EngineCase, text

AREA_SIZE = 1536, 864
PICTURE = {"screen_capture_w": 640, "screen_capture_h": 360}  # nobody looks at it
# Nobody sits here; Wine takes a window that appears under the pointer for the mouse's doing.
SETTINGS: dict[str, Any] = {"takeover_quiet": 0, "confirm": "never"}
gdi: Any = ctypes.WinDLL("gdi32")  # type: ignore[attr-defined]


class Case(EngineCase):
    """Wires an engine to this desktop and to the real clock."""

    desktop_type = staticmethod(lambda clock: agent.WindowsDesktop(agent.load_win32(), clock))
    clock_type = agent.SystemClock

    def runTest(self) -> None:
        """Nothing: it is used for its engine."""


class Driver:
    """Each method answers a line of standard input of its name; what it gives is sent back."""

    def __init__(self) -> None:
        stop = agent.Stop()
        self.api = agent.load_win32()
        self.clock = agent.SystemClock(stop)
        self.desktop = agent.WindowsDesktop(self.api, self.clock)
        agent.init_dpi(self.api)
        config = agent.Config(**SETTINGS)
        self.actuator = agent.Actuator(self.desktop, config, self.clock, stop)
        self.case = Case()
        self.trial: Any = None

    # ---- the hands alone ----

    def cursor(self) -> dict[str, Any]:
        return {"place": list(self.desktop.cursor())}

    def act(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """One tool by the program's own name, through parsing, every gate, and the desktop."""
        frame = self.desktop.capture(self.desktop.screen(), 64, 36)
        words = agent.Vocabulary({name: name for name in agent.TOOLS})
        performed = self.actuator.perform(words.parse(agent.ToolCall(tool, arguments)), frame)
        if performed.refused:
            raise RuntimeError(performed.result)
        places = {name: at for name, at in arguments.items() if isinstance(at, list)}
        pixels = {
            name: list(agent.to_point(agent.Coordinate(*at), frame.area))
            for name, at in places.items()
        }
        return {"result": performed.result, "pixels": pixels}

    def scroll(self, place: list[int], ticks: int, horizontal: bool) -> dict[str, Any]:
        """The wheel in any direction: the tools of the profiles turn it vertically and in the middle only."""
        turn = {"ticks": 3 * ticks, "position": agent.Coordinate(*place)}
        act = agent.Act("scroll", turn, agent.ToolCall("scroll", {}))
        frame = self.desktop.capture(self.desktop.screen(), 64, 36)
        at = agent.to_point(agent.Coordinate(*place), frame.area)
        self.actuator.attempt = agent.Attempt(act, frame, places=[at])
        self.actuator.scroll(turn, horizontal=horizontal)
        return {}

    def points(self, seed: int, count: int) -> dict[str, Any]:
        """Moves to the corners, along every edge and to random pixels; gives where the mouse was not found."""
        screen, chance = self.desktop.screen(), random.Random(seed)
        right, bottom = screen.width - 1, screen.height - 1
        places = [(x, y) for x in (*range(0, right, 37), right) for y in (0, bottom)]
        places += [(x, y) for y in range(0, bottom, 37) for x in (0, right)]
        places += [(chance.randint(0, right), chance.randint(0, bottom)) for _ in range(count)]
        chance.shuffle(places)
        return {
            "tried": len(places),
            "missed": [place for place in places if not self.moves(place)],
        }

    def moves(self, place: tuple[int, int]) -> bool:
        """Whether the mouse is found there: busy, Wine hears late of an earlier move and puts it back to that place."""
        for _ in range(5):
            self.desktop.move(agent.Point(*place))
            if tuple(self.desktop.cursor()) == place:
                return True
            self.clock.sleep(0.05)
        return False

    # ---- a run's engine, which tells what came of an act ----

    def begin(self) -> dict[str, Any]:
        """A run, as it begins, the process that knows the controls being ready."""
        self.case.setUp()
        self.trial = self.case.trial(text, "native", **SETTINGS, **PICTURE)
        self.desktop = self.trial.desktop
        source = self.desktop.control_source = agent.ControlsWorker(self.api)
        self.case.addCleanup(source.close)
        source.query(None, 120.0)
        return {}

    def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """One call in the planner profile's words, its position being a pixel, and what a model is told of it."""
        look = self.trial.look()
        area = look.frame.area
        if "position" in arguments:
            x, y = arguments["position"]
            across = (x - area.left) * 1000 / (area.width - 1)
            arguments["position"] = [
                round(across),
                round((y - area.top) * 1000 / (area.height - 1)),
            ]
        act = agent.PLANNER_WORDS.parse(agent.ToolCall(tool, {"reasoning": "next", **arguments}))
        deed = self.trial.perform(act, look)
        facts = self.trial.engine.controls.facts()
        return {"result": deed.result, "refused": deed.refused, "facts": facts}

    def listed(self) -> dict[str, Any]:
        """The window in front, and its controls: [name, role, left, top, width, height] of each."""
        front = self.desktop.foreground()
        known = self.desktop.control_source.ask(front) if front and self.trial else []
        rows = [[control.name, control.role, *control.rect] for control in known]
        return {"title": front.title if front else "", "controls": rows}

    def known(self, place: list[int] | None = None) -> dict[str, Any]:
        """The control at a pixel, or with the keyboard."""
        found = self.desktop.control_source.ask(agent.Point(*place) if place else None)
        return {"control": vars(found[0]) if found else None}

    def report(self) -> dict[str, Any]:
        """What the doctor says of the window in front and its controls."""
        return {"said": self.desktop.control_source.report(self.desktop.foreground())}

    def box(self) -> dict[str, Any]:
        """The buttons of the question that is shown, left and right, and who has the keyboard."""
        api, front = self.desktop.api, self.desktop.foreground()
        box = api.FindWindowExW(None, None, "Static", None)
        yes = box and api.FindWindowExW(box, None, "Button", None)
        no = yes and api.FindWindowExW(box, yes, "Button", None)
        known = [self.desktop.window(one) for one in (yes, no) if one]
        rects = [button.rect for button in known if button]  # none of a box that just goes
        places = [[box.left + box.width // 2, box.top + box.height // 2] for box in rects]
        return {"places": places, "front": front.title if front else ""}

    def kill_controls(self) -> dict[str, Any]:
        """Ends the process that knows the controls, as if somebody had."""
        multiprocessing.active_children()[0].kill()
        return {}

    def end(self) -> dict[str, Any]:
        """Whether the process that knows the controls ends with the run."""
        (worker,) = multiprocessing.active_children()
        self.case.doCleanups()
        worker.join(10)
        return {"ended": worker.exitcode is not None}

    # ---- Windows itself, behind the program's back ----

    def copied(self) -> dict[str, Any]:
        """How many characters of text the clipboard holds."""
        return {"length": self.desktop.clipboard_length()}

    # ---- handles ----

    def colours(self, places: list[list[int]]) -> dict[str, Any]:
        """What a model's picture shows at these pixels of the screen, as blue, green, red."""
        screen, (width, height) = self.desktop.screen(), AREA_SIZE
        frame = self.desktop.capture(screen, width, height)
        pixels = [
            y * height // screen.height * width + x * width // screen.width for x, y in places
        ]
        return {"colours": [list(frame.clean[4 * at : 4 * at + 3]) for at in pixels]}

    def leaks(self, captures: int) -> dict[str, Any]:
        """How many bitmaps can be made before and after captures, and how many show the mouse."""
        self.desktop.move(agent.Point(500, 350))
        left, shown = [], 0
        for count in (20, captures):  # at first Windows makes what it keeps
            for _ in range(count):
                frame = self.desktop.capture(self.desktop.screen(), *AREA_SIZE)
                shown += frame.pixels != frame.clean
            left.append(bitmaps_left())
        return {"left": left, "shown": shown}


def bitmaps_left() -> int:
    """How many bitmaps Windows still creates: counts every kind of GDI handle that is in use."""
    gdi.CreateBitmap.restype = c_ssize_t
    gdi.CreateBitmap.argtypes = [c_int32, c_int32, c_uint32, c_uint32, c_void_p]
    gdi.DeleteObject.argtypes = [c_ssize_t]
    handles = list(iter(lambda: gdi.CreateBitmap(1, 1, 1, 1, None), 0))
    for handle in handles:
        gdi.DeleteObject(handle)
    return len(handles)


def serve(driver: object) -> None:
    """Answers each line of standard input by what the driver's method of that command gives."""
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(driver, order.pop("command"))(**order)
        except Exception as error:  # whatever it is, the test has to hear of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(Driver())
