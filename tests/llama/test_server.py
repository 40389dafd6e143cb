"""The program in front of a real llama.cpp server. Run by name, since it installs that first:

python -m unittest discover -s tests/llama

The server computes and counts each request of the real program on its demo desktop; as the models
are random, the replies are those of the built-in model (see between.py).
"""

from __future__ import annotations

import copy
import json
import re
import signal
import statistics
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import home
from between import CHAT, Between, Exchange, Json, Untold
from program import DemoWriter, Program, Run, load, run
from reuse import Row, Scene, measure
from server import LlamaServer

HERE = Path(__file__).resolve().parent
PICTURE_TOKENS = 1296  # of 1536x864: 48 x 27 squares of 32 pixels
PROFILES = {"planner": 50, "commander": 50, "chat": 50, "pointer": 8, "story": 50}  # turns


SERVERS: list[LlamaServer] = []  # the one that most tests share


def setUpModule() -> None:
    """Installs the server and makes the models, if they are not there, and starts it."""
    home.ready()
    server = LlamaServer("mute")
    unittest.addModuleCleanup(server.__exit__)
    SERVERS.append(server.__enter__())


def serving(case: type[unittest.TestCase], server: LlamaServer) -> LlamaServer:
    """The server, started, and ended after the last test of the class."""
    case.addClassCleanup(server.__exit__)
    return server.__enter__()


def with_demo_replies(
    server: LlamaServer, *options: str, proxy: type[Between] = Between
) -> tuple[Run, list[Exchange]]:
    """A run whose requests the server computes and the built-in model answers."""
    with DemoWriter() as demo, proxy(server.base, demo) as between:
        return run(between.endpoint, *options), between.exchanges


