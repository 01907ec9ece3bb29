"""Laying the records of a slice out by host bucket: an external sort of frames in bounded memory.

Belongs here: the spool, its runs, and reading the pieces of a slice into them. Does not belong here: merging the runs
of all slices (``gather.py``), and what a record becomes (``ingest.py``).

Frames are spooled to scratch in reading order; when the spool is full, they are copied into one run, sorted by (host
bucket, record_id), and its index is cut by bucket. A slice is any number of runs.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from gristmill import identity, schemas
from gristmill.acquire.heads import Loss, RawRecord
from gristmill.acquire.ingest import (
    DOCUMENT_TYPES,
    REFUSED_TYPES,
    Bounds,
    Document,
    Ingest,
    NotADocumentError,
    uri_text,
)
from gristmill.acquire.landing import Piece
from gristmill.acquire.source import Source
from gristmill.acquire.warc import read_records
from gristmill.blobs import Blobs
from gristmill.errors import LandingError
from gristmill.params import AcquireParams

MAX_ROWS = 100_000  # index rows of a run held in memory, about 2 kB each
MAX_LISTED = 10_000  # quarantine rows a file may add; more are counted in one row
RUN_INDEX = pa.schema([*schemas.RAW_INDEX, pa.field("run", pa.int32())])

# Called with the run's scratch file, its index (RUN_INDEX, sorted) and the bucket of each row.
WriteRun = Callable[[Path, pa.Table, np.ndarray], None]


class Spool:
    """Frames on their way into runs.

    Args:
        folder: scratch.
        buckets: host buckets.
        run_bytes: frames a run may hold.
        write_run: takes a finished run.
    """

    def __init__(self, folder: Path, buckets: int, run_bytes: int, write_run: WriteRun) -> None:
        self._folder, self._buckets, self._run_bytes, self._write_run = folder, buckets, run_bytes, write_run
        self._rows: list[dict[str, Any]] = []
        self._places: list[tuple[int, int]] = []
        self._size = 0
        self._file: BinaryIO | None = None
        self.runs = 0

    def add(self, document: Document) -> None:
        """Spool one document."""
        if self._file is None:
            self._file = (self._folder / "spool").open("w+b", buffering=1 << 20)
        self._file.write(document.frame)
        self._rows.append(document.row)
        self._places.append((self._size, len(document.frame)))
        self._size += len(document.frame)
        if self._size >= self._run_bytes or len(self._rows) >= MAX_ROWS:
            self.flush()

    def flush(self) -> None:
        """Make a run of what is spooled."""
        rows = self._rows
        bucket_of = [identity.host_bucket(r["host_id"], self._buckets) for r in rows]
        order = sorted(range(len(rows)), key=lambda i: (
            bucket_of[i], rows[i]["record_id"], rows[i]["warc_path"], rows[i]["offset"], self._places[i][0]
        ))
        path = self._folder / f"run{self.runs}"
        at = 0
        with path.open("wb", buffering=1 << 20) as out:
            if self._file is not None:
                self._file.flush()
            for i in order:
                start, length = self._places[i]
                assert self._file is not None
                out.write(os.pread(self._file.fileno(), length, start))
                rows[i]["part_offset"], rows[i]["part_length"], rows[i]["run"] = at, length, self.runs
                at += length
        table = pa.Table.from_pylist([rows[i] for i in order], schema=RUN_INDEX)
        if self._file is not None:
            self._file.close()
        self._file, self._rows, self._places, self._size = None, [], [], 0
        self.runs += 1
        self._write_run(path, table, np.array([bucket_of[i] for i in order], np.int64))

    def close(self) -> None:
        """Make a run of the rest; there is always at least one, so that readers find their files."""
        if self._rows or not self.runs:
            self.flush()


@dataclass
class Tally:
    """What became of the records of a slice."""

    docs_in: int = 0
    docs_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)  # record types that are no documents
    tags: dict[str, int] = field(default_factory=dict)
    quarantine: list[dict[str, Any]] = field(default_factory=list)

    def set_aside(self, reason: str, *, documents: int = 1, **row: Any) -> None:
        """Count documents that do not go on, and list them in one row."""
        self.docs_in += documents
        self.reasons[reason] = self.reasons.get(reason, 0) + documents
        self.quarantine.append({"stage": "crawl_slices", "reason": reason, **row, "detail": row["detail"][:500]})


def read_pieces(landing: Blobs, pieces: Iterable[Piece], params: AcquireParams, spool: Spool, *, crawl: str,
                source_tier: str, license_id: str | None, progress: Callable[[int, int], None]) -> Tally:
    """Read the pieces of a slice into the spool; what cannot be a document is listed.

    Raises:
        LandingError: when a file has gone since the listing was taken.
    """
    tally = Tally()
    for piece in pieces:
        where: dict[str, Any] = {"crawl": crawl, "warc_path": piece.path}
        if piece.kind == "refused":
            tally.set_aside("refused", **where, offset=0, length=piece.file_bytes, detail=piece.why)
            continue
        if landing.size(piece.path) != piece.file_bytes:
            raise LandingError(
                f"{piece.path} in {landing.root} has gone or changed its size since the listing of {crawl} was taken: "
                "put it back, or run the crawl again"
            )
        tally.bytes_in += piece.end - piece.start
        source = Source(landing, piece.path, piece.file_bytes)
        ingest = Ingest(Bounds(params.max_payload_bytes, params.max_inflate_ratio), crawl, piece.path, source_tier,
                        license_id)
        before = len(tally.quarantine)
        for found in read_records(source, piece.start, piece.end, max_record_bytes=params.max_record_bytes):
            _take(found, ingest, spool, tally, where)
            progress(tally.docs_in, tally.docs_out)
        _shorten(tally, before, where)
    return tally


def _take(found: RawRecord | Loss, ingest: Ingest, spool: Spool, tally: Tally, where: Mapping[str, Any]) -> None:
    if isinstance(found, Loss):
        several = f" ({found.members} members)" if found.members > 1 else ""
        tally.set_aside("damaged", documents=found.members, **where, offset=found.offset, length=found.length,
                        detail=found.detail + several)
        return
    kind = (found.get(b"warc-type") or b"").lower()
    place = {**where, "offset": found.offset, "length": found.length}
    uri = found.get(b"warc-target-uri")
    url = uri_text(uri) if uri is not None else None
    if kind in REFUSED_TYPES:
        tally.set_aside("refused", **place, url=url, detail="a conversion record: text that another extractor made")
        return
    if kind not in DOCUMENT_TYPES:
        name = kind.decode("latin-1")[:40] or "untyped"
        tally.others[name] = tally.others.get(name, 0) + 1
        return
    try:
        document = ingest.document(found)
    except NotADocumentError as error:
        tally.set_aside(error.reason, **place, url=url, detail=str(error))
        return
    spool.add(document)
    tally.docs_in += 1
    tally.docs_out += 1
    tally.bytes_out += len(document.frame)
    for tag in document.row["tags"]:
        tally.tags[tag] = tally.tags.get(tag, 0) + 1


def _shorten(tally: Tally, before: int, where: Mapping[str, Any]) -> None:
    """A file with more losses than anyone reads is listed by its first, and a count: all stay in ``reasons``."""
    surplus = len(tally.quarantine) - before - MAX_LISTED
    if surplus > 0:
        del tally.quarantine[before + MAX_LISTED :]
        tally.quarantine.append({"stage": "crawl_slices", "reason": "more", **where, "offset": 0, "length": -1,
                                 "detail": f"{surplus} more of this file, counted and not listed"})
