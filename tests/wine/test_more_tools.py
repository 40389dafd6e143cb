"""The tools that save turns, on a real Win32 desktop: programs by name, windows by title, a field filled in one turn."""

from __future__ import annotations

import unittest
from dataclasses import dataclass
from typing import Any

from pixel_model import VOCABULARIES, PixelModel, Step, Task
from rig import AGENT, Desktop, Driver, run_notepad, windows_path

TASK = Task("Grüße from open_app: 5 € & more", r"C:\in fewer turns.txt")


@dataclass(frozen=True)
class FurtherStep(Step):
    """A step that one of the further tools does; `text` is what it takes, `submit` presses Enter."""

    submit: bool = True


class FewerTurns(PixelModel):
    """The model that sees pixels, with a program opened by its name, and a file's name typed and entered at once."""

    tools = {
        "open": [("open_app", {"name": "text", "reasoning": "why"})],
        "enter": [("type_text_input", {"text": "text", "submit": "submit", "reasoning": "why"})],
    }

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        VOCABULARIES["click_screen_element"].calls.update(self.tools)

    def patient(self, step: Step) -> Step:
        if step.target == "Start button":
            return FurtherStep("open", text="notepad", why="Notepad is not open.")
        if step.target == "File name field":
            return FurtherStep("enter", step.target, text=step.text, why=step.why)
        return super().patient(step)


CLIPBOARD = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import agent
desktop = agent.WindowsDesktop(agent.load_win32(), agent.SystemClock(agent.Stop()))
lengths = [desktop.clipboard_length()]
user = ctypes.WinDLL("user32")
kernel = ctypes.WinDLL("kernel32")
kernel.GlobalAlloc.restype = kernel.GlobalLock.restype = ctypes.c_void_p
kernel.GlobalAlloc.argtypes = [ctypes.c_uint32, ctypes.c_size_t]
kernel.GlobalLock.argtypes = kernel.GlobalUnlock.argtypes = [ctypes.c_void_p]
user.SetClipboardData.argtypes = [ctypes.c_uint32, ctypes.c_void_p]
memory = kernel.GlobalAlloc(2, 26)
ctypes.memmove(kernel.GlobalLock(memory), "Hello, Zoë!!\\0".encode("utf-16-le"), 26)
kernel.GlobalUnlock(memory)
user.OpenClipboard(None)
user.EmptyClipboard()
user.SetClipboardData(13, memory)
lengths.append(desktop.clipboard_length())  # while it is open: nobody can tell
user.CloseClipboard()
lengths.append(desktop.clipboard_length())
print(lengths)
"""


class MoreTools(unittest.TestCase):
    def test_the_length_of_the_clipboards_text_is_known(self) -> None:
        with Desktop() as desktop:
            folder = windows_path(AGENT.parent)
            code, output = desktop.run("-c", CLIPBOARD, folder, timeout=60)
        self.assertIn("12]", output)
        self.assertTrue(output.startswith("[0, "), output)
        self.assertEqual(code, 0, output)

    def test_programs_are_opened_by_name_and_windows_changed_by_title(self) -> None:
        with Desktop() as desktop:
            driver = Driver(desktop)
            first = driver.ask("act", tool="open_app", name="notepad")
            self.assertIn("Notepad", str(first), first)
            second = driver.ask("act", tool="open_app", name="winemine")
            self.assertIn("Opened: winemine", str(second), second)
            for title in ("Notepad", "WineMine", "notepad"):
                answer = driver.ask("act", tool="focus_window", title=title)
                self.assertIn("in front".lower(), str(answer).lower(), answer)

    def test_the_notepad_task_takes_fewer_requests(self) -> None:
        before = run_notepad(PixelModel(TASK), timeout=170)
        after = run_notepad(FewerTurns(TASK), timeout=170)
        for run in (before, after):
            self.assertEqual(run.saved, TASK.file_bytes, str(run))
            self.assertEqual(run.code, 0, str(run))
        calls = []
        for run in (before, after):
            kinds = [exchange.kind for exchange in run.model.exchanges]
            calls.append(kinds.count("planner") + kinds.count("executor"))
        print(f"requests before the judging: {calls[0]} before, {calls[1]} after")
        # A window that is slow to come may cost either of them a look more.
        self.assertLess(calls[1], 0.8 * calls[0], str(after))


if __name__ == "__main__":
    unittest.main()
