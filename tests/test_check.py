"""--check against servers of every kind: each gets the right verdict and the advice that belongs to it."""

from __future__ import annotations

import itertools
import json
import tempfile
import threading
import unittest
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import agent
from tests import seams
from tests.scripted import call, text
from tests.test_calibration import asked_place
from tests.test_main import CommandLineCase

WIDTH, HEIGHT = 640, 360


class Studio:
    """A model server with LM Studio's shapes whose model, context, eyes and coordinate space can be chosen."""

    def __init__(self) -> None:
        self.models = [
            {
                "id": "qwen3-vl-2b-instruct",
                "type": "vlm",
                "state": "loaded",
                "loaded_context_length": 8192,
            }
        ]
        self.prompt_tokens, self.calls = 1700, True
        self.place: Callable[[float, float], list[int]] = lambda x, y: [
            round(x / WIDTH * 1000),
            round(y / HEIGHT * 1000),
        ]

    def message(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("tools"):
            return (
                call("press_keyboard_key", key="escape")
                if self.calls
                else text("I would press escape.")
            )
        x, y = asked_place(request)
        return text(json.dumps(self.place(x * (WIDTH - 1) / 1000, y * (HEIGHT - 1) / 1000)))

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if path == "/api/v0/models":
            return 200, {"data": self.models}
        if path == "/v1/models":
            return 200, {"data": [{"id": model["id"]} for model in self.models]}
        if path != "/v1/chat/completions":
            return 404, {"error": f"Unexpected endpoint or method. (GET {path})"}
        choice = {"message": self.message(json.loads(body)), "finish_reason": "stop"}
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": 30}
        return 200, {"choices": [choice], "model": self.models[0]["id"], "usage": usage}


class Check(unittest.TestCase):
    def findings(self, studio: Studio, **settings: Any) -> dict[str, Any]:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                status, answer = studio.answer(self.path, self.rfile.read(length))
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return self.examine(
            f"http://127.0.0.1:{server.server_address[1]}/v1/chat/completions", **settings
        )

    def examine(
        self, endpoint: str, profile: agent.Profile = agent.PROFILES["planner"], **settings: Any
    ) -> dict[str, Any]:
        base = {"lmstudio_endpoint": endpoint, "request_retries": 0, "lmstudio_timeout": 20}
        size = {"screen_capture_w": WIDTH, "screen_capture_h": HEIGHT}
        dumps = tempfile.TemporaryDirectory()
        self.addCleanup(dumps.cleanup)
        kept = {"dump_dir": dumps.name}
        config, stop = (
            agent.load_config({"test": {**base, **size, **kept, **settings}}),
            agent.Stop(),
        )
        server = agent.ModelServer(config, agent.SystemClock(stop), stop)
        return {f.what: f for f in agent.check_model(config, profile, server, str)}

    def test_a_healthy_server_passes_everything(self) -> None:
        findings = self.findings(Studio())
        self.assertEqual([f.what for f in findings.values() if not f.fine], [])
        self.assertIn(
            "0-1000 grid: across scale 1.000, shift +0; down scale 1.000",
            findings["calibration"].text,
        )
        self.assertIn("12 of 12 places within 15", findings["calibration"].text)
        self.assertIn("1700 tokens", findings["screenshot"].text)
        self.assertIn('"key": "escape"', findings["tool calls"].text)

    def test_a_text_only_model_is_named_and_a_vision_model_advised(self) -> None:
        studio = Studio()
        studio.models[0]["type"] = "llm"
        failed = [f for f in self.findings(studio).values() if not f.fine]
        self.assertTrue(failed)
        self.assertIn("vision", failed[0].text)

    def test_a_server_without_a_model_is_told_to_load_one(self) -> None:
        studio = Studio()
        studio.models = []
        finding = self.findings(studio)["server"]
        self.assertFalse(finding.fine)
        self.assertRegex(finding.text, r"(?i)load")

    def test_a_server_that_shrinks_the_picture_is_found_out_by_its_token_count(self) -> None:
        studio = Studio()
        studio.prompt_tokens = 130
        finding = self.findings(studio)["screenshot"]
        self.assertFalse(finding.fine)
        self.assertIn("shrank", finding.text)

    def test_tokens_are_counted_by_the_patches_of_the_model(self) -> None:
        for model, fine in (("qwen3-vl-2b-instruct", True), ("qwen2.5-vl-7b", False)):
            studio = Studio()
            studio.models[0]["id"] = model
            studio.prompt_tokens = 200  # enough for 20 x 11 patches, not for 23 x 13
            self.assertEqual(self.findings(studio)["screenshot"].fine, fine, model)

    def test_a_model_that_answers_in_pixels_is_found_out_whatever_the_size_it_saw(self) -> None:
        for shown in (WIDTH, WIDTH // 2):
            studio = Studio()
            studio.place = lambda x, y, f=shown / WIDTH: [round(x * f), round(y * f)]
            finding = self.findings(studio)["calibration"]
            self.assertFalse(finding.fine)
            self.assertIn(f"not corrected: across scale {shown / 1000:.2f}", finding.text)

    def test_answers_that_are_off_are_measured(self) -> None:
        studio = Studio()
        studio.place = lambda x, y: [round(x / WIDTH * 800 + 90), round(y / HEIGHT * 1000)]
        finding = self.findings(studio)["calibration"]
        self.assertFalse(finding.fine)
        self.assertRegex(finding.text, r"across scale 0\.(80|79).*, shift -(9|10|11); down scale")

    def test_a_model_whose_clicks_scatter_fails_by_its_score(self) -> None:
        studio = Studio()
        far = itertools.cycle((0, 0, 60, -60, 0, 60, 0))
        studio.place = lambda x, y: [
            round(x / WIDTH * 1000) + next(far),
            round(y / HEIGHT * 1000),
        ]
        finding = self.findings(studio)["calibration"]
        self.assertFalse(finding.fine)
        self.assertRegex(finding.text, r"; [5-8] of 12 places within 15; use a larger")

    def test_a_model_without_calls_is_measured_and_a_box_is_no_place(self) -> None:
        studio = Studio()
        studio.calls = False
        found = self.findings(studio)
        self.assertEqual((found["calibration"].fine, found["tool calls"].fine), (True, False))
        studio.place = lambda x, y: [round(x), round(y), round(x) + 9, round(y) + 9]
        self.assertIn("did not say where", self.findings(studio)["calibration"].text)

    def test_a_model_that_cannot_point_or_call_is_told_apart(self) -> None:
        studio = Studio()
        studio.calls, studio.place = False, lambda x, y: []
        findings = self.findings(studio)
        self.assertIn("did not say where", findings["calibration"].text)
        self.assertIn("tool use", findings["tool calls"].text)
        self.assertNotIn("qwen3-vl-4b", findings["tool calls"].text)

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

    def test_each_profile_is_asked_for_a_call_of_a_tool_that_it_has(self) -> None:
        for name in ("commander", "chat", "pointer", "story"):
            for profile in (agent.PROFILES[name], agent.as_described(agent.PROFILES[name])):
                offered: list[str] = []

                class Willing(Studio):
                    """Calls whatever it is offered."""

                    def message(self, request: dict[str, Any]) -> dict[str, Any]:
                        if "tools" not in request:
                            return super().message(request)
                        function = request["tools"][0]["function"]
                        offered.append(function["name"])  # noqa: B023
                        key = function["parameters"]["required"][0]
                        return call(function["name"], **{key: "escape"})

                with self.subTest(name, described=profile is not agent.PROFILES[name]):
                    findings = self.findings(Willing(), profile=profile)
                    self.assertEqual([f.text for f in findings.values() if not f.fine], [])
                    wanted = {"pointer": ["type_text"], "story": []}
                    self.assertEqual(offered[:1], wanted.get(name, offered))
                    self.assertEqual("tool calls" in findings, name != "story")

    def test_a_small_context_is_named_with_what_to_do(self) -> None:
        studio = Studio()
        studio.models[0]["loaded_context_length"] = 2048
        finding = self.findings(studio)["context"]
        self.assertFalse(finding.fine)
        self.assertIn("load it with 8192", finding.text)

    def test_a_dead_port_says_that_no_server_listens(self) -> None:
        probe = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
        port = probe.server_address[1]
        probe.server_close()
        finding = self.examine(f"http://127.0.0.1:{port}/v1/chat/completions")["server"]
        self.assertFalse(finding.fine)
        self.assertIn("nothing listens there", finding.text)


class Black(agent.DemoDesktop):
    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        return bytes(width * height * 4)


class Desktops(CommandLineCase):
    def check(self, make: Any) -> dict[str, str]:
        """What --check says of a desktop: the verdict of each line."""
        with seams.desktop_of_main(make) as self.opened:
            self.code, out, _ = self.main("--check", "--demo")
        lines = [line.split() for line in out.splitlines()]
        return {words[1]: words[0] for words in lines if words[0] != "..."}

    def test_the_desktop_part_never_touches_mouse_or_keyboard(self) -> None:
        found = self.check(agent.DemoDesktop)
        self.assertEqual(list(found), ["system", "screen", "capture", "window", "model"])
        self.assertEqual((set(found.values()), self.code), ({"ok"}, 0))
        for desktop in self.opened:
            untouched = agent.DemoDesktop(desktop.clock)
            self.assertEqual(
                (desktop.state, desktop.cursor()), (untouched.state, untouched.cursor())
            )
        self.assertTrue(self.opened)

    def test_a_black_screen_and_a_missing_desktop_are_failures(self) -> None:
        self.assertEqual((self.check(Black)["capture"], self.code), ("FAIL", 3))

        def missing(_: agent.Clock) -> Any:
            raise agent.Win32Error("There is no desktop; do this.")

        found = self.check(missing)
        self.assertEqual((list(found), self.code), (["system", "desktop", "model"], 3))
        self.assertEqual(found["desktop"], "FAIL")


if __name__ == "__main__":
    unittest.main()
