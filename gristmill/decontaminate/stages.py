"""Stage bodies of decontamination: matches of every surviving document, and the report of a crawl.

Belongs here: reading, calling, writing, reporting. Does not belong here: any matching.
"""

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schemas
from gristmill.acquire.holdout import access, open_holdout
from gristmill.decontaminate import index, ngrams, report, stream
from gristmill.deduplicate.documents import documents, with_language
from gristmill.fingerprint import canonical_json
from gristmill.params import DecontaminateParams
from gristmill.partition import Partition

BATCH = 2048  # documents probed at a time


def contamination(part: Partition) -> None:
    """Every benchmark span found in a document: one row a (document, span). Nothing is dropped here."""
    found = _holdouts(part)
    idx = _index(found.root, found.hash, part.plan.params.decontaminate, access(part.site, part.store.options))
    params = part.plan.params.decontaminate
    docs = with_language(part, documents(part, after="near", cleaned=False))
    if params.semantic is not None:
        docs = _with_tier(part, docs)
    rows: list[dict[str, Any]] = []
    excerpts: list[dict[str, Any]] = []
    size = 0
    for start in range(0, docs.num_rows, BATCH):
        texts = docs["text"].slice(start, BATCH)
        found_here = ngrams.probe(idx, texts)
        if params.semantic is not None:
            found_here += _semantic(part, idx, docs.slice(start, BATCH), found_here)
        for m in found_here:
            what = {"crawl": part.crawl, "doc_id": docs["doc_id"][start + m.doc].as_py(),
                    "benchmark": idx.benchmark[m.span], "item": idx.item[m.span], "span": idx.span[m.span]}
            rows.append({**what, "record_id": docs["record_id"][start + m.doc].as_py(), "method": m.method,
                         "longest_run": m.run, "containment": m.containment, "start": m.start, "end": m.end,
                         "whole": m.whole})
            excerpts.append({**what, **stream.excerpt(texts[m.doc].as_py().encode(), m.start, m.end)})
        size += sum(len(t.as_buffer()) for t in texts)
        part.progress(min(start + BATCH, docs.num_rows), min(start + BATCH, docs.num_rows))
    part.write(pa.Table.from_pylist(rows, schema=schemas.CONTAMINATION))
    part.write(pa.Table.from_pylist(excerpts, schema=schemas.CONTAMINATION_EXCERPTS), schemas.CONTAMINATION_EXCERPTS,
               role="excerpts")
    part.state["holdout_hash"] = found.hash
    flagged = {r["doc_id"] for r in rows}
    by: dict[str, list[int]] = {}
    for lang in docs["lang"].to_pylist():
        cell = by.setdefault(lang or "und", [0, 0])
        cell[0] += 1
        cell[1] += 1
    gone = docs.filter(pc.is_in(docs["doc_id"], value_set=pa.array(sorted(flagged), schemas.ID)))["text"]
    hit = {(r["benchmark"], r["doc_id"]) for r in rows}
    part.report(
        docs_in=docs.num_rows, docs_out=docs.num_rows, bytes_in=size, bytes_out=size,
        by={"lang": dict(sorted(by.items()))}, flagged=len(flagged), matches=len(rows),
        flagged_bytes=pc.sum(pc.binary_length(gone)).as_py() or 0,
        flagged_by=dict(sorted(Counter(benchmark for benchmark, _ in hit).items())),
    )


def _with_tier(part: Partition, docs: pa.Table) -> pa.Table:
    held = part.read("provenance", ["record_id", "source_tier"])
    where = pc.index_in(docs["record_id"], value_set=held["record_id"].combine_chunks())
    return docs.append_column("source_tier", held["source_tier"].combine_chunks().take(where.combine_chunks()))


