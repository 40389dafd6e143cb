"""The profile chat with --described against its description, a row a point with its line."""

from __future__ import annotations

import json
import unittest
from functools import cached_property
from typing import Any

from tests.described.exchange import TASK, Exchange, arguments, call_names, said
from tests.scripted import EngineCase, Message, text

PLACE = {"label": "Button", "box": [500, 500]}
THOUGHT = "<think>It is in the middle.</think>Now I click."
REPLIES = [
    said(THOUGHT, "click_element", **PLACE),
    said(THOUGHT, "observe_screen"),
    said(THOUGHT, "type_text", text="hello"),
    said(THOUGHT, "press_key", key="enter"),
    said("", "observe_screen"),
    said("", "scroll_at_position", **PLACE),
    said("", "observe_screen"),
    said("", "press_key", key="nonsense"),
    text("<think>Done?</think>The button was pressed with click_element."),
]
WRONG = (
    ("missing_label", "click_element", {"box": [1, 1]}),
    ("missing_box", "click_element", {"label": "Button"}),
    ("invalid_box", "click_element", {"label": "Button", "box": [1]}),
    ("empty_text", "type_text", {"text": ""}),
    ("missing_key", "press_key", {}),
    ("invalid_key", "press_key", {"key": "nonsense"}),
    ("unknown_tool", "fly", {}),
)

SETTINGS = (
    ("Timeout: `LMSTUDIO_TIMEOUT` (default: 240s)", "lmstudio_timeout", 240),
    ("LMSTUDIO_MODEL | str | qwen3-vl-8b-instruct", "lmstudio_model", "qwen3-vl-8b-instruct"),
    ("Temperature: `LMSTUDIO_TEMPERATURE` (default: 0.6)", "lmstudio_temperature", 0.6),
    ("Max tokens: `LMSTUDIO_MAX_TOKENS` (default: 2048)", "executor_max_tokens", 2048),
    ("Image dimensions: `AGENT_IMAGE_W/H` (default: 1536x864)", "screen_capture_w", 1536),
    ("Image dimensions: `AGENT_IMAGE_W/H` (default: 1536x864)", "screen_capture_h", 864),
    ("AGENT_DUMP_PREFIX | str | screen_", "dump_prefix", "screen_"),
    ("AGENT_DUMP_START | int | 1", "dump_start", 1),
    ("Screenshot retention: ... (default: 2)", "keep_last_screenshots", 2),
    ("Think tag retention: ... (default: 2)", "keep_last_thinks", 2),
    ("Max steps per task: `AGENT_MAX_STEPS` (default: 10)", "max_steps", 10),
    ("Step delay: `AGENT_STEP_DELAY` (default: 0.4s)", "turn_delay", 0.4),
    ("5ms delay between key events", "char_input_delay", 0.005),
    ("80-120ms after actions", "ui_settle_delay", 0.1),
    ("Mouse wheel event (default 120 units)", "scroll_ticks", 1),
    ("HTTP Errors: Propagated urllib exceptions", "request_retries", 0),
    ("HTTP Errors: Propagated urllib exceptions", "model_failures", 0),
    ("Agent Loop: Max steps limit prevents infinite loops", "stall_stop", 0),
    ("If no tool calls: return final response", "verify_completion", False),
)


def shown(request: dict[str, Any], role: str) -> list[Message]:
    return [message for message in request["messages"] if message["role"] == role]


def pictures(request: dict[str, Any]) -> list[Message]:
    return [m for m in shown(request, "user") if isinstance(m["content"], list)]


def told(request: dict[str, Any]) -> dict[str, Any]:
    """What the model is told of its last call."""
    (*_, last) = shown(request, "tool")
    answer: dict[str, Any] = json.loads(last["content"])
    return answer


