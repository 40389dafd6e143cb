"""Looking back: turns out of a journal, the report, the table of runs, statistics, and the file to share."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import unittest
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests import seams
from tests.scripted import FEWER_REQUESTS, PLAN, PROOF, EngineCase, call, page_items, role_of, text
from tests.seams import desktop_of_main
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


def sums_of(items: list[dict[str, Any]], turn: int) -> Counter[str]:
    """What the records of a turn add to the figures."""
    sums: Counter[str] = Counter()
    for item in items:
        if item["turn"] == turn:
            sums.update(item["sums"])
    return sums


def run_of(page: str) -> dict[str, Any]:
    """The run itself in a page."""
    return [block for block in blocks(page) if block.get("turn") == -1][-1]


class Turns(EngineCase):
    base = FEWER_REQUESTS

    def setUp(self) -> None:
        super().setUp()
        self.undo = ExitStack()
        self.addCleanup(self.undo.close)

    def book(self, decide: Any, **settings: Any) -> list[dict[str, Any]]:
        """The book of a run of the loop, the same from the journal as kept while it ran."""
        trial = self.trial(decide, **settings)
        kept = agent.keep_book(trial.engine.logger, None, self.undo)
        self.begin(trial)
        outcome = trial.run()
        trial.write(
            seams.record(
                "end", outcome=outcome.kind, text=outcome.text, turns=trial.state.turn, seconds=1.0
            )
        )
        self.folder_of_run = trial.folder
        book = page_items(agent.book_of(trial.folder))
        self.assertEqual(page_items(kept), book)
        return book

    def test_a_turn_has_what_was_said_called_and_done_and_what_it_cost(self) -> None:
        done = call("report_mission_complete", evidence=PROOF)
        answers = iter(
            [
                PLAN,
                {
                    **call("click_screen_element", element_name="b", position=[500, 500]),
                    "content": "I see b",
                },
                done,
                text("YES"),
            ]
        )
        head, *items = self.book(lambda request: next(answers))
        self.assertEqual(
            (head["turn"], head["task"], head["outcome"]),
            (-1, "Press", "completed"),
        )
        (plan,) = [item for item in items if item["kind"] == "plan"]
        self.assertEqual((plan["turn"], plan["instructions"]), (1, "Click the button."))
        click = {item["kind"]: item for item in items if item["turn"] == 2}
        self.assertEqual(click["reply"]["message"]["content"], "I see b")
        self.assertEqual(click["action"]["args"], '"b" (500, 500)')
        self.assertEqual(click["intent"]["args"]["position"], {"x": 500, "y": 500})
        self.assertEqual(sums_of(items, 2)["prompt"], 100)
        self.assertEqual(sums_of(items, 2)["completion"], 10)
        self.assertEqual(sums_of(items, 3)["requests"], 2)

    def test_corrections_refusals_and_wasted_turns_are_counted(self) -> None:
        answers = iter(
            [
                PLAN,
                text("hm"),
                call("scroll_screen_down"),
                call("press_keyboard_key", key="win+l"),
                *[text("no")] * 3,
            ]
        )
        head, *items = self.book(lambda request: next(answers), max_steps=4, blocked_keys="win+l")
        facts = dict(head["figures"])
        names = ("turns", "acts", "refused", "corrections", "wasted turns", "requests")
        self.assertEqual([facts[name] for name in names], ["4", "1", "1", "4", "2", "7"])
        lost = [item["turn"] for item in items if item["kind"] == "no_call"]
        self.assertEqual(lost, [2, 4, 4, 4])
        self.assertEqual([sums_of(items, turn)["wasted"] for turn in range(1, 5)], [0, 0, 1, 1])

    def test_archives_stand_out(self) -> None:
        def decide(request: dict[str, Any]) -> dict[str, Any]:
            return PLAN if role_of(request) == "planner" else call("scroll_screen_down")

        book = self.book(decide, max_steps=8, memory_compression_threshold=3)
        self.assertIn("archive", [item["kind"] for item in book[1:]])

    def test_the_reused_share_is_what_the_server_says_or_no_figure_at_all(self) -> None:
        for cached, wanted in ((50, "50%"), (0, "0%"), (None, "not told by this server")):
            tokens = {"prompt": 100, "completion": 1, "cached": cached}
            reply = {
                "role": "executor",
                "message": {},
                "tokens": tokens,
                "seconds": 2.0,
                "request": 0,
            }
            book = agent.Book("run_0001")
            for kind, values in (("run", {"task": "t"}), ("reply", reply)):
                record, _ = agent.from_json({"kind": kind, "time": 5, "turn": 1, **values})
                book.take(record)
            facts = dict(book.figures())
            self.assertEqual((facts["of the prompt reused"], facts["model"]), (wanted, "2.0 s"))

    def test_whoever_listens_hears_of_every_record_and_finds_the_plan_in_the_book(self) -> None:
        answers = iter([{**PLAN, "content": "1. press"}, *[call("scroll_screen_down")] * 2])
        trial = self.trial(lambda request: next(answers), max_steps=2)
        heard: list[tuple[Any, ...]] = []
        logger = trial.engine.logger
        book = agent.keep_book(logger, None, self.undo)

        def hear(item: agent.Item) -> None:
            if isinstance(item, agent.Record):
                items = page_items(book)
                plans = [one["plan"] for one in items[1:] if one.get("plan")]
                heard.append((items[-1]["turn"], *plans))

        logger.listeners.append(hear)
        self.begin(trial)
        trial.run()
        records = (logger.folder / "turns.jsonl").read_text().splitlines()
        self.assertEqual(len(heard), len(records))
        self.assertEqual((heard[0], heard[-1]), ((-1,), (2, "1. press")))

    @mock.patch.object(agent, "BOOK_RECORDS", 100)
    def test_a_long_run_keeps_its_latest_records_and_the_sums_of_all(self) -> None:
        trial = self.trial(lambda request: PLAN)
        logger = trial.engine.logger
        book = agent.keep_book(logger, None, self.undo)
        self.begin(trial)
        for turn in range(1, 401):
            path = "screenshots/turn_0001.png"
            logger.record(seams.record("look", turn=turn, screenshot=path, capture=0.5))
            logger.record(seams.record("plan", turn=turn, done="plan"))
            logger.record(seams.record("state", turn=turn))
        kept = [item["turn"] for item in page_items(book)]
        self.assertEqual((len(kept), set(kept)), (101, {-1, *range(351, 401)}))
        facts = dict(agent.book_of(logger.folder).figures())
        self.assertEqual((facts["turns"], facts["capture"]), ("400", "200.0 s"))
        self.assertEqual(dict(book.figures()), facts)
        shown = {item["turn"] for item in blocks((logger.folder / "report.html").read_text())}
        self.assertEqual(shown, {-1, *range(1, 401)})

    def test_a_report_that_cannot_be_begun_is_one_sentence(self) -> None:
        logger = self.trial(lambda request: PLAN).engine.logger
        full = mock.patch.object(agent, "report_page", side_effect=OSError(28, "No space left"))
        with full, self.assertRaisesRegex(agent.AgentError, r"report.html cannot be written \(No"):
            agent.ReportFile(logger.folder, agent.Book("run"))

    def test_a_resumed_run_goes_on_in_the_same_book_and_the_time_between_does_not_count(
        self,
    ) -> None:
        def spoken(request: dict[str, Any]) -> dict[str, Any]:
            return PLAN if role_of(request) == "planner" else call("scroll_screen_down")

        self.book(spoken, max_steps=2)
        path = self.folder_of_run / "turns.jsonl"
        records = [json.loads(line) for line in path.read_text().splitlines()]
        last = records[-1]
        for kind, after, turn in (("resume", 1000, 0), ("look", 1001, 3), ("end", 1002, 3)):
            values = (
                {"screenshot": "screenshots/turn_0003.png", "capture": 0.5, "encode": 0}
                if kind == "look"
                else {}
            )
            records.append({"kind": kind, "time": last["time"] + after, "turn": turn, **values})
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        logger = agent.ExecutionLogger(agent.Config(), old=self.folder_of_run)
        self.addCleanup(logger.close)
        book = page_items(agent.keep_book(logger, self.folder_of_run, self.undo))
        self.assertEqual(sorted({item["turn"] for item in book}), [-1, 1, 2, 3])
        sums = sums_of(book, 3)
        self.assertEqual((sums["seconds"], sums["capture"], book[0]["outcome"]), (1.0, 0.5, ""))

    def test_each_phase_has_the_seconds_that_it_took(self) -> None:
        book = self.book(
            lambda r: PLAN if role_of(r) == "planner" else call("scroll_screen_down"), max_steps=3
        )
        floor = 0.05  # of virtual time, the only one that passes
        sums = sums_of(book, 2)
        self.assertGreaterEqual(sums["settle"], floor)
        self.assertAlmostEqual(sums["model"], 0.1)  # what the scripted server says of itself
        self.assertEqual([sums[name] for name in ("capture", "encode", "request", "act")], [0] * 4)

    def test_every_cut_of_a_journal_can_be_read_or_says_in_one_line_why_not(self) -> None:
        self.book(
            lambda r: PLAN if role_of(r) == "planner" else call("scroll_screen_down"), max_steps=3
        )
        path = self.folder_of_run / "turns.jsonl"
        whole, turns = path.read_bytes(), 0
        for end in [*range(0, len(whole), 97), len(whole)]:
            path.write_bytes(whole[:end])
            try:
                turns = len({item["turn"] for item in agent.book_of(self.folder_of_run).items})
            except agent.AgentError as error:
                self.assertNotIn("\n", str(error))
        self.assertEqual(turns, 3)

    def test_records_without_their_fields_are_read_and_a_journal_without_a_run_is_not(self) -> None:
        self.book(
            lambda r: PLAN if role_of(r) == "planner" else call("scroll_screen_down"), max_steps=3
        )
        path = self.folder_of_run / "turns.jsonl"
        whole = path.read_text()
        for kind in ("run", "reply", "action", "plan", "result", "intent", "look"):
            pattern = rf'"kind": "{kind}", "time": [\d.]+.*'
            path.write_text(re.sub(pattern, f'"kind": "{kind}", "time": 1}}', whole))
            book = agent.book_of(self.folder_of_run)
            begun = [turn for turn, _ in itertools.groupby(item["turn"] for item in book.items)]
            self.assertEqual(book.run["sums"]["turns"], sum(turn > 0 for turn in begun))
            path.write_text(re.sub(pattern, f'"kind": "{kind}", "time": "x", "turn": []}}', whole))
            agent.book_of(self.folder_of_run)
        path.write_text(re.sub('"kind": "run"', '"kind": "rum"', whole))
        with self.assertRaisesRegex(agent.AgentError, "empty or damaged"):
            agent.book_of(self.folder_of_run)


class Report(CommandLineCase):
    def page(self, number: int = 1) -> str:
        return (self.run_folder(number) / "report.html").read_text(encoding="utf-8")

    def test_a_run_leaves_the_report_that_report_would_write(self) -> None:
        self.recorded()
        live, run = records_in(self.page()), run_of(self.page())
        code, out, _ = self.main("--report", "1")
        self.assertEqual((code, records_in(self.page()), run_of(self.page())), (0, live, run))
        self.assertEqual(sorted({item["turn"] for item in live}), [1, 2, 3, 4, 5, 6])
        self.assertIn("report.html", out)

    def test_the_page_of_a_run_holds_each_record_once(self) -> None:
        self.recorded()
        numbers = [item["number"] for item in records_in(self.page())]
        self.assertEqual(numbers, list(range(2, 2 + len(numbers))))
        # The run after each turn, in case that the program is killed.
        self.assertEqual(sum(item["turn"] == -1 for item in blocks(self.page())), 7)

    def test_a_report_that_was_deleted_is_made_anew_when_its_run_goes_on(self) -> None:
        self.main("--demo", "--max-steps", "3")
        (self.run_folder() / "report.html").unlink()
        self.main("--demo", "--resume", "1", "--set", "max_steps=20")
        numbers = [item["turn"] for item in blocks(self.page())]
        self.assertEqual(sorted(set(numbers)), [-1, *range(1, max(numbers) + 1)])
        self.assertGreater(max(numbers), 3)
        self.assertEqual(run_of(self.page())["outcome"], "completed")

    def test_the_report_stands_while_the_run_is_under_way(self) -> None:
        acted: list[int] = []

        def spy(desktop: agent.DemoDesktop, text: str) -> None:
            items = records_in(self.page())
            acts = [item for item in items if item["kind"] == "intent" and item["turn"] == 4]
            acted.extend([items[-1]["turn"], len(acts), run_of(self.page())["outcome"] == ""])
            raise KeyboardInterrupt

        with mock.patch.object(agent.DemoDesktop, "text", spy):
            self.main("--demo")
        self.assertEqual(acted, [4, 1, True])

    def test_a_report_that_cannot_be_written_does_not_end_the_run(self) -> None:
        with mock.patch.object(agent, "data_block", side_effect=OSError("disk")):
            self.assertEqual(self.main("--demo")[0], 0)

    def test_nothing_from_outside_becomes_markup(self) -> None:
        task = f'Open Notes, write "Hello" and save it. {HOSTILE}'
        model = agent.DemoModel()
        self.addCleanup(model.close)
        with desktop_of_main(agent.DemoDesktop):
            self.main(task, "--endpoint", model.endpoint)
        page = self.page()
        self.assertEqual(len(re.findall("<script", page)), 1 + len(blocks(page)))
        self.assertNotIn("<img", page)
        self.assertIn(HOSTILE.split()[1], run_of(page)["task"])

    def test_the_page_allows_its_own_script_and_pictures_and_nothing_else(self) -> None:
        self.main("--demo", "--max-steps", "1")
        page = self.page()
        allowed = ["default-src 'none'", "img-src file: data: 'self'"]
        for part in ("style", "script"):
            (own,) = re.findall(f"<{part}>(.*?)</{part}>", page, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
            allowed.append(f"{part}-src 'sha256-{digest}'")
        self.assertNotIn("</body>", page)  # what a run adds to it stands inside
        self.assertIn(f'content="{"; ".join(allowed)}"', page)
        self.assertEqual(
            set(re.findall(r"https?://[^\s\"']+", page.partition("application/json")[0])),
            {"http://www.w3.org/2000/svg"},
        )

    def test_the_page_never_sets_markup(self) -> None:
        self.assertNotRegex(
            agent.PAGE, r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\("
        )

    def test_one_file_holds_the_pictures_as_they_are(self) -> None:
        self.main("--demo", "--max-steps", "3")
        code, _, _ = self.main("--report", "1", str(self.folder / "run.html"))
        page = (self.folder / "run.html").read_text(encoding="utf-8")
        pictures = pictures_in(page)
        shots = {item["screenshot"] for item in records_in(page) if item["kind"] == "look"}
        self.assertEqual((code, set(pictures)), (0, shots))
        kept = (self.run_folder() / "screenshots" / "turn_0003.png").read_bytes()
        url = pictures["screenshots/turn_0003.png"]
        self.assertEqual(base64.b64decode(url.removeprefix("data:image/png;base64,")), kept)

    def test_a_file_that_is_there_already_is_left_alone(self) -> None:
        self.recorded()
        target = self.folder / "mine.html"
        target.write_text("mine")
        code, _, err = self.main("--report", "1", str(target))
        self.assertEqual((code, len(err.splitlines()), target.read_text()), (2, 1, "mine"))

    def test_a_missing_or_foreign_screenshot_is_left_out_of_the_file(self) -> None:
        self.recorded()
        (self.run_folder() / "screenshots" / "turn_0003.png").unlink()
        (self.run_folder() / "screenshots" / "turn_0004.png").write_bytes(b"no picture")
        journal = self.run_folder() / "turns.jsonl"
        journal.write_text(
            journal.read_text().replace("screenshots/turn_0005.png", "../../secret.png")
        )
        (self.folder / "secret.png").write_bytes(
            (self.run_folder() / "screenshots" / "turn_0002.png").read_bytes()
        )
        self.assertEqual(self.main("--report", "1", str(self.folder / "run.html"))[0], 0)
        self.assertEqual(
            list(pictures_in((self.folder / "run.html").read_text())),
            [
                "screenshots/turn_0002.png",
                "screenshots/turn_0006.png",
                "screenshots/turn_0006_check.png",
            ],
        )


class Runs(CommandLineCase):
    def test_the_table_lists_runs_and_says_what_is_wrong_with_damaged_ones(self) -> None:
        self.recorded()
        self.main("--demo", "--max-steps", "2", "--profile", "commander")
        (self.run_folder(3)).mkdir()
        (self.run_folder(4)).mkdir()
        (self.run_folder(4) / "turns.jsonl").write_bytes(b'{"kind": "run", "ti\xff')
        for number, said in ((5, "1e300"), (6, "NaN"), (7, '"x"')):
            copy_folder(self.run_folder(1), self.run_folder(number))
            journal = self.run_folder(number) / "turns.jsonl"
            journal.write_text(
                re.sub(r'"time": [\d.]+', f'"time": {said}', journal.read_text(), count=1)
            )
        code, out, err = self.main("--runs")
        lines = out.splitlines()
        self.assertEqual((code, err, len(lines)), (0, "", 8))
        self.assertRegex(
            lines[1],
            r"^run_0001  \d{4}-\d\d-\d\d \d\d:\d\d planner   completed +6 +\d\.\d s  Open Notes",
        )
        self.assertRegex(lines[2], r"^run_0002 .* commander max_steps +2 ")
        self.assertRegex(lines[3], r"^run_0003  .*holds no readable turns.jsonl")
        self.assertRegex(lines[4], "^run_0004  .*holds no run: its turns.jsonl is empty or damaged")
        for line in lines[5:]:  # a time that cannot be is none, and the rest can be read
            self.assertRegex(line, r"^run_000[5-7]  19(69|70)-\d\d-\d\d .*completed +6 ")

    def test_a_line_of_the_wrong_type_is_told_and_its_run_is_read_without_it(self) -> None:
        self.recorded()
        for number, before, after in (
            (2, '"cached": null', '"cached": "x"'),
            (3, '"screen_capture_w": 512', '"screen_capture_w": "x"'),
            (4, '"screen_capture_w": 512', '"screen_capture_w": [1]'),
            (5, '{"kind": "look"', '["kind", "look"'),
        ):
            copy_folder(self.run_folder(1), self.run_folder(number))
            journal = self.run_folder(number) / "turns.jsonl"
            text = journal.read_text(encoding="utf-8")
            self.assertIn(before, text)
            journal.write_text(text.replace(before, after, 1), encoding="utf-8")
        code, out, err = self.main("--runs")
        self.assertEqual((code, err, len(out.splitlines())), (0, "", 6))
        for number, told in (
            (2, "Unknown fields left out: reply.tokens."),
            (3, ""),
            (4, ""),
            (5, "Damaged lines left out: "),
        ):
            self.assertRegex(out, rf"(?m)^run_000{number} .* completed .*{told}")
            for option in ("--stats", "--report"):
                code, said, err = self.main(option, str(number))
                self.assertEqual((code, err), (0, ""))
                self.assertIn(told, said)
            end = self.run_folder(number) / "turns.jsonl"
            *lines, _ = end.read_text(encoding="utf-8").splitlines(keepends=True)
            end.write_text("".join(lines), encoding="utf-8")
            code, said, err = self.main("--demo", "--resume", str(number), "--max-steps", "1")
            self.assertEqual((code, err), (1, ""))
            self.assertIn(told, said)

    def test_the_wait_for_an_answer_is_the_person_s_time_and_not_the_program_s(self) -> None:
        records = (
            {"kind": "run", "time": 100, "task": "a", "profile": "planner"},
            {"kind": "reply", "time": 110, "turn": 1, "role": "executor", "seconds": 9},
            {"kind": "answer", "time": 140, "turn": 1, "seconds": 30},
            {"kind": "end", "time": 140, "turn": 1, "outcome": "completed"},
        )
        self.run_folder().mkdir(parents=True)
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (self.run_folder() / "turns.jsonl").write_text(lines, encoding="utf-8")
        _, out, _ = self.main("--stats", "1")
        self.assertRegex(out, r"(?m)^in the program +1\.0 s$")
        self.assertRegex(out, r"(?m)^for the person's answers +30\.0 s$")

    def test_statistics_are_the_figures_of_the_report(self) -> None:
        self.recorded()
        for name in ("1", "run_0001", str(self.run_folder())):
            code, out, _ = self.main("--stats", name)
            figures = run_of((self.run_folder() / "report.html").read_text())["figures"]
            lines = [
                line.split("  ")[0] + "|" + line.split("  ")[-1].strip()
                for line in out.splitlines()[1:]
            ]
            self.assertEqual((code, lines), (0, [f"{name}|{value}" for name, value in figures]))
        names = [name for name, _ in figures]
        self.assertEqual(names[-6:], ["encode", "request", "model", "act", "settle", "capture"])

    def test_a_run_that_is_not_there_or_damaged_gets_one_clear_line(self) -> None:
        (self.folder / "dumps" / "run_0002").mkdir(parents=True)
        for option in ("--stats", "--report", "--replay"):
            for name, wanted in (
                ("7", "no run 7"),
                ("nowhere", "no run nowhere"),
                ("2", "holds no readable turns.jsonl"),
            ):
                code, _, err = self.main(option, name, "--demo")
                self.assertEqual(len(err.splitlines()), 1)
                self.assertIn(wanted, err)
                self.assertIn(code, (1, 2))
        self.assertFalse(Path(self.folder / "dumps" / "run_0002" / "report.html").exists())


if __name__ == "__main__":
    unittest.main()
