"""Where every extracted record came from.

Belongs here: joining what intake, extraction and language know about a record. Does not belong here: what may be done
with it (``release/policy``). Plain Parquet, sorted by record_id; a locator is (crawl, host_bucket, row).
"""

import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schemas, shuffle
from gristmill.acquire import robots
from gristmill.errors import DamagedPartitionError

INDEX_COLUMNS = ["record_id", "url", "url_hash", "host", "host_id", "fetch_ts", "source_tier", "license_id",
                 "content_type", "warc_path", "offset", "length"]


def provenance(index: pa.Table, text: pa.Table, language: pa.Table, crawl: str, rules: robots.Registry,
               agent: str, said: pa.Table) -> pa.Table:
    """PROVENANCE: one row a record of ``text``, sorted by record_id.

    Args:
        index: INDEX_COLUMNS of ``raw_index``.
        text: record_id, doc_id, source_id.
        language: record_id, lang, lang_conf.
        crawl: this crawl.
        rules: versions of robots.txt fetched in it.
        agent: who fetched.
        said: ORIGINS of those texts of which a supplier says anything.

    Raises:
        DamagedPartitionError: when a text has no record in the index.
    """
    text = shuffle.sort_by(text.select(["record_id", "doc_id", "source_id"]), "record_id")
    at = _positions(text["record_id"], index["record_id"])
    if at.null_count:
        raise DamagedPartitionError(f"{at.null_count} texts of {crawl} have no record in raw_index: run --stage text")
    columns = {n: index[n].take(at) for n in INDEX_COLUMNS if n != "record_id"}
    columns["robots_state"] = pa.array(
        robots.states(columns["url"].to_pylist(), columns["fetch_ts"].to_pylist(), rules, agent), pa.string()
    )
    judged = _positions(text["record_id"], language["record_id"])
    told = _positions(text["record_id"], said["record_id"])
    n = text.num_rows
    columns |= {
        "crawl": pa.array([crawl] * n, pa.string()), "record_id": text["record_id"], "doc_id": text["doc_id"],
        "source_id": text["source_id"],
        "lang": language["lang"].take(judged), "lang_conf": language["lang_conf"].take(judged),
        **{name: said[name].take(told) for name in schemas.ORIGINS.names if name != "record_id"},
    }
    return pa.table({name: columns[name] for name in schemas.PROVENANCE.names})


def _positions(wanted: pa.ChunkedArray, known: pa.ChunkedArray) -> pa.ChunkedArray:
    # index_in knows binary, not fixed-size binary.
    return pc.index_in(wanted.cast(pa.binary()), value_set=known.cast(pa.binary()).combine_chunks())
