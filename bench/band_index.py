"""The band index on disk: probes a second, false positives, bytes an entry.

``python -m bench.band_index`` (``--small`` for a tenth of the sizes). A generation of 50 million entries in 16 key
ranges is written as the stage writes it, opened, and probed; seconds are CPU time of one thread.
"""

import argparse
import math
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.report import Report
from gristmill import shuffle
from gristmill.deduplicate import band_index, bloom
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import PipelineParams, SiteConfig
from gristmill.partition import Partition
from gristmill.store import Store

RANGES = 16
BANDS = 14


def write(store: Store, plan: Plan, number: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """One range of a generation; its bands and keys, sorted."""
    rng = np.random.default_rng(number)
    part = Partition(store, plan, replace(BY_NAME["band_index"], inputs=()), "C", number, SiteConfig())
    low = np.uint64(number) << np.uint64(60)
    key = (rng.integers(0, 2**64, count, np.uint64) >> np.uint64(4)) | low
    doc = rng.integers(0, 2**64, (count, 2), np.uint64)
    entries = band_index.entries(rng.integers(0, BANDS, count).astype(np.uint8), key, doc, 64)
    part.write_bytes(entries.to_bytes(), role="data", suffix=".parquet", rows=count)
    part.write(entries.starts(), band_index.STARTS, role="starts")
    part.write_bytes(bloom.to_bytes(bloom.build(entries.key, 12)), role="bloom", suffix=".bloom")
    part.commit(time.time())
    return entries.band, entries.key


def designed(bits: int) -> float:
    """False positives of the filter: a block holds Poisson(512 / bits) keys, each with a bit in all of its 8 words."""
    mean = 512 / bits
    chance = [math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) for n in range(300)]
    return sum(p * (1 - (63 / 64) ** n) ** 8 for n, p in enumerate(chance))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    count = (5_000_000 if parser.parse_args().small else 50_000_000) // RANGES
    report = Report("band_index")
    plan = Plan(PipelineParams.model_validate({"grid": {"host_buckets": RANGES}}))
    rng = np.random.default_rng(99)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        parts = [Partition(store, plan, BY_NAME["band_index"], "C", r, SiteConfig()) for r in range(RANGES)]
        held = [write(store, plan, r, count) for r in range(RANGES)]
        sizes = [{f.role: f.bytes for f in p.manifest("band_index").files} for p in parts]
        entry = sum(s["data"] for s in sizes) / (count * RANGES)
        report.add(f"bytes an entry on disk, {count * RANGES:,} entries", entry, bar="<= 24", holds=entry <= 24,
                   note=f"and {sum(s['bloom'] for s in sizes) / (count * RANGES):.2f} of bloom filter")
        begun = time.process_time()
        runs = [band_index.Run(store, p.key(), p.manifest("band_index")) for p in parts]
        report.add("opening all ranges, s", time.process_time() - begun)
        asked = 10_000_000 if count > 1_000_000 else 1_000_000
        for share in (0.0, 0.01, 0.3):
            key = rng.integers(0, 2**64, asked, np.uint64)
            band = rng.integers(0, BANDS, asked).astype(np.uint8)
            known = rng.permutation(asked)[: int(asked * share)]
            of = rng.integers(0, RANGES, len(known))
            for r in range(RANGES):
                at = rng.integers(0, count, int((of == r).sum()))
                band[known[of == r]], key[known[of == r]] = held[r][0][at], held[r][1][at]
            number = shuffle.range_of(key, RANGES)
            batches = [(band[number == r], key[number == r]) for r in range(RANGES)]
            spent = []
            found = 0
            for _ in range(3):  # the first reads row groups from disk
                begun = time.process_time()
                found = sum(len(run.probe(*batch)[0]) for run, batch in zip(runs, batches))
                spent.append(time.process_time() - begun)
            rate = asked / min(spent[1:]) / 1e6
            few = share <= 0.01  # a new crawl's keys are nearly all unknown
            report.add(f"probes, M/s a core, warm, {share:.0%} of keys known", rate, bar=">= 5" if few else "",
                       holds=rate >= 5 if few else None,
                       note=f"first time {asked / spent[0] / 1e6:.2f}; {found:,} of {len(known):,} known keys found")
        key = rng.integers(0, 2**64, 4_000_000, np.uint64)
        number = shuffle.range_of(key, RANGES)
        wrong = sum(int(bloom.contains(run._filter, key[number == r]).sum()) for r, run in enumerate(runs)) / len(key)
        report.add("false positives of the filter, 12 bits a key", wrong, designed(12), wrong / designed(12),
                   "<= 1.2 x, < 0.7 %", wrong < 0.007 and wrong <= 1.2 * designed(12), "theirs: the design, computed")
    report.write()


if __name__ == "__main__":
    main()
