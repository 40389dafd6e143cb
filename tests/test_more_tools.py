"""The tools that do in one turn what takes several: each on a simulated Windows, with each of its refusals."""

from __future__ import annotations

import json
import os
import random
import tempfile
import threading
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from agent import Coordinate, Program, Rect
from tests.fakes import Foreground, windows_desktop
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, PlainDesktop, call, role_of, user_text
from tests.seams import act, little_patience
from tests.test_actuator import Stage

MENU = "C:\\Menu\\"
PROGRAMS = [
    Program("Notepad", MENU + "Notepad.lnk", ("notepad.exe",)),
    Program("Paint Studio", MENU + "Paint Studio.lnk", ("studio.exe",)),
    Program("Paint Room", MENU + "Paint Room.lnk", ("room.exe",)),
    Program("Zürich Maps", MENU + "Zürich Maps.lnk", ("maps.exe",)),
    Program("Work Shell", MENU + "Work Shell.lnk", ("cmd.exe",)),
    Program("Tools", MENU + "Tools.lnk", ("prompt.exe", "setup.bat")),
    Program("Uninstall Maps", MENU + "Uninstall Maps.lnk", ("unins000.exe",)),
    Program("Notepad", "C:\\Other\\Notepad.lnk", ("other.exe",)),
    Program("Mozilla Browser", MENU + "Mozilla Browser.lnk", ("firefox.exe",)),
    Program("paint", "C:\\Windows\\paint.exe", ("paint.exe",)),
    Program("calc", "C:\\Windows\\calc.exe", ("calc.exe",)),
    Program("regedit", "C:\\Windows\\regedit.exe", ("regedit.exe",)),
    Program("Player (safe mode)", MENU + "Player (safe mode).lnk", ("play.exe",)),
    Program("Player", MENU + "Player.lnk", ("play.exe",)),
    Program("notes-of-one", "C:\\Windows\\notes-of-one.exe", ("notes-of-one.exe",)),
]
WORDS = agent.Vocabulary({name: name for name in agent.TOOLS})


def stage(**world: Any) -> Stage:
    """A simulated Windows with PROGRAMS, of which the next one started shows a Notepad."""
    made = Stage(config=world.pop("config", None), **world)
    made.desktop._programs = PROGRAMS
    made.world.opens = Foreground("Fresh - Notepad", handle=0x30002, process=4712)
    return made


def opened(made: Stage, name: str) -> Any:
    return made.actuator.perform(act("open_app", name=name), made.look())


class NamesOfPrograms(unittest.TestCase):
    def found(self, name: str) -> str:
        made = stage()
        made.desktop._programs = PROGRAMS
        made.actuator.confirm = lambda question: True
        performed = opened(made, name)
        if performed.refused:
            raise agent.ToolError(performed.result, performed.refused)
        (started,) = made.world.programs_opened
        return started

    def test_a_name_is_found_whatever_its_case_accents_and_ending(self) -> None:
        for name in ("notepad", "NOTEPAD", "Notepad.exe", "  Notepad "):
            self.assertEqual(self.found(name), MENU + "Notepad.lnk")
        self.assertEqual(self.found("zurich maps"), MENU + "Zürich Maps.lnk")

    def test_a_program_without_a_name_is_not_what_nobody_else_is_called(self) -> None:
        for nameless in (agent.Program("", "x.lnk"), agent.Program("X", "x.lnk", (".exe",))):
            made = stage()
            made.desktop._programs = [nameless]
            self.assertEqual(opened(made, "Kalkulator9").refused, "no_program")

    def test_the_only_name_that_begins_so_is_it(self) -> None:
        self.assertEqual(self.found("zür"), MENU + "Zürich Maps.lnk")
        self.assertEqual(self.found("mozilla"), MENU + "Mozilla Browser.lnk")

    def test_a_shortcut_is_found_by_what_it_starts_if_that_is_one_program(self) -> None:
        for name in ("firefox", "Firefox.exe"):
            self.assertEqual(self.found(name), MENU + "Mozilla Browser.lnk")
        with self.assertRaisesRegex(agent.ToolError, "Mozilla Browser$|Mozilla Browser\\."):
            self.found("firefo")
        for several in ("prompt", "play.exe"):
            with self.assertRaises(agent.ToolError):
                self.found(several)

    def test_an_exact_name_goes_before_longer_ones_and_the_start_menu_before_path(self) -> None:
        self.assertEqual(self.found("paint"), "C:\\Windows\\paint.exe")
        self.assertEqual(self.found("note"), MENU + "Notepad.lnk")

    def test_people_call_some_programs_otherwise(self) -> None:
        for name in ("Calculator", "Rechner"):
            self.assertEqual(self.found(name), "C:\\Windows\\calc.exe")
        self.assertEqual(self.found("Registry Editor"), "C:\\Windows\\regedit.exe")

    def test_two_beginnings_and_a_wrong_name_get_candidates(self) -> None:
        for name, candidates in (("pain", "Paint Studio, Paint Room"), ("notpad", "Notepad")):
            with self.assertRaises(agent.ToolError) as caught:
                self.found("paint " if name == "" else name)
            self.assertEqual(caught.exception.kind, "no_program")
            self.assertIn(candidates, str(caught.exception))

    def test_at_most_eight_candidates_are_listed_each_on_one_line(self) -> None:
        many = [Program(f"tool {n}\n" + "x" * 99, str(n)) for n in range(30)]
        made = stage()
        made.desktop._programs = many
        said = opened(made, "tool").result
        self.assertEqual(said.count("tool "), 8)
        self.assertLess(len(said), 600)
        self.assertNotIn("\n", said)

    def test_neither_a_path_nor_an_argument_is_a_name(self) -> None:
        for name in (
            MENU + "Notepad.lnk",
            "C:\\Windows\\calc.exe",
            "notepad C:\\secret.txt",
            "notepad & calc",
            "cmd /c del *",
            "",
            " ",
            ".exe",
            "\x00",
            "../notepad",
        ):
            with self.assertRaises(agent.ToolError, msg=name):
                self.found(name)


