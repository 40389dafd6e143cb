"""Journals of the version before, one of each profile: today's program repeats them and goes on with them.

tests/journals/PROFILE is the folder of a whole `--demo` with a picture of 768x432, as the version before the events
wrote it; its logs and its report are left out, since nothing reads them. What is told of them a digest says (tests.test_kept).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
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


def cut_after_its_third_turn(records: list[Record]) -> list[Record]:
    return [record for record in records if record["turn"] <= LAST_TURN_KEPT]


def with_unknown_fields(records: list[Record]) -> list[Record]:
    return [{**record, "of_tomorrow": {"kind": "text"}} for record in records]


def with_an_unknown_line(records: list[Record]) -> list[Record]:
    unknown = {"kind": "of_tomorrow", "time": 1.0, "turn": records[3]["turn"]}
    return [*records[:4], unknown, *records[4:]]


def cut_with_an_unknown_line(records: list[Record]) -> list[Record]:
    return with_an_unknown_line(cut_after_its_third_turn(records))


class Older(CommandLineCase):
    """Each on a fresh copy of its journal as run 1, in virtual time."""

    def in_each(
        self,
        profiles: tuple[str, ...],
        change: Callable[[list[Record]], list[Record]],
        *words: str,
    ) -> Iterator[tuple[int, str, list[Record]]]:
        """Exit code, what was said and the records, of a command on each profile's changed journal."""
        for profile in profiles:
            with self.subTest(profile, change=change), seams.clock_of_main():
                shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                copy_folder(JOURNALS / profile, self.run_folder())
                text = "".join(json.dumps(record) + "\n" for record in change(self.records()))
                (self.run_folder() / "turns.jsonl").write_text(text, encoding="utf-8")
                environ = SIZE if "--replay" in words else None
                code, out, err = self.main(*words, "--demo", environ=environ)
                self.assertEqual(err, "")
                yield code, out, self.records()

    def test_each_is_repeated_on_the_demo_desktop_as_far_as_it_is_the_same(self) -> None:
        """Lines and fields as another version would write them change nothing."""
        same = tuple(profile for profile in LOOPS if profile not in BY_START)
        for profiles, change in (
            (same, list),
            (("planner", "story"), with_unknown_fields),
            (("commander", "story"), with_an_unknown_line),
        ):
            for code, out, records in self.in_each(profiles, change, "--replay", "1"):
                done = sum(record["kind"] == "result" for record in records)
                self.assertEqual(code, 0, out)
                self.assertIn(f"completed: Repeated {done} acts.", out)
        for code, out, _ in self.in_each(BY_START, list, "--replay", "1"):
            self.assertEqual(code, 1, out)
            self.assertIn("of the screen around it is not as in", out)

    def test_each_goes_on_after_a_cut_and_comes_to_its_end(self) -> None:
        self.assertEqual(sorted(path.name for path in JOURNALS.iterdir()), sorted(PROFILES))
        for profiles, change in (
            (LOOPS, cut_after_its_third_turn),
            (("planner", "story"), cut_with_an_unknown_line),
        ):
            for code, out, records in self.in_each(profiles, change, "--resume", "1"):
                self.assertEqual(code, 0, out)
                begin = next(n for n, record in enumerate(records) if record["kind"] == "resume")
                self.assertGreater(records[-1]["turn"], LAST_TURN_KEPT)
                ended = (records[-1]["kind"], records[-1]["outcome"])
                self.assertEqual(ended, ("end", "completed"))
                unknown = "Unknown: the program ended in the middle"
                self.assertNotIn(unknown, str(records[begin:]))
                turns = [record["turn"] for record in records[begin + 1 :]]
                self.assertEqual(turns, sorted(turns))
                self.assertIn(min(turns), (LAST_TURN_KEPT, LAST_TURN_KEPT + 1))
