"""The bench: what it asks, that it gives known faults back, and what it advises, and that nothing is lost or believed too early."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import random
import re
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent
from tests.bench import __main__ as bench
from tests.bench import asking, figures, keeping, scenes
from tests.fakes import VirtualClock
from tests.scripted import call, text

WHOLE = agent.Rect(0, 0, 1536, 864)
SMALL = agent.Rect(0, 0, 448, 252)  # of the pictures that are drawn here; larger ones are slower
PLAN = asking.Plan(8, 3, 4, 3)
SIZE = {"screen_capture_w": SMALL.width, "screen_capture_h": SMALL.height}
FALLING = {8: 0.1, 12: 0.3, 16: 0.5, 24: 0.7, 32: 0.85, 48: 0.95, 64: 1.0}


@functools.cache
def items_asked() -> list[asking.Item]:
    """Those of a whole bench; with another seed they look otherwise, which counts for nothing in its figures."""
    return asking.items_of(asking.WHOLE, 1, WHOLE, ["tools", "text"])


def simulated(
    seed: int,
    scale: float = 1.0,
    shift: float = 0.0,
    noise: float = 3.0,
    hits: dict[int, float] | None = None,
    false_yes: float = 0.0,
    prose: float = 0.0,
) -> figures.Result:
    """What the lines of a model come to that does right but for these faults."""
    dice, lines = random.Random(f"{seed} model"), []
    for item in items_asked():
        line = asking.Line(item.part, item.name, item.size, item.kind, expected=item.expected)
        error = "no_call" if item.part == "pointing" and dice.random() < prose else ""
        right = not error
        if item.part == "pointing":
            right = dice.random() < (hits or {}).get(item.size, 1.0)
            true = [dice.uniform(0, 1000) for _ in "xy"]
            x, y = (500 + scale * (at - 500) + shift + dice.gauss(0, noise) for at in true)
            line = replace(line, x=x, y=y, true_x=true[0], true_y=true[1])
        if item.part == "judging" and item.expected == "no":
            right = dice.random() >= false_yes
        lines.append(replace(line, right=right, error=error, requests=1, prompt=9, cached=5))
    return figures.result_of({"size": "1536x864"}, lines)


class Faults(unittest.TestCase):
    def test_known_rates_are_given_back_within_their_intervals(self) -> None:
        rates = {f"targets of {size} pixels hit": rate for size, rate in FALLING.items()}
        rates |= {"false YES": 0.3, "pointing without a usable first reply": 0.1}
        hit = [simulated(seed, hits=FALLING, false_yes=0.3) for seed in range(20)]
        vague = [simulated(seed, prose=0.1) for seed in range(20)]
        for name, rate in rates.items():  # in nearly all of many benches
            results = vague if name.startswith("pointing") else hit
            shares = [result.shares[name] for result in results]
            held = sum(share.low <= rate <= share.high for share in shares)
            self.assertGreaterEqual(held, 17, f"{name} {[str(share) for share in shares]}")

    def test_a_swollen_or_shifted_grid_is_measured_and_left_to_the_check(self) -> None:
        for scale, shift in ((1.02, 0.0), (0.97, 0.0), (1.0, 9.0)):
            result = simulated(1, scale=scale, shift=shift)
            self.assertAlmostEqual(result.numbers["scale along x"], scale, delta=0.005)
            self.assertAlmostEqual(result.numbers["grid units off along y"], shift, delta=3)
            told = " ".join(advice.text for advice in figures.advice_of(result))
            self.assertIn("agent.py --check", told)

    def test_a_perfect_model_is_told_nothing(self) -> None:
        result = simulated(1, noise=0.0)
        self.assertEqual(result.shares["targets hit"], figures.Share(60, 60))
        self.assertEqual(result.shares["false YES"], figures.Share(0, 20))
        self.assertEqual(figures.advice_of(result), [])
        share = figures.Share(8, 10)
        self.assertEqual((round(share.low, 3), round(share.high, 3)), (0.490, 0.943))  # in tables
        self.assertEqual(str(figures.Share(0, 0)), "not measured")


class Scenes(unittest.TestCase):
    def test_targets_are_of_their_size_inside_the_picture_and_apart(self) -> None:
        for whole in (WHOLE, agent.Rect(0, 0, 640, 360)):
            for item in scenes.pointing(7, 60, whole):
                places = [thing.place for thing in item.things]
                self.assertEqual(places[0].height, item.size)
                for number, place in enumerate(places):
                    self.assertEqual(place.intersection(whole), place, item)
                    for other in places[number + 1 :]:
                        self.assertFalse(place.overlaps(other), item)

    def test_the_same_seed_asks_the_same(self) -> None:
        one, again, other = (
            asking.items_of(asking.QUICK, seed, WHOLE, ["tools", "text"]) for seed in (5, 5, 6)
        )
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)
        self.assertEqual(len({item.name for item in one}), len(one))

    def test_quick_is_under_five_minutes_at_five_seconds_a_request(self) -> None:
        items = asking.items_of(asking.QUICK, 1, WHOLE, ["tools", "text"])
        corrected = 2 * sum(item.part == "calling" for item in items)
        requests = keeping.requests_of(items) + corrected
        self.assertLess(requests * asking.SECONDS, 300, "even where every call is corrected")


# How a model of this grammar answers, in whose space places are 0 to 1000.
NATIVE = 'Action: Do it.\n<tool_call>\n{"name": "computer_use", "arguments": %s}\n</tool_call>'


class Server:
    """A model that does right in its grammar, or whatever it is told; it knows what it is asked."""

    where = "http://127.0.0.1:1234"

    def __init__(self, grammar: str = "tools", decide: Any = None, name: str = "tiny") -> None:
        self.grammar, self.decide, self.name = grammar, decide, name
        self.requests: list[dict[str, Any]] = []
        self.item = scenes.Item("", "", "")
        self.size = (0, 0)  # of the last picture

    def discover(self) -> agent.ModelInfo:
        return agent.ModelInfo(self.name, True, True, 8192)

    def complete(self, body: bytes) -> agent.Reply:
        request = json.loads(body)
        self.requests.append(request)
        usage = agent.Usage(200, 9, 100)
        if "image_url" in json.dumps(request):
            self.size, usage = picture_size(request), agent.Usage(1500, 9, 100)
        message = self.decide(request) if self.decide else self.right(request)
        return agent.Reply(message, "stop", usage, self.name, 5.0, 1)

    def right(self, request: dict[str, Any]) -> dict[str, Any]:
        item = self.item
        if item.part == "judging":
            return text(f"1 {item.expected.upper()}: as seen")
        own = item.kind or self.grammar
        if self.grammar not in ("tools", "text") and own != self.grammar:
            return text("I would do what I was asked for.")
        if item.part == "pointing":
            return self.said(own, "click", self.place())
        if item.expected == "key":
            return self.said(own, "key", "escape")
        return self.said(own, "text", item.expected if item.part != "calling" else "42")

    def place(self) -> list[int]:
        """The middle of the target, on the grid."""
        target, whole = self.item.things[0].place, self.size
        x = (target.left + target.width / 2) * 1000 / whole[0]
        return [round(x), round((target.top + target.height / 2) * 1000 / whole[1])]

    def said(self, grammar: str, act: str, what: Any) -> dict[str, Any]:
        if grammar not in ("tools", "text"):
            acts = {
                "click": {"action": "left_click", "coordinate": what},
                "key": {"action": "key", "keys": [what]},
                "text": {"action": "type", "text": what},
            }
            return text(NATIVE % json.dumps(acts[act]))
        name, arguments = {
            "click": ("click_screen_element", {"element_name": "it", "position": what}),
            "key": ("press_keyboard_key", {"key": what}),
            "text": ("type_text_input", {"text": what}),
        }[act]
        message = call(name, **arguments, reasoning="asked for")
        if grammar == "tools":
            return message
        inner = json.dumps({"name": name, "arguments": {**arguments, "reasoning": "asked for"}})
        return text(f"<tool_call>\n{inner}\n</tool_call>")


def picture_size(request: dict[str, Any]) -> tuple[int, int]:
    """Width and height of the request's picture."""
    found = re.findall(r'data:image/png;base64,([^"]+)', json.dumps(request))
    _, width, height = agent.png_to_rgb(base64.b64decode(found[-1]))
    return width, height


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.said: list[str] = []
        self.config = agent.load_config({"test": {**SIZE, "dump_dir": folder.name}})

    def lines(self, server: Server, plan: asking.Plan = PLAN, **settings: Any) -> list[asking.Line]:
        """A model's lines in pictures that are small."""
        config = agent.load_config({"test": {**SIZE, **settings}})
        asked = asking.Bench(config, server.discover(), server, VirtualClock())
        found = []
        for server.item in asking.items_of(plan, 1, asked.whole, asked.grammars):
            found.append(asked.measure(server.item))
        return found


