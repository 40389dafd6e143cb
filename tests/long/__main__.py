"""Programs that take minutes, for a night or a release: python -m tests.long NAME [NUMBER ...]

    faults [EVERY]          fails each call of a whole run in turn, or each so-manyth: Win32 calls, file calls, HTTP
    kill                    kills the demo at each line of its journal and after each input event, and resumes it
    soak [TURNS]            ten thousand turns of one run, whose memory, handles, threads and files must stay flat
    gates [ACTS [SEED]]     a million random acts against rules of the gates that are written anew
    replies [COUNT [SEED]]  a million mutated and cut replies
    grammars [COUNT [SEED]] the same in each grammar that models were trained in
    teach [PART] [COUNT]    what is shown once on a real Win32 desktop, done again where all looks otherwise
    rows [ROWS [KILLS [SEED]]]  rows of a table entered into a form on a real Win32 desktop, with troubles and kills
    world [PROFILE ...] [SEED ...] [TASK ...]   tasks on a real Win32 desktop, with a model that errs

What each asks for stands at the top of its module in tests/long/. The exit code is 0 if all held. The suite has parts
of them; `python -m tests --whole` has more.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module

PROGRAMS = "faults kill soak gates replies grammars teach rows world".split()
BY_WORDS = ("teach", "world")


def main(words: list[str]) -> int:
    name, *rest = words or ["none"]
    numbers = [int(word) for word in rest if word.isdecimal()]
    if name not in PROGRAMS or (name not in BY_WORDS and len(numbers) < len(rest)):
        print(__doc__)
        return 2
    began = time.monotonic()
    program = import_module(f"tests.long.{name}")
    held = program.main(*rest) if name in BY_WORDS else program.main(*numbers)
    print(f"{name}: {'held' if held else 'WRONG'}, {time.monotonic() - began:.0f} s")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
