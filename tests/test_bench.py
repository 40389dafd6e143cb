"""The bench: what it asks, that it gives known faults back, and that nothing of it is lost or believed too early."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests import bench_faults
from tests.bench import asking, figures, keeping, leaflet, measuring, targets
from tests.bench_faults import WHOLE, Faulty, measured
from tests.fakes import VirtualClock
from tests.samples import sample
from tests.scripted import ScriptedServer, text

PLAN = asking.BenchPlan(8, 3, 4, 3)
CASE = agent.Config(lmstudio_model="tiny")
SIZE = {"screen_capture_w": 512, "screen_capture_h": 288}  # of the drawn desktop; larger is slower


def page_of(result: figures.BenchResult, lines: list[asking.BenchLine]) -> str:
    return leaflet.bench_page(result, lines, figures.bench_advice(result))


class Faults(unittest.TestCase):
    def test_known_faults_are_given_back_within_their_intervals(self) -> None:
        runs = sample(20, 1)
        for name, found in bench_faults.counts(runs):
            self.assertGreaterEqual(found, 0.75 * runs, name)

    def test_a_perfect_model_is_told_nothing_but_praise(self) -> None:
        result = measured(Faulty(1, noise=0.0))
        self.assertEqual(result.shares["targets hit"], figures.Share(60, 60))
        self.assertEqual(result.shares["texts read exactly"], figures.Share(20, 20))
        self.assertEqual(result.shares["false YES"], figures.Share(0, 20))
        self.assertEqual(figures.bench_advice(result), [])

    def test_what_a_model_cannot_press_and_cannot_judge_is_said_in_words(self) -> None:
        result = measured(Faulty(2, hits={8: 0.0, 12: 0.0, 16: 0.0}, false_yes=0.6))
        told = " ".join(advice.text for advice in figures.bench_advice(result))
        self.assertIn("cannot press things of 16 pixels", told)
        self.assertIn("says YES to unfinished screens", told)

    def test_few_answers_give_no_verdict(self) -> None:
        result = measured(Faulty(3, false_yes=1.0), asking.BenchPlan(3, 1, 3, 2))
        (only,) = figures.bench_advice(result)
        self.assertIn("Too few answers", only.text)

    def test_a_shifted_model_is_advised_its_calibration_as_a_setting(self) -> None:
        result = measured(Faulty(4, scale=0.98))
        result.about["model"] = "tiny"
        settings = leaflet.bench_settings(result, figures.bench_advice(result))
        self.assertEqual((settings["lmstudio_model"], settings["calibration"]), ("tiny", True))
        agent.load_config({"bench": settings})

    def test_what_a_swollen_picture_costs_of_small_targets_its_calibration_gives_back(self) -> None:
        model = Faulty(6, scale=1.0106, noise=0.0)
        bench = asking.Bench(model, WHOLE, "tools", draws=False)
        items = targets.pointing_items(6, 60, WHOLE)
        lines = [bench.measure(item) for item in items]
        result = figures.bench_result({}, lines)
        assert result.x and result.y
        correction = agent.Correction(result.x, result.y).certain()
        missed = corrected = 0
        for item, line in zip(items, lines, strict=True):
            meant = correction.place(agent.Coordinate(int(line.x), int(line.y)))
            missed += not line.right
            corrected += item.target.contains(agent.to_point(meant, WHOLE))
        self.assertGreaterEqual(missed, 5)
        self.assertEqual(corrected, 60)

    def test_a_model_whose_places_mean_nothing_is_not_said_to_be_corrected(self) -> None:
        result = measured(Faulty(4, scale=0.5))
        (told,) = [item for item in figures.bench_advice(result) if "refused" in item.text]
        self.assertEqual(told.settings, {})

    def test_prose_is_counted_with_the_corrections_that_it_needed(self) -> None:
        result = measured(Faulty(5, prose=1.0))
        self.assertEqual(result.shares["calls usable at once, tools"].hits, 0)
        self.assertEqual(result.numbers["corrections a call, text"], 3.0)
        self.assertGreater(result.errors["no_call"], 60)


class Items(unittest.TestCase):
    def test_targets_are_of_their_size_inside_the_picture_and_apart(self) -> None:
        for whole in (WHOLE, agent.Rect(0, 0, 640, 360)):
            for item in targets.pointing_items(7, 60, whole):
                for number, place in enumerate([item.target, *item.neighbours]):
                    self.assertEqual(place.height, item.size)
                    self.assertEqual(place.intersection(whole), place, item)
                    for other in item.neighbours[number:]:
                        self.assertFalse(place.overlaps(other), item)

    def test_the_same_seed_asks_the_same(self) -> None:
        one = asking.bench_items(asking.BENCH_QUICK, 5, WHOLE)
        self.assertEqual(one, asking.bench_items(asking.BENCH_QUICK, 5, WHOLE))
        self.assertNotEqual(one, asking.bench_items(asking.BENCH_QUICK, 6, WHOLE))
        self.assertEqual(len({item.name for item in one}), len(one))

    def test_quick_is_under_five_minutes_at_five_seconds_a_request(self) -> None:
        corrected = (
            len(targets.calling_items(asking.BENCH_QUICK.calling)) * asking.BENCH_CORRECTIONS
        )
        requests = len(asking.bench_items(asking.BENCH_QUICK, 1, WHOLE)) + corrected
        self.assertLess(requests * 5, 300, "even where every call has to be corrected")

    def test_a_picture_shows_the_colours_of_its_target_where_it_is(self) -> None:
        item = next(item for item in targets.pointing_items(1, 30, WHOLE) if item.kind == "button")
        assert item.scene
        png = agent.base64.b64decode(targets.bench_picture(item.scene, WHOLE))
        rgb, width, _ = agent.png_to_rgb(png)
        place = item.target
        at = ((place.top + 1) * width + place.right - 6) * 3
        self.assertEqual(rgb[at : at + 3], item.scene.theme.accent.to_bytes(3, "big"))

    def test_finished_and_unfinished_screens_differ(self) -> None:
        for yes, no in zip(*[iter(targets.judging_items(1, sample(6, 2)))] * 2, strict=True):
            assert yes.scene and no.scene
            self.assertEqual(yes.question, no.question)
            self.assertNotEqual(
                targets.bench_picture(yes.scene, WHOLE), targets.bench_picture(no.scene, WHOLE)
            )


class Journals(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.items = asking.bench_items(PLAN, 1, WHOLE)
        self.said: list[str] = []

    def lines(self, model: Any, about: dict[str, Any]) -> list[asking.BenchLine]:
        bench = asking.Bench(model, WHOLE, "tools", draws=False)
        folder = keeping.bench_folder(self.root, about)
        return list(keeping.run_bench(bench, self.items, folder, self.said.append))

    def test_killed_at_any_byte_it_goes_on_and_asks_nothing_twice(self) -> None:
        about = {"model": "tiny"}
        whole = self.lines(Faulty(1), about)
        journal = self.root / "bench_0001" / "bench.jsonl"
        data = journal.read_bytes()
        ends = [match.end() for match in re.finditer(b"\n", data)]
        for cut in (ends[0], ends[0] + 7, ends[5] - 1, ends[5], len(data) - 1):
            journal.write_bytes(data[:cut])
            model = Faulty(1)
            again = self.lines(model, about)
            self.assertEqual({line.name for line in again}, {line.name for line in whole})
            known = sum(end <= cut for end in ends) - 1
            self.assertEqual(model.asked, len(self.items) - known)
            self.assertEqual(len(journal.read_bytes().splitlines()), len(whole) + 1)
            after = Faulty(1)
            self.lines(after, about)
            self.assertEqual(after.asked, 0, "a torn line has spoilt the next one")

    def test_what_was_measured_before_a_stop_is_kept(self) -> None:
        model = Faulty(1)

        def stops(*asked: Any) -> agent.Reply:
            if model.asked == 5:
                raise agent.Stopped("Stopped: Ctrl+C.")
            return model(*asked)

        with self.assertRaises(agent.Stopped):
            self.lines(stops, {})
        self.lines(model, {})
        self.assertEqual(model.asked, len(self.items))
        self.assertIn(f"{len(self.items) - 5} requests left", "".join(self.said))

    def test_a_task_counts_as_the_requests_that_it_takes_in_the_time_that_is_left(self) -> None:
        items = [*targets.task_items(["planner"], 2), *targets.cost_items()]
        self.assertEqual(keeping.requests_of(items), 6 * asking.BENCH_TASK_REQUESTS + 1)
        told = keeping.progress_of_bench(items[0], 91, [2.0, 4.0, 3.0])
        self.assertIn("91 requests left, about 5 min", told)

    def test_another_model_begins_a_folder_of_its_own(self) -> None:
        self.lines(Faulty(1), {"model": "one"})
        self.lines(Faulty(1), {"model": "two"})
        self.assertEqual(
            [path.name for path in keeping.bench_folders(self.root)], ["bench_0002", "bench_0001"]
        )

    def test_a_folder_that_another_bench_makes_at_the_same_moment_is_left_to_it(self) -> None:
        (self.root / "bench_0001").mkdir()
        with mock.patch.object(keeping, "bench_folders", return_value=[]):
            folder = keeping.bench_folder(self.root, {"model": "tiny"})
        self.assertEqual(folder.name, "bench_0002")

    def test_an_unfinished_bench_is_gone_on_with_after_another_one_was_begun(self) -> None:
        for model in ("one", "two"):
            keeping.bench_folder(self.root, {"model": model})
        self.assertEqual(keeping.bench_folder(self.root, {"model": "one"}).name, "bench_0001")

    def test_lines_that_somebody_changed_are_asked_again(self) -> None:
        self.lines(Faulty(1), {})
        journal = self.root / "bench_0001" / "bench.jsonl"
        head, *rest = journal.read_bytes().splitlines(keepends=True)
        rest[0] = b'{"part": "pointing", "name": 5}\n'
        rest[1] = b'{"part": "elsewhere", "name": "pointing 2"}\n'
        rest[2] = b"\xff\n"
        journal.write_bytes(head + b"".join(rest))
        model = Faulty(1)
        self.lines(model, {})
        self.assertEqual(model.asked, 3)

    def test_a_server_that_refuses_a_request_has_answered_it_and_one_that_is_off_has_not(
        self,
    ) -> None:
        def blind(*_: Any) -> agent.Reply:
            raise agent.ModelError("It has no eyes.", "no_vision")

        lines = self.lines(blind, {"model": "blind"})
        self.assertEqual({line.error for line in lines}, {"server no_vision"})
        self.assertEqual(figures.bench_result({}, lines).shares["targets hit"], figures.Share(0, 8))

        def off(*_: Any) -> agent.Reply:
            raise agent.ModelError("It is off.", "refused")

        with self.assertRaises(agent.ModelError):
            self.lines(off, {"model": "off"})


class Server:
    """What measure_model needs of a ModelServer."""

    where = "http://127.0.0.1:1234"

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def discover(self) -> agent.ModelInfo:
        return agent.ModelInfo('<script>"tiny"</script>')

    def complete(self, body: bytes) -> agent.Reply:
        self.requests.append(json.loads(body))
        return agent.Reply(
            {"content": "I see a desktop."}, "stop", agent.Usage(2000, 9, 500), "tiny", 5.0, 1
        )


class Tasks(unittest.TestCase):
    """The demo's tasks with a whole loop, on the drawn desktop and its built-in model."""

    def played(self, decide: Any) -> asking.BenchLine:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        configs = {
            "chat": agent.load_config({"chat": agent.PROFILES["chat"].settings, "size": SIZE})
        }
        player = measuring.BenchPlayer(
            configs,
            ScriptedServer(decide),  # type: ignore[arg-type]
            agent.ModelInfo("tiny"),
            Path(folder.name),
            VirtualClock(),
            agent.Stop(),
            agent.make_engine,
        )
        (item, *_) = targets.task_items(["chat"])
        return player(item)

    def test_a_task_that_is_done_is_counted_with_its_turns(self) -> None:
        line = self.played(agent.demo_reply)
        self.assertEqual((line.right, line.claimed, line.turns > 3), (True, True, True), line.said)

    def test_a_completion_that_is_not_true_is_counted_as_one(self) -> None:
        line = self.played(lambda request: text("1 YES: all of it is done and saved."))
        self.assertEqual((line.right, line.claimed), (False, True), line.said)
        result = figures.bench_result({}, [line])
        self.assertEqual(result.shares["called completed wrongly, chat"], figures.Share(1, 1))
        self.assertEqual(result.shares["demo tasks done, chat"], figures.Share(0, 1))
        self.assertNotIn("requests", result.numbers)


