"""Physical deletion of what a tombstone names: the bytes go, the tombstone and a note of what went stay.

Belongs here: taking documents out of shards, and saying which other places still hold them. Does not belong here:
tombstones themselves (``tombstones.py``).

A shard is never changed: one without the document is written beside it, the old one is deleted, and
``registry/replaced`` says which stands for which, so that the next manifest names the new one and nothing is tokenised
again. An older manifest that names the old shard can no longer be read in full, and ``manifest verify`` says why.
"""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.errors import ManifestError
from gristmill.fingerprint import canonical_json
from gristmill.release import scrub, tombstones
from gristmill.release.replaced import REPLACED, compacted, follow, ordinal_in, replacements, successors
from gristmill.release.ship import SHIPPED, SUFFIXES
from gristmill.release.whereabouts import Finder, as_id
from gristmill.store import Store
from gristmill.tokens import build, shard

# Pages of a whole crawl that show pieces of texts.
REPORTS = ("duplicate_pairs", "contamination_report")


@dataclass
class Purged:
    """What a purge did.

    Attributes:
        documents: doc_ids taken out, hex.
        shards: old path -> new path, or None where nothing was left of it.
        scrubbed: partitions of other tables that held text or tokens of them, and hold them no more.
        left: places that still hold the bytes, and what to do about each: raw records, landed files, reports, copies.
    """

    documents: list[str] = field(default_factory=list)
    shards: dict[str, str | None] = field(default_factory=dict)
    scrubbed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def purge(store: Store, finder: Finder, what: str, *, kind: tombstones.Kind | None = None, reason: str = "") -> Purged:
    """Write the tombstone, and delete the bytes of what it names from every shard.

    Args:
        store: where.
        finder: over the crawls and fingerprints to look in.
        what: a URL, a host, or a document id; a contract is purged host by host.
        kind: which of these, where its form does not say.
        reason: stays with the tombstone.

    Raises:
        ManifestError: a contract: its documents are not laid out by it.
    """
    chosen = kind or tombstones.classify(what)
    if chosen == "contract":
        raise ManifestError("a contract is purged through its containers: purge each host, repository or work of it")
    because = tombstones.forget(store, what, kind=chosen, reason=reason)
    out = Purged()
    by_shard: dict[str, set[int]] = {}
    replaced = replacements(store)
    gone: dict[bytes, None] = {}
    for _, _, row in _documents(finder, chosen, what):
        gone[row["doc_id"]] = None
        out.documents.append(row["doc_id"].hex())
        if row["shard"] is not None:
            names, at = follow([row["shard"]], np.array([row["ordinal"]]), replaced)
            if names[0] is not None:
                by_shard.setdefault(names[0], set()).add(int(at[0]))
            for name, path in successors(store, row["shard"]).items():  # copies that versions with compaction read
                ordinal = ordinal_in(store, path, row["doc_id"]) if name != names[0] else None
                if ordinal is not None:
                    by_shard.setdefault(name, set()).add(ordinal)
    paths = _paths(store, finder, replaced)
    for name, dropped in sorted(by_shard.items()):
        old, entry = _rewrite(store, name, paths[name], sorted(dropped))
        store.blobs.put(f"{REPLACED}/{name}.json", canonical_json(entry))
        tombstones.mark_purged(store, because, [old])
        for suffix in SUFFIXES:
            store.blobs.delete(old + suffix)
        out.shards[old] = entry["path"]
    _beside(store, finder, list(gone), out)
    return out


def _beside(store: Store, finder: Finder, documents: list[bytes], out: Purged) -> None:
    """Scrub the tables of every record with one of these texts, and name what still holds them."""
    homes: dict[tuple[str, int], tuple[set[bytes], set[bytes]]] = {}
    for doc_id in documents:
        for crawl in finder.crawls:
            for row in finder.rows("exact", crawl, finder.range_of(doc_id), "doc_id", doc_id):
                ids, records = homes.setdefault((crawl, row["host_bucket"]), (set(), set()))
                ids.add(doc_id)
                records.add(row["record_id"])
    left: set[str] = set()
    for (crawl, bucket), (ids, records) in sorted(homes.items()):
        out.scrubbed += scrub.scrub(store, finder, crawl, bucket, ids)
        left |= set(scrub.raw_records(finder, crawl, bucket, records))
        for asset in REPORTS:
            if asset in finder.fingerprints and store.manifest(finder.key(asset, crawl, None)) is not None:
                left.add(f"{finder.key(asset, crawl, None).path}: may quote it; make it again with "
                         f"`gristmill run --crawl {crawl} --stage {asset} --force`")
    out.left = sorted({*left, *_copies(store)})


