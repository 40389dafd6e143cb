"""The Win32 table: every row bound, called through real ctypes, and checked."""

from __future__ import annotations

import contextlib
import ctypes
import re
import struct
import sys
import unittest
from pathlib import Path
from typing import Any

import agent
from tests.fakes import BY_HRESULT, E_FAIL, NEVER_FAIL, FakeWin32, Foreground

# The bytes of what each function answers and takes, as Microsoft declares it for 64 bit: a handle and a pointer have 8,
# and an int there would lose the upper half.
WIDTHS = """
4: SetProcessDPIAware GdiFlush GetDoubleClickTime CloseClipboard GetCurrentThreadId GetTickCount CoUninitialize
4:4 GetSystemMetrics MessageBeep IsClipboardFormatAvailable
4:44 SetCursorPos MapVirtualKeyW
4:444 AttachThreadInput
4:484 SendInput
4:8 TranslateMessage FlashWindowEx SetProcessDpiAwarenessContext CloseDesktop GetCursorInfo GetCursorPos DeleteDC DeleteObject GetLastInputInfo
4:8 IsWindowVisible IsIconic IsHungAppWindow SetForegroundWindow BringWindowToTop DestroyWindow OpenClipboard
4:8 GlobalUnlock lstrlenW CloseHandle ReleaseMutex CoTaskMemFree
4:84 SetStretchBltMode ShowWindowAsync SetWindowDisplayAffinity WaitForSingleObject GetConsoleProcessList
4:84 SetConsoleCtrlHandler SetConsoleMode CoInitializeEx
2:28 VkKeyScanExW
2:4 GetAsyncKeyState GetKeyState
4:844 RegisterRawInputDevices
4:84884 GetRawInputData
4:4488448 ToUnicodeEx
4:8444 RegisterHotKey
4:84444844444 StretchBlt
4:8448 SetBrushOrgEx
4:844844484 DrawIconEx
4:848 OpenProcessToken
4:8484 DwmGetWindowAttribute
4:84848 GetTokenInformation
4:8488 QueryFullProcessImageNameW
4:88 ReleaseDC GetIconInfo GetMonitorInfoW GetWindowRect GetWindowThreadProcessId EnumWindows SetWindowTextW GetConsoleMode
4:88 GetWindowDisplayAffinity
4:884 GetWindowTextW GetClassNameW
4:88444 PeekMessageW
4:8888 SHCreateItemFromParsingName
8: GetForegroundWindow GetClipboardOwner GetConsoleWindow
8:4 GetClipboardData GetStdHandle GetKeyboardLayout
8:444 OpenInputDesktop OpenProcess
8:44444444444448 CreateFontW
8:488444448888 CreateWindowExW
8:8 GetDC CreateCompatibleDC WindowFromPoint DispatchMessageW GlobalLock GetLastActivePopup
8:84 MonitorFromPoint GetAncestor
8:848 CreateMutexW
8:8488 SendMessageW
8:88 LoadCursorW SelectObject
8:884884 CreateDIBSection
8:8888 FindWindowExW
8:888884 ShellExecuteW
"""
HALFTONE, SRCCOPY = 4, 0x00CC0020


def zeros(name: str) -> list[object]:
    """Arguments of the right types for a call that is going to fail before it looks at them."""
    pointers = (ctypes.c_void_p, ctypes.c_wchar_p)
    kinds = agent.WIN32[name].arguments
    return [None if kind in pointers or hasattr(kind, "argtypes") else kind() for kind in kinds]


