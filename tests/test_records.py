"""What a run leaves on record: who spoke with which prompt, the first picture, the hints, the fate of each action."""

from __future__ import annotations

import json
import re
from typing import Any
from unittest import mock

import agent
from tests.scripted import (
    FEWER_REQUESTS,
    PLAN,
    PROOF,
    EngineCase,
    Trial,
    call,
    page_items,
    role_of,
    text,
)
from tests.test_main import CommandLineCase
from tests.test_story import StoryCase, told

Json = dict[str, Any]
CLICK = call("click_screen_element", element_name="b", position=[500, 500])
DONE = call("report_mission_complete", evidence=PROOF)


def plan_and(acting: Json) -> Any:
    """A model whose planner gives one plan, whose executor says this, whose verifier agrees."""
    said = {"planner": PLAN, "executor": acting, "verifier": text("YES: it is pressed")}
    return lambda request: said[role_of(request)]


class RecordsCase(EngineCase):
    def run_of(self, decide: Any, profile: str = "planner", **settings: Any) -> Trial:
        """The trial of a run that is over."""
        trial = self.trial(decide, profile, **settings)
        self.begin(trial)
        self.outcome = trial.run()
        return trial

    def log_of(self, trial: Trial) -> str:
        return trial.log()

    def book_of(self, trial: Trial) -> list[Json]:
        return page_items(agent.book_of(trial.folder))


class Roles(RecordsCase):
    base = FEWER_REQUESTS

    def test_prompt_and_tools_of_each_role_stand_once_in_journal_and_log(self) -> None:
        trial = self.run_of(plan_and(CLICK), max_steps=6)
        kept = [part for record in trial.records("request") for part in record["parts"].values()]
        log = self.log_of(trial)
        for known in ("planner", "executor"):
            speaker = trial.profile.roles[known]
            prompt = {"role": "system", "content": trial.profile.system(speaker)}
            self.assertEqual(kept.count(prompt), 1)
            tools = trial.profile.schemas(speaker)
            self.assertEqual([part.get("tools") for part in kept].count(tools), 1)
            for tool in tools:
                self.assertEqual(log.count(json.dumps(tool, ensure_ascii=False)), 1)

    def test_they_stand_there_before_the_first_reply_to_them(self) -> None:
        for profile in agent.PROFILES:
            with self.subTest(profile):
                trial = self.run_of(lambda request: text("I wait."), profile, max_steps=2)
                known = set[str]()
                sent: list[str] = []
                for record in agent.read_journal(trial.folder).records:
                    if record.kind == "request":
                        sent = record.sent
                        known.update(record.parts)
                    if record.kind == "reply":
                        self.assertLessEqual(set(sent), known)
                self.assertTrue(known)


class Hints(RecordsCase):
    base = FEWER_REQUESTS

    def run_with_hint(self, hint: str = "press the green one") -> Trial:
        trial = self.trial(plan_and(CLICK), max_steps=3)
        self.begin(trial)
        hints = [[hint], [], []]
        inbox = mock.Mock(spec=agent.Panel, present=True)
        trial.hear(inbox)
        inbox.take_hints.side_effect = lambda: hints.pop(0) if hints else []
        trial.run()
        return trial

    def test_a_hint_is_in_the_journal_with_its_turn(self) -> None:
        (hint,) = self.run_with_hint().records("hint")
        self.assertEqual((hint["text"], hint["turn"]), ("press the green one", 1))

    def test_a_secret_in_a_hint_is_hidden(self) -> None:
        trial = self.trial(plan_and(DONE))
        trial.hidden = agent.Secrets({"PIN": "4711"})
        inbox = mock.Mock(spec=agent.Panel, present=True)
        trial.hear(inbox)
        inbox.take_hints.side_effect = [["it is 4711"], [], []]
        self.begin(trial)
        trial.run()
        self.assertNotIn("4711", (trial.folder / "turns.jsonl").read_text())
        self.assertEqual(trial.records("hint")[0]["text"], "it is {{PIN}}")

    def test_a_hint_between_a_correction_and_its_reply_does_not_hide_the_correction(self) -> None:
        answers = iter([PLAN, text("I click."), DONE, text("YES")])
        trial = self.trial(lambda request: next(answers))
        self.begin(trial)
        hints = iter([[], [], ["use the menu"], []])
        inbox = mock.Mock(spec=agent.Panel, present=True)
        trial.hear(inbox)
        inbox.take_hints.side_effect = lambda: next(hints)
        trial.run()
        figures = dict(agent.book_of(trial.folder).figures())
        self.assertEqual(figures["corrections"], "1")


