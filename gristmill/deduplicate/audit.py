"""Pages to read: pairs that deduplication decided, side by side with their differences, by band of similarity.

Belongs here: sampling decided pairs, fetching their texts, the word differences, the page. Does not belong here: the
decisions (``stages.py``, ``semantic_stages.py``). A page is one static file without scripts; everything
that came from the web is escaped.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from html import escape

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from gristmill import shuffle
from gristmill.deduplicate import ids, minhash
from gristmill.deduplicate.documents import texts_at
from gristmill.errors import DamagedPartitionError
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import SiteConfig
from gristmill.partition import Partition
from gristmill.store import Store

EDGES = (0.0, 0.5, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
COSINES = (-1.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 1.0)  # bands of semantic pairs
WORDS = 1_500  # of each text that are compared: the difference takes quadratic time
ALIKE = 30  # words in a row that both texts have are folded when there are more

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --gone: #d33; --come: #292; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1200px; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: left; }
article { border: 1px solid var(--line); border-radius: 6px; margin: 1rem 0; padding: .6rem .9rem; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1.2rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 26rem; overflow-y: auto; font-size: 13px; }
.where { font-size: 12px; opacity: .75; overflow-wrap: anywhere; }
del { background: color-mix(in srgb, var(--gone) 25%, transparent); text-decoration: none; }
ins { background: color-mix(in srgb, var(--come) 25%, transparent); text-decoration: none; }
i { opacity: .55; }
"""


@dataclass(frozen=True)
class Pair:
    """A document that was set aside (or, of semantic pairs, looked at), and the one that it repeats."""

    source: str  # "this crawl", or the earlier crawl that holds the copy
    tier: str  # of doc_id
    band: str
    doc_id: bytes
    other_id: bytes
    similarity: float | None  # that decided: of the member's best edge, or the share of band votes
    host_bucket: int  # of doc_id
    kept: bool = False  # a semantic pair below the bound


@dataclass(frozen=True)
class Side:
    """One text of a pair."""

    text: str
    url: str
    crawl: str
    doc_id: bytes


def audit_pairs(store: Store, plan: Plan, site: SiteConfig, crawl: str, *, per_band: int = 10, seed: int = 0,
                semantic: bool = False) -> str:
    """The page for a crawl: ``per_band`` pairs of every band of similarity and every source.

    A source is where the copy is (this crawl, an earlier one) and the tier of the document.

    Args:
        semantic: pairs of like meaning, also those under the bound: epsilon is chosen by reading them.

    Raises:
        MissingPartitionError: when the crawl has not been taken through ``near`` (or ``semantic``) and ``provenance``.
    """
    page = semantic_page_of if semantic else page_of
    return page(Partition(store, plan, BY_NAME["near"], crawl, 0, site), per_band=per_band, seed=seed)


def page_of(part: Partition, *, per_band: int = 10, seed: int = 0) -> str:
    """As ``audit_pairs``, reading through a partition of any stage of the crawl."""
    return _page(part, _decided(part), _INTRO, per_band, seed)


def semantic_page_of(part: Partition, *, per_band: int = 10, seed: int = 0) -> str:
    """As ``audit_pairs`` with ``semantic``, reading through a partition of any stage of the crawl."""
    bound = 1 - part.plan.params.semantic.epsilon
    return _page(part, _alike_in_meaning(part), _SEMANTIC_INTRO.format(bound=bound), per_band, seed)


def _page(part: Partition, decided: Iterable[Pair], intro: str, per_band: int, seed: int) -> str:
    pairs, totals = sample(decided, per_band, seed)
    sketch = part.plan.params.minhash
    shown = []
    for pair in pairs:
        left, right = _side(part, pair.doc_id, None), _side(part, pair.other_id, pair.source)
        both, edges = minhash.shingle_table(
            pa.array([left.text, right.text], pa.large_string()), sketch.shingle, sketch.n, fold=False
        )
        shown.append((pair, left, right, minhash.jaccard(both[: edges[1]], both[edges[1] :])))
    return render(part.crawl or "", shown, totals, intro)


