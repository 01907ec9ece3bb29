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

STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})(?:[ \t]|\r|\n|$)")
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
    match = STATUS.match(block)
    if match is None:
        return None
    tags: Tags = set()
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
    inflate = brotli.Decompressor()
    pending = body

    def step(limit: int) -> bytes:
        nonlocal pending
        if inflate.is_finished():
            return b""
        out: bytes = inflate.process(pending, output_buffer_limit=limit)
        pending = b""
        return out

    return _believable(body, _collect(step, bound, (brotli.error,), inflate.is_finished))


def _zstd(body: bytes, bound: _Bound) -> Inflated:
    if body[:4] != b"\x28\xb5\x2f\xfd":
        return None
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(body, read_across_frames=True)
    probe = zstandard.ZstdDecompressor(max_window_size=1 << 27)

    def ended() -> bool:
        # stream_reader does not tell a cut frame from a finished one; the frame's own size or a second pass does.
        sink = probe.decompressobj()
        try:
            sink.decompress(body)
        except zstandard.ZstdError:
            return False
        return sink.eof

    return _collect(reader.read, bound, (zstandard.ZstdError,), ended)


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
