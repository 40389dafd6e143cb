"""The model client against real sockets: faults, waiting, stopping, finding the model, and by its name its grammar."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
import socket
import threading
import time
import unittest
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.fakes import VirtualClock
from tests.samples import sample
from tests.scripted import PLAN, EngineCase
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


def said(status: int, error: Any) -> Step:
    return answer(status, {"error": error})


def step_of(row: dict[str, Any]) -> Step:
    """What the server of a row does."""
    if "raw" in row:
        return raw(row["raw"].encode())
    body = row["body"].encode() if isinstance(row["body"], str) else row["body"]
    return answer(row["status"], body, row.get("headers", ()), row.get("sized", True))


NUMBER = b'{"usage": {"prompt_tokens": %s}, "choices": [{"message": {"content": "x"}}]}'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MEGABYTES = b"100000\r\n%s\r\n" % (b" " * 0x100000) * 9
# What servers answer: faults and lists of models, those that are found in them and those that are not.
DATA = Path(__file__).parent / "data" / "servers.jsonl"
ROWS = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
# What the server does, what the error must be, how many exchanges it may cost (4 = all retries), and what its sentence holds.
FAULTS = (
    ("reset", reset, "incomplete", 4, "broke off"),
    ("closed without a word", hang_up, "incomplete", 4, "broke off"),
    ("cut body", raw(http(200, reply())[:-9]), "incomplete", 4, "broke off"),
    ("cut body without length", raw(http(200, reply(), sized=False)[:-9]), "not_json", 2, "JSON"),
    ("oversized", answer(200, b" " * ((2 << 20) + 1)), "not_json", 2, "2 MB"),
    ("oversized in chunks", raw(CHUNKED + MEGABYTES), "not_json", 2, "2 MB"),
    ("not UTF-8", answer(200, b'{"a": "\xff"}'), "not_json", 2, "JSON"),
    ("nested deeply", answer(200, b"[" * 100000 + b"]" * 100000), "not_json", 2, "JSON"),
    ("gzip", answer(200, gzip.compress(b"{}"), ["Content-Encoding: gzip"]), "not_json", 2, "JSON"),
    ("gzip without saying so", answer(200, gzip.compress(b"{}")), "not_json", 2, "JSON"),
    *(
        (row["name"], step_of(row), row["kind"], row["tries"], row["words"])
        for row in ROWS
        if row["is"] == "fault"
    ),
)  # fmt: skip


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

    def test_only_the_front_of_an_errors_text_is_searched(self) -> None:
        for before, kind in ((1_900, "context"), (1_995, "rejected"), (3_000, "rejected")):
            step = said(400, "x" * before + " context length")
            with self.subTest(before), ScriptedServer(step) as server:
                self.assertEqual(self.failure(model_server(server.url)).kind, kind)

    def test_a_server_that_cannot_be_reached_is_told_by_its_cause(self) -> None:
        unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        no_host = mock.patch("socket.create_connection", side_effect=unknown)
        lost = BrokenPipeError(32, "Broken pipe")
        no_pipe = mock.patch("http.client.HTTPConnection.request", side_effect=lost)
        for kind, words, url, trouble in (
            ("refused", "lms server start", unused_url(), contextlib.nullcontext()),
            ("unreachable", "lmstudio_endpoint", "http://nowhere.invalid:1/", no_host),
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
                begin = time.monotonic()
                error = self.failure(model_server(server.url, lmstudio_timeout=0.15))
                # A busy machine may let the server read after the client has given up.
                self.assertTrue(comes_true(lambda server=server: server.requests))
                self.assertEqual((error.kind, len(server.requests)), ("timeout", 1))
                self.assertIn("0.15 s", str(error))
                threading.Timer(0.05, stop.set, ["you pressed Ctrl+C"]).start()
                with self.assertRaises(agent.Stopped):
                    model_server(server.url, stop=stop, lmstudio_timeout=HANGS_S).complete(b"{}")
                self.assertLess(time.monotonic() - begin, HANGS_S)
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
                self.assertEqual(self.failure(client).kind, "timeout")
                let_go.set()
                self.assert_no_worker()
        self.assertNotIn(b"POST", b"".join(server.requests))


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
        for line in (
            "accept-encoding: identity",
            f"host: 127.0.0.1:{server.port}",
            "content-type: application/json",
            f"authorization: bearer {KEY}",
            f"content-length: {len(body)}",
        ):
            self.assertIn(line, lines)
        self.assertNotIn(b"authorization", server.requests[1].lower(), "there is no key")

    def test_a_reply_is_handed_over_as_it_came_with_what_the_server_counted(self) -> None:
        counted = {"prompt_tokens": 3880, "completion_tokens": 20}
        details = {**counted, "prompt_tokens_details": {"cached_tokens": 165}}
        timings = {"cache_n": 70, "prompt_n": 30}
        nonsense = {"prompt_tokens": True, "completion_tokens": -1}
        usage, none = agent.Usage(3880, 20), agent.Usage()
        for name, body, wanted in (
            ("all", reply(usage=details, timings=timings), agent.Usage(3880, 20, 165)),
            ("llama.cpp", reply(usage=counted, timings=timings), agent.Usage(3880, 20, 70)),
            ("counts only", reply(usage=counted), usage),
            ("BOM", b"\xef\xbb\xbf" + json.dumps(reply()).encode(), usage),
            ("content null", reply(None), usage),
            ("usage null", reply(usage=None, error=None), none),
            ("usage of nonsense", reply(usage=nonsense), none),
            *((number, NUMBER % number.encode(), none) for number in ("NaN", "-Infinity", "1e999")),
            ("integer of 5,000 digits", NUMBER % (b"9" * 5000), none),
            ("nothing but a message", {"choices": [{"message": {}}]}, none),
        ):
            with self.subTest(name):
                self.assertEqual(received(answer(200, body)).usage, wanted)
        got = received(answer(200, reply("x", "other")))
        self.assertEqual(got.message, {"role": "assistant", "content": "x"})
        self.assertEqual((got.finish_reason, got.model), ("stop", "other"))

    def test_a_reply_is_cut_at_64_kb_whatever_the_server_sends(self) -> None:
        long = "The window is open. " * 100_000
        arguments = {"name": "type_text", "arguments": {"text": long}}
        for sent, begins in (
            ({"content": long}, {"content": long[:40_000]}),
            ({"content": [{"type": "text", "text": long}]}, {"content": long[:40_000]}),
            ({"content": "", "reasoning_content": long}, {"reasoning_content": long[:40_000]}),
            ({"content": "", "reasoning": long}, {"reasoning": long[:40_000]}),
            ({"content": "kept", "tool_calls": [{"function": arguments}]}, {"content": "kept"}),
            ({"content": "kept", "function_call": arguments}, {"content": "kept"}),
            ({"content": "kept", "tool_calls": [{}] * 300_000}, {"content": "kept"}),
            ({"content": "kept", "other": [long]}, {"content": "kept"}),
        ):
            with self.subTest(list(sent)):
                choices = [{"message": sent, "finish_reason": "stop"}]
                got = received(answer(200, reply(choices=choices)))
                self.assertLess(len(json.dumps(got.message)), 66_000)
                self.assertNotIn("tool_calls", got.message)
                self.assertEqual(got.finish_reason, "length")
                for name, front in begins.items():
                    self.assertTrue(got.message[name].startswith(front))

    def test_a_chunked_reply_and_one_without_length_are_read_to_their_end(self) -> None:
        data = json.dumps(reply("é" * 50000)).encode()
        pieces = [data[at : at + 999] for at in range(0, len(data), 999)]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for step in (raw(head + chunks + b"0\r\n\r\n"), answer(200, data, sized=False)):
            self.assertEqual(len(received(step).message["content"]), 50000)

    def test_an_empty_reply_is_handed_over_but_an_overflow_in_disguise_is_named(self) -> None:
        for reason, tokens, context, more, overflow in (
            ("stop", 900, 4096, {}, False),
            ("length", 900, None, {}, True),
            ("stop", 4096, 4096, {}, True),
            ("stop", 4096, None, {}, False),
            ("stop", 4096, 4096, {"tool_calls": [{"id": "1"}]}, False),
            ("length", 4096, 4096, {"reasoning_content": "hm"}, False),
        ):
            choices = [{"message": {"content": "", **more}, "finish_reason": reason}]
            usage = {"prompt_tokens": tokens, "completion_tokens": 0}
            step = answer(200, reply(choices=choices, usage=usage))
            with self.subTest(f"{reason} {tokens} {context}"), ScriptedServer(step) as server:
                client, kind = model_server(server.url), ""
                client.info = agent.ModelInfo("x", context_length=context)
                try:
                    client.complete(b"{}")
                except agent.ModelError as error:
                    kind = error.kind
                self.assertEqual(kind, "context" if overflow else "")


LOADING, BUSY = said(503, {"message": "Loading model"}), answer(500)
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

    def test_a_wait_is_told_in_one_sentence_and_a_stop_ends_it(self) -> None:
        stop, told = agent.Stop(), list[str]()

        def notice(text: str) -> None:
            told.append(text)
            stop.set("test")

        with ScriptedServer(BUSY) as server:
            client = model_server(server.url, stop=stop)
            client.clock, client.notice = agent.SystemClock(stop), notice
            with self.assertRaises(agent.Stopped):
                client.complete(b"{}")
        self.assertRegex(told[0], r"\AThe server at .* failed .*; asking again in 0\.5 s\.\Z")


FULL_URL = "http://127.0.0.1:1234/v1/chat/completions"


class Endpoints(unittest.TestCase):
    def test_localhost_becomes_a_number_and_a_missing_path_is_completed(self) -> None:
        for given, url in (
            ("http://localhost:1234/v1/chat/completions", FULL_URL),
            ("http://LOCALHOST:1234", FULL_URL),
            ("http://localhost:1234/v1/", FULL_URL),
            (FULL_URL, FULL_URL),
            ("https://[::1]:8/x/chat/completions", "https://[::1]:8/x/chat/completions"),
            ("http://pc.lan/a/v1/chat/completions", "http://pc.lan/a/v1/chat/completions"),
        ):
            self.assertEqual(model_server(given).url.geturl(), url)

    def test_an_unusable_endpoint_or_key_is_refused_and_shows_no_secret(self) -> None:
        wrong = ["", "localhost:1234", "ftp://x/y", "http://", "http:///v1", "http://h:99999/"]
        wrong += ["http://h:x/", "http://a b/", "http://[::1", "http://h/\u00e9"]
        wrong += ["http://h/\r\nX: y", "file:///etc/passwd", "http://me:hidden@host/"]
        for url in wrong:
            with self.subTest(url), self.assertRaises(agent.ConfigError) as caught:
                model_server(url)
            self.assertRegex(str(caught.exception), r"\Almstudio_endpoint [^\n]*\.\Z")
            self.assertNotIn("hidden", str(caught.exception))
        with self.assertRaises(agent.ConfigError) as caught:
            agent.ModelServer(agent.Config(), VirtualClock(), agent.Stop(), "hid\nden")
        self.assertNotIn("hid", str(caught.exception))


def native(key: str, vision: bool, *contexts: int, **extra: Any) -> dict[str, Any]:
    """One model of LM Studio's /api/v1/models."""
    names = [f"{key}:{n + 1}" if n else key for n in range(len(contexts))]
    pairs = zip(names, contexts, strict=True)
    loaded = [{"id": name, "config": {"context_length": length}} for name, length in pairs]
    able = {"vision": vision, "trained_for_tool_use": True}
    entry = {"type": "llm", "key": key, "max_context_length": 262144, "capabilities": able}
    return {**entry, "loaded_instances": loaded, **extra}


