"""Finding benchmark items in documents: runs of n-grams, whole short spans, and windowed containment.

Belongs here: probing documents against an index. Does not belong here: the index (``index.py``), the containment kernel
(``fuzzy.py``) and what is done with a match.

A match is grown word by word from one n-gram that is evidence, in both directions, so suppressed n-grams continue it.
It counts when it holds ``min_run`` n-grams that are evidence (22 words; 28 characters in unspaced scripts), or when the
whole span occurs. The cost is linear in the document: each word of a diagonal is compared once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from gristmill.decontaminate.fuzzy import candidates, gram, hits_of, in_bloom, slot, windows
from gristmill.decontaminate.index import Index
from gristmill.text_units import packed, text_buffers, word_hashes

NGRAM, SHORT_SPAN, FUZZY = "ngram", "short", "fuzzy"


@dataclass(frozen=True)
class Match:
    """One item's span in one document. ``start`` and ``end`` are bytes of the document's UTF-8."""

    doc: int
    span: int  # number in the index
    method: str
    run: int  # words in a row (characters in unspaced scripts); of a fuzzy match the words of its window
    containment: float | None
    start: int
    end: int
    whole: bool


@njit(cache=True, nogil=True)
def _grow(hashes, nw, a, words, begin, end, pos):  # type: ignore[no-untyped-def]
    """The longest equal stretch through document word ``a`` and span word ``pos``: its first words and length."""
    back = 0
    while a - back > 0 and pos - back > 0 and hashes[a - back - 1] == words[begin + pos - back - 1]:
        back += 1
    ahead = 0
    while a + ahead < nw and begin + pos + ahead < end and hashes[a + ahead] == words[begin + pos + ahead]:
        ahead += 1
    return a - back, pos - back, back + ahead


@njit(cache=True, nogil=True)
def _exact(hashes, nw, at, n_at, n, is_short, bloom, keys, first, count,  # type: ignore[no-untyped-def]
           spans, places, words, offsets, telling, need, n_long, diagonal, reach, base, best, touched, t):
    """Matches of one document by n-grams of length ``n``, the longest of each span, into ``best``.

    Args:
        at, n_at: of ``candidates``.
        diagonal, reach: int64 (spans): the last diagonal compared for a span (plus ``base``) and how far.
        best: int64 (spans, 3): length, first word in the document, first word in the span; length 0 is none.
        touched, t: spans with a match, and how many.

    Returns:
        The new ``t``.
    """
    for c in range(n_at):
        w = at[c]
        if w < n - 1:
            continue
        x = gram(hashes, w, n)
        if not in_bloom(bloom, x):
            continue
        p = slot(keys, x)
        if p < 0:
            continue
        a = w - n + 1
        for q in range(first[p], first[p] + count[p]):
            s, pos = spans[q], places[q]
            here = base + a - pos
            if diagonal[s] == here and base + a < reach[s]:
                continue
            begin, end = offsets[s], offsets[s + 1]
            d0, s0, length = _grow(hashes, nw, a, words, begin, end, pos)
            diagonal[s], reach[s] = here, base + d0 + length
            whole = length == end - begin
            hit = whole
            if not is_short and not whole and length >= n_long:
                low = begin + s + s0
                hit = telling[low + length - n_long + 1] - telling[low] >= need[s]
            if hit and length > best[s, 0]:
                if best[s, 0] == 0:
                    touched[t] = s
                    t += 1
                best[s, 0], best[s, 1], best[s, 2] = length, d0, s0
    return t


@njit(cache=True, nogil=True)
def _probe(buf, byte_offsets, table, gate, n_gate, words, offsets, telling,  # type: ignore[no-untyped-def]
           need, shingles, lengths, lb, lk, lf, lc, ls, lp, sb, sk, sf, sc, ss, sp, fb, fk, ff, fc, fs, fp,
           n_long, n_short, n_fuzzy, least, stretch, out):
    """All documents. ``out`` float64 (m, 8): doc, span, method, run, containment, start, end, whole. -1: too small."""
    n_spans = offsets.shape[0] - 1
    size = 0
    for d in range(byte_offsets.shape[0] - 1):
        size = max(size, byte_offsets[d + 1] - byte_offsets[d])
    hashes, starts, ends = np.empty(size + 1, np.uint64), np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    at = np.empty(size + 1, np.int32)
    diagonal, reach = np.full(n_spans, np.int64(-(1 << 62))), np.zeros(n_spans, np.int64)
    best, taken = np.zeros((n_spans, 3), np.int64), np.zeros(n_spans, np.bool_)
    touched, seen, start = np.zeros(n_spans, np.int32), np.zeros(n_spans, np.int32), np.zeros(n_spans, np.int64)
    hits, bucket = np.empty((4096, 3), np.int32), np.empty((4096, 2), np.int32)
    live = np.zeros(shingles.max() + 1 if n_spans else 1, np.int32)
    result = np.empty((n_spans, 4), np.float64)
    m, base = 0, 0
    for d in range(byte_offsets.shape[0] - 1):
        nw = word_hashes(buf, byte_offsets[d], byte_offsets[d + 1], table, hashes, starts, ends)
        n_at = candidates(hashes, nw, n_gate, gate, at)
        if n_at == 0:
            base += nw + 1
            continue
        t = _exact(hashes, nw, at, n_at, n_long, False, lb, lk, lf, lc, ls, lp, words, offsets, telling, need, n_long,
                   diagonal, reach, base, best, touched, 0)
        t = _exact(hashes, nw, at, n_at, n_short, True, sb, sk, sf, sc, ss, sp, words, offsets, telling, need, n_long,
                   diagonal, reach, base, best, touched, t)
        base += nw + 1  # diagonals of different documents never meet
        if m + t > out.shape[0]:
            return -1
        for k in range(t):
            s = touched[k]
            length, d0 = best[s, 0], best[s, 1]
            out[m, 0], out[m, 1], out[m, 2] = d, s, 0 if need[s] else 1
            out[m, 3], out[m, 4] = length, -1.0
            out[m, 5] = starts[d0] - byte_offsets[d]
            out[m, 6] = ends[d0 + length - 1] - byte_offsets[d]
            out[m, 7] = length == lengths[s]
            m += 1
            taken[s] = True
        exact = m - t
        h, u = hits_of(hashes, at, n_at, n_fuzzy, fb, fk, ff, fc, fs, fp, hits, seen, touched)
        while h < 0:
            hits, bucket = np.empty((2 * hits.shape[0], 3), np.int32), np.empty((2 * hits.shape[0], 2), np.int32)
            h, u = hits_of(hashes, at, n_at, n_fuzzy, fb, fk, ff, fc, fs, fp, hits, seen, touched)
        r = windows(hits, h, seen, touched, u, shingles, lengths, least, stretch, n_fuzzy, taken, bucket, start, live,
                    result)
        for k in range(exact, m):
            s = np.int64(out[k, 1])
            taken[s] = False
            best[s, 0] = 0
        if m + r > out.shape[0]:
            return -1
        for k in range(r):
            d0, d1 = np.int64(result[k, 2]), np.int64(result[k, 3])
            out[m, 0], out[m, 1], out[m, 2], out[m, 3], out[m, 4] = d, result[k, 0], 2, d1 - d0 + 1, result[k, 1]
            out[m, 5], out[m, 6], out[m, 7] = starts[d0] - byte_offsets[d], ends[d1] - byte_offsets[d], False
            m += 1
    return m


def probe(index: Index, texts: pa.Array | pa.ChunkedArray) -> list[Match]:
    """Every benchmark span found in every text, in order of (document, span).

    Args:
        index: of ``index.build``.
        texts: strings without nulls.
    """
    if not index.size or not len(texts):
        return []
    buf, byte_offsets = text_buffers(texts)
    p = index.params
    grams = [a for g in (index.long, index.short, index.fuzzy)
             for a in (g.bloom, g.keys, g.first, g.count, g.spans, g.places)]
    lengths = np.diff(index.offsets)
    kernel: Any = _probe
    size = 1024
    while True:
        out = np.empty((size, 8), np.float64)  # exact below 2^53
        m = int(kernel(buf, byte_offsets, packed(), index.gate, index.gate_n, index.hashes, index.offsets,
                       index.telling, index.need, index.shingles, lengths, *grams, p.n, p.short_n, p.fuzzy_n,
                       p.fuzzy_containment, p.fuzzy_window, out))
        if m >= 0:
            break
        size *= 4
    methods = (NGRAM, SHORT_SPAN, FUZZY)
    return [
        Match(int(d), int(s), methods[int(k)], int(run), None if share < 0 else round(share, 6), int(a), int(b), w > 0)
        for d, s, k, run, share, a, b, w in sorted(out[:m].tolist())
    ]