def picture_of(exchange: Exchange) -> Json:
    """The last picture of a request, as the part of a message."""
    contents = [message["content"] for message in exchange.request["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    found: Json = [part for part in parts if "image_url" in part][-1]
    return found


def tokens_of(server: LlamaServer, *parts: Json) -> int:
    """The tokens of a prompt with these parts."""
    content = [*parts, {"type": "text", "text": "Look."}]
    status, answer = server.chat(messages=[{"role": "user", "content": content}], max_tokens=1)
    assert status == 200, answer
    return int(answer["usage"]["prompt_tokens"])


# How the prompts of those begin who judge a completion, for which no tools are offered.
JUDGES = ("You say how one can see", "You check whether")


class Accepted(unittest.TestCase):
    """Each profile's whole run in front of one server."""

    server: LlamaServer
    runs: dict[str, tuple[Run, list[Exchange]]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = SERVERS[0]
        cls.runs = {}
        for profile, turns in PROFILES.items():
            options = "--profile", profile, "--max-steps", str(turns)
            cls.runs[profile] = with_demo_replies(cls.server, *options)

    def test_every_request_of_every_profile_is_accepted_as_it_is(self) -> None:
        for profile, (done, exchanges) in self.runs.items():
            with self.subTest(profile):
                self.assertEqual({exchange.status for exchange in exchanges}, {200})
                self.assertGreater(len(exchanges), 5)
                self.assertEqual(done.code, 0, done.text)

    def test_the_journal_has_the_tokens_that_the_server_counted(self) -> None:
        for profile, (done, exchanges) in self.runs.items():
            with self.subTest(profile):
                counted = [(one.answer["usage"]["prompt_tokens"], one.reused) for one in exchanges]
                tokens = [record["tokens"] for record in done.records("reply")]
                told = [(each["prompt"], each["cached"]) for each in tokens]
                self.assertEqual(told, counted)

    def test_a_reply_must_hold_a_call_but_in_a_conversation_which_ends_in_words(self) -> None:
        for profile, choice in (
            ("planner", "required"),
            ("commander", "required"),
            ("chat", "auto"),
        ):
            asked = [one.request for one in self.runs[profile][1]]
            chosen = {request["tool_choice"] for request in asked if request.get("tools")}
            with self.subTest(profile):
                self.assertEqual(chosen, {choice})

    def test_usage_and_timings_of_the_server_say_the_same(self) -> None:
        for _, exchanges in self.runs.values():
            for exchange in exchanges:
                usage = exchange.answer["usage"]
                self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], exchange.reused)
                self.assertEqual(usage["prompt_tokens"], exchange.reused + exchange.computed)

    def test_a_screenshot_costs_what_its_size_says(self) -> None:
        marks = 2  # the tokens around a picture
        bare = tokens_of(self.server)
        for profile in ("planner", "chat", "story"):
            with self.subTest(profile):
                picture = picture_of(self.runs[profile][1][-1])
                self.assertEqual(tokens_of(self.server, picture) - bare - marks, PICTURE_TOKENS)

    def test_a_screenshot_of_pointer_has_the_tokens_that_pointing_needs(self) -> None:
        picture = picture_of(self.runs["pointer"][1][-1])
        tokens = tokens_of(self.server, picture) - tokens_of(self.server) - 2
        self.assertGreaterEqual(tokens, 1024)
        self.assertLessEqual(tokens, PICTURE_TOKENS)

    def test_an_unchanged_start_is_reused(self) -> None:
        for profile in ("planner", "commander"):
            with self.subTest(profile):
                acting = [one for one in self.runs[profile][1] if one.role == "executor"]
                self.assertGreater(min(one.reused for one in acting[1:]), 1000)

    def test_the_verifier_is_a_voice_of_its_own(self) -> None:
        for profile in ("planner", "commander", "story"):
            asked = [one for one in self.runs[profile][1] if one.role == "verifier"]
            with self.subTest(profile):
                self.assertEqual(len(asked), 2)  # the second opinion is about the same picture
                self.assertLess(asked[0].computed, PICTURE_TOKENS + 250)
                self.assertGreater(asked[1].reused, PICTURE_TOKENS)

    def test_the_list_of_models_tells_vision_and_context(self) -> None:
        listed = self.server.ask("/v1/models")[1]
        self.assertIn("image", listed["data"][0]["architecture"]["input_modalities"])
        self.assertIn("multimodal", listed["models"][0]["capabilities"])
        self.assertEqual(listed["data"][0]["meta"]["n_ctx"], 16384)


def warm(row: Row) -> Row:
    """A short run's figures without the first request, of which nothing can be known yet."""
    return row._replace(reused=row.reused[1:], computed=row.computed[1:])


class Reuse(unittest.TestCase):
    """What the server keeps of the prompts of longer runs; reuse.py prints the whole table."""

    server: LlamaServer
    still: Row

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = serving(cls, LlamaServer("mute"))  # one that has seen none of it before
        scene = Scene("planner, every third screen unchanged", "planner", 20, still=3)
        cls.still = warm(measure(cls.server, scene))

    def test_half_of_a_planner_run_is_reused_when_every_third_screen_is_unchanged(self) -> None:
        self.assertEqual(self.still.unread, 0)
        self.assertGreaterEqual(self.still.share, 0.52)
        self.assertLessEqual(self.still.computed_mean, 1300)

    def test_with_a_new_picture_the_context_before_it_is_reused(self) -> None:
        anew = [tokens for tokens in self.still.computed if tokens > PICTURE_TOKENS]
        # The middle one, since after a plan or an archive the whole context is a new one.
        self.assertLessEqual(statistics.median(anew), PICTURE_TOKENS + 300)

    def test_with_the_same_picture_next_to_nothing_is_computed(self) -> None:
        same = [tokens for tokens in self.still.computed if tokens < PICTURE_TOKENS]
        self.assertGreaterEqual(len(same), 4)
        self.assertLessEqual(statistics.mean(same), 300)

    def test_a_story_computes_its_picture_and_its_observation_alone(self) -> None:
        row = warm(measure(self.server, Scene("story", "story", 10)))
        self.assertGreaterEqual(row.share, 0.30)
        self.assertLessEqual(row.computed_mean, 1320)

    def test_a_story_in_three_sentences_is_reused_as_much(self) -> None:
        row = warm(measure(self.server, Scene("story", "story", 8, sentences=3)))
        self.assertGreaterEqual(row.share, 0.30)

    def test_a_conversation_in_8192_tokens_is_condensed_seldom(self) -> None:
        with LlamaServer("mute", context=8192) as server:
            row = warm(measure(server, Scene("chat at 8192", "chat", 16)))
        self.assertEqual(row.unread, 0)
        self.assertGreaterEqual(row.share, 0.69)
        self.assertLessEqual(row.archives, 2)


class SmallContext(unittest.TestCase):
    """A context of 2,048 tokens, which holds no screenshot with its prompt."""

    server: LlamaServer

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = serving(cls, LlamaServer("noise", context=2048))

    def test_a_context_that_is_too_small_ends_the_run_and_is_told(self) -> None:
        done, exchanges = with_demo_replies(self.server, "--profile", "chat")
        self.assertEqual(done.code, 3, done.text)
        self.assertEqual({one.status for one in exchanges}, {400})
        error = exchanges[0].answer["error"]
        self.assertEqual(error["type"], "exceed_context_size_error")
        self.assertEqual(error["n_ctx"], 2048)
        self.assertIn("2048", done.text)
        self.assertIn(str(error["n_prompt_tokens"]), done.text)

    def test_a_context_that_is_too_small_is_not_tried_again(self) -> None:
        _, exchanges = with_demo_replies(self.server, "--profile", "chat")
        self.assertEqual(len(exchanges), 1)

    def test_a_server_that_is_too_busy_is_no_reason_for_a_smaller_model(self) -> None:
        options = "--set", "lmstudio_timeout=1", "--set", "model_failures=0"
        done = run(self.server.base + CHAT, "--profile", "planner", *options)
        self.assertEqual(done.code, 3, done.text)
        self.assertRegex(done.text, r"did not finish in 1(\.0)? s; look whether it is busy")
        self.assertNotIn("smaller", done.text)

    def test_a_stop_ends_the_generation(self) -> None:
        program = Program(self.server.base + CHAT, "--profile", "planner")
        while program.process.poll() is None and not self.server.busy():
            time.sleep(0.3)
        program.process.send_signal(signal.SIGINT)
        done = program.finish()
        self.assertEqual(done.code, 130, done.text)
        end = time.monotonic() + 60
        while self.server.busy() and time.monotonic() < end:
            time.sleep(1.0)  # each question delays the server's look for clients that went away
        log = self.server.said()
        self.assertIn("cancel task", log)
        reached = re.findall(r"stop processing: n_tokens = (\d+)", log)
        self.assertLess(int(reached[-1]), 2048, "it went on to the end of the context")


class TextOnly(unittest.TestCase):
    """A model without eyes; what it is asked directly needs none."""

    server: LlamaServer

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = serving(cls, LlamaServer("parrot", eyes=False))

    def call(self, tools: list[Json]) -> Json:
        """The arguments of the call in the reply to a request with tools."""
        messages = [{"role": "user", "content": "Act."}]
        status, answer = self.server.chat(messages=messages, tools=tools, max_tokens=400)
        self.assertEqual(status, 200, answer)
        call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
        arguments: Json = json.loads(call["arguments"])
        return arguments

    def test_the_list_of_models_says_that_it_reads_text_only(self) -> None:
        listed = self.server.ask("/v1/models")[1]
        self.assertEqual(listed["data"][0]["architecture"]["input_modalities"], ["text"])
        self.assertNotIn("multimodal", listed["models"][0]["capabilities"])

    def test_a_picture_is_refused_once_where_the_list_does_not_tell_that(self) -> None:
        done, (exchange,) = with_demo_replies(self.server, "--profile", "chat", proxy=Untold)
        self.assertEqual(exchange.status, 500)
        self.assertIn("image input is not supported", exchange.answer["error"]["message"])
        self.assertIn("cannot see images", done.text)
        self.assertEqual(done.code, 3, done.text)

    def test_a_model_that_reads_text_only_is_refused_before_the_first_request(self) -> None:
        done, exchanges = with_demo_replies(self.server, "--profile", "planner")
        self.assertEqual(exchanges, [])
        self.assertEqual(done.code, 3, done.text)

    def test_an_exact_number_of_items_is_a_rule_for_the_servers_grammar(self) -> None:
        tools = load().PROFILES["planner"].vocabulary.schemas(["click"])
        exact = copy.deepcopy(tools)
        exact[0]["function"]["parameters"]["properties"]["position"] |= {
            "minItems": 2,
            "maxItems": 2,
        }
        self.assertEqual(self.call(exact)["position"], [5, 5])

    def test_no_place_without_two_numbers_is_possible(self) -> None:
        tools = load().PROFILES["planner"].vocabulary.schemas(["click"])
        self.assertEqual(len(self.call(tools)["position"]), 2)


class Thinking(unittest.TestCase):
    """That the setting `thinking` reaches the chat format of a model."""

    def test_off_is_what_the_chat_format_is_told(self) -> None:
        program = load()
        tokens = {}
        with LlamaServer("mute", eyes=False, template=HERE / "switch.jinja") as server:
            for thinking in ("on", "off"):
                config = program.load_config({"test": {"thinking": thinking}})
                settings = program.model_settings(config, program.ModelInfo("mute"))
                messages = [{"role": "user", "content": "Act."}]
                status, answer = server.chat(messages=messages, max_tokens=1, **settings)
                self.assertEqual(status, 200, answer)
                tokens[thinking] = answer["usage"]["prompt_tokens"]
        self.assertGreater(tokens["off"], tokens["on"])


class ToolChoice(unittest.TestCase):
    """tool_choice, on a model that is silent where it may, and a chat format without tools."""

    TOOL = {
        "type": "function",
        "function": {
            "name": "go",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "integer", "minimum": 5, "maximum": 5}},
                "required": ["place"],
            },
        },
    }
    REQUEST = {
        "messages": [{"role": "user", "content": "Act."}],
        "tools": [TOOL],
        "temperature": 0,
    }

    def test_required_lets_no_reply_end_without_a_call(self) -> None:
        for choice, reason in (("auto", "stop"), ("required", "tool_calls")):
            answer = SERVERS[0].chat(**self.REQUEST, tool_choice=choice, max_tokens=100)[1]
            self.assertEqual(answer["choices"][0]["finish_reason"], reason)

    def test_required_does_not_keep_a_call_from_being_cut(self) -> None:
        answer = SERVERS[0].chat(**self.REQUEST, tool_choice="required", max_tokens=4)[1]
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertNotIn("tool_calls", answer["choices"][0]["message"])

    def test_required_leaves_room_for_words_before_the_call(self) -> None:
        """A word that is likelier than all others comes first, unless the server's grammar forbids it."""
        word = "LAST"
        (token,) = SERVERS[0].ask("/tokenize", {"content": word})[1]["tokens"]
        liked = {**self.REQUEST, "logit_bias": [[token, 100]], "max_tokens": 3}
        answer = SERVERS[0].chat(**liked, tool_choice="required")[1]
        self.assertEqual(answer["choices"][0]["message"]["content"], 3 * word)
        forbidden = SERVERS[0].chat(
            messages=self.REQUEST["messages"],
            logit_bias=liked["logit_bias"],
            grammar='root ::= "go"',
            max_tokens=3,
        )[1]
        self.assertEqual(forbidden["choices"][0]["message"]["content"], "go")

    def test_a_chat_format_without_tools_drops_them_and_its_properties_say_so(self) -> None:
        with LlamaServer("mute", eyes=False, template=HERE / "plain.jinja") as server:
            status, answer = server.chat(**self.REQUEST, tool_choice="required", max_tokens=100)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
            self.assertLess(answer["usage"]["prompt_tokens"], 20)
            self.assertFalse(server.ask("/props")[1]["chat_template_caps"]["supports_tools"])

    def test_tools_reach_a_model_whose_chat_format_has_no_place_for_them(self) -> None:
        with LlamaServer("mute", template=HERE / "plain.jinja") as server:
            done, exchanges = with_demo_replies(server, "--max-steps", "2")
        self.assertIn("chat template leaves out tools, so they stand in the text", done.text)
        for exchange in exchanges:
            self.assertEqual(exchange.status, 200, exchange.answer)
            self.assertNotIn("tools", exchange.request)
            system = exchange.request["messages"][0]["content"]
            if not system.startswith(JUDGES):
                self.assertIn("<tool_call>", system)


