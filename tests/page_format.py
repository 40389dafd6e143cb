"""Holds the page inside agent.py to prettier's format. It needs npx, which comes with Node.js.

python3 tests/page_format.py            shows what is not as prettier writes it; exit code 1 if anything is not
python3 tests/page_format.py --write    writes it as prettier does
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "agent.py"
PAGE = re.compile(r'^PAGE = r"""(.*?)"""$', re.MULTILINE | re.DOTALL)
PRETTIER = ["npx", "--yes", "prettier@3.10.1", "--parser", "html", "--print-width", "100"]
# The format must not depend on files that lie around on somebody's machine.
PRETTIER += ["--no-config", "--no-editorconfig"]


def formatted(page: str) -> str:
    """The page as prettier writes it; raises CalledProcessError when it is no HTML, CSS or JavaScript."""
    done = subprocess.run(
        PRETTIER, input=page, stdout=subprocess.PIPE, check=True, encoding="utf-8", timeout=300
    )
    return done.stdout


def main(arguments: list[str]) -> int:
    """Checks or rewrites the page; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write it as prettier does")
    options = parser.parse_args(arguments)
    text = SOURCE.read_text(encoding="utf-8")
    found = PAGE.search(text)
    if found is None:
        print('agent.py has no PAGE = r"""..."""')
        return 1
    page, wanted = found[1], formatted(found[1])
    if options.write:
        SOURCE.write_text(
            text[: found.start(1)] + wanted + text[found.end(1) :], encoding="utf-8", newline="\n"
        )
        return 0
    for line in difflib.unified_diff(
        page.split("\n"), wanted.split("\n"), "agent.py", "prettier", n=1, lineterm=""
    ):
        print(line)
    if page != wanted:
        return 1
    print("The page is as prettier writes it.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
