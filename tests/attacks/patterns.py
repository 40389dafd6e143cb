"""Every regular expression of agent.py against texts that were grown from it: the time must stay linear.

    python -m tests.attacks.patterns [FILE]     with texts of 4000 characters; the suite has some of 2000

A pattern is found wherever `re` is called: as a literal, as a name of the file, as a local that is put together from
those, or as a string of a table that the function reads. Texts are grown from the parts of the pattern's own syntax
tree: each part again and again, behind what comes before it and with an end that does not fit. Doubling a text may
take 2.5 times as long at most; the best of several counts, and only texts that take long enough to be measured. A
first look, at a text and one some times as long, lets those through that are far from a square.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    try:
        from re import _parser as parser  # type: ignore[attr-defined]
    except ImportError:  # Python 3.10
        import sre_parse as parser  # type: ignore[no-redef]

SOURCE = Path(__file__).resolve().parents[2] / "agent.py"
METHODS = set("search match fullmatch sub split findall finditer".split())
RULES_OF_WHOLE_TEXTS = {"RISKS", "RUNNERS", "ENTERED", "SHOWING_ONLY"}  # tables
JOINS = {"join", "escape", "map"}  # the calls that put a pattern together
MEASURABLE_S = 0.000_06
CHARS_LEAST = 1_000
CHARS_MOST = 2_000
CHARS_LONG = 4_000  # of the program: for what is slow only where a text is long
TIMES_MOST = 2.5
TIMES_CLEAR = 3.5  # a square has 4
AGAIN = 12  # measurements at most before a pattern counts as slow
AGAIN_CLEAR = 3
ENDS = ("", "\0")


class Use(NamedTuple):
    """A pattern, how it is used, and the line where."""

    pattern: str | bytes
    flags: int
    method: str
    line: int


def loaded(path: Path) -> ModuleType:
    """The file as a module of its own, so that two versions can be compared."""
    if path == SOURCE:
        return importlib.import_module("agent")
    spec = importlib.util.spec_from_file_location(f"attacked_{abs(hash(path))}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def uses(path: Path) -> list[Use]:
    """Every use of a regular expression in the file; raises LookupError where its pattern cannot be found."""
    text = path.read_text(encoding="utf-8")
    module, tree = loaded(path), ast.parse(text)
    found: dict[tuple[Any, ...], Use] = {}
    for function, node in calls(tree):
        for use in uses_of_call(module, function, node):
            found.setdefault(use[:3], use)
    used = {use.pattern for use in found.values()}
    for name, value in vars(module).items():  # those in tables are searched with, but for rules
        method = "fullmatch" if name in RULES_OF_WHOLE_TEXTS else "search"
        for pattern in compiled_in(value):
            if pattern.pattern not in used:
                use = Use(pattern.pattern, pattern.flags & ~re.UNICODE, method, 0)
                found.setdefault(use[:3], use)
    return list(found.values())


def calls(tree: ast.Module) -> Iterator[tuple[ast.AST | None, ast.Call]]:
    """Every call, with the outermost function that it stands in."""
    for top in tree.body:
        owners = [top] if not isinstance(top, ast.ClassDef) else top.body
        for owner in owners:
            for node in ast.walk(owner):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    yield (owner if isinstance(owner, ast.FunctionDef) else None), node


# Patterns that are built while the program runs, and why none of them can be slow.
PLAIN = {
    "'|'.join(map(self._pattern, longest_first))": "one of the secrets, each of them escaped",
    "like": "of the tables of rules, compiled at the top, so found there",
    r"'(\\w+) (\\w+)'": "the file's own table is searched",
    r"'(\\S+)=(\\S+)'": "the file's own table is searched",
}


# Patterns that a function builds of what it is given, which is one of these.
GIVEN: dict[str, Callable[[ModuleType], list[str]]] = {
    "pattern": lambda module: [rf"(?P<call>(?:{module.CALL_BEGINS})(?s:.*))|{module._THOUGHT}"],
    "call": lambda module: [module.CALL_BEGINS],
}


def uses_of_call(module: ModuleType, function: ast.AST | None, node: ast.Call) -> list[Use]:
    """The patterns of `re.search(pattern, ...)`, of `COMPILED.search(...)` and of a compiled one in a table."""
    method, owner = node.func.attr, node.func.value
    of_re = isinstance(owner, ast.Name) and owner.id == "re"
    if not of_re and method not in METHODS:
        return []
    known = names_in(module, function)
    if of_re:
        if method not in METHODS and (method != "compile" or function is None):
            return []  # what the file compiles at its top is found by its value
        if ast.unparse(node.args[0]) in PLAIN:
            return []
        value = evaluated(node.args[0], known)
        if value == ast.unparse(node.args[0]):
            value = None  # a parameter: its patterns come from a table
        flags = 0
        for argument in [*node.args[1:], *(word.value for word in node.keywords)]:
            flag = evaluated(argument, {"re": re})
            flags |= int(flag) if isinstance(flag, re.RegexFlag) else 0
        texts = [value] if isinstance(value, (str, bytes)) else strings_read_by(module, function)
        if not texts and ast.unparse(node.args[0]) in GIVEN:
            texts = GIVEN[ast.unparse(node.args[0])](module)
        if not texts:
            raise LookupError(f"line {node.lineno}: where its patterns come from cannot be seen")
        method = "search" if method == "compile" else method
        return [Use(text, flags, method, node.lineno) for text in texts]
    value = evaluated(owner, known)
    if isinstance(value, re.Pattern):
        return [Use(value.pattern, value.flags & ~re.UNICODE, method, node.lineno)]
    return []


def compiled_in(value: Any) -> list[re.Pattern[Any]]:
    """The compiled patterns in a table, at any depth."""
    if isinstance(value, re.Pattern):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [pattern for item in value for pattern in compiled_in(item)]
    return []


@cache
def names_in(module: ModuleType, function: ast.AST | None) -> dict[str, Any]:
    """What the file defines, and those locals of a function that are put together from it."""
    known = dict(vars(module))
    if isinstance(function, ast.FunctionDef):
        nodes = list(ast.walk(function))
        for node in nodes:
            if isinstance(node, ast.arg):
                known[node.arg] = node.arg  # a word such as any other
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                known[node.id] = None
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                known[node.targets[0].id] = evaluated(node.value, known)
    return known


def evaluated(node: ast.AST, known: dict[str, Any]) -> Any:
    """The value of an expression that puts texts together and calls nothing else, or None."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2] not in JOINS:
            return None
    try:
        return eval(compile(ast.Expression(node), "", "eval"), dict(known))  # our own source
    except Exception:
        return None


