"""The story loop: act on the last reply, look, mark what was done, ask; the story and the marks are all there is."""

from __future__ import annotations

import base64
import json
import os
import unittest
from collections.abc import Callable
from typing import Any

import agent
from tests.samples import sample
from tests.scripted import FEWER_REQUESTS, EngineCase, PlainDesktop, Trial, text
from tests.test_calibration import correction_by

Json = dict[str, Any]
CLICK = {"name": "click", "x1": 500, "y1": 500, "label": "Button"}
LEFT = {"name": "click", "x1": 250, "y1": 500}
SIZE = {"screen_capture_w": 320, "screen_capture_h": 180}


def told(
    observation: str = "I go on.", actions: list[Any] | None = None, bboxes: list[Any] | None = None
) -> Json:
    """A reply as the profile wants it."""
    return text(
        json.dumps({"observation": observation, "bboxes": bboxes or [], "actions": actions or []})
    )


class FakePanel:
    """What the loop asks of a panel; `draw` gives the annotated PNG, or None when its time is over."""

    present = True

    def __init__(
        self, draw: Callable[[int, float], bytes | None] = lambda seq, timeout: None
    ) -> None:
        self.draw, self.shown, self.waited = draw, list[tuple[Any, ...]](), list[int]()
        self.injected = list[str | None]()

    def take(self, item: agent.Item) -> None:
        if isinstance(item, agent.Shown) and isinstance(item.screen, bytes):
            marks = (item.actions, item.boxes, item.observation)
            self.shown.append((item.screen, item.turn, *marks))

    def wait_annotated(self, seq: int, timeout: float) -> bytes | None:
        self.waited.append(seq)
        return self.draw(seq, timeout)

    def take_hints(self) -> list[str]:
        return []

    def take_injected(self) -> str | None:
        return self.injected.pop(0) if self.injected else None


def picture(request: Json) -> tuple[bytes, int, int]:
    """The picture of a request, as RGB, width, height."""
    (url,) = (
        part["image_url"]["url"]
        for part in request["messages"][-1]["content"]
        if part["type"] == "image_url"
    )
    return agent.png_to_rgb(base64.b64decode(url.partition(",")[2]))


def warmth(request: Json, x: int, y: int) -> int:
    """How much more of red than of blue that pixel of a request's picture has."""
    rgb, width, _ = picture(request)
    red, _, blue = rgb[(y * width + x) * 3 :][:3]
    return red - blue


def story_of(request: Json) -> str:
    """What the model is given as its own words."""
    return str(request["messages"][2]["content"])


def last(request: Json) -> str:
    """What it is told beside the picture."""
    return str(request["messages"][-1])


def watch(trial: Trial, panel: Any) -> Any:
    """Wires a panel, or what stands for one, to a run."""
    if panel:
        trial.listen(panel.take)
        trial.hear(panel)
    return panel


class White(PlainDesktop):
    """A white screen."""

    def glance(self, area: agent.Rect, width: int, height: int) -> bytes:
        return super().glance(area, width, height).replace(b"\x80", b"\xff")


class StoryCase(EngineCase):
    def story(
        self,
        *replies: Any,
        panel: FakePanel | None = None,
        prepare: Callable[[Trial], object] = list,
        **settings: Any,
    ) -> tuple[Any, agent.Outcome]:
        """A run in which the model says these one after the other, one turn more than there are replies."""
        rest = iter(replies)

        def decide(_: Json) -> Json:
            reply = next(rest, told("I wait."))
            if isinstance(reply, Exception):
                raise reply
            return reply

        trial = self.trial(decide, "story", **{"max_steps": len(replies) + 1, **SIZE, **settings})
        watch(trial, panel)
        if prepare is not list:
            prepare(trial)
        self.begin(trial)
        return trial, trial.run()

    def stages(self, trial: Any, stage: str = "raw") -> list[Json]:
        return [entry for entry in trial.records("stage") if entry["stage"] == stage]

    def drawn(self, trial: Any) -> list[list[Json]]:
        """The marked actions of each turn."""
        return [entry["actions"] for entry in self.stages(trial)]


