"""No change of behaviour goes unseen: what comes of each case is what somebody looked at last."""

import unittest

from tests import kept


class Kept(unittest.TestCase):
    def test_what_comes_of_each_case_is_as_it_was(self) -> None:
        self.assertEqual(
            kept.differing(), [], "`python -m tests.kept` tells how to see and keep it"
        )


if __name__ == "__main__":
    unittest.main()
