"""What a person can do with a report: compare, zoom, sift, search, link, unfold."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from chrome import Chrome, wait_for  # noqa: E402 - both lie elsewhere, and this folder is no package

import agent  # noqa: E402
from tests.test_panel import PICTURE  # noqa: E402

SHOTS = os.environ.get("PANEL_SHOTS")  # a folder: pictures of the pages are kept there
RIGHT, LEFT, ESCAPE, END = "\ue014", "\ue012", "\ue00c", "\ue010"


def journal() -> list[dict[str, Any]]:
    """Turns of every kind: a plan, an act that changed, one refused, a pause, a correction."""
    place = {"element_name": "Save", "position": {"x": 500, "y": 400}}
    lines: list[dict[str, Any]] = [
        {
            "kind": "run",
            "task": "Save it",
            "profile": "planner",
            "config": {"screen_capture_w": 64},
        },
        reply(1, "planner", "I plan"),
        {"kind": "plan", "turn": 1, "plan": "the plan", "instructions": "the instructions"},
    ]
    for turn in range(2, 7):
        lines.append(
            {"kind": "look", "turn": turn, "screenshot": f"screenshots/turn_{turn:04d}.png"}
        )
        lines.append(reply(turn, "executor", f"I click in turn {turn}"))
        if turn == 5:
            lines.append({"kind": "no_call", "turn": 5, "error": "no_call", "text": "Name a tool."})
            lines.append(reply(turn, "executor", "Sorry, Zanzibar"))
        refused = {3: "blocked_key", 4: "stale_frame"}.get(turn, "")
        done = {
            "turn": turn,
            "result": "Not done." if refused else "Clicked: Save",
            "changed": None if refused else turn == 2,
        }
        region = [100, 100, 600, 600] if turn == 2 else None
        lines.append({"kind": "intent", "turn": turn, "tool": "double_click", "args": place})
        lines.append({"kind": "result", "region": region, "refused": refused, **done})
        lines.append({"kind": "action", "tool": "double_click", "args": '"Save"', **done})
    end = {"outcome": "stuck", "text": "Nothing helps.", "turns": 6, "seconds": 90.0}
    return [*lines, {"kind": "end", "turn": 6, **end}]


def reply(turn: int, role: str, text: str) -> dict[str, Any]:
    return {
        "kind": "reply",
        "turn": turn,
        "call": turn,
        "role": role,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
        "tokens": {"prompt": 1000, "completion": 20, "cached": 400},
        "seconds": 1.5,
    }


class Report(unittest.TestCase):
    chrome: Chrome
    page: Path

    @classmethod
    def setUpClass(cls) -> None:
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        folder = Path(scratch.name)
        (folder / "screenshots").mkdir()
        for turn in range(2, 7):
            (folder / "screenshots" / f"turn_{turn:04d}.png").write_bytes(PICTURE)
        lines = []
        pauses = {4: 3600.0}
        time = 1_700_000_000.0
        last = 0
        for record in journal():
            turn = record.get("turn", 0)
            time += pauses.get(turn, 1.0) if turn != last else 0.1
            last = turn
            lines.append(json.dumps({**record, "time": time}))
        (folder / "turns.jsonl").write_text("\n".join(lines) + "\n")
        cls.page = folder / "report.html"
        with contextlib.redirect_stdout(io.StringIO()):
            agent.main(["--report", str(folder)])
        cls.chrome = Chrome()
        cls.addClassCleanup(cls.chrome.close)

    def setUp(self) -> None:
        self.open()

    def tearDown(self) -> None:
        self.assertEqual(self.chrome.complaints(), [])

    def open(self, address: str = "", width: int = 1280, dark: bool = False) -> None:
        self.chrome.look(width, 900, dark)
        self.chrome.open(self.page.as_uri() + address)
        wait_for(lambda: self.chrome.run("return document.querySelectorAll('article').length"))

    def all(self, selector: str, what: str = "textContent") -> list[Any]:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e[arguments[1]])"
        return list(self.chrome.run(script, selector, what))

    def shown(self) -> list[str]:
        return self.all("article:not([hidden]) header b")

    def seen(self, selector: str) -> bool:
        return bool(
            self.chrome.run(
                "return document.querySelector(arguments[0]).checkVisibility()", selector
            )
        )

    def now(self) -> str:
        return self.chrome.text("article.now header b")

    def choose(self, number: int) -> None:
        self.chrome.run(
            "document.querySelectorAll('#filters button')[arguments[0]].click()", number
        )

    def test_an_act_shows_the_screen_before_and_after_side_by_side(self) -> None:
        second = "article:nth-of-type(2) "
        self.assertEqual(
            self.all(second + "figcaption"),
            ["before \u00b7 double click: Save", "after \u00b7 the dashed box changed"],
        )
        sources = self.all(second + "img", "src")
        self.assertEqual([source[-13:] for source in sources], ["turn_0002.png", "turn_0003.png"])
        tops = "return [...document.querySelectorAll(arguments[0])].map(e => e.offsetTop)"
        one, other = self.chrome.run(tops, second + "figure")
        self.assertEqual(one, other)
        self.assertEqual(len(self.all(second + ".before circle")), 4)  # two rings and their rims
        self.assertEqual(len(self.all(second + ".after rect.region:not(.halo)")), 1)
        self.assertEqual(self.all("svg text"), [])  # words would cover the picture

    def test_what_was_not_done_has_no_picture_after_it(self) -> None:
        self.assertEqual(self.all("article:nth-of-type(3) figcaption b"), ["before"])
        self.assertEqual(self.all("article:nth-of-type(6) figcaption b"), ["before"])  # the last

    def test_rings_are_not_filled(self) -> None:
        fills = self.chrome.run(
            "return [...document.querySelectorAll('circle, rect')].map(e => getComputedStyle(e).fill)"
        )
        self.assertEqual(set(fills), {"none"})

    def test_on_a_narrow_screen_a_key_or_a_button_shows_the_other_one(self) -> None:
        self.open(width=390)
        pair = "article:nth-of-type(2) "
        self.assertEqual((self.seen(pair + ".before"), self.seen(pair + ".after")), (True, False))
        self.chrome.press("a")
        self.assertEqual((self.seen(pair + ".before"), self.seen(pair + ".after")), (False, True))
        self.chrome.run("document.querySelector('.to-before').click()")
        self.assertTrue(self.seen(pair + ".before"))
        self.assertEqual(self.all(pair + ".switch button", "ariaPressed"), ["true", "false"])

    def test_a_screenshot_opens_at_full_size_and_zooms(self) -> None:
        self.chrome.run("document.querySelector('article:nth-of-type(2) .before button').click()")
        width = "return document.querySelector('#stage .frame').getBoundingClientRect().width"
        fitted = self.chrome.run(width)
        self.assertGreater(fitted, 1000)
        self.chrome.press("+")
        larger = self.chrome.run(width)
        self.chrome.press("-")
        self.assertGreater(larger, self.chrome.run(width))
        self.chrome.press("0")
        self.assertEqual(self.chrome.run(width), fitted)
        self.chrome.press("a")
        self.assertTrue(self.chrome.text("#about").startswith("after"))
        self.chrome.press("m")
        self.assertFalse(
            self.chrome.run(
                "return document.querySelector('#stage svg').checkVisibility({visibilityProperty: true})"
            )
        )
        self.chrome.press(RIGHT)
        self.assertEqual(self.now(), "1")  # the page behind it stays
        self.chrome.press(ESCAPE)
        self.assertFalse(self.seen("#zoom"))

    def test_filters_show_the_turns_of_one_kind_and_stepping_keeps_to_them(self) -> None:
        self.assertEqual(
            self.all("#filters button"), ["all 6", "refusals 2", "corrections 1", "plans 1"]
        )
        self.choose(1)
        self.assertEqual(self.shown(), ["3", "4"])
        self.assertEqual(self.chrome.text("#amount"), "2 of 6 turns")
        self.assertEqual(self.now(), "3")
        self.chrome.press(END)
        self.assertEqual(self.now(), "4")
        self.choose(2)
        self.assertEqual(self.shown(), ["5"])
        self.choose(3)
        self.assertEqual(self.shown(), ["1"])
        self.choose(0)
        self.assertEqual(len(self.shown()), 6)

    def test_search_finds_what_was_said_anywhere(self) -> None:
        self.chrome.press("/")
        self.chrome.type("#search", "zanzi")
        self.assertEqual(self.shown(), ["5"])
        self.assertEqual(self.chrome.run("return CSS.highlights.get('found').size"), 1)
        self.chrome.type("#search", "no such word")
        self.assertEqual((self.shown(), self.chrome.text("#amount")), ([], "no of 6 turns"))
        self.chrome.press(ESCAPE)

    def test_an_address_leads_to_a_turn(self) -> None:
        self.open("#5")
        self.assertEqual((self.now(), self.chrome.text("#where")), ("5", "5 / 6"))
        self.assertGreater(self.chrome.run("return scrollY"), 300)
        self.chrome.run("document.querySelector('article:nth-of-type(2) header a').click()")
        wait_for(lambda: self.now() == "2")
        self.assertEqual(self.chrome.run("return location.hash"), "#2")
        self.choose(3)
        self.chrome.run("location.hash = '#4'")
        wait_for(lambda: self.now() == "4")
        self.assertEqual(len(self.shown()), 6)

    def test_the_raw_request_and_reply_can_be_unfolded(self) -> None:
        fold = "article:nth-of-type(5) details"
        self.assertEqual(self.all(fold + " pre"), [])
        self.chrome.run("document.querySelector(arguments[0]).open = true", fold)
        wait_for(lambda: len(self.all(fold + " pre")) == 2)
        self.assertEqual(
            json.loads(self.all(fold + " pre")[1]),
            {"role": "assistant", "content": "Sorry, Zanzibar"},
        )
        facts = self.all(fold + " p")[0]
        for part in ("to executor", "1000 prompt tokens, 400", "finish_reason stop", "1.50 s"):
            self.assertIn(part, facts)

    def test_the_top_says_the_most_and_folds_the_rest(self) -> None:
        self.assertEqual(self.all("#top .chip"), ["stuck"])
        self.assertEqual(self.all("#top > dl dt"), ["time", "turns", "refused"])
        self.assertEqual(self.all("#top > dl dd")[1:], ["6", "2"])
        self.assertFalse(self.seen("#top details dl"))
        self.assertGreater(len(self.all("#top details dt")), 17)

    def test_a_long_pause_leaves_room_for_the_other_turns_and_is_not_red(self) -> None:
        self.assertIn("60 min", self.all("#line button", "title")[3])
        widths = self.all("#line button", "offsetWidth")
        self.assertLess(max(widths), 6 * sorted(widths)[3])
        self.assertEqual(self.all("#line .long", "className"), ["idle long"])
        self.assertEqual(self.all("article:nth-of-type(4) .chip", "className"), ["chip idle"])
        self.assertIn("bad", self.all("#line button", "className")[2])

    def test_the_keys_are_explained(self) -> None:
        self.chrome.press("?")
        self.assertIn("search", self.chrome.text("#keys"))
        self.assertNotIn("hint", self.chrome.text("#keys"))
        self.chrome.press(ESCAPE)
        self.assertFalse(self.seen("#keys"))

    def test_nothing_is_wider_than_the_page(self) -> None:
        for width in (390, 1280, 1920):
            for dark in (False, True):
                self.open("", width, dark)
                self.assertEqual(
                    self.chrome.run("return document.documentElement.scrollWidth"), width
                )
                lefts = self.chrome.run(
                    "return ['h1', '#back', '#filters', 'article'].map("
                    "(name) => document.querySelector(name).getBoundingClientRect().left)"
                )
                self.assertEqual(len(set(lefts)), 1, lefts)
                if SHOTS:
                    name = f"view_{width}{'_dark' if dark else ''}.png"
                    (Path(SHOTS) / name).write_bytes(self.chrome.screenshot())


if __name__ == "__main__":
    unittest.main()
