"""A click is held against what Windows knows to be there, and what came of an act is read back."""

from __future__ import annotations

import contextlib
import io
import unittest
from dataclasses import replace
from typing import Any
from unittest import mock

import agent
from agent import Control, KnownControls, Rect
from tests import scripted
from tests.fakes import FakeWin32
from tests.scripted import PLAN, EngineCase, Trial, call, role_of, user_text
from tests.seams import act, clock_of_main, desktop_of_main

# The plain desktop has 64x36 pixels.
SAVE = Control("Save", "button", Rect(0, 0, 20, 10), window=1)
CANCEL = Control("Cancel", "button", Rect(30, 0, 20, 10), window=1)
WINDOW = Control("Plain", "window", Rect(0, 0, 64, 36), window=1)
ON_CANCEL = [600, 100]
ON_SAVE = [150, 100]


def click(label: str, position: list[int]) -> dict[str, Any]:
    return call("click_screen_element", element_name=label, position=position, reasoning="as told")


class ControlCase(EngineCase):
    def run_turn(
        self, replies: list[dict[str, Any]], known: list[Control], **settings: Any
    ) -> tuple[Trial, agent.AgentState, list[dict[str, Any]]]:
        """One turn of the executor, which answers with these replies; and its requests.

        What the verifier is told at the end of the run stands in `self.facts`.
        """
        left = list(replies)
        requests: list[dict[str, Any]] = []

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role_of(request) == "verifier":
                self.facts = user_text(request).partition("FACTS:\n")[2].partition("\n\n")[0]
                return scripted.text("1 NO: no")
            requests.append(request)
            return PLAN if role_of(request) == "planner" else left.pop(0)

        trial = self.trial(decide, **{"max_steps": 1, **settings})
        trial.desktop.control_source = KnownControls([*known, WINDOW])
        trial.state.execution_instructions = "Go on"
        trial.state.execution_instructions = "Click Save."
        trial.run()
        return trial, trial.state, requests

    @staticmethod
    def pressed(trial: Trial) -> list[tuple[Any, ...]]:
        """Where the button went down."""
        desktop = trial.desktop
        places = []
        place: tuple[Any, ...] = ()
        for item in desktop.inputs:
            place = item if item[0] == "move" else place
            if item[0] == "button" and item[2]:
                places.append(place[1:])
        return places


