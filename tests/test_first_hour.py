"""The first hour of a person who has never seen it: starting, wrong use, and what the program says to it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import agent
from tests.fakes import STDOUT, FakeWin32, VirtualClock
from tests.samples import sample
from tests.seams import (
    PersonsClock,
    clock_of_main,
    desktop_of_main,
    person_at_main,
    platform,
    terminal_columns,
    windows_of_main,
)
from tests.starting import environment
from tests.test_main import CommandLineCase
from tests.test_model import (
    LMS_OTHER,
    OLLAMA_OTHER,
    RoutedServer,
    http,
    model_server,
    native,
    plain,
)
from tests.test_terminal import Screen


def working_pythons(version: str) -> list[str]:
    """The interpreters of this version that start: a shim on the path may stand for none."""
    kept = pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python")
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(kept))]
    return [python for python in candidates if python and starts(python)]


def starts(python: str) -> bool:
    return subprocess.run([python, "-c", "pass"], capture_output=True).returncode == 0


class UnfitPython(unittest.TestCase):
    """The file is imported by a program whose Python is made to look unfit first."""

    def started(
        self, program: str, python: str = sys.executable
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-c", f"{program}\nimport agent"],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )

    def one_sentence(self, program: str, python: str = sys.executable) -> str:
        done = self.started(program, python)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_a_python_that_is_too_old_is_told_which_one_is_needed(self) -> None:
        for minor in (8, 9):
            with self.subTest(minor=minor):
                said = self.one_sentence(
                    f"import sys; sys.version_info = (3, {minor}, 18);"
                    f" sys.version = '3.{minor}.18 (x)'"
                )
                needed = "needs Python 3.10 or later with 64 bit"
                self.assertIn(f"{needed}, and this is 3.{minor}.18", said)

    def test_a_python_of_32_bit_is_told_so(self) -> None:
        said = self.one_sentence("import sys; sys.maxsize = 2**31 - 1")
        self.assertIn("with 32 bit", said)

    def test_a_python_without_ctypes_is_told_so(self) -> None:
        said = self.one_sentence("import sys; sys.modules['ctypes'] = None")
        self.assertIn("needs ctypes, which this Python lacks", said)

    def test_a_real_old_python_gets_the_sentence(self) -> None:
        """Beside the simulated one above, which proves the sentence where none is installed."""
        for version in ("3.8", "3.9"):
            for python in working_pythons(version)[: sample(None, 1)]:
                with self.subTest(python):
                    self.assertIn(f"this is {version}.", self.one_sentence("", python))


class ModelChoice(CommandLineCase):
    """Which of a server's models is used when nothing is configured."""

    def chosen(self, *models: object, **settings: str) -> agent.ModelInfo:
        page = {"models": list(models)}
        with RoutedServer({"/api/v1/models": http(200, page)}, LMS_OTHER) as server:
            return model_server(server.url, **settings).discover()

    def test_the_documented_start_works_with_two_vision_models(self) -> None:
        found = self.chosen(
            native("qwen/qwen3-vl-4b", True, 8192), native("google/gemma-3-4b", True)
        )
        self.assertEqual((found.name, found.loaded), ("qwen/qwen3-vl-4b", True))

    def test_the_one_loaded_vision_model_is_used_even_if_it_is_of_no_known_family(self) -> None:
        found = self.chosen(
            native("text", False, 4096),
            native("google/gemma-3-4b", True, 8192),
            native("qwen/qwen3-vl-8b", True),
        )
        self.assertEqual(found.name, "google/gemma-3-4b")
        self.assertIn("Using the model google/gemma-3-4b; --model NAME takes another.", found.note)

    def test_without_a_loaded_one_the_preferred_family_is_used(self) -> None:
        names = [
            "qwen2.5-vl-7b-instruct",
            "ui-tars-1.5-7b",
            "mradermacher/GUI-Owl-7B-GGUF",
            "qwen3-vl-30b-a3b",
            "Qwen3VL-2B-Instruct-Q4_K_M.gguf",
            "qwen3-vl:4b",
            "qwen/qwen3-vl-8b",
        ]
        order = []
        listed = [agent.ModelInfo(name, stored=name) for name in ["llava", "pixtral", *names]]
        for _ in names:
            found = agent.own_choice(listed)
            assert found
            order.append(found.name)
            listed.remove(found)
        self.assertEqual(order, names[::-1])
        self.assertIsNone(agent.own_choice(listed))

    def test_a_model_that_thinks_aloud_comes_after_those_that_do_not(self) -> None:
        found = self.chosen(
            native("qwen3-vl-8b-thinking", True), native("qwen3-vl-2b-instruct", True)
        )
        self.assertEqual(found.name, "qwen3-vl-2b-instruct")
        self.assertIn("not loaded yet", found.note)

    def test_the_name_of_the_files_means_the_name_in_lm_studios_list(self) -> None:
        found = self.chosen(
            native("qwen/qwen3-vl-8b", True, 8192),
            native("qwen/qwen3-vl-4b", True),
            lmstudio_model="qwen3-vl-4b-instruct",
        )
        self.assertEqual(found.name, "qwen/qwen3-vl-4b")

    def start(self, page: object, stdin: Any = b"") -> tuple[int, str, str]:
        """A start with a server of this list, by a person at a terminal or in a pipe."""
        routes = {"/v1/models": http(200, page)}
        with RoutedServer(routes, OLLAMA_OTHER) as server, desktop_of_main(agent.DemoDesktop):
            return self.main("a task", "--endpoint", server.url, "--max-steps", "1", stdin=stdin)

    def test_in_a_pipe_the_exact_words_to_type_are_said_and_the_code_is_3(self) -> None:
        code, _, err = self.start(plain("llava:7b", "big model"))
        self.assertEqual((code, len(err.splitlines())), (3, 1), err)
        self.assertIn('choose one: --model llava:7b, --model "big model".', err)

    def test_without_a_model_the_command_that_downloads_one_is_said(self) -> None:
        code, _, err = self.start(plain())
        self.assertEqual((code, len(err.splitlines())), (3, 1), err)
        self.assertIn("download one with `lms get qwen/qwen3-vl-4b` (3.3 GB", err)

    def test_on_a_terminal_the_person_picks_from_a_numbered_list_until_one_is_there(self) -> None:
        question = (
            "Which model?\n    |   1  llava:7b\n    |   2  pixtral\n    | A number from 1 to 2:\n"
        )
        for answers, picked in ((("2",), "pixtral"), (("nine", "7", "1"), "llava:7b"), (("",), "")):
            words = (None, *answers, "")  # by how often it was asked

            def types(out: str, words: tuple[str | None, ...] = words) -> str | None:
                return words[out.count("Which model?")]

            with self.subTest(answers), person_at_main(types) as keyboard:
                code, out, err = self.start(plain("llava:7b", "pixtral"), keyboard)
                keyboard.end()
            self.assertIn(question, out)
            if picked:
                self.assertEqual((code, self.records()[0]["model"]), (1, picked), out)
                shutil.rmtree(self.folder / "dumps")
            else:
                self.assertEqual(code, 3)
                self.assertIn("choose one: --model llava:7b", err)


