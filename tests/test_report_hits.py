"""The report tells which control an act hit, and where that was."""

from __future__ import annotations

import unittest
from pathlib import Path
from typing import Any

import agent
from tests import seams
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, PlainDesktop, call

SAVE = agent.Control("Save", "button", agent.Rect(16, 9, 32, 18), window=1)
WINDOW = agent.Control("Plain", "window", agent.Rect(0, 0, 64, 36), window=1)


class HitControls(EngineCase):
    base = FEWER_REQUESTS

    def hits(self, *known: agent.Control) -> list[dict[str, Any]]:
        """What the book has of a run with one click in the middle, where those controls are."""
        click = call("click_screen_element", element_name="Save", position=[500, 500])
        answers = iter([PLAN, click])

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            return next(answers)

        trial = self.trial(decide, max_steps=2)
        desktop = trial.desktop
        assert isinstance(desktop, PlainDesktop)
        desktop.control_source = agent.KnownControls(known)
        self.begin(trial)
        trial.run()
        trial.write(seams.record("end", turn=2, outcome="max_steps"))
        self.kept: Path = trial.folder
        items = agent.book_of(trial.folder).items
        (result,) = [item for item in items if item["kind"] == "result"]
        hits: list[dict[str, Any]] = result["hits"]
        return hits

    def test_an_act_has_the_name_and_the_box_of_what_it_hit(self) -> None:
        (hit,) = self.hits(SAVE, WINDOW)
        self.assertEqual((hit["name"], hit["role"]), ("Save", "button"))
        self.assertEqual(hit["box"], (250, 250, 750, 750))

    def test_a_window_is_not_what_was_hit(self) -> None:
        self.assertEqual(self.hits(WINDOW), [])

    def test_of_a_control_that_reaches_out_of_the_picture_the_box_ends_there(self) -> None:
        wide = agent.Control("Wide", "button", agent.Rect(-100, -100, 300, 300), window=1)
        (hit,) = self.hits(wide)
        self.assertEqual(hit["box"], (0, 0, 1000, 1000))

    def test_boxes_that_are_none_are_left_out_of_what_is_read_back(self) -> None:
        entry = {"kind": "result", "turn": 1, "boxes": [[1, 2, 3]]}
        record, ignored = agent.from_json(entry)
        self.assertEqual(ignored, ["result.boxes"])
        assert record.kind == "result"
        self.assertIsNone(record.boxes)


if __name__ == "__main__":
    unittest.main()