class Requests(StoryCase):
    def test_the_last_observation_goes_back_as_the_assistants_own_words_with_one_picture(
        self,
    ) -> None:
        trial, _ = self.story(told("I saw a door."), told("I opened it."))
        for request, words in zip(
            trial.requests, ("I begin.", "I saw a door.", "I opened it."), strict=True
        ):
            messages = request["messages"]
            self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant", "user"])
            self.assertEqual(messages[2]["content"], words)
            self.assertEqual(json.dumps(messages).count(words), 1)
            self.assertEqual(json.dumps(request).count("data:image/png"), 1)
            self.assertNotIn("tools", request)
        self.assertEqual(len({json.dumps(r["messages"][:2]) for r in trial.requests}), 1)

    def test_what_fails_is_missing_or_too_long_never_costs_the_story(self) -> None:
        lost = agent.ModelError("The server is away.", "reset")
        long = told(" ".join(map(str, range(1000))))
        trial, _ = self.story(told("A story."), lost, told(""), text('{"actions": []}'), long)
        stories = [story_of(request) for request in trial.requests]
        self.assertEqual(stories[:5], ["I begin.", *["A story."] * 4])
        self.assertEqual(len(stories[5]), 1500)


class Reading(StoryCase):
    WHOLE = {
        "observation": "I see.",
        "bboxes": [{"x1": 1, "y1": 2, "x2": 3, "y2": 4}],
        "actions": [{"name": "wait"}],
    }

    def test_the_object_is_found_in_every_wrapper_it_comes_in(self) -> None:
        plain = json.dumps(self.WHOLE)
        for said in (
            plain,
            f"```json\n{plain}\n```",
            f"Here it is: {plain} So I go on.",
            f"<think>{{}}</think>{plain}",
            f"<tool_call>{plain}</tool_call>",
            plain[:-1] + ",}",
            f"{plain}{plain}",
            f"{plain}<|im_end|>",
            repr(self.WHOLE),
            f"[{plain}]",
            [{"type": "text", "text": plain}],
        ):
            with self.subTest(said=said):
                wanted = ("I see.", self.WHOLE["actions"], self.WHOLE["bboxes"])
                self.assertEqual(agent.read_story({"content": said}), wanted)

    def test_what_cannot_be_read_is_an_observation_without_actions(self) -> None:
        for said in (
            "I click the button.",
            '{"observation": "I see", "actions": [{"name": "cli',
            "{I see} nothing",
            "[1, 2]",
            '{"name": "click", "x1": 1, "y1": 1}',
            '{"actions": [], "actions": [1]}',
            "{" * 5000,
            "[" * 9999,
        ):
            with self.subTest(said=said[:40]):
                self.assertEqual(agent.read_story(text(said)), (said, [], []))
        self.assertEqual(agent.read_story(text("<think>hm</think> So.")), ("So.", [], []))
        wrong = text('{"observation": 7, "bboxes": {}, "actions": "click"}')
        for nothing in ({}, text(""), {"content": None}, {"content": 7}, wrong):
            self.assertEqual(agent.read_story(nothing), ("", [], []))

    def test_a_blank_can_be_typed_and_presses_no_key(self) -> None:
        words = agent.PROFILES["story"].vocabulary
        typed = agent.read_action({"name": "type", "text": " "}, "seen", words)
        self.assertEqual(typed.call.arguments, {"text": " "})
        with self.assertRaises(agent.ReplyError):
            agent.read_action({"name": "key", "key": " "}, "seen", words)
        done = agent.read_action({"name": "done", "evidence": "  "}, "seen", words)
        self.assertEqual(done.call.arguments, {"evidence": "seen"})

    def test_boxes_far_off_the_grid_or_incomplete_are_none(self) -> None:
        boxes = [
            {"x1": 0, "y1": 0, "x2": 1000, "y2": 1021},
            {"x1": -1, "y1": 0, "x2": 5, "y2": 5},
            {"x1": 1},
            7,
            None,
            {"x1": "a", "y1": 0, "x2": 5, "y2": 5},
            {"x1": True, "y1": 0, "x2": 5, "y2": 5},
            {"x1": 0, "y1": 0, "x2": 1000, "y2": 1000},
        ]
        trial, _ = self.story(told(bboxes=boxes))
        self.assertEqual(self.stages(trial)[1]["bboxes"], boxes[-1:])


