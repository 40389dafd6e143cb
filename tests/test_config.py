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

DEFAULTS = vars(agent.Config())
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
            if spec.default is not None:
                self.assertEqual(type(spec.default), spec.type, spec.name)
            self.assertGreater(len(agent.SETTINGS[spec.name].text), 2, spec.name)
        self.assertEqual(agent.load_config({"defaults": DEFAULTS}), agent.Config())
        for name, default in {
            "lmstudio_model": "",
            "lmstudio_timeout": 240.0,
            "max_steps": 50,
        }.items():
            self.assertEqual(repr(DEFAULTS[name]), repr(default))
        with self.assertRaises(FrozenInstanceError):
            agent.Config().max_steps = 5  # type: ignore[misc]

    def test_every_setting_that_the_program_reads_is_in_the_table(self) -> None:
        """A type checker does not read the table, so it does not see a name that is misspelt."""
        found = set()
        for node in ast.walk(ast.parse(Path(agent.__file__).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and HOLDS_CONFIG.search(ast.unparse(node.value)):
                found.add(node.attr)
        self.assertEqual(found - set(dir(agent.Config())), NOT_OF_THE_TABLE)
        self.assertGreater(len(found), 60)

    def test_no_two_fields_share_an_environment_variable(self) -> None:
        names = [setting.env for setting in agent.SETTINGS.values() if setting.env]
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(all(name.startswith(("LMSTUDIO_", "AGENT_")) for name in names))


class Values(unittest.TestCase):
    def test_values_come_in_the_type_of_the_field(self) -> None:
        for name, given, value in (
            ("max_steps", "30", 30),
            ("settle_cap_ms", "1500", 1500.0),
            ("drag_steps", 4.0, 4),
            *(("dry_run", word, True) for word in ("true", "True", "1", "yes", " on ", True, 1)),
            *(("notify", word, False) for word in ("false", "0", "no", "OFF", False, 0)),
        ):
            self.assertEqual(repr(getattr(loaded(**{name: given}), name)), repr(value), given)

    def test_every_number_is_held_to_its_range(self) -> None:
        numbers = [spec.name for spec in fields(agent.Config) if spec.type in (int, float)]
        self.assertIn("lmstudio_temperature", numbers)  # which is unset
        for name in numbers:
            takes = agent.SETTINGS[name].takes
            least, most = map(float, takes.split(" to "))
            for end in (least, most):
                self.assertEqual(getattr(loaded(**{name: end}), name), end)
            for value in (least - 1, most + 1):
                shown = takes.replace(".0", "")
                told = rf"^--set: {name} \(.*\) takes a (whole )?number, {shown}, not '{value}'\.$"
                with self.assertRaisesRegex(agent.ConfigError, told):
                    loaded(**{name: value})


class Layers(unittest.TestCase):
    def test_the_names_of_the_described_systems_are_read_from_the_environment(self) -> None:
        for variable, name, given, value in (
            ("LMSTUDIO_ENDPOINT", "lmstudio_endpoint", "http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"),
            ("LMSTUDIO_MODEL", "lmstudio_model", "qwen3-vl-8b", "qwen3-vl-8b"),
            ("LMSTUDIO_TIMEOUT", "lmstudio_timeout", "60", 60.0),
            ("LMSTUDIO_TEMPERATURE", "lmstudio_temperature", "0.2", 0.2),
            ("LMSTUDIO_MAX_TOKENS", "executor_max_tokens", "900", 900),
            ("AGENT_IMAGE_W", "screen_capture_w", "1280", 1280),
            ("AGENT_IMAGE_H", "screen_capture_h", "720", 720),
            ("AGENT_MAX_STEPS", "max_steps", "12", 12),
            ("AGENT_STEP_DELAY", "turn_delay", "0.4", 0.4),
            ("AGENT_DUMP_DIR", "dump_dir", "runs", "runs"),
        ):  # fmt: skip
            self.assertEqual(getattr(read({variable: given, "PATH": "/bin"}), name), value)
        self.assertEqual(read({"AGENT_MAX_STEPS": "", "HOME": "/"}), read({}))
        self.assertEqual(read({}, "--set", "confirm = never ").confirm, "never")


class Patterns(unittest.TestCase):
    def test_a_part_of_a_title_blocks_its_windows_and_a_program_only_itself(self) -> None:
        config = read({}, "--set", "blocked_windows=My Bank; keepass; code.exe; *.pdf - Reader")
        whole = agent.Rect(0, 0, 9, 9)
        for title, program, is_blocked in (
            ("Start - my bank - Google Chrome", "chrome.exe", True),
            ("Passwords", "KeePass.exe", True),
            ("a.py", "Code.exe", True),
            ("code.exe - Notepad", "notepad.exe", False),
            ("a.pdf - Reader", "reader.exe", True),
            ("a.pdf - Reader 2", "reader.exe", False),
            ("Banks of the Rhine", "winword.exe", False),
        ):
            window = agent.Window(1, title, program, whole)
            told = ""
            try:
                agent.refuse_window(window, config)
            except agent.ToolError as error:
                told = error.kind
            self.assertEqual(told, "forbidden_window" if is_blocked else "", title)
        self.assertEqual(read({}).blocked_windows, "")


class File(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "my agent.json"

    def config(self, content: bytes) -> agent.Config:
        self.path.write_bytes(content)
        return read({}, "--config", str(self.path))

    def test_an_object_is_a_layer_whatever_the_files_name_and_its_mark_in_front(self) -> None:
        config = self.config(json.dumps({"max_steps": 5, "lmstudio_model": "größer"}).encode())
        self.assertEqual((config.max_steps, config.lmstudio_model), (5, "größer"))
        self.assertEqual(self.config(b'\xef\xbb\xbf{"max_steps": 5}').max_steps, 5)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.path.parent)
        for name in ("recording", "description", "demo", "command line"):
            Path(name).write_text('{"max_steps": 5}', "utf-8")
            self.assertEqual(read({}, "--config", name).max_steps, 5, name)

    def test_the_environment_is_laid_over_it_and_the_command_line_over_both(self) -> None:
        self.path.write_bytes(b'{"max_steps": 5}')
        environ, file = {"AGENT_MAX_STEPS": "6"}, ("--config", str(self.path))
        self.assertEqual(read(environ, *file).max_steps, 6)
        self.assertEqual(read(environ, *file, "--max-steps", "7").max_steps, 7)
        self.assertEqual(read(environ, "--set", "max_steps=8").max_steps, 8)

    def test_what_is_no_file_of_at_most_1_mb_is_refused_at_once(self) -> None:
        paths: list[object] = [self.path, self.path.parent, os.devnull]
        if hasattr(os, "mkfifo"):  # opened, it would wait for a writer for ever
            paths.append(self.path.with_name("pipe"))
            os.mkfifo(self.path.with_name("pipe"))
        endless = self.path.with_name("endless")
        endless.write_text(" " * (1 << 20) + "{}")
        for path in (*paths, endless):
            told = rf"^{re.escape(str(path))} .*\(no file of at most 1 MB is there\); .*\.$"
            with self.assertRaisesRegex(agent.ConfigError, told):
                read({}, "--config", str(path))
