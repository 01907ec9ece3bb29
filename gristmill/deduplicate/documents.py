"""The documents of a host bucket, as later stages read them: one row a document, its text ready to use.

Belongs here: which documents go on from ``exact`` and from ``near``, joined with their text, and the fetching of single
texts by locator. Does not belong here: any measure of a text.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill import clumping, shuffle
from gristmill.deduplicate import ids
from gristmill.deduplicate.exact import goes_on
from gristmill.deduplicate.lines import clean_column
from gristmill.errors import DamagedPartitionError
from gristmill.identity import host_id
from gristmill.partition import Partition

After = Literal["exact", "near", "semantic"]


def documents(part: Partition, after: After = "exact", *, cleaned: bool = True, bucket: int | None = None) -> pa.Table:
    """Documents whose first record lies in a host bucket of the partition's crawl.

    Args:
        part: its crawl, and (by default) its bucket.
        after: ``exact`` gives every document that ``exact`` passed, ``near`` only those that survived ``near``,
            ``semantic`` those of them that semantic deduplication kept, or never looked at.
        cleaned: take out boilerplate lines (needs the stage ``lines``); else the text is as extracted.
        bucket: another bucket than the partition's own.

    Returns:
        crawl, doc_id, record_id, text (large_string), sorted by doc_id.
    """
    if after == "exact":
        chosen = exact_documents(part, bucket)
    else:
        near = part.read("near", ["doc_id", "record_id", "survives"], bucket=_bucket(part, bucket))
        stays = near["survives"]
        if part.manifest("near", _bucket(part, bucket)).role("elected"):
            elected = part.read("near", ["doc_id"], role="elected", bucket=_bucket(part, bucket))
            stays = pc.or_(stays, pc.is_in(near["doc_id"], value_set=elected["doc_id"].combine_chunks()))
        chosen = near.filter(stays).select(["doc_id", "record_id"])
        if after == "semantic":
            gone = part.read_range("semantic", "by_bucket", _bucket(part, bucket), ["doc_id", "removed"])
            gone = gone.filter(gone["removed"])["doc_id"].combine_chunks()
            chosen = chosen.filter(pc.invert(pc.is_in(chosen["doc_id"], value_set=gone)))
    texts = texts_of(part, chosen["record_id"], bucket)
    if cleaned:
        lines = part.read("lines", ["doc_id", "removed"], bucket=_bucket(part, bucket))
        where = _rows(lines["doc_id"], chosen["doc_id"], "lines")
        texts = clean_column(texts, lines["removed"].combine_chunks().take(pa.array(where)))
    return pa.table({
        "crawl": pa.repeat(pa.scalar(part.crawl, pa.string()), chosen.num_rows),
        "doc_id": chosen["doc_id"],
        "record_id": chosen["record_id"],
        "text": texts,
    })


def exact_documents(part: Partition, bucket: int | None = None, *, seen: bool = False) -> pa.Table:
    """doc_id and record_id of the documents of a bucket that ``exact`` passed, sorted by doc_id.

    Args:
        seen: also those that it stopped because an earlier crawl has them (boilerplate is counted over all of a crawl).
    """
    rows = part.read_range(
        "exact", "by_bucket", _bucket(part, bucket), ["doc_id", "record_id", "first", "seen_crawl"]
    )
    chosen = rows["first"].to_numpy() if seen else goes_on(rows)
    rows = rows.filter(pa.array(chosen)).select(["doc_id", "record_id"])
    return shuffle.sort_by(rows, "doc_id").combine_chunks()


def texts_of(part: Partition, record_ids: pa.Array | pa.ChunkedArray, bucket: int | None = None) -> pa.Array:
    """Extracted text of each record, in the order asked for. All records lie in one bucket."""
    text = part.read("text", ["record_id", "text"], bucket=_bucket(part, bucket))
    where = _rows(text["record_id"], record_ids, "text")
    return text["text"].combine_chunks().cast(pa.large_string()).take(pa.array(where))


def some_texts(part: Partition, bucket: int, record_ids: np.ndarray) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """As ``texts_of`` for few records of a bucket: reads only the row groups that hold them, one at a time.

    Args:
        record_ids: uint64[n, 2].

    Yields:
        numbers of the records (int64, in order of ``record_ids``) and their texts.
    """
    key = part.key("text", bucket)
    seen = 0
    for ref in part.manifest("text", bucket).role("data"):
        with part.store.open_file(key, ref) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            for group in range(file.num_row_groups):
                held = ids.pairs(file.read_row_group(group, columns=["record_id"], use_threads=False)["record_id"])
                order = ids.argsort(held)
                where = ids.find(held[order], record_ids)
                hit = np.flatnonzero(where >= 0)
                if len(hit) == 0:
                    continue
                column = file.read_row_group(group, columns=["text"], use_threads=False)["text"].combine_chunks()
                yield hit, column.cast(pa.large_string()).take(pa.array(order[where[hit]]))
                seen += len(hit)
    if seen != len(record_ids):
        raise DamagedPartitionError(f"{key}: {len(record_ids) - seen} texts of its documents are not there")


def text_groups_at(part: Partition, host_bucket: np.ndarray, doc_id: np.ndarray, record_id: np.ndarray
                   ) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Cleaned text of documents anywhere in the crawl, each read once, a row group in memory at a time.

    Args:
        host_bucket: integer[n], bucket of the first record.
        doc_id, record_id: uint64[n, 2].

    Yields:
        numbers of documents (int64) and their texts; every document once.
    """
    for bucket in np.unique(host_bucket).tolist():
        mine = np.flatnonzero(host_bucket == bucket)
        lines = part.read("lines", ["doc_id", "removed"], bucket=bucket)
        where = ids.find(ids.pairs(lines["doc_id"]), doc_id[mine])
        if len(where) and int(where.min()) < 0:
            raise DamagedPartitionError(f"{part.key('lines', bucket)} lacks documents: run that stage again")
        removed = lines["removed"].combine_chunks()
        for hit, texts in some_texts(part, bucket, record_id[mine]):
            yield mine[hit], clean_column(texts, removed.take(pa.array(where[hit])))


