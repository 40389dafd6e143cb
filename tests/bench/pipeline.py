"""From captured pixels to the request on the wire: encode, begin the screenshot, build the body, send it.

    python tests/bench/pipeline.py [--rounds 15] [FOLDER OF PNGS]

A server on the loopback reads the whole request and answers at once; its answer is not counted, sending is. Medians in
milliseconds for a whole frame that is new, for a line of text typed into it, and for the same frame again; and the
straightforward way in the same process: rgb_to_png, b64encode, json.dumps.
"""

from __future__ import annotations

import argparse
import base64
import json
import platform
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import frames
from frames import HEIGHT, WIDTH, agent

PROFILE = agent.PROFILES["planner"]
ROLE = PROFILE.roles["executor"]
SETTINGS = {
    "tools": PROFILE.schemas(ROLE),
    "tool_choice": "auto",
    "model": "m",
    "temperature": 0.5,
    "max_tokens": 1400,
}
TEXT = "TASK: something\n" + "  Turn_1: click_screen_element -> screen changed\n" * 12


class Sink:
    """Takes in what is sent."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.sender = socket.create_connection(listener.getsockname())
        self.taker, _ = listener.accept()
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self) -> None:
        while self.taker.recv(1 << 18):
            pass


def own(encoder: agent.PngEncoder, logger: agent.ExecutionLogger, pixels: bytes) -> bytes:
    picture = encoder.encode(pixels, WIDTH, HEIGHT)
    logger.save_screenshot("turn", picture.png)
    messages = [
        agent.Message("system", PROFILE.system(ROLE)),
        agent.Message("user", TEXT, picture.base64),
    ]
    return agent.request_body(SETTINGS, messages)


def plain(logger: agent.ExecutionLogger, pixels: bytes) -> bytes:
    png = agent.rgb_to_png(agent.bgrx_to_rgb(pixels), WIDTH, HEIGHT)
    (logger.folder / "screenshots" / "plain.png").write_bytes(png)
    url = {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + base64.b64encode(png).decode()},
    }
    messages = [{"role": "system", "content": PROFILE.system(ROLE)}]
    messages += [{"role": "user", "content": [url, {"type": "text", "text": TEXT}]}]
    return json.dumps({"messages": messages, **SETTINGS}).encode()


def milliseconds(send: Callable[[bytes], None], make: Callable[[], bytes]) -> float:
    start = time.perf_counter()
    send(make())
    return (time.perf_counter() - start) * 1000


parser = argparse.ArgumentParser()
parser.add_argument("folder", nargs="?")
parser.add_argument("--rounds", type=int, default=15)
options = parser.parse_args()
print(
    f"Python {platform.python_version()} on {sys.platform}, median of {options.rounds}, milliseconds"
)
with tempfile.TemporaryDirectory() as folder:
    logger, send = agent.ExecutionLogger(folder), Sink().sender.sendall
    for title, pixels in frames.read(options.folder).items():
        times: dict[str, list[float]] = {}
        changed = frames.typed(pixels)
        for _ in range(options.rounds):
            encoder = agent.PngEncoder()
            for case, frame in (
                ("new", pixels),
                ("typed", changed),
                ("same", bytes(bytearray(changed))),
            ):
                times.setdefault(case, []).append(
                    milliseconds(send, lambda e=encoder, f=frame: own(e, logger, f))
                )
                logger.flush()  # the model's answer takes seconds: time enough for the disk
            times.setdefault("straightforward", []).append(
                milliseconds(send, lambda f=pixels: plain(logger, f))
            )
        print(
            f"{title:<10} "
            + "  ".join(f"{case} {statistics.median(values):.1f}" for case, values in times.items())
        )
    logger.close()
