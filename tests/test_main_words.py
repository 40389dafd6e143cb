"""The command line: words that contradict each other, names that are none, and odd consoles."""

from __future__ import annotations

import errno
import io
import unittest
from pathlib import Path
from unittest import mock

import agent
from tests.seams import desktop_of_main
from tests.test_main import CommandLineCase

LONG = "a" * 300  # no file system takes a name of so many characters


class TwoThingsToDo(CommandLineCase):
    def test_of_two_words_that_do_not_go_together_none_is_passed_over_in_silence(self) -> None:
        for words in (
            ["note", "--resume"],
            ["note", "--check"],
            ["note", "--runs"],
            ["--scenario", "web-chat", "--check"],
            ["--check", "--runs"],
            ["--check", "--resume"],
            ["--resume", "1", "--replay", "1"],
            ["--replay", "1", "--stats", "1"],
            ["--resume", "--runs"],
            ["--runs", "--report", "1"],
            ["--check", "--panel"],
            ["--check", "--secret", "PIN"],
            ["--runs", "--dry-run"],
            ["--resume", "--profile", "chat"],
            ["-q", "-v"],
        ):
            code, out, err = self.main("--demo", *words)
            self.assertEqual((code, out), (2, ""), words)
            self.assertIn("do not go together; leave out one of them.", err)

    def test_what_is_told_may_stand_together(self) -> None:
        for words in (["--help"], ["--help", "described"]):
            self.assertEqual(self.main("-q", "-v", *words)[0], 0)
        self.assertEqual(self.main("note", "--settings", "max")[0], 0)


class Names(CommandLineCase):
    def test_a_name_that_is_too_long_is_refused_in_one_sentence(self) -> None:
        for words in (["--stats", LONG], ["--resume", LONG]):
            code, _, err = self.main(*words)
            self.assertEqual((code, err.count("\n")), (2, 1), err)

    def test_a_folder_that_cannot_be_made_is_told_in_one_sentence(self) -> None:
        code, _, err = self.main("--demo", "--set", "dump_dir=a\0b")
        self.assertEqual((code, err.count("\n")), (2, 1), err)
        with self.assertRaisesRegex(agent.ConfigError, "choose another with --set dump_dir=FOLDER"):
            agent.ExecutionLogger(agent.Config(dump_dir="a\0b"))

    def test_a_folder_on_a_drive_that_is_gone_is_told_in_one_sentence(self) -> None:
        gone = OSError(errno.EIO, "The network name is no longer available")
        for words in (["--runs"], ["--stats", "1"]):
            with mock.patch.object(Path, "glob", side_effect=gone):
                code, _, err = self.main(*words)
            self.assertEqual((code, err.count("\n")), (2, 1), err)
            self.assertIn("no longer available", err)

    def test_an_empty_text_as_of_an_unset_variable_is_refused(self) -> None:
        for option in ("profile", "config", "scenario", "replay", "stats"):
            code, _, err = self.main("--demo", f"--{option}", "")
            self.assertEqual(code, 2)
            self.assertIn(f"--{option} is given an empty text", err)


class Consoles(CommandLineCase):
    def test_a_second_ctrl_c_is_recorded_as_a_stop_and_not_as_a_failure(self) -> None:
        with mock.patch.object(agent, "run_agent", side_effect=KeyboardInterrupt):
            code, out, err = self.main("--demo")
        self.assertEqual((code, err), (130, "agent.py: stopped.\n"))
        self.assertIn("stopped: Ctrl+C, twice.", out)
        self.assertEqual(self.records()[-1]["outcome"], "stopped")

    def test_a_task_is_read_from_a_window_that_gives_text_and_no_bytes(self) -> None:
        window = io.StringIO("Open Notepad and write: hello\n")  # as IDLE's, it has no buffer
        with desktop_of_main(agent.DemoDesktop):
            demo = agent.DemoModel()
            self.addCleanup(demo.close)
            self.main("--endpoint", demo.endpoint, "--max-steps", "1", stdin=window)
        self.assertEqual(self.records()[0]["task"], "Open Notepad and write: hello")


if __name__ == "__main__":
    unittest.main()
