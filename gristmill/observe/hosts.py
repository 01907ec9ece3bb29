"""Hosts of a crawl: how concentrated records are, whose number exploded, and which are new.

Belongs here: counts by host from the role ``hosts`` of ``unique_records``. Does not belong here: tokens by host
(``crawl_report.py``) and crawler traps judged by repeated payloads (``acquire/hosts.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.funnel import Plan
from gristmill.store import Key, PartitionManifest, Store

LISTED = 1000  # hosts that a report lists
SEVERAL = 3  # earlier crawls without a host say that it is new
FLOOD = 10.0  # times its usual share of the crawl
FLOOD_OF_BUCKET = 0.10  # and at least this share of its bucket: a small host may grow as it likes


def read_hosts(store: Store, manifest: PartitionManifest) -> pa.Table:
    """Host, host_id and n_records of a bucket's hosts; no rows where the partition lists none."""
    if not manifest.role("hosts"):
        return pa.table({"host": pa.array([], pa.string()), "host_id": pa.array([], pa.uint64()),
                         "n_records": pa.array([], pa.int64())})
    key = Key(manifest.asset, manifest.fingerprint, manifest.crawl, manifest.bucket)
    return store.read(key, ["host", "host_id", "n_records"], "hosts")


# Where a stage's documents were counted by host: on its way in, or by the stage before that says so.
CLUMPS_OF = {"raw_warc": "unique_records", "unique_records": "unique_records", "text": "unique_records",
             "language": "text", "lines": "text", "near": "text"}


def clumps(store: Store, plan: Plan, stage: str, crawl: str) -> dict[int, tuple[float, float]]:
    """Bucket -> how many of a stage's documents share a document's host, by documents and by bytes.

    Deduplication thins hosts out, so what ``text`` says of them is near enough for what comes into ``lines`` and
    ``near``; what survives is counted anew.
    """
    asked = CLUMPS_OF.get(stage, "heuristics")
    # A stage may be looked at before the one that counts is made (heuristics beside safety), then the one before it.
    for source in dict.fromkeys((asked, "text", "unique_records")):
        out = {}
        for bucket in range(plan.buckets):
            manifest = store.manifest(Key(source, plan.fingerprints[source], crawl, bucket))
            if manifest is not None and "clump" in manifest.info:
                out[bucket] = (float(manifest.info["clump"]), float(manifest.info["clump_bytes"]))
        if out:
            return out
    return {}


@dataclass(frozen=True)
class Flood:
    """A host with many more records than it had."""

    host: str
    records: int
    share: float  # of the crawl
    usual: float  # largest share of the last crawls; where it was not listed, at most this
    bucket_share: float


def floods(hosts: pa.Table, crawl_records: int, past: Sequence[Mapping[str, Any]], min_docs: int) -> list[Flood]:
    """Hosts of a bucket whose share of the crawl is ``FLOOD`` times what it was; none without earlier crawls.

    Large hosts come and go, so one that no earlier crawl lists is a flood only where there are ``SEVERAL`` of those and
    it is twice as large as any host of theirs; where one of theirs was most of the crawl (twice that is no share at
    all), where it has half of what that one left.

    Args:
        hosts: of ``read_hosts``.
        crawl_records: of the whole crawl, so far as it is known.
        past: ``hosts`` of earlier reports: {"records": of the crawl, "top": {host: records}, "least": records of the
            smallest host listed, 0 where all are listed}.
        min_docs: fewer records are never a flood.
    """
    if not past or not hosts.num_rows or not crawl_records:
        return []
    records = hosts["n_records"].to_numpy()
    whole = int(records.sum())
    out = []
    for i in np.flatnonzero((records >= min_docs) & (records >= FLOOD_OF_BUCKET * whole)):
        host, n = hosts["host"][int(i)].as_py(), int(records[i])
        usual = max(_share(p, host) for p in past)
        share = n / crawl_records
        new = not any(host in p["top"] for p in past)
        largest = max(max(p["top"].values(), default=0) / max(int(p["records"]), 1) for p in past) if new else 0.0
        if share > max(FLOOD * usual, min(2 * largest, (1 + largest) / 2)) and (not new or len(past) >= SEVERAL):
            out.append(Flood(host or "", n, share, usual, n / whole))
    return sorted(out, key=lambda f: (-f.records, f.host))


def _share(past: Mapping[str, Any], host: str) -> float:
    return float(past["top"].get(host, past["least"])) / max(int(past["records"]), 1)
