"""Every profile that acts, carried by a model that errs in seeded, stated ways, on five tasks with checkers.

    python -m tests.bench.erring [runs] [seed] [--rates chat-half] [--profiles chat,story] [--before]
                                 [--same-slips 0.5] [--set NAME=VALUE ...] [--show]

The demo's model says what would be right, and is then disturbed (RATES); the drawn desktop has a real file for the
note, and virtual time. The checkers look at that file or at what the desktop knows, never at what was said. A wrong
verifier says YES to all where the task is not done, and NO to one check where it is. Its answer follows from the
request alone, as at temperature 0: the same question gets the same answer, and `--same-slips` is the share of its
errors that depend on the task and screen alone, so that other words of the same question do not help.

`5 1 --rates none` counts the calls that a perfect model needs for the five tasks, by role.

`--before` verifies as before there were checks and facts: chats are believed at a word, others are judged by the task.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import agent
from agent import Coordinate, DemoState
from tests import drawn
from tests.bench.figures import Share
from tests.drawn import DrawnDesktop, DrawnState
from tests.fakes import VirtualClock
from tests.scripted import role_of
from tests.seams import make_engine

PROFILES = ("planner", "commander", "chat", "pointer", "story", "native")
MOST_TURNS = 60
SMALL = 44  # pixels of the smaller side of a small target


@dataclass(frozen=True)
class Rates:
    """How often a reply of the acting or planning role errs, in this order of precedence."""

    prose: float = 0.20  # words without a call
    repeat: float = 0.10  # the reply before, once more
    claim: float = 0.08  # it is done, whether or not it is
    malformed: float = 0.12  # the call is cut off or names no tool
    wrong_target: float = 0.06  # another thing on the screen
    misclick: float = 0.20  # of places of small targets: onto a neighbour or beside
    typo: float = 0.03  # of the texts that are typed
    verifier: float = 0.15  # of its replies

    def times(self, factor: float) -> Rates:
        return Rates(**{name: rate * factor for name, rate in vars(self).items()})


FULL = Rates()
RATES: dict[str, Callable[[str], Rates]] = {
    "full": lambda profile: FULL,
    "half": lambda profile: FULL.times(0.5),
    "chat-half": lambda profile: FULL.times(0.5 if profile in ("chat", "pointer") else 1),
    "none": lambda profile: FULL.times(0),
    "verifier": lambda profile: replace(FULL, verifier=0),
}

PROSE = (
    "I will open the program now.",
    "The screen shows a desktop with some icons and a taskbar at the bottom.",
    "Let me press the button to go on with the task.",
    "First I need to find the right window, then I can do the next step.",
)
SURE = (
    "as the screen shows",
    "as was wanted",
    "so nothing is left to do",
    "which I have checked",
    "as can be seen in the window",
    "and no step is missing",
)


class Goal(NamedTuple):
    """A task, the desktop at its beginning, and whether it is truly done."""

    name: str
    text: str  # with {path} for the file
    begin: DemoState
    note: str = ""  # what the file has to hold
    done: Callable[[DemoState], bool] = lambda state: True
    checks: tuple[str, ...] = ()  # what the examiner answers
    steps: tuple[Any, ...] = agent.DEMO_STEPS


def step(tool: str, why: str, sees: str = "", lacks: str = "") -> Any:
    """A row of the table by which the demo's model goes."""
    row = agent.DEMO_STEPS[0]
    return row._replace(tool=tool, why=why, sees=sees, lacks=lacks)


CLICK, DOUBLE_CLICK, TYPE = "^move_mouse|^click|^left_click", "^double_click", "^type"
DONE = "complet|^done|^terminate"


def planned(plan: str) -> tuple[Any, ...]:
    """The first rows of a table, for who does not see the screen."""
    return (
        step("^archive|^compress", "The older actions are done", "ARCHIVE_NOW"),
        step("_plan$|^spawn", plan, "no picture"),
        step("^observe|^take_screen", "The screen has not been seen yet", "no picture"),
    )


