"""The acts that only the trained models' grammars have: through the same gates, and nothing stays held."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any
from unittest import mock

import agent
from agent import Rect
from tests.fakes import Event, Foreground
from tests.seams import VK_MAP
from tests.test_actuator import Stage, strokes

HERE = {"element_name": "it", "position": None}


def downs(stage: Stage) -> list[tuple[str, str, bool]]:
    """What was pressed and released, keys and buttons, in order; a key by its code."""
    kinds = ("key", "button")
    return [(e.kind, str(e.value), e.down) for e in stage.world.events if e.kind in kinds]


def first_press(stage: Stage) -> Event:
    return next(event for event in stage.world.events if event.kind == "button")


def code(key: str) -> str:
    return str(VK_MAP[key])


class Clicks(unittest.TestCase):
    def test_middle_and_triple_clicks(self) -> None:
        stage = Stage()
        stage.do("middle_click")
        self.assertEqual(strokes(stage.world), [("middle", True), ("middle", False)])
        stage = Stage()
        stage.do("triple_click")
        self.assertEqual(strokes(stage.world), [("left", True), ("left", False)] * 3)

    def test_a_click_without_a_place_is_where_the_mouse_is(self) -> None:
        stage = Stage()
        stage.do("move", position=[250, 250])
        before = stage.desktop.cursor()
        stage.do("click", **HERE)
        self.assertEqual(stage.desktop.cursor(), before)
        self.assertEqual(strokes(stage.world), [("left", True), ("left", False)])

    def test_modifiers_are_held_for_the_click_and_let_go_of(self) -> None:
        stage = Stage()
        stage.do("click", modifiers="ctrl+shift")
        ctrl, shift = code("ctrl"), code("shift")
        pressed = downs(stage)
        self.assertEqual(
            [name for _, name, _ in pressed], [ctrl, shift, "left", "left", shift, ctrl]
        )
        stage.world.verify()

    def test_a_key_that_is_no_modifier_is_not_held(self) -> None:
        with self.assertRaisesRegex(agent.ToolError, "a is no key to hold"):
            Stage().do("click", modifiers="ctrl+a")

    def test_modifiers_that_make_a_blocked_chord_are_refused(self) -> None:
        stage = Stage(config={"blocked_keys": "ctrl+alt"})
        performed = stage.attempt("click", modifiers="ctrl+alt")
        self.assertEqual((performed.refused, performed.begun), ("blocked_key", False))

    def test_a_drag_without_a_start_begins_where_the_mouse_is(self) -> None:
        stage = Stage()
        stage.do("move", position=[100, 100])
        start = stage.desktop.cursor()
        stage.do("drag", start=None, end=[600, 600])
        first = next(event for event in stage.world.events if event.kind == "button")
        self.assertEqual(first.place, start)
        self.assertEqual(stage.desktop.cursor(), (1151, 647))


class Wheel(unittest.TestCase):
    def turned(self, name: str, **given: Any) -> list[int]:
        stage = Stage()
        stage.do(name, **given)
        kind = "hwheel" if name == "hscroll" else "wheel"
        return [event.value for event in stage.world.events if event.kind == kind]

    def test_ticks_are_notches_and_their_sign_the_direction(self) -> None:
        self.assertEqual(self.turned("scroll", ticks=2), [120, 120])
        self.assertEqual(self.turned("scroll", ticks=-3), [-120] * 3)
        self.assertEqual(self.turned("hscroll", ticks=-1), [-120])

    def test_without_a_place_it_is_turned_where_the_mouse_is(self) -> None:
        stage = Stage()
        stage.do("move", position=[250, 250])
        before = stage.desktop.cursor()
        stage.do("scroll", ticks=1, position=None)
        self.assertEqual(stage.desktop.cursor(), before)

    def test_no_turn_and_too_many_are_refused(self) -> None:
        for ticks in (0, 101, -101):
            with self.assertRaisesRegex(agent.ToolError, "1 to 100 ticks"):
                Stage().do("scroll", ticks=ticks)


class Held(unittest.TestCase):
    """That something is held is noted; nothing is down between acts."""

    def holding(self, config: dict[str, Any] | None = None) -> Stage:
        stage = Stage(config=config)
        stage.do("key_down", key="shift")
        self.assertEqual((stage.actuator.keys, downs(stage)), (["shift"], []))
        return stage

    def free(self, stage: Stage) -> None:
        self.assertEqual((list(stage.actuator.keys), stage.world.held()), ([], []))

    def test_the_acts_that_follow_are_done_with_a_held_key_until_it_is_let_go_of(self) -> None:
        shift, right = code("shift"), code("right")
        stage = self.holding()
        stage.do("press_key", key="right")
        stage.do("click")
        stage.do("key_up", key="shift")
        stage.do("press_key", key="right")
        names = [name for _, name, _ in downs(stage)]
        self.assertEqual(
            names, [shift, right, right, shift, shift, "left", "left", shift, right, right]
        )
        self.free(stage)

    def test_it_counts_for_three_further_acts_at_most(self) -> None:
        stage = self.holding()
        for _ in range(3):
            stage.do("press_key", key="right")
        self.free(stage)
        self.assertEqual(downs(stage).count(("key", code("shift"), True)), 3)

    def test_a_key_that_is_no_modifier_is_pressed_at_once_with_those_that_are_held(self) -> None:
        stage = Stage()
        stage.do("key_down", key="ctrl")
        stage.do("key_down", key="c")
        stage.do("key_up", key="c")
        ctrl, c = code("ctrl"), code("c")
        self.assertEqual([name for _, name, _ in downs(stage)], [ctrl, c, c, ctrl])
        self.assertEqual(stage.actuator.keys, ["ctrl"])

    def test_a_refused_act_lets_go_of_it(self) -> None:
        stage = self.holding()
        self.assertEqual(stage.attempt("type_text", text="x" * 10_001).refused, "too_long")
        self.free(stage)

    def test_a_pause_lets_go_of_it(self) -> None:
        stage = self.holding()
        stage.stop.paused = "for a while"

        def resume() -> None:
            self.free(stage)  # the keyboard is the person's meanwhile
            stage.stop.paused = ""

        stage.clock.at(stage.clock.now() + 1, resume)
        self.assertEqual(stage.attempt("press_key", key="right").refused, "stale_frame")

    def test_an_act_that_fails_half_way_lets_go_of_it(self) -> None:
        stage = self.holding()
        with mock.patch.object(stage.desktop, "wheel", side_effect=agent.Win32Error("no")):
            self.assertEqual(stage.attempt("scroll", ticks=2).refused, "windows")
        self.free(stage)

    def test_a_click_does_not_complete_a_blocked_chord_with_what_is_held(self) -> None:
        stage = Stage(config={"blocked_keys": "ctrl+alt"})
        stage.do("key_down", key="ctrl")
        performed = stage.attempt("click", modifiers="alt")
        self.assertEqual((performed.refused, performed.acted), ("blocked_key", False))

    def test_text_is_typed_without_what_is_held(self) -> None:
        stage = self.holding()
        stage.do("type_text", text="abc")
        self.assertEqual(downs(stage), [])

    def test_a_blocked_chord_cannot_be_pressed_in_two_acts(self) -> None:
        stage = Stage()
        stage.do("key_down", key="alt")
        stage.do("key_down", key="ctrl")
        performed = stage.attempt("press_key", key="delete")
        self.assertEqual((performed.refused, performed.begun), ("blocked_key", False))
        self.free(stage)

    def test_risks_see_the_keys_that_are_held(self) -> None:
        stage = Stage()
        asked: list[str] = []
        stage.actuator.confirm = lambda question: bool(asked.append(question))
        stage.do("key_down", key="shift")
        self.assertEqual(stage.attempt("press_key", key="delete").refused, "not_allowed")
        self.assertIn("shift+delete", asked[0])
        self.free(stage)

    def test_a_held_button_is_dragged_along_the_places_where_the_mouse_was(self) -> None:
        stage = Stage()
        stage.do("mouse_down", position=[100, 100])
        stage.do("move", position=[100, 500])
        self.assertEqual(strokes(stage.world), [])
        stage.do("mouse_up", position=[500, 500], element_name="")
        self.assertEqual(strokes(stage.world), [("left", True), ("left", False)])
        down, *way, up = stage.world.events[stage.world.events.index(first_press(stage)) :]
        corner = agent.Point(192, 540)
        self.assertEqual((down.place, up.place), ((192, 108), (960, 540)))
        self.assertIn(corner, [event.place for event in way])
        self.free(stage)

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

    def test_a_button_that_is_not_held_cannot_be_let_go_of(self) -> None:
        self.assertRegex(Stage().attempt("mouse_up").result, "is not held")

    def test_an_unknown_button_is_refused(self) -> None:
        with self.assertRaisesRegex(
            agent.ToolError, "button must be left, right or middle, not 'fourth'"
        ):
            Stage().do("mouse_down", button="fourth")


class Described(unittest.TestCase):
    def test_the_described_systems_see_nothing_of_what_only_grammars_say(self) -> None:
        for profile in agent.PROFILES.values():
            for role in profile.roles.values():
                self.assertNotIn("modifiers", str(profile.schemas(role)))
        (schema,) = agent.PLANNER_WORDS.schemas(["click"])
        self.assertEqual(schema["function"]["parameters"]["required"], ["element_name", "position"])


if __name__ == "__main__":
    unittest.main()
