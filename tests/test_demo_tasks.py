"""The demo's tasks: each is completed in every profile, and a wrong one is refused."""

from __future__ import annotations

import json
import unittest
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import agent
from agent import DEMO_CONTACTS, DEMO_SIGNS, DEMO_TASKS, DemoDesktop, DemoState, Point
from tests.fakes import VirtualClock
from tests.samples import sample
from tests.test_demo import CHAT, POINTER, XY, click, make_desktop, schemas, screenshot, user
from tests.test_main import CommandLineCase

NOTE, SETTINGS, CONTACTS = DEMO_TASKS
PROFILES = ("planner", "commander", "chat", "pointer", "story")
LOOPS = sample(PROFILES, ("planner", "pointer", "story"))  # one profile of each loop
REACHED = {
    "note": {"saved_text": "Hello from agent.py", "clean": True, "more_programs": False},
    "settings": {"night_light": True, "settings_kept": True, "program": ""},
    "contacts": {"picked": "Zoe", "called": "Zoe", "program": "Contacts"},
}


def with_programs(program: str = "") -> DemoDesktop:
    desktop = make_desktop()
    desktop.state = DemoState(more_programs=True)
    if program:
        click(desktop, f"{program} pin")
    return desktop


def scroll(desktop: DemoDesktop, notches: int, place: str = "contacts list") -> None:
    rect = desktop.state.places()[place]
    desktop.move(Point(rect.left + 5, rect.top + 5))
    desktop.wheel(-120 * notches)


class EachTaskInEachProfile(CommandLineCase):
    def carry_out(self, task: str, profile: str) -> tuple[int, str, DemoState]:
        """(exit code, what was said, the desktop's state at the end) of a demo."""
        desktops: list[DemoDesktop] = []

        def drawn(clock: agent.Clock, state: DemoState) -> DemoDesktop:
            desktops.append(DemoDesktop(clock, state))
            return desktops[-1]

        with (
            mock.patch.object(agent, "DemoDesktop", drawn),
            mock.patch.object(agent, "SystemClock", VirtualClock),
        ):
            code, said, errors = self.main("--demo", task, "--profile", profile)
        return code, said + errors, desktops[0].state

    def check_task(self, task: Any, profiles: Sequence[str] = LOOPS) -> None:
        for profile in profiles:
            with self.subTest(profile):
                code, said, state = self.carry_out(task.text, profile)
                self.assertEqual(code, 0, said)
                for name, value in REACHED[task.name].items():
                    self.assertEqual(getattr(state, name), value, name)

    def test_the_note_is_written_and_saved(self) -> None:
        self.check_task(NOTE)

    def test_the_night_light_is_switched_on_by_its_small_check_box(self) -> None:
        self.check_task(SETTINGS, sample(PROFILES, ("native",)))

    def test_zoe_is_called_whom_the_list_shows_only_when_scrolled(self) -> None:
        self.check_task(CONTACTS, sample(PROFILES, ("chat",)))

    def test_a_task_can_be_given_by_its_name_and_is_recorded_by_its_text(self) -> None:
        code, _, state = self.carry_out("settings", "story")
        self.assertEqual((code, state.night_light), (0, True))
        self.assertEqual(self.records()[0]["task"], SETTINGS.text)

    def test_a_task_that_is_broken_off_goes_on_and_is_repeated_on_its_own_desktop(self) -> None:
        code, _, _ = self.main("--demo", "contacts", "--max-steps", "3")
        self.assertEqual(code, 1)
        code, said, _ = self.main("--demo", "--resume")
        self.assertEqual(code, 0, said)
        self.main("--demo", "settings", "--profile", "story")
        code, said, errors = self.main("--demo", "--replay", "2")
        self.assertEqual(code, 0, said + errors)

    def test_a_task_that_the_desktop_does_not_know_is_refused_with_those_that_it_knows(
        self,
    ) -> None:
        for wanted in ("Open Contacts, pick Ada and press Call.", "Open Settings", "contact"):
            code, _, errors = self.main("--demo", wanted)
            self.assertEqual((code, errors.count("\n")), (2, 1), errors)
            for task in DEMO_TASKS:
                self.assertIn(task.text.rstrip("."), errors)


