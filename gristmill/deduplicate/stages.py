"""Bodies of the deduplication stages: read, call the library, write, report.

Belongs here: which partition reads and writes which table. Does not belong here: any algorithm.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schemas, shuffle
from gristmill.deduplicate import audit, bloom, ids, lsh, matching, minhash
from gristmill.deduplicate import band_index as index
from gristmill.deduplicate import clusters as grouping
from gristmill.deduplicate import exact as exact_groups
from gristmill.deduplicate import lines as boilerplate
from gristmill.deduplicate.compaction import opened
from gristmill.deduplicate.documents import (
    count_by,
    documents,
    exact_documents,
    texts_of,
    with_language,
)
from gristmill.deduplicate.generations import earlier
from gristmill.deduplicate.shingle_sets import ShingleSets
from gristmill.deduplicate.signature_files import gather, read_matrix
from gristmill.errors import BandIndexError, DamagedPartitionError, ParameterError
from gristmill.partition import Partition, state_check
from gristmill.store import PartitionManifest
from gristmill.text_units import text_buffers

SEEN = pa.schema([("doc_id", schemas.ID), ("record_id", schemas.ID)])
LABELS = pa.schema([*schemas.CLUSTERS, pa.field("host_bucket", pa.uint16())])
CHUNK = 1 << 20  # members whose signatures are in memory together; a larger bucket is taken whole


def exact(part: Partition) -> None:
    """Group the records of a doc_id range; name the first of each document and the earlier crawl that has it."""
    generations = earlier(part, "exact", part.bucket or 0)
    part.state["generations"] = [g.state() for g in generations]
    held = []
    for g in generations:
        try:
            held.append(exact_groups.seen(g.crawl, part.read("exact", role="seen", crawl=g.crawl)))
        except DamagedPartitionError as error:
            raise BandIndexError(f"documents of the earlier crawl {g.crawl} cannot be read: {error}") from error
    rows = part.read_range("language", "by_doc")
    table = exact_groups.group(rows, held)
    size = table["n_bytes"].to_numpy()
    table = table.drop_columns(["n_bytes"])
    part.write(table)
    placed = shuffle.sort_by(table, "record_id")
    part.write_ranged(placed, placed["host_bucket"].to_numpy().astype(np.int64), role="by_bucket")
    new = exact_groups.goes_on(table)
    part.write(table.filter(pa.array(new)).select(["doc_id", "record_id"]), SEEN, role="seen")
    first = int(np.count_nonzero(table["first"].to_numpy()))
    part.report(docs_in=table.num_rows, docs_out=int(new.sum()), bytes_in=int(size.sum()),
                bytes_out=int(size[new].sum()), reasons={
        "exact_duplicate": table.num_rows - first, "seen_in_earlier_crawl": first - int(new.sum()),
    })


@state_check("exact")
def _exact_current(part: Partition, manifest: PartitionManifest) -> bool:
    return bool(manifest.state.get("generations") == [g.state() for g in earlier(part, "exact", part.bucket or 0)])


def _line_bound(part: Partition) -> tuple[int, int]:
    """N, and the documents of the crawl that it was taken from."""
    counts = [part.manifest("exact", bucket).counts for bucket in range(part.buckets)]
    total = sum(c.docs_in - c.reasons.get("exact_duplicate", 0) for c in counts)
    params = part.plan.params.lines
    return boilerplate.bound(params.min_docs, params.share, total), total


def _extracted(part: Partition, *, seen: bool) -> tuple[pa.Table, pa.Array]:
    """Documents that go on from exact (and those seen in earlier crawls), and their extracted text."""
    docs = exact_documents(part, seen=seen)
    return docs, texts_of(part, docs["record_id"])


def line_candidates(part: Partition) -> None:
    """First pass: lines so frequent in this bucket that they may be over the bound in the crawl."""
    n, total = _line_bound(part)
    docs, texts = _extracted(part, seen=True)
    hashes, doc, _, _ = boilerplate.line_table(texts)
    least = boilerplate.candidate_bound(n, part.buckets)
    keys, counts = boilerplate.count(boilerplate.distinct_per_document(hashes, doc), least)
    part.write(pa.table({"line": keys, "docs": counts}))
    part.report(docs_in=docs.num_rows, docs_out=docs.num_rows, bound=n, documents=total, candidates=len(keys))


def line_counts(part: Partition) -> None:
    """Second pass: count every candidate of the crawl exactly in this bucket."""
    candidates = np.unique(np.concatenate([t["line"].to_numpy() for t in part.read_all("line_candidates", ["line"])]))
    docs, texts = _extracted(part, seen=True)
    hashes, doc, _, _ = boilerplate.line_table(texts)
    counts = boilerplate.count_of(boilerplate.distinct_per_document(hashes, doc), candidates)
    here = counts > 0
    part.write(pa.table({"line": candidates[here], "docs": counts[here]}))
    part.report(docs_in=docs.num_rows, docs_out=docs.num_rows, candidates=len(candidates))


def lines(part: Partition) -> None:
    """Take the lines over the bound out of each document; keep which, and what they say."""
    n, _ = _line_bound(part)
    keys, counts = boilerplate.merge_counts(
        (t["line"].to_numpy(), t["docs"].to_numpy()) for t in part.read_all("line_counts")
    )
    over = counts > n
    docs, texts = _extracted(part, seen=False)
    table, shown = boilerplate.remove(texts, keys[over])
    table = pa.table({
        "crawl": pa.repeat(pa.scalar(part.crawl, pa.string()), docs.num_rows), "doc_id": docs["doc_id"],
        "record_id": docs["record_id"], **{name: table[name] for name in table.column_names},
    })
    part.write(table)
    where = np.searchsorted(keys[over], shown["line"].to_numpy())
    part.write(pa.table({
        "line": shown["line"], "docs": counts[over][where],
        "bound": pa.array(np.full(shown.num_rows, n, np.int64)), "sample": shown["sample"],
    }), schemas.REMOVED_LINES, role="removed")
    empty = int(np.count_nonzero(table["empty_after"].to_numpy()))
    part.report(
        docs_in=docs.num_rows, docs_out=docs.num_rows, bytes_in=int(np.diff(text_buffers(texts)[1]).sum()), bound=n,
        bytes_out=int(table["bytes_after"].to_numpy().sum()), removed_lines=int(table["n_removed"].to_numpy().sum()),
        empty_after=empty,
    )


def signatures(part: Partition) -> None:
    """Sign the cleaned documents of a bucket; lay their band keys out by range, and by band inside a range.

    A document without a shingle has a row and a signature, but no band keys: nothing resembles it.
    """
    params = part.plan.params.minhash
    docs = documents(part, after="exact")
    values, sizes = minhash.signatures(
        docs["text"], shingle=params.shingle, n=params.n, size=params.bands * params.rows, seed=params.seed,
        fold_digits=params.fold_digits,
    )
    table = docs.select(["crawl", "doc_id", "record_id"]).append_column("n_shingles", pa.array(sizes))
    part.write(table)
    part.write_bytes(values.astype("<u4").tobytes(), role="signatures", suffix=".u32", rows=len(values))
    some = np.flatnonzero(sizes > 0)
    flat = minhash.band_keys(values[some], params.bands, params.rows).ravel()
    band = np.tile(np.arange(params.bands, dtype=np.uint8), len(some))
    row = np.repeat(some, params.bands).astype(np.uint32)
    order = np.lexsort((row, flat, band))  # rows are in order of doc_id
    band, flat, row = band[order], flat[order], row[order]
    part.write_ranged(
        pa.table({
            "band": pa.array(band), "key": pa.array(flat), "row": pa.array(row),
            "doc_id": docs["doc_id"].combine_chunks().take(pa.array(row)),
            "host_bucket": pa.array(np.full(len(flat), part.bucket, np.uint16)),
        }),
        shuffle.range_of(flat, part.buckets) * params.bands + band, schemas.BAND_KEYS, role="bands",
        ranges=part.buckets * params.bands,
    )
    part.report(docs_in=docs.num_rows, docs_out=docs.num_rows, no_shingles=len(values) - len(some))


def _band_keys(part: Partition, bands: range) -> pa.Table:
    """Rows of BAND_KEYS of this range whose key another row of the crawl has too, by (band, key, doc_id)."""
    base = (part.bucket or 0) * part.plan.params.minhash.bands
    table = part.read_range("signatures", "bands", [base + band for band in bands])
    # A key is mixed with its band's number; what two bands share by chance is told apart by the order below.
    table = table.filter(pa.array(lsh.shared(table["key"].to_numpy()))).combine_chunks()
    doc = ids.pairs(table["doc_id"])
    order = np.lexsort((doc[:, 1], doc[:, 0], table["key"].to_numpy(), table["band"].to_numpy()))
    return table.take(pa.array(order)).combine_chunks()


def band_buckets(part: Partition) -> None:
    """Edges between documents that share a band key of this range, ``bands_per_pass`` bands in memory at a time."""
    params, sketch = part.plan.params.clusters, part.plan.params.minhash
    rules = lsh.Rules(params.verify, params.verify_at, params.sure_at, params.max_leaders, params.bucket_cap)
    facts = dict.fromkeys(("buckets", "members", "identical", "compared", "unmatched", "edges"), 0)
    out = [schemas.empty(schemas.BAND_BUCKETS)]
    for first in range(0, sketch.bands, params.bands_per_pass):
        members = _band_keys(part, range(first, min(first + params.bands_per_pass, sketch.bands)))
        starts = lsh.bucket_starts(members["band"].to_numpy(), members["key"].to_numpy())
        facts["buckets"] += len(starts) - 1
        facts["members"] += members.num_rows
        for low, high in _chunks(starts):
            rows = members.slice(int(starts[low]), int(starts[high] - starts[low])).combine_chunks()
            stars = _stars(part, rows, starts[low : high + 1] - starts[low], rules)
            facts["identical"] += stars.identical
            facts["compared"] += stars.compared
            facts["unmatched"] += stars.unmatched
            facts["edges"] += len(stars.member)
            mine = rows.take(pa.array(stars.member))
            anchor = rows["doc_id"].combine_chunks().take(pa.array(stars.anchor))
            out.append(pa.table({
                "crawl": pa.repeat(pa.scalar(part.crawl, pa.string()), mine.num_rows),
                "band": mine["band"], "key": mine["key"], "anchor": anchor, "doc_id": mine["doc_id"],
                "similarity": pa.array(stars.similarity, mask=np.isnan(stars.similarity)),
            }))
    part.write(pa.concat_tables(out))
    part.info.update(facts)


def _chunks(starts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Spans of buckets of about ``CHUNK`` members."""
    low = 0
    while low < len(starts) - 1:
        high = max(int(np.searchsorted(starts, starts[low] + CHUNK, "right")) - 1, low + 1)
        yield low, high
        low = high


