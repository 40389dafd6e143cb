"""Every regular expression of agent.py against texts that were grown from it: the time must stay linear.

    python -m tests.attacks.patterns    with texts of 2000 characters; `python -m tests --whole` takes 4000

A pattern is found wherever `re` is called: as a literal, as a name of the file, as a local that is put together from
those, or in a table. Texts are grown from the parts of the pattern's own syntax tree: each part again and again, behind
what comes before it and with an end that does not fit. Doubling a text may take 2.5 times as long at most.
"""

from __future__ import annotations

import ast
import os
import re
import time
import unittest
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import agent
from tests.samples import sample

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    try:
        from re import _parser as parser  # type: ignore[attr-defined]
    except ImportError:  # Python 3.10
        import sre_parse as parser  # type: ignore[no-redef]

SOURCE = Path(agent.__file__).read_text("utf-8")
METHODS = set("search match fullmatch sub split findall finditer compile".split())
OF_WHOLE_TEXTS = {
    "RISKS",
    "RUNNERS",
    "ENTERED",
    "SHOWING_ONLY",
}  # tables whose texts are short and matched whole
MEASURABLE_S = 0.000_06
CHARS, CHARS_LONG = 2_000, 4_000
TIMES_MOST = 2.5
# Patterns that are built while the program runs: why none of them can be slow, or what they are then.
BUILT: dict[str, Callable[[Any], list[str]]] = {
    "'|'.join(map(self._pattern, longest_first))": lambda module: [],  # secrets, each of them escaped
    "like": lambda module: [],  # of the tables of rules, compiled at the top, so found there
    r"'(\\w+) (\\w+)'": lambda module: [],  # the file's own table is searched
    r"'(\\S+)=(\\S+)'": lambda module: [],
    "pattern": lambda module: [rf"(?P<call>(?:{module.CALL_BEGINS})(?s:.*))|{module._THOUGHT}"],
    "call": lambda module: [module.CALL_BEGINS],
}


class Use(NamedTuple):
    """A pattern and how it is used."""

    pattern: str | bytes
    flags: int
    method: str


def uses(module: Any, source: str) -> set[Use]:
    """Every use of a regular expression in the file; raises LookupError where its pattern cannot be found."""
    found = set[Use]()
    for top in ast.parse(source).body:
        for owner in top.body if isinstance(top, ast.ClassDef) else [top]:
            names: dict[str, Any] = {}
            for node in ast.walk(owner):
                called = node.func if isinstance(node, ast.Call) else None
                if isinstance(called, ast.Attribute) and called.attr in METHODS:
                    names = names or names_in(module, owner)
                    found.update(uses_of_call(module, owner, node, names))
    used = {use.pattern for use in found}
    for name, value in vars(module).items():
        method = "fullmatch" if name in OF_WHOLE_TEXTS else "search"
        for one in parts_of(value):
            if isinstance(one, re.Pattern) and one.pattern not in used:
                found.add(Use(one.pattern, one.flags & ~re.UNICODE, method))
    return found


def uses_of_call(module: Any, owner: ast.stmt, node: Any, names: dict[str, Any]) -> Iterator[Use]:
    """The patterns of `re.search(pattern, ...)`, or of `COMPILED.search(...)`."""
    method, written = node.func.attr, node.args and ast.unparse(node.args[0])
    if ast.unparse(node.func.value) != "re":
        value = None if method == "compile" else evaluated(node.func.value, names)
        if isinstance(value, re.Pattern):
            yield Use(value.pattern, value.flags & ~re.UNICODE, method)
        return
    if method == "compile" and not isinstance(owner, ast.FunctionDef):
        return  # what the file compiles at its top is found by its value
    flags = [
        evaluated(given, {"re": re})
        for given in (*node.args[1:], *(k.value for k in node.keywords))
    ]
    value = evaluated(node.args[0], names)
    tables = [vars(module).get(part.id) for part in ast.walk(owner) if isinstance(part, ast.Name)]
    texts = [value] if isinstance(value, (str, bytes)) else []
    if written in BUILT:
        texts = BUILT[written](module)
    elif not texts:
        texts = [one for table in tables for one in parts_of(table) if is_pattern(one)]
        if not texts:
            raise LookupError(f"line {node.lineno}: where its patterns come from cannot be seen")
    for text in texts:
        flag = sum(int(flag) for flag in flags if isinstance(flag, re.RegexFlag))
        yield Use(text, flag, "search" if method == "compile" else method)


