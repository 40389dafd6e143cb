"""The panel's server over raw sockets: who is answered, who is not, and that nobody can hold up the run."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import itertools
import json
import os
import re
import socket
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.samples import for_the_gate, some
from tests.scripted import EngineCase, call
from tests.seams import person_at_main, record, rgb_picture
from tests.test_main import TASK, CommandLineCase

PICTURE = agent.encode_png(bytes(64 * 48 * 4), 64, 48)
AREA = agent.Rect(0, 0, 32, 16)
FRAME = agent.Frame(1, 32, 16, bytes(32 * 16 * 4), bytes(32 * 16 * 4), AREA, AREA, 0.0)
Json = dict[str, Any]
RUN: Json = {"kind": "run", "task": "Draw", "profile": "planner"}
NOTHING = {"seen": 0}  # what a page knows that was just opened


def a_panel(config: agent.Config, stop: agent.Stop, folder: Path = Path("run_0001")) -> agent.Panel:
    """A panel with an empty book."""
    return agent.Panel(config, stop, agent.Stats("run_0001"), folder)


def tell(panel: agent.Panel, *lines: Json) -> None:
    """Lines of a journal, for the book and then for the panel, as in a run."""
    for line in lines:
        read = record(**{"time": 1.0, **line})
        panel.stats.take(read)
        panel.take(read)


def reply(turn: int, said: str = "", role: str = "executor") -> Json:
    message = {"role": "assistant", "content": said}
    return {"kind": "reply", "turn": turn, "role": role, "message": message}


def act(turn: int, tool: str, result: str, changed: bool | None = None) -> Json:
    return {"kind": "action", "turn": turn, "tool": tool, "result": result, "changed": changed}


def plan(turn: int, instructions: str, text: str = "") -> Json:
    told = {"plan": text, "instructions": instructions, "done": "plan: go"}
    return {"kind": "plan", "turn": turn, **told}


AT_ONCE = mock.patch.object(agent, "PANEL_NEWS_S", 0)  # news are told as they come


class PanelTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name).resolve() / "run_0001"
        (self.folder / "screenshots").mkdir(parents=True)
        self.stop = agent.Stop()
        AT_ONCE.start()
        self.addCleanup(AT_ONCE.stop)
        self.panel = a_panel(agent.Config(), self.stop, self.folder)
        self.addCleanup(self.panel.server.server_close)
        self.addCleanup(self.panel.server.shutdown)
        self.address, self.token = self.panel.url.split("/#")
        self.port = int(self.address.rpartition(":")[2])

    def raw(self, request: bytes) -> tuple[int, bytes]:
        """(status, whole answer) for the bytes of a request; 0 if it is hung up without a word."""
        with socket.create_connection(("127.0.0.1", self.port), 60) as connection:
            answer = b""
            # What is refused before its body was read ends so.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                connection.sendall(request)
                while chunk := connection.recv(65536):
                    answer += chunk
        return (int(answer.split()[1]) if answer.startswith(b"HTTP/1.0 ") else 0), answer

    def head(self, line: str, **changed: str | None) -> bytes:
        """A request as our page makes it, some of its headers changed, left out (None) or added."""
        headers: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
        }
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        return "\r\n".join([line, *lines, "", ""]).encode("latin-1")

    def ask(self, route: str, words: Any = None) -> tuple[int, Any]:
        """(status, what the answer says) to the words, or the bytes, of a body."""
        body = words if isinstance(words, bytes) else json.dumps(words).encode()
        length = {} if route.startswith("GET") else {"Content_Length": str(len(body))}
        status, answer = self.raw(
            self.head(f"{route} HTTP/1.1", **length) + (body if length else b"")
        )
        top, _, content = answer.partition(b"\r\n\r\n")
        return status, json.loads(content) if b"application/json" in top else content

    def news(self, before: Json | None = None) -> Any:
        """What a page is told that was told `before` last."""
        known = before["known"] if before else NOTHING
        status, told = self.ask("POST /news", known)
        self.assertEqual(status, 200)
        told["known"] = dict(known)
        for item in told["items"][:1]:
            told["known"]["seen"] = item["number"]
        return told

    def untouched(self) -> None:
        """Nothing that was tried has reached the run."""
        self.assertEqual((self.stop.paused, self.stop.reason), ("", ""))
        self.assertEqual(self.panel.take_hints(), [])
        self.assertFalse(self.panel.watched())


STOPS: Json = {  # what each address would take and do
    "/news": NOTHING,
    "/picture": {"name": ""},
    "/control": {"action": "stop"},
}
STOP = b'{"action":"stop"}'
OURS = {"GET /", "POST /news", "POST /picture", "POST /control"}
METHODS = "GET POST PUT DELETE OPTIONS HEAD TRACE PATCH CONNECT get".split()
PATHS = ("/", "/state", "/config", *STOPS, "/events", "/favicon.ico", "/agent.py", "*")
OTHER_PATHS = r"""
    /news/ /./news /x/../news /%6eews /NEWS /news? /news# /news;a news \news
    http://127.0.0.1/news /../../etc/passwd /..%2f..%2fetc/passwd
