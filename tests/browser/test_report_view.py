"""What a person can do with a report: go along the turns, compare, enlarge, search, link, unfold."""

from __future__ import annotations

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
RIGHT, LEFT, ESCAPE, HOME, END = "\ue014", "\ue012", "\ue00c", "\ue011", "\ue010"
QUESTION = {"role": "user", "content": "What now?"}


def journal() -> list[dict[str, Any]]:
    """Turns of every kind: a plan, an act that changed, one refused, a pause, a correction."""
    place = {"element_name": "Save", "position": {"x": 500, "y": 400}}
    lines: list[dict[str, Any]] = [
        {"kind": "run", "task": "Save it", "profile": "planner"},
        *exchange(1, "planner", "I plan"),
        {"kind": "plan", "turn": 1, "done": "plan: go", "plan": "the plan", "instructions": "go"},
    ]
    for number in range(2, 7):
        turn = {"turn": number}
        lines.append({"kind": "look", "screenshot": f"screenshots/turn_{number:04d}.png", **turn})
        lines += exchange(number, "executor", f"I click in turn {number}")
        if number == 5:
            lines.append({"kind": "no_call", "text": "Name a tool.", **turn})
            lines += exchange(number, "executor", "Sorry, Zanzibar")
        refused = {3: "blocked_key", 4: "stale_frame"}.get(number, "")
        changed = None if refused else number == 2
        came = {"result": "Not done." if refused else "Clicked: Save", "changed": changed}
        region = [100, 100, 600, 600] if number == 2 else None
        lines.append({"kind": "intent", "tool": "double_click", "args": place, **turn})
        lines.append({"kind": "result", "region": region, "refused": refused, **came, **turn})
        lines.append({"kind": "action", "tool": "double_click", "args": '"Save"', **came, **turn})
    lines.append({"kind": "end", "turn": 6, "outcome": "stuck", "text": "Nothing helps."})
    return lines


