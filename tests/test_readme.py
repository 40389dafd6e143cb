"""What the README states of the program, held against the program: options, settings, figures, profiles, files.

A sentence with a figure stands in STATED with the figure left out, which the program fills in: whoever changes a
default finds the sentence that tells it, and whoever changes the sentence the row. What is proven by other tests is not
repeated here; `from_the_readme` of tests/test_adding.py carries out its recipe.
"""

from __future__ import annotations

import os
import re
import shlex
import unittest
from dataclasses import fields
from pathlib import Path

import agent
from tests import test_main
from tests.attacks.__main__ import COUNT
from tests.bench import __main__ as bench
from tests.samples import for_the_gate

ROOT = Path(agent.__file__).resolve().parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = "".join(re.findall(r"```\n(.*?)```", README, re.S)).splitlines()  # of its blocks
# Options with which the program needs neither Windows nor a server.
NO_DESKTOP = set("--demo --runs --stats --report --print-config --manifest".split())
WORDS = " ".join(README.split())  # a sentence goes on over the ends of lines
CONFIG = agent.Config()
NUMBERS = ("no", "one", "two", "three", "four", "five")
# What is written in backquotes with underlines but is no setting: the names of tools, results, files and tables.
OTHER_NAMES = "run_task quadruple_click_element quadruple_click"
FOREIGN_OPTIONS = set(
    """--context-length --mmproj --jinja --chat-template-file --max-model-len --enable-auto-tool-choice
    --tool-call-parser --limit-mm-per-prompt""".split()
)  # of model servers


def number_of(setting: float) -> str:
    return f"{setting:,g}"


# Each is a sentence, or the part of one that holds a figure, and the figures.
STATED = (
    ("at most {} short corrections (`reply_corrections`)", NUMBERS[CONFIG.reply_corrections]),
    ("{} refused claims without anything new done end the run", NUMBERS[CONFIG.not_proven_most]),
    ("fewer `image_tokens` ({},", CONFIG.image_tokens),
    ("it waits {} s (`blind_patience`)", number_of(CONFIG.blind_patience)),
    ("at most {} acts a minute and", CONFIG.acts_per_minute),
    ("acts a minute and {} minutes", number_of(CONFIG.minutes_most)),
    ("The latest {} runs", 100),
    ("runs and {} MB are kept", number_of(CONFIG.keep_megabytes)),
    ("and goes on after {} quiet seconds", number_of(CONFIG.takeover_quiet)),
    ("on this control, for {} seconds;", 60),
    ("no answer within {} seconds is a no", number_of(CONFIG.confirm_wait)),
    ("`--confirm {}`, the default", CONFIG.confirm),
    ("The value ({} characters or more,", agent.SECRET_CHARS_LEAST),
    ("less than {} tokens cannot hold a turn", "6,000"),
    ("| **{}**, anywhere |", CONFIG.stop_hotkey.title()),
    ("| {} | pauses; again: goes on |", CONFIG.pause_hotkey.title()),
    ("--endpoint {} --model NAME", "localhost:11434"),
    ("listens on {}; without its", "127.0.0.1"),
    ("which waits {} for the page", "a minute" if CONFIG.demo_page_wait == 60 else "otherwise"),
)  # fmt: skip

# The words behind each exit code, and what ends with it.
EXIT_CODES = {
    "1 not completed": agent.AgentError,
    "2 wrong usage": agent.ConfigError,
    "3 no server or no desktop": agent.ModelError,
    "130 stopped": agent.Stopped,
}


class Statements(unittest.TestCase):
    def test_each_figure_is_that_of_the_program(self) -> None:
        items = bench.items_of(bench.QUICK, agent.Rect(0, 0, 640, 360), ["tools", "text"])
        minutes = round(len(items) * bench.SECONDS / 60)
        quick = ("({}", f"{minutes} minutes at {bench.SECONDS:g} s a request)")
        tricks = ("carries out {} known tricks", COUNT)
        for sentence, figure in (*STATED, quick, tricks):
            with self.subTest(sentence):
                self.assertTrue(sentence.format(figure) in WORDS, figure)

    def test_the_sizes_of_models_are_those_of_the_help(self) -> None:
        for model in ("2B", "4B", "8B"):
            (size,) = re.findall(rf"{model} \((\d\.\d GB)\)", README)
            self.assertRegex(agent.DOWNLOAD_WORDS, rf"qwen3-vl-{model.lower()}`,? \(?{size}")
            self.assertIn(f"qwen3-vl-{model.lower()}", README)

    def test_each_exit_code_is_that_of_its_errors(self) -> None:
        for words, error in EXIT_CODES.items():
            self.assertTrue(words.startswith(f"{error.exit_code} "))
            self.assertTrue(words in WORDS, words)
            self.assertIn(words, " ".join(agent.HELP.split()))
        self.assertEqual(agent.Win32Error.exit_code, agent.ModelError.exit_code)

    def test_each_profile_stands_in_the_table_with_its_limit(self) -> None:
        rows = re.findall(r"^\| `(\w+)`(?: \(default\))? \|.*\| (\d+) turns \|$", README, re.M)
        for name, most in rows:
            limit = agent.load_config({name: agent.PROFILES[name].settings}).max_steps
            self.assertEqual(int(most), limit, name)
        self.assertEqual([name for name, _ in rows], ["planner", "native"])  # the others by --help
        self.assertIn("| `planner` (default) |", README)


