"""The tasks of the benchmark: what is asked, how the desktop is made ready, what a model that sees it would do next, and
what counts as done (files, registry; never anybody's word).

`Screen.extras` are the tools beyond clicks and keys that a savvy model uses where the request offers them: "open" (a program by
its name), "focus" (a window by its title), "type_at" (a text with the field's place, clear and submit), "keys" (shortcuts
instead of menus, several in one call). Without them the rules are what they always were.

A task is an ordered list of rules (name, holds, act), the most advanced first: the first that holds wins. `act` is an act or
a function that makes one, or None where the target is not there. Rules read a Screen (the spy's state with helpers) and
`seen`, the text of the request, which is all that a memoryless model has beside its picture.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

MODEL_HEIGHT, MODEL_WIDTH = 864, 1536


class Screen:
    """The spy's state, with words for what rules ask."""

    def __init__(self, raw, seen="", can=lambda role: True, disk=None, extras=frozenset()):
        self.raw, self.seen, self.can, self.disk, self.extras = raw, seen, can, disk, extras
        self.width, self.height = raw.get("screen", [1920, 1080])
        self.all, self.menus = raw.get("windows", []), raw.get("menus", [])
        self.front = next(
            (w for w in self.all if w["hwnd"] == raw.get("foreground") and not w["minimized"]), None
        )
        self.menu_mode = raw.get("menu_mode")

    def window(self, title="", cls="", program="", minimized=None):
        for w in self.all:
            if (
                re.search(title, w["title"])
                and re.search(cls, w["class"])
                and re.search(program, w["program"], re.I)
                and (minimized is None or minimized == w["minimized"])
            ):
                return w
        return None

    def in_front(self, window):
        return bool(window) and self.front is not None and self.front["hwnd"] == window["hwnd"]

    def dialog(self, title):
        """A dialog of that title that nothing covers; it need not be in front: a click brings it there."""
        for place, w in enumerate(self.all):
            if (
                w["class"] == "#32770"
                and re.fullmatch(title, w["title"])
                and not w["minimized"]
                and w["enabled"]
            ):
                x, y = (w["rect"][0] + w["rect"][2]) // 2, (w["rect"][1] + w["rect"][3]) // 2
                return (
                    None
                    if any(
                        v["rect"][0] <= x < v["rect"][2] and v["rect"][1] <= y < v["rect"][3]
                        for v in self.all[:place]
                    )
                    else w
                )
        return None

    def item(self, text, grey=False):
        """An item of an open popup menu."""
        return next(
            (
                i
                for m in self.menus
                for i in m["items"]
                if i["text"] == text and (grey or i["enabled"])
            ),
            None,
        )

    def bar(self, window, text):
        return next((i for i in (window or {}).get("menubar", []) if i["text"] == text), None)

    def control(self, window, kind="", id=None, text=None):
        for c in (window or {}).get("controls", []):
            if (
                re.fullmatch(kind or ".*", c["kind"])
                and id in (None, c["id"])
                and text in (None, c["text"].replace("&", ""))
            ):
                return c
        return None

    def task_button(self, window):
        bar = self.window(cls="^Shell_TrayWnd$")
        return next(
            (c for c in (bar or {}).get("controls", []) if window and c["id"] == window["hwnd"]),
            None,
        )

    def start_button(self):
        bar = self.window(cls="^Shell_TrayWnd$")
        return next((c for c in (bar or {}).get("controls", []) if c["id"] == 0), None)

    def empty_desktop(self):
        """A place where nothing but the desktop is, as a target."""
        rects = [w["rect"] for w in self.all if not w["minimized"]] + [
            m["rect"] for m in self.menus
        ]
        for y in range(self.height - 120, 60, -80):
            for x in range(self.width - 160, 100, -160):
                if not any(
                    left - 60 < x < right + 60 and top - 40 < y < bottom + 40
                    for left, top, right, bottom in rects
                ):
                    return {"rect": [x - 60, y - 30, x + 60, y + 30]}
        return None

    def targets(self):
        """Everything one could click: (name, rect); for a model that mixes targets up."""
        out = [(i["text"], i["rect"]) for m in self.menus for i in m["items"] if i["text"]]
        out += [(i["text"], i["rect"]) for i in (self.front or {}).get("menubar", []) if i["text"]]
        for c in (self.front or {}).get("controls", []):
            if c["kind"] in ("button", "checkbox", "radio", "edit", "combobox"):
                out.append((c["text"][:40] or c["kind"], c["rect"]))
            out += [(i["text"], i["rect"]) for i in c.get("tabs", []) + c.get("items", [])]
        out += [(i["text"], i["rect"]) for w in self.all for i in w.get("items", [])]
        out += [(w["title"], self.task_button(w)["rect"]) for w in self.all if self.task_button(w)]
        if self.start_button():
            out.append(("Start", self.start_button()["rect"]))
        return [
            (n, r)
            for n, r in out
            if r[2] > r[0]
            and r[3] > r[1]
            and 0 <= (r[0] + r[2]) // 2 < self.width
            and 0 <= (r[1] + r[3]) // 2 < self.height
        ]


