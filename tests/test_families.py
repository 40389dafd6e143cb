"""Which model is chosen, and how it is asked, by the names that servers give it."""

from __future__ import annotations

import unittest

import agent
from tests.servers import RoutedServer, http
from tests.test_model import OLLAMA_OTHER, model_server, plain


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
    def test_names_as_lm_studio_and_others_write_them_tell_the_grammar(self) -> None:
        names = {
            "qwen3.5-4b": "qwen3.5-xml",
            "qwen/qwen3.5-9b": "qwen3.5-xml",
            "Qwen_Qwen3.5-4B-Q4_K_M.gguf": "qwen3.5-xml",
            "qwen3.5:4b": "qwen3.5-xml",
            "qwen/qwen3-vl-4b": "qwen3-vl",
            "qwen3-vl-4b-instruct@q4_k_m": "qwen3-vl",
            "qwen3-8b": "tools",
            "glm-4.6v-flash": "tools",
        }
        for name, grammar in names.items():
            self.assertEqual(agent.grammar_for(name), grammar, name)
        self.assertEqual(agent.grammar_for("mine", "qwen35moe"), "qwen3.5-xml")


if __name__ == "__main__":
    unittest.main()
