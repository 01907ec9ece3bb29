"""Is a retention out of band: the judgement, from counts alone.

Belongs here: the crawl's verdict, then its buckets'; margins of sampling error. Does not belong here: bands
(``bands.py``), where counts and history come from (``measure.py``, ``history.py``).

A crawl is compared with the median of the last crawls (or, without any, with the baseline's range). A bucket is
compared with its crawl, shifted by how this bucket differed from its crawls before: hosts stay in their bucket, so a
bucket's habit is its own and a movement of the whole crawl is told once, not once a bucket.

Margins. Pages of a host stand and fall together, so a share on n pages varies more than a binomial one. Between buckets
(each host lies in one) the ratio estimator's variance is measured: ``sum((kept - r in)^2) B/(B-1) / n^2`` (Cochran 1977,
Sampling Techniques, 6.3; buckets as clusters). For a bucket the excess over the binomial is its dispersion, estimated
from how buckets strayed from their habits before. The margin is never under the binomial one. Student's t at a level
divided by the number of comparisons keeps the chance that an ordinary run of a stage is told under ``LEVEL``.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gristmill.observe.bands import Band
from gristmill.observe.measure import Count

LEVEL = 1e-3
Unit = str  # docs or bytes


@dataclass(frozen=True)
class Past:
    """A stage in an earlier crawl: bucket -> count."""

    crawl: str
    buckets: Mapping[int, Count]

    def total(self) -> Count:
        """Over all buckets."""
        return sum(self.buckets.values(), Count())


@dataclass(frozen=True)
class Verdict:
    """One comparison. ``low`` and ``high`` bound what passes; ``median`` is what it was compared with."""

    passed: bool
    unit: Unit
    retention: float | None
    median: float | None = None
    low: float | None = None
    high: float | None = None
    direction: str = ""  # down or up when not passed
    basis: str = ""


@dataclass(frozen=True)
class Judged:
    """A stage of a crawl: the crawl's verdicts (documents, bytes) and each bucket's."""

    crawl: tuple[Verdict, ...]
    buckets: Mapping[int, tuple[Verdict, ...]] = field(default_factory=dict)

    @property
    def worst(self) -> Verdict | None:
        """The crawl's first verdict that did not pass."""
        return next((v for v in self.crawl if not v.passed), None)


def judge(now: Mapping[int, Count], past: Sequence[Past], band: Band, min_docs: int) -> Judged:
    """Judge a stage of a crawl.

    Args:
        now: bucket -> count of this crawl; buckets that have not been made are absent.
        past: comparable earlier crawls, oldest first.
        band: the stage's.
        min_docs: crawls and buckets with fewer documents in are not judged.
    """
    units = [u for u in ("docs", "bytes") if u == "docs" or _whole(sum(now.values(), Count()), u)]
    crawl = {u: _crawl(now, past, band, min_docs, u) for u in units}
    buckets: dict[int, tuple[Verdict, ...]] = {}
    per_unit = {u: _buckets(now, past, band, min_docs, u) for u in units}
    for bucket in now:
        buckets[bucket] = tuple(per_unit[u][bucket] for u in units)
    return Judged(tuple(crawl.values()), buckets)


def _crawl(now: Mapping[int, Count], past: Sequence[Past], band: Band, min_docs: int, unit: Unit) -> Verdict:
    total = sum(now.values(), Count())
    value = total.ratio(unit)
    if value is None or total.docs_in < min_docs:
        return Verdict(True, unit, value, basis=f"fewer than {min_docs} documents: not judged")
    before = [(p.total(), p) for p in past if p.total().docs_in >= min_docs and p.total().ratio(unit) is not None]
    quantile = student(len(now) - 1, 2)
    if before:
        ratios = [r for t, _ in before if (r := t.ratio(unit)) is not None]
        median = statistics.median(ratios)
        # Sampling error of this crawl and of the crawls it is compared with; noise between crawls is what width is for.
        error = max(_error(now, unit), statistics.median(_error(p.buckets, unit) for _, p in before))
        margin = quantile * error * (1 + 1 / len(before)) ** 0.5
        low, high = median - band.width - margin, median + band.width + margin
        basis = f"median of the last {len(before)} crawls"
    elif band.low is not None and band.high is not None and unit == "docs":
        median = (band.low + band.high) / 2
        margin = quantile * _error(now, unit)
        low, high = band.low - band.width - margin, band.high + band.width + margin
        basis = "the baseline's range"
    else:
        return Verdict(True, unit, value, basis="no earlier crawl and no baseline: its buckets are compared")
    return _verdict(value, unit, median, low, 2.0 if band.one_sided else high, basis)


