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
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import count
from operator import itemgetter
from typing import Any

import agent
from agent import Point, Rect

ACCESS_DENIED, INVALID_HANDLE, INVALID_PARAMETER, GENERAL_FAILURE = 5, 6, 87, 31
E_FAIL = -2147467259
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
    " MonitorFromPoint FindWindowExW GetConsoleProcessList GetTickCount PeekMessageW WaitForSingleObject"
    " IsWindowVisible IsIconic IsHungAppWindow ShowWindowAsync SetForegroundWindow BringWindowToTop AttachThreadInput"
    " GetCurrentThreadId IsClipboardFormatAvailable GetClipboardOwner GlobalUnlock lstrlenW CoUninitialize"
    " CoTaskMemFree GetWindowThreadProcessId DwmGetWindowAttribute SetConsoleCtrlHandler SetWindowDisplayAffinity"
    " GetWindowDisplayAffinity"
    " SendMessageW TranslateMessage DispatchMessageW FlashWindowEx MessageBeep LoadCursorW GetKeyboardLayout"
    " VkKeyScanExW GetAsyncKeyState GetRawInputData GetKeyState ToUnicodeEx".split()
)
# Those that answer an HRESULT.
BY_HRESULT = ("SHCreateItemFromParsingName", "CoInitializeEx")
RELEASES = frozenset(
    "ReleaseDC DeleteDC DeleteObject CloseDesktop CloseHandle SelectObject".split()
)
ARROW = 0x1000F
ANSWERS = {
    **dict.fromkeys("OpenClipboard CloseClipboard BringWindowToTop ReleaseMutex".split(), 1),
    **dict.fromkeys("ReleaseDC CloseDesktop CloseHandle".split(), 1),
    **dict.fromkeys("SetProcessDpiAwarenessContext SetProcessDPIAware".split(), 1),
    **dict.fromkeys(
        "GlobalUnlock CoTaskMemFree SendMessageW TranslateMessage DispatchMessageW".split(), 0
    ),
    "WaitForSingleObject": 0,
    "GetCurrentThreadId": 98,
    "LoadCursorW": ARROW,
    "GetClipboardData": 77,
    "GlobalLock": 78,
    "SHCreateItemFromParsingName": -2147024894,  # no folder of all apps, as under Wine
}
NEW = {
    "GetDC": "screen DC",
    "CreateCompatibleDC": "memory DC",
    "CreateFontW": "font",
    "CreateMutexW": "mutex",
}
ATTRIBUTES = {
    "GetConsoleWindow": "console",
    "GetDoubleClickTime": "double_click_ms",
    "GetClipboardOwner": "clipboard_owner",
}
# What tells a property of a window, and what writes one of its texts.
OF_WINDOW = {"IsWindowVisible": "visible", "IsIconic": "minimised", "IsHungAppWindow": "hung"}
TEXTS = {"GetClassNameW": "class_name", "GetWindowTextW": "title"}
# Where no window has the handle, they answer 0; else their method gets the window.
ON_WINDOW = {*OF_WINDOW, *TEXTS, "BringWindowToTop", "SetForegroundWindow", "GetWindowRect"}
ON_WINDOW |= {"GetWindowThreadProcessId", "DwmGetWindowAttribute", "GetWindowDisplayAffinity"}
# The kinds of handles that functions take.
KINDS = {
    "screen DC, memory DC": "CreateCompatibleDC CreateDIBSection SelectObject",
    "memory DC": "SetStretchBltMode SetBrushOrgEx StretchBlt DrawIconEx DeleteDC",
    "screen DC": "ReleaseDC",
    "bitmap, cursor bitmap, font": "DeleteObject",
    "desktop": "CloseDesktop",
    "process, token, mutex": "CloseHandle",
    "process": "QueryFullProcessImageNameW OpenProcessToken",
    "token": "GetTokenInformation",
    "mutex": "WaitForSingleObject ReleaseMutex",
}
TAKES = {name: kinds for kinds, names in KINDS.items() for name in names.split()}
# Arguments that are wrong with any other value, each by its place.
WANTED: dict[str, dict[int, Any]] = {
    "SendInput": {2: 40},
    "GetDC": {0: None},
    "IsClipboardFormatAvailable": {0: 13},
    "GetClipboardData": {0: 13},
    "GlobalLock": {0: 77},
    "lstrlenW": {0: 78},
    "CreateDIBSection": {2: 0, 4: None, 5: 0},
    "DrawIconEx": {8: 3},
    "LoadCursorW": {0: None, 1: 32512},
    "MonitorFromPoint": {1: 0},
    "FindWindowExW": {1: None, 3: None},
    "OpenProcess": {0: 0x1000},  # no more than it needs
    "OpenProcessToken": {1: 8},
    "QueryFullProcessImageNameW": {1: 0},
    "GetTokenInformation": {1: 25},
    "AttachThreadInput": {0: 98, 1: 99},
    "CoInitializeEx": {0: None, 1: 6},  # single-threaded, without OLE 1's DDE
    "ShellExecuteW": {1: "open", 3: None, 5: 1},
    "WaitForSingleObject": {1: 0},
    "SetProcessDpiAwarenessContext": {0: -4},
}
SIZES = {
    "GetCursorInfo": 24,
    "GetLastInputInfo": 8,
    "FlashWindowEx": 32,
}  # that their structures begin with
STOCK_BITMAP = 0x7F00_0000_0001
STANDARD = 1 << 40  # with the number of a standard stream: its handle


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
        while self._plans and self._plans[0][0] <= end:
            when, action = self._plans.pop(0)
            self.time = max(self.time, when)
            action()
        self.time = end

    def at(self, seconds: float, action: Callable[[], Any]) -> None:
        """Calls `action` as soon as that many seconds from now have been slept away."""
        self._plans.append((self.time + seconds, action))
        self._plans.sort(key=itemgetter(0))


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
    double: bool = False  # a press that Windows tells as a WM_…DBLCLK


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
    border: int = 0  # pixels of its frame that nobody sees, left, right and below
    hung: bool = False
    affinity: int = 0  # 0x11: it is in no picture of the screen
    level: int = 0x2000  # integrity: low 0x1000, medium, high (administrator) 0x3000; 0: the token may not be opened


