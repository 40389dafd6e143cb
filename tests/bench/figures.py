"""What the lines of a bench come to: figures, and advice in plain words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent import (
    CONTEXT_LEAST,
    NO_CORRECTION,
    PATCH,
    PROFILES,
    TOKENS_SHARE,
    AxisFit,
    Correction,
    JsonDict,
    JsonObject,
    fit_axis,
)
from tests.bench.asking import BENCH_PARTS, BenchLine
from tests.bench.targets import BENCH_GRAMMARS, BENCH_SIZES


def quantile(values: Iterable[float], part: float) -> float:
    """The value below which that part of them lies, between two neighbours in proportion."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    below, above = math.floor(place), math.ceil(place)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


class Share(NamedTuple):
    """So many of so many, with the interval of 95 % after Wilson (1927)."""

    hits: int
    of: int

    @property
    def rate(self) -> float:
        """The share itself, 0 to 1; 0 of nothing."""
        if not self.of:
            return 0.0
        return self.hits / self.of

    @property
    def _middle(self) -> float:
        """The middle of the interval, which is nearer to a half than the share is."""
        squared = NORMAL_95**2
        successes = self.hits + squared / 2
        return successes / (self.of + squared)

    @property
    def _reach(self) -> float:
        """Half of the interval."""
        squared = NORMAL_95**2
        spread = self.rate * (1 - self.rate)
        variance = spread * self.of + squared / 4
        deviation = math.sqrt(variance)
        return NORMAL_95 * deviation / (self.of + squared)

    @property
    def low(self) -> float:
        """The interval's lower end; 0 where nothing was measured."""
        lower = self._middle - self._reach
        return max(0.0, lower)

    @property
    def high(self) -> float:
        """The interval's upper end; 1 where nothing was measured."""
        upper = self._middle + self._reach
        return min(1.0, upper)

    def holds(self, rate: float) -> bool:
        """Whether that rate lies in the interval."""
        return self.low <= rate <= self.high

    def __str__(self) -> str:
        if not self.of:
            return "not measured"
        low = round(100 * self.low)
        high = round(100 * self.high)
        return f"{100 * self.rate:.0f} % ({low} to {high}, n {self.of})"


NORMAL_95 = 1.959964


def share_of(found: Iterable[bool]) -> Share:
    """How many of them are true."""
    known = list(found)
    return Share(sum(known), len(known))


VERDICT_LEAST = 10  # answers; with fewer the interval of any share is wider than 40 %
SIZE_LEAST = 6  # of one size of seven, since its neighbours say the same
HITS_WANTED = 0.8
FALSE_YES_MOST = 0.1
TASKS_WANTED = 0.5
CALLS_LEAST = 6  # in a grammar


WHOLE_NUMBERS = frozenset(  # of which a table shows no decimal places
    (
        "requests",
        "prompt tokens in all",
        "reply tokens in all",
        "prompt tokens reused",
        "prompt tokens computed",
        "picture tokens, counted",
        "picture tokens, expected",
    )
)


@dataclass
class BenchResult:
    """Every figure with its number of answers: shares, quantiles in `numbers`, and two lines."""

    about: JsonDict
    shares: dict[str, Share] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    x: AxisFit | None = None
    y: AxisFit | None = None

    def rows(self) -> list[tuple[str, str]]:
        """(figure, value) as the table shows them."""
        rows: list[tuple[str, str]] = []
        for name, share in self.shares.items():
            rows.append((name, str(share)))
        for axis, fit in self.lines.items():
            rows.append((f"grid along {axis}", str(fit)))
        for name, number in self.numbers.items():
            digits = 0 if name in WHOLE_NUMBERS else 1
            rows.append((name, f"{number:.{digits}f}"))
        for kind, times in self.errors.items():
            rows.append((f"unusable replies: {kind}", str(times)))
        return rows

    @property
    def lines(self) -> dict[str, AxisFit]:
        """The lines that there are, by their axes."""
        found: dict[str, AxisFit] = {}
        if self.x:
            found["x"] = self.x
        if self.y:
            found["y"] = self.y
        return found