class Whole(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        size = {"screen_capture_w": 320, "screen_capture_h": 240, "dump_dir": folder.name}
        self.config = agent.load_config({"test": size})
        self.said: list[str] = []
        self.tell = measuring.Telling(self.said.append, lambda text: None)

    def test_a_model_without_a_clue_ends_with_honest_zeros_and_every_file(self) -> None:
        server: Any = Server()
        self.assertEqual(
            measuring.measure_model(
                self.config, measuring.bench_order(["quick"]), server, self.tell
            ),
            0,
        )
        told = "\n".join(self.said)
        self.assertIn("about 4 min at 5 s each", self.said[0])
        self.assertRegex(told, r"targets hit +0 % \(0 to 15, n 21\)")
        self.assertIn("This model cannot point", told)
        folder = self.root / "bench_0001"
        page = (folder / "bench.html").read_text()
        self.assertNotIn("<script", page)
        self.assertIn("&lt;script&gt;", page)
        kept = json.loads((folder / "bench.json").read_text())
        self.assertEqual(kept["numbers"]["prompt tokens in all"], 2000.0 * 58)
        self.assertEqual(kept["numbers"]["prompt tokens computed"], 1500.0 * 58)
        agent.load_config(agent.file_layer(str(folder / "bench_settings.json")))
        images = [request for request in server.requests if "image_url" in json.dumps(request)]
        self.assertTrue(all("agent" not in request for request in images))

    def test_results_stand_side_by_side(self) -> None:
        server: Any = Server()
        measuring.measure_model(self.config, measuring.bench_order(["quick"]), server, self.tell)
        results = [
            leaflet.read_result(self.root, name) for name in ("1", str(self.root / "bench_0001"))
        ]
        rows = list(leaflet.compare_benches(results))
        row = next(row for row in rows if row.startswith("targets hit"))
        self.assertEqual(row.count("0 % (0 to 15, n 21)"), 2)
        for bad in ("", "[]", '{"rows": [[1], 2, ["a", {"b": "\\u001b[2J"}]], "about": 3}'):
            path = self.root / "bad.json"
            path.write_text(bad)
            try:
                self.assertNotIn(
                    "\x1b",
                    "".join(leaflet.compare_benches([leaflet.read_result(self.root, str(path))])),
                )
            except agent.ConfigError as error:
                self.assertIn("is no result of a bench", str(error))

    def test_a_word_that_it_does_not_know_is_refused(self) -> None:
        with self.assertRaisesRegex(agent.ConfigError, "not 'slow'"):
            measuring.bench_order(["slow"])

    def test_the_page_escapes_what_a_model_is_called_and_says(self) -> None:
        line = asking.BenchLine("pointing", "pointing 1", error='<img src="x">')
        page = page_of(figures.bench_result({"model": "<b>"}, [line]), [line])
        self.assertNotIn("<img", page)
        self.assertNotIn("<b>", page)

    def test_the_page_has_the_colours_of_the_report_and_a_bar_with_its_figure_for_each_size(
        self,
    ) -> None:
        bench = asking.Bench(Faulty(2, hits=bench_faults.FALLING), WHOLE, "tools", draws=False)
        lines = [bench.measure(item) for item in asking.bench_items(asking.BENCH_WHOLE, 2, WHOLE)]
        page = page_of(figures.bench_result({"model": "m", "size": "1536x864"}, lines), lines)
        self.assertIn("prefers-color-scheme: dark", page)
        self.assertEqual(page.count('class="bar"'), len(targets.BENCH_SIZES))
        for size in targets.BENCH_SIZES:
            self.assertRegex(page, rf'<text x="\d+" y="\d+">{size}</text>')
        self.assertEqual(page.count("<circle"), 60)
        self.assertIn("&quot;image_tokens&quot;: 2048", page)

    def test_a_line_survives_its_journal(self) -> None:
        bench = asking.Bench(Faulty(1), WHOLE, "tools", draws=False)
        for item in asking.bench_items(PLAN, 1, WHOLE):
            line = bench.measure(item)
            self.assertEqual(asking.bench_line_of(json.loads(json.dumps(asdict(line)))), line)


if __name__ == "__main__":
    unittest.main()
