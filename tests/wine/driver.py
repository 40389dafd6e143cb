"""The program's own eyes and hands on a real desktop, told what to do: run by the Windows Python, see rig.Driver.

python.exe driver.py AGENT_PY      then one JSON object a line on standard input; the answers are on standard output
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import random
import sys
from collections.abc import Callable
from ctypes import c_int32, c_uint32, c_void_p
from types import ModuleType
from typing import Any

CURSOR_IDS = {  # the system's; a monochrome one is added
    "arrow": 32512,
    "ibeam": 32513,
    "wait": 32514,
    "cross": 32515,
    "uparrow": 32516,
    "sizenwse": 32642,
    "sizenesw": 32643,
    "sizewe": 32644,
    "sizens": 32645,
    "sizeall": 32646,
    "no": 32648,
    "hand": 32649,
    "appstarting": 32650,
    "help": 32651,
}
AREA_SIZE = 1536, 864


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("agent", path)
    assert spec and spec.loader
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["agent"] = module
    spec.loader.exec_module(module)
    return module


class Driver:
    def __init__(self, agent: Any) -> None:
        self.agent, self.stop = agent, agent.Stop()
        clock = agent.SystemClock(self.stop)
        self.api = agent.load_win32()
        self.clock, self.desktop = clock, agent.WindowsDesktop(self.api, clock)
        agent.init_dpi(self.api)
        # Nobody sits here; Wine takes a window that appears under the pointer for the mouse's doing.
        config = agent.Config(takeover_quiet=0, confirm="never")
        self.actuator = agent.Actuator(self.desktop, config, clock, self.stop)

    # ---- commands: each returns what is sent back ----

    def screen(self) -> dict[str, Any]:
        screen = self.desktop.screen()
        return {"screen": [screen.left, screen.top, screen.width, screen.height]}

    def cursor(self) -> dict[str, Any]:
        place = self.desktop.cursor()
        return {"place": [place.x, place.y]}

    def act(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """One tool, from a call in the planner profile's words, through parsing, every gate, and the desktop."""
        agent = self.agent
        frame = self.desktop.capture(self.desktop.screen(), 64, 36)
        act = agent.Vocabulary({name: name for name in agent.TOOLS}).parse(
            agent.ToolCall(tool, arguments)
        )
        places = {
            name: agent.Coordinate(*value)
            for name, value in arguments.items()
            if isinstance(value, list)
        }
        performed = self.actuator.perform(act, frame)
        if performed.refused:
            raise RuntimeError(performed.result)
        pixels = {name: agent.to_point(place, frame.area) for name, place in places.items()}
        return {
            "result": performed.result,
            "pixels": {name: [point.x, point.y] for name, point in pixels.items()},
        }

    def scroll(self, place: list[int], ticks: int, horizontal: bool) -> dict[str, Any]:
        """The wheel in any direction: the tools of the profiles turn it vertically and in the middle only."""
        turn = self.agent.WheelArgs(3 * ticks, self.agent.Coordinate(*place))
        act = self.agent.Act("scroll", turn, self.agent.ToolCall("scroll", {}))
        frame = self.desktop.capture(self.desktop.screen(), 64, 36)
        at = self.agent.to_point(turn.position, frame.area)
        self.actuator.attempt = self.agent.Attempt(act, frame, places=[at])
        self.actuator.scroll(turn, horizontal=horizontal)
        return {}

    def points(self, seed: int, count: int) -> dict[str, Any]:
        """Moves to the corners, along every edge and to random pixels; returns where the mouse was not found."""
        screen, chance = self.desktop.screen(), random.Random(seed)
        right, bottom = screen.left + screen.width - 1, screen.top + screen.height - 1
        places = [(x, y) for x in (screen.left, right) for y in (screen.top, bottom)]
        places += [(x, y) for x in range(screen.left, right, 37) for y in (screen.top, bottom)]
        places += [(x, y) for y in range(screen.top, bottom, 37) for x in (screen.left, right)]
        chance.shuffle(places)
        places += [
            (chance.randint(screen.left, right), chance.randint(screen.top, bottom))
            for _ in range(count)
        ]
        missed, again = [], 0
        for x, y in places:
            # On a busy machine Wine hears late of an earlier move, and puts the mouse back to its place.
            for _ in range(5):
                self.desktop.move(self.agent.Point(x, y))
                found = self.desktop.cursor()
                if (found.x, found.y) == (x, y):
                    break
                again += 1
                self.clock.sleep(0.05)
            else:
                missed.append([[x, y], [found.x, found.y]])
        return {"tried": len(places), "missed": missed, "again": again}

    def leaks(self, captures: int) -> dict[str, Any]:
        """How many bitmaps can be created before, and after captures with every cursor, some failing at every call."""
        with Cursors(self.agent, self.desktop) as cursors:
            for number in range(len(cursors.handles)):  # what Windows makes once and keeps
                cursors.show(number)
                self.desktop.capture(self.desktop.screen(), *AREA_SIZE)
            before = bitmaps_left()
            shapes = set()
            for number in range(captures):
                cursors.show(number)
                frame = self.desktop.capture(self.desktop.screen(), *AREA_SIZE)
                if frame.pixels != frame.clean:
                    shapes.add(cursors.name(number))
            after_captures = bitmaps_left()
            failing, refused = Failing(self.agent, self.api), set()
            broken = self.agent.WindowsDesktop(failing.api, self.clock)
            for number in range(captures):
                cursors.show(number)
                failing.at = number % (failing.most + 1)
                try:
                    with failing:
                        broken.capture(broken.screen(), *AREA_SIZE)
                except self.agent.Win32Error as error:
                    refused.add(str(error).split()[2])  # Windows refused NAME
        return {
            "before": before,
            "after_captures": after_captures,
            "after_failures": bitmaps_left(),
            "shapes": sorted(shapes),
            "all_shapes": len(cursors.handles),
            "refused": sorted(refused),
            "calls": sorted(failing.names),
        }


