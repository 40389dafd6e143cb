"""The panel's page in a real browser. Run by name, since it needs Chromium:

python -m unittest discover -s tests/browser
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from chrome import InChrome, wait_for  # noqa: E402 - both lie elsewhere, and this folder is no package

import agent  # noqa: E402
from tests.test_panel import PICTURE, a_panel, act, head, publish, show, turn  # noqa: E402

# A folder: the pictures that the tests look at are kept there.
SHOTS = os.environ.get("PANEL_SHOTS")


class Browser(InChrome):
    described = False

    def setUp(self) -> None:
        super().setUp()
        (self.folder / "screenshots").mkdir()
        self.stop = agent.Stop()
        self.panel = a_panel(agent.Config(described=self.described), self.stop, self.folder)
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
        kept = self.chrome.run("return history.length && document.cookie + localStorage.length")
        self.assertEqual(kept, "0")
        self.assertEqual(self.chrome.complaints(), [])
        self.chrome.do("/refresh")
        self.see("#note", "Open the address the program printed")

    def test_pause_resume_and_stop_by_button(self) -> None:
        self.open()
        publish(self.panel, [head()])
        self.see("h1", "Draw")
        self.chrome.click("#play")
        wait_for(lambda: self.stop.paused)
        self.see("#status", "paused")
        self.see("#play", "Resume")
        self.chrome.click("#play")
        wait_for(lambda: not self.stop.paused)
        self.chrome.click("#stop")
        wait_for(lambda: self.stop.reason)

    def test_a_hint_can_be_given_by_the_keyboard_alone(self) -> None:
        self.open()
        publish(self.panel, [head()])
        self.see("#play", "Pause")
        self.chrome.press("h")
        self.assertEqual(self.chrome.run("return document.activeElement.id"), "hint")
        self.chrome.type("#hint", "try the h menu")  # h is a letter here
        self.chrome.press("\ue007")  # Enter
        self.assertEqual(wait_for(self.panel.take_hints), ["try the h menu"])
        self.see("#note", "at its next turn")
        self.chrome.press("\ue00c")  # Escape leaves the field
        self.assertNotEqual(self.chrome.run("return document.activeElement.id"), "hint")

    def test_text_from_a_model_is_shown_and_not_obeyed(self) -> None:
        evil = "</pre><script>window.evil=1</script><img src=x onerror='window.evil=1'>"
        evil += "\x1b[31m\u202e" + "A" * (1 << 20)
        self.open()
        run = head(task=evil, plan=evil, instructions=evil)
        publish(self.panel, [run, turn(1, said=evil, call=evil, result=evil, role=evil)])
        self.panel.update(error=evil, phase=evil[:90])
        for selector in ("h1", "#plan", "#note", "#list", "article"):
            self.see(selector, "<script>window.evil=1</script>")
        self.see("article .text", "\\u001b[31m\\u202eAAA")
        self.see("article .text", "more characters")
        self.assertLess(len(self.chrome.text("article .text")), 8200)
        self.assertIsNone(self.chrome.run("return window.evil || null"))
        self.assertEqual(len(self.chrome.all("script, img")), 1)
        self.assertEqual(self.chrome.complaints(), [])

    def test_turns_are_rows_that_grow_and_can_be_stepped_through(self) -> None:
        self.open()
        planned = turn(1, result="plan: go", plan=True, instructions="Draw a line")
        publish(self.panel, [head(), planned])
        self.see("#list", "Plan: Draw a line")
        publish(self.panel, [head(), planned, turn(2, call="wait", result="Waited")])
        self.see("#list .now", "Wait")
        self.assertEqual(self.chrome.text("article:not([hidden]) .chip"), "")
        changed = turn(2, call="click", result="Clicked", changed=True)
        publish(self.panel, [head(), planned, changed])
        self.see("article:not([hidden]) .chip", "changed")
        self.assertEqual((len(self.chrome.all("li")), len(self.chrome.all("#line a"))), (2, 2))
        self.assertEqual(self.chrome.text("#list .now b"), "2")
        self.chrome.press("\ue012")  # left
        self.assertEqual(self.chrome.text("#list .now b"), "1")

    def test_what_is_unfolded_stays_so_while_the_turn_grows(self) -> None:
        self.open()
        publish(self.panel, [head(), turn(1, said="I look")])
        self.see("article", "I look")
        self.chrome.run("document.querySelector('article details').open = true")
        publish(self.panel, [head(), turn(1, said="I look twice", call="wait", result="Waited")])
        self.see("article", "Waited")
        self.assertTrue(self.chrome.run("return document.querySelector('article details').open"))

    def test_it_is_readable_at_every_width_and_in_the_dark(self) -> None:
        self.open()
        run = head(plan="w" * 300, instructions="go " * 80)
        publish(self.panel, [run, turn(2, call="double_click " + "w" * 200, result="w" * 200)])
        self.see("article", "double_click")
        backs = set()
        for width, dark in itertools.product((1440, 1024, 390), (False, True)):
            self.chrome.look(width, 900, dark)
            self.assertEqual(self.chrome.width(), width)
            backs.add(self.chrome.run("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(backs), 2)

    def test_a_second_panel_may_watch_and_closing_one_harms_nobody(self) -> None:
        self.open()
        first = self.chrome.do("/window", method="GET")
        second = self.chrome.do("/window/new", {"type": "tab"})["handle"]
        self.chrome.do("/window", {"handle": second})
        self.chrome.open(self.panel.url)
        publish(self.panel, [head()])
        self.see("h1", "Draw")
        self.chrome.do("/window", method="DELETE")
        self.chrome.do("/window", {"handle": first})
        publish(self.panel, [head(plan="still here")])
        self.see("#plan", "still here")

    def test_when_the_run_ends_the_page_says_how_and_where_its_report_is(self) -> None:
        self.open()
        publish(self.panel, [head(outcome="completed", text="The note is saved.")])
        self.panel.close()
        self.see("#status", "completed")
        self.see("#why", "The note is saved.")
        self.see("#note", str(self.folder.resolve() / "report.html"))
        self.assertFalse(self.chrome.seen("#say"))

    def test_after_the_end_the_page_asks_on_until_the_program_is_gone(self) -> None:
        """A demo leaves its page open until nobody asks any more."""
        self.open()
        publish(self.panel, [head(outcome="completed", text="The note is saved.")])
        self.see("#status", "completed")
        publish(self.panel, [head(outcome="stuck", text="It was told once more.")])
        self.see("#why", "It was told once more.")
        self.assertTrue(self.panel.watched())

    def test_a_clock_tells_how_long_it_has_been_at_what_it_does(self) -> None:
        self.open()
        publish(self.panel, [head()])
        self.panel.update(phase="planner is thinking")
        self.see("#status", "planner is thinking")
        wait_for(lambda: int(self.chrome.text("#status").split()[-2]) > 0)  # it ticks by itself


def clicked(number: int, **more: Any) -> dict[str, Any]:
    """A turn that clicked on its own screenshot."""
    name = f"screenshots/turn_{number:04d}.png"
    done = act("click", True, element_name=f"button {number}", position={"x": 500, "y": 400})
    done |= {"region": (100, 100, 500, 500)}
    said = {"said": f"words {number}", "result": f"Clicked: button {number}", "changed": True}
    return turn(number, done, shots=[name], role="executor", **said, **more)


class Looking(Browser):
    def tearDown(self) -> None:
        self.assertEqual(self.chrome.complaints(), [])

    def book(self, *more: dict[str, Any]) -> list[dict[str, Any]]:
        planned = turn(1, plan=True, plan_text="first plan", instructions="first steps")
        return [head(), planned, clicked(2), clicked(3), turn(4, result="Thought"), *more]

    def begin(self) -> None:
        for number in range(2, 6):
            path = self.folder / "screenshots" / f"turn_{number:04d}.png"
            path.write_bytes(PICTURE)
        show(self.panel, PICTURE, 5)
        publish(self.panel, self.book(clicked(5)))
        self.open()
        self.see("#where", "5 / 5")

    def test_until_the_first_picture_it_says_what_it_waits_for(self) -> None:
        self.open()
        publish(self.panel, [head(task="wait and see")])
        self.panel.update(phase="planner is thinking")
        self.see("#stage", "first picture")
        self.see("#stage", "planner is thinking")
        self.assertEqual(self.chrome.text("#where"), "")
        show(self.panel, PICTURE, 1)
        self.see("#stage figcaption", "live")

    def test_the_arrows_show_the_pictures_the_plan_and_the_words_of_a_turn(self) -> None:
        self.begin()
        self.see("#stage figcaption", "live")
        self.assertFalse(self.chrome.seen("#latest"))
        self.chrome.click("#back")
        self.see("#stage", "looked at no screen")
        self.chrome.press("\ue012")
        self.see("#stage figcaption", "before \u00b7 Click \u201cbutton 3\u201d")
        self.assertIn("words 3", self.chrome.text("article:not([hidden])"))
        self.assertIn("first plan", self.chrome.text("#plan"))
        self.assertEqual(self.chrome.all("#stage img", "naturalWidth"), [64, 64])
        self.assertTrue(self.chrome.seen(".before ellipse"))
        self.assertTrue(self.chrome.seen(".after .region"))

    def test_whoever_looks_back_stays_there_until_live(self) -> None:
        self.begin()
        self.chrome.press("\ue012")
        self.chrome.press("\ue012")
        publish(self.panel, self.book(clicked(5), clicked(6)))
        self.see("#where", "3 / 6")
        self.chrome.click("#latest")
        self.see("#where", "6 / 6")
        self.assertFalse(self.chrome.seen("#latest"))
        publish(self.panel, self.book(clicked(5), clicked(6), clicked(7)))
        self.see("#where", "7 / 7")
        self.assertIn("words 7", self.chrome.text("article:not([hidden])"))

    def test_a_screenshot_that_is_gone_is_said_to_be_missing(self) -> None:
        self.begin()
        (self.folder / "screenshots" / "turn_0002.png").unlink()
        self.chrome.click("#list li:nth-child(2) a")
        self.see("#where", "2 / 5")
        self.assertNotIn("{", "".join(self.chrome.all("#list li")))
        self.see("#stage", "The screenshot screenshots/turn_0002.png is missing.")
        complaints = self.chrome.complaints()
        self.assertEqual([text for text in complaints if "404" not in text], [])

    def test_a_pause_is_said_and_is_not_red(self) -> None:
        self.begin()
        self.stop.paused = "the person moved the mouse"
        self.see("#note", "Paused: the person moved the mouse.")
        self.assertIn("idle", self.chrome.run("return note.className"))
        self.chrome.click("#play")
        wait_for(lambda: not self.chrome.seen("#note"))


class Described(Browser):
    described = True

    def test_a_first_reply_can_be_injected(self) -> None:
        self.open()
        publish(self.panel, [head()])
        self.panel.update(phase="waiting_inject")
        self.see("#send", "Inject")
        self.chrome.type("#hint", '{"observation": "start"}')
        self.chrome.click("#send")
        self.assertEqual(wait_for(self.panel.take_injected), '{"observation": "start"}')


class Demo(Browser):
    def begin(self, *options: str) -> subprocess.Popen[str]:
        """A demo whose page is open in the browser."""
        folder = f"dump_dir={self.folder}"
        words = [sys.executable, agent.__file__, "--demo", "--panel", "--set", folder, *options]
        run = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        assert run.stdout
        self.addCleanup(run.stdout.close)
        for line in run.stdout:
            found = re.search(r"http://127\S+", line)
            if found:
                self.chrome.open(found[0])
                return run
        raise AssertionError("no address was printed")

    def test_the_page_follows_a_whole_run(self) -> None:
        """Its turns, its plan, its pictures and its end; a pause holds it up, a hint reaches the model."""
        run = self.begin()
        self.see("#plan", "Open Notes")
        self.chrome.click("#play")
        self.see("#status", "paused")
        self.chrome.type("#hint", "the button is blue\ue007")
        self.see("#note", "at its next turn")
        self.keep("paused", 1440, 880)
        self.chrome.click("#play")
        self.see("#stage", "live")
        wait_for(lambda: self.chrome.text("#status") == "completed", 90)
        rows = self.chrome.all("#list li")
        self.assertIn("Hello from agent.py", "".join(rows))
        self.assertGreater(len(self.chrome.all("#list .good")), 3)
        log = next(self.folder.rglob("execution_log.txt")).read_text(encoding="utf-8")
        self.assertEqual(log.count("HINT FROM THE PERSON: the button is blue"), 1)
        # The server closes with the run, perhaps while the page asks it for something.
        said = [text for text in self.chrome.complaints() if "net::ERR_" not in text]
        self.assertEqual(said, [])
        for width in (1920, 1280, 390):
            self.keep(f"ended_{width}", width, 1000)
        self.chrome.open("about:blank")  # the program stays until its page is closed
        self.assertEqual(run.wait(60), 0)

    def keep(self, name: str, width: int, height: int) -> None:
        """Pictures of the page for README and reviewers, if a folder is given."""
        for dark in (False, True) if SHOTS else ():
            self.chrome.look(width, height, dark)
            shot = self.chrome.screenshot()
            Path(str(SHOTS), f"panel_{name}{'_dark' if dark else ''}.png").write_bytes(shot)


EVIL = """<!doctype html><title>evil</title><body><script>
window.results = {};
const done = (name, value) => { results[name] = value; };
const tries = {
  get: () => fetch(TARGET + "/"),
  post_with_token: () => fetch(TARGET + "/control", {method: "POST", headers: {Authorization: "Bearer TOKEN"},
    body: BODY}),
  post_json: () => fetch(TARGET + "/control", {method: "POST", headers: {"Content-Type": "application/json"},
    body: BODY}),
  post_simple: () => fetch(TARGET + "/control", {method: "POST", mode: "no-cors", body: BODY}),
  beacon: async () => navigator.sendBeacon(TARGET + "/control", new Blob([BODY], {type: "text/plain"})),
};
for (const [name, act] of Object.entries(tries))
  act().then(r => r && r.text ? r.text().then(t => done(name, "text:" + t)) : done(name, "sent"))
    .catch(() => done(name, "failed"));
