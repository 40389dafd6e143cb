"""Whole runs on a real Win32 desktop, decided by a model that sees pixels only: the Notepad task in several profiles."""

from __future__ import annotations

import json
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests.scripted import text
from tests.wine.model import Message, PixelModel, Sight, Step, Task, picture, texts
from tests.wine.rig import ALONE, Desktop, shared_desktop, target, windows_path

TASK = Task('Grüße, Åse Øß! 5 € @ "home" & 100 % – {fertig} ~^|', r"C:\greetings for Åse.txt")
MARKED_TURNS = 4  # that a click's mark stays in the pictures of a story
STORY = "You remember nothing but your last observation"  # in the system prompt


class Story(PixelModel):
    """Answers the profile's requests by a step from the pixels of the marked picture alone."""

    covered = 0  # turns until the picture has no mark of a click any more

    def role(self, request: Any) -> str:
        return "executor" if STORY in "\n".join(texts(request)) else "verifier"

    def executor(self, request: Any) -> Message:
        """Where the mark of a click may cover what it measures, it waits for a picture without one."""
        step = Step("wait", "I look again without the mark.")
        if not self.covered:
            step = self.next_step(Sight(picture(request) or b""))
        self.covered = MARKED_TURNS if step.action == "click" else max(0, self.covered - 1)
        x, y = step.place
        values = {"click": {"x1": x, "y1": y, "label": step.target}, "done": {}}
        values |= {"type": {"text": step.text}, "key": {"key": step.key}, "wait": {}}
        act = {"name": step.action, **values[step.action]}
        return text(json.dumps({"observation": step.why, "bboxes": [], "actions": [act]}))


class Runs(unittest.TestCase):
    desktop: Desktop

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = shared_desktop()

    def completed(self, model: PixelModel, *options: str) -> list[dict[str, Any]]:
        """The journal of a run whose task is typed at the prompt, that does it, and whose claim was checked."""
        saved = self.desktop.file(model.task.path)
        saved.unlink(missing_ok=True)
        with model:
            words = "--endpoint", model.url, "--confirm", "never", *ALONE, *options
            program = self.desktop.agent(*words)
            program.say(model.task.words + "\n")
            try:
                code, output = program.finish(300)
            finally:
                self.desktop.close("notepad.exe")
        told = "\n".join([output, *map(str, model.steps)])
        self.assertEqual((code, model.errors), (0, []), told)
        self.assertEqual(saved.read_bytes(), model.task.file_bytes, told)
        self.assertIn("verifier", model.roles)
        return self.desktop.journal()

    def test_the_task_is_done_and_repeated_without_a_server_but_not_where_a_window_covers_it(
        self,
    ) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            # Desktops of their own: the Run dialog remembers what was typed there before.
            with Desktop() as self.desktop:
                journal = self.completed(PixelModel(TASK))
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

    def test_profile_commander_does_it(self) -> None:
        self.completed(PixelModel(TASK), "--profile", "commander")

    def test_it_is_done_in_a_conversation(self) -> None:
        self.completed(PixelModel(TASK), "--profile", "chat", "--max-steps", "60")

    def test_a_story_does_it(self) -> None:
        options = "--max-steps", "60"
        journal = self.completed(Story(TASK), "--profile", "story", *options)
        stages = [entry.get("stage") for entry in journal]
        self.assertGreater(stages.count("raw"), 2)
        self.assertEqual(stages.count("raw"), stages.count("annotated"))

    def test_the_tools_that_save_turns_take_fewer_requests(self) -> None:
        model = PixelModel(TASK, quick=True)
        journal = self.completed(model)
        self.assertIn("open_app", [e["tool"] for e in journal if e["kind"] == "intent"])
        asked = [role for role in model.roles if role != "verifier"]
        # Without them 13; a window that is slow to come may cost a look more.
        self.assertLessEqual(len(asked), 9, model.steps)
        self.assertNotIn("enter", [step.key for step in model.steps])


if __name__ == "__main__":
    unittest.main()
