"""The shape of the one file: rooms in order, used downward only, nothing done on import, short functions."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import symtable
import sys
import unittest
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "agent.py"
TEXT = SOURCE.read_text(encoding="utf-8")
TREE = ast.parse(TEXT)
BAR = "#" * 100
LONG_ALLOWED = 50  # lines of a function


def rooms() -> list[tuple[int, int]]:
    """(first line, room number) of each room, in file order."""
    lines = TEXT.splitlines()
    found = []
    for index, line in enumerate(lines):
        match = re.match(r"# Room (\d+) - \S", line)
        if match and lines[index - 1] == BAR and lines[index + 1] == BAR:
            found.append((index, int(match[1])))
    return found


def room_of(line: int, starts: list[tuple[int, int]]) -> int:
    return max((number for first, number in starts if first <= line), default=0)


def defined_names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def used_names(table: symtable.SymbolTable) -> set[str]:
    """The global names that a piece of code refers to, function bodies included and local names left out."""
    inner = table.get_type() != "module"
    own = {
        s.get_name()
        for s in table.get_symbols()
        if s.is_referenced() and (s.is_global() or not inner)
    }
    return own.union(*map(used_names, table.get_children()))


def upward_references(text: str, starts: list[tuple[int, int]]) -> list[str]:
    """References to a top-level name from a room above the one that defines it, bodies included."""
    body, lines = ast.parse(text).body, text.splitlines()
    home = {name: room_of(node.lineno, starts) for node in body for name in defined_names(node)}
    wrong = []
    for node in body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        code = "\n".join(lines[first - 1 : node.end_lineno])
        for name in used_names(symtable.symtable(code, "agent.py", "exec")):
            if home.get(name, 0) > room_of(first, starts):
                wrong.append(f"line {first}: {name} belongs to room {home[name]}")
    return wrong


class Shape(unittest.TestCase):
    def test_every_room_has_its_banner_and_they_stand_in_order(self) -> None:
        numbers = [number for _, number in rooms()]
        self.assertEqual(numbers, sorted(numbers))
        self.assertGreaterEqual(set(numbers), set(range(1, 17)) | {18})

    def test_a_room_uses_only_itself_and_the_rooms_above(self) -> None:
        self.assertEqual(upward_references(TEXT, rooms()), [])

    def test_the_downward_rule_notices_an_upward_reference(self) -> None:
        text = f"{BAR}\n# Room 1 - a\n{BAR}\ndef one():\n    return two()\n{BAR}\n# Room 2 - b\n{BAR}\ndef two():\n    return 2\n"
        wrong = upward_references(text, [(1, 1), (6, 2)])
        self.assertEqual(wrong, ["line 4: two belongs to room 2"])

    def test_no_top_level_name_is_defined_twice(self) -> None:
        names = [
            name
            for node in TREE.body
            if not isinstance(node, ast.AugAssign)
            for name in defined_names(node)
        ]
        self.assertEqual([name for name, times in Counter(names).items() if times > 1], [])

    def test_functions_are_short_and_most_of_them_very_short(self) -> None:
        spans = {
            node.name: (node.end_lineno or 0) - node.lineno + 1
            for node in ast.walk(TREE)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        self.assertEqual({name: span for name, span in spans.items() if span > LONG_ALLOWED}, {})
        self.assertLessEqual(statistics.median(spans.values()), 10)

    def test_the_file_stays_within_five_thousand_lines(self) -> None:
        self.assertLessEqual(TEXT.count("\n"), 5000)

    def test_only_the_standard_library_is_imported(self) -> None:
        modules = set()
        for node in ast.walk(TREE):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                modules.add((node.module or "").partition(".")[0])
        self.assertEqual(modules - set(sys.stdlib_module_names), set())

    def test_importing_the_file_prints_and_opens_nothing(self) -> None:
        code = "import sys; sys.addaudithook(lambda e, a: e.startswith('socket.') and sys.exit(e)); import agent"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=SOURCE.parent, capture_output=True, timeout=60
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

    def test_only_the_actuator_calls_the_input_methods_of_a_desktop(self) -> None:
        starts = rooms()
        calls = [
            (room_of(node.lineno, starts), node.func.attr)
            for node in ast.walk(TREE)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Attribute)
            and node.func.value.attr == "desktop"
            and node.func.attr in {"move", "button", "wheel", "key", "text"}
        ]
        self.assertTrue(calls)
        self.assertEqual({room for room, _ in calls}, {9})


if __name__ == "__main__":
    unittest.main()
