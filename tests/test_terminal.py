"""The terminal of a run: lines that stay, the live line below them, colours, -q and -v, and the console's mode."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.fakes import FakeWin32, VirtualClock
from tests.seams import Keyboard, person_at_main, person_there, platform, terminal_columns
from tests.starting import PROGRAM, environment
from tests.test_main import HASTY, QUICK, CommandLineCase

ERASE = "\r\x1b[K"


class Screen(io.StringIO):
    """A stdout that says it is a terminal and wakes whoever waits for a text in it."""

    def isatty(self) -> bool:
        return True

    def seen(self, text: str, seconds: float = 5.0) -> bool:
        """Whether `text` appears within that time."""
        waiting = threading.Event()
        for _ in range(int(seconds / 0.005)):
            if text in self.getvalue():
                return True
            waiting.wait(0.005)
        return False


def shown(written: str) -> list[str]:
    """What is left on a real terminal: \\r goes to the line's start, ESC[K empties it."""
    lines = [""]
    for piece in re.split(r"(\r\x1b\[K|\n)", written):
        if piece == "\n":
            lines.append("")
        elif piece == ERASE:
            lines[-1] = ""
        else:
            lines[-1] += piece
    return lines


def printed(terminal: agent.Terminal) -> bool:
    """Whether all that was said is printed in good time."""
    done = terminal.lines.all_tasks_done
    with done:
        return done.wait_for(lambda: not terminal.lines.unfinished_tasks, 60)


class Live(unittest.TestCase):
    def terminal(self, **environ: str) -> tuple[agent.Terminal, Screen]:
        screen, undo = Screen(), contextlib.ExitStack()
        self.enter(contextlib.redirect_stdout(screen))
        self.enter(terminal_columns(60))
        self.enter(mock.patch.dict(os.environ, {"TERM": "xterm", "NO_COLOR": "1", **environ}))
        self.enter(platform("linux"))
        terminal = agent.Terminal(VirtualClock(agent.Stop()), 1, str, undo)
        self.close = undo.close
        self.addCleanup(undo.close)
        return terminal, screen

    def enter(self, context: Any) -> None:  # enterContext came with 3.11
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def test_the_live_line_tells_phase_seconds_turn_and_tokens_and_is_gone_in_the_end(self) -> None:
        terminal, screen = self.terminal()
        terminal.watch = lambda: "turn 3 of 50, 812 tokens"
        terminal.take(agent.Phase("executor is thinking"))
        terminal.clock.sleep(7)
        self.assertTrue(screen.seen("executor is thinking, 7 s   turn 3 of 50, 812 tokens"))
        terminal.take(agent.Phase(""))
        self.close()
        self.assertEqual(shown(screen.getvalue()), [""])

    def test_after_a_question_nothing_is_written_until_something_goes_on_again(self) -> None:
        terminal, screen = self.terminal()
        terminal.take(agent.Phase("doing click"))
        self.assertTrue(screen.seen("doing click"))
        terminal.say("Allow this?", 0)
        screen.seen("never", 0.2)
        self.assertEqual(shown(screen.getvalue()), ["Allow this?", ""])
        terminal.take(agent.Phase("waiting"))
        self.assertTrue(screen.seen("waiting"))

    def test_a_line_said_meanwhile_stands_alone_and_stays(self) -> None:
        terminal, screen = self.terminal()
        terminal.take(agent.Phase("looking"))
        for number in range(30):
            self.assertTrue(screen.seen("looking"))
            terminal.say(f"line {number}")
        self.close()
        self.assertEqual(
            shown(screen.getvalue()), [*(f"line {number}" for number in range(30)), ""]
        )

    def test_the_live_line_never_wraps(self) -> None:
        terminal, screen = self.terminal()
        terminal.watch = lambda: "x" * 200
        terminal.take(agent.Phase("thinking"))
        self.assertTrue(screen.seen("thinking"))
        self.close()
        self.assertLess(max(len(piece) for piece in screen.getvalue().split(ERASE)), 60)

    def test_colours_mark_outcomes_and_control_characters_stay_text(self) -> None:
        terminal, screen = self.terminal(NO_COLOR="")
        for text in (
            "completed: done",
            "stuck: no",
            "warning: \x1b[31mred",
            "   2  executor  click   unchanged   0.1 s",
        ):
            terminal.say(text)
        self.assertTrue(printed(terminal))
        completed, stuck, warning, turn, _ = screen.getvalue().split("\n")
        self.assertEqual(completed, "\x1b[32mcompleted\x1b[0m: done")
        self.assertEqual(stuck, "\x1b[31mstuck\x1b[0m: no")
        self.assertEqual(warning, "\x1b[33mwarning\x1b[0m: \\x1b[31mred")
        self.assertIn("\x1b[33munchanged\x1b[0m", turn)

    def test_a_closed_pipe_does_not_end_the_run(self) -> None:
        terminal, screen = self.terminal()
        screen.close()
        terminal.say("nobody reads this")


