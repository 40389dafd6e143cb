"""Three of ten replies malformed in the ways of their grammar, and every action that a grammar has."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import agent
from tests import native_noise
from tests.native_noise import COMPLETE_LEAST, RUNS, WAYS, noisy_runs
from tests.samples import sample
from tests.spoken import spoken
from tests.test_native import WHOLE, NativeCase

SOME = sample(RUNS, 2)  # runs of each grammar

# A value of each kind of argument, as a grammar in the space of 0..1000 may give it.
GIVEN: dict[str, Any] = {
    "place": [10, 20],
    "box": [10, 20],
    "text": "hello",
    "typed": "hello\n",
    "modifiers": "ctrl+shift",
    "button": "right",
    "page": -1,
    "chord": "shift",
    "chords": ["ctrl+a", "delete"],
    "notches": -3,
    "seconds": 2,
    "flag": "true",
}
# Acts that need no tool: the program itself looks, waits, asks the person, or ends the run.
OWN_ACTS = {"wait", "screenshot", "finished", "answer", "failed"}


class Noise(unittest.TestCase):
    def test_with_three_of_ten_replies_malformed_nineteen_of_twenty_runs_complete(self) -> None:
        """The first runs of each grammar; `python -m tests.native_noise` has all twenty of each."""
        runs = completed = 0
        for grammar in sample(WHOLE, WHOLE[::3]):
            with self.subTest(grammar.name):
                noise = noisy_runs(grammar, runs=SOME)
                self.assertGreaterEqual(noise.completed, SOME - RUNS + COMPLETE_LEAST, str(noise))
                self.assertEqual(noise.wrong, 0, str(noise))
                self.assertGreater(noise.refused, 0)
                runs += SOME
                completed += noise.completed
        self.assertGreaterEqual(completed / runs, COMPLETE_LEAST / RUNS)

    def test_every_grammar_has_ways_and_each_of_them_changes_some_reply(self) -> None:
        self.assertEqual(set(WAYS), {grammar.name for grammar in WHOLE})
        for grammar in WHOLE:
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


def words_of(grammar: agent.Grammar) -> list[tuple[str, dict[str, Any], agent.Word]]:
    """Every action of a grammar, with an argument that chooses its meaning, and that meaning."""
    found: list[tuple[str, dict[str, Any], agent.Word]] = []
    for action, entry in {**grammar.words, **grammar.also}.items():
        if isinstance(entry, agent.Choice):
            found += [(action, {entry.given: value}, word) for value, word in entry.words.items()]
        else:
            found.append((action, {}, entry))
    return found


class Actions(NativeCase):
    def test_every_action_of_every_grammar_has_a_tool_here(self) -> None:
        acts = set()
        for grammar in agent.GRAMMARS.values():
            words = {**grammar.words, **grammar.also}
            for action, chosen, word in words_of(grammar):
                for parts in (word.parts, [part for part in word.parts if part.needed]):
                    with self.subTest(grammar.name, action=action, parts=len(parts)):
                        given = {part.given: GIVEN[part.kind] for part in parts}
                        written = agent.Written(action, {**chosen, **given}, "Do it", "")
                        acts.add(self.act_of(written, words))
        self.assertLessEqual({"middle_click", "triple_click", "move", "drag", "hscroll"}, acts)
        self.assertLessEqual({"key_down", "key_up", "mouse_down", "mouse_up", "open_app"}, acts)
        self.assertLessEqual({"wait", "answer", "finished", "failed", agent.PERSON}, acts)

    def act_of(self, written: agent.Written, words: agent.Words) -> str:
        """The act of a written action, for which there is a tool, or which needs none."""
        try:
            call = agent.certain_act(written, words, (1000, 1000))
        except agent.PersonNeeded:
            return agent.PERSON
        if call.name not in OWN_ACTS:
            act = agent.CANONICAL.parse(agent.native_call(call))
            self.assertEqual(act.name, call.name)
            self.assertIn(act.name, agent.TOOLS)
        return call.name


if __name__ == "__main__":
    unittest.main()
