"""What counts as progress, what follows from the lack of it, and that recovery destroys nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import agent
from tests.samples import for_the_gate
from tests.scripted import PLAN, PROOF, EngineCase, PlainDesktop, call, role_of, text, user_text
from tests.test_chat import LOOK
from tests.test_story import told

Json = dict[str, Any]
SIZE = {"screen_capture_w": 320, "screen_capture_h": 180}


class DrawnDesktop(PlainDesktop):
    """A screen with a clock that goes on, a button, and a Run dialog behind win+r with tiny letters."""

    SCREEN = agent.Rect(0, 0, 320, 180)

    def __init__(self, clock: agent.Clock) -> None:
        super().__init__(clock)
        self.dialog: str | None = None  # what stands in it, None while it is closed
        self.pressed = 0  # how often the button was clicked
        self.works_from = 1  # the first click on the button that has an effect
        self.menu = False

    def screen(self) -> agent.Rect:
        return self.SCREEN

    def foreground(self) -> agent.Window | None:
        if self.dialog is not None:
            return agent.Window(2, "Open", "explorer.exe", agent.Rect(20, 100, 150, 60))
        return agent.Window(1, self.title, "plain.exe", self.SCREEN)

    def boxes(self) -> list[tuple[int, int, int, int]]:
        """What is drawn: left, top, width, height."""
        minute = int(self.clock.now() / 60)
        drawn = [(280 + minute % 12 * 3, 170, 3, 7), (10, 10, 30, 12)]
        if self.pressed >= self.works_from:
            drawn.append((100, 10, 4, 4))
        if self.menu:
            drawn.append((200, 40, 60, 80))
        if self.dialog is not None:
            drawn += [(20, 100, 150, 2), (20, 158, 150, 2)]
            drawn += [(30 + n * 5, 120, 3, 7) for n in range(len(self.dialog))]
        return drawn

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        canvas = agent.Canvas(width, height, b"\x80\x80\x80\x00" * (width * height))
        for box in self.boxes():
            canvas.fill(agent.Rect(*box).scaled(self.SCREEN, canvas.area), 0xFFFFFF)
        return bytes(canvas.pixels)

    def key(self, name: str, down: bool) -> None:
        super().key(name, down)
        if self.inputs[-2:] == [("key", "win", True), ("key", "r", True)]:
            self.dialog = ""
        elif self.inputs[-2:] == [("key", "escape", True), ("key", "escape", False)]:
            self.dialog = None
            self.menu = False

    def text(self, written: str) -> None:
        super().text(written)
        if self.dialog is not None:
            self.dialog += written

    def button(self, name: str, down: bool) -> None:
        super().button(name, down)
        if down and agent.Rect(10, 10, 30, 12).contains(self.place):
            self.pressed += 1
        if down and agent.Rect(300, 0, 20, 20).contains(self.place):
            self.menu = not self.menu


OPEN_RUN = call("press_keyboard_key", key="win+r")
TYPE = call("type_text_input", text="notepad")
BUTTON = call("click_screen_element", element_name="Button", position=[60, 80])
MENU = call("click_screen_element", element_name="Menu", position=[970, 50])
NOWHERE = call("click_screen_element", element_name="OK", position=[600, 900])


class ProgressCase(EngineCase):
    """Runs of an executor that replies so, on a drawn desktop."""

    def drawn(self, decide: Any, profile: str = "planner", **settings: Any) -> None:
        self.made = self.trial(decide, profile, **{**SIZE, "confirm": "never", **settings})
        desktop = DrawnDesktop(self.made.clock)
        self.desktop = desktop
        self.made.desktop = desktop

    def play(self, *replies: Json, **settings: Any) -> agent.Outcome:
        """A planner run; after the last reply it is repeated for ever."""
        rest = itertools.chain(replies, itertools.repeat(replies[-1]))
        self.drawn(lambda r: PLAN if role_of(r) == "planner" else next(rest), **settings)
        return self.made.run()

    def intents(self) -> list[str]:
        return [record["tool"] for record in self.made.records("intent")]


class Closer(EngineCase):
    """Pictures that are the model's alone."""

    def test_recovery_keys_and_the_last_look_see_the_whole_screen(self) -> None:
        says = {"planner": PLAN, "executor": NOWHERE, "verifier": text("1 NO: no")}
        settings = {"second_opinion": False, "stall_stop": 4}
        for name, most in (("_recovery", 9), ("_end", 2)):
            trial = self.trial(lambda r: says[role_of(r)], max_steps=most, **settings)
            trial.desktop.dead = True
            trial.run()
            looks = [
                one for one in trial.records("look") if one["screenshot"].endswith(f"{name}.png")
            ]
            self.assertEqual([one["part"] for one in looks], [[0, 0, 0, 0]], name)


