"""HTTP messages as servers send them: what can be decoded is, what cannot is left and tagged, nothing raises."""

import gzip
import random
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gristmill.acquire import http

BODY = ("<html><body>" + "".join(f"<p>Paragraph {i} of the page.</p>" for i in range(200)) + "</body></html>").encode()


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODERS = {
    "gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def decode(body, *codings, max_bytes=1 << 24, max_ratio=1000):
    return http.content_decode(body, [c.encode() for c in codings], max_bytes=max_bytes, max_ratio=max_ratio)


@pytest.mark.parametrize("coding", CODERS)
def test_each_coding(coding):
    assert decode(CODERS[coding](BODY), coding) == (BODY, [coding], set())
    assert decode(CODERS[coding](BODY), coding.upper())[0] == BODY


def test_deflate_without_its_zlib_wrapper():
    assert decode(raw_deflate(BODY), "deflate") == (BODY, ["deflate"], set())


def test_several_codings_come_off_in_reverse():
    twice = brotli.compress(gzip.compress(BODY))
    assert decode(twice, "gzip, br") == (BODY, ["br", "gzip"], set())
    assert decode(twice, "gzip", "br") == (BODY, ["br", "gzip"], set())
    assert decode(gzip.compress(gzip.compress(BODY)), "gzip,gzip")[0] == BODY
    assert decode(gzip.compress(BODY), "identity, gzip, none")[0] == BODY


def test_gzip_of_several_members():
    assert decode(gzip.compress(BODY) + gzip.compress(b"more"), "gzip")[0] == BODY + b"more"


@pytest.mark.parametrize("coding", CODERS)
def test_a_wrong_coding_is_left_on(coding):
    assert decode(BODY, coding) == (BODY, [], {"encoding_wrong"})


@pytest.mark.parametrize("coding", CODERS)
def test_a_cut_body_gives_what_there_is(coding):
    big = bytes(range(256)) * 40 + BODY * 20
    packed = CODERS[coding](big)
    data, done, tags = decode(packed[: len(packed) - 9], coding)
    assert done == [coding]
    assert tags == {"encoding_cut"}
    assert big.startswith(data)
    if coding != "zstd":  # which gives whole blocks only
        assert len(data) > 1000


def test_bytes_broken_in_the_middle():
    packed = bytearray(zlib.compress(bytes(range(256)) * 4000, 1))
    packed[len(packed) // 2] ^= 0xFF
    data, done, tags = decode(bytes(packed), "deflate")
    assert done == ["deflate"]
    assert tags == {"encoding_broken"}
    assert data


@given(st.binary(min_size=1, max_size=200), st.sampled_from(["br", "deflate"]))
def test_formats_without_a_magic_number_do_not_eat_plain_bytes(data, coding):
    out, done, tags = decode(b"<html>" + data, coding)
    assert done or (out == b"<html>" + data and tags == {"encoding_wrong"})
    assert not tags & {"encoding_broken", "encoding_cut"} or len(out) > len(data)


@pytest.mark.parametrize("coding", CODERS)
def test_what_is_sent_after_the_end_costs_nothing(coding):
    for body in (BODY, random.Random(1).randbytes(200_000) + BODY * 200):
        assert decode(CODERS[coding](body) + b"\r\n<!-- 0.2 s -->", coding)[:2] == (body, [coding])


def test_brotli_that_breaks_gives_what_came_before():
    big = b"".join(b"%d, " % (i * i) for i in range(40_000))
    packed = bytearray(brotli.compress(big, quality=1))
    packed[len(packed) // 2 :] = bytes(len(packed) // 2)
    data, done, tags = decode(bytes(packed), "br")
    assert done == ["br"]
    assert tags & {"encoding_broken", "encoding_cut"}
    assert data[: len(big) // 3] == big[: len(big) // 3]


def test_zstd_of_several_frames_the_last_cut():
    frame = CODERS["zstd"](BODY)
    assert decode(frame + frame, "zstd") == (BODY + BODY, ["zstd"], set())
    assert decode(frame + frame[:-3], "zstd") == (BODY, ["zstd"], {"encoding_cut"})


@pytest.mark.parametrize("interim", [
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    b"HTTP/1.1 100\r\n\r\n" * 5000])
def test_an_interim_response_is_not_the_answer(interim):
    message = http.parse(interim + b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody")
    assert (message.status, message.body, message.tags) == (200, b"body", {"interim_response"})
    assert http.parse(interim).status in (100, 103)


def test_an_unknown_coding_ends_it():
    assert decode(BODY, "gzip, sdch") == (BODY, [], {"encoding_unknown"})


@pytest.mark.parametrize("coding", CODERS)
def test_bombs_cost_no_more_than_the_cap(coding):
    bomb = CODERS[coding](b"\x00" * (20 << 20))
    tracemalloc.start()
    data, _, tags = decode(bomb, coding, max_bytes=4 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data) <= 4 << 20
    assert len(tags & {"inflate_size", "inflate_ratio"}) == 1
    assert peak < 13 << 20  # the pieces, the whole, and the cut whole


def test_ratio_counts_over_all_codings():
    packed = gzip.compress(gzip.compress(b"\x00" * (64 << 20)))
    data, _, tags = decode(packed, "gzip, gzip", max_bytes=1 << 30, max_ratio=1000)
    assert tags == {"inflate_ratio"}
    assert len(data) == max(1000 * len(packed), 1 << 20)


def test_a_small_page_may_have_any_ratio():
    packed = brotli.compress(b"a" * 500_000)
    assert decode(packed, "br", max_ratio=10) == (b"a" * 500_000, ["br"], set())


def chunk(data: bytes, size: int, end: bytes = b"\r\n") -> bytes:
    parts = [data[i : i + size] for i in range(0, len(data), size)]
    return b"".join(b"%x%s%s%s" % (len(p), end, p, end) for p in parts) + b"0" + end + end


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@given(st.binary(min_size=1, max_size=300), st.integers(1, 100))
def test_chunks_come_off(end, data, size):
    assert http.unchunk(chunk(data, size, end)) == (data, set())


def test_chunk_extensions_and_trailers():
    assert http.unchunk(b'5;name="v"\r\nhello\r\n0\r\nTrailer: x\r\n\r\n') == (b"hello", set())


def test_a_body_that_says_chunked_and_is_not():
    assert http.unchunk(BODY) == (BODY, {"not_chunked"})


def test_chunks_that_break_off_keep_everything():
    good = chunk(BODY, 1000)
    at = good.index(b"3e8", 10)
    assert http.unchunk(good[: at + 200]) == (BODY[: 1000 + 200 - 5], {"chunked_cut"})
    assert http.unchunk(good[:at]) == (BODY[:1000], {"chunked_cut"})
    data, tags = http.unchunk(good[:at] + b"zz not a size\r\nrest")
    assert tags == {"chunked_broken"}
    assert data == BODY[:1000] + b"zz not a size\r\nrest"


def test_a_message():
    found = http.parse(b"HTTP/1.1 404 Not Found\r\nA: 1\r\nContent-Type: text/html;\r\n charset=x\r\na: 2\r\n\r\nbody")
    assert (found.status, found.body, found.tags) == (404, b"body", set())
    assert found.all(b"a") == [b"1", b"2"]
    assert http.media_type(found.last(b"content-type")) == ("text/html", "x")


@pytest.mark.parametrize(("raw", "status", "body", "tags"), [
    (b"HTTP/1.1 200\r\n\r\nx", 200, b"x", set()),
    (b"HTTP/2 200\r\n\r\nx", 200, b"x", set()),
    (b"HTTP/1.0 302 \r\r\nLocation: /\r\r\n\r\r\nx", 302, b"x", set()),
    (b"HTTP/1.1 200 OK\nA: 1\n\nx", 200, b"x", set()),
    (b"HTTP/1.1 200 OK\r\nA: 1", 200, b"", {"http_head_unended"}),
    (b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\nx", 200, b"x", {"bad_http_header"}),
    (b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n\r\n", 200, b"", {"duplicate_http_header"}),
    (b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n\r\n\r\n", 200, b"\r\n\r\n", set()),
])
def test_messages_with_faults(raw, status, body, tags):
    found = http.parse(raw)
    assert (found.status, found.body, found.tags) == (status, body, tags)


def test_what_is_no_response():
    assert http.parse(b"<html>HTTP/1.1 200 OK") is None
    assert http.parse(b"") is None


def test_of_two_content_types_the_last_that_says_something_counts():
    found = http.parse(b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Type: text/html\r\nContent-Type:\r\n\r\n")
    assert found.last(b"content-type") == b"text/html"


@pytest.mark.parametrize(("value", "expected"), [
    (b"Text/HTML; Charset=\"UTF-8\"", ("text/html", "utf-8")),
    (b"text/html;charset=;charset=x", ("text/html", "x")),
    (b"text/html, text/html", ("text/html", None)),
    (b"text/html;", ("text/html", None)),
    (b"", ("", None)), (None, ("", None)),
])
def test_media_types(value, expected):
    assert http.media_type(value) == expected


@given(st.binary(max_size=400), st.lists(st.sampled_from([*CODERS, "x", "identity"]), max_size=3))
def test_nothing_raises_on_what_was_sent(data, codings):
    http.parse(b"HTTP/1.1 200 OK\r\n" + data)
    http.unchunk(data)
    decode(data, *codings)
