"""XPath expressions over tags and attributes, decided in Python once per kind of element.

trafilatura finds what to keep and what to prune by expressions such as ``.//*[self::div or self::p][re:test(@class,
'share|menu')]``, and lxml calls back into Python for every regular expression on every element. But class and id say
the same thing again and again: here the verdict on a tag and its attributes is remembered, across pages too.

Belongs here: the part of XPath 1.0 that such expressions use (unions of ``.//name[predicate]...``, attributes compared
or tested, ``and``, ``or``, ``not``), and remembering verdicts. A predicate that asks for more is left to lxml, for the
elements that pass the others. Does not belong here: which expressions are replaced (``install.py``).
"""

import re
from collections.abc import Callable
from typing import Any

from lxml import etree

NAMESPACES = {"re": "http://exslt.org/regular-expressions"}
MOST_REMEMBERED = 50_000  # verdicts an expression keeps: a crawl has that many classes in a few thousand pages
_TOKEN = re.compile(r"""\s*('[^']*'|"[^"]*"|re:test|self::[\w-]+|@[\w-]+|\.//|[\w-]+|[][()|,=*])""")
Attributes = dict[str, str]  # in the order of the page's source: a union of attributes means the first of them
Test = Callable[[str, Attributes], bool]
Value = Callable[[Attributes], str]


class Unsupported(Exception):  # noqa: N818 - a property of the expression, not a fault
    """The expression uses more of XPath than this module knows."""


class Alternative:
    """One path of a union: ``.//name`` or ``.//*`` with predicates."""

    def __init__(self, tags: frozenset[str] | None, tests: list[Test], rest: list[str]) -> None:
        self.tags, self.rest = tags, rest  # tags: None for any
        self._test = _all(tests)

    def holds(self, tag: str, attributes: Attributes) -> bool:
        """Do all predicates hold that tag and attributes decide."""
        return (self.tags is None or tag in self.tags) and self._test(tag, attributes)


class Matcher:
    """A compiled expression: called with an element it gives the list of matching descendants in document order.

    With ``first`` it gives at most the first: for callers who take no other, whatever positions the expression names.

    Raises:
        Unsupported: the expression is left to lxml.
    """

    def __init__(self, path: str, *, first: bool = False) -> None:
        self.path, self.first = path, first
        parser = _Parser(path, first)
        alternatives = parser.union()
        rests = [a for a in alternatives if a.rest]
        if rests and len(alternatives) > 1:
            raise Unsupported(path)
        self._exact = (
            etree.XPath("self::*" + "".join(f"[{p}]" for p in rests[0].rest), namespaces=NAMESPACES) if rests else None
        )
        self._alternatives = alternatives
        known = [a.tags for a in alternatives if a.tags is not None]
        self._tags = sorted(frozenset().union(*known)) if len(known) == len(alternatives) else ["*"]
        self._by_tag = parser.asks_tag or len(alternatives) > 1
        self._wanted = frozenset(parser.attributes)
        self._verdicts: dict[Any, bool] = {}

    def __call__(self, tree: Any) -> list[Any]:
        """Matching descendants of an element."""
        found = []
        wanted, verdicts, by_tag = self._wanted, self._verdicts, self._by_tag
        for element in tree.iterdescendants(*self._tags):
            items = element.items()
            key: Any = tuple([i for i in items if i[0] in wanted]) if items else ()
            if by_tag:
                key = element.tag, key
            verdict = verdicts.get(key)
            if verdict is None:
                verdict = self._judge(element.tag, key)
            if verdict and (self._exact is None or self._exact(element)):
                found.append(element)
                if self.first:
                    break
        return found

    def _judge(self, tag: str, key: Any) -> bool:
        attributes = dict(key[1] if self._by_tag else key)
        verdict = any(a.holds(tag, attributes) for a in self._alternatives)
        if len(self._verdicts) >= MOST_REMEMBERED:
            self._verdicts.clear()
        self._verdicts[key] = verdict
        return verdict


