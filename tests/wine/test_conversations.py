"""The profiles `chat`, `pointer` and `story` on a real Win32 desktop: scenarios judged by the windows, and a drawing."""

from __future__ import annotations

import json
import unittest
from typing import Any

from tests.scripted import text
from tests.wine.model import Box, Message, PixelModel, Sight, Step, Task, picture, texts
from tests.wine.rig import ALONE, Desktop, Driver, Window, shared_desktop, target

LINE = "Grüße, 5 € – Wetter: sunny ☀"
SIZE = "--set", "screen_capture_w=1536", "--set", "screen_capture_h=864"  # that the eyes know
QUADRANT = (960, 0, 960, 540)  # the right upper one of 1920x1080
TASK = Task('Grüße, Åse! 5 € @ "home" & 100 %', r"C:\a story for Åse.txt")
STORY = "You remember nothing but your last observation"  # in the system prompt
STROKES = ((200, 200, 800, 800), (200, 800, 800, 200))  # thousandths of the paper
CHOICES = (("ctrl+a", "Select all", (43, 145)), ("ctrl+c", "Copy", (37, 90)))


class Copier(PixelModel):
    """Writes a line in Notepad, selects it and copies it: with keys, or with the Edit menu where there are none."""

    def __init__(self, has_keys: bool) -> None:
        super().__init__(Task(LINE, ""))
        self.has_keys, self.chosen = has_keys, 0

    def decide(self, sight: Sight) -> Step:
        step = super().decide(sight)
        if step.text == "notepad":
            return step._replace(text="notepad\n")
        if step.key != "ctrl+s":
            return step
        for number, (key, *choice) in enumerate(CHOICES):
            if self.chosen == number:
                return self.choose(sight, key, *choice)
        return Step("done", "Notepad shows the line selected; it is copied.")

    def choose(self, sight: Sight, key: str, entry: str, place: tuple[int, int]) -> Step:
        """With the key, or in the Edit menu once it is seen to be open."""
        x, y = 33 * sight.width // 1536, 27 * sight.height // 864
        is_open = bool(sight.row(sight.blue, y, x, x + 1)[0])
        self.chosen += self.has_keys or is_open
        if self.has_keys:
            return Step("key", entry, key=key)
        return Step("click", entry, entry if is_open else "Edit", place if is_open else (28, 31))


class Story(PixelModel):
    """Answers the profile's requests by a step from the pixels of the marked picture alone."""

    def __init__(self, task: Task = TASK) -> None:
        super().__init__(task)
        self.sizes: set[tuple[int, int]] = set()
        # By the place acted on: whether the last picture after it shows orange there. A desktop that
        # paints later than it seemed to rest gives one picture without; the program looks again.
        self.heat: dict[tuple[int, int], bool] = {}
        self.acted: tuple[int, int] | None = None

    def role(self, request: Any) -> str:
        return "executor" if STORY in "\n".join(texts(request)) else "verifier"

    def executor(self, request: Any) -> Message:
        sight = Sight(picture(request) or b"")
        self.sizes.add((sight.width, sight.height))
        if self.acted:
            x = self.acted[0] * (sight.width - 1) // 1000
            y = self.acted[1] * (sight.height - 1) // 1000
            near = [sight.pixel(x + dx, y) for dx in range(-12, 13, 3)]
            self.heat[self.acted] = sum(red > blue + 25 for red, _, blue in near) > 4
        return text(json.dumps(self.said(sight)))

    def said(self, sight: Sight) -> dict[str, Any]:
        """The whole reply. Where a mark may cover what it measures, it waits for a picture without marks."""
        if self.acted:
            self.acted = None
            return answer("I look again without the mark.", name="wait")
        step = self.next_step(sight)
        if step.action == "click":
            self.acted = step.place
        x, y = step.place
        values = {"click": {"x1": x, "y1": y, "label": step.target}, "done": {}}
        values |= {"type": {"text": step.text}, "key": {"key": step.key}, "wait": {}}
        return answer(step.why, name=step.action, **values[step.action])


def answer(observation: str, **action: Any) -> dict[str, Any]:
    return {"observation": observation, "bboxes": [], "actions": [action]}