def _decided(part: Partition) -> Iterator[Pair]:
    """Every document of the crawl that near set aside, with what it repeats."""
    bands = part.plan.params.minhash.bands
    columns = ["doc_id", "record_id", "dup_of", "similarity", "matched_crawl", "matched_doc_id", "matched_bands"]
    for bucket in range(part.buckets):
        rows = part.read("near", columns, bucket=bucket)
        rows = rows.filter(pc.or_(pc.is_valid(rows["matched_doc_id"]), pc.is_valid(rows["dup_of"])))
        records = part.read("provenance", ["record_id", "source_tier"], bucket=bucket)
        at = pc.index_in(rows["record_id"], value_set=records["record_id"].combine_chunks())
        tiers = records["source_tier"].take(at).to_pylist()
        for row, tier in zip(rows.to_pylist(), tiers):
            if row["matched_doc_id"] is not None:
                share = row["matched_bands"] / bands
                yield Pair(row["matched_crawl"], tier or "unknown", f"{row['matched_bands']:02d} of {bands} bands",
                           row["doc_id"], row["matched_doc_id"], share, bucket)
            else:
                yield Pair("this crawl", tier or "unknown", band_of(row["similarity"]), row["doc_id"], row["dup_of"],
                           row["similarity"], bucket)


def _alike_in_meaning(part: Partition) -> Iterator[Pair]:
    """Every document that semantic deduplication compared, with the kept one most like it."""
    for number in range(part.buckets):
        table = part.read("semantic", bucket=number)
        for row in table.filter(pc.is_valid(table["nearest"])).to_pylist():
            yield Pair("this crawl", row["source_tier"] or "unknown", band_of(row["cosine"], COSINES), row["doc_id"],
                       row["nearest"], row["cosine"], row["host_bucket"], kept=not row["removed"])


def band_of(similarity: float | None, edges: tuple[float, ...] = EDGES) -> str:
    """The band of similarity that a pair is listed under."""
    if similarity is None:
        return "not verified"
    if similarity >= edges[-1]:
        return f"{edges[-1]:.2f}"
    at = max((i for i, edge in enumerate(edges) if similarity >= edge), default=0)
    digits = 3 if edges is COSINES else 2
    return f"{edges[at]:.{digits}f} to {edges[at + 1]:.{digits}f}" if at or edges is EDGES else f"under {edges[1]:.3f}"


Cell = tuple[str, str, str]  # where the copy is, tier, band


def sample(pairs: Iterable[Pair], per_band: int, seed: int) -> tuple[list[Pair], dict[Cell, int]]:
    """Up to ``per_band`` pairs of each cell, the same for the same seed; and how many there are of each."""
    chosen: dict[Cell, list[tuple[bytes, Pair]]] = {}
    totals: dict[Cell, int] = {}
    for pair in pairs:
        cell = (pair.source, pair.tier, pair.band)
        totals[cell] = totals.get(cell, 0) + 1
        rank = blake3(seed.to_bytes(8, "little", signed=True) + pair.doc_id + pair.other_id).digest(length=16)
        held = chosen.setdefault(cell, [])
        held.append((rank, pair))
        if len(held) > 4 * per_band + 16:
            held.sort(key=lambda entry: entry[0])
            del held[per_band:]
    out = []
    for cell in sorted(chosen):
        out += [pair for _, pair in sorted(chosen[cell], key=lambda entry: entry[0])[:per_band]]
    return out, dict(sorted(totals.items()))


