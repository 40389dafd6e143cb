"""The comparison of two checkouts must see what differs, and only that."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import agent
from tests import compare

CHECKOUT = Path(agent.__file__).resolve().parent
WORD, OTHER_WORD = "You are the Computer Task Executor", "You are the Computer Job Executor"
# The demo waits for nothing, and its pictures are small.
SETTINGS = "settle_floor_ms=0 settle_interval_ms=1 settle_patience_ms=0".split()
SETTINGS += "demo_page_wait=0 screen_capture_w=768 screen_capture_h=432".split()

# The agent.py of a checkout that has one word other than another checkout has. It takes what is compiled already of the
# other one, since to compile the file takes longer than its demo.
PLANTED = """
import sys
from importlib.machinery import SourceFileLoader

def planted(value):
    if isinstance(value, str):
        return value.replace({old!r}, {new!r})
    if isinstance(value, tuple):
        return tuple(map(planted, value))
    if hasattr(value, "co_consts"):
        return value.replace(co_consts=planted(value.co_consts))
    return value

exec(planted(SourceFileLoader("agent", {path!r}).get_code("agent")))
"""


def demo(**changes: Any) -> compare.Demo:
    """A demo of one request and two journal lines."""
    state = {"kind": "state", "time": 0, "task": None, "memory": None, "plan": "p"}
    run = {"kind": "run", "time": 0, "config": {"max_steps": 50}}
    values = {
        "code": 0,
        "said": "completed\n",
        "requests": ['/v1/chat/completions {"messages": [{"content": "You act."}]}'],
        "journal": [run, state],
        "log": ["TIME one", "TIME two"],
        "files": {"turns.jsonl": "", "screenshots/turn_0001.png": "ab12"},
    }
    return compare.Demo(**{**values, **changes})


class Comparing(unittest.TestCase):
    maxDiff = None

    def found(self, **changes: Any) -> tuple[list[str], list[str]]:
        """The differences from the plain demo, and the cuts that were met."""
        named = set[str]()
        differences = list(compare.differences(demo(), demo(**changes), named))
        return differences, sorted(named)

    def test_two_demos_alike_have_no_difference(self) -> None:
        self.assertEqual(self.found(), ([], []))

    def test_a_changed_word_in_a_request_is_found_with_its_place(self) -> None:
        changed = ['/v1/chat/completions {"messages": [{"content": "You wait."}]}']
        self.assertEqual(
            self.found(requests=changed)[0],
            ['request 1.messages[0].content: at 4: "You act." -> "You wait."'],
        )

    def test_a_request_that_is_only_written_differently_is_found_too(self) -> None:
        changed = ['/v1/chat/completions {"messages":[{"content":"You act."}]}']
        (found,) = self.found(requests=changed)[0]
        self.assertRegex(found, r"^request 1: at 33: ")

    def test_a_request_more_or_less_is_found(self) -> None:
        self.assertEqual(self.found(requests=[])[0], ["requests: 1 -> 0"])

    def test_a_changed_new_or_missing_field_of_the_journal_is_found(self) -> None:
        run, state = demo().journal
        lines = [{**run, "time": "0"}, {**state, "plan": "q", "extra": 1}]
        self.assertEqual(
            self.found(journal=lines)[0],
            [
                'turns.jsonl:1 run.time: 0 -> "0"',
                'turns.jsonl:2 state.plan: at 0: "p" -> "q"',
                "turns.jsonl:2 state.extra is new: 1",
            ],
        )
        lines = [run, {name: value for name, value in state.items() if name != "plan"}]
        self.assertEqual(self.found(journal=lines)[0], ['turns.jsonl:2 state.plan is gone: "p"'])

    def test_a_line_more_and_fields_in_another_order_are_found(self) -> None:
        run, state = demo().journal
        self.assertRegex(self.found(journal=[run, state, state])[0][0], "the kinds of lines differ")
        turned = dict(reversed(state.items()))
        self.assertRegex(self.found(journal=[run, turned])[0][0], "the same names in another order")

    def test_a_cut_is_named_and_is_no_difference(self) -> None:
        lines = [
            {"kind": "run", "time": 0, "config": {"max_steps": 50, "marks_colour": 1}},
            {"kind": "state", "time": 0, "plan": "p"},
        ]
        differences, named = self.found(journal=lines)
        self.assertEqual(differences, [])
        self.assertEqual(
            [line.partition(" (")[0] for line in named],
            ["run.config.marks_colour is new", "state.memory is gone", "state.task is gone"],
        )

    def test_lines_entries_and_files_that_are_new_on_purpose_are_named_and_no_difference(
        self,
    ) -> None:
        run, state = demo().journal
        log = ["TIME one", "TIME ROLE planner", "    system: x", "TIME two"]
        files = {**demo().files, "screenshots/turn_0000.png": "cd"}
        role = {"kind": "role", "time": 0, "name": "planner"}
        differences, named = self.found(journal=[run, role, state], log=log, files=files)
        self.assertEqual(differences, [])
        self.assertEqual(
            [line.partition(" (")[0] for line in named],
            [
                "lines of kind role",
                "logs: roles, state, pictures and a story's actions are logged",
                "screenshots/turn_0000.png",
            ],
        )

    def test_a_turns_header_may_say_its_mode_and_nothing_else(self) -> None:
        old = demo(log=["=== TURN 3 ==="])
        for header, differ in (
            ("=== TURN 3 - EXECUTION ===", 0),
            ("=== TURN 4 - EXECUTION ===", 1),
        ):
            found = list(compare.differences(old, demo(log=[header]), set()))
            self.assertEqual(len(found), differ, header)

    def test_a_chats_message_may_name_file_and_size_of_its_screenshot(self) -> None:
        told = json.dumps({"ok": True, "screenshot": 1, "window": "W"})
        more = {"file": "a.png", "size": [1, 2], "screen_size": [3, 4]}
        new = json.dumps({"ok": True, "screenshot": 1, **more, "window": "W"})
        bodies = [f"/v1 {json.dumps({'content': words})}" for words in (told, new)]
        old, changed = (demo(requests=[body]) for body in bodies)
        self.assertEqual(list(compare.differences(old, changed, set())), [])

    def test_a_setting_on_both_sides_must_be_the_same(self) -> None:
        lines = [{"kind": "run", "time": 0, "config": {"max_steps": 51}}, demo().journal[1]]
        self.assertEqual(
            self.found(journal=lines)[0], ["turns.jsonl:1 run.config.max_steps: 50 -> 51"]
        )

    def test_exit_code_log_terminal_and_files_are_compared(self) -> None:
        for changes in (
            {"code": 1},
            {"log": ["TIME one"]},
            {"said": "stuck\n"},
            {"files": {"turns.jsonl": ""}},
            {"files": {"turns.jsonl": "", "screenshots/turn_0001.png": "cd34"}},
        ):
            self.assertEqual(len(self.found(**changes)[0]), 1, changes)

    def test_times_ports_and_folders_are_made_alike(self) -> None:
        folder = Path("/tmp/x1")
        for text in ("10:40:41.091 in 0.07 s", "see /tmp/x1/dumps", "http://127.0.0.1:5123/v1"):
            self.assertNotRegex(compare.made_alike(text, folder), r"\d\.\d\d|x1|5123|:41")
        self.assertEqual(compare.made_alike("a  0.3 s   4", folder), "a SECONDS   4")

    def test_a_planted_word_is_found_in_real_demos_and_the_same_file_is_the_same(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = CHECKOUT / "agent.py"
            self.assertIn(WORD, path.read_text(encoding="utf-8"))
            planted = PLANTED.format(old=WORD, new=OTHER_WORD, path=str(path))
            (Path(name) / "agent.py").write_text(planted, encoding="utf-8")
            old, new = (
                compare.run_demo(checkout, "planner", *SETTINGS, "max_steps=2")
                for checkout in (CHECKOUT, Path(name))
            )
        self.assertEqual(list(compare.differences(old, old, set())), [])
        self.assertRegex(next(compare.differences(old, new, set())), "Task Executor.*Job Executor")


if __name__ == "__main__":
    unittest.main()
