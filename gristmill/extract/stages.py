"""The stages text, language and quarantine: what each reads, writes and reports.

Belongs here: bodies called with a ``Partition``. Does not belong here: extraction (``document.py``), identification
(``language.py``), the limits on documents (``watch.py``).
"""

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schemas, shuffle
from gristmill.acquire.holdout import access, require
from gristmill.extract import gates, slow
from gristmill.extract import language as lid
from gristmill.extract.document import PLAIN
from gristmill.extract.slices import Record, Setup, at_hand
from gristmill.extract.text_table import TextTable, quarantined
from gristmill.extract.watch import GivenUp, Limits, Slice, shared_pool
from gristmill.partition import Partition, PartitionManifest, state_check
from gristmill.store import Store

SLICE = 24  # records a slice at most: long enough to amortise a message
_INDEX = ["crawl", "record_id", "url", "fetch_ts", "content_type", "charset", "tags", "warc_path", "offset", "length",
          "part_offset", "part_length", "host_id"]


# -- text ----------------------------------------------------------------------------------------------------------


def text(part: Partition) -> None:
    """Main text of every kept record of the bucket; what gives none is set aside under role ``quarantine``."""
    part.state["holdout_hash"] = require(
        part.site.holdout, part.plan.params.extract.holdout_hash, options=access(part.site, part.store.options)).hash
    index = _kept(part)
    rows: list[dict[str, Any]] = index.to_pylist()
    listed = slow.listed(part)
    unread = 0
    with part.grouped() as add:
        table = TextTable(rows, add)
        todo = []
        for number, row in enumerate(rows):
            if row["record_id"] in listed:
                table.put(number, listed[row["record_id"]])
            else:
                todo.append(number)
        if todo:
            with at_hand(part.store, part.key("raw_warc")) as near:
                unread = _extract(part, near, rows, todo, table)
        table.finish(part)
    part.state["slow"] = sorted(k.hex() for k in slow.listed(part))
    if unread:
        part.report(partial=True, unread_records=unread)


def _extract(part: Partition, near: Store, rows: list[dict[str, Any]], todo: list[int], table: TextTable) -> int:
    """Put the outcomes of the rows ``todo``, from workers without network; returns how many could not be read."""
    params = part.plan.params.extract
    setup = Setup(near.root, part.key("raw_warc"), params)
    chunks = _slices(todo, max(part.workers, 1))
    slices = [Slice("gristmill.extract.slices:handler", setup, [_record(rows[n]) for n in c]) for c in chunks]
    pool = shared_pool(max(part.workers, 1))
    unread = 0
    for done, (number, position, result) in enumerate(
        pool.run(slices, Limits(params.cpu_seconds, params.wall_seconds)), 1
    ):
        place = chunks[number][position]
        table.put(place, result)
        if isinstance(result, GivenUp):
            if result.reason == "unread":
                unread += 1
            else:
                slow.record(part, rows[place], result)
        if done % 64 == 0:
            part.progress(done, done)
    part.run["peak_worker_bytes"] = pool.peak_bytes
    return unread


