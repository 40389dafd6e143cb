"""Starting the program in a process of its own: by `-m agent`, whose bytecode is kept, as compiling takes a second."""

from __future__ import annotations

import importlib
import multiprocessing
import os
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


def run(*arguments: str, seconds: float, main: str = "agent.main") -> tuple[int, str]:
    """Exit code and output of a command line; raises subprocess.TimeoutExpired.

    Where there is fork, the process is one that has the program imported already.
    """
    context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
    if hasattr(os, "fork"):
        context.set_forkserver_preload(["agent"])
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        process = context.Process(target=child, args=(main, arguments, output))
        process.start()
        process.join(seconds)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([*arguments], seconds)
        return process.exitcode or 0, output.read_text("utf-8")


def child(main: str, arguments: Sequence[str], output: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT), stream)
    sys.stdin = open(0)  # noqa: SIM115 - until the process ends
    module, _, name = main.rpartition(".")
    sys.exit(getattr(importlib.import_module(module), name)(list(arguments)))
