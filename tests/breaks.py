"""What the suite sees: agent.py is broken on purpose, and the tests of the broken room have to fail.

    python -m tests.breaks [--list] [--only NAME ...]        the breaks of tests/breaks_table.py

Each break is applied to a copy of the checkout. A module that is green on the whole text and fails on the break twice,
or does not end, has seen it. The exit code is 0 if all are seen, and 2 if a break no longer applies, since the code has
changed: aim it anew.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import itertools
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests import breaks_table, shape

ROOT = Path(__file__).resolve().parents[1]
PROCESSES = 2
PATIENCE_S = 120
LEFT_OUT = shutil.ignore_patterns(".git", "dumps", "__pycache__", ".*_cache")


class Misaimed(Exception):
    """A break that does not apply to the present code."""


class Break(NamedTuple):
    """A behaviour that is taken away: in `place` (a function, or empty for its room) `old` becomes `new`."""

    name: str
    room: str
    behaviour: str
    place: str
    old: str
    new: str

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(breaks_table.MODULES[self.room].split())

    def applied(self, text: str) -> str:
        """The text with the break in it; raises Misaimed."""
        begin, end = part_of(text, self.room, self.place)
        part = text[begin:end]
        if part.count(self.old) != 1:
            raise Misaimed(f"{self.name}: {self.old!r} is {part.count(self.old)} times in it")
        broken = part.replace(self.old, self.new)
        try:
            before, after = (ast.dump(ast.parse(textwrap.dedent(one))) for one in (part, broken))
        except SyntaxError as error:
            raise Misaimed(f"{self.name}: no Python afterwards ({error})") from None
        if before == after:
            raise Misaimed(f"{self.name}: it changes nothing")
        return text[:begin] + broken + text[end:]


def part_of(text: str, room: str, place: str) -> tuple[int, int]:
    """Where a room, or a function in it such as `Rect.contains`, begins and ends; raises Misaimed."""
    known = [one for one in shape.rooms(text) if one.name == room]
    spans = [(one.first, one.last) for one in known]
    nodes: list[Any] = [shape.parsed(text)]
    for name in place.split(".") if place else ():
        inside = [part for node in nodes for part in ast.iter_child_nodes(node)]
        nodes = [part for part in inside if getattr(part, "name", "") == name]
    if place and spans:
        first, last = spans[0]
        spans = [(node.lineno, node.end_lineno) for node in nodes if first <= node.lineno <= last]
    if len(spans) != 1:
        raise Misaimed(f"there is no {place or 'line'} in a room {room!r}")
    ends = [0]
    for line in text.splitlines(keepends=True):
        ends.append(ends[-1] + len(line))
    return ends[spans[0][0] - 1], ends[spans[0][1]]


def all_breaks() -> list[Break]:
    """Those that nothing saw once, then our own."""
    return [Break(*row) for row in (*breaks_table.UNSEEN, *breaks_table.OWN)]


class Trial(NamedTuple):
    """A broken text, what is told of it, and the modules that have to see it."""

    words: str
    text: str
    modules: tuple[str, ...]


def trial(one: Break, text: str) -> Trial:
    return Trial(f"{one.name:22} {one.room}: {one.behaviour}", one.applied(text), one.modules)


# -- trying them


class Bench:
    """Copies of a checkout, one a process, whose agent.py is broken in turn."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.free = queue.SimpleQueue[Path]()
        self.seconds = itertools.count(1)
        self.red = set[str]()  # on the whole text, so that they can see nothing
        self.text = (root / "agent.py").read_text(encoding="utf-8")
        for number in range(PROCESSES):
            copy = folder / str(number)
            shutil.copytree(root, copy, ignore=LEFT_OUT)
            self.free.put(copy)

    def fails(self, text: str, module: str) -> bool:
        """Whether a module fails twice with that agent.py."""
        copy = self.free.get()
        try:
            (copy / "agent.py").write_text(text, encoding="utf-8")
            second = next(self.seconds)  # of its own: compiled code is never taken for another's
            os.utime(copy / "agent.py", (second, second))
            return not (is_green(copy, module) or is_green(copy, module))
        finally:
            self.free.put(copy)

    def seen_by(self, one: Trial) -> str:
        """The module that fails on it first, or an empty text."""
        left = [module for module in one.modules if module not in self.red]
        return next((module for module in left if self.fails(one.text, module)), "")

    def results(self, trials: Sequence[Trial]) -> Iterator[str]:
        """Prints a line for each trial, and gives the module that saw it."""
        modules = sorted({module for one in trials for module in one.modules})
        with ThreadPoolExecutor(PROCESSES) as pool:
            wrong = pool.map(lambda module: self.fails(self.text, module), modules)
            self.red = {module for module, red in zip(modules, wrong, strict=True) if red}
            if self.red:
                print(f"Left out, since they fail without a break: {', '.join(sorted(self.red))}.")
            for one, module in zip(trials, pool.map(self.seen_by, trials), strict=True):
                print(f"{module or 'NOT SEEN':22} {one.words}", flush=True)
                yield module


def is_green(copy: Path, module: str) -> bool:
    """Whether a module's tests pass in a copy, and end."""
    with tempfile.TemporaryDirectory(dir=copy.parent, ignore_cleanup_errors=True) as temporary:
        environment = {**os.environ, "TMPDIR": temporary, "PYTHONPATH": str(copy)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        process = subprocess.Popen(
            [sys.executable, "-m", "unittest", "-f", f"tests.{module}"],
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(PATIENCE_S) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError, AttributeError):  # what it started, too
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()


# -- the command


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.breaks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="only print the breaks")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    options = parser.parse_args(arguments)
    text = (ROOT / "agent.py").read_text(encoding="utf-8")
    breaks = [one for one in all_breaks() if not options.only or one.name in options.only]
    try:
        trials = [trial(one, text) for one in breaks]
    except Misaimed as error:
        print(f"A break no longer applies: {error}. Aim it anew in tests/breaks_table.py.")
        return 2
    if options.list:
        print("\n".join(one.words for one in trials))
        return 0
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(ROOT, Path(place))
        seen = [module for module in bench.results(trials) if module]
    print(f"{len(seen)} of {len(trials)} are seen")
    return 0 if len(seen) == len(trials) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
