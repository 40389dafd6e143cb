"""The form of form.py, in which things go wrong as in an office: run by the Windows Python.

    python.exe troubled.py FILE LEFT TOP FONT ORDER

The first word of the name tells what happens once it is typed, the first time: see `on_`. FILE.wants gets a line
where somebody is to type something in between; what is saved gets a file of its name in C:\\records, too.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
import time
from ctypes import c_void_p
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.wine.form import WM_COMMAND, Form, user

EN_CHANGE, MB_OKCANCEL, WM_CLOSE = 0x300, 0x1, 0x10
NO_SIZE_ORDER_FOCUS = 0x1 | 0x4 | 0x10
FITS = 6  # characters, in a field that cuts
BOX_S, CLOSED_S = 5.1, 6.5


class Troubled(Form):
    """What it was asked for once goes well the next time."""

    happened: frozenset[str] = frozenset()

    def handle(self, window: int, message: int, word: int, more: int) -> int:
        if message == WM_COMMAND and word >> 16 == EN_CHANGE and more == self.items.get("name"):
            name = self.text("name")
            trouble = getattr(self, f"on_{name.split(' ')[0].lower()}", None)
            if trouble and name not in self.happened:
                trouble(name)
        return super().handle(window, message, word, more)

    def is_whole(self, name: str) -> bool:
        """Whether that is all of the name; then this was the one time."""
        whole = re.fullmatch(r"[A-Z][a-z]+ \d{3}", name)
        if whole:
            self.happened |= {name}
        return whole is not None

    def on_move(self, name: str) -> None:
        if self.is_whole(name):
            user.SetWindowPos(c_void_p(self.window), None, 640, 260, 0, 0, NO_SIZE_ORDER_FOCUS)

    def on_slow(self, name: str) -> None:
        self.is_whole(name)
        time.sleep(0.3)

    def on_cut(self, name: str) -> None:
        if len(name) > FITS:
            user.SetWindowTextW(c_void_p(self.items["name"]), name[:FITS])

    def on_box(self, name: str) -> None:
        if self.is_whole(name):
            words = c_void_p(self.window), "Save it elsewhere?", "Question", MB_OKCANCEL
            threading.Thread(target=user.MessageBoxW, args=words, daemon=True).start()
            threading.Timer(BOX_S, self.somebody_answers).start()

    def somebody_answers(self) -> None:
        box = user.FindWindowW(None, "Question")
        user.PostMessageW(c_void_p(box), WM_CLOSE, 0, None)

    def on_close(self, name: str) -> None:
        if self.is_whole(name):
            user.ShowWindow(c_void_p(self.window), 0)
            threading.Timer(CLOSED_S, user.ShowWindow, (c_void_p(self.window), 5)).start()

    def on_person(self, name: str) -> None:
        if self.is_whole(name):
            with open(f"{self.file}.wants", "a", encoding="utf-8") as stream:
                stream.write(name + "\n")
            time.sleep(1)  # of which the person has some

    def save(self) -> None:
        name = self.text("name")
        if name.startswith("Gone") and name not in self.happened:
            self.happened |= {name}
            user.SetWindowTextW(c_void_p(self.items["name"]), "")  # it answers, and keeps nothing
        else:
            super().save()
            Path(rf"C:\records\{name}.txt").touch()


if __name__ == "__main__":
    form = Troubled(sys.argv[1], *map(int, sys.argv[2:6]))
    message = ctypes.create_string_buffer(64)
    while user.GetMessageW(message, None, 0, 0) > 0:
        user.TranslateMessage(message)
        user.DispatchMessageW(message)
