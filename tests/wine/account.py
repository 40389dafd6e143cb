"""The form of form.py with a field for an account and a list whose rows are windows: run by the Windows Python.

    python.exe account.py FILE LEFT TOP FONT ORDER NAME ...

The list holds these names, and those that are saved. What Wine's own list box holds can be read by nobody else.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_void_p
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.wine import form
from tests.wine.form import BORDER, CHILD, PROCEDURE, WNDCLASSW, Form, user

FIELD = "EDIT", "", 0x800080, 310, 110, 125, 16
ROW = "ListBoxRow"  # by the beginning of its class each is known as a row of a list


class Account(Form):
    def __init__(self, *words: Any, names: list[str]) -> None:
        form.ITEMS |= {"iban label": ("STATIC", "IBAN:", 0, 270, 110, 38, 14), "iban": FIELD}
        super().__init__(*words)
        self.row_procedure = PROCEDURE(user.DefWindowProcW)
        kind = WNDCLASSW(procedure=self.row_procedure, brush=6, name=ROW)
        user.RegisterClassW(ctypes.byref(kind))
        self.listed = 0
        for name in names:
            self.show(name)

    def show(self, name: str) -> None:
        box = 540, 280 + 22 * self.listed, 300, 20
        user.CreateWindowExW(BORDER, ROW, name, CHILD, *box, self.window, 0, None, None)
        self.listed += 1

    def save(self) -> None:
        self.write(name=self.text("name"), iban=self.text("iban"))
        self.show(self.text("name"))
        title = f"Customers: {self.text('iban')}"  # which is told, but for its secret
        user.SetWindowTextW(c_void_p(self.window), title)
        for field in ("name", "iban"):
            user.SetWindowTextW(c_void_p(self.items[field]), "")


if __name__ == "__main__":
    shown = Account(sys.argv[1], *map(int, sys.argv[2:6]), names=sys.argv[6:])
    print("READY", flush=True)
    message = ctypes.create_string_buffer(64)
    while user.GetMessageW(message, None, 0, 0) > 0:
        user.TranslateMessage(message)
        user.DispatchMessageW(message)