def bench_result(about: JsonDict, lines: Sequence[BenchLine]) -> BenchResult:
    """The figures of these lines."""
    result = BenchResult(about)
    by_part: dict[str, list[BenchLine]] = {}
    for part in BENCH_PARTS:
        by_part[part] = []
    for line in lines:
        own = by_part[line.part]
        own.append(line)
    _count_pointing(result, by_part["pointing"])
    _count_calling(result, by_part["calling"])
    _count_judging(result, by_part["judging"])
    read = [line.right for line in by_part["reading"]]
    result.shares["texts read exactly"] = share_of(read)
    _count_tasks(result, by_part["tasks"])
    single = [line for line in lines if line.requests]
    _count_cost(result, single)
    for line in lines:
        if line.error:
            result.errors[line.error] = result.errors.get(line.error, 0) + 1
    return result


def _count_pointing(
    result: BenchResult,
    lines: Sequence[BenchLine],
) -> None:
    """Hits, also by size, misses, and how the places lie beside the grid."""
    shares = result.shares
    right: list[bool] = []
    beside: list[bool] = []
    lost: list[bool] = []
    by_size: dict[int, list[bool]] = {size: [] for size in BENCH_SIZES}
    for line in lines:
        right.append(line.right)
        beside.append(line.neighbour)
        lost.append(bool(line.error))
        of_size = by_size.setdefault(line.size, [])
        of_size.append(line.right)
    shares["targets hit"] = share_of(right)
    for size, hits in by_size.items():
        shares[size_name(size)] = share_of(hits)
    shares["neighbour hit instead"] = share_of(beside)
    shares["pointing without a usable first reply"] = share_of(lost)
    along_x: list[tuple[float, float]] = []
    along_y: list[tuple[float, float]] = []
    away: list[float] = []
    for line in lines:
        if line.x < 0:
            continue
        along_x.append((line.true_x, line.x))
        along_y.append((line.true_y, line.y))
        away.append(line.pixels_off)
    result.x = fit_axis(along_x)
    result.y = fit_axis(along_y)
    if away:
        result.numbers["pixels off, median"] = quantile(away, 0.5)
        result.numbers["pixels off, 90 % within"] = quantile(away, 0.9)


def size_name(size: int) -> str:
    """The name of the share of targets of a size."""
    return f"targets of {size} pixels hit"


def _count_calling(
    result: BenchResult,
    lines: Sequence[BenchLine],
) -> None:
    """Usable replies in each grammar."""
    for grammar in dict.fromkeys([*BENCH_GRAMMARS, *(line.kind for line in lines)]):
        usable: list[bool] = []
        right: list[bool] = []
        corrections = 0
        for line in lines:
            if line.kind == grammar:
                usable.append(not line.error)
                right.append(line.right)
                corrections += line.corrections
        result.shares[usable_name(grammar)] = share_of(usable)
        result.shares[f"calls right in the end, {grammar}"] = share_of(right)
        if usable:
            name = f"corrections a call, {grammar}"
            result.numbers[name] = corrections / len(usable)


def usable_name(grammar: str) -> str:
    """The name of the share of calls that need no correction."""
    return f"calls usable at once, {grammar}"


def _count_judging(
    result: BenchResult,
    lines: Sequence[BenchLine],
) -> None:
    """False YES and false NO of the verifier."""
    wrong: dict[str, list[bool]] = {"yes": [], "no": []}
    for line in lines:
        if line.expected in wrong:
            wrong[line.expected].append(not line.right)
    result.shares["false YES"] = share_of(wrong["no"])
    result.shares["false NO"] = share_of(wrong["yes"])


def _count_tasks(
    result: BenchResult,
    lines: Sequence[BenchLine],
) -> None:
    """Whole tasks by profile."""
    by_profile: dict[str, list[BenchLine]] = {}
    for line in lines:
        own = by_profile.setdefault(line.kind, [])
        own.append(line)
    for profile, own in by_profile.items():
        _count_profile(result, profile, own)


def _count_profile(result: BenchResult, profile: str, lines: Sequence[BenchLine]) -> None:
    """Tasks that were done, that were said to be done, and the turns that they took."""
    done: list[bool] = []
    wrongly: list[bool] = []
    turns = 0
    wasted = 0
    for line in lines:
        done.append(line.right)
        wrongly.append(line.claimed and not line.right)
        turns += line.turns
        wasted += line.wasted
    shares = result.shares
    numbers = result.numbers
    shares[done_name(profile)] = share_of(done)
    shares[f"called completed wrongly, {profile}"] = share_of(wrongly)
    numbers[f"turns a demo task, {profile}"] = turns / len(lines)
    numbers[f"of them without a change, {profile}"] = wasted / len(lines)


