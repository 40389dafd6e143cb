"""The real server, started and asked; a proxy before it that says scripted replies; runs of the program before either."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.llama import home
from tests.servers import Answering

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
CHAT = "/v1/chat/completions"
PATIENCE_S = 600.0  # loading takes 2 s alone, 20 s on a machine with 20 others at work

Json = dict[str, Any]


def asked(url: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Status and body of an answer; a body is posted."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with DIRECT.open(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


class LlamaServer:
    """One llama.cpp server: `model` is mute or noise; without `eyes` it takes text only."""

    process: subprocess.Popen[bytes]

    def __init__(
        self, model: str = "mute", eyes: bool = True, context: int = 16384, template: str = ""
    ) -> None:
        place = home.ready()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        self.base = f"http://127.0.0.1:{port}"
        self.command = [place.python, HERE / "serve.py", place.models / f"{model}.gguf", port]
        self.command += ["--context", str(context)]
        if eyes:
            self.command += ["--eyes", place.models / "eyes.gguf"]
        if template:
            self.command += ["--template", HERE / template]
        descriptor, name = tempfile.mkstemp(suffix=".log")
        os.close(descriptor)
        self.log = Path(name)

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
        self.process.kill()
        self.process.wait()

    def wait_until_ready(self, status: int = 200) -> None:
        """Returns when it has loaded, or with 503 when it loads."""
        end = time.monotonic() + PATIENCE_S
        while self.status() != status:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the server is not ready:\n{self.said()}")
            time.sleep(0.05)

    def status(self) -> int:
        """That of its health; 0 while nothing listens."""
        try:
            return asked(self.base + "/health")[0]
        except OSError:
            return 0

    def ask(self, path: str, body: Json | None = None) -> Any:
        """The JSON of an answer."""
        return json.loads(asked(self.base + path, json.dumps(body).encode() if body else None)[1])

    def chat(self, **body: Any) -> Json:
        """A chat completion, or what is told instead."""
        answer: Json = self.ask(CHAT, body)
        return answer

    def busy(self) -> bool:
        """Whether it computes. Asking often delays its own look for clients that went away."""
        return any(slot["is_processing"] for slot in self.ask("/slots"))

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text("utf-8", "replace")


class Exchange(NamedTuple):
    """One chat request as it came, and what the server answered to it."""

    request: Json
    status: int
    answer: Json

    @property
    def reused(self) -> int:
        """Tokens of the prompt that were not computed again."""
        return int(self.answer["timings"]["cache_n"])

    @property
    def computed(self) -> int:
        """Tokens of the prompt that were computed."""
        return int(self.answer["timings"]["prompt_n"])

    @property
    def role(self) -> str:
        """Who was asked."""
        return role_of(self.request)


def role_of(request: Json) -> str:
    """planner, examiner, verifier, or executor (of a story or a conversation, too)."""
    tools = [tool["function"]["name"] for tool in request.get("tools") or []]
    if {"update_execution_plan", "spawn_operator"} & {*tools}:
        return "planner"
    if tools or "observation" in json.dumps(request["messages"][0]):
        return "executor"
    return "verifier" if '"image_url"' in json.dumps(request["messages"]) else "examiner"


class Between(Answering):
    """A proxy: the server computes each request and counts it, and `write` makes the reply.

    The models are random, so that what they say is of no use. The server is asked for one token only: sampling under a
    grammar from 151,936 of them takes it longer than reading the prompt, and says nothing of the program. Unless it is
    `told`, the list of models has their names alone, as other servers' lists do.
    """

    def __init__(self, upstream: str, write: Callable[[Json], Json], told: bool = True) -> None:
        super().__init__()
        self.upstream, self.write, self.told = upstream, write, told
        self.exchanges: list[Exchange] = []

    def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The server's answer to this body, with the scripted message in a chat's."""
        request = json.loads(body) if body else {}
        sent = json.dumps({**request, "max_tokens": 1}).encode() if request else None
        status, data = asked(self.upstream + path, sent)
        if path == CHAT and request:
            answer = json.loads(data)
            self.exchanges.append(Exchange(request, status, answer))
            if status == 200:
                message = self.write(request)
                reason = "tool_calls" if message.get("tool_calls") else "stop"
                choice = {"index": 0, "message": message, "finish_reason": reason}
                data = json.dumps({**answer, "choices": [choice]}).encode()
        elif path.endswith("/models") and status == 200 and not self.told:
            names = [{"id": entry["id"]} for entry in json.loads(data)["data"]]
            data = json.dumps({"data": names}).encode()
        return status, data


class Run(NamedTuple):
    """How a run ended: exit code, all that was printed, and its journal."""

    code: int
    text: str
    journal: list[Json]

    def records(self, kind: str) -> list[Json]:
        """The journal's records of one kind."""
        return [record for record in self.journal if record["kind"] == kind]


# agent.py on its demo desktop, with another server in the built-in one's place.
ELSEWHERE = """
import sys, agent
class Elsewhere:
    endpoint = sys.argv.pop(1)
    def __init__(self, *given): pass
    def close(self): pass
agent.DemoModel = Elsewhere
if __name__ == "__main__":
    sys.exit(agent.main(sys.argv[1:]))
"""


class Program:
    """One run, in a process of its own; `finish` waits for it."""

    def __init__(self, endpoint: str, *options: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        command = [sys.executable, "-c", ELSEWHERE, endpoint, "--demo"]
        if "--model" not in options:
            command += ["--set", "lmstudio_model="]  # the one that the server has
        command += options
        # The drawn screen is smaller than a real one, and never enlarged by itself.
        for setting in (
            f"dump_dir={self.folder.name}",
            "screen_capture_w=1536",
            "screen_capture_h=864",
        ):
            command += ["--set", setting]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, seconds: float = PATIENCE_S) -> Run:
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
