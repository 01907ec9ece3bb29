"""Gradient boosting for small problems: logistic or squared loss, depth-wise trees over binned columns, in Numba.

Belongs here: the trainer whose trees ``gristmill/extract/forest.py`` evaluates (Friedman 2001, with the second-order
gains of Chen and Guestrin 2016). Rows and columns are sampled by a seed, so the same rows give the same trees. Does not
belong here: what is learnt.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from gristmill.extract.forest import Forest

BINS = 64


@dataclass(frozen=True)
class Settings:
    """How to grow. ``loss`` is logistic or squared."""

    trees: int = 100
    depth: int = 5
    rate: float = 0.1
    ridge: float = 5.0
    min_weight: float = 5.0
    row_share: float = 0.6
    column_share: float = 0.35
    loss: str = "logistic"
    seed: int = 1


def mean(forests: list[Forest]) -> Forest:
    """One forest whose raw value is the mean of theirs."""
    shift = np.cumsum([0, *(len(f.column) for f in forests)])
    leaf = [np.where(f.column < 0, f.threshold / len(forests), f.threshold) for f in forests]
    return Forest(
        np.concatenate([f.roots + s for f, s in zip(forests, shift, strict=False)]).astype(np.int32),
        np.concatenate([f.column for f in forests]), np.concatenate(leaf).astype(np.float32),
        np.concatenate([f.left + s for f, s in zip(forests, shift, strict=False)]).astype(np.int32),
        np.concatenate([f.right + s for f, s in zip(forests, shift, strict=False)]).astype(np.int32),
        float(np.mean([f.base for f in forests])))


def train(rows: np.ndarray, target: np.ndarray, weight: np.ndarray, settings: Settings) -> Forest:
    """Fit a forest to float32[n, columns], targets in [0, 1] (or any, for squared loss) and weights."""
    rng = np.random.default_rng(settings.seed)
    n, columns = rows.shape
    edges = [_edges(rows[:, c]) for c in range(columns)]
    usable = np.array([c for c in range(columns) if len(edges[c])], np.int64)
    bins = np.empty((columns, n), np.uint8)
    for c in range(columns):
        bins[c] = np.searchsorted(edges[c], rows[:, c], side="left")  # bin b: edges[b-1] < x <= edges[b]
    weight = weight / weight.mean()
    logistic = settings.loss == "logistic"
    mean = float(np.average(target, weights=weight))
    base = float(np.log(mean / (1 - mean))) if logistic else mean
    score = np.full(n, base)
    nodes: list[tuple[int, float, int, int]] = []
    roots = []
    width = max(1, int(len(usable) * settings.column_share))
    for _ in range(settings.trees):
        if logistic:
            p = 1 / (1 + np.exp(-score))
            gradient, curvature = (p - target) * weight, np.maximum(p * (1 - p), 1e-6) * weight
        else:
            gradient, curvature = (score - target) * weight, weight.copy()
        chosen = np.sort(rng.permutation(n)[: int(n * settings.row_share)]).astype(np.int64)
        picked = np.sort(rng.permutation(usable)[:width])
        split, cut, value = _grow(
            bins, chosen, picked, gradient, curvature, settings.depth, settings.ridge, settings.min_weight
        )
        value *= settings.rate
        score += value[_leaves(bins, split, cut)]
        roots.append(len(nodes))
        _store(0, split, cut, value, edges, nodes)
    return Forest(
        np.array(roots, np.int32),
        np.array([x[0] for x in nodes], np.int16),
        np.array([x[1] for x in nodes], np.float32),
        np.array([x[2] for x in nodes], np.int32),
        np.array([x[3] for x in nodes], np.int32),
        base,
    )


def _edges(column: np.ndarray) -> np.ndarray:
    values = np.unique(column)
    if len(values) > BINS:
        values = np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1], method="lower").astype(np.float32))
        return values
    return values[:-1].astype(np.float32)


def _store(
    node: int,
    split: np.ndarray,
    cut: np.ndarray,
    value: np.ndarray,
    edges: list[np.ndarray],
    out: list[tuple[int, float, int, int]],
) -> int:
    """Append a subtree; heap numbering in, list numbering out."""
    own = len(out)
    if node >= len(split) or split[node] < 0:
        out.append((-1, float(value[node]), 0, 0))
        return own
    out.append((int(split[node]), float(edges[split[node]][cut[node]]), 0, 0))
    left = _store(2 * node + 1, split, cut, value, edges, out)
    right = _store(2 * node + 2, split, cut, value, edges, out)
    out[own] = (out[own][0], out[own][1], left, right)
    return own


@njit(cache=True, nogil=True)
def _grow(bins, rows, columns, gradient, curvature, depth, ridge, min_weight):  # type: ignore[no-untyped-def]
    """One tree in heap order: (column of each inner node or -1, its last left bin, value of every node)."""
    inner = (1 << depth) - 1
    total = (1 << (depth + 1)) - 1
    split = np.full(inner, -1, np.int64)
    cut = np.zeros(inner, np.int64)
    value = np.zeros(total, np.float64)
    g_sum = np.zeros(total, np.float64)
    h_sum = np.zeros(total, np.float64)
    place = np.zeros(len(rows), np.int64)
    for i in range(len(rows)):
        g_sum[0] += gradient[rows[i]]
        h_sum[0] += curvature[rows[i]]
    value[0] = -g_sum[0] / (h_sum[0] + ridge)
    for level in range(depth):
        first = (1 << level) - 1
        width = 1 << level
        gain = np.zeros(width, np.float64)
        hist = np.zeros((width, 64, 2), np.float64)
        for c in columns:
            hist[:] = 0.0
            column = bins[c]
            for i in range(len(rows)):
                node = place[i] - first
                if node >= 0:
                    r = rows[i]
                    hist[node, column[r], 0] += gradient[r]
                    hist[node, column[r], 1] += curvature[r]
            for node in range(width):
                at = first + node
                if h_sum[at] < 2 * min_weight:
                    continue
                parent = g_sum[at] * g_sum[at] / (h_sum[at] + ridge)
                g = 0.0
                h = 0.0
                for b in range(63):
                    g += hist[node, b, 0]
                    h += hist[node, b, 1]
                    if h < min_weight:
                        continue
                    rest = h_sum[at] - h
                    if rest < min_weight:
                        break
                    better = g * g / (h + ridge) + (g_sum[at] - g) ** 2 / (rest + ridge) - parent
                    if better > gain[node] + 1e-9:
                        gain[node] = better
                        split[at] = c
                        cut[at] = b
        for i in range(len(rows)):
            at = place[i]
            if at < first or split[at] < 0:
                continue
            r = rows[i]
            at = 2 * at + (1 if bins[split[at], r] <= cut[at] else 2)
            place[i] = at
            g_sum[at] += gradient[r]
            h_sum[at] += curvature[r]
        for at in range(2 * first + 1, 2 * (first + width) + 1):
            value[at] = -g_sum[at] / (h_sum[at] + ridge)
    return split, cut, value


@njit(cache=True, nogil=True)
def _leaves(bins, split, cut):  # type: ignore[no-untyped-def]
    """The node that every row ends in."""
    n = bins.shape[1]
    out = np.zeros(n, np.int64)
    for i in range(n):
        at = 0
        while at < len(split) and split[at] >= 0:
            at = 2 * at + (1 if bins[split[at], i] <= cut[at] else 2)
        out[i] = at
    return out
