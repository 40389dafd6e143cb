"""Models with known faults are measured by the bench, which must give each fault back within its interval.

    python -m tests.bench_faults [RUNS]     prints for each fault in how many of the runs (100) it did

Nothing is drawn and nothing goes over a network: the scripted models know what an item asks for.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import agent
from tests.bench import asking, figures, targets

WHOLE = agent.Rect(0, 0, 1536, 864)


@dataclass
class Faulty:
    """A model that does right but for its faults; `hits` is the hit rate of each size."""

    seed: int
    scale: float = 1.0
    offset: float = 0.0
    noise: float = 3.0  # grid units, one deviation
    neighbours: float = 0.0
    hits: dict[int, float] = field(default_factory=dict)
    false_yes: float = 0.0
    prose: float = 0.0

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.seed} model")
        self.asked = 0

    def __call__(
        self, item: targets.BenchItem, messages: Sequence[agent.Message], grammar: str
    ) -> agent.Reply:
        self.asked += 1
        parts: dict[str, Callable[[targets.BenchItem, str], dict[str, Any]]] = {
            "pointing": self.point,
            "calling": self.call,
            "judging": self.judge,
            "reading": self.read,
            "cost": self.read,
        }
        message = parts[item.part](item, grammar)
        return agent.Reply(message, "stop", agent.Usage(1500, 40, 300), "faulty", 2.0, 1)

    def words(self, text: str) -> dict[str, Any]:
        return {"role": "assistant", "content": text}

    def called(self, grammar: str, tool: str, **arguments: Any) -> dict[str, Any]:
        if self.dice.random() < self.prose:
            return self.words("I would do what I was asked for, and then look at the screen.")
        name = agent.PLANNER_WORDS.tools[tool]
        if grammar == "text":
            return self.words(agent.call_in_text(name, json.dumps(arguments)))
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {
            "content": "",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        }

    def point(self, item: targets.BenchItem, grammar: str) -> dict[str, Any]:
        place = item.target
        if self.dice.random() < self.neighbours:
            place = self.dice.choice(item.neighbours)
        elif item.size in self.hits and self.dice.random() >= self.hits[item.size]:
            place = item.target.moved(-place.width - 30, 0)
        x, y = targets.grid_place(place, WHOLE)
        if not self.hits and not self.neighbours:
            x, y = x + self.dice.gauss(0, self.noise), y + self.dice.gauss(0, self.noise)
        said = [round(500 + self.scale * (axis - 500) + self.offset) for axis in (x, y)]
        said = [min(1000, max(0, axis)) for axis in said]
        return self.called(grammar, "click", element_name="x", position=said, reasoning="seen")

    def call(self, item: targets.BenchItem, grammar: str) -> dict[str, Any]:
        if item.expected == "type_text":
            return self.called(grammar, "type_text", text="42", reasoning="asked")
        return self.called(grammar, "press_key", key="escape", reasoning="asked")

    def judge(self, item: targets.BenchItem, grammar: str) -> dict[str, Any]:
        wrong = item.expected == "no" and self.dice.random() < self.false_yes
        return self.words("1 YES: seen" if wrong or item.expected == "yes" else "1 NO: missing")

    def read(self, item: targets.BenchItem, grammar: str) -> dict[str, Any]:
        return self.words(item.expected)


def measured(model: Faulty, plan: asking.BenchPlan = asking.BENCH_WHOLE) -> figures.BenchResult:
    bench = asking.Bench(model, WHOLE, "tools", draws=False)
    items = asking.bench_items(plan, model.seed, WHOLE)
    return figures.bench_result({}, [bench.measure(item) for item in items])


FALLING = {8: 0.1, 12: 0.3, 16: 0.5, 24: 0.7, 32: 0.85, 48: 0.95, 64: 1.0}


def scale_found(result: figures.BenchResult, scale: float) -> bool:
    fits = [fit for fit in (result.x, result.y) if fit]
    return len(fits) == 2 and all(abs(fit.scale - scale) <= fit.scale_error for fit in fits)


def shift_found(result: figures.BenchResult, shift: float) -> bool:
    fits = [fit for fit in (result.x, result.y) if fit]
    return len(fits) == 2 and all(abs(fit.shift - shift) <= fit.shift_error for fit in fits)


def sizes_found(result: figures.BenchResult) -> float:
    found = [result.shares[figures.size_name(size)].holds(rate) for size, rate in FALLING.items()]
    return sum(found) / len(found)


@dataclass
class Fault:
    name: str
    faults: dict[str, Any]
    found: Callable[[figures.BenchResult], float]  # 1 if the fault was given back


def share(name: str, rate: float) -> Callable[[figures.BenchResult], float]:
    return lambda result: result.shares[name].holds(rate)


FAULTS = [
    Fault("scale 1.0106", {"scale": 1.0106}, lambda result: scale_found(result, 1.0106)),
    Fault("scale 0.98", {"scale": 0.98}, lambda result: scale_found(result, 0.98)),
    Fault("offset 6", {"offset": 6}, lambda result: shift_found(result, 6)),
    Fault("20 % onto a neighbour", {"neighbours": 0.2}, share("neighbour hit instead", 0.2)),
    Fault("hits by size", {"hits": FALLING}, sizes_found),
    Fault("YES 30 % too often", {"false_yes": 0.3}, share("false YES", 0.3)),
    Fault("10 % prose", {"prose": 0.1}, share("pointing without a usable first reply", 0.1)),
]


def counts(runs: int) -> Iterator[tuple[str, float]]:
    """How many of the runs gave a fault back, for each fault."""
    found: Counter[str] = Counter()
    for fault in FAULTS:
        total = 0.0
        for seed in range(runs):
            total += float(fault.found(measured(Faulty(seed, **fault.faults))))
        yield fault.name, total
    return found


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    worst = float(runs)
    for name, found in counts(runs):
        print(f"{name:<24} {found:6.1f} of {runs}", flush=True)
        worst = min(worst, found)
    return 0 if worst >= 0.95 * runs else 1


if __name__ == "__main__":
    sys.exit(main())
