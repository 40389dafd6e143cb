"""One side of the comparison: what one agent.py does with the same cases, as lines of JSON.

    python -m tests.compare_side SEAM CASES OUTPUT

`python -m tests.compare` starts it once for each checkout, with that checkout's agent.py first on the path and this
tree's tests behind it, so that both sides are driven by the same code. Each line is {"seam", "case", "value"}; `case`
names the same case on both sides. Time is virtual everywhere, so that two runs of one checkout give the same lines.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import io
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import agent
from tests.fakes import FakeWin32, Foreground, VirtualClock
from tests.servers import ScriptedServer, Step, answer, hang_up, http, raw, reply, reset

Json = dict[str, Any]
Case = tuple[str, Any]  # its name, and what came of it
Random = random.Random

# -- time, which is the same on both sides


class Wall:
    """The time of day, which goes as fast as the virtual clock of the present run."""

    def __init__(self) -> None:
        self.clock = VirtualClock()

    def now(self) -> float:
        return 1_700_000_000 + self.clock.time


WALL = Wall()


class Today(datetime.datetime):
    """`datetime` by that time."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Today:
        return cls.fromtimestamp(WALL.now(), tz)


# What differs between two runs of the same, or follows from what is compared anyway, and how it is
# written instead: ports, the size of a request, the lines of a traceback, pictures.
ALIKE: tuple[tuple[str, Any], ...] = (
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\b\d+ bytes", "N bytes"),
    (r"Python 3\.\d+\.\d+", "Python 3"),
    (r"[\[<]image,? \d+ base64 characters, sha256 [0-9a-f]+[]>]", "[image]"),
    (r'(?m)^ *File ".*", line \d+, in .*\n(?: {6,}.*\n)*', "FILE\n"),
    (r"data:image/png;base64,[\w+/=]+", lambda url: picture_mark(url[0])),
)


def made_alike(text: str) -> str:
    """The one place for it; temporary folders differ, too."""
    text = text.replace(json.dumps(os.getcwd())[1:-1], "FOLDER").replace(os.getcwd(), "FOLDER")
    for pattern, instead in ALIKE:
        text = re.sub(pattern, instead, text)
    return text


def picture_mark(url: str) -> str:
    """By its pixels: how they are packed into a PNG is for each side to decide."""
    try:
        shown: Any = agent.png_to_rgb(base64.b64decode(url.partition(",")[2]))
    except ValueError:  # it is cut, or not a picture
        shown = url
    return f"picture {hashlib.sha256(repr(shown).encode()).hexdigest()[:12]}"


# -- the scripted model

MODEL = "qwen3-vl-2b-instruct"
TOKENS = {"planner": 1801, "executor": 1401, "judge": 200}  # of a reply, by which roles are told


def said(content: str) -> Json:
    return {"role": "assistant", "content": content}


