"""Reading a WARC or ARC file, also a damaged one: what can be read is read, what is lost is listed.

Belongs here: records of compressed files, and resynchronisation after damage. Does not belong here: the fast way
through what is undamaged (``fast.py``), compression (``members.py``), heads (``heads.py``), uncompressed files
(``plain.py``), the HTTP message inside (``http.py``). Memory is bounded by ``max_record_bytes`` and a few blocks,
whatever the file's size.
"""

from collections.abc import Generator, Iterator

from gristmill.acquire.fast import fast_records
from gristmill.acquire.heads import (
    BLANK,
    HEAD_END,
    MAX_HEAD,
    Headers,
    Loss,
    RawRecord,
    content_length,
    digest_fits,
    is_whole,
    parse_arc_line,
    parse_head,
)
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
from gristmill.acquire.plain import plain_records
from gristmill.acquire.source import Source

MAX_DRAIN = 4 << 30  # bytes of one record inflated only to find its end; beyond this the next member is searched for
PIECE = 256 << 10  # decoded bytes asked for at a time
ORDINARY = 8  # records the fast way must give to be tried again at once
MAX_WAIT = 64  # members read the other way before it is tried again


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

    def skip_blank(self) -> bytes:
        """Pass CR and LF, and give them."""
        passed = b""
        while True:
            rest = self._buffer.lstrip(BLANK)
            passed += self._buffer[: len(self._buffer) - len(rest)]
            self._buffer = rest
            if rest or not self._more():
                return passed
            if len(passed) > MAX_HEAD:
                raise DamageError(f"over {len(passed)} blank bytes between records")

    @property
    def at_end(self) -> bool:
        """Nothing is left, and the member's end was verified."""
        return not self._buffer and not self._more()

    def head(self) -> tuple[Headers, set[str]] | None:
        """The record head here, passed; None (and nothing passed) when there is none."""
        while len(self._buffer) < 12 and self._more():
            pass
        if self._buffer[:5] == b"WARC/":
            while (end := HEAD_END.search(self._buffer)) is None:
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

    def back(self, data: bytes) -> None:
        """Put bytes that were passed in front again."""
        self._buffer = data + self._buffer

    def seek_head(self, cap: int = 0) -> tuple[bytes, int, bool]:
        """Pass everything before the next whole head of a WARC record, as of a plain file.

        After a cut it need not begin a line.

        Returns:
            (what was passed, up to ``cap``, how many bytes that were, is there such a head before the member's end).
        """
        parts: list[bytes] = []
        kept = passed = at = 0
        there = False
        while not there:
            at = self._buffer.find(b"WARC/", at)
            if at >= 0:
                there = self._whole_head(at)
                if not there:
                    at += 1
                    continue
            else:
                at = max(len(self._buffer) - 4, 0)
            ended = not there and not self._more()
            at = len(self._buffer) if ended else at
            passed += at
            if kept < cap:
                parts.append(self._buffer[: min(at, cap - kept)])
                kept += len(parts[-1])
            self._buffer, at = self._buffer[at:], 0
            if ended:
                break
        return b"".join(parts), passed, there

    def _whole_head(self, at: int) -> bool:
        while len(self._buffer) < at + 12 and self._more():
            pass
        if not WARC_START.match(self._buffer, at):
            return False
        while (end := HEAD_END.search(self._buffer, at)) is None:
            if len(self._buffer) - at > MAX_HEAD or not self._more():
                return False
        parsed = parse_head(self._buffer[at : end.start()])
        return parsed is not None and is_whole(parsed)


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
            yield from plain_records(source, max_record_bytes)
        return
    at = codec.skip(0) if start == 0 else next_member(codec, start)
    wait = penalty = 0
    while at < end:
        if codec.name == "gzip" and not wait:
            at, read = yield from _counted(fast_records(source, at, end, max_record_bytes))
            # Where little is ordinary, trying costs more than it saves: try ever less often.
            wait = penalty = 0 if read >= ORDINARY else min(2 * penalty + 1, MAX_WAIT)
            if at >= end:
                return
        wait = max(wait - 1, 0)
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


def _counted(records: Generator[RawRecord, None, int]) -> Generator[RawRecord, None, tuple[int, int]]:
    count = 0
    while True:
        try:
            record = next(records)
        except StopIteration as stop:
            return int(stop.value), count
        count += 1
        yield record


def _member_records(stream: _Stream, offset: int, cap: int) -> Iterator[RawRecord | Loss]:
    """Records of one member. The last is held back until the member's end, with its checksum, has been read."""
    held: RawRecord | None = None
    several = False
    while True:
        blank = stream.skip_blank()
        ended = stream.at_end
        found = None if ended else stream.head()
        if found is None:
            doubtful = held is not None and _doubtful(held, several, ended)
            if ended and not doubtful:
                break
            inside = 0
            if held is not None and doubtful:
                # A wrong Content-Length may have made the next record a part of this one.
                inside = len(held.block)
                stream.back(held.block + blank)
            _, passed, there = stream.seek_head()
            if there:
                if held is not None and passed >= inside:
                    yield held
                held, several = None, True
                yield Loss(offset, 0, "a record inside a member of several has no readable head, or a wrong length")
                continue
            if held is None and not several:
                raise DamageError("no WARC or ARC record in the member")
            if held is None:
                yield Loss(offset, 0, "no record at the end of a member of several")
            elif not ended:
                held.tags.add("trailing_data")
            break
        if held is not None:
            if not blank:
                held.tags.add("missing_blank_lines")
            several = True
            yield held
        held = _record(stream, found, offset, cap, several)
    if held is not None:
        held.length = stream.end - offset
        yield held


def _record(stream: _Stream, head: tuple[Headers, set[str]], offset: int, cap: int, several: bool) -> RawRecord:
    headers, tags = head
    length = content_length(headers)
    if length is None and several:  # all that is left may be other records
        block, size, _ = stream.seek_head(cap)
    else:
        block, size = stream.take(length, cap)
    if length is None and size == len(block) and block.endswith(BLANK + BLANK):
        block, size = block[:-4], size - 4  # the record's end, no part of what it holds
    tags = set(tags)
    if length is None:
        tags.add("nocontent_length")
    elif size < length:
        tags.add("short_block")
    if size > len(block):
        tags.add("record_cut")
    if stream.joined:
        tags.add("split_member")
    return RawRecord(offset, 0, headers, block, size, tags)


def _doubtful(record: RawRecord, several: bool, ended: bool) -> bool:
    """May a record that is not followed by another hold the next one's head.

    Not in a member of its own, where a page may show what looks like a head.
    """
    length = content_length(record.headers)
    if not several or length is None or record.size != len(record.block) or (ended and record.size == length):
        return False
    return not digest_fits(record.headers, record.block, length)
