"""The shape of the one file: how its lines read, its rooms in order and used downward only, nothing done on import.

The rules are functions in tests/shape.py. Each is held against agent.py, and each has a bad text here that it must
find fault with, so that a rule which finds nothing is known to look.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import unittest
from collections.abc import Callable

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


def texts(breaches: list[str]) -> list[str]:
    """The breaches without their lines."""
    return [breach.partition(": ")[2] for breach in breaches]


class ShapeCase(unittest.TestCase):
    maxDiff = None

    def holds(self, rule: Callable[[str], list[str]], text: str = TEXT) -> None:
        breaches = "\n".join(rule(text))
        if breaches:
            self.fail(f"{rule.__doc__}\n{breaches}")


class Seams(ShapeCase):
    """A room can be written anew without its tests: they use few of the file's names, and patch fewer."""

    nodes: list[ast.AST]

    @classmethod
    def setUpClass(cls) -> None:
        files = shape.SOURCE.parent.rglob("tests/**/*.py")
        cls.nodes = [*shape.nodes_of(file.read_text(encoding="utf-8") for file in files)]
        cls.addClassCleanup(cls.nodes.clear)

    def test_the_tests_use_few_of_its_names(self) -> None:
        used = shape.names_used(self.nodes)
        self.assertIn("main", used)
        self.assertLessEqual(len(used), shape.NAMES_USED_MOST, sorted(used))

    def test_the_tests_patch_few_of_them(self) -> None:
        patches = shape.patches_on_it(self.nodes)
        self.assertLessEqual(len(patches), shape.PATCHES_MOST, "\n".join(patches))

    def test_a_name_and_a_patch_are_noticed_however_they_are_written(self) -> None:
        text = (
            "from agent import one\nimport agent\nagent.two(1)\n"
            "mock.patch.object(agent, 'three', 4)\npatch('agent.four')\n"
            "mock.patch.object(agent.Five, 'six')\nmock.patch.object(sys, 'agent')"
        )
        self.assertEqual(shape.names_used(shape.nodes_of([text])), {"one", "two", "Five"})
        self.assertEqual(len(shape.patches_on_it(shape.nodes_of([text]))), 3)


