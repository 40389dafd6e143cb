"""A headless Chromium through chromedriver's HTTP interface (WebDriver), with nothing but the standard library."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key under which WebDriver hands out elements
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SWITCHES = "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --force-color-profile=srgb"


def wait_for(found: Any, seconds: float = 10.0, what: str = "") -> Any:
    """The first true value that `found` returns; AssertionError when the time is over."""
    end = time.monotonic() + seconds
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain {what}")
        time.sleep(0.03)


class Chrome:
    """One browser; `open` and the rest work on its current tab."""

    def __init__(self) -> None:
        driver = shutil.which("chromedriver")
        if driver is None:
            raise RuntimeError("chromedriver is missing: apt-get install chromium chromium-driver")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        nowhere = subprocess.DEVNULL
        self.process = subprocess.Popen([driver, f"--port={port}"], stdout=nowhere, stderr=nowhere)
        self.base = f"http://127.0.0.1:{port}"
        wait_for(self.ready, 20, "for chromedriver")
        options = {"goog:chromeOptions": {"args": SWITCHES.split()}}
        options["goog:loggingPrefs"] = {"browser": "ALL"}
        wanted = {"capabilities": {"alwaysMatch": options}}
        self.session = self.call("POST", "/session", wanted)["sessionId"]

    def ready(self) -> bool:
        try:
            return bool(self.call("GET", "/status")["ready"])
        except OSError:
            return False

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One WebDriver command; its errors become AssertionError."""
        data = json.dumps(body or {}).encode() if method == "POST" else None
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.base + path, data, kind, method=method)
        try:
            with DIRECT.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            said = json.load(error)["value"]["message"]
            raise AssertionError(f"{method} {path}: {said}") from None

    def do(self, path: str, body: Any = None, method: str = "POST") -> Any:
        return self.call(method, f"/session/{self.session}{path}", body)

    def open(self, url: str) -> None:
        # An address that differs in its fragment only would not load again.
        self.do("/url", {"url": "about:blank"})
        self.do("/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script's `return`; a promise is awaited."""
        return self.do("/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        return "".join(self.all(selector)[:1])

    def all(self, selector: str, what: str = "textContent") -> list[Any]:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e[arguments[1]])"
        return list(self.run(script, selector, what))

    def seen(self, selector: str) -> bool:
        script = "return document.querySelector(arguments[0])?.checkVisibility() || false"
        return bool(self.run(script, selector))

    def width(self) -> int:
        """How wide the page is, beside what is seen of it, too."""
        return int(self.run("return document.documentElement.scrollWidth"))

    def click(self, selector: str) -> None:
        self.do(f"/element/{self.element(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        self.do(f"/element/{self.element(selector)}/value", {"text": text})

    def press(self, key: str) -> None:
        """A key wherever the focus is."""
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.do("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def element(self, selector: str) -> str:
        return str(self.do("/element", {"using": "css selector", "value": selector})[ELEMENT])

    def devtools(self, command: str, **values: Any) -> Any:
        return self.do("/goog/cdp/execute", {"cmd": command, "params": values})

    def look(self, width: int, height: int, dark: bool = False) -> None:
        """The size of the page and whether the person likes it dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[feature])

    def complaints(self) -> list[str]:
        """What the console says since the last call: script errors, refused requests, violated policies."""
        return [str(entry["message"]) for entry in self.do("/se/log", {"type": "browser"})]

    def close(self) -> None:
        try:
            self.do("", method="DELETE")
        finally:
            self.process.terminate()
            self.process.wait(10)


class InChrome(unittest.TestCase):
    """Tests with one browser for all of them, and a folder for each."""

    chrome: Chrome

    @classmethod
    def setUpClass(cls) -> None:
        cls.chrome = Chrome()
        cls.addClassCleanup(cls.chrome.close)

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        # A page that still loads its pictures when their folder goes would complain in the next test.
        self.addCleanup(lambda: (self.chrome.open("about:blank"), self.chrome.complaints()))
        self.folder = Path(scratch.name)
