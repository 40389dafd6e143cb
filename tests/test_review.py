"""What a stranger found where several features met: each fault, as it would come back."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any

import agent
from tests.fakes import Foreground
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, call, role_of, text
from tests.seams import VK_MAP
from tests.test_actuator import Stage
from tests.test_more_tools import Turns
from tests.test_native import CLICK, DONE, NativeCase, said
from tests.test_proof import Judged

ASKED = "The person did not allow this"


class HeldKeys(unittest.TestCase):
    """A key that is held reaches the same menus as one that is pressed."""

    def test_a_letter_after_win_and_x_that_were_held_is_asked_about(self) -> None:
        made = Stage()
        made.do("key_down", key="win")
        made.do("key_down", key="x")
        made.actuator.release()
        self.assertIn(ASKED, made.attempt("press_key", key="u").result)

    def test_a_letter_in_a_menu_that_a_key_opened_is_asked_about(self) -> None:
        for name in ("press_key", "key_down"):
            for key in ("menu", "contextmenu", "shift+f10"):
                made = Stage()
                made.world.window = replace(Foreground(), path="C:\\Windows\\explorer.exe")
                made.do(name, key=key)
                made.actuator.release()
                self.assertIn(ASKED, made.attempt("press_key", key="d").result, f"{name} {key}")

    def test_nothing_is_typed_while_the_windows_key_is_held(self) -> None:
        for key in ("win", "rwin"):
            made = Stage()
            made.do("key_down", key=key)
            sent = len(made.world.events)
            performed = made.attempt("type_text", text="calc")
            self.assertEqual(performed.refused, "held_key")
            self.assertEqual(made.actuator.held_keys, [])
            sent_keys = [event.value for event in made.world.events[sent:]]
            self.assertEqual(sent_keys, [0xE8] * 2 + [VK_MAP[key]])
        made = Stage()
        made.do("key_down", key="shift")
        made.do("type_text", text="calc")


def act(name: str, /, **arguments: Any) -> agent.Act:
    return agent.CANONICAL.parse(agent.ToolCall(name, arguments))


class Rulings(Judged):
    def test_the_question_said_again_is_no_answer(self) -> None:
        for echo in ("1 YES or NO: it is", "1 YES/NO", "1: **YES** or **NO**"):
            self.assertIsNone(agent.read_rulings(echo, ["a"]), echo)
        self.assertIsNone(agent.read_rulings("YES or NO and the reason", ["a"]))
        (ruling,) = agent.read_rulings("1 NO: no star, yes or no", ["a"]) or ()
        self.assertFalse(ruling.holds)

    def test_one_check_answered_in_two_ways_is_undecided(self) -> None:
        self.assertIsNone(agent.read_rulings("Yes, let me see.\n1 NO: a star is there", ["a"]))

    def test_a_claim_is_one_line_and_cannot_write_facts(self) -> None:
        told = agent.verifier_text("t", "done\n\nFACTS:\nC:\\a.txt exists", ["c"], ["none"])
        self.assertIn("CLAIM: done FACTS: C:\\a.txt exists\n\nFACTS:\nnone", told)


class Paths(EngineCase):
    def test_of_a_path_with_blanks_and_without_quotes_nothing_is_known(self) -> None:
        for path in (
            r"C:\Users\John Smith\Desktop\note.txt",
            r"C:\Users\J. Smith\note.txt",
            r"C:\temp\My long note.txt",
            r"C:\v1.2 files\note.txt",
        ):
            self.assertEqual(agent.named_paths(f"Save it as {path}."), [], path)
            self.assertEqual(agent.named_paths(f"Save it as {path}, then go on"), [], path)
            self.assertEqual(agent.named_paths(f'Save it as "{path}".'), [path])
        for task in (
            r"Save C:\a.txt as D:\b.txt and close it",
            r"Save it as C:\a.txt, then open notes.txt",
            r"Save C:\a.txt and e.g. wait",
        ):
            self.assertIn("C:\\a.txt", agent.named_paths(task), task)

    def test_what_a_code_page_or_rich_text_holds_is_not_known(self) -> None:
        path = self.folder / "a.txt"
        path.write_bytes("Grüße".encode("cp1252"))
        self.assertIsNone(agent.look_at_file(str(path), 0).begins)
        path.write_bytes(rb"{\rtf1 Gr\'fc\'dfe}")
        self.assertFalse(agent.look_at_file(str(path), 0).whole)
        path.write_bytes("é".encode() * 500)  # cut in the middle of a sign
        fact = agent.look_at_file(str(path), 0)
        self.assertTrue(fact.told(str).endswith('it begins "' + "é" * 200 + '".'))


class Endings(NativeCase):
    def test_an_answer_that_was_never_confirmed_does_not_complete_the_run(self) -> None:
        answer = said("answer", text="It costs 5 euros")
        _, _, outcome = self.play(answer, verdict="NO: no price is shown")
        self.assertEqual(outcome.kind, "not_proven")

    def test_a_confirmed_answer_keeps_its_proof(self) -> None:
        _, _, outcome = self.play(said("answer", text="It costs 5 euros"))
        self.assertEqual([ruling.holds for ruling in outcome.checks], [True])

    def test_an_instruction_that_is_done_is_no_false_claim_about_the_task(self) -> None:
        plan = call("update_execution_plan", instructions="Next.", reasoning="r")
        acts = iter([CLICK, DONE] * 9)

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if "update_execution_plan" in str(request.get("tools")):
                return plan
            if agent.VERIFIER_PROMPT in str(request["messages"][0]["content"]):
                return text("NO: goals are left")
            return next(acts)

        trial = self.trial(decide, executor_grammar="qwen3-vl", max_steps=24)
        self.begin(trial)
        outcome = trial.run()
        self.assertEqual(outcome.kind, "max_steps")


class Typing(NativeCase):
    def test_a_click_before_a_text_is_judged_by_the_replys_own_sentence(self) -> None:
        typed = {"text": "x", "position": [5, 5]}
        native = agent.native_call(agent.GrammarCall("type_text", typed, "Delete all files"))
        self.assertEqual(self.asked(native), ["delete", ""])
        alone = agent.GrammarCall("type_text", {"text": "x"}, "Type delete into the field")
        self.assertEqual(self.asked(agent.native_call(alone)), [""])

    def test_a_click_without_a_sentence_is_judged_by_how_its_thought_ends(self) -> None:
        thought = "The list is long. " * 20 + "Now I click\nDelete."
        call = agent.GrammarCall("click", {"position": [5, 5]}, "", thought)
        self.assertEqual(self.asked(agent.native_call(call)), ["delete"])

    def asked(self, call: agent.ToolCall) -> list[str]:
        """Of each step of a native act the reason why it is asked about, or an empty text."""
        reasons = []
        for step in agent.steps_of(agent.CANONICAL.parse(call)):
            questions: list[str] = []
            stage = Stage()
            stage.actuator.confirm = lambda question, questions=questions: bool(
                questions.append(question)
            )
            stage.actuator.perform(step, stage.look())
            reasons += [question.rpartition(": ")[2] for question in questions] or [""]
        return reasons

    def test_more_keys_than_an_act_takes_get_a_correction_in_the_same_turn(self) -> None:
        keys = said("key", "Go down", keys=["down"] * 5)
        trial, state, _ = self.play(keys, CLICK, DONE)
        self.assertIn("4 at most", str(trial.requests[1]["messages"]))
        tools = [record.tool for record in trial.history]
        self.assertEqual(tools, ["click", "report_complete"])


class Closer(Turns):
    """A click that changed nothing asks for a closer picture, which is the model's alone."""

    base = FEWER_REQUESTS

    def parts(self, name: str) -> list[Any]:
        looks = self.made.records("look")
        return [look["part"] for look in looks if look["screenshot"].endswith(f"{name}.png")]

    def test_the_recovery_keys_click_the_start_button_of_the_whole_screen(self) -> None:
        self.run_calls(self.click(500, 500), dead=True, stall_recover=1)
        self.assertEqual(self.parts("_recovery"), [[0, 0, 0, 0]])
        moves = [event[1:] for event in self.desktop.inputs if event[0] == "move"]
        start = agent.to_point(agent.Coordinate(10, 980), self.desktop.screen())
        self.assertEqual(moves[-1], start)

    def test_the_last_look_shows_the_whole_screen(self) -> None:
        replies = iter([call("click_screen_element", element_name="it", position=[500, 500])])

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            who = role_of(request)
            if who == "executor":
                return next(replies)
            return PLAN if who == "planner" else text("1 NO: no")

        self.made = self.trial(decide, max_steps=2, last_look=True)
        self.made.desktop.dead = True
        self.made.run()
        self.assertEqual(self.parts("_end"), [[0, 0, 0, 0]])


class Repeats(Turns):
    base = FEWER_REQUESTS

    def test_an_act_on_a_closer_picture_is_repeated_on_such_a_picture(self) -> None:
        self.run_calls(call("zoom", position=[750, 250]), self.click(0, 1000))
        folder = self.made.folder
        self.made.close()
        again = self.trial(lambda _: text(""))
        outcome = agent.run_replay(again.engine, again.state, agent.recording_of(folder))
        self.assertEqual(outcome.kind, "completed", outcome.text)
        moves = [event[1:] for event in again.inputs if event[0] == "move"]
        self.assertEqual(moves, [(31, 17)])

    def test_a_click_where_the_mouse_is_can_be_repeated(self) -> None:
        clicked = act("click", element_name="it", position=None)
        trial = self.trial(lambda _: text(""))
        self.begin(trial)
        trial.desktop.move(agent.Point(5, 5))
        agent.perform_act(trial.engine, trial.state, clicked, trial.look(1))
        repeated, *_ = agent.recording_of(trial.folder).steps[0]
        self.assertEqual(repeated.args, clicked.args)


if __name__ == "__main__":
    unittest.main()
