"""Whole runs on a real Win32 desktop, decided by a model that sees pixels only: the Notepad task in several profiles."""

from __future__ import annotations

import json
import shutil
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from tests.scripted import call, text
from tests.wine.model import WAIT, Message, PixelModel, Sight, Step, Task, picture, texts
from tests.wine.rig import ALONE, Desktop, shared_desktop, target, windows_path

TASK = Task('Grüße, Åse Øß! 5 € @ "home" & 100 % – {fertig} ~^|', r"C:\greetings for Åse.txt")
OUT_OF_RANGE = call(
    "click_screen_element", element_name="it", position=[1290, 540], reasoning="next"
)
FAULTS = (
    *("", OUT_OF_RANGE, "", "http500", "", text(""), ""),
    *([text("The screen shows the desktop. I should go on.")] * 3),
    *("", call("tap_on_screen"), "", "drop"),
)
SCALE = 0.95  # of a model's places, seen from the middle of its picture
TURNS_MOST = 25  # twice what a model needs that points right


class Run(NamedTuple):
    """How one run went, and what is left of it."""

    code: int
    output: str
    saved: bytes | None  # the file that the task asks for
    journal: list[dict[str, Any]]
    steps: str  # of the model


class Shifted(PixelModel):
    """Says every place, that of a calibration's square too, at a part of its distance from the middle."""

    model = "qwen3-vl-4b-beside"

    def next_step(self, sight: Sight, offers_more: bool = False) -> Step:
        step = super().next_step(sight, offers_more)
        return step._replace(place=beside(step.place))

    def verifier(self, request: Any) -> Message:
        said = super().verifier(request)["content"]
        if said.startswith("{"):
            said = json.dumps({name: beside(place) for name, place in json.loads(said).items()})
        return text(said)


def beside(place: Sequence[int]) -> tuple[int, ...]:
    """Where the shifted model believes it to be; nothing lies off the grid."""
    away = (round(500 + SCALE * (number - 500)) for number in place)
    return tuple(min(1000, max(0, number)) for number in away)


# What a model says for each action of a step. $x and $y are in its own space, $text and $why are quoted in its own way.
COMPUTER_USE = {
    "click": '{"action": "left_click", "coordinate": [$x, $y]}',
    "type": '{"action": "type", "text": $text}',
    "key": '{"action": "key", "keys": $keys}',
    "done": '{"action": "terminate", "status": "success"}',
}
JSON_CALL = '<tool_call>\n{"name": "computer_use", "arguments": $call}\n</tool_call>'
VERBS = {
    "click": "click(start_box='($x,$y)')",
    "type": "type(content=$text)",
    "key": "hotkey(key='$words')",
    "done": "finished(content=$why)",
}


class Speech(NamedTuple):
    """How a model speaks, and by what its requests are known."""

    grammar: str
    model: str  # as a server names it
    architecture: str  # as a server tells its kind
    announced: str  # what its requests hold, and those of the verifier do not
    actions: dict[str, str]  # by the action of a step
    whole: str  # a reply
    multiple: int  # of both sides of its picture, in pixels
    in_pixels: bool = False  # its places, else they are on the grid of 0..1000


QWEN, TARS = "qwen3-vl-4b-instruct", "ui-tars-1.5-7b"
THOUGHT = "Thought: $why\nAction: $call"
SPEECHES = (
    Speech("qwen3-vl", QWEN, "qwen3vl", '"name": "computer_use"', COMPUTER_USE, JSON_CALL, 32),
    Speech("ui-tars-1.5", TARS, "qwen2vl", "## Action Space", VERBS, THOUGHT, 28, in_pixels=True),
)


class NativeModel(PixelModel):
    """The same mind, without any tool: it answers in its own grammar only."""

    def __init__(self, speech: Speech, task: Task) -> None:
        super().__init__(task)
        self.speech = speech
        self.model, self.architecture = speech.model, speech.architecture
        self.sizes: set[tuple[int, int]] = set()  # of the pictures that came

    def role(self, request: Any) -> str:
        return "executor" if self.speech.announced in "\n".join(texts(request)) else "verifier"

    def executor(self, request: Any) -> Message:
        sight = Sight(picture(request) or b"")
        self.sizes.add((sight.width, sight.height))
        step = self.next_step(sight)
        x, y = step.place
        if self.speech.in_pixels:
            x, y = x * sight.width // 1000, y * sight.height // 1000
        quoted = repr if self.speech.actions is VERBS else json.dumps
        keys = step.key.split("+")
        said = Template(self.speech.actions["key" if step == WAIT else step.action]).substitute(
            x=x,
            y=y,
            text=quoted(step.text),
            keys=json.dumps(keys),
            words=" ".join(keys),
            why=quoted(step.why),
        )
        return text(Template(self.speech.whole).substitute(why=step.why, call=said))


