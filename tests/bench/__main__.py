"""Measures the person's own model on drawn pictures, and sets results side by side.

    python -m tests.bench quick             in 4 minutes at 5 s a request; without quick it is surer
    python -m tests.bench compare 1 2       results side by side, by number

No desktop is touched: each item is a run of one turn on a drawn screen, so that the model is asked as in any run. Behind
these words stand agent.py's own options: --endpoint, --model, --grammar, --set, --config. The lines of
dumps/bench_0001.jsonl are what was measured, also where it was broken off.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import agent
from tests.bench import scenes
from tests.bench.figures import Line, advice, rows
from tests.bench.scenes import Drawing, Item
from tests.scripted import call, role_of
from tests.seams import make_engine

SECONDS = 5.0  # a request, for the first estimate
SEED = 20
# Faults of a server that are about the one request and the model; after any other nothing can be asked.
ANSWERED = ("context", "no_vision", "no_tools", "error", "not_json", "server", "timeout")
ANSWERED += ("pictures", "roles", "template")
ALONE = {"last_look": False, "second_opinion": False, "controls": "off"}
CLAIM = call(
    "report_mission_complete",
    evidence="All that the task asks for is done, and the picture shows it: what was wanted is"
    " there, nothing else is open, and nothing is left to do.",
)
COMPARED = ("model", "size", "grammar", "calls", "thinking", "where")


class Plan(NamedTuple):
    """How many items a part has; a pair is two, and calling is asked in each grammar."""

    pointing: int
    calling: int
    judging: int
    reading: int


WHOLE = Plan(60, 10, 20, 20)
QUICK = Plan(20, 3, 6, 6)


def items_of(plan: Plan, whole: agent.Rect, grammars: Iterable[str]) -> list[Item]:
    """All that is asked, in its order; always the same."""
    dice = random.Random(SEED)
    return [
        *scenes.pointing(dice, plan.pointing, whole),
        *scenes.calling(plan.calling, grammars),
        *scenes.judging(dice, plan.judging, whole),
        *scenes.reading(dice, plan.reading, whole),
    ]


class Asked:
    """A server in front of the model's, which notes what comes; the executor's claim in a judging item is its own."""

    def __init__(self, server: Any, claims: bool) -> None:
        self.server, self.claims = server, claims
        self.replies: list[agent.Reply] = []
        self.fault: agent.ModelError | None = None

    def complete(self, body: bytes) -> agent.Reply:
        if self.claims and role_of(json.loads(body)) == "executor":
            return agent.Reply(CLAIM, "tool_calls", agent.Usage(), "", 0.0)
        try:
            self.replies.append(self.server.complete(body))
        except agent.ModelError as error:
            self.fault = error
            raise
        return self.replies[-1]


class Bench:
    """Asks a model one item after the other."""

    def __init__(
        self, config: agent.Config, info: agent.ModelInfo, server: Any, clock: agent.Clock
    ) -> None:
        self.info, self.server, self.clock = info, server, clock
        self.config = replace(config, confirm="never", area="primary", turn_delay=0.0, max_steps=1)
        own = agent.chosen_grammar(config, agent.PROFILES["native"], info)
        self.grammar = config.executor_grammar or ("text" if config.calls == "text" else "tools")
        kinds = ["tools", "text", self.grammar, own.name if own else "tools"]
        self.grammars = list(dict.fromkeys(kinds))
        size = agent.frame_size(agent.Rect(0, 0, 1920, 1080), config)
        if own and own.name == self.grammar:
            size = own.picture.seen_size(size)
        self.whole = agent.Rect(0, 0, *size)

    def measure(self, item: Item) -> Line:
        """One item; raises Stopped, and ModelError where nothing can be asked any more."""
        judging, calling = item.part == "judging", item.part == "calling"
        grammar = "tools" if judging else item.kind if calling else self.grammar
        in_text = grammar == "text"
        config = replace(
            self.config,
            reply_corrections=self.config.reply_corrections if calling else 0,
            screen_capture_w=self.whole.width,
            screen_capture_h=self.whole.height,
            executor_grammar="tools" if in_text else grammar,
            calls="text" if in_text else "tools",
            verify_completion=judging,
            **ALONE,
        )
        desktop = Drawing(item, self.whole, self.clock)
        asked = Asked(self.server, judging)
        lost, outcome = self.run(config, item, desktop, asked)
        if asked.fault and asked.fault.kind not in ANSWERED:
            raise asked.fault
        usages = [reply.usage for reply in asked.replies]
        cached = [usage.cached for usage in usages if usage.cached is not None]
        return Line(
            **{name: getattr(item, name) for name in ("part", "name", "kind", "expected")},
            right=is_right(item, desktop.inputs, outcome),
            error=f"server {asked.fault.kind}" if asked.fault else "".join(lost[:1]),
            requests=len(asked.replies),
            seconds=sum(reply.seconds for reply in asked.replies),
            prompt=sum(usage.prompt or 0 for usage in usages),
            completion=sum(usage.completion or 0 for usage in usages),
            cached=sum(cached) if cached else None,
        )

    def run(
        self, config: agent.Config, item: Item, desktop: Drawing, asked: Asked
    ) -> tuple[list[str], str]:
        """Why replies could not be used, and how a run of one turn ended."""
        state = agent.Progress(task=item.task, touched=1)
        lost, outcome = list[Any](), "error"
        with tempfile.TemporaryDirectory() as folder:
            config, profile = replace(config, dump_dir=folder), agent.PROFILES["native"]
            parts = desktop, asked, self.info, self.clock, agent.Stop()
            engine = make_engine(config, profile, *parts)
            engine.progress = state
            engine.logger.listeners.append(lost.append)
            with closing(engine.logger), suppress(agent.ModelError):
                outcome = agent.run_agent(engine).kind
        return [one.error for one in lost if getattr(one, "kind", "") == "no_call"], outcome


def is_right(item: Item, inputs: Sequence[tuple[Any, ...]], outcome: str) -> bool:
    """Whether the first act hit its target, or the right thing was believed, done or typed."""
    if item.part == "judging":
        return (outcome == "completed") == (item.expected == "yes")
    if item.part == "reading":
        return "".join(event[1] for event in inputs if event[0] == "text") == item.expected
    if item.part == "calling":
        first = next((event[0] for event in inputs if event[0] != "move"), "")
        return first == item.expected
    before = list(takewhile(lambda event: event[0] == "move", inputs))
    clicked = inputs[len(before) : len(before) + 1]
    if not before or not clicked or clicked[0][0] != "button":
        return False
    return item.things[0].place.contains(agent.Point(*before[-1][1:]))


# -- the lines of a bench, in a file


def read(file: Path) -> tuple[dict[str, Any], list[Line]]:
    """What is measured, and the lines; one that is torn or unreadable is left out. Raises OSError."""
    about: dict[str, Any] = {}
    lines = []
    for line in file.read_bytes().split(b"\n"):
        with suppress(ValueError, TypeError, AttributeError, RecursionError):
            entry = json.loads(line)
            about = entry.get("about", about)
            lines.append(Line(**entry))
    return about, lines


def file_for(root: Path, about: dict[str, Any]) -> Path:
    """A new one. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True)
    numbers = [
        int(file.stem[6:]) for file in root.glob("bench_*.jsonl") if file.stem[6:].isdecimal()
    ]
    file = root / f"bench_{max(numbers, default=0) + 1:04d}.jsonl"
    file.write_text(json.dumps({"about": about}) + "\n", "utf-8")
    return file


