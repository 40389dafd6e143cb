"""The command line: one clear line for whatever is wrong, what is read from a person, what is told, and stopping."""

from __future__ import annotations

import ast
import atexit
import contextlib
import errno
import functools
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import agent
from tests.fakes import FakeWin32, Foreground
from tests.samples import for_the_gate, some
from tests.seams import (
    Keyboard,
    clock_of_main,
    desktop_of_main,
    person_there,
    platform,
    windows_of_main,
)
from tests.servers import NOBODY
from tests.starting import environment
from tests.timing import HANGS_S

QUICK = {
    "AGENT_IMAGE_W": "512",
    "AGENT_IMAGE_H": "288",
}  # in pictures that are smaller still, the demo's model does not find the arrow
HASTY = "--set settle_cap_ms=1 --set demo_page_wait=0".split()
ONCE = "--set closer_look=false".split()  # no script answers a second look at small targets

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


# The demos that tests ask for again and again, by their desktop and their arguments.
KEPT: dict[tuple[Any, ...], Kept] = {}


class CommandLineCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.opened = mock.Mock()  # in the place of a browser

    def recorded(self, *argv: str, make: Any = agent.DemoDesktop) -> tuple[int, str, str]:
        """As `main("--demo", *argv)`, for the first run of a test that only looks at what is left.

        The demo, on the desktop that `make(clock)` gives, is carried out once in a process; each test gets a copy of its files.
        """
        key = (make, *argv)
        if key not in KEPT:
            folder = tempfile.TemporaryDirectory()
            atexit.register(folder.cleanup)
            mine, self.folder = self.folder, Path(folder.name)
            with desktop_of_main(make):
                KEPT[key] = Kept(self.main("--demo", *argv), self.folder)
            self.folder = mine
        (code, out, err), kept = KEPT[key]
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
        own = {"AGENT_DUMP_DIR": str(self.folder / "dumps"), "LMSTUDIO_ENDPOINT": NOBODY}
        environ = {**own, **QUICK, **(environ or {})}
        words: list[str] = []
        if {"--demo", "--endpoint"} & set(argv):
            words += ONCE
        if "--demo" in argv and hasty:
            words += HASTY
        if "--panel" in argv and hasty:
            words += ["--set", "turn_delay=0"]
        for item in words[1::2]:
            if f"{item.partition('=')[0]}=" in " ".join(argv):  # the test says it
                at = words.index(item)
                del words[at - 1 : at + 1]
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
            mock.patch("webbrowser.open", self.opened),
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

    @contextlib.contextmanager
    def drawn(self, make: Any = agent.DemoDesktop) -> Iterator[str]:
        """The drawn desktop in the place of a real one; gives the endpoint of a model that knows it."""
        demo = agent.DemoModel()
        self.addCleanup(demo.close)
        with desktop_of_main(make):
            yield demo.endpoint


TASK = 'Open Notes, write "Hello from agent.py" and save it.'
# Wrong uses: the words between bars, what the one sentence says, and what else there is beside them.
WRONG = Path(__file__).with_name("data") / "commands.jsonl"
# What a program can reach other programs, machines and files of the system with.
OUTREACHING = frozenset(
    """asyncio ctypes ftplib http.client http.server imaplib msvcrt multiprocessing poplib pty signal smtplib socket
    socketserver sqlite3 ssl subprocess telnetlib webbrowser winreg winsound xmlrpc""".split()
)


