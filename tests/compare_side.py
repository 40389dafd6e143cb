"""What one agent.py does with fixed cases at seven seams, as lines of JSON {"seam", "case", "value"}.

tests/kept.py starts it in a process of its own, with a checkout's agent.py first on the path and this tree's tests
behind it. `case` names the same case of every checkout. Time is virtual, so that a checkout gives the same lines twice.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import gc
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
from dataclasses import MISSING, asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import agent
from tests.fakes import FakeWin32, Foreground, VirtualClock
from tests.long import gates, replies
from tests.servers import ScriptedServer, Step, answer, hang_up, http, raw, reply, reset

Json = dict[str, Any]
Case = tuple[str, Any]  # its name, and what came of it
Random = random.Random
HERE = Path(__file__).parent

# -- what is the same on both sides


class Wall:
    """The time of day, which goes as fast as the virtual clock of the present run."""

    clock = VirtualClock()

    def now(self) -> float:
        return 1_700_000_000 + self.clock.time


WALL = Wall()


class Today(datetime.datetime):
    """`datetime` by that time."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Today:
        return cls.fromtimestamp(WALL.now(), tz)


# What differs between two runs of the same, or follows from what is compared anyway, and how it is written instead.
ALIKE: tuple[tuple[str, Any], ...] = (
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\b\d+ bytes", "N bytes"),
    (r"Python 3\.\d+\.\d+", "Python 3"),
    (r"[\[<]image,? \d+ base64 characters, sha256 [0-9a-f]+[]>]", "[image]"),
    (r'(?m)^ *File ".*", line \d+, in .*\n(?: {6,}.*\n)*', "FILE\n"),
    (r"data:image/png;base64,[\w+/=]+", lambda url: picture_mark(url[0])),
)


def made_alike(text: str) -> str:
    text = text.replace(json.dumps(os.getcwd())[1:-1], "FOLDER").replace(os.getcwd(), "FOLDER")
    for pattern, instead in ALIKE:
        text = re.sub(pattern, instead, text)
    return text


def digest(data: Any) -> str:
    return hashlib.sha256(bytes(data)).hexdigest()[:12]


def picture_mark(url: str) -> str:
    """By its pixels: how they are packed into a PNG is for each side to decide."""
    try:
        shown: Any = agent.png_to_rgb(base64.b64decode(url.partition(",")[2]))
    except ValueError:  # it is cut, or not a picture
        shown = url
    return f"picture {digest(repr(shown).encode())}"


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


