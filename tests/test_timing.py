"""What the suite measures with: waiting for another thread, and the table of what each module takes."""

from __future__ import annotations

import contextlib
import io
import unittest

from tests import __main__ as suite
from tests.timing import comes_true


class Waiting(unittest.TestCase):
    def test_a_condition_is_looked_at_until_it_holds(self) -> None:
        found = [False, False, True]
        self.assertTrue(comes_true(lambda: found.pop(0)))


class Times(unittest.TestCase):
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


if __name__ == "__main__":
    unittest.main()
