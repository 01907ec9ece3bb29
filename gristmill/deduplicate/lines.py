"""Boilerplate lines: those in more documents of a crawl than a bound, found by exact counting in two passes.

Belongs here: what a line is, its hash, counting, the bound, and taking lines out of a text. Does not belong here: who
reads which partition (``stages.py``).

A line ends at LF. Two lines are the same when their bytes are, leading and trailing ASCII white space aside. A line
without anything else is no line: it is neither counted nor removed. A line counts once a document, and documents are
distinct ``doc_id``s, so neither a page copied often nor a refrain in a poem erases itself.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numba import njit, uint64

from gristmill.text_units import mix64, mix64_plain, text_buffers

_SPACES = b" \t\r\n\v\f"
_SEED = 0x9E3779B97F4A7C15
_PRIME = 0xFF51AFD7ED558CCD
_MASK = (1 << 64) - 1


def line_hash(line: bytes) -> int:
    """64-bit hash of a line's bytes without the white space around them: the definition."""
    h = _SEED
    for byte in line.strip(_SPACES):
        h = ((h ^ byte) * _PRIME) & _MASK
        h ^= h >> 32
    return mix64_plain(h)


def split_lines(text: bytes) -> list[tuple[int, int]]:
    """Byte ranges of the lines of a text, each with its LF; together they are the text."""
    out = []
    start = 0
    while start < len(text):
        at = text.find(b"\n", start)
        end = len(text) if at < 0 else at + 1
        out.append((start, end))
        start = end
    return out


def kept_spans(text: bytes, removed: set[int]) -> list[tuple[int, int]]:
    """Byte ranges of a text that are left when the lines with these hashes go: whole lines, neighbours joined."""
    out: list[tuple[int, int]] = []
    for start, end in split_lines(text):
        bare = text[start:end].strip(_SPACES)
        if bare and removed and line_hash(bare) in removed:
            continue
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out


def clean(text: str, removed: set[int]) -> str:
    """The text without the lines that have these hashes."""
    if not removed:
        return text
    raw = text.encode("utf-8")
    return b"".join(raw[a:b] for a, b in kept_spans(raw, removed)).decode("utf-8")


def bound(min_docs: int, share: float, documents: int) -> int:
    """N: a line in more than this many documents is boilerplate."""
    return max(min_docs, int(share * documents))


def candidate_bound(n: int, buckets: int) -> int:
    """A line in more than ``n`` documents of a crawl is in at least this many of some bucket (pigeonhole)."""
    return n // buckets + 1


