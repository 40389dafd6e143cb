"""That the setting `thinking` reaches every request of every profile."""

from __future__ import annotations

import json
import unittest
from typing import Any
from unittest import mock

import agent
from tests.scripted import PLAN, EngineCase, call, role_of, text
from tests.seams import check_of_model
from tests.servers import RoutedServer, http
from tests.test_model import LMS_OTHER, model_server, native

Settings = dict[str, Any]


def template(name: str, value: bool) -> Settings:
    return {"chat_template_kwargs": {name: value}}


class InEveryProfile(EngineCase):
    def bodies(self, profile: str, **settings: Any) -> list[Settings]:
        """The requests of a run in a profile, with an act and an end in it."""
        story = {"observation": "I see.", "bboxes": [], "actions": [{"action": "click", "x": 1}]}

        def decide(request: Settings) -> Settings:
            if role_of(request) == "planner":
                return PLAN
            if profile == "story":
                return text(json.dumps(story))
            return call("scroll_screen_down") if request.get("tools") else text("YES: done")

        trial = self.trial(decide, profile, max_steps=2, **settings)
        trial.run()
        return trial.requests

    def test_off_stands_in_each_request(self) -> None:
        for profile in agent.PROFILES:
            with self.subTest(profile):
                bodies = self.bodies(profile, thinking="off")
                self.assertGreater(len(bodies), 0)
                for body in bodies:
                    self.assertEqual(
                        body["chat_template_kwargs"], {"enable_thinking": False}, profile
                    )

    def test_nothing_is_said_of_it_unless_it_is_set(self) -> None:
        for body in self.bodies("planner"):
            self.assertNotIn("chat_template_kwargs", body)
            self.assertNotIn("reasoning_effort", body)


class ByModel(EngineCase):
    def switched(self, model: agent.ModelInfo, thinking: str) -> Settings:
        """What a request to the model says of thinking."""
        self.model = model
        trial = self.trial(lambda _: text("-"), max_steps=1, thinking=thinking)
        trial.run()
        told = ("chat_template_kwargs", "reasoning_effort")
        return {name: value for name, value in trial.requests[0].items() if name in told}

    def listed(self, path: str, page: Settings) -> agent.ModelInfo:
        """The model of a server with this list."""
        with RoutedServer({path: http(200, page)}, LMS_OTHER) as server:
            return model_server(server.url).discover()

    def test_each_model_has_its_own_switch_or_none(self) -> None:
        switches = {
            "qwen3.5-4b": template("enable_thinking", False),
            "my-model": template("enable_thinking", False),
            "qwen3-vl-8b-thinking": {},
        }
        for name, wanted in switches.items():
            with self.subTest(name):
                self.assertEqual(self.switched(agent.ModelInfo(name), "off"), wanted)
                self.assertEqual(self.switched(agent.ModelInfo(name), "auto"), {})
        on = self.switched(agent.ModelInfo("qwen3.5-4b"), "on")
        self.assertEqual(on, template("enable_thinking", True))

    def test_where_lm_studio_lists_a_switch_it_is_used(self) -> None:
        reasoning = {"allowed_options": ["off", "on"], "default": "on"}
        sees = {"vision": True}
        thinks = native("qwen/qwen3.5-4b", True, capabilities={**sees, "reasoning": reasoning})
        thinker, plain = (
            self.listed("/api/v1/models", {"models": [one]})
            for one in (thinks, native("qwen/qwen3-vl-4b", True))
        )
        self.assertEqual(self.switched(thinker, "off")["reasoning_effort"], "none")
        self.assertEqual(self.switched(thinker, "on")["reasoning_effort"], "medium")
        self.assertEqual(self.switched(plain, "off"), {})

    def test_ollama_is_told_by_its_own_switch_and_only_to_be_quiet(self) -> None:
        page = {"object": "list", "data": [{"id": "qwen3.5:4b", "owned_by": "library"}]}
        model = self.listed("/v1/models", page)
        self.assertEqual(self.switched(model, "off")["reasoning_effort"], "none")
        self.assertNotIn("reasoning_effort", self.switched(model, "on"))


class WhileMeasuring(unittest.TestCase):
    def setUp(self) -> None:
        self.config = agent.load_config({"test": {"thinking": "off"}})
        self.model = agent.ModelInfo("qwen3.5-4b")

    def test_the_check_asks_as_a_run_does(self) -> None:
        for profile in ("chat", "native"):
            server = mock.Mock(where="here", config=self.config)
            server.discover.return_value = self.model
            message = call("press_key", key="escape")
            server.complete.return_value = agent.Reply(
                message, "stop", agent.Usage(1, 1, None), "", 0.1, 1
            )
            check_of_model(self.config, profile, server)
            bodies = [json.loads(asked.args[0]) for asked in server.complete.call_args_list]
            self.assertGreaterEqual(len(bodies), 2)
            for body in bodies:
                self.assertEqual(body["chat_template_kwargs"], {"enable_thinking": False})


if __name__ == "__main__":
    unittest.main()
