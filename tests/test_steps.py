"""What one turn does that takes several steps: a text with its field and Enter, chords, waiting, a closer look."""

from __future__ import annotations

from typing import Any

import agent
from agent import Coordinate, Rect
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, PlainDesktop, call, role_of, user_text
from tests.seams import act

WORDS = agent.Vocabulary({name: name for name in agent.TOOLS})


class Form(PlainDesktop):
    """A plain desktop that notes what reaches it; some events bring another window to the front."""

    number_in_front = 1
    opens_at = ""  # the name of an event that brings another window to the front

    def foreground(self) -> agent.Window:
        title = f"Form {self.number_in_front}"
        return agent.Window(self.number_in_front, title, "notepad.exe", self.screen())

    def button(self, name: str, down: bool) -> None:
        super().button(name, down)
        self.note("click", down)

    def key(self, name: str, down: bool) -> None:
        super().key(name, down)
        self.note(name, down)

    def note(self, name: str, down: bool) -> None:
        if name == self.opens_at and not down:
            self.number_in_front += 1

    def done(self) -> list[str]:
        """Clicks, texts and keys in their order."""
        names = []
        for kind, *rest in self.inputs:
            if kind == "text":
                names.append(str(rest[0]))
            elif kind in ("key", "button") and rest[1]:
                names.append("click" if kind == "button" else str(rest[0]))
        return names


BAR = agent.Window(8, "", "explorer.exe", class_name="Shell_TrayWnd")
RUN = agent.Window(9, "Run", "explorer.exe", Rect(0, 0, 64, 36), class_name="#32770", owner=BAR)
FIELD = {"position": [1, 1]}
# A tool and its arguments, the event at which another window opens, settings; what is done, how it is refused, and
# words of the result.
STEPS: list[tuple[str, dict[str, Any], str, dict[str, Any], list[str], str, str]] = [
    ("type_text", {}, "", {}, ["abc"], "", "Typed: abc"),
    ("type_text", FIELD, "", {}, ["click", "abc"], "", "Clicked what Windows does not name, meant: text field; Typed: abc"),
    ("type_text", {"clear": True}, "", {}, ["ctrl", "a", "abc"], "", "Pressed key: ctrl+a; Typed: abc"),
    ("type_text", {"submit": True}, "", {}, ["abc", "enter"], "", "Typed: abc; Pressed key: enter"),
    ("type_text", {"submit": False, "clear": False}, "", {}, ["abc"], "", "Typed: abc"),
    ("type_text", {**FIELD, "clear": True, "submit": True}, "", {}, ["click", "ctrl", "a", "abc", "enter"], "", ""),
    ("type_text", {"submit": True}, "", {"dry_run": True}, [], "", "would press key"),
    ("type_text", {**FIELD, "submit": True}, "click", {}, ["click"], "another_window", 'the rest was not done, since another window came to the front: "Form 2"'),
    ("type_text", {"submit": True}, "enter", {}, ["abc", "enter"], "", ""),  # with the last step it is no failure
    ("press_key", {"key": "ctrl+a", "then": ["delete", "tab", "enter"]}, "", {}, ["ctrl", "a", "delete", "tab", "enter"], "", ""),
    ("press_key", {"key": "tab", "then": ["alt+f4", "enter"]}, "", {"confirm": "risky"}, ["tab"], "not_allowed", "Failed half-way"),
    ("press_key", {"key": "a", "then": ["win+l"]}, "", {}, ["a"], "blocked_key", "Failed half-way"),
]  # fmt: skip


class SeveralSteps(EngineCase):
    def perform(self, tool: str, front: Any = None, opens_at: str = "", **settings: Any) -> Any:
        arguments = settings.pop("arguments")
        if tool == "type_text":
            arguments = {"text": "abc", **arguments}
        self.made = self.trial(lambda request: PLAN, **settings)
        self.desktop = Form(self.made.clock)
        self.desktop.opens_at = opens_at
        if front:
            self.desktop.foreground = lambda: front  # type: ignore[method-assign]
        self.made.desktop = self.desktop
        return self.made.perform(act(tool, **arguments), self.made.look(1), 1)

    def test_each_step_is_done_until_one_is_refused_or_another_window_is_in_front(self) -> None:
        for tool, arguments, opens_at, settings, done, refused, words in STEPS:
            with self.subTest(tool=tool, opens_at=opens_at, **arguments):
                deed = self.perform(tool, None, opens_at, arguments=arguments, **settings)
                self.assertEqual((self.desktop.done(), deed.refused), (done, refused))
                self.assertIn(words, deed.result)

    def test_enter_behind_a_text_in_the_run_dialog_is_asked_about_by_that_text(self) -> None:
        for typed, refused in (("notepad", ""), ("format c:", "not_allowed")):
            given = {"text": typed, "clear": True, "submit": True}
            deed = self.perform("type_text", RUN, arguments=given)
            self.assertEqual((deed.refused, "enter" in self.desktop.done()), (refused, not refused))

    def test_words_for_true_and_false_are_read_and_nothing_else(self) -> None:
        for said, meant in ((True, True), ("true", True), ("False", False)):
            read = agent.read_call(
                agent.Reply(call("type_text", text="a", submit=said), "stop"), WORDS
            )
            self.assertEqual(read.call.arguments["submit"], meant)
        for wrong in (
            call("type_text", text="a", submit="yes"),
            call("press_key", key="a", then=["b", "c", "d", "e"]),
            *(call("wait", seconds=seconds) for seconds in (0, 61, "long")),
        ):
            with self.assertRaises(agent.ReplyError):
                agent.read_call(agent.Reply(wrong, "stop"), WORDS)


