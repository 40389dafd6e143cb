"""What is asked of a model to measure it, and what its replies are worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import NamedTuple

from agent import (
    CANONICAL,
    GRAMMARS,
    NO_CALL,
    PATCH,
    PLANNER_WORDS,
    SAMPLING_IF_SET,
    TOOLS,
    VERIFIER_PROMPT,
    Act,
    Config,
    Coordinate,
    Grammar,
    JsonDict,
    Manner,
    Message,
    ModelError,
    ModelInfo,
    Rect,
    Reply,
    ReplyError,
    Size,
    ToolError,
    correction,
    cut,
    json_object,
    model_settings,
    native_call,
    native_manner,
    read_any,
    read_call,
    read_rulings,
    request_body,
    screen_size,
    shown_to,
    strip_end_tokens,
    strip_think,
    to_point,
    tool_choice,
    tools_in_text,
    values_of,
)
from tests.bench.targets import (
    BENCH_GRAMMARS,
    BENCH_PROMPT,
    READING_PROMPT,
    BenchItem,
    BenchScene,
    bench_picture,
    calling_items,
    centre_of,
    cost_items,
    grid_place,
    judging_items,
    pointing_items,
    reading_items,
)

BENCH_PARTS = ("pointing", "calling", "judging", "reading", "cost", "tasks")
BENCH_TASK_REQUESTS = 15  # of a demo task, to tell how long it may take
BENCH_SECONDS = 5.0  # a request, until the first ones tell better
BENCH_CORRECTIONS = 2  # after a reply without a usable call, as in a run


class BenchPlan(NamedTuple):
    """How many requests a part has; a pair is two, and calling is asked in each grammar."""

    pointing: int
    calling: int
    judging: int
    reading: int


BENCH_WHOLE = BenchPlan(60, 10, 20, 20)
BENCH_QUICK = BenchPlan(21, 3, 6, 6)  # 46 requests, 4 minutes at 5 s


def bench_items(
    plan: BenchPlan, seed: int, whole: Rect, grammars: Iterable[str] = BENCH_GRAMMARS
) -> list[BenchItem]:
    """All requests, in their order; calling is asked in each of these grammars."""
    return [
        *pointing_items(seed, plan.pointing, whole),
        *calling_items(plan.calling, grammars),
        *judging_items(seed, plan.judging),
        *reading_items(seed, plan.reading, whole),
        *cost_items(),
    ]


@dataclass(frozen=True)
class BenchLine:
    """What one item came to: a line of bench.jsonl. Places are on the grid.

    Seconds and tokens are those of all its requests: the first one and the corrections.
    """

    part: str
    name: str
    size: int = 0
    kind: str = ""
    error: str = ""  # why no reply could be used, in the end
    corrections: int = 0
    right: bool = False
    neighbour: bool = False
    x: float = -1.0
    y: float = -1.0
    true_x: float = -1.0
    true_y: float = -1.0
    pixels_off: float = -1.0
    expected: str = ""
    said: str = ""
    requests: int = 0  # that were answered
    seconds: float = 0.0
    prompt: int = 0
    completion: int = 0
    cached: int = -1  # where the server does not tell
    image: int = 0  # tokens that the picture should cost
    turns: int = 0  # of a task
    wasted: int = 0  # of them, without a change on the screen
    claimed: bool = False  # whether the run called the task completed


BENCH_FIELDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}


def bench_line_of(value: object) -> BenchLine:
    """A line of a journal; raises ValueError for what is none."""
    entry = json_object(value)
    found: JsonDict = {}
    for spec in fields(BenchLine):
        given = entry.get(spec.name, spec.default)
        if not isinstance(given, BENCH_FIELDS[str(spec.type)]):
            raise ValueError(f"{spec.name} is of another type")
        found[spec.name] = given
    if found["part"] not in BENCH_PARTS:
        raise ValueError("an unknown part")
    return BenchLine(**found)


def _line_for(item: BenchItem) -> BenchLine:
    """A line that tells nothing yet but what was asked."""
    return BenchLine(
        part=item.part,
        name=item.name,
        size=item.size,
        kind=item.kind,
        expected=item.expected,
    )


# Asks one request: the messages, and the grammar in which a call is wanted, or nothing.
BenchAsk = Callable[[BenchItem, Sequence[Message], str], Reply]


class BenchWay(NamedTuple):
    """How a call is asked for in a grammar, how its reply is read, and what a bad one is told."""

    asked: Callable[[str, bytes], list[Message]]  # of the words and the picture
    read: Callable[[Reply], Act]  # raises ToolError
    correct: Callable[[ToolError], str]


BENCH_TOOLS = PLANNER_WORDS.schemas(["click", "type_text", "press_key"])


def bench_way(grammar: str, size: Size) -> BenchWay:
    """The way of a grammar for pictures of that size: tools, text, or one of a model's own."""
    native = native_grammar(grammar)
    if native:
        return BenchWay(
            asked=partial(shown_to, native),
            read=partial(_read_native_act, native, size),
            correct=native.correction,
        )
    return BenchWay(
        asked=lambda words, image: [Message("user", words, image)],
        read=_read_tool_act,
        correct=lambda error: correction(error, BENCH_TOOLS),
    )


