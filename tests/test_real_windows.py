"""What other people's Windows did to programs that automate it, each as a simulated Windows does it.

The classes are the kinds of it; the situations were reported in public by people who automate Windows.
"""

from __future__ import annotations

import unittest

from tests.test_actuator import Stage

# Signs of the keys of some keyboards, and what VkKeyScanEx answers: the key's code, and 0x100 with shift, 0x600 with
# AltGr.
US = "= BB / BF ] DD [ DB 7 37 1 31 . BE ; BA , BC - BD ? 1BF ! 131 & 137 + 1BB * 138 A 141 a 41 k 4B q 51 ' DE ~ 1C0"
KEYBOARDS = {
    "US": US,
    "German": "= 130 / 137 ] 639 [ 638 7 37 1 31 . BE , BC ; 1BC - BD ? 1DB + BB ! 131 & 136 * 1BB A 141 a 41 k 4B q 51",
    "French": "= BB / 1BF ] 6DB [ 635 7 137 1 131 . 1BE , BC ; BE - 36 ? 1BC + 1BB ! DF & 31 * DC A 141 a 41 k 4B q 51",
    "Russian": "= BB / 1DC 7 37 1 31 . BF , 1BF ; 134 - BD ? 137 + 1BB ! 131 * 138",
    "unknown": "",
}


class Keyboards(unittest.TestCase):
    """A key that is one sign types that sign, whatever the keyboard."""

    def typed(self, keyboard: str, key: str) -> str:
        """What comes of a key in a field: its text, or that of a key on this keyboard."""
        stage = Stage(keyboard=keyboard)
        stage.do("press_key", key=key)
        stage.world.verify()
        signs = {code: sign for sign, code in zip(*[iter(keyboard.split())] * 2, strict=True)}
        downs = [event for event in stage.world.events if event.kind == "key" and event.down]
        shift = 0x100 * (0x10 in [event.value for event in downs])
        keys = [f"{event.value | shift:X}" for event in downs if event.value != 0x10]
        return stage.world.typed + "".join(signs.get(code, f"<{code}>") for code in keys)

    def test_a_lone_sign_digit_or_letter_is_typed_as_it_is(self) -> None:
        for name, keyboard in KEYBOARDS.items():
            for key, sign in (
                *((sign, sign) for sign in "=/][71.;,-'`a?!*~&k"),
                *(
                    ("equals", "="),
                    ("slash", "/"),
                    ("bracketright", "]"),
                    ("A", "a"),
                    ("shift+a", "A"),
                ),
                *(
                    ("shift+=", "+"),
                    ("shift+7", "&"),
                    ("shift+?", "?"),
                    ("Shift+/", "?"),
                    ("q", "q"),
                ),
            ):
                self.assertEqual(self.typed(keyboard, key), sign, (name, key))

    def test_where_the_keyboard_has_that_key_it_is_a_key_since_programs_take_some_for_commands(
        self,
    ) -> None:
        for key in ("k", "/", "?", "7", "shift+a"):
            stage = Stage(keyboard=US)
            stage.do("press_key", key=key)
            self.assertEqual({event.kind for event in stage.world.events}, {"key"}, key)

    def test_a_sign_whose_key_waits_for_a_letter_is_never_pressed_as_a_key(self) -> None:
        for key in ("'", "~", "`", '"', "^"):
            stage = Stage(
                keyboard="' DE ~ 1C0 ` C0 \" 1DE ^ 136"
            )  # as a US-International one answers
            stage.do("press_key", key=key)
            self.assertEqual(
                ({event.kind for event in stage.world.events}, stage.world.typed), ({"unit"}, key)
            )

    def test_a_chord_is_of_keys_by_which_programs_know_it_in_all_countries(self) -> None:
        for keyboard in KEYBOARDS.values():
            for chord, codes in (
                ("ctrl+=", [0x11, 0xBB]),
                ("ctrl+/", [0x11, 0xBF]),
                ("ctrl+?", [0x11, 0x10, 0xBF]),
                ("alt+f", [0x12, 0x46]),
                ("ctrl+1", [0x11, 0x31]),
            ):
                stage = Stage(keyboard=keyboard)
                stage.do("press_key", key=chord)
                downs = [event.value for event in stage.world.events if event.down]
                self.assertEqual(downs, codes, chord)


if __name__ == "__main__":
    unittest.main()