def _stars(part: Partition, rows: pa.Table, starts: np.ndarray, rules: lsh.Rules) -> lsh.Stars:
    """Edges of some buckets: all, those that signatures verify, or candidates for their texts to verify."""
    if rules.verify == "none":
        return lsh.stars_unverified(starts)
    sketch = part.plan.params.minhash
    host, row = rows["host_bucket"].to_numpy(), rows["row"].to_numpy()
    values = gather(part, host, row, sketch.bands * sketch.rows)
    return lsh.stars_verified(starts, values, rules)


def clusters(part: Partition) -> None:
    """Range 0000 joins the edges of the whole crawl and lays labels out by range; every range writes its own."""
    here = part.store.read_range(part.key("clusters", 0), "labels", part.bucket or 0) if part.bucket else _label(part)
    here = shuffle.sort_by(here, "doc_id")
    part.write(here.select(schemas.CLUSTERS.names))
    part.write_ranged(here.select(schemas.CLUSTERS.names), here["host_bucket"].to_numpy().astype(np.int64),
                      role="by_bucket")
    part.report(members=here.num_rows)


def _label(part: Partition) -> pa.Table:
    """Components of the crawl; writes every range's labels and returns this range's."""
    params = part.plan.params.clusters

    def batches() -> Iterator[grouping.EdgeBatch]:
        for table in part.read_all("band_buckets", ["anchor", "doc_id", "similarity"]):
            values = table["similarity"].to_numpy(zero_copy_only=False).astype(np.float32)
            yield ids.pairs(table["anchor"]), ids.pairs(table["doc_id"]), values

    with part.store.scratch() as folder:
        verified = _verified(part, batches, Path(folder)) if params.verify == "jaccard" else None
        found = grouping.label(batches, Path(folder), verified)
        found = _reexamined(part, found, batches, Path(folder))
    host, when, record = _records(part, found.doc_id)
    first = grouping.first_of(found.label, when, record)
    n = len(found.doc_id)
    table = pa.table({
        "crawl": pa.repeat(pa.scalar(part.crawl, pa.string()), n), "doc_id": ids.to_array(found.doc_id),
        "dup_cluster_id": ids.to_array(found.doc_id[found.label]), "dup_cluster_size": pa.array(found.size),
        "dup_of": ids.to_array(found.doc_id[first], first != np.arange(n)),
        "similarity": pa.array(found.similarity, mask=np.isnan(found.similarity)),
        "host_bucket": pa.array(host.astype(np.uint16)),
    })
    numbers = shuffle.range_of(found.doc_id[:, 0], part.buckets)
    part.write_ranged(table, numbers, LABELS, role="labels")
    part.report(clusters=int(np.count_nonzero(found.label == np.arange(n))), largest=int(found.size.max(initial=0)),
                reexamined=found.reexamined, edges_cut=found.cut)
    return table.filter(pa.array(numbers == 0))


