"""What a person shows by hand: watched as Windows tells it, kept as a run, and done again with other values."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import struct
import tempfile
import time
import unittest
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from agent import Control, Note, Point, Rect
from tests import seams
from tests.fakes import FakeWin32, VirtualClock
from tests.samples import for_the_gate
from tests.seams import person_at_main
from tests.test_main import CommandLineCase
from tests.timing import comes_true

WINDOW = agent.Window(7, "Customers", "soffice.exe", Rect(0, 0, 800, 600))
NAME = Control("Name:", "edit", Rect(200, 100, 300, 30), value="", window=7, program="soffice.exe")
CITY = replace(NAME, name="City:", rect=Rect(200, 150, 300, 30))
SECRET = replace(NAME, name="PIN:", rect=Rect(200, 200, 300, 30), value=None, password=True)
TICK = Control(
    "Paid", "checkbox", Rect(200, 250, 90, 30), window=7, program="soffice.exe", checked=False
)
OK = Control("OK", "button", Rect(200, 300, 90, 30), window=7, program="soffice.exe")
MAIN = replace(WINDOW, title="Untitled - Notes", class_name="Notes")
SAVE_AS = replace(WINDOW, handle=8, title="Save As", class_name="#32770", owner=MAIN)
UNREAD = "keys that could not be read"
TOO_QUICK = (
    "what an act was aimed at, which came before it was looked at; show it again more slowly"
)
UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # what a key types that waits for a letter


class Form(agent.DemoDesktop):
    """A window with controls, of which one has the keyboard."""

    def __init__(self, clock: VirtualClock, *controls: Control) -> None:
        super().__init__(clock)
        self.controls = {control.name: control for control in controls}
        self.focus = ""
        self.front = WINDOW

    @property
    def control_source(self) -> agent.KnownControls:
        known = [replace(one, focused=name == self.focus) for name, one in self.controls.items()]
        return agent.KnownControls(known)

    def foreground(self) -> agent.Window | None:
        return self.front

    def window_at(self, point: Point) -> agent.Window | None:
        return self.front

    def windows(self) -> list[agent.Window]:
        return [self.front]

    def window(self, handle: int) -> agent.Window | None:
        return self.front


class Hand:
    """A person at the form: each act gives its notes, and the form follows as a program would."""

    def __init__(self, form: Form) -> None:
        self.form = form

    def click(self, name: str, *button: str, to: str = "") -> Iterator[list[Note]]:
        place = agent.middle_of(self.form.controls[name].rect)
        self.form._cursor = place
        yield from [[]] * 6  # it rests
        control = self.form.controls[name]
        self.form.focus = name if control.role == "edit" else self.form.focus
        if control.checked is not None:
            self.form.controls[name] = replace(control, checked=not control.checked)
        end = agent.middle_of(self.form.controls[to].rect) if to else place
        what = f"{button[0] if button else 'left'} button"
        yield [Note(what, True, place, 0), Note(what, False, end, 0)]
        yield from [[]] * 12

    def type(self, text: str, held: str = "", keys: int | None = None) -> Iterator[list[Note]]:
        field = self.form.controls[self.form.focus]
        value = (field.value or "") + text
        if not field.password:
            self.form.controls[field.name] = replace(field, value=value)
        place = self.form._cursor
        yield [Note(sign, True, place, 0, sign) for sign in text[:keys]]
        yield from [[]] * 12

    def undoes(self, name: str) -> Iterator[list[Note]]:
        """Clicks a button that becomes another one at once."""
        for notes in self.click(name):
            if notes:
                self.form.controls[name] = replace(self.form.controls[name], name="Undo")
            yield notes

    def press(self, key: str, *held: str) -> Iterator[list[Note]]:
        place = self.form._cursor
        yield [Note(key, True, place, 0, held=held)]
        yield from [[]] * 12


class RecorderCase(unittest.TestCase):
    late_ms = 0  # by which a note arrives after what it tells of

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        self.form = Form(VirtualClock(), NAME, CITY, SECRET, TICK, OK)
        self.hand = Hand(self.form)

    def shown(self, *acts: Iterator[list[Note]], **config: Any) -> list[str]:
        """The steps of a recording, in words."""
        size = {"screen_capture_w": 256, "screen_capture_h": 144}
        given = {"dump_dir": str(self.root), **size, **config}
        settings = agent.load_config({"test": given})
        self.config = agent.at_size_of(self.form, settings)
        clock, stop = self.form.clock, agent.Stop()
        hands = agent.Actuator(self.form, self.config, clock, stop)
        self.logger = agent.ExecutionLogger(self.config)
        self.addCleanup(self.logger.close)
        eyes = agent.Eyes(hands, self.logger)
        controls = agent.ControlCheck(hands)
        self.said: list[str] = []
        self.recorder = agent.Recorder(eyes, controls, lambda text, *_: self.said.append(text))

        def listen() -> Iterator[list[Note]]:
            for notes in chain(*acts):
                yield [note._replace(ms=self.ticks() - self.late_ms + note.ms) for note in notes]
            stop.set("shown")
            yield []

        told = listen()
        self.recorder.watch(lambda: next(told, []), self.ticks)
        for number, step in enumerate(self.recorder.steps, 1):
            self.logger.turn = number
            step.write(self.logger, "")
        return [step.act.in_words() for step in self.recorder.steps]

    def ticks(self) -> int:
        return round(1000 * self.form.clock.now())

    def written(self) -> list[dict[str, Any]]:
        lines = (self.logger.folder / "turns.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]


class Windows(RecorderCase):
    """A step knows the window in which it was shown, and is done in no other one."""

    def saves(self, after: int, rests: bool) -> Iterator[list[Note]]:
        """Types, presses Ctrl+S, and types a path into what opens so many looks later."""
        self.form.front = MAIN
        yield from self.hand.click("Name:")
        yield from self.hand.type("a note")
        pressed = self.hand.press("s", "ctrl")
        yield next(pressed)
        yield from [[]] * after
        self.form.front = SAVE_AS
        self.form.controls = {"File": replace(NAME, name="File", window=8)}
        self.form.focus = "File"
        yield from [[]] * (12 if rests else 0)
        if rests:
            yield from self.hand.press("f1")
        yield from self.hand.type("C:")
        yield from self.hand.press("enter")

    def test_a_dialog_that_opens_late_is_the_window_of_what_is_typed_there(self) -> None:
        for after, rests in product((0, 2, 6, 12, 40), (False, True)):
            with self.subTest(after, rests=rests):
                self.form = Form(VirtualClock(), NAME)
                self.hand = Hand(self.form)
                self.shown(self.saves(after, rests))
                there = [
                    (line["title"], line["class_name"], line["owned"])
                    for line in self.written()
                    if line["kind"] == "place"
                ]
                main, dialog = ("Untitled - Notes", "Notes", False), ("Save As", "#32770", True)
                self.assertIn(there.pop(1), (main, ("Untitled - Notes", "", False)))
                self.assertEqual(there, [main, dialog, dialog, *[dialog] * rests])


class Steps(RecorderCase):
    """What a person does becomes the acts that do it again."""

    def test_what_is_done_before_it_begins_is_told_and_no_step(self) -> None:
        early = Note("f5", True, Point(1, 1), -5000)
        self.assertEqual(self.shown(iter([[early]]), self.hand.click("OK")), ['click "OK"'])
        self.assertRegex(str(self.recorder.gaps), "what was done before the recording began.*: 1")

    def test_a_path_is_told_as_it_was_typed(self) -> None:
        self.shown(self.hand.click("Name:"), self.hand.type(r"C:\t\a.txt"))
        self.assertEqual(self.said, [r'   1  type text "C:\t\a.txt" in "Name:"'])

    def test_that_a_text_was_typed_behind_another_is_told_since_each_row_is_then(self) -> None:
        behind = ", behind what stood there"
        for value, told in (("", ""), ("Meier", behind), ("Meier, Anna", behind)):
            self.form.controls["Name:"] = replace(NAME, value=value)
            self.shown(self.hand.click("Name:"), self.hand.type("!"))
            self.assertEqual(self.said[-1].partition("  type ")[2], f'text "!" in "Name:"{told}')

    def test_a_field_is_one_step_with_what_it_holds_when_it_is_left(self) -> None:
        hand = self.hand
        steps = self.shown(
            hand.click("Name:"),
            hand.type("Meier"),
            hand.type(", Anna"),
            hand.click("City:"),
            hand.type("Basel"),
        )
        self.assertEqual(steps, ['type text "Meier, Anna"', 'type text "Basel"'])
        first = self.recorder.steps[0].args
        self.assertEqual((first["element_name"], first.get("clear")), ("Name:", None))

    def test_a_field_whose_whole_text_was_typed_was_empty_however_late_it_was_looked_at(
        self,
    ) -> None:
        """Tab goes into it and the first letters stand there before anybody looks."""
        hand = self.hand

        def on(name: str) -> Iterator[list[Note]]:
            for notes in hand.press("tab"):
                self.form.focus = name if notes else self.form.focus
                if notes:
                    yield [*notes, *next(hand.type("Basel"))]

        self.shown(hand.click("Name:"), hand.type("Meier"), on("City:"))
        (typed,) = [step for step in self.recorder.steps if step.args.get("text") == "Basel"]
        self.assertEqual(typed.seen.control and typed.seen.control.value, "")
        self.form.controls["City:"] = replace(CITY, value="Ba")
        self.shown(hand.click("City:"), hand.type("sel"))
        (typed,) = self.recorder.steps
        self.assertEqual(typed.seen.control and typed.seen.control.value, "Ba")

    def test_what_was_pasted_or_completed_counts_and_what_stood_there_is_replaced(self) -> None:
        self.form.controls["Name:"] = replace(NAME, value="Old")
        hand = self.hand

        def paste() -> Iterator[list[Note]]:
            self.form.controls["Name:"] = replace(NAME, value="New from elsewhere")
            yield from hand.press("v", "ctrl")

        steps = self.shown(hand.click("Name:"), hand.press("a", "ctrl"), paste())
        self.assertEqual(steps, ['type text "New from elsewhere"'])
        self.assertTrue(self.recorder.steps[0].args["clear"])
        steps = self.shown(hand.click("City:"), hand.type("Basel", keys=2))  # the rest is completed
        self.assertEqual(steps, ['type text "Basel"'])

    def test_a_field_that_holds_what_it_held_is_no_step_but_the_click(self) -> None:
        self.assertEqual(
            self.shown(self.hand.click("Name:"), self.hand.type("")), ['click "Name:"']
        )

    def test_clicks_drags_keys_and_double_clicks_are_told_apart(self) -> None:
        hand = self.hand

        def twice() -> Iterator[list[Note]]:
            for notes in hand.click("OK"):
                yield notes * 2

        steps = self.shown(
            hand.click("OK", "right"),
            twice(),
            hand.click("OK", to="Paid"),
            hand.press("s", "ctrl"),
            hand.press("f5"),
        )
        self.assertEqual(
            steps,
            [
                'right click "OK"',
                'double click "OK"',
                'drag "OK"',
                'press key "ctrl+s"',
                'press key "f5"',
            ],
        )

    def test_keys_that_are_called_as_a_mouse_button_are_keys(self) -> None:
        hand = self.hand
        arrows = [hand.press("left"), hand.press("right", "shift")]
        steps = self.shown(hand.click("OK"), *arrows, hand.click("Paid"))
        keys = ['press key "left"', 'press key "shift+right"']
        self.assertEqual(steps, ['click "OK"', *keys, 'click "Paid"'])
        back = hand.press("left"), hand.press("left", "ctrl", "shift")
        steps = self.shown(hand.click("Name:"), hand.type("Anna"), *back, hand.type(" Meier"))
        self.assertEqual(steps, ['type text "Anna Meier"'])

    def test_keys_that_select_in_a_field_lock_letters_or_spell_a_sign_are_no_step(self) -> None:
        hand = self.hand
        keys = [hand.press(key) for key in ("capslock", "numlock", "scrolllock", "pageup")]
        keys += [hand.press("end", "ctrl", "shift"), hand.press("delete", "shift")]
        steps = self.shown(hand.click("Name:"), hand.type("A"), *keys, hand.type("B"))
        self.assertEqual(steps, ['type text "AB"'])
        self.form.controls["Name:"] = NAME
        code = [hand.press(f"num{digit}", "alt") for digit in "0252"]
        sign = self.holds("Name:", "Mü")
        steps = self.shown(hand.click("Name:"), hand.type("M"), *code, sign, hand.type("ller"))
        self.assertEqual(steps, ['type text "Müller"'])
        locks = [hand.press(key) for key in ("capslock", "numlock", "scrolllock")]
        self.assertEqual(self.shown(hand.click("OK"), *locks), ['click "OK"'])

    def test_what_is_dragged_over_in_a_field_and_typed_over_is_what_the_field_holds(self) -> None:
        hand = self.hand
        self.form.controls["Name:"] = replace(NAME, value="Old")

        def over(end: Point) -> Iterator[list[Note]]:
            place = Point(210, 115)
            self.form._cursor = place
            yield from [[]] * 6
            self.form.focus = "Name:"
            yield [Note("left button", True, place, 0), Note("left button", False, end, 0)]
            yield from [[]] * 12

        for end in (Point(400, 116), Point(20, 300)):  # people go beyond its edge
            self.form.controls["Name:"] = replace(NAME, value="Old")
            empties = self.holds("Name:", "")
            steps = self.shown(over(end), empties, hand.type("New"), hand.click("OK"))
            self.assertEqual(steps, ['type text "New"', 'click "OK"'])
            self.assertTrue(self.recorder.steps[0].args["clear"])
        steps = self.shown(over(Point(400, 116)), hand.press("b", "ctrl"))
        self.assertEqual(steps, ['drag "Name:"', 'press key "ctrl+b"'])

    def holds(self, name: str, value: str, key: str = "") -> Iterator[list[Note]]:
        """The field holds that, after this key, without which nothing is noted."""
        self.form.controls[name] = replace(self.form.controls[name], value=value)
        yield [Note(key, True, self.form._cursor, 0, key)] if key else []

    def test_what_the_menu_of_a_field_puts_into_it_is_what_the_field_holds(self) -> None:
        hand = self.hand
        item = Control("Paste", "menu item", Rect(300, 120, 90, 20), window=7)
        for before, after, typed in (
            ("", "Meier, Anna", {"text": "Meier, Anna"}),
            ("Dr. ", "Dr. Anna", {"text": "Anna"}),
            ("Old", "", {"text": "", "clear": True}),
            ("Old", "Old", None),
        ):
            field = replace(NAME, value=before)
            self.form.controls = {"Name:": field, "Paste": item, "OK": OK}

            def chooses(after: str = after) -> Iterator[list[Note]]:
                for notes in hand.click("Paste"):
                    if notes:
                        self.form.controls["Name:"] = replace(NAME, value=after)
                    yield notes

            steps = self.shown(hand.click("Name:", "right"), chooses(), hand.click("OK"))
            first = self.recorder.steps[0].args
            kept = {key: first[key] for key in ("text", "clear") if key in first}
            self.assertEqual(kept, typed or {})
            self.assertEqual(len(steps), 2 if typed else 3)
            self.assertEqual(steps[-1], 'click "OK"')

    def test_a_field_that_is_full_and_goes_on_to_the_next_has_its_own_text(self) -> None:
        def types(rests: int) -> Iterator[list[Note]]:
            form = self.form
            for key in "1234":
                old = form.controls[form.focus]
                form.controls[form.focus] = replace(old, value=f"{old.value}{key}")
                if key == "2":
                    form.focus = "City:"
                yield [Note(key, True, form._cursor, 0, key)]
                yield from [[]] * rests
            yield from [[]] * 12

        for rests, kept, lost in ((14, ["12", "34"], 0), (1, ["12"], 1)):
            self.form.controls |= {"Name:": NAME, "City:": CITY}
            self.shown(self.hand.click("Name:"), types(rests), self.hand.click("OK"))
            *fields, _ = self.recorder.steps
            texts = [step.args["text"] for step in fields]
            self.assertEqual((texts, self.recorder.gaps[UNREAD]), (kept, lost))
            self.assertEqual([step.seen.name for step in fields], ["Name:", "City:"][: len(kept)])

    def test_the_wheel_is_one_step_of_all_its_notches(self) -> None:
        place = Point(300, 110)
        steps = self.shown(iter([[Note("wheel", True, place, 0, units=-120)]] * 3 + [[]] * 12))
        self.assertEqual(steps, ["scroll -3 (235, 153)"])

    def test_a_touchpad_turns_the_wheel_by_parts_of_a_notch(self) -> None:
        place = Point(300, 110)
        for units, times, told in ((-8, 450, -30), (15, 24, 3), (10, 3, 1), (-500, 1, -4)):
            note = Note("wheel", True, place, 0, units=units)
            steps = self.shown(iter([[note] * times] + [[]] * 12))
            self.assertEqual(steps, [f"scroll {told} (235, 153)"])

    def test_a_button_at_the_side_of_the_mouse_is_a_step(self) -> None:
        steps = self.shown(self.hand.press("browserback"), self.hand.click("OK"))
        self.assertEqual(steps, ['press key "browserback"', 'click "OK"'])

    def test_a_box_is_kept_as_it_was_left(self) -> None:
        self.shown(self.hand.click("Paid"), self.hand.click("OK"))
        self.assertEqual([step.checked for step in self.recorder.steps], [True, None])
        intents = [line for line in self.written() if line["kind"] == "intent"]
        self.assertEqual([line.get("checked") for line in intents], [True, None])

    def test_a_list_that_was_gone_when_it_was_looked_for_is_no_click_on_what_lies_below(
        self,
    ) -> None:
        city = replace(CITY, role="combo box", fixed=True, value="Bern")
        self.form.controls = {"City:": city, "Paid": TICK}
        below = agent.middle_of(TICK.rect)
        press = [Note("left button", down, below, 0, window=99) for down in (True, False)]
        steps = self.shown(self.hand.click("City:"), iter([press] + [[]] * 12))
        self.assertEqual(steps, ['type text "Bern"'])

    def test_a_click_behind_a_list_that_has_dropped_down_is_the_lists_or_on_nothing_that_is_known(
        self,
    ) -> None:
        """Nobody looked there before it, and the list is gone when Windows says what was hit."""
        city = replace(CITY, role="combo box", fixed=True, value="Bern")
        below = agent.middle_of(TICK.rect)

        def picks(value: str, window: int) -> Iterator[list[Note]]:
            self.form._cursor = below
            self.form.controls["City:"] = replace(city, value=value)
            yield [Note("left button", down, below, 0, window=window) for down in (True, False)]
            yield from [[]] * 12

        for window in (0, WINDOW.handle):
            for value, role, gaps in (("Basel", "combo box", 0), ("Bern", None, 1)):
                with self.subTest(window=window, value=value):
                    self.form.controls = {"City:": city, "Paid": TICK}
                    opens = self.hand.click("City:")
                    # The step after it is the person's, and known.
                    steps = self.shown(opens, picks(value, window), self.hand.click("Paid"))
                    self.assertEqual(steps, [f'type text "{value}"', 'click "Paid"'])
                    places = [line for line in self.written() if line["kind"] == "place"]
                    roles = [place["control"]["role"] for place in places]
                    self.assertEqual(roles, [role, "checkbox"])
                    self.assertEqual(self.recorder.gaps[TOO_QUICK], gaps)

    def test_enter_leaves_a_line_and_is_a_line_break_in_a_text_of_several(self) -> None:
        hand = self.hand
        steps = self.shown(hand.click("Name:"), hand.type("Anna"), hand.press("enter"))
        self.assertEqual(steps, ['type text "Anna"', 'press key "enter"'])
        self.form.controls["Name:"] = NAME

        def lines() -> Iterator[list[Note]]:
            for value, key in (("a", "a"), ("a\nb", "enter"), ("a\nb", "b")):
                self.form.controls["Name:"] = replace(NAME, value=value)
                yield [Note(key, True, self.form._cursor, 0, "" if key == "enter" else key)]
            yield from [[]] * 12

        self.assertEqual(self.shown(hand.click("Name:"), lines()), ['type text "a\\nb"'])

    def test_enter_is_kept_where_a_click_follows_at_once(self) -> None:
        hand = self.hand
        place = agent.middle_of(OK.rect)

        def quick() -> Iterator[list[Note]]:
            for sign in "Anna":
                yield [Note(sign, True, place, 0, sign)]
            yield [Note("enter", True, place, 0)]
            yield [Note("left button", down, place, 0) for down in (True, False)]
            yield from [[]] * 12

        steps = self.shown(hand.click("City:"), quick())
        self.assertEqual(steps[:2], ['type text "Anna"', 'press key "enter"'])
        self.assertRegex(steps[2], "^click ")  # on what nobody had the time to look at

    def test_a_list_is_what_it_holds_in_the_end_however_that_came(self) -> None:
        city = replace(CITY, role="combo box", fixed=True, value="Basel")
        hand = self.hand

        def holds(value: str, *keys: str) -> Iterator[list[Note]]:
            self.form.controls["City:"] = replace(city, value=value)
            for key in keys:
                yield [Note(key, True, Point(1, 1), 0, key if key == "b" else "")]
                yield from [[]] * 12

        for keys, more in (
            (["down", "enter"], []),
            (["b"], []),
            (["f4", "down", "enter", "enter"], ['press key "enter"']),
        ):
            self.form.controls["City:"] = city
            self.form.focus = "City:"
            steps = self.shown(iter([[]] * 12), holds("Bern", *keys), hand.click("OK"))
            if keys == ["down", "enter"]:
                more = ['press key "enter"']  # it had not dropped down
            self.assertEqual(steps, ['type text "Bern"', *more, 'click "OK"'], keys)
        self.form.controls["City:"] = city
        steps = self.shown(hand.click("City:"), holds("Bern", "down", "enter"))
        self.assertEqual(steps, ['type text "Bern"'])

    def test_a_password_is_in_no_file_and_its_step_types_a_secret(self) -> None:
        steps = self.shown(
            self.hand.click("PIN:"), self.hand.type("hunter22"), self.hand.click("OK")
        )
        self.assertEqual(steps, ['type text "{{PASSWORD}}"', 'click "OK"'])
        for path in self.logger.folder.rglob("*"):
            if path.is_file():
                self.assertNotIn(b"hunter", path.read_bytes(), path)

    def test_a_field_that_shows_only_later_that_it_hides_what_is_typed_keeps_nothing_of_it(
        self,
    ) -> None:
        """Some tell it by nothing but the masks that they hold; and one may show it in the end."""
        for at, rests, ends in product((3, 8), (0, 12), ("click", "enter", "shows")):
            self.form.controls = {"Name:": NAME, "OK": OK}

            def typed(at: int = at, rests: int = rests, ends: str = ends) -> Iterator[list[Note]]:
                for number, sign in enumerate("hunter22", 1):
                    if number >= at:
                        masked = replace(NAME, password=True, value=None)
                        self.form.controls["Name:"] = masked
                    yield [Note(sign, True, self.form._cursor, 0, sign)]
                yield from [[]] * (rests or 12 * (ends != "click"))
                if ends == "shows":
                    self.form.controls["Name:"] = replace(NAME, value="hunter22")
                    yield from self.hand.press("end")

            leave = self.hand.press("enter") if ends == "enter" else self.hand.click("OK")
            steps = self.shown(self.hand.click("Name:"), typed(), leave)
            self.assertEqual(steps[0], 'type text "{{PASSWORD}}"', (at, rests, ends))
            self.assertTrue(self.recorder.steps[0].seen.control.password)
            self.assertNotIn("hunter", f"{self.written()} {self.said}")

    def test_a_password_that_is_asked_for_in_the_middle_of_a_text_is_no_part_of_that(self) -> None:
        """By a window that opens, or a field that takes the keyboard without a click or a key."""
        asks = replace(WINDOW, handle=9, title="Sign in")
        for opens, covers, rests, leaves in product(
            (True, False), (True, False), (0, 12), (True, False)
        ):
            self.form.front = WINDOW
            self.form.controls = {"Name:": NAME, "PIN:": SECRET, "OK": OK}

            def asked(
                opens: bool = opens,
                covers: bool = covers,
                rests: int = rests,
                leaves: bool = leaves,
            ) -> Iterator[list[Note]]:
                pin = replace(
                    SECRET, rect=NAME.rect if covers else SECRET.rect, window=9 if opens else 7
                )
                self.form.front = asks if opens else WINDOW
                self.form.controls = {"PIN:": pin} | ({} if covers else {"Name:": NAME, "OK": OK})
                self.form.focus = "PIN:"
                yield from [[]] * rests
                yield [Note(sign, True, self.form._cursor, 0, sign) for sign in "hunter22"]
                yield from [[]] * (0 if opens else 12)
                if leaves:
                    yield [Note("enter", True, self.form._cursor, 0)]
                    self.form.front = WINDOW
                    self.form.controls = {"Name:": replace(NAME, value="Anna"), "OK": OK}
                    self.form.focus = "Name:"
                    yield from [[]] * 12

            with self.subTest(opens=opens, covers=covers, rests=rests, leaves=leaves):
                steps = self.shown(self.hand.click("Name:"), self.hand.type("Anna"), asked())
                self.assertEqual(steps[0], 'type text "Anna"')
                self.assertNotIn("hunter", f"{self.written()} {self.said}")
                told = steps[1:2] == ['type text "{{PASSWORD}}"'] or self.recorder.gaps[UNREAD]
                self.assertTrue(told, steps)

    def test_keys_that_no_control_takes_are_dropped_and_told(self) -> None:
        self.form.controls = {"OK": OK}
        self.form.focus = ""
        notes = [[Note(sign, True, Point(1, 1), 0, sign) for sign in "hunter22"]]
        self.assertEqual(self.shown(iter(notes + [[]] * 12)), [])
        self.assertEqual(self.recorder.gaps["keys that could not be read"], 8)
        self.assertNotIn("hunter", str(self.written()))

    def test_a_text_of_ten_thousand_signs_is_whole_and_one_that_was_pasted_is_told(self) -> None:
        text = "0123456789" * 1000
        hand = self.hand

        def long(keys: str) -> Iterator[list[Note]]:
            cut = text[:3999]  # which is what Windows tells of it
            self.form.controls["Name:"] = replace(NAME, value=cut)
            yield [Note(sign, True, self.form._cursor, 0, sign) for sign in keys]
            yield from [[]] * 12

        self.shown(hand.click("Name:"), long(text))
        self.assertEqual(self.recorder.steps[-1].args["text"], text)
        self.form.controls["Name:"] = NAME
        paste = [Note("v", True, Point(1, 1), 0, held=("ctrl",))]
        self.assertEqual(
            self.shown(hand.click("Name:"), iter([paste]), long("")), ['click "Name:"']
        )
        self.assertEqual(self.recorder.gaps[UNREAD], 1)

    def test_a_field_that_tells_no_value_is_what_was_typed_or_is_told(self) -> None:
        hand = self.hand
        for keys, steps in (("héß", ['type text "héß"']), ("^", ['click "City:"'])):
            self.form.controls["City:"] = replace(CITY, value=None)
            signs = [
                Note("x", True, Point(1, 1), 0, UNKNOWN if sign == "^" else sign) for sign in keys
            ]
            self.assertEqual(self.shown(hand.click("City:"), iter([signs] + [[]] * 12)), steps)
            self.assertEqual(self.recorder.gaps[UNREAD], steps[0].startswith("click"))

    def test_a_box_is_kept_as_its_click_leaves_it_where_nobody_had_the_time_to_read_it(
        self,
    ) -> None:
        for role, before, left in (
            ("checkbox", False, True),
            ("checkbox", True, False),
            ("radio button", False, True),
        ):
            self.form.controls["Paid"] = replace(TICK, role=role, checked=before)
            self.shown(until_done(self.hand.click("Paid")), self.hand.click("OK"))
            self.assertEqual(self.recorder.steps[0].checked, left, role)

    def test_an_item_of_a_menu_that_is_gone_by_then_is_a_click_in_any_case(self) -> None:
        item = replace(TICK, name="Word wrap", role="menu item", checked=False)
        self.form.controls = {"Word wrap": item, "OK": OK}

        def choose() -> Iterator[list[Note]]:
            for notes in self.hand.click("Word wrap"):
                yield notes
                if notes:
                    self.form.controls = {"OK": OK}

        self.shown(choose(), self.hand.click("OK"))
        self.assertIsNone(self.recorder.steps[0].checked)

    def test_own_and_blocked_windows_and_the_stop_keys_are_no_step(self) -> None:
        hand = self.hand
        self.form.front = replace(WINDOW, own=True)
        self.assertEqual(self.shown(hand.click("OK"), hand.press("backspace", "ctrl", "alt")), [])
        self.form.front = WINDOW
        self.assertEqual(self.shown(hand.click("OK"), blocked_windows="soffice.exe"), [])
        self.assertRegex(str(self.recorder.gaps), "'Customers'.*is blocked")

    def test_nothing_is_kept_while_it_is_paused(self) -> None:
        hand = self.hand

        def pause(text: str) -> Iterator[list[Note]]:
            self.recorder.eyes.actuator.stop.paused = text
            yield []

        steps = self.shown(pause("until a key"), hand.click("OK"), pause(""), hand.click("Paid"))
        self.assertEqual(steps, ['click "Paid"'])

    def test_what_is_typed_into_a_field_while_it_pauses_is_not_kept(self) -> None:
        hand = self.hand

        def pause() -> Iterator[list[Note]]:
            self.recorder.eyes.actuator.stop.paused = "until a key"
            yield []

        steps = self.shown(hand.click("Name:"), hand.type("Anna"), pause(), hand.type(" hunter22"))
        self.assertEqual(steps, ['type text "Anna"'])
        self.assertNotIn("hunter", str(self.written()))

    def test_a_window_with_more_rights_is_a_gap(self) -> None:
        self.form.front = replace(WINDOW, elevated=True)
        self.assertEqual(self.shown(iter([[]] * 12)), [])
        self.assertRegex(str(self.recorder.gaps), "'Customers'.*runs as administrator")

    def test_a_locked_desktop_is_a_gap_and_no_end(self) -> None:
        hand = self.hand

        def locked() -> Iterator[list[Note]]:
            ask = self.form.cursor
            self.form.cursor = lambda: (_ for _ in ()).throw(agent.Win32Error("locked", 5))
            yield from [[]] * 3
            self.form.cursor = ask
            yield []

        self.assertEqual(self.shown(locked(), hand.click("OK")), ['click "OK"'])
        self.assertGreater(self.recorder.gaps["locked"], 0)

    def test_what_no_keyboard_can_type_is_a_gap_and_no_end(self) -> None:
        hand = self.hand
        for held, told in (
            ("two\vlines", r"Character 4 of the text \(U\+000B\) cannot be typed; omit it$"),
            ("A:\nfoo", "A path was given with single backslashes"),
            ("half \ud83d", "must be a text of whole characters"),
        ):
            with self.subTest(held):
                self.form.controls = {"Name:": NAME, "OK": OK}
                steps = self.shown(hand.click("OK"), hand.click("Name:"), hand.type(held))
                self.assertEqual(steps, ['click "OK"'])
                ((gap, count),) = self.recorder.gaps.items()
                self.assertRegex(gap, told)
                self.assertEqual(count, 1)
        self.form.controls = {"Name:": NAME, "OK": OK}
        steps = self.shown(hand.click("Name:"), hand.type("a\vb"), hand.click("OK"))
        self.assertEqual(steps, ['click "OK"'])
        self.assertEqual(
            [entry["turn"] for entry in self.written() if entry["kind"] == "result"], [1]
        )

    def test_a_desktop_that_is_locked_at_the_end_is_a_gap_and_no_end(self) -> None:
        def locked() -> Iterator[list[Note]]:
            self.form.capture = self.form.cursor = mock.Mock(  # type: ignore[method-assign]
                side_effect=agent.Win32Error("locked", 5)
            )
            yield []

        notes = self.hand.press("f5")
        self.assertEqual(self.shown(until_done(notes), locked()), ['press key "f5"'])
        self.assertRegex(str(self.recorder.gaps), "locked")

    def test_input_of_a_program_is_told(self) -> None:
        place = Point(1, 1)
        self.shown(iter([[Note("f5", True, place, 0, by_program=True)]] + [[]] * 12))
        self.assertEqual(self.recorder.gaps["input that a program sent"], 1)

    def test_a_step_is_in_the_journal_once_the_person_has_said_that_it_stays(self) -> None:
        hand = self.hand
        seen: list[int] = []

        def count() -> Iterator[list[Note]]:
            seen.append(sum(line["kind"] == "intent" for line in self.written()))
            yield []

        self.shown(hand.click("OK"), count(), hand.click("Paid"), count())
        seen.append(sum(line["kind"] == "intent" for line in self.written()))
        self.assertEqual(seen, [0, 0, 2])


class Slow(Form):
    """A desktop of which a picture takes its time."""

    def capture(self, *where: Any) -> agent.Frame:
        frame = super().capture(*where)
        self.clock.sleep(0.2)
        return frame


class LooksBefore(RecorderCase):
    """What a click was aimed at is told by a look that was complete before it, or not at all."""

    def there(self) -> tuple[list[str], int]:
        """What is known of each step's control, and how many clicks are told as not looked at."""
        steps = [step.seen.name for step in self.recorder.steps]
        return steps, self.recorder.gaps[TOO_QUICK]

    def at_once(self, name: str, by_now: Control) -> Iterator[list[Note]]:
        """Clicks without a rest, which makes another control of it."""
        self.form._cursor = place = agent.middle_of(self.form.controls[name].rect)
        self.form.controls[name] = by_now
        yield [Note("left button", down, place, 0) for down in (True, False)]

    def test_a_look_that_a_press_came_into_is_not_used(self) -> None:
        self.late_ms = 100  # while the mouse rests on it for 120
        self.shown(self.hand.undoes("OK"))
        self.assertEqual(self.there(), ([""], 1))
        (place,) = [line for line in self.written() if line["kind"] == "place"]
        self.assertIsNone(place["control"]["role"])

    def test_names_count_where_a_press_came_before_their_picture_and_an_older_picture_does(
        self,
    ) -> None:
        self.form = Slow(VirtualClock(), NAME, OK)
        self.late_ms = 150
        self.shown(Hand(self.form).click("OK"))
        self.assertEqual(self.there(), (["OK"], 0))
        (seen,) = [step.seen for step in self.recorder.steps]
        self.assertLess(seen.done_ms, self.recorder.steps[0].ms)

    def test_a_press_that_met_another_window_than_was_looked_at_is_on_no_control_of_that(
        self,
    ) -> None:
        press = ([note._replace(window=99) for note in notes] for notes in self.hand.click("OK"))
        self.shown(press)
        self.assertEqual(self.there(), ([""], 0))

    def test_a_button_that_closes_its_window_is_known(self) -> None:
        def close() -> Iterator[list[Note]]:
            for notes in self.hand.click("OK"):
                if notes:
                    self.form.controls = {}
                    notes = [note._replace(window=WINDOW.handle) for note in notes]
                yield notes

        with mock.patch.object(Form, "window", lambda *_: None):
            self.shown(close())
        self.assertEqual(self.there(), (["OK"], 0))

    def test_the_look_before_is_used_where_a_press_came_into_a_new_one(self) -> None:
        for looks in range(98, 108):  # each is good for two seconds
            self.late_ms = 60
            self.form._cursor = agent.middle_of(OK.rect)
            self.shown(iter([[]] * looks), self.hand.click("OK"))
            self.assertEqual(self.there(), (["OK"], 0), looks)

    def test_what_was_read_before_the_next_act_counts_though_that_came_before_its_picture(
        self,
    ) -> None:
        self.late_ms = 100
        for pause in range(6, 12):
            self.form = Slow(VirtualClock(), TICK, OK)
            paid = until_done(Hand(self.form).click("Paid"))
            self.shown(paid, iter([[]] * pause), self.at_once("OK", OK))
            self.assertEqual(self.there(), (["Paid", "OK"], 0), pause)

    def test_what_was_read_after_the_next_act_does_not_count(self) -> None:
        def clears() -> Iterator[list[Note]]:
            self.form.controls["Paid"] = TICK
            yield from [[]] * 3  # in which nobody tells of it yet
            yield from self.at_once("OK", OK)

        self.late_ms = 60
        for pause in range(2, 10):
            self.form.controls["Paid"] = TICK
            paid = until_done(self.hand.click("Paid"))
            self.shown(paid, iter([[]] * pause), clears())
            self.assertTrue(self.recorder.steps[0].checked, pause)

    def test_a_look_that_began_before_the_last_act_is_not_used(self) -> None:
        quick = until_done(self.hand.click("OK", "right"))
        self.shown(quick, self.hand.click("OK"))
        self.assertEqual(self.there(), (["OK", ""], 1))

    def test_who_moves_and_clicks_at_once_clicks_what_the_last_look_names_there(self) -> None:
        rests = [[]] * 12
        for by_now, known in ((OK, (["OK"], 0)), (replace(OK, name="Undo"), ([""], 1))):
            self.form.controls["OK"] = OK
            self.form._cursor = agent.middle_of(TICK.rect)
            self.shown(iter(rests), self.at_once("OK", by_now))
            self.assertEqual(self.there(), known)

    def test_the_look_at_what_came_of_a_click_tells_what_the_next_one_is_aimed_at(self) -> None:
        for pause in range(9, 12):
            paid = until_done(self.hand.click("Paid"))
            self.shown(paid, iter([[]] * pause), self.at_once("OK", OK))
            self.assertEqual(self.there(), (["Paid", "OK"], 0), pause)

    def test_a_field_that_was_clicked_too_quickly_is_known_once_somebody_types_there(self) -> None:
        self.late_ms = 100
        steps = self.shown(self.hand.click("Name:"), self.hand.type("Anna"))
        self.assertEqual((steps, self.there()), (['type text "Anna"'], (["Name:"], 0)))


