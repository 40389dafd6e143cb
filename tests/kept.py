"""What the program does with fixed cases at five seams, so that no change of behaviour goes unseen.

    python -m tests.kept               names the cases that came to something else and shows how they differ; it writes
                                       tests/data/kept.json anew, at a console after a question
    python -m tests.kept NAME ...      shows and writes those alone whose name has one of these in it ("runs planner")
    python -m tests.kept --print SEAM  prints what comes of each case of runs, demos, lines, replies or verdicts

Of a case the file has a digest, which tests/test_kept.py compares. The cases are driven in a process of their own, with
scripted models, a simulated Windows and virtual time. How one differs is told by driving it with the commit, too, whose
digests they are.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import difflib
import gc
import hashlib
import io
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import agent
from tests.fakes import FakeWin32, Foreground, VirtualClock
from tests.long import gates, grammars, replies
from tests.seams import rgb_picture
from tests.servers import ScriptedServer, Step, answer, hang_up, http, raw, reply, reset

Json = dict[str, Any]
Case = tuple[str, Any]  # its name, and what came of it
Kept = dict[str, dict[str, str]]  # of each seam its cases with their digests
Random = random.Random
ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests" / "data" / "kept.json"
GROUPS = (("runs",), ("demos",), ("lines", "replies", "verdicts"))  # each in a process
# The runs and demos of the part that the suite drives: of each profile one, and most kinds of run.
PART_RUNS = {
    *(
        "chat, calls in the text",
        "commander, archiving",
        "native, tars",
        "planner, failing, resumed",
    ),
    *("pointer, as described", "story, dry"),
}
PART_DEMOS = ("planner",)
LINES_MOST = 40  # of the difference of a case
CASES = 150  # that are drawn by chance, of a seam

# -- what is the same each time


class Today(datetime.datetime):
    """`datetime` by the virtual clock of the present run."""

    clock = VirtualClock()

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Today:
        return cls.fromtimestamp(1_700_000_000 + cls.clock.time, tz)


@cache
def picture_mark(url: str) -> str:
    """By its pixels: how they are packed into a PNG is for each system to decide."""
    shown: Any = url
    with contextlib.suppress(ValueError):  # it is cut, or not a picture
        shown = rgb_picture(base64.b64decode(url.partition(",")[2]))
    return f"picture {hashlib.sha256(repr(shown).encode()).hexdigest()[:12]}"


# What differs between two runs of the same, or follows from what is compared anyway, and how it is written instead.
ALIKE: tuple[tuple[str, Any], ...] = (
    (r"data:image/png;base64,[\w+/=]+", lambda url: picture_mark(url[0])),  # first, as most of it
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\b\d+ bytes", "N bytes"),
    (r"Python 3\.\d+\.\d+", "Python 3"),
    (r"[\[<]image,? \d+ base64 characters, sha256 [0-9a-f]+[]>]", "[image]"),
    (r'(?m)^ *File ".*", line \d+, in .*\n(?: {6,}.*\n)*', "FILE\n"),
    (r'"[0-9a-f]{12}"', '"PART"'),  # of a request, by its digest, and a port is in it
)


def made_alike(text: str) -> str:
    for pattern, instead in ALIKE:
        text = re.sub(pattern, instead, text)
    return text.replace(json.dumps(os.getcwd())[1:-1], "FOLDER").replace(os.getcwd(), "FOLDER")


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


# -- what a model says: calls of its profile's tools with arguments by chance, slips, and what servers answer instead

MODEL = "qwen3-vl-2b-instruct"
TOKENS = {"planner": 1801, "executor": 1401, "judge": 200}  # of a reply, by which roles are told
PROOF = "The button is pressed, the window shows the result and the title says that everything was saved as it should be."
LABELS = (
    *("OK", "Save", "Delete", "the field", "", "Größe", "Pay now", "icon " * 30, "Send", "x"),
    *("Format C:", "Zahlungspflichtig bestellen", "ＤＥＬＥＴＥ", "Pin to"),
)
KEYS = """enter ctrl+s alt+f4 win+l ctrl+alt+delete f5 no_key a+b escape delete
    shift+delete win+r alt win shift a tab ctrl+alt+backspace""".split()
TEXTS = (
    *("Hello", "Grüße 😀\n", "rm -rf /", "x" * 300, "", "rd /s /q c:\\", "hunter2", "{{PIN}}"),
    *("powershell -e", "shutdown now\n", "a b"),
)
TASKS = (
    "Press the button",
    'Write "Hello" into the note and save it as hello.txt',
    ("Öffne die Einstellungen und schalte den Ton aus. " * 4).strip(),
)
VALUES: dict[str, Any] = {  # of an argument; a place is drawn by itself
    "element_name": LABELS,
    "text": TEXTS,
    "key": KEYS,
    "then": [[key] for key in KEYS],
    "name": ("Notepad", "cmd", "cmd /c x", "regedit", "Paint"),
    "title": ("Untitled", "nothing", "Bob - Chat", "My BANK - Browser", "Task Manager"),
    "ticks": (-3, 3, 500),
    "modifiers": (["ctrl"], ["shift"]),
    "button": ("left", "right"),
    "seconds": (2,),
    "goal_identifier": ("1",),
    "completion_status": ("COMPLETED", "BLOCKED", "IN_PROGRESS", "maybe"),
    "evidence": (PROOF, PROOF, "done"),
    "instructions": ("Click the button 1.", "Click the button 2.", "Click the other button."),
    "done_when": (["The button is pressed", "hello.txt exists"],),
    "archived_turns": ([2, 3, 4], [2, 3, 4, 5, 6]),
    "summary": ("Some clicks.",),
    "patterns_detected": ("none",),
    "clear": (True,),
    "submit": (True,),
}
Bag = tuple[Any, ...]  # of messages, bytes of an HTTP answer, and what draws one


def place(rng: Random) -> list[int]:
    """A place on the grid, often in the part of the screen that answers, seldom outside."""
    x = rng.choice((rng.randint(0, 600), rng.randint(0, 1000), rng.randint(700, 1000)))
    return [x, rng.randint(0, 1000 if rng.random() < 0.95 else 1300)]


def arguments(rng: Random, words: Any, tool: str) -> Json:
    """What a model gives for a tool's arguments, in its own words; what may be left out often is."""
    given: Json = {}
    shown = words.shown(agent.TOOLS[tool])
    for argument, mark in agent.TOOLS[tool].takes.items():
        shape = shown.get(argument, {})
        if mark != "?" or rng.random() < 0.3:
            is_place = argument in ("position", "start", "end")
            value = place(rng) if is_place else rng.choice(VALUES.get(argument, ("why",)))
            values = value if len(shape) > 1 else [value] * len(shape)
            given |= dict(zip(shape, values, strict=True))
    return given


