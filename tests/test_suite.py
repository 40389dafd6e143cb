"""`python -m tests` and `python -m unittest`: what they tell, and the modules that the gate and they name."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tests import __main__ as suite


class Suite(unittest.TestCase):
    def test_the_module_that_took_the_processor_longest_comes_first_and_the_sum_last(self) -> None:
        done = [
            suite.Result(name, 2, 0, 0, seconds, processor, "")
            for name, seconds, processor in (("quick", 9.0, 1.0), ("slow", 3.0, 2.5))
        ]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            suite.print_times(done)
        rows = [line.split() for line in printed.getvalue().splitlines() if line]
        wanted = ["2 3.0 2.5 slow", "2 9.0 1.0 quick", "4 12.0 3.5 all"]
        self.assertEqual(rows[1:], [row.split() for row in wanted])

    def test_what_fails_prints_or_ends_its_process_has_failed_under_either_command(self) -> None:
        deeds = {
            "says_nothing": "pass",
            "says_a_word": "print('a word')",
            "has_a_child_that_does": "import os; os.system('echo its word')",
            "fails": "self.fail('so it is')",
            "ends": "import os; os._exit(3)",
        }
        with tempfile.TemporaryDirectory() as folder:
            for name, deed in deeds.items():
                lines = f"import unittest\nclass T(unittest.TestCase):\n def test(self): {deed}\n"
                (Path(folder) / f"{name}.py").write_text(lines)
            printed, told = io.StringIO(), io.StringIO()
            with (
                mock.patch.dict(os.environ, {"PYTHONPATH": folder}),
                mock.patch.object(suite, "modules", lambda: list(deeds)),
                contextlib.redirect_stdout(printed),
            ):
                self.assertEqual(suite.main([]), 1)
                result = unittest.TextTestRunner(told).run(suite.Everywhere())
        last = printed.getvalue().splitlines()[-1]
        self.assertEqual(set(last[8:-1].split(", ")), {*deeds} - {"says_nothing"})
        self.assertEqual((len(result.failures), result.testsRun), (4, 5))
        for words in (
            "It prints something of its own:\na word\n",
            "It prints something of its own:\nits word\n",
            "AssertionError: so it is\n",
            "ends: the process that ran it ended.\n",
        ):
            self.assertIn(words, printed.getvalue())
            self.assertIn(words, told.getvalue())

    def test_every_module_that_is_named_is_there(self) -> None:
        text = (suite.ROOT / ".ci" / "run").read_text(encoding="utf-8")
        named = text.partition('meet="')[2].partition('"')[0].split()
        self.assertGreater(len(named), 20)
        longest = {f"tests.{name}" for name in suite.LONGEST}
        known = {*suite.modules()}
        self.assertEqual(({f"tests.test_{name}" for name in named} | longest) - known, set())


if __name__ == "__main__":
    unittest.main()
