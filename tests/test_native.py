"""A model that is asked in the grammar of its own training: one role, one call a turn, the trial's rules."""

from __future__ import annotations

import json
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import agent
from tests.scripted import FEWER_REQUESTS, EngineCase, Person, Trial, text
from tests.seams import check_of_model
from tests.servers import RoutedServer, http
from tests.spoken import spoken
from tests.test_model import LMS_OTHER, model_server

Message = dict[str, Any]
QWEN = agent.GRAMMARS["qwen3-vl"]


def said(action: str, sentence: str = "Do it", **given: Any) -> Message:
    """A reply as Qwen3-VL writes it."""
    call = {"name": "computer_use", "arguments": {"action": action, **given}}
    return text(f"Action: {sentence}\n<tool_call>\n{json.dumps(call)}\n</tool_call>")


CLICK = said("left_click", "Click the button", coordinate=[500, 500])
DONE = said("terminate", "The task is done", status="success")


def is_verifier(request: dict[str, Any]) -> bool:
    return "You check whether a task" in str(request["messages"][0]["content"])


def answers(*replies: Message, verdict: str = "YES: it is") -> Callable[[dict[str, Any]], Message]:
    """These replies one after the other, the last again and again; the verifier agrees."""
    left = list(replies)

    def decide(request: dict[str, Any]) -> Message:
        if is_verifier(request):
            return text(verdict)
        return left.pop(0) if len(left) > 1 else left[0]

    return decide


def words_of(request: dict[str, Any]) -> str:
    """All texts of a request but the system's."""
    words = []
    for message in request["messages"]:
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        if message["role"] != "system":
            words += [part["text"] for part in parts if "text" in part]
    return "\n".join(words)


class NativeCase(EngineCase):
    def play(
        self, *replies: Message, grammar: str = "qwen3-vl", verdict: str = "YES: it is", **more: Any
    ) -> tuple[Trial, agent.AgentState, agent.Outcome]:
        """A whole run of profile native."""
        more = {"executor_grammar": grammar, **more}
        trial = self.trial(answers(*replies, verdict=verdict), "native", **more)
        self.begin(trial)
        return trial, trial.state, trial.run()

    def asked(self, trial: Trial) -> list[dict[str, Any]]:
        """The requests to the model that acts."""
        return [request for request in trial.requests if not is_verifier(request)]