# ---- acts


def click(target, name, do="click"):
    return {"do": do, "rect": target["rect"], "name": name} if target else None


def type_text(text):
    return {"do": "type", "text": text}


def key(name):
    return {"do": "key", "key": name}


COMPLETE = {"do": "complete"}
SHORTCUTS = {
    "Save": "ctrl+s",
    "Save as...": "ctrl+s",
    "Open...": "ctrl+o",
    "Replace...": "ctrl+h",
    "Select all": "ctrl+a",
    "Copy": "ctrl+c",
    "Paste": "ctrl+v",
}
AND_THEN = {"Select all": "ctrl+c", "Paste": "ctrl+s"}  # what the tasks want next anyway


def to_front(s, window, name):
    """A click on the window's button in the taskbar, or the tool for it."""
    if window and "focus" in s.extras:
        return {"do": "focus", "title": window["title"], "name": window["title"]}
    return click(s.task_button(window), name)


# ---- rules that come again and again


def menu_path(s, window, bar, item, holds, note=""):
    """Through a menu of the window's bar to one of its items, by mouse."""
    if "keys" in s.extras and not s.menus:
        pressed = key(SHORTCUTS[item]) | ({"then": [AND_THEN[item]]} if item in AND_THEN else {})
        return [(f"press {SHORTCUTS[item]} for {bar}/{item}", holds, pressed)]
    return [
        (
            f"click {bar}/{item}",
            holds and s.item(item),
            lambda: click(s.item(item), f"{item} menu item"),
        ),
        (
            f"open menu {bar}",
            holds and not s.menus,
            lambda: click(s.bar(window, bar), f"{bar} menu"),
        ),
    ]


def fill(s, edit, text, holds, name, submit=False):
    """Makes a field hold this text. Only asked for while it holds another one. `submit`: Enter is what comes after it."""
    selected = edit and edit.get("selection") == [0, len(edit["text"])]
    ready = edit and (not edit["text"] or selected)
    if "type_at" in s.extras and edit:
        act = type_text(text) | {"name": name} | ({} if edit["focus"] else {"rect": edit["rect"]})
        return [
            (
                f"type {name}",
                holds,
                act | ({} if ready else {"clear": True}) | ({"submit": True} if submit else {}),
            )
        ]
    return [
        (f"type {name}", holds and edit and edit["focus"] and ready, type_text(text)),
        (f"select all of {name}", holds and edit and edit["focus"], key("ctrl+a")),
        (f"click {name}", holds and edit, lambda: click(edit, name)),
    ]


def start_program(s, command, holds):
    """Start menu, Run..., the command, OK."""
    run = s.dialog("Run")
    if "open" in s.extras and not run and not s.menus and " " not in command:
        return [(f"open {command}", holds, {"do": "open", "app": command, "name": command})]
    edit = s.control(run, "edit")
    return [
        (
            "Run: OK",
            holds and run and edit and edit["text"] == command,
            lambda: click(s.control(run, "button", text="OK"), "OK button"),
        ),
        *fill(s, edit, command, holds and run, "Open field", submit=True),
        (
            "Start menu: Run",
            holds and s.item("Run..."),
            lambda: click(s.item("Run..."), "Run... menu item"),
        ),
        ("Start button", holds and not s.menus, lambda: click(s.start_button(), "Start button")),
    ]


