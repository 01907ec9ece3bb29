"""Writing WARC files in Common Crawl's layout, the same bytes every time.

Belongs here: records as gzip members, digests, file and segment names, path listings. Does not belong here: what is on
the pages. Nothing here reads WARC: the writer must not share a mistake with the reader that it tests.
"""

import base64
import gzip
import hashlib
import io
import struct
import uuid
import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlsplit

import blake3

NAMESPACE = uuid.UUID("6f1c1d0e-5d0b-5a53-9a3f-7b7d7a5b1f00")  # of record ids: uuid5 of what the record is
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"  # no name, mtime 0, Unix


@dataclass(frozen=True)
class Fetch:
    """One response as crawled.

    Attributes:
        name: what the truth calls it.
        url: target URI.
        time: fetch time, whole seconds, UTC.
        body: payload; of a revisit that of the fetch it repeats, which only its digest shows.
        content_type: value of the HTTP header.
        status: HTTP status.
        kind: a response, or a revisit of ``(url, time)`` given in ``refers_to``.
        damaged: flip bytes inside its gzip member.
        headers: further HTTP headers.
    """

    name: str
    url: str
    time: datetime
    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    kind: Literal["response", "revisit"] = "response"
    refers_to: tuple[str, datetime] | None = None
    damaged: bool = False
    headers: tuple[tuple[str, str], ...] = field(default=())

    @property
    def host(self) -> str:
        """Host of the URL."""
        return urlsplit(self.url).hostname or ""

    @property
    def record_id(self) -> str:
        """The id that intake must give this fetch (hex), from its definition; a revisit's digest is recorded."""
        data = b"\x00".join([self.url.encode(), stamp(self.time).encode(), hashlib.sha1(self.body).digest()])
        return blake3.blake3(data).hexdigest(length=16)


def stamp(time: datetime) -> str:
    """ISO seconds, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def member(data: bytes) -> bytes:
    """One gzip member with no time in it."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(data) + packer.flush()
    return GZIP_HEADER + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)