class Programs(unittest.TestCase):
    def test_two_clicks_on_the_icon_or_one_on_the_taskbar_open_a_program(self) -> None:
        for name in ("Settings", "Contacts"):
            desktop = with_programs()
            click(desktop, f"{name} icon")
            self.assertEqual(desktop.state.program, "")
            desktop.clock.sleep(1)
            click(desktop, f"{name} icon", 2)
            self.assertEqual(desktop.state.program, name)
            self.assertEqual(with_programs(name).foreground().title, name)

    def test_one_click_each_on_two_icons_is_no_double_click(self) -> None:
        desktop = with_programs()
        for name in ("Settings", "Contacts"):
            click(desktop, f"{name} icon")
        self.assertEqual(desktop.state.program, "")

    def test_the_desktop_of_the_note_has_no_other_program(self) -> None:
        self.assertEqual(agent.demo_state(NOTE.text), DemoState())
        self.assertEqual(agent.demo_state(""), DemoState())
        self.assertNotIn("Settings pin", DemoState().places())

    def test_the_check_box_is_small_and_counts_with_ok_alone(self) -> None:
        desktop = with_programs("Settings")
        box = desktop.state.places()["check box"]
        self.assertTrue(12 <= box.width <= 16 and 12 <= box.height <= 16)
        click(desktop, "check box")
        click(desktop, "Cancel button")
        self.assertEqual(desktop.state, DemoState(more_programs=True))
        click(desktop, "Settings pin")
        click(desktop, "check box")
        self.assertFalse(desktop.state.night_light)
        click(desktop, "OK button")
        self.assertTrue(desktop.state.night_light)

    def test_a_click_beside_the_check_box_does_not_switch_it(self) -> None:
        desktop = with_programs("Settings")
        box = desktop.state.places()["check box"]
        desktop.move(Point(box.left + box.width, box.top))
        desktop.button("left", True)
        desktop.button("left", False)
        self.assertFalse(desktop.state.ticked)

    def test_the_wheel_scrolls_the_list_under_the_mouse_and_stops_at_its_ends(self) -> None:
        desktop = with_programs("Contacts")
        self.assertNotIn("Zoe", desktop.state.contacts_shown)
        scroll(desktop, 3, place="program")
        self.assertEqual(desktop.state.first_contact, 0)
        scroll(desktop, 1)
        self.assertEqual(desktop.state.contacts_shown[0], DEMO_CONTACTS[3])
        scroll(desktop, 50)
        self.assertEqual(desktop.state.contacts_shown[-1], "Zoe")
        scroll(desktop, -50)
        self.assertEqual(desktop.state.contacts_shown[0], DEMO_CONTACTS[0])

    def test_whoever_is_picked_is_called_and_another_pick_ends_the_call(self) -> None:
        desktop = with_programs("Contacts")
        click(desktop, "Call button")
        self.assertEqual(desktop.state.called, "")
        click(desktop, "Ben in the list")
        click(desktop, "Call button")
        self.assertEqual(desktop.foreground().title, "Calling Ben - Contacts")
        click(desktop, "Ada in the list")
        self.assertEqual((desktop.state.picked, desktop.state.called), ("Ada", ""))


