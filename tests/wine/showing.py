"""A person at the virtual desktop, who shows something and has it done again: a hand that is not the program's."""

from __future__ import annotations

import time

from tests.wine.rig import ALONE, HERE, Desktop, Json, Program, json_lines, until, windows_path

PAUSE_S = 0.35  # of a person between two acts
# And before a click: on a busy machine no look is complete any sooner, and what was not looked at is told, not kept.
REST_S = 0.5
NO_SERVER = "--endpoint", "http://127.0.0.1:9/v1"


class Person:
    desktop: Desktop

    def hand(self, *words: object) -> None:
        """What the person does with mouse or keyboard, and then rests a moment."""
        self.desktop.host("xdotool", *map(str, words))
        time.sleep(PAUSE_S)

    def click(self, x: int, y: int) -> None:
        self.hand("mousemove", x, y)
        time.sleep(REST_S)
        self.hand("click", 1)

    def type(self, text: str) -> None:
        self.hand("type", "--delay", 40, text)

    def teach(self, name: str, answers: str) -> Program:
        """A recording that has begun."""
        teacher = windows_path(HERE / "teacher.py")
        program = Program(self.desktop, teacher, answers, "--teach", name, *ALONE)
        until("it records", lambda: "1 ..." in program.text or program.process.poll() is not None)
        time.sleep(1.5)
        return program

    def shown(self, program: Program) -> str:
        """All that it printed, after the person ended it."""
        self.hand("key", "ctrl+alt+BackSpace")
        code, output = program.finish()
        if code:
            raise AssertionError(output)
        return output

    def again(self, name: str, *options: str) -> tuple[int, str]:
        """Has it done again where no model can be asked."""
        given = ("--again", name, *NO_SERVER, "--confirm", "never", *ALONE, *options)
        return self.desktop.agent(*given).finish()


class FormPerson(Person):
    """The same at the form."""

    FILE = r"C:\customers.jsonl"

    def form(
        self, left: int, top: int, font: int = 20, order: int = 1, wide: int = 100, styled: int = 0
    ) -> Program:
        self.scale, self.corner = font, (left, top)
        numbers = (left, top, font, order, wide, styled)
        program = Program(
            self.desktop, windows_path(HERE / "form.py"), self.FILE, *map(str, numbers)
        )
        time.sleep(3)
        return program

    def at(self, across: int, down: int) -> tuple[int, int]:
        """A place of the form's inside, in tenths of a letter; its frame is added."""
        left, top = self.corner
        return left + 4 + across * self.scale // 10, top + 23 + down * self.scale // 10

    def saved(self) -> list[Json]:
        return json_lines(self.desktop.file(self.FILE))