class OpenApp(unittest.TestCase):
    def test_it_starts_the_shortcut_and_says_which_window_came_to_the_front(self) -> None:
        made = stage()
        performed = opened(made, "notepad")
        self.assertEqual(made.world.programs_opened, [MENU + "Notepad.lnk"])
        self.assertEqual(performed.result, 'Opened: notepad; in front: "Fresh - Notepad"')
        self.assertTrue(performed.acted)
        made.world.verify()

    def test_com_is_ready_in_the_thread_that_asks_the_shell_and_let_go_of_afterwards(self) -> None:
        made = stage()
        opened(made, "notepad")
        self.assertIn("CoInitializeEx", made.world.calls)
        self.assertEqual(made.world.apartments, {})
        made.world.verify()

    def test_a_shell_that_asks_the_person_first_is_not_waited_for(self) -> None:
        made = stage()
        answered = threading.Event()
        self.addCleanup(answered.set)
        returned: list[bool] = []

        def asks(*_: Any) -> int:
            returned.append(answered.wait(5))
            return 42

        made.world._ShellExecuteW = asks  # type: ignore[method-assign]
        made.world.window = Foreground(path="C:\\other.exe", title="Else")
        with little_patience():
            performed = opened(made, "notepad")
        self.assertEqual(returned, [])
        self.assertIn("no window of it is in front", performed.result)

    def test_one_that_windows_does_not_start_is_not_called_opened(self) -> None:
        for answer, begins in ((0, False), (5, False), (32, False), (33, True)):
            made = stage()
            made.world.shell_answer = answer
            self.assertEqual(opened(made, "notepad").result.startswith("Opened"), begins, answer)

    def test_a_program_without_a_window_is_waited_for_ten_seconds(self) -> None:
        made = stage()
        made.world.opens = None
        made.world.window = Foreground(path="C:\\other.exe", title="Else")
        began = made.clock.now()
        said = opened(made, "notepad").result
        self.assertIn("after 10 s no window of it is in front", said)
        self.assertAlmostEqual(made.clock.now() - began, 10, delta=0.5)

    def test_a_slow_program_is_waited_for_no_longer_than_it_takes(self) -> None:
        made = stage()
        window = made.world.opens
        made.world.opens = None
        made.world.window = Foreground(path="C:\\other.exe", title="Else")
        made.clock.at(4, lambda: setattr(made.world, "window", window))
        began = made.clock.now()
        self.assertIn("Fresh", opened(made, "notepad").result)
        self.assertAlmostEqual(made.clock.now() - began, 4, delta=0.3)

    def test_a_window_of_another_program_counts_once_it_has_stood(self) -> None:
        made = stage(config={"confirm": "never"})
        made.world.opens = Foreground("Frame", path="C:\\host.exe", handle=0x30002)
        began = made.clock.now()
        self.assertIn('in front: "Frame"', opened(made, "calc").result)
        self.assertAlmostEqual(made.clock.now() - began, 2, delta=0.4)

    def test_a_program_that_is_in_front_already_is_not_waited_for_to_the_end(self) -> None:
        made = stage()
        made.world.opens = None
        began = made.clock.now()
        self.assertIn('in front: "Untitled - Notepad"', opened(made, "notepad").result)
        self.assertLess(made.clock.now() - began, 3.5)

    def test_a_program_that_is_not_harmless_is_asked_about(self) -> None:
        for name, risk in (
            ("zürich", "run"),
            ("work shell", "terminal"),
            ("regedit", "run"),
            ("uninstall maps", "install"),
        ):
            made = stage()
            asked: list[str] = []
            made.actuator.confirm = lambda question, asked=asked: bool(asked.append(question))
            performed = opened(made, name)
            self.assertEqual(performed.refused, "not_allowed", name)
            self.assertRegex(asked[0], rf": .*\b{risk}\b[^:]*$")
            self.assertEqual(made.world.programs_opened, [])

    def test_one_that_the_task_names_is_started_unasked_but_no_terminal(self) -> None:
        made = stage()
        made.actuator.task = "Open Zürich Maps and Work Shell"
        self.assertEqual(opened(made, "zürich maps").refused, "")
        self.assertEqual(opened(made, "work shell").refused, "not_allowed")

    def test_a_yes_starts_it(self) -> None:
        made = stage()
        made.actuator.confirm = lambda question: True
        self.assertEqual(opened(made, "zürich").refused, "")
        self.assertEqual(made.world.programs_opened, [MENU + "Zürich Maps.lnk"])

    def test_a_blocked_program_is_not_started_and_only_allowed_ones_are(self) -> None:
        for config in ({"blocked_windows": "notepad.exe"}, {"allowed_windows": "word.exe"}):
            made = stage(config=config)
            self.assertEqual(opened(made, "notepad").refused, "forbidden_window")
            self.assertEqual(made.world.programs_opened, [])

    def test_a_dry_run_starts_nothing(self) -> None:
        made = stage(config={"dry_run": True})
        self.assertIn("Dry run: would open app", opened(made, "notepad").result)
        self.assertEqual(made.world.programs_opened, [])


