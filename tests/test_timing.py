"""What the suite measures with: limits that a busy machine keeps, and the table of what each module takes."""

from __future__ import annotations

import contextlib
import io
import unittest

from tests import __main__ as suite
from tests.timing import TRIES, comes_true, least


class Limits(unittest.TestCase):
    def test_what_is_once_quick_enough_is_measured_no_more(self) -> None:
        found = [0.5, 0.4, 0.1, 0.9]
        self.assertEqual(least(lambda: found.pop(0), 0.2), 0.1)
        self.assertEqual(found, [0.9])

    def test_what_is_too_slow_each_time_stays_so(self) -> None:
        found = [0.5] * (TRIES + 1)
        self.assertEqual(least(lambda: found.pop(0), 0.2), 0.5)
        self.assertEqual(len(found), 1)

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
