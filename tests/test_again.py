"""The way of an earlier run: its acts again without the model where the screen looks as it did, else the model's."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

import agent
from tests import seams
from tests.fakes import VirtualClock
from tests.samples import for_the_gate, sample, some
from tests.test_main import TASK, CommandLineCase

HELLO = "Hello from agent.py"


class ToldOther(agent.DemoDesktop):
    """Until something is done another window is told to be in front, though the screen is the same."""

    inputs = 0

    def foreground(self) -> agent.Window | None:
        window = super().foreground()
        return window if self.inputs or not window else replace(window, title="Mail")

    def button(self, name: str, down: bool) -> None:
        self.inputs += 1
        super().button(name, down)


class OtherInFront(ToldOther):
    """It is there, too, which only its title tells."""

    def window_at(self, point: agent.Point) -> agent.Window | None:
        return self.foreground()


class NeverSaved(agent.DemoDesktop):
    """Its button does not save any more."""

    @property
    def control_source(self) -> agent.KnownControls:
        if self.state.saved_text is not None:
            self.state = replace(self.state, saved_text=None)
        return super().control_source


class AgainCase(CommandLineCase):
    def setUp(self) -> None:
        super().setUp()
        clock = seams.clock_of_main(VirtualClock)
        clock.start()
        self.addCleanup(clock.stop)

    def again(self, *argv: str, make: Any = agent.DemoDesktop) -> tuple[int, str]:
        """A run that goes the way of run 1, on what `make(clock)` gives; its exit code and output."""
        with seams.desktop_of_main(make) as self.desktops:
            code, out, self.error = self.main("--demo", "--again", *argv)
        return code, out + self.error

    def steps(self, number: int = 2) -> list[int | None]:
        """Of each act of a run, which step of a way it was; None of the model's."""
        return [entry.get("way") for entry in self.records(number) if entry["kind"] == "intent"]


