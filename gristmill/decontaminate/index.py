"""The index over benchmark items that documents are probed against.

Belongs here: cutting items' spans into words, which n-grams are evidence, and the tables (bloom filter, open-addressed
map, postings). Does not belong here: reading hold-outs (``acquire/holdout.py``) and probing (``ngrams.py``,
``fuzzy.py``).

Not every n-gram is evidence. One that stands in more than ``max_items`` items of a benchmark is a template or an
instruction; one with hardly a word in it (numbers, single letters: identities, tables) proves nothing either. Both are
suppressed: they continue a run of matching words and add nothing to it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numba import njit, uint64

from gristmill.params import DecontaminateParams
from gristmill.text_units import decode, mix64, packed, text_buffers, word_hashes

Item = tuple[str, str, Mapping[str, str]]  # benchmark, item id, span name -> text

SHORT, TEMPLATE = "short", "template"  # why a span cannot be checked


@dataclass(frozen=True)
class Grams:
    """An open-addressed map from n-gram hashes to postings (span, place), and a bloom filter in front of it."""

    bloom: np.ndarray  # uint64 blocks
    keys: np.ndarray  # uint64, a power of two; 0 is free
    first: np.ndarray  # int64, where a key's postings begin
    count: np.ndarray  # int32
    spans: np.ndarray  # int32
    places: np.ndarray  # int32: word position (n-gram, short) or shingle number (fuzzy)


@dataclass(frozen=True)
class Index:
    """Everything that probing needs. Spans are numbered; ``n`` is their count, ``words`` all their words."""

    params: DecontaminateParams
    benchmark: tuple[str, ...]
    item: tuple[str, ...]
    span: tuple[str, ...]
    text: tuple[str, ...]
    hashes: np.ndarray  # uint64, words of all spans
    offsets: np.ndarray  # int64 (n + 1)
    telling: np.ndarray  # int64, as hashes + n: within a span, running count of n-grams that are evidence
    need: np.ndarray  # int32 (n): evidence in a row that makes a match; 0: the whole span must occur
    shingles: np.ndarray  # int32 (n): distinct telling shingles; 0: not checked by containment
    unspaced: np.ndarray  # bool (n)
    long: Grams
    short: Grams
    fuzzy: Grams
    gate: np.ndarray  # uint64: bloom filter of the last ``gate_n`` words of every n-gram of the three
    gate_n: int
    not_checkable: tuple[tuple[str, str, str, str], ...]  # benchmark, item, span, why

    @property
    def size(self) -> int:
        """Spans."""
        return len(self.benchmark)


@njit(cache=True, nogil=True)
def _tellings(buf, starts, ends, n, table, telling, alone):  # type: ignore[no-untyped-def]
    """Which words tell something: two letters or more and no LaTeX command, or a character of an unspaced script."""
    for w in range(n):
        i, letters, digits = starts[w], 0, 0
        while i < ends[w]:
            c, i = decode(buf, i)
            t = table[c] if c < 0x34000 else 0
            if (t >> 24) == 2:
                alone[w] = True
            if 48 <= c <= 57:
                digits += 1
            elif (t >> 24) != 3:
                letters += 1
        command = starts[w] > 0 and buf[starts[w] - 1] == 92  # \frac is notation, not a word
        telling[w] = alone[w] or (letters >= 2 and not command)


@njit(cache=True, nogil=True)
def _gram_hashes(hashes, offsets, telling, n, min_telling, out, good):  # type: ignore[no-untyped-def]
    """Hash of the n-gram at every word (0 where none fits in its span), and whether its words can be evidence."""
    for s in range(offsets.shape[0] - 1):
        for w in range(offsets[s], offsets[s + 1] - n + 1):
            rolled = uint64(0)
            distinct, told = 0, 0
            for k in range(n):
                x = hashes[w + k]
                rolled = rolled * uint64(0xFF51AFD7ED558CCD) + x
                seen = False
                for j in range(k):
                    seen = seen or hashes[w + j] == x
                if not seen:
                    distinct += 1
                    told += telling[w + k]
            key = mix64(rolled ^ uint64(n))
            out[w] = key if key != uint64(0) else uint64(1)
            good[w] = (told >= min_telling and distinct >= min_telling + 1) or (n >= 13 and told >= 2 and distinct >= 6)


@njit(cache=True, nogil=True)
def _fill(keys, table, slots):  # type: ignore[no-untyped-def]
    """Place distinct keys; ``slots`` says where each went."""
    mask = uint64(table.shape[0] - 1)
    for i in range(keys.shape[0]):
        place = keys[i] & mask
        while table[place] != uint64(0):
            place = (place + uint64(1)) & mask
        table[place] = keys[i]
        slots[i] = place


@njit(cache=True, nogil=True)
def _add_to_bloom(keys, bloom):  # type: ignore[no-untyped-def]
    blocks = uint64(bloom.shape[0])
    for i in range(keys.shape[0]):
        x = keys[i]
        bits = uint64(1) << (x & uint64(63))
        bits |= uint64(1) << ((x >> uint64(6)) & uint64(63))
        bits |= uint64(1) << ((x >> uint64(12)) & uint64(63))
        bloom[((x >> uint64(32)) * blocks) >> uint64(32)] |= bits


def _bloom(keys: np.ndarray, bits_per_key: float) -> np.ndarray:
    out = np.zeros(max(1, math.ceil(len(keys) * bits_per_key / 64)), np.uint64)
    _add_to_bloom(keys, out)
    return out


def _grams(keys: np.ndarray, spans: np.ndarray, places: np.ndarray, bits_per_key: float) -> Grams:
    """Map of postings; of a key's several places in one span the first is kept."""
    order = np.lexsort((places, spans, keys))
    keys, spans, places = keys[order], spans[order], places[order]
    if len(keys):
        fresh = np.ones(len(keys), bool)
        fresh[1:] = (keys[1:] != keys[:-1]) | (spans[1:] != spans[:-1])
        keys, spans, places = keys[fresh], spans[fresh], places[fresh]
    distinct, first, count = np.unique(keys, return_index=True, return_counts=True)
    size = 16
    while size < 2 * len(distinct) + 2:
        size *= 2
    table, slots = np.zeros(size, np.uint64), np.zeros(len(distinct), np.int64)
    _fill(distinct, table, slots)
    begins, counts = np.zeros(size, np.int64), np.zeros(size, np.int32)
    begins[slots], counts[slots] = first, count
    return Grams(_bloom(distinct, bits_per_key), table, begins, counts, spans.astype(np.int32), places.astype(np.int32))


