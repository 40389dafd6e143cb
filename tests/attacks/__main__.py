"""All attacks with what became of each, and why what passes can be borne: python -m tests.attacks [--all]

Ends with 1 if an attack gets through that cannot be borne. The patterns have a program of their own:
python -m tests.attacks.patterns
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.attacks import Attack, attacks_of, gets_through, outside, scenes, secrets

ATTACKS: list[Attack] = [*attacks_of(outside), *attacks_of(secrets)]
GATES = [row for row in scenes.ROWS if not row.get("harmless")]
COUNT = len(GATES) + len(ATTACKS)


def main() -> int:
    counts = Counter[str]()
    for row in GATES:
        result = scenes.outcome(row)
        why = f": {row.get('why', 'NOT BEARABLE')}" if result == "passed" else ""
        counts["passed" if row.get("why") else "NOT BEARABLE" if why else result] += 1
        if why or "--all" in sys.argv:
            print(f"{result}: {row['name'].encode('unicode_escape').decode()}{why}")
    for attack in ATTACKS:
        result = "NOT BEARABLE" if gets_through(attack) else "held"
        counts[result] += 1
        if result != "held" or "--all" in sys.argv:
            print(f"{result}: {str(attack.__doc__).rstrip('.')}")
    print(f"{COUNT} attacks: {dict(counts)}")
    return int("NOT BEARABLE" in counts)


if __name__ == "__main__":
    sys.exit(main())