def texts_at(part: Partition, host_bucket: np.ndarray, doc_id: np.ndarray, record_id: np.ndarray) -> pa.Array:
    """As ``text_groups_at``, together and in the order asked for: for few documents."""
    found = list(text_groups_at(part, host_bucket, doc_id, record_id))
    if not found:
        return pa.array([], pa.large_string())
    return pa.concat_arrays([t for _, t in found]).take(pa.array(np.argsort(np.concatenate([n for n, _ in found]))))


def with_language(part: Partition, docs: pa.Table) -> pa.Table:
    """Add lang, script and lang_conf of each document's record."""
    language = part.read("language", ["record_id", "lang", "script", "lang_conf"])
    where = pa.array(_rows(language["record_id"], docs["record_id"], "language"))
    for name in ("lang", "script", "lang_conf"):
        docs = docs.append_column(name, language[name].combine_chunks().take(where))
    return docs


def clumps(part: Partition, docs: pa.Table, n_bytes: np.ndarray) -> dict[str, float]:
    """How documents of the partition's bucket cluster by host; see ``clumping.facts``.

    Args:
        docs: their record_id.
        n_bytes: integer [documents].
    """
    text = part.read("text", ["record_id", "url"])
    where = pa.array(_rows(text["record_id"], docs["record_id"], "text"))
    hosts = [host_id(url or "") for url in text["url"].combine_chunks().take(where).to_pylist()]
    return clumping.facts(np.array(hosts, np.uint64), n_bytes)


def _bucket(part: Partition, bucket: int | None) -> int:
    number = part.bucket if bucket is None else bucket
    if number is None:
        raise ValueError("an asset without buckets must name the one it reads")
    return number


def _rows(have: pa.ChunkedArray, wanted: pa.Array | pa.ChunkedArray, asset: str) -> np.ndarray:
    """Row of each wanted id; one that is missing means that two tables disagree, which is never passed over."""
    held = ids.pairs(have)
    order = ids.argsort(held)
    where = ids.find(held[order], ids.pairs(wanted))
    if len(where) and int(where.min()) < 0:
        raise DamagedPartitionError(f"{int((where < 0).sum())} documents have no row in {asset}: run that stage again")
    return order[where] if len(where) else where


def count_by(values: Sequence[str | None], kept: Sequence[bool]) -> dict[str, list[int]]:
    """Yield by value: value -> [in, out]."""
    array = pa.table({"v": pa.array(values, pa.string()).fill_null("und"), "k": pa.array(kept, pa.bool_())})
    sums = array.group_by("v", use_threads=False).aggregate([("k", "count"), ("k", "sum")])
    rows = zip(sums["v"].to_pylist(), sums["k_count"].to_pylist(), pc.fill_null(sums["k_sum"], 0).to_pylist())
    return {v: [int(i), int(o)] for v, i, o in sorted(rows)}