class Asked(Folder):
    """Each item is a run of one turn on a drawn desktop."""

    def test_a_model_that_does_right_is_right_in_every_part(self) -> None:
        server = Server()
        lines = self.lines(server)
        wrong = [line for line in lines if not line.right or line.error]
        self.assertEqual(wrong, [])
        (cost,) = (line for line in lines if line.part == "cost")
        result = figures.result_of({}, lines)
        self.assertEqual((cost.prompt, cost.without), (1700, 200))
        self.assertEqual(result.numbers["picture tokens, counted"], 1300)
        self.assertEqual(result.numbers["requests"], len(server.requests))

    def test_a_model_is_asked_and_read_in_its_own_grammar_with_pictures_as_it_wants_them(
        self,
    ) -> None:
        server = Server("qwen3-vl", name="qwen3-vl-4b")
        lines = self.lines(server, asking.Plan(4, 1, 1, 1), executor_grammar="qwen3-vl")
        result = figures.result_of({}, lines)
        for name in ("targets hit", "calls usable at once, qwen3-vl", "texts read exactly"):
            share = result.shares[name]
            self.assertEqual((name, share.hits), (name, share.of))
        self.assertEqual(result.shares["calls usable at once, tools"].hits, 0)
        self.assertNotIn("tools", server.requests[0])
        self.assertEqual([side % 32 for side in picture_size(server.requests[0])], [0, 0])

    def test_clicks_beside_the_target_and_onto_a_neighbour_are_misses(self) -> None:
        server = Server()
        server.decide = lambda request: server.said("tools", "click", beside(server))
        lines = self.lines(server, asking.Plan(4, 0, 0, 0))[:4]
        self.assertEqual([line.right for line in lines], [False] * 4)
        self.assertEqual([line.neighbour for line in lines], [True] * 4)

    def test_a_server_that_refuses_a_request_has_answered_it_and_one_that_is_off_has_not(
        self,
    ) -> None:
        def refuse(kind: str) -> Any:
            def decide(request: dict[str, Any]) -> None:
                raise agent.ModelError("It cannot.", kind)

            return decide

        lines = self.lines(Server(decide=refuse("no_vision")), asking.Plan(3, 1, 1, 1))
        self.assertEqual({line.error for line in lines}, {"server no_vision"})
        self.assertEqual(figures.result_of({}, lines).shares["targets hit"], figures.Share(0, 3))
        with self.assertRaises(agent.ModelError):
            self.lines(Server(decide=refuse("refused")))


