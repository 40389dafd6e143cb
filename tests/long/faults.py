"""Every call of a whole run fails in turn: the Nth Win32 call, file call or HTTP exchange, alone or with all that follow.

The run is the program's own `main` on a simulated Windows with a real model server on the loopback, a real folder and
virtual time; it clicks, drags, types, presses chords, starts a program, brings a window to the front, scrolls, reports.
Each must end with one of the program's exit codes, hold nothing, leave no handle open, do nothing after its journal
could not be written, and leave a journal that can be read.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.fakes import RELEASES, FakeWin32, Foreground, VirtualClock
from tests.scripted import PLAN, PROOF, call, role_of, text
from tests.seams import clock_of_main, windows_of_main
from tests.servers import ScriptedServer, Step, answer, hang_up, http, raw, reply, reset

ACTS = [
    call("click_screen_element", element_name="field", position=[300, 400]),
    call("double_click_screen_element", element_name="word", position=[320, 420]),
    call("drag_screen_element", element_name="bar", start=[300, 300], end=[340, 360]),
    call("type_text_input", text="Grüße 😀", position=[300, 400], clear=True, submit=True),
    call("press_keyboard_key", key="ctrl+s", then=["escape"]),
    call("open_app", name="Notepad"),
    call("focus_window", title="Untitled"),
    call("scroll_screen_down"),
    call("right_click_screen_element", element_name="word", position=[310, 410]),
]
LOADED = {"type": "vlm", "state": "loaded", "loaded_context_length": 16384}
MODELS = {"data": [{"id": "qwen3-vl-2b-instruct", **LOADED}]}
SETTINGS = """screen_capture_w=64 screen_capture_h=64 drag_steps=3 scroll_ticks=1 settle_cap_ms=300 blind_patience=1
    request_retries=1 model_failures=1 stall_stop=12 enable_loop_recovery=false confirm=never controls=off""".split()
# Of each kind one; test_model tries them all at the client.
HTTP_FAULTS: dict[str, Step] = {
    "reset": reset,
    "hang up": hang_up,
    "500": answer(500, {"error": "no"}),
    "garbage": raw(b"\x00\xff" * 50),
    "no message": answer(200, {"choices": []}),
    "half": raw(http(200, reply("x"))[:-20]),
}


class Faults:
    """Decides for the calls of one kind, counted from 1, which of them fail."""

    def __init__(self, at: int = 0, onwards: bool = False) -> None:
        self.at, self.onwards, self.calls, self.failed = at, onwards, 0, list[str]()
        self.events: list[Any] = []  # of the world
        self.before = 0  # so many when the first fault came

    def __call__(self, what: str) -> bool:
        self.calls += 1
        fails = bool(self.at) and (self.calls >= self.at if self.onwards else self.calls == self.at)
        if fails and not self.failed:
            self.before = len(self.events)
        self.failed += [what] if fails else []
        return fails

    def no_space(self, what: str) -> None:
        if self(what):
            raise OSError(28, "No space left on device")


class SweptWin32(FakeWin32):
    """Fails calls of the program's main thread only, so that the count does not depend on when the watcher polls."""

    faults = Faults()
    thread = "main"

    def _answering(self, name: str, body: Any) -> Any:
        answers = super()._answering(name, body)

        def answer(arguments: tuple[Any, ...]) -> Any:
            main = threading.current_thread() is threading.main_thread()
            if main == (self.thread == "main") and self.faults(name):
                self.failing = (len(self.calls) + 1,)
            return answers(arguments)

        return answer


class Model(ScriptedServer):
    """Plays the acts one after the other, then reports; the Nth exchange may go wrong."""

    def __init__(self, faults: Faults, fault: Step) -> None:
        super().__init__(hang_up)
        self.faults, self.fault, self.acts = faults, fault, iter(ACTS)

    def _step(self) -> Step:
        head, _, body = self.requests[-1].partition(b"\r\n\r\n")
        if self.faults("HTTP"):
            return self.fault
        if head.startswith(b"GET"):
            listed = b"/api/v0/models" in head
            return answer(200, MODELS) if listed else answer(404, {"error": "Unexpected endpoint"})
        message = {"planner": PLAN, "verifier": text("YES: done")}.get(role_of(json.loads(body)))
        message = message or next(self.acts, call("report_mission_complete", evidence=PROOF))
        return answer(200, reply(choices=[{"message": message, "finish_reason": "stop"}]))


