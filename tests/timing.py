"""Limits of real time that hold on a busy machine, too, and waiting for what happens in another thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

TRIES = 5
HANGS_S = 20.0  # what has not come by then does not come


def least(measure: Callable[[], float], limit_s: float) -> float:
    """The least of as many measurements, in seconds, as it takes to come below the limit.

    Whatever else the machine does only adds to a measurement, and not to each; what is itself too
    slow never comes below the limit.
    """
    found = [measure()]
    while min(found) >= limit_s and len(found) < TRIES:
        found.append(measure())
    return min(found)


def comes_true(condition: Callable[[], object]) -> bool:
    """Whether it comes true, for which it is looked at again and again."""
    end = time.monotonic() + HANGS_S
    tick = threading.Event()
    while time.monotonic() < end:
        if condition():
            return True
        tick.wait(0.005)
    return False
