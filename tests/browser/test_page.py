"""The panel's page in a real browser. Run by name, since it needs Chromium:

python -m unittest discover -s tests/browser
"""

from __future__ import annotations

import argparse
import io
import math
import os
import random
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from chrome import Chrome, wait_for  # noqa: E402 - both lie elsewhere, and this folder is no package

import agent  # noqa: E402
from tests.test_panel import a_panel, head, publish, show, turn  # noqa: E402

TOLERANCE, MEAN = (
    40,
    2,
)  # of 255, between the page's marks and the program's: of any channel, of all that are marked
SHOTS = os.environ.get(
    "PANEL_SHOTS"
)  # a folder: the pictures that the tests look at are kept there


def picture(width: int, height: int) -> bytes:
    """BGRX pixels that hide nothing: every channel everywhere different."""
    noise = bytearray(random.Random(width).randbytes(width * height * 4))
    noise[3::4] = bytes(width * height)
    return bytes(noise)


class Browser(unittest.TestCase):
    chrome: Chrome

    @classmethod
    def setUpClass(cls) -> None:
        cls.chrome = Chrome()
        cls.addClassCleanup(cls.chrome.close)

    def setUp(self) -> None:
        self.stop = agent.Stop()
        self.panel = a_panel(agent.Config(described=True), self.stop)
        self.addCleanup(self.panel.close)
        self.chrome.look(1440, 960)
        self.chrome.complaints()

    def open(self) -> None:
        self.chrome.open(self.panel.url)
        wait_for(self.panel.watched, what="for the page to listen")

    def see(self, selector: str, text: str) -> None:
        wait_for(lambda: text in self.chrome.text(selector), what=f"for {text!r} in {selector}")


