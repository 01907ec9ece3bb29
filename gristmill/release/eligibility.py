"""From records to documents to clusters: which documents policy lets stand, and who is elected in whose place.

Belongs here: carrying record verdicts to documents, hold-out marks to every copy, and the re-election of a cluster's
representative; as three shuffles, so that no table holds all documents. Does not belong here: the rules (``policy.py``)
and what a recipe selects of what stands (``selection.py``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill import shuffle
from gristmill.acquire import robots, robots_sweep
from gristmill.release import tombstones
from gristmill.release.policy import NUMBER, Judge, Policy, licences
from gristmill.schemas import ID
from gristmill.store import Key, Store
from gristmill.workers import run_tasks

# One row a record, then one a document; ``home`` is crawl number x buckets + bucket of the document's catalogue row, -1
# where it has none among these crawls.
_RECORD = pa.schema(
    [
        ("doc_id", ID),
        ("cluster", ID),
        ("ordinal", pa.int32()),
        ("fetch_ts", pa.int64()),
        ("record_id", ID),
        ("home", pa.int32()),
        ("place", pa.int32()),
        ("rule", pa.int8()),
        ("held", pa.bool_()),
    ]
)
_DOCUMENT = pa.schema(
    [
        ("doc_id", ID),
        ("cluster", ID),
        ("ordinal", pa.int32()),
        ("fetch_ts", pa.int64()),
        ("record_id", ID),
        ("home", pa.int32()),
        ("place", pa.int32()),
        ("rule", pa.int8()),
        ("held", pa.bool_()),
    ]
)
EXCLUDED = pa.schema(
    [
        ("doc_id", ID),
        ("rule", pa.int8()),
        ("elected", ID),
        ("elected_record", ID),
        ("elected_place", pa.int32()),
    ]
)


# Members that stand in the place of an excluded representative; what else of a cluster is in a shard is not shown.
ELECTED = pa.schema([("doc_id", ID)])


@dataclass(frozen=True)
class Place:
    """One (crawl, host bucket) of a manifest: its ``catalogue_records``, and the robots rules of its hosts.

    Attributes:
        ordinal: of the crawl.
        records: the partition.
        robots: partitions of any crawl with robots.txt files of the bucket's hosts (role "robots" of unique_records);
            what nightly sweeps found is read beside them.
    """

    ordinal: int
    records: Key
    robots: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Task:
    """One partition or range of one step; picklable."""

    store: Store
    policy: Policy
    place: "Place | None"  # of the first step: what it reads
    scratch: str
    number: int
    places: int
    ranges: int

    def folder(self, step: str) -> Path:
        """Where a step's files lie."""
        return Path(self.scratch) / step

    def __str__(self) -> str:
        return f"eligibility[{self.number}]"


def write_cut(folder: Path, number: int, table: pa.Table, numbers: np.ndarray, ranges: int) -> None:
    """One file of a shuffle, cut by range."""
    data, where = shuffle.cut(table, numbers, ranges)
    (folder / f"{number:06d}.parquet").write_bytes(data)
    (folder / f"{number:06d}.ranges").write_text(";".join(f"{k}:{v[0]}" for k, v in sorted(where.items())), "ascii")


def read_cut(folder: Path, files: int, number: int, schema: pa.Schema) -> pa.Table:
    """One range of every file of a shuffle, in file order."""
    tables = [schema.empty_table()]
    for i in range(files):
        where = dict(p.split(":") for p in (folder / f"{i:06d}.ranges").read_text("ascii").split(";") if p)
        group = where.get(str(number))
        if group is not None:
            with pq.ParquetFile(folder / f"{i:06d}.parquet") as file:
                tables.append(file.read_row_group(int(group), use_threads=False).cast(schema))
    return pa.concat_tables(tables)


def judge(store: Store, policy: Policy) -> Judge:
    """The policy with the registries as they are now."""
    return Judge(policy, tombstones.read(store), licences(store))


