"""Profile `story` on a real Win32 desktop: a drawing in two turns and the Notepad task, everywhere and in a quadrant.

    python3 -m unittest discover -s tests/wine -k story        needs wine, xvfb, chromium-driver, AGENT_WINDOWS_PYTHON

Without a browser the program draws the marks; with one, which begins the run and draws them, it is the panel's page.
"""

from __future__ import annotations

import json
import sys
import unittest
from dataclasses import replace
from typing import Any

import pixel_model as pm
from rig import AGENT, ROOT, Desktop, Target, json_lines, windows_path

sys.path.append(str(ROOT / "tests" / "browser"))

QUADRANT = (960, 0, 960, 540)  # the right upper one of 1920x1080
AREA = ",".join(map(str, QUADRANT))
TASK = pm.Task('Grüße, Åse! 5 € @ "home" & 100 %', r"C:\a story for Åse.txt")
STORY = "You remember nothing but your last observation"  # in the system prompt


def answer(observation: str, *actions: pm.Json) -> pm.Reply:
    return {
        "role": "assistant",
        "content": json.dumps({"observation": observation, "bboxes": [], "actions": [*actions]}),
    }


class StoryModel(pm.PixelModel):
    """Answers the profile's requests by `turn`, from the pixels of the marked picture alone."""

    def __init__(self, task: pm.Task = TASK) -> None:
        super().__init__(task)
        self.sizes: set[tuple[int, int]] = set()
        # By the place acted on: whether the last picture after it shows orange there. A desktop that
        # paints later than it seemed to rest gives one picture without; the program looks again.
        self.heat: dict[tuple[int, int], bool] = {}
        self.acted: tuple[int, int] | None = None  # that place

    def reply_to(self, kind: str, body: pm.Json) -> tuple[pm.Step, pm.Reply]:
        png = pm.fresh_image(body["messages"])
        if kind != "verification" or png is None:
            return super().reply_to(kind, body)
        pixels = pm.read_png(png)
        self.sizes.add((pixels.width, pixels.height))
        if STORY not in body["messages"][0]["content"]:
            return pm.Step("verify"), pm._said(self.verdict(pixels))
        if self.acted:
            x, y = (
                self.acted[0] * (pixels.width - 1) // 1000,
                self.acted[1] * (pixels.height - 1) // 1000,
            )
            near = [
                pixels.rgb(min(max(x + dx, 0), pixels.width - 1), y) for dx in range(-12, 13, 3)
            ]
            self.heat[self.acted] = sum(red > blue + 25 for red, _, blue in near) > 4
        step, reply = self.turn(pixels)
        self.acted = step.position if step.action == "click" else None
        return step, reply

    def turn(self, pixels: pm.Pixels) -> tuple[pm.Step, pm.Reply]:
        raise NotImplementedError

    def verdict(self, pixels: pm.Pixels) -> str:
        raise NotImplementedError


