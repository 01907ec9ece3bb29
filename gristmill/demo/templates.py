"""How the demo's pages look: the HTML of several kinds of site, and the sites.

Belongs here: markup, with all that stands around the main text on a real page (navigation, cookie banner, sidebar,
footer, scripts). Does not belong here: texts, and what is planted in a page beside passing it in as ``Extras``.
"""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from gristmill.demo.texts import Article, Block

Kind = Literal["article", "docs", "forum", "product", "listing", "wiki"]


@dataclass(frozen=True)
class Site:
    """A host with one look."""

    host: str
    name: str
    kind: Kind
    sections: tuple[str, ...]


@dataclass(frozen=True)
class Extras:
    """What is put into a page beside its text, as raw HTML.

    Attributes:
        head: at the end of ``<head>``.
        before, after: before the first and after the last block of the main text.
        tail: at the end of ``<body>``.
        nav: further navigation links (text, href).
        lang: of the page.
        charset: in the ``<meta>``, None for no meta at all.
    """

    head: str = ""
    before: str = ""
    after: str = ""
    tail: str = ""
    nav: tuple[tuple[str, str], ...] = ()
    lang: str = "en"
    charset: str | None = "utf-8"
    raw: dict[int, str] = field(default_factory=dict)  # block number -> HTML in place of the escaped text


FIRST = ("north", "harbour", "maple", "silver", "quiet", "upper", "copper", "green", "old", "river", "winter", "bright")
SECOND = ("wind", "times", "bench", "mill", "stack", "field", "works", "press", "gate", "loom", "shelf", "yard")
SECTIONS = (
    "Guides",
    "Research",
    "Archive",
    "Community",
    "Tools",
    "Reviews",
    "Events",
    "Opinion",
    "Letters",
    "Projects",
    "Courses",
    "Releases",
)
PREFIX: dict[Kind, str] = {
    "article": "www",
    "docs": "docs",
    "forum": "forum",
    "product": "shop",
    "listing": "directory",
    "wiki": "wiki",
}
KINDS: tuple[Kind, ...] = ("article", "docs", "forum", "product", "listing", "wiki")


