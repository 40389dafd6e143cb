"""A model that is asked in the grammar of its own training: one role, one call a turn, the trial's rules."""

from __future__ import annotations

import json
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import agent
from tests.scripted import FEWER_REQUESTS, PLAN, PROOF, EngineCase, Person, Trial, role_of, text
from tests.scripted import call as tool_call
from tests.seams import check_of_model
from tests.servers import RoutedServer, http
from tests.spoken import spoken
from tests.test_model import LMS_OTHER, model_server

Message = dict[str, Any]
Request = dict[str, Any]
SAVE = agent.Control("Save", "button", agent.Rect(16, 9, 32, 18), window=1)


def said(action: str, sentence: str = "Do it", **given: Any) -> Message:
    """A reply as Qwen3-VL writes it."""
    call = {"name": "computer_use", "arguments": {"action": action, **given}}
    return text(f"Action: {sentence}\n<tool_call>\n{json.dumps(call)}\n</tool_call>")


CLICK = said("left_click", "Click the button", coordinate=[500, 500])
DONE = said("terminate", "The task is done", status="success")
PRESSED = ("button", "left", True)


def is_verifier(request: Request) -> bool:
    return "You check whether a task" in str(request["messages"][0]["content"])


def answers(*replies: Message, verdict: str = "YES: it is") -> Callable[[Request], Message]:
    """These replies one after the other, the last again and again; the verifier agrees."""
    left = list(replies)

    def decide(request: Request) -> Message:
        if is_verifier(request):
            return text(verdict)
        return left.pop(0) if len(left) > 1 else left[0]

    return decide


def words_of(request: Request) -> str:
    """All texts of a request but the system's."""
    words = []
    for message in request["messages"]:
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        if message["role"] != "system":
            words += [part["text"] for part in parts if "text" in part]
    return "\n".join(words)


class NativeCase(EngineCase):
    def native(self, decide: Any, grammar: str = "qwen3-vl", **settings: Any) -> Trial:
        """A run of profile native, ready to begin."""
        return self.trial(decide, "native", executor_grammar=grammar, **settings)

    def play(
        self, *replies: Message, grammar: str = "qwen3-vl", verdict: str = "YES: it is", **more: Any
    ) -> tuple[Trial, agent.AgentState, agent.Outcome]:
        """A whole run of profile native."""
        trial = self.native(answers(*replies, verdict=verdict), grammar, **more)
        self.begin(trial)
        return trial, trial.state, trial.run()

    def asked(self, trial: Trial) -> list[Request]:
        """The requests to the model that acts."""
        return [request for request in trial.requests if not is_verifier(request)]

    def words(self, *replies: Message, **more: Any) -> list[str]:
        """What each request of a run says to the model that acts."""
        return [words_of(request) for request in self.asked(self.play(*replies, **more)[0])]


