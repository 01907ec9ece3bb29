"""MinHash signatures: fixed-size sketches of a text's shingles, and the band keys made of them.

Belongs here: shingling, permutations, signatures, the estimate of Jaccard, band keys, presets. Does not belong here:
what documents with equal keys become (``lsh.py``). Broder 1997; bands and rows: Leskovec, Rajaraman, Ullman, ch. 3.

A shingle is n consecutive words (or characters) of the folded text and hashes to 64 well-mixed bits; a text shorter
than one shingle is one shingle; a text without a word has none and resembles nothing. Permutation i is
``(a_i x + b_i) mod 2^32`` on the low 32 bits, a_i odd (measured unbiased; wider arithmetic buys nothing).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pyarrow as pa
from numba import njit, uint32, uint64

from gristmill.text_units import (
    DROP,
    LIMIT,
    SEPARATOR,
    decode,
    mix64,
    mix64_plain,
    packed,
    tables,
    text_buffers,
    word_hash,
    words,
)

_ROLL = 0xFF51AFD7ED558CCD  # multiplier of the rolling polynomial: odd, so no n-gram position loses bits
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
EMPTY = 0xFFFFFFFF  # every value of the signature of a text without shingles


@dataclass(frozen=True)
class Preset:
    """A published choice of shingle, bands and rows, with the votes that the index across crawls asks for."""

    shingle: Literal["word", "char"]
    n: int
    bands: int
    rows: int
    min_band_matches: int


# min_band_matches: near-verbatim only, alike for all: the fewest votes with which about half match at J = 0.85.
PRESETS: dict[str, Preset] = {
    "fineweb": Preset("word", 5, 14, 8, 4),  # FineWeb; s* = 0.72
    "aggressive": Preset("word", 5, 20, 5, 10),  # duplodocus; s* = 0.55
    "conservative": Preset("word", 5, 9, 13, 2),  # s* = 0.845
    "precise": Preset("word", 5, 32, 8, 9),  # s* = 0.65
    "nemo": Preset("char", 24, 20, 13, 3),  # NeMo Curator; s* = 0.79
}


@cache
def permutations(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers (odd) and offsets of ``count`` permutations, uint32 each, from splitmix64(seed, i)."""
    a = np.empty(count, np.uint32)
    b = np.empty(count, np.uint32)
    for i in range(count):
        a[i] = (_splitmix64(seed, 2 * i) & EMPTY) | 1
        b[i] = _splitmix64(seed, 2 * i + 1) & EMPTY
    a.flags.writeable = False
    b.flags.writeable = False
    return a, b


