"""Where tests meet the program beside `main()`, a scripted server and a simulated Windows.

What several tests need of agent.py to get there stands here once: whoever writes a room anew puts the new way here, and
leaves the tests as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import agent

# -- Windows' side: keys, pictures, tools

VK_MAP = agent.VK_MAP  # the keys that a model may name, with their virtual-key codes


def chord(text: str) -> tuple[str, ...]:
    """The keys that a model presses with this text; raises agent.ToolError for none."""
    words = agent.Vocabulary({"press_key": "press_key"})
    key = words.parse(agent.ToolCall("press_key", {"key": text})).args.key  # type: ignore[attr-defined]
    return tuple(str(key).split("+"))


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks of a PNG, each with its name, as the standard lays them out."""
    at = 8
    while at < len(png):
        length, name = struct.unpack_from(">I4s", png, at)
        yield name, png[at + 8 : at + 8 + length]
        at += 12 + length


def new_tool(name: str, args: type[Any], done: str = "") -> Any:
    """A row for agent.TOOLS: a tool of that name and those arguments, of which `done` tells the result."""
    return agent.TOOLS["click"]._replace(name=name, args=args, done=done)
