"""How many real buttons are pressed by mistake on a real Win32 desktop, with the check of controls and without.

    python3 tests/wine/buttons.py [PRESSES] [SEED]

A window has 30 named buttons, ten of them of 16 pixels. A model is to press one after the other and misses 20 % of its
clicks onto a neighbour (presses.py). Prints, for each setting of `controls`, the wrong presses as
the window tells them, and the turns and requests that all of it took.
"""

from __future__ import annotations

import sys
from typing import Any

from rig import ROOT, Desktop, Driver, Form, windows_path

sys.path.insert(0, str(ROOT))

from presses import Figures, buttons, line

SETTINGS = ("off", "check")


def items() -> list[dict[str, Any]]:
    """The buttons as form_window.py takes them."""
    return [
        {"kind": "button", "name": button.name, "rect": list(button.rect)} for button in buttons()
    ]


def measure(presses: int, seed: int) -> dict[str, Figures]:
    """The figures of each setting."""
    found = {}
    with Desktop((1280, 720)) as desktop:
        for setting in SETTINGS:
            form = Form(desktop, f"Buttons {setting}", items())
            driver = Driver(desktop, "engine_driver.py")
            driver.ask("begin", controls=setting)
            log = windows_path(form.log)
            answer = driver.ask("press", log=log, presses=presses, seed=seed)
            assert len(form.pressed()) == presses
            found[setting] = Figures(answer["wrong"], answer["turns"], answer["requests"])
            print(f"{line(setting, presses, found[setting])}, {answer['seconds']:.0f} s")
            driver.ask("end")
    return found


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    measure(number, first)
