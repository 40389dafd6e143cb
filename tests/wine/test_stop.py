"""Stopping, taking over and refusing on a real Win32 desktop: the person's keys and mouse come from xdotool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rig import (
    AGENT,
    HERE,
    ROOT,
    SCREEN,
    Desktop,
    Target,
    end,
    json_lines,
    until,
    windows_path,
    windows_python,
)

sys.path.append(str(ROOT))
from tests.long import kill  # a program of the tests, one folder up

# From the call of xdotool to the end of the run. An idle machine takes less than 0.1 s, a busy one takes over 1 s; each
# of these acts and requests would go on for 6 s or more. What the program itself takes is asked by tests.test_stop.
SOON_S = 5.0
PROOF = "The window shows everything that the task asked for: the text stands in its field, and nothing is left to be done."
Call = tuple[str, dict[str, Any]]


class Scripted:
    """A model server: a plan, then these calls one after the other, then the report, which it confirms.

    `before(number)` runs before the executor's reply of that number, from 1, is sent.
    """

    def __init__(
        self, calls: Iterable[Call], before: Callable[[int], None] = lambda number: None
    ) -> None:
        self.calls, self.before, self.asked = list(calls), before, 0
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                models = {
                    "data": [{"id": "qwen3-vl-2b-instruct", "type": "vlm", "state": "loaded"}]
                }
                self.answer(models if "v0" in self.path else {"error": "Unexpected endpoint"})

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                message = scripted.reply(request)
                usage = {"prompt_tokens": 3000, "completion_tokens": 30}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                self.answer({"model": "qwen3-vl-2b-instruct", "choices": [choice], "usage": usage})

            def answer(self, value: Any) -> None:
                body = json.dumps(value).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # the program has ended meanwhile

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/chat/completions"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        names = {tool["function"]["name"] for tool in request.get("tools", [])}
        if not names:
            return {"role": "assistant", "content": "YES: it is."}
        call: Call = ("report_mission_complete", {"evidence": PROOF})
        if "update_execution_plan" in names:
            call = ("update_execution_plan", {"instructions": "Go on.", "reasoning": "-"})
        else:
            self.asked += 1
            self.before(self.asked)
            call = self.calls.pop(0) if self.calls else call
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        calls = [{"id": "1", "type": "function", "function": function}]
        return {"role": "assistant", "content": "", "tool_calls": calls}


class StopCase(unittest.TestCase):
    desktop: Desktop
    target: Target

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = Desktop().__enter__()
        cls.addClassCleanup(cls.desktop.__exit__, None, None, None)
        cls.target = Target(cls.desktop)

    def setUp(self) -> None:
        self.target.command("clear")
        self.target.command("focus edit")
        self.xdotool("mousemove", "1800", "200")

    def xdotool(self, *words: str) -> None:
        subprocess.run(["xdotool", *words], env=self.desktop.environment, check=True, timeout=20)

    def hotkey(self, chord: str) -> float:
        """Presses it; returns when that began."""
        began = time.time()
        self.xdotool("key", chord)
        return began

    def grid(self, box: list[int], across: float = 0.5, down: float = 0.5) -> list[int]:
        """A place inside a box of pixels on the grid of the whole screen."""
        x, y = box[0] + across * (box[2] - box[0]), box[1] + down * (box[3] - box[1])
        return [round(1000 * x / (SCREEN[0] - 1)), round(1000 * y / (SCREEN[1] - 1))]

    def start(self, model: Scripted, *settings: str) -> subprocess.Popen[bytes]:
        words = [part for item in ("confirm=never", *settings) for part in ("--set", item)]
        return self.desktop.start(windows_path(AGENT), "--endpoint", model.url, *words, "Do it")

    def finished(self, process: subprocess.Popen[bytes], seconds: float = 60) -> tuple[int, str]:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            end(process)
            raise AssertionError("the program did not end") from None
        return process.returncode, output.decode(errors="replace").replace("\r\n", "\n")

    def journal(self) -> list[dict[str, Any]]:
        runs = sorted((self.desktop.folder / "dumps").glob("run_*"))
        return json_lines(runs[-1] / "turns.jsonl")

    def seen(self, *names: str) -> list[dict[str, Any]]:
        return self.target.events(*names)

    def stopped(self, process: subprocess.Popen[bytes], pressed: float) -> None:
        """The program ended by the hotkey soon after it was pressed, with a whole journal."""
        code, output = self.finished(process)
        self.assertEqual(code, 130, output)
        self.assertIn("stopped: ctrl+alt+q.", output)
        last = self.journal()[-1]
        self.assertEqual((last["kind"], last["outcome"]), ("end", "stopped"))
        print(
            f"{self.id().split('.')[-1]}: ended {last['time'] - pressed:.2f} s after xdotool was called",
            flush=True,
        )
        self.assertLess(last["time"] - pressed, SOON_S)


class Hotkeys(StopCase):
    def test_stop_while_5000_characters_are_typed(self) -> None:
        text = "".join(f"{number} words of a long text. " for number in range(300))[:5000]
        before = len(self.seen("WM_CHAR"))
        with Scripted([("type_text_input", {"text": text})]) as model:
            process = self.start(
                model, "text_batch_events=10", "char_input_delay=0.1"
            )  # no faster than it is drawn
            until("some of it was typed", lambda: len(self.seen("WM_CHAR")) > before + 200, 60)
            self.stopped(process, self.hotkey("ctrl+alt+q"))
        # what arrives while ctrl and alt are held for the hotkey is no plain text to the edit control
        typed = "".join(character for character in self.target.text() if ord(character) < 128)
        self.assertTrue(text.startswith(typed) and 100 < len(typed) < 4900, typed[-80:])

    def test_stop_during_a_drag_lets_go(self) -> None:
        start, over = self.grid(self.target.area, 0.2, 0.2), self.grid(self.target.area, 0.8, 0.8)
        before, ups_before = len(self.seen("WM_LBUTTONDOWN")), len(self.seen("WM_LBUTTONUP"))
        with Scripted(
            [("drag_screen_element", {"element_name": "area", "start": start, "end": over})]
        ) as model:
            process = self.start(model, "drag_step_ms=400")
            until("the button is down", lambda: len(self.seen("WM_LBUTTONDOWN")) > before, 60)
            moves = len(self.seen("WM_MOUSEMOVE"))
            until("it drags", lambda: len(self.seen("WM_MOUSEMOVE")) > moves, 60)
            self.stopped(process, self.hotkey("ctrl+alt+q"))
        self.target.command("nothing")  # obeyed once all input was worked off
        self.assertEqual(len(self.seen("WM_LBUTTONUP")), ups_before + 1)

    def test_stop_while_a_request_hangs(self) -> None:
        hanging, done = threading.Event(), threading.Event()

        def hang(number: int) -> None:
            hanging.set()
            done.wait(60)

        with Scripted([], hang) as model:
            process = self.start(model)
            self.assertTrue(hanging.wait(60))
            self.stopped(process, self.hotkey("ctrl+alt+q"))
            done.set()

    def test_stop_while_the_screen_settles(self) -> None:
        place = self.grid(self.target.area)
        with Scripted(
            [("click_screen_element", {"element_name": "area", "position": place})]
        ) as model:
            before = len(self.seen("WM_LBUTTONUP"))
            process = self.start(model, "ui_settle_delay=10")
            until("it has clicked", lambda: len(self.seen("WM_LBUTTONUP")) > before, 60)
            time.sleep(0.5)
            self.stopped(process, self.hotkey("ctrl+alt+q"))

    def test_pause_and_go_on(self) -> None:
        pause: list[float] = []

        def press(number: int) -> None:
            if number == 1:
                pause.append(self.hotkey("ctrl+alt+p"))
                threading.Timer(3, self.hotkey, ["ctrl+alt+p"]).start()

        with Scripted(
            [("type_text_input", {"text": "one"}), ("type_text_input", {"text": "two"})], press
        ) as model:
            code, output = self.finished(self.start(model, "takeover_quiet=0"))
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?s)paused: until ctrl\+alt\+p is pressed again.*going on")
        self.assertEqual(
            self.target.text(), "two"
        )  # the first act waited, and then needed a new look
        self.assertGreater(self.seen("WM_CHAR")[-3]["time"] - pause[0], 3)

    def test_the_mouse_thrown_into_the_corner(self) -> None:
        hanging, done = threading.Event(), threading.Event()

        def hang(number: int) -> None:
            hanging.set()
            done.wait(60)

        with Scripted([], hang) as model:
            process = self.start(model)
            self.assertTrue(hanging.wait(60))
            self.xdotool("mousemove", "0", "0")
            code, output = self.finished(process)
            done.set()
        self.assertEqual(code, 130, output)
        self.assertIn("stopped: the mouse in the corner.", output)


class Takeover(StopCase):
    def test_the_person_at_the_mouse_makes_it_wait_and_look_again(self) -> None:
        def move(number: int) -> None:
            if number == 1:
                time.sleep(1)
                for x in range(1500, 1700, 20):
                    self.xdotool("mousemove", str(x), "300")

        with Scripted(
            [("type_text_input", {"text": "one"}), ("type_text_input", {"text": "two"})], move
        ) as model:
            code, output = self.finished(self.start(model, "takeover_quiet=4"))
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?s)paused: mouse or keyboard is in use.*going on")
        self.assertEqual(self.target.text(), "two")
        results = [entry["result"] for entry in self.journal() if entry["kind"] == "result"]
        self.assertEqual(results[0], "Not done: The run was paused.")
        self.assertRegex("".join(results[1:]), "^Typed: two")

    def test_with_nobody_there_it_never_pauses(self) -> None:
        place = self.grid(self.target.area)
        calls: list[Call] = [
            ("click_screen_element", {"element_name": "area", "position": place})
        ] * 2
        calls += [("type_text_input", {"text": "hello"}), ("press_keyboard_key", {"key": "ctrl+a"})]
        with Scripted(calls) as model:
            code, output = self.finished(self.start(model))
        self.assertEqual(code, 0, output)
        self.assertNotIn("paused", output)


class BlindActs(StopCase):
    def test_one_single_colour_is_waited_for_and_then_refused(self) -> None:
        with Scripted([("press_keyboard_key", {"key": "a"})]) as model:
            process = self.start(model, "area=1600,400,100,100", "blind_patience=1")
            code, output = self.finished(process)
        self.assertEqual(code, 3, output)
        self.assertIn("one single colour", output)
        self.assertEqual(self.target.text(), "")

    def test_keys_do_not_go_to_a_window_that_came_to_the_front_meanwhile(self) -> None:
        def open_notepad(number: int) -> None:
            if number == 1:
                self.notepad = subprocess.Popen(["wine", "notepad"], env=self.desktop.environment)
                until("Notepad has the keyboard", lambda: "Notepad" in self.front(), 60)

        with Scripted([("type_text_input", {"text": "secret"})], open_notepad) as model:
            code, output = self.finished(self.start(model, "takeover_quiet=0"))
        end_wine(self.notepad)
        results = [entry["result"] for entry in self.journal() if entry["kind"] == "result"]
        self.assertRegex(
            results[0],
            "^Not done: Another window has come to the front since the last look: .*Notepad",
        )
        self.assertEqual(self.target.text(), "")
        self.assertEqual(code, 0, output)

    def front(self) -> str:
        """The title of the window with the keyboard."""
        code, output = self.desktop.run(windows_path(HERE / "front.py"))
        self.assertEqual(code, 0, output)
        return output

    def resize(self, width: int, height: int) -> None:
        code, output = self.desktop.run(windows_path(HERE / "resize.py"), str(width), str(height))
        self.assertEqual((code, output.split()[2:]), (0, [str(width), str(height)]))

    def test_a_changed_resolution_makes_the_frame_stale(self) -> None:
        def change(number: int) -> None:
            if number == 1:
                self.resize(1024, 768)

        self.addCleanup(self.resize, *SCREEN)
        with Scripted([("press_keyboard_key", {"key": "a"})], change) as model:
            code, output = self.finished(self.start(model, "takeover_quiet=0"))
        results = [entry["result"] for entry in self.journal() if entry["kind"] == "result"]
        self.assertEqual(
            results[:1],
            ["Not done: The screen's size or monitors changed since the last look."],
            output,
        )
        self.assertEqual(code, 0, output)


def end_wine(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(20)


class Killed(unittest.TestCase):
    def test_a_run_killed_at_random_moments_is_resumed_and_completes(self) -> None:
        """As many as AGENT_KILLS says: 50 by hand, some in the gate."""
        count = int(os.environ.get("AGENT_KILLS", "3"))
        with Desktop() as desktop:
            kill.PYTHON[:] = ["wine", windows_python(), "-X", "utf8"]
            kill.ENVIRONMENT = desktop.environment
            kill.shown = windows_path
            found = kill.at_random(count, 1, seed=8)
        print(dict(found))
        self.assertEqual(found.total(), count)


if __name__ == "__main__":
    unittest.main()
