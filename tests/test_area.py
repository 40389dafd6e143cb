"""The working area and its picture: its size, its crop, and the monitors behind it."""

from __future__ import annotations

import base64
import functools
import json
import random
import struct
import unittest
from pathlib import Path
from typing import Any

import agent
from tests.samples import sample
from tests.scripted import PLAN, PROOF, EngineCase, PlainDesktop, call, role_of, text
from tests.test_actuator import Stage
from tests.test_main import CommandLineCase

TOKENS = agent.Config().image_tokens
POINTER_TOKENS = agent.PROFILES["pointer"].settings["image_tokens"]
MILLION = 1024 * 1024


def area(width: int, height: int) -> agent.Rect:
    return agent.Rect(-40, 25, width, height)


def size(width: int, height: int, tokens: int = TOKENS, percent: int = 100) -> tuple[int, int]:
    config = sized(tokens, percent)
    return tuple(agent.frame_size(area(width, height), config))  # type: ignore[return-value]


@functools.cache
def sized(tokens: int, percent: int) -> agent.Config:
    return agent.load_config({"t": {"image_tokens": tokens, "capture_scale_percent": percent}})


def tokens_of(picture: tuple[int, int]) -> int:
    return picture[0] * picture[1] // 1024


def areas(least: int, most: int, number: int) -> list[tuple[int, int]]:
    """So many areas with sides of that many pixels, to four times as long as wide."""
    rng = random.Random(f"{least} {most}")
    found: list[tuple[int, int]] = []
    while len(found) < number:
        width, height = rng.randint(least, most), rng.randint(least, most)
        if max(width, height) <= 4 * min(width, height):
            found.append((width, height))
    return found