def build(items: Iterable[Item], params: DecontaminateParams) -> Index:
    """Index the spans of benchmark items.

    Args:
        items: benchmark, item id, spans by name. An item may come more than once; empty spans are skipped.
        params: sizes and bounds.
    """
    rows = [(b, str(i), name, text) for b, i, spans in items for name, text in sorted(spans.items()) if text.strip()]
    buf, byte_offsets = text_buffers(pa.array([r[3] for r in rows], pa.large_string()))
    hashes, offsets, telling, alone = _words(buf, byte_offsets)
    length = np.diff(offsets)
    span_of = np.repeat(np.arange(len(rows)), length)
    share = np.bincount(span_of, weights=alone, minlength=len(rows))
    unspaced = share * 2 > length
    item_of = _numbers([(r[0], r[1]) for r in rows])
    bench_of = _numbers([(r[0],) for r in rows])

    keys, good = {}, {}
    for n, min_telling in ((params.n, 3), (params.short_n, 2), (params.fuzzy_n, 2)):
        keys[n], fine = np.zeros(len(hashes), np.uint64), np.zeros(len(hashes), bool)
        _gram_hashes(hashes, offsets, telling, n, min_telling, keys[n], fine)
        good[n] = fine & ~_frequent(keys[n], item_of[span_of], bench_of[span_of], params.max_items)

    full = np.where(unspaced, params.n + params.min_run_unspaced - 1, params.n + params.min_run - 1)
    least = np.where(unspaced, params.short_unspaced, params.short_n)
    is_long = length >= full
    is_short = ~is_long & (length >= least)
    position = np.arange(len(hashes)) - offsets[:-1][span_of] if rows else np.zeros(0, np.int64)

    used = np.flatnonzero(good[params.n] & is_long[span_of])
    bits = params.bits_per_key
    long = _grams(keys[params.n][used], span_of[used], position[used], bits)
    # A short span must occur whole, so one telling n-gram of it is enough to find it: the first.
    use = good[params.short_n] & is_short[span_of]
    chosen = np.flatnonzero(use)
    _, first = np.unique(span_of[chosen], return_index=True)
    chosen = chosen[first]
    short = _grams(keys[params.short_n][chosen], span_of[chosen], position[chosen], bits)
    # Shingles are numbered within their span; what counts are distinct ones.
    fuzzy, shingles = _shingles(keys[params.fuzzy_n], good[params.fuzzy_n], span_of, len(rows),
                                params.fuzzy_min_shingles, bits)
    # The shortest n-gram that ends where one of these does: what is not among those ends none of them.
    gate_n = min(keys)
    ends = [used + params.n, chosen + params.short_n,
            np.flatnonzero(good[params.fuzzy_n] & (shingles > 0)[span_of]) + params.fuzzy_n]
    gate = _bloom(np.unique(keys[gate_n][np.concatenate(ends) - gate_n]), bits)

    running = np.zeros(len(hashes) + len(rows), np.int64)
    told = np.concatenate([[0], np.cumsum(good[params.n])])
    for s in range(len(rows)):  # one entry more than words, so that a range is a difference
        a, b = offsets[s], offsets[s + 1]
        running[a + s : b + s + 1] = told[a : b + 1] - told[a]
    indexed = np.zeros(len(rows), bool)
    indexed[long.spans], indexed[short.spans] = True, True
    missing = [(*rows[s][:3], SHORT if length[s] < least[s] else TEMPLATE) for s in np.flatnonzero(~indexed)]
    need = np.where(is_long, np.where(unspaced, params.min_run_unspaced, params.min_run), 0).astype(np.int32)
    benchmark, item, span, text = zip(*rows) if rows else ((), (), (), ())
    return Index(params, benchmark, item, span, text, hashes, offsets, running, need, shingles, unspaced, long, short,
                 fuzzy, gate, gate_n, tuple(missing))


