"""The bench in front of a real llama.cpp server, whose model makes no sense: honest zeros, and the server's own count."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path
from typing import Any

from between import CHAT
from program import AGENT
from server import DIRECT, LlamaServer

WIDTH, HEIGHT = 640, 352
PICTURE_TOKENS = WIDTH * HEIGHT // 32**2
MARKS = 2  # the tokens around a picture


class TheBench(unittest.TestCase):
    output: str
    code: int
    result: dict[str, Any]
    counted: dict[str, float]  # by the server, since it was started

    @classmethod
    def setUpClass(cls) -> None:
        with LlamaServer("mute") as server, tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.bench", "quick"]
            command += ["--endpoint", server.base + CHAT, "--set", f"dump_dir={folder}"]
            for name, side in (("w", WIDTH), ("h", HEIGHT)):
                command += ["--set", f"screen_capture_{name}={side}"]
            done = subprocess.run(
                command,
                cwd=AGENT.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=540,
            )
            cls.code, cls.output = done.returncode, done.stdout
            kept = Path(folder, "bench_0001", "bench.json")
            cls.result = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
            cls.counted = counters(server)

    def test_it_ends_with_honest_zeros_and_no_traceback(self) -> None:
        self.assertEqual(self.code, 0, self.output)
        self.assertNotIn("Traceback", self.output)
        shares = self.result["shares"]
        for name in ("targets hit", "texts read exactly", "calls right in the end, text"):
            self.assertEqual(shares[name]["hits"], 0, name)
            self.assertGreater(shares[name]["of"], 0, name)
        self.assertIn("This model cannot point", self.output)

    def test_tokens_are_those_that_the_server_counted(self) -> None:
        numbers = self.result["numbers"]
        told = {
            "prompt_tokens_total": numbers["prompt tokens computed"],
            "prompt_tokens_cached_total": numbers["prompt tokens reused"],
            "tokens_predicted_total": numbers["reply tokens in all"],
        }
        self.assertEqual(told, {name: self.counted[name] for name in told})
        self.assertGreater(min(told.values()), 0)
        both = told["prompt_tokens_total"] + told["prompt_tokens_cached_total"]
        self.assertEqual(numbers["prompt tokens in all"], both)

    def test_a_picture_costs_what_its_size_says(self) -> None:
        numbers = self.result["numbers"]
        self.assertEqual(numbers["picture tokens, counted"], PICTURE_TOKENS + MARKS)
        self.assertEqual(numbers["picture tokens, expected"], PICTURE_TOKENS)


def counters(server: LlamaServer) -> dict[str, float]:
    """The server's own figures."""
    with DIRECT.open(urllib.request.Request(server.base + "/metrics"), timeout=60) as answer:
        text = answer.read().decode()
    found = re.findall(r"(?m)^llamacpp:(\w+) ([\d.e+-]+)$", text)
    return {name: float(value) for name, value in found}


if __name__ == "__main__":
    unittest.main()
