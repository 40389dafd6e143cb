"""What each seam came to when somebody last looked at it, so that no change of behaviour goes unseen.

    python -m tests.kept                    writes tests/data/kept.json anew, and names the cases that differ
    python -m tests.kept COMMIT [SEAM ...]  shows how what comes of the cases differs from that commit (or folder)

tests/test_kept.py compares. Of a case there is a digest only. tests/compare_side.py drives an agent.py through the cases
in a process of its own, with scripted models and a simulated Windows.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
FILE = HERE / "tests" / "data" / "kept.json"
SEAMS = tuple("runs replies verdicts changes books demos lines".split())
TIMEOUT_S = 900
SHOWN_CHARS = 300  # of a line
LINES_SHOWN = 18  # of a difference
SHOWN_MOST = 30  # kinds of differences that are printed
# -P, so that the agent.py of the working folder is not found first, is for Python 3.11
DRIVER = "import sys; sys.path.remove(''); from tests import compare_side; compare_side.main()"
Came = dict[tuple[str, str], Any]  # (seam, case): what came of it
# The seams that are driven in one process, and the generated cases of each; of runs a quarter as many turns.
GROUPS = {("runs",): 40, ("demos",): 100}
GROUPS[tuple(seam for seam in SEAMS if seam not in sum(GROUPS, ()))] = 150
Kept = dict[str, dict[str, str]]  # of each seam its cases with their digests


def put_agent(name: str | Path, folder: Path) -> Path:
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


def differences(old: Came, new: Came) -> dict[str, list[str]]:
    """Of each case that differs the lines in which it does, with - those of the old side and with + those of the new."""
    found = {}
    for key in {**old, **new}:
        sides = [list(lines(side[key])) if key in side else [] for side in (old, new)]
        if sides[0] != sides[1]:
            changed = [*difflib.unified_diff(*sides, lineterm="", n=0)][2:]
            found[": ".join(key)] = [line for line in changed if not line.startswith("@@")]
    return found


def lines(value: Any, where: str = "") -> Iterator[str]:
    """A value as lines with their places, a request's body value by value, another text by its sentences."""
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
        yield from (f"{where}: {line}" for line in re.split(r"\n|(?<=[.;]) ", value))
    else:
        yield f"{where} = {json.dumps(value)}"


def told(found: dict[str, list[str]], cases: int) -> Iterator[str]:
    """What is to be said of a comparison: differences that are alike but for numbers once, and the sum."""
    kinds: dict[str, list[str]] = {}
    for case, changed in found.items():
        kinds.setdefault(re.sub(r"\d+", "N", "\n".join(changed)), []).append(case)
    for first, *more in list(kinds.values())[:SHOWN_MOST]:
        yield first + (f" (and {len(more)} more like it)" if more else "")
        yield from (f"    {line[:SHOWN_CHARS]}" for line in found[first][:LINES_SHOWN])
    yield f"{cases} cases, {len(found)} differ in {len(kinds)} ways"


def digests(seams: tuple[str, ...]) -> Kept:
    """Each case of these seams, a whole run being one, with the digest of what comes of it now."""
    parts: dict[tuple[str, str], list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        came = drive(put_agent(HERE, Path(folder, "side")), seams, GROUPS[seams])
    for (seam, case), value in came.items():
        begin = case.partition(": ")[0]
        parts.setdefault((seam, begin), []).append(json.dumps([case, value]))
    found: Kept = {seam: {} for seam in seams}
    for (seam, case), lines in parts.items():
        found[seam][case] = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]
    return found


@cache
def now() -> Kept:
    """The cases of every seam as they come now; the groups are driven at the same time."""
    with ThreadPoolExecutor() as pool:
        return {seam: cases for found in pool.map(digests, GROUPS) for seam, cases in found.items()}


def read() -> Kept:
    kept: Kept = json.loads(FILE.read_text("utf-8"))
    return kept


def differing(old: dict[str, str], new: dict[str, str]) -> Iterable[str]:
    """The cases that came, went or came to something else."""
    return [case for case in {**old, **new} if old.get(case) != new.get(case)]


def compare(old: str, seams: Sequence[str]) -> None:
    """Shows how this tree differs from a commit at these seams."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as both:
        sides = [put_agent(old, Path(name, "old")), put_agent(HERE, Path(name, "new"))]
        came = list(both.map(lambda side: drive(side, seams, max(GROUPS.values())), sides))
    print("\n".join(told(differences(*came), len(came[1]))))


def main() -> None:
    if sys.argv[1:]:
        compare(sys.argv[1], sys.argv[2:] or SEAMS)
        return
    before, after = read(), {seam: now()[seam] for seam in SEAMS}
    FILE.write_text(json.dumps(after, indent=0, ensure_ascii=False) + "\n", "utf-8")
    for seam in SEAMS:
        cases = list(differing(before.get(seam, {}), after[seam]))
        print(f"{seam}: {len(cases)} of {len(after[seam])} cases differ {cases[:5]}")


if __name__ == "__main__":
    main()
