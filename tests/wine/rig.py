"""What the tests on a real Win32 desktop share: the desktop, the Windows Python, and the Notepad task on them.

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from pixel_model import ModelServer, PixelModel

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
AGENT = ROOT / "agent.py"
SCREEN = (1920, 1080)
FORM_RECT = [120, 80, 700, 320]


@cache
def windows_python() -> str:
    """A Windows python.exe: AGENT_WINDOWS_PYTHON, or one built once in the cache."""
    given = os.environ.get("AGENT_WINDOWS_PYTHON")
    if given:
        return given
    cache_dir = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(os.environ.get("AGENT_WINE_CACHE") or f"{cache_dir}/agent-wine") / "python"
    built = subprocess.run(
        [HERE / "windows-python.sh", folder, "3.12"], check=True, stdout=subprocess.PIPE, text=True
    )
    return built.stdout.strip()


def windows_path(path: Path | str) -> str:
    """A path of this machine as Windows programs under Wine know it."""
    return "Z:" + str(Path(path).absolute()).replace("/", "\\")


class Desktop:
    """`with Desktop() as desktop:` is a fresh virtual Win32 desktop; what runs on it ends with the block."""

    def __init__(self, size: tuple[int, int] = SCREEN) -> None:
        self.size = size
        self.folder = Path(tempfile.mkdtemp(prefix="agent-wine-"))
        self.environment: dict[str, str] = {}
        self._started: list[subprocess.Popen[bytes]] = []

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
        self.environment = dict(
            variable.split("=", 1) for variable in listed.decode().split("\0") if "=" in variable
        )
        if "END" not in self.environment:
            self.__exit__(None, None, None)
            raise RuntimeError("no desktop appeared")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for process in self._started:
            end(process)
        assert self._holder.stdin and self._holder.stdout
        self._holder.stdin.close()
        try:
            self._holder.wait(30)
        except subprocess.TimeoutExpired:
            end(self._holder)
        self._holder.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A program of the Windows Python, its standard streams being pipes: it ends without real ones."""
        process = subprocess.Popen(
            ["wine", windows_python(), "-X", "utf8", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str, stdin: str = "", timeout: float = 200) -> tuple[int, str]:
        """The exit code and the output of such a program.

        Under Wine a program that it starts holds its standard output open, so that its end tells nothing.
        """
        process = self.start(*arguments)
        assert process.stdin and process.stdout
        stream = process.stdout.fileno()
        parts: list[bytes] = []

        def read() -> None:
            while part := os.read(stream, 65536):
                parts.append(part)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        process.stdin.write(stdin.encode())
        process.stdin.close()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            said = b"".join(parts).decode(errors="replace")
            raise AssertionError(f"still running after {timeout} s:\n{said}") from None
        reader.join(2)
        output = b"".join(parts).decode(errors="replace").replace("\r\n", "\n")
        return process.returncode, output

    def file(self, path: str) -> Path:
        """Where a file of drive C: lies on this machine."""
        return Path(
            self.environment["WINEPREFIX"], "drive_c", *path.removeprefix("C:\\").split("\\")
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process of ours and what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    for stream in (process.stdin, process.stdout):
        if stream:
            stream.close()


def until(what: str, condition: Any, seconds: float = 10) -> Any:
    """The condition's value as soon as it is true."""
    limit = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def json_lines(path: Path) -> list[dict[str, Any]]:
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.exists()
        else []
    )


##########################################################################
# The Notepad task
##########################################################################


@dataclass(frozen=True)
class Run:
    """How one run of the program went."""

    code: int
    output: str
    model: PixelModel
    saved: bytes | None  # the file that the task asks for
    journal: list[dict[str, Any]]  # turns.jsonl
    unread: list[str]  # requests that the model server could not read

    @property
    def completed(self) -> bool:
        return self.code == 0 and self.saved == self.model.task.file_bytes

    def __str__(self) -> str:
        steps = [f"{e.number} {e.kind} {e.fault} {e.step}" for e in self.model.exchanges]
        return "\n".join(
            [f"exit code {self.code}, saved {self.saved!r}", self.output, *steps, *self.unread]
        )


def run_notepad(
    model: PixelModel, *options: str, timeout: float = 300, keep: str | None = None
) -> Run:
    """The task typed at the prompt on an empty desktop; `keep` names a folder that the run's folder is copied to."""
    with Desktop() as desktop, ModelServer(model) as server:
        task = f"Open Notepad, write the line {model.task.text!r} and save it with Ctrl+S as {model.task.path}"
        code, output = desktop.run(
            windows_path(AGENT),
            "--endpoint",
            server.url + "/chat/completions",
            "--confirm",
            "never",
            *options,
            stdin=task + "\n",
            timeout=timeout,
        )
        saved = desktop.file(model.task.path)
        run = desktop.folder / "dumps" / "run_0001"
        if keep:
            shutil.copytree(run, keep, dirs_exist_ok=True)
        return Run(
            code,
            output,
            model,
            saved.read_bytes() if saved.exists() else None,
            json_lines(run / "turns.jsonl"),
            server.errors,
        )


##########################################################################
# Hands: the driver program on the desktop, which acts when told
##########################################################################


class Driver:
    """The program driver.py, or another one like it, on the desktop: one JSON object a line to it, one back."""

    def __init__(self, desktop: Desktop, program: str = "driver.py") -> None:
        self.program = program
        self.process = desktop.start(windows_path(HERE / program), windows_path(AGENT))

    def ask(self, command: str, timeout: float = 200, **values: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"command": command, **values}).encode() + b"\n")
        self.process.stdin.flush()
        limit = threading.Timer(timeout, end, [self.process])
        limit.start()
        try:
            # What Wine has to say of the programs that were started comes on the same stream.
            line = b"-"
            while line and not line.startswith(b"{"):
                line = self.process.stdout.readline()
            answer: dict[str, Any] = json.loads(line or b"{}")
            if answer.get("ok") is not True:
                rest = b"" if line else self.process.stdout.read()
                raise AssertionError(
                    f"{self.program}, {command}: {answer.get('error') or rest.decode() or 'it ended'}"
                )
            return answer
        finally:
            limit.cancel()


