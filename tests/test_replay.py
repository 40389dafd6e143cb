"""Repeating a run without a model: every act through the gates, on a screen that looks as it did, or not at all."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace
from typing import Any

import agent
from tests import seams
from tests.fakes import VirtualClock
from tests.samples import for_the_gate, some
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, PlainDesktop, call
from tests.test_main import CommandLineCase


class ReplayCase(CommandLineCase):
    """Every test begins with a copy of one recorded demo, and lives in virtual time."""

    clock: Any = VirtualClock

    def setUp(self) -> None:
        super().setUp()
        clock = seams.clock_of_main(self.clock)
        clock.start()
        self.addCleanup(clock.stop)
        code, out, _ = self.recorded()
        self.assertEqual(code, 0, out)
        self.desktops: list[agent.DemoDesktop] = []

    def replay(self, *argv: str, make: Any = agent.DemoDesktop) -> tuple[int, str, str]:
        """Replays run 1 on what `make(clock)` gives, which the test finds in `desktops`."""
        with seams.desktop_of_main(make) as self.desktops:
            return self.main("--replay", "1", "--demo", *argv)


class Covered(agent.DemoDesktop):
    """Another window comes up before the last click."""

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        canvas = agent.Canvas(width, height, super().glance(area, width, height))
        if self.state.text:
            canvas.fill(agent.Rect(width // 2, height // 2, width // 2, height // 2), 0x303030)
        return bytes(canvas.pixels)


class Slow(agent.DemoDesktop):
    """The program that was opened shows its window late."""

    looks = 0

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        state = self.state
        self.looks += state.opened
        if state.opened and self.looks < 15:
            self.state = agent.DemoState()
        try:
            return super().glance(area, width, height)
        finally:
            self.state = state


def elsewhere(**changed: Any) -> Any:
    """A desktop on which another window has the keyboard where text was typed."""

    class Elsewhere(agent.DemoDesktop):
        def foreground(self) -> agent.Window | None:
            window = super().foreground()
            return replace(window, **changed) if window and self.state.focus else window

    return Elsewhere


class Aside(agent.DemoDesktop):
    """The window has moved sideways, and its white field looks the same where it is clicked."""

    def window(self, handle: int) -> agent.Window | None:
        window = super().window(handle)
        if not (window and self.state.opened):
            return window
        return replace(window, rect=window.rect.moved(9, 0))


class OnTheIcon(agent.DemoDesktop):
    """The pointer lies where the first click goes."""

    def __init__(self, clock: agent.Clock) -> None:
        super().__init__(clock)
        self.move(agent.Point(74, 64))


class Turning(agent.DemoDesktop):
    """The screen is turned after each of the first looks, so that another look is needed."""

    looks = 0

    def capture(self, *where: Any) -> agent.Frame:
        frame = super().capture(*where)
        self.looks += 1
        return replace(frame, screen=agent.Rect(0, 0, 720, 1280)) if self.looks < 20 else frame


class Nudged(agent.DemoDesktop):
    """After the first move the mouse is elsewhere before the button goes down."""

    looks = 0
    presses = 0

    def move(self, point: agent.Point) -> None:
        super().move(point)
        self.looks += 1

    def cursor(self) -> agent.Point:
        self.looks += bool(self.looks)
        return agent.Point(9, 400) if self.looks == 4 else super().cursor()

    def button(self, name: str, down: bool) -> None:
        self.presses += down
        super().button(name, down)


class Replay(ReplayCase):
    def test_an_act_of_which_only_the_mouse_had_moved_is_done_after_another_look(self) -> None:
        code, out, err = self.replay(make=Nudged)
        self.assertEqual((code, err), (0, ""), out)
        refused = [r["refused"] for r in self.records(2) if r["kind"] == "result" and r["refused"]]
        self.assertEqual((refused, self.desktops[0].presses), (["stale_frame"], 4))

    def test_the_acts_are_repeated_without_a_model_and_so_is_that(self) -> None:
        code, out, err = self.replay()
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(self.desktops[0].state.saved_text, "Hello from agent.py")
        self.assertIn("completed: Repeated 4 acts.", out)
        self.assertNotIn("request", [record["kind"] for record in self.records(2)])
        self.assertTrue((self.run_folder(2) / "report.html").exists())
        code, out, _ = self.main("--replay", "2", "--demo")
        self.assertEqual(code, 0, out)

    def test_what_looks_as_it_did_is_acted_on_and_what_does_not_stops_it(self) -> None:
        covered = (
            r'differs: click "Save button" \(74[5-7], 76[67]\): something else stands at'
            r" \(\d+, \d+\); see .*turn_0005.png\."
        )
        hello = "Hello from agent.py"
        rows: tuple[tuple[Any, str, str, str | None], ...] = (
            (OnTheIcon, "completed: Repeated 4 acts", hello, hello),
            (Slow, "completed: Repeated 4 acts", hello, hello),
            (Covered, covered, hello, None),
            (Aside, "differs: click .text area", "", None),
            (elsewhere(rect=agent.Rect(400, 300, 200, 100)), "differs: type_text", "", None),
            (elsewhere(program="mail.exe"), "differs: type_text", "", None),
        )
        for make, wanted, text, saved in some(rows, 3, lambda row: row[3]):
            with self.subTest(make):
                code, out, _ = self.replay(make=make)
                self.assertEqual(code, 0 if saved else 1)
                self.assertRegex(out, wanted)
                state = self.desktops[0].state
                self.assertEqual((state.text, state.saved_text), (text, saved))

    def test_a_gate_that_refuses_ends_the_replay(self) -> None:
        code, out, _ = self.replay("--set", "blocked_windows=*")
        self.assertEqual(code, 1)
        self.assertIn("refused: Not done", out)
        self.assertIsNone(self.desktops[0].state.saved_text)

    def test_however_often_another_look_is_needed_each_act_is_one_turn_and_done_once(self) -> None:
        code, out, _ = self.replay(make=Turning)
        self.assertEqual(code, 0, out)
        refused = [r["refused"] for r in self.records(2) if r["kind"] == "result" and r["refused"]]
        self.assertGreater(len(refused), 5)
        self.assertEqual(set(refused), {"stale_frame"})
        figures = dict(agent.stats_of(self.run_folder(2)).figures())
        self.assertEqual((figures["acts"], figures["turns"]), ("4", "4"))

    def test_a_dry_run_shows_the_acts_and_touches_no_desktop(self) -> None:
        with seams.desktop_of_main() as opened:
            code, out, _ = self.main("--replay", "1", "--dry-run")
        self.assertEqual((code, len(out.splitlines()), opened), (0, 5, []))
        self.assertRegex(
            out.splitlines()[2],
            r'^   3  type_text "Hello from agent\.py" "text area"  screenshots/turn_0004\.png$',
        )

    def test_acts_that_were_refused_or_not_finished_are_not_repeated(self) -> None:
        self.main("--demo", "--dry-run", "--max-steps", "4")
        _, _, err = self.main("--demo", "--replay", "2")
        self.assertIn("cannot be repeated: nothing was done in it", err)

    def test_a_journal_with_a_damaged_line_is_not_repeated_since_an_act_may_be_lost(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        for kind in (b"intent", b"result"):
            journal.write_bytes(journal.read_bytes().replace(b'{"kind": "%s"' % kind, b"\0\0", 1))
        code, _, err = self.replay()
        self.assertEqual((code, self.desktops), (1, []))
        self.assertRegex(err, "cannot be repeated: it is damaged")

    def test_a_missing_picture_an_odd_act_or_a_damaged_record_ends_it_in_a_line(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        whole = journal.read_text()
        for old, new, wanted in (
            ('"tool": "double_click"', '"tool": "format_disk"', "no tool 'format_disk'"),
            ('"x": 56', '"x": 5600', "whole numbers from 0 to 1000"),
            ("turn_0002.png", "../../x.png", "is no ordinary file"),
            ('"program":', '"programme":', ""),
            ('"window": [', '"window": ["a", ', ""),
            ('{"x": 56, ', '{"z": 56, ', ""),
        ):
            journal.write_text(whole.replace(old, new))
            code, out, err = self.replay()
            self.assertEqual(code, 1, (old, out))
            self.assertIn(wanted, out + err)
            self.assertNotIn("Traceback", out + err)
            for desktop in self.desktops:
                self.assertEqual(desktop.state.text, "")
                if wanted:
                    self.assertEqual(desktop.state, agent.DemoDesktop(desktop.clock).state)

    def test_a_text_with_a_secret_needs_its_value_and_other_braces_are_typed(self) -> None:
        journal = self.run_folder() / "turns.jsonl"
        whole = journal.read_text()
        for text, needed in (("{{WORD}}", True), ("{{ a.b }} {{", False)):
            journal.write_text(whole.replace("Hello from agent.py", text))
            _, out, _ = self.replay("--confirm", "never")
            self.assertEqual("needs the value of a secret" in out, needed)
            self.assertEqual(self.desktops[0].state.text, "" if needed else text)
            # Another text is not what the picture after it shows.
            self.assertEqual("differs: click" in out, not needed)


class Painted(agent.DemoDesktop):
    """Its window shows something else."""

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        canvas = agent.Canvas(width, height, super().glance(area, width, height))
        if self.state.focus:
            canvas.fill(agent.Rect(700, 118, 40, 20).scaled(area, canvas.area), 0x203040)
        return bytes(canvas.pixels)


class NoPlace(ReplayCase):
    """What needs no place passes where the window is right."""

    @for_the_gate
    def test_shortcuts_programs_and_windows_pass_and_keys_in_a_window_only_if_it_is_the_same(
        self,
    ) -> None:
        journal = self.run_folder() / "turns.jsonl"
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        (typed,) = [line for line in lines if line.get("tool") == "type_text"]
        other = elsewhere(title="Mail")
        rows: tuple[tuple[str, dict[str, str], Any, bool], ...] = (
            ("press_key", {"key": "ctrl+s"}, Painted, True),
            ("press_key", {"key": "f5"}, Painted, True),
            ("press_key", {"key": "win+r"}, other, True),
            ("open_app", {"name": "Notes"}, other, True),
            ("focus_window", {"title": "Notes"}, other, True),
            ("press_key", {"key": "ctrl+s"}, other, False),
            ("press_key", {"key": "enter"}, Painted, False),
            ("press_key", {"key": "space"}, Painted, False),
            ("press_key", {"key": "ctrl+v"}, Painted, False),
            ("press_key", {"key": "enter"}, agent.DemoDesktop, True),
        )
        for tool, args, make, passes in some(rows, 4, lambda row: (row[0], row[3])):
            with self.subTest(tool, **args):
                typed.update(tool=tool, args=args)
                journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
                _, out, err = self.replay("--confirm", "never", make=make)
                self.assertEqual((f"differs: {tool}" not in out, err), (passes, ""), out)


class FewLooks(VirtualClock):
    """A time that flies, so that a screen on which nothing changes is not looked at again and again."""

    def sleep(self, seconds: float) -> None:
        super().sleep(10 * seconds)


class Likeness(ReplayCase):
    """What of a screen may differ from its recorded picture, which is painted over here."""

    clock = FewLooks

    def drag(self, *painted: tuple[str, int, int]) -> str:
        """What is told of a drag, after so many rows around an end of it got other levels."""
        journal = self.run_folder() / "turns.jsonl"
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        lines = [line for line in lines if line["kind"] != "place"]  # so that pixels alone tell
        act = next(line for line in lines if line["kind"] == "intent")
        places = {"start": {"x": 57, "y": 90}, "end": {"x": 701, "y": 701}}
        act.update(tool="drag", args={"element_name": "icon", **places})
        journal.write_text("\n".join(map(json.dumps, lines)) + "\n")
        picture = self.run_folder() / "screenshots" / "turn_0002.png"
        rgb, width, height = seams.rgb_picture(picture.read_bytes())
        pixels = bytearray(width * height * 4)
        for channel in range(3):
            pixels[2 - channel :: 4] = rgb[channel::3]
        for end, rows, levels in painted:
            left, top = {"start": (0, 0), "end": (240, 100)}[end]
            for y in range(top, top + rows):
                row = slice((y * width + left) * 4, (y * width + left + 140) * 4)
                pixels[row] = bytes(v + levels if v < 128 else v - levels for v in pixels[row])
        picture.write_bytes(agent.encode_png(bytes(pixels), width, height))
        _, out, err = self.replay()
        self.assertEqual(err, "")
        return out

    @for_the_gate
    def test_no_letter_of_an_end_may_differ(self) -> None:
        """A line of one pixel is no letter; either end counts."""
        for painted, differs in (
            (("start", 40, 100), "differs: drag"),
            (("end", 40, 100), "differs: drag"),
            (
                ("start", 2, 100),
                r"differs: drag .*: something else stands at \(\d+, [1-4]\); see run_",
            ),
            (("start", 40, 8), "differs: drag"),
            (("start", 1, 100), ""),
        ):
            with self.subTest(painted):
                self.setUp()
                told = self.drag(painted)
                self.assertRegex(told, differs or "^")
                self.assertEqual("differs: drag" in told, bool(differs))


class Closer(EngineCase):
    def test_a_closer_picture_of_another_size_than_the_whole_one_is_taken_in_its_size(self) -> None:
        """As its half of the screen's pixels needs no more, a closer picture is smaller than the whole."""
        replies = iter([PLAN, call("zoom", position=[750, 250])])
        click = call("click_screen_element", element_name="it", position=[0, 1000])
        free = {"screen_capture_w": 0, "screen_capture_h": 0, "image_tokens": 1296}
        trial = self.trial(lambda _: next(replies, click), max_steps=2, **FEWER_REQUESTS, **free)
        self.begin(trial)
        trial.run()
        trial.close()
        sizes = {(look["width"], look["height"]) for look in trial.records("look")}
        self.assertGreater(len(sizes), 1)
        out = io.StringIO()
        words = ["--replay", "1", "--set", f"dump_dir={self.folder / 'dumps'}"]
        with (
            seams.desktop_of_main(PlainDesktop) as opened,
            seams.clock_of_main(),
            contextlib.redirect_stdout(out),
        ):
            self.assertEqual(agent.main(words), 0, out.getvalue())
        moves = [event[1:] for event in opened[0].inputs if event[0] == "move"]
        self.assertEqual(len(moves), 1)

    def test_an_act_on_a_closer_picture_is_repeated_on_such_a_picture(self) -> None:
        replies = iter([PLAN, call("zoom", position=[750, 250])])
        click = call("click_screen_element", element_name="it", position=[0, 1000])
        trial = self.trial(lambda _: next(replies, click), max_steps=2, **FEWER_REQUESTS)
        self.begin(trial)
        trial.run()
        trial.close()
        given = (f"dump_dir={self.folder / 'dumps'}", "screen_capture_w=64", "screen_capture_h=64")
        words = [word for setting in given for word in ("--set", setting)]
        out = io.StringIO()
        with (
            seams.desktop_of_main(PlainDesktop) as opened,
            seams.clock_of_main(),
            contextlib.redirect_stdout(out),
        ):
            self.assertEqual(agent.main(["--replay", "1", *words]), 0, out.getvalue())
        moves = [event[1:] for event in opened[0].inputs if event[0] == "move"]
        self.assertEqual(moves, [(31, 17)])