def line_table(texts: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every line of every text.

    Returns:
        hash (uint64), document row, start and end byte in the column's buffer (int64), in order.
    """
    buf, off = text_buffers(texts)
    n = len(off) - 1
    most = int(np.count_nonzero(buf[off[0] : off[-1]] == 10)) + n if n else 0
    hashes, doc = np.empty(most, np.uint64), np.empty(most, np.int64)
    start, end = np.empty(most, np.int64), np.empty(most, np.int64)
    m = _lines(buf, off, hashes, doc, start, end)
    return hashes[:m], doc[:m], start[:m], end[:m]


def distinct_per_document(hashes: np.ndarray, doc: np.ndarray) -> np.ndarray:
    """The hashes with every document's repetitions taken out. ``doc`` ascends. uint64."""
    out = hashes.copy()
    return out[: _distinct(out, doc)]


def count(hashes: np.ndarray, at_least: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """How often each hash occurs, exactly.

    Args:
        hashes: uint64, in any order.
        at_least: leave out what occurs less often.

    Returns:
        Distinct hashes ascending (uint64), and their counts (int64).
    """
    keys, counts = _count(hashes, at_least)
    order = np.argsort(keys)
    return keys[order], counts[order]


def count_of(hashes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How often each of ``wanted`` (distinct, ascending) occurs among ``hashes``. int64."""
    out = np.zeros(len(wanted), np.int64)
    if len(wanted):
        where = np.searchsorted(wanted, hashes)
        where[where == len(wanted)] = 0
        hit = wanted[where] == hashes
        out += np.bincount(where[hit], minlength=len(wanted))
    return out


def merge_counts(tables: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Sum (hash, count) tables: distinct hashes ascending and their sums."""
    parts = list(tables)
    keys = np.concatenate([k for k, _ in parts]) if parts else np.zeros(0, np.uint64)
    counts = np.concatenate([c for _, c in parts]) if parts else np.zeros(0, np.int64)
    distinct, where = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, where, counts)
    return distinct, sums


def clean_column(texts: pa.Array | pa.ChunkedArray, removed: Sequence[Sequence[int]] | pa.ChunkedArray | pa.Array
                 ) -> pa.Array:
    """``clean`` of every text, with its own list of removed hashes. large_string."""
    buf, off = text_buffers(texts)
    lists = removed if isinstance(removed, pa.Array | pa.ChunkedArray) else pa.array(removed, pa.list_(pa.uint64()))
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)
    sizes = np.diff(lists.offsets.to_numpy()) if len(lists) else np.zeros(0, np.int64)
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    out = np.empty(int(off[-1] - off[0]), np.uint8)
    new = np.empty(len(off), np.int64)
    size = _clean(buf, off, edges, values, out, new)
    return pa.LargeStringArray.from_buffers(len(off) - 1, pa.py_buffer(new), pa.py_buffer(out[:size]))


def remove(texts: pa.Array | pa.ChunkedArray, boilerplate: np.ndarray) -> tuple[pa.Table, pa.Table]:
    """Which lines of each text are boilerplate.

    Args:
        texts: extracted texts, distinct documents.
        boilerplate: uint64, hashes of the crawl's lines over the bound, ascending.

    Returns:
        One row a text: n_lines, removed (hashes, ascending, distinct), n_removed, bytes_after, empty_after. And one
        row a removed line: line (ascending), sample (its first occurrence, for people, at most 500 characters).
    """
    buf, _ = text_buffers(texts)
    hashes, doc, start, end = line_table(texts)
    n = len(texts)
    gone = np.zeros(len(hashes), bool)
    if len(boilerplate):
        where = np.searchsorted(boilerplate, hashes)
        where[where == len(boilerplate)] = 0
        gone = boilerplate[where] == hashes
    n_lines = np.bincount(doc, minlength=n)[:n]
    n_removed = np.bincount(doc[gone], minlength=n)[:n]
    bytes_gone = np.bincount(doc[gone], weights=(end - start)[gone], minlength=n)[:n].astype(np.int64)
    size = np.diff(text_buffers(texts)[1])
    order = np.lexsort((hashes[gone], doc[gone]))
    h, d = hashes[gone][order], doc[gone][order]
    new = np.ones(len(h), bool)
    new[1:] = (h[1:] != h[:-1]) | (d[1:] != d[:-1])
    h, d = h[new], d[new]
    offsets = np.zeros(n + 1, np.int32)
    np.cumsum(np.bincount(d, minlength=n)[:n], out=offsets[1:])
    table = pa.table({
        "n_lines": n_lines.astype(np.int32),
        "removed": pa.ListArray.from_arrays(pa.array(offsets), pa.array(h)),
        "n_removed": n_removed.astype(np.int32),
        "bytes_after": size - bytes_gone,
        "empty_after": n_lines == n_removed,
    })
    shown, at = np.unique(hashes[gone], return_index=True)
    samples = [
        bytes(buf[s:e]).decode("utf-8").strip()[:500]
        for s, e in zip(start[gone][at].tolist(), end[gone][at].tolist())
    ]
    return table, pa.table({"line": pa.array(shown, pa.uint64()), "sample": pa.array(samples, pa.large_string())})


@njit(inline="always")
def _is_space(c):  # type: ignore[no-untyped-def]
    return c == 32 or (9 <= c <= 13)


@njit(cache=True, nogil=True)
def _hash_line(buf, start, end):  # type: ignore[no-untyped-def]
    """Hash of the bare line in ``buf[start:end]`` and whether there is one."""
    while start < end and _is_space(buf[start]):
        start += 1
    while start < end and _is_space(buf[end - 1]):
        end -= 1
    h = uint64(0x9E3779B97F4A7C15)
    for i in range(start, end):
        h = (h ^ uint64(buf[i])) * uint64(0xFF51AFD7ED558CCD)
        h ^= h >> uint64(32)
    return mix64(h), start < end


@njit(cache=True, nogil=True)
def _lines(buf, off, hashes, doc, starts, ends):  # type: ignore[no-untyped-def]
    n = 0
    for d in range(off.shape[0] - 1):
        start = off[d]
        while start < off[d + 1]:
            end = start
            while end < off[d + 1] and buf[end] != 10:
                end += 1
            if end < off[d + 1]:
                end += 1
            h, some = _hash_line(buf, start, end)
            if some:
                hashes[n] = h
                doc[n] = d
                starts[n] = start
                ends[n] = end
                n += 1
            start = end
    return n


@njit(cache=True, nogil=True)
def _distinct(hashes, doc):  # type: ignore[no-untyped-def]
    """Compact ``hashes`` in place to one of each a document; the number left."""
    n = 0
    start = 0
    while start < hashes.shape[0]:
        end = start
        while end < hashes.shape[0] and doc[end] == doc[start]:
            end += 1
        group = np.sort(hashes[start:end])
        for i in range(group.shape[0]):
            if i == 0 or group[i] != group[i - 1]:
                hashes[n] = group[i]
                n += 1
        start = end
    return n


@njit(cache=True, nogil=True)
def _count(hashes, at_least):  # type: ignore[no-untyped-def]
    """Scatter by the top bits, then count each part in a table that fits the cache."""
    n = hashes.shape[0]
    bits = 4
    while (n >> bits) > 4096 and bits < 14:
        bits += 1
    shift = uint64(64 - bits)
    edges = np.zeros((1 << bits) + 1, np.int64)
    for i in range(n):
        edges[np.int64(hashes[i] >> shift) + 1] += 1
    widest = edges[0]
    for p in range(1 << bits):
        widest = max(widest, edges[p + 1])
        edges[p + 1] += edges[p]
    at = edges[:-1].copy()
    parted = np.empty(n, np.uint64)
    for i in range(n):
        q = np.int64(hashes[i] >> shift)
        parted[at[q]] = hashes[i]
        at[q] += 1
    size = 16
    while size < 2 * widest:
        size <<= 1
    keys = np.empty(size, np.uint64)
    slots = np.empty(size, np.int64)  # where in the output this key's count is
    stamps = np.full(size, -1, np.int32)  # the part that took the slot: nothing is cleared between parts
    out_keys = np.empty(n, np.uint64)
    out_counts = np.empty(n, np.int64)
    m = 0
    for p in range(1 << bits):
        begin = m
        own = 16
        while own < 2 * (edges[p + 1] - edges[p]):
            own <<= 1
        mask = np.uint64(own - 1)
        for i in range(edges[p], edges[p + 1]):
            x = parted[i]
            s = np.int64(x & mask)
            while stamps[s] == p and keys[s] != x:
                s = (s + 1) & np.int64(mask)
            if stamps[s] != p:
                stamps[s] = p
                keys[s] = x
                slots[s] = m
                out_keys[m] = x
                out_counts[m] = 1
                m += 1
            else:
                out_counts[slots[s]] += 1
        end = m
        m = begin
        for j in range(begin, end):
            if out_counts[j] >= at_least:
                out_keys[m] = out_keys[j]
                out_counts[m] = out_counts[j]
                m += 1
    return out_keys[:m].copy(), out_counts[:m].copy()


@njit(cache=True, nogil=True)
def _clean(buf, off, edges, values, out, new):  # type: ignore[no-untyped-def]
    n = 0
    new[0] = 0
    for d in range(off.shape[0] - 1):
        low, high = edges[d], edges[d + 1]
        start = off[d]
        while start < off[d + 1]:
            end = off[d + 1]
            drop = False
            if high > low:
                end = start
                while end < off[d + 1] and buf[end] != 10:
                    end += 1
                if end < off[d + 1]:
                    end += 1
                h, some = _hash_line(buf, start, end)
                if some:
                    for k in range(low, high):
                        if values[k] == h:
                            drop = True
                            break
            if not drop:
                for i in range(start, end):
                    out[n] = buf[i]
                    n += 1
            start = end
        new[d + 1] = n
    return n
