"""What a recipe and a policy say of the documents of one catalogue partition.

Belongs here: their predicates, compiled; the rule that leaves a document out, the parts it falls to, counts of both.
Does not belong here: record policy (``eligibility.py``), gathering what was selected by shard (``selection.py``).
"""

import json
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.mixture.predicates import Predicate
from gristmill.mixture.recipe import Part, Recipe, parts_of
from gristmill.release import derived, eligibility, language_tiers
from gristmill.release.policy import NUMBER, RULES, Policy, sampled_out
from gristmill.release.replaced import follow, replacements
from gristmill.store import Store

if TYPE_CHECKING:
    from gristmill.release.selection import Task

NOBODY = "(no source)"
SCORE_BINS = 20


class Compiled:
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


def where_now(store: Store, table: pa.Table) -> pa.Table:
    """The catalogue with shard and ordinal as they are after purges: a shard without the purged stands for another."""
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


def stands(task: "Task", table: pa.Table) -> np.ndarray:
    """Which documents are elected in the place of their cluster's excluded representative."""
    chosen = eligibility.read_elected(task.scratch, task.ranges, task.number).column("doc_id").combine_chunks()
    hit = pc.is_in(table.column("doc_id"), value_set=chosen)
    found: np.ndarray = hit.to_numpy(zero_copy_only=False).astype(bool)
    return found


def rules_of(task: "Task", plan: Compiled, table: pa.Table) -> tuple[np.ndarray, Any]:
    """(the number of the first rule that leaves a document out, or 0; its row among ``eligibility``'s, or null)."""
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


def assign(
    recipe: Recipe, plan: Compiled, table: pa.Table
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


def shared(plan: Compiled, chosen: list[np.ndarray]) -> dict[str, int]:
    """Documents by the parts that select them, where those are several (of different phases): a JSON list -> count."""
    matrix = np.stack(chosen, axis=1) if chosen else np.zeros((0, 0), bool)
    several = matrix[matrix.sum(axis=1) > 1]
    kinds, counts = np.unique(several, axis=0, return_counts=True)
    names = [[plan.parts[i].name for i in np.flatnonzero(kind).tolist()] for kind in kinds]
    return {json.dumps(n): int(count) for n, count in zip(names, counts, strict=True)}


def count(
    recipe: Recipe,
    plan: Compiled,
    table: pa.Table,
    rules: np.ndarray,
    in_shard: np.ndarray,
    tokens: np.ndarray,
    part_of: list[np.ndarray],
    sources_of: dict[str, np.ndarray],
) -> dict[str, Any]:
    """Plain JSON of one partition: of every part what it shows, of every rule what it leaves out of which source."""
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


def elected(
    task: "Task", table: pa.Table, rules: np.ndarray, where: Any, in_shard: np.ndarray
) -> list[dict[str, Any]]:
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