class Chat(EngineCase):
    @cached_property
    def exchange(self) -> Exchange:
        return Exchange(self, "chat", REPLIES)

    def test_the_settings_are_those_of_the_description(self) -> None:
        for line, name, value in SETTINGS:
            with self.subTest(line):
                self.assertEqual(getattr(self.exchange.config, name), value)

    def test_the_tools_are_the_described_ones_with_their_arguments_and_no_others(self) -> None:
        catalog = {  # "Tool Catalog"
            "observe_screen": set(),
            "click_element": {"label", "box"},
            "type_text": {"text"},
            "press_key": {"key"},
            "scroll_at_position": {"label", "box"},
        }
        request = self.exchange.requests[0]
        self.assertEqual(set(call_names(request)), catalog.keys())
        for name in ("observe_screen", "click_element", "type_text", "press_key"):
            self.assertEqual(arguments(request, name)[0], catalog[name], name)

    def test_each_request_is_that_of_the_described_protocol(self) -> None:
        # "Request: {model, messages, tools, tool_choice, temperature, max_tokens}"
        wanted = {"model", "messages", "tools", "tool_choice", "temperature", "max_tokens"}
        for request in self.exchange.requests:
            self.assertEqual(request.keys() - {"stream"}, wanted)
            self.assertEqual(request["tool_choice"], "auto")

    def test_the_first_request_holds_prompt_task_and_a_first_screenshot(self) -> None:
        # "Initialize conversation with system prompt and task prompt"
        # "Capture initial screenshot via `observe_screen` tool"
        messages = self.exchange.requests[0]["messages"]
        roles = [message["role"] for message in messages]
        self.assertEqual(roles, ["system", "user", "assistant", "tool", "user"])
        self.assertIn(TASK, messages[1]["content"])
        self.assertEqual(messages[2]["tool_calls"][0]["function"]["name"], "observe_screen")
        # "Separation of tool response (role=tool) and observation data (role=user with image)"
        kinds = [part["type"] for part in messages[4]["content"]]
        self.assertEqual(kinds, ["text", "image_url"])

    def test_the_prompt_tells_the_operating_protocol(self) -> None:
        # "operating protocol (observe -> think -> act -> verify), and rules"
        prompt = self.exchange.system(1)
        for words in ("observe_screen", "think", "ONE action", "verify", "[1000, 1000]"):
            self.assertIn(words, prompt)

    def test_words_without_a_call_are_the_end_and_nobody_judges_them(self) -> None:
        # "If no tool calls: return final response"; "Return stripped response (without think tags)"
        self.assertEqual(len(self.exchange.requests), len(REPLIES))
        self.assertEqual(set(self.exchange.roles), {"executor"})
        self.assertEqual(self.exchange.outcome[0], "completed")
        self.assertEqual(self.exchange.outcome[1], "The button was pressed with click_element.")

    def test_two_screenshots_and_two_thoughts_are_kept(self) -> None:
        # "Keep last N images, replace older with placeholder text"
        self.assertEqual([len(pictures(r)) for r in self.exchange.requests], [1, 1, *[2] * 7])
        fifth = self.exchange.requests[4]
        thoughts = [m["content"].count("in the middle") for m in shown(fifth, "assistant")]
        # "Keep last N assistant messages with tags, strip from older"
        self.assertEqual(thoughts, [0, 0, 0, 1, 1])

    def test_each_step_ends_in_the_described_delay(self) -> None:
        # "Sleep (step_delay)"
        times = self.exchange.times
        waits = [round(after - before, 3) for before, after in zip(times, times[1:], strict=False)]
        self.assertGreaterEqual(min(waits), 0.4)

    def test_a_click_is_in_the_middle_of_its_box_and_the_wheel_turns_one_notch(self) -> None:
        inputs = self.exchange.desktop.inputs
        self.assertIn(("wheel", -120, False), inputs)
        self.assertEqual(
            inputs[:3], [("move", 32, 18), ("button", "left", True), ("button", "left", False)]
        )

    def test_ten_steps_are_the_most(self) -> None:
        # "Max steps limit (configurable, default 10)"
        exchange = Exchange(self, "chat", [said("", "observe_screen")] * 11)
        self.assertEqual((len(exchange.requests), exchange.left), (10, 1))
        self.assertEqual(exchange.outcome[0], "max_steps")

    def test_each_wrong_call_has_the_described_type(self) -> None:
        # "Types: missing_label, missing_box, invalid_box, ..."
        replies = [said("", name, **given) for _, name, given in WRONG]
        exchange = Exchange(self, "chat", [*replies, text("End.")])
        for number, (kind, _, _) in enumerate(WRONG, 1):
            messages = exchange.requests[number]["messages"]
            answers = [m for m in messages if m["role"] in ("tool", "user")]
            (*_, last) = [m["content"] for m in answers if isinstance(m["content"], str)]
            answer = json.loads(last)
            # "`{ok: true, ...}` or `{ok: false, error: {...}}`"
            self.assertEqual((answer["ok"], answer["error"]["type"]), (False, kind))
        self.assertEqual(exchange.desktop.inputs, [])

    def test_excess_calls_are_rejected(self) -> None:
        # "Single tool call per step (enforced, excess calls rejected)"
        both = said("", "press_key", key="a")
        both["tool_calls"] += said("", "press_key", key="b")["tool_calls"]
        exchange = Exchange(self, "chat", [both, text("End.")])
        self.assertEqual(exchange.desktop.inputs, [("key", "a", True), ("key", "a", False)])
        self.assertEqual(told(exchange.requests[1])["error"]["type"], "too_many_tool_calls")

    def test_the_files_have_the_described_names_in_the_runs_folder(self) -> None:
        # "Sequential PNGs (screen_0001.png, screen_0002.png, ...)"
        names = [name for name in self.exchange.screenshots() if name.startswith("screen_")]
        self.assertEqual(names, [f"screen_000{number}.png" for number in range(1, 5)])
        # "Timestamped file (agent_run_YYYYMMDD_HHMMSS.log)"
        (log,) = self.exchange.folder.glob("agent_run_*.log")
        self.assertRegex(log.name, r"^agent_run_\d{8}_\d{6}\.log$")
        # "Sanitized requests (tools/prompts truncated, images summarized)"
        self.assertNotIn("iVBORw0KGgo", log.read_text("utf-8"))

    def test_what_is_kept_as_ours(self) -> None:
        # "Clamps to 0-1000 range", "ASCII only (non-ASCII stripped)": both kept as ours
        outside = said("", "click_element", label="Button", box=[1300, 500])
        umlaut = said("", "type_text", text="Käse")
        exchange = Exchange(self, "chat", [outside, umlaut, text("End.")])
        typed = "".join(event[1] for event in exchange.desktop.inputs if event[0] == "text")
        self.assertEqual(typed, "Käse")
        self.assertNotIn("button", {event[0] for event in exchange.desktop.inputs})


if __name__ == "__main__":
    unittest.main()
