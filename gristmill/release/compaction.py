"""Thin shards: where a version selects little of a shard, what it selects moves into new shards of the same stratum.

Belongs here: which shards are thin, what goes together, writing the new ones, and the registry that says what they were
made of. Does not belong here: what is selected (``selection.py``), the bytes of a shard (``tokens/build.py``).

The originals stay: the catalogue names them, and another version may select more of them. A compacted shard stands in
``registry/compacted/{hash}.json`` before its files do, so that a purge finds every copy; a later build uses one that
holds all it needs of a thin shard, and then nothing is rewritten. No document is tokenised again.
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.fingerprint import canonical_json
from gristmill.release.replaced import COMPACTED, compacted, replacements
from gristmill.release.selection import MERGED, merged_file, range_of_shard
from gristmill.release.shard_table import Named
from gristmill.store import Store
from gristmill.tokens import build, packing, shard


@dataclass(frozen=True)
class New:
    """A shard to be written: documents (ordinals, ascending) of thin shards, end to end."""

    stratum: str
    pieces: tuple[tuple[str, np.ndarray], ...]


@dataclass
class Compaction:
    """What a version's thin shards become.

    Attributes:
        thin: hashes of shards that the version would read little of, and no longer names.
        reused: compacted shards of earlier builds that serve.
        new: name that stands for it until it is written -> what goes in.
        rows: of MERGED, by ``reused`` and ``new``.
    """

    thin: set[str] = field(default_factory=set)
    reused: set[str] = field(default_factory=set)
    new: dict[str, New] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


def standing(store: Store) -> dict[str, Named]:
    """Compacted shards as they are now: one that a purge rewrote stands under its new name."""
    replaced = replacements(store)
    out = {}
    for name, entry in compacted(store).items():
        now: Mapping[str, Any] | None = {**entry, "by": name}
        while now is not None and now["by"] in replaced:
            now = replaced[now["by"]]
        if now is not None and now["by"] is not None and store.blobs.size(f"{now['path']}.bin") is not None:
            out[now["by"]] = Named(now["stratum"], now["path"], now["n_docs"], now["n_tokens"])
    return out


def plan(
    store: Store, scratch: str, ranges: int, shards: Mapping[str, Named], below: float, shard_tokens: int,
    layouts: Sequence[str],
) -> Compaction:
    """Which shards are thin, and what becomes of what is selected of them. Writes nothing.

    Args:
        scratch, ranges: where MERGED lies.
        shards: every shard that MERGED may name.
        below: a shard of whose documents a smaller share is selected is thin.
        shard_tokens: tokens a new shard, about.
        layouts: of the recipe.
    """
    out = Compaction()
    wanted: dict[str, np.ndarray] = {}
    for number in range(ranges):
        union: dict[str, list[np.ndarray]] = {}
        for row in _rows(scratch, number):
            union.setdefault(row["shard"], []).append(np.asarray(row["ordinals"], np.int64))
        for name, lists in union.items():
            chosen = np.unique(np.concatenate(lists))
            if len(chosen) < below * shards[name].n_docs:
                wanted[name] = chosen
    out.thin = set(wanted)
    if not wanted:
        return out
    place: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # thin shard -> (shard, ordinal) of its chosen, as ``wanted``
    lengths: dict[str, np.ndarray] = {}  # of every document of a shard that serves
    earlier = standing(store)
    for stratum in sorted({shards[name].stratum for name in wanted}):
        own = sorted(name for name in wanted if shards[name].stratum == stratum)
        docs = {name: _docs(store, shards[name].path).take(pa.array(wanted[name])) for name in own}
        here = {name: e for name, e in sorted(earlier.items()) if e.stratum == stratum}
        left = _reuse(store, own, docs, here, below, place, lengths)
        out.reused |= {str(name) for key in own if key in place for name in place[key][0]}
        _cut(out, stratum, left, wanted, docs, shard_tokens, place, lengths)
    out.rows = _moved(scratch, ranges, wanted, place, lengths, layouts)
    return out


def _docs(store: Store, path: str) -> pa.Table:
    return pq.read_table(io.BytesIO(store.blobs.get(f"{path}.docs")), columns=["doc_id", "n_tokens"])


def _reuse(
    store: Store, own: list[str], docs: Mapping[str, pa.Table], here: Mapping[str, Named], below: float,
    place: dict[str, tuple[np.ndarray, np.ndarray]], lengths: dict[str, np.ndarray],
) -> list[str]:
    """Place thin shards all of whose documents lie in compacted shards that stay worth reading; the others are left."""
    where: dict[bytes, tuple[str, int]] = {}
    for name, entry in here.items():
        table = _docs(store, entry.path)
        lengths[name] = np.asarray(table.column("n_tokens"), np.int64)
        for ordinal, doc_id in enumerate(table.column("doc_id").to_pylist()):
            where.setdefault(doc_id, (name, ordinal))
    for key in own:
        found = [where.get(i) for i in docs[key].column("doc_id").to_pylist()]
        if all(f is not None for f in found):
            pairs = [f for f in found if f is not None]
            place[key] = np.array([n for n, _ in pairs], object), np.array([o for _, o in pairs], np.int64)
    while True:  # one that is thin itself is not worth its place; what lay there is left, which may thin another
        read: dict[str, int] = {}
        for key in own:
            for name in place[key][0] if key in place else ():
                read[name] = read.get(name, 0) + 1
        bad = {name for name, n in read.items() if n < below * here[name].n_docs}
        if not bad:
            return [key for key in own if key not in place]
        for key in own:
            if key in place and bad & set(place[key][0]):
                del place[key]


def _cut(
    out: Compaction, stratum: str, left: list[str], wanted: Mapping[str, np.ndarray], docs: Mapping[str, pa.Table],
    shard_tokens: int, place: dict[str, tuple[np.ndarray, np.ndarray]], lengths: dict[str, np.ndarray],
) -> None:
    """Lay what is left end to end, in order of shards and ordinals, and cut it into new shards."""
    if not left:
        return
    sizes = np.concatenate([np.asarray(docs[key].column("n_tokens"), np.int64) for key in left])
    owner = np.concatenate([np.full(len(wanted[key]), i) for i, key in enumerate(left)])
    ordinal = np.concatenate([wanted[key] for key in left])
    names, at = np.empty(len(sizes), object), np.zeros(len(sizes), np.int64)
    for first, last in build.cuts(sizes, shard_tokens):
        name = f"~{len(out.new):06d}"
        own = slice(first, last)
        pieces = tuple((left[i], ordinal[own][owner[own] == i]) for i in np.unique(owner[own]).tolist())
        out.new[name] = New(stratum, pieces)
        names[own], at[own], lengths[name] = name, np.arange(last - first), sizes[own]
    for i, key in enumerate(left):
        place[key] = names[owner == i], at[owner == i]


def _moved(
    scratch: str, ranges: int, wanted: Mapping[str, np.ndarray], place: Mapping[str, tuple[np.ndarray, np.ndarray]],
    lengths: Mapping[str, np.ndarray], layouts: Sequence[str],
) -> list[dict[str, Any]]:
    """The rows of MERGED of thin shards, by the shards in which their documents lie now."""
    modes = [packing.parse_layout(name) for name in layouts]
    related = any(mode == "related" for mode, _ in modes)
    lists: dict[tuple[int, str], list[np.ndarray]] = {}
    for number in range(ranges):
        for row in _rows(scratch, number):
            if row["shard"] in wanted:
                names, at = place[row["shard"]]
                rows = np.searchsorted(wanted[row["shard"]], np.asarray(row["ordinals"], np.int64))
                for name in dict.fromkeys(names[rows].tolist()):
                    lists.setdefault((row["part"], name), []).append(at[rows][names[rows] == name])
    out = []
    for (part, name), pieces in sorted(lists.items(), key=lambda item: item[0]):
        ordinals = np.concatenate(pieces)
        by_place = np.sort(ordinals)
        sizes = lengths[name][by_place]
        out.append({
            "part": part, "shard": name, "ordinals": ordinals if related else by_place, "n_docs": len(ordinals),
            "n_tokens": int(sizes.sum()), "sequences": [packing.count(sizes, n, mode) for mode, n in modes],
        })
    return out


def apply(compaction: Compaction, scratch: str, ranges: int, names: Mapping[str, str] | None = None) -> None:
    """Put the moved rows in the place of the thin shards' in MERGED; ``names`` are the hashes of what was written."""
    gone = compaction.thin | (set(compaction.new) | compaction.reused if names is not None else set())
    fresh: dict[int, list[dict[str, Any]]] = {}
    for row in compaction.rows:
        name = (names or {}).get(row["shard"], row["shard"])
        number = ranges - 1 if name.startswith("~") else range_of_shard(name, ranges)
        fresh.setdefault(number, []).append({**row, "shard": name})
    for number in range(ranges):
        kept = [row for row in _rows(scratch, number) if row["shard"] not in gone]
        rows = sorted([*kept, *fresh.get(number, [])], key=lambda r: (r["part"], r["shard"]))
        pq.write_table(pa.Table.from_pylist(rows, schema=MERGED), merged_file(scratch, number))