def sites(count: int) -> list[Site]:
    """So many sites, the kinds in turn, under the reserved top-level domain ``.example``."""
    out = []
    for i in range(count):
        kind = KINDS[i % len(KINDS)]
        first, second = FIRST[i % len(FIRST)], SECOND[(i * 5 + i // len(FIRST)) % len(SECOND)]
        rng = random.Random(f"site {i}")
        out.append(
            Site(
                f"{PREFIX[kind]}.{first}{second}.example",
                f"{first.title()} {second.title()}",
                kind,
                tuple(rng.sample(SECTIONS, 5)),
            )
        )
    return out


COOKIE = (
    "{site} uses cookies to remember your settings and to measure how the site is used. You can accept all of "
    "them or choose which ones to allow."
)
FOOTER = "&copy; 2026 {site}. All rights reserved. Terms of use. Privacy notice. Imprint."
STYLE = (
    "body{font:16px/1.6 sans-serif;margin:0}header,footer{background:#eee;padding:1em}main{max-width:44em;margin:auto}"
    ".side{float:right;width:16em}.cookie{position:fixed;bottom:0;background:#fff}"
)
SCRIPT = "window.dataLayer=window.dataLayer||[];function track(e){dataLayer.push({event:e,t:Date.now()})}track('view');"


def block_html(block: Block, raw: str | None = None) -> str:
    """One block; ``raw`` replaces its escaped text."""
    inner = raw if raw is not None else escape(block.text, quote=False)
    return {
        "p": f"<p>{inner}</p>",
        "h2": f"<h2>{inner}</h2>",
        "li": f"<ul><li>{inner}</li></ul>",
        "pre": f"<pre><code>{inner}</code></pre>",
    }[block.kind]


def render(site: Site, article: Article, path: str, extras: Extras | None = None) -> str:
    """The whole page of an article on a site."""
    extra = extras or Extras()
    body = _BODIES[site.kind](site, article, extra)
    nav = "".join(f'<li><a href="/{s.lower()}/">{s}</a></li>' for s in site.sections)
    nav += "".join(f'<li><a href="{escape(href)}">{escape(text)}</a></li>' for text, href in extra.nav)
    side = "".join(
        f'<li><a href="/{s.lower()}/{n}">{s} {n}</a></li>' for n, s in enumerate(site.sections, _small(path, 9) + 1)
    )
    meta = f'<meta charset="{extra.charset}">' if extra.charset else ""
    return (
        f'<!DOCTYPE html>\n<html lang="{extra.lang}">\n<head>\n{meta}\n<title>{escape(article.title)} - '
        f"{site.name}</title>\n"
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="canonical" href="https://{site.host}{escape(path)}">\n<style>{STYLE}</style>\n'
        f"<script>{SCRIPT}</script>\n{extra.head}</head>\n<body>\n"
        f'<header class="site-header"><a class="logo" href="/">{site.name}</a>\n<nav class="menu"><ul>{nav}</ul>'
        f"</nav></header>\n"
        f"{body}\n"
        f'<aside class="side sidebar"><h3>Most read</h3><ul>{side}</ul></aside>\n'
        f'<footer class="site-footer"><p>{FOOTER.format(site=site.name)}</p></footer>\n'
        f'<div class="cookie cookie-banner" role="dialog"><p>{COOKIE.format(site=site.name)}</p>'
        f"<button>Accept all</button><button>Choose</button></div>\n{extra.tail}</body>\n</html>\n"
    )


def _small(text: str, below: int) -> int:
    return hashlib.sha256(text.encode()).digest()[0] % below


def _blocks(article: Article, extra: Extras) -> str:
    inner = "\n".join(block_html(b, extra.raw.get(i)) for i, b in enumerate(article.blocks))
    return f"{extra.before}{inner}{extra.after}".replace("</ul>\n<ul>", "\n")


def _article(site: Site, article: Article, extra: Extras) -> str:
    return (
        f'<main id="content"><article class="post"><h1>{escape(article.title)}</h1>\n'
        f'<div class="article-body entry-content">{_blocks(article, extra)}</div></article></main>'
    )


def _docs(site: Site, article: Article, extra: Extras) -> str:
    toc = "".join(
        f'<li><a href="#s{i}">{escape(b.text)}</a></li>' for i, b in enumerate(article.blocks) if b.kind == "h2"
    )
    return (
        f'<div class="breadcrumbs"><a href="/">{site.name}</a> / <a href="/api/">API</a></div>'
        f'<div class="toctree sidebar"><ul>{toc}</ul></div>'
        f'<main role="main"><div class="document body"><section><h1>{escape(article.title)}</h1>\n'
        f"{_blocks(article, extra)}</section></div></main>"
    )


def _forum(site: Site, article: Article, extra: Extras) -> str:
    """A thread: the first block asks, each later run of blocks is a post."""
    posts, post = [], []
    for i, block in enumerate(article.blocks):
        post.append(block_html(block, extra.raw.get(i)))
        if (block.kind == "p" and len(post) >= 2) or i + 1 == len(article.blocks):
            posts.append("\n".join(post))
            post = []
    html = "".join(
        f'<div class="post" id="p{i}"><div class="post-author">member{_small(article.title + str(i), 90) + 10}</div>'
        f'<div class="post-body">{text}</div><div class="post-tools"><a href="#p{i}">Reply</a> <a href="#">'
        f"Report</a></div></div>"
        for i, text in enumerate(posts)
    )
    return (
        f'<main class="thread"><h1>{escape(article.title)}</h1>\n{extra.before}{html}{extra.after}'
        '<form class="reply"><textarea></textarea><button>Post reply</button></form></main>'
    )


def _product(site: Site, article: Article, extra: Extras) -> str:
    """Description, then a table of figures, then the rest as reviews."""
    half = max(1, len(article.blocks) * 2 // 3)
    first = "\n".join(block_html(b, extra.raw.get(i)) for i, b in enumerate(article.blocks[:half]))
    rest = "\n".join(
        f'<div class="review">{block_html(b, extra.raw.get(i))}</div>'
        for i, b in enumerate(article.blocks[half:], half)
    )
    weight, price = _small(article.title, 200) + 40, _small(article.title + "p", 90) + 9
    return (
        f'<main class="product"><h1 itemprop="name">{escape(article.title)}</h1>\n<p class="price">{price}.90 EUR</p>'
        f'<button class="buy">Add to basket</button>\n<div class="description" itemprop="description">'
        f"{extra.before}{first}"
        f'</div>\n<table class="spec"><tr><th>Weight</th><td>{weight} g</td></tr><tr><th>Delivery</th><td>2 '
        f"days</td></tr>"
        f'</table>\n<section class="reviews"><h2>Reviews</h2>{rest}</section>{extra.after}</main>'
    )


def _listing(site: Site, article: Article, extra: Extras) -> str:
    """Entries with a linked title and a summary."""
    entries = "\n".join(
        f'<div class="entry"><h3><a href="/entry/{i}">{escape(" ".join(b.text.split()[:5]))}</a></h3>'
        f"{block_html(b, extra.raw.get(i))}</div>"
        for i, b in enumerate(article.blocks)
    )
    return (
        f'<main class="listing"><h1>{escape(article.title)}</h1>\n{extra.before}<div class="entries">{entries}</div>'
        f'{extra.after}<div class="pager"><a href="?page=1">1</a> <a href="?page=2">2</a> <a href="?page=3">'
        f"Next</a></div></main>"
    )


def _wiki(site: Site, article: Article, extra: Extras) -> str:
    return (
        f'<div id="content" class="mw-body" role="main"><h1 id="firstHeading">{escape(article.title)}</h1>'
        f'<div id="bodyContent"><div class="mw-parser-output">{_blocks(article, extra)}</div></div></div>'
        '<div class="mw-jump"><a href="#top">Jump to top</a></div>'
    )


_BODIES: dict[Kind, Callable[[Site, Article, Extras], str]] = {
    "article": _article,
    "docs": _docs,
    "forum": _forum,
    "product": _product,
    "listing": _listing,
    "wiki": _wiki,
}
