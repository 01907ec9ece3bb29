"""The manifest: a version of the data set, as one canonical JSON file whose sha256 names it.

Belongs here: building it from an examined recipe. Does not belong here: what a recipe selects (``examine.py``), reading
one (``standing.py``), what is done with versions that stand (``versions.py``, ``ship.py``), the card (``card.py``).

The hash depends on the recipe, the policy, the registries and the content of the catalogue; not on workers, times or
machines. Everything is a map over buckets and a merge by shard: no table ever holds all documents.
"""

import hashlib
import json
import shutil
from array import array
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.acquire import robots_sweep
from gristmill.blobs import sha256_of
from gristmill.errors import ManifestError, RecipeError
from gristmill.fingerprint import canonical_json, digest
from gristmill.funnel import BY_NAME, Plan
from gristmill.mixture import recipe as recipes
from gristmill.mixture.recipe import Recipe
from gristmill.params import SiteConfig
from gristmill.partition import Partition, inputs_digest, is_current
from gristmill.registry import NAME
from gristmill.release import compaction, selection, tombstones
from gristmill.release import policy as policies
from gristmill.release.examine import Examined, Progress, examine, in_order, realised, resolve, robots_partitions
from gristmill.release.policy import Policy
from gristmill.release.replaced import replacements
from gristmill.release.standing import FORMAT, KIND, excluded_path, read_manifest, register, require_unused
from gristmill.store import Store
from gristmill.tokens import packing

SELECTION = pa.schema([("source", pa.string()), ("shard", pa.string()), ("ordinals", pa.list_(pa.uint32()))])
# Elected members of clusters that are in no shard yet: [{"crawl", "host_bucket", "doc_id", "record_id", "instead_of",
# "rule"}], ids in hex, sorted by (crawl, doc_id). What `plan change` has tokenised.
TO_TOKENISE = "to_tokenise.json"
_HERE = "\x00sources"  # stands for the sources, which a manifest of a million shards does not hold as objects
_BLOCK = 16 << 20
READS = ("catalogue", "catalogue_records", "shards", "contamination_report")


@dataclass(frozen=True)
class Built:
    """A manifest that now stands in the store."""

    version: str
    hash: str
    path: str
    head: dict[str, Any]  # the manifest without its sources
    shards: dict[str, int]  # source -> shards that it names
    distinct: int  # shards
    examined: Examined
    store: Store
    new: bool  # False: it stood there already, byte for byte

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """All of it as plain JSON, read from the store: of a million shards some GB."""
        found: dict[str, Any] = json.loads(self.store.blobs.get(self.path))
        return found

    @property
    def facts(self) -> dict[str, Any]:
        """Small facts worth showing."""
        excluded = sum(c["docs"] for by in self.head["exclusions"].values() for c in by.values())
        return {
            "sources": len(self.shards),
            "shards": self.distinct,
            "documents": sum(p["docs"] for p in self.examined.counts["parts"].values()),
            "tokens": sum(self.examined.tokens.values()),
            "excluded_documents": excluded,
            "to_tokenise": self.head["reelected"]["documents"],
            "crawls": ", ".join(self.head["crawls"]),
            "new": self.new,
        }


def _part(store: Store, plan: Plan, site: SiteConfig, asset: str, crawl: str | None, bucket: int | None) -> Partition:
    return Partition(store, plan, BY_NAME[asset], crawl, bucket, site)


