"""Random chords, coordinates, drags and texts against the gates: python -m tests.fuzz_gates 1000000 [SEED]

Each act goes through Actuator.perform on a plain recording desktop. What arrives is judged by rules written here anew,
without the program's own tables: no event outside the working area, none to a forbidden window, no blocked chord down,
no text over the limit, nothing held afterwards, nothing at all from a refused act, and nothing from a risky one without
a yes of the last minute to this act in this window, on a screen that still looks as in the model's picture.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from typing import Any

import agent
from agent import Point, Rect, ToolCall
from tests.fakes import VirtualClock

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
RISKY_LABELS = [
    "Delete",
    "ＤＥＬＥＴＥ",
    "D\u0435l\u0435te",
    "Del\u200bete",
    "Удалить",
    "删除",
    "Zahlungspflichtig bestellen",
]
LABELS = [*RISKY_LABELS, "x", "Save", "Pin to taskbar", "Order by name", "Format menu"]
RISKY_TEXTS = ["rm -rf /", "rd/s/q c:\\", "a\n{{PIN}}"]
RISKY_CHORDS = [{"shift", "delete"}, {"alt", "f4"}]
YES_S = 60
SIDES = [
    ("ctrl", "lctrl", "rctrl", "Control", "STRG", "lcontrol"),
    ("alt", "lalt", "ralt", "Option", "AltGr"),
    ("shift", "lshift", "rshift", "SHIFT"),
    ("win", "rwin", "lwin", "Windows", "cmd", "Super"),
]
PLAIN = "l L f4 F4 del Delete DEL q p escape Esc a 5 enter tab home sleep".split()
BLOCKED = [
    {"win", "l"},
    {"ctrl", "alt", "delete"},
    {"ctrl", "shift", "escape"},
    {"sleep"},
    {"ctrl", "alt", "q"},
    {"ctrl", "alt", "p"},
]
TEXT_MOST = 30
WORDS = agent.Vocabulary({name: name for name in agent.TOOLS})


def plain(key: str) -> set[str]:
    """What a key's name in VK_MAP stands for, sides aside; the right alt may be AltGr, which is ctrl+alt."""
    if key == "ralt":
        return {"ctrl", "alt"}
    return {key[1:] if key[1:] in ("ctrl", "alt", "shift", "win") else key}


class Recorder:
    """A desktop that judges each event as it arrives."""

    def __init__(self, clock: Any) -> None:
        self.clock, self.place, self.front = clock, Point(0, 100), WINDOWS[0]
        self.down, self.wrong, self.events = set[tuple[str, str]](), list[str](), 0
        self.grey = 0  # of the whole screen

    def capture(self, area: Rect, width: int, height: int) -> agent.Frame:
        return self.look(0, self.front)

    def look(self, number: int, window: agent.Window) -> agent.Frame:
        seen = bytes((self.grey, self.grey, self.grey, 0)) * 32
        return agent.Frame(number, 8, 4, seen, seen, AREA, SCREEN, self.clock.now(), window)

    def screen(self) -> Rect:
        return SCREEN

    def on_monitor(self, point: Point) -> bool:
        return SCREEN.contains(point)

    def cursor(self) -> Point:
        return self.place

    def foreground(self) -> agent.Window:
        return self.front

    def window_at(self, point: Point) -> agent.Window:
        order = [self.front, *WINDOWS]
        return next(window for window in order if window.rect.contains(point))

    def control_at(self, point: Point) -> None:
        return None

    def focused_control(self) -> None:
        return None

    def windows(self) -> list[agent.Window]:
        return [self.front, *WINDOWS]

    def programs(self) -> list[agent.Program]:
        return []

    def bring_to_front(self, window: agent.Window) -> None:
        self.judge(window.handle in FORBIDDEN, f"{window.title} to the front")
        self.front = window

    def clipboard_length(self) -> int | None:
        return None

    def idle_s(self) -> float:
        return 1e9

    def double_click_ms(self) -> int:
        return 500

    def judge(self, bad: bool, what: str) -> None:
        self.events += 1
        self.note(bad, what)

    def note(self, bad: bool, what: str) -> None:
        """A judgement about something that is no event."""
        if bad:
            self.wrong.append(what)

    def move(self, point: Point) -> None:
        self.judge(not AREA.contains(point), f"move to {point}")
        self.place = point

    def button(self, name: str, down: bool) -> None:
        window = self.window_at(self.place)
        self.judge(
            down and (window.handle in FORBIDDEN or not AREA.contains(self.place)),
            f"{name} on {window.title}",
        )
        self.hold("button", name, down)

    def wheel(self, units: int, horizontal: bool = False) -> None:
        self.judge(self.window_at(self.place).handle in FORBIDDEN, "wheel")

    def key(self, name: str, down: bool) -> None:
        self.hold("key", name, down)
        held = set[str]().union(*(plain(key) for kind, key in self.down if kind == "key"))
        bad = any(chord <= held for chord in BLOCKED) or self.front.handle in FORBIDDEN
        self.judge(down and bad, f"keys {sorted(held)} to {self.front.title}")

    def text(self, text: str) -> None:
        bad = self.front.handle in FORBIDDEN or len(text) > TEXT_MOST
        self.judge(bad, f"text of {len(text)} to {self.front.title}")

    def hold(self, kind: str, name: str, down: bool) -> None:
        (self.down.add if down else self.down.discard)((kind, name))


