"""The marks in the model's next picture: where they are, where they are not, and what they leave alone."""

from __future__ import annotations

import random
import unittest
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import agent
from tests.seams import marked_pixels

WIDE, HIGH = 400, 300
GREY = bytes([128, 128, 128, 0]) * (WIDE * HIGH)


def act(name: str, *numbers: int) -> dict[str, Any]:
    return {"name": name, **dict(zip(("x1", "y1", "x2", "y2"), numbers, strict=False))}


def marked(
    actions: Sequence[Mapping[str, Any]] = (),
    boxes: Sequence[Mapping[str, Any]] = (),
    trail: Any = (),
    **settings: Any,
) -> bytes:
    config = agent.load_config({"test": settings})
    return marked_pixels((GREY, WIDE, HIGH), [actions, *trail], boxes, config)


def pixel(pixels: bytes, x: int, y: int) -> tuple[int, int, int]:
    """Red, green, blue."""
    blue, green, red = pixels[(y * WIDE + x) * 4 :][:3]
    return red, green, blue


def touched(pixels: bytes) -> agent.Rect | None:
    """The box of all pixels that differ from the plain picture."""
    places = [
        (i // 4 % WIDE, i // 4 // WIDE)
        for i in range(0, len(GREY), 4)
        if pixels[i : i + 4] != GREY[i : i + 4]
    ]
    if not places:
        return None
    xs, ys = [x for x, _ in places], [y for _, y in places]
    return agent.Rect(min(xs), min(ys), max(xs) - min(xs) + 1, max(ys) - min(ys) + 1)


class Heat(unittest.TestCase):
    def test_a_click_is_an_orange_spot_that_fades_outwards(self) -> None:
        pixels = marked([act("click", 500, 500)])
        x, y = 200, 150  # (500 * 399 + 500) // 1000 and (500 * 299 + 500) // 1000
        red, green, blue = pixel(pixels, x, y)
        self.assertGreater(red, green)
        self.assertGreater(green, blue)
        reds = [pixel(pixels, x - step, y)[0] for step in range(12)]
        self.assertEqual(reds, sorted(reds, reverse=True))

    def test_a_spot_is_smooth_and_the_same_on_all_sides(self) -> None:
        pixels = marked(trail=[[act("click", 500, 500)]], marks_radius_scale=0.1)
        for dx in range(33):
            for dy in range(33):
                here = pixel(pixels, 200 + dx, 150 + dy)
                for x, y in ((200 - dx, 150 + dy), (200 + dx, 150 - dy), (200 - dx, 150 - dy)):
                    self.assertEqual(pixel(pixels, x, y), here)
                self.assertLess(abs(here[0] - pixel(pixels, 201 + dx, 150 + dy)[0]), 12, (dx, dy))

    def test_the_radius_follows_the_longer_side(self) -> None:
        for scale, radius in ((0.05, 20), (0.2, 80)):
            box = touched(
                marked(
                    trail=[[act("click", 500, 500)]],
                    marks_radius_scale=scale,
                    marks_trail_shrink=1,
                )
            )
            assert box
            self.assertAlmostEqual(
                box.width, 2 * radius + 1, delta=2 + radius // 8
            )  # the last ring can be too faint

    def test_a_drag_marks_both_ends(self) -> None:
        ends = marked([act("drag", 100, 100, 900, 900)], marks_trail_shrink=1)
        for share in (0.1, 0.9):
            red, _, blue = pixel(ends, int(WIDE * share), int(HIGH * share))
            self.assertGreater(red, blue, share)

    def test_a_click_with_an_end_is_drawn_as_a_click(self) -> None:
        self.assertEqual(
            marked([act("click", 500, 500, 900, 900)]), marked([act("click", 500, 500)])
        )

    def test_keys_and_text_leave_no_mark(self) -> None:
        self.assertIsNone(
            touched(marked([{"name": "type", "text": "hello"}, {"name": "key", "key": "enter"}]))
        )

    def test_a_place_outside_the_grid_is_refused_not_moved_to_an_edge(self) -> None:
        with self.assertRaises(agent.ToolError):
            marked([act("click", 500, 1001)])

    def test_spots_at_the_edges_are_cut_off(self) -> None:
        corners = [act("drag", 0, 0, 1000, 1000), act("click", 1000, 0), act("move", 0, 1000)]
        pixels = marked(corners)
        self.assertEqual(len(pixels), len(GREY))
        self.assertGreater(*pixel(pixels, WIDE - 1, 0)[::2])

    def test_switched_off_heat_leaves_only_labels(self) -> None:
        self.assertEqual(
            pixel(marked([act("click", 500, 500)], marks_heat=False), 200, 150), (128, 128, 128)
        )


class Trail(unittest.TestCase):
    def red_at(self, age: int) -> int:
        trail: list[list[dict[str, Any]]] = [[], [], [], [], [], []]
        trail[age - 1] = [act("click", 500, 500)]
        return pixel(marked(trail=trail), 200, 150)[0]

    def test_older_turns_are_fainter_and_the_oldest_is_gone(self) -> None:
        reds = [self.red_at(age) for age in (1, 2, 3)]
        self.assertEqual(reds, sorted(set(reds), reverse=True))
        self.assertGreater(reds[-1], 128)
        self.assertEqual(
            [self.red_at(age) for age in (4, 5, 6)], [128] * 3
        )  # trail_turns is 4: this and three before

    def test_the_latest_marks_lie_on_top(self) -> None:
        now, trail = (
            [act("click", 500, 500)],
            [[act("click", 505, 500)], [act("drag", 300, 300, 700, 700)]],
        )
        older = marked(trail=trail)
        both = marked_pixels((older, WIDE, HIGH), [now], [], agent.Config())
        self.assertEqual(marked(now, trail=trail), both)

    def test_one_turn_means_no_trail(self) -> None:
        self.assertIsNone(touched(marked(trail=[[act("click", 500, 500)]], marks_trail_turns=1)))

    def test_an_older_drag_shrinks_toward_its_middle(self) -> None:
        trail = [[act("drag", 100, 500, 900, 500)], [], []]
        boxes = [touched(marked(trail=trail[-age:] + trail[:-age])) for age in (0, 1, 2)]
        widths = [box.width for box in boxes if box]
        self.assertEqual(widths, sorted(widths, reverse=True))
        self.assertEqual(len(set(widths)), 3)
        for box in boxes:
            assert box
            self.assertAlmostEqual(box.left + box.width / 2, WIDE / 2, delta=2)

    def test_without_shrinking_a_trail_keeps_its_size(self) -> None:
        boxes = []
        for age in (1, 2):
            trail = [[], []] if age == 2 else [[]]
            trail[-1:] = [[act("drag", 100, 500, 900, 500)]]
            boxes.append(touched(marked(trail=trail, marks_trail_shrink=1.0)))
        self.assertEqual(boxes[0], boxes[1])


class Boxes(unittest.TestCase):
    BOX = {"x1": 250, "y1": 250, "x2": 750, "y2": 750}

    def test_a_box_has_a_blue_border_and_a_fill_and_nothing_beyond(self) -> None:
        pixels = marked(boxes=[self.BOX])
        self.assertEqual(touched(pixels), agent.Rect(100, 75, 200, 150))
        for x, y in ((100, 75), (102, 150), (299, 224), (200, 77), (200, 150)):
            red, _, blue = pixel(pixels, x, y)
            self.assertGreater(blue, red, (x, y))
        self.assertGreater(pixel(pixels, 100, 75)[2], pixel(pixels, 200, 150)[2])

    def test_corners_in_any_order_make_the_same_box(self) -> None:
        turned = {"x1": 750, "y1": 250, "x2": 250, "y2": 750}
        self.assertEqual(marked(boxes=[turned]), marked(boxes=[self.BOX]))

    def test_a_line_beside_the_picture_leaves_it_as_it_is(self) -> None:
        for x, y in ((0, -1), (0, 4), (8, 0), (-9, 0)):
            canvas = agent.Canvas(8, 4)
            canvas.fill(agent.Rect(x, y, 8, 1), 0xFFFFFF)
            self.assertEqual(canvas.pixels, bytes(8 * 4 * 4), (x, y))

    def test_a_box_of_one_pixel_and_of_the_whole_picture_can_be_drawn(self) -> None:
        dot, whole = dict.fromkeys(self.BOX, 500), {"x1": 0, "y1": 0, "x2": 1000, "y2": 1000}
        self.assertEqual(touched(marked(boxes=[dot])), agent.Rect(200, 150, 1, 1))
        self.assertEqual(touched(marked(boxes=[whole])), agent.Rect(0, 0, WIDE, HIGH))

    def test_switched_off_boxes_are_not_drawn(self) -> None:
        self.assertIsNone(touched(marked(boxes=[self.BOX], marks_boxes=False)))


class Labels(unittest.TestCase):
    def test_a_label_stands_at_its_place_and_inside_the_picture(self) -> None:
        for x, y in ((0, 0), (1000, 0), (0, 1000), (1000, 1000), (500, 500)):
            box = touched(marked([act("click", x, y)], marks_heat=False))
            assert box
            self.assertEqual(box.height, 10)
            self.assertGreater(box.width, 3 * len(f"1 ({x},{y})"))
            self.assertLessEqual(abs(box.top + box.height // 2 - y * HIGH // 1000), 14)

    def test_two_labels_at_one_place_do_not_cover_each_other(self) -> None:
        box = touched(
            marked([act("click", 500, 500), act("double_click", 500, 500)], marks_heat=False)
        )
        assert box
        self.assertEqual(box.height, 20)

    def test_a_label_is_white_on_its_plate(self) -> None:
        pixels = marked([act("click", 500, 500)], marks_heat=False)
        shades = {bytes(pixels[i : i + 3]) for i in range(0, len(pixels), 4)}
        self.assertEqual(len(shades), 3)
        self.assertIn(b"\xff" * 3, shades)

    def test_the_acts_of_a_turn_are_numbered_from_one(self) -> None:
        widths = []
        for most in (1, 9, 10):  # a 1 is narrow, and a label of two digits is wide
            box = touched(marked([act("click", 500, 500)] * most, marks_heat=False))
            assert box
            widths.append(box.width)
        self.assertEqual(sorted(set(widths)), widths)


class Whole(unittest.TestCase):
    def test_the_given_pixels_stay_as_they_are_and_marks_are_the_same_every_time(self) -> None:
        before = bytes(random.Random(5).randbytes(len(GREY)))
        turn = [act("click", 100, 200), act("drag", 20, 900, 990, 10)]
        given = [turn, turn], [Boxes.BOX], agent.Config()
        copies = [marked_pixels((before, WIDE, HIGH), *given) for _ in range(2)]
        self.assertEqual(copies[0], copies[1])
        self.assertNotEqual(copies[0], before)

    def test_nothing_to_mark_changes_nothing(self) -> None:
        self.assertEqual(marked(), GREY)

    def test_a_wrong_look_is_refused_by_name_with_what_it_takes(self) -> None:
        bright = "rgba(1,2,3,1)"
        wrong = {
            "marks_border": ("red", "rgba(256,0,0,1)", "rgba(1,2,3)", "rgba(1,2,3,1.1)", ""),
            "marks_heat_stops": (
                "",
                bright,
                f"0 {bright}",
                f"1 {bright}; 0 {bright}",
                "0 red; 1 red",
            ),
            "marks_box_stops": (f"0 {bright}; 2 {bright}; 1 {bright}", f"0 {bright}; 1 {bright};"),
            "marks_radius_scale": ("nan", 1.1, -0.1),
            "marks_trail_shrink": ("nan", 1.1),
            "marks_trail_turns": (0, 101, 1.5),
            "marks_border_width": (-1, 101),
        }
        for name, values in wrong.items():
            for value in values:
                with self.assertRaisesRegex(
                    agent.ConfigError, f"^test: {name} .*takes .*"
                ) as caught:
                    agent.load_config({"test": {name: value}})
                self.assertNotIn("\\d", str(caught.exception), "a pattern is no help to a person")

    def test_every_setting_of_the_look_changes_the_picture(self) -> None:
        turn = [act("drag", 100, 200, 800, 700)]
        usual = marked(turn, [Boxes.BOX], [turn])
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
        known = {field.name for field in fields(agent.Config) if field.name.startswith("marks_")}
        self.assertEqual(known, settings.keys())
        for name, value in settings.items():
            self.assertNotEqual(marked(turn, [Boxes.BOX], [turn], **{name: value}), usual, name)

    def test_stops_in_any_order_make_the_same_gradient_as_on_the_page(self) -> None:
        one, two = "0.3 rgba(0,255,0,1)", "0.7 rgba(0,0,255,1)"
        pictures = [
            marked(
                [act("click", 500, 500)],
                marks_radius_scale=0.2,
                marks_heat_stops=f"0 rgba(255,0,0,1); {between}; 1 rgba(0,0,0,0)",
            )
            for between in (f"{one}; {two}", f"{two}; {one}")
        ]
        self.assertEqual(*pictures)


if __name__ == "__main__":
    unittest.main()
