"""The console closed in a real run on a real Win32 desktop: the run ends in words, its journal and report whole."""

from __future__ import annotations

import threading
import unittest
from pathlib import Path

from rig import AGENT, HERE, windows_path
from test_stop import Scripted, StopCase

# The program as it is, which first leaves its process id, as Windows has it, in a file.
STARTED = (
    "import os, runpy, sys; open('process_id', 'w').write(str(os.getpid()));"
    " sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


class ClosedConsole(StopCase):
    def test_the_run_ends_in_words_and_its_files_are_whole(self) -> None:
        hanging, done = threading.Event(), threading.Event()

        def hang(number: int) -> None:
            hanging.set()
            done.wait(60)

        with Scripted([], hang) as model:
            process = self.desktop.start(
                "-c", STARTED, windows_path(AGENT), "--endpoint", model.url, "Do it"
            )
            self.assertTrue(hanging.wait(60))
            process_id = (self.desktop.folder / "process_id").read_text()
            said = self.desktop.run(windows_path(HERE / "close_console.py"), process_id)
            self.assertEqual(said, (0, "told\n"))
            _, output = self.finished(process, 20)
            done.set()
        self.assertIn("stopped: the console was closed.", output)
        last = self.journal()[-1]
        self.assertEqual(
            (last["kind"], last["outcome"], last["text"]),
            ("end", "stopped", "the console was closed."),
        )
        (run,) = Path(self.desktop.folder / "dumps").iterdir()
        for name in ("report.html", "execution_log.txt"):
            self.assertIn("the console was closed", (run / name).read_text("utf-8"), name)


if __name__ == "__main__":
    unittest.main()