def focused(made: Stage, title: str) -> Any:
    return made.actuator.perform(act("focus_window", title=title), made.look())


class FocusWindow(unittest.TestCase):
    def setUp(self) -> None:
        self.made = Stage()
        self.world = self.made.world
        self.world.others = [
            Foreground("Budget 2024 - Calc", handle=0x30002, process=1, path="C:\\calc.exe"),
            Foreground("Bücher - Files", handle=0x40002, process=2, path="C:\\files.exe"),
            Foreground("Budget 2025 - Calc", handle=0x50002, process=1, path="C:\\calc.exe"),
            Foreground("Elsewhere", handle=0x60002, process=3, cloaked=True),
            Foreground("Hidden", handle=0x70002, process=3, visible=False),
            Foreground("", handle=0x80002, process=3),
            Foreground("Program Manager", handle=0x90002, process=3, class_name="Progman"),
        ]

    def test_the_windows_are_the_visible_titled_ones_the_front_first(self) -> None:
        titles = [window.title for window in self.made.desktop.windows()]
        self.assertEqual(
            titles,
            ["Untitled - Notepad", "Budget 2024 - Calc", "Bücher - Files", "Budget 2025 - Calc"],
        )
        self.world.verify()

    def test_a_part_of_the_title_is_enough_whatever_its_case_and_accents(self) -> None:
        performed = focused(self.made, "bucher")
        self.assertEqual(performed.refused, "")
        self.assertEqual(performed.result, 'In front: bucher; its title: "Bücher - Files"')
        self.assertEqual(self.world.window.title, "Bücher - Files")

    def test_a_minimised_window_is_restored(self) -> None:
        self.world.others = [Foreground("Small", handle=0x30002, minimised=True)]
        self.assertEqual(focused(self.made, "small").refused, "")
        self.assertFalse(self.world.window.minimised)

    def test_a_part_of_two_titles_or_of_none_is_told_the_windows(self) -> None:
        for title, number, listed in (
            ("budget", "2 windows have", "Budget 2025"),
            ("word", "No window has", '"Untitled - Notepad"; "Budget 2024'),
            ("", "No window has", "Untitled"),
        ):
            performed = focused(self.made, title)
            self.assertEqual((performed.refused, performed.begun), ("no_window", False))
            self.assertIn(number, performed.result)
            self.assertIn(listed, performed.result)

    def test_at_most_twelve_titles_are_told_each_cut_and_on_one_line(self) -> None:
        self.world.others = [Foreground(f"{n}\n" + "x" * 500, handle=90 + n) for n in range(30)]
        told = focused(self.made, "no such title").result
        self.assertEqual(told.count('"; "'), 11)
        self.assertNotIn("\n", told)
        self.assertLess(len(told), 12 * 60)

    def test_a_window_in_front_that_keeps_the_keyboard_gives_it_to_an_attached_thread(self) -> None:
        self.world.keeps_front = True
        self.assertEqual(focused(self.made, "bücher").refused, "")
        self.assertFalse(self.world.attached)
        self.world.verify()

    def test_a_window_that_stays_behind_is_a_failure_that_lists_the_windows(self) -> None:
        self.world.never_front = True
        performed = focused(self.made, "bücher")
        self.assertEqual(performed.refused, "not_in_front")
        self.assertIn('Open windows: "Untitled - Notepad"', performed.result)
        self.assertFalse(self.world.attached)

    def test_a_window_that_hangs_is_not_waited_for(self) -> None:
        self.world.others = [replace(other, hung=True) for other in self.world.others]
        self.world.keeps_front = True
        self.assertEqual(focused(self.made, "bücher").refused, "not_in_front")
        self.assertNotIn("BringWindowToTop", self.world.calls)

    def test_a_program_that_hangs_is_not_attached_to(self) -> None:
        self.world.window = Foreground(hung=True)
        self.world.keeps_front = True
        self.assertEqual(focused(self.made, "bücher").refused, "not_in_front")
        self.assertNotIn("AttachThreadInput", self.world.calls)

    def test_a_blocked_window_stays_behind(self) -> None:
        made = Stage(config={"blocked_windows": "*files*"})
        made.world.others = self.world.others
        performed = focused(made, "bücher")
        self.assertEqual((performed.refused, performed.acted), ("forbidden_window", False))
        self.assertEqual(made.world.window.title, "Untitled - Notepad")

    def test_the_programs_own_window_is_none_to_the_model(self) -> None:
        self.world.console = self.world.console_owner = 0x40002
        self.made.desktop.own_console(False)
        performed = focused(self.made, "bücher")
        self.assertEqual(performed.refused, "no_window")
        self.assertNotIn("Files", performed.result)


