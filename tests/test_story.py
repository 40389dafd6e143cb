"""The story loop: act on the last reply, look, mark what was done, ask; the story and the marks are all there is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agent
from tests.samples import for_the_gate
from tests.scripted import FEWER_REQUESTS, EngineCase, PlainDesktop, Trial, text
from tests.seams import rgb_picture
from tests.test_calibration import correction_by

Json = dict[str, Any]
CLICK = {"name": "click", "x1": 500, "y1": 500, "label": "Button"}
FILE = Path(__file__).parent / "data" / "stories.jsonl"
# Contents of replies with what is read, actions with what reaches the desktop or why they are refused.
ROWS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
LEFT = {"name": "click", "x1": 250, "y1": 500}
SIZE = {"screen_capture_w": 320, "screen_capture_h": 180}
LARGE = {"screen_capture_w": 640, "screen_capture_h": 360}
ENDS = ("x1", "y1", "x2", "y2")


def told(observation: str = "I go on.", actions: Any = (), bboxes: Any = ()) -> Json:
    """A reply as the profile wants it."""
    said = {"observation": observation, "bboxes": [*bboxes], "actions": [*actions]}
    return text(json.dumps(said))


def picture(request: Json) -> tuple[bytes, int, int]:
    """The one picture of a request, as RGB, width, height."""
    parts = [part for m in request["messages"] for part in m["content"] if isinstance(part, dict)]
    (url,) = (part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    return rgb_picture(base64.b64decode(url.partition(",")[2]))


def warmth(request: Json, x: int, y: int) -> int:
    """How much more of red than of blue that pixel of a request's picture has."""
    rgb, width, _ = picture(request)
    red, _, blue = rgb[(y * width + x) * 3 :][:3]
    return red - blue


def story_of(request: Json) -> str:
    """What the model is given as its own words."""
    return str(json.loads(request["messages"][2]["content"])["observation"])


class White(PlainDesktop):
    """A white screen."""

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        return super().glance(area, width, height).replace(b"\x80", b"\xff")


class StoryCase(EngineCase):
    def story(
        self, *replies: Any, prepare: Callable[[Trial], object] = list, **settings: Any
    ) -> tuple[Any, agent.Outcome]:
        """A run in which the model says these one after the other, one turn more than there are replies."""
        rest = iter(replies)

        steps = {"max_steps": len(replies) + 1, **SIZE}
        trial = self.trial(lambda _: next(rest, told("I wait.")), "story", **steps | settings)
        if prepare is not list:
            prepare(trial)
        self.begin(trial)
        return trial, trial.run()

    def stages(self, trial: Any, stage: str = "raw") -> list[Json]:
        return [entry for entry in trial.records("stage") if entry["stage"] == stage]

    def drawn(self, trial: Any) -> list[list[Json]]:
        """The marked actions of each turn."""
        return [entry["actions"] for entry in self.stages(trial)]


class Reading(StoryCase):
    def test_the_object_is_found_in_every_wrapper_and_all_else_is_an_observation(self) -> None:
        for row in ROWS:
            if "read" in row:
                with self.subTest(row["content"]):
                    read = agent.read_story({"content": row["content"]})
                    self.assertEqual(list(read), row["read"])


class Acting(StoryCase):
    def test_every_action_reaches_the_desktop_in_its_order(self) -> None:
        rows = [row for row in ROWS if "inputs" in row]
        actions = [row["action"] for row in rows]
        replies = [told(actions=actions[at : at + 5]) for at in range(0, len(actions), 5)]
        trial, _ = self.story(*replies, drag_steps=1, scroll_ticks=1, confirm="never")
        wanted = [tuple(event) for row in rows for event in row["inputs"]]
        self.assertEqual(trial.inputs, wanted)
        drawn = [mark for turn in self.drawn(trial)[1:] for mark in turn]
        names = [action["name"].strip().lower() for action in actions]
        self.assertEqual([action["name"] for action in drawn], names)
        # A place to go to belongs to a drag alone.
        self.assertEqual(drawn[1], {"name": "click", "x1": 500, "y1": 500})

    def test_what_cannot_be_done_is_told_and_neither_done_nor_drawn(self) -> None:
        rows = [row for row in ROWS if "refused" in row]
        replies = [told(actions=[row["action"]]) for row in rows]
        trial, _ = self.story(*replies, stall_stop=99)
        self.assertEqual(trial.inputs, [])
        for number, row in enumerate(rows, 1):
            with self.subTest(row["action"]):
                self.assertEqual(self.drawn(trial)[number], [])
                note = trial.requests[number]["messages"][-1]["content"][1]["text"]
                self.assertRegex(note, f"Action 1 was not executed: .*{row['refused']}")
                rgb, _, _ = picture(trial.requests[number])
                self.assertLess(max(map(int.__sub__, rgb[::3], rgb[2::3])), 30)


