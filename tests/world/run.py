"""One run of the program on one task with a model that errs, and what came of it."""

from __future__ import annotations

import json
import shutil
import socket
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.wine.rig import SCREEN, Desktop, Program, json_lines, windows_path, windows_python
from tests.world.model import PRESETS, World, spy_ask, truth
from tests.world.tasks import TASKS, Screen, Task

Json = dict[str, Any]
HERE = Path(__file__).resolve().parent
# takeover_quiet: nobody sits here, and Wine takes a window that appears under the pointer for the mouse's doing.
ALONE = "--confirm", "risky", "--set", "takeover_quiet=0"
# So many acts as the tasks take with a model that errs; the others have enough.
MOST = {"chat": "40", "pointer": "80", "story": "40"}
RUN_S = 400
ENDS = "completed", "stuck", "max_steps", "not_proven", "failed", "error", "Traceback"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def within(what: Callable[[], Any], why: str, seconds: float = 60) -> Any:
    """Its first true value; a desktop on which it never comes is none."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := what():
                return found
        except (OSError, ValueError):
            pass  # the spy does not listen yet
        time.sleep(0.2)
    raise RuntimeError(why)


class Place:
    """A desktop with the programs of a task open, and the spy that tells of it."""

    def __init__(self, desktop: Desktop, task: Task) -> None:
        self.desktop, self.spy = desktop, free_port()
        self.drive = Path(desktop.environment["WINEPREFIX"], "drive_c")
        for folder in ("in", "out"):
            (self.drive / folder).mkdir(exist_ok=True)
        for name, data in task.files.items():
            desktop.file(name).write_bytes(data)
        spy = windows_path(HERE / "spy.py")
        self.open(windows_python(), "-X", "utf8", spy, str(self.spy))
        within(lambda: spy_ask(self.spy, do="ping").get("ok"), "the spy does not answer")
        within(lambda: self.window("", "^Shell_TrayWnd$"), "no taskbar")
        titles = [*task.places, task.window]
        for number, program in enumerate(task.programs):
            self.open(*program)
            title = titles[min(number, len(titles) - 1)]
            within(lambda title=title: self.window(title), f"{program} does not open")
        for title, rect in task.places.items():
            spy_ask(self.spy, do="place", hwnd=self.window(title)["hwnd"], rect=rect)
        time.sleep(0.5)

    def window(self, title: str, kind: str = "") -> Any:
        return Screen(spy_ask(self.spy, do="state")).window(title, kind)

    def open(self, *command: str) -> None:
        """A program of Windows in the background, which wants real standard streams; it ends with the desktop."""
        script = 'exec wine "$@" </dev/null 2>&1 | cat >/dev/null'
        subprocess.Popen(
            ["bash", "-c", script, "wine", *command],
            env=self.desktop.environment,
            start_new_session=True,
        )

    def picture(self, path: Path) -> None:
        if shutil.which("import"):
            command = ["import", "-window", "root", str(path)]
            subprocess.run(command, env=self.desktop.environment, stderr=subprocess.DEVNULL)


def run(out: Path, script: Path, profile: str, name: str, preset: str, seed: int) -> Json:
    """What came of it; `out` gets row.json, world.jsonl, agent.log, two pictures and the run's own folder."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    task = TASKS[name]
    with Desktop(SCREEN) as desktop:
        place = Place(desktop, task)
        place.picture(out / "start.png")
        log = out / "world.jsonl"
        dumps = desktop.folder / "dumps"
        with World(task, PRESETS[preset], seed, place, log, dumps) as model:
            began = time.monotonic()
            words = ["--endpoint", model.url, "--profile", profile, *ALONE]
            if profile in MOST:
                words += ["--max-steps", MOST[profile]]
            program = Program(desktop, windows_path(script), *words)
            program.say(task.text + "\n")
            try:
                code, output = program.finish(RUN_S)
            except AssertionError as error:  # it would not end
                code, output = 99, str(error)
            wall_s = time.monotonic() - began
        place.picture(out / "end.png")
        done, why = truth(task, place.spy, place.drive)
        (out / "agent.log").write_text(output, encoding="utf-8")
        if dumps.exists():
            shutil.copytree(dumps, out / "dumps")
    row = {"task": name, "preset": preset, "seed": seed, "profile": profile}
    row |= {"wall_s": round(wall_s, 1), "exit": code, "done": done, "why": why}
    row |= {"claimed": code == 0, "false_success": code == 0 and not done}
    row |= counted(json_lines(log), output)
    (out / "row.json").write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    return row


def counted(asked: list[Json], output: str) -> Json:
    """Requests by role, errors by kind, and milliseconds between a reply and the next request."""
    between = [row["between_ms"] for row in asked if row.get("between_ms") is not None]
    errors = Counter(str(row["error"]).split(":")[0] for row in asked if row.get("error"))
    lines = [line for line in output.splitlines() if line.strip()]
    return {
        "requests": dict(Counter(row.get("role", "?") for row in asked)),
        "errors": dict(errors),
        "between_ms": round(statistics.median(between)) if between else None,
        "end": next((end for end in ENDS if f"\n{end}" in output), "ended"),
        "last": lines[-1][:200] if lines else "",
        "refused": sorted({line for line in lines if line.startswith("not allowed: ")}),
    }
