"""Every profile that acts, carried by a model that errs in seeded, stated ways, on four tasks with checkers.

    python -m tests.bench.erring [runs] [seed] [--times 0.5] [--profiles chat,story] [--set NAME=VALUE ...]

The demo's model says what would be right, and is then disturbed (RATES, so many times); the drawn desktop has a real file
for the note, and virtual time. The checkers look at that file or at what the desktop knows, never at what was said. A
wrong verifier says YES to all where the task is not done, and NO to one check where it is; the same question always gets
the same answer, as at temperature 0. `4 1 --times 0` counts the calls that a perfect model needs for the tasks, by role.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import agent
from agent import Coordinate, DemoState
from tests import drawn
from tests.bench.figures import Share
from tests.drawn import DrawnDesktop, DrawnState
from tests.fakes import VirtualClock
from tests.scripted import role_of, text
from tests.seams import make_engine

PROFILES = ("planner", "commander", "chat", "pointer", "story", "native")
MOST_TURNS = 60
SMALL = 44  # pixels of the smaller side of a small target
# How often a reply of the acting or planning role errs, in this order of precedence.
RATES = {
    "prose": 0.20,  # words without a call
    "repeat": 0.10,  # the reply before, once more
    "claim": 0.08,  # it is done, whether or not it is
    "malformed": 0.12,  # the call is cut off or names no tool
    "wrong_target": 0.06,  # another thing on the screen
    "misclick": 0.20,  # of places of small targets: onto a neighbour or beside
    "typo": 0.03,  # of the texts that are typed
    "verifier": 0.15,  # of its replies
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


def step(tool: str, why: str, sees: str = "", lacks: str = "") -> Any:
    """A row of the table by which the demo's model goes."""
    return agent.DEMO_STEPS[0]._replace(tool=tool, why=why, sees=sees, lacks=lacks)


CLICK, DOUBLE_CLICK, TYPE = "^move_mouse|^click|^left_click", "^double_click", "^type"
DONE = "complet|^done|^terminate"
ON = """A notice with a green mark says that the night light is on. The dialog is closed and the check box was ticked \
before"""


def planned(plan: str) -> tuple[Any, ...]:
    """The first rows of a table, for who does not see the screen."""
    return (
        step("^archive|^compress", "The older actions are done", "ARCHIVE_NOW"),
        step("_plan$|^spawn", plan, "no picture"),
        step("^observe|^take_screen", "The screen has not been seen yet", "no picture"),
    )


SETTINGS_STEPS = (
    *planned("Open Settings, click the check box of Night light and press OK"),
    step(DONE, ON, "night light mark"),
    step(CLICK, "Night light waits for OK", "OK button", lacks="check box"),
    step(CLICK, "The check box of Night light is empty", "check box"),
    step(DOUBLE_CLICK, "The desktop shows the Settings icon", "Settings icon"),
    step(CLICK, "The taskbar shows the Settings", "Settings pin"),
)


class Goal(NamedTuple):
    """A task, the desktop at its beginning, what the examiner answers, and what the file has to hold in the end."""

    name: str
    text: str  # with {path} for the file
    begin: DemoState
    checks: tuple[str, ...]
    steps: tuple[Any, ...] = agent.DEMO_STEPS
    note: str = ""

    def is_done(self, path: Path, state: DemoState) -> bool:
        if not self.note:
            return drawn.is_done(state)
        return path.is_file() and path.read_text(encoding="utf-8") == self.note


SAVE = 'Open Notes, write "{}" and save it as {{path}}.'
WORDS, LIST = "Hello from agent.py", "milk, bread and eggs"
NOTE = ('{name} contains "{note}".', "The title bar of Notes says Saved.")
LIGHT, MARK = drawn.TASK, "A green mark says that the night light is on."
BEHIND = DrawnState(opened=True, text="old words")
GOALS = (
    Goal("note", SAVE.format(WORDS), DemoState(), NOTE, note=WORDS),
    Goal("list", SAVE.format(LIST), DemoState(opened=True, text="old words"), NOTE, note=LIST),
    Goal("settings", LIGHT, DrawnState(), ("Settings is closed.", MARK), SETTINGS_STEPS),
    Goal("settings behind", LIGHT, BEHIND, (MARK,), SETTINGS_STEPS),
)


