"""A click is held against what Windows knows to be there, and what came of an act is read back."""

from __future__ import annotations

import itertools
import json
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent
from agent import Control, KnownControls, Rect, names_agree
from tests import scripted
from tests.scripted import PLAN, EngineCase, Trial, call, role_of, user_text
from tests.seams import act

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
        trial.state.execution_instructions = "Click Save."
        trial.run()
        return trial, trial.state, requests

    @staticmethod
    def pressed(trial: Trial) -> list[tuple[Any, ...]]:
        """Where the button went down."""
        pairs = itertools.pairwise(trial.desktop.inputs)
        return [move[1:] for move, event in pairs if event == ("button", "left", True)]


SAVE_BELOW = Control("Save", "button", Rect(0, 20, 20, 10), window=1)
CAPTION = Control("Save", "text", Rect(0, 20, 20, 10), window=1)
NAMELESS = Control("", "button", CANCEL.rect, window=1)
COVER = Control("Help", "pane", SAVE.rect, window=1)
OUTSIDE = Control("Save", "button", Rect(100, 0, 20, 10), window=1)
PAGE = Control("", "edit", Rect(0, 12, 64, 24), window=1)
BESIDE = Control("", "edit", Rect(0, 30, 10, 6), window=1)
BOX = Control("Read only", "checkbox", SAVE.rect, checked=True, window=1)
MISS, HIT = click("Save", ON_CANCEL), click("Save", ON_SAVE)
AREA = click("text area", ON_CANCEL)
TOLD = "At [600, 100] is 'Cancel'. 'Save' is at [159, 143]. Nothing was done."
FIELD_TOLD = "At [600, 100] is 'Cancel'. The edit field is at [508, 686]. Nothing was done."
MISSED = "Clicked 'Cancel' (button), not 'Save'"
SAVED = "Clicked 'Save' (button)"
# What the executor answers, the controls that are known, settings; what it is told instead of a click, once for each
# time, and the last result.
CHECKS: list[tuple[list[Any], list[Control], dict[str, Any], list[str], str]] = [
    ([MISS, HIT], [SAVE, CANCEL], {}, [TOLD], SAVED),
    ([MISS, MISS], [SAVE, CANCEL], {}, [TOLD], MISSED),  # the second time the model has its way
    ([MISS] * 4, [SAVE, CANCEL], {"max_steps": 2}, [TOLD] * 2, MISSED),  # after an act anew
    ([MISS, MISS], [SAVE, CANCEL], {"reply_corrections": 1}, [TOLD], MISSED),
    ([MISS], [SAVE, CANCEL], {"reply_corrections": 0}, [], f"Not done: {TOLD}"),
    ([MISS], [SAVE, CANCEL], {"controls": "off"}, [], "Clicked: Save"),
    *(([click(label, ON_SAVE)], [SAVE, CANCEL], {}, [], SAVED) for label in ("Save", "save button", "&Save...")),
    ([MISS], [CANCEL], {}, [], MISSED),  # no control is called that, or more than one
    ([MISS], [SAVE, CANCEL, SAVE_BELOW], {}, [], MISSED),
    ([MISS], [SAVE, NAMELESS], {}, [], "Clicked: Save"),
    ([MISS], [COVER, SAVE, CANCEL], {}, [], MISSED),  # that one is covered, or out of the picture
    ([MISS], [OUTSIDE, CANCEL], {}, [], MISSED),
    ([MISS, HIT], [CAPTION, SAVE, CANCEL], {}, [TOLD], SAVED),
    ([AREA, click("text area", [500, 700])], [PAGE, SAVE, CANCEL], {}, [FIELD_TOLD], "Clicked: text area"),
    ([AREA], [CANCEL], {}, [], "Clicked 'Cancel' (button)"),  # no field, or one of two
    ([AREA], [PAGE, BESIDE, CANCEL], {}, [], "Clicked 'Cancel' (button)"),
    ([MISS], [], {}, [], "Clicked: Save"),
    ([click("Read only", ON_SAVE)], [BOX], {}, [], "Clicked 'Read only' (checkbox); it is checked now"),
]  # fmt: skip


