"""What whoever watches a run is told once, and the picture of the screen at rest after an act."""

from __future__ import annotations

import unittest

import agent
from tests.scripted import EngineCase, Trial, call
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


def at_rest(items: list[agent.Item]) -> list[agent.Frame]:
    shown = [item.screen for item in items if isinstance(item, agent.Shown)]
    return [screen for screen in shown if isinstance(screen, agent.Frame)]


class InARun(EngineCase):
    def typed(self, text: str) -> tuple[list[agent.Item], Trial]:
        """What a run publishes of one act."""
        trial = self.trial(lambda request: call("none"), confirm="never")
        trial.hidden = agent.Secrets({"PASSWORD": "battery"})
        items: list[agent.Item] = []
        trial.listen(items.append)
        look = trial.look(1)
        typing = agent.ToolCall("type_text_input", {"text": text})
        trial.perform(trial.profile.vocabulary.parse(typing), look, 1)
        return items, trial

    def test_the_frame_that_an_act_took_anyway_is_shown_before_its_result_and_no_other(
        self,
    ) -> None:
        items, trial = self.typed("hello")
        kinds = [type(item).__name__ for item in items if type(item).__name__ != "Phase"]
        self.assertEqual(kinds[-3:], ["IntentRecord", "Shown", "ResultRecord"])
        (shown,) = at_rest(items)
        self.assertEqual((shown.number, trial.desktop.number), (2, 2))

    def test_where_a_secret_was_typed_only_a_look_shows_the_screen(self) -> None:
        items, _ = self.typed("{{PASSWORD}}")
        self.assertFalse(at_rest(items))


if __name__ == "__main__":
    unittest.main()
