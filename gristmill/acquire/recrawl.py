"""Which records of a bucket go on: recrawls collapsed, revisits resolved, hold-outs marked.

Belongs here: the verdict on every record by (url_hash, payload digest), within the crawl and against earlier ones, and
the record that a revisit repeats. Does not belong here: duplicates of text (``deduplicate/``). Keep-first, tag-new: of
records with one URL and one payload the first in order (fetch_ts, record_id) goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import identity, schemas
from gristmill.errors import ParameterError
from gristmill.params import UniqueParams

COLUMNS = ["record_id", "url_hash", "fetch_ts", "record_type", "http_status", "content_type", "payload_digest",
           "refers_to_url", "refers_to_ts", "part_length"]


@dataclass(frozen=True)
class Earlier:
    """What an earlier crawl's bucket keeps: rows of SEEN_PAYLOADS sorted by (url_hash, payload_digest)."""

    crawl: str
    seen: pa.Table


def unique(index: pa.Table, crawl: str, earlier: Sequence[Earlier], params: UniqueParams,
           robots: np.ndarray | None = None) -> tuple[pa.Table, pa.Table]:
    """The verdict on every record of a bucket.

    Args:
        index: COLUMNS of ``raw_index``, sorted by record_id.
        crawl: this crawl.
        earlier: crawls with a smaller ordinal, in order.
        params: which statuses and types go on, and what is held out.
        robots: bool, records that are robots.txt files: rules, no documents.

    Returns:
        (UNIQUE_RECORDS, one row a record in the same order; SEEN_PAYLOADS of what is kept).
    """
    n = index.num_rows
    urls = index["url_hash"].to_numpy().astype(np.uint64)
    keys = _payload_keys(urls, index["payload_digest"])
    times = _micros(index["fetch_ts"])
    revisit = _is(index["record_type"], ["revisit"])
    status = index["http_status"].to_numpy()
    reason = np.full(n, None, object)
    of_row = np.full(n, -1, np.int64)
    of_crawl = np.full(n, None, object)
    of_id = np.full(n, None, object)

    answered = (status == 0) | np.isin(status, params.keep_status)  # 0: a resource or another protocol has none
    textual = _is(index["content_type"], list(params.content_types))
    reason[~revisit & ~answered] = "status"
    reason[~revisit & answered & ~textual] = "not_text"
    rule = np.zeros(n, bool) if robots is None else robots & ~revisit
    reason[rule] = "robots_txt"
    pages = np.flatnonzero(~revisit & ~rule & answered & textual)

    # Groups of one URL and payload, each in order; rows are sorted by record_id, so the row number breaks ties.
    pages = pages[np.lexsort((pages, times[pages], keys[pages]))]
    heads = np.ones(len(pages), bool)
    heads[1:] = keys[pages[1:]] != keys[pages[:-1]]
    first = pages[np.flatnonzero(heads)[np.cumsum(heads) - 1]] if len(pages) else pages
    again = pages[first != pages]
    reason[again] = "recrawl"
    of_row[again] = first[first != pages]

    old = _find_earlier(keys[pages], earlier, _seen_payloads)
    for row, hit in zip(pages.tolist(), old, strict=True):
        if hit is not None:
            reason[row], of_row[row] = "recrawl_earlier", -1
            of_crawl[row], of_id[row] = hit

    _resolve_revisits(index, np.flatnonzero(revisit), urls, keys, times, earlier, (reason, of_row, of_crawl, of_id))

    ids = index["record_id"].to_pylist()
    for row in np.flatnonzero(of_row >= 0).tolist():
        of_id[row], of_crawl[row] = ids[of_row[row]], crawl
    kept = np.array([r is None for r in reason], bool)
    table = pa.table({
        "crawl": pa.array([crawl] * n, pa.string()), "record_id": index["record_id"], "kept": pa.array(kept),
        "reason": pa.array(reason.tolist(), pa.string()), "of_record_id": pa.array(of_id.tolist(), schemas.ID),
        "of_crawl": pa.array(of_crawl.tolist(), pa.string()),
        "holdout": pa.array(holdout_of(urls, times, params).tolist(), pa.string()),
    })
    mine = np.flatnonzero(kept)
    mine = mine[np.argsort(keys[mine], kind="stable")]
    return table, index.select(schemas.SEEN_PAYLOADS.names).take(pa.array(mine))


def holdout_of(urls: np.ndarray, micros: np.ndarray, params: UniqueParams) -> np.ndarray:
    """``web_sample``, ``time_forward`` or None for each record (object array): never trained on."""
    out = np.full(len(urls), None, object)
    if params.time_forward_after is not None:
        out[micros > _cutoff(params.time_forward_after)] = "time_forward"
    out[urls % np.uint64(params.web_sample_modulus) == 0] = "web_sample"
    return out