class FileDesktop(DrawnDesktop):
    """The drawn desktop with a real file for the note; a click into the text selects all of it."""

    def __init__(self, clock: agent.Clock, goal: Goal, path: Path) -> None:
        super().__init__(clock, goal.begin)
        self.path, self.selected = path, False

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


class ErringModel:
    """What answers the requests of one run."""

    def __init__(
        self, rates: Mapping[str, float], seed: int, goal: Goal, desktop: FileDesktop
    ) -> None:
        self.rates, self.seed, self.goal, self.desktop = rates, seed, goal, desktop
        self.random = random.Random(seed)
        self.asked = Counter[str]()  # requests by their role
        self.last: dict[str, Any] | None = None

    def complete(self, body: bytes) -> agent.Reply:
        message = self.answer(json.loads(body))
        usage = agent.Usage(len(body) // 100, 50, None)
        finish = "tool_calls" if "tool_calls" in message else "stop"
        return agent.Reply(message, finish, usage, "erring", 0.1)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        role, path = role_in(request), self.desktop.path
        self.asked[role] += 1
        if role == "examiner":
            checks = [one.format(name=path.name, note=self.goal.note) for one in self.goal.checks]
            return text("\n".join(f"{number}. {one}" for number, one in enumerate(checks, 1)))
        return text(self.verdict(request)) if role == "verifier" else self.act(request)

    def is_done(self) -> bool:
        return self.goal.is_done(self.desktop.path, self.desktop.state)

    def verdict(self, request: dict[str, Any]) -> str:
        asked = "\n".join(part.get("text", "") for part in request["messages"][1]["content"])
        numbers = [line.partition(".")[0] for line in asked.partition("CHECKS:\n")[2].splitlines()]
        done = self.is_done()
        # Another folder each time; the same question is answered in the same way.
        plain = json.dumps(request).replace(str(self.desktop.path.parent), "")
        dice = random.Random(digest(repr((self.desktop.state, self.seed)) + plain))
        errs = dice.random() < self.rates["verifier"]
        said, seen = {number: done for number in numbers if number.isdigit()}, "as seen"
        if errs:
            said = {number: not done or number != "1" for number in said}
            seen = "seen" if done else "the screen shows it"
        return "\n".join(
            f"{number} {'YES' if yes else 'NO'}: {seen}" for number, yes in said.items()
        )

    def act(self, request: dict[str, Any]) -> dict[str, Any]:
        """A reply of a role that plans or acts."""
        if self.slips_in("prose"):
            return text(self.random.choice(PROSE))
        if self.last and self.slips_in("repeat"):
            return self.last
        message, note = self.right(request), self.goal.note
        if self.slips_in("malformed"):
            message = broken(message, self.random)
        elif note and note in json.dumps(message) and self.slips_in("typo"):
            place = self.random.randrange(len(note))
            wrong = note[:place] + note[place + 1 :]
            message = json.loads(json.dumps(message).replace(note, wrong))
        self.last = message
        return message

    def slips_in(self, name: str) -> bool:
        return self.random.random() < self.rates[name]

    def right(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the demo's model says, at places and with steps that may be wrong."""
        claims = role_in(request) == "executor" and self.slips_in("claim")
        truth = agent.demo_sights
        with (
            mock.patch.object(agent, "demo_sights", lambda png: self.seen(truth(png), png)),
            mock.patch.object(agent, "DEMO_STEPS", self.steps(claims)),
        ):
            return agent.demo_reply(request)

    def steps(self, claims: bool) -> tuple[Any, ...]:
        """What leads to the goal; a claim comes before it, and so does the removal of a wrong text."""
        sure = self.random.choice(SURE)  # a model says it in other words each time
        state, wanted = self.desktop.state, self.goal.note
        found = [
            row._replace(why=f"{row.why}, {sure}") if row.tool == DONE else row
            for row in self.goal.steps
        ]
        if wanted and state.text and state.text != wanted:
            mend = step(CLICK, "The text is another one", "text area")
            if self.desktop.selected:
                mend = step(TYPE, "The wrong text is selected", "text area")
            found.insert(0, mend)
        if claims:
            said = f"All that the task asks for is done, {sure}"
            found.insert(0, step(DONE, said, lacks="no picture"))
        return tuple(found)

    def seen(self, known: dict[str, Coordinate], png: bytes) -> dict[str, Coordinate]:
        seen = {**known, **drawn.sights(png)}
        targets = [name for name in seen if name not in ("pointer", "caret", "picked")]
        if len(targets) > 1 and self.slips_in("wrong_target"):
            moved = dict(zip(targets, self.random.sample(targets, len(targets)), strict=True))
            return seen | {name: seen[other] for name, other in moved.items()}
        if self.slips_in("misclick"):
            return {name: self.missed(name, place) for name, place in seen.items()}
        return seen

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


def digest(words: str) -> int:
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big")


def broken(message: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A reply whose call is cut off, or names a tool that is not there."""
    if "tool_calls" not in message:
        said = message["content"]
        return text(said[: len(said) * 2 // 3])
    (call,) = message["tool_calls"]
    function = dict(call["function"])
    if rng.random() < 0.5:
        function["arguments"] = function["arguments"][:-4]
    else:
        function["name"] = "do_it"
    return {**message, "tool_calls": [{**call, "function": function}]}


class Result(NamedTuple):
    """How one run ended."""

    outcome: agent.Outcome
    done: bool
    turns: int
    asked: Counter[str]

    @property
    def completed(self) -> bool:
        return self.outcome.kind == "completed"


def run(
    profile: str, number: int, seed: int, times: float = 1, slips: Any = (), **settings: Any
) -> Result:
    """One run in a folder of its own, its model erring so many times as often, but for `slips`."""
    goal, known = GOALS[number % len(GOALS)], agent.PROFILES[profile]
    rates = {**{name: rate * times for name, rate in RATES.items()}, **dict(slips)}
    with tempfile.TemporaryDirectory() as folder:
        base: dict[str, Any] = {"max_steps": MOST_TURNS, "dump_dir": f"{folder}/dumps"}
        base["confirm"] = "never"  # nobody is there, and a call is asked about
        if profile == "native":
            base["executor_grammar"] = "qwen3-vl"
        config = agent.load_config({"profile": known.settings, "bench": base | settings})
        stop = agent.Stop()
        clock = VirtualClock(stop)
        desktop = FileDesktop(clock, goal, Path(folder, f"{goal.name}.txt"))
        info = agent.ModelInfo("demo-model", context_length=16384)
        model = ErringModel(rates, digest(f"{seed} {profile} {number}"), goal, desktop)
        engine = make_engine(config, known, desktop, model, info, clock, stop)
        engine.actuator.task = goal.text.format(path=desktop.path)
        engine.progress = state = agent.Progress(task=engine.actuator.task)
        try:
            outcome = agent.run_agent(engine)
        except agent.AgentError as error:
            outcome = agent.Outcome("error", str(error))
        engine.logger.close()
        return Result(outcome, model.is_done(), state.turn, model.asked)


def summary(name: str, results: Sequence[Result]) -> str:
    number = len(results)
    ends = Counter(result.outcome.kind for result in results if not result.completed)
    good = sum(result.completed and result.done for result in results)
    false = sum(result.completed and not result.done for result in results)
    unseen = sum(result.done and not result.completed for result in results)
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
    parser.add_argument("--times", type=float, default=1.0, help="as often as in RATES")
    parser.add_argument("--profiles", default=",".join(PROFILES))
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    settings = dict(item.split("=", 1) for item in options.set)
    for profile in options.profiles.split(","):
        given = options.seed, options.times
        results = [run(profile, number, *given, **settings) for number in range(options.runs)]
        print(summary(profile, results), flush=True)


if __name__ == "__main__":
    main()
