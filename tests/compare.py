"""Whether two checkouts behave alike: the five demos of each, with every request, journal line, log line and picture.

    python -m tests.compare OLD_CHECKOUT NEW_CHECKOUT

Each demo runs in a process of its own and writes into a temporary folder. What the demo's model server is asked is
recorded byte for byte. Before the comparison times, ports and folders are made alike, since they differ between two
runs of one checkout, too. Every difference is printed with its place, except those named in CUTS; the exit code is 0
when there is none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

PROFILES = ("planner", "commander", "chat", "pointer", "story")
TIMEOUT_S = 120
SHOWN_CHARS = 160  # of each side of a difference
DIFFERENCES_MOST = 20  # printed of one profile and one kind of record

# Fields of a journal line that hold seconds or milliseconds; they are made alike where they hold a number.
TIMES = {"time", "seconds", "capture", "encode", "settle_ms", "act", "request"}


class Cut(NamedTuple):
    """A difference that is meant: a field of the journal's lines of a kind, what may happen to it, and why."""

    kind: str
    field: str
    # One of the words that `without_cuts` and `without_lines` know: `goes`; `may go`, if it was
    # null; `common keys`: keys on one side alone are named, not counted.
    allowed: str
    why: str


# `may go`, if it was null; `may come`; `may differ`; `common keys`: keys on one side alone are named, not counted;
# `new lines`: lines of that kind on one side alone.
CUTS = (
    Cut("run", "config", "common keys", "settings come and go; the common ones must be the same"),
    Cut("reply", "shared", "goes", "an estimate of the program's own, which left out the picture"),
    Cut("state", "task", "may go", "it was null in every line, the run's first line has the task"),
    Cut(
        "state",
        "memory",
        "may go",
        "it was null in every line, the actions have lines of their own",
    ),
    Cut("role", "", "new lines", "what each role is told stands once in the journal"),
    Cut("hint", "", "new lines", "what the person said stands in the journal"),
    Cut(
        "stage", "asked", "may come", "the actions as the model wrote them, and what became of each"
    ),
    Cut("reply", "tokens", "may differ", "they follow from the requests, which are compared"),
    Cut("reply", "shared", "may differ", "it follows from the requests, which are compared"),
)


class TextCut(NamedTuple):
    """A difference that is meant in requests, logs or terminal: what is taken out of both sides, and why."""

    where: str  # the beginning of the places it holds for
    pattern: str  # of whole lines or parts of them; ^ is a line's beginning
    instead: str
    why: str


SIZES = r"\b\d+(?= bytes| tokens)|(?<=prompt_tokens=)\d+|(?<=shared )[\d.]+"
NEW_ENTRY = r"^TIME (?:ROLE|PARSED|STATE|SAVED) .*\n(?:    .*\n)*"
NEW_HEADER = r"^\n=== (?:EXECUTION LOG START|INITIALIZATION|MISSION COMPLETE|DEBRIEF) ===\n"
LAST_ENTRY = r"^TIME (?:END|FINAL STATUS:) (.*)\n(?:    .*\n)*"
TOLD_OF_FILE = r', (\\*)"file\1": .{1,80}?"screen_size\1": \[\d+, \d+\]'
TEXT_CUTS = (
    TextCut("request", TOLD_OF_FILE, "", "a chat is told of its screenshot's file and size"),
    TextCut("logs", TOLD_OF_FILE, "", "a chat is told of its screenshot's file and size"),
    TextCut("logs", NEW_ENTRY, "", "roles, state, pictures and a story's actions are logged"),
    TextCut("logs", NEW_HEADER, "", "the log has the described sections"),
    TextCut("logs", r"^(=== TURN \d+) - \w+ ===", r"\1 ===", "a turn's header says its mode"),
    TextCut("logs", r"^TIME TASK: ", "    TASK: ", "the task stands in a section of its own"),
    TextCut("logs", LAST_ENTRY, r"TIME END \1\n", "the log ends with a debrief"),
    TextCut("logs", SIZES, "N", "sizes follow from the requests, which are compared"),
    TextCut("terminal", SIZES, "N", "sizes follow from the requests, which are compared"),
)
FILE_CUTS = {"screenshots/turn_0000.png": "the screen before the first turn is kept"}


def without_text_cuts(old: str, new: str, where: str, named: set[str]) -> tuple[str, str]:
    """Both texts less what TEXT_CUTS allows there; adds to `named` what was on one side more often."""
    for cut in TEXT_CUTS:
        if cut.where != where:
            continue
        old, old_times = re.subn(cut.pattern, cut.instead, old, flags=re.MULTILINE)
        new, new_times = re.subn(cut.pattern, cut.instead, new, flags=re.MULTILINE)
        if old_times != new_times:
            named.add(f"{where}: {cut.why}")
    return old, new


# Runs one demo of the checkout that stands first on the path, and keeps what its model server was asked.
RUNNER = """
import json, random, sys
checkout, kept, *arguments = sys.argv[1:]
sys.path.insert(0, checkout)
import agent
random.seed(12)
respond = agent.DemoModel.respond

def recorded(model, path, body):
    with open(kept, "a", encoding="utf-8") as stream:
        stream.write(json.dumps([path, body.decode("latin-1")]) + "\\n")
    return respond(model, path, body)

agent.DemoModel.respond = recorded
sys.exit(agent.main(["--demo", *arguments]))
"""


