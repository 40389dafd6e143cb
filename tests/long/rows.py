"""A table and a form on a real Win32 desktop: python -m tests.long rows [ROWS [KILLS [SEED]]]

100 rows with eight troubles among them: a record that is there, a window that moves, a slow field, one that cuts, a
message box, the form closed, a person who types in between, a server that loses what it is sent. Then the same command
once more. Then rows of another table, of which the program is killed at 30 random moments, and gone on with each time.
All held if each outcome is true by the form's own file and nothing was entered twice. Needs what the tests in
tests/wine need; one desktop at a time.
"""

from __future__ import annotations

import csv
import json
import random
import shutil
import statistics
import threading
import time
from collections import Counter

from tests.wine.rig import ALONE, HERE, Desktop, Program, end, json_lines, windows_path
from tests.wine.showing import NO_SERVER, FormPerson

TASK = "enter a customer"
TROUBLES = "There Move Slow Cut Box Close Person Gone".split()
# What may become of a row with a trouble. Any other one is done at the latest the second time: a busy Wine answers late,
# and takes a window that appears under the pointer for somebody's hand.
BECOMES = {"There": "skipped", "Cut": "failed", "Box": "failed|done", "Close": "failed|done"}
BECOMES |= {"Gone": "not proven", "Person": "failed|done"}


class Entering(FormPerson):
    """The form, and the program that enters a table into it."""

    def begin(self) -> None:
        """The task is shown once, and gets a check that files answer."""
        form = self.form(100, 100)
        shown: list[str] = []
        while shown != ["type_text name", "click None", "click None"]:  # Wine is late at times
            shutil.rmtree(self.desktop.folder / "dumps", True)
            program = self.teach(TASK, "|name||||")
            self.click(*self.at(150, 18))
            self.type("Muster, Max")
            self.click(*self.at(75, 66))
            self.click(*self.at(100, 91))
            output = self.shown(program)
            acts = self.desktop.journal("intent")
            shown = [f"{entry['tool']} {entry.get('value')}" for entry in acts]
            print(f"  shown: {', '.join(shown)}" if shown else output, flush=True)
        end(form.process)
        journal = max((self.desktop.folder / "dumps").glob("*/turns.jsonl"))
        *lines, last = journal.read_text("utf-8").splitlines()
        check = r'"C:\records\{name}.txt" exists'
        last = json.dumps({**json.loads(last), "checks": [{"check": check}]})
        journal.write_text("\n".join([*lines, last, ""]), "utf-8")
        self.desktop.file(self.FILE).unlink()

    def table(self, names: list[str]) -> str:
        path = self.desktop.folder / "customers.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([["name"], *([name] for name in names)])
        return windows_path(path)

    def entered(self) -> Counter[str]:
        """How often each name stands in the form's file."""
        return Counter(entry["name"] for entry in self.saved())

    def outcomes(self) -> dict[str, dict[str, str]]:
        """Each name with its line of the latest results."""
        found = sorted((self.desktop.folder / "dumps").glob("*/results.csv"))
        if not found:
            return {}
        with found[-1].open(encoding="utf-8-sig", newline="") as stream:
            return {row["name"]: row for row in csv.DictReader(stream) if row["run"]}

    def start(self, table: str) -> Program:
        words = ("--again", TASK, "--rows", table, "--rows-on", "--confirm", "never")
        kept = ("--set", "keep_megabytes=100000")
        return self.desktop.agent(*words, *NO_SERVER, *ALONE, *kept)


def wrong_in(names: list[str], rows: dict[str, dict[str, str]], entered: Counter[str]) -> list[str]:
    """What is not true of these outcomes by the form's file."""
    told = [f"{name} stands there {count} times" for name, count in entered.items() if count > 1]
    told += [f"{name} is of nobody's table" for name in entered if name not in names]
    for name, row in rows.items():
        must = {"done": 1, "skipped": 1, "failed": 0, "stopped": 0}.get(row["outcome"])
        if must is not None and entered[name] != must:
            told.append(f"{name} is told as {row['outcome']}, and stands there {entered[name]}")
    return told


