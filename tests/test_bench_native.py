"""The bench asks models in the grammars that they were trained in, and keeps a calibration for each grammar."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

import agent
from tests.bench import asking, figures, keeping, leaflet, measuring, targets

# How models of these grammars press escape, type 42 and click a place of their own space.
SAID = {
    "qwen3-vl": {
        "press_key": 'Action: Press.\n<tool_call>\n{"name": "computer_use", "arguments":'
        ' {"action": "key", "keys": ["escape"]}}\n</tool_call>',
        "type_text": 'Action: Type.\n<tool_call>\n{"name": "computer_use", "arguments":'
        ' {"action": "type", "text": "42"}}\n</tool_call>',
        "click": 'Action: Click.\n<tool_call>\n{"name": "computer_use", "arguments":'
        ' {"action": "left_click", "coordinate": [%d, %d]}}\n</tool_call>',
    },
    "ui-tars-1.5": {
        "press_key": "Thought: Press.\nAction: hotkey(key='escape')",
        "type_text": "Thought: Type.\nAction: type(content='42')",
        "click": "Thought: Click.\nAction: click(start_box='(%d,%d)')",
    },
}


def parts_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What a request says and shows, whether in one message or in two."""
    parts = list[dict[str, Any]]()
    for message in request["messages"]:
        content = message["content"]
        parts += [{"text": content}] if isinstance(content, str) else content
    return parts


class Trained:
    """A server whose model does right in its own grammar, and knows no other; it scales its places."""

    where = "http://127.0.0.1:1234"

    def __init__(self, grammar: str, size: agent.Size, scale: float = 1.0) -> None:
        self.grammar = agent.GRAMMARS[grammar]
        self.scale = scale
        self.requests: list[dict[str, Any]] = []
        self.size = self.grammar.picture.seen_size(size)
        whole = agent.Rect(0, 0, *self.size)
        grammars = ["tools", "text", grammar]
        items = asking.bench_items(asking.BENCH_QUICK, keeping.BENCH_SEED, whole, grammars)
        self.items = {item.name: item for item in items}
        self.left = list(self.items)

    def discover(self) -> agent.ModelInfo:
        return agent.ModelInfo(f"{self.grammar.name}-7b", True, True, 8192)

    def complete(self, body: bytes) -> agent.Reply:
        request = json.loads(body)
        self.requests.append(request)
        item = self.items[self.left[0]]
        own = item.part == "pointing" or item.kind == self.grammar.name
        wrong = item.part == "calling" and not own
        corrected = sum(message["role"] == "assistant" for message in request["messages"])
        if not wrong or corrected == asking.BENCH_CORRECTIONS:
            self.left.pop(0)
        message = {"role": "assistant", "content": self.words(item, own)}
        return agent.Reply(message, "stop", agent.Usage(1500, 20, None), "trained", 1.0, 1)

    def words(self, item: targets.BenchItem, own: bool) -> str:
        if item.part == "pointing":
            return self.said("click") % self.place(item)
        if item.part == "calling":
            return self.said(item.expected) if own else "I press it."
        return item.expected

    def said(self, act: str) -> str:
        return SAID[self.grammar.name][act]

    def place(self, item: targets.BenchItem) -> tuple[int, int]:
        """The middle of what is to be clicked, in the space of the grammar."""
        x, y = targets.grid_place(item.target, agent.Rect(0, 0, *self.size))
        most_x, most_y = self.grammar.sides(self.size)
        away_x, away_y = (self.scale * (place - 500) for place in (x, y))
        return round((500 + away_x) * most_x / 1000), round((500 + away_y) * most_y / 1000)


