"""The program's own time between a reply and the next request, from the turns.jsonl of runs.

    python tests/bench/turns.py dumps/run_0001/turns.jsonl [...]

Prints median, 95th percentile and longest; the same for settling, where the journal says it.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any


def own_times(records: list[dict[str, Any]]) -> list[float]:
    """Seconds from each executor's reply to the next request; planner turns do nothing on the desktop."""
    replies = [record for record in records if record["kind"] == "reply"]
    pairs = zip(replies, replies[1:], strict=False)
    return [
        b["time"] - b["seconds"] - a["time"]
        for a, b in pairs
        if a["role"] not in ("planner", "leader", "verifier")
    ]


def figures(name: str, values: list[float]) -> str:
    if not values:
        return f"{name}: none"
    ranked = sorted(values)
    high = ranked[min(len(ranked) - 1, len(ranked) * 95 // 100)]
    return f"{name}: median {statistics.median(ranked):.3f}, p95 {high:.3f}, longest {ranked[-1]:.3f} ({len(ranked)})"


if __name__ == "__main__":
    own: list[float] = []
    settled: list[float] = []
    for path in sys.argv[1:]:
        records = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        own += own_times(records)
        settled += [
            record["settle_ms"] / 1000 for record in records if record.get("settle_ms") is not None
        ]
    print(figures("own seconds a turn", own))
    print(figures("settling seconds", settled))