def until_done(act: Iterator[list[Note]]) -> Iterator[list[Note]]:
    """An act without the pause after it."""
    for notes in act:
        yield notes
        if notes:
            return


def why_not(step: agent.Step, place: agent.Place, *before: agent.Step) -> tuple[agent.Step, str]:
    """The step as it can be done there, or why it cannot."""
    try:
        return agent.step_here(step, place, *before), ""
    except agent.ToolError as error:
        return step, str(error)


class Again(RecorderCase):
    """A control is found again by what it is, wherever it stands and however it looks."""

    def place(self) -> tuple[list[agent.Step], agent.Place]:
        self.logger.close()
        self.way = way = agent.recorded_way(self.logger.folder)
        logger = agent.ExecutionLogger(self.config)
        self.addCleanup(logger.close)
        hands = agent.Actuator(self.form, self.config, self.form.clock, agent.Stop())
        eyes = agent.Eyes(hands, logger)
        controls = agent.ControlCheck(hands)
        frame = eyes.capture()
        return [*way.steps], agent.Place(way.steps[0].act, frame, eyes, controls)

    def here(self) -> tuple[agent.Step, str]:
        (step, *_), place = self.place()
        return why_not(step, place)

    def test_a_drag_is_done_only_where_both_its_ends_look_as_they_did(self) -> None:
        self.form.controls["Far"] = replace(OK, name="Far", rect=Rect(760, 500, 90, 30))
        for ends in (("OK", "Far"), ("Far", "OK")):
            self.form.state = agent.DemoState()
            self.shown(self.hand.click(ends[0], to=ends[1]))
            step, why = self.here()
            self.assertEqual((why, len(step.act.places)), ("", 2))
            self.form.state = agent.DemoState(opened=True)  # over "Far"
            self.assertRegex(self.here()[1], "^something else stands at ")

    def test_it_is_acted_on_where_it_stands_now(self) -> None:
        self.shown(self.hand.click("OK"))
        moved = Rect(600, 400, 90, 30)
        self.form.controls["OK"] = replace(OK, rect=moved)
        step, why = self.here()
        self.assertEqual(why, "")
        point = agent.to_point(step.act.places[0], self.form.screen())
        self.assertTrue(moved.contains(point), point)

    def test_what_another_window_covers_is_not_clicked_through_it(self) -> None:
        self.form.front = MAIN
        self.shown(self.hand.click("OK"))
        toast = agent.Window(9, "News", "explorer.exe", Rect(150, 250, 300, 120))
        dialog = replace(SAVE_AS, rect=toast.rect)
        menu = replace(MAIN, handle=9, title="", class_name="#32768", rect=toast.rect)
        for over, why in (
            (toast, "'OK' (button) is covered by 'News'"),
            (dialog, "'OK' (button) is covered by 'Save As'"),
            (menu, ""),
            (replace(toast, rect=Rect(0, 0, 150, 250)), ""),
        ):
            self.form.window_at = lambda point, over=over: (
                over if over.rect.contains(point) else self.form.front
            )
            self.assertEqual(self.here()[1], why)

    def test_what_was_clicked_before_it_was_looked_at_is_not_done_again(self) -> None:
        self.late_ms = 100
        self.shown(self.hand.undoes("OK"))
        self.form.controls["OK"] = OK
        self.assertRegex(self.here()[1], "^nobody looked at what it was aimed at")

    def test_another_name_id_or_role_is_another_control(self) -> None:
        for other in ({"name": "Cancel"}, {"id": "9"}, {"role": "link"}):
            self.form.controls["OK"] = OK
            self.shown(self.hand.click("OK"))
            self.form.controls["OK"] = replace(OK, **other)
            self.assertRegex(self.here()[1], "there is no button 'OK' as it was shown")

    def test_of_equal_ones_the_one_beside_the_same_names_is_meant(self) -> None:
        def row(number: int, name: str) -> None:
            label = Control(name, "text", Rect(20, 60 * number, 90, 30), window=7)
            delete = replace(OK, name="Delete", rect=Rect(200, 60 * number, 90, 30))
            self.form.controls |= {name: label, f"delete {name}": delete}

        self.form.controls = {}
        row(1, "Meier, Anna")
        row(2, "Meier, Hanna")
        self.shown(self.hand.click("delete Meier, Hanna"))
        self.form.controls = {}
        row(1, "Meier, Hanna")
        row(2, "Meier, Anna")
        step, why = self.here()
        self.assertEqual(why, "")
        self.assertLess(agent.to_point(step.act.places[0], self.form.screen()).y, 100)
        self.form.controls = {}
        row(1, "Meier, Anna")
        row(2, "Meier, Anne")
        self.assertRegex(self.here()[1], "there is no button 'Delete'")
        del self.form.controls["Meier, Anne"], self.form.controls["delete Meier, Anne"]
        self.assertRegex(self.here()[1], "there is no button 'Delete'")  # the only one by now

    def test_what_stands_beside_a_row_by_chance_does_not_tell_it_from_others(self) -> None:
        def rows(*names: str) -> None:
            self.form.controls = {"OK": OK}
            for number, name in enumerate(names, 1):
                top = 60 * number
                label = Control(name, "text", Rect(120, top, 70, 30), window=7)
                delete = replace(OK, name="Delete", rect=Rect(200, top, 90, 30))
                self.form.controls |= {name: label, f"delete {name}": delete}
            far = Control("Paid:", "text", Rect(600, 120, 90, 30), window=7)
            self.form.controls["Paid:"] = far

        rows("Meier, Anna", "Meier, Hanna", "Huber")
        self.shown(self.hand.click("delete Meier, Hanna"))
        rows("Huber", "Meier, Anna", "Meier, Hanna")
        step, why = self.here()
        self.assertEqual(why, "")
        self.assertGreater(agent.to_point(step.act.places[0], self.form.screen()).y, 160)
        rows("Huber", "Meier, Anna")
        self.assertRegex(self.here()[1], "there is no button 'Delete'")

    def test_a_box_that_is_so_already_is_left(self) -> None:
        self.shown(self.hand.click("Paid"))
        self.assertTrue(self.here()[0].done)
        self.form.controls["Paid"] = TICK
        self.assertFalse(self.here()[0].done)

    def test_the_next_step_waits_for_the_box_that_was_left_otherwise(self) -> None:
        self.shown(self.hand.click("Paid"), self.hand.click("OK"))
        (box, step), place = self.place()
        self.assertEqual(why_not(step, place, box)[1], "")
        self.form.controls["Paid"] = TICK
        _, why = why_not(step, place, box)
        self.assertEqual(why, "'Paid' (checkbox) is not checked")

    def test_it_is_done_in_no_window_that_is_another_one(self) -> None:
        other = replace(SAVE_AS, handle=9, owner=replace(MAIN, title="a.txt - Notes"))
        menu = replace(SAVE_AS, title="", class_name="#32768")
        self.shown(self.hand.click("OK"))
        (step,), _ = self.place()
        for shown, now, is_of in (
            (SAVE_AS, other, True),
            (SAVE_AS, replace(other, title="Save As - Notes 2"), True),
            (SAVE_AS, MAIN, False),
            (SAVE_AS, replace(other, title="Open"), False),
            (MAIN, other, False),
            (MAIN, replace(MAIN, title="a.txt - Notes"), True),
            (MAIN, replace(MAIN, title="a.txt"), True),
            (MAIN, replace(MAIN, class_name="Progman"), False),
            (replace(MAIN, class_name="Hwnd[1]"), replace(MAIN, class_name="Hwnd[2]"), True),
            (MAIN, replace(MAIN, program="other.exe"), False),
            (replace(MAIN, class_name=""), SAVE_AS, True),  # an older journal
            (menu, MAIN, True),  # where it drops down
        ):
            owned = bool(shown.owner)
            kind = {"class_name": shown.class_name, "owned": owned}
            place = replace(step.place, title=shown.title, program=shown.program, **kind)
            self.assertEqual(replace(step, place=place).is_of(now), is_of, (shown, now))

    def test_a_text_for_a_dialog_goes_into_no_equal_field_of_its_owner(self) -> None:
        def typed() -> Iterator[list[Note]]:
            self.form.front = SAVE_AS
            yield from self.hand.click("Name:")
            yield from self.hand.type("C:")

        self.form.controls = {"Name:": replace(NAME, window=8)}
        self.shown(typed())
        self.assertEqual(self.here()[1], "")
        self.form.front = MAIN
        self.form.controls = {"Name:": NAME}
        self.assertRegex(self.here()[1], "its window 'Save As' is not in front, but .*Untitled")

    def test_what_a_field_holds_by_now_is_replaced(self) -> None:
        self.shown(self.hand.click("Name:"), self.hand.type("Anna"))
        self.assertTrue(self.here()[0].act.args.get("clear"))
        self.form.controls["Name:"] = NAME
        self.assertFalse(self.here()[0].act.args.get("clear"))

    def test_a_dialog_may_name_the_value_that_it_is_about(self) -> None:
        def typed() -> Iterator[list[Note]]:
            self.form.front = replace(SAVE_AS, title="Customer Anna")
            yield from self.hand.click("Name:")
            yield from self.hand.type("Anna")

        self.form.controls = {"Name:": replace(NAME, window=8)}
        self.shown(typed())
        (step, *_), _ = self.place()
        step.value = "name"
        (otto,) = replace(self.way, steps=[step]).filled({"name": "Otto"}).steps
        for title, is_of in (("Customer Otto", True), ("Customer Anna", False)):
            self.assertEqual(otto.is_of(replace(SAVE_AS, title=title)), is_of)

    def test_a_value_that_was_the_example_of_another_one_stays_in_a_title(self) -> None:
        hand = self.hand
        self.shown(
            hand.click("Name:"), hand.type("Ann"), hand.click("City:"), hand.type("Annaberg")
        )
        steps, _ = self.place()
        place = replace(steps[0].place, title="Ann (x) to Annaberg")
        steps = [
            replace(step, place=place, value=name)
            for step, name in zip(steps, ("who", "to"), strict=True)
        ]
        examples = replace(self.way, steps=steps).examples
        self.assertEqual(examples, {"who": "Ann", "to": "Annaberg"})
        way = replace(self.way, steps=steps).filled({"who": "Annaberg", "to": r"\1 Ann"})
        self.assertEqual({step.place.title for step in way.steps}, {r"Annaberg (x) to \1 Ann"})

    def test_a_value_stands_in_each_step_that_has_its_name_and_a_secret_is_none(self) -> None:
        hand = self.hand
        self.shown(hand.click("Name:"), hand.type("Anna"), hand.click("City:"), hand.type("Anna"))
        steps, _ = self.place()
        named = [replace(step, value="who") for step in steps]
        way = agent.with_values(replace(self.way, steps=named), {"who": "Max"})
        self.assertEqual([step.act.text for step in way.steps], ["Max", "Max"])
        secret = replace(steps[0], act=replace(steps[0].act, args={"text": "{{PIN}}"}))
        with self.assertRaisesRegex(agent.ConfigError, "PIN is a secret: .* --secret PIN"):
            agent.with_values(replace(self.way, steps=[secret]), {"PIN": "1234"})

    def test_another_program_in_front_is_no_place_for_it(self) -> None:
        self.shown(self.hand.press("f5"))
        self.assertEqual(self.here()[1], "")
        self.form.front = replace(WINDOW, program="other.exe")
        self.assertRegex(self.here()[1], "soffice.exe is not there, but other.exe")