def _side(part: Partition, doc_id: bytes, source: str | None) -> Side:
    """A document's cleaned text and URL, in this crawl or an earlier one."""
    if source is not None and source != "this crawl":
        part = replace(part, crawl=source)
    wanted = ids.pairs(pa.array([doc_id], pa.binary(16)))
    number = int(shuffle.range_of(wanted[:, 0], part.buckets)[0])
    rows = part.read("exact", ["doc_id", "record_id", "host_bucket", "first"], bucket=number)
    rows = rows.filter(rows["first"])
    at = int(ids.find(ids.pairs(rows["doc_id"]), wanted)[0])
    if at < 0:
        raise DamagedPartitionError(f"{part.key('exact', number)} lacks document {doc_id.hex()}: run that stage again")
    bucket = rows["host_bucket"][at].as_py()
    record = ids.pairs(rows["record_id"].slice(at, 1))
    text = texts_at(part, np.array([bucket]), wanted, record)[0].as_py()
    held = part.read("text", ["record_id", "url"], bucket=bucket)
    order = ids.pairs(held["record_id"])
    row = int(np.flatnonzero((order == record[0]).all(axis=1))[0])
    return Side(text, held["url"][row].as_py() or "", part.crawl or "", doc_id)


def differences(one: str, other: str) -> tuple[str, str]:
    """Both texts as HTML, escaped, what only one of them has marked, long stretches that both have folded."""
    a, b = one.split(" "), other.split(" ")
    cut = len(a) > WORDS or len(b) > WORDS
    a, b = a[:WORDS], b[:WORDS]
    left: list[str] = []
    right: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            left.append(_alike(a[i:j]))
            right.append(_alike(b[k:m]))
            continue
        if j > i:
            left.append(f"<del>{escape(' '.join(a[i:j]))}</del>")
        if m > k:
            right.append(f"<ins>{escape(' '.join(b[k:m]))}</ins>")
    end = f" <i>[cut after {WORDS} words]</i>" if cut else ""
    return " ".join(left) + end, " ".join(right) + end


def _alike(words: list[str]) -> str:
    if len(words) <= ALIKE:
        return escape(" ".join(words))
    half = ALIKE // 2
    folded = f" <i>[{len(words) - 2 * half} words alike]</i> "
    return escape(" ".join(words[:half])) + folded + escape(" ".join(words[-half:]))


_INTRO = (
    "Left: the document that was set aside. Right: the one that it repeats. Within the crawl the band is the "
    "similarity of the edge that joined it (the pair shown may have another: both texts' exact Jaccard, on "
    "unfolded words, stands beside it); across crawls it is the band votes."
)
_SEMANTIC_INTRO = (
    "Left: a document. Right: the kept better one that is most like it in meaning. The left one goes at a cosine of "
    "{bound:.3f} and over. Read the bands from above: epsilon (params.semantic) is right where the lowest band that "
    "goes still holds only pairs that say the same."
)


def render(crawl: str, shown: list[tuple[Pair, Side, Side, float]], totals: dict[Cell, int], intro: str = _INTRO
           ) -> str:
    """The page: how many pairs were decided, and the sampled ones."""
    rows = "".join(
        f"<tr><td>{escape(source)}<td>{escape(tier)}<td>{escape(band)}<td>{count}</tr>"
        for (source, tier, band), count in totals.items()
    )
    out = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Decided pairs of {escape(crawl)}</title>",
        f"<style>{_STYLE}</style><h1>Decided pairs of {escape(crawl)}</h1>",
        f"<p>{escape(intro)}</p>",
        f"<table><tr><th>copy in<th>tier<th>band<th>pairs</tr>{rows}</table>" if totals
        else "<p>No pair was decided.</p>",
    ]
    cell = None
    for pair, one, other, exact in shown:
        if (pair.source, pair.tier, pair.band) != cell:
            cell = (pair.source, pair.tier, pair.band)
            said = f"{pair.source}, {pair.tier}: {pair.band} ({totals.get(cell, 0)} pairs)"
            out.append(f"<h2>{escape(said)}</h2>")
        left, right = differences(one.text, other.text)
        word = "kept" if pair.kept else "decided"
        decided = "not verified" if pair.similarity is None else f"{word} at {pair.similarity:.3f}"
        sides = "".join(
            f"<div><div class='where'>{escape(s.crawl)} {s.doc_id.hex()} {escape(s.url)}</div>"
            f"<div class='text'>{text}</div></div>" for s, text in ((one, left), (other, right))
        )
        out.append(f"<article><p>{decided}, exact Jaccard {exact:.3f}</p><div class='pair'>{sides}</div></article>")
    out.append("</html>")
    return "\n".join(out)