class Painter(StoryModel):
    """Draws a cross into the largest white box, one stroke a turn, and is done when it sees both."""

    STROKES = ((200, 200, 800, 800), (200, 800, 800, 200))  # thousandths of the box

    def paper(self, pixels: pm.Pixels) -> pm.Box:
        sight = pm.Sight(pixels)
        boxes = sight.boxes(
            sight.white, pm.Box(0, 0, pixels.width - 1, pixels.height - 1), pixels.width // 5
        )
        return max(boxes, key=lambda box: box.width * box.height)

    def drawn(self, pixels: pm.Pixels, paper: pm.Box) -> list[bool]:
        """Whether each stroke is there: dark a third of its way along."""
        found = []
        for x1, y1, x2, y2 in self.STROKES:
            x = paper.left + paper.width * (2 * x1 + x2) // 3000
            y = paper.top + paper.height * (2 * y1 + y2) // 3000
            found.append(any(max(pixels.rgb(x + d, y)) < 150 for d in range(-4, 5)))
        return found

    def turn(self, pixels: pm.Pixels) -> tuple[pm.Step, pm.Reply]:
        paper = self.page = getattr(self, "page", None) or self.paper(
            pixels
        )  # later it is no whole box any more
        there = self.drawn(pixels, paper)
        if all(there):
            return pm.Step("done"), answer("Both strokes of the cross are there.", {"name": "done"})
        number = there.index(False)
        x1, y1, x2, y2 = (
            ((paper.left + paper.width * part // 1000) * 1000 // pixels.width)
            if n % 2 == 0
            else ((paper.top + paper.height * part // 1000) * 1000 // pixels.height)
            for n, part in enumerate(self.STROKES[number])
        )
        drag = {
            "name": "drag",
            "x1": x1,
            "y1": y1,
            "x2": x2,
            "y2": y2,
            "label": f"stroke {number + 1}",
        }
        return pm.Step("click", position=(x1, y1)), answer(f"I draw stroke {number + 1}.", drag)

    def verdict(self, pixels: pm.Pixels) -> str:
        return (
            "YES: both strokes are there."
            if all(self.drawn(pixels, self.page))
            else "NO: a stroke is missing."
        )


class Writer(StoryModel):
    """The Notepad task. Where a mark may cover what it measures, it waits for a picture without marks."""

    def turn(self, pixels: pm.Pixels) -> tuple[pm.Step, pm.Reply]:
        if self.acted:
            return pm.WAIT, answer("I look again without the mark.", {"name": "wait"})
        step = self.patient(pm.decide(pixels, self.task))
        if step.action != "wait":
            self._before, self._starting = step, step.why == pm.STARTED
        if step.action == "done":
            return step, answer(step.why, {"name": "done"})
        action: dict[str, Any] = {"name": step.action}
        action |= {
            "click": {"x1": step.position[0], "y1": step.position[1], "label": step.target},
            "type": {"text": step.text},
            "key": {"key": step.key},
        }.get(step.action, {})
        return replace(step, position=step.position), answer(step.why, action)

    def verdict(self, pixels: pm.Pixels) -> str:
        step = pm.decide(pixels, self.task)
        return ("YES: " if step.action == "done" else "NO: ") + step.why


# Opens Notepad and puts it where it fits into the quadrant.
NOTEPAD = """
import ctypes, os, sys, time
user = ctypes.WinDLL("user32")
user.FindWindowW.restype = ctypes.c_void_p
os.startfile("notepad.exe")
for _ in range(200):
    window = user.FindWindowW("Notepad", None)
    if window and user.IsWindowVisible(ctypes.c_void_p(window)):
        break
    time.sleep(0.05)
time.sleep(0.5)
print(user.MoveWindow(ctypes.c_void_p(window), *map(int, sys.argv[1:]), 1), flush=True)
"""


class OnARealDesktop(unittest.TestCase):
    def carry_out(
        self, desktop: Desktop, model: StoryModel, task: str, *options: str
    ) -> list[dict[str, Any]]:
        """The journal of a completed run."""
        with pm.ModelServer(model) as server:
            code, output = desktop.run(
                windows_path(AGENT),
                "--profile",
                "story",
                "--endpoint",
                server.url + "/chat/completions",
                "--confirm",
                "never",
                "--max-steps",
                "60",
                *options,
                stdin=task + "\n",
                timeout=400,
            )
        steps = "\n".join(f"{e.number} {e.kind} {e.step}" for e in model.exchanges)
        self.assertEqual((code, server.errors), (0, []), f"{output}\n{steps}")
        self.assertTrue(
            any("verif" in e.step for e in model.exchanges), "the claim was never checked"
        )
        return json_lines(desktop.folder / "dumps" / "run_0001" / "turns.jsonl")

    def in_the_quadrant(self) -> list[str]:
        return ["--area", AREA, "--set", "screen_capture_w=768", "--set", "screen_capture_h=432"]

    def check_area(
        self, journal: list[dict[str, Any]], model: StoryModel, area: str, size: tuple[int, int]
    ) -> None:
        """Every picture was of the area, in its size, and every turn left both of its own."""
        self.assertEqual(
            [entry["config"]["area"] for entry in journal if entry["kind"] == "run"], [area]
        )
        self.assertEqual(model.sizes, {size})
        raw = [entry for entry in journal if entry.get("stage") == "raw"]
        self.assertEqual(
            len(raw), len([entry for entry in journal if entry.get("stage") == "annotated"])
        )

    def test_a_cross_is_drawn_in_two_turns_on_the_whole_screen(self) -> None:
        with Desktop() as desktop:
            target = Target(
                desktop, "--paint", "--focus", "log", "--at", "300,200", "--size", "900,600"
            )
            model = Painter()
            with target.watch() as events:
                journal = self.carry_out(desktop, model, "Draw a cross", "--area", "primary")
        self.check_area(journal, model, "primary", (1536, 864))
        self.check_strokes(events, model, journal)

    def test_a_cross_is_drawn_in_two_turns_in_a_quadrant_and_nothing_outside_is_seen_or_touched(
        self,
    ) -> None:
        with Desktop() as desktop:
            other = Target(desktop, "--paint", "--at", "100,560", "--size", "900,450", name="other")
            target = Target(
                desktop, "--paint", "--focus", "log", "--at", "1000,40", "--size", "860,460"
            )
            model = Painter()
            with other.watch() as outside, target.watch() as events:
                journal = self.carry_out(desktop, model, "Draw a cross", *self.in_the_quadrant())
        self.check_area(journal, model, AREA, (768, 432))
        self.check_strokes(events, model, journal)
        seen = {tuple(entry["window"]) for entry in journal if entry["kind"] == "look"}
        self.assertEqual(
            seen, {(32, 32, 688, 368)}
        )  # 0.8 times its place in the quadrant: nothing else is in front
        self.assertEqual(
            [event for event in outside if "x" in event or "vk" in event or "char" in event], []
        )
        left, top, width, height = QUADRANT
        for event in events:
            if "x" in event:
                self.assertTrue(
                    left <= event["x"] < left + width and top <= event["y"] < top + height, event
                )

    def check_strokes(
        self, events: list[dict[str, Any]], model: StoryModel, journal: list[dict[str, Any]]
    ) -> None:
        """Two presses, two drawing turns, and each of them seen as heat in the next picture."""
        names = [
            event["message"]
            for event in events
            if event["message"] in ("WM_LBUTTONDOWN", "WM_LBUTTONUP")
        ]
        self.assertEqual(names, ["WM_LBUTTONDOWN", "WM_LBUTTONUP"] * 2, events)
        drawn = [
            entry["actions"]
            for entry in journal
            if entry.get("stage") == "raw" and entry["actions"]
        ]
        self.assertEqual(
            [[action["name"] for action in turn] for turn in drawn], [["drag"], ["drag"]]
        )
        self.assertEqual([*model.heat.values()], [True, True])

    def test_the_notepad_task_from_an_empty_desktop(self) -> None:
        with Desktop() as desktop:
            model = Writer()
            ui = "marks_trail_turns=1"
            journal = self.carry_out(
                desktop, model, f"Write {TASK.text!r} as {TASK.path}", "--set", ui
            )
            saved = desktop.file(TASK.path).read_bytes()
        self.assertEqual(saved, TASK.file_bytes)
        self.check_area(journal, model, "primary", (1536, 864))
        self.assertEqual(set(model.heat.values()), {True})

    def test_the_notepad_task_in_a_quadrant_and_nothing_outside_is_seen_or_touched(self) -> None:
        with Desktop() as desktop:
            other = Target(desktop, "--paint", "--at", "100,560", "--size", "900,450", name="other")
            opened = desktop.start("-c", NOTEPAD, "1000", "30", "880", "480").stdout
            self.assertEqual(
                opened.readline().strip() if opened else b"", b"1"
            )  # its end is Notepad's, who inherits it
            model = Writer()
            with other.watch() as outside:
                ui = "marks_trail_turns=1"
                journal = self.carry_out(
                    desktop,
                    model,
                    f"Write {TASK.text!r} as {TASK.path}",
                    *self.in_the_quadrant(),
                    "--set",
                    ui,
                )
            saved = desktop.file(TASK.path).read_bytes()
        self.assertEqual(saved, TASK.file_bytes)
        self.check_area(journal, model, AREA, (768, 432))
        self.assertEqual(
            [event for event in outside if "x" in event or "vk" in event or "char" in event], []
        )


if __name__ == "__main__":
    unittest.main()