SETTINGS_STEPS = (
    *planned("Open Settings, click the check box of Night light and press OK"),
    step(
        DONE,
        "A notice with a green mark says that the night light is on. The dialog is closed and the"
        " check box was ticked before",
        "night light mark",
    ),
    step(CLICK, "Night light waits for OK", "OK button", lacks="check box"),
    step(CLICK, "The check box of Night light is empty", "check box"),
    step(DOUBLE_CLICK, "The desktop shows the Settings icon", "Settings icon"),
    step(CLICK, "The taskbar shows the Settings", "Settings pin"),
)
CONTACTS_STEPS = (
    *planned("Open Contacts, click Zoe in the list and press Call"),
    step(
        DONE,
        "A green mark and the words beside it say that Zoe is called. She was picked in the list of"
        " Contacts and Call was pressed",
        "call mark",
    ),
    step(CLICK, "Zoe is not picked yet", "Zoe in the list", lacks="picked"),
    step(CLICK, "Zoe is picked and not called yet", "Call button"),
    step(DOUBLE_CLICK, "The desktop shows the Contacts icon", "Contacts icon"),
    step(CLICK, "The taskbar shows the Contacts", "Contacts pin"),
)
NOTE = ('{name} contains "{note}".', "The title bar of Notes says Saved.")
GOALS = (
    Goal(
        "note",
        'Open Notes, write "Hello from agent.py" and save it as {path}.',
        DemoState(),
        "Hello from agent.py",
        checks=NOTE,
    ),
    Goal(
        "list",
        'Open Notes, write "milk, bread and eggs" and save it as {path}.',
        DemoState(opened=True, text="old words"),
        "milk, bread and eggs",
        checks=NOTE,
    ),
    Goal(
        "settings",
        drawn.TASKS["settings"].text,
        DrawnState(),
        done=drawn.TASKS["settings"].is_done,
        checks=("Settings is closed.", "A green mark says that the night light is on."),
        steps=SETTINGS_STEPS,
    ),
    Goal(
        "settings behind",
        drawn.TASKS["settings"].text,
        DrawnState(program="Contacts", picked="Ada"),
        done=drawn.TASKS["settings"].is_done,
        checks=("A green mark says that the night light is on.",),
        steps=SETTINGS_STEPS,
    ),
    Goal(
        "contacts",
        drawn.TASKS["contacts"].text,
        DrawnState(first_contact=len(drawn.CONTACTS) - drawn.ROWS),
        done=drawn.TASKS["contacts"].is_done,
        checks=("Contacts says that it calls Zoe.",),
        steps=CONTACTS_STEPS,
    ),
)


class FileDesktop(DrawnDesktop):
    """The drawn desktop with a real file for the note; a click into the text selects all of it."""

    def __init__(self, clock: agent.Clock, goal: Goal, path: Path) -> None:
        super().__init__(clock, goal.begin)
        self.path = path
        self.selected = False

    def button(self, name: str, down: bool) -> None:
        before = self.state
        super().button(name, down)
        if name == "left" and not down:
            places = before.places().items()
            under = next(known for known, at in places if at.rect.contains(self.cursor()))
            self.selected = under == "text area"
        self._keep(before)

    def key(self, name: str, down: bool) -> None:
        before = self.state
        if down and not self.held and (len(name) == 1 or name in ("space", "enter", "tab")):
            self._replace()
        super().key(name, down)
        self._keep(before)

    def text(self, text: str) -> None:
        self._replace()
        super().text(text)

    def _replace(self) -> None:
        if self.selected and self.state.focus:
            self.state = replace(self.state, text="")
        self.selected = False

    def _keep(self, before: DemoState) -> None:
        if self.state.clean and (not before.clean or self.state.text != before.text):
            self.path.write_text(self.state.text, encoding="utf-8")


