"""The bodies of ``tokens`` (map, by host bucket) and ``shards`` (reduce, by range of keyed hash).

Belongs here: what is read, in which order things happen to a document, and what is reported. Does not belong here: how
text is released, encoded, admitted, placed and laid out; each has its module beside this one.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import models, schemas, shuffle
from gristmill.errors import ParameterError
from gristmill.partition import Partition
from gristmill.tokens import admission, build, strata
from gristmill.tokens.release_text import release_text
from gristmill.tokens.tokenizer import Tokenizer, load

BATCH_BYTES = 8 << 20  # text handed to the tokenizer at once: bounds memory, changes nothing
FILE_TOKENS = 50_000_000  # tokens in one file of the shuffle
SAMPLE_DOCS = 64  # texts of each partition on which the fast engine is held against the reference
SAMPLE_CHARS = 20_000
PERCENTILE = "ensemble_percentile"


def tokenizer_of(part: Partition) -> Tokenizer:
    """The tokenizer that the parameters pin.

    Raises:
        ParameterError: none is pinned, or BOS or EOS is asked for without a token.
        ModelError: its file is missing or another.
    """
    params = part.plan.params.tokenize
    key = (params.model_dump_json(), str(part.site.models))
    if key not in _LOADED:
        _LOADED.clear()  # one at a time: a run has one tokenizer
        _LOADED[key] = load_pinned(params, part.site.models)
    # Engines are shared between the buckets of a worker; what a bucket finds out about them is its own.
    return replace(_LOADED[key], use_fast=True, refused=0)


_LOADED: dict[tuple[str, str], Tokenizer] = {}


def load_pinned(params: Any, models_dir: str | Path) -> Tokenizer:
    """As ``tokenizer_of``, from ``TokenizeParams`` and the folder of models."""
    if params.tokenizer is None:
        raise ParameterError(
            "tokenize.tokenizer is not set: pin a tokenizer.json or a tiktoken file by name and sha256"
        )
    for wanted, token, name in ((params.bos, params.bos_token, "bos"), (params.eos, params.eos_token, "eos")):
        if wanted and token is None:
            raise ParameterError(f"tokenize.{name} is true but tokenize.{name}_token names no token")
    path = models.resolve(params.tokenizer, Path(models_dir))
    return load(
        path,
        name=params.tokenizer.name,
        sha256=params.tokenizer.sha256,
        bos_token=params.bos_token,
        eos_token=params.eos_token,
        pattern=params.pattern,
        special_tokens=params.special_tokens,
    )


def tokens(part: Partition) -> None:
    """Released text as token ids, one row a document, laid out by shard range."""
    params = part.plan.params.tokenize
    tokenizer = tokenizer_of(part)
    docs = _gather(part)
    percentile = docs.column(PERCENTILE).to_numpy(zero_copy_only=False).astype(np.float64)
    rows = _Rows(part, tokenizer, docs, percentile)
    floor_hit = ~np.isnan(percentile) & (percentile < params.floor)
    sample: list[str] = []
    step = max(1, docs.num_rows // SAMPLE_DOCS)
    released: list[tuple[int, str]] = []
    pending = 0
    bytes_in = 0
    checked = False
    for batch in docs.to_batches(max_chunksize=1024):
        for values in batch.select(["position", "text", "removed", "pii_spans"]).to_pylist():
            i = values["position"]
            bytes_in += len(values["text"].encode())
            if floor_hit[i]:
                rows.reject(i, "tokenize_floor", float(percentile[i]), params.floor, 0)
                continue
            spans = [(s["start"], s["end"], s["kind"]) for s in values["pii_spans"] or []]
            text = release_text(values["text"], values["removed"] or [], spans)
            if not text.strip():
                rows.reject(i, "empty", 0.0, 1.0, 0)
                continue
            if i % step == 0 and len(sample) < SAMPLE_DOCS and not checked:
                sample.append(text[:SAMPLE_CHARS])
            released.append((i, text))
            pending += len(text)
            if pending >= BATCH_BYTES:
                if not checked:
                    rows.check(sample)
                    checked = True
                rows.add(released, docs)
                released, pending = [], 0
                part.progress(rows.seen, rows.admitted)
    if released:
        if not checked:
            rows.check(sample)
        rows.add(released, docs)
    rows.finish(docs, bytes_in)


def _gather(part: Partition) -> pa.Table:
    """What is needed of every document that survived deduplication, sorted by doc_id."""
    from gristmill.deduplicate.documents import documents, with_language

    docs = with_language(part, documents(part, after="semantic", cleaned=False))
    lines = part.read("lines", ["doc_id", "removed"])
    safety = part.read("safety", ["doc_id", "pii_spans"])
    quality = part.read("quality", ["doc_id", PERCENTILE])
    provenance = part.read("provenance", ["record_id", "source_tier", "license_id"])
    for table in (lines, safety, quality):
        where = pc.index_in(docs.column("doc_id"), value_set=table.column("doc_id"))
        for name in table.column_names[1:]:
            docs = docs.append_column(name, table.column(name).take(where))
    row = pc.index_in(docs.column("record_id"), value_set=provenance.column("record_id"))
    for name in ("source_tier", "license_id"):
        docs = docs.append_column(name, provenance.column(name).take(row))
    docs = docs.append_column("row", row.cast(pa.uint32()))
    return docs.append_column("position", pa.array(np.arange(docs.num_rows, dtype=np.int64)))


class _Rows:
    """What becomes of each document, and the files of the shuffle."""

    def __init__(self, part: Partition, tokenizer: Tokenizer, docs: pa.Table, percentile: np.ndarray) -> None:
        self.part = part
        self.langs = docs.column("lang").to_pylist()
        self.tiers = docs.column("source_tier").to_pylist()
        self.bands = strata.quality_band(percentile).tolist()
        self.tokenizer = tokenizer
        self.scratch = np.zeros(tokenizer.vocab_size, np.int32)
        self.columns: dict[str, list[Any]] = {
            n: [] for n in ("position", "stratum", "n_tokens", "n_bytes", "reason", "value", "bound", "window")
        }
        self.ids: list[np.ndarray] = []
        self.held = 0
        self.written = 0
        self.mismatches = 0
        self.admitted = 0
        self.by_lang: dict[str, list[int]] = {}

    @property
    def seen(self) -> int:
        return len(self.columns["position"])

    def _put(
        self,
        i: int,
        stratum: str | None,
        n_tokens: int,
        n_bytes: int,
        reason: str | None,
        value: float | None,
        bound: float | None,
        window: int | None,
        ids: np.ndarray,
    ) -> None:
        for name, item in zip(self.columns, (i, stratum, n_tokens, n_bytes, reason, value, bound, window), strict=True):
            self.columns[name].append(item)
        self.ids.append(ids)
        self.held += len(ids)

    def reject(self, i: int, reason: str, value: float, bound: float, n_bytes: int) -> None:
        self._put(i, None, 0, n_bytes, reason, value, bound, 0, np.zeros(0, np.uint32))

    def check(self, sample: list[str]) -> None:
        self.mismatches += self.tokenizer.check(sample).mismatches

    def add(self, released: list[tuple[int, str]], docs: pa.Table) -> None:
        params = self.part.plan.params.tokenize
        encoded = self.tokenizer.encode([text for _, text in released])
        if len(encoded.ids) and int(encoded.ids.max()) >= len(self.scratch):
            self.scratch = np.zeros(int(encoded.ids.max()) + 1, np.int32)
        head = np.array([self.tokenizer.bos_id], np.uint32) if params.bos else np.zeros(0, np.uint32)
        tail = np.array([self.tokenizer.eos_id], np.uint32) if params.eos else np.zeros(0, np.uint32)
        for k, (i, text) in enumerate(released):
            own = encoded.ids[int(encoded.offsets[k]) : int(encoded.offsets[k + 1])]
            lang = self.langs[i] or "und"
            n_bytes = len(text.encode())
            reason, value, bound, window = admission.check(own, lang, self.scratch)
            if reason:
                self._put(i, None, len(own), n_bytes, reason, value, bound, window, np.zeros(0, np.uint32))
                continue
            ids = np.concatenate([head, own, tail])
            name = strata.stratum(
                self.tiers[i] or "unknown",
                lang,
                self.bands[i],
                strata.length_bucket_of(len(ids)),
            )
            self._put(i, name, len(ids), n_bytes, None, None, None, None, ids)
            self.admitted += 1
        if self.held >= FILE_TOKENS:
            self._flush(docs)

    def _table(self, docs: pa.Table, start: int = 0) -> pa.Table:
        part = self.part
        cut = {name: values[start:] for name, values in self.columns.items()}
        at = pa.array(cut["position"], pa.int64())
        n = len(at)
        columns = {
            name: docs.column(name).take(at)
            for name in ("crawl", "doc_id", "record_id", "row", "source_tier", "license_id", "lang")
        }
        columns["host_bucket"] = pa.array(np.full(n, part.bucket or 0, np.uint16))
        for name in ("stratum", "reason"):
            columns[name] = pa.array(cut[name], pa.string())
        for name in ("n_tokens", "n_bytes", "window"):
            columns[name] = pa.array(cut[name], pa.int64())
        for name in ("value", "bound"):
            columns[name] = pa.array(cut[name], pa.float64())
        return pa.table({name: columns[name] for name in schemas.TOKENS.names})

    def _flush(self, docs: pa.Table) -> None:
        """One more file of the shuffle, of the documents since the last."""
        part = self.part
        table = self._table(docs, self.written)
        keys = strata.shard_key(shuffle.first_uint64(table.column("doc_id")), part.plan.params.tokenize.seed)
        offsets = np.zeros(len(self.ids) + 1, np.int64)
        np.cumsum([len(a) for a in self.ids], out=offsets[1:])
        flat = np.concatenate(self.ids) if self.ids else np.zeros(0, np.uint32)
        table = table.append_column("shard_key", pa.array(keys, pa.uint64()))
        table = table.append_column(
            "ids", pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(flat, pa.uint32()))
        )
        part.write_ranged(table, shuffle.range_of(keys, part.buckets), schemas.TOKENS, role="by_range", extra=True)
        self.written = self.seen
        self.ids, self.held = [], 0

    def finish(self, docs: pa.Table, bytes_in: int) -> None:
        self._flush(docs)
        table = shuffle.sort_by(self._table(docs), "doc_id")
        self.part.write(table)
        reasons = Counter(r for r in self.columns["reason"] if r)
        for lang, reason in zip(table.column("lang").to_pylist(), table.column("reason").to_pylist(), strict=True):
            cell = self.by_lang.setdefault(lang or "und", [0, 0])
            cell[0] += 1
            cell[1] += reason is None
        ok = [b for b, r in zip(self.columns["n_bytes"], self.columns["reason"], strict=True) if r is None]
        n_tokens = sum(t for t, r in zip(self.columns["n_tokens"], self.columns["reason"], strict=True) if r is None)
        facts: dict[str, Any] = {"tokens": n_tokens}
        if self.mismatches:
            facts["fast_engine_mismatches"] = self.mismatches
        if self.tokenizer.refused:
            self.part.run["fast_engine_refused"] = self.tokenizer.refused
        self.part.run["tokenizer_engine"] = self.tokenizer.engine
        self.part.report(
            docs_in=self.seen,
            docs_out=self.admitted,
            bytes_in=bytes_in,
            bytes_out=sum(ok),
            reasons=reasons,
            by={"lang": self.by_lang},
            **facts,
        )


def shards(part: Partition) -> None:
    """Content-addressed shards of this range, stratum by stratum, and where each document went."""
    params = part.plan.params.tokenize
    table = part.read_range("tokens", "by_range")
    order = pc.sort_indices(
        table.select(["stratum", "shard_key", "doc_id"]),
        sort_keys=[("stratum", "ascending"), ("shard_key", "ascending"), ("doc_id", "ascending")],
    )
    meta = {
        "tokenizer": params.tokenizer.model_dump() if params.tokenizer else None,
        "bos": params.bos,
        "eos": params.eos,
        "seed": params.seed,
        "shard_tokens": params.shard_tokens,
    }
    written, placed = build.write_shards(part.store.blobs, table.take(order), params.shard_tokens, meta)
    part.write(pa.Table.from_pylist([{"crawl": part.crawl, **w} for w in written], schema=schemas.SHARDS))
    part.write_ranged(
        placed.drop_columns(["host_bucket"]),
        placed.column("host_bucket").to_numpy().astype(np.int64),
        schemas.SHARDED_DOCS,
        role="by_bucket",
    )
    # What did not get in was counted by ``tokens``; here it only travels on to the catalogue.
    admitted = placed.filter(pc.is_null(placed.column("reason")))
    part.report(
        docs_in=admitted.num_rows,
        docs_out=admitted.num_rows,
        bytes_in=pc.sum(admitted.column("n_bytes")).as_py() or 0,
        bytes_out=sum(w["n_bytes"] for w in written),
        shards=len(written),
        tokens=sum(w["n_tokens"] for w in written),
        tokens_in=pc.sum(admitted.column("n_tokens")).as_py() or 0,
        not_admitted=placed.num_rows - admitted.num_rows,
    )
