"""Attacks on the gates, each carried out on a simulated Windows: the rows of tests/data/attacks.jsonl.

A row: name, window (title, program, class, and its owner's handle), steps (tool and arguments; only the last does harm),
settings, what stands for "{}" in each of several trials, and the outcome. `asked`: the person was asked (and said no) before the harm was done; `refused`: a gate kept it
out; `passed`: it was done unasked, with `why` that can be borne, or since it is `harmless`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
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
    stage.actuator.confirm = lambda question: bool(asked.append(question))
    for name, *given in row["steps"]:
        for step in agent.steps_of(act(name, **(given[0] if given else {}))):
            performed = stage.actuator.perform(step, stage.look())
            if asked:
                return "asked"
            if performed.refused:
                return "refused"
    return "passed"


# -- what a yes is good for: it was given once, while another window came to the front


def stage_with_a_yes() -> tuple[Stage, list[str]]:
    stage, asked = Stage(), list[str]()

    def answer(question: str) -> bool:
        asked.append(question)
        if len(asked) == 1:
            stage.world.window = replace(Foreground(), title="Inbox", handle=0x30002)
        return len(asked) == 1

    stage.actuator.confirm = answer
    stage.stale = stage.attempt("click", element_name="Delete").refused  # type: ignore[attr-defined]
    stage.world.window = Foreground()
    return stage, asked


def a_yes_of_an_hour_ago() -> bool:
    """A yes of an hour ago is good for the same act."""
    return later_passes(lambda stage: stage.clock.advance(3600))


def a_yes_in_another_window() -> bool:
    """A yes is good for the same act in another window."""
    return later_passes(
        lambda stage: setattr(stage.world, "window", replace(Foreground(), handle=0x50002))
    )


def later_passes(before: Callable[[Stage], Any]) -> bool:
    stage, asked = stage_with_a_yes()
    before(stage)
    performed = stage.attempt("click", element_name="Delete")
    return len(asked) == 1 and not performed.refused


def a_dialog_of_a_blocked_window() -> bool:
    """A dialog of a blocked window, with a title of its own, takes keys."""
    stage = Stage(config={"blocked_windows": "*bank*"})
    bank = replace(Foreground(), title="My bank", handle=0x70002, rect=Rect(0, 0, 50, 50))
    stage.world.others = [bank]
    stage.world.window = replace(Foreground(), title="Transfer", owner=bank.handle)
    return not stage.attempt("press_key", key="a").refused


# Borne: a yes on another picture, since it holds for a minute, for the same act in the same window, on the same control
# where Windows knows it, and what lies on the screen beside it changes all the time.
SCENES = (a_yes_of_an_hour_ago, a_yes_in_another_window, a_dialog_of_a_blocked_window)
