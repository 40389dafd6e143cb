"""Measures the person's own model on drawn pictures, and sets results side by side.

    python -m tests.bench quick             in 4 minutes at 5 s a request; without quick it is surer
    python -m tests.bench --grammar NAME    asked in that grammar, such as qwen3-vl
    python -m tests.bench planner chat      the demo's tasks, too, with each of these profiles
    python -m tests.bench native 4          the same 4 times, asked in the grammar of the model's name
    python -m tests.bench compare 1 2       results side by side, by number, folder or bench.json

No desktop is touched: each item is a run of one turn on a drawn screen, so that the model is asked as in any run. Behind
these words stand agent.py's own options: --endpoint, --model, --set, --config. What it leaves is in dumps/bench_0001 and
so on: bench.html for people, bench.json for programs, and bench_settings.json with the settings that follow, which
--config takes. Ctrl+C or a crash loses nothing: started again with the same words it goes on.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import agent
from tests.bench import asking, figures, keeping, scenes

TOLD_EVERY = 10  # items
SETTINGS = ("calls", "thinking", "lmstudio_temperature")  # with which something else is measured


class Order(NamedTuple):
    """What a bench is asked for; each task of each profile is carried out `runs` times."""

    plan: asking.Plan
    profiles: list[str]
    runs: int = 1


def order_of(words: Sequence[str]) -> Order:
    """The order in these words; raises ConfigError for one that it does not know."""
    known = ["quick", *agent.PROFILES]
    numbers = [word for word in words if re.fullmatch("[1-9][0-9]?", word)]
    for word in words:
        if word not in [*known, *numbers]:
            raise agent.ConfigError(
                f"A bench takes {', '.join(known)} and how often each task is run (1 to 99), not"
                f" {word[:60]!r}."
            )
    plan = asking.QUICK if "quick" in words else asking.WHOLE
    profiles = [word for word in dict.fromkeys(words) if word in agent.PROFILES]
    return Order(plan, profiles, int(numbers[-1]) if numbers else 1)


def measure(
    config: agent.Config,
    order: Order,
    server: Any,
    clock: agent.Clock,
    say: Callable[[str], None],
    configs: dict[str, agent.Config],
) -> int:
    """Measures the model, tells its figures and keeps them; raises ModelError and Stopped."""
    info = server.discover()
    bench = asking.Bench(config, info, server, clock, order.profiles)
    about = {
        "model": info.name,
        "build": info.build,
        "where": server.where,
        "size": f"{bench.whole.width}x{bench.whole.height}",
        "grammar": bench.grammar,
        "profiles": order.profiles,
        "runs": order.runs,
        "requests": list(order.plan),
        "version": agent.__version__,
        **{name: getattr(config, name) for name in SETTINGS},
    }
    folder = keeping.folder_for(Path(config.dump_dir), about)
    items = asking.items_of(order.plan, asking.SEED, bench.whole, bench.grammars)
    items += scenes.tasks(order.profiles, order.runs)
    requests = keeping.requests_of(items)
    lasts = keeping.minutes_text(requests * asking.SECONDS)
    say(
        f"Measuring {info.name} with some {requests} requests on drawn pictures, {lasts} at"
        f" {asking.SECONDS:g} s each, and more for replies that have to be corrected. The desktop"
        f" is not touched. Ctrl+C keeps what was measured in {folder}."
    )
    told: list[str] = []

    def progress(text: str) -> None:
        if len(told) % TOLD_EVERY == 0:
            say(f"...   {text}")
        told.append(text)

    def one(item: scenes.Item) -> asking.Line:
        if item.part == "tasks":
            return bench.task(item, folder, configs[item.kind])
        return bench.measure(item)

    lines: list[asking.Line] = []
    try:
        for line in keeping.measured(one, items, folder, progress):
            lines.append(line)
    finally:
        result = figures.result_of(about, lines)
        advice = figures.advice_of(result, info.context_length)
        say("\n".join(f"{name:<44} {value}" for name, value in result.rows()))
        say("\n".join(f"advice: {item.text}" for item in advice))
        if len(lines) < len(items):
            say(f"{len(lines)} of {len(items)} steps; start it again to go on.")
    keeping.leave(folder, result, advice)
    say(f"Written: {folder / 'bench.html'}")
    say(f"Settings that follow, for --config: {folder / 'bench_settings.json'}")
    return 0


def run(arguments: list[str]) -> int:
    """Measures or compares; raises AgentError with one sentence for what cannot be done."""
    words = list(takewhile(lambda word: not word.startswith("-"), arguments))
    options = agent.command_line().parse_args(arguments[len(words) :])
    configs = {}
    for profile in agent.PROFILES:
        options.profile = profile
        configs[profile] = agent.read_config(options, os.environ)
    config = next(iter(configs.values()))
    if words[:1] == ["compare"]:
        root = Path(config.dump_dir)
        print("\n".join(keeping.compared([keeping.read_result(root, name) for name in words[1:]])))
        return 0
    order, stop = order_of(words), agent.Stop()
    clock, key = agent.SystemClock(stop), os.environ.get("LMSTUDIO_API_KEY", "")
    server = agent.ModelServer(config, clock, stop, key, print)
    return measure(config, order, server, clock, print, configs)


def main(arguments: list[str]) -> int:
    try:
        return run(arguments)
    except (agent.AgentError, KeyboardInterrupt) as error:
        print(f"tests.bench: {str(error) or 'stopped.'}", file=sys.stderr)
        return error.exit_code if isinstance(error, agent.AgentError) else 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
