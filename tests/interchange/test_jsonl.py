import gzip
import json
import random

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.interchange import jsonl
from gristmill.interchange.jsonl import Document, InterchangeError, from_line, read, to_line, write

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), TEXTS)
DOCS = st.builds(
    Document,
    doc_id=st.text("0123456789abcdef", min_size=1, max_size=32),
    text=TEXTS,
    lang=st.one_of(st.none(), st.sampled_from(["eng", "fra"])),
    lang_conf=st.one_of(st.none(), st.floats(0, 1)),
    provenance_ref=st.one_of(st.none(), st.just("CC-1/0003/ab")),
    extract_meta=st.dictionaries(TEXTS, PLAIN, max_size=3),
    url=st.one_of(st.none(), st.just("https://a.org/\u00e9")),
    fetch_ts=st.one_of(st.none(), st.just("2026-01-02T03:04:05+00:00")),
    other=st.dictionaries(st.sampled_from(["score", "license", "x y"]), PLAIN, max_size=2),
)


@settings(deadline=None)
@given(DOCS, st.sampled_from(jsonl.SHAPES))
def test_round_trips_are_identical_in_every_shape(doc, shape):
    line = to_line(doc, shape)
    assert line.count(b"\n") == 1
    back = from_line(line)
    assert back == doc
    assert to_line(back, shape) == line


def test_the_shapes_are_those_that_the_tools_read():
    doc = Document(
        "ab", "text", "eng", 0.5, "CC-1/0003/ff", {"charset": "utf-8"}, "https://a.org/", "2026-01-02T03:04:05+00:00"
    )
    ours = json.loads(to_line(doc))
    assert list(ours)[:6] == ["doc_id", "text", "lang", "lang_conf", "provenance_ref", "extract_meta"]
    datatrove = json.loads(to_line(doc, "datatrove"))
    assert set(datatrove) == {"text", "id", "metadata"}
    assert datatrove["metadata"]["url"] == "https://a.org/"
    dolma = json.loads(to_line(doc, "dolma"))
    assert set(dolma) == {"id", "text", "source", "added", "created", "metadata"}
    assert (dolma["source"], dolma["created"]) == ("CC-1", "2026-01-02T03:04:05+00:00")


def test_lines_of_other_tools_keep_what_is_not_ours():
    doc = from_line(
        b'{"id": "7", "text": "t", "source": "c4", "added": "2023", "metadata": {"url": "https://b.org/", "warc": "x"}}'
    )
    assert (doc.doc_id, doc.url, doc.other) == ("7", "https://b.org/", {"warc": "x", "source": "c4", "added": "2023"})
    assert from_line(to_line(doc, "dolma")) == doc


def test_files_are_of_the_size_asked_and_the_same_each_time(tmp_path):
    rng = random.Random(1)
    docs = [Document(f"{i:032x}", rng.randbytes(100).hex()) for i in range(3000)]
    files = write(docs, tmp_path / "a", "crawl", file_bytes=60_000)
    again = write(iter(docs), tmp_path / "b", "crawl", file_bytes=60_000)
    assert [f.name for f in files] == [f"crawl-{i:05d}.jsonl.zst" for i in range(len(files))]
    assert len(files) > 3
    assert [f.read_bytes() for f in files] == [f.read_bytes() for f in again]
    assert all(50_000 < f.stat().st_size < 120_000 for f in files[:-1])
    assert list(read(files)) == docs
    assert zstandard.get_frame_parameters(files[0].read_bytes()[:18]).has_checksum


def test_an_export_that_fails_leaves_whole_files_only_and_a_shorter_one_leaves_no_old_ones(tmp_path):
    rng = random.Random(1)
    docs = [Document(f"{i:032x}", rng.randbytes(100).hex()) for i in range(3000)]
    first = write(docs, tmp_path, "x", file_bytes=60_000)
    other = write(docs[:3], tmp_path, "x-y")
    short = write(docs[:1000], tmp_path, "x", file_bytes=60_000)
    assert len(first) > len(short)
    assert sorted(tmp_path.iterdir()) == sorted([*short, *other])

    def broken():
        yield from docs[:700]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(broken(), tmp_path / "new", "x")
    assert list((tmp_path / "new").iterdir()) == []


def test_plain_and_gzip_are_read_too(tmp_path):
    doc = Document("a", "b")
    (tmp_path / "x.jsonl").write_bytes(to_line(doc) + b"\n" + to_line(doc))
    (tmp_path / "y.jsonl.gz").write_bytes(gzip.compress(to_line(doc)))
    assert list(read([tmp_path / "x.jsonl", tmp_path / "y.jsonl.gz"])) == [doc] * 3


def test_bad_lines_are_listed_and_the_rest_is_read(tmp_path):
    good = to_line(Document("a", "b"))
    path = tmp_path / "x.jsonl"
    path.write_bytes(good + b"{oops\n" + b"[1]\n" + b'{"id": "z"}\n' + b"\xff\xfe\n" + good)
    bad: list[jsonl.BadLine] = []
    assert len(list(read([path], bad))) == 2
    assert [b.line for b in bad] == [2, 3, 4, 5]
    with pytest.raises(InterchangeError, match="line 2"):
        list(read([path]))


def test_a_file_that_is_cut_short_is_an_error_and_not_a_shorter_file(tmp_path):
    docs = [Document(f"{i:032x}", f"x{i} " * 50) for i in range(2000)]
    whole = write(docs, tmp_path, "c")[0].read_bytes()
    for at in (len(whole) - 1, len(whole) - 5, len(whole) // 2, 3):
        path = tmp_path / "cut.jsonl.zst"
        path.write_bytes(whole[:at])
        with pytest.raises(InterchangeError):
            list(read([path]))
    two = tmp_path / "two.jsonl.zst"
    two.write_bytes(whole + whole)  # frames end to end are one file
    assert len(list(read([two]))) == 4000
    with pytest.raises(InterchangeError):
        list(read([tmp_path / "none.jsonl.zst"]))


def test_what_json_cannot_say_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        to_line(Document("a", "b", lang_conf=float("nan")))
    with pytest.raises(InterchangeError, match="shape"):
        to_line(Document("a", "b"), "parquet")  # type: ignore[arg-type]
