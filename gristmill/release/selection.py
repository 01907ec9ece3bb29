"""What a recipe selects: a map over catalogue partitions and a merge by shard.

Belongs here: applying predicates and document rules to a bucket, counting, and gathering the selected documents of each
shard. Does not belong here: record policy (``eligibility.py``) and the manifest's form (``manifest.py``).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill import shuffle
from gristmill.mixture.predicates import Predicate
from gristmill.mixture.recipe import Part, Recipe, parts_of
from gristmill.release import derived, eligibility, language_tiers
from gristmill.release.policy import NUMBER, RULES, Policy, sampled_out
from gristmill.schemas import ID
from gristmill.store import Key, Store
from gristmill.tokens import packing
from gristmill.workers import run_tasks

NOBODY = "(no source)"
SCORE_BINS = 20

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


class _Plan:
    """The recipe's and the policy's predicates, compiled once a process."""

    def __init__(self, recipe: Recipe, policy: Policy, schema: pa.Schema) -> None:
        self.parts: list[Part] = parts_of(recipe)
        self.compiled: dict[str, Predicate] = {}
        for part in self.parts:
            for text in (*part.predicates, *part.excluded):
                self.compiled.setdefault(text, Predicate(text, f"source {part.source}", schema))
        self.safety = [Predicate(t, "policy.safety", schema) for t in policy.safety]
        self.downweight = [Predicate(d.where, "policy.downweight", schema) for d in policy.downweight]
        self.columns = sorted(
            {c for p in (*self.compiled.values(), *self.safety, *self.downweight) for c in p.columns}
            | {
                "doc_id",
                "shard",
                "ordinal",
                "n_tokens",
                "lang",
                "host_id",
                "contaminated",
                "benchmarks",
                "survives",
                "source_tier",
                "length_bucket",
            }
        )
        if policy.language_tiers is not None:
            language_tiers.check(policy.language_tiers, schema)
            self.columns = sorted({*self.columns, *language_tiers.columns(policy.language_tiers)})
        self.hard_removal = policy.hard_removal and "hard_removal" in schema.names
        if self.hard_removal:
            self.columns = sorted({*self.columns, "hard_removal"})
        self.score = next((c for c in ("ensemble_percentile",) if c in schema.names), None)
        if self.score:
            self.columns = sorted({*self.columns, self.score})


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
    _Plan(recipe, policy, schema)


def map_step(task: Task) -> dict[str, Any]:
    """One catalogue partition: verdicts, picks cut by shard, and counts (plain JSON values)."""
    plan = _Plan(task.recipe, task.policy, task.schema)
    assert task.catalogue is not None
    table = _where_now(task.store, task.store.read(task.catalogue, plan.columns))
    rules, where = _verdicts(task, plan, table)
    stands = _stands(task, table)
    survives = table.column("survives").fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    in_shard = pc.is_valid(table.column("shard")).to_numpy(zero_copy_only=False).astype(bool)
    # One that was tokenised when it was elected, and whose representative may be shown again, waits in its shard.
    in_shard &= survives | stands
    tokens = table.column("n_tokens").fill_null(0).to_numpy().astype(np.int64)
    part_of, sources_of, overlaps = _assign(task.recipe, plan, table)
    counts = _counts(task.recipe, plan, table, rules, in_shard, tokens, part_of, sources_of)
    counts["overlaps"] = overlaps
    counts["shared"] = _shared(plan, [mask & in_shard & (rules == 0) for mask in part_of])
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
    counts["elected"] = _elected(task, table, rules, where, in_shard)
    ids = table.column("doc_id").take(pa.array(np.flatnonzero(stands & in_shard)))
    counts["elected_in_shard"] = [i.hex() for i in ids.to_pylist()]
    return counts


def _where_now(store: Store, table: pa.Table) -> pa.Table:
    """The catalogue with shard and ordinal as they are after purges: a shard without the purged stands for another."""
    from gristmill.release.replaced import follow, replacements

    replaced = replacements(store)
    if not replaced:
        return table
    hit = pc.is_in(table.column("shard"), value_set=pa.array(sorted(replaced), pa.string()))
    if not pc.any(hit).as_py():
        return table
    names, ordinals = follow(
        table.column("shard").to_pylist(), table.column("ordinal").fill_null(0).to_numpy(), replaced
    )
    gone = np.array([n is None for n in names], bool)
    table = table.set_column(table.column_names.index("shard"), "shard", pa.array(names, pa.string()))
    at = pa.array(ordinals.astype(np.uint32), pa.uint32(), mask=gone)
    return table.set_column(table.column_names.index("ordinal"), "ordinal", at)


def _stands(task: Task, table: pa.Table) -> np.ndarray:
    """Which documents are elected in the place of their cluster's excluded representative."""
    elected = eligibility.read_elected(task.scratch, task.ranges, task.number).column("doc_id").combine_chunks()
    hit = pc.is_in(table.column("doc_id"), value_set=elected)
    found: np.ndarray = hit.to_numpy(zero_copy_only=False).astype(bool)
    return found