class SizeOfThePicture(unittest.TestCase):
    def test_a_usual_screen_gives_the_described_size(self) -> None:
        for screen in ((1920, 1080), (2560, 1440), (3840, 2160), (1600, 900)):
            self.assertEqual(size(*screen), (1536, 864))

    def test_areas_of_every_shape_keep_it(self) -> None:
        shapes = {
            (960, 1080): (928, 1056),
            (400, 700): (384, 672),
            (1080, 1920): (864, 1536),
            (1920, 1200): (1440, 896),
            (1366, 768): (1344, 768),
            (1280, 1024): (1280, 1024),
            (3840, 1080): (2176, 608),
            (5760, 1080): (2592, 480),
        }
        for shape, wanted in shapes.items():
            self.assertEqual(size(*shape), wanted, shape)

    def test_no_area_is_distorted_enlarged_or_over_the_budget(self) -> None:
        some = sample(1500, 300)
        for tokens in (TOKENS, POINTER_TOKENS, 300):
            for width, height in areas(1, 6000, some) + areas(200, 1500, some):
                picture = size(width, height, tokens)
                where = f"{width}x{height} of {tokens} tokens became {picture}"
                self.assertLessEqual(picture[0], width, where)
                self.assertLessEqual(picture[1], height, where)
                self.assertLessEqual(picture[0] * picture[1], tokens * 1024, where)
                # A side of few pixels cannot be rounded by less than one of them.
                bound = 1.02 + (1 / min(picture) if picture[0] % 32 or picture[1] % 32 else 0)
                stretched = picture[0] / width / (picture[1] / height)
                self.assertTrue(1 / bound <= stretched <= bound, where)

    def test_from_768_pixels_a_side_it_is_whole_patches_and_most_of_what_fits(self) -> None:
        for width, height in areas(768, 8000, sample(3000, 600)):
            picture = size(width, height)
            self.assertEqual((picture[0] % 32, picture[1] % 32), (0, 0), (width, height))
            most = min(TOKENS, width * height / 1024)
            self.assertGreater(tokens_of(picture), 0.87 * most, (width, height))

    def test_where_the_area_has_the_pixels_it_has_the_tokens_that_pointing_wants(self) -> None:
        for width, height in areas(400, 8000, sample(4000, 800)):
            if width * height >= 1.12 * MILLION:
                self.assertGreaterEqual(tokens_of(size(width, height)), 1024, (width, height))

    def test_1366x768_has_all_the_tokens_that_fit_without_enlarging_it(self) -> None:
        self.assertEqual(tokens_of(size(1366, 768)), (1366 // 32) * (768 // 32))

    def test_a_small_area_that_no_multiples_fit_is_shown_as_it_is(self) -> None:
        self.assertEqual(size(250, 200), (250, 200))
        self.assertEqual(size(1, 1), (1, 1))
        self.assertEqual(size(20, 500), (20, 500))
        # Nor does a budget that allows none enlarge or stretch it.
        self.assertEqual(size(5760, 1080, 64), (591, 110))

    def test_the_scale_is_of_the_area_and_the_budget_holds_beside_it(self) -> None:
        self.assertEqual(size(1920, 1080, percent=50), (928, 512))
        self.assertEqual(size(1920, 1080, percent=25), (448, 256))
        self.assertEqual(size(3840, 2160, percent=90), (1536, 864))

    def test_pointer_has_the_nearest_size_above_1024_tokens(self) -> None:
        self.assertEqual(size(1920, 1080, POINTER_TOKENS), (1376, 768))
        for screen in ((1920, 1200), (1600, 1200), (1280, 1024), (3440, 1440), (2256, 1504)):
            self.assertIn(
                tokens_of(size(*screen, POINTER_TOKENS)), range(1024, POINTER_TOKENS + 1), screen
            )


class Settings(unittest.TestCase):
    def test_a_size_that_was_set_is_obeyed_exactly(self) -> None:
        config = agent.load_config({"env": {"screen_capture_w": "1344", "screen_capture_h": 756}})
        self.assertEqual(agent.frame_size(area(960, 1080), config), (1344, 756))

    def test_one_side_alone_is_refused(self) -> None:
        for name in ("screen_capture_w", "screen_capture_h"):
            config = agent.load_config({"env": {name: 800}})
            with self.assertRaisesRegex(agent.ConfigError, "go together"):
                agent.frame_size(area(960, 1080), config)

    def test_budget_and_scale_are_settings(self) -> None:
        config = agent.load_config({"file": {"image_tokens": 300}})
        self.assertEqual(agent.frame_size(area(1920, 1080), config), (736, 416))
        config = agent.load_config({"file": {"capture_scale_percent": 25}})
        self.assertEqual(agent.frame_size(area(1920, 1080), config), (448, 256))


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

    def test_fractions_are_two_corners_on_the_primary_monitor(self) -> None:
        self.assertEqual(self.resolve("0.0,0.0,0.5,1.0"), (0, 0, 960, 1080))
        self.assertEqual(self.resolve("0.5,0.25,1,0.75"), (960, 270, 961, 540))

    def test_crops_side_by_side_share_no_pixel_and_leave_none_out(self) -> None:
        for cut in (0.1, 0.25, 0.33333, 0.5, 0.61803):
            left, right = self.resolve(f"0.0,0,{cut},1"), self.resolve(f"{cut},0,1.0,1")
            self.assertEqual((right.left, left.width + right.width), (left.width, 1921))

    def test_whole_numbers_stay_pixels_of_the_whole_screen(self) -> None:
        self.assertEqual(self.resolve("-1280,0,640,480"), (-1280, 0, 640, 480))
        self.assertEqual(self.resolve("0,0,1,1"), (0, 0, 1, 1))

    def test_other_fractions_are_refused(self) -> None:
        for setting in (
            "0.5,0,0.5,1",
            "0.6,0,0.5,1",
            "-0.1,0,0.5,1",
            "0.0,0,1.1,1",
            "0.1,0.1,0.2",
            "nan,0.0,1,1",
            "0.0,0,0.0001,1",
        ):
            with self.assertRaisesRegex(agent.ConfigError, "X1,Y1,X2,Y2"):
                self.resolve(setting)


class WhatIsKept(EngineCase):
    def run_once(self, **settings: Any) -> Path:
        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role_of(request) == "planner":
                return PLAN
            if "tools" in request:
                return call("report_mission_complete", evidence=PROOF)
            return text("YES")

        trial = self.trial(decide, screen_capture_w=0, screen_capture_h=0, **settings)
        self.begin(trial)
        self.assertEqual(trial.run().kind, "completed")
        return trial.folder

    def test_journal_and_report_have_the_size_of_the_frame(self) -> None:
        folder = self.run_once()
        lines = (folder / "turns.jsonl").read_text(encoding="utf-8").splitlines()
        looks = [record for record in map(json.loads, lines) if record["kind"] == "look"]
        sizes = {(look["width"], look["height"]) for look in looks}
        png = (folder / looks[0]["screenshot"]).read_bytes()
        self.assertEqual(sizes, {struct.unpack(">2I", png[16:24])})
        # The plain desktop has 64x36 pixels, for which no multiples of 32 are undistorted.
        self.assertEqual(sizes, {(64, 36)})

    def test_an_image_costs_what_its_own_size_says(self) -> None:
        pixels = bytes(64 * 96 * 4)
        image = base64.b64encode(agent.encode_png(pixels, 64, 96))
        self.assertEqual(agent.Message("user", "", image).image_tokens, 6)
        self.assertEqual(agent.Message("user", "").image_tokens, 0)
        self.assertEqual(base64.b64decode(image)[16:24], struct.pack(">2I", 64, 96))


class OnTheCommandLine(CommandLineCase):
    def test_a_run_with_the_chosen_size_is_replayed_with_the_same(self) -> None:
        chosen = {"AGENT_IMAGE_W": "0", "AGENT_IMAGE_H": "0"}
        crop = ("--area", "0.0,0.0,1.0,1.0", "--set", "image_tokens=500")
        code, out, _ = self.main("--demo", *crop, environ=chosen)
        self.assertEqual(code, 0, out)
        look = next(record for record in self.records() if record["kind"] == "look")
        # Of the demo's 1280x720; the replay is not told of the 500 tokens.
        self.assertEqual((look["width"], look["height"]), (928, 512))
        unset = {"AGENT_IMAGE_W": "", "AGENT_IMAGE_H": ""}
        code, out, _ = self.main("--demo", "--replay", "1", environ=unset)
        self.assertEqual(code, 0, out)

    def test_one_side_alone_ends_the_program_with_a_sentence(self) -> None:
        code, _, err = self.main("--demo", environ={"AGENT_IMAGE_W": "800", "AGENT_IMAGE_H": ""})
        self.assertEqual((code, "go together" in err), (2, True), err)


class Gaps(unittest.TestCase):
    """A small monitor beside a large one: below it the virtual screen has a place without pixels."""

    def stage(self) -> Stage:
        monitors = (agent.Rect(0, 0, 1920, 1080), agent.Rect(1920, 0, 1280, 720))
        return Stage(agent.Rect(0, 0, 3200, 1080), monitors=monitors)

    def refused(self, name: str, **arguments: Any) -> None:
        stage = self.stage()
        performed = stage.attempt(name, **arguments)
        self.assertEqual(performed.refused, "invalid_box")
        self.assertFalse(performed.begun)
        self.assertIn("not on any monitor", performed.result)
        self.assertEqual(stage.world.events, [])

    def test_a_target_between_the_monitors_is_refused_with_a_sentence(self) -> None:
        self.refused("click", position=[900, 900])
        self.refused("drag", start=[100, 100], end=[900, 900])

    def test_a_target_on_either_monitor_is_reached(self) -> None:
        stage = self.stage()
        for position in ([300, 900], [900, 300]):
            self.assertEqual(stage.attempt("click", position=position).refused, "")

    def test_scrolling_in_a_middle_that_no_monitor_shows_is_refused_too(self) -> None:
        monitors = (agent.Rect(0, 0, 800, 600), agent.Rect(800, -1200, 800, 600))
        stage = Stage(agent.Rect(0, -1200, 1600, 1800), monitors=monitors)
        performed = stage.attempt("scroll_down")
        self.assertEqual((performed.refused, performed.begun), ("invalid_box", False))
        stage.world.verify()


if __name__ == "__main__":
    unittest.main()
