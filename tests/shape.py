"""The rules of how agent.py reads, each a function from source text to the places that break it.

Every rule gives a list of lines such as `12: a condition is multiplied`; an empty list means that it holds.
tests/test_shape.py runs each of them over agent.py, and over a small text that it must find fault with.
"""

from __future__ import annotations

import ast
import re
import statistics
import symtable
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).resolve().parent.parent / "agent.py"

FUNCTION_LINES_MOST = 60
FUNCTION_LINES_MEDIAN_MOST = 12
ROOM_LINES_MOST = 600
NAMES_USED_MOST = (
    156  # of agent.py, by all that stands under tests/, a few of made-up texts among them
)
PATCHES_MOST = 33
NODES_A_LINE_MOST = 9.0  # bottle has 7.2, mini-swe-agent 6.1
ANY_MOST = 50
FORMAT_SKIPS_MOST = 3  # tables that lose by the formatter
ROOMS_OF_ANY_LENGTH = {"Page"}  # its text is HTML, CSS and JavaScript, not Python
INPUT_ROOM = "Hands"
INPUT_METHODS = {"move", "button", "wheel", "key", "text", "start_program", "bring_to_front"}

BAR = "#" * 100
BANNER = re.compile(r"# (\S.*?) - (\S.*)")

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Called as a statement, each of these can only be there to run through what it is given.
CONSUMERS = set("deque list set tuple dict any all sum min max sorted map filter zip".split())


class Room(NamedTuple):
    """A part of the file under a banner; `first` is the line of the banner's upper bar, `last` its last line."""

    name: str
    holds: str
    first: int
    last: int


# Every rule asks for the file, the tests for small texts between two rules.
KEPT = lru_cache(maxsize=128)


@KEPT
def parsed_for_3_8(text: str) -> tuple[ast.Module, list[str]]:
    """The tree of a text, and what Python 3.8 has against it."""
    too_new = []
    try:
        tree = ast.parse(text, feature_version=(3, 8))
    except SyntaxError as error:
        too_new = [f"{error.lineno or 0}: {error.msg}"]
        try:
            tree = ast.parse(text)
        except SyntaxError:  # too new for the Python that runs the tests, too
            tree = ast.Module([], [])
    return tree, too_new


def parsed(text: str) -> ast.Module:
    return parsed_for_3_8(text)[0]


@KEPT
def nodes_in(text: str) -> list[ast.AST]:
    return list(ast.walk(parsed(text)))


def walked(text: str, *kinds: type[Any]) -> list[Any]:
    """All nodes of these kinds."""
    return [node for node in nodes_in(text) if isinstance(node, kinds)]


@KEPT
def lines_of(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines())


def found(node: ast.AST, what: str) -> str:
    return f"{getattr(node, 'lineno', 0)}: {what}"


def in_order(breaches: Iterable[str]) -> list[str]:
    """The breaches by their lines; walking a tree goes by depth."""
    return sorted(breaches, key=lambda breach: (int(breach.partition(":")[0]), breach))


# Rooms


def rooms(text: str) -> list[Room]:
    """The rooms by their banners: three lines, a bar of 100 #, `# Name - what it holds`, and the bar again."""
    lines = lines_of(text)
    banners = []
    for index in range(1, len(lines) - 1):
        match = BANNER.fullmatch(lines[index])
        if match and lines[index - 1] == BAR == lines[index + 1]:
            banners.append((match[1], match[2], index))  # the index is the upper bar's line number
    ends = [*(first - 1 for _, _, first in banners), len(lines)][1:]
    return [Room(*banner, last) for banner, last in zip(banners, ends, strict=True)]


def room_number(line: int, all_rooms: list[Room]) -> int:
    """The place of the room that a line belongs to, from 1; 0 is the docstring and the imports above them all."""
    return sum(room.first <= line for room in all_rooms)