class Painter(Story):
    """Draws a cross into the largest white box, one stroke a turn, and is done when it sees both."""

    paper: Box | None = None

    def missing(self, sight: Sight) -> list[int]:
        """The strokes that are not there: each is dark a third of its way along."""
        if not self.paper:  # later it is no whole box any more
            whole = Box(0, 0, sight.width, sight.height)
            boxes = sight.boxes(sight.white, whole, sight.width // 5)
            self.paper = max(boxes, key=lambda box: box.width * box.height)
        missing = []
        for number, (x1, y1, x2, y2) in enumerate(STROKES):
            x = self.paper.left + self.paper.width * (2 * x1 + x2) // 3000
            y = self.paper.top + self.paper.height * (2 * y1 + y2) // 3000
            if min(max(sight.pixel(x + d, y)) for d in range(-4, 5)) >= 150:
                missing.append(number)
        return missing

    def said(self, sight: Sight) -> dict[str, Any]:
        missing = self.missing(sight)
        if not missing:
            return answer("Both strokes of the cross are there.", name="done")
        assert self.paper
        x1, y1, x2, y2 = STROKES[missing[0]]
        left, top, wide, high = *self.paper[:2], self.paper.width, self.paper.height
        across = [(left + wide * x // 1000) * 1000 // sight.width for x in (x1, x2)]
        down = [(top + high * y // 1000) * 1000 // sight.height for y in (y1, y2)]
        place = {"x1": across[0], "y1": down[0], "x2": across[1], "y2": down[1]}
        self.acted = place["x1"], place["y1"]
        return answer("I draw a stroke.", name="drag", label=f"stroke {missing[0] + 1}", **place)

    def verdict(self, sight: Sight) -> str:
        return "NO: a stroke is missing." if self.missing(sight) else "YES: both strokes are there."


class Conversations(unittest.TestCase):
    desktop: Desktop
    driver: Driver

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = shared_desktop()
        cls.driver = Driver(cls.desktop)

    def carried_out(self, model: PixelModel, profile: str, *options: str) -> list[dict[str, Any]]:
        """The journal of a run that completes, its claim having been checked."""
        self.addCleanup(self.desktop.close, "notepad.exe")
        with model:
            words = "--profile", profile, "--endpoint", model.url, "--confirm", "never"
            program = self.desktop.agent(*words, *ALONE, "--max-steps", "60", *options)
            code, output = program.finish(300)
        told = "\n".join([output, *map(str, model.steps)])
        self.assertEqual((code, model.errors), (0, []), told)
        self.assertIn("verifier", {exchange.role for exchange in model.exchanges})
        return self.desktop.journal()

    def test_a_line_is_written_in_notepad_selected_and_copied_in_a_conversation(self) -> None:
        for profile in ("chat", "pointer"):
            with self.subTest(profile):
                model = Copier(has_keys=profile == "chat")
                self.carried_out(model, profile, "--scenario", "notepad", *SIZE)
                now = self.driver.ask("notepad")
                self.assertEqual((now["text"], now["clipboard"]), (LINE, LINE))
                self.assertEqual(now["selected"], [0, len(LINE)])
                self.desktop.close("notepad.exe")

    def test_a_story_does_the_notepad_task_from_an_empty_desktop(self) -> None:
        model = Story()
        journal = self.carried_out(model, "story", "--set", "marks_trail_turns=1", TASK.words)
        self.assertEqual(self.desktop.file(TASK.path).read_bytes(), TASK.file_bytes)
        self.check_pictures(journal, model, (1536, 864))
        self.assertEqual(set(model.heat.values()), {True})

    def test_a_story_draws_a_cross_in_two_turns_in_a_quadrant_and_touches_nothing_outside(
        self,
    ) -> None:
        other = target(self.desktop, (100, 560, 900, 450), "Other", paint=True)
        paper = target(self.desktop, (1000, 40, 860, 460), paint=True)
        self.addCleanup(self.leave, other, paper)
        model, area = Painter(), ",".join(map(str, QUADRANT))
        size = "--set", "screen_capture_w=768", "--set", "screen_capture_h=432"
        with other.watch() as outside, paper.watch() as events:
            journal = self.carried_out(model, "story", "--area", area, *size, "Draw a cross")
        self.check_pictures(journal, model, (768, 432))
        turns = [e["actions"] for e in journal if e.get("stage") == "raw" and e["actions"]]
        # Two, unless Wine puts the mouse back in the middle of a stroke, and the program lets go, as it must.
        self.assertGreaterEqual(len(turns), len(STROKES))
        self.assertEqual({act["name"] for turn in turns for act in turn}, {"drag"})
        kinds = ("WM_LBUTTONDOWN", "WM_LBUTTONUP")
        pressed = [event["message"] for event in events if event["message"] in kinds]
        self.assertEqual(pressed, [*kinds] * len(turns), events)
        self.assertEqual([*model.heat.values()], [True, True])
        # 0.8 times its place in the quadrant: nothing else is in front
        seen = {tuple(entry["window"]) for entry in journal if entry["kind"] == "look"}
        self.assertEqual(seen, {(32, 32, 688, 368)})
        self.assertEqual([event for event in outside if {"x", "vk", "char"} & {*event}], [])
        left, top, width, height = QUADRANT
        for event in events:
            if "x" in event:
                self.assertTrue(left <= event["x"] < left + width, event)
                self.assertTrue(top <= event["y"] < top + height, event)

    def leave(self, *windows: Window) -> None:
        for window in windows:
            window.order("quit")

    def check_pictures(self, journal: Any, model: Story, size: tuple[int, int]) -> None:
        """Every picture was in that size, and every turn left both of its own."""
        self.assertEqual(model.sizes, {size})
        stages = [entry.get("stage") for entry in journal]
        self.assertGreater(stages.count("raw"), 2)
        self.assertEqual(stages.count("raw"), stages.count("annotated"))


if __name__ == "__main__":
    unittest.main()
