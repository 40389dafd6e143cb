"""A real llama.cpp server (package xllamacpp) on a loopback port, until it is ended.

    python serve.py MODEL PORT [--eyes FILE] [--context N] [--template FILE]

It answers 503 while it loads. Its log goes to standard output.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import xllamacpp


def main() -> None:
    """Serves for ever."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("port", type=int)
    parser.add_argument("--eyes", default="")
    parser.add_argument("--context", type=int, default=16384)
    parser.add_argument("--template", type=Path)
    options = parser.parse_args()
    wanted = xllamacpp.CommonParams()
    wanted.model.path = options.model
    wanted.model_alias = {Path(options.model).stem}
    wanted.mmproj.path = options.eyes
    wanted.mmproj_use_gpu = False
    wanted.n_ctx = options.context
    wanted.n_parallel = 1
    wanted.port = options.port
    # More threads wait for each other on a machine that is busy.
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
    wanted.endpoint_slots = wanted.endpoint_metrics = True
    if options.template:
        wanted.chat_template = options.template.read_text("utf-8")
    server = xllamacpp.Server(wanted)
    print(f"listening {server.listening_address}", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
