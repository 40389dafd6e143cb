"""How the time for a text grows with its length; a ratio, since seconds depend on the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from tests.samples import sample

SHORT = 12_500
LONG = sample(200_000, 100_000)
LINEAR = LONG / SHORT
# the processor's time of this thread, so that what else the machine does counts little; Windows counts it too coarsely
now = time.perf_counter if os.name == "nt" else time.thread_time
MOST = 4 * LINEAR  # as far from LINEAR as from its square, in case the machine is busy


def growth(read: Callable[[str], object], piece: str, tail: str = "") -> float:
    """How much longer `read` takes with 200 kB of a piece (or a part) than with 12.5 kB.

    About LINEAR, or about LINEAR**2 for a pattern that starts anew at each piece.
    """
    short = piece * (SHORT // len(piece)) + tail
    long = piece * (LONG // len(piece)) + tail
    least = float("inf")
    for _ in range(2):
        least = min(least, seconds(read, long, 3) / seconds(read, short, 9))
        if (
            least < 2 * LINEAR
        ):  # far from the square: whatever else the machine does only adds to it
            break
    return least


def seconds(read: Callable[[str], object], text: str, runs: int) -> float:
    """The least of some runs: whatever else the machine does only adds to it."""
    least = float("inf")
    for _ in range(runs):
        begin = now()
        read(text)
        least = min(least, now() - begin)
    return max(least, 1e-6)
