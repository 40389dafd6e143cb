"""The names of keys in pyautogui and X11, in which models were trained, are the keys that they mean."""

from __future__ import annotations

import unittest

import agent


class KeySpellings(unittest.TestCase):
    def test_keys_of_one_side_are_known_by_the_names_of_pyautogui_and_x11(self) -> None:
        for written, meant in (
            ("winleft+r", "win+r"),
            ("Super_L", "win"),
            ("ctrlleft+s", "ctrl+s"),
            ("Control_L+s", "ctrl+s"),
            ("shiftleft+tab", "shift+tab"),
            ("Alt_L+f4", "alt+f4"),
            ("altright", "ralt"),
            ("winright", "rwin"),
            ("KP_Enter", "enter"),
        ):
            with self.subTest(written):
                self.assertEqual("+".join(agent.parse_chord(written)), meant)

    def test_a_blocked_chord_is_blocked_by_all_its_names(self) -> None:
        self.assertEqual(agent.parse_chord("winleft+l"), agent.parse_chord("win+l"))


if __name__ == "__main__":
    unittest.main()
