"""Fails every call of every act in turn, and types a long text in small batches: python -m tests.sweep_acts

These are tests of test_actuator. In the suite every third call of the tools with the most calls fails, each call in one
of three ways, and small batches get a shorter text; here every call fails in every way, and the text is the whole one.
"""

from __future__ import annotations

import unittest

from tests.test_actuator import NothingHeld, Typing


class EveryCall(NothingHeld):
    EVERY = 1


class WholeText(Typing):
    FEW = Typing.WHOLE


if __name__ == "__main__":
    unittest.main(argv=["tests.sweep_acts", "EveryCall", "WholeText"])
