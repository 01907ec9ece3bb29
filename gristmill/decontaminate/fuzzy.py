"""Windowed containment: leaked items whose words were changed here and there.

Belongs here: the kernel for one document. Does not belong here: the index (``index.py``) and the loop (``ngrams.py``).

Containment, not Jaccard with the page: an item of 60 words in a page of 600 has Jaccard 0.09. What is compared is the
share of a span's telling 5-gram shingles inside a window of 1.5 times its length.
"""

import numpy as np
from numba import njit, uint64

from gristmill.text_units import mix64


@njit(inline="always")
def in_bloom(bloom, x):  # type: ignore[no-untyped-def]
    """May ``x`` be among the keys. One block of 64 bits, three of them tested."""
    block = bloom[((x >> uint64(32)) * uint64(bloom.shape[0])) >> uint64(32)]
    bits = uint64(1) << (x & uint64(63))
    bits |= uint64(1) << ((x >> uint64(6)) & uint64(63))
    bits |= uint64(1) << ((x >> uint64(12)) & uint64(63))
    return block & bits == bits


@njit(inline="always")
def slot(keys, x):  # type: ignore[no-untyped-def]
    """Where key ``x`` is in an open-addressed table, or -1."""
    mask = uint64(keys.shape[0] - 1)
    place = x & mask
    while keys[place] != uint64(0):
        if keys[place] == x:
            return np.int64(place)
        place = (place + uint64(1)) & mask
    return np.int64(-1)


@njit(inline="always")
def gram(hashes, w, n):  # type: ignore[no-untyped-def]
    """Hash of the ``n`` words that end with word ``w``, as the index has it."""
    x = uint64(0)
    for k in range(w - n + 1, w + 1):
        x = x * uint64(0xFF51AFD7ED558CCD) + hashes[k]
    return mix64(x ^ uint64(n))


@njit(cache=True, nogil=True)
def candidates(hashes, nw, n, gate, out):  # type: ignore[no-untyped-def]
    """Words of a document at which any n-gram of the index may end: a few in a hundred, and nothing else is looked up.

    Args:
        hashes, nw: the document's words.
        n, gate: the index's ``gate_n`` and ``gate``.
        out: int32, at least ``nw`` + 1 long; filled with the words, in order.

    Returns:
        How many there are.
    """
    top = uint64(1)  # the step of the polynomial to the power n - 1: the weight of the window's first word
    for _ in range(n - 1):
        top *= uint64(0xFF51AFD7ED558CCD)
    m, rolled = 0, uint64(0)
    for w in range(min(n - 1, nw)):
        rolled = rolled * uint64(0xFF51AFD7ED558CCD) + hashes[w]
    for w in range(n - 1, nw):
        rolled = rolled * uint64(0xFF51AFD7ED558CCD) + hashes[w]
        out[m] = w
        m += in_bloom(gate, mix64(rolled ^ uint64(n)))
        rolled -= hashes[w - n + 1] * top
    return m


@njit(cache=True, nogil=True)
def hits_of(hashes, at, n_at, n, bloom, keys, first, count, spans, places, out, seen, touched):  # type: ignore[no-untyped-def]
    """Shingles of a document that are in the index.

    Args:
        hashes: of the document's words.
        at, n_at: of ``candidates``.
        out: int32 (m, 3): span, word position, number of the shingle; filled.
        seen: int32 (spans), zeroed; counts hits of each.
        touched: int32 (spans); the spans with a hit.

    Returns:
        How many hits and touched spans; (-1, 0) when ``out`` is too small (``seen`` is then left as it was).
    """
    m, t = 0, 0
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
        if m + count[p] > out.shape[0]:
            for k in range(t):
                seen[touched[k]] = 0
            return -1, 0
        for q in range(first[p], first[p] + count[p]):
            s = spans[q]
            if seen[s] == 0:
                touched[t] = s
                t += 1
            seen[s] += 1
            out[m, 0] = s
            out[m, 1] = w - n + 1
            out[m, 2] = places[q]
            m += 1
    return m, t


@njit(cache=True, nogil=True)
def windows(hits, m, seen, touched, t, shingles, lengths,  # type: ignore[no-untyped-def]
            least, stretch, n, taken, bucket, start, live, result):
    """The best window of every span that reaches containment ``least``. Linear in the hits.

    Args:
        hits, m, seen, touched, t: of ``hits_of``. ``seen`` is zeroed again.
        shingles, lengths: telling shingles and words of each span.
        stretch: window over the span's length.
        taken: bool (spans): matched exactly already.
        bucket: int32 (m, 2), start: int64 (spans), live: int32 (most shingles of a span): scratch, any content.
        result: float64 (spans, 4): span, containment, first and last word of the window.

    Returns:
        Rows of ``result``.
    """
    total = 0
    for k in range(t):
        s = touched[k]
        if taken[s] or seen[s] < least * shingles[s]:
            start[s] = -1
        else:
            start[s] = total
            total += seen[s]
    for h in range(m):
        s = hits[h, 0]
        if start[s] >= 0:
            bucket[start[s], 0] = hits[h, 1]
            bucket[start[s], 1] = hits[h, 2]
            start[s] += 1
    found = 0
    for k in range(t):
        s = touched[k]
        many = seen[s]
        seen[s] = 0
        if start[s] < 0:
            continue
        a = start[s] - many
        width = int(np.ceil(stretch * lengths[s]))
        live[: shingles[s]] = 0
        distinct, best, low, best_a, best_b = 0, 0, a, a, a
        for b in range(a, a + many):
            while bucket[b, 0] + n - bucket[low, 0] > width:
                live[bucket[low, 1]] -= 1
                if live[bucket[low, 1]] == 0:
                    distinct -= 1
                low += 1
            live[bucket[b, 1]] += 1
            if live[bucket[b, 1]] == 1:
                distinct += 1
            if distinct > best:
                best, best_a, best_b = distinct, low, b
        if best >= least * shingles[s]:
            result[found, 0] = s
            result[found, 1] = best / shingles[s]
            result[found, 2] = bucket[best_a, 0]
            result[found, 3] = bucket[best_b, 0] + n - 1
            found += 1
    return found
