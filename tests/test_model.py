"""The model client against real sockets: faults, waiting, stopping, finding the model, and by its name its grammar."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import re
import shutil
import socket
import threading
import unittest
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.fakes import VirtualClock
from tests.samples import for_the_gate, sample
from tests.scripted import PLAN, EngineCase, role_of, text
from tests.seams import desktop_of_main, person_at_main
from tests.servers import (
    RoutedServer,
    ScriptedServer,
    Step,
    answer,
    hang_up,
    http,
    raw,
    reply,
    reset,
    stall,
    trickle,
)
from tests.test_main import CommandLineCase
from tests.timing import HANGS_S, comes_true

KEY = "sk-secret-4711"
GOOD = answer(200, reply())


def model_server(
    url: str, clock: VirtualClock | None = None, stop: agent.Stop | None = None, **settings: Any
) -> agent.ModelServer:
    config = replace(agent.Config(), lmstudio_endpoint=url, **{"lmstudio_timeout": 5.0, **settings})
    return agent.ModelServer(config, clock or VirtualClock(), stop or agent.Stop(), KEY)


def rows(file: str) -> list[dict[str, Any]]:
    path = Path(__file__).parent / "data" / file
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def servers(what: str) -> list[dict[str, Any]]:
    """What servers answer: a fault, a reply or a list of models, with what must come of it."""
    return [row for row in rows("servers.jsonl") if row["is"] == what]


def step_of(row: dict[str, Any]) -> Step:
    """What the server of a row does."""
    if "raw" in row:
        return raw(row["raw"].encode("latin-1"))
    body = row["body"].encode() if isinstance(row["body"], str) else row["body"]
    return answer(row["status"], body, row.get("headers", ()), row.get("sized", True))


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MEGABYTES = b"100000\r\n%s\r\n" % (b" " * 0x100000) * 9
# What the server does, what the error must be, how many exchanges it may cost (4 = all retries), and what its sentence holds.
FAULTS = (
    ("reset", reset, "incomplete", 4, "broke off"),
    ("closed without a word", hang_up, "incomplete", 4, "broke off"),
    ("cut body", raw(http(200, reply())[:-9]), "incomplete", 4, "broke off"),
    ("oversized", answer(200, b" " * ((2 << 20) + 1)), "not_json", 2, "2 MB"),
    ("oversized in chunks", raw(CHUNKED + MEGABYTES), "not_json", 2, "2 MB"),
    ("nested deeply", answer(200, b"[" * 100000 + b"]" * 100000), "not_json", 2, "JSON"),
    *((r["name"], step_of(r), r["kind"], r["tries"], r["words"]) for r in servers("fault")),
)


def unused_url() -> str:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1/chat/completions"


def received(*steps: Step, **settings: Any) -> agent.Reply:
    """The reply of a server that does this."""
    with ScriptedServer(*steps) as server:
        return model_server(server.url, **settings).complete(b"{}")


class Faults(unittest.TestCase):
    """A client in front of a server that fails, and what the person is told."""

    def failure(self, server: agent.ModelServer, body: bytes = b"{}") -> agent.ModelError:
        """The error, told in one sentence without words of Python, by a client that left no thread."""
        with self.assertRaises(agent.ModelError) as caught:
            server.complete(body)
        text = str(caught.exception)
        self.assertRegex(text, r"\A[A-Z][^\n]*[^. ]\.\Z")
        self.assertNotRegex(re.sub(r"\(.*\)|http://[\d.:]+", "", text), r"\. ")
        self.assertNotRegex(text, r"Traceback|Errno|object at 0x|\{|\bNone\b")
        return caught.exception

    def assert_no_worker(self) -> None:
        def gone() -> bool:
            return not any("(take)" in thread.name for thread in threading.enumerate())

        self.assertTrue(comes_true(gone), "the worker is still there")

    @for_the_gate
    def test_every_fault_has_its_sentence_its_kind_and_its_tries_and_may_pass(self) -> None:
        for name, step, kind, exchanges, words in FAULTS:
            with self.subTest(name), ScriptedServer(step) as server:
                error = self.failure(model_server(server.url))
                found = (error.kind, len(server.requests))
                self.assertEqual((kind, exchanges), found, str(error))
                self.assertIn(words, str(error))
                self.assertIn(f"127.0.0.1:{server.port}", str(error))
                self.assertNotIn(KEY, str(error) + repr(error))
                self.assertIsNone(error.__cause__)
            if exchanges > 1:
                with self.subTest(name):  # it may pass
                    got = received(step, GOOD)
                    self.assertEqual(got.message["content"], "hello")

    def test_a_server_that_cannot_be_reached_is_told_by_its_cause(self) -> None:
        unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        no_host = mock.patch("socket.create_connection", side_effect=unknown)
        late = (TimeoutError("timed out"), TimeoutError(errno.ETIMEDOUT, "No connection in 21 s"))
        off, walled = (mock.patch("socket.create_connection", side_effect=error) for error in late)
        lost = BrokenPipeError(32, "Broken pipe")
        no_pipe = mock.patch("http.client.HTTPConnection.request", side_effect=lost)
        for kind, words, url, trouble in (
            ("refused", "lms server start", unused_url(), contextlib.nullcontext()),
            ("unreachable", "lmstudio_endpoint", "http://nowhere.invalid:1/", no_host),
            ("unreachable", "(timed out); check lmstudio_endpoint", "http://10.0.0.9:1/", off),
            ("unreachable", "(No connection in 21 s)", "http://10.0.0.9:1/", walled),
            ("incomplete", "broke off", "", no_pipe),
        ):
            clock = VirtualClock()
            with ScriptedServer(GOOD) as server, self.subTest(kind), trouble:
                error = self.failure(model_server(url or server.url, clock))
                self.assertEqual(error.kind, kind)
                self.assertTrue(clock.sleeps)  # it is asked again
                self.assertIn(words, str(error))

    def test_a_reply_cut_at_any_byte_is_never_taken_for_whole(self) -> None:
        """In the suite at every sixth byte, at each about the end of the head, and the last ones."""
        for sized in (True, False):
            whole = http(200, reply("é"), sized=sized)
            body = whole.index(b"\r\n\r\n")
            ends = {*range(0, len(whole), sample(1, 6)), *range(body, body + 6)}
            ends |= {len(whole) - 2, len(whole) - 1}
            cuts = [raw(whole[:end]) for end in sorted(ends)]
            with ScriptedServer(*cuts, raw(whole)) as server:
                client = model_server(server.url, request_retries=0)
                for end in sorted(ends):
                    with self.subTest(end=end, sized=sized):
                        self.assertIn(self.failure(client).kind, ("incomplete", "not_json"))
                self.assertEqual(client.complete(b"{}").message["content"], "é")

    def test_one_deadline_covers_silence_and_trickling_and_a_stop_ends_them(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"
        drops = trickle(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), trickle(b"H", b"T")
        for number, step in enumerate((stall, trickle(head), *drops)):
            with self.subTest(number), ScriptedServer(step) as server:
                stop = agent.Stop()
                error = self.failure(model_server(server.url, lmstudio_timeout=0.15))
                # A busy machine may let the server read after the client has given up.
                self.assertTrue(comes_true(lambda server=server: server.requests))
                self.assertEqual((error.kind, len(server.requests)), ("timeout", 1))
                self.assertIn("0.15 s", str(error))
                threading.Timer(0.05, stop.set, ["you pressed Ctrl+C"]).start()
                with self.assertRaises(agent.Stopped):
                    model_server(server.url, stop=stop, lmstudio_timeout=HANGS_S).complete(b"{}")
                self.assert_no_worker()
        with socket.create_server(("127.0.0.1", 0)) as silent:  # which does not even read
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            error = self.failure(model_server(url, lmstudio_timeout=0.15), b"x" * (16 << 20))
            self.assertEqual(error.kind, "timeout")
            self.assert_no_worker()

    def test_a_request_given_up_while_connecting_is_never_sent(self) -> None:
        connect, let_go = socket.create_connection, threading.Event()

        def slow(*args: Any, **options: Any) -> socket.socket:
            let_go.wait(2)
            return connect(*args, **options)

        with ScriptedServer(GOOD) as server:
            client = model_server(server.url, lmstudio_timeout=0.05)
            with mock.patch("socket.create_connection", slow):
                self.assertEqual(self.failure(client).kind, "unreachable")
                let_go.set()
                self.assert_no_worker()
        self.assertNotIn(b"POST", b"".join(server.requests))


class Addresses(unittest.TestCase):
    def test_what_is_left_out_of_an_address_typed_by_hand_is_lm_studios_on_this_machine(
        self,
    ) -> None:
        for typed, meant in (
            ("localhost", "127.0.0.1:1234"),
            ("1235", "127.0.0.1:1235"),
            ("8080/v1", "127.0.0.1:8080"),
            ("gpu.example/v1/", "gpu.example:1234"),
            ("localhost:11434", "127.0.0.1:11434"),
            ("http://gpu.example", "gpu.example"),  # where it is written out nothing is added
        ):
            url = model_server(typed).url.geturl()
            self.assertEqual(url, f"http://{meant}/v1/chat/completions", typed)
        for typed in ("99999", "me@gpu.example", "", ":1234"):
            self.assertRaises(agent.ConfigError, model_server, typed)


class Exchanges(unittest.TestCase):
    def test_the_request_is_plain_passes_proxies_by_and_has_the_key_as_a_header(self) -> None:
        body = json.dumps({"model": "x"}).encode()
        proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")
        with ScriptedServer(GOOD) as server, mock.patch.dict(os.environ, proxies):
            model_server(server.url.replace("127.0.0.1", "localhost")).complete(body)
            config = replace(agent.Config(), lmstudio_endpoint=server.url)
            agent.ModelServer(config, VirtualClock(), agent.Stop()).complete(b"{}")
        head, sent = server.requests[0].split(b"\r\n\r\n", 1)
        first, *lines = head.decode().lower().split("\r\n")
        self.assertEqual((first, sent), ("post /v1/chat/completions http/1.1", body))
        wanted = {"accept-encoding: identity", "content-type: application/json"}
        wanted |= {f"host: 127.0.0.1:{server.port}", f"authorization: bearer {KEY}"}
        self.assertLessEqual({*wanted, f"content-length: {len(body)}"}, {*lines})
        self.assertNotIn(b"authorization", server.requests[1].lower(), "there is no key")

    def test_a_reply_is_handed_over_as_it_came_but_an_overflow_is_named(self) -> None:
        for row in servers("reply"):
            with self.subTest(row["name"]), ScriptedServer(step_of(row)) as server:
                client = model_server(server.url)
                client.info = agent.ModelInfo("x", context_length=row.get("context"))
                try:
                    got = client.complete(b"{}")
                    found = {**vars(got), "text": got.text, "usage": list(got.usage)}
                    found["unread"] = agent.UNREAD_CALL in got.message
                except agent.ModelError as error:
                    found = {"kind": error.kind}
                self.assertEqual(found, found | row["gives"])
                self.assertEqual(len(server.requests), 1)

    def test_a_reply_that_was_compressed_unasked_is_read_all_the_same(self) -> None:
        plain = json.dumps(reply()).encode()
        for name, packed in (
            ("gzip", gzip.compress(plain)),
            ("X-GZIP", gzip.compress(plain)),
            ("deflate", zlib.compress(plain)),
            ("identity", plain),
        ):
            got = received(answer(200, packed, [f"Content-Encoding: {name}"]))
            self.assertEqual(got.message["content"], "hello", name)
        for name, packed in (
            ("gzip", b"no gzip"),
            ("gzip", gzip.compress(plain)[:-40]),
            ("gzip", gzip.compress(b" " * (3 << 20) + plain)),  # of 3 kB
            ("br", b"\x0b\x02\x80hello\x03"),
        ):
            with self.assertRaises(agent.ModelError) as caught:
                received(answer(200, packed, [f"Content-Encoding: {name}"]))
            self.assertEqual(caught.exception.kind, "not_json")
        page = gzip.compress(b"<html><body>Sign in to the network</body></html>")
        with self.assertRaisesRegex(agent.ModelError, "Sign in to the network"):
            received(answer(200, page, ["Content-Encoding: gzip"]))

    @for_the_gate
    def test_a_reply_is_cut_at_64_kb_whatever_the_server_sends(self) -> None:
        long = "The window is open. " * 100_000
        arguments = {"name": "type_text", "arguments": {"text": long}}
        for sent in (
            {"content": long},
            {"content": "", "reasoning_content": long},
            {"content": "", "reasoning": long},
            {"content": "kept", "tool_calls": [{"function": arguments}]},
            {"content": "kept", "function_call": arguments},
            {"content": "kept", "tool_calls": [{}] * 300_000},
            {"content": "kept", "other": [long]},
            {"content": [{"type": "text", "text": long}]},
        ):
            with self.subTest(list(sent)):
                choices = [{"message": sent, "finish_reason": "stop"}]
                got = received(answer(200, reply(choices=choices)))
                self.assertLess(len(json.dumps(got.message)), 66_000)
                self.assertNotIn("tool_calls", got.message)
                self.assertEqual(got.finish_reason, "length")
                for name in sent.keys() & {"content", "reasoning_content", "reasoning"}:
                    front = sent[name][:40_000] if isinstance(sent[name], str) else long[:40_000]
                    self.assertTrue(got.message[name].startswith(front))


LOADING, BUSY = answer(503, {"error": {"message": "Loading model"}}), answer(500)
BOTH = (BUSY, LOADING) * agent.Config().request_retries


class Waits(unittest.TestCase):
    """How long a server that is not ready is waited for: on a virtual clock, over real HTTP."""

    def test_waits_double_and_a_model_that_loads_is_given_more_time(self) -> None:
        for name, steps, waits in (
            ("busy for ever", [BUSY], [0.5, 1.0, 2.0]),
            ("loading for ever", [LOADING], [5.0, 10.0, 20.0]),
            ("loads", [LOADING, LOADING, GOOD], [5.0, 10.0]),
            ("fails, then loads", [hang_up, BUSY, LOADING, LOADING, GOOD], [0.5, 0.5, 5.0, 10.0]),
            ("both by turns", [*BOTH, GOOD], [0.5, 5.0, 1.0, 10.0, 2.0, 20.0]),
            ("both, then busy", [*BOTH, BUSY], [0.5, 5.0, 1.0, 10.0, 2.0, 20.0]),
        ):
            clock = VirtualClock()
            with self.subTest(name), contextlib.suppress(agent.ModelError):
                received(*steps, clock=clock)
            self.assertEqual(clock.sleeps, waits)
        self.assertEqual(received(BUSY, GOOD).seconds, 0.0)  # the wait is not the model's

    def test_a_server_that_says_when_to_ask_again_is_asked_then_or_not_at_all(self) -> None:
        def later(status: int, when: str) -> Step:
            return answer(status, {"error": "slow down"}, [f"Retry-After: {when}"])

        for name, step, waits in (
            ("soon", later(429, "3"), [3.0, 3.0, 3.0]),
            ("a busy one", later(503, " 1 "), [1.0, 1.0, 1.0]),
            ("tomorrow", later(429, "86400"), []),
            ("a date", later(429, "Fri, 31 Dec 1999 23:59:59 GMT"), [5.0, 10.0, 20.0]),
            ("nonsense", later(429, "-1"), [5.0, 10.0, 20.0]),
            ("at once", later(429, "0"), [5.0, 10.0, 20.0]),
            ("what no waiting cures", later(401, "3"), []),
        ):
            clock = VirtualClock()
            with self.subTest(name), self.assertRaises(agent.ModelError) as caught:
                received(step, clock=clock)
            self.assertEqual(clock.sleeps, waits)
            self.assertEqual("again in 86400 s" in str(caught.exception), name == "tomorrow")

    def test_a_wait_is_told_in_one_sentence_and_a_stop_ends_it(self) -> None:
        stop, told = agent.Stop(), list[str]()

        def notice(text: str) -> None:
            told.append(text)
            stop.set("test")

        with ScriptedServer(BUSY) as server:
            client = model_server(server.url, stop=stop)
            client.clock, client.say = agent.SystemClock(stop), notice
            with self.assertRaises(agent.Stopped):
                client.complete(b"{}")
        self.assertRegex(told[0], r"\AThe server at .* failed .*; asking again in 0\.5 s\.\Z")


class Endpoints(unittest.TestCase):
    def test_each_is_made_whole_or_refused_without_showing_a_secret(self) -> None:
        for row in servers("endpoint"):
            with self.subTest(row["given"]):
                if "url" in row:
                    self.assertEqual(model_server(row["given"]).url.geturl(), row["url"])
                    continue
                with self.assertRaises(agent.ConfigError) as caught:
                    model_server(row["given"])
                self.assertRegex(str(caught.exception), r"\Almstudio_endpoint [^\n]*\.\Z")
                self.assertNotIn("hidden", str(caught.exception))
        with self.assertRaises(agent.ConfigError) as caught:
            agent.ModelServer(agent.Config(), VirtualClock(), agent.Stop(), "hid\nden")
        self.assertNotIn("hid", str(caught.exception))


def plain(*names: str, **extra: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", **extra} for name in names]}


NO_PAGE = http(404, b"404 page not found")
# What else a server says, by its kind.
OTHERS = {
    "LM Studio": http(200, {"error": "Unexpected endpoint or method. (GET /x)"}),
    "llama.cpp": http(404, {"error": {"message": "File Not Found", "type": "not_found_error"}}),
    "Ollama": NO_PAGE,
    "vLLM": http(404, {"detail": "Not Found"}),
    "a page": http(200, b"<html>"),
    "a page not found": http(
        404, b"<html><script>typeof x === 'undefined'</script>No image</html>"
    ),
    "a lock": http(401, b""),
}
WANTED = "qwen3-vl-2b-instruct"
# By which of their names is chosen where nothing is loaded, the first before the last.
ORDER = """
    qwen/qwen3-vl-8b qwen3-vl:4b Qwen3VL-2B-Instruct-Q4_K_M.gguf qwen3-vl-30b-a3b qwen3.5-4b qwen/qwen3.5-2b
    mradermacher/GUI-Owl-7B-GGUF ui-tars-1.5-7b qwen2.5-vl-7b-instruct glm-4.6v-flash