def names_in(module: Any, function: ast.stmt) -> dict[str, Any]:
    """What the file defines, and those locals of a function that are put together from it."""
    known = dict(vars(module))
    nodes = list(ast.walk(function))
    for node in nodes:
        if isinstance(node, ast.arg) or (
            isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ):
            known[node.arg if isinstance(node, ast.arg) else node.id] = None
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = evaluated(node.value, known)
    return known


def evaluated(node: ast.AST, known: dict[str, Any]) -> Any:
    """The value of an expression that puts texts together and calls nothing else, or None."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2] not in (
            "join",
            "escape",
        ):
            return None
    try:
        return eval(compile(ast.Expression(node), "", "eval"), dict(known))  # our own source
    except Exception:
        return None


def parts_of(value: Any) -> Iterator[Any]:
    """What a table holds, at any depth."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from parts_of(item)
    else:
        yield value


def is_pattern(text: Any) -> bool:
    """Whether it can be a pattern at all; the words of a prompt stand in tables, too."""
    try:
        return isinstance(text, str) and bool(re.compile(text))
    except re.error:
        return False


# -- texts that are grown from a pattern

REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
CLASSES = {"SPACE": " \n", "WORD": "a1", "NOT_WORD": " .", "DIGIT": "1"}


def spelled(parts: Any) -> str:
    """A short text that fits these parts of a syntax tree, or nearly."""
    return "".join(spelled_part(str(kind), value) for kind, value in parts)


def spelled_part(kind: str, value: Any) -> str:
    if kind in ("LITERAL", "NOT_LITERAL", "ANY"):
        other = "a" if value != ord("a") else "b"
        return chr(value) if kind == "LITERAL" else other
    if kind == "IN":
        return members(value)[0]
    if kind == "BRANCH":
        return spelled(value[1][0])
    if kind in REPEATS:
        return spelled(value[2]) * min(max(value[0], 1), 300)
    if kind in ("SUBPATTERN", "ASSERT"):
        return spelled(value[-1])
    return spelled(value) if kind == "ATOMIC_GROUP" else ""


def members(items: Any) -> list[str]:
    """Some characters of a class."""
    found: list[str] = []
    for kind, value in items:
        name = str(kind)
        if name in ("LITERAL", "RANGE"):
            found += map(chr, value if name == "RANGE" else (value,))
        elif name == "CATEGORY":
            found += CLASSES.get(str(value).removeprefix("CATEGORY_"), "a")
    if any(str(kind) == "NEGATE" for kind, _ in items):
        return [char for char in "a1 \n<\"'\\{" if char not in found] or ["a"]
    return found or ["a"]