class Failing:
    """A table whose Nth call within a `with` block fails without being made."""

    def __init__(self, agent: Any, api: Any) -> None:
        self.at, self.most, self.count, self.names = 0, 0, -1, set[str]()

        def resolve(_dll: str, name: str, _restype: Any, _argtypes: Any) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                if self.count < 0:
                    return getattr(api, name)(*arguments)
                self.names.add(name)
                self.count += 1
                self.most = max(self.most, self.count)
                # Releasing may be refused too, but only for once: the program tries it twice.
                return 0 if self.count == self.at else getattr(api, name)(*arguments)

            return call

        self.api = agent.Win32(resolve, lambda: 8)

    def __enter__(self) -> None:
        self.count = 0

    def __exit__(self, *_: object) -> None:
        self.count = -1


class Cursors:
    """A small window under the mouse that shows every cursor in turn."""

    def __init__(self, agent: Any, desktop: Any) -> None:
        user = ctypes.WinDLL("user32", use_last_error=True)  # type: ignore[attr-defined]
        self.load, self.set, self.create = user.LoadCursorW, user.SetCursor, user.CreateCursor
        self.load.restype, self.load.argtypes = c_void_p, [c_void_p, c_void_p]
        self.set.restype, self.set.argtypes = c_void_p, [c_void_p]
        self.create.restype = c_void_p
        self.create.argtypes = [c_void_p, c_int32, c_int32, c_int32, c_int32, c_void_p, c_void_p]
        self.user, self.desktop, self.agent = user, desktop, agent
        self.handles = {name: self.load(None, number) for name, number in CURSOR_IDS.items()}
        # 32x32 of one bit each: the AND mask leaves the screen, the XOR mask inverts a cross
        cross = b"".join(b"\xff" * 4 if 14 <= y < 18 else b"\x00\x03\xc0\x00" for y in range(32))
        self.handles["monochrome"] = self.create(None, 16, 16, 32, 32, b"\xff" * 128, cross)
        self.window = 0

    def __enter__(self) -> Cursors:
        make = self.user.CreateWindowExW
        make.restype = c_void_p
        make.argtypes = [
            c_uint32,
            ctypes.c_wchar_p,
            ctypes.c_wchar_p,
            c_uint32,
            *[c_int32] * 4,
            *[c_void_p] * 4,
        ]
        # a visible popup on top; SetCursor shows only while the mouse is over a window of this thread
        self.window = make(
            0x8, "STATIC", "cursors", 0x90000100, 300, 200, 400, 300, None, None, None, None
        )
        self.desktop.move(self.agent.Point(500, 350))
        return self

    def __exit__(self, *_: object) -> None:
        self.user.DestroyWindow(c_void_p(self.window))

    def name(self, number: int) -> str:
        return list(self.handles)[number % len(self.handles)]

    def show(self, number: int) -> None:
        pump(self.user)
        self.set(self.handles[self.name(number)])


def pump(user: Any) -> None:
    """Works off this thread's messages; the window would be taken for hanging otherwise."""
    message = ctypes.create_string_buffer(64)
    while user.PeekMessageW(message, None, 0, 0, 1):
        user.DispatchMessageW(message)


def bitmaps_left() -> int:
    """How many bitmaps Windows still creates: counts every kind of GDI handle that is in use."""
    gdi = ctypes.WinDLL("gdi32", use_last_error=True)  # type: ignore[attr-defined]
    gdi.CreateBitmap.restype, gdi.CreateBitmap.argtypes = (
        c_void_p,
        [c_int32, c_int32, c_uint32, c_uint32, c_void_p],
    )
    gdi.DeleteObject.argtypes = [c_void_p]
    handles: list[int] = []
    while len(handles) < 1 << 17:
        handle = gdi.CreateBitmap(1, 1, 1, 1, None)
        if not handle:
            break
        handles.append(handle)
    for handle in handles:
        gdi.DeleteObject(handle)
    return len(handles)


def serve(driver: object) -> int:
    """Answers each line of standard input by what the driver's method of that command gives."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": True, **getattr(driver, request.pop("command"))(**request)}
        except Exception as error:  # whatever it is, the test has to hear of it
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(serve(Driver(load(sys.argv[1]))))
