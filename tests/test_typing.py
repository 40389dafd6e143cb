"""A text goes into the field that it is for, and Enter is pressed behind what was read back."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any
from unittest import mock

import agent
from agent import Control, Rect
from tests import scripted
from tests.scripted import PLAN, EngineCase, PlainDesktop
from tests.seams import act

Signs = Callable[[str, str], str]  # what a program makes of its value and of a sign that is typed
AREA = Rect(0, 0, 640, 360)


def losing(every: int, slowly: bool = False) -> Signs:
    """A program that loses every so manieth sign, of what is typed sign by sign, too, if `slowly`."""
    seen = [0]

    def take(batch: str, value: str) -> str:
        if len(batch) == 1 and not slowly:
            return batch
        kept = ""
        for sign in batch:
            seen[0] += 1
            kept += sign if seen[0] % every else ""
        return kept

    return take


def twice(batch: str, value: str) -> str:
    return batch * 2 if len(batch) > 1 else batch


@dataclass
class Field:
    """A field of a program: what it holds, where its caret is and what is selected."""

    name: str
    rect: Rect
    value: str | None = ""
    role: str = "edit"
    fixed: bool = False
    classic: bool = False  # Ctrl+A selects nothing
    keys: frozenset[str] = frozenset(("end", "shift+home", "ctrl+end", "ctrl+shift+home"))
    most: int = 10_000
    takes: Signs = lambda batch, value: batch
    completes: str = ""  # what it completes a beginning of it to, selected
    corrects: bool = False
    brackets: bool = False  # it closes them itself
    mask: str = ""  # what it holds when it is empty
    late: int = 0  # so many reads it tells what it held before
    at: tuple[int, int] = (0, 0)  # what is selected, or where the caret is
    reads: int = 0
    old: str | None = None
    unread: bool = False
    keeps_focus: bool = False  # a click on it leaves the keyboard where it is
    entries: tuple[str, ...] = ()  # of a list
    entry: int = 0  # of these, the one that it stands at, also while none is chosen
    hides: bool = False  # as a field of a password does
    greyed: bool = False
    id: str = ""

    def __post_init__(self) -> None:
        self.unread = self.value is None

    def insert(self, batch: str) -> None:
        value = self.value or ""
        first, last = self.at
        self.old, self.reads = self.value, 0
        if first == last and len(value) >= self.most:
            return
        new = self.takes(batch, value)
        text = (value[:first] + new)[: self.most] + value[last:]
        end = min(first + len(new), self.most)
        if self.completes.startswith(text) and text:
            text = self.completes
            self.at = (end, len(text))
        else:
            self.at = (end, end)
        if self.brackets:
            opened = "".join({"(": ")", "[": "]", "{": "}"}.get(sign, "") for sign in new)
            closed = sum(new.count(sign) for sign in ")]}")
            text = text[:end] + opened[::-1][: max(0, len(opened) - closed)] + text[end:]
        self.value = text.replace("teh", "the") if self.corrects else text

    def press(self, keys: str) -> None:
        value = self.value or ""
        size = len(value)
        line = value.rfind("\n", 0, self.at[1]) + 1
        if self.entries and keys in ("home", "down", "up"):
            by = {"home": -len(self.entries), "down": 1, "up": -1}[keys] if value else 0
            self.entry = max(0, min(self.entry + by, len(self.entries) - 1))
            self.value = self.entries[self.entry]
        elif keys == "ctrl+a" and not self.classic:
            self.at = (0, size)
        elif keys in self.keys:
            self.at = {
                "end": (len(value[: self.at[1]]) + len(value[self.at[1] :].partition("\n")[0]),)
                * 2,
                "shift+home": (line, self.at[1]),
                "ctrl+end": (size, size),
                "ctrl+shift+home": (0, self.at[1]),
            }[keys]
        elif keys == "delete":
            first, last = self.at
            self.value = value[:first] + value[max(last, first + (first == last)) :] or self.mask
            self.at = (first, first)
        elif keys == "shift+enter":
            self.insert("\n")


class Fields(PlainDesktop):
    """A window of fields; `log` has each text and each Enter with what the field held then."""

    def __init__(self, clock: Any, fields: list[Field], window: agent.Window) -> None:
        super().__init__(clock)
        self.fields, self.window_in_front = fields, window
        self.focus: Field | None = fields[0] if fields else None
        self.control_source = self  # type: ignore[assignment]
        self.answered = True
        self.held, self.log = list[str](), list[str]()
        self.next_at = ""  # the sign behind which the next field gets what is typed
        self.sends = 0  # characters with which the first field sends itself, and the next one comes

    def screen(self) -> Rect:
        return AREA

    def foreground(self) -> agent.Window:
        return replace(self.window_in_front, rect=AREA)

    def ask(self, where: agent.Where) -> list[Control]:
        if isinstance(where, agent.Window):
            return [self.control(one) for one in self.fields]
        if where is None:
            return [self.control(self.focus)] if self.focus else []
        return [self.control(one) for one in self.fields if one.rect.contains(where)]

    def control(self, one: Field) -> Control:
        value = None if one.unread else one.value
        if one is self.focus and one.reads < one.late and one.old is not None:
            one.reads += 1
            value = one.old
        focused = one is self.focus
        return Control(
            one.name,
            one.role,
            one.rect,
            None if one.hides else value,
            password=one.hides,
            enabled=not one.greyed,
            focused=focused,
            fixed=one.fixed,
            window=1,
            id=one.id,
        )

    def button(self, name: str, down: bool) -> None:
        super().button(name, down)
        for one in self.fields if down else ():
            if one.rect.contains(self.place) and not (
                one.keeps_focus or one.role in ("text", "window")
            ):
                self.focus = one
                one.at = (len(one.value or ""),) * 2

    def text(self, text: str) -> None:
        super().text(text)
        self.log.append(text)
        if self.next_at and self.focus:
            before, _, text = text.partition(self.next_at)
            self.focus.insert(before)
            self.focus = self.fields[self.fields.index(self.focus) + 1]
        for part in text.split("\n")[:1]:
            if self.focus:
                self.focus.insert(part)
        if self.sends and len(self.fields[0].value or "") >= self.sends:
            self.focus = next(iter(self.fields[1:]), None)
        for part in text.split("\n")[1:]:
            self.entered()
            if self.focus:
                self.focus.insert(part)

    def key(self, name: str, down: bool) -> None:
        super().key(name, down)
        if not down:
            self.held.remove(name)
            return
        self.held.append(name)
        keys = "+".join(self.held)
        if name in ("ctrl", "shift", "alt"):
            return
        if keys != "enter":
            self.log.append(keys)
            if self.focus:
                self.focus.press(keys)
        else:
            self.entered()

    def entered(self) -> None:
        self.log.append(f"enter: {self.focus.value if self.focus else None}")
        if self.focus:
            self.focus.value, self.focus.at = "", (0, 0)


PLAIN = agent.Window(1, "Form", "notepad.exe", AREA)
NAME, CITY = Rect(100, 10, 200, 20), Rect(100, 50, 200, 20)
ON_NAME, ON_CITY = [300, 56], [300, 166]


class TypingCase(EngineCase):
    def type(
        self, *fields: Field, window: agent.Window = PLAIN, settings: Any = None, **arguments: Any
    ) -> agent.Deed:
        """What becomes of a text, with these fields of a window, the first of which has the keyboard."""
        trial = self.trial(lambda request: PLAN, **{"confirm": "never", **(settings or {})})
        self.desktop = Fields(trial.clock, list(fields), window)
        self.desktop.next_at = arguments.pop("next_at", "")
        self.desktop.sends = arguments.pop("sends", 0)
        trial.desktop = self.desktop
        self.made, self.asked = trial, list[str]()
        trial.ask(lambda question: bool(self.asked.append(question)) or True)
        deed = trial.perform(act("type_text", **arguments), trial.look(1), 1)
        self.values = [one.value for one in fields]
        return deed

    @property
    def enters(self) -> list[str]:
        return [entry for entry in self.desktop.log if entry.startswith("enter")]


class Again(TypingCase):
    def again(self, text: str, **arguments: Any) -> list[str]:
        """What became of the same text, typed twice more."""
        return [
            self.made.perform(act("type_text", text=text, **arguments), self.made.look(n), n).became
            for n in (2, 3)
        ]

    def test_a_text_that_is_all_its_field_holds_is_typed_again_only_if_that_is_insisted_on(
        self,
    ) -> None:
        self.type(Field("Text", NAME), text="hello")
        self.assertEqual(self.again("hello"), ["refused", "done"])
        self.assertEqual(self.values and self.desktop.fields[0].value, "hellohello")
        self.type(Field("Text", NAME, "well, "), text="hello")
        self.assertEqual(self.again("hello"), ["done", "done"])
        self.type(Field("Text", NAME), text="hello")
        self.assertEqual(self.again("hello", clear=True), ["done", "done"])
        self.type(Field("Text", NAME), text="hello")
        self.assertEqual(self.again("there"), ["done", "done"])
        fields = Field("Text", NAME, "hello\r\n"), Field("City", CITY)
        for place, wanted in ((ON_NAME, ["refused", "done"]), (ON_CITY, ["done", "refused"])):
            self.type(*fields, text=" ")
            self.assertEqual(self.again("hello", position=place), wanted)

    def test_a_text_that_the_task_has_once_is_not_typed_twice_however_a_model_insists(self) -> None:
        for task, wanted in (
            ("Open Notepad and type  good\nday", ["refused", "refused"]),
            ("Type good day and again good day", ["refused", "done"]),
            ("Greet them", ["refused", "done"]),
        ):
            self.type(Field("Text", NAME), text="good day")
            self.made.state.task = task
            self.assertEqual(self.again("good day"), wanted, task)

    def test_on_the_desktop_only_a_name_that_is_being_changed_is_typed(self) -> None:
        shell = replace(PLAIN, title="Program Manager", class_name="Progman")
        self.assertEqual(self.type(Field("in", NAME), window=shell, text="out").refused, "")
        for fields in ([Field("Desktop", NAME, role="list")], []):
            deed = self.type(*fields, window=shell, text="out")
            self.assertEqual((deed.refused, self.desktop.log), ("no_field", []))
            self.assertIn("no program is open to take it", deed.result)


class WhereItGoes(TypingCase):
    def test_no_text_is_typed_after_a_click_that_hit_no_field_and_who_has_the_keyboard_is_told(
        self,
    ) -> None:
        """Whatever was hit: nothing, a caption of another field, a button, a row; and in a window of any kind."""
        name = Field("Street:", NAME, "Lindenweg 4")
        beside = (
            ([], "City"),
            ([Field("City:", CITY, role="button")], "City"),
            ([Field("Zürich", CITY, role="list item")], "City"),
            ([Field("City:", CITY, fixed=True)], "City"),
            ([Field("Page", CITY, "https://x.example", "document", fixed=True)], "City"),
            ([Field("Yes", CITY, role="radio button")], "the radio"),
            ([], "text field"),
            ([], "the"),
        )
        for others, said in beside:
            for more in ({}, {"clear": True}, {"submit": True}, {"clear": True, "submit": True}):
                deed = self.type(
                    replace(name),
                    *map(replace, others),
                    text="Olten",
                    position=ON_CITY,
                    element_name=said,
                    **more,
                )
                with self.subTest(others=others, **more):
                    self.assertEqual((deed.refused, self.desktop.log), ("no_field", []))
                    self.assertEqual(self.values[0], "Lindenweg 4")
                    told = others[0].name if others else "Street:"
                    self.assertRegex(
                        deed.result,
                        f"^Failed half-way.*the keyboard is in '{told}'.*nothing was typed",
                    )

    def test_text_goes_into_the_field_that_was_clicked_or_that_the_caption_clicked_names(
        self,
    ) -> None:
        street, city = Field("Street:", NAME, "Lindenweg 4"), Field("City:", CITY)
        for fields, place, said in (
            ([street, city], ON_CITY, "City"),
            ([city, street], ON_CITY, "city field"),  # it has the keyboard already
            (
                [city, Field("City:", NAME, role="text")],
                ON_NAME,
                "town",
            ),  # a page's label gives it the keyboard
            (
                [Field("The editor", Rect(5, 5, 1, 19), role="edit")],
                ON_CITY,
                "code",
            ),  # of a browser
            ([Field("A1", CITY, role="table row")], ON_CITY, "cell A1"),  # of a sheet
            (
                [Field("", AREA, None, "pane")],
                ON_CITY,
                "canvas",
            ),  # nobody knows whether it takes text
        ):
            with self.subTest(place=place, said=said):
                fields = [replace(one) for one in fields]
                deed = self.type(*fields, text="Olten", position=place, element_name=said)
                self.assertEqual((deed.refused, self.desktop.log), ("", ["Olten"]))

    def test_a_text_aimed_beside_the_only_field_goes_into_it_without_a_click_if_it_can_be_no_other(
        self,
    ) -> None:
        editor, title = Field("Text Editor", NAME, "Dear "), Field("Letter", CITY, None, "window")
        letter = replace(PLAIN, title="Letter - Notepad")

        def deed(*fields: Field, said: str = "text field") -> agent.Deed:
            given = {"text": "hello", "position": ON_CITY, "element_name": said}
            return self.type(*map(replace, fields), window=letter, **given)

        for said in ("text field", "Letter - Notepad", "the editor"):
            with self.subTest(said=said):
                self.assertEqual(deed(editor, title, said=said).refused, "")
                self.assertEqual(self.desktop.log, ["hello"])
                self.assertFalse([one for one in self.desktop.inputs if one[0] == "button"])
        for fields, said in (
            ([editor, title], "City"),  # which is named
            ([replace(editor, name="Street:"), title], "text field"),
            ([editor, Field("", Rect(100, 90, 200, 20))], "text field"),  # there are two
            ([editor, Field("Bold", CITY, None, "button")], "text field"),
            ([replace(editor, role="combo box"), title], "text field"),
            ([replace(editor, fixed=True), title], "text field"),
        ):
            with self.subTest(fields=fields, said=said):
                self.assertEqual(deed(*fields, said=said).refused, "no_field")
                self.assertEqual(self.desktop.log, [])

    def test_nor_in_the_act_after_such_a_click_but_once_it_is_told_the_same_is_obeyed(self) -> None:
        """Systems whose tool for typing takes no place click first."""
        window = Field("Form", AREA, None, "window")
        toolbar = Field("Bold", CITY, None, "button", keeps_focus=True)
        for others, place, refusals in (
            ([window], ON_CITY, ["", "no_field", ""]),  # in the dialog, beside all fields
            ([toolbar, window], ON_CITY, ["", "", ""]),  # what lets the keyboard where it was
            ([window], ON_NAME, ["", "", ""]),
        ):
            trial = self.trial(lambda request: PLAN, confirm="never")
            street = Field("Street:", NAME, "Lindenweg 4")
            desktop = trial.desktop = Fields(trial.clock, [street, *map(replace, others)], PLAIN)
            acts = [act("click", element_name="the place", position=place)]
            acts += [act("type_text", text="Olten")] * 2
            deeds = [trial.perform(one, trial.look(n), n) for n, one in enumerate(acts, 1)]
            with self.subTest(others=others, place=place):
                self.assertEqual([deed.refused for deed in deeds], refusals)
                self.assertEqual(len(desktop.log), refusals[1:].count(""))

    def test_a_list_that_drops_down_gets_no_letters_and_is_told_as_what_it_is(self) -> None:
        country = Field("Country:", CITY, "Germany", "combo box", fixed=True)
        for arguments in (
            {},
            {"position": ON_CITY, "element_name": "Country"},
            {"clear": True, "submit": True},
        ):
            deed = self.type(replace(country), text="Switzerland", **arguments)
            self.assertEqual((deed.refused, self.desktop.log), ("no_field", []))
            self.assertFalse(deed.begun, "a click opens it, and what lies below cannot be clicked")
            self.assertIn("'Country:' (combo box) is a list that drops down", deed.result)
        editable = replace(country, fixed=False, value="")
        self.assertEqual(self.type(editable, text="Malta").refused, "")

    def test_where_it_was_shown_an_entry_of_a_list_is_chosen_by_its_keys(self) -> None:
        cities = ("Basel", "Bern", "Olten")
        for city, refused, keys in (
            ("Basel", "", ["alt+up", "home"]),
            ("Olten", "", ["alt+up", "home", "down", "down"]),
            ("Ber", "no_entry", ["alt+up", "home", *["down"] * 4, *["up"] * 4]),
        ):
            trial = self.trial(lambda request: PLAN, confirm="never")
            field = Field("City:", CITY, "Bern", "combo box", fixed=True, entries=cities)
            desktop = trial.desktop = Fields(trial.clock, [field], PLAIN)
            typed = act("type_text", text=city, element_name="City", position=ON_CITY)
            deed = trial.perform(replace(typed, way=1), trial.look())
            self.assertEqual((deed.refused, desktop.log), (refused, keys), deed.result)
            self.assertEqual(field.value, city if not refused else "Basel")
        lacks = "'City:' (combo box) has no entry \"Ber\"; before that: Clicked 'City:'"
        self.assertIn(f"before doing it again: {lacks}", deed.result, "what matters comes first")

    def test_a_list_of_which_the_program_took_back_the_choice_begins_where_it_was_last(
        self,
    ) -> None:
        """As a form does that empties its fields after each customer."""
        cities = ("Basel", "Bern", "Olten")
        for last, city in product(range(3), cities):
            trial = self.trial(lambda request: PLAN, confirm="never")
            field = Field("City:", CITY, "", "combo box", fixed=True, entries=cities, entry=last)
            trial.desktop = Fields(trial.clock, [field], PLAIN)
            typed = act("type_text", text=city, element_name="City", position=ON_CITY)
            deed = trial.perform(replace(typed, way=1), trial.look())
            with self.subTest(last=cities[last], city=city):
                self.assertEqual((deed.refused, field.value), ("", city), deed.result)

    def test_an_entry_behind_one_that_stands_twice_in_its_list_is_chosen_too(self) -> None:
        for countries, refused in (
            (("Malta", "Chad", "Cuba", "Malta", "Oman"), ""),  # the usual ones come first
            (("Chad", "Malta", "Malta", "Oman"), ""),
            (("Chad", "Malta") * 50, "no_entry"),  # as it is where what is last leads to the first
        ):
            trial = self.trial(lambda request: PLAN, confirm="never")
            field = Field("Land:", CITY, "Chad", "combo box", fixed=True, entries=countries)
            desktop = trial.desktop = Fields(trial.clock, [field], PLAIN)
            typed = act("type_text", text="Oman", element_name="Land", position=ON_CITY)
            deed = trial.perform(replace(typed, way=1), trial.look())
            self.assertEqual((deed.refused, field.value == "Oman"), (refused, not refused))
            self.assertLess(len(desktop.log), 9)
            self.assertLess(
                deed.result.count("Pressed key"), 4, "all that were passed are not told"
            )
        dry = self.trial(lambda request: PLAN, dry_run=True)
        dry.desktop = Fields(dry.clock, [field], PLAIN)
        deed = dry.perform(replace(typed, way=1), dry.look())
        self.assertEqual((deed.became, deed.refused), ("dry", ""), deed.result)

    def test_what_certainly_takes_no_text_gets_none_without_a_click_either(self) -> None:
        for role in ("button", "checkbox", "tab", "link"):
            deed = self.type(Field("Save", NAME, None, role), text="a b", submit=True)
            self.assertEqual((deed.refused, deed.begun, self.desktop.log), ("no_field", False, []))
        # In a list letters find a row.
        deed = self.type(Field("Files", NAME, None, "list"), text="rep")
        self.assertEqual((deed.refused, self.desktop.log), ("", ["rep"]))


class Clearing(TypingCase):
    def test_what_was_there_is_gone_also_where_ctrl_a_selects_nothing(self) -> None:
        keys = frozenset
        for one in (
            Field("Name", NAME, "Old name"),
            Field("Name", NAME, "Old name", classic=True),
            Field("Name", NAME, "Old name", classic=True, most=8),  # it is full
            Field("Name", NAME, "one\ntwo\nthree", classic=True),
            Field("Name", NAME, "one", classic=True, keys=keys(("ctrl+end", "ctrl+shift+home"))),
            Field(
                "Due",
                NAME,
                "01.02.2026",
                classic=True,
                mask="__.__.____",
                takes=lambda batch, value: batch,
            ),
        ):
            one = replace(one)
            if one.mask:  # what is typed takes the place of the mask
                one.takes = lambda batch, value: batch
            with self.subTest(one.value, classic=one.classic, most=one.most):
                deed = self.type(
                    replace(one, mask=""), text="New", clear=True, submit=True, position=ON_NAME
                )
                self.assertEqual((deed.refused, self.enters), ("", ["enter: New"]), deed.result)

    def test_of_a_password_all_is_selected_where_ctrl_a_selects_nothing(self) -> None:
        """Nobody can read it afterwards."""
        one = Field("PIN", NAME, "9999", classic=True, hides=True)
        trial = self.trial(lambda request: PLAN, confirm="never")
        trial.hidden = agent.Secrets({"PIN": "1234"})
        trial.desktop = Fields(trial.clock, [one], PLAIN)
        trial.perform(act("type_text", text="{{PIN}}", clear=True), trial.look(1), 1)
        self.assertEqual(one.value, "1234")

    def test_what_no_key_empties_is_told_and_no_enter_is_pressed(self) -> None:
        stubborn = Field("Name", NAME, "Old", classic=True, keys=frozenset())
        deed = self.type(stubborn, text="New", clear=True, submit=True, position=ON_NAME)
        self.assertEqual((deed.refused, self.enters), ("not_typed", []))
        self.assertIn('the field now holds "OldNew", which is not what was typed', deed.result)
        self.assertIn("no key empties it", deed.result)

    def test_nothing_is_deleted_where_nobody_knows_what_is_there(self) -> None:
        for one in (
            Field("", NAME, None, "pane"),
            Field("Word", NAME, None),
            Field("", NAME, None, "table row"),
        ):
            self.type(one, text="New", clear=True, submit=True)
            self.assertEqual(self.desktop.log, ["ctrl+a", "New", "enter: New"])

    def test_an_empty_text_empties(self) -> None:
        for classic in (False, True):
            self.type(
                Field("Name", NAME, "Old", classic=classic), text="", clear=True, position=ON_NAME
            )
            self.assertEqual(self.values, [""])


class BeforeEnter(TypingCase):
    """By a table: what a program makes of a text, and what has to be there when Enter is pressed."""

    def test_enter_is_pressed_only_on_what_was_typed(self) -> None:
        for ending in ({"submit": True}, {"text": "example.com\n"}):
            for one in (
                Field("", NAME, takes=losing(4)),
                Field("", NAME, takes=twice),
                Field("", NAME, completes="example.com/old/page?ref=123"),
                Field("", NAME, completes="example.com/"),
                Field("", NAME, "old.example", completes="example.com/old"),
                Field("", NAME, "old.example", classic=True),
                Field("", NAME, takes=losing(3), late=1),
                Field("", NAME, late=1),
            ):
                with self.subTest(one=one, **ending):
                    given = {"text": "example.com", "position": ON_NAME, "clear": True, **ending}
                    deed = self.type(replace(one), **given)
                    self.assertEqual(
                        (deed.refused, self.enters), ("", ["enter: example.com"]), deed.result
                    )

    def test_without_clear_too_a_text_stands_there_once_and_what_was_there_is_kept(self) -> None:
        for held, at, text, entered in (
            ("", 0, "abc", "abc"),
            ("Dear ", 5, "Ann", "Dear Ann"),
            ("Dear", 4, " Ann", "Dear Ann"),
            ("ab", 1, "xyx", "axyxb"),
            ("one two three", (4, 7), "2", "one 2 three"),
        ):
            one = Field("To", NAME, held, at=at if isinstance(at, tuple) else (at, at))
            deed = self.type(one, text=text, submit=True)
            self.assertEqual((deed.refused, self.enters), ("", [f"enter: {entered}"]), deed.result)

    def test_letters_composed_otherwise_and_signs_that_nobody_sees_are_no_other_text(self) -> None:
        apart = partial(unicodedata.normalize, "NFD")
        for one, text in (
            (Field("To", NAME, takes=lambda batch, value: apart(batch)), "Zürich, café"),
            (Field("To", NAME, takes=lambda batch, value: batch), apart("Zürich")),
            (Field("To", NAME, takes=lambda batch, value: f"\ufeff{batch}"), "hello you"),
            (Field("To", NAME, takes=lambda batch, value: f"{batch}\u200b"), "hello"),
            (Field("To", NAME, "\ufeff\n", takes=lambda batch, value: batch), "hello"),
        ):
            deed = self.type(replace(one), text=text, submit=True)
            with self.subTest(text=text):
                self.assertEqual((deed.refused, len(self.desktop.log)), ("", 2), deed.result)
        # But a letter with another accent is another one.
        other = Field("To", NAME, takes=lambda batch, value: batch.replace("é", "è"))
        self.assertEqual(self.type(other, text="café", submit=True).refused, "not_typed")

    def test_what_stays_wrong_is_told_and_enter_is_not_pressed(self) -> None:
        lacks, other = "which lacks what was typed", "which is not what was typed"
        for one, text, told in (
            (Field("", NAME, takes=losing(4, slowly=True)), "abcdefgh", lacks),
            (Field("", NAME, takes=lambda batch, value: batch * 2), "abc", other),
            (
                Field("", NAME, takes=lambda batch, value: ""),
                "abc",
                "the field is empty now, " + lacks,
            ),
            (Field("", NAME, corrects=True), "teh", lacks),
            (Field("", NAME, most=5), "Lindenweg", lacks),
            (
                Field("", NAME, "and so on ", at=(10, 10), takes=twice),
                "more",
                other,
            ),  # not emptied: it is the person's
            (Field("", NAME, takes=lambda batch, value: batch + "\x00"), "abc", other),
            (
                Field("", NAME, "example.com/old", at=(0, 15), completes="example.com/old"),
                "example.com",
                other,
            ),
        ):
            for ending in ({"submit": True}, {"text": f"{text}\n"}):
                made = replace(one)
                with self.subTest(text, told=told, **ending):
                    deed = self.type(made, **{"text": text, **ending})
                    self.assertEqual((deed.refused, self.enters), ("not_typed", []), deed.result)
                    self.assertIn(told, deed.result)
                    self.assertIn("enter was not pressed", deed.result)
                    if (one.value or "").startswith("and so on"):
                        self.assertNotIn("delete", self.desktop.log)

    def test_what_an_editor_adds_is_taken_away_again(self) -> None:
        for text in ("print(", "a[0", "f(x)"):
            one = Field("Editor", NAME, role="document", brackets=True)
            deed = self.type(one, text=text)
            self.assertEqual((deed.refused, self.values), ("", [text]), deed.result)

    def test_what_was_lost_is_typed_once_more_sign_by_sign(self) -> None:
        deed = self.type(Field("", NAME, takes=losing(4)), text="abcdefghijkl")
        self.assertEqual((deed.refused, self.values), ("", ["abcdefghijkl"]))
        again = self.desktop.log[self.desktop.log.index("delete") + 1 :]
        self.assertEqual(again, list("abcdefghijkl"))
        self.assertRegex(
            deed.result, 'holds "abcefgijkl?", which lacks.*; the field now holds "abcdefghijkl"$'
        )

    def test_a_number_that_the_field_parts_is_what_was_typed_and_one_that_it_changes_is_not(
        self,
    ) -> None:
        for text, shown, taken in (
            ("DE89370400440532013000", "DE89 3704 0044 0532 0130 00", True),
            ("4111111111111111", "4111-1111-1111-1111", True),
            ("5551234567", "(555) 123-4567", True),
            ("1234567", "1,234,567", True),
            ("1234567", "1.234.567", True),
            ("01022026", "01.02.2026", True),
            ("0130", "01:30", True),
            ("12345", "123.45", False),  # as a till has it
            ("12345", "(12345)", False),  # a loss
            ("12345", "-12345", False),
            ("1234.50", "123450", False),  # where a comma is the decimal point
            ("-1234", "1234", False),
            ("12345", "12354", False),
            ("12345", "1 2345 6", False),
            ("hello", "h e l l o", False),
            ("12", "1 2", False),
            ("75", "75 kg", True),
            ("-7,5", "-7,5%", True),
            ("1234", "1234 €", True),
            ("75", "75 old", False),
            ("75", "750 g", False),
            ("75", "7.5 g", False),
            ("old", "old m", False),
        ):
            with self.subTest(text, shown=shown):
                takes = partial(lambda shown, batch, value: "" if value else shown, shown)
                deed = self.type(Field("Number", NAME, takes=takes), text=text, submit=True)
                self.assertEqual(deed.refused, "" if taken else "not_typed")
                self.assertEqual(self.enters != [], taken)

    def test_an_editor_that_indents_lines_that_are_indented_already_changes_the_text(self) -> None:
        """In code that is another meaning."""
        text = "def f():\n    if x:\n        y\nz"
        for shown, told in (
            (text, False),
            (text.replace("\n", "\r\n"), False),
            (text.replace("\n", "\r"), False),
            (text.replace("    ", "\t"), False),
            ("def f():\n        if x:\n                y\n                z", True),
            ("def f():\nif x:\ny\nz", True),
        ):
            for lines in (text, "a\nb\nc"):
                shows = shown if lines == text else lines.replace("\n", "\n  ")
                takes = partial(lambda shows, batch, value: "" if value else shows, shows)
                editor = Field("Text", NAME, role="document", takes=takes)
                with mock.patch.object(Fields, "entered", lambda fields: None):
                    deed = self.type(editor, text=lines)
                wrong = "is not what was typed: its lines are indented otherwise" in deed.result
                self.assertEqual(wrong, told and lines == text, deed.result)

    def test_a_pages_field_of_a_number_is_read_too(self) -> None:
        for takes, refused in (
            (lambda batch, value: batch, ""),
            (losing(2, slowly=True), "not_typed"),
        ):
            deed = self.type(
                Field("Amount", NAME, role="spinner", takes=takes), text="1234", submit=True
            )
            self.assertEqual((deed.refused, self.enters != []), (refused, not refused), deed.result)

    def test_lines_of_which_enter_made_no_lines_are_not_entered_a_second_time(self) -> None:
        deed = self.type(Field("Search", NAME), text="one\ntwo")
        self.assertEqual(self.enters, ["enter: one"], deed.result)
        self.assertIn("lacks what was typed", deed.result)
        # In an editor they are lines, of which it may have lost signs.
        editor = Field("Text", NAME, takes=losing(4))
        with mock.patch.object(Fields, "entered", lambda fields: editor.insert("\n")):
            deed = self.type(editor, text="one and two\nthree")
        self.assertEqual((deed.refused, self.values), ("", ["one and two\nthree"]))

    def test_enter_is_not_pressed_where_another_field_got_a_part_of_the_text(self) -> None:
        """As where a page gives a field the keyboard once it is loaded."""
        fields = Field("User", NAME), Field("Search", CITY)
        deed = self.type(*map(replace, fields), text="annXsmith", submit=True, next_at="X")
        self.assertEqual((deed.refused, self.enters), ("not_typed", []))
        self.assertIn(
            "enter was not pressed, since the keyboard is in 'Search' (edit)", deed.result
        )
        # A palette of commands says that its first row has the keyboard.
        fields = Field("Command", NAME), Field("Save all", CITY, role="list item")
        deed = self.type(*map(replace, fields), text="saveX", submit=True, next_at="X")
        self.assertEqual((deed.refused, len(self.enters)), ("", 1))
        # Fields of one digit each belong together.
        for name in ("", "Digit {}"):
            fields = Field(name.format(1), NAME), Field(name.format(2), CITY)
            deed = self.type(*map(replace, fields), text="1X2", submit=True, next_at="X")
            self.assertEqual((deed.refused, self.enters), ("", ["enter: 2"]))

    def test_what_came_in_the_place_of_a_field_is_neither_emptied_nor_typed_into_nor_entered(
        self,
    ) -> None:
        """As where a field of a code sends itself: Ctrl+A and Delete would be for all mails of the next page."""
        for there, left in (
            (Field("Inbox", AREA, "https://mail.example", "document", fixed=True), True),
            (Field("", AREA, "https://mail.example", "document", fixed=True), True),
            (Field("Mails", AREA, None, "list"), True),
            (Field("", AREA, None, "list"), True),
            (Field("Continue", NAME, None, "button"), True),
            (Field("Search mail", NAME, "old words"), True),
            (Field("Search mail", NAME), True),
            (None, True),
            # The field itself, told otherwise; and nothing that is known.
            (Field("Code, 6 digits", NAME, "123456"), False),
            (Field("", NAME, "123456", "combo box"), False),
            (Field("123456", NAME, "123456"), False),  # named by what it holds
            (Field("Six digits", CITY, "123456", id="c"), False),  # that went down with its page
            (Field("Page", AREA, None, "window"), False),
        ):
            code = Field("Code", NAME, id="c")
            deed = self.type(
                code, *[there] * (there is not None), text="123456", submit=True, sends=6
            )
            told = self.desktop.log
            with self.subTest(there=there):
                self.assertEqual(deed.refused, "not_typed" if left else "", deed.result)
                self.assertEqual((told[0], len(told)), ("123456", 1 if left else 2))

    def test_a_field_that_is_named_by_what_it_holds_or_that_its_page_moves_is_read(self) -> None:
        for before, after in (
            ({"name": "old", "value": "old", "at": (0, 3)}, {"name": "hello"}),
            ({"name": "Search", "id": "q"}, {"rect": CITY}),
        ):

            def insert(field: Field, batch: str, after: Any = after) -> None:
                field.value = batch
                vars(field).update(after)

            with mock.patch.object(Field, "insert", insert):
                deed = self.type(Field(**{"rect": NAME, **before}), text="hello", submit=True)
            self.assertEqual((deed.refused, self.enters), ("", ["enter: hello"]), deed.result)
            self.assertIn('the field now holds "hello"', deed.result)

    def test_that_nobody_answers_any_more_is_not_told_as_if_nothing_had_the_keyboard(self) -> None:
        def silent(fields: Fields) -> None:
            fields.answered = False
            fields.focus = None

        for happens, refused in (
            (silent, ""),
            (lambda fields: setattr(fields, "focus", None), "not_typed"),
        ):
            with mock.patch.object(
                Field, "insert", lambda field, batch, happens=happens: happens(self.desktop)
            ):
                deed = self.type(Field("Name", NAME), text="Ann", submit=True)
            self.assertEqual((deed.refused, len(self.enters)), (refused, not refused))
            self.assertEqual("no control had the keyboard" in deed.result, bool(refused))

    def test_what_is_greyed_gets_no_text(self) -> None:
        for place in ({}, {"position": ON_NAME, "element_name": "Name"}):
            deed = self.type(Field("Name", NAME, greyed=True), text="hello", submit=True, **place)
            self.assertEqual((deed.refused, self.desktop.log), ("no_field", []))
            self.assertIn("greyed", deed.result)

    def test_what_left_its_field_is_neither_judged_nor_typed_again(self) -> None:
        """A tab, or a field of digits that goes on to the next one by itself."""
        first, second = Field("Day", NAME), Field("Month", CITY)
        deed = self.type(first, second, text="12\t05", submit=True, next_at="\t")
        self.assertEqual((deed.refused, self.values[0]), ("", "12"))
        self.assertEqual(self.desktop.log, ["12\t05", "enter: 05"])
        self.assertIn("the keyboard is in 'Month' (edit) now", deed.result)

    def test_a_story_leaves_out_what_follows_a_text_that_did_not_arrive(self) -> None:
        """Its acts of one reply are steps, too: Enter would stand on what is known to be wrong."""
        for one, became in (
            (Field("To", NAME, takes=losing(3, slowly=True)), ["abcdefg"]),
            (Field("To", NAME), ["abcdefg", "enter: abcdefg"]),
        ):
            actions = [{"name": "type", "text": "abcdefg"}, {"name": "key", "key": "enter"}]
            said = json.dumps({"observation": "I type and send.", "bboxes": [], "actions": actions})
            trial = self.trial(lambda request, said=said: scripted.text(said), "story", max_steps=2)
            desktop = trial.desktop = Fields(trial.clock, [one], PLAIN)
            trial.run()
            log = [entry for entry in desktop.log if len(entry) > 6]
            self.assertEqual(log, became)

    def test_where_nobody_can_read_enter_is_pressed_as_told(self) -> None:
        for one in (Field("", NAME, None), Field("", NAME, None, "pane")):
            self.assertEqual(self.type(one, text="abc", submit=True).refused, "")
            self.assertEqual(len(self.enters), 1)

    def test_a_secret_is_neither_read_nor_typed_twice(self) -> None:
        one = Field("Card", NAME, takes=losing(4))
        trial_hidden = agent.Secrets({"CARD": "4711081512345678"})
        trial = self.trial(lambda request: PLAN, confirm="never")
        trial.hidden = trial_hidden
        trial.desktop = desktop = Fields(trial.clock, [one], PLAIN)
        deed = trial.perform(act("type_text", text="{{CARD}}", submit=True), trial.look(1), 1)
        self.assertEqual(
            (deed.refused, len([e for e in desktop.log if e.startswith("enter")])), ("", 1)
        )
        self.assertNotRegex(deed.result, r"\d")

    def test_what_of_a_secret_went_into_another_field_is_grey_there_and_told_to_nobody(
        self,
    ) -> None:
        """As where a page takes the keyboard once it is loaded, or each digit of a code has its field."""
        for names, text, next_at in (
            (("Card", "Search"), "{{CARD}}", "-"),
            (("", ""), "{{CARD}}", "-"),
            (("Card", "Code"), "4711X{{CARD}}", "X"),
        ):
            fields = Field(names[0], NAME), Field(names[1], CITY)
            trial = self.trial(lambda request: PLAN, confirm="never")
            trial.hidden = agent.Secrets({"CARD": "4711-0815123456"})
            trial.desktop = desktop = Fields(trial.clock, [*fields], PLAIN)
            desktop.next_at = next_at
            trial.perform(act("type_text", text=text), trial.look(1), 1)
            self.assertIn("0815123456", fields[1].value or "")
            self.assertNotIn("0815", str(trial.engine.controls.facts()))
            desktop.glance = lambda area, w, h: bytes((1, 2, 3, 0)) + bytes(w * h * 4 - 4)
            frame = trial.look(2).frame
            self.assertLess(frame.pixels.count(b"\x80\x80\x80"), 500)
            for rect in (NAME, CITY):
                at = agent.middle_of(rect.scaled(AREA, frame.rect))
                first = (at.y * frame.width + at.x) * 4
                self.assertEqual(frame.pixels[first : first + 3], b"\x80\x80\x80", (names, rect))
            told = trial.records("secret")[-1]  # and so in a resumed run
            self.assertTrue(Rect(*told["box"]).contains(agent.middle_of(CITY)))


CHAT = agent.Window(1, "Team chat", "slack.exe", AREA)
CMD = agent.Window(1, r"C:\WINDOWS\system32\cmd.exe", "WindowsTerminal.exe", AREA)


class WhatEnterAndCtrlAMean(TypingCase):
    def test_the_lines_of_a_text_are_one_message_of_a_chat(self) -> None:
        browser = agent.Window(1, "(2) WhatsApp - Google Chrome", "chrome.exe", AREA)
        for window in (CHAT, browser, replace(CHAT, program="Teams.exe")):
            for arguments in (
                {"text": "one\ntwo\nthree", "submit": True},
                {"text": "one\ntwo\nthree\n"},
            ):
                for confirm in ("never", "risky"):
                    box = Field("Message", NAME, role="edit")
                    deed = self.type(box, window=window, settings={"confirm": confirm}, **arguments)
                    self.assertEqual((deed.refused, self.enters), ("", ["enter: one\ntwo\nthree"]))
                    self.assertEqual(len(self.asked), int(confirm == "risky"))
                    for question in self.asked:  # about the whole message
                        self.assertIn("one two three", question)
        # Without Enter nothing is sent, and so nobody is asked.
        self.type(
            Field("Message", NAME), window=CHAT, settings={"confirm": "risky"}, text="one\ntwo"
        )
        self.assertEqual((self.values, self.enters, self.asked), (["one\ntwo"], [], []))

    def test_elsewhere_a_line_break_is_enter(self) -> None:
        notes = agent.Window(1, "Notes", "notepad.exe", AREA)
        self.type(Field("Text", NAME, None, "document"), window=notes, text="one\ntwo")
        self.assertEqual(self.desktop.log[0], "one\ntwo")

    def test_a_terminals_line_is_emptied_by_its_own_keys_and_the_question_is_about_what_runs(
        self,
    ) -> None:
        text_area = Field("Text Area", AREA, None, "document")
        for window, field_there, keys in (
            (CMD, text_area, ["escape"]),
            (
                replace(CMD, title="Windows PowerShell", program="powershell.exe"),
                text_area,
                ["escape"],
            ),
            (replace(CMD, title="ann@desk: ~"), text_area, ["end", "ctrl+u"]),
            (replace(CMD, title="Ubuntu", program="wt.exe"), text_area, ["end", "ctrl+u"]),
            (
                replace(CMD, title="MINGW64:/c/in", program="mintty.exe"),
                text_area,
                ["end", "ctrl+u"],
            ),
            (replace(CMD, title="srv", program="MobaXterm.exe"), text_area, ["end", "ctrl+u"]),
            (replace(CMD, title="srv - KiTTY", program="kitty.exe"), text_area, ["end", "ctrl+u"]),
            (replace(CMD, title="ann@desk:~", program="Tabby.exe"), text_area, ["end", "ctrl+u"]),
            (replace(CMD, title="cmd", program="Hyper.exe"), text_area, ["escape"]),
            (
                replace(CMD, title="a.py - Code", program="Code.exe"),
                replace(text_area, name="Terminal 1, bash"),
                ["end", "ctrl+u"],
            ),
        ):
            self.type(replace(field_there), window=window, text="dir", clear=True)
            with self.subTest(window.title):
                self.assertEqual(self.desktop.log, [*keys, "dir"])

    def test_no_escape_is_pressed_in_a_field_that_only_seems_to_be_a_terminals(self) -> None:
        """It would close its dialog."""
        for window, name in (
            (replace(CMD, title="Customer", program="python.exe"), "Name"),
            (replace(CMD, title="PuTTY Configuration", program="putty.exe"), "Host Name"),
            (replace(CMD, title="Airport", program="chrome.exe"), "Terminal"),
            (replace(CMD, title="Airport", program="chrome.exe"), "Terminal 2"),
        ):
            with self.subTest(window.program, name=name):
                self.type(Field(name, NAME, "old"), window=window, text="new", clear=True)
                self.assertEqual((self.desktop.log, self.values), (["ctrl+a", "new"], ["new"]))

    def test_a_cell_that_tells_its_old_value_until_enter_gets_its_enter(self) -> None:
        cell = Field("A1", NAME, "5", "table row", takes=lambda batch, value: "")
        deed = self.type(cell, text="7", position=ON_NAME, element_name="A1", submit=True)
        self.assertEqual((deed.refused, len(self.enters)), ("", 1))

    def test_the_question_is_about_the_line_that_really_runs(self) -> None:
        for title, clear, entered in (
            ("Command Prompt", "ctrl+a", "important.txtdel x"),
            ("Command Prompt", None, "del x"),
            ("ann@desk: ~", "escape", "important.txtdel x"),
            ("ann@desk: ~", None, "del x"),
        ):
            trial = self.trial(lambda request: PLAN)
            trial.desktop = Fields(
                trial.clock, [Field("Text Area", AREA, None, "document")], replace(CMD, title=title)
            )
            asked = list[str]()
            trial.ask(lambda question, asked=asked: bool(asked.append(question)))  # type: ignore[misc]
            acts = [act("type_text", text="important.txt")]
            acts += [act("press_key", key=clear)] if clear else []
            acts.append(act("type_text", text="del x", clear=not clear, submit=True))
            for number, one in enumerate(acts, 1):
                trial.perform(one, trial.look(number), number)
            with self.subTest(title, clear=clear):
                self.assertEqual(len(asked), 1)
                self.assertRegex(asked[0], rf"which enters '\??{entered}'")


class AsItIs(TypingCase):
    def test_what_is_quoted_to_a_model_has_each_backslash_once(self) -> None:
        path = r"notepad C:\in\source.txt"
        deed = self.type(
            Field(r"Open C:\in", NAME), text=path, position=ON_NAME, element_name=r"D:\other field"
        )
        self.assertIn(rf'the field now holds "{path}"', deed.result)
        facts = self.made.engine.controls.facts()
        self.assertEqual(
            facts, [rf"""The keyboard is in 'Open C:\in' (edit), which holds "{path}"."""]
        )
        deed = self.type(Field(r"C:\a\b", NAME, None, "button"), text="x")
        self.assertIn(r"'C:\a\b' (button)", deed.result)
        for call in (
            ("press_key", {"key": r"ctrl+\x"}),
            ("open_app", {"name": r"C:\in\x.exe"}),
            ("focus_window", {"title": r"C:\in"}),
        ):
            with self.subTest(call):
                try:
                    done = self.made.perform(act(call[0], **call[1]), self.made.look(2), 2).result
                except agent.ToolError as error:
                    done = str(error)
                self.assertNotIn("\\\\", done)
                self.assertIn("\\", done)
