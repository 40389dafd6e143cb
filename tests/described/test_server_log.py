"""The profile pointer with --described copies what LM Studio logged during the run, and nothing else of the computer."""

from __future__ import annotations

import itertools
import signal
from typing import Any

import agent
from tests.samples import for_the_gate
from tests.seams import clock_of_main, desktop_of_main
from tests.test_main import CommandLineCase

LOGGED = ("--profile", "pointer", "--described")


class ServerLog(CommandLineCase):
    """From the command line, against the drawn desktop as if it were the real one, with LM Studio's log beside it."""

    def write(self, name: str, content: bytes, root: str = ".lmstudio/server-logs") -> None:
        path = self.folder / "home" / root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            log.write(content)

    def asked(self, path: str) -> None:
        """The server writes its log of a request."""
        self.write("2026-06/2026-06-27.1.log", f"[2026-06-27 10:00:05][INFO] {path}\n".encode())

    def start(self, *argv: str, at_reply: Any = lambda: None) -> int:
        demo = agent.DemoModel()
        self.addCleanup(demo.close)
        plain = demo.respond

        def respond(body: bytes) -> dict[str, Any]:
            self.asked("/v1/chat/completions" if body else "/api/v1/models")
            return (body and at_reply()) or plain(body)

        demo.respond = respond
        home = dict.fromkeys(("HOME", "USERPROFILE"), str(self.folder / "home"))
        with desktop_of_main(agent.DemoDesktop), clock_of_main():
            return self.main(*argv, "--endpoint", demo.endpoint, environ=home)[0]

    def logs(self) -> tuple[str, str]:
        """What was copied of the server's log, and the log of the last run."""
        folder = max((self.folder / "dumps").iterdir())
        raw, human = folder / "lmstudio_raw.log", folder / "execution_log.txt"
        return raw.read_text() if raw.exists() else "", human.read_text(encoding="utf-8")

    @for_the_gate
    def test_only_what_was_written_during_the_run_is_copied_raw_and_cleaned(self) -> None:
        self.write("2026-06/2026-06-27.1.log", b"[2026-06-27 10:00:00][INFO] before\n")
        self.write("2026-06/2026-06-26.1.log", b"[2026-06-26 10:00:00][INFO] yesterday\n")
        image = b'{"url": "data:image/png;base64,' + b"A1+/" * 4000 + b'=="}\r\n'
        others = iter([image])

        def at_reply() -> None:
            for other in others:
                self.write("2026-06/2026-06-27.1.log", other)
                self.write("2026-06/2026-06-27.2.log", b"[2026-06-27 10:00:09][INFO] next file\n")

        task = 'Write "Hi" into Notes and save it.'
        self.assertEqual(self.start(*LOGGED, "--max-steps", "100", task, at_reply=at_reply), 0)
        raw, human = self.logs()
        self.assertNotRegex(raw, "before|yesterday")
        self.assertGreater(raw.count("/v1/chat/completions"), 10)
        self.assertEqual(raw.count("A1+/"), 4000)
        self.assertTrue(raw.endswith("next file\n"))
        clean = (self.run_folder() / "lmstudio_clean.log").read_text()
        self.assertRegex(clean, r'base64,<\d+ characters>"}')
        self.assertIn("LM Studio's log of this run copied", human)

    def test_the_older_place_is_known_too_and_without_such_a_log_no_file_appears(self) -> None:
        older = (b"old place\n", ".cache/lm-studio/server-logs")
        for written, told in ((older, "log of this run copied"), (None, "no log of this run")):
            self.asked = lambda path, w=written: (  # type: ignore[method-assign]
                self.write("2025-01/2025-01-02.1.log", *w) if w else None
            )
            self.start(*LOGGED, "--max-steps", "1", "x")
            raw, human = self.logs()
            self.assertEqual(("old place\n" in raw, bool(raw)), (bool(written),) * 2)
            self.assertIn(told, human)

    def test_a_run_that_is_stopped_or_fails_keeps_the_log_too(self) -> None:
        for happens, code in (
            (lambda: signal.raise_signal(signal.SIGINT), 130),
            (lambda: signal.raise_signal(signal.SIGTERM), 130),
            (lambda: (400, {"error": {"message": "no"}}), 3),
        ):
            calls = itertools.count()
            at_reply = lambda c=calls, what=happens: what() if next(c) > 4 else None  # noqa: E731
            self.assertEqual(self.start(*LOGGED, "x", at_reply=at_reply), code)
            self.assertIn("/v1/chat/completions", self.logs()[0])

    def test_without_the_switch_nothing_outside_of_the_runs_folder_is_read(self) -> None:
        for words in (("--profile", "pointer"), ("--profile", "chat", "--described")):
            self.start(*words, "--max-steps", "2", "x")
            raw, human = self.logs()
            self.assertEqual((raw, "LM Studio" in human), ("", False), words)