def _slices(todo: list[int], workers: int) -> list[list[int]]:
    """Rows dealt out: slices that shrink towards the end, so that workers end together."""
    out, at = [], 0
    while at < len(todo):
        size = min(SLICE, max(1, (len(todo) - at) // (2 * workers)))
        out.append(todo[at : at + size])
        at += size
    return out


@state_check("text")
def text_state(part: Partition, manifest: PartitionManifest) -> bool:
    """Is the list of given-up documents, and the hold-outs' hash, still what the text was made with."""
    same_holdout = manifest.state.get("holdout_hash") == part.plan.params.extract.holdout_hash
    return same_holdout and manifest.state.get("slow") == sorted(k.hex() for k in slow.listed(part))


def _kept(part: Partition) -> pa.Table:
    index = part.read("raw_warc", _INDEX)
    unique = part.read("unique_records", ["record_id", "kept"])
    kept = unique.filter(unique["kept"])["record_id"]
    return shuffle.sort_by(index.filter(pc.is_in(index["record_id"], kept.combine_chunks())), "record_id")


def _record(row: dict[str, Any]) -> Record:
    return Record(row["part_offset"], row["part_length"], row["url"] or "", row["content_type"] or "", row["charset"],
                  tuple(row["tags"] or ()))


# -- language ------------------------------------------------------------------------------------------------------


def language(part: Partition) -> None:
    """Language, script and measures of every text; the gates; and, by doc_id range, what the gates let through."""
    params = part.plan.params.language
    table = part.read("text", ["crawl", "record_id", "doc_id", "fetch_ts", "text", "n_bytes", "extractor"])
    model = lid.open_model(params.model, part.site.models)
    texts = table["text"].combine_chunks() if table.num_rows else pa.array([], pa.large_string())
    guesses = [model.guess(t, params.first_chars) for t in texts.to_pylist()]
    measures = gates.measure(texts)
    scripts = gates.main_scripts(measures)
    shares = gates.script_shares(measures, [g.lang for g in guesses])
    plain = [name == PLAIN for name in table["extractor"].to_pylist()]
    gate = [
        gates.gate(guesses[i], float(shares[i]), measures, i, params, plain=plain[i]) for i in range(table.num_rows)
    ]
    out = pa.table({
        "crawl": table["crawl"], "record_id": table["record_id"], "doc_id": table["doc_id"],
        "lang": pa.array([g.lang for g in guesses], pa.string()),
        "script": pa.array(scripts, pa.string()),
        "lang_conf": pa.array([g.conf for g in guesses], pa.float32()),
        "lang2": pa.array([g.second for g in guesses], pa.string()),
        "lang2_conf": pa.array([g.second_conf for g in guesses], pa.float32()),
        "script_share": pa.array(shares, pa.float32()),
        "n_words": pa.array(measures.words, pa.int32()),
        "n_chars": pa.array(measures.chars, pa.int32()),
        "longest_line_share": pa.array(measures.longest_line_share, pa.float32()),
        "letter_share": pa.array(measures.letter_share, pa.float32()),
        "gate": pa.array(gate, pa.string()),
    })
    part.write(out)
    on = pc.is_null(out["gate"])
    _write_by_doc(part, table.filter(on))
    sizes = np.asarray(table["n_bytes"].to_numpy(), np.int64)
    passed = np.asarray(on.to_numpy(zero_copy_only=False) if isinstance(on, pa.Array) else on.to_numpy(), bool)
    by: dict[str, list[int]] = {}
    for g, ok in zip(guesses, passed.tolist(), strict=True):
        cell = by.setdefault(g.lang, [0, 0])
        cell[0] += 1
        cell[1] += ok
    part.report(docs_in=table.num_rows, docs_out=int(passed.sum()), bytes_in=int(sizes.sum()),
                bytes_out=int(sizes[passed].sum()), reasons=Counter(g for g in gate if g), by={"lang": by})


def _write_by_doc(part: Partition, table: pa.Table) -> None:
    """What ``exact`` reads: the documents that go on, cut by doc_id range."""
    assert part.bucket is not None
    rows = pa.table({
        "crawl": table["crawl"], "record_id": table["record_id"], "doc_id": table["doc_id"],
        "host_bucket": pa.array(np.full(table.num_rows, part.bucket, np.uint16)), "fetch_ts": table["fetch_ts"],
        "n_bytes": table["n_bytes"],
    })
    rows = shuffle.sort_by(rows, "doc_id", "fetch_ts", "record_id")
    numbers = shuffle.range_of(shuffle.first_uint64(rows["doc_id"]), part.buckets)
    part.write_ranged(rows, numbers, rows.schema, role="by_doc")


# -- quarantine ----------------------------------------------------------------------------------------------------


def quarantine(part: Partition) -> None:
    """Everything set aside so far for this bucket, with stage, reason and a pointer to its raw bytes.

    Rows of ``crawl_slices`` belong to no host (what could not be read has none): slice n's go to bucket n.
    """
    tables = [part.read("crawl_slices", role="quarantine")] if part.manifest("crawl_slices").role("quarantine") else []
    if part.manifest("raw_warc").role("quarantine"):
        tables.append(part.read("raw_warc", role="quarantine"))
    tables += [part.read("text", role="quarantine"), _gated(part)]
    table = pa.concat_tables([schemas.check(t, schemas.QUARANTINE, "quarantine") for t in tables])
    table = shuffle.sort_by(table, "record_id", "warc_path", "offset", "stage", "reason")
    part.write(table)
    reasons = Counter(table["reason"].to_pylist())
    part.report(docs_in=table.num_rows, docs_out=0, reasons=reasons)


def _gated(part: Partition) -> pa.Table:
    gated = part.read("language")
    gated = gated.filter(pc.is_valid(gated["gate"]))
    where = {r["record_id"]: r for r in part.read("raw_warc", _INDEX).to_pylist()} if gated.num_rows else {}
    texts = {}
    if gated.num_rows:
        table = part.read("text", ["record_id", "text"])
        wanted = pc.is_in(table["record_id"], gated["record_id"].combine_chunks())
        texts = {r["record_id"]: r["text"] for r in table.filter(wanted).to_pylist()}
    params = part.plan.params.language
    rows = [
        quarantined(where[r["record_id"]], "language", r["gate"], gates.detail(r, texts[r["record_id"]], params))
        for r in gated.to_pylist()
    ]
    return schemas.from_rows(rows, schemas.QUARANTINE)


def meta(value: str) -> dict[str, Any]:
    """``extract_meta`` of a text row as a mapping."""
    data: dict[str, Any] = json.loads(value)
    return data
