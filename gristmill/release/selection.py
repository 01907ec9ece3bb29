"""What a recipe selects: a map over catalogue partitions and a merge by shard.

Belongs here: running over the partitions, gathering the selected documents of each shard, adding up the counts. Does
not belong here: what is said of a document (``verdicts.py``, ``eligibility.py``), the form of it (``manifest.py``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill import shuffle
from gristmill.mixture.recipe import Recipe
from gristmill.release import derived, eligibility, language_tiers, verdicts
from gristmill.release.policy import RULES, Policy
from gristmill.schemas import ID
from gristmill.store import Key, Store
from gristmill.tokens import packing
from gristmill.workers import run_tasks

_PICK = pa.schema(
    [
        ("part", pa.int32()),
        ("shard", pa.string()),
        ("ordinal", pa.uint32()),
        ("n_tokens", pa.int64()),
        ("container", pa.uint64()),
    ]
)
MERGED = pa.schema(
    [
        ("part", pa.int32()),
        ("shard", pa.string()),
        ("ordinals", pa.list_(pa.uint32())),
        ("n_docs", pa.int64()),
        ("n_tokens", pa.int64()),
        ("sequences", pa.list_(pa.int64())),
    ]
)
# What a version leaves out of a catalogue partition, and by which rule: what `explain` answers with.
EXCLUDED = pa.schema([("doc_id", ID), ("rule", pa.string())])
ELECTED = pa.schema(
    [
        ("instead_of", ID),
        ("rule", pa.string()),
        ("doc_id", ID),
        ("record_id", ID),
        ("crawl", pa.string()),
        ("host_bucket", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Task:
    """One catalogue partition, or one range of shards; picklable."""

    store: Store
    recipe: Recipe
    policy: Policy
    schema: pa.Schema  # the catalogue's
    catalogue: Key | None  # of the first step: the partition it reads
    places: int
    scratch: str
    number: int
    ranges: int
    layouts: tuple[str, ...]
    sizes: Mapping[str, language_tiers.Threshold] = field(default_factory=dict)  # of policy.language_tiers

    def __str__(self) -> str:
        return f"selection[{self.number}]"


def excluded_file(scratch: str, number: int) -> Path:
    """EXCLUDED of one catalogue partition, after ``run``."""
    return Path(scratch) / "excluded_documents" / f"{number:06d}.parquet"


def merged_file(scratch: str, number: int) -> Path:
    """MERGED of one range of shards."""
    return Path(scratch) / "merged" / f"{number:06d}.parquet"


def range_of_shard(name: str, ranges: int) -> int:
    """The range in which a shard's hash falls; monotone in the hash."""
    return int(name[:8], 16) * ranges >> 32


def check_predicates(recipe: Recipe, policy: Policy, schema: pa.Schema) -> None:
    """Raise RecipeError for a predicate that the catalogue cannot answer."""
    verdicts.Compiled(recipe, policy, schema)


def map_step(task: Task) -> dict[str, Any]:
    """One catalogue partition: verdicts, picks cut by shard, and counts (plain JSON values)."""
    plan = verdicts.Compiled(task.recipe, task.policy, task.schema)
    assert task.catalogue is not None
    table = verdicts.where_now(task.store, task.store.read(task.catalogue, plan.columns))
    rules, where = verdicts.rules_of(task, plan, table)
    stands = verdicts.stands(task, table)
    survives = table.column("survives").fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    in_shard = pc.is_valid(table.column("shard")).to_numpy(zero_copy_only=False).astype(bool)
    # One that was tokenised when it was elected, and whose representative may be shown again, waits in its shard.
    in_shard &= survives | stands
    tokens = table.column("n_tokens").fill_null(0).to_numpy().astype(np.int64)
    part_of, sources_of, overlaps = verdicts.assign(task.recipe, plan, table)
    counts = verdicts.count(task.recipe, plan, table, rules, in_shard, tokens, part_of, sources_of)
    counts["overlaps"] = overlaps
    counts["shared"] = verdicts.shared(plan, [mask & in_shard & (rules == 0) for mask in part_of])
    counts["no_shard"] = int((~in_shard).sum())
    picks = []
    for number in range(len(plan.parts)):
        rows = np.flatnonzero(part_of[number] & in_shard & (rules == 0))
        picks.append(
            pa.table(
                {
                    "part": pa.array(np.full(len(rows), number, np.int32)),
                    "shard": table.column("shard").take(pa.array(rows)),
                    "ordinal": table.column("ordinal").take(pa.array(rows)),
                    "n_tokens": pa.array(tokens[rows]),
                    "container": table.column("host_id").take(pa.array(rows)).cast(pa.uint64()),
                },
                schema=_PICK,
            )
        )
    pick = pa.concat_tables(picks) if picks else _PICK.empty_table()
    numbers = np.array([range_of_shard(h, task.ranges) for h in pick.column("shard").to_pylist()], np.int64)
    eligibility.write_cut(Path(task.scratch) / "picks", task.number, pick, numbers, task.ranges)
    out = np.flatnonzero(in_shard & (rules != 0))
    excluded = pa.table(
        {
            "doc_id": table.column("doc_id").take(pa.array(out)),
            "rule": pa.DictionaryArray.from_arrays(rules[out].astype(np.int8), pa.array(RULES)).cast(pa.string()),
        },
        schema=EXCLUDED,
    )
    pq.write_table(shuffle.sort_by(excluded, "doc_id"), excluded_file(task.scratch, task.number), compression="zstd")
    counts["elected"] = verdicts.elected(task, table, rules, where, in_shard)
    ids = table.column("doc_id").take(pa.array(np.flatnonzero(stands & in_shard)))
    counts["elected_in_shard"] = [i.hex() for i in ids.to_pylist()]
    return counts


