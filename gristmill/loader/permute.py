"""Keyed bijections on [0, n): Feistel networks with cycle walking, forwards and backwards.

Belongs here: the mixing function, the derivation of keys, the bijection, in plain Python: the definition. Does not
belong here: the same as kernels (``kernels.py``, which tests hold against it), what is permuted (``sampler.py``).

A number of ``bits = max(1, bit_length(n - 1))`` bits is split into two halves that differ by at most one bit; six
rounds mix one half into the other in turn, each a bijection; a result outside [0, n) is fed in again, under one time
on average since 2^bits < 2 n (Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains").
"""

import numpy as np
import numpy.typing as npt

MASK = (1 << 64) - 1
ROUNDS = 6
_ROUND = 0x9E3779B97F4A7C15
_MULTIPLY = 0xD6E8FEB86659FD93


def mix(x: int) -> int:
    """A bijection of 64 bits in which every input bit moves every output bit (rrmxmx family, 32-bit shifts)."""
    x ^= x >> 32
    x = x * _MULTIPLY & MASK
    x ^= x >> 32
    x = x * _MULTIPLY & MASK
    return x ^ x >> 32


def key(*parts: int) -> int:
    """One 64-bit key from a few 64-bit parts; their order matters."""
    state = 0
    for part in parts:
        state = mix((state + _ROUND & MASK) ^ mix(part & MASK))
    return state


def permute(x: int, n: int, k: int) -> int:
    """Where the bijection with key ``k`` sends ``x`` of [0, n)."""
    low_bits, high_bits = _halves(n)
    low_mask, high_mask = (1 << low_bits) - 1, (1 << high_bits) - 1
    while True:
        low, high = x & low_mask, x >> low_bits
        for r in range(0, ROUNDS, 2):
            low ^= mix(high ^ k + r * _ROUND & MASK) & low_mask
            high ^= mix(low ^ k + (r + 1) * _ROUND & MASK) & high_mask
        x = high << low_bits | low
        if x < n:
            return x


def unpermute(x: int, n: int, k: int) -> int:
    """The inverse of ``permute``."""
    low_bits, high_bits = _halves(n)
    low_mask, high_mask = (1 << low_bits) - 1, (1 << high_bits) - 1
    while True:
        low, high = x & low_mask, x >> low_bits
        for r in range(ROUNDS - 2, -1, -2):
            high ^= mix(low ^ k + (r + 1) * _ROUND & MASK) & high_mask
            low ^= mix(high ^ k + r * _ROUND & MASK) & low_mask
        x = high << low_bits | low
        if x < n:
            return x


def permute_many(n: int, k: int) -> npt.NDArray[np.int64]:
    """``permute`` of all of [0, n) by NumPy: for who asks once and need not load a kernel; int64 [n]."""
    low_bits, high_bits = _halves(n)
    low_mask, high_mask = np.uint64((1 << low_bits) - 1), np.uint64((1 << high_bits) - 1)
    shift = np.uint64(low_bits)
    keys = [np.uint64(k + r * _ROUND & MASK) for r in range(ROUNDS)]
    out = np.empty(n, np.int64)
    left = np.arange(n)
    x = left.astype(np.uint64)
    while len(left):
        low, high = x & low_mask, x >> shift
        for r in range(0, ROUNDS, 2):
            low ^= _mix_many(high ^ keys[r]) & low_mask
            high ^= _mix_many(low ^ keys[r + 1]) & high_mask
        x = high << shift | low
        inside = x < np.uint64(n)
        out[left[inside]] = x[inside]
        left, x = left[~inside], x[~inside]
    return out


def _mix_many(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    for _ in range(2):
        x = (x ^ x >> np.uint64(32)) * np.uint64(_MULTIPLY)
    return x ^ x >> np.uint64(32)


def _halves(n: int) -> tuple[int, int]:
    bits = max(1, (n - 1).bit_length())
    return (bits + 1) // 2, bits // 2
