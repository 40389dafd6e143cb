"""A model that errs: a completion is believed when two answers agree, and no file says otherwise."""

from __future__ import annotations

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent
from tests.bench import erring
from tests.samples import sample
from tests.scripted import FEWER_REQUESTS, call, text, user_text
from tests.test_proof import CHECKS, DONE, Judged, role

YES = "1 YES: a\n2 YES: b"
NO = "1 YES: a\n2 NO: a star"
LIAR = replace(erring.FULL, claim=0.5, verifier=1)  # and one who believes it
MISSING = "What is still missing?"
SIZE = {"screen_capture_w": 512, "screen_capture_h": 288}  # of the drawn desktop; larger is slower


class SecondOpinion(Judged):
    def opinions(self, *verdicts: str, **settings: Any) -> agent.Outcome:
        return self.claims(*verdicts, second_opinion=True, **settings)

    def test_a_completion_is_believed_when_four_more_say_yes_than_no(self) -> None:
        self.assertEqual(self.opinions(YES).kind, "completed")
        first, second, _, _ = self.asked("verifier")
        self.assertIn("CLAIM", first)
        self.assertNotIn("CLAIM", second)  # by which a judge is led
        self.assertIn(MISSING, second)
        self.assertIn("2. The title bar has no star.", second)

    def test_where_they_disagree_it_is_asked_on_and_told_of_it(self) -> None:
        self.assertEqual(self.opinions(YES, NO, YES).kind, "completed")
        self.assertEqual(len(self.asked("verifier")), 6)
        self.assertIn("1 earlier look said NO", self.asked("verifier")[2])
        for verdicts, asked in (((YES, NO, NO), 3), ((YES, NO, YES, NO, YES, NO), 6)):
            outcome = self.opinions(*verdicts, not_proven_most=1)
            self.assertEqual((outcome.kind, len(self.asked("verifier"))), ("not_proven", asked))
            self.assertIn("a star", outcome.text)

    def test_a_new_file_that_holds_what_a_check_quotes_needs_no_further_question(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.txt")
            checks = (f'{path} holds "Grüße".', "The title bar has no star.")
            for held, asked in (("Grüße", 1), ("Gruß", 1), ("", 1)):
                path.unlink(missing_ok=True)

                def save(text: str = held) -> None:
                    path.write_bytes(text.encode("utf-16"))

                task = f"Save it as {path}"
                outcome = self.opinions(
                    YES, task=task, checks=checks, happens=save, not_proven_most=1
                )
                self.assertEqual(outcome.kind == "completed", held == "Grüße")
                self.assertEqual(len(self.asked("verifier")), asked)
            # What was there before proves nothing, nor what may have been.
            path.unlink()
            path.mkdir()  # which cannot be read
            for after in ("Grüße", "Grüße", "Grüße!"):

                def change(text: str = after) -> None:
                    if path.is_dir():
                        path.rmdir()
                    path.write_text(text, encoding="utf-8")

                self.opinions(YES, task=task, checks=checks, happens=change, not_proven_most=1)
                self.assertEqual(len(self.asked("verifier")), 4)

    def test_a_refusal_needs_no_second_answer(self) -> None:
        self.opinions(NO, not_proven_most=1)
        self.assertEqual(len(self.asked("verifier")), 1)


class WhatCounts(Judged):
    base = FEWER_REQUESTS

    def test_refusals_between_which_something_new_was_done_do_not_end_the_run(self) -> None:
        clicks = iter(range(1, 100))

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            who = role(request)
            if who == "planner":
                return call("update_execution_plan", instructions="Go.", done_when=list(CHECKS))
            if who == "verifier":
                return text(NO)
            if next(clicks) % 2:
                return DONE
            return call("click_screen_element", element_name="Button", position=[500, 500])

        trial = self.trial(decide, max_steps=20)
        self.assertEqual(trial.run().kind, "max_steps")

    def test_in_a_conversation_words_and_the_same_words_again_are_no_claims_yet(self) -> None:
        answers = iter(range(100))

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role(request) == "verifier":
                return text("NO: it is not")
            if next(answers) % 3 == 2:
                return call("observe_screen")
            return text("I will press the button now.")

        trial = self.trial(decide, "chat", verify_completion=True, stall_stop=8)
        self.assertEqual(trial.run().kind, "stuck")
        self.assertEqual(trial.records("verification"), [])

    def test_refusals_that_end_a_run_are_looked_into_once_more(self) -> None:
        def decide(request: dict[str, Any]) -> dict[str, Any]:
            who = role(request)
            if who == "planner":
                return call("update_execution_plan", instructions="Go.", done_when=list(CHECKS))
            if who == "verifier":
                return text(
                    YES
                    if "none; the run is about to end, so judge by the screenshot alone"
                    in user_text(request)
                    else NO
                )
            if not clicked:
                clicked.append(True)
                return call("click_screen_element", element_name="Button", position=[500, 500])
            return DONE

        for last_look, kind in ((True, "completed"), (False, "not_proven")):
            clicked: list[bool] = []
            trial = self.trial(decide, last_look=last_look)
            self.assertEqual(trial.run().kind, kind)


class ErringModels(unittest.TestCase):
    def test_a_run_ends_and_a_file_that_is_not_there_is_never_believed(self) -> None:
        for number, profile in enumerate(sample(erring.PROFILES, erring.PROFILES[4:])):
            with self.subTest(profile):
                result = erring.run(
                    profile,
                    number % 2,
                    5,
                    LIAR,
                    settings={"max_steps": 4, "not_proven_most": 1, **SIZE},
                )
                self.assertNotEqual(result.outcome.kind, "error", result.outcome.text)
                self.assertFalse(result.completed and not result.done)

    def test_a_model_that_does_not_err_completes_and_is_asked_less_often(self) -> None:
        result = erring.run("native", 2, 1, erring.RATES["none"]("native"), settings=SIZE)
        self.assertTrue(result.completed and result.done)
        self.assertEqual(result.asked["verifier"], 2)

    def test_a_task_proves_its_file_though_no_check_of_the_plan_names_it(self) -> None:
        result = erring.run("planner", 1, 1, erring.RATES["none"]("planner"), settings=SIZE)
        self.assertTrue(result.completed and result.done)
        self.assertEqual(result.asked["verifier"], 1)


if __name__ == "__main__":
    unittest.main()
