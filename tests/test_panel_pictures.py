"""The panel's one way to a saved screenshot: who gets it, by which names, and out of which folder."""

from __future__ import annotations

import base64
import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import agent
from tests.test_panel import PICTURE, PanelTest


class Saved(PanelTest):
    def setUp(self) -> None:
        super().setUp()
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name).resolve() / "run_0001"
        (self.folder / "screenshots").mkdir(parents=True)
        self.panel.folder = self.folder

    def put(self, name: str, data: bytes = PICTURE) -> None:
        (self.folder / name).write_bytes(data)

    def ask(self, name: Any, **changed: str | None) -> tuple[int, Any]:
        return self.post("/picture", {"name": name}, **changed)

    def test_a_screenshot_of_the_run_is_given_by_its_name(self) -> None:
        for name in ("screenshots/turn_0002.png", "turn_0003_raw.png"):
            self.put(name)
            status, answer = self.ask(name)
            self.assertEqual((status, base64.b64decode(answer["png_b64"])), (200, PICTURE))

    def test_nobody_without_the_token_or_from_elsewhere_gets_one(self) -> None:
        self.put("turn_0001.png")
        strangers: tuple[dict[str, str | None], ...] = (
            {"Authorization": None},
            {"Authorization": "Bearer guess"},
            {"Origin": "http://evil.example"},
            {"Host": "evil.example"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Content_Type": "text/plain"},
        )
        for stranger in strangers:
            status, answer = self.ask("turn_0001.png", **stranger)
            self.assertIn(status, (401, 403, 415), stranger)
            self.assertNotIn("png_b64", answer)
        self.assertEqual(self.get("/picture")[0], 405)
        self.assertEqual(self.post("/picture", {"name": "a" * 2000})[0], 413)

    def test_no_other_name_leads_anywhere(self) -> None:
        outside = self.folder.parent / "outside.png"
        outside.write_bytes(PICTURE)
        self.put("turns.jsonl", b"secret")
        names = ["", "../outside.png", "screenshots/../../outside.png", str(outside), "turns.jsonl"]
        names += ["a/b/c.png", "screenshots", ".png", "outside.png\x00", "\\outside.png"]
        for name in [*names, None, 5, ["turn_0001.png"], {}]:
            with self.subTest(name):
                status, answer = self.ask(name)
                self.assertEqual((status, list(answer)), (404, ["error"]))
                self.assertNotIn(str(self.folder), answer["error"])
        self.assertEqual(self.post("/picture", b"[]")[0], 404)

    @unittest.skipUnless(hasattr(os, "mkfifo"), "Windows has neither without special rights")
    def test_links_and_pipes_are_not_followed(self) -> None:
        secret = self.folder.parent / "elsewhere"
        secret.mkdir()
        (secret / "x.png").write_bytes(PICTURE)
        (self.folder / "link.png").symlink_to(secret / "x.png")
        (self.folder / "linked").symlink_to(secret)
        os.mkfifo(self.folder / "pipe.png")
        (self.folder / "folder.png").mkdir()
        for name in ("link.png", "linked/x.png", "pipe.png", "folder.png"):
            self.assertEqual(self.ask(name)[0], 404, name)

    def test_what_is_no_whole_png_is_not_given(self) -> None:
        for data in (b"", b"GIF89a", PICTURE[:-1], b"x" + PICTURE):
            self.put("turn_0001.png", data)
            self.assertEqual(self.ask("turn_0001.png")[0], 404, data[:9])

    def test_a_panel_without_a_folder_has_none(self) -> None:
        self.panel.folder = None
        self.assertEqual(self.ask("turn_0001.png")[0], 404)

    def test_asking_changes_nothing_that_others_are_told(self) -> None:
        self.put("turn_0001.png")
        before = self.panel.news(-1)
        self.ask("turn_0001.png")
        self.assertEqual(self.panel.news(-1), before)

    def test_the_state_says_where_the_report_is(self) -> None:
        panel = agent.Panel(agent.Config(), self.stop, agent.Book("run_0001"), self.folder)
        self.addCleanup(panel.close)
        state = json.loads(panel.news(-1)[1])
        self.assertEqual(state["report"], str(self.folder / "report.html"))


if __name__ == "__main__":
    unittest.main()
