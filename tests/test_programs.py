"""Programs and their windows by name: what is found, started and brought to the front, and what is not."""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
import threading
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from agent import Program, Rect, Window
from tests import test_gates
from tests.fakes import Foreground, windows_desktop
from tests.samples import for_the_gate, sample
from tests.seams import little_patience
from tests.test_actuator import PRIMARY, Stage

FILE = Path(__file__).parent / "data" / "programs.jsonl"
MENU = "C:\\Menu\\"
IN_THE_MENU = """Notepad: notepad.exe | Paint Studio: studio.exe | Paint Room: room.exe | Zürich Maps: maps.exe
    | Work Shell: cmd.exe | Tools: prompt.exe setup.bat | Uninstall Maps: unins000.exe | Mozilla Browser: firefox.exe
    | Player (safe mode): play.exe | Player: play.exe"""
PROGRAMS = [
    *(
        Program(name, f"{MENU}{name}.lnk", tuple(files.split()))
        for name, _, files in (row.strip().partition(": ") for row in IN_THE_MENU.split("|"))
    ),
    Program("Notepad", "C:\\Other\\Notepad.lnk", ("other.exe",)),
    *(
        Program(name, f"C:\\Windows\\{name}.exe", (f"{name}.exe",))
        for name in ("paint", "calc", "regedit", "notes-of-one")
    ),
]
TITLES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Budget 2024 - Calc", {"path": "C:\\calc.exe"}),
    ("Bücher - Files", {"path": "C:\\files.exe"}),
    ("Budget 2025 - Calc", {"path": "C:\\calc.exe"}),
    ("Elsewhere", {"cloaked": True}),
    ("Hidden", {"visible": False}),
    ("", {}),
    ("Program Manager", {"class_name": "Progman"}),
)
OTHERS = [
    Foreground(title, handle=0x20002 + 0x10000 * number, process=number % 3, **more)
    for number, (title, more) in enumerate(TITLES, 1)
]
HARMLESS = {"Notepad", "Mozilla Browser", "calc", "paint"}
ELSE = Foreground(path="C:\\other.exe", title="Else")


class ProgramCase(test_gates.RowCase):
    def stage(
        self, area: Rect = PRIMARY, config: dict[str, Any] | None = None, **world: Any
    ) -> Stage:
        """A simulated Windows with PROGRAMS, of which the next one started shows a Notepad, and OTHERS."""
        made = Stage(area, config)
        made.desktop._programs = PROGRAMS
        made.world.opens = Foreground("Fresh - Notepad", handle=0x30002, process=4712)
        made.world.others = [replace(other) for other in OTHERS]
        for name, value in world.items():
            setattr(made.world, name, value)
        return made

    def opened(self, made: Stage, name: str) -> Any:
        return made.attempt("open_app", name=name)


class Names(ProgramCase):
    @for_the_gate
    def test_each_name_starts_or_shows_what_its_row_says(self) -> None:
        self.hold([json.loads(line) for line in FILE.read_text("utf-8").splitlines()])

    def test_a_program_without_a_name_is_not_what_nobody_else_is_called(self) -> None:
        for nameless in (Program("", "x.lnk"), Program("X", "x.lnk", (".exe",))):
            made = self.stage()
            made.desktop._programs = [nameless]
            self.assertEqual(self.opened(made, "Kalkulator9").refused, "no_program")

    def test_at_most_twelve_titles_are_told_each_cut_and_on_one_line(self) -> None:
        many = [Foreground(f"{n}\n" + "x" * 500, handle=90 + n) for n in range(30)]
        told = self.stage(others=many).attempt("focus_window", title="no such title").result
        self.assertEqual((told.count('"; "'), "\n" in told), (11, False))
        self.assertLess(len(told), 12 * 60)

    def test_each_title_and_name_that_was_told_cut_is_found_by_what_was_told(self) -> None:
        titles = [f"{part} report of the northern region, {'2026 ' * 4}- Word" for part in "XY"]
        titles.append("Mail ...")
        windows = [Foreground(title, handle=90 + n) for n, title in enumerate(titles)]
        told = self.stage(others=windows).attempt("focus_window", title="nowhere").result
        shown = re.findall(r'"(.*?)"', told)[2:]
        self.assertEqual([title.endswith("...") for title in shown], [True] * 3)
        for title, said in zip(titles, shown, strict=True):
            made = self.stage(others=[replace(window) for window in windows])
            self.assertEqual(made.attempt("focus_window", title=said).refused, "")
            self.assertEqual(made.world.window.title, title)
        made = self.stage()
        name = "x64 Native Tools Command Prompt for the Studio of 2026"
        made.desktop._programs = [Program(name, "x.lnk", ("cmd.exe",))]
        (said,) = re.findall(
            "one of: (.*)[.]$", self.opened(made, "x64 Native Tools Prompt").result
        )
        self.assertEqual(said[-3:], "...")
        self.assertEqual(self.opened(made, said).refused, "not_allowed")  # found, and asked about

    def test_titles_that_begin_alike_are_told_as_far_as_they_differ(self) -> None:
        titles = [f"Report of the northern region for the quarter {n} - Word" for n in (1, 2)]
        windows = [Foreground(title, handle=90 + n) for n, title in enumerate(titles)]
        made = self.stage(others=windows)
        told = made.attempt("focus_window", title="Report of the northern region fo...").result
        self.assertIn('quarter 1 - Word"; "Report', told)
        # One that ends so itself is no cut one.
        windows = [Foreground(f"{title} - Setup", handle=90 + n) for n, title in enumerate(titles)]
        windows.append(replace(windows[0], title="Report... - Setup", handle=99))
        made = self.stage(others=windows)
        self.assertEqual(made.attempt("focus_window", title="Report...").refused, "")
        self.assertEqual(made.world.window.title, "Report... - Setup")
        made = self.stage(others=windows[:2])
        for title in ("...", "\u2026"):
            self.assertEqual(made.attempt("focus_window", title=title).refused, "no_window")

    def test_at_most_eight_candidates_are_listed_each_on_one_line(self) -> None:
        made = self.stage()
        made.desktop._programs = [Program(f"tool {n}\n" + "x" * 99, str(n)) for n in range(30)]
        said = self.opened(made, "tool").result
        self.assertEqual((said.count("tool "), "\n" in said), (8, False))
        self.assertLess(len(said), 600)

    @for_the_gate
    def test_random_names_start_a_listed_and_harmless_program_or_nothing(self) -> None:
        signs = "\\/:&|<>;%$`\"'*?^()={}~!\x00\n\r\t"
        pieces = [name for p in PROGRAMS for name in (p.name, p.path)]
        pieces += [".exe", ".lnk", "C:\\Windows\\", "..\\", " /c ", " -e ", "http://x", "shell:"]
        pieces += ["%COMSPEC%", "ms-settings:", "\u202e", "\u200b", "c", " ", "😀", "ｎｏｔｅ"]
        dice, started = random.Random(1), 0
        made = self.stage(config={"acts_per_minute": 10_000, "minutes_most": 0}, opens=None)
        by_path = {program.path: program.name for program in PROGRAMS}
        for _ in range(sample(2_000, 500)):
            parts = [dice.choice((dice.choice(pieces), dice.choice(signs)))]
            while dice.random() < 0.5:
                parts.append(dice.choice(pieces))
            name = "".join(parts)
            name = name.swapcase() if dice.random() < 0.2 else name
            made.world.programs_opened.clear()
            performed = self.opened(made, name)
            opened = made.world.programs_opened
            self.assertLessEqual({by_path[path] for path in opened}, HARMLESS, name)
            self.assertFalse(opened and set("\\/:&|<>;%$") & set(name), name)
            self.assertEqual(bool(opened), not performed.refused, name)
            started += len(opened)
        self.assertGreater(started, 5)


