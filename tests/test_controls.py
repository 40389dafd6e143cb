"""What programs tell of their controls: two sources behind real marshalling, and the worker that asks them."""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import agent
from agent import Control, Point, Rect, Window
from tests import fake_controls
from tests.fake_controls import FakeControls, Node, Win
from tests.fakes import FakeWin32, Foreground
from tests.samples import for_the_gate, sample
from tests.seams import clock_of_main, desktop_of_main, windows_of_main
from tests.servers import NOBODY
from tests.test_main import CommandLineCase

MIDDLE = Rect(100, 100, 80, 24)
SAVE = Node("&Save", 50000, MIDDLE)
FIELD = Node("File name", 50004, Rect(100, 140, 200, 24), value="a.txt", focused=True)
SECRET = Node("Password", 50004, Rect(100, 180, 200, 24), value="geheim", password=True)
BOX = Node("Read only", 50002, Rect(100, 220, 80, 24), toggled=1)
MORE = Node("More", 50000, Rect(100, 220, 80, 24))
RADIO = Node("Left", 50013, Rect(100, 260, 80, 24), chosen=False, enabled=False)
HIDDEN = Node("Gone", 50000, Rect(100, 300, 80, 24), offscreen=True)
# What is told of one window at most, and how long its failures are borne.
ROWS_MOST, WORKERS_MOST = 60, 6
PARTS = [SAVE, FIELD, SECRET, BOX, RADIO, HIDDEN]


def dialog(*nodes: Node, **window: Any) -> Win:
    """A window with these controls."""
    root = Node("Save as", 50032, children=list(nodes))
    return Win(**{"handle": 7, "class_name": "#32770", "text": "Save as", "root": root, **window})


# The child windows of a dialog of which UI Automation knows nothing, and what is told of them.
CHILDREN = [
    (Win(10, "Static", "File &name:", Rect(20, 140, 60, 24)), ("File name:", "text", None, None, True, False)),
    (Win(11, "Edit", "a.txt", Rect(100, 140, 200, 24)), ("File name:", "edit", "a.txt", None, True, False)),
    (Win(12, "Button", "&Save", MIDDLE), ("Save", "button", None, None, True, False)),
    (Win(13, "Button", "Read only", Rect(100, 220, 80, 24), 0x50000003, check=1), ("Read only", "checkbox", None, True, True, False)),
    (Win(14, "Button", "Left", Rect(100, 260, 80, 24), 0x50000009, enabled=False), ("Left", "radio button", None, False, False, False)),
    (Win(15, "Edit", "geheim", Rect(100, 180, 200, 24), 0x50000020), ("", "edit", None, None, True, True)),
    (Win(16, "Button", "Gone", Rect(100, 300, 80, 24), visible=False), None),
]  # fmt: skip


def plain_dialog() -> list[Win]:
    """A window of child windows."""
    return [Win(7, "#32770", "Save as"), *(replace(child, parent=7) for child, _ in CHILDREN)]


class TheTables(unittest.TestCase):
    def test_every_slot_is_where_the_headers_have_it_and_none_presses_anything(self) -> None:
        for method, row in agent.COM.items():
            interface, slot, kinds = fake_controls.METHODS[method]
            self.assertEqual((row.dll, int(row.check)), (interface, slot))
            self.assertEqual([*map(ctypes.sizeof, row.arguments)], [*map(ctypes.sizeof, kinds)])
        pressing = "SendInput SetCursorPos SetForegroundWindow SendMessageW PostMessageW"
        self.assertEqual(set(pressing.split()) & set(agent.CONTROL_FUNCTIONS), set())
        with self.assertRaises(AttributeError):  # the one message function carries questions only
            FakeControls([]).api.SendInput(1, None, 40)


