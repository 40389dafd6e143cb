"""Which model is chosen, and in which grammar it is asked, by the names that servers give it."""

from __future__ import annotations

import unittest

import agent
from tests.servers import RoutedServer, http
from tests.test_model import OLLAMA_OTHER, model_server, plain

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


class Choice(unittest.TestCase):
    wanted = ""

    def chosen(self, *names: str) -> str | None:
        """The model that is used of a server that lists these; None where it is left to the person."""
        with RoutedServer({"/v1/models": http(200, plain(*names))}, OLLAMA_OTHER) as server:
            try:
                return model_server(server.url, lmstudio_model=self.wanted).discover().name
            except agent.ModelError:
                return None

    def test_qwen3_vl_comes_before_qwen3_5_which_thinks_and_that_before_others(self) -> None:
        names = ["gemma-3-4b", "qwen2-vl-7b", "glm-4.6v-flash", "qwen/qwen3.5-2b", "qwen3.5-4b"]
        order = ["qwen3-vl-4b-instruct@q4_k_m", *names[:0:-1]]
        left = [*names, order[0]]
        for wanted in order:
            self.assertEqual(self.chosen(*left, "llava"), wanted)
            left.remove(wanted)

    def test_a_text_model_of_8b_is_not_taken_for_a_family_that_sees(self) -> None:
        for name in ("qwen3-8b", "qwen/qwen3-4b-2507", "gemma-3-4b", "ministral-3-3b"):
            self.assertIsNone(self.chosen("llava", name), name)
            self.assertEqual(self.chosen(name, "qwen3-vl-4b"), "qwen3-vl-4b")

    def test_a_name_without_a_quantization_means_any(self) -> None:
        there = "qwen3-vl-4b-instruct@q4_k_m"
        for self.wanted, found in (
            ("qwen/qwen3-vl-4b", there),
            ("qwen3-vl-4b@q4_k_m", there),
            ("qwen3-vl-4b@q8_0", None),
            ("qwen3-vl-8b", None),
        ):
            self.assertEqual(self.chosen(there), found, self.wanted)


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


if __name__ == "__main__":
    unittest.main()
