"""Gradient-boosted trees as plain arrays: reading them from JSON and evaluating them.

Belongs here: the format and the kernel. Does not belong here: training (``bench/train_two_pass.py``) and what the
columns mean (``measures.py``).
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit


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

    def raw(self, rows: np.ndarray) -> np.ndarray:
        """Sum of leaves for each row of float32[n, columns]: float64[n]."""
        out = np.full(len(rows), self.base, np.float64)
        if len(rows):
            _evaluate(rows, self.roots, self.column, self.threshold, self.left, self.right, out)
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
def _evaluate(rows, roots, column, threshold, left, right, out):  # type: ignore[no-untyped-def]
    """Add to ``out`` the leaf of every tree, in the order of trees: the same order, the same sum."""
    for i in range(len(rows)):
        for t in range(len(roots)):
            node = roots[t]
            while column[node] >= 0:
                if rows[i, column[node]] <= threshold[node]:
                    node = left[node]
                else:
                    node = right[node]
            out[i] += threshold[node]