class Ability(unittest.TestCase):
    def ability(self, stdout: Any, **environ: str) -> agent.Terminal:
        with (
            mock.patch.dict(os.environ, {"TERM": "xterm", "NO_COLOR": "", **environ}),
            mock.patch.object(sys, "stdout", stdout),
            platform("linux"),
            contextlib.ExitStack() as undo,
        ):
            return agent.Terminal(VirtualClock(agent.Stop()), 1, str, undo)

    def test_a_terminal_has_a_live_line_and_colours(self) -> None:
        terminal = self.ability(Screen())
        self.assertTrue(terminal.colour and terminal.live)

    def test_no_color_takes_the_colours_only(self) -> None:
        terminal = self.ability(Screen(), NO_COLOR="1")
        self.assertTrue(terminal.live and not terminal.colour)

    def test_a_file_a_dumb_terminal_and_no_output_at_all_get_plain_lines(self) -> None:
        for stdout, term in ((io.StringIO(), "xterm"), (Screen(), "dumb"), (None, "xterm")):
            terminal = self.ability(stdout, TERM=term)
            self.assertFalse(terminal.colour or terminal.live)


@unittest.skipUnless(hasattr(os, "set_blocking"), "Windows fills a pipe otherwise")
class NobodyReads(unittest.TestCase):
    """Standard output is a pipe that takes nothing any more, as behind a pager or a selection."""

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        read, write = os.pipe()
        self.reader = io.FileIO(read)
        self.stdout = io.FileIO(write, "w")
        self.addCleanup(self.reader.close)
        self.addCleanup(self.stdout.close)
        os.set_blocking(write, False)
        with contextlib.suppress(OSError):  # so Windows says that it is full
            while self.stdout.write(b"." * 512):
                pass
        os.set_blocking(write, True)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*PROGRAM, "--demo", *HASTY, "--set", f"dump_dir={self.folder}", *arguments],
            env=environment(**QUICK),
            stdin=subprocess.DEVNULL,
            stdout=self.stdout,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def journal(self, process: subprocess.Popen[bytes], kind: str) -> str:
        """The first line of that kind, once there is one."""
        tick = threading.Event()
        while True:
            ended = process.poll() is not None
            for file in self.folder.glob("*/turns.jsonl"):
                for line in file.read_text().splitlines():
                    if f'"kind": "{kind}"' in line:
                        return line
            self.assertFalse(ended, f"no line of the kind {kind}")
            tick.wait(0.01)

    def test_the_run_goes_on_to_its_end_and_the_program_ends(self) -> None:
        process = self.start()
        _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, b""))
        self.assertIn('"completed"', self.journal(process, "end"))

    @unittest.skipIf(os.name == "nt", "Windows sends no process such a signal")
    def test_ctrl_c_stops_it(self) -> None:
        process = self.start("--set", "turn_delay=5")
        self.journal(process, "reply")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn('"stopped"', self.journal(process, "end"))

    def test_what_was_said_meanwhile_is_read_once_somebody_does(self) -> None:
        process = self.start("--set", "turn_delay=0.2")
        self.journal(process, "action")
        self.stdout.close()
        said = self.reader.read().lstrip(b".").replace(b"\r\n", b"\n")
        process.communicate(timeout=60)
        self.assertRegex(said, rb"\A +1  planner ")
        self.assertRegex(said, rb"\ncompleted: .*\n.*\n6 turns, .*report\.html\n\Z")


def switched(world: FakeWin32, undo: contextlib.ExitStack) -> bool:
    """Whether the console has escape sequences, which are 4 of its flags, and now on."""
    return agent.console_mode(world.api, agent.STD_OUTPUT_HANDLE, undo, 4)