def call(name: str, /, content: str = "", **arguments: Any) -> Json:
    """An assistant message with one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": "c1", "type": "function", "function": function}]
    return {"role": "assistant", "content": content, "tool_calls": calls}


# A reply in a bag: a message, the bytes of an HTTP answer, or a function of a random generator.
Bag = tuple[Any, ...]
TOO_LONG = http(400, {"error": "the request exceeds the available context size (n_ctx 4096)"})
FAULTS: Bag = (
    http(500, {"error": "internal error"}),
    http(503, {"error": "Loading model"}),
    http(200, {"choices": []}),
    http(200, b"<html>"),
    http(502, b"<p>Bad gateway" * 400),
    reset,
)
SLIPS: Bag = (
    said(""),
    said("I would click the button now."),
    said("<think>The button is at the left.</think>Let me think"),
    said('<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>'),
    said('{"name": "click", "arguments": {"position": [5'),
    said("ha " * 400),
    call("no_such_tool"),
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "assistant", "reasoning_content": "So I should click.", "content": ""},
)
PROOF = (
    "The button is pressed, the window shows the result and the title says that everything was"
    " saved as it should be; nothing else is left to do."
)


class Model(ScriptedServer):
    """Answers each role from its bag, by chance of its own: another number of requests of one
    role does not change what the others hear. `kept` has each request with its role and number."""

    def __init__(self, bags: dict[str, Bag], seed: str, context: int, clock: VirtualClock) -> None:
        super().__init__(hang_up)
        self.bags = bags
        self.seed = seed
        self.context = context
        self.clock = clock
        self.numbers = Counter[str]()
        self.kept: list[Case] = []

    def _step(self) -> Step:
        head, _, body = self.requests.pop().partition(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        if head.startswith(b"GET"):
            self.keep(f"GET {path}", "")
            return answer(*self.page(path))
        # The order of its parts counts, blanks between them do not.
        text = made_alike(json.dumps(json.loads(body), ensure_ascii=False))
        request = json.loads(text)
        most = request.get("max_tokens")
        role = next((role for role in TOKENS if TOKENS[role] == most), "executor")
        rng = Random(f"{self.seed}/{role}/{self.numbers[role]}")
        self.keep(role, text)
        self.clock.advance(0.5 + rng.random())
        # coarse, so that a word more in a request changes nothing else
        used = len(text) // 4 // 64 * 64 + 60 * text.count("picture ")
        if self.context and used > self.context:
            return raw(TOO_LONG)
        drawn = rng.choice(self.bags[role])
        while callable(drawn) and drawn is not reset:
            drawn = drawn(rng)
        if drawn is reset:
            return reset
        if isinstance(drawn, bytes):
            return raw(drawn)
        reason = rng.choice(("stop", "stop", "stop", "length"))
        usage = {"prompt_tokens": used, "completion_tokens": len(str(drawn)) // 4}
        choices = [{"index": 0, "message": drawn, "finish_reason": reason}]
        return answer(200, reply(choices=choices, usage=usage))

    def keep(self, what: str, text: str) -> None:
        self.numbers[what] += 1
        self.kept.append((f"{what} {self.numbers[what]}", text))

    def page(self, path: str) -> tuple[int, Json]:
        if path != "/api/v0/models":
            return 404, {"error": "Unexpected endpoint"}
        loaded = {"loaded_context_length": self.context or 32768, "state": "loaded"}
        return 200, {"data": [{"id": MODEL, "type": "vlm", **loaded}]}


# -- the simulated desktop

SCREEN = agent.Rect(0, 0, 640, 360)
LIVE = 400  # what is clicked left of this column changes the screen


def desktop(clock: VirtualClock, rng: Random) -> FakeWin32:
    """A small screen whose left part answers to input with another square and sometimes a title."""
    world = FakeWin32(monitors=[SCREEN], clock=clock, mouse=agent.Point(30, 30))
    world.window = Foreground("Untitled - Notepad", agent.Rect(0, 0, 600, 340))
    world.opens = Foreground("Letter - Notepad", agent.Rect(20, 20, 500, 300), handle=0x40002)
    marks = Counter[str]()

    def react(event: Any) -> None:
        acts = event.down or event.kind == "wheel"
        if not acts or event.kind == "move" or world.mouse.x >= LIVE:
            return
        marks["all"] += 1
        at = marks["all"]
        del world._paint[:-3]  # each one takes its time in every look
        world.fill(agent.Rect(at * 37 % 600, at * 53 % 320, 24, 18), at * 0x2F1D3B & 0xFFFFFF)
        if rng.random() < 0.1 and world.window:
            world.window = replace(world.window, title=f"Größe {at} - Notepad")

    world.on_event = react
    return world


# -- what the roles say, by profile


def place(rng: Random) -> list[int]:
    """A place on the grid, often in the part of the screen that answers, seldom outside."""
    x = rng.choice((rng.randint(0, 600), rng.randint(0, 1000), rng.randint(700, 1000)))
    return [x, rng.randint(0, 1000 if rng.random() < 0.95 else 1300)]


LABELS = ("OK", "Save", "Delete", "the field", "", "Größe", "Pay now", "icon " * 30)
KEYS = ("enter", "ctrl+s", "alt+f4", "win+l", "ctrl+alt+delete", "f5", "no_key", "a+b", "escape")
TEXTS = ("Hello", "Grüße 😀\n", "rm -rf /", "x" * 300, "")
TASKS = (
    "Press the button",
    'Write "Hello" into the note and save it as hello.txt',
    ("Öffne die Einstellungen und schalte den Ton aus. " * 4).strip(),
)


def two_agent_bags(names: dict[str, str], said_as: dict[str, str]) -> dict[str, Bag]:
    """What planner and executor say in a vocabulary: canonical name to name, argument to name."""

    def acting(tool: str, **arguments: Any) -> Json:
        named = {said_as.get(name, name): value for name, value in arguments.items()}
        return call(names.get(tool, tool), "SCREEN_SHOWS: x\nNEXT_STEP: y", **named)

    def label(rng: Random) -> str:
        return rng.choice(LABELS)

    def clicking(tool: str) -> Callable[[Random], Json]:
        return lambda rng: acting(tool, element_name=label(rng), position=place(rng))

    executor: Bag = (
        *map(clicking, ("click",) * 8 + ("double_click", "right_click")),
        lambda rng: acting("drag", element_name=label(rng), start=place(rng), end=place(rng)),
        lambda rng: acting("type_text", text=rng.choice(TEXTS)),
        lambda rng: acting("type_text", text=rng.choice(TEXTS), position=place(rng), submit=True),
        *(lambda rng: acting("press_key", key=rng.choice(KEYS)),) * 2,
        lambda rng: acting("scroll_down"),
        lambda rng: acting("scroll_up", position=place(rng)),
        lambda rng: acting("open_app", name=rng.choice(("Notepad", "cmd", "Paint"))),
        lambda rng: acting("focus_window", title=rng.choice(("Untitled", "nothing"))),
        lambda rng: acting("wait", seconds=2),
        lambda rng: acting("zoom", position=place(rng)),
        lambda rng: acting(
            "report_status",
            goal_identifier="1",
            completion_status=rng.choice(("COMPLETED", "BLOCKED", "IN_PROGRESS", "maybe")),
            evidence=rng.choice((PROOF, "done")),
        ),
        lambda rng: acting("report_complete", evidence=rng.choice((PROOF, PROOF, "done"))),
        lambda rng: rng.choice(SLIPS),
        lambda rng: rng.choice(FAULTS),
    )
    archiving = {"patterns_detected": "none", "archived_turns": [2, 3, 4]}

    def plan(rng: Random) -> Json:
        words = f"Click the button {rng.randint(1, 9)}."
        given = {"instructions": words, said_as.get("update_plan.reasoning", "reasoning"): "why"}
        if rng.random() < 0.3:
            given["done_when"] = ["The button is pressed", "hello.txt exists"]
        return acting("update_plan", **given)

    planner: Bag = (
        *(plan,) * 5,
        lambda rng: acting("archive", summary="Some clicks.", **archiving),
        lambda rng: rng.choice(SLIPS),
        lambda rng: rng.choice(FAULTS),
    )
    return {"planner": planner, "executor": executor, "judge": JUDGES}


JUDGES: Bag = (
    said("1. YES: the window shows it\n2. YES: so it is\n3. YES: it is"),
    said("1: NO, the window does not show it"),
    said("YES: it is done"),
    said("NO: nothing to be seen"),
    said("1. The button is pressed\n2. The window shows the result"),
    said("I cannot tell."),
    http(500, {"error": "internal error"}),
)
PLANNER_NAMES = {
    **{name: f"{name}_screen_element" for name in ("click", "double_click", "right_click", "drag")},
    "type_text": "type_text_input",
    "press_key": "press_keyboard_key",
    "scroll_down": "scroll_screen_down",
    "scroll_up": "scroll_screen_up",
    "report_status": "report_goal_status",
    "report_complete": "report_mission_complete",
    "update_plan": "update_execution_plan",
    "archive": "archive_completed_actions",
}
COMMANDER_NAMES = {
    **{name: f"{name}_element" for name in ("click", "double_click", "right_click", "drag")},
    "report_status": "report_progress",
    "report_complete": "report_completion",
    "update_plan": "spawn_operator",
    "archive": "compress_memory",
}
COMMANDER_ARGUMENTS = {
    "element_name": "label",
    "goal_identifier": "objective_id",
    "completion_status": "status",
    "summary": "compression_summary",
    "patterns_detected": "loop_analysis",
    "instructions": "operator_instructions",
    "update_plan.reasoning": "rationale",
}


def chat_bag(*acts: Callable[[Random], Json]) -> dict[str, Bag]:
    more: Bag = (
        lambda rng: call("type_text", text=rng.choice(TEXTS)),
        lambda rng: said("The button is pressed, and the window shows it."),
        lambda rng: rng.choice(SLIPS),
        lambda rng: rng.choice(FAULTS),
    )
    return {"executor": (*acts, *acts, *more), "judge": JUDGES}


CHAT = chat_bag(
    lambda rng: call("observe_screen"),
    lambda rng: call("click_element", label=rng.choice(LABELS), box=place(rng)),
    lambda rng: call("click_element", "<think>So.</think>", label="OK", box=place(rng) * 2),
    lambda rng: call("press_key", key=rng.choice(KEYS)),
    lambda rng: call("scroll_at_position", box=place(rng), ticks=rng.choice((-3, 3, 500))),
)
POINTER = chat_bag(
    lambda rng: call("take_screenshot"),
    lambda rng: call("move_mouse", **dict(zip("xy", place(rng), strict=True))),
    lambda rng: call("click_mouse"),
    lambda rng: call("click_mouse", button="right"),
    lambda rng: call("scroll_down"),
)


def story(rng: Random) -> Json:
    """A story's reply with some actions and boxes."""
    actions = [rng.choice(STORY_ACTIONS)(rng) for _ in range(rng.randint(0, 7))]
    boxes = []
    for _ in range(rng.randint(0, 10)):
        boxes.append(dict(zip(("x1", "y1", "x2", "y2"), place(rng) + place(rng), strict=True)))
    words = {"observation": "I see a window. " * rng.randint(1, 9), "actions": actions}
    return said(rng.choice(("", "<think>Hm.</think>")) + json.dumps({**words, "bboxes": boxes}))


