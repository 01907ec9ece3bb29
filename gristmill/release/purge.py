"""Physical deletion of what a tombstone names: the bytes go, the tombstone and a note of what went stay.

Belongs here: taking documents out of shards, and saying which other places still hold them. Does not belong here:
tombstones themselves (``tombstones.py``).

A shard is never changed: one without the document is written beside it, the old one is deleted, and
``registry/replaced`` says which stands for which, so that the next manifest names the new one and nothing is tokenised
again. An older manifest that names the old shard can no longer be read in full, and ``manifest verify`` says why.
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.errors import ManifestError
from gristmill.fingerprint import canonical_json
from gristmill.release import scrub, tombstones
from gristmill.release.replaced import REPLACED, compacted, follow, ordinal_in, replacements, successors
from gristmill.release.ship import SHIPPED, SUFFIXES
from gristmill.release.standing import read_manifest, standing_versions
from gristmill.release.whereabouts import Finder, as_id
from gristmill.store import Key, Store, archives
from gristmill.tokens import build, shard

Homes = dict[tuple[str, int], tuple[set[bytes], set[bytes]]]  # (crawl, bucket) -> (doc_ids, record_ids)
RAW = ("raw_warc", "crawl_slices", "quarantine")
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
        finder: over the crawls and today's fingerprints; those of standing versions are looked in as well.
        what: a URL, a host, or a document id; a contract is purged host by host.
        kind: which of these, where its form does not say.
        reason: stays with the tombstone.

    Raises:
        ManifestError: a contract: its documents are not laid out by it.
        ArchivedPartitionError: some of it is archived; nothing was written or deleted, and it names what to restore.
    """
    chosen = kind or tombstones.classify(what)
    if chosen == "contract":
        raise ManifestError("a contract is purged through its containers: purge each host, repository or work of it")
    tombstones.normal(chosen, what)  # raises for what cannot be of that kind
    finders = _finders(store, finder)
    out = Purged()
    by_shard: dict[str, set[int]] = {}
    replaced = replacements(store)
    gone: dict[bytes, None] = {}
    for one in finders:
        for _, _, row in _documents(one, chosen, what):
            gone[row["doc_id"]] = None
            if row["shard"] is None:
                continue
            names, at = follow([row["shard"]], np.array([row["ordinal"]]), replaced)
            if names[0] is not None:
                by_shard.setdefault(names[0], set()).add(int(at[0]))
            for name, path in successors(store, row["shard"]).items():  # copies that versions with compaction read
                ordinal = ordinal_in(store, path, row["doc_id"]) if name != names[0] else None
                if ordinal is not None:
                    by_shard.setdefault(name, set()).add(ordinal)
    out.documents = [doc_id.hex() for doc_id in gone]
    homes = _homes(finders, list(gone))
    unseen = _untaken(store, finder, what, homes) if chosen == "url" else []
    scrub.require_hot(store, sorted(homes))
    because = tombstones.forget(store, what, kind=chosen, reason=reason)
    paths: dict[str, str] = {}
    for one in finders:
        paths |= _paths(store, one, replaced)
    for name, dropped in sorted(by_shard.items()):
        old, entry = _rewrite(store, name, paths[name], sorted(dropped))
        store.blobs.put(f"{REPLACED}/{name}.json", canonical_json(entry))
        tombstones.mark_purged(store, because, [old])
        for suffix in SUFFIXES:
            store.blobs.delete(old + suffix)
        out.shards[old] = entry["path"]
    _beside(store, finder, homes, out)
    out.left += unseen
    if gone:
        out.left += _unnamed(store, {*paths.values(), *(p for p in out.shards.values() if p)}, list(gone))
    return out


def _finders(store: Store, finder: Finder) -> list[Finder]:
    """The one given, and one for the results that each standing version was made from, where they are others."""
    out = {_made(finder.fingerprints, finder.buckets): finder}
    for version in standing_versions(store):
        body, _ = read_manifest(store, version)
        if not body.get("fingerprints"):
            continue
        prints, buckets = body["fingerprints"], body["grid"]["host_buckets"]
        out.setdefault(_made(prints, buckets), Finder(store, prints, buckets, finder.crawls))
    return list(out.values())


