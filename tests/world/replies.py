"""How a model says a step in whatever tools a request offers: filled in, in a grammar, or broken."""

from __future__ import annotations

import json
import random
import re
from typing import Any

Json = dict[str, Any]

WHY = "This is what the task needs next, as the screenshot shows."
ROLE = {
    "click": r"^(?!.*(double|right|middle|triple)).*click",
    "double": r"double",
    "right": r"right",
    "drag": r"drag",
    "type": r"type",
    "key": r"(press|key)",
    "scroll_down": r"scroll.*down|scroll(?!.*up)",
    "scroll_up": r"scroll.*up",
    "status": r"(goal_status|report_progress|report_goal)",
    "complete": r"(mission_complete|report_completion|task_complete|finish|^done$)",
    "plan": r"(update_execution_plan|spawn_operator|update_plan)",
    "archive": r"(archive|compress)",
    "observe": r"(observe|screenshot)",
    "move": r"move",
    "open": r"open_app",
    "focus": r"focus_window",
    "wait": r"^wait$",
}
EVIDENCE = (
    "The screenshot shows the requested result in full: the document holds the text that was asked for and "
    "its title bar carries the file name, so every part of the task has been verified on screen."
)


def pick(tools, role):
    for t in tools:
        if re.search(ROLE[role], t["function"]["name"]):
            return t["function"]
    return None


def fits(low, step):
    """Whether a model would fill in an argument that it may leave out."""
    wants = {
        "at": ("x", "x1", "y", "y1", "position", "coordinate", "point", "box", "bbox", "start"),
        "to": ("x2", "y2", "end"),
        "text": ("text",),
        "key": ("key", "keys"),
        "status": ("status", "completion_status"),
        "turns": ("archived_turns",),
    }
    return not any(low in names and have not in step for have, names in wants.items())


def fill(tool: Json, step: Json) -> Json:
    """The arguments of a call, with the element's name where it belongs and short reasons."""
    parameters = tool.get("parameters", {})
    properties = parameters.get("properties", {})
    required = parameters.get("required", list(properties))
    out = {}
    for name, spec in properties.items():
        low = name.lower()
        if name in required or fits(low, step):
            value = _argument(low, spec.get("type"), step)
            if value is not None or name in required:
                out[name] = (
                    _PLAIN.get(spec.get("type"), step.get("why", EVIDENCE))
                    if value is None
                    else value
                )
        if low in ("element_name", "label", "element"):
            if name in required or "at" in step:
                out[name] = step.get("name") or "the screen"
        elif name in out and low in ("reasoning", "justification", "rationale"):
            out[name] = WHY
        elif name in out and ("identifier" in low or low == "objective_id"):
            out[name] = "the task"
        elif name in ("clear", "submit", "then", "done_when", "title") and name in step:
            out[name] = step[name]
        elif name == "name" and "app" in step:
            out[name] = step["app"]
    return out


_PLAIN: Json = {"array": [], "number": 1, "integer": 1, "boolean": True}
_PLACES = ("position", "coordinate", "point", "box", "bbox", "start")


def _argument(low: str, kind: str | None, step: Json) -> Any:
    at = step.get("at")
    if low in ("x", "x1", "y", "y1"):
        return at[low[0] == "y"]
    if low in ("x2", "y2"):
        return step["to"][low[0] == "y"]
    if low in _PLACES:
        return list(at or [500, 500])
    if low == "end":
        return list(step["to"])
    if low in ("text", "key"):
        return step.get(low, "")
    if low == "keys":
        return step.get("key", "")
    if "status" in low and kind == "string":
        return step.get("status", "DONE")
    if "turns" in low and kind == "array":
        return step.get("turns", [])
    return None


def as_call(name: str, arguments: Any, number: object = "1") -> Json:
    """A message that calls one tool."""
    function = {"name": name, "arguments": arguments}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def in_words(content: str | None) -> Json:
    return {"role": "assistant", "content": content}


def malformed(tools: list[Json], step: Json, rng: random.Random) -> tuple[str, bool, Json]:
    """One of ten broken or odd dresses of a step: its name, whether it can be read, the message."""
    clicker = pick(tools, "click") or tools[0]["function"]
    good = json.dumps(fill(clicker, {"at": [500, 400]}))
    real = pick(tools, {"done": "status"}.get(step["do"], step["do"])) or clicker
    filled = fill(real, step)
    name, args = real["name"], json.dumps(filled)
    plain = f'{{"name": "{name}", "arguments": {args}}}'
    lost = "LAST_ACTION_RESULT: Failed - nothing changed.\nNEXT_STEP: I will look again."
    return rng.choice(
        [
            ("text only", False, in_words(lost)),
            ("empty", False, in_words("")),
            ("null content", False, in_words(None)),
            ("unknown tool", False, as_call("open_application", '{"name": "notepad"}')),
            ("truncated arguments", False, as_call(clicker["name"], good[: len(good) // 2])),
            ("in content", True, in_words(f"<tool_call>\n{plain}\n</tool_call>")),
            ("fenced", True, in_words(f"```json\n{plain}\n```")),
            ("lm studio default", True, in_words(f"[TOOL_REQUEST]{plain}[END_TOOL_REQUEST]")),
            ("arguments as object", True, as_call(name, json.loads(args))),
            ("missing arguments", False, as_call(clicker["name"], "{}")),
        ]
    )


NATIVE_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"coordinate": {}}},
        },
    }
    for name in ("click", "double_click", "right_click", "type", "press_key", "task_complete")
]


def native_text(step, arguments=None):
    """A step in Qwen3-VL's grammar for computers: a sentence and one call."""
    do, at = step["do"], step.get("at", [500, 500])
    keys = {"escape": "esc"}
    if arguments is None:
        arguments = {
            "click": {"action": "left_click", "coordinate": at},
            "double": {"action": "double_click", "coordinate": at},
            "right": {"action": "right_click", "coordinate": at},
            "type": {"action": "type", "text": step.get("text", "")},
            "key": {
                "action": "key",
                "keys": [keys.get(k, k) for k in step.get("key", "").split("+")],
            },
            "wait": {"action": "wait", "time": 1},
            "complete": {"action": "terminate", "status": "success"},
            "done": {"action": "terminate", "status": "success"},
        }[do]
    what = {
        "click": "Click the",
        "double": "Double-click the",
        "right": "Right-click the",
        "type": "Type",
        "key": "Press",
    }.get(do, "Finish:")
    said = f"{what} {step.get('name') or step.get('text') or step.get('key') or 'the task is complete'}."
    return f"Action: {said}\n<tool_call>\n{json.dumps({'name': 'computer_use', 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"
