"""What pruning costs: 200 steps of a conversation at full size, by how far screenshots may grow before they are cut.

    python -m tests.bench.prefix [STEPS]

Columns: the most screenshots in a request; whether the model thinks aloud; the largest request; a prompt's tokens, on
average; the share of them that stands unchanged from the start, as a prefix cache counts it (an image is 1,296 tokens,
four characters of text are one); the tokens that the server reads anew each step; and the peak of Python's memory in
the first and in the last quarter of the run.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import tracemalloc
from typing import Any

import agent
from tests.fakes import VirtualClock
from tests.scripted import PlainDesktop

IMAGE_TOKENS = 1536 * 864 // 1024


class Pieces:
    """A server that keeps nothing of a request but its size and how much of it is like the one before."""

    def __init__(self, thinks: bool) -> None:
        self.thinks = thinks
        self.sizes: list[int] = []
        self.tokens: list[tuple[int, int]] = []
        self.before: list[tuple[str, int]] = []
        self.turn = itertools.count()

    def complete(self, body: bytes) -> agent.Reply:
        self.sizes.append(len(body))
        request = json.loads(body)
        pieces: list[tuple[str, int]] = [
            (json.dumps(request["tools"]), len(json.dumps(request["tools"])) // 4)
        ]
        for message in request["messages"]:
            content = message.pop("content")
            for part in (
                content if isinstance(content, list) else [{"type": "text", "text": content}]
            ):
                if "image_url" in part:
                    pieces.append((str(hash(part["image_url"]["url"])), IMAGE_TOKENS))
                else:
                    text = part["text"] + json.dumps(message)
                    pieces.append((text, len(text) // 4))
        pairs = zip(pieces, self.before, strict=False)
        same = sum(new[1] for new, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        self.tokens.append((same, sum(tokens for _, tokens in pieces)))
        self.before = pieces
        return agent.Reply(
            self.reply(), "tool_calls", agent.Usage(None, 60, None), "scripted", 1.0, 1
        )

    def reply(self) -> dict[str, Any]:
        number = next(self.turn)
        name = "observe_screen" if number % 2 else "click_element"
        arguments = {} if number % 2 else {"label": f"Button {number}", "box": [number % 1000, 500]}
        function = {"name": name, "arguments": json.dumps(arguments)}
        said = (
            f"The window shows button {number}; the last action worked, so I go on with the next one. "
            * 2
        )
        thought = f"thinking about {number} " * 30 * self.thinks
        return {
            "role": "assistant",
            "content": said,
            "reasoning_content": thought,
            "tool_calls": [{"id": "x", "type": "function", "function": function}],
        }


def noise(desktop: PlainDesktop) -> Any:
    """Frames whose PNG has a quarter of a megabyte, as that of a real screen may have."""
    block = os.urandom(240_000)

    def glance(area: agent.Rect, width: int, height: int) -> bytes:
        return (block + bytes([len(desktop.inputs) % 251]) * (width * height * 4))[
            : width * height * 4
        ]

    return glance


def run(steps: int, prune_at: int, thinks: bool) -> tuple[Pieces, list[int]]:
    peaks: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        layers = {
            "profile": agent.PROFILES["chat"].settings,
            "bench": {"dump_dir": folder, "max_steps": steps, "prune_screenshots_at": prune_at},
        }
        config, stop, server = agent.load_config(layers), agent.Stop(), Pieces(thinks)
        clock = VirtualClock(stop)
        desktop = PlainDesktop(clock)
        desktop.glance = noise(desktop)  # type: ignore[method-assign]
        logger = agent.ExecutionLogger(folder)
        engine = agent.make_engine(
            config,
            agent.PROFILES["chat"],
            desktop,
            agent.Actuator(desktop, config, clock, stop),
            server,
            logger,
            clock,
            agent.ModelInfo("scripted"),
            lambda line: None,
        )
        complete = server.complete

        def counted(body: bytes) -> agent.Reply:
            if len(server.sizes) % (steps // 4) == steps // 4 - 1:
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.reset_peak()
            return complete(body)

        server.complete = counted  # type: ignore[method-assign]
        memory = agent.AgentMemory(config.memory_compression_threshold)
        agent.run_agent(engine, agent.AgentState("Press every button", memory))
        logger.close()
    return server, peaks


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    tracemalloc.start()
    print(f"{steps} steps, 2 screenshots and 2 thoughts kept\n")
    print(
        "most  thinks  largest request  prompt tokens  reused  read anew a step  memory peak first, last quarter"
    )
    for thinks, prune_at in itertools.product((False, True), (2, 3, 4, 6, 8)):
        server, peaks = run(steps, prune_at, thinks)
        same, whole = (sum(column) for column in zip(*server.tokens[1:], strict=True))
        mean, anew = whole // (len(server.tokens) - 1), (whole - same) // (len(server.tokens) - 1)
        size, said = max(server.sizes) / 1e6, "yes" if thinks else "no"
        print(
            f"{prune_at:>4}  {said:<6}  {size:>12.2f} MB  {mean:>13,}  {same / whole:>6.1%}  {anew:>16,}"
            f"  {peaks[0] / 1e6:.1f} MB, {peaks[-1] / 1e6:.1f} MB"
        )
        late = max(server.sizes[steps // 2 :]) / max(server.sizes[: steps // 2])
        assert late < 1.05, f"the second half's largest request is {late:.2f} of the first half's"


if __name__ == "__main__":
    main()
