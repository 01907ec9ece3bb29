"""The bodies of ``catalogue_records`` and ``catalogue``.

Belongs here: what is read and reported. Does not belong here: how tables are joined (``catalogue.py``), policy,
manifests.
"""

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.partition import Partition
from gristmill.release import catalogue as lib


def catalogue_records(part: Partition) -> None:
    """One row a record that has a text: what record policy and re-election read."""
    provenance = part.read("provenance")
    provenance = provenance.filter(pc.is_valid(provenance.column("doc_id")))
    unique = part.read("unique_records", ["record_id", "holdout"])
    exact = part.read_range("exact", "by_bucket", columns=["record_id", "first"])
    wanted = provenance.column("doc_id")
    clusters = [
        table.filter(pc.is_in(table.column("doc_id"), value_set=wanted.combine_chunks()))
        for table in part.read_all("clusters", ["doc_id", "dup_cluster_id"])
    ]
    # By payload at intake, and by text once there was one: a page that shows the time has a payload of its own.
    seen = [part.read(asset, ["host", "trap"], role="hosts") for asset in ("unique_records", "provenance")]
    hosts = pa.concat_tables(seen)
    traps = hosts.filter(hosts.column("trap")).column("host")
    table = lib.records(provenance, unique, exact, pa.concat_tables(clusters), traps)
    part.write(table)
    part.report(docs_in=table.num_rows, docs_out=table.num_rows, records=table.num_rows)


def catalogue(part: Partition) -> None:
    """Everything that a predicate may name, one row a document."""
    placed = part.read_range("shards", "by_bucket")
    table = lib.documents(
        near=part.read("near"),
        provenance=part.read("provenance"),
        text=part.read("text", ["record_id", "title", "extractor", "n_chars", "n_bytes"]),
        language=part.read("language"),
        lines=part.read("lines"),
        exact=part.read_range("exact", "by_bucket", columns=["record_id", "dup_count"]),
        heuristics=part.read("heuristics"),
        quality=part.read("quality"),
        safety=part.read("safety"),
        contamination=part.read("contamination"),
        semantic=part.read_range("semantic", "by_bucket", columns=["doc_id", "nearest", "cosine", "removed"]),
        placed=placed,
    )
    part.write(table, extra=True)
    in_shard = pc.sum(pc.is_valid(table.column("shard"))).as_py() or 0
    part.report(
        docs_in=table.num_rows,
        docs_out=table.num_rows,
        documents=table.num_rows,
        in_shards=in_shard,
        tokens=pc.sum(placed.column("n_tokens").filter(pc.is_valid(placed.column("shard")))).as_py() or 0,
    )
