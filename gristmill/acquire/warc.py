"""Records of WARC and ARC files, also of damaged ones: what can be read is read, what is lost is listed.

Belongs here: record heads, the walk from record to record, and resynchronisation after damage (ISO 28500, and the ARC 1
format of crawls before 2013). Does not belong here: compression (``members.py``) and the HTTP message inside
(``http.py``). Memory is bounded by ``max_record_bytes`` and a few blocks, whatever the file's size.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gristmill.acquire import digests
from gristmill.acquire.members import (
    ARC_START,
    WARC_START,
    Codec,
    DamageError,
    begins_record,
    codec_of,
    count_members,
    next_member,
)
from gristmill.acquire.source import Source

MAX_HEAD = 64 << 10  # bytes of one record head; more is damage
MAX_DRAIN = 4 << 30  # bytes of one record inflated only to find its end; beyond this the next member is searched for
PIECE = 256 << 10  # decoded bytes asked for at a time
_BLANK = b"\r\n"
_HEAD_END = re.compile(rb"\n\r*\n")
_ARC_LINE = re.compile(rb"(?P<url>\S.*?) (?P<ip>\S+) (?P<date>\d{14}) (?P<rest>.*?)(?P<length>\d+)$", re.DOTALL)

Headers = list[tuple[bytes, bytes]]


@dataclass
class RawRecord:
    """One record as the file has it.

    Attributes:
        offset: of its member in the file (of the record itself in a plain file).
        length: bytes of the member there; 0 where the next record shares the member.
        headers: (name in lower case, value), in order.
        block: content, at most ``max_record_bytes``.
        size: bytes of the whole content.
        tags: what was wrong.
    """

    offset: int
    length: int
    headers: Headers
    block: bytes
    size: int
    tags: set[str] = field(default_factory=set)

    def get(self, name: bytes) -> bytes | None:
        """First value of a header (lower case), or None."""
        return next((v for n, v in self.headers if n == name), None)


@dataclass(frozen=True)
class Loss:
    """A stretch of the file that held records and could not be read.

    Attributes:
        offset: where it begins in the file.
        length: bytes; 0 where it lies inside a member of several records.
        detail: what is wrong.
        members: how many members (records of a plain file) seem to have begun in it, at least 1.
    """

    offset: int
    length: int
    detail: str
    members: int = 1


def parse_head(raw: bytes) -> tuple[Headers, set[str]] | None:
    """Headers of a WARC record head (without its blank line), or None when it is not one."""
    if not WARC_START.match(raw + b"\n"):
        return None
    lines = raw.lstrip(_BLANK).split(b"\n")[1:]
    headers: Headers = []
    tags: set[str] = set()
    for line in lines:
        line = line.rstrip(b"\r")
        if line[:1] in (b" ", b"\t") and headers:
            headers[-1] = (headers[-1][0], headers[-1][1] + b" " + line.strip())
            continue
        name, colon, value = line.partition(b":")
        if not colon:
            if line.strip():
                tags.add("bad_header_line")
            continue
        headers.append((name.strip().lower(), value.strip()))
    if len({n for n, _ in headers if n not in (b"warc-concurrent-to", b"warc-protocol")}) < len(
        [n for n, _ in headers if n not in (b"warc-concurrent-to", b"warc-protocol")]
    ):
        tags.add("duplicate_header")
    return headers, tags


def parse_arc_line(line: bytes) -> Headers | None:
    """An ARC record's head (``URL IP date type length``) as the WARC headers that say the same, or None."""
    match = _ARC_LINE.fullmatch(line.strip(_BLANK))
    if match is None:
        return None
    kind = b"warcinfo" if match["url"].startswith(b"filedesc:") else b"response"
    d = match["date"]
    date = b"%s-%s-%sT%s:%s:%sZ" % (d[:4], d[4:6], d[6:8], d[8:10], d[10:12], d[12:14])
    media = match["rest"].split(b" ")[0] or b"application/octet-stream"
    return [
        (b"warc-type", kind), (b"warc-target-uri", match["url"]), (b"warc-date", date), (b"content-type", media),
        (b"content-length", match["length"]), (b"warc-ip-address", match["ip"]),
    ]


def _content_length(headers: Headers) -> int | None:
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 19 else None
    return None


