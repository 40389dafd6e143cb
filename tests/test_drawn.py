"""The two programs that are drawn beside the demo's, for models that are measured."""

from __future__ import annotations

import unittest

from agent import DemoState, Point
from tests import drawn
from tests.drawn import CONTACTS, DrawnDesktop, DrawnState
from tests.fakes import VirtualClock


def click(desktop: DrawnDesktop, name: str, times: int = 1) -> None:
    rect = desktop.state.places()[name].rect
    desktop.move(Point(rect.left + rect.width // 2, rect.top + rect.height // 2))
    for _ in range(times):
        desktop.button("left", True)
        desktop.button("left", False)
    desktop.clock.sleep(1)


def begun(task: str) -> DrawnDesktop:
    return DrawnDesktop(VirtualClock(), drawn.TASKS[task].begin)


class Programs(unittest.TestCase):
    def front(self, desktop: DrawnDesktop) -> str:
        front = desktop.foreground()
        return front.title if front else ""

    def test_two_clicks_on_the_icon_or_one_on_the_taskbar_open_a_program(self) -> None:
        for name in ("Settings", "Contacts"):
            desktop = begun("settings")
            click(desktop, f"{name} icon")
            self.assertEqual(self.front(desktop), "Desktop")
            click(desktop, f"{name} icon", 2)
            self.assertEqual(self.front(desktop), name)
            desktop = begun("settings")
            click(desktop, f"{name} pin")
            self.assertEqual(self.front(desktop), name)
            self.assertEqual([window.title for window in desktop.windows()], [name])

    def test_the_note_is_alone_on_its_desktop(self) -> None:
        self.assertNotIn("Settings pin", begun("note").state.places())
        self.assertEqual([program.name for program in begun("note").programs()], ["Notes"])

    def test_the_check_box_counts_with_ok_alone(self) -> None:
        desktop, task = begun("settings"), drawn.TASKS["settings"]
        for button, done in (("Cancel button", False), ("OK button", True)):
            click(desktop, "Settings pin")
            click(desktop, "check box")
            self.assertFalse(task.is_done(desktop.state))
            click(desktop, button)
            self.assertEqual(task.is_done(desktop.state), done)

    def test_the_list_is_scrolled_where_the_mouse_is_and_whoever_is_picked_is_called(self) -> None:
        desktop, task = begun("contacts"), drawn.TASKS["contacts"]
        click(desktop, "Contacts pin")
        desktop.move(Point(500, 510))  # below the list
        desktop.wheel(-1200)
        self.assertNotIn("Zoe in the list", desktop.state.places())
        click(desktop, "Ada in the list")
        click(desktop, "Call button")
        self.assertEqual(self.front(desktop), "Calling Ada - Contacts")
        desktop.wheel(-120)
        desktop.move(Point(500, 200))
        desktop.wheel(-1200)
        click(desktop, "Zoe in the list")
        self.assertFalse(task.is_done(desktop.state))
        click(desktop, "Call button")
        self.assertTrue(task.is_done(desktop.state))

    def test_each_change_is_seen(self) -> None:
        settings = DrawnState(program="Settings")
        contacts = DrawnState(program="Contacts")
        states = [
            DemoState(),
            DrawnState(),
            settings,
            settings.after("check box"),
            settings.after("check box").after("OK button"),
            settings.after("OK button"),
            contacts,
            contacts.scrolled(-120),
            contacts.after(f"{CONTACTS[0]} in the list"),
            contacts.after(f"{CONTACTS[0]} in the list").after("Call button"),
        ]
        seen = set()
        for state in states:
            desktop = DrawnDesktop(VirtualClock(), state)
            seen.add(desktop.glance(desktop.screen(), 640, 360))
        self.assertEqual(len(seen), len(states))


if __name__ == "__main__":
    unittest.main()
