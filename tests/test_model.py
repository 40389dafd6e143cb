"""The model client against real sockets: every fault a server can show, waiting, finding the model, stopping."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import socket
import threading
import time
import unittest
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

import agent
from tests.fakes import VirtualClock
from tests.samples import sample
from tests.scripted import PLAN, EngineCase
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
from tests.timing import HANGS_S, comes_true

KEY = "sk-secret-4711"
GOOD = answer(200, reply())


def model_server(
    url: str, clock: VirtualClock | None = None, stop: agent.Stop | None = None, **settings: Any
) -> agent.ModelServer:
    config = replace(agent.Config(), lmstudio_endpoint=url, **{"lmstudio_timeout": 5.0, **settings})
    return agent.ModelServer(config, clock or VirtualClock(), stop or agent.Stop(), KEY)


class Fault(NamedTuple):
    """What the server shows, what the error must be, and how many exchanges it may cost (4 = all retries)."""

    name: str
    step: Step
    kind: str
    exchanges: int
    words: str  # must stand in the sentence


def said(status: int, error: Any) -> Step:
    return answer(status, error if isinstance(error, bytes) else {"error": error})


LMS_NONE = (
    "No models loaded. Please load a model in the developer page or use the 'lms load' command."
)
LMS_KEEP = (
    "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context "
    "length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a "
    "shorter input"
)
CPP_CONTEXT = {
    "code": 400,
    "message": "the request exceeds the available context size. try increasing the context size",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 1407,
    "n_ctx": 256,
}
NUMBER = b'{"usage": {"prompt_tokens": %s}, "choices": [{"message": {"content": "x"}}]}'

FAULTS = (
    Fault("reset", reset, "incomplete", 4, "broke off"),
    Fault("closed without a word", hang_up, "incomplete", 4, "broke off"),
    Fault("cut in the status line", raw(b"HTTP/1.1 2"), "incomplete", 4, "whole HTTP answer"),
    Fault("another protocol", raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "incomplete", 4, "check that it is a model server"),
    Fault("cut body", raw(http(200, reply())[:-9]), "incomplete", 4, "broke off"),
    Fault("cut chunk", raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{}"), "incomplete", 4, "broke off"),
    Fault("negative chunk", raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n"), "incomplete", 4, "broke"),
    Fault("cut body without length", raw(http(200, reply(), sized=False)[:-9]), "not_json", 2, "JSON"),
    Fault("oversized", answer(200, b" " * ((2 << 20) + 1)), "not_json", 2, "2 MB"),
    Fault("oversized in chunks", raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"100000\r\n%s\r\n" % (b" " * 0x100000) * 9), "not_json", 2, "2 MB"),
    Fault("HTML", answer(200, b"<html>hello</html>"), "not_json", 2, "JSON"),
    Fault("not UTF-8", answer(200, b'{"a": "\xff"}'), "not_json", 2, "JSON"),
    Fault("stream of events", answer(200, b'data: {"choices": []}\n\ndata: [DONE]\n\n'), "not_json", 2, "JSON"),
    Fault("nested deeply", answer(200, b"[" * 100000 + b"]" * 100000), "not_json", 2, "JSON"),
    Fault("nested somewhat", answer(200, b"[" * 99 + b"]" * 99), "not_json", 2, "nested too deeply"),
    Fault("redirect", answer(302, b"", ["Location: http://example.com/"]), "not_found", 1, "final address"),
    Fault("permanent redirect", answer(308, b"No models loaded.", ["Location: /v2"]), "not_found", 1, "status 308"),
    Fault("gzip", answer(200, gzip.compress(b"{}"), ["Content-Encoding: gzip"]), "not_json", 2, "JSON"),
    Fault("gzip without saying so", answer(200, gzip.compress(b"{}")), "not_json", 2, "JSON"),
    Fault("200 with error object", said(200, {"message": "odd", "code": 7}), "error", 2, "(odd)"),
    Fault("200 with error string", said(200, "odd\nthing."), "error", 2, "(odd thing)"),
    Fault("200 with a known error", said(200, LMS_KEEP), "context", 1, "8192 tokens or more"),
    Fault("200 with unknown page", said(200, "Unexpected endpoint or method. (POST /x)"), "not_found", 1, "no such page"),
    Fault("empty 200", answer(200), "not_json", 2, "JSON"),
    Fault("empty 200 without length", answer(200, sized=False), "not_json", 2, "JSON"),
    Fault("204", answer(204), "not_json", 2, "JSON"),
    Fault("no choices", answer(200, reply(choices=[])), "not_json", 2, "choices[0].message"),
    Fault("choices null", answer(200, reply(choices=None)), "not_json", 2, "choices[0].message"),
    Fault("choice a string", answer(200, reply(choices=["x"])), "not_json", 2, "choices[0].message"),
    Fault("message a string", answer(200, reply(choices=[{"message": "x"}])), "not_json", 2, "choices[0].message"),
    Fault("a list", answer(200, []), "not_json", 2, "choices[0].message"),
    Fault("a number", answer(200, b"7"), "error", 2, "(7)"),
    Fault("400", said(400, "'messages' is required"), "rejected", 1, "status 400: 'messages' is required"),
    Fault("400 with nothing", answer(400), "rejected", 1, "(status 400)"),
    Fault("400 no model (LM Studio)", said(400, {"message": LMS_NONE}), "no_model", 1, "lms load"),
    Fault("404 no model (LM Studio)", said(404, {"message": LMS_NONE}), "no_model", 1, "lms load"),
    Fault("400 overflow (LM Studio)", said(400, LMS_KEEP), "context", 1, "8192"),
    Fault("400 n_keep (LM Studio)", said(400, "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 10247 >= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter prompt."), "context", 1, "8192"),
    Fault("400 mid-generation (LM Studio)", said(400, "Reached context length of 4096 tokens with model (arch: qwen3vlmoe) that does not currently support mid-generation context overflow. Try reloading with a larger context length or shortening the prompt/chat."), "context", 1, "8192"),
    Fault("400 small for vision (LM Studio)", said(400, "For vision-enabled models, please use context size 1500 or larger"), "context", 1, "8192"),
    Fault("400 no vision (LM Studio)", said(400, "Model does not support images. Please use a model that does."), "no_vision", 1, "cannot see images"),
    Fault("400 crashed (LM Studio)", said(400, "The model has crashed without additional information. (Exit code: null)"), "server", 4, "lost its model"),
    Fault("400 unloaded (LM Studio)", said(400, "Model unloaded."), "server", 4, "lost its model"),
    Fault("400 unknown model (LM Studio)", said(400, {"message": 'Invalid model identifier "x". Please specify a valid downloaded model', "code": "model_not_found"}), "no_model", 1, "lmstudio_model"),
    Fault("400 several models (LM Studio)", said(400, "Multiple models are loaded. Please specify a model by providing a 'model' field."), "no_model", 1, "lmstudio_model"),
    Fault("400 failed to load (LM Studio)", said(400, "Failed to load model: insufficient system resources"), "no_model", 1, "choose a smaller one"),
    Fault("400 overflow (llama.cpp)", said(400, CPP_CONTEXT), "context", 1, "8192"),
    Fault("500 overflow (llama.cpp, older)", said(500, CPP_CONTEXT), "context", 1, "8192"),
    Fault("500 no mmproj (llama.cpp)", said(500, {"code": 500, "message": "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "type": "server_error"}), "no_vision", 1, "cannot see images"),
    Fault("500 tools (llama.cpp)", said(500, {"message": "tools param requires --jinja flag"}), "no_tools", 1, "tools"),
    Fault("503 loading (llama.cpp)", said(503, {"message": "Loading model", "type": "unavailable_error", "code": 503}), "loading", 4, "still loading"),
    Fault("404 page (llama.cpp)", said(404, {"message": "File Not Found", "type": "not_found_error", "code": 404}), "not_found", 1, "no such page"),
    Fault("400 overflow (vLLM)", answer(400, {"object": "error", "message": "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens.", "type": "BadRequestError", "code": 400}), "context", 1, "8192"),
    Fault("400 text model (vLLM)", answer(400, {"object": "error", "message": "Qwen3-4B is not a multimodal model"}), "no_vision", 1, "cannot see images"),
    Fault("404 model (vLLM)", answer(404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}), "no_model", 1, "lmstudio_model"),
    Fault("400 tools (vLLM)", answer(400, {"object": "error", "message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'}), "no_tools", 1, "tools"),
    Fault("404 page (vLLM)", answer(404, {"detail": "Not Found"}), "not_found", 1, "no such page"),
    Fault("404 model (Ollama)", said(404, 'model "x" not found, try pulling it first'), "no_model", 1, "lmstudio_model"),
    Fault("404 page (Ollama)", answer(404, b"404 page not found"), "not_found", 1, "no such page"),
    Fault("400 tools (Ollama)", said(400, {"message": "registry.ollama.ai/library/x does not support tools"}), "no_tools", 1, "tools"),
    Fault("503 busy (Ollama)", said(503, "server busy, please try again.  maximum pending requests exceeded"), "server", 4, "busy"),
    Fault("401", said(401, {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}), "auth", 1, "LMSTUDIO_API_KEY"),
    Fault("403", answer(403, b""), "auth", 1, "LMSTUDIO_API_KEY"),
    Fault("404", answer(404, b""), "not_found", 1, "lmstudio_endpoint"),
    Fault("408", answer(408), "server", 4, "status 408"),
    Fault("409", answer(409), "server", 4, "status 409"),
    Fault("429", said(429, {"message": "Rate limit reached"}), "server", 4, "status 429: Rate limit reached"),
    Fault("500", said(500, {"message": "Internal error"}), "server", 4, "status 500: Internal error"),
    Fault("502 in HTML", answer(502, b"<html>Bad Gateway</html>"), "server", 4, "status 502"),
    Fault("503", answer(503), "server", 4, "(status 503)"),
    Fault("504", answer(504), "server", 4, "(status 504)"),
    Fault("501", answer(501), "rejected", 1, "(status 501)"),
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
        for fault in FAULTS:
            with self.subTest(fault.name), ScriptedServer(fault.step) as server:
                error = self.failure(model_server(server.url))
                found = (error.kind, len(server.requests))
                self.assertEqual((fault.kind, fault.exchanges), found, str(error))
                for words in (fault.words, f"127.0.0.1:{server.port}"):
                    self.assertIn(words, str(error))
                self.assertNotIn(KEY, str(error) + repr(error))
                self.assertIsNone(error.__cause__)
            if fault.exchanges > 1:
                with self.subTest(fault.name):  # it may pass
                    got = received(fault.step, GOOD)
                    self.assertEqual((got.message["content"], got.tries), ("hello", 2))

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
        self.assertEqual((got.finish_reason, got.model, got.tries), ("stop", "other", 1))

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
            ("fails, then loads", [hang_up, BUSY, LOADING, LOADING, GOOD], [0.5, 1.0, 5.0, 10.0]),
            ("loads, then fails", [LOADING, LOADING, BUSY, GOOD], [5.0, 10.0, 0.5]),
            ("both by turns", [*BOTH, GOOD], [0.5, 5.0, 1.0, 10.0, 2.0, 20.0]),
            ("both, then busy", [*BOTH, BUSY], [0.5, 5.0, 1.0, 10.0, 2.0, 20.0]),
            ("both, then loading", [*BOTH, LOADING], [0.5, 5.0, 1.0, 10.0, 2.0, 20.0]),
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


def older(name: str, kind: str, length: int | None = None) -> dict[str, Any]:
    """One model of LM Studio's /api/v0/models."""
    state: dict[str, Any] = {"state": "not-loaded"}
    if length:
        state = {"state": "loaded", "loaded_context_length": length}
    capable = {"capabilities": ["tool_use"], "max_context_length": 262144}
    return {"id": name, "object": "model", "type": kind, **capable, **state}