class WhatUIAutomationTells(unittest.TestCase):
    def world(self, *windows: Win) -> FakeControls:
        world = FakeControls(windows or [dialog(*PARTS)])
        self.addCleanup(world.verify)
        return world

    def test_a_control_tells_what_it_is_holds_and_shows_but_never_a_password(self) -> None:
        plain = Control("", "edit", MIDDLE, window=7, process=4711)
        told: list[tuple[Node, dict[str, Any]]] = [
            (SAVE, {"name": "&Save", "role": "button"}),
            (FIELD, {"name": "File name", "value": "a.txt", "focused": True}),
            (SECRET, {"name": "Password", "password": True}),
            (BOX, {"name": "Read only", "role": "checkbox", "checked": True}),
            (replace(BOX, toggled=2), {"name": "Read only", "role": "checkbox"}),  # neither
            (replace(MORE, expanded=0), {"name": "More", "role": "button", "expands": True}),
            (replace(MORE, expanded=3), {"name": "More", "role": "button"}),  # a leaf
            (RADIO, {"name": "Left", "role": "radio button", "checked": False, "enabled": False}),
        ]
        for node, control in told:
            at = (node.rect.left + 1, node.rect.top + 1)
            found = self.world(dialog(*PARTS[:3], node, HIDDEN)).ask(point=at)
            self.assertEqual(found, ([replace(plain, rect=node.rect, **control)], []))
        self.assertEqual([control.name for control in self.world().ask()[0]], ["File name"])

    def test_a_field_that_is_called_a_password_is_one_though_its_program_does_not_say_so(
        self,
    ) -> None:
        """Programs that draw their own fields, and pages that were told to show it."""
        for name, hides in (
            ("Password", True),
            ("Confirm new password:", True),
            ("Kennwort", True),
            ("Contraseña *", True),
            ("密码", True),
            ("Password hint", False),
            ("Length of the password", False),
            ("Find in passwords", False),
            ("User", False),
        ):
            field = Node(name, 50004, MIDDLE, value="hunter2", focused=True)
            world = self.world(dialog(field))
            for query in ({}, {"point": (101, 101)}, {"window": 7}):
                ((control,), _) = world.ask(**query)
                told = control.password, control.value
                self.assertEqual(told, (True, None) if hides else (False, "hunter2"), name)
        label = Win(20, "Static", "Passwort:", Rect(100, 80, 90, 20), parent=7)
        edit = Win(21, "Edit", "hunter2", MIDDLE, parent=7)
        world = self.world(Win(7), label, edit)
        world.automation = False
        ((control,), _) = world.ask(point=(101, 101))
        self.assertEqual((control.password, control.value), (True, None))

    def test_a_field_that_holds_nothing_but_masks_hides_what_is_typed_there(self) -> None:
        for value, hides in (
            ("•••", True),
            ("●●●●●●●●", True),
            ("****", True),
            ("***", False),
            ("• ••", False),
            ("•••• 4711", False),
            ("", False),
        ):
            world = self.world(dialog(Node("Code", 50004, MIDDLE, value=value, focused=True)))
            ((control,), _) = world.ask()
            told = control.password, control.value
            self.assertEqual(told, (True, None) if hides else (False, value), value)

    def test_what_has_the_keyboard_elsewhere_by_another_program_is_not_taken_for_it(self) -> None:
        """After a switch of windows or a notification one that was left may be told for a while."""
        field = Node("Search", 50004, Rect(2000, 100, 90, 20), value="hello", focused=True)
        menu = Node("Delete", 50011, Rect(2000, 100, 90, 20), focused=True)
        hosted = Node("Amount", 50004, MIDDLE, value="5", focused=True)
        for node, process, name in (
            (field, 1, "Save as"),
            (menu, 4711, "Delete"),  # a menu of the window reaches out of it
            (hosted, 1, "Amount"),  # an app in the frame that Windows puts around it
        ):
            other = Win(9, "Other", "", Rect(1900, 0, 800, 600), process=process)
            world = self.world(dialog(SAVE), replace(other, root=Node("", children=[node])))
            ((control,), _) = world.ask()
            self.assertEqual(control.name, name)

    def test_a_list_has_what_can_be_seen_with_popups_before_the_window(self) -> None:
        controls, problems = self.world().ask(window=7)
        names = [control.name for control in controls]
        self.assertEqual(names, ["&Save", "File name", "Password", "Read only", "Left"])
        self.assertEqual(problems, [])
        below = Rect(0, 20, 100, 100)
        items = Node("", 50009, children=[Node("Open", 50011, Rect(0, 20, 90, 20))])
        strange = Node("", children=[Node("Strange", rect=MIDDLE)])
        others = (
            Win(9, "Other", "", process=1, root=strange),
            Win(8, "#32768", "", below, root=items),
        )
        controls, _ = self.world(*others, dialog(SAVE)).ask(window=7)
        self.assertEqual([(c.name, c.window) for c in controls], [("Open", 8), ("&Save", 7)])
        # Windows does not list an immersive one, so that nothing is known to lie above it.
        immersive = Win(7, root=dialog(SAVE).root, parent=99)
        controls, _ = self.world(*others, immersive).ask(window=7)
        self.assertEqual([control.name for control in controls], ["&Save"])

    def test_the_taskbar_is_no_part_of_a_folder_or_of_run_though_one_program_has_them(self) -> None:
        clock = Node("12:53", 50000, Rect(700, 570, 60, 30))
        for kind in ("Shell_TrayWnd", "Shell_SecondaryTrayWnd"):
            bar = Win(8, kind, "", Rect(0, 570, 800, 30), root=Node("", children=[clock]))
            named = {7: ["&Save"], 8: ["12:53"]}  # but asked for itself it tells what it has
            for handle, names in named.items():
                controls, _ = self.world(bar, dialog(SAVE)).ask(window=handle)
                self.assertEqual([control.name for control in controls], names)

    def test_a_popup_that_closes_meanwhile_takes_nothing_away_from_its_window(self) -> None:
        items = Node("", 50009, children=[Node("Open", 50011, Rect(0, 20, 90, 20))])
        menu = Win(8, "#32768", "", Rect(0, 20, 100, 100), root=items)
        whole = self.world(menu, dialog(SAVE))
        self.assertEqual([control.name for control in whole.ask(window=7)[0]], ["Open", "&Save"])
        asked = [at for at, call in enumerate(whole.calls, 1) if "ElementFromHandle" in call]
        begins, ends = asked  # with the menu, with the window
        for at in range(begins, ends):
            broken = self.world(menu, dialog(SAVE))
            broken.fail_at = at
            controls, _ = broken.ask(window=7)
            self.assertIn("&Save", [control.name for control in controls], broken.calls[at - 1])

    def test_a_list_that_has_the_keyboard_is_told_rather_than_a_pane_without_a_name(self) -> None:
        world = self.world(
            Win(7), Win(20, "SysListView32", parent=7, root=Node("", 50033, focused=True))
        )
        world.focus = 20
        self.assertEqual([control.role for control in world.ask()[0]], ["list"])

    def test_of_ten_thousand_rows_the_first_are_told_and_none_is_made_in_vain(self) -> None:
        rows = [Node(f"Row {number}", 50007, Rect(100, 300, 200, 20)) for number in range(10_000)]
        world = self.world(dialog(SAVE, Node("Files", 50008, MIDDLE, children=rows)))
        controls, problems = world.ask(window=7)
        self.assertEqual((len(controls), problems), (2 + ROWS_MOST, []))
        self.assertEqual(controls[-1].name, f"Row {ROWS_MOST - 1}")
        self.assertLess(len(world.calls), 2000)
        groups = [Node("g", 50026, MIDDLE, children=[SAVE] * ROWS_MOST) for _ in range(6)]
        self.assertEqual(len(self.world(dialog(*groups)).ask(window=7)[0]), 300)

    def test_controls_in_one_another_are_followed_however_deep_they_lie(self) -> None:
        node = Node("innermost", 50000, MIDDLE)
        for depth in range(60):
            node = Node(f"group {depth}", 50026, MIDDLE, children=[node])
        controls, _ = self.world(dialog(node)).ask(window=7)
        self.assertEqual([controls[0].name, controls[-1].name], ["group 59", "innermost"])

    def test_what_is_only_a_part_is_told_with_what_can_be_pressed_around_it(self) -> None:
        part = Node("icon", 50006, MIDDLE)
        for role, name, told in (
            (50005, "Delete all", ("link", "Delete all")),
            (50031, "Reset", ("split button", "Reset")),
            (50000, "", ("button", "icon")),  # which its part names
            (50033, "Pane", ()),
            (50030, "Page", ()),
        ):
            group = Node("", 50026, MIDDLE, children=[part])
            world = self.world(dialog(Node(name, role, MIDDLE, children=[group])))
            [(control, *_), _] = world.ask(point=MIDDLE[:2])
            self.assertEqual((control.name, control.held_by), ("icon", told))
            with mock.patch.object(time, "monotonic", side_effect=iter(range(10_000))):
                [(control, *_), _] = world.ask(point=MIDDLE[:2], seconds=1)
            self.assertEqual((control.name, control.held_by), ("icon", ()))

    def test_what_a_page_has_in_a_search_is_told_to_find(self) -> None:
        field = Node("", 50004, MIDDLE, value="", aria="textbox")
        for node, around, finds in (
            (replace(field, aria="searchbox"), "", True),
            (field, "search", True),
            (replace(field, name="Go", kind=50000, aria="button"), "search", True),
            (field, "form", False),
            (replace(field, aria=""), "search", False),  # no page's, so that it is not looked for
        ):
            group = Node("", 50026, MIDDLE, children=[node])
            form = Node("", 50026, MIDDLE, aria=around, children=[group])
            [(control, *_), _] = self.world(dialog(form)).ask(point=MIDDLE[:2])
            self.assertEqual(control.finds, finds, (node.aria, around))
        page = Node("", 50030, MIDDLE, children=[field])  # a page ends the search for it
        form = Node("", 50026, MIDDLE, aria="search", children=[page])
        [(control, *_), _] = self.world(dialog(form)).ask(point=MIDDLE[:2])
        self.assertFalse(control.finds)

    def test_of_what_is_no_part_and_no_pages_nothing_around_it_is_asked(self) -> None:
        world = self.world(dialog(Node("Save", 50000, MIDDLE)))
        world.ask(point=MIDDLE[:2])
        self.assertNotIn("IUIAutomationTreeWalker.GetParentElementBuildCache", world.calls)

    def test_a_list_whose_time_is_over_tells_what_it_had(self) -> None:
        with mock.patch.object(time, "monotonic", side_effect=iter(range(10_000))):
            controls, problems = self.world().ask(seconds=6, window=7)
        self.assertTrue(0 < len(controls) < 5)
        self.assertEqual(problems, ["The time for it is over"])


