"""A control as a value, who can tell of it, and what the drawn desktop knows of its own."""

from __future__ import annotations

import json
import unittest
from typing import Any

import agent
from agent import Control, KnownControls, Point, Rect, Window
from tests.fakes import VirtualClock

SAVE = Control("Save", "button", Rect(10, 10, 80, 24), window=7, process=4711)
FIELD = Control("File name", "edit", Rect(10, 50, 200, 24), value="a.txt", focused=True, window=7)
BOX = Control("Read only", "checkbox", Rect(10, 90, 80, 24), checked=False, enabled=False, window=8)


class AControlAsAValue(unittest.TestCase):
    def test_all_that_is_known_of_it_stands_in_its_json(self) -> None:
        for control in (SAVE, FIELD, BOX):
            entry = json.loads(json.dumps(control.to_json()))
            rect = Rect(*entry.pop("rect"))
            self.assertEqual(Control(rect=rect, **entry), control)

    def test_what_is_as_usual_is_left_out(self) -> None:
        self.assertEqual(
            Control("", "text", Rect(1, 2, 3, 4)).to_json(),
            {"name": "", "role": "text", "rect": [1, 2, 3, 4]},
        )


class WhoKnowsTheControls(unittest.TestCase):
    def test_the_topmost_one_at_a_point_is_told(self) -> None:
        source = KnownControls([SAVE, FIELD, Control("", "window", Rect(0, 0, 400, 300))])
        self.assertEqual(source.ask(Point(20, 20)), [SAVE])
        self.assertEqual(source.ask(Point(399, 299)), [source.known[2]])
        self.assertEqual(source.ask(Point(400, 10)), [])

    def test_the_one_with_the_keyboard_and_those_of_a_window_are_told(self) -> None:
        source = KnownControls([SAVE, BOX, FIELD])
        self.assertEqual(source.ask(None), [FIELD])
        self.assertEqual(source.ask(Window(7, "")), [SAVE, FIELD])


class TheDrawnDesktop(unittest.TestCase):
    def desktop(self, **state: Any) -> agent.DemoDesktop:
        desktop = agent.DemoDesktop(VirtualClock())
        desktop.state = agent.DemoState(**state)
        return desktop

    def test_every_place_of_every_window_has_a_name_and_a_role(self) -> None:
        state = agent.DemoState(opened=True)
        for control in state.places().values():
            self.assertTrue(control.name and control.role and control.window, control)

    def test_the_field_tells_its_text_and_whether_it_has_the_keyboard(self) -> None:
        desktop = self.desktop(opened=True, focus=True, text="Hello")
        (field,) = desktop.control_source.ask(None)
        self.assertEqual([field], desktop.control_source.ask(Point(600, 300)))
        self.assertEqual((field.name, field.role, field.value), ("Text area", "edit", "Hello"))
        self.assertEqual(self.desktop(opened=True).control_source.ask(None), [])

    def test_a_window_lists_its_own_controls_only(self) -> None:
        desktop = self.desktop(opened=True)
        front = desktop.foreground()
        assert front
        names = [control.name for control in desktop.control_source.ask(front)]
        self.assertEqual(names, ["Save", "Text area", "Untitled - Notes"])


if __name__ == "__main__":
    unittest.main()
