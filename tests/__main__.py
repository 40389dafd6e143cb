"""The whole test suite on every processor, one module after the other in a few processes.

    python -m unittest                                          the suite
    python -m tests [--whole] [--processes N] [MODULE ...]      the same, or some modules

Each process takes the next module that nobody has begun, the longest first. What fails is printed in full, and the end
is unittest's. A module that prints something of its own has failed. The suite leaves some tests to the gate, and tries a
part of some long proofs (tests/samples.py). A module that is named is tried with all its tests, and with --whole all is
whole; without a module that is tests.attacks.patterns, too, which the suite leaves out.
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
from typing import Any, NamedTuple

from tests import samples

ROOT = Path(__file__).resolve().parents[1]
POLL_S = 0.05
LAST_LOOKS = 20  # after the last process has ended
TELL_EVERY_S = 15.0  # beside a busy machine a suite that says nothing looks as if it hung
MEMORY = "/dev/shm"
MEMORY_LEAST = 1 << 30  # bytes
LOG_SHOWN = 20_000  # characters of what a process printed

# The modules that take longest, so that none of them is begun when the others have ended.
LONGEST = """test_attacks test_kept test_adding test_rows test_mcp test_real_windows test_again test_resume
    test_recording described.test_profiles test_terminal test_main test_controls test_servers test_replay
    test_progress test_shape test_eyes test_panel test_demo test_loops test_calibration test_runs test_model""".split()

# Of each class of these modules of whole runs the suite tries the first test and every so many more.
PARTS = {"tests.test_rows": 3} | dict.fromkeys(
    "tests.test_mcp tests.test_terminal tests.test_loops tests.test_real_windows tests.test_ending tests.test_resume"
    " tests.test_panel tests.described.test_profiles tests.described.test_panel".split(),
    2,
)


class Result(NamedTuple):
    """What became of one module: `words` are unittest's, where a test failed."""

    module: str
    tests: int
    skipped: int
    seconds: float
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


def work(log: Path, names: list[str], whole: bool) -> None:
    """Runs modules that no other process has begun; each leaves its result as a file beside the log.

    The log holds what this process, and those that it starts, print themselves.
    """
    # The file's syntax tree, which test_shape keeps, makes the usual collections take long.
    gc.set_threshold(100_000, 50, 100)
    for name in names:
        try:  # the system lets one process alone make it
            log.with_name(f"{name}.begun").touch(exist_ok=False)
        except FileExistsError:
            continue
        before = log.stat().st_size
        result = run(name, whole)
        sys.stdout.flush()
        sys.stderr.flush()
        printed = log.read_bytes()[before:].decode("utf-8", "replace").replace("\r\n", "\n")
        if printed:
            words = f"{result.words}It prints something of its own:\n{printed[:LOG_SHOWN]}\n"
            result = result._replace(words=words)
        part = log.with_name(f"{name}.part")
        part.write_text(json.dumps(result), encoding="utf-8")
        part.replace(log.with_name(f"{name}.json"))


def part_of(suite: unittest.TestSuite, every: int) -> unittest.TestSuite:
    """Of each class of a module every so many tests, from the first on, but for those that are for the gate."""
    classes = [list(one) if isinstance(one, unittest.TestSuite) else [one] for one in suite]
    cases = [case for cases in classes for case in cases[::every]]
    return unittest.TestSuite(case for case in cases if not is_for_the_gate(case))


def is_for_the_gate(case: Any) -> bool:
    return hasattr(getattr(case, case._testMethodName), "for_the_gate")


def run(name: str, whole: bool) -> Result:
    """The tests of one module, or a part of them, in this process."""
    words, begin = io.StringIO(), time.perf_counter()
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    if not whole:
        suite = part_of(suite, PARTS.get(name, 1))
    outcome = unittest.TextTestRunner(words).run(suite)
    seconds = time.perf_counter() - begin
    failed = "" if outcome.wasSuccessful() else words.getvalue()
    return Result(name, outcome.testsRun, len(outcome.skipped), seconds, failed)


# -- the process that starts them


def environment(folder: Path) -> dict[str, str]:
    """The environment of the processes, in which what is compiled is kept.

    Many tests start the program, and to compile it takes longer than most of what they try. Where
    nothing may be written beside the sources, it is kept in the folder, and goes away with it.
    """
    variables = {**os.environ, "PYTHONUTF8": str(sys.flags.utf8_mode)}
    if folder.is_relative_to(MEMORY):
        variables["TMPDIR"] = str(folder)
    if variables.pop("PYTHONDONTWRITEBYTECODE", ""):
        variables["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    return variables


def compiled(folder: Path) -> None:
    """Compiles the program, so that the processes do not all begin with that."""
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", "agent.py"],
        cwd=ROOT,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )


