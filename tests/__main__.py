"""The whole test suite on every processor, one module after the other in a few processes.

    python -m tests [--times] [--whole] [--processes N] [MODULE ...]

It takes the modules that `python -m unittest` takes. Each process takes the next
module that nobody has begun, the longest first. What fails is printed in full, and the end reads as unittest's does.
A module that prints something of its own has failed.
With --times a table of what each module took comes before the end. With --whole those proofs are tried whole of which
the suite has a part (tests/samples.py), and without a module tests.attacks.patterns, too, which the suite leaves out.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests import samples

ROOT = Path(__file__).resolve().parents[1]
POLL_S = 0.05
MEMORY = "/dev/shm"
MEMORY_LEAST = 1 << 30  # bytes
LOG_SHOWN = 20_000  # characters of what a process printed before it died

# The modules that take longest, so that none of them is begun when the others have ended.
LONGEST = (
    *"test_kept test_terminal test_controls test_resume test_panel".split(),
    *"test_runs test_calibration test_breaks test_bench test_replay test_shape test_progress".split(),
    *"described.test_chat test_story test_labels test_report test_loops".split(),
    *"test_chat test_steps test_adding test_demo test_main test_replies".split(),
    *"test_stop test_area test_actuator test_gates".split(),
)


class Result(NamedTuple):
    """What became of one module: `words` are unittest's, where a test failed.

    `processor` are the processor's seconds, programs that it started included (Windows does not tell those); they hardly
    depend on what else the machine does, as `seconds` do.
    """

    module: str
    tests: int
    skipped: int
    failed: int
    seconds: float
    processor: float
    words: str


def modules() -> list[str]:
    """All modules, the longest first; of the others, those with the longest source."""
    folder = ROOT / "tests"
    files = [*folder.glob("test_*.py"), *folder.glob("described/test_*.py")]
    files.sort(key=lambda file: -file.stat().st_size)
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    ranks = {f"tests.{name}": rank for rank, name in enumerate(LONGEST)}
    return sorted(names, key=lambda name: ranks.get(name, len(ranks)))


# -- one of the processes


def work(log: Path, names: list[str]) -> None:
    """Runs modules that no other process has begun; each leaves its result as a file beside the log.

    The log holds what this process, and those that it starts, print themselves.
    """
    # The file's syntax tree, which test_shape keeps, makes the usual collections take long.
    gc.set_threshold(100_000, 50, 100)
    folder = log.parent
    for name in names:
        try:
            (folder / f"{name}.begun").touch(
                exist_ok=False
            )  # the system lets one process alone make it
        except FileExistsError:
            continue
        before = len(log.read_bytes())
        result = run(name)
        sys.stdout.flush()
        sys.stderr.flush()
        printed = log.read_bytes()[before:].decode("utf-8", "replace")
        if printed:
            words = f"{result.words}It prints something of its own:\n{printed[:LOG_SHOWN]}\n"
            result = result._replace(failed=1, words=words)
        part = folder / f"{name}.part"
        part.write_text(json.dumps(result), encoding="utf-8")
        part.replace(folder / f"{name}.json")


def run(name: str) -> Result:
    """The tests of one module, in this process."""
    words = io.StringIO()
    begin = time.perf_counter()
    before = sum(os.times()[:4])
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    outcome = unittest.TextTestRunner(words).run(suite)
    return Result(
        module=name,
        tests=outcome.testsRun,
        skipped=len(outcome.skipped),
        failed=0 if outcome.wasSuccessful() else 1,
        seconds=time.perf_counter() - begin,
        processor=sum(os.times()[:4]) - before,
        words="" if outcome.wasSuccessful() else words.getvalue(),
    )


# -- the process that starts them


def start(folder: Path, number: int, names: list[str]) -> subprocess.Popen[bytes]:
    """A process of its own streams: files, since not every system hands pipes on."""
    log = folder / f"process_{number}.log"
    with log.open("wb") as printed:
        return subprocess.Popen(
            [sys.executable, "-m", "tests", "--work", str(log), *names],
            cwd=ROOT,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )


def quick_folder() -> str | None:
    """Linux' folder in memory, where it has room: the tests make thousands of small files."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(MEMORY).free > MEMORY_LEAST:
            return MEMORY
    return None


