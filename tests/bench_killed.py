"""Kills a bench at moments of its life, starts it again each time, and looks whether anything was lost or asked twice.

    python -m tests.bench_killed [KILLS] [SEED]     at so many random moments (60)

The server is scripted: its model points 2 % too near to the middle and speaks in prose otherwise.
"""

from __future__ import annotations

import atexit
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import agent
from tests.starting import Child, ColdChild, Warm

WIDTH, HEIGHT = 640, 352
WHOLE = agent.Rect(0, 0, WIDTH, HEIGHT)
# A run of a demo task costs a few requests, and no wait.
SETTINGS = "max_steps=1 settle_floor_ms=1 settle_patience_ms=5 settle_interval_ms=1".split()
SETTINGS += [f"screen_capture_w={WIDTH}", f"screen_capture_h={HEIGHT}"]


# The number of a request, and the seconds after its answer; before the answer where they are negative.
Moment = tuple[int, float]
NEVER: Moment = (0, 0.0)

WARM = Warm()
# To draw and to pack the pictures takes most of a bench; the server does not look at them.
BLANK_PICTURES = """
import base64
blank = base64.b64encode(agent.rgb_to_png(bytes(3), 1, 1))
agent.bench_picture = lambda scene, whole: blank
"""
atexit.register(WARM.end)


class Server:
    """Answers; `moment` is when it kills `process`."""

    def __init__(self) -> None:
        items = agent.bench_items(agent.BENCH_QUICK, agent.BENCH_SEED, WHOLE)
        self.targets = {item.question: item.target for item in items if item.part == "pointing"}
        self.asked = 0
        self.moment = NEVER
        self.process: Child | ColdChild | None = None
        self.lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send({"data": [{"id": "tiny", "type": "vlm", "state": "loaded"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with owner.lock:
                    owner.asked += 1
                    number, after_s = owner.moment
                    due = number == owner.asked
                if due and after_s < 0:
                    owner.kill()
                message = {"role": "assistant", "content": owner.words(body)}
                usage = {"prompt_tokens": 100, "completion_tokens": 10}
                choice = {"message": message, "finish_reason": "stop"}
                try:
                    self.send({"model": "tiny", "choices": [choice], "usage": usage})
                except OSError:
                    return  # it is dead
                if due and after_s >= 0:
                    time.sleep(after_s)
                    owner.kill()

            def send(self, answer: Any) -> None:
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1/chat/completions"

    def __enter__(self) -> Server:
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    def kill(self) -> None:
        if self.process:
            self.process.kill()

    def words(self, request: dict[str, Any]) -> str:
        """A click beside what is asked for, or prose."""
        asked = request["messages"][-1]["content"]
        parts = asked if isinstance(asked, list) else [{"text": asked}]
        question = next(part["text"] for part in parts if "text" in part)
        target = self.targets.get(question)
        if target is None:
            return "I would do what I was asked for."
        places = [round(500 + 0.98 * (place - 500)) for place in agent.grid_place(target, WHOLE)]
        said = json.dumps({"element_name": "it", "position": places, "reasoning": "seen"})
        return agent.call_in_text("click_screen_element", said)


def begin(server: Server, folder: Path, *words: str) -> Child | ColdChild:
    """A bench in a process of its own."""
    arguments = ["--bench", *words, "--endpoint", server.url]
    for setting in (*SETTINGS, f"dump_dir={folder}"):
        arguments += ["--set", setting]
    return WARM.start(*arguments)


def journal_lines(folder: Path) -> list[dict[str, Any]]:
    """The lines of the only bench in a folder, without its head."""
    (only,) = agent.bench_folders(folder)
    _, *lines = (only / "bench.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def killed_at(moments: Sequence[Moment], *words: str) -> dict[str, Any]:
    """bench.json of a bench that was killed at each of these moments, and went on, and its items as `names`.

    Raises AssertionError for one that fails, that keeps an item twice, or harms the calibration.
    """
    with tempfile.TemporaryDirectory() as name, Server() as server:
        folder = Path(name)
        asked = kills = 0
        for moment in [*moments, NEVER]:
            if any((bench / "bench.json").exists() for bench in agent.bench_folders(folder)):
                break  # it was done before the kill
            server.asked, server.moment = 0, moment
            with server.lock:  # no request is looked at before its process is known
                process = server.process = begin(server, folder, *words)
            code, output = process.end(seconds=300)
            killed = code in (-9, 1) and moment != NEVER
            assert killed or code == 0, output
            assert "Traceback" not in output, output
            asked += server.asked
            kills += killed
        names = [line["name"] for line in journal_lines(folder)]
        assert len(names) == len(set(names)), names
        (only,) = agent.bench_folders(folder)
        result: dict[str, Any] = json.loads((only / "bench.json").read_text("utf-8"))
        (known,) = agent.CalibrationBook(folder).entries()
        assert known.usable, known.figures
        return {"names": names, "asked": asked, "kills": kills, **result}


def main() -> int:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    dice = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    whole = killed_at([], "quick")
    done = 0
    while done < kills:
        # A few kills in each bench: each time it goes on by some requests.
        moments = [(dice.randint(1, 14), dice.uniform(-0.01, 0.03)) for _ in range(6)]
        found = killed_at(moments, "quick")
        for what in ("names", "shares", "lines", "errors"):
            assert found[what] == whole[what], (moments, found[what])
        done += len(moments)
    print(f"{done} kills: each bench went on, and its result is that of one that was not killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
