"""A record becomes a row and a frame: identity, digests, what was wrong, and a WARC that other tools read."""

import hashlib
import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard
from fastwarc.warc import ArchiveIterator as FastArchive
from hypothesis import given
from hypothesis import strategies as st

from gristmill import identity
from gristmill.acquire import digests
from gristmill.acquire.heads import Loss, RawRecord
from gristmill.acquire.ingest import Bounds, Ingest, NotADocumentError, parse_date, uri_text
from gristmill.acquire.records import split_frame
from gristmill.acquire.source import Source
from gristmill.acquire.warc import read_records
from gristmill.blobs import LocalBlobs
from tests.acquire.test_http import BODY, CODERS, chunk
from tests.acquire.warcs import DATE, http, page, read, record, sha1

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
WHEN = datetime(2026, 6, 1, 10, tzinfo=UTC)


def ingest(max_payload=32 << 20, ratio=1000):
    return Ingest(Bounds(max_payload, ratio), "C", "a.warc.gz", "cc", None)


def take(tmp_path, raw):
    (found,), losses = read(tmp_path, raw, "f.warc")
    assert not losses
    document = ingest().document(found)
    return document.row, split_frame(zstandard.ZstdDecompressor().decompress(document.frame))


def test_a_plain_page(tmp_path):
    body = page("x")
    row, (_, http_head, payload) = take(tmp_path, record(
        "http://A.example/p?q#f", http(body, "Content-Length: 99", content_type='Text/HTML; charset="UTF-8"'),
        headers={"WARC-Payload-Digest": sha1(body)},
    ))
    digest = hashlib.sha1(body).digest()
    assert payload == body
    assert row["url"] == "http://A.example/p?q#f"
    assert row["record_id"] == identity.record_id(b"http://A.example/p?q#f", WHEN, digest)
    assert (row["payload_digest"], row["digest_ok"], row["tags"]) == (digest, True, [])
    assert (row["host"], row["host_id"]) == ("a.example", identity.container_id("a.example"))
    assert (row["http_status"], row["content_type"], row["charset"]) == (200, "text/html", "utf-8")
    assert row["fetch_ts"] == WHEN
    assert b"X-Crawl-Content-Length: 99" in http_head
    assert http_head.endswith(b"Content-Length: %d" % len(body))


@pytest.mark.parametrize("coding", CODERS)
@pytest.mark.parametrize("chunked", [False, True])
def test_transfer_and_content_codings_come_off(tmp_path, coding, chunked):
    packed = CODERS[coding](BODY)
    sent = chunk(packed, 700) if chunked else packed
    extra = [f"Content-Encoding: {coding}", *(["Transfer-Encoding: chunked"] if chunked else [])]
    row, (_, http_head, payload) = take(tmp_path, record("http://a.example/", http(sent, *extra)))
    assert payload == BODY
    # Identity is over the transfer-decoded body, content coding still on.
    assert row["payload_digest"] == hashlib.sha1(packed).digest()
    assert b"X-Crawl-Content-Encoding: " in http_head
    assert b"\nContent-Encoding" not in http_head


@pytest.mark.parametrize("sent", ["gzip", "deflate", "zstd", "gzip, gzip"])
@pytest.mark.parametrize("said", ["gzip", "br", "deflate", "zstd", "utf-8", "gzip, utf-8", ""])
@pytest.mark.parametrize("kind", ["text/html", None])
def test_a_page_is_read_whatever_its_coding_is_called(tmp_path, sent, said, kind):
    body = BODY
    for coding in sent.split(", "):
        body = CODERS[coding](body)
    row, (_, _, payload) = take(tmp_path, record(
        "http://a.example/", http(body, *([f"Content-Encoding: {said}"] if said else []), content_type=kind)))
    layers = len(sent.split(", "))
    if layers > 1 and said != "gzip":
        assert payload == CODERS["gzip"](BODY)  # one more than is said, and no further
    else:
        assert payload == BODY
        assert (said == sent) == (not {"encoding_undeclared"} & set(row["tags"]))


def test_text_that_begins_like_zlib_stays(tmp_path):
    for body in (b"x^2 + y^2 = z^2", b"x\x01 is no text, and no zlib"):
        row, (_, _, payload) = take(tmp_path, record("http://a.example/", http(body, content_type="text/plain")))
        assert payload == body
        assert not row["tags"]


def test_undeclared_gzip_on_a_page(tmp_path):
    row, (_, _, payload) = take(tmp_path, record("http://a.example/", http(CODERS["gzip"](BODY))))
    assert payload == BODY
    assert row["tags"] == ["encoding_undeclared"]
    row, (_, _, payload) = take(tmp_path, record("http://a.example/x.gz", http(CODERS["gzip"](BODY),
                                                                          content_type="application/gzip")))
    assert payload == CODERS["gzip"](BODY)


