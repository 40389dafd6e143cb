"""What the suite sees: agent.py is broken on purpose, and the tests of the broken room have to fail.

    python -m tests.breaks [--list] [--only NAME ...]        the breaks of tests/breaks_table.py
    python -m tests.breaks --random N [--seed S]             N small mutations, also against tests/test_kept.py

Each break is applied to a copy of the checkout. A module that fails on it twice, or that does not end, has seen it,
if it is green without a break: all are tried so first, and what is red then is left out. The exit code is 0 if all
that nothing saw once and SHARE_WANTED of the others are seen; 2 if a break no longer applies, since the code has
changed: aim it anew.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tests import breaks_table, shape

ROOT = Path(__file__).resolve().parents[1]
PROCESSES = 2
# A module on broken code has this many seconds, and so many times what it took on the whole one.
PATIENCE_S = 60
PATIENCE = 3
WHOLE_S = 900
SHARE_WANTED = 0.95
RANDOM_WANTED = 0.8
LEFT_OUT = shutil.ignore_patterns(".git", "dumps", "__pycache__", ".*_cache")
ORDERS = (
    (ast.Lt, ast.GtE),
    (ast.LtE, ast.Gt),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
)
TURNED = {one: other for pair in ORDERS for one, other in (pair, pair[::-1])}


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

    def applied(self, text: str) -> str:
        """The text with the break in it; raises Misaimed."""
        begin, end = part_of(text, self.room, self.place)
        part = text[begin:end]
        if part.count(self.old) != 1:
            raise Misaimed(f"{self.name}: {self.old!r} is {part.count(self.old)} times in it")
        broken = part.replace(self.old, self.new)
        try:
            changed = tree_of(broken) != tree_of(part)
        except SyntaxError as error:
            raise Misaimed(f"{self.name}: no Python afterwards ({error})") from None
        if not changed:
            raise Misaimed(f"{self.name}: it changes nothing")
        return text[:begin] + broken + text[end:]


def tree_of(part: str) -> str:
    """What a room or a function comes to, however it is written."""
    return ast.dump(ast.parse(textwrap.dedent(part)))


@lru_cache(maxsize=4)
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def part_of(text: str, room: str, place: str) -> tuple[int, int]:
    """Where a room, or a function in it such as `Rect.contains`, begins and ends; raises Misaimed."""
    first, last = next(
        ((known.first, known.last) for known in shape.rooms(text) if known.name == room), (0, 0)
    )
    node: Any = parsed(text)
    for name in place.split(".") if place else ():
        inner = [part for part in ast.iter_child_nodes(node) if getattr(part, "name", "") == name]
        node = inner[0] if len(inner) == 1 else ast.Module([], [])
    if place:
        begin = getattr(node, "lineno", 0)
        first, last = (begin, node.end_lineno) if first <= begin <= last else (0, 0)
    if not first:
        raise Misaimed(f"there is no {place or 'line'} in a room {room!r}")
    lines = text.splitlines(keepends=True)
    begin = sum(map(len, lines[: first - 1]))
    return begin, begin + sum(map(len, lines[first - 1 : last]))


def all_breaks() -> list[Break]:
    """Those that nothing saw once, then our own."""
    return [Break(*row) for row in (*breaks_table.UNSEEN, *breaks_table.OWN)]


# -- trying them


class Trial(NamedTuple):
    """A broken text and the modules that have to see it."""

    name: str
    text: str
    modules: tuple[str, ...]


class Bench:
    """Copies of a checkout, one a process, whose agent.py is broken in turn."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.free = [folder / str(number) for number in range(PROCESSES)]
        self.green: dict[str, float] = {}  # on the whole text: module and its seconds
        self.red = set[str]()
        self.flaky = set[str]()
        self._written = 0
        for copy in self.free:
            shutil.copytree(root, copy, ignore=LEFT_OUT)

    def learn(self, text: str, modules: Iterable[str]) -> None:
        """Runs modules on the whole text."""

        def guard(module: str) -> None:
            begin = time.monotonic()
            with self._copy_of(text) as copy:
                if is_green(copy, module, WHOLE_S):
                    self.green[module] = time.monotonic() - begin
                else:
                    self.red.add(module)

        with ThreadPoolExecutor(PROCESSES) as pool:
            list(pool.map(guard, modules))

    def tell(self) -> None:
        """Prints the modules that can see nothing."""
        if self.red:
            print(f"Left out, since they fail without a break: {', '.join(sorted(self.red))}.")
        if self.flaky:
            print(f"Flaky, red and green on the same break: {', '.join(sorted(self.flaky))}.")

    def seen_by(self, trial: Trial) -> str:
        """The module that fails on it first, or an empty text."""
        ast.parse(trial.text)  # what is no Python would be seen by all
        with self._copy_of(trial.text) as copy:
            for module in trial.modules:
                patience = PATIENCE_S + PATIENCE * self.green.get(module, 0)
                if module not in self.green or is_green(copy, module, patience):
                    continue
                if not is_green(copy, module, patience):
                    return module
                self.flaky.add(module)
        return ""

    @contextlib.contextmanager
    def _copy_of(self, text: str) -> Iterator[Path]:
        """A copy with that agent.py, of a time of its own: so compiled code is never taken for another's."""
        copy = self.free.pop()
        try:
            (copy / "agent.py").write_text(text, encoding="utf-8")
            self._written += 1
            os.utime(copy / "agent.py", (self._written, self._written))
            yield copy
        finally:
            self.free.append(copy)

    def results(self, text: str, trials: list[Trial]) -> Iterator[tuple[Trial, str]]:
        """Each trial with the module that saw it."""
        self.learn(text, sorted({name for trial in trials for name in trial.modules}))
        with ThreadPoolExecutor(PROCESSES) as pool:
            yield from zip(trials, pool.map(self.seen_by, trials), strict=True)


