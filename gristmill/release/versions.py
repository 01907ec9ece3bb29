"""Versions in a store: their order, what is wrong with one, how two differ, which to keep.

Belongs here: what is done with manifests that stand. Does not belong here: building one (``manifest.py``), copying one
elsewhere (``ship.py``).
"""

import contextlib
import itertools
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.blobs import sha256_of
from gristmill.errors import ManifestError, StoreError
from gristmill.funnel import Plan
from gristmill.registry import Registry
from gristmill.release import tombstones
from gristmill.release.replaced import COMPACTED, replacements
from gristmill.release.shard_set import NameSet, ShardSet, Sizes
from gristmill.release.ship import SUFFIXES
from gristmill.release.standing import drop, read_manifest
from gristmill.release.standing import registered as versions
from gristmill.store import Key, Store
from gristmill.tokens import shard


@dataclass(frozen=True)
class Verified:
    """What ``examine`` found wrong, one line each; and of how many shards how many were read whole."""

    problems: tuple[str, ...]
    shards: int
    read: int
    lost: tuple[str, ...]  # content hashes of shards that are missing or damaged, and were not deleted as asked


def verify(store: Store, version: str, *, deep: bool = False, expected_hash: str | None = None) -> list[str]:
    """What is wrong with a version, one line each; an empty list when it can be read in full. As ``examine``."""
    return list(examine(store, version, deep=deep, expected_hash=expected_hash).problems)


def examine(store: Store, version: str, *, deep: bool = False, expected_hash: str | None = None) -> Verified:
    """Hold a version against what its manifest says.

    Args:
        deep: read every shard and check its content hash; else presence and sizes only.
        expected_hash: the manifest's pinned hash.
    """
    manifest, _ = read_manifest(store, version, expected_hash)
    problems, lost = [], []
    gone = tombstones.purged(store)
    for name in ("selection", "statistics", "reelected"):
        entry = manifest.get(name)
        if entry is None or "path" not in entry:  # an earlier release wrote no such file
            continue
        try:
            found = sha256_of(store.blobs, entry["path"])
            if found != entry["sha256"]:
                problems.append(f"{entry['path']} has sha256 {found}, the manifest says {entry['sha256']}")
        except FileNotFoundError:
            problems.append(f"{entry['path']} is missing")
    sizes = Sizes(store.blobs)
    shards = ShardSet(manifest["sources"].values())
    read = 0
    for key, path, n_tokens in shards:
        size, wanted = sizes.of(f"{path}.bin"), n_tokens * shard.TOKEN_BYTES
        missing = [suffix for suffix in SUFFIXES if sizes.of(path + suffix) is None]
        if missing and path in gone:
            problems.append(f"shard {key[:16]} ({path}) is missing: deleted because of {gone[path]}; what read it "
                            "cannot be reproduced")
            continue
        if missing:
            named = path if len(missing) == len(SUFFIXES) else ", ".join(path + suffix for suffix in missing)
            problems.append(f"shard {key[:16]} ({named}) is missing")
        elif size != wanted:
            problems.append(f"shard {key[:16]} ({path}.bin) has {size} bytes, not {wanted}")
        elif deep:
            read += 1
            if shard.content_hash(store.blobs.get(f"{path}.bin"), store.blobs.get(f"{path}.idx")) == key:
                continue
            problems.append(f"shard {key[:16]} ({path}) is damaged: its content hash differs")
        else:
            continue
        lost.append(key)
    return Verified(tuple(problems), len(shards), read, tuple(lost))