class Blocks(test_main.CommandLineCase):
    """What a reader pastes into a console."""

    def test_each_line_of_a_block_is_a_command_and_nothing_else(self) -> None:
        """cmd takes a comment, or a description behind blanks, for arguments."""
        for line in LINES:
            with self.subTest(line):
                self.assertRegex(line, r"^(lms|python) ")
                self.assertNotRegex(line, r"\s#|^#|\s{2}|^\$|[\u2018-\u201f]|\\$|^\s*$")

    @for_the_gate
    def test_what_needs_no_desktop_runs_as_it_stands(self) -> None:
        """In a folder with a run of the demo; what opens a page says so and opens none."""
        within = re.findall(r"`(python agent\.py -[^`]*)`", README)
        commands = [line for line in within if NO_DESKTOP & {*line.split()}]
        self.assertGreater(len(commands), 5)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        for _ in range(7):  # number 7 is in a recipe
            self.assertEqual(self.main("--demo", "-q")[0], 0)
        for line in commands:
            if "--panel" in line:  # tests/test_panel.py has it: a browser asks for its page
                continue
            with self.subTest(line):
                code, out, err = self.main(*shlex.split(line)[2:], environ={"DISPLAY": ":0"})
                self.assertEqual((code, err), (0, ""), out)
        self.opened.assert_called_once()  # by --open


class Names(unittest.TestCase):
    def test_each_command_is_understood(self) -> None:
        within = re.findall(r"`(python agent\.py[^`]*)`", README)
        self.assertGreater(len(within), 7)
        for line in [*within, *(line for line in LINES if line.startswith("python agent.py"))]:
            with self.subTest(line):
                agent.command_line().parse_args(shlex.split(line)[2:])

    def test_each_option_and_each_setting_exists_and_takes_what_it_is_set_to(self) -> None:
        options = {name for names, _ in agent.OPTIONS for name in names.split()}
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)) - FOREIGN_OPTIONS
        self.assertLessEqual(named, options)
        known = {spec.name for spec in fields(agent.Config)}
        for name, value in re.findall(r"--set \"?(\w+)=([^`\"]+)", README):
            agent.load_config({"README": {name: value}})
        settings = set(re.findall(r"`([a-z]+_[a-z_]+)`", README)) - set(OTHER_NAMES.split())
        self.assertLessEqual(settings, known)
        told = " ".join(f"{one.name} {one.text}" for one in agent.SETTINGS.values())
        for part in set(re.findall(r"--settings (\w+)", README)) - {"all"}:
            self.assertIn(part, told)

    def test_each_tool_risk_file_room_and_table_exists(self) -> None:
        for tool in ("observe", "click"):
            self.assertIn(f"`{tool}`", README)
            self.assertIn(tool, agent.TOOLS)
        allowed = re.findall(r"allow_risky=(\w+)", README)
        self.assertLessEqual(set(allowed), {name for name, _ in agent.RISKS})
        files = re.findall(r"[(`](tests/[\w./]+)[)`]", README)
        self.assertGreater(len(files), 5)
        for name in files:
            self.assertTrue((ROOT / name).exists(), name)
        source = (ROOT / "agent.py").read_text(encoding="utf-8")
        for room in ("Tools", "Hands", "Profiles", "Risks", "Facts"):
            self.assertIn(f'"{room}"', README)
            self.assertIn(f"\n# {room} - ", source)
        for table in (
            "TOOLS HANDS PROFILES WIN32 GRAMMARS EXTRA_TOOLS ABOUT OUTCOMES RISKS _SERVERS".split()
        ):
            self.assertIn(f"`{table}`", README)
            self.assertTrue(hasattr(agent, table), table)

    def test_no_word_of_the_workshop_stands_above_the_fold_unexplained(self) -> None:
        """What a newcomer reads: to the first section."""
        fold = README.partition("\n## ")[0]
        self.assertIn("A *turn* is", fold)
        self.assertIn("at most one *act*: a click,", fold)
        self.assertIn("executor, which sees the screen and acts", WORDS)
        self.assertNotRegex(fold, r"(?i)\b(grid|grammar|vocabular\w+|gates?|tokens?|journal)\b")
        for said in ("python.org", "lmstudio.ai", "Not proven yet", "agent.py --demo"):
            self.assertIn(said, fold)

    def test_the_changelog_begins_with_how_to_upgrade_to_this_version(self) -> None:
        changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        heads = re.findall(r"^##+ (.*)$", changes, re.M)
        self.assertEqual(heads[:2], [agent.__version__, "How to upgrade"])
        options = {name for names, _ in agent.OPTIONS for name in names.split()}
        gains = changes.partition("\n### It tells the truth")[2].partition("\n## 0.1.0")[0]
        self.assertLessEqual(set(re.findall(r"`(--[a-z-]+)", gains)), options)
        for key in (CONFIG.stop_hotkey, CONFIG.pause_hotkey):
            self.assertIn(key.title(), changes)

    def test_it_stays_under_200_lines(self) -> None:
        self.assertLess(len(README.splitlines()), 200)