class Table(unittest.TestCase):
    def setUp(self) -> None:
        self.world = FakeWin32()

    def test_handles_and_pointers_are_as_wide_as_a_pointer_and_nothing_else(self) -> None:
        wanted = {}
        for widths, *names in map(str.split, WIDTHS.strip().splitlines()):
            wanted |= dict.fromkeys(names, widths)
        for name, row in agent.WIN32.items():
            result, *taken = (str(ctypes.sizeof(kind)) for kind in (row.result, *row.arguments))
            self.assertEqual(f"{result}:{''.join(taken)}", wanted.pop(name), name)
        self.assertEqual(wanted, {})

    def test_a_failing_call_raises_an_error_that_names_it_and_its_code_if_it_can_fail(self) -> None:
        for name in agent.WIN32:
            with self.subTest(name):
                self.world.arm(names={name})
                function = getattr(self.world.api, name)
                if name in NEVER_FAIL | {"SendInput"}:
                    arguments = (1, bytes(40), 40) if name == "SendInput" else zeros(name)
                    self.assertFalse(function(*arguments))
                    continue
                with self.assertRaises(agent.Win32Error) as caught:
                    function(*zeros(name))
                self.assertEqual(caught.exception.code, E_FAIL if name in BY_HRESULT else 31)
                self.assertRegex(
                    str(caught.exception),
                    rf"^(Windows refused {name} \(error -?\d+\)(; .*)?|{name} answers 0x80004005)\.$",
                )

    def test_a_function_that_this_windows_lacks_fails_when_called_and_says_so(self) -> None:
        for missing in ("SetProcessDpiAwarenessContext", "gdi32"):
            api = FakeWin32(missing={missing}).api
            self.assertEqual(api.GetDoubleClickTime(), 500)
            name = "GdiFlush" if missing == "gdi32" else missing
            with self.assertRaises(agent.Win32Error) as caught:
                getattr(api, name)(-4)
            self.assertEqual(str(caught.exception), f"{name} is not available on this Windows.")

    def test_an_answer_is_judged_as_its_function_documents_it(self) -> None:
        for name, fine, failed in (
            ("CoInitializeEx", (0, 1), (-1,)),  # 1, S_FALSE: it was ready before
            ("ShellExecuteW", (33, 1 << 40), (0, 5, 32)),
            ("CloseHandle", (1, -1), (0,)),
            ("OpenProcess", (4, 1 << 40), (None,)),
        ):
            for answer in (*fine, *failed):
                api = agent.Win32(lambda *_, answer=answer: lambda *_: answer, lambda: 5)
                if answer in fine:
                    self.assertEqual(getattr(api, name)(), answer)
                else:
                    with self.assertRaises(agent.Win32Error, msg=f"{name} answers {answer}"):
                        getattr(api, name)()

    def test_a_row_without_a_check_says_why(self) -> None:
        lines = Path(agent.__file__).read_text(encoding="utf-8").splitlines()
        rows = [line for line in lines if re.search(r"\) \| any\b", line)]
        names = {row.split()[1].partition("(")[0] for row in rows}
        self.assertEqual(names & set(agent.WIN32), NEVER_FAIL | {"SendInput"})
        self.assertEqual([row for row in rows if not re.search(r"\| any: .", row)], [])

    def test_the_real_table_is_loaded_on_windows_only(self) -> None:
        if sys.platform == "win32":
            self.assertGreater(agent.load_win32().GetDoubleClickTime(), 0)
        else:
            with self.assertRaisesRegex(agent.Win32Error, "no Windows desktop here.*--demo"):
                agent.load_win32()


class SimulatedWindows(unittest.TestCase):
    """The simulation must notice what it is there to notice."""

    def test_a_leak_a_wrong_use_and_a_press_without_release_are_noticed(self) -> None:
        world = FakeWin32(window=Foreground())
        api = world.api
        dc = api.GetDC(None)
        self.assertGreater(dc, 1 << 32)
        self.assertEqual(world.leaks(), ["screen DC"])
        header, bits = struct.pack("<IiiHHI20x", 40, 4, -4, 1, 32, 0), ctypes.c_void_p()
        bitmap = int(api.CreateDIBSection(dc, header, 0, ctypes.byref(bits), None, 0))
        memory = api.CreateCompatibleDC(dc)
        api.SelectObject(memory, bitmap)
        api.SetStretchBltMode(memory, HALFTONE)
        stretched = (memory, 0, 0, 4, 4, dc, 0, 0, 4, 4, SRCCOPY)
        uses: list[tuple[Any, str]] = [
            (lambda: api.GetSystemMetrics(76, 1), "got 2 arguments, declared are 1"),
            (lambda: api.StretchBlt(*stretched), "HALFTONE, without"),
            (lambda: api.SendInput(1, bytes(40), 28), "argument 2 is 28"),
            (lambda: api.DeleteDC(dc), "DeleteDC got a handle that is a screen DC"),
            (lambda: api.DeleteObject(bitmap), "DeleteObject of a bitmap that is selected"),
            (lambda: api.ReleaseDC(None, dc + 1), "unknown or already released"),
        ]
        for use, problem in uses:
            with contextlib.suppress(agent.Win32Error):
                use()
            self.assertRegex(world.problems[-1], problem)
        world = FakeWin32()
        agent.WindowsDesktop(world.api, world.clock).key("ctrl", True)
        with self.assertRaisesRegex(AssertionError, "still held: key"):
            world.verify()


if __name__ == "__main__":
    unittest.main()
