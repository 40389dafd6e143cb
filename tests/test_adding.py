"""Adding a tool and a profile, as the README says, to a copy of the file that is then run."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import agent
from tests import test_main
from tests.fakes import VirtualClock
from tests.samples import VARIABLE, for_the_gate, sample

CHECKOUT = Path(agent.__file__).resolve().parent
README = CHECKOUT / "README.md"

# Rows that stand in the file; a new row of the same table is put before each.
TOOLS_ROW = "double_click  | Double-click."
EXTRA_ROW = "EXTRA_TOOLS = ("
HANDS_ROW = '"press_key": lambda hands, args:'
VOCABULARY_ROWS = {
    "planner": "type_text=type_text_input",
    "commander": "archive=compress_memory",
    "chat": "scroll_at=scroll_at_position",
    "story": "press_key=key",
}

# The modules that list the tools of the default profile, and those that hold the whole file against something.
KNOW_TOOLS = "tests.test_replies tests.test_tools tests.described.test_profiles".split()
FEW_OF_THEM = """tests.test_tools tests.described.test_profiles.Requests
    tests.test_replies.Cases.test_each_reply_of_the_files_is_read_as_its_row_says_or_refused_in_a_short_sentence
    """.split()
HOLD_THE_FILE = """tests.test_kept tests.test_shape tests.test_breaks tests.test_readme tests.test_grammars
    tests.test_loops tests.test_labels tests.test_gates""".split()

# A profile whose vocabulary stays without the tool.
WITHOUT_THE_TOOL = "pointer"

# A copied row of PROFILES, changed: one profile's roles and settings with another one's words.
COPIED_PROFILE, ITS_WORDS, OTHER_WORDS = "commander", "COMMANDER_WORDS", "PLANNER_WORDS"


def from_the_readme(beginning: str) -> str:
    """The row of code that begins so in the README, where it stands between backquotes or in a block."""
    text = README.read_text(encoding="utf-8")
    begins = re.escape(beginning)
    [(within, alone)] = re.findall(rf"`({begins}[^`]*)`|^ *({begins}.*)$", text, re.M)
    return alone or within


def place_of(lines: list[str], standing: str) -> int:
    """The one line of the file that begins so."""
    [place] = [n for n, line in enumerate(lines) if line.strip().startswith(standing)]
    return place


def put(lines: list[str], row: str, standing: str) -> None:
    """Puts a row before the one that begins with `standing`, as far to the right."""
    place = place_of(lines, standing)
    left = len(lines[place]) - len(lines[place].lstrip())
    lines.insert(place, " " * left + row)


def put_tool(lines: list[str], profiles: Iterable[str]) -> None:
    """Adds the tool of the README's recipe, step by step."""
    put(lines, from_the_readme("quadruple_click |"), TOOLS_ROW)
    put(lines, from_the_readme('"quadruple_click": lambda'), HANDS_ROW)
    for profile in profiles:
        put(lines, from_the_readme("quadruple_click="), VOCABULARY_ROWS[profile])
    extra = place_of(lines, EXTRA_ROW)
    lines[extra] = lines[extra].replace("(", '("quadruple_click", ', 1)


def copy_profile(lines: list[str]) -> None:
    """Copies the row of a profile behind it, and gives the copy another name and other words."""
    first = place_of(lines, f'"{COPIED_PROFILE}",') - 1
    end = lines[first].replace("Profile(", "),")
    last = lines.index(end, first) + 1
    copied = "\n".join(lines[first:last]).replace(f'"{COPIED_PROFILE}"', '"sixth"', 1)
    assert ITS_WORDS in copied
    lines.insert(last, copied.replace(ITS_WORDS, OTHER_WORDS))


