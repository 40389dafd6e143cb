"""What other people's Windows did to programs that automate it, each as a simulated Windows does it.

The classes are the kinds of it; the situations were reported in public by people who automate Windows.
"""

from __future__ import annotations

import errno
import threading
import time
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from agent import Point, Rect
from tests.fakes import Foreground
from tests.samples import for_the_gate
from tests.scripted import EngineCase, call
from tests.test_actuator import Stage
from tests.test_controls import Workers

# Signs of the keys of some keyboards, and what VkKeyScanEx answers: the key's code, and 0x100 with shift, 0x600 with
# AltGr.
US = "= BB / BF ] DD [ DB 7 37 1 31 . BE ; BA , BC - BD ? 1BF ! 131 & 137 + 1BB * 138 A 141 a 41 k 4B q 51 ' DE ~ 1C0"
KEYBOARDS = {
    "US": US,
    "German": "= 130 / 137 ] 639 [ 638 7 37 1 31 . BE , BC ; 1BC - BD ? 1DB + BB ! 131 & 136 * 1BB A 141 a 41 k 4B q 51",
    "French": "= BB / 1BF ] 6DB [ 635 7 137 1 131 . 1BE , BC ; BE - 36 ? 1BC + 1BB ! DF & 31 * DC A 141 a 41 k 4B q 51",
    "Russian": "= BB / 1DC 7 37 1 31 . BF , 1BF ; 134 - BD ? 137 + 1BB ! 131 * 138",
    "unknown": "",
}


class Keyboards(unittest.TestCase):
    """A key that is one sign types that sign, whatever the keyboard."""

    def typed(self, keyboard: str, key: str) -> str:
        """What comes of a key in a field: its text, or that of a key on this keyboard."""
        stage = Stage(keyboard=keyboard)
        stage.do("press_key", key=key)
        stage.world.verify()
        signs = {code: sign for sign, code in zip(*[iter(keyboard.split())] * 2, strict=True)}
        downs = [event for event in stage.world.events if event.kind == "key" and event.down]
        shift = 0x100 * (0x10 in [event.value for event in downs])
        keys = [f"{event.value | shift:X}" for event in downs if event.value != 0x10]
        return stage.world.typed + "".join(signs.get(code, f"<{code}>") for code in keys)

    @for_the_gate
    def test_a_lone_sign_digit_or_letter_is_typed_as_it_is(self) -> None:
        for name, keyboard in KEYBOARDS.items():
            for key, sign in (
                *((sign, sign) for sign in "=/][71.;,-'`a?!*~&k"),
                *(
                    ("equals", "="),
                    ("slash", "/"),
                    ("bracketright", "]"),
                    ("A", "a"),
                    ("shift+a", "A"),
                ),
                *(
                    ("shift+=", "+"),
                    ("shift+7", "&"),
                    ("shift+?", "?"),
                    ("Shift+/", "?"),
                    ("q", "q"),
                ),
            ):
                self.assertEqual(self.typed(keyboard, key), sign, (name, key))

    def test_where_the_keyboard_has_that_key_it_is_a_key_since_programs_take_some_for_commands(
        self,
    ) -> None:
        for key in ("k", "/", "?", "7", "shift+a"):
            stage = Stage(keyboard=US)
            stage.do("press_key", key=key)
            self.assertEqual({event.kind for event in stage.world.events}, {"key"}, key)

    def test_a_sign_whose_key_waits_for_a_letter_is_never_pressed_as_a_key(self) -> None:
        for key in ("'", "~", "`", '"', "^"):
            stage = Stage(
                keyboard="' DE ~ 1C0 ` C0 \" 1DE ^ 136"
            )  # as a US-International one answers
            stage.do("press_key", key=key)
            self.assertEqual(
                ({event.kind for event in stage.world.events}, stage.world.typed), ({"unit"}, key)
            )

    def test_in_a_field_a_lone_sign_is_typed_whatever_caps_lock_or_an_input_method_makes_of_keys(
        self,
    ) -> None:
        """An input method would begin to compose, and Caps Lock turns an a into an A."""
        edit = agent.Control("Name", "edit", Rect(0, 0, 9, 9), focused=True)
        for control, kind in (
            (edit, "unit"),
            (replace(edit, role="document"), "unit"),
            (replace(edit, fixed=True), "key"),  # a page, of which a letter may be a command
            (replace(edit, role="list"), "key"),
        ):
            for key in ("a", "7", "A"):
                stage = Stage(config={"confirm": "never"}, keyboard="a 0x41 7 0x37 A 0x141")
                stage.desktop.control_source = agent.KnownControls([control])
                stage.do("press_key", key=key)
                self.assertEqual(stage.world.events[-1].kind, kind, (key, control.role))
        stage.do("press_key", key="ctrl+a")
        self.assertEqual(stage.world.events[-1].kind, "key")

    def test_a_chord_is_of_keys_by_which_programs_know_it_in_all_countries(self) -> None:
        for keyboard in KEYBOARDS.values():
            for chord, codes in (
                ("ctrl+=", [0x11, 0xBB]),
                ("ctrl+/", [0x11, 0xBF]),
                ("ctrl+?", [0x11, 0x10, 0xBF]),
                ("alt+f", [0x12, 0x46]),
                ("ctrl+1", [0x11, 0x31]),
            ):
                stage = Stage(keyboard=keyboard)
                stage.do("press_key", key=chord)
                downs = [event.value for event in stage.world.events if event.down]
                self.assertEqual(downs, codes, chord)