def native_grammar(name: str) -> Grammar | None:
    """The grammar of that name that models were trained in; None for tools, listed or in words."""
    if name in BENCH_GRAMMARS:
        return None
    return GRAMMARS[name]


def _read_tool_act(reply: Reply) -> Act:
    """The act of a reply in the words of the tools; raises ToolError."""
    call = read_call(reply.message, reply.finish_reason, BENCH_TOOLS)
    return PLANNER_WORDS.parse(call)


def _read_native_act(grammar: Grammar, size: Size, reply: Reply) -> Act:
    """The act of a reply, read as a run reads it; raises ToolError."""
    call, _ = read_any(reply.message, reply.finish_reason, size, grammar.name)
    if call.name not in TOOLS:
        raise ReplyError(f"{call.name} is not what was asked for.", "another_act")
    return CANONICAL.parse(native_call(call))


@dataclass
class Bench:
    """Asks the requests that the journal does not hold yet. It draws pictures and acts nowhere."""

    ask: BenchAsk
    whole: Rect  # the size of a picture
    grammar: str  # in which pointing is asked
    draws: bool = True
    play: Callable[[BenchItem], BenchLine] = _line_for  # a whole task

    def measure(self, item: BenchItem) -> BenchLine:
        """One request with its corrections; raises Stopped, and ModelError where none can be asked.

        A server that refuses this one request, such as one without eyes, has answered it.
        """
        try:
            return self._measure(item)
        except ModelError as error:
            if error.kind not in BENCH_ANSWERED:
                raise
            return replace(_line_for(item), error=f"server {error.kind}")

    def _measure(self, item: BenchItem) -> BenchLine:
        """The same; every ModelError is raised."""
        if item.part == "tasks":
            return self.play(item)
        if item.part in ("pointing", "calling"):
            return self._call(item)
        reply = self.ask(item, [Message("user", item.question, self._picture(item.scene))], "")
        line = _with_cost(self._line(item, item.scene), reply)
        said = strip_end_tokens(strip_think(reply.text)).strip()
        return _JUDGED[item.part](replace(line, said=cut(said, 300)), said)

    def _picture(self, scene: BenchScene | None) -> bytes:
        """The drawn screen, if there is one and anybody looks at it."""
        if scene and self.draws:
            return bench_picture(scene, self.whole)
        return b""

    def _line(self, item: BenchItem, scene: BenchScene | None) -> BenchLine:
        """A line that knows what its picture should cost."""
        line = _line_for(item)
        if not scene:
            return line
        native = native_grammar(self.grammar)
        patch = native.picture.factor if native else PATCH
        return replace(line, image=self.whole.width * self.whole.height // patch**2)

    def _call(self, item: BenchItem) -> BenchLine:
        """A request that needs a call, and what the call is worth; only calling is corrected."""
        is_calling = item.part == "calling"
        grammar = item.kind if is_calling else self.grammar
        scene = item.scene
        if native_grammar(grammar):
            scene = scene or BenchScene()  # such models are never asked without a picture
        way = bench_way(grammar, Size(self.whole.width, self.whole.height))
        messages = way.asked(item.question, self._picture(scene))
        line = self._line(item, scene)
        corrections = BENCH_CORRECTIONS if is_calling else 0
        for number in range(corrections + 1):
            reply = self.ask(item, messages, grammar)
            line = _with_cost(line, reply)
            try:
                act = way.read(reply)
            except ToolError as error:
                # The first kind tells more than what a correction came to.
                line = replace(line, error=line.error or error.kind, corrections=number + 1)
                messages.append(Message("assistant", NO_CALL))
                messages.append(Message("user", way.correct(error)))
                continue
            line = replace(line, corrections=number, said=cut(str(act), 300))
            if is_calling:
                return replace(line, right=act.name == item.expected)
            return self._pointed(item, line, act)
        return line

    def _pointed(self, item: BenchItem, line: BenchLine, act: Act) -> BenchLine:
        """What a click would have hit."""
        places = values_of(act.args, Coordinate)
        if len(places) != 1 or act.name not in POINTING_ACTS:
            return replace(line, error=line.error or "another_act")
        (said,) = places
        point = to_point(said, self.whole)
        target = item.target
        true_x, true_y = grid_place(target, self.whole)
        middle = centre_of(target)
        return replace(
            line,
            right=target.contains(point),
            neighbour=any(place.contains(point) for place in item.neighbours),
            x=float(said.x),
            y=float(said.y),
            true_x=true_x,
            true_y=true_y,
            pixels_off=math.dist(point, middle),
        )


# What a request to click may be answered with.
POINTING_ACTS = ("click", "double_click")
# Faults of a server that are about the one request and the model.
BENCH_ANSWERED = ("context", "no_vision", "no_tools", "error", "not_json", "server", "timeout")


def _with_cost(line: BenchLine, reply: Reply) -> BenchLine:
    """The line with what one more request cost."""
    usage = reply.usage
    cached = line.cached
    if usage.cached_tokens is not None:
        cached = max(0, cached) + usage.cached_tokens
    return replace(
        line,
        requests=line.requests + 1,
        seconds=line.seconds + reply.seconds,
        prompt=line.prompt + (usage.prompt_tokens or 0),
        completion=line.completion + (usage.completion_tokens or 0),
        cached=cached,
    )


def _judged_reading(line: BenchLine, said: str) -> BenchLine:
    """Whether a text was read exactly; quotes around it do not count."""
    plain = said.strip("\"'` \n")
    return replace(line, right=plain == line.expected)


def _judged_verdict(line: BenchLine, said: str) -> BenchLine:
    """What the verifier would have believed: an answer that decides nothing is a NO."""
    rulings = read_rulings(said, ["the check"])
    if rulings is None:
        line = replace(line, error="undecided")
    believed = bool(rulings and rulings[0].holds)
    finished = line.expected == "yes"
    return replace(line, right=believed == finished)


_JUDGED: Mapping[str, Callable[[BenchLine, str], BenchLine]] = {
    "reading": _judged_reading,
    "judging": _judged_verdict,
    "cost": lambda line, said: line,
}


def bench_body(
    item: BenchItem, messages: Sequence[Message], grammar: str, config: Config, info: ModelInfo
) -> bytes:
    """The JSON of one request, built as a run builds it."""
    prompts = {"judging": VERIFIER_PROMPT, "pointing": BENCH_PROMPT, "calling": BENCH_PROMPT}
    manner = Manner(prompts.get(item.part, READING_PROMPT))
    native = native_grammar(grammar) if grammar else None
    if native:
        manner = native_manner(native, config, screen_size(config))
    elif grammar == "text":
        manner = Manner(BENCH_PROMPT + tools_in_text(BENCH_TOOLS))
    elif grammar:
        choice = tool_choice(config, info, "two_agent")
        manner = Manner(BENCH_PROMPT, BENCH_TOOLS, {"tools": BENCH_TOOLS, "tool_choice": choice})
    settings = model_settings(config, info) | _bench_sampling(config, bool(grammar))
    settings |= manner.settings
    if manner.system:
        messages = [Message("system", manner.system), *messages]
    return request_body(settings, messages)


def _bench_sampling(config: Config, acting: bool) -> JsonDict:
    """Temperature, limit and what else a person set: of the role that acts, or of the verifier."""
    settings: JsonDict = {
        "temperature": config.verifier_temperature,
        "max_tokens": config.verifier_max_tokens,
    }
    if acting:
        settings["temperature"] = config.lmstudio_temperature
        settings["max_tokens"] = config.executor_max_tokens
    for name in SAMPLING_IF_SET:
        value = getattr(config, name)
        if value is not None:
            settings[name] = value
    return settings