@pytest.mark.parametrize(("recorded", "ok", "tags"), [
    (lambda b: "sha1:" + hashlib.sha1(b).hexdigest(), True, []),
    (lambda b: "md5:" + hashlib.md5(b).hexdigest(), True, []),
    (lambda b: "sha256:" + hashlib.sha256(b).hexdigest().upper(), True, []),
    (lambda b: sha1(b + b"x"), False, ["digest_mismatch"]),
    (lambda b: "crc32:12345678", None, ["digest_unknown"]),
    (lambda b: "sha1:short", None, ["digest_unknown"]),
])
def test_recorded_digests_are_checked(tmp_path, recorded, ok, tags):
    body = page()
    row, _ = take(tmp_path, record("http://a.example/", http(body), headers={"WARC-Payload-Digest": recorded(body)}))
    assert (row["digest_ok"], row["tags"]) == (ok, tags)


def test_a_digest_over_the_chunks_agrees_too(tmp_path):
    sent = chunk(BODY, 900)
    row, _ = take(tmp_path, record("http://a.example/", http(sent, "Transfer-Encoding: chunked"),
                                   headers={"WARC-Payload-Digest": sha1(sent)}))
    assert row["digest_ok"] is True


def test_a_block_digest_that_does_not_fit(tmp_path):
    row, _ = take(tmp_path, record("http://a.example/", http(page()), headers={"WARC-Block-Digest": sha1(b"other")}))
    assert row["digest_ok"] is None
    assert row["tags"] == ["block_digest_mismatch"]


def test_headers_missing_doubled_and_odd(tmp_path):
    raw = record("<http://a.example/a b\xe4>".encode("latin-1"), http(page(), content_type=None), record_id=False,
                 headers={"WARC-Truncated": "length", "X": "1", "x": "2"})
    row, (head, _, payload) = take(tmp_path, raw)
    assert row["url"] == "http://a.example/a b%E4"
    assert row["record_id"] == identity.record_id(b"http://a.example/a b\xe4", WHEN, hashlib.sha1(page()).digest())
    assert row["truncated"] == "length"
    assert row["content_type"] == "text/html"  # guessed from its first bytes
    assert row["tags"] == ["content_type_guessed", "duplicate_header", "no_record_id"]
    assert payload == page()
    assert b"WARC-Target-URI: http://a.example/a b\xe4" in head


def test_the_type_that_the_crawler_found_counts_where_the_server_named_none(tmp_path):
    row, _ = take(tmp_path, record("http://a.example/", http(b"%PDF-1.4", content_type=None),
                                   headers={"WARC-Identified-Payload-Type": "application/pdf"}))
    assert row["content_type"] == "application/pdf"


@pytest.mark.parametrize(("uri", "date", "reason"), [
    (None, DATE, "no_target_uri"), ("", DATE, "no_target_uri"), ("http://a.example/", None, "no_date"),
    ("http://a.example/", "yesterday", "no_date"), ("http://a.example/", "2026-13-40T00:00:00Z", "no_date"),
])
def test_what_has_no_identity_is_named(tmp_path, uri, date, reason):
    (found,), _ = read(tmp_path, record(uri, http(page()), date=date), "f.warc")
    with pytest.raises(NotADocumentError) as caught:
        ingest().document(found)
    assert caught.value.reason == reason


@pytest.mark.parametrize(("text", "expected"), [
    ("2026-06-01T10:00:00Z", WHEN), ("2026-06-01T10:00:00.123456Z", WHEN), ("20260601100000", WHEN),
    ("2026-06-01T12:00:00+02:00", WHEN), ("2026-06-01T10:00:00", WHEN), ("2026-06-01", WHEN.replace(hour=0)),
    ("2026-06-01T10:00:60Z", WHEN.replace(second=59)), ("2026", None), ("", None), ("2026-02-30T00:00:00Z", None),
])
def test_dates(text, expected):
    assert parse_date(text) == expected


def test_a_revisit_has_the_digest_that_it_records(tmp_path):
    raw = record("http://a.example/", http(b""), kind="revisit", headers={
        "WARC-Payload-Digest": sha1(b"the body of old"), "WARC-Refers-To-Target-URI": "<http://a.example/old>",
        "WARC-Refers-To-Date": "2026-01-01T00:00:00Z"})
    row, (_, _, payload) = take(tmp_path, raw)
    assert row["record_type"] == "revisit"
    assert row["payload_digest"] == hashlib.sha1(b"the body of old").digest()
    assert (row["refers_to_url"], row["refers_to_ts"]) == ("http://a.example/old", datetime(2026, 1, 1, tzinfo=UTC))
    assert payload == b""