class Form:
    """The program form_window.py on the desktop: its items by name, with their rectangles on the screen."""

    def __init__(self, desktop: Desktop, title: str, items: list[dict[str, Any]]) -> None:
        self.log = desktop.folder / f"{title}.jsonl"
        layout = desktop.folder / f"{title}.json"
        planned = {"title": title, "rect": FORM_RECT, "items": items}
        layout.write_text(json.dumps(planned), encoding="utf-8")
        desktop.start(windows_path(HERE / "form_window.py"), layout.name, self.log.name)
        until("the form opens", lambda: json_lines(self.log), 60)
        self.items: dict[str, list[int]] = json_lines(self.log)[0]["items"]

    def middle(self, name: str) -> list[int]:
        """The pixel in the middle of an item."""
        left, top, width, height = self.items[name]
        return [left + width // 2, top + height // 2]

    def pressed(self) -> list[dict[str, Any]]:
        """The clicks that it told of."""
        return json_lines(self.log)[1:]


class Target:
    """The program target_window.py on the desktop: what input arrives."""

    def __init__(self, desktop: Desktop, *options: str, name: str = "target") -> None:
        self.log, self.commands = (
            desktop.folder / f"{name}.jsonl",
            desktop.folder / f"{name}.commands",
        )
        self.text_file = desktop.folder / f"{name}.txt"
        self._heard, self._read = list[dict[str, Any]](), 0
        files = "--log", self.log.name, "--commands", self.commands.name
        desktop.start(windows_path(HERE / "target_window.py"), *files, *options)
        until("the target window opens", lambda: self.events("READY"), 60)
        ready = self.events("READY")[0]
        self.edit: list[int] = ready["edit"]
        self.area: list[int] = ready["area"]

    def events(self, *names: str) -> list[dict[str, Any]]:
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

    def command(self, line: str) -> None:
        count = len(self.events("COMMAND"))
        part = self.commands.with_suffix(".part")
        part.write_text(line + "\n", encoding="utf-8")
        part.rename(self.commands)
        until(f"the target window obeys {line!r}", lambda: len(self.events("COMMAND")) > count, 400)

    def text(self) -> str:
        """What stands in the edit control."""
        self.command(f"dump {self.text_file.name}")
        return self.text_file.read_bytes().decode("utf-8", "surrogatepass")

    @contextmanager
    def watch(self) -> Iterator[list[dict[str, Any]]]:
        """Collects what arrives during the block, up to when the window has worked off its messages."""
        before, found = len(self.events()), list[dict[str, Any]]()
        yield found
        # A command is obeyed at the second timer message after it, which Windows gives only once no input is waiting.
        self.command("nothing")
        found += [event for event in self.events()[before:] if event["message"] != "COMMAND"]
