"""Starting the program in a process of its own, with its bytecode from the cache.

`python agent.py` compiles the whole file at each start, which takes most of a second. `python -m agent` runs the same
file as the same `__main__` and keeps what it compiled. A test that is about the documented start itself says so and
takes the file's path.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import agent

FOLDER = Path(agent.__file__).resolve().parent
PROGRAM = [sys.executable, "-m", "agent"]


def environment(folder: Path = FOLDER, **more: str) -> dict[str, str]:
    """The environment in which `PROGRAM` finds the agent.py of that folder from anywhere."""
    return {**os.environ, "PYTHONPATH": str(folder), **more}


# Imports the program once. For a line with a command line and a file for its output, a child of its own runs it, and
# the answer is the child's id; for a line with such an id, the answer is its exit code once it has ended.
WARM = """
import json, os, sys
import agent
exec(sys.argv[1])
for line in sys.stdin:
    wanted = json.loads(line)
    if isinstance(wanted, int):
        print(os.waitstatus_to_exitcode(os.waitpid(wanted, 0)[1]), flush=True)
        continue
    arguments, output = wanted
    child = os.fork()
    if child:
        print(child, flush=True)
        continue
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_APPEND), stream)
    sys.stdin = open(0)
    sys.exit(agent.main(arguments))
"""


class Child:
    """A command line that a process which had the program imported runs in a child of its own."""

    def __init__(self, warm: Warm, number: int, output: Path) -> None:
        self.warm = warm
        self.number = number
        self.output = output

    def kill(self) -> None:
        """Ends it without warning."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.number, signal.SIGKILL)

    def end(self, seconds: float) -> tuple[int, str]:
        """Exit code and output, once it has ended; raises subprocess.TimeoutExpired."""
        try:
            code = self.warm.ask(self.number, seconds)
            return code, self.output.read_bytes().decode()
        finally:
            self.output.unlink()


class ColdChild:
    """The same where there is no fork: the program is started anew."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def kill(self) -> None:
        self.process.kill()

    def end(self, seconds: float) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, output.decode()


class Warm:
    """Runs command lines each in a process of its own that has the program imported already.

    `first` is code that the processes have in common, as to put something small in the place of
    something long; where there is no fork they do without it.
    """

    def __init__(self, first: str = "") -> None:
        self.first = first
        self.process: subprocess.Popen[str] | None = None

    def run(self, *arguments: str, seconds: float) -> tuple[int, str]:
        """Exit code and output; raises subprocess.TimeoutExpired."""
        return self.start(*arguments).end(seconds)

    def start(self, *arguments: str) -> Child | ColdChild:
        """Several may run at once."""
        if not hasattr(os, "fork"):
            return ColdChild(arguments)
        file, output = tempfile.mkstemp()
        os.close(file)
        number = self.ask([arguments, output], seconds=60)
        return Child(self, number, Path(output))

    def ask(self, wanted: object, seconds: float) -> int:
        """What the process answers to this line; it is ended, with what it started, if it does not."""
        process = self.process = self.process or self.begin()
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(wanted) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], seconds)[0]:
            self.end()
            raise subprocess.TimeoutExpired([str(wanted)], seconds)
        return int(process.stdout.readline())

    def begin(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", WARM, self.first]
        return subprocess.Popen(
            command, env=environment(), stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )

    def end(self) -> None:
        """Ends it with what it started."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self.process = None
