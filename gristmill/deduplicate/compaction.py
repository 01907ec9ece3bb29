"""Compaction: several generations of the band index as one, so that a range of a new crawl opens one run, not hundreds.

Belongs here: merging generations into a new one, and choosing it when it holds exactly what would be consumed. Does not
belong here: what a generation is (``band_index.py``). Generations are immutable: compaction writes beside them, so what
consumed the old ones still resolves, and matches are the same from either.
"""

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gristmill import schemas
from gristmill.deduplicate import bloom, ids
from gristmill.deduplicate.band_index import GROUP, STARTS, Run, encode
from gristmill.deduplicate.generations import Generation, of
from gristmill.errors import BandIndexError, DamagedPartitionError
from gristmill.fingerprint import digest
from gristmill.funnel import BY_NAME, Plan
from gristmill.params import SiteConfig
from gristmill.partition import Partition
from gristmill.registry import Registry
from gristmill.store import MANIFEST, Key, PartitionManifest, Store, Yield, parquet_bytes

COMPACTED = pa.schema([*schemas.BAND_INDEX, pa.field("generation", pa.uint16())])
MAX_GENERATIONS = 1 << 16


@dataclass(frozen=True)
class Opened:
    """What a range probes in one go: its part of one generation, or of a compacted one of several."""

    crawls: tuple[str, ...]  # by tag of the entries
    key: Key
    manifest: PartitionManifest

    def run(self, part: Partition) -> Run:
        """Open it. Row groups are not kept: a range asks for each band once, in order."""
        return Run(part.store, self.key, self.manifest, keep=0)


def _key(part: Partition, generations: list[Generation]) -> Key:
    """Named by its content: the crawls and the digests of what was merged."""
    name = "merged-" + digest([g.state() for g in generations])[:20]
    return Key("band_index_merged", part.plan.fingerprints["band_index"], name, generations[0].number)


def compact(part: Partition, generations: list[Generation]) -> Key:
    """Merge a range of generations (of consecutive earlier crawls, in order); the same input gives the same bytes.

    Args:
        part: any partition of the band index's plan.
        generations: as ``generations.earlier(part, "band_index", number)`` lists them, or the first few of those.

    Returns:
        The committed partition.

    Raises:
        BandIndexError: when a generation is damaged.
    """
    if not 0 < len(generations) < MAX_GENERATIONS:
        raise BandIndexError(f"{len(generations)} generations cannot be merged")
    key = _key(part, generations)
    if part.store.manifest(key) is not None:
        return key
    tables = []
    for tag, generation in enumerate(generations):
        try:
            table = part.store.read(part.key("band_index", generation.number, generation.crawl))
        except DamagedPartitionError as error:
            raise BandIndexError(f"the generation of {generation.crawl} is damaged: {error}") from error
        tables.append(table.append_column("generation", pa.array(np.full(table.num_rows, tag, np.uint16))))
    merged = _merge(pa.concat_tables(tables))
    values = merged["key"].to_numpy()
    bits = part.plan.params.band_index.bits_per_key
    starts = pa.table({"band": merged["band"].to_numpy()[::GROUP], "key": values[::GROUP]}, schema=STARTS)
    put = part.store.put_part
    files = (
        put(key, encode(merged), "data", ".parquet", merged.num_rows),
        put(key, parquet_bytes(starts), "starts", ".parquet", starts.num_rows),
        put(key, bloom.to_bytes(bloom.build(values, bits)), "bloom", ".bloom", 0),
    )
    part.store.commit(key, PartitionManifest(
        asset=key.asset, fingerprint=key.fingerprint, crawl=key.crawl, bucket=key.bucket, files=files, inputs={},
        state={"generations": [g.state() for g in generations]}, counts=Yield(), info={"entries": merged.num_rows},
    ), {"ended": time.time()})
    return key


@dataclass(frozen=True)
class Compacted:
    """What a compaction of a whole site did.

    Attributes:
        crawls: merged, in order; empty where there was nothing to merge.
        stopped_at: the first crawl whose generation is not whole yet, if any: it and what follows are left as they are.
        new: false where it had been done before.
        entries: of the merged generation.
        dropped: older merged generations that were deleted.
    """

    crawls: tuple[str, ...]
    stopped_at: str | None
    new: bool
    entries: int
    dropped: tuple[str, ...]


def compact_site(store: Store, plan: Plan, site: SiteConfig) -> Compacted:
    """Merge the generations of every crawl up to the first that is not whole, and drop merges that this one replaces.

    The merge before it stays: a run that goes on may have opened it.

    Raises:
        BandIndexError: a generation is damaged.
    """
    crawls = Registry(store).crawls()
    if not crawls:
        return Compacted((), None, False, 0, ())
    part = Partition(store, plan, BY_NAME["near"], crawls[-1], 0, site)
    names: list[str] = []
    stopped = None
    for crawl in crawls:
        there = sum(store.manifest(part.key("band_index", n, crawl)) is not None for n in range(part.buckets))
        if 0 < there < part.buckets:
            stopped = crawl
            break
        if there:  # else registered, never taken this far, or made by other parameters: no generation of today's
            names.append(crawl)
    if len(names) < 2:
        return Compacted((), stopped, False, 0, ())
    new, entries = False, 0
    dropped: dict[int, None] = {}
    for number in range(part.buckets):
        whole = of(part, "band_index", names, number)
        made = opened(part, whole)[0].crawls != tuple(names)
        entries += store.require(compact(part, whole)).info["entries"]
        if made:
            new = True
            dropped |= dict.fromkeys(_drop_replaced(part, whole))
    return Compacted(tuple(names), stopped, new, entries, tuple(f"{names[0]} to {names[n - 1]}" for n in dropped))


def _drop_replaced(part: Partition, whole: list[Generation]) -> list[int]:
    """Delete a range's merges of a shorter prefix of these generations, but for the longest of them; their lengths."""
    keys = {count: _key(part, whole[:count]) for count in range(2, len(whole))}
    of_length = [count for count, key in keys.items() if part.store.manifest(key) is not None]
    for count in of_length[:-1]:
        paths = [path for path, _ in part.store.blobs.list(keys[count].path)]
        for path in sorted(paths, key=lambda p: not p.endswith(f"/{MANIFEST}")):  # first what makes it visible
            part.store.blobs.delete(path)
    return of_length[:-1]


def _merge(table: pa.Table) -> pa.Table:
    doc = ids.pairs(table["doc_id"])
    order = np.lexsort((
        doc[:, 1], doc[:, 0], table["generation"].to_numpy(), table["key"].to_numpy(), table["band"].to_numpy()
    ))
    return table.take(pa.array(order)).cast(COMPACTED)


def opened(part: Partition, generations: list[Generation]) -> list[Opened]:
    """What a range probes, in order of crawls: the longest compacted prefix there is, then single generations."""
    for count in range(len(generations), 1, -1):
        key = _key(part, generations[:count])
        manifest = part.store.manifest(key)
        if manifest is not None:
            merged = Opened(tuple(g.crawl for g in generations[:count]), key, manifest)
            return [merged, *(_single(part, g) for g in generations[count:])]
    return [_single(part, g) for g in generations]


def _single(part: Partition, generation: Generation) -> Opened:
    return Opened((generation.crawl,), part.key("band_index", generation.number, generation.crawl),
                  generation.manifest)
