"""How a model is measured: a profile's run of one turn on a drawn screen, and what the first act of it hits.

The model is asked as it is in any run, since it is one: no prompt and no reader of replies stands here.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import agent
from tests.bench import scenes
from tests.bench.scenes import Drawing, Item
from tests.scripted import call, role_of
from tests.seams import make_engine

PARTS = ("pointing", "calling", "judging", "reading", "cost")
SECONDS = 5.0  # a request, until the first ones tell better
SEED = 20
PICTURE_CELL = 32  # a side of what is one token of most models
# Faults of a server that are about the one request and the model; after any other nothing can be asked.
ANSWERED = ("context", "no_vision", "no_tools", "error", "not_json", "server", "timeout")
CLAIM = call(
    "report_mission_complete",
    evidence="All that the task asks for is done, and the picture shows it: what was wanted is"
    " there, nothing else is open, and nothing is left to do.",
)


class Plan(NamedTuple):
    """How many items a part has; a pair is two, and calling is asked in each grammar."""

    pointing: int
    calling: int
    judging: int
    reading: int


WHOLE = Plan(60, 10, 20, 20)
QUICK = Plan(21, 3, 6, 6)  # 46 requests, 4 minutes at 5 s


def items_of(plan: Plan, seed: int, whole: agent.Rect, grammars: Sequence[str]) -> list[Item]:
    """All that is asked, in its order."""
    return [
        *scenes.pointing(seed, plan.pointing, whole),
        *scenes.calling(plan.calling, grammars),
        *scenes.judging(seed, plan.judging, whole),
        *scenes.reading(seed, plan.reading, whole),
        replace(scenes.reading(seed, 1, whole)[0], part="cost", name="cost 1"),
    ]


@dataclass(frozen=True)
class Line:
    """What one item came to: a line of bench.jsonl. Places are on the grid.

    Seconds and tokens are those of all its requests: the first one and the corrections.
    """

    part: str
    name: str
    size: int = 0
    kind: str = ""
    error: str = ""  # the first reply's, of which nothing could be used
    corrections: int = 0
    right: bool = False
    neighbour: bool = False
    x: float = -1.0
    y: float = -1.0
    true_x: float = -1.0
    true_y: float = -1.0
    expected: str = ""
    said: str = ""
    requests: int = 0  # that were answered
    seconds: float = 0.0
    prompt: int = 0
    completion: int = 0
    cached: int = -1  # where the server does not tell
    image: int = 0  # tokens that the picture should cost
    without: int = 0  # tokens of the same prompt without its picture, in the cost part


def line_of(entry: dict[str, Any]) -> Line:
    """A line of a journal; raises ValueError, TypeError or KeyError for what is none."""
    kinds = {spec.name: type(spec.default) for spec in fields(Line)}
    kinds |= {"part": str, "name": str}
    for name, value in entry.items():
        number = kinds[name] is float and type(value) is int
        if type(value) is not kinds[name] and not number:
            raise ValueError(f"{name} is of another type")
    if entry["part"] not in PARTS:
        raise ValueError("an unknown part")
    return Line(**entry)


@dataclass
class Asked:
    """A server in front of the model's, which notes what comes; it may say the executor's words."""

    server: Any
    claim: bool
    replies: list[agent.Reply] = field(default_factory=list)
    body: dict[str, Any] = field(default_factory=dict)  # of the last request
    fault: agent.ModelError | None = None

    def complete(self, body: bytes) -> agent.Reply:
        request = json.loads(body)
        if self.claim and role_of(request) == "executor":
            return agent.Reply(CLAIM, "tool_calls", agent.Usage(), "", 0.0, 1)
        self.body = request
        try:
            reply: agent.Reply = self.server.complete(body)
        except agent.ModelError as error:
            self.fault = error
            raise
        self.replies.append(reply)
        return reply


class Nobody:
    """A model that has nothing to say."""

    def complete(self, body: bytes) -> agent.Reply:
        return agent.Reply({"content": ""}, "stop", agent.Usage(), "", 0.0, 1)


class Played(NamedTuple):
    """What a run came to."""

    outcome: agent.Outcome
    lost: list[str]  # why replies could not be used
    asked: Asked


class Bench:
    """Asks a model one item after the other."""

    def __init__(
        self,
        config: agent.Config,
        info: agent.ModelInfo,
        server: Any,
        clock: agent.Clock,
    ) -> None:
        self.info, self.server, self.clock = info, server, clock
        self.config = replace(config, confirm="never", area="primary", turn_delay=0.0)
        own = self.grammar_of("")
        if not config.executor_grammar:
            self.config = replace(self.config, executor_grammar="tools")
        self.grammar = self.grammar_of(self.config.executor_grammar)
        self.whole = self.picture_of_a_screen()
        self.grammars = list(dict.fromkeys(["tools", "text", self.grammar, own]))

    def picture_of_a_screen(self) -> agent.Rect:
        """The picture that a run sends of a usual screen; nobody is asked for it."""
        screen = agent.Rect(0, 0, 1920, 1080)
        with tempfile.TemporaryDirectory() as folder:
            only_one = {"max_steps": 1, "reply_corrections": 0, "last_look": False}
            config = replace(self.config, dump_dir=folder, controls="off", **only_one)
            desktop = Drawing(Item("", "", ""), screen, self.clock)
            played = self.play(config, "native", desktop, "Look", server=Nobody())
        url = re.findall(r"data:image/png;base64,([^\"]+)", json.dumps(played.asked.body))[-1]
        width, height = struct.unpack(">16x2I", base64.b64decode(url[:32]))
        return agent.Rect(0, 0, width, height)

    def grammar_of(self, wanted: str) -> str:
        """In which grammar a run with that setting asks."""
        config = replace(self.config, executor_grammar=wanted)
        with tempfile.TemporaryDirectory() as folder:
            desktop = Drawing(Item("", "", ""), agent.Rect(0, 0, 8, 8), self.clock)
            with closing(agent.ExecutionLogger(agent.Config(dump_dir=folder))) as logger:
                engine = self.engine(config, "native", desktop, Asked(self.server, False), logger)
        if engine.grammar:
            return str(engine.grammar.name)
        is_text = config.calls == "text" or config.calls == "auto" and self.info.tools is False
        return "text" if is_text else "tools"

    def engine(
        self, config: agent.Config, profile: str, desktop: Any, asked: Asked, logger: Any
    ) -> Any:
        """The parts of a run, without anybody who looks on."""
        hands = agent.Actuator(desktop, config, self.clock, agent.Stop(), confirm=lambda _: True)
        return make_engine(
            config,
            agent.PROFILES[profile],
            desktop,
            hands,
            asked,  # type: ignore[arg-type]
            logger,
            self.clock,
            self.info,
            lambda line: None,
        )

    def play(
        self,
        config: agent.Config,
        profile: str,
        desktop: Any,
        task: str,
        claim: bool = False,
        server: Any = None,
    ) -> Played:
        """One run; raises Stopped, and ModelError where nothing can be asked any more."""
        asked, lost = Asked(server or self.server, claim), list[str]()

        def notice(item: Any) -> None:
            if getattr(item, "kind", "") == "no_call":
                lost.append(item.error)

        with closing(agent.ExecutionLogger(config)) as logger:
            engine = self.engine(config, profile, desktop, asked, logger)
            logger.listeners.append(notice)
            state = agent.AgentState(
                task=task, memory=agent.AgentMemory(config.memory_compression_threshold)
            )
            try:
                outcome = agent.run_agent(engine, state)
            except agent.ModelError as error:
                outcome = agent.Outcome("error", str(error))
        if asked.fault and asked.fault.kind not in ANSWERED:
            raise asked.fault
        return Played(outcome, lost, asked)

    def measure(self, item: Item) -> Line:
        """One item; raises Stopped, and ModelError where nothing can be asked any more."""
        line = Line(item.part, item.name, item.size, item.kind, expected=item.expected)
        judging, calling = item.part == "judging", item.part == "calling"
        grammar = item.kind or self.grammar
        with tempfile.TemporaryDirectory() as folder:
            desktop = Drawing(item, self.whole, self.clock)
            config = replace(
                self.config,
                dump_dir=folder,
                max_steps=1,
                reply_corrections=self.config.reply_corrections if calling else 0,
                screen_capture_w=self.whole.width,
                screen_capture_h=self.whole.height,
                executor_grammar="tools" if judging or grammar == "text" else grammar,
                calls="text" if grammar == "text" and not judging else "tools",
                verify_completion=judging,
                last_look=False,
                derive_checks=False,
                second_opinion=False,
                controls="off",
            )
            played = self.play(config, "native", desktop, item.task, judging)
        if item.part == "cost" and played.asked.replies:
            without = self.without_picture(played.asked)
            image = self.whole.width * self.whole.height // PICTURE_CELL**2
            line = replace(line, image=image, without=without)
        return told(with_cost(line, played), item, desktop, played)

    def without_picture(self, asked: Asked) -> int:
        """The tokens of the last prompt without its picture: what it had more the picture costs."""
        body = dict(asked.body)
        for message in body["messages"]:
            if isinstance(message["content"], list):
                message["content"] = [p for p in message["content"] if "image_url" not in p]
        return asked.complete(json.dumps(body).encode()).usage.prompt_tokens or 0


def with_cost(line: Line, played: Played) -> Line:
    """The line with what its requests cost, and what was wrong with the first reply."""
    replies = played.asked.replies
    cached = [r.usage.cached_tokens for r in replies if r.usage.cached_tokens is not None]
    fault = played.asked.fault
    return replace(
        line,
        error=f"server {fault.kind}" if fault else next(iter(played.lost), ""),
        corrections=len(played.lost),
        requests=len(replies),
        seconds=sum(reply.seconds for reply in replies),
        prompt=sum(reply.usage.prompt_tokens or 0 for reply in replies),
        completion=sum(reply.usage.completion_tokens or 0 for reply in replies),
        cached=sum(cached) if cached else -1,
        said=replies[-1].text[:300] if replies else "",
    )


def told(line: Line, item: Item, desktop: Drawing, played: Played) -> Line:
    """The line with what the first act hit, or what was believed."""
    if item.part == "judging":
        believed = played.outcome.kind == "completed"
        return replace(line, right=believed == (item.expected == "yes"))
    if item.part in ("reading", "cost"):
        return replace(line, right=desktop.typed == item.expected)
    if item.part == "calling":
        return replace(line, right=desktop.first == item.expected)
    if not desktop.clicked:
        return replace(line, error=line.error or "another_act")
    x, y = desktop.clicked
    target, *others = (thing.place for thing in item.things)
    point, most_x, most_y = agent.Point(x, y), desktop.whole.width - 1, desktop.whole.height - 1
    return replace(
        line,
        right=target.contains(point),
        neighbour=any(place.contains(point) for place in others),
        x=x * 1000 / most_x,
        y=y * 1000 / most_y,
        true_x=(target.left + (target.width - 1) / 2) * 1000 / most_x,
        true_y=(target.top + (target.height - 1) / 2) * 1000 / most_y,
    )
