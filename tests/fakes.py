"""A Windows desktop without Windows, behind the program's own WIN32 table; and a clock that does not wait.

    world, desktop, clock = windows_desktop(swapped=True)
    desktop.move(agent.Point(5, 5))
    world.mouse, world.held(), world.problems

Every call crosses real ctypes marshalling (CFUNCTYPE), and structures are read and written by offset with `struct`, not
with agent.py's own classes, so that a wrong layout shows. What Windows would punish later (a handle deleted twice or
while selected, input of a wrong size, HALFTONE without its brush) is noted in `world.problems`; a test ends with
`world.verify()`. Rules are those of the Win32 documentation; what it leaves open is as Windows 10 does it.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import count
from operator import itemgetter
from typing import Any

import agent
from agent import Point, Rect

ACCESS_DENIED, INVALID_HANDLE, INVALID_PARAMETER, GENERAL_FAILURE = 5, 6, 87, 31
E_FAIL, E_ACCESSDENIED = -2147467259, -2147024891
VK_TAB, VK_RETURN = 0x09, 0x0D
MODIFIER_KEYS = {0x10, 0x11, 0x12, 0x5B, 0x5C, *range(0xA0, 0xA6)}
# DrawIconEx paints its whole rectangle in this, and no default picture has it.
POINTER_COLOUR = 0xFF00FF
# Calls that Windows may refuse without any harm to a capture: who has the keyboard is a courtesy.
COURTESY = frozenset(
    "GetIconInfo GetWindowRect GetClassNameW OpenProcess QueryFullProcessImageNameW OpenProcessToken"
    " GetTokenInformation CloseHandle".split()
)
# Functions without a failure answer: a 0 of theirs is a plain value.
NEVER_FAIL = frozenset(
    "GetSystemMetrics GetForegroundWindow GetWindowTextW MapVirtualKeyW WindowFromPoint GetAncestor GetConsoleWindow"
    " MonitorFromPoint FindWindowExW GetConsoleProcessList"
    " GetTickCount PeekMessageW WaitForSingleObject IsWindowVisible IsIconic IsHungAppWindow"
    " ShowWindowAsync SetForegroundWindow BringWindowToTop AttachThreadInput GetCurrentThreadId"
    " IsClipboardFormatAvailable GetClipboardOwner GlobalUnlock lstrlenW CoUninitialize CoTaskMemFree"
    " GetWindowThreadProcessId DwmGetWindowAttribute SetConsoleCtrlHandler SetWindowDisplayAffinity SendMessageW"
    " DispatchMessageW MessageBeep LoadCursorW".split()
)
# Those that answer an HRESULT.
BY_HRESULT = ("SHCreateItemFromParsingName", "CoInitializeEx")
RELEASES = frozenset(
    "ReleaseDC DeleteDC DeleteObject CloseDesktop CloseHandle SelectObject".split()
)


ANSWERS: dict[str, Callable[..., int]] = {
    "OpenClipboard": lambda window: 1,
    "CloseClipboard": lambda: 1,
    "GlobalUnlock": lambda memory: 0,
    "CoTaskMemFree": lambda memory: 0,
    "GetCurrentThreadId": lambda: 98,
    "SendMessageW": lambda window, message, word, value: 0,
    "DispatchMessageW": lambda message: 0,
    # no folder of all apps, as under Wine
    "SHCreateItemFromParsingName": lambda name, bind, iid, place: -2147024894,
}
ATTRIBUTES = {
    "GetConsoleWindow": "console",
    "GetDoubleClickTime": "double_click_ms",
    "GetClipboardOwner": "clipboard_owner",
}
OF_WINDOW = {"IsWindowVisible": "visible", "IsIconic": "minimised", "IsHungAppWindow": "hung"}
STDOUT = 0x7F00_0000_0004
STOCK_BITMAP = 0x7F00_0000_0001


class VirtualClock:
    """The one agent.Clock of the tests: sleeping takes no time, is listed, and runs what `at` planned for that time.

    `look_s` are the seconds that pass with every look at it, for a test in which nothing may wait.
    """

    def __init__(self, stop: agent.Stop | None = None, look_s: float = 0.0) -> None:
        self.stop, self.look_s = stop or agent.Stop(), look_s
        self.time, self.sleeps = 1000.0, list[float]()
        self._plans: list[tuple[float, Callable[[], Any]]] = []

    def now(self) -> float:
        self.time += self.look_s
        return self.time

    def sleep(self, seconds: float) -> None:
        self.stop.check()
        self.sleeps.append(seconds)
        self.advance(seconds)
        self.stop.check()

    def advance(self, seconds: float) -> None:
        """Lets time pass; negative is nothing."""
        end = self.time + max(0.0, seconds)
        while self._plans and min(self._plans, key=itemgetter(0))[0] <= end:
            plan = min(self._plans, key=itemgetter(0))
            self._plans.remove(plan)
            self.time = max(self.time, plan[0])
            plan[1]()
        self.time = end

    def at(self, seconds: float, action: Callable[[], Any]) -> None:
        """Calls `action` as soon as that many seconds from now have been slept away."""
        self._plans.append((self.time + seconds, action))


@dataclass(frozen=True)
class Event:
    """One input event as it arrived: `kind` is move, button, key, unit (UTF-16 unit), wheel or hwheel.

    `value`: a Point, a logical button's name, a VK code, a unit, or signed wheel units. `place` is where the mouse was.
    """

    at: float
    kind: str
    value: Any
    down: bool = False
    extended: bool = False
    scan: int = 0
    place: Point = Point(0, 0)


@dataclass(frozen=True)
class Click:
    """A button press as Windows tells it to a window: `double` is a WM_…DBLCLK."""

    at: float
    button: str
    place: Point
    double: bool


@dataclass(frozen=True)
class Pointer:
    """A mouse pointer: what GetCursorInfo, GetIconInfo and GetObject tell about it."""

    width: int = 32
    height: int = 32
    hot: tuple[int, int] = (0, 0)
    colour: bool = True  # else monochrome: one mask of double height
    flags: int = 1  # CURSOR_SHOWING; 0 hidden, 2 suppressed (touch)
    handle: int = 0x10003
    private: bool = False  # its program's own, of which nobody else is told


ARROW = 0x1000F
CURSORS = {
    "arrow": Pointer(),
    "cross": Pointer(hot=(16, 15), handle=0x10005),
    "beam": Pointer(hot=(8, 10), colour=False, handle=0x10007),
    "big": Pointer(96, 80, (40, 30), handle=0x10009),
    "hidden": Pointer(flags=0),
    "suppressed": Pointer(flags=2),
    "none": Pointer(handle=0),
    "private": Pointer(private=True),
}


@dataclass(frozen=True)
class Foreground:
    """The window that has the keyboard."""

    title: str = "Untitled - Notepad"
    rect: Rect = Rect(100, 100, 800, 600)
    path: str = r"C:\Windows\System32\notepad.exe"
    handle: int = 0x20002
    process: int = 4711
    class_name: str = "Notepad"
    owner: int = 0  # the handle of the window to which it belongs
    visible: bool = True
    cloaked: bool = False  # on another virtual desktop
    minimised: bool = False
    hung: bool = False
    level: int = 0x2000  # integrity: low 0x1000, medium, high (administrator) 0x3000; 0: the token may not be opened


def put(into: int, form: str, *values: Any) -> None:
    """Writes a little-endian structure without ctypes' own layout."""
    data = struct.pack(f"<{form}", *values)
    ctypes.memmove(into, data, len(data))


