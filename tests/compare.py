"""Whether two checkouts behave alike: the same scripted runs and generated cases, driven through both.

    python -m tests.compare                     the last commit against the working tree
    python -m tests.compare COMMIT              that commit against the working tree
    python -m tests.compare OLD NEW             two commits, or folders that hold an agent.py
        --cases N        generated cases at each seam (2000); below 100 fewer runs, too
        --seams A,B      only these, of runs, replies, verdicts, changes, books, contexts, pictures, demos, lines and
                         places

tests/compare_side.py drives either side in a process of its own, with scripted models and a simulated Windows.
What comes of a case is compared value by value, texts line by line. Differences that are alike are printed once, and
the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
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
SHOWN_CHARS = 300  # of a line
LINES_SHOWN = 9  # of each side of a difference
SHOWN_MOST = 30  # kinds of differences that are printed
# -P, so that the agent.py of the working folder is not found first, is for Python 3.11
DRIVER = "import sys; sys.path.remove(''); from tests import compare_side; compare_side.main()"
Came = dict[tuple[str, str], Any]  # (seam, case): what came of it


class Difference(NamedTuple):
    """Lines of what came of a case in which the two sides differ; a case that one side alone has is one line of it."""

    seam: str
    case: str
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def kind(self) -> tuple[str, ...]:
        """What repeated differences have in common: all but the numbers."""
        return self.seam, *(re.sub(r"\d+", "N", "\n".join(side)) for side in self[2:])


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


def drive(checkout: Path, seams: Sequence[str], cases: int) -> Came:
    """What this checkout's agent.py does, with this tree's tests and nothing of the person's settings."""
    output = checkout / "lines.jsonl"
    own = ("AGENT_", "LMSTUDIO_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    path = os.pathsep.join([str(checkout), str(HERE)])
    fixed = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "NO_COLOR": "1", "TZ": "UTC"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, ",".join(seams), str(cases), str(output)],
        cwd=checkout,
        env={**kept, **fixed, "PYTHONPATH": path, "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise SystemExit(f"{checkout.name}: the driver failed\n{done.stderr[-3000:]}")
    lines = map(json.loads, output.read_text("utf-8").splitlines())
    return {(line["seam"], line["case"]): line["value"] for line in lines}


def differences(old: Came, new: Came) -> Iterator[Difference]:
    """Each difference between what came of the cases on both sides."""
    for key in dict.fromkeys([*old, *new]):
        if key not in old or key not in new:
            there = [(f"the case {key[1]}",) if key in side else () for side in (old, new)]
            yield Difference(*key, *there)
        elif json.dumps(old[key]) != json.dumps(new[key]):
            sides = [list(lines(side[key])) for side in (old, new)]
            if sides[0] == sides[1]:  # a request of the same values
                sides = [[str(old[key])], [str(new[key])]]
            matcher = difflib.SequenceMatcher(None, *sides, autojunk=False)
            for tag, a, b, c, d in matcher.get_opcodes():
                if tag != "equal":
                    yield Difference(*key, tuple(sides[0][a:b]), tuple(sides[1][c:d]))


def lines(value: Any, where: str = "") -> Iterator[str]:
    """A value as lines with their places, a request's body value by value, another text by its lines."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from lines(part, f"{where}.{name}")
    elif isinstance(value, list) and value:
        for part in value:
            yield from lines(part, f"{where}[]")
    elif isinstance(value, str):
        yield from (f"{where}: {line}" for line in value.split("\n"))
    else:
        yield f"{where} = {json.dumps(value)}"


def told(found: Sequence[Difference], cases: int) -> Iterator[str]:
    """What is to be said of a comparison: equal differences once, and the sum."""
    kinds: dict[tuple[str, ...], list[Difference]] = {}
    for difference in found:
        kinds.setdefault(difference.kind, []).append(difference)
    for same in list(kinds.values())[:SHOWN_MOST]:
        first = same[0]
        more = f" (and {len(same) - 1} more like it)" if len(same) > 1 else ""
        yield f"{first.seam}: {first.case}{more}"
        common = len(os.path.commonprefix(["\n".join(side) for side in first[2:]]))
        for sign, side in (("-", first.old), ("+", first.new)):
            yield from (f"    {sign} {cut(line, common)}" for line in side[:LINES_SHOWN])
    if len(kinds) > SHOWN_MOST:
        yield f"... and {len(kinds) - SHOWN_MOST} more kinds of differences"
    yield f"{cases} cases, {len(found)} differences of {len(kinds)} kinds"


def cut(line: str, common: int) -> str:
    """A line without the beginning that both sides have in common, where that is long, and without a long end."""
    begin = common - 40 if 80 < common < len(line) else 0
    text = ("..." if begin else "") + line[begin:]
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "..."


def compare(old: str, new: str, seams: Sequence[str], cases: int) -> tuple[list[Difference], int]:
    """Drives both through the same cases, at the same time; what differs, and how many cases there were."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as both:
        sides = [put_agent(old, Path(name, "old")), put_agent(new, Path(name, "new"))]
        came = list(both.map(lambda side: drive(side, seams, cases), sides))
    return list(differences(*came)), len(came[1])


def main(arguments: Sequence[str] | None = None) -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.compare", None, __doc__, formatter_class=raw)
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
