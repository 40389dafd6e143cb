"""A run over a server that shows every fault once still completes its task, or says why not."""

from __future__ import annotations

import itertools
import json
from typing import Any

import agent
from tests.scripted import FEWER_REQUESTS, PLAN, PROOF, EngineCase, call, in_words, role_of, text
from tests.servers import ScriptedServer, Step, answer, reply
from tests.test_model import FAULTS


class FaultyServer(ScriptedServer):
    """Shows a fault on every second connection, as long as there are some; else it answers by `decide`."""

    def __init__(self, faults: list[Step], decide: Any) -> None:
        super().__init__()
        self.faults, self.decide, self.turn = faults, decide, itertools.count()

    def _step(self) -> Step:
        if next(self.turn) % 2 == 0 and self.faults:
            return self.faults.pop(0)
        request = json.loads(self.requests[-1].partition(b"\r\n\r\n")[2])
        message = self.decide(request)
        return answer(200, reply(choices=[{"message": message, "finish_reason": "stop"}]))


class ListlessServer(FaultyServer):
    """Shows a fault whenever a request has a list of tools; else it answers by `decide`."""

    def __init__(self, fault: Step, decide: Any) -> None:
        super().__init__([], decide)
        self.fault, self.refused = fault, 0

    def _step(self) -> Step:
        if b'"tools":' in self.requests[-1].replace(b'" :', b'":'):
            self.refused += 1
            return self.fault
        return super()._step()


class Faults(EngineCase):
    base = FEWER_REQUESTS

    def test_a_run_over_a_server_that_shows_each_fault_once_completes(self) -> None:
        faults = [
            fault.step for fault in FAULTS if fault.kind not in ("context", "no_vision", "no_tools")
        ]
        places = itertools.count()
        self.assertGreater(len(faults), 30)

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role_of(request) == "planner":
                return PLAN
            if role_of(request) == "verifier":
                return text("YES: done")
            if faults:
                return call("click_screen_element", element_name="x", position=[next(places), 5])
            return call("report_mission_complete", evidence=PROOF)

        with FaultyServer(faults, decide) as server:
            trial = self.trial(
                decide, max_steps=400, lmstudio_endpoint=server.url, lmstudio_timeout=1
            )
            trial.server = agent.ModelServer(trial.config, trial.clock, trial.stop)
            outcome = trial.run()
        self.assertEqual((outcome.kind, faults), ("completed", []))
        self.assertTrue(trial.records("model_failed"))

    def test_what_will_not_pass_ends_the_run_at_once(self) -> None:
        for fault in FAULTS:
            # Without a list of tools there is another way: they stand in the text.
            if fault.kind not in ("context", "no_vision", "no_tools") or fault.kind == "no_tools":
                continue
            with self.subTest(fault.name), ScriptedServer(fault.step) as server:
                trial = self.trial(lambda r: PLAN, lmstudio_endpoint=server.url)
                trial.server = agent.ModelServer(trial.config, trial.clock, trial.stop)
                with self.assertRaises(agent.ModelError) as caught:
                    trial.run()
                self.assertEqual((caught.exception.kind, len(server.requests)), (fault.kind, 1))

    def test_a_server_without_a_list_of_tools_is_given_them_in_the_text_and_the_run_completes(
        self,
    ) -> None:
        faults = [fault for fault in FAULTS if fault.kind == "no_tools"]
        self.assertGreater(len(faults), 2)
        for fault in faults:
            with self.subTest(fault.name):
                refused, outcome = self.run_without_a_list(fault.step)
                self.assertEqual((refused, outcome.kind), (1, "completed"))

    def test_a_setting_that_insists_on_the_list_ends_the_run_at_the_first_refusal(self) -> None:
        (first, *_) = [fault for fault in FAULTS if fault.kind == "no_tools"]
        with self.assertRaises(agent.ModelError) as caught:
            self.run_without_a_list(first.step, calls="tools")
        self.assertEqual(caught.exception.kind, "no_tools")

    def run_without_a_list(self, fault: Step, **settings: Any) -> tuple[int, agent.Outcome]:
        """How many requests the server refused for their list of tools, and how the run ended."""
        messages = iter([PLAN, call("report_mission_complete", evidence=PROOF), text("YES: done")])

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            message = dict(next(messages))
            for wanted in message.pop("tool_calls", ()):
                function = wanted["function"]
                message["content"] = in_words(function["name"], **json.loads(function["arguments"]))
            return message

        with ListlessServer(fault, decide) as server:
            trial = self.trial(decide, lmstudio_endpoint=server.url, **settings)
            trial.server = agent.ModelServer(trial.config, trial.clock, trial.stop)
            outcome = trial.run()
        return server.refused, outcome

    def test_the_same_trouble_again_and_again_ends_the_run_and_says_why(self) -> None:
        with ScriptedServer(answer(401, {"error": "no"})) as server:
            trial = self.trial(lambda r: PLAN, lmstudio_endpoint=server.url)
            trial.server = agent.ModelServer(trial.config, trial.clock, trial.stop)
            with self.assertRaises(agent.ModelError) as caught:
                trial.run()
        self.assertEqual(caught.exception.kind, "auth")
        self.assertEqual(len(server.requests), trial.config.model_failures + 1)
