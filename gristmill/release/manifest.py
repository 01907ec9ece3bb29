"""The manifest: a version of the data set, as one canonical JSON file whose sha256 names it.

Belongs here: examining what a recipe selects, building the manifest, reading it, comparing two, verifying one. Does not
belong here: policy and selection themselves, copying shards to other places (``ship.py``), the card's looks (``card.py``).

The hash depends on the recipe, the policy, the registries and the content of the catalogue; not on workers, times or
machines. Everything is a map over buckets and a merge by shard: no table ever holds all documents.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.errors import ManifestError, RecipeError
from gristmill.fingerprint import canonical_json, digest
from gristmill.funnel import BY_NAME, Plan
from gristmill.mixture import recipe as recipes
from gristmill.mixture.recipe import Recipe
from gristmill.mixture.schedule import Schedule, compile_schedule
from gristmill.params import SiteConfig
from gristmill.partition import Partition, inputs_digest, is_current
from gristmill.registry import NAME, Registry
from gristmill.release import eligibility, selection, tombstones
from gristmill.release import policy as policies
from gristmill.release.policy import Policy
from gristmill.store import Key, Store
from gristmill.tokens import packing

FORMAT = 1
KIND = "gristmill-manifest"
VERSIONS = "registry/versions"
SELECTION = pa.schema([("source", pa.string()), ("shard", pa.string()), ("ordinals", pa.list_(pa.uint32()))])
READS = ("catalogue", "catalogue_records", "shards", "contamination_report")
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


@dataclass(frozen=True)
class Built:
    """A manifest that now stands in the store."""

    version: str
    hash: str
    path: str
    manifest: dict[str, Any]
    examined: Examined
    new: bool  # False: it stood there already, byte for byte


def _part(store: Store, plan: Plan, site: SiteConfig, asset: str, crawl: str | None, bucket: int | None) -> Partition:
    return Partition(store, plan, BY_NAME[asset], crawl, bucket, site)


def catalogue_schema(store: Store, plan: Plan, crawl: str) -> pa.Schema:
    """Columns that a predicate may name. Raises MissingPartitionError where the crawl has no catalogue yet."""
    key = Key("catalogue", plan.fingerprints["catalogue"], crawl, 0)
    ref = store.require(key).role("data")[0]
    with store.open_file(key, ref) as source:
        return pq.read_schema(source)


def examine(store: Store, plan: Plan, site: SiteConfig, recipe: Recipe, crawls: Sequence[str], policy: Policy | None = None,
            *, scratch: str, workers: int = 1, progress: Progress | None = None) -> Examined:
    """Apply policy and recipe to the catalogues of some crawls: what ``recipe check`` explains and a build writes.

    Args:
        store, plan, site: where the catalogues are.
        recipe: what is asked for.
        crawls: names; the order does not matter.
        policy: what may be shown; by default the strict reference.
        scratch: an empty local folder; afterwards it holds the merged selection.
        workers: processes. Changes nothing but the time.
        progress: called with (step, done, of).

    Raises:
        RecipeError: a predicate names no column, or sources of one phase overlap.
        MissingPartitionError: a catalogue is not there.
        ManifestError: no such crawl, or the policy needs a day.
    """
    policy = policy or Policy()
    ordinals = Registry(store).ordinals()
    unknown = sorted(set(crawls) - set(ordinals))
    if unknown or not crawls:
        raise ManifestError(f"no such crawl: {unknown}; there are {sorted(ordinals)}" if unknown else "name at least one crawl")
    names = tuple(sorted(set(crawls), key=lambda c: ordinals[c]))
    places = [(c, b) for c in names for b in range(plan.buckets)]
    schema = catalogue_schema(store, plan, names[0])
    selection.check_predicates(recipe, policy, schema)
    layouts = tuple(sorted({packing.layout(p.seq_len, p.packing) for p in recipe.phases}))

    def key(asset: str, crawl: str, bucket: int) -> Key:
        found = Key(asset, plan.fingerprints[asset], crawl, bucket)
        store.require(found)
        return found

    eligibility.run(store, policy, [(ordinals[c], key("catalogue_records", c, b)) for c, b in places], scratch, plan.buckets,
                    workers, progress)
    task = selection.Task(store, recipe, policy, schema, tuple((c, b, key("catalogue", c, b)) for c, b in places), scratch, 0,
                          plan.buckets, layouts)
    counts = selection.total(selection.run(task, workers, progress))
    _refuse_overlaps(counts)
    out = Examined(recipe, policy, names, counts, {}, {name: {} for name in layouts}, layouts)
    parts = recipes.parts_of(recipe)
    for table in selection.merged(scratch, plan.buckets):
        for row in table.select(["part", "n_tokens", "sequences"]).to_pylist():
            name = parts[row["part"]].name
            out.tokens[name] = out.tokens.get(name, 0) + row["n_tokens"]
            for layout, n in zip(layouts, row["sequences"], strict=True):
                out.sequences[layout][name] = out.sequences[layout].get(name, 0) + n
    _compile(out)
    return out


def _refuse_overlaps(counts: Mapping[str, Any]) -> None:
    lines = []
    for name, docs in sorted(counts["overlaps"].items()):
        phase, a, b = json.loads(name)
        lines.append(f"in phase {phase} sources {a} and {b} share {docs:,} documents")
    if lines:
        raise RecipeError("; ".join(lines) + ": sources of a phase must be disjoint; exclude one from the other's predicate")


def _compile(out: Examined) -> None:
    recipe = out.recipe
    try:
        recipes.refuse_impossible(recipe, out.tokens)
        for phase in recipe.phases:
            layout = packing.layout(phase.seq_len, phase.packing)
            # By what whole sequences hold, so that a part too small to give one takes no weight.
            usable = {name: n * phase.seq_len for name, n in out.sequences[layout].items()}
            weights = recipes.decimal_strings(recipes.part_weights(recipe, phase, usable))
            out.phases.append({
                "name": phase.name, "tokens": phase.tokens, "seq_len": phase.seq_len, "packing": phase.packing,
                "batch": [list(r) for r in phase.ramp], "weights": weights,
            })
        caps = {p.name: recipes._plain(recipe.sources[p.source].max_epochs) for p in recipes.parts_of(recipe)}
        out.max_epochs = {name: caps[name] for name in sorted(out.tokens)}
        out.schedule = compile_schedule(out.phases, out.max_epochs, out.sequences, recipe.seed, on_cap=recipe.on_cap)
    except RecipeError as error:
        out.problems.append(str(error))


def build_manifest(store: Store, plan: Plan, site: SiteConfig, recipe: Recipe, version: str, crawls: Sequence[str],
                   policy: Policy | None = None, *, workers: int = 1, replace: bool = False, progress: Progress | None = None
                   ) -> Built:
    """Build a version of the data set: ``manifests/{version}/manifest.json``, selection, statistics and card.

    Building it again from the same recipe, policy, registries and catalogues gives the same bytes, and then nothing is
    written.

    Args:
        as for ``examine``, and
        version: its name, fit for a path.
        replace: a version that stands with other content is replaced; else that is an error.

    Raises:
        ManifestError: the contamination report of a crawl is missing or older than what it reports on; the version
            stands with other content.
        RecipeError: the recipe cannot be, with the numbers.
    """
    if not NAME.match(version):
        raise ManifestError(f"{version!r} cannot name a version: letters, digits, dot, dash and underscore")
    reports = _contamination(store, plan, site, crawls)
    with store.scratch() as folder:
        examined = examine(store, plan, site, recipe, crawls, policy, scratch=folder, workers=workers, progress=progress)
        if examined.problems:
            raise RecipeError("; ".join(examined.problems))
        sidecar = Path(folder) / "selection.parquet"
        sources = _sources(store, plan, examined, folder, sidecar)
        selected = hashlib.sha256(sidecar.read_bytes()).hexdigest()
        stats = canonical_json(_statistics(examined))
        base = f"manifests/{version}"
        manifest = {
            "format": FORMAT, "kind": KIND, "version": version,
            "recipe": recipe.plain(), "recipe_hash": recipe.hash, "seed": recipe.seed,
            "phases": examined.phases, "max_epochs": examined.max_epochs,
            "tokenizer": _tokenizer(plan, site),
            "sources": sources,
            "selection": {"sha256": selected, "path": f"{base}/selection.parquet"},
            "statistics": {"sha256": hashlib.sha256(stats).hexdigest(), "path": f"{base}/statistics.json"},
            "policy": examined.policy.plain(),
            "exclusions": {
                rule: {s: {"docs": d, "tokens": t} for s, (d, t) in sorted(by.items())}
                for rule, by in sorted(examined.counts["exclusions"].items())
            },
            "reelected": {"documents": len(examined.counts["elected"])},
            "contamination": reports,
            "registries": {"tombstones": tombstones.read(store).digest, "licences": policies.registry_digest(store)},
            "fingerprints": dict(sorted(plan.fingerprints.items())),
            "inputs": {a: {c: _input(store, plan, site, a, c) for c in examined.crawls} for a in READS},
            "crawls": list(examined.crawls),
        }
        data = canonical_json(manifest)
        path = f"{base}/manifest.json"
        new = _settle(store, path, data, version, replace=replace)
        if new:
            store.blobs.put(f"{base}/statistics.json", stats)
            store.blobs.put_file(f"{base}/selection.parquet", sidecar)
            _register(store, version)
            store.blobs.put(path, data)  # last: this is the commit
    built = Built(version, hashlib.sha256(data).hexdigest(), path, manifest, examined, new)
    from gristmill.release import card

    if new or store.blobs.size(f"{base}/report.html") is None:
        card.write(store, plan, site, manifest, built.hash, _statistics(examined))
    return built


def _settle(store: Store, path: str, data: bytes, version: str, *, replace: bool) -> bool:
    """Is there anything to write. Raises ManifestError where another manifest has this name."""
    try:
        found = store.blobs.get(path)
    except FileNotFoundError:
        return True
    if found == data:
        return False
    if not replace:
        raise ManifestError(
            f"version {version} stands with hash {hashlib.sha256(found).hexdigest()[:16]} and this build has "
            f"{hashlib.sha256(data).hexdigest()[:16]}: a version never changes; give the new one another name"
        )
    return True


def _contamination(store: Store, plan: Plan, site: SiteConfig, crawls: Sequence[str]) -> dict[str, Any]:
    """The reports of all crawls. Raises ManifestError: no data set leaves without one, or with one about other data."""
    out: dict[str, Any] = {}
    for crawl in sorted(set(crawls)):
        part = _part(store, plan, site, "contamination_report", crawl, None)
        found = store.manifest(part.key())
        if found is None:
            raise ManifestError(
                f"crawl {crawl} has no contamination report, and no manifest is built without one: run `gristmill run --crawl "
                f"{crawl} --stage contamination_report`"
            )
        if is_current(part) is None:
            raise ManifestError(
                f"the contamination report of crawl {crawl} is about data that has changed since: run `gristmill run --crawl "
                f"{crawl} --stage contamination_report` again"
            )
        out[crawl] = {"report": found.digest, "facts": found.info}
    holdout = store.manifest(_part(store, plan, site, "eval_holdout", None, None).key())
    return {"reports": out, "holdout": (holdout.state.get("holdout_hash") if holdout else None)}


def _input(store: Store, plan: Plan, site: SiteConfig, asset: str, crawl: str) -> str:
    from gristmill.funnel import Input

    spec = BY_NAME[asset]
    part = _part(store, plan, site, asset, crawl, 0 if spec.on_grid else None)
    return inputs_digest(store, part, Input(asset, "crawl" if spec.on_grid else "landing"))


def _tokenizer(plan: Plan, site: SiteConfig) -> dict[str, Any]:
    from gristmill.tokens.stages import load_pinned

    return load_pinned(plan.params.tokenize, site.models).describe()


def _sources(store: Store, plan: Plan, examined: Examined, scratch: str, sidecar: Path) -> dict[str, Any]:
    """The manifest's ``sources``, and the selection written to ``sidecar``, sorted by (source, shard)."""
    shards: dict[str, tuple[str, str, int, int]] = {}
    for crawl in examined.crawls:
        for bucket in range(plan.buckets):
            table = store.read(Key("shards", plan.fingerprints["shards"], crawl, bucket))
            for row in table.select(["hash", "stratum", "path", "n_docs", "n_tokens"]).to_pylist():
                shards[row["hash"]] = (row["stratum"], row["path"], row["n_docs"], row["n_tokens"])
    related = any(packing.parse_layout(name)[0] == "related" for name in examined.layouts)
    out: dict[str, Any] = {}
    with pq.ParquetWriter(sidecar, SELECTION, compression="zstd", version="2.6") as writer:
        for number, part in enumerate(recipes.parts_of(examined.recipe)):
            entries: list[dict[str, Any]] = []
            columns: list[list[int]] = []
            for table in selection.merged(scratch, plan.buckets):
                own = table.filter(pa.array(table.column("part").to_numpy() == number))
                lists: list[Any] = []
                for row in own.to_pylist():
                    stratum, path, n_docs, n_tokens = shards[row["shard"]]
                    entries.append({
                        "stratum": stratum, "hash": row["shard"], "path": path, "n_docs": n_docs, "n_tokens": n_tokens,
                        "selected_docs": row["n_docs"], "selected_tokens": row["n_tokens"],
                    })
                    columns.append(row["sequences"])
                    whole = row["n_docs"] == n_docs and not related
                    lists.append(None if whole else np.array(row["ordinals"], np.uint32))
                if own.num_rows:
                    writer.write_table(pa.table({
                        "source": pa.array([part.name] * own.num_rows), "shard": own.column("shard"),
                        "ordinals": pa.array(lists, pa.list_(pa.uint32())),
                    }, schema=SELECTION))
            if entries:
                out[part.name] = {
                    "shards": entries, "layouts": {name: [c[i] for c in columns] for i, name in enumerate(examined.layouts)},
                }
    return out


