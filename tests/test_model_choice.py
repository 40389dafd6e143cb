"""Which model is chosen, and in which grammar it is asked, by the names that servers give it."""

from __future__ import annotations

import shutil
import unittest
from typing import Any

import agent
from tests.seams import desktop_of_main, person_at_main
from tests.servers import RoutedServer, http
from tests.test_main import CommandLineCase
from tests.test_model import LMS_OTHER, OLLAMA_OTHER, model_server, native, plain

# The names of the models that are asked in a grammar.
NAMES = {
    "qwen3-vl": "qwen/qwen3-vl-4b Qwen3-VL-8B-Instruct-Q4_K_M.gguf qwen3-vl-8b-thinking qwen3vl:4b"
    " qwen3-vl-4b-instruct@q4_k_m",
    "qwen2.5-vl": "qwen2.5-vl-7b-instruct qwen/qwen2.5-vl-7b Qwen2_5-VL-3B",
    "qwen3.5-xml": "qwen3.5-4b qwen/qwen3.5-9b qwen/qwen3.6-35b-a3b Qwen_Qwen3.5-4B-Q4_K_M.gguf qwen3.5:4b",
    "gui-owl-1.5": "gui-owl-1.5-8b-instruct GUI-Owl-1.5-2B-Instruct-Q8_0.gguf",
    "ui-tars-1.0": "ui-tars-7b-dpo ui-tars-2b-sft UI-TARS-72B-DPO",
    "ui-tars-1.5": "ui-tars-1.5-7b bytedance/UI-TARS-1.5-7B@q4_k_m",
    "ui-tars-2": "ui-tars-2",
    "fara-7b": "fara-7b",
    "opencua": "OpenCUA-7B",
    "tools": "gui-owl-7b mplug/gui_owl-32b doubao-1.5-ui-tars-250428 mai-ui-8b Holo1-7B holo1.5-7b holo2-4b"
    " holo3-35b-a3b qwen3-8b qwen3-4b-2507 qwen2-vl-7b-instruct gemma-3-12b glm-4.6v-flash fara1.5-9b OpenCUA-A3B",
}


# By which of their names is chosen where nothing is loaded, the first before the last.
ORDER = """
    qwen/qwen3-vl-8b qwen3-vl:4b Qwen3VL-2B-Instruct-Q4_K_M.gguf qwen3-vl-30b-a3b qwen3.5-4b qwen/qwen3.5-2b
    mradermacher/GUI-Owl-7B-GGUF ui-tars-1.5-7b qwen2.5-vl-7b-instruct glm-4.6v-flash
""".split()


class Choice(unittest.TestCase):
    def chosen(self, *names: str, wanted: str = "") -> str | None:
        """The model that is used of a server that lists these; None where it is left to the person."""
        with RoutedServer({"/v1/models": http(200, plain(*names))}, OLLAMA_OTHER) as server:
            try:
                return model_server(server.url, lmstudio_model=wanted).discover().name
            except agent.ModelError:
                return None

    def test_the_families_have_an_order_and_others_are_left_to_the_person(self) -> None:
        left = [
            "llava",
            "pixtral",
            "qwen3-8b",
            "qwen/qwen3-4b-2507",
            "ministral-3-3b",
            *ORDER[::-1],
        ]
        for wanted in [*ORDER, None]:
            self.assertEqual(self.chosen(*left), wanted)
            left = left[:-1]

    def test_a_name_without_a_quantization_means_any(self) -> None:
        there = "qwen3-vl-4b-instruct@q4_k_m"
        for wanted, found in (
            ("qwen/qwen3-vl-4b", there),
            ("qwen3-vl-4b@q4_k_m", there),
            ("qwen3-vl-4b@q8_0", None),
            ("qwen3-vl-8b", None),
        ):
            self.assertEqual(self.chosen(there, wanted=wanted), found, wanted)

    def test_what_is_loaded_counts_first_then_what_does_not_think_aloud(self) -> None:
        qwen, gemma = "qwen/qwen3-vl-8b", native("google/gemma-3-4b", True, 8192)
        thinking, plain_one = "qwen3-vl-8b-thinking", "qwen3-vl-2b-instruct"
        four = native("qwen/qwen3-vl-4b", True)
        for wanted, models, name, note in (
            ("", [native(qwen, True, 8192), native("gemma", True)], qwen, ""),
            (
                "",
                [native("text", False, 9), gemma, native(qwen, True)],
                "google/gemma-3-4b",
                "Using the model google/gemma-3-4b; --model NAME takes another.",
            ),
            ("", [native(thinking, True), native(plain_one, True)], plain_one, "not loaded yet"),
            ("qwen3-vl-4b-instruct", [native(qwen, True, 8192), four], "qwen/qwen3-vl-4b", ""),
        ):
            page = {"models": models}
            with RoutedServer({"/api/v1/models": http(200, page)}, LMS_OTHER) as server:
                found = model_server(server.url, lmstudio_model=wanted).discover()
            self.assertEqual(found.name, name)
            self.assertIn(note, found.note)


