"""What a server is sent, in which order, and what of its figures is believed."""

from __future__ import annotations

import itertools
import json
import unittest
from dataclasses import replace
from typing import Any, NamedTuple

import agent
from tests.samples import sample
from tests.scripted import (
    FEWER_REQUESTS,
    PLAN,
    EngineCase,
    SmallPictures,
    Trial,
    call,
    in_words,
    reused,
    role_of,
    server_reads,
    text,
)
from tests.servers import RoutedServer, ScriptedServer, answer, http, reply
from tests.test_model import model_server

Request = dict[str, Any]


def acting(trial: Trial) -> list[Request]:
    """The requests of the role that acts."""
    return [r for r in trial.requests if role_of(r) == "executor"]


def parts(request: Request) -> list[str]:
    """The first user message's content: its texts, and the URL of its picture between them."""
    content = request["messages"][1]["content"]
    return [part.get("text") or part["image_url"]["url"] for part in content]


class WhereThePictureStands(EngineCase):
    def requests(self, *acts: Request, **settings: Any) -> list[Request]:
        """The executor's requests of a run in which it does this, then scrolls."""
        replies = itertools.chain(acts, itertools.repeat(call("scroll_screen_down")))
        trial = self.trial(
            lambda r: PLAN if role_of(r) == "planner" else next(replies), max_steps=6, **settings
        )
        trial.run()
        return acting(trial)

    def test_with_a_new_picture_the_whole_context_stands_before_it(self) -> None:
        requests = self.requests()
        pictures = {parts(request)[1] for request in requests}
        self.assertEqual(len(pictures), len(requests))
        for one, other in itertools.pairwise(requests):
            self.assertTrue(parts(other)[0].startswith(parts(one)[0]))
            self.assertGreater(len(parts(other)[0]), len(parts(one)[0]))
            self.assertNotIn("SINCE_THIS_PICTURE", parts(other)[2])

    def test_while_the_picture_stays_the_same_so_does_all_before_it(self) -> None:
        idle = [text("I only look.")] * 2
        status = call(
            "report_goal_status", goal_identifier="1", completion_status="IN_PROGRESS", evidence=""
        )
        first, _, _, again, later, *_ = self.requests(call("scroll_screen_down"), *idle, status)
        # A correction belongs to the same turn, so the fourth request is the third turn's.
        self.assertNotEqual(parts(first)[1], parts(again)[1])
        self.assertEqual(parts(again)[:2], parts(later)[:2])
        self.assertTrue(parts(later)[2].startswith("SINCE_THIS_PICTURE:\n  Turn_"))
        self.assertIn("report_goal_status", parts(later)[2].partition("\n\n")[0])
        self.assertNotIn("report_goal_status", parts(later)[0])

    def test_what_was_new_behind_a_picture_stands_before_the_next_one(self) -> None:
        status = call(
            "report_goal_status", goal_identifier="1", completion_status="IN_PROGRESS", evidence=""
        )
        _, same, new, *_ = self.requests(status)
        lines = parts(same)[2].partition("\n\n")[0].removeprefix("SINCE_THIS_PICTURE:")
        self.assertNotEqual(parts(same)[1], parts(new)[1])
        self.assertTrue(parts(new)[0].startswith(parts(same)[0] + lines))

    def test_the_log_shows_a_message_in_its_order(self) -> None:
        message = agent.Message("user", "Act.", b"UE5H", before="TASK: a")
        self.assertEqual(str(message), "user: TASK: a\ndata:image/png;base64,UE5H Act.")
        self.assertEqual(
            message.to_json(),
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "TASK: a"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}},
                    {"type": "text", "text": "Act."},
                ],
            },
        )

    def test_a_picture_that_needs_no_words_is_sent_alone(self) -> None:
        content = agent.Message("user", "", b"UE5H").to_json()["content"]
        self.assertEqual([part["type"] for part in content], ["image_url"])


