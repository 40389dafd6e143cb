"""The shape of the one file: how its lines read, its rooms in order and used downward only, nothing done on import.

The rules are functions in tests/shape.py. Each is held against agent.py, and each has texts here that it must find
fault with, so that a rule which finds nothing is known to look, and often some that it must let through.
"""

from __future__ import annotations

import subprocess
import sys
import unittest

from tests import shape

TEXT = shape.SOURCE.read_text(encoding="utf-8")

# Preloads what agent.py imports, all of it above the first room, so that only its own deeds are seen: files, sockets, processes, threads, DLLs.
WATCHED_IMPORT = """
import ast, importlib, pathlib, sys
head = pathlib.Path("agent.py").read_text(encoding="utf-8").partition("\\n####")[0]
for node in ast.parse(head).body:
    if isinstance(node, ast.Try):
        node = node.body[0]
    if isinstance(node, ast.Import):
        for alias in node.names:
            importlib.import_module(alias.name)
    elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
        module = importlib.import_module(node.module)
        for alias in node.names:  # some modules import what they hand on when it is asked for
            getattr(module, alias.name)

def watch(event, arguments):
    reads_source = event == "open" and str(arguments[0]).endswith(("agent.py", ".pyc"))
    deeds = ("open", "socket.", "subprocess.", "ctypes.dlopen", "_thread.", "os.mkdir", "os.remove")
    if event.startswith(deeds) and not reads_source:
        print(event, arguments)

sys.addaudithook(watch)
"""


def room(name: str, text: str) -> str:
    """A text under the banner of a room."""
    return f"{shape.BAR}\n# {name} - what it holds\n{shape.BAR}\n{text}"


def used_from(upper: str) -> str:
    """A room that uses a name of the room below it."""
    below = room("Below", "class Two: pass\ndef two(): return Two()\n")
    return "from __future__ import annotations\n" + room("Above", upper + "\n") + below


def listing(listed: str) -> str:
    """A file whose docstring ends with this list of its rooms."""
    return f'"""A file.\n\n{listed}\n"""\n' + room("One", "one = 1\n") + room("Two", "two = 2")


HIDDEN = "from itertools import count\nCOUNT = 1\ndef start(): ...\n"
PRESSES = "def one(self, desktop):\n    self.desktop.key('a', True)\n    press = desktop.button\n"
DENSE = "a = [b(c, d[e], f + g) for h in i if j(k) and l]\n\n# why\n    # why\n" * 10
PLAIN = "\n".join(f"name_{number} = {number}" for number in range(10)) + "\n"
SHORT, MIDDLING = "def one():\n    pass\n", "def two():\n" + "    pass\n" * 13
GUARD = """import sys
if sys.version_info < (3, 10):
    raise SystemExit('too old')
try:
    import ctypes
except ImportError:
    raise SystemExit('no ctypes')
"""
# Of each rule: texts, each with a part of what is found in it.
SEEN: dict[str, dict[str, str]] = {
    "map_differs_from_banners": {
        listing("    One, Three."): "1: the docstring's last paragraph must be:\nOne, Two.",
    },
    "upward_references": {
        used_from("def one(): return two()"): "5: two belongs to room Below, further down",
        used_from("class One:\n def deep(self): return [two() for _ in range(2)]"): "5: two",
        used_from("def one(value: list[Two]) -> None: ..."): "5: Two",
    },
    "names_looked_up_by_text": {
        "globals()['two']": "1: globals() looks up names by their text",
        "vars()": "1: vars()",
    },
    "too_much_any": {
        room("One", "def one(value: Any) -> dict[str, Any]: ...\n" * 30): "29: Any is named once more",
    },
    "input_outside_the_actuator": {
        room("Turn engine", PRESSES): "5: self.desktop.key outside of Hands\n6: desktop.button outside of Hands",
    },
    "long_rooms": {
        room("Short", "one = 1\n") + room("Long", "# why\n" * 600): "5: room Long has 603 lines",
    },
    "dense_rooms": {room("Plain", PLAIN * 9) + room("Dense", DENSE): "94: Dense has"},
    "unformatted_parts": {
        "one = 1  # fmt: skip\n# fmt: off\ntwo = 2\n# fmt: on\n" * 2: "6: one part more without the formatter",
    },
    "long_functions": {
        "class One:\n    def deed(self):\n" + "        pass\n" * 60: "2: deed has 61 lines",
    },
    "long_functions_on_the_whole": {SHORT * 2 + MIDDLING * 3: "1: half of the functions have over 14"},
    "multiplied_conditions": {
        f"one = {value}": "1: a "
        for value in (
            "text * (a != b)", "[text] * (not a)", "size * (a and b)",
            "' twice' * a", "f'{a} b' * b", "['a', 'b'] * b",
        )
    },
    "unrelated_assignments": {
        "a, b = 1, x": "1: several values are assigned in one statement",
        "a = b = 0": "1: one value is assigned to several names",
    },
    "statements_that_are_expressions": {
        f"{line}\n": "1: "
        for line in ("[put(x) for x in y]", "a and put(a)", "put(a) if a else put(b)", "put(a), put(b)", "any(x)")
    },
    "nested_conditionals": {"f(a if b else c) if d else e": "1: a conditional expression holds another"},
    "shadowed_names": {
        f"{HIDDEN}{body}\n": " hides a top-level name"
        for body in (
            "def one(*, start=1): ...", "def one():\n    count: int = 1", "def one():\n    def start(): ...",
            "def one():\n    try: ...\n    except E as start: ...", "def one():\n    import start",
            "one = lambda start: 1", "def one(x):\n    match x:\n        case [start]: ...",
        )
    },
    "foreign_imports": {
        "import os.path, numpy as np": "1: numpy is not of the standard library",
        "def one():\n    from PIL import Image": "2: PIL",
        "from . import x": "1: . is",
    },
    "deeds_at_import": {
        "'A file.'\nimport os\nos.mkdir('x')": "3: done at import: os.mkdir('x')",
        f"class Error: ...\n{GUARD}": "3: done",
        GUARD.replace("import ctypes", "start()"): "4: done",
        GUARD.replace("sys.version_info < (3, 10)", "is_wrong()"): "2: done",
    },
    "syntax_too_new": {"match 1:\n    case 1:\n        pass\n": ": "},
}  # fmt: skip
HOLDS = {
    "map_differs_from_banners": [listing("    One,\n    Two.")],
    "upward_references": [room("Above", "def one(): return 1\n") + room("Below", "two = one()\n")],
    "names_looked_up_by_text": ["def one():\n    vars(one)"],
    "input_outside_the_actuator": [room("Hands", PRESSES)],
    "long_rooms": [room("Page", "# why\n" * 600)],
    "dense_rooms": [room("Plain", PLAIN)],
    "unformatted_parts": ["one = 1  # fmt: skip\n# fmt: off\ntwo = 2\n# fmt: on\n"],
    "long_functions": ["class One:\n    def deed(self):\n" + "        pass\n" * 59],
    "long_functions_on_the_whole": [SHORT * 3 + MIDDLING * 2],
    "multiplied_conditions": ["'-' * width", "[0] * size", "'plan, ' * 40", "a * b"],
    "unrelated_assignments": ["a, b = x", "a, b = b, a"],
    "statements_that_are_expressions": ["put(x)", "'a docstring'", "...", "await x"],
    "shadowed_names": [f"{HIDDEN}def one(x):\n    x.start = 1\n    return f(start=1)"],
    "deeds_at_import": [GUARD, "A = 1\nif __name__ == '__main__':\n    main()\n"],
}  # fmt: skip


