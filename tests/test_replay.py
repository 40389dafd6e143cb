"""Repeating a run without a model: every act through the gates, on a screen that looks as it did, or not at all."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.fakes import VirtualClock
from tests.test_main import CommandLineCase, copy_folder

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
        self.assertEqual(self.desktops[0].state.saved_text, "")

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
        self.assertEqual(self.desktops[-1].state.saved_text, "")

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
        refusals = iter([True])

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
            self.assertFalse(any(act.startswith("button") for act in self.desktops[-1].acts))

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


class Script(ReplayCase):
    def arguments(self, *argv: str) -> list[str]:
        return ["--demo", "--set", f"dump_dir={self.folder / 'again'}", *argv]

    def started(self, script: Path, *argv: str) -> subprocess.CompletedProcess[str]:
        """The script as a person starts it, from anywhere and with nothing set up for it."""
        return subprocess.run(
            [sys.executable, "-B", str(script), *self.arguments(*argv)],
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
        )

    def run_here(self, script: Path, *argv: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of the script, in this process as Python would start it."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(sys, "argv", [str(script), *self.arguments(*argv)]),
            mock.patch.object(sys, "path", list(sys.path)),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            self.assertRaises(SystemExit) as ended,
        ):
            runpy.run_path(str(script), run_name="__main__")
        return int(ended.exception.code or 0), out.getvalue(), err.getvalue()

    def test_without_a_path_it_stands_beside_the_run_and_outlives_it(self) -> None:
        code, out, err = self.main("--save-script", "1")
        self.assertEqual((code, err), (0, ""))
        script = self.folder / "dumps" / "run_0001.py"
        self.assertIn(f"Written: {script}", out)
        shutil.rmtree(self.run_folder())
        done = self.started(script)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("Repeated 4 acts", done.stdout)
        code, _, err = self.main("--runs")
        self.assertEqual((code, err), (0, ""))

    def test_it_finds_agent_py_beside_it_or_one_folder_up_before_the_place_where_it_was_written(
        self,
    ) -> None:
        self.main("--save-script", "1", str(self.folder / "mine.py"))
        for place in (self.folder / "a", self.folder / "b" / "scripts"):
            place.mkdir(parents=True)
            shutil.copyfile(self.folder / "mine.py", place / "mine.py")
            copy_folder(self.folder / "mine_recording", place / "mine_recording")
        for beside in (self.folder / "a", self.folder / "b"):
            (beside / "agent.py").write_text("raise SystemExit('the near one')", encoding="utf-8")
        for script in (self.folder / "a" / "mine.py", self.folder / "b" / "scripts" / "mine.py"):
            self.assertEqual(self.started(script).stderr, "the near one\n")
        done = self.started(self.folder / "mine.py", "--dry-run")
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 5), done.stderr)

    def test_nothing_that_is_there_already_is_overwritten(self) -> None:
        self.main("--save-script", "1")
        for _ in ("both", "the script alone"):
            code, _, err = self.main("--save-script", "1")
            self.assertEqual(code, 2)
            self.assertIn("choose another name", err)
            shutil.rmtree(self.folder / "dumps" / "run_0001_recording", ignore_errors=True)
        self.assertIn("takes a run and the name", self.main("--save-script", "1", "a.py", "b")[2])

    def test_an_act_is_not_done_where_the_screen_differs_from_the_copied_picture(self) -> None:
        self.main("--save-script", "1")
        shutil.rmtree(self.run_folder())
        picture = next((self.folder / "dumps" / "run_0001_recording" / "screenshots").iterdir())
        rgb, width, height = agent.png_to_rgb(picture.read_bytes())
        for path in picture.parent.iterdir():
            path.write_bytes(agent.rgb_to_png(bytes(len(rgb)), width, height))
        script = self.folder / "dumps" / "run_0001.py"
        code, out, _ = self.run_here(script, "--set", "replay_patience=0.2", *SMALL_BOX)
        self.assertEqual(code, 1)
        self.assertIn("differs: double_click", out)

    def test_a_task_that_looks_like_a_coding_cookie_cannot_change_the_script(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        lines[0]["task"] = "write to Bob, coding: unicode_escape"
        for line in lines:
            if line["kind"] == "intent" and "text" in line["args"]:
                line["args"]["text"] = "'}, print(\"PWNED\"), {'"
        journal.write_text("\n".join(map(json.dumps, lines)) + "\n")
        target = self.folder / "again.py"
        self.main("--save-script", "1", str(target))
        code, out, err = self.run_here(target, "--dry-run")
        self.assertEqual((code, err), (0, ""), out)
        self.assertNotIn("PWNED", [*out.split(), out.splitlines()[0]])
        self.assertEqual(len(out.splitlines()), 5)

    def test_a_saved_script_imports_agent_alone_and_repeats_the_run(self) -> None:
        target = self.folder / "again.py"
        code, out, _ = self.main("--save-script", "1", str(target))
        self.assertEqual(code, 0, out)
        source = target.read_text(encoding="utf-8")
        self.assertEqual(
            [line.strip() for line in source.splitlines() if "import " in line],
            ["import sys", "from pathlib import Path", "import agent"],
        )
        self.assertLess(len(source.splitlines()), 30)
        code, out, err = self.run_here(target)
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("Repeated 4 acts", out)
        _, shown, _ = self.run_here(target, "--dry-run")
        self.assertEqual(len(shown.splitlines()), 5)

    def test_a_script_of_a_hostile_task_is_still_that_script(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        lines[0]["task"] = '"""\nraise SystemExit(99)\n"""  {0} \\ \u202e'
        journal.write_text("\n".join(map(json.dumps, lines)) + "\n")
        target = self.folder / "again.py"
        self.main("--save-script", "1", str(target))
        names: dict[str, Any] = {"__name__": "loaded"}
        exec(compile(target.read_text(encoding="utf-8"), "again.py", "exec"), names)
        self.assertEqual(len(names["STEPS"]), 4)
