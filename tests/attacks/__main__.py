"""All attacks as a table in Markdown, with what became of each before and now: python -m tests.attacks [--all]

`before.json` holds what the same programs said of the version before: of the first day's attacks, that of the morning
when the holes were found; of the second day's (variants, outside), that before those were closed. Ends with 1 if an
attack gets through now. The patterns take half a minute by themselves: python -m unittest tests.attacks.check_patterns
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.attacks import folders, gates, outside, patterns, secrets, server, variants

BEFORE = Path(__file__).with_name("before.json")
# What each of the first day's attacks is about.
NUMBERS = {
    "slow_error_text": "1", "absurd_token_count": "10",
    "small_objects": "20", "forged_hint": "18", "forged_outcome": "19", "oracle": "15",
    "key_in_files": "17", "key_is_typed": "17", "stored_replies": "8", "linked_picture_is_exported": "12",
    "linked_folder_is_exported": "12", "linked_report_overwrites": "12", "linked_log_is_written_on_resume": "12",
    "pipe_hangs": "12", "bomb_takes_seconds": "13",
    "deep_json_breaks": "14", "deep_journal_breaks": "14", "forged_state_is_believed": "11",
    "others_can_read": "23", "huge_reply_is_stored_whole": "8", "run_outgrows_its_limit": "8",
}  # fmt: skip
BAD = ("passed", "gets through")
Row = tuple[str, str, str, str]  # number, program, attack, what became of it


def rows() -> Iterator[Row]:
    """Every attack, carried out now."""
    for program, found in (("gates", gates.attacks()), ("variants", variants.attacks())):
        for number, name, result in found:
            yield number.removeprefix("15."), program, name, result
    for module, program in ((server, "server"), (folders, "folders"), (secrets, "secrets")):
        for attack in module.ATTACKS:
            through = module.gets_through(attack)
            number = NUMBERS.get(attack.__name__, "3")
            yield number, program, title(attack), said(through)
    for number, attack in outside.ATTACKS:
        through = outside.gets_through(attack)
        yield number.removeprefix("15."), "outside", title(attack), said(through)


def title(attack: Any) -> str:
    """The first sentence of what an attack says of itself."""
    return str(attack.__doc__).partition("\n")[0].rstrip(".")


def said(through: bool) -> str:
    return "gets through" if through else "held"


def table(found: list[Row], before: dict[str, str]) -> Iterator[str]:
    """A line of Markdown for each attack, by the numbers of the issue."""
    yield "| number | attack | before | now |"
    yield "| --- | --- | --- | --- |"
    for number, program, name, result in sorted(found, key=lambda row: float(row[0])):
        was = before.get(f"{program}: {name}", "not recorded")
        plain = name.encode("unicode_escape").decode().replace("|", "\\|")
        yield f"| {number} | {plain} | {was} | {result} |"


def short_table(found: list[Row], before: dict[str, str]) -> Iterator[str]:
    """A line for each number: how many attacks, some of them, and how many got through."""
    yield "| number | attacks, such as | got through before | now |"
    yield "| --- | --- | --- | --- |"
    for number in sorted({row[0] for row in found}, key=float):
        of_it = [row for row in found if row[0] == number]
        through = [row for row in of_it if before.get(f"{row[1]}: {row[2]}") in BAD]
        some = dict.fromkeys(row[2] for row in [*through[:1], *through[-1:], *of_it[:2]])
        shown = "; ".join(list(some)[:2]).encode("unicode_escape").decode().replace("|", "\\|")
        now = sum(row[3] in BAD for row in of_it)
        yield f"| {number} | {len(of_it)}: {shown} | {len(through)} | {now} |"


def main() -> int:
    before = json.loads(BEFORE.read_text("utf-8"))
    found = list(rows())
    written = table if "--all" in sys.argv else short_table
    print("\n".join(written(found, before)) + "\n")
    then = sum(before.get(f"{program}: {name}") in BAD for _, program, name, _ in found)
    passing = [name for _, program, name, result in found if result in BAD]
    whys: dict[str, list[str]] = {}
    for name in passing:
        whys.setdefault(gates.why_bearable(name), []).append(name)
    for why, names in whys.items():
        some = "; ".join(names[:2]).encode("unicode_escape").decode()[:90]
        print(f"passes ({len(names)}, such as {some}): {why or 'NOT BEARABLE'}")
    now = len(passing)
    quick = len(patterns.uses(patterns.SOURCE))
    print(
        f"{len(found)} attacks, {then} got through before, {now} now;"
        f" {quick} uses of patterns have a program of their own"
    )
    return int("" in whys)


if __name__ == "__main__":
    sys.exit(main())