def story_place(rng: Random, *names: str) -> Json:
    x, y = place(rng)
    return {names[0]: x, names[1]: y}


STORY_ACTIONS: tuple[Callable[[Random], Json], ...] = (
    lambda rng: {"name": "click", "label": "OK", **story_place(rng, "x1", "y1")},
    lambda rng: {"name": "double_click", **story_place(rng, "x1", "y1")},
    lambda rng: {"name": "move", **story_place(rng, "x1", "y1")},
    lambda rng: {"name": "drag", **story_place(rng, "x1", "y1"), **story_place(rng, "x2", "y2")},
    lambda rng: {"name": "type", "text": rng.choice(TEXTS)},
    lambda rng: {"name": "key", "key": rng.choice(KEYS)},
    lambda rng: {"name": "scroll", "ticks": 2, **story_place(rng, "x1", "y1")},
    *(lambda rng, name=name: {"name": name} for name in ("dance", "wait", "done")),
)
STORY: dict[str, Bag] = {
    "executor": (*(story,) * 6, lambda rng: rng.choice(SLIPS), lambda rng: rng.choice(FAULTS)),
    "judge": JUDGES,
}


def qwen(**arguments: Any) -> Json:
    written = json.dumps({"name": "computer_use", "arguments": arguments})
    return said(f"Action: do it.\n<tool_call>\n{written}\n</tool_call>")


def tars(words: str) -> Json:
    return said(f"Thought: I do it.\nAction: {words}")


QWEN: Bag = (
    *(lambda rng: qwen(action="left_click", coordinate=place(rng)),) * 5,
    lambda rng: qwen(action="type", text=rng.choice(TEXTS)),
    lambda rng: qwen(action="key", keys=rng.choice((["ctrl", "s"], ["enter"], ["no_key"]))),
    lambda rng: qwen(action="scroll", coordinate=place(rng), pixels=-5),
    lambda rng: qwen(action="left_click_drag", coordinate=place(rng)),
    lambda rng: qwen(action="wait", time=2),
    lambda rng: qwen(action="terminate", status=rng.choice(("success", "failure"))),
    lambda rng: qwen(action="answer", text="It is done."),
    lambda rng: qwen(action="dance"),
    lambda rng: rng.choice(SLIPS),
    lambda rng: rng.choice(FAULTS),
)
TARS: Bag = (
    *(lambda rng: tars("click(start_box='({},{})')".format(*place(rng))),) * 5,
    *map(tars, ("type(content='Hello')", "hotkey(key='ctrl s')")),
    *map(tars, ("scroll(start_box='(30,40)', direction='down')", "wait()")),
    *map(tars, ("finished(content='It is done.')", "call_user()", "dance()")),
    lambda rng: rng.choice(SLIPS),
    lambda rng: rng.choice(FAULTS),
)
BAGS = {
    "planner": two_agent_bags(PLANNER_NAMES, {}),
    "commander": two_agent_bags(COMMANDER_NAMES, COMMANDER_ARGUMENTS),
    "chat": CHAT,
    "pointer": POINTER,
    "story": STORY,
    "native": {"executor": QWEN, "judge": JUDGES},
}
DEAD = {  # nothing but acts that change nothing: the ladder of a run that is stuck
    "planner": call("click_screen_element", element_name="OK", position=[900, 500]),
    "commander": call("click_element", label="OK", position=[900, 500]),
    "chat": call("click_element", label="OK", box=[900, 500]),
    "pointer": call("click_mouse"),
    "story": said('{"observation": "x", "actions": [{"name": "click", "x1": 900, "y1": 500}]}'),
    "native": qwen(action="left_click", coordinate=[900, 500]),
}


# -- whole runs


class Run(NamedTuple):
    """One run of a profile; `bags` are its own where it does not take the profile's."""

    name: str
    profile: str
    settings: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    bags: dict[str, Bag] = {}
    context: int = 0
    task: str = TASKS[0]
    more_steps: int = 0  # of the run when it is resumed


FIXED = (
    *(f"{role}_max_tokens={most}" for role, most in TOKENS.items() if role != "judge"),
    "screen_capture_w=64",
    "screen_capture_h=36",
    "drag_steps=3",
    "keep_runs=0",
    "confirm=never",
    "dump_dir=dumps",
    "boot_vlm_output={}",
)
MEMORY = ("memory_compression_threshold=6", "review_interval=3")


