"""Bodies of the semantic stages: embeddings of chosen tiers, clusters and verdicts, the page to read.

Belongs here: which partition reads and writes which table. Does not belong here: the model (``gristmill/embed``),
k-means
(``kmeans.py``), the search (``semantic.py``). Where no document is of a chosen tier, tables are empty and neither a
model nor torch is asked for.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schemas, shuffle
from gristmill.deduplicate import audit, ids, kmeans
from gristmill.deduplicate import semantic as search
from gristmill.deduplicate.documents import documents
from gristmill.deduplicate.signature_files import gather, read_matrix
from gristmill.errors import DamagedPartitionError
from gristmill.partition import Partition

QUALITY = "ensemble_max"
PLACED = pa.schema([
    ("doc_id", schemas.ID), ("record_id", schemas.ID), ("fetch_ts", schemas.TS), ("source_tier", pa.string()),
    ("host_bucket", pa.uint16()), ("row", pa.uint32()), ("cluster", pa.int32()), ("quality", pa.float32()),
])


def embeddings(part: Partition) -> None:
    """Embed the surviving documents of the chosen tiers; their cleaned text, as far as the model reads."""
    params = part.plan.params.semantic
    tiers = pa.array(params.tiers, pa.string())
    held = part.read("provenance", ["record_id", "source_tier", "fetch_ts"]) if params.tiers else None
    wanted = held.filter(pc.is_in(held["source_tier"], value_set=tiers)) if held is not None else None
    if wanted is None or wanted.num_rows == 0:
        part.write(schemas.empty(schemas.EMBEDDINGS))
        part.write_bytes(b"", role="vectors", suffix=".f32")
        part.report(embedded=0)
        return
    from gristmill.embed.embedding import embed
    from gristmill.embed.engines import chosen_device

    docs = documents(part, after="near")
    # A duplicate that was elected stands for one that policy excludes, and must not go for being like it.
    near = part.read("near", ["doc_id", "survives"])
    docs = docs.filter(pc.is_in(docs["doc_id"], value_set=near.filter(near["survives"])["doc_id"].combine_chunks()))
    where = pc.index_in(docs["record_id"], value_set=wanted["record_id"].combine_chunks())
    docs = docs.append_column("at", where).filter(pc.is_valid(where))
    for name in ("fetch_ts", "source_tier"):
        docs = docs.append_column(name, wanted[name].take(docs["at"]))
    vectors, stats = embed(docs["text"], params.embedder, chosen_device(), cache_dir=str(part.site.models))
    part.write(docs.select(schemas.EMBEDDINGS.names))
    part.write_bytes(vectors.astype("<f4").tobytes(), role="vectors", suffix=".f32", rows=len(vectors))
    part.report(docs_in=docs.num_rows, docs_out=docs.num_rows, embedded=docs.num_rows, dim=int(vectors.shape[1]),
                tokens=stats.tokens, truncated=stats.truncated, padding_waste=round(stats.padding_waste, 4),
                device=stats.device)


def semantic(part: Partition) -> None:
    """Range 0000 places every document of the crawl in a cluster; every range searches its own clusters."""
    here = part.store.read_range(part.key("semantic", 0), "placed", part.bucket or 0) if part.bucket else _place(part)
    table = _verdicts(part, here) if here.num_rows else schemas.empty(schemas.SEMANTIC)
    table = shuffle.sort_by(table, "doc_id")
    part.write(table)
    part.write_ranged(table, table["host_bucket"].to_numpy().astype(np.int64), role="by_bucket")
    gone = int(pc.sum(table["removed"]).as_py() or 0)
    part.report(docs_in=table.num_rows, docs_out=table.num_rows - gone, reasons={"semantic_duplicate": gone})


def _place(part: Partition) -> pa.Table:
    """Clusters of the crawl; writes every range's documents and returns this range's."""
    rows = [part.manifest("embeddings", bucket).role("vectors")[0].rows for bucket in range(part.buckets)]
    if not any(rows):
        part.write_ranged(schemas.empty(PLACED), np.zeros(0, np.int64), PLACED, role="placed")
        part.report(clusters=0)
        return schemas.empty(PLACED)
    from gristmill.embed.engines import chosen_device

    params, device = part.plan.params.semantic, chosen_device()
    docs = pa.concat_tables([_documents(part, bucket) for bucket, n in enumerate(rows) if n])
    docs = shuffle.sort_by(docs, "doc_id").combine_chunks()
    doc = ids.pairs(docs["doc_id"])
    host, row = docs["host_bucket"].to_numpy(), docs["row"].to_numpy()
    drawn = kmeans.rank(doc, params.seed)
    k = kmeans.clusters_for(len(doc), params.docs_per_cluster)
    chosen = np.sort(np.argsort(drawn, kind="stable")[: max(params.sample, k)])
    dim = _width(part, rows)
    sample = _vectors(part, host[chosen], row[chosen], dim)
    if params.kmeans == "cuml":
        centroids = kmeans.train_cuml(sample, k, iterations=params.iterations, seed=params.seed)
    else:
        centroids = kmeans.train(sample, drawn[chosen], k, iterations=params.iterations, device=device)
    label = np.empty(len(doc), np.int64)
    for bucket, n in enumerate(rows):
        if n:
            mine = np.flatnonzero(host == bucket)
            whole = read_matrix(part, bucket, dim, "embeddings", "vectors", "<f4")
            label[mine] = kmeans.assign(whole[row[mine]], centroids, device)
    sizes = np.bincount(label, minlength=k)
    over, next_number, cut = np.flatnonzero(sizes > params.cluster_cap), k, 0
    for cluster in over.tolist():
        mine = np.flatnonzero(label == cluster)
        parts, missed = kmeans.split(
            _vectors(part, host[mine], row[mine], dim), drawn[mine], params.cluster_cap,
            iterations=params.iterations, sample=params.sample, device=device,
        )
        label[mine] = next_number + parts
        next_number += int(parts.max()) + 1
        cut += missed
    docs = docs.append_column("cluster", pa.array(label.astype(np.int32))).select(PLACED.names)
    order = np.argsort(label, kind="stable")  # by doc_id inside a cluster
    docs, label = docs.take(pa.array(order)).combine_chunks(), label[order]
    part.write_ranged(docs, label % part.buckets, PLACED, role="placed")
    part.report(clusters=len(np.unique(label)), largest=int(np.bincount(label).max()), over_cap=len(over),
                cut_by_order=cut, trained_on=len(chosen), kmeans=params.kmeans)
    return docs.filter(pa.array(label % part.buckets == 0))


def _documents(part: Partition, bucket: int) -> pa.Table:
    """What orders the embedded documents of a bucket, and where their vectors are."""
    docs = part.read("embeddings", ["doc_id", "record_id", "fetch_ts", "source_tier"], bucket=bucket)
    scores = part.read("quality", ["doc_id", QUALITY], bucket=bucket)
    at = ids.find(ids.pairs(scores["doc_id"]), ids.pairs(docs["doc_id"]))
    if int(at.min()) < 0:
        raise DamagedPartitionError(f"{part.key('quality', bucket)} lacks documents: run that stage again")
    return docs.append_column("quality", scores[QUALITY].take(pa.array(at)).cast(pa.float32())).append_column(
        "host_bucket", pa.array(np.full(docs.num_rows, bucket, np.uint16))
    ).append_column("row", pa.array(np.arange(docs.num_rows, dtype=np.uint32)))


def _verdicts(part: Partition, docs: pa.Table) -> pa.Table:
    """SEMANTIC rows of some clusters, one cluster's vectors in memory at a time."""
    from gristmill.embed.engines import chosen_device

    device = chosen_device()
    rows = [part.manifest("embeddings", bucket).role("vectors")[0].rows for bucket in range(part.buckets)]
    dim = _width(part, rows)
    docs = docs.combine_chunks()
    cluster = docs["cluster"].to_numpy()
    host, row, doc = docs["host_bucket"].to_numpy(), docs["row"].to_numpy(), ids.pairs(docs["doc_id"])
    quality = docs["quality"].fill_null(float("nan")).to_numpy()
    when = docs["fetch_ts"].cast(pa.int64()).fill_null(np.iinfo(np.int64).max).to_numpy()
    record = ids.pairs(docs["record_id"])
    nearest, cosine = np.full(len(doc), -1, np.int64), np.full(len(doc), np.nan, np.float32)
    removed = np.zeros(len(doc), bool)
    starts = np.append(np.flatnonzero(np.append(True, cluster[1:] != cluster[:-1])), len(doc))
    for low, high in zip(starts[:-1].tolist(), starts[1:].tolist()):
        best = low + search.order(quality[low:high], when[low:high], record[low:high])
        found = search.best_first(_vectors(part, host[best], row[best], dim), 1 - part.plan.params.semantic.epsilon,
                                  device)
        nearest[best] = np.where(found.nearest >= 0, best[found.nearest], -1)
        cosine[best], removed[best] = found.cosine, found.removed
    return pa.table({
        "crawl": pa.repeat(pa.scalar(part.crawl, pa.string()), len(doc)), "doc_id": docs["doc_id"],
        "host_bucket": docs["host_bucket"], "source_tier": docs["source_tier"], "cluster": docs["cluster"],
        "nearest": ids.to_array(doc[nearest], nearest >= 0), "cosine": pa.array(cosine, mask=np.isnan(cosine)),
        "removed": pa.array(removed),
    })


def _width(part: Partition, rows: list[int]) -> int:
    """Numbers a vector has."""
    bucket = next(b for b, n in enumerate(rows) if n)
    ref = part.manifest("embeddings", bucket).role("vectors")[0]
    return int(ref.bytes // (4 * ref.rows))


def _vectors(part: Partition, host: np.ndarray, row: np.ndarray, dim: int) -> np.ndarray:
    return gather(part, host, row, dim, "embeddings", "vectors", "<f4")


def semantic_pairs(part: Partition) -> None:
    """The page of sampled pairs of like meaning (``gristmill audit pairs --semantic`` makes the same)."""
    page = audit.semantic_page_of(part)
    ref = part.write_bytes(page.encode("utf-8"), role="report", suffix=".html")
    part.report(page=f"{part.key().path}/{ref.name}")