ICONS_ARE_RISKY = ("--set", "risky_words=icon")  # the demo's first act is done to one


class NobodyThere(CommandLineCase):
    """Standard input that no person types into."""

    def refused(self, stdin: Any) -> str:
        """Why a run is not begun, each act of which asks, and whose settings are wrong besides."""
        always = ("--demo", "--confirm", "always", "--set", "blocked_keys=ctrl+nokey")
        code, _, err = self.main(*always, stdin=stdin)
        self.assertEqual(code, 2)
        return err

    def test_nul_says_that_it_is_a_terminal_but_is_no_console(self) -> None:
        for isatty, console in ((True, True), (True, False), (False, True)):
            world = FakeWin32()
            world.console_mode = 3
            world.stdin = STDOUT if console else 99
            with platform("win32"), windows_of_main(world):
                said = self.refused(mock.Mock(isatty=lambda isatty=isatty: isatty))
            self.assertIn("nokey" if isatty and console else "nobody can be asked", said)

    def test_a_risky_act_is_refused_at_once_and_the_model_hears_that_nobody_can_be_asked(
        self,
    ) -> None:
        _, out, _ = self.main("--demo", *ICONS_ARE_RISKY, "--max-steps", "3")
        self.assertIn("nobody can be asked, so use --confirm never or allow_risky", out)
        results = [record["result"] for record in self.records() if record["kind"] == "result"]
        self.assertRegex(
            results[0], r"Nobody can be asked to allow this \(double_click .*: icon\); do it"
        )
        self.assertNotIn("person did not", str(self.records()))

    def test_a_run_in_which_nobody_could_allow_any_act_is_not_begun(self) -> None:
        code, out, err = self.main("--demo", "--confirm", "always")
        self.assertEqual((code, out, len(err.splitlines())), (2, "", 1), err)
        self.assertIn("each act needs a yes, and nobody can be asked here", err)
        self.assertFalse(self.run_folder().exists())

    def test_a_dry_run_and_acts_allowed_in_advance_need_no_yes(self) -> None:
        always = ("--demo", "--confirm", "always", "--max-steps", "2")
        _, out, _ = self.main(*always, "--dry-run")
        self.assertIn("Dry run: would double click", out)
        _, out, _ = self.main(*always, "--set", "allow_risky=any act")
        self.assertIn("changed", out)

    def test_a_program_without_stdin_has_nobody_to_ask(self) -> None:
        self.assertIn("nobody can be asked", self.refused(None))


