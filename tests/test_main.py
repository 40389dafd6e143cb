"""The command line: wiring, exit codes, one clear line for whatever is wrong, and stopping."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import agent
from tests.seams import clock_of_main, desktop_of_main, platform
from tests.timing import HANGS_S

QUICK = {
    "AGENT_IMAGE_W": "512",
    "AGENT_IMAGE_H": "288",
}  # in pictures that are smaller still, the demo's model does not find the arrow
HASTY = "--set settle_cap_ms=1 --set demo_page_wait=0".split()

# A run keeps the last screen that it packed; here one keeps those of all the demos, which look alike.
ENCODE_PNG = functools.lru_cache(maxsize=32)(agent.encode_png.__wrapped__)


SYSTEM_CLOCK = agent.SystemClock


class HastyClock(SYSTEM_CLOCK):
    """The real time, in which nothing rests long, as before a second click that is to be no double click."""

    def sleep(self, seconds: float) -> None:
        super().sleep(min(seconds, 0.01))


def copy_folder(source: Path, target: Path) -> None:
    """Without CopyFile2, which shutil.copy2 calls on Windows from Python 3.12 on, and Wine lacks."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)


class Kept(NamedTuple):
    """A demo that was carried out: what `CommandLineCase.main` gave, and the folder of its files."""

    said: tuple[int, str, str]
    folder: Path


# The demos that tests ask for again and again, by their arguments.
KEPT: dict[tuple[str, ...], Kept] = {}


class CommandLineCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def recorded(self, *argv: str) -> tuple[int, str, str]:
        """As `main("--demo", *argv)`, for the first run of a test that only looks at what is left.

        The demo is carried out once in a process; each test gets a copy of its files.
        """
        if argv not in KEPT:
            folder = tempfile.TemporaryDirectory()
            atexit.register(folder.cleanup)
            mine, self.folder = self.folder, Path(folder.name)
            KEPT[argv] = Kept(self.main("--demo", *argv), self.folder)
            self.folder = mine
        (code, out, err), kept = KEPT[argv]
        copy_folder(kept / "dumps", self.folder / "dumps")
        out, err = (words.replace(str(kept), str(self.folder)) for words in (out, err))
        return code, out, err

    def main(
        self,
        *argv: str,
        stdin: Any = b"",
        environ: dict[str, str] | None = None,
        hasty: bool = True,
    ) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of a run whose files go to the test's own folder."""
        out, err = io.StringIO(), io.StringIO()
        environ = {"AGENT_DUMP_DIR": str(self.folder / "dumps"), **QUICK, **(environ or {})}
        words: list[str] = []
        if "--demo" in argv and hasty:
            words += HASTY
        if "--panel" in argv and hasty:
            words += ["--set", "turn_delay=0"]
        source = stdin
        if isinstance(stdin, bytes):
            source = io.TextIOWrapper(io.BytesIO(stdin), encoding="cp1252")
        # A test may have a clock of its own.
        clock = agent.SystemClock
        if clock is SYSTEM_CLOCK and hasty:
            clock = HastyClock
        with (
            clock_of_main(clock),
            mock.patch.dict(os.environ, environ),
            mock.patch.object(sys, "stdin", source),
            mock.patch.object(agent, "encode_png", ENCODE_PNG),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code = agent.main([*words, *argv])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return code, out.getvalue(), err.getvalue()

    def records(self, number: int = 1) -> list[dict[str, Any]]:
        """The lines of a run's turns.jsonl."""
        text = (self.run_folder(number) / "turns.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def run_folder(self, number: int = 1) -> Path:
        return self.folder / "dumps" / f"run_{number:04d}"


class Demo(CommandLineCase):
    def test_the_demo_completes_and_leaves_a_whole_run_folder(self) -> None:
        for number, profile in enumerate(("planner", "commander"), 1):
            code, out, err = self.main("--demo", "--profile", profile)
            self.assertEqual((code, err), (0, ""), out)
            records = self.records(number)
            self.assertEqual(
                (records[0]["kind"], records[-1]["kind"], records[-1]["outcome"]),
                ("run", "end", "completed"),
            )
            self.assertTrue(list((self.run_folder(number) / "screenshots").glob("turn_*.png")))
            self.assertIn(
                "API REQUEST 1",
                (self.run_folder(number) / "execution_log.txt").read_text(encoding="utf-8"),
            )
            self.assertRegex(
                out.splitlines()[-1], r"turns, .* s, .* requests, .* tokens; see .*run_000"
            )

    def test_each_turn_leaves_one_line_with_turn_role_action_seconds_and_tokens(self) -> None:
        _, out, _ = self.recorded()
        self.assertRegex(
            out,
            r"(?m)^ +2  executor  double_click_screen_element .* changed +\d+\.\d s +\d+ tokens$",
        )

    def test_a_dry_run_looks_and_asks_but_does_nothing(self) -> None:
        with mock.patch.object(agent.DemoDesktop, "button", side_effect=AssertionError("touched")):
            code, out, _ = self.main("--demo", "--dry-run", "--max-steps", "4")
        self.assertEqual(code, 0)
        self.assertIn("Dry run: would double", out)

    def test_too_few_turns_end_with_exit_code_1_and_say_so(self) -> None:
        code, out, _ = self.main("--demo", "--max-steps", "2")
        self.assertEqual(code, 1)
        self.assertIn("Not completed within 2 turns", out)


class WrongUse(CommandLineCase):
    def one_line(self, *argv: str, **kwargs: Any) -> str:
        """The single line that a refused start leaves; it exits with 2 and makes no run folder."""
        code, _, err = self.main(*argv, **kwargs)
        self.assertEqual(code, 2)
        self.assertEqual(len(err.strip().splitlines()), 1, err)
        self.assertFalse(self.run_folder().exists())
        return err

    def test_an_empty_task_is_refused(self) -> None:
        with desktop_of_main(agent.DemoDesktop):
            demo = agent.DemoModel()
            self.addCleanup(demo.close)
            self.assertIn(
                "There is no task", self.one_line("--endpoint", demo.endpoint, stdin=b"\n")
            )

    def test_a_dump_folder_that_cannot_be_made_is_named(self) -> None:
        (self.folder / "dumps").write_text("a file")
        self.assertIn("cannot be used for runs", self.one_line("--demo"))

    def test_a_bare_word_that_is_an_option_is_answered_with_it(self) -> None:
        for word, option in (
            *(
                (word, f"--{word}")
                for word in ("check", "help", "demo", "settings", "runs", "stats")
            ),
            ("/?", "--help"),
            (" Check ", "--check"),
        ):
            self.assertIn(f"did you mean {option}?", self.one_line(word))
        self.assertIn("--help lists all", self.one_line("-?"))

    def test_blanks_around_a_setting_say_nothing(self) -> None:
        code, _, err = self.main("--demo", "--max-steps", "1", "--set", "confirm = never ")
        self.assertEqual((code, err, self.records()[0]["config"]["confirm"]), (1, "", "never"))

    def test_a_secret_is_gone_from_the_environment_once_it_is_read(self) -> None:
        seen: list[bool] = []
        capture = agent.DemoDesktop.capture

        def looking(desktop: agent.DemoDesktop, *given: Any) -> agent.Frame:
            seen.append("PIN" in os.environ or "LMSTUDIO_API_KEY" in os.environ)
            return capture(desktop, *given)

        secrets = {"PIN": "4711-0815", "LMSTUDIO_API_KEY": "sk-0123456789"}
        with mock.patch.object(agent.DemoDesktop, "capture", looking):
            self.main("--demo", "--max-steps", "2", "--secret", "PIN", environ=secrets)
        self.assertIs(seen[-1], False)

    def test_the_key_of_the_server_goes_with_each_request(self) -> None:
        keys: list[str | None] = []
        parse = agent.DemoRequest.parse_request

        def noting(request: agent.DemoRequest) -> bool:
            parsed = parse(request)
            keys.append(request.headers["Authorization"])
            return parsed

        environ = {"LMSTUDIO_API_KEY": "sk-0123456789"}
        with mock.patch.object(agent.DemoRequest, "parse_request", noting):
            self.main("--demo", "--max-steps", "2", environ=environ)
        self.assertGreater(len(keys), 2)
        self.assertEqual(set(keys), {"Bearer sk-0123456789"})


class Environment(CommandLineCase):
    def test_without_a_desktop_it_says_so_and_names_the_demo(self) -> None:
        with platform("linux"):
            code, _, err = self.main("do something")
        self.assertEqual(code, 3)
        self.assertIn("--demo", err)
        self.assertLessEqual(len(err.splitlines()), 3)

    def test_without_a_server_it_says_what_to_do(self) -> None:
        with desktop_of_main(agent.DemoDesktop):
            code, _, err = self.main("task", "--endpoint", "http://127.0.0.1:9/v1/chat/completions")
        self.assertEqual(code, 3)
        self.assertIn("start it in LM Studio", err)
        self.assertLessEqual(len(err.splitlines()), 3)

    def test_the_task_may_come_through_a_pipe_in_utf_8_whatever_the_console_says(self) -> None:
        with desktop_of_main(agent.DemoDesktop):
            demo = agent.DemoModel()
            self.addCleanup(demo.close)
            task = 'Öffne Notes, write "Grüße €" and save it.'
            code, _, _ = self.main(
                "--endpoint", demo.endpoint, "--max-steps", "1", stdin=task.encode() + b"\r\n"
            )
        self.assertEqual((code, self.records()[0]["task"]), (1, task))

    def test_help_fits_one_screen_and_shows_examples(self) -> None:
        code, out, _ = self.main("--help")
        self.assertEqual(code, 0)
        self.assertLessEqual(len(out.splitlines()), 50)
        self.assertIn("python agent.py --demo", out)
        self.assertEqual(self.main("--version")[1].strip(), f"agent.py {agent.__version__}")


class Stopping(CommandLineCase):
    def test_ctrl_c_while_a_request_hangs_ends_before_its_answer_with_a_whole_journal(self) -> None:
        asked, ended = threading.Event(), threading.Event()
        answered: list[bool] = []
        respond = agent.DemoModel.respond

        def silent(model: agent.DemoModel, body: bytes) -> dict[str, Any]:
            if body:
                asked.set()
                answered.append(not ended.wait(HANGS_S))
            return respond(model, body)

        def press() -> None:
            asked.wait(HANGS_S)
            signal.raise_signal(signal.SIGINT)

        self.addCleanup(ended.set)
        with mock.patch.object(agent.DemoModel, "respond", silent):
            thread = threading.Thread(target=press)
            thread.start()
            code, out, _ = self.main("--demo")
            self.assertEqual(answered, [])
            thread.join()
        self.assertEqual(code, 130)
        self.assertIn("stopped: Ctrl+C", out)
        self.assertEqual(self.records()[-1]["outcome"], "stopped")


if __name__ == "__main__":
    unittest.main()
