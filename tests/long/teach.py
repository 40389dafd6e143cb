"""What is shown once on a real Win32 desktop is done again, over and over, where everything looks otherwise.

    python -m tests.long teach                  all parts
    python -m tests.long teach form 100         a form, so often: moved, another size, letters, colours, theme, order
    python -m tests.long teach notepad 10       Notepad's task, with other texts and files
    python -m tests.long teach keys             what a recording hears of three keyboard layouts
    python -m tests.long teach password         a password is in no file of a recording
    python -m tests.long teach lag              how fast a window gets keys, with a recording and without, by turns

The hand is xdotool's, with a person's pauses. No model can be asked: a run that differs ends. All held if nothing was
ever done to another record than meant, nine of ten forms and each note were done, each key was heard as it was typed,
the password was nowhere, and keys were no slower than noise. Needs what the tests in tests/wine need, and setxkbmap.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import time
from collections.abc import Callable

from tests.wine.rig import HERE, Desktop, Json, Program, Window, target, until, windows_path
from tests.wine.showing import FormPerson

# Those of tests/wine/form.py.
CITIES = "Basel", "Bern", "Olten"
RECORDS = ["Meier, Anna · Basel", "Meier, Anne · Basel", "Meier, Hanna · Bern"]
SHOWN = ("Muster, Max", "Bern")
COLOURS = (
    "Background Window WindowText ButtonFace ButtonText ButtonHilight ButtonShadow Hilight".split()
)
SCHEMES = (
    "58 110 165 / 255 255 255 / 0 0 0 / 212 208 200 / 0 0 0 / 255 255 255 / 128 128 128 / 10 36 106",
    "0 0 0 / 30 30 30 / 230 230 230 / 60 60 60 / 240 240 240 / 120 120 120 / 10 10 10 / 200 120 0",
    "0 0 0 / 0 0 0 / 255 255 0 / 0 0 0 / 0 255 0 / 255 255 255 / 255 255 255 / 128 0 128",
)
DESKTOP_KEY = r"HKCU\Control Panel\Desktop"
METRICS_KEY = r"HKCU\Control Panel\Desktop\WindowMetrics"
THEME_KEY = r"HKCU\Software\Microsoft\Windows\CurrentVersion\ThemeManager"
# What a layout's keys type: by the name that setxkbmap has for it. What needs AltGr is not heard under Wine: there
# ToUnicodeEx takes AltGr from the keys of its own process alone, and has another name for that key. A recording tells it
# all the same, since a step is what its field holds.
ALPHABETS = {
    "us": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!@#$%^&*()-=[];'\\,./_+{}:\"|<>?",
    "de": "abcdefghijklmnopqrstuvwxyzäöüßABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜ0123456789!\"§$%&/()=?+*#'-_.:,;<>",
    "ru": "абвгдежзийклмнопрстуфхцчшщъыьэюяАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ0123456789!?.,",
}
ALTGR = "@{[]}\\", "de"  # of which Wine brings some without AltGr, each time others
PASSWORD = "hunter22Zebra"
SHOWN_MOST = 4


class Trial(FormPerson):
    """A desktop with a person, for one part."""

    def __init__(self, desktop: Desktop) -> None:
        self.desktop = desktop

    def registry(self, key: str, name: str, value: str, kind: str = "REG_SZ") -> None:
        self.desktop.host("wine", "reg", "add", key, "/v", name, "/t", kind, "/d", value, "/f")

    def looks(self, chance: random.Random) -> tuple[int, str]:
        """Has all that starts from now on look otherwise; gives its dots per inch, and how."""
        scheme = chance.randrange(len(SCHEMES))
        letters = chance.choice((96, 96, 120, 144))
        theme = chance.randrange(2)
        for name, colour in zip(COLOURS, SCHEMES[scheme].split(" / "), strict=True):
            self.registry(r"HKCU\Control Panel\Colors", name, colour)
        self.registry(DESKTOP_KEY, "LogPixels", str(letters), "REG_DWORD")
        self.registry(METRICS_KEY, "CaptionHeight", str(-15 * chance.choice((18, 24, 32))))
        self.registry(THEME_KEY, "ThemeActive", str(theme))
        return letters, f"colours {scheme}, {letters} dpi, theme {theme}"

    def end_form(self, form: Program) -> None:
        form.process.kill()
        self.desktop.close("python.exe")

    def show(self, name: str, answers: str, does: Callable[[], None], saved: Json) -> None:
        """Shows one task; once more where the program says that it could not look in time."""
        for _ in range(SHOWN_MOST):
            form = self.form(100, 100)
            program = self.teach(name, answers)
            does()
            output = self.shown(program)
            print(output)
            self.end_form(form)
            if "Not kept" not in output and self.saved()[-1:] == [saved]:
                return
        raise AssertionError(f"it was not shown: {self.saved()}")

    def show_form(self) -> None:
        """Shows three tasks: a customer with two values, a record that is one, and a row's button."""

        def customer() -> None:
            self.click(*self.at(150, 18))
            self.type(SHOWN[0])
            self.click(*self.at(220, 42))
            for key in ("Down", "Down", "Return"):
                self.hand("key", key)
            self.click(*self.at(75, 66))
            self.click(*self.at(100, 91))

        def record() -> None:
            self.click(*self.at(300, 18))
            self.click(*self.at(300, 91))

        def row() -> None:
            self.click(*self.at(410, 62))

        entered = {"name": SHOWN[0], "city": SHOWN[1], "paid": True}
        self.show("enter a customer", "|name|city||||", customer, entered)
        self.show("drop a record", "|who|||", record, {"dropped": RECORDS[:1]})
        self.show("remove Hanna", "||||", row, {"removed": RECORDS[2]})

    def form_again(self, number: int, chance: random.Random) -> str:
        """Has one task done where all looks otherwise; gives what became of it."""
        dpi, looks = self.looks(chance)
        font = chance.choice((16, 18, 20, 24))
        place = chance.randrange(0, 400), chance.randrange(0, 300)
        order, wide, styled = chance.choice((1, -1)), chance.randrange(85, 115), chance.randrange(2)
        if font * dpi > 16 * 144:  # so that all of it is on the screen
            place, wide = (place[0] // 8, place[1]), 85
        self.desktop.file(self.FILE).unlink(missing_ok=True)
        form = self.form(*place, font, order, wide, styled)
        task = number % 3
        if task == 0:
            name, city = f"Kunde {number}: äöü", chance.choice(CITIES)
            wanted: Json = {"name": name, "city": city, "paid": True}
            given = "--with", f"name={name}", "--with", f"city={city}"
            code, output = self.again("enter a customer", *given)
        elif task == 1:
            who = chance.choice(RECORDS)
            wanted = {"dropped": [who]}
            code, output = self.again("drop a record", "--with", f"who={who}")
        else:
            wanted = {"removed": RECORDS[2]}
            code, output = self.again("remove Hanna")
        saved = self.saved()
        self.end_form(form)
        told = f"{looks}, letters {font}, at {place}, order {order}, {wide} %, styled {styled}"
        if saved == [wanted] and code == 0:
            print(f"  {number}: done; {told}", flush=True)
            return "done"
        why = "WRONG" if saved else "differs" if code else "lost"  # a click that Wine lost
        print(f"  {number}: {why}, {saved}, meant {wanted}; {told}\n{output}", flush=True)
        return why


def form(trial: Trial, count: int = 100, seed: int = 1) -> bool:
    trial.show_form()
    chance = random.Random(seed)
    came = [trial.form_again(number, chance) for number in range(count)]
    told = {what: came.count(what) for what in ("done", "differs", "lost", "WRONG")}
    print(f"form: {told} of {count}")
    return told["WRONG"] == 0 and told["done"] >= 0.9 * count


def notepad(trial: Trial, count: int = 10) -> bool:
    def start() -> None:
        trial.desktop.close("notepad.exe")
        trial.desktop.host("wine", "start", "notepad")
        time.sleep(3)

    start()
    program = trial.teach("write a note", "|text|file||")
    trial.click(400, 300)
    trial.type("Hello from me")
    trial.hand("key", "ctrl+s")
    time.sleep(2)
    trial.type(r"C:\first.txt")
    trial.hand("key", "Return")
    time.sleep(1)
    print(trial.shown(program))
    done = 0
    for number in range(count):
        start()
        text, file = f"Number {number}: ä€ß", rf"C:\note{number}.txt"
        code, output = trial.again(
            "write a note", "--with", f"text={text}", "--with", f"file={file}"
        )
        path = trial.desktop.file(file)
        held = path.read_bytes() if path.exists() else b""
        is_done = code == 0 and text in (
            held.decode("utf-8", "replace"),
            held.decode("cp1252", "replace"),
        )
        done += is_done
        print(f"  {number}: {'done' if is_done else f'NOT: {held!r} {output}'}", flush=True)
    print(f"notepad: {done} of {count}")
    return done == count


def keys(trial: Trial) -> bool:
    """Types each alphabet on its layout, and compares what was heard with what a window got."""
    window = target(trial.desktop)
    held = True
    for layout, alphabet in ALPHABETS.items():
        trial.desktop.host("setxkbmap", layout)
        time.sleep(1)
        window.order("clear")
        window.order("focus edit")
        log = trial.desktop.folder / f"{layout}.jsonl"
        listener = Program(trial.desktop, windows_path(HERE / "listener.py"), windows_path(log))
        until("it listens", lambda log=log: log.exists() and "READY" in log.read_text())
        window.order("focus edit")
        trial.type(alphabet)
        time.sleep(1)
        log.with_name(f"{log.name}.end").touch()
        listener.finish()
        heard = "".join(map(json.loads, log.read_text("utf-8").splitlines()[1:]))
        got = window.text()
        held = held and heard == got == alphabet
        wrong = [f"{one}!={other}" for one, other in zip(heard, got, strict=False) if one != other]
        print(f"  {layout}: {len(alphabet)} typed, {len(got)} arrived, {len(heard)} heard")
        if not heard == got == alphabet:
            print(f"    typed {alphabet}\n    got   {got}\n    heard {heard}\n    {wrong}")
    letters, layout = ALTGR
    trial.desktop.host("setxkbmap", layout)
    window.order("clear")
    program = trial.teach("write letters", "||||")
    trial.click(*window.pixel("edit"))
    trial.type(letters)
    print(trial.shown(program))
    trial.desktop.host("setxkbmap", "us")
    texts = [entry["args"].get("text") for entry in trial.desktop.journal("intent")]
    print(f"  {layout}, with AltGr: typed {letters}, got {window.text()}, recorded {texts}")
    return held and texts == [window.text()]


def password(trial: Trial) -> bool:
    places = {"Name": 20, "PIN": 60, "Go": 100}
    kinds = {"Name": "edit", "PIN": "password", "Go": "button"}
    items = [
        {"kind": kinds[name], "name": name, "rect": (120, down, 200, 24)}
        for name, down in places.items()
    ]
    window = Window(trial.desktop, "Login", (100, 100, 500, 300), items, "Name")
    program = trial.teach("log in", "||PIN||")
    for name, text in (("Name", "anna"), ("PIN", PASSWORD), ("Go", "")):
        trial.click(*window.pixel(name))
        if text:
            trial.type(text)
    print(trial.shown(program))
    found = []
    for path in (trial.desktop.folder / "dumps").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            texts = [PASSWORD[:6].encode(code) for code in ("utf-8", "utf-16-le")]
            found += [path.name for text in texts if text in data]
    print(f"  the password stands in {found or 'no file'}; the name in it is known: ", end="")
    journal = trial.desktop.run_folder / "turns.jsonl"
    told = journal.read_text("utf-8")
    print("anna" in told and "{{PIN}}" in told)
    return not found and "anna" in told and "{{PIN}}" in told


def lag(trial: Trial, blocks: int = 4, count: int = 40) -> bool:
    """Measures the time from the key to the window's message, with a recording and without, by turns."""
    window = target(trial.desktop)
    taken: dict[bool, list[float]] = {True: [], False: []}
    for block in range(2 * blocks):
        records = block % 2 == 1
        program = trial.teach(f"block {block}", "||||") if records else None
        window.order("focus edit")
        for number in range(count):
            before = len(window.events("WM_CHAR"))
            began = time.time()
            key = "abcdefghij"[number % 10]
            subprocess.run(["xdotool", "key", key], env=trial.desktop.environment, check=True)
            until(
                "it arrives", lambda before=before: len(window.events("WM_CHAR")) > before, 20, 0.01
            )
            taken[records].append(1000 * (window.events("WM_CHAR")[before]["time"] - began))
            time.sleep(0.12 if number % 2 else 0.3)
        if program:
            trial.shown(program)
    for records, times in taken.items():
        deciles = statistics.quantiles(times, n=10)
        told = (
            f"median {statistics.median(times):.1f}, 10 % {deciles[0]:.1f}, 90 % {deciles[8]:.1f}"
        )
        print(f"  {'with' if records else 'without'} a recording: {told} ms of {len(times)}")
    middle = [statistics.median(taken[records]) for records in (False, True)]
    spread = (
        statistics.quantiles(taken[False], n=10)[8] - statistics.quantiles(taken[False], n=10)[0]
    )
    print(
        f"lag: {middle[1] - middle[0]:+.1f} ms, without a recording 10 % to 90 % are {spread:.1f} ms apart"
    )
    return middle[1] - middle[0] <= spread / 2


PARTS: dict[str, Callable[..., bool]] = {
    part.__name__: part for part in (form, notepad, keys, password, lag)
}


def main(*words: str) -> bool:
    names = [word for word in words if word in PARTS] or [*PARTS]
    numbers = [int(word) for word in words if word.isdecimal()]
    held = True
    for name in names:
        with Desktop() as desktop:
            came = PARTS[name](Trial(desktop), *(numbers if len(names) == 1 else ()))
            print(f"{name}: {'held' if came else 'WRONG'}", flush=True)
        held = held and came
    return held
