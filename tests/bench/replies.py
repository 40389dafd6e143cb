"""How long hostile replies take to read, as a ratio to half of their length: about 2 is linear, 4 would be quadratic.

python -m tests.bench.replies
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import agent

PIECES = (
    " ",
    "{",
    "[",
    '"',
    "\\",
    "!",
    "{}",
    "9",
    "-1,",
    "<think>",
    "</think>",
    "<|im_end|>",
    "<tool_call>",
    "<tool_call>{",
    "<function=a>",
    "<function=a></function>",
    "<function=a><parameter=b>",
    '{"a":',
    '{"a":1},',
    "{'a':1},",
    '<tool_call>{"a":1,}',
)


def seconds(text: str) -> float:
    """CPU seconds for reading, cutting and stripping one reply."""
    tools = agent.PROFILES["planner"].schemas(agent.PROFILES["planner"].roles["executor"])
    message: dict[str, Any] = {"role": "assistant", "content": text}
    begin = time.process_time()
    with suppress(agent.ReplyError):
        agent.read_call(message, "stop", tools)
    agent.cut_repetition(text)
    agent.strip_end_tokens(agent.strip_think(text))
    return time.process_time() - begin


def main() -> None:
    size = 1_000_000
    rows: list[tuple[float, float, str]] = []
    for piece in PIECES:
        half = seconds(piece * (size // 2 // len(piece)))
        whole = seconds(piece * (size // len(piece)))
        ratio = whole / half if half > 0.001 else 0.0
        rows.append((ratio, whole, piece))
    for ratio, whole, piece in sorted(rows, reverse=True):
        print(f"{ratio:6.2f} x  {whole * 1000:8.1f} ms  {piece!r}")


if __name__ == "__main__":
    main()
