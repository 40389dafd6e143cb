"""That a resumed run behaves as the one that ended would have."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import agent
from tests.scripted import PLAN, EngineCase, Trial, call, role_of
from tests.seams import act


class Resumed(EngineCase):
    def again(self, folder: Path, **settings: Any) -> tuple[Trial, agent.AgentState]:
        trial = self.trial(lambda request: PLAN, old=folder, **settings)
        trial.resume()
        return trial, trial.state

    def test_each_field_of_the_state_is_kept_or_known_not_to_be(self) -> None:
        kept = {spec.name for spec in fields(agent.StateRecord)}
        own = {spec.name for spec in fields(agent.AgentState)}
        # The task stands in another record, the memory's actions in theirs; a wait that was
        # interrupted begins anew, since nobody waited meanwhile.
        self.assertEqual(own - kept, {"task", "memory", "waiting_since"})

    def test_the_recovery_keys_keep_their_distance(self) -> None:
        def decide(request: dict[str, Any]) -> Any:
            if role_of(request) == "planner":
                return PLAN
            return call("click_screen_element", element_name="x", position=[5, 5])

        trial = self.trial(decide, max_steps=9)
        trial.desktop.dead = True  # so that no act leads anywhere
        trial.run()
        turn = trial.state.memory.last_recovery_turn
        self.assertGreater(turn, 0)
        trial.close()
        _, again = self.again(trial.folder)
        self.assertEqual(again.memory.last_recovery_turn, turn)

    def test_a_window_that_holds_typed_text_is_still_known(self) -> None:
        trial = self.trial(lambda request: PLAN)
        look = trial.look(1, "turn_0001")
        trial.engine.filled = 77
        trial.perform(act("wait", seconds=1), look, 1)
        trial.close()
        again, _ = self.again(trial.folder)
        self.assertEqual(again.engine.filled, trial.engine.filled)
        self.assertEqual(again.engine.filled, 77)
