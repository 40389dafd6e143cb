"""On a real Win32 desktop: no act is taken while the window is still drawing what the act before it brought about."""

from __future__ import annotations

import unittest

from rig import AGENT, SCREEN, Desktop, Target, windows_path
from test_stop import Scripted

CLICKS, STRIPES = (
    6,
    20,
)  # 20 stripes, one every 30 ms: a screen that is restless for over half a second


class Settling(unittest.TestCase):
    def test_each_click_comes_after_the_window_has_finished_drawing(self) -> None:
        with Desktop() as desktop:
            target = Target(desktop)
            target.command(f"slow {STRIPES}")
            left, top, right, bottom = target.area
            x, y = 500 * (left + right) // (SCREEN[0] - 1), 500 * (top + bottom) // (SCREEN[1] - 1)
            places = [
                {"element_name": f"area {n}", "position": [x + 9 * n, y]} for n in range(CLICKS)
            ]
            calls = [("click_screen_element", place) for place in places]
            with Scripted(calls) as model:
                code, output = desktop.run(
                    windows_path(AGENT), "--endpoint", model.url, "--confirm", "never", "Do it"
                )
            self.assertEqual(code, 0, output)
            events = [event["message"] for event in target.events("WM_LBUTTONDOWN", "DRAWN")]
            self.assertEqual(events, ["WM_LBUTTONDOWN", "DRAWN"] * CLICKS)


if __name__ == "__main__":
    unittest.main()
