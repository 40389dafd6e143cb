"""What the program sees: the working area and its picture, when a screen is at rest, and what an act changed."""

from __future__ import annotations

import functools
import math
import random
import unittest
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from agent import Canvas, Rect
from tests.samples import sample
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, PlainDesktop, call, role_of
from tests.seams import act, rgb_picture

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
    ((960, 1080), (960, 1080), {}),
    ((1080, 1920), (864, 1536), {}),
    ((1920, 1200), (1440, 896), {}),
    ((3840, 1080), (2144, 608), {}),
    ((5760, 1080), (2660, 498), {}),
    # A small area that no multiples fit is shown as it is; nor does a budget that allows none enlarge or stretch it.
    ((250, 200), (250, 200), {}),
    ((20, 500), (20, 500), {}),
    ((5760, 1080), (591, 110), {"tokens": 64}),
    ((1920, 1080), (739, 415), {"tokens": 300}),
    ((1920, 1080), (960, 540), {"percent": 50}),
    ((1920, 1080), (480, 270), {"percent": 25}),
    ((1920, 1080), (1376, 768), {"tokens": POINTER_TOKENS}),
]  # fmt: skip


class SizeOfThePicture(unittest.TestCase):
    def test_an_area_gives_the_described_size(self) -> None:
        for shape, wanted, settings in SIZES:
            self.assertEqual(size(*shape, **settings), wanted, shape)

    def test_no_area_is_distorted_enlarged_or_of_too_many_tokens_or_too_few(self) -> None:
        some = sample(1500, 300)
        for tokens in (TOKENS, POINTER_TOKENS, 300):
            for width, height in areas(1, 6000, some) + areas(400, 8000, some):
                picture = size(width, height, tokens)
                where = f"{width}x{height} of {tokens} tokens became {picture}"
                self.assertLessEqual(picture[0], width, where)
                self.assertLessEqual(picture[1], height, where)
                self.assertLessEqual(picture[0] * picture[1], tokens * 1024, where)
                # A side of few pixels cannot be rounded by less than one of them.
                bound = 1.021 + (1 / min(picture) if picture[0] % 32 or picture[1] % 32 else 0)
                stretched = picture[0] / width / (picture[1] / height)
                self.assertTrue(1 / bound <= stretched <= bound, where)
                if tokens != TOKENS:
                    continue
                if min(width, height) >= 768:
                    most = min(TOKENS * 1024, width * height)
                    self.assertGreater(picture[0] * picture[1], 0.87 * most, where)
                if width * height >= 1.12 * MILLION:  # the least for pointing
                    self.assertGreaterEqual(picture[0] * picture[1], MILLION, where)


PRIMARY = agent.Rect(0, 0, 1921, 1080)


class Screens(PlainDesktop):
    """There are monitors left and right of the primary one."""

    def screen(self) -> agent.Rect:
        return agent.Rect(-1280, 0, 1280 + 1921 + 800, 1080)

    def monitor_at(self, point: agent.Point) -> agent.Rect:
        return PRIMARY if PRIMARY.contains(point) else super().monitor_at(point)


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
            ("0,0,32,32", (0, 0, 32, 32)),
        ):
            self.assertEqual(self.resolve(setting), wanted)

    def test_while_there_is_no_primary_monitor_a_look_waits_for_one(self) -> None:
        trial = self.trial(lambda _: PLAN)
        begin = trial.clock.now()
        there = trial.desktop.monitor_at

        def monitor_at(point: agent.Point) -> agent.Rect:
            is_back = trial.clock.now() >= begin + 5
            return there(point) if is_back else agent.Rect(0, 0, 0, 0)

        trial.desktop.monitor_at = monitor_at
        self.assertEqual(trial.look().frame.area, PRIMARY)
        self.assertGreaterEqual(trial.clock.now(), begin + 5)

    def test_crops_side_by_side_share_no_pixel_and_leave_none_out(self) -> None:
        for cut in (0.1, 0.25, 0.33333, 0.5, 0.61803):
            left, right = self.resolve(f"0.0,0,{cut},1"), self.resolve(f"{cut},0,1.0,1")
            self.assertEqual((right.left, left.width + right.width), (left.width, 1921))

    def test_other_fractions_are_refused(self) -> None:
        settings = """0.5,0,0.5,1 0.6,0,0.5,1 -0.1,0,0.5,1 0.0,0,1.1,1 0.1,0.1,0.2 nan,0.0,1,1
            0.0,0,0.0001,1 0,0,1,1 0,0,640,31 0.0,0.0,0.5,0.01"""
        for setting in settings.split():
            with self.assertRaisesRegex(agent.ConfigError, "X1,Y1,X2,Y2"):
                trial = self.trial(lambda _: PLAN, area=setting)
                agent.resolve_area(trial.engine.config, trial.desktop)

    def test_an_area_whose_monitor_was_unplugged_is_waited_for_and_is_no_wrong_usage(self) -> None:
        trial = self.trial(lambda _: PLAN, area="-1280,0,640,480", blind_patience=20)
        trial.look()
        both, one = trial.desktop.screen, lambda: PRIMARY
        trial.desktop.screen = one
        trial.clock.at(5, lambda: setattr(trial.desktop, "screen", both))
        self.assertEqual(trial.look(2).frame.area.left, -1280)
        self.assertIn("paused: The area -1280,0,640,480 is not on the screen", self.lines[0])
        trial.desktop.screen = one
        with self.assertRaisesRegex(agent.Win32Error, "plug its monitor in") as caught:
            trial.look(3)
        self.assertEqual(caught.exception.exit_code, 3)


