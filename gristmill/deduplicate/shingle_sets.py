"""Shingles of many documents of a crawl in one scratch file, for exact Jaccard of any pairs of them.

Belongs here: reading each text that is needed once, bucket by bucket and row group by row group, and Jaccard of rows.
Does not belong here: which pairs are asked about (``clusters.py``). The file is memory-mapped: what does not fit in
memory is paged by the kernel, so memory stays bounded whatever the number of documents.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
from numba import njit

from gristmill.deduplicate import minhash
from gristmill.deduplicate.documents import text_groups_at
from gristmill.deduplicate.lsh import jaccard_sorted, sorted_sets
from gristmill.partition import Partition


class ShingleSets:
    """Distinct unfolded shingle hashes of documents, ascending in each.

    Args:
        part: of the crawl whose texts are read.
        folder: scratch, for as long as the sets are used.
        host_bucket, doc_id, record_id: int64[n], uint64[n, 2] twice: where each document's first record is.
    """

    def __init__(self, part: Partition, folder: Path, host_bucket: np.ndarray, doc_id: np.ndarray,
                 record_id: np.ndarray) -> None:
        sketch = part.plan.params.minhash
        self._start = np.zeros(len(doc_id), np.int64)
        self._size = np.zeros(len(doc_id), np.int64)
        handle, path = tempfile.mkstemp(prefix="shingles", dir=folder)
        at = 0
        with os.fdopen(handle, "wb") as file:
            for rows, texts in text_groups_at(part, host_bucket, doc_id, record_id):
                values, edges = sorted_sets(*minhash.shingle_table(texts, sketch.shingle, sketch.n, fold=False))
                file.write(values.astype("<u8").tobytes())
                self._start[rows], self._size[rows] = at + edges[:-1], np.diff(edges)
                at += len(values)
        self._values = np.memmap(path, "<u8", "r", shape=(at,)).view(np.ndarray) if at else np.zeros(0, np.uint64)
        self.documents = len(doc_id)

    def jaccard(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """float32: exact Jaccard of each pair of rows (int64)."""
        out = np.empty(len(one), np.float32)
        _jaccards(self._values, self._start, self._size, one, other, out)
        return out

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sets of some rows, one after the other, and where each begins: int64[rows + 1]."""
        pieces = [self._values[self._start[r] : self._start[r] + self._size[r]] for r in rows.tolist()]
        return np.concatenate([*pieces, np.zeros(0, np.uint64)]), np.concatenate(
            [np.zeros(1, np.int64), np.cumsum(self._size[rows])]
        )


@njit(cache=True, nogil=True)
def _jaccards(values, start, size, one, other, out):  # type: ignore[no-untyped-def]
    for e in range(one.shape[0]):
        i, j = one[e], other[e]
        out[e] = jaccard_sorted(
            values[start[i] : start[i] + size[i]], values[start[j] : start[j] + size[j]]
        )
