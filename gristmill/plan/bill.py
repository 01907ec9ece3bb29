"""The bill of a crawl: what its partitions cost in core-hours, GPU-hours and stored bytes, at today's prices.

Belongs here: adding up what partitions recorded, and keeping the bill beside the crawl. Does not belong here: measuring
(``observe/profile_meter.py``) and what a change would cost (``change.py``).

A bill counts every committed partition's last run. Work that was made again is not in it twice; work of other
parameters, whose partitions still lie in the store, is listed as storage.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gristmill.fingerprint import canonical_json
from gristmill.funnel import FUNNEL, Plan
from gristmill.observe.yields import committed
from gristmill.store import Key, Store

TB = 1e12


@dataclass(frozen=True)
class Line:
    """One stage of the bill. Money in dollars; storage is a month's."""

    stage: str
    partitions: int
    docs: int
    core_hours: float
    gpu_hours: float
    stored_bytes: int
    compute_money: float
    storage_money: float
    archived_bytes: int = 0  # in a cold archive; not in stored_bytes


@dataclass(frozen=True)
class Bill:
    """A crawl's bill."""

    crawl: str
    lines: tuple[Line, ...]
    other_bytes: int  # of partitions made by other parameters
    other_money: float
    prices: dict[str, float]
    documents: int  # that landed
    tokens: int

    @property
    def core_hours(self) -> float:
        """Of all stages."""
        return sum(line.core_hours for line in self.lines)

    @property
    def gpu_hours(self) -> float:
        """Of all stages."""
        return sum(line.gpu_hours for line in self.lines)

    @property
    def compute_money(self) -> float:
        """Once."""
        return sum(line.compute_money for line in self.lines)

    @property
    def storage_money(self) -> float:
        """A month."""
        return sum(line.storage_money for line in self.lines) + self.other_money


def bill(store: Store, plan: Plan, crawl: str, values: Mapping[str, float]) -> Bill:
    """Add a crawl up.

    Args:
        values: assumptions by name; the prices among them are used.
    """
    prices = {n.partition(".")[2]: v for n, v in values.items() if n.startswith("prices.")}
    lines = []
    landed = tokens = 0
    for stage in FUNNEL:
        manifests = committed(store, plan, stage.name, crawl) if stage.by != "site" else []
        if not manifests:
            continue
        runs = [store.run_info(Key(stage.name, m.fingerprint, m.crawl, m.bucket)) for m in manifests]
        cores = sum(float(r.get("cpu_s", 0.0)) for r in runs) / 3600
        gpus = sum(float(r.get("gpu_s", 0.0)) for r in runs) / 3600
        cold = [m for m in manifests if store.archived(Key(stage.name, m.fingerprint, m.crawl, m.bucket)) is not None]
        archived = sum(f.bytes for m in cold for f in m.files)
        stored = sum(f.bytes for m in manifests for f in m.files) - archived
        docs = sum(m.counts.docs_in for m in manifests)
        if stage.name == "shards":
            tokens = sum(int(m.info.get("tokens", 0)) for m in manifests)
            stored += tokens * 4  # the shards themselves stand outside the partition
        if stage.name == "crawl_slices":
            landed = docs
        lines.append(Line(stage.name, len(manifests), docs, cores, gpus, stored,
                          cores * prices["core_hour"] + gpus * prices["gpu_hour"],
                          stored / TB * prices["hot_tb_month"] + archived / TB * prices["cold_tb_month"], archived))
    other = _other_bytes(store, plan, crawl)
    return Bill(crawl, tuple(lines), other, other / TB * prices["hot_tb_month"], prices, landed, tokens)


def _other_bytes(store: Store, plan: Plan, crawl: str) -> int:
    """Bytes of the crawl's partitions that today's parameters did not make."""
    total = 0
    for stage in FUNNEL:
        for fingerprint in store.blobs.children(stage.name)[0]:
            if fingerprint != plan.fingerprints[stage.name]:
                total += sum(size for _, size in store.blobs.list(f"{stage.name}/{fingerprint}/crawl={crawl}"))
    return total


def _path(crawl: str) -> str:
    return f"registry/bills/{crawl}.json"


def record(store: Store, found: Bill) -> None:
    """Keep the bill beside the crawl, replacing the last. No fingerprint and no digest reads it."""
    store.blobs.put(_path(found.crawl), canonical_json(asdict(found)))


def recorded(store: Store, crawl: str) -> dict[str, Any] | None:
    """The bill as it was after the crawl's last run, or None."""
    try:
        data: dict[str, Any] = json.loads(store.blobs.get(_path(crawl)))
        return data
    except FileNotFoundError:
        return None


def summary(found: Bill) -> str:
    """One line."""
    each = f", ${found.compute_money / found.tokens * 1e9:,.2f} a billion tokens" if found.tokens else ""
    return (f"bill of {found.crawl}: {found.core_hours:,.3f} core-hours, {found.gpu_hours:,.3f} GPU-hours, "
            f"${found.compute_money:,.4f} of compute{each}; ${found.storage_money:,.4f} of storage a month")


def render(found: Bill) -> str:
    """The bill as a table."""
    head = (f"{'stage':<20} {'docs in':>12} {'core-h':>10} {'GPU-h':>8} {'stored MB':>11} {'cold MB':>9} "
            f"{'compute $':>11} {'$ a month':>10}")
    out = [f"bill of {found.crawl}, at ${found.prices['core_hour']:g} a core-hour, ${found.prices['gpu_hour']:g} a "
           f"GPU-hour, ${found.prices['hot_tb_month']:g} a TB and month", head, "-" * len(head)]
    for line in found.lines:
        out.append(f"{line.stage:<20} {line.docs:>12,} {line.core_hours:>10.4f} {line.gpu_hours:>8.4f} "
                   f"{line.stored_bytes / 1e6:>11,.2f} {line.archived_bytes / 1e6:>9,.2f} "
                   f"{line.compute_money:>11,.5f} {line.storage_money:>10,.5f}")
    if found.other_bytes:
        out.append(f"{'other parameters':<20} {'':>12} {'':>10} {'':>8} {found.other_bytes / 1e6:>11,.2f} {'':>9} "
                   f"{'':>11} {found.other_money:>10,.5f}")
    out.append(summary(found))
    return "\n".join(out)