class Rooms(ShapeCase):
    def test_the_docstring_lists_the_rooms_as_the_banners_do(self) -> None:
        self.assertTrue(shape.rooms(TEXT))
        self.holds(shape.map_differs_from_banners)

    def test_a_list_that_differs_from_the_banners_is_noticed(self) -> None:
        rooms = room("One", "one = 1\n") + room("Two", "two = 2")
        for listed in ("", "    One, Three."):
            text = f'"""A file.\n\n{listed}\n"""\n' + rooms
            self.assertEqual(shape.map_differs_from_banners(text)[1:], ["One, Two."])
        text = '"""A file.\n\n    One,\n    Two.\n"""\n' + rooms
        self.holds(shape.map_differs_from_banners, text)

    def test_a_room_uses_only_itself_and_the_rooms_above(self) -> None:
        self.holds(shape.upward_references)

    def test_an_upward_reference_is_noticed_in_bodies_and_annotations(self) -> None:
        below = room("Below", "class Two: pass\ndef two(): return Two()\n")
        for upper in (
            "def one(): return two()",
            "one = lambda: two()",
            "class One:\n    def deep(self): return [two() for _ in range(2)]",
            "def one(value: Two) -> None: ...",
            "def one() -> Two: ...",
            "def one(value: 'list[Two]') -> None: ...",
            "class One:\n    kept: Two | None = None",
            "def one(value):\n    kept: 'Two' = value",
            "def one(value): return cast('Two', value)",
        ):
            text = "from __future__ import annotations\n" + room("Above", upper + "\n") + below
            breaches = texts(shape.upward_references(text))
            self.assertIn(len(breaches), {1}, upper)
            self.assertRegex(breaches[0], r"^[Tt]wo belongs to room Below, further down$")

    def test_a_downward_reference_is_none_of_them(self) -> None:
        text = room("Above", "def one(): return 1\n") + room("Below", "def two(): return one()\n")
        self.holds(shape.upward_references, text)

    def test_no_name_is_fetched_by_its_text(self) -> None:
        self.holds(shape.names_looked_up_by_text)

    def test_a_name_fetched_by_its_text_is_noticed(self) -> None:
        text = "def one():\n    globals()['two'](vars(), eval('two'), vars(one))\n"
        self.assertEqual(
            [breach.split()[1] for breach in sorted(shape.names_looked_up_by_text(text))],
            ["eval('two')", "globals()", "vars()"],
        )

    def test_any_is_kept_for_json_from_outside(self) -> None:
        self.holds(shape.too_much_any)

    def test_too_much_any_is_noticed_with_the_rooms_that_have_it(self) -> None:
        text = room("One", "def one(value: Any) -> dict[str, Any]: ...\n" * 30)
        self.assertEqual(texts(shape.too_much_any(text)), ["Any is named 60 times: One 60"])

    def test_only_the_actuator_touches_the_input_methods_of_a_desktop(self) -> None:
        self.assertRegex(TEXT, r"self\.desktop\.move\(")
        self.holds(shape.input_outside_the_actuator)

    def test_input_from_another_room_is_noticed_even_when_it_is_only_passed_on(self) -> None:
        upper = (
            "def one(self, desktop):\n    self.desktop.key('a', True)\n    press = desktop.button\n"
        )
        self.assertEqual(
            shape.input_outside_the_actuator(room("Turn engine", upper)),
            ["5: self.desktop.key in room Turn engine", "6: desktop.button in room Turn engine"],
        )
        self.holds(shape.input_outside_the_actuator, room("Hands", upper))

    def test_no_room_is_over_six_hundred_lines(self) -> None:
        self.holds(shape.long_rooms)

    def test_a_long_room_is_noticed_and_the_page_may_be_one(self) -> None:
        text = (
            room("Page", "# why\n" * 600)
            + room("Short", "one = 1\n")
            + room("Long", "# why\n" * 600)
        )
        self.assertEqual(texts(shape.long_rooms(text)), ["room Long has 603 lines"])

    def test_no_top_level_name_is_defined_twice(self) -> None:
        self.holds(shape.defined_twice)

    def test_a_name_defined_twice_is_noticed(self) -> None:
        text = "TABLE = {}\nTABLE |= {1: 2}\ndef one(): ...\none: int = 1\nTABLE = {}\n"
        self.assertEqual(
            shape.defined_twice(text),
            ["4: one is defined a second time", "5: TABLE is defined a second time"],
        )


class Lengths(ShapeCase):
    def test_a_code_line_says_one_thing(self) -> None:
        self.holds(shape.dense_rooms)

    def test_dense_code_is_noticed_in_a_room_and_in_the_whole_file(self) -> None:
        dense = "a = [b(c, d[e], f + g) for h in i if j(k) and l]\n" * 10
        plain = "\n".join(f"name_{number} = {number}" for number in range(10)) + "\n"
        breaches = texts(shape.dense_rooms(room("Plain", plain) + room("Dense", dense)))
        self.assertEqual(
            [breach.partition(" has ")[0] for breach in breaches], ["the whole file", "Dense"]
        )
        self.holds(shape.dense_rooms, room("Plain", plain))

    def test_comments_and_blank_lines_do_not_thin_it_out(self) -> None:
        dense = "a = [b(c, d[e], f + g) for h in i if j(k) and l]\n\n# why\n    # why\n"
        self.assertEqual(shape.figures(dense, shape.whole_file(dense)).code_lines, 1)
        self.assertTrue(shape.dense_rooms(dense))

    def test_no_line_is_over_a_hundred_columns(self) -> None:
        self.holds(shape.long_lines)

    def test_a_long_line_is_noticed_wherever_it_stands(self) -> None:
        self.assertEqual(shape.long_lines(f"{'a' * 100}\n# {'b' * 99}\n"), ["2: 101 columns"])

    def test_the_formatter_is_switched_off_for_a_few_tables_only(self) -> None:
        self.holds(shape.unformatted_parts)

    def test_one_part_too_many_without_the_formatter_is_noticed(self) -> None:
        text = "one = 1  # fmt: skip\n# fmt: off\ntwo = 2\n# fmt: on\n"
        self.holds(shape.unformatted_parts, text)
        self.assertEqual(
            shape.unformatted_parts(text + text), ["6: one part more without the formatter"]
        )

    def test_no_function_is_over_sixty_lines(self) -> None:
        self.holds(shape.long_functions)

    def test_a_long_function_is_noticed_inside_a_class_too(self) -> None:
        text = "class One:\n    def deed(self):\n" + "        pass\n" * 60
        self.assertEqual(shape.long_functions(text), ["2: deed has 61 lines"])
        self.holds(shape.long_functions, text.removesuffix("        pass\n"))

    def test_most_functions_are_very_short(self) -> None:
        self.holds(shape.long_functions_on_the_whole)

    def test_many_middling_functions_are_noticed(self) -> None:
        short, middling = "def one():\n    pass\n", "def two():\n" + "    pass\n" * 13
        self.holds(shape.long_functions_on_the_whole, short * 3 + middling * 2)
        self.assertTrue(shape.long_functions_on_the_whole(short * 2 + middling * 3))