def exchange(turn: int, role: str, text: str) -> list[dict[str, Any]]:
    """A request, of which the first one has what all of them begin with, and its reply."""
    settings = {"temperature": 0.5} if turn == 1 else {}
    parts = {"settings": settings, f"question {turn}": QUESTION} if turn < 3 else {}
    names = ["settings", f"question {min(turn, 2)}"]
    about = {"turn": turn, "call": turn, "role": role}
    message = {"role": "assistant", "content": text}
    tokens = {"prompt": 1000, "completion": 20, "cached": 400}
    return [
        {"kind": "request", "sent": names, "parts": parts, **about},
        {"kind": "reply", "message": message, "tokens": tokens, "seconds": 1.5, **about},
    ]


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
        time = 1_700_000_000.0
        for place, record in enumerate(journal()):
            time += 3600.0 if record.get("turn") == 4 and record["kind"] == "look" else 0.1
            lines.append(json.dumps({**record, "time": time + place}))
        (folder / "turns.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert agent.main(["--report", str(folder)]) == 0
        cls.page = folder / "report.html"
        cls.chrome = Chrome()
        cls.addClassCleanup(cls.chrome.close)

    def setUp(self) -> None:
        self.open()

    def tearDown(self) -> None:
        self.assertEqual(self.chrome.complaints(), [])

    def open(self, address: str = "", width: int = 1280, dark: bool = False) -> None:
        self.chrome.look(width, 900, dark)
        self.chrome.open(self.page.as_uri() + address)
        wait_for(lambda: self.all("#stage > *"))

    def all(self, selector: str, what: str = "textContent") -> list[Any]:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e[arguments[1]])"
        return list(self.chrome.run(script, selector, what))

    def seen(self, selector: str) -> bool:
        script = "return document.querySelector(arguments[0])?.checkVisibility() || false"
        return bool(self.chrome.run(script, selector))

    def now(self) -> str:
        return self.chrome.text("#list .now b")

    def test_it_opens_on_the_first_turn_with_a_picture(self) -> None:
        self.assertEqual((self.now(), self.chrome.text("#where")), ("2", "2 / 6"))

    def test_an_act_shows_the_screen_before_and_after(self) -> None:
        wait_for(lambda: len(self.all("figure")) == 2)
        self.assertEqual(
            self.all("figcaption"),
            ["before \u00b7 Double click \u201cSave\u201d", "after \u00b7 the dashed box changed"],
        )
        sources = self.all("figure img", "src")
        self.assertEqual([source[-13:] for source in sources], ["turn_0002.png", "turn_0003.png"])
        self.assertEqual(len(self.all(".before ellipse")), 2)
        self.assertEqual(len(self.all(".after rect.region")), 1)
        fills = self.chrome.run(
            "return [...document.querySelectorAll('svg *')].map(e => getComputedStyle(e).fill)"
        )
        self.assertEqual(set(fills), {"none"})  # what is under them stays to be seen

    def test_what_was_not_done_has_no_picture_after_it_and_a_dashed_ring(self) -> None:
        self.open("#3")
        wait_for(lambda: self.all("figcaption b") == ["before"])
        self.assertEqual(len(self.all("ellipse.off")), 2)

    def test_a_turn_that_looked_at_nothing_says_so(self) -> None:
        self.open("#1")
        wait_for(lambda: self.chrome.text("#stage") == "Turn 1 looked at no screen.")

    def test_the_list_tells_in_words_what_was_done_and_what_went_wrong(self) -> None:
        self.assertEqual(self.all("#list .did")[:2], ["Plan: go", "Double click \u201cSave\u201d"])
        self.assertEqual(
            self.all("#list .wrong"),
            [
                "\u2717 refused: Not done.",
                "\u2717 held up: Not done.",
                "\u2717 correction: Name a tool.",
                "\u2717 nothing changed",
            ],
        )
        tones = [name.split()[0] for name in self.all("#list a", "className")]
        self.assertEqual(tones, ["plan", "good", "bad", "idle", "idle", "idle"])

    def test_keys_go_along_the_turns(self) -> None:
        seen = []
        for key in (RIGHT, RIGHT, LEFT, END, HOME, LEFT):
            self.chrome.press(key)
            seen.append(self.now())
        self.assertEqual(seen, ["3", "4", "3", "6", "1", "1"])
        self.assertEqual(self.chrome.run("return location.hash"), "#1")

    def test_a_click_enlarges_a_picture_in_place_and_another_one_ends_that(self) -> None:
        wait_for(lambda: len(self.all("figure")) == 2)
        width = "return document.querySelector('.before .frame').getBoundingClientRect().width"
        before = self.chrome.run(width)
        self.chrome.click(".before .frame")
        self.assertGreater(self.chrome.run(width), 1.5 * before)
        self.assertFalse(self.seen("#list"))
        self.chrome.click(".before .frame")
        self.assertEqual(self.chrome.run(width), before)
        self.chrome.click(".before .frame")
        self.chrome.press(ESCAPE)
        self.assertEqual(self.chrome.run(width), before)

    def test_an_address_and_a_row_lead_to_a_turn(self) -> None:
        self.open("#5")
        self.assertEqual((self.now(), self.chrome.text("#where")), ("5", "5 / 6"))
        self.chrome.click("#list li:nth-child(2) a")
        wait_for(lambda: self.now() == "2")
        self.assertEqual(self.chrome.run("return location.hash"), "#2")

    def test_the_browser_s_own_search_finds_what_was_said_in_any_turn(self) -> None:
        self.assertEqual(
            self.all("article[hidden]", "hidden").count("until-found"), len(self.all("article")) - 1
        )
        self.chrome.run(
            "[...document.querySelectorAll('article')].find((a) => a.textContent.includes("
            "'Zanzibar')).dispatchEvent(new Event('beforematch', {bubbles: true}))"
        )
        self.assertEqual(self.now(), "5")

    def test_a_request_can_be_read_whole_and_what_is_sent_again_is_written_once(self) -> None:
        first = "article:nth-of-type(1) details"
        self.assertEqual(
            self.all(first + " > summary"),
            [
                "Request 1 to planner",
                "settings and tools",
                "user",
                "Reply 1 of planner, after 1.5 s",
            ],
        )
        self.assertEqual(self.all(first + " details pre")[1], "What now?")
        again = "article:nth-of-type(3) details details"
        self.assertEqual(
            self.all(again + " summary"),
            ["settings and tools, as in request 2", "user, as in request 2"],
        )
        self.assertEqual(self.all(again + " pre"), [])
        self.chrome.run(
            "document.querySelectorAll(arguments[0]).forEach((fold) => (fold.open = true))",
            "article:nth-of-type(3) details",
        )
        wait_for(lambda: "What now?" in self.all(again + " pre"))
        reply = json.loads(self.all("article:nth-of-type(5) details > pre")[-1])
        self.assertEqual(reply["message"]["content"], "Sorry, Zanzibar")
        self.assertEqual(reply["tokens"]["cached"], 400)

    def test_the_top_says_the_most_and_folds_the_rest(self) -> None:
        self.assertEqual(self.all("#status"), ["stuck"])
        self.assertIn("6 turns", self.chrome.text("#figures summary"))
        self.assertFalse(self.seen("#figures p"))
        self.assertGreater(len(self.chrome.text("#figures p").splitlines()), 17)
        self.assertEqual(
            self.all("#figures a", "href"), [self.page.with_name("execution_log.txt").as_uri()]
        )

    def test_a_long_pause_leaves_room_for_the_other_turns(self) -> None:
        self.assertIn("60 min", self.all("#line a", "title")[3])
        widths = self.all("#line a", "offsetWidth")
        self.assertLess(max(widths), 6 * sorted(widths)[3])

    def test_nothing_is_wider_than_the_page(self) -> None:
        for width in (390, 1280, 1920):
            for dark in (False, True):
                self.open("", width, dark)
                self.assertEqual(
                    self.chrome.run("return document.documentElement.scrollWidth"), width
                )
                if SHOTS:
                    name = f"view_{width}{'_dark' if dark else ''}.png"
                    (Path(SHOTS) / name).write_bytes(self.chrome.screenshot())

    def test_every_colour_is_explained(self) -> None:
        legend = self.chrome.text("footer")
        for said in ("changed the screen", "refused or failed", "plan", "where it acted"):
            self.assertIn(said, legend)


if __name__ == "__main__":
    unittest.main()