def lines_of(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def outcome(read: Callable[[], Any]) -> Any:
    """What reading gives, or the error and what the model would be told."""
    try:
        return read()
    except Exception as error:  # a bug is a result, too
        kind = agent.ToolError if isinstance(error, agent.ToolError) else type(error)
        return [kind.__name__, getattr(error, "kind", ""), str(error)]


# -- what a model says: calls of its profile's tools with arguments by chance, slips, and what servers answer instead

MODEL = "qwen3-vl-2b-instruct"
TOKENS = {"planner": 1801, "executor": 1401, "judge": 200}  # of a reply, by which roles are told
PROOF = (
    "The button is pressed, the window shows the result and the title says that everything was"
    " saved as it should be; nothing else is left to do."
)
LABELS = (
    *("OK", "Save", "Delete", "the field", "", "Größe", "Pay now", "icon " * 30, "Send", "x"),
    *("Format C:", "Zahlungspflichtig bestellen", "ＤＥＬＥＴＥ", "Pin to"),
)
KEYS = (
    *"enter ctrl+s alt+f4 win+l ctrl+alt+delete f5 no_key a+b escape delete".split(),
    *"shift+delete win+r alt win shift a tab ctrl+alt+q".split(),
)
TEXTS = (
    *("Hello", "Grüße 😀\n", "rm -rf /", "x" * 300, "", "rd /s /q c:\\", "hunter2", "{{PIN}}"),
    *("powershell -e", "shutdown now\n", "a b"),
)
TASKS = (
    "Press the button",
    'Write "Hello" into the note and save it as hello.txt',
    ("Öffne die Einstellungen und schalte den Ton aus. " * 4).strip(),
)
VALUES: dict[str, tuple[Any, ...]] = {  # of an argument; a place is drawn by itself
    "element_name": LABELS,
    "text": TEXTS,
    "key": KEYS,
    "then": tuple([key] for key in KEYS),
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
Draw = Callable[[Random], Any]
Bag = tuple[Any, ...]  # of messages, bytes of an HTTP answer, and what draws one


def place(rng: Random) -> list[int]:
    """A place on the grid, often in the part of the screen that answers, seldom outside."""
    x = rng.choice((rng.randint(0, 600), rng.randint(0, 1000), rng.randint(700, 1000)))
    return [x, rng.randint(0, 1000 if rng.random() < 0.95 else 1300)]


def value_of(rng: Random, argument: str) -> Any:
    return rng.choice(VALUES.get(argument, ("why",)))


def arguments(rng: Random, words: Any, tool: str) -> Json:
    """What a model gives for a tool's arguments, in its own words; what may be left out often is."""
    given: Json = {}
    for argument, shape in words.shown(agent.TOOLS[tool]):
        if argument.default is MISSING or rng.random() < 0.3:
            is_place = "Coordinate" in str(argument.type)
            drawn = place(rng) if is_place else value_of(rng, argument.name)
            given |= dict(
                zip(shape, drawn if len(shape) > 1 else [drawn] * len(shape), strict=True)
            )
    return given


def said(content: str) -> Json:
    return {"role": "assistant", "content": content}


def call(name: str, /, content: str = "", **arguments: Any) -> Json:
    """An assistant message with one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": "c1", "type": "function", "function": function}]
    return {"role": "assistant", "content": content, "tool_calls": calls}


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
ACTING = """click click click click click click double_click right_click drag type_text type_text press_key press_key
    observe observe move move click_here click_here scroll_at scroll_here scroll_down scroll_up open_app focus_window
    wait zoom report_status report_complete""".split()
PLANNING = "update_plan update_plan update_plan update_plan archive".split()
STORY_ACTS = "click double_click move drag type_text press_key scroll_at wait report_complete"


def calling(words: Any, tool: str) -> Draw:
    content = ("", "SCREEN_SHOWS: x\nNEXT_STEP: y", "<think>So.</think>")

    def draw(rng: Random) -> Json:
        return call(words.tools[tool], rng.choice(content), **arguments(rng, words, tool))

    return draw


def story(rng: Random) -> Json:
    """A story's reply with some actions and boxes."""
    words = agent.PROFILES["story"].vocabulary
    names = [rng.choice(STORY_ACTS.split()) for _ in range(rng.randint(0, 7))]
    actions = [{"name": words.tools[name], **arguments(rng, words, name)} for name in names]
    actions += [{"name": "dance"}] * (rng.random() < 0.1)
    corners = ("x1", "y1", "x2", "y2")
    boxes = [
        dict(zip(corners, place(rng) + place(rng), strict=True)) for _ in range(rng.randint(0, 10))
    ]
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
            bags[role] = (*(calling(words, tool) for tool in known), *OTHERWISE)
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


def drawn(rng: Random, bag: Bag) -> Any:
    """Of a bag: a message, the bytes of an answer, or `reset`."""
    one = rng.choice(bag)
    while callable(one) and one is not reset:
        one = one(rng)
    return one


class Model(ScriptedServer):
    """Answers each role from its bag, by chance of its own: another number of requests of one
    role does not change what the others hear. `kept` has each request with its role and number."""

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
            return answer(*self.page(path))
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
        one = drawn(rng, self.bags[role])
        if not isinstance(one, dict):
            return raw(one) if isinstance(one, bytes) else reset
        reason = rng.choice(("stop", "stop", "stop", "length"))
        usage = {"prompt_tokens": used, "completion_tokens": len(str(one)) // 4}
        choices = [{"index": 0, "message": one, "finish_reason": reason}]
        return answer(200, reply(choices=choices, usage=usage))

    def keep(self, what: str, text: str) -> None:
        self.numbers[what] += 1
        self.kept.append((f"{what} {self.numbers[what]}", text))

    def page(self, path: str) -> tuple[int, Json]:
        if path != "/api/v0/models":
            return 404, {"error": "Unexpected endpoint"}
        loaded = {"loaded_context_length": self.context or 32768, "state": "loaded"}
        return 200, {"data": [{"id": MODEL, "type": "vlm", **loaded}]}


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
        del world._paint[:-3]  # each one takes its time in every look
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
    more_steps: int = 0  # of the run when it is resumed


FIXED = """planner_max_tokens=1801 executor_max_tokens=1401 screen_capture_w=64 screen_capture_h=36 drag_steps=3
    keep_runs=0 confirm=never dump_dir=dumps boot_vlm_output={}"""
LONG = "max_steps=30 model_failures=50 not_proven_most=9"
MEMORY = f"{LONG} memory_compression_threshold=6 review_interval=3"
FAILING = "max_steps=6 model_failures=2 request_retries=0"


def runs() -> Iterator[Run]:
    """Of each profile one of everything, one that archives, one that is stuck, one whose server fails and that is
    resumed; and what only some profiles do."""
    for profile, bags in BAGS.items():
        yield Run("varied", profile, LONG)
        yield Run("archiving", profile, MEMORY, context=6000, task=TASKS[2])
        yield Run("as described", profile, f"{LONG} described=true", task=TASKS[1])
        if profile not in ("native", "story"):
            yield Run("calls in the text", profile, f"{LONG} calls=text", task=TASKS[1])
        yield Run("stuck", profile, "max_steps=20", (), {**bags, "executor": (DEAD[profile],)})
        failing = {**bags, "executor": (*bags["executor"], TOO_LONG, *FAULTS)}
        failing["judge"] = (said("1: NO, it does not show it"),)
        yield Run("failing, resumed", profile, FAILING, (), failing, more_steps=12)
        if profile in ("planner", "pointer", "story"):
            yield Run("dry", profile, f"{LONG} max_steps=8 confirm=risky", ("--dry-run",))
    grammar = f"{LONG} executor_grammar=ui-tars-1.5"
    yield Run("tars", "native", grammar, (), {"executor": (*TARS, *OTHERWISE), "judge": JUDGES})


NOTEPAD = agent.Program("Notepad", "C:\\notepad.lnk", ("notepad.exe",))


def no_process(_: Any) -> Any:
    """Nobody here is asked for controls."""
    raise PermissionError("no process")


def clock_of(clock: VirtualClock, stop: Any) -> VirtualClock:
    clock.stop = stop
    return clock


def begin_on(world: FakeWin32) -> None:
    """Puts the simulated Windows and its time in the place of the real ones."""
    WALL.clock = world.clock
    for what, value in (
        ("load_win32", lambda *names: world.api),
        ("SystemClock", partial(clock_of, world.clock)),
        ("lmstudio_logs", dict),
        ("known_programs", lambda environment: [NOTEPAD]),
    ):
        setattr(agent, what, value)
    multiprocessing.get_context = no_process  # type: ignore[assignment]


def begin(arguments: list[str], world: FakeWin32 | None = None) -> Json:
    """What the program's own main() says and returns on this desktop, or on one that nothing is asked of."""
    begin_on(world or FakeWin32())
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code: Any = agent.main(arguments)
        except Exception as error:  # a bug is a result, too
            code = f"{type(error).__name__}: {error}"
        except SystemExit as ended:
            code = ended.code
    return {"code": code, "said": made_alike(out.getvalue())}


def as_words(settings: str) -> list[str]:
    return [part for item in settings.split() for part in ("--set", item)]


def carry_out(run: Run, seed: str) -> Iterator[Case]:
    """One run, and what is left of it."""
    random.seed(seed)
    clock = VirtualClock()
    world = desktop(clock, Random(seed))
    bags = run.bags or BAGS[run.profile]
    with temporary_folder(), Model(bags, seed, run.context, clock) as model:
        words = ["--endpoint", model.url, *as_words(f"{FIXED} {run.settings}")]
        yield "main", begin(["--profile", run.profile, *words, *run.arguments, run.task], world)
        if run.more_steps:
            model.bags = BAGS[run.profile]
            world = desktop(clock, Random(seed))  # the keys that stop the first run are its own
            more = [*words, *as_words(f"max_steps={run.more_steps}"), "--resume"]
            yield "main, resumed", begin(more, world)
        yield from model.kept
        yield "typed", world.typed
        yield "clicks", [[click.button, *click.place] for click in world.clicks]
        yield "problems", world.problems
        yield from files_of(Path("dumps"))


def files_of(folder: Path) -> Iterator[Case]:
    """Each journal line, the log and the data of the report, and the names of all files."""
    yield "files", sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
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
                named.update({old: digest(json.dumps(text).encode()) for old, text in part.items()})
            if isinstance(part, (dict, list)):
                visit(part)

    visit(value)
    written = json.dumps(value)
    return json.loads(re.sub(r"\b[0-9a-f]{12}\b", lambda at: named.get(at[0], at[0]), written))


def seam_runs(cases: int) -> Iterator[Case]:
    """The scripted runs; for fewer than 100 cases short ones, below 40 one of each profile."""
    for run in runs():
        if cases < 100:
            run = run._replace(settings=f"{run.settings} max_steps={max(4, cases // 4)}")
        if cases >= 40 or run.name == "varied":
            for name, value in carry_out(run, f"{run.profile}/{run.name}"):
                yield f"{run.profile}, {run.name}: {name}", value


# -- a reply and the call, or the correction, that comes of it


def changed_message(rng: Random, message: Json) -> Json:
    """A reply with up to two slips in its text, or in the arguments of its call."""
    message = json.loads(json.dumps(message))
    place = replies.place_of_text(message)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2)) if place else 0):
        holder, key = place
        holder[key] = replies.mutated(rng, holder[key])
    return message


