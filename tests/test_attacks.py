"""The attack programs of tests/attacks: none of them gets through.

Folders is the slow one, since most of its attacks start the program anew.
"""

from __future__ import annotations

import io
import os
import unittest
from contextlib import redirect_stdout
from unittest import mock

import agent
from tests.attacks import folders, gets_through, outside, secrets, server
from tests.scripted import EngineCase


class Secrets(EngineCase):
    def test_no_picture_shows_what_was_typed_however_the_window_reacts(self) -> None:
        for _, attack in secrets.ATTACKS:
            self.assertFalse(gets_through(attack), attack.__name__)

    def test_only_the_place_is_grey_once_the_screen_has_reacted_until_the_window_is_gone(
        self,
    ) -> None:
        stage = secrets.Stage(self)
        stage.page.late_s = 5.0
        stage.type_secret()
        self.assertEqual(stage.grey_share(), 1.0)  # of its window, and nothing beside it
        stage.trial.clock.sleep(6)
        self.assertLess(stage.grey_share(), 0.1)
        stage.act("press_keyboard_key", key="tab")
        self.assertLess(stage.grey_share(), 0.1)
        self.assertGreater(stage.grey_share(), 0.0)
        stage.page.closed = True
        self.assertEqual(stage.grey_share(), 0.0)

    def test_the_journal_has_place_and_window_of_a_secret_and_no_value(self) -> None:
        stage = secrets.Stage(self)
        stage.type_secret()
        stage.shows_ink()
        whole, part = stage.trial.records("secret")
        self.assertEqual((whole["handle"], whole["window"]), (7, [20, 10, 180, 100]))
        self.assertEqual(whole["box"], [0, 0, 0, 0])
        left, top, width, height = part["box"]
        self.assertLess(width * height, 180 * 10)
        self.assertTrue(agent.Rect(left, top, width, height).contains(agent.Point(30, 52)))
        text = (stage.trial.folder / "turns.jsonl").read_text(encoding="utf-8")
        self.assertNotIn("hunter", text)


class Folders(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(folders.WARM.end)

    @unittest.skipIf(os.name == "nt", "links and pipes take rights on Windows")
    def test_nothing_in_a_run_folder_and_no_name_or_number_from_outside_gets_through(self) -> None:
        for _, attack in (*folders.ATTACKS, *outside.ATTACKS):
            self.assertFalse(gets_through(attack), attack.__name__)


class Servers(unittest.TestCase):
    def test_no_answer_title_or_word_of_a_model_gets_through(self) -> None:
        for _, attack in server.ATTACKS:
            self.assertFalse(gets_through(attack), attack.__name__)

    def test_a_short_secret_is_warned_about_and_hidden_as_a_whole_word(self) -> None:
        said = io.StringIO()
        with (
            mock.patch.dict(os.environ, {"PIN": "4711", "LONG": "hunter2hunter2"}),
            redirect_stdout(said),
        ):
            hidden = agent.read_secrets(["PIN", "LONG"])
        self.assertRegex(said.getvalue(), "^warning: --secret PIN has fewer than 8 [^:]*: [^:]*\n$")
        self.assertEqual(
            hidden.hide("4711, 14711 and xhunter2hunter2x"), "{{PIN}}, 14711 and x{{LONG}}x"
        )


if __name__ == "__main__":
    unittest.main()
