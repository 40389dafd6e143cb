"""A bench from its order to its files: what is asked, kept and told."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from agent import (
    DEMO_TASKS,
    PROFILES,
    Actuator,
    AgentMemory,
    AgentState,
    Calibration,
    CalibrationKey,
    Clock,
    Config,
    ConfigError,
    DemoDesktop,
    DemoState,
    DemoTask,
    Engine,
    ExecutionLogger,
    Item,
    Message,
    ModelInfo,
    ModelServer,
    Phase,
    Rect,
    Reply,
    ResultRecord,
    Secrets,
    Stop,
    Terminal,
    at_own_size,
    calibration_key,
    choose_model,
    chosen_grammar,
    cut,
    demo_state,
    demo_task_called,
    grammar_for,
    keep_calibration,
    make_engine,
    read_config,
    run_agent,
    screen_size,
    with_demo_model,
)
from tests.bench.asking import (
    BENCH_QUICK,
    BENCH_SECONDS,
    BENCH_WHOLE,
    Bench,
    BenchAsk,
    BenchLine,
    BenchPlan,
    _line_for,
    bench_body,
    bench_items,
    native_grammar,
)
from tests.bench.figures import Advice, BenchResult, bench_advice, bench_result
from tests.bench.keeping import (
    BENCH_SEED,
    BENCH_SETTINGS,
    bench_about,
    bench_folder,
    minutes_text,
    requests_of,
    run_bench,
)
from tests.bench.leaflet import keep_result
from tests.bench.targets import BENCH_GRAMMARS, BenchItem, task_items

BENCH_TOLD_EVERY = 10  # requests, where no live line can show each


class BenchOrder(NamedTuple):
    """What a bench is asked for; each task of each profile is carried out `runs` times."""

    plan: BenchPlan
    profiles: Sequence[str]
    runs: int = 1


def bench_order(words: Sequence[str]) -> BenchOrder:
    """The order in these words; raises ConfigError for one that it does not know."""
    plan = BENCH_WHOLE
    profiles: dict[str, None] = {}
    runs = 1
    for word in words:
        if word == "quick":
            plan = BENCH_QUICK
        elif word in PROFILES:
            profiles[word] = None
        elif re.fullmatch("[1-9][0-9]?", word):
            runs = int(word)
        else:
            raise ConfigError(
                f"A bench takes quick, profiles ({', '.join(PROFILES)}) and how often each of"
                f" their tasks is run (1 to 99), not {word[:60]!r}."
            )
    return BenchOrder(plan, list(profiles), runs)


def bench_asking(config: Config, info: ModelInfo, server: ModelServer) -> BenchAsk:
    """Asks the person's own server."""

    def ask(item: BenchItem, messages: Sequence[Message], grammar: str) -> Reply:
        return server.complete(bench_body(item, messages, grammar, config, info))

    return ask


def bench_grammar(config: Config, profiles: Iterable[str], info: ModelInfo) -> str:
    """In which grammar a run of one of these profiles asks: tools, text, or one of a model's own.

    Raises ConfigError for a grammar that one of them does not take.
    """
    found = [chosen_grammar(config, PROFILES[name], info) for name in profiles]
    for grammar in found:
        if grammar:
            return grammar.name
    if config.calls == "auto":
        return "text" if info.tools is False else "tools"
    return config.calls


def called_grammars(asked_in: str, info: ModelInfo) -> list[str]:
    """In which grammars calling is asked: the tools', the run's, and that of the model's name."""
    trained_in = grammar_for(info.stored or info.name, info.architecture)
    grammars = dict.fromkeys([*BENCH_GRAMMARS, asked_in])
    return list(dict.fromkeys([*grammars, trained_in]))


def as_seen(config: Config, grammar: str) -> Config:
    """The config with the size of picture that models of the grammar see as it is."""
    native = native_grammar(grammar)
    if not native:
        return config
    seen = native.picture.seen_size(screen_size(config))
    return replace(config, screen_capture_w=seen.width, screen_capture_h=seen.height)


def measure_model(
    config: Config,
    order: BenchOrder,
    server: ModelServer,
    tell: Telling,
    player: Callable[[Path, ModelInfo], Callable[[BenchItem], BenchLine]] | None = None,
) -> int:
    """Measures the model, tells its figures and keeps them; raises ModelError and Stopped.

    What was measured until then is kept, told, and not asked again the next time.
    """
    info = server.discover()
    grammar = bench_grammar(config, order.profiles or [next(iter(PROFILES))], info)
    key = calibration_key(config, info, server.where)
    if native_grammar(grammar):
        key = key._replace(grammar=grammar)
    config = as_seen(config, grammar)
    about = bench_about(config, info, key, order.plan)
    about |= {"grammar": grammar, "profiles": list(order.profiles), "runs": order.runs}
    whole = Rect(0, 0, *screen_size(config))
    folder = bench_folder(Path(config.dump_dir), about)
    tasks = task_items(order.profiles, order.runs)
    grammars = called_grammars(grammar, info)
    items = [*bench_items(order.plan, BENCH_SEED, whole, grammars), *tasks]
    requests = requests_of(items)
    lasts = minutes_text(requests * BENCH_SECONDS)
    tell.say(
        f"Measuring {info.name} with some {requests} requests on drawn pictures,"
        f" {lasts} at {BENCH_SECONDS:g} s each, and more for replies that have to be corrected."
        " The desktop is not touched."
        f" Ctrl+C keeps what was measured in {folder}."
    )
    bench = Bench(bench_asking(config, info, server), whole, grammar)
    if player:
        bench.play = player(folder, info)
    lines: list[BenchLine] = []
    try:
        for line in run_bench(bench, items, folder, tell.progress):
            lines.append(line)
    finally:
        result = bench_result(about, lines)
        advice = bench_advice(result, info.context_length)
        tell_result(result, advice, tell)
        if len(lines) < len(items):
            tell.say(f"{len(lines)} of {len(items)} steps; start it again to go on.")
    keep_lines(config, key, info.build, result, tell)
    keep_result(folder, result, lines, advice)
    page = folder / "bench.html"
    tell.say(f"Written: {page}")
    tell.say(f"Settings that follow, for --config: {folder / BENCH_SETTINGS}")
    return 0