def runs() -> Iterator[Run]:
    """The scripted runs: of each profile one of everything, one that archives, one that is stuck, one
    whose server fails and that is resumed; and what only some profiles do."""
    for profile in BAGS:
        long = ("max_steps=30", "model_failures=50", "not_proven_most=9")
        yield Run("varied", profile, long)
        yield Run("archiving", profile, (*long, *MEMORY), context=6000, task=TASKS[2])
        yield Run("as described", profile, (*long, "described=true"), task=TASKS[1])
        yield Run("calls in the text", profile, (*long[:3], "calls=text"), task=TASKS[1])
        bags = {**BAGS[profile], "executor": (DEAD[profile],)}
        yield Run("stuck", profile, ("max_steps=20",), (), bags)
        bags = {**BAGS[profile], "executor": (*BAGS[profile]["executor"], TOO_LONG, *FAULTS)}
        bags["judge"] = (said("1: NO, it does not show it"),)
        failing = ("max_steps=6", "model_failures=2", "request_retries=0")
        yield Run("failing, resumed", profile, failing, (), bags, more_steps=12)
        dry = ("--dry-run",)
        yield Run("dry", profile, ("max_steps=8", "confirm=risky", *long[1:]), dry)
    bags = {"executor": TARS, "judge": JUDGES}
    long = ("max_steps=20", "model_failures=50")
    yield Run("tars", "native", (*long, "executor_grammar=ui-tars-1.5"), (), bags)


NOTEPAD = agent.Program("Notepad", "C:\\notepad.lnk", ("notepad.exe",))


def no_process(_: Any) -> Any:
    """Nobody here is asked for controls."""
    raise PermissionError("no process")


def begin_on(world: FakeWin32, clock: VirtualClock) -> None:
    """Puts the simulated Windows and its time in the place of the real ones."""
    WALL.clock = clock
    for what, value in (
        ("load_win32", lambda *names: world.api),
        ("SystemClock", lambda stop: clock_of(clock, stop)),
        ("lmstudio_logs", dict),
        ("known_programs", lambda environment: [NOTEPAD]),
    ):
        setattr(agent, what, value)
    multiprocessing.get_context = no_process  # type: ignore[assignment]


def begin(arguments: list[str], world: FakeWin32, clock: VirtualClock) -> Json:
    """What the program's own main() says and returns on this desktop."""
    begin_on(world, clock)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code: Any = agent.main(arguments)
        except Exception as error:  # a bug is a result, too
            code = f"{type(error).__name__}: {error}"
    return {"code": code, "said": made_alike(out.getvalue())}


def clock_of(clock: VirtualClock, stop: Any) -> VirtualClock:
    clock.stop = stop
    return clock


def carry_out(run: Run, seed: str) -> Iterator[Case]:
    """One run, and what is left of it."""
    random.seed(seed)
    clock = VirtualClock()
    world = desktop(clock, Random(seed))
    bags = run.bags or BAGS[run.profile]
    with temporary_folder(), Model(bags, seed, run.context, clock) as model:
        settings = [part for item in (*FIXED, *run.settings) for part in ("--set", item)]
        arguments = ["--profile", run.profile, "--endpoint", model.url, *settings]
        yield "main", begin([*arguments, *run.arguments, run.task], world, clock)
        if run.more_steps:
            model.bags = BAGS[run.profile]
            world = desktop(clock, Random(seed))  # the keys that stop the first run are its own
            more = ["--set", f"max_steps={run.more_steps}", "--resume"]
            yield "main, resumed", begin([*arguments[2:], *more], world, clock)
        yield from model.kept
        yield "typed", world.typed
        yield "clicks", [[click.button, *click.place] for click in world.clicks]
        yield "problems", world.problems
        yield from files_of(Path("dumps"))


@contextlib.contextmanager
def temporary_folder() -> Iterator[None]:
    """A working folder that goes away."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def files_of(folder: Path) -> Iterator[Case]:
    """Each journal line, the log and the data of the report, and the names of all files."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    yield "files", names
    for path in sorted(folder.rglob("turns.jsonl")):
        numbers = Counter[str]()
        lines = made_alike(path.read_text("utf-8")).splitlines()
        for record in parts_named([*map(json.loads, lines)]):
            numbers[record["kind"]] += 1
            yield f"journal {record['kind']} {numbers[record['kind']]}", record
    for path in sorted([*folder.rglob("*.log"), *folder.rglob("execution_log.txt")]):
        text = re.sub(r"(?m)^ *Config\(.*", setting_a_line, path.read_text("utf-8"))
        yield f"log {re.sub(r'[0-9]', '', path.name)}", made_alike(text)
    for path in sorted(folder.rglob("report.html")):
        yield "report", report_data(path.read_text("utf-8"))


def setting_a_line(config: re.Match[str]) -> str:
    """The log's line of all settings as lines of one each."""
    return re.sub(r", (?=\w+=)", ",\n    ", config[0])


def report_data(page: str) -> list[Any]:
    """What a page is told, without the page."""
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    return parts_named([json.loads(made_alike(block)) for block in blocks])


def parts_named(value: Any) -> Any:
    """The same, each part of a request named by the digest of what it is now, since a port is in it no more."""
    named: dict[str, str] = {}

    def visit(inner: Any) -> None:
        for name, part in inner.items() if isinstance(inner, dict) else enumerate(inner):
            if name == "parts" and isinstance(part, dict):
                for old, text in part.items():
                    named[old] = hashlib.sha256(json.dumps(text).encode()).hexdigest()[:12]
            if isinstance(part, (dict, list)):
                visit(part)

    visit(value)
    written = json.dumps(value)
    by_content = re.sub(r"\b[0-9a-f]{12}\b", lambda name: named.get(name[0], name[0]), written)
    return json.loads(by_content)