class Runs(NativeCase):
    base = FEWER_REQUESTS

    def test_a_setting_that_was_changed_wins_over_the_grammars_advice(self) -> None:
        trial, _, _ = self.play(CLICK, DONE, lmstudio_temperature=0.3, sampling="top_p 0.5")
        request = self.asked(trial)[0]
        self.assertEqual((request["temperature"], request["top_p"]), (0.3, 0.5))

    def test_a_call_that_is_only_thought_is_not_done(self) -> None:
        thought = text(f"<think>{CLICK['content']}</think>I look.")
        trial, _, _ = self.play(thought, DONE, max_steps=1, reply_corrections=0)
        self.assertEqual((trial.history[0].tool, trial.inputs), ("no_call", []))

    def test_the_last_thought_is_kept_and_its_cost_told(self) -> None:
        thought = "The button is grey, and grey buttons are pressed. " * 4
        trial, _, _ = self.play({**CLICK, "reasoning_content": thought}, DONE)
        self.assertIn(thought.strip(), words_of(self.asked(trial)[1]))
        trial.close()
        book = agent.book_of(trial.folder)
        tokens = len(thought.strip()) // 4
        self.assertEqual((trial.thought_tokens, book.run["sums"]["thought"]), (tokens, tokens))
        self.assertEqual(dict(book.figures())["of them thought, about"], str(tokens))

    def test_an_end_is_what_the_model_says_and_a_fresh_look_confirms(self) -> None:
        failure = said("terminate", "There is no button", status="failure")
        for reply, verdict, end in (
            (DONE, "NO: nothing is pressed", ("max_steps", "")),
            (failure, "YES", ("failed", "the model says it cannot: There is no button")),
            (said("answer", text="It costs 5 euros"), "YES: so", ("completed", "It costs 5 euros")),
        ):
            trial, _, outcome = self.play(reply, verdict=verdict, max_steps=2)
            self.assertEqual(outcome.kind, end[0])
            self.assertIn(end[1], outcome.text)
            self.assertEqual("not confirmed" in trial.history[0].result, end[0] == "max_steps")

    def test_the_label_that_risks_are_told_by_is_the_replys_own_sentence(self) -> None:
        asked: list[str] = []
        deleting = said("left_click", "Click the Delete button", coordinate=[5, 5])
        trial = self.native(answers(deleting, DONE))
        trial.ask(lambda question: bool(asked.append(question)))
        trial.run()
        self.assertIn("delete", asked[0])
        self.assertNotIn(PRESSED, trial.inputs)

    def test_a_dry_run_moves_nothing_and_says_so(self) -> None:
        trial, _, outcome = self.play(CLICK, DONE, dry_run=True)
        self.assertEqual((outcome.kind, trial.inputs), ("completed", []))
        self.assertIn("DRY RUN: actions are checked but not", words_of(self.asked(trial)[0]))

    def test_a_resumed_run_tells_the_steps_of_the_one_before(self) -> None:
        trial, _, _ = self.play(CLICK, max_steps=2)
        trial.close()
        again = self.native(answers(DONE), old=trial.folder)
        again.resume()
        self.assertEqual(again.run().kind, "completed")
        self.assertIn("Step 2: Click the button", words_of(self.asked(again)[0]))

    def test_hints_of_the_person_reach_the_model(self) -> None:
        trial = self.native(answers(CLICK, DONE))
        trial.hear(Person(["Use the left one"]))
        trial.run()
        self.assertIn("Use the left one", words_of(self.asked(trial)[0]))

    def test_a_planner_may_have_an_executor_that_speaks_its_own_grammar(self) -> None:
        native = answers(CLICK, DONE)
        trial = self.trial(
            lambda request: PLAN if role_of(request) == "planner" else native(request),
            executor_grammar="qwen3-vl",
        )
        self.assertEqual(trial.run().kind, "completed")
        acting = [request for request in self.asked(trial) if "tools" not in request]
        self.assertIn("Instruction: Click the button.", words_of(acting[0]))


class Told(NativeCase):
    """What a picture does not show: why a step was refused, what came of a wait, and no step twice."""

    base = FEWER_REQUESTS

    def test_a_refused_end_is_told_once_with_what_is_missing(self) -> None:
        _, after, later = self.words(DONE, CLICK, CLICK, verdict="NO: no file", max_steps=3)
        self.assertIn("no file", after)
        self.assertNotIn("no file", later)

    def test_what_a_step_came_to_is_told_where_the_picture_does_not_show_it(self) -> None:
        blocked = said("key", "Lock", keys=["win", "l"])
        self.assertIn("Your last step: Not done: ", self.words(blocked, CLICK, max_steps=2)[1])
        self.assertNotIn("Your last step", self.words(CLICK, CLICK, max_steps=2)[1])

    def test_no_step_is_told_that_is_shown_anyway(self) -> None:
        lost = [text("Hm.")] * 3  # the first one and its corrections: a turn without a call
        after = self.words(CLICK, *lost, CLICK, max_steps=5)[4]
        self.assertEqual(after.count("Click the button"), 1)

    def test_a_wait_ends_as_soon_as_the_screen_has_changed_and_come_to_rest(self) -> None:
        trial = self.native(answers(said("wait", time=40), DONE))
        began = trial.clock.now()
        trial.clock.at(3, lambda: trial.desktop.inputs.extend([("painted",)] * 3))
        self.assertEqual(trial.run().kind, "completed")
        self.assertRegex(trial.history[0].result, r"^Waited \d s; the screen changed$")
        self.assertLess(trial.clock.now() - began, 20)

    def test_controls_are_listed_where_that_is_wanted_in_the_grammars_places(self) -> None:
        """In the middle of a picture that qwen2.5-vl sees in 56x56 pixels."""
        for grammar, controls, place in (
            ("qwen3-vl", "list", "Save · button · 508,514"),
            ("qwen2.5-vl", "list", "Save · button · 28,29"),
            ("qwen3-vl", "check", ""),
        ):
            trial = self.native(answers(CLICK, DONE), grammar, controls=controls, max_steps=2)
            trial.desktop.control_source = agent.KnownControls([SAVE])
            trial.run()
            for request in self.asked(trial)[:2]:
                told = words_of(request).count(f"CONTROLS (name · role · x,y):\n{place or 'Save'}")
                self.assertEqual(told, 1 if place else 0, controls)


