"""Three of ten replies malformed in the ways of their grammar, and every action that a grammar has."""

from __future__ import annotations

import unittest
from unittest import mock

import agent
from tests import native_noise
from tests.native_noise import COMPLETE_LEAST, RUNS, WAYS, noisy_runs
from tests.samples import sample
from tests.spoken import spoken
from tests.test_native import NativeCase

SOME = sample(RUNS, 2)  # runs of each grammar

# A value of each kind of argument, as a grammar in the space of 0..1000 may give it.
# Acts that need no tool: the program itself looks, waits, asks the person, or ends the run.


class Noise(unittest.TestCase):
    def test_with_three_of_ten_replies_malformed_nineteen_of_twenty_runs_complete(self) -> None:
        """The first runs of each grammar; `python -m tests.native_noise` has all twenty of each."""
        runs = completed = 0
        for grammar in sample(list(agent.GRAMMARS.values()), list(agent.GRAMMARS.values())[::3]):
            with self.subTest(grammar.name):
                noise = noisy_runs(grammar, runs=SOME)
                self.assertGreaterEqual(noise.completed, SOME - RUNS + COMPLETE_LEAST, str(noise))
                self.assertEqual(noise.wrong, 0, str(noise))
                self.assertGreater(noise.refused, 0)
                runs += SOME
                completed += noise.completed
        self.assertGreaterEqual(completed / runs, COMPLETE_LEAST / RUNS)

    def test_every_grammar_has_ways_and_each_of_them_changes_some_reply(self) -> None:
        self.assertEqual(set(WAYS), {grammar.name for grammar in agent.GRAMMARS.values()})
        for grammar in agent.GRAMMARS.values():
            said = [
                spoken(grammar, "click", [100, 500]),
                spoken(grammar, "key"),
                spoken(grammar, "end"),
            ]
            for way, spoil in WAYS[grammar.name].items():
                with self.subTest(grammar.name, way=way):
                    self.assertTrue(any(spoil(good) != good for good in said))

    def test_a_wrong_act_is_seen_and_fails_the_program(self) -> None:
        grammar = agent.GRAMMARS["qwen3-vl"]
        aside = {"aside": native_noise.changed(("[100,", "[900,"))}
        with mock.patch.dict(WAYS, {grammar.name: aside | native_noise.COMMON}):
            noise = noisy_runs(grammar, runs=3, share=0.9)
        self.assertGreater(noise.wrong, 0)
        self.assertFalse(noise.holds)


class Actions(NativeCase):
    def test_every_action_of_every_grammar_has_a_tool_here(self) -> None:
        acts = set()
        for grammar in agent.GRAMMARS.values():
            for meanings in grammar.words.values():
                acts |= {word.act for word in meanings}
        self.assertEqual(acts - agent.TOOLS.keys(), {"screenshot", "finished", "ask_person"})


if __name__ == "__main__":
    unittest.main()
