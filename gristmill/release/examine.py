"""What a recipe selects under a policy, before anything is written: ``gristmill recipe check``.

Belongs here: running eligibility and selection over the crawls' catalogues, weights of parts, the compiled schedule,
and explaining all that to a person. Does not belong here: writing a manifest (``manifest.py``).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.errors import ManifestError, RecipeError
from gristmill.funnel import Plan
from gristmill.mixture import recipe as recipes
from gristmill.mixture.recipe import Recipe, show
from gristmill.mixture.schedule import Schedule, compile_schedule
from gristmill.params import SiteConfig
from gristmill.registry import Registry
from gristmill.release import compaction, eligibility, language_tiers, selection
from gristmill.release import policy as policies
from gristmill.release.compaction import Compaction
from gristmill.release.policy import Policy
from gristmill.release.replaced import replacements
from gristmill.release.shard_table import Named, ShardTable
from gristmill.schemas import SHARDS
from gristmill.store import Key, Store
from gristmill.tokens import packing

Progress = Callable[[str, int, int], None]


@dataclass
class Examined:
    """What a recipe selects, before anything is written.

    Attributes:
        recipe, policy, crawls: as given.
        counts: totals of ``selection.total``.
        tokens: part -> unique tokens selected.
        sequences: layout -> part -> sequences of one epoch.
        phases: the manifest's phases, weights by part.
        max_epochs: part -> decimal string.
        schedule: the compiled segments, None where ``problems`` says why there are none.
        problems: why the recipe cannot be, with the numbers; empty when it can.
        shards: every shard that a manifest of these crawls may name.
        compaction: what the thin ones of them become; nothing of it is written yet.
    """

    recipe: Recipe
    policy: Policy
    crawls: tuple[str, ...]
    counts: dict[str, Any]
    tokens: dict[str, int]
    sequences: dict[str, dict[str, int]]
    layouts: tuple[str, ...]
    phases: list[dict[str, Any]] = field(default_factory=list)
    max_epochs: dict[str, str] = field(default_factory=dict)
    schedule: Schedule | None = None
    problems: list[str] = field(default_factory=list)
    shards: Mapping[str, Named] = field(default_factory=dict)
    compaction: Compaction = field(default_factory=Compaction)


def catalogue_schema(store: Store, plan: Plan, crawl: str) -> pa.Schema:
    """Columns that a predicate may name. Raises MissingPartitionError where the crawl has no catalogue yet."""
    key = Key("catalogue", plan.fingerprints["catalogue"], crawl, 0)
    ref = store.require(key).role("data")[0]
    with store.open_file(key, ref) as source:
        return pq.read_schema(source)


def with_catalogue(store: Store, plan: Plan) -> list[str]:
    """Crawls of which every catalogue partition is committed, in order. Raises ManifestError where there is none."""
    fingerprint = plan.fingerprints["catalogue"]
    found = [
        c
        for c in Registry(store).crawls()
        if all(store.manifest(Key("catalogue", fingerprint, c, b)) is not None for b in range(plan.buckets))
    ]
    if not found:
        raise ManifestError("no crawl has been taken to the catalogue: run `gristmill run --crawl NAME` first")
    return found


def in_order(store: Store, plan: Plan, crawls: Sequence[str] | None) -> tuple[str, ...]:
    """The crawls a caller means, once each, by ordinal; None means every one that has a catalogue.

    Raises:
        ManifestError: no such crawl, or none named.
    """
    ordinals = Registry(store).ordinals()
    chosen = with_catalogue(store, plan) if crawls is None else list(crawls)
    unknown = sorted(set(chosen) - set(ordinals))
    if unknown:
        raise ManifestError(f"no such crawl: {', '.join(unknown)}; there are: {', '.join(sorted(ordinals)) or 'none'}")
    if not chosen:
        raise ManifestError("name at least one crawl")
    return tuple(sorted(set(chosen), key=lambda c: ordinals[c]))


def robots_partitions(store: Store, plan: Plan) -> dict[int, tuple[Key, ...]]:
    """Host bucket -> partitions, of every crawl that has them, that hold robots.txt files of its hosts.

    Of every crawl and not only of those that a manifest is made of: the newest rules count, wherever they were fetched.
    """
    out: dict[int, tuple[Key, ...]] = {}
    for bucket in range(plan.buckets):
        keys = []
        for crawl in Registry(store).crawls():
            key = Key("unique_records", plan.fingerprints["unique_records"], crawl, bucket)
            found = store.manifest(key)
            if found is not None and any(f.rows for f in found.role("robots")):
                keys.append(key)
        out[bucket] = tuple(keys)
    return out


def resolve(recipe: Recipe | str | Path, policy: Policy | None) -> tuple[Recipe, Policy]:
    """A recipe and a policy from what a caller has: objects, or a YAML file that may hold both."""
    if isinstance(recipe, Recipe):
        return recipe, policy or Policy()
    parsed, section = recipes.read_with_policy(recipe)
    return parsed, policy or policies.parse(section, f"{recipe}: policy")


def examine(
    store: Store,
    plan: Plan,
    site: SiteConfig,
    recipe: Recipe | str | Path,
    crawls: Sequence[str] | None = None,
    policy: Policy | None = None,
    *,
    scratch: str,
    workers: int = 1,
    progress: Progress | None = None,
) -> Examined:
    """Apply policy and recipe to the catalogues of some crawls: what ``recipe check`` explains and a build writes.

    Args:
        store, plan, site: where the catalogues are.
        recipe: what is asked for; or the YAML file that says so.
        crawls: names, in any order; None means every crawl that has a catalogue.
        policy: what may be shown; by default the file's ``policy``, else the strict reference.
        scratch: an empty local folder; afterwards it holds the merged selection.
        workers: processes. Changes nothing but the time.
        progress: called with (step, done, of).

    Raises:
        RecipeError: a predicate names no column, or sources of one phase overlap.
        MissingPartitionError: a catalogue is not there.
        ManifestError: no such crawl, or the policy needs a day.
    """
    recipe, policy = resolve(recipe, policy)
    names = in_order(store, plan, crawls)
    ordinals = Registry(store).ordinals()
    places = [(c, b) for c in names for b in range(plan.buckets)]
    schema = catalogue_schema(store, plan, names[0])
    selection.check_predicates(recipe, policy, schema)
    layouts = tuple(sorted({packing.layout(p.seq_len, p.packing) for p in recipe.phases}))

    def key(asset: str, crawl: str, bucket: int) -> Key:
        found = Key(asset, plan.fingerprints[asset], crawl, bucket)
        store.require(found)
        return found

    rules = robots_partitions(store, plan)
    records = [eligibility.Place(ordinals[c], key("catalogue_records", c, b), rules[b]) for c, b in places]
    eligibility.run(store, policy, records, scratch, plan.buckets, workers, progress)
    catalogues = [(c, b, key("catalogue", c, b)) for c, b in places]
    sizes: dict[str, language_tiers.Threshold] = {}
    if policy.language_tiers is not None:
        keys = [k for _, _, k in catalogues]
        sizes = language_tiers.thresholds(store, keys, policy.language_tiers, workers, progress)
    task = selection.Task(store, recipe, policy, schema, None, len(places), scratch, 0, plan.buckets, layouts, sizes)
    counts = selection.total(selection.run(task, catalogues, workers, progress))
    counts["language_tiers"] = language_tiers.plain(sizes)
    _refuse_overlaps(counts)
    out = Examined(recipe, policy, names, counts, {}, {name: {} for name in layouts}, layouts)
    out.shards = named_shards(store, plan, names)
    if recipe.compact_below:
        out.compaction = compaction.plan(
            store, scratch, plan.buckets, out.shards, float(recipe.compact_below), plan.params.tokenize.shard_tokens,
            layouts,
        )
        compaction.apply(out.compaction, scratch, plan.buckets)
    parts = recipes.parts_of(recipe)
    for table in selection.merged(scratch, plan.buckets):
        for row in table.select(["part", "n_tokens", "sequences"]).to_pylist():
            name = parts[row["part"]].name
            out.tokens[name] = out.tokens.get(name, 0) + row["n_tokens"]
            for layout, n in zip(layouts, row["sequences"], strict=True):
                out.sequences[layout][name] = out.sequences[layout].get(name, 0) + n
    _compile(out)
    return out


def named_shards(store: Store, plan: Plan, crawls: Sequence[str]) -> ShardTable:
    """Content hash -> shard, of every shard of some crawls, and of what purges put in their place."""
    names = ["hash", *Named._fields]
    schema = pa.schema([SHARDS.field(name).remove_metadata() for name in names])
    tables = [
        store.read(Key("shards", plan.fingerprints["shards"], crawl, bucket), names).select(names).cast(schema)
        for crawl in crawls
        for bucket in range(plan.buckets)
    ]
    put = [{**e, "hash": e["by"]} for e in replacements(store).values() if e["by"] is not None]
    return ShardTable(pa.concat_tables([*tables, pa.Table.from_pylist(put, schema=schema)]))


def _refuse_overlaps(counts: Mapping[str, Any]) -> None:
    lines = []
    for name, docs in sorted(counts["overlaps"].items()):
        phase, a, b = json.loads(name)
        lines.append(f"in phase {phase} sources {a} and {b} share {docs:,} documents")
    if lines:
        raise RecipeError(
            "; ".join(lines) + ": sources of a phase must be disjoint; exclude one from the other's predicate"
        )


def _compile(out: Examined) -> None:
    recipe = out.recipe
    try:
        recipes.refuse_impossible(recipe, out.tokens)
        for phase in recipe.phases:
            layout = packing.layout(phase.seq_len, phase.packing)
            # By what whole sequences hold, so that a part too small to give one takes no weight.
            usable = {name: n * phase.seq_len for name, n in out.sequences[layout].items()}
            weights = recipes.decimal_strings(recipes.part_weights(recipe, phase, usable, out.tokens))
            out.phases.append(
                {
                    "name": phase.name,
                    "tokens": phase.tokens,
                    "seq_len": phase.seq_len,
                    "packing": phase.packing,
                    "batch": [list(r) for r in phase.ramp],
                    "weights": weights,
                }
            )
        caps = {p.name: recipes._plain(recipe.sources[p.source].max_epochs) for p in recipes.parts_of(recipe)}
        out.max_epochs = {name: caps[name] for name in sorted(out.tokens)}
        out.schedule = compile_schedule(out.phases, out.max_epochs, out.sequences, recipe.seed, on_cap=recipe.on_cap)
        out.problems += _shown_too_often(out, out.schedule)
    except RecipeError as error:
        out.problems.append(str(error))


def exposures(out: Examined, schedule: Schedule) -> list[tuple[list[str], int, Fraction, Fraction]]:
    """(parts, documents, epochs, cap) of documents that sources of different phases share.

    Such a document is shown by each of them; together they may not pass the largest of their caps.
    """
    epochs = dict(zip(schedule.sources, schedule.epochs(schedule.steps), strict=True))
    caps = {name: Fraction(cap) for name, cap in out.max_epochs.items()}
    found = []
    for key, docs in sorted(out.counts["shared"].items()):
        parts = json.loads(key)
        total = sum((epochs.get(p, Fraction(0)) for p in parts), Fraction(0))
        found.append((parts, docs, total, max(caps[p] for p in parts)))
    return found


def _shown_too_often(out: Examined, schedule: Schedule) -> list[str]:
    return [
        f"{docs:,} documents are in {' and '.join(parts)}, which show them {float(total):.2f} epochs together, over "
        f"their cap of {float(cap):g}: exclude one from the other's predicate, ask for fewer tokens, or raise the cap"
        for parts, docs, total, cap in exposures(out, schedule)
        if total > cap
    ]


def realised(examined: Examined) -> list[dict[str, Any]]:
    """Per phase and part: the weight asked, the share of sequences the schedule gives, epochs at the phase's end."""
    schedule = examined.schedule
    if schedule is None:
        return []
    out = []
    for number, phase in enumerate(examined.phases):
        own = [s for s in schedule.segments if s.phase == number]
        samples = sum(s.steps * s.batch for s in own)
        end = own[-1].first_step + own[-1].steps
        epochs = schedule.epochs(end)
        for i, name in enumerate(schedule.sources):
            if name in phase["weights"]:
                shown = sum(s.taken(i, s.steps) for s in own)
                out.append(
                    {
                        "phase": phase["name"],
                        "part": name,
                        "asked": phase["weights"][name],
                        "given": _rounded(Fraction(shown, samples)),
                        "epochs": _rounded(epochs[i]),
                    }
                )
    return out