def _cutoff(text: str) -> int:
    try:
        value = datetime.fromisoformat(text)
    except ValueError as error:
        raise ParameterError(f"unique.time_forward_after: {text!r} is no ISO date or time") from error
    value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return int((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000_000


def _payload_keys(urls: np.ndarray, payload: pa.ChunkedArray) -> np.ndarray:
    """(url_hash, SHA-1) as 28 bytes that sort like the pair. Of one width, so trailing zeros do no harm."""
    out = np.zeros((len(urls), 28), np.uint8)
    if len(urls):
        out[:, :8] = np.ascontiguousarray(urls.astype(">u8")).view(np.uint8).reshape(-1, 8)
        flat = payload.combine_chunks() if isinstance(payload, pa.ChunkedArray) else payload
        raw = np.frombuffer(flat.buffers()[1], np.uint8)[flat.offset * 20 : (flat.offset + len(flat)) * 20]
        out[:, 8:] = raw.reshape(-1, 20)
    return out.reshape(-1).view("S28")


def _time_keys(urls: np.ndarray, micros: np.ndarray) -> np.ndarray:
    """(url_hash, seconds) as 16 bytes."""
    out = np.zeros((len(urls), 2), ">u8")
    out[:, 0] = urls
    out[:, 1] = (micros // 1_000_000).astype(np.int64).view(np.uint64) if len(urls) else 0
    return np.ascontiguousarray(out).view(np.uint8).reshape(-1).view("S16")


def _micros(column: pa.ChunkedArray) -> np.ndarray:
    """Microseconds since 1970; the smallest int64 for null."""
    return np.asarray(pc.fill_null(column.cast(pa.int64()), np.iinfo(np.int64).min).to_numpy(), np.int64)


def _is(column: pa.ChunkedArray, values: list[str]) -> np.ndarray:
    found = pc.fill_null(pc.is_in(column, value_set=pa.array(values, pa.string())), False)
    return np.asarray(found.to_numpy(), bool)


def _search(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Position of each wanted key in sorted ``known``, or -1."""
    if not len(known) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(known, wanted)
    at[at == len(known)] = 0
    return np.where(known[at] == wanted, at, -1)


def _seen_payloads(seen: pa.Table) -> np.ndarray:
    return _payload_keys(seen["url_hash"].to_numpy().astype(np.uint64), seen["payload_digest"])


def _seen_times(seen: pa.Table) -> np.ndarray:
    return _time_keys(seen["url_hash"].to_numpy().astype(np.uint64), _micros(seen["fetch_ts"]))


def _find_earlier(wanted: np.ndarray, earlier: Sequence[Earlier],
                  keys_of: Callable[[pa.Table], np.ndarray]) -> list[tuple[str, bytes] | None]:
    """(crawl, record_id) in the earliest crawl that holds each key, or None."""
    found: list[tuple[str, bytes] | None] = [None] * len(wanted)
    for one in earlier:
        known = keys_of(one.seen)
        order = np.argsort(known, kind="stable")
        ids = one.seen["record_id"]
        for i, at in enumerate(_search(wanted, known[order]).tolist()):
            if at >= 0 and found[i] is None:
                found[i] = (one.crawl, ids[int(order[at])].as_py())
    return found


def _resolve_revisits(index: pa.Table, rows: np.ndarray, urls: np.ndarray, keys: np.ndarray, times: np.ndarray,
                      earlier: Sequence[Earlier], out: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> None:
    """A revisit repeats the record with its payload digest at the URL it refers to, or the one fetched there then.

    It is looked for in its own bucket and in earlier crawls' (a URL of another host may lie in another bucket, and is
    then unresolved).
    """
    if not len(rows):
        return
    reason, of_row, of_crawl, of_id = out
    reason[rows] = "revisit_unresolved"
    chosen = index.take(pa.array(rows))
    refers = np.array([identity.url_hash(u) for u in chosen["refers_to_url"].to_pylist()], np.uint64)
    by_payload = _payload_keys(refers, chosen["payload_digest"])
    by_time = _time_keys(refers, _micros(chosen["refers_to_ts"]))
    others = np.flatnonzero(~np.isin(np.arange(len(keys)), rows))
    others = others[np.lexsort((others, times[others]))]
    for wanted, known in ((by_payload, keys[others]), (by_time, _time_keys(urls[others], times[others]))):
        order = np.argsort(known, kind="stable")
        hits = _search(wanted, known[order])
        fresh = (hits >= 0) & (of_row[rows] < 0)
        of_row[rows[fresh]] = others[order[hits[fresh]]]
    for wanted, keys_of in ((by_payload, _seen_payloads), (by_time, _seen_times)):
        for row, hit in zip(rows.tolist(), _find_earlier(wanted, earlier, keys_of), strict=True):
            if hit is not None and of_row[row] < 0 and of_id[row] is None:
                of_crawl[row], of_id[row] = hit
    for row in rows.tolist():
        if of_row[row] >= 0 or of_id[row] is not None:
            reason[row] = "revisit"
