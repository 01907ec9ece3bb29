"""The host registry's evidence on crawler traps and tarpits.

Belongs here: counts a host and the verdict on them. Does not belong here: excluding anything: the manifest does that,
with this table as its reason.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import schemas, shuffle
from gristmill.params import UniqueParams


def hosts(index: pa.Table, crawl: str, params: UniqueParams) -> pa.Table:
    """HOSTS of a bucket, sorted by host.

    Only pages that were answered (``keep_status``, textual) count as URLs: redirects to a login page are one payload
    at many URLs on honest hosts too.

    Args:
        index: host, host_id, url_hash, payload_digest, http_status, content_type, record_type of ``raw_index``.
        crawl: this crawl.
        params: bounds of a trap.
    """
    records = index.group_by(["host", "host_id"]).aggregate([("url_hash", "count")])
    page = pc.and_(
        pc.and_(pc.is_in(index["http_status"], value_set=pa.array(params.keep_status, pa.int32())),
                pc.is_in(index["content_type"], value_set=pa.array(params.content_types, pa.string()))),
        pc.not_equal(index["record_type"], "revisit"),
    )
    pages = index.filter(pc.fill_null(page, False)).group_by("host").aggregate(
        [("url_hash", "count_distinct"), ("payload_digest", "count_distinct")]
    )
    at = pc.index_in(records["host"], value_set=pages["host"].combine_chunks() if pages.num_rows else pages["host"])
    n_urls = _counts(pages["url_hash_count_distinct"], at)
    n_payloads = _counts(pages["payload_digest_count_distinct"], at)
    share = np.where(n_urls > 0, n_payloads / np.maximum(n_urls, 1), 1.0)
    trap = (n_urls >= params.trap_min_urls) & (share < params.trap_max_unique_share)
    table = pa.table({
        "crawl": pa.array([crawl] * records.num_rows, pa.string()), "host": records["host"],
        "host_id": records["host_id"], "n_records": records["url_hash_count"], "n_urls": pa.array(n_urls),
        "n_unique_payloads": pa.array(n_payloads), "unique_share": pa.array(share), "trap": pa.array(trap),
    })
    return shuffle.sort_by(schemas.check(table, schemas.HOSTS, "unique_records/hosts"), "host")


def _counts(column: pa.ChunkedArray, at: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(pc.fill_null(column.take(at), 0).to_numpy(), np.int64)