const embeds = [["image", "img", "/picture"], ["script", "script", "/news"], ["page_as_image", "img", "/"]];
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

    def serve(self, page: bytes) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page)

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
            page = page.replace("TOKEN", token if token_known else "guess")
            port = self.serve(page.encode())
            for host in ("127.0.0.1", "localhost"):  # same site and another site
                with self.subTest(host=host, token_known=token_known):
                    self.chrome.open(f"http://{host}:{port}/")
                    tried = "return Object.keys(results).length >= 9"
                    wait_for(lambda tried=tried: self.chrome.run(tried), what="for the tries")
                    results = self.chrome.run("return results")
                    self.assertEqual(results.pop("beacon"), "sent")  # and was refused here
                    self.assertIn(results.pop("post_simple"), ("text:", "failed"))  # opaque
                    self.assertEqual(results.pop("frame"), "hidden")
                    self.assertEqual(set(results.values()), {"failed"}, results)
                    self.assertEqual((self.stop.reason, self.stop.paused), ("", ""))
                    self.assertFalse(self.panel.watched())

    def test_a_name_that_points_here_is_not_served(self) -> None:
        """DNS rebinding: the browser believes that the page belongs to evil.localhost, which leads to 127.0.0.1."""
        self.chrome.open(self.panel.url.replace("127.0.0.1", "evil.localhost"))
        self.see("body", "Wrong Host.")


if __name__ == "__main__":
    unittest.main()