class Rows(CommandLineCase):
    """A turn on the terminal, whatever its width."""

    def rows(self, columns: int, effect: str = "changed") -> list[str]:
        """Of a terminal with one column more, which stays free."""
        done = 'click_screen_element "Save the document under another name" (120, 340)'
        turn = agent.TurnLine(12, "executor", done, effect, 3.2, 4711)
        return self.shown(lambda terminal: terminal.take(turn), columns + 1)

    def test_a_row_fits_from_60_columns_up_and_what_matters_least_goes_first(self) -> None:
        for columns in (*range(59, 120, sample(1, 4)), 199):
            for effect in ("changed", "Waited 1.5 s for a change", "Not done: " + "a reason " * 20):
                first, *more = self.rows(columns, effect)
                for row in (first, *more):
                    self.assertLessEqual(len(row), columns, row)
                for row in more:
                    self.assertTrue(row.startswith("    | "), row)
                self.assertTrue(first.startswith("  12  executor  click_screen_el"), first)
        self.assertRegex(self.rows(59)[0], r" changed +3\.2 s$")
        self.assertRegex(self.rows(76)[0], r" changed +3\.2 s +4711 tokens$")

    def test_the_reason_of_a_refusal_is_whole(self) -> None:
        reason = "Not done: The person did not allow this (send); do it another way or report."
        for columns in (59, 80, 110):
            first, *more = self.rows(columns, reason)
            self.assertIn(" Not done", first)
            self.assertEqual(" ".join(row.removeprefix("    | ") for row in more), reason)

    def test_a_path_has_each_backslash_once_as_the_person_knows_it(self) -> None:
        done = r'text "C:\\Töö\\a"'
        turn = agent.TurnLine(1, "executor", done, r"Not done: 'C:\\cmd.exe' is blocked.", 1, 1)
        lines = " ".join(self.shown(lambda terminal: terminal.take(turn)))
        self.assertIn(r'"C:\Töö\a"', lines)
        self.assertIn(r"'C:\cmd.exe' is blocked.", lines)

    def test_a_terminal_of_60_columns_gets_rows_of_59(self) -> None:
        turn = agent.TurnLine(1, "executor", "click " * 20, "Not done: " + "x " * 99, 1, 1)
        lines = self.shown(lambda terminal: terminal.take(turn))
        self.assertGreater(len(lines), 3)
        self.assertLessEqual(max(map(len, lines)), 59)

    def test_a_question_of_300_characters_fits_and_hides_a_secret_that_would_be_broken(
        self,
    ) -> None:
        question = "not allowed: " + ("click the button " * 20)[:240] + " my secret is here: risk"
        lines = self.shown(lambda terminal: terminal.say(question + "\n    y allows it."))
        self.assertLessEqual(max(map(len, lines)), 59)
        whole = " ".join(line.removeprefix("    | ") for line in lines)
        self.assertIn("{{S}}", whole)
        self.assertNotIn("secret", whole)
        self.assertEqual(
            whole.split(),
            question.replace("my secret is", "{{S}}").split() + "y allows it.".split(),
        )

    def shown(self, do: Callable[[agent.Terminal], None], columns: int = 60) -> list[str]:
        """The lines that a terminal of so many columns shows."""
        screen = Screen()
        with (
            contextlib.redirect_stdout(screen),
            terminal_columns(columns),
            mock.patch.dict(os.environ, {"TERM": "xterm", "NO_COLOR": "1"}),
            platform("linux"),
            contextlib.ExitStack() as undo,
        ):
            secrets = agent.Secrets({"S": "my secret is"})
            do(agent.Terminal(VirtualClock(), 1, secrets.hide, undo))
        return screen.getvalue().splitlines()

    def test_quiet_says_why_it_was_not_completed(self) -> None:
        _, out, _ = self.main("--demo", "-q", *ICONS_ARE_RISKY, "--max-steps", "2")
        first, *middle = out.splitlines()
        self.assertRegex(first, "^not allowed: double_click .*: icon; nobody can be asked")
        self.assertIn("max_steps: Not completed within 2 turns.", middle)
        self.assertRegex(
            out, r"(?m)^ +2  executor  double_click\S* .* Not done .*\n.*Nobody can be asked"
        )
        _, out, _ = self.main("--demo", "-q")
        self.assertNotIn("executor", out)

    def test_no_word_stands_twice_and_one_is_no_plural(self) -> None:
        _, out, _ = self.main(
            "--demo", "--max-steps", "2", "--set", "stall_stop=1", *ICONS_ARE_RISKY
        )
        self.assertIn("stuck: 1 turn made no progress.", out)
        self.assertRegex(out, r"(?m)^\d turns?, 0 acts, 1 refused")


