"""Record heads of WARC and ARC files, and what a record is once it has been read.

Belongs here: the records and losses that readers give, and parsing their heads (ISO 28500, and the ARC 1 format of
crawls before 2013). Does not belong here: walking a file (``warc.py``, ``plain.py``).
"""

import re
from dataclasses import dataclass, field

from gristmill.acquire import digests
from gristmill.acquire.members import WARC_START

MAX_HEAD = 64 << 10  # bytes of one record head; more is damage
BLANK = b"\r\n"
SECOND_START = re.compile(rb"WARC/[01]\.\d{1,2}[ \t]*\r*\n")
HEAD_END = re.compile(rb"\n\r*\n")
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
    """Headers of a WARC record head (without its blank line), or None when it is not one.

    One that was cut, and runs into the whole head of the next record, is none: it would give that record's content
    its own address.
    """
    if not WARC_START.match(raw + b"\n"):
        return None
    raw = raw.lstrip(BLANK)
    headers, tags = _fields(raw)
    second = SECOND_START.search(raw, 5)
    if second is not None and is_whole(_fields(raw[second.start() :])):
        return None
    return headers, tags


def _fields(raw: bytes) -> tuple[Headers, set[str]]:
    lines = raw.split(b"\n")[1:]
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


def is_whole(head: tuple[Headers, set[str]]) -> bool:
    """Does a head say what every record must: enough to believe that one begins there after damage."""
    return {b"warc-type", b"warc-date", b"content-length"} <= {n for n, _ in head[0]}


def parse_arc_line(line: bytes) -> Headers | None:
    """An ARC record's head (``URL IP date type length``) as the WARC headers that say the same, or None."""
    match = _ARC_LINE.fullmatch(line.strip(BLANK))
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


def content_length(headers: Headers) -> int | None:
    """Content-Length, or None where there is none that can be used."""
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 19 else None
    return None


def digest_fits(headers: Headers, block: bytes, length: int) -> bool:
    """Is this the whole content, and the one that the record's block digest was taken of."""
    recorded = next((v for n, v in headers if n == b"warc-block-digest"), None)
    return len(block) == length and recorded is not None and digests.agrees(recorded, block) is True