class OneThingALine(ShapeCase):
    def test_nothing_is_multiplied_by_a_condition(self) -> None:
        self.holds(shape.multiplied_conditions)

    def test_a_multiplied_condition_is_noticed_in_each_of_its_forms(self) -> None:
        head = "def ready() -> bool: ...\nclass State:\n    clean: bool = False\n"
        for value in (
            "text * (a != b)",
            "(a != b) * text",
            "[text] * (not a)",
            "size * (a and b)",
            "size * bool(a)",
            "size * ready()",
            "size * state.clean",
            "' twice' * a",
            "f'{a} b' * b",
            "['a', 'b'] * b",
            "[a.b] * b.c",
            "size * flag",
            "size * small",
        ):
            body = f"    small = a < b\n    return {value}\n"
            text = f"{head}def one(text, a, b, size, state, flag: bool):\n{body}"
            self.assertEqual(
                {breach.partition(":")[0] for breach in shape.multiplied_conditions(text)},
                {"6"},
                value,
            )

    def test_what_is_multiplied_by_a_number_may_be(self) -> None:
        for value in (
            "'-' * width",
            "[0] * size",
            "[a] * size",
            "'plan, ' * 40",
            "a * b",
            "2 * b.c",
        ):
            self.holds(
                shape.multiplied_conditions, f"def one(a, b, size, width):\n    return {value}\n"
            )

    def test_an_assignment_gives_one_thing_a_name(self) -> None:
        self.holds(shape.unrelated_assignments)

    def test_several_assignments_in_one_are_noticed(self) -> None:
        for line in ("a, b = 1, x", "a, b = b, a + b", "[a, b] = [1, 2]", "a, self.b = 0, []"):
            self.assertEqual(
                shape.unrelated_assignments(line),
                ["1: several values are assigned in one statement"],
            )
        for line in ("a = b = 0", "a = b, c = x"):
            self.assertEqual(
                shape.unrelated_assignments(line), ["1: one value is assigned to several names"]
            )

    def test_unpacking_and_swapping_are_no_breach(self) -> None:
        for line in ("a, b = x", "a, b = b, a", "*a, b = x", "for a, b in ((1, 2), (3, 4)): ..."):
            self.holds(shape.unrelated_assignments, line)

    def test_no_expression_stands_where_a_statement_belongs(self) -> None:
        self.holds(shape.statements_that_are_expressions)

    def test_an_expression_for_its_effect_is_noticed(self) -> None:
        for line in (
            "[put(x) for x in y]",
            "{put(x) for x in y}",
            "(put(x) for x in y)",
            "a and put(a)",
            "a or put(a)",
            "put(a) if a else put(b)",
            "put(a), put(b)",
            "deque(map(put, y), 0)",
            "list(map(put, y))",
            "any(put(x) for x in y)",
        ):
            self.assertEqual(len(shape.statements_that_are_expressions(line)), 1, line)
        for line in ("put(x)", "'a docstring'", "...", "await x", "queue.append(all(x))"):
            self.holds(shape.statements_that_are_expressions, line)

    def test_no_conditional_expression_holds_another(self) -> None:
        self.holds(shape.nested_conditionals)

    def test_a_nested_conditional_expression_is_noticed(self) -> None:
        for line in ("a if b else c if d else e", "f(a if b else c) if d else e"):
            self.assertEqual(len(shape.nested_conditionals(line)), 1, line)
        self.holds(shape.nested_conditionals, "[a if b else c, d if e else f]")

    def test_no_local_has_the_name_of_a_top_level_definition(self) -> None:
        self.holds(shape.shadowed_names)

    def test_a_local_that_hides_a_top_level_name_is_noticed_however_it_is_made(self) -> None:
        head = "from itertools import count\ndef start(): ...\n"
        for body in (
            "def one(start): ...",
            "def one(*start): ...",
            "def one(*, start=1): ...",
            "def one():\n    start = 1",
            "def one():\n    count: int = 1",
            "def one():\n    for start in x: ...",
            "def one():\n    with x as start: ...",
            "def one():\n    try: ...\n    except E as start: ...",
            "def one():\n    def start(): ...",
            "def one():\n    return [start for start in x]",
            "def one():\n    if start := x: ...",
            "def one():\n    import start",
            "one = lambda start: 1",
            "class One:\n    def deed(self, count): ...",
            "def one(x):\n    match x:\n        case [start]: ...",
        ):
            breaches = texts(shape.shadowed_names(f"{head}{body}\n"))
            self.assertEqual(len(breaches), 1, body)
            self.assertRegex(breaches[0], "local (start|count) hides a top-level name")

    def test_what_is_no_local_may_have_any_name(self) -> None:
        head = "COUNT = 1\ndef start(): ...\n"
        for body in (
            "class One:\n    start: int = 1\n    def COUNT(self): ...",
            "def one():\n    global COUNT\n    COUNT = 2",
            "def one(x):\n    x.start = 1\n    return f(start=1)",
        ):
            self.holds(shape.shadowed_names, f"{head}{body}\n")