def random_call(rng: random.Random) -> ToolCall:
    """One call as a model might make it; coordinates a little beyond the grid, too."""
    kind = rng.choice(
        "press_key press_key click double_click right_click drag drag type_text scroll_down".split()
    )
    if kind == "press_key":
        keys = [rng.choice(side) for side in rng.sample(SIDES, rng.randint(0, 3))]
        keys += rng.sample(PLAIN, rng.randint(0, 1))
        rng.shuffle(keys)
        return ToolCall(kind, {"key": rng.choice(("+", " + ", "+")).join(keys) or "a"})
    if kind == "type_text":
        text = "".join(rng.choices("ab\n\tß😀 ", k=rng.randint(1, 2 * TEXT_MOST)))
        return ToolCall(kind, {"text": rng.choice([text, text, text, *RISKY_TEXTS])})
    places = [[rng.randint(-20, 1020) for _ in range(2)] for _ in range(2)]
    if kind == "drag":
        return ToolCall(
            kind, {"element_name": rng.choice(LABELS), "start": places[0], "end": places[1]}
        )
    return ToolCall(
        kind,
        {}
        if kind == "scroll_down"
        else {"element_name": rng.choice(LABELS), "position": places[0]},
    )


def is_risky(act: agent.Act) -> bool:
    """Whether an act is one of the few that are certainly risky, by its plain words alone."""
    values = vars(act.args)
    keys = set[str]().union(*(plain(key) for key in str(values.get("key", "")).split("+")))
    return (
        values.get("element_name") in RISKY_LABELS
        or values.get("text") in RISKY_TEXTS
        or any(chord <= keys for chord in RISKY_CHORDS)
    )


class Person:
    """Answers questions at random, after a while, during which the screen may change."""

    def __init__(self, rng: random.Random, desktop: Recorder) -> None:
        self.rng, self.desktop = rng, desktop
        self.act: agent.Act | None = None
        self.yes: tuple[str, list[int], float] | None = None  # the act, its windows, when

    def windows(self) -> list[int]:
        """Which windows the act reaches: those under its places, or the one in front."""
        values = vars(self.act.args).values() if self.act else []
        places = [agent.to_point(at, AREA) for at in values if isinstance(at, agent.Coordinate)]
        found = [self.desktop.window_at(place) for place in places] or [self.desktop.front]
        return [window.handle for window in found]

    def answer(self, question: str) -> bool:
        self.desktop.note(len(question) > 300, f"a question of {len(question)} characters")
        self.desktop.clock.advance(self.rng.choice((1, 30, 100)))
        if self.rng.random() < 0.3:
            self.desktop.grey = self.rng.choice((0, 100, 200))
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


def separate_presses(actuator: agent.Actuator, desktop: Recorder, rng: random.Random) -> None:
    """Keys pressed one by one by a tool that holds them, in any order."""
    names = [
        name
        for name in (agent.key_name(rng.choice([*PLAIN, *sum(SIDES, ())])) for _ in range(4))
        if name
    ]
    try:
        for name in dict.fromkeys(names):
            actuator._down(desktop.key, name)
    finally:
        actuator.release()


def fuzz(count: int, seed: int = 0) -> Counter[str]:
    """Counts what became of `count` random acts; `violations` is what should be 0."""
    rng, clock, counts = random.Random(seed), VirtualClock(look_s=1.0), Counter[str]()
    desktop = Recorder(clock)
    settings = {
        "blocked_windows": "*bank*",
        "text_chars_most": TEXT_MOST,
        "minutes_most": 0,
        "acts_per_minute": 10000,
        "drag_steps": 4,
    }
    config = agent.load_config({"fuzz": settings})
    person = Person(rng, desktop)
    actuator = agent.Actuator(desktop, config, clock, agent.Stop(), confirm=person.answer)
    last: agent.Act | None = None
    for number in range(1, count + 1):
        desktop.front = rng.choice(WINDOWS)
        seen = rng.choice(WINDOWS) if rng.random() < 0.1 else desktop.front
        frame = desktop.look(number, seen)
        if rng.random() < 0.05:
            desktop.grey = rng.choice((0, 100, 200))
        events = desktop.events
        try:
            if rng.random() < 0.1:
                actuator.area, actuator._place = AREA, None
                separate_presses(actuator, desktop, rng)
                performed = agent.Performed("")
            else:
                again = last is not None and rng.random() < 0.3
                act = last if again and last else WORDS.parse(random_call(rng))
                person.act = last = act
                performed = actuator.perform(act, frame)
                if is_risky(act) and desktop.events != events and performed.acted:
                    grey = frame.clean[0]
                    desktop.note(grey != desktop.grey, f"{act} on a changed screen")
                    desktop.note(not person.allowed(), f"{act} without a yes")
                    counts["risky, allowed"] += 1
                    person.yes = None
                if performed.refused and performed.sent == 0 and desktop.events != events:
                    desktop.wrong.append(f"events of a refused act: {performed.result}")
        except agent.ToolError as error:  # a call that cannot be read, or keys pressed one by one
            performed = agent.Performed(str(error), error.kind)
        outcome = "outside" if "outside" in performed.result else performed.refused
        counts[outcome or "done"] += 1
        if desktop.down:
            desktop.wrong.append(f"held: {desktop.down}")
            desktop.down.clear()
    counts["violations"], counts["events"] = len(desktop.wrong), desktop.events
    for wrong in desktop.wrong[:10]:
        print("VIOLATION", wrong, file=sys.stderr)
    return counts


if __name__ == "__main__":
    start = time.perf_counter()
    result = fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(dict(result), f"{time.perf_counter() - start:.0f} s")
    sys.exit(1 if result["violations"] else 0)
