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
from llvmlite import ir
from numba import njit, types, uint32
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

LANES = 32  # rows that go through a tree together, in vectors
MAX_DEPTH = 5  # a tree's leaves are bits of 32
_EVERY = np.uint32(0xFFFFFFFF)
# The place of the lowest set bit, found by multiplication (de Bruijn's sequence).
_BRUIJN = 0x077CB531
_PLACE = np.array([((_BRUIJN << k) & 0xFFFFFFFF) >> 27 for k in range(32)])


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
    def _trees(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """First node of each tree, columns (times ``LANES``), bounds and masks of nodes, leaves of trees.

        After R. Ye and others, "RapidScorer", 2018, and C. Lucchese and others, "QuickScorer", 2015: every leaf is a
        bit, from left to right; a node that sends a row right clears the leaves on its left; the row's leaf is the
        lowest bit that is left. No step depends on the one before.

        Raises:
            ValueError: a tree is deeper than ``MAX_DEPTH``.
        """
        firsts, columns, bounds, masks = [0], [], [], []
        leaves = np.zeros((len(self.roots), 32), np.float32)
        for number, root in enumerate(self.roots.tolist()):
            todo = [(root, 0, 32)]  # a node, and the leaves that are its
            while todo:
                node, low, high = todo.pop()
                if self.column[node] < 0:
                    leaves[number, _PLACE[low:high]] = self.threshold[node]
                    continue
                middle = (low + high) // 2
                if middle == low:
                    raise ValueError(f"a tree is deeper than {MAX_DEPTH}")
                columns.append(int(self.column[node]) * LANES)
                bounds.append(self.threshold[node])
                masks.append(0xFFFFFFFF & ~((1 << middle) - (1 << low)))
                todo += [(int(self.right[node]), middle, high), (int(self.left[node]), low, middle)]
            firsts.append(len(columns))
        return (np.array(firsts, np.int64), np.array(columns, np.int64), np.array(bounds, np.float32),
                np.array(masks, np.uint32), leaves)

    def raw(self, rows: np.ndarray) -> np.ndarray:
        """Sum of leaves for each row of float32[n, columns]: float64[n]."""
        out = np.full(len(rows), self.base, np.float64)
        if len(rows):
            _evaluate(np.ascontiguousarray(rows), *self._trees, out)
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


@intrinsic
def _narrow(_, left, values, first, bound, mask):  # type: ignore[no-untyped-def]
    """``left[k] &= mask`` for each of ``LANES`` lanes, but where ``values[first + k] <= bound``.

    As vectors of LLVM, which become the widest that the processor has: of the same loop it makes none, since it cannot
    know that the arrays are two.
    """

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        whole, real, lanes = ir.IntType(32), ir.FloatType(), ir.VectorType(ir.IntType(32), LANES)

        def pointer(number, kind):  # type: ignore[no-untyped-def]
            data = make_array(signature.args[number])(context, builder, args[number]).data
            at = builder.gep(data, [args[2]]) if number == 1 else data
            return builder.bitcast(at, ir.VectorType(kind, LANES).as_pointer())

        def everywhere(value, kind):  # type: ignore[no-untyped-def]
            empty = ir.Constant(ir.VectorType(kind, LANES), ir.Undefined)
            one = builder.insert_element(empty, value, ir.Constant(whole, 0))
            return builder.shuffle_vector(one, empty, ir.Constant(lanes, [0] * LANES))

        hit = builder.fcmp_ordered("<=", builder.load(pointer(1, real), align=4), everywhere(args[3], real))
        kept = builder.select(hit, ir.Constant(lanes, [0xFFFFFFFF] * LANES), everywhere(args[4], whole))
        place = pointer(0, whole)
        builder.store(builder.and_(builder.load(place, align=4), kept), place, align=4)
        return context.get_dummy_value()

    return types.void(left, values, types.intp, types.float32, types.uint32), code


@njit(cache=True, nogil=True)
def _evaluate(rows, firsts, columns, bounds, masks, leaves, out):  # type: ignore[no-untyped-def]
    """Add to ``out`` the leaf of every tree, in the order of trees: the same order, the same sum."""
    n, width = rows.shape
    values = np.zeros(width * LANES, np.float32)  # of some rows, column by column
    left = np.empty(LANES, np.uint32)
    for begin in range(0, n, LANES):
        many = min(LANES, n - begin)
        for k in range(many):
            for column in range(width):
                values[column * LANES + k] = rows[begin + k, column]
        for t in range(len(leaves)):
            left[:] = _EVERY
            for node in range(firsts[t], firsts[t + 1]):
                _narrow(left, values, columns[node], bounds[node], masks[node])  # type: ignore[call-arg]
            for k in range(many):
                lowest = left[k] & (~left[k] + uint32(1))
                out[begin + k] += leaves[t, uint32(lowest * uint32(_BRUIJN)) >> uint32(27)]
