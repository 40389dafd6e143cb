"""A window with real buttons, checkboxes and fields that tells which of them were pressed.

    python.exe form_window.py LAYOUT.json LOG.jsonl

LAYOUT.json: {"title", "rect": [left, top, width, height], "items": [{"kind", "name", "rect"}, ...]} with the kinds of
KINDS; an item's rect is in pixels of the window's inside. The log's first line is READY with each item's name and its
rectangle on the screen; then each click on an item is {"message": "PRESSED", "name", "checked"}.
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import c_size_t, c_ssize_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, TextIO

from target_window import (
    ES_AUTOHSCROLL,
    FUNCTIONS,
    MSG,
    RECT,
    WM_DESTROY,
    WNDCLASSW,
    WS_CHILD,
    WS_EX_CLIENTEDGE,
    WS_OVERLAPPEDWINDOW,
    WS_VISIBLE,
)

WS_TABSTOP = 0x10000
ES_PASSWORD = 0x20
BS_AUTOCHECKBOX, BS_AUTORADIOBUTTON = 0x3, 0x9
BM_GETCHECK, WM_COMMAND, BN_CLICKED = 0xF0, 0x111, 0
FACE_COLOUR = 16  # COLOR_BTNFACE + 1
# kind -> (window class, style, extended style)
KINDS = {
    "button": ("BUTTON", WS_TABSTOP, 0),
    "checkbox": ("BUTTON", WS_TABSTOP | BS_AUTOCHECKBOX, 0),
    "radio": ("BUTTON", WS_TABSTOP | BS_AUTORADIOBUTTON, 0),
    "label": ("STATIC", 0, 0),
    "edit": ("EDIT", WS_TABSTOP | ES_AUTOHSCROLL, WS_EX_CLIENTEDGE),
    "password": ("EDIT", WS_TABSTOP | ES_AUTOHSCROLL | ES_PASSWORD, WS_EX_CLIENTEDGE),
}
UNTITLED = ("edit", "password")  # a field's window text is what it holds


class Form:
    """The window, its items and the log."""

    def __init__(self, layout: dict[str, Any], log: TextIO) -> None:
        self.items: list[dict[str, Any]] = layout["items"]
        self.log = log
        self.user: Any = ctypes.WinDLL("user32", use_last_error=True)  # type: ignore[attr-defined]
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.user, name)
            function.restype, function.argtypes = result, arguments
        self.user.SetProcessDPIAware()
        # Kept in a field: a callback that is collected while Windows still holds its address ends the process.
        procedure = ctypes.WINFUNCTYPE(  # type: ignore[attr-defined]
            c_ssize_t, c_void_p, c_uint32, c_size_t, c_ssize_t
        )
        self.procedure = procedure(self.on_message)
        made = WNDCLASSW(
            lpfnWndProc=ctypes.cast(self.procedure, c_void_p),
            hCursor=self.user.LoadCursorW(None, 32512),
            hbrBackground=FACE_COLOUR,
            lpszClassName="Form",
        )
        self.user.RegisterClassW(ctypes.byref(made))
        style = WS_OVERLAPPEDWINDOW | WS_VISIBLE
        self.main = self.window("Form", layout["title"], style, 0, layout["rect"], None, 0)
        self.handles = [self.item(number) for number in range(len(self.items))]
        self.user.SetForegroundWindow(self.main)

    def item(self, number: int) -> int:
        item = self.items[number]
        class_name, style, extended = KINDS[item["kind"]]
        title = "" if item["kind"] in UNTITLED else item["name"]
        style |= WS_CHILD | WS_VISIBLE
        return self.window(class_name, title, style, extended, item["rect"], self.main, number)

    def window(
        self,
        class_name: str,
        title: str,
        style: int,
        extended: int,
        rect: list[int],
        parent: int | None,
        number: int,
    ) -> int:
        handle = self.user.CreateWindowExW(
            extended, class_name, title, style, *rect, parent, number or None, None, None
        )
        if not handle:
            raise OSError(f"Win32 error {ctypes.get_last_error()}")  # type: ignore[attr-defined]
        return int(handle)

    def write(self, message: str, **values: object) -> None:
        self.log.write(json.dumps({"message": message, **values}) + "\n")
        self.log.flush()

    def ready(self) -> None:
        places = {}
        for item, handle in zip(self.items, self.handles, strict=True):
            rect = RECT()
            self.user.GetWindowRect(handle, ctypes.byref(rect))
            width, height = rect.right - rect.left, rect.bottom - rect.top
            places[item["name"]] = [rect.left, rect.top, width, height]
        self.write("READY", items=places)

    def on_message(self, hwnd: int, message: int, wparam: int, lparam: int) -> int:
        if message == WM_DESTROY:
            self.user.PostQuitMessage(0)
            return 0
        if message == WM_COMMAND and wparam >> 16 == BN_CLICKED and lparam:
            number = wparam & 0xFFFF
            checked = self.user.SendMessageW(self.handles[number], BM_GETCHECK, 0, 0)
            self.write("PRESSED", name=self.items[number]["name"], checked=bool(checked))
            return 0
        return int(self.user.DefWindowProcW(hwnd, message, wparam, lparam))

    def run(self) -> None:
        self.ready()
        message = MSG()
        while self.user.GetMessageW(ctypes.byref(message), None, 0, 0) > 0:
            self.user.TranslateMessage(ctypes.byref(message))
            self.user.DispatchMessageW(ctypes.byref(message))


if __name__ == "__main__":
    planned = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with open(sys.argv[2], "a", encoding="utf-8", newline="\n") as log_file:
        Form(planned, log_file).run()