class Acting(StoryCase):
    def test_every_action_reaches_the_desktop_in_its_order(self) -> None:
        left = [("button", "left", True), ("button", "left", False)]
        right = [("button", "right", True), ("button", "right", False)]
        middle = ("move", 32, 18)
        keys = [("key", "ctrl", True), ("key", "s", True), ("key", "s", False)]
        rows: list[tuple[Json, list[tuple[Any, ...]]]] = [
            ({"name": "Move", "x1": 0, "y1": 0}, [("move", 0, 0)]),
            # A place to go to belongs to a drag alone.
            ({**CLICK, "x2": 900, "y2": 100}, [middle, *left]),
            ({"name": "right_click", "x1": 0, "y1": 1000}, [("move", 0, 35), *right]),
            ({"name": "double_click", "x1": 1000, "y1": 0}, [("move", 63, 0), *left, *left]),
            (
                {"name": "drag", "x1": 0, "y1": 0, "x2": 1000, "y2": 1000},
                [("move", 0, 0), left[0], ("move", 63, 35), left[1]],
            ),
            ({"name": "type", "text": "Grüße 🐢"}, [("text", "Grüße 🐢")]),
            ({"name": "key", "key": "ctrl+s"}, [*keys, ("key", "ctrl", False)]),
            ({"name": "scroll", "x1": 500, "y1": 500}, [middle, ("wheel", -120, False)]),
            ({"name": "scroll_up"}, [middle, ("wheel", 120, False)]),
            ({"name": " WAIT "}, []),
        ]
        actions = [action for action, _ in rows]
        trial, _ = self.story(told(actions=actions), max_actions=20, drag_steps=1, scroll_ticks=1)
        self.assertEqual(trial.inputs, [event for _, events in rows for event in events])
        drawn = self.drawn(trial)[1]
        names = [action["name"].strip().lower() for action in actions]
        self.assertEqual([action["name"] for action in drawn], names)
        self.assertEqual(drawn[1], {"name": "click", "x1": 500, "y1": 500})

    def test_what_cannot_be_done_is_told_and_neither_done_nor_drawn(self) -> None:
        cases = (
            ({"name": "drag", "x1": 5, "y1": 5, "x2": 5, "y2": 5}, "too close together"),
            ({"name": "drag", "x1": 5, "y1": 5}, "x2 is missing"),
            ({"name": "click", "x1": 1001, "y1": 5}, "x1 must be a whole number from 0 to 1000"),
            ({"name": "click", "x1": 0.5, "y1": 5}, "x1 must be"),
            ({"name": "click"}, "x1 is missing"),
            ({"name": "drag", "x1": 5, "y1": 5, "x2": 9999, "y2": 5}, "x2 must be"),
            ({"name": "type"}, "text is missing"),
            ({"name": "key", "key": "any key"}, "There is no key"),
            ({"name": "type", "text": "\u0007"}, "cannot be typed"),
            ({"name": "open_program"}, "There is no tool 'open_program'"),
            ({}, "There is no tool"),
            (7, "There is no tool"),
            ({"name": {"a": 1}}, "There is no tool"),
            ({"name": "click_screen_element", "x1": 1, "y1": 1}, "no tool"),
        )
        trial, _ = self.story(*[told(actions=[action]) for action, _ in cases])
        self.assertEqual(trial.inputs, [])
        for number, (action, words) in enumerate(cases, 1):
            with self.subTest(action=action):
                self.assertEqual(self.drawn(trial)[number], [])
                note = trial.requests[number]["messages"][-1]["content"][1]["text"]
                self.assertIn("Action 1 was not executed: ", note)
                self.assertIn(words, note)
                rgb, _, _ = picture(trial.requests[number])
                self.assertLess(max(map(int.__sub__, rgb[::3], rgb[2::3])), 30)

    def test_what_follows_a_refused_action_is_left_out(self) -> None:
        off = {"name": "click", "x1": 5000, "y1": 5}
        trial, _ = self.story(told(actions=[CLICK, off, {"name": "type", "text": "no"}]))
        self.assertEqual([entry[0] for entry in trial.inputs], ["move", "button", "button"])
        self.assertEqual(self.drawn(trial)[1], [{"name": "click", "x1": 500, "y1": 500}])
        self.assertIn("Action 2 was not executed", last(trial.requests[1]))

    def test_what_a_gate_refuses_is_neither_done_nor_drawn(self) -> None:
        for action, words, settings in (
            (CLICK, "Action 1 was not executed", {"blocked_windows": "Plain"}),
            (CLICK, "Action 1 was not executed", {"confirm": "always"}),
            ({**CLICK, "label": "Delete all"}, "did not allow this (delete)", {}),
        ):
            trial, _ = self.story(told("I look.", [action, CLICK]), **settings)
            self.assertEqual((trial.inputs, self.drawn(trial)[1]), ([], []))
            self.assertIn(words, last(trial.requests[1]))

    def test_the_story_is_no_label_that_a_risk_is_told_by(self) -> None:
        for observation in ("I press Delete.", "In order to open the Start menu I click."):
            for action in (CLICK, LEFT):
                self.assertTrue(self.story(told(observation, [action]))[0].inputs)

    def test_at_most_so_many_actions_and_boxes_a_turn(self) -> None:
        boxes = [{"x1": n, "y1": n, "x2": 900, "y2": 900} for n in range(9)]
        actions = [{"name": "click", "x1": 100 * n, "y1": 10} for n in range(9)]
        trial, _ = self.story(told("I look.", actions, boxes), max_actions=3, max_bboxes=2)
        self.assertEqual(self.stages(trial)[1]["bboxes"], boxes[:2])
        self.assertEqual(len(self.drawn(trial)[1]), 3)
        self.assertEqual(trial.inputs.count(("button", "left", True)), 3)
        self.assertIn("Only 3 of 9 actions were carried out", last(trial.requests[1]))
        self.assertIn("2 of 9 boxes", last(trial.requests[1]))

    def test_hostile_words_and_thousands_of_actions_are_data(self) -> None:
        count = sample(20_000, 2_000)
        box = {"x1": 1, "y1": 1, "x2": 2, "y2": 2}
        for words, times in (
            ("<script>alert(1)</script>", 1),
            ("\x1b[31mred\x1b]0;title\x07", 1),
            ("x" * 1_000_000, 1),
            ("\ud83d half", 1),
            ("../../etc", count),
        ):
            with self.subTest(words=words[:20]):
                reply = told(words, [CLICK] * times, [box] * times)
                trial, _ = self.story(reply, told(words), log_layout="turn_dirs")
                self.assertNotIn("\x1b", trial.log())
                self.assertLessEqual(len(story_of(trial.requests[-1])), 1500)
                self.assertEqual(len(self.drawn(trial)[1]), min(times, 5))
                self.assertEqual(len(self.stages(trial)[1]["bboxes"]), min(times, 8))


