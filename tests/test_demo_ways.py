"""The demo's model in the ways that are not the usual one: tools in the text, and a dry run."""

from __future__ import annotations

import unittest
from unittest import mock

import agent
from tests.samples import sample
from tests.test_main import CommandLineCase


class TheDemo(CommandLineCase):
    def test_completes_where_the_tools_stand_in_the_text(self) -> None:
        for profile in sample(
            ("planner", "commander", "chat", "pointer"), ("commander", "pointer")
        ):
            with self.subTest(profile):
                code, out, _ = self.main("--demo", "--profile", profile, "--set", "calls=text")
                self.assertEqual(code, 0, out)
                self.assertIn("completed: ", out)

    def test_ends_a_dry_run_by_itself_once_nothing_more_can_be_seen(self) -> None:
        for profile in agent.PROFILES:
            with self.subTest(profile):
                code, out, _ = self.main(
                    "--demo", "settings", "--profile", profile, "--dry-run", "--max-steps", "6"
                )
                self.assertEqual(code, 0, out)
                self.assertRegex(out, r"Dry run: would (double click|click|move) ")
                self.assertIn("none of the later steps comes into view", " ".join(out.split()))
                self.assertIn(", 0 acts, ", out)

    def test_is_examined_without_a_server(self) -> None:
        code, out, _ = self.main("--demo", "--check")
        self.assertEqual(code, 0, out)
        self.assertIn("the demo's own", out)


class WrongUse(CommandLineCase):
    def test_an_option_without_what_stands_behind_it_is_shown_as_it_is_used(self) -> None:
        for words, wanted in {
            ("--stats",): "--stats RUN",
            ("--report",): "--report RUN [FILE]",
            ("--max-steps",): "--max-steps N",
        }.items():
            code, _, err = self.main(*words)
            self.assertEqual(code, 2)
            self.assertTrue(err.endswith(f"; use it as in {wanted}.\n"), err)


class Findings(unittest.TestCase):
    def test_what_a_server_does_not_tell_of_its_model_is_said_in_words(self) -> None:
        server = mock.Mock(where="here")
        server.discover.return_value = agent.ModelInfo("x", vision=True, note="Using the model x.")
        server.complete.side_effect = agent.ModelError("gone")
        found = agent.check_model(agent.Config(), agent.PROFILES["planner"], server)
        texts = {finding.what: finding.text for finding in found}
        self.assertEqual(
            (texts["model"], texts["context"]),
            ("x, sees pictures; Using the model x.", "the server does not tell how many tokens"),
        )


if __name__ == "__main__":
    unittest.main()