def records_step(task: Task) -> None:
    """Map over (crawl, bucket): every record's verdict, cut by document."""
    assert task.place is not None
    ordinal = task.place.ordinal
    table = task.store.read(task.place.records)
    rules = [task.store.read(k, role="robots") for k in task.place.robots]
    if task.place.records.bucket is not None:
        rules.append(robots_sweep.versions(task.store, task.place.records.bucket))
    registry = robots.from_table(pa.concat_tables(rules)) if any(t.num_rows for t in rules) else None
    n = table.num_rows
    place = np.full(n, task.number, np.int32)
    first = table.column("first").to_numpy(zero_copy_only=False).astype(bool)
    out = pa.table(
        {
            "doc_id": table.column("doc_id"),
            "cluster": table.column("dup_cluster_id"),
            "ordinal": pa.array(np.full(n, ordinal, np.int32)),
            "fetch_ts": table.column("fetch_ts").cast(pa.int64()).fill_null(-1),
            "record_id": table.column("record_id"),
            "home": pa.array(np.where(first, place, -1).astype(np.int32)),
            "place": pa.array(place),
            "rule": pa.array(judge(task.store, task.policy).records(table, registry), pa.int8()),
            "held": pc.is_valid(table.column("holdout")),
        },
        schema=_RECORD,
    )
    write_cut(
        task.folder("records"),
        task.number,
        out,
        shuffle.range_of(shuffle.first_uint64(out.column("doc_id")), task.ranges),
        task.ranges,
    )


def _order(table: pa.Table, *keys: str) -> pa.Table:
    return table.take(pc.sort_indices(table.select(list(keys)), sort_keys=[(k, "ascending") for k in keys]))


def _starts(ids: pa.ChunkedArray) -> np.ndarray:
    """Row at which each run of equal ids starts."""
    n = len(ids)
    if n == 0:
        return np.zeros(0, np.int64)
    raw = np.frombuffer(ids.combine_chunks().buffers()[1], np.uint8)
    array = ids.combine_chunks()
    raw = raw[array.offset * 16 : (array.offset + n) * 16].reshape(n, 16)
    return np.flatnonzero(np.concatenate([[True], (raw[1:] != raw[:-1]).any(axis=1)]))


def documents_step(task: Task) -> None:
    """Reduce by document: one row a document, or one for each crawl in which it has a catalogue row; cut by cluster."""
    table = read_cut(task.folder("records"), task.places, task.number, _RECORD)
    table = _order(table.combine_chunks(), "doc_id", "ordinal", "fetch_ts", "record_id")
    n = table.num_rows
    starts = _starts(table.column("doc_id"))
    group = np.zeros(n, np.int64)
    group[starts[1:]] = 1
    group = np.cumsum(group)
    rule = table.column("rule").to_numpy()
    held = table.column("held").to_numpy(zero_copy_only=False).astype(bool)
    home = table.column("home").to_numpy()
    eligible = np.zeros(len(starts), bool)
    np.logical_or.at(eligible, group, rule == 0)
    any_held = np.zeros(len(starts), bool)
    np.logical_or.at(any_held, group, held)
    # The first eligible record stands for the document; where there is none, its first record's rule is the reason.
    speaker = starts.copy()
    at = np.flatnonzero(rule == 0)[::-1]
    speaker[group[at]] = at
    # The first crawl that put it in a cluster decides; a document in none is its own.
    first_valid = np.full(len(starts), -1, np.int64)
    at = np.flatnonzero(pc.is_valid(table.column("cluster")).to_numpy(zero_copy_only=False))[::-1]
    first_valid[group[at]] = at
    pick = pa.array(np.maximum(first_valid, 0), mask=first_valid < 0)
    own = table.column("doc_id").take(pa.array(starts)).combine_chunks()
    cluster = pc.coalesce(table.column("cluster").take(pick).combine_chunks(), own)
    rows = np.unique(np.concatenate([np.flatnonzero(home >= 0), starts]))  # every home, and the first row of each
    homes = np.zeros(len(starts), np.int64)
    np.add.at(homes, group[home >= 0], 1)
    keep = (home[rows] >= 0) | (homes[group[rows]] == 0)
    rows = rows[keep]
    g = group[rows]
    out = pa.table(
        {
            "doc_id": table.column("doc_id").take(pa.array(rows)),
            "cluster": cluster.take(pa.array(g)),
            "ordinal": table.column("ordinal").take(pa.array(speaker[g])),
            "fetch_ts": table.column("fetch_ts").take(pa.array(speaker[g])),
            "record_id": table.column("record_id").take(pa.array(speaker[g])),
            "home": pa.array(home[rows], pa.int32()),
            "place": table.column("place").take(pa.array(speaker[g])),
            "rule": pa.array(np.where(eligible[g], 0, rule[starts[g]]).astype(np.int8)),
            "held": pa.array(any_held[g]),
        },
        schema=_DOCUMENT,
    )
    write_cut(
        task.folder("documents"),
        task.number,
        out,
        shuffle.range_of(shuffle.first_uint64(out.column("cluster")), task.ranges),
        task.ranges,
    )


