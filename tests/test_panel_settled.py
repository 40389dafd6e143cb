"""What whoever watches a run is told once, and the picture of the screen at rest after an act."""

from __future__ import annotations

import unittest

from tests.test_main import CommandLineCase


class SaidOnce(CommandLineCase):
    def test_the_answer_that_ends_a_chat_stands_at_the_end_and_not_in_its_row_too(self) -> None:
        for number, profile in enumerate(("chat", "pointer"), 1):
            code, out, _ = self.main("--demo", "--profile", profile)
            words = "Notes shows its green mark, so the text is saved."
            self.assertEqual((code, out.count(words)), (0, 1), out)
            self.assertIn(f"\ncompleted: {words}\n", out)
            self.assertRegex(out, r"final_answer +Mission complete")
            action = next(row for row in self.records(number)[::-1] if row["kind"] == "action")
            self.assertEqual(action["response_text"], words)


if __name__ == "__main__":
    unittest.main()