class Runs(NativeCase):
    base = FEWER_REQUESTS

    def test_a_task_is_done_without_a_planner(self) -> None:
        trial, state, outcome = self.play(CLICK, DONE)
        self.assertEqual(outcome.kind, "completed")
        self.assertEqual(trial.roles.count("planner"), 0)
        tools = [record.tool for record in trial.history]
        self.assertEqual(tools, ["click", "report_complete"])
        self.assertIn(("button", "left", True), trial.inputs)

    def test_the_request_is_the_grammars_own(self) -> None:
        trial, _, _ = self.play(CLICK, DONE)
        request = self.asked(trial)[0]
        system = QWEN.announce((64, 64))
        self.assertEqual(request["messages"][0]["content"], system)
        self.assertNotIn("tools", request)
        for name, value in QWEN.sampling.items():
            self.assertEqual(request[name], value)
        parts = request["messages"][1]["content"]
        self.assertEqual([part["type"] for part in parts], ["text", "image_url"])
        self.assertTrue(parts[0]["text"].startswith(QWEN.first_text("Press the button", [])))

    def test_a_setting_that_was_changed_wins_over_the_grammars_advice(self) -> None:
        trial, _, _ = self.play(CLICK, DONE, lmstudio_temperature=0.3, sampling="top_p 0.5")
        request = self.asked(trial)[0]
        self.assertEqual((request["temperature"], request["top_p"]), (0.3, 0.5))

    def test_earlier_steps_are_told_in_one_line_each(self) -> None:
        trial, _, _ = self.play(CLICK, CLICK, DONE, keep_last_screenshots=1)
        self.assertIn("Previous actions:\nNone", words_of(self.asked(trial)[0]))
        self.assertIn(
            "Step 1: Click the button\nStep 2: Click the button", words_of(self.asked(trial)[2])
        )

    def test_a_step_that_changed_nothing_says_so(self) -> None:
        trial = self.trial(
            answers(CLICK, DONE),
            "native",
            executor_grammar="qwen3-vl",
            verify_completion=False,
            keep_last_screenshots=1,
        )
        trial.desktop.dead = True
        trial.run()
        self.assertIn(
            "Step 1: Click the button (the screen did not change)", words_of(self.asked(trial)[1])
        )

    def test_so_many_screenshots_are_shown_as_turns(self) -> None:
        trial, _, _ = self.play(CLICK, CLICK, CLICK, DONE, keep_last_screenshots=2)
        roles = [message["role"] for message in self.asked(trial)[3]["messages"]]
        self.assertEqual(roles, ["system", "user", "assistant", "user"])
        words = words_of(self.asked(trial)[3])
        self.assertIn("Step 2: ", words)
        self.assertNotIn("Step 3: ", words)

    def test_the_last_thought_is_kept_for_the_next_turn(self) -> None:
        thinking = {**CLICK, "reasoning_content": "The button is grey."}
        trial, _, _ = self.play(thinking, DONE)
        self.assertIn("The button is grey.", words_of(self.asked(trial)[1]))
        self.assertGreater(trial.thought_tokens, 0)

    def test_a_call_that_is_only_thought_is_not_done(self) -> None:
        thought = {"role": "assistant", "content": f"<think>{CLICK['content']}</think>I look."}
        trial, state, _ = self.play(thought, DONE, max_steps=1, reply_corrections=0)
        self.assertEqual(trial.history[0].tool, "no_call")
        self.assertEqual(trial.inputs, [])

    def test_a_broken_reply_gets_a_correction_in_the_grammars_form(self) -> None:
        trial, _, outcome = self.play(said("left_click", coordinate=[4000, 2]), CLICK, DONE)
        self.assertEqual(outcome.kind, "completed")
        words = words_of(self.asked(trial)[1])
        self.assertIn("coordinate must be", words)
        self.assertIn('{"name": "computer_use"', words)

    def test_a_success_that_a_fresh_look_does_not_confirm_goes_on(self) -> None:
        trial, _, outcome = self.play(DONE, verdict="NO: nothing is pressed", max_steps=2)
        self.assertEqual(outcome.kind, "max_steps")
        self.assertIn("not confirmed", trial.history[0].result)

    def test_a_failure_is_an_honest_end(self) -> None:
        failure = said("terminate", "There is no button", status="failure")
        trial, _, outcome = self.play(failure)
        self.assertEqual(outcome.kind, "failed")
        self.assertEqual(outcome.text, "the model says it cannot: There is no button")

    def test_an_answer_ends_the_run_with_its_text(self) -> None:
        _, _, outcome = self.play(said("answer", text="It costs 5 euros"))
        self.assertEqual(outcome[:2], ("completed", "It costs 5 euros"))

    def test_the_label_that_risks_are_told_by_is_the_replys_own_sentence(self) -> None:
        asked: list[str] = []
        deleting = said("left_click", "Click the Delete button", coordinate=[5, 5])
        trial = self.trial(answers(deleting, DONE), "native", executor_grammar="qwen3-vl")
        trial.ask(lambda question: bool(asked.append(question)))
        trial.run()
        self.assertIn("delete", asked[0])
        self.assertNotIn(("button", "left", True), trial.inputs)

    def test_a_dry_run_moves_nothing(self) -> None:
        trial, _, outcome = self.play(CLICK, DONE, dry_run=True)
        self.assertEqual((outcome.kind, trial.inputs), ("completed", []))
        self.assertIn(
            "DRY RUN: actions are checked but not carried out, so the screen stays as it is. Go on as if each had worked.",
            words_of(self.asked(trial)[0]),
        )

    def test_a_model_that_repeats_itself_on_a_dead_screen_ends_as_stuck(self) -> None:
        trial = self.trial(
            answers(CLICK), "native", executor_grammar="qwen3-vl", enable_loop_recovery=False
        )
        trial.desktop.dead = True
        self.assertEqual(trial.run().kind, "stuck")
        self.assertIn("made no progress", words_of(self.asked(trial)[-1]))

    def test_waiting_takes_the_seconds_that_were_asked_for(self) -> None:
        trial, _, _ = self.play(said("wait", time=7), DONE)
        self.assertGreaterEqual(trial.clock.now(), 7)

    def test_a_resumed_run_tells_the_steps_of_the_one_before(self) -> None:
        trial, _, _ = self.play(CLICK, max_steps=2)
        folder = trial.folder
        trial.close()
        again = self.trial(answers(DONE), "native", old=folder, executor_grammar="qwen3-vl")
        again.resume()
        self.assertEqual(again.run().kind, "completed")
        self.assertIn("Step 2: Click the button", words_of(self.asked(again)[0]))

    def test_hints_of_the_person_reach_the_model(self) -> None:
        trial = self.trial(answers(CLICK, DONE), "native", executor_grammar="qwen3-vl")
        trial.hear(Person(["Use the left one"]))
        trial.run()
        self.assertIn("Use the left one", words_of(self.asked(trial)[0]))


