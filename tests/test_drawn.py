"""The list that is drawn beside the demo's program; tests.test_bench does the task of the check box."""

from __future__ import annotations

import unittest

from agent import Point
from tests import drawn
from tests.drawn import DrawnDesktop
from tests.fakes import VirtualClock


def click(desktop: DrawnDesktop, *names: str) -> None:
    for name in names:
        rect = desktop.state.places()[name].rect
        desktop.move(Point(rect.left + rect.width // 2, rect.top + rect.height // 2))
        for down in (True, False):
            desktop.button("left", down)
        desktop.clock.sleep(1)


class Programs(unittest.TestCase):
    def test_the_list_is_scrolled_where_the_mouse_is_and_whoever_is_picked_is_called(self) -> None:
        task = drawn.TASKS["contacts"]
        desktop = DrawnDesktop(VirtualClock(), task.begin)
        click(desktop, "Contacts pin")
        desktop.move(Point(500, 510))  # below the list
        desktop.wheel(-1200)
        self.assertNotIn("Zoe in the list", desktop.state.places())
        click(desktop, "Ada in the list", "Call button")
        self.assertEqual(desktop.windows()[0].title, "Calling Ada - Contacts")
        desktop.wheel(-120)
        desktop.move(Point(500, 200))
        desktop.wheel(-1200)
        click(desktop, "Zoe in the list")
        self.assertFalse(task.is_done(desktop.state))
        click(desktop, "Call button")
        self.assertTrue(task.is_done(desktop.state))
