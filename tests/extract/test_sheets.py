"""Rules that hide are found in a style sheet's bytes as patterns find them in its text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.extract import hidden, scan, sheets

COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
NESTED = re.compile(r"@[^{};]+\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
SIMPLE = re.compile(r"^(?:[a-z][a-z0-9]*)?([.#])([\w-]+)$", re.IGNORECASE)
PIECES = ("{", "}", "{", "}", "@media", "@", ";", "/*", "*/", " ", "\n", ".a", "#b", "p.c", ",", "display:none", "x",
          "-", "position:absolute;left:-9999px", "font-size:0", "font:0/0 a", "\u00e9", "OPACITY:0;", ".d-e", ":hover",
          "/", "*", "overflow:hidden;height:0")


def by_pattern(sheet: str) -> tuple[set[bytes], set[bytes]]:
    """The plain reading: comments out, conditional blocks out, rules one by one."""
    found: dict[str, set[bytes]] = {".": set(), "#": set()}
    for selectors, body in RULE.findall(NESTED.sub(" ", COMMENT.sub(" ", sheet))):
        if hidden.hides(body):
            for selector in selectors.split(","):
                match = SIMPLE.match(selector.strip())
                if match:
                    found[match.group(1)].add(match.group(2).encode())
    return found["."], found["#"]


def by_bytes(sheet: str) -> tuple[set[bytes], set[bytes]]:
    return hidden._style_rules(scan.scan(f"<style>{sheet}</style>".encode()))[:2]


@pytest.mark.parametrize(
    ("sheet", "classes", "ids"),
    [
        (".a{display:none}", {b"a"}, set()),
        (".a:hover{display:none} div#b , p.c{VISIBILITY:hidden}", {b"c"}, {b"b"}),
        ("@media print{.a{display:none}} .b{display:none}", {b"b"}, set()),
        ("@supports (x){@media print{.a{display:none}}} .b{display:none}", {b"b"}, set()),
        ("@import 'x';.a{display:none}", set(), set()),  # read as one selector, as before a rule
        ("/* .a{display:none} */.b{left:-9999px;position:absolute}", {b"b"}, set()),
        (".a{}.b{color:red;display:/**/none}.c{opacity:0.5}", {b"b"}, set()),
        ("/* .a{display:none}", set(), set()),
        (".\u00e9t\u00e9{display:none}", {"\u00e9t\u00e9".encode()}, set()),
    ],
)
def test_rules_that_hide(sheet: str, classes: set[bytes], ids: set[bytes]) -> None:
    assert by_bytes(sheet) == (classes, ids)
    assert by_pattern(sheet) == (classes, ids)


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_any_sheet_is_read_alike(pieces: list[str]) -> None:
    sheet = "".join(pieces)
    assert by_bytes(sheet) == by_pattern(sheet)


def test_a_sheet_of_openings_costs_no_more_than_its_size() -> None:
    for piece in (b"@", b"@a{", b"@a{x{}", b"/*", b"{", b".a{-"):
        assert sheets.rules(piece * 40_000) == []