@dataclass
class ErringModel:
    """What answers the requests of one run."""

    rates: Rates
    random: random.Random
    seed: int
    goal: Goal
    path: Path
    desktop: FileDesktop
    same_slips: float
    last: dict[str, Any] | None = None
    slips: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)  # requests by their role

    def complete(self, body: bytes) -> agent.Reply:
        request = json.loads(body)
        message = self.answer(request)
        usage = agent.Usage(len(body) // 100, 50, None)
        finish = "tool_calls" if "tool_calls" in message else "stop"
        return agent.Reply(message, finish, usage, "erring", 0.1, 1)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        role = role_in(request)
        self.asked[role] += 1
        if role == "examiner":
            lines = [f"{number}. {check}" for number, check in enumerate(self.checks(), 1)]
            return words("\n".join(lines))
        if role == "verifier":
            return words(self.verdict(request))
        return self.act(request)

    def checks(self) -> list[str]:
        return [
            check.format(name=self.path.name, note=self.goal.note) for check in self.goal.checks
        ]

    def is_done(self) -> bool:
        return is_done(self.goal, self.path, self.desktop.state)

    def verdict(self, request: dict[str, Any]) -> str:
        text = "\n".join(part.get("text", "") for part in request["messages"][1]["content"])
        numbers = [line.partition(".")[0] for line in text.partition("CHECKS:\n")[2].splitlines()]
        checks = [number for number in numbers if number.isdigit()]
        done = self.is_done()
        if self.errs(request):
            self.slips["verifier"] += 1
            if not done:
                return "\n".join(f"{number} YES: the screen shows it" for number in checks)
            return "\n".join(
                f"{number} {'NO' if number == '1' else 'YES'}: seen" for number in checks
            )
        return "\n".join(f"{number} {'YES' if done else 'NO'}: as seen" for number in checks)

    def errs(self, request: dict[str, Any]) -> bool:
        """Whether the verifier is wrong: always the same for the same request."""
        shown = repr((self.desktop.state, self.seed))
        asked = json.dumps(request).replace(str(self.path.parent), "")  # another one each time
        kind = random.Random(digest(f"kind {shown}")).random()
        what = shown if kind < self.same_slips else shown + asked
        return random.Random(digest(what)).random() < self.rates.verifier

    def act(self, request: dict[str, Any]) -> dict[str, Any]:
        """A reply of a role that plans or acts."""
        if self.slips_in("prose"):
            return words(self.random.choice(PROSE))
        if self.last and self.slips_in("repeat"):
            return self.last
        message = self.right(request)
        if self.slips_in("malformed"):
            message = broken(message, self.random)
        elif self.goal.note and self.goal.note in json.dumps(message) and self.slips_in("typo"):
            message = json.loads(json.dumps(message).replace(self.goal.note, self.typo()))
        self.last = message
        return message

    def slips_in(self, name: str) -> bool:
        errs = self.random.random() < getattr(self.rates, name)
        self.slips[name] += errs
        return errs

    def typo(self) -> str:
        place = self.random.randrange(len(self.goal.note))
        return self.goal.note[:place] + self.goal.note[place + 1 :]

    def right(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the demo's model says, at places and with steps that may be wrong."""
        claims = role_in(request) == "executor" and self.slips_in("claim")
        with (
            mock.patch.object(agent, "demo_sights", self.sights(agent.demo_sights)),
            mock.patch.object(agent, "DEMO_STEPS", self.steps(claims)),
        ):
            return agent.demo_reply(request)

    def steps(self, claims: bool) -> tuple[Any, ...]:
        """What leads to the goal; a claim comes before it, and so does the removal of a wrong text."""
        sure = self.random.choice(SURE)  # a model says it in other words each time
        found = [
            row._replace(why=f"{row.why}, {sure}") if row.tool == DONE else row
            for row in self.goal.steps
        ]
        state, wanted = self.desktop.state, self.goal.note
        if wanted and state.text and state.text != wanted:
            mend = step(CLICK, "The text is another one", "text area")
            if self.desktop.selected:
                mend = step(TYPE, "The wrong text is selected", "text area")
            found.insert(0, mend)
        if claims:
            said = f"All that the task asks for is done, {sure}"
            found.insert(0, step(DONE, said, lacks="no picture"))
        return tuple(found)

    def sights(self, truth: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        def disturbed(png: bytes) -> dict[str, Coordinate]:
            seen = {**truth(png), **drawn.sights(png), **self.of_contacts()}
            if not self.is_done():
                seen.pop("call mark", None)
            targets = [name for name in seen if name not in ("pointer", "caret", "picked")]
            if len(targets) > 1 and self.slips_in("wrong_target"):
                moved = dict(zip(targets, self.random.sample(targets, len(targets)), strict=True))
                return seen | {name: seen[other] for name, other in moved.items()}
            if self.slips_in("misclick"):
                return {name: self.missed(name, place) for name, place in seen.items()}
            return seen

        return disturbed

    def of_contacts(self) -> dict[str, Coordinate]:
        """What no colour tells: where Zoe stands in the list, and whether she is picked."""
        places = self.desktop.state.places()
        names = [name for name in ("Zoe in the list", "Call button") if name in places]
        found = {}
        for name in names:
            rect = places[name].rect
            x, y = rect.left + rect.width // 2, rect.top + rect.height // 2
            found[name] = Coordinate(x * 1000 // 1280, y * 1000 // 720)
        if found and getattr(self.desktop.state, "picked", "") == "Zoe":
            found["picked"] = found["Call button"]
        return found

    def missed(self, name: str, place: Coordinate) -> Coordinate:
        """A place beside a small target; a large one is hit all the same."""
        found = self.desktop.state.places().get(name)
        rect = found and found.rect
        if rect is None or min(rect.width, rect.height) > SMALL:
            return place
        angle = self.random.random() * math.tau
        reach = self.random.uniform(0.7, 1.5)
        x = place.x + round(rect.width * reach * math.cos(angle) * 1000 / 1280)
        y = place.y + round(rect.height * reach * math.sin(angle) * 1000 / 720)
        return Coordinate(min(max(x, 0), 1000), min(max(y, 0), 1000))


def role_in(request: dict[str, Any]) -> str:
    """planner, executor, examiner or verifier."""
    judges = agent.PROFILES["planner"].roles
    for name in ("examiner", "verifier"):
        if request["messages"][0]["content"] == judges[name].prompt:
            return name
    return "planner" if role_of(request) == "planner" else "executor"


def digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def words(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def broken(message: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A reply whose call is cut off, or names a tool that is not there."""
    if "tool_calls" not in message:
        text = message["content"]
        return words(text[: len(text) * 2 // 3])
    (call,) = message["tool_calls"]
    function = dict(call["function"])
    if rng.random() < 0.5:
        function["arguments"] = function["arguments"][:-4]
    else:
        function["name"] = "do_it"
    return {**message, "tool_calls": [{**call, "function": function}]}


def is_done(goal: Goal, path: Path, state: DemoState) -> bool:
    """What the checker says of the file and the desktop."""
    if not goal.note:
        return goal.done(state)
    return path.is_file() and path.read_text(encoding="utf-8") == goal.note


@dataclass
class Result:
    """How one run ended."""

    goal: str
    seed: int
    outcome: agent.Outcome
    done: bool
    turns: int
    asked: Counter[str]
    slips: Counter[str]

    @property
    def completed(self) -> bool:
        return self.outcome.kind == "completed"


BEFORE = {"derive_checks": False, "second_opinion": False}


def run(
    profile: str,
    number: int,
    seed: int,
    rates: Rates,
    before: bool = False,
    same_slips: float = 0.0,
    settings: dict[str, Any] | None = None,
) -> Result:
    """One run in a folder of its own."""
    goal = GOALS[number % len(GOALS)]
    known = agent.PROFILES[profile]
    own = digest(f"{seed} {profile} {number}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / f"{goal.name}.txt"
        base: dict[str, Any] = {"max_steps": MOST_TURNS, "dump_dir": str(folder / "dumps")}
        base["confirm"] = "never"  # nobody is there, and a call is asked about
        if profile == "native":
            base["executor_grammar"] = "qwen3-vl"
        if before:
            base |= BEFORE
            base["verify_completion"] = known.loop != "chat"
        config = agent.load_config({"profile": known.settings, "bench": base | (settings or {})})
        stop = agent.Stop()
        clock = VirtualClock(stop)
        desktop = FileDesktop(clock, goal, path)
        info = agent.ModelInfo("demo-model", context_length=16384)
        model = ErringModel(rates, random.Random(own), own, goal, path, desktop, same_slips)
        logger = agent.ExecutionLogger(config)
        actuator = agent.Actuator(desktop, config, clock, stop)
        task = goal.text.format(path=path)
        actuator.task = task
        engine = make_engine(
            config, known, desktop, actuator, model, logger, clock, info, lambda line: None
        )
        state = agent.AgentState(
            task=task, memory=agent.AgentMemory(config.memory_compression_threshold)
        )
        try:
            outcome = agent.run_agent(engine, state)
        except agent.AgentError as error:
            outcome = agent.Outcome("error", str(error))
        done = model.is_done()
        logger.close()
        return Result(goal.name, number, outcome, done, state.turn, model.asked, model.slips)


def summary(name: str, results: Sequence[Result]) -> str:
    number = len(results)
    ends = Counter(result.outcome.kind for result in results)
    good = sum(result.completed and result.done for result in results)
    false = sum(result.completed and not result.done for result in results)
    unseen = sum(result.done and not result.completed for result in results)
    ends.pop("completed", 0)
    rest = ", ".join(f"{kind} {times}" for kind, times in sorted(ends.items())) or "-"
    turns = sum(result.turns for result in results) / number
    asked = sum((result.asked for result in results), Counter[str]())
    roles = ", ".join(f"{role} {times}" for role, times in sorted(asked.items()))
    return (
        f"{name:10} {number:4}  truly completed {Share(good, number)!s:24} false {false:2} ="
        f" {Share(false, number)!s:20} others: {rest} (of these done {unseen});"
        f" {turns:.1f} turns, {asked.total() / number:.1f} requests; in all {asked.total()}: {roles}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=int, nargs="?", default=20)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--rates", choices=RATES, default="full")
    parser.add_argument("--profiles", default=",".join(PROFILES))
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--same-slips", type=float, default=0.0)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--show", action="store_true", help="each run that failed")
    options = parser.parse_args()
    settings = dict(item.split("=", 1) for item in options.set)
    for profile in options.profiles.split(","):
        results = []
        for number in range(options.runs):
            rates = RATES[options.rates](profile)
            result = run(
                profile, number, options.seed, rates, options.before, options.same_slips, settings
            )
            results.append(result)
            if options.show and not (result.completed and result.done):
                said = f"{result.outcome.kind}: {result.outcome.text}"[:230]
                print(f"  {number} {result.goal} done={result.done} {said} {dict(result.slips)}")
        print(summary(profile, results), flush=True)


if __name__ == "__main__":
    main()
