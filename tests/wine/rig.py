"""What the tests on a real Win32 desktop share: the desktop, the programs that run on it, and what is read of a run.

Nothing here touches a desktop other than the virtual one that `Desktop` starts.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
AGENT = ROOT / "agent.py"
SCREEN = (1920, 1080)
# Nobody sits here; on a busy machine Wine takes a window that appears under the pointer for the mouse's doing.
ALONE = "--set", "takeover_quiet=0"
Json = dict[str, Any]


@cache
def windows_python() -> str:
    """A Windows python.exe: AGENT_WINDOWS_PYTHON, or one built once in the cache."""
    given = os.environ.get("AGENT_WINDOWS_PYTHON")
    if given:
        return given
    cache_dir = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(os.environ.get("AGENT_WINE_CACHE") or f"{cache_dir}/agent-wine") / "python"
    command = [HERE / "windows-python.sh", folder, "3.12"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def windows_path(path: Path | str) -> str:
    """A path of this machine as Windows programs under Wine know it."""
    return "Z:" + str(Path(path).absolute()).replace("/", "\\")


def until(what: str, condition: Callable[[], Any], seconds: float = 60, pause: float = 0.05) -> Any:
    """The condition's value as soon as it is true."""
    limit = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > limit:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(pause)
    return value


def json_lines(path: Path) -> list[Json]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process of ours and what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


