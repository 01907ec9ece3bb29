"""The demo's two crawls while they are being filled: sites, the clock, names and URLs, and the truth beside them.

Belongs here: adding one fetch and noting it. Does not belong here: which fetches there are (``plants.py``).
"""

import random
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import xxhash

from gristmill.demo.shingles import similar_pairs
from gristmill.demo.templates import Extras, Kind, Site, render, sites
from gristmill.demo.texts import Article, Supply
from gristmill.demo.truth import DemoTruth
from gristmill.demo.warc import Fetch, crawl_files, stamp

WINTER, SPRING = "CC-DEMO-2026-01", "CC-DEMO-2026-05"
STARTED = {WINTER: datetime(2026, 1, 10, tzinfo=UTC), SPRING: datetime(2026, 5, 10, tzinfo=UTC)}
CUTOFF = datetime(2026, 5, 25, tzinfo=UTC)  # what is fetched later is held out (acquire.time_forward_after)
SAMPLE = 1000  # acquire.web_sample_modulus
SIMILAR = 0.3  # pairs above are listed in the truth
STEP = timedelta(seconds=61)
ENGLISH = "eng"


@dataclass(frozen=True)
class Sizes:
    """How much of each plant, for a demo of a number of ordinary pages."""

    pages: int
    sites: int
    near: int  # pairs a level
    some: int  # of plants that need a few
    languages: int  # pages a language
    trap: int
    farm: int
    segments: int
    per_segment: int
    slow: bool  # a page that costs the whole limit on time in every run

    @classmethod
    def of(cls, pages: int) -> "Sizes":
        """From 300 pages on everything is planted in full."""
        if pages >= 300:
            return cls(pages, 36, 4, 10, 8, 200, 10, 2, 3, True)
        return cls(pages, 12, 1, 2, 1, 60, 4, 1, 3, False)


class Builder:
    """Two crawls being filled."""

    def __init__(self, pages: int) -> None:
        self.sizes = Sizes.of(pages)
        self.supply = Supply()
        self.sites = sites(self.sizes.sites)
        self.truth = DemoTruth(pages)
        self.rng = random.Random("gristmill demo")
        self.fetched: dict[str, list[Fetch]] = {WINTER: [], SPRING: []}
        self.articles: dict[str, Article] = {}
        self._by_name: dict[str, Fetch] = {}
        self._next: dict[Kind, int] = {}
        self._places: dict[str, str] = {}

    def site(self, kind: Kind) -> Site:
        """The sites of a kind in turn, so that two calls in a row give two hosts."""
        chosen = [s for s in self.sites if s.kind == kind]
        self._next[kind] = self._next.get(kind, -1) + 1
        return chosen[self._next[kind] % len(chosen)]

    def path(self, site: Site, article: Article, name: str) -> str:
        """A path as such a site would have it; never one of the held-out web sample."""
        slug = re.sub(r"[^a-z0-9]+", "-", article.title.lower()).strip("-")[:48] or "page"
        shape = {
            "article": f"/{site.sections[0].lower()}/{slug}-{name}",
            "docs": f"/api/{slug}-{name}.html",
            "forum": f"/t/{slug}/{name}",
            "product": f"/p/{slug}-{name}",
            "listing": f"/browse/{slug}?page={name}",
            "wiki": f"/wiki/{slug}-{name}",
        }[site.kind]
        bump = 0
        while (sampled := f"{shape}{f'-{bump}' if bump else ''}") and in_sample(f"https://{site.host}{sampled}"):
            bump += 1
        return sampled

    def clock(self, crawl: str) -> datetime:
        """The next fetch time of a crawl: fetches are in the order in which they are added."""
        return STARTED[crawl] + STEP * (len(self.fetched[crawl]) + 1)

    def add(
        self,
        name: str,
        crawl: str,
        site: Site,
        article: Article,
        *,
        extras: Extras | None = None,
        path: str | None = None,
        lang: str = ENGLISH,
        time: datetime | None = None,
        html: str | None = None,
        encoding: str = "utf-8",
        content_type: str | None = None,
    ) -> Fetch:
        """Render an article and fetch it."""
        where = path or self.path(site, article, name)
        text = html if html is not None else render(site, article, where, extras)
        header = content_type or ("text/html; charset=utf-8" if encoding == "utf-8" else "text/html")
        fetch = Fetch(
            name,
            f"https://{site.host}{where}",
            time or self.clock(crawl),
            text.encode(encoding, "xmlcharrefreplace"),
            header,
        )
        return self.put(crawl, fetch, article=article, template=site.kind, lang=lang)

    def put(
        self,
        crawl: str,
        fetch: Fetch,
        *,
        article: Article | None = None,
        template: str | None = None,
        lang: str | None = None,
    ) -> Fetch:
        """Add a fetch as it is."""
        assert fetch.name not in self._by_name, fetch.name
        self._by_name[fetch.name] = fetch
        self.fetched[crawl].append(fetch)
        if article is not None:
            self.articles[fetch.name] = article
        self.truth.fetches.append(
            {
                "name": fetch.name,
                "crawl": crawl,
                "url": fetch.url,
                "host": fetch.host,
                "fetch_ts": stamp(fetch.time),
                "record_id": fetch.record_id,
                "kind": fetch.kind,
                "status": fetch.status,
                "content_type": fetch.content_type.partition(";")[0],
                "bytes": len(fetch.body),
                "template": template,
                "lang": lang,
                "text": article.text if article is not None else None,
                "readable": not fetch.damaged,
            }
        )
        return fetch

    def again(self, name: str, crawl: str, first: Fetch, later: timedelta) -> Fetch:
        """The same URL with the same payload, fetched again."""
        time = first.time + later if crawl_of(first) == crawl else self.clock(crawl)
        known = self.truth.fetch(first.name)
        return self.put(
            crawl,
            replace(first, name=name, time=time),
            article=self.articles.get(first.name),
            template=known["template"],
            lang=known["lang"],
        )

    def files(self) -> dict[str, bytes]:
        """All files of both crawls under the landing root; notes them, and all similar pairs, in the truth."""
        files: dict[str, bytes] = {}
        for crawl, fetches in self.fetched.items():
            made, places = crawl_files(crawl, fetches, self.sizes.segments, self.sizes.per_segment, STARTED[crawl])
            names = [n for n in made if n.endswith(".warc.gz")]
            self.truth.crawls[crawl] = {
                "files": names,
                "listed": list(names),
                "fetches": len(fetches),
                "started": stamp(STARTED[crawl]),
            }
            files.update(made)
            self._places.update(places)
            own = {f["name"]: f["text"] for f in self.truth.fetches if f["crawl"] == crawl and f["text"]}
            distinct = {text: name for name, text in reversed(own.items())}
            pairs = similar_pairs({name: text for text, name in distinct.items()}, SIMILAR)
            self.truth.similar.extend([crawl, a, b, round(j, 6)] for a, b, j in pairs)
        return files

    def file_of(self, name: str) -> str:
        """The WARC file that a fetch lies in, once ``files`` has dealt them."""
        return self._places[name]


def in_sample(url: str) -> bool:
    """Is a canonical URL one of the perpetual web sample."""
    return xxhash.xxh3_64_intdigest(url.encode()) % SAMPLE == 0


def crawl_of(fetch: Fetch) -> str:
    """Which crawl a fetch time falls into."""
    return SPRING if fetch.time >= STARTED[SPRING] else WINTER