class Reuse(unittest.TestCase):
    def usage(self, **told: Any) -> agent.Usage:
        with ScriptedServer(answer(200, reply(**told))) as server:
            return model_server(server.url).complete(b"{}").usage

    def test_what_the_server_kept_is_told_by_its_usage_before_its_timings(self) -> None:
        counted = {"prompt_tokens": 100, "completion_tokens": 5}
        details = {**counted, "prompt_tokens_details": {"cached_tokens": 60}}
        timings = {"cache_n": 70, "prompt_n": 30}
        self.assertEqual(self.usage(usage=details, timings=timings).cached_tokens, 60)
        self.assertEqual(self.usage(usage=counted, timings=timings).cached_tokens, 70)
        self.assertIsNone(self.usage(usage=counted).cached_tokens)


PRESS = call("press_keyboard_key", key="tab", reasoning="next")


class CallsInTheText(EngineCase):
    base = FEWER_REQUESTS

    def run_with(
        self, decide: Any, profile: str = "planner", model: Any = None, **settings: Any
    ) -> list[Request]:
        """A run's requests."""
        trial = self.trial(decide, profile, **settings)
        if model:
            trial.choose(model)
        trial.run()
        return trial.requests

    def test_three_replies_without_any_call_change_to_calls_in_the_text(self) -> None:
        def decide(request: Request) -> Request:
            if "tools" in request:
                return text("I would make a plan.")
            if "update_execution_plan" in request["messages"][0]["content"]:
                return text(said_call("update_execution_plan", instructions="Press tab."))
            return text(said_call("press_keyboard_key", key="tab"))

        requests = self.run_with(decide, max_steps=5)
        self.assertEqual(["tools" in request for request in requests], [True] * 3 + [False] * 4)
        self.assertIn("The first 3 replies held no tool call", "\n".join(self.lines))
        self.assertEqual(sum("now on the tools stand in the text" in x for x in self.lines), 1)
        system = requests[-1]["messages"][0]["content"]
        self.assertIn('{"name": "press_keyboard_key", "description": "Press keys."', system)
        self.assertIn("<tool_call>", system)
        self.assertNotIn("tool_choice", requests[-1])

    def test_one_call_is_enough_to_keep_the_list(self) -> None:
        replies = iter([text("A plan."), PLAN])
        requests = self.run_with(lambda r: next(replies, text("I look.")), max_steps=6)
        self.assertTrue(all("tools" in request for request in requests))
        self.assertFalse([line for line in self.lines if "stand in the text" in line])

    def test_a_setting_decides_it_from_the_start(self) -> None:
        silent = text("I look.")
        requests = self.run_with(lambda r: silent, max_steps=3, calls="tools")
        self.assertTrue(all("tools" in request for request in requests))
        self.assertFalse([line for line in self.lines if "stand in the text" in line])
        requests = self.run_with(lambda r: silent, max_steps=2, calls="text")
        self.assertFalse(any("tools" in request for request in requests))

    def test_a_template_without_tools_is_given_them_in_the_text(self) -> None:
        blind = agent.ModelInfo("scripted", tools=False)
        requests = self.run_with(lambda r: text("I look."), model=blind, max_steps=2)
        self.assertFalse(any("tools" in request for request in requests))

    def test_a_server_that_refuses_tools_is_given_them_in_the_text(self) -> None:
        def decide(request: Request) -> Request:
            if "tools" in request:
                raise agent.ModelError("It does not support tools.", "no_tools")
            return text("I look.")

        requests = self.run_with(decide, max_steps=3)
        self.assertEqual(["tools" in request for request in requests[:2]], [True, False])
        self.assertIn("takes no list of tools", "\n".join(self.lines))
        with self.assertRaises(agent.ModelError):
            self.run_with(decide, max_steps=3, calls="tools")

    def test_a_conversation_is_told_in_words_alone(self) -> None:
        replies = iter([text(said_call("press_key", key="tab")), text("Done.")])
        request = self.run_with(lambda r: next(replies), "chat", calls="text")[-1]
        self.assertEqual(
            [message["role"] for message in request["messages"]],
            ["system", "user", "assistant", "user", "user", "assistant", "user"],
        )
        for message in request["messages"]:
            self.assertEqual(set(message), {"role", "content"})
        self.assertEqual(request["messages"][5]["content"], said_call("press_key", key="tab"))

    def test_a_call_is_required_where_the_server_sees_to_it_and_none_must_end_the_run(self) -> None:
        llama = agent.ModelInfo("scripted", llama_cpp=True)
        for profile, model, settings, wanted in (
            ("planner", llama, {}, "required"),
            ("planner", None, {}, "auto"),
            ("chat", llama, {}, "auto"),
            ("planner", llama, {"calls": "tools"}, "auto"),
            ("planner", None, {"calls": "required"}, "required"),
        ):
            with self.subTest(profile=profile, **settings):
                requests = self.run_with(
                    lambda r: text("-"), profile, model, max_steps=1, **settings
                )
                self.assertEqual({r["tool_choice"] for r in requests}, {wanted})


