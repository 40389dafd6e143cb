"""What the lines of a bench come to: figures, and advice in plain words where they are sure enough."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

SQUARED_95 = 1.959964**2


class Share(NamedTuple):
    """So many of so many, with the interval of 95 % after Wilson (1927)."""

    hits: int
    of: int

    @property
    def rate(self) -> float:
        return self.hits / self.of if self.of else 0.0

    @property
    def ends(self) -> tuple[float, float]:
        """Its middle is nearer to a half than the share is."""
        middle = (self.hits + SQUARED_95 / 2) / (self.of + SQUARED_95)
        variance = self.rate * (1 - self.rate) * self.of + SQUARED_95 / 4
        reach = math.sqrt(SQUARED_95 * variance) / (self.of + SQUARED_95)
        return max(0.0, middle - reach), min(1.0, middle + reach)

    def __str__(self) -> str:
        if not self.of:
            return "not measured"
        low, high = (round(100 * end) for end in self.ends)
        return f"{100 * self.rate:.0f} % ({low} to {high}, n {self.of})"


class Line(NamedTuple):
    """What one item came to; seconds and tokens are those of all its requests, corrections included."""

    part: str
    name: str
    kind: str = ""
    expected: str = ""
    right: bool = False
    error: str = ""  # of the first reply, if nothing of it could be used
    requests: int = 0  # that were answered
    seconds: float = 0.0
    prompt: int = 0
    completion: int = 0
    cached: int | None = None  # None where the server does not tell


# Of the right answers of a part; those of judging are told apart by what was expected.
NAMES = {
    "pointing": ("targets hit", "targets of {kind} pixels hit"),
    "calling": ("calls right in the end, {kind}",),
    "judging": ("finished screens believed",),
    "judging no": ("unfinished screens refused",),
    "reading": ("texts read exactly", "texts of {kind} pixels read"),
}


def shares(lines: Sequence[Line]) -> dict[str, Share]:
    """Every share of right answers, by its name."""
    found: dict[str, list[bool]] = {}
    for line in lines:
        for name in NAMES[f"{line.part} no" if line.expected == "no" else line.part]:
            found.setdefault(name.format(kind=line.kind), []).append(line.right)
        if line.part == "calling":
            found.setdefault(CALLS + line.kind, []).append(not line.error)
    return {name: Share(sum(hits), len(hits)) for name, hits in found.items()}


def rows(lines: Sequence[Line]) -> dict[str, Any]:
    """Every figure as a table shows it."""
    found: dict[str, Any] = {name: str(share) for name, share in shares(lines).items()}
    for error, times in Counter(line.error for line in lines if line.error).items():
        found[f"unusable replies: {error}"] = times
    asked = [line for line in lines if line.requests]
    if asked:
        seconds = median(line.seconds / line.requests for line in asked)
        found["requests"] = sum(line.requests for line in asked)
        found["seconds a request, median"] = round(seconds, 1)
        found["reply tokens in all"] = sum(line.completion for line in asked)
    told = [line for line in asked if line.cached is not None]
    if told:
        found["prompt tokens reused"] = sum(line.cached or 0 for line in told)
        found["prompt tokens in all"] = sum(line.prompt for line in told)
    return found


LEAST = 6  # answers before anything is said
# What is said where a share is surely below this one.
ADVICE = (
    ("targets hit", 0.4, "This model cannot point; use another one."),
    ("targets of 16 pixels hit", 0.8, "Small things are missed: try --set image_tokens=2048."),
    ("texts read exactly", 0.8, "Small letters are misread: try --set image_tokens=2048."),
    ("unfinished screens refused", 0.9, "It believes unfinished screens: keep --set second_opinion=true, and name a file in the task."),
)  # fmt: skip
GRAMMARS = {"tools": "--set calls=tools", "text": "--set calls=text"}
CALLS = "calls usable at once, "


def advice(lines: Sequence[Line]) -> Iterator[str]:
    """What follows; nothing is said of what too few answers tell."""
    known = {name: share for name, share in shares(lines).items() if share.of >= LEAST}
    for name, least, words in ADVICE:
        if name in known and known[name].ends[1] < least:
            yield f"{words} ({name}: {known[name]})"
    calls = {name: share for name, share in known.items() if name.startswith(CALLS)}
    for name, share in calls.items():
        others = [other.ends[1] for key, other in calls.items() if key != name]
        if others and share.ends[0] > max(others):
            grammar = name.removeprefix(CALLS)
            setting = GRAMMARS.get(grammar, f"--set executor_grammar={grammar}")
            yield f"Calls are usable more often with {setting} ({share})."
