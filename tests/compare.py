"""Whether two checkouts behave alike: the same scripted runs and generated cases, driven through both.

    python -m tests.compare                     the last commit against the working tree
    python -m tests.compare COMMIT              that commit against the working tree
    python -m tests.compare OLD NEW             two commits, or folders that hold an agent.py
        --cases N        generated cases at each seam (2000); below 100 fewer runs, too
        --seams A,B      only these, of runs, replies, verdicts, changes, books, contexts, pictures, demos, lines and
                         places

tests/compare_side.py drives either side in a process of its own, with scripted models and a simulated Windows of the
tests, so that nothing here depends on the demo. What comes of a case is compared value by value, texts line by line.
Every difference is printed, those that are alike once, and the exit code is 1 if there is one.
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent.parent
SEAMS = tuple("runs replies verdicts changes books contexts pictures demos lines places".split())
TIMEOUT_S = 900
SHOWN_CHARS = 300  # of each side of a difference
SHOWN_MOST = 30  # kinds of differences that are printed
GONE = None  # the side on which there is nothing


class Difference(NamedTuple):
    """One place where the two sides differ; a side that is None has nothing there."""

    seam: str
    case: str
    where: str
    old: str | None
    new: str | None

    @property
    def kind(self) -> tuple[str, ...]:
        """What repeated differences have in common: all but the numbers of cases and places.

        Of a case that one side alone has it is the case's name.
        """
        parts = (self.where, str(self.old), str(self.new))
        if not self.where and GONE in (self.old, self.new):
            parts = (self.case, str(self.old is GONE), "")
        return self.seam, *(re.sub(r"\d+", "N", part) for part in parts)


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
    for key in dict.fromkeys([*old, *new]):
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


# -- what is said of them


def told(found: Sequence[Difference], cases: int) -> Iterator[str]:
    """What is to be said of a comparison: equal differences once, and the sum."""
    kinds: dict[tuple[str, ...], list[Difference]] = {}
    for difference in found:
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
    yield f"{cases} cases, {len(found)} differences of {len(kinds)} kinds"


def cut(side: str, old: str, new: str) -> str:
    """A side without the beginning that both have in common, where it is long."""
    first = len(os.path.commonprefix([old, new]))
    begin = first - 40 if first > 80 else 0
    text = ("..." if begin else "") + side[begin:]
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "..."


def compare(old: str, new: str, seams: Sequence[str], cases: int) -> tuple[list[Difference], int]:
    """Drives both through the same cases, at the same time; what differs, and how many cases there were."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as both:
        sides = [put_agent(old, Path(name, "old")), put_agent(new, Path(name, "new"))]
        came = list(both.map(lambda side: drive(side, seams, cases), sides))
    return list(differences(*came)), len(came[1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", nargs="?", default="HEAD")
    parser.add_argument("new", nargs="?", default=str(HERE))
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seams", default=",".join(SEAMS))
    given = parser.parse_args(arguments)
    seams = given.seams.split(",")
    unknown = set(seams) - set(SEAMS)
    if unknown:
        parser.error(f"there is no seam {', '.join(sorted(unknown))}; there are {', '.join(SEAMS)}")
    found, cases = compare(given.old, given.new, seams, given.cases)
    print("\n".join(told(found, cases)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