LEFT_MONITOR = [Rect(0, 0, 1920, 1080), Rect(-1920, 0, 1920, 1080)]
LEFT_HALF = Rect(0, 0, 960, 1080)


class Frames(unittest.TestCase):
    """What is seen of a window is its place: the frame of most reaches some pixels further."""

    def test_no_key_goes_to_a_window_whose_invisible_frame_alone_is_in_the_working_area(
        self,
    ) -> None:
        for monitors, area, rect, border in (
            (
                LEFT_MONITOR,
                LEFT_MONITOR[0],
                Rect(-1928, -8, 1936, 1096),
                8,
            ),  # maximised on the left
            (LEFT_MONITOR[:1], LEFT_HALF, Rect(953, 0, 974, 1087), 7),  # snapped to the right half
            (
                LEFT_MONITOR[:1],
                Rect(960, 0, 960, 1080),
                Rect(-7, 0, 974, 1087),
                7,
            ),  # to the left one
            (LEFT_MONITOR, LEFT_MONITOR[1], Rect(-11, 200, 500, 400), 11),  # scaled by 150 %
        ):
            window = Foreground(rect=rect, border=border)
            for name, given in (("type_text", {"text": "a"}), ("press_key", {"key": "a"})):
                stage = Stage(area, monitors=monitors, window=window)
                frame = replace(stage.look(), window=stage.desktop.foreground())
                done = stage.attempt(name, frame, **given)
                self.assertEqual((done.refused, stage.world.events), ("outside_area", []), rect)
                inside = replace(window, rect=rect.moved(area.left - rect.left + 100, 0))
                stage = Stage(area, monitors=monitors, window=inside)
                frame = replace(stage.look(), window=stage.desktop.foreground())
                self.assertEqual(stage.attempt(name, frame, **given).refused, "", rect)

    def test_where_windows_does_not_tell_what_is_seen_its_frame_counts(self) -> None:
        for world in ({"missing": ["dwmapi"]}, {}):
            window = Stage(**world).desktop.foreground()
            self.assertEqual(window and window.rect, Foreground.rect)


class Monitors(unittest.TestCase):
    """A program may show its window on a monitor that the model does not see."""

    def stage(self, **world: Any) -> tuple[Stage, list[str]]:
        there = Foreground("Fresh - Notepad", Rect(-1800, 100, 800, 600), handle=0x30002)
        stage = Stage(monitors=LEFT_MONITOR, opens=there, **world)
        said: list[str] = []
        stage.actuator.person.say = said.append
        return stage, said

    def look(self, stage: Stage) -> agent.Frame:
        return replace(stage.look(), window=stage.desktop.foreground())

    def test_the_model_is_told_how_to_fetch_it_and_the_person_what_sees_all(self) -> None:
        stage, said = self.stage()
        told = stage.attempt("open_app", name="notepad").result
        self.assertRegex(told, r"outside the working area, where you see nothing: win\+shift\+left")
        for key in ("a", "enter", "alt+f4", "ctrl+s", "win+v"):
            done = stage.attempt("press_key", self.look(stage), key=key)
            self.assertEqual(done.refused, "outside_area", key)
            self.assertIn("win+shift+left", done.result)
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "Fresh - Notepad.* is outside .*--area all")
        stage, said = self.stage()
        stage.world.others = [stage.world.opens]
        told = stage.attempt("focus_window", title="Fresh").result
        self.assertIn("outside the working area", told)

    def test_keys_that_move_a_window_or_show_another_one_are_let_through(self) -> None:
        stage, _ = self.stage()
        stage.attempt("open_app", name="notepad")
        for key in "win+shift+left|Win+Shift+Right|win+left|win+up|alt+tab|win+d|Alt+Esc".split(
            "|"
        ):
            self.assertEqual(stage.attempt("press_key", self.look(stage), key=key).refused, "", key)

    def test_what_is_minimised_is_on_no_other_monitor(self) -> None:
        stage, said = self.stage()
        stage.world.window = Foreground(rect=Rect(-32000, -32000, 160, 28))
        done = stage.attempt("press_key", self.look(stage), key="a")
        self.assertEqual((done.refused, said), ("outside_area", []))


