"""What people doubted on the command line: options passed over, faults told late or in odd words."""

from __future__ import annotations

import contextlib
import io
import unittest
from typing import Any
from unittest import mock

import agent
from tests.seams import person_there, terminal_columns
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

    def test_settings_with_wrong_keys_are_told_before_the_task_is_asked_for(self) -> None:
        with person_there():  # who would be asked on stdout
            said = self.refused("--set", "blocked_keys=ctrl+nokey")
        self.assertIn("nokey", said)

    def test_a_setting_that_stands_twice_is_refused(self) -> None:
        path = self.folder / "twice.json"
        path.write_text('{"max_steps": 3, "max_steps": 30}', encoding="utf-8")
        said = self.refused("--demo", "--config", str(path))
        self.assertIn("'max_steps' stands there twice", said)


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
        self.recorded()
        target = self.folder / "half.html"
        opened = open

        def full(path: Any, *given: Any, **more: Any) -> Any:
            stream = opened(path, *given, **more)
            if str(path) == str(target):
                stream.write = mock.Mock(side_effect=OSError(28, "No space left on device"))
            return stream

        with mock.patch("builtins.open", full):
            code, _, err = self.main("--report", "1", str(target))
        self.assertEqual((code, target.exists()), (2, False))
        self.assertIn("No space left", err)


class Rows(unittest.TestCase):
    def test_an_error_on_a_terminal_has_rows_that_end_between_words(self) -> None:
        screen = io.StringIO()
        with contextlib.redirect_stderr(screen), terminal_columns(80):
            for terminal in (False, True):
                with mock.patch.object(screen, "isatty", lambda there=terminal: there):
                    agent.main(["--config", "several words " * 10])
        plain, *rows = screen.getvalue().splitlines()
        self.assertGreater(len(plain), 80)
        self.assertLess(max(map(len, rows)), 80)
        self.assertEqual(" ".join(rows).split(), plain.split())


class Tables(unittest.TestCase):
    def test_the_reasons_of_a_question_say_what_they_mean_where_there_is_room(self) -> None:
        asked: list[str] = []
        stage = Stage()
        stage.actuator.confirm = lambda question: bool(asked.append(question))
        stage.attempt("click", element_name="Shut down", position=[300, 400])
        self.assertTrue(asked[0].endswith(": power (turns off or signs out)"), asked)
