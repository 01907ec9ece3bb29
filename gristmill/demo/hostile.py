"""Pages that are broken, hidden, too large, too slow, or a trap: what intake and extraction must survive and name.

Belongs here: one function a kind. Every construct is one that real sites have; none relies on a switch in the engine.
"""

import base64
import hashlib
import random
import zlib
from html import escape
from itertools import count

from gristmill.demo.crawl import SPRING, STEP, WINTER, Builder, in_sample
from gristmill.demo.templates import Extras, Site, render
from gristmill.demo.texts import Article, Block, title_of
from gristmill.demo.warc import Fetch, wet_file

MEBI = 1 << 20
WAYS = {  # how a page hides text
    "display": '<div style="display:none"><p>{}</p></div>',
    "visibility": '<p style="visibility: hidden">{}</p>',
    "offscreen": '<p style="position:absolute;left:-9999px">{}</p>',
    "attribute": "<p hidden>{}</p>",
    "aria": '<p aria-hidden="true">{}</p>',
    "zero_size": '<p style="font-size:0">{}</p>',
    "template": "<template><p>{}</p></template>",
    "noscript": "<noscript><p>{}</p></noscript>",
    "comment": "<!-- {} -->",
}
ZERO_WIDTH = ("\u200b", "\u200d", "\ufeff", "\u202e", "\u2066", "\U000e0041")


