"""Gradient-boosted trees as plain arrays: reading them from JSON and evaluating them.

Belongs here: the format and the kernel. Does not belong here: training (``bench/train_two_pass.py``) and what the
columns mean (``measures.py``).
"""

import base64
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

ROWS = 32


@dataclass(frozen=True)
class Forest:
    """Trees, all nodes in one array; a row goes left where its value is at most the threshold.

    Attributes:
        roots: int32, first node of each tree.
        column: int16, of a node; -1 makes it a leaf.
        threshold: float32, of a node; of a leaf its value.
        left, right: int32, nodes.
        base: added to the sum of leaves.
    """

    roots: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    base: float

    @cached_property
    def _trees(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Columns, bounds and leaves of complete trees, and their depth."""
        depth, level = 0, self.roots
        while True:
            level = level[self.column[level] >= 0]
            if not len(level):
                break
            level = np.concatenate([self.left[level], self.right[level]])
            depth += 1
        inner = (1 << depth) - 1
        columns = np.zeros((len(self.roots), inner), np.int16)
        bounds = np.zeros((len(self.roots), inner), np.float32)
        leaves = np.empty((len(self.roots), inner + 1), np.float32)
        _complete(self.roots, self.column, self.threshold, self.left, self.right, depth, columns, bounds, leaves)
        return columns, bounds, leaves, depth

    def raw(self, rows: np.ndarray) -> np.ndarray:
        """Sum of leaves for each row of float32[n, columns]: float64[n]."""
        out = np.full(len(rows), self.base, np.float64)
        if len(rows):
            _evaluate(rows, *self._trees, out)
        return out

    def probability(self, rows: np.ndarray) -> np.ndarray:
        """Logistic of ``raw``."""
        out: np.ndarray = 1.0 / (1.0 + np.exp(-self.raw(rows)))
        return out

    def to_json(self) -> dict[str, Any]:
        """For ``from_json``; arrays are little-endian bytes in base 64."""
        return {"base": self.base, **{
            n: base64.b64encode(getattr(self, n).astype(t).tobytes()).decode("ascii") for n, t in _TYPES.items()}}


_TYPES = {"roots": "<i4", "column": "<i2", "threshold": "<f4", "left": "<i4", "right": "<i4"}


def from_json(data: dict[str, Any]) -> Forest:
    """A forest of a weights file."""
    arrays = {n: np.frombuffer(base64.b64decode(data[n]), np.dtype(t)) for n, t in _TYPES.items()}
    return Forest(**arrays, base=float(data["base"]))


def read(path: Path) -> dict[str, Any]:
    """A weights file: forests and numbers by name."""
    raw = json.loads(path.read_text("utf-8"))
    return {k: from_json(v) if isinstance(v, dict) and "roots" in v else v for k, v in raw.items()}


@njit(cache=True, nogil=True)
def _complete(roots, column, threshold, left, right, depth, columns, bounds, leaves):  # type: ignore[no-untyped-def]
    """Write trees as complete ones of a depth: children of node k are 2k+1 and 2k+2; a leaf is repeated below."""
    inner = (1 << depth) - 1
    at = np.empty(2 * inner + 1, np.int32)
    for t in range(len(roots)):
        at[0] = roots[t]
        for k in range(inner):
            node = at[k]
            if column[node] >= 0:
                columns[t, k], bounds[t, k] = column[node], threshold[node]
                at[2 * k + 1], at[2 * k + 2] = left[node], right[node]
            else:
                at[2 * k + 1] = at[2 * k + 2] = node
        for k in range(inner + 1):
            leaves[t, k] = threshold[at[inner + k]]


@njit(cache=True, nogil=True)
def _evaluate(rows, columns, bounds, leaves, depth, out):  # type: ignore[no-untyped-def]
    """Add to ``out`` the leaf of every tree, in the order of trees: the same order, the same sum.

    Some rows at a time, so that they and a tree stay in the cache; a step down is arithmetic and no jump.
    """
    inner = columns.shape[1]
    for begin in range(0, len(rows), ROWS):
        end = min(begin + ROWS, len(rows))
        for t in range(len(columns)):
            for i in range(begin, end):
                k = np.int64(0)
                for _ in range(depth):
                    k = 2 * k + 2 - np.int64(rows[i, columns[t, k]] <= bounds[t, k])
                out[i] += leaves[t, k - inner]