class Native(unittest.TestCase):
    measured: ClassVar[dict[str, tuple[Trained, Any]]] = {}

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.said: list[str] = []
        self.tell = measuring.Telling(self.said.append, lambda text: None)

    def config(self, **settings: Any) -> agent.Config:
        base = {"screen_capture_w": 448, "screen_capture_h": 252, "dump_dir": str(self.root)}
        return agent.load_config({"test": {**base, **settings}})

    def measure(self, grammar: str, scale: float = 1.0) -> Trained:
        """What was asked of a model whose name tells its grammar; the tasks are carried out by nobody."""
        config = self.config()
        model = Trained(grammar, agent.screen_size(config), scale)
        server: Any = model
        measuring.measure_model(
            config, measuring.bench_order(["quick", "native"]), server, self.tell
        )
        return model

    def measured_once(self, grammar: str) -> tuple[Trained, Any]:
        """A model without a fault that is measured for all tests, and what its bench.json holds."""
        if grammar not in self.measured:
            model = self.measure(grammar)
            (file,) = self.root.glob("bench_*/bench.json")
            self.measured[grammar] = model, json.loads(file.read_text())
            shutil.rmtree(file.parent)
        return self.measured[grammar]

    def test_pointing_and_calling_are_asked_and_read_in_the_models_own_grammar(self) -> None:
        for grammar in SAID:
            with self.subTest(grammar):
                model, kept = self.measured_once(grammar)
                self.assertEqual(model.left, [])
                self.assertEqual(kept["about"]["grammar"], grammar)
                shares = kept["shares"]
                self.assertEqual(shares["targets hit"]["hits"], asking.BENCH_QUICK.pointing)
                name = f"calls usable at once, {grammar}"
                self.assertEqual(shares[name]["hits"], asking.BENCH_QUICK.calling)
                self.assertEqual(shares["calls usable at once, tools"]["hits"], 0)
                self.assertNotIn("tools", model.requests[0])

    def test_native_is_chosen_by_the_models_name_and_the_setting_goes_before_it(self) -> None:
        info = agent.ModelInfo("ui-tars-1.5-7b")
        plain = self.config()
        self.assertEqual(measuring.bench_grammar(plain, ["native"], info), "ui-tars-1.5")
        self.assertEqual(measuring.bench_grammar(plain, ["planner"], info), "tools")
        named = self.config(executor_grammar="qwen3-vl")
        self.assertEqual(measuring.bench_grammar(named, ["planner"], info), "qwen3-vl")
        with self.assertRaisesRegex(agent.ConfigError, "Profile chat takes no grammar"):
            measuring.bench_grammar(named, ["native", "chat"], info)
        self.assertEqual(measuring.called_grammars("tools", info), ["tools", "text", "ui-tars-1.5"])

    def test_pictures_have_the_size_that_the_models_processor_leaves_alone(self) -> None:
        model, _ = self.measured_once("ui-tars-1.5")
        parts = parts_of(model.requests[0])
        image = next(part for part in parts if "image_url" in part)["image_url"]["url"]
        png = agent.base64.b64decode(image.partition(",")[2])
        _, width, height = agent.png_to_rgb(png)
        self.assertEqual((width % 28, height % 28), (0, 0))

    def test_what_was_measured_in_a_grammar_corrects_runs_in_that_grammar_alone(self) -> None:
        model: Any = self.measure("qwen3-vl", scale=0.98)
        config = self.config()
        info = model.discover()
        corrected = []
        for profile in ("native", "planner"):
            found = agent.correction_of_run(
                config, agent.PROFILES[profile], Plain(), info, model, print
            )
            corrected.append(found != agent.NO_CORRECTION)
        self.assertEqual(corrected, [True, False])

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

    def test_a_model_that_was_trained_in_another_grammar_is_advised_it(self) -> None:
        config = self.config()
        lines = []
        for kind, usable in (("tools", False), ("text", False), ("qwen3-vl", True)):
            for number in range(10):
                error = "" if usable else "no_call"
                name = f"calling {kind} {number}"
                lines.append(
                    asking.BenchLine("calling", name, kind=kind, error=error, right=usable)
                )
        result = figures.bench_result({"model": "m"}, lines)
        settings = leaflet.bench_settings(result, figures.bench_advice(result))
        self.assertEqual(settings["executor_grammar"], "qwen3-vl")
        agent.load_config({"bench": settings})
        self.assertEqual(config.executor_grammar, "")


class Clicking(Trained):
    """The same before pictures with squares: it clicks the one that is asked for."""

    def complete(self, body: bytes) -> agent.Reply:
        request = json.loads(body)
        self.requests.append(request)
        words, png = "", b""
        for part in parts_of(request):
            words += part.get("text", "")
            if "image_url" in part:
                png = agent.base64.b64decode(part["image_url"]["url"].partition(",")[2])
        (name,) = re.findall(r"the middle of the (\w+) square", words)
        rgb, width, _ = agent.png_to_rgb(png)
        colour = agent.MARK_COLOURS[name].to_bytes(3, "big")
        first, last = rgb.find(colour * 2) // 3, rgb.rfind(colour * 2) // 3 + 1
        x, y = (first % width + last % width) / 2, (first // width + last // width) / 2
        item = targets.BenchItem("pointing", name, "", None)
        left, top = round(x), round(y)
        thing = targets.BenchThing("icon", agent.Rect(left, top, 1, 1), name)
        item = agent.replace(item, scene=targets.BenchScene(things=[thing]))
        content = self.said("click") % self.place(item)
        message = {"role": "assistant", "content": content}
        return agent.Reply(message, "stop", agent.Usage(None, None, None), "", 1.0, 1)


class Plain:
    """A desktop of the size that was measured."""

    def screen(self) -> agent.Rect:
        return agent.Rect(0, 0, 640, 360)

    primary = screen


if __name__ == "__main__":
    unittest.main()
