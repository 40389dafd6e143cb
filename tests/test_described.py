"""Settings that the described systems have: sampling, screenshots kept, the wheel."""

from __future__ import annotations

import itertools
import json
import unittest
from dataclasses import replace
from typing import Any

import agent
from tests.scripted import PLAN, PROOF, EngineCase, SmallPictures, call, role_of, text
from tests.test_chat import LOOK, images

SAMPLING = {"top_p": 0.8, "top_k": 20, "min_p": 0.05, "presence_penalty": -1.5, "seed": 7}


class Sampling(EngineCase):
    def requests(self, **settings: Any) -> list[dict[str, Any]]:
        """The requests of a short run, to each of its three roles."""

        def decide(request: dict[str, Any]) -> dict[str, Any]:
            if role_of(request) == "planner":
                return PLAN
            if "tools" in request:
                return call("report_mission_complete", evidence=PROOF)
            return text("YES")

        trial = self.trial(decide, **settings)
        trial.run()
        self.assertEqual(set(trial.roles), {"planner", "executor", "verifier"})
        return trial.requests

    def test_what_is_not_set_is_not_sent(self) -> None:
        for request in self.requests():
            self.assertFalse(SAMPLING.keys() & request.keys())

    def test_what_is_set_is_sent_by_each_role(self) -> None:
        given = "; ".join(f"{name} {value}" for name, value in SAMPLING.items())
        for request in self.requests(sampling=given):
            self.assertEqual({name: request.get(name) for name in SAMPLING}, SAMPLING)

    def test_zero_is_a_value_and_an_empty_text_is_none(self) -> None:
        request = self.requests(sampling="seed 0;top_k 0")[0]
        self.assertEqual((request["seed"], request["top_k"]), (0, 0))
        self.assertFalse({"top_p", "min_p"} & request.keys())

    def test_ranges_hold(self) -> None:
        for wrong in ("top_p 1.1", "presence_penalty -3", "seed -1", "top_k 0.5", "seed", "heat 1"):
            with self.assertRaisesRegex(agent.ConfigError, f"'{wrong}'"):
                agent.load_config({"--set": {"sampling": wrong}})


class WarnedOnce(EngineCase):
    def warned(self, *counts: int) -> list[str]:
        """The warnings of a run whose server counts so many tokens, one request after the other."""
        counted = iter(counts)
        act = call("press_key", key="a")
        self.desktop_type = SmallPictures
        trial = self.trial(
            lambda r: act,
            "chat",
            max_steps=len(counts),
            screen_capture_w=1024,
            screen_capture_h=1024,
        )
        answer = trial.server.complete

        def complete(body: bytes) -> agent.Reply:
            usage = agent.Usage(next(counted, counts[-1]), 10, None)
            return replace(answer(body), usage=usage)

        trial.server.complete = complete
        trial.run()
        return [line for line in self.lines if line.startswith("warning: The server counted")]

    def test_the_same_warning_with_another_number_comes_once(self) -> None:
        self.assertEqual(len(self.warned(301, 302, 299, 305, 290, 328, 90)), 1)


class ScreenshotsKept(EngineCase):
    def most(self, **settings: Any) -> list[int]:
        """The number of screenshots in each request of a chat that looks again and again."""
        keys = itertools.count()
        looks = itertools.chain.from_iterable(
            (call("press_key", key="abcdefghij"[number % 10]), LOOK) for number in keys
        )
        trial = self.trial(lambda r: next(looks), "chat", max_steps=8, **settings)
        trial.run()
        return [len(images(request)) for request in trial.requests[:16:2]]

    def test_a_number_that_was_set_is_the_number_in_a_request(self) -> None:
        for number in (1, 2, 3):
            counts = self.most(keep_last_screenshots=number)
            self.assertEqual(counts, [min(number, place + 1) for place in range(8)])

    def test_without_a_number_they_grow_to_four_before_they_are_cut_to_two(self) -> None:
        self.assertEqual(self.most(), [1, 2, 3, 4, 2, 3, 4, 2])


class Notch(EngineCase):
    def test_pointer_scrolls_one_notch_as_its_tool_says(self) -> None:
        replies = iter([call("scroll_down"), text("Done.")])
        trial = self.trial(lambda r: next(replies), "pointer")
        trial.run()
        turned = [event for event in trial.inputs if event[0] == "wheel"]
        self.assertEqual(turned, [("wheel", -120, False)])
        profile = agent.PROFILES["pointer"]
        schemas = json.dumps(profile.schemas(profile.roles["executor"]))
        self.assertIn("one notch", schemas)

    def test_the_others_keep_their_three(self) -> None:
        for name, profile in agent.PROFILES.items():
            config = agent.load_config({"profile": profile.settings})
            self.assertEqual(config.scroll_ticks, 1 if name == "pointer" else 3, name)


if __name__ == "__main__":
    unittest.main()
