"""What programs tell of their controls: three sources behind real marshalling, and the worker that asks them."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from unittest import mock

import agent
from agent import Control, Point, Rect, Window
from tests import fake_controls
from tests.fake_controls import FakeControls, Node, Win
from tests.fakes import FakeWin32, windows_desktop
from tests.samples import sample
from tests.seams import clock_of_main, desktop_of_main, windows_of_main
from tests.test_main import CommandLineCase

MIDDLE = Rect(100, 100, 80, 24)
SAVE = Node("&Save", 50000, MIDDLE, role=43)
FIELD = Node("File name", 50004, Rect(100, 140, 200, 24), value="a.txt", focused=True, role=42)
SECRET = Node("Password", 50004, Rect(100, 180, 200, 24), value="geheim", password=True, role=42)
BOX = Node("Read only", 50002, Rect(100, 220, 80, 24), toggled=1, role=44, state=0x10)
RADIO = Node("Left", 50013, Rect(100, 260, 80, 24), chosen=False, role=45, enabled=False)
HIDDEN = Node("Gone", 50000, Rect(100, 300, 80, 24), offscreen=True)
# What is told of one window at most, and how long its failures are borne.
ROWS_MOST, DEPTH_MOST, MISSES_MOST, WORKERS_MOST = 60, 40, 3, 6
PARTS = [SAVE, FIELD, SECRET, BOX, RADIO, HIDDEN]


def dialog(*nodes: Node, **window: Any) -> Win:
    """A window with these controls."""
    root = Node("Save as", 50032, children=list(nodes), role=9)
    return Win(**{"handle": 7, "class_name": "#32770", "text": "Save as", "root": root, **window})


def plain_dialog() -> list[Win]:
    """A window of child windows, which neither UI Automation nor Active Accessibility know."""
    return [
        Win(
            7,
            "#32770",
            "Save as",
            menu=[("&File", Rect(0, 20, 40, 20), 0), ("&Edit\tF2", Rect(40, 20, 40, 20), 3)],
        ),
        Win(10, "Static", "File &name:", Rect(20, 140, 60, 24), parent=7),
        Win(11, "Edit", "a.txt", Rect(100, 140, 200, 24), parent=7),
        Win(12, "Button", "&Save", MIDDLE, parent=7),
        Win(
            13,
            "Button",
            "Read only",
            Rect(100, 220, 80, 24),
            parent=7,
            style=0x50000000 | 3,
            check=1,
        ),
        Win(
            14,
            "Button",
            "Left",
            Rect(100, 260, 80, 24),
            parent=7,
            style=0x50000000 | 9,
            enabled=False,
        ),
        Win(15, "Edit", "geheim", Rect(100, 180, 200, 24), parent=7, style=0x50000000 | 0x20),
        Win(16, "Button", "Gone", Rect(100, 300, 80, 24), parent=7, visible=False),
    ]


class TheTables(unittest.TestCase):
    def test_every_slot_is_where_the_headers_have_that_method(self) -> None:
        for name, slot in agent.COM.items():
            interface, method = name.split(".")
            with self.subTest(name):
                self.assertEqual(fake_controls.INTERFACES[interface][slot.number], method)

    def test_every_slot_has_the_types_of_the_headers(self) -> None:
        for name, slot in agent.COM.items():
            widths = [ctypes.sizeof(kind) for kind in slot.arguments]
            wanted = fake_controls.TYPES[name.split(".")[1]]
            self.assertEqual(widths, [ctypes.sizeof(kind) for kind in wanted], name)

    def test_the_worker_has_no_function_that_moves_or_presses_anything(self) -> None:
        for name in (
            "SendInput",
            "SetCursorPos",
            "SetForegroundWindow",
            "SendMessageW",
            "PostMessageW",
        ):
            self.assertNotIn(name, agent.CONTROL_FUNCTIONS)
        # The one message function carries questions only.
        source = FakeControls([dialog(*PARTS), *plain_dialog()[1:]])
        with self.assertRaises(AttributeError):
            source.api.SendInput(1, None, 40)


class WhatUIAutomationTells(unittest.TestCase):
    def setUp(self) -> None:
        self.world = FakeControls([dialog(*PARTS)], accessible=False)
        self.addCleanup(self.world.verify)

    def at(self, node: Node) -> Control:
        controls, problems = self.world.ask(ask="at", x=node.rect.left + 1, y=node.rect.top + 1)
        self.assertEqual((len(controls), problems), (1, []))
        return controls[0]

    def test_a_button_tells_its_name_place_window_and_process(self) -> None:
        self.assertEqual(self.at(SAVE), Control("&Save", "button", MIDDLE, window=7, process=4711))

    def test_a_field_tells_what_it_holds_and_that_it_has_the_keyboard(self) -> None:
        field = self.at(FIELD)
        self.assertEqual((field.role, field.value, field.focused), ("edit", "a.txt", True))

    def test_a_password_is_never_read(self) -> None:
        secret = self.at(SECRET)
        self.assertEqual((secret.password, secret.value), (True, None))

    def test_checkbox_and_radio_button_tell_their_state(self) -> None:
        self.assertEqual(self.at(BOX).checked, True)
        self.assertEqual((self.at(RADIO).checked, self.at(RADIO).enabled), (False, False))
        BOX.toggled = 2
        self.addCleanup(setattr, BOX, "toggled", 1)
        self.assertIsNone(self.at(BOX).checked)

    def test_the_control_with_the_keyboard_is_told(self) -> None:
        controls, _ = self.world.ask(ask="focused")
        self.assertEqual([control.name for control in controls], ["File name"])

    def test_a_list_has_what_can_be_seen(self) -> None:
        controls, problems = self.world.ask(ask="list", window=7, most=300)
        self.assertEqual(
            [control.name for control in controls],
            ["&Save", "File name", "Password", "Read only", "Left"],
        )
        self.assertEqual(problems, [])

    def test_a_list_ends_at_its_most(self) -> None:
        controls, _ = self.world.ask(ask="list", window=7, most=2)
        self.assertEqual(len(controls), 2)

    def test_of_ten_thousand_rows_the_first_are_told_and_none_is_made_in_vain(self) -> None:
        rows = [Node(f"Row {number}", 50007, Rect(100, 300, 200, 20)) for number in range(10_000)]
        listing = Node("Files", 50008, Rect(100, 300, 200, 200), children=rows)
        world = FakeControls([dialog(SAVE, listing)], accessible=False)
        controls, problems = world.ask(ask="list", window=7, most=300)
        self.assertEqual(len(controls), 2 + ROWS_MOST)
        self.assertEqual(controls[-1].name, f"Row {ROWS_MOST - 1}")
        self.assertEqual(problems, [])
        self.assertLess(len(world.calls), 2000)
        world.verify()

    def test_controls_in_one_another_are_followed_to_a_depth(self) -> None:
        node = Node("innermost", 50000, MIDDLE)
        for depth in range(60):
            node = Node(f"group {depth}", 50026, MIDDLE, children=[node])
        world = FakeControls([dialog(node)], accessible=False)
        controls, _ = world.ask(ask="list", window=7, most=300)
        self.assertEqual(len(controls), DEPTH_MOST)
        world.verify()

    def test_a_list_whose_time_is_over_tells_what_it_had(self) -> None:
        with mock.patch.object(time, "monotonic", side_effect=iter(range(10_000))):
            controls, problems = self.world.ask(seconds=6, ask="list", window=7, most=300)
        self.assertLess(len(controls), 5)
        self.assertGreater(len(controls), 0)
        self.assertEqual(problems, [])

    def test_popups_come_before_the_window(self) -> None:
        menu = Win(
            8,
            "#32768",
            "",
            Rect(0, 20, 100, 100),
            root=Node("", 50009, children=[Node("Open", 50011, Rect(0, 20, 90, 20))]),
        )
        other = Win(
            9, "Other", "", process=1, root=Node("", children=[Node("Strange", rect=MIDDLE)])
        )
        world = FakeControls([other, menu, dialog(SAVE)], accessible=False)
        controls, _ = world.ask(ask="list", window=7, most=300)
        self.assertEqual(
            [(control.name, control.window) for control in controls], [("Open", 8), ("&Save", 7)]
        )
        world.verify()


class WhatActiveAccessibilityTells(unittest.TestCase):
    def setUp(self) -> None:
        self.world = FakeControls([dialog(*PARTS)], automation=False)
        self.addCleanup(self.world.verify)

    def test_it_is_asked_where_ui_automation_is_not_registered(self) -> None:
        controls, problems = self.world.ask(ask="list", window=7, most=300)
        self.assertEqual(
            [control.name for control in controls],
            ["&Save", "File name", "Password", "Read only", "Left"],
        )
        self.assertEqual(
            [control.role for control in controls],
            ["button", "edit", "edit", "checkbox", "radio button"],
        )
        self.assertEqual([control.checked for control in controls], [None, None, None, True, False])
        self.assertEqual([control.value for control in controls], [None, "a.txt", None, None, None])
        self.assertEqual(
            problems, ["UI Automation: CoCreateInstance answers REGDB_E_CLASSNOTREG (0x80040154)."]
        )

    def test_a_part_without_an_object_is_told_like_any_other(self) -> None:
        node = Node("Bold", rect=MIDDLE, simple=True, focused=True)
        world = FakeControls(
            [dialog(node), Win(12, "Button", "", MIDDLE, parent=7)], automation=False
        )
        world.focus = 7
        for query in (
            {"ask": "at", "x": 101, "y": 101},
            {"ask": "focused"},
            {"ask": "list", "window": 7, "most": 9},
        ):
            controls, _ = world.ask(**query)
            self.assertEqual(
                [(c.name, c.rect, c.focused) for c in controls], [("Bold", MIDDLE, True)]
            )
        world.verify()

    def test_what_it_knows_as_a_window_only_is_told_by_its_class_as_well(self) -> None:
        node = Node("Read only", rect=MIDDLE, role=10)
        box = Win(12, "Button", "Read only", MIDDLE, parent=7, style=0x50000000 | 3, check=1)
        world = FakeControls([dialog(node), box], automation=False)
        controls, _ = world.ask(ask="at", x=101, y=101)
        self.assertEqual(
            [(control.role, control.checked) for control in controls],
            [("pane", None), ("checkbox", True)],
        )
        controls, _ = world.ask(ask="at", x=101, y=101, source="Active Accessibility")
        self.assertEqual([control.role for control in controls], ["pane"])
        world.verify()

    def test_nothing_has_a_name_there_and_that_is_no_failure(self) -> None:
        world = FakeControls(
            [dialog(Node(None, rect=MIDDLE, role=42, value="x"))], automation=False
        )
        controls, _ = world.ask(ask="at", x=101, y=101)
        self.assertEqual((controls[0].name, controls[0].value), ("", "x"))
        world.verify()


class WhatWindowHandlesTell(unittest.TestCase):
    def setUp(self) -> None:
        self.windows = plain_dialog()
        self.world = FakeControls(self.windows, automation=False, accessible=False)
        self.addCleanup(self.world.verify)

    def test_child_windows_and_menus_are_controls(self) -> None:
        controls, problems = self.world.ask(ask="list", window=7, most=300)
        self.assertEqual(
            [(control.name, control.role, control.value) for control in controls],
            [
                ("File", "menu item", None),
                ("Edit", "menu item", None),
                ("File &name:", "text", None),
                ("File &name:", "edit", "a.txt"),
                ("Save", "button", None),
                ("Read only", "checkbox", None),
                ("Left", "radio button", None),
                ("", "edit", None),
            ],
        )
        self.assertEqual([control.checked for control in controls[5:7]], [True, False])
        self.assertEqual(
            [c.enabled for c in controls if c.name in ("Edit", "Left")], [False, False]
        )
        self.assertTrue(controls[-1].password)
        self.assertEqual(len(problems), 2)

    def test_the_innermost_window_at_a_point_is_told(self) -> None:
        for place, name in (
            ((101, 101), "Save"),
            ((30, 150), "File &name:"),
            ((5, 25), "File"),
            ((700, 500), "Save as"),
        ):
            controls, _ = self.world.ask(ask="at", x=place[0], y=place[1])
            self.assertEqual(controls[0].name, name)

    def test_the_window_with_the_keyboard_is_told(self) -> None:
        self.world.focus = 11
        controls, _ = self.world.ask(ask="focused")
        self.assertEqual(
            (controls[0].value, controls[0].focused, controls[0].window), ("a.txt", True, 7)
        )

    def test_an_open_menu_tells_its_items(self) -> None:
        menu = Win(
            8,
            "#32768",
            "",
            Rect(0, 40, 100, 60),
            menu=[
                ("&Open...\tCtrl+O", Rect(0, 40, 100, 20), 0),
                ("", Rect(0, 0, 0, 0), 0),
                ("&Wrap", Rect(0, 70, 100, 20), 8),
            ],
        )
        world = FakeControls([menu, *self.windows], automation=False, accessible=False)
        controls, _ = world.ask(ask="list", window=7, most=2)
        self.assertEqual(
            [(c.name, c.checked, c.window) for c in controls],
            [("Open...", None, 8), ("Wrap", True, 8)],
        )
        world.verify()

    def test_a_window_that_does_not_pump_messages_is_asked_one_and_told_all_the_same(self) -> None:
        for window in self.windows:
            window.deaf = True
        world = FakeControls([self.windows[0], *self.windows[1:]])
        self.windows[0].root = Node("never asked")
        controls, problems = world.ask(ask="list", window=7, most=300)
        self.assertEqual(
            [control.role for control in controls], ["menu item", "menu item", "edit", "edit"]
        )
        self.assertEqual(problems, [])
        self.assertEqual(world.calls.count("SendMessageTimeoutW"), 1)
        self.assertNotIn("CoCreateInstance", world.calls)
        world.verify()


class WhatMayBeAPassword(unittest.TestCase):
    """A field of which nobody says that it is none is not read."""

    def test_a_state_that_is_not_told_leaves_the_value_unread(self) -> None:
        world = FakeControls([dialog(SECRET)], automation=False)
        world.ask(ask="at", x=101, y=181)
        world.fail_at = 0
        number = world.calls.index("IAccessible.get_accState") + 1
        world = FakeControls([dialog(SECRET)], automation=False)
        world.fail_at = number
        controls, _ = world.ask(ask="at", x=101, y=181)
        self.assertEqual((controls[0].value, controls[0].password), (None, True))
        world.verify()

    def test_a_style_that_is_not_told_leaves_the_text_unread(self) -> None:
        window = Win(15, "Edit", "geheim", MIDDLE, parent=7, style=0)
        world = FakeControls([Win(7), window], automation=False, accessible=False)
        controls, _ = world.ask(ask="at", x=101, y=101)
        self.assertEqual((controls[0].value, controls[0].password), (None, True))


class EveryCallFailing(unittest.TestCase):
    """Each call of a query fails once: the query comes to its end, and nothing that was handed out is lost.

    In the suite these are every third call and the first of each function.
    """

    QUERIES = (
        {"ask": "at", "x": 101, "y": 101},
        {"ask": "focused"},
        {"ask": "list", "window": 7, "most": 300},
    )

    def world(self, automation: bool, accessible: bool) -> FakeControls:
        listing = Node(
            "Files",
            50008,
            Rect(100, 300, 200, 200),
            children=[Node("a", 50007, MIDDLE), Node("b", 50007, MIDDLE, simple=True)],
            role=33,
        )
        windows = plain_dialog()
        windows[0].root = dialog(*PARTS, listing, Node("part", rect=MIDDLE, simple=True)).root
        world = FakeControls(windows, automation, accessible)
        world.focus = 7 if accessible else 11
        return world

    def test_no_failure_of_a_call_loses_anything_or_stops_the_answer(self) -> None:
        tried: set[str] = set()
        for automation, accessible in ((True, True), (False, True), (False, False)):
            for query in self.QUERIES:
                whole = self.world(automation, accessible)
                whole.ask(**query)
                calls = list(whole.calls)
                for number, name in enumerate(calls, 1):
                    if name in tried and number % sample(1, 8):
                        continue
                    world = self.world(automation, accessible)
                    world.fail_at = number
                    with self.subTest(query=query, number=number, name=name):
                        controls, _ = world.ask(**query)
                        self.assertEqual(world.calls[number - 1], name)
                        # Behind the last source there is none that could tell instead.
                        self.assertTrue(controls or not accessible)
                        world.verify()
                    tried.add(name)
        untried = (set(agent.COM) | set(agent.CONTROL_FUNCTIONS)) - tried
        by_the_others = {
            "IUnknown.Release",
            "CoInitializeEx",
            *(name for name in agent.CONTROL_FUNCTIONS if name.startswith("SetProcess")),
            "GetWindowTextW",
        }
        self.assertEqual(untried, by_the_others)

    def test_the_hresult_of_a_slot_is_told_by_its_name(self) -> None:
        world = self.world(True, False)
        world.ask(ask="at", x=101, y=101)
        number = world.calls.index("IUIAutomation.ElementFromPointBuildCache") + 1
        world = self.world(True, False)
        world.fail_at = number
        world.failure = -2147220991
        _, problems = world.ask(ask="at", x=101, y=101)
        self.assertEqual(
            problems[0],
            "UI Automation: IUIAutomation.ElementFromPointBuildCache answers UIA_E_ELEMENTNOTAVAILABLE (0x80040201).",
        )


class FakePipes:
    """A worker that a test plays: `reply` gives the lines to each of its queries, None to say nothing ever."""

    def __init__(self, reply: Any, ready: bool = True) -> None:
        self.reply = reply
        self.said: SimpleQueue[str | None] = SimpleQueue()
        self.asked: list[dict[str, Any]] = []
        self.ended = False
        if ready:
            self.said.put('{"ready": true}\n')

    def write(self, line: str) -> None:
        if self.ended:
            raise BrokenPipeError("it is gone")
        query = json.loads(line)
        self.asked.append(query)
        for entry in self.reply(query):
            self.said.put(
                entry
                if entry is None or isinstance(entry, str)
                else json.dumps({"id": query["id"], **entry}) + "\n"
            )

    def lines(self) -> Iterator[str]:
        while True:
            line = self.said.get()
            if line is None:
                return
            yield line

    def end(self) -> None:
        self.ended = True
        self.said.put(None)


DONE = {"done": True, "problems": []}
SAVE_CONTROL = Control("Save", "button", MIDDLE, window=7)
FOUND = {"control": SAVE_CONTROL.to_json()}
DIES = None


class TheWorker(unittest.TestCase):
    def source(self, *replies: Any, ready: bool = True) -> agent.ControlsWorker:
        """A source whose workers reply like that, one after another; the last reply is that of all further ones."""
        self.workers: list[FakePipes] = []

        def open_one() -> FakePipes:
            reply = replies[min(len(self.workers), len(replies) - 1)]
            self.workers.append(FakePipes(reply, ready))
            return self.workers[-1]

        source = agent.ControlsWorker(FakeWin32().api, open_one)
        self.addCleanup(source.close)
        return source

    def setUp(self) -> None:
        # Long enough for a thread to pass a line on, however busy the machine is.
        patch = mock.patch.object(agent, "POINT_DEADLINE_S", 5.0)
        patch.start()
        self.addCleanup(patch.stop)

    def wait_ready(self, source: agent.ControlsWorker) -> None:
        for _ in range(100):
            if source.ask({"ask": "focused"}, 0, 1.0).complete:
                return
        self.fail("the worker is never ready")

    def test_nothing_is_started_before_the_first_query(self) -> None:
        source = self.source(lambda query: [FOUND, DONE])
        self.assertEqual(self.workers, [])
        self.assertEqual(source.control_at(Point(101, 101)), SAVE_CONTROL)
        self.assertEqual(len(self.workers), 1)

    def test_a_query_carries_its_place_and_less_time_than_it_has(self) -> None:
        source = self.source(lambda query: [FOUND, DONE])
        source.control_at(Point(101, -5))
        asked = self.workers[0].asked[0]
        self.assertEqual((asked["ask"], asked["x"], asked["y"]), ("at", 101, -5))
        self.assertLess(asked["seconds"], 5.0)

    def test_the_one_that_tells_something_is_taken(self) -> None:
        mute = {"control": Control("", "pane", MIDDLE).to_json()}
        source = self.source(lambda query: [mute, FOUND, DONE])
        self.assertEqual(source.control_at(Point(101, 101)), SAVE_CONTROL)

    def test_what_is_known_by_its_class_is_taken_before_a_pane(self) -> None:
        pane = {"control": Control("Match case", "pane", MIDDLE).to_json()}
        box = Control("Match case", "checkbox", MIDDLE, checked=True)
        source = self.source(lambda query: [pane, {"control": box.to_json()}, DONE])
        self.assertEqual(source.control_at(Point(101, 101)), box)
        source = self.source(lambda query: [pane, DONE])
        self.assertEqual(source.control_at(Point(101, 101)).role, "pane")

    def test_a_list_that_hangs_gives_what_it_had_within_its_deadline(self) -> None:
        source = self.source(lambda query: [FOUND, FOUND] if query["ask"] == "list" else [DONE])
        self.wait_ready(source)
        self.assertEqual(source.controls(Window(7, ""), 300, 0.05), [SAVE_CONTROL] * 2)

    def test_a_worker_that_hangs_is_left_its_time_and_then_replaced(self) -> None:
        source = self.source(lambda query: [], lambda query: [FOUND, DONE])
        self.assertIsNone(source.ask({"ask": "focused"}, 7, 0.05).controls or None)
        self.assertFalse(source.ask({"ask": "focused"}, 8, 0.01).complete)
        self.assertEqual((len(self.workers), len(self.workers[0].asked)), (1, 1))
        now = time.monotonic
        with mock.patch.object(time, "monotonic", lambda: now() + 60):
            source.ask({"ask": "focused"}, 8, 0.01)
        self.assertTrue(self.workers[0].ended)
        self.wait_ready(source)
        self.assertEqual(len(self.workers), 2)

    def test_a_late_answer_is_not_taken_for_that_of_another_query(self) -> None:
        late = json.dumps({"id": 1, "control": Control("Old", "button", MIDDLE).to_json()}) + "\n"
        end = json.dumps({"id": 1, **DONE}) + "\n"
        source = self.source(lambda query: [] if query["id"] == 1 else [late, FOUND, DONE])
        source.ask({"ask": "focused"}, 7, 0.05)
        self.workers[0].said.put(late)
        self.workers[0].said.put(end)
        self.assertEqual(source.control_at(Point(101, 101)), SAVE_CONTROL)

    def test_a_worker_killed_in_the_middle_gives_what_it_had_and_the_next_query_a_new_one(
        self,
    ) -> None:
        source = self.source(lambda query: [FOUND, DIES], lambda query: [FOUND, DONE])
        answer = source.ask({"ask": "list", "window": 7, "most": 9}, 7, 5.0)
        self.assertEqual((answer.controls, answer.complete), ([SAVE_CONTROL], False))
        self.assertEqual(source.control_at(Point(101, 101)), SAVE_CONTROL)
        self.assertEqual(len(self.workers), 2)

    def test_a_window_that_missed_its_deadline_three_times_is_not_asked_again(self) -> None:
        source = self.source(
            lambda query: [FOUND, DIES] if query["ask"] == "list" else [FOUND, DONE]
        )
        for _ in range(MISSES_MOST):
            source.controls(Window(7, ""), 300, 5.0)
        self.assertEqual(source.controls(Window(7, ""), 300, 5.0), [])
        self.assertEqual(sum(len(worker.asked) for worker in self.workers), MISSES_MOST)

    def test_queries_about_no_window_are_asked_however_many_missed_their_deadline(self) -> None:
        """As those of the doctor, who wants to hear of every source."""
        source = self.source(lambda query: [FOUND, DIES])
        for _ in range(MISSES_MOST + 1):
            source.ask({"ask": "focused"}, 0, 5.0)
        self.assertEqual(sum(len(worker.asked) for worker in self.workers), MISSES_MOST + 1)
        self.assertEqual(source.control_at(Point(101, 101)), SAVE_CONTROL)

    def test_a_window_that_answers_now_and_then_is_asked_on(self) -> None:
        dies = iter([True, True, False, True, True, False])
        source = self.source(lambda query: [FOUND, DIES] if next(dies) else [FOUND, DONE])
        complete = [source.ask({"ask": "focused"}, 7, 5.0).complete for _ in range(6)]
        self.assertEqual(complete, [False, False, True, False, False, True])

    def test_a_worker_that_died_while_nobody_asked_is_no_windows_fault(self) -> None:
        source = self.source(lambda query: [FOUND, DONE])
        self.wait_ready(source)
        for _ in range(4):
            self.workers[-1].end()
            self.assertEqual(source.controls(Window(7, ""), 300, 5.0), [])
        self.assertEqual(source.controls(Window(7, ""), 300, 5.0), [SAVE_CONTROL])

    def test_workers_are_replaced_a_few_times_and_then_everything_goes_on_without(self) -> None:
        source = self.source(lambda query: [DIES])
        for window in range(20):
            self.assertEqual(source.controls(Window(window, ""), 300, 5.0), [])
        self.assertEqual(len(self.workers), WORKERS_MOST)
        self.assertIn("ends again and again", source.problem)

    def test_a_worker_that_may_not_be_started_is_tried_once_and_the_reason_kept(self) -> None:
        tries: list[int] = []

        def refuse() -> Any:
            tries.append(1)
            raise PermissionError("This program is blocked by group policy.")

        source = agent.ControlsWorker(FakeWin32().api, refuse)
        for _ in range(3):
            self.assertIsNone(source.control_at(Point(1, 1)))
        self.assertEqual(len(tries), 1)
        self.assertIn("blocked by group policy", source.problem)

    def test_a_worker_that_is_not_ready_yet_costs_no_window_a_miss(self) -> None:
        source = self.source(lambda query: [FOUND, DONE], ready=False)
        for _ in range(5):
            self.assertEqual(source.controls(Window(7, ""), 300, 0.01), [])
        self.workers[0].said.put('{"ready": true}\n')
        self.assertEqual(source.controls(Window(7, ""), 300, 5.0), [SAVE_CONTROL])

    def test_what_a_worker_babbles_ends_it(self) -> None:
        for babble in ("not json\n", '{"id": 1, "control": {"name": 5}}\n'):
            source = self.source(
                lambda query, babble=babble: [babble, DONE], lambda query: [FOUND, DONE]
            )
            self.assertEqual(source.controls(Window(7, ""), 300, 5.0), [])
            self.assertTrue(self.workers[0].ended)

    def test_a_pipe_that_is_closed_on_our_side_is_a_worker_that_is_gone(self) -> None:
        source = self.source(lambda query: [FOUND, DONE])
        self.wait_ready(source)
        with mock.patch.object(
            self.workers[0], "write", side_effect=ValueError("write to closed file")
        ):
            self.assertIsNone(source.control_at(Point(1, 1)))
        self.assertEqual(source.control_at(Point(1, 1)), SAVE_CONTROL)

    def test_after_the_end_nothing_is_started_any_more(self) -> None:
        source = self.source(lambda query: [FOUND, DONE])
        source.control_at(Point(1, 1))
        source.close()
        self.assertTrue(self.workers[0].ended)
        self.assertIsNone(source.control_at(Point(1, 1)))
        self.assertEqual(len(self.workers), 1)


class TheProcess(unittest.TestCase):
    def test_queries_are_answered_until_the_lines_end(self) -> None:
        world = FakeControls([dialog(*PARTS)])
        written: list[str] = []
        last = threading.Event()
        left: list[int] = []

        def lines() -> Iterable[str]:
            yield json.dumps({"id": 5, "ask": "at", "x": 101, "y": 101, "seconds": 60})
            last.wait(10)

        def write(line: str) -> None:
            written.append(line)
            if '"done"' in line:
                last.set()

        agent.serve_controls(world.api, lines(), write, left.append)
        self.assertEqual(left, [0])
        entries = [json.loads(line) for line in written]
        self.assertEqual([sorted(entry)[0] for entry in entries], ["ready", "control", "done"])
        self.assertTrue(all(line.isascii() and line.endswith("\n") for line in written))

    @unittest.skipIf(os.name == "nt", "there is Windows, and the process goes on")
    def test_a_real_child_process_of_this_file_ends_at_once_where_there_is_no_windows(self) -> None:
        done = subprocess.run(
            [sys.executable, "-I", "-S", agent.__file__, "--controls-worker"],
            stdin=subprocess.PIPE,
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("There is no Windows desktop here", done.stderr)

    def test_nothing_of_it_is_loaded_at_the_start(self) -> None:
        told = subprocess.run(
            [sys.executable, "-c", "import agent, sys; print('subprocess' in sys.modules)"],
            cwd=Path(agent.__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(told.stdout.strip(), "False")

    def test_the_option_is_internal(self) -> None:
        self.assertNotIn("controls-worker", agent.HELP)

    def test_the_worker_refuses_the_keyboard_interrupt_of_its_parent(self) -> None:
        world = FakeControls([])
        refuses = mock.patch.object(
            world.api, "CoInitializeEx", side_effect=agent.Win32Error("COM")
        )
        with (
            windows_of_main(world),
            refuses,  # else it would go on for ever, or end this process
            mock.patch.object(signal, "signal") as handler,
            contextlib.redirect_stderr(io.StringIO()),
        ):
            agent.main(["--controls-worker"])
        handler.assert_any_call(signal.SIGINT, signal.SIG_IGN)


class TheDoctor(CommandLineCase):
    def lines(self, pipes: Any) -> list[str]:
        """What --check tells of the controls; `self.verdicts` is what it thinks of each line."""

        def desktop(clock: Any) -> agent.WindowsDesktop:
            made = agent.WindowsDesktop(FakeWin32().api, clock)
            made.control_source = agent.ControlsWorker(made.api, pipes)
            return made

        with desktop_of_main(desktop), clock_of_main():
            _, out, _ = self.main("--check", "--endpoint", "http://127.0.0.1:9/v1")
        told = [line.split(maxsplit=2) for line in out.splitlines()]
        self.verdicts = [verdict for verdict, what, _ in told if what == "controls"]
        return [text for _, what, text in told if what == "controls"]

    def test_it_tells_what_each_source_sees_and_why_not_more(self) -> None:
        bad = {
            "done": True,
            "problems": [
                "UI Automation: CoCreateInstance answers REGDB_E_CLASSNOTREG (0x80040154)."
            ],
        }

        def reply(query: dict[str, Any]) -> list[Any]:
            return [bad] if query["source"] == "UI Automation" else [FOUND, DONE]

        lines = self.lines(lambda: FakePipes(reply))
        self.assertRegex(lines[0], r"the worker is ready after \d\.\d s")
        self.assertEqual(len(lines), 1 + 3)
        self.assertRegex(
            lines[1],
            r"^UI Automation: nothing; CoCreateInstance answers REGDB_E_CLASSNOTREG"
            r" \(0x80040154\)$",
        )
        self.assertRegex(
            lines[3],
            r"^window handles: in the window 1 \('.+' \w+\) in \d+ ms, at its middle 1 .* ms, with the"
            r" keyboard 1 .* ms$",
        )
        self.assertEqual(self.verdicts, ["ok", "note", "ok", "ok"])

    def test_it_tells_why_there_is_no_worker_and_that_none_is_needed(self) -> None:
        def refuse() -> Any:
            raise PermissionError("This program is blocked by group policy.")

        (line,) = self.lines(refuse)
        self.assertIn("not needed", line)
        self.assertIn("blocked by group policy", line)

    def test_no_value_of_a_field_is_printed(self) -> None:
        field = Control("Name", "edit", MIDDLE, value="private")
        told = [{"control": field.to_json()}] * 7
        lines = "".join(self.lines(lambda: FakePipes(lambda query: [*told, DONE])))
        self.assertIn("7 ('Name' edit, 'Name' edit, 'Name' edit, ...)", lines)
        self.assertNotIn("private", lines)


class OnTheDesktop(unittest.TestCase):
    def test_a_desktop_answers_within_the_deadline_whatever_its_source_does(self) -> None:
        _, desktop, _ = windows_desktop()
        pipes = FakePipes(lambda query: [])
        desktop.control_source = agent.ControlsWorker(desktop.api, lambda: pipes)
        self.addCleanup(desktop.control_source.close)
        self.assertIsNone(desktop.control_at(Point(300, 300)))
        self.assertIsNone(desktop.focused_control())
        self.assertEqual(desktop.controls(Window(7, ""), 300, 0.05), [])


if __name__ == "__main__":
    unittest.main()
