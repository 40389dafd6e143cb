"""What made a newcomer stumble: options that were ignored, runs on the wrong desktop, lines said twice."""

from __future__ import annotations

import unittest
from pathlib import Path

import agent
from tests.seams import windows_of_main
from tests.test_main import HASTY, CommandLineCase

LEFT_HALF = "0.0,0.0,0.5,1.0"


class UseOfTheDemo(CommandLineCase):
    def refused(self, *argv: str) -> str:
        code, out, err = self.main(*argv)
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(len(err.splitlines()), 1, err)
        return err

    def test_a_server_of_ones_own_is_not_silently_ignored(self) -> None:
        url = "http://127.0.0.1:9/v1"
        for argv in (("--endpoint", url), ("--set", f"lmstudio_endpoint={url}")):
            self.assertIn("The demo brings its own model server;", self.refused("--demo", *argv))
        # Where somebody set it for all runs, it is not meant for the demo.
        code, out, _ = self.main("--demo", environ={"LMSTUDIO_ENDPOINT": url})
        self.assertEqual(code, 0, out)

    def test_an_area_in_which_no_task_can_be_done_is_refused_with_one_that_is_enough(self) -> None:
        said = self.refused("--demo", "--area", LEFT_HALF)
        self.assertIn("leave out --area, or give 10,28,1020,687 or more.", said)
        code, out, _ = self.main("--demo", "--area", "10,28,1020,687")
        self.assertEqual(code, 0, out)

    def test_the_area_of_the_task_holds_all_places_of_the_drawn_desktop(self) -> None:
        least = agent.Rect(10, 28, 1020, 687)  # as a refusal above says
        for name, place in agent.DemoState(opened=True).places().items():
            if name != "desktop":
                self.assertEqual(place.rect.intersection(least), place.rect, name)

    def test_the_demo_without_pictures_is_refused(self) -> None:
        self.assertIn("goes by the pixels it sees", self.refused("--demo", "--no-vision"))

    def test_a_demo_is_never_resumed_on_a_real_desktop(self) -> None:
        self.recorded("--max-steps", "2")
        for words in (("--resume",), ("--resume", "1"), ("--replay", "1")):
            with windows_of_main(None):  # which nothing of a real desktop could be done with
                code, out, _ = self.main(*words, *HASTY, "--max-steps", "3")
            self.assertIn(code, (0, 1), out)

    def test_a_run_on_a_real_desktop_is_not_resumed_in_the_demo(self) -> None:
        self.recorded("--max-steps", "2")
        path = self.run_folder() / "turns.jsonl"
        real = path.read_text("utf-8").replace(
            '"lmstudio_model": "demo-model"', '"lmstudio_model": ""'
        )
        path.write_text(real, "utf-8")
        self.assertIn(
            "done on a real desktop; leave out --demo.", self.refused("--demo", "--resume")
        )


class WhatIsSaid(CommandLineCase):
    def test_without_runs_there_is_a_sentence_instead_of_an_empty_table(self) -> None:
        _, out, _ = self.main("--runs")
        self.assertRegex(out, "^There is no run in .* yet; give a task to begin one.\n$")
        _, out, _ = self.main("--runs", "--set", "dump_dir=nowhere")
        folder = out.removeprefix("There is no run in ").partition(" yet;")[0]
        self.assertTrue(Path(folder).is_absolute(), out)

    def test_a_check_and_what_shows_it_are_not_the_same_words_twice(self) -> None:
        _, out, _ = self.recorded()
        self.assertIn("  check 1 YES: the green mark says Saved.\n", out)
        self.assertEqual(
            str(agent.Ruling("A file is there.", False, "no file")),
            "NO: A file is there. (no file)",
        )

    def test_a_resumed_run_counts_the_requests_of_its_whole_life(self) -> None:
        self.recorded("--max-steps", "2")
        _, out, _ = self.main("--demo", "--resume", "--max-steps", "50")
        last = out.splitlines()[-1]
        asked = [record for record in self.records() if record["kind"] == "reply"]
        tokens = sum(
            record["tokens"]["prompt"] + record["tokens"]["completion"] for record in asked
        )
        self.assertIn(f", {len(asked)} requests, {tokens} tokens; see", last)


if __name__ == "__main__":
    unittest.main()
