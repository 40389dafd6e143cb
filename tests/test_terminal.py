"""The terminal of a run: lines that stay, the live line below them, colours, -q and -v, questions, the console's mode."""

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
from tests.fakes import FakeWin32, Foreground, VirtualClock, windows_desktop
from tests.samples import for_the_gate, sample
from tests.seams import (
    Keyboard,
    clock_of_main,
    desktop_of_main,
    person_at_main,
    person_there,
    platform,
    printed,
    terminal_columns,
    windows_of_main,
)
from tests.starting import PROGRAM, environment
from tests.test_main import HASTY, ONCE, QUICK, TASK, CommandLineCase
from tests.timing import HANGS_S, comes_true

ERASE = "\r\x1b[K"
ICONS_ARE_RISKY = ("--set", "risky_words=icon")  # the demo's first act is done to one


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


class TerminalCase(unittest.TestCase):
    def terminal(
        self, columns: int = 60, stdout: Any = None, **environ: str
    ) -> tuple[agent.Terminal, Any]:
        """A terminal of so many columns that knows a secret; `close` ends it."""
        screen, undo = stdout or Screen(), contextlib.ExitStack()
        around = contextlib.ExitStack()
        self.addCleanup(around.close)
        for one in (
            contextlib.redirect_stdout(screen),
            terminal_columns(columns),
            mock.patch.dict(os.environ, {"TERM": "xterm", "NO_COLOR": "1", **environ}),
            platform("linux"),
        ):
            around.enter_context(one)
        hide = agent.Secrets({"S": "my secret is"}).hide
        terminal = agent.Terminal(VirtualClock(agent.Stop()), 1, hide, undo)
        self.close = undo.close
        self.addCleanup(undo.close)
        return terminal, screen


class Live(TerminalCase):
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

    def test_a_line_said_meanwhile_stands_alone_and_the_live_line_never_wraps(self) -> None:
        terminal, screen = self.terminal()
        terminal.watch = lambda: "x" * 200
        terminal.take(agent.Phase("looking"))
        for number in range(30):
            self.assertTrue(screen.seen("looking"))
            terminal.say(f"line {number}")
        self.close()
        self.assertEqual(shown(screen.getvalue()), [*(f"line {n}" for n in range(30)), ""])
        self.assertLess(max(map(len, re.split(r"\r\x1b\[K|\n", screen.getvalue()))), 60)

    def test_colours_mark_outcomes_and_control_characters_stay_text(self) -> None:
        terminal, screen = self.terminal(NO_COLOR="")
        for text in (
            "completed: done",
            "stuck: no",
            "not proven: no",
            "warning: \x1b[31mred\r",
            "   2  executor  click   unchanged   0.1 s",
        ):
            terminal.say(text)
        self.assertTrue(printed(terminal))
        completed, stuck, unproven, warning, turn, _ = screen.getvalue().split("\n")
        self.assertEqual(completed, "\x1b[32mcompleted\x1b[0m: done")
        self.assertEqual(stuck, "\x1b[31mstuck\x1b[0m: no")
        self.assertEqual(unproven, "\x1b[31mnot proven\x1b[0m: no")
        self.assertEqual(warning, "\x1b[33mwarning\x1b[0m: \\x1b[31mred\\x0d")
        self.assertIn("\x1b[33munchanged\x1b[0m", turn)

    def test_what_is_no_terminal_gets_plain_lines_and_no_color_takes_the_colours_only(self) -> None:
        for stdout, environ, live, colour in (
            (Screen(), {"NO_COLOR": ""}, True, True),
            (Screen(), {"NO_COLOR": "1"}, True, False),
            (Screen(), {"NO_COLOR": "", "TERM": "dumb"}, False, False),
            (io.StringIO(), {"NO_COLOR": ""}, False, False),
        ):
            terminal, _ = self.terminal(stdout=stdout, **environ)
            self.assertEqual((terminal.live, terminal.colour), (live, colour), environ)
        with mock.patch.object(sys, "stdout", None), contextlib.ExitStack() as undo:
            self.assertFalse(agent.Terminal(VirtualClock(), 1, str, undo).live)

    def test_in_a_pipe_a_long_wait_is_told_once_and_not_with_quiet_nor_after_a_turn(self) -> None:
        for level, ended, told in (
            (1, False, ["begins", "...   executor is thinking, 12 s so far"]),
            (0, False, []),
            (1, True, ["begins", "   1  executor  press Tab"]),
        ):
            terminal, out = self.terminal(stdout=io.StringIO())
            terminal.level = level
            waits, patience = terminal.lines.get, []

            def get(timeout: float, waits: Any = waits, patience: Any = patience) -> Any:
                patience.append(timeout)
                return waits(timeout=timeout / 200)

            terminal.lines.get = get  # type: ignore
            terminal.say("begins")
            terminal.lines.put(lambda: None)  # after which it is waited so
            terminal.take(agent.Phase("executor is thinking"))
            terminal.clock.sleep(12)
            if ended:
                terminal.take(agent.TurnLine(1, "executor", "press Tab", "changed", 1.0))
            self.assertTrue(comes_true(lambda patience=patience: len(patience) > 5))
            self.close()
            lines = out.getvalue().splitlines()
            self.assertEqual({*patience} - {10.0}, set())
            with self.subTest(level=level, ended=ended):
                self.assertEqual(len(lines), len(told), lines)
                self.assertTrue("".join(lines).startswith("".join(told)), lines)

    def test_a_closed_pipe_does_not_end_the_run(self) -> None:
        terminal, screen = self.terminal()
        screen.close()
        terminal.say("nobody reads this")


