"""Arguments as small models fill them: blanks for what is left out, one text for a list of one, and what they are told."""

from __future__ import annotations

import json
import unittest
from typing import Any

import agent
from tests.scripted import call, text

PLANNER = agent.PROFILES["planner"]
TOOLS = PLANNER.vocabulary


def read(name: str, /, **arguments: Any) -> dict[str, Any]:
    """The arguments of a call as they are read."""
    return agent.read_call(call(name, **arguments), "stop", TOOLS).call.arguments


def told(message: dict[str, Any]) -> str:
    """What the model is told of a reply that cannot be read."""
    try:
        agent.read_call(message, "stop", TOOLS)
    except agent.ReplyError as error:
        return agent.correction(error, TOOLS)
    raise AssertionError("it was read")


class Boxes(unittest.TestCase):
    def test_four_numbers_that_are_no_box_of_two_corners_are_no_place(self) -> None:
        """They may as well be x, y, width and height."""
        for numbers in ([300, 300, 100, 400], [300, 300, 400, 100], [300, 300, 299, 299]):
            with self.assertRaises(agent.ReplyError):
                read("click_screen_element", element_name="x", position=numbers)
        place = read("click_screen_element", element_name="x", position=[300, 300, 400, 500])
        self.assertEqual(place["position"], [350, 400])


class Blanks(unittest.TestCase):
    def test_what_may_be_left_out_may_be_left_empty(self) -> None:
        for blank in ("", [], None):
            with self.subTest(blank=blank):
                typed = read("type_text_input", text="a", position=blank, clear=blank, submit=blank)
                self.assertEqual(typed, {"text": "a"})
                self.assertEqual(
                    read("press_keyboard_key", key="enter", then=blank), {"key": "enter"}
                )

    def test_what_is_needed_is_not(self) -> None:
        for blank in ("", []):
            with self.subTest(blank=blank), self.assertRaises(agent.ReplyError) as caught:
                read("click_screen_element", element_name="x", position=blank)
            self.assertEqual(caught.exception.kind, "invalid_box")

    def test_one_text_is_a_list_of_one(self) -> None:
        self.assertEqual(read("press_keyboard_key", key="ctrl+s", then="enter")["then"], ["enter"])
        plan = read("update_execution_plan", instructions="Go.", done_when="It is [saved].")
        self.assertEqual(plan["done_when"], ["It is [saved]."])

    def test_one_number_is_no_list(self) -> None:
        with self.assertRaises(agent.ReplyError):
            read("archive_completed_actions", summary="x", archived_turns=3)


class Told(unittest.TestCase):
    def test_a_range_is_told(self) -> None:
        self.assertIn("a whole number from 1 to 60", told(call("wait", seconds=100)))

    def test_a_list_of_texts_is_told_as_one(self) -> None:
        wrong = call("update_execution_plan", instructions="Go.", done_when={"a": 1})
        self.assertIn('["one", "two"]', told(wrong))

    def test_a_call_among_words_is_told_to_come_alone(self) -> None:
        body = json.dumps({"name": "press_keyboard_key", "arguments": {"key": "enter"}})
        for said in (f"NEXT_STEP: enter\n```json\n{body}\n```", f"Action: {body}"):
            self.assertIn("among other words; send it alone", told(text(said)))
        self.assertIn("holds no tool call", told(text("I press enter.")))


if __name__ == "__main__":
    unittest.main()
