"""A table and a form: each row entered as it was shown, proven, and told in a line of results."""

from __future__ import annotations

import contextlib
import copy
import csv
import errno
import io
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import agent
from agent import Control, Point, Rect
from tests.fakes import VirtualClock
from tests.samples import for_the_gate, some
from tests.scripted import call, role_of, text
from tests.seams import clock_of_main, desktop_of_main, person_at_main
from tests.test_actuator import Stage, act
from tests.test_ending import Model, SaysYes
from tests.test_main import CommandLineCase
from tests.test_recording import CITY, NAME, OK, TICK, WINDOW, Form

TASK = "enter a customer"
SMALL = {
    "AGENT_IMAGE_W": "128",
    "AGENT_IMAGE_H": "72",
}  # pictures in which nobody has to find anything
EXAMPLES = {"name": "Meier, Anna", "city": "Basel"}
CHECK = 'The list shows "{name} · {city}"'


class Book(Form):
    """A form whose OK puts a record into a list, as an office program does."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock, NAME, CITY, OK)
        self.records: list[tuple[str, str]] = []
        self.typed: list[str] = []
        self.fits = 1000  # characters in the field City:
        self.loses = False  # what it is sent
        self.happens: Callable[[str], object] = lambda text: None  # when that is typed
        self._all = False

    def enter(self) -> None:
        record = (self.controls["Name:"].value or "", self.controls["City:"].value or "")
        if not self.loses:
            self.records.append(record)
            self.show_list()
        for name in ("Name:", "City:"):
            self.hold(name, "")

    def show_list(self) -> None:
        for number, record in enumerate(self.records):
            place = Rect(600, 100 + 2 * number, 100, 2)
            row = Control(" · ".join(record), "list item", place, window=7, program="soffice.exe")
            self.controls[f"row {number}"] = row

    def hold(self, name: str, value: str) -> None:
        self.controls[name] = replace(self.controls[name], value=value)

    def button(self, name: str, down: bool) -> None:
        if down:
            return
        for key, control in [*self.controls.items()]:
            if control.rect.contains(self._cursor):
                self.focus = key if control.role == "edit" else self.focus
                self._all = False
                if key == "OK" and self.front == WINDOW:
                    self.enter()
                elif control.role == "list item":
                    self.hold("City:", control.name)

    def key(self, name: str, down: bool) -> None:
        if down and name == "a":
            self._all = True
        elif down and name == "delete" and self._all:
            self.hold(self.focus, "")

    def text(self, text: str) -> None:
        self.typed.append(text)
        self.happens(text)
        if self.focus not in self.controls:  # the form is closed
            return
        held = "" if self._all else self.controls[self.focus].value or ""
        self._all = False
        most = self.fits if self.focus == "City:" else 1000
        self.hold(self.focus, (held + text)[:most])

    def move(self, point: Point) -> None:
        self._cursor = point


# What was shown: which control, its role, what was done to it.
Steps = tuple[tuple[str, str, dict[str, Any]], ...]
STEPS: Steps = (
    (
        "Name:",
        "edit",
        {
            "tool": "type_text",
            "args": {"text": "Meier, Anna", "element_name": "Name:"},
            "value": "name",
        },
    ),
    (
        "City:",
        "edit",
        {"tool": "type_text", "args": {"text": "Basel", "element_name": "City:"}, "value": "city"},
    ),
    ("OK", "button", {"tool": "click", "args": {"element_name": "OK"}}),
)


def record(dumps: Path, check: str, steps: Steps = STEPS, **window: Any) -> None:
    """A task that a person showed once, in this folder."""
    lines: list[dict[str, Any]] = [
        {"kind": "run", "model": "shown by hand", "profile": "planner", "task": TASK}
    ]
    for turn, (name, role, intent) in enumerate(steps, 1):
        control = {
            "role": role,
            "name": name,
            "id": "",
            "at": [45, 15, 90, 30],
            "row": [],
            "empty": role == "edit",
        }
        place = {
            "title": "Customers",
            "program": "soffice.exe",
            "window": [0, 0, 320, 240],
            "control": control,
            **window,
        }
        intent["args"]["position"] = {"x": 1, "y": 1}
        lines += [
            {"kind": "place", "turn": turn, **place},
            {"kind": "intent", "turn": turn, **intent},
            {"kind": "result", "turn": turn, "result": "Shown by the person", "changed": True},
        ]
    checks = [{"check": check, "holds": True, "why": ""}] if check else []
    lines.append({"kind": "end", "turn": 3, "outcome": "completed", "checks": checks})
    folder = dumps / "run_0001"
    folder.mkdir(parents=True)
    (folder / "turns.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")


class Ticked(Book):
    """A form with a box, of which the first clicks are lost, as on a busy machine."""

    def __init__(self, clock: Any, lost: int) -> None:
        super().__init__(clock)
        self.controls = {"Paid": TICK, "OK": OK}
        self.lost = lost
        self.pressed: list[str] = []

    def button(self, name: str, down: bool) -> None:
        for key, control in self.controls.items() if not down else ():
            if control.rect.contains(self._cursor):
                self.pressed.append(key)
                if key == "Paid" and self.pressed.count(key) > self.lost:
                    self.controls = {**self.controls, key: replace(TICK, checked=True)}


class Boxes(CommandLineCase):
    @for_the_gate
    def test_a_box_that_is_not_as_its_click_left_it_is_set_once_more_before_what_comes_next(
        self,
    ) -> None:
        click = {"tool": "click", "args": {"element_name": "it"}}
        steps = (("Paid", "checkbox", {**click, "checked": True}), ("OK", "button", click))
        record(self.folder / "dumps", "", copy.deepcopy(steps))
        for option in (("--again", TASK), ("--replay", "1")):
            for lost, presses, ends in ((0, 1, 0), (1, 2, 0), (2, 2, 1)):
                form = Ticked(VirtualClock(), lost)
                with desktop_of_main(lambda _, form=form: form), clock_of_main(form.clock):
                    code, out, _ = self.main(
                        *option, "--confirm", "never", "--set", "settle_cap_ms=1"
                    )
                done = ["Paid"] * presses + ["OK"] * (not ends)
                self.assertEqual((form.pressed, code), (done, ends), out)
                self.assertEqual("'Paid' (checkbox) is not checked" in out, bool(ends))


class RowsCase(CommandLineCase):
    check = CHECK

    def setUp(self) -> None:
        super().setUp()
        self.clock = VirtualClock()
        self.book = Book(self.clock)
        record(self.folder / "dumps", self.check)

    def table(self, *rows: str, head: str = "Name;City", name: str = "customers") -> str:
        path = self.folder / f"{name}.csv"
        path.write_text("\n".join([head, *rows, ""]), "utf-8")
        return str(path)

    def rows(self, table: str, *options: str, stdin: Any = b"") -> tuple[int, str, str]:
        size = ["--set", "settle_cap_ms=1"]
        words = ["--again", TASK, "--rows", table, *options, *size]

        def book(clock: Any) -> Book:
            self.book.clock = clock
            return self.book

        clock = clock_of_main(self.clock) if stdin == b"" else contextlib.nullcontext()
        with desktop_of_main(book), clock:
            return self.main(*words, stdin=stdin, environ=SMALL)

    def asked(
        self, table: str, *answers: str | None, options: tuple[str, ...] = ()
    ) -> tuple[int, str]:
        """What comes of it, where a person gives these answers."""
        left, at = list(answers), [0]

        def types(out: str) -> str | None:
            if out.find("does not.", at[0]) < 0:
                return None
            at[0] = len(out)
            return left.pop(0)

        with person_at_main(types) as keyboard:
            code, out, _ = self.rows(table, *options, stdin=keyboard)
            keyboard.end()
        self.assertEqual(left, [], out)
        return code, out

    def results(self) -> list[dict[str, str]]:
        path = max((self.folder / "dumps").glob("*/results.csv"))
        with path.open(encoding="utf-8-sig", newline="") as stream:
            head = stream.readline()
            stream.seek(0)
            delimiter = max("\t;,|", key=head.count)
            return list(csv.DictReader(stream, delimiter=delimiter))

    def outcomes(self) -> list[str]:
        """Of the rows that a run has begun, or knows."""
        return [row["outcome"] for row in self.results() if row["run"]]


class Tables(RowsCase):
    """A file from anywhere is read as it is meant, or refused before anything is done."""

    def read(self, data: bytes, *options: str) -> tuple[list[tuple[str, str]], str]:
        """What is entered of such a file, and what is said."""
        path = self.folder / "t.csv"
        path.write_bytes(data)
        self.book = Book(self.clock)
        _, out, err = self.rows(str(path), *options)
        shutil.rmtree(self.run_folder(2), ignore_errors=True)
        return self.book.records, out + err

    @for_the_gate
    def test_encodings_delimiters_and_quotes(self) -> None:
        text = 'Name;City\r\n"Müller; ""Bob""";Zürich\r\n=1+1;{{{PIN}}\r\n'
        expected = [('Müller; "Bob"', "Zürich"), ("=1+1", "{{{PIN}}")]
        for form in ("utf-8", "utf-8-sig", "utf-16", "cp1252", "utf-16-le"):
            self.assertEqual(self.read(text.encode(form))[0], expected, form)
        for data, rows in (
            ("city\tNAME \nBasel\tMeier, Anna\n", [("Meier, Anna", "Basel")]),
            ("name,city\n\n Anna ,\n,,\n", [(" Anna ", "")]),
            ("name|city\nא🙂|O'Hara\n", [("א🙂", "O'Hara")]),
        ):
            self.assertEqual(self.read(data.encode())[0], rows, data)
        self.assertEqual(
            self.read(b"name\nA;b, c\n", "--with", "city=Bern")[0], [("A;b, c", "Bern")]
        )

    def test_what_is_wrong_is_told_before_anything_is_done(self) -> None:
        many = b"name;city\n" + b"".join(b"%d;B\n" % at for at in range(501))
        for data, told in (
            (b"", r"cannot be used: column 'name' is missing; column 'city' is missing; it has 0"),
            (b'PK\x03\x04\x81\xff\xfe\x00"', "saved as CSV first"),
            (b"name;city\n", "it has 0 rows, not 1 to 500"),
            (many, "501 rows, not 1 to 500"),
            (b"name\nA\n", r"cannot be used: column 'city' is missing\."),
            (b"name;town\nA;B\n", r"column 'city' is missing; column 'town' is one too many\."),
            (b"name;Name ;city\nA;B;C\n", r"cannot be used: column 'Name' is one too many\."),
            (b"name;city\nA;B\nA;B\n", "row 2 is the same as row 1: take one out"),
            (b"name;city\nA;B\nA\n", "row 2 has 1 cell, not 2"),
            (b"name;city\nA\x07;B\n", r"row 1, name: Character 2 of the text \(U\+0007\)"),
            (b'name;city\n"A\tB";C\n', "row 1, name: it has a tab"),
            (b'name;city\nA;"B\nC"\n', "row 1, city: .* a line break that what was shown has not"),
            (b"name;city\n" + b"A" * 4000 + b";B\n", "row 1, name: it is longer than 3"),
            (b'name;city\n"A;B\n', "a quote in row 1 is not closed"),
            (b'name;city\nA;B\nC;"5" D"\nE;F\n', "a quote in row 2 is not closed"),
            (b'"name;city\nA;B\n', "a quote is not closed"),
            (b"name;city\nA\x81;B\n", "is no table"),
            ("name;city\nA\ufffd;B\n".encode(), "is no table"),
        ):
            records, said = self.read(data)
            self.assertEqual(records, [])
            self.assertRegex(said, told)
            self.assertFalse(self.run_folder(2).exists())
        self.assertEqual(len(self.read(many, "--max-rows", "501", "--only-rows", "500,501")[0]), 2)
        _, said = self.read(b"name;city\nA;B\n", "--with", "city=Bern", "--with", "x=1")
        told = r"column 'city' is one too many \(with --with\); column 'x' is one too many \("
        self.assertRegex(said, told)

    def test_a_cell_that_makes_a_path_impossible_is_told_before_anything_is_done(self) -> None:
        for check, cell, is_wrong in (
            (r"C:\t\{name}.txt exists", r"C:\t\a.txt", True),
            (r'"C:\my notes\{name}.txt" exists', "a?", True),
            (r"C:\t\{name}.txt exists", r"more\a", False),
            (r"{name} exists", r"C:\t\a.txt", False),
            (r'The list shows "{name}" of C:\t\a.txt', "a: b?", False),
        ):
            with self.subTest(check, cell=cell):
                shutil.rmtree(self.folder / "dumps")
                record(self.folder / "dumps", check)
                records, said = self.read(f"name;city\n{cell};B\n".encode())
                self.assertEqual(
                    (records, "can be no file" in said),
                    ([], True) if is_wrong else ([(cell, "B")], False),
                    said,
                )
                self.assertEqual(r"row 1, name: 'C:" in said, is_wrong, said)

    def test_what_stands_between_cells_is_what_most_lines_have_or_the_first_one_says(self) -> None:
        for data in (
            'name;city;"total, net, in CHF, rounded"\nA;Bern;1\n',
            "name;city;total, net, in CHF\nA;Bern;1\n",
            '"no. of\ncustomer";name;city\n7;A;Bern\n',
            "name;city;in CHF, net, with tax\nA;Bern;1,50, 2\n",  # as many commas
            "sep=;\nname;city\nA;Bern\n",
            '"sep=\t"\r\nname\tcity\r\nA\tBern\r\n',
            "SEP=|\nname|city|a,b,c,d\nA|Bern|\n",
        ):
            rows, said = self.read(data.encode())
            self.assertEqual(rows, [("A", "Bern")], f"{data}{said}")

    def test_a_blank_before_a_quote_is_no_part_of_a_cell_and_any_other_is(self) -> None:
        for data, row in (
            ('"name", "city"\n"A", "Bern, BE"\n', ("A", "Bern, BE")),
            ('name; city\nA;  "B ""x"""\n', ("A", 'B "x"')),
            ('name;city\nA; "B" and C\n', ("A", ' "B" and C')),
            ('name;city\n"A; ""B""";C\n', ('A; "B"', "C")),
        ):
            rows, said = self.read(data.encode())
            self.assertEqual(rows, [row], said)

    def test_a_line_of_blanks_is_no_row_nor_is_the_end_that_old_programs_write(self) -> None:
        data = "name;city\nA;B\n ;\t\n\xa0;\xa0\n   \n;\nC;D\n\x1a"
        rows, said = self.read(data.encode())
        self.assertEqual(rows, [("A", "B"), ("C", "D")], said)
        rows, _ = self.read(b"name;city;\nA; ;\n")
        self.assertEqual(rows, [("A", " ")])

    def test_letters_that_were_read_in_another_code_page_are_refused(self) -> None:
        mixed = "name;city\nZürich;B\n".encode() + "Genève;C\n".encode("cp1252")
        for data in (
            mixed,
            "name;city\nMÃ¼ller;B\n".encode(),
            "name;city\nMichaÅ‚owski;B\n".encode(),
            "name;city\nD’Oro;B\n".replace("’", "â€™").encode(),
            "name;city\nKöln;B\n".encode("cp850"),
            "name;city\nOrléans;B\n".encode("cp437"),
            "name;city\nZürich;B\n".encode("mac_roman"),
        ):
            rows, said = self.read(data)
            self.assertEqual(rows, [], said)
            self.assertIn("row 1, name: its letters are of another code page", said)
        names = "“IRMÔ|AMANHÃ…|«AMANHû|Žižek|DUŠAN|L’Haÿ|„Hallo“|Rock ‚n‘ Roll|ESPAÑA|PÅ”|5”x3"
        names += "|使用iPhone“pro”版|点击Windows“cmd”窗口"  # which has no blank there
        cells = names.split("|")
        rows, said = self.read("".join(["name;city\n", *(f"{one};B\n" for one in cells)]).encode())
        self.assertEqual(rows, [(one, "B") for one in cells], said)

    def test_what_a_spreadsheet_may_have_made_of_cells_is_told_before_it_is_typed(self) -> None:
        odd = ["#NV", "#N/D", "#DIV/0!", "#¡REF!", "########", "4,17912E+10", "'0123'"]
        lines = [
            f"{one};Bern" for one in [*odd, "007", "#12", "#FF0000", "#VIP", "12E34", "O'Hara"]
        ]
        _, said, _ = self.rows(self.table(*lines, 'A;="03000"'))
        told = f'Cells that a spreadsheet may have changed: {", ".join(odd)}, ="03000".'
        self.assertIn(told, " ".join(said.split()))
        self.assertNotIn("spreadsheet", self.read(b"name;city\n007;1.2.2024\n")[1])

    def test_a_column_has_its_name_however_its_letters_are_put_together(self) -> None:
        shutil.rmtree(self.folder / "dumps")
        steps = copy.deepcopy(STEPS)
        steps[1][2]["value"] = "größe"
        record(self.folder / "dumps", "", steps)
        for head in ("name;gro\u0308ße", "name;GRÖSSE"):
            rows, said = self.read(f"{head}\nA;Bern\n".encode())
            self.assertEqual(rows, [("A", "Bern")], said)

    def test_a_quoted_nothing_is_the_empty_cell_of_a_table_with_one_column(self) -> None:
        rows, said = self.read(b'name\nA\n\n""\nB\n', "--with", "city=Bern")
        self.assertEqual(rows, [("A", "Bern"), ("", "Bern"), ("B", "Bern")], said)

    def test_results_have_the_delimiter_of_their_table_and_tell_the_next_one_of_any_other(
        self,
    ) -> None:
        """As a spreadsheet of that country opens them."""
        results = self.folder / "all.csv"
        words = ("--results", str(results))
        for delimiter, expected in ((";", ";"), (",", ","), ("\t", "\t"), ("|", "|"), ("", ",")):
            with self.subTest(delimiter):
                data = delimiter.join(["name", "city"]) + "\n" + delimiter.join(["A", "B"])
                given = words
                if not delimiter:  # a single column, which may have commas in its cells
                    data, given = "name\nA\n", (*words, "--with", "city=B")
                rows, _ = self.read(data.encode(), *given)
                told = results.read_bytes()
                head = ["row", "name", "city", "task (said)", "table (file)", "outcome", "sentence"]
                self.assertTrue(told.startswith(expected.join(head).encode("utf-8-sig")), told)
                # What the results of before tell is known, whatever stood between their cells.
                self.assertEqual(rows, [("A", "B")] * (delimiter == ";"))

    def test_a_row_that_is_there_twice_is_refused_only_where_both_are_to_be_done(self) -> None:
        data = b"name;city\nA;B\nC;D\nA;B\n"
        told = "row 3 is the same as row 1: take one out, or name one of them with --only-rows."
        for only, rows in (
            ("1-3", []),
            ("1,3", []),
            ("1-2", [("A", "B"), ("C", "D")]),
            ("2-3", [("C", "D"), ("A", "B")]),
        ):
            done, said = self.read(data, "--only-rows", only)
            self.assertEqual((done, told in said), (rows, not rows), only)
        self.book = Book(self.clock)
        path = self.folder / "t.csv"
        path.write_bytes(b"name;{{city}}\nA;Wxyz-4711\nA;Vwxy-0815\n")
        options = ("--only-rows", "1", "--set", "allow_risky=secret")
        code, _, err = self.rows(str(path), *options)
        self.assertEqual((code, self.book.typed), (2, []))
        self.assertIn("row 2 is the same as row 1: take one out.", err)

    def test_a_column_more_is_not_used_and_told_where_none_lacks(self) -> None:
        rows, said = self.read(b"id;name;city;Land\n7;A;B;CH\n")
        self.assertEqual(rows, [("A", "B")])
        self.assertIn("Not used: 'id, Land'.", said)

    def test_of_many_columns_only_those_are_told_that_are_wrong(self) -> None:
        names = [f"column number {number:02}" for number in range(20)]
        path = self.folder / "wide.csv"
        path.write_text(";".join([*names[:-1], "colum number 19"]) + f"\n{'x;' * 19}x\n", "utf-8")
        task = " ".join(f"{{{name}}}" for name in names)
        with desktop_of_main(lambda _: self.book):
            code, _, err = self.main(f"Enter {task}", "--rows", str(path))
        self.assertEqual(code, 2)
        told = "column 'column number 19' is missing; column 'colum number 19' is one too many."
        self.assertIn(f"wide.csv cannot be used: {told}", err)

    def test_a_column_of_any_language_is_named_in_words(self) -> None:
        path = self.folder / "t.csv"
        for name in ("ชื่อ", "कीमत", "Größe", "gro\u0308ße der Schuhe", "tên khách", "名前"):
            path.write_text(f"{name.title()}\n" + "x" * 4000, "utf-8")
            with desktop_of_main(lambda _: self.book):
                _, _, err = self.main(f"Enter {{{name}}}", "--rows", str(path))
            self.assertIn(f"row 1, {name}: it is longer", err)
        path.write_text("größe\n" + "x" * 4000, "utf-8")
        with desktop_of_main(lambda _: self.book):
            _, _, err = self.main("Enter {gro\u0308ße}", "--rows", str(path))
        self.assertIn("it is longer", err, "however its letters are composed")


class Entering(RowsCase):
    """Each row is entered once, and what came of it is true by the form's own list."""

    def test_each_row_is_entered_proven_and_told(self) -> None:
        table = self.table('"Meier; ""Bob""";Bern', "=1+1;{{PIN}}")
        code, out, err = self.rows(table, "--results", str(self.folder / "all.csv"))
        self.assertEqual((code, err), (0, ""), out)
        records = [('Meier; "Bob"', "Bern"), ("=1+1", "{{PIN}}")]
        self.assertEqual(self.book.records, records)
        rows = self.results()
        self.assertEqual([(row["name"], row["city"]) for row in rows], records)
        self.assertEqual(
            {(row["outcome"], row["requests"], row["run"]) for row in rows},
            {("done", "0", "run_0002")},
        )
        self.assertIn("2 done (1-2)", out)
        copy = self.folder / "all.csv"
        self.assertEqual(copy.read_bytes(), (self.run_folder(2) / "results.csv").read_bytes())

    def test_the_end_tells_the_turns_of_all_rows(self) -> None:
        _, out, _ = self.rows(self.table("A A;Bern", "B B;Bern"))
        self.assertIn("6 turns, 6 acts", out)

    def test_a_box_that_does_not_take_its_click_fails_the_row_whoever_sees_what_comes_next(
        self,
    ) -> None:
        click = {"tool": "click", "args": {"element_name": "it"}}
        paid = ("Paid", "checkbox", {**click, "checked": True})
        shutil.rmtree(self.folder / "dumps")
        record(self.folder / "dumps", "", copy.deepcopy((*STEPS[:2], paid, STEPS[2])))
        self.book.controls["Paid"] = replace(TICK, rect=Rect(400, 300, 20, 20))
        asked = []

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            asked.append(request)
            return on_form(OK, "click_screen_element")

        with Model(decide) as server:
            self.rows(self.table("A A;Bern"), "--endpoint", server.url)
        self.assertEqual((self.outcomes(), self.book.records, asked), (["failed"], [], []))

    def test_a_disk_that_fills_is_told_and_what_was_done_is_known(self) -> None:
        real, calls = os.fsync, [0]

        def full(stream: int) -> None:
            calls[0] += 1
            if calls[0] == 4:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(stream)

        with mock.patch("os.fsync", full):
            code, out, err = self.rows(self.table("A A;Bern", "B B;Bern"))
        self.assertEqual(code, 1, out)
        self.assertRegex(out + err, "cannot be written .*No space left on device")
        self.assertNotIn("Traceback", out + err)

    def test_who_looks_at_the_results_meanwhile_ends_nothing(self) -> None:
        real, written = Path.replace, [0]
        for free, code, told in ((2, 0, "3 done (1-3)"), (99, 1, "close what has it open")):
            written[0] = 0

            def shared(path: Path, target: Path, free: int = free) -> Path:
                if target.name == "results.csv":
                    written[0] += 1
                    if self.book.records and len(self.book.records) <= free:
                        raise PermissionError(errno.EACCES, "Permission denied")
                return real(path, target)

            with (
                self.subTest(free),
                mock.patch.object(Path, "replace", shared),
                mock.patch.object(time, "sleep"),
            ):
                self.book = Book(self.clock)
                shutil.rmtree(self.run_folder(2), ignore_errors=True)
                ended, out, err = self.rows(self.table("A;Bern", "B;Bern", "C;Bern"))
                self.assertEqual((ended, len(self.book.records)), (code, 3), out + err)
                self.assertIn(told, out)
                self.assertIn("results.csv cannot be written", out)
                self.assertEqual(len(self.outcomes()), 3 if free == 2 else 1)

    def test_a_column_in_double_braces_is_a_secret_of_what_was_shown_with_an_ordinary_value(
        self,
    ) -> None:
        table = self.table("A A;Wxyz-4711", "B B;Vwxy-0815", head="name;{{City}}")
        code, out, err = self.rows(table, "--set", "allow_risky=secret")
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(self.book.records, [("A A", "Wxyz-4711"), ("B B", "Vwxy-0815")])
        files = [file for file in self.run_folder(2).rglob("*") if file.is_file()]
        self.assertGreater(len(files), 3)
        for file in files:
            self.assertNotRegex(file.read_text("latin-1"), "Wxyz-4711|Vwxy-0815", file.name)
        self.assertNotRegex(out, "Wxyz|Vwxy")

    def test_constants_stand_beside_columns(self) -> None:
        code, out, err = self.rows(self.table("A A", "B B", head="name"), "--with", "city=Bern")
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(self.book.records, [("A A", "Bern"), ("B B", "Bern")])

    def test_an_empty_cell_clears_a_field_that_keeps_what_the_row_before_had(self) -> None:
        enter = self.book.enter

        def keeps() -> None:
            held = self.book.controls["City:"].value or ""
            enter()
            self.book.hold("City:", held)

        self.book.enter = keeps  # type: ignore[method-assign]
        code, out, err = self.rows(self.table("A;Bern", "B;", "C;"))
        self.assertEqual((code, err, self.outcomes()), (0, "", ["done"] * 3), out)
        self.assertEqual(self.book.records, [("A", "Bern"), ("B", ""), ("C", "")])

    def test_lines_that_the_row_before_left_are_replaced_and_those_of_somebody_else_are_not(
        self,
    ) -> None:
        enter, press = self.book.enter, self.book.key

        def keeps() -> None:
            held = self.book.controls["City:"].value or ""
            enter()
            self.book.hold("City:", held)

        def key(name: str, down: bool) -> None:
            press(name, down)
            if down and name == "enter":
                self.book.text("\n")

        self.book.enter, self.book.key = keeps, key  # type: ignore[method-assign]
        shutil.rmtree(self.folder / "dumps")
        lines = {"text": "Basel\nBern", "element_name": "City:"}
        city = ("City:", "edit", {"tool": "type_text", "args": lines, "value": "city"})
        record(self.folder / "dumps", "", copy.deepcopy((STEPS[0], city, STEPS[2])))
        code, out, err = self.rows(self.table('A;"Chur\nGenf"', "B;Bern"))
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(self.book.records, [("A", "Chur\nGenf"), ("B", "Bern")])
        self.book.hold("City:", "a\r\ndocument")
        code, out, err = self.rows(self.table("C;Bern"))
        self.assertEqual((code, self.book.records[2:]), (1, []), out)

    def test_a_field_that_was_emptied_when_it_was_shown_takes_a_value_too(self) -> None:
        shutil.rmtree(self.folder / "dumps")
        empties = {"text": "", "clear": True, "element_name": "City:"}
        city = ("City:", "edit", {"tool": "type_text", "args": empties, "value": "city"})
        record(self.folder / "dumps", CHECK, copy.deepcopy((STEPS[0], city, STEPS[2])))
        code, out, err = self.rows(self.table("A;Bern", "B;"))
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(self.book.records, [("A", "Bern"), ("B", "")])

    def test_a_row_may_have_each_of_its_boxes_set_again(self) -> None:
        click = {"tool": "click", "args": {"element_name": "it"}}
        boxes = [(name, "checkbox", {**click, "checked": True}) for name in ("Paid", "Sent")]
        shutil.rmtree(self.folder / "dumps")
        record(self.folder / "dumps", CHECK, copy.deepcopy((*STEPS[:2], *boxes, STEPS[2])))
        for at, name in enumerate(("Paid", "Sent")):
            self.book.controls[name] = replace(
                TICK, name=name, rect=Rect(400 + 90 * at, 300, 20, 20)
            )
        lost = {"Paid": 1, "Sent": 1}
        press = self.book.button

        def button(name: str, down: bool) -> None:
            press(name, down)
            for key, control in [*self.book.controls.items()]:
                if not down and key in lost and control.rect.contains(self.book._cursor):
                    self.book.controls[key] = replace(control, checked=not lost[key])
                    lost[key] = 0

        self.book.button = button  # type: ignore[method-assign]
        code, out, err = self.rows(self.table("A;Bern"))
        self.assertEqual((code, err, self.outcomes()), (0, "", ["done"]), out)
        self.assertEqual(self.book.records, [("A", "Bern")])

    def test_a_field_that_cuts_ends_the_row_before_it_is_sent(self) -> None:
        self.book.fits = 4
        code, out, _ = self.rows(self.table("A;Bern", "B;Basel", "C;Chur"))
        self.assertEqual(code, 1, out)
        self.assertEqual(self.book.records, [("A", "Bern")])
        self.assertEqual(self.outcomes(), ["done", "failed"])
        self.assertIn(
            "'City:' holds less than was typed: 'Base' and not 'Basel'",
            self.results()[1]["sentence"],
        )
        code, out, _ = self.rows(self.table("A;Bern", "B;Basel", "C;Chur"), "--rows-on")
        self.assertEqual(self.book.records, [("A", "Bern"), ("C", "Chur")])
        self.assertEqual(self.outcomes(), ["skipped", "failed", "done"])

    def test_results_tell_of_rows_that_were_not_begun_and_these_are_not_known_later(self) -> None:
        results = str(self.folder / "all.csv")
        self.book.fits = 2
        table = self.table("A;Bern", "B;Chur", "C;Genf")
        self.rows(table, "--results", results)
        told = [(row["row"], row["outcome"], row["run"]) for row in self.results()]
        expected = [("1", "failed", "run_0002"), ("2", "not begun", ""), ("3", "not begun", "")]
        self.assertEqual(told, expected)
        self.book.fits = 100
        code, out, _ = self.rows(table, "--results", results)
        self.assertEqual((code, self.outcomes()), (0, ["done"] * 3), out)
        self.assertNotIn("known from", out)

    def test_the_end_tells_why_a_table_is_not_done(self) -> None:
        self.book.fits = 2
        _, out, _ = self.rows(self.table("A;Bern", "B;Chur"))
        end = " ".join(out.partition("failed: ")[2].split())
        self.assertRegex(end, r"^1 failed \(1\), 1 not begun \(2\); row 1: 'City:' holds less than")
        self.assertNotIn(" way ", end)

    def test_a_row_that_is_known_and_not_done_is_told_in_a_line(self) -> None:
        self.book.loses = True
        self.rows(self.table("A;Bern"))
        _, out, _ = self.rows(self.table("A;Bern"))
        self.assertRegex(out, r"(?m)^    1  not proven known from .*: not proven on ")

    def test_what_another_row_has_left_in_a_window_is_not_typed_over(self) -> None:
        enter = self.book.enter

        def saves() -> None:
            names = [name for name, _ in [*self.book.records, ("Anna", "")]][:1]
            enter()
            self.book.front = replace(WINDOW, title=f"{names[0]}.doc - Customers")

        self.book.enter = saves  # type: ignore[method-assign]
        code, out, _ = self.rows(self.table("Anna;Bern", "Otto;Bern"))
        self.assertEqual((code, self.outcomes()), (1, ["done", "failed"]), out)
        self.assertEqual((self.book.records, self.book.typed[2:]), ([("Anna", "Bern")], []))
        self.assertIn("is the window of row 1, and was 'Customers' when it was shown", out)

    def test_a_field_is_read_back_in_the_window_of_its_step(self) -> None:
        shutil.rmtree(self.folder / "dumps")
        record(self.folder / "dumps", self.check, copy.deepcopy(STEPS), class_name="Book")
        box = replace(WINDOW, handle=8, title="Find", class_name="#32770", owner=WINDOW)
        self.book.front = replace(WINDOW, class_name="Book")
        self.book.controls["other"] = replace(NAME, window=8, value="zzz")
        self.book.windows = lambda: [box, self.book.front]  # type: ignore[method-assign]
        _, out, _ = self.rows(self.table("Anna;Bern"))
        self.assertNotIn("zzz", out)

    def test_a_row_whose_own_value_is_in_the_title_is_entered(self) -> None:
        def names(text: str) -> None:
            title = "Customers" if text == "Bern" else f"{text} - Customers"
            self.book.front = replace(WINDOW, title=title)

        self.book.happens = names
        code, out, _ = self.rows(self.table("Anna;Bern", "Anna Meier;Bern"), "--only-rows", "2")
        self.assertEqual((code, self.outcomes()), (0, ["done"]), out)

    def test_three_failures_in_a_row_end_it(self) -> None:
        self.book.fits = 1
        self.rows(self.table(*(f"{at};Bern" for at in "ABCDE")), "--rows-on")
        self.assertEqual(self.outcomes(), ["failed"] * 3)

    def test_what_is_in_no_list_afterwards_is_not_proven_nor_done_again_by_itself(self) -> None:
        self.book.loses = True
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 1)
        self.assertEqual(self.outcomes(), ["not proven"])
        self.assertIn("Windows does not show it", self.results()[0]["sentence"])
        self.book.loses = False
        self.assertEqual(self.rows(self.table("A;Bern", "B;Bern"))[0], 1)
        self.assertEqual(
            (self.outcomes(), self.book.records), (["not proven", "done"], [("B", "Bern")])
        )
        self.book.records.append(("A", "Bern"))  # it came late
        self.book.show_list()
        self.assertEqual(self.rows(self.table("A;Bern", "B;Bern"))[0], 0)
        self.assertEqual(self.outcomes(), ["skipped", "skipped"])

    def test_a_record_that_is_there_is_skipped(self) -> None:
        self.book.records = [("A", "Bern")]
        self.book.show_list()
        self.assertEqual(self.rows(self.table("A;Bern", "A;Chur"))[0], 0)
        self.assertEqual((self.outcomes(), len(self.book.records)), (["skipped", "done"], 2))

    def test_a_box_in_the_way_is_never_answered(self) -> None:
        box = replace(WINDOW, handle=8, title="Question", owner=WINDOW)

        def appears(text: str) -> None:
            self.book.front = box if text == "B" else self.book.front

        self.book.happens = appears
        code, _, _ = self.rows(self.table("A;Bern", "B;Bern", "C;Bern", "D;Bern"), "--rows-on")
        self.assertEqual((code, self.book.records), (1, [("A", "Bern")]))
        self.assertEqual(self.outcomes(), ["done", "failed", "failed", "failed"])
        self.assertIn("'Question' is in the way", self.results()[2]["sentence"])

    def test_the_window_that_it_needs_is_brought_to_the_front(self) -> None:
        other = replace(WINDOW, handle=9, title="Mail", program="mail.exe")
        self.book.front = other
        self.book.windows = lambda: [other, WINDOW]

        def bring(window: agent.Window) -> None:
            self.book.front = window

        self.book.bring_to_front = bring
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 0)
        self.assertEqual(self.book.front, WINDOW)

    def test_a_form_that_is_closed_fails_the_row(self) -> None:
        del self.book.controls["Name:"]
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 1)
        self.assertEqual(self.outcomes(), ["failed"])
        self.assertIn("there is no edit 'Name:'", self.results()[0]["sentence"])

    def test_a_sending_step_that_was_refused_has_sent_nothing(self) -> None:
        self.book.happens = lambda text: setattr(
            self.book, "front", replace(WINDOW, elevated=text == "Basel")
        )
        self.assertEqual(self.rows(self.table("A;Bern", "B;Basel"))[0], 1)
        self.assertEqual(
            (self.outcomes(), self.book.records), (["done", "failed"], [("A", "Bern")])
        )
        self.assertIn("runs as administrator", self.results()[1]["sentence"])

    def test_tab_sends_nothing_so_that_a_row_killed_while_it_is_typed_is_not_unsure(self) -> None:
        press = ("Name:", "edit", {"tool": "press_key", "args": {"key": "tab"}})
        shutil.rmtree(self.folder / "dumps", ignore_errors=True)
        record(self.folder / "dumps", "", copy.deepcopy((STEPS[0], press, *STEPS[1:])))
        self.book.happens = lambda text: self.clock.stop.set("Ctrl+C") if text == "Bern" else None
        self.rows(self.table("A;Bern"))
        self.assertEqual((self.outcomes(), self.book.records), (["stopped"], []))

    def test_what_the_person_typed_in_the_meantime_is_read_again(self) -> None:
        used = [0.0]

        def idle_s() -> float:
            fields = [self.book.controls[name].value for name in ("Name:", "City:")]
            if fields == ["A", "Bern"] and not used[0]:  # right before OK is clicked
                self.book.hold("City:", "Berne")
                self.clock.advance(1)
                used[0] = self.clock.now()
            return self.clock.now() - used[0]

        self.book.idle_s, self.book.used_by_hand = idle_s, lambda: True
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 1)
        self.assertEqual((self.outcomes(), self.book.records), (["failed"], []))
        self.assertIn("'City:' holds: 'Berne' and not 'Bern'", self.results()[0]["sentence"])

    def test_some_rows_alone(self) -> None:
        table = self.table(*(f"{at};Bern" for at in "ABCDE"))
        self.assertEqual(self.rows(table, "--only-rows", "2-3,5")[0], 0)
        self.assertEqual([name for name, _ in self.book.records], ["B", "C", "E"])
        code, _, err = self.rows(table, "--only-rows", "4-9")
        self.assertEqual(code, 2)
        self.assertIn("--only-rows takes such as 5-9,12, from 1 to 5, not '4-9'", err)

    def test_rows_are_known_by_their_values_wherever_they_stand(self) -> None:
        self.rows(self.table("A;Bern", "B;Bern"))
        self.rows(self.table("C;Bern", "B;Bern", "A;Bern", "A;Chur"))
        self.assertEqual(self.outcomes(), ["done", "skipped", "skipped", "done"])
        self.assertEqual(len(self.book.records), 4)

    def test_a_row_is_known_however_its_column_and_its_letters_are_written(self) -> None:
        self.rows(self.table("Müller, Zoë;Bern"))
        journal = self.run_folder() / "turns.jsonl"
        shown = journal.read_text("utf-8")
        for value, row in (
            ("Name", "Müller, Zoë;Bern"),  # shown anew
            ("name", "Mu\u0308ller, Zoe\u0308;Bern"),  # as a Mac takes letters apart
            ("name", "Müller, Zoë ;\u00a0Bern"),  # as a database fills its columns
        ):
            journal.write_text(shown.replace('"value": "name"', f'"value": "{value}"'), "utf-8")
            self.book.controls = Book(self.clock).controls  # which shows it in no list
            code, out, _ = self.rows(self.table(row))
            self.assertEqual((code, self.outcomes()), (0, ["skipped"]), out)
        self.assertEqual(self.rows(self.table("Müller, Zoe;Bern"))[0], 0)
        self.assertEqual(len(self.book.records), 2)

    def test_what_only_a_check_names_is_entered_by_no_step_and_nothing_is_pressed(self) -> None:
        for check, head in (('The list shows "{name}"', "name"), ("It shows {{pin}}", "pin")):
            shutil.rmtree(self.folder / "dumps")
            record(self.folder / "dumps", check, copy.deepcopy(STEPS[2:]))
            code, _, err = self.rows(self.table("A123", head=head), "--set", "allow_risky=secret")
            self.assertEqual((code, self.book.records), (2, []))
            self.assertIn("Nothing differs from row to row", err)
            self.assertFalse(self.run_folder(2).exists())

    def test_where_nobody_answers_what_has_no_risk_no_setting_is_told_that_allows_nothing(
        self,
    ) -> None:
        code, out = self.asked(self.table("A;Bern"), None)
        self.assertEqual(code, 1, out)
        self.assertNotIn("allow_risky=", out)
        self.assertIn("--confirm never allows everything", " ".join(out.split()))

    def test_what_another_table_had_is_left_out_and_told_and_the_table_is_not_over(self) -> None:
        self.rows(self.table("A;Bern", "B;Chur", name="january"))
        self.book.controls = Book(self.clock).controls  # which shows it in no list
        february = self.table("A;Bern", "C;Bern", name="february")
        for known in ("done", "skipped"):  # C, the second time
            code, out, _ = self.rows(february)
            self.assertEqual((code, self.outcomes()), (1, ["not begun", known]), out)
            told = r"known from .*january\.csv: done on \d{4}-\d\d-\d\d, run_0002$"
            self.assertRegex(self.results()[0]["sentence"], told)
            self.assertIn("1 not begun (1)", out)
        self.assertEqual(len(self.book.records), 3)
        code, out = self.asked(february, "n", "y", "y")
        self.assertIn("february.csv: done on ", out)

    def test_rows_are_known_whatever_became_of_their_file_of_results(self) -> None:
        self.rows(self.table("A;Bern"))
        (self.run_folder(2) / "results.csv").write_text("row;name;city\n", "cp1252")  # saved anew
        self.book.controls = Book(self.clock).controls  # which shows it in no list
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 0)
        self.assertEqual((self.outcomes(), len(self.book.records)), (["skipped"], 1))

    def test_a_table_that_is_under_way_is_left_to_the_one_that_does_it(self) -> None:
        self.rows(self.table("A;Bern", "B;Bern"), "--only-rows", "1")
        goes_on = agent.ExecutionLogger(agent.Config(), old=self.run_folder(2))
        code, out, _ = self.rows(self.table("A;Bern", "B;Bern"))
        goes_on.close()
        self.assertEqual((code, len(self.book.records)), (2, 1))
        self.assertIn("run_0002 does this task right now; wait until it ends, or stop it.", out)
        self.assertEqual(self.rows(self.table("A;Bern", "B;Bern"))[0], 0)  # as it was killed

    def entered_again(self, *options: str) -> tuple[int, str]:
        """The same row once more, where the form shows it in no list; it must not be entered."""
        self.book.controls = Book(self.clock).controls
        code, out, err = self.rows(self.table("A;Bern"), *options)
        self.assertEqual(self.book.records, [("A", "Bern")], out + err)
        return code, out + err

    def test_a_journal_that_cannot_be_read_now_ends_it_before_anything_is_done(self) -> None:
        self.rows(self.table("A;Bern"))
        read, held = Path.read_bytes, self.run_folder(2) / "turns.jsonl"

        def shared(path: Path) -> bytes:
            if path == held:
                raise PermissionError(13, "Permission denied")
            return read(path)

        with mock.patch.object(Path, "read_bytes", shared):
            code, told = self.entered_again()
        self.assertEqual(code, 2)
        self.assertIn("run_0002 holds no readable turns.jsonl (Permission denied)", told)
        held.write_bytes(b"")  # of which task it was nobody can tell
        self.assertIn("run_0002 holds no run", self.entered_again()[1])

    def test_a_damaged_line_ends_it_before_anything_is_done(self) -> None:
        self.rows(self.table("A;Bern"))
        journal = self.run_folder(2) / "turns.jsonl"
        lines = journal.read_text("utf-8").splitlines(True)
        torn = [line[:30] + "\n" if line.startswith('{"kind": "row"') else line for line in lines]
        journal.write_text("".join(torn), "utf-8")
        code, told = self.entered_again()
        self.assertEqual(code, 2)
        self.assertIn("run_0002 is damaged, so which rows it entered is not sure", told)

    def test_what_results_tell_counts_where_the_run_is_gone_or_in_another_folder(self) -> None:
        results = ("--results", str(self.folder / "all.csv"))
        self.rows(self.table("A;Bern"), *results)
        elsewhere = ("--set", f"dump_dir={self.folder / 'other'}")
        shutil.copytree(self.run_folder(1), self.folder / "other" / "run_0001")
        self.assertEqual(self.entered_again(*results, *elsewhere)[0], 0)
        shutil.rmtree(self.run_folder(2))
        self.assertEqual(self.entered_again(*results)[0], 0)
        self.assertIn(";skipped;known from ", (self.folder / "all.csv").read_text("utf-8"))

    def test_results_of_two_tables_in_one_file_tell_of_which_one_a_row_is(self) -> None:
        results = ("--results", str(self.folder / "all.csv"))
        self.rows(self.table("A;Bern", name="january"), *results)
        february = self.table("A;Bern", "C;Bern", name="february")
        for known in ("january.csv: done", "february.csv: not begun", "february.csv: not begun"):
            shutil.rmtree(self.run_folder(2))
            self.book.controls = Book(self.clock).controls  # which shows it in no list
            code, out, _ = self.rows(february, *results)
            self.assertEqual((code, self.outcomes()[0]), (1, "not begun"), out)
            self.assertIn(f"{known} on ", self.results()[0]["sentence"])
        self.assertEqual(self.book.records, [("A", "Bern"), ("C", "Bern")])
        self.assertEqual({row["table (file)"] for row in self.results()}, {february})

    def test_results_of_another_task_or_of_other_columns_are_left_as_they_are(self) -> None:
        """Or a row would be told as done that was done for something else."""
        path = self.folder / "all.csv"
        results = ("--results", str(path))
        table = self.table("A;Bern")
        self.rows(table, *results)
        own = path.read_text("utf-8-sig")
        self.book = Book(self.clock)
        shutil.rmtree(self.run_folder(2))
        for told in (own.replace(TASK, "send a letter"), own.replace(";city;", ";town;")):
            path.write_text(told, "utf-8")
            code, out, _ = self.rows(table, *results)
            self.assertIn("all.csv tells of another task, or other columns; move it away.", out)
            self.assertEqual((code, self.book.records), (2, []))
            self.assertEqual(path.read_text("utf-8"), told)

    def test_results_keep_what_they_tell_of_rows_that_a_run_has_not(self) -> None:
        """Of lines of their table that were not named, and of another table."""
        results = ("--results", str(self.folder / "all.csv"))
        table = self.table("A;Bern", "B;Bern", "C;Bern")
        for words in ((table, "--only-rows", "1-2"), (table, "--only-rows", "3"), (table,)):
            self.book.controls = Book(self.clock).controls  # which shows it in no list
            self.rows(*words, *results)
            shutil.rmtree(self.run_folder(2))
        self.rows(self.table("D;Bern", name="february"), *results)
        self.assertEqual([name for name, _ in self.book.records], ["A", "B", "C", "D"])
        lines = (self.folder / "all.csv").read_text("utf-8-sig").splitlines()[1:]
        told = [(line.split(";")[0], line.split(";")[1], line.split(";")[5]) for line in lines]
        known = [("1", "A", "skipped"), ("2", "B", "skipped"), ("3", "C", "skipped")]
        self.assertEqual(told, [("1", "D", "done"), *known])

    def test_results_are_written_to_one_file_though_the_other_one_is_open_at_the_end(self) -> None:
        real = Path.replace
        for held in ("results.csv", "all.csv"):

            def shared(path: Path, target: Path, held: str = held) -> Path:
                if target.name == held and self.book.records:
                    raise PermissionError(errno.EACCES, "Permission denied")
                return real(path, target)

            self.setUp()
            with mock.patch.object(Path, "replace", shared), mock.patch.object(time, "sleep"):
                code, out, err = self.rows(
                    self.table("A;Bern"), "--results", str(self.folder / "all.csv")
                )
            self.assertEqual(code, 1)
            self.assertIn(f"{held} cannot be written", out + err)
            for path in (self.folder / "all.csv", self.run_folder(2) / "results.csv"):
                told = path.read_text("utf-8-sig")
                self.assertEqual(";done;" in told, path.name != held, told)

    def test_results_that_do_not_name_their_table_are_asked_about(self) -> None:
        path = self.folder / "all.csv"
        path.write_text(
            "row,name,city,outcome,sentence,seconds,requests,run\n1,A,Bern,done,x,1,0,run_0007\n",
            "utf-8",
        )
        code, out, _ = self.rows(self.table("A;Bern"), "--results", str(path))
        self.assertEqual((code, self.outcomes(), self.book.records), (1, ["not begun"], []), out)
        told = r"known from an older run: done on \d{4}-\d\d-\d\d, run_0007$"
        self.assertRegex(self.results()[0]["sentence"], told)

    def test_results_of_before_stay_where_they_cannot_be_written(self) -> None:
        path = self.folder / "all.csv"
        self.rows(self.table("A;Bern"), "--results", str(path))
        held, real = path.read_bytes(), open

        class Gone(io.TextIOWrapper):
            def close(self) -> None:
                super().close()
                raise OSError(errno.EIO, "Input/output error")

        def gone(file: Any, *words: Any) -> Any:
            return Gone(real(file, "ab")) if Path(file) == path else real(file, *words)

        with mock.patch("builtins.open", gone):
            code, out, _ = self.rows(self.table("A;Bern"), "--results", str(path))
        self.assertEqual((code, path.exists() and path.read_bytes()), (2, held), out)
        self.assertIn("all.csv cannot be written: Input/output error", out)

    def test_a_stop_in_a_row_is_told_of_it(self) -> None:
        self.book.happens = lambda text: self.clock.stop.set("Ctrl+C") if text == "B" else None
        code, out, _ = self.rows(self.table("A;Bern", "B;Bern", "C;Bern"))
        self.assertEqual(code, 130)
        self.assertEqual(self.outcomes(), ["done", "stopped"])
        self.assertIn("stopped: Ctrl+C. The same command again goes on with the rows.\n", out)

    def test_of_a_table_that_was_killed_no_row_tells_how_it_ended(self) -> None:
        self.rows(self.table("A;Bern", "B;Bern"))
        journal = self.run_folder(2) / "turns.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        rows = [at for at, line in enumerate(lines, 1) if line.startswith(b'{"kind": "row"')]
        self.assertIn(b'"outcome": "done"', lines[rows[-1] - 1])
        for at in rows:
            journal.write_bytes(b"".join(lines[:at]))
            self.assertRegex(self.main("--runs")[1], r"(?m)^run_0002 .* planner +unfinished ")


