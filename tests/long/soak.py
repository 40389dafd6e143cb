"""Thousands of turns of one demo run in virtual time, with the demo's own desktop and model server.

The note program is closed again whenever it has saved, so that the run goes on. At every tenth part of the run memory,
handles, threads and open files are counted: none may come above the first count by more than what is allowed.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import agent
from tests.fakes import VirtualClock
from tests.seams import clock_of_main, desktop_of_main

# kept: 1,000 actions, 200 thumbnails
ALLOWED = {"kilobytes": 12000, "threads": 2, "files": 2, "objects": 15000}
# the same again and again is what is meant
SETTINGS = """minutes_most=0 screen_capture_w=320 screen_capture_h=180 turn_delay=0.75 acts_per_minute=10000
    stall_stop=0"""


def counts() -> dict[str, int]:
    """What must stay flat; memory and open files where the system tells."""
    gc.collect()
    counted = {"threads": threading.active_count(), "objects": len(gc.get_objects())}
    if os.path.isdir("/proc/self/fd"):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        counted["kilobytes"] = pages * os.sysconf("SC_PAGE_SIZE") // 1000
        counted["files"] = len(os.listdir("/proc/self/fd"))
    return counted


def main(turns: int = 10_000) -> bool:
    samples, out = list[dict[str, int]](), io.StringIO()

    class Endless(agent.DemoDesktop):
        """A demo desktop on which the note is thrown away after each save; counted by its captures."""

        captured = rounds = 0

        def button(self, name: str, down: bool) -> None:
            super().button(name, down)
            if self.state.clean:
                Endless.rounds += 1
                self.state = agent.DemoState()

        def capture(self, *arguments: Any) -> agent.Frame:
            Endless.captured += 1
            if Endless.captured % 50 == 0:  # what is no matter of the program's memory goes
                self.clock.sleeps.clear()  # type: ignore[attr-defined]
                for path in sorted(Path(folder).glob("run_0001/screenshots/*.png"))[:-10]:
                    path.unlink(missing_ok=True)
            if Endless.captured >= turns * (len(samples) + 1) // 10:
                samples.append(counts())
                print(f"{len(samples)} th count: {samples[-1]}", file=sys.stderr, flush=True)
            return super().capture(*arguments)

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
        settings = [*SETTINGS.split(), f"max_steps={turns}", f"dump_dir={folder}"]
        words = [part for item in settings for part in ("--set", item)]
        with desktop_of_main(Endless), clock_of_main(VirtualClock):
            agent.main(["--demo", *words])
        assert agent.read_journal(Path(folder) / "run_0001").damaged == []
    grown = {key: max(one[key] for one in samples) - samples[0][key] for key in samples[0]}
    print(f"{out.getvalue().splitlines()[-1]}\n{Endless.rounds} notes saved")
    print("first", samples[0], "growth", grown, "allowed", ALLOWED)
    return not any(grown[key] > ALLOWED[key] for key in grown)