class Marks(StoryCase):
    base = FEWER_REQUESTS

    def test_the_picture_shows_the_screen_after_the_actions_with_heat_that_fades(self) -> None:
        for turns, shown in ((3, 3), (1, 1)):
            replies = [told(actions=[LEFT]), *[told()] * 4]
            trial, _ = self.story(*replies, marks_trail_turns=turns)
            heat = [warmth(request, 80, 90) for request in trial.requests[1:]]
            self.assertEqual(heat[:shown], sorted({*heat[:shown]} - {0}, reverse=True))
            self.assertEqual(heat[shown:], [0] * (5 - shown))
            self.assertEqual(warmth(trial.requests[1], 240, 90), 0)
            raw = agent.png_to_rgb((trial.folder / "turn_0002_raw.png").read_bytes())[0]
            self.assertEqual(raw[(90 * 320 + 80) * 3], raw[(90 * 320 + 80) * 3 + 2])

    def test_the_judges_picture_has_no_marks(self) -> None:
        done = told("Saved.", [{"name": "done"}])
        trial, _ = self.story(told("Saved.", [LEFT]), done, text("YES"))
        self.assertEqual(warmth(trial.requests[2], 80, 90), 0)

    def test_a_wrong_look_of_the_marks_or_layout_is_said_before_anything_is_done(self) -> None:
        for name, wrong in (("marks_border", "blue"), ("log_layout", "deep")):
            with self.assertRaisesRegex(agent.ConfigError, name):
                self.story(told(actions=[CLICK]), **{name: wrong})

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
    """Where a calibration corrects the places of the model, marks and boxes stand where those truly lie."""

    SHRUNK, TRUE = correction_by(0.95), correction_by(1.0)  # 405 means 400

    def corrected(self, correction: Any, actions: list[Json], bboxes: list[Json]) -> Any:
        def correct(trial: Trial) -> None:
            trial.engine.correction = correction

        reply = told(actions=actions, bboxes=bboxes)
        size = {"screen_capture_w": 640, "screen_capture_h": 360}
        return self.story(reply, prepare=correct, **size)[0]

    def test_both_ends_of_a_drag_and_the_corners_of_a_box_are_corrected(self) -> None:
        drag = {"name": "drag", "x1": 405, "y1": 500, "x2": 595, "y2": 690}
        box = {"x1": 310, "y1": 405, "x2": 690, "y2": 1000}
        stage = self.stages(self.corrected(self.SHRUNK, [drag], [box]))[1]
        wanted = {"name": "drag", "x1": 400, "y1": 500, "x2": 600, "y2": 700}
        self.assertEqual(stage["actions"], [wanted])
        self.assertEqual(stage["bboxes"], [{"x1": 300, "y1": 400, "x2": 700, "y2": 1000}])
        stage = self.stages(self.corrected(self.TRUE, [drag], [box]))[1]
        self.assertEqual((stage["actions"], stage["bboxes"]), ([drag], [box]))


