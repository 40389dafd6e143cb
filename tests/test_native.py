"""A model that is asked in the grammar of its own training: one role, one call a turn, the trial's rules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agent
from tests.scripted import FEWER_REQUESTS, EngineCase, Trial, qwen, role_of, text
from tests.spoken import spoken

Message = dict[str, Any]
Request = dict[str, Any]


DONE = qwen("terminate", "The task is done", status="success")


def answers(*replies: Message, verdict: str = "YES: it is") -> Callable[[Request], Message]:
    """These replies one after the other, the last again and again; the verifier agrees."""
    left = list(replies)

    def decide(request: Request) -> Message:
        if role_of(request) == "verifier":
            return text(verdict)
        return left.pop(0) if len(left) > 1 else left[0]

    return decide


class NativeCase(EngineCase):
    def native(self, decide: Any, grammar: str = "qwen3-vl", **settings: Any) -> Trial:
        """A run of profile native, ready to begin."""
        return self.trial(decide, "native", executor_grammar=grammar, **settings)


class Choosing(NativeCase):
    def grammar(self, model: str, profile: str, name: str) -> str:
        self.model = agent.ModelInfo(model)
        chosen = self.trial(answers(DONE), profile, executor_grammar=name).engine.grammar
        return chosen.name if chosen else "tools"

    def test_it_goes_by_the_name_then_by_the_servers_word_and_a_setting_before_both(self) -> None:
        for model, profile, setting, grammar in (
            ("qwen/qwen3-vl-4b", "native", "", "qwen3-vl"),
            ("unknown", "native", "", "tools"),
            ("qwen/qwen3-vl-4b", "native", "tools", "tools"),
            ("qwen3-vl-4b", "planner", "", "tools"),
            ("qwen3-vl-4b", "planner", "qwen3-vl", "qwen3-vl"),
        ):
            self.assertEqual(self.grammar(model, profile, setting), grammar, (model, profile))
        with self.assertRaisesRegex(agent.ConfigError, "Profile story takes no grammar"):
            self.grammar("qwen3-vl-4b", "story", "qwen3-vl")
        with self.assertRaisesRegex(agent.ConfigError, "There is no grammar 'klingon'"):
            self.grammar("qwen3-vl-4b", "native", "klingon")


class Meanings(NativeCase):
    """What a reply comes to in tools of this program."""

    def given(self, grammar: str, reply: Message) -> dict[str, Any]:
        """The arguments of the act that it is."""
        return agent.GRAMMARS[grammar].read(agent.Reply(reply, "stop"), (1000, 1000)).args

    def test_the_sentence_of_a_click_or_else_the_end_of_its_thought_is_its_label(self) -> None:
        corner = "Click the button in the lower right corner of the window, " * 3
        for sentence, thought, label in (
            ("Do it", "", "Do it"),
            ("word " * 200, "", r".{297}\.\.\."),
            (corner + "which is Delete all", "", ".*Delete.*"),  # a risk at its end stays in sight
            ("", "I look. " * 50 + "Now I click\nDelete.", r"\.\.\..{0,100}Now I click Delete\."),
            ("", "I click Delete.", r"I click Delete\."),
        ):
            click = qwen("left_click", sentence, coordinate=[1, 2])
            given = self.given("qwen3-vl", {**click, "reasoning_content": thought})
            self.assertRegex(str(given["element_name"]), f"^{label}$")

    def test_its_thought_is_the_reason_of_the_act(self) -> None:
        reply = {**qwen("left_click", "", coordinate=[500, 500]), "reasoning_content": "I see it."}
        trial = self.native(answers(reply), max_steps=1)
        trial.run()
        self.assertEqual(trial.state.memory.active_history[0].reasoning, "I see it.")

    def test_a_wait_ends_within_a_minute_whatever_the_model_says(self) -> None:
        trial = self.native(answers(qwen("wait", "", time=3000)), max_steps=1)
        began = trial.engine.clock.now()
        trial.run()
        self.assertTrue(40 < trial.engine.clock.now() - began < 80)


class Room(NativeCase):
    """Where the server's count says that the next request may not fit, half of the steps go and older pictures."""

    base = FEWER_REQUESTS

    def test_it_goes_by_the_tokens_of_the_last_request_a_reply_and_a_picture(self) -> None:
        size = {"screen_capture_w": 640, "screen_capture_h": 640}
        used = 100 + 10 + 2048 + 400
        for context, lines, pictures in ((used, [5], 3), (used - 1, range(1, 7), 2)):
            click = qwen("left_click", "Click this one.", coordinate=[500, 500])
            given = {"max_steps": 8, "keep_last_screenshots": 3, "stall_stop": 8, **size}
            trial = self.native(lambda _, click=click: click, **given)
            trial.choose(agent.ModelInfo("scripted", context_length=context))
            trial.run()
            last = str(trial.requests[-1]["messages"])
            self.assertIn(last.count("Step "), lines)
            self.assertEqual(last.count("image/png"), pictures)


