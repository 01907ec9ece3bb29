"""Lists of words and phrases, counted in texts by whole words.

Belongs here: reading a list and counting its hits. Does not belong here: what a list means (``toxicity.py``,
``spam.py``). Words and their folding are ``gristmill/text_units.py``'s, so a list matches whatever case, accents or
punctuation a text has, and never inside another word.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit, uint64

from gristmill.errors import ModelError
from gristmill.text_units import mix64, packed, word_hash, word_hashes, words

MAX_WORDS = 12  # a phrase may have this many words (characters, in unspaced scripts); longer ones are refused


@dataclass(frozen=True)
class PhraseList:
    """Open-addressed tables: hashes of whole phrases with their length, and of their first words."""

    phrases: np.ndarray  # uint64, 0 is free
    firsts: np.ndarray
    longest: int
    size: int

    def count(self, buf: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hits and words of each document, int64 (n). Hits do not overlap: the longest phrase at a place counts."""
        n = len(offsets) - 1
        hits, total = np.zeros(n, np.int64), np.zeros(n, np.int64)
        _count(buf, offsets, packed(), self.phrases, self.firsts, self.longest, hits, total)
        return hits, total


def _key(hashes: Iterable[int]) -> int:
    rolled, n = 0, 0
    for h in hashes:
        rolled = (rolled * 0xFF51AFD7ED558CCD + h) & ((1 << 64) - 1)
        n += 1
    return rolled ^ n or 1


def _table(keys: set[int]) -> np.ndarray:
    size = 16
    while size < 2 * len(keys) + 2:
        size *= 2
    table = np.zeros(size, np.uint64)
    for key in sorted(keys):
        place = (key >> 20) % size
        while table[place]:
            place = (place + 1) % size
        table[place] = key
    return table


def compile_phrases(lines: Iterable[str]) -> PhraseList:
    """Build a list from its lines; empty ones and those of punctuation only are skipped.

    Raises:
        ModelError: a phrase is too long.
    """
    phrases, firsts, longest = set(), set(), 0
    for line in lines:
        parts = words(line)
        if not parts:
            continue
        if len(parts) > MAX_WORDS:
            raise ModelError(f"the phrase {line[:40]!r} has {len(parts)} words; at most {MAX_WORDS} are compared")
        hashes = [word_hash(w) for w in parts]
        phrases.add(_key(hashes))
        firsts.add(hashes[0] or 1)
        longest = max(longest, len(parts))
    return PhraseList(_table(phrases), _table(firsts), longest, len(phrases))


def read_phrases(path: Path) -> PhraseList:
    """Read a list, one phrase a line, UTF-8."""
    try:
        return compile_phrases(path.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"word list {path} cannot be read: {error}") from error


@njit(inline="always")
def _has(table, key):  # type: ignore[no-untyped-def]
    mask = uint64(table.shape[0] - 1)
    place = (key >> uint64(20)) & mask
    while table[place] != uint64(0):
        if table[place] == key:
            return True
        place = (place + uint64(1)) & mask
    return False


@njit(cache=True, nogil=True)
def _count(buf, offsets, table, phrases, firsts, longest, hits, total):  # type: ignore[no-untyped-def]
    size = 0
    for d in range(offsets.shape[0] - 1):
        size = max(size, offsets[d + 1] - offsets[d])
    hashes, starts, ends = np.empty(size + 1, np.uint64), np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    for d in range(offsets.shape[0] - 1):
        n = word_hashes(buf, offsets[d], offsets[d + 1], table, hashes, starts, ends)
        total[d] = n
        w = 0
        while w < n:
            step = 1
            if _has(firsts, hashes[w] if hashes[w] != uint64(0) else uint64(1)):
                rolled = uint64(0)
                found = 0
                for k in range(min(longest, n - w)):
                    rolled = rolled * uint64(0xFF51AFD7ED558CCD) + hashes[w + k]
                    key = rolled ^ uint64(k + 1)
                    if _has(phrases, key if key != uint64(0) else uint64(1)):
                        found = k + 1
                if found:
                    hits[d] += 1
                    step = found
            w += step


@njit(cache=True, nogil=True)
def top_words(buf, offsets, table, min_chars, counts):  # type: ignore[no-untyped-def]
    """Occurrences of each document's most frequent word of at least ``min_chars`` bytes, into ``counts`` int64 (n)."""
    size = 0
    for d in range(offsets.shape[0] - 1):
        size = max(size, offsets[d + 1] - offsets[d])
    hashes, starts, ends = np.empty(size + 1, np.uint64), np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    capacity = 1024
    keys, number = np.zeros(capacity, np.uint64), np.zeros(capacity, np.int64)
    for d in range(offsets.shape[0] - 1):
        n = word_hashes(buf, offsets[d], offsets[d + 1], table, hashes, starts, ends)
        while capacity < 2 * n + 2:
            capacity *= 2
        if keys.shape[0] < capacity:
            keys, number = np.zeros(capacity, np.uint64), np.zeros(capacity, np.int64)
        live = 16
        while live < 2 * n + 2:
            live *= 2
        keys[:live] = 0
        mask = uint64(live - 1)
        best = 0
        for w in range(n):
            if ends[w] - starts[w] < min_chars:
                continue
            x = hashes[w] | uint64(1)
            place = mix64(x) & mask
            while keys[place] != uint64(0) and keys[place] != x:
                place = (place + uint64(1)) & mask
            if keys[place] == uint64(0):
                keys[place] = x
                number[place] = 0
            number[place] += 1
            best = max(best, number[place])
        counts[d] = best
