"""The demo's model in the ways that are not the usual one: tools in the text, and a dry run."""

from __future__ import annotations

import unittest

import agent
from tests.test_main import CommandLineCase


class TheDemo(CommandLineCase):
    def test_completes_where_the_tools_stand_in_the_text(self) -> None:
        for profile in ("planner", "commander", "chat", "pointer"):
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


if __name__ == "__main__":
    unittest.main()
