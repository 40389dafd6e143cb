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
from pathlib import Path

import agent

FOLDER = Path(agent.__file__).resolve().parent
PROGRAM = [sys.executable, "-m", "agent"]


def environment(folder: Path = FOLDER, **more: str) -> dict[str, str]:
    """The environment in which `PROGRAM` finds the agent.py of that folder from anywhere."""
    return {**os.environ, "PYTHONPATH": str(folder), **more}


# Imports the program once, and lets a child of its own run each command line that it reads.
WARM = """
import json, os, sys
import agent
for line in sys.stdin:
    arguments, output = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_APPEND), stream)
    sys.stdin = open(0)
    sys.exit(agent.main(arguments))
"""


class Warm:
    """Runs command lines each in a process of its own that has the program imported already.

    Where there is no fork the program is started anew each time.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def run(self, *arguments: str, seconds: float) -> tuple[int, str]:
        """Exit code and output; raises subprocess.TimeoutExpired."""
        if not hasattr(os, "fork"):
            return self.run_cold(*arguments, seconds=seconds)
        process = self.process = self.process or self.begin()
        assert process.stdin and process.stdout
        with tempfile.NamedTemporaryFile() as output:
            process.stdin.write(json.dumps([arguments, output.name]) + "\n")
            process.stdin.flush()
            if not select.select([process.stdout], [], [], seconds)[0]:
                self.end()
                raise subprocess.TimeoutExpired(list(arguments), seconds)
            code = int(process.stdout.readline())
            return code, output.read().decode()

    def begin(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", WARM]
        return subprocess.Popen(
            command, env=environment(), stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )

    def run_cold(self, *arguments: str, seconds: float) -> tuple[int, str]:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            env=environment(),
            capture_output=True,
            timeout=seconds,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout + done.stderr

    def end(self) -> None:
        """Ends it with what it started."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self.process = None
