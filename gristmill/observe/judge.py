"""Is a retention out of band: the judgement, from counts alone.

Belongs here: the crawl's verdict, then its buckets'; margins of sampling error. Does not belong here: bands
(``bands.py``), where counts and history come from (``measure.py``, ``history.py``).

A crawl is compared with the median of the last crawls (or, without any, with the baseline's range). A bucket is
compared with its crawl, shifted by how this bucket differed from its crawls before: hosts stay in their bucket, so a
bucket's habit is its own and a movement of the whole crawl is told once, not once a bucket.

Margins. Pages of a host stand and fall together, so a share on n pages varies more than a binomial one. Between
buckets (each host lies in one) the ratio estimator's variance is measured, ``sum((kept - r in)^2) B/(B-1) / n^2``
(Cochran 1977, Sampling Techniques, 6.3; buckets as clusters). For a bucket the error is the one it would have if each
host's pages stood or fell together (Kish 1965, Survey Sampling, 5.4 and 8.2; by bytes hosts weigh what their pages do),
times what share of that is seen: in how buckets strayed from their habits before, or in the crawl's other buckets. So a
bucket that one host fills is given more room than one of many. No margin is under the binomial one.

A crawl is looked at many times: every stage, by documents and by bytes, the crawl and each bucket. ``LEVEL`` is the
chance that an ordinary crawl is told of at all, shared out among all of them (Bonferroni). A t quantile at such a level
is beyond use where few buckets say what noise is; then Hoeffding's bound (1963, theorem 2), which needs no estimate of
it, is the margin: hosts move by themselves, and each by no more than all its pages.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gristmill.observe.bands import WIDTHS, Band
from gristmill.observe.measure import Count

LEVEL = 1e-3  # chance that an ordinary crawl is told of
FEW = 8  # degrees of freedom: at this level fewer would allow anything, and say so little that the width decides
FAMILY = 2 * len(WIDTHS)  # comparisons of a crawl, and of each bucket: stages, documents and bytes
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
    if _few(now, past):
        return Verdict(True, unit, value, basis="only a part of the crawl is made: its buckets are compared")
    if value is None or total.docs_in < min_docs:
        return Verdict(True, unit, value, basis=f"fewer than {min_docs} documents: not judged")
    past = [Past(p.crawl, {b: c for b, c in p.buckets.items() if b in now}) for p in past]  # now may be a part only
    before = [(p.total(), p) for p in past if p.total().docs_in >= min_docs and p.total().ratio(unit) is not None]
    level = _level(now, past)
    quantile = student(len(now) - 1, level)
    if before:
        ratios = [r for t, _ in before if (r := t.ratio(unit)) is not None]
        median = statistics.median(ratios)
        # Sampling error only; noise between crawls is what width is for. From the past alone once there is enough of
        # it: a fault that hits some buckets more than others must not widen the band that it is judged by.
        habits = _habits([p for _, p in before], min_docs, unit) if len(before) > 1 else {}
        excess = [(_error(p.buckets, unit, habits) / _binomial(t.ratio(unit) or 0.0, t.docs_in), p) for t, p in before]
        error = statistics.mean(e * e for e, _ in excess) ** 0.5 * _binomial(median, total.docs_in)
        if len(before) < 3:
            error = max(error, _error(now, unit, habits))
        else:
            quantile = student(sum(len(p.buckets) - 1 for _, p in excess), level)
        margin = min(quantile * error, _bound(now, unit, level)) * (1 + 1 / len(before)) ** 0.5
        low, high = median - band.width - margin, median + band.width + margin
        basis = f"median of the last {len(before)} crawls"
    elif band.low is not None and band.high is not None and unit == band.unit:
        median = (band.low + band.high) / 2
        margin = min(quantile * _error(now, unit, {}), _bound(now, unit, level))
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
    habits = _habits(past, min_docs, unit)
    strayed = np.array(_strayed(past, habits, min_docs, unit))
    if len(strayed) >= 2 * len(habits) > 0:  # three crawls or more
        if _few(now, past):  # not a crawl to compare with, so with those before
            crawl = statistics.median(r for p in past if (r := p.total().ratio(unit)) is not None)
        centre = {b: crawl + habits.get(b, 0.0) for b in enough}
        basis, freedom = f"this bucket's habit over the last {len(past)} crawls", len(strayed) - len(habits)
        noise = dict.fromkeys(enough, strayed)
    else:  # the middle one of the crawl's buckets; how far the others lie apart is the only measure of noise
        middle = statistics.median(r for c in enough.values() if (r := c.ratio(unit)) is not None)
        centre = dict.fromkeys(enough, middle)
        apart = {b: ((c.ratio(unit) or 0.0) - middle) / _together(middle, c, unit) for b, c in enough.items()}
        noise = {b: np.array([x for o, x in apart.items() if o != b] or [0.0]) for b in enough}
        basis, freedom = "median of this crawl's buckets", len(enough) - 1
    level = _level(now, past)
    quantile = min(student(freedom, level), MOST)
    for bucket, c in _widest(enough, past).items():
        value, middle = c.ratio(unit), max(centre[bucket], 0.0)
        assert value is not None
        # Hosts' sizes are a power law, so deviations have heavier tails than any t: the largest seen is ordinary too.
        seen = noise[bucket]
        errors = max(quantile * max(float(np.square(seen).mean()), 1.0 / _clump(c, unit)) ** 0.5,
                     min(SEEN * float(np.abs(seen).max()), MOST), LARGE_HOSTS if _clump(c, unit) > 1 else 0.0)
        reach = band.width + errors * _together(middle, c, unit)
        low = middle - reach
        if not value and _nothing(middle, c, unit) < NOTHING:
            low = max(low, math.nextafter(0.0, 1.0))  # nothing at all is no noise, however wide the margin
        out[bucket] = _verdict(value, unit, middle, low, 2.0 if band.one_sided else middle + reach, basis)
    return out


LARGE_HOSTS = 4.0  # errors of hosts that move as one: what the largest hosts of a bucket may do by themselves
SEEN = 2.0  # times the largest deviation seen is still ordinary
NOTHING = 0.01  # chance that all hosts of a bucket are dropped, each as if by itself: small ones always keep some
MOST = 5.0  # errors that are ordinary at most: a bucket that strayed far once must not hide what comes later


def _widest(now: Mapping[int, Count], past: Sequence[Past]) -> dict[int, Count]:
    """Buckets as clumped as ever they were: a large host that is gone moves a bucket as one that has come does."""
    out = {}
    for bucket, c in now.items():
        held = [c, *(p.buckets[bucket] for p in past if p.buckets.get(bucket, Count()).docs_in)]
        docs, by_bytes = (max(getattr(h, name) / h.docs_in for h in held) for name in ("clump", "clump_bytes"))
        out[bucket] = replace(c, clump=max(c.clump, min(docs, 1.0) * c.docs_in),
                              clump_bytes=max(c.clump_bytes, min(by_bytes, 1.0) * c.docs_in))
    return out


def _level(now: Mapping[int, Count], past: Sequence[Past]) -> float:
    """The level of one comparison; a run of a few buckets is judged as strictly as one of all."""
    return LEVEL / (FAMILY * (1 + max(len(now), *(len(p.buckets) for p in past), 0)))


def _bound(buckets: Mapping[int, Count], unit: Unit, level: float) -> float:
    """How far a crawl's share may lie from what is expected, whatever its hosts do, at a level (Hoeffding).

    No bound where it is not known how documents cluster: partitions by range, and of earlier releases.
    """
    whole = sum(_whole(c, unit) for c in buckets.values())
    if not all(c.clump_bytes for c in buckets.values()):
        return math.inf
    squares = sum((_whole(c, unit) / whole) ** 2 * _clump(c, unit) / c.docs_in for c in buckets.values() if c.docs_in)
    return float((math.log(2 / level) / 2 * squares) ** 0.5)


def _nothing(share: float, c: Count, unit: Unit) -> float:
    """Chance that none of a bucket's hosts keeps anything, were each as likely to as a page is."""
    return float((1 - min(share, 1.0)) ** (c.docs_in / _clump(c, unit)))


