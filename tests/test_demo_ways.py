"""The demo's model in the ways that are not the usual one: tools in the text, and a dry run."""

from __future__ import annotations

import unittest

import agent
from tests.samples import sample
from tests.seams import desktop_of_main
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

    def test_is_asked_in_its_own_grammar_where_the_profile_asks_so(self) -> None:
        _, out, _ = self.main("--demo", "--profile", "native", "--max-steps", "1")
        self.assertIn("is asked in the grammar qwen3-vl.", out)

    def test_completes_from_small_pictures(self) -> None:
        small = ("--set", "screen_capture_w=512", "--set", "screen_capture_h=288")
        for profile in sample(tuple(agent.PROFILES), ("native", "pointer")):
            with self.subTest(profile):
                code, out, _ = self.main("--demo", "--profile", profile, *small)
                self.assertEqual(code, 0, out)
                self.assertIn("completed: ", out)

    def test_a_grammar_that_its_model_does_not_speak_is_refused(self) -> None:
        code, _, err = self.main("--demo", "--profile", "native", "--grammar", "ui-tars-1.5")
        self.assertEqual((code, err.count("\n")), (2, 1), err)
        self.assertIn("speaks tools or qwen3-vl; leave out --no-vision and --grammar.", err)

    def test_ends_a_dry_run_by_itself_once_nothing_more_can_be_seen(self) -> None:
        for profile in agent.PROFILES:
            with self.subTest(profile):
                code, out, _ = self.main(
                    "--demo", "--profile", profile, "--dry-run", "--max-steps", "6"
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


class Findings(CommandLineCase):
    def test_what_a_server_does_not_tell_of_its_model_is_said_in_words(self) -> None:
        server = agent.DemoModel()
        self.addCleanup(server.close)
        answers = server.respond
        bare = {"data": [{"id": "x-vl"}]}
        server.respond = lambda body: answers(body) if body else bare
        with desktop_of_main(agent.DemoDesktop):
            _, out, _ = self.main("--check", "--endpoint", server.endpoint)
        self.assertIn("the server does not tell how many tokens", out)


if __name__ == "__main__":
    unittest.main()
