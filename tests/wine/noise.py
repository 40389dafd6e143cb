"""The Notepad task while a share of the model's replies is spoilt in ten ways: how many seeded runs complete.

    python3 tests/wine/noise.py [RUNS [FIRST_SEED [SHARE]]]      20 runs, 30 %

Ends with exit code 1 when fewer than 19 of 20 complete, or when any act was carried out that the model did not name.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from pixel_model import NOISE, PixelModel, Task
from rig import Run, run_notepad

TASK = Task('Grüße, Åse Øß! 5 € @ "home" & 100 %', r"C:\greetings for Åse.txt")
# Ways that leave the call whole: the model named it, so it may be carried out.
WHOLE = {"tool_call_tag", "fenced_json", "tool_request", "object_arguments"}
ACTS = {
    "click": "click",
    "type_text": "type",
    "press_key": "key",
}  # the program's tool: the model's action


def named_acts(run: Run) -> list[tuple[str, Any]]:
    """What the model asked for, in order: each act as (tool, what it is about)."""
    named: list[tuple[str, Any]] = []
    for exchange in run.model.exchanges:
        if exchange.kind != "executor" or (exchange.fault and exchange.fault not in WHOLE):
            continue
        step = json.loads(exchange.step)
        action = "key" if step["action"] == "wait" else step["action"]
        about = {"click": step["position"], "type": step["text"], "key": step["key"]}.get(action)
        if about is not None:
            named.append((action, about))
    return named


def done_acts(run: Run) -> list[tuple[str, Any]]:
    """What the program set out to do, from its journal."""
    done: list[tuple[str, Any]] = []
    for entry in run.journal:
        if entry["kind"] == "intent" and entry["tool"] != "recover":
            args = entry["args"]
            place = args.get("position")
            about = [place["x"], place["y"]] if place else args.get("text", args.get("key"))
            done.append((ACTS.get(entry["tool"], entry["tool"]), about))
    return done


def unnamed_acts(run: Run) -> list[tuple[str, Any]]:
    """Acts that the model did not name at that point: those that are not in its words' order."""
    named = iter(named_acts(run))
    return [act for act in done_acts(run) if act not in named]


def main() -> int:
    given = [*sys.argv[1:], *("20", "1", "0.3")[len(sys.argv) - 1 :]]
    runs, first, share = int(given[0]), int(given[1]), float(given[2])
    completed, wrong, ways = 0, 0, Counter[str]()
    for seed in range(first, first + runs):
        run = run_notepad(PixelModel(TASK, noise=(seed, share)), timeout=240)
        unnamed = unnamed_acts(run)
        completed, wrong = completed + run.completed, wrong + len(unnamed)
        spoilt = [exchange.fault for exchange in run.model.exchanges if exchange.fault]
        ways.update(spoilt)
        print(
            f"seed {seed}: {'completed' if run.completed else 'NOT COMPLETED'}, {len(done_acts(run))} acts, "
            f"{len(spoilt)} of {sum(e.kind == 'executor' for e in run.model.exchanges)} replies spoilt, "
            f"acts not named by the model: {unnamed or 'none'}",
            flush=True,
        )
        if not run.completed:
            print(
                run,
                *(
                    f"{entry['turn']}: {entry['result']}"
                    for entry in run.journal
                    if entry["kind"] == "result"
                ),
                sep="\n",
                file=sys.stderr,
            )
    print(
        f"{completed} of {runs} completed; {sum(ways.values())} replies spoilt in {len(ways)} of {len(NOISE)} ways; "
        f"{wrong} acts not named by the model"
    )
    return 0 if completed >= 0.95 * runs and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