def said(content: str) -> Json:
    return {"role": "assistant", "content": content}


def call(name: str, /, content: str = "", **arguments: Any) -> Json:
    """An assistant message with one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {**said(content), "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


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
    *map(said, ("", "I would click the button now.", "ha " * 400)),
    said("<think>The button is at the left.</think>Let me think"),
    said('<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>'),
    said('{"name": "click", "arguments": {"position": [5'),
    call("no_such_tool"),
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "assistant", "reasoning_content": "So I should click.", "content": ""},
)
OTHERWISE: Bag = (lambda rng: rng.choice(SLIPS), lambda rng: rng.choice(FAULTS))
JUDGES: Bag = (
    said("1. YES: the window shows it\n2. YES: so it is\n3. YES: it is"),
    said("1: NO, the window does not show it"),
    said("YES: it is done"),
    said("NO: nothing to be seen"),
    said("1. The button is pressed\n2. The window shows the result"),
    said("I cannot tell."),
    http(500, {"error": "internal error"}),
)
# Which tools a role calls, one named twice twice as often, as far as its profile has them.
ACTING = """click click click click click click double_click right_click drag drag type_text type_text press_key press_key
    observe observe move move click_here click_here scroll_at scroll_here scroll_down scroll_up open_app focus_window
    wait zoom report_status report_complete""".split()
PLANNING = "update_plan update_plan update_plan update_plan archive".split()
STORY_ACTS = "click double_click move drag type_text press_key scroll_at wait report_complete"


def calling(rng: Random, words: Any, tool: str) -> Json:
    content = ("", "SCREEN_SHOWS: x\nNEXT_STEP: y", "<think>So.</think>")
    return call(words.tools[tool], rng.choice(content), **arguments(rng, words, tool))


def story(rng: Random) -> Json:
    """A story's reply with some actions and boxes."""
    words = agent.PROFILES["story"].vocabulary
    names = [rng.choice(STORY_ACTS.split()) for _ in range(rng.randint(0, 7))]
    actions = [{"name": words.tools[name], **arguments(rng, words, name)} for name in names]
    actions += [{"name": "dance"}] * (rng.random() < 0.1)
    corners = [place(rng) + place(rng) for _ in range(rng.randint(0, 10))]
    boxes = [dict(zip(("x1", "y1", "x2", "y2"), four, strict=True)) for four in corners]
    seen = {"observation": "I see a window. " * rng.randint(1, 9), "actions": actions}
    return said(rng.choice(("", "<think>Hm.</think>")) + json.dumps({**seen, "bboxes": boxes}))


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
)
TARS: Bag = (
    *(lambda rng: tars("click(start_box='({},{})')".format(*place(rng))),) * 5,
    *map(tars, ("type(content='Hello')", "hotkey(key='ctrl s')", "dance()", "wait()")),
    *map(tars, ("scroll(start_box='(30,40)', direction='down')", "call_user()")),
    tars("finished(content='It is done.')"),
)


