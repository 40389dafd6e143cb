"""Adding a tool, a profile and a Win32 function, as the README says, to a copy of the file that is then run.

The rows are taken from the README where it gives them, and put in beside a row that stands there already. What is
not said by a recipe must not be needed: nothing else is changed. Two copies have all rows, since each is compiled anew;
no recipe touches a table of another one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import unittest
from functools import cache
from pathlib import Path
from typing import Any

import agent
from tests.starting import environment
from tests.test_main import QUICK

CHECKOUT = Path(agent.__file__).resolve().parent
README = CHECKOUT / "README.md"

# Rows that stand in the file; a new row of the same table is put behind each.
TOOLS_ROW = 'Tool("drag", DragArgs,'
HANDS_ROW = '"drag": lambda hands, args:'
DEMO_TOOLS_ROW = 'DemoTool("move",'
DEMO_STEPS_ROW = 'DemoStep("look",'
WIN32_ROW = '"GetDoubleClickTime": Row('
VOCABULARY_ROWS = {
    "planner": '"type_text": "type_text_input",',
    "commander": '"archive": "compress_memory",',
    "chat": '"scroll_at": "scroll_at_position",',
    "story": '"type_text": "type",',
}

# What the demo's model must know to use the tool: its name in every vocabulary, and when.
DEMO_TOOL = 'DemoTool("quadruple click", "^quadruple_click", "quadruple_click_element", ("x1", "y1", "label")),'
DEMO_STEP = 'DemoStep("quadruple click", "It can be tried", "Notes icon", sees=("Notes icon",)),'

# The demo waits for nothing.
HASTY = "settle_floor_ms=0 settle_interval_ms=1 settle_patience_ms=0 demo_page_wait=0".split()

# A copied row of PROFILES, changed: one profile's roles and settings with another one's words.
COPIED_PROFILE, ITS_WORDS, OTHER_WORDS = "commander", "COMMANDER_WORDS", "PLANNER_WORDS"

WIN32_FUNCTION = '"GetCaretBlinkTime": Row("user32", UINT, [], nonzero),'
WIN32_PROGRAM = """
import json
import agent

asked = []

def resolve(dll, name, restype, argtypes):
    asked.append([dll, name, restype.__name__, list(argtypes)])
    return lambda: answers.pop()

answers = [0, 530]
api = agent.Win32(resolve, lambda: 5)
found = [api.GetCaretBlinkTime()]
try:
    api.GetCaretBlinkTime()
except agent.Win32Error as error:
    found += [error.function, error.code]