class Page(Browser):
    def test_the_token_leaves_the_address_bar_and_a_reload_says_what_to_do(self) -> None:
        self.open()
        self.assertNotIn("#", self.chrome.run("return location.href"))
        self.assertEqual(
            self.chrome.run("return history.length && document.cookie + localStorage.length"), "0"
        )
        self.assertEqual(self.chrome.complaints(), [])
        self.chrome.do("/refresh")
        self.see("#note", "Open the address the program printed")

    def test_pause_resume_and_stop_by_button(self) -> None:
        self.open()
        self.chrome.click("#play")
        wait_for(lambda: self.stop.paused)
        self.see("#top .chip", "paused")
        self.see("#play", "Resume")
        self.chrome.click("#play")
        wait_for(lambda: not self.stop.paused)
        self.chrome.click("#stop")
        wait_for(lambda: self.stop.reason)

    def test_the_keyboard_is_enough(self) -> None:
        self.open()
        self.chrome.press(" ")
        wait_for(lambda: self.stop.paused)
        self.see("#top .chip", "paused")
        self.chrome.press("h")
        self.assertEqual(self.chrome.run("return document.activeElement.id"), "hint")
        self.chrome.type("#hint", "try the h menu")  # blank and h are letters here
        self.chrome.press("\ue007")  # Enter
        self.assertEqual(wait_for(self.panel.take_hints), ["try the h menu"])
        self.see("#note", "at its next turn")
        self.assertTrue(self.stop.paused)
        self.chrome.press("\ue00c")  # Escape leaves the field
        self.chrome.press(" ")
        wait_for(lambda: not self.stop.paused)

    def test_a_first_reply_can_be_injected(self) -> None:
        self.open()
        self.panel.update(phase="waiting_inject")
        self.see("#send", "Inject")
        self.chrome.type("#hint", '{"observation": "start"}')
        self.chrome.click("#send")
        self.assertEqual(wait_for(self.panel.take_injected), '{"observation": "start"}')

    def test_text_from_a_model_is_shown_and_not_obeyed(self) -> None:
        evil = (
            "</pre><script>window.evil=1</script><img src=x onerror='window.evil=1'>\x1b[31m\u202e"
            + "A" * (1 << 20)
        )
        self.open()
        notes = {"notes": [[evil[:60], evil], ["refused", evil]]}
        publish(
            self.panel,
            [
                head(task=evil, plan=evil, instructions=evil),
                turn(1, said=evil, call=evil, result=evil, role=evil, **notes),
            ],
        )
        self.panel.update(error=evil, phase=evil[:90])
        self.see("article header", "<script>")
        self.chrome.click("article header")
        for selector in (
            "h1",
            "#plan",
            "#instructions",
            "#words",
            "#note",
            "article header",
            "article .body",
        ):
            self.see(selector, "<script>window.evil=1</script>")
        self.see("#words", "\\u001b[31m\\u202eAAA")
        self.see("#words", "more characters")
        self.assertLess(len(self.chrome.text("#words")), 20200)
        self.assertIsNone(self.chrome.run("return window.evil || null"))
        self.assertEqual(
            self.chrome.run("return document.querySelectorAll('script, img').length"), 1
        )
        self.assertEqual(self.chrome.complaints(), [])

    def test_turns_are_rows_that_grow_open_and_can_be_stepped_through(self) -> None:
        self.open()
        publish(self.panel, [head(), turn(1, result="plan: go", plan=True)])
        publish(
            self.panel,
            [head(), turn(1, result="plan: go", plan=True), turn(2, call='click "Save" (1, 2)')],
        )
        self.see("article:last-of-type .act", 'click "Save" (1, 2)')
        self.chrome.click("article:last-of-type header")
        publish(
            self.panel,
            [head(), turn(1), turn(2, call='click "Save" (1, 2)', result="Clicked", changed=True)],
        )
        self.see("article:last-of-type .chip", "changed")
        shown = "return [document.querySelectorAll('article').length, document.querySelectorAll('#line button').length,"
        shown += " document.querySelectorAll('article.open').length, document.querySelector('.now b').textContent]"
        self.assertEqual(self.chrome.run(shown), [2, 2, 1, "2"])
        self.chrome.press("\ue012")  # left
        self.assertEqual(self.chrome.run(shown)[3], "1")

    def test_it_is_readable_at_every_width_and_in_the_dark(self) -> None:
        self.open()
        publish(
            self.panel,
            [
                head(plan="w" * 300, instructions="go " * 80),
                turn(2, call="double_click " + "w" * 200),
            ],
        )
        self.see("article", "double_click")
        backs = set()
        for width in (1440, 1024, 390):
            for dark in (False, True):
                self.chrome.look(width, 900, dark)
                self.assertEqual(
                    self.chrome.run("return document.documentElement.scrollWidth"), width
                )
                backs.add(self.chrome.run("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(backs), 2)

    def test_a_second_panel_may_watch_and_closing_one_harms_nobody(self) -> None:
        self.open()
        first = self.chrome.do("/window", method="GET")
        second = self.chrome.do("/window/new", {"type": "tab"})["handle"]
        self.chrome.do("/window", {"handle": second})
        self.chrome.open(self.panel.url)
        wait_for(lambda: list(self.panel.server.open.values()).count(math.inf) == 2)
        self.chrome.do("/window", method="DELETE")
        self.chrome.do("/window", {"handle": first})
        wait_for(lambda: list(self.panel.server.open.values()).count(math.inf) == 1, 15)
        publish(self.panel, [head(plan="still here")])
        self.see("#plan", "still here")

    def test_when_the_run_ends_the_page_says_how(self) -> None:
        self.open()
        publish(self.panel, [head(outcome="completed", text="The note is saved.")])
        self.panel.close()
        self.see("#top .chip", "completed")
        self.see("#note", "The note is saved.")
        for name in ("play", "stop", "hint"):
            node = f"document.getElementById('{name}')"
            self.assertTrue(self.chrome.run(f"return {node}.disabled"), name)
            self.assertEqual(self.chrome.run(f"return {node}.getClientRects().length"), 0, name)
        self.assertEqual(
            self.chrome.run("return document.getElementById('latest').title"),
            "The last turn (End)",
        )


class Marks(Browser):
    SCENES: tuple[
        tuple[int, int, list[dict[str, Any]], list[dict[str, Any]], list[list[dict[str, Any]]]], ...
    ] = (
        (
            960,
            540,
            [
                {"name": "click", "x1": 300, "y1": 420},
                {"name": "drag", "x1": 200, "y1": 250, "x2": 700, "y2": 640},
                {"name": "double_click", "x1": 300, "y1": 421},
                {"name": "type", "text": "hello"},
            ],
            [
                {"x1": 150, "y1": 200, "x2": 420, "y2": 480},
                {"x1": 900, "y1": 800, "x2": 600, "y2": 500},
            ],
            [
                [
                    {"name": "click", "x1": 340, "y1": 460},
                    {"name": "drag", "x1": 240, "y1": 290, "x2": 740, "y2": 680},
                ],
                [],
                [{"name": "drag", "x1": 900, "y1": 100, "x2": 100, "y2": 103}],
                [{"name": "click", "x1": 500, "y1": 500}],
            ],
        ),
        (
            641,
            401,
            [
                {"name": "click", "x1": 0, "y1": 0, "x2": 900, "y2": 900},
                {"name": "move", "x1": 1000, "y1": 1000},
                {"name": "drag", "x1": 500, "y1": 0, "x2": 500, "y2": 1000},
                {"name": "drag", "x1": 0, "y1": 500, "x2": 1000, "y2": 500},
            ],
            [
                {"x1": 0, "y1": 0, "x2": 1000, "y2": 1000},
                {"x1": 500, "y1": 500, "x2": 500, "y2": 500},
            ],
            [],
        ),
        (
            2600,
            90,
            [{"name": "click", "x1": 999, "y1": 3}, {"name": "click", "x1": 998, "y1": 4}],
            [],
            [[]],
        ),
    )

    def compare(self, number: int, **settings: Any) -> None:
        """The page's picture of a scene against the program's, channel by channel."""
        width, height, actions, boxes, trail = self.SCENES[number]
        pixels = picture(width, height)
        show(
            self.panel,
            agent.PngEncoder().encode(pixels, width, height).png,
            number + 1,
            actions,
            boxes,
            "",
            trail,
        )
        posted = self.panel.wait_annotated(number + 1, 20)
        assert posted, self.chrome.complaints() + [self.chrome.text("#note")]
        plain = agent.bgrx_to_rgb(pixels)
        turn = agent.read_marks(actions, boxes, trail)
        style = agent.mark_style(agent.load_config({"test": settings}))
        wanted = agent.bgrx_to_rgb(bytes(agent.annotate(pixels, width, height, turn, style)))
        rgb, *size = agent.png_to_rgb(posted)
        self.assertEqual(size, [width, height])
        self.assertNotEqual(wanted, plain)
        unlike = [
            abs(a - b)
            for a, b, before in zip(rgb, wanted, plain, strict=True)
            if a != before or b != before
        ]
        print(
            f"scene {number + 1}: at most {max(unlike)}, in the mean {sum(unlike) / len(unlike):.2f} of 255",
            file=sys.stderr,
        )
        self.assertLessEqual(max(unlike), TOLERANCE)
        self.assertLessEqual(sum(unlike) / len(unlike), MEAN)

    def test_the_page_makes_the_same_picture_as_the_program(self) -> None:
        self.open()
        for number in range(len(self.SCENES)):
            self.compare(number)

    def test_every_setting_of_the_look_reaches_the_page(self) -> None:
        settings: dict[str, Any] = {
            "marks_radius_scale": 0.06,
            "marks_trail_turns": 2,
            "marks_trail_shrink": 0.5,
            "marks_heat_stops": "0 rgba(1,2,3,0.9); 0.5 rgba(200,9,50,.5); 1 rgba(9,0,255,0)",
            "marks_border": "rgba(0,255,0,1)",
            "marks_border_width": 9,
            "marks_box_stops": "0 rgba(0,0,0,.6); 1 rgba(0,0,0,0)",
        }
        self.panel.close()
        self.panel = a_panel(
            agent.load_config({"test": {**settings, "described": True}}), self.stop
        )
        self.addCleanup(self.panel.close)
        self.open()
        self.compare(0, **settings)


class Demo(Browser):
    def begin(
        self, undo: ExitStack, folder: str, *more: str
    ) -> tuple[threading.Thread, list[int], io.StringIO]:
        """A demo in a thread, its panel open in the browser before the first turn; its exit code, what it prints."""

        class Watched(agent.Panel):
            def __init__(panel, *given: Any) -> None:
                super().__init__(*given)
                self.panel = panel
                self.open()

        code, out = list[int](), io.StringIO()
        undo.enter_context(mock.patch.object(agent, "Panel", Watched))
        undo.enter_context(redirect_stdout(out))
        hasty = ["--set", "demo_page_wait=0", "--set", "turn_delay=0"]
        arguments = ["--demo", "--panel", "--set", f"dump_dir={folder}", *hasty, *more]
        options = agent.command_line().parse_args(arguments, argparse.Namespace())
        run = threading.Thread(
            target=lambda: code.append(
                agent.start(options, self.stop, agent.SystemClock(self.stop))
            )
        )
        run.start()
        return run, code, out

    @unittest.skipUnless("story" in agent.PROFILES, "there is no profile story")
    def test_a_story_is_watched_while_the_program_draws_its_marks(self) -> None:
        with ExitStack() as undo:
            folder = undo.enter_context(tempfile.TemporaryDirectory())
            run, code, out = self.begin(undo, folder, "--profile", "story")
            run.join(60)
            pictures = [path.read_bytes() for path in Path(folder).rglob("*annotated.png")]
        self.assertEqual((code, "drew the marks" in out.getvalue()), ([0], False))
        self.assertGreaterEqual(len(pictures), 5)
        for png in pictures:
            self.assertEqual(agent.png_to_rgb(png)[1:], (1248, 704))
        # The server closes with the run, perhaps while the page asks it for something.
        said = [text for text in self.chrome.complaints() if "net::ERR_" not in text]
        self.assertEqual(said, [])

    def test_the_page_follows_a_whole_run(self) -> None:
        """Its turns, its plan, its pictures and its end; a pause in the middle holds it up, a hint reaches the model."""
        asked: list[str] = []
        demo_reply = agent.demo_reply

        def reply(request: dict[str, Any]) -> Any:
            asked.append(str(request["messages"][-1]["content"]))
            return demo_reply(
                request
                if "HINT" not in asked[-1]
                else {**request, "messages": request["messages"][:-1]},
            )

        with ExitStack() as undo:
            folder = undo.enter_context(tempfile.TemporaryDirectory())
            undo.enter_context(mock.patch.object(agent, "demo_reply", reply))
            run, code, _ = self.begin(undo, folder, "--set", "turn_delay=0.2")
            self.see("#turns", "type_text")
            self.chrome.press(" ")
            self.see("#top .chip", "paused")
            wait_for(lambda: self.chrome.run("return drawn.length > 20 && !busy"))
            time.sleep(1)
            self.keep("paused", 1440, 880, False)
            self.keep("paused_dark", 1440, 880, True)
            turns = self.chrome.text("#turns")
            time.sleep(1)
            self.assertEqual(self.chrome.text("#turns"), turns)
            self.chrome.type("#hint", "the button is blue\ue007")
            self.see("#note", "at its next turn")
            self.chrome.click("#play")
            run.join(60)
        self.assertEqual(code, [0])
        self.assertEqual(
            [text.count("the button is blue") for text in asked if "HINT" in text], [1]
        )
        self.see("#top .chip", "completed")
        self.see("#instructions", "Open Notes")
        rows = self.chrome.run(
            "return [...document.querySelectorAll('article header')].map(row => row.textContent)"
        )
        self.assertEqual(len(rows), 6)
        self.assertIn("Hello from agent.py", "".join(rows))
        self.assertEqual(
            len([row for row in rows if "changed" in row and "unchanged" not in row]), 4
        )
        wait_for(lambda: self.chrome.run("return drawn.length > 20 && !busy"))
        # The server closes with the run, perhaps while the page asks it for something.
        said = [text for text in self.chrome.complaints() if "net::ERR_" not in text]
        self.assertEqual(said, [])
        for name, width, height in (
            ("wide", 1440, 1000),
            ("1024", 1024, 900),
            ("phone", 390, 1400),
        ):
            self.keep(name, width, height, False)
            self.keep(f"{name}_dark", width, height, True)

    def test_stop_on_the_page_ends_a_run(self) -> None:
        self.open()
        self.chrome.click("#stop")
        self.see("#note", "Stopping.")
        with self.assertRaisesRegex(agent.Stopped, "Stop in the panel"):
            self.stop.check()

    def keep(self, name: str, width: int, height: int, dark: bool) -> None:
        """A picture of the page for README and reviewers, if a folder is given."""
        self.chrome.look(width, height, dark)
        shot = self.chrome.screenshot()
        self.assertGreater(len(shot), 20000)
        if SHOTS:
            (Path(SHOTS) / f"panel_{name}.png").write_bytes(shot)


EVIL = """<!doctype html><title>evil</title><body><script>
window.results = {};
const done = (name, value) => { results[name] = value; };
const tries = {
  get: () => fetch(TARGET + "/state"),
  get_with_token: () => fetch(TARGET + "/state", {headers: {Authorization: "Bearer TOKEN"}}),
  post_json: () => fetch(TARGET + "/control", {method: "POST", headers: {"Content-Type": "application/json"},
    body: BODY}),
  post_simple: () => fetch(TARGET + "/control", {method: "POST", mode: "no-cors", body: BODY}),
  beacon: async () => navigator.sendBeacon(TARGET + "/control", new Blob([BODY], {type: "text/plain"})),
};
for (const [name, act] of Object.entries(tries))
  act().then(r => r && r.text ? r.text().then(t => done(name, "text:" + t)) : done(name, "sent"))
    .catch(() => done(name, "failed"));
const embeds = [["image", "img", "/state"], ["script", "script", "/config"], ["page_as_image", "img", "/"]];
for (const [name, tag, path] of embeds) {
  const element = document.createElement(tag);
  element.onload = () => done(name, "loaded"); element.onerror = () => done(name, "failed");
  element.src = TARGET + path; document.body.append(element);
}
const frame = document.createElement("iframe");
frame.onload = () => {
  let seen = "hidden";
  try { seen = frame.contentDocument ? "read" : "hidden"; } catch {}
  done("frame", seen);
};
frame.src = TARGET + "/#TOKEN"; document.body.append(frame);
const form = document.createElement("form");
form.method = "post"; form.enctype = "text/plain"; form.action = TARGET + "/control"; form.target = "nowhere";
form.innerHTML = "<input name='{\\"action\\":\\"stop\\",\\"x\\":\\"' value='\\"}'>";
const nowhere = document.createElement("iframe");
nowhere.name = "nowhere"; document.body.append(nowhere, form); form.submit();
</script>"""


class Strangers(Browser):
    """Another page in the same browser, even one that knows the address and, against all odds, the token."""

    def serve(self, page: Callable[[], str]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page().encode())

            def log_message(self, *_args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return str(server.server_address[1])

    def test_a_page_of_another_origin_gets_nothing_and_changes_nothing(self) -> None:
        target, token = self.panel.url.split("/#")
        for token_known in (False, True):
            page = EVIL.replace("TARGET", f'"{target}"').replace("BODY", """'{"action":"stop"}'""")
            port = self.serve(
                lambda page=page, known=token_known: page.replace(
                    "TOKEN", token if known else "guess"
                )
            )  # type: ignore[misc]
            for host in ("127.0.0.1", "localhost"):  # same site and another site
                with self.subTest(host=host, token_known=token_known):
                    self.chrome.open(f"http://{host}:{port}/")
                    wait_for(
                        lambda: self.chrome.run("return Object.keys(results).length >= 9"),
                        what="for the tries",
                    )
                    results = self.chrome.run("return results")
                    self.assertEqual(
                        results.pop("beacon"), "sent"
                    )  # it left the browser and was refused here
                    self.assertIn(
                        results.pop("post_simple"), ("text:", "failed")
                    )  # opaque: nothing to read
                    self.assertEqual(results.pop("frame"), "hidden")
                    self.assertEqual(set(results.values()), {"failed"}, results)
                    self.assertEqual(
                        (self.stop.reason, self.stop.paused, self.panel.watched()), ("", "", False)
                    )

    def test_a_link_from_another_site_does_not_open_the_panel(self) -> None:
        port = self.serve(lambda: f'<a id="go" href="{self.panel.url}">go</a>')
        self.chrome.open(f"http://localhost:{port}/")
        self.chrome.click("#go")
        self.see("body", "Other sites may not ask.")
        self.assertFalse(self.panel.watched())

    def test_a_name_that_points_here_is_not_served(self) -> None:
        """DNS rebinding: the browser believes that the page belongs to evil.localhost, which leads to 127.0.0.1."""
        self.chrome.open(self.panel.url.replace("127.0.0.1", "evil.localhost"))
        self.see("body", "Wrong Host.")


if __name__ == "__main__":
    unittest.main()