class Rules(unittest.TestCase):
    maxDiff = None

    def test_each_holds_for_the_file(self) -> None:
        self.assertTrue(shape.rooms(TEXT))
        self.assertRegex(TEXT, r"self\.desktop\.move\(")
        for rule in shape.RULES:
            with self.subTest(rule.__doc__):
                self.assertEqual("\n".join(rule(TEXT)), "")

    def test_each_finds_what_breaks_it_and_nothing_else(self) -> None:
        self.assertEqual(set(SEEN), {rule.__name__ for rule in shape.RULES})
        for rule in shape.RULES:
            for text, wanted in SEEN[rule.__name__].items():
                with self.subTest(rule=rule.__name__, text=text[-300:]):
                    self.assertIn(wanted, "\n".join(rule(text)))
            for text in HOLDS.get(rule.__name__, ()):
                with self.subTest(rule=rule.__name__, text=text[-300:]):
                    self.assertEqual(rule(text), [])


class Seams(unittest.TestCase):
    """A room can be written anew without its tests: they use few of the file's names, and patch fewer."""

    def test_the_tests_use_and_patch_few_of_its_names(self) -> None:
        files = shape.SOURCE.parent.rglob("tests/**/*.py")
        texts = [file.read_text(encoding="utf-8") for file in files]
        used = set[str]().union(*map(shape.names_used, texts))
        patches = [patch for text in texts for patch in shape.patches_on_it(text)]
        self.assertIn("main", used)
        self.assertLessEqual(len(used), shape.NAMES_USED_MOST, sorted(used))
        self.assertLessEqual(len(patches), shape.PATCHES_MOST, "\n".join(patches))

    def test_a_name_and_a_patch_are_noticed_however_they_are_written(self) -> None:
        text = (
            "from agent import one\nimport agent\nagent.two(1)\n"
            "mock.patch.object(agent, 'three', 4)\npatch('agent.four')\n"
            "mock.patch.object(agent.Five, 'six')\nmock.patch.object(sys, 'agent')"
        )
        self.assertEqual(shape.names_used(text), {"one", "two", "four", "Five"})
        self.assertEqual(len(shape.patches_on_it(text)), 3)


class Importing(unittest.TestCase):
    def test_importing_the_file_prints_and_opens_nothing(self) -> None:
        self.assertEqual(self.watched("import agent"), (0, "", ""))
        self.assertIn("open", self.watched("open('dumps')")[1])  # which would be noticed

    def watched(self, deed: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of a program that does this once what agent.py imports is there."""
        done = subprocess.run(
            [sys.executable, "-B", "-c", f"{WATCHED_IMPORT}\n{deed}"],
            cwd=shape.SOURCE.parent,
            capture_output=True,
            timeout=60,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr


if __name__ == "__main__":
    unittest.main()