def _splitmix64(seed: int, i: int) -> int:
    """The i-th output of splitmix64 started at ``seed`` (Steele, Lea, Flood 2014)."""
    z = (seed + (i + 1) * _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def shingles(text: str, shingle: str = "word", n: int = 5, *, fold: bool = True,
             fold_digits: bool = False) -> list[int]:
    """64-bit hashes of a text's shingles in order, repeats included: the definition that the kernels are held to."""
    if shingle == "word":
        units = [word_hash(w) for w in words(text, fold=fold, fold_digits=fold_digits)]
    else:
        units = [ord(c) for c in _collapsed(text, fold, fold_digits)]
    if not units:
        return []
    out = []
    for i in range(max(len(units) - n + 1, 1)):
        h = 0
        for unit in units[i : i + n]:
            h = (h * _ROLL + unit) & _MASK
        out.append(mix64_plain(h))
    return out


def _collapsed(text: str, fold: bool, fold_digits: bool) -> str:
    """Folded characters, each run of separators as one space between words."""
    cls, folded = tables(fold, fold_digits)
    out: list[str] = []
    due = False
    for ch in text:
        cp = ord(ch)
        kind = int(cls[cp]) if cp < LIMIT else SEPARATOR
        if kind == DROP:
            continue
        if kind == SEPARATOR:
            due = bool(out)
            continue
        if due:
            out.append(" ")
            due = False
        out.append(chr(folded[cp]))
    return "".join(out)


def shingle_table(texts: pa.Array | pa.ChunkedArray, shingle: str, n: int, *, fold: bool = True,
                  fold_digits: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Shingle hashes of every text: all in one uint64 array, and where each text's begin (int64[texts + 1])."""
    buf, off = text_buffers(texts)
    out = np.empty(int(off[-1] - off[0]), np.uint64)
    edges = np.empty(len(off), np.int64)
    size = _all_shingles(buf, off, n, shingle == "char", packed(fold, fold_digits), out, edges)
    return out[:size], edges


def signatures(texts: pa.Array | pa.ChunkedArray, *, shingle: str = "word", n: int = 5, size: int = 112, seed: int = 1,
               fold_digits: bool = False, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Signatures of a string column.

    Args:
        texts: no nulls.
        size: K, values a signature (bands x rows).
        threads: the kernel lets go of the GIL; any number gives the same integers.

    Returns:
        uint32[texts, K], and the number of shingles of each text (int32[texts]).
    """
    buf, off = text_buffers(texts)
    count = len(off) - 1
    out = np.empty((count, size), np.uint32)
    sizes = np.empty(count, np.int32)
    a, b = permutations(size, seed)
    table = packed(True, fold_digits)

    def run(first: int, last: int) -> None:
        _signatures(buf, off, first, last, n, shingle == "char", table, a, b, out, sizes)

    if threads <= 1 or count < 2 * threads:
        run(0, count)
    else:
        # Pieces of equal bytes, several a thread, so that one long text does not leave the others idle.
        at = np.linspace(int(off[0]), int(off[-1]), 4 * threads + 1)
        edges = np.unique(np.clip(np.searchsorted(off, at), 0, count))
        edges[0], edges[-1] = 0, count
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda pair: run(*pair), zip(edges[:-1].tolist(), edges[1:].tolist())))
    return out, sizes


def estimate(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Estimated Jaccard of signatures, row by row: the share of equal values. float64."""
    return np.asarray((one == other).mean(axis=-1), np.float64)


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """Exact Jaccard of two sets of shingle hashes (any order, repeats allowed); 0 when both are empty."""
    x, y = set(one.tolist()), set(other.tolist())
    return len(x & y) / len(x | y) if x or y else 0.0


def band_keys(values: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """uint64[n, bands]: 64 bits mixed from a band's values and its number."""
    out = np.empty((len(values), bands), np.uint64)
    _band_keys(values, bands, rows, out)
    return out


@njit(cache=True, nogil=True)
def _word_units(buf, start, end, table, units):  # type: ignore[no-untyped-def]
    """Hash of every word into ``units``; their number.

    Where a word ends cannot be predicted, so nothing branches on it: the running hash is stored at every separator,
    and the place to store moves on only when a word has ended. More than twice as fast as branching.
    """
    w = uint64(0x9E3779B97F4A7C15)
    inside = np.int64(0)
    k = np.int64(0)
    i = start
    while i < end:
        c = uint32(buf[i])
        if c < uint32(128):
            i += 1
        else:
            c, i = decode(buf, i)
            c = c if c < uint32(0x34000) else uint32(0)
        t = table[c]
        kind = t >> uint32(24)
        if kind <= uint32(1):
            word = np.int64(kind)
            units[k] = w
            k += inside & (word ^ 1)
            grown = (w ^ uint64(t & uint32(0xFFFFFF))) * uint64(0x100000001B3)
            w = grown if word else uint64(0x9E3779B97F4A7C15)
            inside = word
        elif kind == uint32(2):
            units[k] = w
            k += inside
            units[k] = (uint64(0x9E3779B97F4A7C15) ^ uint64(t & uint32(0xFFFFFF))) * uint64(0x100000001B3)
            k += 1
            w = uint64(0x9E3779B97F4A7C15)
            inside = np.int64(0)
    units[k] = w
    k += inside
    for j in range(k):
        units[j] = mix64(units[j])
    return k


@njit(cache=True, nogil=True)
def _char_units(buf, start, end, table, units):  # type: ignore[no-untyped-def]
    """Folded characters into ``units``, one space for a run of separators between words; their number."""
    k = 0
    due = False
    i = start
    while i < end:
        c, i = decode(buf, i)
        t = table[c] if c < uint32(0x34000) else uint32(0)
        kind = t >> uint32(24)
        if kind == uint32(0):
            due = k > 0
        elif kind != uint32(3):
            if due:
                units[k] = uint64(32)
                k += 1
                due = False
            units[k] = uint64(t & uint32(0xFFFFFF))
            k += 1
    return k


@njit(cache=True, nogil=True)
def _roll(units, k, n, out):  # type: ignore[no-untyped-def]
    """Hashes of every n units in a row of ``units[:k]`` into ``out``; their number. Fewer than n are one shingle."""
    if k == 0:
        return 0
    power = uint64(1)
    for _ in range(n):
        power *= uint64(0xFF51AFD7ED558CCD)
    h = uint64(0)
    for j in range(min(n, k)):
        h = h * uint64(0xFF51AFD7ED558CCD) + units[j]
    out[0] = h
    m = 1
    for j in range(n, k):
        h = h * uint64(0xFF51AFD7ED558CCD) + units[j] - units[j - n] * power
        out[m] = h
        m += 1
    for j in range(m):
        out[j] = mix64(out[j])
    return m


@njit(cache=True, nogil=True)
def _shingles(buf, start, end, n, char, table, units, out):  # type: ignore[no-untyped-def]
    if char:
        return _roll(units, _char_units(buf, start, end, table, units), n, out)
    return _roll(units, _word_units(buf, start, end, table, units), n, out)


@njit(cache=True, nogil=True)
def _all_shingles(buf, off, n, char, table, out, edges):  # type: ignore[no-untyped-def]
    widest = np.int64(0)
    for d in range(off.shape[0] - 1):
        widest = max(widest, off[d + 1] - off[d])
    units = np.empty(widest + 1, np.uint64)
    size = 0
    edges[0] = 0
    for d in range(off.shape[0] - 1):
        size += _shingles(buf, off[d], off[d + 1], n, char, table, units, out[size:])
        edges[d + 1] = size
    return size


@njit(cache=True, nogil=True)
def _sign(hashes, m, a, b, out):  # type: ignore[no-untyped-def]
    """Minimum of every permutation. Four shingles a pass: each load of a, b and out serves four; SIMD over k."""
    size = out.shape[0]
    for k in range(size):
        out[k] = uint32(0xFFFFFFFF)
    j = 0
    while j + 4 <= m:
        x0, x1, x2, x3 = uint32(hashes[j]), uint32(hashes[j + 1]), uint32(hashes[j + 2]), uint32(hashes[j + 3])
        for k in range(size):
            v0, v1 = uint32(a[k] * x0 + b[k]), uint32(a[k] * x1 + b[k])
            v2, v3 = uint32(a[k] * x2 + b[k]), uint32(a[k] * x3 + b[k])
            p = v0 if v0 < v1 else v1
            q = v2 if v2 < v3 else v3
            p = p if p < q else q
            out[k] = p if p < out[k] else out[k]
        j += 4
    while j < m:
        x = uint32(hashes[j])
        for k in range(size):
            v = uint32(a[k] * x + b[k])
            out[k] = v if v < out[k] else out[k]
        j += 1


@njit(cache=True, nogil=True)
def _signatures(buf, off, first, last, n, char, table, a, b, out, sizes):  # type: ignore[no-untyped-def]
    widest = np.int64(0)
    for d in range(first, last):
        widest = max(widest, off[d + 1] - off[d])
    units = np.empty(widest + 1, np.uint64)
    hashes = np.empty(widest + 1, np.uint64)
    for d in range(first, last):
        m = _shingles(buf, off[d], off[d + 1], n, char, table, units, hashes)
        sizes[d] = m
        _sign(hashes, m, a, b, out[d])


@njit(cache=True, nogil=True)
def _band_keys(values, bands, rows, out):  # type: ignore[no-untyped-def]
    for d in range(values.shape[0]):
        for band in range(bands):
            h = uint64(band + 1)
            for j in range(rows):
                h = mix64(h ^ (uint64(values[d, band * rows + j]) * uint64(0x9E3779B97F4A7C15)))
            out[d, band] = h
