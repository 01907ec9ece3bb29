"""Perplexity of text under a small n-gram model: how likely its word order is, in the model's language.

Belongs here: reading an ARPA file and scoring texts with it. Does not belong here: training (``kneser_ney.py``).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numba import njit, uint64

from gristmill.errors import ModelError
from gristmill.quality.kneser_ney import BEGIN, END, UNKNOWN
from gristmill.text_units import packed, text_buffers, word_hash, word_hashes, words

MAX_ORDER = 5
_MASK = (1 << 64) - 1
_STEP = 0xFF51AFD7ED558CCD


def _key(hashes: Sequence[int]) -> int:
    rolled = 0
    for h in hashes:
        rolled = (rolled * _STEP + h) & _MASK
    return (rolled ^ len(hashes)) or 1


class LanguageModel:
    """An ARPA model as hashed tables. 64-bit keys: at 1e8 n-grams a wrong hit has a chance of 1e-11 a look-up."""

    def __init__(self, order: int, grams: dict[tuple[str, ...], tuple[float, float]]) -> None:
        """Build from n-gram -> (log10 probability, log10 back-off)."""
        self.order, self.grams = order, grams
        size = 64
        while size < 2 * len(grams):
            size *= 2
        self._keys, self._values = np.zeros(size, np.uint64), np.zeros((size, 2))
        for gram, values in grams.items():
            key = _key([word_hash(w) for w in gram])
            place = (key >> 20) % size
            while self._keys[place]:
                place = (place + 1) % size
            self._keys[place], self._values[place] = key, values
        self._special = np.array([word_hash(w) for w in (BEGIN, END, UNKNOWN)], np.uint64)

    @classmethod
    def read(cls, path: Path) -> "LanguageModel":
        """Read an ARPA file.

        Raises:
            ModelError: it is not one, or its order is too high.
        """
        grams: dict[tuple[str, ...], tuple[float, float]] = {}
        order, announced = 0, 0
        try:
            with path.open(encoding="utf-8") as file:
                for line in file:
                    line = line.rstrip("\n")
                    if line.startswith("ngram "):
                        announced += int(line.split("=")[1])
                    elif line.endswith("-grams:") and line.startswith("\\"):
                        order = int(line[1:].split("-")[0])
                    elif order and line and not line.startswith("\\"):
                        fields = line.split("\t")
                        weight = float(fields[2]) if len(fields) > 2 else 0.0
                        grams[tuple(fields[1].split(" "))] = (float(fields[0]), weight)
        except (OSError, UnicodeDecodeError, ValueError, IndexError) as error:
            raise ModelError(f"{path} is no ARPA file: {error}") from error
        if not 1 <= order <= MAX_ORDER or (UNKNOWN,) not in grams or len(grams) != announced:
            raise ModelError(
                f"{path}: {len(grams)} of {announced} n-grams, order {order}; needs order 1 to {MAX_ORDER}, and <unk>")
        return cls(order, grams)

    def score(self, texts: Sequence[str]) -> np.ndarray:
        """Mean log10 probability of a word (higher is more likely), float64; NaN for a text without words."""
        buf, offsets = text_buffers(pa.array(texts, pa.large_string()))
        total, events = np.zeros(len(texts)), np.zeros(len(texts), np.int64)
        _score(buf, offsets, packed(), self._keys, self._values, self._special, self.order, total, events)
        return np.where(events > 0, np.round(total / np.maximum(events, 1), 6), np.nan)

    def perplexity(self, texts: Sequence[str]) -> np.ndarray:
        """Perplexity per word and sentence end."""
        return 10.0 ** -self.score(texts)

    def plain(self, text: str) -> tuple[float, int]:
        """Sum of log10 probabilities and number of events, in plain Python: what the kernel is held against."""
        total, events = 0.0, 0
        for line in text.split("\n"):
            tokens = words(line)
            context: tuple[str, ...] = (BEGIN,)
            for token in [*tokens, END] if tokens else []:
                word = token if (token,) in self.grams else UNKNOWN
                total += self._probability(context[-(self.order - 1):] if self.order > 1 else (), word)
                context, events = (*context, word), events + 1
        return total, events

    def _probability(self, context: tuple[str, ...], word: str) -> float:
        if (*context, word) in self.grams:
            return self.grams[(*context, word)][0]
        weight = self.grams[context][1] if context in self.grams else 0.0
        return weight + self._probability(context[1:], word)


@njit(inline="always")
def _find(keys, rolled, n):  # type: ignore[no-untyped-def]
    key = rolled ^ uint64(n)
    key = key if key != uint64(0) else uint64(1)
    mask = uint64(keys.shape[0] - 1)
    place = (key >> uint64(20)) & mask
    while keys[place] != uint64(0):
        if keys[place] == key:
            return np.int64(place)
        place = (place + uint64(1)) & mask
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _event(keys, values, context, n, word):  # type: ignore[no-untyped-def]
    """log10 P(word | context[:n]) with back-off from the longest context that is known."""
    total = 0.0
    for skip in range(n + 1):
        rolled = uint64(0)
        for k in range(skip, n):
            rolled = rolled * uint64(0xFF51AFD7ED558CCD) + context[k]
        hit = _find(keys, rolled * uint64(0xFF51AFD7ED558CCD) + word, n - skip + 1)
        if hit >= 0:
            return total + values[hit, 0]
        if skip < n:
            hit = _find(keys, rolled, n - skip)
            if hit >= 0:
                total += values[hit, 1]
    return total


@njit(cache=True, nogil=True)
def _score(buf, offsets, table, keys, values, special, order, total, events):  # type: ignore[no-untyped-def]
    size = 0
    for d in range(offsets.shape[0] - 1):
        size = max(size, offsets[d + 1] - offsets[d])
    hashes, starts, ends = np.empty(size + 1, np.uint64), np.empty(size + 1, np.int64), np.empty(size + 1, np.int64)
    context = np.zeros(8, np.uint64)
    for d in range(offsets.shape[0] - 1):
        a = offsets[d]
        while a <= offsets[d + 1]:
            b = a
            while b < offsets[d + 1] and buf[b] != 10:
                b += 1
            n = word_hashes(buf, a, b, table, hashes, starts, ends)
            if n:
                held = 0
                if order > 1:
                    context[0] = special[0]
                    held = 1
                for w in range(n + 1):
                    word = special[1] if w == n else hashes[w]
                    if w < n and _find(keys, word, 1) < 0:
                        word = special[2]
                    total[d] += _event(keys, values, context, held, word)
                    events[d] += 1
                    if order > 1:
                        if held == order - 1:
                            for k in range(held - 1):
                                context[k] = context[k + 1]
                            context[held - 1] = word
                        else:
                            context[held] = word
                            held += 1
            a = b + 1
