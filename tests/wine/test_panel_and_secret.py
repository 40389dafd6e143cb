"""The panel and a secret in a real run on a real Win32 desktop: who may pause and stop it, and who sees the value."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from rig import AGENT, until, windows_path
from test_stop import Scripted, StopCase

SECRET = "swordfish-4711"


class Output:
    """What a program prints, as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.text = ""
        assert process.stdout
        self.stream = process.stdout
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.stream:
            self.text += line.decode(errors="replace")


class ThePanel(StopCase):
    def send(self, address: str, token: str, path: str, words: Any = None) -> int:
        """The status of a request with that token; `words` are posted."""
        headers = {"Authorization": f"Bearer {token}", "Origin": address}
        data = None
        if words is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(words).encode()
        request = urllib.request.Request(address + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def test_its_buttons_pause_and_stop_the_run_and_nobody_else_does(self) -> None:
        asked, go_on = threading.Event(), threading.Event()
        asked_again, done = threading.Event(), threading.Event()
        self.addCleanup(done.set)

        def hang(number: int) -> None:
            if number == 1:
                asked.set()
                go_on.wait(60)
            elif number == 3:  # the first reply's act waited, and the second one's was carried out
                asked_again.set()
                done.wait(60)

        typed = [("type_text_input", {"text": word}) for word in ("one", "two")]
        with Scripted(typed, hang) as model:
            words = ["--panel", "--set", "confirm=never", "--set", "takeover_quiet=0"]
            process = self.desktop.start(
                windows_path(AGENT), "--endpoint", model.url, *words, "Do it"
            )
            output = Output(process)
            self.assertTrue(asked.wait(60), output.text)
            found = re.search(r"(http://127\.0\.0\.1:\d+)/#(\S+)", output.text)
            assert found, output.text
            address, token = found.groups()
            self.assertEqual(self.send(address, token, "/news", {"since": -1, "seen": 0}), 200)
            for wrong in ("", "x" * len(token)):
                for path, told in (
                    ("/news", {"since": -1, "seen": 0}),
                    ("/control", {"action": "stop"}),
                ):
                    self.assertEqual(self.send(address, wrong, path, told), 401)
            self.assertEqual(self.send(address, token, "/control", {"action": "pause"}), 200)
            go_on.set()
            until("it is paused", lambda: "paused: " in output.text, 30)
            self.assertEqual(self.target.text(), "")
            self.assertEqual(self.send(address, token, "/control", {"action": "resume"}), 200)
            self.assertTrue(asked_again.wait(60), output.text)
            self.assertEqual(self.target.text(), "two")
            self.assertEqual(self.send(address, token, "/control", {"action": "stop"}), 200)
            process.wait(20)
            output.reader.join(5)
        self.assertEqual(process.returncode, 130, output.text)
        self.assertIn("stopped: Stop in the panel.", output.text)
        last = self.journal()[-1]
        self.assertEqual((last["kind"], last["outcome"]), ("end", "stopped"))


class ASecret(StopCase):
    def test_its_value_is_typed_and_stands_in_no_file_no_request_and_no_output(self) -> None:
        requests: list[str] = []

        class Listening(Scripted):
            def reply(self, request: dict[str, Any]) -> dict[str, Any]:
                requests.append(json.dumps(request))
                return super().reply(request)

        self.desktop.environment["DOOR_CODE"] = SECRET
        self.addCleanup(self.desktop.environment.pop, "DOOR_CODE")
        with Listening([("type_text_input", {"text": "{{DOOR_CODE}}"})]) as model:
            words = ["--secret", "DOOR_CODE", "--set", "confirm=never", "--set", "takeover_quiet=0"]
            task = "Type {{DOOR_CODE}} into the field"
            process = self.desktop.start(windows_path(AGENT), "--endpoint", model.url, *words, task)
            code, output = self.finished(process)
        self.assertEqual(code, 0, output)
        self.assertEqual(self.target.text(), SECRET)
        self.assertTrue(requests)
        found = [text[:200] for text in (output, *requests) if SECRET in text]
        self.assertEqual(found, [])
        for file in Path(self.desktop.folder / "dumps").rglob("*"):
            if file.is_file():
                self.assertFalse(SECRET.encode() in file.read_bytes(), file.name)


if __name__ == "__main__":
    unittest.main()