class Troubles(RowsCase):
    """Many rows and what may come in between: every outcome is true by the form's own list."""

    ROWS = 24

    def test_each_outcome_is_true(self) -> None:
        book, clock = self.book, self.clock
        box = replace(WINDOW, handle=8, title="Question", owner=WINDOW)
        names = [f"R{number}" for number in range(1, self.ROWS + 1)]
        expected = dict.fromkeys(names, "done")
        every = self.ROWS // 8

        def later(seconds: float, *words: Any) -> None:
            clock.at(seconds, lambda: setattr(*words))

        def box_comes() -> None:
            book.front = box

        def moved() -> None:
            for name in ("Name:", "City:", "OK"):
                control = book.controls[name]
                book.controls[name] = replace(control, rect=control.rect.moved(5, 30))

        def slow() -> None:
            hold, name = book.hold, names[every * 3]

            def late(field: str, value: str) -> None:
                if field == "Name:" and value == name:
                    book.hold = hold
                    clock.at(1, lambda: hold(field, value))
                else:
                    hold(field, value)

            book.hold = late

        def cuts() -> None:
            book.fits = 2
            later(3, book, "fits", 1000)

        def closed() -> None:
            controls = book.controls
            book.controls = {}
            later(5.5, book, "controls", controls)

        def person_types() -> None:
            at["Basel"] = lambda: book.hold("Name:", "R19 and more")

        def server_gone() -> None:
            book.loses = True
            later(3, book, "loses", False)

        troubles = (None, None, moved, slow, cuts, closed, person_types, server_gone)
        outcomes = ("done", "skipped", "done", "done", "failed", "failed", "failed", "not proven")
        at = {names[every * number]: trouble for number, trouble in enumerate(troubles)}
        at[names[-1]] = box_comes
        expected |= {names[every * number]: outcome for number, outcome in enumerate(outcomes)}
        expected[names[-1]] = "failed"
        book.records = [(names[every], "Basel")]
        book.show_list()

        def happens(text: str) -> None:
            if at.get(text):
                at.pop(text)()

        book.happens = happens
        self.rows(self.table(*(f"{name};Basel" for name in names)), "--rows-on")
        rows = {row["name"]: row for row in self.results()}
        self.assertEqual({name: row["outcome"] for name, row in rows.items()}, expected, rows)
        self.assertEqual(len({*book.records}), len(book.records))
        entered = {name for name, outcome in expected.items() if outcome in ("done", "skipped")}
        self.assertEqual({*book.records}, {(name, "Basel") for name in entered})
        self.assertEqual({row["requests"] for row in rows.values()}, {"0"})


