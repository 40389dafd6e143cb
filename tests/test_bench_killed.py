"""A bench that is killed and started again goes on where it was; two at once leave each other's files whole."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import agent
from tests.bench_killed import BLANK_PICTURES, WARM, Server, begin, killed_at
from tests.samples import sample

# Before the first answer; within the corrections of a call; after a kept line; in a demo task; at the end.
ALL = [(1, -1.0), (23, -1.0), (9, 0.003), (29, -1.0), (2, -1.0), (3, 0.0)]
MOMENTS = sample(ALL, ALL[:3])


def setUpModule() -> None:
    WARM.first = BLANK_PICTURES


def tearDownModule() -> None:
    WARM.end()


class Killed(unittest.TestCase):
    def test_wherever_it_is_killed_it_goes_on_to_the_same_result_and_asks_little_again(
        self,
    ) -> None:
        words = "quick", "planner"
        whole, found = killed_at([], *words), killed_at(MOMENTS, *words)
        self.assertEqual(found["kills"], len(MOMENTS))
        for what in ("names", "shares", "lines", "errors"):
            self.assertEqual(found[what], whole[what], what)
        again = agent.BENCH_CORRECTIONS + 1  # of an item that was not kept yet
        self.assertLessEqual(found["asked"], whole["asked"] + len(MOMENTS) * again)

    def test_two_at_once_end_well_and_leave_whole_files(self) -> None:
        with tempfile.TemporaryDirectory() as name, Server() as server:
            folder = Path(name)
            both = [begin(server, folder, "quick") for _ in range(2)]
            for process in both:
                code, output = process.end(seconds=300)
                self.assertEqual(code, 0, output)
            for bench in agent.bench_folders(folder):
                result: dict[str, Any] = json.loads((bench / "bench.json").read_text("utf-8"))
                self.assertEqual(result["shares"]["targets hit"]["of"], agent.BENCH_QUICK.pointing)
            (known,) = agent.CalibrationBook(folder).entries()
            self.assertTrue(known.usable, known.figures)
            left = [path.name for path in folder.iterdir() if path.is_file()]
            self.assertEqual(left, ["calibration.json"])


if __name__ == "__main__":
    unittest.main()
