"""The first hour of a person who has never seen it: starting, wrong use, and what the program says to it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import agent

SOURCE = Path(agent.__file__)


class UnfitPython(unittest.TestCase):
    """The file is run as a program whose Python is made to look unfit first."""

    def started(
        self, program: str, python: str = sys.executable
    ) -> subprocess.CompletedProcess[str]:
        run = f"exec(compile(open({str(SOURCE)!r}, encoding='utf-8').read(), 'agent.py', 'exec'))"
        return subprocess.run(
            [python, "-B", "-c", f"{program}\n__name__ = 'agent'\n{run}"],
            capture_output=True,
            text=True,
            timeout=60,
        )

    def one_sentence(self, program: str, python: str = sys.executable) -> str:
        done = self.started(program, python)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_a_python_that_is_too_old_is_told_which_one_is_needed(self) -> None:
        said = self.one_sentence(
            "import sys; sys.version_info = (3, 9, 18); sys.version = '3.9.18 (x)'"
        )
        self.assertIn("needs Python 3.10 or later with 64 bit, and this is 3.9.18", said)

    def test_a_python_of_32_bit_is_told_so(self) -> None:
        said = self.one_sentence("import sys; sys.maxsize = 2**31 - 1")
        self.assertIn("with 32 bit", said)

    def test_a_python_without_ctypes_is_told_so(self) -> None:
        said = self.one_sentence("import sys; sys.modules['ctypes'] = None")
        self.assertIn("needs ctypes, which this Python lacks", said)

    def test_a_real_old_python_gets_the_sentence(self) -> None:
        for version in ("3.8", "3.9"):
            with self.subTest(version):
                python = shutil.which(f"python{version}")
                if not python or subprocess.run([python, "-V"], capture_output=True).returncode:
                    self.skipTest("it is not installed")
                self.assertIn(f"this is {version}.", self.one_sentence("", python))


if __name__ == "__main__":
    unittest.main()
