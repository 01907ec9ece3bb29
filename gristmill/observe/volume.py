"""How much came in: a lost bucket, a flooded one, half a crawl.

Belongs here: judging numbers of documents against the last crawls' or the crawl's other buckets. Does not belong here:
what was kept of them (``judge.py``). Sizes of hosts are a power law, so everything is compared in logarithms.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gristmill.observe.judge import LEVEL, student

STAGES = 2  # whose volume is judged: a crawl's chance of a false alarm is shared out among them and their buckets


@dataclass(frozen=True)
class Volume:
    """A number against what was expected; ``low`` and ``high`` bound what passes."""

    passed: bool
    documents: int
    expected: float | None
    low: float | None = None
    high: float | None = None
    direction: str = ""  # fewer or more
    basis: str = ""


def crawl_volume(now: int, past: Sequence[int], factor: float, min_docs: int) -> Volume:
    """A crawl's number against the median of the last crawls: within ``factor`` of it."""
    if not past or statistics.median(past) < min_docs:
        return Volume(True, now, None, basis="no earlier crawl of its size")
    middle = statistics.median(past)
    return _within(now, middle, math.log(factor), f"median of the last {len(past)} crawls")


def bucket_volumes(now: Mapping[int, int], past: Sequence[Mapping[int, int]], factor: float, min_docs: int
                   ) -> dict[int, Volume]:
    """Each bucket's number against its usual share of the crawl, or against the crawl's middle bucket.

    Args:
        now: bucket -> documents; buckets that were not made are absent, and the others' shares are of what was.
        past: the same of earlier crawls, oldest first.
        factor: always allowed, beside what the noise of buckets says.
        min_docs: a bucket that should have fewer is not judged.
    """
    held = [p for p in past if sum(p.get(b, 0) for b in now) > 0]
    if held:
        shares = [{b: p.get(b, 0) / sum(p.get(o, 0) for o in now) for b in now} for p in held]
        usual = {b: statistics.median(s[b] for s in shares) for b in now}
        # A flooded bucket must not make the others look small: the middle bucket says how large the crawl is.
        size = statistics.median([n / usual[b] for b, n in now.items() if usual[b] > 0] or [0.0])
        expected = {b: size * usual[b] for b in now}
        basis = f"its share of the last {len(held)} crawls"
    else:
        expected = dict.fromkeys(now, float(statistics.median(now.values()))) if now else {}
        basis = "the crawl's middle bucket"
    strayed = {b: _log(n, expected[b]) for b, n in now.items() if expected[b] >= min_docs}
    out = {}
    for bucket, n in now.items():
        if expected[bucket] < min_docs:
            out[bucket] = Volume(True, n, expected[bucket], basis=f"fewer than {min_docs} documents: not judged")
            continue
        others = [x for b, x in strayed.items() if b != bucket]
        noise = math.sqrt(sum(x * x for x in others) / len(others)) if others else 0.0
        reach = math.log(factor) + student(len(others), LEVEL / (STAGES * len(strayed))) * noise
        found = _within(n, expected[bucket], reach, basis)
        if not n and found.passed:  # nothing at all is never noise
            found = Volume(False, 0, expected[bucket], 1.0, found.high, "fewer", basis)
        out[bucket] = found
    return out


def _log(n: float, expected: float) -> float:
    return math.log((n + 1) / (expected + 1))


def _within(n: int, expected: float, reach: float, basis: str) -> Volume:
    low, high = math.exp(-reach) * (expected + 1) - 1, math.exp(min(reach, 50.0)) * (expected + 1) - 1
    direction = "fewer" if n < low else "more" if n > high else ""
    return Volume(not direction, n, expected, max(low, 0.0), high, direction, basis)