class ToldOfWindows(EngineCase):
    def asked(self, **settings: Any) -> str:
        trial = self.trial(
            lambda request: (
                PLAN if role_of(request) == "planner" else call("press_keyboard_key", key="a")
            ),
            max_steps=2,
            **settings,
        )
        others = [agent.Window(2, "Second [x]\nline", "two.exe")]
        trial.desktop.windows = lambda: [trial.desktop.foreground(), *others]
        trial.run()
        requests = trial.requests
        return next(user_text(r) for r in requests if role_of(r) == "executor")

    def test_the_executor_is_told_of_the_windows_behind_the_one_in_front(self) -> None:
        self.assertIn('BEHIND IT: "Second [x] line"', self.asked())

    def test_as_described_it_is_not(self) -> None:
        self.assertNotIn("BEHIND", self.asked(described=True))


class Form(PlainDesktop):
    """A plain desktop that notes what reaches it; some events bring another window to the front."""

    def __init__(self, clock: agent.Clock) -> None:
        super().__init__(clock)
        self.number_in_front = 1
        self.opens_at = ""  # the name of an event that brings another window to the front

    def foreground(self) -> agent.Window:
        return agent.Window(
            self.number_in_front, f"Form {self.number_in_front}", "form.exe", self.screen()
        )

    def button(self, name: str, down: bool) -> None:
        super().button(name, down)
        self.note("click", down)

    def key(self, name: str, down: bool) -> None:
        super().key(name, down)
        self.note(name, down)

    def note(self, name: str, down: bool) -> None:
        if name == self.opens_at and not down:
            self.number_in_front += 1

    def done(self) -> list[str]:
        """Clicks, texts and keys in their order."""
        words = {"button": "click", "text": ""}
        names = []
        for kind, *rest in self.inputs:
            if kind == "text":
                names.append(str(rest[0]))
            elif kind in ("key", "button") and rest[1]:
                names.append(words.get(kind) or str(rest[0]))
        return names