def _words(buf: np.ndarray, byte_offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Word hashes of all texts, offsets into them, and which words tell and which stand alone."""
    size = int(np.diff(byte_offsets).max(initial=0)) + 1
    h, starts, ends = np.empty(size, np.uint64), np.empty(size, np.int64), np.empty(size, np.int64)
    parts, offsets = [(np.zeros(0, np.uint64), np.zeros(0, bool), np.zeros(0, bool))], [0]
    for a, b in pairwise(byte_offsets.tolist()):
        n = word_hashes(buf, a, b, packed(), h, starts, ends)
        telling, alone = np.zeros(n, bool), np.zeros(n, bool)
        _tellings(buf, starts, ends, n, packed(), telling, alone)
        parts.append((h[:n].copy(), telling, alone))
        offsets.append(offsets[-1] + n)
    hashes, telling, alone = (np.concatenate([p[k] for p in parts]) for k in range(3))
    return hashes, np.array(offsets, np.int64), telling, alone


def _numbers(names: list[tuple[str, ...]]) -> np.ndarray:
    table: dict[tuple[str, ...], int] = {}
    return np.array([table.setdefault(n, len(table)) for n in names], np.int64)


def _frequent(keys: np.ndarray, items: np.ndarray, benchmarks: np.ndarray, max_items: int) -> np.ndarray:
    """Which n-grams stand in more than ``max_items`` items of one benchmark."""
    if not len(keys):
        return np.zeros(0, bool)
    order = np.lexsort((items, benchmarks, keys))
    k, b, i = keys[order], benchmarks[order], items[order]
    new_pair = np.ones(len(k), bool)
    new_pair[1:] = (k[1:] != k[:-1]) | (b[1:] != b[:-1])
    new_item = new_pair.copy()
    new_item[1:] |= i[1:] != i[:-1]
    counts = np.add.reduceat(new_item.astype(np.int64), np.flatnonzero(new_pair))
    return np.isin(keys, k[new_pair][counts > max_items])


def _shingles(keys: np.ndarray, good: np.ndarray, span_of: np.ndarray, n: int, least: int,
              bits: float) -> tuple[Grams, np.ndarray]:
    """Map from telling shingles to (span, number of the shingle in it); how many distinct ones a span has."""
    rows = np.flatnonzero(good)
    spans, telling = span_of[rows], keys[rows]
    order = np.lexsort((telling, spans))
    spans, telling = spans[order], telling[order]
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (spans[1:] != spans[:-1]) | (telling[1:] != telling[:-1])
    spans, telling = spans[fresh], telling[fresh]
    count = np.bincount(spans, minlength=n)
    begin = np.concatenate([[0], np.cumsum(count)])
    number = np.arange(len(spans)) - begin[spans]
    use = count[spans] >= least
    return _grams(telling[use], spans[use], number[use], bits), np.where(count >= least, count, 0).astype(np.int32)
