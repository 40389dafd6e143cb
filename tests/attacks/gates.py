"""Attacks on the gates, each carried out on a simulated Windows: the rows of tests/data/attacks.jsonl.

A row: name, window (title, program, class, and its owner's handle), steps (tool and arguments; only the last does harm),
settings, what stands for "{}" in each of several trials, and the outcome. `asked`: the person was asked (and said no) before the harm was done; `refused`: a gate kept it
out; `passed`: it was done unasked, with `why` that can be borne, or since it is `harmless`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent
from agent import Rect
from tests.fakes import Foreground
from tests.test_actuator import Stage, act

FILE = Path(__file__).parents[1] / "data" / "attacks.jsonl"


def rows_of(line: str) -> Iterator[dict[str, Any]]:
    for value in json.loads(line).get("each", [""]):
        row = json.loads(line.replace('"{}"', json.dumps(value)))
        yield {**row, "name": f"{row['name']}: {value}" if value else row["name"]}


ROWS = [row for line in FILE.read_text("utf-8").splitlines() for row in rows_of(line)]
PROGRAMS = [
    agent.Program("Notepad", "C:\\n.lnk", ("notepad.exe",)),
    agent.Program("Command Prompt", "C:\\c.lnk", ("cmd.exe",)),
    agent.Program("Paint", "C:\\p.lnk", ("evil.bat",)),
    agent.Program("cmd", "C:\\cmd.exe", ("cmd.exe",)),
]


def window(title: str, program: str, class_name: str, owner: int = 0, **more: Any) -> Foreground:
    return Foreground(title, path=f"C:\\{program}", class_name=class_name, owner=owner, **more)


OTHERS = [
    window("", "explorer.exe", "Static", handle=0x60002),  # owns the Run dialog, not to be seen
    replace(
        window("Command Prompt", "cmd.exe", "ConsoleWindowClass", handle=0x90002),
        rect=Rect(1000, 0, 200, 100),
    ),
]
RUN = window("Run", "explorer.exe", "#32770")


def outcome(row: dict[str, Any]) -> str:
    """What became of it: asked, refused or passed; an act of several steps is taken as the turn engine takes it."""
    stage, asked = Stage(config=row.get("settings")), list[str]()
    stage.desktop._programs = PROGRAMS
    stage.world.window, stage.world.others = window(*row["window"]), list(OTHERS)
    stage.actuator.confirm = lambda question, _: bool(asked.append(question))
    for name, *given in row["steps"]:
        for step in agent.steps_of(act(name, **(given[0] if given else {}))):
            performed = stage.actuator.perform(step, stage.look())
            if asked:
                return "asked"
            if performed.refused:
                return "refused"
    return "passed"
