"""How much of a long proof the suite tries: a part of it, or with `python -m tests --whole` all of it."""

from __future__ import annotations

import os
from typing import TypeVar

VARIABLE = "AGENT_TESTS_WHOLE"
WHOLE = os.environ.get(VARIABLE) == "1"
T = TypeVar("T")


def sample(whole: T, few: T) -> T:
    """What a test tries, or how many; the gate tries the whole."""
    return whole if WHOLE else few
