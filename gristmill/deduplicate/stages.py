"""Bodies of the deduplication stages: read, call the library, write, report.

Belongs here: which partition reads and writes which table. Does not belong here: any algorithm.
"""

import numpy as np
import pyarrow as pa

from gristmill import schemas, shuffle
from gristmill.deduplicate import exact as exact_groups
from gristmill.deduplicate import lines as boilerplate
from gristmill.deduplicate.documents import exact_documents, texts_of
from gristmill.deduplicate.generations import earlier
from gristmill.errors import BandIndexError, DamagedPartitionError
from gristmill.partition import Partition, state_check
from gristmill.store import PartitionManifest

SEEN = pa.schema([("doc_id", schemas.ID), ("record_id", schemas.ID)])


def exact(part: Partition) -> None:
    """Group the records of a doc_id range; name the first of each document and the earlier crawl that has it."""
    generations = earlier(part, "exact")
    part.state["generations"] = [g.state(part.bucket) for g in generations]
    held = []
    for g in generations:
        try:
            held.append(exact_groups.seen(g.crawl, part.read("exact", role="seen", crawl=g.crawl)))
        except DamagedPartitionError as error:
            raise BandIndexError(f"documents of the earlier crawl {g.crawl} cannot be read: {error}") from error
    rows = part.read_range("language", "by_doc")
    table = exact_groups.group(rows, held)
    part.write(table)
    placed = shuffle.sort_by(table, "record_id")
    part.write_ranged(placed, placed["host_bucket"].to_numpy().astype(np.int64), role="by_bucket")
    new = exact_groups.goes_on(table)
    part.write(table.filter(pa.array(new)).select(["doc_id", "record_id"]), SEEN, role="seen")
    first = int(np.count_nonzero(table["first"].to_numpy()))
    part.report(docs_in=table.num_rows, docs_out=int(new.sum()), reasons={
        "exact_duplicate": table.num_rows - first, "seen_in_earlier_crawl": first - int(new.sum()),
    })


@state_check("exact")
def _exact_current(part: Partition, manifest: PartitionManifest) -> bool:
    return bool(manifest.state.get("generations") == [g.state(part.bucket) for g in earlier(part, "exact")])


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
        "crawl": pa.array([part.crawl] * docs.num_rows, pa.string()), "doc_id": docs["doc_id"],
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
        docs_in=docs.num_rows, docs_out=docs.num_rows, bytes_in=int(texts.nbytes), bound=n,
        bytes_out=int(table["bytes_after"].to_numpy().sum()), removed_lines=int(table["n_removed"].to_numpy().sum()),
        empty_after=empty,
    )
