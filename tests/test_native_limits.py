"""What a model in its own grammar is spared and told: waits, full contexts, recovery keys, what its thoughts cost."""

from __future__ import annotations

import unittest
from typing import Any

import agent
from tests.scripted import FEWER_REQUESTS, Trial, text
from tests.test_native import (
    CLICK,
    DONE,
    Message,
    NativeCase,
    answers,
    is_verifier,
    said,
    words_of,
)

THOUGHT = "The button is grey, and grey buttons are pressed. "


class Waits(NativeCase):
    def test_a_wait_ends_as_soon_as_the_screen_has_changed_and_come_to_rest(self) -> None:
        replies = answers(said("wait", time=40), DONE)
        trial = self.trial(replies, "native", executor_grammar="qwen3-vl")
        desktop = trial.desktop
        # Something is painted 3 seconds into the wait.
        paint = [("painted",)] * 3
        began = trial.clock.now()
        trial.clock.at(3, lambda: desktop.inputs.extend(paint))
        self.assertEqual(trial.run().kind, "completed")
        waited = trial.history[0]
        self.assertRegex(waited.result, r"^Waited \d s; the screen changed$")
        self.assertLess(trial.clock.now() - began, 20)

    def test_a_wait_in_which_nothing_changes_takes_its_time_and_says_so(self) -> None:
        trial, state, _ = self.play(said("wait", time=7), DONE, keep_last_screenshots=1)
        waited = trial.history[0]
        self.assertEqual(waited.result, "Waited 7 s; the screen did not change")
        self.assertIn("(Waited 7 s; the screen did not change)", words_of(self.asked(trial)[1]))


class FullContexts(NativeCase):
    """A server with a smaller context than it told."""

    base = FEWER_REQUESTS

    def full(self, most_pictures: int) -> tuple[Trial, agent.Outcome | agent.ModelError]:
        def decide(request: dict[str, Any]) -> Message:
            if is_verifier(request):
                return text("YES: it is")
            if str(request["messages"]).count("image_url'") > 2 * most_pictures:
                raise agent.ModelError("The context is full.", "context")
            return left.pop(0)

        left = [CLICK, CLICK, CLICK, CLICK, DONE]
        trial = self.trial(decide, "native", executor_grammar="qwen3-vl")
        try:
            return trial, trial.run()
        except agent.ModelError as error:
            return trial, error

    def test_older_pictures_go_and_the_request_is_sent_once_more(self) -> None:
        trial, outcome = self.full(most_pictures=2)
        self.assertEqual(getattr(outcome, "kind", ""), "completed")
        asked = self.asked(trial)
        images = [str(request["messages"]).count("image/png") for request in asked]
        self.assertEqual(images[:4], [1, 2, 3, 1])
        again = words_of(asked[3])
        self.assertIn("Step 1: (earlier steps, left out)\nStep 2: Click the button", again)
        tools = [record["tool"] for record in trial.records("action")]
        self.assertNotIn("no_call", tools)

    def test_what_does_not_fit_even_then_ends_the_run_at_once(self) -> None:
        trial, error = self.full(most_pictures=0)
        self.assertEqual(getattr(error, "kind", ""), "context")
        self.assertEqual(len(self.asked(trial)), 2)


class SmallContexts(NativeCase):
    def test_a_picture_costs_what_the_model_makes_of_it(self) -> None:
        wanted = {"qwen3-vl": 3600, "gui-owl-1.5": 3600, "ui-tars-1.5": 4702}
        for name, tokens in wanted.items():
            rule = agent.GRAMMARS[name].picture
            self.assertEqual(rule.tokens(agent.Size(2560, 1440)), tokens)


class RecoveryKeys(NativeCase):
    def test_the_model_is_told_once_of_keys_that_it_did_not_press(self) -> None:
        trial = self.trial(answers(CLICK), "native", executor_grammar="qwen3-vl")
        trial.desktop.dead = True
        trial.run()
        told = [
            "The program pressed Escape and opened the Start menu; look again." in words_of(request)
            for request in self.asked(trial)
        ]
        recovery = trial.config.stall_after(3)  # turns without progress until then
        self.assertEqual(told.index(True), recovery)
        self.assertEqual(told.count(True), 1)


class Corrections(unittest.TestCase):
    def told(self, grammar: str, reply: Message) -> str:
        try:
            agent.GRAMMARS[grammar].read(reply, "stop", (1536, 864))
        except agent.ReplyError as error:
            return agent.GRAMMARS[grammar].correction(error)
        raise AssertionError("it was read")

    def test_a_place_beyond_its_space_is_refused_with_the_space_that_was_announced(self) -> None:
        on_grid = self.told("qwen3-vl", said("left_click", coordinate=[1290, 540]))
        self.assertIn("x from 0 to 1000 and y from 0 to 1000, not [1290, 540]", on_grid)
        beyond = text("Thought: It is there.\nAction: click(start_box='(1700,2)')")
        self.assertIn("x from 0 to 1540 and y from 0 to 868", self.told("ui-tars-1.5", beyond))


class Thoughts(NativeCase):
    def cost(self, reply: Message, grammar: str, done: Message) -> agent.Book:
        """The book of a run whose first reply is that one."""
        trial, _, outcome = self.play(reply, done, grammar=grammar)
        self.assertEqual(outcome.kind, "completed")
        folder = trial.folder
        trial.close()
        book = agent.book_of(folder)
        self.assertEqual(book.run["sums"]["thought"], trial.thought_tokens)
        return book

    def test_statistics_and_page_say_what_the_thoughts_of_a_turn_cost(self) -> None:
        thinking = {**CLICK, "reasoning_content": THOUGHT * 4}
        book = self.cost(thinking, "qwen3-vl", DONE)
        tokens = len((THOUGHT * 4).strip()) // 4
        self.assertEqual(book.run["sums"]["thought"], tokens)
        self.assertEqual(dict(book.figures())["of them thought, about"], str(tokens))
        items = [item["sums"]["thought"] for item in book.items if "thought" in item["sums"]]
        self.assertEqual(items[0], tokens)


if __name__ == "__main__":
    unittest.main()
