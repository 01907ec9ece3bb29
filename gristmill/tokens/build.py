"""From sorted documents to shard files: where a shard ends, and its four files.

Belongs here: cutting a stratum into shards, ``.meta`` and ``.docs``, the backstop checks of a shard. Does not belong
here: the byte format of ``.bin`` and ``.idx`` (``shard.py``), and which documents come (``stages.py``).
"""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schemas
from gristmill.blobs import Blobs
from gristmill.errors import StoreError
from gristmill.fingerprint import canonical_json
from gristmill.store import parquet_bytes
from gristmill.tokens import admission, shard
from gristmill.tokens.strata import language_of, path_part

NAME = "shard_00000"


def path_of(stratum: str, key: str) -> str:
    """Where a shard lies, without the suffix of its four files."""
    return f"shards/{stratum}/{key}/{NAME}"


def cuts(lengths: np.ndarray, shard_tokens: int) -> list[tuple[int, int]]:
    """Cut documents of these lengths, in order, into shards of at most ``shard_tokens`` (a longer document alone).

    Shards of a stratum come out even: the number of shards is what the total needs, and each takes its share, so no
    last shard is a stub.
    """
    total = int(lengths.sum())
    if not len(lengths):
        return []
    count = -(-total // max(shard_tokens, 1)) or 1
    target = -(-total // count)
    out: list[tuple[int, int]] = []
    start = held = 0
    for i, length in enumerate(lengths.tolist()):
        if i > start and held + length > target:
            out.append((start, i))
            start, held = i, 0
        held += length
    out.append((start, len(lengths)))
    return out


def write_shards(
    blobs: Blobs, table: pa.Table, shard_tokens: int, meta: dict[str, Any]
) -> tuple[list[dict[str, Any]], pa.Table]:
    """Write the shards of one range.

    Args:
        blobs: where ``shards/`` lies.
        table: TOKENS with ``shard_key`` and ``ids``, sorted by (stratum, shard_key, doc_id); rows with a reason enter
            none.
        shard_tokens: tokens a shard, about.
        meta: build parameters, for ``.meta``.

    Returns:
        rows of SHARDS without ``crawl``, and SHARDED_DOCS with ``host_bucket``, sorted by (host_bucket, doc_id).
    """
    n = table.num_rows
    admitted = pc.is_null(table.column("reason")).to_numpy(zero_copy_only=False).astype(bool)
    hashes: list[str | None] = [None] * n
    ordinals = np.zeros(n, np.int64)
    strata = table.column("stratum").to_pylist()
    ids = table.column("ids").combine_chunks()
    offsets = ids.offsets.to_numpy().astype(np.int64)
    values = ids.values.to_numpy()
    lengths = np.diff(offsets)
    written: list[dict[str, Any]] = []
    start = 0
    while start < n:
        end = start
        while end < n and strata[end] == strata[start]:
            end += 1
        if strata[start] is not None:
            for a, b in cuts(lengths[start:end], shard_tokens):
                first, last = start + a, start + b
                own = values[offsets[first] : offsets[last]]
                part = table.slice(first, last - first)
                licenses = list({x or "unknown" for x in part.column("license_id").to_pylist()})
                edges = offsets[first : last + 1] - offsets[first]
                _backstop(part, own, strata[start])
                entry = write_one(blobs, part, own, edges, strata[start], meta, licenses)
                written.append(entry)
                hashes[first:last] = [entry["hash"]] * (last - first)
                ordinals[first:last] = np.arange(last - first)
        start = end
    placed = table.select(
        [
            "crawl",
            "doc_id",
            "record_id",
            "stratum",
            "n_tokens",
            "n_bytes",
            "reason",
            "value",
            "bound",
            "window",
            "host_bucket",
        ]
    )
    placed = placed.append_column("shard", pa.array(hashes, pa.string()))
    placed = placed.append_column("ordinal", pa.array(ordinals, pa.uint32(), mask=~admitted))
    order = pc.sort_indices(
        placed.select(["host_bucket", "doc_id"]), sort_keys=[("host_bucket", "ascending"), ("doc_id", "ascending")]
    )
    return written, placed.take(order)


def _backstop(docs: pa.Table, tokens: np.ndarray, stratum: str) -> None:
    """Raise StoreError for a shard that no honest documents make; nothing of it is written."""
    sums = docs.select(["lang", "n_tokens"]).group_by("lang").aggregate([("n_tokens", "sum")]).to_pylist()
    wrong = admission.check_shard(
        tokens, language_of(stratum), {path_part(r["lang"] or "und"): r["n_tokens_sum"] for r in sums}
    )
    if wrong:
        raise StoreError(f"a shard of {stratum} is refused: {wrong}. Its tables do not belong together: make `tokens` "
                         "of this crawl again with --force")


def write_one(
    blobs: Blobs,
    docs: pa.Table,
    tokens: np.ndarray,
    offsets: np.ndarray,
    stratum: str,
    meta: dict[str, Any],
    licenses: list[str],
) -> dict[str, Any]:
    """Write one shard's four files; its row of SHARDS without ``crawl``.

    Args:
        blobs: where ``shards/`` lies.
        docs: doc_id, record_id, crawl, host_bucket, row, n_tokens of its documents, in order.
        tokens: uint32, documents end to end.
        offsets: in tokens, one more than documents.
        stratum: of the shard.
        meta: build parameters, for ``.meta``.
        licenses: of its documents, for ``.meta``.
    """
    data, idx = shard.encode(np.ascontiguousarray(tokens, dtype=np.uint32), offsets.astype(np.uint64))
    index = shard.read_idx(idx)
    if len(index.offsets) != docs.num_rows + 1 or int(index.offsets[-1]) != len(tokens) or len(data) != 4 * len(tokens):
        raise StoreError(
            f"a shard of {stratum} does not agree with its own index: {docs.num_rows} documents, {len(tokens)} tokens"
        )
    table = pa.table(
        {
            "ordinal": pa.array(np.arange(docs.num_rows, dtype=np.uint32)),
            "doc_id": docs.column("doc_id"),
            "record_id": docs.column("record_id"),
            "crawl": docs.column("crawl"),
            "host_bucket": docs.column("host_bucket"),
            "row": docs.column("row"),
            "n_tokens": docs.column("n_tokens").cast(pa.uint32()),
        }
    )
    docs_bytes = parquet_bytes(schemas.check(table, schemas.SHARD_DOCS, "shard docs"))
    key = shard.content_hash(data, idx)
    entry = {
        "stratum": stratum,
        "hash": key,
        "path": path_of(stratum, key),
        "n_docs": docs.num_rows,
        "n_tokens": len(tokens),
        "n_bytes": len(data),
        "sha256_bin": hashlib.sha256(data).hexdigest(),
        "sha256_idx": hashlib.sha256(idx).hexdigest(),
        "sha256_docs": hashlib.sha256(docs_bytes).hexdigest(),
    }
    about = {
        **entry,
        "format": 1,
        "build": meta,
        "licenses": sorted(licenses),
    }
    for suffix, content in ((".bin", data), (".idx", idx), (".docs", docs_bytes), (".meta", canonical_json(about))):
        path = f"{entry['path']}{suffix}"
        # What stands under a content's name may have rotted at its full size: a redone stage mends it.
        if suffix in (".docs", ".meta") or blobs.size(path) != len(content) or blobs.get(path) != content:
            blobs.put(path, content)
    return entry
