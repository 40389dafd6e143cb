"""A window that tells what input reaches it: run by the Windows Python on the virtual desktop, see rig.Window.

    python.exe window.py LAYOUT.json LOG.jsonl ORDERS TEXT

LAYOUT: {"title", "rect": [left, top, width, height], "items": [{"kind", "name", "rect"}], "focus"}, the kinds
being those of KINDS, an item's rect in pixels of the window's inside. The log's first line is READY with each item's
rectangle on the screen. Then each mouse and key message to a `text` or an `area` is a line, x and y being pixels of
the screen, and each click on another item is PRESSED. A test writes the file ORDERS with one of
    focus NAME | clear | dump (the first item's text into TEXT) | quit | anything else, which does nothing
and finds OBEYED in the log.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from ctypes import c_int32, c_size_t, c_ssize_t, c_uint32, c_void_p, c_wchar_p, wintypes
from pathlib import Path
from typing import Any

WS_WINDOW, WS_ITEM, WS_TABSTOP, WS_VSCROLL = 0x10CF0000, 0x50000000, 0x10000, 0x200000
WS_EX_CLIENTEDGE = 0x200
ES_AUTOHSCROLL, ES_PASSWORD = 0x80, 0x20
# ES_MULTILINE, ES_AUTOVSCROLL, ES_AUTOHSCROLL, ES_NOHIDESEL, ES_WANTRETURN
ES_TEXT = 0x4 | 0x40 | 0x80 | 0x100 | 0x1000
BS_AUTOCHECKBOX, BS_AUTORADIOBUTTON, CBS_DROPDOWNLIST = 0x3, 0x9, 0x3
EM_SETLIMITTEXT, BM_GETCHECK, CB_ADDSTRING, CB_SETCURSEL = 0xC5, 0xF0, 0x143, 0x14E
CS_DBLCLKS, GWLP_WNDPROC = 0x8, -4
WM_DESTROY, WM_SETFOCUS, WM_COMMAND, WM_TIMER = 0x2, 0x7, 0x111, 0x113
VK_PACKET = 0xE7  # the key of every Unicode character, whose WM_CHAR tells more
BUTTONS = [f"WM_{side}BUTTON{how}" for side in "LRM" for how in ("DOWN", "UP", "DBLCLK")]
MOUSE = dict(enumerate(["WM_MOUSEMOVE", *BUTTONS], 0x200))
WHEEL = {0x20A: "WM_MOUSEWHEEL", 0x20E: "WM_MOUSEHWHEEL"}
KEY_NAMES = "WM_KEYDOWN WM_KEYUP WM_CHAR - WM_SYSKEYDOWN WM_SYSKEYUP WM_SYSCHAR".split()
KEYS = dict(enumerate(KEY_NAMES, 0x100))
HELD = {"ctrl": [0x11], "shift": [0x10], "alt": [0x12], "win": [0x5B, 0x5C]}
POLL_MS = 50
FACE_COLOUR, WINDOW_COLOUR = 16, 6
# kind -> (window class, style, extended style)
KINDS = {
    "text": ("EDIT", WS_VSCROLL | ES_TEXT, WS_EX_CLIENTEDGE),
    "area": ("Area", 0, WS_EX_CLIENTEDGE),
    "button": ("BUTTON", WS_TABSTOP, 0),
    "checkbox": ("BUTTON", WS_TABSTOP | BS_AUTOCHECKBOX, 0),
    "radio": ("BUTTON", WS_TABSTOP | BS_AUTORADIOBUTTON, 0),
    "label": ("STATIC", 0, 0),
    "edit": ("EDIT", WS_TABSTOP | ES_AUTOHSCROLL, WS_EX_CLIENTEDGE),
    "list": ("COMBOBOX", WS_TABSTOP | CBS_DROPDOWNLIST, 0),  # that drops down
    "password": ("EDIT", WS_TABSTOP | ES_AUTOHSCROLL | ES_PASSWORD, WS_EX_CLIENTEDGE),
}
user: Any = ctypes.WinDLL("user32", use_last_error=True)  # type: ignore[attr-defined]
# Those that are handed more than 32 bits; a window's handle has no more.
for name, first in (("DefWindowProcW", []), ("SendMessageW", []), ("CallWindowProcW", [c_void_p])):
    function = getattr(user, name)
    function.restype = c_ssize_t
    function.argtypes = [*first, c_void_p, c_uint32, c_size_t, c_ssize_t]
user.SetWindowLongPtrW.restype = c_void_p
user.SetWindowLongPtrW.argtypes = [c_void_p, c_int32, c_void_p]
user.GetKeyState.restype = ctypes.c_int16
PROCEDURE: Any = ctypes.WINFUNCTYPE(  # type: ignore[attr-defined]
    c_ssize_t, c_void_p, c_uint32, c_size_t, c_ssize_t
)


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


def low(value: int) -> int:
    """The low word as a signed number."""
    return c_int32((value & 0xFFFF) << 16).value >> 16


class Window:
    """The window, its items and the log."""

    def __init__(self, layout: dict[str, Any], log: Any, orders: str, text: str) -> None:
        self.items, self.focused = layout["items"], layout["focus"]
        self.log, self.orders, self.text_file = log, orders, text
        user.SetProcessDPIAware()
        # Kept in fields: a callback that is collected while Windows still holds its address ends the process.
        self.procedures = [
            PROCEDURE(self.on_main),
            PROCEDURE(self.on_area),
            PROCEDURE(self.on_edit),
        ]
        self.edit_before: Any = None
        self.waiting: list[str] = []
        for name, procedure, colour in (("Main", 0, FACE_COLOUR), ("Area", 1, WINDOW_COLOUR)):
            made = WNDCLASSW(
                style=CS_DBLCLKS,
                lpfnWndProc=ctypes.cast(self.procedures[procedure], c_void_p),
                hCursor=user.LoadCursorW(None, 32512),
                hbrBackground=colour,
                lpszClassName=name,
            )
            user.RegisterClassW(ctypes.byref(made))
        self.main = self.make("Main", layout["title"], WS_WINDOW, 0, layout["rect"], None, 0)
        self.handles = {
            item["name"]: self.item(item, number) for number, item in enumerate(self.items)
        }
        user.SetTimer(self.main, 1, POLL_MS, None)
        user.SetForegroundWindow(self.main)
        self.focus(self.focused)
        self.write(
            "READY", items={name: self.place(handle) for name, handle in self.handles.items()}
        )

    def item(self, item: dict[str, Any], number: int) -> int:
        class_name, style, extended = KINDS[item["kind"]]
        title = item["name"] if class_name in ("BUTTON", "STATIC") else ""
        handle = self.make(
            class_name, title, style | WS_ITEM, extended, item["rect"], self.main, number
        )
        if item["kind"] == "text":
            user.SendMessageW(handle, EM_SETLIMITTEXT, 0, 0)
            procedure = ctypes.cast(self.procedures[2], c_void_p)
            self.edit_before = user.SetWindowLongPtrW(handle, GWLP_WNDPROC, procedure)
        for entry in item.get("entries", ()):
            text = ctypes.create_unicode_buffer(entry)
            user.SendMessageW(handle, CB_ADDSTRING, 0, ctypes.addressof(text))
            user.SendMessageW(handle, CB_SETCURSEL, 0, 0)
        return handle

    def make(
        self, kind: str, title: str, style: int, extended: int, rect: Any, parent: Any, number: int
    ) -> int:
        made = user.CreateWindowExW(
            extended, kind, title, style, *rect, parent, number or None, None, None
        )
        if not made:
            raise OSError(f"Win32 error {ctypes.get_last_error()}")  # type: ignore[attr-defined]
        return int(made)

    def place(self, handle: int) -> list[int]:
        rect = wintypes.RECT()
        user.GetWindowRect(handle, ctypes.byref(rect))
        return [rect.left, rect.top, rect.right, rect.bottom]

    def write(self, message: str, **values: object) -> None:
        self.log.write(json.dumps({"message": message, "time": time.time(), **values}) + "\n")
        self.log.flush()

    def note(self, where: str, handle: int, message: int, wparam: int, lparam: int) -> None:
        """Logs the message if it is one of the mouse or the keyboard."""
        values: dict[str, object]
        if message in MOUSE:
            point = wintypes.POINT(low(lparam), low(lparam >> 16))
            user.ClientToScreen(handle, ctypes.byref(point))
            values = {"x": point.x, "y": point.y}
        elif message in WHEEL:
            values = {"delta": low(wparam >> 16)}
        elif message in KEYS:
            what = "char" if KEYS[message].endswith("CHAR") else "vk"
            if what == "vk" and wparam == VK_PACKET:
                return
            values = {what: wparam, "extended": bool(lparam >> 24 & 1)}
        else:
            return
        held = {key: any(user.GetKeyState(vk) < 0 for vk in vks) for key, vks in HELD.items()}
        kind = MOUSE.get(message) or WHEEL.get(message) or KEYS[message]
        self.write(kind, window=where, **values, **held)

    def on_main(self, handle: int, message: int, wparam: int, lparam: int) -> int:
        if message == WM_TIMER:
            self.obey()
        elif message == WM_SETFOCUS:  # active again: the keyboard goes where it was
            self.focus(self.focused)
        elif message == WM_COMMAND and lparam and not wparam >> 16:  # BN_CLICKED
            name = self.items[wparam & 0xFFFF]["name"]
            checked = user.SendMessageW(self.handles[name], BM_GETCHECK, 0, 0)
            self.write("PRESSED", name=name, checked=bool(checked))
        elif message == WM_DESTROY:
            user.PostQuitMessage(0)
        else:
            return int(user.DefWindowProcW(handle, message, wparam, lparam))
        return 0

    def on_edit(self, handle: int, message: int, wparam: int, lparam: int) -> int:
        self.note("edit", handle, message, wparam, lparam)
        return int(user.CallWindowProcW(self.edit_before, handle, message, wparam, lparam))

    def on_area(self, handle: int, message: int, wparam: int, lparam: int) -> int:
        self.note("area", handle, message, wparam, lparam)
        if message in WHEEL or message in KEYS:
            return 0  # not to the default: Alt+F4 or F10 must only be seen here, not act
        if message not in MOUSE:
            return int(user.DefWindowProcW(handle, message, wparam, lparam))
        if MOUSE[message].endswith(("DOWN", "DBLCLK")):
            self.focus("area")
            user.SetCapture(handle)  # a drag is followed outside, too
        elif MOUSE[message].endswith("UP"):
            user.ReleaseCapture()
        return 0

    def obey(self) -> None:
        """Obeys at this tick what was read at the one before.

        A tick comes only once no input is waiting, but on a busy machine input and an order may both arrive while one
        is being worked off; at the next tick the input from before the order is worked off for sure.
        """
        lines, self.waiting = self.waiting, []
        try:
            self.waiting = [Path(self.orders).read_text(encoding="utf-8")]
            os.remove(self.orders)
        except OSError:
            self.waiting = []  # none there, or still being written: the next tick comes in 50 ms
        for line in lines:
            verb, _, rest = line.partition(" ")
            if verb == "focus":
                user.SetForegroundWindow(self.main)
                self.focus(rest)
            elif verb == "clear":
                user.SetWindowTextW(next(iter(self.handles.values())), "")
            elif verb == "dump":
                self.dump(next(iter(self.handles.values())))
            self.write("OBEYED")
            if verb == "quit":
                user.DestroyWindow(self.main)

    def focus(self, name: str) -> None:
        self.focused = name
        user.SetFocus(self.handles.get(name, self.main))

    def dump(self, handle: int) -> None:
        length = user.GetWindowTextLengthW(handle)
        buffer = ctypes.create_string_buffer(2 * (length + 1))
        copied = user.GetWindowTextW(handle, buffer, length + 1)
        text = buffer.raw[: 2 * copied].decode("utf-16-le", "surrogatepass")
        Path(self.text_file).write_bytes(text.encode("utf-8", "surrogatepass"))

    def run(self) -> None:
        message = wintypes.MSG()
        while user.GetMessageW(ctypes.byref(message), None, 0, 0) > 0:
            user.TranslateMessage(ctypes.byref(message))
            user.DispatchMessageW(ctypes.byref(message))


if __name__ == "__main__":
    planned = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with open(sys.argv[2], "a", encoding="utf-8", newline="\n") as log_file:
        Window(planned, log_file, *sys.argv[3:]).run()
