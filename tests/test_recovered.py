"""A run that ended after its recovery keys goes on without an act that it knows nothing of."""

from __future__ import annotations

import unittest
from typing import Any

import agent
from tests.scripted import PLAN, EngineCase
from tests.seams import record


class Recovered(EngineCase):
    def resumed(self, *records: agent.Record) -> list[Any]:
        """The active actions of a run that is resumed after these records."""
        trial = self.trial(lambda r: PLAN)
        trial.write(*records)
        again = self.trial(lambda r: PLAN, old=trial.folder)
        again.resume()
        return again.history

    def test_recovery_keys_with_a_result_are_no_unknown_act(self) -> None:
        keys = record("intent", turn=3, tool="recover")
        self.assertEqual(self.resumed(keys, record("result", turn=3)), [])

    def test_recovery_keys_without_one_and_any_other_act_are(self) -> None:
        keys = record("intent", turn=3, tool="recover")
        (unknown,) = self.resumed(keys)
        self.assertEqual(
            unknown.result,
            "Unknown: the program ended in the middle of it, so look before doing it again.",
        )
        click = record("intent", turn=3, tool="click")
        self.assertEqual(len(self.resumed(click, record("result", turn=3))), 1)


if __name__ == "__main__":
    unittest.main()