def is_green(copy: Path, module: str, seconds: float) -> bool:
    """Whether a module's tests pass in a copy, within so many seconds."""
    temporary = copy.parent / f"{copy.name}_temporary"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(copy)}
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
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        end(process)
        shutil.rmtree(temporary, ignore_errors=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and, where the system can, what it started."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def modules_of(room: str) -> tuple[str, ...]:
    return tuple(breaks_table.MODULES[room].split())


# -- mutations by chance


class Mutation(NamedTuple):
    """One small change: the characters from `begin` to `end` become `new`."""

    line: int
    begin: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        return text[: self.begin] + self.new + text[self.end :]


@lru_cache(maxsize=4)
def mutations(text: str) -> list[Mutation]:
    """Every comparison turned, every statement that calls left out, every number four times as large.

    One more would not do: nobody would meet that of a drawing's pixels or of where a text is cut.
    Texts stay as they are, and so does what stands outside functions: tables, and what other modules are.
    """
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()
    found: list[Mutation] = []

    def place(line: int, column: int) -> int:
        """The place of a column, which the parser counts in bytes."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for function in ast.walk(parsed(text)):
        if not isinstance(function, (ast.FunctionDef, ast.Lambda)):
            continue
        body = function.body if isinstance(function.body, list) else [function.body]
        for node in [inner for part in body for inner in ast.walk(part)]:
            new = mutated(node)
            if new and isinstance(node, (ast.expr, ast.stmt)):
                begin = place(node.lineno, node.col_offset)
                end = place(node.end_lineno or node.lineno, node.end_col_offset or 0)
                found.append(Mutation(node.lineno, begin, end, new))
    return sorted(set(found))


def mutated(node: ast.AST) -> str:
    """The text of a node after its mutation, or an empty text where there is none."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        turned = ast.Compare(node.left, [TURNED[type(node.ops[0])]()], node.comparators)
        return f"({ast.unparse(turned)})"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return "pass"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return repr(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return repr(4 * node.value or 1)
    return ""


def chosen(text: str, number: int, seed: int) -> list[Mutation]:
    """So many of them by chance."""
    found = mutations(text)
    return random.Random(seed).sample(found, min(number, len(found)))


def modules_at(text: str, mutation: Mutation) -> tuple[str, ...]:
    """The modules that guard the room of a mutation, and the whole runs."""
    rooms = [room for room in shape.rooms(text) if room.first <= mutation.line <= room.last]
    return (*(breaks_table.MODULES.get(rooms[0].name, "").split() if rooms else ()), "test_kept")


# -- the command


def try_breaks(bench: Bench, text: str, breaks: list[Break]) -> int:
    """Prints a line for each, and the count; gives the exit code."""
    trials = [Trial(one.name, one.applied(text), modules_of(one.room)) for one in breaks]
    seen: dict[str, str] = {}
    for one, (_, module) in zip(breaks, bench.results(text, trials), strict=True):
        seen[one.name] = module
        print(f"{module or 'NOT SEEN':22} {one.name:22} {one.room}: {one.behaviour}", flush=True)
    again, own = (
        [bool(seen[row[0]]) for row in rows if row[0] in seen]
        for rows in (breaks_table.UNSEEN, breaks_table.OWN)
    )
    print(f"{sum(again)} of {len(again)} that nothing saw once are seen", end=", ")
    print(f"{sum(own)} of {len(own)} others")
    bench.tell()
    return 0 if all(again) and sum(own) >= SHARE_WANTED * len(own) else 1


def try_mutations(bench: Bench, text: str, picked: list[Mutation]) -> int:
    """Prints what became of each, the survivors with what was changed, and the count; gives the exit code."""
    trials = [Trial(str(one.line), one.applied(text), modules_at(text, one)) for one in picked]
    seen = 0
    for number, (trial, module) in enumerate(bench.results(text, trials), 1):
        seen += bool(module)
        tried = module or f"SURVIVES {len(trial.modules)} modules"
        print(f"{number:4}  line {trial.name:6} {tried}  ({seen} of {number})", flush=True)
        if not module:
            lines = text.splitlines(), trial.text.splitlines()
            print(*difflib.unified_diff(*lines, "whole", "broken", n=1, lineterm=""), sep="\n")
    bench.tell()
    print(f"{seen} of {len(trials)} mutations are seen")
    return 0 if seen >= RANDOM_WANTED * len(trials) else 1


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.breaks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="only print the breaks")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    parser.add_argument("--random", type=int, metavar="N", default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    text = (ROOT / "agent.py").read_text(encoding="utf-8")
    breaks = [one for one in all_breaks() if not options.only or one.name in options.only]
    if options.list:
        for one in breaks:
            print(f"{one.name:22} {one.room}: {one.behaviour}")
        return 0
    try:
        for one in breaks:
            one.applied(text)
    except Misaimed as error:
        print(f"A break no longer applies: {error}. Aim it anew in tests/breaks_table.py.")
        return 2
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(ROOT, Path(place))
        if options.random:
            return try_mutations(bench, text, chosen(text, options.random, options.seed))
        return try_breaks(bench, text, breaks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
