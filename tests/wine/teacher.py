"""The program with somebody at its console who gives these answers: run by the Windows Python.

python.exe teacher.py ANSWERS OPTION ...      the answers with | between them
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import agent

if __name__ == "__main__":
    answers = sys.argv[1].split("|")

    def ask(terminal: agent.Terminal, question: str, *_: object) -> str:
        answer = answers.pop(0) if answers else ""
        terminal.say(f"{question}\n> {answer}", 0)
        return answer

    vars(agent)["_person_is_there"] = lambda: True
    setattr(agent.Terminal, "ask", ask)  # noqa: B010
    sys.exit(agent.main(sys.argv[2:]))
