"""Identity is a definition: these tests write it out a second time, from algorithms.md section 1."""

from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import urlsplit

import pytest
import xxhash
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from gristmill import identity

WHEN = datetime(2026, 7, 15, 8, 30, 0, tzinfo=UTC)
SHA1 = bytes(range(20))


def test_record_id_is_its_definition():
    expected = blake3(b"http://a.example/x\x002026-07-15T08:30:00Z\x00" + SHA1).digest()[:16]
    assert identity.record_id(b"http://a.example/x", WHEN, SHA1) == expected
    assert identity.record_id(b"<http://a.example/x>", WHEN, SHA1) == expected


def test_a_fetch_is_the_same_in_every_zone_and_fraction():
    there = WHEN.astimezone(timezone(timedelta(hours=5, minutes=30))).replace(microsecond=999_999)
    assert identity.record_id(b"u", there, SHA1) == identity.record_id(b"u", WHEN, SHA1)


def test_record_id_uses_the_bytes_of_the_uri_not_its_canonical_form():
    assert identity.record_id(b"http://A.example/", WHEN, SHA1) != identity.record_id(b"http://a.example/", WHEN, SHA1)


@pytest.mark.parametrize(("sha1", "when"), [(b"short", WHEN), (SHA1, WHEN.replace(tzinfo=None))])
def test_what_has_no_identity_is_refused(sha1, when):
    with pytest.raises(ValueError):  # noqa: PT011 - both messages are the function's own
        identity.record_id(b"u", when, sha1)


@pytest.mark.parametrize(("url", "canonical"), [
    ("HTTP://WWW.Example.ORG/Path?Q=A#frag", "http://www.example.org/Path?Q=A"),
    ("http://example.org:80/", "http://example.org/"),
    ("https://example.org:443/a", "https://example.org/a"),
    ("https://example.org:80/a", "https://example.org:80/a"),
    ("http://example.org:/a", "http://example.org/a"),
    ("http://User:Pass@Example.org/a", "http://User:Pass@example.org/a"),
    ("http://[2001:DB8::1]:80/a", "http://[2001:db8::1]/a"),
    ("http://[2001:DB8::1]/a", "http://[2001:db8::1]/a"),
    ("http://example.org?q=1#x", "http://example.org?q=1"),
    ("http://example.org/a b?c d", "http://example.org/a b?c d"),
    ("http://example.org/?a=1&b=2", "http://example.org/?a=1&b=2"),
    ("DNS:Example.org", "dns:Example.org"),
    ("no scheme#x", "no scheme"),
])
def test_canonical_url(url, canonical):
    assert identity.canonical_url(url) == canonical
    assert identity.url_hash(url) == xxhash.xxh3_64_intdigest(canonical.encode())


@given(st.text(max_size=60), st.sampled_from(["http", "HTTPS", "ftp", ""]), st.text(max_size=20))
def test_canonical_url_is_idempotent_on_anything(host, scheme, rest):
    url = f"{scheme}://{host}/{rest}" if scheme else host + rest
    once = identity.canonical_url(url)
    assert identity.canonical_url(once) == once
    assert 0 <= identity.url_hash(url) < 2**64


@given(st.from_regex(r"[A-Za-z0-9.-]{1,30}", fullmatch=True), st.sampled_from(["", ":80", ":8080"]),
       st.sampled_from(["", "me@"]))
def test_host_is_what_urllib_says(host, port, user):
    url = f"http://{user}{host}{port}/path?q#f"
    assert identity.host_of(url) == (urlsplit(url).hostname or "")


def test_uris_without_a_host_are_small_containers():
    assert identity.host_of("dns:Example.org") == "dns:example.org"
    assert identity.host_of("file:///tmp/x") == "file:"
    assert identity.host_of("urn:uuid:1?x") == "urn:uuid:1"


def test_a_host_lies_in_one_bucket_whatever_the_page():
    urls = ["http://a.example/1", "HTTPS://A.example:443/2?x", "http://u@a.example/3#y"]
    assert len({identity.host_id(u) for u in urls}) == 1
    assert identity.host_bucket(identity.host_id(urls[0]), 64) == xxhash.xxh3_64_intdigest(b"a.example") % 64


def test_web_sample_is_one_in_the_modulus():
    n = sum(identity.is_web_sample(identity.url_hash(f"http://h.example/{i}"), 100) for i in range(20_000))
    assert 150 < n < 250  # 200 expected, sigma 14


def test_known_values_never_change():
    """On disk in every store: a change here is a new version of the intake."""
    assert identity.record_id(b"http://a.example/x", WHEN, SHA1).hex() == "f501c487068e5789adb528edc08e7b8d"
    assert identity.url_hash("http://example.org/") == 13203927043952424321
