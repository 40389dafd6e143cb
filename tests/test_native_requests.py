"""What profile native asks a model holds against the form of the model's own documents, field by field."""

from __future__ import annotations

import contextlib
import io
import unittest
from unittest import mock

import agent
from tests import native_requests
from tests.native_requests import DOCUMENTED, Compared, Documented, compared, main
from tests.samples import sample


class Requests(unittest.TestCase):
    def test_each_field_is_as_documented_or_has_a_reason_that_still_is_one(self) -> None:
        for grammar in sample(list(agent.GRAMMARS.values()), list(agent.GRAMMARS.values())[::3]):
            for item in compared(grammar):
                with self.subTest(grammar.name, field=item.field):
                    self.assertTrue(item.holds, str(item))

    def test_every_grammar_that_carries_out_tasks_is_compared_and_most_of_it_is_documented(
        self,
    ) -> None:
        self.assertEqual(set(DOCUMENTED), {grammar.name for grammar in agent.GRAMMARS.values()})
        for name in ("qwen3-vl", "gui-owl-1.5", "ui-tars-1.5"):
            unsaid = [row for row in DOCUMENTED[name].values() if row.value is None]
            self.assertLess(len(unsaid), 4, name)

    def test_a_reason_for_what_is_the_same_is_refused_as_a_difference_without_one_is(self) -> None:
        self.assertFalse(Compared("top_p", "0.9", Documented("0.9", "it was otherwise")).holds)
        self.assertFalse(Compared("top_p", "0.8", Documented("0.9")).holds)
        self.assertTrue(Compared("top_p", "0.8", Documented("0.9", "of a reason")).holds)
        self.assertTrue(Compared("top_p", "0.8", Documented(None)).holds)

    def test_the_program_prints_each_field_and_fails_where_one_is_off(self) -> None:
        grammar = agent.GRAMMARS["qwen3-vl"]
        fields = {**dict.fromkeys(DOCUMENTED["qwen3-vl"], ""), "top_p": "0.5"}
        for name, row in DOCUMENTED["qwen3-vl"].items():
            fields[name] = fields[name] or (row.value if row.value and not row.because else "else")
        with (
            mock.patch.object(native_requests, "fields_of", return_value=fields),
            contextlib.redirect_stdout(io.StringIO()) as printed,
        ):
            self.assertEqual(main([grammar.name]), 1)
        self.assertIn(
            "top_p: DIFFERS\n      sent        0.5\n      documented  0.9", printed.getvalue()
        )
        self.assertIn("max_tokens: differs because", printed.getvalue())
        self.assertIn("without a reason: top_p\n", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