def come_back(s, wanted, window, items=(), dialogs=(), answers=()):
    """Out of what no rule of the task wants: menus, dialogs, windows in front. `wanted`: may the front window stay?"""
    front = s.front
    box = (
        front
        if front and front["class"] == "#32770" and front["program"] not in ("winecfg.exe",)
        else None
    )
    buttons = {c["text"]: c for c in (box or {}).get("controls", []) if c["kind"] == "button"}
    said = " ".join(c["text"] for c in (box or {}).get("controls", []) if c["kind"] == "static")
    known = (
        box
        and re.fullmatch("|".join(dialogs) or "-", box["title"])
        and not ({"Yes", "No"} <= buttons.keys())
    )
    answer = next(
        (button for pattern, button in answers if re.search(pattern, said) and button in buttons),
        None,
    )
    lists = s.window(cls="^ComboLBox$")
    popup = next(
        (
            w
            for w in s.all
            if window
            and w["pid"] == window["pid"]
            and w["hwnd"] != window["hwnd"]
            and w["class"] == "#32770"
            and w["enabled"]
            and not w["minimized"]
        ),
        None,
    )
    foreign = s.menus and all(
        m["pid"] != (front or {}).get("pid") for m in s.menus
    )  # it does not get the keyboard
    return [
        (
            "click a menu away",
            foreign and not any(s.item(item, grey=True) for item in items),
            lambda: click(s.empty_desktop(), "empty desktop"),
        ),
        (
            "leave an open menu",
            s.menus and not any(s.item(item, grey=True) for item in items),
            key("escape"),
        ),
        ("leave the menu bar", s.menu_mode and not s.menus, key("escape")),
        ("close a dropped list", lists, key("escape")),
        ("answer a question", answer, lambda: click(buttons[answer], f"{answer} button")),
        (
            "say No",
            box and not known and "No" in buttons and "Cancel" not in buttons,
            lambda: click(buttons["No"], "No button"),
        ),
        ("close a dialog", box and not known and not s.menus, key("escape")),
        (
            "the dialog to the front",
            not known and not wanted and popup and not s.in_front(popup) and not s.menus,
            lambda: (
                to_front(s, popup, "")
                if "focus" in s.extras
                else click(
                    {
                        "rect": [
                            popup["rect"][0] + 30,
                            popup["rect"][1] + 4,
                            popup["rect"][2] - 90,
                            popup["rect"][1] + 20,
                        ]
                    },
                    f"{popup['title']} title bar",
                )
            ),
        ),
        (
            "another window to the front",
            not known and not wanted and window and not s.menus,
            lambda: to_front(s, window, f"{window['title']} button in the taskbar"),
        ),
    ]


def normal(text):
    return text.replace("\r\n", "\n").rstrip("\n")


def edit_of(s, pad):
    return next(
        (c for c in (pad or {}).get("controls", []) if c["kind"] == "edit" and c.get("multiline")),
        None,
    )


def read_file(drive: Path, name: str) -> str | None:
    """A text file's text, whatever Notepad wrote it in; None if there is no such file."""
    path = drive.joinpath(*name.split("\\")[1:])
    if not path.is_file():
        return None
    raw = path.read_bytes()
    encodings = ["utf-8", "cp1252"]
    if raw[:3] == b"\xef\xbb\xbf":
        encodings = ["utf-8-sig"]
    elif raw[:2] == b"\xff\xfe":
        encodings = ["utf-16"]
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            return normal(raw.decode(encoding))
    return repr(raw)


class Task:
    name, text, files, programs, places = "", "", {}, (), {}
    registry = ()
    checks = ((), ())  # what a planner says proves the task done: exact words, and vague ones
    window = ""  # title of the window that must be there before the run begins

    def rules(self, s):
        raise NotImplementedError

    def check(self, drive, registry):
        """(done, why not): from files and registry alone."""
        raise NotImplementedError


