"""Locality-sensitive hashing: documents that share a band key, and which of them are duplicates.

Belongs here: grouping by key in linear time, star edges, verification against leaders with its caps. Does not belong
here: signatures (``minhash.py``), components (``components.py``), reading (``stages.py``).

In a bucket identical signatures collapse first. Unverified, every member is joined to the smallest. Verified, members
are taken in order of ``doc_id`` and compared with the bucket's leaders so far. By signature, a member is joined to the
first that it matches; one that matches none becomes a leader itself, up to ``max_leaders``; after that it stays alone
in this bucket, and is counted. For exact Jaccard only a leader whose estimate is at least ``sure_at`` ends the search;
otherwise the ``FAN`` most alike leaders within ``MARGIN`` of the bound are candidates, whose texts ``clusters.py``
compares, and the member becomes a leader too: an estimate that a text refutes must not stand in the way of a true mate.

A bucket of up to ``bucket_cap`` distinct signatures gets that whole search; a larger one gets the same number of
comparisons, ``bucket_cap x max_leaders``, so each member meets fewer leaders, and at least the first. The work is
linear in the bucket, whatever its size.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit, uint64

from gristmill.deduplicate.scurve import MARGIN
from gristmill.text_units import mix64

Verify = Literal["none", "signature", "jaccard"]

FAN = 4  # candidates of a member in a bucket


@dataclass(frozen=True)
class Rules:
    """Verification and its caps (``ClusterParams``)."""

    verify: Verify = "jaccard"
    verify_at: float = 0.8
    sure_at: float = 0.95
    max_leaders: int = 256
    bucket_cap: int = 10_000


@dataclass
class Stars:
    """Edges of buckets, by row of the members given: ``member[i]`` is joined to ``anchor[i]``."""

    member: np.ndarray  # int64
    anchor: np.ndarray  # int64
    similarity: np.ndarray  # float32; NaN where nothing was compared
    identical: int = 0
    compared: int = 0
    unmatched: int = 0  # matched no leader, and there was no room for one more


def shared(keys: np.ndarray) -> np.ndarray:
    """bool[n]: is the key some other row's too. Linear; order does not matter."""
    out = np.zeros(len(keys), np.bool_)
    _anchors(keys, _row_numbers(len(keys)), np.zeros(0, np.int64), out)
    return out


def anchors(keys: np.ndarray) -> np.ndarray:
    """int64[n]: the first row that has the row's key. Linear."""
    out = np.empty(len(keys), np.int64)
    _anchors(keys, _row_numbers(len(keys)), out, np.zeros(0, np.bool_))
    return out


def _row_numbers(n: int) -> np.ndarray:
    """Room for the kernel's row numbers, in the smaller type that holds them."""
    return np.empty(n, np.uint32 if n < 1 << 32 else np.uint64)


def bucket_starts(*columns: np.ndarray) -> np.ndarray:
    """Where each bucket begins, and the end: int64[buckets + 1], for rows in order of the columns."""
    n = len(columns[0])
    if n == 0:
        return np.zeros(1, np.int64)
    new = np.zeros(n, bool)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.append(np.flatnonzero(new), n).astype(np.int64)


def stars_unverified(starts: np.ndarray) -> Stars:
    """Join every member of each bucket to its first."""
    n = int(starts[-1])
    anchor = np.repeat(starts[:-1], np.diff(starts))
    member = np.flatnonzero(anchor != np.arange(n))
    return Stars(member, anchor[member], np.full(len(member), np.nan, np.float32))


def stars_verified(starts: np.ndarray, signatures: np.ndarray, rules: Rules) -> Stars:
    """Edges of an estimate of at least ``verify_at``; with ``jaccard`` also candidates, down to ``MARGIN`` less.

    Args:
        starts: bucket b holds rows ``starts[b]:starts[b + 1]``, in order of doc_id.
        signatures: uint32[rows, K].
    """
    n, size = signatures.shape
    exact = rules.verify == "jaccard"
    need = _least(rules.verify_at - MARGIN if exact else rules.verify_at, size)
    sure = max(_least(max(rules.sure_at, rules.verify_at), size), need) if exact else need
    anchor = np.full((n, FAN if exact else 1), -1, np.int64)
    same = np.zeros(anchor.shape, np.int32)
    counts = np.zeros(3, np.int64)
    _match(starts, signatures, need, sure, rules.max_leaders, rules.bucket_cap, anchor, same, counts)
    member, place = np.nonzero(anchor >= 0)
    return Stars(member, anchor[member, place], (same[member, place] / size).astype(np.float32),
                 *(int(c) for c in counts))


def _least(share: float, size: int) -> int:
    """Equal values of a signature that an estimate of ``share`` takes."""
    return max(int(np.ceil(share * size - 1e-9)), 1)


