"""The scanner puts text into the elements that a browser's parser puts it in."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.extract import hints, scan, tags


def boxes(page: scan.Scan, token: int) -> list[str]:
    out = []
    element = int(page.parent[token])
    while element >= 0:
        out.append(tags.NAMES[page.tag[element]])
        element = int(page.parent[element])
    return out


def where(html: str) -> dict[str, list[str]]:
    """Text -> the elements around it, innermost first."""
    page = scan.scan(html.encode())
    return {
        page.buf[page.start[t] : page.end[t]].tobytes().decode().strip(): boxes(page, t)
        for t in range(len(page))
        if page.kind[t] in (scan.TEXT, scan.RAW)
    }


@pytest.mark.parametrize(
    ("html", "text", "around"),
    [
        ("<p>a<p>b", "b", ["p"]),
        ("<p>a<div>b</div>c", "c", []),
        ("<ul><li>a<li>b</ul>c", "b", ["li", "ul"]),
        ("<ul><li>a<ul><li>b</ul>c</ul>d", "c", ["li", "ul"]),
        ("<dl><dt>a<dd>b<dt>c</dl>", "c", ["dt", "dl"]),
        ("<table><tr><td>a<td>b<tr><td>c</table>d", "b", ["td", "tr", "table"]),
        ("<table><tr><td>a<td>b<tr><td>c</table>d", "c", ["td", "tr", "table"]),
        ("<table><tr><td>a<td>b<tr><td>c</table>d", "d", []),
        ("<table><tr><td><table><tr><td>a</table>b</table>", "b", ["td", "tr", "table"]),
        ("<div><span>a</div>b", "b", []),
        ("<div>a</span>b</div>c", "c", []),
        ("<a>x<a>y</a>z", "z", []),
        ("<h1>a<h2>b</h2>", "b", ["h2"]),
        ("<select><option>a<option>b</select>", "b", ["option", "select"]),
        ("<p>a<br/>b<img>c", "c", ["p"]),
        ("<div/>a", "a", ["div"]),
        ("<td>a</table>b</td>c", "c", []),
        ("<script>if (a<b) { '</p>' }</script>x", "if (a<b) { '</p>' }", ["script"]),
        ("<title>a<b>c</title>x", "a<b>c", ["title"]),
        ("<p title='a>b' data-x=\"<p>\">y</p>", "y", ["p"]),
        ("1 < 2 <p>x", "1 < 2", []),
        ("<!-- <p> -->x", "x", []),
        ("<!-->x", "x", []),
        ("<!doctype html><?php x ?>y", "y", []),
        ("</ x>y", "y", []),
    ],
)
def test_what_is_in_what(html: str, text: str, around: list[str]) -> None:
    assert where(html)[text] == around


def test_attributes_by_byte_range() -> None:
    page = scan.scan(b"<div CLASS='a  b' id=c style=\"color:red\" hidden aria-hidden=TRUE class=second>x</div>")
    assert page.value(0, scan.CLASS) == b"a  b"
    assert page.value(0, scan.ID) == b"c"
    assert page.value(0, scan.STYLE) == b"color:red"
    assert page.flags[0] == scan.A_HIDDEN | scan.A_ARIA_HIDDEN
    assert page.outer_end(0) == len(page.buf)


@pytest.mark.parametrize(
    ("value", "meanings"),
    [
        ("main-nav", {"nav", "main"}),
        ("mainNav", {"main", "nav"}),
        ("post_Comments2", {"post", "comment"}),
        ("xyz", set()),
    ],
)
def test_words_in_names(value: str, meanings: set[str]) -> None:
    page = scan.scan(f'<div class="{value}">x</div>'.encode())
    assert {m for m, bit in hints.BIT.items() if int(page.hint[0]) >> bit & 1} == meanings


def test_two_hundred_thousand_elements_cost_no_more_than_as_many_side_by_side() -> None:
    page = scan.scan(b"<div>" * 200_000)
    assert int(page.depth.max()) == 199_999
    assert (page.close == len(page)).all()


@given(st.binary(max_size=300))
def test_tokens_cover_every_byte_once(data: bytes) -> None:
    page = scan.scan(data)
    assert page.start.tolist() == [0, *page.end.tolist()][: len(page)]
    assert not len(data) or int(page.end[-1]) == len(data)
    assert (page.parent < np.arange(len(page))).all()


@pytest.mark.shared
def test_real_pages_nest_as_lexbor_nests_them(shared: Path) -> None:
    """Of real text, less than 3 % stands in other boxes than in a standard parser's tree."""
    from resiliparse.parse.html import HTMLTree, traverse_dom

    from bench import gold
    from gristmill.extract.charset import decode

    kinds = {"div", "td", "li", "p", "nav", "ul", "section", "article", "footer", "header", "table"}
    skipped = {"script", "style", "noscript", "title", "textarea", "iframe", "template"}
    total = wrong = 0
    for name in gold.SETS:
        for number, gold_page in enumerate(gold.pages(name)):
            if number % 15:
                continue
            text = decode(gold_page.body).text
            page = scan.scan(text.encode())
            mine = Counter(
                tuple(b for b in boxes(page, t) if b in kinds)
                for t in range(len(page))
                if page.kind[t] == scan.TEXT and page.buf[page.start[t] : page.end[t]].tobytes().strip()
            )
            theirs: Counter[tuple[str, ...]] = Counter()

            def visit(context: object, found: Counter[tuple[str, ...]] = theirs) -> None:
                node = context.node  # type: ignore[attr-defined]
                if node.node_name != "#text" or not (node.value or "").strip():
                    return
                chain = []
                node = node.parent
                while node is not None and node.tag not in (None, "#document"):
                    chain.append(node.tag)
                    node = node.parent
                if not skipped & set(chain):
                    found[tuple(b for b in chain if b in kinds)] += 1

            traverse_dom(HTMLTree.parse(text).document, visit)
            total += sum(theirs.values())
            wrong += sum((theirs - mine).values())
    assert total > 10_000
    assert wrong < 0.03 * total
