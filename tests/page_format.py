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
PARSERS = {"PAGE_STYLE": "css", "PAGE_SCRIPT": "babel", "PAGE_BODY": "html"}
PRETTIER = ["npx", "--yes", "prettier@3.10.1", "--print-width", "100"]
# The format must not depend on files that lie around on somebody's machine.
PRETTIER += ["--no-config", "--no-editorconfig"]


def formatted(part: str, parser: str) -> str:
    """A part of the page as prettier writes it; raises CalledProcessError when it is none."""
    done = subprocess.run(
        [*PRETTIER, "--parser", parser],
        input=part,
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
        timeout=300,
    )
    return done.stdout


def main(arguments: list[str]) -> int:
    """Checks or rewrites the page; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write it as prettier does")
    options = parser.parse_args(arguments)
    text = SOURCE.read_text(encoding="utf-8")
    wrong = 0
    for name, kind in PARSERS.items():
        found = re.search(rf'^{name} = r"""\n?(.*?)"""$', text, re.MULTILINE | re.DOTALL)
        if found is None:
            print(f'agent.py has no {name} = r"""..."""')
            return 1
        part = found[1]
        wanted = formatted(part, kind)
        wrong += part != wanted
        text = text[: found.start(1)] + wanted + text[found.end(1) :]
        if not options.write:
            lines = difflib.unified_diff(
                part.split("\n"), wanted.split("\n"), name, "prettier", n=1, lineterm=""
            )
            print("\n".join(lines), end="")
    if options.write:
        SOURCE.write_text(text, encoding="utf-8", newline="\n")
    elif not wrong:
        print("The page is as prettier writes it.")
    return int(wrong > 0 and not options.write)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
