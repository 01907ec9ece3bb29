"""Structure that matters survives: headings, lists, tables, preformatted text, inline code on its line."""

import numpy as np
import pytest

from gristmill.extract import render
from gristmill.extract.blocks import blocks
from gristmill.extract.scan import scan


def text(html: str) -> str:
    page = blocks(scan(html.encode()))
    return render.text(page, np.ones(len(page), bool))


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2>Head <em>line</em></h2><p>one</p><p>two</p>", "## Head line\n\none\n\ntwo"),
        ("<p>use <code>len(x)</code> here, <a href=x>or</a> there</p>", "use len(x) here, or there"),
        ("<p>a\n  b<br>c</p>", "a b\nc"),
        ("<ul><li>one<li>two <b>bold</b></ul>after", "- one\n- two bold\n\nafter"),
        ("<ol><li>one</li><li>two</li><li>three</li></ol>", "1. one\n2. two\n3. three"),
        ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c"),
        ("<ul><li><p>first</p><p>second</p></li></ul>", "- first\n  second"),
        ("<table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>1</td></tr></table>", "| k | v |\n| a | 1 |"),
        ("<table><tr><td>a</td><td></td><td>c</td></tr></table>", "| a |  | c |"),
        ("<pre>def f():\n    if x:\n        <b>return</b> 1\n</pre>", "def f():\n    if x:\n        return 1"),
        ("<table><tr><td><pre>1\n2\n3</pre></td><td><pre>if x:\n    y()\nz()</pre></td></tr></table>",
         "if x:\n    y()\nz()"),
        ("<table><tr><td>1</td><td><pre>one line</pre></td></tr></table>", "| 1 | one line |"),
        ("<pre><table><tr><td>a</td><td>b</td></tr></table></pre>", "| a | b |"),
        ("<p>a &lt; b &amp;&amp; c&nbsp;d</p>", "a < b && c d"),
    ],
)
def test_structure(html: str, expected: str) -> None:
    assert text(html) == expected


def test_a_table_that_lays_out_a_page_gives_paragraphs() -> None:
    long = "word " * 100
    assert "|" not in text(f"<table><tr><td>menu</td><td><p>{long}</p><p>{long}</p></td></tr></table>")


def test_a_row_of_data_has_no_holes_and_a_layout_stays_as_it_was_chosen() -> None:
    page = blocks(scan(b"<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table><p>p</p>"))
    assert render.whole_rows(page, np.array([True, False, False, False, True])).tolist() == [
        True, True, False, False, True]
    page = blocks(scan(b"<table><tr><td>menu</td><td>" + b"word " * 40 + b"</td></tr></table>"))
    assert render.whole_rows(page, np.array([False, True])).tolist() == [False, True]
    page = blocks(scan(b"<p>a</p><p>b</p>"))
    assert render.whole_rows(page, np.array([False, True])).tolist() == [False, True]


def test_only_chosen_blocks_are_written() -> None:
    page = blocks(scan(b"<p>one</p><p>two</p><p>three</p>"))
    assert render.text(page, np.array([True, False, True])) == "one\n\nthree"
    assert render.text(page, np.zeros(3, bool)) == ""
