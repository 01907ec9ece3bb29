"""From a record as the file has it to a row of ``raw_index`` and one zstd frame of our own WARC.

Belongs here: what is read out of WARC and HTTP headers, digests, identity, and the frame that later stages read. Does
not belong here: reading files (``warc.py``) and laying frames out (``slices.py``).

A frame is a WARC/1.1 record whose HTTP body has its transfer and content codings taken off; the headers that no longer
hold keep their names with ``X-Crawl-`` in front, as Common Crawl does it.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import zstandard

from gristmill import identity
from gristmill.acquire import digests, http, origin
from gristmill.acquire.heads import RawRecord

DOCUMENT_TYPES = (b"response", b"resource", b"revisit")
REFUSED_TYPES = (b"conversion",)  # WET: text that another tool extracted
LEVEL = 3
_DATE = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:[T ]?(\d\d):?(\d\d):?(\d\d)(?:\.\d*)?)?\s*(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_BAD_UTF8 = re.compile("[\udc80-\udcff]")
_HTML_START = re.compile(rb"[\s\xef\xbb\xbf]*<(?:!doctype\s+html|html|head|body|!--)", re.IGNORECASE)
_CODED = {b"transfer-encoding", b"content-encoding", b"content-length"}
_TEXTUAL = ("text/", "application/xhtml+xml")


class NotADocumentError(Exception):
    """A record that should be a document and cannot be one; ``reason`` is one word of quarantine."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class Document:
    """A row of ``raw_index`` without its places, and the frame that holds its bytes."""

    row: dict[str, Any]
    frame: bytes
    payload_bytes: int


@dataclass(frozen=True)
class Bounds:
    """What a payload may cost."""

    max_payload_bytes: int
    max_inflate_ratio: int