def plain(*names: str, **extra: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", **extra} for name in names]}


EMBED = {
    "type": "embedding",
    "key": "text-embedding-nomic",
    "loaded_instances": [{"id": "x", "config": {}}],
}
LMS_OTHER = http(200, {"error": "Unexpected endpoint or method. (GET /x)"})
CPP_OTHER = http(
    404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}
)
OLLAMA_OTHER = http(404, b"404 page not found")
VLLM_OTHER = http(404, {"detail": "Not Found"})
SEES = {
    "name": "/m/Qwen3VL-2B-Q4.gguf",
    "type": "model",
    "capabilities": ["completion", "multimodal"],
}
CPP_LIST = {"models": [SEES], **plain(SEES["name"], meta={"n_ctx_train": 262144, "n_ctx": 8192})}
WANTED = "qwen3-vl-2b-instruct"
Info = agent.ModelInfo

FOUND = (
    ("LM Studio, loaded", "/api/v1/models", {"models": [EMBED, native(WANTED, True, 8192)]}, LMS_OTHER, Info(WANTED, True, True, 8192), ""),
    ("LM Studio, under its publisher", "/api/v1/models", {"models": [native("qwen/Qwen3-VL-2B-Instruct", True, 4096)]}, LMS_OTHER, Info("qwen/Qwen3-VL-2B-Instruct", True, True, 4096), ""),
    ("LM Studio, exact before alike", "/api/v1/models", {"models": [native("b/" + WANTED, True, 1), native(WANTED, True, 2)]}, LMS_OTHER, Info(WANTED, True, True, 2), ""),
    ("LM Studio, loaded under another name", "/api/v1/models", {"models": [native(WANTED, True, loaded_instances=[{"id": "eye", "config": {"context_length": 9}}])]}, LMS_OTHER, Info("eye", True, True, 9), ""),
    ("LM Studio, downloaded only", "/api/v1/models", {"models": [native("a", True, 1), native(WANTED, True)]}, LMS_OTHER, Info(WANTED, True, False), "not loaded yet"),
    ("LM Studio, another one loaded", "/api/v1/models", {"models": [native("text", False, 4096), native("qwen/qwen3-vl-8b", True, 8192), native("gemma", True)]}, LMS_OTHER, Info("qwen/qwen3-vl-8b", True, True, 8192), "using the loaded one, qwen/qwen3-vl-8b"),
    ("LM Studio 0.3, loaded", "/api/v0/models", {"data": [older("x", "llm", 1), older(WANTED, "vlm", 4096)]}, LMS_OTHER, Info(WANTED, True, True, 4096), ""),
    ("LM Studio 0.3, another one loaded", "/api/v0/models", {"data": [older("text-embedding-x", "embeddings", 1), older("y", "vlm"), older("z", "vlm", 5)]}, LMS_OTHER, Info("z", True, True, 5), "using the loaded one, z"),
    ("llama.cpp", "/v1/models", CPP_LIST, CPP_OTHER, Info("/m/Qwen3VL-2B-Q4.gguf", True, None, 8192), "is not there; using"),
    ("Ollama", "/v1/models", plain("qwen3-vl:2b", "gemma:4b", WANTED, owned_by="library"), OLLAMA_OTHER, Info(WANTED), ""),
    ("vLLM", "/v1/models", plain("Qwen/Qwen3-VL-2B-Instruct", max_model_len=16384), VLLM_OTHER, Info("Qwen/Qwen3-VL-2B-Instruct", None, None, 16384), ""),
    ("Lemonade, plain list under /api/v1", "/api/v1/models", plain("text-embedding-nomic", "only"), OLLAMA_OTHER, Info("only"), "is not there; using"),
)  # fmt: skip

