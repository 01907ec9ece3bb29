"""Matching across crawls: the band index is asked where its keys are, and documents are judged where they are.

Belongs here: which keys of a range earlier crawls hold, and the copy that a document's votes name. Does not belong
here: what a range of the index is (``band_index.py``), and which crawls may be seen (``generations.py``).

A key range opens its own filters only, and sends a host bucket the postings of its keys that were found, once a key
however many documents share it. A host bucket opens no filter: of 10^11 keys they take 150 GB.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gristmill import schemas
from gristmill.deduplicate import ids, lsh
from gristmill.deduplicate.band_index import Run, look_up, spread


@dataclass(frozen=True)
class Held:
    """Keys of one band that earlier crawls hold, in order of (key, host bucket, crawl, document)."""

    band: int
    key: np.ndarray  # uint64[n]
    host_bucket: np.ndarray  # uint16[n]: with a document that has the key
    crawl: np.ndarray  # int64[n]: number of the earlier crawl
    doc_id: np.ndarray  # uint64[n, 2]: what it holds
    asked: int = 0  # distinct keys
    matched: int = 0  # of which so many are held

    def table(self, crawls: Sequence[str]) -> pa.Table:
        """The ``BAND_MATCHES`` columns; ``crawls`` by their number."""
        names = pa.DictionaryArray.from_arrays(pa.array(self.crawl, pa.int32()), pa.array(crawls, pa.string()))
        return pa.table({
            "band": pa.array(np.full(len(self.key), self.band, np.uint8)), "key": pa.array(self.key),
            "host_bucket": pa.array(self.host_bucket.astype(np.uint16)), "matched_crawl": names.cast(pa.string()),
            "matched_doc_id": ids.to_array(self.doc_id),
        }, schema=schemas.BAND_MATCHES)


def held(band: int, key: np.ndarray, host_bucket: np.ndarray, runs: Sequence[tuple[Sequence[str], Run]]) -> Held:
    """Ask this range of every generation for the keys of a band.

    Args:
        key, host_bucket: of the documents of the range that are asked about, in any order, repeats included.
        runs: in order of crawls, each with the crawls that it holds (several in a compacted one).
    """
    order = np.lexsort((host_bucket, key))
    key, host_bucket = key[order], host_bucket[order]
    new = np.ones(len(key), bool)
    new[1:] = (key[1:] != key[:-1]) | (host_bucket[1:] != host_bucket[:-1])
    key, host_bucket = key[new], host_bucket[new]
    starts = lsh.bucket_starts(key)
    distinct = key[starts[:-1]]
    at = [np.zeros(0, np.int64)]
    crawl = [np.zeros(0, np.int64)]
    doc = [np.zeros((0, 2), np.uint64)]
    matched = np.zeros(len(distinct), bool)
    before = 0
    for crawls, run in runs:
        query, found, tag = run.probe(np.full(len(distinct), band, np.uint8), distinct)
        matched[query] = True
        count = np.diff(starts)[query]
        at.append(spread(starts[query], count))
        crawl.append(np.repeat(tag + before, count))
        doc.append(np.repeat(found, count, axis=0))
        before += len(crawls)
    rows, numbers, docs = np.concatenate(at), np.concatenate(crawl), np.concatenate(doc)
    order = np.lexsort((docs[:, 1], docs[:, 0], numbers, rows))
    rows = rows[order]
    return Held(band, key[rows], host_bucket[rows], numbers[order], docs[order], len(distinct), int(matched.sum()))


@dataclass(frozen=True)
class Matches:
    """The copy of each document in an earlier crawl; votes are 0 where there is none."""

    doc_id: np.ndarray  # uint64[n, 2]
    votes: np.ndarray  # uint8[n]
    crawl: np.ndarray  # int64[n]: number of the crawl


def votes(keys: np.ndarray, table: pa.Table, crawls: Sequence[str], least: int) -> Matches:
    """Documents of earlier crawls that hold at least ``least`` of a document's band keys.

    The earliest crawl with such a document wins; in it the one with most votes, then the smallest id.

    Args:
        keys: uint64[n, bands], band keys of the documents asked about.
        table: ``BAND_MATCHES`` rows of their host bucket, in any order.
        crawls: earlier crawls in their order; every ``matched_crawl`` is one of them.
    """
    n, bands = keys.shape
    best = Matches(np.zeros((n, 2), np.uint64), np.zeros(n, np.uint8), np.zeros(n, np.int64))
    if n == 0 or table.num_rows == 0:
        return best
    held_band, held_key = table["band"].to_numpy(), table["key"].to_numpy()
    order = np.lexsort((held_key, held_band))
    asked, found = look_up(held_band[order], held_key[order], np.tile(np.arange(bands, dtype=np.uint8), n),
                           keys.ravel())
    at = order[found]
    names = table["matched_crawl"].combine_chunks().dictionary_encode()
    number = np.array([crawls.index(name) for name in names.dictionary.to_pylist()], np.int64)
    crawl = number[names.indices.to_numpy()][at]
    q, doc = asked // bands, ids.pairs(table["matched_doc_id"])[at]
    order = np.lexsort((doc[:, 1], doc[:, 0], crawl, q))
    q, doc, crawl = q[order], doc[order], crawl[order]
    starts = lsh.bucket_starts(q, crawl, doc[:, 0], doc[:, 1])
    count = np.diff(starts)
    enough = count >= least
    starts, count = starts[:-1][enough], count[enough]
    # Of each document the candidate with the smallest (crawl, -votes, doc_id); rows are in (q, crawl, doc_id) order.
    order = np.lexsort((np.arange(len(starts)), -count, crawl[starts], q[starts]))
    starts, count = starts[order], count[order]
    first = np.ones(len(starts), bool)
    first[1:] = q[starts[1:]] != q[starts[:-1]]
    chosen = q[starts[first]]
    best.doc_id[chosen] = doc[starts[first]]
    best.votes[chosen] = count[first]
    best.crawl[chosen] = crawl[starts[first]]
    return best
