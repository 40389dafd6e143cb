"""A window that tells what input reaches it: the receiving end of the tests on a real Win32 desktop.

    python.exe target_window.py --log OUT.jsonl --commands FILE [--at X,Y] [--size W,H] [--focus edit|log] [--paint]

The window, titled "Target", holds an edit control (left) and an empty area (right). Every mouse and key message to
either is one JSON object a line in the log, flushed at once; x and y are pixels of the screen. The first line is READY
with the rectangles of both. With --paint the area fills the window, and a press with the left button leaves a black
stroke until it is let go of. Tests write FILE (under another name, then renamed) with one command a line:
    focus edit | focus log | clear | dump PATH (the edit control's text as UTF-8) | slow N | quit
"slow N" makes the empty area answer each click by N stripes, one every 30 ms, and log DRAWN after the last.
and find a line {"message": "COMMAND", "command": ...} in the log when it is done.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import time
from ctypes import c_int32, c_size_t, c_ssize_t, c_uint16, c_uint32, c_void_p, c_wchar_p
from typing import Any, TextIO

WS_OVERLAPPEDWINDOW, WS_CHILD, WS_VISIBLE, WS_VSCROLL = (
    0x00CF0000,
    0x40000000,
    0x10000000,
    0x00200000,
)
ES_MULTILINE, ES_AUTOVSCROLL, ES_AUTOHSCROLL, ES_NOHIDESEL, ES_WANTRETURN = (
    0x4,
    0x40,
    0x80,
    0x100,
    0x1000,
)
WS_EX_CLIENTEDGE = 0x200
CS_DBLCLKS = 0x8
EM_SETLIMITTEXT = 0xC5
GWLP_WNDPROC = -4
WM_DESTROY, WM_SETFOCUS, WM_TIMER = 0x2, 0x7, 0x113
VK_SHIFT, VK_CONTROL, VK_MENU, VK_LWIN, VK_RWIN = 0x10, 0x11, 0x12, 0x5B, 0x5C
VK_PACKET = (
    0xE7  # the key of every Unicode character: left out of the log, as its WM_CHAR tells more
)
MOUSE = {
    0x200: "WM_MOUSEMOVE",
    0x201: "WM_LBUTTONDOWN",
    0x202: "WM_LBUTTONUP",
    0x203: "WM_LBUTTONDBLCLK",
    0x204: "WM_RBUTTONDOWN",
    0x205: "WM_RBUTTONUP",
    0x206: "WM_RBUTTONDBLCLK",
    0x207: "WM_MBUTTONDOWN",
    0x208: "WM_MBUTTONUP",
    0x209: "WM_MBUTTONDBLCLK",
}
WHEEL = {0x20A: "WM_MOUSEWHEEL", 0x20E: "WM_MOUSEHWHEEL"}
KEYS = {
    0x100: "WM_KEYDOWN",
    0x101: "WM_KEYUP",
    0x102: "WM_CHAR",
    0x104: "WM_SYSKEYDOWN",
    0x105: "WM_SYSKEYUP",
    0x106: "WM_SYSCHAR",
}
POLL_MS, STRIPE_MS, PEN_WIDTH, MK_LBUTTON = 50, 30, 8, 0x1


class POINT(ctypes.Structure):
    _fields_ = [("x", c_int32), ("y", c_int32)]


class RECT(ctypes.Structure):
    _fields_ = [("left", c_int32), ("top", c_int32), ("right", c_int32), ("bottom", c_int32)]


class MSG(ctypes.Structure):
    _fields_ = [
        ("hwnd", c_void_p),
        ("message", c_uint32),
        ("wParam", c_size_t),
        ("lParam", c_ssize_t),
        ("time", c_uint32),
        ("pt", POINT),
        ("lPrivate", c_uint32),
    ]


class WNDCLASSW(ctypes.Structure):
    _fields_ = [
        ("style", c_uint32),
        ("lpfnWndProc", c_void_p),
        ("cbClsExtra", c_int32),
        ("cbWndExtra", c_int32),
        ("hInstance", c_void_p),
        ("hIcon", c_void_p),
        ("hCursor", c_void_p),
        ("hbrBackground", c_void_p),
        ("lpszMenuName", c_wchar_p),
        ("lpszClassName", c_wchar_p),
    ]


# function -> (result, arguments)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "CallWindowProcW": (c_ssize_t, [c_void_p, c_void_p, c_uint32, c_size_t, c_ssize_t]),
    "ClientToScreen": (c_int32, [c_void_p, c_void_p]),
    "FillRect": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "GetDC": (c_void_p, [c_void_p]),
    "KillTimer": (c_int32, [c_void_p, c_size_t]),
    "ReleaseDC": (c_int32, [c_void_p, c_void_p]),
    "CreateWindowExW": (
        c_void_p,
        [
            c_uint32,
            c_wchar_p,
            c_wchar_p,
            c_uint32,
            c_int32,
            c_int32,
            c_int32,
            c_int32,
            c_void_p,
            c_void_p,
            c_void_p,
            c_void_p,
        ],
    ),
    "DefWindowProcW": (c_ssize_t, [c_void_p, c_uint32, c_size_t, c_ssize_t]),
    "DestroyWindow": (c_int32, [c_void_p]),
    "DispatchMessageW": (c_ssize_t, [c_void_p]),
    "GetClientRect": (c_int32, [c_void_p, c_void_p]),
    "GetForegroundWindow": (c_void_p, []),
    "GetKeyState": (ctypes.c_int16, [c_int32]),
    "GetMessagePos": (c_uint32, []),
    "GetMessageW": (c_int32, [c_void_p, c_void_p, c_uint32, c_uint32]),
    "GetWindowRect": (c_int32, [c_void_p, c_void_p]),
    "GetWindowTextLengthW": (c_int32, [c_void_p]),
    "GetWindowTextW": (c_int32, [c_void_p, c_void_p, c_int32]),
    "LoadCursorW": (c_void_p, [c_void_p, c_void_p]),
    "PostQuitMessage": (None, [c_int32]),
    "RegisterClassW": (c_uint16, [c_void_p]),
    "ReleaseCapture": (c_int32, []),
    "SendMessageW": (c_ssize_t, [c_void_p, c_uint32, c_size_t, c_ssize_t]),
    "SetCapture": (c_void_p, [c_void_p]),
    "SetFocus": (c_void_p, [c_void_p]),
    "SetForegroundWindow": (c_int32, [c_void_p]),
    "SetProcessDPIAware": (c_int32, []),
    "SetTimer": (c_size_t, [c_void_p, c_size_t, c_uint32, c_void_p]),
    "SetWindowLongPtrW": (c_ssize_t, [c_void_p, c_int32, c_void_p]),
    "SetWindowTextW": (c_int32, [c_void_p, c_wchar_p]),
    "TranslateMessage": (c_int32, [c_void_p]),
}


def low(value: int) -> int:
    """The low word as a signed number."""
    return c_int32((value & 0xFFFF) << 16).value >> 16


class Target:
    """The window, its two children and the log."""

    def __init__(self, options: argparse.Namespace, log: TextIO) -> None:
        self.log_file, self.commands, self.focused = log, options.commands, options.focus
        self.user: Any = ctypes.WinDLL("user32", use_last_error=True)  # type: ignore[attr-defined]
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.user, name)
            function.restype, function.argtypes = result, arguments
        self.user.SetProcessDPIAware()
        self.gdi: Any = ctypes.WinDLL("gdi32", use_last_error=True)  # type: ignore[attr-defined]
        self.gdi.CreatePen.restype = self.gdi.SelectObject.restype = c_void_p
        self.gdi.SelectObject.argtypes = [c_void_p, c_void_p]
        self.gdi.MoveToEx.argtypes = [c_void_p, c_int32, c_int32, c_void_p]
        self.gdi.LineTo.argtypes = [c_void_p, c_int32, c_int32]
        self.paint, self.pen, self.last = options.paint, self.gdi.CreatePen(0, PEN_WIDTH, 0), (0, 0)
        # Kept in fields: a callback that is collected while Windows still holds its address ends the process.
        procedure = ctypes.WINFUNCTYPE(  # type: ignore[attr-defined]
            c_ssize_t, c_void_p, c_uint32, c_size_t, c_ssize_t
        )
        self.main_procedure, self.area_procedure = procedure(self.on_main), procedure(self.on_area)
        self.edit_procedure = procedure(self.on_edit)
        self.main = self.edit = self.area = 0
        self.edit_before: Any = None
        self.stripes = self.drawn = self.clicks = 0
        self.waiting: list[str] = []
        self.make_windows(*options.at, *options.size)

    def make_windows(self, x: int, y: int, width: int, height: int) -> None:
        for name, callback in (
            ("TargetMain", self.main_procedure),
            ("TargetArea", self.area_procedure),
        ):
            arrow, window_colour = self.user.LoadCursorW(None, 32512), 6
            made = WNDCLASSW(
                style=CS_DBLCLKS,
                lpfnWndProc=ctypes.cast(callback, c_void_p),
                hCursor=arrow,
                hbrBackground=window_colour,
                lpszClassName=name,
            )
            self.checked(self.user.RegisterClassW(ctypes.byref(made)))
        self.main = self.checked(
            self.user.CreateWindowExW(
                0,
                "TargetMain",
                "Target",
                WS_OVERLAPPEDWINDOW | WS_VISIBLE,
                x,
                y,
                width,
                height,
                None,
                None,
                None,
                None,
            )
        )
        inner = RECT()
        self.user.GetClientRect(self.main, ctypes.byref(inner))
        half = 0 if self.paint else inner.right // 2
        style = WS_CHILD | WS_VISIBLE
        edit_style = (
            style
            | WS_VSCROLL
            | ES_MULTILINE
            | ES_AUTOVSCROLL
            | ES_AUTOHSCROLL
            | ES_NOHIDESEL
            | ES_WANTRETURN
        )
        self.edit = self.checked(
            self.user.CreateWindowExW(
                WS_EX_CLIENTEDGE,
                "EDIT",
                "",
                edit_style,
                0,
                0,
                half,
                inner.bottom,
                self.main,
                None,
                None,
                None,
            )
        )
        self.area = self.checked(
            self.user.CreateWindowExW(
                WS_EX_CLIENTEDGE,
                "TargetArea",
                "",
                style,
                half,
                0,
                inner.right - half,
                inner.bottom,
                self.main,
                None,
                None,
                None,
            )
        )
        self.user.SendMessageW(self.edit, EM_SETLIMITTEXT, 0, 0)
        self.edit_before = self.user.SetWindowLongPtrW(
            self.edit, GWLP_WNDPROC, ctypes.cast(self.edit_procedure, c_void_p)
        )
        self.user.SetTimer(self.main, 1, POLL_MS, None)
        self.user.SetForegroundWindow(self.main)
        self.focus(self.focused)

    def checked(self, value: int | None) -> int:
        if not value:
            raise OSError(f"Win32 error {ctypes.get_last_error()}")  # type: ignore[attr-defined]
        return value

    # ---- the log ----

    def write(self, message: str, **fields: object) -> None:
        self.log_file.write(json.dumps({"message": message, "time": time.time(), **fields}) + "\n")
        self.log_file.flush()

    def ready(self) -> None:
        self.write(
            "READY",
            hwnd=self.main,
            edit=self.rectangle(self.edit),
            area=self.rectangle(self.area),
            window=self.rectangle(self.main),
            foreground=self.user.GetForegroundWindow() == self.main,
        )

    def rectangle(self, hwnd: int) -> list[int]:
        rect = RECT()
        self.user.GetWindowRect(hwnd, ctypes.byref(rect))
        return [rect.left, rect.top, rect.right, rect.bottom]

    def note(self, where: str, hwnd: int, message: int, wparam: int, lparam: int) -> None:
        """Log the message if it is one of the mouse or the keyboard."""
        fields: dict[str, object]
        if message in MOUSE:
            point = POINT(low(lparam), low(lparam >> 16))
            self.user.ClientToScreen(hwnd, ctypes.byref(point))
            fields = {"x": point.x, "y": point.y}
        elif message in WHEEL:
            # Not from lparam: Wine 8 gives WM_MOUSEHWHEEL in pixels of the window, Windows in those of the screen.
            where_now = self.user.GetMessagePos()
            fields = {"x": low(where_now), "y": low(where_now >> 16), "delta": low(wparam >> 16)}
        elif message in KEYS:
            what = "char" if KEYS[message].endswith("CHAR") else "vk"
            if what == "vk" and wparam == VK_PACKET:
                return
            fields = {
                what: wparam,
                "scan": lparam >> 16 & 0xFF,
                "extended": bool(lparam >> 24 & 1),
                "repeated": bool(lparam >> 30 & 1),
            }
        else:
            return
        held = {
            "ctrl": [VK_CONTROL],
            "shift": [VK_SHIFT],
            "alt": [VK_MENU],
            "win": [VK_LWIN, VK_RWIN],
        }
        modifiers = {
            name: any(self.user.GetKeyState(vk) < 0 for vk in vks) for name, vks in held.items()
        }
        name = MOUSE.get(message) or WHEEL.get(message) or KEYS[message]
        self.write(name, window=where, **fields, **modifiers)

    # ---- the windows ----

    def on_main(self, hwnd: int, message: int, wparam: int, lparam: int) -> int:
        if message == WM_TIMER and wparam == 2:
            self.draw_stripe()
        elif message == WM_TIMER:
            self.obey()
        elif (
            message == WM_SETFOCUS
        ):  # the window became active again: the keyboard goes where it was
            self.focus(self.focused)
        elif message == WM_DESTROY:
            self.user.PostQuitMessage(0)
        else:
            return int(self.user.DefWindowProcW(hwnd, message, wparam, lparam))
        return 0

    def stroke(self, hwnd: int, x: int, y: int) -> None:
        dc = self.user.GetDC(hwnd)
        before = self.gdi.SelectObject(dc, self.pen)
        self.gdi.MoveToEx(dc, *self.last, None)
        self.gdi.LineTo(dc, x, y)
        self.gdi.SelectObject(dc, before)
        self.user.ReleaseDC(hwnd, dc)
        self.last = x, y

    def on_area(self, hwnd: int, message: int, wparam: int, lparam: int) -> int:
        self.note("area", hwnd, message, wparam, lparam)
        if self.paint and message in MOUSE:
            here = low(lparam), low(lparam >> 16)
            if wparam & MK_LBUTTON and MOUSE[message] == "WM_MOUSEMOVE":
                self.stroke(hwnd, *here)
            self.last = here
        if message in MOUSE:
            if MOUSE[message].endswith(("DOWN", "DBLCLK")):
                self.focus("log")
                self.user.SetCapture(hwnd)  # a drag is followed outside, too
            elif MOUSE[message].endswith("UP"):
                self.user.ReleaseCapture()
                if self.stripes:
                    self.drawn, self.clicks = 0, self.clicks + 1
                    self.user.SetTimer(self.main, 2, STRIPE_MS, None)
            return 0
        if message in WHEEL or message in KEYS:
            return 0  # not to the default: Alt+F4 or F10 must only be seen here, not act
        return int(self.user.DefWindowProcW(hwnd, message, wparam, lparam))

    def on_edit(self, hwnd: int, message: int, wparam: int, lparam: int) -> int:
        self.note("edit", hwnd, message, wparam, lparam)
        return int(self.user.CallWindowProcW(self.edit_before, hwnd, message, wparam, lparam))

    def draw_stripe(self) -> None:
        """The next of the stripes that answer a click, in another shade for every click."""
        rect, device = RECT(), self.user.GetDC(self.area)
        self.user.GetClientRect(self.area, ctypes.byref(rect))
        rect.left, rect.right = (
            self.drawn * rect.right // self.stripes,
            (self.drawn + 1) * rect.right // self.stripes,
        )
        self.user.FillRect(
            device, ctypes.byref(rect), 1 + (self.clicks * 3 + self.drawn) % 20
        )  # a system colour + 1
        self.user.ReleaseDC(self.area, device)
        self.drawn += 1
        if self.drawn == self.stripes:
            self.user.KillTimer(self.main, 2)
            self.write("DRAWN")

    # ---- commands ----

    def read_commands(self) -> list[str]:
        try:
            with open(self.commands, encoding="utf-8") as file:
                lines = file.read().splitlines()
            os.remove(self.commands)
        except OSError:  # none there, or still being written: the next tick comes in 50 ms
            return []
        return [line for line in lines if line]

    def obey(self) -> None:
        """Obeys at this tick what was read at the one before.

        A tick comes only once no input is waiting, but on a busy machine input and a command may both arrive while one
        is being worked off; at the next tick the input from before the command is worked off for sure.
        """
        lines, self.waiting = self.waiting, self.read_commands()
        for line in lines:
            verb, _, rest = line.partition(" ")
            if verb == "focus":
                self.user.SetForegroundWindow(self.main)
                self.focus(rest)
            elif verb == "clear":
                self.user.SetWindowTextW(self.edit, "")
            elif verb == "dump":
                self.dump(rest)
            elif verb == "slow":
                self.stripes = int(rest)
            self.write("COMMAND", command=line)
            if verb == "quit":
                self.user.DestroyWindow(self.main)

    def focus(self, where: str) -> None:
        self.focused = where
        self.user.SetFocus(self.edit if where == "edit" else self.area)

    def dump(self, path: str) -> None:
        length = self.user.GetWindowTextLengthW(self.edit)
        buffer = ctypes.create_string_buffer(2 * (length + 1))
        copied = self.user.GetWindowTextW(self.edit, buffer, length + 1)
        text = buffer.raw[: 2 * copied].decode("utf-16-le", "surrogatepass")
        with open(path + ".part", "wb") as file:
            file.write(text.encode("utf-8", "surrogatepass"))
        os.replace(path + ".part", path)

    def run(self) -> None:
        message = MSG()
        while self.user.GetMessageW(ctypes.byref(message), None, 0, 0) > 0:
            self.user.TranslateMessage(ctypes.byref(message))
            self.user.DispatchMessageW(ctypes.byref(message))


def pair(text: str) -> tuple[int, int]:
    x, y = text.split(",")
    return int(x), int(y)


def main() -> int:
    parser = argparse.ArgumentParser(description="A window that logs the input reaching it.")
    parser.add_argument("--log", required=True)
    parser.add_argument("--commands", required=True)
    parser.add_argument("--at", type=pair, default=(100, 80))
    parser.add_argument("--size", type=pair, default=(1200, 700))
    parser.add_argument("--focus", choices=["edit", "log"], default="edit")
    parser.add_argument("--paint", action="store_true")
    options = parser.parse_args()
    with open(options.log, "a", encoding="utf-8", newline="\n") as log:
        target = Target(options, log)
        target.ready()
        target.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