class _Parser:
    """Recursive descent over the tokens of an expression."""

    def __init__(self, path: str, first: bool) -> None:
        self.path, self.first = path, first
        self.tokens: list[tuple[str, int]] = []
        at = 0
        while path[at:].strip():
            found = _TOKEN.match(path, at)
            if found is None:
                raise Unsupported(path)
            self.tokens.append((found.group(1), found.start(1)))
            at = found.end()
        self.at = 0
        self.attributes: set[str] = set()
        self.asks_tag = self.looks_inside = False

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise Unsupported(f"{self.path}: {token!r} where {expected or 'more'} was expected")
        self.at += 1
        return token

    def union(self) -> list[Alternative]:
        out = [self.alternative()]
        while self.peek() == "|":
            self.take()
            out.append(self.alternative())
        if self.peek():
            raise Unsupported(self.path)
        return out

    def alternative(self) -> Alternative:
        grouped = self.peek() == "("
        if grouped:
            self.take()
        self.take(".//")
        name = self.take()
        tags = None if name == "*" else frozenset([name])
        tests: list[Test] = []
        rest: list[str] = []
        while self.peek() == "[":
            if self._position():
                continue
            alone = self._tags_alone()
            if alone is not None and tags is None:
                tags = alone
                continue
            self.take("[")
            start, self.looks_inside = self.tokens[self.at :][:1], False
            test = self.either()
            end = self.tokens[self.at :][:1]
            self.take("]")
            if self.looks_inside:
                rest.append(self.path[start[0][1] : end[0][1]])
            else:
                tests.append(test)
        if grouped:
            self.take(")")
            if not self._position():
                raise Unsupported(self.path)
        return Alternative(tags, tests, rest)

    def _position(self) -> bool:
        """``[1]``: means nothing more to a caller who takes the first of all."""
        if [t for t, _ in self.tokens[self.at : self.at + 3]] != ["[", "1", "]"]:
            return False
        if not self.first:
            raise Unsupported(self.path)
        self.at += 3
        return True

    def _tags_alone(self) -> frozenset[str] | None:
        """``[self::a or self::b]``, where the next predicate is that: its names."""
        end, names = self.at + 1, set()
        while end < len(self.tokens) and self.tokens[end][0].startswith("self::"):
            names.add(self.tokens[end][0].removeprefix("self::"))
            end += 1
            if end < len(self.tokens) and self.tokens[end][0] == "or":
                end += 1
                continue
            break
        if not names or end >= len(self.tokens) or self.tokens[end][0] != "]":
            return None
        self.at = end + 1
        return frozenset(names)

    def either(self) -> Test:
        tests = [self.both()]
        while self.peek() == "or":
            self.take()
            tests.append(self.both())
        return _any(tests)

    def both(self) -> Test:
        tests = [self.one()]
        while self.peek() == "and":
            self.take()
            tests.append(self.one())
        return _all(tests)

    def one(self) -> Test:
        ahead = self.peek()
        if ahead in ("not", "("):
            self.take()
            if ahead == "not":
                self.take("(")
            inner = self.either()
            self.take(")")
            return inner if ahead == "(" else lambda tag, attributes: not inner(tag, attributes)
        if ahead.startswith("self::"):
            self.asks_tag = True
            name = self.take().removeprefix("self::")
            return lambda tag, attributes: tag == name
        if ahead == ".//":
            self.take()
            self.take()
            self.looks_inside = True
            return _never
        if ahead in _STRING_TESTS:
            return self._call(_STRING_TESTS[self.take()])
        if ahead.startswith("@"):
            name = self._attribute()
            if self.peek() == "=":
                self.take()
                wanted = self._literal()
                return lambda tag, attributes: attributes.get(name) == wanted
            return lambda tag, attributes: name in attributes
        raise Unsupported(f"{self.path}: {ahead!r}")

    def _call(self, build: Callable[[Value, list[str]], Test]) -> Test:
        self.take("(")
        value = self._value()
        literals = []
        while self.peek() == ",":
            self.take()
            literals.append(self._literal())
        self.take(")")
        return build(value, literals)

    def _value(self) -> Value:
        if self.peek() == "translate":
            self.take()
            self.take("(")
            inner = self._value()
            self.take(",")
            old = self._literal()
            self.take(",")
            new = self._literal()
            self.take(")")
            if len(old) != len(new) or len(set(old)) != len(old):
                raise Unsupported(self.path)
            table = str.maketrans(old, new)
            return lambda attributes: inner(attributes).translate(table)
        name = self._attribute()
        if self.peek() != "|":
            return lambda attributes: attributes.get(name, "")
        names = {name}
        while self.peek() == "|":
            self.take()
            names.add(self._attribute())
        return lambda attributes: next((attributes[n] for n in attributes if n in names), "")

    def _attribute(self) -> str:
        token = self.take()
        if not token.startswith("@"):
            raise Unsupported(f"{self.path}: {token!r} is no attribute")
        self.attributes.add(token[1:])
        return token[1:]

    def _literal(self) -> str:
        token = self.take()
        if token[0] not in "'\"":
            raise Unsupported(f"{self.path}: {token!r} is no literal")
        return token[1:-1]


def _never(tag: str, attributes: Attributes) -> bool:
    """Stands for what lxml is asked: what is inside an element."""
    return False


def _any(tests: list[Test]) -> Test:
    """One of the tests holds."""
    if len(tests) == 1:
        return tests[0]

    def test(tag: str, attributes: Attributes) -> bool:
        for one in tests:  # noqa: SIM110 - a generator costs more than the tests
            if one(tag, attributes):
                return True
        return False

    return test


def _all(tests: list[Test]) -> Test:
    """Every test holds."""
    if len(tests) == 1:
        return tests[0]

    def test(tag: str, attributes: Attributes) -> bool:
        for one in tests:  # noqa: SIM110 - likewise
            if not one(tag, attributes):
                return False
        return True

    return test


def _matches(value: Value, literals: list[str]) -> Test:
    ignore = re.IGNORECASE if "i" in "".join(literals[1:]) else re.NOFLAG
    pattern = re.compile(literals[0], ignore)
    return lambda tag, attributes: pattern.search(value(attributes)) is not None


def _contains(value: Value, literals: list[str]) -> Test:
    return lambda tag, attributes: literals[0] in value(attributes)


def _starts(value: Value, literals: list[str]) -> Test:
    return lambda tag, attributes: value(attributes).startswith(literals[0])


_STRING_TESTS = {"re:test": _matches, "contains": _contains, "starts-with": _starts}
