"""Reports in a headless Chromium: what the page makes of records, without a console message or a request to anywhere."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

from chrome import InChrome, wait_for  # noqa: E402

import agent  # noqa: E402
from tests.test_panel import PICTURE, RUN, act, plan, reply  # noqa: E402

LOADED = "[...document.images].filter(i => i.complete && i.naturalWidth).length"
RIGHT, LEFT, ESCAPE, HOME, END = "\ue014", "\ue012", "\ue00c", "\ue011", "\ue010"
Json = dict[str, Any]


def run(folder: Path, *options: str) -> Path:
    """The folder of a demo that was carried out."""
    program = [sys.executable, str(Path(agent.__file__)), "--demo"]
    command = [*program, "--set", f"dump_dir={folder}", *options]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=60)
    return folder / "run_0001"


def report(folder: Path, *target: str) -> Path:
    """Makes the report anew, by --report."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert agent.main(["--report", str(folder), *target]) == 0
    return folder / "report.html"


def written(folder: Path, records: list[Json]) -> Path:
    """The report of these records, one a second unless they say when."""
    times = itertools.count(1_700_000_000)
    lines = [json.dumps({"time": next(times), **record}) for record in records]
    (folder / "turns.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return report(folder)


class Turns(InChrome):
    def turns(self, page: Path) -> list[Json]:
        """The turns of a report, as its page has them."""
        self.chrome.open(page.as_uri())
        wait_for(lambda: self.chrome.run("return turns.length"))
        fields = "turn, role, said, call, result, changed, notes, acts, asked, shots"
        return list(self.chrome.run(f"return turns.map(({{ {fields} }}) => ({{ {fields} }}))"))

    def told(self, *lines: Json) -> list[Json]:
        """The turns that the page makes of these lines of a journal."""
        return self.turns(written(self.folder, [{"kind": "run"}, *lines]))

    def test_a_storys_reply_is_about_the_next_turn_and_its_actions_stand_as_written(self) -> None:
        turns = self.turns(run(self.folder, "--profile", "story") / "report.html")
        self.assertEqual({turn["role"] for turn in turns[:-1]}, {"story"})
        self.assertEqual(turns[1]["said"], "The desktop shows the Notes icon and no window")
        self.assertNotIn("{", "".join(turn["said"] for turn in turns))
        asked = [fate for turn in turns for fate in turn["asked"]]
        self.assertEqual((asked[0]["action"]["name"], asked[0]["became"]), ("double_click", "done"))

    def test_each_row_of_a_table_opens_its_turns(self) -> None:
        lines: list[Json] = []
        for number, outcome in ((1, "done"), (2, "failed"), (3, "done")):
            row = {
                "kind": "row",
                "turn": number - 1,
                "line": number,
                "values": {"name": f"N{number}"},
            }
            click = {"kind": "intent", "turn": number, "tool": "click", "args": {}}
            lines += [row, click, {**row, "turn": number, "outcome": outcome, "text": "so"}]
        self.assertEqual([turn["turn"] for turn in self.told(*lines)], [1, 2, 3])
        shown = "return [...document.querySelectorAll('#list > li')].map(row => [row.className,"
        shown += " row.querySelector('summary').textContent, row.querySelectorAll('ol a').length])"
        rows = self.chrome.run(shown)
        self.assertEqual(rows[0], ["fine", "Row 1 \u00b7 N1 \u00b7 done \u00b7 so", 1])
        self.assertEqual([row[0] for row in rows], ["fine", "", "fine"])
        self.chrome.run("go(1)")
        opened = "return [...document.querySelectorAll('#list details')].map(fold => fold.open)"
        self.assertTrue(self.chrome.run(opened)[1])
        self.assertEqual(self.chrome.complaints(), [])

    def test_what_came_before_the_first_turn_stands_before_the_rows_of_a_table(self) -> None:
        row = {"kind": "row", "turn": 0, "line": 1, "values": {"name": "A"}}
        click = {"kind": "intent", "turn": 1, "tool": "click", "args": {}}
        self.told({"kind": "look", "turn": 0, "screenshot": "a.png"}, row, click)
        shown = "return [...document.querySelectorAll('#list > li')].map(row => row.textContent)"
        first, second = self.chrome.run(shown)
        self.assertIn("Before the first turn", first)
        self.assertIn("Row 1", second)

    def test_each_note_has_its_name_and_a_pause_is_told_apart_from_a_refusal(self) -> None:
        for refused, kind in (("stale_frame", "stale_frame"), ("blocked_key", "refused")):
            (turn,) = self.told(
                {"kind": "intent", "turn": 1, "tool": "click"},
                {"kind": "result", "turn": 1, "result": "Not done.", "refused": refused},
            )
            self.assertEqual(turn["notes"], [[kind, "Not done."]])
        self.told(
            {"kind": "hint", "turn": 1, "text": "one"},
            {"kind": "model_failed", "turn": 1, "text": "two"},
            {"kind": "no_call", "turn": 1, "text": "three"},
            {"kind": "archive", "turn": 1, "summary": "four"},
            {"kind": "verification", "turn": 1, "text": "five"},
            {"kind": "plan", "turn": 1, "done": "plan: six"},
        )
        shown = self.chrome.all(".text", "innerText")
        for note in (
            "hint\none",
            "failed\ntwo",
            "correction\nthree",
            "archive\nfour",
            "planner\nplan: six",
        ):
            self.assertIn(note, shown)
        # A picture that lies elsewhere is none.
        names = ("//evil.example/a.png", "../a.png", "screenshots/turn_0001.png", "file:///a.png")
        (turn,) = self.told(*({"kind": "look", "turn": 1, "screenshot": name} for name in names))
        self.assertEqual(turn["shots"], ["screenshots/turn_0001.png"])


def exchange(turn: int, role: str, text: str) -> list[Json]:
    """A request, of which the first one has what all of them begin with, and its reply."""
    question = {"role": "user", "content": "What now?"}
    settings = {"temperature": 0.5} if turn == 1 else {}
    parts = {"settings": settings, f"question {turn}": question} if turn < 3 else {}
    about = {"turn": turn, "call": turn, "role": role}
    tokens = {"prompt": 1000, "completion": 20, "cached": 400}
    sent = ["settings", f"question {min(turn, 2)}"]
    return [
        {"kind": "request", "sent": sent, "parts": parts, **about},
        {**reply(turn, text, role), "call": turn, "tokens": tokens, "seconds": 1.5},
    ]


def every_kind() -> list[Json]:
    """Turns of every kind: a plan, an act that changed, one refused, a pause, a correction."""
    place = {"element_name": "Save", "position": {"x": 500, "y": 400}}
    lines: list[Json] = [RUN, *exchange(1, "planner", "I plan"), plan(1, "go", "the plan")]
    for number in range(2, 7):
        turn = {"turn": number}
        lines.append({"kind": "look", "screenshot": f"screenshots/turn_{number:04d}.png", **turn})
        lines += exchange(number, "executor", f"I click in turn {number}")
        if number == 5:
            lines.append({"kind": "no_call", "text": "Name a tool.", **turn})
            lines += exchange(number, "executor", "Sorry, Zanzibar")
        refused = {3: "blocked_key", 4: "stale_frame"}.get(number, "")
        changed = None if refused else number == 2
        result = "Not done." if refused else "Clicked: Save"
        region = [100, 100, 600, 600] if number == 2 else None
        came = {"result": result, "changed": changed, "region": region, "refused": refused}
        lines.append({"kind": "intent", "tool": "double_click", "args": place, **turn})
        lines.append({"kind": "result", **came, **turn})
        lines.append({**act(number, "double_click", result, changed), "args": '"Save"'})
    lines.append({"kind": "end", "turn": 6, "outcome": "stuck", "text": "Nothing helps."})
    return lines


class View(InChrome):
    """What a person can do with a report: go along the turns, enlarge, search, link, unfold."""

    def setUp(self) -> None:
        super().setUp()
        (self.folder / "screenshots").mkdir()
        for turn in range(2, 7):
            (self.folder / "screenshots" / f"turn_{turn:04d}.png").write_bytes(PICTURE)
        self.page = written(self.folder, every_kind())
        self.open()

    def tearDown(self) -> None:
        self.assertEqual(self.chrome.complaints(), [])

    def open(self, address: str = "") -> None:
        self.chrome.look(1280, 900)
        self.chrome.open(self.page.as_uri() + address)
        wait_for(lambda: self.chrome.all("#stage > *"))

    def now(self) -> str:
        return self.chrome.text("#list .now b")

    def test_it_opens_at_the_first_failure_and_else_at_the_end(self) -> None:
        self.assertEqual((self.now(), self.chrome.text("#where")), ("3", "3 / 6"))
        fine = [line for line in every_kind() if line.get("turn") != 3]
        self.page = written(self.folder, fine)
        self.open()
        self.assertEqual((self.now(), self.chrome.text("#where")), ("6", "6 / 6"))

    def test_a_strip_of_small_pictures_leads_to_the_turns_that_looked_at_a_screen(self) -> None:
        shown = "return [...document.querySelectorAll('#strip a:not([hidden])')]"
        self.assertEqual(self.chrome.run(shown + ".map(a => a.textContent)"), list("23456"))
        loaded = ".filter(a => a.firstChild.naturalWidth && a.firstChild.offsetHeight < 60).length"
        wait_for(lambda: self.chrome.run(shown + loaded) == 5)
        self.chrome.click("#strip a[href='#6']")
        wait_for(lambda: (self.now(), self.chrome.text("#strip .now")) == ("6", "6"))

    def test_only_what_went_wrong_is_listed_and_walked_through_if_the_person_wants(self) -> None:
        self.open("#2")
        rows = (
            "return [...document.querySelectorAll('#list li')].filter(r => r.offsetHeight).length"
        )
        self.assertEqual(self.chrome.run(rows), 6)
        self.chrome.click("#only")
        self.assertEqual((self.chrome.run(rows), self.now()), (4, "3"))
        seen = []
        for key in (LEFT, RIGHT, END, LEFT, HOME):
            self.chrome.press(key)
            seen.append(self.now())
        self.assertEqual(seen, ["3", "4", "6", "5", "3"])
        self.chrome.click("#only")
        self.assertEqual((self.chrome.run(rows), self.now()), (6, "3"))

    def test_it_can_be_read_at_every_width_with_nothing_over_anything_else(self) -> None:
        for width in (400, 900, 1440):
            self.chrome.look(width, 900)
            wait_for(lambda: self.chrome.seen("figure img"))
            self.assertEqual(self.chrome.width(), width)
            place = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"
            names = ("header", "nav", "#strip", "#list", "figure", "#words", "footer")
            places = [self.chrome.run(place, name) for name in names]
            for one, other in itertools.combinations(places, 2):
                apart = one["right"] <= other["left"] + 1 or one["bottom"] <= other["top"] + 1
                self.assertTrue(apart, (width, one, other))
            self.assertGreater(places[4]["width"], 0.45 * width)  # the picture

    def test_a_turn_shows_a_picture_before_and_after(self) -> None:
        self.open("#2")
        wait_for(lambda: len(self.chrome.all("figure")) == 2)
        under = self.chrome.all("figcaption")
        self.assertEqual(under[0], "before")  # what was done is the heading
        self.assertEqual(self.chrome.all("h3")[1], "2. Double click \u201cSave\u201d")
        self.assertEqual(under[1], "after \u00b7 the dashed box changed")
        sources = self.chrome.all("figure img", "src")
        self.assertEqual([source[-13:] for source in sources], ["turn_0002.png", "turn_0003.png"])
        self.assertEqual(len(self.chrome.all(".before ellipse")), 2)
        self.assertEqual(len(self.chrome.all(".after rect.region")), 1)
        fill = "return [...document.querySelectorAll('svg *')].map(e => getComputedStyle(e).fill)"
        self.assertEqual(set(self.chrome.run(fill)), {"none"})  # what is under them is seen
        self.open("#3")  # of what was not done there is none after it
        wait_for(lambda: self.chrome.all("figcaption b") == ["before"])
        self.assertEqual(len(self.chrome.all("ellipse.off")), 2)
        self.open("#1")
        wait_for(lambda: self.chrome.text("#stage") == "Turn 1 looked at no screen.")

    def test_top_and_list_tell_in_words_what_was_done_and_what_went_wrong(self) -> None:
        done = ["Plan: go", "Double click \u201cSave\u201d"]
        self.assertEqual(self.chrome.all("#list .did")[:2], done)
        wrong = ("refused: Not done.", "held up: Not done.", "correction: Name a tool.")
        told = [f"\u2717 {words}" for words in (*wrong, "nothing changed")]
        self.assertEqual(self.chrome.all("#list .wrong"), told)
        tones = [name.split()[0] for name in self.chrome.all("#list a", "className")]
        self.assertEqual(tones, ["plan", "good", "bad", "idle", "idle", "idle"])
        self.assertEqual(self.chrome.all("#status"), ["stuck"])
        self.assertIn("6 turns, 1 of them a plan", self.chrome.text("#figures summary"))
        self.assertFalse(self.chrome.seen("#figures p"))
        figures = self.chrome.text("#figures p").splitlines()
        self.assertIn("acts refused: 2", figures)
        self.assertEqual([line for line in figures if line.endswith((": 0", ": 0.0 s"))], [])
        below = "return document.querySelector('#figures').offsetTop > arguments[0]"
        self.assertTrue(self.chrome.run(below, 600))  # the pictures and what went wrong come first
        self.assertEqual(
            self.chrome.all("article:nth-of-type(3) .text"),
            ["said\nI click in turn 3", "refused\nNot done."],
        )
        log = self.page.with_name("execution_log.txt").as_uri()
        self.assertEqual(self.chrome.all("#figures a", "href"), [log])

    def test_keys_rows_addresses_and_the_browsers_search_lead_to_a_turn(self) -> None:
        seen = []
        self.open("#2")
        for key in (RIGHT, RIGHT, LEFT, END, HOME, LEFT):
            self.chrome.press(key)
            seen.append(self.now())
        self.assertEqual(seen, ["3", "4", "3", "6", "1", "1"])
        self.assertEqual(self.chrome.run("return location.hash"), "#1")
        self.open("#5")
        self.assertEqual((self.now(), self.chrome.text("#where")), ("5", "5 / 6"))
        self.chrome.click("#list li:nth-child(2) a")
        wait_for(lambda: self.now() == "2")
        self.assertEqual(self.chrome.run("return location.hash"), "#2")
        hidden = self.chrome.all("article[hidden]", "hidden")
        self.assertEqual(hidden, ["until-found"] * (len(self.chrome.all("article")) - 1))
        self.chrome.run(
            "[...document.querySelectorAll('article')].find((a) => a.textContent.includes("
            "'Zanzibar')).dispatchEvent(new Event('beforematch', {bubbles: true}))"
        )
        self.assertEqual(self.now(), "5")

    def test_a_click_enlarges_a_picture_in_place_and_another_one_ends_that(self) -> None:
        self.open("#2")
        wait_for(lambda: len(self.chrome.all("figure")) == 2)
        width = "return document.querySelector('.before .frame').getBoundingClientRect().width"
        before = self.chrome.run(width)
        for end in (lambda: self.chrome.click(".before .frame"), lambda: self.chrome.press(ESCAPE)):
            self.chrome.click(".before .frame")
            self.assertGreater(self.chrome.run(width), 1.5 * before)
            self.assertFalse(self.chrome.seen("#list"))
            end()
            self.assertEqual(self.chrome.run(width), before)

    def test_a_request_can_be_read_whole_and_what_is_sent_again_is_written_once(self) -> None:
        first = "article:nth-of-type(1) details"
        parts = ["Request 1 to planner", "settings and tools", "user"]
        parts.append("Reply 1 of planner, after 1.5 s")
        self.assertEqual(self.chrome.all(first + " > summary"), parts)
        self.assertEqual(self.chrome.all(first + " details pre")[1], "What now?")
        again = "article:nth-of-type(3) details details"
        repeated = ["settings and tools, as in request 2", "user, as in request 2"]
        self.assertEqual(self.chrome.all(again + " summary"), repeated)
        self.assertEqual(self.chrome.all(again + " pre"), [])
        unfold = "document.querySelectorAll(arguments[0]).forEach((fold) => (fold.open = true))"
        self.chrome.run(unfold, "article:nth-of-type(3) details")
        wait_for(lambda: "What now?" in self.chrome.all(again + " pre"))
        said = json.loads(self.chrome.all("article:nth-of-type(5) details > pre")[-1])
        self.assertEqual(said["message"]["content"], "Sorry, Zanzibar")
        self.assertEqual(said["tokens"]["cached"], 400)


class Reports(InChrome):
    def open(self, page: Path, turns: int, width: int = 1400) -> None:
        """Opens a page with its turns and pictures, without a message, with nothing asked of others."""
        self.chrome.look(width, 1100)
        self.chrome.open(page.as_uri())
        loaded = f"return document.readyState === 'complete' && {LOADED}"
        wait_for(lambda: self.chrome.run(loaded), what="for a picture")
        self.assertEqual(len(self.chrome.all("article")), turns)
        self.assertLessEqual(self.chrome.width(), width)
        entries = "return performance.getEntriesByType('resource').map(e => e.name)"
        asked = [url for url in self.chrome.run(entries) if not re.match(r"(file|data):", url)]
        self.assertEqual((asked, self.chrome.complaints()), ([], []))

    def test_a_good_run_and_one_in_a_single_file(self) -> None:
        good = run(self.folder / "good")
        self.open(good / "report.html", 7)
        self.assertIn("Open Notes", self.chrome.text("h1"))
        alone = self.folder / "alone.html"
        report(good, str(alone))
        for file in (good / "screenshots").iterdir():
            file.unlink()
        self.open(alone, 7)
        self.assertGreater(len(self.chrome.do("/print", {"page": {}})), 20_000)

    def test_a_run_that_was_killed_says_that_there_is_no_end(self) -> None:
        self.chrome.open(written(self.folder, every_kind()[:-1]).as_uri())
        wait_for(lambda: "no end recorded" in self.chrome.text("#top"))
