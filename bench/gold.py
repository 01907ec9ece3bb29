"""The gold pages of ../shared/data/02_extraction and how an extraction is scored against them.

Belongs here: reading the four page sets, word F1 (CJK by character), and with/leak of segments. Does not belong here:
what is compared (``extraction.py``) and training (``train_two_pass.py``).
"""

import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = ("wcxb", "zyte", "daniel", "traf")

# A CJK character is a word of its own: these scripts put no space between words.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+")


@dataclass(frozen=True)
class Page:
    """One gold page. ``text`` is None where only segments are known."""

    id: str
    set: str
    host: str
    url: str
    page_type: str
    content_type: str | None
    body: bytes
    text: str | None
    must: tuple[str, ...]
    must_not: tuple[str, ...]


def available() -> bool:
    """Are the gold pages on this machine."""
    return all((SHARED / "02_extraction" / f"{s}_pub.gold.jsonl.gz").exists() for s in SETS)


def pages(name: str) -> Iterator[Page]:
    """The pages of one set, in file order."""
    from fastwarc.warc import ArchiveIterator

    folder = SHARED / "02_extraction"
    with gzip.open(folder / f"{name}_pub.gold.jsonl.gz", "rt", encoding="utf-8") as lines, (
        folder / f"{name}_pub.warc.gz"
    ).open("rb") as warc:
        for line in lines:
            gold = json.loads(line)
            warc.seek(gold["offset"])
            record = next(iter(ArchiveIterator(io.BytesIO(warc.read(gold["length"])), parse_http=True)))
            headers = record.http_headers
            yield Page(
                gold["id"], name, (urlsplit(gold["url"]).hostname or gold["id"]).removeprefix("www."), gold["url"],
                gold.get("page_type") or "", headers.get("Content-Type") if headers is not None else None,
                record.reader.read(), gold.get("text"), tuple(gold.get("with") or ()), tuple(gold.get("without") or ()),
            )


def words(text: str) -> list[str]:
    """Lower-cased words; each CJK character by itself."""
    return _WORD.findall(text.lower())


def f1(text: str, gold: str) -> float:
    """Harmonic mean of precision and recall over bags of words; 1 where both are empty."""
    mine, theirs = Counter(words(text)), Counter(words(gold))
    common = sum((mine & theirs).values())
    if not mine and not theirs:
        return 1.0
    if not common:
        return 0.0
    precision, recall = common / sum(mine.values()), common / sum(theirs.values())
    return 2 * precision * recall / (precision + recall)


def _flat(text: str) -> str:
    return " ".join(text.split())


def segments(text: str, page: Page) -> tuple[int, int]:
    """(segments of ``must`` found, segments of ``must_not`` found), compared with white space folded."""
    flat = _flat(text)
    return sum(_flat(s) in flat for s in page.must), sum(_flat(s) in flat for s in page.must_not)