class Program:
    """A program of the Windows Python on a desktop; `text` is what it has printed so far.

    Its standard streams are pipes, since it ends without real ones. Under Wine a program that it starts holds its
    standard output open, so that the end of that tells nothing.
    """

    def __init__(self, desktop: Desktop, *arguments: str) -> None:
        self.text = ""
        self.process = subprocess.Popen(
            ["wine", windows_python(), "-X", "utf8", *arguments],
            cwd=desktop.folder,
            env=desktop.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        desktop.programs.append(self)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.text += line.decode(errors="replace").replace("\r\n", "\n")

    def say(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def finish(self, seconds: float = 200) -> tuple[int, str]:
        """The exit code and all that was printed."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            end(self.process)
            raise AssertionError(f"still running after {seconds} s:\n{self.text}") from None
        self.reader.join(2)
        return self.process.returncode, self.text

    def close(self) -> None:
        """The streams, once it and all that it started have ended."""
        self.reader.join(5)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()


class Desktop:
    """`with Desktop() as desktop:` is a fresh virtual Win32 desktop; what runs on it ends with the block."""

    def __init__(self, size: tuple[int, int] = SCREEN) -> None:
        self.size = size
        self.folder = Path(tempfile.mkdtemp(prefix="agent-wine-"))
        self.environment: dict[str, str] = {}
        self.programs: list[Program] = []

    def __enter__(self) -> Desktop:
        # The script holds the desktop open until its standard input ends: also when this process is killed.
        tell_and_wait = r"env -0; printf 'END=\0'; cat >/dev/null"
        self._holder = subprocess.Popen(
            [HERE / "desktop.sh", "--size", "{}x{}".format(*self.size), "sh", "-c", tell_and_wait],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._holder.stdout
        listed = b""
        while not listed.endswith(b"END=\0") and (
            part := os.read(self._holder.stdout.fileno(), 65536)
        ):
            listed += part
        told = (variable.split("=", 1) for variable in listed.decode().split("\0"))
        self.environment = {pair[0]: pair[1] for pair in told if len(pair) == 2}
        if "END" not in self.environment:
            self.__exit__()
            raise RuntimeError("no desktop appeared")
        return self

    def __exit__(self, *error: object) -> None:
        for program in self.programs:
            end(program.process)
        assert self._holder.stdin and self._holder.stdout
        self._holder.stdin.close()
        try:
            self._holder.wait(30)
        except subprocess.TimeoutExpired:
            end(self._holder)
        self._holder.stdout.close()
        for program in self.programs:
            program.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def agent(self, *options: str) -> Program:
        """The program itself."""
        return Program(self, windows_path(AGENT), *options)

    def close(self, *programs: str) -> None:
        """Ends programs of Windows by their names and closes the Run dialog, so that the next run finds none."""
        names = [word for name in programs for word in ("/im", name)]
        self.host("xdotool", "key", "Escape")
        self.host("wine", "taskkill", "/f", *names, check=False)

    def host(self, *command: str, check: bool = True) -> None:
        """A program of this machine that sees the desktop, like xdotool."""
        quiet = subprocess.DEVNULL
        subprocess.run(
            command, env=self.environment, check=check, timeout=60, stdout=quiet, stderr=quiet
        )

    def file(self, path: str) -> Path:
        """Where a file of drive C: lies on this machine."""
        prefix = Path(self.environment["WINEPREFIX"], "drive_c")
        return prefix.joinpath(*path.removeprefix("C:\\").split("\\"))

    @property
    def run_folder(self) -> Path:
        """That of the last run."""
        return max((self.folder / "dumps").glob("run_*"))

    def journal(self, kind: str = "") -> list[Json]:
        """The last run's records, of one kind or all."""
        return [
            entry
            for entry in json_lines(self.run_folder / "turns.jsonl")
            if kind in ("", entry["kind"])
        ]


def shared_desktop(size: tuple[int, int] = SCREEN) -> Desktop:
    """One for all tests of a module, from its setUpModule on."""
    desktop = Desktop(size)
    unittest.addModuleCleanup(desktop.__exit__)
    return desktop.__enter__()


class Driver:
    """The program driver.py on the desktop, the program's own eyes and hands: an order a line to it, an answer back."""

    def __init__(self, desktop: Desktop) -> None:
        self.program = Program(desktop, windows_path(HERE / "driver.py"))
        self.heard = 0

    def ask(self, command: str, timeout: float = 200, **values: Any) -> Json:
        """What the driver's method of that name gives."""
        self.program.say(json.dumps({"command": command, **values}) + "\n")
        line: str = until(f"the driver answers to {command}", self._answer, timeout, 0.01)
        answer: Json = json.loads(line)
        if "error" in answer:
            raise AssertionError(f"{command}: {answer['error']}")
        return answer

    def _answer(self) -> str:
        # What Wine has to say of the programs that were started comes on the same stream.
        whole = self.program.text.rpartition("\n")[0].split("\n")
        answers = [line for line in whole if line.startswith("{")]
        if len(answers) == self.heard:
            if self.program.process.poll() is not None:
                raise AssertionError(f"the driver ended:\n{self.program.text}")
            return ""
        self.heard += 1
        return answers[self.heard - 1]


class Window:
    """The program window.py on the desktop, which tells what input reaches it: its items by name, as pixels of the
    screen [left, top, right, bottom]."""

    def __init__(
        self,
        desktop: Desktop,
        title: str,
        rect: tuple[int, int, int, int],
        items: list[Json],
        focus: str = "",
    ) -> None:
        files = [desktop.folder / f"{title}.{kind}" for kind in ("json", "jsonl", "orders", "txt")]
        layout, self.log, self.orders, self.text_file = files
        planned = {"title": title, "rect": rect, "items": items, "focus": focus}
        layout.write_text(json.dumps(planned), encoding="utf-8")
        self._heard, self._read = list[Json](), 0
        Program(desktop, windows_path(HERE / "window.py"), *(file.name for file in files))
        until("the window opens", lambda: self.events("READY"))
        self.items: dict[str, list[int]] = self.events("READY")[0]["items"]

    def events(self, *names: str) -> list[Json]:
        """Every logged message, or those of these names."""
        # Only what is new is read: tests ask twenty times a second, and thousands of lines at each of them would
        # leave the window no time.
        if self.log.exists():
            with self.log.open("rb") as log:
                log.seek(self._read)
                new = log.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            self._heard += map(json.loads, whole.splitlines())
        return [event for event in self._heard if not names or event["message"] in names]

    def order(self, line: str) -> None:
        """Has it obey, which it does once all input before was worked off."""
        count = len(self.events("OBEYED"))
        part = self.orders.with_suffix(".part")
        part.write_text(line, encoding="utf-8")
        part.rename(self.orders)
        until(f"the window obeys {line!r}", lambda: len(self.events("OBEYED")) > count, 400)

    def text(self) -> str:
        """What stands in its first field."""
        self.order("dump")
        return self.text_file.read_bytes().decode("utf-8", "surrogatepass")

    @contextmanager
    def watch(self) -> Iterator[list[Json]]:
        """Collects what arrives during the block, up to when the window has worked off its messages."""
        before, found = len(self.events()), list[Json]()
        yield found
        self.order("nothing")
        found += [event for event in self.events()[before:] if event["message"] != "OBEYED"]

    def pixel(self, name: str, across: float = 0.5, down: float = 0.5) -> list[int]:
        """A pixel inside an item."""
        left, top, right, bottom = self.items[name]
        return [round(left + across * (right - left)), round(top + down * (bottom - top))]

    def place(self, name: str, across: float = 0.5, down: float = 0.5) -> list[int]:
        """The same on the grid of the whole screen."""
        pixel = self.pixel(name, across, down)
        return [round(1000 * at / (side - 1)) for at, side in zip(pixel, SCREEN, strict=True)]


def target(desktop: Desktop, rect: tuple[int, int, int, int] = (100, 80, 1200, 700)) -> Window:
    """A window with a field on the left and an empty area on the right."""
    half, height = rect[2] // 2 - 8, rect[3] - 40
    edit = {"kind": "text", "name": "edit", "rect": (0, 0, half, height)}
    area = {"kind": "area", "name": "area", "rect": (half, 0, half, height)}
    return Window(desktop, "Target", rect, [edit, area], "edit")


class RunCase(unittest.TestCase):
    """Runs of the program beside the window Target, on a desktop that all tests of a class share."""

    desktop: Desktop
    window: Window
    driver: Driver

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = shared_desktop()
        cls.window, cls.driver = target(cls.desktop), Driver(cls.desktop)

    def setUp(self) -> None:
        self.window.order("clear")
        self.window.order("focus edit")
        self.mouse(1800, 200)

    def mouse(self, x: int, y: int) -> None:
        """The person moves it."""
        self.desktop.host("xdotool", "mousemove", str(x), str(y))

    def hotkey(self, chord: str) -> float:
        """The person presses it; gives when that began."""
        began = time.time()
        chord = chord.replace("backspace", "BackSpace").replace("insert", "Insert")
        self.desktop.host("xdotool", "key", chord)
        return began

    def start(self, model: Any, *settings: str) -> Program:
        words = [part for item in ("confirm=never", *settings) for part in ("--set", item)]
        return self.desktop.agent("--endpoint", model.url, *words, "Do it")

    def completed(self, model: Any, *settings: str) -> str:
        """The output of a run that completes."""
        code, output = self.start(model, *settings).finish(120)
        self.assertEqual((code, model.errors), (0, []), output)
        return output

    def results(self) -> list[str]:
        """What the last run said of its acts."""
        return [entry["result"] for entry in self.desktop.journal("result")]

    def ended(self) -> tuple[str, str]:
        """How its journal ends."""
        last = self.desktop.journal()[-1]
        self.assertEqual(last["kind"], "end")
        return last["outcome"], last["text"]