class Choosing(NativeCase):
    def grammar(self, model: str, profile: str = "native", name: str = "", arch: str = "") -> str:
        self.model = agent.ModelInfo(model, architecture=arch)
        return self.trial(answers(DONE), profile, executor_grammar=name).grammar

    def test_it_goes_by_the_name_then_by_the_servers_word_and_a_setting_before_both(self) -> None:
        for model, profile, setting, grammar in (
            ("qwen/qwen3-vl-4b", "native", "", "qwen3-vl"),
            ("unknown", "native", "", "tools"),
            ("qwen/qwen3-vl-4b", "native", "tools", "tools"),
            ("qwen3-vl-4b", "planner", "", "tools"),
            ("qwen3-vl-4b", "planner", "qwen3-vl", "qwen3-vl"),
        ):
            self.assertEqual(self.grammar(model, profile, setting), grammar, (model, profile))
        with self.assertRaisesRegex(agent.ConfigError, "Profile story takes no grammar"):
            self.grammar("qwen3-vl-4b", "story", "qwen3-vl")
        with self.assertRaisesRegex(agent.ConfigError, "There is no grammar 'klingon'"):
            self.grammar("qwen3-vl-4b", "native", "klingon")

    def test_the_servers_list_tells_the_family(self) -> None:
        entry = {"id": "mine", "type": "vlm", "state": "loaded", "arch": "qwen3vl"}
        pages = {"/api/v0/models": http(200, {"data": [entry]})}
        with RoutedServer(pages, LMS_OTHER) as server:
            info = model_server(server.url).discover()
        self.assertEqual(self.grammar(info.name, arch=info.architecture), "qwen3-vl")

    def test_an_unknown_model_is_asked_with_tools(self) -> None:
        done = tool_call("report_mission_complete", evidence=PROOF)
        trial, _, outcome = self.play(done, grammar="tools")
        self.assertEqual(outcome.kind, "completed")
        names = {tool["function"]["name"] for tool in self.asked(trial)[0]["tools"]}
        self.assertIn("click_screen_element", names)
        self.assertNotIn("report_goal_status", names)

    def test_the_check_tries_the_grammar_or_tells_in_what_the_model_was_trained(self) -> None:
        server = mock.Mock(where="here")
        server.discover.return_value = agent.ModelInfo("qwen3-vl-4b", vision=False)
        usage = agent.Usage(1, 1, None)
        escape = said("key", keys=["escape"])
        server.complete.return_value = agent.Reply(escape, "stop", usage, "qwen3-vl-4b", 0.1, 1)
        findings = check_of_model(agent.Config(), "native", server)
        self.assertEqual(findings["grammar"], "asked in qwen3-vl")
        self.assertEqual(findings["tool calls"], 'press_key {"key": "escape"}, not carried out')
        told = check_of_model(agent.Config(), "planner", server)["grammar"]
        self.assertRegex(told, "asked in tools.*trained in qwen3-vl")


class Grammars(NativeCase):
    def test_each_grammar_clicks_where_it_says_and_ends(self) -> None:
        for grammar in agent.GRAMMARS.values():
            places = [[x, 500] for x in (100, 300, 500)]
            clicks = [text(spoken(grammar, "click", place)) for place in places]
            with self.subTest(grammar.name):
                end = text(spoken(grammar, "end"))
                trial, _, outcome = self.play(*clicks, end, grammar=grammar.name)
                self.assertEqual(outcome.kind, "completed")
                xs = [x for kind, x, *_ in trial.inputs if kind == "move"]
                for x, want in zip(xs, [6, 19, 32], strict=True):
                    self.assertLessEqual(abs(x - want), 1)

    def test_a_reply_in_another_grammar_is_read_and_told_once(self) -> None:
        typed = text(spoken(agent.GRAMMARS["ui-tars-1.0"], "type"))
        trial, _, outcome = self.play(typed, typed, DONE)
        self.assertEqual(outcome.kind, "completed")
        self.assertEqual(trial.inputs.count(("text", "hello")), 2)
        (line,) = [line for line in self.lines if "in another grammar" in line]
        self.assertIn("qwen3-vl", line)


