"""Fails every call of every act in turn, and types a long text in small batches: python -m tests.sweep_acts

These are tests of test_actuator. In the suite only every third of the calls that may fail without harm fails, and small
batches get a shorter text; here every call fails, and the text is the whole one.
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
