"""A client that others wrote: the `mcp` package of PyPI, which AGENT_MCP_HOME holds, or where it is installed once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests.wine.model import Task, Writer
from tests.wine.rig import ALONE, Desktop, windows_path, windows_python

HERE = Path(__file__).resolve().parent
AGENT = HERE.parent.parent / "agent.py"
HOME = Path(os.environ.get("AGENT_MCP_HOME") or Path(tempfile.gettempdir(), "agent-mcp"))
PYTHON = HOME / "py/bin/python"
DEMO = 'Open Notes, write "Hello from agent.py" and save it.'


def setUpModule() -> None:
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME / "py"], check=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", "mcp==2.3.0"], check=True)


class Clients(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        dumps = f"dump_dir={folder.name}/dumps"
        self.demo = [sys.executable, str(AGENT), "--mcp", "--demo", "--set", dumps]

    def told(self, *command: object, said: Any = None, **more: Any) -> Any:
        """What a client prints, as JSON."""
        words = [str(word) for word in command]
        done = subprocess.run(
            words, input=json.dumps(said), text=True, capture_output=True, timeout=400, **more
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_the_package_lists_the_tools_and_runs_the_demo_s_task_in_both_ways_to_begin(
        self,
    ) -> None:
        calls = [["observe", {}], ["run_task", {"task": DEMO}], ["observe", {}], ["click", {}]]
        for mode, revision in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
            found = self.told(PYTHON, HERE / "client.py", mode, *self.demo, said=calls)
            self.assertEqual((found["revision"], len(found["tools"])), (revision, 17))
            before, run, after, wrong = found["answers"]
            self.assertEqual((before[1], after[1]), (["text", "image"],) * 2)
            self.assertEqual((run[2]["outcome"], wrong[0]), ("completed", True))
            self.assertEqual(
                (before[2]["window"], after[2]["window"]), ("Desktop", "Saved - Notes")
            )
            self.assertGreater(found["told"], 10)

    def test_the_package_has_notepad_written_in_on_a_windows_desktop(self) -> None:
        task = Task("Hello from a client", r"C:\client.txt")
        with Desktop() as desktop, Writer(desktop, task) as model:
            words = ["--mcp", "--endpoint", model.url, "--confirm", "never", *ALONE]
            agent = ["wine", windows_python(), "-X", "utf8", windows_path(AGENT), *words]
            calls: list[Any] = [["observe", {}], ["run_task", {"task": task.words}]]
            calls += [["observe", {}], ["press_key", {"key": "end", "look": True}]]
            where = {"cwd": desktop.folder, "env": desktop.environment}
            found = self.told(PYTHON, HERE / "client.py", "auto", *agent, said=calls, **where)
            seen, run, after, pressed = found["answers"]
            self.assertEqual((seen[0], run[2].get("outcome")), (False, "completed"), found)
            self.assertEqual(desktop.file(task.path).read_bytes(), task.file_bytes)
            self.assertIn("Notepad", after[2]["window"], found)
            self.assertEqual((pressed[0], pressed[1]), (False, ["text", "image"]), found)
            self.assertEqual(len([*(desktop.folder / "dumps").glob("run_*/report.html")]), 3)
