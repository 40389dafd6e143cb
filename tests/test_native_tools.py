"""The acts that only the trained models' grammars have: through the same gates, and nothing stays held."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any
from unittest import mock

import agent
from agent import Rect
from tests.fakes import Foreground
from tests.seams import VK_MAP
from tests.test_actuator import Stage, strokes

LEFT = [("left", True), ("left", False)]


def pressed(stage: Stage) -> list[str]:
    """The keys and buttons that went down or up, in order, by their names."""
    names = {str(code): name for name, code in VK_MAP.items()}
    events = [event for event in stage.world.events if event.kind in ("key", "button")]
    return [names.get(str(event.value), str(event.value)) for event in events]


class Clicks(unittest.TestCase):
    def test_middle_and_triple_clicks(self) -> None:
        for name, wanted in (
            ("middle_click", [("middle", True), ("middle", False)]),
            ("triple_click", LEFT * 3),
        ):
            stage = Stage()
            stage.do(name)
            self.assertEqual(strokes(stage.world), wanted)

    def test_what_has_no_place_is_done_where_the_mouse_is(self) -> None:
        for name, given in (
            ("click", {"element_name": "it", "position": None}),
            ("scroll", {"ticks": 1, "position": None}),
            ("drag", {"start": None, "end": [600, 600]}),
        ):
            stage = Stage()
            stage.do("move", position=[250, 250])
            start = stage.desktop.cursor()
            stage.do(name, **given)
            first = next(e for e in stage.world.events if e.kind in ("button", "wheel"))
            self.assertEqual(first.place, start, name)
        self.assertEqual(stage.desktop.cursor(), (1151, 647))

    def test_modifiers_are_held_for_the_click_and_let_go_of(self) -> None:
        stage = Stage()
        stage.do("click", modifiers="ctrl+shift")
        self.assertEqual(pressed(stage), ["ctrl", "shift", "left", "left", "shift", "ctrl"])
        stage.world.verify()
        with self.assertRaisesRegex(agent.ToolError, "a is no key to hold"):
            Stage().do("click", modifiers="ctrl+a")

    def test_ticks_are_notches_and_their_sign_the_direction(self) -> None:
        for name, kind, ticks, wanted in (
            ("scroll", "wheel", 2, [120, 120]),
            ("scroll", "wheel", -3, [-120] * 3),
            ("hscroll", "hwheel", -1, [-120]),
        ):
            stage = Stage()
            stage.do(name, ticks=ticks)
            turned = [event.value for event in stage.world.events if event.kind == kind]
            self.assertEqual(turned, wanted)


class Held(unittest.TestCase):
    """That something is held is noted; nothing is down between acts."""

    def holding(self, *keys: str, **config: Any) -> Stage:
        stage = Stage(config=config)
        for key in keys or ["shift"]:
            stage.do("key_down", key=key)
        self.assertEqual((tuple(stage.actuator.keys), pressed(stage)), (keys or ("shift",), []))
        return stage

    def free(self, stage: Stage) -> None:
        self.assertEqual((list(stage.actuator.keys), stage.world.held()), ([], []))

    def test_the_acts_that_follow_are_done_with_a_held_key_until_it_is_let_go_of(self) -> None:
        stage = self.holding()
        stage.do("press_key", key="right")
        stage.do("click")
        stage.do("key_up", key="shift")
        stage.do("press_key", key="right")
        key, click = ["shift", "right", "right", "shift"], ["shift", "left", "left", "shift"]
        self.assertEqual(pressed(stage), [*key, *click, "right", "right"])
        self.free(stage)

    def test_it_counts_for_three_further_acts_at_most(self) -> None:
        stage = self.holding()
        for _ in range(3):
            stage.do("press_key", key="right")
        self.free(stage)
        self.assertEqual(pressed(stage).count("shift"), 6)

    def test_a_key_that_is_no_modifier_is_pressed_at_once_with_those_that_are_held(self) -> None:
        stage = self.holding("ctrl")
        stage.do("key_down", key="c")
        stage.do("key_up", key="c")
        self.assertEqual(pressed(stage), ["ctrl", "c", "c", "ctrl"])
        self.assertEqual(stage.actuator.keys, ["ctrl"])

    def test_text_is_typed_without_what_is_held(self) -> None:
        stage = self.holding()
        stage.do("type_text", text="abc")
        self.assertEqual(pressed(stage), [])

    def test_a_refused_act_a_pause_and_a_failure_let_go_of_it(self) -> None:
        stage = self.holding()
        self.assertEqual(stage.attempt("type_text", text="x" * 10_001).refused, "too_long")
        self.free(stage)
        stage = self.holding()
        with mock.patch.object(stage.desktop, "wheel", side_effect=agent.Win32Error("no")):
            self.assertEqual(stage.attempt("scroll", ticks=2).refused, "windows")
        self.free(stage)
        stage = self.holding()
        stage.stop.paused = "for a while"

        def resume() -> None:
            self.free(stage)  # the keyboard is the person's meanwhile
            stage.stop.paused = ""

        stage.clock.at(1, resume)
        self.assertEqual(stage.attempt("press_key", key="right").refused, "stale_frame")

    def test_a_blocked_chord_cannot_be_pressed_in_several_acts_or_with_a_click(self) -> None:
        blocked = "ctrl+alt"
        for stage, name, given in (
            (self.holding("alt", "ctrl"), "press_key", {"key": "delete"}),
            (self.holding("ctrl", blocked_keys=blocked), "click", {"modifiers": "alt"}),
            (Stage(config={"blocked_keys": blocked}), "click", {"modifiers": blocked}),
        ):
            performed = stage.attempt(name, **given)
            self.assertEqual((performed.refused, performed.begun), ("blocked_key", False), name)
            self.free(stage)
            self.assertEqual(pressed(stage), [])

    def test_risks_see_the_keys_that_are_held(self) -> None:
        stage = self.holding()
        asked: list[str] = []
        stage.actuator.confirm = lambda question: bool(asked.append(question))
        self.assertEqual(stage.attempt("press_key", key="delete").refused, "not_allowed")
        self.assertIn("shift+delete", asked[0])
        self.free(stage)


class HeldButtons(unittest.TestCase):
    def test_a_held_button_is_dragged_along_the_places_where_the_mouse_was(self) -> None:
        stage = Stage()
        stage.do("mouse_down", position=[100, 100])
        stage.do("move", position=[100, 500])
        self.assertEqual(strokes(stage.world), [])
        stage.do("mouse_up", position=[500, 500], element_name="")
        self.assertEqual(strokes(stage.world), LEFT)
        events = stage.world.events
        first = next(number for number, event in enumerate(events) if event.kind == "button")
        down, *way, up = events[first:]
        self.assertEqual((down.place, up.place), ((192, 108), (960, 540)))
        self.assertIn((192, 540), [event.place for event in way])
        self.assertEqual(stage.world.held(), [])

    def test_a_button_that_is_held_and_let_go_of_in_one_place_clicks_there(self) -> None:
        stage = Stage()
        stage.do("mouse_down", position=[100, 100], button="right")
        stage.do("mouse_up", position=None, button="right")
        self.assertEqual([click.place for click in stage.world.clicks], [(192, 108)])
        self.assertEqual(strokes(stage.world), [("right", True), ("right", False)])

    def test_no_way_leads_over_a_forbidden_window(self) -> None:
        stage = Stage(config={"blocked_windows": "*bank*"})
        stage.do("mouse_down", position=[10, 980])
        bank = replace(Foreground(), title="My bank", handle=0x70002, rect=Rect(0, 1000, 90, 80))
        stage.world.others = [bank]
        performed = stage.attempt("mouse_up", position=[500, 500])
        self.assertEqual((performed.refused, strokes(stage.world)), ("forbidden_window", []))

    def test_a_button_that_is_not_held_or_unknown_is_refused(self) -> None:
        self.assertRegex(Stage().attempt("mouse_up").result, "is not held")
        wanted = "button must be left, right or middle, not 'fourth'"
        with self.assertRaisesRegex(agent.ToolError, wanted):
            Stage().do("mouse_down", button="fourth")


if __name__ == "__main__":
    unittest.main()