class Rows(TerminalCase):
    """A turn on the terminal, whatever its width, of which one column stays free."""

    def rows(
        self,
        columns: int,
        effect: str = "changed",
        done: str = 'click "Save the document under another name"',
    ) -> list[str]:
        terminal, screen = self.terminal(columns + 1)
        terminal.take(agent.TurnLine(12, "executor", done, effect, 3.2))
        self.close()
        return screen.getvalue().splitlines()

    def test_a_row_fits_from_60_columns_up_and_tells_what_came_of_it(self) -> None:
        refused = "Not done: The person did not allow this (send); do it another way or report."
        for columns in (*range(59, 120, sample(1, 4)), 199):
            for effect in ("changed", "Waited 1.5 s for a change", refused):
                first, *more = self.rows(columns, effect)
                self.assertLessEqual(max(map(len, (first, *more))), columns)
                self.assertTrue(all(row.startswith("    | ") for row in more), more)
                self.assertTrue(first.startswith('  12  executor  click "Save t'), first)
            self.assertEqual(" ".join(row.removeprefix("    | ") for row in more), refused)
        self.assertRegex(self.rows(76)[0], r" changed +3\.2 s$")

    def test_a_path_has_each_backslash_once_as_the_person_knows_it(self) -> None:
        blocked = r"Not done: 'C:\\cmd.exe' is blocked."
        lines = " ".join(self.rows(59, blocked, r'text "C:\\Töö\\a"'))
        self.assertIn(r'"C:\Töö\a"', lines)
        self.assertIn(r"'C:\cmd.exe' is blocked.", lines)

    def test_a_long_question_fits_and_hides_a_secret_that_would_be_broken(self) -> None:
        question = "not allowed: " + ("click the button " * 20)[:240] + " my secret is here: risk"
        terminal, screen = self.terminal()
        terminal.say(question + "\n    y allows it.")
        self.close()
        lines = screen.getvalue().splitlines()
        self.assertLessEqual(max(map(len, lines)), 59)
        whole = " ".join(line.removeprefix("    | ") for line in lines).split()
        hidden = question.replace("my secret is", "{{S}}")
        self.assertEqual(whole, hidden.split() + "y allows it.".split())


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
            [*PROGRAM, "--demo", *HASTY, *ONCE, "--set", f"dump_dir={self.folder}", *arguments],
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

    @unittest.skipIf(os.name == "nt", "Windows sends no process such a signal")
    def test_ctrl_c_stops_it(self) -> None:
        process = self.start("--set", "turn_delay=5")
        self.journal(process, "reply")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn('"stopped"', self.journal(process, "end"))

    @for_the_gate
    def test_what_was_said_meanwhile_is_read_once_somebody_does(self) -> None:
        process = self.start("--set", "turn_delay=0.2")
        self.journal(process, "action")
        self.stdout.close()
        said = self.reader.read().lstrip(b".").replace(b"\r\n", b"\n")
        process.communicate(timeout=60)
        self.assertRegex(said, rb"\AProfile planner, .*\nTask: .*\nModel .*\n +1  planner ")
        self.assertRegex(said, rb"\ncompleted: .*\n.*\n5 turns, .*report\.html\n\Z")


