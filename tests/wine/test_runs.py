"""Whole runs on a real Win32 desktop: the Notepad task, done and repeated."""

from __future__ import annotations

import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests.wine.model import PAINTED, Task, Writer
from tests.wine.rig import ALONE, Desktop, shared_desktop, target, windows_path

TASK = Task("Grüße, Åse Øß! 5 € @ 'home' & 100 % – {fertig} ~^|", r"C:\greetings for Åse.txt")


class Runs(unittest.TestCase):
    desktop: Desktop

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = shared_desktop()

    def completed(self, model: Writer) -> list[dict[str, Any]]:
        """The journal of a run whose task is typed at the prompt, that does it, and whose claim was checked."""
        saved = self.desktop.file(model.task.path)
        saved.unlink(missing_ok=True)
        with model:
            words = "--endpoint", model.url, "--confirm", "never", *PAINTED, *ALONE
            program = self.desktop.agent(*words)
            program.say(model.task.words + "\n")
            try:
                code, output = program.finish(300)
            finally:
                self.desktop.close("notepad.exe")
        self.assertEqual((code, model.errors), (0, []), output)
        self.assertEqual(saved.read_bytes(), model.task.file_bytes, output)
        self.assertIn("verifier", model.roles)
        return self.desktop.journal()

    def test_the_task_is_done_and_repeated_without_a_server_but_not_where_a_window_covers_it(
        self,
    ) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            # Desktops of their own: the Run dialog remembers what was typed there before.
            with Desktop() as self.desktop:
                journal = self.completed(Writer(self.desktop, TASK))
                recorded = shutil.copytree(self.desktop.run_folder, Path(scratch, "run_0001"))
            targets = [e["args"].get("element_name") for e in journal if e["kind"] == "intent"]
            named = [name for name in dict.fromkeys(targets) if name]
            self.assertEqual(named[:2], ["Start button", "Run..."])
            again = "--replay", windows_path(recorded), "--confirm", "never", *ALONE
            with Desktop() as self.desktop:
                code, output = self.desktop.agent(*again).finish()
                self.assertEqual(code, 0, output)
                saved = self.desktop.file(TASK.path)
                self.assertEqual(saved.read_bytes(), TASK.file_bytes, output)
                saved.unlink()
                self.desktop.close("notepad.exe")
                target(self.desktop)
                code, output = self.desktop.agent(*again).finish()
            self.assertEqual(code, 1, output)
            self.assertIn("differs: ", output)
            self.assertFalse(saved.exists())

    def test_the_tools_that_save_turns_take_fewer_requests(self) -> None:
        model = Writer(self.desktop, TASK, quick=True)
        journal = self.completed(model)
        self.assertIn("open_app", [e["tool"] for e in journal if e["kind"] == "intent"])
        asked = [role for role in model.roles if role != "verifier"]
        # Without them 13; a window that is slow to come may cost a look more.
        self.assertLessEqual(len(asked), 9)


if __name__ == "__main__":
    unittest.main()
