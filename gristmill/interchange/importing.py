"""Bringing documents of other tools in: JSON lines become a landed crawl, which the funnel takes like any other.

Belongs here: wrapping texts as WARC ``resource`` records of ``text/plain``, so that nothing passes by the funnel's
gates, duplicates and policy. Does not belong here: reading the lines (``jsonl.py``), laying out a landing area
(``acquire/landing.py``).
"""

import gzip
import hashlib
import re
import tempfile
from base64 import b32encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from gristmill.acquire import origin
from gristmill.acquire.landing import land, require_named, say_source
from gristmill.interchange.jsonl import BadLine, Document, InterchangeError, read

FILE_DOCS = 20_000  # documents a WARC file: under 100 MB of ordinary pages
_NOT_OF_A_HEAD = re.compile(r"[\x00-\x20\x7f-\x9f]")
UNDATED = "1970-01-01T00:00:00Z"  # a fetch whose time nobody kept; first in every order


@dataclass
class Imported:
    """What ``import_jsonl`` did."""

    documents: int = 0
    files: list[str] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)


def import_jsonl(files: Iterable[str | Path], name: str, landing: str | Path, *, tier: str | None = None,
                 license_id: str | None = None) -> Imported:
    """Land documents of JSON-lines files as the crawl ``name``.

    A text keeps its bytes, so its doc_id is the one it had where it came from us. Lines that cannot be read are listed,
    not lost.

    Args:
        files: ``.jsonl``, ``.jsonl.gz`` or ``.jsonl.zst``, in any of the shapes that ``jsonl.from_line`` knows.
        name: of the crawl.
        landing: the landing area, a folder or ``s3://``.
        tier, license_id: of all its documents, for the ``source.yaml`` beside the listing; by default an own crawl's.

    Raises:
        InterchangeError: a file is missing or cut short, there is no document at all, or a document's
            ``derived_from`` is no doc_id.
        LandingError: the name cannot be a crawl's, or stands with other content; or there is no such tier.
    """
    require_named(name, tier)
    out, files = Imported(), list(files)
    with tempfile.TemporaryDirectory() as folder:
        warcs: list[Path] = []
        batch: list[bytes] = []
        for doc in read(files, out.bad):
            batch.append(member(doc))
            out.documents += 1
            if len(batch) >= FILE_DOCS:
                warcs.append(_write(Path(folder), name, len(warcs), batch))
                batch = []
        if not out.documents:
            named = ", ".join(str(f) for f in files)
            why = f"; {len(out.bad)} lines could not be read, the first: {out.bad[0]}" if out.bad else ""
            raise InterchangeError(f"nothing was landed: {named} holds no document{why}")
        if batch:
            warcs.append(_write(Path(folder), name, len(warcs), batch))
        if tier or license_id:
            say_source(landing, name, tier, license_id)
        out.files = land(warcs, name, landing)
    return out


def _write(folder: Path, name: str, number: int, members: list[bytes]) -> Path:
    path = folder / f"{name}-{number:05d}.warc.gz"
    path.write_bytes(b"".join(members))
    return path


def member(doc: Document) -> bytes:
    """One document as a gzip member that holds one WARC record; the same document gives the same bytes.

    Its id goes along as ``source_id``, and ``derived_from`` (a doc_id of ours), ``generator_model_id`` and
    ``prompt_template_id`` where the line has them.

    Raises:
        InterchangeError: ``derived_from`` names no document.
    """
    body = doc.text.encode("utf-8")
    url = str(doc.url or f"urn:gristmill:{quote(doc.doc_id, safe='')}")
    url = _NOT_OF_A_HEAD.sub(lambda found: quote(found[0]), url)  # a line end in it would begin another field
    sha1 = b32encode(hashlib.sha1(body).digest()).decode("ascii")
    about = hashlib.sha256(f"{url} {doc.fetch_ts} {sha1}".encode()).hexdigest()
    identity = f"{about[:8]}-{about[8:12]}-{about[12:16]}-{about[16:20]}-{about[20:32]}"
    head = (
        "WARC/1.0\r\nWARC-Type: resource\r\n"
        f"WARC-Record-ID: <urn:uuid:{identity}>\r\n"
        f"WARC-Date: {_date(doc.fetch_ts)}\r\n"
        f"WARC-Target-URI: {url}\r\n"
        f"WARC-Payload-Digest: sha1:{sha1}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
    )
    said = {**doc.other, "source_id": doc.other.get("source_id") or doc.doc_id}
    try:
        fields = origin.lines(said)
    except ValueError as error:
        raise InterchangeError(f"document {doc.doc_id}: {error}") from error
    length = f"Content-Length: {len(body)}\r\n\r\n".encode("ascii")
    return gzip.compress(head.encode("utf-8") + fields + length + body + b"\r\n\r\n", compresslevel=6, mtime=0)


def _date(text: object) -> str:
    """ISO 8601 in UTC, whole seconds; a time that cannot be read counts as none."""
    if not isinstance(text, str) or not text:
        return UNDATED
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        return UNDATED
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
