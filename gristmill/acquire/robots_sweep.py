"""The nightly sweep: robots.txt of every host in the corpus, read again; who disallows now has opted out.

Belongs here: which hosts are due, what an answer changes, and the state, in ``registry/robots``: ``versions/{bucket}``
(rows of ROBOTS, one a change: what manifests read beside the crawls' own versions) and ``checked/{bucket}`` (one row a
host: when it was asked, with what outcome, and how many of its pages are closed now). Does not belong here: the request
(``robots_fetch.py``), and excluding anything: policy does that when a manifest is built (``robots_retro``).

A version is written only when the rules differ from the newest known ones of any crawl or sweep, so a night without
changes leaves every manifest current.
"""

import heapq
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill import schemas
from gristmill.acquire import robots
from gristmill.acquire.robots_fetch import Answer, Fetcher, Http, Pace, Refused
from gristmill.fingerprint import digest
from gristmill.funnel import Plan
from gristmill.identity import host_id
from gristmill.params import RobotsSweep
from gristmill.registry import Registry
from gristmill.store import Key, Store, parquet_bytes

FOLDER = "registry/robots"
SAVE_EVERY_S = 60.0
REFUSED = "refused: "  # begins the error of a host that was not asked
SWEEP = ""  # in place of a crawl's name, in rows of ROBOTS
_PREFIX = r"^(?P<a>[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]*)"
CHECKED = pa.schema([
    pa.field("authority", pa.string()),
    pa.field("checked_ts", schemas.TS),
    pa.field("status", pa.int32()),  # 0: no answer
    pa.field("error", pa.string()),
    pa.field("unreachable_since", schemas.TS),
    pa.field("pages", pa.int64()),  # in the corpus, when its rules were last new; null: not counted
    pa.field("closed", pa.int64()),  # of those, what the newest rules close to one of the site's agents
    pa.field("closed_since", schemas.TS),
])


@dataclass(frozen=True)
class Host:
    """An authority whose newest robots.txt closes pages of the corpus."""

    authority: str
    pages: int
    closed: int
    since: datetime | None


@dataclass
class Swept:
    """What a sweep did: hosts by outcome, and those whose pages were closed or opened by it."""

    asked: int = 0
    unchanged: int = 0
    changed: int = 0
    unreachable: int = 0
    refused: int = 0  # no public address, no name
    not_due: int = 0
    left: int = 0  # due, and the time was up
    opted_out: list[Host] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)


def versions_path(bucket: int) -> str:
    """Where the versions that sweeps found of a bucket's hosts lie."""
    return f"{FOLDER}/versions/{bucket:04d}.parquet"


def versions(store: Store, bucket: int) -> pa.Table:
    """Rows of ROBOTS that sweeps added, oldest first; none where none ran."""
    return _read(store, versions_path(bucket), schemas.ROBOTS)


def consumed(store: Store, bucket: int) -> list[str]:
    """Digest of a bucket's swept versions, as a list; empty where there are none: state that a manifest consumes."""
    try:
        return [digest(store.blobs.get(versions_path(bucket)).hex())]
    except FileNotFoundError:
        return []


def opted_out(store: Store, buckets: int) -> list[Host]:
    """Hosts whose newest rules close pages of the corpus, most pages first."""
    found = []
    for bucket in range(buckets):
        for row in _checked(store, bucket).values():
            if row["closed"]:
                found.append(Host(row["authority"], row["pages"], row["closed"], row["closed_since"]))
    return sorted(found, key=lambda h: (-h.closed, h.authority))


def corpus(store: Store, plan: Plan, bucket: int) -> Iterator[pa.Array]:
    """URLs of the corpus whose hosts lie in a bucket, a crawl at a time."""
    for crawl in Registry(store).crawls():
        key = Key("catalogue_records", plan.fingerprints["catalogue_records"], crawl, bucket)
        if store.manifest(key) is not None:
            yield store.read(key, ["url"]).column("url").combine_chunks()


def authorities(store: Store, plan: Plan, bucket: int) -> list[str]:
    """What governs those URLs: one robots.txt each, sorted."""
    spelt: set[str] = set()
    for urls in corpus(store, plan, bucket):
        spelt.update(pc.unique(pc.struct_field(pc.extract_regex(urls, _PREFIX), "a").drop_null()).to_pylist())
    found = {robots.authority(s + "/") for s in spelt}
    return sorted(a for a in found if a.startswith(("http://", "https://")))


def sweep(store: Store, plan: Plan, config: RobotsSweep, *, fetcher: Fetcher | None = None,
          now: Callable[[], datetime] = lambda: datetime.now(UTC), progress: Callable[[Swept], None] | None = None,
          clock: Callable[[], float] = time.monotonic) -> Swept:
    """Ask every host of the corpus that is due, longest not asked first, until all are or the time is up.

    Raises:
        PartitionBusyError: another sweep of this store is going on.
    """
    out = Swept()
    end = clock() + config.most_seconds
    pace = Pace(config.address_seconds, clock)
    asks = fetcher or Http(config.user_agent, config.timeout_seconds, config.allow_networks, pace=pace)
    with store.lock(Key("robots_sweep", "registry")):
        for bucket in _oldest_first(store, plan.buckets):
            _bucket(store, plan, config, bucket, out, asks, pace, end, now, clock)
            if progress:
                progress(out)
    return out