class SeveralSteps(EngineCase):
    def perform(self, tool: str, opens_at: str = "", **arguments: Any) -> Any:
        settings = arguments.pop("settings", {})
        self.made = self.trial(lambda request: PLAN, **settings)
        self.desktop = Form(self.made.clock)
        self.desktop.opens_at = opens_at
        self.made.desktop = self.desktop
        look = self.made.look(1)
        return self.made.perform(act(tool, **arguments), look, 1)

    def test_a_text_is_typed_into_a_field_in_place_of_what_it_held_and_entered(self) -> None:
        deed = self.perform("type_text", text="abc", position=[500, 500], clear=True, submit=True)
        self.assertEqual(self.desktop.done(), ["click", "ctrl", "a", "abc", "enter"])
        self.assertEqual(self.desktop.place, (32, 18))
        self.assertEqual((deed.refused, deed.changed), ("", True))
        self.assertEqual(
            deed.result, "Clicked: text field; Pressed key: ctrl+a; Typed: abc; Pressed key: enter"
        )

    def test_each_part_comes_alone_too(self) -> None:
        for arguments, done in (
            ({}, ["abc"]),
            ({"position": [1, 1]}, ["click", "abc"]),
            ({"clear": True}, ["ctrl", "a", "abc"]),
            ({"submit": True}, ["abc", "enter"]),
            ({"submit": False, "clear": False}, ["abc"]),
        ):
            self.perform("type_text", text="abc", **arguments)
            self.assertEqual(self.desktop.done(), done)

    def test_another_window_in_front_ends_it_and_the_result_says_so(self) -> None:
        deed = self.perform("type_text", "click", text="abc", position=[1, 1], submit=True)
        self.assertEqual(self.desktop.done(), ["click"])
        self.assertEqual((deed.refused, deed.changed), ("another_window", None))
        self.assertIn(
            'the rest was not done, since another window came to the front: "Form 2"', deed.result
        )

    def test_a_window_that_opens_with_the_last_step_is_no_failure(self) -> None:
        deed = self.perform("type_text", "enter", text="abc", submit=True)
        self.assertEqual(deed.refused, "")

    def test_a_step_that_is_refused_ends_it_half_way(self) -> None:
        deed = self.perform(
            "press_key", key="tab", then=["alt+f4", "enter"], settings={"confirm": "risky"}
        )
        self.assertEqual(self.desktop.done(), ["tab"])
        self.assertEqual(deed.refused, "not_allowed")
        self.assertTrue(deed.begun)
        self.assertIn("Failed half-way", deed.result)

    def test_enter_behind_a_text_in_the_run_dialog_is_asked_about_by_that_text(self) -> None:
        def run_dialog() -> agent.Window:
            return agent.Window(
                9,
                "Run",
                "explorer.exe",
                self.desktop.screen(),
                class_name="#32770",
                owner=agent.Window(8, "", "explorer.exe", class_name="Shell_TrayWnd"),
            )

        for text, refused in (
            ("notepad", ""),
            ("format c:", "not_allowed"),
            ("mystery", "not_allowed"),
        ):
            self.made = self.trial(lambda request: PLAN)
            self.desktop = Form(self.made.clock)
            self.desktop.foreground = run_dialog  # type: ignore[method-assign]
            self.made.desktop = self.desktop
            typed = act("type_text", text=text, clear=True, submit=True)
            deed = self.made.perform(typed, self.made.look(1), 1)
            self.assertEqual(deed.refused, refused, text)
            self.assertEqual("enter" in self.desktop.done(), not refused)

    def test_up_to_four_chords_are_pressed_in_order_and_no_fifth(self) -> None:
        self.perform("press_key", key="ctrl+a", then=["delete", "tab", "enter"])
        self.assertEqual(self.desktop.done(), ["ctrl", "a", "delete", "tab", "enter"])
        with self.assertRaises(agent.ToolError):
            act("press_key", key="a", then=["b", "c", "d", "e"])
        with self.assertRaises(agent.ToolError):
            act("press_key", key="a", then=["nokey"])

    def test_a_blocked_chord_among_them_is_refused(self) -> None:
        deed = self.perform("press_key", key="a", then=["win+l"])
        self.assertEqual((deed.refused, self.desktop.done()), ("blocked_key", ["a"]))

    def test_a_dry_run_names_every_step_and_does_none(self) -> None:
        deed = self.perform("type_text", text="a", submit=True, settings={"dry_run": True})
        self.assertTrue(deed.dry)
        self.assertIn("would press key", deed.result)
        self.assertEqual(self.desktop.done(), [])

    def test_the_journal_has_what_was_given(self) -> None:
        self.perform("type_text", text="abc", position=[500, 500], submit=True)
        intent = self.made.records("intent")[0]
        self.assertEqual(
            intent["args"],
            {"text": "abc", "position": {"x": 500, "y": 500}, "submit": True, "reasoning": ""},
        )

    def test_words_for_true_and_false_are_read_and_nothing_else(self) -> None:
        for said, meant in (
            (True, True),
            ("true", True),
            ("False", False),
            (1, None),
            ("yes", None),
        ):
            arguments = {"text": "a", "submit": said}
            message = call("type_text", **arguments)
            if meant is None:
                with self.assertRaises(agent.ReplyError):
                    agent.read_call(message, "stop", WORDS)
            else:
                act = agent.read_call(message, "stop", WORDS)
                self.assertEqual(act.call.arguments["submit"], meant)


class Turns(EngineCase):
    def run_calls(self, *calls: Any, dead: bool = False, **settings: Any) -> list[dict[str, Any]]:
        """Lets the executor make these calls, and gives its requests."""
        replies = iter(calls)

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role_of(request) == "planner":
                return PLAN
            return next(replies)

        turns = len(calls) + 1
        self.made = self.trial(decide, max_steps=turns, **settings)
        self.desktop = self.made.desktop
        self.desktop.dead = dead
        self.made.run()
        return [r for r in self.made.requests if role_of(r) == "executor"]

    def click(self, x: int, y: int) -> dict[str, Any]:
        return call("click_screen_element", element_name="it", position=[x, y])


