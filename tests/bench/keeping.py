"""One line a request, so that a bench that was killed goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple, TextIO

from agent import (
    OTHER_FOLDER,
    AgentError,
    CalibrationKey,
    Config,
    ConfigError,
    JsonDict,
    ModelInfo,
    __version__,
    json_object,
    open_log,
    read_run_file,
    strict_json,
    unusable_folder,
    write_run_file,
)
from tests.bench.asking import (
    BENCH_SECONDS,
    BENCH_TASK_REQUESTS,
    Bench,
    BenchLine,
    BenchPlan,
    bench_line_of,
)
from tests.bench.targets import BenchItem

BENCH_JOURNAL = "bench.jsonl"
BENCH_RESULT = "bench.json"
BENCH_SETTINGS = "bench_settings.json"


def bench_about(config: Config, info: ModelInfo, key: CalibrationKey, plan: BenchPlan) -> JsonDict:
    """What is measured, by which a bench that was interrupted is found again."""
    return {
        **key._asdict(),
        "build": info.build,
        "calls": config.calls,
        "thinking": config.thinking,
        "temperature": config.lmstudio_temperature,
        "seed": BENCH_SEED,
        "requests": list(plan),
        "version": __version__,
    }


BENCH_SEED = 20


def bench_folders(root: Path) -> list[Path]:
    """The folders bench_NNNN in a folder of runs, the latest first."""
    found: list[Path] = []
    for path in root.glob("bench_*"):
        if re.fullmatch(r"bench_\d{4,9}", path.name) and ordinary_folder_at(path):
            found.append(path)
    return sorted(found, key=_bench_number, reverse=True)


def _bench_number(folder: Path) -> int:
    return int(folder.name.removeprefix("bench_"))


def ordinary_folder_at(path: Path) -> bool:
    """Whether a folder stands there, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def bench_folder(root: Path, about: JsonDict) -> Path:
    """The folder of an unfinished bench of the same model and settings, or a new one.

    Raises ConfigError if none can be made.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = _unfinished_bench(root, about)
        if not folder:
            folder = _new_bench_folder(root)
            text = json.dumps({"about": about}) + "\n"
            write_run_file(folder, BENCH_JOURNAL, text.encode())
    except (OSError, ValueError) as error:  # a ValueError for letters that no path has
        reason = unusable_folder(error)
        raise ConfigError(
            f"No folder can be made in {root.absolute()} ({reason}); {OTHER_FOLDER}."
        ) from None
    return folder


def _unfinished_bench(root: Path, about: JsonDict) -> Path | None:
    """The latest folder of a bench of that, which holds no result yet; raises OSError."""
    for folder in bench_folders(root):
        with suppress(OSError):  # what cannot be read is not gone on with
            finished = (folder / BENCH_RESULT).exists()
            if not finished and _read_bench(folder).about == about:
                return folder
    return None


def _new_bench_folder(root: Path) -> Path:
    """The folder of the next number; another bench may take that at the same moment."""
    first = max(map(_bench_number, bench_folders(root)), default=0) + 1
    for number in count(first):
        folder = root / f"bench_{number:04d}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            break
    return folder


class BenchJournal(NamedTuple):
    """What bench.jsonl holds; `size` is its length in bytes without a torn last line."""

    about: JsonDict
    lines: list[BenchLine]
    size: int


def _read_bench(folder: Path) -> BenchJournal:
    """The journal of a bench; a line that cannot be read is left out, and asked again.

    Raises OSError if the file cannot be read.
    """
    about: JsonDict = {}
    lines: list[BenchLine] = []
    *written, _torn = read_run_file(folder, BENCH_JOURNAL).split(b"\n")
    size = sum(len(line) + 1 for line in written)
    for line in written:
        with suppress(ValueError):
            entry = json_object(strict_json(line))
            if "about" in entry:
                about = json_object(entry["about"])
            else:
                lines.append(bench_line_of(entry))
    return BenchJournal(about, lines, size)


@contextmanager
def _told_of(folder: Path) -> Iterator[None]:
    """Makes of an OSError with the journal of a bench an AgentError that says what to do."""
    try:
        yield
    except OSError as error:
        raise AgentError(
            f"The measurements in {folder} cannot be kept ({error.strerror}); make sure that there"
            " is space and start the bench again, which asks nothing twice."
        ) from None


def _trim_bench(folder: Path) -> list[BenchLine]:
    """The lines that are kept, with a torn last one cut off in the file; raises AgentError.

    A journal that cannot be read now is left as it is, since somebody's measurements are in it.
    """
    with _told_of(folder):
        journal: BenchJournal = _read_bench(folder)
        with closing(open_log(folder / BENCH_JOURNAL)) as stream:
            stream.truncate(journal.size)
    return journal.lines


def _keep_line(folder: Path, line: BenchLine) -> None:
    """Adds a line to the journal; raises AgentError if it cannot be kept."""
    with _told_of(folder):
        # Opened for each line: what a full disk left unwritten must not be tried again at the end.
        stream: TextIO = open_log(folder / BENCH_JOURNAL)
        with closing(stream):
            stream.write(json.dumps(asdict(line)) + "\n")


def run_bench(
    bench: Bench,
    items: Sequence[BenchItem],
    folder: Path,
    progress: Callable[[str], None],
) -> Iterator[BenchLine]:
    """The lines of all requests: those that are kept, then each new one as it is measured.

    Raises ModelError, Stopped, and AgentError for a full disk; what was measured until then is
    kept.
    """
    kept = {line.name: line for line in _trim_bench(folder)}
    wanted = {item.name for item in items}
    yield from (line for name, line in kept.items() if name in wanted)
    left = [item for item in items if item.name not in kept]
    requests = requests_of(left)
    seconds: list[float] = []
    for item in left:
        progress(progress_of_bench(item, requests, seconds))
        line = bench.measure(item)
        taken = requests_of([item])
        requests -= taken
        seconds.append(line.seconds / taken)
        _keep_line(folder, line)
        yield line


def requests_of(items: Iterable[BenchItem]) -> int:
    """About how many requests these take, if none has to be corrected."""
    total = 0
    for item in items:
        total += BENCH_TASK_REQUESTS if item.part == "tasks" else 1
    return total


def progress_of_bench(item: BenchItem, left: int, seconds: Sequence[float]) -> str:
    """What is asked now, and how long the rest will take."""
    each = median(seconds) if seconds else BENCH_SECONDS
    return f"{item.name}; {left} requests left, {minutes_text(left * each)}"


def minutes_text(seconds: float) -> str:
    """A duration, rounded as one says it."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min"