def _verified(part: Partition, batches: Callable[[], Iterator[grouping.EdgeBatch]], folder: Path
              ) -> grouping.Verified:
    """Exact Jaccard of every candidate edge; each text that it needs is read once."""
    params = part.plan.params.clusters
    # Signatures of folded digits say nothing of the numbers: then every pair is read.
    sure_at = 2.0 if part.plan.params.minhash.fold_digits else max(params.sure_at, params.verify_at)
    docs = grouping.documents(batches)
    one, other = grouping.unsure(docs, batches, sure_at)
    need = np.unique(np.concatenate([one, other]))
    host, _, record = _records(part, docs[need])
    sets = ShingleSets(part, folder, host, docs[need], record)
    exact = sets.jaccard(np.searchsorted(need, one), np.searchsorted(need, other))
    part.report(texts_read=len(need), pairs_read=len(one), pairs_refused=int((exact < params.verify_at).sum()))
    return grouping.Verified(docs, sure_at, params.verify_at, one, other, exact)


def _reexamined(part: Partition, found: grouping.Clusters, batches: Callable[[], Iterator[grouping.EdgeBatch]],
                folder: Path) -> grouping.Clusters:
    """Components over the cap, by exact Jaccard."""
    params = part.plan.params.clusters
    need = np.flatnonzero(found.size > params.cluster_cap)
    if len(need) == 0:
        return found
    host, _, record = _records(part, found.doc_id[need])
    sets = ShingleSets(part, folder, host, found.doc_id[need], record)
    return grouping.reexamine(found, batches, params.cluster_cap, params.verify_at, params.max_leaders,
                              lambda rows: sets.take(np.searchsorted(need, rows)))


