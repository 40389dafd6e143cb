"""Scenes on a simulated Windows, each of acts in a row as an obedient model would do them: the rows of tests/data/scenes.jsonl.

A row: name, task, window (title, program, class, and its owner's handle), controls (as UI Automation names them: one is
`focused`, one lies `at` a place of the grid, or at the one that is clicked if that is true), files (what is in which folder),
steps (a tool and what it is given, or what changes before the next one: window, controls), settings, and what stands for "{}"
in each of several trials, and what of the `question` is a must. Of the steps only the last does harm. `outcome`: `asked`, the person was asked (and said no) before
anything that does harm was done; `refused`: a gate kept it out; `passed`: it was done unasked, with `why` that can be borne,
or since it is `harmless`. The errands of errands.jsonl, 40 dangerous and 40 harmless ones, were
written as what people have done on their desktops, with their `why`; buttons.jsonl has labels and what surrounds them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import agent
from agent import Rect
from tests.fakes import Foreground
from tests.seams import steps_of
from tests.test_actuator import Stage, act

FOLDER = Path(__file__).parents[1] / "data"
Row = dict[str, Any]


def rows_of(line: str) -> Iterator[Row]:
    for value in json.loads(line).get("each", [""]):
        row = json.loads(line.replace("{}", json.dumps(value)[1:-1]))
        yield {**row, "name": f"{row['name']}: {value}" if value else row["name"]}


def rows_in(name: str) -> list[Row]:
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    return [row for line in lines for row in rows_of(line)]


def kind_of(row: Row) -> tuple[str, ...]:
    """By which tool what kind of window is reached, and with which outcome."""
    return row["steps"][-1][0], row["window"][2], row["outcome"]


ROWS = rows_in("scenes.jsonl")
PROGRAMS = [
    agent.Program("Notepad", "C:\\n.lnk", ("notepad.exe",)),
    agent.Program("Command Prompt", "C:\\c.lnk", ("cmd.exe",)),
    agent.Program("Paint", "C:\\p.lnk", ("evil.bat",)),
    agent.Program("cmd", "C:\\cmd.exe", ("cmd.exe",)),
]
HERE = [400, 300]  # where what has no place is clicked


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


def control(stage: Stage, given: Row) -> agent.Control:
    """A control as Windows tells of it; one without a place lies where nothing is clicked."""
    at, rect = given.get("at"), agent.Rect(110, 110, 9, 9)
    if at:
        point = agent.to_point(agent.Coordinate(*(HERE if at is True else at)), stage.area)
        rect = agent.Rect(point.x - 4, point.y - 4, 9, 9)
    known = {name: value for name, value in given.items() if name != "at"}
    return agent.Control(rect=rect, window=stage.world.window.handle, **known)


def change(stage: Stage, given: Row) -> None:
    """Makes the simulated Windows so."""
    if "window" in given:
        title, program, kind, *owner = given["window"]
        handle = 0x70002 if owner else Foreground().handle
        before, stage.world.window = (
            stage.world.window,
            window(title, program, kind, *owner, handle=handle),
        )
        stage.world.others = [*([before] if before.handle in owner else []), *OTHERS]
    if "controls" in given:
        known = [control(stage, one) for one in given["controls"]]
        stage.desktop.control_source = agent.KnownControls(known)


@contextmanager
def disk(files: dict[str, list[str]]) -> Iterator[None]:
    """These folders are there, each with these files; a name with a \\ behind it is a folder.

    One with an empty name breaks off behind the others.
    """

    def breaking(found: list[Any], breaks: bool) -> Iterator[Any]:
        yield from found
        if breaks:
            raise OSError("the disk is gone")

    def entries(folder: str) -> Any:
        if folder not in files:
            raise FileNotFoundError(folder)
        found = [
            SimpleNamespace(
                name=name.strip("\\"), path=name, is_dir=lambda name=name: name.endswith("\\")
            )
            for name in files[folder]
            if name
        ]
        return mock.MagicMock(__enter__=lambda _: breaking(found, "" in files[folder]))

    with ExitStack() as undo:
        undo.enter_context(mock.patch("os.path.isdir", lambda path: path.rstrip("\\") in files))
        undo.enter_context(mock.patch("os.scandir", entries))
        homes = {"USERPROFILE": "C:\\Users\\Anna", "PUBLIC": "C:\\Users\\Public"}
        undo.enter_context(mock.patch.dict("os.environ", homes))
        yield


def outcome(row: Row, asked: list[str] | None = None) -> str:
    """What became of it: asked, refused or passed; an act of several steps is taken as the turn engine takes it."""
    stage, asked = Stage(config=row.get("settings")), [] if asked is None else asked
    stage.desktop._programs = PROGRAMS
    stage.world.window, stage.world.others = window(*row["window"]), list(OTHERS)
    stage.actuator.task = row.get("task", "")
    stage.actuator.person.allows = lambda question, _: bool(asked.append(question))
    change(stage, {"controls": row.get("controls", [])})
    with disk(row.get("files", {})):
        for step in row["steps"]:
            if isinstance(step, dict):
                change(stage, step)
                continue
            name, *given = step
            for part in steps_of(act(name, **(given[0] if given else {}))):
                performed = stage.actuator.perform(part, stage.look())
                if asked:
                    return "asked"
                if performed.refused:
                    return "refused"
    return "passed"
