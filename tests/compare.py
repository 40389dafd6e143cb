"""Whether two checkouts behave alike: the same scripted runs and generated cases, driven through both.

    python -m tests.compare                     the ledger's commit against the working tree
    python -m tests.compare COMMIT              that commit against the working tree
    python -m tests.compare OLD NEW             two commits, or folders that hold an agent.py
        --cases N        generated cases at each seam (2000); below 100 fewer runs, too
        --seams A,B      only these, of runs, replies, verdicts, changes, books, contexts, pictures, demos, lines and
                         places; against the ledger's commit the first six
        --ledger FILE    the differences that are wanted (tests/compare_ledger.json, for the commit that it names)

tests/compare_side.py drives either side in a process of its own, with scripted models and a simulated Windows of the
tests, so that nothing here depends on the demo. What comes of a case is compared value by value, texts line by line.
Each wanted difference is a row of the ledger, {"seam", "why"} with patterns for "case", "where", "old" and "new" that
it has to match whole (where it names none, any will do). Every other difference is printed, and the exit code is 1.
Where a row has "follows": true, all that differs elsewhere in that run follows from it, as after another act.
A row that matches nothing any more is reported as stale; the rows are about the commit that the ledger names.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent.parent
LEDGER = HERE / "tests" / "compare_ledger.json"
OLDER = (
    "runs",
    "replies",
    "verdicts",
    "changes",
    "books",
    "contexts",
)  # the ledger's commit has these
SEAMS = (*OLDER, "pictures", "demos", "lines", "places")
TIMEOUT_S = 900
SHOWN_CHARS = 300  # of each side of a difference
SHOWN_MOST = 30  # kinds of differences that are printed
CANNOT = "cannot"  # the case that says why one side cannot carry out a run
GONE = None  # the side on which there is nothing


class Difference(NamedTuple):
    """One place where the two sides differ; a side that is None has nothing there."""

    seam: str
    case: str
    where: str
    old: str | None
    new: str | None

    @property
    def run(self) -> tuple[str, str]:
        """What the case is a part of: its name up to a colon."""
        return self.seam, self.case.partition(": ")[0]

    @property
    def kind(self) -> tuple[str, ...]:
        """What repeated differences have in common: all but the numbers of cases and places.

        Of a case that one side alone has it is the case's name.
        """
        parts = (self.where, str(self.old), str(self.new))
        if not self.where and GONE in (self.old, self.new):
            parts = (self.case, str(self.old is GONE), "")
        return self.seam, *(re.sub(r"\d+", "N", part) for part in parts)


class Row(NamedTuple):
    """A wanted difference: patterns of what it covers, and why it is better."""

    seam: str
    why: str
    case: str = ".*"
    where: str = ".*"
    old: str = ".*"
    new: str = ".*"
    follows: bool = False  # whether the rest of its run goes another way since then

    def covers(self, found: Difference) -> bool:
        if self.seam != found.seam:
            return False
        given = (found.case, found.where, found.old or "", found.new or "")
        patterns = (self.case, self.where, self.old, self.new)
        pairs = zip(patterns, given, strict=True)
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in pairs)


class Ledger(NamedTuple):
    """The commit since which the wanted differences came, and these."""

    since: str
    rows: list[Row]


def read_ledger(path: Path) -> Ledger:
    written = json.loads(path.read_text("utf-8"))
    return Ledger(written["since"], [Row(**row) for row in written["rows"]])


# -- the two sides


def put_agent(name: str, folder: Path) -> Path:
    """The agent.py of a commit, or of a folder, in a folder of its own."""
    folder.mkdir()
    if Path(name, "agent.py").is_file():
        data = Path(name, "agent.py").read_bytes()
    else:
        command = ["git", "-C", str(HERE), "show", f"{name}:agent.py"]
        done = subprocess.run(command, capture_output=True)
        if done.returncode:
            raise SystemExit(f"{name} is no commit and no folder with an agent.py")
        data = done.stdout
    (folder / "agent.py").write_bytes(data)
    return folder


def environment(checkout: Path) -> dict[str, str]:
    """The checkout's agent.py and this tree's tests, and nothing of the person's settings."""
    own = ("AGENT_", "LMSTUDIO_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    path = os.pathsep.join([str(checkout), str(HERE)])
    fixed = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "NO_COLOR": "1", "TZ": "UTC"}
    return {**kept, **fixed, "PYTHONPATH": path, "COLUMNS": "120"}


