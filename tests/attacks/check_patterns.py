"""Every pattern of agent.py against texts grown from it, which takes some seconds.

    python -m unittest tests.attacks.check_patterns

The program `python -m tests.attacks.patterns` does the same with longer texts.
"""

from __future__ import annotations

import re
import tempfile
import unittest
from pathlib import Path

from tests.attacks import patterns


class Patterns(unittest.TestCase):
    def test_no_pattern_takes_more_than_linear_time_for_texts_grown_from_it(self) -> None:
        self.assertGreater(len(patterns.uses(patterns.SOURCE)), 80)
        self.assertEqual(patterns.slow(), [])

    def test_no_pattern_asks_for_a_backslash_where_it_means_a_class_of_letters(self) -> None:
        doubled = re.compile(r"(?<!\\)(\\\\)+[wdsbWDSB]")
        for use in patterns.uses(patterns.SOURCE):
            text = use.pattern if isinstance(use.pattern, str) else use.pattern.decode("latin-1")
            self.assertNotRegex(text, doubled, use.line)

    def test_a_slow_pattern_is_found_wherever_it_stands_and_told_from_a_quick_one(self) -> None:
        quick = r'QUICK = re.compile(r"\A[a-z]+\Z")' + "\ndef f(t): return QUICK.match(t)"
        self.assertEqual(self.slow(quick), 0)
        for source in (
            r'SLOW = re.compile(r"\s*\s*\Z")' + "\ndef f(t): return SLOW.match(t)",
            r'TABLE = (("a", re.compile(r"no (\w+ )*loaded")),)',
            r'RULES = {"x": [r"a+b|\n+:"]}'
            + "\ndef f(t, r=RULES):\n return re.search(r, t), RULES",
            'def f(t):\n number = "[0-9]+"\n return re.sub(f"{number}!", "", t)',
        ):
            self.assertEqual(self.slow(source), 1, source)

    def slow(self, source: str) -> int:
        """How many slow patterns are found in a module."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "module.py"
            path.write_text("import re\n" + source)
            return len(patterns.slow(path))


if __name__ == "__main__":
    unittest.main()