class Console(unittest.TestCase):
    def test_escape_sequences_are_switched_on_and_the_old_mode_comes_back(self) -> None:
        world = FakeWin32()
        world.console_mode = 3
        with self.assertRaises(ZeroDivisionError), contextlib.ExitStack() as undo:
            self.assertTrue(switched(world, undo))
            self.assertEqual(world.console_mode, 7)
            raise ZeroDivisionError
        self.assertEqual(world.console_mode, 3)

    def test_a_file_and_an_old_console_have_none(self) -> None:
        for mode, old in ((None, False), (3, True)):
            world = FakeWin32()
            world.console_mode, world.old_console = mode, old
            with contextlib.ExitStack() as undo:
                self.assertFalse(switched(world, undo))
            self.assertEqual(world.console_mode, mode)


class Selections(unittest.TestCase):
    """QuickEdit is 0x40, and 0x80 says that 0x40 counts."""

    def test_the_mouse_selects_nothing_while_a_run_goes_on_and_the_old_mode_comes_back(
        self,
    ) -> None:
        for before, during, after in ((0x1F7, 0x1B7, 0x1F7), (0x47, 0x87, 0xC7), (0x7, 0x87, 0x87)):
            world = FakeWin32()
            world.input_mode = before
            with self.assertRaises(ZeroDivisionError), contextlib.ExitStack() as undo:
                agent.console_mode(world.api, agent.STD_INPUT_HANDLE, undo, 0x80, 0x40)
                self.assertEqual(world.input_mode, during)
                raise ZeroDivisionError
            self.assertEqual(world.input_mode, after)

    def test_without_a_console_nothing_is_changed(self) -> None:
        world = FakeWin32()
        with contextlib.ExitStack() as undo:
            agent.console_mode(world.api, agent.STD_INPUT_HANDLE, undo, 0x80, 0x40)
        self.assertIsNone(world.input_mode)


class Asked(unittest.TestCase):
    """What a person types at a terminal, in virtual time."""

    def setUp(self) -> None:
        undo = contextlib.ExitStack()
        self.addCleanup(undo.close)
        undo.enter_context(contextlib.redirect_stdout(io.StringIO()))
        undo.enter_context(person_there())
        self.keyboard = Keyboard()
        undo.enter_context(mock.patch.object(sys, "stdin", self.keyboard))
        undo.callback(self.keyboard.end)
        self.clock = VirtualClock()
        self.terminal = agent.Terminal(self.clock, 1, str, undo)

    def answer(self, *times: float, line: str = "y") -> str:
        """To a question that waits for 30 s; the line is typed at these seconds."""
        for seconds in times:
            self.clock.at(seconds, lambda: self.keyboard.type(line))
        self.printed()
        end = self.clock.now() + 30
        return self.terminal.ask("Really?", lambda: self.clock.now() < end)

    def printed(self) -> None:
        """Lets the thread that prints keep up with virtual time."""
        sleep = self.clock.sleep

        def sleep_once_printed(seconds: float) -> None:
            sleep(seconds)
            self.assertTrue(printed(self.terminal))

        self.clock.sleep = sleep_once_printed  # type: ignore[method-assign]

    def test_a_line_typed_after_the_question_answers_it(self) -> None:
        self.assertEqual(self.answer(5, line=" y "), "y")

    def test_a_line_typed_before_the_first_question_is_no_answer_to_it(self) -> None:
        self.assertEqual(self.answer(0.1), "")

    def test_a_line_typed_between_two_questions_is_no_answer_to_the_second(self) -> None:
        self.answer(5)
        self.keyboard.type("y")
        self.assertEqual(self.answer(), "")

    def test_each_question_gets_the_first_line_that_is_typed_after_it(self) -> None:
        self.assertEqual(self.answer(5, line="one"), "one")
        self.assertEqual(self.answer(5, line="two"), "two")
        self.answer()
        self.assertEqual(self.answer(5, line="three"), "three")

    def test_no_line_in_time_is_an_empty_answer(self) -> None:
        begun = self.clock.now()
        self.assertEqual(self.answer(), "")
        self.assertAlmostEqual(self.clock.now() - begun, 30, delta=0.4)

    def test_where_nothing_more_can_be_typed_the_answer_is_empty_at_once(self) -> None:
        begun = self.clock.now()
        self.keyboard.end()
        self.assertEqual(self.answer(), "")
        self.assertLess(self.clock.now() - begun, 29)

    def test_a_line_typed_before_the_question_is_printed_is_no_answer_to_it(self) -> None:
        hold, begun = threading.Event(), threading.Event()

        class Held(io.StringIO):
            def write(self, text: str) -> int:
                begun.set()
                hold.wait(60)
                return super().write(text)

        with contextlib.redirect_stdout(Held()):
            self.clock.at(5, lambda: (begun.wait(60), self.keyboard.type("y"), hold.set()))
            self.clock.at(6, lambda: printed(self.terminal))
            end = self.clock.now() + 30
            self.assertEqual(self.terminal.ask("Really?", lambda: self.clock.now() < end), "")