def map_differs_from_banners(text: str) -> list[str]:
    """The docstring's last paragraph lists the rooms as the banners do, wherever its lines break."""
    *_, listed = (ast.get_docstring(parsed(text)) or "").split("\n\n")
    expected = ", ".join(room.name for room in rooms(text)) + "."
    if listed.split() == expected.split():
        return []
    return ["1: the docstring's last paragraph must be:", expected]


def figures(text: str, room: Room) -> tuple[int, int, float]:
    """Lines, those that are neither blank nor only a comment, and AST nodes for each of these."""
    lines = lines_of(text)[room.first - 1 : room.last]
    code = [line for line in lines if line.strip() and not line.strip().startswith("#")]
    inside = [node for node in parsed(text).body if room.first <= node.lineno <= room.last]
    nodes = sum(1 for node in inside for _ in ast.walk(node))
    return len(lines), len(code), nodes / max(1, len(code))


def whole_file(text: str) -> Room:
    return Room("the whole file", "", 1, text.count("\n") + 1)


def long_rooms(text: str) -> list[str]:
    """No room has over 600 lines, the page aside."""
    return [
        f"{room.first}: room {room.name} has {room.last - room.first + 1} lines"
        for room in rooms(text)
        if room.last - room.first >= ROOM_LINES_MOST and room.name not in ROOMS_OF_ANY_LENGTH
    ]


def dense_rooms(text: str) -> list[str]:
    """At most 9 AST nodes a code line, in the whole file and in every room.

    No room is left out: the page is one long text, and a table of rows comes to about 6.
    """
    densities = {room: figures(text, room)[2] for room in [whole_file(text), *rooms(text)]}
    return [
        f"{room.first}: {room.name} has {density:.2f} AST nodes a code line"
        for room, density in densities.items()
        if density > NODES_A_LINE_MOST
    ]


# References between rooms


def defined_names(node: ast.stmt) -> list[str]:
    """The names that a top-level statement gives something to, imports left out."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets = [node.target]
    else:
        # such as an `if` or a `with` at the top level: whatever is assigned inside
        targets = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return [
        name.id
        for target in targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    ]


def used_names(node: ast.AST) -> set[str]:
    """The names that a piece of code refers to, in bodies and in annotations.

    Locals are not told from top-level names: a local never has the name of one, which is a rule of its own.
    """
    return {
        child.id
        for child in ast.walk(node)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)
    }


def upward_references(text: str) -> list[str]:
    """A room uses only itself and the rooms above it."""
    all_rooms, body = rooms(text), parsed(text).body
    home = {
        name: room_number(node.lineno, all_rooms) for node in body for name in defined_names(node)
    }
    breaches = set()
    for node in body:
        here = room_number(node.lineno, all_rooms)
        for name in used_names(node):
            if home.get(name, 0) > here:
                where = all_rooms[home[name] - 1].name
                breaches.add(found(node, f"{name} belongs to room {where}, further down"))
    return in_order(breaches)


def names_looked_up_by_text(text: str) -> list[str]:
    """No name of this file is fetched by its text, which would hide a reference to a room below."""
    # vars() without arguments holds the names of the file, vars(value) only what is in the value
    looking = ("globals", "eval", "exec")
    return in_order(
        found(node, f"{ast.unparse(node)} looks up names by their text")
        for node in walked(text, ast.Call)
        if isinstance(node.func, ast.Name)
        if node.func.id in looking or node.func.id == "vars" and not node.args
    )


def too_much_any(text: str) -> list[str]:
    """`Any` stands only where JSON from outside enters, at most 50 times."""
    places = sorted(node.lineno for node in walked(text, ast.Name) if node.id == "Any")
    return [f"{line}: Any is named once more" for line in places[ANY_MOST:]]


def input_outside_the_actuator(text: str) -> list[str]:
    """Only the actuator touches the methods of a desktop by which input leaves, even to pass them on."""
    hands = [range(room.first, room.last + 1) for room in rooms(text) if room.name == INPUT_ROOM]
    return in_order(
        found(node, f"{ast.unparse(node)} outside of {INPUT_ROOM}")
        for node in walked(text, ast.Attribute)
        if node.attr in INPUT_METHODS
        if ast.unparse(node.value).rpartition(".")[2] == "desktop"
        if not any(node.lineno in lines for lines in hands)
    )


# Lengths


def unformatted_parts(text: str) -> list[str]:
    """The formatter is switched off for two or three tables at most."""
    places = [
        number
        for number, line in enumerate(lines_of(text), 1)
        if re.search(r"# fmt: (skip|off)", line)
    ]
    return [f"{line}: one part more without the formatter" for line in places[FORMAT_SKIPS_MOST:]]


def function_lengths(text: str) -> dict[Any, int]:
    return {node: node.end_lineno - node.lineno + 1 for node in walked(text, *FUNCTIONS)}


def long_functions(text: str) -> list[str]:
    """No function has over 60 lines."""
    lengths = function_lengths(text).items()
    return [
        found(node, f"{node.name} has {lines} lines")
        for node, lines in lengths
        if lines > FUNCTION_LINES_MOST
    ]


def long_functions_on_the_whole(text: str) -> list[str]:
    """Half of the functions have at most 12 lines."""
    median = statistics.median(function_lengths(text).values() or [0])
    told = [f"1: half of the functions have over {median:.0f} lines"]
    return told if median > FUNCTION_LINES_MEDIAN_MOST else []


# One thing a line


def is_condition(node: ast.expr) -> bool:
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negated or isinstance(node, (ast.Compare, ast.BoolOp))


def is_no_filling(node: ast.expr) -> bool:
    """Whether it is a text or list that nobody multiplies by a number; a single sign or item may well be."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and len(node.value) > 1
    if isinstance(node, (ast.List, ast.Tuple)):
        return not (len(node.elts) == 1 and isinstance(node.elts[0], (ast.Constant, ast.Name)))
    return isinstance(node, ast.JoinedStr)