def _buckets(now: Mapping[int, Count], past: Sequence[Past], band: Band, min_docs: int, unit: Unit
             ) -> dict[int, Verdict]:
    crawl = sum(now.values(), Count()).ratio(unit)
    enough = {b: c for b, c in now.items() if c.docs_in >= min_docs and c.ratio(unit) is not None}
    out = {b: Verdict(True, unit, c.ratio(unit), basis=f"fewer than {min_docs} documents: not judged")
           for b, c in now.items() if b not in enough}
    if crawl is None or not enough:
        return out
    habits, residuals = _habits(past, min_docs, unit)
    if habits and len(residuals) >= 2 * len(habits):  # three crawls or more
        dispersion, freedom = _spread(residuals), len(residuals) - len(habits)
        centre = {b: crawl + habits.get(b, statistics.median(habits.values())) for b in enough}
        basis = f"this bucket's habit over the last {len(past)} crawls"
    else:  # the middle one of the crawl's buckets; how far they lie apart is the only measure of noise
        middle = statistics.median(r for c in enough.values() if (r := c.ratio(unit)) is not None)
        centre = dict.fromkeys(enough, middle)
        residuals = [(c.ratio(unit) or 0.0) - middle for c in enough.values()]
        residuals = [r / _binomial(middle, c.docs_in) for r, c in zip(residuals, enough.values(), strict=True)]
        dispersion, freedom = statistics.median(r * r for r in residuals) / CHI2_MEDIAN, len(enough) - 1
        basis = "median of this crawl's buckets"
    quantile = student(freedom, 2 * len(enough))
    for bucket, c in enough.items():
        value, middle = c.ratio(unit), min(max(centre[bucket], 0.0), 1.0)
        assert value is not None
        margin = quantile * max(dispersion, 1.0) ** 0.5 * _binomial(middle, c.docs_in)
        reach = band.width + margin
        out[bucket] = _verdict(value, unit, middle, middle - reach, 2.0 if band.one_sided else middle + reach, basis)
    return out


CHI2_MEDIAN = 0.4549  # of one degree of freedom: a median of squares is this much of their mean


def _habits(past: Sequence[Past], min_docs: int, unit: Unit) -> tuple[dict[int, float], list[float]]:
    """How each bucket usually differs from its crawl, and every deviation from that in binomial errors."""
    apart: dict[int, list[tuple[float, float]]] = {}
    for crawl in past:
        whole = crawl.total().ratio(unit)
        if whole is None:
            continue
        for bucket, c in crawl.buckets.items():
            value = c.ratio(unit)
            if value is not None and c.docs_in >= min_docs:
                apart.setdefault(bucket, []).append((value - whole, _binomial(whole, c.docs_in)))
    habits = {b: statistics.median(d for d, _ in values) for b, values in apart.items()}
    return habits, [(d - habits[b]) / error for b, values in apart.items() if len(values) > 1 for d, error in values]


def _spread(residuals: Sequence[float]) -> float:
    """Dispersion over the binomial: the mean square, its largest hundredth cut to the rest so that one fault of the
    past does not hide the next. Deviations from a median of few are too small by about C/(C-1), at most 1.5."""
    squares = np.sort(np.square(np.asarray(residuals)))
    cut = squares[: max(1, int(np.ceil(0.99 * len(squares))))]
    return 1.5 * float(np.minimum(squares, cut[-1]).mean())


def _error(buckets: Mapping[int, Count], unit: Unit) -> float:
    """Standard error of a crawl's retention: between buckets, at least the binomial one."""
    total = sum(buckets.values(), Count())
    ratio = total.ratio(unit)
    if ratio is None:
        return 0.0
    binomial = _binomial(ratio, total.docs_in)
    n = len(buckets)
    if n < 2:
        return binomial
    whole = _whole(total, unit)
    square = sum((_kept(c, unit) - ratio * _whole(c, unit)) ** 2 for c in buckets.values())
    return max(binomial, (square * n / (n - 1)) ** 0.5 / whole)


def _binomial(share: float, n: int) -> float:
    """Standard error of a share on n documents, shrunk from 0 and 1 (Agresti and Coull 1998)."""
    shrunk = (share * n + 2) / (n + 4)
    return float((shrunk * (1 - shrunk) / n) ** 0.5)


def _whole(c: Count, unit: Unit) -> int:
    return c.docs_in if unit == "docs" else c.bytes_in


def _kept(c: Count, unit: Unit) -> int:
    return c.docs_kept if unit == "docs" else c.bytes_kept


def _verdict(value: float, unit: Unit, median: float, low: float, high: float, basis: str) -> Verdict:
    low, high = max(low, 0.0), min(high, 1.0)
    direction = "down" if value < low else "up" if value > high else ""
    return Verdict(not direction, unit, value, median, low, high, direction, basis)


def student(freedom: int, comparisons: int) -> float:
    """Two-sided quantile of Student's t at ``LEVEL`` over the number of comparisons."""
    from scipy.special import stdtrit

    return float(stdtrit(max(freedom, 1), 1 - LEVEL / max(comparisons, 1) / 2))