def read_reply(message: Json, reason: str | None, words: Any) -> Any:
    """The call in a reply and the act that it means; or the correction."""
    try:
        act = agent.read_call(message, reason, words)
    except agent.ToolError as error:
        return [error.kind, str(error), agent.correction(error, words)]
    return [act.call.name, act.call.arguments, act.name, act.shown]


KEPT_REPLIES = [case for case in replies.load_cases() if len(str(case)) < 3000]
GRAMMARS = lines_of(HERE / "data" / "grammars.jsonl")


def reply_of_case(rng: Random) -> Any:
    """A reply that the tests keep, in the tools that it was made in."""
    case = rng.choice(KEPT_REPLIES)
    message = changed_message(rng, case["message"])
    return read_reply(message, rng.choice(replies.REASONS), replies.VOCABULARIES[case["tools"]])


def reply_of_role(rng: Random) -> Any:
    """A reply of a scripted role, in the tools of that role's requests."""
    profile = agent.PROFILES[rng.choice(("planner", "commander", "chat", "pointer"))]
    role = rng.choice(sorted(BAGS[profile.name].keys() - {"judge"}))
    shown = {name: profile.vocabulary.tools[name] for name in profile.roles[role].tools}
    message = None
    while not isinstance(message, dict):
        message = drawn(rng, BAGS[profile.name][role])
    words = replace(profile.vocabulary, tools=shown)
    return read_reply(changed_message(rng, message), rng.choice(replies.REASONS), words)


