"""Which of some fixed words occur in a page: all of them in one pass.

Belongs here: the table and the kernel. Python looks for one word at a time, and a pattern of alternatives is slower
still. Does not belong here: which words.
"""

from collections.abc import Iterable

import numpy as np
from numba import njit


class Literals:
    """Words of at least two bytes, ASCII in lower case; a page is compared whatever its case."""

    def __init__(self, words: Iterable[bytes]) -> None:
        listed = tuple(words)
        self._n = len(listed)
        self._bytes = np.frombuffer(b"".join(listed), np.uint8)
        self._starts = np.cumsum([0, *(len(w) for w in listed)]).astype(np.int64)
        # By the first two bytes: the first word, and for each word the next that shares them.
        self._first = np.full(65_536, -1, np.int16)
        self._next = np.full(self._n, -1, np.int16)
        self._begins = np.zeros(65_536 // 8, np.uint8)  # a bit for each two bytes that begin a word: fits the L1 cache
        for number, word in enumerate(listed):
            self._next[number] = self._first[word[0] << 8 | word[1]]
            self._first[word[0] << 8 | word[1]] = number
            self._begins[(word[0] << 8 | word[1]) >> 3] |= np.uint8(1 << (word[1] & 7))

    def occur(self, page: bytes) -> list[bool]:
        """For each word, whether it occurs."""
        hit = np.zeros(self._n, np.bool_)
        if len(page) > 1:
            _find(np.frombuffer(page, np.uint8), self._bytes, self._starts, self._begins, self._first, self._next, hit)
        found: list[bool] = hit.tolist()
        return found


@njit(cache=True, nogil=True)
def _find(page, data, starts, begins, first, following, hit):  # type: ignore[no-untyped-def]
    """Mark the words that occur in a page."""
    n = len(page)
    before = page[0] + 32 if 65 <= page[0] <= 90 else page[0]
    for i in range(1, n):
        now = page[i] + 32 if 65 <= page[i] <= 90 else page[i]
        pair = np.int64(before) << 8 | np.int64(now)
        before = now
        if not begins[pair >> 3] >> (pair & 7) & 1:
            continue
        word = first[pair]
        while word >= 0:
            size = starts[word + 1] - starts[word]
            if i - 1 + size <= n and not hit[word]:
                same = True
                for k in range(2, size):
                    c = page[i - 1 + k]
                    if (c + 32 if 65 <= c <= 90 else c) != data[starts[word] + k]:
                        same = False
                        break
                if same:
                    hit[word] = True
            word = following[word]
