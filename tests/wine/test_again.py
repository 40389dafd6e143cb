"""The Notepad task again on a real Win32 desktop: without the model where the screen looks as it did, else with it."""

from __future__ import annotations

import shutil
import unittest
from pathlib import Path
from typing import Any

from tests.wine.model import Box, PixelModel, Sight, Step, Task
from tests.wine.rig import ALONE, Desktop, Program, end, shared_desktop, target, until

PLACE = {"iWindowPosX": 200, "iWindowPosY": 120, "iWindowPosDX": 900, "iWindowPosDY": 600}
IN_FRONT = (1200, 500, 600, 400)  # where another program is
REQUESTS_MOST = 3  # 9 without a way


class Quoted(Task):
    """Its file proves it, since its words quote the text."""

    @property
    def words(self) -> str:
        return f'Open Notepad, write the line "{self.text}" and save it with Ctrl+S as {self.path}'


TASK = Quoted("Greetings to all, 5 & 100 % ~", r"C:\greetings.txt")


class Watching(PixelModel):
    """Looks for what was done without it: whether the file is there, what a question asks, which window is another."""

    def __init__(self, file: Path) -> None:
        super().__init__(TASK, quick=True)
        self.file = file

    def decide(self, sight: Sight) -> Step:
        self.typed = True
        self.saved = self.file.exists() and self.file.read_bytes() == TASK.file_bytes
        windows = sight.windows()
        if windows and not windows[0][1]:
            inside = sight.inside(windows[0][0], dialog=True)
            if not [box for box in sight.boxes(sight.paper, inside, 30) if box.width > 120]:
                return Step("key", "The question is whether to replace the file.", key="alt+y")
        if [bar for bar, _ in windows if not self.is_other(bar, sight)] or not windows:
            return super().decide(sight)
        return Step("click", "Another program is in front.", "Start button", (12, 985))

    def is_other(self, bar: Box, sight: Sight) -> bool:
        return abs(bar.left - IN_FRONT[0] * sight.width // 1920) < 20


class Again(unittest.TestCase):
    desktop: Desktop
    file: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = shared_desktop()
        cls.file = cls.desktop.file(TASK.path)
        cls.put_notepad(0)
        code, output = cls.start(Watching(cls.file), TASK.words).finish(300)
        assert code == 0, output

    @classmethod
    def put_notepad(cls, right: int) -> None:
        """Where it opens."""
        for name, value in {**PLACE, "iWindowPosX": PLACE["iWindowPosX"] + right}.items():
            words = "/v", name, "/t", "REG_DWORD", "/d", str(value), "/f"
            cls.desktop.host("wine", "reg", "add", r"HKCU\Software\Microsoft\Notepad", *words)

    @classmethod
    def start(cls, model: Watching, *options: str) -> Program:
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
        code, output = self.start(
            Watching(self.file), *(options or ("--again", TASK.words))
        ).finish(300)
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

    def test_a_file_that_is_there_brings_a_question_up_which_the_model_answers(self) -> None:
        self.file.write_bytes(b"old")
        done = self.completed()
        self.assertEqual(done[-1], None, self.output)
        self.assertNotIn(None, done[:-1], self.output)

    def test_another_program_in_front_is_left_alone(self) -> None:
        other = target(self.desktop, IN_FRONT)
        self.addCleanup(other.order, "quit")
        self.assertNotIn(None, self.completed(), self.output)

    def test_killed_in_between_it_goes_on_and_does_nothing_twice(self) -> None:
        program = self.start(Watching(self.file), "--again", TASK.words)
        until("two acts are done", lambda: len(self.results()) > 1)
        end(program.process)
        done = self.completed("--resume")
        known = [step for step in done if step]
        self.assertEqual(known, sorted(set(known)), self.output)

    def results(self) -> list[dict[str, Any]]:
        return self.desktop.journal("result") if self.desktop.run_folder.name > "run_0001" else []


if __name__ == "__main__":
    unittest.main()