def _rounded(value: Fraction) -> str:
    return f"{float(value):.6f}"


def explain(examined: Examined) -> list[str]:
    """Lines for a person: what each source selects, what the phases ask of it, what policy took, what falls short."""
    recipe, counts = examined.recipe, examined.counts
    lines = [f"recipe {recipe.name} over {', '.join(examined.crawls)}", ""]
    for part in recipes.parts_of(recipe):
        entry = counts["parts"].get(part.name, {"docs": 0, "tokens": 0})
        usable = "; ".join(
            f"{examined.sequences[name].get(part.name, 0):,} sequences of {name}" for name in examined.layouts
        )
        lines.append(
            f"source {part.name}: {entry['docs']:,} documents, {show(entry['tokens'])} unique tokens; {usable}"
        )
    try:
        asked = recipes.demand(recipe, examined.tokens)
    except RecipeError:
        asked = {}
    for name, d in asked.items():
        lines.append(
            f"  {name}: {show(d['asked'])} tokens presented, {float(d['epochs']):.2f} epochs "
            f"(cap {float(d['cap']):g}); " + ", ".join(f"{p} {show(t)}" for p, t in d["by_phase"].items())
        )
    if examined.schedule is not None:
        schedule = examined.schedule
        lines += [
            "",
            f"schedule: {schedule.steps:,} steps in {len(schedule.segments)} segments, {show(schedule.tokens)} tokens",
        ]
        for r in schedule.redistributions:
            lines.append(
                f"  {r.source} meets its cap of {float(r.cap):g} at step {r.step:,} of phase {r.phase}; the others "
                f"carry its weight from there ({float(r.asked_epochs):.2f} epochs were asked)"
            )
        for parts, docs, total, cap in exposures(examined, schedule):
            lines.append(
                f"  {docs:,} documents are in {' and '.join(parts)}: {float(total):.2f} epochs together (cap "
                f"{float(cap):g})"
            )
        for row in realised(examined):
            lines.append(
                f"  {row['phase']}: {row['part']} asked {float(row['asked']):.4f}, given {row['given']}, "
                f"{float(row['epochs']):.2f} epochs by its end"
            )
    for rule, by in sorted(counts["exclusions"].items()):
        lines.append(
            f"excluded by {rule}: "
            + ", ".join(f"{s} {d:,} documents, {show(t)} tokens" for s, (d, t) in sorted(by.items()))
        )
    if examined.compaction.thin:
        told = examined.compaction
        lines.append(
            f"{len(told.thin):,} shards are thin (under {recipe.compact_below} selected): {len(told.new):,} new shards "
            f"take their place, {len(told.reused):,} compacted ones serve again"
        )
    for lang, told in counts["language_tiers"].items():
        how = f"percentile >= {told['least']}, {told['below']} of the rest" if told["least"] else "rule sets decide"
        lines.append(f"language {lang}: {told['tokens']:,} tokens: {how}")
    if counts["elected"]:
        lines.append(f"{len(counts['elected']):,} clusters have another eligible member that must still be tokenised")
    lines += [f"refused: {p}" for p in examined.problems]
    return lines


def check(
    store: Store,
    plan: Plan,
    site: SiteConfig,
    recipe: Recipe | str | Path,
    crawls: Sequence[str] | None = None,
    policy: Policy | None = None,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> Examined:
    """``examine`` in a scratch folder of its own."""
    with store.scratch() as folder:
        return examine(store, plan, site, recipe, crawls, policy, scratch=folder, workers=workers, progress=progress)
