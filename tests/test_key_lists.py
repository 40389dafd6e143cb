"""That a list of keys is read as the chord that it is, and only where it is one."""

from __future__ import annotations

import unittest

import agent
from tests.scripted import call
from tests.seams import chord as keys_of

TOOLS = agent.PROFILES["chat"].vocabulary


def pressed(key: object) -> str:
    """The chord of a call as the actuator takes it; raises ToolError."""
    act = agent.read_call(call("press_key", key=key), "tool_calls", TOOLS)
    keys = act.call.arguments["key"]
    assert isinstance(keys, str)
    return "+".join(keys_of(keys))


class KeyLists(unittest.TestCase):
    def test_a_list_of_keys_is_their_chord(self) -> None:
        lists = {
            ("ctrl", "s"): "ctrl+s",
            ("s", "Ctrl"): "ctrl+s",
            ("Control", "Shift", "Page Up"): "ctrl+shift+pageup",
            ("enter",): "enter",
            ("ctrl", "+"): keys_of("ctrl++")[0] + "+" + keys_of("ctrl++")[1],
        }
        for keys, chord in lists.items():
            with self.subTest(keys):
                self.assertEqual(pressed(list(keys)), chord)

    def test_a_list_that_is_no_chord_is_refused(self) -> None:
        for keys in (["a", "b"], ["ctrl", "nonsense"], ["ctrl", 5], ["ctrl+a", "x"], [["ctrl"]]):
            with self.subTest(keys), self.assertRaises(agent.ToolError):
                pressed(keys)

    def test_a_list_is_no_text_to_type(self) -> None:
        message = call("type_text", text=["ctrl", "s"])
        with self.assertRaises(agent.ReplyError):
            agent.read_call(message, "tool_calls", TOOLS)


if __name__ == "__main__":
    unittest.main()
