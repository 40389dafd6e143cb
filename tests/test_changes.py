"""What differs between two pictures, found row by row with shortcuts, against a look at each single pixel."""

from __future__ import annotations

import random
import unittest

import agent

CARET_WIDTH_MOST, CARET_HEIGHTS = 4, range(8, 49)  # in pixels of a frame


def bands(before: bytes, after: bytes, width: int) -> list[tuple[int, int, int, int]]:
    """The adjoining rows that differ: left, top, right, bottom; each pixel is looked at."""
    found: list[tuple[int, int, int, int]] = []
    for y in range(len(after) // (width * 4)):
        first = y * width * 4
        places = [slice(first + x * 4, first + x * 4 + 4) for x in range(width)]
        unlike = [x for x, place in enumerate(places) if before[place] != after[place]]
        if not unlike:
            continue
        left, top, right = unlike[0], y, unlike[-1] + 1
        if found and found[-1][3] == y:
            above = found.pop()
            left, top, right = min(left, above[0]), above[1], max(right, above[2])
        found.append((left, top, right, y + 1))
    return found


def is_caret(left: int, top: int, right: int, bottom: int) -> bool:
    """A caret is a narrow line as high as a line of text."""
    return right - left <= CARET_WIDTH_MOST and bottom - top in CARET_HEIGHTS


def differing(width: int, height: int, changes: int, chance: random.Random) -> tuple[bytes, bytes]:
    """Two pictures that differ in so many places at most."""
    before = bytes(width * height * 4)
    after = bytearray(before)
    for _ in range(changes):
        after[chance.randrange(len(after))] = chance.randrange(256)
    return before, bytes(after)


class Regions(unittest.TestCase):
    def test_a_region_is_the_box_of_all_that_differs_but_for_one_caret(self) -> None:
        chance = random.Random(14)
        carets = 0
        for _ in range(600):
            width, height = chance.choice(((1, 9), (2, 30), (20, 10), (20, 60)))
            before, after = differing(width, height, chance.randint(0, 30), chance)
            wanted = bands(before, after, width)
            narrow = [band for band in wanted if is_caret(*band)]
            if len(narrow) == 1:
                wanted.remove(narrow[0])
                carets += 1
            lefts, tops, rights, bottoms = zip(*wanted, strict=True) if wanted else [()] * 4
            box = wanted and (min(lefts), min(tops), max(rights), max(bottoms))
            found = agent.changed_region(before, after, width)
            edges = found and (found.left, found.top, found.right, found.bottom)
            self.assertEqual(edges or None, box or None)
            rows = [
                [picture[at : at + width * 4] for at in range(0, len(after), width * 4)]
                for picture in (before, after)
            ]
            self.assertIs(agent.are_alike(*rows), found is None)
        self.assertGreater(carets, 20)


class Shares(unittest.TestCase):
    def test_a_replay_counts_the_pixels_of_a_box_that_differ(self) -> None:
        one = bytes(300 * 200 * 3)
        other = bytearray(one)
        for x, y in ((12, 21), (15, 21), (40, 39), (9, 30), (50, 30)):
            at = (y * 300 + x) * 3
            other[at : at + 3] = b"\xff\xff\xff"
        share = agent._differing_pixels(one, other, 300, agent.Rect(10, 20, 40, 20))
        self.assertEqual(share, 3 / 800)  # two stand beside the box


class Scaling(unittest.TestCase):
    def test_each_pixel_is_the_one_that_its_place_names(self) -> None:
        chance = random.Random(14)
        for width, height in ((8, 6), (7, 5), (24, 3), (1, 1), (30, 20)):
            pixels = chance.randbytes(20 * 14 * 4)
            part = agent.Rect(3, 2, 12, 9)
            scaled = agent.scale_bgrx(pixels, 20, part, width, height)
            for y in range(height):
                for x in range(width):
                    column, row = 3 + x * 12 // width, 2 + y * 9 // height
                    at, to = (row * 20 + column) * 4, (y * width + x) * 4
                    self.assertEqual(scaled[to : to + 4], pixels[at : at + 4], (x, y))


if __name__ == "__main__":
    unittest.main()
