"""Prints the title of the window with the keyboard: run by the Windows Python."""

import ctypes

user = ctypes.WinDLL("user32")  # type: ignore[attr-defined]
user.GetForegroundWindow.restype = ctypes.c_void_p
title = ctypes.create_unicode_buffer(256)
user.GetWindowTextW(ctypes.c_void_p(user.GetForegroundWindow()), title, 256)
print(title.value)
