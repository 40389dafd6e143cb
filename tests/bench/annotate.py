"""What the marks of a turn cost, against encoding the same frame: python tests/bench/annotate.py"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import agent

TURN: list[dict[str, Any]] = [
    {"name": "click", "x1": 300, "y1": 420},
    {"name": "drag", "x1": 200, "y1": 250, "x2": 700, "y2": 640},
    {"name": "double_click", "x1": 840, "y1": 130},
]
BOXES = [{"x1": 150, "y1": 200, "x2": 420, "y2": 480}, {"x1": 600, "y1": 500, "x2": 900, "y2": 800}]


def turn(age: int) -> list[dict[str, Any]]:
    """The same actions somewhere else."""
    return [
        {k: v if isinstance(v, str) else v + 40 * age for k, v in action.items()} for action in TURN
    ]


def best(work: Callable[[], object], times: int = 7) -> float:
    """Milliseconds of the quickest of some tries: the others had company on the processor."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return min(taken)


def main() -> None:
    clock = agent.SystemClock(agent.Stop())
    desktop = agent.DemoDesktop(clock)
    frame = desktop.capture(desktop.primary(), 1536, 864)
    trail = [turn(age) for age in (1, 2, 3)]
    encode = best(lambda: agent.PngEncoder().encode(frame.pixels, frame.width, frame.height))
    for name, boxes in (("3 actions, trail of 4 turns", []), ("the same and 2 boxes", BOXES)):
        start = time.perf_counter()
        given = agent.read_marks(TURN, boxes, trail)
        agent.annotate(frame.pixels, frame.width, frame.height, given)
        first = (time.perf_counter() - start) * 1000
        marks = best(
            lambda given=given: agent.annotate(frame.pixels, frame.width, frame.height, given)
        )
        print(
            f"{name}: {marks:.1f} ms (first time {first:.1f} ms), {marks / encode:.2f} of encoding ({encode:.1f} ms)"
        )


if __name__ == "__main__":
    main()