class WrongUse(CommandLineCase):
    """Each is one sentence that says what to do, without the words of Python, before anything begins."""

    def refused(self, *argv: str, **kwargs: Any) -> str:
        code, out, err = self.main(*argv, **kwargs)
        out = re.sub(r"Profile .*\n", "", out)  # which is said before anything is found
        self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
        words = err.replace(str(self.folder), "")  # whose name is random, and may hold anything
        self.assertNotRegex(words, r"Errno|Rect\(|Error|Traceback|__|argument -")
        self.assertFalse(self.run_folder().exists())
        return err

    def test_each_is_told_with_what_to_do(self) -> None:
        file = self.folder / "my agent.json"
        with self.drawn() as endpoint:
            meant = {"file": str(file), "long": "a" * 300, "endpoint": endpoint}
            for row in map(json.loads, WRONG.read_text("utf-8").splitlines()):
                with self.subTest(row):
                    file.write_bytes(row.get("file", "").encode("latin-1"))
                    if "journal" in row:
                        self.run_folder(3).mkdir(parents=True, exist_ok=True)
                        (self.run_folder(3) / "turns.jsonl").write_text(row["journal"], "utf-8")
                    words = re.sub(r"{(\w+)}", lambda name: meant[name[1]], row["words"])
                    given = {"stdin": row.get("stdin", "").encode(), "environ": row.get("environ")}
                    self.assertIn(row["says"], self.refused(*words.split("|"), **given))
        for told in ("-q -v --help", "-q -v --help described", "note --settings max"):
            self.assertEqual(self.main(*told.split())[0], 0)

    def test_a_report_that_has_no_room_is_not_told_to_have_another_name(self) -> None:
        self.recorded()
        for number, told in ((errno.ENOSPC, "free space there"), (errno.EACCES, "another name")):
            target = self.folder / "a.html"
            failed = OSError(number, "It failed")

            def opened(
                path: Any, *words: Any, why: OSError = failed, at: Path = target, real: Any = open
            ) -> Any:
                if path == at:
                    raise why
                return real(path, *words)

            with mock.patch("builtins.open", opened):
                code, _, err = self.main("--report", "1", str(target))
            self.assertEqual(code, 2)
            self.assertIn(told, err)

    def test_settings_with_wrong_keys_are_told_before_the_task_is_asked_for(self) -> None:
        with person_there():  # who would be asked on stdout
            self.assertIn("nokey", self.refused("--set", "blocked_keys=ctrl+nokey"))

    def test_a_folder_on_a_drive_that_is_gone_is_told(self) -> None:
        gone = OSError(errno.EIO, "The network name is no longer available")
        for words in ("--runs", "--stats 1"):
            with mock.patch.object(Path, "glob", side_effect=gone):
                self.assertIn("no longer available", self.refused(*words.split()))

    def test_nobody_can_be_asked_but_at_a_console(self) -> None:
        """NUL says that it is a terminal; the settings are wrong besides, which is told later."""
        always = ("--demo", "--confirm", "always", "--set", "blocked_keys=ctrl+nokey")
        for isatty, console in ((True, True), (True, False), (False, True)):
            world = FakeWin32()
            world.modes = {agent.STD_INPUT_HANDLE: 3} if console else {}
            stdin = mock.Mock(isatty=lambda isatty=isatty: isatty)
            with platform("win32"), windows_of_main(world):
                said = self.refused(*always, stdin=stdin)
            self.assertIn("nokey" if isatty and console else "nobody can be asked", said)
        self.assertIn("nobody can be asked", self.refused(*always, stdin=None))

    def test_a_console_of_its_own_stays_until_enter_and_a_shell_s_does_not(self) -> None:
        for shell in (False, True):
            world = FakeWin32(window=Foreground(path=r"C:\Windows\System32\cmd.exe"))
            world.console_processes = [os.getpid(), *[4711] * shell]
            keyboard = Keyboard()
            tick = mock.Mock(sleep=lambda _, keyboard=keyboard: keyboard.type(""))
            before = signal.getsignal(signal.SIGINT)
            with (
                platform("win32"),
                windows_of_main(world),
                person_there(),
                mock.patch.object(agent, "time", tick),
            ):
                _, out, _ = self.main("--version", stdin=keyboard)
            keyboard.end()
            signal.signal(signal.SIGINT, before)
            self.assertEqual("Press Enter to close this window." in out, not shell)


class UnfitPython(unittest.TestCase):
    """The file is imported by a program whose Python is made to look unfit first."""

    @for_the_gate
    def test_a_python_that_is_unfit_is_told_which_one_is_needed(self) -> None:
        old = "import sys; sys.version_info = (3, {0}, 18); sys.version = '3.{0}.18 (x)'"
        needed = "needs Python 3.10 or later with 64 bit, and this is 3.{}.18"
        rows = [(old.format(minor), needed.format(minor)) for minor in (8, 9)]
        rows.append(("import sys; sys.maxsize = 2**31 - 1", "with 32 bit"))
        rows.append(("import sys; sys.modules['ctypes'] = None", "needs ctypes, which"))
        for program, words in rows:
            self.assertIn(words, self.one_sentence(program, sys.executable))
        for python in sorted(Path.home().glob(".pyenv/versions/3.[89].*/bin/python"))[:1]:
            self.assertIn("this is 3.", self.one_sentence("", str(python)))

    def one_sentence(self, program: str, python: str) -> str:
        words = [python, "-c", f"{program}\nimport agent"]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr


