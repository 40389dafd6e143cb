"""The panel's server over raw sockets: who is answered, who is not, and that nobody can hold up the run."""

from __future__ import annotations

import base64
import itertools
import json
import socket
import sys
import threading
import time
import unittest
from contextlib import suppress
from typing import Any
from unittest import mock

import agent
from tests import seams
from tests.scripted import FEWER_REQUESTS, PLAN, EngineCase, call, role_of
from tests.test_main import CommandLineCase

SIZE = (64, 48)
PICTURE = agent.rgb_to_png(bytes(64 * 48 * 3), *SIZE)
OTHER = agent.rgb_to_png(bytes(32 * 32 * 3), 32, 32)


def a_panel(config: agent.Config, stop: agent.Stop) -> agent.Panel:
    """A panel with an empty book."""
    return agent.Panel(config, stop, agent.Book("run_0001"))


def is_open(server: agent.PanelServer, connection: socket.socket) -> bool:
    """Whether the server has begun to listen to that connection of ours."""
    name = connection.getsockname()
    for other in list(server.open):
        with suppress(OSError):  # it has been hung up on
            if other.getpeername() == name:
                return True
    return False


def show(panel: agent.Panel, png: bytes, turn: int, *more: Any) -> None:
    panel.take(agent.Shown(png, turn, *more))


def publish(panel: agent.Panel, items: list[dict[str, Any]]) -> None:
    """Puts a run and its turns, as `head` and `turn` give them, into the panel's book."""
    run, *turns = items
    panel.book.run = agent.RunEntry(**{key: run[key] for key in run if key != "turn"})
    panel.book.turns = [entry(item) for item in turns]
    panel.publish()


def entry(item: dict[str, Any]) -> agent.TurnEntry:
    sums = {key: item[key] for key in ("seconds", "prompt", "completion", "wasted")}
    rest = {key: item[key] for key in item if key not in sums and key != "acts"}
    acts = [agent.ActEntry(**one) for one in item["acts"]]
    return agent.TurnEntry(**rest, began=0.0, acts=acts, sums=agent.Sums(**sums))