BENCH_TURNS_MOST = 20  # of a demo task, which takes a good model 4 to 9


@dataclass
class BenchPlayer:
    """Carries out the demo's tasks on the drawn desktop, with the person's own model."""

    configs: Mapping[str, Config]  # by profile
    server: ModelServer
    info: ModelInfo
    folder: Path  # holds the runs
    clock: Clock
    stop: Stop
    make: Callable[..., Engine]

    def __call__(self, item: BenchItem) -> BenchLine:
        """One task; raises Stopped, and ModelError if the server is gone."""
        task = demo_task_called(item.expected) or DEMO_TASKS[0]
        desktop = DemoDesktop(self.clock, demo_state(task.name))
        config = self._config(item.kind)
        with closing(ExecutionLogger(config.dump_dir)) as logger:
            engine = self._engine(config, item.kind, desktop, logger)
            changes: list[bool] = []
            logger.listen(partial(_note_change, changes))
            state = AgentState(task.text, AgentMemory(config.memory_compression_threshold))
            begin = self.clock.now()
            outcome = run_agent(engine, state)
        return replace(
            _line_for(item),
            right=demo_done(task, desktop.state),
            claimed=outcome.kind == "completed",
            turns=state.turn,
            wasted=max(0, state.turn - sum(changes)),
            said=cut(f"{outcome.kind}: {outcome.text}", 300),
            seconds=self.clock.now() - begin,
        )

    def _config(self, profile: str) -> Config:
        """The person's settings for a run that needs nobody, and ends."""
        config = self.configs[profile]
        return replace(
            config,
            dump_dir=str(self.folder / "tasks"),
            lmstudio_model=self.info.name,
            area="primary",
            confirm="never",
            turn_delay=0.0,
            max_steps=min(config.max_steps, BENCH_TURNS_MOST),
        )

    def _engine(
        self, config: Config, profile: str, desktop: DemoDesktop, logger: ExecutionLogger
    ) -> Engine:
        """The parts of a run, without anybody who looks on."""
        notice = partial(logger.log, level=2)
        actuator = Actuator(
            desktop, config, self.clock, self.stop, notice, lambda _: True, Secrets()
        )
        return self.make(
            config,
            PROFILES[profile],
            desktop,
            actuator,
            self.server,
            logger,
            self.clock,
            self.info,
            notice,
        )


def _note_change(changes: list[bool], item: Item) -> None:
    """Notes of each act whether the screen changed by it."""
    if isinstance(item, ResultRecord):
        changes.append(bool(item.changed))


def tell_result(result: BenchResult, advice: Sequence[Advice], tell: Telling) -> None:
    """The table and the advice."""
    for name, value in result.rows():
        tell.say(f"{name:<44} {value}")
    for item in advice:
        tell.say(f"advice: {item.text}")


def keep_lines(
    config: Config, key: CalibrationKey, build: str, result: BenchResult, tell: Telling
) -> None:
    """Keeps where the places lie beside the grid as a calibration, if that was found out."""
    if not result.x or not result.y:
        return
    measured = Calibration(
        key=key,
        build=build,
        measured=f"{datetime.now():%Y-%m-%d}",
        x=result.x,
        y=result.y,
    )
    keep_calibration(Path(config.dump_dir), measured, tell.say)


class Telling(NamedTuple):
    """How the person hears of it: lines that stay, and what goes on now."""

    say: Callable[[str], None]
    progress: Callable[[str], None]


def telling_on(terminal: Terminal) -> Telling:
    """On a terminal; where it has no live line, every tenth request leaves one."""
    told = count()

    def progress(text: str) -> None:
        terminal.take(Phase(text))
        if not terminal.live and next(told) % BENCH_TOLD_EVERY == 0:
            terminal.say(f"...   {text}")

    def tell(text: str) -> None:
        terminal.take(Phase(""))
        terminal.say(text, 0)

    return Telling(tell, progress)


def demo_done(task: DemoTask, state: DemoState) -> bool:
    """Whether a task is done, by what the desktop knows and not by its picture."""
    if task.name == "settings":
        return state.night_light and not state.program
    if task.name == "contacts":
        return state.called == "Zoe"
    return state.clean and state.saved_text == "Hello from agent.py"


def measure(
    options: argparse.Namespace,
    words: Sequence[str],
    stop: Stop,
    clock: Clock,
) -> int:
    """The person's own model on drawn pictures, or with --demo the built-in one."""
    order = bench_order(words)
    config = read_config(options, os.environ)
    with ExitStack() as undo:
        terminal = Terminal(clock, 1, str, undo)
        if options.demo:
            config = with_demo_model(config, options.profile, undo)
        key = os.environ.get("LMSTUDIO_API_KEY", "")
        config = at_own_size(options, config, clock)
        server = ModelServer(config, clock, stop, key, terminal.say)
        server.choose = choose_model
        configs: dict[str, Config] = {}
        for name in order.profiles:
            options.profile = name
            configs[name] = read_config(options, os.environ)

        def player(folder: Path, info: ModelInfo) -> BenchPlayer:
            return BenchPlayer(configs, server, info, folder, clock, stop, make_engine)

        return measure_model(config, order, server, telling_on(terminal), player)
