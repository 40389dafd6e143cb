"""Prints the titles of the top-level windows that can be seen, one a line: run by the Windows Python."""

import ctypes

user = ctypes.WinDLL("user32")  # type: ignore[attr-defined]
found: list[str] = []


def note(window: int, _: int) -> int:
    title = ctypes.create_unicode_buffer(256)
    if user.IsWindowVisible(ctypes.c_void_p(window)) and user.GetWindowTextW(
        ctypes.c_void_p(window), title, 256
    ):
        found.append(title.value)
    return 1


user.EnumWindows(ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(note), None)  # type: ignore[attr-defined]
print("\n".join(found))