class Waiting(EngineCase):
    def waited(self, seconds: int, changes_after: float | None) -> tuple[float, str]:
        """How long it waited, and what the model is told."""
        wait = call("wait", seconds=seconds)
        trial = self.trial(lambda r: PLAN if role_of(r) == "planner" else wait, max_steps=1)
        if changes_after is not None:
            trial.clock.at(changes_after, lambda: trial.inputs.append(("other",)))
        began = trial.clock.now()
        trial.run()
        self.assertEqual(trial.state.stalled, 0)
        return trial.clock.now() - began, trial.state.memory.active_history[-1].result

    def test_it_waits_as_long_as_it_was_told_to_or_until_a_change_is_at_rest(self) -> None:
        seconds, said = self.waited(20, None)
        self.assertAlmostEqual(seconds, 20, delta=1)
        self.assertEqual(said, "Waited 20 s; the screen did not change")
        seconds, said = self.waited(60, 5)
        self.assertLess(seconds, 7)
        self.assertRegex(said, "^Waited [56] s; the screen changed$")


class Targets(PlainDesktop):
    """A grey screen with one small white square."""

    size = Rect(0, 0, 1920, 1080)
    target = Rect(0, 0, 1, 1)

    def screen(self) -> Rect:
        return self.size

    def glance(self, area: Rect, width: int, height: int) -> bytes:
        canvas = agent.Canvas(width, height, b"\x80\x80\x80\x00" * (width * height))
        canvas.fill(self.target.scaled(area, canvas.area), 0xFFFFFF)
        return bytes(canvas.pixels)


class ACloserLook(EngineCase):
    base = FEWER_REQUESTS

    def test_once_a_secret_was_typed_the_screen_stays_whole_and_the_model_is_told(self) -> None:
        typed = call("type_text_input", text="{{PIN}}")
        click = call("click_screen_element", element_name="it", position=[0, 1000])
        replies = iter((typed, call("zoom", position=[750, 250]), click))
        trial = self.trial(
            lambda request: PLAN if role_of(request) == "planner" else next(replies),
            max_steps=3,
            confirm="never",
        )
        trial.hidden = agent.Secrets({"PIN": "4711-0815"})
        trial.run()
        last = user_text([r for r in trial.requests if role_of(r) == "executor"][2])
        self.assertIn("the screen is shown whole", last)
        self.assertNotIn("CLOSER LOOK", last)
        trial = self.trial(lambda request: PLAN)
        trial.blank()
        trial.zoom(agent.Point(9, 9))
        self.assertIsNone(trial.look(1).frame.whole)

    def test_each_pixel_of_a_part_can_be_reached_and_none_beside_it(self) -> None:
        area = Rect(-1920, 40, 1920, 1079)
        trial = self.trial(lambda request: PLAN, area="all")
        trial.desktop = Targets(trial.clock)
        trial.desktop.size = area
        for point in ((-1920, 40), (-1, 1118), (-960, 500), (-1915, 1100)):
            trial.zoom(agent.Point(*point))
            part = trial.look().frame.area
            self.assertEqual((part.width, part.height), (960, 539))
            self.assertEqual(part.intersection(area), part)
            self.assertTrue(part.contains(agent.Point(*point)))
            corners = [agent.to_point(Coordinate(n, n), part) for n in (0, 1000)]
            self.assertEqual(corners, [part[:2], (part.right - 1, part.bottom - 1)])

    def test_the_effect_of_an_act_is_seen_wherever_it_shows(self) -> None:
        trial = self.trial(lambda request: PLAN, area="0,0,640,360")
        desktop = trial.desktop = Targets(trial.clock)
        desktop.target = Rect(20, 20, 40, 40)
        desktop.button = lambda name, down: setattr(desktop, "target", Rect(20, 90, 40, 40))
        trial.zoom(agent.Point(600, 300))
        look = trial.look(1)
        self.assertFalse(look.frame.area.overlaps(desktop.target))
        clicked = act("click", element_name="it", position=[500, 500])
        self.assertTrue(trial.perform(clicked, look, 1).changed)

    def test_an_act_on_a_picture_of_another_size_changed_what_can_be_seen_to_change(self) -> None:
        """A way's pictures have the size that they had then, whatever it is for the model now."""

        class Moved(Targets):
            top = 20

            def button(self, name: str, down: bool) -> None:
                self.target = Rect(20, self.top, 40, 40)

        for size in (agent.Size(320, 180), agent.Size(1000, 562)):
            for top, moves in ((20, False), (90, True)):
                trial = self.trial(lambda request: PLAN, area="0,0,640,360")
                trial.desktop = Moved(trial.clock)
                trial.desktop.target = Rect(20, 20, 40, 40)
                trial.desktop.top = top
                trial.engine.eyes.zoom(None, size)
                look = trial.look(1)
                self.assertEqual(look.frame.rect[2:], size)
                deed = trial.perform(act("click", element_name="it", position=[500, 500]), look, 1)
                self.assertEqual((deed.changed, deed.new), (moves, moves), size)


class WhereTheMouseIs(EngineCase):
    def test_what_is_done_there_neither_moves_the_mouse_nor_aims_at_its_place(self) -> None:
        for name, arguments in (("scroll", {"ticks": -1}), ("hscroll", {"ticks": 1})):
            trial = self.trial(lambda request: PLAN, "native", confirm="never")
            trial.desktop.place = agent.Point(0, 0)  # from where a person may throw it back
            trial.perform(act(name, **arguments), trial.look())
            self.assertNotIn("move", str(trial.desktop.inputs), name)
            self.assertIsNone(trial.engine.actuator.aim, name)
