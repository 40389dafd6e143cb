"""Repeating a run without a model: every act through the gates, on a screen that looks as it did, or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any
from unittest import mock

import agent
from tests.fakes import VirtualClock
from tests.test_main import CommandLineCase

# To compare screens that differ pixel by pixel takes long; a small part around the target shows it as well.
SMALL_BOX = "--set", "replay_box=20"


class ReplayCase(CommandLineCase):
    """Every test begins with a copy of one recorded demo, and lives in virtual time."""

    def setUp(self) -> None:
        super().setUp()
        clock = mock.patch.object(agent, "SystemClock", VirtualClock)
        clock.start()
        self.addCleanup(clock.stop)
        code, out, _ = self.recorded()
        self.assertEqual(code, 0, out)
        self.desktops: list[agent.DemoDesktop] = []

    def replay(self, *argv: str, change: Any = None) -> tuple[int, str, str]:
        """Replays run 1; `change(desktop)` prepares the desktop, which the test finds in `desktops`."""

        def desktop(options: Any, clock: agent.Clock) -> agent.DemoDesktop:
            self.desktops.append(agent.DemoDesktop(clock))
            if change:
                change(self.desktops[-1])
            return self.desktops[-1]

        with (
            mock.patch.object(agent, "open_desktop", desktop),
            mock.patch.object(agent, "DemoModel", side_effect=AssertionError),
        ):
            return self.main("--replay", "1", "--demo", *argv)


class Replay(ReplayCase):
    def test_the_acts_are_repeated_without_a_model_with_the_same_result(self) -> None:
        code, out, err = self.replay()
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(self.desktops[0].state.saved_text, "Hello from agent.py")
        self.assertIn("completed: Repeated 4 acts.", out)
        self.assertIn(" 0 requests, 0 tokens", out)

    def test_a_replay_has_a_journal_and_a_report_of_its_own_and_can_be_replayed(self) -> None:
        self.replay()
        facts = dict(agent.book_of(self.run_folder(2)).figures())
        self.assertEqual((facts["turns"], facts["acts"], facts["requests"]), ("4", "4", "0"))
        self.assertTrue((self.run_folder(2) / "report.html").exists())
        code, out, _ = self.main("--replay", "2", "--demo")
        self.assertEqual(code, 0, out)

    def test_every_act_passes_all_gates_on_a_frame_of_its_own(self) -> None:
        seen: list[tuple[int, str]] = []

        def gate(actuator: agent.Actuator, attempt: agent.Attempt) -> None:
            seen.append((attempt.frame.number, attempt.act.name))

        with mock.patch.object(agent, "GATES", (*agent.GATES, gate)):
            self.replay()
        self.assertEqual(
            [name for _, name in seen], ["double_click", "click", "type_text", "click"]
        )
        self.assertEqual(len({number for number, _ in seen}), 4)

    def test_a_gate_that_refuses_ends_the_replay(self) -> None:
        code, out, _ = self.replay("--set", "text_chars_most=5")
        self.assertEqual(code, 1)
        self.assertIn("refused: Not done", out)
        self.assertIsNone(self.desktops[0].state.saved_text)

    def test_a_covered_target_stops_it_before_the_act_with_a_clear_line(self) -> None:
        original = agent.DemoDesktop.glance

        def covered(desktop: agent.DemoDesktop, area: agent.Rect, width: int, height: int) -> bytes:
            canvas = agent.Canvas(width, height, original(desktop, area, width, height))
            if desktop.state.text:  # another window comes up before the last click
                canvas.fill(agent.Rect(width // 2, height // 2, width // 2, height // 2), 0x303030)
            return bytes(canvas.pixels)

        with mock.patch.object(agent.DemoDesktop, "glance", covered):
            code, out, _ = self.replay("--set", "replay_patience=0.5", *SMALL_BOX)
        self.assertEqual(code, 1)
        self.assertRegex(
            out,
            r'differs: click "Save button" \(74[5-7], 76[67]\): \d+% of the screen around it is not as'
            r" in .*turn_0005.png; at most 5% may differ\.",
        )
        self.assertIsNone(self.desktops[-1].state.saved_text)

    def test_the_pointer_does_not_matter(self) -> None:
        for place in (agent.Point(74, 64), agent.Point(1200, 20)):

            def put(desktop: agent.DemoDesktop, place: agent.Point = place) -> None:
                desktop._cursor = place

            code, out, _ = self.replay("--set", "replay_patience=0.3", change=put)
            self.assertEqual(code, 0, out)

    def test_it_waits_for_a_window_that_is_slow_to_come(self) -> None:
        original, looks = agent.DemoDesktop.glance, [0]

        def slow(desktop: agent.DemoDesktop, area: agent.Rect, width: int, height: int) -> bytes:
            looks[0] += desktop.state.opened
            state = desktop.state
            if state.opened and looks[0] < 15:
                desktop.state = agent.DemoState()
            try:
                return original(desktop, area, width, height)
            finally:
                desktop.state = state

        with mock.patch.object(agent.DemoDesktop, "glance", slow):
            code, out, _ = self.replay(*SMALL_BOX)
        self.assertEqual(code, 0, out)

    def test_another_program_with_the_keyboard_stops_a_typed_text(self) -> None:
        original = agent.DemoDesktop.foreground

        def other(desktop: agent.DemoDesktop) -> agent.Window | None:
            window = original(desktop)
            return replace(window, program="mail.exe") if window and desktop.state.focus else window

        with mock.patch.object(agent.DemoDesktop, "foreground", other):
            code, out, _ = self.replay("--set", "replay_patience=0.3")
        self.assertEqual(code, 1)
        self.assertIn("differs: type_text", out)
        self.assertEqual(self.desktops[0].state.text, "")

    def test_another_window_of_the_same_program_stops_it_too(self) -> None:
        original = agent.DemoDesktop.foreground

        def moved(desktop: agent.DemoDesktop) -> agent.Window | None:
            window = original(desktop)
            return (
                replace(window, rect=agent.Rect(400, 300, 200, 100))
                if window and desktop.state.focus
                else window
            )

        with mock.patch.object(agent.DemoDesktop, "foreground", moved):
            code, out, _ = self.replay("--set", "replay_patience=0.3")
        self.assertEqual((code, self.desktops[0].state.text), (1, ""))
        self.assertIn("differs: type_text", out)

    def test_a_pause_before_an_act_asks_for_another_look_and_the_act_is_done_once(self) -> None:
        refusals = iter([True] * 7)

        def gate(actuator: agent.Actuator, attempt: agent.Attempt) -> None:
            if next(refusals, False):
                raise agent.ToolError("The run was paused.", "stale_frame")

        with mock.patch.object(agent, "GATES", (*agent.GATES, gate)):
            code, out, _ = self.replay()
        self.assertEqual(code, 0, out)
        self.assertEqual(dict(agent.book_of(self.run_folder(2)).figures())["acts"], "4")

    def test_a_dry_run_shows_the_acts_and_touches_no_desktop(self) -> None:
        with mock.patch.object(agent, "open_desktop", side_effect=AssertionError("touched")):
            code, out, _ = self.main("--replay", "1", "--dry-run")
        self.assertEqual((code, len(out.splitlines())), (0, 5))
        self.assertRegex(
            out.splitlines()[2],
            r'^   3  type_text "Hello from agent\.py" "text area"  screenshots/turn_0004\.png$',
        )

    def test_acts_that_were_refused_or_not_finished_are_not_repeated(self) -> None:
        self.main("--demo", "--dry-run", "--max-steps", "4")
        with self.assertRaisesRegex(agent.AgentError, "cannot be repeated: nothing was done in it"):
            agent.recording_of(self.run_folder(2))

    def test_a_journal_with_a_damaged_line_is_not_repeated_since_an_act_may_be_lost(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        for kind in (b"intent", b"result"):
            journal.write_bytes(journal.read_bytes().replace(b'{"kind": "%s"' % kind, b"\0\0", 1))
        code, _, err = self.replay()
        self.assertEqual((code, self.desktops), (1, []))
        self.assertRegex(err, "cannot be repeated: it is damaged")

    def test_a_missing_screenshot_or_an_odd_act_ends_it_with_one_line(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        whole = journal.read_text()
        for old, new, wanted in (
            ('"tool": "double_click"', '"tool": "format_disk"', "no tool 'format_disk'"),
            ('"x": 56', '"x": 5600', "must lie between 0 and 1000"),
            ("turn_0002.png", "../../x.png", "has no record of the screenshot"),
        ):
            journal.write_text(whole.replace(old, new))
            code, out, err = self.replay()
            self.assertEqual(code, 1)
            self.assertIn(wanted, out + err)
            self.assertEqual(self.desktops, [])

    def test_a_story_is_repeated_too(self) -> None:
        shutil.rmtree(self.folder / "dumps")
        self.assertEqual(self.recorded("--profile", "story")[0], 0)
        code, out, _ = self.main("--replay", "1", "--demo")
        self.assertEqual(code, 0, out)
        self.assertIn("Repeated 4 acts", out)

    def test_a_text_with_a_secret_needs_its_value(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        journal.write_text(journal.read_text().replace("Hello from agent.py", "{{WORD}}"))
        code, out, _ = self.replay("--confirm", "never")
        self.assertEqual(code, 1)
        self.assertIn("needs the value of a secret", out)
        self.assertFalse(self.desktops[0].acts)

    def test_a_text_with_braces_that_name_no_secret_is_typed_as_it_is(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        journal.write_text(journal.read_text().replace("Hello from agent.py", "{{ a.b }} {{"))
        _, out, _ = self.replay("--confirm", "never")
        self.assertNotIn("needs the value of a secret", out)
        self.assertTrue(self.desktops[0].acts)

    def test_a_damaged_record_of_a_look_or_an_act_gets_one_line(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        whole = journal.read_text()
        for old, new in (
            ('"program":', '"programme":'),
            ('"window": [', '"window": ["a", '),
            ('{"x": 56, ', '{"z": 56, '),
        ):
            journal.write_text(whole.replace(old, new))
            code, out, err = self.replay("--set", "replay_patience=0.1")
            self.assertEqual(code, 1, (old, out))
            self.assertNotIn("Traceback", out + err)
            typed = [act for act in self.desktops[-1].acts if act.startswith("text")]
            self.assertEqual(typed, [])


class Likeness(ReplayCase):
    """What of a screen may differ from its recorded picture, which is painted over here."""

    def drag(self, *painted: tuple[str, int, int]) -> str:
        """What is told of a drag, after so many of the 40 rows around an end of it got other levels."""
        journal = self.run_folder() / "turns.jsonl"
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        act = next(line for line in lines if line["kind"] == "intent")
        places = {"start": {"x": 57, "y": 90}, "end": {"x": 701, "y": 701}}
        act.update(tool="drag", args={"element_name": "icon", **places})
        journal.write_text("\n".join(map(json.dumps, lines)) + "\n")
        picture = self.run_folder() / "screenshots" / "turn_0002.png"
        rgb, width, height = agent.png_to_rgb(picture.read_bytes())
        pixels = bytearray(rgb)
        for end, rows, levels in painted:
            left, top = {"start": (9, 6), "end": (338, 181)}[end]
            for y in range(top, top + rows):
                row = slice((y * width + left) * 3, (y * width + left + 40) * 3)
                pixels[row] = bytes(v + levels if v < 128 else v - levels for v in pixels[row])
        picture.write_bytes(agent.rgb_to_png(bytes(pixels), width, height))
        _, out, err = self.replay("--set", "replay_patience=0.1", *SMALL_BOX)
        self.assertEqual(err, "")
        return out

    def test_one_of_two_places_that_differs_stops_it(self) -> None:
        for end in ("start", "end"):
            self.setUp()
            self.assertIn("differs: drag", self.drag((end, 40, 100)), end)

    def test_a_twentieth_of_the_pixels_may_differ_and_no_more(self) -> None:
        self.assertNotIn("differs: drag", self.drag(("start", 2, 100)))
        self.setUp()
        told = self.drag(("start", 3, 100))
        self.assertRegex(told, r"differs: drag .*: 8% of the screen .*; at most 5% may differ")

    def test_a_level_of_an_eighth_is_the_same_colour_and_one_more_is_not(self) -> None:
        for levels, differs in ((32, False), (33, True)):
            self.setUp()
            told = self.drag(("start", 40, levels))
            self.assertEqual("differs: drag" in told, differs, (levels, told))
