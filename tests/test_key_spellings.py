"""The names of keys in pyautogui and X11, in which models were trained, are the keys that they mean."""

from __future__ import annotations

import unittest

from tests.seams import chord


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
                self.assertEqual("+".join(chord(written)), meant)

    def test_a_blocked_chord_is_blocked_by_all_its_names(self) -> None:
        self.assertEqual(chord("winleft+l"), chord("win+l"))


if __name__ == "__main__":
    unittest.main()