class Save(Task):
    name = "save"
    want = "Grüße! 3 × 4 = 12"
    text = 'Open Notepad from the Start menu\'s Run dialog, type the line "Grüße! 3 × 4 = 12" and save the file as C:\\out\\note.txt.'

    checks = (
        ("C:\\out\\note.txt exists", f'C:\\out\\note.txt contains the text "{want}"'),
        ("Notepad shows the line that was asked for", "The file note.txt is saved"),
    )

    def rules(self, s):
        want, path = self.want, "C:\\out\\note.txt"
        front = s.front
        pad = front if front and front["class"] == "Notepad" else s.window(cls="^Notepad$")
        edit, here, run = edit_of(s, pad), s.in_front(pad), s.dialog("Run")
        right = edit and normal(edit["text"]) == want
        named = pad and pad["title"].startswith("note.txt")
        box, free = s.dialog("Save As|Save as"), here and not s.menus
        name = s.control(box, "edit")
        doubt = "not confirmed" in s.seen and s.disk and not s.disk()[0]
        saving = box and name and "Yes" not in [c["text"] for c in box["controls"]]
        return [
            ("done", free and right and named and not edit["modified"] and not doubt, COMPLETE),
            *come_back(
                s,
                here or s.in_front(run),
                pad,
                ["Save as..."] if pad else ["Run..."],
                ["Save As|Save as", "Run"],
                [("already exists", "Yes")],
            ),
            (
                "Save As: Save",
                saving and name["text"] == path,
                lambda: click(s.control(box, "button", text="Save"), "Save button"),
            ),
            *fill(s, name, path, saving, "File name field", submit=True),
            *menu_path(s, pad, "File", "Save", here and right and named and not doubt),
            *menu_path(s, pad, "File", "Save as...", here and right),
            *fill(s, edit, want, free and edit and not right, "text area"),
            *start_program(s, "notepad", not pad),
        ]

    def check(self, drive, registry):
        got = read_file(drive, "C:\\out\\note.txt")
        return got == self.want, "" if got == self.want else f"C:\\out\\note.txt: {got!r}"


class Checkbox(Task):
    name = "checkbox"
    boxes = {
        "Automatically capture the mouse in full-screen windows": True,
        "Allow the window manager to decorate the windows": False,
        "Allow the window manager to control the windows": True,
        "Emulate a virtual desktop": True,
    }
    text = (
        'The window Wine configuration is open. On its tab Graphics switch on "Automatically capture the mouse in full-screen '
        'windows", switch off "Allow the window manager to decorate the windows", change nothing else, and close it with OK.'
    )
    programs = (["winecfg"],)
    window = "^Wine configuration$"
    places = {"^Wine configuration$": [640, 240, 0, 0]}
    checks = (
        (
            '"Automatically capture the mouse in full-screen windows" is switched on',
            '"Allow the window manager to decorate the windows" is switched off',
            "The window Wine configuration is closed",
        ),
        ("The two options are set as asked", "Wine configuration was closed with OK"),
    )
    registry = (
        ("Software\\Wine\\X11 Driver", "GrabFullscreen"),
        ("Software\\Wine\\X11 Driver", "Decorated"),
        ("Software\\Wine\\X11 Driver", "Managed"),
        ("Software\\Wine\\Explorer", "Desktop"),
    )

    def rules(self, s):
        window, run = s.window(title="^Wine configuration$"), s.dialog("Run")
        here, tabs = s.in_front(window), s.control(window, "tabs")
        on_graphics = here and tabs and tabs["selected"] == 2
        boxes = (
            {name: s.control(window, "checkbox", text=name) for name in self.boxes}
            if on_graphics
            else {}
        )
        wrong = [c for name, c in boxes.items() if c and c["checked"] != self.boxes[name]]
        tab = next((t for t in (tabs or {}).get("tabs", []) if t["text"] == "Graphics"), None)
        return [
            ("done", not window and s.disk and s.disk()[0] and not s.menus, COMPLETE),
            *come_back(
                s,
                here or s.in_front(run),
                window,
                [] if window else ["Run..."],
                ["Wine configuration", "Run"],
                [],
            ),
            (
                "OK",
                on_graphics and all(boxes.values()) and not wrong,
                lambda: click(s.control(window, "button", text="OK"), "OK button"),
            ),
            (
                "toggle",
                on_graphics and wrong,
                lambda: click(wrong[0], f"{wrong[0]['text']} checkbox"),
            ),
            ("tab Graphics", here and tab, lambda: click(tab, "Graphics tab")),
            *start_program(s, "winecfg", not window),
        ]

    def check(self, drive, registry):
        grab, decorated, managed, desktop = registry
        ok = grab == "Y" and decorated == "N" and managed in (None, "Y") and bool(desktop)
        return (
            ok,
            ""
            if ok
            else f"GrabFullscreen {grab} Decorated {decorated} Managed {managed} Desktop {desktop}",
        )