def environment(folder: Path) -> dict[str, str]:
    """The environment of the processes, in which what is compiled is kept.

    Many tests start the program, and to compile it takes longer than most of what they try. Where
    nothing may be written beside the sources, it is kept in the folder, and goes away with it.
    """
    variables = {**os.environ, "PYTHONUTF8": str(sys.flags.utf8_mode)}
    if quick_folder():
        variables["TMPDIR"] = str(folder)
    if variables.pop("PYTHONDONTWRITEBYTECODE", ""):
        variables["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    return variables


def results(
    folder: Path, names: list[str], processes: list[subprocess.Popen[bytes]]
) -> Iterator[Result]:
    """Each result as soon as it is there; a module whose process died has failed."""
    awaited = list(names)
    while awaited:
        running = any(process.poll() is None for process in processes)
        for name in list(awaited):
            file = folder / f"{name}.json"
            if file.exists():
                awaited.remove(name)
                yield Result(*json.loads(file.read_text(encoding="utf-8")))
        if not running:
            break
        time.sleep(POLL_S)
    for name in awaited:
        yield Result(name, 0, 0, 1, 0.0, 0.0, f"{name}: the process that ran it ended.\n")


def run_all(names: list[str], times: bool, most: int = 0) -> int:
    """Prints a line for each module, then what failed and the end; gives the exit code.

    `most` processes, or two more than processors, since some tests wait: for a server's deadline, or a process.
    """
    begin = time.perf_counter()
    done: list[Result] = []
    with (
        tempfile.TemporaryDirectory(dir=quick_folder()) as place,
        contextlib.ExitStack() as started,
    ):
        folder = Path(place)
        count = min(len(names), most or 2 + (os.cpu_count() or 1))
        processes = [start(folder, number, names) for number in range(count)]
        for process in processes:
            started.callback(process.wait)
            started.callback(process.kill)  # called first; nothing happens to one that has ended
        for result in results(folder, names, processes):
            done.append(result)
            ended = "failed" if result.failed else "ok"
            print(f"{result.seconds:6.1f} s  {result.module}  {ended}", flush=True)
        for process in processes:
            process.wait()
        broken = [result for result in done if result.failed]
        for result in broken:
            print(f"\n== {result.module}\n{result.words}")
        if any(process.returncode for process in processes):
            for file in sorted(folder.glob("process_*.log")):
                print(file.read_text(encoding="utf-8", errors="replace")[-LOG_SHOWN:])
    if times:
        print_times(done)
    return ending(done, time.perf_counter() - begin)


def print_times(done: list[Result]) -> None:
    """What each module took, the longest first, and all of them."""
    print(f"\n{'tests':>6} {'seconds':>9} {'processor':>10}  module")
    for result in sorted(done, key=lambda result: -result.processor):
        figures = f"{result.tests:6} {result.seconds:9.1f} {result.processor:10.1f}"
        print(f"{figures}  {result.module}")
    tests = sum(result.tests for result in done)
    seconds = sum(result.seconds for result in done)
    processor = sum(result.processor for result in done)
    print(f"{tests:6} {seconds:9.1f} {processor:10.1f}  all\n")


def ending(done: list[Result], seconds: float) -> int:
    """Prints the last lines as unittest does; 1 if anything failed, 5 if there were no tests."""
    tests = sum(result.tests for result in done)
    skipped = sum(result.skipped for result in done)
    failed = [result.module for result in done if result.failed]
    print(f"{'-' * 70}\nRan {tests} tests in {seconds:.3f}s\n")
    if failed:
        print(f"FAILED ({', '.join(failed)})")
        return 1
    if not tests:
        print("NO TESTS RAN")
        return 5
    print(f"OK (skipped={skipped})" if skipped else "OK")
    return 0


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--work"]:
        work(Path(arguments[1]), arguments[2:])
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="MODULE")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--processes", type=int, default=0)
    given = parser.parse_args(arguments)
    names = given.names or modules()
    if given.whole:
        os.environ[samples.VARIABLE] = "1"
        names = given.names or ["tests.attacks.patterns", *names]
    return run_all(names, given.times, given.processes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