class CheckTells(CommandLineCase):
    """--check says what it knows at once, and what it waits for."""

    def check(self, *argv: str) -> tuple[int, str, str]:
        with desktop_of_main(agent.DemoDesktop):
            return self.main("--check", *argv)

    def test_each_line_is_printed_before_the_next_thing_is_waited_for(self) -> None:
        seen = []
        discover = agent.ModelServer.discover

        def watched(server: agent.ModelServer) -> agent.ModelInfo:
            tick = threading.Event()
            for _ in range(1000):  # a thread prints
                if "list of models" not in sys.stdout.getvalue():
                    tick.wait(0.02)
            seen.append(sys.stdout.getvalue())
            return discover(server)

        demo = agent.DemoModel()
        self.addCleanup(demo.close)
        with mock.patch.object(agent.ModelServer, "discover", watched):
            self.check("--endpoint", demo.endpoint)
        lines = seen[0].splitlines()
        self.assertEqual([line.split()[1] for line in lines[:2]], ["system", "waiting"])
        self.assertRegex(seen[0], r"(?m)^ok    screen ")
        self.assertTrue(lines[-1].startswith("...   waiting for the list of models at http"), lines)
        self.assertNotIn("Rect", seen[0])

    def test_a_hanging_model_is_told_and_ctrl_c_ends_it_in_words(self) -> None:
        hang = threading.Event()
        self.addCleanup(hang.set)
        respond = agent.DemoModel.respond

        def silent(model: agent.DemoModel, body: bytes) -> dict[str, Any]:
            if body:
                press.set()
                hang.wait(20)
            return respond(model, body)

        press = threading.Event()
        threading.Thread(
            target=lambda: press.wait(20) and signal.raise_signal(signal.SIGINT)
        ).start()
        demo = agent.DemoModel()
        self.addCleanup(demo.close)
        with mock.patch.object(agent.DemoModel, "respond", silent):
            code, out, err = self.check("--endpoint", demo.endpoint)
        self.assertEqual(code, 130)
        self.assertIn("to find 12 squares in pictures, at most 240 s each", out.splitlines()[-1])
        self.assertEqual(err, "agent.py: Stopped: Ctrl+C; what is not listed was not examined.\n")