class Meanings(NativeCase):
    """What a reply comes to in tools of this program."""

    def given(self, grammar: str, reply: Message) -> dict[str, Any]:
        """The arguments of the call, which its tool takes."""
        call = agent.native_call(agent.GRAMMARS[grammar].read(reply, "stop", (1000, 1000)))
        return agent.CANONICAL.parse(call).call.arguments

    def label(self, sentence: str, thought: str = "") -> str:
        click = said("left_click", sentence, coordinate=[1, 2])
        given = self.given("qwen3-vl", {**click, "reasoning_content": thought})
        return str(given["element_name"])

    def test_a_click_has_the_sentence_as_its_label_and_a_risk_at_its_end_stays_in_sight(
        self,
    ) -> None:
        self.assertEqual(self.label("Do it"), "Do it")
        cut = self.label("word " * 200)
        self.assertEqual((len(cut), cut[-3:]), (300, "..."))
        sentence = "Click the button in the lower right corner of the window, " * 3
        self.assertIn("Delete", self.label(sentence + "which is Delete all"))

    def test_of_a_click_without_a_sentence_the_end_of_its_thought_is_the_label(self) -> None:
        long = self.label("", "I look. " * 50 + "Now I click\nDelete.")
        self.assertRegex(long, r"^\.\.\..*Now I click Delete\.$")
        self.assertLessEqual(len(long), 120)
        self.assertEqual(self.label("", "I click Delete."), "I click Delete.")

    def test_what_a_tool_does_in_several_steps_is_left_to_it(self) -> None:
        written = said("type", text="hi", coordinate=[1, 2], delete_existing_text=True)
        wanted = {"text": "hi", "position": [1, 2], "clear": True, "submit": True}
        self.assertEqual(self.given("fara-7b", written), {**wanted, "element_name": "Do it"})
        keys = self.given("qwen3-vl", said("key", keys=["ctrl+a", "delete"]))
        self.assertEqual(keys, {"key": "ctrl+a", "then": ["delete"]})

    def test_each_of_several_acts_is_done_on_a_look_of_its_own(self) -> None:
        trial, _, _ = self.play(said("key", keys=["a", "b"]), DONE)
        keys = [value for kind, value, *_ in trial.inputs if kind == "key"]
        self.assertEqual((keys, len(trial.records("look"))), (["a", "a", "b", "b"], 3))


class People(NativeCase):
    """A model asks the person to close a dialog."""

    def wish(self) -> Trial:
        wish = said("interact", text="close the dialog")
        return self.native(answers(wish, DONE), "gui-owl-1.5")

    def test_the_person_is_asked_and_the_model_told_what_came_of_it(self) -> None:
        for answer, told in (
            ([True], "The person was asked and has done it."),
            (
                [False],
                "The person was asked and did not do it; go on without, or end with failure.",
            ),
            (
                agent.ToolError("nobody"),
                "Nobody can be asked; do it another way, or end with failure.",
            ),
        ):
            confirm = mock.Mock(side_effect=answer)
            trial = self.wish()
            trial.ask(confirm)
            self.assertEqual(trial.run().kind, "completed")
            self.assertIn("close the dialog", confirm.call_args[0][0])
            self.assertEqual((trial.history[0].tool, trial.history[0].result), ("ask_person", told))
            self.assertIn(told, words_of(self.asked(trial)[1]))

    def test_with_a_panel_it_is_a_pause_that_the_panel_ends(self) -> None:
        trial = self.wish()
        trial.hear(Person())

        def go_on() -> None:
            self.assertIn("close the dialog", trial.stop.paused)
            trial.stop.paused = ""

        trial.clock.at(5, go_on)
        self.assertEqual(trial.run().kind, "completed")
        self.assertEqual(trial.history[0].result, "The person was asked and has done it.")


if __name__ == "__main__":
    unittest.main()
