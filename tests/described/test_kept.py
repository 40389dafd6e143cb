"""What stays as ours with --described: a row of the table that is kept, each tried at a seam."""

from __future__ import annotations

import unittest
from typing import Any

from tests.described.exchange import Exchange, said
from tests.fakes import FakeWin32, VirtualClock
from tests.scripted import EngineCase, text
from tests.seams import windows_of_main

WHY = {"reasoning": "it is next"}
PLAN = said("", "update_execution_plan", instructions="Press it.", **WHY)
THING = {"element_name": "Button", "position": [500, 500], **WHY}
CLICK = said("", "click_screen_element", **THING)


class Kept(EngineCase):
    def acted(self, *replies: Any, **more: Any) -> Exchange:
        """A planner's run in which these replies are said by the executor."""
        turns = str(len(replies) + 1)
        return Exchange(self, "planner", [PLAN, *replies], "--max-steps", turns, **more)

    def pressed(self, key: str) -> list[tuple[Any, ...]]:
        """What is done for a key that the executor names."""
        return list(self.acted(said("", "press_keyboard_key", key=key, **WHY)).desktop.inputs)

    def test_a_key_that_is_not_described_is_pressed_where_it_is_known_for_certain(self) -> None:
        """VK_MAP: a-z, 0-9, f1-f12, special keys."""
        for key in ("enter", "insert", "f13"):
            self.assertEqual(self.pressed(key), [("key", key, True), ("key", key, False)])
        # "No user confirmation, no sandbox": what asks is refused where nobody is
        for key in ("any key", "alt+f4"):
            self.assertEqual(self.pressed(key), [])

    def test_json_is_utf_8(self) -> None:
        """json.dumps with its defaults."""
        typed = said("", "type_text_input", text="Gr\u00fc\u00dfe", **WHY)
        run = self.acted(typed, said("", "scroll_screen_down", **WHY))
        self.assertIn("Gr\u00fc\u00dfe".encode(), run.bodies[-1])
        self.assertNotIn(b"\\u00fc", run.bodies[-1])

    def test_each_run_has_a_folder_of_its_own_with_the_described_files_in_it(self) -> None:
        """dumps/execution_log.txt, dumps/screenshots/."""
        runs = [self.acted(CLICK) for _ in range(2)]
        folders = [run.folder for run in runs]
        self.assertEqual([folder.name for folder in folders], ["run_0001", "run_0002"])
        for name in ("execution_log.txt", "screenshots/turn_0002.png", "turns.jsonl"):
            self.assertTrue((folders[0] / name).is_file(), name)
        self.assertTrue((folders[0] / "report.html").is_file())
        # The model that is loaded is asked: "lmstudio_model: qwen3-vl-2b-instruct"
        self.assertEqual({request["model"] for request in runs[0].requests}, {"scripted"})

    def test_a_place_is_the_nearest_pixel_a_whole_step_and_refused_outside_the_grid(self) -> None:
        """int(x / 1000 * (width - 1)); normalized_x = clamp(x, 0, 1000)."""
        for x, moved in ((500, [("move", 32, 18)]), (1200, []), (1000, [("move", 63, 18)])):
            run = self.acted(said("", "click_screen_element", **{**THING, "position": [x, 500]}))
            self.assertEqual(run.desktop.inputs[:1], moved)
        run = self.acted(said("", "click_screen_element", **{**THING, "position": [500.5, 500]}))
        self.assertIn('TOOL click "Button" (501, 500)', run.log)

    def test_who_wants_a_judge_besides_gets_one(self) -> None:
        """--set lies over the description, too."""
        done = said("", "report_mission_complete", evidence="It is pressed. " * 10)
        replies = [PLAN, done, text("1 YES: it is pressed")]
        run = Exchange(self, "planner", replies, "--set", "verify_completion=true")
        self.assertEqual(run.roles, ["planner", "executor", "verifier"])

    def test_the_mouse_is_moved_by_send_input(self) -> None:
        """SetCursorPos."""
        clock = VirtualClock()
        world = FakeWin32(clock=clock)
        with windows_of_main(world):
            self.acted(CLICK, desktop=None, clock=clock)
        self.assertGreater(len(world.clicks), 0)
        self.assertIn("SendInput", world.calls)
        self.assertNotIn("SetCursorPos", world.calls)


if __name__ == "__main__":
    unittest.main()
