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


if __name__ == "__main__":
    unittest.main()
