"""Reports in a headless Chromium: of a good run, a killed one, a hostile one and a long one, from disk and alone.

No console message and no request to anywhere. PANEL_SHOTS names a folder for the pictures that are looked at.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

from chrome import Chrome  # noqa: E402

import agent  # noqa: E402

HOSTILE = "</script><script>document.title='broken'</script><img src='https://example.com/x.png' onerror=\"document.title='x'\">"
HOSTILE += (
    "\n\u05e9\u05dc\u05d5\u05dd \u0627\u0644\u0633\u0644\u0627\u0645 \u202etxt.exe "
    + "unbroken" * 90
)


def run(folder: Path, *options: str, kill: str = "") -> Path:
    """A demo's folder; with `kill` the process is killed when that text is in its journal."""
    command = [
        sys.executable,
        str(Path(agent.__file__)),
        "--demo",
        "--set",
        f"dump_dir={folder}",
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    journal, end = folder / "run_0001" / "turns.jsonl", time.monotonic() + 60
    while (
        kill and time.monotonic() < end and not (journal.exists() and kill in journal.read_text())
    ):
        time.sleep(0.002)
    if kill:
        process.kill()
    process.wait(60)
    return folder / "run_0001"


def rewrite(folder: Path, change: Any) -> Path:
    """The journal's records changed by `change(records)`, and the report made anew by --report."""
    journal = folder / "turns.jsonl"
    records = change([json.loads(line) for line in journal.read_text().splitlines()])
    journal.write_text("\n".join(map(json.dumps, records)) + "\n")
    subprocess.run(
        [sys.executable, str(Path(agent.__file__)), "--report", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder


def hostile(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for record in records:
        for name in ("text", "task", "result", "response_text", "args", "instructions"):
            if isinstance(record.get(name), str):
                record[name] = HOSTILE
        if record["kind"] == "reply":
            record["message"]["content"] = HOSTILE
        if record["kind"] == "intent":
            record["args"] = {**record["args"], "element_name": HOSTILE}
    return records


def lengthened(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The acts of a run again and again, 200 turns; some changed nothing, one was refused."""
    first, last = records[0], records[-1]
    turns = [
        r
        for r in records
        if r["kind"] in ("look", "intent", "result", "action") and r.get("turn") in (2, 3, 4, 5)
    ]
    out = [first, *[r for r in records if r["kind"] in ("reply", "plan")][:2]]
    for number in range(2, 201):
        for record in [r for r in turns if r["turn"] == number % 4 + 2]:
            refused = (
                {"refused": "blocked_key", "result": "Not done: blocked"}
                if number == 50 and record["kind"] == "result"
                else {}
            )
            flags = {"changed": bool(number % 7)} if "changed" in record else {}
            out.append(
                {**record, "turn": number, "time": first["time"] + number * 3, **flags, **refused}
            )
    return [*out, {**last, "time": out[-1]["time"], "turns": 200}]


class Check:
    def __init__(self, shots: Path) -> None:
        self.shots, self.wrong, self.chrome = shots, list[str](), Chrome()

    def expect(self, fine: bool, what: str) -> None:
        self.wrong += [] if fine else [what]

    def open(
        self,
        page: Path,
        name: str,
        turns: int,
        width: int = 1400,
        height: int = 1100,
        dark: bool = False,
    ) -> None:
        """Opens a page and expects the usual: its turns, pictures that come, no message, nothing asked of anybody."""
        self.chrome.look(width, height, dark)
        start = time.monotonic()
        self.chrome.open(page.as_uri())
        seconds = time.monotonic() - start
        time.sleep(0.4)
        facts = self.chrome.run(
            "return [document.querySelectorAll('article').length, document.documentElement.scrollWidth <= innerWidth,"
            " [...document.images].filter(i => i.complete && i.naturalWidth).length,"
            " performance.getEntriesByType('resource').map(e => e.name), document.querySelectorAll('script').length]"
        )
        asked = [url for url in facts[3] if not re.match(r"(file|data):", url)]
        (self.shots / f"{name}.png").write_bytes(self.chrome.screenshot())
        self.expect(facts[0] == turns, f"{name}: {facts[0]} turns in {seconds:.2f} s")
        self.expect(facts[1], f"{name}: nothing wider than the page")
        self.expect(facts[2] > 0, f"{name}: {facts[2]} pictures shown")
        self.expect(not asked, f"{name}: asked of others: {asked}")
        complaints = self.chrome.complaints()
        self.expect(not complaints, f"{name}: console: {complaints[:2]}")


class Reports(unittest.TestCase):
    def test_every_kind_of_run_can_be_read(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            self.look(Path(scratch), Path(os.environ.get("PANEL_SHOTS", scratch)))

    def look(self, root: Path, shots: Path) -> None:
        check = Check(shots)
        self.addCleanup(check.chrome.close)
        good = run(root / "good")
        check.open(good / "report.html", "report", 6)
        check.chrome.press("\ue014")
        (shots / "report_turn.png").write_bytes(check.chrome.screenshot())
        check.open(good / "report.html", "report_dark", 6, dark=True)
        check.open(good / "report.html", "report_phone", 6, 390, 1400)
        crashed = run(root / "crashed", kill='"kind": "intent", "time": ')
        check.open(crashed / "report.html", "crashed", 2)
        check.expect(
            "no end recorded" in check.chrome.text("#top"), "crashed: says that there is no end"
        )
        text = (good / "report.html").read_text()
        (good / "torn.html").write_text(text[:-40])
        check.open(good / "torn.html", "torn", 6)  # what was cut in two is left out
        check.expect("Open Notes" in check.chrome.text("h1"), "torn: says what the task was")
        check.open(rewrite(run(root / "hostile"), hostile) / "report.html", "hostile", 6)
        shown = check.chrome.run(
            "return [document.title, document.querySelectorAll('h1 *, article p > :not(span)').length]"
        )
        check.expect(
            shown[0].startswith("completed: </script>") and shown[1] == 0,
            f"hostile: text only, {shown[0][:40]!r}",
        )
        check.open(rewrite(run(root / "long"), lengthened) / "report.html", "long", 200)
        loaded = check.chrome.run(
            "return [...document.images].filter(i => i.complete && i.naturalWidth).length"
        )
        check.expect(loaded < 60, f"long: {loaded} of 199 pictures loaded so far")
        check.open(root / "long" / "run_0001" / "report.html", "long_phone", 200, 390, 900)
        alone = root / "alone.html"
        subprocess.run(
            [sys.executable, agent.__file__, "--report", str(good), str(alone)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for file in (good / "screenshots").iterdir():
            file.unlink()
        check.open(alone, "exported", 6)
        pages = check.chrome.do("/print", {"page": {}})
        check.expect(len(pages) > 20_000, f"printed: {len(pages) * 3 // 4096} KB")
        self.assertEqual(check.wrong, [])


if __name__ == "__main__":
    unittest.main()