class Again(AgainCase):
    def test_each_profile_does_the_acts_again_without_a_model_and_lets_it_prove_the_end(
        self,
    ) -> None:
        for profile in sample((*agent.PROFILES,), ("commander", "native")):
            with self.subTest(profile):
                self.setUp()
                code, out, err = self.recorded("--profile", profile)
                self.assertEqual((code, err), (0, ""), out)
                done = len(self.steps(1))
                code, out = self.again("--profile", profile)
                self.assertEqual(code, 0, out)
                self.assertEqual(self.steps(), [*range(1, done + 1)])
                self.assertEqual(self.desktops[0].state.saved_text, HELLO)
                roles = {e["role"] for e in self.records(2) if e["kind"] == "request"}
                self.assertEqual(roles, {"verifier"})
                _, told, _ = self.main("--stats", "2")
                self.assertRegex(told, rf"of them on an earlier way +{done}\n")

    def test_the_way_of_one_profile_is_gone_in_any_other(self) -> None:
        self.recorded("--profile", "pointer")
        others = ("planner", "chat", "story", "native")
        for number, profile in enumerate(some(others, 3), 2):
            code, out = self.again("--profile", profile)
            self.assertEqual((code, None in self.steps(number)), (0, False), out)

    @for_the_gate
    def test_where_it_differs_the_model_has_a_turn_and_hears_what_was_expected(self) -> None:
        for profile in sample((*agent.PROFILES,), ("planner", "story")):
            with self.subTest(profile):
                self.setUp()
                self.recorded("--profile", profile)
                code, out = self.again("--profile", profile, make=OtherInFront)
                self.assertEqual(code, 0, out)
                self.assertEqual(self.desktops[0].state.saved_text, HELLO)
                ways = self.steps()
                of_model = ways.count(None)
                self.assertLessEqual(of_model, 3)  # in pointer it moves the mouse twice
                last = len(self.steps(1))
                self.assertEqual(
                    ways, [None] * of_model + [*range(last + 1)][of_model - len(ways) :]
                )
                self.assertIn("The way of run_0001 is left to the model: ", out)
                parts = [e["parts"] for e in self.records(2) if e["kind"] == "request"]
                self.assertIn("DONE SO FAR, as in an earlier run of this task: ", str(parts))
        # Both can be the way of the next one.
        code, out = self.again(make=OtherInFront)
        self.assertEqual((code, None in self.steps(3)), (0, False), out)
        self.assertIn("run_0002, an earlier run", out)

    def test_where_the_mouse_acts_what_is_told_to_be_in_front_matters_nothing(self) -> None:
        self.recorded()
        code, out = self.again(make=ToldOther)
        self.assertEqual((code, self.steps()), (0, [1, 2, 3, 4]), out)

    def test_an_act_that_a_gate_refuses_is_left_to_the_model(self) -> None:
        self.recorded()
        code, out = self.again("--set", "blocked_windows=*")
        self.assertEqual(code, 1)
        self.assertIn("The way of run_0001 is left to the model: Not done: ", out)
        self.assertEqual(self.desktops[0].state, agent.DemoState())

    @for_the_gate
    def test_a_way_that_proves_nothing_is_not_gone_again_until_the_task_was_completed(self) -> None:
        self.recorded()
        code, out = self.again("--max-steps", "8", make=NeverSaved)
        self.assertEqual(code, 1, out)
        self.assertEqual(self.steps()[:4], [1, 2, 3, 4])
        code, out = self.again()
        self.assertIn(
            "No whole run of just this task was proven done, so that the model decides.", out
        )
        self.assertEqual((code, set(self.steps(3))), (0, {None}))
        code, out = self.again()
        self.assertEqual((code, self.steps(4)), (0, [1, 2, 3, 4]), out)

    def test_a_run_that_ended_between_two_acts_goes_on_with_its_way(self) -> None:
        for profile in sample(("planner", "native"), ("native",)):
            with self.subTest(profile):
                self.setUp()
                self.recorded("--profile", profile)
                code, out = self.again("--profile", profile, "--max-steps", "2")
                self.assertEqual((code, self.steps()), (1, [1, 2]), out)
                (kept,) = self.desktops
                with seams.desktop_of_main(lambda _, kept=kept: kept):
                    code, out, _ = self.main("--resume", "2", "--max-steps", "20")
                self.assertEqual((code, self.steps()), (0, [1, 2, 3, 4]), out)
                self.assertEqual(kept.state.saved_text, HELLO)

    @for_the_gate
    def test_a_run_goes_on_with_no_other_way_than_its_own(self) -> None:
        self.recorded("--profile", "pointer")
        with seams.desktop_of_main(agent.DemoDesktop):
            self.again("--max-steps", "6")
            self.main("--demo")  # of fewer acts
        kept = self.desktops[0]
        with seams.desktop_of_main(lambda _: kept):
            code, out, err = self.main("--resume", "2", "--max-steps", "20")
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(self.steps()[:6], [1, 2, 3, 4, 5, 6])
        self.assertEqual({*self.steps()[6:]}, {None})

    def test_a_secret_without_its_value_is_not_typed(self) -> None:
        self.recorded()
        journal = self.run_folder() / "turns.jsonl"
        journal.write_text(journal.read_text().replace(HELLO, "{{MY_PIN}}"))
        words = TASK.replace(HELLO, "{{MY_PIN}}")
        with self.drawn() as endpoint:
            code, out, _ = self.main("--again", words, "--endpoint", endpoint)
        self.assertIn("needs the value of a secret; give its name with --secret.", out)
        self.assertEqual((code, self.steps()), (1, []))


def text(name: str, *rect: int) -> agent.Control:
    return agent.Control(name, "text", agent.Rect(*rect), window=2, program="demo")


def edit(name: str, value: str) -> agent.Control:
    return replace(text(name, 700, 100, 200, 20), role="edit", value=value)


