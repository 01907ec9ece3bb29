"""Robots rules per path, agent and date: RFC 9309, real files against Protego, and what a crawl says at fetch."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from protego import Protego

from gristmill.acquire import robots
from gristmill.acquire.robots import Registry, Version
from tests.acquire.test_stages import BUCKETS, INTAKE, lay, params, verdicts_of
from tests.acquire.warcs import World, http, page, record

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
T0 = datetime(2026, 6, 1, tzinfo=UTC)


def version(body, hours=0, status=200, at="http://a.example"):
    return Version(at, T0 + timedelta(hours=hours), status, bytes([hours]) * 16, body)


BAN = b"User-agent: CCBot\nDisallow: /private/\nAllow: /private/ok$\n\nUser-agent: *\nDisallow: /\n"


@pytest.mark.parametrize(("url", "agent", "state"), [
    ("http://a.example/x", "CCBot", "allowed"), ("http://a.example/private/x", "CCBot", "disallowed_at_fetch"),
    ("http://a.example/private/ok", "CCBot", "allowed"), ("http://a.example/x", "other", "disallowed_at_fetch"),
    ("HTTP://A.example:80/private/x", "CCBot", "disallowed_at_fetch"),
    ("https://a.example/private/x", "CCBot", "unknown"),
    ("http://a.example:8080/private/x", "CCBot", "unknown"), ("dns:a.example", "CCBot", "unknown"),
])
def test_rules_are_per_authority_agent_and_path(url, agent, state):
    assert Registry([version(BAN)]).at_fetch(url, T0, agent)[0] == state


def test_the_version_that_applied_at_fetch_is_named():
    registry = Registry([version(b"User-agent: *\nDisallow: /", 10), version(b"", 0)])
    url = "http://a.example/x"
    assert registry.at_fetch(url, T0 - timedelta(seconds=1), "CCBot") == ("unknown", None)
    assert registry.at_fetch(url, T0 + timedelta(hours=9), "CCBot") == ("allowed", b"\x00" * 16)
    assert registry.at_fetch(url, T0 + timedelta(hours=10), "CCBot") == ("disallowed_at_fetch", b"\x0a" * 16)
    assert registry.current(url, "CCBot") == ("retro_optout", b"\x0a" * 16)
    assert registry.current("http://b.example/", "CCBot") == ("unknown", None)


@pytest.mark.parametrize(("status", "state"), [
    (404, "allowed"), (401, "allowed"), (500, "disallowed_at_fetch"), (503, "disallowed_at_fetch"), (301, "unknown"),
])
def test_answers_without_rules(status, state):
    assert Registry([version(BAN, status=status)]).at_fetch("http://a.example/x", T0, "other")[0] == state


def test_bytes_that_are_no_text_and_files_without_end():
    assert Registry([version(bytes(range(256)))]).at_fetch("http://a.example/", T0, "CCBot")[0] == "allowed"
    long = b"# x\n" * (robots.MAX_BODY // 4) + b"User-agent: *\nDisallow: /"
    assert Registry([version(long)]).at_fetch("http://a.example/", T0, "CCBot")[0] == "allowed"
    assert Registry([version(b"\xef\xbb\xbf" + BAN)]).at_fetch("http://a.example/x", T0, "CCBot")[0] == "allowed"


def test_which_urls_are_rules():
    urls = ["http://a.example/robots.txt", "HTTPS://a.example:8443/robots.txt?x", "http://a.example/blog/robots.txt",
            "http://a.example/robots.txt.html", "ftp://a.example/robots.txt", "http://a.example/?/robots.txt", None]
    assert robots.is_robots(pa.chunked_array([urls])).tolist() == [True, True, False, False, False, False, False]


def test_a_crawl_keeps_versions_and_they_are_no_documents(tmp_path):
    from gristmill.runner import run_funnel

    world = World(tmp_path, params())
    made = [
        record("http://a.example/robots.txt", http(BAN, content_type="text/plain"), date="2026-06-01T00:00:00Z"),
        record("http://a.example/robots.txt", http(b"", content_type="text/plain"), date="2026-06-03T00:00:00Z"),
        record("http://b.example/robots.txt", http(b"", status="HTTP/1.1 404 No"), date="2026-06-01T00:00:00Z"),
        record("http://a.example/x", http(page())), record("http://b.example/x", http(page())),
    ]
    lay(world, "C", [("a.warc.gz", b"".join(gzip.compress(m) for m in made))])
    list(run_funnel(world.store, world.plan, world.site, "C", stages=INTAKE))
    assert sorted(verdicts_of(world, "C")["reason"].to_pylist(), key=str) == [None, None, *["robots_txt"] * 3]
    tables = [world.store.read(world.part("unique_records", "C", b).key(), role="robots") for b in range(BUCKETS)]
    rows = pa.concat_tables(tables).to_pylist()
    assert sorted((r["authority"], r["http_status"], r["body"]) for r in rows) == [
        ("http://a.example", 200, b""), ("http://a.example", 200, BAN), ("http://b.example", 404, b"")]
    registry = robots.from_table(pa.concat_tables(tables))
    day = datetime(2026, 6, 2, tzinfo=UTC)
    assert registry.at_fetch("http://a.example/private/", day, "CCBot")[0] == "disallowed_at_fetch"
    assert registry.current("http://a.example/private/", "CCBot")[0] == "allowed"


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real test data is not at ../shared/data")
def test_real_files_say_what_protego_says():
    count = disallowed = 0
    for line in gzip.decompress((SHARED / "08_robustness/robots_txt.jsonl.gz").read_bytes()).splitlines():
        one = json.loads(line)
        base = f"http://{one['host']}"
        registry = Registry([version(one["robots_txt"].encode(), at=robots.authority(base + "/"))])
        oracle = Protego.parse(one["robots_txt"].removeprefix("\ufeff"))  # which Protego takes for a letter
        for path in ("/", "/search?q=x", "/admin/", "/cgi-bin/x"):
            for agent in ("CCBot", "gristmill"):
                expected = oracle.can_fetch(base + path, agent)
                assert (registry.at_fetch(base + path, T0, agent)[0] == "allowed") is expected
                disallowed += not expected
        count += 1
    assert count == 325
    assert disallowed > 150