def box(x1: Any, y1: Any, x2: Any, y2: Any) -> Json:
    return {"x1": x1, "y1": y1, "x2": x2, "y2": y2}


class StoryBoxes(StoryCase):
    def drawn_and_told(self, *boxes: Any, **settings: Any) -> tuple[list[Json], str]:
        """The boxes of a reply that are drawn, and the text beside the picture with them."""
        trial, _ = self.story(told(bboxes=list(boxes)), told(), **settings)
        request = trial.requests[1]["messages"][-1]
        words = [part.get("text", "") for part in request["content"]]
        return self.stages(trial)[1]["bboxes"], " ".join(words)

    def test_a_box_slightly_outside_is_brought_to_the_edge_and_the_model_is_told(self) -> None:
        for beyond in (1001, 1008.4, 1020):
            drawn, words = self.drawn_and_told(box(0, 0, 9, 9), box(900, 900, beyond, 950))
            self.assertEqual(drawn, [box(0, 0, 9, 9), box(900, 900, 1000, 950)])
            self.assertIn("Brought to the picture's edge: box 2.", words)

    def test_any_other_box_is_refused_with_a_word(self) -> None:
        for wrong in (box(0, 0, 1021, 9), box(-1, 0, 9, 9), box("a", 0, 9, 9), {"x1": 1}, 7):
            drawn, words = self.drawn_and_told(wrong, box(0, 0, 9, 9), wrong)
            self.assertEqual(drawn, [box(0, 0, 9, 9)])
            self.assertIn("Not drawn: box 1, 3; a box takes x1, y1, x2, y2, whole numbers", words)

    def test_of_good_boxes_nothing_is_said_and_of_too_many_how_many_are_drawn(self) -> None:
        good = box(0, 0, 9, 9)
        self.assertNotIn("box", self.drawn_and_told(good, good)[1].lower())
        drawn, words = self.drawn_and_told(good, good, good, max_bboxes=2)
        self.assertEqual(drawn, [good, good])
        self.assertIn("Only 2 of 3 boxes are drawn.", words)

    def test_the_note_on_a_thousand_bad_boxes_is_short(self) -> None:
        self.assertLess(len(self.drawn_and_told(*[7] * 1000)[1]), 250)

    def test_an_action_slightly_outside_is_still_refused(self) -> None:
        trial, _ = self.story(told(actions=[{"name": "click", "x1": 1001, "y1": 5}]))
        self.assertEqual(self.drawn(trial), [[], []])