class Person(CommandLineCase):
    """Where the choice is left to the person."""

    def start(self, page: object, stdin: Any = b"") -> tuple[int, str, str]:
        """A start with a server of this list, by a person at a terminal or in a pipe."""
        routes = {"/v1/models": http(200, page)}
        with RoutedServer(routes, OLLAMA_OTHER) as server, desktop_of_main(agent.DemoDesktop):
            return self.main("a task", "--endpoint", server.url, "--max-steps", "1", stdin=stdin)

    def test_in_a_pipe_the_exact_words_to_type_are_said_and_the_code_is_3(self) -> None:
        for names, words in (
            (("llava:7b", "big model"), 'choose one: --model llava:7b, --model "big model".'),
            ((), "download one with `lms get qwen/qwen3-vl-4b` (3.3 GB"),
        ):
            code, _, err = self.start(plain(*names))
            self.assertEqual((code, len(err.splitlines())), (3, 1), err)
            self.assertIn(words, err)

    def test_on_a_terminal_the_person_picks_from_a_numbered_list_until_one_is_there(self) -> None:
        question = (
            "Which model?\n    |   1  llava:7b\n    |   2  pixtral\n    | A number from 1 to 2:\n"
        )
        for answers, picked in ((("2",), "pixtral"), (("nine", "7", "1"), "llava:7b"), (("",), "")):
            words = (None, *answers, "")  # by how often it was asked

            def types(out: str, words: tuple[str | None, ...] = words) -> str | None:
                return words[out.count("Which model?")]

            with self.subTest(answers), person_at_main(types) as keyboard:
                code, out, err = self.start(plain("llava:7b", "pixtral"), keyboard)
                keyboard.end()
            self.assertIn(question, out)
            if picked:
                self.assertEqual((code, self.records()[0]["model"]), (1, picked), out)
                shutil.rmtree(self.folder / "dumps")
            else:
                self.assertEqual(code, 3)
                self.assertIn("choose one: --model llava:7b", err)


class Grammars(unittest.TestCase):
    def test_a_models_name_tells_its_grammar(self) -> None:
        self.assertEqual(NAMES.keys() - {"tools"}, set(agent.GRAMMARS))
        for grammar, names in NAMES.items():
            for name in names.split():
                with self.subTest(name):
                    self.assertEqual(agent.grammar_for(name), grammar)
        self.assertEqual(agent.grammar_for(""), "tools")

    def test_what_the_server_tells_counts_where_the_name_says_nothing(self) -> None:
        for name, told, grammar in (
            ("my-model", "qwen3_vl", "qwen3-vl"),
            ("my-model", "qwen3vl", "qwen3-vl"),
            ("my-model", "qwen2_5_vl", "qwen2.5-vl"),
            ("my-model", "qwen35moe", "qwen3.5-xml"),
            ("my-model", "qwen2vl", "tools"),
            ("ui-tars-1.5-7b", "qwen2_5_vl", "ui-tars-1.5"),
            ("gta1-7b", "qwen2_5_vl", "tools"),
        ):
            self.assertEqual(agent.grammar_for(name, told), grammar, name)