""".split()


class Gate(PanelTest):
    def answered(self, *paths: str, **changed: str | None) -> set[str]:
        """Which methods and paths are not refused to such a request."""
        found = set()
        for method, path in itertools.product(METHODS, paths):
            body = json.dumps(STOPS.get(path, {})).encode() if method != "GET" else b""
            length = str(len(body)) if body else None
            request = self.head(
                f"{method} {path} HTTP/1.1", **{"Content_Length": length, **changed}
            )
            status, answer = self.raw(request + body)
            self.assertNotIn(b"Access-Control", answer)
            self.assertNotIn(b"to be kept", answer)
            if status not in (0, 400, 401, 403, 404, 405, 501):
                found.add(f"{method} {path}")
        return found

    def test_with_the_key_each_address_has_one_method_and_one_spelling(self) -> None:
        self.assertEqual(self.answered(*OTHER_PATHS), set())
        self.untouched()
        self.assertEqual(self.answered(*PATHS), OURS)
        self.assertEqual(self.stop.reason, "Stop in the panel")

    def test_nobody_without_the_key_gets_more_than_the_page(self) -> None:
        tell(self.panel, {"kind": "run", "task": "to be kept"})
        wrong: dict[str, dict[str, str | None]] = {
            "no key": {"Authorization": None},
            "a wrong key": {"Authorization": "Bearer " + "A" * 43},
            "a key that is cut": {"Authorization": f"Bearer {self.token[:-1]}"},
            "a longer key": {"Authorization": f"Bearer {self.token}A"},
            "another kind": {"Authorization": f"Basic {self.token}"},
            "not ASCII": {"Authorization": "Bearer \xe9\xff"},
            "in a cookie": {"Authorization": None, "Cookie": f"key={self.token}"},
            "another site": {"Authorization": None, "Origin": "http://evil.example"},
        }
        for name, changed in some([*wrong.items()], 2):
            with self.subTest(name):
                self.assertEqual(self.answered(*PATHS, **changed), {"GET /"})
        for path in (f"/?{self.token}", f"/news?key={self.token}", f"/{self.token}"):
            self.assertEqual(self.answered(path, Authorization=None), set())
        self.untouched()

    def test_nobody_gets_anything_under_another_name(self) -> None:
        """DNS rebinding: a name of somebody else's leads here, and the browser takes us for theirs."""
        here = f"127.0.0.1:{self.port}"
        ports = ("evil.example:{}", "localhost:{}", "127.0.0.1:1{}")
        others = [name.format(self.port) for name in ports]
        twice = (f"{here}\r\nHost: {here}", f"{here}\r\nHost: evil.example")
        plain = (None, "", "evil.example", "127.0.0.1", f"{here}.evil.example")
        for host in some((*plain, *others, *twice), 2):
            with self.subTest(host):
                self.assertEqual(self.answered(*PATHS, Host=host), set())
        self.untouched()

    def test_only_a_plain_length_is_read_and_none_where_the_head_is_refused(self) -> None:
        lengths = ("", "-17", "+17", "0x11", "1\xb2", "17, 17", "9" * 9, "9" * 400)
        rows: list[tuple[int, dict[str, str | None], bytes]] = [
            *((411, {"Content_Length": length}, STOP) for length in lengths),
            (404, {}, STOP),  # of which nothing is read
            (404, {"Transfer_Encoding": "chunked"}, b"11\r\n" + STOP + b"\r\n0\r\n\r\n"),
            (404, {"Content_Length": "5"}, STOP),
            (401, {"Content_Length": "17", "Authorization": None}, b""),
        ]
        for status, headers, body in rows:
            head = self.head("POST /control HTTP/1.1", **headers)
            self.assertEqual(self.raw(head + body)[0], status, headers)
        self.untouched()

    def test_what_is_no_request_of_http_1_is_none_and_a_connection_is_for_one(self) -> None:
        host = f"\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode()
        for line in (b"GET / HTTP/2.0", b"GET  / HTTP/1.1 x", b"\x16\x03\x01", b"", b"GET / x y"):
            self.assertIn(self.raw(line + host)[0], (0, 400, 501, 505), line)
        # HTTP/0.9 has no headers, and its answers no status: it gets that of HTTP/1.0.
        self.assertEqual(self.raw(b"GET /\r\n\r\n")[0], 403)
        self.assertEqual(self.raw(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 4000)[0], 431)
        self.assertEqual(self.raw(b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n")[0], 414)
        news = json.dumps(NOTHING).encode()
        for version, kept in (("1.0", "keep-alive"), ("1.1", "keep-alive"), ("1.1", "close")):
            more = {"Connection": kept, "Content_Length": str(len(news))}
            one = self.head(f"POST /news HTTP/{version}", **more)
            two = self.head(f"GET / HTTP/{version}", Connection=kept)
            _, answer = self.raw(one + news + two)
            self.assertEqual((answer.count(b"HTTP/1.0 "), b"<title>" in answer), (1, False))

    def test_every_answer_carries_its_guards(self) -> None:
        guards = """X-Content-Type-Options: nosniff|Cross-Origin-Resource-Policy: same-origin
            |Cross-Origin-Opener-Policy: same-origin|Referrer-Policy: no-referrer
            |Cache-Control: no-store|default-src 'none'|frame-ancestors 'none'
            |base-uri 'none'|form-action 'none'""".split("|")
        for line in ("GET / HTTP/1.1", "GET /state HTTP/1.1", "GET /x HTTP/1.1", "PUT / HTTP/1.1"):
            top = self.raw(self.head(line))[1].partition(b"\r\n\r\n")[0].decode()
            for guard in guards:
                self.assertIn(guard.strip(), top, line)
            self.assertNotIn("unsafe", top)
            self.assertNotIn("Server:", top)

    def test_the_pages_own_script_and_style_may_run_and_no_other_and_it_has_no_secret(self) -> None:
        top, _, content = self.raw(self.head("GET / HTTP/1.1"))[1].partition(b"\r\n\r\n")
        page = content.decode()
        for part in ("script", "style"):
            (own,) = re.findall(f"<{part}>(.*?)</{part}>", page, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
            allowed = re.findall(f"{part}-src ([^;\r\n]+)", top.decode())
            self.assertEqual(allowed, [f"'sha256-{digest}'"])
        self.assertNotIn(self.token, page)
        # By it the actuator knows its own panel.
        self.assertIn("<title>agent.py panel</title>", page)

    def test_the_key_has_128_bits_is_another_one_every_time_and_is_told_to_nobody(self) -> None:
        with contextlib.closing(a_panel(agent.Config(), self.stop)) as other:
            self.assertNotEqual(other.url.partition("#")[2], self.token)
        self.assertEqual(len(base64.urlsafe_b64decode(self.token + "==")), 16)
        self.assertNotIn(self.token, json.dumps(self.news()))


class Stalled(PanelTest):
    """Who says nothing, or goes on slowly, holds up nobody and is hung up on."""

    def stalled(self, number: int) -> list[socket.socket]:
        """So many connections that begin and do not go on."""
        begun = self.head("POST /control HTTP/1.1", Content_Length="17") + b'{"act'
        beginnings = (b"", b"G", b"GET / HTTP/1.1\r\nHost: ", begun)
        made: list[socket.socket] = []
        for beginning in itertools.islice(itertools.cycle(beginnings), number):
            made.append(socket.create_connection(("127.0.0.1", self.port), 60))
            self.addCleanup(made[-1].close)
            made[-1].sendall(beginning)
            # Each is accepted before the next comes: the system lets a crowd wait for a second.
            self.raw(b"\r\n")
        return made

    def test_fifty_of_them_hold_up_nobody_and_they_are_hung_up_on(self) -> None:
        self.stalled(50)
        self.assertEqual(self.news()["phase"], "starting")
        with mock.patch.object(self.panel.server.RequestHandlerClass, "timeout", 0.05):
            for connection in self.stalled(4):
                self.assertEqual(connection.recv(100), b"")


class Control(PanelTest):
    def test_pause_resume_stop_and_hints_reach_the_run(self) -> None:
        self.assertEqual(self.ask("POST /control", {"action": "pause"}), (200, {}))
        self.assertEqual((self.stop.paused, self.news()["paused"]), ("in the panel",) * 2)
        self.assertEqual(self.ask("POST /control", {"action": "resume"})[0], 200)
        self.assertEqual((self.stop.paused, self.news()["paused"]), ("", ""))
        self.stop.paused = "the person moved the mouse"  # of which nobody told the panel
        self.assertEqual(self.news()["paused"], "the person moved the mouse")
        for text in (" try the menu ", "<script>alert(1)</script>", "x" * 2000):
            self.assertEqual(self.ask("POST /control", {"action": "hint", "text": text})[0], 200)
        hints = ["try the menu", "<script>alert(1)</script>", "x" * 2000]
        self.assertEqual((self.panel.take_hints(), self.panel.take_hints()), (hints, []))
        self.assertEqual(self.ask("POST /control", {"action": "stop"})[0], 200)
        with self.assertRaisesRegex(agent.Stopped, "Stopped: Stop in the panel."):
            self.stop.check()

    def test_the_report_is_opened_by_the_program_at_the_page_s_wish(self) -> None:
        with mock.patch.object(agent, "show_in_browser") as shown:
            self.assertEqual(self.ask("POST /control", {"action": "report"})[0], 200)
        self.assertRegex(shown.call_args[0][0], r"^file://.*/report\.html$")

    def test_while_a_question_waits_what_is_said_is_its_answer(self) -> None:
        self.panel.take(agent.PageText("question", "Which file?"))
        self.assertEqual(self.ask("POST /news", {"seen": 0})[1]["question"], "Which file?")
        self.ask("POST /control", {"action": "hint", "text": "a.txt"})
        self.panel.take(agent.PageText("question", ""))
        self.ask("POST /control", {"action": "hint", "text": "go on"})
        self.assertEqual((self.panel.take_answer(), self.panel.take_answer()), ("a.txt", ""))
        self.assertEqual(self.panel.take_hints(), ["go on"])
        self.panel.take(agent.PageText("question", "Which folder?"))
        self.ask("POST /control", {"action": "hint", "text": "late"})  # another way was first
        self.assertEqual((self.panel.take_hints(), self.panel.take_answer()), (["late"], ""))

    def test_what_is_no_command_is_refused(self) -> None:
        bodies = (b"", b"{", b"[]", b"null", b'"pause"', b"\xff\xfe", b"[" * 50000, {}, [], 5)
        actions: list[Any] = ["explode", "", ["stop"], {"stop": 1}, None, "hint"]
        wrong = [*bodies, *({"action": action} for action in actions)]
        texts = ("  ", 5, None, ["x"], "x" * 2001)
        wrong += [{"action": "hint", "text": text} for text in texts]
        for path, body in itertools.product(("/control", "/news", "/picture"), wrong):
            status, answer = self.ask(f"POST {path}", body)
            self.assertEqual((status, list(answer)), (404, ["error"]), str(body)[:80])
        self.untouched()


class News(PanelTest):
    def told(self, news: Json) -> list[tuple[int, Any]]:
        return [(item["turn"], item.get("kind")) for item in news["items"]]

    def test_a_page_gets_the_run_and_its_turns_and_then_only_what_is_new(self) -> None:
        tell(self.panel, RUN, reply(1), reply(2, "I save"))
        first = self.news()
        self.assertEqual(self.told(first), [(-1, None), (1, "reply"), (2, "reply")])
        self.assertEqual(first["items"][0]["task"], "Draw")
        self.assertEqual(first["report"], str(self.folder / "report.html"))
        self.assertEqual(first["items"][2]["message"]["content"], "I save")
        tell(self.panel, reply(3))
        self.panel.take(agent.Phase("acting"))
        second = self.news(first)
        self.assertEqual((self.told(second)[1:], second["phase"]), ([(3, "reply")], "acting"))
        self.assertEqual(self.told(self.news(second)), [])
        self.assertEqual(len(self.told(self.news())), 4)

    def test_what_is_entered_while_a_page_asks_is_told_once_and_the_next_time(self) -> None:
        tell(self.panel, RUN, reply(1))
        about_run = self.panel.stats.run_item

        def interrupted() -> Json:
            run = about_run()
            tell(self.panel, {"kind": "hint", "turn": 1})
            return run

        with mock.patch.object(self.panel.stats, "run_item", interrupted):
            first = self.news()
        self.assertEqual(self.told(first), [(-1, None), (1, "reply")])
        self.assertEqual(self.told(self.news(first)), [(-1, None), (1, "hint")])

    def test_a_failure_is_shown_until_a_reply_comes(self) -> None:
        failed = {"kind": "model_failed", "text": "No reply came."}
        for line, error in ((failed, "No reply came."), (reply(1), "")):
            tell(self.panel, RUN, line)
            self.assertEqual(self.news()["error"], error)

    def test_whether_a_page_is_open_is_known_for_two_seconds(self) -> None:
        self.assertFalse(self.panel.watched())
        now = time.monotonic()
        with mock.patch.object(time, "monotonic", lambda: now):
            self.news()
        for later_s, open_still in ((0, True), (1.9, True), (2, False)):
            with mock.patch.object(time, "monotonic", lambda later_s=later_s: now + later_s):
                self.assertEqual(self.panel.watched(), open_still)

    def test_the_end_is_told_before_the_server_goes(self) -> None:
        heard = self.news()
        tell(self.panel, RUN, {"kind": "end", "outcome": "stuck", "text": "It is stuck."})
        closing = threading.Thread(target=self.panel.close)
        closing.start()
        heard = self.news(heard)
        closing.join()
        self.assertEqual((heard["phase"], heard["items"][0]["outcome"]), ("stuck", "stuck"))
        with self.assertRaises(OSError):
            self.news()


class Pictures(PanelTest):
    def put(self, name: str, data: bytes = PICTURE) -> None:
        (self.folder / name).write_bytes(data)

    def picture(self, name: Any) -> tuple[int, Any]:
        return self.ask("POST /picture", {"name": name})

    def test_a_screenshot_is_given_by_its_name_and_no_other_name_leads_anywhere(self) -> None:
        for name in ("screenshots/turn_0002.png", "turn_0003_raw.png"):
            self.put(name)
            self.assertEqual(self.picture(name), (200, PICTURE))
        for data in (b"", b"GIF89a", PICTURE[:-1], b"x" + PICTURE):  # no whole PNG
            self.put("turn_0001.png", data)
            self.assertEqual(self.picture("turn_0001.png")[0], 404, data[:9])
        outside = self.folder.parent / "outside.png"
        outside.write_bytes(PICTURE)
        self.put("turns.jsonl", b"secret")
        names = ["../outside.png", "screenshots/../../outside.png", str(outside), "turns.jsonl"]
        names += ["a/b/c.png", "screenshots", ".png", "outside.png\x00", "\\outside.png"]
        for name in [*names, 5, ["turn_0001.png"], {"a": 1}]:
            with self.subTest(name):
                status, answer = self.picture(name)
                self.assertEqual((status, list(answer)), (404, ["error"]))
                self.assertNotIn(str(self.folder), answer["error"])

    @unittest.skipUnless(hasattr(os, "mkfifo"), "Windows has neither without special rights")
    def test_links_and_pipes_are_not_followed(self) -> None:
        secret = self.folder.parent / "elsewhere"
        secret.mkdir()
        (secret / "x.png").write_bytes(PICTURE)
        (self.folder / "link.png").symlink_to(secret / "x.png")
        (self.folder / "linked").symlink_to(secret)
        os.mkfifo(self.folder / "pipe.png")
        (self.folder / "folder.png").mkdir()
        for name in ("link.png", "linked/x.png", "pipe.png", "folder.png"):
            self.assertEqual(self.picture(name)[0], 404, name)

    def test_the_live_picture_is_what_the_model_sees_and_then_the_screen_at_rest(self) -> None:
        self.assertEqual(self.news()["picture"], 0)
        self.panel.take(agent.Shown(PICTURE, [{"x1": 1}]))
        news = self.news()
        self.assertEqual(news["boxes"], [{"x1": 1}])
        first = news["picture"]
        self.assertEqual((first > 0, news["settled"]), (True, False))
        self.assertEqual(self.picture(""), (200, PICTURE))
        self.panel.take(agent.Shown(FRAME))
        news = self.news()
        self.assertEqual((news["picture"] > first, news["settled"]), (True, True))
        self.assertEqual(rgb_picture(self.picture("")[1]), (bytes(32 * 16 * 3), 32, 16))


class Port(PanelTest):
    def test_after_closing_the_port_is_free_and_the_threads_are_gone(self) -> None:
        before = set(threading.enumerate())
        panel = a_panel(agent.Config(), self.stop)
        port = int(panel.url.rpartition("/")[0].rpartition(":")[2])
        panel.close()
        panel.close()  # twice is harmless
        a_panel(agent.load_config({"test": {"panel_port": port}}), self.stop).close()
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
            self.assertFalse(thread.is_alive())

    def test_only_this_machine_reaches_it_and_windows_takes_the_port_exclusively(self) -> None:
        self.assertEqual(self.panel.server.server_address[0], "127.0.0.1")
        options: list[tuple[int, ...]] = []
        with (
            mock.patch.object(sys, "platform", "win32"),
            mock.patch.object(self.panel.server, "socket") as ours,
        ):
            ours.setsockopt.side_effect = lambda *option: options.append(option)
            ours.getsockname.return_value = ("127.0.0.1", 1)
            with mock.patch.object(socket, "SO_EXCLUSIVEADDRUSE", -5, create=True):
                self.panel.server.server_bind()
        self.assertEqual(options[0], (socket.SOL_SOCKET, -5, 1))


class AtRest(EngineCase):
    def test_the_frame_that_an_act_took_anyway_is_shown_unless_a_secret_was_typed(self) -> None:
        for text, frames in (("hello", [2]), ("{{PASSWORD}}", [])):
            trial = self.trial(lambda request: call("none"), confirm="never")
            trial.hidden = agent.Secrets({"PASSWORD": "battery"})
            items: list[Any] = []
            trial.listen(items.append)
            typing = agent.ToolCall("type_text_input", {"text": text})
            trial.perform(trial.profile.vocabulary.parse(typing), trial.look(1), 1)
            shown = [item.screen for item in items if isinstance(item, agent.Shown)]
            found = [screen.number for screen in shown if isinstance(screen, agent.Frame)]
            self.assertEqual(found, frames)
            if frames:
                self.assertEqual(trial.desktop.number, 2)
                self.assertEqual(
                    [type(item).__name__ for item in items[-2:]], ["ResultRecord", "Line"]
                )


@AT_ONCE
class Wired(CommandLineCase):
    """Runs of the demo with somebody at their page, who asks it whenever the program sleeps."""

    def run_with(
        self, react: Callable[[Json], str | None], *arguments: str
    ) -> tuple[int, str, list[Json]]:
        """Exit code, what was said, and what the page told; `react` may type a line at the terminal."""
        heard: list[Json] = []

        def types(out: str) -> str | None:
            found = re.search(r"panel: (\S+)\n", out)
            if not found:
                return None
            self.url = found[1]
            heard.append(self.ask("/news", NOTHING))
            return react(heard[-1])

        with person_at_main(types) as keyboard:
            code, out, _ = self.main("--demo", "--panel", *arguments, stdin=keyboard)
            keyboard.end()
        return code, out, heard

    def ask(self, path: str, words: Json) -> Any:
        address, key = self.url.removeprefix("http://").split("/#")
        headers = {"Authorization": f"Bearer {key}"}
        with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as connection:
            connection.request("POST", path, json.dumps(words), headers)
            return json.loads(connection.getresponse().read())

    def test_a_run_shows_itself_and_says_where_on_the_terminal_only(self) -> None:
        code, out, heard = self.run_with(lambda news: None)
        self.assertEqual((code, out.count(self.url)), (0, 1))
        items = {item["turn"]: item for news in heard for item in news["items"]}
        self.assertLessEqual({-1, 1, 2, 3, 4, 5}, items.keys())
        self.assertEqual(items[-1]["task"], TASK)
        key = self.url.partition("#")[2]
        for file in self.run_folder().rglob("*"):
            self.assertFalse(file.is_file() and key.encode() in file.read_bytes(), file)

    def test_stop_in_the_panel_ends_the_run(self) -> None:
        code, out, _ = self.run_with(lambda _: self.ask("/control", {"action": "stop"}) or None)
        self.assertEqual(code, 130)
        self.assertIn("Stop in the panel", out)

    @for_the_gate
    def test_a_question_shows_in_the_panel_until_it_is_answered_at_the_terminal(self) -> None:
        always = ("--confirm", "always", "--set", "confirm_wait=86400")
        code, out, heard = self.run_with(lambda news: "y" if news["error"] else None, *always)
        self.assertEqual(code, 0, out)
        questions = [news["error"] for news in heard if news["error"]]
        self.assertIn(
            "on Windows also in a box on the screen: The agent wants to double click", questions[0]
        )
        self.assertEqual(heard[-1]["error"], "")

    def test_a_taken_port_is_said_in_one_line(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            code, _, err = self.main("--demo", "--panel", "--set", f"panel_port={port}")
        self.assertEqual((code, len(err.splitlines())), (2, 1))
        self.assertIn(f"Port {port} cannot be used", err)

    def test_without_the_option_there_is_no_server(self) -> None:
        listening: list[socket.socket] = []
        listen = socket.socket.listen

        def noted(server: socket.socket, *most: int) -> None:
            listening.append(server)
            listen(server, *most)

        with mock.patch.object(socket.socket, "listen", noted):
            code, out, _ = self.main("--demo")
        self.assertEqual((code, "panel" in out, len(listening)), (0, False, 1))  # the model's
