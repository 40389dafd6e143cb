"""What a model of each grammar says: a click, the key Enter, the text hello and the end, as its documents write them."""

from __future__ import annotations

from collections.abc import Sequence

import agent

JSON = (
    'Action: %(why)s\n<tool_call>\n{"name": "computer_use", "arguments": {%(act)s}}\n</tool_call>'
)
XML = (
    "%(why)s\n<tool_call>\n<function=computer_use>\n<parameter=action>\n%(act)s\n</parameter>\n"
    "</function>\n</tool_call>"
)
VERB = "Thought: %(why)s\nAction: %(act)s"
SEED = "%(why)s\n<seed:tool_call>\n<function=%(act)s</parameter>\n</function>\n</seed:tool_call>"
CODE = "## Action:\n%(why)s\n\n## Code:\n```python\n%(act)s\n```"

COMPUTER = {
    "click": '"action": "left_click", "coordinate": [%(x)s, %(y)s]',
    "key": '"action": "key", "keys": ["enter"]',
    "type": '"action": "type", "text": "hello"',
    "end": '"action": "terminate", "status": "success"',
}
PARAMETERS = {
    "click": "left_click\n</parameter>\n<parameter=coordinate>\n[%(x)s, %(y)s]",
    "key": 'key\n</parameter>\n<parameter=keys>\n["enter"]',
    "type": "type\n</parameter>\n<parameter=text>\nhello",
    "end": "terminate\n</parameter>\n<parameter=status>\nsuccess",
}
VERBS = {
    "click": "click(start_box='(%(x)s,%(y)s)')",
    "key": "hotkey(key='enter')",
    "type": "type(content='hello')",
    "end": "finished(content='Done')",
}
FUNCTIONS = {
    "click": "click>\n<parameter=point><point>%(x)s %(y)s</point>",
    "key": "hotkey>\n<parameter=key>enter",
    "type": "type>\n<parameter=content>hello",
    "end": "finished>\n<parameter=content>Done",
}
PYTHON = {
    "click": "pyautogui.click(x=%(x)s, y=%(y)s)",
    "key": "pyautogui.press(keys=['enter'])",
    "type": "pyautogui.write(message='hello')",
    "end": "computer.terminate(status='success')",
}
SAID = {
    "qwen3-vl": (JSON, COMPUTER),
    "qwen2.5-vl": (JSON, COMPUTER),
    "qwen3.5-xml": (XML, PARAMETERS),
    "gui-owl-1.5": (JSON, COMPUTER),
    "ui-tars-1.0": (VERB, VERBS),
    "ui-tars-1.5": (VERB, VERBS),
    "ui-tars-2": (SEED, FUNCTIONS),
    "fara-7b": (JSON, {**COMPUTER, "type": COMPUTER["type"] + ', "press_enter": false'}),
    "opencua": (CODE, PYTHON),
}


def spoken(
    grammar: agent.Grammar,
    act: str,
    place: Sequence[int] = (0, 0),
    size: tuple[int, int] = (64, 64),
    why: str = "",
) -> str:
    """An act as a model of that grammar writes it: its place on the grid as it is in a picture of that size."""
    frame, acts = SAID[grammar.name]
    sides = grammar.sides(grammar.picture.seen_size(agent.Size(*size)))
    x, y = (round(number * side / 1000) for number, side in zip(place, sides, strict=True))
    return frame % {"why": why or f"I {act}", "act": acts[act] % {"x": x, "y": y}}
