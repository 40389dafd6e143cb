"""Every regular expression of agent.py against texts that were grown from it: the time must stay linear.

    python -m tests.attacks.patterns    with texts of 2000 characters; `python -m tests --whole` takes 4000

Texts are grown from the parts of a pattern's own syntax tree: each part again and again, behind what comes before it and
with an end that does not fit. Doubling a text may take 2.5 times as long at most.
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
METHODS = set("search match fullmatch sub split findall finditer".split())
# Tables whose texts are short and matched whole.
OF_WHOLE_TEXTS = {"RISKS", "RUNNERS", "ENTERED", "SHOWING_ONLY"}
# Of patterns that a text has to begin with.
OF_BEGINNINGS = {"_FIELD_FORMS", "_KEYWORD_FORMS", "_OBJECT_FORMS"}
MEASURABLE_S = 0.000_06
DOUBLING_S = 0.02  # more than any pattern takes for a hundred characters
CHARS, CHARS_LONG = 2_000, 4_000
TIMES_MOST = 2.5
NUMBER = r"-?\d{1,6}(?:\.\d{1,6})?"
# The patterns that are named where they are used, beside those of the tables.
NAMED = set(re.findall(r'has_form\("(\w+)"', SOURCE))


# What is put together while the program runs: what it is then. Of nothing: escaped, or of texts that are the program's own.
def signs_of_a_secret(module: Any) -> list[str]:
    return list(module.Secrets({"KEY": "correct-horse 4711"})._hidden["correct-horse 4711"][-1])


BUILT: dict[str, Callable[[Any], list[str]]] = {
    "form": lambda module: [
        rf"a\.txt\W+\w+ {module._QUOTED}\W*\Z",
        *(form for _, form in module.KINDS_SAID),
    ],
    "f'\\\\b{tool}\\\\b'": lambda module: [rf"\b{name}\b" for name in module.TOOLS],
    "field_form": lambda module: [*module._FIELD_FORMS.values()],
    "pattern": lambda module: [*module.PAINT.values(), "".join(signs_of_a_secret(module))],
    r"f'\\A\\s*(?:{at}[.):]|[-*•])\\s+'": lambda module: [r"\A\s*(?:12[.):]|[-*•])\s+"],
    "f'({others})|{name}'": lambda module: [r"(my\ a\.txt|a\.txt\.bak)|a\.txt"],
    """f'(?m){end} +"(?:[^"]|"")+"(?:{end}|$)'""": lambda module: [
        r'(?m); +"(?:[^"]|"")+"(?:;|$)',
        r'(?m)\t +"(?:[^"]|"")+"(?:\t|$)',
    ],
    "either": lambda module: [],
    "begin": lambda module: ["".join(signs_of_a_secret(module)[: module.SECRET_CHARS_SAFE])],
    "sign": lambda module: signs_of_a_secret(module),
    "PATTERNS[name]": lambda module: [module.PATTERNS[name] for name in NAMED],
    "call": lambda module: [call for call, _, _ in module._FORMS],
    "argument": lambda module: [argument for _, argument, _ in module._FORMS],
    "words": lambda module: [rf"\b({words})" for words in module.UNSEEN_KEYS.values()],
    "f'((?:{call})(?s:.*))|{_THOUGHT}'": lambda module: [
        rf"((?:{module.CALL_BEGINS})(?s:.*))|{module._THOUGHT}"
    ],
    "f'{number}(?:\\\\s?,\\\\s?{number})+'": lambda module: [rf"{NUMBER}(?:\s?,\s?{NUMBER})+"],
    r"'\\(?' + PARTING.join(number)": lambda module: [r"\(?" + module.PARTING.join("DE12345678")],
    r"f'(?<!\\w){re.escape(self.info.name)}(?!\\w)'": lambda module: [],
    "re.escape(number) + UNIT": lambda module: [r"12\.5" + module.UNIT],
    "_INTO_IT + named + _NO_MORE_OF_IT": lambda module: [
        rf"{module._INTO_IT}a\.txt{module._NO_MORE_OF_IT}"
    ],
    "_SAVED_AS + named": lambda module: [rf"{module._SAVED_AS}a\.txt"],
    "_GOES.replace('PATH', named)": lambda module: [module._GOES.replace("PATH", r"a\.txt")],
    "grammar.matches": lambda module: [one.matches for one in module.GRAMMARS.values()],
    **dict.fromkeys([f"whole_words({of})" for of in ("words", "text", "word")], lambda module: []),
    r"whole_words(text) + '(?![^{]*\\})'": lambda module: [],
    **dict.fromkeys(
        ["begins", "step.tool", "like", "said", "called", r"'(\\w+) (\\w+)'"], lambda module: []
    ),
}


class Use(NamedTuple):
    """A pattern and how it is used."""

    pattern: str | bytes
    flags: int
    method: str


def uses(module: Any, source: str) -> set[Use]:
    """Every use of a regular expression in the file; raises LookupError where its pattern cannot be found."""
    found = set[Use]()
    for node in ast.walk(ast.parse(source)):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in METHODS:
            of_module = ast.unparse(called.value) == "re"
            for one in patterns_of(module, node.args[0] if of_module else called.value, of_module):
                flags = [part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)]
                given = sum(int(getattr(re, name)) for name in set(flags) if name.isupper())
                found.add(use_of(one, called.attr, given))
    used = {use.pattern for use in found}
    for name, value in vars(module).items():
        method = "match" if name in OF_BEGINNINGS else "search"
        method = "fullmatch" if name in OF_WHOLE_TEXTS else method
        patterns = [one for one in parts_of(value) if isinstance(one, re.Pattern)]
        found |= {use_of(one, method) for one in patterns if one.pattern not in used}
    return found


def use_of(pattern: Any, method: str, flags: int = 0) -> Use:
    if isinstance(pattern, re.Pattern):
        return Use(pattern.pattern, pattern.flags & ~re.UNICODE, method)
    return Use(pattern, flags, method)


def patterns_of(module: Any, node: ast.AST, surely: bool) -> list[Any]:
    """What an expression of the file's own names is, if `surely` it is a pattern; else if it is a compiled one."""
    written = ast.unparse(node)
    if written in BUILT:
        return BUILT[written](module) if surely else []
    try:
        value = None if "(" in written and not surely else eval(written, dict(vars(module)))
    except Exception:
        value = None
    if surely and not isinstance(value, (str, bytes, re.Pattern)):
        raise LookupError(f"where its patterns come from cannot be seen: {written}")
    return [value] if surely or isinstance(value, re.Pattern) else []