class Given(CommandLineCase):
    """What is read from the environment and from the person."""

    def test_a_secret_leaves_the_environment_and_the_key_goes_with_each_request(self) -> None:
        seen, keys = list[bool](), set[str | None]()
        capture, parse = agent.DemoDesktop.capture, agent.DemoRequest.parse_request

        def looking(desktop: agent.DemoDesktop, *given: Any) -> agent.Frame:
            seen.append("PIN" in os.environ or "LMSTUDIO_API_KEY" in os.environ)
            return capture(desktop, *given)

        def noting(request: agent.DemoRequest) -> bool:
            parsed = parse(request)
            keys.add(request.headers["Authorization"])
            return parsed

        secrets = {"PIN": "4711-0815", "LMSTUDIO_API_KEY": "sk-0123456789"}
        with (
            mock.patch.object(agent.DemoDesktop, "capture", looking),
            mock.patch.object(agent.DemoRequest, "parse_request", noting),
        ):
            self.main("--demo", "--max-steps", "2", "--secret", "PIN", environ=secrets)
        self.assertEqual((seen[-1], keys), (False, {"Bearer sk-0123456789"}))

    def test_the_task_may_come_through_a_pipe_in_utf_8_or_from_a_window_of_text(self) -> None:
        task = 'Öffne Notes, write "Grüße €" and save it.'
        window = io.StringIO(task + "\n")  # as IDLE's, it has no buffer
        for number, stdin in enumerate((task.encode() + b"\r\n", window), 1):
            with self.drawn() as endpoint:
                code, _, _ = self.main("--endpoint", endpoint, "--max-steps", "1", stdin=stdin)
            self.assertEqual((code, self.records(number)[0]["task"]), (1, task))

    def test_without_a_desktop_or_a_server_it_says_what_to_do(self) -> None:
        nowhere = ("note", "--endpoint", f"{NOBODY}/v1/chat/completions")
        with platform("linux"):
            no_desktop = self.main("do something")
        with desktop_of_main(agent.DemoDesktop):
            no_server = self.main(*nowhere)
        for (code, _, err), words in ((no_desktop, "--demo"), (no_server, "start it (LM Studio")):
            self.assertEqual(code, 3)
            self.assertIn(words, err)
            self.assertLessEqual(len(err.splitlines()), 3)

    def test_an_agent_of_somebody_with_other_rights_is_told_as_any_other_one(self) -> None:
        world = FakeWin32()
        world.arm(names={"CreateMutexW"})  # as Windows refuses what an administrator's program made
        with windows_of_main(world):
            for words in ("note", "--teach note"):
                with person_there():
                    code, _, err = self.main(*words.split())
                self.assertEqual(code, 2)
                self.assertRegex(err, "Another agent.py works on this desktop; .* or stop it. Wind")


class Beginning(CommandLineCase):
    def test_ctrl_c_while_the_file_is_still_read_ends_it_without_a_traceback(self) -> None:
        (self.folder / "difflib.py").write_text(
            "import signal\nsignal.raise_signal(signal.SIGINT)\n"
        )
        ended = subprocess.run(
            [sys.executable, agent.__file__, "--version"],
            env={**environment(), "PYTHONPATH": str(self.folder)},
            capture_output=True,
            timeout=HANGS_S,
        )
        self.assertEqual((ended.stdout, ended.stderr.split()), (b"", [b"agent.py:", b"stopped."]))
        self.assertEqual(ended.returncode, 130)

    @unittest.skipIf(os.name == "nt", "Windows sends a process no such signal alone")
    def test_ctrl_c_at_any_call_stops_it_with_a_sentence_and_its_exit_code(self) -> None:
        for moment in some((2, 20, 200, 700, 800, 1000, 3000, 9000, 30_000), 3):
            words = [sys.executable, "-c", STOPPED_AT, agent.__file__, str(moment), "--demo"]
            ended = subprocess.run(
                words, cwd=self.folder, env=environment(), capture_output=True, timeout=HANGS_S
            )
            told = (ended.stdout + ended.stderr).decode()
            with self.subTest(moment, told=told):
                self.assertEqual(ended.returncode, 130)
                self.assertRegex(told, r"(?m)^(agent\.py: [Ss]topped.*\.|stopped: Ctrl\+C\.)")
                self.assertNotIn("Traceback", told)