def troubled(case: Entering, count: int) -> bool:
    """Rows with troubles, and once more; whether all held."""
    names = [f"Row {number:03}" for number in range(count)]
    for number, trouble in enumerate(TROUBLES):
        at = 3 + number * (count // 9)
        names[at] = f"{trouble} {at:03}"
    there = next(name for name in names if name.startswith("There"))
    case.desktop.file(case.FILE).write_text(json.dumps({"name": there}) + "\n", "utf-8")
    archive = case.desktop.file(r"C:\records")
    archive.mkdir()
    (archive / f"{there}.txt").touch()
    Program(case.desktop, windows_path(HERE / "troubled.py"), case.FILE, "100", "100", "20", "1")
    time.sleep(3)
    table = case.table(names)
    wants = case.desktop.file(case.FILE + ".wants")
    over = threading.Event()

    def person() -> None:
        typed = 0
        while not over.wait(0.1):
            wanted = len(wants.read_text("utf-8").splitlines()) if wants.exists() else 0
            if wanted > typed:
                typed = wanted
                case.desktop.host("xdotool", "type", " and")

    threading.Thread(target=person, daemon=True).start()
    held = True
    for again in (False, True):
        began = time.monotonic()
        code, output = case.start(table).finish(1200)
        rows, entered = case.outcomes(), case.entered()
        wrong = wrong_in(names, rows, entered)
        wrong += [f"{name} has no outcome" for name in names if name not in rows]
        for name, row in rows.items():
            word = name.split(" ")[0]
            told = f"{name}: {row['outcome']}: {row['sentence']}"
            becomes = BECOMES.get(word, "done").split("|")
            if word in TROUBLES and not again and row["outcome"] not in becomes:
                wrong.append(told)
            if row["outcome"] not in ("done", "skipped") or word in TROUBLES:
                print(f"  {told}")
        if again:
            wrong += [
                f"{name} is not there"
                for name in names
                if not (entered[name] or name.startswith(("Gone", "Cut")))
            ]
        done = [row for row in rows.values() if row["outcome"] == "done"]
        seconds = statistics.median([float(row["seconds"]) for row in done] or [0])
        asked = sum(int(row["requests"]) for row in rows.values())
        counted = dict(Counter(row["outcome"] for row in rows.values()))
        print(
            f"{count} rows, exit {code}: {counted}; {seconds:.1f} s a row, {asked} requests,"
            f" {time.monotonic() - began:.0f} s in all; {'; '.join(wrong) or 'all true'}",
            flush=True,
        )
        if wrong:
            print(output)
        held = held and not wrong
    over.set()
    return held


def killed(case: Entering, count: int, kills: int, chance: random.Random) -> bool:
    """Killed at random moments and gone on with, until the table is done; whether all held."""
    names = [f"Kill {number:03}" for number in range(count)]
    file = case.desktop.file(case.FILE)
    before = len(json_lines(file))
    table = case.table(names)
    moments: list[str] = []
    wrong: list[str] = []
    output = ""
    for number in range(kills + 2):  # the last time a row is done of which Wine lost a click before
        program = case.start(table)
        known = case.outcomes()
        if number < kills:
            begun = time.monotonic()
            while case.outcomes() == known and time.monotonic() - begun < 60:
                if program.process.poll() is not None:
                    break
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 8))
            end(program.process)
            time.sleep(0.5)
        else:
            _, output = program.finish(1200)
        entered = Counter(entry["name"] for entry in json_lines(file)[before:])
        rows = case.outcomes()
        wrong += wrong_in(names, rows, entered)
        last = [*rows.values()][-1]["outcome"] if rows else "none"
        moments.append(f"{sum(entered.values())} {last}")
    missing = [name for name in names if not entered[name]]
    for name in missing:
        outcome = rows[name]["outcome"] if name in rows else "nothing"
        if outcome not in ("unsure", "not proven"):
            wrong.append(f"{name} is missing, and told as {outcome}")
    print("  killed at (entered by then, the last line's outcome): " + ", ".join(moments[:kills]))
    counted = dict(Counter(row["outcome"] for row in rows.values()))
    print(f"{count} rows, killed {kills} times: {counted}; {'; '.join(wrong) or 'all true'}")
    if wrong:
        print(output)
    return not wrong


def main(count: int = 100, kills: int = 30, seed: int = 1) -> bool:
    with Desktop() as desktop:
        case = Entering()
        case.desktop = desktop
        case.begin()
        held = troubled(case, count)
        return (not kills or killed(case, 4 * kills, kills, random.Random(seed))) and held
