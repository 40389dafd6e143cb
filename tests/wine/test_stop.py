"""Stopping, pausing and taking over on a real Win32 desktop: the person's keys and mouse come from xdotool."""

from __future__ import annotations

import threading
import time
import unittest

from tests.scripted import call
from tests.wine.model import Scripted
from tests.wine.rig import Program, RunCase, until

# From the call of xdotool to the end of the run. An idle machine takes less than 0.1 s, a busy one takes over 1 s; each
# of these acts and requests would go on for 6 s or more. What the program itself takes is asked by tests.test_stop.
SOON_S = 5.0
ONE_AND_TWO = [call("type_text_input", text=word) for word in ("one", "two")]


class Hanging(Scripted):
    """Its executor's reply does not come before the test is over."""

    def __init__(self, case: unittest.TestCase) -> None:
        super().__init__((), self.wait)
        self.asked_for, self.over = threading.Event(), threading.Event()
        case.addCleanup(self.over.set)

    def wait(self, number: int) -> None:
        self.asked_for.set()
        self.over.wait(60)

    def until_asked(self, program: Program) -> None:
        if not self.asked_for.wait(60):
            raise AssertionError(program.text)


class Interrupted(RunCase):
    def count(self, name: str) -> int:
        return len(self.window.events(name))

    def stopped(self, program: Program, pressed: float) -> None:
        """The program ended by the hotkey soon after it was pressed, with a whole journal."""
        code, output = program.finish(60)
        self.assertEqual(code, 130, output)
        self.assertIn("stopped: ctrl+alt+backspace.", output)
        self.assertEqual(self.ended()[0], "stopped")
        self.assertLess(self.desktop.journal()[-1]["time"] - pressed, SOON_S)

    def test_stopped_while_5000_characters_are_typed(self) -> None:
        text = "".join(f"{number} words of a long text. " for number in range(300))[:5000]
        before = self.count("WM_CHAR")
        with Scripted([call("type_text_input", text=text)]) as model:
            # No faster than it is drawn.
            program = self.start(model, "text_batch_events=10", "char_input_delay=0.1")
            until("some of it was typed", lambda: self.count("WM_CHAR") > before + 200)
            self.stopped(program, self.hotkey("ctrl+alt+backspace"))
        # What arrives while ctrl and alt are held for the hotkey is no plain text to the edit control.
        typed = "".join(character for character in self.window.text() if ord(character) < 128)
        self.assertTrue(text.startswith(typed) and 100 < len(typed) < 4900, typed[-80:])

    def test_stopped_during_a_drag_which_lets_go(self) -> None:
        start, over = self.window.place("area", 0.2, 0.2), self.window.place("area", 0.8, 0.8)
        downs, ups = self.count("WM_LBUTTONDOWN"), self.count("WM_LBUTTONUP")
        drag = call("drag_screen_element", element_name="area", start=start, end=over)
        with Scripted([drag]) as model:
            program = self.start(model, "drag_steps=500")
            until("the button is down", lambda: self.count("WM_LBUTTONDOWN") > downs)
            moves = self.count("WM_MOUSEMOVE")
            until("it drags", lambda: self.count("WM_MOUSEMOVE") > moves)
            self.stopped(program, self.hotkey("ctrl+alt+backspace"))
        self.window.order("nothing")  # obeyed once all input was worked off
        self.assertEqual(self.count("WM_LBUTTONUP"), ups + 1)

    def test_stopped_while_a_request_hangs_by_the_hotkey_or_the_mouse_in_the_corner(self) -> None:
        with Hanging(self) as model:
            program = self.start(model)
            model.until_asked(program)
            self.stopped(program, self.hotkey("ctrl+alt+backspace"))
        with Hanging(self) as model:
            program = self.start(model)
            model.until_asked(program)
            self.mouse(0, 0)
            code, output = program.finish(60)
        self.assertEqual(code, 130, output)
        self.assertIn("stopped: the mouse in the corner.", output)

    def test_paused_by_the_hotkey_until_it_is_pressed_again(self) -> None:
        def press(number: int) -> None:
            if number == 1:
                self.hotkey("ctrl+alt+insert")

        with Scripted(ONE_AND_TWO, press) as model:
            program = self.start(model, "takeover_quiet=0")
            # An act asks for its controls before it waits, which takes seconds on a busy machine.
            told = "paused: until ctrl+alt+insert is pressed again"
            until("it is paused", lambda: told in program.text, 120)
            time.sleep(3)
            self.assertNotIn("going on", program.text)
            again = self.hotkey("ctrl+alt+insert")
            code, output = program.finish(120)
        self.assertEqual((code, model.errors), (0, []), output)
        self.assertIn("going on", output)
        # The first act waited, and then needed a new look.
        self.assertEqual(self.window.text(), "two")
        self.assertGreater(self.window.events("WM_CHAR")[-3]["time"], again)

    def test_paused_by_the_person_at_the_mouse_who_makes_it_look_again(self) -> None:
        def move(number: int) -> None:
            if number == 1:
                time.sleep(1)
                for x in range(1500, 1700, 20):
                    self.mouse(x, 300)

        with Scripted(ONE_AND_TWO, move) as model:
            output = self.completed(model, "takeover_quiet=4")
        self.assertRegex(output, r"(?s)paused: mouse or keyboard is in use.*going on")
        self.assertEqual(self.window.text(), "two")
        results = self.results()
        self.assertEqual(results[0], "Not done: The run was paused.")
        self.assertRegex("".join(results[1:]), "^Typed: two")

    def test_not_paused_with_nobody_there(self) -> None:
        click = call(
            "click_screen_element", element_name="area", position=self.window.place("area")
        )
        others = [call("type_text_input", text="hello"), call("press_keyboard_key", key="ctrl+a")]
        with Scripted([click, click, *others]) as model:
            self.assertNotIn("paused", self.completed(model))


if __name__ == "__main__":
    unittest.main()
