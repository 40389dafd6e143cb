"""The tests of agent.py. `python -m unittest` runs them on every processor, as `python -m tests` does."""

from __future__ import annotations

import unittest


def load_tests(
    loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: str | None
) -> unittest.TestSuite:
    """What discovery takes for the whole suite; with -k it is loaded here, to be picked from."""
    from tests.__main__ import Everywhere, modules

    if loader.testNamePatterns:
        return loader.loadTestsFromNames(modules())
    return Everywhere()