def bags_of(profile: Any) -> dict[str, Bag]:
    """What each role of a profile says."""
    words = profile.vocabulary
    bags: dict[str, Bag] = {"judge": JUDGES}
    for role, tools in (("planner", PLANNING), ("executor", ACTING)):
        if role in profile.roles:
            known = [tool for tool in tools if tool in profile.roles[role].tools]
            bags[role] = (*(partial(calling, words=words, tool=one) for one in known), *OTHERWISE)
    own: dict[str, Bag] = {"story": (story,) * 6, "native": QWEN}
    if profile.name in own:
        bags["executor"] = (*own[profile.name], *OTHERWISE)
    elif profile.name not in ("planner", "commander"):
        words_alone = said("The button is pressed, and the window shows it.")
        bags["executor"] = (*bags["executor"], words_alone)
    return bags


BAGS = {name: bags_of(agent.PROFILES[name]) for name in sorted(agent.PROFILES)}
DEAD = {  # nothing but acts that change nothing: the ladder of a run that is stuck
    "planner": call("click_screen_element", element_name="OK", position=[900, 500]),
    "commander": call("click_element", label="OK", position=[900, 500]),
    "chat": call("click_element", label="OK", box=[900, 500]),
    "pointer": call("click_mouse"),
    "story": said('{"observation": "x", "actions": [{"name": "click", "x1": 900, "y1": 500}]}'),
    "native": qwen(action="left_click", coordinate=[900, 500]),
}


