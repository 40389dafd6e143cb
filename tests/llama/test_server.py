"""The program in front of a real llama.cpp server. Run by name, since it installs that first:

python -m unittest discover -s tests/llama

The server computes and counts each request of the real program on its demo desktop; as the models
are random, the replies are those of the built-in model (see server.Between).
"""

from __future__ import annotations

import re
import signal
import time
import unittest

import agent
from tests.llama.server import CHAT, Between, Exchange, Json, LlamaServer, Program, Run

ENDLESS = 60_000  # tokens, of which it says some hundred a second
PICTURE_TOKENS = 1296  # of 1536x864: 48 x 27 squares of 32 pixels
MARKS = 2  # the tokens around a picture
PROFILES = {"planner": 50, "commander": 50, "chat": 50, "pointer": 8, "story": 50}  # turns
# The least share of the acting role's prompts that the server need not compute again.
REUSED = {"planner": 0.52, "commander": 0.52, "chat": 0.75, "pointer": 0.75, "story": 0.28}
ACT = [{"role": "user", "content": "Act."}]
FIVE = {"type": "integer", "minimum": 5, "maximum": 5}
PLACE = {"type": "object", "properties": {"place": FIVE}, "required": ["place"]}
GO = {"type": "function", "function": {"name": "go", "parameters": PLACE}}
REQUEST = {"messages": ACT, "tools": [GO], "temperature": 0}
# How the prompts of those begin who judge a completion, for which no tools are offered.
JUDGES = ("You say how one can see", "You check whether")

SERVER: LlamaServer  # that most tests share


def setUpModule() -> None:
    """Installs the server and makes the models, if they are not there, and starts it."""
    global SERVER
    SERVER = LlamaServer()
    unittest.addModuleCleanup(SERVER.__exit__)
    SERVER.begin()
    SERVER.wait_until_ready()


def with_demo_replies(
    server: LlamaServer, *options: str, told: bool = True
) -> tuple[Run, list[Exchange]]:
    """A run whose requests the server computes and the built-in model answers."""
    with Between(server.base, lambda request: dict(agent.demo_reply(request)), told) as between:
        return Program(between.url, *options).finish(), between.exchanges


def tokens_of(*parts: Json) -> int:
    """The tokens of a prompt with these parts."""
    content = [*parts, {"type": "text", "text": "Look."}]
    answer = SERVER.chat(messages=[{"role": "user", "content": content}], max_tokens=1)
    return int(answer["usage"]["prompt_tokens"])