class Files(StoryCase):
    base = FEWER_REQUESTS

    def test_turn_dirs_gives_every_turn_a_folder_with_the_described_names(self) -> None:
        trial, _ = self.story(told("I click.", [CLICK]), log_layout="turn_dirs")
        folder = trial.folder / "turn_0002"
        names = ["screenshot_annotated.png", "screenshot_raw.png", "vlm_output.json"]
        self.assertEqual(sorted(os.listdir(folder)), names)
        wanted = {
            "observation": "I click.",
            "bboxes": [],
            "actions": [{"name": "click", "x1": 500, "y1": 500}],
            "asked": [{"action": CLICK, "became": "done"}],
        }
        self.assertEqual(json.loads((folder / "vlm_output.json").read_bytes()), wanted)
        self.assertFalse(list(trial.folder.glob("turn_*.png")))

    def test_every_look_in_the_journal_names_a_picture_that_is_there(self) -> None:
        for layout in ("flat", "turn_dirs"):
            trial, _ = self.story(told("I click.", [CLICK]), log_layout=layout)
            looks = [r["screenshot"] for r in trial.records("look")]
            self.assertEqual(len(looks), 3)  # one before the click
            self.assertTrue(all((trial.folder / name).is_file() for name in looks), looks)


class ThePanel(StoryCase):
    base = FEWER_REQUESTS

    def test_it_gets_the_raw_picture_with_the_marks_and_its_picture_goes_to_the_model(self) -> None:
        png = agent.rgb_to_png(b"\x01\x02\x03" * (320 * 180), 320, 180)
        panel = FakePanel(lambda seq, timeout: png)
        box = {"x1": 1, "y1": 2, "x2": 300, "y2": 400}
        replies = (told("I click.", [CLICK], [box]), told("Again.", [CLICK]))
        trial, _ = self.story(*replies, panel=panel, described=True)
        self.assertEqual(panel.waited, [1, 2, 3])
        self.assertEqual({picture(request)[0][:3] for request in trial.requests}, {b"\x01\x02\x03"})
        mark = [{"name": "click", "x1": 500, "y1": 500}]
        shown = [entry for entry in panel.shown if entry[4]]
        self.assertEqual(shown[1][1:], (2, mark, [box], "I click."))
        self.assertEqual(shown[2][1:], (3, mark, [], "Again."))
        raw = (trial.folder / "turn_0002_raw.png").read_bytes()
        self.assertEqual(agent.png_to_rgb(shown[1][0]), agent.png_to_rgb(raw))
        self.assertEqual((trial.folder / "turn_0002_annotated.png").read_bytes(), png)

    def test_after_its_time_the_program_draws_the_marks_and_says_so_every_turn(self) -> None:
        waits = list[float]()
        panel = FakePanel(lambda seq, timeout: waits.append(timeout))  # type: ignore[func-returns-value]
        trial, _ = self.story(told(actions=[CLICK]), told(), panel=panel, described=True)
        said = sum("so the program drew the marks" in line for line in self.lines)
        self.assertEqual((waits, said), ([20.0] * 3, 3))
        self.assertGreater(warmth(trial.requests[1], 157, 90), 30)
        self.story(told(actions=[CLICK]))
        self.assertNotIn("panel", "\n".join(self.lines).lower())

    def test_a_reply_that_is_handed_in_takes_the_place_of_the_models_with_described_alone(
        self,
    ) -> None:
        by_hand = told("By hand.", [{"name": "key", "key": "b"}])["content"]
        for described, pressed in ((True, True), (False, False)):
            panel = FakePanel()
            panel.injected = [told("Begin.")["content"], by_hand, by_hand]
            trial, _ = self.story(told("The model's."), told(), panel=panel, described=described)
            self.assertEqual(("key", "b", True) in trial.inputs, pressed)

    def test_a_stop_while_it_waits_for_the_panel_ends_the_run(self) -> None:
        def draw(seq: int, timeout: float) -> None:
            raise agent.Stopped("Stopped: test.")

        with self.assertRaises(agent.Stopped):
            self.story(told(), panel=FakePanel(draw), described=True)


