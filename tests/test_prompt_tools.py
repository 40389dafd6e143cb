"""That what a model reads fits the tools and the grammar that it has."""

from __future__ import annotations

import unittest

import agent


class Prompts(unittest.TestCase):
    def test_no_prompt_names_a_keyboard_that_its_profile_lacks(self) -> None:
        named = []
        for profile in agent.PROFILES.values():
            role = profile.roles["executor"]
            if "keyboard" in profile.system(role) and profile.loop == "chat":
                named.append(profile.name)
        self.assertEqual(named, ["chat"])
        self.assertNotIn("press_key", agent.PROFILES["pointer"].vocabulary.tools)

    def test_the_chats_say_the_same_of_what_failed_but_for_the_ways_they_have(self) -> None:
        chat, pointer = (
            agent.PROFILES[name].system(agent.PROFILES[name].roles["executor"])
            for name in ("chat", "pointer")
        )
        self.assertIn("another way: keyboard, Start menu.", chat)
        self.assertIn("another way: another element, the Start menu.", pointer)


class Missing(unittest.TestCase):
    def test_a_wait_without_its_time_is_asked_for_it_where_no_document_has_a_default(self) -> None:
        said = (
            '<tool_call>\n{"name": "computer_use", "arguments": {"action": "wait"}}\n</tool_call>'
        )
        with self.assertRaises(agent.ReplyError) as caught:
            agent.GRAMMARS["qwen3-vl"].read({"content": said}, "stop", (1536, 864))
        self.assertEqual(
            str(caught.exception), "wait lacks its time, which is a number of seconds."
        )
        call = agent.GRAMMARS["gui-owl-1.5"].read({"content": said}, "stop", (1536, 864))
        self.assertEqual(call.arguments, {"seconds": 2})  # as its own executor does


if __name__ == "__main__":
    unittest.main()
