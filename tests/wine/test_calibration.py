"""The Notepad task with a model whose places lie beside the grid: it fails, and succeeds once --check has measured it."""

from __future__ import annotations

import json
import unittest
from typing import Any

from pixel_model import Json, ModelServer, PixelModel, Reply, Step, Task
from rig import AGENT, Desktop, Run, json_lines, windows_path

# The text is no cp1252, so that the encoding has to be chosen, too: four small things are clicked.
TASK = Task("Grüße: 5 € – 数!", r"C:\calibrated greetings.txt")
SCALE = 0.98  # of the two scales of which the bench must give an account, the one that hurts here
TURNS_MOST = 25  # twice what a model needs that points right


class Shifted(PixelModel):
    """Says every place at `scale` times its distance from the middle of the picture."""

    def __init__(self, task: Task, scale: float) -> None:
        super().__init__(task)
        self.scale = scale

    def reply_to(self, kind: str, body: Json) -> tuple[Step, Reply]:
        step, reply = super().reply_to(kind, body)
        for call in reply.get("tool_calls") or []:
            arguments = json.loads(call["function"]["arguments"])
            call["function"]["arguments"] = json.dumps(self.beside(arguments))
        if step.action == "find":
            reply["content"] = json.dumps(self.beside(json.loads(reply["content"])))
        return step, reply

    def beside(self, said: Json) -> Json:
        """The same with each place where this model believes it to be; nothing lies off the grid."""
        for name, value in said.items():
            if isinstance(value, list) and len(value) == 2:
                away = [round(500 + self.scale * (place - 500)) for place in value]
                said[name] = [min(1000, max(0, place)) for place in away]
        return said


def run_task(scale: float, *options: str, check: bool) -> tuple[Run, str]:
    """The task on an empty desktop, and what --check said of the model before."""
    model, said = Shifted(TASK, scale), ""
    with Desktop() as desktop, ModelServer(model) as server:
        program = windows_path(AGENT), "--endpoint", server.url + "/chat/completions"
        if check:
            _, said = desktop.run(*program, "--check")
            model.exchanges.clear()
        order = f"Open Notepad, write {TASK.text!r} and save it with Ctrl+S as {TASK.path}\n"
        limit = "--confirm", "never", "--max-steps", str(TURNS_MOST)
        code, output = desktop.run(*program, *limit, *options, stdin=order)
        saved = desktop.file(TASK.path)
        return Run(
            code,
            output,
            model,
            saved.read_bytes() if saved.exists() else None,
            json_lines(desktop.folder / "dumps" / "run_0001" / "turns.jsonl"),
            server.errors,
        ), said


# What the model does only where a busy machine shows late what came of an act: it waits, or tries once more.
TRIES = ("shift", "escape", "Open field", "Notepad page")


def steps(run: Run) -> list[Any]:
    """What was done, each once: on a busy machine a perfect model, too, does some of it twice."""
    done = [entry["args"] for entry in run.journal if entry["kind"] == "intent"]
    named = [args.get("element_name") or args.get("text") or args.get("key") for args in done]
    return [name for name in dict.fromkeys(named) if name not in TRIES]


class TheShiftedModel(unittest.TestCase):
    def test_without_a_calibration_it_fails_and_with_one_it_runs_as_a_perfect_one(self) -> None:
        perfect, _ = run_task(1.0, check=False)
        self.assertTrue(perfect.completed, str(perfect))

        missing, _ = run_task(SCALE, check=False)
        self.assertFalse(missing.completed, str(missing))

        corrected, said = run_task(SCALE, check=True)
        self.assertRegex(said, r"corrected from now on: across scale 0\.9(79|80?|81),")  # of SCALE
        self.assertIn("Places are corrected as measured", corrected.output)
        self.assertTrue(corrected.completed, str(corrected))
        self.assertEqual(steps(corrected), steps(perfect))

    def test_a_calibration_that_is_switched_off_corrects_nothing(self) -> None:
        run, said = run_task(SCALE, "--set", "calibration=off", check=True)
        self.assertIn("corrected from now on", said)
        self.assertFalse(run.completed, str(run))


if __name__ == "__main__":
    unittest.main()