class Allowed(CommandLineCase):
    """A risky act of the demo, and a person at the console."""

    def first_act(self, answer: str | None) -> str:
        """What came of it, where the person answers so."""

        def types(out: str) -> str | None:
            return answer if out.endswith(" s does not.\n") else None

        with person_at_main(types) as keyboard:
            # In virtual time, in which a minute may be over before the question is printed.
            wait = "60" if answer is None else "86400"
            risky = ("--set", "risky_words=icon", "--set", f"confirm_wait={wait}")
            _, self.out, _ = self.main("--demo", *risky, "--max-steps", "2", stdin=keyboard)
            keyboard.end()
        results = [record for record in self.records() if record["kind"] == "result"]
        shutil.rmtree(self.folder / "dumps")
        return str(results[0]["result"])

    def test_only_a_plain_yes_allows_it(self) -> None:
        for answer in ("y", " YES "):
            self.assertNotIn("did not allow", self.first_act(answer), answer)
        for answer in ("n", "", "yep", "yes no", None):
            self.assertIn("did not allow", self.first_act(answer), answer)
        self.assertIn("y and Enter allows it; anything else or 60 s does not.", self.out)


class Loudness(CommandLineCase):
    def test_quiet_says_only_how_it_ended_and_verbose_what_was_said(self) -> None:
        _, quiet, _ = self.recorded("-q")
        self.assertEqual(
            [line.split()[0] for line in quiet.splitlines()], ["completed:", "check", "6"]
        )
        shutil.rmtree(self.folder / "dumps")
        _, verbose, _ = self.recorded("-v")
        self.assertIn("SCREEN_SHOWS", verbose)
        self.assertNotIn("base64,", verbose)

    def test_what_a_person_was_told_stands_in_the_log_too_and_only_once_on_the_terminal(
        self,
    ) -> None:
        for options in ((), ("-q",), ("-v",)):
            shutil.rmtree(self.folder / "dumps", ignore_errors=True)
            _, out, _ = self.recorded(*options)
            log = (self.run_folder() / "execution_log.txt").read_text(encoding="utf-8")
            line = '2  executor  double_click_screen_element "Notes icon"'
            entry = ' 2 executor: double_click_screen_element "Notes icon"'
            self.assertEqual((log.count(entry), out.count(entry)), (1, 0))
            self.assertEqual(out.count(line), int("-q" not in options))

    def test_the_last_line_counts_turns_acts_refusals_time_and_tokens_and_names_the_report(
        self,
    ) -> None:
        _, out, _ = self.recorded()
        self.assertRegex(
            out.splitlines()[-1],
            r"^6 turns, 4 acts, 0 refused, \d+\.\d s, of it \d+\.\d s model and \d+\.\d s program,"
            r" 9 requests, \d+ tokens; see .*run_0001.report\.html$",
        )

    def test_a_pipe_gets_no_escape_sequence(self) -> None:
        _, out, _ = self.recorded()
        self.assertNotIn("\x1b", out)
        self.assertNotIn("\r", out)

    def test_a_run_on_a_terminal_leaves_the_same_lines_as_in_a_pipe(self) -> None:
        _, plain, _ = self.recorded()
        screen = Screen()
        with (
            mock.patch.dict(os.environ, {"TERM": "xterm", "NO_COLOR": "1"}),
            terminal_columns(111),
            mock.patch.object(io, "StringIO", lambda: screen),
            platform("linux"),
        ):
            self.main("--demo")
        # The lines of the end are whole in a pipe, and broken to fit on a terminal.
        words = [
            re.sub(r"\d", "0", text).replace("\n    | ", " ").split()
            for text in (plain, "\n".join(shown(screen.getvalue())))
        ]
        self.assertEqual(words[0], words[1])


if __name__ == "__main__":
    unittest.main()
