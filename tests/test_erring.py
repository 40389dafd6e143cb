"""A model that errs: a completion is believed when two answers agree, and no file says otherwise."""

from __future__ import annotations

import itertools
import tempfile
import unittest
from functools import partial
from pathlib import Path
from typing import Any

import agent
from tests.bench import erring
from tests.samples import sample
from tests.scripted import FEWER_REQUESTS, call, role_of, text, user_text
from tests.test_proof import CHECKS, DONE, Judged

YES = "1 YES: a\n2 YES: b"
NO = "1 YES: a\n2 NO: a star"
LIAR = {"claim": 0.5, "verifier": 1}  # and one who believes it
SIZE = {"screen_capture_w": 512, "screen_capture_h": 288}  # of the drawn desktop; larger is slower
CLICK = call("click_screen_element", element_name="Button", position=[500, 500])
ALONE = "none; the run is about to end, so judge by the screenshot alone"


class SecondOpinion(Judged):
    def opinions(self, *verdicts: str, **settings: Any) -> agent.Outcome:
        return self.claims(*verdicts, second_opinion=True, not_proven_most=1, **settings)

    def test_a_completion_is_believed_when_four_more_say_yes_than_no_and_each_is_told_of_no(
        self,
    ) -> None:
        for verdicts, kind, asked in (
            ((YES,), "completed", 4),
            ((YES, NO, YES), "completed", 6),
            ((YES, NO, NO), "not_proven", 3),
            ((YES, NO, YES, NO, YES, NO), "not_proven", 6),
            ((NO,), "not_proven", 1),  # a refusal needs no second answer
        ):
            outcome, found = self.opinions(*verdicts), self.asked("verifier")
            self.assertEqual((outcome.kind, len(found)), (kind, asked))
            self.assertEqual("a star" in outcome.text, kind == "not_proven")
            self.assertIn("CLAIM", found[0])
            for again in found[1:2]:
                self.assertNotIn("CLAIM", again)  # by which a judge is led
                self.assertIn("What is still missing?", again)
                self.assertIn("2. The title bar has no star.", again)
            for later in found[2:3]:
                self.assertEqual("1 earlier look said NO" in later, verdicts[1:2] == (NO,))

    def test_a_new_file_that_holds_what_a_check_quotes_needs_no_further_question(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.txt")
            checks = (f'{path} holds "Grüße".', "The title bar has no star.")
            ask = partial(self.opinions, YES, task=f"Save it as {path}", checks=checks)
            for held in ("Grüße", "Gruß", ""):
                path.unlink(missing_ok=True)
                save = partial(path.write_bytes, held.encode("utf-16"))
                self.assertEqual(ask(happens=save).kind == "completed", held == "Grüße")
                self.assertEqual(len(self.asked("verifier")), 1)
            # What was there before proves nothing, nor what may have been.
            path.unlink()
            path.mkdir()  # which cannot be read
            for after in ("Grüße", "Grüße", "Grüße!"):

                def change(text: str = after) -> None:
                    if path.is_dir():
                        path.rmdir()
                    path.write_text(text, encoding="utf-8")

                ask(happens=change)
                self.assertEqual(len(self.asked("verifier")), 4)


class WhatCounts(Judged):
    base = FEWER_REQUESTS

    def ended(
        self,
        acts: Any,
        verdict: Any = lambda request: NO,
        profile: str = "planner",
        **settings: Any,
    ) -> str:
        """How a run ends whose executor does these acts, each time judged so."""
        plan = call("update_execution_plan", instructions="Go.", done_when=list(CHECKS))

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            who = role_of(request)
            if who == "verifier":
                return text(verdict(request))
            return plan if who == "planner" else next(acts)

        self.made = self.trial(decide, profile, **settings)
        return self.made.run().kind

    def test_refusals_between_which_something_new_was_done_do_not_end_the_run(self) -> None:
        self.assertEqual(self.ended(itertools.cycle((DONE, CLICK)), max_steps=20), "max_steps")

    def test_in_a_conversation_words_and_the_same_words_again_are_no_claims_yet(self) -> None:
        words = text("I will press the button now.")
        acts = itertools.cycle((words, words, call("observe_screen")))
        kind = self.ended(acts, profile="chat", verify_completion=True, stall_stop=8)
        self.assertEqual((kind, self.made.records("verification")), ("stuck", []))

    def test_refusals_that_end_a_run_are_looked_into_once_more(self) -> None:
        def verdict(request: dict[str, Any]) -> str:
            return YES if ALONE in user_text(request) else NO

        for last_look, kind in ((True, "completed"), (False, "not_proven")):
            acts = itertools.chain([CLICK], itertools.repeat(DONE))
            self.assertEqual(self.ended(acts, verdict, last_look=last_look), kind)


class ErringModels(unittest.TestCase):
    def test_a_run_ends_and_a_file_that_is_not_there_is_never_believed(self) -> None:
        for number, profile in enumerate(sample(erring.PROFILES, erring.PROFILES[4:])):
            few = {"max_steps": 4, "not_proven_most": 1, **SIZE}
            result = erring.run(profile, number % 2, 5, 1, LIAR, **few)
            self.assertNotEqual(result.outcome.kind, "error", (profile, result.outcome.text))
            self.assertFalse(result.completed and not result.done, profile)

    def test_a_model_that_does_not_err_completes_and_is_asked_less_often(self) -> None:
        # A task proves its file though no check of the plan names it.
        for profile, number, asked in (("native", 2, 2), ("planner", 1, 1)):
            result = erring.run(profile, number, 1, 0, **SIZE)
            self.assertTrue(result.completed and result.done)
            self.assertEqual(result.asked["verifier"], asked)

    def test_one_whose_replies_lose_their_form_or_whose_acts_do_nothing_is_asked_more_often(
        self,
    ) -> None:
        for slip in ("prose", "repeat"):
            result = erring.run("native", 2, 3, 0, {slip: 0.4}, **SIZE)
            self.assertTrue(result.completed and result.done, slip)
            self.assertGreater(result.asked["verifier"], 2, slip)


if __name__ == "__main__":
    unittest.main()
