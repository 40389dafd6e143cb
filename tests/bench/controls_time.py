"""What the check of controls costs a turn on the Notepad task on the virtual desktop, both sides in one program.

    python3 tests/bench/controls_time.py [ROUNDS]

Runs the task in turn with controls=off and controls=check, and prints the program's own time between an executor's
reply and its next request: the median of each, and the median of what check takes more at the same step.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "wine"))

from pixel_model import PixelModel
from rig import run_notepad, windows_path

WANTED_MS = 20
SIDES = ("off", "check")


def own_seconds(controls: str) -> list[float]:
    """The program's own time of each step of one run; raises AssertionError if it did not complete."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "settings.json"
        settings.write_text(json.dumps({"controls": controls}), encoding="utf-8")
        run = run_notepad(PixelModel(), "--config", windows_path(settings))
    assert run.completed, str(run)
    return run.model.client_seconds()


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    more: list[float] = []
    for _ in range(rounds):
        steps = {side: own_seconds(side) for side in SIDES}
        for side in SIDES:
            seconds[side] += steps[side]
        if len(steps["off"]) == len(steps["check"]):  # the same steps, so that each has its match
            pairs = zip(steps["off"], steps["check"], strict=True)
            more += [check - off for off, check in pairs]
    medians = {side: 1000 * statistics.median(seconds[side]) for side in SIDES}
    for side in SIDES:
        print(f"controls={side}: median {medians[side]:.0f} ms of {len(seconds[side])} turns")
    extra = medians["check"] - medians["off"]
    same = f"{1000 * statistics.median(more):.0f} ms of {len(more)}" if more else "not to be had"
    print(
        f"check takes {extra:.0f} ms more in the median (wanted: at most {WANTED_MS} ms);"
        f" at the same step, median {same}"
    )
    return 0 if extra <= WANTED_MS else 1


if __name__ == "__main__":
    sys.exit(main())