class WrongUse(CommandLineCase):
    """Each wrong use is one sentence that says what to do, without the words of Python."""

    def said(self, *argv: str, **kwargs: Any) -> str:
        code, out, err = self.main(*argv, **kwargs)
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(len(err.splitlines()), 1, err)
        words = err.replace(str(self.folder), "")  # whose name is random, and may hold anything
        self.assertNotRegex(words, r"Errno|Rect\(|Scenario\.|Error|Traceback|__|argument -")
        self.assertFalse(self.run_folder().exists())
        return err.removeprefix("agent.py: ").rstrip("\n")

    def test_the_nearest_option_and_setting_are_named(self) -> None:
        self.assertEqual(
            self.said("--panle", "do it"),
            "There is no option --panle; the nearest is --panel, and --help lists all.",
        )
        self.assertIn("the nearest is --max-steps", self.said("--max-stepz=3"))
        self.assertIn(
            "the nearest is max_steps, and --settings lists all", self.said("--set", "max_stpes=3")
        )
        for argv, words in (
            (("--set", "nonsense=1"), "there is no setting 'nonsense'; --settings lists all."),
            (("--mcp",), "There is no option --mcp; --help lists all."),
            (("--set", "timeout=3"), "the nearest is lmstudio_timeout, and --settings lists all."),
        ):
            self.assertTrue(self.said(*argv).endswith(words), argv)
        self.assertIn(
            "FIELD=VALUE such as max_steps=30, not 'max_steps'", self.said("--set", "max_steps")
        )

    def test_a_task_without_quotes_is_shown_with_them(self) -> None:
        self.assertEqual(
            self.said("Open", "Notepad"),
            'The task has to stand in quotes: python agent.py "Open Notepad"',
        )

    def test_an_empty_task_is_told(self) -> None:
        self.assertIn("a task is given an empty text; say which", self.said(""))

    def test_an_area_that_is_none_and_one_outside_the_screen_are_told_apart(self) -> None:
        self.assertIn(
            "LEFT,TOP,WIDTH,HEIGHT in pixels such as 0,0,960,1080, or with decimal points"
            " X1,Y1,X2,Y2 as fractions of the primary monitor such as 0.0,0.0,0.5,1.0, not '0,0'",
            self.said("--area", "0,0", "--demo"),
        )
        self.assertIn(
            "is not inside the screen 0,0,1280,720;", self.said("--area", "0,0,9000,9000", "--demo")
        )
        self.assertIn("is not inside the screen", self.said("--area", "0,0,0,0", "--demo"))

    def test_there_is_nothing_to_resume(self) -> None:
        self.assertRegex(
            self.said("--resume"), "^There is no run in .* yet; give a task to begin one.$"
        )

    def test_the_demo_names_the_one_task_that_it_knows(self) -> None:
        task = 'Open Notes, write "Hello from agent.py" and save it.'
        for other in ("Open the calculator", "note"):
            self.assertIn(f"knows no other task than: {task}", self.said("--demo", other))
        code, out, _ = self.main("--demo", task, "--max-steps", "1")
        self.assertEqual((code, self.records()[0]["task"]), (1, task))
        self.assertIn("Not completed within 1 turn.", out)

    def test_the_run_of_a_demo_is_repeated_on_its_drawn_desktop_whatever_is_said(self) -> None:
        self.recorded()
        code, out, _ = self.main("--replay", "1")
        self.assertEqual(code, 0, out)
        self.assertIn("Repeated 4 acts.", out)

    def test_what_argparse_refuses_is_one_sentence_too(self) -> None:
        for argv in (("--stats",), ("--replay",), ("--s", "3")):
            said = self.said(*argv)
            self.assertRegex(said, r"; (--help shows how options are used|use it as in --\w+ )")


