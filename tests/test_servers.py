"""Model servers as they are in the wild: whole runs against a real one that fails or refuses, and what the person is told.

A row of data/server_cases.jsonl says what a server answers (`says`: status and body, or fields of a reply) and to which
requests (`when`), in which profiles, and what comes of it: the end of the run or the kind of the fault, the line that
the person reads once (or never), the words of a stuck run's end, at most how many requests.
"""

from __future__ import annotations

import json
import re
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import agent
from tests.fakes import VirtualClock
from tests.samples import some
from tests.scripted import FEWER_REQUESTS, PROOF, EngineCase, Trial, call, in_words, text
from tests.servers import Answering, reply
from tests.test_model import model_server, rows

Request = dict[str, Any]


def words_of(message: Request) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def pictures_in(request: Request) -> int:
    return json.dumps(request["messages"]).count('"image_url":')


def in_turns(request: Request) -> bool:
    """Whether user and assistant take turns behind the system message, and nobody else speaks."""
    said = [message["role"] for message in request["messages"]]
    said = said[said[0] == "system" :]
    return said == ["user", "assistant"] * (len(said) // 2) + ["user"] * (len(said) % 2)


# To which requests a server answers badly, by a request and how many came before.
WHEN: dict[str, Callable[[Request, int], bool]] = {
    "always": lambda request, number: True,
    "second": lambda request, number: number == 1,
    "first three": lambda request, number: number < 3,
    "first six": lambda request, number: number < 6,
    "tools": lambda request, number: "tools" in request,
    "pictures": lambda request, number: pictures_in(request) > 0,
    "two pictures": lambda request, number: pictures_in(request) > 1,
    "no turns": lambda request, number: not in_turns(request),
    "system": lambda request, number: request["messages"][0]["role"] == "system",
    "thinks": lambda request, number: "enable_thinking" not in str(request),
    "streams": lambda request, number: request.get("stream") is not False,
    "few tokens": lambda request, number: request["max_tokens"] == 1000,
}
JUDGED = ("You check whether", "You say how one can see")


class Model(Answering):
    """A server whose model carries every task out, but for the answers of a row."""

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__()
        self.row, self.requests, self.acts = row, list[Request](), 0

    def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        if not body:
            return 404, b"{}"
        request = json.loads(body)
        number = len(self.requests)
        self.requests.append(request)
        says = self.row.get("says", {})
        if says and WHEN[self.row.get("when", "always")](request, number):
            if "status" in says:
                page = says["body"]
                page = page if isinstance(page, str) else json.dumps(page)
                return says["status"], page.encode()
            return 200, json.dumps(self.completion(**says)).encode()
        return 200, json.dumps(self.completion(self.act(request))).encode()

    def completion(
        self, message: Request, finish_reason: str = "stop", usage: Request | None = None
    ) -> Request:
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        return reply(model="scripted", choices=[choice], usage=usage or {})

    def act(self, request: Request) -> Request:
        """Three acts, then the claim that all is done; a plan to a planner, a yes to a judge."""
        said = "\n".join(words_of(message) for message in request["messages"][:1])
        told = said + json.dumps(request.get("tools"))
        if any(words in said for words in JUDGED):
            return text("1 YES: the title says Saved.")
        if '"update_execution_plan"' in told:
            plan = {"instructions": "Scroll down.", "reasoning": "first"}
            return self.called(request, "update_execution_plan", **plan)
        self.acts += 1
        if '"computer_use"' in told:
            asked = {"action": "scroll", "pixels": -3}
            if self.acts > 3:
                asked = {"action": "terminate", "status": "success"}
            return text(f"Action: Go on\n{in_words('computer_use', **asked)}")
        if '"press_key"' in told or '"take_screenshot"' in told:  # a conversation
            if self.acts > 8:
                return text("DONE: the title says Saved.")
            look = "observe_screen" if '"observe_screen"' in told else "take_screenshot"
            act = (
                {"name": "press_key", "key": "tab"}
                if '"press_key"' in told
                else {"name": "scroll_down"}
            )
            return self.called(request, **act) if self.acts % 2 else self.called(request, look)
        if '"scroll_screen_down"' in told:
            if self.acts > 3:
                return self.called(request, "report_mission_complete", evidence=PROOF)
            return self.called(request, "scroll_screen_down", reasoning="on")
        story = {"observation": "I go on.", "bboxes": [], "actions": [{"action": "scroll_down"}]}
        return text(json.dumps(story))

    def called(self, request: Request, name: str, **arguments: Any) -> Request:
        """The call as the request offers it."""
        if "tools" in request:
            return call(name, **arguments)
        return text(in_words(name, **arguments))


class Cases(EngineCase):
    base = FEWER_REQUESTS

    def run_of(
        self, row: dict[str, Any], profile: str
    ) -> tuple[Trial, Model, agent.Outcome | None]:
        """The run against that server, and its end; None for one that raised a fault."""
        settings = {"max_steps": 14, "verify_completion": True, **row.get("settings", {})}
        if profile == "native":
            settings = {"executor_grammar": "qwen3-vl", **settings}
        trial = self.trial(lambda _: {}, profile, **settings)
        trial.choose(agent.ModelInfo(**{"name": "scripted", **row.get("model", {})}))
        if row.get("hint"):
            trial.hear("Use the list.")
        self.begin(trial)
        with Model(row) as server:
            self.waits = VirtualClock()
            trial.server = model_server(server.url, self.waits)
            trial.server.info = trial.engine.session.model
            try:
                return trial, server, trial.run()
            except agent.ModelError as error:
                self.fault = error
                return trial, server, None

    def test_each_run_goes_on_or_ends_with_the_setting_that_is_wrong(self) -> None:
        folder = self.folder
        whole = [
            (row, who) for row in rows("server_cases.jsonl") for who in row["profiles"].split()
        ]
        cases = some(
            whole, 6, lambda case: (case[0]["ends"], case[0].get("when"), "says" in case[0])
        )
        self.assertEqual({profile for _, profile in cases}, {profile for _, profile in whole})
        for number, (row, profile) in enumerate(cases):
            self.folder = folder / f"{number}{profile}"
            with self.subTest(row["id"], profile=profile):
                _, server, outcome = self.run_of(row, profile)
                told = "\n".join(self.lines)
                end = outcome.kind if outcome else f"fault {self.fault.kind}"
                self.assertEqual(end, row["ends"], f"{outcome or self.fault}\n{told}")
                said = outcome.text if outcome else str(self.fault)
                self.assertRegex(said, row.get("text", "(?s).*"))
                if "line" in row:
                    self.assertEqual(len(re.findall(row["line"], told)), 1, told)
                self.assertNotRegex(told, row.get("never", "(?!)"))
                self.assertLessEqual(len(server.requests), row.get("requests", 60))
                self.assertEqual(bool(self.waits.sleeps), row.get("waits", False))
                if row.get("as before"):  # what cured nothing is given up
                    self.assertIn("tools", server.requests[row["as before"]])
                if outcome and outcome.kind == "completed" and row["says"]:
                    bad = WHEN[row["when"]]
                    refused = sum(bad(asked, n) for n, asked in enumerate(server.requests))
                    self.assertLessEqual(refused, row.get("refused", 1))


class Forms(unittest.TestCase):
    def test_those_that_cure_nothing_are_given_up_and_not_tried_again(self) -> None:
        server = mock.Mock()
        server.complete.side_effect = agent.ModelError("Odd.", "error")
        asked = agent.Asked(agent.Config(), agent.ModelInfo("m"), server)
        tool = {"type": "function", "function": {"name": "press_key"}}
        for requests in (2, 3):  # as it is and with the tool in the text; as it is
            with self.subTest(requests):
                with self.assertRaisesRegex(agent.ModelError, "Odd"):
                    asked.ask("Go on.", b"", [tool])
                self.assertEqual(server.complete.call_count, requests)
                self.assertEqual((asked.rungs, asked.notices), (set(), {}))


if __name__ == "__main__":
    unittest.main()