def measure_all(
    measure: Callable[[Item], Line], items: Sequence[Item], file: Path, say: Callable[[str], None]
) -> None:
    """Adds them to the file, one after the other."""
    took: list[float] = []
    with file.open("a", encoding="utf-8") as stream:
        for place, item in enumerate(items):
            left = len(items) - place
            if place % 10 == 0:
                lasts = left * (median(took) if took else SECONDS)
                say(f"...   {item.name}; {left} left, some {lasts / 60:.0f} min")
            line = measure(item)
            took += [line.seconds / line.requests] if line.requests else []
            stream.write(json.dumps(line._asdict()) + "\n")
            stream.flush()


# -- the command


def measure(
    config: agent.Config, plan: Plan, server: Any, clock: agent.Clock, say: Callable[[str], None]
) -> None:
    """Measures the model and tells its figures, also those of a part; raises ModelError and Stopped."""
    info = server.discover()
    bench = Bench(config, info, server, clock)
    items = items_of(plan, bench.whole, bench.grammars)
    about = {"model": info.name, "where": server.where}
    about |= {"size": f"{bench.whole.width}x{bench.whole.height}", "grammar": bench.grammar}
    about |= {"items": len(items), "version": agent.__version__}
    about |= {"calls": config.calls, "thinking": config.thinking}
    file = file_for(Path(config.dump_dir), about)
    lasts = len(items) * SECONDS / 60
    say(f"Measuring {info.name} with some {len(items)} requests, {lasts:.0f} min at {SECONDS:g} s.")
    say(f"The desktop is not touched. Ctrl+C keeps what was measured in {file}.")
    try:
        measure_all(bench.measure, items, file, say)
    finally:
        lines = read(file)[1]
        for name, value in rows(lines).items():
            say(f"{name:<44} {value}")
        for sentence in advice(lines):
            say(f"advice: {sentence}")
        if len(lines) < len(items):
            say(f"{len(lines)} of {len(items)} measured.")


def compared(root: Path, numbers: Sequence[str]) -> Iterator[str]:
    """A table of several results side by side; raises ConfigError for what is none."""
    columns = []
    for number in numbers:
        file = root / f"bench_{number.zfill(4)}.jsonl"
        try:
            about, lines = read(file)
        except OSError as error:
            raise agent.ConfigError(f"There is no result {file} ({error.strerror}).") from None
        columns.append({**{name: about.get(name, "") for name in COMPARED}, **rows(lines)})
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = [agent.plain_line(str(column.get(name, "")), 30) for column in columns]
        yield f"{name:<42}  {'  '.join(f'{cell:<30}' for cell in cells)}".rstrip()


def run(arguments: list[str]) -> None:
    """Raises AgentError with one sentence for what cannot be done."""
    words = list(takewhile(lambda word: not word.startswith("-"), arguments))
    options = agent.command_line().parse_args(arguments[len(words) :])
    options.profile = options.profile or next(iter(agent.PROFILES))
    config = agent.read_config(options, os.environ)
    if words[:1] == ["compare"]:
        print("\n".join(compared(Path(config.dump_dir), words[1:])))
        return
    if words not in ([], ["quick"]):
        raise agent.ConfigError(f"A bench takes quick, or compare and numbers, not {words}.")
    stop = agent.Stop()
    clock, key = agent.SystemClock(stop), os.environ.get("LMSTUDIO_API_KEY", "")
    server = agent.ModelServer(config, clock, stop, key, print)
    measure(config, QUICK if words else WHOLE, server, clock, print)


def main(arguments: list[str]) -> int:
    try:
        run(arguments)
        return 0
    except (agent.AgentError, OSError, KeyboardInterrupt) as error:
        print(f"tests.bench: {str(error) or 'stopped.'}", file=sys.stderr)
        return error.exit_code if isinstance(error, agent.AgentError) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
