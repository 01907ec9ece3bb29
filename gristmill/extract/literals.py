"""Which of some fixed words occur in a page, and where first: all of them in one pass.

Belongs here: the table and the kernel. Python looks for one word at a time, and a pattern of alternatives is slower
still. Does not belong here: which words.
"""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numba import njit, uint64

# Bytes of pages with bit 5 set, the commonest first.
_COMMON = b' etaisonrl"c-dpm/uh.g><f=)b0*wv:2y,1\x7fkx35{};46j78('
_RARE = {c | 0x20: 1 / (rank + 1) for rank, c in enumerate(_COMMON)}


class Literals:
    """Words of at least three bytes, ASCII in lower case; a page is compared whatever its case.

    The pass looks at every second pair of bytes. Three bytes of a word make two pairs, and one of them is looked at
    wherever the word stands: the rarest three are taken.
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        listed = tuple(words)
        if any(len(w) < 3 or w != w.lower() for w in listed):
            raise ValueError("words of at least three bytes, in lower case")
        self._n = len(listed)
        self._bytes = np.frombuffer(b"".join(listed), np.uint8)
        self._starts = np.cumsum([0, *(len(w) for w in listed)]).astype(np.int64)
        # By two bytes, with bit 5 set so that letters have no case: the first entry, and for each entry the next that
        # shares them. Entries 2 k and 2 k + 1 are pairs of word k, each with its place in the word.
        self._first = np.full(65_536, -1, np.int16)
        self._next = np.full(2 * self._n, -1, np.int16)
        self._place = np.zeros(2 * self._n, np.int64)
        self._begins = np.zeros(65_536 // 8, np.uint8)  # a bit for each two bytes of an entry: fits the L1 cache
        for entry in range(2 * self._n):
            word = bytes(c | 0x20 for c in listed[entry // 2])
            shares = [self._share(word[k : k + 2]) for k in range(len(word) - 1)]
            both = [a + b for a, b in pairwise(shares)]
            at = both.index(min(both)) + entry % 2
            pair = word[at] | word[at + 1] << 8
            self._place[entry], self._next[entry] = at, self._first[pair]
            self._first[pair] = entry
            self._begins[pair >> 3] |= np.uint8(1 << (pair & 7))

    @staticmethod
    def _share(pair: bytes) -> float:
        """How common two bytes are, roughly."""
        return _RARE.get(pair[0], 0.01) * _RARE.get(pair[1], 0.01)

    def places(self, page: bytes) -> list[int]:
        """For each word, the byte at which it first occurs; -1 where it does not."""
        at = np.full(self._n, len(page), np.int64)
        buf = np.frombuffer(page, np.uint8)
        _find(buf, buf[: len(buf) // 2 * 2].view("<u2"), self._bytes, self._starts, self._begins, self._first,
              self._next, self._place, at)
        return [-1 if place == len(page) else place for place in at.tolist()]


@njit(cache=True, nogil=True)
def _find(page, pairs, data, starts, begins, first, following, place, at):  # type: ignore[no-untyped-def]
    """Note the first place of each word in a page."""
    n = len(page)
    for half in range(len(pairs)):
        pair = uint64(pairs[half] | 0x2020)
        if not begins[pair >> uint64(3)] >> (pair & uint64(7)) & 1:
            continue
        entry = first[pair]
        while entry >= 0:
            word = entry >> 1
            begin = 2 * half - place[entry]
            size = starts[word + 1] - starts[word]
            if 0 <= begin < at[word] and begin + size <= n:
                same = True
                for k in range(size):
                    c = page[begin + k]
                    if (c + 32 if 65 <= c <= 90 else c) != data[starts[word] + k]:
                        same = False
                        break
                if same:
                    at[word] = begin
            entry = following[entry]