# Runs the program, and presses Ctrl+C as its main thread begins that call, classes among them, of what stands in it.
STOPPED_AT = """
import os, runpy, signal, sys

path, moment = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]
calls = 0

def count(frame, event, _):
    global calls
    calls += event == "call" and frame.f_code.co_filename == path
    if calls == moment:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

sys.setprofile(count)
runpy.run_module("agent", run_name="__main__", alter_sys=True)
"""


class Many(CommandLineCase):
    @for_the_gate
    def test_of_many_runs_only_what_tells_how_they_went_is_read(self) -> None:
        self.recorded()
        whole = len(self.records())
        journal = self.run_folder() / "turns.jsonl"
        for number in range(2, 200):
            self.run_folder(number).mkdir()
            ended = journal.read_text().replace('"outcome": "completed"', '"outcome": "stuck"')
            (self.run_folder(number) / "turns.jsonl").write_text(ended)
        read: list[bytes] = []

        def counted(line: bytes) -> Any:
            read.append(line)
            return STRICT_JSON(line)

        with mock.patch.object(agent, "strict_json", counted):
            code, out, _ = self.main("--runs")
            rows = [line.split() for line in out.splitlines() if line.startswith("run_")]
            self.assertEqual((code, len(rows)), (0, 199))
            self.assertLess(len(read), 4 * 200)
            read.clear()
            _, out, _ = self.main("--demo", "--again", "--max-steps", "1")
            self.assertIn("   1  way ", out)
            self.assertLess(len(read), 4 * 200 + 4 * whole)
        row = rows[-1]
        self.assertEqual(row[0], "run_0199")
        self.assertEqual((row[4], row[5]), ("stuck", "6"))
        _, told, _ = self.main("--stats", "199")
        figures = dict(re.findall(r"(?m)^(turns|time) +([\d.]+)", told))
        self.assertEqual(figures["turns"], row[5])
        self.assertAlmostEqual(float(figures["time"]), float(row[6]), delta=0.21)


STRICT_JSON = agent.strict_json