class WhoGetsTheKeys(unittest.TestCase):
    """What has the keyboard may be nowhere to be seen, or be nobody, or take nothing."""

    def pressed(
        self, name: str, window: Foreground | None, **given: Any
    ) -> tuple[Stage, agent.Deed]:
        stage = Stage(config={"confirm": "never"}, window=window)
        frame = replace(stage.look(), window=stage.desktop.foreground())
        return stage, stage.attempt(name, frame, **given)

    def test_no_key_goes_to_a_window_on_another_virtual_desktop(self) -> None:
        """After a switch of desktops the one that was left may keep the keyboard."""
        for name, given in (("type_text", {"text": "hello"}), ("press_key", {"key": "delete"})):
            stage, done = self.pressed(name, Foreground(cloaked=True), **given)
            self.assertEqual((done.refused, stage.world.events), ("outside_area", []))
            self.assertRegex(done.result, r"maybe on another virtual desktop: win\+tab shows them")
            self.assertEqual(self.pressed(name, Foreground(), **given)[1].refused, "")
        self.assertEqual(
            self.pressed("press_key", Foreground(cloaked=True), key="win+tab")[1].refused, ""
        )

    def test_where_no_window_has_the_keyboard_only_windows_own_keys_are_pressed(self) -> None:
        for key, refused in (
            ("a", "no_window"),
            ("shift", ""),
            ("volumemute", ""),
            ("ctrl+s", "no_window"),
            ("win+r", ""),
            ("win", ""),
            ("ctrl+escape", ""),
            ("alt+tab", ""),
        ):
            self.assertEqual(self.pressed("press_key", None, key=key)[1].refused, refused, key)
        stage, done = self.pressed("type_text", None, text="hello")
        self.assertEqual((done.refused, stage.world.events), ("no_window", []))
        self.assertEqual(self.pressed("recover", None)[1].refused, "")

    def test_a_text_ends_where_its_window_hangs_or_is_not_seen_any_more(self) -> None:
        for change in ({"hung": True}, {"cloaked": True}):
            stage = Stage(config={"confirm": "never"})
            events = stage.world.events

            def happen(_: Any, stage: Stage = stage, change: Any = change) -> None:
                if len(stage.world.events) == 60:
                    stage.world.window = replace(stage.world.window, **change)

            stage.world.on_event = happen
            done = stage.attempt("type_text", text="a" * 100)
            self.assertEqual((done.became, done.refused), ("half-way", "stale_frame"))
            self.assertIn("does not respond or is not seen any more in the middle", done.result)
            self.assertLess(len(events), 200)

    def test_nothing_is_done_in_a_window_that_is_in_no_picture_and_the_person_is_told(self) -> None:
        """As safes of passwords and messengers do: the model would see what lies behind it."""
        safe = Foreground("Vault - Safe", affinity=0x11)
        for name, given in (("press_key", {"key": "a"}), ("click", {"position": [200, 300]})):
            for controls, refused in (("check", "unfit_window"), ("only", "")):
                stage = Stage(config={"confirm": "never", "controls": controls}, window=safe)
                said = list[str]()
                stage.actuator.person.say = said.append
                frame = replace(stage.look(), window=stage.desktop.foreground())
                done = stage.attempt(name, frame, **given)
                self.assertEqual(
                    (done.refused, len(said)), (refused, len(refused[:1])), done.result
                )
        self.assertEqual(self.pressed("press_key", safe, key="alt+tab")[1].refused, "")

    def test_nothing_is_done_in_a_window_that_would_do_it_later(self) -> None:
        """A program that hangs does all at once when it goes on; its ghost is Windows' own window."""
        ghost = Foreground(
            "Letter - Notepad (Not Responding)",
            path="C:\\Windows\\System32\\dwm.exe",
            class_name="Ghost",
            level=0,
        )
        for window in (Foreground(hung=True), ghost):
            for name, given in (
                ("type_text", {"text": "hello"}),
                ("press_key", {"key": "enter"}),
                ("click", {"position": [200, 300]}),
            ):
                stage, done = self.pressed(name, window, **given)
                self.assertEqual((done.refused, stage.world.events), ("unfit_window", []))
                self.assertRegex(done.result, "Notepad.* does not respond; wait until it does")
            for key in ("ctrl+escape", "win+r", "alt+tab"):
                self.assertEqual(self.pressed("press_key", window, key=key)[1].refused, "", key)
        stage = Stage(config={"confirm": "never"})
        stage.world.others = [Foreground("Mail", handle=0x30002, hung=True)]
        done = stage.attempt("focus_window", title="Mail")
        self.assertEqual(done.refused, "not_in_front")
        self.assertIn("It does not respond; wait until it does.", done.result)
        self.assertEqual(stage.attempt("press_key", key="a").refused, "")