class Copy(Task):
    name = "copy"
    want = "Rechnung 4711: 3 × 250 = 750, fällig am 1. März"
    text = (
        "Two Notepad windows are open: source.txt and target.txt, which is empty. Copy the whole text of source.txt into target.txt "
        "by Select all, Copy and Paste of the Edit menu, and save target.txt."
    )
    files = {"C:\\in\\source.txt": (want + "\r\n").encode("cp1252"), "C:\\out\\target.txt": b""}
    programs = (["notepad", "C:\\in\\source.txt"], ["notepad", "C:\\out\\target.txt"])
    window = "^target.txt"
    places = {"^source.txt": [80, 60, 980, 560], "^target.txt": [560, 330, 1460, 830]}

    checks = (
        (f'C:\\out\\target.txt contains the text "{want}"', "target.txt has no unsaved changes"),
        ("target.txt shows the text of source.txt", "target.txt is saved"),
    )

    def rules(self, s):
        source, target, run = (
            s.window("^source.txt", "Notepad"),
            s.window("^target.txt", "Notepad"),
            s.dialog("Run"),
        )
        left, right = edit_of(s, source), edit_of(s, target)
        text = normal(right["text"]) if right else ""
        clip = s.raw.get("clipboard") or ""
        copied = normal(clip) == self.want and re.search(
            "Copy menu item|text is copied|ctrl\\+c", s.seen
        )
        good, intact = text == self.want, left and normal(left["text"]) == self.want
        selected = (
            left
            and intact
            and left["selection"]
            and left["selection"][0] == 0
            and left["selection"][1] >= len(self.want)
        )
        free = not s.menus
        at_source, at_target = s.in_front(source), s.in_front(target)
        all_of_target = right and (
            not right["text"] or right["selection"] == [0, len(right["text"])]
        )
        broken = source and not intact
        box = s.dialog("Open") if broken else None
        name = s.control(box, "edit")
        return [
            (
                "done",
                target and good and not right["modified"] and free and (at_source or at_target),
                COMPLETE,
            ),
            *come_back(
                s,
                at_source or at_target or s.in_front(run),
                target or source,
                ["Save", "Select all"] if source and target else ["Save", "Run..."],
                ["Run", "Open"] if broken else ["Run"],
                [("source.txt", "No")],
            ),
            *menu_path(s, target, "File", "Save", good and at_target),
            (
                "to target.txt",
                good and target and free,
                lambda: to_front(s, target, "target.txt - Notepad button in the taskbar"),
            ),
            *menu_path(s, target, "Edit", "Paste", copied and at_target and all_of_target),
            ("clear target.txt", copied and at_target and free and right["focus"], key("ctrl+a")),
            (
                "click into target.txt",
                copied and at_target and free,
                lambda: click(right, "text area of target.txt"),
            ),
            (
                "to target.txt",
                copied and target and free,
                lambda: to_front(s, target, "target.txt - Notepad button in the taskbar"),
            ),
            *menu_path(s, source, "Edit", "Copy", at_source and selected),
            *menu_path(s, source, "Edit", "Select all", at_source and intact),
            (
                "Open: Open",
                box and name and name["text"] == "C:\\in\\source.txt",
                lambda: click(s.control(box, "button", text="Open"), "Open button"),
            ),
            *fill(s, name, "C:\\in\\source.txt", box and name, "File name field", submit=True),
            *menu_path(s, source, "File", "Open...", at_source and broken),
            (
                "to source.txt",
                source and free,
                lambda: to_front(s, source, "source.txt - Notepad button in the taskbar"),
            ),
            *start_program(
                s,
                "notepad C:\\in\\source.txt" if not source else "notepad C:\\out\\target.txt",
                not source or not target,
            ),
        ]

    def check(self, drive, registry):
        got = read_file(drive, "C:\\out\\target.txt")
        return got == self.want, "" if got == self.want else f"C:\\out\\target.txt: {got!r}"