def progress(folder: Path, names: list[str], awaited: list[str], processes: int) -> str:
    """How far it is, what is at work, and whether other programs keep the machine busy."""
    at_work = [name for name in awaited if (folder / f"{name}.begun").exists()]
    done = f"{len(names) - len(awaited)} of {len(names)} modules; at work: {' '.join(at_work)}"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= processes + (os.cpu_count() or 1):
        return done
    return f"{done}; the machine is busy with other programs (load {load:.0f})"


def results(names: list[str], most: int = 0, how: str = "--work") -> Iterator[Result]:
    """Each result as soon as it is there; a module whose process died has failed.

    `most` processes, or more than two a processor, since some tests wait: for a server's deadline, or a process.
    """
    awaited, place = list(names), None
    with contextlib.suppress(OSError):  # Linux' folder in memory, for thousands of small files
        place = MEMORY if shutil.disk_usage(MEMORY).free > MEMORY_LEAST else None
    with tempfile.TemporaryDirectory(dir=place) as name, contextlib.ExitStack() as started:
        folder, processes = Path(name), list[subprocess.Popen[bytes]]()
        compiled(folder)
        for number in range(min(len(names), most or 1 + 2 * (os.cpu_count() or 1))):
            log = folder / f"process_{number}.log"
            with log.open("wb") as printed:  # files, since not every system hands pipes on
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests", how, str(log), *names],
                    cwd=ROOT,
                    env=environment(folder),
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                )
            processes.append(process)
            started.callback(process.wait)
            started.callback(process.kill)  # called first; nothing happens to one that has ended
        looks_left, told_at, begin = LAST_LOOKS, time.monotonic(), time.monotonic()
        while awaited and looks_left:
            if time.monotonic() >= told_at + TELL_EVERY_S:
                told_at = time.monotonic()
                told = progress(folder, names, awaited, len(processes))
                print(f"\n{told_at - begin:.0f} s: {told}", file=sys.stderr, flush=True)
            alive = any(process.poll() is None for process in processes)
            looks_left = LAST_LOOKS if alive else looks_left - 1
            for name in list(awaited):
                try:
                    told = (folder / f"{name}.json").read_text(encoding="utf-8")
                except OSError:  # it is not there yet, or Windows still holds it
                    continue
                awaited.remove(name)
                yield Result(*json.loads(told))
            time.sleep(POLL_S)
        logs = [log.read_text("utf-8", "replace") for log in sorted(folder.glob("process_*.log"))]
    for name in awaited:
        last = "".join(text[-LOG_SHOWN:] for text in logs)
        yield Result(name, 0, 0, 0.0, f"{name}: the process that ran it ended.\n{last}")


class Module(unittest.FunctionTestCase):
    """What unittest tells a module by."""

    def __init__(self, result: Result) -> None:
        super().__init__(lambda: None)
        self.words = f"{result.module} {result.seconds:.1f} s"

    def __str__(self) -> str:
        return self.words


class Everywhere(unittest.TestSuite):
    """The suite, or all of these modules, in processes; unittest is told of each module as of its tests."""

    def __init__(self, names: list[str] | None = None, most: int = 0) -> None:
        super().__init__()
        self.names, self.most = names or modules(), most
        self.how = "--work" if names else "--work-part"

    def countTestCases(self) -> int:
        return len(self.names)

    def run(self, result: unittest.TestResult, debug: bool = False) -> unittest.TestResult:
        for one in results(self.names, self.most, self.how):
            case = Module(one)
            result.startTest(case)
            result.testsRun += one.tests - 1
            result.skipped += [(case, "skipped in a process")] * one.skipped
            if one.words:
                result.addFailure(case, (None, None, None))
                result.failures[-1] = (case, one.words)
            else:
                result.addSuccess(case)
            result.stopTest(case)
        if self.how == "--work-part":
            part = f"Of {len(PARTS)} modules only a part was tried; python -m tests NAME tries one whole."
            print(f"\n{part}", file=sys.stderr)
        return result


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["--work"], ["--work-part"]):
        work(Path(arguments[1]), arguments[2:], whole=arguments[0] == "--work")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="MODULE")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--processes", type=int, default=0)
    given = parser.parse_args(arguments)
    if given.whole:
        os.environ[samples.VARIABLE] = "1"
        given.names = given.names or ["tests.attacks.patterns", *modules()]
    result = unittest.TextTestRunner(verbosity=2).run(Everywhere(given.names, given.processes))
    return 0 if result.testsRun and result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
