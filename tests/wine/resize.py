"""Changes the resolution of the virtual desktop: python.exe resize.py WIDTH HEIGHT; prints what Windows answers."""

import ctypes
import sys


class DEVMODE(ctypes.Structure):
    _fields_ = [
        ("head", ctypes.c_uint8 * 68),
        ("size", ctypes.c_uint16),
        ("extra", ctypes.c_uint16),
    ]
    _fields_ += [
        ("fields", ctypes.c_uint32),
        ("middle", ctypes.c_uint8 * 92),
        ("bits", ctypes.c_uint32),
    ]
    _fields_ += [
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("tail", ctypes.c_uint8 * 40),
    ]


mode = DEVMODE(
    size=ctypes.sizeof(DEVMODE),
    fields=0x00080000 | 0x00100000,
    width=int(sys.argv[1]),
    height=int(sys.argv[2]),
)
user = ctypes.WinDLL("user32")  # type: ignore[attr-defined]
print(
    ctypes.sizeof(DEVMODE),
    user.ChangeDisplaySettingsW(ctypes.byref(mode), 0),
    user.GetSystemMetrics(0),
    user.GetSystemMetrics(1),
)
