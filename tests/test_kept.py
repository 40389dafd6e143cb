"""No change of behaviour goes unseen: each seam comes to what somebody looked at last."""

from __future__ import annotations

import unittest

from tests import compare, kept

LOOK = "`python -m tests.compare HEAD --seams {}` shows how, `python -m tests.kept` keeps it"


def kept_seam(seam: str) -> type[unittest.TestCase]:
    """A case of its own a seam, so that one that fails hides no other."""

    class Kept(unittest.TestCase):
        def test_what_comes_of_each_case_is_as_it_was(self) -> None:
            wrong = kept.differing(kept.read()[seam], kept.digests(seam))
            self.assertEqual(list(wrong), [], LOOK.format(seam))

    Kept.__name__ = Kept.__qualname__ = seam.title()
    return Kept


globals().update({seam.title(): kept_seam(seam) for seam in compare.SEAMS})


if __name__ == "__main__":
    unittest.main()