class StoryFates(StoryCase):
    base = FEWER_REQUESTS

    GOOD = {"name": "click", "x1": 500, "y1": 500, "label": "Button"}
    BAD = {"name": "press", "key": "enter"}

    def fates(self, *actions: Any, **settings: Any) -> tuple[Any, list[Json]]:
        """The trial, and what the journal says of the actions as the model wrote them."""
        trial, _ = self.story(told(actions=list(actions)), **settings)
        return trial, self.stages(trial)[1]["asked"]

    def test_each_action_stands_as_written_beside_what_became_of_it(self) -> None:
        _, (one, two, three) = self.fates(self.GOOD, self.BAD, self.GOOD)
        self.assertEqual([one["action"], two["action"]], [self.GOOD, self.BAD])
        self.assertEqual(one["became"], "done")
        self.assertRegex(two["became"], "^refused: .*press")
        self.assertEqual(three["became"], "left out: the one before it was not done")

    def test_actions_beyond_the_most_are_left_out(self) -> None:
        _, asked = self.fates(self.GOOD, self.GOOD, "click", max_actions=2)
        self.assertEqual(asked[2], {"action": "click", "became": "left out: at most 2 a turn"})
        self.assertEqual([fate["became"] for fate in asked[:2]], ["done", "done"])

    def test_a_confirmed_completion_is_done(self) -> None:
        replies = iter([told(actions=[{"name": "done"}]), text("YES: it is")])
        trial = self.trial(lambda request: next(replies), "story", max_steps=3)
        self.begin(trial)
        self.assertEqual(trial.run().kind, "completed")
        (fate,) = self.stages(trial)[1]["asked"]
        self.assertEqual(fate, {"action": {"name": "done"}, "became": "done"})

    def test_the_same_stands_in_log_and_vlm_output(self) -> None:
        trial, asked = self.fates(self.GOOD, self.BAD, log_layout="turn_dirs")
        folder = trial.folder
        written = json.loads((folder / "turn_0002" / "vlm_output.json").read_bytes())
        self.assertEqual(written["asked"], asked)
        self.assertEqual(written["actions"], [{"name": "click", "x1": 500, "y1": 500}])
        log = (folder / "execution_log.txt").read_text(encoding="utf-8")
        self.assertIn(f"action: {json.dumps(self.GOOD)} -> done", log)
        self.assertIn(f"action: {json.dumps(self.BAD)} -> refused: ", log)


class Pictures(RecordsCase):
    def test_the_screen_before_turn_1_is_kept_as_turn_0000(self) -> None:
        for profile in ("planner", "commander"):
            trial = self.run_of(plan_and(CLICK), profile, max_steps=1)
            path = trial.folder / "screenshots" / "turn_0000.png"
            self.assertEqual(agent.png_to_rgb(path.read_bytes())[1:], (64, 64))
            self.assertIn("SAVED screenshots/turn_0000.png", self.log_of(trial))
            self.assertLess(
                self.log_of(trial).index("turn_0000"), self.log_of(trial).index("TURN 1")
            )

    def test_the_log_names_every_picture_that_is_saved(self) -> None:
        trial = self.run_of(plan_and(CLICK), max_steps=4)
        saved = re.findall(r"SAVED (.*)", self.log_of(trial))
        folder = trial.folder
        there = [path.relative_to(folder).as_posix() for path in folder.rglob("*.png")]
        self.assertEqual(sorted(saved), sorted(there))

    def test_it_is_no_turn_and_no_act_relies_on_it(self) -> None:
        trial = self.run_of(plan_and(CLICK), max_steps=3)
        self.assertEqual(sorted({item["turn"] for item in self.book_of(trial)}), [-1, 1, 2, 3])
        looks = [look["screenshot"] for look in trial.records("look")]
        self.assertNotIn("screenshots/turn_0000.png", looks)

    def test_a_resumed_run_keeps_the_first_one(self) -> None:
        first = self.run_of(plan_and(CLICK), max_steps=3)
        path = first.folder / "screenshots" / "turn_0000.png"
        before = path.stat().st_mtime_ns
        second = self.trial(plan_and(CLICK), old=first.folder, max_steps=5)
        second.resume()
        second.run()
        self.assertEqual(path.stat().st_mtime_ns, before)

    def test_a_chat_is_told_file_and_size_of_its_screenshot(self) -> None:
        trial = self.run_of(lambda request: text("It is done."), "chat")
        (request,) = trial.requests  # type: ignore[attr-defined]
        (answer,) = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        told_of = json.loads(answer)
        picture = (trial.folder / told_of["file"]).read_bytes()
        self.assertEqual(told_of["file"], "screenshots/screen_0001.png")
        self.assertEqual(told_of["size"], list(agent.png_to_rgb(picture)[1:]))
        self.assertEqual(told_of["screen_size"], [64, 36])