class Demo(NamedTuple):
    """What is left of one demo, with times, ports and folders made alike."""

    code: int
    said: str
    requests: list[str]  # path and body
    journal: list[dict[str, Any]]
    log: list[str]
    files: dict[str, str]  # a file's name and, of a picture, its hash


def run_demo(checkout: Path, profile: str, *settings: str) -> Demo:
    """Runs one profile's demo of a checkout, in a folder that goes away."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        requests = folder / "requests.jsonl"
        requests.touch()
        arguments = ["--profile", profile]
        for setting in (*settings, f"dump_dir={folder / 'dumps'}"):
            arguments += ["--set", setting]
        done = subprocess.run(
            [sys.executable, "-B", "-c", RUNNER, str(checkout), str(requests), *arguments],
            cwd=folder,
            env=plain_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
        )
        run = folder / "dumps" / "run_0001"
        if not run.is_dir():
            raise SystemExit(f"{checkout}: the demo of {profile} did not run:\n{done.stderr}")
        bodies = [json.loads(line) for line in requests.read_text("utf-8").splitlines()]
        return Demo(
            done.returncode,
            made_alike(done.stdout + done.stderr, folder),
            [made_alike(f"{path} {body}", folder) for path, body in bodies],
            list(journal_lines(run, folder)),
            list(log_lines(run, folder)),
            dict(kept_files(run)),
        )


def plain_environment() -> dict[str, str]:
    """The environment without the settings of this program, and with one order of hashes."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AGENT_", "LMSTUDIO_"))
    }
    return {**kept, "PYTHONHASHSEED": "0", "NO_COLOR": "1", "PYTHONUTF8": "1"}


def made_alike(text: str, folder: Path) -> str:
    """A text in which folders, ports and times look the same in every run."""
    # a path in JSON on Windows has its backslashes doubled
    for spelling in (str(folder), json.dumps(str(folder))[1:-1], folder.as_posix()):
        text = text.replace(spelling, "FOLDER")
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    text = re.sub(r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "TIME", text)
    return re.sub(r" *\b\d+\.\d+ s\b", " SECONDS", text)


def journal_lines(run: Path, folder: Path) -> Iterator[dict[str, Any]]:
    for line in (run / "turns.jsonl").read_text("utf-8").splitlines():
        record = json.loads(made_alike(line, folder))
        for name in TIMES & record.keys():
            if isinstance(record[name], (int, float)) and not isinstance(record[name], bool):
                record[name] = 0
        yield record


def log_lines(run: Path, folder: Path) -> Iterator[str]:
    """The lines of both logs for people, without the one that lists all settings."""
    for path in sorted(run.glob("*.log")) + [run / "execution_log.txt"]:
        for line in path.read_text("utf-8").splitlines():
            if not line.startswith("    Config("):
                yield made_alike(line, folder)


def kept_files(run: Path) -> Iterator[tuple[str, str]]:
    """The names of a run's files, times in them made alike, and the hash of each picture."""
    for path in sorted(run.rglob("*")):
        name = re.sub(r"\d{8}_\d{6}", "TIME", path.relative_to(run).as_posix())
        is_picture = path.suffix == ".png"
        yield name, hashlib.sha256(path.read_bytes()).hexdigest() if is_picture else ""


