"""A model is calibrated in the grammar that it was trained in."""

from __future__ import annotations

import base64
import json
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any

import agent

# How models of these grammars click a place of their own space.
SAID = {
    "qwen3-vl": 'Action: Click.\n<tool_call>\n{"name": "computer_use", "arguments":'
    ' {"action": "left_click", "coordinate": [%d, %d]}}\n</tool_call>',
    "ui-tars-1.5": "Thought: Click.\nAction: click(start_box='(%d,%d)')",
}


def parts_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What a request says and shows, whether in one message or in two."""
    parts = list[dict[str, Any]]()
    for message in request["messages"]:
        content = message["content"]
        parts += [{"text": content}] if isinstance(content, str) else content
    return parts


class Clicking:
    """A server whose model clicks the squares that it is asked for, in its grammar; it scales its places."""

    where = "http://127.0.0.1:1234"

    def __init__(self, grammar: str, size: agent.Size, scale: float) -> None:
        self.grammar = agent.GRAMMARS[grammar]
        self.scale = scale
        self.requests: list[dict[str, Any]] = []
        self.size = self.grammar.picture.seen_size(size)

    def discover(self) -> agent.ModelInfo:
        return agent.ModelInfo(f"{self.grammar.name}-7b", True, True, 8192)

    def place(self, x: float, y: float) -> tuple[int, int]:
        """A pixel in the space of the grammar."""
        most_x, most_y = self.grammar.sides(self.size)
        width, height = self.size
        away_x = self.scale * (x * 1000 / (width - 1) - 500)
        away_y = self.scale * (y * 1000 / (height - 1) - 500)
        return round((500 + away_x) * most_x / 1000), round((500 + away_y) * most_y / 1000)

    def complete(self, body: bytes) -> agent.Reply:
        request = json.loads(body)
        self.requests.append(request)
        words, png = "", b""
        for part in parts_of(request):
            words += part.get("text", "")
            if "image_url" in part:
                png = base64.b64decode(part["image_url"]["url"].partition(",")[2])
        (name,) = re.findall(r"the middle of the (\w+) square", words)
        rgb, width, _ = agent.png_to_rgb(png)
        colour = agent.MARK_COLOURS[name].to_bytes(3, "big")
        first, last = rgb.find(colour * 2) // 3, rgb.rfind(colour * 2) // 3 + 1
        x, y = (first % width + last % width) / 2, (first // width + last // width) / 2
        content = SAID[self.grammar.name] % self.place(x, y)
        message = {"role": "assistant", "content": content}
        return agent.Reply(message, "stop", agent.Usage(None, None, None), "", 1.0, 1)


class Native(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def config(self, **settings: Any) -> agent.Config:
        return agent.load_config({"test": {"dump_dir": str(self.root), **settings}})

    def test_check_has_such_a_model_click_the_squares_and_keeps_that_for_its_grammar(self) -> None:
        for grammar in SAID:
            with self.subTest(grammar):
                model: Any = Clicking(grammar, agent.Size(1280, 720), 0.98)
                config = self.config(screen_capture_w=1280, screen_capture_h=720)
                spoken = agent.GRAMMARS[grammar]
                found = list(agent.check_calibration(config, model.discover(), model, spoken))
                self.assertEqual([finding.fine for finding in found], [True, True], found)
                self.assertIn("corrected from now on: across scale 0.98", found[1].text)
                self.assertEqual(len(model.requests), 12)
                known = agent.calibrations(self.root, print)
                self.assertEqual(known[0]["grammar"], grammar)


if __name__ == "__main__":
    unittest.main()
