"""The gates on a simulated Windows: what a rule forbids is not sent, and what the person does comes first.

A row of data/acts.jsonl is a simulated Windows and settings, the acts (`each` on a stage of its own, or `steps` one after
the other, `then` what happens between the look and the act), and what comes of the last one: how it is refused and in
which words, what the person is asked about, the keys, buttons and wheel steps that are sent, and what is held afterwards.
"""

from __future__ import annotations

import contextlib
import io
import json
import unittest
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from agent import Point, Rect
from tests.fakes import Foreground
from tests.long.gates import fuzz
from tests.samples import sample
from tests.seams import VK_MAP, asked_for
from tests.test_actuator import PRIMARY, Stage, act

FILE = Path(__file__).parent / "data" / "acts.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
NAMES = {code: name for name, code in VK_MAP.items()}
NOTEPAD = Foreground()
MAIL = Foreground("Inbox - Mail", Rect(0, 0, 600, 400), r"C:\Mail\mail.exe", 0x30002, 4712)
INSIDE = [300, 400]  # of Notepad, on the grid
LEFT, RIGHT = Rect(0, 0, 800, 1080), Rect(800, 0, 1120, 1080)


def window(given: dict[str, Any] | None) -> Foreground | None:
    """Notepad, but for what is given."""
    if given is None:
        return None
    return replace(NOTEPAD, **{**given, "rect": Rect(*given.get("rect", NOTEPAD.rect))})


def put(stage: Stage, given: dict[str, Any]) -> None:
    """Makes the simulated Windows so."""
    ways: dict[str, Callable[[Any], Any]] = {
        "window": window,
        "others": lambda windows: [window(one) for one in windows],
        "monitors": lambda rects: [Rect(*rect) for rect in rects],
        "mouse": lambda place: Point(*place),
    }
    for name, value in given.items():
        setattr(stage.world, name, ways.get(name, lambda same: same)(value))


def pressed(stage: Stage) -> str:
    """The keys and buttons that went down or up and the steps of the wheel, in order."""
    words = {
        "key": lambda code: NAMES[code],
        "button": str,
        "wheel": "{:+}".format,
        "hwheel": "{:+} across".format,
    }
    events = [event for event in stage.world.events if event.kind in words]
    return " ".join(words[event.kind](event.value) for event in events)


