"""What each seam came to when somebody last looked at it, so that no change of behaviour goes unseen.

    python -m tests.kept            writes tests/data/kept.json anew, and names the cases that differ

tests/test_kept.py compares. Of a case there is a digest only: `python -m tests.compare HEAD --seams SEAM` shows what a
change since the last commit does to it, value by value. Whoever wants that difference writes the file anew.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tests import compare

FILE = compare.HERE / "tests" / "data" / "kept.json"
# The seams that are driven in one process, and the generated cases of each; of runs a quarter as many turns.
GROUPS = {("runs",): 40, ("contexts", "demos", "pictures"): 100}
GROUPS[tuple(seam for seam in compare.SEAMS if seam not in sum(GROUPS, ()))] = 150
Kept = dict[str, dict[str, str]]  # of each seam its cases with their digests


def digests(seams: tuple[str, ...]) -> Kept:
    """Each case of these seams, a whole run being one, with the digest of what comes of it now."""
    parts: dict[tuple[str, str], list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        side = compare.put_agent(str(compare.HERE), Path(folder, "side"))
        came = compare.drive(side, seams, GROUPS[seams])
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


def main() -> None:
    before = read()
    after = {seam: now()[seam] for seam in compare.SEAMS}
    FILE.write_text(json.dumps(after, indent=0, ensure_ascii=False) + "\n", "utf-8")
    for seam in compare.SEAMS:
        cases = list(differing(before.get(seam, {}), after[seam]))
        print(f"{seam}: {len(cases)} of {len(after[seam])} cases differ {cases[:5]}")


if __name__ == "__main__":
    main()
