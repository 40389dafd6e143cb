"""The risk rules against labels of real programs: python -m tests.test_labels prints the figures.

`labels/ordinary.jsonl` has labels about which nobody wants to be asked, `labels/risky.jsonl` such that need a question,
each with its language and the public file that it was taken from (its accelerator keys left out). What is neither, such
as an editor's "Remove empty lines", is in none of them. A third of each is held out: chosen by a hash of the label
before the rules were written, and never looked at while they were.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import unittest
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.fakes import Foreground
from tests.test_actuator import Stage

FOLDER = Path(__file__).parent / "labels"
FALSE_ALARMS_MOST, MISSES_MOST = 0.01, 0.02


def labels(name: str) -> list[dict[str, Any]]:
    lines = (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def is_held_out(row: dict[str, Any]) -> bool:
    return hashlib.sha256(row["label"].encode()).digest()[0] % 3 == 0


@cache
def stage_of(program: str) -> Stage:
    """A plain window of that program."""
    return Stage(
        config={"acts_per_minute": 10_000}, window=Foreground("Window", path=f"C:\\{program}")
    )


def risks_of(row: dict[str, Any]) -> list[str]:
    """The risks of a click on that label, in a plain window of its program."""
    asked: list[str] = []
    stage = stage_of(row.get("program", "program.exe"))
    stage.actuator.confirm = lambda question: bool(asked.append(question))
    stage.attempt("click", element_name=row["label"], position=[300, 400])
    if not asked:
        return []
    reasons = re.sub(r" \([^)]*\)", "", asked[0].rpartition(": ")[2])  # what each means
    return reasons.split(", ")


def false_alarms(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{row['label']}: {risks_of(row)}" for row in rows if risks_of(row)]


def misses(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{row['label']}: {row['risk']}" for row in rows if row["risk"] not in risks_of(row)]


def parts(name: str) -> dict[str, list[dict[str, Any]]]:
    rows = labels(name)
    return {
        "written against": [row for row in rows if not is_held_out(row)],
        "held out": [row for row in rows if is_held_out(row)],
    }


class Labels(unittest.TestCase):
    def test_the_corpus_is_large_and_names_its_sources(self) -> None:
        ordinary, risky = labels("ordinary"), labels("risky")
        self.assertGreaterEqual(len(ordinary), 300)
        self.assertGreaterEqual(len(risky), 150)
        rows = [*ordinary, *risky]
        self.assertEqual({"en", "de", "fr", "es", "pl", "ru", "zh"}, {r["language"] for r in rows})
        self.assertTrue(all(" " in row["source"] for row in rows))
        self.assertEqual(len({row["label"] for row in rows}), len(rows))

    def test_ordinary_labels_do_not_ask(self) -> None:
        for part, rows in parts("ordinary").items():
            wrong = false_alarms(rows)
            self.assertLessEqual(len(wrong) / len(rows), FALSE_ALARMS_MOST, f"{part}: {wrong}")

    def test_risky_labels_ask(self) -> None:
        for part, rows in parts("risky").items():
            wrong = misses(rows)
            self.assertLessEqual(len(wrong) / len(rows), MISSES_MOST, f"{part}: {wrong}")


def print_figures() -> None:
    for name, find, what in (
        ("ordinary", false_alarms, "false alarms"),
        ("risky", misses, "misses"),
    ):
        for part, rows in parts(name).items():
            wrong = len(find(rows))
            print(f"{what}, {part}: {wrong} of {len(rows)} labels ({wrong / len(rows):.1%})")


if __name__ == "__main__":
    print_figures()
    sys.exit(not unittest.main(exit=False).result.wasSuccessful())
