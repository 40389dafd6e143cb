"""The Windows desktop on a simulated Windows: what it sees, what it releases, where its input lands."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import agent
from agent import Point, Rect
from tests.fakes import (
    COURTESY,
    CURSORS,
    NEVER_FAIL,
    POINTER_COLOUR,
    RELEASES,
    FakeWin32,
    Foreground,
    Pointer,
    windows_desktop,
)
from tests.samples import sample
from tests.seams import VK_MAP

PRIMARY = Rect(0, 0, 1920, 1080)
LAYOUTS = {
    "one": [PRIMARY],
    "odd size": [Rect(0, 0, 1366, 769)],
    "one to the left": [Rect(0, 0, 2560, 1440), Rect(-1920, 200, 1920, 1080)],
    "above and right": [
        Rect(0, 0, 1680, 1050),
        Rect(1680, -1110, 3840, 2160),
        Rect(-1080, -500, 1080, 1920),
    ],
    "very wide": [Rect(0, 0, 3840, 2160), Rect(3840, 0, 5120, 1440), Rect(-3840, -7, 3840, 2160)],
}
OWNER = {
    "screen DC": "ReleaseDC",
    "memory DC": "DeleteDC",
    "bitmap": "DeleteObject",
    "cursor bitmap": "DeleteObject",
    "desktop": "CloseDesktop",
    "process": "CloseHandle",
    "token": "CloseHandle",
}
SENTENCE = r"^[A-Z][^\n]*[.]$"


def bgrx(colour: int) -> bytes:
    return colour.to_bytes(4, "little")


def view(world: FakeWin32, area: Rect) -> bytes:
    """The pixels of an area at their own size, one by one."""
    return b"".join(
        bgrx(world.colour(x, y))
        for y in range(area.top, area.top + area.height)
        for x in range(area.left, area.left + area.width)
    )


def pointer_pixels(frame: agent.Frame) -> set[tuple[int, int]]:
    spots = {
        i // 4
        for i in range(0, len(frame.pixels), 4)
        if frame.pixels[i : i + 4] == bgrx(POINTER_COLOUR)
    }
    return {(spot % frame.width, spot // frame.width) for spot in spots}


MOUSEEVENTF_LEFTUP = 0x0004


class Dpi(unittest.TestCase):
    def awareness(self, missing: tuple[str, ...] = (), **answers: int) -> list[str]:
        world, desktop, _ = windows_desktop(dpi=answers, missing=missing)
        agent.init_dpi(desktop.api)
        self.assertEqual(world.problems, [])
        return world.calls

    def test_per_monitor_v2_comes_first_and_is_enough(self) -> None:
        self.assertEqual(self.awareness(), ["SetProcessDpiAwarenessContext"])

    def test_the_older_call_comes_next(self) -> None:
        for refused in (87, 5):  # not known, set already
            calls = self.awareness(SetProcessDpiAwarenessContext=refused)
            self.assertEqual(calls[1:], ["SetProcessDPIAware"])
        calls = self.awareness(missing=("SetProcessDpiAwarenessContext",))
        self.assertEqual(calls, ["SetProcessDPIAware"])

    def test_a_windows_that_refuses_both_does_not_end_the_program(self) -> None:
        refused = {"SetProcessDpiAwarenessContext": 87, "SetProcessDPIAware": 31}
        self.assertEqual(len(self.awareness(**refused)), 2)


class Screen(unittest.TestCase):
    def test_the_screen_is_the_bounding_rectangle_of_all_monitors(self) -> None:
        for name, monitors in LAYOUTS.items():
            world, desktop, _ = windows_desktop(monitors=monitors)
            self.assertEqual(desktop.screen(), world.screen(), name)
            self.assertEqual(desktop.primary(), monitors[0], name)
        _, desktop, _ = windows_desktop(monitors=LAYOUTS["above and right"])
        self.assertEqual(desktop.screen(), Rect(-1080, -1110, 6600, 2530))

    def test_a_screen_of_no_size_is_an_error(self) -> None:
        _, desktop, _ = windows_desktop(monitors=[Rect(0, 0, 0, 0)])
        with self.assertRaisesRegex(agent.Win32Error, "no size"):
            desktop.screen()


class Capture(unittest.TestCase):
    def test_at_its_own_size_every_pixel_is_exact(self) -> None:
        world, desktop, clock = windows_desktop(cursor="hidden")
        area = Rect(250, 250, 64, 36)
        frame = desktop.capture(area, 64, 36)
        self.assertEqual(frame.clean, view(world, area))
        self.assertEqual(frame.pixels, frame.clean)
        self.assertEqual(
            (frame.width, frame.height, frame.area, frame.screen), (64, 36, area, PRIMARY)
        )
        self.assertEqual((frame.number, frame.taken_at), (1, clock.now()))
        self.assertEqual(
            frame.clean[:4], bytes([250, 250, 0, 0])
        )  # blue green red unused, top row first
        world.verify()

    def test_an_area_left_of_and_above_the_primary_monitor_is_seen(self) -> None:
        world, desktop, _ = windows_desktop(monitors=LAYOUTS["above and right"], cursor="hidden")
        area = Rect(-1000, -450, 40, 30)
        self.assertEqual(desktop.capture(area, 40, 30).clean, view(world, area))
        world.verify()

    def test_an_area_across_two_monitors_is_seen(self) -> None:
        world, desktop, _ = windows_desktop(monitors=LAYOUTS["one to the left"], cursor="hidden")
        area = Rect(-20, 300, 40, 10)
        self.assertEqual(desktop.capture(area, 40, 10).clean, view(world, area))

    def test_a_scaled_picture_keeps_its_four_corners(self) -> None:
        world, desktop, _ = windows_desktop(cursor="hidden")
        for rect, colour in (
            (Rect(0, 0, 960, 540), 0x112233),
            (Rect(960, 540, 960, 540), 0x445566),
        ):
            world.fill(rect, colour)
        frame = desktop.capture(PRIMARY, 192, 108)
        pixel = [frame.clean[i * 4 : i * 4 + 4] for i in (0, 95, 192 * 54 + 96, 192 * 108 - 1)]
        self.assertEqual(pixel, [bgrx(0x112233)] * 2 + [bgrx(0x445566)] * 2)

    def test_the_default_size_is_taken_whole(self) -> None:
        world, desktop, _ = windows_desktop()
        frame = desktop.capture(PRIMARY, 1536, 864)
        self.assertEqual((len(frame.pixels), len(frame.clean)), (1536 * 864 * 4,) * 2)
        world.verify()

    def test_frames_are_numbered(self) -> None:
        _, desktop, _ = windows_desktop()
        self.assertEqual([desktop.capture(PRIMARY, 16, 9).number for _ in range(3)], [1, 2, 3])

    def test_a_frame_says_which_window_has_the_keyboard(self) -> None:
        shown = Foreground("Büro – 日本", Rect(-8, 5, 300, 200), r"D:\x\Ünï.exe", 77)
        world, desktop, _ = windows_desktop(window=shown)
        window = desktop.capture(PRIMARY, 16, 9).window
        rect = Rect(-8, 5, 300, 200)
        self.assertEqual(
            window, agent.Window(77, "Büro – 日本", "Ünï.exe", rect, class_name="Notepad")
        )
        world.verify()

    def test_an_app_of_the_store_is_known_by_its_own_program_and_not_by_that_of_its_frame(
        self,
    ) -> None:
        host = r"C:\Windows\System32\ApplicationFrameHost.exe"
        frame = Foreground("Inbox", path=host, handle=77, class_name="ApplicationFrameWindow")
        world, desktop, _ = windows_desktop(window=frame)
        window = desktop.foreground()
        self.assertEqual(window and window.program, "ApplicationFrameHost.exe")
        path = r"C:\Apps\HxOutlook.exe"
        app = Foreground("", path=path, handle=78, process=5, owner=77, visible=False)
        world.others = [replace(app, class_name="Windows.UI.Core.CoreWindow")]
        window = desktop.foreground()
        self.assertEqual((window.handle, window.program) if window else None, (77, "HxOutlook.exe"))
        world.verify()

    def test_no_window_at_all_is_no_error(self) -> None:
        world, desktop, _ = windows_desktop(window=None)
        self.assertIsNone(desktop.capture(PRIMARY, 16, 9).window)

    def test_a_window_of_a_program_that_may_not_be_asked_has_no_program_name(self) -> None:
        world, desktop, _ = windows_desktop(window=Foreground("Admin", path=""))
        window = desktop.foreground()
        self.assertEqual((window.title, window.program) if window else None, ("Admin", ""))
        world.verify()

    def test_a_window_closed_in_this_very_moment_is_no_window(self) -> None:
        world, desktop, _ = windows_desktop()
        world._shown = lambda _handle: None  # type: ignore[method-assign]
        self.assertIsNone(desktop.capture(PRIMARY, 16, 9).window)
        world.verify()

    def test_a_very_long_title_is_cut(self) -> None:
        world, desktop, _ = windows_desktop(window=Foreground("x" * 5000))
        window = desktop.foreground()
        self.assertEqual(window and window.title, "x" * 511)
        world.verify()

    def test_a_locked_desktop_is_an_error_that_says_what_to_do(self) -> None:
        world, desktop, _ = windows_desktop(locked=True)
        with self.assertRaisesRegex(
            agent.Win32Error, "unlock the screen or close the secure prompt"
        ) as caught:
            desktop.capture(PRIMARY, 16, 9)
        self.assertIn("OpenInputDesktop", str(caught.exception))
        self.assertEqual(caught.exception.code, 5)
        self.assertNotIn("StretchBlt", world.calls)
        world.verify()
        world.locked = False
        self.assertEqual(desktop.capture(PRIMARY, 16, 9).number, 1)

    def test_a_glance_is_the_same_picture_without_the_pointer(self) -> None:
        world, desktop, _ = windows_desktop(cursor="arrow", mouse=Point(10, 10))
        self.assertEqual(
            desktop.glance(Rect(0, 0, 32, 18), 32, 18), view(world, Rect(0, 0, 32, 18))
        )
        self.assertNotIn("DrawIconEx", world.calls)
        world.verify()


class MousePointer(unittest.TestCase):
    def shown(
        self, cursor: str, mouse: Point, area: Rect, width: int, height: int
    ) -> tuple[FakeWin32, agent.Frame]:
        world, desktop, _ = windows_desktop(cursor=cursor, mouse=mouse)
        frame = desktop.capture(area, width, height)
        world.verify()
        return world, frame

    def test_its_hotspot_lies_on_the_spot(self) -> None:
        world, frame = self.shown("cross", Point(116, 115), Rect(80, 80, 80, 80), 80, 80)
        self.assertEqual(world.drawn, [(20, 20, 32, 32)])
        self.assertEqual(
            pointer_pixels(frame), {(x, y) for x in range(20, 52) for y in range(20, 52)}
        )

    def test_it_is_scaled_with_the_picture_and_so_is_its_hotspot(self) -> None:
        world, frame = self.shown("big", Point(400, 300), PRIMARY, 192, 108)  # a tenth
        self.assertEqual(world.drawn, [(36, 27, 9, 8)])
        self.assertEqual(len(pointer_pixels(frame)), 72)

    def test_a_monochrome_pointer_is_half_as_high_as_its_mask(self) -> None:
        world, _ = self.shown("beam", Point(508, 510), Rect(400, 400, 160, 160), 160, 160)
        self.assertEqual(world.drawn, [(100, 100, 32, 32)])

    def test_a_pointer_partly_outside_the_area_is_cut(self) -> None:
        world, frame = self.shown("arrow", Point(90, 95), Rect(100, 100, 50, 50), 50, 50)
        self.assertEqual(world.drawn, [(-10, -5, 32, 32)])
        self.assertEqual(len(pointer_pixels(frame)), 22 * 27)

    def test_a_pointer_on_a_monitor_with_negative_coordinates_is_drawn_in_its_place(self) -> None:
        world, desktop, _ = windows_desktop(
            monitors=LAYOUTS["one to the left"], mouse=Point(-1900, 250)
        )
        desktop.capture(Rect(-1920, 200, 192, 108), 192, 108)
        self.assertEqual(world.drawn, [(20, 50, 32, 32)])

    def test_a_pointer_is_never_scaled_away(self) -> None:
        world, _ = self.shown("arrow", Point(5, 5), PRIMARY, 16, 9)
        self.assertEqual(world.drawn[0][2:], (1, 1))

    def test_a_hidden_pointer_is_not_drawn(self) -> None:
        for cursor in ("hidden", "suppressed", "none"):
            world, frame = self.shown(cursor, Point(20, 20), Rect(0, 0, 64, 36), 64, 36)
            self.assertEqual((world.drawn, frame.pixels), ([], frame.clean), cursor)
            self.assertNotIn("GetIconInfo", world.calls)

    def test_a_pointer_withdrawn_by_its_program_in_this_very_moment_is_not_drawn(self) -> None:
        world, desktop, _ = windows_desktop()
        tell = world._GetCursorInfo

        def withdraw(info: int) -> int:
            answer = tell(info)
            world.pointer = Pointer(handle=0x999)
            return answer

        world._GetCursorInfo = withdraw  # type: ignore[method-assign]
        desktop = agent.WindowsDesktop(agent.Win32(world.resolve, lambda: world.error), world.clock)
        frame = desktop.capture(PRIMARY, 16, 9)
        self.assertEqual((world.drawn, frame.pixels), ([], frame.clean))
        world.verify()

    def test_the_clean_picture_never_shows_the_pointer(self) -> None:
        for cursor in CURSORS:
            world, frame = self.shown(cursor, Point(30, 20), Rect(0, 0, 64, 36), 64, 36)
            self.assertEqual(frame.clean, view(world, Rect(0, 0, 64, 36)), cursor)
            self.assertEqual(frame.pixels != frame.clean, bool(world.drawn), cursor)


class Faults(unittest.TestCase):
    """Every call of a look fails in turn."""

    def sweep(
        self, cursor: str | Pointer, onwards: bool, act: Callable[[agent.WindowsDesktop], Any]
    ) -> int:
        """The number of calls that could fail; `act` is tried once for each."""
        whole = act(windows_desktop(cursor=cursor)[1])
        for number in range(1, 1000):
            world, desktop, _ = windows_desktop(cursor=cursor)
            world.arm(onwards=number) if onwards else world.arm(at=number)
            try:
                result, error = act(desktop), None
            except agent.AgentError as failure:
                result, error = None, failure
            if not world.failed:
                return number - 1
            first = world.failed[0]
            with self.subTest(number=number, function=first, onwards=onwards):
                self.assertEqual(world.problems, [])
                if error is None:
                    self.assertFalse(onwards)
                    self.assertIn(first, COURTESY | NEVER_FAIL | RELEASES)
                    if first != "GetIconInfo":  # the pointer is left out then
                        self.same(result, whole)
                else:
                    self.assertIsInstance(error, agent.Win32Error)
                    self.assertRegex(str(error), SENTENCE)
                    self.assertFalse(not onwards and first in COURTESY)
                self.released(world, onwards)
        raise AssertionError("it never ends")

    def same(self, result: Any, whole: Any) -> None:
        if isinstance(whole, agent.Frame):
            result, whole = (
                (result.pixels, result.clean, result.area),
                (whole.pixels, whole.clean, whole.area),
            )
        self.assertEqual(result, whole)

    def released(self, world: FakeWin32, onwards: bool) -> None:
        """One failure leaves nothing open; where a release fails for ever, it was tried again."""
        if not onwards:
            self.assertEqual(world.leaks(), [])
        for kind in world.leaks():
            self.assertGreaterEqual(world.failed.count(OWNER[kind]), 2, kind)

    def test_a_capture_releases_everything_whichever_call_fails(self) -> None:
        for name in CURSORS:
            for onwards in (False, True) if name == "arrow" else (False,):
                with self.subTest(cursor=name):
                    calls = self.sweep(
                        name, onwards, lambda desktop: desktop.capture(PRIMARY, 32, 18)
                    )
                    self.assertGreaterEqual(
                        calls, 31 if CURSORS[name].flags == 1 and CURSORS[name].handle else 26
                    )

    def test_a_glance_releases_everything_whichever_call_fails(self) -> None:
        for onwards in (False, True):
            self.assertGreater(
                self.sweep("arrow", onwards, lambda desktop: desktop.glance(PRIMARY, 32, 18)), 9
            )

    def test_one_function_failing_for_ever_leaves_open_only_what_it_alone_releases(self) -> None:
        for name in agent.WIN32:
            world, desktop, _ = windows_desktop(cursor="beam")
            world.arm(names={name})
            try:
                desktop.capture(PRIMARY, 32, 18)
            except agent.AgentError as error:
                self.assertIsInstance(error, agent.Win32Error)
            self.assertEqual(world.problems, [], name)
            self.assertEqual({OWNER[kind] for kind in world.leaks()} - {name}, set(), name)

    def test_a_desktop_goes_on_working_after_a_failed_capture(self) -> None:
        world, desktop, _ = windows_desktop()
        for number in range(1, 30):
            world.arm(at=number)
            try:
                desktop.capture(PRIMARY, 32, 18)
            except agent.Win32Error:
                world.arm()
                desktop.capture(PRIMARY, 32, 18)
        world.verify()

    def test_five_hundred_captures_leave_no_handle(self) -> None:
        for name in CURSORS:
            world, desktop, _ = windows_desktop(cursor=name)
            for _ in range(500 // len(CURSORS) + 1):
                desktop.capture(Rect(0, 0, 8, 4), 8, 4)
            world.verify()

    def test_a_read_position_that_fails_is_an_error(self) -> None:
        world, desktop, _ = windows_desktop()
        world.arm(names={"GetCursorPos", "GetDoubleClickTime"})
        for look in (desktop.cursor, desktop.double_click_ms):
            with self.assertRaises(agent.Win32Error):
                look()


def corners(rect: Rect) -> list[Point]:
    columns = (
        rect.left,
        rect.left + 1,
        rect.left + rect.width // 2,
        rect.left + rect.width - 2,
        rect.left + rect.width - 1,
    )
    rows = (
        rect.top,
        rect.top + 1,
        rect.top + rect.height // 2,
        rect.top + rect.height - 2,
        rect.top + rect.height - 1,
    )
    return [Point(x, y) for x in columns for y in rows]


class Moving(unittest.TestCase):
    def test_every_pixel_is_reached_on_every_layout_by_input_events_alone(self) -> None:
        chance = random.Random(2)
        for name, monitors in LAYOUTS.items():
            world, desktop, _ = windows_desktop(monitors=monitors)
            points = [point for monitor in monitors for point in corners(monitor)]
            for _ in range(sample(300, 60)):
                m = chance.choice(monitors)
                points.append(
                    Point(m.left + chance.randrange(m.width), m.top + chance.randrange(m.height))
                )
            for point in points:
                desktop.move(point)
                self.assertEqual((world.mouse, desktop.cursor()), (point, point), name)
            self.assertNotIn("SetCursorPos", world.calls)
            self.assertEqual(world.kinds(), {"move": len(points)})
            world.verify()

    def test_every_column_of_a_wide_screen_is_reached(self) -> None:
        world, desktop, _ = windows_desktop(monitors=[Rect(0, 0, 7680, 40)])
        for x in range(0, 7680, 7):
            desktop.move(Point(x, x % 40))
            self.assertEqual(world.mouse, Point(x, x % 40))
        self.assertNotIn("SetCursorPos", world.calls)

    def test_a_move_that_lands_elsewhere_is_put_right(self) -> None:
        world, desktop, _ = windows_desktop()
        world._mouse_input = lambda *_: None  # type: ignore[method-assign]
        desktop.move(Point(7, 9))
        self.assertEqual(world.mouse, Point(7, 9))

    def test_a_mouse_put_back_shortly_after_a_move_is_moved_again(self) -> None:
        for after in (0.001, 0.005, 0.009):  # remote and virtual screens do that
            world, desktop, clock = windows_desktop(mouse=Point(1, 1))
            clock.at(after, lambda world=world: world._put_mouse(1, 1))
            desktop.move(Point(700, 900))
            self.assertEqual((world.mouse, world.kinds()), (Point(700, 900), {"move": 2}), after)

    def test_a_mouse_that_does_not_move_is_an_error(self) -> None:
        world, desktop, _ = windows_desktop()
        world.mouse_stuck = True
        with self.assertRaisesRegex(agent.Win32Error, r"cannot reach \(7, 9\)"):
            desktop.move(Point(7, 9))
        self.assertLess(sum(world.clock.sleeps), 1)

    def test_a_place_between_the_monitors_is_an_error(self) -> None:
        world, desktop, _ = windows_desktop(monitors=LAYOUTS["one to the left"])
        with self.assertRaises(agent.Win32Error):
            desktop.move(Point(-5, 0))  # the left monitor begins 200 pixels lower


class ButtonsAndWheel(unittest.TestCase):
    def pressed(self, swapped: bool) -> list[tuple[str, bool]]:
        world, desktop, _ = windows_desktop(swapped=swapped)
        for name in ("left", "right", "middle"):
            desktop.button(name, True)
            self.assertEqual(world.held(), [f"button {name}"])
            desktop.button(name, False)
        world.verify()
        return [(event.value, event.down) for event in world.events]

    def test_each_button_goes_down_and_up(self) -> None:
        once = [(name, down) for name in ("left", "right", "middle") for down in (True, False)]
        self.assertEqual(self.pressed(swapped=False), once)

    def test_swapped_buttons_still_click_what_was_asked_for(self) -> None:
        self.assertEqual(self.pressed(swapped=True), self.pressed(swapped=False))

    def test_buttons_swapped_while_one_is_held_do_not_leave_it_down(self) -> None:
        world, desktop, _ = windows_desktop()
        desktop.button("left", True)
        flags = []
        world._mouse_input = lambda *event: flags.append(event[3])  # type: ignore[method-assign]
        world.swapped = True
        desktop.button("left", False)
        self.assertEqual(flags, [MOUSEEVENTF_LEFTUP])

    def test_the_wheel_turns_in_four_directions(self) -> None:
        for units, horizontal, kind in (
            (120, False, "wheel"),
            (-120, False, "wheel"),
            (240, True, "hwheel"),
            (-240, True, "hwheel"),
        ):
            world, desktop, _ = windows_desktop()
            desktop.wheel(units, horizontal)
            self.assertEqual(world.wheel, {"wheel": 0, "hwheel": 0, kind: units})
            world.verify()

    def test_a_negative_turn_is_sent_as_an_unsigned_number(self) -> None:
        world, desktop, _ = windows_desktop()
        data = []
        world._mouse_input = lambda *event: data.append(event[2])  # type: ignore[method-assign]
        desktop.wheel(-120)
        self.assertEqual(data, [0xFFFFFF88])


class Keys(unittest.TestCase):
    EXTENDED = """left right up down home end pageup pagedown insert delete win rwin rctrl ralt menu numdivide
        numenter printscreen numlock""".split()
    PLAIN = """a z 0 9 f1 f12 f24 enter tab escape space backspace shift ctrl alt lshift rshift lctrl lalt num0 num9
        numadd numsubtract nummultiply numdecimal capslock scrolllock pause ; = , - . / ` [ ] ' <""".split()

    def press(self, name: str) -> Any:
        world, desktop, _ = windows_desktop()
        desktop.key(name, True)
        self.assertEqual(len(world.held()), 1)
        desktop.key(name, False)
        world.verify()
        down, up = world.events
        self.assertEqual((down.value, down.extended, down.scan), (up.value, up.extended, up.scan))
        return down

    def test_every_key_goes_down_and_up_with_its_code_and_scan_code(self) -> None:
        for name, code in VK_MAP.items():
            event = self.press(name)
            self.assertEqual(
                (event.kind, event.value, event.scan), ("key", code, code ^ 0x80), name
            )

    def test_keys_beside_the_numpad_are_extended(self) -> None:
        self.assertEqual([name for name in self.EXTENDED if not self.press(name).extended], [])

    def test_other_keys_are_not_extended(self) -> None:
        self.assertEqual([name for name in [*self.PLAIN, "\\"] if self.press(name).extended], [])


class Text(unittest.TestCase):
    def typed(self, text: str) -> FakeWin32:
        world, desktop, _ = windows_desktop()
        desktop.text(text)
        world.verify()
        return world

    def test_characters_arrive_whatever_the_keyboard_layout(self) -> None:
        text = (
            "".join(map(chr, range(32, 127)))
            + "äöüß€“„ñç ŁęЖдΩ あ漢字 한글 עברית عربي हिन्दी e\u0301"
        )
        world = self.typed(text)
        self.assertEqual(world.typed, text)
        self.assertEqual(world.sent, [2 * len(text)])

    def test_emoji_go_as_two_units_pressed_one_after_the_other(self) -> None:
        world = self.typed("a😀\U0010ffff")
        self.assertEqual(world.typed, "a😀\U0010ffff")
        units = [event.value for event in world.events if event.down]
        self.assertEqual(units, [0x61, 0xD83D, 0xDE00, 0xDBFF, 0xDFFF])

    def test_line_ends_and_tabs_are_keys(self) -> None:
        world = self.typed("a\n\tb")
        self.assertEqual(world.typed, "a\n\tb")
        self.assertEqual(
            [event.value for event in world.events if event.kind == "key" and event.down],
            [0x0D, 0x09],
        )
        self.assertNotIn(0x0A, [event.value for event in world.events])


class ShortInput(unittest.TestCase):
    """SendInput takes fewer events than it was given."""

    def test_it_is_an_error_that_tells_how_many_arrived(self) -> None:
        world, desktop, _ = windows_desktop()
        world.insert_at_most = 0
        acts: list[Callable[[], None]] = [
            lambda: desktop.move(Point(1, 1)),
            lambda: desktop.button("left", True),
            lambda: desktop.wheel(120),
            lambda: desktop.key("a", True),
        ]
        for act in acts:
            with self.assertRaisesRegex(agent.Win32Error, r"^Windows took 0 of 1 events; .*\.$"):
                act()
        world.verify()

    def test_a_text_cut_at_any_event_leaves_no_key_down(self) -> None:
        text = "a\n😀\t"
        for taken in range(10):
            world, desktop, _ = windows_desktop()
            world.arm(at=5, inserts=taken)  # four calls ask for the scan codes of enter and tab
            with self.assertRaisesRegex(agent.Win32Error, f"took {taken} of 10"):
                desktop.text(text)
            self.assertEqual((world.failed, world.held()), (["SendInput"], []), taken)

    def test_a_key_left_down_is_let_go_by_the_third_try(self) -> None:
        world, desktop, _ = windows_desktop()
        answers = [1, 0, 0, 1]
        real = world._SendInput
        world._SendInput = lambda count, *rest: real(count, *rest, most=answers.pop(0))  # type: ignore
        world.api = agent.Win32(world.resolve, lambda: 0)
        desktop = agent.WindowsDesktop(world.api, world.clock)
        with self.assertRaisesRegex(agent.Win32Error, "took 1 of 2"):
            desktop.text("a")
        self.assertEqual((answers, world.held()), ([], []))


if __name__ == "__main__":
    unittest.main()
