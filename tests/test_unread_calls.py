"""A call that the server's own parser could not read: the model is told, and nothing is asked the same again."""

from __future__ import annotations

import json
import unittest
from typing import Any

import agent
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, call, in_words, role_of, text
from tests.servers import ScriptedServer, answer
from tests.test_model import model_server

Request = dict[str, Any]

# What is said where, each with status 500.
SAID = {
    "llama.cpp": "Failed to parse input at pos 12: <tool_call>\n{}, the context size of which",
    "Ollama": "error parsing tool call: raw='{\"name\":', err=unexpected end of JSON input",
    "Ollama, Qwen3-VL": "invalid character ']' after object key:value pair",
    "Ollama, Qwen3.5": "failed to parse JSON: unexpected end of JSON input",
    "Ollama, later": "failed to parse model-generated tool call: invalid character 'x'",
}
UNREAD = {"role": "assistant", "content": "", "unread_call": "It could not read the call."}


class UnreadCalls(EngineCase):
    base = FEWER_REQUESTS

    def test_the_servers_words_are_a_reply_without_a_call_at_the_first_try(self) -> None:
        for name, said in SAID.items():
            fault = answer(500, {"error": {"code": 500, "message": said, "type": "server_error"}})
            with self.subTest(name), ScriptedServer(fault) as server:
                reply = model_server(server.url).complete(b"{}")
                self.assertEqual((reply.text, len(server.requests)), ("", 1))
                with self.assertRaises(agent.ReplyError) as caught:
                    agent.read_call(reply.message, reply.finish_reason, agent.PLANNER_WORDS)
                self.assertEqual(caught.exception.kind, "invalid_json")

    def test_a_broken_history_is_the_requests_own_fault(self) -> None:
        said = "Failed to parse tool call arguments as JSON: syntax error"
        fault = answer(500, {"error": {"message": said}})
        with ScriptedServer(fault) as server, self.assertRaises(agent.ModelError) as caught:
            model_server(server.url).complete(b"{}")
        self.assertEqual(caught.exception.kind, "server")

    def test_the_model_is_told_and_calls_again_in_the_same_turn(self) -> None:
        replies = iter([PLAN, UNREAD, call("scroll_screen_down")])
        trial = self.trial(lambda r: next(replies), max_steps=2)
        trial.run()
        (record,) = trial.records("action")
        self.assertEqual(record["tool"], "scroll_screen_down")
        told = json.dumps(trial.requests[-1]["messages"][-1])
        self.assertIn("The server could not read the call.", told)

    def test_a_server_that_reads_none_is_given_the_tools_in_the_text(self) -> None:
        def decide(request: Request) -> Request:
            if "tools" in request:
                return UNREAD
            if role_of(request) == "planner":
                return text(in_words("update_execution_plan", instructions="Go."))
            return text(in_words("scroll_screen_down"))

        trial = self.trial(decide, max_steps=4)
        trial.run()
        self.assertEqual(trial.records("action")[-1]["tool"], "scroll_screen_down")
        self.assertIn("stand in the text", "\n".join(self.lines))

    def test_it_is_told_in_the_log(self) -> None:
        trial = self.trial(lambda _: UNREAD, max_steps=1)
        trial.run()
        self.assertIn("lost: It could not read the call.", trial.log())


if __name__ == "__main__":
    unittest.main()
