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
            found = agent.difference(before, after, width)
            edges = found and (found.left, found.top, found.right, found.bottom)
            self.assertEqual(edges or None, box or None)
        self.assertGreater(carets, 20)


if __name__ == "__main__":
    unittest.main()