class Waiting(Turns):
    def waited(self, seconds: int, changes_after: float | None) -> tuple[float, str]:
        """How long it waited, and what the model is told."""
        replies = iter([call("wait", seconds=seconds)])
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else next(replies), max_steps=2
        )
        if changes_after is not None:
            trial.clock.at(changes_after, lambda: trial.inputs.append(("other",)))
        began = trial.clock.now()
        trial.run()
        self.stalled = trial.state.stalled
        return trial.clock.now() - began, trial.history[-1].result

    def test_it_waits_as_long_as_it_was_told_to_where_nothing_changes(self) -> None:
        seconds, said = self.waited(20, None)
        self.assertAlmostEqual(seconds, 20, delta=1)
        self.assertEqual(said, "Waited 20 s; the screen did not change")
        self.assertEqual(self.stalled, 0)

    def test_it_ends_early_once_the_screen_has_changed_and_is_at_rest(self) -> None:
        seconds, said = self.waited(60, 5)
        self.assertLess(seconds, 7)
        self.assertRegex(said, "^Waited [56] s; the screen changed$")

    def test_more_than_a_minute_is_refused_and_explained(self) -> None:
        for seconds in (0, 61, "long"):
            with self.assertRaises(agent.ReplyError):
                agent.read_call(call("wait", seconds=seconds), "stop", WORDS)


class Zooming(Turns):
    base = FEWER_REQUESTS

    def test_a_place_on_a_closer_picture_is_that_place_of_the_screen(self) -> None:
        requests = self.run_calls(
            call("zoom", position=[750, 250]), self.click(0, 1000), self.click(0, 1000)
        )
        self.assertIn("CLOSER LOOK", user_text(requests[1]))
        self.assertNotIn("CLOSER LOOK", user_text(requests[0]) + user_text(requests[2]))
        moves = [event[1:] for event in self.desktop.inputs if event[0] == "move"]
        # Of 64x36 pixels a quarter around (47, 9): 32x18 from (31, 0) on; then all of it.
        self.assertEqual(moves, [(31, 17), (0, 35)])

    def test_once_a_secret_was_typed_the_model_is_told_that_the_screen_stays_whole(self) -> None:
        typed = call("type_text_input", text="{{PIN}}")
        replies = iter((typed, call("zoom", position=[750, 250]), self.click(0, 1000)))
        trial = self.trial(
            lambda request: PLAN if role_of(request) == "planner" else next(replies),
            max_steps=4,
            confirm="never",
        )
        trial.hidden = agent.Secrets({"PIN": "4711-0815"})
        trial.run()
        last = user_text([r for r in trial.requests if role_of(r) == "executor"][2])
        self.assertIn("the screen is shown whole", last)
        self.assertNotIn("CLOSER LOOK", last)

    def test_the_memory_has_the_place_on_the_whole_screen(self) -> None:
        self.run_calls(call("zoom", position=[750, 250]), self.click(500, 500))
        shown = self.made.state.memory.active_history[-1].args
        self.assertEqual(shown, '"it" (746, 257)')

    def test_each_pixel_of_a_part_can_be_reached_and_none_beside_it(self) -> None:
        area = Rect(-1920, 40, 1920, 1079)
        trial = self.trial(lambda request: PLAN)
        trial.desktop = Targets(trial.clock)
        trial.desktop.size = area
        for point in ((-1920, 40), (-1, 1118), (-960, 500), (-1915, 1100)):
            trial.zoom(agent.Point(*point))
            part = trial.look().frame.area
            self.assertEqual((part.width, part.height), (960, 539))
            self.assertEqual(part.intersection(area), part)
            self.assertTrue(part.contains(agent.Point(*point)))
            corners = [agent.to_point(Coordinate(n, n), part) for n in (0, 1000)]
            self.assertEqual(corners, [part[:2], (part.right - 1, part.bottom - 1)])

    def test_the_effect_of_an_act_is_seen_wherever_it_shows(self) -> None:
        trial = self.trial(lambda request: PLAN, area="0,0,640,360")
        desktop = trial.desktop = Targets(trial.clock)
        desktop.target = Rect(20, 20, 40, 40)
        desktop.button = lambda name, down: setattr(desktop, "target", Rect(20, 90, 40, 40))
        trial.zoom(agent.Point(600, 300))
        look = trial.look(1)
        self.assertFalse(look.frame.area.overlaps(desktop.target))
        clicked = act("click", element_name="it", position=[500, 500])
        self.assertTrue(trial.perform(clicked, look, 1).changed)

    def test_rows_that_appear_in_the_programs_own_console_are_no_effect_of_an_act(self) -> None:
        console = Rect(10, 10, 200, 200)
        for new_row, changed in ((Rect(20, 90, 40, 40), False), (Rect(190, 90, 40, 40), True)):
            trial = self.trial(lambda request: PLAN, area="0,0,640,360")
            desktop = trial.desktop = Targets(trial.clock)
            desktop.target = Rect(20, 20, 40, 40)
            own = agent.Window(9, "cmd.exe", "conhost.exe", console, own=True)
            other = desktop.foreground()
            desktop.window_at = lambda point, own=own, other=other: (
                own if console.contains(point) else other
            )
            desktop.button = lambda name, down, at=desktop, row=new_row: setattr(at, "target", row)
            look = trial.look(1)
            clicked = act("click", element_name="it", position=[900, 900])
            deed = trial.perform(clicked, look, 1)
            self.assertEqual((deed.refused, deed.changed), ("", changed), new_row)

    def test_a_click_that_changed_nothing_is_followed_by_a_closer_picture_once(self) -> None:
        clicks = [self.click(500, 500)] * 3
        requests = self.run_calls(*clicks, dead=True)
        closer = ["CLOSER LOOK" in user_text(request) for request in requests]
        self.assertEqual(closer, [False, True, False])

    def test_not_without_the_setting_nor_after_keys(self) -> None:
        clicks = [self.click(500, 500)] * 3
        for settings in ({"auto_zoom": False},):
            requests = self.run_calls(*clicks, dead=True, **settings)
            self.assertNotIn("CLOSER", str(requests))
        keys = [call("press_keyboard_key", key="a")] * 3
        self.assertNotIn("CLOSER", str(self.run_calls(*keys, dead=True)))

    def test_where_a_secret_was_typed_the_picture_stays_whole(self) -> None:
        trial = self.trial(lambda request: PLAN)
        trial.blank()
        trial.zoom(agent.Point(9, 9))
        self.assertIsNone(trial.look(1).frame.whole)

    def test_keys_reach_the_window_in_front_from_a_closer_picture_of_another_place(self) -> None:
        made = Stage()
        frame = replace(made.look(), area=Rect(1500, 900, 100, 100), whole=made.area)
        self.assertEqual(made.attempt("press_key", frame, key="a").refused, "")