class FaultyFile:
    """A stream that is written to, whose write, flush, truncate and close can fail."""

    def __init__(self, stream: Any, faults: Faults) -> None:
        self._stream, self._faults = stream, faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stream, name)

        def call(*arguments: Any) -> Any:
            try:
                self._faults.no_space(f"{name} {Path(self._stream.name).name}")
            except OSError:
                if name == "close":
                    method()  # a stream whose close fails is closed all the same
                raise
            return method(*arguments)

        return call if name in ("write", "flush", "truncate", "close") else method

    def __enter__(self) -> FaultyFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def faulty_files(faults: Faults, folder: Path) -> Iterator[None]:
    """Every call on a path inside `folder`, and on a stream opened there, goes through `faults`."""
    opened = open

    def opening(path: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        if isinstance(path, int) or folder not in Path(path).parents:
            return opened(path, mode, *arguments, **more)
        faults.no_space("open")
        stream = opened(path, mode, *arguments, **more)
        return stream if mode.startswith("r") else FaultyFile(stream, faults)

    def wrapping(real: Any, name: str) -> Any:
        def wrapped(path: Path, *arguments: Any, **more: Any) -> Any:
            if folder in (path, *path.parents):
                faults.no_space(name)
            return real(path, *arguments, **more)

        return wrapped

    with contextlib.ExitStack() as stack:
        for name in ("mkdir", "unlink", "glob", "lstat"):
            wrapped = wrapping(getattr(Path, name), name)
            stack.enter_context(mock.patch.object(Path, name, wrapped))
        stack.enter_context(mock.patch.object(Path, "open", opening))
        stack.enter_context(mock.patch("builtins.open", opening))
        yield


def whole_run(
    win32: Faults, files: Faults, exchanges: Faults, fault: Step = reset, thread: str = "main"
) -> list[str]:
    """One run with these faults; returns what is wrong with its end."""
    clock, out, folder = VirtualClock(), io.StringIO(), tempfile.TemporaryDirectory()
    world = SweptWin32(clock=clock, faults=win32, thread=thread)
    world.opens = Foreground("Letter - Notepad", handle=0x40002)
    files.events = world.events

    root = Path(folder.name, "files")
    menu = Path(folder.name, "Microsoft", "Windows", "Start Menu", "Programs", "Notepad.lnk")
    menu.parent.mkdir(parents=True)
    menu.write_bytes(b"C:\\notepad.exe")
    words = [part for item in (*SETTINGS, f"dump_dir={root}/dumps") for part in ("--set", item)]
    with folder:
        with (
            Model(exchanges, fault) as model,
            mock.patch.dict(os.environ, {"APPDATA": folder.name, "PATH": ""}),
            mock.patch.object(sys, "stdin", None),
            windows_of_main(world),
            clock_of_main(clock),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
            faulty_files(files, root),
        ):
            try:
                code: Any = agent.main([*words, "--endpoint", model.url, "Do it"])
            except Exception as error:  # a fault that ended the program
                code = f"{type(error).__name__}: {error}"
        journals = list(Path(folder.name).rglob("turns.jsonl"))
        damaged = [agent.read_journal(path.parent).damaged for path in journals]
    wrong = [] if code in (0, 1, 2, 3, 130) else [f"ended with {code}"]
    wrong += [f"problem: {problem}" for problem in world.problems]
    wrong += [f"damaged journal lines {lines}" for lines in damaged if lines]
    if not ("SendInput" in win32.failed and win32.onwards):
        wrong += [f"held: {what}" for what in world.held()]
    if not RELEASES & set(win32.failed):
        # The mutex is the program's until it ends.
        wrong += [f"open: {kind}" for kind in world.leaks() if kind != "mutex"]
    acted = any(event.down for event in world.events[files.before :])
    if re.match(r"(write|flush) .*\.(jsonl|txt|log)$", "".join(files.failed[:1])) and acted:
        wrong.append("acted after its journal could not be written")
    done = (code, len(world.clicks), len(world.programs_opened), world.window.title)
    faultless = not (win32.failed or files.failed or exchanges.failed)
    if faultless and done != (0, 6, 1, "Untitled - Notepad"):
        ended = f"a run without faults ended with {code} and {len(world.clicks)} clicks"
        wrong.append(f"{ended}: {out.getvalue()}")
    return wrong


def sweep(kind: str, step: int = 1, first: int = 1, most: int = 1 << 30) -> Counter[str]:
    """Counts the faults tried until a run meets none; what goes wrong is printed and counted as `wrong`."""
    counts = Counter[str]()
    for variant, onwards in itertools.product(
        HTTP_FAULTS if kind == "http" else [""], (False, True)
    ):
        for number in range(first, most, step):
            tried, fault = Faults(number, onwards), HTTP_FAULTS.get(variant, reset)
            of = {"win32": Faults(), "files": Faults(), "http": Faults(), kind: tried}
            thread = "watcher" if kind == "watcher" else "main"
            wrong = whole_run(
                of.get("watcher", of["win32"]), of["files"], of["http"], fault, thread
            )
            if not tried.failed and kind != "watcher":
                break
            counts["tried"] += bool(tried.failed)
            if wrong:
                counts["wrong"] += 1
                print(kind, variant, onwards, number, tried.failed[:1], wrong[:3], flush=True)
    return counts


def main(every: int = 1) -> bool:
    total = Counter[str]()
    for kind in ("win32", "watcher", "files", "http"):
        found = sweep(kind, every, most=20 if kind == "watcher" else 1 << 30)
        print(f"{kind}: {found['tried']} faults, {found['wrong']} wrong", flush=True)
        total.update(found)
    return not total["wrong"]
