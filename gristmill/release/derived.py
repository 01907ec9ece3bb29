"""What is made from a document that may not be shown: contamination and hold-out marks go down ``derived_from``.

Belongs here: finding every descendant of such a document, over all crawls of a version. Does not belong here: which
documents are contaminated (``decontaminate/``) or held out (``eligibility.py``).

A rewritten benchmark item shares few n-grams with the item; its parent does. Documents that carry ``derived_from`` are
the synthetic tier's alone, so where a version has none this costs one pass over three columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.release import eligibility
from gristmill.release.policy import NUMBER, Policy
from gristmill.schemas import ID
from gristmill.store import Key, Store
from gristmill.workers import run_tasks

COLUMNS = ["doc_id", "derived_from", "contaminated", "benchmarks"]
EDGES = pa.schema([("doc_id", ID), ("derived_from", ID)])
MARKED = pa.schema([("doc_id", ID)])
HELD = (NUMBER["holdout"], NUMBER["holdout_copy"])


@dataclass(frozen=True)
class Task:
    """One catalogue partition; picklable."""

    store: Store
    policy: Policy
    catalogue: Key
    scratch: str
    number: int
    ranges: int

    def __str__(self) -> str:
        return f"derived[{self.number}]"


def contaminated(table: pa.Table, policy: Policy) -> np.ndarray:
    """Bool [rows]: which documents hold an item of the benchmarks that the policy names."""
    hit: np.ndarray = table.column("contaminated").to_numpy(zero_copy_only=False).astype(bool)
    if policy.contamination_benchmarks is not None:
        named = set(policy.contamination_benchmarks)
        hit &= np.array([bool(named & set(b or [])) for b in table.column("benchmarks").to_pylist()], bool)
    return hit


def map_step(task: Task) -> int:
    """Write a partition's edges and its marked documents; how many edges there are."""
    table = task.store.read(task.catalogue, COLUMNS)
    edges = table.filter(pc.is_valid(table.column("derived_from"))).select(EDGES.names)
    excluded = eligibility.read_excluded(task.scratch, task.ranges, task.number)
    held = excluded.filter(pc.is_in(excluded.column("rule"), value_set=pa.array(HELD, pa.int8()))).column("doc_id")
    own = table.column("doc_id").filter(pa.array(contaminated(table, task.policy)))
    marked = pa.chunked_array([*own.chunks, *held.chunks], ID)
    folder = Path(task.scratch) / "derived"
    pq.write_table(edges.cast(EDGES), folder / f"edges-{task.number:06d}.parquet")
    pq.write_table(pa.table({"doc_id": marked}, schema=MARKED), folder / f"marked-{task.number:06d}.parquet")
    return edges.num_rows


def run(
    store: Store, policy: Policy, catalogues: Sequence[Key], scratch: str, ranges: int, workers: int
) -> None:
    """Find all descendants; ``hits`` then says which documents they are. After ``eligibility.run``."""
    folder = Path(scratch) / "derived"
    folder.mkdir(parents=True, exist_ok=True)
    found: pa.Array = pa.array([], ID)
    if policy.contamination:
        tasks = [Task(store, policy, key, scratch, i, ranges) for i, key in enumerate(catalogues)]
        edges = dict(run_tasks(map_step, tasks, workers))
        with_edges = [n for n, count in sorted(edges.items()) if count]
        if with_edges:
            found = _descendants(folder, len(catalogues), with_edges)
    pq.write_table(pa.table({"doc_id": found}, schema=MARKED), folder / "inherited.parquet")


def _descendants(folder: Path, places: int, with_edges: list[int]) -> pa.Array:
    """Children of marked documents, their children, and so on; a generation a round."""
    marked = [pq.read_table(folder / f"marked-{n:06d}.parquet").column("doc_id") for n in range(places)]
    front = pc.unique(pa.chunked_array([c for m in marked for c in m.chunks], ID))
    found: pa.Array = pa.array([], ID)
    while len(front):
        children = []
        for number in with_edges:
            edges = pq.read_table(folder / f"edges-{number:06d}.parquet", schema=EDGES)
            children += edges.filter(pc.is_in(edges.column("derived_from"), value_set=front)).column("doc_id").chunks
        fresh = pc.unique(pa.chunked_array(children, ID))
        front = fresh.filter(pc.invert(pc.is_in(fresh, value_set=found)))
        found = pa.concat_arrays([found, front])
    return found


def hits(scratch: str, doc_id: pa.ChunkedArray) -> np.ndarray:
    """bool: which of these documents are made from one that may not be shown."""
    found = pq.read_table(Path(scratch) / "derived" / "inherited.parquet", schema=MARKED).column("doc_id")
    hit: np.ndarray = pc.is_in(doc_id, value_set=found.combine_chunks()).to_numpy(zero_copy_only=False).astype(bool)
    return hit
