"""Programs that attack agent.py: each attack says whether it got through. See tests/test_attacks.py."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.scripted import EngineCase

Attack = Callable[..., bool]


class Attacks(list[tuple[str, Attack]]):
    """The attacks of a program, each under the number of what it attacks."""

    def numbered(self, number: str) -> Callable[[Attack], Attack]:
        """Puts an attack into the table."""

        def note(attack: Attack) -> Attack:
            self.append((number, attack))
            return attack

        return note


def gets_through(attack: Attack) -> bool:
    """Carries an attack out, with the folder `root` or the `case` that it asks for."""
    given: dict[str, Any] = {}
    with ExitStack() as undo:
        for name in inspect.signature(attack).parameters:
            if name == "root":
                given[name] = Path(undo.enter_context(tempfile.TemporaryDirectory()))
            else:
                given[name] = case = EngineCase()
                case.setUp()
                undo.callback(case.doCleanups)
        return attack(**given)
