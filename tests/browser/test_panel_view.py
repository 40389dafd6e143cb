"""The panel while one looks back: earlier turns, the way back to live, and what it waits for."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from chrome import wait_for  # noqa: E402 - both lie elsewhere, and this folder is no package
from test_page import Browser  # noqa: E402

from tests.test_panel import PICTURE, act, head, publish, show, turn  # noqa: E402

LEFT = "\ue012"


def clicked(number: int, **more: Any) -> dict[str, Any]:
    """A turn that clicked on its own screenshot."""
    name = f"screenshots/turn_{number:04d}.png"
    done = act("click", True, element_name=f"button {number}", position={"x": 500, "y": 400})
    done |= {"region": (100, 100, 500, 500)}
    said = {"said": f"words {number}", "result": f"Clicked: button {number}", "changed": True}
    return turn(number, done, shots=[name], role="executor", **said, **more)


class Looking(Browser):
    def tearDown(self) -> None:
        self.assertEqual(self.chrome.complaints(), [])

    def book(self, *more: dict[str, Any]) -> list[dict[str, Any]]:
        planned = turn(1, plan=True, plan_text="first plan", instructions="first steps")
        return [head(), planned, clicked(2), clicked(3), turn(4, result="Thought"), *more]

    def begin(self) -> None:
        for number in range(2, 6):
            path = self.folder / "screenshots" / f"turn_{number:04d}.png"
            path.write_bytes(PICTURE)
        show(self.panel, PICTURE, 5)
        publish(self.panel, self.book(clicked(5)))
        self.open()
        self.see("#where", "5 / 5")

    def test_until_the_first_picture_it_says_what_it_waits_for(self) -> None:
        self.open()
        publish(self.panel, [head(task="wait and see")])
        self.panel.update(phase="planner is thinking")
        self.see("#stage", "first picture")
        self.see("#stage", "planner is thinking")
        self.assertEqual(self.chrome.text("#where"), "")
        show(self.panel, PICTURE, 1)
        self.see("#stage figcaption", "live")

    def test_the_arrows_show_the_pictures_the_plan_and_the_words_of_a_turn(self) -> None:
        self.begin()
        self.see("#stage figcaption", "live")
        self.assertFalse(self.seen("#latest"))
        self.chrome.click("#back")
        self.see("#stage", "looked at no screen")
        self.chrome.press(LEFT)
        self.see("#stage figcaption", "before \u00b7 Click \u201cbutton 3\u201d")
        self.assertIn("words 3", self.chrome.text("article:not([hidden])"))
        self.assertIn("first plan", self.chrome.text("#plan"))
        self.assertEqual(self.all("#stage img", "naturalWidth"), [64, 64])
        self.assertTrue(self.seen(".before ellipse"))
        self.assertTrue(self.seen(".after .region"))

    def test_whoever_looks_back_stays_there_until_live(self) -> None:
        self.begin()
        self.chrome.press(LEFT)
        self.chrome.press(LEFT)
        publish(self.panel, self.book(clicked(5), clicked(6)))
        self.see("#where", "3 / 6")
        self.chrome.click("#latest")
        self.see("#where", "6 / 6")
        self.assertFalse(self.seen("#latest"))
        publish(self.panel, self.book(clicked(5), clicked(6), clicked(7)))
        self.see("#where", "7 / 7")
        self.assertIn("words 7", self.chrome.text("article:not([hidden])"))

    def test_a_row_shows_its_turn_and_no_json(self) -> None:
        self.begin()
        self.chrome.click("#list li:nth-child(2) a")
        self.see("#where", "2 / 5")
        self.assertNotIn("{", "".join(self.all("#list li")))

    def test_a_screenshot_that_is_gone_is_said_to_be_missing(self) -> None:
        self.begin()
        (self.folder / "screenshots" / "turn_0002.png").unlink()
        self.chrome.click("#list li:nth-child(2) a")
        self.see("#stage", "The screenshot screenshots/turn_0002.png is missing.")
        complaints = self.chrome.complaints()
        self.assertEqual([text for text in complaints if "404" not in text], [])

    def test_a_pause_is_said_and_is_not_red(self) -> None:
        self.begin()
        self.stop.paused = "the person moved the mouse"
        self.see("#note", "Paused: the person moved the mouse.")
        self.assertIn("idle", self.chrome.run("return note.className"))
        self.chrome.click("#play")
        wait_for(lambda: not self.seen("#note"))

    def test_nothing_is_wider_than_the_page(self) -> None:
        self.begin()
        for width in (390, 1280, 1920):
            self.chrome.look(width, 900, dark=width == 1280)
            self.assertEqual(self.chrome.run("return document.documentElement.scrollWidth"), width)


del Browser  # or its module's tests would run here, too

if __name__ == "__main__":
    unittest.main()
