"""What a server is sent, in which order, and what of its figures is believed."""

from __future__ import annotations

import itertools
import json
from typing import Any

import agent
from tests.scripted import PLAN, EngineCase, call, role_of, text

Request = dict[str, Any]


def acting(engine: agent.Engine) -> list[Request]:
    """The requests of the role that acts."""
    return [r for r in engine.voice.server.requests if role_of(r) == "executor"]


def parts(request: Request) -> list[str]:
    """The first user message's content: its texts, and the URL of its picture between them."""
    content = request["messages"][1]["content"]
    return [part.get("text") or part["image_url"]["url"] for part in content]


class WhereThePictureStands(EngineCase):
    def requests(self, *acts: Request, **settings: Any) -> list[Request]:
        """The executor's requests of a run in which it does this, then scrolls."""
        replies = itertools.chain(acts, itertools.repeat(call("scroll_screen_down")))
        engine, state = self.engine(
            lambda r: PLAN if role_of(r) == "planner" else next(replies), max_steps=6, **settings
        )
        agent.run_agent(engine, state)
        return acting(engine)

    def test_with_a_new_picture_the_whole_context_stands_before_it(self) -> None:
        requests = self.requests()
        pictures = {parts(request)[1] for request in requests}
        self.assertEqual(len(pictures), len(requests))
        for one, other in itertools.pairwise(requests):
            self.assertTrue(parts(other)[0].startswith(parts(one)[0]))
            self.assertGreater(len(parts(other)[0]), len(parts(one)[0]))
            self.assertNotIn("SINCE_THIS_PICTURE", parts(other)[2])

    def test_while_the_picture_stays_the_same_so_does_all_before_it(self) -> None:
        idle = [text("I only look.")] * 2
        status = call(
            "report_goal_status", goal_identifier="1", completion_status="IN_PROGRESS", evidence=""
        )
        first, _, _, again, later, *_ = self.requests(call("scroll_screen_down"), *idle, status)
        # A correction belongs to the same turn, so the fourth request is the third turn's.
        self.assertNotEqual(parts(first)[1], parts(again)[1])
        self.assertEqual(parts(again)[:2], parts(later)[:2])
        self.assertTrue(parts(later)[2].startswith("SINCE_THIS_PICTURE:\n  Turn_"))
        self.assertIn("report_goal_status", parts(later)[2].partition("\n\n")[0])
        self.assertNotIn("report_goal_status", parts(later)[0])

    def test_what_was_new_behind_a_picture_stands_before_the_next_one(self) -> None:
        status = call(
            "report_goal_status", goal_identifier="1", completion_status="IN_PROGRESS", evidence=""
        )
        _, same, new, *_ = self.requests(status)
        lines = parts(same)[2].partition("\n\n")[0].removeprefix("SINCE_THIS_PICTURE:")
        self.assertNotEqual(parts(same)[1], parts(new)[1])
        self.assertTrue(parts(new)[0].startswith(parts(same)[0] + lines))

    def test_a_context_that_is_another_one_is_not_frozen(self) -> None:
        engine, _ = self.engine(lambda r: PLAN)
        placed = engine.voice._placed("TASK: a\nPLAN: b", "Act.", b"UE5H")
        again = engine.voice._placed("TASK: a\nPLAN: bc", "Act.", b"UE5H")
        self.assertEqual((placed.before, placed.text), ("TASK: a\nPLAN: b", "Act."))
        self.assertEqual((again.before, again.text), ("TASK: a\nPLAN: bc", "Act."))

    def test_first_puts_the_picture_before_all_text(self) -> None:
        for request in self.requests(image_place="first"):
            picture, words = parts(request)
            self.assertTrue(picture.startswith("data:image/png"))
            self.assertTrue(words.startswith("TASK: "))
            self.assertIn("CURRENT_TURN", words)

    def test_the_log_shows_a_message_in_its_order(self) -> None:
        message = agent.Message("user", "Act.", b"UE5H", before="TASK: a")
        self.assertRegex(str(message), r"user: TASK: a\n\[image, 4 base64 .*\] Act\.")
        self.assertEqual(
            json.loads(b"".join(message.pieces())),
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "TASK: a"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}},
                    {"type": "text", "text": "Act."},
                ],
            },
        )


class Reuse(EngineCase):
    def usage(self, **answer: Any) -> agent.Usage:
        return agent._usage(answer)

    def test_what_the_server_kept_is_told_by_its_usage_before_its_timings(self) -> None:
        counted = {"prompt_tokens": 100, "completion_tokens": 5}
        details = {**counted, "prompt_tokens_details": {"cached_tokens": 60}}
        timings = {"cache_n": 70, "prompt_n": 30}
        self.assertEqual(self.usage(usage=details, timings=timings).cached_tokens, 60)
        self.assertEqual(self.usage(usage=counted, timings=timings).cached_tokens, 70)
        self.assertIsNone(self.usage(usage=counted).cached_tokens)