class TheCheckBeforeAClick(ControlCase):
    def test_a_click_on_another_control_is_told_at_once_and_not_done(self) -> None:
        replies = [click("Save", ON_CANCEL), click("Save", ON_SAVE)]
        trial, state, requests = self.run_turn(replies, [SAVE, CANCEL])
        self.assertEqual(len(requests), 2)
        self.assertEqual(trial.state.turn, 1)  # it costs no turn
        said = requests[1]["messages"][-1]["content"]
        self.assertEqual(
            said, "At [600, 100] is 'Cancel'. 'Save' is at [159, 143]. Nothing was done."
        )
        self.assertEqual(requests[1]["messages"][:2], requests[0]["messages"])  # the cached prompt
        self.assertEqual(len(self.pressed(trial)), 1)
        self.assertTrue(SAVE.rect.contains(agent.Point(*self.pressed(trial)[0])))

    def test_the_second_time_the_model_has_its_way(self) -> None:
        replies = [click("Save", ON_CANCEL), click("Save", ON_CANCEL)]
        trial, state, requests = self.run_turn(replies, [SAVE, CANCEL])
        self.assertEqual(len(requests), 2)
        self.assertTrue(CANCEL.rect.contains(agent.Point(*self.pressed(trial)[0])))
        self.assertEqual(trial.history[-1].result, "Clicked 'Cancel' (button), not 'Save'")

    def test_a_click_that_agrees_goes_on(self) -> None:
        for label in ("Save", "save button", "&Save..."):
            with self.subTest(label=label):
                trial, _, requests = self.run_turn([click(label, ON_SAVE)], [SAVE, CANCEL])
                self.assertEqual(len(requests), 1)
                result = trial.history[-1].result
                self.assertEqual(result, "Clicked 'Save' (button)")

    def test_where_no_control_or_more_than_one_agrees_it_goes_on_and_names_what_was_there(
        self,
    ) -> None:
        other = Control("Save", "button", Rect(0, 20, 20, 10), window=1)
        for known in ([CANCEL], [SAVE, CANCEL, other]):
            with self.subTest(known=len(known)):
                trial, _, requests = self.run_turn([click("Save", ON_CANCEL)], known)
                self.assertEqual(len(requests), 1)
                result = trial.history[-1].result
                self.assertEqual(result, "Clicked 'Cancel' (button), not 'Save'")

    def test_a_text_area_that_would_be_a_button_is_told_where_the_only_field_is(self) -> None:
        page = Control("", "edit", Rect(0, 12, 64, 24), window=1)
        replies = [click("text area", ON_CANCEL), click("text area", [500, 700])]
        trial, _, requests = self.run_turn(replies, [page, SAVE, CANCEL])
        said = requests[1]["messages"][-1]["content"]
        self.assertEqual(
            said, "At [600, 100] is 'Cancel'. The edit field is at [508, 686]. Nothing was done."
        )
        self.assertEqual(len(self.pressed(trial)), 1)
        other = Control("", "edit", Rect(0, 30, 10, 6), window=1)
        for known in ([CANCEL], [page, other, CANCEL]):  # no field, or one of two
            _, _, requests = self.run_turn([click("text area", ON_CANCEL)], known)
            self.assertEqual(len(requests), 1)

    def test_a_control_without_a_name_is_no_reason_to_ask(self) -> None:
        nameless = Control("", "button", CANCEL.rect, window=1)
        trial, _, requests = self.run_turn([click("Save", ON_CANCEL)], [SAVE, nameless])
        self.assertEqual(len(requests), 1)
        self.assertEqual(trial.history[-1].result, "Clicked: Save")

    def test_one_that_something_covers_or_that_is_out_of_the_picture_is_not_offered(self) -> None:
        cover = Control("Help", "pane", SAVE.rect, window=1)
        outside = Control("Save", "button", Rect(100, 0, 20, 10), window=1)
        for known in ([cover, SAVE, CANCEL], [outside, CANCEL]):
            _, _, requests = self.run_turn([click("Save", ON_CANCEL)], known)
            self.assertEqual(len(requests), 1)

    def test_a_caption_of_the_same_name_counts_for_nothing(self) -> None:
        caption = Control("Save", "text", Rect(0, 20, 20, 10), window=1)
        replies = [click("Save", ON_CANCEL), click("Save", ON_SAVE)]
        _, _, requests = self.run_turn(replies, [caption, SAVE, CANCEL])
        self.assertEqual(len(requests), 2)

    def test_switched_off_it_says_nothing(self) -> None:
        trial, _, requests = self.run_turn(
            [click("Save", ON_CANCEL)], [SAVE, CANCEL], controls="off"
        )
        self.assertEqual(len(requests), 1)
        self.assertEqual(trial.history[-1].result, "Clicked: Save")

    def test_a_single_correction_is_used_before_the_act_is_refused(self) -> None:
        misses = [click("Save", ON_CANCEL)] * 2
        _, _, requests = self.run_turn(misses, [SAVE, CANCEL], reply_corrections=1)
        self.assertEqual(len(requests), 2)

    def test_without_corrections_left_the_act_is_refused_with_the_same_words(self) -> None:
        trial, state, _ = self.run_turn(
            [click("Save", ON_CANCEL)], [SAVE, CANCEL], reply_corrections=0
        )
        self.assertEqual(self.pressed(trial), [])
        result = trial.history[-1].result
        self.assertTrue(result.startswith("Not done: At [600, 100] is 'Cancel'."), result)

    def test_after_an_act_the_same_miss_is_told_again(self) -> None:
        misses = [click("Save", ON_CANCEL)] * 2
        trial, state, requests = self.run_turn([*misses, *misses], [SAVE, CANCEL], max_steps=2)
        self.assertEqual(len(requests), 4)
        self.assertEqual(len(self.pressed(trial)), 2)

    def test_a_secret_in_a_name_is_hidden(self) -> None:
        secret = Control("hunter22", "button", CANCEL.rect, window=1)
        trial = self.trial(lambda _: PLAN)
        trial.hidden = agent.Secrets({"PASS": "hunter22"})
        trial.desktop.control_source = KnownControls([secret, WINDOW])
        deed = trial.perform(act("click", element_name="Save", position=ON_CANCEL), trial.look())
        self.assertEqual(deed.result, "Clicked '{{PASS}}' (button), not 'Save'")


