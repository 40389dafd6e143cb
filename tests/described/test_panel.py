"""A story with --described --panel: its engine and who has the key of its page talk as described."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import agent
from tests.scripted import EngineCase, text
from tests.seams import person_there
from tests.test_main import CommandLineCase
from tests.test_panel import PICTURE, PanelTest

STORY = ("--demo", "--described", "--panel", "--profile", "story")
STATE = {
    *("phase", "error", "turn", "msg_id", "pending_seq", "annotated_seq", "raw_b64"),
    *("bboxes", "actions", "observation", "vlm_json"),
}
MARKS = agent.marks_of("{}")
START = '{"observation": "I open Notes.", "bboxes": [{"x1": 20, "y1": 40, "x2": 95, "y2": 180}], \
"actions": [{"name": "double_click", "x1": 57, "y1": 89}]}'


class Browser:
    """What asks as the described panel.html does."""

    def __init__(self, url: str) -> None:
        self.address, self.token = url.removeprefix("http://").split("/#")

    def ask(self, route: str, words: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        body = None if words is None else json.dumps(words)
        keyed = {"Authorization": f"Bearer {self.token}", **headers}
        method, path = route.split()
        connection.request(method, path, body, keyed)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        return answer.status, json.loads(said)

    def wait(self, phase: str, seq: int | None = None) -> Any:
        """The state once it is so."""
        for _ in range(2000):
            _, state = self.ask("GET /state")
            if state["phase"] == phase and seq in (None, state["pending_seq"]):
                return state
            time.sleep(0.01)
        raise AssertionError(f"{phase} never came, but {state['phase']}")

    def post(self, seq: Any, png: bytes) -> int:
        return self.ask(
            "POST /annotated", {"seq": seq, "image_b64": base64.b64encode(png).decode()}
        )[0]


class Talk(CommandLineCase):
    def told(self, browse: Callable[[Browser], Any], *words: str) -> tuple[int, str, Any]:
        """(exit code, what it said, what `browse` returned) of a run with a browser."""
        found: list[Any] = []

        def browsing(url: str) -> None:
            try:
                found.append(browse(Browser(url)))
            except (OSError, AssertionError) as error:
                found.append(error)

        thread = threading.Thread()

        def opened(url: str) -> None:
            nonlocal thread
            thread = threading.Thread(target=browsing, args=(url,))
            thread.start()

        self.opened.side_effect = opened
        with person_there(True):
            code, out, _ = self.main(*STORY, *words, environ={"DISPLAY": ":0"})
        thread.join(30)
        if isinstance(found[0], BaseException):
            raise found[0]
        return code, out, found[0]

    def test_the_state_has_what_is_described_and_only_the_awaited_picture_is_taken(self) -> None:
        """pending_seq equals current turn; rejects mismatches with 409, stays in waiting_annotated; msg_id per turn."""

        def browse(browser: Browser) -> Any:
            seen = []
            for turn in (1, 2, 3, 4):
                state = browser.wait("waiting_annotated", turn)
                raw = base64.b64decode(state["raw_b64"])
                wrong = [browser.post(seq, raw) for seq in (turn - 1, turn + 1, "x", None)]
                wrong += [browser.post(turn, png) for png in (PICTURE, raw[:-9], b"GIF89a")]
                wrong += [browser.ask("POST /annotated", {"seq": turn, "image_b64": "%"})[0]]
                after = browser.ask("GET /state")[1]
                taken = [browser.post(turn, raw) for _ in range(2)]
                seen.append((state, wrong, after["phase"], taken))
            return browser.ask("GET /config")[1], seen

        code, out, (config, seen) = self.told(browse)
        self.assertEqual(code, 0, out)
        self.assertEqual(config["ui"], MARKS)
        self.assertEqual(config.keys(), {"ui", "capture_width", "capture_height"})
        for turn, (state, wrong, phase, taken) in enumerate(seen, 1):
            self.assertEqual(state.keys(), STATE)
            self.assertEqual((wrong, phase, taken), ([409] * 8, "waiting_annotated", [200, 409]))
            numbers = [state[name] for name in ("turn", "msg_id", "pending_seq", "annotated_seq")]
            self.assertEqual(numbers, [turn, turn, turn, turn - 1])
            raw = (self.run_folder() / f"turn_{turn:04d}_raw.png").read_bytes()
            self.assertEqual(base64.b64decode(state["raw_b64"]), raw)
            # The program, whose own has marks, hands on what it got.
            marked = (self.run_folder() / f"turn_{turn:04d}_annotated.png").read_bytes()
            self.assertEqual(marked, raw)
        (_, drag) = (state["actions"] for state, *_ in seen[1:3])
        self.assertEqual([act["name"] for act in drag], ["drag"] * 3)
        last = seen[2][0]
        self.assertEqual(json.loads(last["vlm_json"])["observation"], last["observation"])

    def test_a_run_without_a_first_reply_waits_for_an_injected_one(self) -> None:
        """BOOT_ENABLED False: waits for POST /inject {"vlm_text": "<string>"}."""

        def browse(browser: Browser) -> Any:
            browser.wait("waiting_inject")
            refused = browser.ask("POST /inject", {"text": START})[0]
            status = browser.ask("POST /inject", {"vlm_text": START})[0]
            state = browser.wait("waiting_annotated")
            browser.ask("POST /inject", {"vlm_text": "I say this instead of the model."})
            browser.post(1, base64.b64decode(state["raw_b64"]))
            last = browser.wait("waiting_annotated", 2)
            browser.post(2, base64.b64decode(last["raw_b64"]))  # or the run waits for it
            return refused, status, state, last["observation"]

        code, out, found = self.told(browse, "--set", "boot_vlm_output=", "--max-steps", "2")
        refused, status, state, next_said = found
        self.assertEqual((refused, status, state["turn"]), (404, 200, 1))
        self.assertEqual((state["vlm_json"], state["observation"]), (START, "I open Notes."))
        self.assertEqual([act["name"] for act in state["actions"]], ["double_click"])
        self.assertEqual(state["bboxes"], [{"x1": 20, "y1": 40, "x2": 95, "y2": 180}])
        self.assertEqual(next_said, "I say this instead of the model.")
        self.assertIn(
            "Double-clicked", (self.run_folder() / "execution_log.txt").read_text("utf-8")
        )

    def test_a_stop_ends_the_wait_for_a_picture_and_for_a_first_reply(self) -> None:
        for phase, words in (
            ("waiting_annotated", ()),
            ("waiting_inject", ("--set", "boot_vlm_output=")),
        ):

            def browse(browser: Browser, phase: str = phase) -> Any:
                browser.wait(phase)
                return browser.ask("POST /control", {"action": "stop"})[0]

            begin = time.monotonic()
            code, _, status = self.told(browse, *words)
            self.assertEqual((code, status), (130, 200))
            self.assertLess(time.monotonic() - begin, 10)


class Hasty(agent.StoryPanel):
    patience_s = 2.0


class Alone(EngineCase):
    def test_without_a_picture_in_time_the_program_draws_and_waits_for_nobody_twice(self) -> None:
        trial = self.trial(lambda _: text("I look."), "story", described=True, max_steps=4)
        panel = Hasty(trial.config, trial.stop, agent.Stats("run_0001"), trial.folder)
        self.addCleanup(panel.server.server_close)
        self.addCleanup(panel.server.shutdown)
        trial.engine.session.inbox = panel
        begin = time.monotonic()
        trial.run()
        waited = time.monotonic() - begin  # for one of four pictures
        self.assertTrue(Hasty.patience_s < waited < 4 * Hasty.patience_s, waited)
        log = (trial.folder / "execution_log.txt").read_text("utf-8")
        self.assertEqual(log.count("No page sent the picture"), 4)
        for turn in (1, 2, 3, 4):
            self.assertTrue((trial.folder / f"turn_{turn:04d}_annotated.png").is_file())


class Strangers(PanelTest):
    ROUTES = ("GET /config", "GET /state", "POST /inject", "POST /annotated")

    def test_nobody_without_the_key_learns_or_drives_anything(self) -> None:
        panel = agent.StoryPanel(agent.Config(), self.stop, self.panel.stats, self.folder)
        self.addCleanup(panel.close)
        browser = Browser(panel.url)
        for route in self.ROUTES:
            words = {"vlm_text": "x", "seq": 0, "image_b64": ""} if "POST" in route else None
            for key in ("", "Bearer ", "Bearer x"):
                status, said = browser.ask(route, words, Authorization=key)
                self.assertEqual((status, said.keys()), (401, {"error"}))
        self.assertEqual(panel.take_injected(), "")

    def test_another_run_has_none_of_these_routes_and_no_page_of_another_site_is_let_in(
        self,
    ) -> None:
        for route in self.ROUTES:
            self.assertEqual(self.ask(route, {})[0], 404)
        status, answer = self.raw(
            self.head("OPTIONS /inject HTTP/1.1", Origin="http://evil.example")
        )
        self.assertEqual(status, 501)
        self.assertNotIn(b"access-control", answer.lower())
