"""Where a calibration corrects the places of a story's model, its marks and boxes stand where those truly lie."""

from __future__ import annotations

import unittest
from typing import Any

from tests.scripted import EngineCase
from tests.test_calibration import correction_by
from tests.test_story import Json, orange, picture, told

# The model says 0.95 of the distance from the middle: 405 means 400.
SHRUNK, TRUE = correction_by(0.95), correction_by(1.0)


class Corrected(EngineCase):
    def story(self, reply: Json, correction: Any) -> Any:
        """A run in which the model says this, and then that it waits."""
        replies = iter([reply])
        trial = self.trial(
            lambda request: next(replies, told("I wait.")),
            "story",
            max_steps=3,
            screen_capture_w=640,
            screen_capture_h=360,
        )
        trial.engine.correction = correction
        trial.run()
        return trial

    def raw(self, trial: Any) -> Json:
        """The stage of the turn that acted."""
        return [entry for entry in trial.records("stage") if entry["stage"] == "raw"][1]

    def test_the_mark_of_an_act_stands_where_the_mouse_went(self) -> None:
        shown = []
        for x, correction in (
            (405, SHRUNK),
            (400, TRUE),
            (405, TRUE),
        ):
            trial = self.story(told(actions=[{"name": "click", "x1": x, "y1": 500}]), correction)
            rgb, width, _ = picture(trial.requests[1])
            self.assertTrue(orange(rgb, width, 256, 180))
            shown.append(rgb)
        corrected, meant, said = shown
        self.assertEqual(corrected, meant)
        self.assertNotEqual(corrected, said)

    def test_both_ends_of_a_drag_and_the_corners_of_a_box_are_corrected(self) -> None:
        drag = {"name": "drag", "x1": 405, "y1": 500, "x2": 595, "y2": 690}
        box = {"x1": 310, "y1": 405, "x2": 690, "y2": 1000}
        stage = self.raw(self.story(told(actions=[drag], bboxes=[box]), SHRUNK))
        wanted = {"name": "drag", "x1": 400, "y1": 500, "x2": 600, "y2": 700}
        self.assertEqual(stage["actions"], [wanted])
        self.assertEqual(stage["bboxes"], [{"x1": 300, "y1": 400, "x2": 700, "y2": 1000}])

    def test_without_a_correction_they_stand_where_they_were_said(self) -> None:
        drag = {"name": "drag", "x1": 405, "y1": 500, "x2": 595, "y2": 690}
        stage = self.raw(self.story(told(actions=[drag], bboxes=[]), TRUE))
        self.assertEqual(stage["actions"], [drag])


if __name__ == "__main__":
    unittest.main()