class Choosing(NativeCase):
    def grammar(self, model: agent.ModelInfo, profile: str = "native", name: str = "") -> str:
        self.model = model
        return self.trial(answers(DONE), profile, executor_grammar=name).grammar

    def test_it_goes_by_the_name_then_by_the_servers_word_for_the_family(self) -> None:
        info = agent.ModelInfo
        self.assertEqual(self.grammar(info("qwen/qwen3-vl-4b")), "qwen3-vl")
        self.assertEqual(self.grammar(info("mine", architecture="qwen3vl")), "qwen3-vl")
        self.assertEqual(self.grammar(info("unknown")), "tools")
        self.assertEqual(self.grammar(info("qwen/qwen3-vl-4b"), name="tools"), "tools")

    def test_other_profiles_take_one_only_where_a_setting_says_so(self) -> None:
        model = agent.ModelInfo("qwen3-vl-4b")
        self.assertEqual(self.grammar(model, "planner"), "tools")
        self.assertEqual(self.grammar(model, "planner", "qwen3-vl"), "qwen3-vl")
        with self.assertRaisesRegex(agent.ConfigError, "Profile story takes no grammar"):
            self.grammar(model, "story", "qwen3-vl")
        with self.assertRaisesRegex(agent.ConfigError, "There is no grammar 'klingon'"):
            self.grammar(model, "native", "klingon")

    def test_an_unknown_model_is_asked_with_tools(self) -> None:
        from tests.scripted import PROOF, call

        done = call("report_mission_complete", evidence=PROOF)
        trial, _, outcome = self.play(done, grammar="tools")
        self.assertEqual(outcome.kind, "completed")
        request = self.asked(trial)[0]
        names = {tool["function"]["name"] for tool in request["tools"]}
        self.assertIn("click_screen_element", names)
        self.assertNotIn("report_goal_status", names)

    def test_the_servers_list_tells_the_family(self) -> None:
        entry = {"id": "mine", "type": "vlm", "state": "loaded", "arch": "qwen3vl"}
        pages = {"/api/v0/models": http(200, {"data": [entry]})}
        with RoutedServer(pages, LMS_OTHER) as server:
            info = model_server(server.url).discover()
        self.assertEqual(self.grammar(info), "qwen3-vl")


def xml_call(**arguments: str) -> str:
    inside = "".join(f"<parameter={name}>{value}</parameter>" for name, value in arguments.items())
    return f"<tool_call><function=computer_use>{inside}</function></tool_call>"