class PanelTest(unittest.TestCase):
    def setUp(self) -> None:
        self.stop = agent.Stop()
        self.panel = a_panel(agent.Config(described=True), self.stop)
        self.addCleanup(self.panel.close)
        self.address, self.token = self.panel.url.split("/#")
        self.port = int(self.address.rpartition(":")[2])

    # -- talking to it

    def raw(self, request: bytes, seconds: float = 5.0) -> tuple[int, bytes]:
        """(status, whole answer) for the bytes of a request; status 0 when the connection is closed without a word."""
        with socket.create_connection(("127.0.0.1", self.port), seconds) as connection:
            connection.sendall(request)
            answer = b""
            with suppress(
                ConnectionResetError
            ):  # what was refused before its body was read ends so
                # A stream of events does not end by itself.
                while b"event-stream" not in answer and (chunk := connection.recv(65536)):
                    answer += chunk
        return (int(answer.split()[1]) if answer.startswith(b"HTTP/1.0 ") else 0), answer

    def head(self, line: str, **changed: str | None) -> bytes:
        """A request as our page makes it, some of its headers changed, left out (None) or added."""
        headers: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Origin": self.address,
            "Sec-Fetch-Site": "same-origin",
            "Authorization": f"Bearer {self.token}",
        }
        if line.startswith("POST"):
            headers |= {"Content-Type": "application/json", "Content-Length": "18"}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        return "\r\n".join([line, *lines, "", ""]).encode("latin-1")

    def get(self, path: str, **changed: str | None) -> tuple[int, bytes]:
        return self.raw(self.head(f"GET {path} HTTP/1.1", **changed))

    def post(self, path: str, body: Any, **changed: str | None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, answer = self.raw(
            self.head(f"POST {path} HTTP/1.1", **{"Content_Length": str(len(data)), **changed})
            + data
        )
        return status, json.loads(answer.partition(b"\r\n\r\n")[2] or b"null")

    def state(self) -> Any:
        status, answer = self.get("/state")
        self.assertEqual(status, 200)
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    def awaiting(
        self, seq: int, seconds: float = 5.0
    ) -> tuple[threading.Thread, list[bytes | None]]:
        """A run that waits for the page's marks, in a thread, once it really waits; its result comes into the list."""
        found: list[bytes | None] = []
        thread = threading.Thread(
            target=lambda: found.append(self.panel.wait_annotated(seq, seconds))
        )
        thread.start()
        self.addCleanup(thread.join)
        end = time.monotonic() + 5
        while self.state()["phase"] != "waiting_annotated" and time.monotonic() < end:
            time.sleep(0.01)
        return thread, found


PAUSE = b'{"action":"pause"}'
EVERY_ADDRESS = (
    *(f"GET {path} HTTP/1.1" for path in ("/", "/config", "/state", "/events")),
    *(f"POST {path} HTTP/1.1" for path in ("/annotated", "/inject", "/picture", "/control")),
)


class Gate(PanelTest):
    def test_the_page_is_answered(self) -> None:
        self.assertEqual(
            self.get("/", Authorization=None, Origin=None, Sec_Fetch_Site="none")[0], 200
        )
        for path in ("/config", "/state"):
            self.assertEqual(self.get(path)[0], 200, path)
        self.assertEqual(self.raw(self.head("POST /control HTTP/1.1") + PAUSE)[0], 200)
        self.assertEqual(self.stop.paused, "in the panel")

    def test_nobody_else_is(self) -> None:
        """Each request differs from an accepted one in what its name says; nothing of it may be carried out.

        The key and the place where a request comes from are asked for at every address but the page's,
        which a browser opens without a key.
        """
        here = f"127.0.0.1:{self.port}"
        changes: dict[str, tuple[dict[str, str | None], int]] = {
            "no Host": ({"Host": None}, 403),
            "another name of this machine": (
                {"Host": f"localhost:{self.port}", "Origin": None},
                403,
            ),
            "a foreign Host": ({"Host": "evil.example"}, 403),
            "no Host and no Origin": ({"Host": None, "Origin": None}, 403),
            "a foreign Host without Origin": ({"Host": "evil.example", "Origin": None}, 403),
            "a foreign name that leads here": (
                {"Host": f"evil.example:{self.port}", "Origin": None},
                403,
            ),
            "a foreign name with its own Origin": (
                {"Host": "evil.example", "Origin": "http://evil.example"},
                403,
            ),
            "a Host without the port": ({"Host": "127.0.0.1"}, 403),
            "a Host that begins like ours": ({"Host": f"{here}.evil.example"}, 403),
            "a Host with another port": ({"Host": f"127.0.0.1:{self.port + 1}"}, 403),
            "a foreign Origin": ({"Origin": "http://evil.example"}, 403),
            "an Origin that begins like ours": ({"Origin": "http://127.0.0.1.evil.example"}, 403),
            "an Origin of another port": ({"Origin": f"http://127.0.0.1:{self.port + 1}"}, 403),
            "an Origin of another name of ours": ({"Origin": f"http://localhost:{self.port}"}, 403),
            "an https Origin": ({"Origin": f"https://{here}"}, 403),
            "a null Origin": ({"Origin": "null"}, 403),
            "an empty Origin": ({"Origin": ""}, 403),
            "a request from another site": ({"Sec_Fetch_Site": "cross-site"}, 403),
            "a request from another port": ({"Sec_Fetch_Site": "same-site"}, 403),
            "no token": ({"Authorization": None}, 401),
            "a wrong token": ({"Authorization": "Bearer " + "A" * 43}, 401),
            "a token that is cut": ({"Authorization": f"Bearer {self.token[:-1]}"}, 401),
            "a longer token": ({"Authorization": f"Bearer {self.token}A"}, 401),
            "a token of another kind": ({"Authorization": f"Basic {self.token}"}, 401),
            "a token that is not ASCII": ({"Authorization": "Bearer \xe9\xff"}, 401),
            "text/plain": ({"Content_Type": "text/plain"}, 415),
            "a form": ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
            "no type": ({"Content_Type": None}, 415),
            "JSON only by its beginning": ({"Content_Type": "application/jsonp"}, 415),
            "an oversized body": ({"Content_Length": str(1 << 30)}, 413),
            "a length beyond all numbers": ({"Content_Length": "9" * 400}, 400),
            "a negative length": ({"Content_Length": "-18"}, 400),
            "a signed length": ({"Content_Length": "+18"}, 400),
            "a length in words": ({"Content_Length": "0x12"}, 400),
            "a length in other digits": ({"Content_Length": "1\xb2"}, 400),
            "two lengths in one": ({"Content_Length": "18, 18"}, 400),
            "no length": ({"Content_Length": None}, 411),
            "chunks": ({"Transfer_Encoding": "chunked", "Content_Length": None}, 411),
            "chunks and a length": ({"Transfer_Encoding": "chunked"}, 411),
            "a length too short": ({"Content_Length": "5"}, 400),
            "a control character": ({"X_Test": "a\x00b"}, 400),
            "a lone line feed": ({"X_Test": "a\nHost: evil.example"}, 400),
            "a folded header": ({"X_Test": "a\r\n b"}, 400),
            "a blank before the colon": ({"X_Test ": "a"}, 400),
        }
        for line, (name, (changed, status)) in itertools.product(EVERY_ADDRESS, changes.items()):
            of_any_address = status == 403 or status == 401 and "GET / " not in line
            if of_any_address or "/control" in line:
                with self.subTest(name, line=line):
                    request = self.head(line, **changed) + PAUSE
                    self.assertEqual(self.raw(request)[0], status)
        self.assertEqual(self.stop.paused, "")

    def test_a_header_given_twice_is_refused(self) -> None:
        for name in ("Host", "Content-Length", "Authorization", "Origin", "Content-Type"):
            request = self.head("POST /control HTTP/1.1")
            line = next(line for line in request.split(b"\r\n") if line.startswith(name.encode()))
            self.assertEqual(
                self.raw(request.replace(line, line + b"\r\n" + line.swapcase()) + PAUSE)[0],
                400,
                name,
            )
        self.assertEqual(self.stop.paused, "")

    def test_only_the_exact_paths_exist(self) -> None:
        for path in (
            "//state",
            "/state/",
            "/./state",
            "/x/../state",
            "/%73tate",
            "/STATE",
            "/state?",
            "/state#",
            "/state;a",
        ):
            self.assertEqual(self.get(path)[0], 404, path)
        for path in (
            f"{self.address}/state",
            "state",
            "*",
            "/agent.py",
            "/../../etc/passwd",
            "/..%2f..%2fetc/passwd",
            "\\state",
        ):
            self.assertEqual(self.get(path)[0], 404, path)
        for path in (f"/?token={self.token}", f"/state?token={self.token}"):
            self.assertEqual(self.get(path, Authorization=None)[0], 404, path)

    def test_only_the_methods_meant_exist(self) -> None:
        for method in ("PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "PATCH", "CONNECT", "get"):
            status, answer = self.raw(self.head(f"{method} /state HTTP/1.1"))
            self.assertEqual(
                (status, b"Access-Control" in answer, b"nosniff" in answer),
                (501, False, True),
                method,
            )
        self.assertEqual(self.raw(self.head("POST /state HTTP/1.1") + PAUSE)[0], 405)
        self.assertEqual(self.get("/control")[0], 405)
        for line in (
            "GET /state",
            "GET /state HTTP/2.0",
            "GET  /state HTTP/1.1",
            "GET /state HTTP/1.1 x",
            "\x16\x03\x01",
            "",
        ):
            self.assertIn(self.raw(self.head(line))[0], (0, 400, 404, 505), line)

    def test_a_get_with_a_body_is_refused(self) -> None:
        self.assertEqual(
            self.raw(self.head("GET /state HTTP/1.1", Content_Length="5") + b"hello")[0], 413
        )
        twice = self.raw(self.head("GET /state HTTP/1.1") + self.head("GET /config HTTP/1.1"))[1]
        self.assertEqual(
            (twice.count(b"HTTP/1.0 "), twice.count(b"trail_turns")), (1, 0)
        )  # one request a connection

    def test_a_head_without_end_is_refused(self) -> None:
        self.assertEqual(self.raw(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 4000)[0], 431)

    def test_the_body_is_not_waited_for_when_the_head_is_refused(self) -> None:
        start = time.monotonic()
        self.assertEqual(self.raw(self.head("POST /control HTTP/1.1", Authorization=None))[0], 401)
        self.assertLess(time.monotonic() - start, 2)

    def test_every_answer_carries_its_guards(self) -> None:
        answers = {
            "page": self.get("/")[1],
            "state": self.get("/state")[1],
            "refusal": self.get("/state", Host="x")[1],
        }
        for name, answer in answers.items():
            head = answer.partition(b"\r\n\r\n")[0].decode()
            for line in (
                "nosniff",
                "Resource-Policy: same-origin",
                "Referrer-Policy: no-referrer",
                "Cache-Control: no-store",
            ):
                self.assertIn(line, head, name)
            for rule in (
                "default-src 'none'",
                "frame-ancestors 'none'",
                "base-uri 'none'",
                "form-action 'none'",
            ):
                self.assertIn(rule, head, name)
            self.assertNotIn("Access-Control", head)
            self.assertNotIn("unsafe", head)

    def test_the_page_has_a_new_nonce_every_time_and_no_secret(self) -> None:
        pages = [self.get("/")[1].decode() for _ in range(2)]
        nonces = [page.partition("script-src 'nonce-")[2].partition("'")[0] for page in pages]
        self.assertNotEqual(*nonces)
        for page, nonce in zip(pages, nonces, strict=True):
            self.assertEqual(page.count(f'nonce="{nonce}"'), 2)
            self.assertNotIn(self.token, page)
            self.assertNotIn("{{", page)
            self.assertIn(
                "<title>agent.py panel</title>", page
            )  # by it the actuator knows its own panel

    def test_the_token_has_256_bits_and_is_another_one_every_time(self) -> None:
        with agent.closing(a_panel(agent.Config(), self.stop)) as other:
            self.assertNotEqual(other.url.partition("#")[2], self.token)
        self.assertEqual(len(base64.urlsafe_b64decode(self.token + "=")), 32)
        self.assertNotIn(self.token, json.dumps(self.state()))


class Stalled(PanelTest):
    def test_fifty_stalled_connections_hold_up_nobody_and_are_cut_off(self) -> None:
        beginnings = (
            b"",
            b"G",
            b"GET / HTTP/1.1\r\nHost: ",
            self.head("POST /control HTTP/1.1") + b'{"act',
        )
        stalled = self.stalled(50)
        for number, connection in enumerate(stalled):
            connection.sendall(beginnings[number % len(beginnings)])
        self.assertEqual(self.get("/state")[0], 200)
        self.assertGreaterEqual(len(self.panel.server.open), 50)
        now = time.monotonic
        self.assertLess(max(self.panel.server.open.values()), now() + agent.PANEL_SECONDS)
        with mock.patch.object(time, "monotonic", lambda: now() + agent.PANEL_SECONDS):
            for connection in stalled:
                self.assertEqual(connection.recv(100), b"")

    def stalled(self, number: int) -> list[socket.socket]:
        """So many connections that say nothing, each made when the one before it was accepted.

        The system keeps a newcomer waiting for a second where too many are not accepted yet.
        """
        made: list[socket.socket] = []
        self.addCleanup(lambda: [connection.close() for connection in made])
        server = self.panel.server
        for _ in range(number):
            made.append(socket.create_connection(("127.0.0.1", self.port), 5))
            end = time.monotonic() + 5
            while not is_open(server, made[-1]) and time.monotonic() < end:
                time.sleep(0.001)
        return made

    def test_a_drip_of_single_bytes_ends_at_the_total_deadline(self) -> None:
        with mock.patch.object(agent, "PANEL_SECONDS", 0.3):
            start, sent = time.monotonic(), 0
            with (
                socket.create_connection(("127.0.0.1", self.port), 5) as connection,
                self.assertRaises(OSError),
            ):
                while time.monotonic() - start < 5:
                    connection.sendall(b"A")
                    sent += 1
                    time.sleep(0.01)
            self.assertLess(time.monotonic() - start, 2)
            self.assertGreater(sent, 5)

    def test_with_too_many_connections_the_oldest_goes(self) -> None:
        stalled = self.stalled(64 + 20)
        self.assertEqual(self.get("/state")[0], 200)
        self.assertEqual(stalled[0].recv(100), b"")

    def test_many_connections_of_others_do_not_cut_off_the_page(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), 5) as stream:
            stream.sendall(self.head("GET /events HTTP/1.1"))
            self.assertTrue(stream.recv(1000).startswith(b"HTTP/1.0 200"))
            stalled = self.stalled(64 + 20)
            self.assertEqual(stalled[0].recv(100), b"")
            self.assertTrue(self.panel.watched())

    def test_a_picture_whose_pixels_cannot_be_unpacked_is_refused(self) -> None:
        show(self.panel, PICTURE, 1)
        self.panel._awaited = 1
        parts = [
            (tag, b"\x78\x01garbage" if tag == b"IDAT" else data)
            for tag, data in seams.chunks(PICTURE)
        ]
        png = b"\x89PNG\r\n\x1a\n" + b"".join(agent.png_pack(tag, data) for tag, data in parts)
        status, _ = self.panel.answer(
            "/annotated",
            json.dumps({"seq": 1, "image_b64": base64.b64encode(png).decode()}).encode(),
        )
        self.assertEqual(status, 400)

    @mock.patch.object(agent, "PANEL_NEWS_S", 0.05)
    def test_an_event_stream_outlives_the_deadline_and_its_place_comes_back(self) -> None:
        with mock.patch.object(agent, "PANEL_SECONDS", 0.2):
            stream = socket.create_connection(("127.0.0.1", self.port), 5)
            stream.sendall(self.head("GET /events HTTP/1.1"))
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                self.assertTrue(stream.recv(65536))
            self.assertTrue(self.panel.watched())
            stream.close()
        end = time.monotonic() + 8
        while self.panel.server.open and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.panel.server.open, {})


