"""Journals of the version before, one of each profile: today's program reports, counts, repeats and goes on with them.

tests/journals/PROFILE is the folder of a whole `--demo` with a picture of 768x432, as the version before the events
wrote it; its logs and its report are left out, since nothing reads them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import seams
from tests.samples import sample
from tests.test_main import CommandLineCase, copy_folder

JOURNALS = Path(__file__).resolve().parent / "journals"
PROFILES = ("planner", "commander", "chat", "pointer", "story")
LOOPS = sample(PROFILES, ("planner", "story"))
BY_START = ("chat", "pointer")  # went by a Start menu, which the demo has no more
SIZE = {"AGENT_IMAGE_W": "768", "AGENT_IMAGE_H": "432"}  # of their pictures
LAST_TURN_KEPT = 3  # of a journal that is cut

# Fields that a line may lack: how long something took, and what is only more about it.
DURATIONS = {"seconds", "capture", "encode", "settle_ms", "act", "request"}
DETAILS = {"tries", "region", "response_text", "program", "window"}

Record = dict[str, Any]


class JournalCase(CommandLineCase):
    """Works on copies, in virtual time."""

    def setUp(self) -> None:
        super().setUp()
        clock = seams.clock_of_main()
        clock.start()
        self.addCleanup(clock.stop)

    def in_each(
        self,
        check: Callable[[str], None],
        change: Callable[[list[Record]], list[Record]] = list,
        profiles: tuple[str, ...] = PROFILES,
    ) -> None:
        """Checks each profile as a subtest, on a fresh copy of its journal as run 1, changed if wanted."""
        for profile in profiles:
            with self.subTest(profile):
                shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                copy_folder(JOURNALS / profile, self.run_folder())
                self.rewrite(change(self.records()))
                check(profile)

    def rewrite(self, records: list[Record]) -> None:
        text = "".join(json.dumps(record) + "\n" for record in records)
        (self.run_folder() / "turns.jsonl").write_text(text, encoding="utf-8")

    def acts_done(self) -> int:
        """The acts of run 1 that have a result."""
        return sum(record["kind"] == "result" for record in self.records())

    def stats(self) -> dict[str, str]:
        """What --stats says of run 1."""
        code, out, err = self.main("--stats", "1")
        self.assertEqual((code, err), (0, ""))
        rows = [re.split(r" {2,}", line.strip()) for line in out.splitlines()[1:]]
        return {row[0]: row[-1] for row in rows}

    def check_report_and_figures(self) -> None:
        """The report names every picture that was looked at, the figures count every turn and act."""
        records = self.records()
        code, _, err = self.main("--report", "1")
        self.assertEqual((code, err), (0, ""))
        page = (self.run_folder() / "report.html").read_text(encoding="utf-8")
        self.assertIn(records[0]["task"].replace('"', '\\"'), page)
        for record in records:
            if record["kind"] == "look":
                self.assertIn(record["screenshot"], page)
        kinds, figures = Counter(record["kind"] for record in records), self.stats()
        turns = {record["turn"] for record in records if record["kind"] not in ("run", "end")}
        turns -= {0}  # what a chat looks at before its first turn
        self.assertEqual(figures["turns"], str(len(turns)))
        self.assertEqual(figures["acts"], str(kinds["result"]))
        self.assertEqual(figures["requests"], str(kinds["reply"]))

    def check_replay(self) -> None:
        code, out, err = self.main("--replay", "1", "--demo", environ=SIZE)
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn(f"completed: Repeated {self.acts_done()} acts.", out)

    def check_resume(self) -> None:
        """It goes on with the next turn, takes no act for unfinished, and comes to its end."""
        code, out, err = self.main("--resume", "1", "--demo")
        self.assertEqual((code, err), (0, ""), out)
        records = self.records()
        begin = next(n for n, record in enumerate(records) if record["kind"] == "resume")
        self.assertGreater(records[-1]["turn"], LAST_TURN_KEPT)
        self.assertEqual((records[-1]["kind"], records[-1]["outcome"]), ("end", "completed"))
        self.assertNotIn("Unknown: the program ended in the middle", str(records[begin:]))
        turns = [record["turn"] for record in records[begin + 1 :]]
        self.assertEqual(turns, sorted(turns))
        self.assertIn(min(turns), (LAST_TURN_KEPT, LAST_TURN_KEPT + 1))


def cut_after_its_third_turn(records: list[Record]) -> list[Record]:
    return [record for record in records if record["turn"] <= LAST_TURN_KEPT]


def with_an_unknown_field(records: list[Record]) -> list[Record]:
    return [{**record, "of_tomorrow": {"kind": "text"}} for record in records]


class Kept(JournalCase):
    def test_the_data_are_one_whole_run_of_each_profile(self) -> None:
        def check(profile: str) -> None:
            records = self.records()
            self.assertEqual((records[0]["kind"], records[0]["profile"]), ("run", profile))
            self.assertEqual((records[-1]["kind"], records[-1]["outcome"]), ("end", "completed"))
            self.assertGreaterEqual(self.acts_done(), 4)

        self.assertEqual(sorted(path.name for path in JOURNALS.iterdir()), sorted(PROFILES))
        self.in_each(check)

    def test_each_is_reported_and_counted(self) -> None:
        self.in_each(lambda _: self.check_report_and_figures())

    def test_each_is_listed_with_its_profile_and_outcome(self) -> None:
        def check(profile: str) -> None:
            code, out, err = self.main("--runs")
            self.assertEqual((code, err), (0, ""))
            self.assertRegex(out, rf"run_0001 .* {profile} +completed +\d+ ")

        self.in_each(check)

    def test_each_is_repeated_on_the_demo_desktop_as_far_as_it_is_the_same(self) -> None:
        same = tuple(profile for profile in LOOPS if profile not in BY_START)
        self.in_each(lambda _: self.check_replay(), profiles=same)

        def stops(_: str) -> None:
            code, out, _ = self.main("--replay", "1", "--demo", environ=SIZE)
            self.assertEqual(code, 1, out)
            self.assertIn("of the screen around it is not as in", out)

        self.in_each(stops, profiles=BY_START)

    def test_each_goes_on_after_a_cut(self) -> None:
        self.in_each(lambda _: self.check_resume(), cut_after_its_third_turn, LOOPS)

    def test_one_goes_on_after_a_cut_in_the_middle_of_a_line(self) -> None:
        def check(_: str) -> None:
            journal = self.run_folder() / "turns.jsonl"
            journal.write_bytes(journal.read_bytes() + b'{"kind": "look", "ti')
            self.check_resume()

        self.in_each(check, cut_after_its_third_turn, ("planner",))

    def test_a_completed_one_is_not_gone_on_with(self) -> None:
        def check(_: str) -> None:
            code, _out, err = self.main("--resume", "1", "--demo")
            self.assertEqual(code, 2)
            self.assertIn("was completed", err)

        self.in_each(check)


class OtherFields(JournalCase):
    """Lines as an older or a newer version would write them."""

    def test_an_unknown_field_changes_nothing(self) -> None:
        def check(_: str) -> None:
            figures = self.stats()
            self.rewrite(with_an_unknown_field(self.records()))
            self.check_report_and_figures()
            self.assertEqual(self.stats(), figures)

        self.in_each(check)

    def test_a_run_with_an_unknown_field_is_repeated(self) -> None:
        self.in_each(lambda _: self.check_replay(), with_an_unknown_field, ("planner", "story"))

    def test_a_run_with_an_unknown_field_goes_on(self) -> None:
        self.in_each(
            lambda _: self.check_resume(),
            lambda records: with_an_unknown_field(cut_after_its_third_turn(records)),
            ("planner", "story"),
        )

    def test_a_line_of_an_unknown_kind_is_passed_over(self) -> None:
        def change(records: list[Record]) -> list[Record]:
            unknown = {"kind": "of_tomorrow", "time": 1.0, "turn": records[3]["turn"]}
            return [*records[:4], unknown, *records[4:]]

        self.in_each(lambda _: self.check_report_and_figures(), change)
        self.in_each(lambda _: self.check_replay(), change, ("commander", "story"))

    def test_missing_fields_take_their_defaults_in_the_report_and_the_figures(self) -> None:
        for missing in (DURATIONS, DETAILS):
            self.in_each(
                lambda _: self.check_report_and_figures(),
                lambda records, names=missing: without(records, names),
            )


def without(records: list[Record], missing: set[str]) -> list[Record]:
    return [
        {name: value for name, value in record.items() if name not in missing} for record in records
    ]
