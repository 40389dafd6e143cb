"""Random chords, coordinates, drags and texts against the gates, on a plain desktop that judges what arrives.

Each act goes through Actuator.perform, one of several steps step by step as the turn engine takes it. The rules are
written here anew, without the program's own tables: no event outside the working area, none to a forbidden window, no
blocked chord down, no text while a key is down, nothing held afterwards, nothing pressed by a refused act, no program
started that is not on the list, and nothing from a risky act without a yes of the last minute to this act in this
window.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, deque
from typing import Any

import agent
from agent import Point, Rect, ToolCall
from tests.fakes import VirtualClock
from tests.scripted import PlainDesktop
from tests.seams import steps_of

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
PLAIN = "l L f4 F4 del Delete DEL backspace insert escape Esc a 5 enter tab home sleep".split()
BLOCKED = [
    set(keys.split("+"))
    for keys in "win+l ctrl+alt+delete ctrl+shift+escape sleep ctrl+alt+backspace ctrl+alt+insert".split()
]
WORDS = agent.Vocabulary({name: name for name in agent.TOOLS})
SETTINGS = {
    "blocked_windows": "*bank*",
    "minutes_most": 0,
    "acts_per_minute": 10000,
    "drag_steps": 4,
}
KINDS = """press_key press_key press_key click double_click right_click drag drag type_text type_text scroll_down
open_app focus_window scroll move""".split()


def plain(*keys: str) -> set[str]:
    """What names of VK_MAP stand for, sides aside; the right alt may be AltGr, which is ctrl+alt."""
    found = set[str]()
    for key in keys:
        of_a_side = key[1:] in ("ctrl", "alt", "shift", "win")
        found |= {"ctrl", "alt"} if key == "ralt" else {key[1:] if of_a_side else key}
    return found


class Recorder(PlainDesktop):
    """A desktop that judges each event as it arrives."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.place, self.front = Point(0, 100), WINDOWS[0]
        self.keys, self.buttons = set[str](), set[str]()  # that are down
        self.wrong, self.events = list[str](), 0
        self.told = deque[Any](maxlen=1000)  # what arrived, was asked and came of acts

    def screen(self) -> Rect:
        return SCREEN

    def windows(self) -> list[agent.Window]:
        return [self.front, *WINDOWS]

    def programs(self) -> list[agent.Program]:
        return PROGRAMS

    def note(self, bad: bool, what: str) -> None:
        self.wrong += [what] if bad else []

    def judge(self, bad: bool, what: str) -> None:
        """A judgement about an event."""
        self.events += 1
        self.told.append(what)
        self.note(bad, what)

    def capture(self, area: Rect, width: int, height: int) -> agent.Frame:
        return self.look(0, self.front)

    def look(self, number: int, window: agent.Window) -> agent.Frame:
        seen = bytes(128)
        return agent.Frame(number, 8, 4, seen, seen, AREA, SCREEN, self.clock.now(), window)

    def foreground(self) -> agent.Window:
        return self.front

    def window_at(self, point: Point) -> agent.Window:
        return next(window for window in self.windows() if window.rect.contains(point))

    def window(self, handle: int) -> agent.Window | None:
        return next((window for window in self.windows() if window.handle == handle), None)

    def start_program(self, program: agent.Program) -> None:
        self.judge(program not in PROGRAMS or "Bank" in program.name, f"start of {program.name}")
        self.front = agent.Window(6, program.name, "x.exe", Rect(0, 60, 400, 300))

    def bring_to_front(self, window: agent.Window) -> None:
        self.judge(window.handle in FORBIDDEN, f"{window.title} to the front")
        self.front = window

    def move(self, point: Point) -> None:
        self.judge(not AREA.contains(point), f"move to {point}")
        self.place = point

    def button(self, name: str, down: bool) -> None:
        window = self.window_at(self.place)
        if down:  # to let go of something is no harm anywhere
            bad = window.handle in FORBIDDEN or not AREA.contains(self.place)
            self.judge(bad, f"{name} on {window.title}")
        (self.buttons.add if down else self.buttons.discard)(name)

    def wheel(self, units: int, horizontal: bool = False) -> None:
        self.judge(self.window_at(self.place).handle in FORBIDDEN, "wheel")

    def key(self, name: str, down: bool) -> None:
        (self.keys.add if down else self.keys.discard)(name)
        if down:
            held = plain(*self.keys)
            bad = any(chord <= held for chord in BLOCKED) or self.front.handle in FORBIDDEN
            self.judge(bad, f"keys {sorted(held)} to {self.front.title}")

    def text(self, text: str) -> None:
        keys = plain(*self.keys)
        bad = self.front.handle in FORBIDDEN or bool(keys)
        self.judge(bad, f"text of {len(text)} to {self.front.title} with {keys} down")


def random_chord(rng: random.Random) -> str:
    keys = [rng.choice(side) for side in rng.sample(SIDES, rng.randint(0, 3))]
    keys += rng.sample(PLAIN, rng.randint(0, 1))
    rng.shuffle(keys)
    return rng.choice(("+", " + ", "+")).join(keys) or "a"


