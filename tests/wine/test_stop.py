"""Stopping, pausing and taking over on a real Win32 desktop: the person's keys and mouse come from xdotool."""

from __future__ import annotations

import json
import re
import threading
import time
import unittest
import urllib.error
import urllib.request
from typing import Any

from tests.scripted import call
from tests.wine.model import Scripted
from tests.wine.rig import AGENT, Program, RunCase, until, windows_path

# From the call of xdotool to the end of the run. An idle machine takes less than 0.1 s, a busy one takes over 1 s; each
# of these acts and requests would go on for 6 s or more. What the program itself takes is asked by tests.test_stop.
SOON_S = 5.0
ONE_AND_TWO = [call("type_text_input", text=word) for word in ("one", "two")]
# The program as it is, which first leaves its process id, as Windows has it, in a file.
STARTED = (
    "import os, runpy, sys; open('process_id', 'w').write(str(os.getpid()));"
    " sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


class Hanging(Scripted):
    """Its executor's replies of these numbers come when they are let go, or when the test is over."""

    def __init__(
        self, case: unittest.TestCase, calls: Any = (), numbers: tuple[int, ...] = (1,)
    ) -> None:
        super().__init__(calls, self.wait)
        self.asked_for = {number: threading.Event() for number in numbers}
        self.let_go = {number: threading.Event() for number in numbers}
        for event in self.let_go.values():
            case.addCleanup(event.set)

    def wait(self, number: int) -> None:
        if number in self.asked_for:
            self.asked_for[number].set()
            self.let_go[number].wait(60)

    def until_asked(self, program: Program, number: int = 1) -> None:
        if not self.asked_for[number].wait(60):
            raise AssertionError(program.text)


class Interrupted(RunCase):
    def count(self, name: str) -> int:
        return len(self.window.events(name))

    def stopped(self, program: Program, pressed: float) -> None:
        """The program ended by the hotkey soon after it was pressed, with a whole journal."""
        code, output = program.finish(60)
        self.assertEqual(code, 130, output)
        self.assertIn("stopped: ctrl+alt+q.", output)
        self.assertEqual(self.ended()[0], "stopped")
        self.assertLess(self.desktop.journal()[-1]["time"] - pressed, SOON_S)

    def test_stopped_while_5000_characters_are_typed(self) -> None:
        text = "".join(f"{number} words of a long text. " for number in range(300))[:5000]
        before = self.count("WM_CHAR")
        with Scripted([call("type_text_input", text=text)]) as model:
            # No faster than it is drawn.
            program = self.start(model, "text_batch_events=10", "char_input_delay=0.1")
            until("some of it was typed", lambda: self.count("WM_CHAR") > before + 200)
            self.stopped(program, self.hotkey("ctrl+alt+q"))
        # What arrives while ctrl and alt are held for the hotkey is no plain text to the edit control.
        typed = "".join(character for character in self.window.text() if ord(character) < 128)
        self.assertTrue(text.startswith(typed) and 100 < len(typed) < 4900, typed[-80:])

    def test_stopped_during_a_drag_which_lets_go(self) -> None:
        start, over = self.window.place("area", 0.2, 0.2), self.window.place("area", 0.8, 0.8)
        downs, ups = self.count("WM_LBUTTONDOWN"), self.count("WM_LBUTTONUP")
        drag = call("drag_screen_element", element_name="area", start=start, end=over)
        with Scripted([drag]) as model:
            program = self.start(model, "drag_step_ms=400")
            until("the button is down", lambda: self.count("WM_LBUTTONDOWN") > downs)
            moves = self.count("WM_MOUSEMOVE")
            until("it drags", lambda: self.count("WM_MOUSEMOVE") > moves)
            self.stopped(program, self.hotkey("ctrl+alt+q"))
        self.window.order("nothing")  # obeyed once all input was worked off
        self.assertEqual(self.count("WM_LBUTTONUP"), ups + 1)

    def test_stopped_while_a_request_hangs_by_the_hotkey_or_the_mouse_in_the_corner(self) -> None:
        with Hanging(self) as model:
            program = self.start(model)
            model.until_asked(program)
            self.stopped(program, self.hotkey("ctrl+alt+q"))
        with Hanging(self) as model:
            program = self.start(model)
            model.until_asked(program)
            self.mouse(0, 0)
            code, output = program.finish(60)
        self.assertEqual(code, 130, output)
        self.assertIn("stopped: the mouse in the corner.", output)

    def test_stopped_while_the_screen_settles(self) -> None:
        click = call(
            "click_screen_element", element_name="area", position=self.window.place("area")
        )
        with Scripted([click]) as model:
            before = self.count("WM_LBUTTONUP")
            program = self.start(model, "ui_settle_delay=10")
            until("it has clicked", lambda: self.count("WM_LBUTTONUP") > before)
            time.sleep(0.5)
            self.stopped(program, self.hotkey("ctrl+alt+q"))

    def test_stopped_as_the_console_is_closed_the_run_ends_in_words_and_its_files_are_whole(
        self,
    ) -> None:
        with Hanging(self) as model:
            words = "--endpoint", model.url, "Do it"
            program = Program(self.desktop, "-c", STARTED, windows_path(AGENT), *words)
            model.until_asked(program)
            process = int((self.desktop.folder / "process_id").read_text())
            self.assertTrue(self.driver.ask("close_console", process=process)["told"])
            _, output = program.finish(20)
        self.assertIn("stopped: the console was closed.", output)
        self.assertEqual(self.ended(), ("stopped", "the console was closed."))
        for name in ("report.html", "execution_log.txt"):
            file = self.desktop.run_folder / name
            self.assertIn("the console was closed", file.read_text("utf-8"), name)

    def test_stopped_by_the_panel_which_pauses_it_too_and_nobody_else_does(self) -> None:
        # The first reply's act waits, and the second one's is carried out.
        with Hanging(self, ONE_AND_TWO, (1, 3)) as model:
            words = "--set", "confirm=never", "--set", "takeover_quiet=0", "Do it"
            program = self.desktop.agent("--endpoint", model.url, "--panel", *words)
            model.until_asked(program)
            found = re.search(r"(http://127\.0\.0\.1:\d+)/#(\S+)", program.text)
            assert found, program.text
            address, key = found.groups()
            news = {"since": -1, "seen": 0}
            self.assertEqual(sent(address, key, "/news", news), 200)
            for wrong in ("", "x" * len(key)):
                self.assertEqual(sent(address, wrong, "/news", news), 401)
                self.assertEqual(sent(address, wrong, "/control", {"action": "stop"}), 401)
            self.assertEqual(sent(address, key, "/control", {"action": "pause"}), 200)
            model.let_go[1].set()
            until("it is paused", lambda: "paused: " in program.text, 30)
            self.assertEqual(self.window.text(), "")
            self.assertEqual(sent(address, key, "/control", {"action": "resume"}), 200)
            model.until_asked(program, 3)
            self.assertEqual(self.window.text(), "two")
            self.assertEqual(sent(address, key, "/control", {"action": "stop"}), 200)
            code, output = program.finish(20)
        self.assertEqual(code, 130, output)
        self.assertIn("stopped: Stop in the panel.", output)
        self.assertEqual(self.ended()[0], "stopped")

    def test_paused_by_the_hotkey_until_it_is_pressed_again(self) -> None:
        pressed: list[float] = []

        def press(number: int) -> None:
            if number == 1:
                pressed.append(self.hotkey("ctrl+alt+p"))
                threading.Timer(3, self.hotkey, ["ctrl+alt+p"]).start()

        with Scripted(ONE_AND_TWO, press) as model:
            output = self.completed(model, "takeover_quiet=0")
        self.assertRegex(output, r"(?s)paused: until ctrl\+alt\+p is pressed again.*going on")
        # The first act waited, and then needed a new look.
        self.assertEqual(self.window.text(), "two")
        self.assertGreater(self.window.events("WM_CHAR")[-3]["time"] - pressed[0], 3)

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


def sent(address: str, key: str, path: str, words: dict[str, Any]) -> int:
    """The status of a request to the panel with that key."""
    headers = {"Authorization": f"Bearer {key}", "Origin": address}
    headers["Content-Type"] = "application/json"
    request = urllib.request.Request(address + path, json.dumps(words).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


if __name__ == "__main__":
    unittest.main()