class Listening(unittest.TestCase):
    """Raw input, as Windows tells it to a window in the background."""

    def told(self, *raw: bytes, **world: Any) -> list[Note]:
        """The notes of raw input, each piece of it where the mouse was then."""
        signs = world.pop("signs", {})
        fake = FakeWin32(mouse=Point(40, 50), **world)
        fake.signs |= signs
        fake.raw += raw
        notes: list[Note] = []
        with agent.listening(fake.api) as since:
            self.assertTrue(comes_true(lambda: notes.extend(since()) or not fake.raw))
        self.assertEqual((notes.extend(since()), fake.problems), (None, []))
        return notes

    def mouse(self, flags: int, units: int = 0) -> bytes:
        return struct.pack("<IIQQHHHh", 0, 48, 1, 0, 0, 0, flags, units)

    def key(self, code: int, flags: int = 0, device: int = 1) -> bytes:
        return struct.pack("<IIQQHHHH", 1, 48, device, 0, 0, flags, 0, code)

    def test_buttons_and_wheel_come_with_the_place_of_that_moment(self) -> None:
        notes = self.told(self.mouse(0x1), self.mouse(0x2), self.mouse(0), self.mouse(0x400, -240))
        told = [(note.what, note.down, note.units) for note in notes]
        button = [("left button", True, 0), ("left button", False, 0)]
        self.assertEqual(told, [*button, ("wheel", True, -240)])
        self.assertEqual({note.place for note in notes}, {Point(40, 50)})
        # The two at the side, which people use as these keys; to let them go is nothing.
        sides = self.told(*map(self.mouse, (0x40, 0x80, 0x100, 0x200)))
        self.assertEqual([note.what for note in sides], ["browserback", "browserforward"])

    def test_the_buttons_at_the_side_of_a_mouse_are_the_keys_that_do_the_same(self) -> None:
        back, forward = ((self.mouse(down), self.mouse(up)) for down, up in ((64, 128), (256, 512)))
        told = [(note.what, note.units) for note in self.told(*back, *forward)]
        self.assertEqual(told, [("browserback", 0), ("browserforward", 0)])

    def test_swapped_buttons_are_called_by_what_they_do(self) -> None:
        (note,) = self.told(self.mouse(0x1), swapped=True)
        self.assertEqual(note.what, "right button")

    def test_keys_come_with_what_they_type(self) -> None:
        shift, a, f5, right_alt = 0x10, 0x41, 0x74, 0x12
        notes = self.told(
            self.key(shift), self.key(a), self.key(a, 1), self.key(shift, 1), self.key(a), self.key(f5),
            self.key(right_alt, 2), self.key(a, device=0),
        )  # fmt: skip
        told = [(note.what, note.text, *note.held) for note in notes]
        self.assertEqual(told, [("a", "A"), ("a", "a"), ("f5", ""), ("a", "", "alt")])
        self.assertEqual([note.by_program for note in notes], [False] * 3 + [True])

    def test_alphabets_of_three_layouts_are_typed_as_their_keys_type_them(self) -> None:
        layouts = (
            "aA,bB,zZ,;:,/?",  # United States
            "aA,eE€,qQ@,öÖ,ß?,üÜ,yY",  # German, some with AltGr
            "фФ,йЙ,ъЪ,ёЁ,юЮ",  # Russian
        )
        for letters in layouts:
            keys = dict(enumerate(letters.split(","), 0x41))
            raw = []
            for code, signs in keys.items():
                raw += [self.key(code), self.key(0x10), self.key(code), self.key(0x10, 1)]
                if len(signs) > 2:  # its Ctrl is the layout's: a keyboard sends AltGr alone
                    raw += [self.key(0x12, 2), self.key(code), self.key(0x12, 3)]
            notes = self.told(*raw, signs=keys)
            self.assertEqual("".join(note.text for note in notes), letters.replace(",", ""))
            self.assertEqual({(*note.held,) for note in notes}, {()})

    def test_letters_with_alt_gr_are_texts_whether_or_not_windows_sends_ctrl_with_it(self) -> None:
        ctrl, right_alt, shift, q, a = 0x11, 0x12, 0x10, 0x51, 0x41
        signs = {q: "qQ@", a: "aAą"}  # German, Polish
        alt_gr = [self.key(right_alt, 2), self.key(q), self.key(a), self.key(right_alt, 3)]
        for raw in (alt_gr, [self.key(ctrl), *alt_gr, self.key(ctrl, 1)]):
            notes = self.told(*raw, self.key(shift), self.key(a), signs=signs)
            told = [(note.text, *note.held) for note in notes]
            self.assertEqual(told, [("@",), ("ą",), ("A",)])
        # Where the right Alt is only an Alt, it is a chord.
        (note,) = self.told(self.key(right_alt, 2), self.key(q), signs={q: "qQ"})
        self.assertEqual((note.what, note.text, *note.held), ("q", "", "alt"))

    def test_a_key_that_waits_for_a_letter_is_told_as_one_that_cannot_be_read(self) -> None:
        (note,) = self.told(self.key(0xDC), signs={0xDC: "^°"})
        self.assertEqual(note.text, UNKNOWN)

    def test_the_windows_key_alone_is_a_key_and_with_another_it_is_held(self) -> None:
        win, r = 0x5B, 0x52
        notes = self.told(
            self.key(win), self.key(win, 1), self.key(win), self.key(r), self.key(win, 1)
        )
        self.assertEqual([(note.what, *note.held) for note in notes], [("win",), ("r", "win")])

    def told_in_turn(self, fake: FakeWin32, *raw: bytes) -> list[Note]:
        """The notes of raw input that comes one after the other, some looks apart."""
        notes: list[Note] = []
        with agent.listening(fake.api) as since:
            for most, piece in enumerate(raw, 1):
                fake.raw.append(piece)
                self.assertTrue(comes_true(lambda n=most: notes.extend(since()) or len(notes) >= n))
                time.sleep(0.1)  # five looks
        return notes

    def test_a_key_whose_release_the_lock_screen_got_is_held_no_more(self) -> None:
        win = 0x5B
        for is_down, told in (
            (False, [("l", "win"), ("a",)]),
            (True, [("l", "win"), ("a", "win")]),
        ):
            fake = FakeWin32()
            fake._down += [("key", (win, 0))] * is_down
            fake.raw.append(self.key(win))
            notes = self.told_in_turn(fake, self.key(0x4C), self.key(0x41))
            self.assertEqual([(note.what, *note.held) for note in notes], told)

    def test_what_cannot_be_registered_is_told(self) -> None:
        world = FakeWin32()
        world.arm(names={"RegisterRawInputDevices"})
        refused = self.assertRaisesRegex(agent.Win32Error, "RegisterRawInputDevices")
        with refused, agent.listening(world.api):
            self.fail("nothing is told")