def _few(now: Mapping[int, Count], past: Sequence[Past]) -> bool:
    """Is less than half of a crawl made."""
    return len(now) < max((len(p.buckets) for p in past), default=0) / 2


def _habits(past: Sequence[Past], min_docs: int, unit: Unit) -> dict[int, float]:
    """How each bucket usually differs from its crawl."""
    apart: dict[int, list[float]] = {}
    for crawl in past:
        whole = crawl.total().ratio(unit)
        for bucket, c in crawl.buckets.items():
            value = c.ratio(unit)
            if whole is not None and value is not None and c.docs_in >= min_docs:
                apart.setdefault(bucket, []).append(value - whole)
    return {b: statistics.median(values) for b, values in apart.items()}


def _strayed(past: Sequence[Past], habits: Mapping[int, float], min_docs: int, unit: Unit) -> list[float]:
    """Deviations of past buckets from their habits, in binomial errors; larger by what a median of few hides."""
    if len(past) < 2:
        return []
    hidden = (len(past) / (len(past) - 1)) ** 0.5
    out = []
    for crawl in past:
        whole = crawl.total().ratio(unit)
        for bucket, c in crawl.buckets.items():
            value = c.ratio(unit)
            if whole is not None and value is not None and c.docs_in >= min_docs:
                out.append(hidden * (value - whole - habits[bucket]) / _together(whole, c, unit))
    return out