def _records(part: Partition, doc: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bucket, fetch time (microseconds, unknown last) and record id of each document's first record."""
    host = np.zeros(len(doc), np.int64)
    when = np.zeros(len(doc), np.int64)
    record = np.zeros((len(doc), 2), np.uint64)
    number = shuffle.range_of(doc[:, 0], part.buckets)
    for r in range(part.buckets):
        mine = np.flatnonzero(number == r)
        rows = part.read("exact", ["doc_id", "record_id", "host_bucket", "fetch_ts", "first"], bucket=r)
        rows = rows.filter(rows["first"])
        where = ids.find(ids.pairs(rows["doc_id"]), doc[mine])
        if len(where) and int(where.min()) < 0:
            raise DamagedPartitionError(f"{part.key('exact', r)} lacks documents of the clusters: run that stage again")
        stamps = rows["fetch_ts"].cast(pa.int64()).fill_null(np.iinfo(np.int64).max).to_numpy()
        host[mine] = rows["host_bucket"].to_numpy()[where]
        when[mine] = stamps[where]
        record[mine] = ids.pairs(rows["record_id"])[where]
    return host, when, record


def band_matches(part: Partition) -> None:
    """Keys of this range that earlier crawls hold, laid out for the buckets that have them.

    ``bands_per_pass`` bands of keys are in memory at a time, and the range's filters of all earlier crawls together.
    """
    generations = earlier(part, "band_index", part.bucket or 0)
    part.state["generations"] = [g.state() for g in generations]
    runs = [(o.crawls, o.run(part)) for o in opened(part, generations)]
    crawls = [g.crawl for g in generations]
    bands, step = part.plan.params.minhash.bands, part.plan.params.clusters.bands_per_pass
    base = (part.bucket or 0) * bands
    out = [schemas.empty(schemas.BAND_MATCHES)]
    asked = matched = 0
    for first in range(0, bands if runs else 0, step):
        passed = range(first, min(first + step, bands))
        rows = part.read_range("signatures", "bands", [base + band for band in passed], ["band", "key", "host_bucket"])
        of, key, host = (rows[name].to_numpy() for name in ("band", "key", "host_bucket"))
        for band in passed:
            found = matching.held(band, key[of == band], host[of == band], runs)
            asked += found.asked
            matched += found.matched
            out.append(found.table(crawls))
    table = pa.concat_tables(out)
    part.write_ranged(table, table["host_bucket"].to_numpy().astype(np.int64), role="data")
    part.report(asked=asked, matched_keys=matched)


@state_check("band_matches")
def _matches_current(part: Partition, manifest: PartitionManifest) -> bool:
    return bool(manifest.state.get("generations")
                == [g.state() for g in earlier(part, "band_index", part.bucket or 0)])


def _consulted(part: Partition) -> list[list[str]]:
    """Earlier crawls that each range of band keys was compared with."""
    def read() -> list[list[str]]:
        return [[g["crawl"] for g in part.manifest("band_matches", n).state["generations"]]
                for n in range(part.buckets)]

    if part.seen is None:
        return read()
    name = f"consulted/{part.key('band_matches', 0).path}"
    if name not in part.seen:
        part.seen[name] = read()
    return list(part.seen[name])


def near(part: Partition) -> None:
    """The verdict on each document: first of its cluster, and with no near-verbatim copy in an earlier crawl.

    Only the first of a cluster is looked up in earlier crawls. When it has a copy there, nothing of the cluster
    survives: the others are duplicates of it, and so of that copy.
    """
    params, sketch = part.plan.params.band_index, part.plan.params.minhash
    if params.min_band_matches > sketch.bands:
        raise ParameterError(
            f"band_index.min_band_matches is {params.min_band_matches}, but there are {sketch.bands} bands: no "
            "document could match one of an earlier crawl"
        )
    docs = part.read("signatures", ["crawl", "doc_id", "record_id", "n_shingles"])
    doc = ids.pairs(docs["doc_id"])
    n = docs.num_rows
    held = shuffle.sort_by(part.read_range("clusters", "by_bucket"), "doc_id")
    at = ids.find(ids.pairs(held["doc_id"]), doc)
    inside, take = at >= 0, pa.array(np.maximum(at, 0), mask=at < 0)
    dup_of = held["dup_of"].combine_chunks().take(take)
    first = dup_of.is_null().to_numpy(zero_copy_only=False)
    cluster = doc.copy()
    cluster[inside] = ids.pairs(held["dup_cluster_id"])[at[inside]]
    sizes = held["dup_cluster_size"].combine_chunks().take(take).fill_null(1)
    similarity = held["similarity"].combine_chunks().take(take)

    asked = np.flatnonzero(first & (docs["n_shingles"].to_numpy() > 0))
    values = read_matrix(part, part.bucket or 0, sketch.bands * sketch.rows)[asked]
    keys = minhash.band_keys(values, sketch.bands, sketch.rows)
    crawl_of = np.full(n, None, object)
    matched = np.zeros((n, 2), np.uint64)
    votes = np.zeros(n, np.uint8)
    crawls = _earlier_crawls(part)
    part.state["generations"] = [{"crawl": crawl} for crawl in crawls]
    found = matching.votes(keys, part.read_range("band_matches", "data"), crawls, params.min_band_matches)
    hit = found.votes > 0
    rows = asked[hit]
    crawl_of[rows] = np.array(crawls, object)[found.crawl[hit]]
    matched[rows] = found.doc_id[hit]
    votes[rows] = found.votes[hit]
    old = votes > 0
    survives = first & ~old
    _write_elected(part, docs["doc_id"], survives)
    part.write(pa.table({
        "crawl": docs["crawl"], "doc_id": docs["doc_id"], "record_id": docs["record_id"],
        "dup_cluster_id": ids.to_array(cluster), "dup_cluster_size": sizes, "dup_of": dup_of,
        "similarity": similarity,
        "matched_crawl": pa.array(crawl_of, pa.string()),
        "matched_doc_id": ids.to_array(matched, old), "matched_bands": pa.array(votes, mask=~old),
        "survives": pa.array(survives),
    }))
    part.report(docs_in=n, docs_out=int(survives.sum()), reasons={
        "near_duplicate": int((~first).sum()), "near_copy_in_earlier_crawl": int(old.sum()),
    }, by={"lang": count_by(with_language(part, docs)["lang"].to_pylist(), survives.tolist())})


def _earlier_crawls(part: Partition) -> list[str]:
    """The crawls that this one was compared with, in their order."""
    consulted = _consulted(part)
    for number, crawls in enumerate(consulted):
        if crawls != consulted[0]:
            said = ", ".join(consulted[0]) or "no crawl"
            raise BandIndexError(
                f"range 0000 of band_matches of {part.crawl} was compared with {said}, range {number:04d} with "
                f"{', '.join(crawls) or 'no crawl'}: run `gristmill run --crawl {part.crawl}` again"
            )
    return consulted[0]


def _write_elected(part: Partition, doc_ids: pa.ChunkedArray, survives: np.ndarray) -> None:
    """Duplicates that go on beside the survivors, because policy excludes the first of their cluster."""
    named = part.registry.elected(part.crawl or "", part.bucket or 0)
    if not named:
        return
    part.state["elected"] = named
    wanted = pa.array([bytes.fromhex(d) for d in named], schemas.ID)
    hit = pc.is_in(doc_ids.cast(schemas.ID), value_set=wanted).to_numpy(zero_copy_only=False).astype(bool)
    found = pa.table({"doc_id": doc_ids.filter(pa.array(hit & ~survives))})
    part.write(found, pa.schema([("doc_id", schemas.ID)]), role="elected")
    part.report(elected=found.num_rows)


@state_check("near")
def _near_current(part: Partition, manifest: PartitionManifest) -> bool:
    elected = part.registry.elected(part.crawl or "", part.bucket or 0)
    if manifest.state.get("elected", []) != elected:
        return False
    recorded = [g["crawl"] for g in manifest.state.get("generations", [])]
    return all(crawls == recorded for crawls in _consulted(part))


def band_index(part: Partition) -> None:
    """One key range of the crawl's generation: entries of its survivors, where row groups begin, a bloom filter."""
    params, bands = part.plan.params.band_index, part.plan.params.minhash.bands
    kept = []
    for bucket in range(part.buckets):
        survives = part.read("near", ["survives"], bucket=bucket)["survives"].to_numpy(zero_copy_only=False)
        numbers = range((part.bucket or 0) * bands, ((part.bucket or 0) + 1) * bands)
        rows = part.store.read_range(
            part.key("signatures", bucket), "bands", numbers, ["band", "key", "doc_id", "row"]
        )
        kept.append(rows.filter(pa.array(survives[rows["row"].to_numpy()], pa.bool_())))
    rows = pa.concat_tables(kept)
    entries = index.entries(
        rows["band"].to_numpy(), rows["key"].to_numpy(), ids.pairs(rows["doc_id"]), params.max_postings
    )
    part.write_bytes(entries.to_bytes(), role="data", suffix=".parquet", rows=len(entries.key))
    part.write(entries.starts(), index.STARTS, role="starts")
    part.write_bytes(bloom.to_bytes(bloom.build(entries.key, params.bits_per_key)), role="bloom", suffix=".bloom")
    part.report(entries=len(entries.key), overflow=entries.overflow)


def duplicate_pairs(part: Partition) -> None:
    """The page of sampled decided pairs, for reading (``gristmill audit pairs`` makes the same)."""
    page = audit.page_of(part)
    ref = part.write_bytes(page.encode("utf-8"), role="report", suffix=".html")
    part.report(page=f"{part.key().path}/{ref.name}")
