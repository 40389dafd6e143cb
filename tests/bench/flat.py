"""Whether a turn costs the same after ten thousand turns: python -m tests.bench.flat [TURNS]

One demo run in virtual time, HTTP included, with small pictures; the note program is closed whenever it has saved, so
that the run goes on. Around the 100th turn and around the last but 100th, 100 turns each, it measures the processor's
time a turn, bytes of a request, bytes a turn in turns.jsonl, and the memory in use; the ratio of late to early is
wanted within 10 %. What may be kept (1,000 actions, 200 small looks) is filled during the first tenth, so memory is
also compared from there.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import sys
import tempfile
import time
from unittest import mock

import agent
from tests.fakes import VirtualClock
from tests.soak import EndlessDesktop, counts


def run(turns: int) -> dict[str, list[float]]:
    """What each turn cost: seconds of the processor, bytes of the journal and of the requests; memory every 100."""
    stop = agent.Stop()
    clock, found = (
        VirtualClock(stop),
        {name: [0.0] * (turns + 1) for name in ("seconds", "journal", "requests", "memory")},
    )
    record, complete, sleep = (
        agent.ExecutionLogger.record,
        agent.ModelServer.complete,
        agent.Engine.repeated,
    )
    turn, began, size = 0, time.process_time(), 0

    def recorded(self: agent.ExecutionLogger, entry: agent.Record) -> None:
        nonlocal turn, began, size
        record(self, entry)
        if entry.kind == "state" and turn < turns:  # the turn's end
            now, length = time.process_time(), os.path.getsize(self.folder / "turns.jsonl")
            turn += 1
            found["seconds"][turn], found["journal"][turn] = now - began, length - size
            if turn % 100 == 0:
                found["memory"][turn] = counts()["kilobytes"]
                for path in (self.folder / "screenshots").glob("*.png"):
                    path.unlink(missing_ok=True)
            began, size = time.process_time(), length
            clock.sleeps.clear()

    def completed(self: agent.ModelServer, body: bytes) -> agent.Reply:
        found["requests"][min(turn + 1, turns)] += len(body)
        return complete(self, body)

    def never(self: agent.Engine, act: agent.Act, frame: agent.Frame) -> bool:
        return sleep(self, act, frame) and False  # it is meant to do the same again and again

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        settings = [
            f"max_steps={turns}",
            f"dump_dir={folder}",
            "minutes_most=0",
            "screen_capture_w=320",
            "screen_capture_h=180",
            "acts_per_minute=10000",
            "turn_delay=0.75",
        ]
        options = agent.command_line().parse_args(
            ["--demo", *(p for s in settings for p in ("--set", s))]
        )
        with (
            mock.patch.object(agent, "DemoDesktop", EndlessDesktop),
            mock.patch.object(agent.ExecutionLogger, "record", recorded),
            mock.patch.object(agent.ModelServer, "complete", completed),
            mock.patch.object(agent.Engine, "repeated", never),
        ):
            agent.start(options, stop, clock)
    assert turn == turns, f"the run ended after {turn} turns"
    return found


def ratios(found: dict[str, list[float]], turns: int) -> dict[str, tuple[float, float]]:
    """Name -> (around turn 100, around the last but 100th): the median for times, the mean for bytes."""
    early, late = slice(50, 150), slice(turns - 150, turns - 50)
    pairs = {"seconds": tuple(statistics.median(found["seconds"][part]) for part in (early, late))}
    for name in ("journal", "requests"):
        pairs[name] = tuple(statistics.mean(found[name][part]) for part in (early, late))
    hundreds = turns // 100 * 100
    pairs["memory"] = found["memory"][100], found["memory"][hundreds - 100]
    pairs[f"memory since turn {turns // 10}"] = (
        found["memory"][hundreds // 1000 * 100],
        found["memory"][hundreds - 100],
    )
    return pairs  # type: ignore[return-value]


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    started, worst = time.monotonic(), 0.0
    for name, (early, late) in ratios(run(number), number).items():
        worst = max(worst, late / early if name != "memory" else 0)
        print(f"{name:<26} early {early:12.4f}  late {late:12.4f}  ratio {late / early:.3f}")
    print(f"{number} turns in {time.monotonic() - started:.0f} s")
    sys.exit(worst > 1.1)
