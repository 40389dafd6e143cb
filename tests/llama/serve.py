"""A real llama.cpp server (package xllamacpp) on a loopback port, until it is ended.

    python serve.py MODEL PORT [--eyes FILE] [--context N] [--slots N] [--template FILE]

It answers 503 while it loads. Its log goes to standard output.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import xllamacpp


def parameters() -> xllamacpp.CommonParams:
    """What the command line asks for, as llama.cpp's parameters."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("port", type=int)
    parser.add_argument("--eyes", default="")
    parser.add_argument("--context", type=int, default=16384)  # of each slot
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument(
        "--threads", type=int, default=1
    )  # more wait for each other when it is busy
    parser.add_argument("--template", type=Path)
    options = parser.parse_args()
    found = xllamacpp.CommonParams()
    found.model.path = options.model
    found.model_alias = {Path(options.model).stem}
    found.mmproj.path = options.eyes
    found.mmproj_use_gpu = False
    found.n_ctx = options.context * options.slots
    found.n_parallel = options.slots
    found.port = options.port
    found.cpuparams.n_threads = options.threads
    found.cpuparams_batch.n_threads = options.threads
    found.endpoint_slots = True
    found.endpoint_metrics = True
    if options.template:
        found.chat_template = options.template.read_text("utf-8")
    return found


def main() -> None:
    """Serves for ever."""
    server = xllamacpp.Server(parameters())
    print(f"listening {server.listening_address}", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
