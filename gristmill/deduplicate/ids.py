"""16-byte ids as pairs of uint64, for sorting and joining without Python objects.

Belongs here: conversion, order, look-up, distinct ids. Does not belong here: what an id means (``normalise.py``).
Pairs are big-endian halves, so the order of pairs is the byte order of ids.
"""

import numpy as np
import pyarrow as pa
from numba import njit


def pairs(ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """uint64[n, 2] of a binary(16) column.

    Raises:
        ValueError: for a null id: rows without an id were never counted, and must not vanish in a join.
    """
    array = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if array.null_count:
        raise ValueError(f"{array.null_count} of {len(array)} ids are null")
    n = len(array)
    if n == 0:
        return np.zeros((0, 2), np.uint64)
    raw = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 16 : (array.offset + n) * 16]
    return np.ascontiguousarray(raw).view(">u8").astype(np.uint64).reshape(n, 2)


def to_array(values: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """A binary(16) column of uint64[n, 2]; null where ``valid`` (bool[n]) is false."""
    n = len(values)
    data = pa.py_buffer(np.ascontiguousarray(values).astype(">u8").tobytes())
    if valid is None:
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), n, [None, data])
    mask = pa.py_buffer(np.packbits(np.asarray(valid, bool), bitorder="little").tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), n, [mask, data])


def argsort(values: np.ndarray) -> np.ndarray:
    """Stable order of ids, int64[n]."""
    order = np.argsort(values[:, 0], kind="stable")
    high = values[order, 0]
    if len(high) > 1 and bool((high[1:] == high[:-1]).any()):
        order = np.lexsort((values[:, 1], values[:, 0]))
    return order


def unique(values: np.ndarray) -> np.ndarray:
    """Distinct ids in order."""
    if len(values) == 0:
        return values
    ordered = values[argsort(values)]
    keep = np.ones(len(ordered), bool)
    keep[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.ascontiguousarray(ordered[keep])


def starts_of_groups(ordered: np.ndarray) -> np.ndarray:
    """Where each run of equal ids begins, int64, for ids in order."""
    if len(ordered) == 0:
        return np.zeros(0, np.int64)
    new = np.ones(len(ordered), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.flatnonzero(new)


def find(ordered: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Position in ``ordered`` (distinct ids, in order) of each query, or -1. int64[len(queries)]."""
    out = np.full(len(queries), -1, np.int64)
    if len(ordered) and len(queries):
        _find(ordered, queries, out)
    return out


@njit(cache=True, nogil=True)
def _find(ordered, queries, out):  # type: ignore[no-untyped-def]
    for i in range(queries.shape[0]):
        a, b = queries[i, 0], queries[i, 1]
        low, high = 0, ordered.shape[0]
        while low < high:
            middle = (low + high) >> 1
            if ordered[middle, 0] < a or (ordered[middle, 0] == a and ordered[middle, 1] < b):
                low = middle + 1
            else:
                high = middle
        if low < ordered.shape[0] and ordered[low, 0] == a and ordered[low, 1] == b:
            out[i] = low
