"""How long a server that is not ready is waited for: on a virtual clock, over real HTTP."""

from __future__ import annotations

import contextlib
import unittest

import agent
from tests.fakes import VirtualClock
from tests.servers import ScriptedServer, Step, answer, hang_up
from tests.test_model import GOOD, model_server

LOADING = answer(503, {"error": {"message": "Loading model"}})
BUSY = answer(500)


def slept(*steps: Step) -> list[float]:
    """The seconds of each wait before the answer comes, or before no more is asked."""
    clock = VirtualClock()
    with ScriptedServer(*steps) as server, contextlib.suppress(agent.ModelError):
        model_server(server.url, clock).complete(b"{}")
    return clock.sleeps


class Patience(unittest.TestCase):
    def test_a_server_that_fails_and_then_loads_is_waited_for_as_one_that_loads(self) -> None:
        self.assertEqual(slept(LOADING, LOADING, GOOD), [5.0, 10.0])
        self.assertEqual(slept(hang_up, BUSY, LOADING, LOADING, GOOD), [0.5, 1.0, 5.0, 10.0])

    def test_a_server_that_loaded_and_then_fails_is_asked_again_soon(self) -> None:
        self.assertEqual(slept(LOADING, LOADING, BUSY, GOOD), [5.0, 10.0, 0.5])

    def test_tries_of_both_kinds_end_each_by_itself(self) -> None:
        retries = agent.Config().request_retries
        steps = [step for _ in range(retries) for step in (BUSY, LOADING)]
        self.assertEqual(slept(*steps, GOOD), [0.5, 5.0, 1.0, 10.0, 2.0, 20.0])
        self.assertEqual(len(slept(*steps, BUSY)), 2 * retries)
        self.assertEqual(len(slept(*steps, LOADING)), 2 * retries)


if __name__ == "__main__":
    unittest.main()