def strings_read_by(module: ModuleType, function: ast.AST | None) -> list[str]:
    """Every string in the file's tables that a function names."""
    texts: list[str] = []
    for node in ast.walk(function or ast.Module([], [])):
        value = vars(module).get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(value, (tuple, list, dict, set, frozenset)):
            texts += filter(is_pattern, strings_in(value))
    return list(dict.fromkeys(texts))


def is_pattern(text: str) -> bool:
    """Whether a text can be a pattern at all; the words of a prompt stand in tables, too."""
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def strings_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict) or hasattr(value, "items"):
        value = [*value.keys(), *value.values()]
    elif is_dataclass(value):
        value = [getattr(value, spec.name) for spec in fields(value)]
    if isinstance(value, (tuple, list, set, frozenset)):
        return [text for item in value for text in strings_in(item)]
    return []


# -- texts that are grown from a pattern


def spelled(parts: Any) -> str:
    """A short text that fits these parts of a syntax tree, or nearly."""
    return "".join(spelled_part(str(kind), value) for kind, value in parts)


def spelled_part(kind: str, value: Any) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind == "NOT_LITERAL":
        return "a" if value != ord("a") else "b"
    if kind == "ANY":
        return "a"
    if kind == "IN":
        return members(value)[0]
    if kind == "BRANCH":
        return spelled(value[1][0])
    if kind in REPEATS:
        return spelled(value[2]) * min(max(value[0], 1), 300)
    if kind in ("SUBPATTERN", "ASSERT"):
        return spelled(value[-1])
    return spelled(value) if kind == "ATOMIC_GROUP" else ""


REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
CLASSES = {
    "SPACE": " \n",
    "NOT_SPACE": "a",
    "WORD": "a1",
    "NOT_WORD": " .",
    "DIGIT": "1",
    "NOT_DIGIT": "a",
}


def members(items: Any) -> list[str]:
    """Some characters of a class."""
    found: list[str] = []
    for kind, value in items:
        name = str(kind)
        if name in ("LITERAL", "RANGE"):
            found += map(chr, value if name == "RANGE" else (value,))
        elif name == "CATEGORY":
            found += CLASSES[str(value).removeprefix("CATEGORY_")]
    if any(str(kind) == "NEGATE" for kind, _ in items):
        return [char for char in "a1 \n<\"'\\{" if char not in found] or ["a"]
    return found or ["a"]