def drive(checkout: Path, seams: Sequence[str], cases: int) -> dict[tuple[str, str], Any]:
    """What this checkout's agent.py does: (seam, case) to what came of it."""
    output = checkout / "lines.jsonl"
    # -P, so that the agent.py of the working folder is not found first, is for Python 3.11
    code = "import sys; sys.path.remove(''); from tests import compare_side; compare_side.main()"
    arguments = [",".join(seams), str(cases), str(output)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=checkout,
        env=environment(checkout),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise SystemExit(f"{checkout.name}: the driver failed\n{done.stderr[-3000:]}")
    lines = map(json.loads, output.read_text("utf-8").splitlines())
    return {(line["seam"], line["case"]): line["value"] for line in lines}


# -- what differs


def differences(
    old: dict[tuple[str, str], Any], new: dict[tuple[str, str], Any]
) -> Iterator[Difference]:
    """Each difference between what came of the cases on both sides."""
    cannot = {key for side in (old, new) for key in side if key[1].endswith(f": {CANNOT}")}
    left_out = {(seam, case.removesuffix(CANNOT)) for seam, case in cannot}
    for key in dict.fromkeys([*old, *new]):
        seam, case = key
        if key not in cannot and (seam, case.partition(": ")[0] + ": ") in left_out:
            continue
        if key in old and key in new:
            for where, one, other in differing(old[key], new[key], ""):
                yield Difference(*key, where, one, other)
        elif key in old:
            yield Difference(*key, "", shown(old[key]), GONE)
        else:
            yield Difference(*key, "", GONE, shown(new[key]))


Differing = Iterator[tuple[str, str | None, str | None]]


def differing(old: Any, new: Any, where: str) -> Differing:
    """The places of two JSON values that differ, with both sides of each."""
    if old == new and type(old) is type(new):
        if isinstance(old, dict) and list(old) != list(new):
            yield f"{where} (order)", shown(list(old)), shown(list(new))
    elif isinstance(old, dict) and isinstance(new, dict):
        yield from differing_objects(old, new, where)
    elif isinstance(old, list) and isinstance(new, list):
        yield from differing_lists(old, new, where)
    elif isinstance(old, str) and isinstance(new, str):
        yield from differing_texts(old, new, where)
    else:
        yield where, shown(old), shown(new)


def differing_objects(old: dict[str, Any], new: dict[str, Any], where: str) -> Differing:
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f"{where}.{name}", shown(old[name]), GONE
        elif name not in old:
            yield f"{where}.{name}", GONE, shown(new[name])
        else:
            yield from differing(old[name], new[name], f"{where}.{name}")
    common = [[name for name in side if name in old and name in new] for side in (old, new)]
    if common[0] != common[1]:
        yield f"{where} (order)", *map(shown, common)


def differing_lists(old: list[Any], new: list[Any], where: str) -> Differing:
    """Items that are the same on both sides are passed over, wherever one came or went."""
    written = [[json.dumps(item) for item in side] for side in (old, new)]
    matcher = difflib.SequenceMatcher(None, *written, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "replace" and b - a == d - c:
            for number, pair in enumerate(zip(old[a:b], new[c:d], strict=True), c):
                yield from differing(*pair, f"{where}[{number}]")
        elif tag != "equal":
            gone = [shown(item) for item in old[a:b]]
            come = [shown(item) for item in new[c:d]]
            yield f"{where}[{c}]", "\n".join(gone) or GONE, "\n".join(come) or GONE


def differing_texts(old: str, new: str, where: str) -> Differing:
    """A request's body value by value, another text by its lines."""
    if old.startswith("{") and new.startswith("{"):
        found = list(differing(json.loads(old), json.loads(new), where))
        yield from found or [(f"{where} (bytes)", *around(old, new))]
        return
    lines = [side.split("\n") for side in (old, new)]
    matcher = difflib.SequenceMatcher(None, *lines, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield where, "\n".join(lines[0][a:b]), "\n".join(lines[1][c:d])


def around(old: str, new: str) -> tuple[str, str]:
    """Both texts from shortly before the first sign in which they differ."""
    first = len(os.path.commonprefix([old, new]))
    begin = max(0, first - 40)
    return old[begin : begin + SHOWN_CHARS], new[begin : begin + SHOWN_CHARS]


def shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- the verdict


class Verdict(NamedTuple):
    """What is to be said of a comparison."""

    cases: int
    unlisted: list[Difference]
    covered: dict[Row, int]  # how many differences each row of the ledger covers

    @property
    def stale(self) -> list[Row]:
        return [row for row, times in self.covered.items() if not times]

    @property
    def fine(self) -> bool:
        return not self.unlisted


def judge(found: Iterable[Difference], ledger: Iterable[Row], cases: int) -> Verdict:
    """Sorts the differences into those that the ledger covers and the others."""
    covered = dict.fromkeys(ledger, 0)
    unlisted = []
    elsewhere = set()  # the runs that go another way
    for difference in found:
        rows = [row for row in covered if row.covers(difference)]
        for row in rows:
            covered[row] += 1
            if row.follows:
                elsewhere.add(difference.run)
        if not rows:
            unlisted.append(difference)
    left = [difference for difference in unlisted if difference.run not in elsewhere]
    return Verdict(cases, left, covered)


def told(verdict: Verdict) -> Iterator[str]:
    """The verdict in lines: equal differences once, stale rows, and the sum."""
    kinds: dict[tuple[str, ...], list[Difference]] = {}
    for difference in verdict.unlisted:
        kinds.setdefault(difference.kind, []).append(difference)
    for same in list(kinds.values())[:SHOWN_MOST]:
        first = same[0]
        more = f" (and {len(same) - 1} more like it)" if len(same) > 1 else ""
        yield f"{first.seam}: {first.case} {first.where}{more}"
        for sign, side in (("-", first.old), ("+", first.new)):
            if side is not GONE:
                pair = (first.old or "", first.new or "")
                yield from (f"    {sign} {line}" for line in cut(side, *pair).split("\n"))
    if len(kinds) > SHOWN_MOST:
        yield f"... and {len(kinds) - SHOWN_MOST} more kinds of differences"
    for row, times in verdict.covered.items():
        if times:
            yield f"wanted, {times} times: {row.why}"
    for row in verdict.stale:
        yield f"stale: no difference is like this row of the ledger: {row.seam}: {row.why}"
    yield (
        f"{verdict.cases} cases, {len(verdict.unlisted)} differences that the ledger does not"
        f" list, of {len(kinds)} kinds; {len(verdict.stale)} stale rows"
    )


def cut(side: str, old: str, new: str) -> str:
    """A side without the beginning that both have in common, where it is long."""
    first = len(os.path.commonprefix([old, new]))
    begin = first - 40 if first > 80 else 0
    text = ("..." if begin else "") + side[begin:]
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "..."


def compare(old: str, new: str, seams: Sequence[str], cases: int, ledger: Iterable[Row]) -> Verdict:
    """Drives both through the same cases, at the same time."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as both:
        sides = [put_agent(old, Path(name, "old")), put_agent(new, Path(name, "new"))]
        came = list(both.map(lambda side: drive(side, seams, cases), sides))
    rows = [row for row in ledger if row.seam in seams]
    return judge(differences(*came), rows, len(came[1]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", nargs="?")
    parser.add_argument("new", nargs="?", default=str(HERE))
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seams")
    parser.add_argument("--ledger", type=Path)
    given = parser.parse_args(arguments)
    seams = given.seams.split(",") if given.seams else SEAMS if given.old else OLDER
    unknown = set(seams) - set(SEAMS)
    if unknown:
        parser.error(f"there is no seam {', '.join(sorted(unknown))}; there are {', '.join(SEAMS)}")
    ledger = read_ledger(given.ledger or LEDGER)
    old = given.old or ledger.since
    rows = ledger.rows if given.ledger or old == ledger.since else []
    verdict = compare(old, given.new, seams, given.cases, rows)
    print("\n".join(told(verdict)))
    return 0 if verdict.fine else 1


if __name__ == "__main__":
    sys.exit(main())
