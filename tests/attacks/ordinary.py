"""Ordinary acts, dangerous and harmless, and about which of them a person is asked.

    python -m tests.attacks.ordinary [FILE.jsonl]

Each line is an act in its window: name, danger, why, task, window {title, program, class, dialog}, control (under the
mouse for a click, else with the keyboard; null if nothing is known), others (of that window), before (acts done just
before, all allowed), act {tool, ...}. See tests/test_labels.py.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent
from tests.fakes import Foreground
from tests.test_actuator import Stage

FILE = Path(__file__).parents[1] / "data" / "ordinary_acts.jsonl"
Row = dict[str, Any]
MAIN = 0x60002  # the window to which a dialog belongs
# What UI Automation calls it, and what this program does, where these differ.
ROLES = {"hyperlink": "link", "data item": "table row", "tab item": "tab", "check box": "checkbox"}
HERE, THERE = [300, 400], [450, 600]  # on the grid, inside the window


def role(named: str) -> str:
    """Tab item of TabItem, and so on."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", named).lower()
    return ROLES.get(words, words)


def known(stage: Stage, place: list[int] | None, control: Row, **more: Any) -> agent.Control:
    """A control as Windows tells of it; one without a place lies where nothing is clicked."""
    rect = agent.Rect(110, 110, 9, 9)
    if place:
        point = agent.to_point(agent.Coordinate(*place), stage.area)
        rect = agent.Rect(point.x - 4, point.y - 4, 9, 9)
    window = stage.world.window
    assert window
    return agent.Control(
        control["name"],
        role(control["role"]),
        rect,
        control.get("value") or None,
        password=control.get("password", False),
        window=window.handle,
        program=Path(window.path.replace("\\", "/")).name,
        **more,
    )


def arguments(row: Row, act: Row) -> tuple[str, Row]:
    """The tool and what it is given; what the model calls its target is what Windows does."""
    given = {name: value for name, value in act.items() if name not in ("tool", "to")}
    tool = {"hotkey": "press_key", "scroll": "scroll_at"}.get(act["tool"], act["tool"])
    label = row["control"]["name"] if row["control"] else row["act"].get("label", "it")
    if tool in ("press_key", "type_text"):
        return tool, {"key": given["keys"]} if "keys" in given else {"text": given["text"]}
    if tool == "drag":
        return tool, {"element_name": label, "start": HERE, "end": THERE}
    if tool == "scroll_at":
        return tool, {"position": HERE}
    return tool, {"element_name": given.get("label", label), "position": HERE}


def is_asked(row: Row) -> bool:
    """Whether the person is asked about the act, once those before it are done."""
    stage = Stage()
    seen = row["window"]
    stage.world.window = Foreground(
        seen["title"],
        path=f"C:\\{seen['program']}",
        class_name=seen["class"],
        owner=MAIN if seen["dialog"] else 0,
    )
    main = replace(stage.world.window, title="", class_name="Main", owner=0, handle=MAIN)
    stage.world.others = [main]
    controls = [known(stage, None, other) for other in row["others"]]
    tool, given = arguments(row, row["act"])
    if row["control"]:
        keys = tool in ("press_key", "type_text")
        controls.insert(0, known(stage, None if keys else HERE, row["control"], focused=keys))
    if "to" in row["act"]:
        controls.append(known(stage, THERE, row["act"]["to"]))
    stage.actuator.task = row["task"]
    stage.actuator.confirm = lambda question: True
    for before in row["before"]:
        stage.attempt(*arguments(row, before)[:1], **arguments(row, before)[1])
    stage.desktop.control_source = agent.KnownControls(controls)
    asked: list[str] = []
    stage.actuator.confirm = lambda question: bool(asked.append(question))
    stage.attempt(tool, **given)
    return bool(asked)


def read(file: Path = FILE) -> list[Row]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def wrong(rows: list[Row]) -> list[Row]:
    """The dangers about which nobody is asked, and the harmless acts about which somebody is."""
    return [row for row in rows if is_asked(row) != row["danger"]]


def main() -> int:
    rows = read(*map(Path, sys.argv[1:]))
    missed = wrong(rows)
    for row in missed:
        print(f"{'not asked' if row['danger'] else 'asked'}: {row['name']}: {row['why']}")
    for danger, kind in ((True, "dangers"), (False, "harmless acts")):
        of_it = [row for row in rows if row["danger"] == danger]
        print(f"{sum((row in missed) != danger for row in of_it)} of {len(of_it)} {kind} asked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
