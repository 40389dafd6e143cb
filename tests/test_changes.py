"""What differs between two pictures, found row by row with shortcuts, against a look at each single pixel."""

from __future__ import annotations

import random
import unittest

import agent


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


def differing(width: int, height: int, changes: int, chance: random.Random) -> tuple[bytes, bytes]:
    """Two pictures that differ in so many places at most."""
    before = bytes(width * height * 4)
    after = bytearray(before)
    for _ in range(changes):
        after[chance.randrange(len(after))] = chance.randrange(256)
    return before, bytes(after)


class Bands(unittest.TestCase):
    def test_they_are_those_that_a_look_at_each_pixel_finds(self) -> None:
        chance = random.Random(14)
        for _ in range(300):
            width, height = chance.randint(1, 20), chance.randint(1, 10)
            before, after = differing(width, height, chance.randint(1, 30), chance)
            found = [tuple(band) for band in agent._differing_bands(before, after, width)]
            self.assertEqual(found, bands(before, after, width))


class Alike(unittest.TestCase):
    def test_two_pictures_are_alike_where_no_region_changed(self) -> None:
        chance = random.Random(14)
        found = set()
        for _ in range(300):
            before = bytes(20 * 60 * 4)
            after = bytearray(before)
            for _ in range(chance.randint(0, 2)):
                x, y = chance.randrange(16), chance.randrange(10)
                for row in range(y, y + chance.randint(5, 50)):
                    at = (row * 20 + x) * 4
                    width = chance.choice((1, 3, 4)) if row % 9 else chance.choice((1, 5))
                    after[at : at + width * 4] = b"\xff" * width * 4
            region = agent.changed_region(before, bytes(after), 20)
            rows = (agent._rows(picture, 80) for picture in (before, bytes(after)))
            alike = agent.are_alike(*rows)
            self.assertIs(alike, region is None)
            found.add((alike, before == after))
        self.assertEqual(found, {(True, True), (True, False), (False, False)})


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
