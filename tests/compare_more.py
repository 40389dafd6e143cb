"""More seams of the comparison: what is drawn, what demos do, what the command line says, what is measured.

tests/compare_side.py drives these, too.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import agent
from tests import compare_side as side
from tests.fakes import FakeWin32, VirtualClock
from tests.seams import marked_pixels

Random = random.Random
ACTS = ("click", "double_click", "move", "scroll", "key", "drag", "drag")
WORDS = ("Hello", "a", "Grüße\n", "x" * 60, "\t")
KEYS = ("escape", "ctrl+s", "win", "enter", "backspace", "shift+a", "space")


def digest(pixels: Any) -> str:
    return hashlib.sha256(bytes(pixels)).hexdigest()[:12]


def numbers(rng: Random) -> dict[str, int]:
    """Two places on the grid, as marks have them."""
    return {name: rng.randint(0, 1000) for name in ("x1", "y1", "x2", "y2")}


def seam_pictures(cases: int) -> Iterator[side.Case]:
    """The marks of random turns on plain rectangles, and that picture packed and unpacked."""
    for number in range(cases):
        rng = Random(f"picture {number}")
        width, height = rng.randint(40, 240), rng.randint(30, 160)
        plain = bytes(side.blocks(rng, width, height))
        turns = [[{"name": rng.choice(ACTS), **numbers(rng)} for _ in range(rng.randint(0, 3))]]
        turns += [[{"name": "click", **numbers(rng)}] for _ in range(rng.randint(0, 2))]
        boxes = [numbers(rng) for _ in range(rng.randint(0, 3))]
        config = agent.load_config({"case": {"marks_radius_scale": rng.choice((0.05, 0.11))}})
        marked = marked_pixels((plain, width, height), turns, boxes, config)
        again = agent.png_to_rgb(agent.encode_png(marked, width, height))
        yield f"{number}", [digest(marked), digest(repr(again).encode())]


def seam_demos(cases: int) -> Iterator[side.Case]:
    """Random input on the drawn desktop; then the demo of each profile, and what goes on from its run."""
    for number in range(cases):
        rng = Random(f"demo {number}")
        desktop = agent.DemoDesktop(VirtualClock())  # type: ignore[arg-type]
        seen = []
        for _ in range(rng.randint(2, 8)):
            use(rng, desktop)
            area = agent.Rect(rng.randint(0, 300), rng.randint(0, 200), 800, 450)
            frame = desktop.capture(area, 160, 90)
            front = frame.window and frame.window.title
            at = desktop.window_at(desktop.cursor())
            seen.append([digest(frame.pixels), front, at and at.title])
        yield f"{number}", [seen, asdict(desktop.state)]
    for profile in ("planner", "commander", "chat", "pointer", "story", "native"):
        with side.temporary_folder():
            demo = ["--demo", "--profile", profile, "--set", "screen_capture_w=640"]
            demo += ["--set", "screen_capture_h=360"]
            for name, more in (("demo", []), ("dry", ["--dry-run"]), ("again", ["--replay", "1"])):
                yield f"{profile}: {name}", begin([*demo, *more])
            for name, value in side.files_of(Path("dumps")):
                yield f"{profile}: {name}", value


def use(rng: Random, desktop: Any) -> None:
    """A click on one of its places, a key, or text."""
    places = list(desktop.state.places().values())
    rect = rng.choice(places).rect
    if rng.random() < 0.6:
        desktop.move(agent.Point(rect.left + rect.width // 2, rect.top + rect.height // 2))
        for _ in range(rng.choice((1, 2))):
            desktop.button("left", True)
            desktop.button("left", False)
    elif rng.random() < 0.5:
        names = rng.choice(KEYS).split("+")
        for name in names:
            desktop.key(name, True)
        for name in reversed(names):
            desktop.key(name, False)
    else:
        desktop.text(rng.choice(WORDS))
    desktop.clock.advance(rng.choice((0.1, 1)))


def begin(arguments: list[str]) -> Any:
    """What main() says with a simulated Windows that nothing is asked of."""
    clock = VirtualClock()
    return side.begin(arguments, FakeWin32(monitors=[side.SCREEN], clock=clock), clock)


LINES = (
    "--help|--help described|--help nothing|--version|--settings|--settings drag|--settings nothing"
    "|--scenarios|--profiles|--runs|--stats|--runs 3|--stats 2|--report 1|--report 2 out.html"
    "|--replay 9|--resume|--resume 4|--dry-run|--set x=1|--set max_steps=0|--set settle_ms|--nonsense"
    "|--demo --profile nobody|--area 1,2|--area 0,0,10,10 --demo|help|check|--endpoint ftp://x task"
    "|--report|--replay 1 --resume|--demo --check|--runs --stats|--config nowhere.json task|--secret X"
)


def seam_lines(cases: int) -> Iterator[side.Case]:
    """What the command line answers, in a folder with some kept runs, and what --check says of models."""
    with side.temporary_folder():
        paths = sorted((side.HERE / "journals").glob("*/turns.jsonl"))
        for number, path in enumerate(paths, 1):
            run = Path("dumps", f"run_{number:04}")
            run.mkdir(parents=True)
            (run / "turns.jsonl").write_bytes(path.read_bytes())
        for line in LINES.split("|"):
            yield line, begin([*line.split(), "--set", "dump_dir=dumps"])
    for number in range(max(6, cases // 5)):
        yield f"--check {number}", checked(Random(f"check {number}"))


class Varied(side.Model):
    """A server with a few models, of which it tells more or less, in one of its ways to list them."""

    def page(self, path: str) -> tuple[int, dict[str, Any]]:
        rng = Random(f"{self.seed}/models")
        if path != rng.choice(("/api/v0/models", "/api/v1/models", "/v1/models")):
            return 404, {"error": "Unexpected endpoint"}
        entries = [entry(rng) for _ in range(rng.randint(1, 4))]
        return 200, {"models" if "v1/m" in path and path[1] == "a" else "data": entries}


NAMES = (
    "qwen3-vl-2b-instruct",
    "qwen/qwen3-vl-8b",
    "ui-tars-1.5-7b",
    "gemma-3-4b",
    "llama-3.2-1b",
    "",
)


def entry(rng: Random) -> dict[str, Any]:
    """What a server says of a model."""
    name = rng.choice(NAMES)
    told: dict[str, Any] = {rng.choice(("id", "key")): name, "type": rng.choice(("vlm", "llm", 7))}
    if rng.random() < 0.5:
        told["state"] = rng.choice(("loaded", "not-loaded"))
    if rng.random() < 0.5:
        told["max_context_length"] = rng.choice((4096, 262144, "many"))
    if rng.random() < 0.5:
        loaded = {"context_length": rng.choice((2048, 8192))}
        told["loaded_instances"] = [{"id": name, "config": loaded}]
    if rng.random() < 0.5:
        told["capabilities"] = rng.choice(({"vision": True}, {"vision": False}, ["tool_use"], "x"))
    return told


def checked(rng: Random) -> Any:
    """What --check finds of models that point with some fault, or say something else."""
    clock = VirtualClock()
    profile = rng.choice(sorted(side.BAGS))
    kind = rng.choice((side.Model, Varied))
    with side.temporary_folder(), kind(side.BAGS[profile], str(rng.random()), 8000, clock) as model:
        arguments = ["--check", "--profile", profile, "--endpoint", model.url]
        given = side.begin(arguments, FakeWin32(monitors=[side.SCREEN], clock=clock), clock)
        return [given, [text for _, text in model.kept]]


def seam_places(cases: int) -> Iterator[side.Case]:
    """Answers beside their truth, by a fault and noise, and the line that is certain of them."""
    for number in range(cases):
        rng = Random(f"place {number}")
        scale, shift = rng.choice((1, 1, 1.02, 0.9)), rng.choice((0, 0, 4, -30))
        truths = sorted(rng.sample(range(1000), rng.randint(6, 12)))
        answers = [scale * at + shift + rng.gauss(0, rng.choice((0, 2, 9))) for at in truths]
        fit = agent.fit_axis(list(zip(truths, answers, strict=True)))
        yield f"{number}", [str(fit), [fit.undo(place) for place in (0, 250, 999)]]


SEAMS_MORE = {
    "pictures": seam_pictures,
    "demos": seam_demos,
    "lines": seam_lines,
    "places": seam_places,
}
