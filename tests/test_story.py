"""The story loop: act on the last reply, look, mark what was done, ask; the story and the marks are all there is."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import threading
import unittest
from collections.abc import Callable
from typing import Any

import agent
from tests.samples import sample
from tests.scripted import FEWER_REQUESTS, EngineCase, PlainDesktop, Trial, text
from tests.test_main import CommandLineCase

Json = dict[str, Any]
CLICK = {"name": "click", "x1": 500, "y1": 500, "label": "Button"}


def told(
    observation: str = "I go on.", actions: list[Any] | None = None, bboxes: list[Any] | None = None
) -> Json:
    """A reply as the profile wants it."""
    return text(
        json.dumps({"observation": observation, "bboxes": bboxes or [], "actions": actions or []})
    )


class FakePanel:
    """What the loop asks of a panel; `draw` gives the annotated PNG, or None when its time is over."""

    def __init__(
        self, draw: Callable[[int, float], bytes | None] = lambda seq, timeout: None
    ) -> None:
        self.draw, self.shown, self.waited = draw, list[tuple[Any, ...]](), list[int]()
        self.hints, self.injected = list[str](), list[str | None]()

    present = True

    def take(self, item: agent.Item) -> None:
        if hasattr(item, "text"):
            self.spoken = item.text
        elif isinstance(item, agent.Shown) and isinstance(item.screen, bytes):
            marks = (item.actions, item.boxes, item.observation)
            self.shown.append((item.screen, item.turn, *marks))

    def wait_annotated(self, seq: int, timeout: float) -> bytes | None:
        self.waited.append(seq)
        return self.draw(seq, timeout)

    def take_hints(self) -> list[str]:
        hints, self.hints = self.hints, []
        return hints

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


def orange(rgb: bytes, width: int, x: int, y: int) -> bool:
    """Whether that pixel is warmer than grey."""
    at = (y * width + x) * 3
    red, _, blue = rgb[at : at + 3]
    return red > blue + 30


def a_panel(trial: Trial) -> agent.Panel:
    return agent.Panel(trial.config, trial.stop, agent.Book("run_0001"), trial.folder)


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
        self, *replies: Json, panel: FakePanel | None = None, **settings: Any
    ) -> tuple[Any, agent.Outcome]:
        """A run in which the model says these one after the other, one turn more than there are replies."""
        rest = iter(replies)
        settings = {
            "max_steps": len(replies) + 1,
            "screen_capture_w": 320,
            "screen_capture_h": 180,
            **settings,
        }
        trial = self.trial(lambda request: next(rest, told("I wait.")), "story", **settings)
        watch(trial, panel)
        self.begin(trial)
        return trial, trial.run()

    def stages(self, trial: Any, stage: str = "raw") -> list[Json]:
        return [entry for entry in trial.records("stage") if entry["stage"] == stage]

    def drawn(self, trial: Any) -> list[list[Json]]:
        """The marked actions of each turn."""
        return [entry["actions"] for entry in self.stages(trial)]


class Requests(StoryCase):
    def test_the_observation_goes_back_as_the_assistants_own_words_and_never_as_the_users(
        self,
    ) -> None:
        trial, _ = self.story(told("I saw a door."), told("I opened it."))
        first, second, third = (request["messages"] for request in trial.requests)
        for messages, words in (
            (first, "I begin."),
            (second, "I saw a door."),
            (third, "I opened it."),
        ):
            self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant", "user"])
            self.assertEqual(messages[2]["content"], words)
            self.assertNotIn(words, str([m for m in messages if m["role"] == "user"]))

    def test_nothing_but_the_last_observation_and_one_picture_is_sent(self) -> None:
        trial, _ = self.story(told("One."), told("Two."), told("Three."))
        last = json.dumps(trial.requests[-1])
        self.assertEqual(
            (last.count("data:image/png"), "One." in last, "Two." in last), (1, False, False)
        )
        self.assertTrue(all("tools" not in request for request in trial.requests))

    def test_what_comes_before_the_observation_is_the_same_in_every_request(self) -> None:
        trial, _ = self.story(told("One."), told("Two."))
        self.assertEqual(len({json.dumps(r["messages"][:2]) for r in trial.requests}), 1)
        self.assertIn(
            "At most 5 actions and 8 bboxes",
            trial.requests[0]["messages"][1]["content"],
        )

    def test_an_observation_that_is_missing_leaves_the_last_one(self) -> None:
        trial, _ = self.story(told("A story."), told(""), text('{"actions": []}'))
        self.assertEqual(trial.requests[-1]["messages"][2]["content"], "A story.")

    def test_an_observation_is_cut_to_its_length(self) -> None:
        trial, _ = self.story(told(" ".join(map(str, range(1000)))))
        self.assertEqual(len(trial.requests[1]["messages"][2]["content"]), 1500)

    def test_a_hint_reaches_the_next_request_of_any_profile_as_the_users_line_and_only_that(
        self,
    ) -> None:
        panel = FakePanel()
        panel.hints = ["press the green one"]
        trial, _ = self.story(told(), told(), panel=panel)
        self.assertEqual(
            trial.requests[0]["messages"][-1],
            {"role": "user", "content": "HINT FROM THE PERSON: press the green one"},
        )
        self.assertNotIn("green one", str(trial.requests[1:]))
        trial = self.trial(lambda request: text("Done as you said."), "chat")
        panel.hints = ["use the menu"]
        watch(trial, panel)
        trial.run()
        self.assertIn("HINT FROM THE PERSON: use the menu", str(trial.requests[0]))

    def test_a_request_that_fails_costs_a_turn_and_keeps_the_story(self) -> None:
        replies = iter(
            [told("A story."), agent.ModelError("The server is away.", "reset"), told("Back.")]
        )

        def decide(request: Json) -> Json:
            reply = next(replies, told("End."))
            if isinstance(reply, Exception):
                raise reply
            return reply

        trial = self.trial(decide, "story", max_steps=4)
        trial.run()
        self.assertEqual(
            [r["messages"][2]["content"] for r in trial.requests],
            ["I begin.", "A story.", "A story.", "Back."],
        )


class Reading(StoryCase):
    WHOLE = {
        "observation": "I see.",
        "bboxes": [{"x1": 1, "y1": 2, "x2": 3, "y2": 4}],
        "actions": [{"name": "wait"}],
    }
    READ = ("I see.", [{"name": "wait"}], [{"x1": 1, "y1": 2, "x2": 3, "y2": 4}])

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
        ):
            with self.subTest(said=said):
                self.assertEqual(agent.read_story(text(said)), self.READ)
        self.assertEqual(
            agent.read_story({"content": [{"type": "text", "text": plain}]}), self.READ
        )

    def test_a_blank_can_be_typed_and_presses_no_key(self) -> None:
        words = agent.PROFILES["story"].vocabulary
        typed = agent.read_action({"name": "type", "text": " "}, "seen", words)
        self.assertEqual(typed.call.arguments, {"text": " "})
        with self.assertRaises(agent.ReplyError):
            agent.read_action({"name": "key", "key": " "}, "seen", words)
        done = agent.read_action({"name": "done", "evidence": "  "}, "seen", words)
        self.assertEqual(done.call.arguments, {"evidence": "seen"})

    def test_what_cannot_be_read_is_an_observation_without_actions(self) -> None:
        cases = (
            "I click the button.",
            '{"observation": "I see", "actions": [{"name": "cli',
            "{I see} nothing",
            "[1, 2]",
            '{"name": "click", "x1": 1, "y1": 1}',
            '{"actions": [], "actions": [1]}',
            "{" * 5000,
            "[" * 9999,
        )
        for said in cases:
            with self.subTest(said=said[:40]):
                self.assertEqual(agent.read_story(text(said)), (said, [], []))
        self.assertEqual(agent.read_story(text("<think>hm</think> So.")), ("So.", [], []))
        for nothing in ({}, text(""), {"content": None}, {"content": 7}):
            self.assertEqual(agent.read_story(nothing), ("", [], []))

    def test_values_of_a_wrong_kind_count_as_none(self) -> None:
        self.assertEqual(
            agent.read_story(text('{"observation": 7, "bboxes": {}, "actions": "click"}')),
            ("", [], []),
        )

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
        actions = [
            {"name": "Move", "x1": 0, "y1": 0},
            CLICK,
            {"name": "right_click", "x1": 0, "y1": 1000},
            {"name": "double_click", "x1": 1000, "y1": 0},
            {"name": "drag", "x1": 0, "y1": 0, "x2": 1000, "y2": 1000},
            {"name": "type", "text": "Grüße 🐢"},
            {"name": "key", "key": "ctrl+s"},
            {"name": "scroll", "x1": 500, "y1": 500},
            {"name": "scroll_up"},
            {"name": " WAIT "},
        ]
        trial, _ = self.story(told(actions=actions), max_actions=20, drag_steps=1, scroll_ticks=1)
        left = [("button", "left", True), ("button", "left", False)]
        self.assertEqual(
            trial.inputs,
            [
                ("move", 0, 0),
                ("move", 32, 18),
                *left,
                ("move", 0, 35),
                ("button", "right", True),
                ("button", "right", False),
                ("move", 63, 0),
                *left,
                *left,
                ("move", 0, 0),
                left[0],
                ("move", 63, 35),
                left[1],
                ("text", "Grüße 🐢"),
                ("key", "ctrl", True),
                ("key", "s", True),
                ("key", "s", False),
                ("key", "ctrl", False),
                ("move", 32, 18),
                ("wheel", -120, False),
                ("move", 32, 18),
                ("wheel", 120, False),
            ],
        )
        self.assertEqual(
            [action["name"] for action in self.drawn(trial)[1]],
            [
                "move",
                "click",
                "right_click",
                "double_click",
                "drag",
                "type",
                "key",
                "scroll",
                "scroll_up",
                "wait",
            ],
        )

    def test_each_action_is_taken_on_a_frame_of_its_own(self) -> None:
        frames = list[int]()
        trial = self.trial(
            lambda request: told(actions=[CLICK, {"name": "key", "key": "a"}]), "story", max_steps=2
        )
        perform = trial.engine.actuator.perform
        trial.engine.actuator.perform = lambda act, frame: (
            frames.append(frame.number) or perform(act, frame)
        )
        trial.run()
        self.assertEqual((len(frames), len(set(frames))), (2, 2))

    def test_x2_and_y2_on_anything_but_a_drag_are_neither_executed_nor_drawn(self) -> None:
        for name in ("click", "move", "right_click", "double_click"):
            trial, _ = self.story(
                told(actions=[{"name": name, "x1": 500, "y1": 500, "x2": 900, "y2": 100}])
            )
            self.assertEqual(
                {entry[1:] for entry in trial.inputs if entry[0] == "move"},
                {(32, 18)},
            )
            self.assertEqual(self.drawn(trial)[1], [{"name": name, "x1": 500, "y1": 500}])

    def test_a_drag_of_no_length_and_a_place_off_the_grid_are_refused_told_and_never_drawn(
        self,
    ) -> None:
        cases = (
            ({"name": "drag", "x1": 5, "y1": 5, "x2": 5, "y2": 5}, "too close together"),
            ({"name": "drag", "x1": 5, "y1": 5}, "x2 is missing"),
            ({"name": "click", "x1": 1001, "y1": 5}, "x1 must be a whole number from 0 to 1000"),
            ({"name": "click", "x1": -1, "y1": 5}, "x1 must be"),
            ({"name": "click", "x1": 0.5, "y1": 5}, "x1 must be"),
            ({"name": "click", "x1": "five", "y1": 5}, "x1 must be"),
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
        replies = [told(actions=[action]) for action, _ in cases]
        trial, _ = self.story(*replies, told())
        self.assertEqual(trial.inputs, [])
        for number, (action, words) in enumerate(cases, 1):
            with self.subTest(action=action):
                self.assertEqual(self.drawn(trial)[number], [])
                request = trial.requests[number]
                note = request["messages"][-1]["content"][1]["text"]
                self.assertIn("Action 1 was not executed: ", note)
                self.assertIn(words, note)
                rgb, width, height = picture(request)
                self.assertFalse(
                    any(orange(rgb, width, x, y) for x in range(width) for y in range(0, height, 5))
                )

    def test_what_follows_a_refused_action_is_left_out(self) -> None:
        trial, _ = self.story(
            told(
                actions=[
                    CLICK,
                    {"name": "click", "x1": 5000, "y1": 5},
                    {"name": "type", "text": "no"},
                ]
            ),
            told(),
        )
        self.assertEqual([entry[0] for entry in trial.inputs], ["move", "button", "button"])
        self.assertEqual(self.drawn(trial)[1], [{"name": "click", "x1": 500, "y1": 500}])
        self.assertIn("Action 2 was not executed", str(trial.requests[1]["messages"][-1]))

    def test_an_action_that_a_gate_refuses_is_not_drawn(self) -> None:
        for settings in ({"blocked_windows": "Plain"}, {"confirm": "always"}):
            with self.subTest(settings=settings):
                trial, _ = self.story(told(actions=[CLICK, CLICK]), told(), **settings)
                self.assertEqual((trial.inputs, self.drawn(trial)[1]), ([], []))
                self.assertIn(
                    "Action 1 was not executed",
                    str(trial.requests[1]["messages"][-1]),
                )

    def test_a_risky_label_asks_and_a_missing_one_is_empty_for_every_gate(self) -> None:
        trial, _ = self.story(told("I look.", [{**CLICK, "label": "Delete all"}]), told())
        self.assertEqual(trial.inputs, [])
        self.assertIn("did not allow this (delete)", str(trial.requests[1]["messages"][-1]))
        for story in ("I press Delete.", "In order to open the Start menu I click."):
            for action in (CLICK, {"name": "click", "x1": 5, "y1": 5}):
                trial, _ = self.story(told(story, [action]), told())
                self.assertTrue(trial.inputs)

    def test_at_most_so_many_actions_and_boxes_a_turn(self) -> None:
        boxes = [{"x1": n, "y1": n, "x2": 900, "y2": 900} for n in range(9)]
        actions = [{"name": "click", "x1": 100 * n, "y1": 10} for n in range(9)]
        trial, _ = self.story(told("I look.", actions, boxes), told(), max_actions=3, max_bboxes=2)
        self.assertEqual(
            (len(self.drawn(trial)[1]), self.stages(trial)[1]["bboxes"]), (3, boxes[:2])
        )
        self.assertEqual(trial.inputs.count(("button", "left", True)), 3)
        self.assertIn(
            "Only 3 of 9 actions were carried out",
            str(trial.requests[1]["messages"][-1]),
        )
        told_next = str(trial.requests[1]["messages"][-1])
        self.assertRegex(told_next, "2 of 9 boxes")


class Marks(StoryCase):
    base = FEWER_REQUESTS

    def test_the_picture_shows_the_screen_after_the_actions_with_heat_where_they_were(self) -> None:
        trial, _ = self.story(told(actions=[{"name": "click", "x1": 250, "y1": 500}]), told())
        rgb, width, height = picture(trial.requests[1])
        self.assertEqual((width, height), (320, 180))
        self.assertTrue(orange(rgb, width, 80, 90))
        self.assertFalse(orange(rgb, width, 240, 90))
        raw = agent.png_to_rgb((trial.folder / "turn_0002_raw.png").read_bytes())[0]
        self.assertFalse(orange(raw, width, 80, 90))

    def test_earlier_turns_fade_and_leave_after_the_trail(self) -> None:
        click = told(actions=[{"name": "click", "x1": 250, "y1": 500}])
        trial, _ = self.story(click, told(), told(), told(), told(), marks_trail_turns=3)
        warmth = []
        for request in trial.requests[1:]:
            rgb, width, _ = picture(request)
            red, _, blue = rgb[(90 * width + 80) * 3 :][:3]
            warmth.append(red - blue)
        self.assertGreater(warmth[0], warmth[1])
        self.assertGreater(warmth[1], warmth[2])
        self.assertGreater(warmth[2], 0)
        self.assertEqual(warmth[3:], [0, 0])

    def test_without_a_trail_only_this_turns_marks_are_drawn(self) -> None:
        trial, _ = self.story(
            told(actions=[{"name": "click", "x1": 250, "y1": 500}]),
            told(),
            told(),
            marks_trail_turns=1,
        )
        self.assertEqual(
            [orange(picture(r)[0], 320, 80, 90) for r in trial.requests],
            [False, True, False, False],
        )

    def test_a_wrong_look_of_the_marks_is_said_before_anything_is_done(self) -> None:
        with self.assertRaisesRegex(agent.ConfigError, "marks_border"):
            self.story(told(actions=[CLICK]), marks_border="blue")

    def test_a_secret_is_grey_in_both_pictures_and_nameless_in_the_words(self) -> None:
        rest = iter(
            [
                told("I type it.", [{"name": "type", "text": "{{PIN}}"}]),
                told("It says hunter2, I think."),
            ]
        )
        settings: Json = {
            "max_steps": 3,
            "screen_capture_w": 320,
            "screen_capture_h": 180,
            "confirm": "never",
        }
        trial = self.trial(lambda request: next(rest, told("End.")), "story", **settings)
        secrets = agent.Secrets({"PIN": "hunter2"})
        trial.hidden = secrets
        trial.desktop = White(trial.clock)
        trial.run()
        self.assertIn(("text", "hunter2"), trial.inputs)
        rgb, _, _ = picture(trial.requests[-1])
        self.assertIn(b"\x80" * 300, rgb)
        written = (trial.folder / "turns.jsonl").read_text() + json.dumps(trial.requests)
        self.assertNotIn("hunter2", written)
        self.assertEqual(trial.requests[-1]["messages"][2]["content"], "It says {{PIN}}, I think.")
        self.assertEqual(self.drawn(trial)[1], [{"name": "type", "text": "{{PIN}}"}])


class Files(StoryCase):
    base = FEWER_REQUESTS

    def test_flat_leaves_two_records_and_two_pictures_a_turn_beside_the_log(self) -> None:
        box = {"x1": 1, "y1": 2, "x2": 300, "y2": 400}
        trial, _ = self.story(told("I click.", [CLICK], [box]), told())
        raw, annotated = self.stages(trial)[1], self.stages(trial, "annotated")[1]
        wanted = {
            "turn": 2,
            "stage": "raw",
            "observation": "I click.",
            "bboxes": [box],
            "actions": [{"name": "click", "x1": 500, "y1": 500}],
            "raw_png": "turn_0002_raw.png",
        }
        self.assertEqual(raw, raw | wanted)
        self.assertEqual(
            annotated, annotated | {"turn": 2, "annotated_png": "turn_0002_annotated.png"}
        )
        for number in (1, 2, 3):
            for stage in ("raw", "annotated"):
                agent.png_to_rgb((trial.folder / f"turn_{number:04d}_{stage}.png").read_bytes())

    def test_turn_dirs_gives_every_turn_a_folder_with_the_described_names(self) -> None:
        trial, _ = self.story(told("I click.", [CLICK]), log_layout="turn_dirs")
        folder = trial.folder / "turn_0002"
        self.assertEqual(
            sorted(os.listdir(folder)),
            ["screenshot_annotated.png", "screenshot_raw.png", "vlm_output.json"],
        )
        output = json.loads((folder / "vlm_output.json").read_bytes())
        self.assertEqual(
            output,
            {
                "observation": "I click.",
                "bboxes": [],
                "actions": [{"name": "click", "x1": 500, "y1": 500}],
                "asked": [{"action": CLICK, "became": "done"}],
            },
        )
        self.assertEqual(self.stages(trial)[1]["raw_png"], "turn_0002/screenshot_raw.png")
        self.assertFalse(list(trial.folder.glob("turn_*.png")))

    def test_every_look_in_the_journal_names_a_picture_that_is_there(self) -> None:
        for layout in ("flat", "turn_dirs"):
            trial, _ = self.story(told("I click.", [CLICK]), log_layout=layout)
            looks = [r["screenshot"] for r in trial.records("look")]
            self.assertEqual(len(looks), 3)  # one before the click
            self.assertTrue(all((trial.folder / name).is_file() for name in looks), looks)

    def test_another_layout_is_refused(self) -> None:
        with self.assertRaises(agent.ConfigError):
            agent.load_config({"test": {"log_layout": "deep"}})


class Since(StoryCase):
    def test_nothing_is_done_in_a_window_that_came_up_while_the_model_was_thinking(self) -> None:
        windows = [
            agent.Window(1, "Editor", "e.exe", agent.Rect(0, 0, 64, 36)),
            agent.Window(2, "Bank", "b.exe", agent.Rect(0, 0, 64, 36)),
        ]
        front = [windows[0]]

        def decide(request: Json) -> Json:
            front[0] = windows[
                len(trial.requests) > 1
            ]  # the other one comes up during the second request
            return told("I type.", [{"name": "type", "text": "a letter"}])

        trial = self.trial(decide, "story", max_steps=4, screen_capture_w=320, screen_capture_h=180)
        trial.desktop.foreground = lambda: front[0]
        trial.run()
        self.assertEqual(
            [kind for kind, *_ in trial.inputs].count("text"), 2
        )  # before, and once it was seen
        self.assertIn("has come up since your picture", str(trial.requests[2]["messages"][-1]))
        self.assertEqual([len(turn) for turn in self.drawn(trial)], [0, 1, 0, 1])


class Hostile(StoryCase):
    def test_a_script_tag_ansi_codes_and_a_megabyte_are_data(self) -> None:
        for words in (
            "<script>alert(1)</script>",
            "\x1b[31mred\x1b]0;title\x07",
            "x" * 1_000_000,
            "\ud83d half",
            "../../etc",
        ):
            with self.subTest(words=words[:20]):
                trial, _ = self.story(told(words, [CLICK]), told(words), log_layout="turn_dirs")
                self.assertNotIn("\x1b", trial.log())
                self.assertLessEqual(len(trial.requests[-1]["messages"][2]["content"]), 1500)
                self.assertEqual(len(self.drawn(trial)[1]), 1)

    def test_thousands_of_actions_and_boxes_are_cut_to_their_limits(self) -> None:
        count = sample(20_000, 2_000)
        many = {
            "observation": "x",
            "bboxes": [{"x1": 1, "y1": 1, "x2": 2, "y2": 2}] * count,
            "actions": [CLICK] * count,
        }
        trial, _ = self.story(text(json.dumps(many)), told())
        self.assertEqual((len(self.drawn(trial)[1]), len(self.stages(trial)[1]["bboxes"])), (5, 8))


class ThePanel(StoryCase):
    base = FEWER_REQUESTS

    def png(self) -> bytes:
        return agent.rgb_to_png(b"\x01\x02\x03" * (320 * 180), 320, 180)

    def test_it_gets_the_raw_picture_with_the_marks_and_its_picture_goes_to_the_model(self) -> None:
        panel = FakePanel(lambda seq, timeout: self.png())
        box = {"x1": 1, "y1": 2, "x2": 300, "y2": 400}
        trial, _ = self.story(
            told("I click.", [CLICK], [box]),
            told("Again.", [CLICK]),
            panel=panel,
            described=True,
        )
        self.assertEqual(panel.waited, [1, 2, 3])
        self.assertEqual({picture(request)[0][:3] for request in trial.requests}, {b"\x01\x02\x03"})
        mark = [{"name": "click", "x1": 500, "y1": 500}]
        shown = [entry for entry in panel.shown if entry[4]]
        self.assertEqual(shown[1][1:], (2, mark, [box], "I click."))
        self.assertEqual(shown[2][1:], (3, mark, [], "Again."))
        raw = (trial.folder / "turn_0002_raw.png").read_bytes()
        self.assertEqual(agent.png_to_rgb(shown[1][0]), agent.png_to_rgb(raw))
        self.assertEqual((trial.folder / "turn_0002_annotated.png").read_bytes(), self.png())

    def test_after_its_time_the_program_draws_the_marks_and_says_so_every_turn(self) -> None:
        waits = list[float]()
        panel = FakePanel(lambda seq, timeout: waits.append(timeout))  # type: ignore[func-returns-value]
        trial, _ = self.story(told(actions=[CLICK]), told(), panel=panel, described=True)
        self.assertEqual(
            (waits, sum("so the program drew the marks" in line for line in self.lines)),
            ([20.0] * 3, 3),
        )
        rgb, width, _ = picture(trial.requests[1])
        self.assertTrue(orange(rgb, width, 157, 90))

    def test_without_a_panel_nothing_is_said_about_one(self) -> None:
        trial, _ = self.story(told(actions=[CLICK]))
        self.assertNotIn("panel", "\n".join(self.lines).lower())

    def test_a_reply_that_is_handed_in_takes_the_place_of_the_models_with_described_alone(
        self,
    ) -> None:
        for described, pressed in ((True, "b"), (False, "")):
            panel = FakePanel()
            panel.injected = [told("Begin.")["content"]]
            rest = iter([told("The model's."), told("The next.")])

            def decide(request: Json, panel: FakePanel = panel, rest: Any = rest) -> Json:
                by_hand = told("By hand.", [{"name": "key", "key": "b"}])
                panel.injected = panel.injected or [by_hand["content"]]
                return next(rest, told("End."))

            trial = self.trial(decide, "story", max_steps=3, described=described)
            watch(trial, panel)
            trial.run()
            keys = [event[1] for event in trial.inputs if event[0] == "key" and event[2]]
            self.assertEqual(keys[:1], [pressed] if pressed else [])

    def test_a_stop_while_it_waits_for_the_panel_ends_the_run(self) -> None:
        def draw(seq: int, timeout: float) -> None:
            raise agent.Stopped("Stopped: test.")

        with self.assertRaises(agent.Stopped):
            self.story(told(), panel=FakePanel(draw), described=True)


class ARealPanel(StoryCase):
    """The program's own panel, with a thread in the place of its page."""

    base = FEWER_REQUESTS

    def page(
        self, panel: agent.Panel, over: threading.Event, statuses: list[int], offset: int = 0
    ) -> None:
        """Posts an inverted picture whenever one is awaited, first under a seq that is `offset` away."""
        address, token = panel.url.removeprefix("http://").split("/#")
        headers = {
            "Authorization": f"Bearer {token}",
            "Origin": f"http://{address}",
            "Content-Type": "application/json",
        }

        def ask(method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
            with contextlib.closing(http.client.HTTPConnection(address, timeout=5)) as connection:
                connection.request(method, path, json.dumps(body) if body else None, headers)
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read() or b"{}")

        with contextlib.suppress(OSError):  # the run is over
            while not over.wait(0.01):
                state = ask("GET", "/state")[1]
                self.asked.set()
                if state["phase"] == "waiting_annotated":
                    rgb, width, height = agent.png_to_rgb(base64.b64decode(state["raw_b64"]))
                    png = agent.rgb_to_png(bytes(255 - value for value in rgb), width, height)
                    image = base64.b64encode(png).decode()
                    for seq in {state["pending_seq"] + offset: 1, state["pending_seq"]: 1}:
                        statuses.append(
                            ask("POST", "/annotated", {"seq": seq, "image_b64": image})[0]
                        )

    def with_page(self, offset: int) -> tuple[Any, list[int]]:
        trial = self.trial(
            lambda request: told("I click.", [CLICK]), "story", max_steps=3, described=True
        )
        panel = watch(trial, a_panel(trial))
        over = threading.Event()
        self.asked = threading.Event()
        statuses: list[int] = []
        page = threading.Thread(target=self.page, args=(panel, over, statuses, offset))
        page.start()
        try:
            self.assertTrue(self.asked.wait(60))
            trial.run()
        finally:
            over.set()
            panel.close()
            page.join()
        return trial, statuses

    def test_the_pages_picture_goes_to_the_model_turn_by_turn(self) -> None:
        trial, statuses = self.with_page(0)
        self.assertEqual(statuses.count(200), 3)
        for number, request in enumerate(trial.requests, 1):
            raw = agent.png_to_rgb((trial.folder / f"turn_{number:04d}_raw.png").read_bytes())[0]
            self.assertEqual(picture(request)[0], bytes(255 - value for value in raw))

    def test_a_wrong_seq_is_refused_and_the_run_goes_on_with_the_right_one(self) -> None:
        _, statuses = self.with_page(7)
        self.assertEqual((statuses.count(200), set(statuses)), (3, {200, 409}))
        self.assertNotIn("the program drew the marks", "\n".join(self.lines))

    def test_what_is_drawn_in_the_panel_is_what_was_executed(self) -> None:
        trial = self.trial(
            lambda request: told("I click.", [CLICK, {"name": "click", "x1": 5000, "y1": 1}]),
            "story",
            max_steps=2,
            described=True,
        )
        panel = watch(trial, a_panel(trial))
        self.addCleanup(panel.close)
        trial.run()
        state: Any = panel.answer("GET /state", b"")[1]
        self.assertEqual(state["actions"], [{"name": "click", "x1": 500, "y1": 500}])
        self.assertEqual(state["observation"], "I click.")


