"""The room Pictures: the PNG format, scaling, and drawing into a picture."""

from __future__ import annotations

import itertools
import random
import struct
import unittest
import zlib

import agent
from agent import AgentError, Canvas, Rect
from tests.seams import chunk, chunks, rgb_of

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


def plain_decode(png: bytes) -> tuple[bytes, int, int]:
    """A decoder for PNGs without filter that checks every length, CRC and the whole stream's Adler-32."""
    found: dict[bytes, bytes] = {}
    for tag, data in chunks(png):
        found[tag] = found.get(tag, b"") + data
    whole = SIGNATURE + b"".join(chunk(tag, data) for tag, data in chunks(png))
    assert png == whole and list(found) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *kind = struct.unpack(">II5B", found[b"IHDR"])
    assert kind == [8, 2, 0, 0, 0]
    rows, step = zlib.decompress(found[b"IDAT"]), width * 3 + 1
    assert len(rows) == step * height and not any(rows[::step])
    return b"".join(rows[y * step + 1 : (y + 1) * step] for y in range(height)), width, height


class Encoding(unittest.TestCase):
    def check(self, pixels: bytes, width: int, height: int) -> None:
        rgb, png = rgb_of(pixels), agent.encode_png(pixels, width, height)
        self.assertEqual(plain_decode(png), (rgb, width, height))
        self.assertEqual(agent.png_to_rgb(png), (rgb, width, height))
        self.assertEqual(plain_decode(agent.rgb_to_png(rgb, width, height)), (rgb, width, height))

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
                agent.png_to_rgb(png)
        with self.assertRaisesRegex(AgentError, "to 8192x4608 pixels"):  # before it is unpacked
            agent.png_to_rgb(broken["a bomb"])


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
        for rect in (Rect(-5, -5, 4, 4), Rect(8, 0, 3, 3), Rect(0, 6, 3, 3), Rect(-9, 2, 5, 1)):
            canvas.fill(rect, 0xFFFFFF)
        self.assertFalse(any(canvas.pixels))
        canvas.fill(Rect(-2, -2, 40, 40), 0x102030)
        self.assertEqual(bytes(canvas.pixels), bytes([0x30, 0x20, 0x10, 0]) * 48)

    def test_every_printable_character_has_its_own_shape_and_others_one(self) -> None:
        pictures = {}
        for char in map(chr, (*range(32, 127), 0xFC, 0x1F600)):
            canvas = Canvas(12, 18)
            canvas.text(0, 0, char, 0xFFFFFF)
            pictures[char] = bytes(canvas.pixels)
        self.assertEqual(len(set(pictures.values())), 96)
        self.assertEqual(pictures["\u00fc"], pictures["\U0001f600"])