def said_call(name: str, **arguments: str) -> str:
    """A call as the text asks for it."""
    return in_words(name, **arguments)


class WhatWillNotPass(EngineCase):
    def test_a_request_that_can_never_fit_is_sent_once(self) -> None:
        for profile in agent.PROFILES:
            for kind in ("context", "no_vision"):
                with self.subTest(profile=profile, kind=kind):

                    def decide(request: Request, kind: str = kind) -> Request:
                        raise agent.ModelError("It has 3000 of 2048 tokens.", kind)

                    trial = self.trial(decide, profile)
                    with self.assertRaisesRegex(agent.ModelError, "3000 of 2048") as caught:
                        trial.run()
                    self.assertEqual(caught.exception.exit_code, 3)
                    self.assertEqual(len(trial.requests), 1)


def listed(modalities: list[str] | None, capabilities: list[str], server: str = "llamacpp") -> Any:
    """A list of models as llama.cpp writes it."""
    entry: Request = {"id": "m", "owned_by": server, "meta": {"n_ctx": 8192}}
    if modalities:
        entry["architecture"] = {"input_modalities": modalities}
    return {"models": [{"name": "m", "model": "m", "capabilities": capabilities}], "data": [entry]}


class Discovery(unittest.TestCase):
    def discover(self, page: Any, properties: Any = None) -> agent.ModelInfo:
        """What is found on a server with this list, and these properties if it has any."""
        pages = {"/v1/models": http(200, page)}
        if properties:
            pages["/props"] = http(200, properties)
        other = http(404, {"error": {"message": "File Not Found", "type": "not_found_error"}})
        with RoutedServer(pages, other) as server:
            return model_server(server.url).discover()

    def test_llama_cpp_tells_whether_its_model_sees(self) -> None:
        for modalities, capabilities in (
            (["text"], []),
            (None, ["completion"]),
        ):
            with self.assertRaisesRegex(agent.ModelError, "text only: m") as caught:
                self.discover(listed(modalities, capabilities))
            self.assertEqual((caught.exception.kind, caught.exception.exit_code), ("no_vision", 3))
        for modalities in (["text", "image"], None):
            self.assertTrue(self.discover(listed(modalities, ["completion", "multimodal"])).vision)

    def test_llama_cpp_tells_whether_its_template_shows_tools(self) -> None:
        page = listed(["text", "image"], ["completion", "multimodal"])
        for told in (True, False, None):
            info = self.discover(page, {"chat_template_caps": {"supports_tools": told}})
            self.assertEqual((info.tools, info.llama_cpp), (told, True))
            self.assertEqual("leaves out tools" in info.note, told is False)
        self.assertIsNone(self.discover(page).tools)
        other = self.discover(listed(["text", "image"], [], "vllm"))
        self.assertEqual((other.tools, other.llama_cpp), (None, False))


