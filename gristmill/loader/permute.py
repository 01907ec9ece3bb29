"""Keyed bijections on [0, n): Feistel networks with cycle walking, forwards and backwards.

Belongs here: the mixing function, the derivation of keys, the bijection, each as plain Python and as a kernel that the
tests hold against it. Does not belong here: what is permuted (``sampler.py``).

A number of ``bits = max(1, bit_length(n - 1))`` bits is split into two halves that differ by at most one bit; six
rounds mix one half into the other in turn, each a bijection; a result outside [0, n) is fed in again, under one time
on average since 2^bits < 2 n (Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains").
"""

import numpy as np
from numba import njit, uint64

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


def _halves(n: int) -> tuple[int, int]:
    bits = max(1, (n - 1).bit_length())
    return (bits + 1) // 2, bits // 2


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