class Progress(ProgressCase):
    def test_one_typed_letter_is_progress(self) -> None:
        self.play(OPEN_RUN, call("type_text_input", text="n"), max_steps=10)
        self.assertEqual((self.made.state.stalled, self.desktop.dialog), (0, "n" * 9))

    def test_an_act_that_was_tried_in_vain_and_works_now_is_progress(self) -> None:
        self.drawn(lambda r: PLAN if role_of(r) == "planner" else BUTTON, max_steps=6)
        self.desktop.works_from = 4
        self.made.run()
        stalls = [entry.get("stalled", 0) for entry in self.made.records("state")]
        self.assertEqual(stalls[:6], [0, 1, 2, 2, 3, 0])  # one was objected to

    def test_opening_and_closing_the_same_menu_is_none_though_the_clock_goes_on(self) -> None:
        outcome = self.play(MENU, max_steps=40, turn_delay=25, enable_loop_recovery=False)
        self.assertEqual(outcome.kind, "stuck")
        self.assertLess(self.made.state.turn, 20)

    def test_each_way_back_to_a_known_screen_costs_no_patience_once(self) -> None:
        close = call("press_keyboard_key", key="escape")
        beside = call("click_screen_element", element_name="Menu", position=[975, 60])
        self.play(MENU, close, beside, close, MENU, close, max_steps=6)
        stalls = [entry.get("stalled", 0) for entry in self.made.records("state")]
        self.assertEqual(stalls[-5:], [0, 0, 1, 2, 3])


class Ticked(DrawnDesktop):
    """A checkbox that each click on it switches, and a button beside it whose click changes something elsewhere."""

    ticked = False

    def boxes(self) -> list[tuple[int, int, int, int]]:
        return [*super().boxes(), *([(156, 86, 8, 8)] if self.ticked else [])]

    def button(self, name: str, down: bool) -> None:
        super().button(name, down)
        if down and agent.Rect(150, 80, 20, 20).contains(self.place):
            self.ticked = not self.ticked


class Rows(Ticked):
    """The same with what tells further left in its row."""

    def boxes(self) -> list[tuple[int, int, int, int]]:
        return [*DrawnDesktop.boxes(self), *([(100, 86, 8, 8)] if self.ticked else [])]


