"""`python -m tests` and `python -m unittest`: what they tell, and the modules that the gate and they name."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tests import __main__ as suite
from tests.samples import for_the_gate

DEEDS = {
    "says_nothing": "pass",
    "says_a_word": "print('a word')",
    "has_a_child_that_does": "import os; os.system('echo its word')",
    "fails": "self.fail('so it is')",
    "ends": "import os; os._exit(3)",
}


class Suite(unittest.TestCase):
    def test_what_fails_prints_or_ends_its_process_has_failed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, deed in DEEDS.items():
                lines = f"import unittest\nclass T(unittest.TestCase):\n def test(self): {deed}\n"
                (Path(folder) / f"{name}.py").write_text(lines)
            told = io.StringIO()
            with (
                mock.patch.dict(os.environ, {"PYTHONPATH": folder}),
                contextlib.redirect_stderr(told),
            ):
                self.assertEqual(suite.main([*DEEDS, "--processes", "2"]), 1)
        for words in (
            "It prints something of its own:\na word\n",
            "It prints something of its own:\nits word\n",
            "AssertionError: so it is\n",
            "ends: the process that ran it ended.\n",
        ):
            self.assertIn(words, told.getvalue())
        self.assertRegex(told.getvalue(), r"says_nothing \d.\d s \.\.\. ok\n")
        self.assertRegex(told.getvalue(), r"\nRan 4 tests in .*\n\nFAILED \(failures=4\)\n$")

    def test_one_that_takes_long_says_how_far_it_is(self) -> None:
        told = io.StringIO()
        with (
            mock.patch.object(suite, "TELL_EVERY_S", 0.0),
            mock.patch("os.getloadavg", lambda: (99.0, 1, 1), create=True),
            contextlib.redirect_stderr(told),
        ):
            list(suite.results(["tests.test_kept_is_none"]))
        said = r"\n0 s: 0 of 1 modules; at work: [\w.]*; the machine is busy with other programs \(load 99\)"
        self.assertRegex(told.getvalue(), said)

    def test_of_a_part_each_class_has_every_so_many_tests_but_those_for_the_gate(self) -> None:
        class Four(unittest.TestCase):
            test_a = test_b = test_d = lambda self: None
            test_c = for_the_gate(lambda self: None)

        loaded = unittest.TestSuite(
            map(unittest.defaultTestLoader.loadTestsFromTestCase, [Four] * 2)
        )
        for every, letters in ((1, "abdabd"), (2, "aa"), (3, "adad"), (9, "aa")):
            tried = "".join(case.id()[-1] for case in suite.part_of(loaded, every))
            self.assertEqual(tried, letters)

    def test_few_tests_are_left_to_the_gate(self) -> None:
        files = [*(suite.ROOT / "tests").glob("**/test_*.py")]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        left = len(re.findall(r"(?m)^ +@(?:samples\.)?for_the_gate$", text))
        self.assertTrue(10 < left < text.count("    def test_") / 15)

    def test_every_module_that_is_named_is_there(self) -> None:
        text = (suite.ROOT / ".ci" / "run").read_text(encoding="utf-8")
        named = text.partition('meet="')[2].partition('"')[0].split()
        self.assertGreater(len(named), 20)
        longest = {f"tests.{name}" for name in suite.LONGEST} | {*suite.PARTS}
        self.assertLessEqual({f"tests.test_{name}" for name in named} | longest, {*suite.modules()})
        # What the suite tries a part of, the gate tries whole.
        self.assertIn("import PARTS", text)
        self.assertIn("-m tests --whole tests.attacks.patterns $(sampled | sort -u)", text)


if __name__ == "__main__":
    unittest.main()
