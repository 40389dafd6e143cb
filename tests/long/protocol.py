"""A hundred thousand messages to `--mcp`, whole, cut, mutated and in disorder: each whole one is answered by its id, each
answer is either a result or an error, no act is without its record, and the program ends with its client.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.starting import PROGRAM, environment

META = "io.modelcontextprotocol/"
ODD: list[Any] = json.loads(
    r'[null, true, 0, -1, 1e9, 1.5, "", "x", "\ud800", [], {}, [[1]], {"a": {}}]'
)
METHODS = "initialize ping tools/list tools/call server/discover notifications/cancelled x".split()
RIGHT = {"element_name": "Notes", "position": [57, 96], "text": "a", "look": True}


def line_of(rng: random.Random, number: int) -> tuple[bytes, bool]:
    """A request that is right, or nearly, and whether it is whole; no whole task and no wait is among them."""
    name = rng.choice(["observe", "click", "move", "type_text", "x", rng.choice(ODD)])
    params: Any = {"name": name, "arguments": rng.choice([RIGHT, RIGHT, rng.choice(ODD)])}
    if rng.random() < 0.5:
        revision = rng.choice(["2026-07-28", "2026-07-28", "1900", *ODD])
        params["_meta"] = {f"{META}protocolVersion": revision, f"{META}clientCapabilities": {}}
    told = {"jsonrpc": "2.0", "id": number, "method": rng.choice(METHODS), "params": params}
    if rng.random() < 0.3:
        told[rng.choice([*told])] = rng.choice(ODD)
    line = bytearray(json.dumps(told).encode())
    if rng.random() < 0.2:
        for _ in range(rng.randint(1, 4)):
            line[rng.randrange(len(line))] = rng.randrange(256)
    if rng.random() < 0.1:
        del line[rng.randrange(len(line)) :]
    whole = bytes(line) == json.dumps(told).encode() and told["id"] is number
    return bytes(line.replace(b"\n", b" ")), whole


def main(count: int = 100_000, seed: int = 1) -> bool:
    rng = random.Random(seed)
    lines = [line_of(rng, number) for number in range(2, count)]
    whole = {number for number, (_, is_whole) in enumerate(lines, 2) if is_whole}
    with tempfile.TemporaryDirectory() as folder:
        settings = ["--set", f"dump_dir={folder}/dumps", "--set", "settle_cap_ms=1"]
        server = subprocess.run(
            [*PROGRAM, "--mcp", "--demo", "-q", *settings],
            env=environment(),
            input=b"".join(line + b"\n" for line, _ in lines),
            capture_output=True,
            timeout=900,
        )
        heard, code = [*map(json.loads, server.stdout.splitlines())], server.returncode
        journals = [path.read_text("utf-8") for path in Path(folder).rglob("turns.jsonl")]
    kinds = [json.loads(line)["kind"] for text in journals for line in text.splitlines()]
    odd = [reply for reply in heard if ("result" in reply) == ("error" in reply)]
    missing = whole - {reply["id"] for reply in heard if type(reply["id"]) is int}
    acts, open_ones = kinds.count("intent"), kinds.count("intent") - kinds.count("result")
    print(f"{len(heard)} answers, {len(missing)} of {len(whole)} missing, {acts} acts, code {code}")
    # The end may have come in the middle of one.
    return code == 130 and not odd and len(missing) <= 1 and open_ones <= 1 and acts > 0
