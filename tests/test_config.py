"""Configuration: its layers, its ranges, and errors that say in one sentence where the wrong value stands."""

from __future__ import annotations

import ast
import json
import os
import re
import tempfile
import unittest
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import agent
from tests.fakes import VirtualClock, windows_desktop

DEFAULTS = vars(agent.Config())
NUMBERS = {
    name: setting
    for name, setting in agent.SETTINGS.items()
    if type(DEFAULTS[name]) in (int, float)
}


HOLDS_CONFIG = re.compile(r"\bconfig$")
NOT_OF_THE_TABLE = {"get"}  # of the settings in a record, which are a dict


def loaded(**values: Any) -> agent.Config:
    return agent.load_config({"--set": values})


def read(environ: dict[str, str], *argv: str) -> agent.Config:
    """The settings of a run that is started so."""
    options = agent.command_line().parse_args(["--profile", "planner", *argv])
    return agent.read_config(options, environ)


class Fields(unittest.TestCase):
    def test_every_field_has_a_meaning_and_a_default_of_its_type_within_its_range(self) -> None:
        self.assertEqual(list(DEFAULTS), list(agent.SETTINGS))
        for spec in fields(agent.Config):
            self.assertEqual(type(spec.default), spec.type, spec.name)
            self.assertGreater(len(agent.SETTINGS[spec.name].text), 2, spec.name)
        self.assertEqual(agent.load_config({"defaults": DEFAULTS}), agent.Config())

    def test_a_default_has_the_type_that_it_looks_like(self) -> None:
        for name, default in {
            "lmstudio_model": "",
            "boot_vlm_output": '{"observation": "I begin."}',
            "lmstudio_timeout": 240.0,
            "max_steps": 50,
            "dry_run": False,
            "vision": True,
        }.items():
            self.assertEqual(repr(DEFAULTS[name]), repr(default))
        for name, kind in agent.Config.__annotations__.items():
            self.assertEqual(type(DEFAULTS[name]).__name__, kind)

    def test_every_setting_that_the_program_reads_is_in_the_table(self) -> None:
        """A type checker does not read the table, so it does not see a name that is misspelt."""
        read = set()
        for node in ast.walk(ast.parse(Path(agent.__file__).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and HOLDS_CONFIG.search(ast.unparse(node.value)):
                read.add(node.attr)
        self.assertEqual(read - set(dir(agent.Config())), NOT_OF_THE_TABLE)
        self.assertGreater(len(read), 60)

    def test_no_two_fields_share_an_environment_variable(self) -> None:
        names = [setting.env for setting in agent.SETTINGS.values() if setting.env]
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(all(name.startswith(("LMSTUDIO_", "AGENT_")) for name in names))

    def test_a_config_cannot_be_changed(self) -> None:
        with self.assertRaises(FrozenInstanceError):
            agent.Config().max_steps = 5  # type: ignore[misc]


class Layers(unittest.TestCase):
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
            self.refused(max_steps="many"),
            "--set: max_steps (turns; chat, pointer: acts on the desktop) takes a whole number, 1 to 100000,"
            " not 'many'.",
        )
        self.assertIn("takes a number, 0 to 60000, not 'soon'.", self.refused(settle_cap_ms="soon"))
        self.assertIn(") takes true or false, not 'maybe'.", self.refused(dry_run="maybe"))
        self.assertIn(") takes text, not '5'.", self.refused(lmstudio_model=5))

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
            self.assertIn(") takes a whole number", self.refused(max_steps=value))
        for value in (True, None, "nan", "-inf", float("nan"), [1.0], "1,5"):
            self.assertIn(") takes a number", self.refused(settle_cap_ms=value))

    def test_a_long_wrong_value_is_cut(self) -> None:
        self.assertLess(len(self.refused(max_steps="9" * 60 + "x" * 5000)), 200)

    def test_every_number_is_held_to_its_range(self) -> None:
        for name, spec in NUMBERS.items():
            least, most = map(float, spec.takes.split(" to "))
            for end in (least, most):
                self.assertEqual(getattr(loaded(**{name: end}), name), end)
            for value in (least - 1, most + 1):
                self.assertRegex(
                    self.refused(**{name: value}),
                    rf" {name} \(.*\) takes a (whole )?number, {spec.takes}, not '{value}'\.$",
                )


class Contradictions(unittest.TestCase):
    """Settings which contradict each other are refused before anything is done."""

    def begun(self, settings: Any) -> None:
        """A run with these settings may act."""
        config, stop = agent.load_config({"test": settings}), agent.Stop()
        agent.Actuator(windows_desktop()[1], config, VirtualClock(stop), stop)

    def test_each_pair_is_refused_and_both_are_named_with_what_to_do(self) -> None:
        pairs: tuple[dict[str, Any], ...] = (
            {"vision": False, "controls": "off"},
            {"confirm": "never", "risky_words": "publish"},
            {"stop_hotkey": "ctrl+alt+q", "pause_hotkey": "alt+ctrl+q"},
        )
        for pair in pairs:
            with self.assertRaisesRegex(agent.ConfigError, r"; (lower|leave|give) .*\.$") as caught:
                self.begun(pair)
            for name in pair:
                self.assertIn(name, str(caught.exception))
        for profile in agent.PROFILES.values():
            self.begun(profile.settings)


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
            agent.ConfigError, r"^environment variable AGENT_MAX_STEPS: max_steps .*takes"
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

    def test_it_counts_whatever_its_name(self) -> None:
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.path.parent)
        for name in ("recording", "description", "demo", "command line"):
            Path(name).write_text('{"max_steps": 5}', "utf-8")
            self.assertEqual(read({}, "--config", name).max_steps, 5, name)
        os.chdir(here)

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
                str(caught.exception), r" \(no file of at most 1 MB is there\); [^\n]*\.$"
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
            with self.assertRaisesRegex(agent.ConfigError, "no file of at most 1 MB"):
                read({}, "--config", path)


if __name__ == "__main__":
    unittest.main()
