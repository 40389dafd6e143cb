"""The chat loop: one conversation, screenshots on demand, errors as tool messages, and a history that stays small."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent
from tests.samples import for_the_gate, sample
from tests.scripted import EngineCase, Trial, call, reused, role_of, text

Message = dict[str, Any]
CLICK = call("click_element", label="Button", box=[500, 500])
LOOK = call("observe_screen")
FILE = Path(__file__).parent / "data" / "chats.jsonl"
# Replies that are no act, each with what the model is told, or the end that it is.
ROWS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def native(*calls: tuple[str, str], content: str = "", **more: Any) -> Message:
    """A reply with these native calls, arguments as they are written."""
    listed = [
        {"id": f"x{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": content, "tool_calls": listed, **more}


def in_turn(*replies: Message) -> Any:
    """A model that says these one after the other, then that it is done."""
    rest = iter(replies)
    return lambda request: next(rest, text("All done."))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What the model is told about its last call, wherever it stands."""
    told = [
        m
        for m in request["messages"]
        if m["role"] in ("tool", "user") and isinstance(m["content"], str)
    ]
    return json.loads(told[-1]["content"])


def images(request: dict[str, Any]) -> list[Message]:
    return [m for m in request["messages"] if isinstance(m["content"], list)]


def begun(request: dict[str, Any]) -> str:
    """The task, and what is told of earlier steps."""
    return str(request["messages"][1]["content"])


class ChatCase(EngineCase):
    def chat(
        self, *replies: Message, profile: str = "chat", **settings: Any
    ) -> tuple[Trial, agent.Outcome]:
        trial = self.trial(in_turn(*replies), profile, **settings)
        return trial, trial.run()

    def check_history(self, request: dict[str, Any]) -> None:
        """Every call is answered at once and every answer belongs to a call; no image stands without its text."""
        roles = [m["role"] for m in request["messages"]]
        self.assertEqual(roles[:2], ["system", "user"])
        waiting, seen = [], set()
        for message in request["messages"]:
            if message["role"] == "tool":
                self.assertEqual(message["tool_call_id"], waiting.pop(0))
                continue
            self.assertEqual(waiting, [])
            waiting = [c["id"] for c in message.get("tool_calls", [])]
            self.assertFalse(seen & set(waiting))
            seen |= set(waiting)
            for c in message.get("tool_calls", []):
                self.assertIsInstance(json.loads(c["function"]["arguments"]), dict)
            if isinstance(message["content"], list):
                parts = {part["type"]: part for part in message["content"]}
                self.assertEqual(parts.keys(), {"image_url", "text"})
                self.assertTrue(parts["text"]["text"])
        self.assertEqual(waiting, [])


class Steps(ChatCase):
    def test_what_is_sent_back_is_a_clean_native_call_without_half_characters(self) -> None:
        spoken = 'I click.\n<tool_call>\n{"name": "press_key", "arguments": {"key": "enter"}}\n</tool_call>'
        trial, _ = self.chat(text(spoken))
        said = trial.requests[1]["messages"][5]
        self.assertEqual(said["content"], "I click.")
        wanted = {"name": "press_key", "arguments": '{"key": "enter"}'}
        self.assertEqual(said["tool_calls"][0]["function"], wanted)
        self.check_history(trial.requests[1])
        trial, _ = self.chat(native(("press_key", '{"key": "\\ud83d"}'), content="odd \ud83d"))
        json.dumps(trial.requests[1], ensure_ascii=False).encode()  # raises for half a character
        self.assertIn("odd ?", trial.requests[1]["messages"][5]["content"])

    def test_a_refusal_for_another_window_brings_its_screenshot_along_but_as_described(
        self,
    ) -> None:
        for described in (False, True):
            trial = self.trial(in_turn(CLICK), "chat", described=described)
            plain, asked = trial.desktop.foreground(), trial.requests
            # Another window comes up while the model is thinking.
            trial.desktop.foreground = lambda w=plain, n=asked: replace(w, handle=1 + len(n))
            trial.run()
            before, after = map(images, trial.requests[:2])
            self.assertEqual(answer(trial.requests[1])["error"]["type"], "stale_frame")
            self.assertEqual((len(after) - len(before), trial.inputs), (not described, []))
            self.check_history(trial.requests[1])