def put(into: int, form: str, *values: Any) -> None:
    """Writes a little-endian structure without ctypes' own layout."""
    data = struct.pack(f"<{form}", *values)
    ctypes.memmove(into, data, len(data))


@dataclass
class Handle:
    """Something Windows gave out; DCs know what is selected into them, bitmaps own their memory."""

    kind: str
    width: int = 0
    height: int = 0
    memory: Any = None
    window: Any = None
    selected: int = STOCK_BITMAP
    mode: int = 1
    brush_set: bool = True
    pending: list[tuple[int, bytes]] = field(default_factory=list)  # GDI draws it with GdiFlush


Paint = tuple[tuple[Rect, int], ...]


@lru_cache(maxsize=4096)  # a screen's rows are the same in thousands of simulated Windows
def row_of(screen: Rect, paint: Paint, y: int) -> Any:
    """One row of a screen as 32-bit BGRX values, and a black one behind it; unpainted, all pixels differ."""
    if not screen.top <= y < screen.bottom:
        return array("I", bytes(4 * screen.width + 4))
    if not paint:
        own = (y & 255) << 8 | (y >> 8 & 15) << 20
        across = range(screen.left, screen.right)
        return array("I", [(x >> 8 & 15) << 16 | x & 255 | own for x in across] + [0])
    row = row_of(screen, paint[:-1], y)[:]
    rect, colour = paint[-1]
    part = rect.intersection(Rect(screen.left, y, screen.width, 1))
    if part.width and part.height:
        first = part.left - screen.left
        row[first : first + part.width] = array("I", [colour]) * part.width
    return row


