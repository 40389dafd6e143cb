"""The actuator on a simulated Windows: every gate, every tool, and nothing held whatever happens in between."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

import agent
from agent import Point, Rect, ToolCall, ToolError
from tests.fakes import (
    COURTESY,
    NEVER_FAIL,
    RELEASES,
    Event,
    FakeWin32,
    Foreground,
    VirtualClock,
    windows_desktop,
)
from tests.samples import sample

PRIMARY = Rect(0, 0, 1920, 1080)
WORDS = agent.Vocabulary({name: name for name in agent.TOOLS})
# What holds something for the acts after it, or lets go of it, has tests of its own.
HOLDING = {"key_down", "key_up", "mouse_down", "mouse_up"}
ACTING = [name for name, tool in agent.TOOLS.items() if tool.done]
HANDS = [name for name in ACTING if name not in HOLDING]
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
    "button": "left",
}
HARMLESS = NEVER_FAIL | COURTESY | RELEASES
NOTEPAD = agent.Program("Notepad", r"C:\Menu\Notepad.lnk", ("notepad.exe",))
# Every script that people are likely to type, with signs of one, two, three and four bytes.
SCRIPTS = [
    "The quick brown fox: 0123456789 !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "Grüße, Ärger, Öl, „süß“ – 5 € … ½",
    "Łódź, žluťoučký kůň, Şırnak, ångström, naïve Ĳ",
    "Съешь же ещё этих мягких французских булок",
    "Ξεσκεπάζω ψυχή",
    "דג סקרן שט בים",
    "صِف خَلقَ خَودِ كَمِثلِ الشَمسِ",
    "ऋषियों को सताने वाले",
    "กขฃคฅฆง ๕",
    "いろはにほへと 色は匂へど",
    "天地玄黃 宇宙洪荒 𠜎𠜱",
    "키스의 고유조건은",
    "Hệ thống tiếng Việt",
    "ქართული ენა",
    "Հայերեն",
    "😀👩‍👩‍👧‍👦🏳️‍🌈🇩🇪 👍🏽",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ∀x∈ℝ ⟨⟩",
    "e\u0301 o\u0308 \u202b \ufeff\u200d\u00a0\u2028",
]


class Stage:
    """A simulated Windows with an actuator on it; `look` gives a frame without the cost of a picture."""

    def __init__(
        self, area: Rect = PRIMARY, config: dict[str, Any] | None = None, **world: Any
    ) -> None:
        self.world: FakeWin32
        self.clock: VirtualClock
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


def strokes(world: FakeWin32) -> list[tuple[str, bool]]:
    return [(event.value, event.down) for event in world.events if event.kind == "button"]


Step = tuple[str, dict[str, Any]]
LEFT_AND_RIGHT = [PRIMARY, Rect(1920, 540, 1920, 1080)]
LOWER_AND_HIGHER = [Rect(0, 0, 800, 600), Rect(800, -1200, 800, 600)]
SMALL = Rect(500, 500, 100, 100)
IN_PLACE: list[Step] = [("click_here", {}), ("scroll_here", {})]
CLICKS = ("click", "double_click", "right_click")
KEYS: list[Step] = [("type_text", {}), ("press_key", {})]
# The working area, the simulated Windows, how an act is refused or not, words of it, and the acts.
PLACES: list[tuple[Rect, dict[str, Any], str, str, list[Step]]] = [
    (Rect(1000, 500, 2000, 1000), {}, "invalid_box", "not on any monitor", [(name, {"position": [900, 100]}) for name in CLICKS]),
    (Rect(1000, 500, 2000, 1000), {}, "invalid_box", "not on any monitor", [("drag", {"start": [0, 0], "end": [100, 900]})]),
    (Rect(1000, 500, 2000, 1000), {}, "", "", [("click", {"position": [100, 100]})]),
    (Rect(0, 0, 3840, 1620), {"monitors": LEFT_AND_RIGHT}, "invalid_box", "not on any monitor", [("click", {"position": [900, 100]})]),
    (Rect(0, 0, 3840, 1620), {"monitors": LEFT_AND_RIGHT}, "", "", [("click", {"position": at}) for at in ([100, 300], [900, 900])]),
    (Rect(0, -1200, 1600, 1800), {"monitors": LOWER_AND_HIGHER}, "invalid_box", "not on any monitor", [("scroll_down", {})]),
    *((SMALL, {"mouse": Point(*at)}, "invalid_box", "mouse is outside the working area", IN_PLACE) for at in ((499, 500), (600, 500), (500, 499), (500, 600), (10, 10))),
    (SMALL, {"mouse": Point(550, 550)}, "", "", [*IN_PLACE, ("middle_click", {"position": None})]),
    (Rect(500, 500, 400, 400), {"window": Foreground("Mail", Rect(0, 0, 400, 300))}, "outside_area", "('Mail')", KEYS),
    (Rect(500, 500, 400, 400), {"window": Foreground("Mail", Rect(-32000, -32000, 160, 28))}, "outside_area", "('Mail')", KEYS),
    (Rect(500, 500, 400, 400), {"window": Foreground("Mail", Rect(0, 0, 501, 501))}, "", "", KEYS),
    (PRIMARY, {"window": None}, "", "", [("press_key", {"key": "win"})]),
]  # fmt: skip


class Gates(unittest.TestCase):
    """A refused act sends nothing."""

    def refused(
        self, stage: Stage, kind: str, name: str, /, frame: Any = None, **arguments: Any
    ) -> str:
        performed = stage.attempt(name, frame, **arguments)
        self.assertEqual(
            (performed.refused, performed.begun, performed.acted), (kind, False, False)
        )
        self.assertRegex(performed.result, r"^[^\n]*\.$")
        self.untouched(stage)
        return performed.result

    def untouched(self, stage: Stage) -> None:
        self.assertEqual((stage.world.events, stage.world.sent), ([], []))
        self.assertNotIn("SetCursorPos", stage.world.calls)

    def test_after_a_stop_nothing_is_sent(self) -> None:
        for name in HANDS:
            stage = Stage()
            stage.stop.set("by the person")
            with self.assertRaisesRegex(agent.Stopped, r"^Stopped: by the person\.$"):
                stage.do(name)
            self.untouched(stage)

    def test_a_frame_serves_one_act(self) -> None:
        stage = Stage()
        older, frame = stage.look(), stage.look()
        stage.do("click", frame)
        stage.world.events.clear()
        stage.world.sent.clear()
        for name in HANDS:
            self.assertIn("not looked at since", self.refused(stage, "stale_frame", name, frame))
        self.refused(stage, "stale_frame", "click", older)

    def test_a_failed_act_uses_its_frame_up(self) -> None:
        stage = Stage()
        frame = stage.look()
        stage.world.insert_at_most = 0
        performed = stage.attempt("click", frame)
        self.assertEqual((performed.refused, performed.acted), ("windows", True))
        stage.world.insert_at_most = None
        stage.world.sent.clear()
        self.refused(stage, "stale_frame", "click", frame)

    def test_a_changed_screen_makes_the_frame_stale(self) -> None:
        for monitors in ([Rect(0, 0, 1280, 720)], [PRIMARY, Rect(-800, 0, 800, 600)]):
            for name in HANDS:
                stage = Stage()
                frame = stage.look()
                stage.world.monitors = monitors
                self.assertIn(
                    "changed since the last look", self.refused(stage, "stale_frame", name, frame)
                )

    def test_what_lies_outside_the_area_or_on_no_monitor_is_refused_in_a_dry_run_too(self) -> None:
        for dry_run in (False, True):
            for area, world, kind, words, steps in PLACES:
                for name, arguments in steps:
                    with self.subTest(name=name, area=area, words=words, dry_run=dry_run):
                        stage = Stage(area, {"dry_run": dry_run}, **world)
                        if kind:
                            said = self.refused(stage, kind, name, **arguments)
                            self.assertIn(words, said)
                        else:
                            stage.do(name, **arguments)
                            self.assertEqual(stage.world.events == [], dry_run)
                        stage.world.verify()

    def test_a_refused_act_leaves_its_frame_usable(self) -> None:
        stage = Stage(monitors=[PRIMARY, Rect(1920, 0, 800, 600)])
        frame = replace(stage.look(), area=Rect(0, 0, 4000, 1080))
        self.refused(stage, "invalid_box", "click", frame, position=[1000, 5])
        stage.do("click", frame, position=[5, 5])

    def test_in_a_narrow_area_every_click_lands_inside_it(self) -> None:
        area = Rect(-1500, 300, 333, 222)
        stage = Stage(area, monitors=[PRIMARY, Rect(-1920, 200, 1920, 1080)])
        for place in ([0, 0], [1000, 1000], [0, 1000], [1000, 0], [333, 777]):
            stage.do("click", position=place)
            stage.clock.advance(1)
        self.assertEqual(
            [c.place for c in stage.world.clicks][:2], [Point(-1500, 300), Point(-1168, 521)]
        )
        self.assertTrue(all(area.contains(event.place) for event in stage.world.events))

    def test_a_dry_run_sends_nothing_and_says_what_it_would_have_done(self) -> None:
        for name in HANDS:
            stage = Stage(config={"dry_run": True})
            performed = stage.attempt(name)
            self.assertIn(f"Dry run: would {name.replace('_', ' ')}", performed.result)
            self.assertEqual(
                (performed.refused, performed.begun, performed.acted), ("", False, False)
            )
            self.untouched(stage)
            stage.world.verify()

    def test_a_tool_that_only_tells_something_sends_nothing(self) -> None:
        for name in set(agent.TOOLS) - set(ACTING):
            stage = Stage()
            self.assertEqual(stage.do(name), "")
            self.untouched(stage)


class Clicks(unittest.TestCase):
    def test_each_click_is_made_at_its_pixel_with_its_button(self) -> None:
        for name, button, count in (
            ("click", "left", 1),
            ("right_click", "right", 1),
            ("double_click", "left", 2),
        ):
            for swapped in (False, True):
                stage = Stage(swapped=swapped)
                stage.do(name, element_name="OK", position=[500, 250])
                self.assertEqual(strokes(stage.world), [(button, True), (button, False)] * count)
                self.assertEqual({c.place for c in stage.world.clicks}, {(960, 270)})
                stage.world.verify()

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
            for apart in range(6):
                for wait in (0.0, 0.1, 0.3):
                    clicks = self.pair("click", "click", apart, wait, limit).world.clicks
                    self.assertEqual(
                        [click.double for click in clicks], [False, False], (limit, apart, wait)
                    )
        self.assertLess(sum(self.pair("click", "click", wait=0.6).clock.sleeps), 0.1)
        self.assertLess(sum(self.pair("click", "right_click", apart=60).clock.sleeps), 0.6)

    def test_a_double_click_is_one_to_windows_after_another_click_too(self) -> None:
        for first, doubles in (("click", [False]), ("double_click", [False, True])):
            clicks = self.pair(first, "double_click").world.clicks
            self.assertEqual([click.double for click in clicks], [*doubles, False, True])

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

    def test_a_path_that_became_keys_is_refused_and_a_text_that_looks_like_one_is_not(self) -> None:
        for text in ("C:\temp\new.txt", "C:\new.txt", 'open "D:\files"', "a D:\backup"):
            with self.subTest(text), self.assertRaisesRegex(ToolError, "single backslashes"):
                Stage().attempt("type_text", text=text)
        for text in ("Note:\tdone", "Option A:\nfirst, second", "At 5:\r\nlunch", "C:\\temp"):
            with self.subTest(text):
                stage = Stage()
                self.assertEqual(stage.attempt("type_text", text=text).refused, "")

    def test_a_click_whose_release_failed_at_first_is_kept_apart_too(self) -> None:
        for number in range(1, 40):
            stage = Stage()
            frame = stage.look()
            stage.world.arm(at=number)
            if stage.attempt("click", frame).refused:
                stage.world.arm()
                stage.do("click")
                self.assertEqual(
                    [click.double for click in stage.world.clicks][-2:].count(True), 0, number
                )


class Drags(unittest.TestCase):
    def test_a_drag_goes_down_moves_in_fifteen_steps_and_is_released_at_its_end(self) -> None:
        stage = Stage(Rect(0, 0, 1001, 1001))
        stage.do("drag", start=[100, 100], end=[250, 400])
        kinds = [(event.kind, event.down) for event in stage.world.events]
        move = ("move", False)
        self.assertEqual(kinds, [move, ("button", True), *[move] * 15, ("button", False)])
        path = [event.place for event in stage.world.events if event.kind == "move"]
        self.assertEqual(path, [Point(100 + 10 * i, 100 + 20 * i) for i in range(16)])
        self.assertEqual(stage.world.events[-1].place, Point(250, 400))
        stage.world.verify()

    def test_a_drag_too_short_for_windows_is_refused_before_anything_is_pressed(self) -> None:
        for end, refused in (
            ([500, 500], True),
            ([504, 504], True),
            ([505, 500], False),
            ([500, 495], False),
            ([499, 501], True),
        ):
            stage = Stage(Rect(0, 0, 1001, 1001))
            performed = stage.attempt("drag", start=[500, 500], end=end)
            self.assertEqual(performed.refused, "invalid_box" if refused else "")
            self.assertEqual("too close together" in performed.result, refused)
            self.assertEqual(stage.world.events == [], refused)

    def test_a_drag_whose_way_leaves_the_monitors_lets_go(self) -> None:
        monitors = [PRIMARY, Rect(1920, 540, 1920, 1080)]
        stage = Stage(Rect(0, 0, 3840, 1620), monitors=monitors)
        performed = stage.attempt("drag", start=[450, 50], end=[900, 400])
        self.assertEqual(performed.refused, "invalid_box")
        self.assertTrue(performed.begun)
        stage.world.verify()


class Wheel(unittest.TestCase):
    def test_scrolling_turns_the_wheel_notch_by_notch_over_the_middle(self) -> None:
        for name, sign in (("scroll_down", -1), ("scroll_up", 1)):
            stage = Stage(config={"scroll_ticks": 3})
            stage.do(name)
            turns = [event for event in stage.world.events if event.kind == "wheel"]
            self.assertEqual([event.value for event in turns], [sign * 120] * 3)
            self.assertEqual({event.place for event in turns}, {(960, 540)})
            stage.world.verify()


class Typing(unittest.TestCase):
    def long_text(self, batch: int = 100) -> str:
        times = 12 if batch == 100 else sample(12, 2)
        return "".join(f"{i}\t{script}\n" for i, script in enumerate(SCRIPTS * times))

    def test_five_thousand_characters_of_many_scripts_arrive_exactly(self) -> None:
        self.assertGreater(len(self.long_text()), 5000)
        for most in sample((4, 5, 100), (5,)):
            text = self.long_text(most)
            stage = Stage(config={"text_batch_events": most})
            stage.do("type_text", text=text)
            self.assertEqual(stage.world.typed, text)
            self.assertLessEqual(max(stage.world.sent), most)
            stage.world.verify()

    def test_no_batch_has_more_events_and_none_cuts_a_pair(self) -> None:
        for most in (4, 6, 7, 100):
            text = self.long_text(most)
            batches = self.batches(text, most)
            self.assertEqual("".join(batches), text)
            costs = [sum(4 if ord(c) > 0xFFFF else 2 for c in batch) for batch in batches]
            self.assertLessEqual(max(costs), most)
            self.assertEqual({len(batch) for batch in batches[:-1]}, {most // 4})
        self.assertEqual(self.batches("😀" * 3, 4), ["😀"] * 3)
        self.assertEqual(self.batches("abc", 100), ["abc"])

    def batches(self, text: str, most: int) -> list[str]:
        """The pieces in which a text reaches the desktop."""
        stage, pieces = Stage(config={"text_batch_events": most}), list[str]()
        with mock.patch.object(stage.desktop, "text", pieces.append):
            stage.do("type_text", text=text)
        return pieces

    def test_batches_can_be_spaced(self) -> None:
        stage = Stage(config={"text_batch_events": 8, "char_input_delay": 0.01})
        stage.do("type_text", text="abcd")
        self.assertEqual(stage.clock.sleeps, [0.01, 0.01])

    def test_chords_go_down_in_order_and_up_in_reverse(self) -> None:
        for text, codes in {
            "ctrl+shift+escape": (0x11, 0x10, 0x1B),
            "s+ctrl": (0x11, 0x53),
            "ctrl++": (0x11, 0x6B),
            "win": (0x5B,),
            "rctrl+ralt+1": (0xA3, 0xA5, 0x31),
        }.items():
            stage = Stage(config={"blocked_keys": "", "confirm": "never"})
            stage.do("press_key", key=text)
            events = [(event.value, event.down) for event in stage.world.events]
            self.assertEqual(
                events, [(c, True) for c in codes] + [(c, False) for c in reversed(codes)], text
            )
            self.assertEqual(stage.world.chords, [codes])
            stage.world.verify()


class NothingHeld(unittest.TestCase):
    """Every call of every tool fails in turn, or the run is stopped between any two events.

    Of the calls that may fail without harm it is every sixth, and with --whole each one.
    """

    EVERY = sample(1, 25)
    CONFIG = {"drag_steps": 3, "text_batch_events": 4, "scroll_ticks": 2}

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

    def chosen(self, name: str, swapped: bool) -> list[int]:
        """The calls of an act that are to fail: all that must not, and some of the others."""
        whole, perform = self.prepared(name, swapped)
        perform()
        return [
            number
            for number, call in enumerate(whole.world.calls, 1)
            if call not in HARMLESS or number % self.EVERY == 0
        ]

    def failing(
        self, name: str, numbers: Iterable[int], **fault: Any
    ) -> Iterator[tuple[Stage, str]]:
        """One stage for each of these calls of the tool, with its outcome, until there is none.

        It is `at` or `onwards` that is given the number.
        """
        which = "onwards" if fault.pop("onwards", False) else "at"
        swapped = fault.pop("swapped", False)
        for number in numbers:
            stage, perform = self.prepared(name, swapped)
            stage.world.arm(**{which: number}, **fault)
            outcome = self.outcome(perform)
            if not stage.world.failed:
                return
            self.assertEqual(stage.world.problems, [])
            yield stage, outcome

    def test_one_failing_call_is_an_error_and_leaves_nothing_held(self) -> None:
        for name in [name for name in HANDS if name not in sample(set(), ALIKE)]:
            count = 0
            ways = ((False, 0), (True, 1), (False, 3))[
                : 3 if name in sample(("drag", "type_text"), ("drag",)) else 1
            ]
            for swapped, inserts in ways:
                numbers, fault = (
                    self.chosen(name, swapped),
                    {"swapped": swapped, "inserts": inserts},
                )
                for stage, outcome in self.failing(name, numbers, **fault):
                    first = stage.world.failed[0]
                    self.assertEqual(stage.world.held(), [], f"{name}: {first} failed")
                    self.assertEqual(stage.world.leaks(), [])
                    if first in HARMLESS:
                        continue
                    if not outcome:  # a key that went up at the second try
                        self.assertEqual(first, "SendInput", name)
                        continue
                    self.assertEqual(outcome, "windows", f"{name}: {first} failed")
                    count += 1
            self.assertGreater(count, 5, name)

    def test_a_failure_of_everything_from_some_call_on_is_an_error_and_what_is_held_is_remembered(
        self,
    ) -> None:
        for name in ("double_click", "drag", "type_text", "press_key"):
            for stage, outcome in self.failing(name, range(1, 1000, self.EVERY), onwards=True):
                if set(stage.world.failed) - NEVER_FAIL:
                    self.assertNotEqual(outcome, "")
                stage.world.arm()
                stage.actuator.release()
                self.assertEqual(
                    [what for what in stage.world.held() if not what.startswith("unit")], [], name
                )

    def test_what_fails_for_ever_or_three_times_in_a_row_leaves_nothing_held(self) -> None:
        for name in ("double_click", "drag", "type_text", "press_key"):
            whole, perform = self.prepared(name)
            perform()
            numbers = range(1, len(whole.world.calls) + 1, self.EVERY)
            faults: list[dict[str, Any]] = [{"onwards": number, "times": 3} for number in numbers]
            # But for the one function that releases.
            faults += [{"names": {called}} for called in {*whole.world.calls} - {"SendInput"}]
            for fault in faults:
                stage, perform = self.prepared(name)
                stage.world.arm(**fault)
                self.outcome(perform)
                self.assertEqual(
                    (stage.world.held(), stage.world.problems), ([], []), f"{name}: {fault}"
                )

    def test_a_bug_in_a_tool_lets_go_and_shows_itself(self) -> None:
        for pressed in (False, True):
            stage = Stage()
            press = stage.desktop.key

            def broken(name: str, down: bool, press: Any = press, pressed: bool = pressed) -> None:
                if name != "s" or pressed:
                    press(name, down)
                if down and name == "s":
                    raise ZeroDivisionError

            stage.desktop.key = broken
            with self.assertRaises(ZeroDivisionError):
                stage.attempt("press_key", key="ctrl+shift+s")
            stage.world.verify()
            self.assertEqual(len(stage.world.events), 6 if pressed else 4)

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
        for name in ("double_click", "drag", "type_text", "press_key"):
            whole, perform = self.prepared(name)
            perform()
            for k in range(1, len(whole.world.events) + 1):
                stage, perform = self.prepared(name)
                seen: list[tuple[Event, int]] = []

                def stop_after(
                    event: Event, stage: Stage = stage, k: int = k, seen: Any = seen
                ) -> None:
                    seen.append((event, len(stage.world.sent)))
                    if len(seen) == k:
                        stage.stop.set("by the person")

                stage.world.on_event = stop_after
                outcome = self.outcome(perform)
                stage.world.verify()
                call = seen[k - 1][1]  # events of the same SendInput cannot be called back
                late = [event for event, sent in seen[k:] if sent > call]
                self.assertEqual(
                    [event for event in late if event.down or event.kind not in ("key", "button")],
                    [],
                )
                if not outcome:  # it was over but for releases
                    self.assertEqual(len(seen), len(whole.world.events))
                else:
                    self.assertEqual(outcome, "stopped")

    def test_a_stop_while_waiting_in_a_drag_lets_go(self) -> None:
        for share in (0.0, 0.3, 0.9):
            stage = Stage(config={"drag_step_ms": 10, "drag_steps": 10})
            stage.clock.at(0.02 + 0.2 * share, lambda stage=stage: stage.stop.set("by the person"))
            with self.assertRaises(agent.Stopped):
                stage.do("drag")
            stage.world.verify()
            self.assertEqual(strokes(stage.world)[-1], ("left", False))

    def test_a_stop_while_two_clicks_are_kept_apart_makes_no_second_click(self) -> None:
        stage = Stage()
        stage.do("click")
        stage.clock.at(0.2, lambda: stage.stop.set("by the person"))
        with self.assertRaises(agent.Stopped):
            stage.do("click")
        self.assertEqual(len(stage.world.clicks), 1)

    def test_a_click_elsewhere_waits_for_none_before_it(self) -> None:
        stage = Stage()
        begin = stage.clock.now()
        for x in (100, 300, 500, 700):
            stage.do("click", position=[x, 500])
        self.assertLess(stage.clock.now() - begin, 0.5)
        stage.do("click", position=[700, 500])
        self.assertGreater(stage.clock.now() - begin, 0.5)


if __name__ == "__main__":
    unittest.main()
