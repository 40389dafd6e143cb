"""Random chords, coordinates, drags and texts against the gates: python -m tests.fuzz_gates 1000000 [SEED]

Each act goes through Actuator.perform on a plain recording desktop, one of several steps step by step as the turn engine
takes it. What arrives is judged by rules written here anew, without the program's own tables: no event outside the
working area, none to a forbidden window, no blocked chord down, no text over the limit or while a key is down, nothing
held afterwards, nothing pressed by a refused act, no program started that is not on the list, and nothing from a risky
act without a yes of the last minute to this act in this window, on a screen that still looks as in the model's picture.
Keys that earlier acts are said to hold count for a chord.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections import Counter
from typing import Any

import agent
from agent import Point, Rect, ToolCall
from tests.fakes import VirtualClock
from tests.scripted import PlainDesktop
from tests.seams import chord

SCREEN = Rect(-1280, -200, 3200, 1280)
AREA = Rect(-100, 50, 900, 700)
WINDOWS = [  # topmost first; handle, title, program, rectangle, elevated
    agent.Window(1, "Editor", "editor.exe", Rect(-1000, 0, 1300, 500)),
    agent.Window(2, "My BANK - Browser", "browser.exe", Rect(200, 300, 900, 300)),
    agent.Window(3, "Task Manager", "taskmgr.exe", Rect(0, 0, 600, 200), True),
    agent.Window(4, "cmd", "cmd.exe", Rect(500, 100, 500, 500), False, True),
    agent.Window(5, "Desktop", "explorer.exe", SCREEN),
]
FORBIDDEN = {2, 3, 4}
RISKY_LABELS = ["Delete", "ＤＥＬＥＴＥ", "D\u0435l\u0435te", "Del\u200bete", "Удалить", "删除"]
RISKY_LABELS.append("Zahlungspflichtig bestellen")
LABELS = [*RISKY_LABELS, "x", "Save", "Pin to taskbar", "Order by name", "Format menu"]
RISKY_TEXTS = ["{{PIN}}", "a\n{{PIN}}", "{{ PIN }} b"]
RISKY_CHORDS = [{"shift", "delete"}, {"alt", "f4"}]
PROGRAMS = [
    agent.Program("Notepad", "n.lnk", ("notepad.exe",)),
    agent.Program("Command Prompt", "c.lnk", ("cmd.exe",)),
    agent.Program("My Bank", "b.lnk", ("bank.exe",)),
    agent.Program("Paint", "p.lnk", ("evil.bat",)),
]
RISKY_PROGRAMS = ["Command Prompt", "cmd", "ＣＭＤ", "Paint"]
PROGRAM_NAMES = [*RISKY_PROGRAMS, "Notepad", "notepad.exe", "My B\u0430nk", "C:\\x\\notepad.exe"]
PROGRAM_NAMES += ["cmd /c x", "Nothing"]
TITLES = ["Editor", "My BANK - Browser", "Task Manager", "cmd", "Desktop", "e", "nothing"]
YES_S = 60
SIDES = [
    ("ctrl", "lctrl", "rctrl", "Control", "STRG", "lcontrol"),
    ("alt", "lalt", "ralt", "Option", "AltGr"),
    ("shift", "lshift", "rshift", "SHIFT"),
    ("win", "rwin", "lwin", "Windows", "cmd", "Super"),
]
PLAIN = "l L f4 F4 del Delete DEL q p escape Esc a 5 enter tab home sleep".split()
BLOCKED = [
    set(keys.split("+"))
    for keys in "win+l ctrl+alt+delete ctrl+shift+escape sleep ctrl+alt+q ctrl+alt+p".split()
]
WORDS = agent.Vocabulary({name: name for name in agent.TOOLS})


def plain(key: str) -> set[str]:
    """What a key's name in VK_MAP stands for, sides aside; the right alt may be AltGr, which is ctrl+alt."""
    if key == "ralt":
        return {"ctrl", "alt"}
    return {key[1:] if key[1:] in ("ctrl", "alt", "shift", "win") else key}


