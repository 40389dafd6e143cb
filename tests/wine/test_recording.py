"""Shown once by a hand that is not the program's, on a real Win32 desktop, and done again with other values."""

from __future__ import annotations

import csv
import json
import shutil
import time
import unittest

from tests.wine.rig import shared_desktop, windows_path
from tests.wine.showing import FormPerson, Person


class Showing(Person, unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = shared_desktop()

    def setUp(self) -> None:
        self.addCleanup(shutil.rmtree, self.desktop.folder / "dumps", True)
        self.addCleanup(self.desktop.close, "python.exe", "notepad.exe")


class Notepad(Showing):
    def test_a_note_is_shown_once_and_written_again_under_other_names(self) -> None:
        self.desktop.host("wine", "start", "notepad")
        time.sleep(3)
        program = self.teach("write a note", "|text|file||")
        self.click(400, 300)
        self.type("Hello from me")
        self.hand("key", "ctrl+s")
        time.sleep(2)
        self.type(r"C:\first.txt")
        self.hand("key", "Return")
        time.sleep(1)
        output = self.shown(program)
        self.assertEqual(self.desktop.file(r"C:\first.txt").read_bytes(), b"Hello from me", output)
        for number in range(3):
            self.desktop.close("notepad.exe")
            self.desktop.host("wine", "start", "notepad")
            time.sleep(3)
            given = "--with", f"text=Number {number}: ä€ß", "--with", rf"file=C:\note{number}.txt"
            code, output = self.again("write a note", *given)
            self.assertEqual(code, 0, output)
            self.assertIn("completed: Repeated", output)
            written = self.desktop.file(rf"C:\note{number}.txt")
            self.assertTrue(written.exists(), output)

    def test_no_row_is_typed_over_what_the_row_before_has_saved(self) -> None:
        self.desktop.host("wine", "start", "notepad")
        time.sleep(3)
        program = self.teach("save a note", "|text|file||")
        self.click(400, 300)
        self.type("Hello from me")
        self.hand("key", "ctrl+s")
        time.sleep(2)
        self.type(r"C:\shown.txt")
        self.hand("key", "Return")
        time.sleep(1)
        output = self.shown(program)
        places = [entry["title"] for entry in self.desktop.journal("place")]
        self.assertEqual(places[2:], ["Save As"] * 2, output)
        self.desktop.close("notepad.exe")
        self.desktop.host("wine", "start", "notepad")
        time.sleep(3)
        table = self.desktop.folder / "notes.csv"
        rows = [["text", "file"], ["one", r"C:\row1.txt"], ["two", r"C:\row2.txt"]]
        with table.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows(rows)
        code, output = self.again("save a note", "--rows", windows_path(table))
        self.assertEqual(code, 1, output)
        self.assertIn("is the window of row 1", output)
        self.assertEqual(self.desktop.file(r"C:\row1.txt").read_bytes(), b"one", output)
        self.assertFalse(self.desktop.file(r"C:\row2.txt").exists())


class Customers(FormPerson, Showing):
    """A form with a field, a drop-down list, a box, and records that nearly share a name."""

    def setUp(self) -> None:
        super().setUp()
        self.desktop.file(self.FILE).unlink(missing_ok=True)

    def test_it_is_filled_in_again_wherever_it_stands_and_however_large_it_is(self) -> None:
        form = self.form(100, 100)
        program = self.teach("enter a customer", "|name||||")
        self.click(*self.at(150, 18))
        self.type("Muster, Max")
        self.click(*self.at(75, 66))
        self.click(*self.at(100, 91))
        output = self.shown(program)
        self.assertEqual(self.saved(), [{"name": "Muster, Max", "city": "", "paid": True}], output)
        form.process.kill()
        for number, (left, top, font) in enumerate(
            ((100, 100, 20), (700, 300, 20), (300, 200, 28)), 1
        ):
            form = self.form(left, top, font)
            code, output = self.again("enter a customer", "--with", f"name=Nr. {number}")
            self.assertEqual(code, 0, output)
            self.assertEqual(
                self.saved()[-1], {"name": f"Nr. {number}", "city": "", "paid": True}, output
            )
            self.assertEqual(len(self.saved()), number + 1)
            form.process.kill()
            self.desktop.close("python.exe")

    def test_each_row_of_a_table_is_entered_once_and_proven_by_the_file(self) -> None:
        form = self.form(100, 100)
        program = self.teach("enter a customer", "|name||||")
        self.click(*self.at(150, 18))
        self.type("Muster, Max")
        self.click(*self.at(75, 66))
        self.click(*self.at(100, 91))
        self.shown(program)
        form.process.kill()
        self.desktop.close("python.exe")
        journal = max((self.desktop.folder / "dumps").glob("*/turns.jsonl"))
        *lines, end = journal.read_text("utf-8").splitlines()
        check = rf'{self.FILE} contains "{{name}}"'
        end = json.dumps({**json.loads(end), "checks": [{"check": check}]})
        journal.write_text("\n".join([*lines, end, ""]), "utf-8")
        names = [
            "O'Hara; B",
            "=1+1",
            "{{PIN}}",
            "Muster, Max",
            *(f"Nr. {number}" for number in range(6)),
        ]
        table = self.desktop.folder / "customers.csv"
        with table.open("w", encoding="cp1252", newline="") as stream:
            csv.writer(stream, delimiter=";").writerows([["Name"], *([name] for name in names)])
        self.desktop.file(self.FILE).unlink()
        self.form(500, 200)
        rows = ("--rows", windows_path(table))
        code, output = self.again("enter a customer", *rows, "--only-rows", "1-4")
        self.assertEqual(code, 0, output)
        code, output = self.again("enter a customer", *rows)
        self.assertEqual(code, 0, output)
        self.assertIn("4 skipped (1-4), 6 done (5-10)", output)
        self.assertEqual([entry["name"] for entry in self.saved()], names, output)

    def test_another_record_is_never_taken_for_the_one_that_was_shown(self) -> None:
        form = self.form(100, 100)
        program = self.teach("delete Anna", "||")
        self.click(*self.at(60, 117))
        self.click(*self.at(160, 91))
        output = self.shown(program)
        self.assertEqual(self.saved()[-1:], [{"deleted": "Meier, Anna · Basel"}], output)
        form.process.kill()
        self.desktop.close("python.exe")
        for order, ends, deleted in ((1, 0, 2), (-1, 1, 2)):
            form = self.form(100, 100, order=order)
            code, output = self.again("delete Anna")
            self.assertEqual((code, len(self.saved())), (ends, deleted), output)
            self.assertEqual({entry["deleted"] for entry in self.saved()}, {"Meier, Anna · Basel"})
            form.process.kill()
            self.desktop.close("python.exe")

    def test_what_is_picked_in_a_drop_down_list_is_picked_again(self) -> None:
        form = self.form(100, 100)
        program = self.teach("pick Bern", "||||")
        self.click(*self.at(150, 18))
        self.type("Muster")
        self.click(*self.at(220, 42))
        self.click(*self.at(120, 66))
        self.click(*self.at(100, 91))
        output = self.shown(program)
        self.assertEqual(self.saved()[-1]["name"], "Muster", output)
        city = self.saved()[-1]["city"]
        self.assertIn(city, ("Basel", "Bern", "Olten"))
        form.process.kill()
        self.desktop.close("python.exe")
        form = self.form(600, 200)
        code, output = self.again("pick Bern")
        self.assertEqual((code, self.saved()[-1]["city"]), (0, city), output)
