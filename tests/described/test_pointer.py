"""The profile pointer with --described against its description, a row a point with its line."""

from __future__ import annotations

import unittest
from functools import cached_property

from tests.described.exchange import Exchange, arguments, call_names, said
from tests.described.test_chat import pictures, shown, told
from tests.scripted import EngineCase, text

REPLIES = [
    said("", "take_screenshot"),
    said("", "move_mouse", x=500, y=500),
    said("", "take_screenshot"),
    said("", "click_mouse"),
    said("", "type_text", text="hello"),
    said("", "scroll_down"),
    said("", "take_screenshot"),
    text("The cursor is in the middle."),
]

SETTINGS = (
    ("LMSTUDIO_TIMEOUT=240", "lmstudio_timeout", 240),
    ("LMSTUDIO_TEMPERATURE=0.2", "lmstudio_temperature", 0.2),
    ("LMSTUDIO_MAX_TOKENS=2048", "executor_max_tokens", 2048),
    ("AGENT_IMAGE_W=1344", "screen_capture_w", 1344),
    ("AGENT_IMAGE_H=756", "screen_capture_h", 756),
    ("AGENT_DUMP_PREFIX=screen_", "dump_prefix", "screen_"),
    ("AGENT_DUMP_START=1", "dump_start", 1),
    ("AGENT_KEEP_LAST_SCREENSHOTS=2", "keep_last_screenshots", 2),
    ("Remove old screenshot data from messages", "keep_last_screenshots", 2),
    ("AGENT_MAX_STEPS=10", "max_steps", 10),
    ("AGENT_STEP_DELAY=0.4", "turn_delay", 0.4),
    ("Sleep 0.06 seconds", "ui_settle_delay", 0.06),
    ("Scrolls down one wheel notch", "scroll_ticks", 1),
    ("LLM errors ... Raise exception, let main.py handle", "request_retries", 0),
    ("If no tool_calls -> return final response (DONE)", "verify_completion", False),
)


class Pointer(EngineCase):
    @cached_property
    def exchange(self) -> Exchange:
        return Exchange(self, "pointer", REPLIES)

    def test_the_settings_are_those_of_the_description(self) -> None:
        for line, name, value in SETTINGS:
            with self.subTest(line):
                self.assertEqual(getattr(self.exchange.config, name), value)

    def test_the_tools_are_the_described_ones_with_their_arguments_and_no_others(self) -> None:
        table = {  # "Available Tools"
            "take_screenshot": set[str](),
            "move_mouse": {"x", "y"},
            "click_mouse": set(),
            "type_text": {"text"},
            "scroll_down": set(),
        }
        request = self.exchange.requests[0]
        self.assertEqual(set(call_names(request)), table.keys())
        for name, wanted in table.items():
            self.assertEqual(arguments(request, name)[0], wanted, name)

    def test_nothing_is_seen_before_a_screenshot_is_asked_for(self) -> None:
        # 'messages = [{"role": "system", ...}, {"role": "user", ...}'
        roles = [message["role"] for message in self.exchange.requests[0]["messages"]]
        self.assertEqual(roles, ["system", "user"])
        counts = [len(pictures(request)) for request in self.exchange.requests]
        self.assertEqual(counts, [0, 1, 1, 2, 2, 2, 2, 2])

    def test_a_screenshot_is_a_text_and_an_image_behind_the_answer(self) -> None:
        # '{"type": "text", "text": "captured image data"}'
        *_, answer, picture = self.exchange.requests[1]["messages"]
        self.assertEqual((answer["role"], answer["name"]), ("tool", "take_screenshot"))
        words, image = picture["content"]
        self.assertEqual(words, {"type": "text", "text": "captured image data"})
        self.assertTrue(image["image_url"]["url"].startswith("data:image/png;base64,"))
        # "Build tool_msg with file path and dimensions"
        told_of = told(self.exchange.requests[1])
        self.assertEqual(told_of["file"], "screenshots/screen_0001.png")
        self.assertEqual(told_of["size"], [1344, 756])

    def test_the_mouse_moves_clicks_and_scrolls_where_it_is(self) -> None:
        events = [event for event in self.exchange.desktop.inputs if event[0] != "text"]
        self.assertEqual(
            events,
            [
                ("move", 32, 18),
                ("button", "left", True),  # "Left-clicks at current cursor position"
                ("button", "left", False),
                ("wheel", -120, False),  # "Send wheel scroll down (-120 delta)"
            ],
        )

    def test_words_without_a_call_are_the_end_and_nobody_judges_them(self) -> None:
        self.assertEqual(len(self.exchange.requests), len(REPLIES))
        self.assertEqual(self.exchange.outcome[0], "completed")
        self.assertEqual(self.exchange.outcome[1], "The cursor is in the middle.")

    def test_ten_steps_are_the_most(self) -> None:
        exchange = Exchange(self, "pointer", [said("", "take_screenshot")] * 11)
        self.assertEqual((len(exchange.requests), exchange.left), (10, 1))

    def test_several_calls_in_one_reply_are_an_error_and_none_is_performed(self) -> None:
        # "If multiple tool_calls -> error (only 1 allowed)"
        both = said("", "click_mouse")
        both["tool_calls"] += said("", "scroll_down")["tool_calls"]
        exchange = Exchange(self, "pointer", [both, text("End.")])
        self.assertEqual(exchange.desktop.inputs, [])
        answers = shown(exchange.requests[1], "tool")
        self.assertEqual(len(answers), 2)
        for answer in answers:
            self.assertIn("too_many_tool_calls", answer["content"])

    def test_bad_arguments_are_invalid_arguments(self) -> None:
        # '{"ok": false, "error": {"type": "invalid_arguments", "message": "..."}}'
        for given in ({"x": 5}, {"x": "left", "y": 5}, {"x": 5, "y": 1300}):
            with self.subTest(given):
                replies = [said("", "move_mouse", **given), text("End.")]
                exchange = Exchange(self, "pointer", replies)
                answer = told(exchange.requests[1])
                self.assertEqual(answer["ok"], False)
                self.assertEqual(answer["error"].keys(), {"type", "message"})
                self.assertEqual(answer["error"]["type"], "invalid_arguments")
                # clamping is kept as ours: what is off the grid is refused
                self.assertEqual(exchange.desktop.inputs, [])


if __name__ == "__main__":
    unittest.main()
