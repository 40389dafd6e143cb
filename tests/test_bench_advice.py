"""What the bench advises: each sentence from figures that are sure enough, and settings that --config takes."""

from __future__ import annotations

import json
import unittest
from typing import Any

import agent
from tests.bench import asking, figures, keeping


def lines_of(part: str, right: int, of: int, **values: Any) -> list[asking.Line]:
    """So many lines, of which so many are right."""
    found = []
    for number in range(of):
        name = f"{part} {values.get('kind', '')} {values.get('size', '')} {number}"
        found.append(asking.Line(part, name, right=number < right, **values))
    return found


def told(
    lines: list[asking.Line], size: str = "1536x864", context: int | None = None
) -> tuple[str, dict[str, Any]]:
    """The advice on these lines as one text, and the settings that follow, as --config took them."""
    result = figures.result_of({"model": "m", "size": size}, lines)
    advice = figures.advice_of(result, context)
    settings = keeping.settings_of(result, advice)
    agent.load_config({"bench": json.loads(json.dumps(settings))})
    return " ".join(item.text for item in advice), settings


class Advice(unittest.TestCase):
    def test_small_things_that_are_missed_want_zoom_and_a_larger_picture(self) -> None:
        lines = [
            *lines_of("pointing", 1, 8, size=16),
            *lines_of("pointing", 20, 20, size=64),
        ]
        text, settings = told(lines)
        self.assertIn("cannot press things of 16 pixels", text)
        self.assertIn("use zoom", text)
        self.assertIs(settings["auto_zoom"], True)
        self.assertEqual(settings["image_tokens"], 2048)

    def test_a_picture_that_is_large_is_not_made_larger(self) -> None:
        lines = [*lines_of("pointing", 1, 8, size=16), *lines_of("pointing", 20, 20, size=64)]
        _, settings = told(lines, "1920x1088")
        self.assertNotIn("image_tokens", settings)

    def test_three_answers_of_a_size_are_no_verdict_on_it(self) -> None:
        lines = [*lines_of("pointing", 0, 3, size=16), *lines_of("pointing", 20, 20, size=64)]
        self.assertNotIn("cannot press", told(lines)[0])

    def test_misread_letters_want_a_larger_picture(self) -> None:
        text, settings = told(lines_of("reading", 3, 20))
        self.assertIn("Small letters are misread: 15 %", text)
        self.assertEqual(settings["image_tokens"], 2048)
        self.assertNotIn("misread", told(lines_of("reading", 18, 20))[0])

    def test_the_surely_best_of_the_grammars_is_advised(self) -> None:
        cases: dict[str, dict[str, str]] = {
            "tools": {"calls": "tools", "executor_grammar": "tools"},
            "text": {"calls": "text"},
            "ui-tars-1.5": {"executor_grammar": "ui-tars-1.5"},
        }
        for best, wanted in cases.items():
            lines = []
            for grammar in cases:
                error = "" if grammar == best else "no_call"
                lines += lines_of("calling", 10, 10, kind=grammar, error=error)
            _, settings = told(lines)
            self.assertEqual({name: settings.get(name) for name in wanted}, wanted)
        same = [line for name in cases for line in lines_of("calling", 10, 10, kind=name)]
        self.assertEqual(told(same)[1], {"lmstudio_model": "m"})

    def test_the_surely_best_of_the_profiles_is_advised_after_enough_runs(self) -> None:
        for runs, advised in ((12, True), (3, False)):
            lines = [
                *lines_of("tasks", runs, runs, kind="planner"),
                *lines_of("tasks", 0, runs, kind="chat"),
            ]
            text, _ = told(lines)
            self.assertEqual("Use --profile planner" in text, advised)
            self.assertEqual("With profile chat it does few" in text, advised)

    def test_long_thoughts_and_a_small_context_are_told(self) -> None:
        lines = lines_of("judging", 20, 20, expected="no", requests=1, completion=900, prompt=500)
        text, settings = told(lines, context=4096)
        self.assertIn("A reply takes 900 tokens", text)
        self.assertIn("it has 4096", text)
        self.assertEqual(settings["thinking"], "off")

    def test_a_server_that_shrinks_pictures_is_told(self) -> None:
        lines = [
            *lines_of("reading", 20, 20, requests=1, prompt=350),
            *lines_of("cost", 1, 1, requests=2, prompt=400, without=50, image=1296),
        ]
        self.assertIn("counts 300 tokens for a picture of 1296", told(lines)[0])

    def test_a_judge_that_believes_too_much_is_asked_twice(self) -> None:
        text, settings = told(lines_of("judging", 8, 20, expected="no"))
        self.assertIn("says YES to unfinished screens: 60 %", text)
        self.assertTrue(settings["second_opinion"])


if __name__ == "__main__":
    unittest.main()