def done_name(profile: str) -> str:
    """The name of the share of tasks that were carried out."""
    return f"demo tasks done, {profile}"


def _count_cost(
    result: BenchResult,
    lines: Sequence[BenchLine],
) -> None:
    """Seconds and tokens, as far as the server tells."""
    if not lines:
        return
    numbers = result.numbers
    seconds: list[float] = []
    requests = 0
    prompt = 0
    completion = 0
    told = 0  # tokens of prompts of which the server says what it reused
    reused = 0
    for line in lines:
        seconds.append(line.seconds / line.requests)
        requests += line.requests
        prompt += line.prompt
        completion += line.completion
        if line.cached >= 0:
            told += line.prompt
            reused += line.cached
    numbers["requests"] = requests
    numbers["seconds a request, median"] = quantile(seconds, 0.5)
    numbers["seconds a request, 90 % within"] = quantile(seconds, 0.9)
    numbers["prompt tokens a request"] = prompt / requests
    numbers["reply tokens a request"] = completion / requests
    numbers["prompt tokens in all"] = prompt
    numbers["reply tokens in all"] = completion
    if told:
        numbers["prompt tokens reused"] = reused
        numbers["prompt tokens computed"] = told - reused
    _count_picture(numbers, lines)


def _count_picture(numbers: dict[str, float], lines: Sequence[BenchLine]) -> None:
    """What a picture costs: reading asks with one what the cost part asks without."""
    by_part: dict[str, list[int]] = {"reading": [], "cost": []}
    expected = 0
    for line in lines:
        if line.part in by_part:
            by_part[line.part].append(line.prompt)
            expected = max(expected, line.image)
    if all(by_part.values()):
        with_picture = quantile(by_part["reading"], 0.5)
        numbers["picture tokens, counted"] = with_picture - quantile(by_part["cost"], 0.5)
        numbers["picture tokens, expected"] = expected


# -- advice: a sentence with the figure that it comes from, and the setting that follows


class Advice(NamedTuple):
    """A sentence for the person, and the settings that follow from it."""

    text: str
    settings: JsonObject = {}


def bench_advice(result: BenchResult, info_context: int | None = None) -> list[Advice]:
    """What the figures mean; nothing is said of what too few answers tell."""
    found = [
        *_advice_on_sizes(result),
        *_advice_on_reading(result),
        *_advice_on_grid(result),
        *_advice_on_calls(result),
        *_advice_on_profiles(result),
        *_advice_on_verdicts(result),
        *_advice_on_cost(result),
    ]
    if info_context is not None and info_context < CONTEXT_LEAST:
        text = f"Load the model with 8192 tokens of context or more; it has {info_context}."
        found.append(Advice(text))
    few: list[str] = []
    for name in _JUDGED_SHARES:
        if result.shares[name].of < VERDICT_LEAST:
            few.append(name)
    if few:
        text = f"Too few answers for a verdict on: {', '.join(few)}. Run the bench without quick."
        found.append(Advice(text))
    return found


_JUDGED_SHARES = ("targets hit", "false YES", "false NO", "texts read exactly")


def _advice_on_sizes(result: BenchResult) -> Iterator[Advice]:
    """The largest size that the model surely cannot hit."""
    whole = result.shares["targets hit"]
    if whole.of >= VERDICT_LEAST and whole.high < HITS_WANTED / 2:
        yield Advice(f"This model cannot point: it hits {whole}. Use another one.")
        return
    missed: list[int] = []
    for size in BENCH_SIZES:
        share = result.shares[size_name(size)]
        if share.of >= SIZE_LEAST and share.high < HITS_WANTED:
            missed.append(size)
    if missed:
        share = result.shares[size_name(max(missed))]
        text = (
            f"This model cannot press things of {max(missed)} pixels, it hits {share}: use zoom,"
            " keyboard shortcuts, a larger picture or a larger model."
        )
        closer = {"auto_zoom": True}
        yield Advice(text, {**closer, **_larger_picture(result)})


LARGER_TOKENS = 2048  # of a picture; grounding has no use for more (DESIGN.md)


def _larger_picture(result: BenchResult) -> JsonObject:
    """The setting for a larger picture than that which was measured, if one is of use."""
    size = re.fullmatch(r"(\d+)x(\d+)", str(result.about.get("size")))
    if size and int(size[1]) * int(size[2]) >= LARGER_TOKENS * PATCH**2 * TOKENS_SHARE:
        return {}
    return {"image_tokens": LARGER_TOKENS}