class OtherLoops(ControlCase):
    def test_in_a_chat_it_is_a_refused_act_and_obeyed_the_second_time(self) -> None:
        replies = [call("observe_screen")]
        replies += [call("click_element", label="Save", x=600, y=100)] * 2
        replies += [scripted.text("Saved.")]
        server: list[dict[str, Any]] = []

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            server.append(request)
            return replies.pop(0)

        trial = self.trial(decide, "chat")
        trial.desktop.control_source = KnownControls([SAVE, CANCEL, WINDOW])
        trial.run()
        told = [
            message["content"] for message in server[-1]["messages"] if message["role"] == "tool"
        ]
        self.assertIn("At [600, 100] is 'Cancel'. 'Save' is at [159, 143]", told[-2])
        self.assertIn("Clicked 'Cancel' (button), not 'Save'", told[-1])
        self.assertEqual(len(self.pressed(trial)), 1)

    def test_a_grammar_without_names_is_told_what_it_hit_and_never_stopped(self) -> None:
        trial = self.trial(lambda _: PLAN, "native", executor_grammar="qwen3-vl")
        trial.desktop.control_source = KnownControls([SAVE, CANCEL, WINDOW])
        clicked = act("click", element_name="I click Save now.", position=ON_CANCEL)
        deed = trial.perform(clicked, trial.look(1), 1)
        self.assertEqual(deed.result, "Clicked 'Cancel' (button)")


