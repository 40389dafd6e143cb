"""The moving picture of a run: its chunks put together again are its frames."""

from __future__ import annotations

import struct
import tempfile
import unittest
import zlib
from pathlib import Path

import agent
from tests.pictures import moving
from tests.seams import chunks

WIDTH, HEIGHT = 960, 540
JOURNAL = """\
{"kind": "intent", "turn": 2, "args": {"element_name": "icon", "position": {"x": 500, "y": 500}}}
{"kind": "action", "turn": 2, "result": "Clicked: icon", "screenshot": "turn_0002.png"}
{"kind": "action", "turn": 3, "result": "Mission complete", "screenshot": "turn_0003.png"}
"""
CENTRE = (HEIGHT // 4 * moving.WIDTH + moving.WIDTH // 2) * 3


def frames_shown(png: bytes) -> list[bytes]:
    """Each frame as a viewer shows it: what a part holds is laid over the frame before."""
    shown = bytearray(moving.WIDTH * HEIGHT // 2 * 3)
    found = []
    for tag, data in chunks(png):
        if tag == b"fcTL":
            _, wide, high, left, top = struct.unpack(">5I", data[:20])
        if tag in (b"IDAT", b"fdAT"):
            rows = zlib.decompress(data[4:] if tag == b"fdAT" else data)
            for y in range(high):
                first = ((top + y) * moving.WIDTH + left) * 3
                row = rows[y * (wide * 3 + 1) + 1 : (y + 1) * (wide * 3 + 1)]
                shown[first : first + wide * 3] = row
            found.append(bytes(shown))
    return found


class AMovingPicture(unittest.TestCase):
    def test_it_has_a_whole_frame_for_each_screenshot_with_the_place_that_was_clicked(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "turns.jsonl").write_text(JOURNAL, encoding="utf-8")
            for picture, level in (("turn_0002.png", 40), ("turn_0003.png", 200)):
                png = agent.rgb_to_png(bytes([level]) * (WIDTH * HEIGHT * 3), WIDTH, HEIGHT)
                (folder / picture).write_bytes(png)
            made = [moving.frame_of(folder, turn) for turn in moving.turns_of(folder)]
        frames = [frame for frame, _ in made]
        png = moving.moving_picture(frames, made[0][1])
        self.assertEqual(dict(chunks(png))[b"acTL"], struct.pack(">2I", 2, 0))
        self.assertEqual(frames_shown(png), frames)
        first, last = frames
        self.assertGreater(first[CENTRE], first[CENTRE + 2] + 50)  # orange: red above blue
        self.assertEqual(last[CENTRE : CENTRE + 3], bytes([200] * 3))
