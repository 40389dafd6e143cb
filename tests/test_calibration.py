"""A model that points beside what it means is measured, and clicks right from then on."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent
from tests.fakes import VirtualClock
from tests.scripted import call

KEY = agent.CalibrationKey("http://127.0.0.1:1234", "qwen", "1536x864", "tools")
PLACES = [20, 340, 660, 980] * 3


def fit(scale: float = 1.0, shift: float = 0.0, noise: tuple[int, ...] = (0,)) -> agent.AxisFit:
    pairs = []
    for number, truth in enumerate(PLACES):
        answer = round(500 + scale * (truth - 500) + shift) + noise[number % len(noise)]
        pairs.append(agent.Pair(truth, answer))
    found = agent.fit_axis(pairs)
    assert found
    return found


def measured(x: agent.AxisFit, y: agent.AxisFit | None = None) -> agent.Calibration:
    return agent.Calibration(KEY, "b1", "2026-11-22", x, y or fit())


class Lines(unittest.TestCase):
    def test_a_swollen_picture_is_found_and_undone(self) -> None:
        found = fit(1.0106)
        self.assertLess(abs(found.scale - 1.0106), found.scale_error)
        correction = measured(found).correction
        self.assertEqual(correction.place(agent.Coordinate(985, 40)).x, 980)
        self.assertEqual(correction.place(agent.Coordinate(985, 40)).y, 40)

    def test_what_may_be_chance_is_left_alone(self) -> None:
        found = fit(1.004, noise=(30, -25, -30, 25, 28, -27))
        self.assertGreater(found.scale_error, 0.004)
        self.assertEqual(measured(found).correction, agent.NO_CORRECTION)

    def test_a_neighbour_that_was_taken_instead_does_not_bend_the_line(self) -> None:
        pairs = [agent.Pair(truth, truth + 6) for truth in PLACES]
        pairs[3] = agent.Pair(980, 600)
        found = agent.fit_axis(pairs)
        assert found
        self.assertEqual((round(found.scale, 3), round(found.shift, 1)), (1.0, 6.0))

    def test_too_few_answers_are_no_line(self) -> None:
        self.assertIsNone(agent.fit_axis([agent.Pair(place, place) for place in (1, 500, 900)]))

    def test_beyond_eight_per_cent_nothing_is_corrected(self) -> None:
        self.assertTrue(measured(fit(0.93)).usable)
        self.assertFalse(measured(fit(0.91)).usable)
        self.assertFalse(measured(fit(1.0, 90)).usable)

    def test_wilson_intervals_are_those_of_the_tables(self) -> None:
        share = agent.Share(8, 10)
        self.assertEqual((round(share.low, 3), round(share.high, 3)), (0.490, 0.943))
        self.assertEqual(str(agent.Share(0, 0)), "not measured")

    def test_student_is_that_of_the_tables(self) -> None:
        for freedom, value in ((4, 4.604), (10, 3.169), (30, 2.750)):
            self.assertAlmostEqual(agent.student_99(freedom), value, delta=0.02 * value)


class Kept(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "dumps"
        self.said: list[str] = []
        self.book = agent.CalibrationBook(self.root, self.said.append)

    def test_it_comes_back_as_it_was_kept_and_replaces_the_older_one(self) -> None:
        self.book.keep(measured(fit(0.99)))
        other = replace(measured(fit(1.02)), key=KEY._replace(model="other"))
        self.book.keep(other)
        self.book.keep(measured(fit(1.0106)))
        self.assertEqual(self.book.of(KEY), measured(fit(1.0106)))
        self.assertEqual(self.book.of(other.key), other)
        self.assertEqual([path.name for path in self.root.iterdir()], ["calibration.json"])

    def test_a_damaged_file_is_ignored_with_one_sentence(self) -> None:
        self.root.mkdir()
        whole = agent.calibration_to_json(measured(fit(1.01)))
        for text in (
            "{",
            "[" * 9000,
            json.dumps({"calibrations": [{**whole, "x": {**whole["x"], "scatter": -1}}]}),
            json.dumps({"calibrations": [{**whole, "model": 5}]}),
            json.dumps({"calibrations": [{**whole, "y": None}]}),
            json.dumps({"calibrations": [whole]})[:-9],
        ):
            self.said.clear()
            self.book.path.write_text(text)
            self.assertIsNone(self.book.of(KEY), text[:40])
            self.assertEqual(len(self.said), 1, text[:40])
            self.assertIn("--check measures anew", self.said[0])

    def test_another_version_of_the_server_is_noticed(self) -> None:
        self.book.keep(measured(fit(1.0106)))
        same = agent.correction_for(self.book, KEY, "b1")
        self.assertIn("Places are corrected", same.text)
        self.assertAlmostEqual(same.correction.x.scale, 1.0106, delta=0.002)
        newer = agent.correction_for(self.book, KEY, "b2")
        self.assertEqual(newer.correction, agent.NO_CORRECTION)
        self.assertIn("now b2", newer.text)

    def test_a_run_whose_model_points_too_far_off_is_refused_with_the_cause(self) -> None:
        self.book.keep(measured(fit(0.8)))
        with self.assertRaisesRegex(agent.ConfigError, "scale 0.80.*calibration=off"):
            agent.correction_for(self.book, KEY, "b1")

    def test_a_model_that_always_says_the_same_place_is_refused_and_spoils_no_other_entry(
        self,
    ) -> None:
        other = replace(measured(fit(1.02)), key=KEY._replace(model="other"))
        self.book.keep(other)
        self.book.keep(measured(fit(0.0), fit(0.0)))
        with self.assertRaisesRegex(agent.ConfigError, "scale 0.00"):
            agent.correction_for(self.book, KEY, "b1")
        self.assertEqual((self.book.of(other.key), self.said), (other, []))

    def test_programs_that_write_at_once_leave_a_whole_file(self) -> None:
        program = """