class Huge(EngineCase):
    def test_huge_screens_are_kept_in_64_mb_and_a_new_letter_on_them_is_seen(self) -> None:
        width, height = sample((7680, 4320), (3840, 2160))
        screens = self.trial(lambda _: PLAN).engine.progress.screens
        plain = b"\x40\x40\x40\0" * (width * height)
        whole = agent.Rect(0, 0, width, height)

        def frame(number: int) -> agent.Frame:
            canvas = agent.Canvas(width, height, plain)
            canvas.fill(agent.Rect(40 * number, 1001, 15, 33), 0xFFFFFF)
            pixels = bytes(canvas.pixels)
            return agent.Frame(number, width, height, pixels, pixels, whole, whole, 0.0)

        box = agent.Rect(0, 900, 2000, 200)
        news = [screens.is_new(frame(number), box) for number in (*range(14), 13)]
        self.assertEqual(news, [True] * 14 + [False])
        self.assertLess(sum(len(pixels) for _, pixels in screens), 64 << 20)


GREY = 0x808080


def picture(*parts: tuple[Rect, int], width: int = 320, height: int = 180) -> bytes:
    canvas = Canvas(width, height)
    canvas.fill(Rect(0, 0, width, height), 0xF0F0F0)
    for rect, colour in parts:
        canvas.fill(rect, colour)
    return bytes(canvas.pixels)


CARET = (Rect(100, 50, 2, 16), 0x000000)


# After an act: to the first look, between two, and to the first change.
FLOOR_MS, INTERVAL_MS, PATIENCE_MS = 50, 30, 250


class Regions(EngineCase):
    def test_a_region_is_the_box_of_all_pixels_that_differ_but_for_one_caret(self) -> None:
        there = (Rect(200, 100, 20, 30), GREY)
        no_carets = [Rect(100, 50, *size) for size in ((4, 4), (6, 16), (2, 60))]
        rows = [(picture(), picture((box, GREY)), box) for box in no_carets]
        rows += [
            (picture(), picture((Rect(10, 20, 5, 5), GREY), there), Rect(10, 20, 210, 110)),
            (picture(), picture(), None),
            (picture(), picture(CARET), None),
            (picture(CARET), picture(there), there[0]),
            (picture(), picture(CARET, (Rect(30, 100, 2, 16), 0)), Rect(30, 50, 72, 66)),
        ]
        for before, after, wanted in rows:
            self.assertEqual(agent.difference(before, after, 320), wanted)


