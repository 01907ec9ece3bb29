"""A crawl of any size from the real pages of ../shared/data/02_extraction: every page as it is, and variations of it.

Belongs here: varying a page and writing WARC files, the same bytes every time. Does not belong here: the page sets
(``gold.py``) and what is measured on the files.

A variation keeps a page's markup, scripts and short words, and exchanges its longer words among themselves (a seeded
permutation of the page's own vocabulary). So it costs an extractor what the page costs, stays in its language, and
shares too few 5-grams with it to be its near-duplicate: with plain copies, who deduplicates first would skip the work.
"""

import gzip
import json
import random
import re
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from bench import gold
from gristmill.demo import warc
from gristmill.demo.warc import Fetch, stamp

VARIED = "varied"  # hosts of variations begin with it
START = datetime(2026, 6, 1)
_MARKUP = re.compile(rb"(<(script|style)\b.*?</\2\s*>|<!--.*?-->|<[^>]*>)", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(rb"(?<![&#\w\x80-\xff])[A-Za-z\x80-\xff]{4,}")
_ASCII_WORD = re.compile(rb"(?<![&#\w\x80-\xff])[A-Za-z]{4,}(?![\x80-\xff])")


def vary(html: bytes, seed: int) -> bytes:
    """The page with the longer words of its text exchanged; only its ASCII words where it is not UTF-8."""
    try:
        html.decode("utf-8")
        word = _WORD
    except UnicodeDecodeError:
        word = _ASCII_WORD
    parts = _MARKUP.split(html)  # text, markup, the name of a script or style element (or None), text, ...
    known = sorted({w for text in parts[::3] for w in word.findall(text)})
    rng = random.Random(seed)
    swap: dict[bytes, bytes] = {}
    for capital in (True, False):  # sentences keep their capitals
        words = [w for w in known if w[:1].isupper() is capital]
        others = words[:]
        rng.shuffle(others)
        swap |= dict(zip(words, others))
    texts = [word.sub(lambda m: swap[m.group()], text) for text in parts[::3]]
    return b"".join(b for pair in zip(texts, [*parts[1::3], b""]) for b in pair)


def write(folder: Path, times: int, files: int = 4) -> tuple[list[Path], int]:
    """Write the pages ``times`` times (once as they are, then varied, each time on hosts of their own).

    Returns:
        The WARC files, gzipped as Common Crawl's are, and the number of pages.
    """
    pages = [page for name in gold.SETS for page in gold.pages(name)]
    fetches = []
    for number in range(times):
        for page in pages:
            body = page.body if number == 0 else vary(page.body, zlib.crc32(f"{number} {page.id}".encode()))
            fetches.append((f"{number}-{page.set}-{page.id}", _url(page.url, number), page.content_type, body))
    random.Random(1).shuffle(fetches)
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for number in range(files):
        path = folder / f"bench-{number:05d}.warc.gz"
        path.write_bytes(b"".join(member(*f, START + timedelta(seconds=i)) for i, f in _deal(fetches, number, files)))
        out.append(path)
    return out, len(fetches)


def write_texts(folder: Path, texts: Sequence[str], times: int, files: int = 4) -> int:
    """Write texts ``times`` times (once as they are, then varied) as WARC files of plain-text pages and as JSON lines.

    Both hold the same documents: ``warcs/`` for a pipeline that reads crawls, ``texts/`` for the stages of another that
    follow extraction. Returns the number of documents.
    """
    documents = [
        vary(text.encode(), zlib.crc32(f"{number} {i}".encode())) if number else text.encode()
        for number in range(times)
        for i, text in enumerate(texts)
    ]
    random.Random(2).shuffle(documents)
    (folder / "warcs").mkdir(parents=True)
    (folder / "texts").mkdir()
    for number in range(files):
        mine = _deal(documents, number, files)
        urls = [f"https://h{i % 997}.example/{i}" for i, _ in mine]
        (folder / "warcs" / f"bench-{number:05d}.warc.gz").write_bytes(
            b"".join(
                member(str(i), url, "text/plain; charset=utf-8", text, START + timedelta(seconds=i))
                for (i, text), url in zip(mine, urls)
            )
        )
        lines = (json.dumps({"text": t.decode(), "id": str(i), "url": u}) for (i, t), u in zip(mine, urls))
        (folder / "texts" / f"{number:05d}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode(), 3))
    return len(documents)


def _deal(what: Sequence[Any], number: int, files: int) -> list[tuple[int, Any]]:
    return [(i, thing) for i, thing in enumerate(what) if i % files == number]


def _url(url: str, number: int) -> str:
    parts = urlsplit(url)
    return url if number == 0 else urlunsplit(parts._replace(netloc=f"{VARIED}{number}.{parts.netloc}"))


def member(name: str, url: str, content_type: str | None, body: bytes, time: datetime) -> bytes:
    """One response as a gzip member."""
    fetch = Fetch(name, url, time, body, content_type or "text/html")
    fields = [
        ("WARC-Date", stamp(time)),
        ("WARC-Target-URI", url),
        ("Content-Type", "application/http; msgtype=response"),
        ("WARC-Identified-Payload-Type", fetch.content_type.partition(";")[0]),  # as Common Crawl: nobody has to guess
    ]
    return warc.member(warc.record("response", fields, warc.http_response(fetch), f"{url} {name}"))
