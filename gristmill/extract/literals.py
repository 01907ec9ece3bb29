"""Which of some fixed words occur in a page, and where first: all of them in one pass.

Belongs here: the table and the kernel. Python looks for one word at a time, and a pattern of alternatives is slower
still. Does not belong here: which words.
"""

from collections.abc import Iterable

import numpy as np
from numba import njit, uint64


class Literals:
    """Words of at least three bytes, ASCII in lower case; a page is compared whatever its case.

    The pass looks at every second pair of bytes: a word begins at one of them, or one byte before it.
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        listed = tuple(words)
        if any(len(w) < 3 or w != w.lower() for w in listed):
            raise ValueError("words of at least three bytes, in lower case")
        self._n = len(listed)
        self._bytes = np.frombuffer(b"".join(listed), np.uint8)
        self._starts = np.cumsum([0, *(len(w) for w in listed)]).astype(np.int64)
        # By two bytes: the first entry, and for each entry the next that shares them. Entry 2 k is word k by its first
        # two bytes, entry 2 k + 1 by its second and third.
        self._first = np.full(65_536, -1, np.int16)
        self._next = np.full(2 * self._n, -1, np.int16)
        self._begins = np.zeros(65_536 // 8, np.uint8)  # a bit for each two bytes of an entry: fits the L1 cache
        for entry in range(2 * self._n):
            word = listed[entry // 2][entry % 2 :]
            pair = word[0] << 8 | word[1]
            self._next[entry] = self._first[pair]
            self._first[pair] = entry
            self._begins[pair >> 3] |= np.uint8(1 << (pair & 7))

    def places(self, page: bytes) -> list[int]:
        """For each word, the byte at which it first occurs; -1 where it does not."""
        at = np.full(self._n, -1, np.int64)
        if len(page) > 1:
            _find(np.frombuffer(page, np.uint8), self._bytes, self._starts, self._begins, self._first, self._next, at)
        found: list[int] = at.tolist()
        return found


@njit(cache=True, nogil=True)
def _find(page, data, starts, begins, first, following, at):  # type: ignore[no-untyped-def]
    """Note the first place of each word in a page."""
    n = len(page)
    for half in range(n // 2):
        i = 2 * half
        a = page[uint64(i)]
        b = page[uint64(i) + uint64(1)]
        pair = np.int64(a + 32 if 65 <= a <= 90 else a) << 8 | np.int64(b + 32 if 65 <= b <= 90 else b)
        if not begins[pair >> 3] >> (pair & 7) & 1:
            continue
        entry = first[pair]
        while entry >= 0:
            word = entry >> 1
            begin = i - (entry & 1)
            size = starts[word + 1] - starts[word]
            if at[word] < 0 and begin >= 0 and begin + size <= n:
                same = True
                for k in range(size):
                    c = page[begin + k]
                    if (c + 32 if 65 <= c <= 90 else c) != data[starts[word] + k]:
                        same = False
                        break
                if same:
                    at[word] = begin
            entry = following[entry]