class NewId(agent.DemoDesktop):
    """Its button has another number than it had when it was shown."""

    @property
    def control_source(self) -> agent.KnownControls:
        known = super().control_source.known
        return agent.KnownControls([replace(one, id="9" * (one.name == "Save")) for one in known])


class CommandLine(CommandLineCase):
    """Shown on the drawn desktop, kept, listed, done again, forgotten."""

    def types(self, *answers: str) -> Any:
        left, answered = list(answers), [""]

        def said(out: str) -> str | None:
            if out == answered[0] or not out.endswith((")\n", "anew.\n")):
                return None
            answered[0] = out
            return left.pop(0)

        return said

    def test_it_is_shown_kept_and_done_again(self) -> None:
        code, out, err = self.main("--teach", "save a note", "--demo")
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn('--again "save a note"', out)
        code, out, err = self.main("--again", "save a note", "--demo")
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("completed: Repeated 3 acts.", out)
        self.assertRegex(self.main("--runs")[1], r"by hand +completed .*save a note")
        self.assertEqual(self.main("--forget", "Save  a note")[0], 0)
        self.assertIn("There is no recording", self.main("--forget", "save a note")[2])

    def test_where_nobody_can_be_asked_that_is_told(self) -> None:
        out = self.main("--teach", "save a note", "--demo")[1]
        self.assertIn("Nobody is at a console: all steps are kept as they are", out)

    def test_the_person_takes_steps_out_and_names_what_differs(self) -> None:
        with person_at_main(self.types("3", "note", "")) as keyboard:
            code, out, err = self.main("--teach", "write", "--demo", stdin=keyboard)
            keyboard.end()
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("--with note=...", out)
        self.assertIn('or a name such as "Text_area"', out)
        pictures = [*(self.folder / "dumps" / "run_0001" / "screenshots").iterdir()]
        self.assertEqual(len(pictures), 2)
        for given, told in (
            ((), r"takes .* no other: note \(such as 'Hello from agent.py'\)"),
            (
                ("--with", "note=a", "--with", "city=b"),
                "takes a value for each of these and no other: note",
            ),
            (("--with", "note"), "--with takes NAME=TEXT"),
        ):
            code, _, err = self.main("--again", "write", "--demo", *given)
            self.assertEqual(code, 2)
            self.assertRegex(err, told)
        code, out, err = self.main("--again", "write", "--demo", "--with", "note=Other words")
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn('type text "Other words"', out)

    @for_the_gate
    def test_what_was_shown_to_the_demo_is_done_for_each_row_of_a_table_as_the_readme_says(
        self,
    ) -> None:
        told = Path(agent.__file__).with_name("README.md").read_text("utf-8")
        readme = " ".join(told.split())
        teach, again = re.findall(
            r"`(?:python agent.py )?(--(?:teach|again) [^`]* --demo)`", readme
        )
        with person_at_main(self.types("", "note", "")) as keyboard:
            self.main(*shlex.split(teach), stdin=keyboard)
            keyboard.end()
        lines = re.findall("`(.*?)`", readme.partition("put the lines")[2].partition("into")[0])
        self.assertEqual(len(lines), 3)
        table = self.folder / "notes.csv"
        table.write_text("\n".join(lines), "utf-8")
        words = [str(table) if word == table.name else word for word in shlex.split(again)]
        code, out, err = self.main(*words)
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("2 done (1-2)", out)

        code, _, err = self.main("--replay", "run_0001")
        self.assertEqual(code, 2)
        self.assertRegex(err, r"takes a value .*: note \(such as 'Hello from agent.py'\)")

    def taught(self, *answers: str) -> str:
        """What is said where a person shows "save" and gives these answers, then presses Enter."""
        with person_at_main(self.types(*answers, *[""] * 3)) as keyboard:
            code, out, err = self.main("--teach", "save", "--demo", stdin=keyboard)
            keyboard.end()
        self.assertEqual((code, err), (0, ""), out)
        return out

    def test_what_was_done_by_a_recording_is_no_way_once_that_is_forgotten(self) -> None:
        self.taught("", "text", 'The title shows "{text}"')
        again = ("--again", "save", "--demo")
        self.assertEqual(self.main(*again, "--with", "text=Foo")[0], 0)
        self.main("--forget", "save")
        for given in ((), ("--with", "text=Bar")):
            code, out, err = self.main(*again, *given)
            self.assertEqual(code, 2, out)
            self.assertIn("There is no recording 'save'; --runs lists them.", err)
        self.assertFalse(self.run_folder(3).exists())

    def test_what_was_shown_is_no_run_to_go_on_with_and_is_forgotten_whatever_came_after_it(
        self,
    ) -> None:
        self.main("--teach", "save a note", "--demo")
        journal = self.run_folder() / "turns.jsonl"
        whole = journal.read_bytes()
        for lines in (whole, whole[: whole.index(b"\n") + 1]):  # finished, or left
            journal.write_bytes(lines)
            for words in (("--resume",), ("--resume", "1", "--task", "write on")):
                code, _, err = self.main(*words, "--demo")
                said = "run_0001 was shown by hand, which --again does."
                self.assertEqual((code, err), (2, f"agent.py: {said}\n"))
        # Older versions went on with it.
        later = {"kind": "resume", "model": "qwen", "task": "write on", "profile": "planner"}
        journal.write_bytes(whole + json.dumps(later).encode() + b"\n")
        self.assertIn(
            "1 recording of 'save a note' deleted", self.main("--forget", "save a note")[1]
        )
        self.assertFalse(self.run_folder().exists())

    def test_a_recording_that_is_left_by_ctrl_c_leaves_no_pictures(self) -> None:
        stops: list[agent.Stop] = []
        # While it goes on, and at the first question, once with a picture that somebody looks at.
        moments = ["Recording.", "begins anew.", "begins anew."]

        def types(out: str) -> None:
            if moments[len(stops) - 1] in out and "   1  double click" in out:
                stops[-1].set("Ctrl+C")

        for number, _ in enumerate(moments, 1):
            held = mock.patch("shutil.rmtree", wraps=shutil.rmtree if number < 3 else None)
            with person_at_main(types) as keyboard, held:
                persons = agent.SystemClock

                def clock(stop: agent.Stop, persons: Any = persons) -> Any:
                    stops.append(stop)
                    return persons(stop)

                with seams.clock_of_main(clock):
                    code, out, err = self.main("--teach", "write", "--demo", stdin=keyboard)
                keyboard.end()
            self.assertEqual((code, err), (130, "agent.py: Stopped: Ctrl+C.\n"), out)
            self.assertEqual("Nothing is kept of what was shown." in out, number < 3, out)
            left = [path.name for path in (self.folder / "dumps").iterdir()]
            self.assertEqual(left, ["run_0001"] * (number == 3))
        self.assertIn("run_0001 cannot be deleted whole; do so by hand.", out)

    def test_what_cannot_be_deleted_is_told(self) -> None:
        """As where somebody looks at a picture, or it is scanned."""

        def refusing(real: Any) -> Any:
            def unlink(path: Any, **how: Any) -> None:
                if str(path).endswith("turn_0002.png"):
                    raise PermissionError(errno.EACCES, "Permission denied")
                real(path, **how)

            return unlink

        with (
            mock.patch("os.unlink", refusing(os.unlink)),
            mock.patch.object(Path, "unlink", refusing(Path.unlink)),  # which has its own in 3.10
            mock.patch("time.sleep"),
        ):
            with person_at_main(self.types("2", "", "")) as keyboard:
                code, out, err = self.main("--teach", "write", "--demo", stdin=keyboard)
                keyboard.end()
            self.assertEqual((code, err), (0, ""), out)
            self.assertRegex(out, "turn_0002.png cannot be deleted: Permission denied; do so by")
            self.assertIn("Kept in", out)
            code, _, err = self.main("--forget", "write")
        self.assertEqual(code, 2)
        self.assertRegex(err, "run_0001 cannot be deleted whole: Permission denied; close what")
        left = [path.name for path in self.run_folder().rglob("*") if path.is_file()]
        self.assertEqual(left, ["turn_0002.png"])

    def test_the_keys_that_end_it_are_those_that_windows_gave(self) -> None:
        world = FakeWin32()
        world.hotkeys[9] = (0x4003, 0x08)  # Ctrl+Alt+Backspace is another program's
        pressed: list[int] = []

        def types(out: str) -> str | None:
            if "Recording." in out and not pressed:
                pressed.append(0)
                world.messages.append(0)
                self.assertTrue(comes_true(lambda: not world.messages))
            return None

        with seams.windows_of_main(world), person_at_main(types) as keyboard:
            code, out, err = self.main("--teach", "write", stdin=keyboard)
            keyboard.end()
        self.assertEqual((code, err), (1, ""), out)
        self.assertIn("ctrl+alt+shift+backspace does it now.", out)
        self.assertIn("until Ctrl+Alt+Shift+Backspace is pressed; Ctrl+Alt+Insert pauses.", out)

    def test_what_was_never_shown_takes_no_values_and_on_the_drawn_desktop_is_not_done(
        self,
    ) -> None:
        code, out, err = self.main("--again", "note2", "--demo", "--with", "a=b")
        self.assertEqual(code, 2, out)
        self.assertIn("There is no recording 'note2'; --runs lists them.", err)
        code, out, err = self.main("--again", "note2", "--demo")
        self.assertEqual(code, 2, out)
        self.assertIn("knows no other task than: Open Notes", err)
        self.assertFalse(self.run_folder().exists())

    def test_an_answer_that_is_not_understood_is_told_and_asked_for_again(self) -> None:
        wrong = ("9", "0", "-1", "no", "blah", "2,9", "2 3", "2.")
        out = self.taught(*wrong, "3", "{{pin}}", "?!", "text", 'It shows "{x}"', 'It is "{Text}"')
        for answer in wrong:
            self.assertIn(f"There is no step '{answer}'; the last one is 3.", out)
        self.assertEqual(out.count("what you typed stands in the pictures already."), 2)
        self.assertIn("No value is called {x}.", out)
        acts = [entry["tool"] for entry in self.records() if entry["kind"] == "intent"]
        self.assertEqual(acts, ["double_click", "type_text"])
        self.assertIn("--with text=...", out)
        self.assertEqual(self.records()[-1]["checks"][0]["check"], 'It is "{Text}"')

    def test_whether_a_check_would_prove_a_row_is_told_while_the_task_is_taught(self) -> None:
        file = self.folder / "notes.txt"
        file.write_text("Hello from agent.py\n", "utf-8")
        proven = "That is so now, and would prove that row without the model."
        alone = "So only the model can tell it of a row."
        same = "That is the same for each value: {text} has to stand in it, else it proves no row."
        secret = (
            "It has a secret, which is not kept, so that nobody can tell now whether that is so."
        )
        another = "Another check? (Enter keeps this one)"
        for check, told in (
            ('The text area holds "{text}"', proven),
            (f'{file} contains "{{Text}}"', proven),
            (f'{file} contains "{{text}}!"', alone),
            (f'"{self.folder}/{{text}}.txt" exists', alone),
            ("{text} was saved", alone),
            ('The list shows "{text}"', alone),
            ('The text area holds "Hello from agent.py"', same),
            ('The list shows "{text} {{PIN}}"', secret),
        ):
            with self.subTest(check):
                shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                out = self.taught("", "text", check)
                said = [line for line in (proven, alone, same, secret) if line in out]
                self.assertEqual((said, another in out), ([told], told != proven), out)
                filled = re.sub("(?i){text}", "Hello from agent.py", check)
                self.assertEqual(f"of a window now: {filled}. So" in out, told == alone, out)
                self.assertEqual(self.records()[-1]["checks"][0]["check"], check)
        out = self.taught("", "text", "it is saved", "{text} is", 'The text area holds "{text}"')
        self.assertEqual((out.count(another), out.count(proven)), (2, 1), out)
        self.assertEqual(self.records(2)[-1]["checks"][0]["check"], 'The text area holds "{text}"')

    def test_a_check_of_what_has_no_values_is_the_models_and_is_not_doubted(self) -> None:
        for check in ('The text area holds "Hello from agent.py"', "The note is saved"):
            shutil.rmtree(self.folder / "dumps", ignore_errors=True)
            out = self.taught("", "", check)
            self.assertNotRegex(out, "That is so now|Another check")
            self.assertEqual(self.records()[-1]["checks"][0]["check"], check)

    def test_nothing_typed_is_told_so_and_an_empty_quote_proves_nothing(self) -> None:
        self.taught("", "text", 'The title shows "{text}"')
        code, out, _ = self.main("--again", "save", "--demo", "--with", "text=")
        self.assertEqual(code, 1, out)
        self.assertIn('type text "" (nothing)', out)
        self.assertRegex(out, r'(?m)^not proven: .*an empty quote proves nothing: .* shows ""')
        self.assertNotIn("YES", out)

    def test_a_recording_that_was_not_finished_is_told_and_not_done(self) -> None:
        self.main("--teach", "save a note", "--demo")
        journal = self.folder / "dumps" / "run_0001" / "turns.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        for kept in (3, len(lines) - 1):
            journal.write_bytes(b"".join(lines[:kept]))
            self.assertRegex(self.main("--runs")[1], r"unfinished.*save a note")
            code, _, err = self.main("--again", "save a note", "--demo")
            self.assertEqual(code, 2)
            self.assertIn("run_0001 shows it, but was not finished: show it anew by --teach", err)
            # Who does not say --again is asked nothing about it, and the model does the task.
            config = agent.Config(dump_dir=str(self.folder / "dumps"))
            options = Namespace(again=False, demo=False, rows=None)
            with ExitStack() as undo, seams.person_there():
                terminal = agent.Terminal(VirtualClock(), 0, str, undo)
                self.assertIsNone(terminal.chosen_way(options, config, "save a note", None))

    def test_of_a_next_task_of_the_same_words_no_step_counts_as_done_by_the_one_before(
        self,
    ) -> None:
        self.main("--teach", "save a note", "--demo")
        old = self.folder / "dumps" / "run_0002"
        old.mkdir()
        options = Namespace(again=False, demo=False, rows=None, given={})
        config = agent.Config(dump_dir=str(old.parent))
        for is_next, done in ((False, 2), (True, 0)):
            lines = [
                {"kind": "run", "task": "save a note"},
                {"kind": "way", "run": "run_0001"},
                {"kind": "intent", "tool": "click", "way": 2},
                {"kind": "resume", "task": "save a note", "is_next": is_next},
            ]
            (old / "turns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            with ExitStack() as undo, seams.person_there():
                terminal = agent.Terminal(VirtualClock(), 0, str, undo)
                way = terminal.chosen_way(options, config, "save a note", old)
            self.assertEqual(way and way.next, done)

    def test_a_full_disk_ends_the_recording_in_a_sentence(self) -> None:
        full = mock.patch.object(Path, "write_bytes", side_effect=OSError(28, "No space left"))
        with full:
            code, out, err = self.main("--teach", "save a note", "--demo")
        self.assertEqual(code, 1)
        self.assertRegex(out + err, r"cannot be written \(No space left\)")

    @for_the_gate
    def test_what_the_model_found_elsewhere_is_told_and_is_known_the_next_time(self) -> None:
        self.main("--teach", "save a note", "--demo")
        for told in ("Repeated 3 acts; click Save: found by the model at", "Repeated 3 acts."):
            with seams.desktop_of_main(NewId):
                code, out, err = self.main("--again", "save a note", "--demo")
            self.assertEqual((code, err), (0, ""), out)
            self.assertIn(f"completed: {told}", out)

    def test_without_a_console_nothing_is_recorded_of_a_real_desktop(self) -> None:
        code, _, err = self.main("--teach", "write", "--dry-run")
        self.assertEqual(code, 2 if "console" in err else 3)
