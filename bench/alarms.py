"""False alarms and planted faults of the yield checks, on simulated crawls of a web of very uneven hosts.

Belongs here: many seeds of the simulation that the tests run once; every check that judges numbers of a crawl:
retention by documents and bytes, volume, host floods, drift of scores. Does not belong here: faults in real stages
(``tests/checks``). There is no other tool beside: the bars are the issue's.

    python -m bench.alarms [SEEDS]
"""

import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from bench.report import Report
from gristmill.observe.bands import WIDTHS
from gristmill.observe.drift import drift
from gristmill.observe.hosts import LISTED, floods
from gristmill.observe.judge import Past, judge
from gristmill.observe.measure import Count
from gristmill.observe.volume import bucket_volumes, crawl_volume
from tests.observe.crawls import STAGES, Web

CRAWLS, TRAILING, MIN_DOCS, FACTOR, FLOOR = 20, 5, 200, 2.0, 0.02  # as params.observe has them
SHAPES = ((64, 20_000, 1_000_000), (16, 10_000, 500_000), (4, 1_000, 20_000))  # buckets, hosts, pages
# Stage, and what share of what it kept it keeps when broken, of the whole crawl or of one bucket.
CRAWL_FAULTS = {"language": 0.75, "exact": 1.2, "near": 1.4, "heuristics": 0.8, "quality": 1.5, "safety": 0.9,
                "contamination": 0.9}
BUCKET_FAULTS = {"text": 0.3, "language": 0.0, "tokens": 0.3}


@dataclass
class Crawl:
    """What a report keeps of a crawl."""

    stages: dict[str, dict[int, Count]]
    records: np.ndarray  # by host
    histogram: np.ndarray

    def volumes(self) -> dict[int, int]:
        """Bucket -> documents that came into extraction."""
        return {b: c.docs_in for b, c in self.stages["text"].items()}

    def hosts(self) -> dict[str, Any]:
        """As ``crawl_report.record_hosts``."""
        top = [h for h in np.argsort(-self.records, kind="stable")[:LISTED] if self.records[h]]
        return {"records": int(self.records.sum()), "top": {str(h): int(self.records[h]) for h in top},
                "least": int(self.records[top[-1]]) if len(top) == LISTED else 0}


@dataclass
class Tally:
    """Over histories."""

    alarms: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    comparisons: int = 0
    planted: int = 0
    quiet: int = 0

    def plant(self, what: str, caught: bool) -> None:
        """Count a fault."""
        self.planted += 1
        if not caught:
            self.missed.append(what)


def main(seeds: int = 25) -> None:
    report = Report("alarms")
    for buckets, hosts, pages in SHAPES:
        began, tally = time.process_time(), Tally()
        for seed in range(seeds):
            history(Web(buckets=buckets, hosts=hosts, pages=pages, seed=1000 + seed, scores=True), tally)
        n = len(tally.alarms)
        what = f"{buckets} buckets, {hosts:,} hosts, {pages:,} pages"
        report.add(f"{what}: false alarms over {CRAWLS} ordinary crawls, mean of {seeds} histories", n / seeds,
                   ratio=n / seeds, bar="none", holds=n == 0,
                   note=f"{n} in {tally.comparisons:,} comparisons; {tally.quiet} of {seeds} histories without any"
                   + (f": {', '.join(tally.alarms[:5])}" if n else ""))
        missed = len(tally.missed)
        share = 1 - missed / tally.planted
        report.add(f"{what}: planted faults caught, share", share, ratio=share,
                   bar="all", holds=not missed if buckets > 4 else None,
                   note=f"{tally.planted - missed} of {tally.planted}"
                   + (f"; not: {', '.join(sorted(set(tally.missed)))}" if missed else ""))
        cpu = (time.process_time() - began) / (seeds * CRAWLS * len(STAGES))
        report.add(f"{what}: CPU ms a stage judged (simulation included)", 1000 * cpu)
    report.write()


def history(web: Web, tally: Tally) -> None:
    """Twenty ordinary crawls, then the last one again with each fault."""
    past: list[Crawl] = []
    before = len(tally.alarms)
    for number in range(CRAWLS):
        now = Crawl(web.crawl(), web.records, web.histogram)
        held = past[-TRAILING:]
        for what, passed in verdicts(web, now, held):
            tally.comparisons += 1
            if not passed:
                tally.alarms.append(f"crawl {number} {what}")
        past.append(now)
    tally.quiet += len(tally.alarms) == before
    plant(web, past[-1], past[-1 - TRAILING:-1], tally)


