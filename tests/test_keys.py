"""Keys as people, other programs and models write them: which chord is meant, and what is none."""

from __future__ import annotations

import unittest

import agent
from tests.scripted import call
from tests.seams import VK_MAP, chord

TOOLS = agent.PROFILES["chat"].vocabulary
# A chord by its own name, and what else it is called: by people, in the documentation of pyautogui and X11, by models.
CHORDS = {
    "ctrl": "control | strg",
    "lctrl": "lcontrol",
    "rctrl": "ctrlright | rcontrol",
    "ralt": "altgr | altright",
    "win": "windows | super | meta | cmd | command | lwin | Super_L",
    "rwin": "winright",
    "escape": "esc",
    "enter": "return | ret | kpenter | KP_Enter",
    "backspace": "back",
    "delete": "del",
    "insert": "ins",
    "pageup": "pgup | prior | page_up | page-up",
    "pagedown": "pgdn | next | PageDown | Page Down",
    "left": "ArrowLeft | arrow_left",
    "down": "downarrow",
    "printscreen": "prtsc | snapshot",
    "capslock": "caps_lock",
    "numadd": "plus | add | +",
    "-": "minus",
    ".": "period | dot",
    "num7": "numpad7",
    "f12": "F12",
    "ctrl+s": "ctrlleft+s | Control_L+s | Ctrl - s",
    "ctrl+shift+s": "Ctrl+Shift+S |  CTRL + shift + s  | control+SHIFT+s | ctrl-shift-s | ctrl shift s",
    "shift+ctrl+s": "s+shift+ctrl",
    "shift+tab": "shiftleft+tab",
    "alt+f4": "Alt_L+f4 | alt-f4",
    "alt+left": "alt - left",
    "win+l": "winleft+l | win - l",  # so that a blocked chord is blocked by all its names
    "ctrl+c": "ctrl+control+c | ctrl-c",
    "ctrl+shift": "control+shift",
    "ctrl+numadd": "ctrl++ | ctrl + + | ctrl+plus",
    "ctrl+-": "ctrl-- | ctrl+minus",
    "ctrl+=": "control+=",
    "ctrl+pageup": "ctrl+page-up",
    "ctrl+\\": "control+\\",
}


def pressed(key: object) -> str:
    """The chord of a model's call, as the actuator takes it; raises ToolError."""
    act = agent.read_call(call("press_key", key=key), "tool_calls", TOOLS)
    return "+".join(chord(str(act.call.arguments["key"])))


class Keys(unittest.TestCase):
    def refusal(self, text: str) -> str:
        with self.assertRaises(agent.ToolError) as caught:
            chord(text)
        self.assertEqual(caught.exception.kind, "invalid_key")
        self.assertRegex(str(caught.exception), r"^[^\n]*\.$")
        return str(caught.exception)

    def test_a_chord_is_the_same_by_all_its_names(self) -> None:
        for keys, names in CHORDS.items():
            for name in [keys, *names.split(" | ")]:
                with self.subTest(name):
                    self.assertEqual("+".join(chord(name)), keys)
        self.assertEqual((chord(" "), chord("ctrl+space")), (("space",), ("ctrl", "space")))

    def test_every_key_of_the_table_is_a_chord_of_its_own(self) -> None:
        wanted = "apps numpad9 lshift volumeup playpause a Z 0 ; = , / [ ] comma slash ` ' \\"
        for name in [*VK_MAP, *wanted.split()]:
            self.assertEqual(len(chord(name)), 1, name)
            self.assertEqual(chord(f"ctrl+{name}")[-1], chord(name)[0])

    def test_what_is_no_key_is_refused_by_name(self) -> None:
        signs = "kaboom|ctrl+s+|+s|ctrl+|ctrl-|ctrl -|++||\n|f25|ctrl++s|é|Hello|+++"
        for text in signs.split("|"):
            self.assertIn(f"no key {text!r};", self.refusal(text))
        self.assertIn("no key 'foo';", self.refusal("ctrl+foo"))
        self.assertLess(len(self.refusal("e" + "[" * 2000)), 120)
        for text in ("a+b", "ctrl+k+c", "enter+tab", "up up"):
            self.assertIn("names 2 keys at once", self.refusal(text))

    def test_a_list_of_keys_is_their_chord_and_another_list_is_refused(self) -> None:
        for keys, wanted in (
            (["s", "Ctrl"], "ctrl+s"),
            (["Control", "Shift", "Page Up"], "ctrl+shift+pageup"),
            (["enter"], "enter"),
            (["ctrl", "+"], "ctrl+numadd"),
        ):
            self.assertEqual(pressed(keys), wanted)
        for keys in (["a", "b"], ["ctrl", "nonsense"], ["ctrl", 5], ["ctrl+a", "x"], [["ctrl"]]):
            with self.subTest(keys), self.assertRaises(agent.ToolError):
                pressed(keys)


if __name__ == "__main__":
    unittest.main()