class Beginning(StoryCase):
    def test_the_boot_output_is_what_counts_as_the_first_reply(self) -> None:
        boot = json.dumps(
            {"observation": "I draw.", "bboxes": [], "actions": [{"name": "key", "key": "a"}]}
        )
        trial, _ = self.story(boot_vlm_output=boot)
        self.assertEqual(trial.inputs, [("key", "a", True), ("key", "a", False)])
        self.assertEqual(trial.requests[0]["messages"][2]["content"], "I draw.")
        self.assertEqual(self.drawn(trial), [[{"name": "key", "key": "a"}]])

    def test_without_one_it_waits_for_what_the_panel_hands_in(self) -> None:
        panel = FakePanel()
        panel.injected = [None, None, told("Injected.")["content"]]
        trial, _ = self.story(panel=panel, boot_vlm_output="", described=True)
        observation = trial.requests[0]["messages"][1]["content"][0]["text"]
        self.assertEqual(observation, "Injected.")
        self.assertGreaterEqual(trial.clock.now(), 0.3)

    def test_while_it_waits_for_that_it_can_be_stopped(self) -> None:
        trial = self.trial(lambda request: told(), "story", boot_vlm_output="", described=True)
        watch(trial, FakePanel())
        sleep = trial.clock.sleep
        trial.clock.sleep = lambda seconds: (
            trial.stop.set("test") if trial.clock.now() > 5 else None,
            sleep(seconds),
        )
        with self.assertRaises(agent.Stopped):
            trial.run()
        self.assertEqual(trial.requests, [])

    def test_without_one_and_without_a_panel_it_looks_first(self) -> None:
        trial, _ = self.story(boot_vlm_output="")
        self.assertEqual(trial.requests[0]["messages"][2]["content"], "I look.")