class WhatWindowHandlesTell(unittest.TestCase):
    def world(self, *windows: Win) -> FakeControls:
        world = FakeControls(windows or plain_dialog(), automation=False)
        self.addCleanup(world.verify)
        return world

    def test_child_windows_are_controls_of_which_the_innermost_at_a_point_is_told(self) -> None:
        world = self.world()
        controls, problems = world.ask(window=7)
        found = [(c.name, c.role, c.value, c.checked, c.enabled, c.password) for c in controls]
        self.assertEqual(found, [told for _, told in CHILDREN if told])
        self.assertEqual(len(problems), 1)
        for place, name in ((101, 101), "Save"), ((30, 150), "File name:"), ((700, 500), "Save as"):
            self.assertEqual(world.ask(point=place)[0][0].name, name)
        world.focus = 11
        ((field,), _) = world.ask()
        self.assertEqual((field.value, field.focused, field.window), ("a.txt", True, 7))
        # One at the top is a window whatever its class begins with.
        controls, _ = self.world(Win(7, "EditPlus", "a.txt")).ask(point=(30, 150))
        self.assertEqual(controls[0].role, "window")

    def test_a_field_of_which_nobody_says_that_it_is_no_password_is_not_read(self) -> None:
        field = Win(15, "Edit", "geheim", MIDDLE, parent=7, style=0)
        controls, _ = self.world(Win(7), field).ask(point=(101, 101))
        self.assertEqual((controls[0].value, controls[0].password), (None, True))

    def test_a_field_is_named_by_the_text_before_it_at_a_point_focused_and_listed(self) -> None:
        """By both sources: what is hidden between them does not count, nor a text that is below."""
        rows = (
            # (role of UI Automation, class, text, top, is shown)
            ("Street:", 50020, "Static", 10, True),
            ("", 50004, "Edit", 10, True),
            ("Country:", 50020, "Static", 40, True),
            ("", 50003, "ComboBox", 40, False),
            ("", 50003, "ComboBox", 40, True),
            ("Made before the field above it", 50020, "Static", 100, True),
            ("", 50004, "Edit", 70, True),
            ("OK", 50000, "Button", 130, True),
            ("", 50004, "Edit", 160, True),
        )
        nodes, windows = list[Node](), list[Win]()
        for number, (text, kind, name, top, shown) in enumerate(rows):
            place = Rect(0 if text else 100, top, 90, 20)
            nodes.append(Node(text, kind, place, offscreen=not shown))
            windows.append(Win(20 + number, name, text, place, parent=7, visible=shown))
        for automation in (True, False):
            world = (
                self.world(dialog(*nodes), *windows) if automation else self.world(Win(7), *windows)
            )
            world.automation = automation
            listed = {control.rect.top: control.name for control in world.ask(window=7)[0]}
            for number, name in ((1, "Street:"), (4, "Country:"), (6, ""), (8, "")):
                with self.subTest(name, automation=automation):
                    nodes[number].focused = True
                    world.focus = 20 + number
                    ((at,), _) = world.ask(point=(101, rows[number][3] + 1))
                    ((focused,), _) = world.ask()
                    names = at.name, focused.name, listed.get(rows[number][3], "")
                    self.assertEqual(names, (name, name, name))
                    nodes[number].focused = False

    def test_so_is_a_text_of_many_lines_which_is_a_document(self) -> None:
        label = Node("Message:", 50020, Rect(0, 10, 90, 20))
        text = Node("", 50030, Rect(100, 10, 90, 20), value="x", focused=True)
        for place in ((101, 11), None):
            world = self.world(dialog(label, text))
            world.automation = True
            ((found,), _) = world.ask(point=place)
            self.assertEqual((found.role, found.name), ("document", "Message:"))

    def test_a_list_that_drops_down_and_what_is_read_only_take_no_text(self) -> None:
        told = (
            # Whether UI Automation says that it is read-only, and its style; whether it is fixed.
            (50003, "ComboBox", None, 3, True),  # it has no value
            (50003, "ComboBox", True, 3, True),
            (50003, "ComboBox", False, 2, False),
            (50004, "Edit", None, 0x80, False),
            (50004, "Edit", False, 0x80, False),
            (50004, "Edit", True, 0x880, True),
            (50030, "RichEdit20W", True, 0x800, True),  # such as the page of a browser
            (50000, "Button", True, 0, False),  # which nobody takes for a field
        )
        for kind, name, read_only, style, fixed in told:
            node = Node("It", kind, MIDDLE, read_only=read_only)
            for automation in (True, False):
                window = Win(20, name, "It", MIDDLE, 0x50000000 | style, parent=7)
                world = FakeControls([dialog(node), window], automation)
                ((control,), _) = world.ask(point=(101, 101))
                with self.subTest(control.role, automation=automation, read_only=read_only):
                    self.assertEqual(control.fixed, fixed)

    def test_a_group_box_above_a_checkbox_does_not_stand_for_it(self) -> None:
        box = Rect(100, 100, 90, 20)
        world = FakeControls(
            [
                Win(7, "#32770", "Options"),
                Win(20, "Button", "Read only", box, style=0x50000003, parent=7),
                Win(21, "Button", "Files", Rect(90, 90, 200, 100), style=0x50000007, parent=7),
            ],
            automation=False,
        )
        for place, name in ((101, "Read only"), (95, "Files")):
            controls, _ = world.ask(point=(place, place))
            self.assertEqual([control.name for control in controls], [name])

    def test_a_child_that_is_gone_meanwhile_hides_no_other(self) -> None:
        world = self.world()
        rect = world.api.GetWindowRect

        def gone(handle: int, *rest: Any) -> Any:
            if handle == 10:
                raise agent.Win32Error("gone")
            return rect(handle, *rest)

        with mock.patch.object(world.api, "GetWindowRect", gone):
            controls, _ = world.ask(point=(101, 101))
        self.assertEqual([control.name for control in controls], ["Save"])

    def test_a_window_that_does_not_pump_messages_is_asked_one_and_told_all_the_same(self) -> None:
        windows = [replace(window, deaf=True) for window in plain_dialog()]
        windows[0].root = Node("never asked")
        world = FakeControls(windows)
        controls, problems = world.ask(window=7)
        self.assertEqual([control.role for control in controls], ["edit", "edit"])
        self.assertEqual(problems, [])
        self.assertEqual(world.calls.count("SendMessageTimeoutW"), 1)
        self.assertNotIn("CoCreateInstance", world.calls)
        world.verify()


