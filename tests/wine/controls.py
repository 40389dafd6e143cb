"""Runs on the desktop: what the program's sources of controls know of Notepad with a file open, as one JSON object.

python controls.py AGENT_PY FILE
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("agent", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["agent"] = module
    spec.loader.exec_module(module)
    return module


agent = load(sys.argv[1])
file = Path(sys.argv[2])
file.write_text("What the field holds", encoding="ascii")
desktop = agent.WindowsDesktop(agent.load_win32(), agent.SystemClock(agent.Stop()))
desktop.init_dpi()
source = desktop.control_source = agent.ControlsWorker(desktop.api)
source.begin()
notepad = subprocess.Popen(["notepad", str(file)], stdin=-3, stdout=-3, stderr=-3)
end = time.monotonic() + 30
front = None
while time.monotonic() < end and not (front and "Notepad" in front.title):
    time.sleep(0.1)
    front = desktop.foreground()
assert front
while time.monotonic() < end and not source.ask({"ask": "focused"}, 0, 1.0).complete:
    pass


def seen(control: Any) -> Any:
    return control and {**control.to_json(), "window": control.window == front.handle}


middle = agent.Point(
    front.rect.left + front.rect.width // 2, front.rect.top + front.rect.height // 2
)
began = time.monotonic()
found: dict[str, Any] = {"at": seen(desktop.control_at(middle))}
found["at_s"] = time.monotonic() - began
found["focused"] = seen(desktop.focused_control())
began = time.monotonic()
found["list"] = [seen(control) for control in desktop.controls(front, 300, 1.0)]
found["list_s"] = time.monotonic() - began
found["report"] = [line.text for line in source.report(front)]
doctor = [sys.executable, "-X", "utf8", sys.argv[1], "--check"]
found["check"] = subprocess.run(doctor, stdin=-3, capture_output=True, text=True).stdout
source._pipes.end()  # as if somebody had killed it
found["killed"] = seen(desktop.control_at(middle))
found["again"] = None
while time.monotonic() < end + 30 and not found["again"]:
    found["again"] = seen(desktop.control_at(middle))
    time.sleep(0.1)
worker = source._pipes._process
source.close()
found["ended"] = worker.poll() is not None
notepad.kill()
print("\n" + json.dumps(found))