def verdicts(web: Web, now: Crawl, held: list[Crawl]) -> list[tuple[str, bool]]:
    """Everything that is judged of a crawl: what, and did it pass."""
    out: list[tuple[str, bool]] = []
    for stage, counts in now.stages.items():
        found = judge(counts, _past(held, stage), WIDTHS[stage], MIN_DOCS)
        out += [(f"{stage} {v.unit}", v.passed) for v in found.crawl]
        out += [(f"{stage} {v.unit} of bucket {b}", v.passed) for b, vs in found.buckets.items() for v in vs]
    volumes = [c.volumes() for c in held]
    out += [(f"volume of bucket {b}", v.passed)
            for b, v in bucket_volumes(now.volumes(), volumes, FACTOR, MIN_DOCS).items()]
    out.append(("volume", crawl_volume(sum(now.volumes().values()), [sum(v.values()) for v in volumes], FACTOR,
                                       MIN_DOCS).passed))
    out += [(f"flood in bucket {b}", not found) for b, found in flooded(web, now, held).items()]
    out.append(("drift of scores", scored(now.histogram, now, held)))
    return out


def flooded(web: Web, now: Crawl, held: list[Crawl]) -> dict[int, list[Any]]:
    """Bucket -> its floods."""
    past, total = [c.hosts() for c in held], int(now.records.sum())
    out = {}
    for bucket in range(web.buckets):
        mine = np.flatnonzero((web.bucket == bucket) & (now.records > 0))
        table = pa.table({"host": [str(h) for h in mine], "host_id": mine.astype(np.uint64),
                          "n_records": now.records[mine].astype(np.int64)})
        out[bucket] = floods(table, total, past, MIN_DOCS)
    return out


def scored(histogram: np.ndarray, now: Crawl, held: list[Crawl]) -> bool:
    """Are scores distributed as before."""
    cells = now.stages["quality"].values()
    clump = sum(c.docs_in * c.clump for c in cells) / sum(c.docs_in for c in cells)
    return drift(histogram.tolist(), [c.histogram.tolist() for c in held], FLOOR, clump).passed


def plant(web: Web, now: Crawl, held: list[Crawl], tally: Tally) -> None:
    """Each fault, and whether the check that should see it does."""
    for stage, factor in CRAWL_FAULTS.items():
        bad = {b: _kept(c, factor) for b, c in now.stages[stage].items()}
        tally.plant(f"{stage} x {factor}", judge(bad, _past(held, stage), WIDTHS[stage], MIN_DOCS).worst is not None)
    middle = web.buckets // 2
    for stage, factor in BUCKET_FAULTS.items():
        counts = now.stages[stage]
        victim = sorted(counts, key=lambda b: counts[b].clump / max(counts[b].docs_in, 1))[middle]  # not one host's
        found = judge(counts | {victim: _kept(counts[victim], factor)}, _past(held, stage), WIDTHS[stage], MIN_DOCS)
        tally.plant(f"{stage} x {factor} in one bucket", any(not v.passed for v in found.buckets[victim]))
    lost = bucket_volumes(now.volumes() | {0: 0}, [c.volumes() for c in held], FACTOR, MIN_DOCS)
    tally.plant("one bucket lost", not lost[0].passed)
    host = int(np.argsort(-now.records, kind="stable")[web.hosts // 20])  # a known host of middling size
    records = now.records.copy()
    records[host] = now.volumes()[int(web.bucket[host])]  # doubles its bucket
    found_ = flooded(web, replace(now, records=records), held)[int(web.bucket[host])]
    tally.plant("a host flood", str(host) in [f.host for f in found_])
    tally.plant("another model's scores", not scored(now.histogram[::-1], now, held))


def _past(held: list[Crawl], stage: str) -> list[Past]:
    return [Past(str(n), c.stages[stage]) for n, c in enumerate(held)]


def _kept(c: Count, factor: float) -> Count:
    return replace(c, docs_kept=min(int(c.docs_kept * factor), c.docs_in),
                   bytes_kept=min(int(c.bytes_kept * factor), c.bytes_in))


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
