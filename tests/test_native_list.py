"""The list of controls for a model that is asked in its own grammar, with places as that grammar says them."""

from __future__ import annotations

import unittest

import agent
from tests.scripted import PlainDesktop
from tests.test_native import CLICK, DONE, NativeCase, answers, words_of

SAVE = agent.Control("Save", "button", agent.Rect(16, 9, 32, 18), window=1)


class Lists(NativeCase):
    def words(self, grammar: str, controls: str) -> list[str]:
        """What the model is told in two turns beside its pictures, a Save button being known."""
        trial = self.trial(
            answers(CLICK, DONE), "native", executor_grammar=grammar, controls=controls, max_steps=2
        )
        desktop = trial.desktop
        assert isinstance(desktop, PlainDesktop)
        desktop.control_source = agent.KnownControls([SAVE])
        self.begin(trial)
        trial.run()
        return [words_of(request) for request in self.asked(trial)[:2]]

    def test_the_controls_in_front_are_told_with_each_picture(self) -> None:
        for words in self.words("qwen3-vl", "list"):
            self.assertEqual(words.count("CONTROLS (name · role · x,y):\nSave · button · "), 1)

    def test_nothing_is_listed_unless_it_is_wanted(self) -> None:
        for words in self.words("qwen3-vl", "check"):
            self.assertNotIn("CONTROLS", words)

    def test_places_are_those_that_the_grammar_says(self) -> None:
        """In the middle of a picture that qwen2.5-vl sees in 56x56 pixels."""
        self.assertIn("Save · button · 508,514", self.words("qwen3-vl", "list")[0])
        self.assertIn("Save · button · 28,29", self.words("qwen2.5-vl", "list")[0])


if __name__ == "__main__":
    unittest.main()
