"""A described story whose page, in a real browser, draws the marks and hands its picture in."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from chrome import Chrome  # noqa: E402 - both lie elsewhere, and this folder is no package

import agent  # noqa: E402
from tests.seams import person_there, rgb_picture  # noqa: E402

RED = {"stops": [[0, "rgba(255,0,0,1)"], [1, "rgba(255,0,0,0)"]], "trail_turns": 1}
START = {
    "observation": "I open Notes.",
    "bboxes": [{"x1": 700, "y1": 100, "x2": 900, "y2": 300}],
    "actions": [{"name": "double_click", "x1": 57, "y1": 89}],
}


class Story(unittest.TestCase):
    """Whole runs of the demo, in which the page is opened as a person's browser opens it."""

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.chrome = Chrome()
        self.addCleanup(self.chrome.close)

    def run_demo(self, *settings: str) -> tuple[int, Path]:
        words = ["--demo", "--described", "--panel", "--profile", "story"]
        for setting in (f"dump_dir={self.folder}", "turn_delay=0", "demo_page_wait=0", *settings):
            words += ["--set", setting]
        opened: list[threading.Thread] = []

        def browse(url: str) -> None:
            opened.append(threading.Thread(target=self.chrome.open, args=(url,)))
            opened[0].start()

        out = io.StringIO()
        with (
            person_there(True),
            mock.patch.dict(os.environ, {"DISPLAY": ":0"}),
            mock.patch("webbrowser.open", browse),
            contextlib.redirect_stdout(out),
        ):
            code = agent.main(words)
        opened[0].join(30)
        (folder,) = self.folder.glob("run_*")
        self.assertNotIn("No page sent", (folder / "execution_log.txt").read_text("utf-8"))
        return code, folder

    def pixels(self, folder: Path, turn: int, *places: tuple[int, int]) -> list[bytes]:
        """Of the marked picture, at places of the grid."""
        png = (folder / f"turn_{turn:04d}_annotated.png").read_bytes()
        rgb, width, height = rgb_picture(png)
        found = []
        for x, y in places:
            at = round(y * (height - 1) / 1000) * width + round(x * (width - 1) / 1000)
            found.append(rgb[3 * at : 3 * at + 3])
        return found

    def test_the_page_draws_what_ui_config_says_and_the_model_acts_on_its_picture(self) -> None:
        code, folder = self.run_demo(f"ui_config={json.dumps({'executed_heat': RED})}")
        self.assertEqual(code, 0)
        # The corners of the triangle, red in the turn that drew it and in no later one.
        corners = [(530, 313), (640, 613), (420, 613)]
        for turn, is_red in ((3, True), (4, False)):
            for red, green, blue in self.pixels(folder, turn, *corners):
                self.assertEqual(red > 200 and green < 40 and blue < 40, is_red, turn)
        said = [str(entry) for entry in self.chrome.complaints()]
        self.assertEqual([entry for entry in said if "ERR_" not in entry], [])

    def test_boxes_are_blue_above_all_at_their_border(self) -> None:
        code, folder = self.run_demo(f"boot_vlm_output={json.dumps(START)}", "max_steps=1")
        border, inside, outside = self.pixels(folder, 1, (700, 200), (800, 150), (950, 150))
        self.assertEqual([*border], [30, 110, 255])
        self.assertTrue(inside[2] > outside[2] and inside != border)
        self.assertEqual(code, 1)


if __name__ == "__main__":
    unittest.main()