def multiplied_conditions(text: str) -> list[str]:
    """Nothing is multiplied by a condition, and no text or list by what may be one."""
    breaches = set()
    for node in walked(text, ast.BinOp):
        sides = (node.left, node.right) if isinstance(node.op, ast.Mult) else ()
        if any(map(is_condition, sides)) or (
            any(map(is_no_filling, sides)) and not any(map(is_number, sides))
        ):
            breaches.add(found(node, f"a condition is multiplied: {ast.unparse(node)}"))
    return in_order(breaches)


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def unrelated_assignments(text: str) -> list[str]:
    """Several names stand in one assignment only to unpack one value, or to swap."""
    breaches = []
    for node in walked(text, ast.Assign):
        if len(node.targets) > 1:
            breaches.append(found(node, "one value is assigned to several names"))
        for target in node.targets:
            sides = (target, node.value)
            if all(isinstance(side, (ast.Tuple, ast.List)) for side in sides):
                names, values = (sorted(map(ast.unparse, side.elts)) for side in sides)
                if names != values:
                    breaches.append(found(node, "several values are assigned in one statement"))
    return in_order(breaches)


def statements_that_are_expressions(text: str) -> list[str]:
    """No comprehension, `and`, `or`, conditional or consumer such as deque(..., 0) is there for its effect."""
    breaches = []
    for node in walked(text, ast.Expr):
        value = node.value
        if isinstance(value, (*COMPREHENSIONS, ast.BoolOp, ast.IfExp, ast.Tuple)):
            breaches.append(found(node, f"an expression is a statement: {ast.unparse(value)}"))
        elif isinstance(value, ast.Call) and ast.unparse(value.func) in CONSUMERS:
            breaches.append(found(node, f"a call is there to run through: {ast.unparse(value)}"))
    return in_order(breaches)


def nested_conditionals(text: str) -> list[str]:
    """No conditional expression stands inside another."""
    return in_order(
        found(node, "a conditional expression holds another")
        for node in walked(text, ast.IfExp)
        if any(isinstance(child, ast.IfExp) for child in list(ast.walk(node))[1:])
    )