class Console(unittest.TestCase):
    def test_the_console_has_escape_sequences_and_no_selection_while_a_run_goes_on(self) -> None:
        """Escape sequences are 4; QuickEdit is 0x40, and 0x80 says that 0x40 counts."""
        output, typed = agent.STD_OUTPUT_HANDLE, agent.STD_INPUT_HANDLE
        for handle, flags, old, before, during, after in (
            (output, (4,), False, 3, 7, 3),
            (output, (4,), True, 3, 3, 3),
            (output, (4,), False, None, None, None),
            (typed, (0x80, 0x40), False, 0x1F7, 0x1B7, 0x1F7),
            (typed, (0x80, 0x40), False, 0x47, 0x87, 0xC7),
            (typed, (0x80, 0x40), False, 0x7, 0x87, 0x87),
            (typed, (0x80, 0x40), False, None, None, None),
        ):
            world = FakeWin32(old_console=old)
            world.modes[handle] = before
            with self.assertRaises(ZeroDivisionError), contextlib.ExitStack() as undo:
                switched = agent.console_mode(world.api, handle, undo, *flags)
                self.assertEqual((world.modes[handle], switched), (during, during != before))
                raise ZeroDivisionError
            self.assertEqual(world.modes[handle], after)

    def test_one_that_takes_the_flag_and_does_not_know_it_gets_no_sequences(self) -> None:
        world = FakeWin32(unknown_modes=4)
        world.modes[agent.STD_OUTPUT_HANDLE] = 3
        screen = mock.Mock(isatty=lambda: True)
        with platform("win32"), windows_of_main(world), contextlib.ExitStack() as undo:
            undo.enter_context(mock.patch.object(sys, "stdout", screen))
            terminal = agent.Terminal(VirtualClock(), 1, str, undo)
            self.assertEqual((terminal.live, terminal.colour), (False, False))


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
        self.begun = self.clock.now()
        with self.printing():
            return self.terminal.ask("Really?", lambda: self.clock.now() < self.begun + 30)

    def printing(self) -> Any:
        """What is said is printed while the program sleeps."""
        sleep = self.clock.sleep

        def sleep_once_printed(seconds: float) -> None:
            sleep(seconds)
            self.assertTrue(printed(self.terminal))

        return mock.patch.object(self.clock, "sleep", sleep_once_printed)

    def said(self, there: bool = True, **said: float) -> str | None:
        """To what a model asks: who says `typed` at the terminal or `written` in the panel at these seconds gets it back."""
        page: list[str] = []
        logger = mock.Mock(hide=str)
        inbox = mock.Mock(watched=lambda: "written" in said, take_answer=lambda: "".join(page))
        ways = {"written": page.append, "typed": self.keyboard.type}
        for name, seconds in said.items():
            self.clock.at(seconds, lambda name=name: ways[name](name))
        desktop = agent.DemoDesktop(self.clock)
        person = agent.Person(agent.Config(), self.terminal, logger, desktop, inbox)
        self.begun = self.clock.now()
        with self.printing(), person_there(there):
            answer = person.answers("Which file?")
        told = [call.args[0] for call in logger.tell.call_args_list]
        phases = [one.text for one in told if isinstance(one, agent.Phase)]
        told = [one for one in told if isinstance(one, agent.PageText)]
        if there or said:
            self.assertEqual(phases, ["waiting for an answer"])  # and not that a model thinks
            self.assertEqual({one.place for one in told}, {"question"})
            self.assertIn("a box on the screen: Which file?", told[0].text)
            self.assertEqual(told[-1].text, "")
        return answer

    def test_of_terminal_and_panel_the_first_answer_counts_and_without_one_nobody_is_there(
        self,
    ) -> None:
        self.assertEqual(self.said(typed=9), "typed")
        self.assertEqual(self.said(typed=9, written=5), "written")
        self.assertEqual(self.said(there=False, written=5), "written")
        self.assertEqual(self.said(), None)
        self.assertGreater(self.clock.now() - self.begun, 299)
        self.assertEqual(self.said(there=False), None)
        self.assertEqual(self.clock.now(), self.begun)

    def test_each_question_gets_the_first_line_that_is_typed_after_it(self) -> None:
        self.assertEqual(self.answer(0.1), "")  # before it
        self.assertEqual(self.answer(5, line=" one "), "one")
        self.assertEqual(self.answer(5, line="two"), "two")
        self.keyboard.type("y")  # between two questions
        self.assertEqual(self.answer(), "")
        self.assertAlmostEqual(self.clock.now() - self.begun, 30, delta=0.4)
        self.assertEqual(self.answer(5, line="three"), "three")

    def test_a_line_typed_as_soon_as_the_question_is_printed_is_its_answer(self) -> None:
        said: list[str] = []

        def waits() -> bool:
            if not said:
                printed(self.terminal)
                said.append("now")
                self.keyboard.type("now")
            return True

        self.assertEqual(self.terminal.ask("Really?", waits), "now")

    def test_where_nothing_more_can_be_typed_the_answer_is_empty_at_once(self) -> None:
        self.assertEqual(self.answer(5), "y")
        threads = threading.active_count()
        self.keyboard.end()
        self.assertTrue(
            comes_true(lambda: threading.active_count() < threads)
        )  # who read has ended
        self.assertEqual(self.answer(), "")
        self.assertLess(self.clock.now() - self.begun, 29)

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

    def test_an_answer_elsewhere_counts_while_the_terminal_takes_no_more_lines(self) -> None:
        hold = threading.Event()
        with mock.patch.object(self.terminal, "_write", lambda *_: hold.wait(60)):
            end = self.clock.now() + 30
            answer = self.terminal.ask("Really?", lambda: self.clock.now() < end, [lambda: "Yes"])
            hold.set()
        self.assertEqual(answer, "Yes")


