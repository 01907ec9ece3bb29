"""Histograms of scores, and how far one lies from another.

Belongs here: binning, Jensen-Shannon divergence, population stability index, and the noise floor under which neither
means anything. Does not belong here: whose scores (``crawl_report.py``), and what happens then (the checks).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BINS = 50
LOG_TOP = 6.0  # decades above 1 that unbounded scores (perplexities) are binned over


def histogram(values: np.ndarray, *, bounded: bool = True) -> list[int]:
    """Counts in ``BINS`` equal bins: of [0, 1], or of the logarithm of values from 1 to a million. NaN is not counted.

    Args:
        values: any float array.
        bounded: scores in [0, 1]; else positive ones without an upper bound.
    """
    v = np.asarray(values, np.float64)
    v = v[~np.isnan(v)]
    if not bounded:
        v = np.log10(np.maximum(v, 1.0)) / LOG_TOP
    at = np.minimum((np.clip(v, 0.0, 1.0) * BINS).astype(np.int64), BINS - 1)
    return [int(n) for n in np.bincount(at, minlength=BINS)]


def jensen_shannon(a: Sequence[int], b: Sequence[int]) -> float:
    """Divergence in bits, 0 (the same) to 1 (disjoint), of two histograms (Lin 1991). 0 where one is empty."""
    p, q = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not p.sum() or not q.sum():
        return 0.0
    p, q = p / p.sum(), q / q.sum()
    middle = (p + q) / 2
    return float(max((_kullback(p, middle) + _kullback(q, middle)) / 2, 0.0))


def _kullback(p: np.ndarray, q: np.ndarray) -> float:
    some = p > 0
    return float((p[some] * np.log2(p[some] / q[some])).sum())


def stability(now: Sequence[int], before: Sequence[int]) -> float:
    """Population stability index over the old histogram's deciles: under 0.1 stable, over 0.25 another population.

    Half a document stands in for an empty bin.
    """
    p, q = np.asarray(now, np.float64), np.asarray(before, np.float64)
    if not p.sum() or not q.sum():
        return 0.0
    tenth = np.minimum(((np.cumsum(q) - q / 2) / q.sum() * 10).astype(np.int64), 9)
    new, old = np.bincount(tenth, p, 10), np.bincount(tenth, q, 10)
    used = (new + old) > 0
    new, old = np.maximum(new[used], 0.5), np.maximum(old[used], 0.5)
    new, old = new / new.sum(), old / old.sum()
    return float(((new - old) * np.log(new / old)).sum())


def noise(n: float, m: float, bins: int = BINS) -> float:
    """Divergence in bits that two samples of one distribution show by chance, at its 3-sigma upper end.

    For small differences JS x 8 ln 2 / (1/n + 1/m) is a chi-square of bins - 1 degrees (second order of the logarithm).

    Args:
        n, m: independent documents in each: documents over the mean number that share a host.
        bins: occupied bins.
    """
    if n <= 0 or m <= 0:
        return 1.0
    freedom = max(bins - 1, 1)
    mean = freedom * (1 / n + 1 / m) / (8 * math.log(2))
    return min(mean * (1 + 3 * math.sqrt(2 / freedom)), 1.0)


@dataclass(frozen=True)
class Drift:
    """A crawl's scores against the last crawls'. Nothing to compare with: ``crawls`` is 0."""

    divergence: float  # Jensen-Shannon, bits
    index: float  # population stability index
    allowed: float  # divergence under this is ordinary
    crawls: int

    @property
    def passed(self) -> bool:
        """Is it ordinary."""
        return self.crawls == 0 or self.divergence <= self.allowed


def drift(now: Sequence[int], past: Sequence[Sequence[int]], floor: float, clump: float = 1.0) -> Drift:
    """Compare a histogram with the sum of the last crawls'.

    Args:
        now: today's counts.
        past: earlier crawls', oldest first.
        floor: divergence in bits that never counts.
        clump: documents that share a document's host, on average: they are not independent.
    """
    held = [h for h in past if sum(h)]
    if not held or not sum(now):
        return Drift(0.0, 0.0, floor, 0)
    pooled = np.sum(np.asarray(held), axis=0)
    # How far the last crawls lie from each other is ordinary too.
    among = [jensen_shannon(h, pooled - np.asarray(h)) for h in held] if len(held) > 1 else []
    occupied = int(np.count_nonzero(pooled + np.asarray(now)))
    chance = noise(sum(now) / max(clump, 1.0), float(pooled.sum()) / max(clump, 1.0), occupied)
    allowed = max(floor, chance, 2 * max(among, default=0.0))
    return Drift(jensen_shannon(now, pooled.tolist()), stability(now, pooled.tolist()), allowed, len(held))