class RowCase(unittest.TestCase):
    """Carries out rows."""

    def stage(self, area: Rect, config: dict[str, Any]) -> Stage:
        return Stage(area, config)

    def trial(self, row: dict[str, Any], steps: list[Any], dry_run: bool = False) -> None:
        config = {**row.get("config", {}), **({"dry_run": True} if dry_run else {})}
        stage, asked = self.stage(Rect(*row.get("area", PRIMARY)), config), list[str]()
        stage.actuator.task = row.get("task", "")
        if "asked" in row or "yes" in row:
            stage.actuator.person.allows = lambda question, switch: (
                bool(asked.append(asked_for(question, switch))) or row.get("yes", False)
            )
        put(stage, row.get("world", {}))
        if "console_typed" in row:
            stage.desktop.own_console(row["console_typed"])
        for name, arguments in steps[:-1]:
            stage.do(name, **arguments)
        before, frame = len(stage.world.events), stage.look()
        put(stage, row.get("then", {}))
        try:
            done = stage.attempt(steps[-1][0], frame, **steps[-1][1])
        except agent.ToolError as error:  # the call itself is none
            self.assertRegex(f"{error.kind}: {error}", f"^{row['refused']}: .*{row['words']}")
            return
        self.assertEqual(done.refused, row["refused"], done.result)
        self.assertRegex(done.result, row.get("words", "(?s).*"))
        acted = row.get("acted", not (row["refused"] or stage.config.dry_run))
        self.assertEqual(done.acted or done.begun, acted)
        self.assertTrue(acted or len(stage.world.events) == before)
        if "asked" in row:
            reasons = [question.rpartition(": ")[2] for question in asked]
            self.assertEqual(reasons, row["asked"])
        self.assertRegex("".join(asked), row.get("question", "(?s).*"))
        if "started" not in row:
            for question in asked:  # it names the program of the window
                self.assertIn(stage.world.window.path.rpartition("\\")[2], question)
        self.assertEqual(pressed(stage), row.get("pressed", pressed(stage)))
        if "place" in row:
            self.assertEqual(stage.world.events[-1].place, Point(*row["place"]))
        if "started" in row:
            self.assertEqual(stage.world.programs_opened, row["started"])
        if "front" in row:
            self.assertEqual(stage.world.window.title, row["front"])
        self.assertNotIn(row.get("uncalled"), stage.world.calls)
        self.assertFalse(stage.world.attached or stage.world.held())
        stage.world.verify()

    def hold(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            for steps in [[step] for step in row.get("each", [])] or [row["steps"]]:
                for dry_run in (False, True) if row.get("dry") else (False,):
                    world = row.get("world")
                    with self.subTest(row["rule"], steps=steps, world=world, dry=dry_run):
                        self.trial(row, steps, dry_run)


class Rows(RowCase):
    def test_each_act_is_done_refused_or_asked_about_as_its_row_says(self) -> None:
        self.assertGreater(len(ROWS), 100)
        self.hold(ROWS)


class GateCase(unittest.TestCase):
    def refused(self, stage: Stage, kind: str, words: str, name: str, /, **given: Any) -> None:
        """The act is refused with that kind and text, and nothing was sent."""
        before = len(stage.world.events)
        performed = stage.attempt(name, **given)
        self.assertEqual((performed.refused, performed.begun or performed.acted), (kind, False))
        self.assertRegex(performed.result, words)
        self.assertEqual(len(stage.world.events), before)
        stage.world.verify()

    def come_to_front(self, stage: Stage, window: Foreground) -> None:
        """Another window comes to the front, over Notepad."""
        stage.world.others, stage.world.window = [NOTEPAD], window


class Windows(GateCase):
    def test_a_window_that_turns_up_in_the_middle_of_a_text_gets_no_key_of_it(self) -> None:
        stage = Stage(config={"text_batch_events": 4})
        stage.world.on_event = lambda _: (
            setattr(stage.world, "window", MAIL) if stage.world.typed == "abcd" else None
        )
        performed = stage.attempt("type_text", text="abcdefgh")
        self.assertIn("in the middle of the text", performed.result)
        self.assertEqual((performed.refused, performed.acted), ("stale_frame", True))
        self.assertEqual((stage.world.typed, performed.begun), ("abcd", True))
        stage.world.verify()

    def test_a_pause_holds_in_the_middle_of_a_text_too(self) -> None:
        for text, slowly in (("abcdefgh", False), ("abcd\nefgh", False), ("abcdefgh", True)):
            stage = Stage(config={"text_batch_events": 4})

            def pauses(_: Any, stop: agent.Stop = stage.stop, world: Any = stage.world) -> None:
                stop.paused = "by hand" if world.typed.startswith("abcd") else ""

            stage.world.on_event = pauses
            typing = replace(act("type_text", text=text), slowly=slowly)
            performed = stage.actuator.perform(typing, stage.look())
            self.assertEqual((performed.refused, performed.became), ("paused", "half-way"))
            self.assertEqual(stage.world.typed, "abcd")
            stage.world.verify()

    def test_one_that_comes_while_controls_are_asked_for_gets_none_either(self) -> None:
        stage = Stage()
        source = mock.Mock(spec=agent.KnownControls())
        source.ask.side_effect = lambda _: self.come_to_front(stage, MAIL) or []
        stage.desktop.control_source = source
        self.refused(stage, "stale_frame", "come to the front.*Inbox - Mail", "type_text", text="a")

    def test_a_setting_that_names_no_key_is_refused_by_its_name(self) -> None:
        for name, chord, words in (
            ("blocked_keys", "win+l; foo", "blocked_keys: There is no key 'foo'; use names"),
            ("stop_hotkey", "", "stop_hotkey: There is no key ''; use names"),
            ("pause_hotkey", "ctrl+alt", "pause_hotkey takes a key, such as .*, not 'ctrl.alt'"),
        ):
            with self.assertRaisesRegex(agent.ConfigError, words):
                Stage(config={name: chord})


class Limits(GateCase):
    def test_the_act_after_the_most_acts_of_a_minute_waits(self) -> None:
        stage = Stage(config={"acts_per_minute": 5})
        start = stage.clock.now()
        for _ in range(11):
            stage.do("press_key")
        self.assertGreaterEqual(stage.clock.now() - start, 120)
        times = [event.at for event in stage.world.events if event.value == 0x53 and event.down]
        for first in times:
            self.assertLessEqual(sum(first <= at < first + 60 for at in times), 5)

    def test_the_person_at_work_during_that_wait_is_noticed(self) -> None:
        stage = Stage(config={"acts_per_minute": 1})
        stage.do("press_key")
        stage.clock.at(30, stage.world.person)
        self.refused(stage, "paused", "was paused", "press_key")

    def test_after_its_last_minute_the_run_ends_and_says_so(self) -> None:
        stage = Stage(config={"minutes_most": 2})
        stage.do("press_key")
        stage.clock.advance(120.5)
        with self.assertRaisesRegex(agent.Stopped, "lasted its 2 minutes"):
            stage.do("press_key")
        stage = Stage(config={"minutes_most": 0})
        stage.clock.advance(1e6)
        stage.do("press_key")

    def test_a_text_longer_than_allowed_is_refused_whole(self) -> None:
        stage = Stage()
        self.refused(stage, "too_long", "over 10000 characters", "type_text", text="x" * 10_001)
        stage.do("type_text", text="x" * 10_000)


class Takeover(GateCase):
    """takeover_quiet is 3 seconds."""

    def test_the_person_pauses_the_run_until_it_was_quiet_and_a_new_look_is_needed(self) -> None:
        stage, said = Stage(), []
        stage.actuator.person.say = said.append
        stage.do("press_key")
        stage.clock.advance(5)
        frame = stage.look()
        stage.clock.advance(1)
        stage.world.person(Point(700, 700))
        for later in (1, 2, 3.5):
            stage.clock.at(later, lambda: stage.world.person(Point(700, 701)))
        start = stage.clock.now()
        self.refused(stage, "paused", "was paused", "click", frame=frame)
        self.assertAlmostEqual(stage.clock.now() - start, 6.5, delta=0.2)
        self.assertEqual([line.split()[0] for line in said], ["paused:", "going"])
        self.assertEqual(stage.stop.paused, "")
        stage.do("click")

    def test_a_pause_ends_when_the_person_resumes_and_one_asked_for_not_before(self) -> None:
        for reason, seconds in (("", 0.3), ("by ctrl+alt+insert", 500)):
            stage = Stage()
            stage.clock.advance(5)
            stage.world.person()
            stage.stop.paused = reason
            stage.clock.at(seconds, lambda stop=stage.stop: setattr(stop, "paused", ""))
            start = stage.clock.now()
            self.refused(stage, "paused", "was paused", "click")
            self.assertAlmostEqual(stage.clock.now() - start, seconds, delta=0.3)
        stage.stop.paused = "by ctrl+alt+insert"
        stage.clock.at(1, lambda: stage.stop.set("ctrl+alt+backspace"))
        with self.assertRaises(agent.Stopped):
            stage.do("click")
        self.assertEqual(stage.world.events, [])

    def test_its_own_input_and_what_the_person_did_before_a_fresh_look_do_not_pause(self) -> None:
        stage = Stage()
        stage.do("type_text", text="abc")
        stage.clock.advance(0.01)
        stage.do("click")
        stage.clock.advance(20)
        stage.world.person()
        stage.clock.advance(4)
        start = stage.clock.now()
        stage.do("press_key", stage.look())
        self.assertLess(stage.clock.now() - start, 0.1)

    def test_with_no_quiet_time_the_person_is_not_watched(self) -> None:
        stage = Stage(config={"takeover_quiet": 0})
        stage.clock.advance(5)
        stage.world.person()
        with mock.patch.object(stage.desktop, "idle_s", side_effect=AssertionError("asked")):
            stage.do("click")

    def test_the_person_moving_the_mouse_during_a_drag_ends_it_released(self) -> None:
        hold = 0.012  # what a move takes; during it program and person contend for the mouse
        for after in range(12):
            stage = Stage()
            rest = hold + 0.02 + (hold + 0.008) * (after + 1)
            stage.clock.at(rest - 0.001, lambda s=stage: s.world.person(Point(1500, 900)))
            performed = stage.attempt("drag")
            self.assertIn("moved the mouse in the middle", performed.result)
            self.assertEqual((performed.refused, performed.begun), ("stale_frame", True))
            stage.world.verify()


def says_yes_once(stage: Stage) -> list[str]:
    """The person allows the first act that is asked about, and pauses with it; the questions."""
    asked = list[str]()

    def answer(question: str, _: str) -> bool:
        asked.append(question)
        stage.stop.paused = "until ctrl+alt+insert is pressed again"
        stage.clock.at(1, lambda: setattr(stage.stop, "paused", ""))
        return len(asked) == 1

    stage.actuator.person.allows = answer
    return asked


class Confirmation(GateCase):
    def test_only_after_a_yes_the_window_comes_back_and_the_act_is_performed(self) -> None:
        stage, asked = Stage(config={"confirm": "always"}), list[str]()

        def answer(question: str, _: str) -> bool:
            asked.append(question)
            stage.clock.advance(50)
            self.assertEqual(stage.world.events, [])
            stage.world.person()
            self.come_to_front(stage, MAIL)  # as the console does
            return True

        stage.actuator.person.allows = answer
        stage.do("type_text", text="rm -r x")
        self.assertEqual((len(asked), stage.world.typed), (1, "rm -r x"))
        self.assertEqual(stage.world.window, NOTEPAD)

    def test_who_pauses_before_the_answer_finds_nothing_done_by_it(self) -> None:
        for yes in (True, False):
            stage = Stage()

            def answer(*_: Any, stage: Stage = stage, yes: bool = yes) -> bool:
                stage.stop.paused = "until ctrl+alt+insert is pressed again"
                stage.clock.at(5, lambda: setattr(stage.stop, "paused", ""))
                return yes

            stage.actuator.person.allows = answer
            given = {"element_name": "Send", "position": INSIDE}
            done = stage.attempt("click", **given)
            self.assertEqual(done.refused, "paused" if yes else "not_allowed")
            self.assertEqual(stage.world.events, [])
            stage.actuator.person.allows = lambda *_: self.fail("asked once more")
            if yes:
                self.assertTrue(stage.attempt("click", **given).acted)

    def test_a_yes_is_gone_once_something_else_was_done(self) -> None:
        shell = replace(NOTEPAD, path="C:\\cmd.exe", class_name="ConsoleWindowClass")
        chat = replace(NOTEPAD, path="C:\\slack.exe")
        enter = ("press_key", {"key": "enter"})
        send = ("click", {"element_name": "Send", "position": INSIDE})
        for window, more, allowed in (
            (shell, " & rmdir /s x", enter),
            (chat, " and my PIN", enter),
            (chat, " and my PIN", send),
        ):
            stage = Stage(window=window)
            asked = says_yes_once(stage)
            stage.do("type_text", text="del a.txt")
            for step, refused in (
                (allowed, "paused"),
                (("type_text", {"text": more}), ""),
                (allowed, "not_allowed"),
            ):
                self.assertEqual(stage.attempt(step[0], **step[1]).refused, refused, step)
            self.assertEqual((len(asked), stage.world.typed), (2, f"del a.txt{more}"))

    def test_a_yes_is_for_the_task_that_it_was_given_in(self) -> None:
        for by_client in (False, True):
            stage = Stage()
            stage.actuator.by_client = by_client
            says_yes_once(stage)
            for task, refused in (("Write a mail", "paused"), ("Read the mail", "not_allowed")):
                stage.actuator.task = task
                done = stage.attempt("click", element_name="Send", position=INSIDE)
                self.assertEqual((done.refused, stage.world.events), (refused, []))

    def test_what_came_with_the_answer_needs_a_new_look(self) -> None:
        over = replace(MAIL, rect=NOTEPAD.rect)
        for happens, words in (
            (lambda s: s.world.monitors.append(Rect(1920, 0, 800, 600)), "monitors changed"),
            (lambda s: self.come_to_front(s, over), "come to the front"),
        ):
            stage = Stage(config={"blocked_windows": "mail.exe"})
            stage.world.never_front = True
            stage.actuator.person.allows = lambda *_, s=stage, do=happens: bool(do(s)) or True
            given = {"element_name": "Send", "position": INSIDE}
            self.refused(stage, "stale_frame", words, "click", **given)

    def test_a_question_names_a_window_once_where_two_places_of_it_are_acted_on(self) -> None:
        stage, asked = Stage(config={"confirm": "always"}), list[str]()
        stage.actuator.person.allows = lambda question, _: bool(asked.append(question))
        stage.attempt("drag", element_name="x", start=INSIDE, end=INSIDE)
        stage.attempt("click", element_name="x", position=INSIDE, modifiers="shift")
        titles = [question.count(stage.world.window.title) for question in asked]
        self.assertEqual(titles, [1, 1], asked)

    def test_a_question_names_each_window_and_all_that_may_come_of_it(self) -> None:
        folder = replace(NOTEPAD, title="Offers of 2025 for all of the company", rect=LEFT)
        chat = replace(
            MAIL, title=f"All of them {'and others ' * 9}", path="C:\\slack.exe", rect=RIGHT
        )
        stage, asked = Stage(config={"confirm": "always"}, window=folder), list[str]()
        stage.world.others = [chat]
        stage.actuator.person.allows = lambda question, _: bool(asked.append(question))
        stage.attempt("drag", element_name="offer.docx", start=[100, 300], end=[800, 300])
        self.assertRegex(
            asked[0], r"'Offers .* company' \(notepad\.exe\) and 'All of .*' \(slack\.exe\)\."
        )
        stage = Stage(config={"risky_words": "drag;a risk of one's own"}, window=chat)
        stage.actuator.person.allows = lambda question, _: bool(asked.append(question))
        label = "Send, pay and delete by drag: a risk of one's own"
        stage.attempt("click", element_name=label, position=[800, 300])
        for means in (
            "send or publish",
            "pay, order",
            "delete or discard",
            "'drag' risky",
            'own" risky',
        ):
            self.assertIn(means, asked[1])

    def test_the_setting_that_would_allow_it_is_for_the_page_and_not_for_all_of_a_browser(
        self,
    ) -> None:
        for title, program, place in (
            ("Pay now - Shop - Google Chrome", "chrome.exe", "Pay now"),
            ("Inbox (3) - me@a.example - Gmail - Google Chrome", "chrome.exe", "Gmail"),
            ("Cart — Mozilla Firefox", "firefox.exe", "Cart"),
            ("Pay €5! - Google Chrome", "chrome.exe", "chrome.exe"),
            ("Cart - Work - Microsoft Edge", "msedge.exe", "Cart"),
            ("Cart - Microsoft Edge", "msedge.exe", "Cart"),
            ("Pay €5! - Personal - Microsoft Edge", "msedge.exe", "msedge.exe"),
            ("Order - Shop", "till.exe", "Shop"),
        ):
            window = replace(NOTEPAD, title=title, path=f"C:\\{program}")
            stage, told = Stage(window=window), list[str]()
            stage.actuator.person.allows = lambda _, switch, told=told: bool(told.append(switch))
            stage.attempt("click", element_name="Pay now", position=INSIDE)
            self.assertEqual(told, [f"pay in *{place}*"])
            other = replace(window, title=title.replace(place, "Bank"))
            stage = Stage(config={"allow_risky": told[0]}, window=other)
            refused = "" if place == program else "not_allowed"
            done = stage.attempt("click", element_name="Pay now", position=INSIDE)
            self.assertEqual(done.refused, refused, title)

    def test_a_button_of_a_pages_search_asks_for_no_yes_and_the_same_elsewhere_does(self) -> None:
        for finds, became in ((True, "done"), (False, "refused")):
            stage = Stage()
            stage.actuator.task = "Find a flight to Rome"
            stage.world.window = Foreground("Trips - Google Chrome", path="C:\\chrome.exe")
            where = agent.to_point(agent.Coordinate(*INSIDE), stage.area)
            go = agent.Control("Go", "button", Rect(where.x - 4, where.y - 4, 9, 9), finds=finds)
            stage.desktop.control_source = agent.KnownControls([go])
            performed = stage.attempt("click", element_name="Go", position=INSIDE)
            self.assertEqual(performed.became, became)

    def test_what_the_task_before_typed_into_is_not_saved_unasked_by_the_first_act_of_the_next(
        self,
    ) -> None:
        stage = Stage()
        stage.actuator.task = "Write hello in a new window"
        stage.world.window = Foreground("important.txt - Notepad", path="C:\\notepad.exe")
        handle, place = stage.world.window.handle, Rect(110, 110, 9, 9)
        field = agent.Control("Text", "document", place, "OF YEARS", focused=True, window=handle)
        for text in ("OF YEARS", "helloOF YEARS"):
            known = replace(field, value=text)
            stage.desktop.control_source = agent.KnownControls([known])
            if text == field.value:
                stage.do("type_text", text="hello")
        typed = stage.actuator.typed
        for strange in (typed.strange, None):  # of the same task, of the next one
            stage.actuator.typed = replace(typed, strange=strange)
            self.refused(stage, "not_allowed", r"\w", "press_key", key="ctrl+s")

    def test_an_act_of_which_nothing_was_sent_changes_nothing_of_what_is_known(self) -> None:
        stage = Stage()
        moved = agent.ToolError("The person moved the mouse.")
        with mock.patch.object(stage.actuator, "_ready", side_effect=moved):
            self.assertEqual(stage.attempt("press_key", key="ctrl+a").became, "failed")
        self.assertEqual(stage.actuator.typed.last, "")
        stage.do("press_key", key="ctrl+a")
        self.assertEqual(stage.actuator.typed.last, "ctrl+a")

    def test_a_question_shows_the_whole_text_or_the_act_is_refused(self) -> None:
        stage, asked = Stage(config={"confirm": "always"}), list[str]()
        stage.actuator.person.allows = lambda question, _: bool(asked.append(question))
        stage.attempt("type_text", text="x" * 500 + "\u200b\u202e\n; rm -r y" + "z" * 100)
        (question,) = asked
        for part in ("x" * 500, "\\x200b\\x202e\\n; rm -r y", "z" * 100):
            self.assertIn(part, question)
        self.assertTrue(question.isprintable())
        self.refused(stage, "too_long", "too long to be shown", "type_text", text="echo " * 300)
        self.assertEqual(len(asked), 1)
        for name, given in (
            ("press_key", {"key": "delete"}),
            ("click", {"element_name": "Bob", "position": INSIDE, "modifiers": "alt"}),
        ):
            stage.attempt(name, **given)
            self.assertRegex(asked[-1], "Delete|alt")


class Fuzz(unittest.TestCase):
    def test_thousands_of_random_acts_let_nothing_through_that_a_rule_forbids(self) -> None:
        # python -m tests.long gates tries as many as it is told.
        counts = fuzz(sample(20_000, 1_500), seed=8)
        self.assertEqual(counts["violations"], 0)
        kinds = "done blocked_key forbidden_window invalid_box no_program no_window not_allowed"
        self.assertGreater(min(counts[key] for key in kinds.split()), 10)

    def test_the_judge_sees_each_gate_that_is_left_out(self) -> None:
        for name in ("gate_windows", "gate_confirm"):
            others = [gate for gate in agent.GATES if gate.__name__ != name]
            left_out = mock.patch.object(agent, "GATES", others)
            with contextlib.redirect_stderr(io.StringIO()), left_out:
                counts = fuzz(3_000, seed=1, to_the_first=True)
                self.assertGreater(counts["violations"], 0, name)


if __name__ == "__main__":
    unittest.main()