class Handle:
    """Something Windows gave out; DCs know what is selected into them, bitmaps own their memory."""

    def __init__(self, kind: str, **facts: Any) -> None:
        self.kind = kind
        self.selected, self.mode, self.brush_set = 0, 1, True
        self.width, self.height = facts.get("width", 0), facts.get("height", 0)
        self.memory: Any = facts.get("memory")
        self.window: Any = facts.get("window")
        self.pending: list[Callable[[Any], None]] = []  # GDI batches drawing until GdiFlush


@lru_cache(maxsize=64)
def colours_of_columns(across: range) -> bytes:
    """One row of BGRX in which every pixel has a colour that no other place of the row has."""
    return array("I", [(x >> 8 & 15) << 16 | x & 255 for x in across]).tobytes()


@lru_cache(maxsize=4096)  # a screen's rows are the same in thousands of simulated Windows
def own_colours(across: range, y: int) -> bytes:
    """The same of the screen: the green is the row's, and the upper half of the red."""
    row = bytearray(colours_of_columns(across))
    row[1::4] = bytes([y & 255]) * len(across)
    upper = (y >> 8 & 15) << 4
    row[2::4] = row[2::4].translate(bytes(red | upper for red in range(16)) + bytes(240))
    return bytes(row)


@lru_cache(maxsize=16)  # most tests look at the same small part again and again
def own_sample(screen: Rect, area: Rect, width: int, height: int) -> bytes:
    """The area of a screen of its own colours, as `sample` gives it."""
    across = range(screen.left, screen.right)
    return sample(screen, lambda y: array("I", own_colours(across, y)), area, width, height)


def sample(screen: Rect, row: Callable[[int], Any], area: Rect, width: int, height: int) -> bytes:
    """The screen's `area` scaled by nearest sampling, BGRX; black beyond the screen."""
    columns = [
        area.left + (2 * i + 1) * area.width // (2 * width) - screen.left for i in range(width)
    ]
    inside = [column for column in columns if 0 <= column < screen.width]
    before, after = sum(c < 0 for c in columns), sum(c >= screen.width for c in columns)
    pick = itemgetter(*inside, inside[-1]) if inside else None
    rows = []
    for j in range(height):
        y = area.top + (2 * j + 1) * area.height // (2 * height)
        if pick and screen.top <= y < screen.top + screen.height:
            middle = array("I", pick(row(y))[:-1])
        else:
            middle = array("I", [0]) * len(inside)
        rows.append(bytes(4 * before) + middle.tobytes() + bytes(4 * after))
    return b"".join(rows)


class Entered(threading.local):
    """What answers the calls that this thread is in; one may be made while another is answered."""

    def __init__(self) -> None:
        self.answers: list[Callable[..., Any]] = []


ENTERED = Entered()


@cache
def crossing_of(restype: Any, *argtypes: Any) -> Callable[..., Any]:
    """The way through ctypes for all functions of these types.

    To make one for each function of each simulated Windows would take longer than to use it.
    """
    return ctypes.CFUNCTYPE(restype, *argtypes)(lambda *given: ENTERED.answers[-1](*given))


