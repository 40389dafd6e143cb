"""How much of a long proof the suite tries: a part of it, or with `python -m tests --whole` all of it."""

from __future__ import annotations

import os

VARIABLE = "AGENT_TESTS_WHOLE"
WHOLE = os.environ.get(VARIABLE) == "1"


def sample(whole: int, few: int) -> int:
    """So many of whatever a test tries; the gate tries the whole."""
    return whole if WHOLE else few