def _statistics(examined: Examined) -> dict[str, Any]:
    """What the card shows and ``diff`` compares: counts by part, exclusions, elected documents, the realised mixture."""
    counts = examined.counts
    return {
        "parts": counts["parts"], "exclusions": counts["exclusions"], "no_shard": counts["no_shard"],
        "elected": sorted(counts["elected"], key=lambda e: e["instead_of"]), "realised": realised(examined),
    }


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
                out.append({
                    "phase": phase["name"], "part": name, "asked": phase["weights"][name],
                    "given": _rounded(Fraction(shown, samples)), "epochs": _rounded(epochs[i]),
                })
    return out


def _rounded(value: Fraction) -> str:
    return f"{float(value):.6f}"


def _register(store: Store, version: str) -> None:
    """Give a version its place in the order of versions, once: what ``retain`` counts by."""
    while True:
        known = versions(store)
        if version in known:
            return
        number = len(known)
        try:
            store.blobs.create(f"{VERSIONS}/{number:06d}.json", canonical_json({"version": version}))
            return
        except FileExistsError:
            continue


def versions(store: Store) -> list[str]:
    """All versions ever built, oldest first; those collected since included."""
    return [json.loads(store.blobs.get(path))["version"] for path, _ in store.blobs.list(VERSIONS)]


