"""The truth about a Windows desktop, for whoever plays a model that can see it: a JSON server on the loopback.

    wine python.exe -X utf8 spy.py PORT </dev/null 2>&1 | cat          (on the desktop that is to be watched)
One line in, one line of JSON out:  {"do": "state"}  {"do": "quit"}  {"do": "ping"}
    {"do": "registry", "values": [[key below HKEY_CURRENT_USER, name], ...]} -> {"values": [...]}, null for none
    {"do": "place", "hwnd": n, "rect": [l, t, r, b]}   the one order that moves something, for the start of a task only
    state: {"screen": [w, h], "cursor": [x, y], "foreground": hwnd, "focus": hwnd, "menu_mode": bool, "ms": n,
            "clipboard": text, "windows": [window ...] front to back, "menus": [{"hwnd", "rect", "items": [item ...]}]}
    window: {"hwnd", "title", "class", "rect", "program", "pid", "enabled", "minimized", "owner",
             "menubar": [item ...], "controls": [control ...], "items": [item ...] of a dropped list}
    control: {"hwnd", "class", "kind", "id", "text", "rect", "enabled", "visible", "focus", "checked", "tabs", "items", ...}
    item: {"text", "rect", "enabled", "checked", "submenu", "separator"}; every rect is [left, top, right, bottom], pixels
It only asks: no activation, no input. Texts come by WM_GETTEXT with a timeout. What only the window's own process can
say (menu items, tabs, list and tree items) is read there: messages with a buffer in that process (VirtualAllocEx), and
for menus one short remote thread that calls GetMenuItemRect, GetMenuStringW and GetMenuState. Wine refuses both from
outside: its menu handles and common controls' pointers belong to the process.
"""

import ctypes
import json
import socket
import struct
import sys
import time
import winreg
from ctypes import wintypes as w

user32, kernel32, psapi = (
    ctypes.WinDLL(name, use_last_error=True) for name in ("user32", "kernel32", "psapi")
)
P = ctypes.c_void_p
for lib, name, result, *arguments in (
    (
        user32,
        "SendMessageTimeoutW",
        P,
        w.HWND,
        w.UINT,
        P,
        P,
        w.UINT,
        w.UINT,
        ctypes.POINTER(ctypes.c_size_t),
    ),
    (user32, "GetWindowLongPtrW", ctypes.c_ssize_t, w.HWND, ctypes.c_int),
    (user32, "GetWindow", w.HWND, w.HWND, w.UINT),
    (user32, "GetTopWindow", w.HWND, w.HWND),
    (user32, "GetMenu", P, w.HWND),
    (user32, "GetForegroundWindow", w.HWND),
    (user32, "GetDlgCtrlID", ctypes.c_int, w.HWND),
    (user32, "GetDesktopWindow", w.HWND),
    (user32, "GetClipboardData", P, w.UINT),
    (user32, "OpenClipboard", w.BOOL, w.HWND),
    (user32, "InternalGetWindowText", ctypes.c_int, w.HWND, w.LPWSTR, ctypes.c_int),
    (user32, "WindowFromPoint", w.HWND, w.POINT),
    (user32, "GetAncestor", w.HWND, w.HWND, w.UINT),
    (kernel32, "GlobalLock", P, P),
    (kernel32, "GlobalUnlock", w.BOOL, P),
    (kernel32, "OpenProcess", w.HANDLE, w.DWORD, w.BOOL, w.DWORD),
    (kernel32, "VirtualAllocEx", P, w.HANDLE, P, ctypes.c_size_t, w.DWORD, w.DWORD),
    (kernel32, "VirtualFreeEx", w.BOOL, w.HANDLE, P, ctypes.c_size_t, w.DWORD),
    (kernel32, "WriteProcessMemory", w.BOOL, w.HANDLE, P, P, ctypes.c_size_t, P),
    (kernel32, "ReadProcessMemory", w.BOOL, w.HANDLE, P, P, ctypes.c_size_t, P),
    (kernel32, "CreateRemoteThread", w.HANDLE, w.HANDLE, P, ctypes.c_size_t, P, P, w.DWORD, P),
    (kernel32, "GetModuleHandleW", P, w.LPCWSTR),
    (kernel32, "GetProcAddress", P, P, ctypes.c_char_p),
    (psapi, "EnumProcessModules", w.BOOL, w.HANDLE, P, w.DWORD, P),
    (psapi, "GetModuleBaseNameW", w.DWORD, w.HANDLE, P, w.LPWSTR, w.DWORD),
    (kernel32, "QueryFullProcessImageNameW", w.BOOL, w.HANDLE, w.DWORD, w.LPWSTR, P),
):
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments

# rcx: {count, records ...}, a record {function, 6 arguments, result}: calls them one after the other
STUB = bytes.fromhex(
    "53 56 48 83ec48"  # push rbx; push rsi; sub rsp, 72 (return + 2 pushes = 24: with 72 the stack is aligned)
    "48 8b31 48 8d5908"  # mov rsi, [rcx]; lea rbx, [rcx+8]
    "48 85f6 7431"  # next: test rsi, rsi; jz end
    "48 8b4b08 48 8b5310"  # mov rcx, [rbx+8]; mov rdx, [rbx+16]
    "4c 8b4318 4c 8b4b20"  # mov r8, [rbx+24]; mov r9, [rbx+32]
    "48 8b4328 48 89442420"  # mov rax, [rbx+40]; mov [rsp+32], rax
    "48 8b4330 48 89442428"  # mov rax, [rbx+48]; mov [rsp+40], rax
    "ff13 48 894338"  # call [rbx]; mov [rbx+56], rax
    "48 83c340 48 ffce ebca"  # add rbx, 64; dec rsi; jmp next
    "31c0 48 83c448 5e 5b c3"
)  # end: xor eax, eax; add rsp, 72; pop rsi; pop rbx; ret
ITEMS_MOST = 64
kernel32.OpenProcess(0x0400, False, 0)