def picture_tokens(exchange: Exchange) -> int:
    """What the last picture of a request costs."""
    contents = [message["content"] for message in exchange.request["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return tokens_of([part for part in parts if "image_url" in part][-1]) - tokens_of() - MARKS


class Accepted(unittest.TestCase):
    """Each profile's whole run in front of one server."""

    runs: dict[str, tuple[Run, list[Exchange]]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.runs = {}
        for profile, turns in PROFILES.items():
            options = "--profile", profile, "--max-steps", str(turns)
            cls.runs[profile] = with_demo_replies(SERVER, *options)

    def test_every_request_of_every_profile_is_accepted_and_the_journal_has_the_tokens_counted(
        self,
    ) -> None:
        for profile, (done, exchanges) in self.runs.items():
            with self.subTest(profile):
                self.assertEqual({exchange.status for exchange in exchanges}, {200})
                self.assertGreater(len(exchanges), 5)
                self.assertEqual(done.code, 0, done.text)
                usages = [one.answer["usage"] for one in exchanges]
                counted = [usage["prompt_tokens"] for usage in usages]
                cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
                self.assertEqual([one.reused for one in exchanges], cached)
                self.assertEqual([one.reused + one.computed for one in exchanges], counted)
                tokens = [record["tokens"] for record in done.records("reply")]
                self.assertEqual([each["prompt"] for each in tokens], counted)
                self.assertEqual([each["cached"] for each in tokens], cached)

    def test_a_reply_must_hold_a_call_but_in_a_conversation_which_ends_in_words(self) -> None:
        chosen = {}
        for profile, (_, exchanges) in self.runs.items():
            asked = [one.request for one in exchanges if one.request.get("tools")]
            chosen[profile] = {request["tool_choice"] for request in asked}
        required = {"planner": {"required"}, "commander": {"required"}}
        self.assertEqual(
            chosen, {**required, "chat": {"auto"}, "pointer": {"auto"}, "story": set()}
        )

    def test_a_screenshot_costs_what_its_size_says_and_has_the_tokens_that_pointing_needs(
        self,
    ) -> None:
        found = {profile: picture_tokens(self.runs[profile][1][-1]) for profile in self.runs}
        self.assertTrue(1024 <= found.pop("pointer") <= PICTURE_TOKENS)
        self.assertEqual(set(found.values()), {PICTURE_TOKENS})

    def test_an_unchanged_start_is_reused_in_every_profile(self) -> None:
        for profile, least in REUSED.items():
            with self.subTest(profile):
                _, *acting = [one for one in self.runs[profile][1] if one.role == "executor"]
                reused = sum(one.reused for one in acting)
                share = reused / (reused + sum(one.computed for one in acting))
                self.assertGreaterEqual(share, least)

    def test_the_verifier_is_a_voice_of_its_own_and_its_second_opinion_about_the_same_picture(
        self,
    ) -> None:
        for profile in ("planner", "commander"):
            first, second, *_ = [one for one in self.runs[profile][1] if one.role == "verifier"]
            self.assertLess(first.computed, PICTURE_TOKENS + 250)
            self.assertGreater(second.reused, PICTURE_TOKENS)


class SmallContext(unittest.TestCase):
    """A context of 2,048 tokens, which holds no screenshot with its prompt."""

    server: LlamaServer

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = LlamaServer("noise", context=2048).__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def test_a_context_that_is_too_small_ends_the_run_at_once_and_is_told(self) -> None:
        done, (exchange,) = with_demo_replies(self.server, "--profile", "chat")
        error = exchange.answer["error"]
        told = exchange.status, error["type"], error["n_ctx"]
        self.assertEqual(told, (400, "exceed_context_size_error", 2048))
        self.assertEqual(done.code, 3, done.text)
        self.assertIn("2048", done.text)
        self.assertIn(str(error["n_prompt_tokens"]), done.text)

    def test_a_server_that_is_too_busy_is_no_reason_for_a_smaller_model(self) -> None:
        options = "--set", "lmstudio_timeout=1", "--set", "model_failures=0"
        done = Program(self.server.base + CHAT, "--profile", "planner", *options).finish()
        self.assertEqual(done.code, 3, done.text)
        self.assertRegex(done.text, r"did not finish in 1(\.0)? s; look whether it is busy")
        self.assertNotIn("smaller", done.text)


class Stopping(unittest.TestCase):
    def test_a_stop_ends_a_generation_that_would_go_on_for_minutes(self) -> None:
        endless = (
            "--set",
            f"executor_max_tokens={ENDLESS}",
            "--set",
            f"planner_max_tokens={ENDLESS}",
        )
        with LlamaServer("noise", context=ENDLESS + 8192) as server:
            program = Program(server.base + CHAT, "--profile", "planner", *endless)
            while program.process.poll() is None and not server.busy():
                time.sleep(0.3)
            program.process.send_signal(signal.SIGINT)
            done = program.finish()
            self.assertEqual(done.code, 130, done.text)
            end = time.monotonic() + 60
            while server.busy() and time.monotonic() < end:
                time.sleep(1.0)  # each question delays the server's look for clients that went away
            log = server.said()
        self.assertIn("cancel task", log)
        reached = re.findall(r"stop processing: n_tokens = (\d+)", log)
        self.assertLess(int(reached[-1]), ENDLESS, "it went on to its end")


class TextOnly(unittest.TestCase):
    """A model without eyes; what it is asked directly needs none."""

    server: LlamaServer

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = LlamaServer(eyes=False).__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def test_it_is_refused_before_the_first_request_or_once_where_the_list_does_not_tell(
        self,
    ) -> None:
        listed = self.server.ask("/v1/models")
        self.assertEqual(listed["data"][0]["architecture"]["input_modalities"], ["text"])
        done, exchanges = with_demo_replies(self.server, "--profile", "planner")
        self.assertEqual((done.code, exchanges), (3, []), done.text)
        done, (exchange,) = with_demo_replies(self.server, "--profile", "chat", told=False)
        self.assertEqual(exchange.status, 500)
        self.assertIn("image input is not supported", exchange.answer["error"]["message"])
        self.assertIn("cannot see images", done.text)
        self.assertEqual(done.code, 3, done.text)


class Templates(unittest.TestCase):
    """What of a request reaches a model is its chat format's to say."""

    def test_the_setting_thinking_reaches_it(self) -> None:
        tokens = {}
        with LlamaServer(template="switch.jinja") as server:
            for thinking in ("on", "off"):
                words = "--max-steps", "1", "--set", f"thinking={thinking}"
                _, (first, *_) = with_demo_replies(server, *words)
                self.assertEqual(first.status, 200, first.answer)
                tokens[thinking] = first.answer["usage"]["prompt_tokens"]
        self.assertGreater(tokens["off"], tokens["on"])

    def test_tools_reach_a_model_whose_chat_format_has_no_place_for_them(self) -> None:
        with LlamaServer(template="plain.jinja") as server:
            dropped = server.chat(**REQUEST, tool_choice="required", max_tokens=100)
            self.assertEqual(dropped["choices"][0]["finish_reason"], "stop")
            self.assertLess(dropped["usage"]["prompt_tokens"], 20)
            _, exchanges = with_demo_replies(server, "--max-steps", "2", "--set", "calls=text")
        for exchange in exchanges:
            self.assertEqual(exchange.status, 200, exchange.answer)
            self.assertNotIn("tools", exchange.request)
            system = exchange.request["messages"][0]["content"]
            if not system.startswith(JUDGES):
                self.assertIn("<tool_call>", system)


class Refusing(unittest.TestCase):
    """Chat formats that refuse the form of a request: whole runs go on in another one."""

    def assert_goes_on(self, template: str, reason: str, told: str, *profiles: str) -> None:
        with LlamaServer(template=template) as server:
            for profile in profiles:
                with self.subTest(template, profile=profile):
                    done, exchanges = with_demo_replies(server, "--profile", profile)
                    self.assertEqual(done.code, 0, done.text)
                    refused = [one.answer for one in exchanges if one.status != 200]
                    self.assertIn(reason, str(refused[0]))
                    self.assertEqual(len(refused), 1, refused)
                    self.assertEqual(done.text.count(told), 1, done.text)

    def test_tools_that_are_refused_stand_in_the_text(self) -> None:
        told = "from now on the tools stand in the text"
        self.assert_goes_on("refuses.jinja", "Tools are not", told, "planner", "chat", "pointer")

    def test_roles_that_have_to_alternate_do(self) -> None:
        told = "from now on messages in a row are one"
        self.assert_goes_on("alternates.jinja", "must alternate", told, "chat", "pointer")


class ToolChoice(unittest.TestCase):
    """tool_choice, on a model that is silent where it may."""

    def test_required_lets_no_reply_end_without_a_call_but_does_not_keep_it_from_being_cut(
        self,
    ) -> None:
        for choice, most, reason in (
            ("auto", 100, "stop"),
            ("required", 100, "tool_calls"),
            ("required", 4, "length"),
        ):
            answer = SERVER.chat(**REQUEST, tool_choice=choice, max_tokens=most)["choices"][0]
            self.assertEqual(answer["finish_reason"], reason)
            self.assertEqual("tool_calls" in answer["message"], reason == "tool_calls")


class Restart(unittest.TestCase):
    def test_a_server_that_loads_is_waited_for_and_asked_again_when_it_was_killed_in_a_reply(
        self,
    ) -> None:
        server = LlamaServer()
        self.addCleanup(server.__exit__)
        server.begin()
        server.wait_until_ready(503)  # the program waits for an answer, not for a port
        program = Program(server.base + CHAT, "--max-steps", "2", "--model", "mute")
        server.wait_until_ready()
        while not server.busy():
            self.assertIsNone(program.process.poll(), program.finish)
            time.sleep(0.3)
        server.kill()
        server.begin()
        done = program.finish()
        self.assertRegex(done.text, "is still loading its model.*; asking again in")
        self.assertRegex(done.text, "broke off.*; asking again in")
        self.assertEqual(done.records("end")[0]["outcome"], "max_steps", done.text)
        self.assertEqual(server.said().count("listening http"), 2)
        # The calls that the server made are read and carried out.
        acting = [one for one in done.records("reply") if one["role"] == "executor"]
        self.assertEqual({one["finish_reason"] for one in acting}, {"tool_calls"})
        self.assertTrue(done.records("action"))
        self.assertEqual(done.records("no_call"), [])


if __name__ == "__main__":
    unittest.main()