class Proven(CommandLineCase):
    def test_where_no_fact_tells_it_the_model_is_asked(self) -> None:
        self.main("--teach", "save a note", "--demo")
        journal = self.run_folder() / "turns.jsonl"
        lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        for line in lines:
            if line["kind"] == "intent" and "text" in line["args"]:
                line["value"] = "note"
        lines[-1]["checks"] = [{"check": "The note is saved"}]
        journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        (self.folder / "t.csv").write_text("note\nGood day\n", "utf-8")
        with self.drawn() as endpoint:
            words = ("--rows", str(self.folder / "t.csv"), "--endpoint", endpoint)
            code, out, err = self.main("--again", "save a note", *words)
        self.assertEqual((code, err), (0, ""), out)
        self.assertRegex(
            (self.run_folder(2) / "results.csv").read_text("utf-8-sig"),
            r"1,Good day,save a note,[^,]*t\.csv,done,.*,[1-9],run_0002",
        )


class Kept(RowsCase):
    """What tells which rows were entered stays, and is done again by no other way."""

    def test_neither_what_was_shown_nor_results_are_deleted_as_old(self) -> None:
        for number in (2, 4):
            self.rows(self.table(f"{number};Bern"))
            if number == 2:
                shutil.copytree(self.run_folder(1), self.run_folder(3))
        (self.run_folder(4) / "results.csv").unlink()
        other = self.run_folder(3) / "turns.jsonl"
        other.write_text(other.read_text("utf-8").replace(TASK, "enter an order"), "utf-8")
        (self.run_folder(4) / "large.png").write_bytes(bytes(2_000_000))
        self.rows(self.table("B;Bern"), "--set", "keep_megabytes=1")
        left = sorted(path.name for path in (self.folder / "dumps").iterdir())
        self.assertEqual(left, ["run_0001", "run_0002", "run_0003", "run_0005"])

    def test_a_table_is_neither_resumed_nor_replayed(self) -> None:
        self.rows(self.table("A;Bern"))
        for words in (("--resume", "2", "--task", "x"), ("--replay", "2")):
            with desktop_of_main(lambda _: self.book):
                code, _, err = self.main(*words)
            self.assertEqual(code, 2)
            self.assertIn("run_0002 did the rows of a table: the same command again goes on", err)

    def test_what_was_shown_is_still_known_after_runs_of_its_name(self) -> None:
        later = self.run_folder(2)
        later.mkdir()
        lines = (
            (self.run_folder() / "turns.jsonl").read_text("utf-8").replace("shown by hand", "qwen")
        )
        for gone in ('"value": "name"', '"value": "city"'):
            lines = lines.replace(gone, '"value": null')
        lines = re.sub(r'"control": \{.*?\}', '"control": null', lines)
        look = {
            "kind": "look",
            "screenshot": "screenshots/a.png",
            "width": 4,
            "height": 4,
            "title": "Customers",
        }
        lines = lines.replace("\n", f"\n{json.dumps(look)}\n", 1)
        (later / "screenshots").mkdir()
        (later / "screenshots" / "a.png").write_bytes(agent.encode_png(bytes(64), 4, 4))
        later.joinpath("turns.jsonl").write_text(lines, "utf-8")
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 0)