class Schemas(unittest.TestCase):
    def test_a_servers_grammar_allows_no_place_without_two_numbers_and_no_other_status(
        self,
    ) -> None:
        words = agent.PLANNER_WORDS
        click, drag, status, archive = (
            tool["function"]["parameters"]["properties"]
            for tool in words.schemas(["click", "drag", "report_status", "archive"])
        )
        for place in (click["position"], drag["start"], drag["end"]):
            self.assertEqual((place["minItems"], place["maxItems"]), (2, 2))
        self.assertEqual(status["completion_status"]["enum"], ["DONE", "BLOCKED", "IN_PROGRESS"])
        self.assertEqual(archive["archived_turns"]["items"]["minimum"], 1)

    def test_a_status_in_other_words_is_still_understood(self) -> None:
        message = call("report_goal_status", goal_identifier="1", completion_status="Completed.")
        found = agent.read_call(message, "stop", agent.PLANNER_WORDS)
        self.assertEqual(found.call.arguments["completion_status"], "Completed.")


class Conversed(NamedTuple):
    """The requests of a conversation, how often it was condensed, and the warnings that it is small."""

    requests: list[Request]
    archives: int
    told: list[str]


class Conversations(EngineCase):
    """A hundred steps of a conversation, with a server that counts as a real one does."""

    desktop_type = SmallPictures

    def converse(self, context: int, acts: int) -> Conversed:
        """A conversation of so many acts in so many tokens."""
        requests, archives = self.conversation(context, acts)
        told = [line for line in self.lines if "is small for a conversation" in line]
        return Conversed(requests, archives, told)

    def conversation(self, context: int, acts: int) -> tuple[list[Request], int]:
        """The requests, and how often the conversation was condensed."""
        numbers = itertools.count()

        def decide(request: Request) -> Request:
            said = "The last action worked, the window shows what was typed, and so I go on. " * 3
            number = next(numbers)
            act = call("type_text", text=f"{number} is a line of the list. ")
            return {**(call("observe_screen") if number % 2 else act), "content": said}

        trial = self.trial(
            decide, "chat", max_steps=acts, screen_capture_w=1536, screen_capture_h=864
        )
        trial.choose(agent.ModelInfo("scripted", True, True, context))
        plain = trial.server.complete

        def counted(body: bytes) -> agent.Reply:
            tokens = sum(tokens for _, tokens in server_reads(json.loads(body)))
            if tokens > context - trial.config.executor_max_tokens:
                raise agent.ModelError(f"{tokens} tokens are too many.", "context")
            reply = plain(body)
            said = len(json.dumps(reply.message)) // 4
            return replace(reply, usage=agent.Usage(tokens, said, None))

        trial.server.complete = counted
        self.assertEqual(trial.run().kind, "max_steps")
        self.assertEqual(trial.records("model_failed"), [])
        return trial.requests, len(trial.records("archive"))

    def test_a_conversation_in_8192_tokens_is_condensed_seldom(self) -> None:
        acts = sample(50, 24)
        requests, archives, told = self.converse(8192, acts)
        self.assertEqual(len(requests), 2 * acts + 1)
        self.assertLessEqual(archives, 10)
        self.assertGreater(archives, 0)
        kept = [sum(t for _, t in server_reads(r)) for r in requests]
        shares = [reused(*pair) for pair in itertools.pairwise(requests)]
        share = sum(s * t for s, t in zip(shares, kept[1:], strict=True)) / sum(kept[1:])
        self.assertGreaterEqual(share, 0.68)
        self.assertEqual(told, [])

    def test_with_more_room_more_screenshots_are_kept(self) -> None:
        few = self.converse(8192, 8).requests
        many = self.converse(16384, 8).requests
        pictures = [max(json.dumps(r).count('"image_url":') for r in one) for one in (few, many)]
        self.assertEqual(pictures, [3, 4])
