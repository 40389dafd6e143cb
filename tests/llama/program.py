"""Runs an agent.py on its demo desktop, with another server than its built-in one.

    python tests/llama/program.py AGENT_PY ENDPOINT [OPTION ...]

What is known here of the program's inside is `DemoModel`, its built-in server: --demo asks it for
its `endpoint`, and closes it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
AGENT = HERE.parents[1] / "agent.py"  # the one of this checkout
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Json = dict[str, Any]


class Run(NamedTuple):
    """How a run ended: exit code, all that was printed, and its journal."""

    code: int
    text: str
    journal: list[Json]

    def records(self, kind: str) -> list[Json]:
        """The journal's records of one kind."""
        return [record for record in self.journal if record["kind"] == kind]


class Program:
    """One run, in a process of its own; `finish` waits for it."""

    def __init__(self, endpoint: str, *options: str, agent: Path = AGENT) -> None:
        self.folder = tempfile.TemporaryDirectory()
        command = [sys.executable, HERE / "program.py", agent, endpoint, "--demo"]
        command += ["--set", "lmstudio_model=", *options]  # the one that the server has
        command += ["--set", f"dump_dir={self.folder.name}"]
        # The drawn screen is smaller than a real one, and never enlarged by itself.
        command += ["--set", "screen_capture_w=1536", "--set", "screen_capture_h=864"]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )

    def finish(self, seconds: float = 300) -> Run:
        """How it ended; one that takes longer is killed, which raises TimeoutExpired."""
        try:
            text = self.process.communicate(timeout=seconds)[0]
            journals = Path(self.folder.name).glob("run_*/turns.jsonl")
            lines = [line for path in journals for line in path.read_text("utf-8").splitlines()]
            return Run(self.process.returncode, text, [json.loads(line) for line in lines])
        finally:
            self.process.kill()
            self.process.wait()
            self.folder.cleanup()


def run(endpoint: str, *options: str, agent: Path = AGENT, seconds: float = 300) -> Run:
    """A whole run."""
    return Program(endpoint, *options, agent=agent).finish(seconds)


def load(agent: Path = AGENT) -> Any:
    """The module of an agent.py."""
    spec = importlib.util.spec_from_file_location("agent", agent)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["agent"] = module
    spec.loader.exec_module(module)
    return module


class DemoWriter:
    """Writes each reply as the program's built-in model does."""

    def __init__(self, agent: Path = AGENT) -> None:
        self.model = load(agent).DemoModel()

    def __call__(self, request: Json) -> Json:
        body = json.dumps(request).encode()
        asked = urllib.request.Request(
            self.model.endpoint, body, {"Content-Type": "application/json"}
        )
        with DIRECT.open(asked, timeout=60) as answer:
            message: Json = json.load(answer)["choices"][0]["message"]
        return message

    def __enter__(self) -> DemoWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.model.close()


class Elsewhere:
    """Stands for the built-in server where the program looks for one."""

    endpoint = ""

    def __init__(self, grammar: object = None) -> None:
        """As the built-in one is made; the replies come from elsewhere."""

    def close(self) -> None:
        """Nothing was opened."""


def main() -> int:
    """Runs the program with the other server in the built-in one's place."""
    agent, Elsewhere.endpoint = Path(sys.argv[1]), sys.argv[2]
    module = load(agent)
    module.DemoModel = Elsewhere
    sys.argv = [str(agent), *sys.argv[3:]]
    return int(module.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
