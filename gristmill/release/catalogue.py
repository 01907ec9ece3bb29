"""The catalogue: everything known of a document in one row, joined from the side tables of its bucket.

Belongs here: those joins, and which columns a predicate may name. Does not belong here: thresholds and verdicts (a
recipe's predicates and the policy decide when a manifest is built).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schemas, shuffle
from gristmill.tokens.strata import length_bucket

KEYS = {"crawl", "record_id", "doc_id"}


def attach(base: pa.Table, other: pa.Table, key: str, columns: dict[str, str]) -> pa.Table:
    """``base`` with columns of ``other`` (its name -> name in the result), by ``key``; null where it has no row."""
    where = pc.index_in(base.column(key), value_set=other.column(key).combine_chunks())
    for name, wanted in columns.items():
        base = base.append_column(wanted, other.column(name).take(where))
    return base


def _free(base: pa.Table, other: pa.Table, prefix: str, *, leave: frozenset[str] = frozenset()) -> dict[str, str]:
    """Columns of a table of measures; one whose name is taken gets the stage's name in front."""
    return {
        n: f"{prefix}_{n}" if n in base.column_names else n
        for n in other.column_names
        if n not in KEYS and n not in leave
    }


def records(
    provenance: pa.Table, unique: pa.Table, exact: pa.Table, clusters: pa.Table, traps: pa.ChunkedArray | pa.Array
) -> pa.Table:
    """CATALOGUE_RECORDS of a bucket, sorted by record_id; ``clusters`` needs only the documents of this bucket,
    ``traps`` are hosts.
    """
    base = provenance.select([n for n in schemas.CATALOGUE_RECORDS.names if n in provenance.column_names])
    base = attach(base, unique, "record_id", {"holdout": "holdout"})
    base = attach(base, exact, "record_id", {"first": "first"})
    base = base.set_column(base.column_names.index("first"), "first", pc.fill_null(base.column("first"), False))
    base = attach(base, clusters, "doc_id", {"dup_cluster_id": "dup_cluster_id"})
    hosts = traps.combine_chunks() if isinstance(traps, pa.ChunkedArray) else traps
    base = base.append_column("trap", pc.is_in(base.column("host"), value_set=hosts))
    return shuffle.sort_by(base.select(schemas.CATALOGUE_RECORDS.names), "record_id")


def documents(
    *,
    near: pa.Table,
    provenance: pa.Table,
    text: pa.Table,
    language: pa.Table,
    lines: pa.Table,
    exact: pa.Table,
    heuristics: pa.Table,
    quality: pa.Table,
    safety: pa.Table,
    contamination: pa.Table,
    semantic: pa.Table,
    placed: pa.Table,
) -> pa.Table:
    """CATALOGUE of a bucket, with a column a measure after the fixed ones; sorted by doc_id."""
    base = _semantic(shuffle.sort_by(near, "doc_id"), semantic)
    same = {
        n: n
        for n in (
            "url",
            "url_hash",
            "host",
            "host_id",
            "fetch_ts",
            "source_tier",
            "license_id",
            "robots_state",
            "content_type",
            "source_id",
            "derived_from",
            "generator_model_id",
            "prompt_template_id",
        )
    }
    base = attach(base, provenance, "record_id", same)
    base = attach(base, text, "record_id", {n: n for n in ("title", "extractor", "n_chars", "n_bytes")})
    base = attach(
        base, language, "record_id", {n: n for n in ("lang", "script", "lang_conf", "script_share", "n_words")}
    )
    base = attach(base, exact, "record_id", {"dup_count": "dup_count"})
    base = attach(base, lines, "doc_id", {"n_removed": "lines_removed", "bytes_after": "bytes_after"})
    base = attach(
        base,
        placed,
        "doc_id",
        {
            "shard": "shard",
            "ordinal": "ordinal",
            "stratum": "stratum",
            "n_tokens": "n_tokens",
            "n_bytes": "released_bytes",
            "reason": "not_tokenised",
            "value": "not_tokenised_value",
            "bound": "not_tokenised_bound",
        },
    )
    lengths = base.column("n_tokens").fill_null(0).to_numpy()
    base = base.append_column("length_bucket", pa.array(length_bucket(lengths), pa.int8(), mask=lengths == 0))
    base = _contamination(base, contamination)
    spans = safety.column("pii_spans")
    safety = safety.append_column("n_pii", pc.list_value_length(spans).cast(pa.int32()))
    base = attach(base, heuristics, "doc_id", _free(base, heuristics, "heuristics"))
    base = attach(base, quality, "doc_id", _free(base, quality, "quality"))
    return attach(base, safety, "doc_id", _free(base, safety, "safety", leave=frozenset({"pii_spans", "kept_spans"})))


def _semantic(base: pa.Table, semantic: pa.Table) -> pa.Table:
    """``semantic_of`` and ``semantic_cosine``; what is removed there survives no more."""
    base = attach(base, semantic, "doc_id", {"cosine": "semantic_cosine", "nearest": "semantic_of", "removed": "gone"})
    gone = pc.fill_null(base.column("gone"), False)
    kept = pa.nulls(base.num_rows, schemas.ID)
    at = base.column_names.index("semantic_of")
    base = base.set_column(at, "semantic_of", pc.if_else(gone, base.column("semantic_of"), kept))
    survives = pc.and_(base.column("survives"), pc.invert(gone))
    return base.set_column(base.column_names.index("survives"), "survives", survives).drop_columns(["gone"])


def _contamination(base: pa.Table, contamination: pa.Table) -> pa.Table:
    """``contaminated``, ``benchmarks`` (sorted, distinct) and ``longest_run`` of each document."""
    found: dict[bytes, tuple[set[str], int]] = {}
    for row in contamination.select(["doc_id", "benchmark", "longest_run"]).to_pylist():
        names, longest = found.setdefault(row["doc_id"], (set(), 0))
        names.add(row["benchmark"])
        found[row["doc_id"]] = (names, max(longest, row["longest_run"] or 0))
    ids = base.column("doc_id").to_pylist()
    base = base.append_column("contaminated", pa.array([i in found for i in ids], pa.bool_()))
    base = base.append_column(
        "benchmarks", pa.array([sorted(found[i][0]) if i in found else [] for i in ids], pa.list_(pa.string()))
    )
    runs = np.array([found[i][1] if i in found else 0 for i in ids], np.int32)
    return base.append_column("longest_run", pa.array(runs, pa.int32()))
