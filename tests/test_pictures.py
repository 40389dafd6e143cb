"""The room Pictures: the PNG format, scaling, drawing and marks.

Of marked pictures a digest (tests.test_kept) says the rest.
"""

from __future__ import annotations

import itertools
import random
import struct
import unittest
import zlib
from typing import Any

import agent
from agent import AgentError, Canvas, Rect
from tests.seams import chunk, chunks, marked_pixels, rgb_of, rgb_picture
from tests.test_story import StoryCase, told

SIGNATURE = b"\x89PNG\r\n\x1a\n"
SIZES = [(w, h) for w in (1, 2, 3, 16, 17, 255) for h in (1, 2, 31, 33)]


def noise(size: int, seed: int = 7) -> bytes:
    return random.Random(seed).randbytes(size)


def png_file(
    rows: bytes, width: int, height: int, kind: tuple[int, ...] = (8, 2, 0, 0, 0)
) -> bytes:
    header = chunk(b"IHDR", struct.pack(">II5B", width, height, *kind))
    stream = chunk(b"IDAT", zlib.compress(rows))
    return SIGNATURE + header + stream + chunk(b"IEND", b"")


class Encoding(unittest.TestCase):
    def check(self, pixels: bytes, width: int, height: int) -> None:
        rgb, png = rgb_of(pixels), agent.encode_png(pixels, width, height)
        data = b"".join(data for name, data in chunks(png) if name == b"IDAT")
        rows = [b"\0" + rgb[at : at + 3 * width] for at in range(0, len(rgb), 3 * width)]
        self.assertEqual(zlib.decompress(data), b"".join(rows))
        made = png_file(b"".join(rows), width, height)
        self.assertEqual(rgb_picture(made), (rgb, width, height))
        self.assertEqual(rgb_picture(png), (rgb, width, height))

    def test_every_pixel_is_kept_in_each_size_and_of_each_frame_of_a_changing_screen(self) -> None:
        for width, height in SIZES:
            with self.subTest(width=width, height=height):
                self.check(noise(width * height * 4), width, height)
                self.check((bytes(range(251)) * 200)[: width * height * 4], width, height)
        dice, canvas = random.Random(5), Canvas(80, 200)
        for _ in range(40):
            place = Rect(dice.randrange(80), dice.randrange(200), 9, dice.randrange(60))
            canvas.fill(place, dice.randrange(1 << 24))
            self.check(bytes(canvas.pixels), 80, 200)
        self.check(bytes(canvas.pixels), 200, 80)  # another size of as many bytes


class Decoding(unittest.TestCase):
    def test_whatever_is_not_a_whole_rgb_picture_is_refused_in_one_sentence(self) -> None:
        good = png_file(b"\0abc", 1, 1)
        kinds = {"sixteen bits": (16, 2), "palette": (8, 3), "alpha": (8, 6)}
        unsummed = chunk(b"IDAT", zlib.compress(b"\0abc")[:-2])
        broken = {
            "no signature": good[1:],
            "a changed byte": good[:44] + bytes([good[44] ^ 1]) + good[45:],
            "header last": good[:8] + good[33:],
            "too few pixels": png_file(b"\0ab", 1, 1),
            "too many pixels": png_file(b"\0abcd", 1, 1),
            "a byte too many": png_file(b"\0abc\0", 1, 1),
            "no pixels": png_file(b"", 0, 4),
            "a filter": png_file(b"\2abc", 1, 1),
            "a bomb": png_file(b"", 1 << 20, 1 << 20),
            "no checksum": good[:33] + unsummed + chunk(b"IEND", b""),
            "no zlib stream": good[:33] + chunk(b"IDAT", b"xx") + chunk(b"IEND", b""),
            "interlaced": png_file(b"\0abc", 1, 1, (8, 2, 0, 0, 1)),
            **{name: png_file(b"\0abc", 1, 1, (*kind, 0, 0, 0)) for name, kind in kinds.items()},
            **{f"cut at {end}": good[:end] for end in range(len(good))},
        }
        for name, png in broken.items():
            with self.subTest(name), self.assertRaisesRegex(AgentError, r"^[A-Z].*\.$"):
                agent.png_to_bgrx(png)
        with self.assertRaisesRegex(AgentError, "to 8192x4608 pixels"):  # before it is unpacked
            agent.png_to_bgrx(broken["a bomb"])