class Ending(StoryCase):
    base = FEWER_REQUESTS

    def test_done_counts_when_a_fresh_look_confirms_the_observation(self) -> None:
        for verdict, kind in (
            ("YES: it says saved.", "completed"),
            ("NO: nothing is saved.", "max_steps"),
        ):
            trial, outcome = self.story(
                told("The title says Saved.", [{"name": "done"}]), text(verdict), told()
            )
            self.assertEqual(outcome.kind, kind)
            self.assertIn("CLAIM: The title says Saved.", str(trial.requests[1]))
        self.assertEqual(outcome.kind, "max_steps")
        self.assertIn(
            "not confirmed by a fresh look, not yet: Press the button (nothing is saved.)",
            str(trial.requests[2]["messages"][-1]),
        )

    def test_the_verifiers_picture_has_no_marks(self) -> None:
        click = {"name": "click", "x1": 250, "y1": 500}
        trial, _ = self.story(
            told("Saved.", [click]), told("Saved.", [{"name": "done"}]), text("YES")
        )
        rgb, width, _ = picture(trial.requests[2])
        self.assertFalse(orange(rgb, width, 80, 90))

    def test_nothing_is_done_after_done(self) -> None:
        trial, _ = self.story(told("Saved.", [{"name": "done"}, CLICK]), text("NO"), told())
        self.assertEqual(trial.inputs, [])

    def test_replies_without_actions_end_as_stuck(self) -> None:
        for reply in (
            told("I think."),
            text("no JSON"),
            text(""),
            told("Off.", [{"name": "click", "x1": 9999, "y1": 1}]),
        ):
            trial, outcome = self.story(*[reply] * 30, stall_stop=10)
            self.assertEqual(
                (outcome.kind, trial.state.turn <= 11, len(trial.requests) <= 11),
                ("stuck", True, True),
            )
        self.assertIn(
            "made no progress; do something different",
            str(trial.requests[-1]["messages"][-1]),
        )

    def test_a_dead_spot_leads_to_the_recovery_keys_and_to_stuck(self) -> None:
        trial = self.trial(
            lambda request: told("Again.", [CLICK]), "story", max_steps=40, stall_stop=10
        )
        trial.desktop.dead = True
        self.assertEqual(trial.run().kind, "stuck")
        self.assertIn(("key", "escape", True), trial.inputs)
        self.assertIn("The program pressed Escape", str(trial.requests))

    def test_it_goes_on_until_stopped_as_long_as_there_is_progress(self) -> None:
        self.assertEqual(agent.PROFILES["story"].settings["max_steps"], 100000)
        spot, turns = iter(range(1, 999)), sample(80, 30)
        trial = self.trial(
            lambda request: told("On.", [{"name": "click", "x1": next(spot), "y1": 5}]), "story"
        )
        sleep = trial.clock.sleep
        trial.clock.sleep = lambda seconds: (
            trial.stop.set("enough") if trial.state.turn > turns else None,
            sleep(seconds),
        )
        with self.assertRaises(agent.Stopped):
            trial.run()
        held = [entry for entry in trial.inputs if entry[0] == "button"]
        self.assertEqual(sum(1 if entry[2] else -1 for entry in held), 0)
        self.assertGreaterEqual(trial.state.turn, turns)