def parts_of(value: Any) -> Iterator[Any]:
    """What a table holds, at any depth."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from parts_of(item)
    else:
        yield value


# -- texts that are grown from a pattern

REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
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
    return spelled(value[-1]) if kind in ("SUBPATTERN", "ASSERT") else ""


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
                texts |= {(head, body, end): None for end in ("", "\0", "\0q7")}
    return texts


# -- time: of this thread's processor, so that what else the machine does counts little; Windows counts it too coarsely

now = time.perf_counter if os.name == "nt" else time.thread_time


def is_slow(use: Use, grown: tuple[str, str, str], chars: int) -> bool:
    """Whether twice the text takes more than twice the time, whenever it is measured."""
    head, piece, end = grown
    read = getattr(re.compile(use.pattern, use.flags), use.method)
    empty: Any = b"" if isinstance(use.pattern, bytes) else ""
    before = [empty] if use.method == "sub" else []

    def seconds(count: int) -> float:
        text: Any = head + piece * max(1, count // len(piece)) + end
        text = text.encode("latin-1", "replace") if isinstance(use.pattern, bytes) else text
        begin = now()
        for _ in read(*before, text) if use.method == "finditer" else [read(*before, text)]:
            pass
        return max(now() - begin, 1e-7)

    if any(seconds(count) > DOUBLING_S for count in range(16, 100, 12)):
        return True  # each piece more takes twice the time: a longer text would never end
    few = seconds(chars // 8)
    while few > 8 * MEASURABLE_S and chars > 1_000:  # else the slow ones would take minutes
        chars //= 2
        few = seconds(chars // 8)
    many = seconds(chars) if few < 100 * MEASURABLE_S else 16 * few
    if many < MEASURABLE_S or few < many < 12 * few:  # eight times the text: 8 times, not 64
        return False
    half, whole = float("inf"), float("inf")
    for number in range(12):
        half, whole = min(half, seconds(chars // 2)), min(whole, seconds(chars))
        if whole <= 2.2 * half or (number > 1 and whole >= 3.5 * half):  # a square has 4
            break
    return whole > TIMES_MOST * half


def slow(module: Any = agent, source: str = SOURCE, chars: int = CHARS) -> list[str]:
    """A sentence for each pattern whose time grows faster than its text."""
    sentences = []
    for use in sorted(uses(module, source), key=repr):
        text = use.pattern.decode() if isinstance(use.pattern, bytes) else use.pattern
        for grown in grown_texts(text):
            # a machine that is busy slows the longer text down by chance
            if all(is_slow(use, grown, chars) for _ in range(6)):
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
                r'SLOW = re.compile(r"((all|alle|e)\W*)+!")'
                + "\ndef f(t): return SLOW.fullmatch(t)",
            ),
            (1, 'NUMBER = "[0-9]+"\ndef f(t): return re.sub(f"{NUMBER}!", "", t)'),
        ):
            module: Any = ModuleType("attacked")
            exec("import re\n" + source, vars(module))
            self.assertEqual(len(slow(module, source)), count, source)
        with self.assertRaises(LookupError):
            uses(module, 'def f(t, unheard): return re.search(unheard + "x", t)')


if __name__ == "__main__":
    unittest.main()
