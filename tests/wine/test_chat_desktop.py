"""The profiles `chat` and `pointer` on a real Win32 desktop: two scenarios each, judged by the windows.

python3 -m unittest tests.wine.test_chat_desktop        needs wine, xvfb and AGENT_WINDOWS_PYTHON
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
PYTHON = os.environ.get("AGENT_WINDOWS_PYTHON") or str(
    Path.home() / ".cache/agent-wine/python/python.exe"
)
LINE = "Grüße, 5 € – Wetter: sunny ☀"


def probe() -> None:
    """On Windows' side: what the windows themselves say."""
    user32, kernel32 = ctypes.WinDLL("user32"), ctypes.WinDLL("kernel32")
    for function in (
        user32.FindWindowW,
        user32.FindWindowExW,
        user32.GetClipboardData,
        kernel32.GlobalLock,
    ):
        function.restype = ctypes.c_void_p
    handle, text = ctypes.c_void_p, ctypes.create_unicode_buffer(500)
    menu = user32.FindWindowW("#32768", None)
    found: dict[str, Any] = {"menu": bool(menu and user32.IsWindowVisible(handle(menu)))}
    notepad = user32.FindWindowW("Notepad", None)
    if notepad:
        edit = handle(user32.FindWindowExW(handle(notepad), None, "Edit", None))
        user32.SendMessageW(edit, 0x000D, ctypes.c_size_t(500), text)  # WM_GETTEXT
        first, last = ctypes.c_uint32(), ctypes.c_uint32()
        user32.SendMessageW(edit, 0x00B0, ctypes.byref(first), ctypes.byref(last))  # EM_GETSEL
        found |= {"text": text.value, "selected": [first.value, last.value]}
    if user32.OpenClipboard(None):
        data = user32.GetClipboardData(13)  # CF_UNICODETEXT
        found["clipboard"] = ctypes.wstring_at(kernel32.GlobalLock(handle(data))) if data else None
        user32.CloseClipboard()
    print(json.dumps(found))


