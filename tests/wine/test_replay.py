"""A run on a real Win32 desktop, repeated without a server: the same file, or a stop before a covered target."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from pixel_model import PixelModel, Task
from rig import AGENT, Desktop, Target, run_notepad, windows_path

TASK = Task("Grüße, Åse! 5 € & 100 % ~", r"C:\a note to repeat.txt")


class TheNotepadTaskAgain(unittest.TestCase):
    def test_it_writes_the_same_file_without_a_server_and_stops_when_another_window_covers_the_target(
        self,
    ) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            recorded = Path(scratch, "run_0001")
            run = run_notepad(PixelModel(TASK), keep=str(recorded))
            self.assertEqual(run.saved, TASK.file_bytes, str(run))
            options = (
                windows_path(AGENT),
                "--replay",
                windows_path(recorded),
                "--set",
                "dump_dir=dumps",
                "--confirm",
                "never",
            )
            with Desktop() as desktop:
                code, output = desktop.run(*options)
                self.assertEqual(code, 0, output)
                self.assertEqual(desktop.file(TASK.path).read_bytes(), TASK.file_bytes, output)
            with Desktop() as desktop:
                Target(desktop)
                code, output = desktop.run(*options)
                self.assertEqual(code, 1, output)
                self.assertIn("differs: ", output)
                self.assertFalse(desktop.file(TASK.path).exists())


if __name__ == "__main__":
    unittest.main()
