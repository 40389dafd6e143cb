"""A model that points beside what it means is measured, and clicks right from then on."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import random
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any, NamedTuple

import agent
from tests.fakes import VirtualClock
from tests.samples import sample
from tests.scripted import EngineCase, text
from tests.seams import act, check_of_model, rgb_picture
from tests.spoken import spoken

# Pictures of this size are asked about and sent, so that what is measured is of the run's own size.
SETTINGS = {"turn_delay": 0, "screen_capture_w": 1280, "screen_capture_h": 720}
SMALL = {"screen_capture_w": 640, "screen_capture_h": 360}
# Answers of both axes that are off in turn, by as much as a small model's are.
NOISE = (30, 30, -25, -25, -30, -30, 25, 25, 28, 28, -27, -27)
COLOURS = {"red": 0xE02020, "green": 0x20A040, "blue": 0x2040E0, "orange": 0xF09010}


@functools.cache
def squares(image: str) -> dict[str, tuple[float, float]]:
    """Where on the grid the middles of the coloured squares of a picture are."""
    rgb, width, height = rgb_picture(base64.b64decode(image.partition(",")[2]))
    found = {}
    for name, colour in COLOURS.items():
        packed = colour.to_bytes(3, "big") * 2
        first, last = -(-rgb.find(packed) // 3), rgb.rfind(packed) // 3 + 1
        x = (first % width + last % width) / 2 * 1000 / (width - 1)
        y = (first // width + last // width) / 2 * 1000 / (height - 1)
        found[name] = (x, y)
    return found


def asked_place(request: dict[str, Any]) -> tuple[float, ...]:
    """Where the square is for which a request asks; nothing if it asks for none."""
    words, image = "", ""
    for message in request["messages"]:
        content = message["content"]
        for part in content if isinstance(content, list) else [{"text": content}]:
            words += part.get("text", "")
            image = part.get("image_url", {}).get("url", image)
    asked = re.search(r"the middle of the (\w+) square", words)
    return squares(image)[asked[1]] if asked else ()


class Swollen:
    """A server whose model sees every place farther from the middle than it is, and then aside.

    Its answers are off by `noise`, one number after another.
    """

    tokens = 100  # of a request

    def __init__(
        self,
        scale: float,
        shift: float = 0.0,
        noise: tuple[int, ...] = (0,),
        where: str = "http://127.0.0.1:1234",
        model: str = "qwen",
    ) -> None:
        self.info, self.requests = agent.ModelInfo(model), 0
        self.scale, self.shift, self.noise, self.where = scale, shift, itertools.cycle(noise), where

    def discover(self) -> agent.ModelInfo:
        return self.info

    def complete(self, body: bytes) -> agent.Reply:
        self.requests += 1
        message, usage = self.message(json.loads(body)), agent.Usage(self.tokens, 10, None)
        return agent.Reply(message, "stop", usage, self.info.name, 0.1)

    def message(self, request: dict[str, Any]) -> dict[str, Any]:
        place, said = asked_place(request), []
        for axis in place:
            said.append(round(500 + self.scale * (axis - 500) + self.shift) + next(self.noise))
        return text(self.form(said) if place else "Pressed.")

    def form(self, place: list[int]) -> str:
        """How it names a place, or clicks it in its grammar."""
        grammar = agent.GRAMMARS.get(self.info.name)
        return spoken(grammar, "click", place, (1280, 720)) if grammar else str(place)


def config_of(root: Path, **settings: Any) -> agent.Config:
    return agent.load_config({"test": {**SETTINGS, "dump_dir": str(root), **settings}})


def measured(root: Path, server: Any, model: str = "qwen", **settings: Any) -> str:
    """What --check finds of the server's model, which is kept in that folder."""
    server.info = agent.ModelInfo(model)
    return check_of_model(config_of(root, **settings), "planner", server)["calibration"]


class Found(NamedTuple):
    """What a run corrects, and what it tells the person about that."""

    correction: Any
    text: str


def corrected(root: Path, model: str = "qwen", where: str = "", **settings: Any) -> Found:
    """What a run makes of what is kept in that folder."""
    told: list[str] = []
    server: Any = Swollen(1, where=where or Swollen(1).where)
    config = agent.at_size_of(agent.DemoDesktop(VirtualClock()), config_of(root, **settings))
    asked = agent.Asked(config, agent.ModelInfo(model), server)
    correction = agent.correction_for(asked, told.append)
    return Found(correction, "\n".join(told))


def corrects(correction: Any) -> bool:
    """Whether it moves any of the places that models err about most."""
    far = agent.Coordinate(900, 100)
    return bool(correction.place(far) != far)


def correction_by(scale: float, **how: Any) -> Any:
    """The correction for a model of that fault."""
    with tempfile.TemporaryDirectory() as folder:
        measured(Path(folder), Swollen(scale, **how), **SMALL)
        return corrected(Path(folder), **SMALL).correction


def kept(root: Path) -> list[Any]:
    """What the files hold."""
    return [json.loads(path.read_text("utf-8")) for path in root.iterdir()]


@functools.cache
def file_name() -> str:
    """Where it is kept what was measured of the model that is asked here."""
    with tempfile.TemporaryDirectory() as folder:
        measured(Path(folder), Swollen(1.03))
        return next(Path(folder).iterdir()).name