def beside(server: Server) -> list[int]:
    """The middle of another thing than the one that is asked for."""
    things = server.item.things
    server.item = replace(server.item, things=things[1:] or things)
    place = server.place()
    server.item = replace(server.item, things=things)
    return place


class Journals(Folder):
    """No run is needed here: a line is what an item's name makes it."""

    def setUp(self) -> None:
        super().setUp()
        self.items = asking.items_of(PLAN, 1, WHOLE, ["tools", "text"])
        self.asked: list[str] = []

    def measure(self, item: scenes.Item) -> asking.Line:
        self.asked.append(item.name)
        return asking.Line(item.part, item.name, item.size, item.kind, requests=1, seconds=2.0)

    def lines(self, model: str = "tiny", measure: Any = None) -> list[asking.Line]:  # type: ignore[override]
        folder = keeping.folder_for(self.root, {"model": model})
        how = measure or self.measure
        return list(keeping.measured(how, self.items, folder, self.said.append))

    @property
    def journal(self) -> Path:
        return self.root / "bench_0001" / "bench.jsonl"

    def test_killed_at_any_byte_it_goes_on_and_asks_nothing_twice(self) -> None:
        whole = self.lines()
        data = self.journal.read_bytes()
        ends = [match.end() for match in re.finditer(b"\n", data)]
        for cut in (ends[0], ends[0] + 7, ends[5] - 1, ends[5], len(data) - 1):
            self.journal.write_bytes(data[:cut])
            self.asked.clear()
            self.assertEqual({line.name for line in self.lines()}, {line.name for line in whole})
            known = sum(end <= cut for end in ends) - 1
            self.assertEqual(len(self.asked), len(self.items) - known)
            self.asked.clear()
            self.assertEqual(set(self.lines()), set(whole))
            self.assertEqual(self.asked, [], "a torn line has spoilt the next one")

    def test_another_model_begins_a_folder_of_its_own_and_an_unfinished_bench_is_gone_on_with(
        self,
    ) -> None:
        folders = [keeping.folder_for(self.root, {"model": name}) for name in ("one", "two", "one")]
        names = [folder.name for folder in folders]
        self.assertEqual(names, ["bench_0001", "bench_0002", "bench_0001"])

    def test_lines_that_somebody_changed_are_asked_again(self) -> None:
        self.lines()
        head, *rest = self.journal.read_bytes().splitlines(keepends=True)
        rest[0] = b'{"part": "pointing", "name": 5}\n'
        rest[1] = b'{"part": "elsewhere", "name": "pointing 2"}\n'
        rest[2] = b"\xff\n"
        rest[3] = b'{"name": "pointing 4"}\n'
        rest[4] = b"[5]\n"
        self.journal.write_bytes(head + b"".join(rest))
        self.asked.clear()
        self.lines()
        self.assertEqual(len(self.asked), 5)

    def test_a_folder_that_cannot_be_made_and_an_unknown_word_are_told_in_a_sentence(self) -> None:
        (self.root / "file").write_text("")
        with self.assertRaisesRegex(agent.ConfigError, "No folder can be made"):
            keeping.folder_for(self.root / "file" / "below", {})
        with self.assertRaisesRegex(agent.ConfigError, "not 'slow'"):
            bench.plan_of(["slow"])


