"""The demo: a drawn desktop that behaves like one, a model that finds its way by the pixels alone, and its page."""

from __future__ import annotations

import unittest
from dataclasses import replace
from unittest import mock

import agent
from agent import DEMO_SIGNS, DemoDesktop, DemoState, Point
from tests.fakes import VirtualClock
from tests.samples import for_the_gate, sample, some
from tests.seams import PersonsClock, clock_of_main, person_at_main, windows_of_main
from tests.servers import NOBODY
from tests.test_main import HASTY, TASK, CommandLineCase

NOTE = "Hello from agent.py"
OPENED = DemoState(opened=True)
WRITTEN = DemoState(opened=True, focus=True, text=NOTE)


def make_desktop(state: DemoState | None = None) -> DemoDesktop:
    desktop = DemoDesktop(VirtualClock())
    desktop.state = state or desktop.state
    return desktop


class Desktop(unittest.TestCase):
    def test_a_click_counts_where_it_began_and_a_note_changed_after_saving_is_not_saved(
        self,
    ) -> None:
        desktop, elsewhere = make_desktop(), Point(600, 300)
        icon = agent.to_point(agent.Coordinate(500, 500), OPENED.places()["Notes icon"].rect)
        for pressed, released in ((icon, elsewhere), (elsewhere, icon), (icon, icon)):
            self.assertFalse(desktop.state.opened)
            for point, down in ((pressed, True), (released, False)):
                desktop.move(point)
                desktop.button("left", down)
        self.assertTrue(desktop.state.opened)
        saved = replace(WRITTEN, saved_text=NOTE)
        self.assertEqual((saved.clean, replace(saved, text="older").clean), (True, False))

    def test_the_page_is_selected_by_ctrl_a_alone_and_emptied_by_delete_or_backspace_then(
        self,
    ) -> None:
        for chords, text in (
            ("delete", NOTE),
            ("backspace", NOTE),
            ("a delete", NOTE),
            ("shift+a backspace", NOTE),
            ("ctrl+shift+a delete", NOTE),
            ("ctrl a delete", NOTE),
            ("ctrl+a right delete", NOTE),
            ("ctrl+a delete", ""),
            ("ctrl+a backspace", ""),
            ("ctrl+a ctrl backspace", ""),
        ):
            desktop = make_desktop(WRITTEN)
            for chord in chords.split():
                keys = chord.split("+")
                for key in keys:
                    desktop.key(key, True)
                for key in reversed(keys):
                    desktop.key(key, False)
            self.assertEqual(desktop.state.text, text, chords)

    def test_a_letter_alone_selects_nothing_that_a_text_would_replace(self) -> None:
        for keys, text in (
            (("a",), f"{NOTE}!"),
            (("shift", "a"), f"{NOTE}!"),
            (("ctrl", "a"), "!"),
        ):
            desktop = make_desktop(WRITTEN)
            for key in keys:
                desktop.key(key, True)
            desktop.text("!")
            self.assertEqual(desktop.state.text, text, keys)

    def test_each_sign_is_the_colour_of_one_thing_only(self) -> None:
        """In any state, a sign is seen exactly where its control is."""
        colours = {colour.to_bytes(3, "big") for colour in DEMO_SIGNS.values()}
        self.assertEqual(len(colours), len(DEMO_SIGNS))
        saved = replace(WRITTEN, saved_text=NOTE)
        for state in (DemoState(), OPENED, replace(WRITTEN, text=""), WRITTEN, saved):
            desktop = make_desktop(state)
            frame = desktop.capture(desktop.screen(), 768, 432)
            sights = agent.demo_sights(agent.encode_png(frame.pixels, 768, 432))
            for name, place in state.places().items():
                if name in DEMO_SIGNS:
                    point = agent.to_point(sights[name], desktop.screen())
                    self.assertTrue(place.rect.contains(point), (name, point))
            for sight, there in (
                ("Save button", state.opened),
                ("caret", state.focus),
                ("text", bool(state.text)),
                ("saved mark", state.clean),
            ):
                self.assertEqual(sight in sights, there)


