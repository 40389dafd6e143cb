"""The two programs that are drawn beside the demo's, for models that are measured."""

from __future__ import annotations

import unittest

from agent import DemoState, Point
from tests import drawn
from tests.drawn import CONTACTS, DrawnDesktop, DrawnState
from tests.fakes import VirtualClock


def click(desktop: DrawnDesktop, *names: str) -> None:
    for name in names:
        rect = desktop.state.places()[name].rect
        desktop.move(Point(rect.left + rect.width // 2, rect.top + rect.height // 2))
        for down in (True, False):
            desktop.button("left", down)
        desktop.clock.sleep(1)


def begun(task: str) -> DrawnDesktop:
    return DrawnDesktop(VirtualClock(), drawn.TASKS[task].begin)


class Programs(unittest.TestCase):
    def test_the_check_box_counts_with_ok_alone(self) -> None:
        desktop, task = begun("settings"), drawn.TASKS["settings"]
        for button, done in (("Cancel button", False), ("OK button", True)):
            click(desktop, "Settings pin", "check box")
            self.assertFalse(task.is_done(desktop.state))
            click(desktop, button)
            self.assertEqual(task.is_done(desktop.state), done)

    def test_the_list_is_scrolled_where_the_mouse_is_and_whoever_is_picked_is_called(self) -> None:
        desktop, task = begun("contacts"), drawn.TASKS["contacts"]
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

    def test_each_change_is_seen(self) -> None:
        settings, contacts = DrawnState(program="Settings"), DrawnState(program="Contacts")
        ticked, picked = settings.after("check box"), contacts.after(f"{CONTACTS[0]} in the list")
        states = [DemoState(), DrawnState(), settings, ticked, ticked.after("OK button")]
        states += [settings.after("OK button"), contacts, contacts.scrolled(-120)]
        states += [picked, picked.after("Call button")]
        desktops = [DrawnDesktop(VirtualClock(), state) for state in states]
        seen = {desktop.glance(desktop.screen(), 640, 360) for desktop in desktops}
        self.assertEqual(len(seen), len(states))
