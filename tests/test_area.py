"""The working area and its picture: its size, its crop, and the monitors behind it."""

from __future__ import annotations

import functools
import random
import unittest

import agent
from tests.samples import sample
from tests.scripted import PLAN, EngineCase, PlainDesktop

TOKENS = agent.Config().image_tokens
POINTER_TOKENS = agent.PROFILES["pointer"].settings["image_tokens"]
MILLION = 1024 * 1024


def size(width: int, height: int, tokens: int = TOKENS, percent: int = 100) -> tuple[int, int]:
    area = agent.Rect(-40, 25, width, height)
    return tuple(agent.frame_size(area, sized(tokens, percent)))  # type: ignore[return-value]


@functools.cache
def sized(tokens: int, percent: int) -> agent.Config:
    return agent.load_config({"t": {"image_tokens": tokens, "capture_scale_percent": percent}})


def areas(least: int, most: int, number: int) -> list[tuple[int, int]]:
    """So many areas with sides of that many pixels, to four times as long as wide."""
    rng = random.Random(f"{least} {most}")
    found: list[tuple[int, int]] = []
    while len(found) < number:
        width, height = rng.randint(least, most), rng.randint(least, most)
        if max(width, height) <= 4 * min(width, height):
            found.append((width, height))
    return found


# Area, picture, and where they are not those that ship, its tokens and percent.
SIZES: list[tuple[tuple[int, int], tuple[int, int], dict[str, int]]] = [
    *((screen, (1536, 864), {}) for screen in ((1920, 1080), (2560, 1440), (3840, 2160), (1600, 900))),
    ((960, 1080), (928, 1056), {}),
    ((400, 700), (384, 672), {}),
    ((1080, 1920), (864, 1536), {}),
    ((1920, 1200), (1440, 896), {}),
    ((1366, 768), (1344, 768), {}),
    ((1280, 1024), (1280, 1024), {}),
    ((3840, 1080), (2176, 608), {}),
    ((5760, 1080), (2592, 480), {}),
    # A small area that no multiples fit is shown as it is; nor does a budget that allows none enlarge or stretch it.
    ((250, 200), (250, 200), {}),
    ((1, 1), (1, 1), {}),
    ((20, 500), (20, 500), {}),
    ((5760, 1080), (591, 110), {"tokens": 64}),
    ((1920, 1080), (736, 416), {"tokens": 300}),
    ((1920, 1080), (928, 512), {"percent": 50}),
    ((1920, 1080), (448, 256), {"percent": 25}),
    ((3840, 2160), (1536, 864), {"percent": 90}),
    ((1920, 1080), (1376, 768), {"tokens": POINTER_TOKENS}),
]  # fmt: skip


class SizeOfThePicture(unittest.TestCase):
    def test_an_area_gives_the_described_size(self) -> None:
        for shape, wanted, settings in SIZES:
            self.assertEqual(size(*shape, **settings), wanted, shape)

    def test_no_area_is_distorted_enlarged_over_the_budget_or_below_what_pointing_needs(
        self,
    ) -> None:
        some = sample(1500, 300)
        for tokens in (TOKENS, POINTER_TOKENS, 300):
            for width, height in areas(1, 6000, some) + areas(400, 8000, some):
                picture = size(width, height, tokens)
                where = f"{width}x{height} of {tokens} tokens became {picture}"
                self.assertLessEqual(picture[0], width, where)
                self.assertLessEqual(picture[1], height, where)
                self.assertLessEqual(picture[0] * picture[1], tokens * 1024, where)
                # A side of few pixels cannot be rounded by less than one of them.
                bound = 1.02 + (1 / min(picture) if picture[0] % 32 or picture[1] % 32 else 0)
                stretched = picture[0] / width / (picture[1] / height)
                self.assertTrue(1 / bound <= stretched <= bound, where)
                if tokens != TOKENS:
                    continue
                if min(width, height) >= 768:  # whole patches
                    self.assertEqual((picture[0] % 32, picture[1] % 32), (0, 0), where)
                    most = min(TOKENS * 1024, width * height)
                    self.assertGreater(picture[0] * picture[1], 0.87 * most, where)
                if width * height >= 1.12 * MILLION:  # the least for pointing
                    self.assertGreaterEqual(picture[0] * picture[1], MILLION, where)


class Screens(PlainDesktop):
    """There are monitors left and right of the primary one."""

    def screen(self) -> agent.Rect:
        return agent.Rect(-1280, 0, 1280 + 1921 + 800, 1080)

    def primary(self) -> agent.Rect:
        return agent.Rect(0, 0, 1921, 1080)


class Crop(EngineCase):
    desktop_type = Screens

    def resolve(self, setting: str) -> agent.Rect:
        """The part of the screens that is looked at."""
        return self.trial(lambda _: PLAN, area=setting).look().frame.area

    def test_fractions_are_corners_on_the_primary_monitor_and_whole_numbers_pixels(self) -> None:
        for setting, wanted in (
            ("0.0,0.0,0.5,1.0", (0, 0, 960, 1080)),
            ("0.5,0.25,1,0.75", (960, 270, 961, 540)),
            ("-1280,0,640,480", (-1280, 0, 640, 480)),
            ("0,0,1,1", (0, 0, 1, 1)),
        ):
            self.assertEqual(self.resolve(setting), wanted)

    def test_crops_side_by_side_share_no_pixel_and_leave_none_out(self) -> None:
        for cut in (0.1, 0.25, 0.33333, 0.5, 0.61803):
            left, right = self.resolve(f"0.0,0,{cut},1"), self.resolve(f"{cut},0,1.0,1")
            self.assertEqual((right.left, left.width + right.width), (left.width, 1921))

    def test_other_fractions_are_refused(self) -> None:
        settings = """0.5,0,0.5,1 0.6,0,0.5,1 -0.1,0,0.5,1 0.0,0,1.1,1 0.1,0.1,0.2 nan,0.0,1,1
            0.0,0,0.0001,1"""
        for setting in settings.split():
            with self.assertRaisesRegex(agent.ConfigError, "X1,Y1,X2,Y2"):
                self.resolve(setting)


if __name__ == "__main__":
    unittest.main()
