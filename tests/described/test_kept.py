"""What stays as ours with --described: a row of the table that is kept, each tried at a seam."""

from __future__ import annotations

import unittest
from typing import Any

import agent
from tests.described.exchange import Exchange, said
from tests.fakes import FakeWin32, VirtualClock
from tests.scripted import EngineCase, PlainDesktop, text
from tests.seams import windows_of_main

WHY = {"reasoning": "it is next"}
PLAN = said("", "update_execution_plan", instructions="Press it.", **WHY)
CLICK = said("", "click_screen_element", element_name="Button", position=[500, 500], **WHY)


class Blinking(PlainDesktop):
    """A screen that is black for its first three pictures."""

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        shown = super().glance(area, width, height)
        return shown if self.number > 3 else bytes(len(shown))


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
        self.assertEqual(self.pressed("any key"), [])

    def test_json_is_utf_8(self) -> None:
        """json.dumps with its defaults."""
        typed = said("", "type_text_input", text="Gr\u00fc\u00dfe", **WHY)
        run = self.acted(typed, said("", "scroll_screen_down", **WHY))
        self.assertIn("Gr\u00fc\u00dfe".encode(), run.bodies[-1])
        self.assertNotIn(b"\\u00fc", run.bodies[-1])

    def test_each_run_has_a_folder_of_its_own_with_the_described_files_in_it(self) -> None:
        """dumps/execution_log.txt, dumps/screenshots/."""
        folders = [self.acted(CLICK).folder for _ in range(2)]
        self.assertEqual([folder.name for folder in folders], ["run_0001", "run_0002"])
        for name in ("execution_log.txt", "screenshots/turn_0002.png", "turns.jsonl"):
            self.assertTrue((folders[0] / name).is_file(), name)
        self.assertTrue((folders[0] / "report.html").is_file())

    def test_a_screen_that_cannot_be_captured_pauses_the_run(self) -> None:
        """Screen Capture Failures: RuntimeError."""
        run = self.acted(CLICK, desktop=Blinking)
        self.assertIn("one single colour", run.log)
        self.assertNotEqual(run.desktop.inputs, [])

    def test_a_gate_that_asks_refuses_where_nobody_is(self) -> None:
        """No user confirmation, no sandbox."""
        self.assertEqual(self.pressed("alt+f4"), [])

    def test_a_pixel_is_the_nearest_one(self) -> None:
        """int(x / 1000 * (width - 1)); 31.5 of the 64 pixels is 32."""
        move = said("", "move_mouse", x=500, y=500)
        run = Exchange(self, "pointer", [said("", "take_screenshot"), move, text("The end.")])
        self.assertEqual(run.desktop.inputs[0], ("move", 32, 18))
        self.assertEqual(PlainDesktop(VirtualClock()).screen(), agent.Rect(0, 0, 64, 36))

    def test_the_loaded_model_is_asked_instead_of_the_described_one(self) -> None:
        """lmstudio_model: qwen3-vl-2b-instruct."""
        run = self.acted(CLICK)
        self.assertEqual({request["model"] for request in run.requests}, {"scripted"})

    def test_who_wants_a_judge_besides_gets_one(self) -> None:
        """--set lies over the description, too."""
        done = said("", "report_mission_complete", evidence="It is pressed. " * 10)
        replies = [PLAN, done, text("1 YES: it is pressed")]
        run = Exchange(self, "planner", replies, "--set", "verify_completion=true")
        self.assertEqual(run.roles, ["planner", "executor", "verifier"])

    def test_the_endpoint_is_an_address_and_no_name(self) -> None:
        """http://localhost:1234."""
        for profile in "planner commander chat pointer story".split():
            options = agent.command_line().parse_args(["--profile", profile, "--described", "x"])
            endpoint = agent.read_config(options, {}).lmstudio_endpoint
            self.assertTrue(endpoint.startswith("http://127.0.0.1:"), endpoint)

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