class Runs(CommandLineCase):
    """Whole runs of each profile, as main() carries them out; what else is in them a digest says."""

    @for_the_gate
    def test_it_completes_with_tools_in_the_text_and_from_small_pictures(self) -> None:
        small = ("screen_capture_w=512", "screen_capture_h=288")
        by_words = ("planner", "commander", "chat", "pointer")
        rows = [(name, ("calls=text",)) for name in sample(by_words, ("commander", "pointer"))]
        rows += [(name, small) for name in sample(tuple(agent.PROFILES), ("native", "pointer"))]
        for profile, settings in rows:
            with self.subTest(profile, settings=settings):
                given = [word for setting in settings for word in ("--set", setting)]
                code, out, _ = self.main("--demo", "--profile", profile, *given)
                self.assertEqual(code, 0, out)
                self.assertIn("completed: ", out)
                asked_in_words = "is asked in the grammar qwen3-vl by profile native." in out
                self.assertEqual(asked_in_words, profile == "native")

    def test_a_dry_run_touches_nothing_and_ends_once_nothing_more_can_be_seen(self) -> None:
        touched = mock.patch.object(DemoDesktop, "button", side_effect=AssertionError("touched"))
        for profile in some((*agent.PROFILES,), 2):
            with self.subTest(profile), touched:
                words = ("--profile", profile, "--dry-run", "--max-steps", "6")
                code, out, _ = self.main("--demo", *words)
                self.assertEqual(code, 1, out)
                self.assertIn("\ndry run: nothing was done: The model says: ", out)
                self.assertNotIn("completed", out)
                self.assertIn(" dry_run ", self.main("--runs")[1])
                self.assertRegex(out, r"Dry run: would (double click|click|move) ")
                self.assertIn("none of the later steps comes into view", " ".join(out.split()))
                self.assertIn(", 0 acts, ", out)

    def test_it_knows_its_task_an_area_that_holds_it_and_no_server_of_ones_own(self) -> None:
        environ = {"LMSTUDIO_ENDPOINT": f"{NOBODY}/v1"}  # set for all runs, not for it
        code, out, _ = self.main("--demo", TASK, "--max-steps", "1", environ=environ)
        self.assertEqual((code, self.records()[0]["task"]), (1, TASK))
        self.assertIn("Not completed within 1 turn.", out)
        code, _, error = self.main("--demo", "--area", "-99,-5,200,200")  # of a monitor at the left
        self.assertEqual(code, 2)
        self.assertIn("The area -99,-5,200,200 is not inside the screen 0,0,1280,720", error)
        code, out, _ = self.main("--demo", "--area", "10,28,1020,687")  # as a refusal says
        self.assertEqual(code, 0, out)

    def test_a_demo_is_never_resumed_on_a_real_desktop_nor_a_real_run_in_the_demo(self) -> None:
        self.recorded("--max-steps", "2")
        path = self.run_folder() / "turns.jsonl"
        text, model = path.read_text("utf-8"), '"lmstudio_model": "%s"'
        path.write_text(text.replace(model % "demo-model", model % ""), "utf-8")
        code, out, err = self.main("--demo", "--resume")
        self.assertEqual((code, out, err.count("\n")), (2, "", 1))
        self.assertIn("done on a real desktop; leave out --demo.", err)
        path.write_text(text, "utf-8")
        # Nothing of a real desktop could be done with it: on Windows a demo's console can be closed.
        world = mock.Mock(api=mock.Mock(spec=["SetConsoleCtrlHandler"]))
        for words in ("--resume", "--replay 1"):
            with windows_of_main(world):
                code, out, _ = self.main(*words.split(), *HASTY, "--max-steps", "3")
            self.assertIn(code, (0, 1), out)


class PageOfADemo(CommandLineCase):
    """A demo with a panel, in virtual time: pages come and go at given seconds."""

    def watched(self, *opened: tuple[float, float], **typed: str) -> str:
        """What a demo says whose page is open from second to second, while the person types nothing or this."""
        clocks: list[VirtualClock] = []

        def types(out: str) -> str | None:
            return typed.get("line") if "The page stays" in out else None

        def is_open(_: object) -> bool:
            clocks[:] = clocks or [self.clock]
            return any(first <= self.clock.time - 1000 < last for first, last in opened)

        def clock_of(stop: agent.Stop) -> VirtualClock:
            self.clock = PersonsClock(stop, keyboard, types)
            return self.clock

        with (
            person_at_main(types) as keyboard,
            clock_of_main(clock_of),
            mock.patch.object(agent.Panel, "watched", is_open),
        ):
            waits = ("--set", "demo_page_wait=60")
            code, out, _ = self.main("--demo", "--panel", *waits, stdin=keyboard)
            keyboard.end()
        self.assertEqual(code, 0)
        self.seconds = self.clock.time - 1000
        return out

    @for_the_gate
    def test_it_waits_a_minute_for_the_first_page_and_for_none_in_the_end(self) -> None:
        out = self.watched((20, 21))
        self.assertIn("the demo waits up to 60 s for it.\n", out)
        self.assertNotIn("Nobody", out)
        self.assertTrue(20 <= self.seconds < 60, self.seconds)
        out = self.watched()
        self.assertIn("Nobody has opened it", out)
        self.assertNotIn("The page stays", out)
        self.assertGreaterEqual(self.seconds, 60)

    @for_the_gate
    def test_the_page_stays_until_it_is_closed_or_enter_ends_it(self) -> None:
        out = self.watched((0, 1500))
        self.assertRegex(out, "(?s)completed:.*The page stays until you close it or press Enter")
        self.assertAlmostEqual(self.seconds, 1500, delta=1)
        self.watched((0, 1500), line="")
        self.assertLess(self.seconds, 1000)