class Model(ScriptedServer):
    """Answers each role from its bag, by chance of its own: another number of requests of one role does not change what
    the others hear. `kept` has each request with its role and number."""

    def __init__(self, bags: dict[str, Bag], seed: str, context: int, clock: VirtualClock) -> None:
        super().__init__(hang_up)
        self.bags, self.seed, self.context, self.clock = bags, seed, context, clock
        self.numbers = Counter[str]()
        self.kept: list[Case] = []

    def _step(self) -> Step:
        head, _, body = self.requests.pop().partition(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        if head.startswith(b"GET"):
            self.keep(f"GET {path}", "")
            if path != "/api/v0/models":
                return answer(404, {"error": "Unexpected endpoint"})
            loaded = {"loaded_context_length": self.context or 32768, "state": "loaded"}
            return answer(200, {"data": [{"id": MODEL, "type": "vlm", **loaded}]})
        # The order of its parts counts, blanks between them do not.
        text = made_alike(json.dumps(json.loads(body), ensure_ascii=False))
        most = json.loads(text).get("max_tokens")
        role = next((role for role in TOKENS if TOKENS[role] == most), "executor")
        rng = Random(f"{self.seed}/{role}/{self.numbers[role]}")
        self.keep(role, text)
        self.clock.advance(0.5 + rng.random())
        # coarse, so that a word more in a request changes nothing else
        used = len(text) // 4 // 64 * 64 + 60 * text.count("picture ")
        if self.context and used > self.context:
            return raw(TOO_LONG)
        one = rng.choice(self.bags[role])
        while callable(one) and one is not reset:
            one = one(rng)
        if not isinstance(one, dict):
            return raw(one) if isinstance(one, bytes) else reset
        reason = rng.choice(("stop", "stop", "stop", "length"))
        usage = {"prompt_tokens": used, "completion_tokens": len(str(one)) // 4}
        choices = [{"index": 0, "message": one, "finish_reason": reason}]
        return answer(200, reply(choices=choices, usage=usage))

    def keep(self, what: str, text: str) -> None:
        self.numbers[what] += 1
        self.kept.append((f"{what} {self.numbers[what]}", text))


# -- whole runs: main() on a simulated Windows

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
        world.paint = world.paint[-3:]  # each one takes its time in every look
        world.fill(agent.Rect(at * 37 % 600, at * 53 % 320, 24, 18), at * 0x2F1D3B & 0xFFFFFF)
        if rng.random() < 0.1 and world.window:
            world.window = replace(world.window, title=f"Größe {at} - Notepad")

    world.on_event = react
    return world


class Run(NamedTuple):
    """One run of a profile; `bags` are its own where it does not take the profile's."""

    name: str
    profile: str
    settings: str = ""
    arguments: tuple[str, ...] = ()
    bags: dict[str, Bag] = {}
    context: int = 0
    task: str = TASKS[0]
    resumed: bool = False


FIXED = """planner_max_tokens=1801 executor_max_tokens=1401 screen_capture_w=64 screen_capture_h=36 drag_steps=3
    confirm=never dump_dir=dumps boot_vlm_output={} closer_look=false"""
LONG = "max_steps=10 model_failures=50 not_proven_most=9"
MEMORY = f"{LONG} memory_compression_threshold=6 review_interval=3"
FAILING = "max_steps=10 model_failures=2 request_retries=0"


def runs() -> Iterator[Run]:
    """Of each profile one of everything, one that archives, one that is stuck, one whose server fails and that is
    resumed; and what only some profiles do."""
    for profile, bags in BAGS.items():
        yield Run("varied", profile, LONG)
        yield Run("archiving", profile, MEMORY, context=6000, task=TASKS[2])
        yield Run("as described", profile, f"{LONG} described=true", task=TASKS[1])
        if profile not in ("native", "story"):
            yield Run("calls in the text", profile, f"{LONG} calls=text", task=TASKS[1])
        yield Run("stuck", profile, "max_steps=10", (), {**bags, "executor": (DEAD[profile],)})
        failing = {**bags, "executor": (*bags["executor"], TOO_LONG, *FAULTS)}
        failing["judge"] = (said("1: NO, it does not show it"),)
        yield Run("failing, resumed", profile, FAILING, (), failing, resumed=True)
        if profile in ("planner", "pointer", "story"):
            yield Run("dry", profile, f"{LONG} max_steps=8 confirm=risky", ("--dry-run",))
    yield Run("looking closer", "planner", f"{LONG} closer_look=true")
    grammar = f"{LONG} executor_grammar=ui-tars-1.5"
    yield Run("tars", "native", grammar, (), {"executor": (*TARS, *OTHERWISE), "judge": JUDGES})


def no_process(_: Any) -> Any:
    """Nobody here is asked for controls."""
    raise PermissionError("no process")


def clock_of(clock: VirtualClock, stop: Any) -> VirtualClock:
    clock.stop = stop
    return clock


def begin(arguments: list[str], world: FakeWin32 | None = None) -> Json:
    """What the program's own main() says and returns on this desktop, or on one that nothing is asked of."""
    world = world or FakeWin32()
    Today.clock = world.clock
    notepad = agent.Program("Notepad", "C:\\notepad.lnk", ("notepad.exe",))
    for what, value in (
        ("load_win32", lambda *names: world.api),
        ("SystemClock", partial(clock_of, world.clock)),
        ("lmstudio_logs", dict),
        ("known_programs", lambda *told: [notepad]),
    ):
        setattr(agent, what, value)
    multiprocessing.get_context = no_process  # type: ignore[assignment]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code: Any = agent.main(arguments)
        except Exception as error:  # a bug is a result, too
            code = f"{type(error).__name__}: {error}"
        except SystemExit as ended:
            code = ended.code
    return {"code": code, "said": made_alike(out.getvalue())}


def words_of(settings: str) -> list[str]:
    """Each setting once, as it is said last."""
    last = {item.partition("=")[0]: item for item in settings.split()}
    return [part for item in last.values() for part in ("--set", item)]


def carry_out(run: Run, seed: str) -> Iterator[Case]:
    """One run, and what is left of it."""
    random.seed(seed)
    clock = VirtualClock()
    world = desktop(clock, Random(seed))
    bags = run.bags or BAGS[run.profile]
    with temporary_folder(), Model(bags, seed, run.context, clock) as model:
        endpoint = ["--endpoint", model.url]
        words = words_of(f"{FIXED} {run.settings}")
        first = ["--profile", run.profile, *endpoint, *words, *run.arguments, run.task]
        yield "main", begin(first, world)
        if run.resumed:
            model.bags = BAGS[run.profile]
            world = desktop(clock, Random(seed))  # the keys that stop the first run are its own
            words = words_of(f"{FIXED} {run.settings} max_steps=12")
            yield "main, resumed", begin([*endpoint, *words, "--resume"], world)
        yield from model.kept
        yield "typed", world.typed
        yield "clicks", [[click.value, *click.place] for click in world.clicks]
        yield "problems", world.problems
        yield from files_of(Path("dumps"))


def files_of(folder: Path) -> Iterator[Case]:
    """The names of all files, the journal, the log, and what the report's page is told."""
    yield "files", sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".jsonl", ".log", ".txt", ".html"):
            text = path.read_text("utf-8")
            if path.suffix == ".html":
                text = "".join(
                    re.findall(r"(?s)<script type=.application/json.>.*?</script>", text)
                )
            yield path.name, made_alike(text)


def seam_runs(part: bool) -> Iterator[Case]:
    """The scripted runs."""
    for run in runs():
        if part and f"{run.profile}, {run.name}" not in PART_RUNS:
            continue
        for name, value in carry_out(run, f"{run.profile}/{run.name}"):
            yield f"{run.profile}, {run.name}: {name}", value


def seam_demos(part: bool) -> Iterator[Case]:
    """The demo of each profile, its replay, and a run that only shows."""
    for profile in PART_DEMOS if part else BAGS:
        with temporary_folder():
            demo = ["--demo", "--profile", profile]
            demo += words_of("screen_capture_w=640 screen_capture_h=360")
            for more in ([], ["--replay", "1"], ["--dry-run"]):
                if more != ["--dry-run"] or profile == "planner":
                    yield f"{profile}: {more}", begin([*demo, *more])
            for name, value in files_of(Path("dumps")):
                yield f"{profile}: {name}", value


# -- what the command line says

LINES = (
    "--help|--help described|--help nothing|--version|--settings|--settings drag|--settings nothing"
    "|--profiles|--runs|--stats|--runs 3|--stats 2|--report 1|--report 2 out.html"
    "|--replay 9|--resume|--resume 4|--dry-run --endpoint 127.0.0.1:9|--set x=1|--set max_steps=0|--set settle_ms|--nonsense"
    "|--demo --profile nobody|--area 1,2|--area 0,0,10,10 --demo|help|check|--endpoint ftp://x task"
    "|--report|--replay 1 --resume|--demo --check|--runs --stats|--config nowhere.json task|--secret X"
)


def seam_lines(part: bool) -> Iterator[Case]:
    """What the command line answers, in a folder with some kept runs, and what --check says of models."""
    with temporary_folder():
        journals = sorted((ROOT / "tests" / "journals").glob("*/turns.jsonl"))
        for number, path in enumerate(journals, 1):
            run = Path("dumps", f"run_{number:04}")
            run.mkdir(parents=True)
            (run / "turns.jsonl").write_bytes(path.read_bytes())
        for line in LINES.split("|"):
            yield line, begin([*line.split(), "--set", "dump_dir=dumps"])
    for number in range(0, CASES // 8, 9 if part else 1):
        world, profile = FakeWin32(monitors=[SCREEN]), list(BAGS)[number % len(BAGS)]
        with temporary_folder(), Model(BAGS[profile], str(number), 8000, world.clock) as model:
            given = begin(["--check", "--profile", profile, "--endpoint", model.url], world)
            yield f"--check {number}", [given, model.kept]


# -- replies and acts by themselves


def read_reply(message: Json, reason: str | None, case: Json) -> Any:
    """The call in a reply and what it means, by the tools or the model's own grammar of its case; or the correction."""
    words = replies.VOCABULARIES[case.get("tools", "other")]
    try:
        if "tools" in case:
            act = agent.read_call(agent.Reply(message, reason), words)
            return [act.call.name, act.call.arguments, act.name, agent.shown_args(act.args)]
        size = tuple(case.get("image") or (1280, 720))
        act = agent.GRAMMARS[case["grammar"]].read(agent.Reply(message, reason), size)
        return [*grammars.named(act)]
    except agent.ToolError as error:
        return [error.kind, str(error), agent.correction(error)]


def seam_replies(part: bool) -> Iterator[Case]:
    """The replies that the tests keep, whole and with slips, and by turns such a one in a model's own grammar. A part has
    them all, since a slip stays in what the next ones are made of."""
    cases = [case for case in replies.load_cases() if len(str(case)) < 3000]
    text = (ROOT / "tests" / "data" / "grammars.jsonl").read_text("utf-8")
    grammars = [json.loads(line) for line in text.split("\n") if line]
    for number in range(CASES):
        rng = Random(f"reply {number}")
        case = rng.choice((cases, grammars)[number % 2])
        message, reason = case["message"], rng.choice(replies.REASONS)
        holder, key = replies.place_of_text(message) or ({}, "")
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2)) if holder else 0):
            holder[key] = replies.mutated(rng, holder[key])
        yield f"{number}", read_reply(message, reason, case)


