"""What a model is told of a call that lacks its end, whether or not a limit has cut it."""

from __future__ import annotations

import unittest

import agent

TOOLS = agent.PROFILES["planner"].vocabulary
XML = "<function=press_keyboard_key><parameter=key>enter"


class Incomplete(unittest.TestCase):
    def told(self, content: str, finish_reason: str) -> str:
        with self.assertRaises(agent.ReplyError) as caught:
            agent.read_call({"content": content}, finish_reason, TOOLS)
        return agent.correction(caught.exception, TOOLS)

    def test_only_a_reply_that_a_limit_cut_is_told_to_be_brief(self) -> None:
        for content in (XML, XML + "</parameter>", '<tool_call>{"name": "press_keyboard_key'):
            with self.subTest(content):
                self.assertIn("Be brief", self.told(content, "length"))
                self.assertNotIn("Be brief", self.told(content, "stop"))

    def test_what_a_call_lacks_is_named(self) -> None:
        lacks = {
            "<tool_call>{'name': 'press_keyboard_key', 'arguments': {'key': 'en": "JSON does not end",
            XML: "has no </parameter>",
            XML + "</parameter>": "has no </function>",
            XML + "</parameter>now</function>": "more than parameters",
        }
        for content, words in lacks.items():
            with self.subTest(content):
                self.assertIn(words, self.told(content, "stop"))

    def test_an_escaped_apostrophe_in_a_text_in_double_quotes_is_one(self) -> None:
        content = (
            """<tool_call>{"name": "press_keyboard_key", "arguments": {"key": "\\'"}}</tool_call>"""
        )
        act = agent.read_call({"content": content}, "stop", TOOLS)
        self.assertEqual(act.call.arguments, {"key": "'"})


if __name__ == "__main__":
    unittest.main()