def pieces(parts: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """(what comes before, a piece) for every part of a syntax tree, at any depth.

    Letters that follow each other are one piece, and each letter is one with nothing before it: no
    letter of a word is repeated by its pattern where another one is not.
    """
    word = ""
    for kind, value in parts:
        name = str(kind)
        own = spelled_part(name, value)
        if name == "LITERAL":
            yield "", own
            word += own
            continue
        if word:
            yield before, word
            before += word
            word = ""
        yield before, own
        if name == "IN":
            for char in members(value):
                yield before, char
        elif name == "BRANCH":
            for branch in value[1]:
                yield before, spelled(branch)
                yield from pieces(branch, before)
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
            yield from pieces(value[-1], before)
        elif name in REPEATS:
            yield from pieces(value[2], before)
        elif name == "ATOMIC_GROUP":
            yield from pieces(value, before)
        before += own
    if word:
        yield before, word


class Grown(NamedTuple):
    """A text of any length: a head, a piece again and again, and an end."""

    head: str
    piece: str
    end: str

    def text(self, chars: int) -> str:
        return self.head + self.piece * max(1, chars // len(self.piece)) + self.end


def grown_texts(pattern: str) -> list[Grown]:
    texts: dict[Grown, None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = parser.parse(pattern)
    whole = spelled(tree)
    for before, piece in [("", whole), ("", whole[:-1]), ("", "\n"), ("", " "), *pieces(tree)]:
        for end in ENDS:
            for head, body in (("", piece), (before, piece), ("", before + piece)):
                if body and len(head) < 2000:
                    texts[Grown(head, body, end)] = None
    return list(texts)


# -- time

# the processor's time of this thread, so that what else the machine does counts little; Windows counts it too coarsely
now = time.perf_counter if os.name == "nt" else time.thread_time


def seconds(read: Callable[[Any], object], text: str | bytes) -> float:
    begin = now()
    read(text)
    return max(now() - begin, 1e-7)


def reader(use: Use) -> Callable[[Any], object]:
    """What the program does with the pattern and a text."""
    compiled = re.compile(use.pattern, use.flags)
    method = getattr(compiled, use.method)
    empty: Any = b"" if isinstance(use.pattern, bytes) else ""
    if use.method == "sub":
        return lambda text: method(empty, text)
    if use.method == "finditer":
        return lambda text: list(method(text))
    return method


def times_slower(use: Use, grown: Grown, chars_most: int = CHARS_MOST) -> float:
    """How much longer twice the text takes; 1 where even a long text takes no time."""
    read = reader(use)

    def text_of(chars: int) -> str | bytes:
        text = grown.text(chars)
        return text.encode("latin-1", "replace") if isinstance(use.pattern, bytes) else text

    if looks_linear(read, text_of, chars_most):
        return 1.0
    chars = max(chars_most // 2, CHARS_LEAST)
    while chars > CHARS_LEAST and seconds(read, text_of(chars)) > 8 * MEASURABLE_S:
        chars //= 2
    texts = (text_of(chars), text_of(2 * chars))
    least = [float("inf"), float("inf")]
    for number in range(AGAIN):
        for place, text in enumerate(texts):
            least[place] = min(least[place], seconds(read, text))
        ratio = least[1] / least[0]
        if ratio <= 2.2 or (number + 1 >= AGAIN_CLEAR and ratio >= TIMES_CLEAR):
            break
    return least[1] / least[0]


def looks_linear(
    read: Callable[[Any], object], text_of: Callable[[int], str | bytes], chars_most: int
) -> bool:
    """A first look: eight times the text takes 8 times as long, or 64 times.

    Where the short text takes long already, four times the text will do: 4 times as long, or 16.
    """
    few = seconds(read, text_of(chars_most // 8))
    if few > 8 * MEASURABLE_S:
        return seconds(read, text_of(chars_most // 2)) < 6 * few
    many = seconds(read, text_of(chars_most))
    return many < MEASURABLE_S or few < many < 12 * few


def slow(path: Path = SOURCE, chars_most: int = CHARS_MOST) -> list[str]:
    """A sentence for each pattern whose time grows faster than its text."""
    sentences = []
    for use in uses(path):
        source = use.pattern.decode() if isinstance(use.pattern, bytes) else use.pattern
        for grown in grown_texts(source):
            ratio = times_slower(use, grown, chars_most)
            for _ in range(3):  # a machine that is busy slows the longer text down by chance
                if ratio > TIMES_MOST:
                    ratio = min(ratio, times_slower(use, grown, chars_most))
            if ratio > TIMES_MOST:
                sentences.append(
                    f"line {use.line}: {use.method} {source[:60]!r} takes {ratio:.1f} times as long"
                    f" with twice the text {grown.head[:20]!r} {grown.piece[:20]!r}* {grown.end!r}"
                )
                break
    return sentences


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    found = uses(path)
    sentences = slow(path, CHARS_LONG)
    print("\n".join(sentences))
    print(f"{len(found)} patterns, {len(sentences)} slow")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
