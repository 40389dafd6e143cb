"""What else the program does when a Windows Python runs it: its demo, its doctor, and what it says without a server."""

from __future__ import annotations

import unittest

from pixel_model import ModelServer, PixelModel
from rig import AGENT, Desktop, Driver, Target, windows_path


class TheProgram(unittest.TestCase):
    desktop: Desktop

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = Desktop().__enter__()
        cls.addClassCleanup(cls.desktop.__exit__, None, None, None)

    def test_the_demo_completes_its_task_on_windows_python(self) -> None:
        code, output = self.desktop.run(windows_path(AGENT), "--demo")
        self.assertEqual(code, 0, output)
        self.assertIn("completed:", output)
        run = self.desktop.folder / "dumps" / "run_0001"
        self.assertTrue((run / "execution_log.txt").stat().st_size)
        self.assertTrue(list((run / "screenshots").glob("turn_*.png")))

    def test_check_finds_everything_in_order_and_sends_no_input(self) -> None:
        driver, target = Driver(self.desktop), Target(self.desktop)
        before = driver.ask("cursor")["place"]
        with ModelServer(PixelModel()) as server, target.watch() as seen:
            url = server.url + "/chat/completions"
            code, output = self.desktop.run(windows_path(AGENT), "--check", "--endpoint", url)
        self.assertEqual(code, 0, output)
        lines = output.splitlines()
        others = [line for line in lines if not line.startswith(("ok ", "... "))]
        # Wine has no UI Automation, and the doctor notes that nothing is known by it.
        self.assertEqual([line for line in others if not line.startswith("note  controls ")], [])
        told = {line.split()[1] for line in lines}
        self.assertLessEqual(
            {"system", "screen", "capture", "server", "model", "context", "calibration"}, told
        )
        self.assertEqual(driver.ask("cursor")["place"], before)
        self.assertEqual(seen, [])

    def test_without_a_server_it_says_what_to_do_in_at_most_three_lines(self) -> None:
        nobody = "http://127.0.0.1:9/v1/chat/completions"
        code, output = self.desktop.run(windows_path(AGENT), "--endpoint", nobody, "Do it")
        self.assertEqual(code, 3, output)
        self.assertLessEqual(len(output.strip().splitlines()), 3, output)
        self.assertIn("LM Studio", output)


if __name__ == "__main__":
    unittest.main()
