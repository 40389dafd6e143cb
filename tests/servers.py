"""Real servers on port 0 for the tests: raw sockets that follow a script, one step a connection, and one that answers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3880, "completion_tokens": 20, "total_tokens": 3900},
        **extra,
    }


def stall(client: socket.socket, ended: threading.Event) -> None:
    """Says nothing until the client goes or the test ends."""
    client.settimeout(0.02)
    while not ended.is_set():
        try:
            if not client.recv(1):
                return
        except TimeoutError:
            continue
        except OSError:
            return


def trickle(head: bytes, drop: bytes = b" ", interval_s: float = 0.01) -> Step:
    """Sends `head`, then a drop again and again."""

    def step(client: socket.socket, ended: threading.Event) -> None:
        client.sendall(head)
        while not ended.wait(interval_s):
            client.sendall(drop)

    return step


def reset(client: socket.socket, ended: threading.Event) -> None:
    """Ends the connection with RST."""
    client.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
    )


def hang_up(client: socket.socket, ended: threading.Event) -> None:
    """Closes without a word."""


class ScriptedServer:
    """Follows `steps`, one a connection, the last one for ever; `requests` holds what came in, whole."""

    def __init__(self, *steps: Step) -> None:
        self.steps, self.requests = list(steps), list[bytes]()
        self._ended, self._threads = threading.Event(), list[threading.Thread]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.base}/v1/chat/completions"

    def __enter__(self) -> ScriptedServer:
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        socket.create_connection(
            ("127.0.0.1", self.port)
        ).close()  # wakes accept(), on every system
        for thread in self._threads:
            thread.join(2)
        self._listener.close()

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True, name="scripted server")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._ended.is_set():
                client.close()
                return
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                client.settimeout(2)
                self.requests.append(self._read(client))
                self._step()(client, self._ended)
            except OSError:
                pass  # the client went away, which is what several tests are about

    def _step(self) -> Step:
        return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]

    @staticmethod
    def _read(client: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += client.recv(65536) or b"\r\n\r\n"
        head, body = data.split(b"\r\n\r\n", 1)
        sizes = [
            int(line[15:])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        ]
        while sizes and len(body) < sizes[0]:
            part = client.recv(65536)
            if not part:
                break
            body += part
        return head + b"\r\n\r\n" + body


class RoutedServer(ScriptedServer):
    """Answers by path: {"/v1/models": bytes of an HTTP answer}; every other path gets `other`."""

    def __init__(self, pages: dict[str, bytes], other: bytes) -> None:
        super().__init__(hang_up)
        self.pages, self.other = pages, other

    def _step(self) -> Step:
        return raw(self.pages.get(self.requests[-1].split(b" ")[1].decode(), self.other))


class Answering(ThreadingHTTPServer):
    """Answers each request with `respond(path, body)`: a status and bytes, or None to hang up. `with` it on."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1/chat/completions"

    def __enter__(self) -> Any:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()

    def respond(self, path: str, body: bytes) -> tuple[int, bytes] | None:
        raise NotImplementedError


class _Answer(BaseHTTPRequestHandler):
    server: Answering

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with contextlib.suppress(OSError):  # the client has gone, or the server behind has
            found = self.server.respond(self.path, body)
            if found:
                self.send_response(found[0])
                self.send_header("Content-Length", str(len(found[1])))
                self.end_headers()
                self.wfile.write(found[1])

    do_GET = do_POST

    def log_message(self, *values: object) -> None:
        """Says nothing."""
