"""The marks in the model's next picture: what a digest of marked pictures (tests.test_kept) does not say of them."""

from __future__ import annotations

import random
import unittest
from collections.abc import Mapping, Sequence
from typing import Any

import agent
from tests.seams import marked_pixels
from tests.test_story import StoryCase, told

WIDE, HIGH = 400, 300
GREY = bytes([128, 128, 128, 0]) * (WIDE * HIGH)


def act(name: str, *numbers: int) -> dict[str, Any]:
    return {"name": name, **dict(zip(("x1", "y1", "x2", "y2"), numbers, strict=False))}


def box(x1: Any, y1: Any, x2: Any, y2: Any) -> dict[str, Any]:
    return {"x1": x1, "y1": y1, "x2": x2, "y2": y2}


def marked(actions: Sequence[Mapping[str, Any]] = (), trail: Any = (), **settings: Any) -> bytes:
    config = agent.load_config({"test": settings})
    boxes = [box(250, 250, 750, 750)] if trail else []
    return marked_pixels((GREY, WIDE, HIGH), [actions, *trail], boxes, config)


class Marks(unittest.TestCase):
    def test_a_place_outside_the_grid_is_refused_not_moved_to_an_edge(self) -> None:
        with self.assertRaises(agent.ToolError):
            marked([act("click", 500, 1001)])

    def test_the_given_pixels_stay_as_they_are_and_marks_are_the_same_every_time(self) -> None:
        before = random.Random(5).randbytes(len(GREY))
        turn = [act("click", 100, 200), act("drag", 20, 900, 990, 10)]
        given = [turn, turn], [box(250, 250, 750, 750)], agent.Config()
        copies = [marked_pixels((before, WIDE, HIGH), *given) for _ in range(2)]
        self.assertEqual(copies[0], copies[1])
        self.assertNotEqual(copies[0], before)


class Settings(unittest.TestCase):
    def test_a_wrong_look_is_refused_by_name_with_what_it_takes(self) -> None:
        bright = "rgba(1,2,3,1)"
        backwards = f"1 {bright}; 0 {bright}"
        wrong = {
            "marks_border": ("red", "rgba(256,0,0,1)", "rgba(1,2,3)", "rgba(1,2,3,1.1)", ""),
            "marks_heat_stops": ("", bright, f"0 {bright}", backwards, "0 red; 1 red"),
            "marks_box_stops": (f"0 {bright}; 2 {bright}; 1 {bright}", f"0 {bright}; 1 {bright};"),
            "marks_radius_scale": ("nan", 1.1, -0.1),
            "marks_trail_shrink": ("nan", 1.1),
            "marks_trail_turns": (0, 101, 1.5),
            "marks_border_width": (-1, 101),
        }
        for name, value in ((name, value) for name, values in wrong.items() for value in values):
            with self.assertRaisesRegex(agent.ConfigError, f"^test: {name} .*takes .*") as caught:
                agent.load_config({"test": {name: value}})
            self.assertNotIn("\\d", str(caught.exception), "a pattern is no help to a person")

    def test_every_setting_of_the_look_changes_the_picture(self) -> None:
        turn = [act("drag", 100, 200, 800, 700)]
        usual = marked(turn, [turn])
        stops = "0 rgba(1,2,3,.9);0.5 rgba(9,9,90,0.5); 1 rgba(9,0,255,0)"
        settings: dict[str, Any] = {
            "marks_heat": False,
            "marks_heat_stops": stops,
            "marks_radius_scale": 0.05,
            "marks_trail_turns": 1,
            "marks_trail_shrink": 0.2,
            "marks_boxes": False,
            "marks_box_stops": stops,
            "marks_border": "rgba(0,255,0,1)",
            "marks_border_width": 9,
        }
        self.assertEqual({n for n in agent.SETTINGS if n.startswith("marks_")}, settings.keys())
        for name, value in settings.items():
            self.assertNotEqual(marked(turn, [turn], **{name: value}), usual, name)

    def test_stops_in_any_order_make_the_same_gradient_as_on_the_page(self) -> None:
        one, two = "0.3 rgba(0,255,0,1)", "0.7 rgba(0,0,255,1)"
        ends = "0 rgba(255,0,0,1); {}; 1 rgba(0,0,0,0)"
        orders = [ends.format(f"{first}; {last}") for first, last in ((one, two), (two, one))]
        click = [act("click", 500, 500)]
        self.assertEqual(*[marked(click, marks_heat_stops=order) for order in orders])


GOOD = box(0, 0, 9, 9)
NOT_DRAWN = "Only 1 of 3 boxes are drawn: at most 3, each with x1, y1, x2, y2, whole numbers"


class StoryBoxes(StoryCase):
    def test_a_box_is_drawn_within_the_picture_or_refused_and_the_model_is_told(self) -> None:
        edge = [GOOD, box(900, 900, 1000, 950)]
        wrong = (box(0, 0, 1021, 9), box(-1, 0, 9, 9), box("a", 0, 9, 9), {"x1": 1}, 7)
        rows: tuple[tuple[list[Any], list[Any], str], ...] = (
            *(([GOOD, box(900, 900, x, 950)], edge, "") for x in (1001, 1008.4, 1020)),
            *(([odd, GOOD, odd], [GOOD], NOT_DRAWN) for odd in wrong),
            ([GOOD] * 3, [GOOD] * 2, "Only 2 of 3 boxes are drawn: at most 2,"),
            ([GOOD] * 2, [GOOD] * 2, ""),
            ([7] * 1000, [], "Only 0 of 1000 boxes"),
        )
        for given, drawn, wanted in rows:
            with self.subTest(str(given)[:80]):
                most = 2 if "2 of 3" in wanted else 3
                trial, _ = self.story(told(bboxes=given), told(), max_bboxes=most)
                content = trial.requests[1]["messages"][-1]["content"]
                words = " ".join(part.get("text", "") for part in content)
                self.assertEqual(self.stages(trial)[1]["bboxes"], drawn)
                self.assertIn(wanted, words)
                self.assertLess(len(words), 250)
                self.assertTrue(wanted or "box" not in words.lower(), words)