class Importing(ShapeCase):
    def test_only_the_standard_library_is_imported(self) -> None:
        self.holds(shape.foreign_imports)

    def test_another_package_is_noticed(self) -> None:
        text = "import os.path, numpy as np\ndef one():\n    from PIL import Image\n    from . import x\n"
        self.assertEqual(
            [breach.split()[1] for breach in shape.foreign_imports(text)], ["numpy", "PIL", "."]
        )

    def test_the_top_level_defines_names_and_does_nothing(self) -> None:
        self.holds(shape.deeds_at_import)

    def test_a_deed_at_the_top_level_is_noticed(self) -> None:
        text = "'''A file.'''\nimport os\nA: int = 1\nos.mkdir('x')\nfor a in A: ...\nif A: ...\n"
        text += "if __name__ == '__main__':\n    main()\n"
        self.assertEqual(
            [breach.partition(":")[0] for breach in shape.deeds_at_import(text)], ["4", "5", "6"]
        )

    def test_only_a_guard_above_all_rooms_may_end_an_unfit_python(self) -> None:
        guard = "import sys\nif sys.version_info < (3, 10):\n    raise SystemExit('too old')\n"
        guard += "try:\n    import ctypes\nexcept ImportError:\n    raise SystemExit('no ctypes')\n"
        self.assertEqual(shape.deeds_at_import(guard), [])
        for wrong in (
            f"class Error: ...\n{guard}",
            guard.replace("import ctypes", "start()"),
            guard.replace("raise SystemExit('too old')", "print('too old')"),
            guard.replace("sys.version_info < (3, 10)", "is_wrong()"),
            guard.replace("raise SystemExit('no ctypes')", "ctypes = None"),
        ):
            self.assertTrue(shape.deeds_at_import(wrong), wrong)

    def test_python_3_8_can_parse_the_file(self) -> None:
        self.holds(shape.syntax_too_new)

    def test_syntax_that_3_8_cannot_parse_is_noticed(self) -> None:
        for text in (
            "match 1:\n    case 1:\n        pass\n",
            "try:\n    pass\nexcept* OSError:\n    pass\n",
        ):
            self.assertTrue(shape.syntax_too_new(text), text)

    def test_importing_the_file_prints_and_opens_nothing(self) -> None:
        self.assertEqual(self.watched("import agent"), (0, "", ""))

    def test_a_file_that_is_opened_at_import_would_be_noticed(self) -> None:
        self.assertIn("open", self.watched("open('dumps')")[1])

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