DOWN, UP = 0x201, 0x202
SEND = ("Send",)


class Box(unittest.TestCase):
    """A question in a window of the program's own, on a simulated Windows."""

    own: list[Foreground] = []
    QUESTION = "Allow this? type text \"a & b\" in 'Bob' (chat.exe)\nIt is asked because of: send"

    def ask(
        self, *clicks: tuple[Any, ...], words: Any = ("Yes", "No"), typed: str = "", **world: Any
    ) -> list[str]:
        """Who clicks so: on which part, the message, after how many seconds, and the key."""
        self.world, self.desktop, _ = windows_desktop(**world)
        for window in self.own:
            self.world.others.append(window)
            self.desktop.own_windows.add(window.handle)
        answers: list[str] = []
        looks = iter(range(3))

        def post() -> None:
            made = {text.partition(" (")[0]: handle for handle, text in self.world.made.items()}
            self.world.posted += [(made[name], *rest) for name, *rest in clicks]
            self.seen = [*self.world.made.values()]
            if words == SEND:
                self.world.typed_into[made[""]] = typed
            if made:
                self.attempted = self.refusal()

        def left_s() -> float:
            if next(looks, None) is None:
                answers.append("")
            return 41.4

        self.world.on_beep = post
        with mock.patch.object(agent, "BOX_PAUSE_S", 0):
            agent._show_box(self.desktop, self.QUESTION, words, left_s, answers, True)
        self.world.verify()
        return [answer for answer in answers if answer]

    def refusal(self) -> str:
        """Why no act reaches the middle of the box."""
        point = agent.middle_of(self.world.shown["place"])
        window = self.desktop.window_at(point)
        with self.assertRaises(agent.ToolError) as refused:
            agent.refuse_window(window, agent.Config())
        return str(refused.exception)

    def test_yes_or_no_is_what_is_clicked_after_its_first_second(self) -> None:
        yes = (("Yes", DOWN, 1.1), ("Yes", UP, 1.2))
        no = (("No", DOWN, 2), ("No", UP, 3))
        early = (("Yes", DOWN, 0.3), ("Yes", UP, 0.9))
        self.assertEqual((self.ask(*yes), self.ask(*no)), (["Yes"], ["No"]))
        self.assertEqual((self.ask(*early), self.ask(*early, *no)), ([], ["No"]))
        # Neither one that was pressed before and let go of after it, nor half a click.
        for half in ((early[0], yes[1]), (no[0], yes[1]), yes[:1], yes[1:]):
            self.assertEqual(self.ask(*half), [])
        self.assertEqual(self.world.made, {})

    def test_it_tells_all_is_on_top_without_the_keyboard_in_no_picture_and_no_target(self) -> None:
        self.ask()
        text, yes, no = self.seen
        words = " ".join(text.replace("&&", "&").split())
        self.assertEqual(words, " ".join(self.QUESTION.split()))
        self.assertEqual((yes, no), ("Yes", "No"))
        shown = self.world.shown
        self.assertEqual(shown["extra"] & 0x08000008, 0x08000008)  # NOACTIVATE, TOPMOST
        self.assertEqual((shown["affinity"], shown["beep"]), (0x11, 0x20))
        self.assertIn("is the agent's own", self.attempted)
        self.assertNotIn("SetForegroundWindow", self.world.calls)
        self.assertTrue(agent.Rect(0, 0, 1920, 1080).contains(agent.middle_of(shown["place"])))

    def test_a_question_of_the_model_has_a_field_that_takes_the_keyboard_once_it_is_clicked(
        self,
    ) -> None:
        send = (("Send", DOWN, 2), ("Send", UP, 3))
        self.assertEqual(self.ask(*send, words=SEND, typed="Bob & Ann"), ["Bob & Ann"])
        self.assertEqual(self.seen[1:], ["", "Send"])
        self.assertNotIn("SetForegroundWindow", self.world.calls)
        enter = (("", DOWN, 0.5), ("", 0x100, 2, 0x41), ("", 0x100, 3, 0x0D))
        self.assertEqual(self.ask(*enter, words=SEND, typed="a.txt"), ["a.txt"])
        self.assertIn("SetForegroundWindow", self.world.calls)
        # Nothing is no answer, nor a key elsewhere, nor Send before anybody can have read it.
        self.assertEqual(self.ask(*send, *enter, words=SEND), [])
        for early in ((("Send", DOWN, 0.3), send[1]), (("Send", 0x100, 3, 0x0D),)):
            self.assertEqual(self.ask(*early, words=SEND, typed="a"), [])

    def test_it_hides_no_console_and_calls_the_person(self) -> None:
        screen = agent.Rect(0, 0, 1920, 1080)
        for console in (
            agent.Rect(900, 500, 1000, 560),
            agent.Rect(1000, 0, 920, 1080),
            agent.Rect(0, 500, 1920, 540),
        ):
            self.own = [Foreground("agent.py", console, handle=0x70002)]
            self.assertEqual(self.ask(("Yes", DOWN, 2), ("Yes", UP, 3)), ["Yes"])
            place = self.world.shown["place"]
            self.assertFalse(place.overlaps(console), place)
            self.assertEqual(place.intersection(screen), place)
            self.assertIn(0x70002, self.world.flashed)
        # One that fills the screen has its own question, if it is in front.
        self.own = [Foreground("agent.py", screen, handle=0x70002)]
        for front in (Foreground(), self.own[0]):
            self.assertEqual(self.ask(window=front), [])
            self.assertEqual("place" in self.world.shown, front is not self.own[0])

    def test_the_end_of_a_long_run_is_shown_for_ten_seconds_or_until_somebody_comes(self) -> None:
        for comes_s, lasts_s in ((None, 10), (4, 4)):
            world, desktop, clock = windows_desktop()
            if comes_s:
                clock.at(comes_s, world.person)
            person = agent.Person(
                agent.Config(),
                mock.Mock(clock=clock),
                mock.Mock(hide=agent.Secrets({"PIN": "hunter2-22"}).hide),
                desktop,
                mock.Mock(),
            )
            begun, beeped = clock.now(), threading.Event()
            texts: list[str] = []

            def beep(world: Any = world, texts: Any = texts, beeped: Any = beeped) -> None:
                texts.extend(world.made.values())
                beeped.set()

            world.on_beep = beep
            sleep = clock.sleep
            clock.sleep = lambda seconds, beeped=beeped, sleep=sleep: (  # type: ignore[method-assign]
                beeped.wait(HANGS_S) and sleep(seconds)
            )
            with person_there():
                person.hears_end("completed: it is HUNTER2 22\u202e, saved", 60.0)
            self.assertIn("completed: it is {{PIN}}\\x202e, saved", "".join(texts))
            self.assertAlmostEqual(clock.now() - begun, lasts_s, delta=0.5)
            self.assertEqual(world.made, {})
            world.verify()

    def test_where_windows_refuses_it_there_is_none_and_nothing_is_left(self) -> None:
        for name in ("CreateWindowExW", "CreateFontW", "SetWindowTextW"):
            with mock.patch.object(FakeWin32, "failing_names", {name}):
                self.assertEqual(self.ask(("Yes", UP, 5)), [])
            self.assertEqual((self.desktop.own_windows, self.world.others), (set(), []))


