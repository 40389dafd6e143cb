"""Measures the person's own model on drawn pictures, and sets results side by side.

    python -m tests.bench quick             in 4 minutes at 5 s a request; without quick it is surer
    python -m tests.bench --grammar NAME    asked in that grammar, such as qwen3-vl
    python -m tests.bench planner chat      the demo's tasks, too, with each of these profiles
    python -m tests.bench native 4          the same 4 times, asked in the grammar of the model's name
    python -m tests.bench compare 1 2       results side by side, by number, folder or bench.json

No desktop is touched. Behind these words stand agent.py's own options: --endpoint, --model, --set, --config, --demo. What
it leaves is in dumps/bench_0001 and so on: bench.html for people, bench.json for programs, and bench_settings.json with
the settings that follow, which --config takes. Ctrl+C or a crash loses nothing: started again with the same words it goes
on. Where the places of a model lie beside the grid, that is kept in dumps/calibration.json, as --check does.
"""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path

import agent
from tests.bench.leaflet import compare_benches, read_result
from tests.bench.measuring import measure


def run(arguments: list[str]) -> int:
    """Measures or compares; raises AgentError with one sentence for what cannot be done."""
    words = list(takewhile(lambda word: not word.startswith("-"), arguments))
    options = agent.read_options(arguments[len(words) :])
    options.profile = options.profile or next(iter(agent.PROFILES))
    if words[:1] == ["compare"]:
        root = Path(agent.read_config(options, {}).dump_dir)
        results = [read_result(root, name) for name in words[1:]]
        agent.say("\n".join(compare_benches(results)))
        return 0
    stop = agent.Stop()
    with agent.stop_on_signals(stop):
        return measure(options, words, stop, agent.SystemClock(stop))


def main(arguments: list[str]) -> int:
    try:
        return run(arguments)
    except (agent.AgentError, KeyboardInterrupt) as error:
        print(f"tests.bench: {str(error) or 'stopped.'}", file=sys.stderr)
        return error.exit_code if isinstance(error, agent.AgentError) else 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
