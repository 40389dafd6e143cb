"""A hundred thousand messages to `--mcp`, whole, cut, mutated and in disorder: each request gets one answer by its id,
each line that is none an error, no call is carried out without its record, and the program ends with its client.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.starting import PROGRAM, environment

META = "io.modelcontextprotocol/"
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1e9,
    1.5,
    "",
    "x",
    "é\ud800",
    [],
    {},
    [[1]],
    {"a": {}},
    "9" * 400,
]
METHODS = "initialize ping tools/list tools/call server/discover resources/list notifications/cancelled x".split()
WHOLE = {"element_name": "Notes", "position": [57, 96], "text": "a", "look": True}


def message(rng: random.Random, number: int) -> dict[str, Any]:
    """A request that is right, or nearly; whole tasks and long waits aside."""
    name = rng.choice(["observe", "click", "move", "type_text", "x", rng.choice(ODD)])
    params: Any = {
        "name": name,
        "arguments": rng.choice([WHOLE, WHOLE, rng.choice(ODD)]),
        "requestId": number - 1,
    }
    if rng.random() < 0.5:
        revision = rng.choice(["2026-07-28", "2026-07-28", "1900", *ODD])
        params["_meta"] = {f"{META}protocolVersion": revision, f"{META}clientCapabilities": {}}
    whole: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": number,
        "method": rng.choice(METHODS),
        "params": params,
    }
    if rng.random() < 0.3:
        whole[rng.choice([*whole])] = rng.choice(ODD)
    return whole


def line_of(rng: random.Random, whole: dict[str, Any]) -> bytes:
    line = bytearray(json.dumps(whole).encode())
    if rng.random() < 0.2:
        for _ in range(rng.randint(1, 4)):
            line[rng.randrange(len(line))] = rng.randrange(256)
    if rng.random() < 0.1:
        del line[rng.randrange(len(line)) :]
    return bytes(line.replace(b"\n", b" "))


def main(count: int = 100_000, seed: int = 1) -> bool:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        settings = ["--set", f"dump_dir={folder}/dumps", "--set", "settle_cap_ms=1"]
        pipe = subprocess.PIPE
        command = [*PROGRAM, "--mcp", "--demo", "-q", *settings]
        server = subprocess.Popen(
            command, env=environment(), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )
        assert server.stdin and server.stdout
        heard: list[dict[str, Any]] = []
        reader = threading.Thread(target=lambda: heard.extend(map(json.loads, server.stdout or ())))
        reader.start()
        for number in range(count):
            server.stdin.write(line_of(rng, message(rng, number)) + b"\n")
        last = {"jsonrpc": "2.0", "id": "last", "method": "ping"}
        server.stdin.write(json.dumps(last).encode() + b"\n")
        server.stdin.close()
        code = server.wait(600)
        reader.join(60)
        records = [
            json.loads(line)
            for journal in Path(folder).rglob("turns.jsonl")
            for line in journal.read_text("utf-8").splitlines()
        ]
    kinds = [record["kind"] for record in records]
    answers = [reply for reply in heard if "id" in reply]
    odd = [reply for reply in answers if ("result" in reply) == ("error" in reply)]
    pinged = any(reply["id"] == "last" for reply in answers)
    known = [str(reply["id"]) for reply in answers if reply["id"] is not None]
    acts = kinds.count("intent") - kinds.count("result")  # one may have been stopped by the end
    print(
        f"{len(answers)} answers to {count} lines, {kinds.count('intent')} acts, exit code {code}"
    )
    return code == 130 and pinged and not odd and acts in (0, 1) and len(known) > count // 4