class Questions(CommandLineCase):
    """One task after the other, in one run."""

    def test_a_task_from_the_prompt_is_followed_by_another_in_the_same_run(self) -> None:
        def types(out: str) -> str | None:
            if out.endswith("Task:\n"):
                return TASK
            if out.endswith(" s does not.\n"):  # nothing was done for the second one
                return "y"
            if not out.endswith("Enter to end.\n"):
                return None
            return "" if "Task: Save it" in out else "Save it once more"

        with self.drawn() as endpoint, person_at_main(types) as keyboard:
            words = ("--endpoint", endpoint, "--max-steps", "6")
            code, out, err = self.main(*words, stdin=keyboard)
            keyboard.end()
        self.assertEqual((code, err), (0, ""), out)
        self.completed_twice("Save it once more")

    def test_a_stop_at_that_prompt_says_why_the_program_ends(self) -> None:
        def types(out: str) -> str | None:
            if out.endswith("Enter to end.\n"):
                signal.raise_signal(signal.SIGINT)
            return TASK if out.endswith("Task:\n") else None

        with self.drawn() as endpoint, person_at_main(types) as keyboard:
            code, out, _ = self.main("--endpoint", endpoint, "--max-steps", "6", stdin=keyboard)
            keyboard.end()
        self.assertEqual((code, out.splitlines()[-1]), (0, "Stopped: Ctrl+C."))

    def completed_twice(self, further: str) -> None:
        about = [r for r in self.records() if r["kind"] in ("run", "resume", "end")]
        self.assertEqual([r["kind"] for r in about], ["run", "end", "resume", "end"])
        self.assertEqual([about[0]["task"], about[2]["task"]], [TASK, further])
        self.assertEqual({about[1]["outcome"], about[3]["outcome"]}, {"completed"})
        self.assertGreater(about[3]["turns"], about[1]["turns"])
        self.assertFalse(self.run_folder(2).exists())

    def test_a_completed_run_is_resumed_with_a_next_task_and_remembers_the_one_before(self) -> None:
        with self.drawn() as endpoint:
            words = ("--endpoint", endpoint, "--max-steps", "6")
            self.main(TASK, *words)
            code, _, err = self.main("--resume", *words)
            self.assertEqual(code, 2)
            self.assertIn("was completed; give it a next task with --task", err)
            code, out, _ = self.main("--resume", "--task", "Save it as b.txt", *words)
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"\n\d turns?,( \d plans?,)? in all \d+ acts, ")  # turns of this task
        self.completed_twice("Save it as b.txt")
        _, runs, _ = self.main("--runs")
        self.assertIn(f"{TASK}; then Save it as b.txt", " ".join(runs.split()))
        with self.drawn() as endpoint:
            words = ("--endpoint", endpoint, "--max-steps", "6")
            code, out, err = self.main("--again", TASK, *words)
            self.assertEqual((code, err), (0, ""), out)
            self.assertIn("Each act of run_0001", out)
            code, _, err = self.main("--again", "Save it as b.txt", *words)
        self.assertEqual(code, 2)
        self.assertIn("'Save it as b.txt' from the beginning of a run", err)
        sent = str([r["parts"] for r in self.records() if r["kind"] == "request"])
        told = re.findall("An earlier task: [^.]*", sent.replace('\\"', '"'))
        self.assertEqual({*told}, {f"An earlier task: {TASK}".partition(".")[0]})

    def test_a_completed_run_is_resumed_with_the_same_task_once_more_as_a_next_one(self) -> None:
        with self.drawn() as endpoint:
            words = ("--endpoint", endpoint, "--max-steps", "6")
            self.main(TASK, *words)
        with self.drawn() as endpoint:
            words = ("--endpoint", endpoint, "--max-steps", "6")
            code, out, _ = self.main("--resume", "--task", TASK, *words)
        self.assertEqual(code, 0, out)
        self.completed_twice(TASK)
        acts = [one["tool"] for one in self.records() if one["kind"] == "intent"]
        self.assertEqual(acts[: len(acts) // 2], acts[len(acts) // 2 :])
        about = [one for one in self.records() if one["kind"] in ("run", "resume")]
        self.assertEqual([one.get("is_next") for one in about], [None, True])


class Allowed(CommandLineCase):
    """A risky act of the demo, and a person at the console, or nobody."""

    def results(self) -> list[str]:
        return [str(one["result"]) for one in self.records() if one["kind"] == "result"]

    def first_act(self, answer: str | None) -> str:
        """What came of it, where the person answers so."""

        def types(out: str) -> str | None:
            return answer if out.endswith(" s does not.\n") else None

        with person_at_main(types) as keyboard:
            # In virtual time, in which a minute may be over before the question is printed.
            wait = ("--set", f"confirm_wait={'60' if answer is None else '86400'}")
            words = ("--demo", *ICONS_ARE_RISKY, *wait, "--max-steps", "2")
            _, self.out, _ = self.main(*words, stdin=keyboard)
            keyboard.end()
        result = self.results()[0]
        shutil.rmtree(self.folder / "dumps")
        return result

    def test_only_a_plain_yes_allows_it(self) -> None:
        for answer in ("y", " YES "):
            self.assertNotIn("did not allow", self.first_act(answer), answer)
        for answer in ("n", "", "yep", "yes no", None):
            why = "Nobody answered whether" if answer is None else "The person did not allow"
            self.assertIn(why, self.first_act(answer), answer)
        self.assertIn("y and Enter allows it; anything else or 60 s does not.", self.out)

    def test_where_nobody_can_be_asked_it_is_refused_at_once_and_the_model_hears_that(self) -> None:
        _, out, _ = self.main("--demo", *ICONS_ARE_RISKY, "--max-steps", "3")
        self.assertIn(
            'Nobody can be asked here; --set "allow_risky=icon in *Desktop*" allows just this, --con',
            out,
        )
        told = r"Nobody can be asked here whether this is allowed \(icon\); do it"
        self.assertRegex(self.results()[0], told)
        self.assertNotRegex(f"{out} {self.records()}", "person did not|Nobody answered")

    def test_a_dry_run_and_acts_allowed_in_advance_need_no_yes(self) -> None:
        always = ("--demo", "--confirm", "always", "--max-steps", "2")
        self.assertIn("Dry run: would double click", self.main(*always, "--dry-run")[1])
        self.assertIn("changed", self.main(*always, "--set", "allow_risky=any act")[1])


@unittest.skipIf(os.name == "nt", "the live line of another system needs its locks")
class Paused(CommandLineCase):
    def test_a_pause_stands_in_the_live_line_as_long_as_it_lasts(self) -> None:
        screen = Screen()
        seen: list[bool] = []
        stops: list[agent.Stop] = []
        system_clock = agent.SystemClock

        def clock(stop: agent.Stop) -> agent.Clock:
            stops.append(stop)
            return system_clock(stop)

        def go_on() -> None:
            seen.append(screen.seen(" s   paused: by a test"))
            stops[0].paused = ""

        class Pausing(agent.DemoDesktop):
            def capture(self, *given: Any) -> agent.Frame:
                if not (seen or stops[0].paused):
                    stops[0].paused = "by a test"
                    threading.Thread(target=go_on).start()
                return super().capture(*given)

        environ = {"AGENT_DUMP_DIR": str(self.folder / "dumps"), "TERM": "xterm", **QUICK}
        with (
            desktop_of_main(Pausing),
            clock_of_main(clock),
            mock.patch.dict(os.environ, environ),
            contextlib.redirect_stdout(screen),
            terminal_columns(100),
        ):
            agent.main(["--demo", "--max-steps", "1", *HASTY])
        self.assertEqual(seen, [True])


class Loudness(CommandLineCase):
    def test_a_run_leaves_a_line_a_turn_quiet_its_end_verbose_what_was_said_and_the_log_all(
        self,
    ) -> None:
        for options in ((), ("-q",), ("-v",)):
            shutil.rmtree(self.folder / "dumps", ignore_errors=True)
            _, out, _ = self.recorded(*options)
            log = (self.run_folder() / "execution_log.txt").read_text(encoding="utf-8")
            entry = ' 2 executor: double click "Notes icon"'
            self.assertEqual((log.count(entry), out.count(entry)), (1, 0))
            line = r'(?m)^ +2  executor  double click "Notes icon" +changed +\d+\.\d s$'
            self.assertEqual(len(re.findall(line, out)), int("-q" not in options))
            self.assertEqual("SCREEN_SHOWS" in out, "-v" in options)
            self.assertNotRegex(out, "[\x1b\r]|base64,")
            total = r"^5 turns, 1 plan, 4 acts, 0 refused, \d+\.\d s; see .*run_0001.report\.html$"
            self.assertRegex(out.splitlines()[-1], total)
            self.assertIn("  check 1 YES: the green mark says Saved.\n", out)  # once
            begins = [row.split()[0] for row in out.splitlines()]
            self.assertEqual(begins == ["completed:", "check", "5"], "-q" in options)

    def test_quiet_says_why_it_was_not_completed(self) -> None:
        _, out, _ = self.main("--demo", "-q", *ICONS_ARE_RISKY, "--max-steps", "1")
        first, *middle = out.splitlines()
        self.assertRegex(
            first, "^not allowed: The agent wants to double click .* Nobody can be asked"
        )
        ended = "max_steps: Not completed within 1 turn."
        go_on = "To go on: python agent.py --resume 0001 --max-steps 2"
        self.assertIn(f"{ended} {go_on}", middle)
        row = r"(?m)^ +2  executor  double click .* Not done .*\n.*Nobody can be asked"
        self.assertRegex(out, row)
