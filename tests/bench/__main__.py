"""Measures the person's own model on drawn pictures, and sets results side by side.

    python -m tests.bench quick             in 4 minutes at 5 s a request; without quick it is surer
    python -m tests.bench --grammar NAME    asked in that grammar, such as qwen3-vl
    python -m tests.bench compare 1 2       results side by side, by number, folder or bench.json

No desktop is touched: each item is a run of one turn on a drawn screen, so that the model is asked as in any run. Behind
these words stand agent.py's own options: --endpoint, --model, --set, --config. What it leaves is in dumps/bench_0001 and
so on: bench.json, and bench_settings.json with the settings that follow, which --config takes. Ctrl+C or a crash loses nothing: started again with the same words it goes on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import agent
from tests.bench import asking, figures, keeping

TOLD_EVERY = 10  # items
SETTINGS = ("calls", "thinking", "lmstudio_temperature")  # with which something else is measured


def plan_of(words: Sequence[str]) -> asking.Plan:
    """What these words ask for; raises ConfigError for one that it does not know."""
    unknown = [word for word in words if word != "quick"]
    if unknown:
        raise agent.ConfigError(f"A bench takes quick, or compare, not {unknown[0][:60]!r}.")
    return asking.QUICK if words else asking.WHOLE


def measure(
    config: agent.Config,
    plan: asking.Plan,
    server: Any,
    clock: agent.Clock,
    say: Callable[[str], None],
) -> int:
    """Measures the model, tells its figures and keeps them; raises ModelError and Stopped."""
    info = server.discover()
    bench = asking.Bench(config, info, server, clock)
    about = {
        "model": info.name,
        "build": info.build,
        "where": server.where,
        "size": f"{bench.whole.width}x{bench.whole.height}",
        "grammar": bench.grammar,
        "requests": list(plan),
        "version": agent.__version__,
        **{name: getattr(config, name) for name in SETTINGS},
    }
    folder = keeping.folder_for(Path(config.dump_dir), about)
    items = asking.items_of(plan, asking.SEED, bench.whole, bench.grammars)
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

    lines: list[asking.Line] = []
    try:
        for line in keeping.measured(bench.measure, items, folder, progress):
            lines.append(line)
    finally:
        result = figures.result_of(about, lines)
        advice = figures.advice_of(result, info.context_length)
        say("\n".join(f"{name:<44} {value}" for name, value in result.rows()))
        say("\n".join(f"advice: {item.text}" for item in advice))
        if len(lines) < len(items):
            say(f"{len(lines)} of {len(items)} steps; start it again to go on.")
    keeping.leave(folder, result, advice)
    say(f"Written: {folder / 'bench.json'}")
    say(f"Settings that follow, for --config: {folder / 'bench_settings.json'}")
    return 0


def run(arguments: list[str]) -> int:
    """Measures or compares; raises AgentError with one sentence for what cannot be done."""
    words = list(takewhile(lambda word: not word.startswith("-"), arguments))
    options = agent.command_line().parse_args(arguments[len(words) :])
    options.profile = options.profile or next(iter(agent.PROFILES))
    config = agent.read_config(options, os.environ)
    if words[:1] == ["compare"]:
        root = Path(config.dump_dir)
        print("\n".join(keeping.compared([keeping.read_result(root, name) for name in words[1:]])))
        return 0
    plan, stop = plan_of(words), agent.Stop()
    clock, key = agent.SystemClock(stop), os.environ.get("LMSTUDIO_API_KEY", "")
    server = agent.ModelServer(config, clock, stop, key, print)
    return measure(config, plan, server, clock, print)


def main(arguments: list[str]) -> int:
    try:
        return run(arguments)
    except (agent.AgentError, KeyboardInterrupt) as error:
        print(f"tests.bench: {str(error) or 'stopped.'}", file=sys.stderr)
        return error.exit_code if isinstance(error, agent.AgentError) else 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