def differing_values(old: Any, new: Any, where: str) -> Iterator[str]:
    """Each leaf of two JSON values that differs, with the way to it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            if name not in new or name not in old:
                side = "gone" if name in old else "new"
                yield f"{where}.{name} is {side}: {shown(old.get(name, new.get(name)))}"
            else:
                yield from differing_values(old[name], new[name], f"{where}.{name}")
        if list(old) != list(new) and old.keys() == new.keys():
            yield f"{where}: the same names in another order, {shown(list(new))}"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from differing_values(*pair, f"{where}[{number}]")
    elif old != new or type(old) is not type(new):
        yield f"{where}: {around_difference(old, new)}"


def around_difference(old: Any, new: Any) -> str:
    """Both sides, of texts the part around the first sign that differs."""
    if isinstance(old, str) and isinstance(new, str):
        first = len(os.path.commonprefix([old, new]))
        begin = max(0, first - SHOWN_CHARS // 3)
        return f"at {first}: {shown(old[begin:])} -> {shown(new[begin:])}"
    return f"{shown(old)} -> {shown(new)}"


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "..."


def differing_requests(old: list[str], new: list[str], named: set[str]) -> Iterator[str]:
    if len(old) != len(new):
        yield f"requests: {len(old)} -> {len(new)}"
    for number, (one, other) in enumerate(zip(old, new), 1):  # noqa: B905
        one, other = without_text_cuts(one, other, "request", named)
        if one == other:
            continue
        found = []
        one_path, _, one_body = one.partition(" ")
        other_path, _, other_body = other.partition(" ")
        if one_path == other_path and one_body and other_body:
            values = (json.loads(one_body), json.loads(other_body))
            found = list(differing_values(*values, f"request {number}"))
        # the same values may be written differently, with other blanks, say
        yield from found or [f"request {number}: {around_difference(one, other)}"]


def without_cuts(old: dict[str, Any], new: dict[str, Any], named: set[str]) -> None:
    """Takes out of both lines what CUTS allows to differ, and adds what that was to `named`."""
    for cut in CUTS:
        if old["kind"] != cut.kind or new["kind"] != cut.kind:
            continue
        goes = cut.allowed == "goes" or (cut.allowed == "may go" and old.get(cut.field, 0) is None)
        if goes and cut.field in old and cut.field not in new:
            del old[cut.field]
            named.add(f"{cut.kind}.{cut.field} is gone ({cut.why})")
        elif cut.allowed == "may come" and cut.field in new and cut.field not in old:
            del new[cut.field]
            named.add(f"{cut.kind}.{cut.field} is new ({cut.why})")
        elif cut.allowed == "may differ" and old.get(cut.field) != new.get(cut.field):
            old.pop(cut.field, None)
            new.pop(cut.field, None)
            named.add(f"{cut.kind}.{cut.field} differs ({cut.why})")
        elif cut.allowed == "common keys" and cut.field in old and cut.field in new:
            for one, other, side in ((old, new, "gone"), (new, old, "new")):
                for name in sorted(one[cut.field].keys() - other[cut.field].keys()):
                    del one[cut.field][name]
                    named.add(f"{cut.kind}.{cut.field}.{name} is {side} ({cut.why})")


def without_lines(
    old: list[dict[str, Any]], new: list[dict[str, Any]], named: set[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Both journals less the lines of kinds that CUTS allows on one side alone."""
    for cut in CUTS:
        sides = [sum(record["kind"] == cut.kind for record in side) for side in (old, new)]
        if cut.allowed == "new lines" and any(sides) and not all(sides):
            old = [record for record in old if record["kind"] != cut.kind]
            new = [record for record in new if record["kind"] != cut.kind]
            named.add(f"lines of kind {cut.kind} ({cut.why})")
    return old, new


def differing_journals(
    old: list[dict[str, Any]], new: list[dict[str, Any]], named: set[str]
) -> Iterator[str]:
    old, new = without_lines(old, new, named)
    kinds = ([record["kind"] for record in old], [record["kind"] for record in new])
    if kinds[0] != kinds[1]:
        yield f"journal: the kinds of lines differ, {around_difference(*map(' '.join, kinds))}"
    for number, (one, other) in enumerate(zip(old, new), 1):  # noqa: B905
        without_cuts(one, other, named)
        yield from differing_values(one, other, f"turns.jsonl:{number} {one['kind']}")


def differing_lines(old: list[str], new: list[str], what: str, named: set[str]) -> Iterator[str]:
    texts = ("".join(f"{line}\n" for line in side) for side in (old, new))
    sides = [text.splitlines() for text in without_text_cuts(*texts, what, named)]
    for number, (one, other) in enumerate(zip_longest(*sides), 1):
        if one != other:
            yield f"{what}:{number}: {around_difference(one, other)}"


def differences(old: Demo, new: Demo, named: set[str]) -> Iterator[str]:
    """All that differs between two demos of one profile; `named` gets the cuts that were met."""
    if old.code != new.code:
        yield f"exit code: {old.code} -> {new.code}"
    for name in FILE_CUTS.keys() & (old.files.keys() ^ new.files.keys()):
        old.files.pop(name, None)
        new.files.pop(name, None)
        named.add(f"{name} ({FILE_CUTS[name]})")
    for found in (
        differing_requests(old.requests, new.requests, named),
        differing_journals(old.journal, new.journal, named),
        differing_lines(old.log, new.log, "logs", named),
        differing_lines(old.said.splitlines(), new.said.splitlines(), "terminal", named),
        differing_values(old.files, new.files, "files"),
    ):
        listed = list(found)
        yield from listed[:DIFFERENCES_MOST]
        if len(listed) > DIFFERENCES_MOST:
            yield f"... and {len(listed) - DIFFERENCES_MOST} more of these"


def compare(old: Path, new: Path) -> int:
    """Prints how the demos of two checkouts differ; returns the number of differences."""
    total, named = 0, set[str]()
    for profile in PROFILES:
        with ThreadPoolExecutor(2) as both:
            demos = list(both.map(run_demo, (old, new), (profile, profile)))
        found = list(differences(*demos, named))
        total += len(found)
        counted = f"{len(demos[1].requests)} requests, {len(demos[1].journal)} journal lines"
        counted += f", {len(demos[1].log)} log lines, {len(demos[1].files)} files"
        print(f"{profile:<10} {'same' if not found else f'{len(found)} differences'}: {counted}")
        for line in found:
            print(f"    {line}")
    for line in sorted(named):
        print(f"a cut: {line}")
    print("the same" if not total else f"{total} differences")
    return total


def main() -> int:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    old, new = (Path(argument).resolve() for argument in sys.argv[1:])
    return 1 if compare(old, new) else 0


if __name__ == "__main__":
    sys.exit(main())
