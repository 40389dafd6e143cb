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
from pathlib import Path

from tests import compare

FILE = compare.HERE / "tests" / "data" / "kept.json"
CASES = {"runs": 40, "demos": 30, "lines": 200, "pictures": 100}  # of runs a quarter as many turns
CASES_ELSEWHERE = 150


def digests(seam: str, agent: str = str(compare.HERE)) -> dict[str, str]:
    """Each case of a seam, a whole run being one, with the digest of what comes of it now."""
    parts: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        side = compare.put_agent(agent, Path(folder, "side"))
        came = compare.drive(side, [seam], CASES.get(seam, CASES_ELSEWHERE))
    for (_, case), value in came.items():
        parts.setdefault(case.partition(": ")[0], []).append(json.dumps([case, value]))
    return {
        case: hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]
        for case, lines in parts.items()
    }


def read() -> dict[str, dict[str, str]]:
    """Of each seam its cases with their digests."""
    kept: dict[str, dict[str, str]] = json.loads(FILE.read_text("utf-8"))
    return kept


def differing(old: dict[str, str], new: dict[str, str]) -> Iterable[str]:
    """The cases that came, went or came to something else."""
    return [case for case in {**old, **new} if old.get(case) != new.get(case)]


def main() -> None:
    before = read()
    after = {seam: digests(seam) for seam in compare.SEAMS}
    FILE.write_text(json.dumps(after, indent=0, ensure_ascii=False) + "\n", "utf-8")
    for seam in compare.SEAMS:
        cases = list(differing(before.get(seam, {}), after[seam]))
        print(f"{seam}: {len(cases)} of {len(after[seam])} cases differ {cases[:5]}")


if __name__ == "__main__":
    main()