class Form(agent.DemoDesktop):
    """Notes is a form about somebody: more is named in its window, and more is painted there."""

    more: tuple[agent.Control, ...] = ()
    painted: tuple[tuple[int, int, int, int], ...] = ()
    over: agent.Window | None = None  # lies above it

    @property
    def control_source(self) -> agent.KnownControls:
        known = super().control_source.known
        return agent.KnownControls([*self.more, *known] if self.state.opened else known)

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        pixels = super().glance(area, width, height)
        canvas = agent.Canvas(width, height, pixels)
        for box in self.painted if self.state.opened else ():
            canvas.fill(agent.Rect(*box).scaled(area, canvas.area), 0x203040)
        return bytes(canvas.pixels)

    def window_at(self, point: agent.Point) -> agent.Window | None:
        if self.over and self.state.opened and self.over.rect.contains(point):
            return self.over
        return super().window_at(point)


@cache  # so that the same one is the same
def form(**changed: Any) -> Any:
    return type("Form", (Form,), changed)


ANNA, OTTO = text("Anna Berg", 700, 118, 90, 20), text("Otto Ahl", 700, 118, 90, 20)
NAME = ((700, 118, 20, 20), (740, 118, 30, 20))  # two words of it
SAVE = ((930, 540, 50, 25),)  # on the button
NOON, LATER = text("12:00", 900, 118, 50, 20), text("12:07", 900, 118, 50, 20)
CONSOLE = agent.Window(9, "Console", "cmd.exe", agent.Rect(690, 108, 300, 40), own=True)


class Records(AgainCase):
    """A window of the same title, size and place may be about another person."""

    def gone(self, first: Any, then: Any, *words: str) -> bool:
        """Whether the way is gone to its end, on another desktop than it was recorded on."""
        code, out, err = self.recorded(*words, make=first)
        self.assertEqual((code, err), (0, ""), out)
        code, out = self.again(*words, make=then)
        self.assertEqual(code, 0, out)
        self.assertEqual(self.steps()[0], 1)  # before that window is open
        return self.steps() == [1, 2, 3, 4]

    def test_names_and_values_around_a_target_and_else_any_letter_hand_over_to_the_model(
        self,
    ) -> None:
        # Where nobody tells of controls, each press is asked about.
        off = ("--set", "controls=off", "--confirm", "never")
        rows: tuple[tuple[str, Any, Any, tuple[str, ...], bool], ...] = (
            ("the same", {"more": (ANNA,)}, {"more": (ANNA,)}, (), True),
            ("another name", {"more": (ANNA,)}, {"more": (OTTO,)}, (), False),
            ("one more", {"more": (ANNA,)}, {"more": (ANNA, OTTO)}, (), False),
            (
                "another value",
                {"more": (edit("Account", "DE 4711"),)},
                {"more": (edit("Account", "DE 4712"),)},
                (),
                False,
            ),
            ("painted, not named", {}, {"painted": NAME}, (), False),
            ("painted elsewhere, pixels alone", {}, {"painted": NAME[:1]}, off, False),
            (
                "one digit",
                {"painted": NAME},
                {"painted": (*NAME[:1], (740, 118, 30, 14))},
                off,
                False,
            ),
            ("a clock", {"more": (NOON,)}, {"more": (LATER,)}, (), True),
            ("a lit button", {}, {"painted": SAVE}, (), True),
            ("a caret", {}, {"painted": ((700, 118, 2, 24),)}, off, True),
            ("the console above it", {}, {"painted": NAME, "over": CONSOLE}, (), True),
        )
        for name, first, then, words, goes in some(rows, 3, lambda row: row[4]):
            with self.subTest(name):
                self.setUp()
                self.assertEqual(self.gone(form(**first), form(**then), *words), goes)