class GoingOn(StoryCase):
    def test_story_and_trail_come_back_from_the_journal_and_nothing_is_repeated(self) -> None:
        trial, _ = self.story(
            told("I clicked.", [CLICK]),
            told("Never done.", [{"name": "key", "key": "b"}]),
            max_steps=2,
        )
        trial.close()
        old = trial.folder
        again = self.trial(lambda request: told("On."), "story", old, max_steps=3)
        again.resume()
        self.assertEqual(
            (again.state.plan, again.state.trail),
            ("I clicked.", [[{"name": "click", "x1": 500, "y1": 500}], []]),
        )
        again.run()
        self.assertEqual(again.inputs, [])
        self.assertEqual(again.requests[0]["messages"][2]["content"], "I clicked.")

    def test_an_act_without_a_record_is_told_as_unknown(self) -> None:
        folder = self.folder / "run_0001"
        folder.mkdir()
        intent = {"kind": "intent", "turn": 3, "tool": "type_text", "args": {"text": "hello"}}
        (folder / "turns.jsonl").write_text(json.dumps(intent) + "\n")
        trial = self.trial(lambda request: told("On."), "story", folder, max_steps=4)
        trial.resume()
        trial.run()
        self.assertIn(
            "Unknown: the program ended",
            str(trial.requests[0]["messages"][-1]),
        )


class TheDemo(CommandLineCase):
    def test_the_demo_completes_from_the_marked_pictures(self) -> None:
        for layout in ("flat", "turn_dirs"):
            code, out, _ = self.main(
                "--demo", "--profile", "story", "--set", f"log_layout={layout}"
            )
            self.assertEqual(code, 0, out)
            self.assertIn("completed: Notes shows its green mark", out)

    def test_it_can_be_resumed(self) -> None:
        self.main("--demo", "--profile", "story", "--max-steps", "3")
        code, out, _ = self.main("--demo", "--resume")
        self.assertEqual(code, 0, out)
        self.assertIn("Going on with run_0001 after turn 3.", out)


if __name__ == "__main__":
    unittest.main()
