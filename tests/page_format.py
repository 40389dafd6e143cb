"""Holds the page inside agent.py to prettier's format (needs npx, of Node.js); with --write writes it so.

python3 tests/page_format.py [--write]        exit code 1 if anything is not as prettier writes it
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "agent.py"
PARSERS = {"PAGE_STYLE": "css", "PAGE_SCRIPT": "babel", "PAGE_BODY": "html"}
PRETTIER = ["npx", "--yes", "prettier@3.10.1", "--print-width", "100"]
# The format must not depend on files that lie around on somebody's machine.
PRETTIER += ["--no-config", "--no-editorconfig", "--parser"]


def formatted(found: re.Match[str]) -> str:
    """A part of the page as prettier writes it; raises CalledProcessError when it is none."""
    name, before, part, after = found.groups()
    command = [*PRETTIER, PARSERS[name]]
    done = subprocess.run(
        command, input=part, capture_output=True, check=True, encoding="utf-8", timeout=300
    )
    if done.stdout != part:
        print(f"{name} is not as prettier writes it.")
    return name + before + done.stdout + after


def main(write: bool) -> int:
    text = SOURCE.read_text(encoding="utf-8")
    part = rf'(?ms)^({"|".join(PARSERS)})( = r"""\n?)(.*?)("""$)'
    wanted, number = re.subn(part, formatted, text)
    assert number == len(PARSERS), "agent.py has another page"
    if write:
        SOURCE.write_text(wanted, encoding="utf-8", newline="\n")
    return int(wanted != text and not write)


if __name__ == "__main__":
    sys.exit(main("--write" in sys.argv[1:]))
