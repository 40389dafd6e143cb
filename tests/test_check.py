"""--check against servers of every kind: each gets the right verdict and the advice that belongs to it."""

from __future__ import annotations

import itertools
import json
import re
import signal
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from typing import Any

import agent
from tests import seams
from tests.scripted import call, in_words, text
from tests.test_calibration import Swollen, asked_place
from tests.test_main import CommandLineCase

WIDTH, HEIGHT = 640, 360
Place = Callable[[float, float], list[int]]


def seen(across: float = 1000 / WIDTH, down: float = 1000 / HEIGHT, shift: float = 0) -> Place:
    """A model that says a pixel's place by these factors."""
    return lambda x, y: [round(x * across + shift), round(y * down)]


def scattered() -> Place:
    far = itertools.cycle((0, 0, 60, -60, 0, 60, 0))
    return lambda x, y: [round(x / WIDTH * 1000) + next(far), round(y / HEIGHT * 1000)]


class Studio(Swollen):
    """A server whose model, context, eyes, calls and coordinate space can be chosen."""

    def __init__(
        self, place: Place | None = None, calls: bool = True, tokens: int = 1700, **info: Any
    ) -> None:
        super().__init__(1.0)
        known = {"name": "qwen3-vl-2b-instruct", "vision": True, "context_length": 8192}
        self.info = agent.ModelInfo(**{**known, **info})
        self.place, self.calls, self.tokens = place or seen(), calls, tokens

    def message(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("tools"):
            press = call("press_keyboard_key", key="escape")
            return press if self.calls else text("I would press escape.")
        x, y = asked_place(request)
        return text(json.dumps(self.place(x * (WIDTH - 1) / 1000, y * (HEIGHT - 1) / 1000)))


# Of a server and its model: what it is, what --check looks at, whether that is fine, what it says.
VERDICTS = (
    ("healthy", Studio(), "calibration", True, "0-1000 grid: across scale 1.000, shift \\+0; down scale 1.000"),
    ("healthy", Studio(), "calibration", True, "12 of 12 places within 15"),
    ("healthy", Studio(), "screenshot", True, "1700 tokens"),
    ("healthy", Studio(), "tool calls", True, '"key": "escape"'),
    ("it shrinks the picture", Studio(tokens=130), "screenshot", False, "shrank"),
    ("tokens enough for 20 x 11 patches", Studio(tokens=200), "screenshot", True, "200 tokens"),
    ("not for 23 x 13 patches", Studio(name="qwen2.5-vl-7b", tokens=200), "screenshot", False, "200 tokens"),
    ("it answers in pixels", Studio(seen(1, 1)), "calibration", False, "not corrected: across scale 0.64"),
    ("in pixels of a smaller picture", Studio(seen(0.5, 0.5)), "calibration", False, "not corrected: across scale 0.32"),
    ("off", Studio(seen(800 / WIDTH, shift=90)), "calibration", False, r"across scale 0\.(80|79).*, shift -(9|10|11); down scale"),
    ("scattered", Studio(scattered()), "calibration", False, "; [5-8] of 12 places within 15; use a larger"),
    ("no calls", Studio(calls=False), "calibration", True, "12 of 12 places"),
    ("no calls", Studio(calls=False), "tool calls", False, "tool use"),
    ("a box is no place", Studio(lambda x, y: [round(x), round(y), round(x) + 9, round(y) + 9]), "calibration", False, "did not say where"),
    ("no place", Studio(lambda x, y: []), "calibration", False, "did not say where"),
    ("a small context", Studio(context_length=2048), "context", False, "2048 tokens"),
    ("text only", Studio(vision=False), "model", False, "sees no pictures; load a vision model"),
)  # fmt: skip


class Check(unittest.TestCase):
    def findings(self, studio: Studio, profile: str = "planner") -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as dumps:
            size = {"screen_capture_w": WIDTH, "screen_capture_h": HEIGHT}
            config = agent.load_config({"test": {**size, "dump_dir": dumps}})
            server: Any = studio
            found = agent.check_model(config, agent.PROFILES[profile], server)
            return {one.what: one for one in found if not isinstance(one, agent.Phase)}

    def test_each_server_and_model_gets_its_verdict_and_what_to_do(self) -> None:
        for name, studio, what, is_fine, words in VERDICTS:
            with self.subTest(f"{name}: {what}"):
                found = self.findings(studio)[what]
                self.assertEqual(found.fine, is_fine, found.text)
                self.assertRegex(found.text, words)
        self.assertTrue(all(found.fine for found in self.findings(Studio()).values()))

    def test_the_profile_that_fits_a_model_made_for_screens_is_told_where_none_was_chosen(
        self,
    ) -> None:
        own = "by its name it was trained in gui-owl-1.5, which --profile native asks in"
        for model, chosen, settings, told in (
            ("GUI-Owl-1.5-2B-Instruct-GGUF", False, {}, "asked in gui-owl-1.5 by profile native"),
            ("mplug_gui-owl-1.5-4b-instruct", False, {}, "asked in gui-owl-1.5 by profile native"),
            ("gui-owl-1.5-4b", True, {}, f"asked in tools by profile planner; {own}"),
            ("gui-owl-1.5-4b", False, {"executor_grammar": "tools"}, f"asked in tools by profile planner; {own}"),
            ("gui-owl-1.5-4b", False, {"described": True}, f"asked in tools by profile planner; {own}"),
            ("some-model", False, {}, "asked in tools by profile planner"),
            ("qwen3-vl-2b-instruct", False, {}, "asked in tools by profile planner; by its name"),
        ):  # fmt: skip
            with self.subTest(model, chosen=chosen, **settings):
                config = agent.load_config({"test": settings})
                server: Any = Studio(name=model)
                found = agent.check_model(config, agent.PROFILES["planner"], server, chosen)
                text = next(one.text for one in found if getattr(one, "what", "") == "grammar")
                self.assertTrue(text.startswith(told), text)

    def test_only_a_model_that_is_shown_the_tools_can_make_the_call_of_the_check(self) -> None:
        asked: list[dict[str, Any]] = []

        class Template(Studio):
            """Its chat template leaves out tools; the model repeats a name that it is told."""

            def message(self, request: dict[str, Any]) -> dict[str, Any]:
                if "tools" not in request:
                    return super().message(request)
                asked.append(request)
                told = "press_keyboard_key" in str(request["messages"])
                return call("press_keyboard_key", key="escape") if told else text("Done.")

        finding = self.findings(Template())["tool calls"]
        self.assertEqual((finding.fine, len(asked)), (False, 1))
        self.assertIn("set calls to text", finding.text)

    def test_another_call_than_the_one_that_was_asked_for_is_not_told_as_fine(self) -> None:
        for made, is_note in (
            (call("press_keyboard_key", key="Escape"), False),
            (call("press_keyboard_key", key="esc"), False),
            (call("press_keyboard_key", key="enter"), True),
            (call("open_app", name="Notepad"), True),
        ):

            class Saying(Studio):
                def message(self, request: dict[str, Any], made: Any = made) -> dict[str, Any]:
                    return made if request.get("tools") else super().message(request)

            with self.subTest(made=made):
                found = self.findings(Saying())["tool calls"]
                self.assertEqual((found.fine, found.note), (True, is_note), found.text)
                self.assertEqual("the order was: Press the key escape." in found.text, is_note)

    def test_it_asks_in_the_form_of_the_profiles_own_requests_and_says_what_it_changed(
        self,
    ) -> None:
        for profile, fault, bad, changed in (
            ("planner", "template", "'tools'", "the tools stand in the text"),
            ("chat", "no_tools", "'tools'", "the tools stand in the text"),
            ("chat", "roles", "'tool'", "messages in a row are one"),
            ("pointer", "pictures", "('image_url': .*){2}", "one picture is shown"),
            ("planner", "roles", "'role': 'user'((?!'role').)*'role': 'user'", "in a row are one"),
            ("story", "no_vision", "nothing", ""),
            ("planner", "no_vision", "nothing", ""),
        ):

            class Refusing(Studio):
                def complete(self, body: bytes) -> agent.Reply:
                    if re.search(self.bad, str(json.loads(body))):
                        raise agent.ModelError("The server refuses.", self.fault)
                    return super().complete(body)

                def message(self, request: dict[str, Any]) -> dict[str, Any]:
                    if "Press the key" in str(request) and "tools" not in request:
                        return text(in_words("press_keyboard_key", key="escape"))
                    return super().message(request)

            with self.subTest(profile, fault=fault):
                studio = Refusing()
                vars(studio).update(bad=bad, fault=fault)
                found = self.findings(studio, profile)
                said = found["request"].text if "request" in found else ""
                self.assertEqual(bool(said), bool(changed), said)
                self.assertIn(changed, said)

    def test_thoughts_that_leave_no_room_for_an_answer_are_told_and_no_other_model_is_advised(
        self,
    ) -> None:
        class Thinking(Studio):
            def complete(self, body: bytes) -> agent.Reply:
                message = {"role": "assistant", "content": "", "reasoning": "Hm. " * 99}
                most = json.loads(body)["max_tokens"]
                return agent.Reply(message, "length", agent.Usage(1700, most), "", 0.1)

        found = self.findings(Thinking())
        for what in ("calibration", "tool calls"):
            self.assertIn("thinking=off, raise executor_max_tokens", found[what].text)
            self.assertFalse(found[what].fine)
            self.assertNotIn("another model", found[what].text)


class Black(agent.DemoDesktop):
    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        return bytes(width * height * 4)


class Desktops(CommandLineCase):
    def check(self, make: Any) -> dict[str, str]:
        """What --check says of a desktop: the verdict of each line."""
        with seams.desktop_of_main(make) as self.opened:
            self.code, out, _ = self.main("--check", "--demo")
        *rows, self.verdict = out.splitlines()
        lines = [line.split() for line in rows]
        return {words[1]: words[0] for words in lines if words[0] != "..."}

    def test_the_desktop_part_never_touches_mouse_or_keyboard(self) -> None:
        found = self.check(agent.DemoDesktop)
        self.assertEqual(list(found), ["system", "screen", "capture", "window", "model"])
        self.assertEqual((set(found.values()), self.code, self.verdict), ({"ok"}, 0, "Ready."))
        for desktop in self.opened:
            untouched = agent.DemoDesktop(desktop.clock)
            self.assertEqual(
                (desktop.state, desktop.cursor()), (untouched.state, untouched.cursor())
            )
        self.assertTrue(self.opened)

    def test_a_black_screen_and_a_missing_desktop_are_failures(self) -> None:
        self.assertEqual((self.check(Black)["capture"], self.code), ("FAIL", 3))
        self.assertEqual(self.verdict, "1 thing to do.")

        def missing(_: agent.Clock) -> Any:
            raise agent.Win32Error("There is no desktop; do this.")

        found = self.check(missing)
        self.assertEqual((list(found), self.code), (["system", "desktop", "model"], 3))
        self.assertEqual(found["desktop"], "FAIL")


class Told(CommandLineCase):
    """It says what it knows at once, and what it waits for."""

    def check(self, respond: Any = None) -> tuple[int, str, str]:
        """With the demo's model, whose answers `respond(answers, body)` gives instead."""
        server = agent.DemoModel()
        self.addCleanup(server.close)
        answers = server.respond
        if respond:
            server.respond = lambda body: respond(answers, body)  # type: ignore[method-assign]
        with seams.desktop_of_main(agent.DemoDesktop):
            return self.main("--check", "--endpoint", server.endpoint)

    def test_each_line_is_printed_before_the_next_thing_is_waited_for(self) -> None:
        seen = []

        def respond(answers: Any, body: bytes) -> Any:
            tick = threading.Event()
            for _ in range(1000):  # a thread prints
                if "list of models" not in sys.stdout.getvalue():  # type: ignore[attr-defined]
                    tick.wait(0.02)
            seen.append(sys.stdout.getvalue())  # type: ignore[attr-defined]
            return answers(body)

        self.check(respond)
        lines = seen[0].splitlines()
        self.assertEqual([line.split()[1] for line in lines[:2]], ["system", "waiting"])
        self.assertRegex(seen[0], r"(?m)^ok    screen ")
        self.assertTrue(lines[-1].startswith("...   waiting for the list of models at http"), lines)
        self.assertNotIn("Rect", seen[0])

    def test_a_hanging_model_is_told_and_ctrl_c_ends_it_in_words(self) -> None:
        hang, press = threading.Event(), threading.Event()
        self.addCleanup(hang.set)

        def silent(answers: Any, body: bytes) -> Any:
            if body:
                press.set()
                hang.wait(20)
            return answers(body)

        def press_keys() -> None:
            if press.wait(20):
                signal.raise_signal(signal.SIGINT)

        threading.Thread(target=press_keys).start()
        code, out, err = self.check(silent)
        self.assertEqual(code, 130)
        self.assertIn("to find 12 squares in pictures, at most 240 s each", out.splitlines()[-1])
        self.assertEqual(err, "agent.py: Stopped: Ctrl+C; what is not listed was not examined.\n")

    def test_what_a_server_does_not_tell_of_its_model_is_said_in_words(self) -> None:
        bare = {"data": [{"id": "x-vl"}]}
        _, out, _ = self.check(lambda answers, body: answers(body) if body else bare)
        self.assertIn("the server does not tell how many tokens", out)
