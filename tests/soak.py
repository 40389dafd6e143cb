"""Ten thousand turns of one demo run in virtual time: python -m tests.soak [TURNS]

The demo's own desktop and model server are used, HTTP included; the note program is closed again whenever it has saved,
so that the run goes on. At every tenth part of the run memory, handles, threads and open files are counted; they must
be flat: none above the count after the first tenth by more than the allowance that stands beside it.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import agent
from tests.fakes import VirtualClock
from tests.seams import clock_of_main, desktop_of_main

# kept: 1,000 actions, 200 thumbnails
ALLOWED = {"kilobytes": 12000, "threads": 2, "files": 2, "objects": 15000}


class EndlessDesktop(agent.DemoDesktop):
    """A demo desktop on which the note is thrown away after each save."""

    rounds = 0

    def button(self, name: str, down: bool) -> None:
        super().button(name, down)
        if self.state.clean:
            EndlessDesktop.rounds += 1
            self.state = agent.DemoState()


def counts() -> dict[str, int]:
    """What must stay flat; memory and open files where the system tells."""
    gc.collect()
    counted = {"threads": threading.active_count(), "objects": len(gc.get_objects())}
    if os.path.isdir("/proc/self/fd"):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        counted["kilobytes"] = pages * os.sysconf("SC_PAGE_SIZE") // 1000
        counted["files"] = len(os.listdir("/proc/self/fd"))
    return counted


def soak(turns: int) -> tuple[list[dict[str, int]], float, str]:
    """(counts at each tenth of the run, virtual seconds, the run's last line)."""
    samples, out = list[dict[str, int]](), io.StringIO()
    clocks: list[VirtualClock] = []

    def clock_of(stop: agent.Stop) -> VirtualClock:
        clocks.append(VirtualClock(stop))
        return clocks[-1]

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
        pictures = Path(folder) / "run_0001" / "screenshots"

        class Watched(EndlessDesktop):
            """One that is counted by its captures, of which each turn has one or more."""

            captured = 0

            def capture(self, *arguments: Any) -> agent.Frame:
                self.captured += 1
                if self.captured % 50 == 0:  # what is no matter of the program's memory goes
                    clocks[-1].sleeps.clear()
                    for path in sorted(pictures.glob("*.png"))[:-10]:
                        path.unlink(missing_ok=True)
                if self.captured >= turns * (len(samples) + 1) // 10:
                    samples.append(counts())
                    print(f"{len(samples)} th count: {samples[-1]}", file=sys.stderr, flush=True)
                return super().capture(*arguments)

        settings = [
            f"max_steps={turns}",
            f"dump_dir={folder}",
            *"minutes_most=0 screen_capture_w=320 screen_capture_h=180 turn_delay=0.75".split(),
            "acts_per_minute=10000",
            "stall_stop=0",  # it is meant to do the same again and again
        ]
        words = [part for item in settings for part in ("--set", item)]
        with desktop_of_main(Watched), clock_of_main(clock_of):
            agent.main(["--demo", *words])
        assert agent.read_journal(Path(folder) / "run_0001").damaged == []
    return samples, clocks[-1].now(), out.getvalue().splitlines()[-1]


if __name__ == "__main__":
    started = time.monotonic()
    found, seconds, last = soak(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    print(last)
    print(
        f"{EndlessDesktop.rounds} notes saved, {seconds / 3600:.1f} h of virtual time in {time.monotonic() - started:.0f} s"
    )
    grown = {key: max(sample[key] for sample in found) - found[0][key] for key in found[0]}
    print("first", found[0], "growth", grown, "allowed", ALLOWED)
    sys.exit(any(grown[key] > ALLOWED[key] for key in grown))