NOT_FOUND = (
    ("nothing there", "/v1/models", plain(), LMS_OTHER, "no_model", "`lms get qwen/qwen3-vl-4b` (3.3 GB"),
    ("only embeddings", "/v1/models", plain("text-embedding-x"), LMS_OTHER, "no_model", "no vision model"),
    ("configured one is text only", "/api/v1/models", {"models": [native("qwen/qwen3-vl-8b", True, 1), native(WANTED, False, 1)]}, LMS_OTHER, "no_vision", f"{WANTED} reads text only"),
    ("only a text model is loaded", "/api/v0/models", {"data": [older("t", "llm", 1)]}, LMS_OTHER, "no_vision", "no vision model"),
    ("several to choose from", "/v1/models", plain("a", "b"), OLLAMA_OTHER, "no_model", "choose one: --model a, --model b."),
    ("no list at all", "/", {}, OLLAMA_OTHER, "not_found", "no such page"),
    ("rubbish", "/v1/models", b"<html>", http(200, b"<html>"), "not_json", "JSON"),
    ("odd shapes", "/v1/models", {"data": [7, {"id": 7}, {"id": ""}, None], "models": {"a": 1}}, LMS_OTHER, "no_model", ""),
    ("llama.cpp, a model that reads text only", "/v1/models", {"models": [{"name": "m", "model": "m", "capabilities": []}], "data": [{"id": "m", "owned_by": "llamacpp", "architecture": {"input_modalities": ["text"]}}]}, CPP_OTHER, "no_vision", "text only: m"),
    ("llama.cpp, an older one of text only", "/v1/models", {"models": [{"name": "m", "model": "m", "capabilities": ["completion"]}], "data": [{"id": "m", "owned_by": "llamacpp"}]}, CPP_OTHER, "no_vision", "text only: m"),
    ("wrong key", "/v1/models", plain("a"), http(401, b""), "auth", "LMSTUDIO_API_KEY"),
)  # fmt: skip