def mending(store: Store, version: str, lost: Collection[str]) -> list[str]:
    """What brings shards back that are missing or damaged, one sentence each.

    Args:
        lost: content hashes, of ``examine``.
    """
    manifest, _ = read_manifest(store, version)
    left, crawls = set(lost), []
    prints = manifest.get("fingerprints") or {}  # an earlier release wrote none
    for crawl in manifest["crawls"] if prints else ():
        here: set[str] = set()
        for bucket in range(manifest["grid"]["host_buckets"] if left else 0):
            key = Key("shards", prints["shards"], crawl, bucket)
            with contextlib.suppress(StoreError):  # a partition that is gone itself names nothing
                here |= left.intersection(store.read(key, ["hash"]).column(0).to_pylist())
        left -= here
        crawls += [crawl] if here else []
    out = []
    if crawls:
        named = " ".join(f"--crawl {crawl}" for crawl in crawls)
        out.append(f"made again, by the parameters of {version}: gristmill run {named} --stage shards --force")
    if left:
        out.append(f"{len(left)} of them no crawl here makes any more: where another store has {version} whole, "
                   f"gristmill manifest ship {version} {store.root} --deep brings them")
    return out


# Parts of a manifest that a difference speaks of by name, or that follow from them; ``other`` is all else.
_TOLD = frozenset({
    "recipe", "recipe_hash", "policy", "tokenizer", "crawls", "inputs", "registries", "fingerprints", "sources",
    "exclusions", "selection", "statistics", "reelected", "version", "phases", "max_epochs", "seed",
})  # fmt: skip


def _rest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name not in _TOLD}


def diff(store: Store, old: str, new: str) -> dict[str, Any]:
    """What changed between two versions: recipe and policy fields, sources, shards, exclusions, inputs, fingerprints.

    ``summary`` says it in sentences, and says so where two versions differ in nothing but what they were made by.
    """
    (a, a_hash), (b, b_hash) = read_manifest(store, old), read_manifest(store, new)
    shards_a, shards_b = ShardSet(a["sources"].values()), ShardSet(b["sources"].values())
    added, removed = shards_b.without(shards_a), shards_a.without(shards_b)
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
    found: dict[str, Any] = {
        "hashes": [a_hash, b_hash],
        "same": a_hash == b_hash,
        "recipe": _changes(a["recipe"], b["recipe"]),
        "policy": _changes(a["policy"], b["policy"]),
        "tokenizer": _changes(a["tokenizer"], b["tokenizer"]),
        "crawls": _changes(a["crawls"], b["crawls"]),
        "inputs": _changes(a["inputs"], b["inputs"]),
        "registries": _changes(a["registries"], b["registries"]),
        "fingerprints": _changes(a["fingerprints"], b["fingerprints"]),
        "other": _changes(_rest(a), _rest(b)),
        "sources": sources,
        "exclusions": exclusions,
        "shards": {
            "added": added,
            "removed": removed,
            "kept": len(shards_a) - len(removed),
        },
    }
    found["summary"] = _summary(found, a["selection"]["sha256"] == b["selection"]["sha256"])
    return found


def _summary(found: Mapping[str, Any], same_selection: bool) -> list[str]:
    if found["same"]:
        return ["the same manifest, byte for byte"]
    changed = [n for n in ("recipe", "policy", "tokenizer", "crawls", "registries", "other") if found[n]]
    out = [f"{n} changed: {', '.join(sorted(found[n]))}" for n in changed]
    shards = found["shards"]
    same_documents = same_selection and not shards["added"] and not shards["removed"]
    if same_documents:
        out.append("the same documents of the same shards are selected")
    else:
        out.append(f"shards: {len(shards['added'])} added, {len(shards['removed'])} removed, {shards['kept']} in both")
    if found["fingerprints"]:
        stages = ", ".join(sorted(found["fingerprints"]))
        out.append(f"made by other parameters or releases of: {stages}")
    if found["inputs"]:
        out.append(f"other inputs: {', '.join(sorted(found['inputs']))}")
    if same_documents and not (changed or found["fingerprints"] or found["inputs"]):
        out.append("they differ in name only")
    return out


def _totals(manifest: Mapping[str, Any], name: str) -> dict[str, int]:
    shards = manifest["sources"].get(name)
    _, _, docs, tokens = shards.counts.sum(axis=0).tolist() if shards else (0, 0, 0, 0)
    return {"shards": len(shards or ()), "docs": docs, "tokens": tokens}


