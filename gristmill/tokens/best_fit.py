"""Best-fit-decreasing packing as a kernel.

Belongs here: placing documents into sequences, window by window. Does not belong here: its plain definition and what a
packing is (``packing.py``).
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def place_all(lengths, seq_len, window):  # type: ignore[no-untyped-def]
    """(bins, bin of each piece, and the piece's document, start, length), pieces in placing order."""
    n_pieces = 0
    for n in lengths:
        n_pieces += (n + seq_len - 1) // seq_len
    bin_of = np.empty(n_pieces, np.int64)
    doc = np.empty(n_pieces, np.int64)
    start = np.empty(n_pieces, np.int64)
    length = np.empty(n_pieces, np.int64)
    size = 1
    while size < seq_len + 1:
        size *= 2
    tree = np.zeros(2 * size, np.int32)  # tree[size + c]: open bins with c tokens left; inner nodes: their sums
    head = np.full(seq_len + 1, -1, np.int64)  # last opened bin with c tokens left; the others follow by ``below``
    below = np.empty(n_pieces, np.int64)
    bins = 0
    placed = 0
    first = 0
    while first < len(lengths):
        last = first
        tokens = 0
        while last < len(lengths) and tokens < window:
            tokens += lengths[last]
            last += 1
        rest = np.zeros(last - first, np.int64)
        for d in range(first, last):
            full = lengths[d] // seq_len
            for k in range(full):
                bin_of[placed] = bins
                doc[placed] = d
                start[placed] = k * seq_len
                length[placed] = seq_len
                placed += 1
                bins += 1
            rest[d - first] = lengths[d] - full * seq_len
        opened = bins
        for i in np.argsort(-rest, kind="mergesort"):
            need = rest[i]
            if need == 0:
                break
            left = _smallest_at_least(tree, size, need)
            if left < 0:
                target = bins
                bins += 1
                left = seq_len
            else:
                target = head[left]
                head[left] = below[target]
                _add(tree, size, left, -1)
            bin_of[placed] = target
            doc[placed] = first + i
            start[placed] = lengths[first + i] - need
            length[placed] = need
            placed += 1
            left -= need
            below[target] = head[left]
            head[left] = target
            _add(tree, size, left, 1)
        if bins > opened:
            tree[:] = 0
            head[:] = -1
        first = last
    return bins, bin_of, doc, start, length


@njit(cache=True, nogil=True)
def _add(tree, size, leaf, by):  # type: ignore[no-untyped-def]
    node = size + leaf
    while node >= 1:
        tree[node] += by
        node //= 2


@njit(cache=True, nogil=True)
def _smallest_at_least(tree, size, need):  # type: ignore[no-untyped-def]
    """The smallest capacity >= ``need`` some open bin has left, or -1."""
    node = size + need
    if tree[node] > 0:
        return need
    while node > 1:
        if node % 2 == 0 and tree[node + 1] > 0:
            node += 1
            while node < size:
                node = 2 * node if tree[2 * node] > 0 else 2 * node + 1
            return node - size
        node //= 2
    return -1