TURNS = 7
DOCUMENTED = Path(__file__).parent / "data" / "grammar_requests.jsonl"
SIZE = (448, 224)  # of the picture: multiples of 16, 28 and 32
SAMPLING = ("temperature", "top_p", "top_k", "repetition_penalty", "repeat_penalty", "max_tokens")


def parts_of(message: Request) -> list[str]:
    """A message's texts, with "picture" for each picture."""
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [part.get("text", "picture") for part in content]


def fields_of(grammar: agent.Grammar, requests: list[Request]) -> dict[str, str]:
    """The fields of the requests, in words that can be compared."""
    first, last = requests[0], requests[-1]
    messages = first["messages"]
    users = [parts_of(message) for message in messages if message["role"] == "user"]
    later = [parts_of(message) for message in last["messages"] if message["role"] == "user"]
    layout = [", ".join(p if p == "picture" else "text" for p in parts) for parts in users]
    steps = re.search(r"(?m)^(.*Step 1:.*(?:\n## Action:\n.*)?)$", later[0][0])
    return {
        "role of the instructions": messages[0]["role"],
        "text and picture": " | ".join(layout),
        "pictures shown": str(sum(parts.count("picture") for parts in later)),
        "earlier steps": steps[1].replace("\n", " / ") if steps else "none",
        "space of places": "resized" if grammar.in_pixels else "0..1000",
        "sizes of a picture": "multiples of {}, {} to {} pixels".format(*grammar.picture),
        **{name: str(first.get(name, "none")) for name in SAMPLING},
    }


class Requests(NativeCase):
    """What a model is asked is the form that its own documents give, or there is a reason."""

    base = FEWER_REQUESTS

    def requests_of(self, grammar: agent.Grammar) -> list[Request]:
        """The requests to the model that acts, of a run that does all that it says."""
        left = [
            spoken(grammar, "click", [100 * number, 500], SIZE, f"Click number {number}.")
            for number in range(1, TURNS - 2)
        ]
        left += [spoken(grammar, act) for act in ("key", "type")]
        left.append(spoken(grammar, "end", why="It is done."))
        width, height = SIZE
        size = {"screen_capture_w": width, "screen_capture_h": height}
        trial = self.native(answers(*map(text, left)), grammar.name, **size)
        self.assertEqual(trial.run().kind, "completed")
        done = [event for event in trial.inputs if event[0] != "button"]
        for number, (kind, x, *_) in enumerate(done[: TURNS - 3], 1):
            self.assertTrue(kind == "move" and abs(x - 6.3 * number) <= 1, done)
        rest = [("key", "enter", True), ("key", "enter", False), ("text", "hello")]
        self.assertEqual(done[TURNS - 3 :], rest)
        return [request for request in trial.requests if role_of(request) != "verifier"]

    def test_each_field_is_as_documented_or_has_a_reason_that_still_is_one(self) -> None:
        rows = [json.loads(line) for line in DOCUMENTED.read_text("utf-8").splitlines()]
        self.assertEqual({row["grammar"] for row in rows}, set(agent.GRAMMARS))
        for row in rows:
            grammar, otherwise = agent.GRAMMARS[row["grammar"]], row.get("otherwise", {})
            sent = fields_of(grammar, self.requests_of(grammar))
            for field, documented in row["documented"].items():
                with self.subTest(grammar.name, field=field):
                    same = sent[field] == documented
                    self.assertEqual(
                        same, field not in otherwise, otherwise.get(field, sent[field])
                    )