class OtherChecks(RowsCase):
    """What tells nothing of this very row is no proof, nor that its record is there."""

    def shown_with(self, check: str) -> None:
        shutil.rmtree(self.folder / "dumps")
        record(self.folder / "dumps", check)

    def test_a_check_that_names_no_value_is_no_fact(self) -> None:
        self.shown_with('The title is "Customers"')
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 1)
        self.assertEqual(self.outcomes(), ["not proven"])

    def test_a_value_is_no_word_of_its_check(self) -> None:
        for city in ("No", "never closed", 'the field says "no"', "Bern without 'Köniz'"):
            quoted = city.replace('"', '""')
            self.rows(self.table(f'A;"{quoted}"'))
            self.assertEqual((city, self.outcomes()), (city, ["done"]))

    def test_what_a_field_still_shows_is_no_record(self) -> None:
        self.shown_with('The field Name: holds "{name}"')
        self.book.hold("Name:", "A")
        self.rows(self.table("A;Bern"))
        self.assertEqual((self.outcomes(), self.book.records), (["not proven"], [("A", "Bern")]))

    def test_a_table_of_another_name_tells_nothing(self) -> None:
        self.rows(self.table("A;Bern"))
        journal = self.run_folder(2) / "turns.jsonl"
        journal.write_text(journal.read_text("utf-8").replace(TASK, "enter it elsewhere"), "utf-8")
        self.book.records, self.book.controls = [], Book(self.clock).controls
        self.rows(self.table("A;Bern"))
        self.assertEqual((self.outcomes(), len(self.book.records)), (["done"], 1))

    def test_a_limit_in_minutes_is_for_a_row(self) -> None:
        table = self.table(*(f"{number};Bern" for number in range(9)))
        self.assertEqual(self.rows(table, "--set", "minutes_most=0.02")[0], 0)
        self.assertGreater(sum(float(row["seconds"]) for row in self.results()), 1.2)

    def test_a_run_with_values_is_not_resumed_with_those_that_were_shown(self) -> None:
        self.book.happens = lambda text: self.clock.stop.set("Ctrl+C")
        again = ("--again", TASK, "--with", "name=A", "--with", "city=Bern")
        with desktop_of_main(lambda _: self.book), clock_of_main(self.clock):
            self.assertEqual(self.main(*again)[0], 130)
            demo = agent.DemoModel()
            self.addCleanup(demo.close)
            code, _, err = self.main("--resume", "--endpoint", demo.endpoint)
        self.assertNotEqual(code, 0)
        self.assertEqual(self.book.records, [])
        self.assertNotIn(EXAMPLES["city"], self.book.typed)
        self.assertIn("What was shown takes a value for each of", err)


class ByFile(RowsCase):
    """A file tells of a row what it did not hold before."""

    def setUp(self) -> None:
        super().setUp()
        self.file = self.folder / "book.txt"
        shutil.rmtree(self.folder / "dumps")
        record(self.folder / "dumps", f'{self.file} contains "{{name}}"')
        enter = self.book.enter

        def save() -> None:
            enter()
            self.file.write_text("".join(f"{name}\n" for name, _ in self.book.records), "utf-8")

        self.book.enter = save

    def test_what_it_holds_by_now_proves_a_row(self) -> None:
        self.assertEqual(self.rows(self.table("Hanna;Bern", "Otto;Bern"))[0], 0)
        self.assertEqual(self.outcomes(), ["done", "done"])

    def test_what_it_contradicts_is_not_done_though_nobody_verifies(self) -> None:
        self.file.write_text("", "utf-8")
        self.book.loses = True
        says = SaysYes((), ())
        with Model(says) as server:
            options = ("--endpoint", server.url, "--set", "verify_completion=false")
            self.assertEqual(self.rows(self.table("A;Bern"), *options)[0], 1)
        self.assertEqual(self.outcomes(), ["not proven"])

    def judged(self, check: str, *rows: str, saves: bool = True) -> tuple[list[str], str]:
        """The outcomes of rows with such a check, of which a model says that it holds."""
        shutil.rmtree(self.folder / "dumps")
        record(self.folder / "dumps", check)
        enter = self.book.enter

        def save() -> None:
            enter()
            if saves:
                (self.folder / f"{self.book.records[-1][0]}.txt").write_text("it", "utf-8")

        self.book.enter = save
        with Model(SaysYes((), ("one",))) as server:
            out = self.rows(self.table(*rows), "--endpoint", server.url)[1]
        return self.outcomes(), out

    def test_a_file_that_a_cell_names_has_to_be_there_whatever_a_model_says(self) -> None:
        path = f"{self.folder}/{{name}}.txt"
        for check in (path, f"The note is saved in {path}", f"{path} is saved as a note."):
            for saves, outcome in ((True, "done"), (False, "not proven")):
                with self.subTest(check, saves=saves):
                    self.book = Book(self.clock)
                    (self.folder / "A.txt").unlink(missing_ok=True)
                    outcomes, out = self.judged(check, "A;Bern", saves=saves)
                    self.assertEqual(outcomes, [outcome], out)
                    self.assertEqual("does not exist" in out, not saves, out)

    def test_a_file_that_is_to_go_or_that_a_list_is_to_show_may_be_nowhere(self) -> None:
        path = f"{self.folder}/{{name}}.txt"
        for check in (f"{path} was deleted", f'The box lists "{path}"', f"There is no {path}"):
            with self.subTest(check):
                self.book = Book(self.clock)
                outcomes, out = self.judged(check, "A;Bern", saves=False)
                self.assertEqual(outcomes, ["done"], out)

    def test_quotes_in_a_cell_are_matched_as_they_are(self) -> None:
        code, out, _ = self.rows(self.table('"say ""hi""";Bern', "“Otto”;Bern"))
        self.assertEqual((code, self.outcomes()), (0, ["done"] * 2), out)
        self.assertIn("shows it: ", out)

    def test_an_empty_cell_makes_its_check_void_which_is_told_before_anything_is_done(self) -> None:
        code, out, _ = self.rows(self.table("A;Bern", ";Bern"))
        self.assertEqual((code, self.outcomes()), (0, ["done"] * 2), out)
        before = " ".join(out.partition("    1  ")[0].split())
        self.assertIn("What a check quotes is empty, and proves nothing, in row 2.", before)

    def test_what_it_held_before_proves_nothing(self) -> None:
        self.assertEqual(self.rows(self.table("Hanna;Bern", "anna;Bern"))[0], 1)
        self.assertEqual((self.outcomes(), len(self.book.records)), (["done", "not proven"], 2))

    def test_a_file_that_no_value_names_is_no_record(self) -> None:
        shutil.rmtree(self.folder / "dumps")
        self.file.touch()
        record(self.folder / "dumps", f"{self.file} exists")
        self.rows(self.table("A;Bern"))
        self.assertEqual((self.outcomes(), self.book.records), (["not proven"], [("A", "Bern")]))

    def test_a_file_that_is_there_is_a_record_that_is_there(self) -> None:
        shutil.rmtree(self.folder / "dumps")
        record(self.folder / "dumps", f'"{self.folder}/{{name}}.txt" exists')
        (self.folder / "A.txt").touch()
        self.rows(self.table("A;Bern", "B;Bern"))
        self.assertEqual(self.outcomes(), ["skipped", "not proven"])


