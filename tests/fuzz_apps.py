"""Random names against open_app: python -m tests.fuzz_apps 100000 [SEED]

Each name goes through Actuator.perform on a desktop that notes what it is told to start. Whatever the name is, a
listed program is started or nothing; a risky one never, as nobody says yes; and a name that holds a path, an argument
or a sign that a shell knows starts nothing at all.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace

import agent
from agent import Program, ToolCall
from tests.fakes import VirtualClock
from tests.scripted import PlainDesktop

WORDS = agent.Vocabulary({name: name for name in agent.TOOLS})
PROGRAMS = [
    Program(name, f"C:\\Menu\\{name}.lnk", (file,))
    for name, file in {
        "Notepad": "notepad.exe",
        "Ångström": "angstrom.exe",
        "Paint": "mspaint.exe",
        "winword": "winword.exe",
        "firefox": "firefox.exe",
        "cmd": "cmd.exe",
        "regedit": "regedit.exe",
        "calc": "calc.exe",
        "charmap": "charmap.exe",
    }.items()
]
HARMLESS = {"Notepad", "Paint", "winword", "firefox", "calc", "charmap"}
SIGNS = "\\/:&|<>;%$`\"'*?^()={}~!\x00\n\r\t"
PIECES = [
    *(program.name for program in PROGRAMS),
    *(program.path for program in PROGRAMS),
    *(".exe", ".lnk", "C:\\Windows\\", "..\\", " /c ", " -e ", "http://x", "shell:", "%COMSPEC%"),
    *("ms-settings:", "\u202e", "\u200b", "ｎｏｔｅｐａｄ", "note", "c", "", " ", "😀"),
]


class Noting(PlainDesktop):
    """A desktop with these programs, which notes what it starts."""

    def __init__(self, clock: agent.Clock) -> None:
        super().__init__(clock)
        self.started: list[object] = []

    def programs(self) -> list[Program]:
        return PROGRAMS

    def start_program(self, program: Program) -> None:
        self.started.append(program)
        self.title = program.name


def some_name(dice: random.Random) -> str:
    pieces = [
        dice.choice([dice.choice(PIECES), dice.choice(SIGNS), chr(dice.randrange(1, 0xD000))])
    ]
    while dice.random() < 0.5:
        pieces.append(dice.choice(PIECES))
    name = "".join(pieces)
    return name.swapcase() if dice.random() < 0.2 else name


def main() -> int:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    dice = random.Random(seed)
    clock = VirtualClock()
    desktop = Noting(clock)
    config = agent.load_config({"fuzz": {"acts_per_minute": 10_000, "minutes_most": 0}})
    actuator = agent.Actuator(desktop, config, clock, clock.stop)
    frame = desktop.capture(desktop.screen(), 8, 4)
    results: Counter[str] = Counter()
    wrong: list[str] = []
    for step in range(number):
        name = some_name(dice)
        desktop.started.clear()
        look = replace(frame, number=step + 2, taken_at=clock.now(), window=desktop.foreground())
        act = WORDS.parse(ToolCall("open_app", {"name": name}))
        performed = actuator.perform(act, look)
        results[performed.refused or "started"] += 1
        for program in desktop.started:
            if program not in PROGRAMS or program.name not in HARMLESS:
                wrong.append(f"{name!r} started {program}")
            if set("\\/:&|<>;%$") & set(name):
                wrong.append(f"{name!r} was taken for {program}")
        if bool(desktop.started) == bool(performed.refused):
            wrong.append(f"{name!r}: {performed} but {desktop.started}")
        desktop.number = step + 2
    print(f"{number} names, seed {seed}: {dict(results)}")
    print("\n".join(wrong[:10]) or "Nothing but listed and harmless programs was started.")
    return 1 if wrong or not results["started"] else 0


if __name__ == "__main__":
    sys.exit(main())