class Repeats(ProgressCase):
    """Small models say their last call once more: what it did is not undone unless they insist."""

    TICK = call("click_screen_element", element_name="Read only", position=[500, 500])
    shown = Ticked

    def clicks(self, *replies: Json, profile: str = "planner", **settings: Any) -> int:
        """How often these replies press the button of the mouse."""
        rest = iter(replies)

        def decide(request: Json) -> Json:
            return PLAN if role_of(request) == "planner" else next(rest, text("Hm."))

        self.drawn(decide, profile, **settings)
        self.desktop = self.shown(self.made.clock)
        self.made.desktop = self.desktop
        self.made.run()
        return self.made.inputs.count(("button", "left", True))

    def test_a_click_is_not_done_again_where_it_changed_what_is_there_unless_the_model_insists(
        self,
    ) -> None:
        for number, wanted in ((1, 1), (2, 1), (3, 2), (4, 3), (5, 3)):
            self.assertEqual(self.clicks(*[self.TICK] * number, max_steps=number), wanted, number)
        self.assertIn("You have just done this", str(self.made.requests))
        self.shown = Rows
        self.assertEqual(self.clicks(*[self.TICK] * 2, max_steps=2), 1)
        self.assertEqual(self.clicks(*[self.TICK] * 2, max_steps=3, described=True), 2)

    def test_a_click_that_was_aimed_twice_is_told_from_others_by_how_it_was_aimed_first(
        self,
    ) -> None:
        self.shown = Rows
        again = call("click_screen_element", element_name="Read only", position=[490, 510])
        replies = [self.TICK, again, self.TICK]
        self.assertEqual(self.clicks(*replies, max_steps=3, closer_look=True), 1)
        self.assertIn("You have just done this", str(self.made.requests))

    def test_it_is_where_it_changed_something_else_or_another_act_came_between(self) -> None:
        self.assertEqual(self.clicks(*[MENU] * 3, max_steps=3), 3)
        self.assertEqual(self.clicks(self.TICK, OPEN_RUN, self.TICK, max_steps=3), 2)

    def test_so_it_is_in_a_story_and_where_the_mouse_is(self) -> None:
        click = {"name": "click", "x1": 500, "y1": 500, "label": "Read only"}
        said = told("On.", [click])
        self.assertEqual(self.clicks(*[said] * 3, profile="story", max_steps=4), 2)
        move = call("move_mouse", x=500, y=500)
        here = call("click_mouse")
        self.assertEqual(self.clicks(move, here, here, profile="pointer", max_steps=3), 1)

    def test_a_pause_of_the_person_is_no_turn_without_progress_of_the_model(self) -> None:
        for paused, outcome in ((True, "max_steps"), (False, "stuck")):
            says = {"planner": PLAN, "executor": NOWHERE, "verifier": text("1 NO: no")}
            self.drawn(lambda r, says=says: says[role_of(r)], max_steps=5, stall_stop=2)
            if paused:
                self.made.engine.actuator.wait_for_person = lambda seen_at: True
            self.assertEqual(self.made.run().kind, outcome)

    def test_what_was_insisted_on_is_done_again_without_being_asked(self) -> None:
        # Such as the button of a menu: open, closed by the same said twice, open again.
        self.assertEqual(self.clicks(*[self.TICK] * 4, max_steps=4), 3)

    @for_the_gate
    def test_the_third_of_an_act_that_changed_nothing_is_objected_to_before_it_is_done(
        self,
    ) -> None:
        key = call("press_keyboard_key", key="f9")

        def done() -> int:
            return sum(not record["refused"] for record in self.made.records("result"))

        for act in (NOWHERE, key):
            for number, wanted in ((2, 2), (3, 2), (4, 3), (5, 4), (6, 4), (7, 5)):
                self.clicks(
                    *[act] * number, max_steps=number, stall_stop=20, enable_loop_recovery=False
                )
                self.assertEqual(done(), wanted, number)
            self.assertIn("That was done 2 times and changed nothing", str(self.made.records()))
            self.clicks(act, act, BUTTON, act, max_steps=4)  # what had an effect lies between
            self.assertEqual(done(), 4)
            self.clicks(*[act] * 3, max_steps=4, described=True)
            self.assertEqual(done(), 3)

    def test_looking_closer_a_third_time_without_an_act_shows_the_whole_screen_and_says_why(
        self,
    ) -> None:
        def look(across: int) -> Json:
            return call("zoom", position=[across, 500])

        self.clicks(*map(look, (100, 400, 600, 900)), max_steps=4, stall_stop=20)
        told = [entry["result"] for entry in self.made.records("action")]
        self.assertEqual(told[:2], ["Zoomed in for the next action"] * 2)
        for result in told[2:4]:
            self.assertIn("you looked closer twice and did nothing", result)
        last = [user_text(r) for r in self.made.requests if role_of(r) == "executor"][3]
        self.assertNotIn("CLOSER LOOK", last)
        self.assertEqual([entry["stalled"] for entry in self.made.records("state")][-1], 2)
        # An act lies between, even one without effect.
        for act in (NOWHERE, BUTTON):
            self.clicks(look(100), look(400), act, look(600), max_steps=5)
            self.assertNotIn("Not zoomed", str(self.made.records()))

    def stalls(self, profile: str, *clicks: Json, **settings: Any) -> list[int]:
        """How many turns without progress were counted after each act."""
        self.clicks(*clicks, profile=profile, max_steps=30, stall_stop=4, **settings)
        return [entry.get("stalled", 0) for entry in self.made.records("state")][1:]

    def test_an_objection_costs_no_patience_but_a_second_one_in_a_row_does(self) -> None:
        def story(across: int) -> Json:
            return told("On.", [{"name": "click", "x1": across, "y1": 500, "label": "A"}])

        def chat(across: int) -> Json:
            return call("click_element", label="A", box=[across, 500])

        for profile, click, first in (("story", story, []), ("chat", chat, [LOOK])):
            with self.subTest(profile):
                clicks = [*first, *map(click, (500, 500, 900))]
                self.assertEqual(self.stalls(profile, *clicks)[:3], [0, 0, 1])
                # A closer look finds none of these.
                never = [reply for x in range(100, 900, 100) for reply in (click(x), text("Hm."))]
                many = self.stalls(profile, *first, *never, closer_look=True)
                self.assertEqual(
                    many, [1, 2, 3]
                )  # the first objection is none, the fifth turn is stuck


class Fields(DrawnDesktop):
    """Fields in which nothing but a caret tells which one was clicked, and it goes out meanwhile."""

    clicked = (0, -9.0)  # across, and when

    def boxes(self) -> list[tuple[int, int, int, int]]:
        across, when = self.clicked
        shown = self.clock.now() - when < 3
        return [*super().boxes(), *([(across, 60, 2, 12)] if shown else [])]

    def button(self, name: str, down: bool) -> None:
        super().button(name, down)
        self.clicked = (self.place.x, self.clock.now())


