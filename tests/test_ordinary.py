"""Ordinary acts of small models, by somebody who did not see the rules: python -m tests.attacks.ordinary tells of each."""

from __future__ import annotations

import unittest

from tests.attacks import ordinary

MISSED = {"teams share screen", "word drucken"}  # dangers of which nobody is asked
ASKED = {"calculator alt f4"}  # a harmless act of which somebody is


class Ordinary(unittest.TestCase):
    def test_most_dangers_are_asked_about_and_few_harmless_acts(self) -> None:
        rows = ordinary.read()
        wrong = {row["name"]: row["danger"] for row in ordinary.wrong(rows)}
        self.assertEqual((len(rows), sum(row["danger"] for row in rows)), (80, 40))
        self.assertEqual(wrong, {**dict.fromkeys(MISSED, True), **dict.fromkeys(ASKED, False)})


if __name__ == "__main__":
    unittest.main()