def _changes(a: Any, b: Any, where: str = "") -> dict[str, list[Any]]:
    """Dotted path of every leaf that differs -> [before, after]."""
    if isinstance(a, dict) and isinstance(b, dict):
        out: dict[str, list[Any]] = {}
        for key in sorted({*a, *b}):
            out |= _changes(a.get(key), b.get(key), f"{where}.{key}" if where else key)
        return out
    return {} if a == b else {where or "value": [a, b]}


def to_tokenise(store: Store, version: str) -> list[dict[str, Any]]:
    """Elected members of clusters whose representative policy excluded: to be tokenised before they can be shown.

    Returns:
        rows of crawl, host_bucket, doc_id, record_id, instead_of (hex ids) and rule: ``manifests/V/to_tokenise.json``.

    Raises:
        ManifestError: an earlier release built the version, and did not list them.
    """
    manifest, _ = read_manifest(store, version)
    path = manifest.get("reelected", {}).get("path")
    if path is None:
        raise ManifestError(f"version {version} was built by an earlier release, which listed none: build it anew")
    found: list[dict[str, Any]] = json.loads(store.blobs.get(path))
    return found


_SHARD = re.compile(r"^shards/[^/]+/[0-9a-f]{64}/shard_\d{5}\.(bin|idx|docs|meta)$")


@dataclass(frozen=True)
class Retained:
    """What ``retain`` did, or would do."""

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    shards_deleted: int
    bytes_deleted: int


def retain(store: Store, keep: int, *, plan: Plan | None = None, dry_run: bool = False) -> Retained:
    """Keep the last ``keep`` versions, drop older ones, and delete shards that no kept version names.

    Shards of today's plan that no manifest names yet are kept where ``plan`` is given: the next version will name them.

    Args:
        keep: versions to keep, newest first, by the order in which they were built.
        dry_run: only say what would go.

    Raises:
        ManifestError: ``keep`` under 1, or a kept manifest cannot be read (then nothing is deleted).
    """
    if keep < 1:
        raise ManifestError("retain at least one version")
    standing = [v for v in versions(store) if store.blobs.size(f"manifests/{v}/manifest.json") is not None]
    kept, dropped = standing[-keep:], standing[:-keep]
    # One that was copied here by hand has no place in the order: it stays, and what it names.
    by_hand = {p.split("/")[1] for p, _ in store.blobs.list("manifests") if p.endswith("/manifest.json")} - {*standing}
    named = NameSet()  # paths
    for version in (*kept, *sorted(by_hand)):
        named.add(s.path for s in ShardSet(read_manifest(store, version)[0]["sources"].values()))
    if plan is not None:
        for crawl in Registry(store).crawls():
            for bucket in range(plan.buckets):
                key = Key("shards", plan.fingerprints["shards"], crawl, bucket)
                if store.manifest(key) is not None:
                    named.add(store.read(key, ["path"]).column("path").to_pylist())
        named.add(e["path"] for e in replacements(store).values() if e["path"] is not None)
    freed = 0
    # The manifest goes first, so that nobody reads a version whose shards are going.
    for version in dropped:
        if not dry_run:
            drop(store, version)
        paths = sorted(store.blobs.list(f"manifests/{version}"), key=lambda p: not p[0].endswith("manifest.json"))
        for path, size in paths:
            freed += size
            if not dry_run:
                store.blobs.delete(path)
    deleted = 0
    for stratum in store.blobs.children("shards")[0]:
        # The partitions of the asset ``shards`` stand in the same folder, under their fingerprint: not shards.
        files = (f for f in list(store.blobs.list(f"shards/{stratum}")) if _SHARD.match(f[0]))
        for base, own in itertools.groupby(files, lambda f: f[0].rpartition(".")[0]):
            if base in named:
                continue
            deleted += 1
            for path, size in own:
                freed += size
                if not dry_run:
                    store.blobs.delete(path)
            if not dry_run:
                store.blobs.delete(f"{COMPACTED}/{base.split('/')[2]}.json")
    return Retained(tuple(kept), tuple(dropped), deleted, freed)
