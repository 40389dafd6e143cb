"""What the program refuses, keeps to itself and says on a real Win32 desktop, and that it waits for what is drawn."""

from __future__ import annotations

import subprocess
import time
import unittest
from typing import Any

from tests.scripted import call
from tests.wine.model import Scripted, key
from tests.wine.rig import AGENT, ALONE, Program, RunCase, until, windows_path

# The program with somebody at its console, who types into its standard input.
ATTENDED = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import agent;"
    " agent._person_is_there = lambda: True; sys.exit(agent.main())"
)


class Questions(RunCase):
    def test_a_box_is_answered_by_the_mouse_and_the_window_below_keeps_the_keyboard(self) -> None:
        words = ("yes by mouse", "no by mouse", "yes by keys", "nobody")
        with Scripted([call("type_text_input", text=word) for word in words]) as model:
            settings = *ALONE, "--set", "confirm_wait=20", "--set", "controls=off"
            words = "--endpoint", model.url, "--confirm", "always", *settings, "Do it"
            program = Program(self.desktop, "-c", ATTENDED, windows_path(AGENT.parent), *words)

            def question(number: int) -> list[list[int]]:
                until("it asks", lambda: program.text.count("and Enter allows it") == number, 90)
                box = until("the box is there", lambda: self.driver.ask("box")["places"][1:], 20)
                return [*self.driver.ask("box")["places"][:1], *box]

            front = self.driver.ask("box")["front"]
            for number, button in ((1, 0), (2, 1)):
                place = question(number)[button]
                self.mouse(*place)
                time.sleep(1.5)  # its first second does not count
                self.assertEqual(self.driver.ask("box")["front"], front)
                self.desktop.host("xdotool", "click", "1")
                # As a box goes, Windows may name no window for a moment.
                until("it is in front", lambda: self.driver.ask("box")["front"] == front, 10)
            question(3)
            time.sleep(1.5)  # what is typed before the question can be read does not count
            program.say("y\n")
            question(4)  # which nobody answers
            until("the end is asked", lambda: "all the same?" in program.text, 90)
            program.say("y\n")
            code, output = program.finish(120)
        self.assertEqual(code, 0, output)
        results = self.results()
        self.assertRegex(results[0], "^Typed: yes by mouse")
        self.assertRegex(results[1], "^Not done: The person did not allow this")
        self.assertRegex(results[2], "^Typed: yes by keys")
        self.assertRegex(results[3], "^Not done: Nobody answered whether this is allowed")
        self.assertEqual(self.window.text(), "yes by mouseyes by keys")
        self.assertEqual(self.driver.ask("box")["places"], [])


class Guards(RunCase):
    def test_keys_do_not_go_to_a_window_that_came_to_the_front_meanwhile(self) -> None:
        def open_notepad(number: int) -> None:
            if number == 1:
                self.opened = subprocess.Popen(["wine", "notepad"], env=self.desktop.environment)
                self.addCleanup(self.opened.wait, 30)
                self.addCleanup(self.desktop.close, "notepad.exe")
                front = lambda: "Notepad" in self.driver.ask("listed")["title"]  # noqa: E731
                until("Notepad has the keyboard", front)

        with Scripted([call("type_text_input", text="secret")], open_notepad) as model:
            code, output = self.start(model, "takeover_quiet=0").finish(120)
        # Which of the gates sees it first depends on how much of the window it covers and when.
        told = (
            "^Not done: (What is there changed since your picture; decide by a new one"
            "|Another window has come to the front since the last look: .*Notepad)"
        )
        self.assertEqual((len(self.results()), model.errors), (1, []), output)
        self.assertRegex(self.results()[0], told)
        self.assertEqual((code, self.ended()[0]), (1, "not_proven"), output)  # nothing was done
        self.driver.ask("begin")
        self.addCleanup(self.driver.ask, "end")

        def with_the_keyboard() -> Any:
            known = self.driver.ask("known")["control"]
            return known and known.get("program") == "notepad.exe" and known

        field = until("Notepad's field is told", with_the_keyboard, 180)
        self.assertEqual((field["role"], field.get("value") or ""), ("edit", ""))
        self.assertEqual(self.window.text(), "")

    def test_check_finds_all_in_order_but_a_model_that_sees_nothing_and_sends_no_input(
        self,
    ) -> None:
        before = self.driver.ask("cursor")["place"]
        with Scripted([key("escape")]) as model, self.window.watch() as seen:
            code, output = self.desktop.agent("--check", "--endpoint", model.url).finish()
        self.assertEqual(code, 3, output)
        told = {line.split()[1]: line.split()[0] for line in output.splitlines()}
        # Wine has no UI Automation, and the doctor may note that nothing is known by it.
        self.assertIn(told.pop("controls"), ("ok", "note"))
        self.assertEqual([name for name, how in told.items() if how == "FAIL"], ["calibration"])
        for name in ("system", "screen", "capture", "server", "model", "context"):
            self.assertEqual(told[name], "ok", name)
        self.assertEqual(self.driver.ask("cursor")["place"], before)
        self.assertEqual(seen, [])


if __name__ == "__main__":
    unittest.main()
