"""One line an item, so that a bench that was killed goes on; and what it leaves in its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import agent
from tests.bench.asking import SECONDS, Line, line_of
from tests.bench.figures import Advice, Result
from tests.bench.scenes import Item

Measure = Callable[[Item], Line]


def folders(root: Path) -> list[Path]:
    """The folders bench_NNNN of a folder of runs, the latest first."""
    found = [path for path in root.glob("bench_*") if path.name[6:].isdecimal()]
    ordinary = [path for path in found if path.is_dir() and not path.is_symlink()]
    return sorted(ordinary, key=number_of, reverse=True)


def number_of(folder: Path) -> int:
    return int(folder.name[6:])


def folder_for(root: Path, about: dict[str, Any]) -> Path:
    """The folder of an unfinished bench of the same model and settings, or a new one.

    Raises ConfigError if none can be made.
    """
    for folder in folders(root):
        with suppress(OSError):  # what cannot be read is not gone on with
            if not (folder / "bench.json").exists() and read_lines(folder)[0] == about:
                return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        for number in count(max(map(number_of, folders(root)), default=0) + 1):
            folder = root / f"bench_{number:04d}"
            with suppress(FileExistsError):  # another bench may take it at the same moment
                folder.mkdir(mode=0o700)
                break
        add(folder, {"about": about})
    except (OSError, ValueError) as error:  # a ValueError for letters that no path has
        reason = getattr(error, "strerror", None) or error
        raise agent.ConfigError(f"No folder can be made in {root.absolute()}: {reason}.") from None
    return folder


def add(folder: Path, entry: dict[str, Any]) -> None:
    """Adds a line to the journal, on the disk when this returns; raises OSError."""
    with (folder / "bench.jsonl").open("ab") as stream:
        stream.write(json.dumps(entry).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def read_lines(folder: Path) -> tuple[dict[str, Any], list[Line]]:
    """What is measured, and the lines until now; what cannot be read is left out, and asked again.

    A torn last line is cut off. Raises OSError if the file cannot be read.
    """
    path = folder / "bench.jsonl"
    *written, torn = path.read_bytes().split(b"\n")
    if torn:
        os.truncate(path, path.stat().st_size - len(torn))
    about: dict[str, Any] = {}
    lines = []
    for line in written:
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            entry = json.loads(line)
            about = entry.get("about", about)
            lines.append(line_of(entry))
    return about, lines


def measured(
    measure: Measure, items: Sequence[Item], folder: Path, progress: Callable[[str], None]
) -> Iterator[Line]:
    """The lines of all items: those that are kept, then each new one as it is measured.

    Raises ModelError, Stopped, and AgentError for a full disk; what was measured until then is
    kept.
    """
    kept = {line.name: line for line in read_lines(folder)[1]}
    yield from (kept[item.name] for item in items if item.name in kept)
    left = [item for item in items if item.name not in kept]
    seconds: list[float] = []
    for place, item in enumerate(left):
        progress(left_of(item, left[place:], seconds))
        line = measure(item)
        seconds.append(line.seconds / requests_of([item]))
        try:
            add(folder, asdict(line))
        except OSError as error:
            raise agent.AgentError(
                f"The measurements in {folder} cannot be kept ({error.strerror}); make sure that"
                " there is space and start the bench again, which asks nothing twice."
            ) from None
        yield line


def requests_of(items: Sequence[Item]) -> int:
    """About how many requests these take, if none has to be corrected."""
    return sum(2 if item.part == "cost" else 1 for item in items)


def left_of(item: Item, left: Sequence[Item], seconds: Sequence[float]) -> str:
    """What is asked now, and how long the rest will take."""
    requests = requests_of(left)
    lasts = minutes_text(requests * (median(seconds) if seconds else SECONDS))
    return f"{item.name}; {requests} requests left, {lasts}"


def minutes_text(seconds: float) -> str:
    """A duration, rounded as one says it."""
    return f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} min"


# -- what it leaves


def settings_of(result: Result, advice: Sequence[Advice]) -> dict[str, Any]:
    """What --config takes, from the advice."""
    settings: dict[str, Any] = {"lmstudio_model": result.about.get("model", "")}
    for item in advice:
        settings |= item.settings
    return settings


def leave(folder: Path, result: Result, advice: Sequence[Advice]) -> None:
    """Writes the settings and, last, bench.json, which says that the bench is finished.

    Raises AgentError if the folder cannot be written.
    """
    shares = {
        name: {**share._asdict(), "low": share.low, "high": share.high}
        for name, share in result.shares.items()
    }
    whole = {
        "about": result.about,
        "rows": result.rows(),
        "shares": shares,
        "numbers": result.numbers,
        "errors": result.errors,
        "advice": [item.text for item in advice],
    }
    texts = {
        "bench_settings.json": json.dumps(settings_of(result, advice), indent=1),
        "bench.json": json.dumps(whole, indent=1),
    }
    try:
        for name, text in texts.items():
            (folder / f"{name}.new").write_text(text, "utf-8")
            (folder / f"{name}.new").replace(folder / name)
    except OSError as error:
        raise agent.AgentError(
            f"The result cannot be written to {folder} ({error.strerror}); free space and start"
            " the bench again, which asks nothing twice."
        ) from None


# -- several results side by side


def read_result(root: Path, name: str) -> dict[str, Any]:
    """A bench.json by its number, folder or path; raises ConfigError."""
    path = Path(name)
    for folder in folders(root):
        if name.removeprefix("bench_").lstrip("0") == str(number_of(folder)):
            path = folder
    try:
        path = path / "bench.json" if path.is_dir() else path
        found = json.loads(path.read_bytes())
        return {**found, "rows": dict(found["rows"]), "about": dict(found["about"])}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "it is none"
        raise agent.ConfigError(
            f"There is no result of a bench at {path} ({reason}); give its number, its folder or"
            " its bench.json."
        ) from None


COMPARED = ("model", "size", "grammar", "thinking", "where")  # the head of a column
CELL = 30


def compared(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A table of several results side by side; what one lacks stays empty."""
    columns = []
    for result in results:
        head = {name: result["about"].get(name, "") for name in COMPARED}
        columns.append({**head, **result["rows"]})
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = [plain(column.get(name, "")) for column in columns]
        yield f"{plain(name, 42)}  {'  '.join(cells)}".rstrip()


def plain(value: Any, width: int = CELL) -> str:
    """A value so wide and without what a terminal would obey."""
    text = "".join(char if char.isprintable() else "?" for char in str(value))
    return f"{text[:width]:<{width}}"