class Beginning(StoryCase):
    def test_the_boot_output_is_what_counts_as_the_first_reply(self) -> None:
        boot = told("I draw.", [{"name": "key", "key": "a"}])["content"]
        trial, _ = self.story(boot_vlm_output=boot)
        self.assertEqual(trial.inputs, [("key", "a", True), ("key", "a", False)])
        self.assertEqual(story_of(trial.requests[0]), "I draw.")
        trial, _ = self.story(boot_vlm_output="")
        self.assertEqual(story_of(trial.requests[0]), "I look.")

    def test_without_one_it_waits_for_what_the_panel_hands_in(self) -> None:
        panel = FakePanel()
        panel.injected = [None, None, told("Injected.")["content"]]
        trial, _ = self.story(panel=panel, boot_vlm_output="", described=True)
        observation = trial.requests[0]["messages"][1]["content"][0]["text"]
        self.assertEqual(observation, "Injected.")
        self.assertGreaterEqual(trial.clock.now(), 0.3)

    def test_while_it_waits_for_that_it_can_be_stopped(self) -> None:
        def stopping(trial: Trial) -> None:
            sleep = trial.clock.sleep
            trial.clock.sleep = lambda seconds: (trial.stop.set("test"), sleep(seconds))
            self.made = trial

        with self.assertRaises(agent.Stopped):
            self.story(panel=FakePanel(), prepare=stopping, boot_vlm_output="", described=True)
        self.assertEqual(self.made.requests, [])


class Ending(StoryCase):
    base = FEWER_REQUESTS

    def test_nothing_is_done_after_done_and_a_doubt_is_told(self) -> None:
        done = told("The title says Saved.", [{"name": "done"}, CLICK])
        trial, outcome = self.story(done, text("NO: nothing is saved."), told())
        self.assertEqual((trial.inputs, outcome.kind), ([], "max_steps"))
        self.assertIn("CLAIM: The title says Saved.", str(trial.requests[1]))
        wanted = "not confirmed by a fresh look, not yet: Press the button (nothing is saved.)"
        self.assertIn(wanted, last(trial.requests[2]))

    def test_story_and_trail_come_back_from_the_journal_and_nothing_is_repeated(self) -> None:
        never = told("Never done.", [{"name": "key", "key": "b"}])
        trial, _ = self.story(told("I clicked.", [CLICK]), never, max_steps=2)
        trial.close()
        again = self.trial(lambda request: told("On."), "story", trial.folder, max_steps=3)
        again.resume()
        trail = [[{"name": "click", "x1": 500, "y1": 500}], []]
        self.assertEqual((again.state.plan, again.state.trail), ("I clicked.", trail))
        again.run()
        self.assertEqual(again.inputs, [])
        self.assertEqual(story_of(again.requests[0]), "I clicked.")


if __name__ == "__main__":
    unittest.main()
