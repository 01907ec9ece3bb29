"""The HTTP message inside a record: status, headers, and its body with transfer and content coding taken off.

Belongs here: RFC 9112 messages as servers really send them, and inflating within bounds. Does not belong here: WARC
(``warc.py``), character sets (``extract/``). Every deviation is a tag; nothing raises on what a server sent.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import brotli
import zstandard

from gristmill.acquire.members import ZSTD_MAGIC, DamageError, zstd_frame_end

STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?:[ \t]|\r|\n|$)")
_INTERIM = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+1(?!01)\d\d(?:[ \t]|\r|\n)")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r*\n")
_HEAD_END = re.compile(rb"\n\r*\n")
MAX_HEAD = 1 << 20
RATIO_FLOOR = 1 << 20  # a ratio means nothing below this many bytes of output
STEP = 64 << 10

Headers = list[tuple[bytes, bytes]]
Tags = set[str]


@dataclass
class Message:
    """One HTTP response.

    Attributes:
        status: 0 where the status line is not one.
        line: the status line as sent, without its line end.
        headers: (name as sent, value), in order.
        body: as sent.
        tags: what was wrong.
    """

    status: int
    line: bytes
    headers: Headers
    body: bytes
    tags: Tags

    def all(self, name: bytes) -> list[bytes]:
        """Values of a header, by lower-case name."""
        return [v for n, v in self.headers if n.lower() == name]

    def last(self, name: bytes) -> bytes | None:
        """The last non-empty value, as browsers take it for Content-Type, or None."""
        return next((v for v in reversed(self.all(name)) if v), None)


def parse(block: bytes) -> Message | None:
    """The response in a record's content, or None when it does not begin with a status line.

    Line ends may be LF or any number of CR and an LF; folded headers are joined; a head that never ends is all head.
    """
    tags: Tags = set()
    # 100 Continue, 103 Early Hints: the answer follows (RFC 9110 section 15.2).
    start = 0
    while _INTERIM.match(block, start) and (after := _HEAD_END.search(block, start, start + MAX_HEAD)) and (
            STATUS.match(block, after.end())):
        start = after.end()
        tags.add("interim_response")
    block = block[start:]
    match = STATUS.match(block)
    if match is None:
        return None
    end = _HEAD_END.search(block, 0, MAX_HEAD)
    if end is None:
        tags.add("http_head_unended")
        head, body = block, b""
    else:
        head, body = block[: end.start()], block[end.end() :]
    first, *lines = [line.rstrip(b"\r") for line in head.split(b"\n")]
    headers: Headers = []
    for line in lines:
        if line[:1] in (b" ", b"\t") and headers:
            headers[-1] = (headers[-1][0], (headers[-1][1] + b" " + line.strip()).strip())
            continue
        name, colon, value = line.partition(b":")
        if colon and name.strip():
            headers.append((name.strip(), value.strip()))
        elif line.strip():
            tags.add("bad_http_header")
    names = [n.lower() for n, _ in headers]
    if any(names.count(n) > 1 for n in (b"content-type", b"content-length", b"content-encoding", b"transfer-encoding")):
        tags.add("duplicate_http_header")
    return Message(int(match[1]), first, headers, body, tags)


def unchunk(body: bytes) -> tuple[bytes, Tags]:
    """The body with chunked transfer coding taken off (RFC 9112 section 7.1).

    A body that says so and is not chunked is left alone; one that stops being chunked keeps what was decoded and gets
    the rest as it is; one that ends early keeps what there is. Each with its tag.
    """
    parts: list[bytes] = []
    at = 0
    while True:
        match = _CHUNK_SIZE.match(body, at)
        if match is None:
            rest = body[at:]
            if not parts and rest:
                return body, {"not_chunked"}
            if not rest.strip(b"\r\n"):
                return b"".join(parts), {"chunked_cut"}  # ends where a chunk should begin
            return b"".join([*parts, rest]), {"chunked_broken"}
        size = int(match[1], 16)
        if size == 0:
            return b"".join(parts), set()
        start = match.end()
        parts.append(body[start : start + size])
        at = start + size
        if at >= len(body):
            return b"".join(parts), {"chunked_cut"}
        if body.startswith(b"\r\n", at):
            at += 2
        elif body.startswith(b"\n", at):
            at += 1


class _Bound:
    """How far inflating may go: a size, and a ratio to what came in."""

    def __init__(self, size: int, ratio: int, given: int) -> None:
        by_ratio = max(ratio * given, RATIO_FLOOR)
        self.limit = min(size, by_ratio)
        self.tag = "inflate_size" if size <= by_ratio else "inflate_ratio"


def content_decode(body: bytes, codings: list[bytes], *, max_bytes: int,
                   max_ratio: int) -> tuple[bytes, list[str], Tags]:
    """The body with its content codings taken off, last applied first (RFC 9110 section 8.4).

    Args:
        body: transfer-decoded.
        codings: values of Content-Encoding in order; each may list several.
        max_bytes: output is cut there and tagged ``inflate_size``.
        max_ratio: bytes out for a byte of ``body``, over all codings together; cut and tagged ``inflate_ratio``.

    Returns:
        (bytes, names of the codings taken off, tags). A coding that does not fit the bytes is left on, and ends it.
    """
    names = [n.strip().lower() for value in codings for n in value.split(b",") if n.strip()]
    bound = _Bound(max_bytes, max_ratio, len(body))
    done: list[str] = []
    tags: Tags = set()
    for raw in reversed(names):
        name = raw.decode("ascii", "replace")
        if name in ("identity", "none"):
            continue
        inflate = _INFLATERS.get(name)
        if inflate is None:
            tags.add("encoding_unknown")
            break
        if not body:
            break
        out = inflate(body, bound)
        if out is None:
            tags.add("encoding_wrong")
            break
        body, more = out
        tags |= more
        done.append(name)
    return body, done, tags


def sniff(body: bytes) -> str | None:
    """The coding that a body's first bytes show, or None. Text never begins like gzip or zstd, hardly like zlib."""
    if body[:3] == b"\x1f\x8b\x08":
        return "gzip"
    if body[:4] == ZSTD_MAGIC:
        return "zstd"
    return "deflate" if body[:2] in (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda") else None


Inflated = tuple[bytes, Tags] | None


def _collect(step: Callable[[int], bytes], bound: _Bound, errors: tuple[type[Exception], ...],
             ended: Callable[[], bool]) -> Inflated:
    """Call ``step(limit)`` until it gives nothing; None when it fails before giving anything."""
    parts: list[bytes] = []
    size = 0
    tags: Tags = set()
    try:
        while size <= bound.limit:
            out = step(min(STEP, bound.limit + 1 - size))
            if not out:
                break
            parts.append(out)
            size += len(out)
    except errors:
        if not parts:
            return None
        tags.add("encoding_broken")
    else:
        if size <= bound.limit and not ended():
            if not parts:
                return None
            tags.add("encoding_cut")
    data = b"".join(parts)
    if size > bound.limit:
        return data[: bound.limit], {bound.tag}
    return data, tags


def _zlib(body: bytes, bound: _Bound, bits: int) -> Inflated:
    inflate = zlib.decompressobj(bits)
    pending = body

    def step(limit: int) -> bytes:
        nonlocal inflate, pending
        while True:
            out = inflate.decompress(pending, limit)
            pending = inflate.unconsumed_tail
            if inflate.eof and bits == 31 and inflate.unused_data[:2] == b"\x1f\x8b":
                pending = inflate.unused_data  # several members, as RFC 1952 allows
                inflate = zlib.decompressobj(bits)
                if not out:
                    continue
            return out

    return _collect(step, bound, (zlib.error,), lambda: inflate.eof)


def _gzip(body: bytes, bound: _Bound) -> Inflated:
    return _zlib(body, bound, 31) if body[:2] == b"\x1f\x8b" else None


def _believable(body: bytes, out: Inflated) -> Inflated:
    """Formats without a magic number decode a few bytes out of anything; what fails must at least have grown."""
    if out is not None and out[1] & {"encoding_broken", "encoding_cut"} and len(out[0]) <= len(body):
        return None
    return out


def _deflate(body: bytes, bound: _Bound) -> Inflated:
    """Zlib wrapped as the RFC says, or raw as many servers do."""
    first = _zlib(body, bound, 15)
    return _believable(body, _zlib(body, bound, -15)) if first is None else first


def _brotli(body: bytes, bound: _Bound) -> Inflated:
    out = _brotli_fed(body, bound, len(body))
    if out is None or "encoding_broken" in out[1]:
        # The decoder gives nothing of the piece that it fails in, be it only by what follows the end: smaller pieces.
        again = _brotli_fed(body, bound, max(len(body) >> 20, 1))
        out = out if again is None else again
    return _believable(body, out)


def _brotli_fed(body: bytes, bound: _Bound, piece: int) -> Inflated:
    inflate = brotli.Decompressor()
    at, pending = 0, False

    def step(limit: int) -> bytes:
        nonlocal at, pending
        while not inflate.is_finished():
            # It takes more before it has given all that is due, and then fails without giving it.
            fed = body[at : at + piece] if not pending and inflate.can_accept_more_data() else b""
            at += len(fed)
            out: bytes = inflate.process(fed, output_buffer_limit=limit)
            stuck, pending = not fed and not pending, bool(out)
            if out or stuck:
                return out
        return b""

    return _collect(step, bound, (brotli.error,), inflate.is_finished)


def _zstd(body: bytes, bound: _Bound) -> Inflated:
    if body[:4] != ZSTD_MAGIC:
        return None
    inflater = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    at, whole = 0, True
    reader: zstandard.ZstdDecompressionReader | None = None

    def step(limit: int) -> bytes:
        nonlocal at, whole, reader
        while True:
            if reader is None:
                if body[at : at + 4] != ZSTD_MAGIC:
                    return b""  # the end, or what some servers send after it
                try:
                    stop = zstd_frame_end(_Held(body), at)
                except DamageError:
                    stop, whole = len(body), False
                # A frame at a time: a reader over all gives nothing of the frame before one that it fails in.
                reader, at = inflater.stream_reader(body[at:stop], read_size=STEP), stop
            out: bytes = reader.read(limit)
            if out:
                return out
            reader = None

    return _collect(step, bound, (zstandard.ZstdError,), lambda: whole)


class _Held:
    """A body as a place to read from."""

    def __init__(self, body: bytes) -> None:
        self._body, self.size = body, len(body)

    def read(self, offset: int, length: int) -> bytes:
        return self._body[offset : offset + length]


_INFLATERS: dict[str, Callable[[bytes, _Bound], Inflated]] = {
    "gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate, "br": _brotli, "zstd": _zstd,
}


def media_type(value: bytes | None) -> tuple[str, str | None]:
    """(media type in lower case, charset parameter in lower case or None) of a Content-Type; ("", None) without one."""
    if not value:
        return "", None
    text = value.decode("latin-1")
    kind, *parameters = text.split(";")
    charset = None
    for parameter in parameters:
        name, _, given = parameter.partition("=")
        if name.strip().lower() == "charset" and given.strip():
            charset = charset or given.strip().strip("\"'").lower()
    return kind.split(",")[0].strip().lower(), charset or None