def plain(*names: str, **extra: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", **extra} for name in names]}


LMS_OTHER = http(200, {"error": "Unexpected endpoint or method. (GET /x)"})
CPP_OTHER = http(404, {"error": {"message": "File Not Found", "type": "not_found_error"}})
OLLAMA_OTHER = http(404, b"404 page not found")
VLLM_OTHER = http(404, {"detail": "Not Found"})
OTHERS = {
    "LM Studio": LMS_OTHER,
    "llama.cpp": CPP_OTHER,
    "Ollama": OLLAMA_OTHER,
    "vLLM": VLLM_OTHER,
}
WANTED = "qwen3-vl-2b-instruct"


def listed(modalities: list[str] | None, capabilities: list[str], server: str = "llamacpp") -> Any:
    """A list of models as llama.cpp writes it."""
    entry: dict[str, Any] = {"id": "m", "owned_by": server, "meta": {"n_ctx": 8192}}
    if modalities:
        entry["architecture"] = {"input_modalities": modalities}
    return {"models": [{"name": "m", "model": "m", "capabilities": capabilities}], "data": [entry]}


class Discovery(unittest.TestCase):
    def servers(self, what: str) -> Iterator[tuple[dict[str, Any], RoutedServer]]:
        """The rows of a kind, each with its server."""
        for row in ROWS:
            if row["is"] == what:
                routes = {row["path"]: http(200, row["page"])}
                with (
                    self.subTest(row["name"]),
                    RoutedServer(routes, OTHERS[row["other"]]) as server,
                ):
                    yield row, server

    def test_the_model_is_found_on_every_kind_of_server(self) -> None:
        for row, server in self.servers("found"):
            is_there = "using" not in row["note"]
            client = model_server(server.url, lmstudio_model=WANTED if is_there else "")
            got = client.discover()
            self.assertEqual([got.name, got.vision, got.loaded, got.context_length], row["info"])
            if is_there:
                self.assertIn(row["note"], got.note)
                small = 0 < (got.context_length or 0) < 6000
                self.assertEqual(bool(row["note"]) or small, bool(got.note))
                self.assertEqual("is small; load it with 8192" in got.note, small)
            self.assertIs(client.info, got)
            asked = [request.split(b" ")[1].decode() for request in server.requests]
            order = ["/api/v1/models", "/api/v0/models", "/v1/models"]
            self.assertEqual(list(dict.fromkeys(asked)), order[: order.index(row["path"]) + 1])

    def refused(self, client: agent.ModelServer) -> agent.ModelError:
        with self.assertRaises(agent.ModelError) as caught:
            client.discover()
        self.assertEqual(caught.exception.exit_code, 3)
        return caught.exception

    def test_a_named_model_that_is_not_there_is_refused_with_the_list(self) -> None:
        for row, server in self.servers("found"):
            if "using" in row["note"]:
                client = model_server(server.url, lmstudio_model=WANTED)
                error, name = self.refused(client), row["info"][0]
                self.assertEqual(error.kind, "no_model")
                self.assertIn(f"has no model {WANTED}; choose one: ", str(error))
                self.assertIn(f'--model "{name}"', str(error))

    def test_a_model_that_cannot_be_used_is_said_with_the_remedy(self) -> None:
        for row, server in self.servers("not found"):
            wanted = WANTED if row["name"].startswith("configured") else ""
            error = self.refused(model_server(server.url, lmstudio_model=wanted))
            self.assertEqual(error.kind, row["kind"])
            self.assertIn(row["words"], str(error))
        for other, kind, words in (
            (http(200, b"<html>"), "not_json", "JSON"),
            (http(401, b""), "auth", "LMSTUDIO_API_KEY"),
        ):
            with RoutedServer({}, other) as server:
                error = self.refused(model_server(server.url))
            self.assertEqual(error.kind, kind)
            self.assertIn(words, str(error))

    def test_at_the_start_a_dead_or_missing_server_is_said_once_and_not_waited_for(self) -> None:
        clock = VirtualClock()
        with ScriptedServer(hang_up) as server:
            for url, retries, kind in ((server.url, 0, "incomplete"), (unused_url(), 3, "refused")):
                error = self.refused(model_server(url, clock, request_retries=retries))
                self.assertEqual(error.kind, kind)
        self.assertEqual((len(server.requests), clock.sleeps), (1, []))

    def test_lists_are_asked_beside_the_endpoint(self) -> None:
        with RoutedServer({"/gpu/v1/models": http(200, plain("a"))}, OLLAMA_OTHER) as server:
            model_server(f"{server.base}/gpu/v1/chat/completions?x=1").discover()
        asked = [request.split(b" ")[1] for request in server.requests]
        self.assertEqual(asked, [b"/gpu/api/v1/models", b"/gpu/api/v0/models", b"/gpu/v1/models"])

    def test_llama_cpp_tells_whether_its_model_sees(self) -> None:
        for modalities, capabilities, owner in (
            (["text", "image"], ["completion", "multimodal"], "llamacpp"),
            (None, ["completion", "multimodal"], "llamacpp"),
            (["text", "image"], [], "vllm"),
        ):
            pages = {"/v1/models": http(200, listed(modalities, capabilities, owner))}
            with RoutedServer(pages, CPP_OTHER) as server:
                info = model_server(server.url).discover()
            self.assertEqual((info.vision, info.llama_cpp), (True, owner == "llamacpp"))


class Warnings(EngineCase):
    """What a run says of a reply that does not fit what was asked."""

    def warnings(self, wanted: str, context: int | None, model: str, tokens: int | None) -> str:
        self.model = agent.ModelInfo(wanted, context_length=context)
        trial = self.trial(lambda _: PLAN, max_steps=1, screen_capture_w=1536, screen_capture_h=864)
        trial.state.execution_instructions = "Go on"
        plain = trial.server.complete
        trial.server.complete = lambda body: replace(
            plain(body), usage=agent.Usage(tokens), model=model
        )
        trial.run()
        return "\n".join(line for line in self.lines if "tokens" in line or "instead" in line)

    def test_another_model_and_a_shrunk_image_are_told(self) -> None:
        for wanted, context, model, tokens, words in (
            (WANTED, 8192, WANTED, 6000, ""),
            (WANTED, None, "", None, ""),
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


# The names of the models that are asked in a grammar.
NAMES = {
    "qwen3-vl": "qwen/qwen3-vl-4b Qwen3-VL-8B-Instruct-Q4_K_M.gguf qwen3-vl-8b-thinking qwen3vl:4b"
    " qwen3-vl-4b-instruct@q4_k_m",
    "qwen2.5-vl": "qwen2.5-vl-7b-instruct qwen/qwen2.5-vl-7b Qwen2_5-VL-3B",
    "qwen3.5-xml": "qwen3.5-4b qwen/qwen3.5-9b qwen/qwen3.6-35b-a3b Qwen_Qwen3.5-4B-Q4_K_M.gguf qwen3.5:4b",
    "gui-owl-1.5": "gui-owl-1.5-8b-instruct GUI-Owl-1.5-2B-Instruct-Q8_0.gguf",
    "ui-tars-1.0": "ui-tars-7b-dpo ui-tars-2b-sft UI-TARS-72B-DPO",
    "ui-tars-1.5": "ui-tars-1.5-7b bytedance/UI-TARS-1.5-7B@q4_k_m",
    "ui-tars-2": "ui-tars-2",
    "fara-7b": "fara-7b",
    "opencua": "OpenCUA-7B",
    "tools": "gui-owl-7b mplug/gui_owl-32b doubao-1.5-ui-tars-250428 mai-ui-8b Holo1-7B holo1.5-7b holo2-4b"
    " holo3-35b-a3b qwen3-8b qwen3-4b-2507 qwen2-vl-7b-instruct gemma-3-12b glm-4.6v-flash fara1.5-9b OpenCUA-A3B",
}


# By which of their names is chosen where nothing is loaded, the first before the last.
ORDER = """
    qwen/qwen3-vl-8b qwen3-vl:4b Qwen3VL-2B-Instruct-Q4_K_M.gguf qwen3-vl-30b-a3b qwen3.5-4b qwen/qwen3.5-2b
    mradermacher/GUI-Owl-7B-GGUF ui-tars-1.5-7b qwen2.5-vl-7b-instruct glm-4.6v-flash
""".split()


class Choice(unittest.TestCase):
    def chosen(self, *names: str, wanted: str = "") -> str | None:
        """The model that is used of a server that lists these; None where it is left to the person."""
        with RoutedServer({"/v1/models": http(200, plain(*names))}, OLLAMA_OTHER) as server:
            try:
                return model_server(server.url, lmstudio_model=wanted).discover().name
            except agent.ModelError:
                return None

    def test_the_families_have_an_order_and_others_are_left_to_the_person(self) -> None:
        left = [
            "llava",
            "pixtral",
            "qwen3-8b",
            "qwen/qwen3-4b-2507",
            "ministral-3-3b",
            *ORDER[::-1],
        ]
        for wanted in [*ORDER, None]:
            self.assertEqual(self.chosen(*left), wanted)
            left = left[:-1]

    def test_a_name_without_a_quantization_means_any(self) -> None:
        there = "qwen3-vl-4b-instruct@q4_k_m"
        for wanted, found in (
            ("qwen/qwen3-vl-4b", there),
            ("qwen3-vl-4b@q4_k_m", there),
            ("qwen3-vl-4b@q8_0", None),
            ("qwen3-vl-8b", None),
        ):
            self.assertEqual(self.chosen(there, wanted=wanted), found, wanted)

    def test_what_is_loaded_counts_first_then_what_does_not_think_aloud(self) -> None:
        qwen, gemma = "qwen/qwen3-vl-8b", native("google/gemma-3-4b", True, 8192)
        thinking, plain_one = "qwen3-vl-8b-thinking", "qwen3-vl-2b-instruct"
        four = native("qwen/qwen3-vl-4b", True)
        for wanted, models, name, note in (
            ("", [native(qwen, True, 8192), native("gemma", True)], qwen, ""),
            (
                "",
                [native("text", False, 9), gemma, native(qwen, True)],
                "google/gemma-3-4b",
                "Using the model google/gemma-3-4b; --model NAME takes another.",
            ),
            ("", [native(thinking, True), native(plain_one, True)], plain_one, "not loaded yet"),
            ("qwen3-vl-4b-instruct", [native(qwen, True, 8192), four], "qwen/qwen3-vl-4b", ""),
        ):
            page = {"models": models}
            with RoutedServer({"/api/v1/models": http(200, page)}, LMS_OTHER) as server:
                found = model_server(server.url, lmstudio_model=wanted).discover()
            self.assertEqual(found.name, name)
            self.assertIn(note, found.note)


class Person(CommandLineCase):
    """Where the choice is left to the person."""

    def start(self, page: object, stdin: Any = b"") -> tuple[int, str, str]:
        """A start with a server of this list, by a person at a terminal or in a pipe."""
        routes = {"/v1/models": http(200, page)}
        with RoutedServer(routes, OLLAMA_OTHER) as server, desktop_of_main(agent.DemoDesktop):
            return self.main("a task", "--endpoint", server.url, "--max-steps", "1", stdin=stdin)

    def test_in_a_pipe_the_exact_words_to_type_are_said_and_the_code_is_3(self) -> None:
        for names, words in (
            (("llava:7b", "big model"), 'choose one: --model "llava:7b", --model "big model".'),
            ((), "download one with `lms get qwen/qwen3-vl-4b` (3.3 GB"),
        ):
            code, _, err = self.start(plain(*names))
            self.assertEqual((code, len(err.splitlines())), (3, 1), err)
            self.assertIn(words, err)

    def test_on_a_terminal_the_person_picks_from_a_numbered_list_until_one_is_there(self) -> None:
        question = (
            "Which model?\n    |   1  llava:7b\n    |   2  pixtral\n    | A number from 1 to 2:\n"
        )
        for answers, picked in ((("2",), "pixtral"), (("nine", "7", "1"), "llava:7b"), (("",), "")):
            words = (None, *answers, "")  # by how often it was asked

            def types(out: str, words: tuple[str | None, ...] = words) -> str | None:
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
    def test_a_models_name_tells_its_grammar(self) -> None:
        self.assertEqual(NAMES.keys() - {"tools"}, set(agent.GRAMMARS))
        for grammar, names in NAMES.items():
            for name in names.split():
                with self.subTest(name):
                    self.assertEqual(agent.trained_in(agent.ModelInfo(name)), grammar)
        self.assertEqual(agent.trained_in(agent.ModelInfo("")), "tools")

    def test_what_the_server_tells_counts_where_the_name_says_nothing(self) -> None:
        for name, told, grammar in (
            ("my-model", "qwen3_vl", "qwen3-vl"),
            ("my-model", "qwen3vl", "qwen3-vl"),
            ("my-model", "qwen2_5_vl", "qwen2.5-vl"),
            ("my-model", "qwen35moe", "qwen3.5-xml"),
            ("my-model", "qwen2vl", "tools"),
            ("ui-tars-1.5-7b", "qwen2_5_vl", "ui-tars-1.5"),
            ("gta1-7b", "qwen2_5_vl", "tools"),
        ):
            model = agent.ModelInfo(name, architecture=told)
            self.assertEqual(agent.trained_in(model), grammar, name)