class HeldByNobody(unittest.TestCase):
    """A remote session that ended, or a hook, swallowed that a key went up."""

    def stage(self, *codes: int) -> Stage:
        stage = Stage(config={"confirm": "never"})
        stage.world._down += [("key", (code, code in (0x5B, 0x5C, 0xA3, 0xA5))) for code in codes]
        return stage

    def test_nothing_is_done_with_it_and_it_is_let_go_of(self) -> None:
        """With Shift Delete deletes for good, with Ctrl Enter sends, and a click selects more."""
        for codes, names in (
            ((0xA0,), "shift"),
            ((0xA2,), "ctrl"),
            ((0xA5,), "alt"),
            ((0x5B,), "win"),
            ((0xA2, 0xA0), "shift and ctrl"),
        ):
            for name, given in (
                ("press_key", {"key": "delete"}),
                ("click", {"position": [200, 300]}),
                ("type_text", {"text": "hello"}),
            ):
                stage = self.stage(*codes)
                done = stage.attempt(name, **given)
                with self.subTest(names, name=name):
                    self.assertEqual(done.refused, "stale_frame")
                    self.assertEqual(
                        done.result, f"{names} was held down and was let go of; nothing was done."
                    )
                    self.assertEqual(stage.world.held(), [])
                    # Before it goes up another key went down, so that no menu opens.
                    codes_down = [event.value for event in stage.world.events if event.down]
                    self.assertEqual(codes_down, [0x11])
                    self.assertEqual(stage.attempt(name, **given).refused, "")

    def test_one_that_does_not_come_up_is_told_to_the_person_and_nothing_is_done(self) -> None:
        stage, said = self.stage(0xA0), list[str]()
        stage.actuator.person.say = said.append
        stage.desktop.held_keys = lambda: ["lshift"]
        with mock.patch.object(stage.desktop, "key", lambda *_: None):
            for _ in range(2):
                done = stage.attempt("press_key", key="delete")
                self.assertEqual(done.refused, "paused")
                self.assertIn("shift was held down and does not come up", done.result)
        self.assertEqual(said, ["shift stays down; press and release it yourself."])
        self.assertEqual(stage.world.events, [])

    def test_a_button_that_is_held_is_left_to_the_person_since_what_it_drags_would_drop(
        self,
    ) -> None:
        stage, said = Stage(config={"confirm": "never"}), list[str]()
        stage.actuator.person.say = said.append
        stage.world._down.append(("button", "left"))
        for name in ("click", "press_key"):
            done = stage.attempt(name)
            self.assertEqual(done.refused, "paused")
            self.assertIn("left button was held down and does not come up", done.result)
        self.assertEqual(said, ["left button stays down; press and release it yourself."])
        self.assertEqual((stage.world.held(), stage.world.events), (["button left"], []))

    def test_a_dry_run_touches_no_key(self) -> None:
        stage = Stage(config={"dry_run": True})
        stage.world._down.append(("key", (0xA0, False)))
        self.assertEqual(stage.attempt("press_key", key="delete").became, "dry")
        self.assertEqual(stage.world.events, [])


class OpensBehind(unittest.TestCase):
    ELSE = Foreground("Else", path="C:\\other.exe", handle=0x40002)

    def opened(self, title: str, path: str, **world: Any) -> tuple[Stage, str, float]:
        there = Foreground(title, path=path, handle=0x30002, process=4712)
        config = {"confirm": "never"}
        stage = Stage(config=config, opens=there, opens_behind=True, window=self.ELSE, **world)
        stage.desktop._programs.append(agent.Program("Kamera", "shell:AppsFolder\\x!App"))
        began = stage.clock.now()
        name = "Kamera" if title == "Kamera" else "notepad"
        told = stage.attempt("open_app", name=name).result
        return stage, told, stage.clock.now() - began

    def test_a_program_that_opens_behind_is_brought_to_the_front_after_two_seconds(self) -> None:
        for title, path in (
            ("Untitled - Notepad", "C:\\x\\notepad.exe"),
            ("Ohne Titel", "C:\\x\\Notepad.exe"),
            ("Kamera", "C:\\x\\ApplicationFrameHost.exe"),
        ):
            stage, told, seconds = self.opened(title, path)
            self.assertIn(f'in front: "{title}"', told)
            self.assertAlmostEqual(seconds, 2, delta=0.5)
            assert stage.world.window
            self.assertEqual(stage.world.window.title, title)

    def test_another_window_is_not_and_one_that_windows_keeps_back_is_told(self) -> None:
        stage, told, _ = self.opened("Chat", "C:\\x\\chat.exe")
        self.assertIn('no window of it is in front; in front: "Else"', told)
        self.assertEqual(stage.world.window, self.ELSE)
        _, told, _ = self.opened("Untitled - Notepad", "C:\\x\\notepad.exe", never_front=True)
        self.assertIn('no window of it is in front; in front: "Else"', told)

    def test_one_that_runs_as_administrator_is_told_so_at_once(self) -> None:
        for level, told in ((0x3000, True), (0x2000, False)):
            there = Foreground("Fresh - Notepad", handle=0x30002, level=level)
            stage = Stage(config={"confirm": "never"}, opens=there, window=self.ELSE)
            done = stage.attempt("open_app", name="notepad")
            self.assertEqual("runs as administrator" in done.result, told, done.result)

    def test_a_blocked_one_stays_where_it_is(self) -> None:
        stage = Stage(config={"blocked_windows": "*bank*"}, window=self.ELSE)
        stage.world.opens = Foreground("Notepad of my bank", handle=0x30002)
        stage.world.opens_behind = True
        self.assertEqual(stage.attempt("open_app", name="notepad").refused, "forbidden_window")
        self.assertEqual(stage.world.window, self.ELSE)


