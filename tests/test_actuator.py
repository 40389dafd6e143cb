"""The actuator on a simulated Windows: every gate, every tool, and nothing held whatever happens in between."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unittest import mock

import agent
from agent import Point, Rect, ToolCall
from tests.fakes import COURTESY, NEVER_FAIL, RELEASES, Event, windows_desktop
from tests.samples import for_the_gate, sample

PRIMARY = Rect(0, 0, 1920, 1080)
WORDS = agent.Vocabulary({name: name for name in agent.TOOLS})
HANDS = [name for name, tool in agent.TOOLS.items() if tool.done]
# They are carried out by the hands of another one, but for the button, the direction or the number.
ALIKE = {"right_click", "middle_click", "triple_click", "scroll_up", "scroll_here", "hscroll"}
# A plain value for each argument of a tool that is no place; what a tool does not need is left out.
PLAIN = {
    "element_name": "sample",
    "reasoning": "sample",
    "text": "aß\n😀\t",
    "key": "ctrl+shift+s",
    "name": "notepad",
    "title": "Untitled",
    "ticks": -3,
}
HARMLESS = NEVER_FAIL | COURTESY
NOTEPAD = agent.Program("Notepad", r"C:\Menu\Notepad.lnk", ("notepad.exe",))
# Scripts that people type, with signs of one, two, three and four bytes.
SCRIPTS = [
    "The quick brown fox: 0123456789 !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "Grüße, „süß“ – 5 € … ½ Łódź, žluťoučký kůň, Şırnak, e\u0301 o\u0308 \ufeff\u200d\u00a0\u2028",
    "Съешь же ещё этих мягких булок, Ξεσκεπάζω ψυχή",
    "דג סקרן שט בים \u202b صِف خَلقَ خَودِ ऋषियों को सताने वाले กขฃคฅฆง ๕",
    "いろはにほへと 色は匂へど 天地玄黃 𠜎𠜱 키스의 고유조건은",
    "😀👩‍👩‍👧‍👦🏳️‍🌈🇩🇪 👍🏽 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ∀x∈ℝ ⟨⟩",
]


def stale(stage: Stage, old: Point) -> Callable[[], Point]:
    """What a Windows tells of the mouse that has a place of before until the mouse is moved."""
    sent = len(stage.world.events)

    def told() -> Point:
        moved = any(event.kind == "move" for event in stage.world.events[sent:])
        return Point(*stage.world.mouse) if moved else old

    return told


class Stage:
    """A simulated Windows with an actuator on it; `look` gives a frame without the cost of a picture."""

    def __init__(
        self, area: Rect = PRIMARY, config: dict[str, Any] | None = None, **world: Any
    ) -> None:
        self.world, self.desktop, self.clock = windows_desktop(**world)
        self.stop, self.area, self.number = self.clock.stop, area, 0
        self.desktop._programs = [NOTEPAD]
        self.desktop.programs = lambda: self.desktop._programs
        self.config = config_of(*(config or {}).items())
        self.actuator = agent.Actuator(self.desktop, self.config, self.clock, self.stop)

    def look(self, seen: bytes | None = None) -> agent.Frame:
        """A look that shows this picture, or what the screen shows."""
        self.number += 1
        shown = self.world.window
        window = agent.Window(shown.handle, shown.title, "", shown.rect) if shown else None
        seen = seen or self.desktop.glance(self.area, 8, 4)
        return agent.Frame(
            self.number, 8, 4, seen, seen, self.area, self.world.screen(), self.clock.now(), window
        )

    def attempt(self, name: str, /, frame: agent.Frame | None = None, **arguments: Any) -> Any:
        """What became of an act, refused or not."""
        return self.actuator.perform(act(name, **arguments), frame or self.look())

    def do(self, name: str, /, frame: agent.Frame | None = None, **arguments: Any) -> str:
        """The result of an act that is performed whole; one that is refused fails the test."""
        performed = self.attempt(name, frame, **arguments)
        if performed.refused:
            raise AssertionError(f"{name} was refused: {performed}")
        return performed.result


@cache
def config_of(*settings: tuple[str, Any]) -> agent.Config:
    return agent.load_config({"test": dict(settings)})


def act(name: str, /, **arguments: Any) -> agent.Act:
    """An act of that tool; arguments that are not given get a plain value of their type."""
    (schema,) = WORDS.schemas([name])
    properties = schema["function"]["parameters"]["properties"]
    for number, (argument, kind) in enumerate(properties.items()):
        if (name, argument) == ("type_text", "position"):  # a step of its own
            continue
        if kind.get("maxItems") == 2:
            arguments.setdefault(argument, [100 + 300 * number, 200 + 100 * number])
        elif argument in PLAIN or (kind["type"] == "string" and argument != "modifiers"):
            arguments.setdefault(argument, PLAIN.get(argument, "sample"))
        elif argument == "archived_turns":
            arguments.setdefault(argument, [1])
    return WORDS.parse(ToolCall(name, arguments))


class Gates(unittest.TestCase):
    """A refused act sends nothing."""

    def stale(self, stage: Stage, name: str, frame: agent.Frame) -> str:
        """How the act is refused."""
        done = stage.attempt(name, frame)
        self.assertEqual((done.refused, done.begun, done.acted), ("stale_frame", False, False))
        self.assertRegex(done.result, r"^[^\n]*\.$")
        self.untouched(stage)
        return done.result

    def untouched(self, stage: Stage) -> None:
        self.assertEqual((stage.world.events, stage.world.sent), ([], []))
        self.assertNotIn("SetCursorPos", stage.world.calls)
        stage.world.verify()

    def test_after_a_stop_and_in_a_dry_run_nothing_is_sent(self) -> None:
        for name in HANDS:
            stage = Stage(config={"dry_run": True})
            performed = stage.attempt(name)
            self.assertIn(f"Dry run: would {name.replace('_', ' ')}", performed.result)
            self.assertEqual((performed.refused, performed.acted), ("", False))
            self.untouched(stage)
            stage = Stage()
            stage.stop.set("by the person")
            with self.assertRaisesRegex(agent.Stopped, r"^Stopped: by the person\.$"):
                stage.do(name)
            self.untouched(stage)
        for name in set(agent.TOOLS) - set(HANDS):  # these only tell something
            stage = Stage()
            self.assertEqual(stage.do(name), "")
            self.untouched(stage)

    def test_a_frame_serves_one_act_on_the_screen_that_it_shows(self) -> None:
        for name in HANDS:
            stage = Stage()
            older, frame = stage.look(), stage.look()
            stage.world.insert_at_most = 0
            self.assertTrue(stage.attempt("click", frame).acted)  # though it failed
            stage.world.insert_at_most = None
            stage.world.sent.clear()
            for used in (frame, older):
                self.assertIn("at since", self.stale(stage, name, used))
            for monitors in ([Rect(0, 0, 1280, 720)], [PRIMARY, Rect(-800, 0, 800, 600)]):
                stage = Stage()
                frame = stage.look()
                stage.world.monitors = monitors
                self.assertIn("changed since the last look", self.stale(stage, name, frame))


class Mouse(unittest.TestCase):
    def pair(
        self, first: str, second: str, apart: int = 0, wait: float = 0.0, limit: int = 500
    ) -> Stage:
        """Two acts, the second that many pixels further right, that many seconds later."""
        stage = Stage(Rect(0, 0, 1001, 1001), double_click_ms=limit)
        stage.do(first, position=[100, 100])
        stage.clock.advance(wait)
        stage.do(second, position=[100 + apart, 100])
        stage.world.verify()
        return stage

    def test_two_single_clicks_never_become_a_double_click_and_none_waits_in_vain(self) -> None:
        for limit in sample((200, 500, 900), (500,)):
            for apart, wait in itertools.product(range(6), (0.0, 0.1, 0.3)):
                clicks = self.pair("click", "click", apart, wait, limit).world.clicks
                doubles = [click.double for click in clicks]
                self.assertEqual(doubles, [False, False], (limit, apart, wait))
        self.assertLess(sum(self.pair("click", "click", wait=0.6).clock.sleeps), 0.1)
        self.assertLess(sum(self.pair("click", "right_click", apart=60).clock.sleeps), 0.6)
        for first, wanted in (("click", [False]), ("double_click", [False, True])):
            clicks = self.pair(first, "double_click").world.clicks
            self.assertEqual([click.double for click in clicks], [*wanted, False, True])

    def test_nor_where_the_machine_is_so_busy_that_a_press_is_sent_late(self) -> None:
        stage = Stage()
        send = stage.desktop.button

        def late(name: str, down: bool) -> None:
            stage.clock.advance(0.2 if down and not stage.world.clicks else 0.0)
            send(name, down)

        with mock.patch.object(stage.desktop, "button", late):
            stage.do("click")
            stage.do("click")
        self.assertEqual([click.double for click in stage.world.clicks], [False, False])

    def test_nor_where_the_first_was_broken_off_while_the_button_was_down(self) -> None:
        stage = Stage()
        failing = [agent.Win32Error("No."), None, None, None]
        send = stage.desktop.button

        def fails_once(name: str, down: bool) -> None:
            error = None if down else failing.pop(0)
            if error:
                raise error
            send(name, down)

        with mock.patch.object(stage.desktop, "button", fails_once):
            self.assertEqual(stage.attempt("click").became, "half-way")
            stage.do("click")
        self.assertEqual([click.double for click in stage.world.clicks], [False, False])

    def test_an_act_that_names_a_place_moves_there_though_the_mouse_stands_there_already(
        self,
    ) -> None:
        for name in (
            "click double_click triple_click right_click middle_click scroll_at scroll move".split()
        ):
            with self.subTest(name):
                stage = Stage(Rect(0, 0, 1001, 1001), mouse=Point(300, 400))
                for _ in range(3):
                    before = len(stage.world.events)
                    stage.do(name, position=[300, 400])
                    first = stage.world.events[before]
                    self.assertEqual((first.kind, first.place), ("move", Point(300, 400)))
                    stage.clock.advance(1)

    def test_one_where_the_mouse_is_moves_it_only_where_windows_tells_another_place(self) -> None:
        for name in ("click_here", "scroll_here"):
            with self.subTest(name):
                stage = Stage(Rect(0, 0, 1001, 1001))
                stage.do("move", position=[300, 400])
                before = len(stage.world.events)
                stage.do(name)
                kinds = {event.kind for event in stage.world.events[before:]}
                self.assertNotIn("move", kinds)
        # Under an open menu Wine tells the place from before the last move, and so it is drawn.
        stage.do("move", position=[600, 700])
        with mock.patch.object(stage.desktop, "cursor", side_effect=stale(stage, Point(300, 400))):
            stage.do("click_here")
        self.assertEqual(stage.world.clicks[-1].place, Point(600, 700))
        with mock.patch.object(stage.desktop, "cursor", side_effect=stale(stage, Point(300, 400))):
            stage.do("click_here")
        self.assertEqual(stage.world.clicks[-1].place, Point(300, 400))

    def test_one_after_a_move_that_failed_is_done_where_the_mouse_is(self) -> None:
        stage = Stage(Rect(0, 0, 1001, 1001))
        stage.do("move", position=[300, 400])
        failure = mock.Mock(side_effect=agent.Win32Error("No."))
        with mock.patch.object(stage.desktop, "move", failure):
            self.assertEqual(stage.attempt("move", position=[600, 700]).became, "failed")
        stage.do("click_here")
        self.assertEqual(stage.world.clicks[-1].place, Point(300, 400))

    def test_a_press_lasts_twenty_milliseconds(self) -> None:
        stage = Stage(PRIMARY)
        stage.do("click", position=[300, 400])
        stage.do("press_key", key="ctrl+s")
        downs = [event for event in stage.world.events if event.kind in ("button", "key")]
        ends = [
            event.at - other.at
            for other, event in itertools.pairwise(downs)
            if not event.down and other.down
        ]
        self.assertGreaterEqual(min(ends), 0.019)

    def test_a_drag_goes_down_moves_in_fifteen_steps_and_is_released_at_its_end(self) -> None:
        stage = Stage(Rect(0, 0, 1001, 1001))
        stage.do("drag", start=[100, 100], end=[250, 400])
        kinds = [(event.kind, event.down) for event in stage.world.events]
        move = ("move", False)
        self.assertEqual(kinds, [move, ("button", True), *[move] * 15, ("button", False)])
        path = [event.place for event in stage.world.events if event.kind == "move"]
        self.assertEqual(path, [Point(100 + 10 * i, 100 + 20 * i) for i in range(16)])


class Typing(unittest.TestCase):
    def pieces(self, text: str, most: int) -> list[str]:
        """The pieces in which a text reaches the desktop."""
        stage, pieces = Stage(config={"text_batch_events": most}), list[str]()
        with mock.patch.object(stage.desktop, "text", pieces.append):
            stage.do("type_text", text=text)
        return pieces

    @for_the_gate
    def test_five_thousand_characters_arrive_exactly_in_batches_that_cut_no_pair(self) -> None:
        text = "".join(f"{i}\t{script}\n" for i, script in enumerate(SCRIPTS * 20))
        self.assertGreater(len(text), 5000)
        stage = Stage(config={"text_batch_events": 100})
        stage.do("type_text", text=text)
        self.assertEqual(stage.world.typed, text)
        self.assertLessEqual(max(stage.world.sent), 100)
        stage.world.verify()
        for most in (4, 6, 7, 100):
            pieces = self.pieces(text[:800], most)
            self.assertEqual("".join(pieces), text[:800])
            costs = [sum(4 if ord(c) > 0xFFFF else 2 for c in piece) for piece in pieces]
            self.assertLessEqual(max(costs), most)
        self.assertEqual(self.pieces("😀" * 3, 4), ["😀"] * 3)
        self.assertEqual(self.pieces("abc", 100), ["abc"])

    def test_batches_can_be_spaced(self) -> None:
        stage = Stage(config={"text_batch_events": 8, "char_input_delay": 0.01})
        stage.do("type_text", text="abcdef")
        self.assertEqual(stage.clock.sleeps, [0.01, 0.01])


class NothingHeld(unittest.TestCase):
    """Every call of every tool fails in turn, or the run is stopped between any two events.

    Of the calls that may fail without harm it is every 60th, and with --whole each one.
    """

    EVERY = sample(1, 60)
    CONFIG = {"drag_steps": 3, "text_batch_events": 4, "scroll_ticks": 2}
    LONG = ("double_click", "drag", "type_text", "press_key")

    def setUp(self) -> None:
        self.seen = Stage().look().pixels  # the same before every act

    def prepared(self, name: str, swapped: bool = False) -> tuple[Stage, Callable[[], Any]]:
        stage = Stage(config=self.CONFIG, swapped=swapped)
        frame, wanted = stage.look(self.seen), act(name)
        stage.world.arm()
        return stage, lambda: stage.actuator.perform(wanted, frame)

    def outcome(self, perform: Callable[[], Any]) -> str:
        """Why the act was not performed whole: the kind of a refusal, "stopped", or nothing."""
        try:
            performed = perform()
        except agent.Stopped as error:
            self.assertRegex(str(error), r"^[A-Z(][^\n]*\.$")
            return "stopped"
        if performed.refused:
            self.assertRegex(performed.result, r"^[A-Z(][^\n]*\.$")
        return performed.refused

    def faults(self, name: str, calls: list[str]) -> Iterator[dict[str, Any]]:
        """One call, three in a row, all from one on, or all of a function but the one that releases."""
        inserts = (0, 1, 3) if name in sample(("drag", "type_text"), ("drag",)) else (0,)
        for number, called in enumerate(calls, 1):
            if called not in HARMLESS or number % self.EVERY == 0:
                yield from ({"at": [number], "inserts": some} for some in inserts)
            if name in self.LONG and number % self.EVERY == 1 % self.EVERY:
                yield {"at": range(number, number + 3)}
                yield {"at": range(number, 10**9)}
        if name in self.LONG:
            yield from ({"names": {called}} for called in {*calls} - {"SendInput"})

    def test_whatever_call_fails_is_an_error_and_nothing_stays_held(self) -> None:
        for name in [name for name in HANDS if name not in sample(set(), ALIKE)]:
            errors = 0
            swapped = name == "drag"
            whole, perform = self.prepared(name, swapped)
            perform()
            for fault in self.faults(name, whole.world.calls):
                stage, perform = self.prepared(name, swapped)
                world = stage.world
                world.arm(**fault)
                outcome, why = self.outcome(perform), f"{name}: {fault} {world.failed[:1]}"
                self.assertEqual(world.problems, [], why)
                if "inserts" in fault:
                    released = RELEASES & set(world.failed)
                    self.assertFalse(world.leaks() and not released, why)
                    second_try = world.failed == ["SendInput"] and not outcome  # a key went up
                    if world.failed[0] not in HARMLESS and not second_try:
                        self.assertEqual(outcome, "windows", why)
                        errors += 1
                if 10**9 - 1 not in fault.get("at", ()):
                    self.assertEqual(world.held(), [], why)
                    continue
                self.assertTrue(outcome or not set(world.failed) - NEVER_FAIL, why)
                world.arm()
                stage.actuator.release()
                held = [what for what in world.held() if not what.startswith("unit")]
                self.assertEqual(held, [], why)
            self.assertGreater(errors, 5, name)

    def test_a_bug_in_a_tool_lets_go_and_shows_itself(self) -> None:
        stage = Stage()
        press = stage.desktop.key

        def broken(name: str, down: bool) -> None:
            press(name, down)
            if name == "s":
                raise ZeroDivisionError

        with mock.patch.object(stage.desktop, "key", broken), self.assertRaises(ZeroDivisionError):
            stage.attempt("press_key", key="ctrl+shift+s")
        stage.world.verify()
        self.assertEqual(len(stage.world.events), 6)

    def test_held_keys_are_let_go_by_the_next_act_once_windows_takes_input_again(self) -> None:
        stage, perform = self.prepared("press_key")
        stage.world.on_event = lambda _event: setattr(stage.world, "insert_at_most", 0)
        performed = perform()
        self.assertEqual(performed.refused, "windows")
        self.assertIn("does not let go of ctrl", performed.result)
        self.assertEqual(stage.world.held(), ["key (17, False)"])
        stage.world.on_event, stage.world.insert_at_most = None, None
        stage.do("click")
        self.assertEqual(stage.world.held(), [])

    def test_a_stop_between_any_two_events_ends_the_act_with_nothing_held(self) -> None:
        for name in self.LONG:
            whole, perform = self.prepared(name)
            perform()
            for k in range(1, len(whole.world.events) + 1):
                stage, perform = self.prepared(name)
                seen: list[tuple[Event, int]] = []

                def stop(event: Event, stage: Stage = stage, k: int = k, seen: Any = seen) -> None:
                    seen.append((event, len(stage.world.sent)))
                    if len(seen) == k:
                        stage.stop.set("by the person")

                stage.world.on_event = stop
                outcome = self.outcome(perform)
                stage.world.verify()
                call = seen[k - 1][1]  # events of the same SendInput cannot be called back
                late = [event for event, sent in seen[k:] if sent > call]
                self.assertFalse([e for e in late if e.down or e.kind not in ("key", "button")])
                # Without an outcome it was over but for releases.
                self.assertTrue(outcome == "stopped" or len(seen) == len(whole.world.events))


if __name__ == "__main__":
    unittest.main()