class Unchecked(RowsCase):
    check = ""

    def test_what_was_read_back_is_done(self) -> None:
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 0)
        self.assertIn("held what was typed", self.results()[0]["sentence"])

    def test_what_is_added_to_a_field_is_read_at_its_end(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        journal.write_text(
            journal.read_text("utf-8").replace('"empty": true', '"empty": false'), "utf-8"
        )
        self.book.hold("Name:", "Dr. ")
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 0)
        self.assertEqual(self.book.records, [("Dr. A", "Bern")])

    def test_what_nobody_can_read_is_not_proven(self) -> None:
        ask = Book.control_source.fget

        class Blind(Book):
            @property
            def control_source(self) -> agent.KnownControls:
                known = [replace(one, value=None) for one in ask(self).known]
                return agent.KnownControls(known)

        self.book = Blind(self.clock)
        self.assertEqual(self.rows(self.table("A;Bern"))[0], 1)
        self.assertEqual(self.outcomes(), ["not proven"])


class TooBusy(RowsCase):
    def test_a_field_that_tells_no_more_what_it_holds_ends_the_row_before_it_is_sent(self) -> None:
        ask = Book.control_source.fget

        class Busy(Book):
            @property
            def control_source(self) -> agent.KnownControls:
                known = ask(self).known
                if any(one.value == "Basel" for one in known):  # and it is not read again
                    self.busy = True
                silent = [replace(one, value=None) for one in known]
                return agent.KnownControls(silent if self.busy else known)

        self.book = Busy(self.clock)
        self.book.busy = False
        code, out, _ = self.rows(self.table("A;Bern", "B;Basel"), "--rows-on")
        self.assertEqual((code, self.outcomes()), (1, ["done", "failed"]), out)
        self.assertEqual(self.book.records, [("A", "Bern")])
        told = "does not tell any more what it holds; nothing was sent."
        self.assertIn(told, self.results()[1]["sentence"])


class Killed(RowsCase):
    """At whatever line the process is killed: gone on with, nothing is entered twice."""

    def test_at_each_line(self) -> None:
        table = self.table("A;Bern", "B;Chur")
        run = self.run_folder(2)
        Moment = tuple[list[bytes], bytes, list[tuple[str, str]]]
        moments: list[Moment] = []

        def keep(*_: Any) -> None:
            """What is on the disk and in the form, for each line of the journal since it was kept last."""
            lines, results = ((run / name) for name in ("turns.jsonl", "results.csv"))
            written = lines.read_bytes().splitlines(True) if lines.exists() else []
            known = results.read_bytes() if results.exists() else b""
            first = len(moments[-1][0]) if moments else 0
            for count in {*range(first + 1, len(written) + 1), len(written)}:
                moments.append((written[:count], known, [*self.book.records]))

        for name in ("foreground", "window_at", "capture", "enter", "text", "button"):
            does = getattr(self.book, name)

            def watched(*words: Any, does: Any = does) -> Any:
                keep()
                value = does(*words)
                keep()
                return value

            setattr(self.book, name, watched)
        with mock.patch("os.fsync", side_effect=keep) as synced:
            self.assertEqual(self.rows(table)[0], 0)
        # The results before the first row, and of each, with its record, its sending and its end.
        self.assertEqual(synced.call_count, 9)
        keep()
        distinct = {str(moment): moment for moment in moments}
        self.assertGreater(len(distinct), 40)
        outcomes = set()
        for lines, known, records in some([*distinct.values()], 4):
            shutil.rmtree(run, ignore_errors=True)
            shutil.rmtree(self.run_folder(3), ignore_errors=True)
            run.mkdir()
            (run / "turns.jsonl").write_bytes(b"".join(lines))
            if known:
                (run / "results.csv").write_bytes(known)
            self.book = Book(self.clock)
            self.book.records = [*records]  # and nobody sees them in its list
            self.rows(table, "--rows-on")
            self.assertEqual(len({*self.book.records}), len(self.book.records), lines[-1:])
            missing = {("A", "Bern"), ("B", "Chur")} - {*self.book.records}
            rows = [((row["name"], row["city"]), row["outcome"]) for row in self.results()]
            self.assertLessEqual(
                missing, {values for values, outcome in rows if outcome == "unsure"}
            )
            outcomes.add(tuple(outcome for _, outcome in rows))
        self.assertLessEqual(
            {("unsure", "done"), ("skipped", "unsure"), ("skipped", "skipped")}, outcomes
        )


class Asking(RowsCase):
    """One question for all; a cell permits nothing."""

    def test_a_no_ends_it_before_anything_is_done(self) -> None:
        code, out = self.asked(self.table("A;Bern", "B;"), "")
        self.assertEqual((code, self.book.records), (1, []), out)
        self.assertRegex(
            " ".join(out.split()),
            r"^(?!.*2 rows.*2 rows).*2 rows, of each: .*clear a field: 1\. Do this for all 2\? ",
        )

    def test_rows_that_are_done_are_entered_again_only_on_a_yes(self) -> None:
        table = self.table("A;Bern")
        self.rows(table)
        self.assertEqual(self.asked(table, "")[0], 0)
        self.assertEqual(self.outcomes(), ["skipped"])

    def test_one_row_is_entered_again_where_it_alone_is_named_and_somebody_says_yes(self) -> None:
        """It was deleted in the program, or stands in the table twice."""
        for rows, number in ((["A;Bern", "B;Bern"], "1"), (["A;Bern", "B;Bern", "A;Bern"], "3")):
            with self.subTest(number):
                shutil.rmtree(self.folder / "dumps")
                record(self.folder / "dumps", self.check)
                table = self.table(*rows)
                again = ("--only-rows", number)
                self.rows(table, "--only-rows", "1")
                self.book = Book(self.clock)  # whose list is empty
                self.rows(table, *again)
                self.assertEqual((self.outcomes(), self.book.records), (["skipped"], []))
                self.asked(table, "n", options=again)
                self.assertEqual((self.outcomes(), self.book.records), (["skipped"], []))
                code, out = self.asked(table, "y", "y", options=again)
                told = rf"Rows: 1 known from \S+: (?:done|skipped) on \S+ \S+ \({number}\)\. Enter again\?"
                self.assertRegex(" ".join(out.split()), told)
                self.assertEqual((code, self.outcomes()), (0, ["done"]), out)
                self.assertEqual(self.book.records, [("A", "Bern")])

    def test_of_rows_that_another_table_had_the_person_decides_once(self) -> None:
        self.rows(self.table("A;Bern", "B;Bern", name="january"))
        self.book.controls = Book(self.clock).controls  # which shows it in no list
        february = self.table("A;Bern", "C;Bern", "B;Bern", name="february")
        code, out = self.asked(february, "", "y")
        said = " ".join(out.split())
        told = (
            r"Rows: 2 known from \S*january\.csv: done on \S*, run_0002 \(1,3\)\. Enter again\?"
            r" Else they are left out\. \| y and Enter says yes; anything else "
        )
        self.assertRegex(said, told)
        self.assertEqual((code, self.outcomes()), (0, ["skipped", "done", "skipped"]), out)
        code, out = self.asked(february, "")
        said = " ".join(out.split())
        told = r"Rows: 2 known from \S*february\.csv: skipped on .* \(1,3\), 1 known .*: done .* \(2\)\."
        self.assertRegex(said, told)
        self.book.controls = Book(self.clock).controls
        self.assertEqual(self.asked(self.table("B;Bern", name="march"), "y", "y")[0], 0)
        self.assertEqual([name for name, _ in self.book.records], ["A", "B", "C", "B"])

    def test_what_is_not_sure_of_a_row_is_told_of_it_and_stays_so_without_a_yes(self) -> None:
        self.rows(self.table("A;Bern", "B;Bern", name="january"))
        journal = self.run_folder(2) / "turns.jsonl"
        lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        for line in lines:
            if line["kind"] == "row" and line["values"]["name"] == "A" and line["outcome"]:
                line["outcome"] = "unsure"
        journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        self.book.controls = Book(self.clock).controls  # which shows it in no list
        february = self.table("A;Bern", "B;Bern", name="february")
        code, out = self.asked(february, "")
        told = r"Rows: 1 known from \S*: unsure on .* \(1\), 1 known from \S*: done on .* \(2\)\."
        self.assertRegex(" ".join(out.split()), told)
        self.assertEqual((code, self.outcomes()), (1, ["unsure", "skipped"]), out)
        self.assertIn("1 unsure (1), 1 skipped (2)", out)
        self.assertEqual(self.rows(february)[0], 1)
        self.assertEqual(self.outcomes(), ["unsure", "skipped"])

    def test_results_that_cannot_be_written_are_told_before_anything_is_asked(self) -> None:
        self.rows(self.table("A;Bern"))
        with person_at_main(lambda out: None) as keyboard:
            gone = str(self.folder / "no folder" / "all.csv")
            code, out, _ = self.rows(self.table("A;Bern"), "--results", gone, stdin=keyboard)
            keyboard.end()
        self.assertEqual(code, 2)
        self.assertIn("all.csv cannot be written: No such file", out)
        self.assertNotIn("[y/N]", out)


class Risky(RowsCase):
    """A form that sends: what it takes is allowed once, by what was shown."""

    def setUp(self) -> None:
        super().setUp()
        self.book.controls["OK"] = replace(OK, name="Send order")
        journal = self.run_folder() / "turns.jsonl"
        shown = journal.read_text("utf-8").replace('"name": "OK"', '"name": "Send order"')
        journal.write_text(
            shown.replace('"element_name": "OK"', '"element_name": "Send order"'), "utf-8"
        )

    def test_one_yes_is_for_all_rows(self) -> None:
        code, out = self.asked(self.table("A;Bern", "B;Bern"), "y")
        self.assertEqual((code, len(self.book.records)), (0, 2), out)
        self.assertIn(
            "2 rows, of each: click \"Send order\" in 'Customers' (send)", " ".join(out.split())
        )

    def test_where_nobody_can_be_asked_nothing_is_begun(self) -> None:
        code, out, err = self.rows(self.table("A;Bern"))
        self.assertEqual((code, self.book.typed), (1, []))
        self.assertIn("allow_risky=send", out)
        self.assertIn("The rows were not allowed; nothing was done", out)
        self.assertEqual(self.outcomes(), [])
        self.assertEqual(self.rows(self.table("A;Bern"), "--set", "allow_risky=send")[0], 0)

    def test_what_is_known_of_rows_stands_in_the_results_where_the_others_are_not_allowed(
        self,
    ) -> None:
        self.rows(self.table("A;Bern", name="january"), "--set", "allow_risky=send")
        self.book.controls = {**Book(self.clock).controls, "OK": self.book.controls["OK"]}
        path = self.folder / "all.csv"
        february = self.table("A;Bern", "B;Bern", name="february")
        code, out, _ = self.rows(february, "--results", str(path))
        self.assertIn("The rows were not allowed", out)
        self.assertEqual((code, self.outcomes()), (1, ["not begun"]))
        self.assertEqual(path.read_bytes(), (self.run_folder(3) / "results.csv").read_bytes())

    def test_results_that_cannot_be_written_end_it_before_anything_is_done(self) -> None:
        gone = str(self.folder / "no folder" / "all.csv")
        code, out, _ = self.rows(
            self.table("A;Bern"), "--results", gone, "--set", "allow_risky=send"
        )
        self.assertEqual((code, self.book.typed), (2, []))
        self.assertIn("all.csv cannot be written: No such file", out)
        Path(self.folder / "notes.csv").write_text("a,b\n1,2\n", "utf-8")
        notes = ("--results", str(self.folder / "notes.csv"), "--set", "allow_risky=send")
        _, out, _ = self.rows(self.table("A;Bern"), *notes)
        self.assertIn("notes.csv is no table of results; move it away", out)
        self.assertEqual(self.book.typed, [])

    def test_a_table_of_a_persons_own_is_never_written_over(self) -> None:
        own = b"\xef\xbb\xbfrow,customer,phone\r\n1,Meier,044\r\n"  # as a spreadsheet saves it
        path = self.folder / "mine.csv"
        path.write_bytes(own)
        results = ("--results", str(path), "--set", "allow_risky=send")
        self.assertEqual(self.rows(self.table("A;Bern"), *results)[0], 2)
        self.assertEqual((path.read_bytes(), self.book.typed), (own, []))


