"""What several steps of one act share, what is held between acts, and what is asked with a deadline."""

from __future__ import annotations

import json
import threading
import unittest
from dataclasses import replace
from typing import Any

import agent
from tests import seams
from tests.fakes import Foreground
from tests.scripted import PlainDesktop
from tests.test_actuator import Stage
from tests.test_proof import Judged

WIN, SHIFT, RIGHT = 0x5B, 0x10, 0x27
NEUTRAL = 0xE8  # Microsoft: unassigned


def keys(stage: Stage) -> list[tuple[int, bool]]:
    return [(event.value, event.down) for event in stage.world.events if event.kind == "key"]


class TypingAtAPlace(unittest.TestCase):
    def test_what_is_clicked_is_judged_by_the_name_that_the_model_gives_it(self) -> None:
        words = agent.PROFILES["planner"].vocabulary
        (schema,) = words.schemas(["type_text"])
        self.assertIn("element_name", schema["function"]["parameters"]["properties"])
        arguments = {"text": "x", "position": [500, 500], "element_name": "Delete all"}
        asked: list[str] = []
        stage = Stage()
        stage.actuator.confirm = lambda question: bool(asked.append(question))
        act = words.parse(agent.ToolCall("type_text_input", arguments))
        stage.actuator.perform(agent.steps_of(act)[0], stage.look())
        self.assertTrue(asked[0].endswith(": delete"), asked)


class Clipboard(Judged):
    def told(self, length: Any) -> str:
        """What the verifier is told on a desktop with so much on its clipboard."""

        class Copied(PlainDesktop):
            def clipboard_length(self) -> int | None:
                return length()  # type: ignore[no-any-return]

        self.desktop_type = Copied
        self.claims("1 YES: a\n2 YES: b", not_proven_most=1)
        return self.asked("verifier")[0]

    def test_the_verifier_is_told_how_much_text_it_holds(self) -> None:
        self.assertIn("Characters of text on the clipboard: 11.", self.told(lambda: 11))
        self.assertNotIn("clipboard", self.told(lambda: None))

    def test_a_program_that_never_gives_its_text_hangs_nothing(self) -> None:
        gate = threading.Event()
        self.addCleanup(gate.set)
        with seams.little_patience():
            self.assertNotIn("clipboard", self.told(lambda: gate.wait(60)))

    def test_windows_tells_the_length(self) -> None:
        stage = Stage()
        self.assertEqual(stage.desktop.clipboard_length(), 0)
        stage.world.clipboard = "secret"
        self.assertEqual(stage.desktop.clipboard_length(), 6)

    def test_it_is_closed_again_whatever_happens(self) -> None:
        stage = Stage()
        stage.world.clipboard = "secret"
        for refused, closed in (("GetClipboardData", 1), ("GlobalLock", 1), ("OpenClipboard", 0)):
            stage.world.arm(names={refused})
            self.assertIsNone(stage.desktop.clipboard_length())
            self.assertEqual(stage.world.calls.count("CloseClipboard"), closed, refused)

    def test_a_program_that_hangs_is_not_asked_for_its_text(self) -> None:
        stage = Stage()
        stage.world.clipboard = "secret"
        stage.world.window = owner = replace(Foreground(), hung=True)
        stage.world.clipboard_owner = owner.handle
        self.assertIsNone(stage.desktop.clipboard_length())
        self.assertNotIn("OpenClipboard", stage.world.calls)


class Files(Judged):
    def test_a_secret_across_the_end_of_what_is_told_leaves_no_part_of_it(self) -> None:
        path = self.folder / "note.txt"
        path.write_text("x" * 195 + "4711-4711 and so on", encoding="utf-8")
        self.hide = lambda value: json.loads(json.dumps(value).replace("4711-4711", "{{PIN}}"))
        task = f"Look into {path}"
        self.claims("1 YES: a", task=task, checks=("It is.",), not_proven_most=1)
        said = self.asked("verifier")[0]
        self.assertIn("x{{PIN", said)
        self.assertNotIn("4711", said)


if __name__ == "__main__":
    unittest.main()