class Refusals(unittest.TestCase):
    """What Windows refuses is told by its own reason."""

    def test_each_reason_why_a_program_does_not_start_is_told_as_what_it_is(self) -> None:
        for code, answer, words in (
            (2, 2, "the file is not there"),
            (5, 5, "access to it is denied"),
            (1155, 31, "no program is set to open"),
            (0, 31, "no program is set to open"),  # the shell's answer alone tells it
            (0, 5, "access to it is denied"),
            (0, 0, "Windows does not say why"),
            (225, 5, "virus"),
            (1223, 5, "the person said no"),
            (1260, 5, "a policy of the administrator"),
            (740, 5, "administrator's rights"),
            (193, 11, "no program for this Windows"),
            (4551, 5, "App Control"),
        ):
            done = Stage(start_fails=(answer, code)).attempt("open_app", name="notepad")
            self.assertEqual((done.refused, done.acted), ("windows", True))
            self.assertRegex(
                done.result,
                rf"^Windows refused ShellExecuteW \(error {code or {31: 1155}.get(answer, answer)}\): .*{words}",
            )
            self.assertNotRegex(done.result, "unlock|UAC")

    def test_of_other_errors_windows_own_words_are_told(self) -> None:
        stage = Stage(start_fails=(27, 1392))
        stage.world.api._words = {1392: "Die Datei ist beschädigt."}.get
        told = stage.attempt("open_app", name="notepad").result
        self.assertEqual(
            told, "Windows refused ShellExecuteW (error 1392): Die Datei ist beschädigt."
        )

    def test_a_locked_screen_is_named_where_it_may_be_the_reason_and_nowhere_else(self) -> None:
        world = Stage().world
        for name, given, locked in (
            ("GetCursorInfo", (None,), True),
            ("SetCursorPos", (1, 1), True),
            ("OpenClipboard", (None,), False),
            ("EnumWindows", (None, 0), False),
        ):
            world.arm(names={name})
            with self.assertRaises(agent.Win32Error) as caught:
                getattr(world.api, name)(*given)
            self.assertEqual("unlock the screen" in str(caught.exception), locked, name)