class Typed(RowsCase):
    """What is typed for a step is allowed with it; what a cell has Windows run is not."""

    def shown(self, *steps: tuple[str, str, dict[str, Any]], program: str, title: str) -> None:
        shutil.rmtree(self.folder / "dumps")
        record(self.folder / "dumps", "", copy.deepcopy(steps))
        journal = self.run_folder() / "turns.jsonl"
        told = journal.read_text("utf-8").replace("soffice.exe", program)
        journal.write_text(told.replace('"title": "Customers"', f'"title": "{title}"'), "utf-8")
        self.book.front = replace(WINDOW, program=program, title=title)
        self.book.controls = {
            name: replace(one, program=program) for name, one in self.book.controls.items()
        }

    def test_a_yes_is_for_a_secret_that_is_typed_in_each_row(self) -> None:
        table = self.table("A A;Wxyz-4711", "B B;Vwxy-0815", head="name;{{City}}")
        code, out = self.asked(table, "y")
        self.assertEqual((code, self.outcomes()), (0, ["done"] * 2), out)
        self.assertEqual(self.book.records, [("A A", "Wxyz-4711"), ("B B", "Vwxy-0815")])
        self.assertEqual(out.count("Do this for all 2?"), 1)
        self.assertRegex(" ".join(out.split()), r"type text \"\{\{city\}\}\" .*\(secret\)")

    def test_a_yes_for_a_secret_is_for_the_site_or_else_the_page_that_shows_then(self) -> None:
        city = {**STEPS[1][2], "args": {"text": "{{pin}}", "element_name": "City:"}, "value": None}
        bar = replace(NAME, name="Address and search bar", rect=Rect(9, 9, 300, 20))
        shop = "Shop - Chrome"
        for knows, site, page, answers in (
            (True, "bank.example", shop, ["y"]),
            (True, "other.example", "Bank - Chrome", ["y", "n"]),
            (False, "", "Bank - Chrome", ["y"]),
            (False, "", shop, ["y", "n"]),
        ):
            with self.subTest(knows=knows, site=site, page=page):
                self.book = Book(self.clock)
                if knows:
                    self.book.controls["bar"] = replace(bar, value="https://bank.example/a")
                steps = (STEPS[0], ("City:", "edit", city))
                self.shown(*steps, program="chrome.exe", title="Bank - Chrome")

                def goes(text: str, site: str = site, page: str = page) -> None:
                    self.book.front = replace(self.book.front, title=page)
                    if site:
                        shown = replace(bar, value=f"https://{site}/b", program="chrome.exe")
                        self.book.controls["bar"] = shown

                self.book.happens = goes
                _, out = self.asked(self.table("A A;Wxyz-4711", head="name;pin"), *answers)
                self.assertEqual("Wxyz-4711" in self.book.typed, answers == ["y"], out)

    def test_a_yes_is_for_enter_behind_a_text(self) -> None:
        says = {"text": "Meier, Anna", "element_name": "Name:", "submit": True}
        note = ("Name:", "edit", {"tool": "type_text", "args": says, "value": "name"})
        self.shown(note, program="teams.exe", title="Chat")
        sent = self.sends_by_enter()
        code, out = self.asked(self.table("A A", "B B", head="name"), "y")
        self.assertIn("type text \"{name}\" in 'Chat' (send)", " ".join(out.split()))
        self.assertEqual(sent, ["A A", "B B"], out)

    def sends_by_enter(self) -> list[str]:
        """What then is sent, in the order of that."""
        sent: list[str] = []
        press = self.book.key

        def key(name: str, down: bool) -> None:
            press(name, down)
            if down and name == "enter":
                sent.append(self.book.controls["Name:"].value or "")

        self.book.key = key  # type: ignore[method-assign]
        return sent

    def test_what_a_cell_has_windows_run_is_asked_about_in_its_row(self) -> None:
        runs = {"text": "mkdir Basel", "element_name": "Name:", "submit": True}
        line = ("Name:", "edit", {"tool": "type_text", "args": runs, "value": "name"})
        fixed = {**runs, "text": "mkdir x"}
        for steps, cell, answers, expected in (
            ((line,), "rmdir Bern", ["y", "n"], []),
            ((line,), "mkdir Basel", ["y"], ["mkdir Basel"]),
            (
                (("Name:", "edit", {"tool": "type_text", "args": fixed}), line),
                "rmdir Bern",
                ["y", "n"],
                ["mkdir x"],
            ),
        ):
            with self.subTest(cell=cell, expected=expected):
                self.book = Book(self.clock)
                self.shown(*steps, program="cmd.exe", title="Command Prompt")
                sent = self.sends_by_enter()
                _, out = self.asked(self.table(cell, head="name"), *answers)
                self.assertEqual(sent, expected, out)

    def test_a_command_in_a_column_of_secrets_is_asked_about_in_its_row(self) -> None:
        says = {"text": "mkdir x", "element_name": "Name:"}
        line = ("Name:", "edit", {"tool": "type_text", "args": says, "value": "name"})
        enter = ("Name:", "edit", {"tool": "press_key", "args": {"key": "enter"}})
        for program, title in (("cmd.exe", "Command Prompt"), ("pwsh.exe", "PowerShell")):
            with self.subTest(program=program):
                self.book = Book(self.clock)
                self.shown(line, enter, program=program, title=title)
                sent = self.sends_by_enter()
                table = self.table("rmdir /s /q C:\\Bern", head="{{name}}")
                _, out = self.asked(table, "y", "n")
                self.assertEqual(sent, [], out)

    def test_a_file_that_a_cell_has_started_is_asked_about_in_its_row(self) -> None:
        for title, program, name, texts in (
            ("New Action", "mmc.exe", "Program/script:", ("notepad.exe", "cmd.exe")),
            ("Create Shortcut", "explorer.exe", "Location of the item:", ("calc.exe", "cmd /c x")),
        ):
            field = Control(name, "edit", Rect(0, 0, 9, 9), "", program=program)
            foreseen = []
            for text_there in texts:
                stage = Stage()
                front = agent.Window(7, title, program=program, class_name="#32770")
                typed = replace(act("type_text", text=text_there), way=1)
                attempt = stage.actuator.foresee(typed, front, field, [field])
                self.assertIn("file", attempt.risks, title)
                foreseen.append(stage.actuator.risks_of_way(attempt))
            self.assertNotEqual(*foreseen)

    def test_a_yes_is_for_saving_over_what_a_field_holds_when_it_is_asked_for(self) -> None:
        """Also where the field was empty when it was shown, or what was typed then has any sign."""
        city = {"text": "Basel", "element_name": "City:"}
        replaces = {"text": "What now?", "clear": True, "element_name": "City:"}
        for shown, held, is_risky in (
            (city, "", False),
            (city, "What stood there", True),
            (replaces, "What stood there", True),
        ):
            with self.subTest(shown=shown, held=held):
                self.book = Book(self.clock)
                self.book.controls["OK"] = replace(OK, name="Save")
                field = ("City:", "edit", {"tool": "type_text", "args": shown, "value": "city"})
                self.shown(STEPS[0], field, STEPS[2], program="soffice.exe", title="Customers")
                journal = self.run_folder() / "turns.jsonl"
                told = journal.read_text("utf-8").replace('"OK"', '"Save"')
                if shown is replaces:
                    told = told.replace('"empty": true', '"empty": false')
                journal.write_text(told, "utf-8")
                self.book.hold("City:", held)
                code, out = self.asked(self.table("A;Bern", "B;Chur"), "y")
                self.assertEqual(self.book.records, [("A", "Bern"), ("B", "Chur")], out)
                risky = "2 rows, of each: click \"Save\" in 'Customers' (overwrite)."
                self.assertEqual(risky in " ".join(out.split()), is_risky, out)

    def test_a_yes_is_for_enter_where_nobody_knows_the_program(self) -> None:
        note = (
            "Name:",
            "edit",
            {"tool": "type_text", "args": STEPS[0][2]["args"], "value": "name"},
        )
        enter = ("Name:", "edit", {"tool": "press_key", "args": {"key": "enter"}})
        self.shown(note, enter, program="crm.exe", title="Customers")
        sent = self.sends_by_enter()
        code, out = self.asked(self.table("A A", "B B", head="name"), "y")
        self.assertEqual((code, sent), (0, ["A A", "B B"]), out)

    def test_a_yes_is_for_each_key_that_chooses_from_a_list(self) -> None:
        entries = ["Basel", "Bern", "Chur", "Genf"]
        city = replace(CITY, role="combo box", fixed=True, value="Basel")
        chooses = {"tool": "type_text", "args": {"text": "Basel", "element_name": "City:"}}
        self.book.controls["City:"] = city
        steps = (STEPS[0], ("City:", "combo box", {**chooses, "value": "city"}))
        self.shown(*steps, program="crm.exe", title="Customers")

        types = self.book.key

        def key(name: str, down: bool) -> None:
            types(name, down)
            held = self.book.controls["City:"].value or ""
            if self.book.focus == "City:" and down and name in ("home", "down", "up"):
                step = 1 if name == "down" else -1
                at = 3 if name == "home" else min(max(entries.index(held) + step, 0), 3)
                self.book.hold("City:", entries[at])

        press = self.book.button

        def button(name: str, down: bool) -> None:
            press(name, down)
            if self.book.controls["City:"].rect.contains(self.book._cursor):
                self.book.focus = "City:"

        self.book.key, self.book.button = key, button  # type: ignore[method-assign]
        self.book.controls["Name:"] = replace(NAME, program="crm.exe")
        code, out = self.asked(self.table("A A;Genf", "B B;Chur"), "y")
        self.assertEqual((code, self.outcomes()), (0, ["done"] * 2), out)
        self.assertIn("unknown)", out)


