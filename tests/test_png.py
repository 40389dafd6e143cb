"""The room Pictures: the PNG format, and drawing into a picture."""

import functools
import itertools
import random
import struct
import unittest
import zlib

import agent
from agent import AgentError, Canvas, Rect
from tests.seams import chunk, rgb_of

SIZES = [(w, h) for w in (1, 2, 3, 5, 16, 17, 33, 48, 64, 255) for h in (1, 2, 31, 32, 33, 65)]


def noise(size: int, seed: int = 7) -> bytes:
    return random.Random(seed).randbytes(size)


def png_file(rows: bytes, width: int, height: int, kind=(8, 2, 0, 0, 0)) -> bytes:
    header = chunk(b"IHDR", struct.pack(">II5B", width, height, *kind))
    stream = chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + header + stream + chunk(b"IEND", b"")


def plain_decode(png: bytes) -> tuple[bytes, int, int]:
    """A decoder for PNGs without filter that checks every length, CRC and the whole stream's Adler-32."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, found = 8, {}
    while at < len(png):
        (length,), tag = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        data, crc = png[at + 8 : at + 8 + length], png[at + 8 + length : at + 12 + length]
        assert crc == zlib.crc32(tag + data).to_bytes(4, "big"), tag
        found[tag] = found.get(tag, b"") + data
        at += 12 + length
    assert list(found) == [b"IHDR", b"IDAT", b"IEND"] and found[b"IEND"] == b""
    width, height, *kind = struct.unpack(">II5B", found[b"IHDR"])
    assert kind == [8, 2, 0, 0, 0]
    rows, step = zlib.decompress(found[b"IDAT"]), width * 3 + 1
    assert len(rows) == step * height and not any(rows[::step])
    return b"".join(rows[y * step + 1 : (y + 1) * step] for y in range(height)), width, height


@functools.cache
def mist(width: int, height: int, seed: int = 3) -> bytes:
    """Soft slopes with a grain, as in photographs."""
    grain = random.Random(seed).randbytes(width * height * 4)
    pixels = bytearray(grain)  # of the fourth byte of a pixel nothing is left but grain
    for y in range(height):
        row = slice(y * width * 4, (y + 1) * width * 4)
        blue, green = grain[row][0::4], grain[row][1::4]
        values = (
            [x + 2 * y + blue[x] % 6 & 255 for x in range(width)],
            [2 * x + y + green[x] % 6 & 255 for x in range(width)],
            [x + y & 255 for x in range(width)],
        )
        for channel in range(3):
            pixels[row.start + channel : row.stop : 4] = bytes(values[channel])
    return bytes(pixels)


def flat(width: int, height: int) -> bytes:
    """A window with a few lines: hardly anything to compress."""
    canvas = Canvas(width, height)
    canvas.fill(Rect(0, 0, width, height), 0xF8FAFC)
    canvas.fill(Rect(2, 2, width - 4, 3), 0x2457D6)
    return bytes(canvas.pixels)


class Encoding(unittest.TestCase):
    def check(self, pixels: bytes, width: int, height: int) -> None:
        rgb, png = rgb_of(pixels), agent.encode_png(pixels, width, height)
        self.assertEqual(plain_decode(png), (rgb, width, height))
        self.assertEqual(agent.png_to_rgb(png), (rgb, width, height))
        self.assertEqual(plain_decode(agent.rgb_to_png(rgb, width, height)), (rgb, width, height))

    def test_every_pixel_is_kept_in_sixty_odd_sizes(self):
        for width, height in SIZES:
            with self.subTest(width=width, height=height):
                for pixels in (noise(width * height * 4), mist(width, height), flat(width, height)):
                    self.check(pixels, width, height)

    def test_every_frame_of_a_changing_screen_comes_out_whole(self):
        dice, canvas = random.Random(5), Canvas(80, 200)
        for turn in range(40):
            if turn % 7 == 3:
                canvas = Canvas(80, 200, dice.choice([mist, flat])(80, 200))
            place = Rect(dice.randrange(80), dice.randrange(200), 9, dice.randrange(60))
            canvas.fill(place, dice.randrange(1 << 24))
            self.check(bytes(canvas.pixels), 80, 200)
        self.check(bytes(canvas.pixels), 200, 80)  # another size of as many bytes


class Decoding(unittest.TestCase):
    def test_whatever_is_not_a_whole_rgb_picture_is_refused_in_one_sentence(self):
        good = png_file(b"\0abc", 1, 1)
        kinds = {
            "sixteen bits": (16, 2, 0, 0, 0),
            "palette": (8, 3, 0, 0, 0),
            "alpha": (8, 6, 0, 0, 0),
            "interlaced": (8, 2, 0, 0, 1),
        }
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
            **{name: png_file(b"\0abc", 1, 1, kind) for name, kind in kinds.items()},
        }
        for name, png in broken.items():
            with self.subTest(name), self.assertRaises(AgentError) as caught:
                agent.png_to_rgb(png)
            self.assertRegex(str(caught.exception), r"^[A-Z].*\.$")
        with self.assertRaisesRegex(AgentError, "to 8192x4608 pixels"):  # before it is unpacked
            agent.png_to_rgb(broken["a bomb"])

    def test_a_picture_cut_off_anywhere_is_refused(self):
        png = png_file(b"\0abc", 1, 1)
        for length in range(len(png)):
            with self.subTest(length=length), self.assertRaises(AgentError):
                agent.png_to_rgb(png[:length])


class Scaling(unittest.TestCase):
    def test_every_pixel_is_the_nearest_one_of_the_part_that_is_shown(self):
        pixels = noise(40 * 30 * 4)
        parts = (Rect(0, 0, 40, 30), Rect(3, 5, 30, 20), Rect(39, 29, 1, 1), Rect(0, 7, 40, 1))
        sizes = ((48, 36), (40, 30), (10, 6), (7, 41), (1, 1), (97, 71))
        for part, (wide, high) in itertools.product(parts, sizes):
            with self.subTest(part=part, wide=wide, high=high):
                wanted = bytearray()
                for y, x in itertools.product(range(high), range(wide)):
                    row, column = part.top + y * part.height // high, x * part.width // wide
                    wanted += pixels[(row * 40 + part.left + column) * 4 :][:4]
                self.assertEqual(agent.scale_bgrx(pixels, 40, part, wide, high), wanted)


class Drawing(unittest.TestCase):
    def test_what_lies_outside_the_picture_is_cut_off(self):
        canvas = Canvas(8, 6)
        for rect in (Rect(-5, -5, 4, 4), Rect(8, 0, 3, 3), Rect(0, 6, 3, 3), Rect(-9, 2, 5, 1)):
            canvas.fill(rect, 0xFFFFFF)
        self.assertFalse(any(canvas.pixels))
        canvas.fill(Rect(-2, -2, 40, 40), 0x102030)
        self.assertEqual(bytes(canvas.pixels), bytes([0x30, 0x20, 0x10, 0]) * 48)

    def test_every_printable_character_has_its_own_shape(self):
        def picture(char: str) -> bytes:
            canvas = Canvas(12, 18)
            canvas.text(0, 0, char, 0xFFFFFF)
            return bytes(canvas.pixels)

        pictures = {picture(chr(code)) for code in range(32, 127)}
        self.assertEqual(len(pictures), 95)
        self.assertEqual(picture("\u00fc"), picture("\U0001f600"))
        self.assertNotIn(picture("\u00fc"), pictures)


if __name__ == "__main__":
    unittest.main()
