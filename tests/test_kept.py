"""No change of behaviour goes unseen: what comes of each case is what somebody looked at last."""

import unittest

from tests import kept


class Kept(unittest.TestCase):
    def test_what_comes_of_each_case_is_as_it_was(self) -> None:
        came = "These came to something else. `python -m tests.kept` at a console shows how, and"
        keep = "writes them anew if that is meant; `python -m tests.kept NAME` takes some of them."
        self.assertEqual(kept.differing(), [], f"{came} {keep}")


if __name__ == "__main__":
    unittest.main()
