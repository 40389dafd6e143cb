"""What a person does with the panel's page in a real browser; what it is told test_panel sees over HTTP."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any
from unittest import mock

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from chrome import InChrome, wait_for  # noqa: E402 - both lie elsewhere, and this folder is no package

import agent  # noqa: E402
from tests.test_panel import PICTURE, RUN, a_panel, act, plan, reply, tell  # noqa: E402

LEFT, ESCAPE, ENTER = "\ue012", "\ue00c", "\ue007"


def clicked(number: int) -> list[dict[str, Any]]:
    """A turn that clicked on its own screenshot."""
    turn = {"turn": number}
    args = {"element_name": f"button {number}", "position": {"x": 500, "y": 400}}
    return [
        reply(number, f"words {number}"),
        {"kind": "look", "screenshot": f"screenshots/turn_{number:04d}.png", **turn},
        {"kind": "intent", "tool": "click", "args": args, **turn},
        {"kind": "result", "changed": True, "region": [100, 100, 500, 500], **turn},
        act(number, "click", f"Clicked: button {number}", True),
    ]


class Browser(InChrome):
    def setUp(self) -> None:
        super().setUp()
        (self.folder / "screenshots").mkdir()
        self.stop = agent.Stop()
        self.panel = a_panel(agent.Config(), self.stop, self.folder)
        self.addCleanup(self.panel.close)
        self.addCleanup(self.chrome.open, "about:blank")  # else the page asks a panel that is gone
        self.chrome.look(1440, 960)
        self.chrome.complaints()

    def open(self, *lines: dict[str, Any]) -> None:
        """The page of a run of which these lines were told."""
        tell(self.panel, *lines)
        self.chrome.open(self.panel.url)
        wait_for(self.panel.watched, what="for the page to listen")

    def see(self, selector: str, text: str) -> None:
        wait_for(lambda: text in self.chrome.text(selector), what=f"for {text!r} in {selector}")


class Page(Browser):
    def test_the_token_leaves_the_address_bar_and_a_reload_says_what_to_do(self) -> None:
        self.open()
        self.assertNotIn("#", self.chrome.run("return location.href"))
        kept = self.chrome.run("return history.length && document.cookie + localStorage.length")
        self.assertEqual(kept, "0")
        self.assertEqual(self.chrome.complaints(), [])
        self.chrome.do("/refresh")
        self.see("#note", "Open the address the program printed")

    def test_pause_resume_and_stop_by_button_and_a_hint_by_the_keyboard_alone(self) -> None:
        self.open(RUN)
        self.see("h1", "Draw")
        self.chrome.click("#play")
        wait_for(lambda: self.stop.paused)
        self.see("#status", "paused")
        self.see("#play", "Resume")
        self.chrome.click("#play")
        wait_for(lambda: not self.stop.paused)
        self.see("#play", "Pause")
        self.chrome.press("h")
        self.assertEqual(self.chrome.run("return document.activeElement.id"), "hint")
        self.chrome.type("#hint", "try the h menu")  # h is a letter here
        self.chrome.press(ENTER)
        self.assertEqual(wait_for(self.panel.take_hints), ["try the h menu"])
        self.see("#note", "The model gets it.")
        self.chrome.press(ESCAPE)  # leaves the field
        self.assertNotEqual(self.chrome.run("return document.activeElement.id"), "hint")
        self.chrome.click("#stop")
        wait_for(lambda: self.stop.reason)

    def test_a_question_is_answered_there_and_at_the_end_the_report_is_offered(self) -> None:
        self.open(RUN)
        self.panel.take(agent.PageText("question", "It waits for an answer: Which file?"))
        self.see("#note", "Which file?")
        self.see("#send", "Answer")
        for button in ("Resume", "Pause"):
            self.chrome.click("#play")
            self.see("#play", button)
            self.assertIn("Which file?", self.chrome.text("#note"))  # until it is answered
        self.assertFalse(self.chrome.seen("#report"))
        self.chrome.type("#hint", "a.txt")
        self.chrome.press(ENTER)
        self.assertEqual(wait_for(self.panel.take_answer), "a.txt")
        tell(self.panel, {"kind": "end", "outcome": "completed", "text": "Done."})
        self.see("#status", "completed")
        self.see("#why", "Done.")
        with mock.patch.object(agent, "show_in_browser") as shown:
            self.chrome.click("#report")
            wait_for(lambda: shown.called)

    def test_text_from_a_model_is_shown_and_not_obeyed(self) -> None:
        evil = "</pre><script>window.evil=1</script><img src=x onerror='window.evil=1'>"
        evil += "\x1b[31m\u202e\ud800" + "A" * (1 << 20)
        said = reply(1, evil, evil)
        self.open({**RUN, "task": evil}, said, act(1, evil, evil), plan(1, evil, evil))
        self.panel.update(error=evil, phase=evil[:90])
        for selector in ("h1", "#plan", "#note", "#list", "article"):
            self.see(selector, "<script>window.evil=1</script>")
        self.see("article .text", "\\u001b[31m\\u202e")
        self.see("article .text", "more characters")
        self.assertLess(len(self.chrome.text("article .text")), 8200)
        self.assertIsNone(self.chrome.run("return window.evil || null"))
        self.assertEqual(len(self.chrome.all("script, img")), 1)
        self.assertEqual(self.chrome.complaints(), [])

    def test_turns_are_rows_that_grow_and_what_is_unfolded_stays_so(self) -> None:
        self.open(RUN, reply(1), plan(1, "Draw a line"))
        self.see("#list", "Plan: Draw a line")
        tell(self.panel, reply(2, "I look"), act(2, "wait", "Waited"))
        self.see("#list .now", "Wait")
        self.assertEqual(self.chrome.text("article:not([hidden]) .chip"), "")
        fold = "document.querySelector('article:not([hidden]) details').open"
        self.chrome.run(fold + " = true")
        tell(self.panel, act(2, "click", "Clicked", True))
        self.see("article:not([hidden]) .chip", "changed")
        self.assertTrue(self.chrome.run("return " + fold))
        self.assertEqual(len(self.chrome.all("li")), 2)
        self.assertEqual(self.chrome.text("#list .now b"), "2")
        self.chrome.press(LEFT)
        self.assertEqual(self.chrome.text("#list .now b"), "1")
        tell(self.panel, {"kind": "end", "outcome": "stuck", "text": "Nothing helps."})
        self.see("#why", "Nothing helps.")
        self.panel.close()
        self.see("#note", str(self.folder.resolve() / "report.html"))
        self.assertFalse(self.chrome.seen("#say"))

    def test_it_is_readable_at_every_width_and_in_the_dark(self) -> None:
        long = act(2, "double_click", "w" * 200)
        self.open(RUN, reply(2, "w" * 200), plan(2, "go " * 80, "w" * 300), long)
        self.see("article", "double_click")
        backs = set()
        for width, dark in itertools.product((1440, 900, 400), (False, True)):
            self.chrome.look(width, 900, dark)
            self.assertEqual(self.chrome.width(), width)
            backs.add(self.chrome.run("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(backs), 2)


class Looking(Browser):
    def tearDown(self) -> None:
        self.assertEqual(self.chrome.complaints(), [])

    def begin(self) -> None:
        for number in range(2, 6):
            path = self.folder / "screenshots" / f"turn_{number:04d}.png"
            path.write_bytes(PICTURE)
        self.panel.take(agent.Shown(PICTURE))
        thought = [reply(4), act(4, "report", "Thought")]
        planned = [reply(1), plan(1, "first steps", "first plan")]
        self.open(RUN, *planned, *clicked(2), *clicked(3), *thought, *clicked(5))
        self.see("#where", "5 / 5")

    def test_the_arrows_show_the_pictures_the_plan_and_the_words_of_a_turn_until_live(self) -> None:
        self.begin()
        self.see("#stage figcaption", "live")
        self.assertFalse(self.chrome.seen("#latest"))
        self.chrome.click("#back")
        self.see("#stage", "looked at no screen")
        self.chrome.press(LEFT)
        self.see("#stage figcaption", "before")
        self.assertIn("Click \u201cbutton 3\u201d", self.chrome.text("article:not([hidden]) h3"))
        self.assertIn("words 3", self.chrome.text("article:not([hidden])"))
        self.assertIn("first plan", self.chrome.text("#plan"))
        self.assertEqual(self.chrome.all("#stage img", "naturalWidth"), [64, 64])
        self.assertTrue(self.chrome.seen(".before ellipse"))
        self.assertTrue(self.chrome.seen(".after .region"))
        tell(self.panel, *clicked(6))
        self.see("#where", "3 / 6")  # whoever looks back stays there
        self.chrome.click("#latest")
        self.see("#where", "6 / 6")
        self.assertFalse(self.chrome.seen("#latest"))
        tell(self.panel, *clicked(7))
        self.see("#where", "7 / 7")
        self.assertIn("words 7", self.chrome.text("article:not([hidden])"))

    def test_a_screenshot_that_is_gone_is_said_to_be_missing(self) -> None:
        self.begin()
        (self.folder / "screenshots" / "turn_0002.png").unlink()
        self.chrome.click("#list li:nth-child(2) a")
        self.see("#where", "2 / 5")
        self.assertNotIn("{", "".join(self.chrome.all("#list li")))
        self.see("#stage", "The screenshot screenshots/turn_0002.png is missing.")
        complaints = self.chrome.complaints()
        self.assertEqual([text for text in complaints if "404" not in text], [])
