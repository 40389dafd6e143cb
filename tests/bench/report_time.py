"""How long `--report RUN FILE` takes for a run of many turns, each with a picture of its own.

python3 -m tests.bench.report_time [TURNS]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import agent

SIZE = (1536, 864)


def write_run(folder: Path, turns: int) -> None:
    """A journal with that many looks, clicks and replies, and the pictures that it names."""
    (folder / "screenshots").mkdir(parents=True)
    png = agent.rgb_to_png(bytes(range(256)) * (SIZE[0] * SIZE[1] * 3 // 256), *SIZE)
    lines = [{"kind": "run", "time": 1.0, "task": "Measure", "profile": "planner"}]
    for turn in range(1, turns + 1):
        about = {"turn": turn, "time": 1.0 + turn}
        name = f"screenshots/turn_{turn:04d}.png"
        (folder / name).write_bytes(png)
        message = {"role": "assistant", "content": "I click. " * 40}
        lines += [
            {"kind": "look", "screenshot": name, "width": SIZE[0], "height": SIZE[1], **about},
            {"kind": "reply", "role": "executor", "message": message, "seconds": 2.0, **about},
            {"kind": "intent", "tool": "click", "args": {"position": {"x": 5, "y": 5}}, **about},
            {"kind": "result", "result": "Clicked", "changed": True, **about},
        ]
    (folder / "turns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def main(turns: int) -> None:
    """Prints the seconds and the size of the file."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run_0001")
        write_run(folder, turns)
        begun = time.perf_counter()
        agent.main(["--report", str(folder), str(folder / "all.html")])
        seconds = time.perf_counter() - begun
        size = (folder / "all.html").stat().st_size
        print(f"{turns} turns: {seconds:.1f} s, {size >> 20} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
