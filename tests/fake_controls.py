"""Programs with controls, without Windows: COM objects made of callbacks behind the program's own tables.

    world = FakeControls([Node("Save", kind=50000, rect=(10, 10, 80, 24))])
    controls, problems = world.ask(point=(20, 20))
    world.verify()

Every call crosses real ctypes marshalling. The places of methods are those of Microsoft's headers, not taken from agent.py,
so that a wrong number shows as a call of something else. What is handed out (objects, texts, VARIANTs) must come back:
`verify` says what did not.
"""

from __future__ import annotations

import ctypes
import gc
import pickle
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import agent
from agent import Rect
from tests.fakes import FakeWin32, put

P = ctypes.c_void_p
I = ctypes.c_int32  # noqa: E741


class POINT(ctypes.Structure):
    _fields_ = [("x", I), ("y", I)]


class VARIANT(ctypes.Structure):
    _fields_ = [
        ("vt", ctypes.c_uint16),
        ("pad", ctypes.c_uint16 * 3),
        ("a", ctypes.c_int64),
        ("b", P),
    ]


# Each method's interface, its place there in UIAutomationClient.h and ShObjIdl.h, and what it takes behind the object.
METHODS: dict[str, tuple[str, int, list[Any]]] = {
    "Release": ("IUnknown", 2, []),
    "ElementFromHandleBuildCache": ("IUIAutomation", 10, [P, P, P]),
    "ElementFromPointBuildCache": ("IUIAutomation", 11, [POINT, P, P]),
    "GetFocusedElementBuildCache": ("IUIAutomation", 12, [P, P]),
    "get_ControlViewWalker": ("IUIAutomation", 14, [P]),
    "CreateCacheRequest": ("IUIAutomation", 20, [P]),
    "AddProperty": ("IUIAutomationCacheRequest", 3, [I]),
    "GetCachedPropertyValueEx": ("IUIAutomationElement", 13, [I, I, P]),
    "get_CachedBoundingRectangle": ("IUIAutomationElement", 75, [P]),
    "GetParentElementBuildCache": ("IUIAutomationTreeWalker", 9, [P, P, P]),
    "GetFirstChildElementBuildCache": ("IUIAutomationTreeWalker", 10, [P, P, P]),
    "GetNextSiblingElementBuildCache": ("IUIAutomationTreeWalker", 12, [P, P, P]),
    "GetPreviousSiblingElementBuildCache": ("IUIAutomationTreeWalker", 13, [P, P, P]),
    "BindToHandler": ("IShellItem", 3, [P, P, P, P]),
    "GetDisplayName": ("IShellItem", 5, [ctypes.c_uint32, P]),
    "Next": ("IEnumShellItems", 3, [ctypes.c_uint32, P, P]),
}
INTERFACES = {interface for interface, _, _ in METHODS.values()}
SLOTS = 90  # in every table of methods, of which nobody calls the others

E_FAIL, NOT_REGISTERED = -2147467259, -2147221164
DEFAULT_RECT = Rect(0, 0, 800, 600)


@dataclass(eq=False)
class Node:
    """A control as its program tells it to UI Automation."""

    name: str | None = ""
    kind: int = 50000
    rect: Rect = DEFAULT_RECT
    value: str | None = None
    read_only: bool | None = None
    toggled: int | None = None
    expanded: int | None = None
    chosen: bool | None = None
    aria: str = ""
    enabled: bool = True
    focused: bool = False
    password: bool = False
    offscreen: bool = False
    children: list[Node] = field(default_factory=list)

    def all(self) -> Iterable[Node]:
        for child in self.children:
            yield from child.all()
        yield self


@dataclass(eq=False)
class Win:
    """A window of user32; `deaf` answers no message."""

    handle: int
    class_name: str = "Window"
    text: str = ""
    rect: Rect = DEFAULT_RECT
    style: int = 0x50000000  # a visible child
    parent: int = 0
    process: int = 4711
    visible: bool = True
    enabled: bool = True
    deaf: bool = False
    check: int = 0
    root: Node | None = None  # what UI Automation knows of it


