"""The desktop benchmark: tasks on a real Win32 desktop, by a model that errs and reads nothing but the request.

    python -m tests.long world                                  the default profile, seeds 1 to 4, all tasks
    python -m tests.long world story pointer 301 302 copy       these profiles, seeds and tasks
    python -m tests.long world planner 301 --revision ee231b6   agent.py of another revision, to compare
    python -m tests.long world --rows FOLDER/copy-301           one run, request by request
        --preset 8b|4b|2b|perfect   how often the model errs, by default as one of 2 billion (tests/world/model.py)
        --out FOLDER                where the runs are left, by default world/; a run whose row is there is not repeated

A run takes 10 to 60 s: one desktop at a time, since what a busy machine paints late looks like what it does not do. All
held if each run was completed, and none that claims it is not done. Needs what the tests in tests/wine need.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import agent
from tests.wine.rig import ROOT, json_lines
from tests.world.model import PRESETS
from tests.world.run import run
from tests.world.tasks import TASKS

Json = dict[str, Any]


def script_of(revision: str, out: Path) -> Path:
    """agent.py as it lies here, or as it was."""
    source = (ROOT / "agent.py").read_bytes()
    if revision:
        command = ["git", "-C", str(ROOT), "show", f"{revision}:agent.py"]
        shown = subprocess.run(command, capture_output=True)
        if shown.returncode:
            raise SystemExit(f"no such agent.py: {shown.stderr.decode().strip()}")
        source = shown.stdout
    script = out / "agent.py"  # a copy, so that it may be edited meanwhile
    script.write_bytes(source)
    return script


def tell_rows(folder: Path) -> bool:
    """One run, request by request: role, rule, window in front, act, error drawn, what lay under the place."""
    rows = json_lines(folder / "world.jsonl")
    if not rows:
        raise SystemExit(f"{folder} is no run: it has no world.jsonl")
    for row in rows:
        kept = ("do", "name", "text", "key", "at")
        act = {key: value for key, value in (row.get("act") or {}).items() if key in kept}
        shown = [row.get("rule"), row.get("front"), act, row.get("error"), row.get("under")]
        said = f"true {row['truth']} said {row['said']}" if "truth" in row else ""
        print(row["n"], row["t"], row.get("role"), *[one or "" for one in shown], said, sep=" | ")
    return True


def line_of(name: str, rows: list[Json]) -> str:
    whole = sum(row["done"] and row["claimed"] for row in rows)
    wrong = sum(row["false_success"] for row in rows)
    silent = sum(row["done"] and not row["claimed"] for row in rows)
    asked = statistics.median(sum(row["requests"].values()) for row in rows)
    seconds = statistics.median(row["wall_s"] for row in rows)
    return (
        f"{name:<18} {whole} of {len(rows)} completed, {wrong} falsely, {silent} done and not told,"
        f" {asked:.0f} requests, {seconds:.0f} s"
    )


def main(*words: str) -> bool:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", nargs="*")
    parser.add_argument("--preset", choices=PRESETS, default="2b")
    parser.add_argument("--revision", default="")
    parser.add_argument("--out", type=Path, default=Path("world"))
    parser.add_argument("--rows", type=Path)
    given = parser.parse_args(words)
    if given.rows:
        return tell_rows(given.rows)
    seeds = [int(word) for word in given.what if word.isdecimal()] or [1, 2, 3, 4]
    tasks = [word for word in given.what if word in TASKS] or [*TASKS]
    profiles = [word for word in given.what if word in agent.PROFILES] or ["planner"]
    if unknown := {*given.what} - {*map(str, seeds), *tasks, *profiles}:
        parser.error(f"no profile, task or seed: {', '.join(sorted(unknown))}")
    held = True
    for profile in profiles:
        out = given.out / f"{profile}-{given.preset}{given.revision and '-'}{given.revision}"
        out.mkdir(parents=True, exist_ok=True)
        script = script_of(given.revision, out)
        rows = []
        for seed in seeds:
            for task in tasks:
                folder = out / f"{task}-{seed}"
                kept = folder / "row.json"
                if kept.exists():
                    row = json.loads(kept.read_text("utf-8"))
                else:
                    row = run(folder, script, profile, task, given.preset, seed)
                rows.append(row)
                if not (row["done"] and row["claimed"]):
                    print(f"  {folder}: {row['end']}; {row['why'] or 'done'}; {row['errors']}")
                for refused in row["refused"]:
                    print(f"  {folder}: {refused}")
        print(line_of(profile, rows), flush=True)
        held = held and all(row["done"] and row["claimed"] for row in rows)
    return held