def _oldest_first(store: Store, buckets: int) -> list[int]:
    never = datetime.min.replace(tzinfo=UTC)
    oldest = {b: min((r["checked_ts"] for r in _checked(store, b).values()), default=never) for b in range(buckets)}
    return sorted(oldest, key=lambda b: (oldest[b], b))


def _bucket(store: Store, plan: Plan, config: RobotsSweep, bucket: int, out: Swept, fetcher: Fetcher, pace: Pace,
            end: float, now: Callable[[], datetime], clock: Callable[[], float]) -> None:
    checked = _checked(store, bucket)
    never = datetime.min.replace(tzinfo=UTC)
    since = now() - timedelta(hours=config.every_hours)
    hosts = authorities(store, plan, bucket)
    due = [a for a in hosts if checked.get(a, {}).get("checked_ts", never) <= since]
    due.sort(key=lambda a: (checked.get(a, {}).get("checked_ts", never), a))
    out.not_due += len(hosts) - len(due)
    if not due or clock() >= end:
        out.left += len(due)
        return
    known, added = _newest(store, plan, bucket), versions(store, bucket).to_pylist()
    # Versions whose pages are still to be counted, by authority: new ones, and what a killed sweep left uncounted.
    fresh: dict[str, dict[str, Any]] = {
        v["authority"]: v for v in added if checked.get(v["authority"], {}).get("pages") is None}
    saved = clock()
    try:
        for authority, answer in asked(due, fetcher, pace, config.concurrency, end, clock):
            when = now()
            row = checked.setdefault(
                authority, {"authority": authority, "pages": None, "closed": 0, "closed_since": None})
            row |= {"checked_ts": when, "status": answer.status, "error": answer.error,
                    "unreachable_since": None if answer.reachable else row.get("unreachable_since") or when}
            version = _version(authority, answer, when, known.get(authority), config.unreachable)
            refused = answer.error.startswith(REFUSED)
            out.asked += 1
            out.refused += refused
            out.unreachable += not answer.reachable and not refused
            out.unchanged += answer.reachable and version is None
            if version is not None:
                out.changed += answer.reachable
                known[authority] = _rules_digest(version["http_status"], version["body"])
                added.append(version)
                fresh[authority], row["pages"] = version, None
            if clock() - saved > SAVE_EVERY_S:
                _save(store, bucket, checked, added)
                saved = clock()
    finally:  # what was answered is kept, whatever ends the sweep
        out.left += sum(checked.get(a, {}).get("checked_ts", never) <= since for a in due)
        _close(store, plan, bucket, config.agents, fresh, checked, out, now())
        _save(store, bucket, checked, added)


