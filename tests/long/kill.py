"""The demo is killed without warning and resumed.

    python -m tests.long.kill WORLD MOMENT [arguments of agent.py ...]     is the demo that is killed

Once at each of its moments: before, in the middle of and after every line of the journal, and after every input event.
Each time the resumed run must complete the task, with every effect on the desktop brought about once,
nothing held, and a journal whose every line can be read.

WORLD holds the drawn desktop from one start to the next, written after every single input event, as a real one
would keep it; `effects` counts what the events brought about. MOMENT is the number of the moment to die at; 0: never.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import agent

# -- the demo that can end itself


# A button of the mouse that stayed down is not kept: the program leaves it to the person, who presses and releases it.
KEPT = "state held effects _cursor".split()


class KeptDesktop(agent.DemoDesktop):
    """A DemoDesktop that lives in a file; the class attributes are set before the program starts."""

    path = ""
    moment: Callable[[], None]

    def __init__(self, clock: agent.Clock) -> None:
        super().__init__(clock)
        self.effects, self.held = Counter[str](), set[str]()  # the keys that are down
        if os.path.exists(self.path):
            vars(self).update(pickle.loads(Path(self.path).read_bytes()))

    def _keep(self, event: Callable[[], None]) -> None:
        before = self.state
        event()
        after = self.state
        self.effects["opened"] += after.opened and not before.opened
        self.effects["closed"] += before.opened and not after.opened
        self.effects["focused"] += after.focus and not before.focus
        self.effects["typed"] += len(after.text) > len(before.text)
        self.effects["saved"] += after.clean and not before.clean
        kept = {name: getattr(self, name) for name in KEPT}
        Path(self.path + ".new").write_bytes(pickle.dumps(kept))
        os.replace(self.path + ".new", self.path)
        type(self).moment()

    def move(self, point: agent.Point) -> None:
        self._keep(lambda: super(KeptDesktop, self).move(point))

    def button(self, name: str, down: bool) -> None:
        self._keep(lambda: super(KeptDesktop, self).button(name, down))

    def key(self, name: str, down: bool) -> None:
        self._keep(lambda: (self.held.add if down else self.held.discard)(name))

    def text(self, text: str) -> None:
        self._keep(lambda: super(KeptDesktop, self).text(text))


def demo(words: Sequence[str]) -> int:
    KeptDesktop.path, last, *arguments = words
    moments, write = itertools.count(1), agent.ExecutionLogger._write

    def moment() -> None:
        if next(moments) == int(last):
            if hasattr(signal, "SIGKILL"):
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(137)

    def written(self: Any, stream: Any, text: str) -> None:
        if stream is not self._turns:
            return write(self, stream, text)
        moment()
        write(self, stream, text[: len(text) // 2])
        stream.flush()
        moment()
        write(self, stream, text[len(text) // 2 :])
        return moment()

    KeptDesktop.moment = staticmethod(moment)
    agent.DemoDesktop = KeptDesktop  # type: ignore[misc]
    agent.ExecutionLogger._write = written  # type: ignore[method-assign]
    return agent.main(["--demo", *arguments])


# -- who starts, kills and resumes it

ROOT = Path(agent.__file__).resolve().parent
# Small pictures take a third off each run.
QUICK = "settle_cap_ms=60 screen_capture_w=320 screen_capture_h=180".split()
ONCE = {"opened": 1, "focused": 1, "typed": 1, "saved": 1}
Run = Callable[[list[str]], tuple[int, str]]


def command(folder: Path, moment: int, *more: str) -> list[str]:
    words = [part for item in (*QUICK, f"dump_dir={folder}/dumps") for part in ("--set", item)]
    kill = "-m", "tests.long.kill", f"{folder}/world", str(moment)
    return [sys.executable, *kill, *words, *more]


def run(words: list[str]) -> tuple[int, str]:
    """(exit code, output)"""
    done = subprocess.run(words, cwd=ROOT, input=b"", capture_output=True, timeout=600)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "dumps" / "run_0001" / "turns.jsonl").read_bytes().decode().split("\n")
    assert lines.pop() == "", "the journal ends in the middle of a line"
    return [json.loads(line) for line in lines]


def trial(moment: int, run: Run = run) -> str:
    """What became of one kill: `ended` if the run was over before it, else where it was resumed; raises AssertionError."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code, output = run(command(folder, moment))
        if code == 0:
            return "ended"
        assert code in (-9, 137), (code, output)
        journal = folder / "dumps" / "run_0001" / "turns.jsonl"
        begun = journal.exists() and b"\n" in journal.read_bytes()
        code, output = run(command(folder, 0, *(["--resume"] if begun else [])))
        completed = begun and "was completed" in output
        assert code == 0 or completed, (moment, code, output)
        world = pickle.loads((folder / "world").read_bytes())
        effects = {key: count for key, count in world["effects"].items() if count}
        assert effects == ONCE, (moment, effects, output)
        assert not world["held"] and world["state"].saved_text == "Hello from agent.py", world
        if not begun:
            return "begun anew"
        entries = records(folder)
        intents = [entry["turn"] for entry in entries if entry["kind"] == "intent"]
        acted = {entry["turn"] for entry in entries if entry["kind"] == "action"}
        assert len(intents) == len(set(intents)) and set(intents) <= acted, (moment, intents)
        return "completed already" if completed else "resumed"


def at_each() -> Counter[str]:
    """Kills at moment 1, 2, ... until the run ends before it."""
    counts, workers = Counter[str](), os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        for first in itertools.count(1, workers):
            counts.update(pool.map(trial, range(first, first + workers)))
            if counts.pop("ended", 0):
                break
    return counts


def main() -> bool:
    """What goes wrong is raised as an AssertionError."""
    print("at each moment:", dict(at_each()), flush=True)
    return True


if __name__ == "__main__":
    sys.exit(demo(sys.argv[1:]))