class Words(StoryCase):
    """Replies without a story, and stories in which nothing gets on."""

    base = FEWER_REQUESTS

    def test_two_in_a_row_are_corrected_with_its_own_last_story_and_a_third_is_held_against_a_look(
        self,
    ) -> None:
        last = told("I click.", [LEFT])
        hm = text("Hm, the window.")
        trial, _ = self.story(last, hm, hm, hm, text("NO: nothing"), last, max_steps=3)
        corrected, again, judged, after = trial.requests[2:6]
        own = json.loads(last["content"])
        for request in (corrected, again):
            ask = str(request["messages"][-1]["content"])
            self.assertIn(json.dumps(own, ensure_ascii=False), ask)
            self.assertEqual(picture(trial.requests[1]), picture(request))
        self.assertIn("CLAIM: Hm, the window.", str(judged))
        self.assertIn("not confirmed", str(after["messages"][-1]["content"]))

    def test_a_turn_whose_act_was_not_done_is_no_step_but_as_described(self) -> None:
        off = told("There.", [{"name": "click", "x1": 1500, "y1": 500, "label": "Button"}])
        for described, asked in ((False, 5), (True, 3)):
            replies = [off, off, *[told("I click.", [LEFT])] * 9]
            trial, outcome = self.story(*replies, max_steps=3, described=described)
            self.assertEqual(outcome.kind, "max_steps")
            self.assertEqual(len(trial.requests), asked)

    def test_as_described_it_is_an_observation_like_any_other(self) -> None:
        trial, _ = self.story(text("Hm."), text("Hm."), described=True, verify_completion=False)
        self.assertEqual(len(trial.requests), 3)
        self.assertNotIn("JSON object. Answer", str(trial.requests))

    @for_the_gate
    def test_looks_the_same_click_and_boxes_alone_end_the_run(self) -> None:
        def dead(trial: Trial) -> None:
            trial.desktop.dead = True

        boxes = told("I see it.", bboxes=[{"x1": 1, "y1": 2, "x2": 300, "y2": 400}])
        for said in (told("I look."), told("Again.", [CLICK]), boxes):
            for described in (False, True):
                with self.subTest(said["content"], described=described):
                    own = {"described": described, "max_steps": 99}
                    trial, outcome = self.story(*[said] * 30, prepare=dead, **own)
                    self.assertEqual(outcome.kind, "stuck")
                    self.assertLess(trial.state.turn, 30)


class Marks(StoryCase):
    base = FEWER_REQUESTS

    def test_the_judges_picture_has_no_marks(self) -> None:
        done = told("Saved.", [{"name": "done"}])
        trial, _ = self.story(told("Saved.", [LEFT]), done, text("YES"))
        self.assertEqual(warmth(trial.requests[2], 80, 90), 0)

    def test_a_secret_is_grey_in_both_pictures_and_nameless_in_the_words(self) -> None:
        def hide(trial: Trial) -> None:
            trial.hidden = agent.Secrets({"PIN": "hunter2"})
            trial.desktop = White(trial.clock)

        typed = told("I type it.", [{"name": "type", "text": "{{PIN}}"}])
        said = told("It says hunter2, I think.")
        trial, _ = self.story(typed, said, prepare=hide, confirm="never")
        self.assertIn(("text", "hunter2"), trial.inputs)
        self.assertIn(b"\x80" * 300, picture(trial.requests[-1])[0])
        written = (trial.folder / "turns.jsonl").read_text() + json.dumps(trial.requests)
        self.assertNotIn("hunter2", written)
        self.assertEqual(story_of(trial.requests[-1]), "It says {{PIN}}, I think.")
        self.assertEqual(self.drawn(trial)[1], [{"name": "type", "text": "{{PIN}}"}])


class Corrected(StoryCase):
    def test_marks_of_acts_stand_where_a_calibration_says_that_they_truly_lie(self) -> None:
        drag = {"name": "drag", "x1": 405, "y1": 500, "x2": 595, "y2": 690}
        for scale, action in ((0.95, (400, 500, 600, 700)), (1.0, (405, 500, 595, 690))):
            correction = correction_by(scale)

            def correct(trial: Trial, correction: Any = correction) -> None:
                trial.engine.correction = correction

            trial, _ = self.story(told(actions=[drag]), prepare=correct, **LARGE)
            stage = self.stages(trial)[1]
            self.assertEqual(
                stage["actions"], [{"name": "drag", **dict(zip(ENDS, action, strict=True))}]
            )


class Files(StoryCase):
    base = FEWER_REQUESTS

    def test_the_panel_gets_the_raw_picture_and_its_boxes(self) -> None:
        items: list[agent.Event] = []
        box = {"x1": 1, "y1": 2, "x2": 300, "y2": 400}
        replies = (told("I click.", [CLICK], [box]), told("Again.", [CLICK]))
        trial, _ = self.story(*replies, prepare=lambda trial: trial.listen(items.append))
        shown = [item for item in items if isinstance(item, agent.Shown) and item.boxes]
        raw = (trial.folder / "turn_0002_raw.png").read_bytes()
        self.assertEqual([(item.screen, item.boxes) for item in shown], [(raw, [box])])
