"""Where the server and the models of these tests live: made once, with what PyPI has, then kept.

    python tests/llama/home.py          makes it and says where

It is a folder in the user's cache, named after what it is made of, so that a change makes another.
AGENT_LLAMA_HOME names another parent.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PACKAGES = ("xllamacpp==2026.10.11549", "gguf==0.19.0")  # wheels; numpy comes with gguf
TOKENS_PACKAGE = "dashscope==2.0.2"  # only the file with Qwen's tokens is taken out of its wheel
TOKENS_FILE = "dashscope/resources/qwen.tiktoken"
SOURCES = ("home.py", "make_models.py", "template.jinja")


class Home(NamedTuple):
    """The Python that can serve, and the folder with the models."""

    python: Path
    models: Path


def ready() -> Home:
    """The home, made if it is not there; that takes about half a minute."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parent = Path(os.environ.get("AGENT_LLAMA_HOME") or cache / "agent-llama-tests")
    parent.mkdir(parents=True, exist_ok=True)
    made_of = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in SOURCES)).hexdigest()
    folder = parent / f"{sys.version_info.major}.{sys.version_info.minor}-{made_of[:12]}"
    with (parent / "lock").open("w") as lock:  # others who make the same wait
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            (folder / "done").touch()
    return Home(folder / "venv/bin/python", folder / "models")


def make(folder: Path) -> None:
    """The virtual environment and the models."""
    python, models = folder / "venv/bin/python", folder / "models"
    run(sys.executable, "-m", "venv", folder / "venv")
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--only-binary=:all:", *PACKAGES)
    models.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        run(*pip, "download", "--no-deps", "--dest", scratch, TOKENS_PACKAGE)
        wheel = next(Path(scratch).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            tokens = archive.extract(TOKENS_FILE, scratch)
        run(python, HERE / "make_models.py", tokens, HERE / "template.jinja", models)


def run(*command: str | Path) -> None:
    """Runs a command; its output is shown if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}")


if __name__ == "__main__":
    print(ready().models.parent)
