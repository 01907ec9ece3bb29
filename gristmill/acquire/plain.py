"""Records of an uncompressed WARC or ARC file.

Belongs here: the walk from record to record by Content-Length, and finding the next head after damage. Does not belong
here: compressed files, whose members mark where records begin (``warc.py``).
"""

from collections.abc import Iterator

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
from gristmill.acquire.members import ARC_START
from gristmill.acquire.source import Source


def _plain_head(source: Source, at: int) -> tuple[Headers, set[str], int] | None:
    """(headers, tags, offset of the content) of the record that begins at ``at`` of a plain file, or None."""
    first = source.read(at, 16)
    if first[:5] == b"WARC/":
        size = 2048
        while True:
            data = source.read(at, size)
            end = HEAD_END.search(data)
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
        if found is not None and is_whole(found[:2]):
            return at
        at += 1


def plain_records(source: Source, cap: int) -> Iterator[RawRecord | Loss]:
    """Records of an uncompressed file. Nothing marks a record's end but its length, so what follows it must fit."""
    at = _pass_blank(source, 0)
    while at < source.size:
        found = _plain_head(source, at)
        length = None if found is None else content_length(found[0])
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
        if not fits and not (whole and digest_fits(headers, block, length)):
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
    while (data := source.read(at, 64)) and not data.strip(BLANK):
        at += len(data)
    return at + (len(data) - len(data.lstrip(BLANK)))
