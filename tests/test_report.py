"""Looking back: the report, the table of runs, statistics, the file to share; what stands in them a digest says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unittest
from typing import Any
from unittest import mock

import agent
from tests import seams
from tests.samples import for_the_gate
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase
from tests.test_main import CommandLineCase, copy_folder

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)> \u202e\u05d0\u05d1\u05d2 <!-- "
    + "w" * 3000
)


def blocks(page: str) -> list[dict[str, Any]]:
    """The data in a page, in order."""
    return [
        json.loads(data)
        for data in re.findall(r'<script type="application/json">(.*?)</script>', page)
    ]


def pictures_in(page: str) -> dict[str, str]:
    """The pictures that stand in a page: {name: data URL}."""
    found = re.findall(r'<script type="application/json" id="([^"]+)">(.*?)</script>', page)
    return {name: json.loads(data) for name, data in found}


def records_in(page: str) -> list[dict[str, Any]]:
    """The records of a run in a page."""
    return [block for block in blocks(page) if block["turn"] >= 0]


def run_of(page: str) -> dict[str, Any]:
    """The run itself in a page."""
    (found,) = (block for block in blocks(page) if block.get("turn") == -1)
    return found


class Books(EngineCase):
    base = FEWER_REQUESTS

    @mock.patch.object(agent, "REPORT_CHARACTERS", 100_000)
    def test_the_report_of_a_very_long_run_leaves_out_what_was_sent_at_first(self) -> None:
        trial = self.trial(lambda request: PLAN)
        self.begin(trial)
        for turn in range(1, 201):
            parts = {str(turn): {"role": "user", "content": "w" * 5000}}
            sent = seams.record("request", turn=turn, call=turn, role="planner", parts=parts)
            trial.write(sent, seams.record("plan", turn=turn, done=f"plan {turn}"))
        page = agent.report_text(trial.folder)
        self.assertLess(len(page) - len(agent.PAGE), 200_000)
        told = records_in(page)
        whole = [bool(item["parts"]) for item in told if item["kind"] == "request"]
        self.assertEqual((len(whole), whole), (200, sorted(whole)))
        self.assertIn(sum(whole), range(10, 20))
        plans = [item["done"] for item in told if item["kind"] == "plan"]
        self.assertEqual(plans, [f"plan {turn}" for turn in range(1, 201)])

    @mock.patch.object(agent, "STATS_RECORDS", 100)
    def test_a_long_run_keeps_its_latest_records_and_the_sums_of_all(self) -> None:
        trial = self.trial(lambda request: PLAN)
        self.addCleanup(trial.close)
        book = agent.follow_run(trial.engine.logger)
        self.begin(trial)
        for turn in range(1, 401):
            path = "screenshots/turn_0001.png"
            look = seams.record("look", turn=turn, screenshot=path, capture=0.5)
            plan = seams.record("plan", turn=turn, done="plan")
            trial.write(look, plan, seams.record("state", turn=turn))
        kept = [item["turn"] for item in [book.run_item(), *book.items]]
        self.assertEqual((len(kept), set(kept)), (101, {-1, *range(351, 401)}))
        facts = dict(agent.stats_of(trial.folder).figures())
        self.assertEqual((facts["turns"], facts["capture"]), ("400", "200.0 s"))
        self.assertEqual(dict(book.figures()), facts)
        shown = {item["turn"] for item in blocks(agent.report_text(trial.folder))}
        self.assertEqual(shown, {-1, *range(1, 401)})


class Figures(unittest.TestCase):
    def test_the_last_wait_counts_as_the_model_s_though_no_reply_came(self) -> None:
        stats = agent.Stats("run_0001")
        for record in (
            seams.record("run", task="Wait", time=100.0),
            seams.record("look", turn=1, time=101.0),
            seams.record("request", turn=1, time=102.0),
            seams.record("end", outcome="stopped", turn=1, time=114.0),
            seams.record("resume", task="Wait", time=900.0),  # what was between is nobody's
            seams.record("look", turn=2, time=901.0),
            seams.record("request", turn=2, time=901.0),
            seams.record("model_failed", turn=2, time=921.0),
            seams.record("end", outcome="error", turn=2, time=922.0),
        ):
            stats.take(record)
        facts = dict(stats.figures())
        self.assertEqual((facts["time"], facts["model"]), ("36.0 s", "32.0 s"))
        self.assertEqual(facts["in the program"], "4.0 s")


class Report(CommandLineCase):
    def page(self, number: int = 1) -> str:
        return (self.run_folder(number) / "report.html").read_text(encoding="utf-8")

    def test_it_stands_before_anybody_is_told_of_the_end_and_however_the_run_ends(self) -> None:
        found: list[str] = []
        heard = agent.Terminal.take

        def hear(terminal: agent.Terminal, item: agent.Event) -> None:
            heard(terminal, item)
            if isinstance(item, agent.EndRecord):
                found.append(run_of(self.page())["outcome"])

        with mock.patch.object(agent.Terminal, "take", hear):
            with mock.patch.object(agent.DemoDesktop, "text", side_effect=KeyboardInterrupt):
                self.main("--demo")
            with mock.patch.object(agent.DemoDesktop, "text", side_effect=ZeroDivisionError):
                self.assertRaises(RuntimeError, self.main, "--demo", "--resume", "1")
        self.assertEqual(found, ["stopped", "error"])

    @for_the_gate
    def test_a_report_that_cannot_be_written_ends_no_run_and_leaves_no_half(self) -> None:
        target = self.folder / "half.html"
        opened = open

        def full(path: Any, *given: Any, **more: Any) -> Any:
            stream = opened(path, *given, **more)
            if str(path).endswith(".html"):
                stream.write = mock.Mock(side_effect=OSError(28, "No space left on device"))
            return stream

        with mock.patch("builtins.open", full):
            self.assertEqual(self.main("--demo")[0], 0)
            self.assertFalse((self.run_folder() / "report.html").exists())
            code, _, err = self.main("--report", "1", str(target))
        self.assertEqual((code, target.exists()), (2, False))
        self.assertIn("No space left", err)

    def test_nothing_from_outside_becomes_markup(self) -> None:
        task = f'Open Notes, write "Hello" and save it. {HOSTILE}'
        with self.drawn() as endpoint:
            self.main(task, "--endpoint", endpoint, "--max-steps", "3")
        page = self.page()
        self.assertEqual(len(re.findall("<script", page)), 1 + len(blocks(page)))
        self.assertNotIn("<img", page)
        self.assertIn(HOSTILE.split()[1], run_of(page)["task"])
        never = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\("
        self.assertNotRegex(agent.PAGE, never)

    def test_the_page_allows_its_own_script_and_pictures_and_nothing_else(self) -> None:
        self.recorded()
        page = self.page()
        allowed = ["default-src 'none'", "img-src file: data: 'self'"]
        for part in ("style", "script"):
            (own,) = re.findall(f"<{part}>(.*?)</{part}>", page, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
            allowed.append(f"{part}-src 'sha256-{digest}'")
        self.assertNotIn("</body>", page)  # what a run adds to it stands inside
        self.assertIn(f'content="{"; ".join(allowed)}"', page)
        asked = re.findall(r"https?://[^\s\"']+", page.partition("application/json")[0])
        self.assertEqual(set(asked), {"http://www.w3.org/2000/svg"})

    def test_the_page_has_a_name_and_a_tone_for_each_note_and_knows_who_judges(self) -> None:
        table = re.search(r"NOTES = \{(.*?)\};", agent.PAGE, re.S)
        assert table
        named = re.findall(r"(?m)^ +(\w+): \[", table[1])
        self.assertEqual(len(named), 9)
        self.assertLessEqual({*named} - {"refused", "stale_frame", "paused"}, agent.RECORDS.keys())
        self.assertLessEqual(agent.COUNTED.keys(), {*named})
        self.assertIn(f"const JUDGES = {json.dumps([*agent._JUDGES])};", agent.PAGE)

    def test_one_file_holds_the_pictures_but_none_that_is_missing_or_foreign(self) -> None:
        self.recorded()
        target, shots = self.folder / "run.html", self.run_folder() / "screenshots"
        self.assertEqual(self.main("--report", "1", str(target))[0], 0)
        pictures = pictures_in(target.read_text(encoding="utf-8"))
        for name, url in pictures.items():
            data = base64.b64decode(url.removeprefix("data:image/png;base64,"))
            self.assertEqual((self.run_folder() / name).read_bytes(), data)
        before = target.read_text()
        code, _, err = self.main("--report", "1", str(target))  # one that is there is left alone
        self.assertEqual((code, len(err.splitlines()), target.read_text()), (2, 1, before))
        (shots / "turn_0003.png").unlink()
        (shots / "turn_0004.png").write_bytes(b"no picture")
        (self.folder / "secret.png").write_bytes((shots / "turn_0002.png").read_bytes())
        journal = self.run_folder() / "turns.jsonl"
        text = journal.read_text().replace("screenshots/turn_0005.png", "../../secret.png")
        journal.write_text(text)
        self.assertEqual(self.main("--report", "1", str(self.folder / "again.html"))[0], 0)
        gone = {f"screenshots/turn_000{number}.png" for number in (3, 4, 5)}
        shown = {*pictures_in((self.folder / "again.html").read_text())}
        self.assertEqual(shown, pictures.keys() - gone)
        self.assertLessEqual(gone, pictures.keys())


class Runs(CommandLineCase):
    def rows(self) -> list[str]:
        """The table of runs, each in one line."""
        code, out, err = self.main("--runs")
        self.assertEqual((code, err), (0, ""))
        return re.sub(r"\n {10}", " ", out).splitlines()

    @for_the_gate
    def test_the_table_lists_runs_and_says_what_is_wrong_with_damaged_ones(self) -> None:
        self.recorded()
        self.main("--demo", "--max-steps", "2", "--profile", "commander")
        (self.run_folder(3)).mkdir()
        (self.run_folder(4)).mkdir()
        (self.run_folder(4) / "turns.jsonl").write_bytes(b'{"kind": "run", "ti\xff')
        # What a line has, what stands there instead, and what is told; a time that cannot be is none.
        timeless, damaged = r"  19(69|70)-\d\d-\d\d ", "Damaged lines left out: "
        rows = [
            (r'"time": [\d.]+', f'"time": {said}', timeless) for said in ("1e300", "NaN", '"x"')
        ]
        rows += [
            ('"cached": null', '"cached": "x"', ""),
            ('"screen_capture_w": 512', '"screen_capture_w": "x"', ""),
            ('"screen_capture_w": 512', '"screen_capture_w": [1]', ""),
            ('{"kind": "look"', '["kind", "look"', damaged),
        ]
        for number, (before, after, _) in enumerate(rows, 5):
            copy_folder(self.run_folder(1), self.run_folder(number))
            journal = self.run_folder(number) / "turns.jsonl"
            text, count = re.subn(before, after, journal.read_text("utf-8"), count=1)
            journal.write_text(text, "utf-8")
            self.assertEqual(count, 1)
        wanted = [
            r"^run_0001  \d{4}-\d\d-\d\d \d\d:\d\d planner   completed +6 +\d\.\d s  Open Notes",
            r"^run_0002 .* commander max_steps +3 ",
            r"^run_0003  .*holds no readable turns.jsonl",
            r"^run_0004  .*holds no run: its turns.jsonl is empty or damaged",
        ]
        for number, (_, _, told) in enumerate(rows, 5):
            first, last = (told, "") if told == timeless else ("", told)
            wanted.append(rf"^run_{number:04}{first}.* completed +6 .*{last}")
        for line, told in zip(self.rows()[1:], wanted, strict=True):
            self.assertRegex(line, told)
        for number, (_, _, told) in enumerate(rows[3:], 8):
            journal = self.run_folder(number) / "turns.jsonl"
            for option in (["--stats"], ["--report"], ["--demo", "--max-steps", "1", "--resume"]):
                resumed = "--resume" in option
                if resumed:  # its end goes
                    *lines, _ = journal.read_text(encoding="utf-8").splitlines(keepends=True)
                    journal.write_text("".join(lines), encoding="utf-8")
                code, said, err = self.main(*option, str(number))
                self.assertEqual((code, err), (1 if resumed else 0, ""))
                self.assertIn(told, said)