class Whole(unittest.TestCase):
    """A bench from its words to its files."""

    root: Path
    said: list[str]

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root, cls.said = Path(folder.name), []
        cls.folder = cls.root / "bench_0001"
        server = Server(decide=lambda request: text("I see a desktop."))
        config = agent.load_config({"test": {**SIZE, "dump_dir": folder.name}})
        bench.measure(config, bench.plan_of(["quick"]), server, VirtualClock(), cls.said.append)

    def test_a_model_without_a_clue_ends_with_honest_zeros_and_every_file(self) -> None:
        told = "\n".join(self.said)
        self.assertIn("about 4 min at 5 s each", self.said[0])
        self.assertRegex(told, r"targets hit +0 % \(0 to 15, n 21\)")
        self.assertIn("This model cannot point", told)
        kept = json.loads((self.folder / "bench.json").read_text("utf-8"))
        numbers = kept["numbers"]
        self.assertEqual(numbers["prompt tokens reused"], 100 * numbers["requests"])
        settings = json.loads((self.folder / "bench_settings.json").read_text("utf-8"))
        agent.load_config({"bench": settings})

    def test_results_stand_side_by_side(self) -> None:
        code, out = self.compare("1", str(self.folder))
        row = next(row for row in out.splitlines() if row.startswith("targets hit"))
        self.assertEqual((code, row.count("0 % (0 to 15, n 21)")), (0, 2))

    def test_what_is_no_result_is_refused_in_a_sentence_and_nothing_obeys_its_text(self) -> None:
        path = self.root / "bad.json"
        for bad in ("", "[]", '{"rows": [[1], 2], "about": 3}', '{"rows": 1}', "[" * 99_999):
            path.write_text(bad)
            code, out = self.compare(str(path))
            self.assertEqual((code, "is no result" in out or "no result of" in out), (2, True))
        path.write_text('{"rows": [["a", {"b": "\\u001b[2J"}]], "about": {"model": "\\u001b"}}')
        self.assertNotIn("\x1b", self.compare(str(path))[1])

    def compare(self, *names: str) -> tuple[int, str]:
        """The code and what is printed by `python -m tests.bench compare`."""
        words = ["compare", *names, "--set", f"dump_dir={self.root}"]
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            return bench.main(words), out.getvalue()