def record(kind: str, fields: list[tuple[str, str]], block: bytes, key: str) -> bytes:
    """A WARC/1.0 record, uncompressed. ``key`` names it within the crawl, and so decides its id."""
    lines = [
        "WARC/1.0",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: <urn:uuid:{uuid.uuid5(NAMESPACE, f'{kind} {key}')}>",
        *(f"{name}: {value}" for name, value in fields),
        f"Content-Length: {len(block)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def digest(data: bytes) -> str:
    """As the format writes it."""
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def http_response(fetch: Fetch) -> bytes:
    """Status line, headers, and the body where there is one."""
    reason = {200: "OK", 404: "Not Found", 301: "Moved Permanently"}[fetch.status]
    lines = [
        f"HTTP/1.1 {fetch.status} {reason}",
        f"Date: {fetch.time.strftime('%a, %d %b %Y %H:%M:%S GMT')}",
        "Server: nginx",
        f"Content-Type: {fetch.content_type}",
        f"Content-Length: {len(fetch.body)}",
        *(f"{name}: {value}" for name, value in fetch.headers),
        "Connection: close",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if fetch.kind == "revisit" else fetch.body)


def members(fetch: Fetch) -> list[bytes]:
    """The request, the response (or revisit) and the metadata record of one fetch, each a gzip member."""
    parts = urlsplit(fetch.url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    common = [("WARC-Date", stamp(fetch.time)), ("WARC-Target-URI", fetch.url)]
    key = f"{fetch.url} {stamp(fetch.time)}"
    request = f"GET {path} HTTP/1.1\r\nHost: {fetch.host}\r\nUser-Agent: gristmill-demo/1\r\n\r\n".encode()
    response = http_response(fetch)
    fields = [
        *common,
        ("WARC-IP-Address", f"192.0.2.{hashlib.sha1(fetch.host.encode()).digest()[0]}"),
        ("WARC-Payload-Digest", digest(fetch.body)),
        ("WARC-Block-Digest", digest(response)),
        ("Content-Type", "application/http; msgtype=response"),
    ]
    if fetch.kind == "revisit":
        assert fetch.refers_to is not None
        fields += [
            ("WARC-Profile", "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest"),
            ("WARC-Refers-To-Target-URI", fetch.refers_to[0]),
            ("WARC-Refers-To-Date", stamp(fetch.refers_to[1])),
        ]
    else:
        fields.append(("WARC-Identified-Payload-Type", fetch.content_type.partition(";")[0]))
    main = member(record(fetch.kind, fields, response, key))
    if fetch.damaged:
        middle = len(main) // 2
        main = main[:middle] + bytes(b ^ 0x5A for b in main[middle : middle + 48]) + main[middle + 48 :]
    return [
        member(record("request", [*common, ("Content-Type", "application/http; msgtype=request")], request, key)),
        main,
        member(
            record("metadata", [*common, ("Content-Type", "application/warc-fields")], b"fetchTimeMs: 120\r\n\r\n", key)
        ),
    ]


def warc_file(name: str, crawl: str, fetches: list[Fetch]) -> bytes:
    """A whole ``.warc.gz``: a warcinfo record, then the fetches in the given order."""
    info = f"software: gristmill demo\r\nisPartOf: {crawl}\r\nformat: WARC File Format 1.0\r\n\r\n".encode()
    head = record(
        "warcinfo",
        [
            ("WARC-Date", stamp(fetches[0].time)),
            ("WARC-Filename", name.rsplit("/", 1)[-1]),
            ("Content-Type", "application/warc-fields"),
        ],
        info,
        name,
    )
    return b"".join([member(head), *(m for f in fetches for m in members(f))])


def wet_file(name: str, crawl: str, fetch: Fetch, text: str) -> bytes:
    """A ``.warc.wet.gz`` as Common Crawl makes it: text already extracted, which the landing must refuse."""
    info = record(
        "warcinfo",
        [
            ("WARC-Date", stamp(fetch.time)),
            ("WARC-Filename", name.rsplit("/", 1)[-1]),
            ("Content-Type", "application/warc-fields"),
        ],
        f"isPartOf: {crawl}\r\n\r\n".encode(),
        name,
    )
    block = text.encode()
    fields = [
        ("WARC-Target-URI", fetch.url),
        ("WARC-Date", stamp(fetch.time)),
        ("WARC-Block-Digest", digest(block)),
        ("Content-Type", "text/plain"),
    ]
    return member(info) + member(record("conversion", fields, block, f"{fetch.url} {stamp(fetch.time)}"))


def crawl_files(
    crawl: str, fetches: list[Fetch], segments: int, per_segment: int, started: datetime
) -> tuple[dict[str, bytes], dict[str, str]]:
    """All files of a crawl under ``crawl-data/``: WARC files, and their listing.

    Fetches are dealt to files by a hash of URL and time, as a crawl does by host and chance, and stand in the order of
    that hash.

    Returns:
        Path -> bytes, and name of a fetch -> path of the file that holds it.
    """
    dealt: dict[tuple[int, int], list[tuple[bytes, Fetch]]] = {}
    for fetch in fetches:
        mixed = hashlib.sha256(f"{fetch.url} {stamp(fetch.time)}".encode()).digest()
        number = int.from_bytes(mixed[:4], "big") % (segments * per_segment)
        dealt.setdefault(divmod(number, per_segment), []).append((mixed, fetch))
    files: dict[str, bytes] = {}
    places: dict[str, str] = {}
    for (segment, number), chosen in sorted(dealt.items()):
        begin = started + timedelta(hours=3 * segment)
        folder = f"crawl-data/{crawl}/segments/{int(begin.timestamp())}.{segment:02d}/warc"
        span = f"{begin.strftime('%Y%m%d%H%M%S')}-{(begin + timedelta(hours=3)).strftime('%Y%m%d%H%M%S')}"
        name = f"{folder}/CC-DEMO-{span}-{number:05d}.warc.gz"
        files[name] = warc_file(name, crawl, [f for _, f in sorted(chosen, key=lambda pair: pair[0])])
        places.update({f.name: name for _, f in chosen})
    files[f"crawl-data/{crawl}/warc.paths.gz"] = listing(list(files))
    return files, places


def listing(names: list[str]) -> bytes:
    """A path listing: one name a line, gzip without a time."""
    sink = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=sink, mtime=0) as packed:
        packed.write("".join(f"{n}\n" for n in names).encode())
    return sink.getvalue()
