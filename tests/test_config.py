"""Configuration: its layers, its ranges, and errors that say in one sentence where the wrong value stands."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import agent

SPECS = {f.name: f for f in fields(agent.Config)}
KINDS = {name: f.type.removesuffix(" | None") for name, f in SPECS.items()}
NUMBERS = {name: f for name, f in SPECS.items() if KINDS[name] in ("int", "float")}


def loaded(**values: Any) -> agent.Config:
    return agent.load_config({"--set": values})


def read(environ: dict[str, str], *argv: str) -> agent.Config:
    """The settings of a run that is started so."""
    options = agent.command_line().parse_args(["--profile", "planner", *argv])
    return agent.read_config(options, environ)


class Fields(unittest.TestCase):
    def test_every_field_has_a_meaning_and_a_default_of_its_type_within_its_range(self) -> None:
        for name, spec in SPECS.items():
            self.assertIn(KINDS[name], ("str", "int", "float", "bool"), name)
            kind = "None" if spec.default is None else type(spec.default).__name__
            self.assertIn(kind, spec.type.split(" | "), name)
            self.assertGreater(len(spec.metadata["text"]), 2, name)
        defaults = {name: f.default for name, f in SPECS.items()}
        self.assertEqual(agent.load_config({"defaults": defaults}), agent.Config())

    def test_every_number_has_both_ends_of_its_range(self) -> None:
        for name, spec in NUMBERS.items():
            self.assertLess(spec.metadata["least"], spec.metadata["most"], name)
        bounded = {name for name, spec in SPECS.items() if spec.metadata["least"] is not None}
        self.assertEqual(bounded, set(NUMBERS))

    def test_no_two_fields_share_an_environment_variable(self) -> None:
        names = [f.metadata["env"] for f in SPECS.values() if f.metadata["env"]]
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(all(name.startswith(("LMSTUDIO_", "AGENT_")) for name in names))

    def test_a_config_cannot_be_changed(self) -> None:
        with self.assertRaises(FrozenInstanceError):
            agent.Config().max_steps = 5  # type: ignore[misc]


class Layers(unittest.TestCase):
    def test_no_layer_gives_the_defaults(self) -> None:
        self.assertEqual(agent.load_config({}), agent.Config())

    def test_a_later_layer_wins_and_leaves_the_rest(self) -> None:
        config = agent.load_config(
            {"file": {"max_steps": 5, "drag_steps": 7}, "--set": {"max_steps": "9"}}
        )
        self.assertEqual((config.max_steps, config.drag_steps, config.review_interval), (9, 7, 7))

    def test_an_overruled_wrong_value_is_still_an_error(self) -> None:
        with self.assertRaisesRegex(agent.ConfigError, "^file: max_steps"):
            agent.load_config({"file": {"max_steps": "many"}, "--set": {"max_steps": 9}})

    def test_values_come_in_the_type_of_the_field(self) -> None:
        config = loaded(
            max_steps="30", settle_cap_ms="1500", dry_run="yes", lmstudio_model="m", drag_steps=4.0
        )
        self.assertEqual(
            (config.max_steps, config.settle_cap_ms, config.dry_run), (30, 1500.0, True)
        )
        kinds = [
            type(value) for value in (config.max_steps, config.settle_cap_ms, config.drag_steps)
        ]
        self.assertEqual(kinds, [int, float, int])

    def test_words_for_true_and_false(self) -> None:
        for word in ("true", "True", "1", "yes", " on ", True, 1):
            self.assertIs(loaded(dry_run=word).dry_run, True, word)
        for word in ("false", "0", "no", "OFF", False, 0):
            self.assertIs(loaded(verify_completion=word).verify_completion, False, word)


class Refusals(unittest.TestCase):
    def refused(self, **values: Any) -> str:
        with self.assertRaises(agent.ConfigError) as caught:
            loaded(**values)
        text = str(caught.exception)
        self.assertRegex(text, r"^--set: [^\n]*\.$")
        self.assertEqual(caught.exception.exit_code, 2)
        return text

    def test_an_unknown_setting_is_named(self) -> None:
        self.assertIn("there is no setting 'max_step'", self.refused(max_step=5))

    def test_a_value_of_a_wrong_kind_is_shown_with_what_is_taken(self) -> None:
        self.assertEqual(
            self.refused(max_steps="many"), "--set: max_steps takes a whole number, not 'many'."
        )
        self.assertEqual(
            self.refused(settle_cap_ms="soon"), "--set: settle_cap_ms takes a number, not 'soon'."
        )
        self.assertEqual(
            self.refused(dry_run="maybe"), "--set: dry_run takes true or false, not 'maybe'."
        )
        self.assertEqual(
            self.refused(lmstudio_model=5), "--set: lmstudio_model takes text, not '5'."
        )

    def test_what_only_looks_like_a_number_is_refused(self) -> None:
        for value in (
            True,
            None,
            [],
            {},
            "",
            "5.5",
            5.5,
            "nan",
            "inf",
            "1e999",
            float("inf"),
            "0x10",
        ):
            self.assertIn("max_steps takes a whole number", self.refused(max_steps=value))
        for value in (True, None, "nan", "-inf", float("nan"), [1.0], "1,5"):
            self.assertIn("settle_cap_ms takes a number", self.refused(settle_cap_ms=value))

    def test_a_long_wrong_value_is_cut(self) -> None:
        self.assertLess(len(self.refused(max_steps="9" * 60 + "x" * 5000)), 120)

    def test_every_number_is_held_to_its_range(self) -> None:
        # What has to be set beside an end of a range, which else contradicts a default.
        beside = {
            "memory_compression_threshold": {"memory_keep_actions": 0},
            "memory_keep_actions": {"memory_compression_threshold": 1000},
            "prune_screenshots_at": {"keep_last_screenshots": 1},
        }
        for name, spec in NUMBERS.items():
            least, most = spec.metadata["least"], spec.metadata["most"]
            for end in (least, most):
                self.assertEqual(getattr(loaded(**{name: end, **beside.get(name, {})}), name), end)
            for value in (least - 1, most + 1):
                self.assertRegex(
                    self.refused(**{name: value}),
                    rf" {name} \(.*\) takes {least} to {most}, not '{value}(\.0)?'\.$",
                )


class Environment(unittest.TestCase):
    def test_the_names_of_the_described_systems_are_read(self) -> None:
        given = {
            "LMSTUDIO_ENDPOINT": "http://127.0.0.1:9/v1/chat/completions",
            "LMSTUDIO_MODEL": "qwen3-vl-8b",
            "LMSTUDIO_TIMEOUT": "60",
            "LMSTUDIO_TEMPERATURE": "0.2",
            "LMSTUDIO_MAX_TOKENS": "900",
            "AGENT_IMAGE_W": "1280",
            "AGENT_IMAGE_H": "720",
            "AGENT_MAX_STEPS": "12",
            "AGENT_STEP_DELAY": "0.4",
            "AGENT_DUMP_DIR": "runs",
            "PATH": "/bin",
        }
        config = read(given)
        server = (config.lmstudio_model, config.lmstudio_timeout, config.dump_dir)
        self.assertEqual(server, ("qwen3-vl-8b", 60.0, "runs"))
        self.assertEqual(
            (config.screen_capture_w, config.screen_capture_h, config.max_steps), (1280, 720, 12)
        )
        self.assertEqual(
            (config.turn_delay, config.executor_max_tokens, config.lmstudio_temperature),
            (0.4, 900, 0.2),
        )
        self.assertTrue(config.lmstudio_endpoint.startswith("http://127.0.0.1:9/"))

    def test_an_empty_variable_is_no_setting(self) -> None:
        self.assertEqual(read({"AGENT_MAX_STEPS": "", "HOME": "/"}), read({}))

    def test_a_wrong_variable_is_named(self) -> None:
        with self.assertRaisesRegex(
            agent.ConfigError, r"^environment variable AGENT_MAX_STEPS: max_steps takes"
        ):
            read({"LMSTUDIO_MODEL": "m", "AGENT_MAX_STEPS": "ten"})


class File(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "my agent.json"

    def config(self, content: bytes) -> agent.Config:
        self.path.write_bytes(content)
        return read({}, "--config", str(self.path))

    def refused(self, content: bytes) -> str:
        with self.assertRaises(agent.ConfigError) as caught:
            self.config(content)
        text = str(caught.exception)
        self.assertTrue(
            text.startswith(str(self.path)) and text.endswith(".") and "\n" not in text, text
        )
        return text.removeprefix(str(self.path))

    def test_an_object_is_a_layer(self) -> None:
        config = self.config(json.dumps({"max_steps": 5, "lmstudio_model": "größer"}).encode())
        self.assertEqual((config.max_steps, config.lmstudio_model), (5, "größer"))

    def test_a_file_saved_by_notepad_with_a_mark_in_front_is_read(self) -> None:
        self.assertEqual(self.config(b'\xef\xbb\xbf{"max_steps": 5}').max_steps, 5)

    def test_what_is_not_an_object_is_refused(self) -> None:
        for content in (b"[]", b"5", b"null", b'"x"'):
            self.assertIn("must hold one JSON object", self.refused(content))

    def test_broken_json_is_refused_with_its_place(self) -> None:
        self.assertIn("cannot be read as JSON (Expecting", self.refused(b'{"max_steps": \n}'))
        self.assertIn("line 2", self.refused(b'{"max_steps": \n}'))
        for content in (b"", b'{"a": 1', b"\xff\xfe{\x00"):
            self.assertIn("cannot be read as JSON", self.refused(content))

    def test_a_file_that_cannot_be_read_is_named(self) -> None:
        for path in (self.path, self.path.parent):  # missing; a folder
            with self.assertRaises(agent.ConfigError) as caught:
                read({}, "--config", str(path))
            self.assertRegex(
                str(caught.exception), r"(is not there; |is no ordinary file )[^\n]*\.$"
            )
            self.assertTrue(str(caught.exception).startswith(str(path)))

    def test_a_device_a_pipe_and_a_file_without_end_are_refused_at_once(self) -> None:
        paths = [os.devnull]
        if hasattr(os, "mkfifo"):  # opened, it would wait for a writer for ever
            paths.append(str(self.path.with_name("pipe")))
            os.mkfifo(paths[-1])
            self.addCleanup(os.unlink, paths[-1])
        self.path.write_text(" " * (1 << 20) + "{}")
        self.addCleanup(self.path.unlink)
        for path in (*paths, str(self.path)):
            with self.assertRaisesRegex(agent.ConfigError, "is no ordinary file of at most 1 MB"):
                read({}, "--config", path)


if __name__ == "__main__":
    unittest.main()
