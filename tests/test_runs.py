"""Whole runs against scripted models, each a row of data/runs.jsonl: what the models say, and what comes of it.

`says` has the replies of each role, one after the other, the last again and again: words, [tool, arguments], a message,
or what Qwen3-VL or a story says; a planner without any tells to click the button. `told`, `untold` and `once` are words
of the request of a role (e1: the executor's second).
"""

from __future__ import annotations

import itertools
import json
import re
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

import agent
from tests.samples import some
from tests.scripted import FEWER_REQUESTS, PLAN, PROOF, EngineCase, call, qwen, role_of, text

FILE = Path(__file__).parent / "data" / "runs.jsonl"


def said(reply: Any) -> dict[str, Any]:
    """A reply as the server gives it."""
    if isinstance(reply, str):
        return text(reply)
    if isinstance(reply, list):
        return call(reply[0], **reply[1])
    if "fails" in reply:
        raise agent.ModelError("It fails.", reply["fails"])
    if "story" in reply:
        return text(json.dumps(reply["story"]))
    if "qwen" in reply:
        return qwen(sentence=reply["sentence"], **reply["qwen"])
    return dict(reply)


def control(name: str, role: str, rect: list[int], more: Any = None) -> agent.Control:
    return agent.Control(name, role, agent.Rect(*rect), window=1, **(more or {}))


WINDOW = [control("Plain", "window", [0, 0, 64, 36])]


def words_of(request: dict[str, Any]) -> str:
    """All that a model reads: the texts, where a picture stands, and the tools."""
    contents = [message["content"] for message in request["messages"]]
    parts = [[{"text": one}] if isinstance(one, str) else one or [] for one in contents]
    words = [part.get("text", "image_url") for part in itertools.chain(*parts)]
    return "\n".join([*words, json.dumps(request.get("tools"))])


class Runs(EngineCase):
    base = FEWER_REQUESTS

    def carried_out(self, row: dict[str, Any]) -> Any:
        left = {who: [*replies] for who, replies in {"planner": [PLAN], **row["says"]}.items()}

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            replies = left[role_of(request)]
            return said(replies.pop(0) if len(replies) > 1 else replies[0])

        trial = self.trial(decide, row["profile"], **row.get("settings", {}))
        trial.desktop.dead = row.get("dead", False)
        controls = [control(*given) for given in row.get("controls", [])]
        trial.desktop.control_source = agent.KnownControls([*controls, *WINDOW] if controls else [])
        trial.state.task = row.get("task", "Press the button")
        self.questions: list[str] = []
        if "yes" in row:
            trial.ask(lambda question: bool(self.questions.append(question)) or row["yes"])
        self.begin(trial, trial.state.task)
        return trial, trial.run()

    def holds(self, row: dict[str, Any]) -> None:
        trial, outcome = self.carried_out(row)
        self.assertRegex(outcome.kind, row.get("kind", "."))
        self.assertRegex(outcome.text, row.get("text", "(?s).*"))
        roles = [role_of(request) for request in trial.requests]
        letters = "".join("x" if who == "examiner" else who[0] for who in roles)
        self.assertRegex(letters, row.get("roles", "."))
        self.assertEqual(len(roles), row.get("requests", len(roles)))
        for name in ("told", "untold", "once"):
            for where, words in row.get(name, []):
                number = [n for n, who in enumerate(letters) if who == where[0]][int(where[1:])]
                times = words_of(trial.requests[number]).count(words)
                self.assertTrue(
                    times == 1 if name == "once" else bool(times) == (name == "told"), words
                )
        for words in row.get("never", []):
            self.assertNotIn(words, str([request["messages"] for request in trial.requests]))
        if "line" in row:
            self.assertEqual(len(re.findall(row["line"], "\n".join(self.lines))), 1)
        for name, value in row.get("fields", {}).items():
            for request in trial.requests:
                self.assertEqual(request.get(name), value)
        events = trial.inputs
        self.assertEqual(len(events), row.get("inputs", len(events)))
        presses = events.count(("button", "left", True))
        self.assertEqual(presses, row.get("presses", presses))
        for kind, name in (("text", "typed"), ("key", "keys")):
            found = [event[1] for event in events if event[0] == kind and event[-1] is not False]
            self.assertEqual(found, row.get(name, found))
        moves = [[*event[1:]] for event in events if event[0] == "move"]
        self.assertEqual(moves, row.get("moves", moves))
        self.assertRegex("".join(self.questions), row.get("asked", "(?s).*"))
        kinds = Counter(record["kind"] for record in trial.records())
        self.assertEqual({**kinds}, {**kinds, **row.get("records", {})})
        tools = Counter(record["tool"] for record in trial.records("intent"))
        self.assertEqual(tools, row.get("intents", tools))
        if "result" in row:
            self.assertEqual(trial.records("result")[-1]["result"], row["result"])

    def test_each_run_comes_to_what_its_row_says(self) -> None:
        folder = self.folder
        lines = FILE.read_text("utf-8").replace("{PROOF}", PROOF).splitlines()
        rows = some(
            [json.loads(line) for line in lines], 4, lambda row: (row["profile"], row.get("kind"))
        )
        self.assertGreater(len(rows), 30)
        for number, row in enumerate(rows):
            self.folder = folder / str(number)  # in which no run went before
            with self.subTest(row["rule"], profile=row["profile"], says=row["says"]):
                self.holds(row)


if __name__ == "__main__":
    unittest.main()