def reply_of_grammar(rng: Random) -> Any:
    """A reply in a model's own grammar."""
    case = rng.choice(GRAMMARS)
    message = changed_message(rng, case["message"])
    size = tuple(case.get("image") or (1280, 720))

    def read() -> Any:
        call = agent.GRAMMARS[case["grammar"]].read(message, rng.choice(replies.REASONS), size)
        return [call.name, call.arguments]

    return outcome(read)


def reply_of_story(rng: Random) -> Any:
    """A story's reply, and what each of its actions means."""
    message = changed_message(rng, rng.choice((story(rng), story(rng), rng.choice(SLIPS))))
    words = agent.PROFILES["story"].vocabulary
    observation, actions, boxes = agent.read_story(message)

    def one(action: Any) -> Any:
        act = agent.read_action(action, observation, words)
        return [act.name, act.shown]

    return [observation, [outcome(partial(one, action)) for action in actions], boxes]


def seam_replies(cases: int) -> Iterator[Case]:
    """Replies whole and with slips, in all vocabularies and grammars."""
    kinds = (reply_of_case, reply_of_role, reply_of_grammar, reply_of_story)
    for number in range(cases):
        read = kinds[number % 4]
        yield f"{read.__name__} {number}", read(Random(f"reply {number}"))


# -- an act and windows, and what the gates say

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


