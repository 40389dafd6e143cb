"""How much of a long proof the suite tries: a part of it, or with `python -m tests --whole` all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

VARIABLE = "AGENT_TESTS_WHOLE"
WHOLE = os.environ.get(VARIABLE) == "1"
T = TypeVar("T")


def for_the_gate(test: T) -> T:
    """Marks a test that takes half a second or more, and that the suite leaves to the gate.

    It is tried, too, where its module is named.
    """
    vars(test)["for_the_gate"] = True
    return test


def sample(whole: T, few: T) -> T:
    """What a test tries, or how many; the gate tries the whole."""
    return whole if WHOLE else few


def some(rows: Sequence[T], every: int, kind: Callable[[T], Hashable] = lambda row: 0) -> list[T]:
    """Every so many rows of a table, and the first one of each kind; the gate tries all."""
    if WHOLE:
        return [*rows]
    firsts = dict[Hashable, int]()
    for number, row in enumerate(rows):
        firsts.setdefault(kind(row), number)
    taken = {*firsts.values(), *range(0, len(rows), every)}
    return [rows[number] for number in sorted(taken)]
