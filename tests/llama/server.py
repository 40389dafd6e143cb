"""Starts, asks, kills and starts again the real server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import home

HERE = Path(__file__).resolve().parent
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PATIENCE_S = 180.0  # loading takes 2 s alone, 20 s on a machine with 20 others at work

Json = dict[str, Any]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class LlamaServer:
    """One llama.cpp server: `model` is mute, parrot or noise; without `eyes` it takes text only."""

    def __init__(
        self,
        model: str = "mute",
        eyes: bool = True,
        context: int = 16384,
        slots: int = 1,
        template: Path | None = None,
    ) -> None:
        place = home.ready()
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.model = model
        command: list[str | Path] = [
            place.python,
            HERE / "serve.py",
            place.models / f"{model}.gguf",
        ]
        command += [str(self.port), "--context", str(context), "--slots", str(slots)]
        if eyes:
            command += ["--eyes", place.models / "eyes.gguf"]
        if template:
            command += ["--template", template]
        self.command = command
        descriptor, name = tempfile.mkstemp(suffix=".log")
        os.close(descriptor)
        self.log = Path(name)
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> LlamaServer:
        self.begin()
        self.wait_until_ready()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self.log.unlink()

    def begin(self) -> None:
        """Starts it, on the same port each time; it still has to load."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """Ends it as a crash would."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def wait_until_ready(self) -> None:
        """Returns when it has loaded."""
        end = time.monotonic() + PATIENCE_S
        while self.status("/health") != 200:
            ended = self.process is None or self.process.poll() is not None
            if ended or time.monotonic() > end:
                raise AssertionError(f"the server is not ready:\n{self.said()}")
            time.sleep(0.1)

    def status(self, path: str) -> int:
        """The status of a page; 0 while nothing listens."""
        try:
            return self.ask(path)[0]
        except OSError:
            return 0

    def ask(self, path: str, body: Json | bytes | None = None) -> tuple[int, Json]:
        """Status and JSON of an answer; a body is posted."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        request = urllib.request.Request(
            self.base + path, data, {"Content-Type": "application/json"}
        )
        try:
            with DIRECT.open(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def chat(self, **body: Any) -> tuple[int, Json]:
        """Status and JSON of a chat completion."""
        return self.ask("/v1/chat/completions", body)

    def busy(self) -> bool:
        """Whether it computes. Asking often delays its own look for clients that went away."""
        return any(slot["is_processing"] for slot in self.ask("/slots")[1])  # a list

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text("utf-8", "replace")
