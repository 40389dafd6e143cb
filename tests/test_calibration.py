"""A model that points beside what it means is measured, and clicks right from then on."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import agent
from tests.bench import figures
from tests.fakes import VirtualClock
from tests.scripted import call
from tests.seams import check_of_model, make_engine

# Pictures of this size are asked about and sent, so that what is measured is of the run's own size.
SETTINGS = {"turn_delay": 0, "screen_capture_w": 1280, "screen_capture_h": 720}
SMALL = {"screen_capture_w": 640, "screen_capture_h": 360}
# Answers of both axes that are off in turn, by as much as a small model's are.
NOISE = (30, 30, -25, -25, -30, -30, 25, 25, 28, 28, -27, -27)


COLOURS = {"red": 0xE02020, "green": 0x20A040, "blue": 0x2040E0, "orange": 0xF09010}


@functools.cache
def squares(image: str) -> dict[str, tuple[float, float]]:
    """Where on the grid the middles of the coloured squares of a picture are."""
    rgb, width, height = agent.png_to_rgb(base64.b64decode(image.partition(",")[2]))
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
        request = json.loads(body)
        self.requests += 1
        place = asked_place(request)
        said = []
        for axis in place:
            said.append(round(500 + self.scale * (axis - 500) + self.shift) + next(self.noise))
        message = {"role": "assistant", "content": self.form(*said) if place else "Pressed."}
        return agent.Reply(message, "stop", agent.Usage(100, 10, None), "qwen", 0.1, 1)

    def form(self, x: int, y: int) -> str:
        """How it names a place."""
        return f"[{x}, {y}]"


def config_of(root: Path, **settings: Any) -> agent.Config:
    return agent.load_config({"test": {**SETTINGS, "dump_dir": str(root), **settings}})


def measured(root: Path, server: Any, model: str = "qwen", build: str = "", **settings: Any) -> str:
    """What --check finds of the server's model, which is kept in that folder."""
    server.info = agent.ModelInfo(model, build=build)
    return check_of_model(config_of(root, **settings), "planner", server)["calibration"]


class Found(NamedTuple):
    """What a run corrects, and what it tells the person about that."""

    correction: Any
    text: str


def corrected(
    root: Path, model: str = "qwen", build: str = "", where: str = "", **settings: Any
) -> Found:
    """What a run makes of what is kept in that folder."""
    told: list[str] = []
    server: Any = Swollen(1, where=where or Swollen(1).where)
    config = agent.at_size_of(agent.DemoDesktop(VirtualClock()), config_of(root, **settings))
    asked = agent.Asked(config, agent.ModelInfo(model, build=build), server)
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
        (path,) = Path(folder).iterdir()
        return path.name


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "dumps"


class Lines(unittest.TestCase):
    def test_a_swollen_picture_is_found_and_undone(self) -> None:
        correction = correction_by(1.0206)
        self.assertEqual(correction.place(agent.Coordinate(990, 50)), agent.Coordinate(980, 59))
        self.assertEqual(correction.place(agent.Coordinate(500, 500)), agent.Coordinate(500, 500))

    def test_what_may_be_chance_is_left_alone(self) -> None:
        self.assertFalse(corrects(correction_by(1.004, noise=NOISE)))

    def test_a_shift_is_undone_before_the_scale(self) -> None:
        place = correction_by(0.94, shift=60).place(agent.Coordinate(184, 936))
        self.assertLessEqual(abs(place.x - 100) + abs(place.y - 900), 2)

    def test_a_neighbour_that_was_taken_instead_does_not_bend_the_line(self) -> None:
        wrong = correction_by(1.0, shift=6, noise=(0,) * 4 + (-380,) + (0,) * 40)
        for place in (100, 500, 900):
            meant = agent.Coordinate(place, place)
            self.assertEqual(wrong.place(agent.Coordinate(place + 6, place + 6)), meant)

    def test_clicks_with_noise_and_no_fault_are_hardly_ever_corrected(self) -> None:
        dice = random.Random(1)
        noises = [tuple(round(dice.gauss(0, 10)) for _ in range(24)) for _ in range(30)]
        wrong = [noise for noise in noises if corrects(correction_by(1.0, noise=noise))]
        self.assertLess(len(wrong), 3)

    def test_one_wild_answer_changes_nothing(self) -> None:
        for wild in (-300, 300, 500):
            noise = (0,) * 6 + (wild,) + (0,) * 40
            place = correction_by(0.96, noise=noise).place(agent.Coordinate(39, 961))
            self.assertLessEqual(abs(place.x - 20) + abs(place.y - 980), 2, wild)

    def test_beyond_eight_per_cent_nothing_is_corrected(self) -> None:
        self.assertTrue(corrects(correction_by(0.93)))
        for how in ({"scale": 0.91}, {"scale": 1.0, "shift": 90}):
            with self.assertRaisesRegex(agent.ConfigError, "measured with --check"):
                correction_by(**how)

    def test_wilson_intervals_are_those_of_the_tables(self) -> None:
        share = figures.Share(8, 10)
        self.assertEqual((round(share.low, 3), round(share.high, 3)), (0.490, 0.943))
        self.assertEqual(str(figures.Share(0, 0)), "not measured")