class Errors(ChatCase):
    def test_each_is_told_with_its_type_and_not_sent_back_broken_or_is_the_end(self) -> None:
        for row in ROWS:
            with self.subTest(**row):
                trial, outcome = self.chat(row["reply"], profile=row["profile"])
                self.assertEqual((trial.inputs, outcome.kind), ([], "completed"))
                said = row.get("end", "All done.")
                self.assertEqual(outcome.text, f"Not checked. The model says: {said}")
                self.assertEqual(len(trial.requests), 1 if "end" in row else 2)
                if "error" in row:
                    self.check_history(trial.requests[1])
                    first, told = trial.requests[1]["messages"][-2:]
                    error = json.loads(told["content"])
                    given = (error["ok"], error["error"]["type"], told["role"])
                    self.assertEqual(given, (False, row["error"], row["role"]))
                    self.assertTrue(error["error"]["message"])
                    if (
                        row["role"] == "user"
                    ):  # a broken call is not sent back, and no words of ours
                        said = row["reply"]["content"]
                        self.assertIn(
                            first["content"] if first["role"] == "assistant" else "", said
                        )
                        self.assertNotIn("tool_calls", first)

    def test_a_reply_cut_by_the_token_limit_is_not_the_end(self) -> None:
        trial = self.trial(in_turn(text("I see a window and")), "chat")
        plain, first = trial.server.complete, itertools.count()
        trial.server.complete = lambda body: replace(
            plain(body), finish_reason="stop" if next(first) else "length"
        )
        self.assertEqual(trial.run().text, "Not checked. The model says: All done.")
        self.assertEqual(answer(trial.requests[1])["error"]["type"], "invalid_json")


class Patience(ChatCase):
    def test_two_replies_in_a_row_without_a_call_are_no_turns_without_progress_but_as_described(
        self,
    ) -> None:
        words = text("I look at the window.")
        for described, wanted in ((False, [0, 0, 1, 1]), (True, [1, 2, 3, 3])):
            own = {"described": described, "stall_stop": 9, "verify_completion": False}
            lost = native(("x", "{"))
            # The third is asked for once more, with the tools in the text.
            replies = [*([lost if described else words] * 2), lost, lost]
            with self.subTest(described=described):
                trial, _ = self.chat(*replies, LOOK, **own)
                stalls = [entry.get("stalled", 0) for entry in trial.records("state")]
                self.assertEqual(stalls[:4], wanted)

    def test_words_of_what_is_to_be_done_are_no_claim(self) -> None:
        for said, claims in (
            ("SUCCESS_CRITERIA: The task must be completed.", False),
            ("It is not done yet.", False),
            ("I wait until finished.", False),
            ("DONE: the file is saved.", True),
            ("The task is completed.", True),
            ("I have finished.", True),
        ):
            trial, _ = self.chat(text(said), LOOK, max_steps=1, verify_completion=False)
            told = [entry["tool"] for entry in trial.records("action")]
            self.assertEqual(told[1] == "final_answer", claims, said)