class Sections(RecordsCase):
    def headers(self, trial: Trial) -> list[str]:
        return re.findall(r"^=== (.*) ===$", self.log_of(trial), re.MULTILINE)

    def test_each_turns_header_says_its_mode(self) -> None:
        trial = self.run_of(plan_and(CLICK), max_steps=5, review_interval=2)
        self.assertEqual(
            self.headers(trial),
            [
                "TURN 1 - PLANNING",
                "TURN 2 - EXECUTION",
                "TURN 3 - EXECUTION",
                "TURN 4 - PLANNING",
                "TURN 5 - EXECUTION",
            ],
        )

    def test_a_commanders_planning_is_called_evaluation(self) -> None:
        plan = call("spawn_operator", operator_instructions="Click.", rationale="r")
        trial = self.run_of(lambda request: plan, "commander", max_steps=2)
        self.assertEqual(self.headers(trial), ["TURN 1 - EVALUATION", "TURN 2 - EXECUTION"])

    def test_the_state_behind_the_header_says_how_much_memory_holds(self) -> None:
        trial = self.run_of(plan_and(CLICK), max_steps=8, memory_compression_threshold=3)
        states = re.findall(r"STATE UPDATE (turn .* archives)", self.log_of(trial))
        self.assertEqual(states[0], "turn 1, 0 active actions, 0 archives")
        self.assertEqual(states[4], "turn 5, 3 active actions, 0 archives")
        self.assertEqual(states[5], "turn 6, 2 active actions, 1 archives")

    def test_archives_errors_and_requests_are_figures(self) -> None:
        replies = iter([PLAN, CLICK, CLICK, text("I click."), agent.ModelError("No.", "reset")])

        def decide(request: Json) -> Json:
            said = next(replies, CLICK)
            if isinstance(said, Exception):
                raise said
            return said

        trial = self.run_of(decide, max_steps=6, memory_compression_threshold=3)
        figures = dict(agent.book_of(trial.folder).figures())
        self.assertEqual(figures["archives"], str(len(trial.records("archive"))))
        self.assertEqual(figures["archives"], "1")
        lost = [*trial.records("no_call"), *trial.records("model_failed")]
        self.assertEqual(figures["errors"], str(len(lost)))
        self.assertEqual(figures["requests"], str(trial.engine.voice.requests))


class Debrief(CommandLineCase):
    def log_after(self, *arguments: str) -> str:
        self.main("--demo", *arguments)
        return (self.run_folder() / "execution_log.txt").read_text(encoding="utf-8")

    def test_the_log_begins_and_ends_with_the_described_sections(self) -> None:
        log = self.log_after()
        headers = re.findall(r"^=== (.*) ===$", log, re.MULTILINE)
        self.assertEqual(
            headers[:3], ["EXECUTION LOG START", "INITIALIZATION", "TURN 1 - PLANNING"]
        )
        self.assertEqual(headers[-2:], ["MISSION COMPLETE", "DEBRIEF"])
        setup, _, _ = log.partition("=== TURN 1")
        for named in ("max_steps=", "review_interval=", "planner_max_tokens=", "TASK: "):
            self.assertIn(named, setup)
        debrief = log.partition("=== DEBRIEF ===")[2]
        self.assertRegex(debrief, r"FINAL STATUS: completed: .")
        for figure in ("turns", "archives", "requests", "errors"):
            self.assertRegex(debrief, rf"    {figure}: \d+\n")

    def test_a_run_that_was_not_completed_has_a_debrief_too(self) -> None:
        log = self.log_after("--max-steps", "2")
        self.assertNotIn("MISSION COMPLETE", log)
        self.assertIn("FINAL STATUS: max_steps: Not completed within 2", log)