def _semantic(part: Partition, idx: index.Index, docs: pa.Table, certain: list[ngrams.Match]) -> list[ngrams.Match]:
    """Matches by meaning in documents of the chosen tiers, of spans that no words matched there already."""
    from gristmill.decontaminate import semantic
    from gristmill.embed.engines import chosen_device

    params = part.plan.params.decontaminate
    assert params.semantic is not None
    tiers = docs["source_tier"].to_pylist()
    rows = [i for i, tier in enumerate(tiers) if tier in params.semantic_tiers]
    texts = docs["text"].take(pa.array(rows, pa.int64())).to_pylist()
    known = {(m.doc, m.span) for m in certain}
    found = semantic.probe(idx, texts, params.semantic, params.semantic_cosine, cache=part.site.models,
                           device=chosen_device())
    moved = [replace(m, doc=rows[m.doc]) for m in found]
    return [m for m in moved if (m.doc, m.span) not in known]


def gathered(part: Partition) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The summary of a crawl, and its matches with their excerpts and the benchmark's text, as the page shows them.

    Args:
        part: of ``contamination_report``.
    """
    found = _holdouts(part)
    idx = _index(found.root, found.hash, part.plan.params.decontaminate, access(part.site, part.store.options))
    matches = [r for t in part.read_all("contamination") for r in t.to_pylist()]
    excerpts = [r for t in part.read_all("contamination", role="excerpts") for r in t.to_pylist()]
    tokens: dict[bytes, int] = {}
    wanted = {m["doc_id"] for m in matches}
    for table in part.read_all("tokens", ["doc_id", "n_tokens"]):
        tokens |= {d: n for d, n in zip(table["doc_id"].to_pylist(), table["n_tokens"].to_pylist()) if d in wanted}
    probed = sum(part.manifest("contamination", bucket).counts.docs_in for bucket in range(part.buckets))
    items: dict[str, set[str]] = {}
    spans: dict[str, int] = {}
    text: dict[tuple[str, str, str], str] = {}
    for benchmark, item, span, body in zip(idx.benchmark, idx.item, idx.span, idx.text):
        items.setdefault(benchmark, set()).add(item)
        spans[benchmark] = spans.get(benchmark, 0) + 1
        text[(benchmark, item, span)] = body
    summary = report.summarise({b: len(i) for b, i in items.items()}, spans, idx.not_checkable, matches, tokens, probed)
    summary |= {"crawl": part.crawl, "holdout_hash": found.hash}
    pairs = [{**m, **e, "text": text[(m["benchmark"], m["item"], m["span"])]}
             for m, e in zip(matches, excerpts, strict=True)]
    pairs.sort(key=lambda p: (p["benchmark"], -p["longest_run"], p["doc_id"], p["item"], p["span"]))
    return summary, pairs


def contamination_report(part: Partition) -> None:
    """Role "data": the summary as JSON. Role "html": the page."""
    summary, pairs = gathered(part)
    holdout_hash = summary["holdout_hash"]
    part.write_bytes(canonical_json(summary), role="data", suffix=".json", rows=len(summary["benchmarks"]))
    part.write_bytes(report.page(part.crawl or "", holdout_hash, summary, pairs).encode(), role="html", suffix=".html")
    part.state["holdout_hash"] = holdout_hash
    part.report(flagged=summary["flagged"], documents=summary["documents"], benchmarks={
        name: {k: b[k] for k in ("items", "leaked_items", "documents", "document_rate", "tokens", "longest_run",
                                 "methods", "pending_review")}
        for name, b in summary["benchmarks"].items()
    })


def _holdouts(part: Partition) -> Any:
    """The hold-outs that the stage ``eval_holdout`` was committed with."""
    expected = part.manifest("eval_holdout").state["holdout_hash"]
    return open_holdout(part.site.holdout, expected, options=access(part.site, part.store.options))


_OPTIONS: dict[str, Any] = {}


def _index(root: str, holdout_hash: str, params: DecontaminateParams, options: dict[str, Any] | None) -> index.Index:
    """The index of a hold-out root; one is kept for the partitions that this process makes."""
    _OPTIONS[root] = options
    return _built(root, holdout_hash, params)


@lru_cache(maxsize=1)
def _built(root: str, holdout_hash: str, params: DecontaminateParams) -> index.Index:
    return index.build(open_holdout(root, holdout_hash, options=_OPTIONS[root]).benchmarks(), params)
