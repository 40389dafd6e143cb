"""How long `agent.py --version` takes, as a ratio to a Python that only imports what the file must import.

    python tests/bench/startup.py [--rounds 15]

What must be imported is read from the file's own import lines. A script is compiled anew at every start, so the
second line takes that part out: the same file as a module, from its cache.
"""

from __future__ import annotations

import argparse
import ast
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
MODULES = ast.parse((HERE / "agent.py").read_text(encoding="utf-8")).body
IMPORTS = "; ".join(
    ast.unparse(node) for node in MODULES if isinstance(node, (ast.Import, ast.ImportFrom))
)


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=HERE, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=15)
rounds = parser.parse_args().rounds
cases = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import ...'": ["-c", IMPORTS],
    "agent.py --version": ["agent.py", "--version"],
    "the same, compiled before": [
        "-c",
        "import sys, agent; sys.argv = ['agent.py', '--version']; agent.main()",
    ],
}
times: dict[str, list[float]] = {name: [] for name in cases}
for name in cases:
    seconds(cases[name])
for _ in range(rounds):
    for name, arguments in cases.items():
        times[name].append(seconds(arguments))
medians = {name: statistics.median(values) for name, values in times.items()}
base = medians["python -c 'import ...'"]
print(f"Python {platform.python_version()} on {sys.platform}, median of {rounds}")
for name, value in medians.items():
    print(f"{name:<28} {value * 1000:7.1f} ms   {value / base:.2f} of the imports alone")
