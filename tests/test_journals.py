"""Journals of the version before, one of each profile: today's program repeats them and goes on with them.

tests/journals/PROFILE is the folder of a whole `--demo` with a picture of 768x432, as the version before the events
wrote it; its logs and its report are left out, since nothing reads them. What is told of them a digest says (tests.test_kept).
"""

from __future__ import annotations

import json
import shutil
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


def with_an_unknown_line(records: list[Record]) -> list[Record]:
    unknown = {"kind": "of_tomorrow", "time": 1.0, "turn": records[3]["turn"]}
    return [*records[:4], unknown, *records[4:]]


class Older(JournalCase):
    def test_each_is_repeated_on_the_demo_desktop_as_far_as_it_is_the_same(self) -> None:
        def stops(_: str) -> None:
            code, out, _ = self.main("--replay", "1", "--demo", environ=SIZE)
            self.assertEqual(code, 1, out)
            self.assertIn("of the screen around it is not as in", out)

        same = tuple(profile for profile in LOOPS if profile not in BY_START)
        self.in_each(lambda _: self.check_replay(), profiles=same)
        self.in_each(stops, profiles=BY_START)

    def test_each_goes_on_after_a_cut(self) -> None:
        self.assertEqual(sorted(path.name for path in JOURNALS.iterdir()), sorted(PROFILES))
        self.in_each(lambda _: self.check_resume(), cut_after_its_third_turn, LOOPS)


class OtherFields(JournalCase):
    """Lines as an older or a newer version would write them."""

    def test_a_run_with_unknown_lines_or_fields_is_repeated_and_goes_on(self) -> None:
        self.in_each(lambda _: self.check_replay(), with_an_unknown_field, ("planner", "story"))
        self.in_each(lambda _: self.check_replay(), with_an_unknown_line, ("commander", "story"))
        self.in_each(
            lambda _: self.check_resume(),
            lambda records: with_an_unknown_field(cut_after_its_third_turn(records)),
            ("planner", "story"),
        )