MISREADS = 6  # pixels of its picture by which the model errs at most, on each axis


class Targets(PlainDesktop):
    """A grey screen with one small white square."""

    size = Rect(0, 0, 1920, 1080)
    target = Rect(0, 0, 1, 1)

    def screen(self) -> Rect:
        return self.size

    primary = screen

    def glance(self, area: Rect, width: int, height: int) -> bytes:
        row = b"\x80\x80\x80\x00" * width
        picture = bytearray(row * height)
        shown = self.target.scaled(area, Rect(0, 0, width, height))
        seen = shown.intersection(Rect(0, 0, width, height))
        for y in range(seen.top, seen.bottom):
            first = (y * width + seen.left) * 4
            picture[first : first + 4 * seen.width] = b"\xff" * (4 * seen.width)
        return bytes(picture)


def read_place(frame: agent.Frame, dice: random.Random) -> Coordinate | None:
    """Where a model that reads the pixels sees the white square, with its error."""
    first = frame.clean.find(b"\xff\xff\xff\xff") // 4
    last = frame.clean.rfind(b"\xff\xff\xff\xff") // 4
    if first < 0:
        return None
    axes = []
    for low, high, size in (
        (first % frame.width, last % frame.width, frame.width),
        (first // frame.width, last // frame.width, frame.height),
    ):
        seen = (low + high) / 2 + dice.uniform(-MISREADS, MISREADS)
        axes.append(min(1000, max(0, round(seen * 1000 / (size - 1)))))
    return Coordinate(*axes)


class Hits(EngineCase):
    def hits(self, screen: Rect, closely: bool, tries: int = 12) -> int:
        """Of small targets all over a screen, those that are hit."""
        trial = self.trial(lambda request: PLAN, screen_capture_w=0, screen_capture_h=0)
        desktop = trial.desktop = Targets(trial.clock)
        dice = random.Random(7)
        desktop.size = screen
        number = 0
        for _ in range(tries):
            side = dice.randint(8, 16)
            desktop.target = Rect(
                dice.randrange(screen.width - side),
                dice.randrange(screen.height - side),
                side,
                side,
            )
            frame = trial.look().frame
            place = read_place(frame, dice)
            if closely and place:
                frame = trial.engine.eyes.capture(agent.to_point(place, frame.area))
                place = read_place(frame, dice)
            number += bool(place and desktop.target.contains(agent.to_point(place, frame.area)))
        return number

    def test_small_targets_are_hit_more_often_on_a_closer_picture(self) -> None:
        for width, height in ((1920, 1080), (3840, 2160)):
            screen = Rect(0, 0, width, height)
            whole = self.hits(screen, closely=False)
            closer = self.hits(screen, closely=True)
            self.assertGreater(closer, whole)


class WhatWindowsLists(unittest.TestCase):
    MENU = ("Microsoft", "Windows", "Start Menu", "Programs")

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, *parts: str, data: bytes = b"") -> Path:
        path = self.folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def listed(self, path: str = "") -> list[Program]:
        """What Windows lists with this PATH."""
        environment = {
            "APPDATA": str(self.folder / "own"),
            "PROGRAMDATA": str(self.folder / "all"),
            "PATH": path,
        }
        _, desktop, _ = windows_desktop()
        with mock.patch.dict(os.environ, environment):
            return desktop.programs()

    def files(self, data: bytes) -> tuple[str, ...]:
        """The programs that a shortcut names."""
        self.file("own", *self.MENU, "s.lnk", data=data)
        (program,) = self.listed()
        return program.files

    def test_shortcuts_of_both_start_menus_and_programs_on_path_are_listed(self) -> None:
        own = self.file("own", *self.MENU, "Mine.lnk", data=b"C:\\x\\Mine.EXE\x00")
        data = "C:\\go.exe -w".encode("utf-16-le")
        deep = self.file("all", *self.MENU, "Games", "Go.lnk", data=data)
        self.file("all", *self.MENU, "Site.url")
        tool = self.file("bin", "tool.exe")
        self.file("bin", "tool.dll")
        # A place that PATH names from the present folder; on Windows there is none to another drive.
        same_drive = tool.parent.resolve().drive == Path.cwd().drive
        relative = os.path.relpath(tool.parent) if same_drive else "bin"
        path = os.pathsep.join([str(tool.parent), "", relative, str(self.folder / "no")])
        self.assertEqual(
            self.listed(path),
            [
                Program("Mine", str(own), ("mine.exe",)),
                Program("Go", str(deep), ("go.exe",)),
                Program("tool", str(tool), ("tool.exe",)),
            ],
        )

    def test_a_folder_of_programs_that_never_answers_does_not_hang_the_scan(self) -> None:
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.file("own", *self.MENU, "Mine.lnk")
        glob = Path.glob

        def never_answers(folder: Path, *words: Any, **named: Any) -> Any:
            return gate.wait(60) if folder == self.folder else glob(folder, *words, **named)

        with mock.patch.object(Path, "glob", never_answers), little_patience(1.0):
            listed = self.listed(str(self.folder))
        self.assertEqual([program.name for program in listed], ["Mine"])

    def test_all_programs_of_a_shortcut_are_seen_in_both_encodings_at_odd_places_too(self) -> None:
        data = b"\x01C:\\a\\Harm.exe\x00" + b"x" + 'C:\\w\\cmd.exe" /c'.encode("utf-16-le")
        for pad in (b"", b"\x07"):
            self.assertLessEqual({"harm.exe", "cmd.exe"}, set(self.files(pad + data)))

    def test_each_kind_of_file_that_runs_when_it_is_opened_is_seen_in_a_shortcut(self) -> None:
        endings = "exe bat cmd ps1 vbs vbe js jse jar wsf wsh hta scr pif msi cpl chm pyw"
        for ending in endings.split():
            files = self.files(f"C:\\x\\Notes.{ending}\0".encode("utf-16-le"))
            self.assertEqual(files, (f"notes.{ending}",))

    def test_a_large_shortcut_names_nothing_that_would_take_long(self) -> None:
        self.assertEqual(self.files(b"a" * 5_000_000), ())