@cache
def with_all_rows() -> ModuleType:
    """A copy with the tool, named in each vocabulary of the list, and a sixth profile."""
    lines = (CHECKOUT / "agent.py").read_text(encoding="utf-8").splitlines()
    put_tool(lines, VOCABULARY_ROWS)
    copy_profile(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "agent.py")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        spec = importlib.util.spec_from_file_location("agent_with_rows", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module
        spec.loader.exec_module(module)
    unittest.addModuleCleanup(sys.modules.pop, module.__name__)
    return module


class AddingCase(test_main.CommandLineCase):
    def main_of_the_copy(self, *arguments: str) -> tuple[int, str]:
        """(exit code, what was said) of a command line of the copy."""
        copy = with_all_rows()
        with (
            mock.patch.object(test_main, "agent", copy),
            mock.patch.object(copy, "SystemClock", VirtualClock),
        ):
            code, out, err = self.main(*arguments)
        return code, out + err

    def demo(self, profile: str, *more: str) -> tuple[int, str, list[dict[str, Any]]]:
        """(exit code, what was said, the journal) of a demo of the copy, the only one of a test."""
        code, said = self.main_of_the_copy("--demo", "--profile", profile, *more)
        self.assertTrue((self.run_folder() / "turns.jsonl").exists(), said)
        return code, said, self.records()


class ATool(AddingCase):
    def test_a_tool_by_the_recipe_is_used_in_each_profile_that_names_it(self) -> None:
        """It sees it fit for the Notes icon; nothing comes of it, so the run ends at its last turn."""
        copy = with_all_rows()
        step = copy.DemoStep("^quadruple_click", "It can be tried", "Notes icon")
        acts = {"quadruple_click_element": "x1 y1 label"}
        with (
            mock.patch.object(copy, "DEMO_STEPS", (step, *copy.DEMO_STEPS)),
            mock.patch.dict(copy.DEMO_ACTS['"observation"'], acts),
        ):
            for profile in VOCABULARY_ROWS:
                with self.subTest(profile):
                    code, said, records = self.demo(profile, "--max-steps", "3")
                    self.assertEqual((code, "max_steps" in said), (1, True), said)
                    done = [one for one in records if one["kind"] in ("intent", "result")]
                    self.assertEqual(done[0]["tool"], "quadruple_click", said)
                    self.assertEqual(done[0]["args"]["element_name"], "Notes icon")
                    self.assertRegex(done[1]["result"], "^Clicked four times 'Notes'")
                    shutil.rmtree(self.run_folder())
            code, said, records = self.demo(WITHOUT_THE_TOOL)
        self.assertEqual(code, 0, said)
        self.assertNotIn("quadruple_click", str(records))

    def test_an_argument_by_which_another_act_is_meant_is_refused_as_of_any_tool(self) -> None:
        copy = with_all_rows()
        words = copy.PROFILES["planner"].vocabulary
        given = {"element_name": "Notes", "position": [5, 5]}
        call = copy.ToolCall("quadruple_click_element", given)
        self.assertEqual(words.parse(call, by_model=True).name, "quadruple_click")
        for name, value in (("button", "right"), ("hold", "shift"), ("times", 2)):
            other = copy.ToolCall("quadruple_click_element", {**given, name: value})
            with self.assertRaisesRegex(copy.ReplyError, f"takes no '{name}'"):
                words.parse(other, by_model=True)


class AProfile(AddingCase):
    def test_a_sixth_profile_is_a_row_of_data_and_is_named_where_they_are_listed(self) -> None:
        code, said, records = self.demo("sixth")
        self.assertEqual(code, 0, said)
        self.assertEqual(records[0]["profile"], "sixth")
        words = agent.PROFILES["planner"].vocabulary.tools
        used = {record["tool"] for record in records if record["kind"] == "action"}
        self.assertLessEqual({words["double_click"], words["report_complete"]}, used)
        self.assertEqual(records[-1]["outcome"], "completed")
        code, said = self.main_of_the_copy("--help")
        self.assertEqual((code, "sixth" in said), (0, True), said)


# Prints each scene of a click that is asked about and of the new tool is not.
UNASKED = """
import sys
from tests.attacks import scenes

clicks = [
    row for row in scenes.ROWS if row["outcome"] == "asked" and row["steps"][-1][0] == "click"
]
for row in clicks[:: int(sys.argv[1])]:
    row["steps"][-1] = ["quadruple_click", row["steps"][-1][1]]
    print(row["name"] if scenes.outcome(row) == "passed" else "asked")
"""


class ItsTests(unittest.TestCase):
    """In a copy of the checkout with the tool in the default profile."""

    @classmethod
    @cache  # and so compiled once
    def copied(cls) -> Path:
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        copy = Path(made.name, "copy")
        shutil.copytree(
            CHECKOUT, copy, ignore=shutil.ignore_patterns(".*cache", "__pycache__", "dumps", ".git")
        )
        lines = (copy / "agent.py").read_text(encoding="utf-8").splitlines()
        put_tool(lines, ["planner"])
        (copy / "agent.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return copy

    @for_the_gate
    def test_what_a_click_is_asked_about_the_new_tool_is_asked_about(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", UNASKED, str(sample(1, 10))],
            cwd=self.copied(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
        )  # fmt: skip
        became = done.stdout.splitlines()
        self.assertGreater(len(became), sample(500, 50))
        self.assertEqual({*became}, {"asked"})

    @for_the_gate
    def test_the_recipe_leaves_the_tests_green(self) -> None:
        copy = self.copied()
        names = sample(KNOW_TOOLS + HOLD_THE_FILE, FEW_OF_THEM)
        environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
        python = [sys.executable, "-m"]
        if "tests.test_kept" in names:  # step 4
            subprocess.run(
                [*python, "tests.kept"],
                cwd=copy, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True,
            )  # fmt: skip
        done = subprocess.run(
            [*python, "tests", "--processes", sample("0", "1"), *names],
            cwd=copy, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"Ran [1-9]\d+ tests")
