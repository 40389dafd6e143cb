"""The Notepad task again on a real Win32 desktop: without the model where the screen looks as it did, else with it."""

from __future__ import annotations

import shutil
import unittest
from pathlib import Path
from typing import Any

from tests.wine.model import PAINTED, Task, Writer
from tests.wine.rig import ALONE, Desktop, Program, end, shared_desktop, target, until

PLACE = {"iWindowPosX": 200, "iWindowPosY": 120, "iWindowPosDX": 900, "iWindowPosDY": 600}
IN_FRONT = (1200, 500, 600, 400)  # where another program is
REQUESTS_MOST = 3  # 9 without a way


TASK = Task("Greetings to all, 5 & 100 % ~", r"C:\greetings.txt")


class Again(unittest.TestCase):
    desktop: Desktop
    file: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = shared_desktop()
        cls.file = cls.desktop.file(TASK.path)
        cls.put_notepad(0)
        for last in (False, True):  # its dialog opens where something was saved last
            code, output = cls.start(TASK.words, *PAINTED).finish(300)
            assert code == 0, output
            if not last:
                shutil.rmtree(cls.desktop.run_folder)
                cls.desktop.close("notepad.exe")
                cls.file.unlink()

    @classmethod
    def put_notepad(cls, right: int) -> None:
        """Where it opens."""
        for name, value in {**PLACE, "iWindowPosX": PLACE["iWindowPosX"] + right}.items():
            words = "/v", name, "/t", "REG_DWORD", "/d", str(value), "/f"
            cls.desktop.host("wine", "reg", "add", r"HKCU\Software\Microsoft\Notepad", *words)

    @classmethod
    def start(cls, *options: str) -> Program:
        model = Writer(cls.desktop, TASK, quick=True)
        cls.addClassCleanup(model.__exit__)
        model.__enter__()
        words = "--endpoint", model.url, "--confirm", "never", *ALONE, *options
        return cls.desktop.agent(*words)

    def setUp(self) -> None:
        self.desktop.close("notepad.exe")
        self.file.unlink(missing_ok=True)
        self.addCleanup(self.desktop.close, "notepad.exe")

    def completed(self, *options: str) -> list[int | None]:
        """Of each act of a run, which one of the first run it was."""
        code, output = self.start(*(options or ("--again", TASK.words))).finish(300)
        self.assertEqual(code, 0, output)
        self.assertEqual(self.file.read_bytes(), TASK.file_bytes, output)
        done = [entry.get("way") for entry in self.desktop.journal("intent")]
        self.output, self.asked = output, len(self.desktop.journal("request"))
        shutil.rmtree(self.desktop.run_folder)
        return done

    def test_it_is_done_again_without_the_model_but_for_the_proof(self) -> None:
        done = self.completed()
        self.assertEqual(done, [*range(1, len(done) + 1)], self.output)
        self.assertLessEqual(self.asked, REQUESTS_MOST, self.output)

    def test_a_window_that_is_elsewhere_is_the_models(self) -> None:
        self.put_notepad(40)
        self.addCleanup(self.put_notepad, 0)
        done = self.completed()
        self.assertEqual((done[0], done.count(2)), (1, 0), self.output)

    def test_a_file_that_is_there_is_shown_in_the_dialog_from_where_on_the_model_decides(
        self,
    ) -> None:
        self.file.write_bytes(b"old")
        done = self.completed()
        # What else is listed beside a field may be another record's: no name tells what changed.
        self.assertEqual((done[:3], {*done[3:]}), ([1, 2, 3], {None}), self.output)
        self.assertIn("submit: something else stands at", self.output)
        # Its name, and the answer to the question whether to replace it.
        self.assertEqual(len(done), 5, self.output)

    def test_another_program_in_front_is_left_alone(self) -> None:
        other = target(self.desktop, IN_FRONT)
        self.addCleanup(other.order, "quit")
        self.assertNotIn(None, self.completed(), self.output)

    def test_killed_in_between_it_goes_on_and_does_nothing_twice(self) -> None:
        program = self.start("--again", TASK.words)
        until("two acts are done", lambda: len(self.results()) > 1)
        end(program.process)
        done = self.completed("--resume")
        known = [step for step in done if step]
        self.assertEqual(known, sorted(set(known)), self.output)

    def results(self) -> list[dict[str, Any]]:
        return self.desktop.journal("result") if self.desktop.run_folder.name > "run_0001" else []


if __name__ == "__main__":
    unittest.main()
