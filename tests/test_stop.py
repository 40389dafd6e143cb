"""Stopping and pausing from outside: hotkeys, the mouse in the corner, the console's close button, a second agent.

The watcher is a real thread, so these tests wait for what it does, a few of its rounds of 0.03 s.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import unittest
from collections.abc import Iterator
from typing import Any
from unittest import mock

import agent
from agent import Point
from tests.fakes import FakeWin32
from tests.long.faults import Faults, whole_run
from tests.test_actuator import Stage
from tests.timing import HANGS_S, comes_true

NO_REPEAT = 0x4000  # MOD_NOREPEAT: keys that stay down are one press


class WatchCase(unittest.TestCase):
    @contextlib.contextmanager
    def watched(self, **config: Any) -> Iterator[Stage]:
        """A simulated Windows whose watcher has begun its rounds."""
        stage = Stage(config=config)
        with agent.watched(stage.world.api, stage.actuator):
            self.rounds(stage)
            yield stage
        names = [thread.name for thread in threading.enumerate()]
        self.assertEqual([name for name in names if name.endswith("(_watch)")], [])
        self.assertEqual(stage.world.problems, [])

    def rounds(self, stage: Stage) -> None:
        """Waits for a whole round of the watcher, which begins with a look for messages."""
        before = stage.world.calls.count("PeekMessageW")
        self.assertTrue(comes_true(lambda: stage.world.calls.count("PeekMessageW") > before + 2))

    def press(self, stage: Stage, number: int) -> None:
        stage.world.messages.append(number)
        self.assertTrue(comes_true(lambda: not stage.world.messages))


class Hotkeys(WatchCase):
    def test_the_chords_of_the_config_are_registered(self) -> None:
        for config, hotkeys in (
            ({}, {0: (NO_REPEAT | 3, 0x08), 1: (NO_REPEAT | 3, 0x2D)}),
            (
                {"stop_hotkey": "Shift+Win+Esc", "pause_hotkey": "F9"},
                {0: (NO_REPEAT | 12, 0x1B), 1: (NO_REPEAT, 0x78)},
            ),
            (
                {"stop_hotkey": "Ctrl+Shift+Q", "pause_hotkey": "Alt+F9"},
                {0: (NO_REPEAT | 6, ord("Q")), 1: (NO_REPEAT | 1, 0x78)},
            ),
        ):
            with self.watched(**config) as stage:
                self.assertEqual(stage.world.hotkeys, hotkeys)

    def test_the_stop_hotkey_stops_and_says_which_it_was(self) -> None:
        with self.watched() as stage:
            self.press(stage, 0)
            self.assertTrue(comes_true(lambda: stage.stop.reason))
            with self.assertRaisesRegex(agent.Stopped, r"^Stopped: ctrl\+alt\+backspace\.$"):
                stage.do("click")
            stage.stop.set("the mouse in the corner")  # of two reasons the first is told
            self.assertEqual(stage.stop.reason, "ctrl+alt+backspace")
        self.assertEqual(stage.world.events, [])

    def test_the_pause_hotkey_pauses_goes_on_and_keeps_a_pause_that_would_end(self) -> None:
        said: list[str] = []
        with self.watched() as stage:
            self.press(stage, 1)
            self.assertTrue(comes_true(lambda: "ctrl+alt+insert" in stage.stop.paused))
            self.press(stage, 1)
            self.assertTrue(comes_true(lambda: not stage.stop.paused))
            self.assertEqual(stage.stop.reason, "")
            stage.actuator.person.say = said.append
            stage.clock.advance(5)
            stage.world.person()

            def press() -> None:
                paused = stage.stop.paused
                stage.world.messages.append(1)
                comes_true(lambda: stage.stop.paused != paused)

            for seconds in (1, 100):
                stage.clock.at(seconds, press)
            start = stage.clock.now()
            self.assertEqual(stage.attempt("click").refused, "paused")
            self.assertGreaterEqual(stage.clock.now() - start, 99)
        held = "paused: mouse or keyboard is in use; it goes on by itself after some quiet"
        asked = "paused: until ctrl+alt+insert is pressed again"
        self.assertEqual(said, [held, asked, "going on"])

    def test_where_another_program_has_the_keys_the_next_ones_do_and_are_told(self) -> None:
        ctrl_alt, backspace, insert = NO_REPEAT | 3, 0x08, 0x2D
        with_shift, with_win = ctrl_alt | 4, NO_REPEAT | 14
        of_stop, of_pause = "ctrl+alt+backspace (stop_hotkey)", "ctrl+alt+insert (pause_hotkey)"
        for taken, stop_key, pause_key, told in (
            ([(ctrl_alt, backspace)], (with_shift, backspace), (ctrl_alt, insert), [of_stop]),
            (
                [(ctrl_alt, backspace), (with_shift, backspace), (ctrl_alt, insert)],
                (with_win, backspace),
                (with_shift, insert),
                [of_stop, of_pause],
            ),
        ):
            stage = Stage()
            stage.world.hotkeys |= dict(enumerate(taken, 9))
            with agent.watched(stage.world.api, stage.actuator) as hotkeys:
                self.assertEqual(
                    (stage.world.hotkeys[0], stage.world.hotkeys[1]), (stop_key, pause_key)
                )
                notes = [note for _, note in hotkeys if note]
                self.assertEqual([note.partition(" is ")[0] for note in notes], told)
                self.assertRegex(
                    notes[0], r"another program's \(error 1409\); ctrl\+.* does it now"
                )
                self.press(stage, 0)
                self.assertTrue(comes_true(lambda: stage.stop.reason))  # noqa: B023
                self.assertEqual(stage.stop.reason, hotkeys[0][0])
                self.assertIn(f"; {stage.stop.reason} does it now", notes[0])

    def test_without_any_stop_key_no_run_begins_and_without_a_pause_key_one_does(self) -> None:
        stage = Stage()
        mine = [(NO_REPEAT | held, 0x08) for held in (3, 7, 14)]
        stage.world.hotkeys |= dict(enumerate(mine, 9))
        words = r"ctrl\+alt\+backspace nor .* had.*error 1409.*--set stop_hotkey=KEYS\.$"
        refused = self.assertRaisesRegex(agent.Stopped, words)
        with refused, agent.watched(stage.world.api, stage.actuator):
            self.fail("it must not begin")
        stage = Stage()
        mine = [(NO_REPEAT | held, 0x2D) for held in (3, 7, 14)]
        stage.world.hotkeys |= dict(enumerate(mine, 9))
        with agent.watched(stage.world.api, stage.actuator) as (_, (pause_key, told)):
            self.assertEqual(pause_key, "")
            self.assertIn("--set pause_hotkey=KEYS.", told)
            self.press(stage, 0)
            self.assertTrue(comes_true(lambda: stage.stop.reason == "ctrl+alt+backspace"))

    def test_no_key_that_people_write_with_is_a_hotkey(self) -> None:
        for chord in (
            *("ctrl+alt+q", "ctrl+alt+shift+e", "AltGr+m", "ctrl+alt+win+2", "Strg+Alt+<"),
            *("ctrl+alt+space", "ctrl+alt+=", "x", "shift+7", "enter", "shift+space", "?"),
            *("num0", "numadd", "shift+numdecimal", "shift+numenter", "AltGr+num7"),
        ):
            for name in ("stop_hotkey", "pause_hotkey"):
                words = f"{name} cannot be .*swallows its key.* such as ctrl"
                with self.assertRaisesRegex(agent.ConfigError, words, msg=chord):
                    Stage(config={name: chord})
        for chord in (
            "f9",
            "ctrl+q",
            "ctrl+shift+q",
            "alt+win+q",
            "ctrl+alt+f9",
            "ctrl+alt+end",
            "ctrl+num0",
            "numlock",
        ):
            Stage(config={"stop_hotkey": chord})

    def test_no_hotkey_that_it_may_take_is_pressed_by_the_program_itself(self) -> None:
        stage = Stage(config={"stop_hotkey": "f9", "confirm": "never"})
        for chord in (
            "f9",
            "ctrl+alt+shift+backspace",
            "ctrl+alt+shift+insert",
            "ctrl+win+shift+insert",
        ):
            self.assertEqual(stage.attempt("press_key", key=chord).refused, "blocked_key", chord)
        self.assertEqual(stage.attempt("press_key", key="ctrl+alt+backspace").refused, "")

    def test_a_watcher_that_is_lost_stops_the_run(self) -> None:
        for error in (RuntimeError("a bug"), agent.Win32Error("refused", 5)):
            with mock.patch.object(threading, "excepthook"), self.watched() as stage:
                stage.world.api.PeekMessageW = mock.Mock(side_effect=error)
                self.assertTrue(comes_true(lambda: stage.stop.reason))
                self.assertRegex(stage.stop.reason, "hotkeys and mouse was lost")


class Corner(WatchCase):
    def test_the_mouse_thrown_into_the_corner_stops(self) -> None:
        two = [agent.Rect(0, 0, 1920, 1080), agent.Rect(-800, 0, 800, 600)]
        places = (None, Point(0, 0)), (None, Point(2, 2)), (two, Point(-800, 0)), (two, Point(0, 1))
        for monitors, corner in places:
            with self.watched() as stage:
                stage.world.monitors = monitors or stage.world.monitors
                self.rounds(stage)  # else a round may begin on the old screen
                stage.world.mouse = corner
                self.assertTrue(comes_true(lambda: stage.stop.reason == "the mouse in the corner"))

    def test_a_corner_stops_where_monitors_do_not_stand_flush_and_nothing_goes_on(self) -> None:
        main, lower = agent.Rect(0, 0, 1920, 1080), agent.Rect(-800, 200, 800, 600)
        upper = agent.Rect(1920, -300, 1920, 1080)
        for monitors, place, stops in (
            ([main, lower], Point(-800, 200), True),  # no corner of the whole screen
            ([main, lower, upper], Point(-799, 202), True),
            ([main, upper], Point(1920, -300), True),
            ([main, upper._replace(top=0)], Point(1921, 0), False),  # the mouse goes on to the left
            ([main, main._replace(top=1080)], Point(0, 1081), False),  # or upwards
        ):
            with self.watched() as stage:
                stage.world.monitors = monitors
                stage.world.mouse = Point(500, 300)
                self.rounds(stage)
                stage.world.mouse = place
                self.rounds(stage)
                self.assertEqual(bool(stage.stop.reason), stops, place)

    def test_the_program_may_click_into_the_corner_and_the_mouse_have_been_there(self) -> None:
        with self.watched() as stage:
            stage.do("click", position=[1, 1])
            for place in (stage.world.mouse, Point(0, 0)):
                stage.world.mouse = place
                self.rounds(stage)
            self.assertEqual(stage.stop.reason, "")
        stage = Stage(mouse=Point(0, 0))
        with agent.watched(stage.world.api, stage.actuator):
            self.rounds(stage)
            self.assertEqual(stage.stop.reason, "")
            for place in (Point(2, 2), Point(3, 0)):
                stage.world.mouse = place
                self.rounds(stage)
            self.assertEqual(stage.stop.reason, "")
            stage.world.mouse = Point(2, 0)
            self.assertTrue(comes_true(lambda: stage.stop.reason))

    def test_a_throw_into_a_corner_that_the_program_clicked_long_ago_stops(self) -> None:
        for clicked in ([1, 1], [0, 0]):
            with self.watched() as stage:
                stage.do("click", position=clicked)
                self.rounds(stage)
                for place in (Point(500, 300), Point(0, 0)):
                    self.assertEqual(stage.stop.reason, "")
                    stage.world.mouse = place
                    self.rounds(stage)
                self.assertTrue(comes_true(lambda: stage.stop.reason == "the mouse in the corner"))

    def test_a_locked_desktop_does_not_end_the_watch(self) -> None:
        with self.watched() as stage:
            stage.world.arm(names={"GetCursorPos"})
            self.rounds(stage)
            self.press(stage, 0)
            self.assertTrue(comes_true(lambda: stage.stop.reason == "ctrl+alt+backspace"))


class Console(WatchCase):
    def test_the_close_button_alone_stops_and_waits_until_the_run_has_ended(self) -> None:
        answers: list[int] = []
        stage = Stage()
        with agent.close_button(stage.world.api, stage.stop):
            closing = stage.world.on_close
            self.assertEqual([closing(event) for event in (0, 1)], [0, 0])  # Ctrl+C and Ctrl+Break
            self.assertEqual(stage.stop.reason, "")  # are left to the signals
            thread = threading.Thread(target=lambda: answers.append(closing(2)))
            thread.start()
            self.assertTrue(comes_true(lambda: stage.stop.reason == "the console was closed"))
            self.assertEqual(answers, [])
        thread.join(HANGS_S)
        self.assertEqual(answers, [1])
        self.assertIsNone(stage.world.on_close)

    def test_windows_waits_with_the_end_until_the_run_has_written_all_it_writes(self) -> None:
        watched = FakeWin32._SetConsoleCtrlHandler
        written: list[list[str]] = []

        def noted(world: FakeWin32, handler: int | None, add: int) -> int:
            files = os.listdir("/proc/self/fd") if os.name == "posix" else []  # Linux tells them
            opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in files]
            written.append([path for path in opened if "/dumps/" in path])
            return watched(world, handler, add)

        with mock.patch.object(FakeWin32, "_SetConsoleCtrlHandler", noted):
            self.assertEqual(whole_run(Faults(), Faults(), Faults()), [])
        self.assertEqual(written, [[], []])

    def test_a_program_without_a_console_runs_all_the_same(self) -> None:
        stage = Stage()
        stage.world.arm(names={"SetConsoleCtrlHandler"})
        with agent.close_button(stage.world.api, stage.stop):
            stage.do("click")


class Waits(unittest.TestCase):
    def test_a_stop_ends_at_once_what_would_go_on_for_an_hour(self) -> None:
        stop, ended = agent.Stop(), threading.Event()

        def wait() -> None:
            try:
                agent.SystemClock(stop).sleep(3600)
            except agent.Stopped:
                ended.set()

        threading.Thread(target=wait, daemon=True).start()
        stop.set("now")
        self.assertTrue(ended.wait(60))

    def test_a_signal_at_any_line_of_a_wait_ends_it(self) -> None:
        for number in range(1, 40):
            waiter = threading.Thread(target=self.wait_with_signal, args=(number,), daemon=True)
            waiter.start()
            waiter.join(HANGS_S)
            self.assertFalse(waiter.is_alive(), f"it hangs after a signal at line {number}")

    def wait_with_signal(self, number: int) -> None:
        """A wait in which the flag is set as a signal handler does it, before so many lines."""
        stop = agent.Stop()
        lines = 0

        def trace(_frame: Any, event: str, _: object) -> Any:
            nonlocal lines
            lines += event == "line"
            if lines == number:
                stop.set("Ctrl+C")
            return trace

        sys.settrace(trace)
        try:
            with contextlib.suppress(agent.Stopped):
                agent.SystemClock(stop).sleep(0.06)
        finally:
            sys.settrace(None)


class SecondAgent(unittest.TestCase):
    def test_a_second_agent_on_the_same_desktop_is_refused_before_anything(self) -> None:
        with mock.patch.dict("tests.fakes.ANSWERS", WaitForSingleObject=258):
            wrong = whole_run(Faults(), Faults(), Faults())
        self.assertRegex("".join(wrong), "ended with 2 and 0 clicks")
