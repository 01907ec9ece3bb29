"""The sampler's arithmetic as kernels, for many samples at once.

Belongs here: compiled forms of ``permute.py``, ``corput.py`` and ``Sampler.locate``, which the tests hold against them.
Does not belong here: any definition. Imported where a kernel is called, since Numba takes a fifth of a second to load.
"""

import numpy as np
from numba import njit, uint64

from gristmill.loader.sampler import GROUP


@njit(cache=True, nogil=True)
def mix64(x):  # type: ignore[no-untyped-def]
    """``mix`` on uint64."""
    x ^= x >> uint64(32)
    x *= uint64(0xD6E8FEB86659FD93)
    x ^= x >> uint64(32)
    x *= uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> uint64(32))


@njit(cache=True, nogil=True)
def key64(state, part):  # type: ignore[no-untyped-def]
    """One more part of a ``key``: fold from 0."""
    return mix64((state + uint64(0x9E3779B97F4A7C15)) ^ mix64(part))


@njit(cache=True, nogil=True)
def permute64(x, n, k):  # type: ignore[no-untyped-def]
    """``permute`` on uint64; all three arguments must be uint64 (a mixed product would become a float)."""
    bits = uint64(1)
    while bits < uint64(64) and (n - uint64(1)) >> bits != uint64(0):
        bits += uint64(1)
    low_bits = (bits + uint64(1)) // uint64(2)
    high_bits = bits // uint64(2)
    low_mask = (uint64(1) << low_bits) - uint64(1)
    high_mask = (uint64(1) << high_bits) - uint64(1)
    while True:
        low = x & low_mask
        high = x >> low_bits
        for r in range(3):
            even = k + uint64(2 * r) * uint64(0x9E3779B97F4A7C15)
            low ^= mix64(high ^ even) & low_mask
            high ^= mix64(low ^ (even + uint64(0x9E3779B97F4A7C15))) & high_mask
        x = (high << low_bits) | low
        if x < n:
            return x


@njit(cache=True, nogil=True)
def permute_all(n, k):  # type: ignore[no-untyped-def]
    """The whole bijection: int64 [n]."""
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = permute64(uint64(i), uint64(n), k)
    return out


@njit(cache=True, nogil=True)
def reverse64(b):  # type: ignore[no-untyped-def]
    """V(b) of a uint64."""
    b = ((b >> uint64(1)) & uint64(0x5555555555555555)) | ((b & uint64(0x5555555555555555)) << uint64(1))
    b = ((b >> uint64(2)) & uint64(0x3333333333333333)) | ((b & uint64(0x3333333333333333)) << uint64(2))
    b = ((b >> uint64(4)) & uint64(0x0F0F0F0F0F0F0F0F)) | ((b & uint64(0x0F0F0F0F0F0F0F0F)) << uint64(4))
    b = ((b >> uint64(8)) & uint64(0x00FF00FF00FF00FF)) | ((b & uint64(0x00FF00FF00FF00FF)) << uint64(8))
    b = ((b >> uint64(16)) & uint64(0x0000FFFF0000FFFF)) | ((b & uint64(0x0000FFFF0000FFFF)) << uint64(16))
    return (b >> uint64(32)) | (b << uint64(32))


@njit(cache=True, nogil=True)
def below64(f, b):  # type: ignore[no-untyped-def]
    """``below`` on uint64."""
    total = uint64(0)
    start = uint64(0)  # V of the digits of b above the one at hand
    for k in range(63, -1, -1):
        if (b >> uint64(k)) & uint64(1) == uint64(0):
            continue
        if f > start:
            if k == 0:
                total += uint64(1)
            else:
                total += ((f - start - uint64(1)) >> uint64(64 - k)) + uint64(1)
        start |= uint64(1) << uint64(63 - k)
    return total


@njit(cache=True, nogil=True)
def draw(  # type: ignore[no-untyped-def]
    steps, positions, first_step, batch, layout, whole, part, base, epoch_size, slot_key, segment, source, epoch, p
):
    """Rows (step, position) to (segment, source, epoch, p); the first row without such a position, or -1."""
    sources = base.shape[1]
    at = 0
    for i in range(len(steps)):
        step = steps[i]
        if not (first_step[at] <= step and (at + 1 == len(first_step) or step < first_step[at + 1])):
            low = 0
            high = len(first_step) - 1
            while low < high:
                middle = (low + high + 1) // 2
                if first_step[middle] <= step:
                    low = middle
                else:
                    high = middle - 1
            at = low
        if positions[i] < 0 or positions[i] >= batch[at]:
            return i
        b = uint64(step - first_step[at])
        v = reverse64(b)
        slot = permute64(uint64(positions[i]), uint64(batch[at]), key64(slot_key, uint64(step)))
        low = 0
        high = sources - 1
        while low < high:  # the last source whose slots begin at or before this one
            middle = (low + high + 1) // 2
            if whole[at, middle] + (uint64(1) if v < part[at, middle] else uint64(0)) <= slot:
                low = middle
            else:
                high = middle - 1
        f0 = part[at, low]
        f1 = part[at, low + 1]
        under = whole[at, low] + (uint64(1) if v < f0 else uint64(0))
        before = b * (whole[at, low + 1] - whole[at, low]) + below64(f1, b) - below64(f0, b)
        rank = base[at, low] + before + slot - under
        size = epoch_size[layout[at], low]
        segment[i] = at
        source[i] = low
        epoch[i] = rank // size
        p[i] = rank % size
    return -1


@njit(cache=True, nogil=True)
def place(epoch, p, rows, only, sequence_key, order, sums, first_shard, shard, sequence):  # type: ignore[no-untyped-def]
    """``_Table.locate`` at ``rows`` whose epoch is ``only`` (all of them where that is -1)."""
    for row in rows:
        if only >= 0 and epoch[row] != only:
            continue
        at = _last_at_most(sums, p[row])
        first = at // GROUP * GROUP
        last = min(first + GROUP, len(order))
        start = sums[first]
        k = key64(key64(key64(uint64(0), sequence_key), uint64(epoch[row])), uint64(first))
        drawn = start + np.int64(permute64(uint64(p[row] - start), uint64(sums[last] - start), k))
        at = _last_at_most(sums, drawn)
        shard[row] = first_shard + order[at]
        sequence[row] = drawn - sums[at]


@njit(cache=True, nogil=True)
def _last_at_most(sums, value):  # type: ignore[no-untyped-def]
    """The last i with sums[i] <= value."""
    low = 0
    high = len(sums) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if sums[middle] <= value:
            low = middle
        else:
            high = middle - 1
    return low
