"""What a model of each grammar says: a click, the key Enter, the text hello and the end, as its documents write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import agent

ROWS = Path(__file__).with_name("data").joinpath("spoken.jsonl").read_text("utf-8").splitlines()
SAID = {row["grammar"]: row for row in map(json.loads, ROWS)}


def spoken(
    grammar: agent.Grammar,
    act: str,
    place: Sequence[int] = (0, 0),
    size: tuple[int, int] = (64, 64),
    why: str = "",
) -> str:
    """An act as a model of that grammar writes it: its place on the grid as it is in a picture of that size."""
    sides = grammar.sides(grammar.picture.seen_size(agent.Size(*size)))
    x, y = (round(number * side / 1000) for number, side in zip(place, sides, strict=True))
    return str(SAID[grammar.name][act] % {"why": why or f"I {act}", "x": x, "y": y})
