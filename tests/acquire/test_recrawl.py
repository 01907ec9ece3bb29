"""Keep-first, tag-new: recrawls, revisits and hold-outs against a plain dictionary that does the same."""

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gristmill import identity, schemas
from gristmill.acquire import hosts, recrawl
from gristmill.acquire.recrawl import Earlier
from gristmill.params import UniqueParams

T0 = datetime(2026, 6, 1, tzinfo=UTC)
PARAMS = UniqueParams(web_sample_modulus=1 << 62)


def row(n, url="http://a.example/", payload=b"x", hours=0, **other):
    return {
        "record_id": n.to_bytes(16, "big"), "url_hash": identity.url_hash(url), "fetch_ts": T0 + timedelta(hours=hours),
        "record_type": "response", "http_status": 200, "content_type": "text/html",
        "payload_digest": payload.ljust(20, b"\x00"), "refers_to_url": None, "refers_to_ts": None, "part_length": 1,
        "host": identity.host_of(url), "host_id": identity.host_id(url), **other,
    }


SCHEMA = pa.schema([schemas.RAW_INDEX.field(n) for n in [*recrawl.COLUMNS, "host", "host_id"]])


def table(rows):
    return pa.Table.from_pylist(sorted(rows, key=lambda r: r["record_id"]), schema=SCHEMA)


def verdicts(rows, earlier=(), params=PARAMS, crawl="C2"):
    found, seen = recrawl.unique(table(rows), crawl, list(earlier), params)
    schemas.check(found, schemas.UNIQUE_RECORDS, "unique")
    schemas.check(seen, schemas.SEEN_PAYLOADS, "seen")
    return {int.from_bytes(r["record_id"], "big"): r for r in found.to_pylist()}, seen


def reasons(found):
    return {n: r["reason"] for n, r in found.items()}


def test_the_first_fetch_is_kept_not_the_smallest_id():
    found, seen = verdicts([row(1, hours=5), row(2, hours=1), row(3, hours=1), row(4, payload=b"y"), row(5, "http://b.example/")])
    assert reasons(found) == {1: "recrawl", 2: None, 3: "recrawl", 4: None, 5: None}
    assert found[1]["of_record_id"] == (2).to_bytes(16, "big")
    assert found[1]["of_crawl"] == "C2"
    assert seen.num_rows == 3


def test_the_canonical_url_counts():
    found, _ = verdicts([row(1, "http://A.example:80/#top"), row(2, "http://a.example/", hours=1)])
    assert reasons(found) == {1: None, 2: "recrawl"}


def test_status_and_type_have_reasons():
    found, _ = verdicts([
        row(1, http_status=404), row(2, content_type="image/png"), row(3, http_status=301, content_type="image/png"),
        row(4, "http://b.example/", http_status=0, record_type="resource"),
    ])
    assert reasons(found) == {1: "status", 2: "not_text", 3: "status", 4: None}


def test_against_earlier_crawls_the_earliest_is_named():
    _, first = verdicts([row(1), row(2, "http://b.example/")], crawl="C0")
    new, second = verdicts([row(11), row(12, payload=b"new")], [Earlier("C0", first)], crawl="C1")
    assert reasons(new) == {11: "recrawl_earlier", 12: None}
    assert second.num_rows == 1  # what was seen before is not seen again
    third, _ = verdicts([row(21), row(22, payload=b"new", hours=1), row(23, payload=b"new")],
                        [Earlier("C0", first), Earlier("C1", second)])
    assert {n: (r["of_crawl"], int.from_bytes(r["of_record_id"], "big")) for n, r in third.items()} == {
        21: ("C0", 1), 22: ("C1", 12), 23: ("C1", 12)}


