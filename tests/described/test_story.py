"""The profile story with --described against its description, a row a point with its line."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import agent
from tests.described.exchange import TASK, Exchange
from tests.scripted import EngineCase, Message, text

BOX = {"x1": 100, "y1": 100, "x2": 300, "y2": 300}
CLICKS = [{"name": "Click", "x1": 500, "y1": 500}, {"name": "drag", **{**BOX, "x2": 900}}]
STORY = [
    {"observation": "I see a button.", "bboxes": [BOX], "actions": CLICKS},
    {"observation": "It moved.", "bboxes": [], "actions": [{"name": "move", "x1": 100, "y1": 100}]},
]
REPLIES = [text(json.dumps(reply)) for reply in STORY]
BROKEN = 'Well {"observation": "In a block.", "actions": []} indeed'


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

    def test_a_request_is_prompt_observation_and_picture(self) -> None:
        """Payload: model, temperature, top_p, max_tokens; content: text, image_url."""
        wanted = {"messages", "model", "temperature", "top_p", "max_tokens"}
        for request in self.exchange.requests:
            self.assertEqual(request.keys() - {"stream"}, wanted)
        for number, observation in ((2, "I see a button."), (3, "It moved.")):
            system, user = self.exchange.requests[number - 1]["messages"]
            self.assertEqual((system["role"], user["role"]), ("system", "user"))
            words, image = user["content"]
            self.assertEqual(words, {"type": "text", "text": observation})
            self.assertTrue(image["image_url"]["url"].startswith("data:image/png;base64,"))

    def test_the_prompt_describes_what_it_must_and_names_the_described_actions_alone(self) -> None:
        prompt = self.exchange.system(1)
        # "normalized coordinates 0..1000", "JSON-only", "meaning of overlays", "turn limits"
        shown = ("1000, 1000", "nothing else", "orange heat", "blue boxes", "At most 5 actions")
        for words in shown:
            self.assertIn(words, prompt)
        for name in ("move", "click", "right_click", "double_click", "drag"):
            self.assertIn(name, prompt)
        for name in ("scroll", "wait", '"done"', '"key"', '"type"'):
            self.assertNotIn(name, prompt)
        self.assertIn(TASK, prompt)  # kept: the person gives it when the run begins

        # "SYSTEM_PROMPT" is a setting
        exchange = self.exchange_of([], "--set", 'system_prompt=Only {"JSON"}.')
        self.assertTrue(exchange.system(1).startswith('Only {"JSON"}.\n'))

    def test_a_saying_that_it_is_done_ends_nothing_and_nobody_judges(self) -> None:
        done = [{"name": "done"}]
        exchange = self.exchange_of([reply(observation="Done.", actions=done)] * 3)
        self.assertEqual((exchange.outcome[0], len(exchange.requests)), ("max_steps", 4))
        systems = {request["messages"][0]["content"] for request in exchange.requests}
        self.assertEqual(len(systems), 1)

    def test_what_is_no_json_no_action_or_off_the_grid_does_nothing(self) -> None:
        """It tries to extract the first {...} block; treats the entire text as observation.

        That coordinates are clamped into [0..1000] is not followed: they are refused.
        """
        off = reply(observation="Off.", actions=[{"name": "click", "x1": 1300, "y1": 500}])
        key = reply(observation="I type.", actions=[{"name": "key", "key": "a"}])
        exchange = self.exchange_of([text(BROKEN), text("No JSON at all."), off, key])
        self.assertEqual(exchange.user(2), "In a block.")
        self.assertEqual(exchange.user(3), "No JSON at all.")
        self.assertIn("Off. Action 1 was not executed", exchange.user(4))
        self.assertEqual(exchange.desktop.inputs, [])

    def test_a_turn_leaves_the_described_files_and_records(self) -> None:
        # "turn_0001_raw.png", "turn_0001_annotated.png", "Two records per turn"
        for turn in (1, 2, 3):
            for stage in ("raw", "annotated"):
                self.assertTrue((self.exchange.folder / f"turn_000{turn}_{stage}.png").is_file())
        raw = [item for item in self.records() if item["stage"] == "raw"]
        marked = [item for item in self.records() if item["stage"] == "annotated"]
        self.assertEqual((len(raw), len(marked)), (3, 3))
        wanted = {"turn": 2, "observation": "I see a button.", "bboxes": [BOX]}
        self.assertEqual(raw[1], raw[1] | wanted | {"raw_png": "turn_0002_raw.png"})
        self.assertEqual(raw[1]["actions"][0], {"name": "click", "x1": 500, "y1": 500})
        self.assertEqual(marked[1]["annotated_png"], "turn_0002_annotated.png")

    def test_scaling_comes_after_the_crop_and_zero_switches_it_off(self) -> None:
        """25 means 25% of the post-crop pixel dimensions; both > 0 fully specify output resolution."""
        exact = ("screen_capture_w=50", "screen_capture_h=40")
        for settings, size in (
            (["capture_scale_percent=0"], (64, 36)),
            (["capture_scale_percent=50"], (32, 18)),
            (exact, (50, 40)),
        ):
            given = [word for setting in settings for word in ("--set", setting)]
            png = (self.exchange_of([], *given).folder / "turn_0001_raw.png").read_bytes()
            self.assertEqual(agent.png_to_rgb(png)[1:], size)