class Restart(unittest.TestCase):
    """A server that still loads, makes calls itself, is killed in one, and comes back."""

    done: Run
    log: str

    @classmethod
    def setUpClass(cls) -> None:
        server = LlamaServer("parrot")
        cls.addClassCleanup(server.__exit__)
        server.begin()
        while server.status("/health") != 503:  # the program waits for an answer, not for a port
            time.sleep(0.05)
        options = "--profile", "chat", "--max-steps", "1", "--model", "parrot"
        program = Program(server.base + CHAT, *options)
        server.wait_until_ready()
        while not server.busy():
            time.sleep(0.3)
        server.kill()
        server.begin()
        cls.done = program.finish()
        cls.log = server.said()

    def test_a_server_that_still_loads_is_waited_for(self) -> None:
        beginning = self.done.text.partition("observe_screen")[0]
        self.assertRegex(beginning, "is still loading its model.*; asking again in")

    def test_a_server_that_is_killed_in_a_reply_is_asked_again_when_it_is_back(self) -> None:
        rest = self.done.text.partition("observe_screen")[2]
        self.assertRegex(rest, "broke off.*; asking again in")
        self.assertEqual(self.done.code, 1, self.done.text)  # its turns are used up
        self.assertEqual(self.done.records("end")[0]["outcome"], "max_steps")
        self.assertEqual(self.log.count("listening http"), 2)

    def test_a_call_that_the_server_made_is_read_and_carried_out(self) -> None:
        acting = [one for one in self.done.records("reply") if one["role"] == "chat"]
        self.assertGreater(len(acting), 1)
        for reply in acting:
            self.assertEqual(reply["finish_reason"], "tool_calls")
            self.assertEqual(len(reply["message"]["tool_calls"]), 1)
        self.assertEqual(len(self.done.records("result")), 1)
        self.assertEqual(self.done.records("no_call"), [])


if __name__ == "__main__":
    unittest.main()
