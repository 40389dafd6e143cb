"""All attacks as a table in Markdown, with what became of each: python -m tests.attacks [--all]

Ends with 1 if an attack gets through that cannot be borne. The patterns take half a minute by themselves:
python -m unittest tests.attacks.check_patterns
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.attacks import folders, gates, gets_through, outside, patterns, secrets, server

PROGRAMS = (server, folders, secrets, outside)
BAD = ("passed", "gets through")
Row = tuple[str, str, str]  # number, attack, what became of it
COUNT = len(gates.ATTACKS) + len(gates.SCENES) + sum(len(program.ATTACKS) for program in PROGRAMS)


def rows() -> Iterator[Row]:
    """Every attack, carried out now."""
    for number, name, result in gates.attacks():
        yield number.removeprefix("15."), name, result
    for program in PROGRAMS:
        for number, attack in program.ATTACKS:
            title = str(attack.__doc__).partition("\n")[0].rstrip(".")
            result = "gets through" if gets_through(attack) else "held"
            yield number.removeprefix("15."), title, result


def plain(text: str) -> str:
    return text.encode("unicode_escape").decode().replace("|", "\\|")


def table(found: list[Row]) -> Iterator[str]:
    """A line of Markdown for each attack, by the numbers of the issue."""
    yield "| number | attack | now |"
    yield "| --- | --- | --- |"
    for number, name, result in sorted(found, key=lambda row: float(row[0])):
        yield f"| {number} | {plain(name)} | {result} |"


def short_table(found: list[Row]) -> Iterator[str]:
    """A line for each number: how many attacks, some of them, and how many got through."""
    yield "| number | attacks, such as | now |"
    yield "| --- | --- | --- |"
    for number in sorted({row[0] for row in found}, key=float):
        of_it = [row for row in found if row[0] == number]
        shown = plain("; ".join([row[1] for row in of_it][:2]))
        yield f"| {number} | {len(of_it)}: {shown} | {sum(row[2] in BAD for row in of_it)} |"


def main() -> int:
    found = list(rows())
    written = table if "--all" in sys.argv else short_table
    print("\n".join(written(found)) + "\n")
    passing = [name for _, name, result in found if result in BAD]
    whys: dict[str, list[str]] = {}
    for name in passing:
        whys.setdefault(gates.why_bearable(name), []).append(name)
    for why, names in whys.items():
        some = "; ".join(names[:2]).encode("unicode_escape").decode()[:90]
        print(f"passes ({len(names)}, such as {some}): {why or 'NOT BEARABLE'}")
    quick = len(patterns.uses(patterns.SOURCE))
    print(
        f"{len(found)} attacks, {len(passing)} get through;"
        f" {quick} uses of patterns have a program of their own"
    )
    return int("" in whys)


if __name__ == "__main__":
    sys.exit(main())
