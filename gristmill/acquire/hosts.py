"""The host registry's evidence on crawler traps and tarpits.

Belongs here: counts a host and the verdict on them, once over payloads (at intake) and once over texts (a page that
shows the time or its own URL has a payload of its own and says nothing new). Does not belong here: excluding anything:
the manifest does that, with these tables as its reason.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schemas, shuffle
from gristmill.params import UniqueParams


def hosts(index: pa.Table, crawl: str, params: UniqueParams) -> pa.Table:
    """HOSTS of a bucket by payload, sorted by host.

    Only pages that were answered (``keep_status``, textual) count as URLs: redirects to a login page are one payload
    at many URLs on honest hosts too.

    Args:
        index: host, host_id, url_hash, payload_digest, http_status, content_type, record_type of ``raw_index``.
        crawl: this crawl.
        params: bounds of a trap.
    """
    page = pc.and_(
        pc.and_(pc.is_in(index["http_status"], value_set=pa.array(params.keep_status, pa.int32())),
                pc.is_in(index["content_type"], value_set=pa.array(params.content_types, pa.string()))),
        pc.not_equal(index["record_type"], "revisit"),
    )
    return _evidence(index, index.filter(pc.fill_null(page, False)), "payload_digest", crawl, params)


def text_hosts(provenance: pa.Table, crawl: str, params: UniqueParams) -> pa.Table:
    """HOSTS of a bucket by text, sorted by host: ``n_unique_payloads`` counts distinct doc_ids.

    Args:
        provenance: host, host_id, url_hash, doc_id of records with a text.
        crawl: this crawl.
        params: bounds of a trap.
    """
    return _evidence(provenance, provenance, "doc_id", crawl, params)


def _evidence(all_records: pa.Table, pages: pa.Table, content: str, crawl: str, params: UniqueParams) -> pa.Table:
    records = all_records.group_by(["host", "host_id"]).aggregate([("url_hash", "count")])
    counted = pages.group_by("host").aggregate([("url_hash", "count_distinct"), (content, "count_distinct")])
    at = pc.index_in(records["host"], value_set=counted["host"].combine_chunks())
    n_urls = _counts(counted["url_hash_count_distinct"], at)
    n_contents = _counts(counted[f"{content}_count_distinct"], at)
    share = np.where(n_urls > 0, n_contents / np.maximum(n_urls, 1), 1.0)
    trap = (n_urls >= params.trap_min_urls) & (share < params.trap_max_unique_share)
    table = pa.table({
        "crawl": pa.array([crawl] * records.num_rows, pa.string()), "host": records["host"],
        "host_id": records["host_id"], "n_records": records["url_hash_count"], "n_urls": pa.array(n_urls),
        "n_unique_payloads": pa.array(n_contents), "unique_share": pa.array(share), "trap": pa.array(trap),
    })
    return shuffle.sort_by(schemas.check(table, schemas.HOSTS, "hosts"), "host")


def _counts(column: pa.ChunkedArray, at: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(pc.fill_null(column.take(at), 0).to_numpy(), np.int64)
