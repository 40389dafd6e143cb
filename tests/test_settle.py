"""What an act changed, when the screen is at rest after it, and screenshots written beside the turn."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import agent
from agent import Canvas, Rect
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, PlainDesktop, call, role_of

GREY = 0x808080


def picture(*parts: tuple[Rect, int], width: int = 320, height: int = 180) -> bytes:
    canvas = Canvas(width, height)
    canvas.fill(Rect(0, 0, width, height), 0xF0F0F0)
    for rect, colour in parts:
        canvas.fill(rect, colour)
    return bytes(canvas.pixels)


CARET = (Rect(100, 50, 2, 16), 0x000000)


# After an act: to the first look, between two, and to the first change.
FLOOR_MS, INTERVAL_MS, PATIENCE_MS = 50, 30, 250


class Regions(EngineCase):
    def test_a_region_is_the_box_of_all_pixels_that_differ_but_for_one_caret(self) -> None:
        there = (Rect(200, 100, 20, 30), GREY)
        no_carets = [Rect(100, 50, *size) for size in ((4, 4), (6, 16), (2, 60))]
        rows = [(picture(), picture((box, GREY)), box) for box in no_carets]
        rows += [
            (picture(), picture((Rect(10, 20, 5, 5), GREY), there), Rect(10, 20, 210, 110)),
            (picture(), picture(), None),
            (picture(), picture(CARET), None),
            (picture(CARET), picture(there), there[0]),
            (picture(), picture(CARET, (Rect(30, 100, 2, 16), 0)), Rect(30, 50, 72, 66)),
        ]
        for before, after, wanted in rows:
            self.assertEqual(agent.difference(before, after, 320), wanted)


class Settling(EngineCase):
    """The desktop shows, at each virtual time after the act, what `shows` says."""

    base = FEWER_REQUESTS

    def act(self, shows, **settings):
        trial = self.trial(lambda r: PLAN, **settings)
        desktop, clock = trial.desktop, trial.clock
        began = [None]

        def glance(_area: Rect, width: int, height: int) -> bytes:
            passed = -1.0 if began[0] is None else (clock.now() - began[0]) * 1000
            canvas = Canvas(width, height)
            canvas.fill(Rect(0, 0, width, height), 0xF0F0F0)
            canvas.fill(Rect(0, 0, width // 2, height // 2), shows(passed))
            return bytes(canvas.pixels)

        desktop.glance = glance
        look = trial.look(1)
        performed = trial.engine.actuator.perform

        def perform(act, seen):
            result = performed(act, seen)
            began[0] = clock.now()
            return result

        trial.engine.actuator.perform = perform
        chosen = trial.profile.vocabulary.parse(
            agent.ToolCall("press_keyboard_key", {"key": "a", "reasoning": ""})
        )
        heard: list[agent.Item] = []
        trial.engine.logger.listeners.append(heard.append)
        changed = trial.perform(chosen, look, 1).changed
        screens = [item.screen for item in heard if isinstance(item, agent.Shown)]
        (settled,) = (screen for screen in screens if isinstance(screen, agent.Frame))
        return changed, (settled.taken_at - began[0]) * 1000

    def test_the_frame_is_taken_only_when_the_screen_stays_as_it_is(self) -> None:
        for rest in (10, 70, 130, 333, 900, 1500):
            changed, taken = self.act(
                lambda ms, rest=rest: 0 if ms < 0 else min(int(ms), rest) * 1000 + 1
            )
            self.assertTrue(changed)
            self.assertGreaterEqual(taken, rest)
            self.assertLessEqual(taken, rest + 5 * INTERVAL_MS + FLOOR_MS)

    def test_neither_a_pause_is_taken_for_rest_nor_is_anything_waited_for_in_vain(self) -> None:
        """Rows: what is shown, whether it is a change, from when to when the frame is taken."""

        def stripes(ms: float) -> int:  # one every 30 ms but for one pause, until 600
            return 0 if ms < 0 else 1 + int(min(ms, 600) if not 200 <= ms < 280 else 200) // 30

        looks, cap = 2 * INTERVAL_MS, agent.Config().settle_cap_ms
        for shows, changes, least, most in (
            (stripes, True, 600, cap),
            (lambda ms: int(ms >= 0), True, 0, FLOOR_MS + looks),
            (lambda ms: 0x101010, False, PATIENCE_MS, PATIENCE_MS + looks),
            (lambda ms: 0x101010 if ms < 200 else 0x202020, True, 200, cap),
            (lambda ms: 0 if ms < 0 else int(ms) + 1, True, cap, cap + looks),
        ):
            changed, taken = self.act(shows)
            self.assertEqual(changed, changes)
            self.assertTrue(least <= taken <= most, (least, taken, most))
        self.act(lambda ms: 0x101010, settle_cap_ms=0)  # a cap below the patience: it ends, too

    def test_the_programs_own_console_that_never_rests_is_neither_unrest_nor_a_change(self) -> None:
        console = agent.Window(7, "agent", "python.exe", Rect(0, 0, 9, 9), own=True)
        with mock.patch.object(self.desktop_type, "window_at", lambda *_: console):
            _, taken = self.act(lambda ms: max(0, int(ms // 30)))
        self.assertTrue(PATIENCE_MS <= taken < PATIENCE_MS + 2 * INTERVAL_MS)


class Screenshots(EngineCase):
    base = FEWER_REQUESTS

    def test_a_screenshot_that_cannot_be_written_ends_the_run_before_the_next_act(self) -> None:
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else call("press_keyboard_key", key="a")
        )
        full = OSError(28, "No space left on device")
        with mock.patch.object(Path, "write_bytes", side_effect=full):
            self.assertRaisesRegex(agent.AgentError, "No space left", trial.run)
        self.assertEqual(trial.inputs, [])
        trial.close()  # says nothing more


class DarkAtFirst(PlainDesktop):
    """A screen of one colour for its first three captures, as that of a minimised remote session."""

    def glance(self, area: Rect, width: int, height: int) -> bytes:
        if self.number <= 3:
            return picture(width=width, height=height)
        return super().glance(area, width, height)


class Unseen(EngineCase):
    def test_a_blank_screen_is_waited_for_and_no_model_sees_it(self) -> None:
        self.desktop_type = DarkAtFirst
        engine, state = self.engine(lambda r: PLAN, max_steps=1)
        agent.run_agent(engine, state)
        self.assertEqual(
            self.lines[0],
            "paused: The screen shows one single colour;"
            " restore the remote session or wake the display.",
        )
        for look in self.records(engine, "look"):
            png = (engine.logger.folder / look["screenshot"]).read_bytes()
            self.assertGreater(len(set(agent.png_to_rgb(png)[0])), 1, look)
