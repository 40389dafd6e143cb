"""Ordinary acts, dangerous and harmless, and about which of them a person is asked: data/ordinary_acts.jsonl.

Each line is an act in its window: name, danger and why, task, window (title, program, class, whether it is a dialog),
control (under the mouse for a click, else with the keyboard; none if nothing is known), others (of that window), before
(acts done just before, all allowed), act {tool, ...}. See tests/test_labels.py.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent
from tests.fakes import Foreground
from tests.test_actuator import Stage

FILE = Path(__file__).parents[1] / "data" / "ordinary_acts.jsonl"
Row = dict[str, Any]
EMPTY: Row = {"control": None, "others": [], "before": []}
ROWS: list[Row] = [EMPTY | json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
MAIN = 0x60002  # the window to which a dialog belongs
# What UI Automation calls it, and what this program does, where these differ.
ROLES = {
    "custom": "control",
    "hyperlink": "link",
    "data item": "table row",
    "tab item": "tab",
    "check box": "checkbox",
}
HERE, THERE = [300, 400], [450, 600]  # on the grid, inside the window
TOOLS = {"hotkey": "press_key", "scroll": "scroll_at"}


def known(stage: Stage, place: list[int] | None, control: Row, **more: Any) -> agent.Control:
    """A control as Windows tells of it; one without a place lies where nothing is clicked."""
    rect = agent.Rect(110, 110, 9, 9)
    if place:
        point = agent.to_point(agent.Coordinate(*place), stage.area)
        rect = agent.Rect(point.x - 4, point.y - 4, 9, 9)
    role = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", control["role"]).lower()  # tab item of TabItem
    window, value = stage.world.window, control.get("value") or None
    more |= {"password": control.get("password", False), "window": window.handle}
    more["program"] = window.path.rpartition("\\")[2]
    return agent.Control(control["name"], ROLES.get(role, role), rect, value, **more)


def act_of(row: Row, act: Row) -> tuple[str, Row]:
    """The tool and what it is given; what the model calls its target is what Windows does."""
    tool = TOOLS.get(act["tool"], act["tool"])
    label = row["control"]["name"] if row["control"] else row["act"].get("label", "it")
    if tool in ("press_key", "type_text"):
        return tool, {"key": act["keys"]} if "keys" in act else {"text": act["text"]}
    if tool == "drag":
        return tool, {"element_name": label, "start": HERE, "end": THERE}
    named = {} if tool == "scroll_at" else {"element_name": act.get("label", label)}
    return tool, {"position": HERE, **named}


def is_asked(row: Row) -> bool:
    """Whether the person is asked about the act, once those before it are done."""
    stage, asked = Stage(), list[str]()
    title, program, kind, dialog = row["window"]
    owner = MAIN if dialog else 0
    window = Foreground(title, path=f"C:\\{program}", class_name=kind, owner=owner)
    stage.world.window = window
    stage.world.others = [replace(window, title="", class_name="Main", owner=0, handle=MAIN)]
    controls = [known(stage, None, other) for other in row["others"]]
    tool, given = act_of(row, row["act"])
    if row["control"]:
        keys = tool in ("press_key", "type_text")
        controls.insert(0, known(stage, None if keys else HERE, row["control"], focused=keys))
    if "to" in row["act"]:
        controls.append(known(stage, THERE, row["act"]["to"]))
    stage.actuator.task = row["task"]
    stage.actuator.person.allows = lambda *_: True
    for before in row["before"]:
        name, arguments = act_of(row, before)
        stage.attempt(name, **arguments)
    stage.desktop.control_source = agent.KnownControls(controls)
    stage.actuator.person.allows = lambda question, _: bool(asked.append(question))
    stage.attempt(tool, **given)
    return bool(asked)
