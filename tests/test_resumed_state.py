"""That a resumed run behaves as the one that ended would have."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import agent
from tests.scripted import PLAN, EngineCase, call, role_of


class Resumed(EngineCase):
    def again(self, folder: Path, **settings: Any) -> tuple[agent.Engine, agent.AgentState]:
        engine, state = self.engine(lambda request: PLAN, old=folder, **settings)
        agent.resume(engine, state)
        return engine, state

    def test_each_field_of_the_state_is_kept_or_known_not_to_be(self) -> None:
        kept = {spec.name for spec in fields(agent.StateRecord)} - {"turn", "time"}
        own = {spec.name for spec in fields(agent.AgentState)}
        # Task and turn stand in other records, the memory's actions in theirs; a wait that was
        # interrupted begins anew, since nobody waited meanwhile.
        self.assertEqual(own - kept, {"task", "memory", "turn", "waiting_since"})

    def test_the_recovery_keys_keep_their_distance(self) -> None:
        def decide(request: dict[str, Any]) -> Any:
            if role_of(request) == "planner":
                return PLAN
            return call("click_screen_element", element_name="x", position=[5, 5])

        engine, state = self.engine(decide, max_steps=9, stall_stop=100)
        engine.eyes.desktop.dead = True  # so that no act leads anywhere
        agent.run_agent(engine, state)
        turn = state.memory.last_recovery_turn
        self.assertGreater(turn, 0)
        engine.logger.close()
        _, again = self.again(engine.logger.folder)
        self.assertEqual(again.memory.last_recovery_turn, turn)
        self.assertFalse(again.memory.should_recover(turn + 3, cooldown=3))

    def test_a_window_that_holds_typed_text_is_still_known(self) -> None:
        engine, _ = self.engine(lambda request: PLAN)
        look = engine.eyes.look(1, "turn_0001")
        engine.filled = 77
        args = agent.NoArgs()
        engine.perform(agent.Act("wait", args, agent.ToolCall("wait", {})), look, 1)
        engine.logger.close()
        again, _ = self.again(engine.logger.folder)
        self.assertEqual(again.filled, engine.filled)
        self.assertEqual(again.filled, 77)
