"""The faster trafilatura: the same text to the byte as the package itself, on every page and with every option used."""

import itertools
import logging
import random
from typing import Any

import justext.core
import pytest
import trafilatura
import trafilatura.settings
import trafilatura.xpaths
from hypothesis import given, settings
from hypothesis import strategies as st
from justext.utils import get_stoplist
from lxml import etree, html

from bench import gold
from gristmill.extract import charset, sanitize, swift
from gristmill.extract.engines import Page, load
from gristmill.extract.swift import install, instance, paragraphs
from gristmill.extract.swift.predicates import Matcher, Unsupported

OPTIONS: dict[str, dict[str, bool]] = {
    "default": {},
    "precision": {"favor_precision": True, "include_comments": False},
    "recall": {"favor_recall": True},
    "no comments": {"include_comments": False},
}
EXPRESSIONS = [
    (name, number, expression)
    for name in (*install.FIRST_ONLY, *install.ALL)
    for number, expression in enumerate(getattr(trafilatura.xpaths, name))
] + [("BASIC_CLEAN_XPATH", 0, trafilatura.settings.BASIC_CLEAN_XPATH)]
PROSE = "The keeper of the lighthouse wrote down, every evening, how many ships had passed and in what weather. "
LINKS = "".join(f"<li><a href='/{n}'>Section number {n}</a></li>" for n in range(30))
NASTY = {
    "nothing": "",
    "no html": "just a line",
    "one element": "<p>x</p>",
    "article": f"<html><body><nav><ul>{LINKS}</ul></nav><article><h1>T</h1><p>{PROSE * 4}</p></article></body></html>",
    "short": f"<html><body><div class='x'>{PROSE}</div><div><ul>{LINKS}</ul></div></body></html>",
    "nested asides": f"<html><body><aside><aside>a</aside></aside><aside>b</aside><p>{PROSE * 5}</p></body></html>",
    "nested forms": f"<html><body><form><div><p>{PROSE * 5}</p><form><input></form></div></form></body></html>",
    "empty svg title": f"<html><body><svg><title/></svg><div><p>{PROSE * 3}</p></div><div>{PROSE}</div></body></html>",
    "verbatim": f"<html><body><xmp>{'<b>&amp;' * 90}</xmp><div><p>{PROSE}</p></div></body></html>",
    "video": f"<html><body><iframe src='https://www.youtube.com/e/1'></iframe><p>{PROSE}</p></body></html>",
    "comments": f"<html><body><article><p>{PROSE * 5}</p></article><div id='comments' class='comment-list'>"
    f"<p>{PROSE}</p><p>A comment that says something else.</p></div></body></html>",
    "forum": '<html><head><script type="application/ld+json">{"@type": "DiscussionForumPosting"}</script></head><body>'
    + "".join(f"<div class='comment'><p>{PROSE}{n}</p></div>" for n in range(6))
    + "</body></html>",
    "json": f'<html><body><script type="application/ld+json">{{"articleBody": "{PROSE * 3}"}}</script></body></html>',
    "loose text": f"<html><body><div>{PROSE}<br><br>{PROSE}<div>in</div>{PROSE}<a href='x'>y</a></div></body></html>",
    "no-break spaces": f"<html><body><div><a href=x>l</a>\u00a0</div><div>{PROSE}\u00a0\u2003{PROSE}</div></body>",
    "tables": "<html><body>"
    + "".join(f"<table><tr><th>a<td>{PROSE}<tr><td rowspan=2>b<td>{n}<tr><td>c</table>" for n in range(4))
    + "</body></html>",
    "selects": f"<html><body><select><option>{PROSE}</select><div>{PROSE * 2}</div><p>\u00a9 {PROSE}</body></html>",
    "pre": f"<html><body><pre>\n  one {{\n    two\n  }}</pre><p>{PROSE * 3}<code>x\n y</code></p></body></html>",
    "controls": f"<html><body><div>{PROSE}\u200b\x85\u2028\ufeff\x1f</div><p>{PROSE * 3}</p></body></html>",
    "deep": f"<html><body>{'<div>' * 240}<p>{PROSE * 3}</p></body></html>",
    "too deep": f"<html><body>{'<div>' * 600}<p>{PROSE * 3}</p></body></html>",
    "attributes": f"<html><body><div a<b \"=x class=>{PROSE}</div><p id='' class='share'>{PROSE * 3}</p></body></html>",
    "cyrillic": f"<html><body><div>{'Смотритель маяка каждый вечер записывал, сколько прошло судов. ' * 9}</div>",
}
TAGS = ["div", "p", "section", "span", "ul", "ol", "li", "article", "main", "aside", "header", "td", "table", "h1", "a",
        "details", "quote", "list", "item", "footer", "cite"]  # fmt: skip
ATTRIBUTES = ["id", "class", "role", "style", "itemprop", "data-component", "aria-hidden", "title",
              "data-lp-replacement-content"]  # fmt: skip
VALUES = sorted(
    {v for _, _, e in EXPRESSIONS for lit in e.path.split("'")[1::2] for v in lit.strip("^$").split("|")} | {"", "x"}
)


def plain(page: str | bytes, **options: Any) -> str | None:
    return trafilatura.extract(page, deduplicate=False, **options)


def faster(page: str | bytes, **options: Any) -> str | None:
    return install.extractor()(page, deduplicate=False, **options)


def test_the_installed_versions_are_the_pinned_ones() -> None:
    """With others the package runs as it is: then hold the faster parts against them, and pin them."""
    assert swift.is_pinned()
    assert swift.load() is install.extractor()