class Control(PanelTest):
    def test_pause_resume_stop_and_hints_reach_the_run(self) -> None:
        self.assertEqual(self.post("/control", {"action": "pause"})[0], 200)
        self.assertTrue(self.stop.paused and self.state()["paused"])
        self.assertEqual(self.post("/control", {"action": "resume"})[0], 200)
        self.assertEqual(self.stop.paused, "")
        for text in ("try the menu", "<script>alert(1)</script>"):
            self.assertEqual(self.post("/control", {"action": "hint", "text": text})[0], 200)
        self.assertEqual(self.panel.take_hints(), ["try the menu", "<script>alert(1)</script>"])
        self.assertEqual(self.panel.take_hints(), [])
        answers = [self.post("/control", {"action": "hint", "text": "on"})[0] for _ in range(101)]
        self.assertEqual(answers, [200] * 100 + [400])
        self.assertEqual(self.post("/control", {"action": "stop"})[0], 200)
        with self.assertRaisesRegex(agent.Stopped, "Stopped: Stop in the panel."):
            self.stop.check()

    def test_what_is_no_command_is_refused(self) -> None:
        deep = b"[" * 50000
        wrong: list[Any] = [
            b"",
            b"{",
            b"[]",
            b"null",
            b'"pause"',
            b"\xff\xfe",
            deep,
            {},
            {"action": "explode"},
        ]
        wrong += [
            {"action": ["stop"]},
            {"action": "hint"},
            {"action": "hint", "text": "  "},
            {"action": "hint", "text": 5},
        ]
        wrong += [{"action": "hint", "text": "x" * 2001}]
        for body in wrong:
            status, answer = self.post("/control", body)
            self.assertEqual(
                (status, type(answer["error"])), (400, str), body if body is not deep else "deep"
            )
        self.assertEqual(
            (self.stop.paused, self.stop.reason, self.panel.take_hints()), ("", "", [])
        )

    def test_an_injected_reply_is_taken_once(self) -> None:
        self.assertIsNone(self.panel.take_injected())
        self.assertEqual(self.post("/inject", {"vlm_text": '{"observation": "a"}'})[0], 200)
        self.assertEqual(self.post("/inject", {"vlm_text": "second"})[0], 200)
        self.assertEqual(
            [self.panel.take_injected() for _ in range(3)], ['{"observation": "a"}', "second", None]
        )
        for body in ({}, {"vlm_text": ""}, {"vlm_text": 5}, {"vlm_text": None}):
            self.assertEqual(self.post("/inject", body)[0], 400)