class Reference(CommandLineCase):
    def test_help_settings_and_runs_fit_80_columns_and_break_between_words(self) -> None:
        self.recorded()
        shown = {}
        for words in ("", "--help described", "--help profiles", "--settings all", "--runs"):
            code, out, _ = self.main(*(words or "--help").split())
            self.assertLess(max(map(len, out.splitlines())), 80, words)
            shown[words] = " ".join(out.split())
            self.assertEqual(code, 0)
            self.assertTrue(words or len(out.splitlines()) <= 60)
        self.assertIn("python agent.py --demo", shown[""])
        self.assertIn("a planner that cannot see and an", shown["--help profiles"])
        self.assertEqual(self.main("--help", "profile"), self.main("--help", "profiles"))
        self.assertIn(TASK, shown["--runs"])
        self.assertEqual(self.main("--version")[1].strip(), f"agent.py {agent.__version__}")

    def test_settings_lists_every_setting_or_those_that_have_a_word(self) -> None:
        turned = re.findall(r"(?m)^(\w+) = ", self.main("--settings")[1])
        self.assertEqual(len(set(turned) & agent.SETTINGS.keys()), 20)
        for word in ("mouse", "speed", "language"):
            self.assertRegex(self.main("--settings", word)[1], r"\w+ = ", word)
        _, out, _ = self.main("--settings", "all")
        flat = " ".join(out.split())
        for name, setting in agent.SETTINGS.items():
            self.assertIn(f"{name} = ", out)
            self.assertIn(setting.text, flat)
        self.assertIn("in profile chat 10, pointer 10, story 100000;", flat)
        rows = self.main("--settings", "hotkey")[1].splitlines()
        self.assertEqual([row.split()[0] for row in rows[::2]], ["stop_hotkey", "pause_hotkey"])

    def test_the_manifest_names_all_that_can_be_touched_and_nothing_else(self) -> None:
        settings = "--set stop_hotkey=ctrl+f9 --set lmstudio_endpoint=http://127.0.0.1:9/v1".split()
        out = self.main("--manifest", *settings)[1]
        words = Counter(out.split())
        functions = {**agent.WIN32, **agent.CONTROL_FUNCTIONS}
        self.assertEqual({name for name in functions if words[name] != 1}, set())
        for kind in {row.kind for row in functions.values()}:
            self.assertRegex(out, f"(?m)^{kind} ")
        for said in ("ctrl+f9", "http://127.0.0.1:9/v1", str(self.folder / "dumps"), "nothing"):
            self.assertIn(said, "".join(out.split()) if "/" in said else out)
        # The last is where Python keeps what is loaded as a module, as for the process of controls.
        names = {"--results", "--rows", "--config,", "__pycache__"}
        self.assertTrue(names <= words.keys(), out)
        tree = ast.parse(Path(agent.__file__).read_text(encoding="utf-8"))
        imported = {
            name
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
        }
        told = re.search(r"that reach out: ([^:]*?)\n\w", out)
        self.assertEqual(set(re.findall(r"[\w.]+", told[1])), imported & OUTREACHING)

    def test_another_machine_gets_pictures_only_where_that_is_allowed(self) -> None:
        for address, clear in (
            ("http://192.0.2.1:9", True),
            ("https://127.evil.example", False),
            ("https://127.0.0.1.evil.example", False),
        ):
            for check in ((), ("--check",)):
                words = (*check, "--endpoint", f"{address}/v1")
                with (
                    desktop_of_main(agent.DemoDesktop),
                    mock.patch.object(
                        agent.ModelServer,
                        "_ask",
                        side_effect=agent.ModelError("not asked", "refused"),
                    ) as asked,
                ):
                    self.assertIn("give --allow-remote if they may", self.main(*words)[2])
                    self.assertFalse(asked.called)
                    _, out, _ = self.main(*words, "--allow-remote")
                    self.assertTrue(asked.called)
                self.assertEqual(out.count(f"warning: screenshots go to {address}"), 1)
                self.assertEqual("others on the way can read" in out, clear)

    def test_a_report_is_opened_where_there_is_a_screen(self) -> None:
        self.recorded()
        for screen in ("", ":0"):
            with platform("linux"), mock.patch.dict(os.environ, {"DISPLAY": screen}):
                self.main("--report", "1", "--open")
            self.assertEqual(self.opened.called, bool(screen))
        uri = (self.run_folder() / "report.html").absolute().as_uri()
        self.opened.assert_called_once_with(uri)

    def test_without_runs_there_is_a_sentence_instead_of_an_empty_table(self) -> None:
        for words in ((), ("--set", "dump_dir=nowhere")):
            _, out, _ = self.main("--runs", *words)
            folder = out.removeprefix("There is no run in ").partition(" yet; give a task")[0]
            self.assertTrue(Path(folder).is_absolute(), out)


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

    def test_on_every_way_out_held_input_is_released_and_a_second_ctrl_c_is_a_stop(self) -> None:
        for end in (agent.Stopped("x"), ZeroDivisionError, KeyboardInterrupt):
            released = mock.Mock()

            def run(engine: agent.Run, end: Any = end, released: Any = released) -> None:
                engine.actuator.release = released  # type: ignore[method-assign]
                raise end

            with mock.patch.object(agent, "run_agent", run), contextlib.suppress(RuntimeError):
                code, out, err = self.main("--demo")
            self.assertTrue(released.called, end)
        self.assertEqual((code, err), (130, "agent.py: stopped.\n"))
        self.assertIn("stopped: Ctrl+C, twice.", out)
        self.assertEqual(self.records(3)[-1]["outcome"], "stopped")
