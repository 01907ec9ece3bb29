"""The demo's WARC files: readers that are not ours agree with what was written."""

import gzip
import io
from datetime import UTC, datetime, timedelta

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import WarcRecordType
from warcio.archiveiterator import ArchiveIterator

from gristmill import identity
from gristmill.demo.warc import Fetch, crawl_files, member, stamp, warc_file, wet_file

START = datetime(2026, 1, 10, tzinfo=UTC)


def fetches(n: int = 20) -> list[Fetch]:
    return [
        Fetch(
            f"f{i}",
            f"https://h{i % 3}.example/p/{i}?q={i}",
            START + timedelta(minutes=i),
            f"<p>Page {i} – été</p>".encode() * (i + 1),
        )
        for i in range(n)
    ]


def test_two_readers_read_every_record_with_right_digests():
    files, places = crawl_files("CC-DEMO-T", fetches(), 2, 3, START)
    found = {}
    for name, data in files.items():
        if not name.endswith(".warc.gz"):
            continue
        for record in ArchiveIterator(io.BytesIO(data), check_digests="raise"):
            if record.rec_type == "response":
                found[record.rec_headers.get_header("WARC-Target-URI")] = record.content_stream().read()
                assert record.http_headers.get_statuscode() == "200"
        kinds = [r.record_type for r in FastIterator(io.BytesIO(data))]
        assert kinds[0] == WarcRecordType.warcinfo
        assert kinds[1:4] == [WarcRecordType.request, WarcRecordType.response, WarcRecordType.metadata]
    assert found == {f.url: f.body for f in fetches()}
    assert set(places) == {f.name for f in fetches()}


def test_the_layout_is_common_crawls():
    files, _ = crawl_files("CC-DEMO-T", fetches(), 2, 3, START)
    listed = gzip.decompress(files["crawl-data/CC-DEMO-T/warc.paths.gz"]).decode().split()
    assert listed == [n for n in files if n.endswith(".warc.gz")]
    assert all(n.startswith("crawl-data/CC-DEMO-T/segments/") and "/warc/" in n for n in listed)


def test_bytes_hold_no_time_of_making():
    assert crawl_files("CC-DEMO-T", fetches(), 2, 3, START) == crawl_files("CC-DEMO-T", fetches(), 2, 3, START)
    packed = member(b"x" * 100)
    assert packed[4:8] == b"\0\0\0\0"
    assert gzip.decompress(packed) == b"x" * 100


def test_each_record_is_a_member_of_its_own():
    data = warc_file("a/b.warc.gz", "T", fetches(3))
    assert data.count(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03") == 1 + 3 * 3


def test_a_revisit_carries_no_body_and_the_digest_of_what_it_repeats():
    first = fetches(1)[0]
    again = Fetch(
        "again",
        first.url,
        first.time + timedelta(days=1),
        first.body,
        kind="revisit",
        refers_to=(first.url, first.time),
    )
    records = list(ArchiveIterator(io.BytesIO(warc_file("a/b.warc.gz", "T", [first, again]))))
    original = next(r for r in records if r.rec_type == "response")
    revisit = next(r for r in records if r.rec_type == "revisit")
    field = "WARC-Payload-Digest"
    assert revisit.rec_headers.get_header(field) == original.rec_headers.get_header(field)
    assert revisit.rec_headers.get_header("WARC-Refers-To-Date") == stamp(first.time)


def test_damage_spoils_one_member_only():
    whole = fetches(5)
    bad = Fetch("bad", "https://h.example/bad", START, b"<p>lost</p>" * 50, damaged=True)
    data = warc_file("a/b.warc.gz", "T", [*whole[:2], bad, *whole[2:]])
    with pytest.raises((OSError, EOFError)):
        gzip.decompress(data)
    starts = [i for i in range(len(data)) if data.startswith(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", i)]
    readable = 0
    for start, end in zip(starts, [*starts[1:], len(data)]):
        try:
            gzip.decompress(data[start:end])
            readable += 1
        except Exception:  # zlib's and gzip's errors have no common base but this
            continue
    assert readable == len(starts) - 1


def test_the_truths_record_id_is_the_pipelines():
    import hashlib

    for fetch in fetches(3):
        ours = identity.record_id(fetch.url.encode(), fetch.time, hashlib.sha1(fetch.body).digest())
        assert ours.hex() == fetch.record_id


def test_a_wet_file_holds_conversions():
    first = fetches(1)[0]
    data = wet_file("x/wet/a.warc.wet.gz", "T", first, "Only text.")
    assert [r.rec_type for r in ArchiveIterator(io.BytesIO(data))] == ["warcinfo", "conversion"]