def _verdicts(task: Task, plan: _Plan, table: pa.Table) -> tuple[np.ndarray, Any]:
    excluded = eligibility.read_excluded(task.scratch, task.ranges, task.number)
    rules, where = eligibility.excluded_rules(table.column("doc_id"), excluded)
    policy = task.policy

    def mark(rule: str, hit: np.ndarray) -> None:
        rules[(rules == 0) & hit] = NUMBER[rule]

    if plan.hard_removal:
        mark("hard_removal", pc.is_valid(table.column("hard_removal")).to_numpy(zero_copy_only=False).astype(bool))
    if policy.contamination:
        mark("contamination", derived.contaminated(table, policy))
        mark("derived", derived.hits(task.scratch, table.column("doc_id")))
    for predicate in plan.safety:
        mark("safety", predicate.mask(table))
    if policy.language_tiers is not None:

        def drops(keep: Decimal, lang: str) -> np.ndarray:
            return sampled_out(table.column("doc_id"), keep, policy.seed, language_tiers.NUMBER)

        mark(language_tiers.RULE, language_tiers.falls(policy.language_tiers, task.sizes, table, drops))
    for number, (predicate, rule) in enumerate(zip(plan.downweight, policy.downweight, strict=True)):
        mark("downweight", predicate.mask(table) & sampled_out(table.column("doc_id"), rule.keep, policy.seed, number))
    return rules, where


def _assign(
    recipe: Recipe, plan: _Plan, table: pa.Table
) -> tuple[list[np.ndarray], dict[str, np.ndarray], dict[str, int]]:
    """Masks of parts and of sources; and, per phase and pair of its sources, documents that are in both."""
    masks = {text: predicate.mask(table) for text, predicate in plan.compiled.items()}
    part_of = []
    for part in plan.parts:
        mask = np.ones(table.num_rows, bool)
        for text in part.predicates:
            mask &= masks[text]
        for text in part.excluded:
            mask &= ~masks[text]
        part_of.append(mask)
    sources_of = {name: masks[source.where] for name, source in recipe.sources.items()}
    overlaps: dict[str, int] = {}
    for phase in recipe.phases:
        names = sorted(phase.weights)
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                both = int((sources_of[a] & sources_of[b]).sum())
                if both:
                    overlaps[json.dumps([phase.name, a, b])] = both
    return part_of, sources_of, overlaps


def _shared(plan: _Plan, chosen: list[np.ndarray]) -> dict[str, int]:
    """Documents by the parts that select them, where those are several (of different phases): a JSON list -> count."""
    matrix = np.stack(chosen, axis=1) if chosen else np.zeros((0, 0), bool)
    several = matrix[matrix.sum(axis=1) > 1]
    kinds, counts = np.unique(several, axis=0, return_counts=True)
    names = [[plan.parts[i].name for i in np.flatnonzero(kind).tolist()] for kind in kinds]
    return {json.dumps(n): int(count) for n, count in zip(names, counts, strict=True)}


def _counts(
    recipe: Recipe,
    plan: _Plan,
    table: pa.Table,
    rules: np.ndarray,
    in_shard: np.ndarray,
    tokens: np.ndarray,
    part_of: list[np.ndarray],
    sources_of: dict[str, np.ndarray],
) -> dict[str, Any]:
    nobody = np.ones(table.num_rows, bool)
    for mask in sources_of.values():
        nobody &= ~mask
    exclusions: dict[str, dict[str, list[int]]] = {}
    for number in np.unique(rules[in_shard & (rules != 0)]).tolist():
        for name, mask in (*sources_of.items(), (NOBODY, nobody)):
            hit = mask & in_shard & (rules == number)
            if hit.any():
                exclusions.setdefault(RULES[number], {})[name] = [int(hit.sum()), int(tokens[hit].sum())]
    langs = np.array([x or "und" for x in table.column("lang").to_pylist()], object)
    lengths = np.zeros(table.num_rows, np.int64)
    lengths[tokens > 0] = np.floor(np.log2(tokens[tokens > 0])).astype(np.int64)
    score = table.column(plan.score).to_numpy(zero_copy_only=False).astype(np.float64) if plan.score else None
    parts: dict[str, Any] = {}
    for number, part in enumerate(plan.parts):
        hit = part_of[number] & in_shard & (rules == 0)
        by_lang: dict[str, list[int]] = {}
        for lang in sorted(set(langs[hit].tolist())):
            own = hit & (langs == lang)
            by_lang[lang] = [int(own.sum()), int(tokens[own].sum())]
        entry: dict[str, Any] = {
            "docs": int(hit.sum()),
            "tokens": int(tokens[hit].sum()),
            "by_lang": by_lang,
            "lengths": {str(k): v for k, v in sorted(Counter(lengths[hit].tolist()).items())},
        }
        if score is not None:
            values = score[hit]
            values = values[~np.isnan(values)]
            bins = np.minimum((values * SCORE_BINS).astype(np.int64), SCORE_BINS - 1)
            entry["scores"] = {str(k): v for k, v in sorted(Counter(bins.tolist()).items())}
        parts[part.name] = entry
    return {"parts": parts, "exclusions": exclusions}


def _elected(task: Task, table: pa.Table, rules: np.ndarray, where: Any, in_shard: np.ndarray) -> list[dict[str, Any]]:
    """Excluded representatives in whose place another member may stand; it must still be tokenised."""
    excluded = eligibility.read_excluded(task.scratch, task.ranges, task.number)
    survives = table.column("survives").to_numpy(zero_copy_only=False).astype(bool)
    rows = np.flatnonzero((rules != 0) & (rules < NUMBER["contamination"]) & survives & in_shard)
    if not len(rows):
        return []
    found = excluded.take(where.take(pa.array(rows))).to_pylist()
    ids = table.column("doc_id").take(pa.array(rows)).to_pylist()
    return [
        {
            "instead_of": doc.hex(),
            "rule": RULES[row["rule"]],
            "doc_id": row["elected"].hex(),
            "record_id": row["elected_record"].hex(),
            "place": row["elected_place"],
        }
        for doc, row in zip(ids, found, strict=True)
        if row["elected"] is not None
    ]


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
