"""That settings which contradict each other are refused, in a sentence that names both."""

from __future__ import annotations

import unittest
from typing import Any

import agent
from tests.fakes import VirtualClock, windows_desktop


def begun(settings: Any) -> None:
    """A run with these settings may act."""
    config, stop = agent.load_config({"test": settings}), agent.Stop()
    agent.Actuator(windows_desktop()[1], config, VirtualClock(stop), stop)


class Contradictions(unittest.TestCase):
    def test_each_pair_is_refused_and_both_are_named_with_what_to_do(self) -> None:
        pairs: tuple[dict[str, Any], ...] = (
            {"vision": False, "controls": "off"},
            {"confirm": "never", "risky_words": "publish"},
            {"stop_hotkey": "ctrl+alt+q", "pause_hotkey": "alt+ctrl+q"},
        )
        for pair in pairs:
            with self.subTest(pair), self.assertRaises(agent.ConfigError) as caught:
                begun(pair)
            self.assertRegex(str(caught.exception), r"; (lower|leave|give) .*\.$")
            for name in pair:
                self.assertIn(name, str(caught.exception))

    def test_no_profile_contradicts_itself(self) -> None:
        for profile in agent.PROFILES.values():
            begun(profile.settings)


if __name__ == "__main__":
    unittest.main()