def _advice_on_reading(result: BenchResult) -> Iterator[Advice]:
    """Whether letters are too small for the model."""
    share = result.shares["texts read exactly"]
    larger = _larger_picture(result)
    if share.of >= VERDICT_LEAST and share.high < HITS_WANTED and larger:
        yield Advice(
            f"Small letters are misread: {share} of texts of 9 to 14 pixels are right."
            " Use a larger picture, and measure that one, too.",
            larger,
        )


def _advice_on_grid(result: BenchResult) -> Iterator[Advice]:
    """Whether the places have to be corrected, and can be."""
    if not result.x or not result.y:
        return
    measured = Correction(result.x, result.y)
    if measured.beyond:
        yield Advice(f"Runs with it are refused: its places lie too far off ({measured}).")
    elif measured.certain() != NO_CORRECTION:
        yield Advice(
            f"Its places lie beside the grid ({measured}); runs correct that.",
            {"calibration": True},
        )


def _advice_on_calls(result: BenchResult) -> Iterator[Advice]:
    """The grammar that is surely better than each other one."""
    usable: dict[str, Share] = {}
    for name, share in result.shares.items():
        grammar = name.removeprefix(usable_name(""))
        if grammar != name and share.of >= CALLS_LEAST:
            usable[grammar] = share
    best = _surely_best(usable)
    if best is None:
        return
    if best == "text":
        yield Advice(
            f"Calls in the text are usable more often: {usable[best]}.",
            {"calls": best},
        )
    elif best == "tools":
        yield Advice(
            f"Calls from the list are usable more often: {usable[best]}.",
            {"calls": best, "executor_grammar": best},
        )
    else:
        yield Advice(
            f"Calls in the model's own grammar {best} are usable more often: {usable[best]}."
            " Use --profile native or this setting.",
            {"executor_grammar": best},
        )


def _surely_best(shares: Mapping[str, Share]) -> str | None:
    """The name of the share whose interval lies above all others; None for one alone."""
    for name, share in shares.items():
        others = [other for known, other in shares.items() if known != name]
        if others and all(share.low > other.high for other in others):
            return name
    return None


def _advice_on_profiles(result: BenchResult) -> Iterator[Advice]:
    """The profile that surely does more of the demo's tasks, and those that surely do few."""
    done: dict[str, Share] = {}
    for profile in PROFILES:
        share = result.shares.get(done_name(profile), Share(0, 0))
        if share.of >= VERDICT_LEAST:
            done[profile] = share
    best = _surely_best(done)
    if best:
        yield Advice(f"Use --profile {best}: of the demo's tasks it does {done[best]}.")
    for profile, share in done.items():
        if share.high < TASKS_WANTED:
            yield Advice(f"With profile {profile} it does few of the demo's tasks: {share}.")


def _advice_on_verdicts(result: BenchResult) -> Iterator[Advice]:
    """Whether the model's word that a task is done can be believed."""
    share = result.shares["false YES"]
    if share.of >= VERDICT_LEAST and share.low > FALSE_YES_MOST:
        text = (
            f"As a verifier it says YES to unfinished screens: {share}."
            " Name a file in the task, which is looked at, or look at the result yourself."
        )
        yield Advice(text, {"second_opinion": True, "derive_checks": True})


THOUGHT_TOKENS = 400.0  # a reply of a call and its five lines is shorter (DESIGN.md)


def _advice_on_cost(result: BenchResult) -> Iterator[Advice]:
    """Replies that think too long, and pictures that were shrunk."""
    requests = result.numbers.get("requests", 0)
    if requests >= VERDICT_LEAST:
        each = result.numbers["reply tokens in all"] / requests
        if each > THOUGHT_TOKENS:
            yield Advice(
                f"A reply takes {each:.0f} tokens: take the instruct model, or switch thinking off"
                " in the server where this setting does not.",
                {"thinking": "off"},
            )
    counted = result.numbers.get("picture tokens, counted", 0)
    expected = result.numbers.get("picture tokens, expected", 0)
    if 0 < counted < 0.6 * expected:
        yield Advice(
            f"The server counts {counted:.0f} tokens for a picture of {expected:.0f}: it shrinks"
            " pictures; raise its limit, or small things stay out of reach."
        )