class EveryCallFailing(unittest.TestCase):
    """Each call of a query fails once: the query comes to its end, and nothing that was handed out is lost.

    In the suite these are some calls and the first of each function.
    """

    QUERIES: tuple[dict[str, Any], ...] = ({"point": (101, 101)}, {}, {"window": 7})

    def world(self, automation: bool) -> FakeControls:
        rows = [Node("Of", 50020, MIDDLE), Node("", 50004, MIDDLE)]
        listing = Node("Files", 50008, Rect(100, 300, 200, 200), children=rows)
        pressed = replace(SAVE, children=[Node("Save", 50020, MIDDLE)])
        windows = plain_dialog()
        windows[0].root = dialog(pressed, *PARTS[1:], listing).root
        world = FakeControls(windows, automation)
        world.focus = 11
        return world

    @for_the_gate
    def test_no_failure_of_a_call_loses_anything_or_stops_the_answer(self) -> None:
        tried: set[str] = set()
        queries = [(asked, by) for by in (True, False) for asked in self.QUERIES]
        for query, automation in queries:
            whole = self.world(automation)
            whole.ask(**query)
            for number, name in enumerate(whole.calls, 1):
                if name in tried and number % sample(1, 48):
                    continue
                world = self.world(automation)
                world.fail_at = number
                with self.subTest(query=query, number=number, name=name):
                    controls, _ = world.ask(**query)
                    self.assertEqual(world.calls[number - 1], name)
                    # Behind the last source there is none that could tell instead.
                    self.assertTrue(controls or not automation)
                    world.verify()
                tried.add(name)
        shells = ("IShellItem", "IEnumShellItems", "IUnknown")  # see PackagedApps
        methods = {f"{row.dll}.{name}" for name, row in agent.COM.items() if row.dll not in shells}
        self.assertLessEqual(methods, tried)


