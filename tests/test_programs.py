"""Programs and their windows by name: what is found, started and brought to the front, and what is not."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from agent import Program
from tests.fakes import Foreground, windows_desktop
from tests.samples import sample
from tests.seams import little_patience
from tests.test_actuator import Stage

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
HARMLESS = {"Notepad", "Mozilla Browser", "calc", "paint"}
ELSE = Foreground(path="C:\\other.exe", title="Else")


class ProgramCase(unittest.TestCase):
    def stage(self, config: dict[str, Any] | None = None, **world: Any) -> Stage:
        """A simulated Windows with PROGRAMS, of which the next one started shows a Notepad."""
        made = Stage(config=config)
        made.desktop._programs = PROGRAMS
        made.world.opens = Foreground("Fresh - Notepad", handle=0x30002, process=4712)
        for name, value in world.items():
            setattr(made.world, name, value)
        return made

    def opened(self, made: Stage, name: str) -> Any:
        return made.attempt("open_app", name=name)


class Names(ProgramCase):
    def tried(self, name: str) -> tuple[list[str], Any]:
        """What is started by that name, and what became of the act."""
        made = self.stage()
        made.actuator.confirm = lambda question: True
        performed = self.opened(made, name)
        self.assertEqual(bool(made.world.programs_opened), not performed.refused)
        return made.world.programs_opened, performed

    def test_a_program_is_found_by_what_people_and_models_call_it(self) -> None:
        for names, path in (
            ("notepad | NOTEPAD | Notepad.exe |  Notepad  | note", MENU + "Notepad.lnk"),
            ("zurich maps | zür", MENU + "Zürich Maps.lnk"),
            ("mozilla | firefox | Firefox.exe", MENU + "Mozilla Browser.lnk"),
            ("paint", "C:\\Windows\\paint.exe"),  # an exact name goes before longer ones
            ("Calculator | Rechner", "C:\\Windows\\calc.exe"),
            ("Registry Editor", "C:\\Windows\\regedit.exe"),
        ):
            for name in names.split(" | "):
                self.assertEqual(self.tried(name)[0], [path], name)

    def test_what_is_no_name_or_that_of_several_gets_candidates(self) -> None:
        for name, candidates in (
            ("pain", "Paint Studio, Paint Room"),
            ("notpad", "Notepad"),
            ("firefo", "Mozilla Browser"),
            *((MENU + "Notepad.lnk", ""), ("C:\\Windows\\calc.exe", "")),
            *((name, "") for name in ("notepad & calc", "cmd /c del *", "", " ", ".exe", "\x00")),
            *((name, "") for name in ("prompt", "play.exe", "../notepad", "notepad C:\\x.txt")),
        ):
            performed = self.tried(name)[1]
            self.assertIn(performed.refused, ("no_program", "empty_text"), name)
            self.assertIn(candidates, performed.result)
        for nameless in (Program("", "x.lnk"), Program("X", "x.lnk", (".exe",))):
            made = self.stage()
            made.desktop._programs = [nameless]
            self.assertEqual(self.opened(made, "Kalkulator9").refused, "no_program")

    def test_at_most_eight_candidates_are_listed_each_on_one_line(self) -> None:
        made = self.stage()
        made.desktop._programs = [Program(f"tool {n}\n" + "x" * 99, str(n)) for n in range(30)]
        said = self.opened(made, "tool").result
        self.assertEqual((said.count("tool "), "\n" in said), (8, False))
        self.assertLess(len(said), 600)

    def test_random_names_start_a_listed_and_harmless_program_or_nothing(self) -> None:
        signs = "\\/:&|<>;%$`\"'*?^()={}~!\x00\n\r\t"
        pieces = [name for p in PROGRAMS for name in (p.name, p.path)]
        pieces += [".exe", ".lnk", "C:\\Windows\\", "..\\", " /c ", " -e ", "http://x", "shell:"]
        pieces += [
            "%COMSPEC%",
            "ms-settings:",
            "\u202e",
            "\u200b",
            "ｎｏｔｅｐａｄ",
            "c",
            " ",
            "😀",
        ]
        dice, started = random.Random(1), 0
        made = self.stage({"acts_per_minute": 10_000, "minutes_most": 0}, opens=None)
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
    def test_it_starts_the_shortcut_and_says_which_window_came_to_the_front(self) -> None:
        made = self.stage()
        performed = self.opened(made, "notepad")
        self.assertEqual(made.world.programs_opened, [MENU + "Notepad.lnk"])
        self.assertEqual(performed.result, 'Opened: notepad; in front: "Fresh - Notepad"')
        self.assertTrue(performed.acted)
        # COM was ready in the thread that asked the shell, and let go of.
        self.assertIn("CoInitializeEx", made.world.calls)
        self.assertEqual(made.world.apartments, {})
        made.world.verify()

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
            ("notepad", {"opens": None}, None, 'in front: "Untitled - Notepad"', 3),  # as before
        ):
            made = self.stage({"confirm": "never"}, **world)
            if later:
                made.clock.at(4, lambda w=made.world, later=later: setattr(w, "window", later))
            began = made.clock.now()
            self.assertIn(words, self.opened(made, name).result)
            self.assertAlmostEqual(made.clock.now() - began, seconds, delta=0.5)

    def test_a_program_that_is_not_harmless_is_asked_about(self) -> None:
        both = "Open Zürich Maps and Work Shell"
        for name, task, risk in (
            ("zürich", "", "run"),
            ("work shell", "", "terminal"),
            ("uninstall maps", "", "install"),
            ("zürich maps", both, ""),
            ("work shell", both, "terminal"),
        ):
            for answer in (False, True):
                made, asked = self.stage(), list[str]()
                made.actuator.task = task
                made.actuator.confirm = lambda q, asked=asked, a=answer: bool(asked.append(q)) or a
                performed = self.opened(made, name)
                done = answer or not risk
                self.assertEqual(performed.refused, "" if done else "not_allowed", name)
                self.assertEqual(len(made.world.programs_opened), int(done))
                self.assertEqual(len(asked), int(bool(risk)))
                self.assertRegex("".join(asked), rf": .*\b{risk}\b[^:]*$" if risk else "^$")

    def test_a_blocked_program_is_not_started_and_in_a_dry_run_none(self) -> None:
        for config, refused in (
            ({"blocked_windows": "notepad.exe"}, "forbidden_window"),
            ({"allowed_windows": "word.exe"}, "forbidden_window"),
            ({"dry_run": True}, ""),
        ):
            made = self.stage(config)
            self.assertEqual(self.opened(made, "notepad").refused, refused)
            self.assertEqual(made.world.programs_opened, [])


class FocusWindow(unittest.TestCase):
    OTHERS = [
        Foreground(title, handle=0x20002 + 0x10000 * number, process=number % 3, **more)
        for number, (title, more) in enumerate(
            (
                ("Budget 2024 - Calc", {"path": "C:\\calc.exe"}),
                ("Bücher - Files", {"path": "C:\\files.exe"}),
                ("Budget 2025 - Calc", {"path": "C:\\calc.exe"}),
                ("Elsewhere", {"cloaked": True}),
                ("Hidden", {"visible": False}),
                ("", {}),
                ("Program Manager", {"class_name": "Progman"}),
            ),
            1,
        )
    ]

    def focused(self, title: str, config: Any = None, **world: Any) -> Any:
        self.made = Stage(config=config)
        self.world = self.made.world
        self.world.others = [replace(other) for other in self.OTHERS]
        for name, value in world.items():
            setattr(self.world, name, value)
        if "console" in world:
            self.made.desktop.own_console(False)
        return self.made.attempt("focus_window", title=title)

    def test_a_part_of_the_title_is_enough_whatever_its_case_and_accents(self) -> None:
        for keeps_front in (False, True):  # then it gives the keyboard to an attached thread
            performed = self.focused("bucher", keeps_front=keeps_front)
            self.assertEqual(performed.result, 'In front: bucher; its title: "Bücher - Files"')
            self.assertEqual(self.world.window.title, "Bücher - Files")
            self.assertFalse(self.world.attached)
            self.world.verify()

    def test_a_minimised_window_is_restored(self) -> None:
        small = Foreground("Small", handle=0x30002, minimised=True)
        self.assertEqual(self.focused("small", others=[small]).refused, "")
        self.assertFalse(self.world.window.minimised)

    def test_a_part_of_two_titles_or_of_none_is_told_the_visible_titled_windows(self) -> None:
        titles = '"Budget 2024 - Calc"; "Bücher - Files"; "Budget 2025 - Calc"'
        for title, told in (
            ("budget", "2 windows have"),
            *((title, "No window has") for title in ("word", "", "hidden")),
        ):
            performed = self.focused(title)
            self.assertEqual((performed.refused, performed.begun), ("no_window", False))
            self.assertIn(told, performed.result)
            self.assertIn(titles if told.startswith("No") else "Budget 2025", performed.result)

    def test_at_most_twelve_titles_are_told_each_cut_and_on_one_line(self) -> None:
        many = [Foreground(f"{n}\n" + "x" * 500, handle=90 + n) for n in range(30)]
        told = self.focused("no such title", others=many).result
        self.assertEqual((told.count('"; "'), "\n" in told), (11, False))
        self.assertLess(len(told), 12 * 60)

    def test_a_window_that_stays_behind_or_hangs_is_a_failure_and_not_waited_for(self) -> None:
        hung = [replace(other, hung=True) for other in self.OTHERS]
        for world, never in (
            ({"never_front": True}, "nothing"),
            ({"others": hung, "keeps_front": True}, "BringWindowToTop"),
            ({"window": Foreground(hung=True), "keeps_front": True}, "AttachThreadInput"),
        ):
            performed = self.focused("bücher", **world)
            self.assertEqual(performed.refused, "not_in_front")
            self.assertIn('Open windows: "Untitled - Notepad"', performed.result)
            self.assertNotIn(never, self.world.calls)
            self.assertFalse(self.world.attached)

    def test_a_blocked_window_stays_behind_and_the_programs_own_is_none_to_the_model(self) -> None:
        performed = self.focused("bücher", {"blocked_windows": "*files*"})
        self.assertEqual((performed.refused, performed.acted), ("forbidden_window", False))
        self.assertEqual(self.world.window.title, "Untitled - Notepad")
        performed = self.focused("bücher", console=0x40002, console_owner=0x40002)
        self.assertEqual((performed.refused, "Files" in performed.result), ("no_window", False))


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
        self.assertEqual(self.files(b"a" * 5_000_000), ())  # nor does that take long

    def test_each_kind_of_file_that_runs_when_it_is_opened_is_seen_in_a_shortcut(self) -> None:
        endings = "exe bat cmd ps1 vbs vbe js jse jar wsf wsh hta scr pif msi cpl chm pyw"
        for ending in endings.split():
            files = self.files(f"C:\\x\\Notes.{ending}\0".encode("utf-16-le"))
            self.assertEqual(files, (f"notes.{ending}",))


if __name__ == "__main__":
    unittest.main()