class Kept(Folder):
    def test_it_comes_back_as_it_was_kept_and_replaces_the_older_one(self) -> None:
        measured(self.root, Swollen(0.95))
        measured(self.root, Swollen(0.96), model="other")
        measured(self.root, Swollen(1.05))
        far = agent.Coordinate(900, 100)
        self.assertEqual(corrected(self.root).correction.place(far).x, 881)
        self.assertEqual(corrected(self.root, "other").correction.place(far).x, 917)
        self.assertEqual(len(kept(self.root)), 2)
        self.assertIn(file_name(), [path.name for path in self.root.iterdir()])

    def test_a_damaged_file_is_ignored_with_one_sentence(self) -> None:
        measured(self.root, Swollen(0.95))
        (whole,) = kept(self.root)
        for text in (
            "{",
            "[" * 9000,
            json.dumps({**whole, "x": {**whole["x"], "shift": "-"}}),
            json.dumps({**whole, "x": {**whole["x"], "shift_error": -1}}),
            json.dumps({**whole, "y": None}),
            json.dumps([whole]),
            json.dumps(whole)[:-9],
        ):
            (self.root / file_name()).write_text(text)
            found = corrected(self.root)
            self.assertFalse(corrects(found.correction), text[:40])
            self.assertRegex(found.text, r"^[^\n]*--check measures anew$")

    def test_another_version_of_the_server_is_noticed(self) -> None:
        measured(self.root, Swollen(1.03), build="b1")
        same = corrected(self.root, build="b1")
        self.assertIn("Places are corrected", same.text)
        self.assertTrue(corrects(same.correction))
        newer = corrected(self.root, build="b2")
        self.assertFalse(corrects(newer.correction))
        self.assertIn("another version", newer.text)

    def test_a_run_whose_model_points_too_far_off_is_refused_with_the_cause(self) -> None:
        measured(self.root, Swollen(0.8))
        with self.assertRaisesRegex(agent.ConfigError, "scale 0.80.*calibration=off"):
            corrected(self.root)

    def test_a_model_that_always_says_the_same_place_is_refused_and_spoils_no_other_entry(
        self,
    ) -> None:
        measured(self.root, Swollen(1.03), model="other")
        measured(self.root, Swollen(0.0))
        with self.assertRaisesRegex(agent.ConfigError, "scale 0.00"):
            corrected(self.root)
        self.assertTrue(corrects(corrected(self.root, "other").correction))

    def test_programs_that_write_at_once_leave_a_whole_file(self) -> None:
        program = """
import sys
from pathlib import Path
from tests.test_calibration import Swollen, measured
root = Path(sys.argv[1])
for n in range(4):
    measured(root, Swollen(1.03), f"{sys.argv[2]} {n}", screen_capture_w=320, screen_capture_h=180)
"""
        home = Path(agent.__file__).parent
        both = []
        for name in ("one", "two"):
            command = [sys.executable, "-c", program, str(self.root), name]
            both.append(subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE))
        for process in both:
            output, _ = process.communicate(timeout=120)
            self.assertEqual((process.returncode, output), (0, b""))
        self.assertEqual(len(kept(self.root)), 8)


# How models of these grammars click a place of their own space.
SAID = {
    "qwen3-vl": 'Action: Click.\n<tool_call>\n{"name": "computer_use", "arguments":'
    ' {"action": "left_click", "coordinate": [%d, %d]}}\n</tool_call>',
    "ui-tars-1.5": "Thought: Click.\nAction: click(start_box='(%d,%d)')",
}