class WhatTheModelSees(unittest.TestCase):
    STATES = {
        "Settings": DemoState(more_programs=True, program="Settings"),
        "ticked": DemoState(more_programs=True, program="Settings", ticked=True),
        "kept": DemoState(more_programs=True, night_light=True, settings_kept=True),
        "Contacts": DemoState(more_programs=True, program="Contacts"),
        "scrolled": DemoState(more_programs=True, program="Contacts", first_contact=6),
        "called": DemoState(
            more_programs=True, program="Contacts", first_contact=6, picked="Zoe", called="Zoe"
        ),
    }

    def sights(self, state: DemoState) -> dict[str, agent.Coordinate]:
        desktop = make_desktop()
        desktop.state = state
        frame = desktop.capture(desktop.screen(), 768, 432)
        return agent.demo_sights(agent.PngEncoder().encode(frame.pixels, 768, 432).png)

    def test_each_sign_is_seen_where_its_control_is_and_nowhere_else(self) -> None:
        for name, state in self.STATES.items():
            sights = self.sights(state)
            for sign, place in sights.items():
                rect = state.places().get(sign)
                if rect:
                    point = agent.to_point(place, agent.DEMO_SCREEN)
                    self.assertTrue(rect.contains(point), (name, sign, point))
            self.assertEqual("check box" in sights, name == "Settings")
            self.assertEqual("ticked box" in sights, name == "ticked")
            self.assertEqual("night light mark" in sights, name == "kept")
            self.assertEqual("Zoe in the list" in sights, name in ("scrolled", "called"))
            self.assertEqual("call mark" in sights, name == "called")

    def test_no_sign_is_the_rotated_bytes_of_another_one(self) -> None:
        colours = [sign.colour.to_bytes(3, "big") for sign in DEMO_SIGNS.values()]
        self.assertEqual(len(set(colours)), len(colours))
        rotated = {c[n:] + c[:n] for c in colours for n in (1, 2)} - {b"\xff\xff\xff"}
        self.assertFalse(rotated & set(colours))


class TheJudge(unittest.TestCase):
    def verdict(self, task: Any, state: DemoState) -> str:
        desktop = make_desktop()
        desktop.state = state
        question = user(f"TASK: {task.text}\nIs it done?", screenshot(desktop))
        return str(agent.demo_reply({"messages": [question]})["content"])

    def test_it_says_yes_to_the_mark_of_its_own_task_alone(self) -> None:
        done = {
            "note": DemoState(opened=True, text="x", saved_text="x", clean=True),
            "settings": WhatTheModelSees.STATES["kept"],
            "contacts": WhatTheModelSees.STATES["called"],
        }
        for task in DEMO_TASKS:
            for name, state in done.items():
                answer = "YES: " if name == task.name else "NO: "
                self.assertTrue(self.verdict(task, state).startswith(answer), (task.name, name))

    def test_a_call_to_somebody_else_and_a_light_that_is_off_prove_nothing(self) -> None:
        called = WhatTheModelSees.STATES["called"]
        kept = WhatTheModelSees.STATES["kept"]
        for task, state in (
            (CONTACTS, replace(called, picked="Ada", called="Ada")),
            (CONTACTS, replace(called, called="")),
            (SETTINGS, replace(kept, night_light=False)),
        ):
            self.assertTrue(self.verdict(task, state).startswith("NO: "))


class UnknownTools(unittest.TestCase):
    def test_the_model_bears_tools_that_it_does_not_know_in_every_state_and_task(self) -> None:
        strange = {"scroll_up": {}, "scroll_sideways": {"x": {}}, "dance": {"": {}}}
        box = {"scroll_at_position": {"position": XY}}
        seen = []
        for state in (DemoState(), *WhatTheModelSees.STATES.values()):
            desktop = make_desktop()
            desktop.state = state
            seen.append(screenshot(desktop))
        for tools in ({}, strange, {**CHAT, **box, **strange}, {**POINTER, **strange}):
            for task in DEMO_TASKS:
                for picture in seen:
                    request = {
                        "messages": [user(f"TASK: {task.text}", picture)],
                        "tools": schemas(tools),
                    }
                    message = agent.demo_reply(json.loads(json.dumps(request)))
                    for call in message.get("tool_calls", ()):
                        self.assertNotIn(call["function"]["name"], strange)


if __name__ == "__main__":
    unittest.main()