print(json.dumps([asked, found]))
"""


def from_the_readme(beginning: str) -> str:
    """The row of code that begins so in the README, where it stands between backquotes or in a block."""
    text = README.read_text(encoding="utf-8")
    rows = re.findall(
        rf"^ *`?({re.escape(beginning)}.*?)`?$|`({re.escape(beginning)}[^`]*)`", text, re.M
    )
    if len(rows) != 1:
        raise AssertionError(f"The README must give one row that begins with {beginning}: {rows}")
    return rows[0][0] or rows[0][1]


def is_open(lines: list[str]) -> bool:
    """Whether a bracket of these lines is closed further down."""
    text = "".join(lines)
    return any(text.count(one) > text.count(other) for one, other in ("()", "[]", "{}"))


class Copy:
    """A copy of the file in a folder of its own, which gets rows until it is written."""

    def __init__(self) -> None:
        folder = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.source = (CHECKOUT / "agent.py").read_text(encoding="utf-8")

    def insert(self, row: str, standing: str) -> None:
        """Puts a row behind the one line of the file that begins with `standing`, as far to the right."""
        lines = self.source.splitlines()
        places = [n for n, line in enumerate(lines) if line.strip().startswith(standing)]
        if len(places) != 1:
            raise AssertionError(f"There must be one row that begins with {standing}")
        left = len(lines[places[0]]) - len(lines[places[0]].lstrip())
        behind = places[0] + 1
        while is_open(lines[places[0] : behind]):
            behind += 1
        lines.insert(behind, " " * left + row)
        self.source = "\n".join(lines) + "\n"

    def insert_tool(self, *vocabularies: str) -> None:
        """The tool by its recipe, named in these vocabularies."""
        self.insert(from_the_readme('Tool("quadruple_click"'), TOOLS_ROW)
        self.insert(from_the_readme('"quadruple_click": lambda'), HANDS_ROW)
        for profile in vocabularies:
            self.insert(from_the_readme('"quadruple_click": "'), VOCABULARY_ROWS[profile])

    def copy_profile(self) -> None:
        """Copies the row of a profile behind it, and gives the copy another name and other words."""
        lines = self.source.splitlines()
        beginning = f'        Profile(\n            "{COPIED_PROFILE}",\n'
        if self.source.count(beginning) != 1:
            raise AssertionError(f"PROFILES must have one row of {COPIED_PROFILE}")
        first = self.source[: self.source.index(beginning)].count("\n")
        last = first + 1
        while is_open(lines[first:last]):
            last += 1
        copied = "\n".join(lines[first:last])
        if ITS_WORDS not in copied:
            raise AssertionError(f"{COPIED_PROFILE} must have {ITS_WORDS}")
        copied = copied.replace(f'"{COPIED_PROFILE}"', '"sixth"', 1)
        lines.insert(last, copied.replace(ITS_WORDS, OTHER_WORDS))
        self.source = "\n".join(lines) + "\n"

    def write(self) -> Path:
        (self.folder / "agent.py").write_text(self.source, encoding="utf-8")
        return self.folder


@cache
def with_the_tool() -> Path:
    """The folder of a copy in which every vocabulary has the tool, with a function of Win32."""
    copy = Copy()
    copy.insert_tool(*VOCABULARY_ROWS)
    copy.insert(DEMO_TOOL, DEMO_TOOLS_ROW)
    copy.insert(DEMO_STEP, DEMO_STEPS_ROW)
    copy.insert(WIN32_FUNCTION, WIN32_ROW)
    return copy.write()


@cache
def with_a_profile() -> Path:
    """The folder of a copy with a sixth profile, in which only the vocabulary of chat has the tool."""
    copy = Copy()
    copy.insert_tool("chat")
    copy.copy_profile()
    return copy.write()


class AddingCase(unittest.TestCase):
    def run_copy(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs Python on the copy in a folder, in that folder."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment(folder, **QUICK, PYTHONUTF8="1"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
        )

    def demo(
        self, folder: Path, profile: str, *arguments: str
    ) -> tuple[int, str, list[dict[str, Any]]]:
        """(exit code, what was said, the journal) of a demo of the copy."""
        dumps = folder / f"dumps_{profile}"
        settings = [f"--set={setting}" for setting in (*HASTY, f"dump_dir={dumps}")]
        done = self.run_copy(
            folder, "-m", "agent", "--demo", "--profile", profile, *settings, *arguments
        )
        journal = dumps / "run_0001" / "turns.jsonl"
        self.assertTrue(journal.exists(), done.stderr)
        lines = journal.read_text(encoding="utf-8").splitlines()
        return done.returncode, done.stdout + done.stderr, [json.loads(line) for line in lines]


class ATool(AddingCase):
    def test_a_tool_by_the_recipe_is_used_by_the_demos_model_in_each_profile_that_names_it(
        self,
    ) -> None:
        for profile in VOCABULARY_ROWS:
            with self.subTest(profile):
                self.check_acts(*self.demo(with_the_tool(), profile, "--max-steps", "3"))

    def check_acts(self, code: int, said: str, records: list[dict[str, Any]]) -> None:
        """It was carried out on the Notes icon; nothing comes of it, so the run ends at its last turn."""
        self.assertEqual(code, 1, said)
        self.assertIn("max_steps", said)
        acts = [record for record in records if record["kind"] == "intent"]
        results = [record["result"] for record in records if record["kind"] == "result"]
        self.assertEqual(acts[0]["tool"], "quadruple_click", said)
        self.assertEqual(acts[0]["args"]["element_name"], "Notes icon")
        self.assertEqual(results[0], "Clicked four times: Notes icon")

    def test_a_vocabulary_without_the_tool_does_not_offer_it(self) -> None:
        code, said, records = self.demo(with_a_profile(), "commander")
        self.assertEqual(code, 0, said)
        self.assertNotIn("quadruple_click", str(records))


class AProfile(AddingCase):
    def test_a_sixth_profile_is_a_row_of_data(self) -> None:
        code, said, records = self.demo(with_a_profile(), "sixth")
        self.assertEqual(code, 0, said)
        self.assertEqual(records[0]["profile"], "sixth")
        words = agent.PROFILES["planner"].vocabulary.tools
        used = {record["tool"] for record in records if record["kind"] == "action"}
        self.assertLessEqual({words["double_click"], words["report_complete"]}, used)
        self.assertEqual(records[-1]["outcome"], "completed")

    def test_it_is_named_where_the_profiles_are_listed(self) -> None:
        shown = self.run_copy(with_a_profile(), "-m", "agent", "--help")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("sixth", shown.stdout)


class AWin32Function(AddingCase):
    def test_a_function_is_a_row_and_can_be_called_and_checked(self) -> None:
        done = self.run_copy(with_the_tool(), "-c", WIN32_PROGRAM)
        self.assertEqual(done.returncode, 0, done.stderr)
        asked, found = json.loads(done.stdout)
        self.assertEqual(asked, [["user32", "GetCaretBlinkTime", agent.DWORD.__name__, []]])
        self.assertEqual(found, [530, "GetCaretBlinkTime", 5])

    def test_without_its_row_it_is_asked_for_by_name(self) -> None:
        done = self.run_copy(CHECKOUT, "-c", WIN32_PROGRAM)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("GetCaretBlinkTime", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