def seam_verdicts(cases: int) -> Iterator[Case]:
    """Acts of the gates' fuzz, a few in a row, with other settings and controls."""
    for number in range(cases):
        rng = Random(f"verdict {number}")
        trial = gates.Trial(f"verdict {number}", **rng.choice(SETTINGS))
        known = [random_control(rng) for _ in range(rng.choice((0, 0, 1, 2, 4)))]
        trial.desktop.control_source = agent.KnownControls(known)
        trial.actuator.task = rng.choice(("Open regedit and look", TASKS[0]))
        for _ in range(rng.choice((1, 1, 2, 3, 4))):
            trial.random_act()
        yield f"{number}", [*trial.desktop.told, dict(trial.counts), trial.desktop.clock.time]


# -- what changed between two looks


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
            blot = (rng.randint(1, 40), rng.randint(1, 40))
            paint(rng, after, width, height, *rng.choice((*thin, (rng.randint(1, 64), 3), blot)))
        scale = rng.choice((1, 1, 2, 4))
        yield f"{number}", agent.difference(bytes(before), bytes(after), width, scale)


# -- a journal, and what is said of the run

REFUSED: Json = {"check": "pressed", "holds": False, "why": "not seen"}
RESUMED: Json = {"version": "1", "profile": "planner", "model": "m", "task": "t", "config": {}}
SAMPLES: tuple[Json, ...] = (
    {"kind": "role", "name": "executor", "system": "You act.", "tools": []},
    {"kind": "hint", "text": "Take the other button."},
    {"kind": "no_call", "error": "no_call", "text": "The reply holds no tool call."},
    {"kind": "model_failed", "error": "server", "text": "The server is busy."},
    {
        "kind": "archive",
        "summary": "Some.",
        "patterns": "none",
        "archived_count": 2,
        "turns": [2, 3],
    },
    {"kind": "verification", "text": "NO: not pressed", "checks": [REFUSED]},
    {"kind": "resume", **RESUMED},
    {"kind": "result", "result": "No.", "refused": "risky", "changed": None, "seconds": 3.5},
    {"kind": "secret", "handle": 1, "program": "x.exe", "region": [1, 2, 3, 4]},
    {"kind": "of_tomorrow", "text": "?"},
    {"kind": "end", "outcome": "stuck", "text": "No progress.", "turns": 9, "seconds": 9.0},
)


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
        replies.oddly_shaped(rng, rng.choice(records), replies.ODD[:-2])
    lines = [json.dumps(record) for record in records]
    if rng.random() < 0.2:
        lines[-1] = lines[-1][: rng.randint(0, len(lines[-1]))]
    return "\n".join([*lines, ""] if rng.random() < 0.9 else lines).encode()


def seam_books(cases: int) -> Iterator[Case]:
    """Journals, and what the report's data and the end of the log say of them."""
    paths = sorted((HERE / "journals").glob("*/turns.jsonl"))
    kept = [json.dumps(lines_of(path)) for path in paths]
    with temporary_folder():
        folder = Path("run_0001")
        folder.mkdir()
        for number in range(cases):
            (folder / "turns.jsonl").write_bytes(random_journal(Random(f"book {number}"), kept))
            yield f"{number}", outcome(partial(book_items, folder))


def book_items(folder: Path) -> Any:
    journal = agent.read_journal(folder)
    return {
        "report": report_data(agent.report_text(folder)),
        "debrief": agent.book_of(folder).debrief().split("\n"),
        "damaged": journal.damaged,
        "left out": list(journal.left_out),
    }


# -- what demos do, what the command line says, what is measured


