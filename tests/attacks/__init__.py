"""Programs that attack agent.py: each function named attack_... says whether it got through. See tests/test_attacks.py."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.scripted import EngineCase

Attack = Callable[..., bool]


def attacks_of(module: ModuleType) -> list[Attack]:
    return [attack for name, attack in vars(module).items() if name.startswith("attack_")]


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