def pieces(parts: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """(what comes before, a piece) for every part of a syntax tree, at any depth; letters that follow each other are
    one piece, and each is one by itself."""
    word = ""
    for kind, value in [*parts, ("END", None)]:
        name = str(kind)
        own = spelled_part(name, value)
        if name == "LITERAL":
            yield "", own
            word += own
            continue
        if word:
            yield before, word
            before, word = before + word, ""
        yield before, own
        inner: list[Any] = []
        if name == "IN":
            yield from ((before, char) for char in members(value))
        elif name == "BRANCH":
            yield from ((before, spelled(branch)) for branch in value[1])
            inner = value[1]
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT", *REPEATS):
            inner = [value[-1]]
        elif name == "ATOMIC_GROUP":
            inner = [value]
        for part in inner:
            yield from pieces(part, before)
        before += own


def grown_texts(pattern: str) -> dict[tuple[str, str, str], None]:
    """Head, piece that is repeated, and end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = parser.parse(pattern)
    whole = spelled(tree)
    texts: dict[tuple[str, str, str], None] = {}
    for before, piece in [("", whole), ("", whole[:-1]), ("", "\n"), ("", " "), *pieces(tree)]:
        for head, body in (("", piece), (before, piece), ("", before + piece)):
            if body and len(head) < 2000:
                texts |= {(head, body, end): None for end in ("", "\0")}
    return texts


# -- time: of this thread's processor, so that what else the machine does counts little; Windows counts it too coarsely

now = time.perf_counter if os.name == "nt" else time.thread_time


def reader(use: Use) -> Callable[[Any], object]:
    """What the program does with the pattern and a text."""
    method = getattr(re.compile(use.pattern, use.flags), use.method)
    empty: Any = b"" if isinstance(use.pattern, bytes) else ""
    if use.method == "sub":
        return lambda text: method(empty, text)
    return (lambda text: list(method(text))) if use.method == "finditer" else method


def times_slower(use: Use, grown: tuple[str, str, str], chars: int) -> float:
    """How much longer twice the text takes, at least; 1 where even a long text takes no time."""
    head, piece, end = grown
    read = reader(use)

    def seconds(count: int) -> float:
        text: Any = head + piece * max(1, count // len(piece)) + end
        text = text.encode("latin-1", "replace") if isinstance(use.pattern, bytes) else text
        begin = now()
        read(text)
        return max(now() - begin, 1e-7)

    few = seconds(chars // 8)
    while few > 8 * MEASURABLE_S and chars > 1_000:  # else the slow ones would take minutes
        chars //= 2
        few = seconds(chars // 8)
    many = seconds(chars) if few < 100 * MEASURABLE_S else 16 * few
    if (
        many < MEASURABLE_S or few < many < 12 * few
    ):  # eight times the text: 8 times as long, not 64
        return 1.0
    least = [float("inf"), float("inf")]
    for number in range(12):
        least = [min(least[place], seconds(chars * (1 + place) // 2)) for place in (0, 1)]
        ratio = least[1] / least[0]
        if ratio <= 2.2 or (number > 1 and ratio >= 3.5):  # a square has 4
            break
    return least[1] / least[0]


def slow(module: Any = agent, source: str = SOURCE, chars: int = CHARS) -> list[str]:
    """A sentence for each pattern whose time grows faster than its text."""
    sentences = []
    for use in sorted(uses(module, source), key=repr):
        text = use.pattern.decode() if isinstance(use.pattern, bytes) else use.pattern
        for grown in grown_texts(text):
            # a machine that is busy slows the longer text down by chance
            if all(times_slower(use, grown, chars) > TIMES_MOST for _ in range(3)):
                sentences.append(f"{use.method} {text[:60]!r} slows down with {grown!r:.90}")
                break
    return sentences


class Patterns(unittest.TestCase):
    def test_no_pattern_takes_more_than_linear_time_for_texts_grown_from_it(self) -> None:
        self.assertGreater(len(uses(agent, SOURCE)), 80)
        self.assertEqual(slow(chars=sample(CHARS_LONG, CHARS)), [])

    def test_no_pattern_asks_for_a_backslash_where_it_means_a_class_of_letters(self) -> None:
        for use in uses(agent, SOURCE):
            text = use.pattern if isinstance(use.pattern, str) else use.pattern.decode()
            self.assertNotRegex(text, r"(?<!\\)(\\\\)+[wdsbWDSB]")

    def test_a_slow_pattern_is_found_wherever_it_stands_and_told_from_a_quick_one(self) -> None:
        for count, source in (
            (0, r'QUICK = re.compile(r"\A[a-z]+\Z")' + "\ndef f(t): return QUICK.match(t)"),
            (1, r'SLOW = re.compile(r"\s*\s*\Z")' + "\ndef f(t): return SLOW.match(t)"),
            (1, r'TABLE = (("a", re.compile(r"no (\w+ )*loaded")),)'),
            (
                1,
                r'RULES = {"x": [r"a+b|\n+:"]}'
                + "\ndef f(t, r=0):\n return re.search(r, t), RULES",
            ),
            (1, 'def f(t):\n number = "[0-9]+"\n return re.sub(f"{number}!", "", t)'),
        ):
            module: Any = ModuleType("attacked")
            exec("import re\n" + source, vars(module))
            self.assertEqual(len(slow(module, source)), count, source)


if __name__ == "__main__":
    unittest.main()