def setting(of: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    def change(entry: dict[str, Any]) -> None:
        if entry["kind"] == of:
            entry.update(values)

    return change


class Ways(AgainCase):
    """Which run may be a way."""

    def is_way(self) -> bool:
        """Whether run 1 is one."""
        _, out = self.again("--max-steps", "1", "--profile", "native")
        shutil.rmtree(self.run_folder(2), ignore_errors=True)
        self.assertEqual(bool(self.error), "leave out --again" in out)
        return not re.search(
            "No whole run of just this task was proven done|Nothing was shown or done", out
        )

    def test_a_run_whose_own_way_was_deleted_as_old_is_one(self) -> None:
        self.recorded()
        self.assertEqual(self.again()[0], 0)
        shutil.rmtree(self.run_folder())
        code, out = self.again()
        self.assertEqual((code, self.steps(3)), (0, [1, 2, 3, 4]), out)
        self.assertIn("Each act of run_0002, an earlier run of this task, was done again", out)

    @for_the_gate
    def test_only_a_whole_run_of_this_task_that_was_proven_is_one(self) -> None:
        self.recorded()
        journal = self.run_folder() / "turns.jsonl"
        whole = journal.read_text()
        changes = (
            (setting("look", height=1), True),  # which tells nothing of its picture
            (setting("run", task='  OPEN notes, write "Hello from agent.py"\nand save it.'), True),
            (setting("run", task="Open Notes"), False),
            (setting("run", task=7), False),
            (setting("run", kind="resume"), True),
            (setting("look", title=None), False),  # as older versions wrote it
            (setting("end", checks=[]), False),
            (setting("end", outcome="stopped"), False),
            (setting("end", kind="state"), False),
            (setting("look", screenshot="screenshots/none.png"), False),
            (setting("result", changed=None), False),  # as in a dry run
            (setting("intent", tool="format_disk"), False),
            (setting("intent", tool="click_here", args={}), False),  # nobody knows where
        )
        for change, fits in some(changes, 3, lambda row: row[1]):
            lines = [json.loads(line) for line in whole.splitlines()]
            for entry in lines:
                change(entry)
            journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
            with self.subTest(str(lines[0])[:80]):
                self.assertEqual(self.is_way(), fits)
        for broken in (whole[:-20], whole.replace('{"kind": "intent"', "\0", 1), "", "{}\n{}\n"):
            journal.write_text(broken)
            self.assertFalse(self.is_way())
        journal.write_text(whole.replace('{"kind": "state"', '{"kind": "resume"', 1))
        self.assertFalse(self.is_way())

    def test_what_nobody_has_shown_or_done_is_no_task_for_the_model(self) -> None:
        code, _ = self.again()
        self.assertEqual((code, self.error.count("\n")), (2, 1))
        self.assertIn("Nothing was shown or done as 'Open Notes, write", self.error)
        self.assertFalse(self.run_folder(1).exists())

    def test_who_answers_at_the_terminal_takes_nothing_over(self) -> None:
        typed_at: list[float] = []

        class Watched(agent.DemoDesktop):
            def idle_s(self) -> float:
                return self.clock.now() - typed_at[-1] if typed_at else 99.0

        def answer(terminal: agent.Terminal, question: str) -> str:
            terminal.clock.sleep(30)
            typed_at.append(terminal.clock.now())
            return "n"

        with self.drawn(make=Watched) as endpoint, seams.person_there(), seams.person_says(answer):
            for _ in range(2):
                _, out, err = self.main(TASK, "--endpoint", endpoint)
                self.assertNotIn("paused", out + err)
        self.assertTrue(typed_at)

    @for_the_gate
    def test_at_a_terminal_it_is_offered_and_in_a_pipe_it_is_not(self) -> None:
        for there, answer, goes in (
            (True, "", True),
            (True, "y", True),
            (True, "n", False),
            (False, "", False),
        ):
            with self.subTest(answer, there=there):
                self.setUp()
                with (
                    self.drawn() as endpoint,
                    seams.person_there(there),
                    mock.patch.object(agent.Terminal, "ask", return_value=answer) as asked,
                ):
                    for _ in range(2):
                        code, out, err = self.main(TASK, "--endpoint", endpoint)
                        self.assertEqual((code, err), (0, ""), out)
                self.assertEqual(asked.call_count, there)
                for call in asked.call_args_list:
                    self.assertRegex(
                        call.args[0],
                        r"^This task was completed on \d{4}-\d\d-\d\d in 4 acts \(run_0001\)\. Repeat"
                        r" those acts, .* the model decides each act\. \[Y/n\]$",
                    )
                self.assertEqual(self.steps(), [1, 2, 3, 4] if goes else [None] * 4)
