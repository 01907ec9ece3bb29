"""Compaction: several generations of the band index as one, so that a new crawl opens one run a range, not hundreds.

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
    """What a crawl probes in one go: one generation, or a compacted one of several."""

    crawls: tuple[str, ...]  # by tag of the entries
    keys: tuple[Key, ...]  # by range
    manifests: tuple[PartitionManifest, ...]

    def run(self, part: Partition, number: int) -> Run:
        """Open a range."""
        return Run(part.store, self.keys[number], self.manifests[number])


def _key(part: Partition, generations: list[Generation], number: int) -> Key:
    """Named by its content: the crawls and the digests of what was merged."""
    name = "merged-" + digest([g.state() for g in generations])[:20]
    return Key("band_index_merged", part.plan.fingerprints["band_index"], name, number)


def compact(part: Partition, generations: list[Generation]) -> list[Key]:
    """Merge generations (of consecutive earlier crawls, in order) into one; the same input gives the same bytes.

    Args:
        part: any partition of the band index's plan.
        generations: as ``generations.earlier(part, "band_index")`` lists them, or the first few of those.

    Returns:
        The committed partitions, one a range.

    Raises:
        BandIndexError: when a generation is damaged.
    """
    if not 0 < len(generations) < MAX_GENERATIONS:
        raise BandIndexError(f"{len(generations)} generations cannot be merged")
    keys = []
    for number in range(part.buckets):
        key = _key(part, generations, number)
        keys.append(key)
        if part.store.manifest(key) is not None:
            continue
        tables = []
        for tag, generation in enumerate(generations):
            try:
                table = part.store.read(part.key("band_index", number, generation.crawl))
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
            asset=key.asset, fingerprint=key.fingerprint, crawl=key.crawl, bucket=number, files=files, inputs={},
            state={"generations": [g.state() for g in generations]}, counts=Yield(), info={"entries": merged.num_rows},
        ), {"ended": time.time()})
    return keys


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
    whole: list[Generation] = []
    stopped = None
    for crawl in crawls:
        if not all(store.manifest(part.key("band_index", n, crawl)) for n in range(part.buckets)):
            if any(store.manifest(part.key("band_index", n, crawl)) for n in range(part.buckets)):
                stopped = crawl
                break
            continue  # registered, never taken this far, or made by other parameters: no generation of today's
        whole += of(part, "band_index", [crawl])
    if len(whole) < 2:
        return Compacted((), stopped, False, 0, ())
    names = tuple(g.crawl for g in whole)
    new = opened(part, whole)[0].crawls != names
    keys = compact(part, whole)
    entries = sum(store.require(k).info["entries"] for k in keys)
    return Compacted(names, stopped, new, entries, _drop_replaced(part, whole, keys[0]) if new else ())


def _drop_replaced(part: Partition, whole: list[Generation], newest: Key) -> tuple[str, ...]:
    """Delete merges of a shorter prefix of these generations, but for the longest of them."""
    blobs, base = part.store.blobs, f"{newest.asset}/{newest.fingerprint}"
    of_length = {}
    for count in range(2, len(whole)):
        key = _key(part, whole[:count], 0)
        if part.store.manifest(key) is not None:
            of_length[count] = key
    replaced = [of_length[count] for count in sorted(of_length)[:-1]]
    for key in replaced:
        paths = [path for path, _ in blobs.list(f"{base}/crawl={key.crawl}")]
        for path in sorted(paths, key=lambda p: not p.endswith(f"/{MANIFEST}")):  # first what makes it visible
            blobs.delete(path)
    return tuple(str(key.crawl) for key in replaced)


def _merge(table: pa.Table) -> pa.Table:
    doc = ids.pairs(table["doc_id"])
    order = np.lexsort((
        doc[:, 1], doc[:, 0], table["generation"].to_numpy(), table["key"].to_numpy(), table["band"].to_numpy()
    ))
    return table.take(pa.array(order)).cast(COMPACTED)


def opened(part: Partition, generations: list[Generation]) -> list[Opened]:
    """The runs to probe, in order of crawls: the longest compacted prefix there is, then single generations."""
    for count in range(len(generations), 1, -1):
        keys = tuple(_key(part, generations[:count], n) for n in range(part.buckets))
        manifests = [part.store.manifest(k) for k in keys]
        if all(m is not None for m in manifests):
            merged = Opened(tuple(g.crawl for g in generations[:count]), keys, tuple(m for m in manifests if m))
            return [merged, *(_single(part, g) for g in generations[count:])]
    return [_single(part, g) for g in generations]


def _single(part: Partition, generation: Generation) -> Opened:
    keys = tuple(part.key("band_index", n, generation.crawl) for n in range(part.buckets))
    return Opened((generation.crawl,), keys, generation.manifests)