def seam_demos(cases: int) -> Iterator[Case]:
    """Random input on the drawn desktop, for every third case; then the demo of each profile, and what goes on from its run."""
    for number in range(cases // 3):
        rng = Random(f"demo {number}")
        desktop = agent.DemoDesktop(VirtualClock())  # type: ignore[arg-type]
        seen = []
        for _ in range(rng.randint(2, 8)):
            use(rng, desktop)
            area = agent.Rect(rng.randint(0, 300), rng.randint(0, 200), 800, 450)
            frame = desktop.capture(area, 160, 90)
            front = frame.window and frame.window.title
            at = desktop.window_at(desktop.cursor())
            seen.append([digest(frame.pixels), front, at and at.title])
        yield f"{number}", [seen, asdict(desktop.state)]
    for profile in BAGS if cases >= 30 else ["planner"]:
        with temporary_folder():
            demo = ["--demo", "--profile", profile]
            demo += as_words("screen_capture_w=640 screen_capture_h=360")
            ways = {"demo": [], "again": ["--replay", "1"], "dry": ["--dry-run"]}
            for name, more in ways.items():
                if name != "dry" or profile == "planner":
                    yield f"{profile}: {name}", begin([*demo, *more])
            for name, value in files_of(Path("dumps")):
                yield f"{profile}: {name}", value


def use(rng: Random, desktop: Any) -> None:
    """A click on one of its places, a key, or text."""
    rect = rng.choice(list(desktop.state.places().values())).rect
    if rng.random() < 0.6:
        desktop.move(agent.Point(rect.left + rect.width // 2, rect.top + rect.height // 2))
        for down in (True, False) * rng.choice((1, 2)):
            desktop.button("left", down)
    elif rng.random() < 0.5:
        names = rng.choice("escape ctrl+s win enter backspace shift+a space".split()).split("+")
        for name in names:
            desktop.key(name, True)
        for name in reversed(names):
            desktop.key(name, False)
    else:
        desktop.text(rng.choice(("Hello", "a", "Grüße\n", "x" * 60, "\t")))
    desktop.clock.advance(rng.choice((0.1, 1)))


LINES = (
    "--help|--help described|--help nothing|--version|--settings|--settings drag|--settings nothing"
    "|--profiles|--runs|--stats|--runs 3|--stats 2|--report 1|--report 2 out.html"
    "|--replay 9|--resume|--resume 4|--dry-run|--set x=1|--set max_steps=0|--set settle_ms|--nonsense"
    "|--demo --profile nobody|--area 1,2|--area 0,0,10,10 --demo|help|check|--endpoint ftp://x task"
    "|--report|--replay 1 --resume|--demo --check|--runs --stats|--config nowhere.json task|--secret X"
)


def seam_lines(cases: int) -> Iterator[Case]:
    """What the command line answers, in a folder with some kept runs, and what --check says of models."""
    with temporary_folder():
        paths = sorted((HERE / "journals").glob("*/turns.jsonl"))
        for number, path in enumerate(paths, 1):
            run = Path("dumps", f"run_{number:04}")
            run.mkdir(parents=True)
            (run / "turns.jsonl").write_bytes(path.read_bytes())
        for line in LINES.split("|"):
            yield line, begin([*line.split(), "--set", "dump_dir=dumps"])
    for number in range(max(6, cases // 8)):
        yield f"--check {number}", checked(Random(f"check {number}"))


def checked(rng: Random) -> Any:
    """What --check finds of a model that says something else."""
    world = FakeWin32(monitors=[SCREEN])
    profile = rng.choice(list(BAGS))
    with temporary_folder(), Model(BAGS[profile], str(rng.random()), 8000, world.clock) as model:
        given = begin(["--check", "--profile", profile, "--endpoint", model.url], world)
        return [given, [text for _, text in model.kept]]


SEAMS = {name[5:]: seam for name, seam in globals().items() if name.startswith("seam_")}


def main() -> None:
    seams, cases, output = sys.argv[1:]
    gc.set_threshold(100_000, 50, 100)
    time.time = WALL.now
    setattr(agent, "datetime", Today)  # noqa: B010 - no name that the tests use
    with open(output, "w", encoding="utf-8") as stream:
        for seam in seams.split(","):
            for name, value in SEAMS[seam](int(cases)):
                line = {"seam": seam, "case": name, "value": value}
                stream.write(json.dumps(line, default=str) + "\n")
