"""What the lines of a bench come to: figures, and advice in plain words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, NamedTuple

from tests.bench.asking import Line
from tests.bench.scenes import SIZES


class Share(NamedTuple):
    """So many of so many, with the interval of 95 % after Wilson (1927)."""

    hits: int
    of: int

    @property
    def rate(self) -> float:
        return self.hits / self.of if self.of else 0.0

    @property
    def low(self) -> float:
        return max(0.0, self.middle - self.reach)

    @property
    def high(self) -> float:
        return min(1.0, self.middle + self.reach)

    @property
    def middle(self) -> float:
        """The middle of the interval, which is nearer to a half than the share is."""
        return (self.hits + SQUARED_95 / 2) / (self.of + SQUARED_95)

    @property
    def reach(self) -> float:
        """Half of the interval."""
        variance = self.rate * (1 - self.rate) * self.of + SQUARED_95 / 4
        return math.sqrt(SQUARED_95 * variance) / (self.of + SQUARED_95)

    def __str__(self) -> str:
        if not self.of:
            return "not measured"
        ends = f"{round(100 * self.low)} to {round(100 * self.high)}"
        return f"{100 * self.rate:.0f} % ({ends}, n {self.of})"


SQUARED_95 = 1.959964**2
VERDICT_LEAST = 10  # answers; with fewer the interval of any share is wider than 40 %
SIZE_LEAST = 6  # of one size of seven, since its neighbours say the same
CALLS_LEAST = 6  # in a grammar
HITS_WANTED = 0.8
FALSE_YES_MOST = 0.1
BESIDE_MOST = 4.0  # grid units, at the rim: a small button's half
THOUGHT_TOKENS = 400.0  # a reply of a call and its five lines is shorter
CONTEXT_LEAST = 8192
LARGER_TOKENS = 2048  # of a picture; grounding has no use for more
JUDGED = ("targets hit", "false YES", "false NO", "texts read exactly")


@dataclass
class Result:
    """Every figure with its number of answers."""

    about: dict[str, Any]
    shares: dict[str, Share] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)

    def share(self, name: str, found: Iterable[bool]) -> None:
        known = list(found)
        self.shares[name] = Share(sum(known), len(known))

    def rows(self) -> list[tuple[str, str]]:
        """(figure, value) as the table shows them."""
        return [
            *((name, str(share)) for name, share in self.shares.items()),
            *((name, f"{number:.10g}") for name, number in self.numbers.items()),
            *((f"unusable replies: {kind}", str(n)) for kind, n in self.errors.items()),
        ]


def result_of(about: dict[str, Any], lines: Sequence[Line]) -> Result:
    """The figures of these lines."""
    result = Result(about, errors=Counter(line.error for line in lines if line.error))
    count_pointing(result, [line for line in lines if line.part == "pointing"])
    calls = [line for line in lines if line.part == "calling"]
    for kind in dict.fromkeys(["tools", "text", *(line.kind for line in calls)]):
        own = [line for line in calls if line.kind == kind]
        result.share(f"calls usable at once, {kind}", (not line.error for line in own))
        result.share(f"calls right in the end, {kind}", (line.right for line in own))
    for name, expected in (("false YES", "no"), ("false NO", "yes")):
        judged = [line for line in lines if (line.part, line.expected) == ("judging", expected)]
        result.share(name, (not line.right for line in judged))
    read = [line.right for line in lines if line.part == "reading"]
    result.share("texts read exactly", read)
    count_cost(result.numbers, [line for line in lines if line.requests])
    return result


def count_pointing(result: Result, lines: Sequence[Line]) -> None:
    """Hits, also by size, misses, and how the places lie beside the grid."""
    result.share("targets hit", (line.right for line in lines))
    for size in SIZES:
        result.share(f"targets of {size} pixels hit", (x.right for x in lines if x.size == size))
    result.share("neighbour hit instead", (line.neighbour for line in lines))
    result.share("pointing without a usable first reply", (bool(line.error) for line in lines))
    clicks = [line for line in lines if line.x >= 0]
    along = {
        "x": [(line.true_x, line.x) for line in clicks],
        "y": [(line.true_y, line.y) for line in clicks],
    }
    for axis, places in along.items():
        # Medians, so that clicks onto other things count little.
        slopes = [(x - 500) / (true - 500) for true, x in places if abs(true - 500) > 100]
        if len(slopes) >= VERDICT_LEAST:
            result.numbers[f"scale along {axis}"] = round(median(slopes), 4)
            shift = median(x - true for true, x in places)
            result.numbers[f"grid units off along {axis}"] = round(shift, 1)


def count_cost(numbers: dict[str, float], lines: Sequence[Line]) -> None:
    """Seconds and tokens, as far as the server tells."""
    if not lines:
        return
    seconds = [line.seconds / line.requests for line in lines]
    numbers["requests"] = sum(line.requests for line in lines)
    numbers["seconds a request, median"] = round(median(seconds), 1)
    most = quantiles([*seconds, *seconds], n=10)[-1]
    numbers["seconds a request, 90 % within"] = round(most, 1)
    numbers["prompt tokens in all"] = sum(line.prompt for line in lines)
    numbers["reply tokens in all"] = sum(line.completion for line in lines)
    told = [line for line in lines if line.cached >= 0]
    if told:
        reused = sum(line.cached for line in told)
        numbers["prompt tokens reused"] = reused
        numbers["prompt tokens computed"] = sum(line.prompt for line in told) - reused
    for line in lines:
        if line.part == "cost" and line.without:  # of its two prompts one has no picture
            numbers["picture tokens, counted"] = line.prompt - 2 * line.without
            numbers["picture tokens, expected"] = line.image


# -- advice: a sentence with the figure that it comes from, and the setting that follows


class Advice(NamedTuple):
    """A sentence for the person, and the settings that follow from it."""

    text: str
    settings: dict[str, Any] = {}


def advice_of(result: Result, context: int | None = None) -> list[Advice]:
    """What the figures mean; nothing is said of what too few answers tell."""
    found = [
        *on_pictures(result),
        *on_choices(result),
        *on_cost(result.numbers),
    ]
    share = result.shares["false YES"]
    if share.of >= VERDICT_LEAST and share.low > FALSE_YES_MOST:
        text = (
            f"As a verifier it says YES to unfinished screens: {share}."
            " Name a file in the task, which is looked at, or look at the result yourself."
        )
        found.append(Advice(text, {"second_opinion": True, "derive_checks": True}))
    if context is not None and context < CONTEXT_LEAST:
        text = f"Load the model with {CONTEXT_LEAST} tokens of context or more; it has {context}."
        found.append(Advice(text))
    few = [name for name in JUDGED if result.shares[name].of < VERDICT_LEAST]
    if few:
        text = f"Too few answers for a verdict on: {', '.join(few)}. Run the bench without quick."
        found.append(Advice(text))
    return found


def on_pictures(result: Result) -> Iterator[Advice]:
    """What the model surely cannot hit or read, and where its places lie."""
    width, _, height = str(result.about.get("size", "")).partition("x")
    is_large = int(width or 0) * int(height or 0) >= 0.9 * LARGER_TOKENS * 32**2
    larger = {} if is_large else {"image_tokens": LARGER_TOKENS}
    whole = result.shares["targets hit"]
    if whole.of >= VERDICT_LEAST and whole.high < HITS_WANTED / 2:
        yield Advice(f"This model cannot point: it hits {whole}. Use another one.")
        return
    by_size = {size: result.shares[f"targets of {size} pixels hit"] for size in SIZES}
    missed = [s for s, x in by_size.items() if x.of >= SIZE_LEAST and x.high < HITS_WANTED]
    if missed:
        yield Advice(
            f"This model cannot press things of {max(missed)} pixels, it hits"
            f" {by_size[max(missed)]}: use zoom, keyboard shortcuts, a larger picture or a larger"
            " model.",
            {"auto_zoom": True, **larger},
        )
    share = result.shares["texts read exactly"]
    if share.of >= VERDICT_LEAST and share.high < HITS_WANTED and larger:
        yield Advice(
            f"Small letters are misread: {share} of texts of 9 and 18 pixels are right."
            " Use a larger picture, and measure that one, too.",
            larger,
        )
    for axis in ("x", "y"):
        scale = result.numbers.get(f"scale along {axis}", 1.0)
        shift = result.numbers.get(f"grid units off along {axis}", 0.0)
        if max(abs(scale - 1) * 500, abs(shift)) > BESIDE_MOST:
            yield Advice(
                f"Its places lie beside the grid along {axis} (scale {scale:g}, {shift:+g} units):"
                " `agent.py --check` measures and corrects that."
            )


def on_choices(result: Result) -> Iterator[Advice]:
    """The grammar that is surely better than each other one."""
    best = surely_best(result, "calls usable at once, ", CALLS_LEAST)
    settings = {"tools": {"calls": "tools", "executor_grammar": "tools"}, "text": {"calls": "text"}}
    if best:
        share = result.shares[f"calls usable at once, {best}"]
        follows = settings.get(best, {"executor_grammar": best})
        yield Advice(f"Calls in the grammar {best} are usable more often: {share}.", follows)


def surely_best(result: Result, begin: str, least: int) -> str:
    """Of the shares of a name that begins so, the one whose interval lies above all others."""
    shares = {
        name.removeprefix(begin): share
        for name, share in result.shares.items()
        if name.startswith(begin) and share.of >= least
    }
    for name, share in shares.items():
        others = [other for known, other in shares.items() if known != name]
        if others and all(share.low > other.high for other in others):
            return name
    return ""


def on_cost(numbers: dict[str, float]) -> Iterator[Advice]:
    """Replies that think too long, and pictures that were shrunk."""
    requests = numbers.get("requests", 0)
    if requests >= VERDICT_LEAST and numbers["reply tokens in all"] > THOUGHT_TOKENS * requests:
        yield Advice(
            f"A reply takes {numbers['reply tokens in all'] / requests:.0f} tokens: take the"
            " instruct model, or switch thinking off in the server where this setting does not.",
            {"thinking": "off"},
        )
    counted = numbers.get("picture tokens, counted", 0)
    expected = numbers.get("picture tokens, expected", 0)
    if 0 < counted < 0.6 * expected:
        yield Advice(
            f"The server counts {counted:.0f} tokens for a picture of {expected:.0f}: it shrinks"
            " pictures; raise its limit, or small things stay out of reach."
        )
