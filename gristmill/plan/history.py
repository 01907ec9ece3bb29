"""What the partitions of a store cost when they were made: the measured rates that plans rest on.

Belongs here: looking a partition's cost up, or the rate of its stage. Does not belong here: what has to be made
(``stale.py``, ``change.py``) and measuring (``observe/profile_meter.py``).

A partition that stood under the old parameters costs what it cost then. One that never stood costs the rate of its
stage in this store. What no partition has measured is said to be unknown, never taken for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gristmill.store import MANIFEST, Key, Store


@dataclass(frozen=True)
class Cost:
    """Of one partition, or of several added up."""

    docs: int = 0
    core_s: float = 0.0
    gpu_s: float = 0.0
    lane_s: float = 0.0  # seconds in which a worker is held by it
    longest_s: float = 0.0
    unknown: int = 0  # partitions that nothing measured

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.docs + other.docs, self.core_s + other.core_s, self.gpu_s + other.gpu_s,
                    self.lane_s + other.lane_s, max(self.longest_s, other.longest_s), self.unknown + other.unknown)


class History:
    """What partitions of this store cost when they were made, under whatever parameters.

    Args:
        prefer: fingerprints of the old parameters: their partitions are asked first, then the newest.
    """

    def __init__(self, store: Store, prefer: Mapping[str, str]) -> None:
        self.store, self.prefer = store, prefer
        self._keys: dict[str, dict[tuple[str | None, int | None], list[Key]]] = {}
        self._known: dict[Key, tuple[int, Cost | None]] = {}
        self._rates: dict[str, tuple[Cost, int]] = {}

    def _of(self, asset: str) -> dict[tuple[str | None, int | None], list[Key]]:
        if asset not in self._keys:
            found: dict[tuple[str | None, int | None], list[Key]] = {}
            for path, _ in self.store.blobs.list(asset):
                name, *rest = path.split("/")
                if rest[-1] != MANIFEST:
                    continue
                crawl = next((p.removeprefix("crawl=") for p in rest if p.startswith("crawl=")), None)
                bucket = next((int(p.removeprefix("host_bucket=")) for p in rest if p.startswith("host_bucket=")), None)
                found.setdefault((crawl, bucket), []).append(Key(name, rest[0], crawl, bucket))
            self._keys[asset] = found
        return self._keys[asset]

    def _read(self, key: Key) -> tuple[int, Cost | None]:
        """Documents, and the cost where it was measured."""
        if key not in self._known:
            manifest, run = self.store.manifest(key), self.store.run_info(key)
            docs = manifest.counts.docs_in if manifest else 0
            cost = None
            if "cpu_s" in run:
                parts = [float(run.get(f"{k}_s", 0.0)) for k in ("compute", "gpu", "read", "write", "wait")]
                lane = sum(parts) or float(run.get("wall_s", 0.0))
                cost = Cost(docs, float(run["cpu_s"]), float(run.get("gpu_s", 0.0)), lane, lane)
            self._known[key] = (docs, cost)
        return self._known[key]

    def partition(self, asset: str, crawl: str | None, bucket: int | None) -> tuple[Cost, bool]:
        """What making this partition costs, and whether that is its own cost and not a rate."""
        keys = self._of(asset).get((crawl, bucket), [])
        keys = sorted(keys, key=lambda k: (k.fingerprint == self.prefer.get(asset),
                                           float(self.store.run_info(k).get("ended", 0.0))))
        for key in reversed(keys):
            cost = self._read(key)[1]
            if cost is not None:
                return cost, True
        return self._rate(asset, self._read(keys[-1])[0] if keys else None), False

    def _rate(self, asset: str, docs: int | None) -> Cost:
        if asset not in self._rates:
            measured = [c for keys in self._of(asset).values() for k in keys if (c := self._read(k)[1]) is not None]
            self._rates[asset] = (sum(measured, start=Cost()), len(measured))
        total, partitions = self._rates[asset]
        if not partitions:
            return Cost(docs=docs or 0, unknown=1)
        share = docs / total.docs if docs is not None and total.docs else 1 / partitions
        lane = total.lane_s * share
        return Cost(round(total.docs * share), total.core_s * share, total.gpu_s * share, lane, lane)