class Clicking(Swollen):
    """A model that clicks the squares that it is asked for, in its grammar."""

    def form(self, x: int, y: int) -> str:
        if self.info.name.startswith("ui-tars"):  # pixels of the picture as it sees it
            x, y = round(x * 1288 / 1000), round(y * 728 / 1000)
        return SAID[self.info.name] % (x, y)


class Grammars(Folder):
    def test_a_model_clicks_the_squares_in_its_own_grammar_and_that_is_kept_for_it(self) -> None:
        for grammar in SAID:
            with self.subTest(grammar):
                model = Clicking(0.98, model=grammar)
                found = check_of_model(config_of(self.root), "native", model)
                self.assertIn("corrected from now on: across scale 0.98", found["calibration"])
                self.assertEqual(model.requests, 13)  # the last one is a key
                self.assertIn(
                    f", {grammar}", [one["of"][-len(grammar) - 2 :] for one in kept(self.root)]
                )


class Clicks(Folder):
    """From --check to the click: a small button of the demo is hit or missed."""

    def engine(self, correction: Any, scale: float) -> tuple[Any, agent.DemoDesktop]:
        """A run on the demo's desktop with a model of that fault, and that correction."""
        config, clock = config_of(self.root), VirtualClock()
        desktop = agent.DemoDesktop(clock)
        actuator = agent.Actuator(
            desktop, config, clock, agent.Stop(), print, lambda question: True, agent.Secrets()
        )
        logger = agent.ExecutionLogger(config)
        self.addCleanup(logger.close)
        engine = make_engine(
            config,
            agent.PROFILES["planner"],
            desktop,
            actuator,
            Swollen(scale),  # type: ignore[arg-type]
            logger,
            clock,
            agent.ModelInfo("qwen"),
            print,
        )
        engine.correction = correction
        return engine, desktop

    def clicked(self, correction: Any, scale: float) -> bool:
        """Whether a model of that fault hits the Start button near its corner."""
        engine, desktop = self.engine(correction, scale)
        icon = agent.Rect(10, 677, 38, 38)  # at the left lower corner
        true = agent.Point(icon.left + 34, icon.top + 33)
        said = []
        for place, size in ((true.x, 1279), (true.y, 719)):
            said.append(round(500 + scale * (place * 1000 / size - 500)))
        words = engine.profile.vocabulary
        message = call(
            words.tools["click"], element_name="Blue square", position=said, reasoning="x"
        )
        act = agent.read_call(message, "tool_calls", words)
        deed = engine.perform(act, engine.eyes.look())
        self.assertFalse(deed.refused, deed.result)
        return icon.contains(desktop.cursor())

    def test_a_shifted_model_misses_without_and_hits_with_its_calibration(self) -> None:
        unknown = corrected(self.root).correction
        found = measured(self.root, Swollen(0.96))
        self.assertRegex(found, r"corrected from now on: across scale 0\.9[56]")
        self.assertFalse(self.clicked(unknown, 0.96))
        self.assertTrue(self.clicked(corrected(self.root).correction, 0.96))

    def test_a_run_finds_what_was_measured_for_pictures_of_its_own_screen(self) -> None:
        engine, _ = self.engine(None, 1)
        own = {"screen_capture_w": 0, "screen_capture_h": 0}
        engine.eyes.config = replace(engine.eyes.config, **own)
        look = engine.eyes.look()
        measured(self.root, Swollen(0.96), screen_capture_w=800, screen_capture_h=450)
        self.assertFalse(corrects(corrected(self.root, **own).correction))
        size = {"screen_capture_w": look.frame.width, "screen_capture_h": look.frame.height}
        measured(self.root, Swollen(0.96), **size)
        self.assertTrue(corrects(corrected(self.root, **own).correction))
        self.assertFalse(corrects(corrected(self.root, calibration=False, **own).correction))

    def test_a_true_model_is_not_corrected(self) -> None:
        self.assertIn("0-1000 grid: across scale 1.000", measured(self.root, Swollen(1.0)))
        found = corrected(self.root)
        self.assertEqual((corrects(found.correction), found.text), (False, ""))

    def test_a_correction_that_is_switched_off_says_so(self) -> None:
        text = measured(self.root, Swollen(1.02), calibration=False)
        self.assertIn("not corrected", text)

    def test_a_place_that_means_one_outside_the_screen_is_refused(self) -> None:
        with self.assertRaisesRegex(agent.ToolError, "outside the grid"):
            correction_by(0.95).place(agent.Coordinate(990, 500))


if __name__ == "__main__":
    unittest.main()