@lru_cache(maxsize=16)  # most tests look at the same small part again and again
def sample(screen: Rect, paint: Paint, area: Rect, width: int, height: int) -> bytes:
    """The screen's `area` scaled by nearest sampling, BGRX; black beyond the screen."""
    columns = [
        area.left + (2 * i + 1) * area.width // (2 * width) - screen.left for i in range(width)
    ]
    pick = itemgetter(*(x if 0 <= x < screen.width else screen.width for x in columns), 0)
    rows = (area.top + (2 * j + 1) * area.height // (2 * height) for j in range(height))
    return b"".join(array("I", pick(row_of(screen, paint, y))[:-1]).tobytes() for y in rows)


class Entered(threading.local):
    """What answers the calls that this thread is in; one may be made while another is answered."""

    def __init__(self) -> None:
        self.answers: list[Callable[..., Any]] = []


ENTERED = Entered()


@cache
def crossing_of(restype: Any, *argtypes: Any) -> Callable[..., Any]:
    """The way through ctypes for all functions of these types: one for each function would take longer to make."""
    return ctypes.CFUNCTYPE(restype, *argtypes)(lambda *given: ENTERED.answers[-1](*given))


class FakeWin32:
    """`api` is agent's Win32 bound to it; state is in plain attributes. monitors[0] is the primary, at (0, 0)."""

    mouse = Point(400, 300)
    window: Foreground | None = Foreground()
    swapped = locked = False
    double_click_ms = 500
    opens: Foreground | None = None  # comes to the front when a program is started
    opens_behind = False
    start_fails: tuple[int, int] | None = (
        None  # what ShellExecuteW answers, and the error behind it
    )
    never_front = False  # the window in front gives the keyboard away to nobody
    attached = False
    own_level, console, console_owner = 0x2000, 0, 0
    console_processes: list[int]
    on_close: Any = None
    ignores_ctrl_c = False
    old_console = False  # older than Windows 10
    unknown_modes = 0  # which a console takes without a word, and does not have
    mouse_stuck = False  # another program holds it: neither SendInput nor SetCursorPos moves it
    insert_at_most: int | None = None  # events that every SendInput takes at most
    keyboard = ""  # the signs of the keys that a test needs, each with its code: German "= 0x130"
    clipboard: str | None = None
    clipboard_owner = 0  # the handle of the window whose text it is
    on_event: Callable[[Event], Any] | None = None
    # The calls that fail, by number (from 1) or name; of a failing SendInput so many events are inserted all the same.
    failing: Container[int] = ()
    failing_names: Container[str] = ()
    fail_inserts = 0
    paint: Paint = ()  # over the screen's own picture
    error = 0

    def __init__(
        self,
        monitors: Iterable[Rect] = (Rect(0, 0, 1920, 1080),),
        cursor: str = "arrow",
        missing: Iterable[str] = (),
        clock: VirtualClock | None = None,
        **state: Any,
    ) -> None:
        self.monitors, self.pointer = list(monitors), CURSORS[cursor]
        self.missing, self.clock = frozenset(missing), clock or VirtualClock()
        for name, value in state.items():
            getattr(self, name)  # such a property there is
            setattr(self, name, value)
        self.others = list[Foreground]()  # further windows, topmost first
        self.programs_opened = list[str]()  # the paths given to ShellExecuteW
        self.apartments = set[int]()  # the threads with COM
        self.touched = set[int]()  # codes of keys that went down and were not asked for since
        self.last_input = self._GetTickCount()
        self.hotkeys = dict[int, tuple[int, int]]()  # id: (modifiers, VK code)
        self.messages = list[int]()  # ids of hotkeys that were pressed
        self.modes = dict[int, int | None]()  # of a standard stream that is a console
        # what happened
        self.events = list[Event]()
        self.sent = list[int]()  # events of each SendInput
        self.drawn = list[tuple[int, int, int, int]]()  # rectangles of DrawIconEx
        self.calls, self.failed, self.problems = list[str](), list[str](), list[str]()
        self.handles = dict[int, Handle]()  # those that are open
        self._numbers = count(0x7F00_0000_1000, 4)  # a handle declared as int would be cut
        # Windows of the program's own: their texts, how the box is shown, and what came there: the window, the message
        # and the seconds from now.
        self.made, self.shown = dict[int, str](), dict[str, Any]()
        self.signs = {code: chr(code).lower() + chr(code) for code in range(0x41, 0x5B)}
        self.raw = list[bytes]()  # RAWINPUT, as Windows has it of what a person does
        self.posted = list[tuple[Any, ...]]()  # the window, the message, after seconds, its word
        self.flashed: list[int] = []
        self.typed_into: dict[int, str] = {}  # what the person typed into fields of its own
        self.on_beep: Callable[[], Any] = lambda: None
        self._down = list[tuple[str, Any]]()
        self._units = list[int]()
        self.api = agent.Win32(self.resolve, lambda: self.error)

    # -- the seam

    def resolve(self, dll: str, name: str, restype: Any, argtypes: list[Any]) -> Callable[..., Any]:
        """The function as ctypes would give it; one that `missing` names (or its DLL) is not there."""
        if dll in self.missing:
            raise OSError(f"[WinError 126] {dll} could not be found")
        if name in self.missing:
            raise AttributeError(f"function '{name}' not found")
        answers_it = self._answering(name, self.body(name))
        is_address = restype is ctypes.c_void_p

        def answer(*arguments: Any) -> Any:
            try:  # an exception would not leave the callback
                result = answers_it(arguments)
                return (result or None) if is_address else result
            except BaseException as error:
                self.problems.append(f"{name}{arguments}: {type(error).__name__}: {error}")
                return 0

        crossing, declared = crossing_of(restype, *argtypes), len(argtypes)

        def function(*arguments: Any) -> Any:
            given = len(arguments)
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
            return lambda *_: ANSWERS[name]
        if name in NEW:
            return lambda *_: self._new(NEW[name])
        if name in ATTRIBUTES:
            return lambda: getattr(self, ATTRIBUTES[name])
        if name in OF_WINDOW:
            return lambda window: int(getattr(window, OF_WINDOW[name]))
        if name in TEXTS:
            return lambda window, *rest: self._write(*rest, getattr(window, TEXTS[name]))
        body: Callable[..., Any] = getattr(self, f"_{name}")
        return body

    def _answering(self, name: str, body: Callable[..., Any]) -> Callable[[tuple[Any, ...]], Any]:
        """What answers the calls of one function. What holds for all of them is looked up here, once."""
        wanted, kinds = [*WANTED.get(name, {}).items()], TAKES.get(name, "")
        size = struct.pack("<I", SIZES[name]) if name in SIZES else b""
        on_window, releases = name in ON_WINDOW, name in RELEASES and name != "SelectObject"
        place = int(name == "ReleaseDC")  # of the handle that it takes

        def answer(arguments: tuple[Any, ...]) -> Any:
            self.calls.append(name)
            if len(self.calls) in self.failing or name in self.failing_names:
                return self._failure(name, arguments)
            for at, value in wanted:
                if arguments[at] != value:
                    self.problems.append(f"{name}: argument {at} is {arguments[at]}")
            if size and ctypes.string_at(arguments[0], 4) != size:
                self.problems.append(f"{name}: cbSize is not {SIZES[name]}")
            if on_window:
                if name == "GetWindowTextW" and arguments[0] in self.typed_into:
                    return self._write(*arguments[1:], self.typed_into[arguments[0]])
                window = self._shown(arguments[0])
                return body(window, *arguments[1:]) if window else 0
            if kinds and not self._get(arguments[place], kinds, name):
                return 0
            answer = body(*arguments)
            if answer and releases:
                del self.handles[arguments[place]]
            return answer

        return answer

    def _failure(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self.failed.append(name)
        if name not in NEVER_FAIL:
            self.error = GENERAL_FAILURE
        if name == "SendInput":
            return self._SendInput(*arguments, most=min(self.fail_inserts, arguments[0] - 1))
        return E_FAIL if name in BY_HRESULT else 0

    def arm(self, at: Container[int] = (), names: Container[str] = (), inserts: int = 0) -> None:
        """Chooses which calls fail, counted from now; without arguments none does."""
        self.failing, self.failing_names, self.fail_inserts = at, names, inserts
        self.calls.clear()
        self.failed.clear()

    def refuse(self, code: int) -> int:
        """The answer of a function that fails by itself, with GetLastError set; success leaves a stale one."""
        self.error = code
        return 0

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

    @property
    def typed(self) -> str:
        """The text as an edit control would hold it; line ends are \\n. A lone surrogate is a UnicodeError."""
        return array("H", self._units).tobytes().decode("utf-16-le")

    def screen(self) -> Rect:
        """The bounding rectangle of all monitors."""
        left, top = min(m.left for m in self.monitors), min(m.top for m in self.monitors)
        right, bottom = max(m.right for m in self.monitors), max(m.bottom for m in self.monitors)
        return Rect(left, top, right - left, bottom - top)

    def fill(self, rect: Rect, colour: int) -> None:
        """Paints a rectangle of the virtual screen over its picture."""
        self.paint += ((rect, colour),)

    def seen(self, area: Rect, width: int, height: int) -> bytes:
        """What the screen shows there, BGRX."""
        return sample(self.screen(), self.paint, area, width, height)

    # -- the person

    def person(self, mouse: Point | None = None) -> None:
        """The person uses the keyboard, or the mouse, which is at that place then."""
        self.mouse = mouse or self.mouse
        if mouse is None:
            self.touched.add(0x41)
        self.device()

    def device(self) -> None:
        """Something else than mouse and keys keeps Windows from being idle."""
        self.last_input = self._GetTickCount()

    def _GetAsyncKeyState(self, code: int) -> int:
        was_touched = code in self.touched
        self.touched.discard(code)
        if self.window and not 0 < self.window.level <= self.own_level:
            return 0  # of what a window of more rights gets nothing is told
        sides = {code, {0xA0: 0x10, 0xA2: 0x11, 0xA4: 0x12}.get(code, code)}  # no side is the left
        held = {what[0] if kind == "key" else what for kind, what in self._down}
        button = {1: "left", 2: "right", 4: "middle"}.get(code)
        down = button in held or not held.isdisjoint(sides)
        return int(was_touched) - 0x8000 * down

    def _GetLastInputInfo(self, into: int) -> int:
        put(into, "II", 8, self.last_input)
        return 1

    def _GetTickCount(self) -> int:
        return int(self.clock.now() * 1000) & 0xFFFFFFFF

    def _RegisterHotKey(self, _window: int | None, number: int, modifiers: int, code: int) -> int:
        if (modifiers, code) in self.hotkeys.values():
            return self.refuse(1409)  # ERROR_HOTKEY_ALREADY_REGISTERED
        self.hotkeys[number] = (modifiers, code)
        return 1

    def _PeekMessageW(self, into: int, _: None, first: int, last: int, remove: int) -> int:
        handle, message, word, tick = 0, 0x0312, 0, 0  # WM_HOTKEY
        place, more = Point(0, 0), 0
        if (first, last, remove) == (0, 0, 1) and self.raw:  # what a person does
            message, more, tick, place = 0xFF, self.raw[0], int(self.clock.now() * 1000), self.mouse
        elif (first, last, remove) == (0, 0, 1) and self.posted:  # of the program's own windows
            handle, message, seconds, *words = self.posted.pop(0)
            word = words[0] if words else 0
            tick = int((self.clock.now() + seconds) * 1000) & 0xFFFFFFFF
        elif (first, last, remove) == (message, message, 1) and self.messages:
            word = self.messages.pop(0)
        else:
            return 0
        more = id(more) if more else 0
        put(into, "QI4xQqIii4x", handle, message, word, more, tick, *place)
        return 1

    # -- what a person does

    def _RegisterRawInputDevices(self, devices: int, count: int, size: int) -> int:
        kinds = [
            struct.unpack("<HHI", ctypes.string_at(devices + size * at, 8)) for at in range(count)
        ]
        self.problems += [
            f"raw input of {kind}" for kind in kinds if kind[0] != 1 or kind[2] != 0x100
        ]
        return 1

    def _GetRawInputData(self, handle: int, command: int, into: int, size: int, header: int) -> int:
        data = self.raw.pop(0)
        if (command, header) != (0x10000003, 24) or handle != id(data):
            self.problems.append("raw input is asked for in another way")
        ctypes.memmove(into, data.ljust(48, b"\0"), 48)
        return 48

    def _GetKeyState(self, _code: int) -> int:
        return 0

    def _ToUnicodeEx(
        self, code: int, _scan: int, states: int, into: int, _most: int, flags: int, _layout: int
    ) -> int:
        held = ctypes.string_at(states, 256)
        signs = self.signs.get(code, "")  # of the key alone, with Shift, with AltGr
        level = 2 if held[0x11] and held[0x12] else held[0x10] >> 7
        if flags != 4 or not signs[level : level + 1].strip():
            return 0
        self._write(into, 8, signs[level])
        return -1 if signs[level] in "^´" else 1  # it waits for a letter

    # -- windows of the program's own

    def _CreateWindowExW(self, extra: int, kind: str, text: str, style: int, *rest: Any) -> int:
        handle = next(self._numbers)
        self.made[handle] = text
        if not rest[4]:  # no window's child
            place = Rect(*rest[:4])
            self.shown = {"extra": extra, "style": style, "place": place}
            self.others.insert(0, Foreground(text, place, "", handle, os.getpid(), kind))
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

    def _FlashWindowEx(self, flash: int) -> int:
        self.flashed += struct.unpack("Q", ctypes.string_at(flash + 8, 8))
        return 0

    def _MessageBeep(self, kind: int) -> int:
        self.shown["beep"] = kind
        self.on_beep()
        return 1

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
        return STANDARD + which

    def _GetConsoleMode(self, handle: int, out: Any) -> int:
        mode = self.modes.get(handle - STANDARD)
        if mode is None:
            return self.refuse(INVALID_HANDLE)
        put(out, "I", mode)
        return 1

    def _SetConsoleMode(self, handle: int, mode: int) -> int:
        if self.old_console and mode & 4:
            return self.refuse(INVALID_PARAMETER)
        self.modes[handle - STANDARD] = mode & ~self.unknown_modes
        return 1

    # -- handles

    def _new(self, kind: str, **facts: Any) -> int:
        number = next(self._numbers)
        self.handles[number] = Handle(kind, **facts)
        return number

    def _get(self, number: int | None, kinds: str, use: str) -> Handle | None:
        """A living handle of one of these kinds, or a problem noted and ERROR_INVALID_HANDLE set."""
        handle = self.handles.get(number or 0)
        if handle and handle.kind in kinds.split(", "):
            return handle
        state = f"a {handle.kind}" if handle else "unknown or already released"
        self.problems.append(f"{use} got a handle that is {state}")
        self.error = INVALID_HANDLE
        return None

    # -- process and screen

    def _GetSystemMetrics(self, index: int) -> int:
        told = {13: self.pointer.width, 14: self.pointer.height, 23: int(self.swapped)}
        return {**told, **dict(enumerate(self.screen(), 76))}[index]

    def _OpenInputDesktop(self, _flags: int, _inherit: int, _access: int) -> int:
        return self.refuse(ACCESS_DENIED) if self.locked else self._new("desktop")

    # -- drawing

    def _DeleteDC(self, dc: int) -> int:
        if self.handles[dc].selected != STOCK_BITMAP and not self.failed:
            self.problems.append("DeleteDC before the former bitmap was selected back")
        return 1

    def _CreateDIBSection(self, _dc: int, info: int, _usage: int, bits: int, *_: Any) -> int:
        size, width, height, *rest = struct.unpack("<IiiHHI", ctypes.string_at(info, 20))
        if (size, *rest) != (40, 1, 32, 0) or width < 1 or height >= 0:
            self.problems.append(f"CreateDIBSection: no 32-bit RGB, top-down: {size, height, rest}")
            return self.refuse(INVALID_PARAMETER)
        memory = ctypes.create_string_buffer(b"\xcd" * (width * -height * 4), width * -height * 4)
        ctypes.c_void_p.from_address(bits).value = ctypes.addressof(memory)
        return self._new("bitmap", width=width, height=-height, memory=memory)

    def _is_selected(self, thing: int) -> bool:
        return any(handle.selected == thing for handle in list(self.handles.values()))

    def _SelectObject(self, dc: int, thing: int) -> int:
        if thing != STOCK_BITMAP:
            if not self._get(thing, "bitmap, font", "SelectObject"):
                return 0
            if self._is_selected(thing):
                self.problems.append("SelectObject: the bitmap is selected already")
                return self.refuse(INVALID_HANDLE)
        handle = self.handles[dc]
        former, handle.selected = handle.selected, thing
        return former

    def _DeleteObject(self, thing: int) -> int:
        memory = self.handles[thing].memory
        if self._is_selected(thing):
            if not self.failed:
                self.problems.append("DeleteObject of a bitmap that is selected into a DC")
            return self.refuse(INVALID_HANDLE)
        if memory is not None:
            ctypes.memset(memory, 0xDD, len(memory))
        return 1

    def _SetStretchBltMode(self, dc: int, mode: int) -> int:
        handle = self.handles[dc]
        former, handle.mode, handle.brush_set = handle.mode, mode, False
        return former

    def _SetBrushOrgEx(self, dc: int, *_: Any) -> int:
        self.handles[dc].brush_set = True
        return 1

    def _target(self, dc: int, use: str) -> Handle | None:
        """The bitmap that drawing on `dc` reaches; a DC without one of its own has none."""
        return self._get(self.handles[dc].selected, "bitmap", use)

    def _StretchBlt(self, dc: int, x: int, y: int, w: int, h: int, source: int, *rest: int) -> int:
        left, top, wide, high, operation = rest
        bitmap, handle = self._target(dc, "StretchBlt"), self.handles[dc]
        if not bitmap or not self._get(source, "screen DC", "StretchBlt"):
            return 0
        if handle.mode == 4 and not handle.brush_set:
            self.problems.append("StretchBlt with HALFTONE, without SetBrushOrgEx")
        if handle.mode not in (3, 4) or operation & 0xFFFFFF != 0xCC0020:
            self.problems.append(f"StretchBlt with mode {handle.mode}, operation {operation:#x}")
        if (x, y, w, h) != (0, 0, bitmap.width, bitmap.height) or wide < 1 or high < 1:
            self.problems.append(f"StretchBlt to {x, y, w, h} from {wide, high}")
            return self.refuse(INVALID_PARAMETER)
        bitmap.pending.append((0, self.seen(Rect(left, top, wide, high), w, h)))
        return 1

    def _GdiFlush(self) -> int:
        for handle in list(self.handles.values()):
            for at, data in handle.pending:
                ctypes.memmove(ctypes.addressof(handle.memory) + at, data, len(data))
            handle.pending.clear()
        return 1

    # -- mouse pointer

    def _GetCursorInfo(self, info: int) -> int:
        pointer = self.pointer
        put(info, "IIQii", 24, pointer.flags, pointer.handle, self.mouse.x, self.mouse.y)
        return 1

    def _GetIconInfo(self, cursor: int, info: int) -> int:
        pointer = CURSORS["arrow"] if cursor == ARROW else self.pointer
        if cursor not in (ARROW, pointer.handle) or pointer.private:
            return self.refuse(1402)  # ERROR_INVALID_CURSOR_HANDLE
        high = pointer.height * (1 if pointer.colour else 2)
        mask = self._new("cursor bitmap", width=pointer.width, height=high)
        colour = self._new("cursor bitmap") if pointer.colour else 0
        put(info, "iII4xQQ", 0, *pointer.hot, mask, colour)
        return 1

    def _DrawIconEx(self, dc: int, x: int, y: int, icon: int, w: int, h: int, *_: Any) -> int:
        bitmap = self._target(dc, "DrawIconEx")
        if not bitmap or icon not in (ARROW, self.pointer.handle):
            return self.refuse(INVALID_HANDLE)
        self.drawn.append((x, y, w, h))
        part = Rect(x, y, w, h).intersection(Rect(0, 0, bitmap.width, bitmap.height))
        line = struct.pack("<I", POINTER_COLOUR) * part.width
        for row in range(part.top, part.bottom):
            bitmap.pending.append(((row * bitmap.width + part.left) * 4, line))
        return 1

    def _GetCursorPos(self, into: int) -> int:
        put(into, "ii", self.mouse.x, self.mouse.y)
        return 1

    def _SetCursorPos(self, x: int, y: int) -> int:
        self._put_mouse(x, y)
        return 1

    def _put_mouse(self, x: int, y: int) -> None:
        """The mouse stays on a monitor: a place in no monitor becomes the nearest place in one."""
        places = [
            Point(min(max(x, m.left), m.right - 1), min(max(y, m.top), m.bottom - 1))
            for m in self.monitors
        ]
        if not self.mouse_stuck:
            self.mouse = min(places, key=lambda place: abs(place.x - x) + abs(place.y - y))

    # -- windows

    def windows(self) -> list[Foreground]:
        """All of them, topmost first."""
        return [window for window in (self.window, *self.others) if window]

    def _GetForegroundWindow(self) -> int:
        return self.window.handle if self.window else 0

    def _shown(self, handle: int) -> Foreground | None:
        for window in self.windows():
            if window.handle == handle:
                return window
        self.error = 1400  # ERROR_INVALID_WINDOW_HANDLE
        return None

    def _EnumWindows(self, take: int, value: int) -> int:
        callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_ssize_t)(take)
        return int(all(callback(window.handle, value) for window in self.windows()))

    def _DwmGetWindowAttribute(self, window: Foreground, what: int, into: int, size: int) -> int:
        if (what, size) == (9, 16) and window.border:  # what is seen of it
            rect = window.rect
            sides = rect.left + window.border, rect.top, rect.right - window.border
            put(into, "4i", *sides, rect.bottom - window.border)
        elif (what, size) == (14, 4):
            put(into, "I", 2 * window.cloaked)
        elif (what, size) != (9, 16):
            self.problems.append(f"DwmGetWindowAttribute: attribute {what} of {size} bytes")
        return 0

    def _GetWindowDisplayAffinity(self, window: Foreground, into: int) -> int:
        put(into, "I", window.affinity)
        return 1

    # -- the clipboard, of which Windows gives one address

    def _IsClipboardFormatAvailable(self, _form: int) -> int:
        return int(self.clipboard is not None)

    def _lstrlenW(self, _text: int) -> int:
        return len(self.clipboard or "")

    def _ShowWindowAsync(self, handle: int, how: int) -> int:
        restored = handle if how == 9 else 0
        self.others = [
            replace(w, minimised=w.minimised and w.handle != restored) for w in self.others
        ]
        return 1

    def _SetForegroundWindow(self, window: Foreground) -> int:
        """Windows lets only a thread that is attached to the one in front give the keyboard away."""
        if self.never_front or (self.window and not self.attached):
            return 0
        behind = [other for other in self.windows() if other.handle != window.handle]
        self.window, self.others = window, behind
        return 1

    def _AttachThreadInput(self, _ours: int, _theirs: int, attach: int) -> int:
        self.attached = bool(attach)
        return 1

    def _CoInitializeEx(self, _reserved: None, _kind: int) -> int:
        self.apartments.add(threading.get_ident())
        return 0

    def _CoUninitialize(self) -> int:
        self.apartments.remove(threading.get_ident())
        return 0

    def _ShellExecuteW(self, _window: None, _verb: str, path: str, *_: Any) -> int:
        if threading.get_ident() not in self.apartments:
            self.problems.append("ShellExecuteW without COM in its thread")
        self.programs_opened.append(path)
        if self.start_fails:
            answer, self.error = self.start_fails
            return answer
        if self.opens and self.opens_behind:
            self.others = [self.opens, *self.others]
        elif self.opens:
            self.window, self.others = self.opens, self.windows()
        return 42

    def _WindowFromPoint(self, point: Any) -> int:
        for window in self.windows():
            if window.rect.contains(Point(point.x, point.y)):
                return window.handle + 1  # a control inside it
        return 0

    def _MonitorFromPoint(self, point: Any, _flags: int) -> int:
        for number, monitor in enumerate(self.monitors, 1):
            if monitor.contains(Point(point.x, point.y)):
                return 0x10000 + number
        return 0

    def _GetMonitorInfoW(self, handle: int, into: int) -> int:
        if struct.unpack("<I", ctypes.string_at(into, 4)) != (40,):
            return self.refuse(INVALID_PARAMETER)
        left, top, width, height = self.monitors[handle - 0x10001]
        put(into, "I4i", 40, left, top, left + width, top + height)
        return 1

    def _GetAncestor(self, handle: int, kind: int) -> int:
        if kind != 3:
            return handle - 1
        if handle == self.console:
            return self.console_owner
        shown = self._shown(handle)
        return shown.owner or handle if shown else 0

    def _GetLastActivePopup(self, handle: int) -> int:
        dialogs = [other.handle for other in self.windows() if other.owner == handle]
        return dialogs[0] if dialogs else handle

    def _FindWindowExW(self, parent: int, _after: None, class_name: str, _title: None) -> int:
        """What lies in a frame is one of the others that is not visible by itself."""
        for window in self.others:
            if (window.owner, window.class_name, window.visible) == (parent, class_name, False):
                return window.handle
        return 0

    @staticmethod
    def _write(into: int, room: int, text: str) -> int:
        """A string with its NUL into a buffer of `room` characters, cut to fit; c_wchar is 4 bytes on Linux."""
        text = text[: room - 1]
        (ctypes.c_wchar * (len(text) + 1)).from_address(into).value = text
        return len(text)

    def _GetWindowRect(self, window: Foreground, into: int) -> int:
        rect = window.rect
        put(into, "4i", rect.left, rect.top, rect.right, rect.bottom)
        return 1

    def _GetWindowThreadProcessId(self, window: Foreground, into: int) -> int:
        if into:
            put(into, "I", window.process)
        return 99

    def _OpenProcess(self, _access: int, _inherit: int, process: int) -> int:
        shown = [w for w in self.windows() if w.process == process and w.path]
        own = Foreground(path=r"C:\Python\python.exe", level=self.own_level)
        if not shown and process != os.getpid():
            return self.refuse(ACCESS_DENIED)
        return self._new("process", window=shown[0] if shown else own)

    def _QueryFullProcessImageNameW(self, process: int, _flags: int, into: int, size: int) -> int:
        room = ctypes.c_uint32.from_address(size).value
        path = self.handles[process].window.path
        put(size, "I", self._write(into, room, path))
        return 1

    def _OpenProcessToken(self, process: int, _access: int, into: int) -> int:
        window = self.handles[process].window
        if not window.level:
            return self.refuse(ACCESS_DENIED)
        put(into, "Q", self._new("token", window=window))
        return 1

    def _GetTokenInformation(self, token: int, _kind: int, into: int, room: int, need: int) -> int:
        if room < 28:
            return self.refuse(INVALID_PARAMETER)
        level = self.handles[token].window.level
        put(into, "QQBB6sI", into + 16, 0x60, 1, 1, bytes([0, 0, 0, 0, 0, 16]), level)
        put(need, "I", 28)
        return 1

    # -- input

    def _GetKeyboardLayout(self, thread: int) -> int:
        return 0x4070407 if thread == 99 else 0

    def _VkKeyScanExW(self, sign: int, layout: int) -> int:
        keys = dict(zip(self.keyboard.split()[::2], self.keyboard.split()[1::2], strict=True))
        return int(keys.get(chr(sign), "-1"), 16) if layout else -1

    def _MapVirtualKeyW(self, code: int, kind: int) -> int:
        return code ^ 0x80 if kind == 0 else 0  # any number that tells its key

    def _SendInput(self, count: int, inputs: int, _size: int, most: int | None = None) -> int:
        limits = [limit for limit in (count, most, self.insert_at_most) if limit is not None]
        taken = max(0, min(limits))
        self.sent.append(count)
        self.last_input = self._GetTickCount()
        for index in range(taken):
            raw = ctypes.string_at(inputs + 40 * index, 40)
            if struct.unpack_from("<I", raw)[0] == 0:
                self._mouse_input(*struct.unpack_from("<iiIII4xQ", raw, 8))
            else:  # 1
                self._key_input(*struct.unpack_from("<HHII4xQ", raw, 8))
        return taken

    def _mouse_input(self, dx: int, dy: int, data: int, flags: int, time: int, _mark: int) -> None:
        if flags & ~0xD87F or time or (flags & 1 and not flags & 0x8000):
            self.problems.append(f"SendInput: mouse flags {flags:#x}, time {time}")
        if flags & 1:
            area = self.screen() if flags & 0x4000 else self.monitors[0]
            x, y = dx * area.width >> 16, dy * area.height >> 16
            self._put_mouse(area.left + x, area.top + y)
            self._note("move", self.mouse)
        names = ("right", "left", "middle") if self.swapped else ("left", "right", "middle")
        for bit, name in zip((0x02, 0x08, 0x20), names, strict=True):
            for flag, down in ((bit, True), (bit << 1, False)):
                if flags & flag:
                    self._press(("button", name), down)
                    self._note("button", name, down, double=down and self._is_double(name))
        for flag, kind in ((0x0800, "wheel"), (0x1000, "hwheel")):
            if flags & flag:
                self._note(kind, ctypes.c_int32(data).value)

    @property
    def clicks(self) -> list[Event]:
        """The presses of buttons, as Windows tells them to a window."""
        return [event for event in self.events if event.kind == "button" and event.down]

    def _is_double(self, name: str) -> bool:
        """Same button, within the time, inside a rectangle of 4 pixels around the first; a third is single again."""
        for last in self.clicks[-1:]:
            soon = (self.clock.now() - last.at) * 1000 <= self.double_click_ms
            x, y = last.place.x - self.mouse.x, last.place.y - self.mouse.y
            return soon and not last.double and last.value == name and max(abs(x), abs(y)) <= 2
        return False

    def _key_input(self, code: int, scan: int, flags: int, time: int, _mark: int) -> None:
        down, extended, unicode = not flags & 2, bool(flags & 1), bool(flags & 4)
        if flags & ~7 or time or (unicode and (code or extended)):
            self.problems.append(f"SendInput: key {code:#x}, flags {flags:#x}, time {time}")
        alone = not any(kind == "key" and what[0] in MODIFIER_KEYS for kind, what in self._down)
        self._press(("unit", scan) if unicode else ("key", (code, extended)), down)
        if down and unicode:
            self._units.append(scan)
        elif down and alone and code in (VK_RETURN, VK_TAB):
            self._units.append(ord("\n" if code == VK_RETURN else "\t"))
        if unicode:
            self._note("unit", scan, down)
        else:
            self._note("key", code, down, extended, scan)

    def _press(self, what: tuple[str, Any], down: bool) -> None:
        if down and what not in self._down:
            self._down.append(what)
            self.touched.add(what[1][0] if what[0] == "key" else 1)
        elif down:
            self.problems.append(f"{what} was pressed while it was down")
        elif what in self._down:
            self._down.remove(what)
        elif not self.failed:
            self.problems.append(f"{what} was released while it was up")

    def _note(self, kind: str, value: Any, *more: Any, **as_well: Any) -> None:
        event = Event(self.clock.now(), kind, value, *more, place=self.mouse, **as_well)
        self.events.append(event)
        if self.on_event:
            self.on_event(event)


def windows_desktop(**world: Any) -> tuple[FakeWin32, agent.WindowsDesktop, VirtualClock]:
    """A simulated Windows with these properties, the program's desktop on it, and their clock (with its own Stop)."""
    fake = FakeWin32(**world)
    return fake, agent.WindowsDesktop(fake.api, fake.clock), fake.clock
