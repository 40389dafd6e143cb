"""Wrong buttons pressed on a real Win32 desktop: the check of controls leaves at most a tenth of them."""

from __future__ import annotations

import unittest

from buttons import measure

PRESSES = 40


class MissedButtons(unittest.TestCase):
    def test_of_the_wrong_presses_at_most_a_tenth_is_left_by_the_check(self) -> None:
        found = measure(PRESSES, seed=1)
        off, check = found["off"], found["check"]
        self.assertGreaterEqual(off.wrong, PRESSES // 10, found)
        self.assertLessEqual(check.wrong, off.wrong / 10, found)
        # A miss costs a correction on the same prompt, and no turn.
        self.assertLessEqual(check.turns, off.turns + 2, found)


if __name__ == "__main__":
    unittest.main()