class Recorder(PlainDesktop):
    """A desktop that judges each event as it arrives."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.place, self.front = Point(0, 100), WINDOWS[0]
        self.down, self.wrong, self.events = set[tuple[str, str]](), list[str](), 0

    def screen(self) -> Rect:
        return SCREEN

    def windows(self) -> list[agent.Window]:
        return [self.front, *WINDOWS]

    def programs(self) -> list[agent.Program]:
        return PROGRAMS

    def judge(self, bad: bool, what: str) -> None:
        self.events += 1
        self.note(bad, what)

    def capture(self, area: Rect, width: int, height: int) -> agent.Frame:
        return self.look(0, self.front)

    def look(self, number: int, window: agent.Window) -> agent.Frame:
        seen = bytes(128)
        return agent.Frame(number, 8, 4, seen, seen, AREA, SCREEN, self.clock.now(), window)

    def foreground(self) -> agent.Window:
        return self.front

    def window_at(self, point: Point) -> agent.Window:
        order = [self.front, *WINDOWS]
        return next(window for window in order if window.rect.contains(point))

    def window(self, handle: int) -> agent.Window | None:
        return next((window for window in self.windows() if window.handle == handle), None)

    def start_program(self, program: agent.Program) -> None:
        self.judge(program not in PROGRAMS or "Bank" in program.name, f"start of {program.name}")
        self.front = agent.Window(6, program.name, "x.exe", Rect(0, 60, 400, 300))

    def bring_to_front(self, window: agent.Window) -> None:
        self.judge(window.handle in FORBIDDEN, f"{window.title} to the front")
        self.front = window

    def note(self, bad: bool, what: str) -> None:
        """A judgement about something that is no event."""
        if bad:
            self.wrong.append(what)

    def move(self, point: Point) -> None:
        self.judge(not AREA.contains(point), f"move to {point}")
        self.place = point

    def button(self, name: str, down: bool) -> None:
        window = self.window_at(self.place)
        if down:  # to let go of something is no harm anywhere
            bad = window.handle in FORBIDDEN or not AREA.contains(self.place)
            self.judge(bad, f"{name} on {window.title}")
        self.hold("button", name, down)

    def wheel(self, units: int, horizontal: bool = False) -> None:
        self.judge(self.window_at(self.place).handle in FORBIDDEN, "wheel")

    def key(self, name: str, down: bool) -> None:
        self.hold("key", name, down)
        if down:
            held = self.held_keys()
            bad = any(chord <= held for chord in BLOCKED) or self.front.handle in FORBIDDEN
            self.judge(bad, f"keys {sorted(held)} to {self.front.title}")

    def held_keys(self) -> set[str]:
        """The keys that are down, sides aside."""
        return set[str]().union(*(plain(key) for kind, key in self.down if kind == "key"))

    def text(self, text: str) -> None:
        keys = self.held_keys()
        bad = self.front.handle in FORBIDDEN or bool(keys)
        self.judge(bad, f"text of {len(text)} to {self.front.title} with {keys} down")

    def hold(self, kind: str, name: str, down: bool) -> None:
        (self.down.add if down else self.down.discard)((kind, name))


KINDS = """press_key press_key press_key click double_click right_click drag drag type_text type_text scroll_down
key_down key_down key_up mouse_down mouse_up open_app focus_window scroll move""".split()


def random_chord(rng: random.Random, sides: int = 3) -> str:
    keys = [rng.choice(side) for side in rng.sample(SIDES, rng.randint(0, sides))]
    keys += rng.sample(PLAIN, rng.randint(0, 1))
    rng.shuffle(keys)
    return rng.choice(("+", " + ", "+")).join(keys) or "a"


def random_typing(rng: random.Random, place: list[int]) -> dict[str, Any]:
    """A text, with whatever it may take before and after it."""
    text = "".join(rng.choices("ab\n\tß😀 ", k=rng.randint(1, 60)))
    given: dict[str, Any] = {"text": rng.choice([text, text, text, *RISKY_TEXTS])}
    more = {"position": place, "clear": True, "submit": True}
    return given | {name: more[name] for name in more if rng.random() < 0.2}


def random_call(rng: random.Random) -> ToolCall:
    """One call as a model might make it; coordinates a little beyond the grid, too."""
    kind = rng.choice(KINDS)
    places = [[rng.randint(-20, 1020) for _ in range(2)] for _ in range(2)]
    label = {"element_name": rng.choice(LABELS)}
    if kind == "press_key":
        then = [random_chord(rng) for _ in range(rng.choice((0, 0, 0, 1, 3)))]
        given: dict[str, Any] = {"key": random_chord(rng)} | ({"then": then} if then else {})
    elif kind in ("key_down", "key_up"):
        held = rng.choice(("shift", "RShift", "lalt", "win", "ctrl", random_chord(rng, 1)))
        given = {"key": held}
    elif kind == "type_text":
        given = random_typing(rng, places[0])
    elif kind == "drag":
        given = label | {"start": places[0], "end": places[1]}
    elif kind == "open_app":
        given = {"name": rng.choice(PROGRAM_NAMES)}
    elif kind == "focus_window":
        given = {"title": rng.choice(TITLES)}
    elif kind == "scroll":
        given = {"ticks": rng.choice((-1, 2)), "position": places[0]}
    elif kind == "scroll_down":
        given = {}
    else:
        given = {"position": places[0]} | (label if kind != "move" else {})
    return ToolCall(kind, given)


def is_risky(act: agent.Act, held: set[str]) -> bool:
    """Whether an act is one of the few that are certainly risky, by its plain words and the keys that are held."""
    values = vars(act.args)
    keys = set[str]()
    if act.name != "key_up" and values.get("key"):
        keys = set[str]().union(*(plain(key) for key in str(values["key"]).split("+")))
    chords = [chord for chord in RISKY_CHORDS if chord - {"shift", "alt"} <= keys]
    return (
        values.get("element_name") in RISKY_LABELS
        or values.get("text") in RISKY_TEXTS
        or values.get("name") in RISKY_PROGRAMS
        or any(chord <= keys | held for chord in chords)
    )


class Person:
    """Answers questions at random, after a while, during which the screen may change."""

    def __init__(self, rng: random.Random, desktop: Recorder) -> None:
        self.rng, self.desktop = rng, desktop
        self.act: agent.Act | None = None
        self.yes: tuple[str, list[int], float] | None = None  # the act, its windows, when

    def windows(self) -> list[int]:
        """Which windows the act reaches: those under its places, or the one in front."""
        if self.act and self.act.name == "open_app":
            return [0]
        values = vars(self.act.args).values() if self.act else []
        places = [agent.to_point(at, AREA) for at in values if isinstance(at, agent.Coordinate)]
        found = [self.desktop.window_at(place) for place in places] or [self.desktop.front]
        return [window.handle for window in found]

    def answer(self, question: str) -> bool:
        self.desktop.note(len(question) > 300, f"a question of {len(question)} characters")
        self.desktop.clock.advance(self.rng.choice((1, 30, 100)))
        if self.rng.random() < 0.5:
            return False
        self.yes = (str(self.act), self.windows(), self.desktop.clock.time)
        return True

    def allowed(self) -> bool:
        """Whether the last yes is to this act, in its windows, and of the last minute."""
        if not self.yes:
            return False
        act, windows, at = self.yes
        late = self.desktop.clock.time - at > YES_S + 10  # looks at the clock take time here
        return act == str(self.act) and windows == self.windows() and not late


class Trial:
    """The actuator, the person, and what is known of both."""

    def __init__(self, seed: int) -> None:
        self.rng, clock = random.Random(seed), VirtualClock(look_s=1.0)
        self.counts, self.number = Counter[str](), 0
        self.desktop = Recorder(clock)
        settings = {
            "blocked_windows": "*bank*",
            "minutes_most": 0,
            "acts_per_minute": 10000,
            "drag_steps": 4,
        }
        config = agent.load_config({"fuzz": settings})
        self.person = Person(self.rng, self.desktop)
        self.actuator = agent.Actuator(
            self.desktop, config, clock, agent.Stop(), confirm=self.person.answer
        )
        self.last: agent.Act | None = None

    def change(self) -> None:
        """The windows go their own ways."""
        if not self.actuator.keys or self.rng.random() < 0.3:  # these are tried in one window
            self.desktop.front = self.rng.choice(WINDOWS)

    def separate_presses(self) -> None:
        """Keys pressed one by one by a tool that holds them, in any order."""
        self.number += 1
        self.change()
        self.actuator._place = None
        names: list[str] = []
        for _ in range(4):
            with contextlib.suppress(agent.ToolError):
                names += chord(self.rng.choice([*PLAIN, *sum(SIDES, ())]))
        try:
            for name in dict.fromkeys(names):
                self.actuator._hold(name)
        except agent.ToolError as error:
            self.counts[error.kind] += 1
        else:
            self.counts["done"] += 1
        finally:
            self.actuator.release()
        self.judge_held()

    def act(self) -> None:
        """A random act, step by step until one is refused or leads to another window."""
        self.change()
        front, seen = self.desktop.front, self.desktop.front
        if self.rng.random() < 0.1:
            seen = self.rng.choice(WINDOWS)
        again = not self.actuator.keys and self.rng.random() < 0.3
        try:
            act = self.last if again and self.last else WORDS.parse(self.call())
        except agent.ToolError as error:  # a call that cannot be read
            self.number += 1
            self.counts["outside" if "outside" in str(error) else error.kind] += 1
            return
        self.last = act
        for step in agent.steps_of(act):
            if self.step(step, seen) or self.desktop.front != front:
                break

    def call(self) -> ToolCall:
        """A random call; while keys are held often one that they make another of."""
        if self.actuator.keys and self.rng.random() < 0.8:
            if self.rng.random() < 0.3:
                return ToolCall("type_text", {"text": "a"})
            return ToolCall("press_key", {"key": self.rng.choice("delete Del f4 F4 l".split())})
        return random_call(self.rng)

    def step(self, act: agent.Act, seen: agent.Window) -> bool:
        """Whether one step was refused."""
        self.number += 1
        desktop, person = self.desktop, self.person
        frame = desktop.look(self.number, seen)
        noted = set[str]().union(*map(plain, self.actuator.keys))
        events, person.act, risky = desktop.events, act, is_risky(act, noted)
        performed = self.actuator.perform(act, frame)
        if risky and desktop.events != events and performed.acted:
            desktop.note(not person.allowed(), f"{act} without a yes")
            self.counts["risky, allowed"] += 1
            person.yes = None
        if performed.refused and not performed.begun and desktop.events != events:
            desktop.wrong.append(f"events of a refused act: {performed.result}")
        self.judge_held()
        self.counts[
            "outside" if "outside" in performed.result else performed.refused or "done"
        ] += 1
        return bool(performed.refused)

    def judge_held(self) -> None:
        """Nothing is down."""
        if self.desktop.down:
            self.desktop.wrong.append(f"held: {self.desktop.down}")
            self.desktop.down.clear()


def fuzz(count: int, seed: int = 0, to_the_first: bool = False) -> Counter[str]:
    """Counts what became of `count` random acts; `violations` is what should be 0.

    It may end at the first of them, which is enough to know that there is one.
    """
    trial = Trial(seed)
    while trial.number < count and not (to_the_first and trial.desktop.wrong):
        if not trial.actuator.keys and trial.rng.random() < 0.1:
            trial.separate_presses()
        else:
            trial.act()
    wrong = trial.desktop.wrong
    trial.counts["violations"], trial.counts["events"] = len(wrong), trial.desktop.events
    for what in wrong[:10]:
        print("VIOLATION", what, file=sys.stderr)
    return trial.counts


if __name__ == "__main__":
    start = time.perf_counter()
    result = fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(dict(result), f"{time.perf_counter() - start:.0f} s")
    sys.exit(1 if result["violations"] else 0)
