"""The demo on a desktop that outlives the program, which can end itself as by kill -9 at a chosen moment.

    python -m tests.kept_demo WORLD.json MOMENT [arguments of agent.py ...]

WORLD.json holds the drawn desktop from one start to the next, written after every single input event, as a real desktop
would keep it; `effects` in it counts what the events brought about. MOMENT is `none`, `event:N` (after the Nth input
event), or `journal:N:before`, `journal:N:torn` or `journal:N:after` the Nth line of the journal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import agent


def die() -> None:
    if hasattr(signal, "SIGKILL"):
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(137)


class KeptDesktop(agent.DemoDesktop):
    """A DemoDesktop whose state lives in a file; the class attributes are set before the program starts."""

    path = ""
    die_after = 0
    events = 0

    def __init__(self, clock: agent.Clock) -> None:
        super().__init__(clock)
        self.effects = Counter[str]()
        self.held = set[str]()  # the keys that are down
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                kept = json.load(file)
            self.state = agent.DemoState(**kept["state"])
            self.held = set(kept["held"])
            self._cursor = agent.Point(*kept["cursor"])
            self._pressed = kept["pressed"]
            self.effects.update(kept["effects"])

    def _keep(self, before: agent.DemoState) -> None:
        after = self.state
        self.effects["opened"] += after.opened and not before.opened
        self.effects["closed"] += before.opened and not after.opened
        self.effects["focused"] += after.focus and not before.focus
        self.effects["typed"] += len(after.text) > len(before.text)
        self.effects["saved"] += after.clean and not before.clean
        place = (self._cursor.x, self._cursor.y)
        kept = {"state": asdict(after), "held": sorted(self.held), "cursor": [*place]}
        kept |= {"pressed": self._pressed, "effects": dict(self.effects)}
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(self.path + ".new", self.path)
        type(self).events += 1
        if self.events == self.die_after:
            die()

    def move(self, point: agent.Point) -> None:
        before = self.state
        super().move(point)
        self._keep(before)

    def button(self, name: str, down: bool) -> None:
        before = self.state
        super().button(name, down)
        self._keep(before)

    def key(self, name: str, down: bool) -> None:
        before = self.state
        self.held.discard(name)
        if down:
            self.held.add(name)
        self._keep(before)

    def text(self, text: str) -> None:
        before = self.state
        super().text(text)
        self._keep(before)


def die_at_line(number: int, how: str) -> None:
    """Ends the program at that line of turns.jsonl: before it, with half of it written, or after it."""
    write = agent.ExecutionLogger._write
    lines = 0

    def counted(self: Any, stream: Any, text: str) -> None:
        nonlocal lines
        lines += stream is self._turns
        if stream is self._turns and lines == number:
            if how != "before":
                write(self, stream, text if how == "after" else text[: len(text) // 2])
            die()
        write(self, stream, text)

    agent.ExecutionLogger._write = counted  # type: ignore[method-assign]


def main(words: Sequence[str]) -> int:
    KeptDesktop.path, moment, *arguments = words
    agent.DemoDesktop = KeptDesktop  # type: ignore[misc]
    kind, _, rest = moment.partition(":")
    if kind == "event":
        KeptDesktop.die_after = int(rest)
    elif kind == "journal":
        number, _, how = rest.partition(":")
        die_at_line(int(number), how)
    return agent.main(["--demo", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
