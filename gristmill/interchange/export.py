"""What leaves the store for other tools: documents of a crawl as JSON lines, a version's tokens as Megatron files.

Belongs here: choosing documents and handing them to the formats. Does not belong here: the formats.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.acquire import origin
from gristmill.errors import ManifestError
from gristmill.funnel import BY_NAME, Plan
from gristmill.interchange import jsonl, megatron
from gristmill.loader.shards import Shards
from gristmill.params import SiteConfig
from gristmill.partition import Partition
from gristmill.release.standing import read_manifest
from gristmill.store import Store
from gristmill.tokens import shard
from gristmill.tokens.release_text import release_text

After = Literal["exact", "near"]
_SAID = tuple(origin.FIELDS)  # what a supplier says goes out as it came in; ``source_id`` first


def documents(
    store: Store, plan: Plan, site: SiteConfig, crawl: str, *, after: After = "near", released: bool = True
) -> Iterator[jsonl.Document]:
    """Documents of a crawl, bucket by bucket and sorted by doc_id within.

    Args:
        store, plan, site: where they are.
        crawl: which.
        after: ``near`` gives what survived deduplication, ``exact`` all distinct texts.
        released: boilerplate lines out and personal data replaced, as for training; else the text as extracted. Only
            documents after ``near`` have been searched for personal data.

    Raises:
        MissingPartitionError: the crawl has not been taken that far.
        InterchangeError: released text is asked for of documents that were never searched.
    """
    if released and after != "near":
        raise jsonl.InterchangeError("only documents after `near` have a released text: export them as extracted")
    from gristmill.deduplicate.documents import documents as chosen
    from gristmill.deduplicate.documents import with_language

    for bucket in range(plan.buckets):
        part = Partition(store, plan, BY_NAME["tokens"], crawl, bucket, site)
        docs = with_language(part, chosen(part, after=after, cleaned=False))
        beside = ("extract_meta", "url", "fetch_ts", "source_id")
        docs = _with(docs, part.read("text", ["record_id", *beside]), "record_id", beside)
        docs = _with(docs, origin.table(part), "record_id", _SAID[1:])
        if released:
            docs = _with(docs, part.read("lines", ["doc_id", "removed"]), "doc_id", ("removed",))
            docs = _with(docs, part.read("safety", ["doc_id", "pii_spans"]), "doc_id", ("pii_spans",))
        for batch in docs.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                yield _document(row, bucket, released)


def _with(docs: pa.Table, other: pa.Table, key: str, names: Sequence[str]) -> pa.Table:
    where = pc.index_in(docs.column(key), value_set=other.column(key).combine_chunks())
    for name in names:
        docs = docs.append_column(name, other.column(name).take(where))
    return docs


def _document(row: dict[str, Any], bucket: int, released: bool) -> jsonl.Document:
    text = row["text"]
    if released:
        spans = [(s["start"], s["end"], s["kind"]) for s in row["pii_spans"] or []]
        text = release_text(text, row["removed"] or [], spans)
    conf = row["lang_conf"]
    return jsonl.Document(
        doc_id=row["doc_id"].hex(), text=text, lang=row["lang"], lang_conf=None if conf is None else float(conf),
        provenance_ref=f"{row['crawl']}/{bucket:04d}/{row['record_id'].hex()}",
        extract_meta=json.loads(row["extract_meta"] or "{}"), url=row["url"],
        fetch_ts=row["fetch_ts"].isoformat() if row["fetch_ts"] else None,
        other={n: row[n].hex() if n == "derived_from" else row[n] for n in _SAID if row[n] is not None},
    )  # fmt: skip


def export(
    store: Store, plan: Plan, site: SiteConfig, crawl: str, folder: str | Path, *, shape: jsonl.Shape = "gristmill",
    after: After = "near", released: bool = True, file_bytes: int = jsonl.FILE_BYTES,
) -> list[Path]:  # fmt: skip
    """Write the documents of a crawl as ``folder/crawl-00000.jsonl.zst`` and so on; returns the files."""
    docs = documents(store, plan, site, crawl, after=after, released=released)
    return jsonl.write(docs, folder, crawl, shape, file_bytes)


def tokens(store: Store, version: str, source: str | None = None) -> Iterator[np.ndarray]:
    """Token ids of every document that a version selects (of one source, or of all), shard by shard.

    Raises:
        ManifestError: no such version, or the selection is not its own.
        ShardError: a shard is damaged.
    """
    manifest, _ = read_manifest(store, version)
    for name, shards in sorted(manifest["sources"].items()):
        if source is None or name == source:
            yield from _tokens(store, manifest["selection"]["path"], name, shards)


def _tokens(store: Store, selection: str, source: str, shards: Shards) -> Iterator[np.ndarray]:
    at = 0  # both are in the order of hashes
    with store.blobs.open_input(selection) as handle:
        file = pq.ParquetFile(handle)
        for batch in file.iter_batches(batch_size=1024, use_threads=False):
            for row in batch.filter(pc.equal(batch.column("source"), source)).to_pylist():
                if at == len(shards) or shards.hash(at) != row["shard"]:
                    raise ManifestError(f"{selection} lists other shards of source {source} than the manifest")
                path = shards.path(at)
                at += 1
                data = store.blobs.get(f"{path}.bin")
                index = shard.verify(data, store.blobs.get(f"{path}.idx"), row["shard"], path)
                values = np.frombuffer(data, "<u4")
                ordinals = range(index.documents) if row["ordinals"] is None else sorted(row["ordinals"])
                for i in ordinals:
                    yield values[int(index.offsets[i]) : int(index.offsets[i + 1])]
    if at != len(shards):
        raise ManifestError(f"{selection} lists other shards of source {source} than the manifest")


def export_megatron(store: Store, version: str, folder: str | Path, source: str | None = None) -> list[Path]:
    """Write ``folder/SOURCE.bin`` and ``.idx`` for every source of a version (or one); returns the prefixes."""
    manifest, _ = read_manifest(store, version)
    vocab_size = int(manifest["tokenizer"]["vocab_size"])
    out = []
    for name in [source] if source else sorted(manifest["sources"]):
        prefix = Path(folder) / name.replace("/", "_")
        megatron.write(tokens(store, version, name), prefix, vocab_size)
        out.append(prefix)
    return out
