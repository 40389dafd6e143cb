"""The panel while one looks back: earlier turns, the way back to live, and what it waits for."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from chrome import wait_for  # noqa: E402 - both lie elsewhere, and this folder is no package
from test_page import Browser  # noqa: E402

import agent  # noqa: E402
from tests.test_panel import PICTURE, act, head, publish, show, turn  # noqa: E402

SHOTS = os.environ.get("PANEL_SHOTS")  # a folder: pictures of the pages are kept there
LEFT, RIGHT, ESCAPE, END = "\ue012", "\ue014", "\ue00c", "\ue010"


def clicked(number: int, **more: Any) -> dict[str, Any]:
    """A turn that clicked on its own screenshot."""
    name = f"screenshots/turn_{number:04d}.png"
    done = act("click", True, element_name=f"button {number}", position={"x": 500, "y": 400})
    done |= {"screenshot": name, "region": (100, 100, 500, 500)}
    said = {"said": f"words {number}", "result": f"Clicked: button {number}", "changed": True}
    return turn(number, done, shots=[name], role="executor", **said, **more)


class Looking(Browser):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "screenshots").mkdir()
        for number in range(2, 6):
            path = self.folder / "screenshots" / f"turn_{number:04d}.png"
            path.write_bytes(PICTURE)
        super().setUp()
        self.panel.folder = self.folder

    def tearDown(self) -> None:
        self.assertEqual(self.chrome.complaints(), [])

    def book(self, *more: dict[str, Any]) -> list[dict[str, Any]]:
        planned = {"plan": True, "plan_text": "first plan", "instructions": "first steps"}
        again = {"plan": True, "plan_text": "second plan", "instructions": "second steps"}
        turns = [turn(1, **planned), clicked(2), clicked(3), turn(4, **again), clicked(5)]
        return [head(plan="second plan", instructions="second steps"), *turns, *more]

    def begin(self) -> None:
        show(self.panel, PICTURE, 5)
        publish(self.panel, self.book())
        self.open()
        self.see("#where", "5 / 5")

    def seen(self, selector: str) -> bool:
        script = "return document.querySelector(arguments[0])?.checkVisibility() || false"
        return bool(self.chrome.run(script, selector))

    def texts(self) -> list[str]:
        return [self.chrome.text(name) for name in ("#where", "#words", "#plan", "#instructions")]

    def test_the_first_event_of_a_page_that_comes_late_shows_the_latest_turn(self) -> None:
        self.begin()
        self.assertEqual(self.chrome.text("article.now b"), "5")

    def test_without_a_turn_there_is_no_number(self) -> None:
        self.open()
        publish(self.panel, [head(task="wait and see")])
        self.see("h1", "wait and see")
        self.assertEqual(self.chrome.text("#where"), "")

    def test_until_the_first_picture_it_says_what_it_waits_for(self) -> None:
        self.open()
        self.panel.update(phase="planner is thinking")
        self.see("#wait", "first picture")
        self.see("#wait", "planner is thinking")
        self.assertTrue(self.seen("#wait"))
        self.chrome.press("z")  # there is nothing to look at
        self.assertFalse(self.seen("#zoom"))
        show(self.panel, PICTURE, 1)
        wait_for(lambda: not self.seen("#wait"))

    def test_the_arrows_show_the_picture_the_plan_and_the_words_of_a_turn(self) -> None:
        self.begin()
        self.assertTrue(self.seen("#now"))
        self.assertFalse(self.seen("#latest"))
        self.chrome.click("#back")
        self.see("#past", "looked at no screen")
        self.assertEqual(self.texts(), ["4 / 5", "", "second plan", "second steps"])
        self.chrome.press(LEFT)
        self.see("#past figcaption", "turn 3 \u00b7 before \u00b7 click: button 3")
        self.assertEqual(self.texts(), ["3 / 5", "words 3", "first plan", "first steps"])
        loaded = "return [...document.querySelectorAll('#past img')].map((i) => i.naturalWidth)"
        wait_for(lambda: self.chrome.run(loaded) == [64, 64])
        self.assertTrue(self.seen("#past .before circle"))
        self.assertFalse(self.seen("#past .after"))
        self.chrome.press("a")
        self.assertTrue(self.seen("#past .after .region"))
        self.assertFalse(self.seen("#past .before"))

    def test_whoever_looks_back_stays_there_until_live(self) -> None:
        self.begin()
        self.chrome.press(LEFT)
        self.chrome.press(LEFT)
        publish(self.panel, self.book(clicked(6)))
        self.see("#where", "3 / 6")
        self.assertEqual(self.chrome.text("#words"), "words 3")
        self.chrome.click("#latest")
        self.see("#where", "6 / 6")
        self.assertTrue(self.seen("#now"))
        self.assertFalse(self.seen("#latest"))
        publish(self.panel, self.book(clicked(6), clicked(7)))
        self.see("#where", "7 / 7")
        self.assertEqual(self.texts()[1:], ["words 7", "second plan", "second steps"])

    def test_a_row_that_is_opened_shows_its_turn(self) -> None:
        self.begin()
        self.chrome.run("document.querySelector('article:nth-of-type(2) header').click()")
        self.see("#past figcaption", "turn 2")
        self.assertEqual(self.chrome.text("#where"), "2 / 5")

    def test_a_screenshot_that_is_gone_is_said_to_be_missing(self) -> None:
        (self.folder / "screenshots" / "turn_0002.png").unlink()
        self.begin()
        self.chrome.run("document.querySelector('article:nth-of-type(2) header').click()")
        self.see("#past .missing", "The screenshot screenshots/turn_0002.png is missing.")
        complaints = self.chrome.complaints()
        self.assertEqual(len([text for text in complaints if "404" not in text]), 0, complaints)

    def test_marks_leave_what_they_point_at_to_be_seen(self) -> None:
        """The canvas is as captured; only rings and frames lie over it."""
        self.begin()
        wait_for(lambda: self.chrome.run("return drawn.length > 5 && !busy"))
        colours = self.chrome.run(
            "const {width, height} = screenPen.canvas;"
            " return [...new Set(screenPen.getImageData(0, 0, width, height).data)]"
        )
        self.assertEqual(sorted(colours), [0, 255])
        self.assertGreater(self.chrome.run("return patches.length"), 0)
        fills = self.chrome.run(
            "return [...document.querySelectorAll('#now svg *')].map(e => getComputedStyle(e).fill)"
        )
        self.assertEqual(set(fills), {"none"})

    def test_a_row_shows_no_json(self) -> None:
        begun = turn(2, act("click", None, element_name="Save", position={"x": 1, "y": 2}))
        begun["call"] = 'click {"element_name": "Save", "position": {"x": 1, "y": 2}}'
        self.open()
        publish(self.panel, [head(), begun, turn(3, call='explode {"a": 1}')])
        self.see("article:nth-of-type(2) .act", "explode")
        rows = self.chrome.run(
            "return [...document.querySelectorAll('article header')].map((row) => row.textContent)"
        )
        self.assertIn("click: Save", rows[0])
        self.assertNotIn("{", "".join(rows))

    def test_pause_stands_apart_from_the_arrows(self) -> None:
        self.begin()
        for width in (390, 1280, 1920):
            self.chrome.look(width, 844)
            time.sleep(0.1)
            left, right = self.chrome.run(
                "return [next.getBoundingClientRect().right, play.getBoundingClientRect().left]"
            )
            self.assertGreater(right - left, 60, width)

    def test_a_pause_is_said_and_is_not_red(self) -> None:
        self.begin()
        self.stop.paused = "the person moved the mouse"
        self.see("#note", "Paused: the person moved the mouse.")
        self.assertIn("idle", self.chrome.run("return note.className"))
        self.chrome.click("#play")
        wait_for(lambda: not self.seen("#note"))

    def test_at_the_end_it_says_where_the_report_is(self) -> None:
        self.panel.close()
        self.panel = agent.Panel(agent.Config(), self.stop, agent.Book("run_0001"), self.folder)
        self.addCleanup(self.panel.close)
        self.begin()
        self.assertFalse(self.seen("#saved"))
        publish(self.panel, [head(outcome="completed", text="Done."), *self.book()[1:]])
        self.see("#saved", str(self.folder.resolve() / "report.html"))
        self.assertTrue(self.seen("#saved"))

    def test_the_keys_are_explained(self) -> None:
        self.begin()
        self.chrome.press("?")
        self.see("#keys", "the latest one")
        self.assertNotIn("search", self.chrome.text("#keys"))
        self.chrome.press(" ")  # its button closes it; nothing is paused
        self.assertEqual(self.stop.paused, "")

    def test_the_screen_opens_at_full_size(self) -> None:
        self.begin()
        wait_for(lambda: self.chrome.run("return drawn.length > 5 && !busy"))
        self.chrome.click("#now .frame")
        wait_for(lambda: self.chrome.run("return stage.querySelector('img')?.naturalWidth") == 64)
        self.assertGreater(self.chrome.run("return stage.querySelectorAll('circle').length"), 0)
        self.chrome.press(ESCAPE)
        self.assertFalse(self.seen("#zoom"))

    def test_nothing_is_cut_or_stranded_at_any_width(self) -> None:
        self.begin()
        for back in (False, True):
            if back:
                self.chrome.press(LEFT)
                self.chrome.press(LEFT)
            for width in (390, 1280, 1920):
                self.chrome.look(width, 900, dark=width == 1280)
                page = "return document.documentElement.scrollWidth"
                self.assertEqual(self.chrome.run(page), width)
                edges = self.chrome.run(
                    "return ['#back', '#live .card', 'article'].map("
                    "(name) => document.querySelector(name).getBoundingClientRect().left)"
                )
                self.assertEqual(len(set(edges)), 1, edges)
                if SHOTS:
                    name = f"panel_{'back' if back else 'live'}_{width}.png"
                    (Path(SHOTS) / name).write_bytes(self.chrome.screenshot())


del Browser  # or its module's tests would run here, too

if __name__ == "__main__":
    unittest.main()
