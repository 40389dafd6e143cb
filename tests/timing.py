"""Waiting for what happens in another thread, on a busy machine, too."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

HANGS_S = 20.0  # what has not come by then does not come


def comes_true(condition: Callable[[], object]) -> bool:
    """Whether it comes true, for which it is looked at again and again."""
    end = time.monotonic() + HANGS_S
    tick = threading.Event()
    while time.monotonic() < end:
        if condition():
            return True
        tick.wait(0.005)
    return False
