"""Connected components of duplicate edges by union-find, the smallest number in a component naming it.

Belongs here: union-find over ranks, in memory or memory-mapped. Does not belong here: which edges there are
(``lsh.py``) and which member is first (``clusters.py``). The root of a component is always its smallest rank, so labels
are the same for any order of edges and any number of workers.
"""

from pathlib import Path
from types import TracebackType

import numpy as np
from numba import njit

IN_MEMORY = 1 << 28  # ranks; above this the array of parents is a file, paged by the kernel


class Components:
    """Union-find over ``n`` ranks.

    Args:
        n: how many there are.
        folder: where the array of parents goes when it is large; None keeps it in memory whatever its size.
        in_memory: ranks up to which memory is used.
    """

    def __init__(self, n: int, folder: Path | None = None, in_memory: int = IN_MEMORY) -> None:
        dtype = np.uint32 if n <= 1 << 32 else np.uint64
        self._path: Path | None = None
        if folder is not None and n > in_memory:
            self._path = folder / "parents"
            self._parents = np.memmap(self._path, dtype, "w+", shape=(n,)).view(np.ndarray)
        else:
            self._parents = np.empty(n, dtype)
        _fill(self._parents)

    def __enter__(self) -> "Components":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        del self._parents
        if self._path is not None:
            self._path.unlink()

    def join(self, one: np.ndarray, other: np.ndarray) -> None:
        """Join the ends of edges: two integer arrays of ranks."""
        _join(self._parents, one.astype(np.int64), other.astype(np.int64))

    def join_anchors(self, anchors: np.ndarray) -> None:
        """Join every rank i to ``anchors[i]`` (int64; itself where it stands alone)."""
        _join_anchors(self._parents, anchors)

    def labels(self) -> np.ndarray:
        """The smallest rank of each rank's component."""
        _flatten(self._parents)
        return self._parents


@njit(cache=True, nogil=True)
def _fill(parents):  # type: ignore[no-untyped-def]
    for i in range(parents.shape[0]):
        parents[i] = i


@njit(inline="always")
def _find(parents, x):  # type: ignore[no-untyped-def]
    while np.int64(parents[x]) != x:
        parents[x] = parents[parents[x]]  # path halving
        x = np.int64(parents[x])
    return x


@njit(inline="always")
def _unite(parents, a, b):  # type: ignore[no-untyped-def]
    a = _find(parents, a)
    b = _find(parents, b)
    if a < b:
        parents[b] = a
    elif b < a:
        parents[a] = b


@njit(cache=True, nogil=True)
def _join(parents, one, other):  # type: ignore[no-untyped-def]
    for i in range(one.shape[0]):
        _unite(parents, one[i], other[i])


@njit(cache=True, nogil=True)
def _join_anchors(parents, anchors):  # type: ignore[no-untyped-def]
    for i in range(anchors.shape[0]):
        if anchors[i] != i:
            _unite(parents, np.int64(i), np.int64(anchors[i]))


@njit(cache=True, nogil=True)
def _flatten(parents):  # type: ignore[no-untyped-def]
    # A parent is never larger than its child, so one ascending pass sees only finished parents.
    for i in range(parents.shape[0]):
        parents[i] = parents[parents[i]]
