"""The comparison of a model's words for a control with Windows' own, over tables of pairs."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

from agent import names_agree

TABLE = Path(__file__).parent / "data" / "control_names.jsonl"


def pairs(same: bool) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["same"] is same]


class TheTable(unittest.TestCase):
    def test_it_has_two_hundred_pairs_in_six_languages(self) -> None:
        self.assertGreaterEqual(len(pairs(same=True)), 200)
        self.assertGreaterEqual(
            {row["language"] for row in pairs(same=True)}, set("en de fr es pl ru".split())
        )

    def test_no_pair_of_one_control_disagrees_either_way_round(self) -> None:
        for row in pairs(same=True):
            with self.subTest(**row):
                self.assertTrue(names_agree(row["said"], row["name"]))
                self.assertTrue(names_agree(row["name"], row["said"]))

    def test_every_pair_of_two_controls_disagrees(self) -> None:
        for row in pairs(same=False):
            with self.subTest(**row):
                self.assertFalse(names_agree(row["said"], row["name"]))
                self.assertFalse(names_agree(row["name"], row["said"]))


class TheWords(unittest.TestCase):
    def test_shortcuts_mnemonics_and_role_words_are_no_part_of_a_name(self) -> None:
        self.assertTrue(names_agree("&Save button\tCtrl+S", "Save"))
        self.assertTrue(names_agree("Schaltfläche &Öffnen…", "offnen"))
        self.assertFalse(names_agree("Open button\tCtrl+S", "Save button\tCtrl+S"))

    def test_one_name_inside_another_agrees(self) -> None:
        self.assertTrue(names_agree("Save", "Save As"))

    def test_a_long_name_costs_little(self) -> None:
        self.assertTrue(names_agree("a" * 100_000, "a" * 100_000))
        self.assertFalse(names_agree("Open " + "ctrl+" * 20_000, "Save me"))


if __name__ == "__main__":
    unittest.main()
