"""Starting the program in a process of its own, with its bytecode from the cache.

`python agent.py` compiles the whole file at each start, which takes most of a second. `python -m agent` runs the same
file as the same `__main__` and keeps what it compiled. A test that is about the documented start itself says so and
takes the file's path.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import agent

FOLDER = Path(agent.__file__).resolve().parent
PROGRAM = [sys.executable, "-m", "agent"]


def environment(folder: Path = FOLDER, **more: str) -> dict[str, str]:
    """The environment in which `PROGRAM` finds the agent.py of that folder from anywhere."""
    return {**os.environ, "PYTHONPATH": str(folder), **more}