def _made(fingerprints: Mapping[str, str], buckets: int) -> tuple[Any, ...]:
    return buckets, *(fingerprints[a] for a in ("exact", "catalogue", "shards"))


def _homes(finders: Sequence[Finder], documents: list[bytes]) -> Homes:
    """Every record with one of these texts: (crawl, bucket) -> (documents, records)."""
    homes: Homes = {}
    for finder in finders:
        for doc_id in documents:
            for crawl in finder.crawls:
                for row in finder.rows("exact", crawl, finder.range_of(doc_id), "doc_id", doc_id):
                    ids, records = homes.setdefault((crawl, row["host_bucket"]), (set(), set()))
                    ids.add(doc_id)
                    records.add(row["record_id"])
    return homes


def _untaken(store: Store, finder: Finder, url: str, homes: Homes) -> list[str]:
    """Add a URL's records, whatever became of them: a gate, or parameters nobody uses, may have kept them from a shard.

    Returns what could not be looked into: indexes that lie in an archive, of crawls with nothing else of this URL.
    """
    from gristmill.identity import url_hash

    bucket, left = finder.bucket_of_url(url), []
    for crawl in finder.crawls:
        for key in scrub.partitions(store, crawl, bucket, ("raw_warc",)):
            note = store.archived(key)
            if note is not None:
                if (crawl, bucket) not in homes:
                    left.append(f"{key.path}: in the archive {note['place']}, so fetches that came to no version were "
                                f"not looked for; `gristmill restore {crawl} --asset raw_warc`, then this again")
                continue
            table = store.read(key, ["url_hash", "record_id"])
            found = table.filter(pc.equal(table.column("url_hash"), pa.scalar(url_hash(url), pa.uint64())))
            if found.num_rows:
                homes.setdefault((crawl, bucket), (set(), set()))[1].update(found.column("record_id").to_pylist())
    return left


def _beside(store: Store, finder: Finder, homes: Homes, out: Purged) -> None:
    """Scrub the tables of every record with one of these texts, and name what still holds them."""
    left: set[str] = set()
    for (crawl, bucket), (ids, records) in sorted(homes.items()):
        out.scrubbed += scrub.scrub(store, crawl, bucket, ids, records)
        left |= set(scrub.raw_records(finder, crawl, bucket, records))
        for asset in REPORTS:
            for fingerprint in store.blobs.children(asset)[0]:
                if store.manifest(Key(asset, fingerprint, crawl)) is None:
                    continue
                again = (f"make it again with `gristmill run --crawl {crawl} --stage {asset} --force`"
                         if fingerprint == finder.fingerprints.get(asset) else
                         "of other parameters: `gristmill collect --delete`, once no version that stands names it")
                left.add(f"{Key(asset, fingerprint, crawl).path}: may quote it; {again}")
    out.left = sorted({*left, *_copies(store), *_archived(store, homes)})


def _unnamed(store: Store, known: set[str], documents: list[bytes]) -> list[str]:
    """Shards that hold a document and that neither today's results nor a standing version name."""
    out = []
    keep = max(1, len(standing_versions(store)))
    for path, _ in store.blobs.list("shards"):
        base = path.removesuffix(".docs")
        if base == path or base in known:
            continue
        if any(ordinal_in(store, base, doc_id) is not None for doc_id in documents):
            out.append(f"{base}: a shard of other parameters, which no version names; "
                       f"`gristmill manifest retain {keep}` deletes it and drops no version")
    return out


def _archived(store: Store, homes: Homes) -> list[str]:
    """Copies in archives, which keep theirs when a crawl is restored."""
    out = []
    for place, crawl, asset in archives(store):
        for at, bucket in sorted(homes):
            if at != crawl or asset not in (*scrub.HELD, *RAW):
                continue
            if asset == "crawl_slices":  # cut by file, not by host
                out.append(f"{place}/{asset}: slices of {crawl} hold its raw record")
                continue
            out += [f"{place}/{key.path}: a copy in an archive; delete it there, and archive {crawl} again"
                    for key in scrub.partitions(store, crawl, bucket, (asset,))]
    return list(dict.fromkeys(out))


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