class FakeControls:
    """A Windows with these windows, topmost first; `api` is agent's Win32 with the functions of the worker."""

    def __init__(self, windows: Iterable[Win], automation: bool = True) -> None:
        self.windows = list(windows)
        self.automation = automation
        self.focus = 0
        self.problems, self.calls = list[str](), list[str]()
        self.fail_at = 0
        self.failure = E_FAIL
        self.objects: dict[int, tuple[str, Any]] = {}
        self.references: dict[int, int] = {}
        self.texts: dict[int, Any] = {}
        self._keep: list[Any] = []
        self._vtables = {name: self._vtable(name) for name in INTERFACES}
        self.api = agent.Win32(self.resolve, lambda: 31, agent.CONTROL_FUNCTIONS)
        self.automation_source: Any = agent.UIAutomation(self.api)

    # -- what a test does

    def ask(
        self, point: tuple[int, int] | None = None, window: int = 0, seconds: float = 60.0
    ) -> tuple[list[agent.Control], list[str]]:
        """The controls and the problems of a query, as they arrive from the process that asks."""
        inside = agent.Window(window, "") if window else None
        where: agent.Where = agent.Point(*point) if point else inside
        sent = pickle.loads(
            pickle.dumps(agent.known_controls(self.automation_source, where, seconds))
        )
        return list(sent.controls), list(sent.problems)

    def verify(self) -> None:
        """Raises AssertionError for what was done wrong or not given back."""
        self.automation_source = None
        gc.collect()
        wrong = list(self.problems)
        wrong += [self.objects[at][0] for at, count in self.references.items() if count]
        wrong += [f"text {text[0]!r} was not freed" for text in self.texts.values()]
        assert not wrong, wrong[:8]

    # -- objects

    def _vtable(self, interface: str) -> Any:
        table = (P * SLOTS)(*[self._callback(interface, "another method", [])] * SLOTS)
        for name, (owner, slot, kinds) in METHODS.items():
            if owner in (interface, "IUnknown"):
                table[slot] = self._callback(interface, name, kinds)
        return table

    def _callback(self, interface: str, name: str, kinds: list[Any]) -> int | None:
        callback = ctypes.CFUNCTYPE(I, P, *kinds)(self._method(interface, name))
        self._keep.append(callback)
        return ctypes.cast(callback, P).value

    def _method(self, interface: str, name: str) -> Callable[..., int]:
        def method(this: int, *arguments: Any) -> int:
            try:
                return self._called(interface, name, this, arguments)
            except BaseException as error:
                self.problems.append(f"{interface}.{name}: {type(error).__name__}: {error}")
                return E_FAIL

        return method

    def _called(self, interface: str, name: str, this: int, arguments: tuple[Any, ...]) -> int:
        assert self.references.get(this, 0) > 0, "called after its release"
        assert self.objects[this][0] == interface, f"called on a {self.objects[this][0]}"
        if name == "Release":
            self.references[this] -= 1
            return self.references[this]
        if self._fails(f"{interface}.{name}"):
            return self.failure
        body = getattr(self, f"_{name}", None)
        assert body, "nobody calls that"
        return body(self.objects[this][1], *arguments) or 0

    def _fails(self, name: str) -> bool:
        self.calls.append(name)
        return len(self.calls) == self.fail_at

    def give(self, place: int, interface: str, thing: Any) -> None:
        """Writes a new reference to an object where the caller wants it; None is a null one."""
        address = self.object_of(interface, thing) if thing is not None else None
        P.from_address(place).value = address

    def object_of(self, interface: str, thing: Any) -> int:
        memory = P(ctypes.addressof(self._vtables[interface]))
        self._keep.append(memory)
        address = ctypes.addressof(memory)
        self.objects[address] = (interface, thing)
        self.references[address] = 1
        return address

    def text_of(self, text: str) -> int:
        """A BSTR: UTF-16 and its length in bytes before it."""
        raw = text.encode("utf-16-le")
        buffer = ctypes.create_string_buffer(struct.pack("<I", len(raw)) + raw + b"\0\0")
        address = ctypes.addressof(buffer) + 4
        self.texts[address] = (text, buffer)
        return address

    def put_variant(self, place: int, kind: int, value: int) -> int:
        variant = VARIANT.from_address(place)
        variant.vt, variant.a = kind, value
        return 0

    # -- the shell's folder of all apps, each a name and what it is to the shell

    apps: Sequence[tuple[str, str]] = ()

    def f_SHCreateItemFromParsingName(self, name: str, _: Any, iid: int, place: int) -> int:
        wanted = ctypes.string_at(iid, 16).hex()
        assert (name, wanted) == ("shell:AppsFolder", "1e6d824318e7ee42bc55a1e261c37bfe"), wanted
        self.give(place, "IShellItem", list(self.apps))
        return 0

    def _BindToHandler(self, apps: Any, _: Any, handler: int, iid: int, place: int) -> None:
        wanted = ctypes.string_at(handler, 16).hex() + ctypes.string_at(iid, 16).hex()
        assert wanted == "1905f69450282449aa5ad15e84868039" + "3390627063e3284aa5670db78006e6d7"
        self.give(place, "IEnumShellItems", apps)

    def _Next(self, apps: list[Any], wanted: int, place: int, got: Any) -> int:
        assert (wanted, got) == (1, None)
        self.give(place, "IShellItem", apps.pop(0) if apps else None)
        return 0 if P.from_address(place).value else 1

    def _GetDisplayName(self, app: tuple[str, str], form: int, place: int) -> None:
        assert form in (0, 0x80018001), form
        buffer = ctypes.create_unicode_buffer(app[1] if form else app[0])
        self.texts[ctypes.addressof(buffer)] = (app[0], buffer)
        P.from_address(place).value = ctypes.addressof(buffer)

    def f_CoTaskMemFree(self, memory: int) -> int:
        del self.texts[memory]
        return 0

    def f_CoUninitialize(self) -> int:
        return 0

    # -- UI Automation

    def _CreateCacheRequest(self, _: Any, place: int) -> None:
        self.give(place, "IUIAutomationCacheRequest", [])

    def _AddProperty(self, wanted: list[int], number: int) -> None:
        wanted.append(number)

    def _get_ControlViewWalker(self, _: Any, place: int) -> None:
        self.give(place, "IUIAutomationTreeWalker", "walker")

    def _ElementFromHandleBuildCache(self, _: Any, handle: int, request: int, place: int) -> None:
        window = self.window(handle)
        self.give(place, "IUIAutomationElement", window and window.root)

    def _ElementFromPointBuildCache(self, _: Any, point: POINT, request: int, place: int) -> None:
        self.give(place, "IUIAutomationElement", self.node_at(point))

    def _GetFocusedElementBuildCache(self, _: Any, request: int, place: int) -> None:
        self.give(place, "IUIAutomationElement", self.focused_node())

    def _GetParentElementBuildCache(self, _: Any, element: int, request: int, place: int) -> None:
        node = self.objects[element][1]
        all_of_them = [one for window in self.windows if window.root for one in window.root.all()]
        holders = [one for one in all_of_them if node in one.children]
        self.give(place, "IUIAutomationElement", holders[0] if holders else None)

    def _GetFirstChildElementBuildCache(
        self, _: Any, element: int, request: int, place: int
    ) -> None:
        children = self.objects[element][1].children
        self.give(place, "IUIAutomationElement", children[0] if children else None)

    def _GetNextSiblingElementBuildCache(
        self, _: Any, element: int, request: int, place: int
    ) -> None:
        self.give(place, "IUIAutomationElement", self.beside(element, 1))

    def _GetPreviousSiblingElementBuildCache(
        self, _: Any, element: int, request: int, place: int
    ) -> None:
        self.give(place, "IUIAutomationElement", self.beside(element, -1))

    def beside(self, element: int, way: int) -> Node | None:
        node = self.objects[element][1]
        for window in self.windows:
            for holder in window.root.all() if window.root else ():
                if node in holder.children:
                    return dict(enumerate(holder.children)).get(holder.children.index(node) + way)
        return None

    def _get_CachedBoundingRectangle(self, node: Node, place: int) -> None:
        put(place, "4i", *node.rect[:2], node.rect.right, node.rect.bottom)

    def _GetCachedPropertyValueEx(self, node: Node, number: int, ignore: int, place: int) -> int:
        assert ignore == 1, "a default is wanted"
        assert number != 30045 or not node.password, "a password is read"
        value = {
            30002: next((w.process for w in self.windows if w.root and node in w.root.all()), 0),
            30003: node.kind,
            30005: node.name,
            30008: node.focused,
            30010: node.enabled,
            30011: "",
            30019: node.password,
            30022: node.offscreen,
            30045: node.value,
            30046: node.read_only,
            30070: node.expanded,
            30079: node.chosen,
            30086: node.toggled,
            30101: node.aria,
        }[number]
        if isinstance(value, bool):
            return self.put_variant(place, 11, 0xFFFF if value else 0)
        if isinstance(value, int):
            return self.put_variant(place, 3, value)
        if value is not None:
            return self.put_variant(place, 8, self.text_of(value))
        return self.put_variant(place, 13, self.object_of("IUnknown", "not supported"))

    # -- the functions of DLLs

    def window(self, handle: int | None) -> Win | None:
        return next((window for window in self.windows if window.handle == handle), None)

    def node_at(self, point: Any) -> Node | None:
        hit = self.hit(point)
        top = hit and self.window(self.f_GetAncestor(hit.handle, 2))
        for node in top.root.all() if top and top.root else ():
            if node.rect.contains(agent.Point(point.x, point.y)):
                return node
        return None

    def focused_node(self) -> Node | None:
        nodes = [node for window in self.windows if window.root for node in window.root.all()]
        return next((node for node in nodes if node.focused), None)

    def hit(self, point: Any) -> Win | None:
        place = agent.Point(point.x, point.y)
        over = [window for window in self.windows if window.visible and window.rect.contains(place)]
        inner = [w for w in over if w.parent and w.enabled and w.class_name != "Static"]
        return next(iter([*inner[-1:], *over]), None)

    def resolve(self, dll: str, name: str, restype: Any, argtypes: list[Any]) -> Callable[..., Any]:
        body = getattr(self, f"f_{name}", None) or self.of_window(getattr(self, f"w_{name}"))

        def answer(*arguments: Any) -> Any:
            try:
                row = (agent.WIN32 | agent.CONTROL_FUNCTIONS)[name]
                if self._fails(name) and row.check != "any":
                    return self.failure if row.check == "succeeded" else 0
                result = body(*arguments)
                return result if restype is not P else result or None
            except BaseException as error:
                self.problems.append(f"{name}{arguments}: {type(error).__name__}: {error}")
                return 0

        crossing = ctypes.CFUNCTYPE(restype, *argtypes)(answer)
        self._keep.append(crossing)

        def function(*arguments: Any) -> Any:
            if len(arguments) != len(argtypes):
                self.problems.append(f"{name} got {len(arguments)} arguments")
            return crossing(*arguments)

        return function

    def of_window(self, body: Callable[..., int]) -> Callable[..., int]:
        """A function that is asked of a window by its handle, and answers 0 for none."""

        def function(handle: int, *arguments: Any) -> int:
            window = self.window(handle)
            return body(window, *arguments) if window else 0

        return function

    def f_CoInitializeEx(self, reserved: Any, mode: int) -> int:
        return 0 if mode in (0, 6) else E_FAIL  # 6: of a thread's own, for the shell

    def f_CoCreateInstance(self, clsid: int, outer: Any, context: int, iid: int, place: int) -> int:
        wanted = ctypes.string_at(clsid, 16).hex() + ctypes.string_at(iid, 16).hex()
        assert wanted == "a4db48ffef600142aa8754103eef594e7de5cb30d0d92a45ab137ac5ac4825ee", wanted
        assert context == 1, context
        if not self.automation:
            return NOT_REGISTERED
        self.give(place, "IUIAutomation", "automation")
        return 0

    def f_SysStringLen(self, text: int) -> int:
        return len(self.texts[text][0].encode("utf-16-le")) // 2

    def f_VariantClear(self, place: int) -> int:
        variant = VARIANT.from_address(place)
        if variant.vt == 8 and variant.a:
            del self.texts[variant.a]
        if variant.vt in (9, 13) and variant.a:
            self.references[variant.a] -= 1
        variant.vt = 0
        return 0

    def f_WindowFromPoint(self, point: Any) -> int:
        hit = self.hit(point)
        return hit.handle if hit else 0

    def f_GetAncestor(self, handle: int, which: int) -> int:
        window = self.window(handle)
        while window and window.parent:
            window = self.window(window.parent)
        return window.handle if window else 0

    def f_GetForegroundWindow(self) -> int:
        return next((window.handle for window in self.windows if not window.parent), 0)

    def w_GetWindowTextW(self, window: Win, place: int, size: int) -> int:
        return FakeWin32._write(place, size, "" if window.parent else window.text)

    def w_GetClassNameW(self, window: Win, place: int, size: int) -> int:
        return FakeWin32._write(place, size, window.class_name)

    def w_GetWindowRect(self, window: Win, place: int) -> int:
        put(place, "4i", *window.rect[:2], window.rect.right, window.rect.bottom)
        return 1

    def w_GetWindowThreadProcessId(self, window: Win, place: int) -> int:
        put(place, "I", window.process)
        return 99

    def w_GetWindow(self, window: Win, which: int) -> int:
        if which == 5:
            return next((w.handle for w in self.windows if w.parent == window.handle), 0)
        same = [w.handle for w in self.windows if w.parent == window.parent]
        return [*same, 0][same.index(window.handle) + {2: 1, 3: -1}[which]]

    def f_EnumWindows(self, take: int, value: int) -> int:
        callback = ctypes.CFUNCTYPE(ctypes.c_int32, P, ctypes.c_ssize_t)(take)
        for window in self.windows:
            if not window.parent and not callback(window.handle, value):
                return 0
        return 1

    def f_EnumChildWindows(self, parent: int, take: int, value: int) -> int:
        callback = ctypes.CFUNCTYPE(ctypes.c_int32, P, ctypes.c_ssize_t)(take)
        for window in self.windows:
            if window.parent == parent:
                callback(window.handle, value)
                self.f_EnumChildWindows(window.handle, take, value)
        return 0

    def w_IsWindowVisible(self, window: Win) -> int:
        return int(window.visible)

    def w_IsWindowEnabled(self, window: Win) -> int:
        return int(window.enabled)

    def w_GetWindowLongW(self, window: Win, which: int) -> int:
        return window.style if which == -16 else 0

    def f_GetGUIThreadInfo(self, thread: int, place: int) -> int:
        assert ctypes.c_uint32.from_address(place).value == 72, "GUITHREADINFO has another size"
        P.from_address(place + 16).value = self.focus or None
        return 1

    def w_SendMessageTimeoutW(
        self, window: Win, message: int, size: int, buffer: int, flags: int, ms: int, place: int
    ) -> int:
        if window.deaf:
            return 0
        assert message in (0, 0x0D, 0xF0) and flags == 2 and ms <= 50, (message, flags, ms)
        answer = window.check if message == 0xF0 else 0
        if message == 0x0D:
            answer = FakeWin32._write(buffer, size, window.text)
        ctypes.c_size_t.from_address(place).value = answer
        return 1
