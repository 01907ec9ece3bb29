"""A byte-level n-gram language model: the proxy that a threshold ablation trains where nothing larger is at hand.

Belongs here: training and bits per byte. Does not belong here: pools and thresholds (``ablation.py``). Models of bytes
share one alphabet, so figures of models trained on different pools can be compared, which word models with their own
vocabularies do not allow. Interpolated Witten-Bell estimates (Bell, Cleary and Witten 1990, chapter 6).

It learns spelling, words and short phrases and no reasoning: it tells prose from noise and one domain from another, and
says nothing about what only a large model would gain from.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit, uint64

from gristmill.text_units import mix64

ORDER = 6
_STEP = 0xFF51AFD7ED558CCD


class ByteModel:
    """Counts of all n-grams of bytes up to ``order``, in one open-addressed table."""

    def __init__(self, texts: Sequence[str], order: int = ORDER) -> None:
        """Count the n-grams of texts; n-grams do not cross from one text to the next."""
        self.order = order
        buf, offsets = _bytes(texts)
        size = 1 << 12
        while True:
            self._keys, self._values = np.zeros(size, np.uint64), np.zeros((size, 3), np.int64)
            if _count(buf, offsets, order, self._keys, self._values):
                break
            size *= 4

    def bits(self, texts: Sequence[str]) -> float:
        """Bits per byte of texts; NaN when they have none."""
        buf, offsets = _bytes(texts)
        return float(_bits(buf, offsets, self.order, self._keys, self._values) / len(buf)) if len(buf) else float("nan")

    def plain(self, context: bytes, byte: int) -> float:
        """P(byte | context) in plain Python: what the kernel is held against."""
        if len(context) >= self.order:
            context = context[len(context) - self.order + 1 :]
        p = 1 / 256
        for n in range(len(context) + 1):
            suffix = context[len(context) - n :]
            _, total, types = self._look(suffix)
            if not total:
                break
            seen, _, _ = self._look(suffix + bytes([byte]))
            p = (seen + types * p) / (total + types)
        return p

    def _look(self, gram: bytes) -> tuple[int, int, int]:
        rolled = 0
        for b in gram:
            rolled = (rolled * _STEP + b + 1) & ((1 << 64) - 1)
        place = int(_slot(self._keys, np.uint64(rolled), len(gram)))
        return tuple(self._values[place].tolist()) if self._keys[place] else (0, 0, 0)


def _bytes(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    data = [t.encode("utf-8", "replace") for t in texts]
    offsets = np.zeros(len(data) + 1, np.int64)
    np.cumsum([len(d) for d in data], out=offsets[1:])
    return np.frombuffer(b"".join(data), np.uint8), offsets


@njit(cache=True, nogil=True)
def _slot(keys, rolled, n):  # type: ignore[no-untyped-def]
    """Where the n-gram is, or the free place where it would be."""
    key = mix64(rolled ^ (uint64(n) << uint64(56))) | uint64(1)
    mask = uint64(keys.shape[0] - 1)
    place = key & mask
    while keys[place] != uint64(0) and keys[place] != key:
        place = (place + uint64(1)) & mask
    return np.int64(place)


@njit(cache=True, nogil=True)
def _count(buf, offsets, order, keys, values):  # type: ignore[no-untyped-def]
    """``values``: times an n-gram, times a context, distinct bytes after it. False: the table is too small."""
    used, limit = 0, keys.shape[0] * 6 // 10
    for d in range(offsets.shape[0] - 1):
        for i in range(offsets[d], offsets[d + 1]):
            for n in range(min(order, i - offsets[d] + 1)):  # bytes of context
                rolled = uint64(0)
                for k in range(i - n, i):
                    rolled = rolled * uint64(0xFF51AFD7ED558CCD) + uint64(buf[k]) + uint64(1)
                here = _slot(keys, rolled, n)
                if keys[here] == uint64(0):
                    keys[here] = mix64(rolled ^ (uint64(n) << uint64(56))) | uint64(1)
                    used += 1
                values[here, 1] += 1
                grown = rolled * uint64(0xFF51AFD7ED558CCD) + uint64(buf[i]) + uint64(1)
                after = _slot(keys, grown, n + 1)
                if keys[after] == uint64(0):
                    keys[after] = mix64(grown ^ (uint64(n + 1) << uint64(56))) | uint64(1)
                    used += 1
                if values[after, 0] == 0:
                    values[here, 2] += 1
                values[after, 0] += 1
                if used >= limit:
                    return False
    return True


@njit(cache=True, nogil=True)
def _bits(buf, offsets, order, keys, values):  # type: ignore[no-untyped-def]
    total = 0.0
    for d in range(offsets.shape[0] - 1):
        for i in range(offsets[d], offsets[d + 1]):
            p = 1.0 / 256.0
            for n in range(min(order, i - offsets[d] + 1)):
                rolled = uint64(0)
                for k in range(i - n, i):
                    rolled = rolled * uint64(0xFF51AFD7ED558CCD) + uint64(buf[k]) + uint64(1)
                here = _slot(keys, rolled, n)
                if keys[here] == uint64(0) or values[here, 1] == 0:
                    break
                after = _slot(keys, rolled * uint64(0xFF51AFD7ED558CCD) + uint64(buf[i]) + uint64(1), n + 1)
                seen = values[after, 0] if keys[after] != uint64(0) else 0
                p = (seen + values[here, 2] * p) / (values[here, 1] + values[here, 2])
            total -= np.log2(p)
    return total
