"""The Windows desktop on a simulated Windows: what it sees, what it releases, where its input lands."""

from __future__ import annotations

import itertools
import random
import unittest
from dataclasses import replace
from typing import Any

import agent
from agent import Point, Rect
from tests.fakes import (
    COURTESY,
    CURSORS,
    NEVER_FAIL,
    POINTER_COLOUR,
    FakeWin32,
    Foreground,
    windows_desktop,
)
from tests.samples import for_the_gate
from tests.seams import VK_MAP

PRIMARY = Rect(0, 0, 1920, 1080)
LAYOUTS = {
    "one": [PRIMARY],
    "odd size": [Rect(0, 0, 1366, 769)],
    "one to the left": [Rect(0, 0, 2560, 1440), Rect(-1920, 200, 1920, 1080)],
    "above and right": [Rect(0, 0, 1680, 1050), Rect(1680, -1110, 3840, 2160), Rect(-1080, -500, 1080, 1920)],
    "very wide": [Rect(0, 0, 3840, 2160), Rect(3840, 0, 5120, 1440), Rect(-3840, -7, 3840, 2160)],
}  # fmt: skip
# What each drawn cursor gives: where the mouse is, the area, how much smaller the picture is, the rectangle that is
# drawn and how many pixels of it are seen.
POINTERS: list[tuple[str, tuple[int, int], Rect, int, Any, int | None]] = [
    ("cross", (116, 115), Rect(80, 80, 80, 80), 1, (20, 20, 32, 32), 32 * 32),
    ("big", (400, 300), PRIMARY, 10, (36, 27, 9, 8), 72),
    ("beam", (508, 510), Rect(400, 400, 160, 160), 1, (100, 100, 32, 32), None),  # half as high as its mask, being monochrome
    ("arrow", (90, 95), Rect(100, 100, 50, 50), 1, (-10, -5, 32, 32), 22 * 27),  # cut
    ("arrow", (-1900, 250), Rect(-1920, 200, 192, 108), 1, (20, 50, 32, 32), None),
    ("arrow", (0, 0), PRIMARY, 120, (0, 0, 1, 1), None),  # never scaled away
    *((hidden, (20, 20), Rect(0, 0, 64, 36), 1, (20, 20, 32, 32), None) for hidden in ("hidden", "suppressed", "none", "private")),
]  # fmt: skip
OWNER = {
    "screen DC": "ReleaseDC",
    "memory DC": "DeleteDC",
    "bitmap": "DeleteObject",
    "cursor bitmap": "DeleteObject",
    "desktop": "CloseDesktop",
    "process": "CloseHandle",
    "token": "CloseHandle",
}


def bgrx(colour: int) -> bytes:
    return colour.to_bytes(4, "little")


def view(world: FakeWin32, area: Rect) -> bytes:
    """The pixels of an area at their own size."""
    return world.seen(area, area.width, area.height)


MOUSEEVENTF_LEFTUP = 0x0004


class Screen(unittest.TestCase):
    def test_per_monitor_dpi_is_asked_for_first_and_the_older_one_next(self) -> None:
        newer, older = "SetProcessDpiAwarenessContext", "SetProcessDPIAware"
        for failing, missing, called in (
            ((), (), [newer]),
            ((newer,), (), [newer, older]),  # not known, or set already
            ((), (newer,), [older]),
            ((newer, older), (), [newer, older]),
        ):
            world, desktop, _ = windows_desktop(missing=missing, failing_names=failing)
            agent.init_dpi(desktop.api)
            self.assertEqual((world.problems, world.calls), ([], called))

    def test_the_screen_is_the_bounding_rectangle_of_all_monitors(self) -> None:
        for name, monitors in LAYOUTS.items():
            world, desktop, _ = windows_desktop(monitors=monitors)
            self.assertEqual(desktop.screen(), world.screen(), name)
            for monitor in monitors:
                corner = Point(monitor.left, monitor.bottom - 1)
                self.assertEqual(desktop.monitor_at(corner), monitor, name)
            self.assertEqual(desktop.monitor_at(Point(-9999, 0)).width, 0)
        _, desktop, _ = windows_desktop(monitors=[Rect(0, 0, 0, 0)])
        with self.assertRaisesRegex(agent.Win32Error, "no size"):
            desktop.screen()