def parse_date(text: str) -> datetime | None:
    """A WARC or ARC date in UTC, whole seconds; None when it is none. Without a zone it is UTC, as ISO 28500 says."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, zone = match.groups()
    try:
        value = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), min(int(second or 0), 59),
                         tzinfo=UTC)
        if zone and zone != "Z":
            shift = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
            value = value.replace(tzinfo=timezone(-shift if zone[0] == "-" else shift)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return value


def uri_text(raw: bytes) -> str:
    """A URI as text: UTF-8, other bytes percent-encoded."""
    text = raw.decode("utf-8", "surrogateescape")
    return _BAD_UTF8.sub(lambda m: f"%{ord(m[0]) - 0xDC00:02X}", text).replace("\x00", "%00")


def bare_uri(raw: bytes) -> bytes:
    """Without the ``<>`` that some writers put around a URI."""
    raw = raw.strip()
    return raw[1:-1].strip() if raw.startswith(b"<") and raw.endswith(b">") else raw


class Ingest:
    """Turns records into documents. Holds one compressor; one instance a process.

    Args:
        bounds: on inflating.
        crawl: written into every row.
        warc_path: source file, as the listing names it.
        source_tier: of the delivery.
        license_id: of the delivery, or None.
    """

    def __init__(self, bounds: Bounds, crawl: str, warc_path: str, source_tier: str, license_id: str | None) -> None:
        self._bounds = bounds
        self._fixed = {"crawl": crawl, "warc_path": warc_path, "source_tier": source_tier, "license_id": license_id,
                       "robots_state": "unknown"}
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True)

    def document(self, record: RawRecord) -> Document:
        """The document of a response, resource or revisit record.

        Raises:
            NotADocumentError: no target URI, or no date that can be read: it has no identity.
        """
        uri = bare_uri(record.get(b"warc-target-uri") or b"")
        if not uri:
            raise NotADocumentError("no_target_uri", "the record has no WARC-Target-URI")
        raw_date = (record.get(b"warc-date") or b"").decode("latin-1")
        date = parse_date(raw_date)
        if date is None:
            raise NotADocumentError("no_date", f"WARC-Date is {raw_date[:60]!r}")
        tags = set(record.tags)
        if record.get(b"warc-record-id") is None and "arc" not in tags:
            tags.add("no_record_id")
        kind = (record.get(b"warc-type") or b"response").lower()
        url = uri_text(uri)
        row: dict[str, Any] = {
            **self._fixed, "url": url, "url_hash": identity.url_hash(url), "host": identity.host_of(url),
            "fetch_ts": date, "record_type": kind.decode("latin-1"), "offset": record.offset, "length": record.length,
            "truncated": _text(record.get(b"warc-truncated")), "http_status": 0, "charset": None,
        }
        row["host_id"] = identity.container_id(row["host"])
        message = http.parse(record.block) if self._is_http(record) else None
        if message is None:
            body = stored = record.block
            row["content_type"], row["charset"] = http.media_type(record.get(b"content-type"))
            if row["content_type"] == "application/http":
                row["content_type"] = ""  # it says so and holds no response
                tags.add("not_http")
        else:
            tags |= message.tags
            row["http_status"] = message.status
            body, stored, more = self._bodies(message, row)
            tags |= more
        self._digests(record, kind, message, body, row, tags)
        row["record_id"] = identity.record_id(uri, date, row["payload_digest"])
        if kind == b"revisit":
            row["refers_to_url"] = uri_text(bare_uri(record.get(b"warc-refers-to-target-uri") or uri))
            row["refers_to_ts"] = parse_date((record.get(b"warc-refers-to-date") or b"").decode("latin-1"))
        if not row["content_type"]:
            row["content_type"], _ = http.media_type(record.get(b"warc-identified-payload-type"))
            if not row["content_type"] and _HTML_START.match(stored[:1024]):
                row["content_type"] = "text/html"
            if row["content_type"]:
                tags.add("content_type_guessed")
        said, readable = origin.carried(record.headers)
        if not readable:
            tags.add("origin_unreadable")
        row["tags"] = sorted(tags)
        frame = self._compressor.compress(self._render(uri, kind, row, message, stored, stored is body, said))
        return Document(row, frame, len(stored))

    @staticmethod
    def _is_http(record: RawRecord) -> bool:
        kind, _ = http.media_type(record.get(b"content-type"))
        # The block decides where an ARC record or a careless writer gives the payload's own type.
        return kind == "application/http" or ("arc" in record.tags) or record.block[:5] == b"HTTP/"

    def _bodies(self, message: http.Message, row: dict[str, Any]) -> tuple[bytes, bytes, set[str]]:
        """(transfer-decoded body, what is stored of it, tags)."""
        tags: set[str] = set()
        body = message.body
        if any(b"chunked" in v.lower() for v in message.all(b"transfer-encoding")):
            body, more = http.unchunk(body)
            tags |= more
        row["content_type"], row["charset"] = http.media_type(message.last(b"content-type"))
        codings = message.all(b"content-encoding")
        stored, _, more = http.content_decode(
            body, codings, max_bytes=self._bounds.max_payload_bytes, max_ratio=self._bounds.max_inflate_ratio
        )
        tags |= more
        # Coded once more than it says, or otherwise; a page, not an archive that is meant to be one.
        if (not row["content_type"] or row["content_type"].startswith(_TEXTUAL)) and (coding := http.sniff(stored)):
            plain, done, more = http.content_decode(
                stored, [coding.encode()], max_bytes=self._bounds.max_payload_bytes,
                max_ratio=self._bounds.max_inflate_ratio
            )
            if done and (coding != "deflate" or not more & {"encoding_broken", "encoding_cut"}):
                stored = plain
                tags |= more | {"encoding_undeclared"}
        return body, stored, tags

    @staticmethod
    def _digests(record: RawRecord, kind: bytes, message: http.Message | None, body: bytes, row: dict[str, Any],
                 tags: set[str]) -> None:
        # Of a record that was cut at the bound it is the digest, and so the identity, of what was kept.
        computed = hashlib.sha1(body, usedforsecurity=False).digest()
        recorded = record.get(b"warc-payload-digest")
        row["payload_digest"], row["digest_ok"] = computed, None
        cut = "record_cut" in tags or "short_block" in tags
        if kind == b"revisit":
            # It has no body of its own: what it records is the digest of the record that it repeats.
            known = digests.parse(recorded) if recorded else None
            if known is not None and known[0] == "sha1":
                row["payload_digest"] = known[1]
            return
        if recorded is not None and not cut:
            ok = digests.agrees(recorded, body, computed)
            if ok is False and message is not None and message.body is not body:
                ok = digests.agrees(recorded, message.body)  # many writers take it over the body as sent
            row["digest_ok"] = ok
            if ok is None:
                tags.add("digest_unknown")
            elif not ok:
                tags.add("digest_mismatch")
        elif not cut:
            block = record.get(b"warc-block-digest")
            if block is not None and digests.agrees(block, record.block) is False:
                tags.add("block_digest_mismatch")

    @staticmethod
    def _render(uri: bytes, kind: bytes, row: dict[str, Any], message: http.Message | None, stored: bytes,
                stored_is_body: bool, said: bytes) -> bytes:
        if message is None:
            head = b""
            content_type = (row["content_type"] or "application/octet-stream").encode("latin-1", "replace")
        else:
            content_type = b"application/http; msgtype=response"
            # What announced the codings no longer holds; a length that holds again stands at the end.
            lines = [b"%s%s: %s" % (b"X-Crawl-" if n.lower() in _CODED else b"", n, v) for n, v in message.headers]
            head = b"\r\n".join([message.line, *lines, b"Content-Length: %d" % len(stored)]) + b"\r\n\r\n"
        extra = b"WARC-Truncated: %s\r\n" % row["truncated"].encode("latin-1", "replace") if row["truncated"] else b""
        same = stored_is_body and kind != b"revisit"
        sha1 = row["payload_digest"] if same else hashlib.sha1(stored, usedforsecurity=False).digest()
        return b"".join([
            b"WARC/1.1\r\nWARC-Type: ", kind, b"\r\nWARC-Record-ID: <urn:gristmill:", row["record_id"].hex().encode(),
            b">\r\nWARC-Date: ", identity.iso_seconds(row["fetch_ts"]).encode(), b"\r\nWARC-Target-URI: ",
            uri.replace(b"\r", b"%0D").replace(b"\n", b"%0A"), b"\r\n", extra, said,
            b"WARC-Payload-Digest: sha1:", base64.b32encode(sha1), b"\r\nContent-Type: ", content_type,
            b"\r\nContent-Length: %d\r\n\r\n" % (len(head) + len(stored)), head, stored, b"\r\n\r\n",
        ])


def _text(value: bytes | None) -> str | None:
    return value.decode("latin-1").strip().lower() or None if value is not None else None