class _Stream:
    """Decoded bytes of a member with a little look-ahead."""

    def __init__(self, codec: Codec, offset: int) -> None:
        self.member = codec.open(offset)
        self.joined = False
        self._codec = codec
        self._buffer = b""

    def _more(self) -> bool:
        data = self.member.read(4096)  # a head is about 600 bytes
        self._buffer += data
        return bool(data)

    def _join(self) -> bool:
        """Go on in the next member when it continues this one's record (some writers cut members anywhere)."""
        after = self._codec.skip(self.end)
        if self._codec.source.read(after, len(self._codec.magic)) != self._codec.magic or begins_record(
            self._codec, after
        ):
            return False
        self.member = self._codec.open(after)
        self.joined = True
        return True

    @property
    def end(self) -> int:
        """Offset after the member. Raises DamageError when it has no verified end."""
        if self.member.end is None:
            raise DamageError("the member has no end")
        return self.member.end

    def skip_blank(self) -> int:
        """Pass CR and LF; how many there were."""
        count = 0
        while True:
            rest = self._buffer.lstrip(_BLANK)
            count += len(self._buffer) - len(rest)
            self._buffer = rest
            if rest or not self._more():
                return count
            if count > MAX_HEAD:
                raise DamageError(f"over {count} blank bytes between records")

    @property
    def at_end(self) -> bool:
        """Nothing is left, and the member's end was verified."""
        return not self._buffer and not self._more()

    def head(self) -> tuple[Headers, set[str]] | None:
        """The record head here, passed; None (and nothing passed) when there is none."""
        while len(self._buffer) < 12 and self._more():
            pass
        if self._buffer[:5] == b"WARC/":
            while (end := _HEAD_END.search(self._buffer)) is None:
                if len(self._buffer) > MAX_HEAD or not self._more():
                    return None
            parsed = parse_head(self._buffer[: end.start()])
            if parsed is not None:
                self._buffer = self._buffer[end.end() :]
            return parsed
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_HEAD or not self._more():
                return None
        line, _, rest = self._buffer.partition(b"\n")
        if not ARC_START.match(line + b"\n"):
            return None
        headers = parse_arc_line(line)
        if headers is None:
            return None
        self._buffer = rest
        return headers, {"arc"}

    def take(self, length: int | None, cap: int) -> tuple[bytes, int]:
        """(content up to ``cap``, bytes passed) of ``length`` bytes, or of all that is left."""
        parts: list[bytes] = []
        kept = passed = 0
        while length is None or passed < length:
            left = PIECE if length is None else length - passed
            if self._buffer:
                data, self._buffer = self._buffer[:left], self._buffer[left:]
            else:
                data = self.member.read(min(left, PIECE))  # no more than this content: nothing is copied back
            if not data:
                if length is None or not self._join():
                    break
                continue
            passed += len(data)
            if kept < cap:
                parts.append(data[: cap - kept])
                kept += len(parts[-1])
            if passed - kept > MAX_DRAIN:
                raise DamageError(f"over {passed} bytes in one record: given up")
        return b"".join(parts), passed

    def seek_head(self) -> bool:
        """Pass everything before the next line that begins a WARC record; False at the end of the member."""
        while True:
            at = self._buffer.find(b"\nWARC/1.")
            if at >= 0:
                self._buffer = self._buffer[at + 1 :]
                return True
            self._buffer = self._buffer[-8:]
            if not self._more():
                return False


def read_records(source: Source, start: int = 0, end: int | None = None, *,
                 max_record_bytes: int = 128 << 20) -> Iterator[RawRecord | Loss]:
    """Records whose member begins in [start, end) of a file, in file order, and the losses between them.

    A range that begins after 0 starts at the first member that it holds; ranges that follow each other give together
    exactly what the whole file gives. A plain file cannot be cut (a page may hold what looks like a record), so its
    first range has all of it.
    """
    end = source.size if end is None else min(end, source.size)
    codec = codec_of(source)
    if codec is None:
        if start == 0:
            yield from _plain(source, max_record_bytes)
        return
    at = codec.skip(0) if start == 0 else next_member(codec, start)
    while at < end:
        after = source.size
        try:
            stream = _Stream(codec, at)
            yield from _member_records(stream, at, max_record_bytes)
            after = codec.skip(stream.end)
        except DamageError as error:
            # From the next byte on, not from where inflating failed: after a cut the next member begins before that.
            after = next_member(codec, at + 1)
            yield Loss(at, after - at, str(error), count_members(codec, at, after))
        at = after


