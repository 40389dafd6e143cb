"""`python -m tests`: its table of times, and that a module that prints has failed; the modules that the gate names."""

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
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            suite.print_times(done)
        rows = [line.split() for line in printed.getvalue().splitlines() if line]
        self.assertEqual(
            rows[1:],
            [
                ["2", "3.0", "2.5", "slow"],
                ["2", "9.0", "1.0", "quick"],
                ["4", "12.0", "3.5", "all"],
            ],
        )

    def test_a_module_that_prints_something_of_its_own_has_failed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, test in (
                ("says_nothing", "pass"),
                ("says_a_word", "print('a word')"),
                ("has_a_child_that_does", "import os; os.system('echo its word')"),
            ):
                lines = f"import unittest\nclass T(unittest.TestCase):\n def test(self): {test}\n"
                (Path(folder) / f"{name}.py").write_text(lines)
            names = ["says_nothing", "says_a_word", "has_a_child_that_does"]
            printed = io.StringIO()
            with (
                mock.patch.dict(os.environ, {"PYTHONPATH": folder}),
                contextlib.redirect_stdout(printed),
            ):
                self.assertEqual(suite.run_all(names, times=False), 1)
        last = printed.getvalue().splitlines()[-1]
        self.assertEqual(set(last[8:-1].split(", ")), {*names[1:]})
        for words in ("a word", "its word"):
            self.assertIn(f"It prints something of its own:\n{words}\n", printed.getvalue())

    def test_every_module_that_the_gate_names_is_there(self) -> None:
        text = (suite.ROOT / ".ci" / "run").read_text(encoding="utf-8")
        named = text.partition('meet="')[2].partition('"')[0].split()
        self.assertGreater(len(named), 20)
        self.assertEqual({f"tests.test_{name}" for name in named} - {*suite.modules()}, set())


if __name__ == "__main__":
    unittest.main()