class Devices(unittest.TestCase):
    """A joystick, or another device, keeps Windows from being idle though nobody is there."""

    def stage(self) -> tuple[Stage, list[str]]:
        stage = Stage(config={"acts_per_minute": 10_000, "minutes_most": 0})
        said: list[str] = []
        stage.actuator.person.say = said.append
        return stage, said

    def every(self, stage: Stage, seconds: float, what: Any, until: float) -> None:
        for number in range(int(until / seconds)):
            stage.clock.at(seconds * (number + 1), what)

    def test_one_that_never_rests_holds_the_run_up_for_half_a_minute_and_is_told(self) -> None:
        stage, said = self.stage()
        stage.clock.advance(10)
        self.every(stage, 1, stage.world.device, 600)
        stage.clock.sleep(5)
        began = stage.clock.now()
        results = [stage.attempt("press_key", key="f5").refused for _ in range(3)]
        self.assertLess(stage.clock.now() - began, 40)
        self.assertEqual(results, ["paused", "", ""])
        self.assertEqual(len([line for line in said if "takeover_quiet" in line]), 1)

    @for_the_gate
    def test_one_that_is_felt_now_and_then_costs_three_acts(self) -> None:
        for period in (5, 7, 59):
            stage, said = self.stage()
            self.every(stage, period, stage.world.device, 2000)
            refused = []
            for _ in range(50):
                frame = stage.look()
                stage.clock.sleep(12)  # a request
                refused.append(stage.attempt("press_key", frame, key="f5").refused)
            self.assertLessEqual(len([*filter(None, refused)]), 3, period)
            self.assertIn("takeover_quiet=0", " ".join(said))

    def test_a_person_at_the_mouse_or_the_keys_is_waited_for_all_the_same(self) -> None:
        for uses in ("mouse", "keys"):
            stage, said = self.stage()
            stage.do("press_key", key="f5")
            stage.clock.advance(10)

            def used(stage: Stage = stage, uses: str = uses) -> None:
                x = int(stage.clock.now() * 10) % 900
                stage.world.person(Point(500 + x, 500) if uses == "mouse" else None)

            self.every(stage, 1, used, 300)
            stage.clock.sleep(5)
            began = stage.clock.now()
            self.assertEqual(stage.attempt("press_key", key="f5").refused, "paused")
            self.assertGreater(stage.clock.now() - began, 290)
            self.assertNotIn("takeover_quiet", " ".join(said))

    def test_a_person_who_types_in_a_window_of_an_administrator_is_waited_for_too(self) -> None:
        for level in (0x3000, 0):
            stage, said = self.stage()
            stage.do("press_key", key="f5")
            stage.clock.advance(10)
            self.every(stage, 1, stage.world.person, 300)
            stage.clock.sleep(5)
            frame = stage.look()
            plain = stage.world.window
            stage.world.window = replace(plain, path=r"C:\Windows\System32\cmd.exe", level=level)
            began = stage.clock.now()
            self.assertEqual(stage.attempt("press_key", frame, key="f5").refused, "paused")
            self.assertGreater(stage.clock.now() - began, 290)
            self.assertNotIn("takeover_quiet", " ".join(said))
            # Once it is away, a device is told from the person again.
            stage.world.window = plain
            self.every(stage, 1, stage.world.device, 300)
            stage.clock.sleep(5)
            self.assertEqual(stage.attempt("press_key", key="f5").refused, "paused")
            self.assertEqual(len([line for line in said if "takeover_quiet" in line]), 1)

    def test_after_a_device_was_told_the_person_is_still_noticed(self) -> None:
        for uses in ("mouse", "keys"):
            stage, _ = self.stage()
            self.every(stage, 1, stage.world.device, 500)
            for _ in range(3):
                stage.clock.sleep(5)
                stage.attempt("press_key", key="f5")
            self.assertEqual(stage.attempt("press_key", key="f5").refused, "")
            stage.clock.sleep(2)
            stage.world.person(Point(700, 700) if uses == "mouse" else None)
            self.assertEqual(stage.attempt("press_key", key="f5").refused, "paused", uses)


class Screens(EngineCase):
    """A screen of one colour may be a dead one, or a page in full screen."""

    def run_with(self, colour: bytes, full: bool) -> tuple[list[str], Any]:
        plan = call("update_execution_plan", new_plan="p", next_goal="g")
        trial = self.trial(lambda r: plan, max_steps=1)
        glance = trial.desktop.glance
        trial.desktop.glance = lambda area, w, h: colour * (w * h)
        front = trial.desktop.foreground()
        rect = front.rect if full else Rect(0, 0, 60, 30)
        trial.desktop.foreground = lambda: replace(front, rect=rect)
        del glance
        try:
            trial.run()
            return self.lines, ""
        except agent.Win32Error as error:
            return self.lines, str(error)

    def test_white_in_full_screen_is_a_page_and_black_one_once_it_has_stayed(self) -> None:
        for colour, full, paused, ended in (
            (b"\xff\xff\xff\0", True, False, ""),
            (b"\x80\x40\x20\0", True, False, ""),
            (bytes(4), True, True, ""),
            (bytes(4), False, True, "--resume"),
            (b"\xff\xff\xff\0", False, True, "--resume"),
        ):
            lines, why = self.run_with(colour, full)
            self.assertEqual(any("one single colour" in line for line in lines), paused, colour)
            self.assertEqual("going on" in " ".join(lines), paused and full)
            self.assertIn(ended, why)
            self.assertEqual(bool(why), bool(ended), (colour, full))

    def test_a_lock_that_stays_ends_the_run_with_how_it_goes_on(self) -> None:
        trial = self.trial(lambda r: None, max_steps=1)
        locked = agent.Win32Error(
            "Windows refused OpenInputDesktop (error 5); unlock the screen.", 5
        )
        trial.desktop.capture = mock.Mock(side_effect=locked)
        with self.assertRaises(agent.Win32Error) as caught:
            trial.run()
        self.assertRegex(
            str(caught.exception),
            r"error 5\); unlock.* for 30 s; --resume goes on.*waits longer\.$",
        )
        self.assertEqual((caught.exception.code, caught.exception.exit_code), (5, 3))