SETTINGS: tuple[Json, ...] = (
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


def random_control(rng: Random) -> Any:
    """What Windows may know to be somewhere."""
    return agent.Control(
        rng.choice(LABELS),
        rng.choice(("button", "edit", "link", "menu item", "document")),
        agent.Rect(rng.randint(-100, 600), rng.randint(50, 500), rng.randint(20, 800), 300),
        focused=rng.random() < 0.5,
        password=rng.random() < 0.3,
        window=rng.randint(1, 5),
        program=rng.choice(("editor.exe", "keepass.exe", "")),
    )


def seam_verdicts(part: bool) -> Iterator[Case]:
    """What the gates say to acts of their fuzz, a few in a row, with other settings and controls."""
    for number in range(0, CASES, 3 if part else 1):
        rng = Random(f"verdict {number}")
        trial = gates.Trial(f"verdict {number}", **rng.choice(SETTINGS))
        known = [random_control(rng) for _ in range(rng.choice((0, 0, 1, 2, 4)))]
        trial.desktop.control_source = agent.KnownControls(known)
        trial.actuator.task = rng.choice(("Open regedit and look", TASKS[0]))
        for _ in range(rng.choice((1, 1, 2, 3, 4))):
            trial.random_act()
        yield f"{number}", [*trial.desktop.told, dict(trial.counts), trial.desktop.clock.time]


# -- driven in a process, and compared


def drive(seams: Iterable[str], part: bool) -> None:
    """Prints a line of each case, or of those of the part, in this process."""
    ways: dict[str, Callable[[bool], Iterator[Case]]] = {
        "runs": seam_runs, "demos": seam_demos, "lines": seam_lines,
        "replies": seam_replies, "verdicts": seam_verdicts,
    }  # fmt: skip
    gc.set_threshold(100_000, 50, 100)
    time.time = lambda: 1_700_000_000 + Today.clock.time
    setattr(agent, "datetime", Today)  # noqa: B010 - no name that the tests use
    for seam in seams:
        for case in ways[seam](part):
            print(json.dumps([seam, *case], default=str), file=sys.__stdout__)


def came(seams: Iterable[str], checkout: Path = ROOT, how: str = "--drive") -> list[list[Any]]:
    """Of each case its seam, its name and what came of it, with nothing of the person's settings."""
    own, caches = ("AGENT_", "LMSTUDIO_", "PYTHON"), ("PYTHONPYCACHEPREFIX",)
    environment = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(own) or name in caches
    }
    fixed = "PYTHONHASHSEED=0 PYTHONUTF8=1 NO_COLOR=1 TZ=UTC COLUMNS=120".split()
    done = subprocess.run(
        [sys.executable, "-m", "tests.kept", how, *seams],
        cwd=checkout,
        env={**environment, **dict(one.split("=") for one in fixed)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def now(part: bool) -> Kept:
    """The digests of all cases as they come now, or of those of the part, a whole run being one."""
    parts = defaultdict[str, dict[str, Any]](dict)
    with ThreadPoolExecutor() as pool:
        if part:  # so few that a second process would take longer to start
            came_now = [came([seam for group in GROUPS for seam in group], how="--drive-part")]
        else:
            came_now = [*pool.map(came, GROUPS)]
        for seam, case, value in [case for cases in came_now for case in cases]:
            digest = parts[seam].setdefault(case.partition(": ")[0], hashlib.sha256())
            digest.update(json.dumps([case, value]).encode())
    return {
        seam: {case: digest.hexdigest()[:8] for case, digest in cases.items()}
        for seam, cases in parts.items()
    }


def differing(part: bool = False) -> list[str]:
    """The cases that came, went or came to something else than the file says; of the part none can go."""
    old, new = (
        {f"{seam} {case}": digest for seam in kept for case, digest in kept[seam].items()}
        for kept in (json.loads(FILE.read_text("utf-8")), now(part))
    )
    if part:
        old = {case: digest for case, digest in old.items() if case in new}
    return [case for case in {**old, **new} if old.get(case) != new.get(case)]


def lines_of(cases: Iterable[list[Any]]) -> dict[str, list[str]]:
    """What came of each case, in lines that can be compared."""
    parts = defaultdict[str, list[str]](list)
    for seam, case, value in cases:
        text = json.dumps([case, value], indent=0, ensure_ascii=False).replace("\\n", "\n")
        parts[f"{seam} {case.partition(': ')[0]}"] += text.split("\n")
    return parts


def differences(cases: list[str]) -> Iterator[str]:
    """How each case differs from what came of it at the commit that wrote the file, in a few lines."""
    commit = ["git", "log", "-1", "--format=%H", "--", str(FILE)]
    written = subprocess.run(commit, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    archive = ["git", "archive", written.strip()]
    packed = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
    seams = dict.fromkeys(case.partition(" ")[0] for case in cases)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as files:
            files.extractall(folder)
        old = lines_of(came(seams, Path(folder)))
    new = lines_of(came(seams))
    for case in cases:
        told = [*difflib.unified_diff(old[case], new[case], lineterm="", n=1)][2:]
        rest = [f"... and {len(told) - LINES_MOST} more lines"] * (len(told) > LINES_MOST)
        yield "\n".join([f"== {case}", *told[:LINES_MOST], *rest])


def keep(names: list[str]) -> None:
    """Names what came to something else, shows it, and writes what is to be kept."""
    cases = [case for case in differing() if not names or any(name in case for name in names)]
    print("\n".join(cases) or "Nothing differs.")
    asked = sys.stdin is not None and sys.stdin.isatty()
    if cases:
        try:
            print("\n".join(differences(cases)))
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"How they differ is not told: {error}. See --print.")
    if not cases or (asked and input("Keep what comes now? [y/N] ").strip().lower() != "y"):
        return
    kept = json.loads(FILE.read_text("utf-8"))
    for seam, digests in now(False).items():
        kept.setdefault(seam, {}).update(
            {n: d for n, d in digests.items() if f"{seam} {n}" in cases}
        )
        # In the order in which they are driven, without those that are gone.
        kept[seam] = {n: kept[seam][n] for n in digests if n in kept[seam]}
    FILE.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n", "utf-8")


def main(given: list[str]) -> None:
    if given[:1] in (["--drive"], ["--drive-part"]):
        drive(given[1:], part=given[0] == "--drive-part")
    elif given[:1] == ["--print"]:
        for case in came(given[1:]):
            print(json.dumps(case, indent=0, ensure_ascii=False).replace("\\n", "\n"))
    else:
        keep(given)


if __name__ == "__main__":
    main(sys.argv[1:])