def ask_windows() -> dict[str, Any]:
    command = [
        "wine",
        PYTHON,
        "-X",
        "utf8",
        r"Z:" + str(Path(__file__).resolve()).replace("/", "\\"),
        "probe",
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return json.loads(done.stdout.decode() or "{}")


def mind(scenario: str) -> Any:
    """A model that decides from the screenshot, and asks the windows whether what it sees is so."""
    import pixel_model as pm

    class Mind(pm.PixelModel):  # type: ignore[misc]
        opened: dict[str, Any] = {}

        def reply_to(self, kind: str, body: Any) -> Any:
            """Whether its claim is true, too, as far as it has asked the windows."""
            if kind == "verification" and not pm.asked_marks(body):
                verdict = "YES: the windows say so." if self.opened else "NO: nothing is open."
                return pm.Step("verify"), pm._said(verdict)
            return super().reply_to(kind, body)

        def executor_reply(self, body: Any) -> Any:
            words = next(
                v for marker, v in pm.VOCABULARIES.items() if marker in pm.tool_names(body)
            )
            if self._queue:
                return pm.Step("go on"), pm.reply_with(*self._queue.pop(0))
            png = pm.fresh_image(body["messages"])
            if png is None:
                return pm.Step("look"), pm.reply_with(words.look, {})
            pixels = pm.read_png(png)
            step = {"start-menu": self.start_menu, "notepad": self.notepad}[scenario](
                pixels, pm.look(pixels)
            )
            if (
                step.action == "key"
                and "key" in words.calls
                and "press_key" not in pm.tool_names(body)
            ):
                step = self.without_keys(pixels, step)
            if step.action not in words.calls:
                return step, pm._said(step.why) if step.action == "done" else pm.reply_with(
                    words.look, {}
                )
            first, *self._queue = pm.speak(step, words.calls[step.action])
            return step, pm.reply_with(*first)

        def at(self, pixels: Any, name: str, x: int, y: int) -> Any:
            """A click at a place of a 1536x864 frame."""
            return pm.Step("click", name, (x * 1000 // 1536, y * 1000 // 864))

        def start_menu(self, pixels: Any, view: Any) -> Any:
            if view.menu:
                self.opened = self.opened or ask_windows()
                return self.at(pixels, "the empty desktop", 900, 300)
            if self.opened:
                return pm.Step(
                    "done", why="The Start menu was open, which I verified, and is closed again."
                )
            return self.at(pixels, "Start button", 23, 855)

        def notepad(self, pixels: Any, view: Any) -> Any:
            if not (view.notepad and view.page_filled):
                step = pm.decide(pixels, pm.Task(LINE))
                started = step.action == "type" and step.text == "notepad"
                return pm.replace(step, text="notepad\n") if started else step
            if not self.selected(pixels):
                return pm.Step("key", key="ctrl+a")
            if not self.opened:
                return pm.Step("key", key="ctrl+c")
            return pm.Step("done", why="Notepad shows the line selected; it is copied.")

        def selected(self, pixels: Any) -> bool:
            """Whether the first line of the page stands on blue."""
            scale = pixels.width / 1536
            row = [pixels.rgb(x, int(45 * scale)) for x in range(int(10 * scale), int(60 * scale))]
            return sum(blue > 200 > 100 > red for red, _, blue in row) > 5

        def without_keys(self, pixels: Any, step: Any) -> Any:
            """The same with the mouse: the Edit menu, then its entry, once the menu is seen to be open."""
            if step.key not in ("ctrl+a", "ctrl+c"):
                return pm.Step("wait")
            red, _, blue = pixels.rgb(int(33 * pixels.width / 1536), int(27 * pixels.width / 1536))
            if not blue > 200 > 100 > red:
                return self.at(pixels, "Edit", 43, 27)
            return self.at(
                pixels, *(("Select all", 66, 125) if step.key == "ctrl+a" else ("Copy", 57, 77))
            )

        def finish(self, exchange: Any) -> None:
            super().finish(exchange)
            copied = ["ctrl+c" in json.dumps(exchange.reply), '"Copy"' in exchange.step]
            if scenario == "notepad" and any(copied):
                self.opened = {"copied": True}

    return Mind()


def run(profile: str, scenario: str, folder: str) -> None:
    """On the host's side, inside desktop.sh: the server, the agent under Wine, and what the windows say at the end."""
    import pixel_model as pm

    with pm.ModelServer(mind(scenario)) as server:
        command = [
            "wine",
            PYTHON,
            "-X",
            "utf8",
            "Z:" + str(HERE.parent.parent / "agent.py").replace("/", "\\"),
        ]
        command += [
            "--profile",
            profile,
            "--scenario",
            scenario,
            "--max-steps",
            "40",
            "--endpoint",
            server.url,
        ]
        command += ["--confirm", "never", "--set", "dump_dir=Z:" + folder.replace("/", "\\")]
        command += [
            "--set",
            "screen_capture_w=1536",
            "--set",
            "screen_capture_h=864",
        ]  # the size the model's eyes know
        pipes: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        done = subprocess.run(command, timeout=300, **pipes)
        result = {
            "code": done.returncode,
            "out": done.stdout.decode("utf-8", "replace"),
            "errors": server.errors,
        }
        print(json.dumps({**result, "then": server.mind.opened, "now": ask_windows()}))


READY = shutil.which("wine") and shutil.which("Xvfb") and Path(PYTHON).exists()


@unittest.skipUnless(READY, "no Windows Python under Wine")
class OnARealDesktop(unittest.TestCase):
    def carried_out(self, profile: str, scenario: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            command = [
                "bash",
                str(HERE / "desktop.sh"),
                sys.executable,
                __file__,
                profile,
                scenario,
                folder,
            ]
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=400
            )
            self.assertTrue(done.stdout.strip(), done.stderr.decode("utf-8", "replace"))
            result = json.loads(done.stdout.decode().splitlines()[-1])
        self.assertEqual((result["code"], result["errors"]), (0, []), result["out"])
        return result

    def test_the_start_menu_is_opened_verified_and_closed(self) -> None:
        for profile in ("chat", "pointer"):
            with self.subTest(profile=profile):
                result = self.carried_out(profile, "start-menu")
                self.assertEqual(
                    (result["then"]["menu"], result["now"]["menu"]), (True, False), result["out"]
                )

    def test_a_line_is_written_in_notepad_selected_and_copied(self) -> None:
        for profile in ("chat", "pointer"):
            with self.subTest(profile=profile):
                now = self.carried_out(profile, "notepad")["now"]
                self.assertEqual((now["text"], now["clipboard"]), (LINE, LINE))
                self.assertEqual(now["selected"], [0, len(LINE)])


if __name__ == "__main__":
    if sys.argv[1:] == ["probe"]:
        probe()
    elif len(sys.argv) == 4:
        run(*sys.argv[1:])
    else:
        unittest.main()
