"""What is planted in the demo crawl to be found again: copies, leaks, and text that must go on, or through.

Belongs here: one function a kind of plant that is about text and its copies, each adding fetches to a ``Builder`` and
noting the truth. Pages that are broken or hostile are in ``hostile.py``; how a page looks is in ``templates.py``.
"""

import random
from datetime import timedelta

from gristmill.demo.benchmark import DOCS, Form, Item, items, leaked
from gristmill.demo.crawl import CUTOFF, SPRING, WINTER, Builder, in_sample
from gristmill.demo.languages import ISO, LEGACY, articles
from gristmill.demo.shingles import edited, jaccard, words
from gristmill.demo.templates import KINDS, Extras, Site
from gristmill.demo.texts import Article, Block
from gristmill.demo.warc import Fetch

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
ACROSS = (0.6, 0.97)
REPEATED = (  # inside the main text, where an extractor leaves them
    (
        "This page sets cookies that remember how far you have read; by reading on you agree to our use of them.",
        16,
        True,
    ),
    ("You are here: start page, all sections, everything in this section, printable version of this page.", 14, True),
    ("Readers of the first hour receive the printed almanac of this site once a year at no cost.", 5, False),
)
REPEATED_IN_SPRING = 4  # of the first line: under the bound there
LINE_BOUND = 12  # lines.min_docs of the demo


def ordinary(b: Builder) -> None:
    """The bulk: pages of all templates, three fifths of them in the first crawl; some carry repeated lines."""
    winter = b.sizes.pages * 3 // 5
    carriers = _carriers(winter, b.sizes.pages)
    for number in range(b.sizes.pages):
        site = b.site(KINDS[number % len(KINDS)])
        length = 220 + (number * 37) % 360
        article = b.supply.documentation(length) if site.kind in ("docs", "wiki") else b.supply.article(length)
        crawl = WINTER if number < winter else SPRING
        lines = [line for line, numbers in carriers if number in numbers]
        before = "".join(f"<p>{line}</p>\n" for line in lines)
        b.add(f"page-{number:04d}", crawl, site, article, extras=Extras(before=before))
    for (line, numbers), (_, _, removed) in zip(carriers, REPEATED):
        for crawl, there in (
            (WINTER, [n for n in numbers if n < winter]),
            (SPRING, [n for n in numbers if n >= winter]),
        ):
            if there:
                b.truth.plant(
                    "repeated_line",
                    crawl=crawl,
                    line=line,
                    pages=[f"page-{n:04d}" for n in there],
                    bound=LINE_BOUND,
                    removed=removed and crawl == WINTER,
                )