class Grammars(NativeCase):
    """Each grammar end to end with a server that speaks it."""

    def run_in(self, grammar: agent.Grammar, clicks: int = 3) -> tuple[Trial, agent.Outcome]:
        """A run of some clicks and an end."""

        def decide(request: dict[str, Any]) -> Message:
            if is_verifier(request):
                return text("YES: it is")
            done = trial.inputs.count(("button", "left", True))
            good = spoken(grammar, "end")
            if done < clicks:
                good = spoken(grammar, "click", [100 + 200 * done, 500])
            return text(good)

        trial = self.trial(decide, "native", executor_grammar=grammar.name)
        return trial, trial.run()

    def test_each_grammar_clicks_where_it_says_and_ends(self) -> None:
        for grammar in agent.GRAMMARS.values():
            with self.subTest(grammar.name):
                trial, outcome = self.run_in(grammar)
                self.assertEqual(outcome.kind, "completed")
                xs = [x for kind, x, *_ in trial.inputs if kind == "move"]
                wanted = [6, 19, 32]
                for x, want in zip(xs, wanted, strict=True):
                    self.assertLessEqual(abs(x - want), 1)

    def test_a_question_without_a_place_for_earlier_steps_gets_them_all_the_same(self) -> None:
        grammar = agent.GRAMMARS["ui-tars-1.5"]
        replies = [text(spoken(grammar, "click", [x, 500])) for x in (100, 300)]
        done = text(spoken(grammar, "end"))
        trial, _, outcome = self.play(*replies, done, grammar=grammar.name, keep_last_screenshots=1)
        self.assertEqual(outcome.kind, "completed")
        self.assertIn("Step 1: I click\nStep 2: I click", words_of(self.asked(trial)[2]))
        trial, _, _ = self.play(*replies, done, grammar=grammar.name)
        roles = [message["role"] for message in self.asked(trial)[2]["messages"]]
        self.assertEqual(roles, ["user", "user", "assistant", "user", "assistant", "user"])

    def test_a_reply_in_another_grammar_is_read_and_told_once(self) -> None:
        typed = text(spoken(agent.GRAMMARS["ui-tars-1.0"], "type"))
        trial, _, outcome = self.play(typed, typed, DONE)
        self.assertEqual(outcome.kind, "completed")
        self.assertEqual(trial.inputs.count(("text", "hello")), 2)
        (line,) = [line for line in self.lines if "in another grammar" in line]
        self.assertIn("qwen3-vl", line)


class Planned(NativeCase):
    def test_a_planner_may_have_an_executor_that_speaks_its_own_grammar(self) -> None:
        from tests.scripted import PLAN, role_of

        def decide(request: dict[str, Any]) -> Message:
            if role_of(request) == "planner":
                return PLAN
            return native(request)

        native = answers(CLICK, DONE)
        trial = self.trial(decide, "planner", executor_grammar="qwen3-vl")
        self.assertEqual(trial.run().kind, "completed")
        acting = [r for r in self.asked(trial) if "tools" not in r]
        self.assertIn("Instruction: Click the button.", words_of(acting[0]))


class Meanings(NativeCase):
    """What a reply comes to in tools of this program."""

    def given(self, grammar: str, reply: Message) -> dict[str, Any]:
        """The arguments of the call, which its tool takes."""
        call = agent.native_call(agent.GRAMMARS[grammar].read(reply, "stop", (1000, 1000)))
        return agent.CANONICAL.parse(call).call.arguments

    def label(self, sentence: str) -> str:
        return str(
            self.given("qwen3-vl", said("left_click", sentence, coordinate=[1, 2]))["element_name"]
        )

    def test_a_click_has_the_sentence_as_its_label(self) -> None:
        self.assertEqual(self.label("Do it"), "Do it")

    def test_a_sentence_that_is_cut_ends_with_a_sign_of_it(self) -> None:
        label = self.label("word " * 200)
        self.assertEqual(len(label), 300)
        self.assertTrue(label.endswith("..."))

    def test_a_risk_at_the_end_of_a_long_sentence_stays_in_sight(self) -> None:
        sentence = "Click the button in the lower right corner of the window, " * 3
        self.assertIn("Delete", self.label(sentence + "which is Delete all"))

    def test_of_a_click_without_a_sentence_the_end_of_its_thought_is_the_label(self) -> None:
        for thought, wanted in (
            ("I look. " * 50 + "Now I click\nDelete.", r"^\.\.\..*Now I click Delete\.$"),
            ("I click Delete.", "^I click Delete.$"),
        ):
            reply = {**said("left_click", "", coordinate=[1, 2]), "reasoning_content": thought}
            label = self.given("qwen3-vl", reply)["element_name"]
            self.assertRegex(label, wanted)
            self.assertLessEqual(len(label), 120)

    def test_what_a_tool_does_in_several_steps_is_left_to_it(self) -> None:
        written = said("type", text="hi", coordinate=[1, 2], delete_existing_text=True)
        self.assertEqual(
            self.given("fara-7b", written),
            {
                "text": "hi",
                "position": [1, 2],
                "clear": True,
                "submit": True,
                "element_name": "Do it",
            },
        )
        keys = self.given("qwen3-vl", said("key", keys=["ctrl+a", "delete"]))
        self.assertEqual(keys, {"key": "ctrl+a", "then": ["delete"]})

    def test_each_of_several_acts_is_done_on_a_look_of_its_own(self) -> None:
        trial, state, _ = self.play(said("key", keys=["a", "b"]), DONE)
        keys = [value for kind, value, *_ in trial.inputs if kind == "key"]
        self.assertEqual(keys, ["a", "a", "b", "b"])
        self.assertEqual(len(trial.records("look")), 3)


