"""False alarms and planted faults of the yield checks, on simulated crawls of a web of very uneven hosts.

Belongs here: many seeds of the simulation that the tests run once. Does not belong here: faults in real stages
(``tests/checks``). There is no other tool beside: the bars are the issue's.

    python -m bench.alarms [SEEDS]
"""

import sys
import time

from bench.report import Report
from gristmill.observe.bands import WIDTHS
from gristmill.observe.judge import Past, judge
from gristmill.observe.measure import Count
from gristmill.observe.volume import bucket_volumes
from tests.observe.crawls import STAGES, Web

CRAWLS = 20
SHAPES = ((64, 20_000, 1_000_000), (16, 10_000, 500_000), (4, 1_000, 20_000))  # buckets, hosts, pages
# Stage, and what share of what it kept it keeps when broken, of the whole crawl or of one bucket.
CRAWL_FAULTS = {"language": 0.75, "exact": 1.2, "near": 1.4, "heuristics": 0.8, "quality": 1.5, "safety": 0.9,
                "contamination": 0.9}
BUCKET_FAULTS = {"text": 0.3, "language": 0.0, "tokens": 0.3}


def main(seeds: int = 10) -> None:
    report = Report("alarms")
    for buckets, hosts, pages in SHAPES:
        began, alarms, comparisons, runs, caught, planted = time.process_time(), 0, 0, 0, 0, 0
        for seed in range(seeds):
            told, n, found, tried = one(Web(buckets=buckets, hosts=hosts, pages=pages, seed=1000 + seed))
            alarms, comparisons, caught, planted = alarms + told, comparisons + n, caught + found, planted + tried
            runs += told > 0
        what = f"{buckets} buckets, {hosts:,} hosts, {pages:,} pages"
        report.add(f"{what}: false alarms over {CRAWLS} ordinary crawls, mean of {seeds} histories", alarms / seeds,
                   ratio=alarms / seeds, bar="none", holds=alarms == 0,
                   note=f"{alarms} in {comparisons:,} comparisons; {seeds - runs} of {seeds} histories without any")
        report.add(f"{what}: planted faults caught, share", caught / planted, ratio=caught / planted, bar="all",
                   holds=caught == planted if buckets > 4 else None, note=f"{caught} of {planted}")
        cpu = (time.process_time() - began) / (seeds * CRAWLS * len(STAGES))
        report.add(f"{what}: CPU ms a stage judged (simulation included)", 1000 * cpu)
    report.write()


def one(web: Web) -> tuple[int, int, int, int]:
    """(alarms, comparisons, faults caught, faults planted) of a history."""
    past: list[dict[str, dict[int, Count]]] = []
    alarms = comparisons = caught = planted = 0
    for _ in range(CRAWLS):
        crawl = web.crawl()
        for stage, now in crawl.items():
            before = [Past(str(n), c[stage]) for n, c in enumerate(past)][-5:]
            found = judge(now, before, WIDTHS[stage], 200)
            verdicts = [*found.crawl, *(v for vs in found.buckets.values() for v in vs)]
            volumes = bucket_volumes({b: c.docs_in for b, c in now.items()},
                                     [{b: c.docs_in for b, c in p.buckets.items()} for p in before], 2.0, 200)
            if stage == "text":
                verdicts += volumes.values()  # type: ignore[arg-type]
            comparisons += len(verdicts)
            alarms += sum(not v.passed for v in verdicts)
        past.append(crawl)
    now_all, before_all = past[-1], past[-6:-1]
    for stage, factor in CRAWL_FAULTS.items():
        bad = {b: _kept(c, factor) for b, c in now_all[stage].items()}
        found = judge(bad, [Past(str(n), p[stage]) for n, p in enumerate(before_all)], WIDTHS[stage], 200)
        planted, caught = planted + 1, caught + (found.worst is not None)
    for stage, factor in BUCKET_FAULTS.items():
        victim = sorted(now_all[stage], key=lambda b: now_all[stage][b].docs_in)[web.buckets // 2]  # not one host's
        bad = now_all[stage] | {victim: _kept(now_all[stage][victim], factor)}
        found = judge(bad, [Past(str(n), p[stage]) for n, p in enumerate(before_all)], WIDTHS[stage], 200)
        planted += 1
        caught += any(not v.passed for v in found.buckets[victim])
    lost = {b: c.docs_in for b, c in now_all["text"].items()} | {0: 0}
    volumes = bucket_volumes(lost, [{b: c.docs_in for b, c in p["text"].items()} for p in before_all], 2.0, 200)
    return alarms, comparisons, caught + (not volumes[0].passed), planted + 1


def _kept(c: Count, factor: float) -> Count:
    return Count(c.docs_in, min(int(c.docs_kept * factor), c.docs_in), clump=c.clump)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
