"""A form with ordinary controls, which appends what is saved to a file: run by the Windows Python.

    python.exe form.py FILE LEFT TOP FONT ORDER [WIDTH [STYLED]]

FILE gets a JSON object a line: name, city, paid, and which record was deleted. ORDER is that of the records in the
list, 1 or -1, and of the rows beside it, each of which has a button of its own. FONT is the height of the letters in
pixels, by which everything grows, WIDTH how wide it all is, in percent. STYLED draws the controls by the theme.
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import c_int, c_ssize_t, c_uint, c_void_p, c_wchar_p
from pathlib import Path
from typing import Any

CITIES = "Basel", "Bern", "Olten"
RECORDS = ["Meier, Anna · Basel", "Meier, Anne · Basel", "Meier, Hanna · Bern"]
WINDOW, CHILD, BORDER, SORTED = 0x10CF0000, 0x50010000, 0x200, 0x2
WM_DESTROY, WM_COMMAND, WM_SETFONT, WM_CLOSE = 0x2, 0x111, 0x30, 0x10
BM_GETCHECK, BM_SETCHECK, CB_ADDSTRING, CB_GETCURSEL, CB_SETCURSEL = 0xF0, 0xF1, 0x143, 0x147, 0x14E
LB_ADDSTRING, LB_GETCURSEL, LB_GETTEXT, LB_DELETESTRING, LBN_SELCHANGE = (
    0x180,
    0x188,
    0x189,
    0x182,
    1,
)
# What is in it: class, text, style, then left, top, width and height in tenths of a letter.
ITEMS = {
    "name label": ("STATIC", "Name:", 0, 10, 10, 50, 14),
    "name": ("EDIT", "", 0x800080, 70, 10, 160, 16),
    "city label": ("STATIC", "City:", 0, 10, 34, 50, 14),
    "city": ("COMBOBOX", "", 0x200003, 70, 34, 160, 90),
    "paid": ("BUTTON", "Paid", 0x3, 70, 58, 80, 16),
    "save": ("BUTTON", "Save", 0, 70, 82, 60, 18),
    "delete": ("BUTTON", "Delete", 0, 140, 82, 60, 18),
    "records": ("LISTBOX", "", 0xA00001, 10, 110, 220, 90),
    "drop": ("BUTTON", "Drop", 0, 270, 82, 60, 18),
}
# The common controls that draw by the theme, for programs that ask for them.
STYLES = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<assembly xmlns="urn:schemas-microsoft-com:asm.v1" manifestVersion="1.0"><dependency><dependentAssembly>
<assemblyIdentity type="win32" name="Microsoft.Windows.Common-Controls" version="6.0.0.0" processorArchitecture="*"
 publicKeyToken="6595b64144ccf1df" language="*"/></dependentAssembly></dependency></assembly>"""
user: Any = ctypes.WinDLL("user32")  # type: ignore[attr-defined]
gdi: Any = ctypes.WinDLL("gdi32")  # type: ignore[attr-defined]
PROCEDURE = ctypes.WINFUNCTYPE(c_ssize_t, c_void_p, c_uint, ctypes.c_size_t, c_ssize_t)  # type: ignore[attr-defined]
user.DefWindowProcW.restype = c_ssize_t
user.DefWindowProcW.argtypes = [c_void_p, c_uint, ctypes.c_size_t, c_ssize_t]
user.SendMessageW.argtypes = [c_void_p, c_uint, ctypes.c_size_t, c_void_p]
user.CreateWindowExW.argtypes = [
    c_uint,
    c_wchar_p,
    c_wchar_p,
    c_uint,
    *[c_int] * 4,
    *[c_void_p] * 4,
]
user.CreateWindowExW.restype = c_void_p


class WNDCLASSW(ctypes.Structure):
    _fields_ = [("style", c_uint), ("procedure", PROCEDURE), ("extra", c_int * 2)] + [
        (name, c_void_p) for name in "instance icon cursor brush menu".split()
    ] + [("name", c_wchar_p)]  # fmt: skip


class ACTCTXW(ctypes.Structure):
    _fields_ = [("size", c_uint), ("flags", c_uint), ("source", c_wchar_p), ("kind", c_uint)] + [
        (name, c_void_p) for name in "folder resource application module".split()
    ]  # fmt: skip