def test_revisits_are_resolved_by_payload_or_by_time():
    old = "http://a.example/old"
    _, seen = verdicts([row(90, "http://z.example/", payload=b"z")], crawl="C1")
    revisit = {"record_type": "revisit"}
    found, _ = verdicts([
        row(1, old, payload=b"p"),
        row(2, payload=b"p", hours=1, refers_to_url=old, **revisit),
        row(3, payload=b"?", hours=1, refers_to_url=old, refers_to_ts=T0, **revisit),
        row(4, payload=b"?", hours=1, refers_to_url="http://gone.example/", refers_to_ts=T0, **revisit),
        row(5, payload=b"z", hours=1, refers_to_url="http://z.example/", **revisit),
        row(6, payload=b"?", hours=1, refers_to_url="http://z.example/", refers_to_ts=T0, **revisit),
        row(7, "http://img.example/", payload=b"i", content_type="image/png"),
        row(8, payload=b"i", refers_to_url="http://img.example/", **revisit),
    ], [Earlier("C1", seen)])
    assert reasons(found) == {1: None, 2: "revisit", 3: "revisit", 4: "revisit_unresolved", 5: "revisit", 6: "revisit",
                              7: "not_text", 8: "revisit"}
    of = {n: int.from_bytes(r["of_record_id"] or b"", "big") for n, r in found.items()}
    assert of == {1: 0, 2: 1, 3: 1, 4: 0, 5: 90, 6: 90, 7: 0, 8: 7}
    assert found[5]["of_crawl"] == "C1"


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 4)), max_size=60), st.integers(0, 3))
def test_equals_a_dictionary(fetches, crawls):
    """Over several crawls: kept exactly when nothing before it, in order, had the same URL and payload."""
    rng = random.Random(len(fetches))
    earlier, seen_keys = [], {}
    for number in range(crawls + 1):
        crawl = f"C{number}"
        rows = [row(number * 1000 + i + 1, f"http://h.example/{u}", bytes([p]), hours)
                for i, (u, p, hours) in enumerate(fetches) if rng.random() < 0.7]
        found, seen = verdicts(rows, earlier, crawl=crawl)
        mine = {}
        for r in sorted(rows, key=lambda r: (r["fetch_ts"], r["record_id"])):
            n, key = int.from_bytes(r["record_id"], "big"), (r["url_hash"], r["payload_digest"])
            expected = seen_keys.get(key) or mine.get(key)
            assert found[n]["kept"] is (expected is None)
            if expected is None:
                mine[key] = (crawl, r["record_id"])
            else:
                assert (found[n]["of_crawl"], found[n]["of_record_id"]) == expected
        seen_keys = {**mine, **seen_keys}
        earlier.append(Earlier(crawl, seen))


def test_holdouts_are_marked_and_go_on():
    rows = [row(n, f"http://a.example/{n}", bytes([n % 250, n // 250])) for n in range(1, 1001)]
    found, _ = verdicts(rows, params=UniqueParams(web_sample_modulus=10))
    held = {n for n, r in found.items() if r["holdout"] == "web_sample"}
    assert held == {n for n in range(1, 1001) if identity.url_hash(f"http://a.example/{n}") % 10 == 0}
    assert 60 < len(held) < 140
    assert all(r["kept"] for r in found.values())


@pytest.mark.parametrize("cutoff", ["2026-06-01T02:00:00Z", "2026-06-01T04:00:00+02:00", "2026-06-01T02:00:00"])
def test_time_forward_is_what_was_fetched_later(cutoff):
    rows = [row(n, f"http://a.example/{n}", hours=n) for n in range(1, 5)]
    found, _ = verdicts(rows, params=UniqueParams(web_sample_modulus=1 << 62, time_forward_after=cutoff))
    assert {n: r["holdout"] for n, r in found.items()} == {1: None, 2: None, 3: "time_forward", 4: "time_forward"}


def test_the_web_sample_wins_and_a_date_must_be_one():
    found, _ = verdicts([row(1, hours=9)], params=UniqueParams(web_sample_modulus=1, time_forward_after="2026-06-01"))
    assert found[1]["holdout"] == "web_sample"
    with pytest.raises(ValidationError, match="soon"):
        UniqueParams(time_forward_after="soon")


def test_an_empty_bucket():
    found, seen = verdicts([])
    assert not found
    assert seen.num_rows == 0
    assert hosts.hosts(table([]), "C", PARAMS).num_rows == 0


def test_traps_are_many_urls_with_little_content():
    rows = []
    for n in range(400):
        rows.append(row(1 + n, f"http://trap.example/?s={n}", bytes([n % 7])))
        rows.append(row(1001 + n, f"http://honest.example/{n}", n.to_bytes(4, "big")))
        if n < 99:
            rows.append(row(2001 + n, f"http://small.example/{n}", b"same"))
        rows.append(row(3001 + n, f"http://login.example/{n}", b"same", http_status=302))
        rows.append(row(4001 + n, "http://news.example/", n.to_bytes(4, "big"), hours=n))
    found = {r["host"]: r for r in hosts.hosts(table(rows), "C", UniqueParams(trap_min_urls=100)).to_pylist()}
    assert {h for h, r in found.items() if r["trap"]} == {"trap.example"}
    trap = found["trap.example"]
    assert (trap["n_urls"], trap["n_unique_payloads"], trap["unique_share"]) == (400, 7, 7 / 400)
    assert (found["news.example"]["n_records"], found["news.example"]["n_urls"]) == (400, 1)
    assert found["login.example"]["n_urls"] == 0
    assert list(found) == sorted(found)


def test_a_trap_whose_pages_differ_by_their_clock_alone_is_seen_by_text():
    n = 300
    rows = table([row(i + 1, f"http://clock.example/?t={i}", i.to_bytes(4, "big")) for i in range(n)])
    params = UniqueParams(trap_min_urls=100)
    assert not hosts.hosts(rows, "C", params)["trap"].to_pylist()[0]
    texts = rows.append_column("doc_id", pa.array([bytes([i % 3]) * 16 for i in range(n)], schemas.ID))
    (seen,) = hosts.text_hosts(texts, "C", params).to_pylist()
    assert (seen["trap"], seen["n_urls"], seen["n_unique_payloads"]) == (True, n, 3)