class Rename(Task):
    name = "rename"
    others = ("notes.txt", "plan.txt", "report.txt", "todo.txt")
    text = (
        "The Explorer window shows the folder C:\\in. Rename the file draft.txt in it to final.txt (right click, Rename). "
        "The other files must stay as they are."
    )
    files = {"C:\\in\\draft.txt": b"draft\r\n", **{f"C:\\in\\{n}": n.encode() for n in others}}
    programs = (["explorer", "C:\\in"],)
    window = "^in$"
    checks = (
        (
            "The Explorer window of C:\\in lists final.txt and no draft.txt",
            "notes.txt, plan.txt, report.txt and todo.txt are still listed",
        ),
        ("The file is called final.txt", "The other files are as they were"),
    )
    places = {"^in$": [420, 160, 0, 0]}

    def rules(self, s):
        window, run = s.window("^in$", "ExplorerWClass"), s.dialog("Run")
        away = s.window("", "ExplorerWClass") if not window else None
        here, files = s.in_front(window), s.control(window, "list")
        items = {i["text"]: i for i in (files or {}).get("items", [])}
        label = next(
            (
                c
                for c in (window or {}).get("controls", [])
                if c["kind"] == "edit" and files and c["parent"] == files["hwnd"]
            ),
            None,
        )
        strange = [i for n, i in items.items() if n not in (*self.others, "final.txt")]
        mine = items.get("draft.txt") or (strange[0] if strange else None)
        chosen = [i for i in items.values() if i["selected"]]
        on_mine = bool(mine) and [i["text"] for i in chosen] == [mine["text"]]
        free = here and not s.menus and not label
        finished = "final.txt" in items and not strange and all(n in items for n in self.others)
        rename, by_mouse = s.item("Rename"), s.can("right")
        address = s.control(away, "edit")
        return [
            ("done", free and finished, COMPLETE),
            *come_back(
                s,
                here or s.in_front(run) or s.in_front(away),
                window or away,
                (["Rename"] if on_mine else []) if window or away else ["Run..."],
                ["Run"],
                [("", "No")],
            ),
            ("accept the name", label and label["text"] == "final.txt" and on_mine, key("enter")),
            ("leave the wrong name", label and not on_mine, key("escape")),
            *fill(s, label, "final.txt", label and on_mine, "name of draft.txt", submit=True),
            ("menu Rename", rename and on_mine, lambda: click(rename, "Rename menu item")),
            ("F2", free and on_mine and not by_mouse, key("f2")),
            (
                "right click draft.txt",
                free and mine and by_mouse,
                lambda: click(mine, f"{mine['text']} file", "right"),
            ),
            (
                "click draft.txt",
                free and mine and not by_mouse,
                lambda: click(mine, f"{mine['text']} file"),
            ),
            (
                "go there",
                s.in_front(away) and address and address["focus"] and address["text"] == "C:\\in",
                key("enter"),
            ),
            *fill(
                s,
                address,
                "C:\\in",
                s.in_front(away) and not s.menus,
                "Location field",
                submit=True,
            ),
            *start_program(s, "explorer C:\\in", not window and not away),
        ]

    def check(self, drive, registry):
        names = sorted(path.name for path in (drive / "in").glob("*"))
        ok = (
            names == sorted([*self.others, "final.txt"])
            and read_file(drive, "C:\\in\\final.txt") == "draft"
        )
        return ok, "" if ok else f"C:\\in: {names}"


TASKS = {task.name: task for task in (Save(), Checkbox(), Copy(), Rename())}


def decide(rules):
    """(place of the rule, its name, its act): the first that holds and whose target is there."""
    for place, (name, holds, act) in enumerate(rules):
        if holds:
            made = act() if callable(act) else act
            if made:
                return place, name, made
    return len(rules), "nothing to do", {"do": "key", "key": "escape"}


def next_act(rules, place):
    """What comes after the rule at this place: the act of the nearest more advanced one, its condition ignored."""
    for name, _, act in reversed(rules[:place]):
        try:
            made = act() if callable(act) else act
        except (TypeError, KeyError, IndexError):
            continue
        if (
            made
            and made["do"] != "complete"
            and not name.startswith(
                ("leave", "close", "say", "answer", "another", "click a menu", "the dialog")
            )
        ):
            return name, made
    return None, None
