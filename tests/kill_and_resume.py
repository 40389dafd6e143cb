"""Kills a demo run without warning and resumes it: python -m tests.kill_and_resume [RANDOM MOMENTS] [PARALLEL] [SEED]

Once at every line of the journal (before it, in its middle, after it), once after every input event, and at as many
random moments as asked for. Each time the resumed run must complete the task, with every effect on the desktop brought
about once, nothing held, and a journal whose every line can be read.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Small pictures take a third off each run.
QUICK = "settle_cap_ms=60 screen_capture_w=320 screen_capture_h=180".split()
# tests/wine/test_stop.py puts the Windows Python here, and the way that it is told a path
PYTHON, ENVIRONMENT = [sys.executable], dict(os.environ)
shown: Callable[[Path], str] = str  # and the way that it is told a path
ONCE = {"opened": 1, "focused": 1, "typed": 1, "saved": 1}


def command(folder: Path, moment: str, *more: str) -> list[str]:
    settings = (*QUICK, f"dump_dir={shown(folder / 'dumps')}")
    words = [part for item in settings for part in ("--set", item)]
    world = shown(folder / "world.json")
    return [*PYTHON, "-m", "tests.kept_demo", world, moment, *words, *more]


def run(words: list[str], after_s: float | None = None) -> tuple[int, str]:
    """(exit code, output); killed after that many seconds."""
    pipe, merged = subprocess.PIPE, subprocess.STDOUT
    process = subprocess.Popen(
        words, cwd=ROOT, env=ENVIRONMENT, stdin=pipe, stdout=pipe, stderr=merged
    )
    try:
        output, _ = process.communicate(timeout=600 if after_s is None else after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    return process.returncode, output.decode(errors="replace")


Run = Callable[[list[str], float | None], tuple[int, str]]


def records(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "dumps" / "run_0001" / "turns.jsonl").read_bytes().decode().split("\n")
    assert lines.pop() == "", "the journal ends in the middle of a line"
    return [json.loads(line) for line in lines]


def trial(moment: str, after_s: float | None = None, run: Run = run) -> str:
    """What became of one kill: `ended` if the run was over before it, else where it was resumed; raises AssertionError.

    `run` starts the command in another way.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code, output = run(command(folder, moment), after_s)
        if code == 0:
            return "ended"
        assert code in (-9, 137), (code, output)
        journal = folder / "dumps" / "run_0001" / "turns.jsonl"
        begun = journal.exists() and b"\n" in journal.read_bytes()
        code, output = run(command(folder, "none", *(["--resume"] if begun else [])), None)
        if begun and "was completed" in output:
            code, where = 0, "completed already"
        else:
            where = "resumed" if begun else "begun anew"
        assert code == 0, (moment, after_s, code, output)
        world = json.loads((folder / "world.json").read_text())
        effects = {key: count for key, count in world["effects"].items() if count}
        assert effects == ONCE, (moment, after_s, effects, output)
        assert world["held"] == [] and world["state"]["saved_text"] == "Hello from agent.py", world
        if begun:
            entries = records(folder)
            intents = [entry["turn"] for entry in entries if entry["kind"] == "intent"]
            acted = {entry["turn"]: entry for entry in entries if entry["kind"] == "action"}
            once = len(intents) == len(set(intents)) and set(intents) <= set(acted)
            assert once, (moment, intents)
            if any(str(entry["result"]).startswith("Unknown") for entry in acted.values()):
                where += " with an unknown act"
        return where


def sweep(kind: str, variants: tuple[str, ...], workers: int) -> Counter[str]:
    """Kills at moment 1, 2, ... until the run ends before it."""
    counts = Counter[str]()
    with ThreadPoolExecutor(workers) as pool:
        for first in range(1, 1000, 8):
            numbers = range(first, first + 8)
            moments = [f"{kind}:{number}{how}" for number in numbers for how in variants]
            found = list(pool.map(trial, moments))
            counts.update(found)
            if set(found[-len(variants) :]) == {"ended"}:
                del counts["ended"]
                return counts
    raise AssertionError("the run never ends")


def at_random(count: int, workers: int, seed: int) -> Counter[str]:
    """Kills at random moments from shortly before the journal's first line on; a run that was over is not counted."""
    with tempfile.TemporaryDirectory() as name:
        start, clock = time.time(), time.monotonic()
        code, output = run(command(Path(name), "none"))
        whole = time.monotonic() - clock
        assert code == 0, output
        begun = float(str(records(Path(name))[0]["time"])) - start
    rng, counts = random.Random(seed), Counter[str]()
    with ThreadPoolExecutor(workers) as pool:
        while missing := count - counts.total():
            moments = [rng.uniform(begun - 0.02, whole) for _ in range(missing)]
            found = pool.map(lambda after: trial("none", after), moments)
            counts.update(where for where in found if where != "ended")
    return counts


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    count, parallel, seed = [*numbers, *[500, os.cpu_count() or 1, 1][len(numbers) :]]
    began = time.monotonic()
    at_lines = sweep("journal", (":before", ":torn", ":after"), parallel)
    print("at each journal line:", dict(at_lines), flush=True)
    print("after each input event:", dict(sweep("event", ("",), parallel)), flush=True)
    print("at random moments:", dict(at_random(count, parallel, seed)), flush=True)
    print(f"{time.monotonic() - began:.0f} s")