class Lines(unittest.TestCase):
    def test_what_is_measured_is_undone_and_what_may_be_chance_is_left_alone(self) -> None:
        aside, wild = (0,) * 4 + (-380,) + (0,) * 40, (0,) * 6
        for name, scale, how, said, meant in (
            ("a swollen picture", 1.0206, {}, (990, 50), (980, 59)),
            ("its middle", 1.0206, {}, (500, 500), (500, 500)),
            ("a shift beside the scale", 0.97, {"shift": 20}, (132, 908), (100, 900)),
            ("a neighbour taken", 1.0, {"shift": 6, "noise": aside}, (106, 906), (100, 900)),
            ("chance", 1.004, {"noise": NOISE}, (900, 100), (900, 100)),
            ("one wild answer", 0.96, {"noise": (*wild, -300, *(0,) * 40)}, (39, 961), (20, 980)),
            ("one far beyond", 0.96, {"noise": (*wild, 500, *(0,) * 40)}, (39, 961), (20, 980)),
        ):
            with self.subTest(name):
                place = correction_by(scale, **how).place(agent.Coordinate(*said))
                self.assertLessEqual(abs(place.x - meant[0]) + abs(place.y - meant[1]), 2, place)

    def test_a_shift_is_undone_before_the_scale(self) -> None:
        fit = agent.AxisFit.through(
            [(at, 500 + 0.5 * (at - 500) + 40) for at in range(0, 1001, 100)]
        )
        self.assertEqual([fit.undo(said) for said in (540, 290, 790)], [500, 0, 1000])

    def test_clicks_with_noise_and_no_fault_are_hardly_ever_corrected(self) -> None:
        dice, count = random.Random(1), sample(30, 10)
        noises = [tuple(round(dice.gauss(0, 10)) for _ in range(24)) for _ in range(count)]
        wrong = [noise for noise in noises if corrects(correction_by(1.0, noise=noise))]
        self.assertLess(len(wrong) / count, 0.1)

    def test_beyond_eight_per_cent_nothing_is_corrected_and_the_run_refused(self) -> None:
        self.assertTrue(corrects(correction_by(0.93)))
        for scale, shift, told in ((0.91, 0, "0.91"), (0.0, 0, "0.00"), (1.0, 90, "1.00")):
            with self.assertRaisesRegex(agent.ConfigError, f"{told}.*measured with --check"):
                correction_by(scale, shift=shift)
        # A place that means one outside the screen.
        with self.assertRaisesRegex(agent.ToolError, "outside the grid"):
            correction_by(0.95).place(agent.Coordinate(990, 500))


class Kept(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "dumps"

    def test_it_comes_back_for_its_model_and_replaces_the_older_one(self) -> None:
        for scale, model in ((0.95, "qwen"), (0.96, "other"), (1.05, "qwen")):
            measured(self.root, Swollen(scale), model)
        far = agent.Coordinate(900, 100)
        self.assertEqual(corrected(self.root).correction.place(far).x, 881)
        self.assertEqual(corrected(self.root, "other").correction.place(far).x, 917)
        self.assertEqual(len(kept(self.root)), 2)

    def test_a_damaged_file_is_told_in_one_sentence(self) -> None:
        measured(self.root, Swollen(0.95))
        self.assertIn("Places are corrected", corrected(self.root).text)
        (self.root / file_name()).write_text("{")
        self.assertRegex(corrected(self.root).text, r"^[^\n]*--check measures anew$")

    def test_a_model_clicks_the_squares_in_its_own_grammar_and_that_is_kept_for_it(self) -> None:
        for grammar in ("qwen3-vl", "ui-tars-1.5"):
            model = Swollen(0.98, model=grammar)
            found = check_of_model(config_of(self.root), "native", model)
            self.assertIn("corrected from now on: across scale 0.98", found["calibration"])
            self.assertEqual(model.requests, 13)  # the last one is a key
            ends = [one["of"].rpartition(", ")[2] for one in kept(self.root)]
            self.assertIn(grammar, ends)


class OnTheDemo(EngineCase):
    """From --check to the click: a small button of the demo is hit or missed."""

    desktop_type = agent.DemoDesktop

    def clicked(self, correction: Any, scale: float) -> bool:
        """Whether a model of that fault hits the Start button near its corner."""
        trial = self.trial(lambda _: {}, confirm="never", **SETTINGS)
        trial.engine.correction = correction
        icon = agent.Rect(10, 677, 38, 38)  # at the left lower corner
        said = []
        for place, size in ((icon.left + 34, 1279), (icon.top + 33, 719)):
            said.append(round(500 + scale * (place * 1000 / size - 500)))
        deed = trial.perform(act("click", element_name="Blue square", position=said), trial.look())
        self.assertFalse(deed.refused, deed.result)
        return bool(icon.contains(trial.desktop.cursor()))

    def test_a_shifted_model_misses_without_and_hits_with_its_calibration(self) -> None:
        unknown = corrected(self.folder).correction
        found = measured(self.folder, Swollen(0.96))
        self.assertRegex(found, r"corrected from now on: across scale 0\.9[56]")
        self.assertFalse(self.clicked(unknown, 0.96))
        self.assertTrue(self.clicked(corrected(self.folder).correction, 0.96))

    def test_a_run_finds_what_was_measured_for_pictures_of_its_own_screen(self) -> None:
        own = {"screen_capture_w": 0, "screen_capture_h": 0}
        frame = self.trial(lambda _: {}, **own).look().frame
        measured(self.folder, Swollen(0.96), screen_capture_w=800, screen_capture_h=450)
        self.assertFalse(corrects(corrected(self.folder, **own).correction))
        size = {"screen_capture_w": frame.width, "screen_capture_h": frame.height}
        measured(self.folder, Swollen(0.96), **size)
        self.assertTrue(corrects(corrected(self.folder, **own).correction))
        self.assertFalse(corrects(corrected(self.folder, calibration=False, **own).correction))


if __name__ == "__main__":
    unittest.main()