import sys, agent
from pathlib import Path
from tests.test_calibration import KEY, fit, measured
from dataclasses import replace
book = agent.CalibrationBook(Path(sys.argv[1]), print)
for n in range(8):
    book.keep(replace(measured(fit(1.01)), key=KEY._replace(model=f"{sys.argv[2]} {n}")))
    assert book.entries()
"""
        home = Path(agent.__file__).parent
        both = []
        for name in ("one", "two"):
            command = [sys.executable, "-c", program, str(self.root), name]
            both.append(subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE))
        for process in both:
            output, _ = process.communicate(timeout=120)
            self.assertEqual((process.returncode, output), (0, b""))
        self.assertGreaterEqual(len(self.book.entries()), 8)
        self.assertEqual([path.name for path in self.root.iterdir()], ["calibration.json"])


class Swollen:
    """A server whose model sees every place farther from the middle than it is."""

    where = "http://127.0.0.1:1234"

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def complete(self, body: bytes) -> agent.Reply:
        request = json.loads(body)
        image = request["messages"][1]["content"][0]["image_url"]["url"]
        rgb, width, height = agent.png_to_rgb(agent.base64.b64decode(image.partition(",")[2]))
        said = {}
        for name, colour in agent.MARK_COLOURS.items():
            packed = colour.to_bytes(3, "big") * 2
            first, last = -(-rgb.find(packed) // 3), rgb.rfind(packed) // 3 + 1
            x = (first % width + last % width) / 2 * 1000 / (width - 1)
            y = (first // width + last // width) / 2 * 1000 / (height - 1)
            said[name] = [round(500 + self.scale * (place - 500)) for place in (x, y)]
        message = {"role": "assistant", "content": json.dumps(said)}
        return agent.Reply(message, "stop", agent.Usage(100, 10, None), "qwen", 0.1, 1)


class Clicks(unittest.TestCase):
    """From --check to the click: the small check box of the demo's settings is hit or missed."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.config = agent.load_config({"test": {"dump_dir": folder.name, "turn_delay": 0}})
        self.info = agent.ModelInfo("qwen")

    def check(self, scale: float) -> agent.Finding:
        server: Any = Swollen(scale)
        *_, finding = agent.check_calibration(self.config, self.info, server)
        return finding

    def clicked(self, correction: agent.Correction, scale: float) -> bool:
        """Whether a model of that fault ticks the check box, which is 14 pixels wide."""
        clock = VirtualClock()
        desktop = agent.DemoDesktop(clock, agent.DemoState(more_programs=True, program="Contacts"))
        actuator = agent.Actuator(
            desktop, self.config, clock, agent.Stop(), print, lambda question: True, agent.Secrets()
        )
        logger = agent.ExecutionLogger(self.config.dump_dir)
        self.addCleanup(logger.close)
        engine = agent.make_engine(
            self.config,
            agent.PROFILES["planner"],
            desktop,
            actuator,
            Swollen(scale),  # type: ignore[arg-type]
            logger,
            clock,
            self.info,
            print,
        )
        engine.correction = correction
        icon = agent.Rect(106, 677, 38, 38)  # the pin of Contacts, at the left lower corner
        true = agent.Point(icon.left + 34, icon.top + 33)
        said = []
        for place, size in ((true.x, 1279), (true.y, 719)):
            said.append(round(500 + scale * (place * 1000 / size - 500)))
        words = engine.profile.vocabulary
        message = call(words.tools["click"], element_name="Contacts", position=said, reasoning="x")
        tools = engine.profile.schemas(engine.executor)
        act = words.parse(agent.read_call(message, "tool_calls", tools))
        deed = engine.perform(act, engine.eyes.look(1), 1)
        self.assertFalse(deed.refused, deed.result)
        return icon.contains(desktop.cursor())

    def test_a_shifted_model_misses_without_and_hits_with_its_calibration(self) -> None:
        finding = self.check(0.96)
        self.assertTrue(finding.fine)
        self.assertIn("corrected from now on: scale 0.96", finding.text)
        book = agent.CalibrationBook(Path(self.config.dump_dir))
        key = agent.calibration_key(self.config, self.info, Swollen.where)
        found = agent.correction_for(book, key, "")
        self.assertFalse(self.clicked(agent.NO_CORRECTION, 0.96))
        self.assertTrue(self.clicked(found.correction, 0.96))

    def test_a_run_finds_what_was_measured_for_pictures_of_its_own_screen(self) -> None:
        desktop = agent.DemoDesktop(VirtualClock())
        server: Any = Swollen(0.96)
        self.check(0.96)
        found = agent.correction_of_run(
            self.config, agent.PROFILES["planner"], desktop, self.info, server
        )
        self.assertEqual(found.correction, agent.NO_CORRECTION, "measured at another size")
        self.config = agent.at_size_of(desktop, self.config)
        self.check(0.96)
        plain = replace(self.config, screen_capture_w=0, screen_capture_h=0)
        for config, corrected in ((plain, True), (replace(plain, calibration=False), False)):
            found = agent.correction_of_run(
                config, agent.PROFILES["planner"], desktop, self.info, server
            )
            self.assertEqual(found.correction != agent.NO_CORRECTION, corrected)

    def test_a_true_model_is_not_corrected(self) -> None:
        self.assertIn("0-1000 grid, scale 1.00 x 1.00", self.check(1.0).text)
        book = agent.CalibrationBook(Path(self.config.dump_dir))
        key = agent.calibration_key(self.config, self.info, Swollen.where)
        self.assertEqual(
            agent.correction_for(book, key, ""), agent.Corrected(agent.NO_CORRECTION, "")
        )

    def test_a_correction_that_is_switched_off_says_so(self) -> None:
        self.config = replace(self.config, calibration=False)
        self.assertIn("not corrected", self.check(1.02).text)

    def test_a_place_that_means_one_outside_the_screen_is_refused(self) -> None:
        correction = measured(fit(0.95)).correction
        with self.assertRaisesRegex(agent.ToolError, "outside the grid"):
            correction.place(agent.Coordinate(990, 500))


if __name__ == "__main__":
    unittest.main()