def _version(authority: str, answer: Answer, when: datetime, before: str | None, unreachable: str
             ) -> dict[str, Any] | None:
    """A new row of ROBOTS, or None where nothing new was said.

    No answer keeps the last rules (RFC 9309 section 2.4 allows a cached copy then); where there never were any, nothing
    is said, or with ``unreachable: disallow`` everything is closed (section 2.3.1.4).
    """
    if answer.reachable:
        status, body = answer.status, answer.body if answer.status < 300 else b""
        if 300 <= status < 400:  # redirected for ever: says nothing
            return None
    elif unreachable == "disallow" and before is None:
        status, body = 503, b""
    else:
        return None
    if _rules_digest(status, body) == before or (before is None and 400 <= status < 500):
        return None  # "there is none" is news only where there was one
    stamp = when.replace(microsecond=when.microsecond // 1000 * 1000)
    return {"crawl": SWEEP, "authority": authority, "host_id": host_id(authority + "/"), "fetch_ts": stamp,
            "http_status": status, "record_id": bytes.fromhex(digest([authority, stamp.isoformat()])[:32]),
            "body": body}


def _rules_digest(status: int, body: bytes) -> str:
    """Equal where the rules are: all 4xx say the same, and so do all 5xx."""
    return f"{status // 100}" if status >= 400 else digest(["2", body[: robots.MAX_BODY].hex()])


def _newest(store: Store, plan: Plan, bucket: int) -> dict[str, str]:
    """Authority -> digest of the newest rules known of it, of any crawl or sweep."""
    newest: dict[str, tuple[datetime, bytes, str]] = {}

    def add(table: pa.Table) -> None:
        for row in table.to_pylist():
            status, body = row["http_status"], row["body"]
            if 200 <= status < 300 or 400 <= status < 600:  # as robots.Rules.speaks
                at = (row["fetch_ts"], row["record_id"])
                if row["authority"] not in newest or at > newest[row["authority"]][:2]:
                    newest[row["authority"]] = (*at, _rules_digest(status, body))

    for crawl in Registry(store).crawls():
        key = Key("unique_records", plan.fingerprints["unique_records"], crawl, bucket)
        found = store.manifest(key)
        if found is not None and any(f.rows for f in found.role("robots")):
            add(store.read(key, role="robots"))
    add(versions(store, bucket))
    return {authority: rules for authority, (_, _, rules) in newest.items()}


def _close(store: Store, plan: Plan, bucket: int, agents: Sequence[str], fresh: Mapping[str, Mapping[str, Any]],
           checked: Mapping[str, dict[str, Any]], out: Swept, when: datetime) -> None:
    """Count which pages the new rules close, and tell which hosts have opted out by them."""
    if not fresh:
        return
    pages, closed = dict.fromkeys(fresh, 0), dict.fromkeys(fresh, 0)
    rules = {a: robots.rules(v["http_status"], v["body"]) for a, v in fresh.items()}
    for urls in corpus(store, plan, bucket):
        for url in pc.unique(urls.drop_null()).to_pylist():
            authority = robots.authority(url)
            if authority in fresh:
                pages[authority] += 1
                closed[authority] += any(not rules[authority].allows(url, agent) for agent in agents)
    for authority in sorted(fresh):
        row = checked.get(authority)
        if row is None:
            continue
        before = row["closed"]
        row |= {"pages": pages[authority], "closed": closed[authority],
                "closed_since": (row["closed_since"] or when) if closed[authority] else None}
        if closed[authority] > before:
            out.opted_out.append(Host(authority, pages[authority], closed[authority], row["closed_since"]))
        elif before and not closed[authority]:
            out.returned.append(authority)


def asked(due: Sequence[str], fetcher: Fetcher, pace: Pace, concurrency: int, end: float,
          clock: Callable[[], float] = time.monotonic) -> Iterator[tuple[str, Answer]]:
    """Ask authorities side by side, as they answer; one address has one request at a time, paced.

    Those not begun when ``end`` (by the clock) comes are left out.
    """
    lock, ready = threading.Lock(), threading.Semaphore(0)
    heap: list[tuple[float, int, str, tuple[str, ...]]] = [(0.0, n, a, ()) for n, a in enumerate(due)]
    results: list[tuple[str, Answer] | BaseException | None] = []  # None, or what ended it: a thread's last word

    def tell(result: tuple[str, Answer] | BaseException | None) -> None:
        with lock:
            results.append(result)
        ready.release()

    def work() -> None:
        while True:
            with lock:
                if not heap or clock() >= end:
                    break
                at, n, authority, addresses = heapq.heappop(heap)
            if not addresses:
                try:
                    addresses = fetcher.addresses(authority)
                except Refused as error:
                    tell((authority, Answer(0, error=f"{REFUSED}{error}")))
                    continue
                at = pace.reserve(addresses[0])
                if at > clock():  # its turn comes later: others first
                    with lock:
                        heapq.heappush(heap, (at, n, authority, addresses))
                    continue
            wait = at - clock()
            if wait > 0:
                time.sleep(min(wait, max(end - clock(), 0)))
                if clock() < at:
                    break  # the time was up
            tell((authority, fetcher.read(authority, addresses)))
        tell(None)

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again below, where the sweep runs
            tell(error)

    threads = [threading.Thread(target=guarded, daemon=True) for _ in range(min(concurrency, len(due)))]
    for thread in threads:
        thread.start()
    going, broken = len(threads), None
    while going:
        ready.acquire()
        with lock:
            result = results.pop(0)
        if isinstance(result, tuple):
            yield result
        else:
            going -= 1
            broken = broken or result
    if broken is not None:
        raise broken


def _checked(store: Store, bucket: int) -> dict[str, dict[str, Any]]:
    table = _read(store, f"{FOLDER}/checked/{bucket:04d}.parquet", CHECKED)
    return {row["authority"]: row for row in table.to_pylist()}


def _save(store: Store, bucket: int, checked: Mapping[str, dict[str, Any]], added: Sequence[Mapping[str, Any]]) -> None:
    """Versions first: a host whose new rules were lost would not be asked again tonight."""
    if added:
        table = pa.Table.from_pylist(list(added), schema=schemas.ROBOTS)
        data = parquet_bytes(table.sort_by([("authority", "ascending"), ("fetch_ts", "ascending")]))
        if store.blobs.size(versions_path(bucket)) is None or store.blobs.get(versions_path(bucket)) != data:
            store.blobs.put(versions_path(bucket), data)
    rows = [checked[a] for a in sorted(checked)]
    store.blobs.put(f"{FOLDER}/checked/{bucket:04d}.parquet", parquet_bytes(pa.Table.from_pylist(rows, schema=CHECKED)))


def _read(store: Store, path: str, schema: pa.Schema) -> pa.Table:
    try:
        return pq.read_table(pa.BufferReader(store.blobs.get(path)), use_threads=False).cast(schema)
    except FileNotFoundError:
        return schema.empty_table()