class Files(EngineCase):
    """A virus scanner has a new file to itself for a moment."""

    def run_with(self, refusals: int) -> Any:
        trial = self.trial(lambda r: call("press_keyboard_key", key="a"), max_steps=2)
        write, left = Path.write_bytes, [refusals]

        def locked(path: Path, data: bytes) -> int:
            left[0] -= 1
            if left[0] >= 0:
                raise PermissionError(errno.EACCES, "The file is used by another process")
            return write(path, data)

        with mock.patch.object(Path, "write_bytes", locked), mock.patch.object(time, "sleep"):
            trial.run()
        return trial

    def test_a_picture_that_is_refused_for_a_moment_is_written_all_the_same(self) -> None:
        for refusals in (1, 3, 4):
            trial = self.run_with(refusals)
            for look in trial.records("look"):
                self.assertTrue((trial.folder / look["screenshot"]).exists(), refusals)
            self.assertGreater(len(trial.records("look")), 1)
        with self.assertRaisesRegex(agent.AgentError, "cannot be written .*another process"):
            self.run_with(5)


BROWSER = Foreground("Shop - Browser", path="C:\\x\\chrome.exe", class_name="Chrome_WidgetWin_1")
PAGE = Rect(100, 100, 800, 600)


class LateControls(unittest.TestCase):
    """Browsers and Electron tell late of their controls, and some programs never."""

    def stage(self, late_s: float, *known: agent.Control, **world: Any) -> tuple[Stage, list[str]]:
        stage = Stage(window=world.pop("window", BROWSER), **world)

        def reply(query: Any) -> agent.Known:
            where, _ = query
            time.sleep(late_s)
            return agent.Known(agent.KnownControls(known).ask(where))

        workers = Workers(reply)
        started = mock.patch("multiprocessing.get_context", lambda _: workers)
        started.start()
        self.addCleanup(started.stop)
        source = agent.ControlsWorker(stage.world.api)
        self.addCleanup(source.close)
        source.query(None, 5.0)
        stage.desktop.control_source = source
        said: list[str] = []
        stage.actuator.person.say = said.append
        return stage, said

    def test_an_answer_after_some_tenths_of_a_second_counts(self) -> None:
        handle = BROWSER.handle
        deletes = agent.Control("Delete all", "button", PAGE, window=handle)
        password = agent.Control("", "edit", PAGE, password=True, focused=True, window=handle)
        for known, name, given, refused in (
            (deletes, "click", {"element_name": "OK"}, "not_allowed"),
            (
                replace(deletes, name="Pay 30 €"),
                "click",
                {"element_name": "Continue"},
                "not_allowed",
            ),
            (password, "type_text", {"text": "hunter2"}, "password_field"),
            (replace(password, name="PIN"), "press_key", {"key": "7"}, "password_field"),
            (replace(deletes, name="Next"), "click", {"element_name": "Next"}, ""),
        ):
            stage, said = self.stage(0.4, known)
            if name == "click":
                given = {**given, "position": [200, 300]}
            done = stage.attempt(name, **given)
            self.assertEqual((done.refused, said), (refused, []), (known.name, done.result))

    def test_where_none_comes_a_press_that_may_answer_something_is_risky_and_it_is_told_once(
        self,
    ) -> None:
        box = replace(BROWSER, class_name="Electron", owner=0x50002)
        for window, name, given, refused in (
            (BROWSER, "click", {"element_name": "OK"}, "not_allowed"),
            (BROWSER, "click", {"element_name": "Ja, alle"}, "not_allowed"),
            (BROWSER, "click", {"element_name": "the Yes button"}, "not_allowed"),
            (BROWSER, "click", {"element_name": "Search results"}, ""),
            (box, "click", {"element_name": "sample"}, "not_allowed"),
            (box, "press_key", {"key": "enter"}, "not_allowed"),
            (box, "press_key", {"key": "space"}, "not_allowed"),
            (box, "type_text", {"text": "some words"}, ""),
        ):
            stage = Stage(window=window)
            stage.world.others = [Foreground(handle=0x50002)]
            said: list[str] = []
            stage.actuator.person.say = said.append
            stage.desktop.control_source = agent.KnownControls(answered=False)
            if name == "click":
                given = {**given, "position": [200, 300]}
            for _ in range(2):
                done = stage.attempt(name, **given)
                self.assertEqual(done.refused, refused, (window.class_name, given, done.result))
            self.assertEqual(len(said), 1)
            self.assertIn("acts there go unchecked", said[0])
            stage.actuator.task = "Press Continue."  # which the person says
            self.assertEqual(stage.attempt("click", element_name="Continue").refused, "")
            stage.desktop.control_source = agent.KnownControls()
            self.assertNotEqual(stage.attempt("click", element_name="Next").refused, "not_allowed")

    def test_who_is_asked_is_waited_for_while_it_starts(self) -> None:
        stage, _ = self.stage(0.0, agent.Control("Save", "button", PAGE))
        workers = Workers(
            lambda query: agent.Known([agent.Control("Save", "button", PAGE)]), ready=False
        )
        source = stage.desktop.control_source
        source.close()
        threading.Timer(0.5, workers.ready.set).start()
        with mock.patch("multiprocessing.get_context", lambda _: workers):
            (known,) = source.ask(Point(200, 200))
        self.assertEqual((known.name, source.answered), ("Save", True))

    def test_one_that_never_answers_costs_a_second_and_not_one_each_question(self) -> None:
        stage, _ = self.stage(30.0)
        source = stage.desktop.control_source
        source.ask(None)  # as it may be starting
        began = time.monotonic()
        for _ in range(4):
            self.assertEqual(source.ask(Point(1, 1)), [])
            self.assertFalse(source.answered)
        self.assertLess(time.monotonic() - began, 3)