class Hygiene(ChatCase):
    def test_a_random_conversation_never_leaves_an_orphan(self) -> None:
        for seed in range(sample(8, 1)):
            chance = random.Random(seed)
            key = ("press_key", '{"key": "a"}')
            replies = (
                lambda c: LOOK,
                lambda c: call("click_element", label="x", box=[c.randint(0, 1000), 5]),
                lambda c, k=key: native(*[k] * c.randint(1, 6), reasoning_content="hm"),
                lambda c: native(("press_key", "{")),
                lambda c: native(("nothing", "{}")),
                lambda c: text("<think>x"),
                lambda c, k=key: native(k, ("press_key", "{"), content="<think>why</think>so"),
            )
            trial = self.trial(
                lambda r, c=chance, w=replies: c.choice(w)(c),
                "chat",
                max_steps=sample(80, 40),
                stall_stop=1000,
                memory_compression_threshold=chance.randint(6, 12),
                keep_last_screenshots=chance.randint(0, 6),
            )
            trial.run()
            for request in trial.requests:
                self.check_history(request)

    @for_the_gate
    def test_hundreds_of_steps_stay_within_a_bounded_request(self) -> None:
        count, steps = itertools.count(), sample(200, 80)

        def decide(request: dict[str, Any]) -> Message:
            number = next(count)
            click = call("click_element", label="x", box=[number % 1000, 7])
            said = {
                "reasoning_content": f"thought {number} " * 20,
                "content": "I see a window. " * 20,
            }
            return {**(LOOK if number % 2 else click), **said}

        trial = self.trial(decide, "chat", max_steps=steps // 2)
        self.assertEqual(trial.run().kind, "max_steps")
        sizes = [len(json.dumps(request)) for request in trial.requests]
        self.assertEqual(len(sizes), steps + 1)
        self.assertLessEqual(max(sizes[60:]), max(sizes[:60]) * 1.05)
        self.assertIn("EARLIER STEPS: Turns", begun(trial.requests[-1]))
        shares = [reused(*pair) for pair in itertools.pairwise(trial.requests)]
        self.assertGreater(sum(shares) / len(shares), 0.6)  # pictures counted

    def test_turns_of_looks_alone_end_it_and_it_says_how_many_an_act_has(self) -> None:
        for profile, end in (
            ("chat", "Not completed within 10 turns, 5 for each act of --max-steps."),
            ("planner", "Not completed within 2 turns."),
        ):
            looks = LOOK if profile == "chat" else call("wait", seconds=1)
            settings = {"max_steps": 2, "stall_stop": 0, "last_look": False}
            self.assertEqual(
                self.trial(lambda _, said=looks: said, profile, **settings).run().text, end
            )

    def test_last_words_that_are_not_confirmed_count_as_claims(self) -> None:
        def says(request: dict[str, Any]) -> Message:
            if role_of(request) == "verifier":
                return text("1 NO: it is not")
            return text("DONE. The note is saved.")

        trial = self.trial(says, "chat", not_proven_most=2, verify_completion=True)
        self.assertEqual(trial.run().kind, "not_proven")
        told = [one.get("unproven") for one in trial.records("action")]
        self.assertEqual(told, [None, True, True])  # it looks first

    def test_the_row_of_a_reply_without_a_call_says_so_once(self) -> None:
        trial = self.trial(
            lambda _: text("I see a window, and would click."), "chat", max_steps=1, stall_stop=2
        )
        told: list[agent.Event] = []
        trial.engine.logger.listeners.append(told.append)
        trial.run()
        rows = [one.done for one in told if isinstance(one, agent.TurnLine)]
        self.assertEqual([*map(str.strip, rows[:2])], ["observe", "no call"])

    def test_a_full_context_is_pruned_before_it_overflows_and_to_the_least_after(self) -> None:
        looks = itertools.cycle((CLICK, LOOK))
        settings = {"max_steps": 12, "keep_last_screenshots": 50}
        trial = self.trial(lambda r: next(looks), "chat", **settings)
        trial.choose(agent.ModelInfo("scripted", True, True, 2100))  # it counts 100 a prompt
        trial.run()
        self.assertLessEqual(max(len(images(r)) for r in trial.requests), 3)
        self.assertIn("EARLIER STEPS", begun(trial.requests[-1]))
        looks = itertools.cycle((CLICK, LOOK))
        trial = self.trial(lambda r: next(looks), "chat", **{**settings, "max_steps": 4})
        plain, count = trial.server.complete, itertools.count()

        def overflowing(body: bytes) -> agent.Reply:
            if next(count) == 6:
                raise agent.ModelError("It does not fit.", "context")
            return plain(body)

        trial.server.complete = overflowing
        self.assertEqual(trial.run().kind, "max_steps")
        self.assertEqual([len(images(r)) for r in trial.requests], [1, 1, 2, 2, 3, 3, 1, 1, 1])
        self.check_history(trial.requests[6])