def _carriers(winter: int, pages: int) -> list[tuple[str, set[int]]]:
    """Which ordinary pages hold which line: those with one column of text, which every engine keeps whole."""
    steady = [n for n in range(pages) if KINDS[n % len(KINDS)] in ("article", "docs", "wiki")]
    before, after = [n for n in steady if n < winter], [n for n in steady if n >= winter]
    out = []
    for i, (line, count, _) in enumerate(REPEATED):
        numbers = set(before[i % 2 :: max(1, len(before) // (count + 2))][:count] if count < len(before) else before)
        if i == 0:
            numbers |= set(after[:REPEATED_IN_SPRING])
        out.append((line, numbers))
    return out


def copies(b: Builder) -> None:
    """Recrawls, changed pages, exact copies at other hosts: within a crawl and across."""
    n = b.sizes.some
    firsts = [b.add(f"recrawled-{i}", WINTER, b.site("article"), b.supply.article(250)) for i in range(2 * n)]
    for i, first in enumerate(firsts[:n]):
        b.again(f"recrawled-{i}-within", WINTER, first, timedelta(days=2))
        b.truth.plant("recrawl_within", first=first.name, again=f"recrawled-{i}-within")
    for i, first in enumerate(firsts[n:]):
        b.again(f"recrawled-{n + i}-across", SPRING, first, timedelta())
        b.truth.plant("recrawl_across", first=first.name, again=f"recrawled-{n + i}-across")
    for i in range(n):
        site, article = b.site("article"), b.supply.article(250)
        first = b.add(f"changed-{i}", WINTER, site, article)
        path = first.url.removeprefix(f"https://{site.host}")
        b.add(f"changed-{i}-later", SPRING, site, b.supply.article(250), path=path)
        b.truth.plant("changed", first=first.name, again=f"changed-{i}-later")
    for i in range(n):
        first = b.add(f"copied-{i}", WINTER, b.site("article"), b.supply.article(280))
        for copy in range(1 + i % 2):
            name = f"copied-{i}-copy-{copy}"
            b.add(name, WINTER, b.site("article"), b.articles[first.name])
            b.truth.plant("exact_copy", first=first.name, copy=name)
    for i in range(n):
        first = b.add(f"copied-across-{i}", WINTER, b.site("article"), b.supply.article(280))
        b.add(f"copied-across-{i}-copy", SPRING, b.site("article"), b.articles[first.name])
        b.truth.plant("exact_copy_across", first=first.name, copy=f"copied-across-{i}-copy")


def near_copies(b: Builder) -> None:
    """Edited copies at other hosts, at known Jaccard."""
    rng = random.Random("near copies")
    plan = [("near_copy", WINTER, level) for level in LEVELS for _ in range(b.sizes.near)]
    plan += [("near_copy_across", SPRING, level) for level in ACROSS for _ in range(b.sizes.near + 1)]
    for i, (kind, crawl, level) in enumerate(plan):
        fill = [w for w in words(b.supply.paragraph(30)) if len(w) > 3] + [f"remark{i}", f"margin{i}"]
        article, found = b.supply.article(420), 0.0
        copy, found = edited(article, level, fill, rng)
        name = f"near-{i:02d}-{round(level * 100)}"
        b.add(name, WINTER, b.site("article"), article)
        b.add(f"{name}-copy", crawl, b.site("article"), copy)
        b.truth.plant(kind, first=name, copy=f"{name}-copy", target=level, jaccard=round(found, 6))


FARM = (
    "The weather station {name} stands {height} metres above the sea on the road from {a} to {b}.",
    "It was opened in the year {year} and has reported every day since, except for {gap} days in winter.",
    "Its warmest day was {warm}, when the thermometer showed {hot} degrees in the shade of the hut.",
    "Its coldest night was {cold}, when the instruments froze at minus {frost} degrees before sunrise.",
    "The wind blows from the {wind} on most days, and the strongest gust so far reached {gust} kilometres an hour.",
    "Rain falls on {rain} days of the year, and in {wet} the small stream behind the station rises over its banks.",
    "The observer, who lives in {a}, reads the gauges at {hour} o'clock and sends the figures to {b} by radio.",
    "Visitors are welcome on {day}, when the door is open and the barograph of {year} can be seen at work.",
    "Snow lies for {snow} days, sunshine lasts {sun} hours, and fog hides the mast on {fog} mornings.",
    "A second mast was put up {mast} paces to the {side}, and a fence of {posts} posts keeps the sheep of {c} away.",
)

SAME = (  # what all of them say, so that pages are alike and yet no copies
    "All stations of the network work by the same rules, which were agreed upon before the first of them was "
    "built: the hut "
    "is painted white, its door opens away from the sun, and nobody may light a fire within a hundred steps of it.",
    "Readings are written into the book with a pencil, because ink freezes, and every page is signed twice, once "
    "by whoever "
    "took the reading and once by whoever checked it against the paper strip of the recording drum on the next "
    "morning.",
    "Should an instrument fail, the observer notes the hour, puts the spare one in its place and sends the "
    "broken one down "
    "with the next cart; no reading is ever guessed, and a gap in the book stays a gap for ever.",
    "Once in ten years the whole station is moved for a day so that the ground below it can be levelled again, and for "
    "that one day the book says so in red letters; the mast is painted, the ropes are renewed, and the stove is swept.",
    "Newcomers learn the work within a month. They start with the rain gauge, go on to the thermometers, and are "
    "allowed to "
    "touch the barograph only when they have shown that they can close the glass door without moving the needle "
    "at all.",
)


def template_farm(b: Builder) -> None:
    """Pages of one template with other facts, which are not copies: at most 0.7 alike."""
    rng = random.Random("template farm")
    site = Site(
        "stations.hillweather.example", "Hill Weather", "article", ("Stations", "Maps", "Records", "Contact", "About")
    )
    syllables = ("bar", "den", "holm", "ker", "lin", "mor", "nes", "os", "pen", "ras", "thal", "wick")
    months = (
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
    )
    winds = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
    texts, names = [], []
    for i in range(b.sizes.farm):

        def place() -> str:
            return "".join(rng.sample(syllables, 2)).title()

        def date() -> str:
            return f"the {rng.randrange(1, 29)} of {rng.choice(months)} {rng.randrange(1921, 2025)}"

        facts = {
            "name": place(),
            "a": place(),
            "b": place(),
            "c": place(),
            "height": rng.randrange(90, 2400),
            "year": rng.randrange(1880, 1990),
            "gap": rng.randrange(3, 90),
            "warm": date(),
            "cold": date(),
            "hot": rng.randrange(28, 41),
            "frost": rng.randrange(12, 38),
            "wind": rng.choice(winds),
            "gust": rng.randrange(90, 210),
            "rain": rng.randrange(80, 240),
            "wet": rng.choice(months),
            "hour": rng.randrange(5, 12),
            "day": f"the {rng.choice(('first', 'second', 'third'))} Sunday of {rng.choice(months)}",
            "snow": rng.randrange(9, 160),
            "sun": rng.randrange(1100, 2300),
            "fog": rng.randrange(9, 120),
            "mast": rng.randrange(20, 300),
            "side": rng.choice(winds),
            "posts": rng.randrange(30, 400),
        }
        lines = [s.format(**facts) for s in FARM]
        article = Article(
            f"Weather station {facts['name']}",
            tuple(
                Block("p", text)
                for j in range(0, len(lines), 2)
                for text in (" ".join(lines[j : j + 2]), *SAME[j // 2 : j // 2 + 1])
            ),
        )
        names.append(f"farm-{i}")
        b.add(names[-1], WINTER, site, article)
        texts.append(article.text)
    most = max(jaccard(x, y) for i, x in enumerate(texts) for y in texts[i + 1 :])
    b.truth.plant("template_farm", pages=names, max_jaccard=round(most, 6))


def languages(b: Builder) -> None:
    """Pages in other languages, one of each in an old encoding where the language has one."""
    for language, iso in ISO.items():
        supply = articles(language)
        for i in range(b.sizes.languages):
            article = next(supply)
            crawl = WINTER if i % 3 else SPRING
            charset = LEGACY.get(language, "utf-8") if i == 0 else "utf-8"
            name = f"{language}-{i}"
            b.add(
                name,
                crawl,
                b.site("article"),
                article,
                lang=iso,
                extras=Extras(lang=language, charset=charset),
                encoding=charset,
            )
            b.truth.plant("language", page=name, lang=iso, charset=charset)


def personal_data(b: Builder) -> None:
    """Addresses under example.com and its like, and telephone numbers of the range kept for fiction."""
    for i in range(b.sizes.some):
        mail = f"{('jane.doe', 'r_miller', 'office', 'k.lind')[i % 4]}{i}@example.{('com', 'org', 'net')[i % 3]}"
        phone = (f"(202) 555-01{10 + i}", f"+1 212-555-01{40 + i}", f"312-555-01{70 + i}")[i % 3]
        article = b.supply.article(240)
        line = f"Questions about this text go to {mail} at any time, or by telephone to {phone} during office hours."
        article = Article(article.title, (*article.blocks, Block("p", line)))
        name = f"personal-{i}"
        b.add(name, WINTER if i % 2 else SPRING, b.site("article"), article)
        b.truth.plant("pii", page=name, kind="email", value=mail)
        b.truth.plant("pii", page=name, kind="phone", value=phone)


def leaks(b: Builder) -> None:
    """Benchmark items on pages, in every form, and near misses that are none."""
    made = items(b.supply, 4 * b.sizes.some, b.sizes.some)
    b.truth.benchmarks = [
        {"benchmark": i.benchmark, "id": i.id, "question": i.question, "answer": i.answer} for i in made
    ]
    long = iter([i for i in made if i.benchmark == DOCS and len(i.question.split()) >= 30])
    short = iter([i for i in made if i.benchmark == DOCS and len(i.question.split()) < 30])
    sums = iter([i for i in made if i.benchmark != DOCS])
    each = max(1, b.sizes.some // 2)
    plan: list[tuple[Form, Item]] = []
    forms: tuple[Form, ...] = ("verbatim", "rewrapped", "embedded", "partial")
    for form in forms:
        plan += [(form, next(long)) for _ in range(each)]
    plan += [("short", next(short)) for _ in range(each)]
    plan += [("verbatim", next(sums)), ("embedded", next(sums))]
    for number, (form, item) in enumerate(plan):
        article = b.supply.article(260)
        text, raw = leaked(item, form, (b.supply.paragraph(12, 40), b.supply.paragraph(12, 40)))
        middle = len(article.blocks) // 2
        article = Article(article.title, (*article.blocks[:middle], Block("p", text), *article.blocks[middle:]))
        name = f"leak-{number:02d}-{form}"
        b.add(name, WINTER if number % 2 else SPRING, b.site("article"), article, extras=Extras(raw={middle: raw}))
        b.truth.plant("leak", page=name, benchmark=item.benchmark, item=item.id, form=form, flagged=form != "partial")


def opted_out(b: Builder) -> None:
    """A host with pages in both crawls, whose owner later withdraws them."""
    site = Site(
        "www.withdrawn.example", "Withdrawn Weekly", "article", ("News", "Essays", "Letters", "Archive", "About")
    )
    names = []
    for i in range(b.sizes.some):
        names.append(f"withdrawn-{i}")
        b.add(names[-1], SPRING if i % 2 else WINTER, site, b.supply.article(260))
    b.truth.plant("opt_out", host=site.host, pages=names)


def held_out(b: Builder) -> None:
    """One page of the perpetual web sample, and pages fetched after the cutoff."""
    site = Site("sample.lot.example", "The Lot", "article", ("Draws", "Rules", "Archive", "Help", "About"))
    number = next(n for n in range(100_000) if in_sample(f"https://{site.host}/draw/{n}"))
    b.add("sampled", WINTER, site, b.supply.article(240), path=f"/draw/{number}")
    b.truth.plant("web_sample", page="sampled")
    for i in range(max(2, b.sizes.some // 3)):
        b.add(f"late-{i}", SPRING, b.site("article"), b.supply.article(240), time=CUTOFF + timedelta(hours=1 + i))
        b.truth.plant("time_forward", page=f"late-{i}")


def revisits(b: Builder) -> None:
    """A revisit of a page that is there, and one of a page that is not."""
    first = b.add("revisited", WINTER, b.site("article"), b.supply.article(240))
    later = first.time + timedelta(days=3)
    b.put(
        WINTER,
        Fetch(
            "revisited-again",
            first.url,
            later,
            first.body,
            first.content_type,
            kind="revisit",
            refers_to=(first.url, first.time),
        ),
    )
    b.truth.plant("revisit", first=first.name, again="revisited-again", resolved=True)
    gone = f"https://{b.site('article').host}/gone/{b.sizes.pages}"
    b.put(
        WINTER,
        Fetch(
            "revisited-nothing",
            gone,
            later,
            b"gone",
            kind="revisit",
            refers_to=(gone, first.time - timedelta(days=400)),
        ),
    )
    b.truth.plant("revisit", first=None, again="revisited-nothing", resolved=False)