class OpenApp(ProgramCase):
    def test_a_window_that_closes_before_its_thread_is_known_is_attached_to_nothing(self) -> None:
        made = self.stage(window=ELSE)
        made.world.arm(names=["GetWindowThreadProcessId"])
        made.desktop.bring_to_front(Window(OTHERS[0].handle, OTHERS[0].title))
        self.assertNotIn("AttachThreadInput", made.world.calls)

    def test_com_is_ready_in_the_thread_that_asks_the_shell_and_let_go_of(self) -> None:
        made = self.stage()
        self.assertTrue(self.opened(made, "notepad").acted)
        self.assertIn("CoInitializeEx", made.world.calls)
        self.assertEqual(made.world.apartments, set())

    def test_a_shell_that_asks_the_person_first_is_not_waited_for(self) -> None:
        made = self.stage(window=ELSE)
        answered = threading.Event()
        self.addCleanup(answered.set)
        returned: list[bool] = []

        def asks(*_: Any) -> int:
            returned.append(answered.wait(5))
            return 42

        made.world._ShellExecuteW = asks  # type: ignore[method-assign]
        with little_patience():
            performed = self.opened(made, "notepad")
        self.assertEqual(returned, [])
        self.assertIn("no window of it is in front", performed.result)

    def test_its_window_is_waited_for_ten_seconds_at_most(self) -> None:
        frame = Foreground("Frame", path="C:\\host.exe", handle=0x30002)  # of another program
        fresh = Foreground("Fresh", handle=0x30002, process=4712)
        nothing = {"opens": None, "window": ELSE}
        for name, world, later, words, seconds in (
            ("notepad", nothing, None, "after 10 s no window of it", 10),
            ("notepad", nothing, fresh, 'in front: "Fresh"', 4),
            ("calc", {"opens": frame}, None, 'in front: "Frame"', 2),  # it has stood by then
            ("notepad", {"opens": None}, None, 'in front: "Untitled - Notepad"', 2),  # as before
        ):
            made = self.stage(config={"confirm": "never"}, **world)
            if later:
                made.clock.at(4, lambda w=made.world, later=later: setattr(w, "window", later))
            began = made.clock.now()
            self.assertIn(words, self.opened(made, name).result)
            self.assertAlmostEqual(made.clock.now() - began, seconds, delta=0.5)


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
        own, everybodys = str(self.folder / "own"), str(self.folder / "all")
        _, desktop, _ = windows_desktop()
        with mock.patch.dict(os.environ, APPDATA=own, PROGRAMDATA=everybodys, PATH=path):
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
        found = [("Mine", own, "mine.exe"), ("Go", deep, "go.exe"), ("tool", tool, "tool.exe")]
        wanted = [Program(name, str(path), (file,)) for name, path, file in found]
        self.assertEqual(self.listed(path), wanted)

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
        self.assertEqual(self.files(b"a" * 5_000_000), ())  # nor does that take long

    def test_each_kind_of_file_that_runs_when_it_is_opened_is_seen_in_a_shortcut(self) -> None:
        endings = "exe bat cmd ps1 vbs vbe js jse jar wsf wsh hta scr pif msi cpl chm pyw"
        for ending in endings.split():
            files = self.files(f"C:\\x\\Notes.{ending}\0".encode("utf-16-le"))
            self.assertEqual(files, (f"notes.{ending}",))


if __name__ == "__main__":
    unittest.main()
