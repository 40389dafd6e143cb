"""A model in its own grammar hears what its picture does not show: why a step was refused, and no step twice."""

from __future__ import annotations

import unittest
from typing import Any

from tests.scripted import FEWER_REQUESTS, text
from tests.test_native import CLICK, DONE, NativeCase, said, words_of


class Results(NativeCase):
    base = FEWER_REQUESTS

    def words(self, *replies: dict[str, Any], verdict: str = "YES: it is") -> list[str]:
        """What each request of a run says, whose turns are as many as the replies."""
        trial, _, _ = self.play(*replies, verdict=verdict, max_steps=len(replies))
        return [words_of(request) for request in self.asked(trial)]

    def test_a_refused_end_is_told_with_what_is_missing(self) -> None:
        _, after, later = self.words(DONE, CLICK, CLICK, verdict="NO: the file is missing")
        self.assertIn("the file is missing", after)
        self.assertNotIn("the file is missing", later)

    def test_a_blocked_key_is_told(self) -> None:
        _, after = self.words(said("key", "Lock", keys=["win", "l"]), CLICK)
        self.assertIn("Your last step: Not done: ", after)

    def test_what_came_of_asking_the_person_is_told(self) -> None:
        trial = self.trial(
            lambda _: said("interact", text="Log in."),
            "native",
            executor_grammar="gui-owl-1.5",
            max_steps=2,
        )
        trial.run()
        self.assertIn(
            "The person was asked and did not do it; go on without, or end with failure.",
            words_of(self.asked(trial)[1]),
        )

    def test_what_the_picture_shows_is_not_told(self) -> None:
        _, after = self.words(CLICK, CLICK)
        self.assertNotIn("Your last step", after)

    def test_no_step_is_told_that_is_shown_anyway(self) -> None:
        lost = [text("Hm.")] * 3  # the first one and its corrections: a turn without a call
        after = self.words(CLICK, *lost, CLICK)[4]
        self.assertEqual(after.count("Click the button"), 1)


if __name__ == "__main__":
    unittest.main()
