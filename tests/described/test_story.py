"""The profile story with --described against its description, a row a point with its line."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import unittest
from functools import cached_property
from pathlib import Path
from typing import Any

import agent
from tests.described.exchange import TASK, Exchange
from tests.scripted import EngineCase, Message, text

BOX = {"x1": 100, "y1": 100, "x2": 300, "y2": 300}
STORY = [
    {"observation": "I see a button.", "bboxes": [BOX], "actions": [
        {"name": "Click", "x1": 500, "y1": 500},
        {"name": "drag", "x1": 100, "y1": 100, "x2": 900, "y2": 900},
    ]},
    {"observation": "It moved.", "bboxes": [], "actions": [
        {"name": "move", "x1": 100, "y1": 100},
        {"name": "right_click", "x1": 100, "y1": 100},
        {"name": "double_click", "x1": 900, "y1": 900},
    ]},
]  # fmt: skip
REPLIES = [text(json.dumps(reply)) for reply in STORY]
BROKEN = 'Well {"observation": "In a block.", "actions": []} indeed'
SETTINGS = (
    ("100 means no scaling", "capture_scale_percent", 100),
    ("If both > 0, force the post-crop frame resolution", "screen_capture_w", 0),
    ("flat (recommended)", "log_layout", "flat"),
    ("avoids explicit Python-side loop detection", "stall_stop", 0),
    ("handle retries upstream if needed", "request_retries", 0),
)


def reply(**given: Any) -> Message:
    return text(json.dumps({"observation": "", "bboxes": [], "actions": [], **given}))


class Story(EngineCase):
    def exchange_of(self, replies: list[Message], *more: str) -> Exchange:
        return Exchange(
            self, "story", [*replies, text("End.")], "--max-steps", str(len(replies) + 1), *more
        )

    @cached_property
    def exchange(self) -> Exchange:
        return self.exchange_of(REPLIES)

    def records(self) -> list[dict[str, Any]]:  # type: ignore[override]
        lines = (self.exchange.folder / "turns.jsonl").read_text("utf-8").splitlines()
        return [item for item in map(json.loads, lines) if item["kind"] == "stage"]

    def test_the_settings_are_those_of_the_description(self) -> None:
        for line, name, value in SETTINGS:
            with self.subTest(line):
                self.assertEqual(getattr(self.exchange.config, name), value)

    def test_a_request_is_prompt_observation_and_picture(self) -> None:
        # "system: SYSTEM_PROMPT", "text: observation", "image_url: data:image/png;base64,"
        for number, observation in ((2, "I see a button."), (3, "It moved.")):
            system, user = self.exchange.requests[number - 1]["messages"]
            self.assertEqual((system["role"], user["role"]), ("system", "user"))
            words, image = user["content"]
            self.assertEqual(words, {"type": "text", "text": observation})
            self.assertTrue(image["image_url"]["url"].startswith("data:image/png;base64,"))

    def test_the_payload_has_the_described_fields(self) -> None:
        # "model, temperature, top_p, max_tokens"
        for request in self.exchange.requests:
            wanted = {"messages", "model", "temperature", "top_p", "max_tokens"}
            self.assertEqual(request.keys() - {"stream"}, wanted)

    def test_the_prompt_describes_what_it_must_and_names_the_described_actions_alone(self) -> None:
        prompt = self.exchange.system(1)
        # "normalized coordinates 0..1000", "JSON-only", "meaning of overlays", "turn limits"
        for words in (
            "1000, 1000",
            "nothing else",
            "orange heat",
            "blue boxes",
            "At most 5 actions",
        ):
            self.assertIn(words, prompt)
        for name in ("move", "click", "right_click", "double_click", "drag"):
            self.assertIn(name, prompt)
        for name in ("scroll", "wait", '"done"', '"key"', '"type"'):
            self.assertNotIn(name, prompt)
        self.assertIn(TASK, prompt)  # kept: the person gives it when the run begins

    def test_the_system_prompt_is_a_setting(self) -> None:
        # "SYSTEM_PROMPT"
        exchange = self.exchange_of([], "--set", 'system_prompt=Only {"JSON"}.')
        self.assertTrue(exchange.system(1).startswith('Only {"JSON"}.\n'))

    def test_the_described_actions_are_carried_out_by_the_mouse(self) -> None:
        # "Supported action names (case-insensitive, normalized to lowercase)"
        inputs = self.exchange.desktop.inputs
        pressed = [event[1:] for event in inputs if event[0] == "button"]
        left, right = [("left", True), ("left", False)], [("right", True), ("right", False)]
        self.assertEqual(pressed, [*left, *left, *right, *left, *left])
        self.assertEqual(inputs[0], ("move", 32, 18))
        self.assertEqual({event[0] for event in inputs}, {"move", "button"})

    def test_other_actions_are_none(self) -> None:
        keys = [{"name": "key", "key": "a"}]
        exchange = self.exchange_of([reply(observation="I type.", actions=keys)])
        self.assertEqual(exchange.desktop.inputs, [])

    def test_a_saying_that_it_is_done_ends_nothing_and_nobody_judges(self) -> None:
        done = [{"name": "done"}]
        exchange = self.exchange_of([reply(observation="Done.", actions=done)] * 3)
        self.assertEqual((exchange.outcome[0], len(exchange.requests)), ("max_steps", 4))
        systems = {request["messages"][0]["content"] for request in exchange.requests}
        self.assertEqual(len(systems), 1)

    def test_what_is_no_json_is_an_observation_without_actions(self) -> None:
        # "it tries to extract the first {...} block", "treats the entire text as observation"
        exchange = self.exchange_of([text(BROKEN), text("No JSON at all.")])
        self.assertEqual(exchange.user(2), "In a block.")
        self.assertEqual(exchange.user(3), "No JSON at all.")
        self.assertEqual(exchange.desktop.inputs, [])

    def test_a_coordinate_off_the_grid_is_refused_and_told(self) -> None:
        # "Coordinates are clamped into [0..1000]": kept as ours
        actions = [{"name": "click", "x1": 1300, "y1": 500}]
        exchange = self.exchange_of([reply(observation="I click.", actions=actions)])
        self.assertEqual(exchange.desktop.inputs, [])
        self.assertIn("I click. Action 1 was not executed", exchange.user(2))

    def test_a_turn_leaves_the_described_files_and_records(self) -> None:
        # "turn_0001_raw.png", "turn_0001_annotated.png", "Two records per turn"
        for turn in (1, 2, 3):
            for stage in ("raw", "annotated"):
                self.assertTrue((self.exchange.folder / f"turn_000{turn}_{stage}.png").is_file())
        raw = [item for item in self.records() if item["stage"] == "raw"]
        marked = [item for item in self.records() if item["stage"] == "annotated"]
        self.assertEqual((len(raw), len(marked)), (3, 3))
        self.assertEqual(
            {name: raw[1][name] for name in ("turn", "observation", "bboxes", "raw_png")},
            {
                "turn": 2,
                "observation": "I see a button.",
                "bboxes": [BOX],
                "raw_png": "turn_0002_raw.png",
            },
        )
        self.assertEqual(raw[1]["actions"][0], {"name": "click", "x1": 500, "y1": 500})
        self.assertEqual(marked[1]["annotated_png"], "turn_0002_annotated.png")

    def test_the_older_layout_has_a_folder_a_turn(self) -> None:
        # "turn_0001/vlm_output.json", "turn_0001/screenshot_raw.png"
        folder = self.exchange_of([], "--set", "log_layout=turn_dirs").folder
        for name in ("vlm_output.json", "screenshot_raw.png", "screenshot_annotated.png"):
            self.assertTrue((folder / "turn_0001" / name).is_file())

    def test_scaling_comes_after_the_crop_and_zero_switches_it_off(self) -> None:
        # "Example: 25 means 25% of the post-crop pixel dimensions", "Values <= 0 disable scaling"
        for percent, size in ((100, (64, 36)), (0, (64, 36)), (50, (32, 18))):
            exchange = self.exchange_of([], "--set", f"capture_scale_percent={percent}")
            png = (exchange.folder / "turn_0001_raw.png").read_bytes()
            self.assertEqual(agent.png_to_rgb(png)[1:], size, percent)
        # "If CAPTURE_WIDTH and CAPTURE_HEIGHT are both > 0, they fully specify output resolution"
        exact = ("--set", "screen_capture_w=50", "--set", "screen_capture_h=40")
        png = (self.exchange_of([], *exact).folder / "turn_0001_raw.png").read_bytes()
        self.assertEqual(agent.png_to_rgb(png)[1:], (50, 40))


class Addresses(unittest.TestCase):
    """The local HTTP API; every address but / needs the key, which is kept as ours."""

    def panel(self, described: bool = True) -> agent.Panel:
        panel = agent.Panel(
            agent.Config(described=described),
            agent.Stop(),
            agent.Book("run_0001"),
            Path("run_0001"),
        )
        self.addCleanup(panel.close)
        return panel

    def ask(
        self, panel: agent.Panel, method: str, path: str, body: Any = None, key: bool = True
    ) -> tuple[int, Any, dict[str, str]]:
        address, token = panel.url.removeprefix("http://").split("/#")
        headers = {"Origin": f"http://{address}", "Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {token}"
        with contextlib.closing(http.client.HTTPConnection(address, timeout=5)) as connection:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            read = answer.read()
            is_json = "json" in answer.headers["Content-Type"]
            return answer.status, json.loads(read) if is_json else read, dict(answer.headers)

    def test_the_config_has_the_described_structure(self) -> None:
        status, told, _ = self.ask(self.panel(), "GET", "/config")
        self.assertEqual((status, told.keys()), (200, {"ui", "capture_width", "capture_height"}))
        heat, boxes = told["ui"]["executed_heat"], told["ui"]["bbox_heat"]
        names = {"enabled", "radius_scale", "stops", "trail_turns", "trail_shrink"}
        self.assertEqual(heat.keys(), names)
        self.assertEqual(boxes.keys(), {"enabled", "border", "border_width", "fill_stops"})
        # "list of [pos, rgba-string] radial gradient stops"
        self.assertEqual(heat["stops"][0], [0.0, "rgba(255,90,0,0.7)"])

    def test_the_state_has_the_described_fields(self) -> None:
        names = (
            "phase error turn msg_id pending_seq annotated_seq raw_b64 bboxes actions"
            " observation vlm_json"
        )
        _, told, _ = self.ask(self.panel(), "GET", "/state")
        self.assertLessEqual(set(names.split()), told.keys())

    def test_a_reply_is_injected(self) -> None:
        # 'Body: {"vlm_text": "<string>"}'
        panel = self.panel()
        self.assertEqual(self.ask(panel, "POST", "/inject", {"vlm_text": "{}"})[0], 200)
        self.assertEqual(panel.take_injected(), "{}")

    def test_a_seq_that_is_not_awaited_is_a_conflict(self) -> None:
        # "Engine replies HTTP 409 and does not advance"
        body = {"seq": 7, "image_b64": base64.b64encode(b"x").decode()}
        self.assertEqual(self.ask(self.panel(), "POST", "/annotated", body)[0], 409)

    def test_no_address_is_served_without_the_key_and_none_to_other_sites(self) -> None:
        # "The server responds to OPTIONS and includes permissive headers": kept as ours
        panel = self.panel()
        for method, path in (("GET", "/config"), ("GET", "/state"), ("POST", "/inject")):
            status, _, headers = self.ask(panel, method, path, {"vlm_text": "x"}, key=False)
            self.assertEqual(status, 401)
            self.assertNotIn("Access-Control-Allow-Origin", headers)
        self.assertEqual(self.ask(panel, "OPTIONS", "/state")[0], 501)
        self.assertIsNone(panel.take_injected())

    def test_without_the_switch_they_are_not_there(self) -> None:
        panel = self.panel(described=False)
        for method, path in (("GET", "/config"), ("POST", "/inject"), ("POST", "/annotated")):
            self.assertEqual(self.ask(panel, method, path, {"seq": 1})[0], 404)


if __name__ == "__main__":
    unittest.main()
