"""The sources of controls on a real Win32 desktop: UI Automation is not registered there, window handles answer."""

from __future__ import annotations

import json
import unittest
from typing import Any

from rig import AGENT, HERE, Desktop, windows_path

TEXT = "What the field holds"


class NotepadsControls(unittest.TestCase):
    found: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        with Desktop((1280, 720)) as desktop:
            code, output = desktop.run(
                windows_path(HERE / "controls.py"), windows_path(AGENT), r"C:\note.txt", timeout=400
            )
            if code:
                raise AssertionError(output)
            cls.found = json.loads(output.splitlines()[-1])

    def test_the_field_under_a_point_is_told_with_what_it_holds(self) -> None:
        field = self.found["at"]
        self.assertEqual(
            (field["role"], field["value"], field["program"]), ("edit", TEXT, "notepad.exe")
        )
        self.assertTrue(field["window"])

    def test_the_field_with_the_keyboard_is_that_one(self) -> None:
        field = self.found["focused"]
        self.assertEqual((field["role"], field["value"], field["focused"]), ("edit", TEXT, True))

    def test_the_windows_controls_are_listed_in_time(self) -> None:
        self.assertIn(("edit", TEXT), [(c["role"], c.get("value")) for c in self.found["list"]])
        self.assertIn("status bar", [control["role"] for control in self.found["list"]])
        self.assertLess(self.found["list_s"], 10.0)  # it does not hang

    def test_the_doctor_names_what_ui_automation_answers(self) -> None:
        self.assertIn("CoCreateInstance answers 0x80040154", self.found["report"])
        for text in (
            "ok    controls     2 controls ",
            "CoCreateInstance answers 0x80040154",
        ):
            self.assertIn(text, self.found["check"])

    def test_a_worker_that_was_killed_is_replaced_and_ends_with_the_run(self) -> None:
        self.assertIsNone(self.found["killed"])
        self.assertEqual(self.found["again"]["value"], TEXT)
        self.assertTrue(self.found["ended"])


if __name__ == "__main__":
    unittest.main()
