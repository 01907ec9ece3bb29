"""The demo's pages look like pages: an extractor finds the text and leaves the frame."""

import pytest

from gristmill.demo.shingles import jaccard
from gristmill.demo.templates import KINDS, Extras, Site, render, sites
from gristmill.demo.texts import Article, Block, Supply


@pytest.fixture(scope="module")
def pages() -> list[tuple[Site, Article, str]]:
    supply = Supply()
    return [(s, a, render(s, a, "/x/y")) for s in sites(12) for a in [supply.article(260)]]


def test_hosts_are_reserved_and_distinct():
    hosts = [s.host for s in sites(36)]
    assert len(set(hosts)) == 36
    assert all(h.endswith(".example") for h in hosts)
    assert {s.kind for s in sites(36)} == set(KINDS)


def test_an_extractor_finds_the_main_text(pages):
    from resiliparse.extract.html2text import extract_plain_text

    for site, article, html in pages:
        found = extract_plain_text(html, main_content=True)
        assert jaccard(found, article.text) > (0.85 if site.kind in ("article", "docs", "wiki") else 0.6), site


def test_every_page_has_the_frame_of_a_site(pages):
    for site, _, html in pages:
        for part in ("<nav", "cookie-banner", "<footer", "<aside", "<script>", f"{site.name} uses cookies"):
            assert part in html


def test_markup_in_a_text_is_escaped():
    site = sites(1)[0]
    html = render(site, Article("a < b", (Block("p", "if a<b & c>d"), Block("pre", "<x>\n  y"))), "/p")
    assert "if a&lt;b &amp; c&gt;d" in html
    assert "<pre><code>&lt;x&gt;\n  y</code></pre>" in html


def test_extras_are_where_they_were_put():
    site = sites(1)[0]
    extras = Extras(before="<p>B</p>", after="<p>A</p>", raw={0: "x<br>y"}, lang="de", charset="iso-8859-1")
    html = render(site, Article("t", (Block("p", "x\ny"),)), "/p", extras)
    assert "<p>B</p><p>x<br>y</p><p>A</p>" in html
    assert '<html lang="de">' in html
    assert '<meta charset="iso-8859-1">' in html