class TheCheckBeforeAClick(ControlCase):
    def test_a_click_on_another_control_is_told_and_not_done_unless_the_model_insists(self) -> None:
        for replies, known, settings, told, result in CHECKS:
            names = [control.name for control in known]
            with self.subTest(replies=str(replies), known=names, **settings):
                trial, _, requests = self.run_turn(replies, known, **settings)
                self.assertEqual(len(requests), len(replies))
                said = [str(r["messages"][-1]["content"]) for r in requests[1::2]]
                self.assertEqual([text for text in said if "Nothing was done" in text], told)
                self.assertEqual(trial.history[-1].result, result)
                clicks = 0 if "Not done" in result else len(replies) - len(told)
                self.assertEqual(len(self.pressed(trial)), clicks)

    def test_it_costs_no_turn_and_keeps_the_cached_prompt(self) -> None:
        trial, _, requests = self.run_turn([MISS, HIT], [SAVE, CANCEL])
        self.assertEqual(trial.state.turn, 1)
        self.assertEqual(requests[1]["messages"][:2], requests[0]["messages"])
        self.assertTrue(SAVE.rect.contains(agent.Point(*self.pressed(trial)[0])))

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
        replies += [scripted.text("Done: saved.")]
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

    def test_a_button_whose_true_name_is_a_risk_asks_and_a_window_of_it_does_not(self) -> None:
        window = Control("Delete the file?", "window", SAVE.rect, window=1)
        place = {"element_name": "next", "position": ON_SAVE, "reasoning": ""}
        for known, refused in (
            ([Control("Delete", "button", SAVE.rect, window=1)], "not_allowed"),
            ([window], ""),
            ([], ""),
        ):
            deed = self.perform(known, "click_screen_element", **place)
            self.assertEqual(deed.refused, refused)
            for question in self.questions:
                self.assertIn("which is 'Delete'", question)
                self.assertLessEqual(len(question), 300)

    def test_a_password_field_takes_secrets_by_name_and_is_grey_from_the_first_key(self) -> None:
        edit = Control("Word", "edit", Rect(0, 20, 60, 10), focused=True, password=True, window=1)
        deed = self.perform([edit], "type_text_input", text="hunter2")
        self.assertEqual((deed.refused, deed.begun), ("password_field", False))
        for key in ("h", "shift+h", "num7", "numpad0", "space", "numadd"):
            deed = self.perform([edit], "press_keyboard_key", key=key)
            self.assertEqual(deed.refused, "password_field", key)
        for risk, text in (("secret", "{{PASS}}"), ("password", "hunter2")):
            allowed = {"allow_risky": risk}
            deed = self.perform([edit], "type_text_input", text=text, settings=allowed)
            self.assertEqual(deed.refused, "")
        self.assertEqual(self.used.records("secret")[0]["box"], [0, 20, 60, 10])

    def test_a_control_of_a_blocked_program_is_out_of_reach_whatever_shows_it(self) -> None:
        inside = Control("Save", "button", SAVE.rect, focused=True, window=1, program="bank.exe")
        given = {"settings": {"blocked_windows": "bank.exe"}}
        clicked = {"element_name": "Save", "position": ON_SAVE, "reasoning": ""}
        for name, arguments in (
            ("click_screen_element", clicked),
            ("type_text_input", {"text": "x"}),
        ):
            deed = self.perform([inside], name, **arguments, **given)
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

    def test_without_vision_it_stands_for_the_picture_in_the_loops_that_have_it(self) -> None:
        _, _, requests = self.run_turn([click("Save", ON_SAVE)], [SAVE], vision=False)
        self.assertNotIn("image_url", str(requests))
        self.assertIn("There is no picture", user_text(requests[0]))
        self.assertIn("Save · button", user_text(requests[0]))
        for profile, settings in (("chat", {}), ("native", {"executor_grammar": "qwen3-vl"})):
            with self.assertRaises(agent.ConfigError):
                self.trial(lambda _: PLAN, profile, vision=False, **settings)


EDIT = Control("Name", "edit", Rect(0, 20, 60, 10), value="Hello", focused=True, window=1)
# The control that has the keyboard, and what is told behind "Typed: Hello".
HOLDS = '; the field now holds "Hello"'
READ = [
    (EDIT, HOLDS),
    (replace(EDIT, value="Hallo"), '; the field now holds "Hallo", which lacks what was typed'),
    (replace(EDIT, value=""), "; the field is empty now, which lacks what was typed"),
    (replace(EDIT, password=True), ""),
    (replace(SAVE, focused=True), "; the keyboard was on 'Save' (button), which takes no text"),
]


class WhatIsReadBack(ControlCase):
    def test_the_result_says_what_the_field_holds_unless_it_is_a_password(self) -> None:
        typed = call("type_text_input", text="Hello")
        for control, result in READ:
            trial, _, _ = self.run_turn([typed], [control], allow_risky="password")
            self.assertEqual(trial.history[-1].result, f"Typed: Hello{result}")
            told = "The keyboard is in 'Name' (edit), which holds \"Hello\"."
            self.assertEqual(told in self.facts, result == HOLDS)
            self.assertIn('Open windows: "Plain".', self.facts)
        trial, _, _ = self.run_turn([typed], [replace(EDIT, value="Hello" * 99)])
        self.assertLess(len(trial.history[-1].result), 130)

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

    def test_no_focus_is_said_only_once_a_focus_was_known(self) -> None:
        trial, _, _ = self.run_turn([call("type_text_input", text="Hello")], [])
        self.assertEqual(trial.history[-1].result, "Typed: Hello")
        typed = act("type_text", text="Hello")
        trial.desktop.control_source = KnownControls([EDIT])
        trial.perform(typed, trial.look(2), 2)
        trial.desktop.control_source = KnownControls([SAVE])
        deed = trial.perform(typed, trial.look(3), 3)
        self.assertIn("no control had the keyboard", deed.result)


class Names(unittest.TestCase):
    """The model's words for a control beside Windows' own, over a table of pairs in six languages."""

    def test_the_names_of_one_control_agree_either_way_round_and_those_of_two_do_not(self) -> None:
        table = Path(__file__).parent / "data" / "control_names.jsonl"
        rows = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
        self.assertGreaterEqual(sum(row["same"] for row in rows), 200)
        for row in rows:
            with self.subTest(**row):
                self.assertEqual(names_agree(row["said"], row["name"]), row["same"])
                self.assertEqual(names_agree(row["name"], row["said"]), row["same"])

        self.assertTrue(names_agree("a" * 100_000, "a" * 100_000))  # costs little
        self.assertFalse(names_agree("Open " + "ctrl+" * 20_000, "Save me"))


if __name__ == "__main__":
    unittest.main()
