"""The profiles chat and pointer with --described, point by point with the lines of their descriptions."""

from __future__ import annotations

import itertools
import json
import unittest
from functools import cached_property
from typing import Any

from tests.described.exchange import TASK, Exchange, has_what_is_described, replies_of, said
from tests.scripted import EngineCase, Message, text


def shown(request: dict[str, Any], role: str) -> list[Message]:
    return [message for message in request["messages"] if message["role"] == role]


def pictures(request: dict[str, Any]) -> list[Message]:
    return [m for m in shown(request, "user") if isinstance(m["content"], list)]


def told(request: dict[str, Any]) -> dict[str, Any]:
    """What the model is told of its last call."""
    messages = [m for m in request["messages"] if m["role"] in ("tool", "user")]
    (*_, last) = [m["content"] for m in messages if isinstance(m["content"], str)]
    answer: dict[str, Any] = json.loads(last)
    return answer


class Conversations(EngineCase):
    @cached_property
    def runs(self) -> dict[str, Exchange]:
        return {
            "chat": Exchange(self, "chat", replies_of("chat")),
            "pointer": Exchange(self, "pointer", replies_of("pointer")),
        }

    def test_each_has_the_described_tools_and_texts(self) -> None:
        """Tool Catalog; operating protocol (observe -> think -> act -> verify), and rules."""
        for profile, run in self.runs.items():
            has_what_is_described(self, profile, run)

    def test_each_request_is_that_of_the_described_protocol(self) -> None:
        """Request: {model, messages, tools, tool_choice, temperature, max_tokens}."""
        wanted = {"model", "messages", "tools", "tool_choice", "temperature", "max_tokens"}
        for run in self.runs.values():
            for request in run.requests:
                self.assertEqual(request.keys() - {"stream"}, wanted)
                self.assertEqual(request["tool_choice"], "auto")

    def test_chat_begins_with_prompt_task_and_a_first_screenshot(self) -> None:
        """Separation of tool response (role=tool) and observation data (role=user with image)."""
        run = self.runs["chat"]
        messages = run.requests[0]["messages"]
        roles = [message["role"] for message in messages]
        self.assertEqual(roles, ["system", "user", "assistant", "tool", "user"])
        self.assertIn(TASK, messages[1]["content"])
        self.assertEqual(messages[2]["tool_calls"][0]["function"]["name"], "observe_screen")
        kinds = [part["type"] for part in messages[4]["content"]]
        self.assertEqual(kinds, ["text", "image_url"])

    def test_pointer_sees_nothing_before_a_screenshot_is_asked_for(self) -> None:
        """{"type": "text", "text": "captured image data"}; file path and dimensions."""
        requests = self.runs["pointer"].requests
        roles = [message["role"] for message in requests[0]["messages"]]
        self.assertEqual(roles, ["system", "user"])
        self.assertEqual([len(pictures(one)) for one in requests], [0, 1, 1, 2, 2, 2, 2, 2])
        *_, answer, picture = requests[1]["messages"]
        self.assertEqual((answer["role"], answer["name"]), ("tool", "take_screenshot"))
        words, image = picture["content"]
        self.assertEqual(words, {"type": "text", "text": "captured image data"})
        self.assertTrue(image["image_url"]["url"].startswith("data:image/png;base64,"))
        of = told(requests[1])
        self.assertEqual((of["file"], of["size"]), ("screenshots/screen_0001.png", [1344, 756]))

    def test_two_screenshots_and_two_thoughts_are_kept(self) -> None:
        """Keep last N images, replace older; keep last N assistant messages with tags."""
        requests = self.runs["chat"].requests
        self.assertEqual([len(pictures(one)) for one in requests], [1, 1, *[2] * 7])
        thoughts = [m["content"].count("in the middle") for m in shown(requests[4], "assistant")]
        self.assertEqual(thoughts, [0, 0, 0, 1, 1])

    def test_words_without_a_call_are_the_end_and_nobody_judges_them(self) -> None:
        """If no tool calls: return final response, stripped (without think tags)."""
        for profile, end in (
            ("chat", "The button was pressed with click_element."),
            ("pointer", "The cursor is in the middle."),
        ):
            run = self.runs[profile]
            self.assertEqual((run.left, set(run.roles)), (0, {"executor"}))
            self.assertEqual(run.outcome, ("completed", end))

    def test_ten_steps_are_the_most_and_each_ends_in_the_described_delay(self) -> None:
        """Max steps limit (configurable, default 10); Sleep (step_delay)."""
        for profile, look in (("chat", "observe_screen"), ("pointer", "take_screenshot")):
            run = Exchange(self, profile, [said("", look)] * 11)
            self.assertEqual((run.left, run.outcome[0]), (1, "max_steps"))
            least = min(after - before for before, after in itertools.pairwise(run.times))
            self.assertGreaterEqual(round(least, 3), 0.4)

    def test_the_mouse_clicks_in_the_middle_of_its_box_and_the_wheel_turns_one_notch(self) -> None:
        """Left-clicks at current cursor position; wheel scroll down (-120 delta)."""
        click = [("move", 32, 18), ("button", "left", True), ("button", "left", False)]
        for run in self.runs.values():
            events = [e for e in run.desktop.inputs if e[0] in ("move", "button", "wheel")]
            self.assertEqual((events[:3], events[-1]), (click, ("wheel", -120, False)))

    def test_of_several_calls_chat_performs_the_first_and_pointer_none(self) -> None:
        """Excess calls rejected; pointer: if multiple tool_calls -> error (only 1 allowed)."""
        pressed = [("key", "a", True), ("key", "a", False)]
        for profile, first, more, done in (
            ("chat", said("", "press_key", key="a"), said("", "press_key", key="b"), pressed),
            ("pointer", said("", "click_mouse"), said("", "scroll_down"), []),
        ):
            both = {**first, "tool_calls": first["tool_calls"] + more["tool_calls"]}
            run = Exchange(self, profile, [both, text("End.")])
            self.assertEqual(run.desktop.inputs, done)
            self.assertEqual(told(run.requests[1])["error"]["type"], "too_many_tool_calls")

    def test_the_files_have_the_described_names_in_the_runs_folder(self) -> None:
        """screen_0001.png, screen_0002.png, ...; agent_run_YYYYMMDD_HHMMSS.log."""
        run = self.runs["chat"]
        names = [name for name in run.screenshots() if name.startswith("screen_")]
        self.assertEqual(names, [f"screen_000{number}.png" for number in range(1, 5)])
        (log,) = run.folder.glob("agent_run_*.log")
        self.assertRegex(log.name, r"^agent_run_\d{8}_\d{6}\.log$")
        # "Sanitized requests (tools/prompts truncated, images summarized)"
        self.assertNotIn("iVBORw0KGgo", log.read_text("utf-8"))


if __name__ == "__main__":
    unittest.main()