def local_names(table: symtable.SymbolTable) -> Iterator[tuple[int, str]]:
    """Every name that a function or lambda gives to something of its own, with the line where it begins."""
    for inner in table.get_children():
        if inner.get_type() == "function":
            symbols = (symbol for symbol in inner.get_symbols() if symbol.is_local())
            yield from ((inner.get_lineno(), symbol.get_name()) for symbol in symbols)
        yield from local_names(inner)


def shadowed_names(text: str) -> list[str]:
    """No local, parameter or nested function has the name of a top-level definition or import."""
    table = symtable.symtable(text, str(SOURCE), "exec")
    taken = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_local()}
    return in_order(
        {
            f"{line}: local {name} hides a top-level name"
            for line, name in local_names(table)
            if name in taken
        }
    )


# What importing does


def foreign_imports(text: str) -> list[str]:
    """Only the standard library is imported."""
    breaches = []
    for node in walked(text, ast.Import, ast.ImportFrom):
        modules = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            modules = ["." * node.level + (node.module or "")]
        for module in modules:
            if module.partition(".")[0] not in sys.stdlib_module_names:
                breaches.append(found(node, f"{module} is not of the standard library"))
    return in_order(breaches)


def is_start_guard(node: ast.stmt) -> bool:
    """Whether a statement does nothing but end the program where Python is too old or lacks a module.

    This is the one deed at import: whoever starts the file with such a Python would else get a traceback.
    """
    if isinstance(node, ast.If) and not ast.unparse(node.test).startswith("sys."):
        return False
    inside = [part for part in list(ast.walk(node))[1:] if isinstance(part, ast.stmt)]
    ends = [part for part in inside if ast.unparse(part).startswith("raise SystemExit(")]
    others = [part for part in inside if part not in ends and not isinstance(part, ast.Import)]
    return isinstance(node, (ast.If, ast.Try)) and bool(ends) and not others


def syntax_too_new(text: str) -> list[str]:
    """Python 3.8 can parse the file, so that its guard can say which Python is needed."""
    return list(parsed_for_3_8(text)[1])


IFS_AT_IMPORT = ("__name__ == '__main__'", "TYPE_CHECKING")  # never true at import


def deeds_at_import(text: str) -> list[str]:
    """At the top level names are defined, and nothing else is done but for the guard above the imports and the last line's start."""
    breaches = []
    above_all_rooms = True
    for node in parsed(text).body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            above_all_rooms = False
        elif not (only_names(node) or above_all_rooms and is_start_guard(node)):
            breaches.append(found(node, f"done at import: {ast.unparse(node).splitlines()[0]}"))
    return in_order(breaches)


def only_names(node: ast.stmt) -> bool:
    """Whether a statement gives names to something, is a text, or is never carried out at import."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in IFS_AT_IMPORT
    named = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AugAssign)
    return isinstance(node, named)


RULES: tuple[Callable[[str], list[str]], ...] = (
    *(map_differs_from_banners, dense_rooms, long_rooms, unformatted_parts),
    *(long_functions, long_functions_on_the_whole, upward_references, names_looked_up_by_text),
    *(too_much_any, input_outside_the_actuator, multiplied_conditions),
    *(unrelated_assignments, statements_that_are_expressions, nested_conditionals),
    *(shadowed_names, foreign_imports, deeds_at_import, syntax_too_new),
)


def names_used(text: str) -> set[str]:
    """The names of agent.py that a test uses."""
    imported = " ".join(re.findall(r"(?m)^from agent import (.+)", text))
    return {*re.findall(r"\bagent\.(?!py\b)(\w+)", text), *re.findall(r"\w+", imported)}


def patches_on_it(text: str) -> list[str]:
    """Where a test puts something else for a name of agent.py, or of what such a name holds."""
    return re.findall(r"""patch[.\w]*\(\s*["']?agent\b.*""", text)