def sorted_sets(hashes: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct shingle hashes of each text, ascending: the sets of ``stars_by_jaccard``."""
    out = hashes.copy()
    new = np.zeros_like(edges)
    size = _distinct_sets(out, edges, new)
    return out[:size], new


@njit(cache=True, nogil=True)
def _distinct_sets(hashes, edges, new):  # type: ignore[no-untyped-def]
    n = 0
    for d in range(edges.shape[0] - 1):
        group = np.sort(hashes[edges[d] : edges[d + 1]])
        for i in range(group.shape[0]):
            if i == 0 or group[i] != group[i - 1]:
                hashes[n] = group[i]
                n += 1
        new[d + 1] = n
    return n


@njit(cache=True, nogil=True)
def jaccard_sorted(one, other):  # type: ignore[no-untyped-def]
    """Jaccard of two ascending arrays of distinct hashes; 0 when both are empty."""
    i = 0
    j = 0
    both = 0
    while i < one.shape[0] and j < other.shape[0]:
        if one[i] == other[j]:
            both += 1
            i += 1
            j += 1
        elif one[i] < other[j]:
            i += 1
        else:
            j += 1
    total = one.shape[0] + other.shape[0] - both
    return both / total if total else 0.0


@njit(cache=True, nogil=True)
def _anchors(keys, rows, first, many):  # type: ignore[no-untyped-def]
    """First row of each row's key into ``first``, or whether the key repeats into ``many``; the other is empty.

    Rows are dealt to parts by a multiplied key (a range's keys share their top bits), then each part goes through a
    table that fits the cache. Two passes over memory.
    """
    n = keys.shape[0]
    bits = 4
    while (n >> bits) > 1024 and bits < 18:
        bits += 1
    shift = uint64(64 - bits)
    edges = np.zeros((1 << bits) + 1, np.int64)
    for i in range(n):
        edges[np.int64((keys[i] * uint64(0x9E3779B97F4A7C15)) >> shift) + 1] += 1
    widest = edges[0]
    for p in range(1 << bits):
        widest = max(widest, edges[p + 1])
        edges[p + 1] += edges[p]
    at = edges[:-1].copy()
    dealt = np.empty(n, np.uint64)
    for i in range(n):
        q = np.int64((keys[i] * uint64(0x9E3779B97F4A7C15)) >> shift)
        dealt[at[q]] = keys[i]
        rows[at[q]] = i
        at[q] += 1
    size = 16
    while size < 2 * widest:
        size <<= 1
    slots = np.empty(size, np.uint64)
    holder = np.empty(size, np.int64)
    stamps = np.full(size, -1, np.int32)
    for p in range(1 << bits):
        own = 16
        while own < 2 * (edges[p + 1] - edges[p]):
            own <<= 1
        mask = np.int64(own - 1)
        for j in range(edges[p], edges[p + 1]):
            x = dealt[j]
            s = np.int64(x >> uint64(20)) & mask
            while stamps[s] == p and slots[s] != x:
                s = (s + 1) & mask
            row = np.int64(rows[j])
            if stamps[s] != p:
                stamps[s] = p
                slots[s] = x
                holder[s] = row
                if first.shape[0]:
                    first[row] = row
            elif first.shape[0]:
                first[row] = holder[s]
            else:
                many[row] = True
                many[holder[s]] = True


@njit(inline="always")
def _equal(one, other):  # type: ignore[no-untyped-def]
    same = 0
    for k in range(one.shape[0]):
        same += one[k] == other[k]
    return same


@njit(cache=True, nogil=True)
def _collapse(signatures, start, end, slots, anchor, same, distinct):  # type: ignore[no-untyped-def]
    """Join rows of a bucket to the first with the same signature; the rows left, in ``distinct``, and their number."""
    mask = np.int64(slots.shape[0] - 1)
    slots[:] = -1
    n = 0
    for i in range(start, end):
        h = uint64(0)
        for k in range(signatures.shape[1]):
            h = (h ^ uint64(signatures[i, k])) * uint64(0xFF51AFD7ED558CCD)
        s = np.int64(mix64(h) & uint64(mask))
        found = np.int64(-1)
        while slots[s] >= 0:
            if _equal(signatures[slots[s]], signatures[i]) == signatures.shape[1]:
                found = slots[s]
                break
            s = (s + 1) & mask
        if found >= 0:
            anchor[i, 0] = found
            same[i, 0] = signatures.shape[1]
        else:
            slots[s] = i
            distinct[n] = i
            n += 1
    return n


@njit(cache=True, nogil=True)
def _match(  # type: ignore[no-untyped-def]
    starts, signatures, need, sure, max_leaders, bucket_cap, anchor, same, counts
):
    """The leader search of every bucket. counts: identical, compared, unmatched."""
    fan = anchor.shape[1]
    leaders = np.empty(max_leaders, np.int64)
    for b in range(starts.shape[0] - 1):
        start, end = starts[b], starts[b + 1]
        if end - start < 2:
            continue
        room = 16
        while room < 2 * (end - start):
            room <<= 1
        distinct = np.empty(end - start, np.int64)
        n = _collapse(signatures, start, end, np.empty(room, np.int64), anchor, same, distinct)
        counts[0] += (end - start) - n
        limit = max_leaders
        if n > bucket_cap:
            limit = max(1, (bucket_cap * max_leaders) // n)
        held = 0
        for j in range(n):
            i = distinct[j]
            matched = False
            for q in range(held):
                counts[1] += 1
                equal = _equal(signatures[leaders[q]], signatures[i])
                if equal < need:
                    continue
                if equal >= sure:
                    anchor[i, :] = -1
                    anchor[i, 0] = leaders[q]
                    same[i, 0] = equal
                    matched = True
                    break
                p = fan  # among the best so far, the earlier of equals first
                while p > 0 and same[i, p - 1] < equal:
                    p -= 1
                for r in range(fan - 1, p, -1):
                    anchor[i, r] = anchor[i, r - 1]
                    same[i, r] = same[i, r - 1]
                if p < fan:
                    anchor[i, p] = leaders[q]
                    same[i, p] = equal
            if matched:
                continue
            if held < limit:
                leaders[held] = i
                held += 1
            elif anchor[i, 0] < 0:
                counts[2] += 1