def _error(buckets: Mapping[int, Count], unit: Unit, habits: Mapping[int, float]) -> float:
    """Standard error of a crawl's retention: between buckets, beyond their habits; at least the binomial one."""
    total = sum(buckets.values(), Count())
    ratio = total.ratio(unit)
    if ratio is None:
        return 0.0
    binomial = _binomial(ratio, total.docs_in)
    n = len(buckets)
    if n < 2:
        return binomial
    strayed = [_kept(c, unit) - (ratio + habits.get(b, 0.0)) * _whole(c, unit) for b, c in buckets.items()]
    return max(binomial, float((np.square(strayed).sum() * n / (n - 1)) ** 0.5) / _whole(total, unit))


def _binomial(share: float, n: int) -> float:
    """Standard error of a share on n documents, shrunk from 0 and 1 (Agresti and Coull 1998)."""
    shrunk = (min(max(share, 0.0), 1.0) * n + 2) / (n + 4)  # plain text in another charset may come to more bytes
    return float((shrunk * (1 - shrunk) / n) ** 0.5)


def _together(share: float, c: Count, unit: Unit) -> float:
    """Standard error of a bucket's share if every host's pages stood or fell together (Kish's design effect)."""
    return _binomial(share, c.docs_in) * _clump(c, unit) ** 0.5


def _clump(c: Count, unit: Unit) -> float:
    return max(c.clump_bytes if unit == "bytes" and c.clump_bytes else c.clump, 1.0)


def _whole(c: Count, unit: Unit) -> int:
    return c.docs_in if unit == "docs" else c.bytes_in


def _kept(c: Count, unit: Unit) -> int:
    return c.docs_kept if unit == "docs" else c.bytes_kept


def _verdict(value: float, unit: Unit, median: float, low: float, high: float, basis: str) -> Verdict:
    low, high = max(low, 0.0), max(min(high, 1.0), median)
    direction = "down" if value < low else "up" if high < min(value, 1.0) else ""
    return Verdict(not direction, unit, value, median, low, high, direction, basis)


def student(freedom: int, level: float) -> float:
    """Two-sided quantile of Student's t, of ``FEW`` degrees of freedom at least."""
    from scipy.special import stdtrit

    return float(stdtrit(max(freedom, FEW), 1 - level / 2))