class Annotated(PanelTest):
    def setUp(self) -> None:
        super().setUp()
        show(self.panel, PICTURE, 3, [{"name": "click", "x1": 1, "y1": 2}], [], "I clicked", [])

    def send(self, seq: Any, image: Any = PICTURE) -> int:
        image = base64.b64encode(image).decode() if isinstance(image, bytes) else image
        return self.post("/annotated", {"seq": seq, "image_b64": image})[0]

    def test_the_right_picture_is_taken_and_a_second_panels_is_late(self) -> None:
        thread, found = self.awaiting(3)
        self.assertEqual(self.state()["pending_seq"], 3)
        self.assertEqual(self.send(3), 200)
        self.assertEqual(self.send(3), 409)
        thread.join()
        self.assertEqual(found, [PICTURE])
        self.assertEqual((self.state()["annotated_seq"], self.state()["phase"]), (3, "asking"))
        self.assertEqual(self.send(3), 409)

    def test_of_two_answers_at_once_the_first_counts(self) -> None:
        self.panel._awaited = 3  # as in the moment before the run wakes up
        self.assertEqual([self.send(3), self.send(3)], [200, 409])

    def test_a_wrong_number_changes_nothing(self) -> None:
        thread, found = self.awaiting(3)
        for seq in (2, 4, -3, 10**30):
            self.assertEqual(self.send(seq), 409)
        for wrong in (True, "3", 3.0, None, [3]):
            self.assertEqual(self.send(wrong), 409)
        self.assertEqual((self.state()["phase"], found), ("waiting_annotated", []))
        self.assertEqual(self.send(3), 200)
        thread.join()
        self.assertEqual(found, [PICTURE])

    def test_garbage_is_refused_and_the_run_goes_on_waiting(self) -> None:
        thread, found = self.awaiting(3)
        broken = bytearray(PICTURE)
        broken[60] ^= 1
        garbage = (
            b"",
            b"hello",
            PICTURE[:40],
            PICTURE[:-1],
            bytes(broken),
            b"\x89PNG\r\n\x1a\n",
            OTHER,
            "no base64!",
            "a",
            5,
            None,
        )
        for image in garbage:
            self.assertEqual(self.send(3, image), 400, image)
        self.assertEqual(self.send(3), 200)
        thread.join()
        self.assertEqual(found, [PICTURE])

    def test_without_an_answer_the_wait_ends_in_time(self) -> None:
        start = time.monotonic()
        thread, found = self.awaiting(3, 0.2)
        thread.join()
        self.assertEqual(found, [None])
        self.assertLess(time.monotonic() - start, 2)
        self.assertEqual(self.send(3), 409)

    @mock.patch.object(agent, "PANEL_GONE", 0.1)
    def test_a_page_that_was_never_opened_is_not_waited_for_long(self) -> None:
        start = time.monotonic()
        self.assertIsNone(self.panel.wait_annotated(3, 60))
        self.assertLess(time.monotonic() - start, 2)

    @mock.patch.object(agent, "PANEL_NEWS_S", 0.05)
    @mock.patch.object(agent, "PANEL_GONE", 0.1)
    def test_when_the_page_is_closed_nobody_waits_the_whole_time(self) -> None:
        stream = socket.create_connection(("127.0.0.1", self.port), 5)
        stream.sendall(self.head("GET /events HTTP/1.1"))
        stream.recv(65536)
        thread, found = self.awaiting(3, 60)
        stream.close()
        start = time.monotonic()
        thread.join()
        self.assertEqual(found, [None])
        self.assertLess(time.monotonic() - start, 8)

    def test_a_stop_ends_the_wait(self) -> None:
        threading.Timer(0.05, self.stop.set, ["Ctrl+C"]).start()
        with self.assertRaises(agent.Stopped):
            self.panel.wait_annotated(3, 30)