class FakeWin32:
    """A simulated Windows. `api` is agent's Win32 bound to it; state is in plain attributes that a test sets and reads.

    monitors[0] is the primary and starts at (0, 0).
    """

    mouse = Point(400, 300)
    window: Foreground | None = Foreground()
    swapped = locked = False
    double_click_ms = 500
    shell_answer = 42  # of ShellExecuteW; up to 32 it is an error
    opens: Foreground | None = None  # comes to the front when a program is started
    keeps_front = False  # the window in front gives the keyboard away to attached threads only
    never_front = False  # ... and to nobody
    attached = False
    own_level, console, console_owner = 0x2000, 0, 0
    mutex_taken, on_close = False, None
    ignores_ctrl_c = False
    old_console = False  # older than Windows 10
    stdin = STDOUT  # what standard input is: a console, or another handle
    input_mode: int | None = None  # of the console's input, if there is one
    console_mode: int | None = None  # of a console on stdout: 3 or 7 with escape sequences
    mouse_stuck = False  # another program holds it: neither SendInput nor SetCursorPos moves it
    insert_at_most: int | None = None  # events that every SendInput takes at most
    clipboard: str | None = None
    clipboard_owner = 0  # the handle of the window whose text it is
    on_event: Callable[[Event], Any] | None = None
    # Whether the Nth call (from 1) fails, of that name.
    fails: Callable[[int, str], Any] | None = None
    fail_times = 1 << 30
    fail_inserts = 0  # how many events a failing SendInput inserts all the same
    typed = ""  # as an edit control would hold it; line ends are \n
    error = 0
    _high = 0

    def __init__(
        self,
        monitors: Iterable[Rect] = (Rect(0, 0, 1920, 1080),),
        cursor: str | Pointer = "arrow",
        missing: Iterable[str] = (),
        dpi: dict[str, int] | None = None,
        clock: VirtualClock | None = None,
        **state: Any,
    ) -> None:
        self.monitors = list(monitors)
        self.pointer = CURSORS[cursor] if isinstance(cursor, str) else cursor
        self.missing, self.dpi = frozenset(missing), dict(dpi or {})
        self.clock = clock or VirtualClock()
        for name, value in state.items():
            getattr(self, name)  # such a property there is
            setattr(self, name, value)
        self.others = list[Foreground]()  # further windows, topmost first
        self.programs_opened = list[str]()  # the paths given to ShellExecuteW
        self.apartments = dict[int, int]()  # of each thread with COM, as it was asked for
        self.last_input = self._GetTickCount()
        self.hotkeys = dict[int, tuple[int, int]]()  # id: (modifiers, VK code)
        self._owners = dict[int, threading.Thread]()  # of them
        self.messages = list[int]()  # ids of hotkeys that were pressed
        # what happened
        self.events, self.clicks = list[Event](), list[Click]()
        self.wheel = {"wheel": 0, "hwheel": 0}
        self.sent = list[int]()  # events of each SendInput
        self.drawn = list[tuple[int, int, int, int]]()  # rectangles of DrawIconEx
        self.calls, self.failed, self.problems = list[str](), list[str](), list[str]()
        self.handles = dict[int, Handle]()  # those that are open
        # above 32 bits: a handle declared as int would be cut
        self._numbers = count(0x7F00_0000_1000, 4)
        # Windows of the program's own: their texts, how the box is shown, and what came there: the window, the message
        # and the seconds from now.
        self.made, self.shown = dict[int, str](), dict[str, Any]()
        self.posted = list[tuple[int, int, float]]()
        self.on_beep: Callable[[], Any] = lambda: None
        self._down = list[tuple[str, Any]]()
        self._rows = dict[int, Any]()
        self._paint = list[tuple[Rect, int]]()
        self.api = agent.Win32(self.resolve, lambda: self.error)

    # -- the seam

    def resolve(self, dll: str, name: str, restype: Any, argtypes: list[Any]) -> Callable[..., Any]:
        """The function as ctypes would give it; one that `missing` names (or its DLL) is not there."""
        if dll in self.missing:
            raise OSError(f"[WinError 126] {dll} could not be found")
        if name in self.missing:
            raise AttributeError(f"function '{name}' not found")
        body = self.body(name)

        def answer(*arguments: Any) -> Any:
            try:  # an exception would not leave the callback
                result = self._answer(name, body, arguments)
                return result if restype is not ctypes.c_void_p else result or None
            except BaseException as error:
                self.problems.append(f"{name}{arguments}: {type(error).__name__}: {error}")
                return 0

        crossing = crossing_of(restype, *argtypes)

        def function(*arguments: Any) -> Any:
            given, declared = len(arguments), len(argtypes)
            if given != declared:  # ctypes would take more without a word
                self.problems.append(f"{name} got {given} arguments, declared are {declared}")
            answers = ENTERED.answers
            answers.append(answer)
            try:
                return crossing(*arguments)
            finally:
                answers.pop()

        return function

    def body(self, name: str) -> Callable[..., Any]:
        """What answers a function: a constant, an attribute, a property of a window, or a method of its name."""
        if name in ANSWERS:
            return ANSWERS[name]
        if name in ATTRIBUTES:
            return lambda: getattr(self, ATTRIBUTES[name])
        if name in OF_WINDOW:
            return lambda handle: int(getattr(self._shown(handle), OF_WINDOW[name], False))
        body: Callable[..., Any] = getattr(self, f"_{name}")
        return body

    def _answer(self, name: str, body: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        self.calls.append(name)
        chosen = self.fails and self.fails(len(self.calls), name)
        if not chosen or len(self.failed) >= self.fail_times:
            return body(*arguments)
        self.failed.append(name)
        if name not in NEVER_FAIL:
            self.error = GENERAL_FAILURE
        if name == "SendInput":
            return self._SendInput(*arguments, most=min(self.fail_inserts, arguments[0] - 1))
        return E_FAIL if name in BY_HRESULT else 0

    def arm(
        self,
        at: int | None = None,
        onwards: int | None = None,
        names: Iterable[str] = (),
        inserts: int = 0,
        times: int = 1 << 30,
    ) -> None:
        """Chooses which calls fail, counted from now, at most `times` of them; without arguments none does."""
        self.fails = lambda number, name: (
            number == at or (onwards and number >= onwards) or name in names
        )
        self.fail_inserts, self.fail_times = inserts, times
        self.calls.clear()
        self.failed.clear()

    def refuse(self, code: int, answer: int = 0) -> int:
        """The answer of a function that fails by itself, with GetLastError set; success leaves a stale one."""
        self.error = code
        return answer

    def verify(self) -> None:
        """Raises AssertionError if anything wrong was done, left open, or left pressed."""
        wrong = list(self.problems)
        wrong += [f"still open: {kind}" for kind in self.leaks()]
        wrong += [f"still held: {what}" for what in self.held()]
        if wrong:
            raise AssertionError("; ".join(wrong[:8]))

    def leaks(self) -> list[str]:
        return [handle.kind for handle in list(self.handles.values())]

    def held(self) -> list[str]:
        """Buttons, keys and UTF-16 units that are down, oldest first."""
        return [f"{kind} {what}" for kind, what in self._down]

    def screen(self) -> Rect:
        """The bounding rectangle of all monitors."""
        left, top = min(m.left for m in self.monitors), min(m.top for m in self.monitors)
        right, bottom = max(m.right for m in self.monitors), max(m.bottom for m in self.monitors)
        return Rect(left, top, right - left, bottom - top)

    def fill(self, rect: Rect, colour: int) -> None:
        """Paints a rectangle of the virtual screen over its picture."""
        self._paint.append((rect, colour))
        self._rows.clear()

    def colour(self, x: int, y: int) -> int:
        """0xRRGGBB of a pixel of the virtual screen; black where no picture is."""
        screen = self.screen()
        inside = screen.contains(Point(x, y))
        return self._row(y)[x - screen.left] & 0xFFFFFF if inside else 0

    def _row(self, y: int) -> Any:
        """One row of the virtual screen as 32-bit BGRX values; by default every pixel has a colour of its own."""
        if y not in self._rows:
            screen = self.screen()
            row = array("I", own_colours(range(screen.left, screen.right), y))
            for rect, colour in self._paint:
                part = rect.intersection(Rect(screen.left, y, screen.width, 1))
                if part.width and part.height:
                    first = part.left - screen.left
                    row[first : first + part.width] = array("I", [colour]) * part.width
            self._rows[y] = row
        return self._rows[y]

    # -- the person

    def person(self, mouse: Point | None = None) -> None:
        """The person uses the keyboard, or the mouse, which is at that place then."""
        self.mouse = mouse or self.mouse
        self.last_input = self._GetTickCount()

    def _GetLastInputInfo(self, into: int) -> int:
        if struct.unpack("<I", ctypes.string_at(into, 4)) != (8,):
            self.problems.append("GetLastInputInfo: cbSize is not 8")
        put(into, "II", 8, self.last_input)
        return 1

    def _GetTickCount(self) -> int:
        return int(self.clock.now() * 1000) & 0xFFFFFFFF

    def _RegisterHotKey(self, _window: int | None, number: int, modifiers: int, code: int) -> int:
        ended = [one for one, thread in self._owners.items() if not thread.is_alive()]
        for one in ended:  # Windows frees them with their thread
            del self._owners[one], self.hotkeys[one]
        if (modifiers, code) in self.hotkeys.values():
            return self.refuse(1409)  # ERROR_HOTKEY_ALREADY_REGISTERED
        self.hotkeys[number] = (modifiers, code)
        self._owners[number] = threading.current_thread()
        return 1

    def _PeekMessageW(self, into: int, _: None, first: int, last: int, remove: int) -> int:
        if (first, last, remove) == (0, 0, 1):  # of the program's own windows
            if not self.posted:
                return 0
            handle, message, seconds = self.posted.pop(0)
            tick = int((self.clock.now() + seconds) * 1000) & 0xFFFFFFFF
            put(into, "QI4xQqIii4x", handle, message, 0, 0, tick, 0, 0)
            return 1
        if not self.messages:
            return 0
        if (first, last, remove) != (0x0312, 0x0312, 1):
            self.problems.append("PeekMessageW does not remove WM_HOTKEY alone")
        put(into, "QI4xQqIii4x", 0, 0x0312, self.messages.pop(0), 0, 0, 0, 0)
        return 1

    # -- windows of the program's own

    def _CreateWindowExW(self, extra: int, kind: str, text: str, style: int, *rest: Any) -> int:
        handle = next(self._numbers)
        place = Rect(*rest[:4])
        self.made[handle] = text
        if not rest[4]:  # no window's child
            self.shown = {"extra": extra, "style": style, "place": place}
            path = r"C:\Python\python.exe"
            box = Foreground(text, place, path, handle, os.getpid(), kind)
            self.others.insert(0, box)
        return handle

    def _SetWindowTextW(self, handle: int, text: str) -> int:
        self.made[handle] = text
        return 1

    def _SetWindowDisplayAffinity(self, handle: int, how: int) -> int:
        self.shown["affinity"] = how
        return 1

    def _DestroyWindow(self, handle: int) -> int:
        self.others = [window for window in self.others if window.handle != handle]
        self.made.clear()
        return 1

    def _MessageBeep(self, kind: int) -> int:
        self.shown["beep"] = kind
        self.on_beep()
        return 1

    def _CreateFontW(self, *_: Any) -> int:
        return self._new("font")

    # -- process

    def _GetConsoleProcessList(self, into: int, room: int) -> int:
        ids = self.console_processes
        if len(ids) <= room:
            ctypes.memmove(into, struct.pack(f"<{len(ids)}I", *ids), 4 * len(ids))
        return len(ids)

    def _SetConsoleCtrlHandler(self, handler: int | None, add: int) -> int:
        if not handler:
            self.ignores_ctrl_c = bool(add)
            return 1
        self.on_close = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint32)(handler) if add else None
        return 1

    def _GetStdHandle(self, which: int) -> int:
        assert which in (0xFFFFFFF5, 0xFFFFFFF6), which  # STD_OUTPUT_HANDLE, STD_INPUT_HANDLE
        return STDOUT if which == 0xFFFFFFF5 else self.stdin

    def _GetConsoleMode(self, handle: int, out: Any) -> int:
        if self.input_mode is not None and handle == self.stdin:
            put(out, "I", self.input_mode)
            return 1
        if handle != STDOUT or self.console_mode is None:
            return self.refuse(6)  # ERROR_INVALID_HANDLE
        put(out, "I", self.console_mode)
        return 1

    def _SetConsoleMode(self, handle: int, mode: int) -> int:
        if self.input_mode is not None and handle == self.stdin:
            self.input_mode = mode
            return 1
        if handle != STDOUT or self.console_mode is None or (self.old_console and mode & 4):
            return self.refuse(INVALID_PARAMETER)
        self.console_mode = mode
        return 1

    def _CreateMutexW(self, _security: int | None, _owned: int, name: str) -> int:
        return self._new("mutex") if name else self.refuse(INVALID_PARAMETER)

    def _WaitForSingleObject(self, handle: int, milliseconds: int) -> int:
        if milliseconds or not self._get(handle, "mutex", "WaitForSingleObject"):
            return 0xFFFFFFFF
        return 258 if self.mutex_taken else 0

    def _ReleaseMutex(self, handle: int) -> int:
        return int(bool(self._get(handle, "mutex", "ReleaseMutex")))

    # -- handles

    def _new(self, kind: str, **facts: Any) -> int:
        number = next(self._numbers)
        self.handles[number] = Handle(kind, **facts)
        return number

    def _get(self, number: int | None, kinds: str, use: str) -> Handle | None:
        """A living handle of one of these kinds, or a problem noted and ERROR_INVALID_HANDLE set."""
        handle = self.handles.get(number or 0)
        if handle and handle.kind in kinds.split("|"):
            return handle
        state = f"a {handle.kind}" if handle else "unknown or already released"
        self.problems.append(f"{use} got a handle that is {state}")
        self.error = INVALID_HANDLE
        return None

    def _end(self, number: int, kinds: str, use: str) -> int:
        handle = self._get(number, kinds, use)
        if handle:
            del self.handles[number]
        return int(bool(handle))

    # -- process and screen

    def _dpi_answer(self, name: str, success: int, failure: int) -> int:
        code = self.dpi.get(name, 0)
        return self.refuse(code, failure) if code else success

    def _SetProcessDpiAwarenessContext(self, context: int) -> int:
        if context != -4:
            return self.refuse(INVALID_PARAMETER)
        return self._dpi_answer("SetProcessDpiAwarenessContext", 1, 0)

    def _SetProcessDPIAware(self) -> int:
        return self._dpi_answer("SetProcessDPIAware", 1, 0)

    def _GetSystemMetrics(self, index: int) -> int:
        screen, primary = self.screen(), self.monitors[0]
        sizes = {0: primary.width, 1: primary.height, 23: int(self.swapped)}
        pointer = {13: self.pointer.width, 14: self.pointer.height}
        return {**sizes, **pointer, **dict(enumerate(screen, 76))}[index]

    def _OpenInputDesktop(self, _flags: int, _inherit: int, _access: int) -> int:
        return self.refuse(ACCESS_DENIED) if self.locked else self._new("desktop")

    def _CloseDesktop(self, desktop: int) -> int:
        return self._end(desktop, "desktop", "CloseDesktop")

    # -- drawing

    def _GetDC(self, window: int | None) -> int:
        if window:
            self.problems.append("GetDC of a window: the screen is wanted")
        number = self._new("screen DC")
        self.handles[number].selected = STOCK_BITMAP
        return number

    def _ReleaseDC(self, _window: int | None, dc: int) -> int:
        return self._end(dc, "screen DC", "ReleaseDC")

    def _CreateCompatibleDC(self, dc: int) -> int:
        if not self._get(dc, "screen DC|memory DC", "CreateCompatibleDC"):
            return 0
        number = self._new("memory DC")
        self.handles[number].selected = STOCK_BITMAP
        return number

    def _DeleteDC(self, dc: int) -> int:
        handle = self._get(dc, "memory DC", "DeleteDC")
        if not handle:
            return 0
        if handle.selected != STOCK_BITMAP and not self.failed:
            self.problems.append("DeleteDC before the former bitmap was selected back")
        return self._end(dc, "memory DC", "DeleteDC")

    def _CreateDIBSection(
        self, dc: int, info: int, usage: int, bits: int, section: int | None, offset: int
    ) -> int:
        if not self._get(dc, "screen DC|memory DC", "CreateDIBSection"):
            return 0
        size, width, height, planes, depth, compression = struct.unpack(
            "<IiiHHI", ctypes.string_at(info, 20)
        )
        rest = (size, planes, depth, compression, usage, section, offset)
        if rest != (40, 1, 32, 0, 0, None, 0) or width < 1 or height >= 0:
            self.problems.append(
                f"CreateDIBSection: no 32-bit RGB, top-down: {rest, width, height}"
            )
            return self.refuse(INVALID_PARAMETER)
        memory = ctypes.create_string_buffer(b"\xcd" * (width * -height * 4), width * -height * 4)
        ctypes.c_void_p.from_address(bits).value = ctypes.addressof(memory)
        return self._new("bitmap", width=width, height=-height, memory=memory)

    def _SelectObject(self, dc: int, thing: int) -> int:
        handle = self._get(dc, "memory DC|screen DC", "SelectObject")
        if not handle:
            return 0
        if thing != STOCK_BITMAP:
            if not self._get(thing, "bitmap|font", "SelectObject"):
                return 0
            if any(handle.selected == thing for handle in list(self.handles.values())):
                self.problems.append("SelectObject: the bitmap is selected already")
                return self.refuse(INVALID_HANDLE)
        former, handle.selected = handle.selected, thing
        return former

    def _DeleteObject(self, thing: int) -> int:
        handle = self._get(thing, "bitmap|cursor bitmap|font", "DeleteObject")
        if not handle:
            return 0
        if any(handle.selected == thing for handle in list(self.handles.values())):
            if not self.failed:
                self.problems.append("DeleteObject of a bitmap that is selected into a DC")
            return self.refuse(INVALID_HANDLE)
        if handle.memory is not None:
            ctypes.memset(handle.memory, 0xDD, len(handle.memory))
        return self._end(thing, handle.kind, "DeleteObject")

    def _SetStretchBltMode(self, dc: int, mode: int) -> int:
        handle = self._get(dc, "memory DC", "SetStretchBltMode")
        if not handle or not 1 <= mode <= 4:
            return self.refuse(INVALID_PARAMETER)
        former, handle.mode, handle.brush_set = handle.mode, mode, False
        return former

    def _SetBrushOrgEx(self, dc: int, _x: int, _y: int, _former: int | None) -> int:
        handle = self._get(dc, "memory DC", "SetBrushOrgEx")
        if handle:
            handle.brush_set = True
        return int(bool(handle))

    def _target(self, dc: int, use: str) -> Handle | None:
        """The bitmap that drawing on `dc` reaches."""
        handle = self._get(dc, "memory DC", use)
        if handle and handle.selected == STOCK_BITMAP:
            self.problems.append(f"{use} draws on a DC without a bitmap of its own")
            return None
        return self._get(handle.selected, "bitmap", use) if handle else None

    def _StretchBlt(self, dc: int, x: int, y: int, w: int, h: int, source: int, *rest: int) -> int:
        left, top, wide, high, operation = rest
        bitmap = self._target(dc, "StretchBlt")
        if not bitmap or not self._get(source, "screen DC", "StretchBlt"):
            return 0
        mode = self.handles[dc].mode
        if mode == 4 and not self.handles[dc].brush_set:
            self.problems.append("StretchBlt with HALFTONE, without SetBrushOrgEx")
        if mode not in (3, 4) or operation & 0xFFFFFF != 0xCC0020:
            self.problems.append(f"StretchBlt with mode {mode} and operation {operation:#x}")
        if (x, y, w, h) != (0, 0, bitmap.width, bitmap.height) or wide < 1 or high < 1:
            self.problems.append(f"StretchBlt to {x, y, w, h} from {wide, high}")
            return self.refuse(INVALID_PARAMETER)
        pixels = self._sample(Rect(left, top, wide, high), w, h)
        bitmap.pending.append(lambda memory: ctypes.memmove(memory, pixels, len(pixels)))
        return 1

    def _sample(self, area: Rect, width: int, height: int) -> bytes:
        """What is seen of the area, black beyond the screen."""
        if self._paint:
            return sample(self.screen(), self._row, area, width, height)
        return own_sample(self.screen(), area, width, height)

    def _GdiFlush(self) -> int:
        for handle in list(self.handles.values()):
            for draw in handle.pending:
                draw(handle.memory)
            handle.pending.clear()
        return 1

    # -- mouse pointer

    def _GetCursorInfo(self, info: int) -> int:
        if struct.unpack("<I", ctypes.string_at(info, 4)) != (24,):
            self.problems.append("GetCursorInfo: cbSize is not 24")
            return self.refuse(INVALID_PARAMETER)
        pointer = self.pointer
        put(info, "IIQii", 24, pointer.flags, pointer.handle, self.mouse.x, self.mouse.y)
        return 1

    def _LoadCursorW(self, module: int | None, name: int) -> int:
        assert (module, name) == (None, 32512)
        return ARROW

    def _GetIconInfo(self, cursor: int, info: int) -> int:
        pointer = CURSORS["arrow"] if cursor == ARROW else self.pointer
        if cursor not in (ARROW, pointer.handle) or pointer.private:
            return self.refuse(1402)  # ERROR_INVALID_CURSOR_HANDLE
        high = pointer.height * (1 if pointer.colour else 2)
        mask = self._new("cursor bitmap", width=pointer.width, height=high)
        colour = self._new("cursor bitmap") if pointer.colour else 0
        put(info, "iII4xQQ", 0, *pointer.hot, mask, colour)
        return 1

    def _DrawIconEx(self, dc: int, x: int, y: int, icon: int, w: int, h: int, *rest: int) -> int:
        bitmap = self._target(dc, "DrawIconEx")
        if not bitmap or icon not in (ARROW, self.pointer.handle):
            return self.refuse(INVALID_HANDLE)
        if rest[2] != 3 or w < 1 or h < 1:
            self.problems.append(f"DrawIconEx of {w, h}, {rest}: Windows would take another size")
        self.drawn.append((x, y, w, h))
        part = Rect(x, y, w, h).intersection(Rect(0, 0, bitmap.width, bitmap.height))

        def draw(memory: Any) -> None:
            line = struct.pack("<I", POINTER_COLOUR) * part.width
            for row in range(part.top, part.bottom):
                first = (row * bitmap.width + part.left) * 4
                ctypes.memmove(ctypes.addressof(memory) + first, line, len(line))

        bitmap.pending.append(draw)
        return 1

    def _GetCursorPos(self, into: int) -> int:
        put(into, "ii", self.mouse.x, self.mouse.y)
        return 1

    def _SetCursorPos(self, x: int, y: int) -> int:
        self._put_mouse(x, y)
        return 1

    def _put_mouse(self, x: int, y: int) -> None:
        """The mouse stays on a monitor: a place in no monitor becomes the nearest place in one."""
        if self.mouse_stuck:
            return
        places = []
        for m in self.monitors:
            place = Point(min(max(x, m.left), m.right - 1), min(max(y, m.top), m.bottom - 1))
            places.append((abs(place.x - x) + abs(place.y - y), place))
        self.mouse = min(places, key=itemgetter(0))[1]

    # -- windows

    def _GetForegroundWindow(self) -> int:
        return self.window.handle if self.window else 0

    def _shown(self, handle: int) -> Foreground | None:
        for window in [self.window, *self.others]:
            if window and window.handle == handle:
                return window
        self.error = 1400  # ERROR_INVALID_WINDOW_HANDLE
        return None

    def _EnumWindows(self, take: int, value: int) -> int:
        callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_ssize_t)(take)
        for window in [self.window, *self.others]:
            if window and not callback(window.handle, value):
                return 0
        return 1

    def _DwmGetWindowAttribute(self, handle: int, what: int, into: int, size: int) -> int:
        shown = self._shown(handle)
        if not shown or (what, size) != (14, 4):
            return E_FAIL
        put(into, "I", 2 * shown.cloaked)
        return 0

    # -- the clipboard, of which Windows gives one address

    def _IsClipboardFormatAvailable(self, form: int) -> int:
        return int(form == 13 and self.clipboard is not None)

    def _GetClipboardData(self, form: int) -> int:
        return 77 if form == 13 and self.clipboard is not None else 0

    def _GlobalLock(self, memory: int) -> int:
        return 78 if memory == 77 else 0

    def _lstrlenW(self, text: int) -> int:
        return len(self.clipboard or "") if text == 78 else 0

    def _ShowWindowAsync(self, handle: int, how: int) -> int:
        if how == 4:
            return 0
        if how != 9:
            self.problems.append(f"ShowWindowAsync: {how}")
        self.others = [
            replace(w, minimised=w.minimised and w.handle != handle) for w in self.others
        ]
        return 1

    def _SetForegroundWindow(self, handle: int) -> int:
        shown = self._shown(handle)
        if not shown or self.never_front or (self.keeps_front and not self.attached):
            return 0
        behind = [w for w in [self.window, *self.others] if w and w.handle != handle]
        self.window, self.others = shown, behind
        return 1

    def _BringWindowToTop(self, handle: int) -> int:
        return int(bool(self._shown(handle)))

    def _AttachThreadInput(self, ours: int, theirs: int, attach: int) -> int:
        if (ours, theirs) != (98, 99):
            self.problems.append(f"AttachThreadInput: {ours}, {theirs}")
        self.attached = bool(attach)
        return 1

    def _CoInitializeEx(self, reserved: int | None, kind: int) -> int:
        if reserved is not None:
            self.problems.append(f"CoInitializeEx: {reserved}")
        self.apartments[threading.get_ident()] = kind
        return 0

    def _CoUninitialize(self) -> int:
        del self.apartments[threading.get_ident()]
        return 0

    def _ShellExecuteW(self, _: None, verb: str, path: str, words: Any, _dir: Any, how: int) -> int:
        if (verb, words, how) != ("open", None, 1):
            self.problems.append(f"ShellExecuteW: {verb} {words} {how}")
        if self.apartments.get(threading.get_ident()) != 6:  # single-threaded, without OLE 1's DDE
            self.problems.append("ShellExecuteW without COM in its thread")
        self.programs_opened.append(path)
        if self.opens:
            self.others = [window for window in [self.window, *self.others] if window]
            self.window = self.opens
        return self.shell_answer

    def _WindowFromPoint(self, point: Any) -> int:
        for window in [self.window, *self.others]:
            if window and window.rect.contains(Point(point.x, point.y)):
                return window.handle + 1  # a control inside it
        return 0

    def _MonitorFromPoint(self, point: Any, flags: int) -> int:
        if flags:
            self.problems.append(f"MonitorFromPoint: flags {flags}")
        for number, monitor in enumerate(self.monitors, 1):
            if monitor.contains(Point(point.x, point.y)):
                return 0x10000 + number
        return 0

    def _GetAncestor(self, handle: int, kind: int) -> int:
        if kind == 3:
            if handle == self.console:
                return self.console_owner
            shown = self._shown(handle)
            return shown.owner or handle if shown else 0
        return handle - 1

    def _FindWindowExW(self, parent: int, after: int, class_name: str, title: str) -> int:
        """What lies in a frame is one of the others that is not visible by itself."""
        if after or title:
            self.problems.append("FindWindowExW is asked for more than a class")
        for window in self.others:
            if (window.owner, window.class_name, window.visible) == (parent, class_name, False):
                return window.handle
        return 0

    def _GetClassNameW(self, handle: int, into: int, room: int) -> int:
        window = self._shown(handle)
        return self._write(into, room, window.class_name) if window else 0

    def _GetWindowTextW(self, handle: int, into: int, room: int) -> int:
        window = self._shown(handle)
        return self._write(into, room, window.title) if window else 0

    @staticmethod
    def _write(into: int, room: int, text: str) -> int:
        """A string with its NUL into a buffer of `room` characters, cut to fit; c_wchar is 4 bytes on Linux."""
        text = text[: room - 1]
        (ctypes.c_wchar * (len(text) + 1)).from_address(into).value = text
        return len(text)

    def _GetWindowRect(self, handle: int, into: int) -> int:
        window = self._shown(handle)
        if not window:
            return 0
        rect = window.rect
        put(into, "4i", rect.left, rect.top, rect.right, rect.bottom)
        return 1

    def _GetWindowThreadProcessId(self, handle: int, into: int) -> int:
        window = self._shown(handle)
        if not window:
            return 0
        if into:
            put(into, "I", window.process)
        return 99

    def _OpenProcess(self, access: int, _inherit: int, process: int) -> int:
        shown = [w for w in [self.window, *self.others] if w and w.process == process and w.path]
        own = Foreground(path=r"C:\Python\python.exe", level=self.own_level)
        if not shown and process != os.getpid():
            return self.refuse(ACCESS_DENIED)
        if access != 0x1000:
            self.problems.append(f"OpenProcess asks for the right {access:#x}, more than it needs")
        return self._new("process", window=shown[0] if shown else own)

    def _CloseHandle(self, handle: int) -> int:
        return self._end(handle, "process|token|mutex", "CloseHandle")

    def _QueryFullProcessImageNameW(self, process: int, flags: int, into: int, size: int) -> int:
        room = struct.unpack("<I", ctypes.string_at(size, 4))[0]
        handle = self._get(process, "process", "QueryFullProcessImageNameW")
        if not handle or flags:
            return 0
        if room <= len(handle.window.path):
            return self.refuse(122)  # ERROR_INSUFFICIENT_BUFFER
        put(size, "I", self._write(into, room, handle.window.path))
        return 1

    def _OpenProcessToken(self, process: int, access: int, into: int) -> int:
        handle = self._get(process, "process", "OpenProcessToken")
        if not handle or not handle.window.level:
            return self.refuse(ACCESS_DENIED)
        if access != 0x0008:
            self.problems.append(f"OpenProcessToken asks for the right {access:#x}")
        put(into, "Q", self._new("token", window=handle.window))
        return 1

    def _GetTokenInformation(self, token: int, kind: int, into: int, room: int, needed: int) -> int:
        handle = self._get(token, "token", "GetTokenInformation")
        if not handle or kind != 25 or room < 28:
            return self.refuse(INVALID_PARAMETER)
        sid = struct.pack("<BB6sI", 1, 1, bytes([0, 0, 0, 0, 0, 16]), handle.window.level)
        ctypes.memmove(into, struct.pack("<QQ", into + 16, 0x60) + sid, 28)
        put(needed, "I", 28)
        return 1

    # -- input

    def _MapVirtualKeyW(self, code: int, kind: int) -> int:
        return code ^ 0x80 if kind == 0 else 0  # any number that tells its key

    def _SendInput(self, count: int, inputs: int, size: int, most: int | None = None) -> int:
        if size != 40:
            self.problems.append(f"SendInput: cbSize is {size}, not 40")
            return self.refuse(INVALID_PARAMETER)
        limits = [limit for limit in (count, most, self.insert_at_most) if limit is not None]
        taken = max(0, min(limits))
        self.sent.append(count)
        self.last_input = int(self.clock.now() * 1000) & 0xFFFFFFFF
        for index in range(taken):
            raw = ctypes.string_at(inputs + 40 * index, 40)
            kind = struct.unpack_from("<I", raw)[0]
            if kind == 0:
                self._mouse_input(*struct.unpack_from("<iiIII4xQ", raw, 8))
            elif kind == 1:
                self._key_input(*struct.unpack_from("<HHII4xQ", raw, 8))
            else:
                self.problems.append(f"SendInput: an event of type {kind}")
        return taken

    def _mouse_input(self, dx: int, dy: int, data: int, flags: int, time: int, _mark: int) -> None:
        unknown = flags & ~(0x0001 | 0x007E | 0x0800 | 0x1000 | 0x4000 | 0x8000)
        if unknown or time or (flags & 1 and not flags & 0x8000):
            self.problems.append(f"SendInput: mouse flags {flags:#x}, time {time}")
        if flags & 1:
            area = self.screen() if flags & 0x4000 else self.monitors[0]
            x, y = area.left + (dx * area.width >> 16), area.top + (dy * area.height >> 16)
            self._put_mouse(x, y)
            self._note("move", self.mouse)
        for bit, physical in ((0x02, "left"), (0x08, "right"), (0x20, "middle")):
            swap = {"left": "right", "right": "left", "middle": "middle"} if self.swapped else {}
            for flag, down in ((bit, True), (bit << 1, False)):
                if flags & flag:
                    self._button(swap.get(physical, physical), down)
        for flag, kind in ((0x0800, "wheel"), (0x1000, "hwheel")):
            if flags & flag:
                units = data - (1 << 32) if data & 0x80000000 else data
                self.wheel[kind] += units
                self._note(kind, units)

    def _button(self, name: str, down: bool) -> None:
        self._press(("button", name), down)
        if down:
            self.clicks.append(Click(self.clock.now(), name, self.mouse, self._is_double(name)))
        self._note("button", name, down)

    def _is_double(self, name: str) -> bool:
        """Same button, within the time, inside a rectangle of 4 pixels around the first; a third is single again."""
        for last in self.clicks[-1:]:
            soon = (self.clock.now() - last.at) * 1000 <= self.double_click_ms
            x, y = last.place.x - self.mouse.x, last.place.y - self.mouse.y
            return soon and not last.double and last.button == name and max(abs(x), abs(y)) <= 2
        return False

    def _key_input(self, code: int, scan: int, flags: int, time: int, _mark: int) -> None:
        down = not flags & 2
        if flags & ~7 or time:
            self.problems.append(f"SendInput: key flags {flags:#x}, time {time}")
        if flags & 4:
            if code or flags & 1:
                self.problems.append(f"SendInput: a Unicode event with key {code:#x}, {flags:#x}")
            self._press(("unit", scan), down)
            if down:
                self._unit(scan)
            self._note("unit", scan, down)
            return
        extended = bool(flags & 1)
        keys = [what for kind, what in self._down if kind == "key"]
        self._press(("key", (code, extended)), down)
        alone = not any(key in MODIFIER_KEYS for key, _ in keys)
        if down and alone:
            self.typed += {VK_RETURN: "\n", VK_TAB: "\t"}.get(code, "")
        self._note("key", code, down, extended, scan)

    def _unit(self, unit: int) -> None:
        """One UTF-16 unit reaches the text; a low surrogate joins the high one right before it."""
        if self._high and 0xDC00 <= unit < 0xE000:
            self.typed += chr(0x10000 + ((self._high - 0xD800) << 10) + (unit - 0xDC00))
            self._high = 0
        elif self._high or 0xDC00 <= unit < 0xE000:
            self.problems.append(f"a lone surrogate arrived before or as {unit:#x}")
            self._high = 0
        elif 0xD800 <= unit < 0xDC00:
            self._high = unit
        else:
            self.typed += chr(unit)

    def _press(self, what: tuple[str, Any], down: bool) -> None:
        if down and what not in self._down:
            self._down.append(what)
        elif down:
            self.problems.append(f"{what} was pressed while it was down")
        elif what in self._down:
            self._down.remove(what)
        elif not self.failed:
            self.problems.append(f"{what} was released while it was up")

    def _note(
        self, kind: str, value: Any, down: bool = False, extended: bool = False, scan: int = 0
    ) -> None:
        event = Event(self.clock.now(), kind, value, down, extended, scan, self.mouse)
        self.events.append(event)
        if self.on_event:
            self.on_event(event)

    def kinds(self) -> Counter[str]:
        """How many events of each kind arrived."""
        return Counter(event.kind for event in self.events)


def windows_desktop(**world: Any) -> tuple[FakeWin32, agent.WindowsDesktop, VirtualClock]:
    """A simulated Windows with these properties, the program's desktop on it, and their clock (with its own Stop)."""
    fake = FakeWin32(**world)
    return fake, agent.WindowsDesktop(fake.api, fake.clock), fake.clock