def merge_step(task: Task) -> tuple[str, int]:
    """One range of shards: its selected documents by (part, shard), with sequences by layout; a file of MERGED."""
    table = eligibility.read_cut(Path(task.scratch) / "picks", task.places, task.number, _PICK).combine_chunks()
    table = table.take(
        pc.sort_indices(
            table.select(["part", "shard", "ordinal"]),
            sort_keys=[("part", "ascending"), ("shard", "ascending"), ("ordinal", "ascending")],
        )
    )
    modes = [packing.parse_layout(name) for name in task.layouts]
    related = any(mode == "related" for mode, _ in modes)
    rows: list[dict[str, Any]] = []
    parts = table.column("part").to_numpy()
    shards = table.column("shard").to_pylist()
    ordinals = table.column("ordinal").to_numpy()
    tokens = table.column("n_tokens").to_numpy()
    containers = table.column("container").fill_null(0).to_numpy()
    start = 0
    n = table.num_rows
    while start < n:
        end = start
        while end < n and parts[end] == parts[start] and shards[end] == shards[start]:
            end += 1
        # Two crawls may name one shard: its documents count once.
        own, first = np.unique(ordinals[start:end], return_index=True)
        lengths = tokens[start:end][first]
        sequences = [packing.count(lengths, seq_len, mode) for mode, seq_len in modes]
        if related:  # the selection gives their reading order; the other modes read them by ordinal
            own = own[packing.related_order(containers[start:end][first])]
        rows.append(
            {
                "part": int(parts[start]),
                "shard": shards[start],
                "ordinals": own,
                "n_docs": len(own),
                "n_tokens": int(lengths.sum()),
                "sequences": sequences,
            }
        )
        start = end
    path = merged_file(task.scratch, task.number)
    pq.write_table(pa.Table.from_pylist(rows, schema=MERGED), path)
    return str(path), len(rows)


def run(
    task: Task,
    places: Sequence[tuple[str, int, Key]],
    workers: int,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Both steps; MERGED files then lie in ``scratch/merged``.

    Args:
        task: what is the same for all.
        places: (crawl, bucket, catalogue partition), in the order of ``eligibility``'s.
        workers: processes.
        progress: called with (step, done, of).

    Returns:
        the counts of every partition, in order of places.
    """
    for folder in ("picks", "merged", "excluded_documents"):
        (Path(task.scratch) / folder).mkdir(parents=True, exist_ok=True)
    pool = workers if workers > 1 else 0
    derived.run(task.store, task.policy, [key for _, _, key in places], task.scratch, task.ranges, pool)
    counts: list[dict[str, Any]] = [{}] * len(places)
    tasks = [replace(task, number=i, catalogue=key) for i, (_, _, key) in enumerate(places)]
    for done, (index, value) in enumerate(run_tasks(map_step, tasks, pool)):
        for elected in value["elected"]:
            elected["crawl"], elected["host_bucket"] = places[elected.pop("place")][:2]
        counts[index] = value
        if progress:
            progress("catalogue", done + 1, len(places))
    tasks = [replace(task, number=i) for i in range(task.ranges)]
    for done, _ in enumerate(run_tasks(merge_step, tasks, pool)):
        if progress:
            progress("shards", done + 1, task.ranges)
    return counts


def merged(scratch: str, ranges: int) -> Iterable[pa.Table]:
    """MERGED by range, in order of shard hashes."""
    for number in range(ranges):
        yield pq.read_table(merged_file(scratch, number), schema=MERGED)


def total(counts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Counts of all partitions, added up: parts, exclusions, overlaps, shared, elected, no_shard."""
    out: dict[str, Any] = {"parts": {}, "exclusions": {}, "overlaps": {}, "shared": {}, "elected": [], "no_shard": 0}
    tokenised: set[str] = set()
    for one in counts:
        for name, entry in one["parts"].items():
            mine = out["parts"].setdefault(name, {"docs": 0, "tokens": 0, "by_lang": {}, "lengths": {}, "scores": {}})
            mine["docs"] += entry["docs"]
            mine["tokens"] += entry["tokens"]
            for lang, (docs, tokens) in entry["by_lang"].items():
                cell = mine["by_lang"].setdefault(lang, [0, 0])
                cell[0] += docs
                cell[1] += tokens
            for which in ("lengths", "scores"):
                for k, v in entry.get(which, {}).items():
                    mine[which][k] = mine[which].get(k, 0) + v
        for rule, by_source in one["exclusions"].items():
            for source, (docs, tokens) in by_source.items():
                cell = out["exclusions"].setdefault(rule, {}).setdefault(source, [0, 0])
                cell[0] += docs
                cell[1] += tokens
        for which in ("overlaps", "shared"):
            for name, docs in one[which].items():
                out[which][name] = out[which].get(name, 0) + docs
        out["elected"] += one["elected"]
        tokenised |= set(one["elected_in_shard"])
        out["no_shard"] += one["no_shard"]
    out["elected"] = [e for e in out["elected"] if e["doc_id"] not in tokenised]
    return out
