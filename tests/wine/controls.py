"""Runs on the desktop: what the program's sources of controls know of Notepad with a file open, as one JSON object.

python controls.py AGENT_PY FILE
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(sys.argv[1]).parent))  # where the process that asks finds it, too
import agent


def patiently(ask: Callable[[], Any]) -> Any:
    """What it answers, once it does: on a busy machine that takes more than a query's deadline."""
    end = time.monotonic() + 180
    while not (answer := ask()) and time.monotonic() < end:
        time.sleep(0.1)
    return answer


def main() -> None:
    file = Path(sys.argv[2])
    file.write_text("What the field holds", encoding="ascii")
    desktop = agent.WindowsDesktop(agent.load_win32(), agent.SystemClock(agent.Stop()))
    agent.init_dpi(desktop.api)
    source = desktop.control_source = agent.ControlsWorker(desktop.api)
    source.query(None, 0.0)
    notepad = subprocess.Popen(["notepad", str(file)], stdin=-3, stdout=-3, stderr=-3)
    end = time.monotonic() + 30
    front = None
    while time.monotonic() < end and not (front and "Notepad" in front.title):
        time.sleep(0.1)
        front = desktop.foreground()
    assert front
    source.query(None, 120.0)

    def seen(control: Any) -> Any:
        return control and {**control.to_json(), "window": control.window == front.handle}

    def one(where: agent.Where) -> Any:
        return next(iter(desktop.control_source.ask(where)), None)

    middle = agent.Point(
        front.rect.left + front.rect.width // 2, front.rect.top + front.rect.height // 2
    )
    found: dict[str, Any] = {"at": seen(patiently(lambda: one(middle)))}
    found["focused"] = seen(patiently(lambda: one(None)))
    began = time.monotonic()
    found["list"] = [seen(known) for known in patiently(lambda: desktop.control_source.ask(front))]
    found["list_s"] = time.monotonic() - began
    found["report"], *_ = source.report(front)
    doctor = [sys.executable, "-X", "utf8", sys.argv[1], "--check"]
    found["check"] = subprocess.run(doctor, stdin=-3, capture_output=True, text=True).stdout
    multiprocessing.active_children()[0].kill()  # as if somebody had
    found["killed"] = seen(one(middle))
    found["again"] = seen(patiently(lambda: one(middle)))
    (worker,) = multiprocessing.active_children()
    source.close()
    worker.join(10)
    found["ended"] = worker.exitcode is not None
    notepad.kill()
    print("\n" + json.dumps(found))


if __name__ == "__main__":  # the process that asks imports this file as well
    main()