def test_another_version_runs_as_it_is_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(instance, "PINNED", {"trafilatura": "2.9.0", "jusText": "3.0.2"})
    swift.load.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            assert swift.load() is trafilatura.extract
            assert swift.load() is trafilatura.extract
        assert [r.message.count("2.9.0") for r in caplog.records] == [1]
    finally:
        swift.load.cache_clear()


def test_the_package_itself_is_left_alone() -> None:
    install.extractor()
    assert all(isinstance(e, etree.XPath) for _, _, e in EXPRESSIONS)
    assert trafilatura.utils.HTML_PARSER is not instance.module("utils").HTML_PARSER


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("page", NASTY)
def test_the_same_text_of_nasty_pages(page: str, options: str) -> None:
    assert faster(NASTY[page], **OPTIONS[options]) == plain(NASTY[page], **OPTIONS[options])


def test_the_nasty_pages_reach_what_they_are_for() -> None:
    assert sum(plain(page) is not None for page in NASTY.values()) > len(NASTY) - 6
    assert (plain(NASTY["forum"]) or "").count("lighthouse") == 6


@pytest.mark.skipif(not gold.available(), reason="needs ../shared/data")
@pytest.mark.parametrize("options", OPTIONS)
def test_the_same_text_of_some_real_pages(options: str) -> None:
    pages = itertools.chain.from_iterable(gold.pages(name) for name in gold.SETS)
    for page in itertools.islice(pages, list(OPTIONS).index(options), None, 80):
        assert faster(page.body, **OPTIONS[options]) == plain(page.body, **OPTIONS[options]), page.id


@pytest.mark.slow
@pytest.mark.skipif(not gold.available(), reason="needs ../shared/data")
@pytest.mark.parametrize("name", gold.SETS)
def test_the_same_text_of_all_gold_pages_as_the_engine_gives(name: str) -> None:
    run = load("trafilatura").extract
    for page in gold.pages(name):
        clean = sanitize.clean(charset.decode(page.body, None).text)
        ready = Page(clean.html, page.url, clean.title, clean.traits)
        expected = trafilatura.extract(clean.html, url=page.url or None, deduplicate=False) or ""
        assert run(ready).text == expected, page.id


@st.composite
def trees(draw: st.DrawFn) -> html.HtmlElement:
    """A tree whose attributes are made of what the expressions look for."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    root = html.Element("html")
    elements = [root]
    for _ in range(draw(st.integers(1, 40))):
        names = rng.sample(ATTRIBUTES, rng.randrange(4))
        before, after = ("", "a ", "A", "t-"), ("", " b", "x")
        attributes = {n: rng.choice(before) + rng.choice(VALUES) + rng.choice(after) for n in names}
        elements.append(etree.SubElement(rng.choice(elements[-6:]), rng.choice(TAGS), attributes))
    return root


@settings(max_examples=150, deadline=None)
@given(trees())
def test_predicates_match_what_xpath_matches(tree: html.HtmlElement) -> None:
    for name, number, expression in EXPRESSIONS:
        first = name in install.FIRST_ONLY
        expected = expression(tree)
        found = MATCHERS[name, number](tree)
        assert found == (expected[:1] if first else expected), (name, number)


MATCHERS = {(n, k): Matcher(e.path, first=n in install.FIRST_ONLY) for n, k, e in EXPRESSIONS}


@pytest.mark.parametrize(
    "path", ["//div", ".//div[2]", ".//div[@a=@b]", ".//a|.//div[.//h1]", ".//div[count(@a)]", ".//div[", ".//p/@id",
             ".//div[translate(@a, 'aa', 'bc')='x']", "(.//div)[1]"]
)  # fmt: skip
def test_an_expression_that_says_more_is_refused(path: str) -> None:
    with pytest.raises(Unsupported):
        Matcher(path)


def test_verdicts_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gristmill.extract.swift.predicates.MOST_REMEMBERED", 10)
    matcher = Matcher(".//div[contains(@class, '7')]")
    tree = html.fromstring("<main>" + "".join(f"<div class='{n}'></div>" for n in range(100)) + "</main>")
    assert [e.get("class") for e in matcher(tree)] == [str(n) for n in range(100) if "7" in str(n)]
    assert len(matcher._verdicts) <= 10


PIECES = ["<p>", "</p>", "<div>", "</div>", "<br>", "<a href='x'>", "</a>", "<select>", "</select>", "<h2>", "</h2>",
          "\n", "  \t", "\u00a0", "\u00a9", "the of and to in is that it for was on are as with ", "Xylophon quartz ",
          "A sentence with the words that are in every language of the list. " * 3, "word ", "."]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=40))
def test_paragraphs_are_those_of_justext(pieces: list[str]) -> None:
    tree = html.document_fromstring("<html><body>" + "".join(pieces) + "</body></html>")
    expected = justext.core.ParagraphMaker.make_paragraphs(tree)
    stopwords = get_stoplist("English")
    justext.core.classify_paragraphs(expected, stopwords, 50, 150, 0.1, 0.2, 0.25, True)
    justext.core.revise_paragraph_classification(expected, 150)
    found = paragraphs.paragraphs(tree)
    assert [p[0] for p in found] == [p.text for p in expected]
    kinds = [paragraphs.first_class(p, stopwords) for p in found]
    assert kinds == [p.cf_class for p in expected]
    assert paragraphs.revise(kinds) == [p.class_type for p in expected]