def write(store: Store, compaction: Compaction, shards: Mapping[str, Named]) -> dict[str, str]:
    """Write the new shards; the name that stood for each -> its hash."""
    return {name: _write_one(store, new, shards) for name, new in compaction.new.items()}


def _write_one(store: Store, new: New, shards: Mapping[str, Named]) -> str:
    tokens, lengths, docs, licences = [], [], [], set()
    meta: dict[str, Any] = {}
    for name, ordinals in new.pieces:
        path = shards[name].path
        data, idx = store.blobs.get(f"{path}.bin"), store.blobs.get(f"{path}.idx")
        index = shard.verify(data, idx, name, path)
        sizes: np.ndarray = np.diff(index.offsets.astype(np.int64))
        keep = np.zeros(index.documents, bool)
        keep[ordinals] = True
        tokens.append(np.frombuffer(data, "<u4")[np.repeat(keep, sizes)])
        lengths.append(sizes[keep])
        docs.append(pq.read_table(io.BytesIO(store.blobs.get(f"{path}.docs"))).filter(pa.array(keep)))
        about = json.loads(store.blobs.get(f"{path}.meta"))
        meta = meta or about["build"]
        licences |= set(about["licenses"])
    flat, sizes = np.concatenate(tokens), np.concatenate(lengths)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    key = shard.content_hash(*shard.encode(np.ascontiguousarray(flat, np.uint32), offsets.astype(np.uint64)))
    entry = {
        "from": sorted(name for name, _ in new.pieces), "stratum": new.stratum,
        "path": build.path_of(new.stratum, key), "n_docs": len(sizes), "n_tokens": len(flat),
    }
    store.blobs.put(f"{COMPACTED}/{key}.json", canonical_json(entry))  # before the bytes, so that a purge finds them
    build.write_one(store.blobs, pa.concat_tables(docs), flat, offsets, new.stratum, meta, sorted(licences))
    return key


def _rows(scratch: str, number: int) -> Iterable[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(Path(merged_file(scratch, number)), schema=MERGED).to_pylist()
    return rows
