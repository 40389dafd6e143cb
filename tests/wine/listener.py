"""What the program hears of keys, in a process of its own: run by the Windows Python.

python.exe listener.py FILE     a line for each key until FILE.end is there: what it types, as a JSON text
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import agent

if __name__ == "__main__":
    with (
        open(sys.argv[1], "a", encoding="utf-8", newline="\n") as log,
        agent.listening(agent.load_win32()) as since,
    ):
        log.write('"READY"\n')
        while not os.path.exists(f"{sys.argv[1]}.end"):
            time.sleep(0.02)
            log.writelines(json.dumps(note.text) + "\n" for note in since())
            log.flush()