class AppsOfAnyLanguage(unittest.TestCase):
    """An app of the Store has its name in the language of Windows, and its package one in all."""

    def test_each_is_found_by_its_english_name(self) -> None:
        of_microsoft = "_8wekyb3d8bbwe!App"
        apps = {
            "windows.immersivecontrolpanel_cw5n1h2txyewy!microsoft.windows.immersivecontrolpanel": (
                "设置",
                "Settings",
            ),
            f"Microsoft.Windows.Photos{of_microsoft}": ("Fotos", "photos"),
            f"Microsoft.WindowsCamera{of_microsoft}": ("相机", "Camera"),
            f"Microsoft.WindowsAlarms{of_microsoft}": ("Uhr", "Clock"),
            f"Microsoft.MicrosoftStickyNotes{of_microsoft}": ("Kurznotizen", "Sticky Notes"),
            f"Microsoft.BingWeather{of_microsoft}": ("Wetter", "Weather"),
            f"Microsoft.WindowsMaps{of_microsoft}": ("Karten", "Maps"),
            f"Microsoft.WindowsStore{of_microsoft}": ("商店", "Microsoft Store"),
            f"Microsoft.ScreenSketch{of_microsoft}": ("Ausschneiden", "Snipping Tool"),
            f"Microsoft.WindowsSoundRecorder{of_microsoft}": ("录音机", "Sound Recorder"),
            "Microsoft.ZuneMusic_8wekyb3d8bbwe!Microsoft.ZuneMusic": (
                "Medienwiedergabe",
                "Media Player",
            ),
            "microsoft.windowscommunicationsapps_8wekyb3d8bbwe!microsoft.windowslive.calendar": (
                "Kalender",
                "Calendar",
            ),
            "MSTeams_8wekyb3d8bbwe!MSTeams": ("Týmy", "Teams"),
            f"Microsoft.WindowsTerminal{of_microsoft}": ("Терминал", "Windows Terminal"),
            f"Microsoft.WindowsFeedbackHub{of_microsoft}": ("Názory", "Windows Feedback Hub"),
            "Microsoft.SecHealthUI_8wekyb3d8bbwe!SecHealthUI": ("Безопасность", "Windows Security"),
            "Clipchamp.Clipchamp_yxz26nhyzhsrt!App": ("Klip", "Microsoft Clipchamp"),
            "Microsoft.ZuneVideo_8wekyb3d8bbwe!Microsoft.ZuneVideo": ("Filme", "Movies & TV"),
        }
        stage = Stage(config={"confirm": "never"})
        calc = agent.Program("calc", "C:\\Windows\\calc.exe", ("calc.exe",))
        paths = {said: f"shell:AppsFolder\\{path}" for path, (_, said) in apps.items()}
        stage.desktop._programs = [
            calc,
            *(agent.Program(name, f"shell:AppsFolder\\{path}") for path, (name, _) in apps.items()),
        ]
        for said, path in paths.items():
            stage.attempt("open_app", name=said)
            self.assertEqual(stage.world.programs_opened[-1:], [path], said)
        # What is no package is not taken for one: Windows Calc may be anything.
        for name in ("app", "Windows calc", "Windows"):
            self.assertEqual(stage.attempt("open_app", name=name).refused, "no_program", name)

    def test_what_has_the_name_itself_goes_first(self) -> None:
        stage = Stage(config={"confirm": "never"})
        mine = agent.Program("Camera", "C:\\Menu\\Camera.lnk", ("cam.exe",))
        app = "shell:AppsFolder\\Microsoft.WindowsCamera_8wekyb3d8bbwe!App"
        stage.desktop._programs = [agent.Program("Kamera", app), mine]
        stage.attempt("open_app", name="camera")
        self.assertEqual(stage.world.programs_opened, [mine.path])


if __name__ == "__main__":
    unittest.main()
