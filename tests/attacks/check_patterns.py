"""Every pattern of agent.py against texts grown from it, which takes some seconds.

python3 -m unittest tests.attacks.check_patterns
"""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from tests.attacks import patterns


class Patterns(unittest.TestCase):
    def test_no_pattern_takes_more_than_linear_time_for_texts_grown_from_it(self) -> None:
        self.assertGreater(len(patterns.uses(patterns.SOURCE)), 80)
        self.assertEqual(patterns.slow(), [])

    def test_a_slow_pattern_is_found_wherever_it_stands(self) -> None:
        for source in (
            r'SLOW = re.compile(r"\s*\s*\Z")' + "\ndef f(t): return SLOW.match(t)",
            r'TABLE = (("a", re.compile(r"no (\w+ )*loaded")),)',
            r'RULES = {"x": [r"a+b|\n+:"]}'
            + "\ndef f(t, r=RULES):\n return re.search(r, t), RULES",
            'def f(t):\n number = "[0-9]+"\n return re.sub(f"{number}!", "", t)',
        ):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "module.py"
                path.write_text("import re\n" + source)
                self.assertEqual(len(patterns.slow(path)), 1, source)


if __name__ == "__main__":
    unittest.main()