""".split()


class Discovery(unittest.TestCase):
    def refused(self, client: agent.ModelServer) -> agent.ModelError:
        with self.assertRaises(agent.ModelError) as caught:
            client.discover()
        self.assertEqual(caught.exception.exit_code, 3)
        return caught.exception

    def test_the_model_is_found_on_every_kind_of_server_or_the_remedy_told(self) -> None:
        for row in servers("list"):
            pages, other = {row["path"]: http(200, row["page"])}, OTHERS[row["other"]]
            with self.subTest(row["name"]), RoutedServer(pages, other) as server:
                url = server.base + row["at"] if "at" in row else server.url
                client = model_server(url, lmstudio_model=row["wanted"])
                if "kind" in row:
                    error = self.refused(client)
                    self.assertEqual(error.kind, row["kind"])
                    self.assertIn(row["words"], str(error))
                    continue
                got = client.discover()
                self.assertEqual(vars(got), vars(got) | row["model"])
                self.assertIs(client.info, got)
                asked = [request.split(b" ")[1].decode() for request in server.requests]
                self.assertEqual(list(dict.fromkeys(asked)), row["asked"])

    def test_a_fault_is_told_in_the_words_of_the_server_by_its_owner_or_its_usual_port(
        self,
    ) -> None:
        for port, owner, words in (
            (1337, "", "context size in the model's settings"),
            (1337, "library", "OLLAMA_CONTEXT_LENGTH=8192"),
            (8000, "me", "--max-model-len 8192"),
            (1234, "organization_owner", "lms load NAME --context-length 8192"),
            (4711, "", "load the model with 8192 tokens or more"),
            (8080, "llamacpp", "-c 8192"),
            (8080, "", "a model whose context is 8192"),  # MLX
            (5000, "user", "--ctx-size 8192"),
        ):
            client = model_server(f"http://127.0.0.1:{port}")
            listed = [agent.ModelInfo("x-vl", server=owner)]
            with self.subTest(port, owner=owner):
                vars(client)["_listed"] = lambda listed=listed: listed
                client.discover()
                self.assertIn(words, str(client._fault("context")))

    def test_who_lists_no_model_is_told_how_that_server_gets_one_that_sees(self) -> None:
        for port, words in (
            (11434, "`ollama show NAME` lists vision"),
            (1234, "`lms get"),
            (47, "`lms get"),
        ):
            client = model_server(f"http://127.0.0.1:{port}")
            vars(client)["_listed"] = list[agent.ModelInfo]
            self.assertIn("lists no vision model; ", str(self.refused(client)))
            self.assertIn(words, str(self.refused(client)))

    def test_at_the_start_a_dead_or_missing_server_is_said_once_and_not_waited_for(self) -> None:
        clock = VirtualClock()
        with ScriptedServer(hang_up) as server:
            for url, retries, kind in ((server.url, 0, "incomplete"), (unused_url(), 3, "refused")):
                error = self.refused(model_server(url, clock, request_retries=retries))
                self.assertEqual(error.kind, kind)
        self.assertEqual((len(server.requests), clock.sleeps), (1, []))

    def test_the_families_have_an_order_and_others_are_left_to_the_person(self) -> None:
        others = "llava pixtral qwen3-8b qwen/qwen3-4b-2507 ministral-3-3b".split()
        for number, wanted in enumerate([*ORDER, ""]):
            page = http(200, plain(*others, *ORDER[number:][::-1]))
            with RoutedServer({"/v1/models": page}, NO_PAGE) as server:
                client = model_server(server.url)
                if wanted:
                    self.assertEqual(client.discover().name, wanted)
                else:
                    self.assertIn("none of a known family", str(self.refused(client)))


class Warnings(EngineCase):
    """What a run says of a reply that does not fit what was asked."""

    def warnings(self, wanted: str, context: int | None, model: str, tokens: int | None) -> str:
        self.model = agent.ModelInfo(wanted, context_length=context)
        trial = self.trial(lambda _: PLAN, max_steps=1, screen_capture_w=1536, screen_capture_h=864)
        trial.state.execution_instructions = "Go on"
        plain, usage = trial.server.complete, agent.Usage(tokens)
        trial.server.complete = lambda body: replace(plain(body), usage=usage, model=model)
        trial.run()
        return "\n".join(line for line in self.lines if "tokens" in line or "instead" in line)

    def test_another_model_and_a_shrunk_image_are_told(self) -> None:
        for wanted, context, model, tokens, words in (
            (WANTED, 8192, WANTED, 6000, ""),
            (WANTED, None, "", None, ""),
            (WANTED, 8192, WANTED, 0, ""),  # it does not count
            (WANTED, 8192, "qwen/Qwen3-VL-2B-Instruct:2", 6000, ""),
            (WANTED, 8192, "gemma", 6000, "gemma instead of"),
            (WANTED, 8192, WANTED, 1081, "1081 tokens for a screenshot of 1296 .*: it shrank or left out"),
            (WANTED, 8192, WANTED, 1400, "1400 tokens for a screenshot of 1296 and [0-9]+ characters"),
            ("qwen3-vl:2b", 8192, "Qwen3-VL:2b", 6000, ""),
            ("qwen3-vl:2b", 8192, "qwen3-vl:4b", 6000, "qwen3-vl:4b instead of"),
            ("C:\\m\\a.gguf", 8192, "a.gguf", 6000, ""),
        ):  # fmt: skip
            with self.subTest(f"{wanted} {context} {model} {tokens}"):
                self.assertRegex(self.warnings(wanted, context, model, tokens), words or r"\A\Z")

    def test_how_long_a_token_is_the_first_requests_without_a_picture_tell(self) -> None:
        for token_chars, warned in ((3, True), (12, False)):  # of JSON they may be long
            trial = self.trial(
                lambda r: PLAN if role_of(r) == "planner" else text(""),
                max_steps=1, screen_capture_w=1536, screen_capture_h=864, reply_corrections=0,
            )  # fmt: skip
            plain = trial.server.complete

            def complete(body: bytes, chars: int = token_chars, plain: Any = plain) -> agent.Reply:
                pictured = b"image_url" in body
                counted = 1500 if pictured else len(body) // chars
                return replace(plain(body), usage=agent.Usage(counted))

            trial.server.complete = complete
            trial.run()
            self.assertEqual("it shrank or left out" in "\n".join(self.lines), warned)


class Person(CommandLineCase):
    """Where the choice is left to the person."""

    def start(self, page: object, stdin: Any = b"") -> tuple[int, str, str]:
        """A start with a server of this list, by a person at a terminal or in a pipe."""
        routes = {"/v1/models": http(200, page)}
        with RoutedServer(routes, NO_PAGE) as server, desktop_of_main(agent.DemoDesktop):
            return self.main("a task", "--endpoint", server.url, "--max-steps", "1", stdin=stdin)

    def test_in_a_pipe_the_exact_words_to_type_are_said_and_the_code_is_3(self) -> None:
        code, _, err = self.start(plain("llava:7b", "big model"))
        self.assertEqual((code, len(err.splitlines())), (3, 1), err)
        self.assertIn('choose one: --model "llava:7b", --model "big model".', err)

    def test_on_a_terminal_the_person_picks_from_a_numbered_list_until_one_is_there(self) -> None:
        question = (
            "Which model?\n    |   1  llava:7b\n    |   2  pixtral\n    | A number from 1 to 2:"
        )
        for answers, picked in ((("2",), "pixtral"), (("nine", "7", "1"), "llava:7b"), (("",), "")):
            words = (None, *answers, "")  # by how often it was asked

            def types(out: str, words: Any = words) -> Any:
                return words[out.count("Which model?")]

            with self.subTest(answers), person_at_main(types) as keyboard:
                code, out, err = self.start(plain("llava:7b", "pixtral"), keyboard)
                keyboard.end()
            self.assertIn(question, out)
            if picked:
                self.assertEqual((code, self.records()[0]["model"]), (1, picked), out)
                shutil.rmtree(self.folder / "dumps")
            else:
                self.assertEqual(code, 3)
                self.assertIn('choose one: --model "llava:7b"', err)


class Grammars(unittest.TestCase):
    def test_a_models_name_tells_its_grammar_or_else_its_server(self) -> None:
        known = rows("model_names.jsonl")
        self.assertEqual({row["grammar"] for row in known}, {"tools", *agent.GRAMMARS})
        for row in known:
            with self.subTest(**row):
                model = agent.ModelInfo(row["name"], architecture=row.get("architecture", ""))
                self.assertEqual(agent.trained_in(model), row["grammar"])