class Weightier(RowsCase):
    """In a program that nobody knows a step may be asked about for more than one reason."""

    def test_a_yes_is_for_each_risk_of_a_step_also_where_a_row_meets_it_alone(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        shown = {"element_name": "Send order", "position": {"x": 1, "y": 1}}
        lines[4]["control"] |= {"role": "button", "name": "Send order"}
        lines[5] |= {"tool": "click", "args": shown, "value": "city"}
        told = "".join(f"{json.dumps(line)}\n" for line in lines)
        journal.write_text(told.replace("soffice.exe", "crm.exe"), "utf-8")
        window = replace(WINDOW, program="crm.exe")
        bern = replace(OK, name="Bern", rect=Rect(200, 400, 300, 30))
        self.book.front = window
        self.book.controls = {
            name: replace(one, program="crm.exe")
            for name, one in {**self.book.controls, "Bern": bern}.items()
        }
        with (
            mock.patch("tests.test_rows.WINDOW", window),
            mock.patch("tests.test_recording.WINDOW", window),
        ):
            code, out = self.asked(self.table("A;Bern"), "y")
        self.assertEqual((self.book.records, code), ([("A", "")], 1), out)
        self.assertIn("(unknown, send)", " ".join(out.split()))


class Picked(RowsCase):
    """A cell names what is picked, and permits nothing."""

    def test_what_was_not_foreseen_is_refused_and_fails_the_row(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        lines[4]["control"] |= {"role": "list item", "name": "Basel"}
        position = {"x": 1, "y": 1}
        lines[5] |= {
            "tool": "click",
            "args": {"element_name": "Basel", "position": position},
            "value": "city",
        }
        journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        for number, name in enumerate(("Bern", "Delete all", "Chur", "")):
            place = Rect(200, 400 + 40 * number, 300, 30)
            self.book.controls[name] = replace(OK, name=name, role="list item", rect=place)
        code, _, err = self.rows(self.table("A;Bern", "B;"))
        self.assertEqual((code, self.book.typed), (2, []), err)
        self.assertIn("row 2, city: city is chosen by its name, and cannot be empty.", err)
        with desktop_of_main(lambda _: self.book), clock_of_main(self.clock):
            words = ("--again", TASK, "--with", "name=A", "--with", "city=")
            code, _, err = self.main(*words)
        self.assertEqual((code, self.book.typed), (2, []), err)
        self.assertIn("city is chosen by its name, and cannot be empty.", err)
        code, out, _ = self.rows(self.table("A;Bern", "B;Delete all", "C;Chur"), "--rows-on")
        self.assertEqual((code, self.book.records), (1, [("A", "Bern"), ("C", "Chur")]), out)
        self.assertEqual(self.outcomes(), ["done", "failed", "done"])
        self.assertIn(
            "Nobody can be asked here whether this is allowed (delete)",
            self.results()[1]["sentence"],
        )


class Words(RowsCase):
    def test_what_needs_rows_says_so(self) -> None:
        for words, told in (
            ("--rows-on note", "--rows-on needs --rows FILE"),
            (
                "--rows x.csv note",
                "name what does in the task, as {city}, or show it once with --teach",
            ),
            (f"--again|{TASK}|--rows|x.csv", "cannot be read: No such file"),
            (f"--again|{TASK}|--with|name=1|--with| name=2", "each name once, not ' name=2'"),
            ("--again|other|--demo|--rows|x.csv", "Nothing was shown or done as 'other'"),
            (f"--again|{TASK}|--rows|x.csv|--max-rows|0", "max_rows"),
            (f"--again|{TASK}|--rows|x.csv|--schedule|25:00", "takes a time such as 07:30"),
            ("note|--schedule|07:30|--set|max_step=3", "the nearest is max_steps"),
            ("note|--schedule|07:30|--profile|plan", "There is no profile 'plan'"),
            ("note|--schedule|07:30|--config|none.json", "none.json cannot be read"),
        ):
            split = words.split("|" if "|" in words else " ")
            with desktop_of_main(lambda _: self.book):
                code, _, err = self.main(*split)
            self.assertEqual(code, 2)
            self.assertIn(told, err)

    def test_a_line_that_windows_would_cut_is_refused(self) -> None:
        words = ("--again", TASK, "--rows", "c" * 260, "--schedule=07:30")
        code, _, err = self.main(*words)
        self.assertEqual(code, 2)
        self.assertRegex(err, r"Windows takes 261 characters at most, and this command has \d{3}: ")
        self.assertLess(len(err), 200)

    def test_a_folder_in_which_cmd_cannot_be_is_refused(self) -> None:
        for folder in (r"\\server\share", r"\\?\C:\agent"):
            with mock.patch("os.getcwd", lambda folder=folder: folder):
                code, out, err = self.main("note", "--schedule", "07:30")
            self.assertEqual((code, out), (2, ""))
            self.assertIn("without a drive", err)

    def test_two_daily_tasks_of_one_time_have_two_names(self) -> None:
        lines = {
            self.main(*words, "--schedule", "07:30")[1].partition(" /TR ")[0]
            for words in (("note",), ("Save: it",), ("note", "--rows", "a.csv"))
        }
        names = {line.partition(" /TN ")[2] for line in lines}
        told = {"note", "Save_it", "note_rows_a_csv"}
        self.assertEqual(names, {f'"agent.py 07.30 {name}"' for name in told})

    def test_the_line_for_windows_is_printed_and_not_run(self) -> None:
        code, out, _ = self.main("--again", TASK, "--rows", "c.csv", "--schedule", "07:30")
        self.assertEqual(code, 0)
        line = out.splitlines()[0]  # in one piece, however wide the terminal is
        self.assertIn("schtasks /Create /SC DAILY /ST 07:30", line)
        self.assertIn("Enter that line in a Command Prompt (cmd)", out.splitlines()[1])
        # What schtasks makes has DisallowStartIfOnBatteries and StopIfGoingOnBatteries.
        self.assertIn("on battery Windows neither starts such a task nor", out.splitlines()[1])
        self.assertIn(f'\\"--again\\" \\"{TASK}\\" \\"--rows\\" \\"c.csv\\""', line)
        self.assertNotIn("--schedule", line)
        _, out, _ = self.main("--schedule=06:30", "--again", TASK, "--schedule", "07:30")
        self.assertIn("/ST 07:30", out)
        self.assertNotIn("--schedule", out)


def on_form(control: Control, tool: str, **args: Any) -> dict[str, Any]:
    """A call of the model at a control of the form."""
    x, y = agent.middle_of(control.rect)
    position = [round(1000 * x / 1279), round(1000 * y / 719)]
    return call(tool, element_name=control.name, position=position, reasoning="next", **args)


def enters(name: str, city: str, *more: Any) -> tuple[Any, ...]:
    """What a model does to enter a customer."""
    return (
        on_form(NAME, "click_screen_element"),
        call("type_text_input", text=name),
        on_form(CITY, "click_screen_element"),
        call("type_text_input", text=city),
        *more,
        on_form(OK, "click_screen_element"),
    )


class Doubts(SaysYes):
    """A model that sees no proof of anything."""

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        return (
            text("1 NO: it is not") if role_of(request) == "verifier" else super().__call__(request)
        )


class WordsCase(RowsCase):
    kind: type[SaysYes] = SaysYes
    task = "Enter the customer {name}, {City}"
    first = ("Meier, Anna", "Basel")
    checks = ('The list shows "Meier, Anna · Basel"',)

    def setUp(self) -> None:
        super().setUp()
        shutil.rmtree(self.folder / "dumps")
        self.requests: list[dict[str, Any]] = []

    def entered(
        self,
        *rows: str,
        acts: Any = None,
        options: Any = (),
        stdin: Any = b"",
        head: str = "Name;City",
    ) -> tuple[int, str]:
        says = self.kind(acts or enters(*self.first), self.checks)

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            self.requests.append(request)
            return says(request)

        def book(clock: Any) -> Book:
            self.book.clock = clock
            return self.book

        table = self.table(*rows, head=head)
        words = [self.task, "--rows", table, "--set", "settle_cap_ms=1", *options]
        clock = clock_of_main(self.clock) if stdin == b"" else contextlib.nullcontext()
        with desktop_of_main(book), clock, Model(decide) as server:
            code, out, err = self.main(*words, "--endpoint", server.url, stdin=stdin)
        return code, out + err

    def answered(self, *rows: str, answers: dict[str, str], **how: Any) -> tuple[int, str]:
        """With a person who answers questions that have these words."""
        left, at = dict(answers), [0]

        def types(out: str) -> str | None:
            new = out[at[0] :]
            for words in left:
                if words in new and ("does not." in new or "Type an answer" in new):
                    at[0] = len(out)
                    return left.pop(words)
            return None

        with person_at_main(types) as keyboard:
            code, out = self.entered(*rows, stdin=keyboard, **how)
            keyboard.end()
        self.assertEqual(left, {}, out)
        return code, out


class InWords(WordsCase):
    """A task that names columns: the model does the first row, and the others go its way."""

    def test_enter_behind_a_text_that_was_typed_at_a_caption_is_for_its_field(self) -> None:
        class Sends(Book):
            def key(self, name: str, down: bool) -> None:
                super().key(name, down)
                if down and name == "enter":
                    self.enter()

        self.book = Sends(self.clock)
        place = CITY.rect._replace(left=CITY.rect.left - 150, width=100)
        caption = replace(CITY, name="City", role="text", rect=place, value=None)
        self.book.controls["caption"] = caption
        press = self.book.button

        def button(name: str, down: bool) -> None:
            press(name, down)
            if caption.rect.contains(self.book._cursor):
                self.book.focus = "City:"

        self.book.button = button  # type: ignore[method-assign]
        x, y = agent.middle_of(caption.rect)
        says = {"text": "Basel", "submit": True, "reasoning": "next"}
        at = [round(1000 * x / 1279), round(1000 * y / 719)]
        acts = [
            on_form(NAME, "click_screen_element"),
            call("type_text_input", text="Meier, Anna"),
            call("type_text_input", element_name="City", position=at, **says),
        ]
        _, out = self.entered('"Meier, Anna";Basel', "Otto;Bern", acts=acts)
        self.assertEqual(self.outcomes(), ["done"] * 2, out)
        self.assertEqual(self.book.records, [self.first, ("Otto", "Bern")])

    def test_a_row_without_the_name_of_what_is_chosen_fails_alone(self) -> None:
        for number, name in enumerate(("Basel", "Bern")):
            place = Rect(200, 400 + 40 * number, 300, 30)
            self.book.controls[name] = replace(OK, name=name, role="list item", rect=place)
        acts = (
            on_form(NAME, "click_screen_element"),
            call("type_text_input", text="Meier, Anna"),
            on_form(self.book.controls["Basel"], "click_screen_element"),
            on_form(OK, "click_screen_element"),
        )
        self.checks = ('The list shows "Meier, Anna"',)
        rows = ('"Meier, Anna";Basel', "Otto;", "Hugo;Bern")
        code, out = self.entered(*rows, acts=acts, options=("--rows-on",))
        self.assertEqual((code, self.outcomes()), (1, ["done", "failed", "done"]), out)
        self.assertIn("City is chosen by its name, and cannot be empty.", out)

    def test_the_others_go_the_way_of_the_first_without_the_model(self) -> None:
        code, out = self.entered('"Meier, Anna";Basel', "O'Hara;Bern", "=1+1;{{PIN}}")
        self.assertEqual(code, 0, out)
        records = [self.first, ("O'Hara", "Bern"), ("=1+1", "{{PIN}}")]
        self.assertEqual(self.book.records, records)
        self.assertEqual(self.outcomes(), ["done"] * 3)
        first, *others = (row["requests"] for row in self.results())
        self.assertGreater(int(first), 5)
        self.assertEqual(others, ["0", "0"])
        self.assertIn("Enter the customer Meier, Anna, Basel", json.dumps(self.requests))
        self.assertIn('The list shows "O\'Hara · Bern"', self.results()[1]["sentence"])

    def test_what_the_model_saw_closer_is_found_wherever_it_stands_for_the_others(self) -> None:
        acts = [*enters(*self.first)]
        x, y = agent.middle_of(OK.rect)
        there = [round(1000 * x / 639), round(1000 * y / 359)]  # on the grid of that quarter
        press = call("click_screen_element", element_name="OK", position=there, reasoning="next")
        acts[-1:] = [call("zoom", position=[10, 10]), press]
        enter = self.book.enter

        def enters_and_moves() -> None:
            enter()
            self.book.controls["OK"] = replace(OK, rect=Rect(900, 500, 80, 30))

        self.book.enter = enters_and_moves  # type: ignore[method-assign]
        code, out = self.entered('"Meier, Anna";Basel', "O'Hara;Bern", acts=acts)
        self.assertEqual((code, self.outcomes()), (0, ["done"] * 2), out)

    def test_an_empty_cell_types_nothing_at_the_caret_or_clears_what_is_there(self) -> None:
        for keeps in (False, True):
            with self.subTest(keeps=keeps):
                self.book = Book(self.clock)
                shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                hold = self.book.hold

                def held(name: str, value: str, hold: Any = hold, keeps: bool = keeps) -> None:
                    if not keeps or self.book.focus != "":
                        hold(name, value)

                enter = self.book.enter

                def enters_it(enter: Any = enter) -> None:
                    self.book.focus = ""
                    enter()

                self.book.hold = held  # type: ignore[method-assign]
                self.book.enter = enters_it  # type: ignore[method-assign]
                code, out = self.entered('"Meier, Anna";Basel', "Otto;")
                self.assertEqual((code, self.outcomes()), (0, ["done"] * 2), out)
                self.assertEqual(self.book.records, [self.first, ("Otto", "")])

    def test_the_model_does_the_first_row_in_which_no_cell_is_empty(self) -> None:
        self.checks = ('The list shows "Otto · Bern"',)
        rows = ('"Meier, Anna";', "Otto;Bern", "Hugo;")
        code, out = self.entered(*rows, acts=enters("Otto", "Bern"))
        self.assertEqual((code, self.outcomes()), (0, ["done"] * 3), out)
        records = [("Otto", "Bern"), ("Meier, Anna", ""), ("Hugo", "")]
        self.assertEqual(self.book.records, records)

    @for_the_gate
    def test_a_text_that_enter_behind_it_sends_is_read_before_that(self) -> None:
        class Sends(Book):
            def key(self, name: str, down: bool) -> None:
                super().key(name, down)
                if down and name == "enter":
                    self.enter()

        for how in ({"text": "Basel", "submit": True}, {"text": "Basel\n"}):
            for fits, outcomes in ((1000, ["done", "done"]), (5, ["done", "failed"])):
                with self.subTest(how, fits=fits):
                    self.book = Sends(self.clock)
                    self.book.fits = fits
                    shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                    acts = [*enters("Meier, Anna", "Basel")[:3], call("type_text_input", **how)]
                    rows = ('"Meier, Anna";Basel', "Otto;Luzern")
                    code, out = self.entered(*rows, acts=acts)
                    self.assertEqual(self.outcomes(), outcomes, out)
                    expected = [self.first, ("Otto", "Luzern")][: outcomes.count("done")]
                    self.assertEqual(self.book.records, expected)

    def test_memory_has_room_for_as_many_acts_as_elsewhere(self) -> None:
        few = ("--set", "memory_compression_threshold=4")
        self.entered('"Meier, Anna";Basel', options=few)
        self.assertIn("archive", [record["kind"] for record in self.records()])

    def test_a_value_that_is_called_as_another_column_is_told_from_its_name(self) -> None:
        self.task = "Enter {customer} in {City}"
        self.checks = ('The list shows "Meier, Anna · Customer"',)
        acts = enters("Meier, Anna", "Customer")
        rows = ('"Meier, Anna";Customer', "Otto;Bern")
        code, out = self.entered(*rows, acts=acts, head="customer;City")
        self.assertEqual((code, self.outcomes()), (0, ["done"] * 2), out)
        self.assertIn('shows it: The list shows "Otto · Bern"', self.results()[1]["sentence"])

    def test_gone_on_with_the_model_does_the_first_that_is_left(self) -> None:
        self.entered('"Meier, Anna";Basel', "B;Bern", options=("--only-rows", "1"))
        code, out = self.entered('"Meier, Anna";Basel', "Otto;Bern", acts=enters("Otto", "Bern"))
        self.assertEqual((code, self.outcomes()), (0, ["skipped", "done"]), out)
        self.assertEqual(len(self.book.records), 2)

    def test_a_first_row_that_is_not_proven_ends_it_and_is_not_done_again(self) -> None:
        self.book.loses = True
        self.kind = Doubts
        code, out = self.entered('"Meier, Anna";Basel', "B;Bern")
        self.assertEqual((code, self.outcomes()), (1, ["not proven"]), out)
        self.assertEqual(self.entered('"Meier, Anna";Basel')[0], 1)
        self.assertEqual((self.outcomes(), self.book.records), (["not proven"], []))

    def test_half_a_sign_that_the_model_says_is_no_end_of_the_results(self) -> None:
        class Half(Doubts):
            def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
                message = super().__call__(request)
                said = str(message["content"] or "")
                return {**message, "content": said.replace("it is not", "it is \ud83d not")}

        self.kind, self.book.loses = Half, True
        copy = self.folder / "all.csv"
        code, out = self.entered('"Meier, Anna";Basel', options=("--results", str(copy)))
        self.assertEqual((code, self.outcomes()), (1, ["not proven"]), out)
        self.assertIn("it is \\ud83d not", self.results()[0]["sentence"])
        shutil.rmtree(self.folder / "dumps")
        code, out = self.entered('"Meier, Anna";Basel', options=("--results", str(copy)))
        self.assertEqual((code, self.outcomes()), (1, ["not proven"]), out)
        self.assertIn("known from", self.results()[0]["sentence"])

    def test_a_kill_in_the_first_row_leaves_it_unsure(self) -> None:
        at_that_moment: list[str] = []

        def killed(_: str) -> None:
            at_that_moment.extend(self.outcomes())
            self.clock.stop.set("killed")

        self.book.happens = killed
        _, out = self.entered('"Meier, Anna";Basel')
        self.assertEqual((at_that_moment, self.outcomes()), (["unsure"], ["unsure"]))
        self.assertIn("stopped: killed. The same command again goes on with the rows.\n", out)
        self.book = Book(self.clock)
        self.assertEqual(
            self.entered('"Meier, Anna";Basel', "B;Bern", acts=enters("B", "Bern"))[0], 1
        )
        self.assertEqual(self.outcomes()[0], "unsure")
        self.assertNotIn(self.first, self.book.records)

    @for_the_gate
    def test_what_is_not_sure_ends_it_before_row_2_where_nobody_is(self) -> None:
        anna, basel = self.first
        for rows, acts, told in (
            (
                ['"Meier, Anna";"Meier, Anna"', "B;Bern"],
                enters(anna, anna),
                "which steps take .*name",
            ),
            (["A;Basel", "B;Bern"], enters("A", basel), "which steps take .*name"),
            (
                ['"Meier, Anna";Basel', "B;Bern"],
                enters(anna, basel, call("type_text_input", text=" Anna")),
                "which steps take .*name",
            ),
        ):
            with self.subTest(told):
                self.book = Book(self.clock)
                shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                code, out = self.entered(*rows, acts=acts)
                self.assertEqual((code, self.outcomes()), (1, ["done"]), out)
                self.assertRegex(out, told)
                self.assertEqual(len(self.book.records), 1)

    def test_a_value_that_was_entered_nowhere_leaves_the_row_not_proven(self) -> None:
        for acts, lost in (
            (enters("WRONG", "Basel"), "name, 'Meier, Anna'"),
            (enters("Meier, Anna", "Chur"), "City, 'Basel'"),
        ):
            with self.subTest(lost):
                self.book = Book(self.clock)
                self.checks = ("The customer is entered.",)
                shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                code, out = self.entered('"Meier, Anna";Basel', "B;Bern", acts=acts)
                self.assertEqual((code, self.outcomes()), (1, ["not proven"]), out)
                self.assertIn(f"{lost}, was entered nowhere", out)
                self.assertNotIn("is not sure", out)

    def test_a_value_in_a_longer_text_that_the_task_has_is_found_there(self) -> None:
        self.task = "Enter {name} of No. {city}/b"
        self.checks = ('The list shows "Meier, Anna · No. 7/b"',)
        rows = ('"Meier, Anna";7', "Otto;12", "Hugo;")
        code, out = self.entered(*rows, acts=enters("Meier, Anna", "No. 7/b"))
        self.assertEqual((code, self.outcomes()), (1, ["done", "done", "failed"]), out)
        self.assertEqual(self.book.records, [("Meier, Anna", "No. 7/b"), ("Otto", "No. 12/b")])
        self.assertIn("city is a part of a text, and cannot be empty", out)

    def test_a_value_in_a_text_that_the_task_has_otherwise_or_twice_is_not_sure(self) -> None:
        self.checks = ("The customer is entered.",)
        for task, acts in (
            ("Enter {name} of {city}", enters("Meier, Anna", "No. 7/b")),
            ("Enter {name} of No. {city}/b", enters("No. 7/b", "No. 7/b")),
        ):
            with self.subTest(task):
                self.task = task
                self.book = Book(self.clock)
                shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                rows = (
                    ('"Meier, Anna";7', "Otto;12") if "Meier" in str(acts) else ("No.;7", "Otto;12")
                )
                code, out = self.entered(*rows, acts=acts)
                self.assertEqual((code, self.outcomes()), (1, ["done"]), out)
                self.assertRegex(out, "which steps take .*city.* is not sure")

    def test_what_is_not_sure_is_asked_about(self) -> None:
        self.checks = ('The list shows "Anna · Anna"',)
        code, out = self.answered(
            "Anna;Anna",
            "Otto;Bern",
            acts=enters("Anna", "Anna"),
            answers={"takes {name}": "2", "takes {City}": "4", "Do this for all": "y"},
        )
        self.assertEqual(code, 0, out)
        self.assertEqual(self.book.records, [("Anna", "Anna"), ("Otto", "Bern")])
        self.assertIn("4  type text", out)

    def test_a_cell_permits_nothing(self) -> None:
        self.book.front = replace(WINDOW, program="cmd.exe", title="Command Prompt")
        self.task = "Run {name}"
        types = call("type_text_input", text="rmdir old\n")
        _, out = self.entered("rmdir old", acts=(types,), head="name")
        self.assertEqual(self.book.typed, [], out)
        self.task = "Run rmdir old {name}"  # which the person wrote
        self.entered("rmdir old", acts=(types,), head="name")
        self.assertEqual(self.book.typed, ["rmdir old\n"])

    def test_the_name_of_a_secret_in_a_cell_is_refused(self) -> None:
        with mock.patch.dict("os.environ", {"PIN": "4711-0815"}):
            code, out = self.entered("{{PIN}};Basel", options=("--secret", "PIN"))
        self.assertEqual((code, self.book.typed), (2, []))
        self.assertIn("row 1, name: it is the name of a secret", out)

    def test_a_task_that_names_no_column_is_told(self) -> None:
        self.task = "Enter the customers"
        code, out = self.entered("A;Bern")
        self.assertEqual(code, 2)
        self.assertIn("name what does in the task, as {city}", " ".join(out.split()))


IBANS = ("DE89 3704 0044 0532 0130 00", "CH93 0076 2011 6238 5295 7")


class SecretColumns(WordsCase):
    """A column in two braces is typed, and known to nobody."""

    task = "Enter the customer {name} with {{iban}}"
    checks = ('The list shows "Meier, Anna · {{iban}}"',)
    how: ClassVar[dict[str, Any]] = {
        "acts": enters("Meier, Anna", "{{iban}}"),
        "head": "name;IBAN",
        "options": ("--set", "allow_risky=secret"),
    }

    def test_it_is_typed_and_stands_nowhere(self) -> None:
        rows = [f"{name};{iban}" for name, iban in zip(("Meier, Anna", "Otto"), IBANS, strict=True)]
        code, out = self.entered(*rows, **self.how)
        self.assertEqual(code, 0, out)
        self.assertEqual(self.book.records, [("Meier, Anna", IBANS[0]), ("Otto", IBANS[1])])
        self.assertEqual([row["iban"] for row in self.results()], ["{{iban}}"] * 2)
        self.assertEqual(self.outcomes(), ["done", "done"])
        written = b"".join(
            path.read_bytes() for path in (self.folder / "dumps").rglob("*") if path.is_file()
        )
        told = out + json.dumps(self.requests) + written.decode("utf-8", "replace")
        for iban in IBANS:
            self.assertNotIn(iban, told)
            self.assertNotIn(iban.replace(" ", ""), told)

    def test_a_row_is_known_though_its_secret_is_a_word_of_the_task(self) -> None:
        self.task = "Enter a customer of Zurich: {name} with {{iban}}"
        rows = ("Meier, Anna;Zurich", "Otto;Bernstadt")
        self.assertEqual(self.entered(*rows, **self.how)[0], 0)
        self.assertIn("a customer of {{iban}}", self.records()[0]["task"])
        self.book.controls = Book(self.clock).controls  # which shows it in no list
        self.assertEqual(self.entered(*rows, **self.how)[0], 0)
        self.assertEqual((self.outcomes(), len(self.book.records)), (["skipped"] * 2, 2))

    def test_a_name_of_several_words_is_a_secret_too(self) -> None:
        self.task = "Enter the customer {name} with {account number}"
        self.checks = ('The list shows "Meier, Anna"',)
        how = {"acts": enters("Meier, Anna", "{{account_number}}"), "options": self.how["options"]}
        rows = [f"{name};{iban}" for name, iban in zip(("Meier, Anna", "Otto"), IBANS, strict=True)]
        for head in ("name;{{account number}}", "name; {{Account_Number}} "):
            with self.subTest(head):
                self.book = Book(self.clock)
                shutil.rmtree(self.folder / "dumps", ignore_errors=True)
                code, out = self.entered(*rows, head=head, **how)
                self.assertEqual(self.book.records, [("Meier, Anna", IBANS[0]), ("Otto", IBANS[1])])
                self.assertEqual([*self.results()[0]][2], "account_number")
                self.assertNotIn(IBANS[0], out + json.dumps(self.requests))

    def test_what_cannot_be_hidden_or_told_apart_is_refused(self) -> None:
        for rows, told in (
            (["A;123"], "row 1, iban: a secret has 4 characters or more, and no line break.\n"),
            ([f"A;{IBANS[0]}", f"A;{IBANS[1]}"], "row 2 is the same as row 1: take one out"),
            ([f"A{at};{IBANS[0]}" for at in range(101)], "101 rows, not 1 to 100"),
        ):
            code, out = self.entered(*rows, head="name;IBAN")
            self.assertEqual((code, self.book.typed), (2, []))
            self.assertIn(told, out)

    def test_of_what_a_field_cuts_nothing_is_told(self) -> None:
        rows = [f"{name};{iban}" for name, iban in zip(("Meier, Anna", "Otto"), IBANS, strict=True)]
        self.book.happens = lambda text: vars(self.book).update(fits=9) if text == "Otto" else None
        code, out = self.entered(*rows, **self.how)
        self.assertEqual((code, self.outcomes()), (1, ["done", "failed"]), out)
        self.assertIn(
            "holds less than was typed: something else and not '{{iban}}'",
            self.results()[1]["sentence"],
        )
        self.assertNotIn(IBANS[1][:9], out)


class Told(RowsCase):
    """While it lasts, and afterwards."""

    def test_a_bar_tells_the_rows_that_are_over_and_the_time_left(self) -> None:
        class Screen(io.StringIO):
            def isatty(self) -> bool:
                return True

        def happens(text: str) -> None:
            self.clock.advance(45)
            time.sleep(0.5)  # the line is written by a thread

        self.book.happens = happens
        with mock.patch.object(io, "StringIO", Screen):
            _, out, _ = self.rows(self.table("A;Bern", "B;Bern", "C;Bern"))
        self.assertIn(f"[{' ' * 20}] 0 of 3 rows", out)
        self.assertRegex(out, r"\[#{6} {14}\] 1 of 3 rows, about [34] min left")
        self.assertRegex(out, r"\[#{13} {7}\] 2 of 3 rows, about [12] min left")

    def test_each_row_stands_in_the_records_between_which_its_turns_are(self) -> None:
        self.rows(self.table("A;Bern", "B;Bern"))
        self.rows(self.table("A;Bern", "C;Bern"))
        rows = [
            (entry["line"], entry["values"]["name"], entry["outcome"], entry["turn"])
            for entry in self.records(3)
            if entry["kind"] == "row"
        ]
        self.assertEqual(
            rows,
            [(1, "A", "skipped", 0), (2, "C", "", 0), (2, "C", "unsure", 3), (2, "C", "done", 3)],
        )


class Resumed(RowsCase):
    def test_a_run_of_what_was_shown_is_resumed_with_its_values_and_not_without(self) -> None:
        def book(clock: Any) -> Book:
            self.book.clock = clock
            return self.book

        values = ("--with", "name=Otto", "--with", "city=Chur")
        with desktop_of_main(book), clock_of_main(self.clock), Model(SaysYes((), ())) as server:
            options = ("--endpoint", server.url, "--set", "settle_cap_ms=1")
            code, out, err = self.main("--again", TASK, *values, "--max-steps", "1", *options)
            self.assertEqual(code, 1, out + err)
            code, out, err = self.main("--resume", "2", *options)
            self.assertEqual(code, 2, out + err)
            self.assertIn("use --with NAME=TEXT", err)
            self.main("--resume", "2", *values, *options)
        self.assertEqual(self.book.typed, ["Otto", "Chur"])

    def test_behind_an_act_that_was_not_done_whole_the_model_goes_on_and_not_the_next_step(
        self,
    ) -> None:
        values = ("--with", "name=Otto", "--with", "city=Chur")
        for ends in ("killed", "held up", "refused"):
            self.setUp()
            with (
                desktop_of_main(lambda _: self.book),
                clock_of_main(self.clock),
                Model(SaysYes((), ())) as server,
            ):
                options = ("--endpoint", server.url, "--set", "settle_cap_ms=1", *values)
                self.main("--again", TASK, "--max-steps", "2", *options)
                lines = self.records(2)
                *_, at = (at for at, line in enumerate(lines) if line["kind"] == "result")
                refused = {"held up": "stale_frame", "refused": "not_confirmed"}.get(ends)
                lines[at]["refused"] = refused
                journal = self.run_folder(2) / "turns.jsonl"
                left = lines[: at + bool(refused)]
                journal.write_text("".join(f"{json.dumps(line)}\n" for line in left), "utf-8")
                self.book.hold("City:", "C")  # as far as it came
                _, out, err = self.main("--resume", "2", "--max-steps", "9", *options)
            with self.subTest(ends):
                self.assertIn("executor  report complete", out + err)
                self.assertEqual(self.book.records, [], out)

    def test_the_same_task_as_the_next_one_of_its_run_is_done_with_its_own_values(self) -> None:
        with (
            desktop_of_main(lambda _: self.book),
            clock_of_main(self.clock),
            Model(SaysYes((), ())) as server,
        ):
            options = ("--endpoint", server.url, "--set", "settle_cap_ms=1", "--max-steps", "4")
            self.main("--again", TASK, "--with", "name=A", "--with", "city=Bern", *options)
            journal = self.run_folder(2) / "turns.jsonl"
            *lines, end = journal.read_text("utf-8").splitlines()
            done = {**json.loads(end), "outcome": "completed"}
            journal.write_text("\n".join([*lines, json.dumps(done), ""]), "utf-8")
            words = ("--resume", "2", "--task", TASK, "--with", "name=B", "--with", "city=Chur")
            _, out, err = self.main(*words, *options)
        self.assertEqual(self.book.records, [("A", "Bern"), ("B", "Chur")], out + err)

    def test_what_was_begun_with_one_value_is_not_ended_with_another_one(self) -> None:
        for first, then, typed in (("Otto", "Ott", 1), ("{{pin}}", "{{pin}}", 2)):
            self.setUp()
            with (
                desktop_of_main(lambda _: self.book),
                clock_of_main(self.clock),
                Model(SaysYes((), ())) as server,
            ):
                options = ("--endpoint", server.url, "--set", "settle_cap_ms=1")
                city = ("--with", "city=Chur", *options)
                words = ("--again", TASK, "--with", f"name={first}", *city, "--max-steps", "1")
                self.main(*words)
                _, out, err = self.main("--resume", "2", "--with", f"name={then}", *city)
            told = "run_0002 was begun with another name, 'Otto': give that by --with, or begin"
            self.assertEqual(told in err, typed == 1, out + err)
            self.assertEqual(len(self.book.typed), typed)


class Later(RowsCase):
    """A next task never goes the way with what was shown, nor with another row's values."""

    def next_task(self, *words: str, answers: dict[str, str]) -> tuple[str, list[str]]:
        """What is printed, and typed, where a person gives these answers one after the other."""
        left, at = dict(answers), [0]

        def types(out: str) -> str | None:
            for words in [*left][:1]:
                if words in out[at[0] :]:
                    at[0] = len(out)
                    return left.pop(words)
            return None

        def book(clock: Any) -> Book:
            self.book.clock = clock
            return self.book

        says = SaysYes((), ("It is done.",))
        with desktop_of_main(book), Model(says) as server, person_at_main(types) as keyboard:
            options = ("--endpoint", server.url, "--set", "settle_cap_ms=1")
            _, out, _ = self.main(*words, *options, stdin=keyboard)
            keyboard.end()
        self.assertEqual(left, {}, out)
        return out, self.book.typed

    def test_a_task_that_was_shown_asks_for_its_values(self) -> None:
        answers = {
            "Task:": TASK,
            "Repeat those acts": "y",
            "name, then": "Otto",
            "city, then": "Chur",
        }
        _, typed = self.next_task(answers={**answers, "Enter to end": ""})
        self.assertEqual(typed, ["Otto", "Chur"])

    def test_a_path_that_was_shown_is_an_example_as_it_was_typed(self) -> None:
        shutil.rmtree(self.folder / "dumps")
        for typed, told in ((r"C:\Notes\a.txt", r"'C:\Notes\a.txt'"), ("it's", '"it\'s"')):
            intent = {"tool": "type_text", "args": {"text": typed, "element_name": "Name:"}}
            record(
                self.folder / "dumps", self.check, (("Name:", "edit", {**intent, "value": "file"}),)
            )
            answers = {"Task:": TASK, "Repeat those acts": "y", f"file, then {told}:": "b.txt"}
            _, entered = self.next_task(answers={**answers, "Enter to end": ""})
            self.assertEqual(entered[-1:], ["b.txt"])
            shutil.rmtree(self.folder / "dumps")

    def test_without_a_value_it_is_left_to_the_model(self) -> None:
        answers = {"Task:": TASK, "Repeat those acts": "y", "name, then": "", "city, then": "Chur"}
        _, typed = self.next_task(answers={**answers, "s does not.": "y", "Enter to end": ""})
        self.assertEqual(typed, [])

    def test_the_values_of_the_first_task_are_not_those_of_the_next(self) -> None:
        answers = {
            "Task:": TASK,
            "Enter to end": TASK,
            "Repeat those acts": "y",
            "name, then": "Otto",
            "city, then": "Chur",
            "Type the next": "",
        }
        again = ("--again", "--with", "name=A", "--with", "city=Bern")
        _, typed = self.next_task(*again, answers=answers)
        self.assertEqual(typed, ["A", "Bern", "Otto", "Chur"])

    def test_the_rows_of_a_table_are_known_after_a_next_task_of_its_run(self) -> None:
        table = self.table("A;Bern")
        answers = {
            "Task:": TASK,
            "Do this for all": "y",
            "Type the next": "write it down",
            "s does not.": "y",
            "Enter to end": "",
        }
        self.next_task("--again", "--rows", table, answers=answers)
        self.book.controls = Book(self.clock).controls  # which shows it in no list
        self.assertEqual(self.rows(table)[0], 0)
        self.assertEqual(self.outcomes(), ["skipped"])
        self.assertEqual(self.book.records, [("A", "Bern")])

    def test_a_yes_for_a_table_is_for_no_next_task(self) -> None:
        self.book.controls["OK"] = replace(OK, name="Send order")
        journal = self.run_folder() / "turns.jsonl"
        journal.write_text(journal.read_text("utf-8").replace('"OK"', '"Send order"'), "utf-8")
        answers = {
            "Task:": TASK,
            "Do this for all": "y",
            "Type the next": TASK,
            "Repeat those acts": "y",
            "name, then": "Otto",
            "city, then": "Chur",
            "wants to click": "n",
            "Enter to end": "",
        }
        out, _ = self.next_task("--again", "--rows", self.table("A;Bern"), answers=answers)
        self.assertEqual(self.book.records, [("A", "Bern")], out)

    def test_a_table_is_no_way_of_its_task(self) -> None:
        self.rows(self.table("A;Bern"))
        shutil.rmtree(self.run_folder(1))
        self.book.typed.clear()
        out, typed = self.next_task(answers={"Task:": TASK, "s does not.": "y", "Enter to end": ""})
        self.assertEqual(typed, [])
        self.assertNotIn("Repeat those acts", out)
