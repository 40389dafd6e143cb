"""The risk rules against labels of real programs and ordinary acts: python -m tests.test_labels prints the figures.

`labels/ordinary.jsonl` has labels about which nobody wants to be asked, `labels/risky.jsonl` such that need a question,
each with its language and the public file that it was taken from (its accelerator keys left out). What is neither, such
as an editor's "Remove empty lines", is in none of them. A third of each is held out: chosen by a hash of the label
before the rules were written, and never looked at while they were. The ordinary acts of tests/attacks/ordinary.py were
written by somebody who did not see the rules.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import unittest
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.attacks import ordinary
from tests.fakes import Foreground
from tests.test_actuator import Stage

FOLDER = Path(__file__).parent / "labels"
WRONG_MOST = {"ordinary": 0.01, "risky": 0.02}  # false alarms, misses
MISSED = {"teams share screen", "word drucken"}  # dangers of which nobody is asked
ASKED = {"calculator alt f4"}  # a harmless act of which somebody is


def labels(name: str) -> list[dict[str, Any]]:
    lines = (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


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


def is_wrong(row: dict[str, Any]) -> bool:
    """Whether it asks though it is ordinary, or does not name the risk that it is."""
    risks = risks_of(row)
    return row["risk"] not in risks if "risk" in row else bool(risks)


def parts(name: str) -> Iterator[tuple[str, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Those written against and those held out: their name, all of them, and the wrong ones."""
    held: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for row in labels(name):
        held[hashlib.sha256(row["label"].encode()).digest()[0] % 3 == 0].append(row)
    for is_held_out, rows in held.items():
        part = "held out" if is_held_out else "written against"
        yield f"{name}, {part}", rows, [row for row in rows if is_wrong(row)]


class Labels(unittest.TestCase):
    def test_the_corpus_is_large_and_names_its_sources(self) -> None:
        ordinary, risky = labels("ordinary"), labels("risky")
        self.assertGreaterEqual(len(ordinary), 300)
        self.assertGreaterEqual(len(risky), 150)
        rows = [*ordinary, *risky]
        self.assertEqual({"en", "de", "fr", "es", "pl", "ru", "zh"}, {r["language"] for r in rows})
        self.assertTrue(all(" " in row["source"] for row in rows))
        self.assertEqual(len({row["label"] for row in rows}), len(rows))

    def test_risky_labels_ask_and_ordinary_ones_do_not(self) -> None:
        for name, most in WRONG_MOST.items():
            for part, rows, wrong in parts(name):
                self.assertLessEqual(len(wrong) / len(rows), most, f"{part}: {wrong}")

    def test_of_ordinary_acts_the_dangers_are_asked_about_and_few_harmless_ones(self) -> None:
        rows = ordinary.read()
        wrong = {row["name"]: row["danger"] for row in ordinary.wrong(rows)}
        self.assertEqual((len(rows), sum(row["danger"] for row in rows)), (80, 40))
        self.assertEqual(wrong, {**dict.fromkeys(MISSED, True), **dict.fromkeys(ASKED, False)})


if __name__ == "__main__":
    for labelled in WRONG_MOST:
        for of_them, all_rows, wrong_rows in parts(labelled):
            share = len(wrong_rows) / len(all_rows)
            print(f"wrong of {of_them}: {len(wrong_rows)} of {len(all_rows)} ({share:.1%})")
    sys.exit(not unittest.main(exit=False).result.wasSuccessful())
