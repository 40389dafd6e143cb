"""What people doubted on the command line: options passed over, faults told late or in odd words."""

from __future__ import annotations

import argparse
import os
import unittest
from typing import Any
from unittest import mock

import agent
from tests.seams import person_there
from tests.test_actuator import Stage
from tests.test_main import CommandLineCase


class Refused(CommandLineCase):
    def refused(self, *argv: str) -> str:
        code, out, err = self.main(*argv)
        self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
        return err

    def test_an_option_of_runs_beside_something_else_is_refused(self) -> None:
        for words, told in (
            (("--resume", "--profile", "chat"), "--profile and --resume do not go together"),
            (("--check", "--panel"), "--panel and --check do not go together"),
            (("--check", "--secret", "PIN"), "--secret and --check do not go together"),
            (("--runs", "--panel"), "--panel and --runs do not go together"),
        ):
            self.assertIn(told, self.refused(*words))
        for kept in (["--resume", "--panel"], ["--replay", "1", "--dry-run"]):
            agent.read_options(kept)

    def test_settings_with_wrong_keys_are_told_before_the_task_is_asked_for(self) -> None:
        with mock.patch.object(agent, "read_task", side_effect=AssertionError("asked")):
            said = self.refused("--demo", "--set", "blocked_keys=ctrl+nokey")
        self.assertIn("nokey", said)

    def test_a_file_that_is_missing_is_told_as_missing(self) -> None:
        said = self.refused("--config", "no.json")
        self.assertIn("no.json is not there; correct its name", said)

    def test_a_setting_that_stands_twice_is_refused(self) -> None:
        path = self.folder / "twice.json"
        path.write_text('{"max_steps": 3, "max_steps": 30}', encoding="utf-8")
        said = self.refused("--demo", "--config", str(path))
        self.assertIn("'max_steps' stands there twice", said)

    def test_a_file_where_the_runs_should_be_is_told_as_one(self) -> None:
        path = self.folder / "file"
        path.touch()
        code, _, err = self.main("--demo", "--set", f"dump_dir={path}")
        self.assertEqual(code, 2)
        self.assertIn(
            "(a file of that name is there); choose another with --set dump_dir=FOLDER", err
        )


class Secrets(unittest.TestCase):
    def test_a_name_that_is_none_is_told_which_are(self) -> None:
        with self.assertRaisesRegex(agent.ConfigError, "letters, digits and _ only"):
            agent.read_secrets(["a-b"])

    def test_the_end_of_input_at_the_prompt_is_no_value(self) -> None:
        ended = mock.patch("getpass.getpass", side_effect=EOFError)
        with person_there(), ended, self.assertRaisesRegex(agent.ConfigError, "--secret NOT_SET"):
            agent.read_secrets(["NOT_SET"])

    def test_braces_around_other_things_need_no_value(self) -> None:
        secrets = agent.Secrets({"PIN": "12345678"})
        self.assertEqual(secrets.unknown("{{ PIN }} {{ a.b }} {{}} {{"), [])
        self.assertEqual(secrets.unknown("{{OTHER}}"), ["OTHER"])


class FullDisk(CommandLineCase):
    def test_a_text_that_cannot_be_written_whole_leaves_no_half(self) -> None:
        target = self.folder / "half.py"
        written = mock.Mock(wraps=open)

        def full(*given: Any, **more: Any) -> Any:
            stream = written(*given, **more)
            whole = mock.MagicMock(wraps=stream)
            whole.__enter__.return_value.write.side_effect = OSError(28, "No space left on device")
            whole.__exit__.side_effect = lambda *_: stream.close()
            return whole

        refused = self.assertRaisesRegex(agent.ConfigError, "No space left")
        with mock.patch("builtins.open", full), refused:
            agent.write_text(target, "text", "x")
        self.assertFalse(target.exists())
        target.write_text("mine", encoding="utf-8")
        with self.assertRaisesRegex(agent.ConfigError, "exists"):
            agent.write_text(target, "text", "x")
        self.assertEqual(target.read_text(encoding="utf-8"), "mine")


class Rows(unittest.TestCase):
    def test_an_error_on_a_terminal_has_rows_that_end_between_words(self) -> None:
        error = "agent.py: " + "several words " * 20
        self.assertEqual(agent.in_rows(error), error)
        size = os.terminal_size((80, 24))
        with (
            mock.patch("sys.stderr", argparse.Namespace(isatty=lambda: True)),
            mock.patch("shutil.get_terminal_size", lambda: size),
        ):
            rows = agent.in_rows(error).split("\n")
        self.assertLess(max(map(len, rows)), 80)
        self.assertEqual(" ".join(rows).split(), error.split())


class Tables(unittest.TestCase):
    def test_the_reasons_of_a_question_say_what_they_mean_where_there_is_room(self) -> None:
        asked: list[str] = []
        stage = Stage()
        stage.actuator.confirm = lambda question: bool(asked.append(question))
        stage.attempt("click", element_name="Shut down", position=[300, 400])
        self.assertTrue(asked[0].endswith(": power (turns off or signs out)"), asked)


class Verdicts(CommandLineCase):
    def test_what_is_not_known_is_a_note_and_no_failure(self) -> None:
        findings = [
            agent.Finding("screen", True, "there"),
            agent.Finding("controls", True, "UI Automation: nothing", note=True),
        ]
        with mock.patch.object(agent, "examine", lambda *_: iter(findings)):
            code, out, _ = self.main("--check")
        self.assertEqual(code, 0)
        self.assertEqual([line.split()[0] for line in out.splitlines()], ["ok", "note"])
        with mock.patch.object(
            agent, "examine", lambda *_: iter([findings[1]._replace(fine=False)])
        ):
            self.assertEqual(self.main("--check")[0], agent.Win32Error.exit_code)
