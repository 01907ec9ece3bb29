"""Lineage, both ways: from a position in training to pages, and from a page to positions in training.

Belongs here: ``lineage``, ``whereis`` and ``spike``. Does not belong here: the sampler and the reader (``loader/``),
and the look-ups in the store (``whereabouts.py``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gristmill.errors import ManifestError
from gristmill.identity import canonical_url, url_hash
from gristmill.loader.manifest import Manifest, open_manifest
from gristmill.release.replaced import successors
from gristmill.release.whereabouts import Finder, as_id
from gristmill.store import Store
from gristmill.tokens import packing

if TYPE_CHECKING:
    from gristmill.loader.reader import Reader

DOC_COLUMNS = ("ordinal", "doc_id", "record_id", "crawl", "host_bucket", "row", "n_tokens")


@dataclass(frozen=True)
class Piece:
    """Part of a document in one sequence of training.

    Attributes:
        step, position: of the run; ``position`` among all samples of the step.
        phase, source, epoch: by the schedule.
        shard, sequence, ordinal: where the bytes lie.
        start, length: tokens of the sequence that the document fills.
        doc_id, record_id: hex.
        provenance: its row (URL, fetch time, tier, licence, ...).
        derived_from: provenance of its parents, nearest first.
    """

    step: int
    position: int
    phase: str
    source: str
    epoch: int
    shard: str
    sequence: int
    ordinal: int
    start: int
    length: int
    doc_id: str
    record_id: str
    provenance: dict[str, Any]
    derived_from: tuple[dict[str, Any], ...]


class Lineage:
    """A version opened for questions.

    Opening reads the manifest. Asking for a position computes the sample, and reads two objects a document: the shard's
    ``.docs``, and the row group of provenance at the locator that stands there. No token is read, no kernel loaded.

    Args:
        store: where the version and its provenance are.
        version: which.
    """

    def __init__(self, store: Store, version: str) -> None:
        self.manifest: Manifest = open_manifest(store.root, version, options=_options(store))
        made = self.manifest.made_from
        if len(made) < 3:
            raise ManifestError(f"version {version} does not say what it was made from: no page can be followed")
        self.finder = Finder(store, made["fingerprints"], made["grid"]["host_buckets"], made["crawls"])
        self.sampler = self.manifest.sampler
        self.schedule = self.manifest.schedule

    @cached_property
    def reader(self) -> "Reader":
        """For the questions that need tokens."""
        from gristmill.loader.reader import Reader

        return Reader(self.manifest)

    def at(self, step: int, position: int, *, rank: int | None = None, world: int = 1) -> list[Piece]:
        """Documents of one sample, in the order in which they stand in it.

        Args:
            step: global step.
            position: among the samples of the step; with ``rank``, among that rank's samples of it.
            rank, world: a reader, and how many there were.

        Raises:
            IndexError: the run has no such sample, or the world no such rank.
        """
        _require_ranks([0 if rank is None else rank], world)
        if position < 0:
            raise IndexError(f"positions begin at 0, not at {position}")
        number = position if rank is None else rank + position * world
        located = self.sampler.locate(step, number)
        segment = self.schedule.segments[located.segment]
        flat = self.sampler.first_shard[located.source] + located.shard
        source, row = self.manifest.shard_of(flat)
        docs = self._docs(flat, DOC_COLUMNS)
        order, lengths = self._reading_order(flat, segment.layout, docs.column("n_tokens"))
        mode, seq_len = packing.parse_layout(segment.layout)
        found = packing.pieces(lengths, seq_len, mode, located.sequence)
        rows = docs.take(pa.array([int(order[d]) for d, _, _ in found], pa.int64())).to_pylist()
        out = []
        at = 0
        for doc, (_, _, length) in zip(rows, found, strict=True):
            provenance = self.finder.provenance(doc["crawl"], doc["host_bucket"], doc["row"], doc["record_id"])
            out.append(
                Piece(
                    step, number, segment.name, source, located.epoch, self.manifest.sources[source].hash(row),
                    located.sequence, doc["ordinal"], at, length, doc["doc_id"].hex(), doc["record_id"].hex(),
                    provenance, tuple(self.finder.chain(provenance)),
                )
            )  # fmt: skip
            at += length
        return out

    def _docs(self, flat: int, columns: Sequence[str]) -> pa.Table:
        try:
            return self.manifest.documents(flat, columns)
        except FileNotFoundError as error:
            source, row = self.manifest.shard_of(flat)
            path = self.manifest.sources[source].path(row)
            raise ManifestError(
                f"{path}.docs is missing: run `gristmill manifest verify {self.manifest.version}`"
            ) from error

    def _reading_order(self, flat: int, layout: str, n_tokens: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
        """(ordinals of a shard's selected documents, tokens of each), as the reader reads them in a layout."""
        source, row = self.manifest.shard_of(flat)
        shards = self.manifest.sources[source]
        lengths = np.asarray(n_tokens, np.int64)
        mode, _ = packing.parse_layout(layout)
        chosen = None
        if int(shards.counts[row, 2]) != len(lengths) or mode == "related":
            chosen = self.manifest.selection.ordinals(source, shards.hash(row))
        order = np.arange(len(lengths)) if chosen is None else chosen if mode == "related" else np.sort(chosen)
        return order, lengths[order]

    def whereis(self, what: str, *, world: int = 1, until: int | None = None) -> list[dict[str, Any]]:
        """Every sample that shows a document, or any document of a URL, in order of steps.

        Args:
            what: a URL, or a doc_id in hex.
            world: for ``rank``.
            until: only steps before this one: what has been shown by then.

        Returns:
            rows of phase, step, position, rank, epoch, source, shard, ordinal, sequence, doc_id, source_id (the
            supplier's own); empty where the version does not select it.

        Raises:
            ManifestError: nothing has that URL, or it is neither URL nor id.
            IndexError: the world has no ranks.
        """
        _require_ranks([], world)
        out: list[dict[str, Any]] = []
        for doc_id in self.documents_of(what):
            for source, row, ordinal, said in self._places(doc_id):
                known = {"doc_id": doc_id.hex(), "source_id": said}
                out += [{**r, **known} for r in self._shown(source, row, ordinal, world, until)]
        return sorted(out, key=lambda r: (r["step"], r["position"]))

    def documents_of(self, what: str) -> list[bytes]:
        """doc_ids that a URL (any fetch of it) or a hex id names. Raises ManifestError where nothing does."""
        if "://" in what:
            hashed = url_hash(canonical_url(what))
            found: dict[bytes, None] = {}
            for crawl in self.finder.crawls:
                for row in self.finder.rows("provenance", crawl, self.finder.bucket_of_url(what), "url_hash", hashed):
                    if row["doc_id"] is not None:
                        found[row["doc_id"]] = None
            if not found:
                raise ManifestError(f"no crawl of this version has a text from {what}")
            return list(found)
        doc_id = as_id(what)
        if doc_id is None:
            raise ManifestError(f"{what!r} is neither a URL nor a document id (32 hex digits)")
        return [doc_id]

    def _places(self, doc_id: bytes) -> Iterable[tuple[str, int, int, str | None]]:
        """(source, row of its shard, ordinal, the supplier's id) wherever the version selects a document."""
        for crawl, bucket, _ in self.finder.home(doc_id):
            for row in self.finder.rows("catalogue", crawl, bucket, "doc_id", doc_id):
                if row["shard"] is None:
                    continue
                for name, path in {row["shard"]: None, **successors(self.finder.store, row["shard"])}.items():
                    for source, shards in self.manifest.sources.items():
                        for number in shards.rows(name):
                            ordinal = row["ordinal"] if path is None else self._ordinal(source, number, doc_id)
                            chosen = self.manifest.selection.ordinals(source, name)
                            if ordinal is not None and (chosen is None or (chosen == ordinal).any()):
                                yield source, number, ordinal, row.get("source_id")  # an older catalogue has none

    def _ordinal(self, source: str, row: int, doc_id: bytes) -> int | None:
        """Where a document stands in a shard that a purge or a compaction wrote."""
        flat = self.sampler.first_shard[self.schedule.sources.index(source)] + row
        ids = self._docs(flat, ["doc_id"]).column("doc_id").to_pylist()
        return ids.index(doc_id) if doc_id in ids else None

    def _shown(
        self, source: str, row: int, ordinal: int, world: int, until: int | None
    ) -> Iterable[dict[str, Any]]:
        number = self.schedule.sources.index(source)
        flat = self.sampler.first_shard[number] + row
        for layout in self.sampler.layouts:
            if not self.schedule.sequences[layout][number]:
                continue
            count = int(self.manifest.sources[source].layouts[layout][row])
            for sequence in self._sequences(layout, flat, ordinal, count):
                for found in self.sampler.occurrences(number, row, sequence, layout, until):
                    yield {
                        "phase": self.schedule.segments[found.segment].name, "step": found.step,
                        "position": found.position, "rank": found.position % world, "epoch": found.epoch,
                        "source": source, "shard": self.manifest.sources[source].hash(row), "ordinal": ordinal,
                        "sequence": sequence,
                    }  # fmt: skip

    def _sequences(self, layout: str, flat: int, ordinal: int, count: int) -> list[int]:
        """Sequences of a shard that hold tokens of a document."""
        if not count:
            return []
        mode, seq_len = packing.parse_layout(layout)
        order, lengths = self._reading_order(flat, layout, self._docs(flat, ["n_tokens"]).column("n_tokens"))
        at = int(np.flatnonzero(order == ordinal)[0])
        if mode == "best_fit":
            bins = packing.best_fit(lengths, seq_len)
            pieces = np.flatnonzero(bins.doc == at)
            return sorted({int(np.searchsorted(bins.ptr, p, side="right")) - 1 for p in pieces})
        ends = np.cumsum(lengths)
        first, last = int(ends[at] - lengths[at]), int(ends[at]) - 1
        return [s for s in range(first // seq_len, last // seq_len + 1) if s < count]

    def spike(
        self, first_step: int, last_step: int, ranks: Sequence[int] | None = None, world: int = 1
    ) -> list[dict[str, Any]]:
        """Documents behind a stretch of steps (both ends included), the most suspicious first.

        Suspicious is what loss spikes have been traced to: low entropy, one token dominating, long runs, repeated
            pieces ("PaLM", section 5.1, skips such batches). Each row names the shard, ready for the skip set.

        Args:
            first_step, last_step: inclusive.
            ranks: only what these ranks read of a world of ``world``.

        Raises:
            IndexError: the run has no such step, or the world no such rank.
        """
        _require_ranks(ranks or [], world)
        rows: dict[tuple[str, int], dict[str, Any]] = {}
        for step in range(first_step, last_step + 1):
            for position in range(self.sampler.batch(step)):
                if ranks is None or position % world in ranks:
                    self._suspect(step, position, rows)
        for row in rows.values():
            row.update(self._measures(row))
        return sorted(rows.values(), key=lambda r: (-r["suspicion"], r["doc_id"]))

    def _suspect(self, step: int, position: int, rows: dict[tuple[str, int], dict[str, Any]]) -> None:
        from gristmill.loader.gather import PADDING

        located = self.sampler.locate(step, position)
        segment = self.schedule.segments[located.segment]
        flat = self.sampler.first_shard[located.source] + located.shard
        one, sequence = np.array([flat], np.int64), np.array([located.sequence], np.int64)
        read = self.reader.read(segment.layout, one, sequence, np.uint32)
        ordinals = self.reader.ordinals(segment.layout, flat, read.document)
        edges = np.concatenate([[0], np.cumsum(read.length)])
        for (a, b), ordinal, document in zip(
            pairwise(edges.tolist()), ordinals.tolist(), read.document.tolist(), strict=True
        ):
            if document == PADDING:
                continue
            bits, share, run = token_measures(read.tokens[0, a:b])
            name = self.reader.name_of(flat)
            row = rows.setdefault(
                (name, ordinal),
                {"shard": name, "ordinal": ordinal, "flat": flat, "shown": [], "entropy_bits": bits,
                 "top_token_share": share, "longest_run": run, "suspicion": 0.0},
            )  # fmt: skip
            row["shown"].append([step, position])
            row["entropy_bits"] = min(row["entropy_bits"], bits)
            row["top_token_share"] = max(row["top_token_share"], share)
            row["longest_run"] = max(row["longest_run"], run)
            # How far over the usual: prose of 64 tokens or more has over 5 bits, no token over 15 %, runs under 8.
            if b - a >= 64:
                row["suspicion"] = max(row["suspicion"], 5.0 - bits, (share - 0.15) * 10, np.log2(max(run, 1) / 8))

    def _measures(self, row: dict[str, Any]) -> dict[str, Any]:
        doc = self.reader.documents(row.pop("flat"), DOC_COLUMNS).slice(row["ordinal"], 1).to_pylist()[0]
        found = self.finder.rows("catalogue", doc["crawl"], doc["host_bucket"], "doc_id", doc["doc_id"])
        known = found[0] if found else {}
        wanted = (
            "url", "lang", "lang_conf", "n_tokens", "dup_count", "dup_cluster_size", "stratum", "ensemble_percentile",
        )  # fmt: skip
        return {"doc_id": doc["doc_id"].hex(), "crawl": doc["crawl"], **{n: known.get(n) for n in wanted}}


def _require_ranks(ranks: Sequence[int], world: int) -> None:
    if world < 1:
        raise IndexError(f"a world has at least one rank, not {world}")
    strange = [rank for rank in ranks if not 0 <= rank < world]
    if strange:
        raise IndexError(f"of a world of {world} the ranks are 0 to {world - 1}, not {strange[0]}: say --world N")


def token_measures(ids: np.ndarray) -> tuple[float, float, int]:
    """(unigram entropy in bits, share of the commonest token, longest run) of some tokens."""
    if not len(ids):
        return 0.0, 0.0, 0
    _, counts = np.unique(ids, return_counts=True)
    p = counts / len(ids)
    edges = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1], [True]]))
    return float(-(p * np.log2(p)).sum()), float(p.max()), int(np.diff(edges).max())