def lines_of(part: str, right: int, of: int, **values: Any) -> list[asking.Line]:
    """So many lines, of which so many are right."""
    name = f"{part} {values}"
    return [asking.Line(part, f"{name} {n}", right=n < right, **values) for n in range(of)]


def calls_of(best: str, *others: str) -> list[asking.Line]:
    """Ten calls in each grammar, of which one alone can be used."""
    bad = [
        line for kind in others for line in lines_of("calling", 10, 10, kind=kind, error="no_call")
    ]
    return [*lines_of("calling", 10, 10, kind=best), *bad]


LARGE = lines_of("pointing", 20, 20, size=64)
SMALL_MISSED = [*lines_of("pointing", 1, 8, size=16), *LARGE]
LONG = lines_of("judging", 20, 20, expected="no", requests=1, completion=900, prompt=500)
SHRUNK = [
    *lines_of("reading", 20, 20, requests=1, prompt=350),
    *lines_of("cost", 1, 1, requests=2, prompt=400, without=50, image=1296),
]
NAMED = {"lmstudio_model": "m"}
MORE = {"image_tokens": 2048}

# What was measured in pictures of this size, what is said of it, or nothing, and the settings that follow.
ADVICE = (
    ("small things missed", SMALL_MISSED, "1536x864", "cannot press things of 16 pixels.*use zoom", {**NAMED, "auto_zoom": True, **MORE}),
    ("in a large picture", SMALL_MISSED, "1920x1088", "cannot press", {**NAMED, "auto_zoom": True}),
    ("three answers", [*lines_of("pointing", 0, 3, size=16), *LARGE], "", "", NAMED),
    ("misread letters", lines_of("reading", 3, 20), "", "Small letters are misread: 15 %", {**NAMED, **MORE}),
    ("letters", lines_of("reading", 18, 20), "", "", NAMED),
    ("calls of tools", calls_of("tools", "text", "ui-tars-1.5"), "", "", {**NAMED, "calls": "tools", "executor_grammar": "tools"}),
    ("calls in the text", calls_of("text", "tools", "ui-tars-1.5"), "", "", {**NAMED, "calls": "text"}),
    ("calls in a grammar", calls_of("ui-tars-1.5", "text", "tools"), "", "", {**NAMED, "executor_grammar": "ui-tars-1.5"}),
    ("all calls", [*calls_of("text"), *calls_of("tools")], "", "", NAMED),
    ("long thoughts", LONG, "", "A reply takes 900 tokens.*it has 4096", {**NAMED, "thinking": "off"}),
    ("shrunk pictures", SHRUNK, "", "counts 300 tokens for a picture of 1296", NAMED),
    ("a judge that believes", lines_of("judging", 8, 20, expected="no"), "", "says YES to unfinished screens: 60 %", {**NAMED, "second_opinion": True, "derive_checks": True}),
)  # fmt: skip
SAID_OF_FEW = "Too few answers|Load the model with|usable more often"


class Advice(unittest.TestCase):
    def test_each_advice_follows_from_figures_that_are_sure_enough(self) -> None:
        for name, lines, size, words, wanted in ADVICE:
            with self.subTest(name):
                result = figures.result_of({"model": "m", "size": size}, lines)
                advice = figures.advice_of(result, 4096)
                settings = keeping.settings_of(result, advice)
                agent.load_config({"bench": json.loads(json.dumps(settings))})
                self.assertEqual(settings, wanted)
                said = " ".join(item.text for item in advice)
                self.assertRegex(said, words or "Load the model")
                others = [x for x in advice if not re.match(f"{SAID_OF_FEW}|Calls in", x.text)]
                self.assertEqual(bool(others), bool(words), others)


if __name__ == "__main__":
    unittest.main()
