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
FLOOD = 10.0  # times its usual share of the crawl
FLOOD_OF_BUCKET = 0.10  # and at least this share of its bucket: a small host may grow as it likes


def read_hosts(store: Store, manifest: PartitionManifest) -> pa.Table:
    """Host, host_id and n_records of a bucket's hosts; no rows where the partition lists none."""
    if not manifest.role("hosts"):
        return pa.table({"host": pa.array([], pa.string()), "host_id": pa.array([], pa.uint64()),
                         "n_records": pa.array([], pa.int64())})
    key = Key(manifest.asset, manifest.fingerprint, manifest.crawl, manifest.bucket)
    return store.read(key, ["host", "host_id", "n_records"], "hosts")


def clump(records: np.ndarray) -> float:
    """How many records share a record's host, on average over records; 1 where there are none.

    Args:
        records: int [hosts].
    """
    n = records.astype(np.float64)
    return float((n * n).sum() / n.sum()) if n.sum() else 1.0


def clumps(store: Store, plan: Plan, crawl: str) -> dict[int, tuple[float, int]]:
    """Bucket -> (mean records that share a host, records), of what has been made."""
    out = {}
    for bucket in range(plan.buckets):
        manifest = store.manifest(Key("unique_records", plan.fingerprints["unique_records"], crawl, bucket))
        if manifest is not None:
            records = read_hosts(store, manifest)["n_records"].to_numpy()
            out[bucket] = (clump(records), int(records.sum()))
    return out


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
        if share > FLOOD * usual:
            out.append(Flood(host or "", n, share, usual, n / whole))
    return sorted(out, key=lambda f: (-f.records, f.host))


def _share(past: Mapping[str, Any], host: str) -> float:
    return float(past["top"].get(host, past["least"])) / max(int(past["records"]), 1)
