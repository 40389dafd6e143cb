"""A proxy before the real server: the server computes each request, a script says the reply.

The models are random, so that what they say is of no use. The program under test gets the scripted
message in the server's own answer, with the `usage` and `timings` that the server counted. The
server is asked for one token only: sampling under a grammar from 151,936 of them takes it longer
than reading the prompt, and says nothing of the program.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
CHAT = "/v1/chat/completions"

Json = dict[str, Any]


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
    def images(self) -> int:
        """Pictures in the request."""
        return json.dumps(self.request["messages"]).count('"image_url":')

    @property
    def role(self) -> str:
        """Who was asked."""
        return role_of(self.request)


def role_of(request: Json) -> str:
    """planner, examiner, verifier, or executor (of a story or a conversation, too)."""
    tools = [tool["function"]["name"] for tool in request.get("tools") or []]
    if any(name in ("update_execution_plan", "spawn_operator") for name in tools):
        return "planner"
    tells_a_story = "observation" in json.dumps(request["messages"][0])
    if tools or tells_a_story:
        return "executor"
    return "verifier" if '"image_url"' in json.dumps(request["messages"]) else "examiner"


class Between:
    """The proxy; `write` makes a request's reply, `exchanges` is what happened so far."""

    def __init__(self, upstream: str, write: Callable[[Json], Json]) -> None:
        self.upstream = upstream
        self.write = write
        self.exchanges: list[Exchange] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.pass_on(None)

            def do_POST(self) -> None:
                self.pass_on(self.rfile.read(int(self.headers["Content-Length"])))

            def pass_on(self, body: bytes | None) -> None:
                """Nothing is answered where the server answers nothing."""
                try:
                    status, data = proxy.forward(self.path, body)
                except OSError:
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *values: object) -> None:
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}{CHAT}"

    def __enter__(self) -> Between:
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def forward(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        """The server's answer to this body, with the scripted message in a chat's."""
        headers = {"Content-Type": "application/json"}
        asked = json.loads(body) if body else {}
        sent = json.dumps({**asked, "max_tokens": 1}).encode() if asked else body
        request = urllib.request.Request(self.upstream + path, sent, headers)
        try:
            with DIRECT.open(request, timeout=600) as response:
                status, data = response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                status, data = error.code, error.read()
        if path != CHAT or body is None:
            return status, data
        answer = json.loads(data)
        self.exchanges.append(Exchange(asked, status, answer))
        if status != 200:
            return status, data
        return status, json.dumps(scripted(answer, self.write(asked))).encode()


class Untold(Between):
    """A proxy whose list of models has their names alone, as other servers' lists do."""

    def forward(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        status, data = super().forward(path, body)
        if path.endswith("/models") and status == 200:
            names = [{"id": entry["id"]} for entry in json.loads(data)["data"]]
            data = json.dumps({"data": names}).encode()
        return status, data


def scripted(answer: Json, message: Json) -> Json:
    """The server's answer with another message in it."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {**answer, "choices": [choice]}