class Offered(EngineCase):
    def shown(self, profile: agent.Profile) -> str:
        return json.dumps([profile.schemas(role) for role in profile.roles.values()])

    def test_the_other_profiles_know_none_of_them(self) -> None:
        for name in ("chat", "pointer", "story"):
            profile = agent.PROFILES[name]
            shown = json.dumps(profile.vocabulary.schemas([*profile.vocabulary.tools]))
            for word in ("open_app", "focus_window", "seconds", "zoom", "submit", "clear", "then"):
                self.assertNotIn(word, shown)


class WhereTheMouseIs(EngineCase):
    ACTS = (("scroll", {"ticks": -1}), ("hscroll", {"ticks": 1}), ("mouse_down", {}))

    def test_what_is_done_there_neither_moves_the_mouse_nor_aims_at_its_place(self) -> None:
        for name, arguments in self.ACTS:
            trial = self.trial(lambda request: PLAN, "native", confirm="never")
            trial.desktop.place = agent.Point(0, 0)  # from where a person may throw it back
            trial.perform(act(name, **arguments), trial.look())
            self.assertNotIn("move", str(trial.desktop.inputs), name)
            self.assertIsNone(trial.engine.actuator.aim, name)

    def test_a_person_who_moves_it_before_the_first_event_keeps_it(self) -> None:
        trial = self.trial(lambda request: PLAN, "native", confirm="never")
        window_at = trial.desktop.window_at

        def moving(point: agent.Point) -> agent.Window | None:
            trial.desktop.place = agent.Point(50, 30)
            return window_at(point)

        trial.desktop.place = agent.Point(10, 10)
        with mock.patch.object(trial.desktop, "window_at", moving):
            deed = trial.perform(act("scroll", ticks=-1), trial.look())
        self.assertEqual((deed.refused, trial.desktop.inputs), ("stale_frame", []))


if __name__ == "__main__":
    unittest.main()
