"""A click is held against what Windows knows to be there, and what came of an act is read back."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent
from agent import Control, KnownControls, Rect, names_agree
from tests import scripted
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, Trial, call, role_of, user_text
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
        self, replies: list[Any], known: list[Control], **settings: Any
    ) -> tuple[Trial, Any]:
        """One turn of the executor, which answers with these replies; and its requests."""
        left = list(replies)
        trial = self.trial(lambda _: left.pop(0), **{"max_steps": 1, **FEWER_REQUESTS, **settings})
        trial.desktop.control_source = KnownControls([*known, WINDOW])
        trial.state.execution_instructions = "Click Save."
        trial.run()
        return trial, trial.requests


class TheCloserLook(ControlCase):
    """What comes of it is in data/runs.jsonl."""

    def look_closer(self, *more: str) -> Any:
        """The requests of a turn in which Save is aimed at a second time, and its trial."""
        replies = [click("Save", ON_CANCEL), click("Save", [500, 200])]
        left = iter(replies)

        def decide(_: Any) -> Any:
            trial.hear(*more)  # while the model is thinking
            return next(left)

        trial = self.trial(decide, max_steps=1, closer_look=True, **FEWER_REQUESTS)
        trial.desktop.control_source = KnownControls([SAVE, CANCEL, WINDOW])
        trial.state.execution_instructions = "Click Save."
        trial.run()
        return trial

    def test_it_costs_no_turn_and_keeps_the_cached_prompt_and_shows_the_part_alone(self) -> None:
        trial = self.look_closer()
        first, second = trial.requests
        self.assertEqual(trial.state.turn, 1)
        self.assertEqual(second["messages"][0], first["messages"][0])
        self.assertEqual(second["tools"], first["tools"])
        _, shown = second["messages"]
        self.assertEqual([part["type"] for part in shown["content"]], ["text", "image_url"])
        looks = [(look["part"], look["screenshot"]) for look in trial.records("look")]
        self.assertEqual(looks[2:], [([22, 0, 32, 18], "screenshots/closer_0001.png")])
        self.assertTrue(CANCEL.rect.contains(trial.desktop.place))

    def test_once_a_secret_was_typed_there_is_none(self) -> None:
        trial = self.trial(lambda _: click("Save", ON_CANCEL), closer_look=True, max_steps=1)
        trial.state.execution_instructions = "Click Save."
        trial.blank()
        trial.run()
        self.assertNotIn("CLOSER LOOK", str(trial.requests))

    def test_the_mark_of_a_click_stands_where_it_was_on_the_whole_picture(self) -> None:
        said = [[500, 500], [520, 520]]
        acts = [{"name": "click", "label": "Save", "x1": x, "y1": y} for x, y in said]
        replies = [
            scripted.text(json.dumps({"observation": "I click.", "actions": [act]})) for act in acts
        ]
        replies += [scripted.text(json.dumps({"observation": "On.", "actions": []}))] * 2
        left = iter(replies)
        trial = self.trial(
            lambda _: next(left), "story", closer_look=True, max_steps=2, **FEWER_REQUESTS
        )
        trial.run()
        (done,) = [one for stage in trial.records("stage") for one in stage.get("actions", [])]
        at = agent.to_grid(trial.desktop.place, trial.desktop.screen())
        self.assertEqual((done["x1"], done["y1"]), (at.x, at.y))
        self.assertNotEqual((at.x, at.y), (520, 520))

    def test_a_hint_that_comes_meanwhile_waits_for_the_next_turn(self) -> None:
        trial = self.look_closer("Mind the step.")
        self.assertNotIn("Mind the step.", str(trial.requests))
        self.assertEqual(trial.engine.session.hints, ["HINT FROM THE PERSON: Mind the step."])

    def test_the_name_that_a_sentence_quotes_is_known_in_any_writing(self) -> None:
        check = self.trial(lambda _: PLAN, "native", executor_grammar="qwen3-vl").engine.controls
        for sentence, name in (
            ("Click 'Don't save' at the left", "Don't save"),
            ("点击“保存”按钮", "保存"),
            ('点击"保存"按钮。', "保存"),
            ("按‘确定’键", "确定"),
            ("「保存」ボタンをクリックする", "保存"),
            ("'저장' 버튼을 클릭", "저장"),
            ("Cliquez sur «Enregistrer»", "Enregistrer"),
            ("把“甲”拖到“乙”", ""),  # of two nobody knows which is meant
            ("Click John's and Jane's", ""),
        ):
            said = act("click", element_name=sentence, position=ON_SAVE)
            self.assertEqual(check.said_of(said), name)

    def test_a_secret_in_a_name_is_hidden(self) -> None:
        secret = Control("hunter22", "button", CANCEL.rect, window=1)
        trial = self.trial(lambda _: PLAN)
        trial.hidden = agent.Secrets({"PASS": "hunter22"})
        trial.desktop.control_source = KnownControls([secret, WINDOW])
        deed = trial.perform(act("click", element_name="Save", position=ON_CANCEL), trial.look())
        self.assertEqual(deed.result, "Clicked '{{PASS}}' (button), not 'Save'")


class TheGates(ControlCase):
    """What a control is in truth counts for them, whatever the model calls it."""

    def perform(self, known: list[Control], name: str, /, **arguments: Any) -> Any:
        settings = arguments.pop("settings", {})
        trial = self.trial(lambda _: PLAN, **settings)
        trial.desktop.control_source = KnownControls([*known, WINDOW])
        self.used = trial
        meant = trial.profile.vocabulary.parse(agent.ToolCall(name, arguments))
        return trial.perform(meant, trial.look(1), 1)

    def test_a_password_field_takes_secrets_by_name_and_is_grey_from_the_first_key(self) -> None:
        edit = Control("Word", "edit", Rect(0, 20, 60, 10), focused=True, password=True, window=1)
        deed = self.perform([edit], "type_text_input", text="hunter2")
        self.assertEqual((deed.refused, deed.begun), ("password_field", False))
        for key in ("h", "shift+h", "num7", "numpad0", "space", "numadd", "altgr+q", "ctrl+alt+e"):
            deed = self.perform([edit], "press_keyboard_key", key=key)
            self.assertEqual(deed.refused, "password_field", key)
        for key in ("numenter", "enter", "shift+tab", "ctrl+v", "numlock"):
            deed = self.perform([edit], "press_keyboard_key", key=key)
            self.assertNotEqual(deed.refused, "password_field", key)
        for risk, text in (("secret", "{{PASS}}"), ("password", "hunter2")):
            allowed = {"allow_risky": risk}
            deed = self.perform([edit], "type_text_input", text=text, settings=allowed)
            self.assertEqual(deed.refused, "")
        self.assertEqual(self.used.records("secret")[0]["box"], [0, 20, 60, 10])


class TheList(ControlCase):
    def listed(self, known: list[Control], controls: str) -> list[str]:
        _, requests = self.run_turn([click("Save", ON_SAVE)], known, controls=controls)
        return [line for line in user_text(requests[0]).splitlines() if " · " in line]

    def test_it_is_bounded_and_shorter_beside_a_picture(self) -> None:
        for name, controls, most in (
            ("Button", "list", 25),
            ("Button", "only", 40),
            ("x" * 90, "only", 21),
        ):
            many = [replace(SAVE, name=f"{number} {name}") for number in range(300)]
            lines = self.listed(many, controls)[1:]  # behind what it lists
            self.assertEqual(len(lines), most, controls)
            self.assertLessEqual(len("\n".join(lines)), 1500)

    def test_beside_a_picture_it_has_what_can_be_pressed_or_filled_alone(self) -> None:
        known = [
            Control("Name", "edit", Rect(0, 20, 60, 10), window=1),
            Control("Grey", "button", Rect(0, 10, 9, 9), enabled=False, window=1),
            Control("Read this", "text", Rect(40, 20, 9, 9), window=1),
            Control("", "button", Rect(50, 20, 9, 9), window=1),
            SAVE,
        ]
        wanted = ["Name · edit · 476,714", "Save · button · 159,143"]
        self.assertEqual(self.listed(known, "list")[1:], wanted)
        grey = ["Plain · window · 508,514", "Read this · text · 698,686", "Grey · button · 63,400"]
        self.assertEqual({*self.listed(known, "only")[1:]}, {*wanted, *grey})


EDIT = Control("Name", "edit", Rect(0, 20, 60, 10), value="Hello", focused=True, window=1)


class WhatIsReadBack(ControlCase):
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

    def test_a_checkbox_is_told_as_the_click_left_it(self) -> None:
        for before in (False, True):
            trial = self.trial(lambda _: PLAN)
            inputs = trial.desktop.inputs

            class Flips(KnownControls):
                def ask(self, where: Any, inputs: Any = inputs, before: bool = before) -> Any:
                    checked = before != (("button", "left", False) in inputs)
                    box = Control("Wrap", "checkbox", SAVE.rect, checked=checked, window=1)
                    return KnownControls([box, WINDOW]).ask(where)

            trial.desktop.control_source = Flips()
            deed = trial.perform(act("click", element_name="Wrap", position=ON_SAVE), trial.look())
            now = "it is not checked now" if before else "it is checked now"
            self.assertEqual(deed.result, f"Clicked 'Wrap' (checkbox); {now}")

    def test_what_is_greyed_is_told_so(self) -> None:
        for enabled in (True, False):
            trial, _ = self.run_turn([click("Save", ON_SAVE)], [replace(SAVE, enabled=enabled)])
            (result,) = trial.records("result")
            self.assertEqual("it is greyed" in result["result"], not enabled)

    def test_the_wheel_is_not_turned_over_what_it_would_change_unless_the_model_insists(
        self,
    ) -> None:
        for role, refusals in (
            ("combo box", ["other_control", ""]),
            ("slider", ["other_control", ""]),
            ("spinner", ["other_control", ""]),
            ("list", ["", ""]),
            ("edit", ["", ""]),
        ):
            trial = self.trial(lambda _: PLAN, confirm="never")
            trial.desktop.control_source = KnownControls([replace(SAVE, role=role), WINDOW])
            scroll = act("scroll_at", position=ON_SAVE, ticks=-3)
            deeds = [trial.perform(scroll, trial.look(turn), turn) for turn in (1, 2)]
            self.assertEqual([deed.refused for deed in deeds], refusals, role)
            turned = [one for one in trial.inputs if one[0] == "wheel"]
            self.assertEqual(len(turned), 3 * refusals.count(""))

    def test_no_focus_is_said_only_once_a_focus_was_known(self) -> None:
        trial, _ = self.run_turn([call("type_text_input", text="Hello")], [])
        self.assertEqual(trial.state.memory.active_history[-1].result, "Typed: Hello")
        typed = act("type_text", text="Hello you")
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
        self.assertGreaterEqual(sum(row["same"] * len(row["pairs"]) for row in rows), 200)
        for row in rows:
            for said, name in row["pairs"]:
                with self.subTest(said, name=name):
                    self.assertEqual(names_agree(said, name), row["same"])
                    self.assertEqual(names_agree(name, said), row["same"])
        self.assertTrue(names_agree("a" * 100_000, "a" * 100_000))  # costs little
        self.assertFalse(names_agree("Open " + "ctrl+" * 20_000, "Save me"))


if __name__ == "__main__":
    unittest.main()