def _member_records(stream: _Stream, offset: int, cap: int) -> Iterator[RawRecord | Loss]:
    """Records of one member. The last is held back until the member's end, with its checksum, has been read."""
    held: RawRecord | None = None
    while True:
        blank = stream.skip_blank()
        if stream.at_end:
            break
        found = stream.head()
        if found is None:
            if held is None:
                stream.take(None, 0)
                raise DamageError("no WARC or ARC record in the member")
            if stream.seek_head():
                yield held
                held = None
                yield Loss(offset, 0, "a record without a readable head inside a member of several")
                continue
            held.tags.add("trailing_data")
            stream.take(None, 0)
            break
        if held is not None:
            if not blank:
                held.tags.add("missing_blank_lines")
            yield held
        headers, tags = found
        length = _content_length(headers)
        block, size = stream.take(length, cap)
        held = RawRecord(offset, 0, headers, block, size, set(tags))
        if length is None:
            held.tags.add("no_content_length")
        elif size < length:
            held.tags.add("short_block")
        if size > len(block):
            held.tags.add("record_cut")
        if stream.joined:
            held.tags.add("split_member")
    if held is not None:
        held.length = stream.end - offset
        yield held


def _plain_head(source: Source, at: int) -> tuple[Headers, set[str], int] | None:
    """(headers, tags, offset of the content) of the record that begins at ``at`` of a plain file, or None."""
    first = source.read(at, 16)
    if first[:5] == b"WARC/":
        size = 2048
        while True:
            data = source.read(at, size)
            end = _HEAD_END.search(data)
            if end is not None:
                parsed = parse_head(data[: end.start()])
                return None if parsed is None else (*parsed, at + end.end())
            if len(data) < size or size > MAX_HEAD:
                return None
            size *= 4
    line, newline, _ = source.read(at, 9000).partition(b"\n")
    if not newline or not ARC_START.match(line + newline):
        return None
    headers = parse_arc_line(line)
    return None if headers is None else (headers, {"arc"}, at + len(line) + 1)


def _next_plain(source: Source, start: int) -> int:
    """Offset of the next whole record head at or after ``start``; the size at the end.

    After a cut it need not begin a line.
    """
    at = start
    while True:
        at = source.find(b"WARC/", at)
        if at < 0:
            return source.size
        found = _plain_head(source, at)
        if found is not None and {b"warc-type", b"warc-date", b"content-length"} <= {n for n, _ in found[0]}:
            return at
        at += 1


def _plain(source: Source, cap: int) -> Iterator[RawRecord | Loss]:
    """Records of an uncompressed file. Nothing marks a record's end but its length, so what follows it must fit."""
    at = _pass_blank(source, 0)
    while at < source.size:
        found = _plain_head(source, at)
        length = None if found is None else _content_length(found[0])
        if found is None or length is None:
            after = _next_plain(source, at + 1)
            yield Loss(at, after - at, "no readable record head" if found is None else "no Content-Length")
            at = after
            continue
        headers, tags, content = found
        stop = content + length
        after = _pass_blank(source, min(stop, source.size))
        whole = stop <= source.size
        fits = whole and (after >= source.size or _plain_head(source, after) is not None)
        block = source.read(content, min(length, cap))
        if not fits and not (whole and _digest_fits(headers, block, length)):
            # A cut record has swallowed the head of the next one: go back and look for it.
            after = _next_plain(source, content)
            yield Loss(at, after - at, "the record does not end where its Content-Length says")
            at = after
            continue
        record = RawRecord(at, after - at, headers, block, length, set(tags))
        if after == stop and after < source.size:
            record.tags.add("missing_blank_lines")
        if length > len(block):
            record.tags.add("record_cut")
        yield record
        if not fits:
            bad = after
            after = _next_plain(source, bad)
            yield Loss(bad, after - bad, "bytes between records")
        at = after


def _pass_blank(source: Source, at: int) -> int:
    while (data := source.read(at, 64)) and not data.strip(_BLANK):
        at += len(data)
    return at + (len(data) - len(data.lstrip(_BLANK)))


def _digest_fits(headers: Headers, block: bytes, length: int) -> bool:
    recorded = next((v for n, v in headers if n == b"warc-block-digest"), None)
    return len(block) == length and recorded is not None and digests.agrees(recorded, block) is True


def sha1(data: bytes) -> bytes:
    """Raw SHA-1, the WARC format's own digest."""
    return hashlib.sha1(data, usedforsecurity=False).digest()
