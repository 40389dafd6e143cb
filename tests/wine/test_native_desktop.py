"""The Notepad task in profile native, with a model that sees pixels and speaks the grammar that it was trained in."""

from __future__ import annotations

import json
import time
import unittest
from string import Template
from typing import Any, NamedTuple

from pixel_model import (
    Json,
    PixelModel,
    Reply,
    Step,
    Task,
    decide,
    fresh_image,
    read_png,
    texts,
)
from rig import run_notepad

TASK = Task('Grüße, Åse Øß! 5 € @ "home" & 100 % – {fertig} ~^|', r"C:\greetings for Åse.txt")
SECONDS_MOST = 150  # of one run; it takes 22 on a machine that does nothing else

# What a model says for each action of a step. $x and $y are in its own space, $text and $why are quoted in its own way.
COMPUTER_USE = {
    "click": '{"action": "left_click", "coordinate": [$x, $y]}',
    "type": '{"action": "type", "text": $text}',
    "key": '{"action": "key", "keys": $keys}',
    "wait": '{"action": "wait", "time": 2}',
    "done": '{"action": "terminate", "status": "success"}',
}
VERBS = {
    "click": "click(start_box='($x,$y)')",
    "type": "type(content=$text)",
    "key": "hotkey(key='$words')",
    "wait": "wait()",
    "done": "finished(content=$why)",
}
JSON_CALL = (
    'Action: $sentence\n<tool_call>\n{"name": "computer_use", "arguments": $call}\n</tool_call>'
)
VERB_CALL = "Thought: $sentence\nAction: $call"


class Speech(NamedTuple):
    """How a model speaks, and by what its requests are known."""

    model: str  # as a server names it
    architecture: str  # as a server tells its kind
    announced: str  # what its requests hold, and those of the verifier do not
    actions: dict[str, str]  # by the action of a step
    whole: str  # a reply
    multiple: int  # of both sides of its picture, in pixels
    in_pixels: bool = False  # its places, else they are on the grid of 0..1000


SPEECHES = {
    "qwen3-vl": Speech(
        "qwen3-vl-4b-instruct",
        "qwen3vl",
        '"name": "computer_use"',
        COMPUTER_USE,
        JSON_CALL,
        32,
    ),
    "gui-owl-1.5": Speech(
        "gui-owl-1.5-8b-instruct",
        "qwen3vl",
        '"name": "computer_use"',
        COMPUTER_USE,
        JSON_CALL,
        16,
    ),
    "ui-tars-1.5": Speech(
        "ui-tars-1.5-7b",
        "qwen2vl",
        "## Action Space",
        VERBS,
        VERB_CALL,
        28,
        in_pixels=True,
    ),
}


class NativeModel(PixelModel):
    """The same mind, without any tool: it answers in its own grammar only."""

    def __init__(self, speech: Speech, task: Task = TASK) -> None:
        super().__init__(task)
        self.speech = speech
        self.model = speech.model
        self.architecture = speech.architecture
        self.sizes: set[tuple[int, int]] = set()  # of the pictures that came

    def kind_of(self, body: Json) -> str:
        words = "\n".join(text for message in body["messages"] for text in texts(message))
        if self.speech.announced in words and not body.get("tools"):
            return "executor"
        return super().kind_of(body)

    def executor_reply(self, body: Json) -> tuple[Step, Reply]:
        pixels = read_png(fresh_image(body["messages"]) or b"")
        self.sizes.add((pixels.width, pixels.height))
        step = self.patient(decide(pixels, self.task))
        if step.action != "wait":
            self._before, self._starting = step, "Enter starts it" in step.why
        words = said_in(self.speech, step, pixels.width, pixels.height)
        return step, {"role": "assistant", "content": words}


def said_in(speech: Speech, step: Step, width: int, height: int) -> str:
    """A whole reply for one step, for a picture of that size."""
    x, y = step.position
    if speech.in_pixels:
        x, y = x * width // 1000, y * height // 1000
    keys = step.key.split("+")
    quoted: Any = (
        repr if speech.actions is VERBS else lambda text: json.dumps(text, ensure_ascii=False)
    )
    call = Template(speech.actions[step.action]).substitute(
        x=x,
        y=y,
        text=quoted(step.text),
        keys=json.dumps(keys),
        words=" ".join(keys),
        why=quoted(step.why),
    )
    return Template(speech.whole).substitute(sentence=step.why, call=call)


class TheNotepadTaskInTheModelsOwnGrammar(unittest.TestCase):
    def check(self, grammar: str) -> None:
        speech = SPEECHES[grammar]
        model = NativeModel(speech)
        began = time.monotonic()
        run = run_notepad(model, "--profile", "native")
        self.assertLess(time.monotonic() - began, SECONDS_MOST, str(run))
        self.assertEqual(run.saved, TASK.file_bytes, str(run))
        self.assertEqual(run.code, 0, str(run))
        self.assertEqual(run.unread, [])
        self.assertIn(f"grammar {grammar}", run.output)
        self.assertEqual([e["outcome"] for e in run.journal if e["kind"] == "end"], ["completed"])
        self.assertEqual([e for e in run.journal if e["kind"] == "no_call"], [])
        kinds = {exchange.kind for exchange in model.exchanges}
        self.assertLessEqual({"executor", "verification"}, kinds)
        self.assertNotIn("planner", kinds)
        for width, height in model.sizes:
            self.assertEqual((width % speech.multiple, height % speech.multiple), (0, 0))

    def test_qwen3_vl_writes_and_saves_the_line(self) -> None:
        self.check("qwen3-vl")

    def test_gui_owl_writes_and_saves_the_line(self) -> None:
        self.check("gui-owl-1.5")

    def test_ui_tars_writes_and_saves_the_line(self) -> None:
        self.check("ui-tars-1.5")


if __name__ == "__main__":
    unittest.main()