def test_a_resource_is_its_own_payload(tmp_path):
    row, (_, http_head, payload) = take(tmp_path, record("file:///a b.html", page(), kind="resource",
                                                         content_type="text/html; charset=x"))
    assert (row["http_status"], row["content_type"], row["charset"], http_head) == (0, "text/html", "x", b"")
    assert payload == page()


def test_a_record_that_says_http_and_holds_none(tmp_path):
    row, (_, http_head, payload) = take(tmp_path, record("http://a.example/", b"just bytes\r\n\r\nmore"))
    assert payload == b"just bytes\r\n\r\nmore"
    assert http_head == b""
    assert row["tags"] == ["not_http"]


@given(st.binary(max_size=200), st.binary(max_size=60), st.booleans())
def test_a_frame_gives_back_any_payload(tmp_path_factory, payload, uri, as_http):
    uri = b"http://a.example/" + uri.replace(b"\n", b"").replace(b"\r", b"").replace(b"\x00", b"").strip()
    block = http(payload) if as_http else payload
    kind, media = (b"response", b"application/http") if as_http else (b"resource", b"a/b")
    headers = [(b"warc-type", kind), (b"warc-target-uri", uri), (b"warc-date", DATE.encode()), (b"content-type", media)]
    raw = RawRecord(0, 0, headers, block, len(block))
    document = ingest().document(raw)
    if not as_http and payload.startswith(b"HTTP/"):
        return
    expected = payload
    if as_http and payload[:3] == b"\x1f\x8b\x08":
        return
    assert split_frame(zstandard.ZstdDecompressor().decompress(document.frame))[2] == expected
    assert document.payload_bytes == len(expected)


def test_frames_are_a_warc_that_fastwarc_reads_with_its_digests(tmp_path):
    bodies = [page(str(i)) for i in range(5)]
    made = []
    for i, body in enumerate(bodies):
        (found,), _ = read(tmp_path, record(f"http://a.example/{i}", http(CODERS["br"](body), "Content-Encoding: br")),
                           "f.warc")
        made.append(ingest().document(found).frame)
    theirs = list(FastArchive(io.BytesIO(b"".join(made)), parse_http=True))
    assert len(theirs) == 5
    for r, body in zip(FastArchive(io.BytesIO(b"".join(made)), parse_http=True), bodies, strict=True):
        assert r.verify_payload_digest()
        assert r.reader.read() == body


def test_the_same_record_gives_the_same_frame(tmp_path):
    (found,), _ = read(tmp_path, record("http://a.example/", http(page())), "f.warc")
    assert ingest().document(found).frame == ingest().document(found).frame


def test_digest_spellings():
    raw = hashlib.sha1(b"x").digest()
    for spelled in (sha1(b"x"), sha1(b"x").lower().replace("sha1:", "SHA-1:"), "sha1:" + raw.hex(), raw.hex()):
        assert digests.parse(spelled.encode()) == ("sha1", raw)
        assert digests.agrees(spelled.encode(), b"x") is True
    assert digests.parse(b"sha1:!!!") is None
    assert digests.agrees(b"", b"x") is None


def test_uris_are_text_whatever_their_bytes():
    assert uri_text("http://ä.example/".encode()) == "http://ä.example/"
    assert uri_text(b"http://\xff\x00.example/") == "http://%FF%00.example/"


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real test data is not at ../shared/data")
@pytest.mark.parametrize(("path", "tag", "start"), [
    ("01_warc/warcio/example-wrong-chunks.warc.gz", "split_member", b"<!doctype html>"),
    ("01_warc/solrwayback/transfer_compression_brotli.warc.gz", None, b"<html>"),
    ("01_warc/solrwayback/transfer_compression_gzip.warc.gz", None, b"<html>"),
    ("01_warc/warcio/example-iana.org-chunked.warc", None, b"<!doctype html>"),
    ("08_robustness/bombs/content_encoding_gzip_200MiB.warc.gz", "inflate_size", b""),
])
def test_real_payloads(path, tag, start):
    source = Source(LocalBlobs(SHARED), path, (SHARED / path).stat().st_size)
    for found in read_records(source):
        if isinstance(found, Loss) or found.get(b"warc-type") != b"response":
            continue
        document = ingest().document(found)
        payload = split_frame(zstandard.ZstdDecompressor().decompress(document.frame))[2]
        assert payload.lstrip()[: len(start)] == start
        assert (tag in document.row["tags"]) or tag is None
        assert len(payload) <= 32 << 20
        return
    pytest.fail("no response")