class Runs(unittest.TestCase):
    desktop: Desktop

    @classmethod
    def setUpClass(cls) -> None:
        cls.desktop = shared_desktop()

    def run_with(self, model: PixelModel, *options: str) -> Run:
        """The model's task, typed at the prompt on an empty desktop."""
        saved = self.desktop.file(model.task.path)
        saved.unlink(missing_ok=True)
        words = "--confirm", "never", *ALONE, *options
        program = self.desktop.agent("--endpoint", model.url, *words)
        program.say(model.task.words + "\n")
        try:
            code, output = program.finish(300)
        finally:
            self.desktop.close("notepad.exe")
        steps = "\n".join(map(str, model.steps))
        written = saved.read_bytes() if saved.exists() else None
        return Run(code, output, written, self.desktop.journal(), steps)

    def completed(self, model: PixelModel, *options: str) -> Run:
        """A run that did the task, and whose claim was checked."""
        with model:
            run = self.run_with(model, *options)
        told = f"{run.output}\n{run.steps}"
        self.assertEqual((run.saved, run.code, model.errors), (model.task.file_bytes, 0, []), told)
        self.assertEqual([e["outcome"] for e in run.journal if e["kind"] == "end"], ["completed"])
        self.assertIn("verifier", {exchange.role for exchange in model.exchanges})
        return run

    def test_the_task_is_done_and_repeated_without_a_server_but_not_where_a_window_covers_it(
        self,
    ) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            # Desktops of their own: the Run dialog remembers what was typed there before.
            with Desktop() as self.desktop:
                run = self.completed(PixelModel(TASK))
                recorded = shutil.copytree(self.desktop.run_folder, Path(scratch, "run_0001"))
            targets = [e["args"].get("element_name") for e in run.journal if e["kind"] == "intent"]
            named = [name for name in dict.fromkeys(targets) if name]
            self.assertEqual(named[:2], ["Start button", "Run..."])
            again = "--replay", windows_path(recorded), "--confirm", "never", *ALONE
            with Desktop() as self.desktop:
                code, output = self.desktop.agent(*again).finish()
                self.assertEqual(code, 0, output)
                saved = self.desktop.file(TASK.path)
                self.assertEqual(saved.read_bytes(), TASK.file_bytes, output)
                saved.unlink()
                self.desktop.close("notepad.exe")
                target(self.desktop)
                code, output = self.desktop.agent(*again).finish()
            self.assertEqual(code, 1, output)
            self.assertIn("differs: ", output)
            self.assertFalse(saved.exists())

    def test_profile_commander_does_it(self) -> None:
        self.completed(PixelModel(TASK), "--profile", "commander")

    def test_the_server_and_the_model_may_fail_in_between(self) -> None:
        run = self.completed(PixelModel(TASK, FAULTS))
        replies = [entry for entry in run.journal if entry["kind"] == "reply"]
        self.assertEqual(len([entry for entry in replies if entry["tries"] > 1]), 2)
        unusable = [entry["text"] for entry in run.journal if entry["kind"] == "no_call"]
        self.assertEqual(len(unusable), 6, unusable)
        self.assertIn("1290", unusable[0])

    def test_the_tools_that_save_turns_take_fewer_requests(self) -> None:
        model = PixelModel(TASK, quick=True)
        run = self.completed(model)
        self.assertIn("open_app", [e["tool"] for e in run.journal if e["kind"] == "intent"])
        asked = [exchange for exchange in model.exchanges if exchange.role != "verifier"]
        # Without them 13; a window that is slow to come may cost a look more.
        self.assertLessEqual(len(asked), 9, run.steps)
        self.assertNotIn("enter", [step.key for step in model.steps])

    def test_profile_native_does_it_in_the_models_own_grammar(self) -> None:
        for speech in SPEECHES:
            with self.subTest(speech.grammar):
                model = NativeModel(speech, TASK)
                run = self.completed(model, "--profile", "native")
                self.assertIn(f"grammar {speech.grammar}", run.output)
                self.assertEqual([e for e in run.journal if e["kind"] == "no_call"], [])
                rests = {side % speech.multiple for size in model.sizes for side in size}
                self.assertEqual(rests, {0})

    def test_a_model_that_points_beside_fails_without_a_calibration_and_completes_with_one(
        self,
    ) -> None:
        limit = "--max-steps", str(TURNS_MOST)
        with Shifted(TASK) as model:
            code, said = self.desktop.agent("--check", "--endpoint", model.url).finish()
            # Of SCALE.
            self.assertRegex(said, r"corrected from now on: across scale 0\.9(49|50?|51),")
            run = self.run_with(model, *limit, "--set", "calibration=off")
            self.assertIsNone(run.saved, run.output)
            model.forget()
            run = self.run_with(model, *limit)
        self.assertIn("Places are corrected as measured", run.output)
        self.assertEqual((run.saved, run.code), (TASK.file_bytes, 0), run.output)


if __name__ == "__main__":
    unittest.main()
