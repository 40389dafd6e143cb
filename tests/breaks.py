"""What the suite sees: agent.py is broken on purpose, and the tests of the broken room have to fail.

    python -m tests.breaks [NAME ...]        the breaks of tests/breaks_table.py, or some

Each break is applied to a copy of the checkout. A module that is green on the whole text and fails on the break twice,
or does not end, has seen it. The exit code is 0 if all are seen, and 2 if a break no longer applies, since the code has
changed: aim it anew.
"""

from __future__ import annotations

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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests import breaks_table, samples
from tests.test_shape import SOURCE, parsed, rooms

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
    def modules(self) -> list[str]:
        return breaks_table.MODULES[self.room].split()

    def applied(self, text: str) -> str:
        """The text with the break in it; raises Misaimed."""
        first, last = self.lines_of_place(text)
        lines = text.splitlines(keepends=True)
        part = "".join(lines[first - 1 : last])
        broken = part.replace(self.old, self.new)
        try:
            before, after = (ast.dump(ast.parse(textwrap.dedent(one))) for one in (part, broken))
        except SyntaxError as error:
            raise Misaimed(f"{self.name}: no Python afterwards ({error})") from None
        if part.count(self.old) != 1 or before == after:
            raise Misaimed(f"{self.name}: {self.old!r} is not once in it, or nothing changes")
        return "".join([*lines[: first - 1], broken, *lines[last:]])

    def lines_of_place(self, text: str) -> tuple[int, int]:
        """The first and the last line of the room, or of a function in it such as `Rect.contains`."""
        spans = [(first, last) for name, first, last in rooms(text) if name == self.room]
        nodes: list[Any] = [parsed(text)]
        for name in self.place.split(".") if self.place else ():
            inside = [part for node in nodes for part in ast.iter_child_nodes(node)]
            nodes = [part for part in inside if getattr(part, "name", "") == name]
        if self.place and spans:
            first, last = spans[0]
            spans = [(one.lineno, one.end_lineno) for one in nodes if first <= one.lineno <= last]
        if len(spans) != 1:
            raise Misaimed(f"there is no {self.place or 'line'} in a room {self.room!r}")
        return spans[0]


BREAKS = [Break(*row) for row in breaks_table.ROWS]


class Bench:
    """Copies of a checkout, one a process, whose agent.py is broken in turn."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.free = queue.SimpleQueue[Path]()
        self.seconds = itertools.count(1)
        self.red = set[str]()  # on the whole text, so that they can see nothing
        self.text = (root / "agent.py").read_text(encoding="utf-8")
        for number in range(PROCESSES):
            self.free.put(shutil.copytree(root, folder / str(number), ignore=LEFT_OUT))

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

    def seen_by(self, one: Break) -> str:
        """The module that fails on it first, or an empty text."""
        text, left = one.applied(self.text), [name for name in one.modules if name not in self.red]
        return next((module for module in left if self.fails(text, module)), "")

    def results(self, breaks: Sequence[Break]) -> list[str]:
        """The module that saw each break; prints a line for each."""
        modules = sorted({module for one in breaks for module in one.modules})
        with ThreadPoolExecutor(PROCESSES) as pool:
            wrong = pool.map(lambda module: self.fails(self.text, module), modules)
            self.red = {module for module, red in zip(modules, wrong, strict=True) if red}
            print(f"Fail without a break, and see nothing: {sorted(self.red)}")
            seen = []
            for one, module in zip(breaks, pool.map(self.seen_by, breaks), strict=True):
                print(f"{module or 'NOT SEEN':22} {one.name}: {one.behaviour}", flush=True)
                seen.append(module)
            return seen


def is_green(copy: Path, module: str) -> bool:
    """Whether a module's tests pass in a copy, and end."""
    with tempfile.TemporaryDirectory(dir=copy.parent, ignore_cleanup_errors=True) as temporary:
        whole = {samples.VARIABLE: "1"}  # a part of a proof may not see it
        environment = {**os.environ, **whole, "TMPDIR": temporary, "PYTHONPATH": str(copy)}
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


def main(names: list[str]) -> int:
    breaks = [one for one in BREAKS if not names or one.name in names]
    try:
        for one in breaks:
            one.applied(SOURCE.read_text(encoding="utf-8"))
    except Misaimed as error:
        print(f"A break no longer applies: {error}. Aim it anew in tests/breaks_table.py.")
        return 2
    with tempfile.TemporaryDirectory() as place:
        seen = Bench(SOURCE.parent, Path(place)).results(breaks)
    print(f"{len(seen) - seen.count('')} of {len(seen)} are seen")
    return 1 if "" in seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