class Carets(ProgressCase):
    def test_one_in_another_field_is_progress_and_in_the_same_it_is_none(self) -> None:
        for moves, described, kind in (
            (True, False, "max_steps"),
            (False, False, "stuck"),
            (True, True, "max_steps"),
        ):
            acts = itertools.count()

            def decide(request: Json, acts: Any = acts, moves: bool = moves) -> Json:
                if role_of(request) == "planner":
                    return PLAN
                across = 100 + 40 * next(acts) * moves
                return call("click_screen_element", element_name="Field", position=[across, 500])

            settings = {"described": described, "stall_stop": 4, "enable_loop_recovery": False}
            self.drawn(decide, max_steps=20, turn_delay=5, **settings)
            self.desktop = Fields(self.made.clock)
            self.made.desktop = self.desktop
            with self.subTest(moves=moves, described=described):
                self.assertEqual(self.made.run().kind, kind)
                changed = [record.get("changed") for record in self.made.records("result")]
                self.assertEqual(set(changed) - {None}, {False})  # None: it was objected to


class Recovery(ProgressCase):
    def test_they_follow_acts_that_changed_nothing_and_never_reach_typed_text(self) -> None:
        for acts, pressed in (
            ((NOWHERE,), 1),
            ((MENU,), 0),  # which opens and closes again
            ((OPEN_RUN, NOWHERE), 1),
            ((OPEN_RUN, TYPE, NOWHERE), 0),
        ):
            with self.subTest(str(acts)):
                self.assertEqual(self.play(*acts, stall_stop=5, max_steps=60).kind, "stuck")
                self.assertEqual(self.intents().count("recover"), pressed)
                self.assertEqual(self.desktop.dialog, "notepad" if TYPE in acts else None)


class Waiting(ProgressCase):
    WAIT = told("I wait.", [{"name": "wait"}])

    def test_ten_waits_of_a_story_are_progress_and_no_more_minutes_than_allowed(self) -> None:
        self.drawn(lambda r: self.WAIT, "story", stall_stop=10, turn_delay=4)
        self.desktop.dead = True
        self.assertEqual(self.made.run().kind, "stuck")
        self.assertTrue(600 <= self.made.clock.now() - 1000 < 660)

    def test_watching_what_goes_on_is_progress_up_to_its_minutes(self) -> None:
        given = {"goal_identifier": "g", "completion_status": "IN_PROGRESS", "evidence": ""}
        settings = {"turn_delay": 20, "minutes_most": 0, "max_steps": 500}
        for profile, look in (("planner", call("report_goal_status", **given)), ("chat", LOOK)):
            self.drawn(
                lambda r, a=look: PLAN if role_of(r) == "planner" else a, profile, **settings
            )
            self.assertEqual(self.made.run().kind, "stuck")
            minutes = (self.made.clock.now() - 1000) / 60
            self.assertTrue(10 <= minutes <= 16, (profile, minutes))


class Limits(ProgressCase):
    def test_a_run_that_ends_stuck_says_to_what_most_turns_were_lost(self) -> None:
        settings = {"stall_stop": 4, "max_steps": 99, "enable_loop_recovery": False}
        places = itertools.count(100, 50)

        def elsewhere() -> Json:
            place = [next(places), 500]
            return call("click_screen_element", element_name="Spot", position=place)

        for act, why in (
            (elsewhere, "What was done changed nothing."),
            (lambda: call("open_app", name="Nowhere"), "Not done: .*Nowhere"),
            (lambda: call("report_mission_complete", evidence=PROOF), "Completion not confirmed"),
        ):

            def decide(request: Json, act: Callable[[], Json] = act) -> Json:
                role = role_of(request)
                if role == "verifier":
                    return text("1 NO: it is not")
                return PLAN if role == "planner" else act()

            self.drawn(decide, **settings)
            self.desktop.dead = True
            ended = self.made.run()
            self.assertEqual(ended.kind, "stuck", ended.text)
            self.assertRegex(ended.text, f"^4 turns in a row made no progress. Most often: {why}")

    def test_each_act_refused_for_another_window_is_a_turn_without_progress(self) -> None:
        self.drawn(lambda r: PLAN if role_of(r) == "planner" else TYPE, stall_stop=4, max_steps=99)
        fronts = itertools.count(1)
        self.desktop.foreground = lambda: agent.Window(  # type: ignore[method-assign]
            next(fronts), "Popup", "plain.exe", self.desktop.SCREEN
        )
        ended = self.made.run()
        self.assertEqual(ended.kind, "stuck")
        self.assertIn("Most often: Not done: Another window", ended.text)
        self.assertEqual(self.intents(), ["type_text"] * 4)