def lineage(
    store: Store, version: str, step: int, position: int, rank: int | None = None, world: int = 1
) -> list[Piece]:
    """``Lineage(store, version).at(...)``: what a rank read at a position of a step, and where it came from."""
    return Lineage(store, version).at(step, position, rank=rank, world=world)


def whereis(store: Store, version: str, what: str, *, world: int = 1, until: int | None = None) -> list[dict[str, Any]]:
    """``Lineage(store, version).whereis(...)``: the samples that show a URL or a document."""
    return Lineage(store, version).whereis(what, world=world, until=until)


def spike(
    store: Store, version: str, first_step: int, last_step: int, ranks: Sequence[int] | None = None, world: int = 1
) -> list[dict[str, Any]]:
    """``Lineage(store, version).spike(...)``: the documents behind a loss spike."""
    return Lineage(store, version).spike(first_step, last_step, ranks, world)


def _options(store: Store) -> dict[str, Any] | None:
    """The store's object-store settings in the loader's spelling."""
    names = {"endpoint": "endpoint_override", "access_key_id": "access_key", "secret_access_key": "secret_key",
             "region": "region"}  # fmt: skip
    found = {names[k]: v for k, v in store.options.items() if k in names}
    if str(found.get("endpoint_override", "")).startswith("http://"):
        found["scheme"] = "http"
    return found or None