def _documents(finder: Finder, kind: str, what: str) -> Iterable[tuple[str, int, dict[str, Any]]]:
    """(crawl, bucket, catalogue row) of every document that a tombstone names."""
    if kind == "doc":
        doc_id = as_id(what)
        homes = finder.home(doc_id) if doc_id else []
        for crawl, bucket, _ in homes:
            for row in finder.rows("catalogue", crawl, bucket, "doc_id", doc_id):
                yield crawl, bucket, row
        return
    column = "url_hash" if kind == "url" else "host"
    value: Any = what.lower().rstrip(".")
    if kind == "url":
        from gristmill.identity import url_hash

        value = url_hash(what)
    for crawl in finder.crawls:
        buckets = [finder.bucket_of_url(what)] if kind == "url" else range(finder.buckets)
        for bucket in buckets:
            if kind == "url":
                yield from ((crawl, bucket, r) for r in finder.rows("catalogue", crawl, bucket, column, value))
            elif finder.has("catalogue", crawl, bucket):
                table = finder.store.read(finder.key("catalogue", crawl, bucket))
                hosts = frozenset({value})
                covered = [tombstones.host_covered(h or "", hosts) for h in table.column("host").to_pylist()]
                rows = table.filter(pa.array(covered, pa.bool_())).to_pylist()
                yield from ((crawl, bucket, r) for r in rows)


def _paths(store: Store, finder: Finder, replaced: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    out: dict[str, str] = {e["by"]: e["path"] for e in replaced.values() if e["by"] is not None}
    out |= {name: e["path"] for name, e in compacted(store).items()}
    for crawl in finder.crawls:
        for bucket in range(finder.buckets):
            if finder.has("shards", crawl, bucket):
                table = store.read(finder.key("shards", crawl, bucket), ["hash", "path"])
                out.update(zip(table.column("hash").to_pylist(), table.column("path").to_pylist(), strict=True))
    return out


def _rewrite(store: Store, name: str, path: str, dropped: list[int]) -> tuple[str, dict[str, Any]]:
    """Write a shard without some documents; (old path, the entry of ``registry/replaced``)."""
    data, idx = store.blobs.get(f"{path}.bin"), store.blobs.get(f"{path}.idx")
    index = shard.verify(data, idx, name, path)
    meta = json.loads(store.blobs.get(f"{path}.meta"))
    docs = pq.read_table(io.BytesIO(store.blobs.get(f"{path}.docs")))
    keep = np.ones(index.documents, bool)
    keep[dropped] = False
    stratum = meta["stratum"]
    entry: dict[str, Any] = {
        "by": None,
        "path": None,
        "stratum": stratum,
        "n_docs": 0,
        "n_tokens": 0,
        "dropped": dropped,
    }
    if keep.any():
        lengths: np.ndarray = np.diff(index.offsets.astype(np.int64))
        tokens = np.frombuffer(data, "<u4")[np.repeat(keep, lengths)]
        offsets = np.concatenate([[0], np.cumsum(lengths[keep])])
        new = build.write_one(
            store.blobs, docs.filter(pa.array(keep)), tokens, offsets, stratum, meta["build"], meta["licenses"]
        )
        entry |= {"by": new["hash"], "path": new["path"], "n_docs": new["n_docs"], "n_tokens": new["n_tokens"]}
    return path, entry


def _copies(store: Store) -> list[str]:
    """Shipped copies, which hold what was shipped until they are given a later version."""
    notes = [json.loads(store.blobs.get(path)) for path, _ in store.blobs.list(SHIPPED)]
    return [f"{n['target']}: a copy of version {n['version']}; ship it a later one, and retain there" for n in notes]
