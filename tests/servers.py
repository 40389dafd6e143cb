"""Real servers on port 0 for the tests: raw sockets that follow a script, one step a connection, and one that answers."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tests.timing import HANGS_S

# Where nobody listens, nor can anybody as long as the tests run, whatever else runs on the machine.
_HELD = socket.socket()
_HELD.bind(("127.0.0.1", 0))
atexit.register(_HELD.close)
NOBODY = f"http://127.0.0.1:{_HELD.getsockname()[1]}"

Step = Callable[[socket.socket, threading.Event], None]


def raw(data: bytes) -> Step:
    """Sends exactly these bytes and closes."""
    return lambda client, ended: client.sendall(data)


def http(status: int, body: Any = b"", headers: Sequence[str] = (), sized: bool = True) -> bytes:
    """The bytes of an HTTP answer; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Status", "Content-Type: application/json", *headers]
    lines += [f"Content-Length: {len(data)}"] if sized else []
    return "\r\n".join([*lines, "", ""]).encode() + data


def answer(status: int, body: Any = b"", headers: Sequence[str] = (), sized: bool = True) -> Step:
    return raw(http(status, body, headers, sized))


def reply(
    content: Any = "hello", model: str = "qwen3-vl-2b-instruct", **extra: Any
) -> dict[str, Any]:
    """A well-formed chat completion."""
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": 3880, "completion_tokens": 20, "total_tokens": 3900}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    begin = {"id": "chatcmpl-1", "object": "chat.completion", "model": model}
    return {**begin, "choices": choices, "usage": usage, **extra}


def stall(client: socket.socket, ended: threading.Event) -> None:
    """Says nothing until the test ends."""
    ended.wait()


def trickle(head: bytes, drop: bytes = b" ") -> Step:
    """Sends `head`, then a drop again and again."""

    def step(client: socket.socket, ended: threading.Event) -> None:
        client.sendall(head)
        while not ended.wait(0.01):
            client.sendall(drop)

    return step


def reset(client: socket.socket, ended: threading.Event) -> None:
    """Ends the connection with RST."""
    linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    client.close()


def hang_up(client: socket.socket, ended: threading.Event) -> None:
    """Closes without a word."""


class _Connection(socketserver.BaseRequestHandler):
    server: LocalServer

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the client went away, as it should in several tests
            self.request.settimeout(HANGS_S)
            with self.request.makefile("rb") as stream:
                head = stream.readline()
                while head[-4:] not in (b"", b"\r\n\r\n"):
                    head += stream.readline() or b"\r\n\r\n"
                size = re.search(rb"(?i)\ncontent-length: *(\d+)", head)
                request = head + stream.read(int(size[1]) if size else 0)
            if request:
                self.server.step(request)(self.request, self.server.ended)


class LocalServer(socketserver.ThreadingTCPServer):
    """Does the step that it has for each request, which comes whole. `with` it on."""

    request_queue_size = 50

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.ended, self.port = threading.Event(), int(self.server_address[1])
        self.base = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.base}/v1/chat/completions"

    def step(self, request: bytes) -> Step:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        return self

    def serve(self) -> None:
        while not self.ended.is_set():
            self.handle_request()

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        socket.create_connection(("127.0.0.1", self.port)).close()  # wakes it, at once
        self.thread.join()
        self.server_close()


class ScriptedServer(LocalServer):
    """Follows `steps`, one a connection, the last one for ever; `requests` holds what came in."""

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self.steps, self.requests = list(steps), list[bytes]()

    def step(self, request: bytes) -> Step:
        self.requests.append(request)
        return self._step()

    def _step(self) -> Step:
        return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]


class RoutedServer(ScriptedServer):
    """Answers by path: {"/v1/models": bytes of an HTTP answer}; every other path gets `other`."""

    def __init__(self, pages: dict[str, bytes], other: bytes) -> None:
        super().__init__()
        self.pages, self.other = pages, other

    def _step(self) -> Step:
        return raw(self.pages.get(self.requests[-1].split(b" ")[1].decode(), self.other))


class Answering(LocalServer):
    """Answers each request with `respond(path, body)`: a status and bytes, or None to hang up."""

    def step(self, request: bytes) -> Step:
        head, _, body = request.partition(b"\r\n\r\n")
        found = self.respond(head.split(b" ")[1].decode(), body)
        return answer(*found) if found else hang_up

    def respond(self, path: str, body: bytes) -> tuple[int, bytes] | None:
        raise NotImplementedError