class Drawing(unittest.TestCase):
    def test_every_pixel_is_the_nearest_one_of_the_part_that_is_shown(self) -> None:
        pixels = noise(40 * 30 * 4)
        parts = (Rect(0, 0, 40, 30), Rect(3, 5, 30, 20), Rect(39, 29, 1, 1), Rect(0, 7, 40, 1))
        sizes = ((48, 36), (40, 30), (10, 6), (7, 41), (1, 1), (97, 71))
        for part, (wide, high) in itertools.product(parts, sizes):
            wanted = bytearray()
            for y, x in itertools.product(range(high), range(wide)):
                row, column = part.top + y * part.height // high, x * part.width // wide
                wanted += pixels[(row * 40 + part.left + column) * 4 :][:4]
            self.assertEqual(agent.scale_bgrx(pixels, 40, part, wide, high), wanted, part)

    def test_what_lies_outside_the_picture_is_cut_off(self) -> None:
        canvas = Canvas(8, 6)
        places = ((-5, -5), (8, 0), (0, 6), (-9, 2), (2, -4), (2, 9))
        for rect in (Rect(left, top, 3, 3) for left, top in places):
            canvas.fill(rect, 0xFFFFFF)
        self.assertFalse(any(canvas.pixels))
        canvas.fill(Rect(-2, -2, 40, 40), 0x102030)
        self.assertEqual(bytes(canvas.pixels), bytes([0x30, 0x20, 0x10, 0]) * 48)


WIDE, HIGH = 400, 300
GREY = bytes([128, 128, 128, 0]) * (WIDE * HIGH)


def act(name: str, *numbers: int) -> dict[str, Any]:
    return {"name": name, **dict(zip(("x1", "y1", "x2", "y2"), numbers, strict=False))}


def box(x1: Any, y1: Any, x2: Any, y2: Any) -> dict[str, Any]:
    return {"x1": x1, "y1": y1, "x2": x2, "y2": y2}


def hue(pixels: bytes, x: int, y: int) -> int:
    """How much more red than blue a place on the grid is."""
    place = agent.to_point(agent.Coordinate(x, y), Rect(0, 0, WIDE, HIGH))
    at = 4 * (place.y * WIDE + place.x)
    return pixels[at + 2] - pixels[at]


class Marks(unittest.TestCase):
    def test_a_place_outside_the_grid_is_refused_not_moved_to_an_edge(self) -> None:
        with self.assertRaises(agent.ToolError):
            marked_pixels((GREY, WIDE, HIGH), [[act("click", 500, 1001)]], [])

    def test_heat_fades_with_each_turn_and_a_box_is_blue_above_all_at_its_border(self) -> None:
        turns = [[act("click", 100 * n, 100)] for n in range(1, 7)]
        pixels = marked_pixels((GREY, WIDE, HIGH), turns, [box(900, 900, 200, 300)])
        heat = [hue(pixels, 100 * n, 100) for n in range(1, 7)]
        self.assertEqual(heat[:5], sorted({*heat}, reverse=True))
        self.assertEqual([one > 5 for one in heat], [True] * 4 + [False] * 2)
        for x, y in ((200, 600), (900, 600), (500, 300), (500, 900)):
            self.assertLess(hue(pixels, x, y), -200, (x, y))
        self.assertTrue(-200 < hue(pixels, 550, 600) < -10)
        self.assertEqual(hue(pixels, 950, 950), 0)

    def test_the_given_pixels_stay_as_they_are_and_marks_are_the_same_every_time(self) -> None:
        before = random.Random(5).randbytes(len(GREY))
        turn = [act("click", 100, 200), act("drag", 20, 900, 990, 10)]
        given = [turn, turn], [box(250, 250, 750, 750)]
        copies = [marked_pixels((before, WIDE, HIGH), *given) for _ in range(2)]
        self.assertEqual(copies[0], copies[1])
        self.assertNotEqual(copies[0], before)


GOOD = box(0, 0, 9, 9)
NOT_DRAWN = "Only 1 of 3 boxes are drawn: at most 8, each with x1, y1, x2, y2, whole numbers"


class StoryBoxes(StoryCase):
    def test_a_box_is_drawn_within_the_picture_or_refused_and_the_model_is_told(self) -> None:
        wrong = (box(0, 0, 1001, 9), box(-1, 0, 9, 9), box("a", 0, 9, 9), {"x1": 1}, 7)
        rows: tuple[tuple[list[Any], list[Any], str], ...] = (
            *(([odd, GOOD, odd], [GOOD], NOT_DRAWN) for odd in wrong),
            ([GOOD] * 9, [GOOD] * 8, "Only 8 of 9 boxes are drawn: at most 8,"),
            ([GOOD] * 2, [GOOD] * 2, ""),
            ([7] * 1000, [], "Only 0 of 1000 boxes"),
        )
        for given, drawn, wanted in rows:
            with self.subTest(str(given)[:80]):
                trial, _ = self.story(told(bboxes=given), told())
                content = trial.requests[1]["messages"][-1]["content"]
                words = " ".join(part.get("text", "") for part in content)
                self.assertEqual(self.stages(trial)[1]["bboxes"], drawn)
                self.assertIn(wanted, words)
                self.assertLess(len(words), 250)
                self.assertTrue(wanted or "box" not in words.lower(), words)
