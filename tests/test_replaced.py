"""An act is for what the model saw: what stands there while it thinks may be another one by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import agent
from tests.samples import for_the_gate
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, PlainDesktop, call, role_of

SLOW_S = 200  # as a model on an old machine thinks
CLICK = call("click_screen_element", element_name="Next", position=[500, 500])
KEY = call("press_keyboard_key", key="f5")
Box = tuple[int, int, int, int]
NAME: Box = (300, 150, 40, 8)  # 30 pixels above the button
FAR: Box = (20, 20, 40, 8)


class Paper(PlainDesktop):
    """A window on which boxes are painted that depend on the time."""

    SCREEN = agent.Rect(0, 0, 640, 360)
    paints: Callable[[float], list[Box]] = staticmethod(lambda now: [])

    def screen(self) -> agent.Rect:
        return self.SCREEN

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        canvas = agent.Canvas(width, height, b"\x80\x80\x80\0" * (width * height))
        for box in [(310, 175, 20, 10), *self.paints(self.clock.now())]:
            canvas.fill(agent.Rect(*box).scaled(area, canvas.area), 0xFFFFFF)
        return bytes(canvas.pixels)


def once_at(after_s: float, box: Box) -> Callable[[float], list[Box]]:
    """It is painted from so many seconds on."""
    return lambda now: [box] if now >= after_s else []


def every(seconds: float, box: Box) -> Callable[[float], list[Box]]:
    return lambda now: [box] if int(now / seconds) % 2 else []


def spinning(now: float) -> list[Box]:
    return [(300 + int(now * 8) % 5 * 8, 150, 6, 6)]


def digit_and_clock(now: float) -> list[Box]:
    return [*every(1, (360, 150, 30, 8))(now), *once_at(1100, (310, 140, 6, 9))(now)]


class Replaced(EngineCase):
    desktop_type = Paper
    base = {**FEWER_REQUESTS, "screen_capture_w": 640, "screen_capture_h": 360}

    def slow(self, paints: Any, replies: list[Any], profile: str = "planner") -> Any:
        """The run of a model that thinks for long; its last reply is said again and again."""
        left = [*replies]

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role_of(request) == "planner":
                return PLAN
            trial.clock.advance(SLOW_S)
            reply: dict[str, Any] = left.pop(0) if len(left) > 1 else left[0]
            return reply

        trial = self.trial(decide, profile, max_steps=4, stall_stop=0, **self.base)
        trial.desktop.paints = paints
        self.begin(trial)
        trial.run()
        return trial

    @for_the_gate
    def test_what_was_replaced_meanwhile_is_looked_at_again_and_what_always_changes_is_not(
        self,
    ) -> None:
        for name, paints, reply, wanted in (
            ("nothing", lambda now: [], CLICK, ["", ""]),
            ("a record", once_at(1100, NAME), CLICK, ["stale_frame", ""]),
            ("a record, by key", once_at(1100, NAME), KEY, ["stale_frame", ""]),
            ("something far away", once_at(1100, FAR), CLICK, ["", ""]),
            ("a clock's seconds", every(1, NAME), CLICK, ["", ""]),
            ("a spinner", spinning, CLICK, ["", ""]),
            ("a caret", once_at(1100, (300, 150, 2, 14)), CLICK, ["", ""]),
            ("a digit beside a clock", digit_and_clock, CLICK, ["stale_frame", ""]),
            ("what changes each time", every(200, NAME), CLICK, ["stale_frame", "stale_frame", ""]),
        ):
            with self.subTest(name):
                results = self.slow(paints, [reply]).records("result")
                self.assertEqual([one["refused"] for one in results][: len(wanted)], wanted)

    def test_what_is_meant_by_its_name_is_aimed_at_nothing_that_was_seen(self) -> None:
        for act in (call("open_app", name="Notepad"), call("focus_window", title="Mail")):
            results = self.slow(once_at(1100, NAME), [act]).records("result")
            self.assertNotIn("stale_frame", [one["refused"] for one in results])

    def test_what_the_program_writes_into_its_own_console_meanwhile_replaces_nothing(self) -> None:
        for own, wanted in ((True, ""), (False, "stale_frame")):
            console = agent.Window(1, "cmd", "cmd.exe", agent.Rect(0, 0, 640, 360), own=own)
            with mock.patch.object(Paper, "window_at", lambda *_, shown=console: shown):
                for act in (CLICK, KEY):
                    results = self.slow(once_at(1100, NAME), [act]).records("result")
                    self.assertEqual(results[0]["refused"] == "stale_frame", bool(wanted), own)

    def test_so_it_is_in_a_conversation_in_which_the_picture_is_older(self) -> None:
        click = call("click_element", label="Next", x=500, y=500)
        replies = [call("observe_screen"), click, click]
        trial = self.slow(once_at(1300, NAME), replies, "chat")
        self.assertEqual([lost["error"] for lost in trial.records("no_call")], ["stale_frame"])
        self.assertIn("decide by a new one", str(trial.requests[2]))
        self.assertEqual(trial.records("result")[0]["refused"], "")