class Form:
    def __init__(
        self,
        file: str,
        left: int,
        top: int,
        font: int,
        order: int,
        wide: int = 100,
        styled: int = 0,
    ) -> None:
        self.file = file
        user.SetProcessDPIAware()
        if styled:
            draw_by_theme(Path(f"{file}.manifest"))
        font = font * user.GetDpiForSystem() // 96
        self.procedure = PROCEDURE(self.handle)
        kind = WNDCLASSW(procedure=self.procedure, brush=16, name="Customers")
        user.RegisterClassW(ctypes.byref(kind))
        width, height = 46 * font * wide // 100, 24 * font
        where = left, top, width, height
        self.window = user.CreateWindowExW(0, "Customers", "Customers", WINDOW, *where, *[None] * 4)
        letters = gdi.CreateFontW(font, *[0] * 12, "Tahoma")
        self.items: dict[str, int] = {}
        rows: dict[str, tuple[Any, ...]] = {}
        for row, record in enumerate(RECORDS[::order]):
            down = 10 + 22 * row
            rows[record] = ("BUTTON", record, 0x9, 270, down, 110, 16)
            rows[f"remove {record}"] = ("BUTTON", "Remove", 0, 385, down, 50, 16)
        for number, (name, (what, text, style, *place)) in enumerate((ITEMS | rows).items(), 100):
            left, top, width, height = [side * font // 10 for side in place]
            box = left * wide // 100, top, width * wide // 100, height
            edge = BORDER if what in ("EDIT", "LISTBOX") else 0
            made = user.CreateWindowExW(
                edge, what, text, CHILD | style, *box, self.window, number, None, None
            )
            user.SendMessageW(made, WM_SETFONT, letters, None)
            self.items[name] = made
        for city in CITIES:
            self.send("city", CB_ADDSTRING, 0, c_wchar_p(city))
        for record in RECORDS[::order]:
            self.send("records", LB_ADDSTRING, 0, c_wchar_p(record))

    def send(self, item: str, message: int, word: int = 0, more: Any = None) -> int:
        return int(user.SendMessageW(self.items[item], message, word, more))

    def text(self, item: str) -> str:
        buffer = ctypes.create_unicode_buffer(500)
        user.GetWindowTextW(c_void_p(self.items[item]), buffer, 500)
        return buffer.value

    def write(self, **entry: Any) -> None:
        with open(self.file, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")

    def save(self) -> None:
        city = self.text("city")
        name, paid = self.text("name"), bool(self.send("paid", BM_GETCHECK))
        self.write(name=name, city=city, paid=paid)
        self.send("records", LB_ADDSTRING, 0, c_wchar_p(f"{name} · {city}"))
        user.SetWindowTextW(c_void_p(self.items["name"]), "")
        self.send("city", CB_SETCURSEL, 2**64 - 1)
        self.send("paid", BM_SETCHECK, 0)

    def delete(self) -> None:
        chosen = self.send("records", LB_GETCURSEL)
        if chosen >= 0:
            buffer = ctypes.create_unicode_buffer(500)
            self.send("records", LB_GETTEXT, chosen, buffer)
            self.write(deleted=buffer.value)
            self.send("records", LB_DELETESTRING, chosen)

    def drop(self) -> None:
        chosen = [record for record in RECORDS if self.send(record, BM_GETCHECK)]
        self.write(dropped=chosen)

    def handle(self, window: int, message: int, word: int, more: int) -> int:
        if message == WM_COMMAND and word >> 16 == 0:
            does = {"save": self.save, "delete": self.delete, "drop": self.drop}
            for name, made in self.items.items():
                if made == more and name.startswith("remove "):
                    self.write(removed=name.removeprefix("remove "))
                elif made == more:
                    does.get(name, int)()
        if message == WM_DESTROY:
            user.PostQuitMessage(0)
        return int(user.DefWindowProcW(window, message, word, more))


def draw_by_theme(manifest: Path) -> None:
    """Has the controls that are made from now on drawn by the theme, if one is on."""
    manifest.write_text(STYLES, "utf-8")
    kernel: Any = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    asked = ACTCTXW(size=ctypes.sizeof(ACTCTXW), source=str(manifest))
    kernel.CreateActCtxW.restype = c_void_p
    kernel.ActivateActCtx.argtypes = [c_void_p, c_void_p]
    kernel.ActivateActCtx(kernel.CreateActCtxW(ctypes.byref(asked)), ctypes.byref(c_void_p()))
    ctypes.WinDLL("comctl32").InitCommonControls()  # type: ignore[attr-defined]


if __name__ == "__main__":
    form = Form(sys.argv[1], *map(int, sys.argv[2:]))
    message = ctypes.create_string_buffer(64)
    while user.GetMessageW(message, None, 0, 0) > 0:
        user.TranslateMessage(message)
        user.DispatchMessageW(message)