class TheWorker(unittest.TestCase):
    def test_it_is_started_with_the_run_and_ended_with_it_unless_controls_are_off(self) -> None:
        for setting, done in (
            ("off", []),
            ("check", ["query", "close"]),
            ("list", ["query", "close"]),
        ):
            worker = mock.create_autospec(agent.ControlsWorker, instance=True)

            def desktop(clock: Any, worker: Any = worker) -> agent.WindowsDesktop:
                made = agent.WindowsDesktop(FakeWin32().api, clock)
                made.control_source = worker
                return made

            nobody = "--endpoint http://127.0.0.1:9/v1 --set request_retries=0 --set controls="
            with (
                self.subTest(setting),
                desktop_of_main(desktop),
                clock_of_main(),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                self.assertEqual(agent.main([*(nobody + setting).split(), "a task"]), 3)
            self.assertEqual([name for name, *_ in worker.method_calls], done)


class TheGates(ControlCase):
    """What a control is in truth counts for them, whatever the model calls it."""

    def perform(self, known: list[Control], name: str, /, **arguments: Any) -> Any:
        settings = arguments.pop("settings", {})
        trial = self.trial(lambda _: PLAN, **settings)
        trial.desktop.control_source = KnownControls([*known, WINDOW])
        self.questions: list[str] = []
        trial.ask(lambda question: bool(self.questions.append(question)))
        self.used = trial
        meant = trial.profile.vocabulary.parse(agent.ToolCall(name, arguments))
        return trial.perform(meant, trial.look(1), 1)

    def test_a_button_whose_true_name_is_a_risk_asks(self) -> None:
        delete = Control("Delete", "button", SAVE.rect, window=1)
        deed = self.perform(
            [delete], "click_screen_element", element_name="next", position=ON_SAVE, reasoning=""
        )
        self.assertEqual(deed.refused, "not_allowed")
        self.assertIn("which is 'Delete'", self.questions[0])
        self.assertLessEqual(len(self.questions[0]), 300)

    def test_the_name_of_a_window_or_of_nothing_known_is_no_risk(self) -> None:
        window = Control("Delete the file?", "window", SAVE.rect, window=1)
        place = {"element_name": "next", "position": ON_SAVE, "reasoning": ""}
        for known in ([window], []):
            self.assertEqual(self.perform(known, "click_screen_element", **place).refused, "")

    def test_a_password_field_takes_secrets_by_name_only(self) -> None:
        edit = Control("Word", "edit", Rect(0, 20, 60, 10), focused=True, password=True, window=1)
        deed = self.perform([edit], "type_text_input", text="hunter2")
        self.assertEqual((deed.refused, deed.begun), ("password_field", False))
        for key in ("h", "shift+h", "num7", "numpad0", "space", "numadd"):
            deed = self.perform([edit], "press_keyboard_key", key=key)
            self.assertEqual(deed.refused, "password_field", key)
        allowed = {"allow_risky": "secret"}
        deed = self.perform([edit], "type_text_input", text="{{PASS}}", settings=allowed)
        self.assertEqual(deed.refused, "")
        allowed = {"allow_risky": "password"}
        deed = self.perform([edit], "type_text_input", text="hunter2", settings=allowed)
        self.assertEqual(deed.refused, "")

    def test_the_place_of_a_password_field_is_grey_from_the_first_key(self) -> None:
        edit = Control("Word", "edit", Rect(0, 20, 60, 10), focused=True, password=True, window=1)
        allowed = {"allow_risky": "password"}
        self.perform([edit], "type_text_input", text="hunter2", settings=allowed)
        places = self.used.records("secret")
        self.assertEqual(places[0]["box"], [0, 20, 60, 10])

    def test_a_control_of_a_blocked_program_is_out_of_reach_whatever_shows_it(self) -> None:
        inside = Control("Save", "button", SAVE.rect, window=1, program="bank.exe")
        blocked = {"blocked_windows": "bank.exe"}
        deed = self.perform(
            [inside],
            "click_screen_element",
            element_name="Save",
            position=ON_SAVE,
            reasoning="",
            settings=blocked,
        )
        self.assertEqual(deed.refused, "forbidden_window")
        typed = replace(inside, focused=True)
        deed = self.perform([typed], "type_text_input", text="x", settings=blocked)
        self.assertEqual(deed.refused, "forbidden_window")


class TheList(ControlCase):
    def test_it_stands_in_the_question_with_what_is_useful_first(self) -> None:
        text = Control("Hint", "text", Rect(0, 25, 20, 5), window=1)
        off = Control("Old", "button", Rect(30, 25, 20, 5), enabled=False, window=1)
        _, _, requests = self.run_turn([click("Save", ON_SAVE)], [text, off, SAVE], controls="list")
        told = user_text(requests[0])
        self.assertIn("Save · button · 159,143\nHint · text · ", told)
        self.assertLess(told.index("Hint · text"), told.index("Old · button"))
        _, _, requests = self.run_turn([click("Save", ON_SAVE)], [SAVE])
        self.assertNotIn("·", user_text(requests[0]))

    def test_it_is_bounded(self) -> None:
        for name, characters in (("Button", 1500), ("x" * 90, 1500)):
            many = [replace(SAVE, name=f"{number} {name}") for number in range(300)]
            _, _, requests = self.run_turn([click("Save", ON_SAVE)], many, controls="list")
            lines = [line for line in user_text(requests[0]).splitlines() if "· button ·" in line]
            self.assertEqual(len(lines) == 40, name == "Button")
            self.assertLessEqual(len("\n".join(lines)), characters)

    def test_without_vision_no_picture_is_sent(self) -> None:
        _, _, requests = self.run_turn([click("Save", ON_SAVE)], [SAVE], vision=False)
        self.assertNotIn("image_url", str(requests))
        self.assertIn("There is no picture", user_text(requests[0]))
        self.assertIn("Save · button", user_text(requests[0]))

    def test_without_vision_only_loops_that_list_controls_run(self) -> None:
        for profile, settings in (("chat", {}), ("native", {"executor_grammar": "qwen3-vl"})):
            with self.assertRaises(agent.ConfigError):
                self.trial(lambda _: PLAN, profile, vision=False, **settings)


class TheFacts(ControlCase):
    def test_the_verifier_hears_of_the_field_and_the_windows(self) -> None:
        edit = Control("Name", "edit", SAVE.rect, value="Hello", focused=True, window=1)
        self.run_turn([click("Name", ON_SAVE)], [edit])
        self.assertIn("The keyboard is in 'Name' (edit), which holds \"Hello\".", self.facts)
        self.assertIn('Open windows: "Plain".', self.facts)
        self.run_turn([click("Name", ON_SAVE)], [replace(edit, password=True)])
        self.assertNotIn("Hello", self.facts)


class WhatIsReadBack(ControlCase):
    def typed(self, known: list[Control], text: str = "Hello", **settings: Any) -> str:
        reply = call("type_text_input", text=text)
        trial, _, _ = self.run_turn([reply], known, **settings)
        return trial.history[-1].result

    def test_the_field_says_what_it_holds(self) -> None:
        edit = Control("Name", "edit", Rect(0, 20, 60, 10), value="Hello", focused=True, window=1)
        self.assertEqual(self.typed([edit]), 'Typed: Hello; the field now holds "Hello"')
        wrong = replace(edit, value="Hallo")
        self.assertEqual(
            self.typed([wrong]),
            'Typed: Hello; the field now holds "Hallo", which lacks what was typed',
        )
        empty = replace(edit, value="")
        self.assertIn("the field is empty now, which lacks", self.typed([empty]))

    def test_a_value_is_cut(self) -> None:
        edit = Control("Name", "edit", Rect(0, 20, 60, 10), value="Hello" * 99, focused=True)
        self.assertLess(len(self.typed([edit])), 130)

    def test_a_password_field_is_never_read(self) -> None:
        edit = Control(
            "Word", "edit", Rect(0, 20, 60, 10), value="Hello", focused=True, password=True
        )
        self.assertEqual(self.typed([edit], allow_risky="password"), "Typed: Hello")

    def test_a_field_that_a_secret_went_into_is_never_read_again(self) -> None:
        card = Control("Card", "edit", Rect(0, 20, 60, 10), focused=True, window=1)
        shown = replace(card, value="4711 0815 1234 5678")  # as the field groups its digits
        steps = [
            ("{{CARD}}x", shown),
            (" x", shown),  # whatever is typed there later
            (" x", replace(shown, rect=Rect(5, 20, 60, 10))),  # its window was moved
        ]
        trial, told = self.typing(steps)
        self.assertIn("The keyboard is in 'Card' (edit).", told)
        journal = (trial.folder / "turns.jsonl").read_text(encoding="utf-8")
        self.assertNotRegex(journal + str(trial.requests), "4711 ?0")  # "4711" is in some times
        # Another field is read as before.
        _, told = self.typing([*steps, (" x", replace(card, name="Town", value="4711 Bonn"))])
        self.assertIn("4711 Bonn", told)

    def typing(self, steps: list[tuple[str, Control]]) -> tuple[Trial, str]:
        """A run that types each text into its control, and what the verifier is told at its end."""
        left = list(steps)

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role_of(request) != "executor":
                return scripted.text("1 NO: no")
            typed, known = left.pop(0)
            trial.desktop.control_source = KnownControls([known, WINDOW])
            return call("type_text_input", text=typed)

        trial = self.trial(decide, allow_risky="secret", max_steps=len(steps))
        trial.hidden = agent.Secrets({"CARD": "4711081512345678"})
        trial.state.execution_instructions = "Go on"
        trial.run()
        return trial, user_text(trial.requests[-1])

    def test_where_a_button_has_the_keyboard_it_is_said(self) -> None:
        button = replace(SAVE, focused=True)
        self.assertEqual(
            self.typed([button]),
            "Typed: Hello; the keyboard was on 'Save' (button), which takes no text",
        )

    def test_no_focus_is_said_only_once_a_focus_was_known(self) -> None:
        edit = Control("Name", "edit", Rect(0, 20, 60, 10), value="Hello", focused=True, window=1)
        trial, state, _ = self.run_turn([call("type_text_input", text="Hello")], [])
        self.assertEqual(trial.history[-1].result, "Typed: Hello")
        typed = act("type_text", text="Hello")
        trial.desktop.control_source = KnownControls([edit])
        trial.perform(typed, trial.look(2), 2)
        trial.desktop.control_source = KnownControls([SAVE])
        deed = trial.perform(typed, trial.look(3), 3)
        self.assertIn("no control had the keyboard", deed.result)

    def test_a_checkbox_says_its_state_after_a_click(self) -> None:
        box = Control("Read only", "checkbox", SAVE.rect, checked=True, window=1)
        trial, _, _ = self.run_turn([click("Read only", ON_SAVE)], [box])
        result = trial.history[-1].result
        self.assertEqual(result, "Clicked 'Read only' (checkbox); it is checked now")

    def test_the_planner_s_history_has_it_too(self) -> None:
        replies = [click("Save", ON_CANCEL), click("Save", ON_CANCEL)]
        _, _, requests = self.run_turn(replies, [SAVE, CANCEL], max_steps=2, review_interval=1)
        told = user_text(requests[-1])
        self.assertIn("screen changed; 'Cancel' (button), not 'Save'", told)

    def test_the_journal_has_the_control_of_each_act_without_its_value(self) -> None:
        trial, _, _ = self.run_turn([click("Save", ON_SAVE)], [replace(SAVE, value="v")])
        self.assertEqual(
            trial.records("result")[-1]["targets"],
            [{"name": "Save", "role": "button", "rect": [0, 0, 20, 10], "window": 1}],
        )

    def test_a_desktop_that_knows_nothing_changes_nothing(self) -> None:
        trial, _, requests = self.run_turn([click("Save", ON_CANCEL)], [])
        self.assertEqual(trial.history[-1].result, "Clicked: Save")
        trial = self.trial(lambda _: PLAN)
        deed = trial.perform(act("click", element_name="Save", position=ON_SAVE), trial.look(1), 1)
        self.assertEqual((deed.result, deed.known), ("Clicked: Save", ""))
        self.assertIn("CURRENT_TURN", user_text(requests[0]))


if __name__ == "__main__":
    unittest.main()