class Reference(CommandLineCase):
    def test_settings_lists_every_setting_with_default_range_and_variable(self) -> None:
        code, out, _ = self.main("--settings")
        self.assertEqual(code, 0)
        entries = out.split("\n")
        self.assertLessEqual(max(map(len, entries)), 100)
        flat = " ".join(out.split())
        for name, setting in agent.SETTINGS.items():
            self.assertIn(f"{name} = ", out)
            self.assertIn(setting.text, flat)
        self.assertIn(
            "max_steps = 50\n      turns; chat, pointer: acts on the desktop; takes a whole number, 1 to 100000; in"
            " profile\n      commander 30, chat 10, pointer 10, story 100000; environment AGENT_MAX_STEPS\n",
            out,
        )
        self.assertIn("takes never or risky or always", flat)

    def test_settings_with_a_word_lists_those_that_have_it(self) -> None:
        _, out, _ = self.main("--settings", "hotkey")
        self.assertEqual(
            [line.split()[0] for line in out.splitlines()[::2]], ["stop_hotkey", "pause_hotkey"]
        )
        self.assertIn("; --settings alone lists all.", self.main("--settings", "zzz")[2])
        self.assertIn("the nearest is confirm,", self.main("--settings", "comfirm")[2])

    def test_a_setting_without_a_default_is_shown_as_empty(self) -> None:
        self.assertIn("sampling = (empty)\n", self.main("--settings", "sampling")[1])

    def test_the_page_of_help_and_its_tables_fit_100_columns(self) -> None:
        for topic in ("", "described"):
            code, out, _ = self.main("--help", topic)
            self.assertEqual(code, 0)
            self.assertLessEqual(max(map(len, out.splitlines())), 100)
        self.assertIn("only on described", self.main("--help", "nothing")[2])


class PageOfADemo(CommandLineCase):
    """A demo with a panel, in virtual time: pages come and go at given seconds."""

    def watched(self, *opened: tuple[float, float], **typed: str) -> str:
        """What a demo says whose page is open from second to second, while the person types nothing or this."""
        clocks: list[VirtualClock] = []

        def types(out: str) -> str | None:
            return typed.get("line") if "The page stays" in out else None

        def is_open(_: object) -> bool:
            clocks[:] = clocks or [self.clock]
            return any(first <= self.clock.time - 1000 < last for first, last in opened)

        def clock_of(stop: agent.Stop) -> VirtualClock:
            self.clock = PersonsClock(stop, keyboard, types)
            return self.clock

        with (
            person_at_main(types) as keyboard,
            clock_of_main(clock_of),
            mock.patch.object(agent.Panel, "watched", is_open),
        ):
            waits = ("--set", "demo_page_wait=60")
            code, out, _ = self.main("--demo", "--panel", *waits, stdin=keyboard)
            keyboard.end()
        self.assertEqual(code, 0)
        self.seconds = self.clock.time - 1000
        return out

    def test_it_waits_for_the_first_page_and_says_so(self) -> None:
        out = self.watched((20, 21))
        self.assertIn("the demo waits up to 60 s for it.\n", out)
        self.assertNotIn("Nobody", out)
        self.assertTrue(20 <= self.seconds < 60, self.seconds)

    def test_it_begins_without_a_page_after_a_minute_and_waits_for_none_in_the_end(self) -> None:
        out = self.watched()
        self.assertIn("Nobody has opened it", out)
        self.assertNotIn("The page stays", out)
        self.assertGreaterEqual(self.seconds, 60)

    def test_the_page_stays_until_it_is_closed(self) -> None:
        out = self.watched((0, 5000))
        self.assertRegex(out, "(?s)completed:.*The page stays until you close it or press Enter")
        self.assertAlmostEqual(self.seconds, 5000, delta=1)

    def test_enter_ends_it(self) -> None:
        self.watched((0, 5000), line="")
        self.assertLess(self.seconds, 4000)

    def test_a_watched_demo_runs_at_a_pace_for_eyes_unless_told_otherwise(self) -> None:
        for argv, pace in (
            ((), 0),
            (("--panel",), 1.5),
            (("--panel", "--set", "turn_delay=0.5"), 0.5),
        ):
            with clock_of_main():
                words = ("--max-steps", "1", "--set", "demo_page_wait=0")
                self.main("--demo", *words, *argv, hasty=False)
            self.assertEqual(self.records()[0]["config"]["turn_delay"], pace)
            shutil.rmtree(self.folder / "dumps")


if __name__ == "__main__":
    unittest.main()