def listed(modalities: list[str] | None, capabilities: list[str], server: str = "llamacpp") -> Any:
    """A list of models as llama.cpp writes it."""
    entry: dict[str, Any] = {"id": "m", "owned_by": server, "meta": {"n_ctx": 8192}}
    if modalities:
        entry["architecture"] = {"input_modalities": modalities}
    return {"models": [{"name": "m", "model": "m", "capabilities": capabilities}], "data": [entry]}


class Discovery(unittest.TestCase):
    def test_the_model_is_found_on_every_kind_of_server(self) -> None:
        for name, path, page, other, info, note in FOUND:
            with self.subTest(name), RoutedServer({path: http(200, page)}, other) as server:
                is_there = "using" not in note
                client = model_server(server.url, lmstudio_model=WANTED if is_there else "")
                got = client.discover()
                found = replace(got, note="", stored="", architecture="", efforts={})
                self.assertEqual(found, info)
                if is_there:
                    self.assertIn(note, got.note)
                    self.assertEqual(bool(note), bool(got.note))
                self.assertIs(client.info, got)
                asked = [request.split(b" ")[1].decode() for request in server.requests]
                order = ["/api/v1/models", "/api/v0/models", "/v1/models"]
                self.assertEqual(list(dict.fromkeys(asked)), order[: order.index(path) + 1])

    def refused(self, client: agent.ModelServer) -> agent.ModelError:
        with self.assertRaises(agent.ModelError) as caught:
            client.discover()
        self.assertEqual(caught.exception.exit_code, 3)
        return caught.exception

    def test_a_named_model_that_is_not_there_is_refused_with_the_list(self) -> None:
        """Where only the profile names it, another one stands in."""
        rows = [row for row in FOUND if "using" in row[-1]]
        self.assertEqual(len(rows), 4)
        for name, path, page, other, info, _ in rows:
            with self.subTest(name), RoutedServer({path: http(200, page)}, other) as server:
                client = model_server(server.url, lmstudio_model=WANTED)
                error = self.refused(client)
                self.assertEqual(error.kind, "no_model")
                self.assertIn(f"has no model {WANTED}; choose one: ", str(error))
                self.assertIn(f"--model {info.name}", str(error))
                client.profile_model = WANTED
                self.assertEqual(client.discover().name, info.name)
                self.assertIn("is not there; using", client.info.note)

    def test_a_model_that_cannot_be_used_is_said_with_the_remedy(self) -> None:
        for name, path, page, other, kind, words in NOT_FOUND:
            wanted = WANTED if name.startswith("configured") else ""
            with self.subTest(name), RoutedServer({path: http(200, page)}, other) as server:
                error = self.refused(model_server(server.url, lmstudio_model=wanted))
                self.assertEqual(error.kind, kind)
                self.assertIn(words, str(error))

    def test_at_the_start_a_dead_or_missing_server_is_said_once_and_not_waited_for(self) -> None:
        clock = VirtualClock()
        with ScriptedServer(hang_up) as server:
            for url, retries, kind in (
                (server.url, 0, "incomplete"),
                (unused_url(), 3, "refused"),
            ):
                error = self.refused(model_server(url, clock, request_retries=retries))
                self.assertEqual(error.kind, kind)
        self.assertEqual((len(server.requests), clock.sleeps), (1, []))

    def test_lists_are_asked_beside_the_endpoint(self) -> None:
        with RoutedServer({"/gpu/v1/models": http(200, plain("a"))}, OLLAMA_OTHER) as server:
            model_server(f"{server.base}/gpu/v1/chat/completions?x=1").discover()
        asked = [request.split(b" ")[1] for request in server.requests]
        self.assertEqual(asked, [b"/gpu/api/v1/models", b"/gpu/api/v0/models", b"/gpu/v1/models"])

    def test_llama_cpp_tells_whether_its_model_sees_and_its_template_shows_tools(self) -> None:
        sees = listed(["text", "image"], ["completion", "multimodal"])
        for page, told, tools in (
            (sees, True, True),
            (sees, False, False),
            (sees, None, None),
            (listed(None, ["completion", "multimodal"]), True, True),
            (listed(["text", "image"], [], "vllm"), True, None),
        ):
            caps = {"chat_template_caps": {"supports_tools": told}}
            pages = {"/v1/models": http(200, page), "/props": http(200, caps)}
            with self.subTest(f"{page} {told}"), RoutedServer(pages, CPP_OTHER) as server:
                info = model_server(server.url).discover()
                self.assertEqual(info.tools, tools)
                self.assertEqual(info.llama_cpp, page["data"][0]["owned_by"] == "llamacpp")
                self.assertEqual("leaves out tools" in info.note, tools is False)


