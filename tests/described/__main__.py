"""Each profile beside its description: python -m tests.described [PROFILE ...]

Prints, for each profile, each line of its description that a test quotes with what was found of it in a run with
--described against replies that were written by hand; each deviation that is kept; and the requests of its demo with
--described, as the run's own log of exchanges has them. The exit code is 1 if a line does not hold.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import agent
from tests.seams import clock_of_main

PROFILES = ("planner", "commander", "chat", "pointer", "story")


def points(profile: str) -> tuple[list[str], int]:
    """The quoted lines and tests, with what became of each, and how many do not hold."""
    module = importlib.import_module(f"tests.described.test_{profile}")
    lines = [f"{quote}  ->  {name} = {value}" for quote, name, value in module.SETTINGS]
    lines += [f"{quote}  ->  {wanted!r}" for quote, _, wanted in getattr(module, "POINTS", ())]
    found = unittest.TestResult()
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    lines += [str(test.shortDescription() or test).partition(" (")[0] for test in tests_of(suite)]
    suite.run(found)
    wrong = [f"DOES NOT HOLD: {test}" for test, _ in [*found.failures, *found.errors]]
    return lines + wrong, len(wrong)


def tests_of(suite: Any) -> list[Any]:
    """The tests of a suite and of those in it."""
    if isinstance(suite, unittest.TestCase):
        return [suite]
    return [test for part in suite for test in tests_of(part)]


def requests(profile: str) -> str:
    """The log of the exchanges of the profile's demo."""
    with tempfile.TemporaryDirectory() as folder, clock_of_main():
        words = ["--demo", "--described", "--profile", profile, "--set", f"dump_dir={folder}"]
        with contextlib.redirect_stdout(io.StringIO()):
            agent.main([*words, "--max-steps", "20"])
        (log,) = Path(folder).glob("run_0001/agent_run_*.log")
        return log.read_text("utf-8")


def main(profiles: list[str]) -> int:
    wrong = 0
    for profile in profiles or PROFILES:
        lines, failed = points(profile)
        wrong += failed
        print(f"\n=== {profile}: its description, point by point\n\n" + "\n".join(lines))
        print("\n--- kept as ours\n")
        for row in agent.DESCRIBED:
            if profile in row.profiles.split() and row.why.startswith("kept: "):
                print(f"{row.what}: {row.described}; ours: {row.ours}; {row.why}")
        print(f"\n--- the requests of its demo\n\n{requests(profile)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