SAVE_CONTROL = Control("Save", "button", MIDDLE, window=7)
DIES = "dies"
HANGS = None


def found(*controls: Control, problems: tuple[str, ...] = ()) -> agent.Known:
    """An answer of the process."""
    return agent.Known(controls, problems)


FOUND = found(SAVE_CONTROL)
LAST = FOUND._replace(problems=["its last words"])  # after which it ends


class Workers:
    """What `multiprocessing` has for a test: processes that reply like that, one after another, the last for all further."""

    def __init__(self, *replies: Any, ready: bool = True, refused: str = "") -> None:
        self.replies, self.refused = replies, refused
        self.ready = threading.Event()
        if ready:
            self.ready.set()
        self.made: list[Any] = []
        self.world = FakeWin32()
        self.ignoring: list[bool] = []  # whether Ctrl+C was, at each start

    def Pipe(self) -> tuple[Any, Any]:
        self.theirs: Any
        ours, self.theirs = multiprocessing.Pipe()
        return ours, mock.MagicMock()  # which the parent closes, having passed it on

    def Process(self, target: Any, args: Any, daemon: bool) -> Any:
        assert target is agent.serve_controls and daemon
        reply = self.replies[min(len(self.made), len(self.replies) - 1)]
        asked: list[Any] = []
        life = threading.Thread(target=self.live, args=(reply, self.theirs, asked), daemon=True)

        def start() -> None:
            if self.refused:
                raise PermissionError(self.refused)
            self.ignoring.append(self.world.ignores_ctrl_c)
            life.start()

        self.made.append(mock.Mock(spec=["start", "kill"], start=start, asked=asked, life=life))
        return self.made[-1]

    def live(self, reply: Any, pipe: Any, asked: list[Any]) -> None:
        self.ready.wait()
        answer: Any = found()
        with contextlib.suppress(EOFError, OSError), pipe:
            while answer != DIES:
                if answer is not HANGS:
                    pipe.send(answer)
                if answer == LAST:
                    break
                asked.append(pipe.recv())
                answer = reply(asked[-1])