class Settling(EngineCase):
    """The desktop shows, at each virtual time after the act, what `shows` says."""

    base = FEWER_REQUESTS

    def act(self, shows: Any, **settings: Any) -> tuple[bool | None, float]:
        """Whether an act changed the screen, and after how many ms the next frame was taken."""
        trial = self.trial(lambda r: PLAN, **settings)
        desktop, now = trial.desktop, trial.clock.now
        pressed: list[float] = []
        desktop.key = lambda name, down: pressed.append(now())

        def glance(_area: Rect, width: int, height: int) -> bytes:
            passed = (now() - pressed[-1]) * 1000 if pressed else -1.0
            part = Rect(0, 0, width // 2, height // 2)
            return picture((part, shows(passed)), width=width, height=height)

        desktop.glance = glance
        heard: list[Any] = []
        trial.listen(heard.append)
        changed = trial.perform(act("press_key", key="a"), trial.look(1), 1).changed
        screens = [item.screen for item in heard if isinstance(item, agent.Shown)]
        (settled,) = (screen for screen in screens if isinstance(screen, agent.Frame))
        return changed, (settled.taken_at - pressed[-1]) * 1000

    def test_the_frame_is_taken_only_when_the_screen_stays_as_it_is(self) -> None:
        for rest in (10, 130, 333, 1500):
            changed, taken = self.act(
                lambda ms, rest=rest: 0 if ms < 0 else min(int(ms), rest) * 1000 + 1
            )
            self.assertTrue(changed)
            self.assertTrue(rest <= taken <= rest + 5 * INTERVAL_MS + FLOOR_MS)

    def test_neither_a_pause_is_taken_for_rest_nor_is_anything_waited_for_in_vain(self) -> None:
        """Rows: what is shown, whether it is a change, from when to when the frame is taken."""

        def stripes(ms: float) -> int:  # one every 30 ms but for one pause, until 600
            return 0 if ms < 0 else 1 + int(min(ms, 600) if not 200 <= ms < 280 else 200) // 30

        looks, cap = 2 * INTERVAL_MS, agent.Config().settle_cap_ms
        for shows, changes, least, most in (
            (stripes, True, 600, cap),
            (lambda ms: int(ms >= 0), True, 0, FLOOR_MS + looks),
            (lambda ms: 0x101010, False, PATIENCE_MS, PATIENCE_MS + looks),
            (lambda ms: 0x101010 if ms < 200 else 0x202020, True, 200, cap),
            (lambda ms: 0 if ms < 0 else int(ms) + 1, True, cap, cap + looks),
        ):
            changed, taken = self.act(shows)
            self.assertEqual(changed, changes)
            self.assertTrue(least <= taken <= most, (least, taken, most))
        self.act(lambda ms: 0x101010, settle_cap_ms=0)  # a cap below the patience: it ends, too

    def test_the_programs_own_console_that_never_rests_is_neither_unrest_nor_a_change(self) -> None:
        console = agent.Window(7, "agent", "python.exe", Rect(0, 0, 9, 9), own=True)
        with mock.patch.object(self.desktop_type, "window_at", lambda *_: console):
            _, taken = self.act(lambda ms: max(0, int(ms // 30)))
        self.assertTrue(PATIENCE_MS <= taken < PATIENCE_MS + 2 * INTERVAL_MS)


class NextLook(EngineCase):
    """The frame at rest after an act is the next look, if a glance shows that nothing has changed since."""

    def is_the_settled_one(self, meanwhile: Any = lambda trial: None) -> bool:
        """Whether the look after an act and what happens then is the frame at rest."""
        trial = self.trial(lambda r: PLAN)
        heard: list[Any] = []
        trial.listen(heard.append)
        trial.perform(act("press_key", key="a"), trial.look(1), 1)
        screens = [item.screen for item in heard if isinstance(item, agent.Shown)]
        (settled,) = (screen for screen in screens if isinstance(screen, agent.Frame))
        meanwhile(trial)
        look = trial.look(2)
        pixels, width, height = rgb_picture(look.png)
        self.assertEqual((width, height), (look.frame.width, look.frame.height))
        self.assertEqual(pixels[::3], look.frame.pixels[2::4])  # the picture is that frame's
        return bool(look.frame.number == settled.number)

    def test_it_is_where_nothing_happened(self) -> None:
        self.assertTrue(self.is_the_settled_one())

    def test_it_is_not_where_anything_did(self) -> None:
        def waits(trial: Any) -> None:
            trial.clock.advance(2)

        def draws(trial: Any) -> None:
            trial.desktop.inputs.append(("somebody else",))

        def moves(trial: Any) -> None:
            trial.desktop.place = agent.Point(7, 7)

        def retitles(trial: Any) -> None:
            trial.desktop.title = "Another"

        def zooms(trial: Any) -> None:
            trial.zoom(agent.Point(30, 20))

        def hides(trial: Any) -> None:
            trial.blank()

        def looks(trial: Any) -> None:
            trial.look(2)

        for happens in (waits, draws, moves, retitles, zooms, hides, looks):
            with self.subTest(happens.__name__):
                self.assertFalse(self.is_the_settled_one(happens))


class Locked(PlainDesktop):
    """A desktop that nobody can look at from `locked_at` to `free_at`, as behind a UAC prompt."""

    locked_at, free_at = math.inf, 0.0

    def refuse(self) -> None:
        if self.locked_at <= self.clock.now() < self.free_at:
            raise agent.Win32Error("The desktop is locked.")

    def foreground(self) -> agent.Window | None:
        self.refuse()
        return super().foreground()

    def glance(self, area: Rect, width: int, height: int) -> bytes:
        self.refuse()
        return super().glance(area, width, height)


class LockedMeanwhile(EngineCase):
    desktop_type = Locked

    def test_a_lock_after_an_act_or_in_a_wait_is_waited_for_as_one_before_it_is(self) -> None:
        for seconds in (10.0, agent.Config().blind_patience + 10):
            for waits in (False, True):
                trial = self.trial(lambda r: PLAN)
                look = trial.look(1)
                trial.perform(act("press_key", key="a"), look, 1)
                now = trial.clock.now()
                trial.desktop.locked_at, trial.desktop.free_at = now, now + seconds
                watch = partial(trial.engine.eyes.watch, look.frame, 5.0)
                see = watch if waits else partial(trial.look, 2)
                with self.subTest(seconds=seconds, waits=waits):
                    if seconds == 10.0:
                        see()
                        self.assertGreaterEqual(trial.clock.now(), now + seconds)
                    else:
                        self.assertRaisesRegex(agent.Win32Error, "It was so for 30 s", see)


class NoPointer(EngineCase):
    def test_an_act_where_the_mouse_is_is_refused_while_windows_does_not_tell_where(self) -> None:
        for name in ("click_here", "scroll_down"):
            trial = self.trial(lambda r: PLAN)
            look = trial.look(1)
            refusing = agent.Win32Error("Windows refuses GetCursorPos")
            trial.desktop.cursor = mock.Mock(side_effect=refusing)
            deed = trial.perform(act(name), look, 1)
            self.assertIn("Windows refuses GetCursorPos", deed.result)
            self.assertEqual(trial.inputs, [])


class Screenshots(EngineCase):
    base = FEWER_REQUESTS

    def test_a_screenshot_that_cannot_be_written_ends_the_run_before_the_next_act(self) -> None:
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else call("press_keyboard_key", key="a")
        )
        full = OSError(28, "No space left on device")
        with mock.patch.object(Path, "write_bytes", side_effect=full):
            self.assertRaisesRegex(agent.AgentError, "No space left", trial.run)
        self.assertEqual(trial.inputs, [])
        trial.close()  # says nothing more


class DarkAtFirst(PlainDesktop):
    """A screen of one colour for its first three captures, as that of a minimised remote session."""

    def glance(self, area: Rect, width: int, height: int) -> bytes:
        if self.number <= 3:
            return bytes(4 * width * height)
        return super().glance(area, width, height)


class Blank(EngineCase):
    desktop_type = DarkAtFirst

    def test_a_blank_screen_is_waited_for_and_no_model_sees_it(self) -> None:
        trial = self.trial(lambda r: PLAN, max_steps=1)
        trial.run()
        self.assertRegex(self.lines[0], "^paused: The screen shows one single colour; restore the")
        for look in trial.records("look"):
            png = (trial.folder / look["screenshot"]).read_bytes()
            self.assertGreater(len(set(rgb_picture(png)[0])), 1, look)


if __name__ == "__main__":
    unittest.main()