def build_manifest(
    store: Store,
    plan: Plan,
    site: SiteConfig,
    recipe: Recipe | str | Path,
    version: str,
    crawls: Sequence[str] | None = None,
    policy: Policy | None = None,
    *,
    workers: int = 1,
    replace: bool = False,
    progress: Progress | None = None,
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
            stands with other content, or stood and was dropped.
        RecipeError: the recipe cannot be, with the numbers.
    """
    if not NAME.match(version):
        raise ManifestError(f"{version!r} cannot name a version: letters, digits, dot, dash and underscore")
    require_unused(store, version)
    recipe, policy = resolve(recipe, policy)
    crawls = in_order(store, plan, crawls)
    reports = _contamination(store, plan, site, crawls)
    with store.scratch() as folder:
        examined = examine(
            store, plan, site, recipe, crawls, policy, scratch=folder, workers=workers, progress=progress
        )
        if examined.problems:
            raise RecipeError("; ".join(examined.problems))
        if examined.compaction.thin:
            names = compaction.write(store, examined.compaction, examined.shards)
            compaction.apply(examined.compaction, folder, plan.buckets, names)
        sidecar = Path(folder) / "selection.parquet"
        sources = Path(folder) / "sources.json"
        shards = _sources(store, plan, examined, folder, sidecar, sources)
        selected = _sha256(sidecar)
        stats = canonical_json(_statistics(examined))
        wanting = canonical_json(sorted(examined.counts["elected"], key=lambda e: (e["crawl"], e["doc_id"])))
        base = f"manifests/{version}"
        manifest = {
            **_made_from(store, plan, site, recipe, policy, examined.crawls, version),
            "contamination": reports,
            "phases": examined.phases,
            "max_epochs": examined.max_epochs,
            "sources": _HERE,
            "selection": {"sha256": selected, "path": f"{base}/selection.parquet"},
            "statistics": {"sha256": hashlib.sha256(stats).hexdigest(), "path": f"{base}/statistics.json"},
            "exclusions": {
                rule: {s: {"docs": d, "tokens": t} for s, (d, t) in sorted(by.items())}
                for rule, by in sorted(examined.counts["exclusions"].items())
            },
            "reelected": {
                "documents": len(examined.counts["elected"]),
                "sha256": hashlib.sha256(wanting).hexdigest(),
                "path": f"{base}/{TO_TOKENISE}",
            },
        }
        whole = Path(folder) / "manifest.json"
        found = _spliced(manifest, sources, whole)
        del manifest["sources"]
        path = f"{base}/manifest.json"
        new = _settle(store, path, found, version, replace=replace)
        if new:
            store.blobs.put(f"{base}/statistics.json", stats)
            store.blobs.put(f"{base}/{TO_TOKENISE}", wanting)
            store.blobs.put_file(f"{base}/selection.parquet", sidecar)
            places = [(c, b) for c in examined.crawls for b in range(plan.buckets)]
            for number, (crawl, bucket) in enumerate(places):
                file = selection.excluded_file(folder, number)
                store.blobs.put_file(excluded_path(version, crawl, bucket), file)
            register(store, version)
            store.blobs.put_file(path, whole)  # last: this is the commit
        tables = selection.merged(folder, plan.buckets)
        distinct = sum(int(pc.count_distinct(table.column("shard")).as_py()) for table in tables)
    built = Built(version, found, path, manifest, shards, distinct, examined, store, new)
    from gristmill.release import card

    if new or store.blobs.size(f"{base}/report.html") is None:
        card.write(store, plan, site, manifest, built.hash, _statistics(examined), shards, distinct)
    return built


def _made_from(
    store: Store, plan: Plan, site: SiteConfig, recipe: Recipe, policy: Policy, crawls: Sequence[str], version: str
) -> dict[str, Any]:
    """Everything that decides a manifest: with equal values here, the rest is equal too."""
    return {
        "format": FORMAT,
        "kind": KIND,
        "version": version,
        "recipe": recipe.plain(),
        "recipe_hash": recipe.hash,
        "seed": recipe.seed,
        "policy": policy.plain(),
        "tokenizer": _tokenizer(plan, site),
        "registries": {
            "tombstones": tombstones.read(store).digest,
            "licences": policies.registry_digest(store),
            "replaced": digest(replacements(store)),
            "robots": digest(_robots(store, plan)),
        },
        "fingerprints": dict(sorted(plan.fingerprints.items())),
        "inputs": {a: {c: _input(store, plan, site, a, c) for c in crawls} for a in READS},
        "grid": {"host_buckets": plan.buckets},
        "crawls": list(crawls),
    }


def _robots(store: Store, plan: Plan) -> list[list[str]]:
    """Hashes of the robots.txt files that a build reads, by bucket: state that it consumed."""
    return [
        [*(f.sha256 for key in keys for f in store.require(key).role("robots")), *robots_sweep.consumed(store, bucket)]
        for bucket, keys in sorted(robots_partitions(store, plan).items())
    ]


def manifest_is_current(
    store: Store,
    plan: Plan,
    site: SiteConfig,
    recipe: Recipe | str | Path,
    version: str,
    crawls: Sequence[str] | None = None,
    policy: Policy | None = None,
) -> bool:
    """Would a build of this version give what stands there: recipe, policy, registries, tokenizer and inputs unchanged.

    Reads the catalogues' commit records, not the catalogues.

    Raises:
        RecipeError, ManifestError, MissingPartitionError: as a build would.
    """
    recipe, policy = resolve(recipe, policy)
    names = in_order(store, plan, crawls)
    try:
        found, _ = read_manifest(store, version)
    except ManifestError:
        return False
    if store.blobs.size(f"manifests/{version}/report.html") is None:
        return False
    now = json.loads(
        canonical_json(
            {
                **_made_from(store, plan, site, recipe, policy, names, version),
                "contamination": _contamination(store, plan, site, names),
            }
        )
    )
    return all(found.get(name) == value for name, value in now.items())


def _spliced(manifest: dict[str, Any], sources: Path, target: Path) -> str:
    """Write the canonical JSON of a manifest, ``sources`` from a file in the place of ``_HERE``; its sha256."""
    before, after = canonical_json(manifest).split(canonical_json(_HERE))
    with target.open("wb") as out:
        out.write(before)
        with sources.open("rb") as file:
            shutil.copyfileobj(file, out, _BLOCK)
        out.write(after)
    return _sha256(target)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _settle(store: Store, path: str, made: str, version: str, *, replace: bool) -> bool:
    """Is there anything to write. Raises ManifestError where another manifest has this name.

    Args:
        made: sha256 of what would be written.
    """
    try:
        stands = sha256_of(store.blobs, path)
    except FileNotFoundError:
        return True
    if stands == made:
        return False
    if not replace:
        raise ManifestError(
            f"version {version} stands with hash {stands[:16]} and this build has "
            f"{made[:16]}: a version never changes; give the new one another name"
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
                f"crawl {crawl} has no contamination report, and no manifest is built without one: run "
                f"`gristmill run --crawl {crawl} --stage contamination_report`"
            )
        if is_current(part) is None:
            raise ManifestError(
                f"the contamination report of crawl {crawl} is about data that has changed since: run "
                f"`gristmill run --crawl {crawl} --stage contamination_report` again"
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


def _sources(
    store: Store, plan: Plan, examined: Examined, scratch: str, sidecar: Path, target: Path
) -> dict[str, int]:
    """Write the manifest's ``sources`` as canonical JSON, and the selection, in order of (source, shard).

    Both are written a range of shards at a time. Returns how many shards each source names.
    """
    shards = ChainMap(cast(Any, examined.shards), cast(Any, compaction.standing(store)))
    related = any(packing.parse_layout(name)[0] == "related" for name in examined.layouts)
    counts: dict[str, int] = {}
    files: dict[str, tuple[Path, list[array[int]]]] = {}
    with pq.ParquetWriter(sidecar, SELECTION, compression="zstd", version="2.6") as writer:
        for number, part in enumerate(recipes.parts_of(examined.recipe)):
            entries = Path(scratch) / f"entries-{number}.json"
            columns = [array("q") for _ in examined.layouts]
            with entries.open("wb") as out:
                for table in selection.merged(scratch, plan.buckets):
                    own = table.filter(pa.array(table.column("part").to_numpy() == number))
                    whole = []
                    for row in own.drop_columns(["ordinals"]).to_pylist():
                        entry = shards[row["shard"]]
                        counts[part.name] = counts.get(part.name, 0) + 1
                        out.write(b"," if counts[part.name] > 1 else b"")
                        out.write(canonical_json({
                            **entry._asdict(), "hash": row["shard"], "selected_docs": row["n_docs"],
                            "selected_tokens": row["n_tokens"],
                        }))  # fmt: skip
                        for column, n in zip(columns, row["sequences"], strict=True):
                            column.append(n)
                        whole.append(row["n_docs"] == entry.n_docs and not related)
                    if own.num_rows:
                        chosen = own.column("ordinals").combine_chunks()
                        nothing = pa.scalar(None, chosen.type)
                        writer.write_table(
                            pa.table(
                                {
                                    "source": pa.array([part.name] * own.num_rows),
                                    "shard": own.column("shard"),
                                    "ordinals": pc.if_else(pa.array(whole, pa.bool_()), nothing, chosen),
                                },
                                schema=SELECTION,
                            )
                        )
            if part.name in counts:
                files[part.name] = (entries, columns)
    with target.open("wb") as out:
        out.write(b"{")
        for i, (name, (entries, columns)) in enumerate(sorted(files.items())):
            out.write(b"," if i else b"")
            out.write(canonical_json(name) + b':{"layouts":{')
            for k, (layout, column) in enumerate(sorted(zip(examined.layouts, columns, strict=True))):
                out.write((b"," if k else b"") + canonical_json(layout) + b":[")
                for start in range(0, len(column), 1 << 16):
                    out.write((b"," if start else b"") + ",".join(map(str, column[start : start + (1 << 16)])).encode())
                out.write(b"]")
            out.write(b'},"shards":[')
            with entries.open("rb") as file:
                shutil.copyfileobj(file, out, _BLOCK)
            out.write(b"]}")
        out.write(b"}")
    return counts


def _statistics(examined: Examined) -> dict[str, Any]:
    """What the card shows: counts by part, exclusions, the realised mixture."""
    counts = examined.counts
    return {
        "parts": counts["parts"],
        "exclusions": counts["exclusions"],
        "no_shard": counts["no_shard"],
        "realised": realised(examined),
        **({"language_tiers": counts["language_tiers"]} if counts["language_tiers"] else {}),
    }