class Remote:
    """Another process: memory in it and calls of user32 in it."""

    def __init__(self, pid):
        self.handle = kernel32.OpenProcess(0x0400 | 0x0008 | 0x0010 | 0x0020 | 0x0002, False, pid)
        if not self.handle:
            raise OSError("OpenProcess")
        self.size = 1 << 16
        self.memory = kernel32.VirtualAllocEx(self.handle, None, self.size, 0x3000, 0x40)
        if not self.memory:
            raise OSError("VirtualAllocEx")
        self.write(self.memory, STUB)
        self.user32 = self.base("user32.dll")

    def base(self, wanted):
        modules, needed = (P * 512)(), w.DWORD()
        psapi.EnumProcessModules(self.handle, modules, ctypes.sizeof(modules), ctypes.byref(needed))
        name = ctypes.create_unicode_buffer(260)
        for module in modules[: needed.value // 8]:
            psapi.GetModuleBaseNameW(self.handle, module, name, 260)
            if name.value.lower() == wanted:
                return module
        return 0

    def write(self, place, data):
        kernel32.WriteProcessMemory(self.handle, place, data, len(data), None)

    def read(self, place, size):
        buffer = ctypes.create_string_buffer(size)
        kernel32.ReadProcessMemory(self.handle, place, buffer, size, None)
        return buffer.raw

    def calls(self, calls):
        """[(function of user32, arguments ...)] -> their results; runs as one thread over there."""
        if not self.user32 or not calls:
            return [0] * len(calls)
        here, records = kernel32.GetModuleHandleW("user32.dll"), b""
        for name, *arguments in calls:
            address = kernel32.GetProcAddress(here, name.encode()) - here + self.user32
            values = [*arguments, 0, 0, 0, 0, 0, 0][:6]
            records += struct.pack("<Q6QQ", address, *[v & 0xFFFFFFFFFFFFFFFF for v in values], 0)
        place = self.memory + 0x200
        self.write(place, struct.pack("<Q", len(calls)) + records)
        thread = kernel32.CreateRemoteThread(self.handle, None, 0, self.memory, place, 0, None)
        if not thread:
            return [0] * len(calls)
        done = kernel32.WaitForSingleObject(thread, 1000) == 0
        kernel32.CloseHandle(thread)
        data = self.read(place + 8, len(records)) if done else bytes(len(records))
        return [struct.unpack_from("<Q", data, i * 64 + 56)[0] for i in range(len(calls))]

    def close(self):
        kernel32.VirtualFreeEx(self.handle, self.memory, 0, 0x8000)
        kernel32.CloseHandle(self.handle)


HUNG = set()  # processes that did not answer in this look


def send(hwnd, message, wparam=0, lparam=0, timeout=300):
    """SendMessage that gives up; None if it did."""
    result, (pid, _) = ctypes.c_size_t(), pid_of(hwnd)
    if pid in HUNG:
        return None
    began = time.time()
    done = user32.SendMessageTimeoutW(
        hwnd, message, wparam, lparam, 0x0002, timeout, ctypes.byref(result)
    )
    if not done and time.time() - began > 0.2:
        HUNG.add(pid)
    return result.value if done else None


def signed(value):
    return ctypes.c_int(value & 0xFFFFFFFF).value if value is not None else None


def text_of(hwnd, most=20000):
    length = send(hwnd, 0x000E) or 0
    buffer = ctypes.create_unicode_buffer(min(length, most) + 1)
    send(hwnd, 0x000D, len(buffer), ctypes.addressof(buffer))
    return buffer.value


def class_of(hwnd):
    buffer = ctypes.create_unicode_buffer(128)
    user32.GetClassNameW(hwnd, buffer, 128)
    return buffer.value


def rect_of(hwnd):
    rect = w.RECT()
    user32.GetWindowRect(hwnd, ctypes.byref(rect))
    return [rect.left, rect.top, rect.right, rect.bottom]


def pid_of(hwnd):
    pid = w.DWORD()
    thread = user32.GetWindowThreadProcessId(hwnd, ctypes.byref(pid))
    return pid.value, thread


class Spy:
    def __init__(self):
        self.remotes = {}

    def remote(self, pid):
        if pid not in self.remotes:
            try:
                self.remotes[pid] = Remote(pid)
            except OSError:
                self.remotes[pid] = None
        return self.remotes[pid]

    def forget(self, alive):
        for pid in [pid for pid in self.remotes if pid not in alive]:
            if self.remotes[pid]:
                kernel32.CloseHandle(self.remotes[pid].handle)
            del self.remotes[pid]

    def items(self, pid, hwnd, menu):
        """A menu's items with their places; hwnd is the window with the bar, or 0 for a popup, which knows its own."""
        there = self.remote(pid)
        if not there or not menu:
            return []
        count = signed(there.calls([("GetMenuItemCount", menu)])[0])
        if not 0 < count <= ITEMS_MOST:
            return []
        data, calls = there.memory + 0x4000, []
        for i in range(count):
            calls += [
                ("GetMenuItemRect", hwnd, menu, i, data + 16 * i),
                ("GetMenuState", menu, i, 0x400),
                ("GetMenuStringW", menu, i, data + 0x1000 + 256 * i, 120, 0x400),
            ]
        found, out = there.calls(calls), []
        rects, texts = there.read(data, 16 * count), there.read(data + 0x1000, 256 * count)
        for i in range(count):
            ok, flags, length = found[3 * i : 3 * i + 3]
            flags = flags & 0xFFFFFFFF
            text = (
                texts[256 * i : 256 * i + 2 * signed(length)].decode("utf-16-le", "replace")
                if signed(length) > 0
                else ""
            )
            rect = (
                list(struct.unpack_from("<4i", rects, 16 * i)) if ok & 0xFFFFFFFF else [0, 0, 0, 0]
            )
            state = flags & 0xFF
            out.append(
                {
                    "text": text.partition("\t")[0].replace("&", ""),
                    "rect": rect,
                    "enabled": not state & 3,
                    "checked": bool(state & 8),
                    "submenu": bool(state & 0x10),
                    "separator": bool(flags & 0x800) and not state & 0x10,
                    "lit": bool(state & 0x80),
                }
            )
        return out

    def control(self, hwnd, pid, focus):
        style = user32.GetWindowLongPtrW(hwnd, -16)
        name, text = class_of(hwnd), text_of(hwnd)
        out = {
            "hwnd": hwnd,
            "class": name,
            "id": user32.GetDlgCtrlID(hwnd),
            "text": text,
            "rect": rect_of(hwnd),
            "enabled": bool(user32.IsWindowEnabled(hwnd)),
            "visible": bool(user32.IsWindowVisible(hwnd)),
            "focus": hwnd == focus,
            "parent": user32.GetAncestor(hwnd, 1),
            "kind": name.lower(),
        }
        low = name.lower()
        if low == "button":
            kind = style & 0xF
            out["kind"] = {
                2: "checkbox",
                3: "checkbox",
                5: "checkbox",
                6: "checkbox",
                4: "radio",
                9: "radio",
                7: "group",
            }.get(kind, "button")
            out["text"] = text.replace("&", "")
            if out["kind"] in ("checkbox", "radio"):
                out["checked"] = send(hwnd, 0x00F0) == 1
        elif low == "edit" or low.startswith("richedit"):
            out["kind"] = "edit"
            position = send(hwnd, 0x00B0)  # EM_GETSEL
            out["selection"] = (
                [position & 0xFFFF, position >> 16 & 0xFFFF] if position is not None else None
            )
            out["modified"] = bool(send(hwnd, 0x00B8))
            out["multiline"] = bool(style & 4)
        elif low == "combobox":
            out["dropped"] = bool(send(hwnd, 0x0157))
            out["selected"] = signed(send(hwnd, 0x0147))
        elif low == "systabcontrol32":
            out["kind"], out["selected"] = "tabs", signed(send(hwnd, 0x130B))
            out["tabs"] = self.tabs(hwnd, pid)
        elif low == "syslistview32" and out["visible"]:
            out["kind"], out["items"] = "list", self.list_items(hwnd, pid)
        elif low == "systreeview32" and out["visible"]:
            out["kind"], out["items"] = "tree", self.tree_items(hwnd, pid)
        elif low == "listbox":
            out["items"] = self.box_items(hwnd)
        elif low == "toolbarwindow32" and out["visible"]:
            out["items"] = self.tool_items(hwnd, pid)
        return out

    def to_screen(self, hwnd, rect):
        point = w.POINT(0, 0)
        user32.ClientToScreen(hwnd, ctypes.byref(point))
        return [rect[0] + point.x, rect[1] + point.y, rect[2] + point.x, rect[3] + point.y]

    def tabs(self, hwnd, pid):
        there, out = self.remote(pid), []
        for i in range(min(signed(send(hwnd, 0x1304)) or 0, 20) if there else 0):
            data, words = there.memory + 0x8000, there.memory + 0x8100
            there.write(
                data, struct.pack("<IIIxxxxQiixxxxQ", 1, 0, 0, words, 100, 0, 0)
            )  # TCITEMW: mask TCIF_TEXT
            send(hwnd, 0x133C, i, data)
            text = there.read(words, 200).decode("utf-16-le", "replace").partition("\0")[0]
            send(hwnd, 0x130A, i, data)
            out.append(
                {
                    "text": text,
                    "rect": self.to_screen(hwnd, struct.unpack("<4i", there.read(data, 16))),
                }
            )
        return out

    def list_items(self, hwnd, pid):
        there, out = self.remote(pid), []
        header = (
            send(hwnd, 0x101F) if user32.GetWindowLongPtrW(hwnd, -16) & 3 == 1 else 0
        )  # LVM_GETHEADER, of LVS_REPORT
        columns = min(signed(send(header, 0x1200)) or 1, 8) if header else 1  # HDM_GETITEMCOUNT
        for i in range(min(signed(send(hwnd, 0x1004)) or 0, 60) if there else 0):
            data, words, cells = there.memory + 0x8000, there.memory + 0x8100, []
            for column in range(columns):
                there.write(words, b"\0\0")
                there.write(
                    data, struct.pack("<IiiIIxxxxQiixxxx", 1, i, column, 0, 0, words, 200, 0)
                )  # LVITEMW: mask LVIF_TEXT
                send(hwnd, 0x1073, i, data)
                cells.append(
                    there.read(words, 400).decode("utf-16-le", "replace").partition("\0")[0]
                )
            text = cells[0]
            state = send(hwnd, 0x102C, i, 3) or 0  # LVM_GETITEMSTATE, LVIS_FOCUSED | LVIS_SELECTED
            there.write(data, struct.pack("<4i", 2, 0, 0, 0))  # LVIR_LABEL
            send(hwnd, 0x100E, i, data)
            out.append(
                {
                    "text": text,
                    "rect": self.to_screen(hwnd, struct.unpack("<4i", there.read(data, 16))),
                    "selected": bool(state & 2),
                    "cells": cells,
                }
            )
        return out

    def tree_items(self, hwnd, pid):
        there, out = self.remote(pid), []
        item = send(hwnd, 0x110A, 0) if there else 0  # TVM_GETNEXTITEM, TVGN_ROOT
        first = send(hwnd, 0x110A, 5) if there else 0  # TVGN_FIRSTVISIBLE
        item, data, words = (
            first or item,
            (there.memory if there else 0) + 0x8000,
            (there.memory if there else 0) + 0x8100,
        )
        client = w.RECT()
        user32.GetClientRect(hwnd, ctypes.byref(client))
        while item and len(out) < 60:
            there.write(words, b"\0\0")
            there.write(
                data,
                struct.pack(
                    "<IxxxxQIIQiiiixxxxxxxx", 1 | 8 | 0x10, item, 0, 0xFFFF, words, 200, 0, 0, 0
                ),
            )  # TVITEMW
            send(hwnd, 0x113E, 0, data)
            state = struct.unpack_from("<I", there.read(data, 24), 16)[0]
            text = there.read(words, 400).decode("utf-16-le", "replace").partition("\0")[0]
            there.write(data, struct.pack("<Q", item) + bytes(8))
            shown = send(hwnd, 0x1104, 1, data)  # TVM_GETITEMRECT of the text
            rect = struct.unpack("<4i", there.read(data, 16))
            if not shown or rect[1] >= client.bottom:
                break
            out.append(
                {
                    "text": text,
                    "rect": self.to_screen(hwnd, rect),
                    "selected": bool(state & 2),
                    "expanded": bool(state & 0x20),
                    "handle": item,
                }
            )
            item = send(hwnd, 0x110A, 6, item)  # TVGN_NEXTVISIBLE
        return out

    def box_items(self, hwnd):
        out, selected = [], signed(send(hwnd, 0x0188))
        for i in range(min(signed(send(hwnd, 0x018B)) or 0, 40)):
            buffer, rect = ctypes.create_unicode_buffer(512), w.RECT()
            if (signed(send(hwnd, 0x018A, i)) or 999) < 500:
                send(hwnd, 0x0189, i, ctypes.addressof(buffer))
            send(hwnd, 0x0198, i, ctypes.addressof(rect))
            out.append(
                {
                    "text": buffer.value,
                    "rect": self.to_screen(hwnd, [rect.left, rect.top, rect.right, rect.bottom]),
                    "selected": i == selected,
                }
            )
        return out

    def tool_items(self, hwnd, pid):
        there, out = self.remote(pid), []
        for i in range(min(signed(send(hwnd, 0x0418)) or 0, 40) if there else 0):
            data = there.memory + 0x8000
            send(hwnd, 0x0417, i, data)  # TB_GETBUTTON
            command, state = struct.unpack_from("<iB", there.read(data, 16), 4)
            send(hwnd, 0x041D, i, data)  # TB_GETITEMRECT
            out.append(
                {
                    "text": f"toolbar button {command}",
                    "command": command,
                    "checked": bool(state & 1),
                    "rect": self.to_screen(hwnd, struct.unpack("<4i", there.read(data, 16))),
                }
            )
        return out

    def program(self, pid):
        handle, buffer, size = (
            kernel32.OpenProcess(0x1000, False, pid),
            ctypes.create_unicode_buffer(512),
            w.DWORD(512),
        )
        if handle:
            kernel32.QueryFullProcessImageNameW(handle, 0, buffer, ctypes.byref(size))
            kernel32.CloseHandle(handle)
        return buffer.value.replace("\\", "/").rpartition("/")[2]

    def clipboard(self):
        for _ in range(5):
            if user32.OpenClipboard(None):
                try:
                    data = user32.GetClipboardData(13)
                    words = kernel32.GlobalLock(data) if data else None
                    text = ctypes.wstring_at(words) if words else ""
                    if words:
                        kernel32.GlobalUnlock(data)
                    return text
                finally:
                    user32.CloseClipboard()
            time.sleep(0.01)
        return None

    def ping(self):
        return {"ok": True}

    def registry(self, values):
        out = []
        for key, name in values:
            try:
                with winreg.OpenKey(winreg.HKEY_CURRENT_USER, key) as opened:
                    out.append(winreg.QueryValueEx(opened, name)[0])
            except OSError:
                out.append(None)
        return {"values": out}

    def place(self, hwnd, rect):
        left, top, right, bottom = rect
        flags = (
            0x0004 | 0x0010 | (0x0001 if right <= left else 0)
        )  # SWP_NOZORDER | SWP_NOACTIVATE | SWP_NOSIZE
        return {
            "ok": bool(
                user32.SetWindowPos(
                    w.HWND(hwnd), None, left, top, right - left, bottom - top, flags
                )
            )
        }

    def state(self):
        start, place = time.time(), w.POINT()
        HUNG.clear()
        user32.GetCursorPos(ctypes.byref(place))
        front = user32.GetForegroundWindow() or 0
        _, thread = pid_of(front) if front else (0, 0)
        gui = ctypes.create_string_buffer(struct.pack("<II6Q4i", 72, 0, *[0] * 6, *[0] * 4))
        user32.GetGUIThreadInfo(thread, gui)
        _, flags, active, focus, capture, menu_owner, _, caret = struct.unpack_from(
            "<II6Q", gui.raw
        )
        out = {
            "screen": [user32.GetSystemMetrics(0), user32.GetSystemMetrics(1)],
            "cursor": [place.x, place.y],
            "foreground": front,
            "focus": focus,
            "menu_mode": bool(flags & 4),
            "windows": [],
            "menus": [],
        }
        hwnd, alive = user32.GetTopWindow(None), set()
        while hwnd and len(out["windows"]) < 60:
            if user32.IsWindowVisible(hwnd):
                pid, _ = pid_of(hwnd)
                alive.add(pid)
                name, rect = class_of(hwnd), rect_of(hwnd)
                if name == "#32768":
                    menu = send(hwnd, 0x01E1)
                    out["menus"].append(
                        {"hwnd": hwnd, "rect": rect, "items": self.items(pid, 0, menu), "pid": pid}
                    )
                elif rect[2] > rect[0] and rect[3] > rect[1]:
                    out["windows"].append(self.window(hwnd, pid, name, rect, focus))
            hwnd = user32.GetWindow(hwnd, 2)
        self.forget(alive)
        out["clipboard"] = self.clipboard()
        out["ms"] = round((time.time() - start) * 1000)
        return out

    def window(self, hwnd, pid, name, rect, focus):
        controls, found = [], []
        collect = ctypes.WINFUNCTYPE(w.BOOL, w.HWND, w.LPARAM)(
            lambda child, _: found.append(child) or True
        )
        user32.EnumChildWindows(hwnd, collect, 0)
        minimized = bool(user32.IsIconic(hwnd))
        for child in [] if minimized else found[:120]:
            if user32.IsWindowVisible(child):
                controls.append(self.control(child, pid, focus))
        menu = (
            user32.GetMenu(hwnd)
            if user32.GetWindowLongPtrW(hwnd, -16) & 0xC00000 == 0xC00000
            else 0
        )
        return {
            "hwnd": hwnd,
            "title": text_of(hwnd, 300),
            "class": name,
            "rect": rect,
            "pid": pid,
            "program": self.program(pid),
            "enabled": bool(user32.IsWindowEnabled(hwnd)),
            "minimized": minimized,
            "owner": user32.GetWindow(hwnd, 4) or 0,
            "focus": hwnd == focus,
            "controls": controls,
            "items": self.box_items(hwnd) if name == "ComboLBox" else [],
            "menubar": [] if minimized or not menu else self.items(pid, hwnd, menu),
        }


def main(port):
    user32.SetProcessDPIAware()
    spy, server = Spy(), socket.create_server(("127.0.0.1", port))
    print(f"spy on {port}", flush=True)
    while True:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb") as stream:
            for line in stream:
                try:
                    order = json.loads(line)
                    if order["do"] == "quit":
                        return
                    answer = getattr(spy, order.pop("do"))(**order)
                except Exception as error:  # a window that closes in this moment, for instance
                    answer = {"error": f"{type(error).__name__}: {error}"}
                stream.write(json.dumps(answer).encode() + b"\n")
                stream.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