def clusters_step(task: Task) -> None:
    """Reduce by cluster: hold-out marks spread to all members, and the first eligible member is found; cut by home."""
    table = read_cut(task.folder("documents"), task.ranges, task.number, _DOCUMENT)
    table = _order(table.combine_chunks(), "cluster", "ordinal", "fetch_ts", "record_id", "doc_id", "home")
    starts = _starts(table.column("cluster"))
    n = table.num_rows
    sizes = np.diff(np.concatenate([starts, [n]]))
    group = np.repeat(np.arange(len(starts)), sizes)
    held = table.column("held").to_numpy(zero_copy_only=False).astype(bool)
    rule = table.column("rule").to_numpy().copy()
    stones = judge(task.store, task.policy).tombstones.docs
    ids = table.column("doc_id")
    if stones:
        hit = pc.is_in(ids, value_set=pa.array(sorted(stones), ID)).to_numpy(zero_copy_only=False).astype(bool)
        rule[hit] = NUMBER["tombstone_doc"]
    spread = np.zeros(len(starts), bool)
    np.logical_or.at(spread, group, held)
    rule[spread[group] & ~held] = NUMBER["holdout_copy"]
    rule[held] = NUMBER["holdout"]
    chosen = np.full(len(starts), -1, np.int64)
    at = np.flatnonzero(rule == 0)[::-1]
    chosen[group[at]] = at
    out_rows = np.flatnonzero(rule != 0)
    elected = chosen[group[out_rows]]
    valid = elected >= 0
    pick = pa.array(np.where(valid, elected, 0), pa.int64(), mask=~valid)
    excluded = pa.table(
        {
            "doc_id": ids.take(pa.array(out_rows)),
            "rule": pa.array(rule[out_rows], pa.int8()),
            "elected": ids.take(pick),
            "elected_record": table.column("record_id").take(pick),
            "elected_place": table.column("place").take(pick),
        },
        schema=EXCLUDED,
    )
    home = table.column("home").to_numpy()[out_rows]
    keep = home >= 0
    write_cut(
        task.folder("excluded"), task.number, excluded.filter(pa.array(keep)), home[keep].astype(np.int64), task.places
    )
    # Every catalogue row of a document that is chosen although it is not its cluster's first.
    own = pc.is_in(ids, value_set=ids.take(pa.array(np.unique(chosen[chosen >= 0]))).combine_chunks())
    homes = table.column("home").to_numpy()
    first = pc.is_in(ids, value_set=ids.take(pa.array(starts)).combine_chunks()).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(own.to_numpy(zero_copy_only=False).astype(bool) & (homes >= 0) & ~first.astype(bool))
    stands = pa.table({"doc_id": ids.take(pa.array(rows))}, schema=ELECTED)
    write_cut(task.folder("elected"), task.number, stands, homes[rows].astype(np.int64), task.places)


def run(
    store: Store,
    policy: Policy,
    places: Sequence[Place],
    scratch: str,
    ranges: int,
    workers: int,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """All three steps; ``read_excluded`` then gives what is excluded of each catalogue partition."""
    for folder in ("records", "documents", "excluded", "elected"):
        (Path(scratch) / folder).mkdir(parents=True, exist_ok=True)
    steps: list[tuple[str, Callable[[Task], None], int]] = [
        ("records", records_step, len(places)),
        ("documents", documents_step, ranges),
        ("clusters", clusters_step, ranges),
    ]
    for name, function, count in steps:
        tasks = [
            Task(store, policy, places[i] if name == "records" else None, scratch, i, len(places), ranges)
            for i in range(count)
        ]
        for done, _ in enumerate(run_tasks(function, tasks, workers if workers > 1 else 0)):
            if progress:
                progress(name, done + 1, count)


def read_excluded(scratch: str, ranges: int, place: int) -> pa.Table:
    """EXCLUDED of one catalogue partition."""
    return read_cut(Path(scratch) / "excluded", ranges, place, EXCLUDED)


def read_elected(scratch: str, ranges: int, place: int) -> pa.Table:
    """ELECTED of one catalogue partition."""
    return read_cut(Path(scratch) / "elected", ranges, place, ELECTED)


def excluded_rules(doc_id: pa.ChunkedArray, excluded: pa.Table) -> tuple[np.ndarray, Any]:
    """(rule number of each document, row of each in ``excluded`` or null)."""
    where = pc.index_in(doc_id, value_set=excluded.column("doc_id").combine_chunks())
    if isinstance(where, pa.ChunkedArray):
        where = where.combine_chunks()
    rules = excluded.column("rule").take(where).fill_null(0).to_numpy()
    return rules.astype(np.int8), where