class Capture(unittest.TestCase):
    def test_at_its_own_size_every_pixel_is_exact_wherever_the_area_lies(self) -> None:
        for layout, area in (
            ("one", Rect(250, 250, 64, 36)),
            ("above and right", Rect(-1000, -450, 40, 30)),
            ("one to the left", Rect(-20, 300, 40, 10)),  # across two monitors
        ):
            world, desktop, clock = windows_desktop(monitors=LAYOUTS[layout], cursor="hidden")
            for number in (1, 2):
                frame = desktop.capture(area, area.width, area.height)
                self.assertEqual(frame.clean, view(world, area))
                self.assertEqual(frame.pixels, frame.clean)
                self.assertEqual((frame.width, frame.height), (area.width, area.height))
                self.assertEqual((frame.area, frame.screen), (area, world.screen()))
                self.assertEqual((frame.number, frame.taken_at), (number, clock.now()))
            self.assertEqual(desktop.glance(area, area.width, area.height), frame.clean)
            world.verify()

    def test_a_frame_says_which_window_has_the_keyboard_if_any(self) -> None:
        rect = Rect(-8, 5, 300, 200)
        plain = agent.Window(77, "Büro – 日本", "Ünï.exe", rect, class_name="Notepad")
        # Of another one the program may not be asked, and the title is cut.
        other = replace(plain, title="x" * 511, program="", elevated=True)
        for shown, window in (
            (Foreground("Büro – 日本", rect, r"D:\x\Ünï.exe", 77), plain),
            (Foreground("x" * 5000, rect, "", 77), other),
            (None, None),
        ):
            world, desktop, _ = windows_desktop(window=shown)
            self.assertEqual(desktop.capture(PRIMARY, 16, 9).window, window)
            world.verify()

    def test_an_app_of_the_store_is_known_by_its_program_and_a_dialog_by_its_owner(self) -> None:
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
        world.others = [Foreground("Main", handle=0x60002)]
        world.window = Foreground("Save as", class_name="#32770", owner=0x60002)
        window = desktop.foreground()
        assert window and window.owner
        self.assertEqual((window.owner.title, window.owner.owner), ("Main", None))
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


