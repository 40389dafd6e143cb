"""The first hour of a person who has never seen it: starting, wrong use, and what the program says to it."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.fakes import STDOUT, FakeWin32, VirtualClock
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

SOURCE = Path(agent.__file__)


class UnfitPython(unittest.TestCase):
    """The file is run as a program whose Python is made to look unfit first."""

    def started(
        self, program: str, python: str = sys.executable
    ) -> subprocess.CompletedProcess[str]:
        run = f"exec(compile(open({str(SOURCE)!r}, encoding='utf-8').read(), 'agent.py', 'exec'))"
        return subprocess.run(
            [python, "-B", "-c", f"{program}\n__name__ = 'agent'\n{run}"],
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
        said = self.one_sentence(
            "import sys; sys.version_info = (3, 9, 18); sys.version = '3.9.18 (x)'"
        )
        self.assertIn("needs Python 3.10 or later with 64 bit, and this is 3.9.18", said)

    def test_a_python_of_32_bit_is_told_so(self) -> None:
        said = self.one_sentence("import sys; sys.maxsize = 2**31 - 1")
        self.assertIn("with 32 bit", said)

    def test_a_python_without_ctypes_is_told_so(self) -> None:
        said = self.one_sentence("import sys; sys.modules['ctypes'] = None")
        self.assertIn("needs ctypes, which this Python lacks", said)

    def test_a_real_old_python_gets_the_sentence(self) -> None:
        for version in ("3.8", "3.9"):
            with self.subTest(version):
                python = shutil.which(f"python{version}")
                if not python or subprocess.run([python, "-V"], capture_output=True).returncode:
                    self.skipTest("it is not installed")
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

    def start(self, page: object, stdin: bytes = b"", person: bool = False) -> tuple[int, str, str]:
        """A start with a server of this list, by a person at a terminal or in a pipe."""
        routes = {"/v1/models": http(200, page)}
        with (
            RoutedServer(routes, OLLAMA_OTHER) as server,
            mock.patch.object(
                agent, "open_desktop", lambda options, clock: agent.DemoDesktop(clock)
            ),
            mock.patch.object(agent, "_person_is_there", lambda: person),
        ):
            return self.main("a task", "--endpoint", server.url, "--max-steps", "1", stdin=stdin)

    def test_in_a_pipe_the_exact_words_to_type_are_said_and_the_code_is_3(self) -> None:
        code, _, err = self.start(plain("llava:7b", "big model"))
        self.assertEqual((code, len(err.splitlines())), (3, 1), err)
        self.assertIn('choose one: --model llava:7b, --model "big model".', err)

    def test_without_a_model_the_command_that_downloads_one_is_said(self) -> None:
        code, _, err = self.start(plain())
        self.assertEqual((code, len(err.splitlines())), (3, 1), err)
        self.assertIn("download one with `lms get qwen/qwen3-vl-4b` (3.3 GB", err)

    def test_on_a_terminal_the_person_picks_from_a_numbered_list(self) -> None:
        for typed, picked in (("2\n", 1), ("nine\n7\n1\n", 0), ("\n", None), ("", None)):
            out = io.StringIO()
            with (
                self.subTest(typed),
                mock.patch.object(agent, "_person_is_there", lambda: True),
                mock.patch.object(sys, "stdin", io.StringIO(typed)),
                contextlib.redirect_stdout(out),
            ):
                self.assertEqual(agent.choose_model(["llava:7b", "pixtral"]), picked)
            self.assertIn("Which model?\n  1  llava:7b\n  2  pixtral\n", out.getvalue())

    def test_the_picked_model_is_asked(self) -> None:
        code, out, _ = self.start(plain("llava:7b", "pixtral"), b"2\n", person=True)
        self.assertEqual((code, self.records()[0]["model"]), (1, "pixtral"), out)


class NobodyThere(CommandLineCase):
    """Standard input that no person types into."""

    def person(self, isatty: bool, console: bool) -> bool:
        world = FakeWin32()
        world.console_mode = 3
        world.stdin = STDOUT if console else 99
        stdin = mock.Mock(isatty=lambda: isatty)
        with (
            mock.patch.object(sys, "stdin", stdin),
            mock.patch.object(agent.sys, "platform", "win32"),
            mock.patch.object(agent, "load_win32", lambda: world.api),
        ):
            return agent._person_is_there()

    def test_nul_says_that_it_is_a_terminal_but_is_no_console(self) -> None:
        self.assertFalse(self.person(isatty=True, console=False))
        self.assertFalse(self.person(isatty=False, console=True))
        self.assertTrue(self.person(isatty=True, console=True))

    def test_a_risky_act_is_refused_at_once_and_the_model_hears_that_nobody_can_be_asked(
        self,
    ) -> None:
        _, out, _ = self.main("--demo", "--confirm", "always", "--max-steps", "3")
        self.assertIn("nobody can be asked, so use --confirm never or allow_risky", out)
        results = [record["result"] for record in self.records() if record["kind"] == "result"]
        self.assertIn("Nobody can be asked to allow this (any act", results[0])
        self.assertNotIn("person did not", str(self.records()))

    def test_a_program_without_stdin_has_nobody_to_ask(self) -> None:
        with mock.patch.object(sys, "stdin", None):
            self.assertFalse(agent._person_is_there())


class Rows(CommandLineCase):
    """A turn on the terminal, whatever its width."""

    def rows(self, columns: int, effect: str = "changed") -> list[str]:
        done = 'click_screen_element "Save the document under another name" (120, 340)'
        return agent.turn_rows(agent.TurnLine(12, "executor", done, effect, 3.2, 4711), columns)

    def test_a_row_fits_from_60_columns_up_and_what_matters_least_goes_first(self) -> None:
        for columns in range(59, 200):
            for effect in ("changed", "Waited 1.5 s for a change", "Not done: " + "a reason " * 20):
                rows = self.rows(columns, effect)
                self.assertLessEqual(max(map(len, rows)), columns, rows)
                self.assertTrue(rows[0].startswith("  12  executor  click_screen_el"), rows)
        self.assertRegex(self.rows(59)[0], r" changed +3\.2 s$")
        self.assertRegex(self.rows(76)[0], r" changed +3\.2 s +4711 tokens$")

    def test_the_reason_of_a_refusal_is_whole(self) -> None:
        reason = "Not done: The person did not allow this (send); do it another way or report."
        for columns in (59, 80, 110):
            first, *more = self.rows(columns, reason)
            self.assertIn(" Not done", first)
            self.assertEqual(" ".join(" ".join(more).split()), reason)

    def test_a_terminal_of_60_columns_gets_rows_of_59(self) -> None:
        screen = Screen()
        with (
            contextlib.redirect_stdout(screen),
            mock.patch.object(
                agent.shutil, "get_terminal_size", lambda: os.terminal_size((60, 20))
            ),
            mock.patch.dict(os.environ, {"TERM": "dumb"}),
            contextlib.ExitStack() as undo,
        ):
            terminal = agent.Terminal(VirtualClock(), 1, str, undo)
            terminal.take(
                agent.TurnLine(1, "executor", "click " * 20, "Not done: " + "x " * 99, 1, 1)
            )
        lines = screen.getvalue().splitlines()
        self.assertGreater(len(lines), 3)
        self.assertLessEqual(max(map(len, lines)), 59)

    def test_quiet_says_why_it_was_not_completed(self) -> None:
        _, out, _ = self.main("--demo", "-q", "--confirm", "always", "--max-steps", "2")
        first, *middle = out.splitlines()
        self.assertTrue(first.startswith("not allowed: any act"), out)
        self.assertIn("max_steps: Not completed within 2 turns.", middle)
        self.assertRegex(out, r"(?m)^last: double_click\S* .*: Not done: Nobody can be asked")

    def test_no_word_stands_twice_and_one_is_no_plural(self) -> None:
        _, out, _ = self.main(
            "--demo", "--max-steps", "2", "--set", "stall_stop=1", "--confirm", "always"
        )
        self.assertIn("stuck: 1 turn made no progress.", out)
        self.assertRegex(out, r"(?m)^\d turns?, 0 acts, 1 refused")
        self.assertEqual(agent.count_of(1, "act"), "1 act")


class CheckTells(CommandLineCase):
    """--check says what it knows at once, and what it waits for."""

    def check(self, *argv: str) -> tuple[int, str, str]:
        with mock.patch.object(
            agent, "open_desktop", lambda options, clock: agent.DemoDesktop(clock)
        ):
            return self.main("--check", *argv)

    def test_each_line_is_printed_before_the_next_thing_is_waited_for(self) -> None:
        seen = []
        discover = agent.ModelServer.discover

        def watched(server: agent.ModelServer) -> agent.ModelInfo:
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

        def silent(model: agent.DemoModel, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
            if "chat" in path:
                press.set()
                hang.wait(20)
            return respond(model, path, body)

        press = threading.Event()
        threading.Thread(
            target=lambda: press.wait(20) and signal.raise_signal(signal.SIGINT)
        ).start()
        demo = agent.DemoModel()
        self.addCleanup(demo.close)
        with mock.patch.object(agent.DemoModel, "respond", silent):
            code, out, err = self.check("--endpoint", demo.endpoint)
        self.assertEqual(code, 130)
        self.assertIn("to find four squares in a picture, at most 240 s", out.splitlines()[-1])
        self.assertEqual(err, "agent.py: Stopped: Ctrl+C; what is not listed was not examined.\n")


if __name__ == "__main__":
    unittest.main()
