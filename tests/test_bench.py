"""The bench: what it asks, that it gives known faults back, what it advises, and that what it measured is kept."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import agent
from tests.bench import __main__ as bench
from tests.bench import erring, scenes
from tests.bench.figures import Line, Share, advice, rows, shares
from tests.fakes import VirtualClock
from tests.samples import for_the_gate, sample
from tests.scripted import call, in_words, text

SIZE = {"screen_capture_w": 448, "screen_capture_h": 252}  # of the pictures; larger ones are slower
PLAN = bench.Plan(5, 3, 2, 2)
NATIVE = '<tool_call>\n{"name": "computer_use", "arguments": %s}\n</tool_call>'
# Each act as a call of a tool, and in the model's own grammar.
DEEDS = {
    "click": ("click_screen_element", "position", "left_click", "coordinate"),
    "key": ("press_keyboard_key", "key", "key", "keys"),
    "text": ("type_text_input", "text", "type", "text"),
}


class Server:
    """A model that does right in its grammar, or whatever it is told; it knows what it is asked."""

    where = "http://127.0.0.1:1234"

    def __init__(self, grammar: str = "tools", decide: Any = None) -> None:
        self.grammar, self.decide = grammar, decide or self.right
        self.item, self.asked = scenes.Item("", "", ""), 0
        self.whole, self.aim = agent.Rect(0, 0, 448, 252), 0  # at which of an item's things

    def discover(self) -> agent.ModelInfo:
        return agent.ModelInfo("tiny" if self.grammar == "tools" else "qwen3-vl-4b", True)

    def complete(self, body: bytes) -> agent.Reply:
        self.asked += 1
        reply = self.decide(json.loads(body))
        return agent.Reply(reply, "stop", agent.Usage(200, 9, 100), "tiny", 5.0)

    def right(self, request: dict[str, Any]) -> dict[str, Any]:
        item, grammar = self.item, self.grammar
        if item.part == "judging":
            return text(f"1 {item.expected.upper()}: as seen")
        if item.part == "calling" and grammar == "tools":
            grammar = item.kind
        elif item.part == "calling" and grammar != item.kind:
            return text("I would do what I was asked for.")
        act = {"pointing": "click", "calling": item.expected}.get(item.part, "text")
        what: Any = {"click": self.place, "key": lambda: "escape"}.get(act, lambda: item.expected)()
        name, argument, own_name, own_argument = DEEDS[act]
        if grammar not in ("tools", "text"):
            own = {"action": own_name, own_argument: [what] if act == "key" else what}
            return text(NATIVE % json.dumps(own))
        arguments = {argument: what, "element_name": "it", "reasoning": "asked for"}
        return text(in_words(name, **arguments)) if grammar == "text" else call(name, **arguments)

    def place(self) -> list[int]:
        """On the grid."""
        left, top, width, height = self.item.things[self.aim].place
        x, y = (left + width / 2) / self.whole.width, (top + height / 2) / self.whole.height
        return [round(1000 * x), round(1000 * y)]


def vague() -> Server:
    return Server(decide=lambda request: text("I see a desktop."))


class Asked(unittest.TestCase):
    """Each item is a run of one turn on a drawn desktop."""

    def lines(self, server: Server, plan: bench.Plan = PLAN, **settings: Any) -> list[Line]:
        config = agent.load_config({"test": {**SIZE, **settings}})
        asking = bench.Bench(config, server.discover(), server, VirtualClock())
        server.whole, found = asking.whole, []
        for server.item in bench.items_of(plan, asking.whole, asking.grammars):
            found.append(asking.measure(server.item))
        return found

    def test_a_model_that_does_right_is_right_in_every_part(self) -> None:
        lines = self.lines(Server())
        self.assertEqual([line for line in lines if not line.right or line.error], [])
        self.assertEqual(rows(lines)["prompt tokens reused"], 100 * len(lines))
        self.assertEqual({line.part for line in lines}, {*bench.Plan._fields})

    def test_a_model_is_asked_and_read_in_its_own_grammar(self) -> None:
        server = Server("qwen3-vl")
        lines = self.lines(server, executor_grammar="qwen3-vl")
        found = shares(lines)
        for name in ("targets hit", "calls usable at once, qwen3-vl", "texts read exactly"):
            self.assertEqual(found[name].hits, found[name].of, name)
        self.assertEqual(found["calls usable at once, tools"].hits, 0)
        self.assertEqual([side % 32 for side in server.whole[2:]], [0, 0])

    def test_clicks_onto_a_neighbour_are_misses(self) -> None:
        server = Server()
        server.aim = 1
        lines = self.lines(server, bench.Plan(4, 0, 0, 0))
        self.assertEqual([line.right for line in lines], [False] * 4)

    def test_a_request_that_is_refused_is_answered_and_a_server_that_is_off_ends_it(self) -> None:
        def refuse(kind: str) -> Any:
            return mock.Mock(side_effect=agent.ModelError("It cannot.", kind))

        lines = self.lines(Server(decide=refuse("no_vision")), bench.Plan(3, 1, 1, 1))
        self.assertEqual({line.error for line in lines}, {"server no_vision"})
        self.assertEqual(shares(lines)["targets hit"], Share(0, 3))
        with self.assertRaises(agent.ModelError):
            self.lines(Server(decide=refuse("refused")))

    def test_targets_are_of_their_size_inside_the_picture_and_apart(self) -> None:
        for whole in (agent.Rect(0, 0, 1536, 864), agent.Rect(0, 0, 640, 360)):
            for item in scenes.pointing(random.Random(7), 40, whole):
                places = [thing.place for thing in item.things]
                self.assertEqual(str(places[0].height), item.kind)
                for place in places:
                    self.assertEqual(place.intersection(whole), place, item)
                for one, other in itertools.combinations(places, 2):
                    self.assertFalse(one.overlaps(other), item)


class Figures(unittest.TestCase):
    def test_an_interval_is_that_of_wilsons_tables(self) -> None:
        for hits, low, high in ((8, 0.490, 0.943), (0, 0.0, 0.278), (10, 0.722, 1.0)):  # in tables
            self.assertEqual([round(end, 3) for end in Share(hits, 10).ends], [low, high])
        self.assertEqual(str(Share(0, 0)), "not measured")

    def test_each_advice_follows_from_figures_that_are_sure_enough(self) -> None:
        def lines(part: str, right: int, of: int, **values: Any) -> list[Line]:
            return [Line(part, f"{part} {n}", right=n < right, **values) for n in range(of)]

        calls = [
            *lines("calling", 10, 10, kind="text"),
            *lines("calling", 9, 10, kind="tools", error="no_call"),
        ]
        for found, wanted in (
            (lines("pointing", 9, 60, kind="48"), "cannot point"),
            (lines("pointing", 1, 12, kind="16"), "cannot point.*image_tokens=2048"),
            (lines("pointing", 0, 2, kind="16"), ""),
            (lines("reading", 3, 20, kind="9"), "image_tokens=2048"),
            (lines("reading", 18, 20, kind="9"), ""),
            (lines("judging", 8, 20, expected="no"), "second_opinion=true"),
            (lines("judging", 8, 20, expected="yes"), ""),
            (calls, "calls=text"),
            (calls[:10], ""),
        ):
            said = " ".join(advice(found))
            with self.subTest(said):
                self.assertRegex(said, wanted or "^$")
                settings = dict(re.findall(r"--set (\w+)=(\w+)", said))
                agent.load_config({"advised": settings})


class ErringModels(unittest.TestCase):
    SIZE = {"screen_capture_w": 512, "screen_capture_h": 288}
    LIAR = {"claim": 0.5, "verifier": 1}  # and one who believes it

    def test_a_run_ends_and_a_file_that_is_not_there_is_never_believed(self) -> None:
        for number, profile in enumerate(sample(erring.PROFILES, erring.PROFILES[4:])):
            few = {"max_steps": 4, "not_proven_most": 1, **self.SIZE}
            result = erring.run(profile, number % 2, 5, 1, self.LIAR, **few)
            self.assertNotEqual(result.outcome.kind, "error", (profile, result.outcome.text))
            self.assertFalse(result.completed and not result.done, profile)

    @for_the_gate
    def test_a_file_proves_what_else_four_answers_have_to(self) -> None:
        # A task proves its file though no check of the plan names it.
        for profile, number, slips, least, most in (
            ("native", 2, {}, 4, 4),
            ("planner", 1, {}, 1, 1),
            ("native", 2, {"prose": 0.4}, 4, 99),
            ("native", 2, {"repeat": 0.4}, 4, 99),
        ):
            seed = 3 if slips else 1
            result = erring.run(profile, number, seed, 0, slips, **self.SIZE)
            self.assertTrue(result.completed and result.done, slips)
            self.assertTrue(least <= result.asked["verifier"] <= most, (profile, slips))


class Kept(unittest.TestCase):
    """A bench from its words to its file, and on from there."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.file = self.root / "bench_0001.jsonl"
        self.said: list[str] = []

    def measure(self, server: Any) -> None:
        config = agent.load_config({"test": {**SIZE, "dump_dir": str(self.root)}})
        bench.measure(config, PLAN, server, VirtualClock(), self.said.append)

    def compare(self, *words: str) -> tuple[int, str]:
        options = "--set", f"dump_dir={self.root}"
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            return bench.main([*words, *options]), out.getvalue()

    def test_what_was_measured_before_a_fault_is_kept_in_a_file_of_its_own(self) -> None:
        self.measure(vague())
        self.assertRegex("\n".join(self.said), r"targets hit +0 % \(0 to 43, n 5\)")
        replies = [text("I see a desktop.")] * 3
        with self.assertRaises(IndexError):
            self.measure(Server(decide=lambda request: replies.pop()))
        kept = bench.read(self.root / "bench_0002.jsonl")[1]
        self.assertEqual(kept, bench.read(self.file)[1][:3])

    def test_results_stand_side_by_side_and_what_is_none_is_told_in_a_sentence(self) -> None:
        self.measure(vague())
        code, out = self.compare("compare", "1", "1")
        row = next(row for row in out.splitlines() if row.startswith("targets hit"))
        self.assertEqual((code, row.count("0 % (0 to 43, n 5)")), (0, 2))
        for words, said in ((("compare", "7"), "There is no result"), (("slow",), "takes quick")):
            code, out = self.compare(*words)
            self.assertEqual((code, said in out, "Traceback" in out), (2, True, False))
