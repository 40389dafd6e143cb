"""The main job on a real Win32 desktop: a task typed at the prompt, decided by a model that sees pixels only."""

from __future__ import annotations

import unittest

from pixel_model import PixelModel, Task
from rig import Run, run_notepad

TASK = Task('Grüße, Åse Øß! 5 € @ "home" & 100 % – {fertig} ~^|', r"C:\greetings for Åse.txt")


class TheNotepadTask(unittest.TestCase):
    def check(self, run: Run) -> None:
        self.assertEqual(run.saved, TASK.file_bytes, str(run))
        self.assertEqual(run.code, 0, str(run))
        self.assertEqual(run.unread, [])
        self.assertEqual([e["outcome"] for e in run.journal if e["kind"] == "end"], ["completed"])
        self.assertTrue(
            any(e.kind == "verification" for e in run.model.exchanges),
            "the claim was never checked",
        )

    def test_a_line_with_umlauts_and_signs_is_written_and_saved_from_an_empty_desktop(self) -> None:
        run = run_notepad(PixelModel(TASK))
        self.check(run)
        targets = [e["args"].get("element_name") for e in run.journal if e["kind"] == "intent"]
        self.assertEqual([target for target in targets if target][:2], ["Start button", "Run..."])

    def test_the_same_with_profile_commander(self) -> None:
        self.check(run_notepad(PixelModel(TASK), "--profile", "commander"))

    def test_the_same_while_the_server_and_the_model_fail_in_between(self) -> None:
        faults = [
            None,
            "out_of_range",
            None,
            "refuse",
            None,
            "http500",
            None,
            "empty",
            None,
            "text",
            "text",
            "text",
            None,
            "unknown_tool",
            None,
            "drop",
        ]
        run = run_notepad(PixelModel(TASK, faults))
        self.check(run)
        told = [fault for fault in faults if fault and fault != "refuse"]
        self.assertEqual(
            [exchange.fault for exchange in run.model.exchanges if exchange.fault], told
        )
        again = [
            entry["tries"]
            for entry in run.journal
            if entry["kind"] == "reply" and entry["tries"] > 1
        ]
        # 500 and dropped; on a busy machine the next request may come only when nobody is refused any more.
        self.assertGreaterEqual(len(again), 2)
        unusable = [entry["text"] for entry in run.journal if entry["kind"] == "no_call"]
        self.assertEqual(len(unusable), 6, unusable)
        self.assertIn("1290", unusable[0])


if __name__ == "__main__":
    unittest.main()