def seam_runs(cases: int) -> Iterator[Case]:
    """The scripted runs of the six profiles; for fewer than 100 cases short ones, below 50 one of each."""
    for run in runs():
        if cases < 100:
            run = run._replace(settings=(*run.settings, f"max_steps={max(4, cases // 4)}"))
        if cases >= 50 or run.name == "varied":
            for name, value in carry_out(run, f"{run.profile}/{run.name}"):
                yield f"{run.profile}, {run.name}: {name}", value


# -- a reply and the call, or the correction, that comes of it

HERE = Path(__file__).parent
PIECES = (
    *('"', "'", "\\", "{", "}", "[", "]", "(", ")", ",", ":", " ", "\n", "\0", "\ud800", "é", "0"),
    *("-", ".", "9" * 30, "1e999", "NaN", "null", "true", "{" * 40, '{"a":' * 40, "```json\n"),
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>", "[1, 2]", "functions."),
    *('"name": ', '"arguments": {', '"position": [1, 2], ', "Action: ", "start_box=", "click("),
)
REASONS = ("stop", "tool_calls", "length", None)


def lines_of(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def changed_text(rng: Random, text: str) -> str:
    """The text with something put in, taken out, turned round or cut off."""
    here, there = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    changed: tuple[Callable[[], str], ...] = (
        lambda: text[:here] + rng.choice(PIECES) + text[here:],
        lambda: text[:here] + rng.choice(PIECES) + text[here + 1 :],
        lambda: text[:here] + text[here + 1 : there] + text[here : here + 1] + text[there:],
        lambda: text[:here] + text[there:],
        lambda: text[:here] + text[there:] + text[here:there],
        lambda: text[:there],
    )
    return rng.choice(changed)()


def changed_message(rng: Random, message: Json) -> Json:
    """A reply with up to three slips in its text, or in the arguments of its call."""
    written = json.dumps(message)
    message = json.loads(written)
    calls = message.get("tool_calls")
    holder: Any = message
    key = "content"
    if isinstance(calls, list) and calls and isinstance(calls[0], dict):
        holder = calls[0].get("function")
        key = "arguments"
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        if isinstance(holder, dict) and isinstance(holder.get(key), str):
            holder[key] = changed_text(rng, holder[key])
    return message


def outcome(read: Callable[[], Any]) -> Any:
    """What reading gives, or the error and what the model would be told."""
    try:
        return read()
    except Exception as error:  # a bug is a result, too
        kind = agent.ToolError if isinstance(error, agent.ToolError) else type(error)
        return [kind.__name__, getattr(error, "kind", ""), str(error)]


def read_reply(message: Json, reason: str | None, words: Any) -> Any:
    """The call in a reply and the act that it means; or the correction."""
    try:
        act = agent.read_call(message, reason, words)
    except agent.ToolError as error:
        return [error.kind, str(error), agent.correction(error, words)]
    return [act.call.name, act.call.arguments, act.name, act.shown]


def drawn_message(rng: Random, bag: Bag) -> Json:
    """A message of a bag; what is no message is drawn again."""
    drawn = rng.choice(bag)
    while callable(drawn) and drawn is not reset:
        drawn = drawn(rng)
    return drawn if isinstance(drawn, dict) else drawn_message(rng, bag)


def vocabularies() -> Json:
    """By what names the replies that the tests keep call the tools."""
    words = {name: profile.vocabulary for name, profile in agent.PROFILES.items()}
    planner = {**words["planner"].tools, "scroll": "scroll_screen"}
    words["planner"] = agent.Vocabulary(planner, {"ticks": "amount", "modifiers": {}})
    words["other"] = agent.Vocabulary({"wait": "wait"})
    return words


def reply_of_case(rng: Random, kept: list[Json], words: Json) -> Any:
    """A reply that the tests keep, in the tools that it was made in."""
    case = rng.choice(kept)
    return read_reply(
        changed_message(rng, case["message"]), rng.choice(REASONS), words[case["tools"]]
    )


def reply_of_role(rng: Random) -> Any:
    """A reply of a scripted role, in the tools of that role's requests."""
    profile = agent.PROFILES[rng.choice(("planner", "commander", "chat", "pointer"))]
    role = rng.choice(sorted(BAGS[profile.name].keys() - {"judge"}))
    names = profile.roles[role].tools
    shown = {name: profile.vocabulary.tools[name] for name in names}
    message = changed_message(rng, drawn_message(rng, BAGS[profile.name][role]))
    words = replace(profile.vocabulary, tools=shown)
    return read_reply(message, rng.choice(REASONS), words)


def reply_of_grammar(rng: Random, kept: list[Json]) -> Any:
    """A reply in a model's own grammar."""
    case = rng.choice(kept)
    message = changed_message(rng, case["message"])
    grammar = agent.GRAMMARS[case["grammar"]]
    size = tuple(case.get("image") or (1280, 720))

    def read() -> Any:
        call = grammar.read(message, rng.choice(REASONS), size)
        return [call.name, call.arguments]

    return outcome(read)


def reply_of_story(rng: Random) -> Any:
    """A story's reply, and what each of its actions means."""
    message = changed_message(rng, drawn_message(rng, STORY["executor"]))
    words = agent.PROFILES["story"].vocabulary
    observation, actions, boxes = agent.read_story(message)

    def one(action: Any) -> Any:
        act = agent.read_action(action, observation, words)
        return [act.name, act.shown]

    return [observation, [outcome(partial(one, action)) for action in actions], boxes]


def seam_replies(cases: int) -> Iterator[Case]:
    """Replies whole and with slips, in all vocabularies and grammars."""
    folder = HERE / "replies"
    words = vocabularies()
    kept = [case for path in sorted(folder.glob("*.jsonl")) for case in lines_of(path)]
    kept = [case for case in kept if len(str(case)) < 3000]
    grammars = lines_of(HERE / "data" / "grammars.jsonl")
    kinds: tuple[tuple[str, Callable[[Random], Any]], ...] = (
        ("kept", lambda rng: reply_of_case(rng, kept, words)),
        ("role", reply_of_role),
        ("grammar", lambda rng: reply_of_grammar(rng, grammars)),
        ("story", reply_of_story),
    )
    for number in range(cases):
        kind, read = kinds[number % 4]
        yield f"{kind} {number}", read(Random(f"reply {number}"))


# -- an act and windows, and what the gates say

AREA = agent.Rect(0, 0, 560, 320)


def front(
    title: str, rect: tuple[int, int, int, int], path: str, *more: Any, **named: Any
) -> Foreground:
    return Foreground(title, agent.Rect(*rect), path, *more, **named)


NOTEPAD_PATH = Foreground().path
WINDOWS = (
    front("Untitled - Notepad", (0, 0, 400, 300), NOTEPAD_PATH, 0x20002),
    front("My BANK - Browser", (100, 50, 500, 200), "C:\\b\\chrome.exe", 0x20004, 12),
    front("Task Manager", (0, 0, 300, 200), "C:\\w\\taskmgr.exe", 0x20006, 13, level=0x3000),
    front("cmd", (50, 50, 300, 250), "C:\\w\\cmd.exe", 0x20008, 14, "ConsoleWindowClass"),
    front("Delete File", (150, 80, 200, 120), NOTEPAD_PATH, 0x2000A, 4711, "#32770", 0x20002),
    front("Anmelden", (570, 0, 60, 100), "C:\\x\\keepass.exe", 0x2000C, 15),
    front("Start", (0, 300, 640, 60), "C:\\w\\explorer.exe", 0x2000E, 16, "Shell_TrayWnd"),
    front("Bob - Chat", (10, 10, 620, 340), "C:\\c\\chat.exe", 0x20010, 17),
)
SETTINGS: tuple[Json, ...] = (
    {},
    {},
    {"confirm": "always"},
    {"confirm": "never"},
    {"dry_run": True},
    {"blocked_windows": "*bank*; keepass.exe", "allow_risky": "run; send in *Bob*"},
    {"allowed_windows": "*notepad*; *chat*", "confirm": "never"},
    {"controls": "off", "risky_words": "ok; größe"},
    {"allow_risky": "password; any act in *Bob*"},
    {"blocked_keys": "ctrl+s; f5", "acts_per_minute": 2},
)
LABELS_MORE = (
    *LABELS,
    *"Send|Format C:|Zahlungspflichtig bestellen|ＤＥＬＥＴＥ|x|Pin to".split("|"),
)
TEXTS_MORE = (
    *TEXTS,
    *"rd /s /q c:\\|hunter2|{{PIN}}|powershell -e|shutdown now\n|a b".split("|"),
)
KEYS_MORE = (*KEYS, *"delete shift+delete win+r alt win shift a tab ctrl+alt+q".split())


def random_act(rng: Random) -> tuple[str, Json]:
    """A tool by its canonical name, and its arguments."""
    label = {"element_name": rng.choice(LABELS_MORE)}
    at = {"position": place(rng)}
    entered = {"clear": True, "submit": True}
    programs = ("Notepad", "cmd", "cmd /c x", "regedit", "Paint")
    acts: tuple[Callable[[], tuple[str, Json]], ...] = (
        lambda: (rng.choice(("click", "double_click", "right_click")), {**label, **at}),
        lambda: ("click", {**label, **at}),
        lambda: ("drag", {**label, "start": place(rng), "end": place(rng)}),
        lambda: ("type_text", {"text": rng.choice(TEXTS_MORE)}),
        lambda: ("type_text", {"text": rng.choice(TEXTS_MORE), **at, **entered}),
        lambda: ("press_key", {"key": rng.choice(KEYS_MORE)}),
        lambda: ("press_key", {"key": rng.choice(KEYS_MORE), "then": [rng.choice(KEYS_MORE)]}),
        lambda: (rng.choice(("key_down", "key_up")), {"key": rng.choice(KEYS_MORE)}),
        lambda: ("scroll_down", {}),
        lambda: ("open_app", {"name": rng.choice(programs)}),
        lambda: ("focus_window", {"title": rng.choice([w.title for w in WINDOWS] + ["nothing"])}),
        lambda: ("move", at),
        lambda: ("click_here", {}),
    )
    return rng.choice(acts)()


def random_control(rng: Random) -> Any:
    """What Windows may know to be somewhere."""
    rect = agent.Rect(rng.randint(0, 300), rng.randint(0, 200), rng.randint(20, 400), 150)
    return agent.Control(
        rng.choice(LABELS_MORE),
        rng.choice(("button", "edit", "link", "menu item", "document")),
        rect,
        focused=rng.random() < 0.5,
        password=rng.random() < 0.3,
        window=rng.choice(WINDOWS).handle,
        program=rng.choice(("notepad.exe", "keepass.exe", "")),
    )


class Verdicts:
    """A person, a few windows and an actuator: one case of the gates."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.world = FakeWin32(monitors=[SCREEN], mouse=agent.Point(rng.randint(0, 600), 30))
        self.clock = self.world.clock
        self.told: list[Any] = []
        self.frame: Any = None
        self.change_windows()
        begin_on(self.world, self.clock)
        self.desktop = agent.WindowsDesktop(self.world.api, self.clock)
        known = [random_control(rng) for _ in range(rng.choice((0, 0, 1, 2, 4)))]
        self.desktop.control_source = agent.KnownControls(known)
        config = agent.load_config({"case": rng.choice(SETTINGS)})
        self.actuator = agent.Actuator(
            self.desktop,
            config,
            self.clock,
            agent.Stop(),
            lambda text: self.told.append(["told", text]),
            self.answer,
            agent.Secrets({"PIN": "4711"}),
        )
        self.actuator.task = rng.choice(("Open regedit and look", TASKS[0]))

    def change_windows(self) -> None:
        front, *others = self.rng.sample(WINDOWS, self.rng.randint(1, 4))
        self.world.window = front
        self.world.others = others

    def answer(self, question: str) -> bool:
        """The person says yes or no; meanwhile the screen may change."""
        self.told.append(["asked", question])
        self.clock.advance(self.rng.choice((1, 30, 90)))
        self.meanwhile(0.2)
        return self.rng.random() < 0.6

    def meanwhile(self, chance: float) -> None:
        """Something may happen between the look and the act."""
        happens: tuple[Callable[[], Any], ...] = (
            self.change_windows,
            lambda: self.world.fill(agent.Rect(0, 0, 500, 300), self.rng.randint(0, 0xFFFFFF)),
            lambda: self.world.person(agent.Point(5, 5)),
            lambda: setattr(self.world, "locked", True),
            lambda: self.world.monitors.append(agent.Rect(640, 0, 100, 100)),
            lambda: self.clock.advance(70),
        )
        if self.rng.random() < chance:
            self.rng.choice(happens)()

    def act(self) -> None:
        """One act on a look of its own, step by step until one is refused."""
        words = agent.Vocabulary({name: name for name in agent.TOOLS})
        name, arguments = random_act(self.rng)
        given = json.dumps(arguments)
        if self.rng.random() < 0.1:
            given = changed_text(self.rng, given)
        message = {"tool_calls": [{"function": {"name": name, "arguments": given}}]}
        try:
            offered = replace(words, tools={name: name}, shapes={"modifiers": {}})
            act = agent.read_call(message, "stop", offered)
        except agent.AgentError as error:
            self.told.append(["no act", str(error)])
            return
        for step in agent.steps_of(act):
            if self.rng.random() < 0.9 or not self.frame:  # else the same look once more
                self.frame = self.desktop.capture(AREA, 56, 32)
            self.meanwhile(0.3)
            done = self.actuator.perform(step, self.frame)
            self.told.append([step.name, step.shown, done.result, done.refused, done.acted])
            if done.refused:
                return

    def left(self) -> Json:
        """What became of it all."""
        world = self.world
        return {
            "acts": self.told,
            "typed": world.typed,
            "clicks": [[click.button, *click.place, click.double] for click in world.clicks],
            "events": dict(world.kinds()),
            "opened": world.programs_opened,
            "front": world.window and world.window.title,
            "seconds": round(self.clock.time, 3),
            "problems": world.problems,
        }


def seam_verdicts(cases: int) -> Iterator[Case]:
    """Acts on random windows, up to three in a row, and a person who may be asked."""
    for number in range(cases):
        rng = Random(f"verdict {number}")
        verdicts = Verdicts(rng)
        for _ in range(rng.choice((1, 1, 2, 3))):
            outcome(verdicts.act)
        yield f"{number}", verdicts.left()


# -- two looks and what changed between them


def blocks(rng: Random, width: int, height: int) -> bytearray:
    """A picture of a few plain rectangles."""
    pixels = bytearray(bytes((rng.randint(0, 255), 30, 60, 0)) * (width * height))
    for _ in range(rng.randint(0, 5)):
        paint(rng, pixels, width, height, rng.randint(1, width), rng.randint(1, height))
    return pixels


def paint(rng: Random, pixels: bytearray, width: int, height: int, across: int, down: int) -> None:
    """A rectangle of one colour, somewhere in the picture."""
    left = rng.randint(0, max(0, width - across))
    top = rng.randint(0, max(0, height - down))
    row = bytes(rng.randint(0, 255) for _ in range(3)) + b"\0"
    for y in range(top, min(height, top + down)):
        first = 4 * (y * width + left)
        count = min(across, width - left)
        pixels[first : first + 4 * count] = row * count


def seam_changes(cases: int) -> Iterator[Case]:
    """Pictures before and after carets, blots, rows, single pixels and nothing at all."""
    for number in range(cases):
        rng = Random(f"change {number}")
        width, height = rng.randint(1, 64), rng.randint(1, 64)
        before = blocks(rng, width, height)
        after = bytearray(before)
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            thin = ((1, rng.randint(6, 50)), (rng.randint(1, 6), 12), (1, 1))
            flat = (rng.randint(1, 64), 3)
            across, down = rng.choice((*thin, flat, (rng.randint(1, 40), rng.randint(1, 40))))
            paint(rng, after, width, height, across, down)
        scale = rng.choice((1, 1, 2, 4))
        yield f"{number}", agent.difference(bytes(before), bytes(after), width, scale)


# -- a journal, and what is said of the run

ARCHIVED: Json = {"archived_count": 2, "turns": [2, 3]}
REFUSED: Json = {"check": "pressed", "holds": False, "why": "not seen"}
BARE: Json = {"config": {}}
SAMPLES: tuple[Json, ...] = (
    {"kind": "role", "name": "executor", "system": "You act.", "tools": []},
    {"kind": "hint", "text": "Take the other button."},
    {"kind": "no_call", "error": "no_call", "text": "The reply holds no tool call."},
    {"kind": "model_failed", "error": "server", "text": "The server is busy."},
    {"kind": "archive", "summary": "Some.", "patterns": "none", **ARCHIVED},
    {"kind": "verification", "text": "NO: not pressed", "checks": [REFUSED]},
    {"kind": "resume", "version": "1", "profile": "planner", "model": "m", "task": "t", **BARE},
    {"kind": "result", "result": "No.", "refused": "risky", "changed": None, "seconds": 3.5},
    {"kind": "secret", "handle": 1, "program": "x.exe", "region": [1, 2, 3, 4]},
    {"kind": "of_tomorrow", "text": "?"},
    {"kind": "end", "outcome": "stuck", "text": "No progress.", "turns": 9, "seconds": 9.0},
)
LONG = "x" * 400
ODD = (None, True, 0, -1, 1e308, 10**30, "", LONG, "<script>", [], {}, [[]], {"a": None})


def random_journal(rng: Random, kept: list[str]) -> bytes:
    """A part of a kept journal in which lines and fields came, went or are odd."""
    records: list[Json] = json.loads(rng.choice(kept))
    end = rng.randint(1, len(records))
    first = rng.randint(0, 8) if rng.random() < 0.1 else 0
    records = records[min(first, end - 1) : end]
    for _ in range(rng.randint(0, 6)):
        turn = rng.randint(0, 9)
        sample = {**rng.choice(SAMPLES), "turn": turn, "time": 1795344800.0 + 3 * turn}
        records.insert(rng.randint(min(1, len(records)), len(records)), sample)
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        spoil(rng, rng.choice(records))
    lines = [json.dumps(record) for record in records]
    if rng.random() < 0.2:
        lines[-1] = lines[-1][: rng.randint(0, len(lines[-1]))]
    return "\n".join([*lines, ""] if rng.random() < 0.9 else lines).encode()


def spoil(rng: Random, record: Any) -> None:
    """One field of a record, at any depth, gets an odd value or goes."""
    while isinstance(record, dict | list) and record:
        key = rng.choice(list(record) if isinstance(record, dict) else list(range(len(record))))
        if not isinstance(record[key], dict | list) or rng.random() < 0.3:
            if rng.random() < 0.2:
                del record[key]
            else:
                record[key] = rng.choice(ODD)
            return
        record = record[key]


def seam_books(cases: int) -> Iterator[Case]:
    """Journals, and what the report's data and the end of the log say of them."""
    paths = sorted((HERE / "journals").glob("*/turns.jsonl"))
    kept = [json.dumps(lines_of(path)) for path in paths]
    with temporary_folder():
        folder = Path("run_0001")
        folder.mkdir()
        for number in range(cases):
            rng = Random(f"book {number}")
            (folder / "turns.jsonl").write_bytes(random_journal(rng, kept))
            yield f"{number}", outcome(lambda: book_items(folder))


def book_items(folder: Path) -> Any:
    book = agent.book_of(folder)
    journal = agent.read_journal(folder)
    return {
        "report": report_data(agent.report_text(folder)),
        "debrief": book.debrief().split("\n"),
        "damaged": journal.damaged,
        "ignored": passed_over(journal),
    }


def passed_over(journal: Any) -> list[str]:
    """The fields that the journal's reader did not know."""
    told = "Unknown fields left out: "
    names = [line[len(told) : -1] for line in journal.left_out if told in line]
    return names[0].split(", ") if names else []


# -- a context that is full, and what is left in the requests

FILLER = "and so on with a long explanation of what is to be seen there " * 6
MARK = re.compile(r"mark-\d+")


def marked(rng: Random) -> str:
    """Words that can be found again in later requests."""
    return f"mark-{rng.randrange(10**9)} {FILLER[: rng.choice((10, 100, 400))]}"


def marking(profile: str) -> dict[str, Bag]:
    """Roles whose every reply carries a mark of its own."""
    names = COMMANDER_NAMES if profile == "commander" else PLANNER_NAMES
    said_as = COMMANDER_ARGUMENTS if profile == "commander" else {}

    def acting(rng: Random) -> Json:
        at = [rng.randint(0, 600), rng.randint(0, 1000)]
        if profile in ("planner", "commander"):
            label = said_as.get("element_name", "element_name")
            return call(names["click"], marked(rng), **{label: marked(rng), "position": at})
        if profile == "chat":
            acts = (
                call("observe_screen", marked(rng)),
                call("click_element", f"<think>{marked(rng)}</think>", label=marked(rng), box=at),
            )
            return rng.choice(acts)
        if profile == "pointer":
            acts = (
                call("take_screenshot", marked(rng)),
                call("move_mouse", marked(rng), x=at[0], y=at[1]),
                call("click_mouse", f"<think>{marked(rng)}</think>"),
            )
            return rng.choice(acts)
        act = {"name": "click", "x1": at[0], "y1": at[1], "label": marked(rng)}
        if profile == "story":
            return said(json.dumps({"observation": marked(rng), "actions": [act]}))
        written = {"action": "left_click", "coordinate": at}
        return said(f"{marked(rng)}\n" + qwen(**written)["content"])

    def planning(rng: Random) -> Json:
        words = said_as.get("instructions", "instructions")
        why = said_as.get("update_plan.reasoning", "reasoning")
        return call(names["update_plan"], marked(rng), **{words: marked(rng), why: "x"})

    def archiving(rng: Random) -> Json:
        given = {"summary": marked(rng), "patterns_detected": "x"}
        named = {said_as.get(name, name): value for name, value in given.items()}
        return call(names["archive"], archived_turns=[2, 3, 4, 5, 6], **named)

    planner: Bag = (planning, planning, archiving)
    return {"executor": (acting,), "planner": planner, "judge": (said("NO: not yet"),)}


def seam_contexts(cases: int) -> Iterator[Case]:
    """Runs in small contexts until there were so many requests; each is a case."""
    asked = number = 0
    while asked < cases:
        rng = Random(f"context {number}")
        profile = sorted(BAGS)[number % len(BAGS)]
        number += 1
        settings = (
            f"keep_last_screenshots={rng.randint(1, 3)}",
            f"keep_last_thinks={rng.randint(0, 2)}",
            *("max_steps=25", "model_failures=9", "request_retries=1", "review_interval=5"),
            *("enable_loop_recovery=false", "second_opinion=false"),
        )
        context = rng.choice((2500, 3500, 5000, 8000, 32768))
        run = Run("", profile, settings, (), marking(profile), context)
        before = asked
        for name, value in carry_out(run, f"context {number}"):
            if name.startswith(("executor ", "planner ")) and asked < cases:
                asked += 1
                yield f"{number}, {profile}: {name}", what_is_left(json.loads(value))
        if asked == before:
            raise RuntimeError(f"context {number}, {profile}, asks for nothing")


def what_is_left(request: Json) -> Json:
    """Which marks a request still has, where its pictures are, and how its messages follow."""
    messages = []
    for message in request["messages"]:
        text = json.dumps(message)
        pictures = len(re.findall(r"picture [0-9a-f]{12}", text))
        messages.append([message["role"], pictures, *MARK.findall(text)])
    return {"messages": messages}


SEAMS: dict[str, Callable[[int], Iterator[Case]]] = {
    "runs": seam_runs,
    "replies": seam_replies,
    "verdicts": seam_verdicts,
    "changes": seam_changes,
    "books": seam_books,
    "contexts": seam_contexts,
}


def main() -> int:
    from tests.compare_more import SEAMS_MORE

    SEAMS.update(SEAMS_MORE)
    seams, cases, output = sys.argv[1:]
    time.time = WALL.now
    setattr(agent, "datetime", Today)  # noqa: B010 - no name that the tests use
    with open(output, "w", encoding="utf-8") as stream:
        for seam in seams.split(","):
            for name, value in SEAMS[seam](int(cases)):
                line = {"seam": seam, "case": name, "value": value}
                stream.write(json.dumps(line, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