class Checked(NativeCase):
    def check(self, profile: str) -> tuple[dict[str, str], dict[str, Any]]:
        """What --check finds in that profile, and what it asked."""
        server = mock.Mock(where="here")
        server.discover.return_value = agent.ModelInfo("qwen3-vl-4b", vision=False)
        server.complete.return_value = agent.Reply(
            said("key", keys=["escape"]), "stop", agent.Usage(1, 1, None), "qwen3-vl-4b", 0.1, 1
        )
        found = check_of_model(agent.Config(), profile, server)
        return found, json.loads(server.complete.call_args[0][0])

    def test_the_grammar_is_shown_and_tried(self) -> None:
        findings, request = self.check("native")
        self.assertEqual(findings["grammar"], "asked in qwen3-vl")
        self.assertEqual(findings["tool calls"], 'press_key {"key": "escape"}, not carried out')
        self.assertEqual(request["temperature"], 0)

    def test_another_profile_says_in_what_the_model_was_trained(self) -> None:
        text = self.check("planner")[0]["grammar"]
        self.assertIn("asked in tools", text)
        self.assertIn("trained in qwen3-vl", text)


class People(NativeCase):
    def ask(self, answer: bool | Exception | None = None, panel: bool = False) -> Any:
        """The turn in which a model asks the person to close a dialog."""

        def confirm(question: str) -> bool:
            self.assertIn("close the dialog", question)
            if isinstance(answer, Exception):
                raise answer
            return bool(answer)

        wish = said("interact", text="close the dialog")
        trial = self.trial(answers(wish, DONE), "native", executor_grammar="gui-owl-1.5")
        trial.ask(confirm)
        if panel:
            trial.hear(Person())
            trial.clock.at(trial.clock.now() + 5, lambda: self.go_on(trial.stop))
        self.assertEqual(trial.run().kind, "completed")
        return trial.history[0]

    def go_on(self, stop: agent.Stop) -> None:
        self.assertIn("close the dialog", stop.paused)
        stop.paused = ""

    def test_the_person_is_asked_and_the_model_told_what_came_of_it(self) -> None:
        first = self.ask(True)
        self.assertEqual(
            (first.tool, first.result), ("ask_person", "The person was asked and has done it.")
        )
        self.assertEqual(
            self.ask(False).result,
            "The person was asked and did not do it; go on without, or end with failure.",
        )
        self.assertEqual(
            self.ask(agent.ToolError("nobody")).result,
            "Nobody can be asked; do it another way, or end with failure.",
        )

    def test_with_a_panel_it_is_a_pause_that_the_panel_ends(self) -> None:
        self.assertEqual(self.ask(panel=True).result, "The person was asked and has done it.")


if __name__ == "__main__":
    unittest.main()