def mojibake(b: Builder) -> None:
    """UTF-8 read as Windows-1252 by whoever wrote the page, which can be mended; and bytes that nobody can read."""
    for i in range(max(1, b.sizes.some // 3)):
        article = b.supply.article(220)
        mended = f"The café at number {20 + i} serves crème brûlée, and its owner’s naïve façade hides élégant rooms."
        broken = mended.encode().decode("windows-1252")
        b.add(f"mojibake-{i}", WINTER, b.site("article"), Article(article.title, (*article.blocks, Block("p", broken))))
        b.truth.plant("mojibake", page=f"mojibake-{i}", broken=broken, mended=mended)
    article = b.supply.article(220)
    text = " ".join(w if i % 3 else w[:1] + "\ufffd" * len(w[1:]) for i, w in enumerate(article.blocks[0].text.split()))
    blocks = (Block("p", text), Block("p", " ".join("\ufffd" * (3 + i % 7) for i in range(60))), *article.blocks[1:])
    spoilt = Article(title_of(article.blocks[1].text), blocks)
    b.add("replaced", WINTER, b.site("article"), spoilt)
    b.truth.plant("replacement", page="replaced", share=round(spoilt.text.count("\ufffd") / len(spoilt.text), 4))


def hidden(b: Builder) -> None:
    """Text that no reader sees: a little of it is taken out, a lot of it condemns the page; and zero-width marks."""
    ways = list(WAYS) if b.sizes.some > 2 else ["display", "attribute", "comment"]
    for way in ways:
        article = b.supply.article(400)
        sentence = f"Nobody should ever read this sentence about the {way} method of hiding words."
        b.add(
            f"hidden-{way}", WINTER, b.site("article"), article, extras=Extras(after=WAYS[way].format(escape(sentence)))
        )
        b.truth.plant(
            "hidden_removed",
            page=f"hidden-{way}",
            hidden=sentence,
            way=way,
            share=round(len(sentence) / (len(sentence) + len(article.text)), 4),
        )
    for way in ("display", "offscreen"):
        article, secret = b.supply.article(200), b.supply.article(150)
        text = " ".join(block.text for block in secret.blocks)
        b.add(f"stuffed-{way}", WINTER, b.site("article"), article, extras=Extras(after=WAYS[way].format(escape(text))))
        b.truth.plant(
            "hidden_quarantined",
            page=f"stuffed-{way}",
            hidden=secret.blocks[0].text,
            way=way,
            share=round(len(text) / (len(text) + len(article.text)), 4),
        )
    article = b.supply.article(220)
    clean = b.supply.paragraph(20, 40)
    marked = "".join(
        c + (ZERO_WIDTH[i % len(ZERO_WIDTH)] if i % 5 == 4 and c.isalpha() else "") for i, c in enumerate(clean)
    )
    dirty = Article(article.title, (*article.blocks, Block("p", marked)))
    b.add("zero-width", WINTER, b.site("article"), dirty)
    b.truth.plant("zero_width", page="zero-width", clean=clean, marks=list(ZERO_WIDTH))


def oversized(b: Builder) -> None:
    """Over 8 MB: the text, then what some sites do inline (pictures as base64 in a script), then more text."""
    site, article, lost = b.site("article"), b.supply.article(260), b.supply.paragraph(20, 60)
    pieces: list[str] = []
    seed = b""
    while len(pieces) * 4096 < 9 * MEBI:
        seed = hashlib.sha256(seed).digest()
        fresh = base64.b64encode(b"".join(hashlib.sha256(seed + bytes([i])).digest() for i in range(12))).decode()
        pieces.append((fresh * 8)[:4096])  # pictures do not compress, but the demo should not weigh as much as they do
    script = f'<script>var pictures={{"data":"{"".join(pieces)}"}};</script>'
    extras = Extras(after=script + f"<p>{escape(lost)}</p>")
    fetch = b.add("oversized", WINTER, site, article, extras=extras)
    b.truth.plant("oversized", page=fetch.name, bytes=len(fetch.body), kept=article.blocks[0].text, lost=lost)


TRAP_TEXTS = 4
SLOW_WORDS = 16_000  # trafilatura's time grows with the square: 25 s at this number where it was measured


def slow(b: Builder) -> None:
    """An interactive transcript: a time-coded ``<span>`` for every word, in one paragraph, as players render it."""
    if not b.sizes.slow:
        return
    rng = random.Random("transcript")
    said = " ".join(b.supply.paragraph() for _ in range(40)).split()
    spans = "\n".join(
        f'<span data-t="{i * 0.4:.1f}">{escape(said[i % len(said)])}</span>'
        + (" <b>—</b>" if rng.random() < 0.5 else "")
        for i in range(SLOW_WORDS)
    )
    article = Article("Transcript of the evening lecture", (Block("p", "transcript"),))
    b.add("slow", SPRING, b.site("article"), article, extras=Extras(raw={0: spans}))
    b.truth.plant("slow", page="slow")


def not_pages(b: Builder) -> None:
    """A PDF, a picture, a page that is not there."""
    site = b.site("docs")
    pdf = (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
        b"trailer<</Root 1 0 R>>\n%%EOF\n"
    )
    png = (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\nIDAT"
        + zlib.compress(b"\x00\x00")
        + b"\x00\x00\x00\x00IEND\xaeB`\x82"
    )
    for name, body, kind in (("pdf", pdf, "application/pdf"), ("picture", png, "image/png")):
        b.put(WINTER, Fetch(name, f"https://{site.host}/files/{name}", b.clock(WINTER), body, kind))
        b.truth.plant("not_text", page=name, content_type=kind)
    missing = render(site, Article("Not found", (Block("p", "There is no such page on this server."),)), "/gone")
    b.put(WINTER, Fetch("missing", f"https://{site.host}/gone", b.clock(WINTER), missing.encode(), status=404))
    b.truth.plant("status", page="missing", status=404)


def degenerate(b: Builder) -> None:
    """Too short, and in no language."""
    b.add("short", WINTER, b.site("article"), Article("A short note", (Block("p", b.supply.paragraph(20, 30)),)))
    b.truth.plant("short", page="short")
    rng = random.Random("no language")

    def line() -> str:
        return " ".join(
            "".join(rng.choice("bcdfghjklmnpqrstvwxz") for _ in range(rng.randrange(3, 9))) for _ in range(16)
        )

    babble = Article(line().split()[0].title(), tuple(Block("p", f"{line().capitalize()}.") for _ in range(14)))
    b.add("babble", WINTER, b.site("article"), babble, lang="und")
    b.truth.plant("no_language", page="babble")


def damaged(b: Builder) -> None:
    """A page whose gzip member is broken: it alone is lost."""
    site, article = b.site("article"), b.supply.article(300)
    url = f"https://{site.host}{b.path(site, article, 'damaged')}"
    html = render(site, article, url.removeprefix(f"https://{site.host}"))
    fetch = Fetch("damaged", url, b.clock(WINTER), html.encode(), damaged=True)
    b.put(WINTER, fetch, article=article, template=site.kind, lang="eng")
    b.truth.plant("damaged_member", page="damaged", file=None)


def trap(b: Builder) -> None:
    """A calendar without end: every visit has a session of its own in its URLs, and hardly a page says anything new."""
    sections = ("Today", "Week", "Month", "Search", "Help")
    site = Site("calendar.slowmarsh.example", "Slowmarsh Events", "article", sections)
    texts = []
    for _ in range(TRAP_TEXTS):
        blocks = tuple(Block("p", b.supply.paragraph(18, 40)) for _ in range(3))
        texts.append(Article(title_of(blocks[0].text), blocks))
    names = []
    for visit in range(b.sizes.trap):
        names.append(f"trap-{visit:03d}")
        article, week = texts[visit % len(texts)], f"/calendar?week={visit % len(texts)}"
        tries = (hashlib.sha256(f"session {visit} {n}".encode()).hexdigest()[:16] for n in count())
        path = next(p for t in tries if not in_sample(f"https://{site.host}{(p := f'{week}&session={t}')}"))
        b.add(names[-1], SPRING, site, article, path=path, html=render(site, article, week))
    b.truth.plant("trap", host=site.host, pages=names, texts=len(texts))


def refused(b: Builder, crawl: str, files: dict[str, bytes]) -> tuple[str, bytes]:
    """A WET file beside the crawl's files, which names itself in the listing."""
    first = b.fetched[crawl][0]
    beside = next(n for n in files if n.endswith(".warc.gz"))
    name = beside.replace("/warc/", "/wet/").replace(".warc.gz", ".warc.wet.gz")
    fetch = Fetch("wet", first.url, first.time + STEP)
    b.truth.plant("wet", crawl=crawl, file=name)
    return name, wet_file(name, crawl, fetch, b.articles[first.name].text)
