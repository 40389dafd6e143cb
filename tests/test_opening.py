"""What stands before a conversation's first turn: the look that the program takes by itself."""

from __future__ import annotations

import unittest
from typing import Any

from tests.scripted import EngineCase, text


class Opening(EngineCase):
    def test_the_look_before_the_first_turn_tells_its_own_seconds_and_not_the_clocks(self) -> None:
        trial = self.trial(lambda request: text("All done."), "chat")
        heard: list[Any] = []
        trial.listen(lambda item: heard.append(item) if hasattr(item, "effect") else None)
        trial.run()
        self.assertEqual(heard[0].turn, 0)
        self.assertLess(heard[0].seconds, 60)


if __name__ == "__main__":
    unittest.main()