def random_call(rng: random.Random) -> ToolCall:
    """One call as a model might make it; coordinates a little beyond the grid, too."""
    kind = rng.choice(KINDS)
    here, there = ([rng.randint(-20, 1020) for _ in range(2)] for _ in range(2))
    label = {"element_name": rng.choice(LABELS)}
    then = [random_chord(rng) for _ in range(rng.choice((0, 0, 0, 1, 3)))]
    text = "".join(rng.choices("ab\n\tß😀 ", k=rng.randint(1, 60)))
    typed: dict[str, Any] = {"text": rng.choice([text, text, text, *RISKY_TEXTS])}
    more = {"position": here, "clear": True, "submit": True}
    typed |= {name: more[name] for name in more if rng.random() < 0.2}
    given: dict[str, dict[str, Any]] = {
        "press_key": {"key": random_chord(rng)} | ({"then": then} if then else {}),
        "type_text": typed,
        "drag": label | {"start": here, "end": there},
        "open_app": {"name": rng.choice(PROGRAM_NAMES)},
        "focus_window": {"title": rng.choice(TITLES)},
        "scroll": {"ticks": rng.choice((-1, 2)), "position": here},
        "scroll_down": {},
        "move": {"position": here},
    }
    return ToolCall(kind, given.get(kind, {"position": here, **label}))


def is_risky(act: agent.Act) -> bool:
    """Whether an act is one of the few that are certainly risky, by its plain words."""
    values = act.args
    keys = plain(*filter(None, str(values.get("key") or "").split("+")))
    return (
        values.get("element_name") in RISKY_LABELS
        or values.get("text") in RISKY_TEXTS
        or values.get("name") in RISKY_PROGRAMS
        or any(chord <= keys for chord in RISKY_CHORDS)
    )


class Trial:
    """The actuator, a person who answers questions at random, and what is known of both."""

    def __init__(self, seed: int | str, **settings: Any) -> None:
        self.rng, clock = random.Random(seed), VirtualClock(look_s=1.0)
        self.counts, self.number = Counter[str](), 0
        self.desktop = Recorder(clock)
        config = agent.load_config({"fuzz": {**SETTINGS, **settings}})
        self.actuator = agent.Actuator(self.desktop, config, clock, agent.Stop())
        self.actuator.person.allows = self.answer
        self.act: agent.Act | None = None
        self.last: agent.Act | None = None
        self.yes: tuple[str, list[int], float] | None = None  # the act, its windows, when

    def reached(self) -> list[int]:
        """Which windows the act reaches: those under its places, or the one in front."""
        if self.act and self.act.name == "open_app":
            return [0]
        values = self.act.args.values() if self.act else []
        places = [agent.to_point(at, AREA) for at in values if isinstance(at, agent.Coordinate)]
        found = [self.desktop.window_at(place) for place in places] or [self.desktop.front]
        return [window.handle for window in found]

    def answer(self, question: str, _: str) -> bool:
        """Yes or no, after a while."""
        self.desktop.told.append(question)
        self.desktop.note(len(question) > 300, f"a question of {len(question)} characters")
        self.desktop.clock.advance(self.rng.choice((1, 30, 100)))
        if self.rng.random() < 0.5:
            return False
        self.yes = (str(self.act), self.reached(), self.desktop.clock.time)
        return True

    def allowed(self) -> bool:
        """Whether the last yes is to this act, in its windows, and of the last minute."""
        if not self.yes:
            return False
        late = self.desktop.clock.time - self.yes[2] > YES_S + 10  # looks at the clock take time
        return self.yes[:2] == (str(self.act), self.reached()) and not late

    def random_act(self) -> None:
        """A random act, step by step until one is refused or leads to another window."""
        front = self.desktop.front = self.rng.choice(WINDOWS)
        seen = self.rng.choice(WINDOWS) if self.rng.random() < 0.1 else front
        again = self.rng.random() < 0.3
        try:
            act = self.last if again and self.last else WORDS.parse(random_call(self.rng))
        except agent.ToolError as error:  # a call that cannot be read
            self.number += 1
            self.counts["outside" if "outside" in str(error) else error.kind] += 1
            return
        self.last = act
        for step in steps_of(act):
            if self.step(step, seen) or self.desktop.front != front:
                break

    def step(self, act: agent.Act, seen: agent.Window) -> bool:
        """Whether one step was refused."""
        self.number += 1
        desktop, self.act = self.desktop, act
        frame, events = desktop.look(self.number, seen), desktop.events
        risky = is_risky(act)
        done = self.actuator.perform(act, frame)
        desktop.told.append(
            [act.name, agent.shown_args(act.args), done.result, done.refused, done.acted]
        )
        came = desktop.events != events
        if risky and came and done.acted:
            desktop.note(not self.allowed(), f"{act} without a yes")
            self.counts["risky, allowed"] += 1
            self.yes = None
        refused_whole = done.refused and not done.begun
        desktop.note(bool(refused_whole and came), f"events of a refused act: {done.result}")
        down = desktop.keys | desktop.buttons
        desktop.note(bool(down), f"held: {down}")
        desktop.keys.clear()
        desktop.buttons.clear()
        self.counts["outside" if "outside" in done.result else done.refused or "done"] += 1
        return bool(done.refused)


def fuzz(count: int, seed: int = 0, to_the_first: bool = False) -> Counter[str]:
    """Counts what became of `count` random acts; `violations` is what should be 0.

    It may end at the first of them, which is enough to know that there is one.
    """
    trial = Trial(seed)
    while trial.number < count and not (to_the_first and trial.desktop.wrong):
        trial.random_act()
    wrong = trial.desktop.wrong
    trial.counts["violations"], trial.counts["events"] = len(wrong), trial.desktop.events
    for what in wrong[:10]:
        print("VIOLATION", what, file=sys.stderr)
    return trial.counts


def main(count: int = 1_000_000, seed: int = 0) -> bool:
    counts = fuzz(count, seed)
    print(dict(counts))
    return not counts["violations"]