class MousePointer(unittest.TestCase):
    def test_it_is_drawn_where_its_hotspot_lies_but_not_into_the_clean_picture(self) -> None:
        for cursor, mouse, area, scale, drawn, pixels in POINTERS:
            with self.subTest(cursor=cursor, area=area):
                layout = LAYOUTS["one to the left" if area.left < 0 else "one"]
                given = {"cursor": cursor, "mouse": Point(*mouse), "monitors": layout}
                world, desktop, _ = windows_desktop(**given)
                frame = desktop.capture(area, area.width // scale, area.height // scale)
                self.assertEqual(world.drawn, [drawn] if drawn else [])
                self.assertEqual(frame.pixels != frame.clean, bool(drawn))
                if scale == 1:
                    self.assertEqual(frame.clean, view(world, area))
                shown = range(0, len(frame.pixels), 4)
                spots = [i for i in shown if frame.pixels[i : i + 4] == bgrx(POINTER_COLOUR)]
                self.assertEqual(len(spots), len(spots) if pixels is None else pixels)
                world.verify()


class Faults(unittest.TestCase):
    """Every call of a look fails in turn."""

    def looked(self, cursor: str, glance: bool, **fault: Any) -> tuple[FakeWin32, Any, bool]:
        """The simulated Windows, what was seen, and whether that was an error."""
        world, desktop, _ = windows_desktop(cursor=cursor)
        world.arm(**fault)
        try:
            if glance:
                return world, desktop.glance(PRIMARY, 32, 18), False
            frame = desktop.capture(PRIMARY, 32, 18)
            return world, (frame.pixels, frame.clean, frame.area), False
        except agent.Win32Error as error:
            self.assertRegex(str(error), r"^[A-Z][^\n]*[.]$")
            return world, None, True

    @for_the_gate
    def test_a_look_releases_everything_whichever_call_fails(self) -> None:
        kinds = [*((name, False) for name in CURSORS), ("arrow", True)]
        for (cursor, glance), most in itertools.product(kinds, (1, 999)):
            whole, seen, _ = self.looked(cursor, glance)
            self.assertGreater(len(whole.calls), 9 if glance else 25)
            for number in range(1, len(whole.calls) + 1):
                world, result, failed = self.looked(cursor, glance, at=range(number, number + most))
                first = world.failed[0]
                with self.subTest(cursor, number=number, function=first, most=most):
                    self.assertEqual(world.problems, [])
                    if most == 1:
                        borne = COURTESY | NEVER_FAIL
                        self.assertTrue(first not in COURTESY if failed else first in borne)
                    if not failed and first not in ("GetIconInfo", "LoadCursorW"):  # no pointer
                        self.assertEqual((most, result), (1, seen))
                    self.assertLessEqual({OWNER[kind] for kind in world.leaks()}, {*world.failed})

    def test_one_function_failing_for_ever_leaves_open_only_what_it_alone_releases(self) -> None:
        for name in agent.WIN32:
            world, _, _ = self.looked("beam", False, names={name})
            self.assertEqual(world.problems, [], name)
            self.assertEqual({OWNER[kind] for kind in world.leaks()} - {name}, set(), name)


class Moving(unittest.TestCase):
    def test_every_pixel_is_reached_on_every_layout_by_input_events_alone(self) -> None:
        chance = random.Random(2)
        for name, monitors in {**LAYOUTS, "wide": [Rect(0, 0, 7680, 40)]}.items():
            world, desktop, _ = windows_desktop(monitors=monitors)
            points = [Point(x, x % 40) for x in range(0, 7680, 7) if name == "wide"]
            for m in monitors:
                columns = (0, 1, m.width - 2, m.width - 1, *chance.sample(range(m.width), 4))
                rows = (0, 1, m.height - 2, m.height - 1, *chance.sample(range(m.height), 4))
                points += [Point(m.left + x, m.top + y) for x in columns for y in rows]
            for point in points:
                desktop.move(point)
                self.assertEqual((world.mouse, desktop.cursor()), (point, point), name)
            self.assertNotIn("SetCursorPos", world.calls)
            self.assertEqual([event.kind for event in world.events], ["move"] * len(points))
            world.verify()

    def test_a_mouse_put_back_shortly_after_a_move_is_moved_again(self) -> None:
        for after in (0.001, 0.005, 0.009):  # remote and virtual screens do that
            world, desktop, clock = windows_desktop(mouse=Point(1, 1))
            clock.at(after, lambda world=world: world._put_mouse(1, 1))
            desktop.move(Point(700, 900))
            self.assertEqual((world.mouse, len(world.events)), (Point(700, 900), 2), after)

    def test_a_move_that_lands_elsewhere_is_put_right_or_an_error(self) -> None:
        world, desktop, _ = windows_desktop()
        world._mouse_input = lambda *_: None  # type: ignore[method-assign]
        desktop.move(Point(7, 9))
        self.assertEqual(world.mouse, Point(7, 9))
        world.mouse_stuck = True
        with self.assertRaisesRegex(agent.Win32Error, r"cannot reach \(8, 9\)"):
            desktop.move(Point(8, 9))
        self.assertLess(sum(world.clock.sleeps), 1)
        _, desktop, _ = windows_desktop(monitors=LAYOUTS["one to the left"])
        with self.assertRaises(agent.Win32Error):
            desktop.move(Point(-5, 0))  # the left monitor begins 200 pixels lower


class Input(unittest.TestCase):
    def test_each_button_goes_down_and_up_swapped_or_not(self) -> None:
        for swapped in (False, True):
            world, desktop, _ = windows_desktop(swapped=swapped)
            for name in ("left", "right", "middle"):
                desktop.button(name, True)
                self.assertEqual(world.held(), [f"button {name}"])
                desktop.button(name, False)
            world.verify()

    def test_buttons_swapped_while_one_is_held_do_not_leave_it_down(self) -> None:
        world, desktop, _ = windows_desktop()
        desktop.button("left", True)
        flags = []
        world._mouse_input = lambda *event: flags.append(event[3])  # type: ignore[method-assign]
        world.swapped = True
        desktop.button("left", False)
        self.assertEqual(flags, [MOUSEEVENTF_LEFTUP])

    EXTENDED = """left right up down home end pageup pagedown insert delete win rwin rctrl ralt menu numdivide
        numenter printscreen numlock""".split()
    PLAIN = """a z 0 9 f1 f12 f24 enter tab escape space backspace shift ctrl alt lshift rshift lctrl lalt num0 num9
        numadd numsubtract nummultiply numdecimal capslock scrolllock pause ; = , - . / ` [ ] ' <""".split()

    def test_every_key_has_its_code_and_those_beside_the_numpad_are_extended(self) -> None:
        for name, code in VK_MAP.items():
            world, desktop, _ = windows_desktop()
            desktop.key(name, True)
            self.assertEqual(len(world.held()), 1)
            desktop.key(name, False)
            world.verify()
            for event in world.events:
                self.assertEqual((event.kind, event.value, event.scan), ("key", code, code ^ 0x80))
                if name in (*self.EXTENDED, *self.PLAIN, "\\"):
                    self.assertEqual(event.extended, name in self.EXTENDED, name)

    def test_fewer_events_taken_than_given_are_an_error_that_tells_how_many_arrived(self) -> None:
        world, desktop, _ = windows_desktop()
        world.insert_at_most = 0
        for act, arguments in (
            (desktop.move, (Point(1, 1),)),
            (desktop.button, ("left", True)),
            (desktop.wheel, (120,)),
            (desktop.key, ("a", True)),
        ):
            with self.assertRaisesRegex(agent.Win32Error, r"^Windows took 0 of 1 events; .*\.$"):
                act(*arguments)
        world.verify()

    def test_a_text_cut_at_any_event_leaves_no_key_down(self) -> None:
        text = "a\n😀\t"
        for taken in range(10):
            world, desktop, _ = windows_desktop()
            world.arm(at=(5,), inserts=taken)  # four calls ask for the scan codes of enter and tab
            with self.assertRaisesRegex(agent.Win32Error, f"took {taken} of 10"):
                desktop.text(text)
            self.assertEqual((world.failed, world.held()), (["SendInput"], []), taken)


if __name__ == "__main__":
    unittest.main()