def listed(source: agent.ControlsWorker, window: int, seconds: float) -> list[Control]:
    """What is told in that time of a window's controls."""
    return list(source.query(Window(window, ""), seconds).controls)


def one(source: agent.ControlSource, where: Point | None) -> Control | None:
    """What is told of a pixel, or of the keyboard."""
    return next(iter(source.ask(where)), None)


def window_of(query: Any) -> int:
    """The window that a query asks about; 0 for none."""
    where, _ = query
    return where.handle if isinstance(where, Window) else 0


class TheWorker(unittest.TestCase):
    def source(self, *replies: Any, **played: Any) -> agent.ControlsWorker:
        self.workers = Workers(*replies, **played)
        for patch in (
            mock.patch("multiprocessing.get_context", lambda _: self.workers),
            # Long enough for a thread to pass a line on, however busy the machine is.
            mock.patch.multiple(agent, ANSWER_S=5.0, FREE_S=5.0),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        source = agent.ControlsWorker(self.workers.world.api)
        self.addCleanup(source.close)
        return source

    def test_a_control_is_told_with_its_program(self) -> None:
        source = self.source(lambda query: found(replace(SAVE_CONTROL, process=4711)))
        self.workers.world.window = Foreground(process=4711)
        for where in (Window(7, "", "notepad.exe"), Point(101, 101), None):
            (told,) = source.ask(where)
            self.assertEqual(told.program, "notepad.exe")

    def test_the_first_query_starts_it_while_ctrl_c_is_ignored_which_it_inherits(self) -> None:
        source = self.source(lambda query: FOUND)
        self.assertEqual(self.workers.made, [])
        self.assertEqual(one(source, Point(101, -5)), SAVE_CONTROL)
        self.assertEqual(self.workers.ignoring, [True])
        self.assertFalse(self.workers.world.ignores_ctrl_c)
        ((where, seconds),) = self.workers.made[0].asked
        self.assertEqual(where, Point(101, -5))
        self.assertLess(seconds, 5.0)

    def test_a_worker_that_hangs_is_left_its_time_and_then_replaced(self) -> None:
        source = self.source(
            lambda query: HANGS if window_of(query) else FOUND, lambda query: FOUND
        )
        self.assertEqual(source.query(None, 5.0), FOUND)
        self.assertEqual(listed(source, 7, 0.05), [])
        self.assertEqual(listed(source, 8, 0.01), [])
        self.assertEqual(len(self.workers.made), 1)
        now = time.monotonic
        with mock.patch.object(time, "monotonic", lambda: now() + 60):
            listed(source, 8, 0.01)
        self.workers.made[0].kill.assert_called()
        self.assertEqual(one(source, Point(1, 1)), SAVE_CONTROL)
        asked = [[window_of(query) for query in worker.asked] for worker in self.workers.made]
        self.assertEqual(asked, [[0, 7], [0]])

    def test_a_late_answer_is_not_taken_for_that_of_another_query(self) -> None:
        late = threading.Event()

        def reply(query: Any) -> agent.Known:
            if window_of(query):
                late.wait()
                return found(Control("Old", "button", MIDDLE))
            return FOUND

        source = self.source(reply)
        source.query(None, 5.0)
        self.assertEqual(listed(source, 7, 0.05), [])
        late.set()
        self.assertEqual(one(source, Point(101, 101)), SAVE_CONTROL)

    def test_after_a_worker_that_died_the_next_query_has_a_new_one(self) -> None:
        source = self.source(lambda query: DIES, lambda query: LAST, lambda query: FOUND)
        self.assertEqual(listed(source, 7, 5.0), [])
        self.assertEqual(listed(source, 7, 5.0), [SAVE_CONTROL])
        self.workers.made[-1].life.join()  # while nobody asks
        self.assertEqual(listed(source, 7, 5.0), [])
        self.assertEqual(listed(source, 7, 5.0), [SAVE_CONTROL])
        self.assertEqual(len(self.workers.made), 3)

    def test_after_a_few_workers_that_died_there_is_none_any_more(self) -> None:
        source = self.source(lambda query: DIES)
        for window in range(20):
            self.assertEqual(listed(source, window, 5.0), [])
        self.assertEqual(len(self.workers.made), WORKERS_MOST)
        self.assertIn("ends again and again", source.problem)

    def test_a_worker_that_may_not_be_started_is_tried_once_and_the_reason_kept(self) -> None:
        source = self.source(HANGS, refused="This program is blocked by group policy.")
        for _ in range(3):
            self.assertIsNone(one(source, Point(1, 1)))
        self.assertEqual(len(self.workers.made), 1)
        self.assertIn("blocked by group policy", source.problem)

    def test_one_that_is_not_ready_is_waited_for(self) -> None:
        source = self.source(lambda query: FOUND, ready=False)
        for _ in range(5):
            self.assertEqual(listed(source, 7, 0.01), [])
        self.workers.ready.set()
        self.assertEqual(listed(source, 7, 5.0), [SAVE_CONTROL])

    def test_the_end_of_a_run_ends_it_and_the_next_run_has_a_new_one(self) -> None:
        source = self.source(lambda query: FOUND)
        for run in range(1, 4):  # as a client's calls begin them
            self.assertEqual(listed(source, 7, 5.0), [SAVE_CONTROL])
            source.close()
            self.workers.made[-1].kill.assert_called()
            self.assertEqual(len(self.workers.made), run)


def serve_dialog(pipe: Any) -> None:
    """The real process, on a Windows with one dialog."""
    with windows_of_main(FakeControls([dialog(*PARTS)])):
        agent.serve_controls(pipe)


def serve_failing(pipe: Any) -> None:
    """The real process, on a Windows without COM."""
    with (
        mock.patch.object(FakeControls, "f_CoInitializeEx", lambda *_: -1),
        windows_of_main(FakeControls([])),
    ):
        agent.serve_controls(pipe)


def really(serve: Any) -> Any:
    """Has the process be a real one, which does that."""
    context = multiprocessing.get_context("spawn")
    made = mock.Mock(wraps=context)
    made.Process = lambda target, **how: context.Process(target=serve, **how)
    return mock.patch("multiprocessing.get_context", lambda _: made)


class TheProcess(unittest.TestCase):
    def test_it_answers_and_ends_with_the_run(self) -> None:
        with really(serve_dialog):
            source = agent.ControlsWorker(FakeWin32().api)
            with contextlib.closing(source):
                source.query(None, 600.0)  # it starts within that time
                known = source.query(Point(101, 101), 60.0)
                (process,) = multiprocessing.active_children()
        self.assertEqual([control.name for control in known.controls], ["&Save"])
        process.join()
        self.assertEqual(multiprocessing.active_children(), [])

    def test_a_program_is_loaded_as_a_module_if_it_is_found_as_one(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            hidden = Path(folder, "agent.py")
            hidden.touch()
            for file, name in ((agent.__file__, "agent"), (str(hidden), ""), (None, "")):
                with self.subTest(file):
                    program = ModuleType("__main__")
                    program.__file__ = file
                    agent.load_as_module(program)
                    self.assertEqual(getattr(program.__spec__, "name", ""), name)

    def python(self, words: str) -> Any:
        """A Python of its own that runs this."""
        folder = Path(agent.__file__).parent
        return subprocess.Popen(
            [sys.executable, "-c", words], cwd=folder, stdout=-1, stderr=-1, text=True
        )

    @for_the_gate
    def test_one_that_fails_says_nothing_and_none_is_loaded_at_the_start(self) -> None:
        unloaded = "import agent, sys; print('multiprocessing' in sys.modules, end='')"
        for words, said in ((FAILING, "ended"), (unloaded, "False")):
            with self.python(words) as process:
                self.assertEqual(process.communicate(), (said, ""))
                self.assertEqual(process.returncode, 0)


FAILING = """
import multiprocessing
from tests.test_controls import serve_failing
if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve_failing, args=(theirs,))
    process.start()
    process.join()
    print("ended", end="")
"""


class WithARun(CommandLineCase):
    def test_the_worker_lives_as_long_as_the_run_and_not_where_controls_are_off(self) -> None:
        for setting, done in (
            ("off", []),
            *((setting, ["query", "close"]) for setting in ("check", "list")),
        ):
            worker = mock.create_autospec(agent.ControlsWorker, instance=True)

            def desktop(clock: Any, worker: Any = worker) -> agent.WindowsDesktop:
                made = agent.WindowsDesktop(FakeWin32().api, clock)
                made.control_source = worker
                return made

            nobody = f"--endpoint {NOBODY}/v1 --set request_retries=0 --set controls="
            with self.subTest(setting), desktop_of_main(desktop), clock_of_main():
                code, _, _ = self.main(*(nobody + setting).split(), "a task")
                self.assertEqual(code, 3)
            self.assertEqual([name for name, *_ in worker.method_calls], done)


class TheDoctor(CommandLineCase):
    def lines(self, *replies: Any, said: str = "-v", **played: Any) -> list[str]:
        """What --check tells of the controls; `self.verdicts` is what it thinks of each line."""

        def desktop(clock: Any) -> agent.WindowsDesktop:
            made = agent.WindowsDesktop(FakeWin32().api, clock)
            made.control_source = agent.ControlsWorker(made.api)
            return made

        workers = Workers(*replies, **played)
        processes = mock.patch("multiprocessing.get_context", lambda _: workers)
        with desktop_of_main(desktop), clock_of_main(), processes:
            _, out, _ = self.main("--check", said, "--endpoint", f"{NOBODY}/v1")
        self.more = [line.strip() for line in out.splitlines() if line.startswith("  ")]
        told = [line.split(maxsplit=2) for line in out.splitlines() if line[0] != " "][:-1]
        self.verdicts = [verdict for verdict, what, _ in told if what == "controls"]
        return [text for _, what, text in told if what == "controls"]

    def test_it_tells_what_is_seen_and_why_not_more_and_no_value_of_a_field(self) -> None:
        problem = "CoCreateInstance answers 0x80040154"
        field = Control("Name", "edit", MIDDLE, value="private")
        for controls, told, verdict in (
            ([], r"nothing is known here, and not needed", "note"),
            ([SAVE_CONTROL], "1 controls are known", "ok"),
            ([field] * 7, "7 controls are known", "ok"),
        ):
            seen = found(*controls, problems=(problem,))
            (line,) = self.lines(lambda query, seen=seen: seen if window_of(query) else FOUND)
            self.assertRegex(line, rf"^{told}$")
            self.assertEqual((self.verdicts, self.more), ([verdict], [problem]))
        problems = found(problems=(problem,))
        self.lines(lambda query: problems if window_of(query) else FOUND, said="--check")
        self.assertEqual(self.more, [])
        (line,) = self.lines(lambda query: time.sleep(1.2) if window_of(query) else FOUND)
        self.assertRegex(line, "not needed; but no answer came within 1 s, so that acts there")
        (line,) = self.lines(HANGS, refused="This program is blocked by group policy.")
        self.assertRegex(line, "not needed.*blocked by group policy")


class KnownControls(unittest.TestCase):
    """What a drawn desktop tells of its own controls, and a control in the journal."""

    def test_the_topmost_at_a_point_the_one_with_the_keyboard_and_a_windows_are_told(self) -> None:
        save = Control("Save", "button", Rect(10, 10, 80, 24), window=7)
        field = Control("Name", "edit", Rect(10, 50, 200, 24), focused=True, window=7)
        back = Control("", "window", Rect(0, 0, 400, 300), window=8)
        source = agent.KnownControls([save, field, back])
        for where, told in (
            (Point(20, 20), [save]),
            (Point(399, 299), [back]),
            (Point(400, 10), []),
            (None, [field]),
            (Window(7, ""), [save, field]),
        ):
            self.assertEqual(source.ask(where), told)

    def test_in_json_all_that_is_known_is_kept_and_what_is_as_usual_left_out(self) -> None:
        plain, area = Control("", "text", Rect(1, 2, 3, 4)), Rect(0, 0, 1000, 1000)
        act = agent.Act("observe", {}, agent.ToolCall("", {}))
        known = [
            replace(plain, value="a.txt"),  # a text may be anybody's: it stays out of the journal
            replace(plain, focused=True, process=4711, window=7),
            replace(plain, checked=False, enabled=False, password=True),
        ]
        deed = agent.Deed(act, controls=known, act_s=0.0)
        entries = json.loads(json.dumps(deed.targets(area)))
        box = {"rect": [1, 2, 3, 4], "box": [1, 2, 4, 6]}
        self.assertEqual(entries[0], {"name": "", "role": "text", **box})
        for control, entry in zip([plain, *known[1:]], entries, strict=True):
            self.assertEqual(entry.pop("box"), box["box"])
            self.assertEqual(Control(rect=Rect(*entry.pop("rect")), **entry), control)


class PackagedApps(unittest.TestCase):
    """What the shell's folder of all apps holds beside shortcuts."""

    def test_the_shell_can_start_them_and_whichever_call_fails_nothing_is_left(self) -> None:
        app = "windows.immersivecontrolpanel_cw5n!ms"
        settings = agent.Program("Settings", f"shell:AppsFolder\\{app}")
        for number in range(14):
            world = FakeControls([])
            world.apps, world.fail_at = (("Notes", "C:\\notes.exe"), ("Settings", app)), number
            listed = list(agent.packaged_apps(agent.Win32(world.resolve, lambda: 31)))
            self.assertIn(listed, [[settings], []][: 1 + bool(number)])
            world.verify()


if __name__ == "__main__":
    unittest.main()
