"""How large a run's screenshots are, as a ratio to what python-mss writes for the same frames.

    python tests/bench/disk.py [RUN FOLDER ...]       needs `pip install mss`

Without a folder it makes three demo runs (planner, chat, pointer) and takes theirs.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path

import mss.tools
from frames import agent


def sizes(folder: Path) -> tuple[int, int, int]:
    """(pictures, bytes here, bytes from mss) of one run."""
    own, theirs = list[int](), list[int]()
    for path in (folder / "screenshots").glob("*.png"):
        own.append(path.stat().st_size)
        rgb, width, height = agent.png_to_rgb(path.read_bytes())
        theirs.append(len(mss.tools.to_png(rgb, (width, height)) or b""))
    return len(own), sum(own), sum(theirs)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as dumps:
        runs = [Path(name) for name in sys.argv[1:]]
        for profile in ("planner", "chat", "pointer") if not runs else ():
            with contextlib.redirect_stdout(io.StringIO()):
                agent.main(["--demo", "--profile", profile, "--set", f"dump_dir={dumps}"])
        for run in runs or sorted(Path(dumps).glob("run_*")):
            count, own, theirs = sizes(run)
            print(
                f"{run.name}: {count} pictures, {own} bytes, mss {theirs}, ratio {own / theirs:.2f}"
            )
