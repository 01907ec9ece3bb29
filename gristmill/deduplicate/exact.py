"""Exact duplicates: records that are one document, in a crawl and across crawls.

Belongs here: grouping by ``doc_id``, the one order that decides which record is first, and the join with documents of
earlier crawls. Does not belong here: what makes texts equal (``normalise.py``) and near-duplicates (``lsh.py``).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gristmill import shuffle
from gristmill.deduplicate import ids


@dataclass(frozen=True)
class Seen:
    """The documents that a crawl was the first to hold: distinct ``doc_id`` in order, and the record of each."""

    crawl: str
    doc_id: np.ndarray  # uint64[n, 2]
    record_id: np.ndarray  # uint64[n, 2]


def seen(crawl: str, table: pa.Table) -> Seen:
    """A crawl's new documents from its ``seen`` table (doc_id, record_id; sorted by doc_id)."""
    return Seen(crawl, ids.pairs(table["doc_id"]), ids.pairs(table["record_id"]))


def group(rows: pa.Table, earlier: list[Seen]) -> pa.Table:
    """Which record represents each document, and whether an earlier crawl has it.

    Args:
        rows: crawl, record_id, doc_id, host_bucket, fetch_ts, n_bytes of the records of one doc_id range, in any
            order.
        earlier: documents of crawls with smaller ordinals, in their order; the first that holds a document names it.

    Returns:
        The ``EXACT`` columns and n_bytes, sorted by (doc_id, fetch_ts, record_id): the order in which "first" is
        decided (inside one crawl the ordinal is the same for all).
    """
    rows = shuffle.sort_by(rows, "doc_id", "fetch_ts", "record_id")
    doc, record = ids.pairs(rows["doc_id"]), ids.pairs(rows["record_id"])
    starts = ids.starts_of_groups(doc)
    counts = np.diff(np.append(starts, len(doc)))
    first = np.zeros(len(doc), bool)
    first[starts] = True
    holder = np.full(len(starts), -1, np.int64)
    holder_record = np.zeros((len(starts), 2), np.uint64)
    for number, other in enumerate(earlier):
        where = ids.find(other.doc_id, doc[starts])
        new = (where >= 0) & (holder < 0)
        holder[new] = number
        holder_record[new] = other.record_id[where[new]]
    names = pa.array([e.crawl for e in earlier], pa.string())
    of_row = np.repeat(np.arange(len(starts)), counts)
    has = holder >= 0
    crawl_of = pa.nulls(len(starts), pa.string())
    if earlier:
        crawl_of = names.take(pa.array(np.where(has, holder, 0), mask=~has))
    rows = rows.select(["crawl", "record_id", "doc_id", "host_bucket", "fetch_ts", "n_bytes"])
    for name, column in (
        ("first", pa.array(first)),
        ("dup_of", ids.to_array(record[starts][of_row], ~first)),
        ("dup_count", pa.array(counts[of_row].astype(np.uint32))),
        ("seen_crawl", crawl_of.take(pa.array(of_row))),
        ("seen_record_id", ids.to_array(holder_record[of_row], has[of_row])),
    ):
        rows = rows.append_column(name, column)
    return rows


def goes_on(table: pa.Table) -> np.ndarray:
    """bool[n]: the rows of an ``EXACT`` table whose document goes on: first of its crawl, in no earlier one."""
    first = table["first"].to_numpy()
    fresh = table["seen_crawl"].is_null().to_numpy()
    return np.asarray(first & fresh, bool)