class Warnings(EngineCase):
    """What a run says of a reply that does not fit what was asked."""

    def warnings(self, wanted: str, context: int | None, model: str, tokens: int | None) -> str:
        self.model = Info(wanted, context_length=context)
        trial = self.trial(lambda _: PLAN, max_steps=1, screen_capture_w=1536, screen_capture_h=864)
        trial.state.execution_instructions = "Go on"
        plain = trial.server.complete
        trial.server.complete = lambda body: replace(
            plain(body), usage=agent.Usage(tokens), model=model
        )
        trial.run()
        return "\n".join(line for line in self.lines if "tokens" in line or "instead" in line)

    def test_another_model_a_small_context_and_a_shrunk_image_are_told(self) -> None:
        for wanted, context, model, tokens, words in (
            (WANTED, 8192, WANTED, 6000, ""),
            (WANTED, None, "", None, ""),
            (WANTED, 8192, "qwen/Qwen3-VL-2B-Instruct:2", 6000, ""),
            (WANTED, 8192, "gemma", 6000, "gemma instead of"),
            (WANTED, 4096, WANTED, 6000, "context of 4096 tokens"),
            (WANTED, 8192, WANTED, 1081, "1081 tokens for a screenshot of 1296 .*: it shrank or left out"),
            (WANTED, 8192, WANTED, 1400, "1400 tokens for a screenshot of 1296 and [0-9]+ characters"),
            ("qwen3-vl:2b", 8192, "Qwen3-VL:2b", 6000, ""),
            ("qwen3-vl:2b", 8192, "qwen3-vl:4b", 6000, "qwen3-vl:4b instead of"),
            ("C:\\m\\a.gguf", 8192, "a.gguf", 6000, ""),
        ):  # fmt: skip
            with self.subTest(f"{wanted} {context} {model} {tokens}"):
                self.assertRegex(self.warnings(wanted, context, model, tokens), words or r"\A\Z")
