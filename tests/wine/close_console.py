"""Tells a program that its console is closed, as Windows does: by a thread at CtrlRoutine inside that program.

Wine itself ends the programs of a closed console without telling them. The argument is the program's process id.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import wintypes

CTRL_CLOSE_EVENT = 2
PROCESS_ALL_ACCESS = 0x1FFFFF

kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
kernel32.OpenProcess.restype = wintypes.HANDLE
kernel32.CreateRemoteThread.restype = wintypes.HANDLE
kernel32.CreateRemoteThread.argtypes = [
    wintypes.HANDLE,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_void_p,
    wintypes.DWORD,
    ctypes.c_void_p,
]
# System libraries lie at one place in all programs, so the address is the same over there.
routine = ctypes.cast(ctypes.WinDLL("kernelbase").CtrlRoutine, ctypes.c_void_p)
process = kernel32.OpenProcess(PROCESS_ALL_ACCESS, False, int(sys.argv[1]))
thread = process and kernel32.CreateRemoteThread(
    process, None, 0, routine, CTRL_CLOSE_EVENT, 0, None
)
if not thread:
    raise ctypes.WinError(ctypes.get_last_error())
print("told")