def read_manifest(store: Store, version: str, expected_hash: str | None = None) -> tuple[dict[str, Any], str]:
    """A manifest and its hash.

    Raises:
        ManifestError: there is none, it is none, or it is not the one asked for.
    """
    path = f"manifests/{version}/manifest.json"
    try:
        data = store.blobs.get(path)
    except FileNotFoundError as error:
        here = sorted({p.split("/")[1] for p, _ in store.blobs.list("manifests") if p.endswith("/manifest.json")})
        raise ManifestError(f"no version {version!r}; there are: {', '.join(here) or 'none'}") from error
    found = hashlib.sha256(data).hexdigest()
    if expected_hash is not None and found != expected_hash:
        raise ManifestError(f"{path} has hash {found}, asked for is {expected_hash}")
    try:
        body = json.loads(data)
    except ValueError as error:
        raise ManifestError(f"{path} is not JSON: {error}") from error
    if body.get("kind") != KIND or body.get("format") != FORMAT:
        raise ManifestError(f"{path} is not a manifest of format {FORMAT}")
    return body, found


def shard_paths(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Content hash -> path of every shard that a manifest names."""
    return {s["hash"]: s["path"] for source in manifest["sources"].values() for s in source["shards"]}


_SHARD_FILES = re.compile(r"\.(bin|idx|docs|meta)$")


def verify(store: Store, version: str, *, deep: bool = False, expected_hash: str | None = None) -> list[str]:
    """What is wrong with a version, one line each; an empty list when it can be read in full.

    Args:
        deep: read every shard and check its content hash; else presence and sizes only.
        expected_hash: the manifest's pinned hash.
    """
    from gristmill.tokens import shard

    manifest, _ = read_manifest(store, version, expected_hash)
    problems = []
    gone = tombstones.purged(store)
    for name in ("selection", "statistics"):
        entry = manifest.get(name)
        if entry is None:
            continue
        try:
            found = hashlib.sha256(store.blobs.get(entry["path"])).hexdigest()
            if found != entry["sha256"]:
                problems.append(f"{entry['path']} has sha256 {found}, the manifest says {entry['sha256']}")
        except FileNotFoundError:
            problems.append(f"{entry['path']} is missing")
    sizes = {s["hash"]: s["n_tokens"] for source in manifest["sources"].values() for s in source["shards"]}
    for key, path in sorted(shard_paths(manifest).items()):
        size = store.blobs.size(f"{path}.bin")
        if size is None or store.blobs.size(f"{path}.idx") is None:
            because = gone.get(path)
            why = f": deleted because of {because}; what read it cannot be reproduced" if because else ""
            problems.append(f"shard {key[:16]} ({path}) is missing{why}")
        elif size != sizes[key] * shard.TOKEN_BYTES:
            problems.append(f"shard {key[:16]} ({path}.bin) has {size} bytes, not {sizes[key] * shard.TOKEN_BYTES}")
        elif deep and shard.content_hash(store.blobs.get(f"{path}.bin"), store.blobs.get(f"{path}.idx")) != key:
            problems.append(f"shard {key[:16]} ({path}) is damaged: its content hash differs")
    return problems


def diff(store: Store, old: str, new: str) -> dict[str, Any]:
    """What changed between two versions: recipe and policy fields, sources, shards, exclusions, inputs."""
    (a, a_hash), (b, b_hash) = read_manifest(store, old), read_manifest(store, new)
    shards_a, shards_b = shard_paths(a), shard_paths(b)
    sources = {}
    for name in sorted({*a["sources"], *b["sources"]}):
        before, after = _totals(a, name), _totals(b, name)
        if before != after:
            sources[name] = {k: [before[k], after[k]] for k in before}
    rules = sorted({*a["exclusions"], *b["exclusions"]})
    exclusions = {}
    for rule in rules:
        before, after = ({s: c["docs"] for s, c in m["exclusions"].get(rule, {}).items()} for m in (a, b))
        if before != after:
            exclusions[rule] = {s: [before.get(s, 0), after.get(s, 0)] for s in sorted({*before, *after})}
    return {
        "hashes": [a_hash, b_hash],
        "same": a_hash == b_hash,
        "recipe": _changes(a["recipe"], b["recipe"]), "policy": _changes(a["policy"], b["policy"]),
        "tokenizer": _changes(a["tokenizer"], b["tokenizer"]), "crawls": _changes(a["crawls"], b["crawls"]),
        "inputs": _changes(a["inputs"], b["inputs"]), "registries": _changes(a["registries"], b["registries"]),
        "sources": sources, "exclusions": exclusions,
        "shards": {"added": sorted(set(shards_b) - set(shards_a)), "removed": sorted(set(shards_a) - set(shards_b)),
                   "kept": len(set(shards_a) & set(shards_b))},
    }


def _totals(manifest: Mapping[str, Any], name: str) -> dict[str, int]:
    shards = manifest["sources"].get(name, {"shards": []})["shards"]
    return {"shards": len(shards), "docs": sum(s["selected_docs"] for s in shards),
            "tokens": sum(s["selected_tokens"] for s in shards)}


def _changes(a: Any, b: Any, where: str = "") -> dict[str, list[Any]]:
    """Dotted path of every leaf that differs -> [before, after]."""
    if isinstance(a, dict) and isinstance(b, dict):
        out: dict[str, list[Any]] = {}
        for key in sorted({*a, *b}):
            out |= _changes(a.get(key), b.get(key), f"{where}.{key}" if where else key)
        return out
    return {} if a == b else {where or "value": [a, b]}


def to_tokenise(store: Store, version: str) -> list[dict[str, Any]]:
    """Elected members of clusters whose representative policy excluded: what must be tokenised before they can be shown."""
    manifest, _ = read_manifest(store, version)
    data: dict[str, Any] = json.loads(store.blobs.get(manifest["statistics"]["path"]))
    return list(data["elected"])


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """sha256 (hex) of a manifest's canonical JSON."""
    return digest(manifest)