def head(**more: Any) -> dict[str, Any]:
    """The run itself, as it stands first in the journal's book."""
    return {
        "turn": -1,
        "task": "Draw",
        "outcome": "",
        "text": "",
        "plan": "",
        "instructions": "",
        **more,
    }


def turn(number: int, *acts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A turn as the journal's book has it."""
    texts = dict.fromkeys(("role", "said", "call", "result"), "")
    sums = {
        "seconds": 1.5,
        "prompt": 10,
        "completion": 2,
        "changed": None,
        "plan": False,
        "wasted": False,
    }
    return {"turn": number, **texts, **sums, "notes": [], "shots": [], "acts": list(acts), **more}


def act(tool: str, changed: bool | None, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args, "screenshot": "", "changed": changed}


class Shown(PanelTest):
    def events(self) -> Any:
        """What a page that opens now gets first."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as stream:
            stream.sendall(self.head("GET /events HTTP/1.1"))
            got = b""
            while b"\n\n" not in got.partition(b"data: ")[2]:
                got += stream.recv(65536)
        return json.loads(got.partition(b"data: ")[2].partition(b"\n\n")[0])

    def test_a_turn_reaches_the_page_with_its_mark_and_the_one_before_is_its_trail(self) -> None:
        show(self.panel, PICTURE, 2)
        clicked = turn(
            2, act("click", True, element_name="Save", position={"x": 10, "y": 20}), said="I save"
        )
        publish(self.panel, [head(), clicked])
        for got, given in zip(self.events()["items"], [head(), clicked], strict=True):
            for one, wanted in zip(got.get("acts", []), given.get("acts", []), strict=True):
                self.assertEqual({**one, **wanted}, one)
            self.assertEqual(
                {**got, **given, "acts": got.get("acts")}, {**got, "acts": got.get("acts")}
            )
        self.assertEqual(self.state()["actions"], [{"name": "click", "x1": 10, "y1": 20}])
        dragged = turn(3, act("drag", False, start={"x": 1, "y": 2}, end={"x": 3, "y": 4}))
        show(self.panel, PICTURE, 3)
        publish(self.panel, [head(), clicked, dragged])
        state = self.state()
        self.assertEqual(state["actions"], [{"name": "drag", "x1": 1, "y1": 2, "x2": 3, "y2": 4}])
        self.assertEqual(state["trail"], [[{"name": "click", "x1": 10, "y1": 20}]])
        wanted = list(agent.marks(*SIZE, agent.read_marks(state["actions"], [], state["trail"])))
        self.assertEqual(state["marks"], json.loads(json.dumps(wanted)))
        self.assertGreater(len(wanted), 10)

    def test_an_act_that_was_refused_leaves_no_mark(self) -> None:
        show(self.panel, PICTURE, 2)
        publish(self.panel, [head(), turn(2, act("click", None, position={"x": 10, "y": 20}))])
        self.assertEqual((self.state()["actions"], self.state()["marks"]), ([], []))

    def test_marks_that_were_given_are_not_those_of_the_acts(self) -> None:
        given = [{"name": "click", "x1": 1, "y1": 2}]
        show(self.panel, PICTURE, 2, given)
        publish(self.panel, [head(), turn(2, act("click", True, position={"x": 10, "y": 20}))])
        self.assertEqual(self.state()["actions"], given)

    @mock.patch.object(agent, "PANEL_NEWS_S", 0.01)
    def test_each_event_has_only_what_is_new(self) -> None:
        book = [head(), turn(1), turn(2)]
        publish(self.panel, book)
        since, first = self.panel.news(-1)
        publish(self.panel, [*book, turn(3)])
        self.panel.update(phase="acting")
        now, event = self.panel.news(since)
        self.assertEqual([item["turn"] for item in json.loads(first)["items"]], [-1, 1, 2])
        self.assertEqual(
            [item["turn"] for item in json.loads(event)["items"]], [-1, 2, 3]
        )  # 2 may have grown
        self.assertEqual((json.loads(event)["phase"], json.loads(event)["raw_b64"]), ("acting", ""))
        self.assertEqual(json.loads(self.panel.news(now)[1])["items"], [])

    def test_a_journal_that_keeps_its_latest_turns_only_is_followed_all_the_same(self) -> None:
        publish(self.panel, [head(), turn(1), turn(2)])
        publish(self.panel, [head(), turn(3), turn(4, said="new")])
        self.assertEqual([item["turn"] for item in self.events()["items"]], [-1, 1, 2, 3, 4])

    def test_a_megabyte_of_hostile_text_arrives_as_text(self) -> None:
        text = "</script><script>alert(1)</script>\x1b[31mred\u202e\ud800" + "A" * (1 << 20)
        publish(self.panel, [head(), turn(1, said=text)])
        self.panel.update(observation=text)
        event = self.events()
        self.assertEqual((event["items"][1]["said"], event["observation"]), (text, text))

    def test_the_described_fields_are_there(self) -> None:
        show(self.panel, PICTURE, 4, [], [{"x1": 1, "y1": 1, "x2": 2, "y2": 2}], "seen")
        state = self.state()
        fields = "phase error turn msg_id pending_seq annotated_seq raw_b64 bboxes actions observation vlm_json".split()
        self.assertLessEqual(set(fields), state.keys())
        self.assertEqual((base64.b64decode(state["raw_b64"]), state["turn"]), (PICTURE, 4))
        config = json.loads(self.get("/config")[1].partition(b"\r\n\r\n")[2])
        self.assertEqual(
            (config["ui"].keys(), config["capture_width"]), ({"executed_heat", "bbox_heat"}, 0)
        )

    @mock.patch.object(agent, "PANEL_NEWS_S", 0.05)
    def test_events_bring_every_change_and_end_with_the_run(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), 5) as stream:
            stream.sendall(self.head("GET /events HTTP/1.1"))
            stream.settimeout(5)
            got = b""
            self.panel.update(phase="acting")
            while b'"phase": "acting"' not in got:
                got += stream.recv(65536)
            self.stop.paused = (
                "the person moved the mouse"  # a pause that the panel was not told of
            )
            while b"the person moved the mouse" not in got:
                got += stream.recv(65536)
            publish(self.panel, [head(outcome="stuck")])
            self.panel.close()
            while chunk := stream.recv(65536):
                got += chunk
        self.assertIn(b'"outcome": "stuck"', got)
        self.assertIn(b"Content-Type: text/event-stream", got)
        self.assertNotIn(base64.b64encode(PICTURE)[:40], got)

    def test_a_page_that_comes_late_gets_the_latest_turns_only(self) -> None:
        publish(self.panel, [head(), *map(turn, range(1, 300 + 6))])
        turns = [item["turn"] for item in self.events()["items"]]
        self.assertEqual((turns[:2], len(turns)), ([-1, 6], 300 + 1))


class Port(PanelTest):
    def test_a_taken_port_is_said_in_one_line(self) -> None:
        with self.assertRaises(agent.ConfigError) as caught:
            a_panel(agent.load_config({"test": {"panel_port": self.port}}), self.stop)
        self.assertIn(f"Port {self.port} cannot be used", str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_two_panels_without_a_wish_take_different_ports(self) -> None:
        with agent.closing(a_panel(agent.Config(), self.stop)) as other:
            self.assertNotEqual(other.url.rpartition("/")[0], self.address)

    def test_after_closing_the_port_is_free_and_the_threads_are_gone(self) -> None:
        before = set(threading.enumerate())
        panel = a_panel(agent.Config(), self.stop)
        port = int(panel.url.rpartition("/")[0].rpartition(":")[2])
        panel.close()
        panel.close()  # twice is harmless
        a_panel(agent.load_config({"test": {"panel_port": port}}), self.stop).close()
        end = time.monotonic() + 5
        while set(threading.enumerate()) - before and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(set(threading.enumerate()) - before, set())

    def test_only_this_machine_can_reach_it(self) -> None:
        self.assertEqual(self.panel.server.server_address[0], "127.0.0.1")

    def test_on_windows_the_port_is_taken_exclusively(self) -> None:
        options: list[tuple[int, ...]] = []
        with (
            mock.patch.object(sys, "platform", "win32"),
            mock.patch.object(self.panel.server, "socket") as ours,
        ):
            ours.setsockopt.side_effect = lambda *option: options.append(option)
            ours.getsockname.return_value = ("127.0.0.1", 1)
            with mock.patch.object(agent.socket, "SO_EXCLUSIVEADDRUSE", -5, create=True):
                self.panel.server.server_bind()
        self.assertEqual(options[0], (socket.SOL_SOCKET, -5, 1))

    @unittest.skipIf(sys.platform == "win32", "Windows lets nobody else take it, and so not us")
    def test_elsewhere_a_port_just_left_can_be_taken_again(self) -> None:
        """The side that hangs up first keeps the port busy for a minute, unless it is asked for so."""
        self.state()
        self.panel.close()
        again = a_panel(agent.Config(panel_port=self.port), agent.Stop())
        self.addCleanup(again.close)
        self.assertIn(f":{self.port}/", again.url)


class Hints(EngineCase):
    base = FEWER_REQUESTS

    def test_a_hint_reaches_the_next_request_of_the_acting_role_once(self) -> None:
        hints, asked = ["press the green one"], list[tuple[str, bool]]()

        class Given:
            def __getattr__(self, name: str) -> Any:
                return lambda *values, **more: (
                    [hints.pop()] if name == "take_hints" and hints else []
                )

        def decide(request: dict[str, Any]) -> Any:
            asked.append(
                (
                    role_of(request),
                    "HINT FROM THE PERSON: press the green one"
                    in json.dumps(request["messages"][-1]),
                )
            )
            return PLAN if role_of(request) == "planner" else call("scroll_screen_down")

        trial = self.trial(decide, max_steps=3)
        trial.hear(Given())
        trial.run()
        self.assertEqual(asked, [("planner", False), ("executor", True), ("executor", False)])

    def test_a_hint_is_kept_when_the_request_failed(self) -> None:
        trial = self.trial(lambda request: PLAN)
        inbox = mock.Mock()
        trial.hear(inbox)
        inbox.take_hints.side_effect = [["still there"], []]
        with mock.patch.object(trial.server, "complete", side_effect=agent.ModelError("down")):
            answer = trial.engine.voice.ask(
                trial.profile.roles["executor"], [agent.Message("user", "go")]
            )
        self.assertIsInstance(answer, agent.ModelError)
        trial.engine.voice.ask(trial.profile.roles["executor"], [agent.Message("user", "go")])
        self.assertIn("still there", str(trial.requests[-1]))


class Wired(CommandLineCase):
    def run_with(self, person: Any, *arguments: str) -> tuple[int, str, agent.Panel]:
        """A demo with a panel; `person(panel)` is called when the note is typed."""
        panels = self.panels = list[agent.Panel]()

        class Watched(agent.Panel):
            def __init__(self, *given: Any) -> None:
                super().__init__(*given)
                panels.append(self)

        text = agent.DemoDesktop.text

        def typed(desktop: agent.DemoDesktop, batch: str) -> None:
            person(panels[0])
            text(desktop, batch)

        with (
            mock.patch.object(agent, "Panel", Watched),
            mock.patch.object(agent.DemoDesktop, "text", typed),
        ):
            code, out, _ = self.main("--demo", "--panel", *arguments)
        return code, out, panels[0]

    def test_a_run_shows_itself_and_says_where_on_the_terminal_only(self) -> None:
        seen: list[Any] = []
        code, out, panel = self.run_with(lambda panel: seen.append(json.loads(panel.news(-1)[1])))
        self.assertEqual((code, out.count(panel.url)), (0, 1))
        self.assertEqual([item["turn"] for item in seen[0]["items"]], [-1, 1, 2, 3, 4])
        self.assertEqual(
            (seen[0]["phase"], seen[0]["items"][0]["task"]),
            ("doing type_text", agent.DEMO_TASKS[0].text),
        )
        self.assertEqual(panel._state.turn, 6)
        token = panel.url.partition("#")[2]
        for file in self.run_folder().rglob("*"):
            self.assertFalse(file.is_file() and token.encode() in file.read_bytes(), file)

    def test_a_panel_that_is_gone_in_the_middle_of_a_run_harms_nothing(self) -> None:
        self.assertEqual(self.run_with(lambda panel: panel.close())[0], 0)

    def test_stop_in_the_panel_ends_the_run(self) -> None:
        code, out, _ = self.run_with(lambda panel: panel.answer("/control", b'{"action": "stop"}'))
        self.assertEqual(code, 130)
        self.assertIn("Stop in the panel", out)

    def test_an_approval_that_is_waited_for_shows_in_the_panel(self) -> None:
        seen: list[str] = []

        def person(panel: agent.Panel) -> None:
            seen.append(panel._state.error)

        def ask(*_: Any) -> str:
            seen.append(self.panels[0]._state.error)
            return "y"

        with mock.patch.object(agent.Terminal, "ask", ask), seams.person_there():
            self.assertEqual(self.run_with(person, "--confirm", "always")[0], 0)
        self.assertEqual(seen.count(""), 1)
        self.assertIn("It waits for a yes at the terminal: double_click", seen[0])

    def test_a_taken_port_is_said_in_one_line(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            code, _, err = self.main("--demo", "--panel", "--set", f"panel_port={port}")
        self.assertEqual((code, len(err.splitlines())), (2, 1))
        self.assertIn(f"Port {port} cannot be used", err)

    def test_without_the_option_there_is_no_server(self) -> None:
        with mock.patch.object(agent, "Panel", side_effect=AssertionError):
            self.assertEqual(self.main("--demo")[0], 0)


if __name__ == "__main__":
    unittest.main()
