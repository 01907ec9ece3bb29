"""The table of stage ``text``, written while documents are extracted.

Belongs here: putting what workers send back, in whatever order, into rows in the index's order, and row groups to disk
as soon as they are full, so that neither a bucket's texts wait in memory nor its workers for the table. Does not
belong here: extraction (``stages.py``, ``slices.py``).

Where a row group ends is decided by the texts alone: the same bytes for any number of workers.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill import clumping, schemas
from gristmill.deduplicate.normalise import utf8_id
from gristmill.extract.slices import Extracted
from gristmill.extract.watch import GivenUp
from gristmill.partition import Partition

GROUP_BYTES = 8 << 20  # of text a row group

Row = Mapping[str, Any]  # of the index


class TextTable:
    """Rows of one bucket.

    Args:
        rows: of the index, in order.
        add: writes a row group.
    """

    def __init__(self, rows: Sequence[Row], add: Callable[[pa.Table], None]) -> None:
        self._rows, self._add = rows, add
        self._waiting: dict[int, Extracted | GivenUp] = {}
        self._ids: dict[int, bytes] = {}
        self._next = 0  # rows before this one are in a row group, or in the next one
        self._group: list[tuple[Row, Extracted, bytes]] = []
        self._size = 0  # bytes of text in it
        self._hosts: list[int] = []
        self._sizes: list[int] = []
        self._aside: list[dict[str, Any]] = []
        self._said: list[dict[str, Any]] = []
        self._reasons: Counter[str] = Counter()
        self._engines: Counter[str] = Counter()
        self._bytes_in = 0

    def put(self, number: int, result: Extracted | GivenUp) -> None:
        """The outcome of row ``number``; each comes once."""
        self._waiting[number] = result
        if isinstance(result, Extracted) and result.utf8 is not None:
            self._ids[number] = utf8_id(result.utf8)
        while (found := self._waiting.pop(self._next, None)) is not None:
            self._take(self._rows[self._next], found)
            self._next += 1

    def _take(self, row: Row, found: Extracted | GivenUp) -> None:
        if isinstance(found, Extracted):
            self._bytes_in += found.outcome.bytes_in
        if not isinstance(found, Extracted) or found.utf8 is None:
            why = found.outcome if isinstance(found, Extracted) else found
            self._reasons[why.reason or ""] += 1
            self._aside.append(quarantined(row, "text", why.reason or "", why.detail))
            return
        self._group.append((row, found, self._ids.pop(self._next)))
        self._engines[found.outcome.extractor] += 1
        self._hosts.append(row["host_id"])
        self._sizes.append(len(found.utf8))
        if found.origin and found.origin.keys() - {"source_id"}:
            self._said.append(_origin(row["record_id"], found.origin))
        self._size += len(found.utf8)
        if self._size >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        texts = _joined([found.utf8 or b"" for _, found, _ in self._group])
        self._add(pa.table({
            "crawl": pa.array([row["crawl"] for row, _, _ in self._group], pa.string()),
            "record_id": pa.array([row["record_id"] for row, _, _ in self._group], schemas.ID),
            "doc_id": pa.array([doc_id for _, _, doc_id in self._group], schemas.ID),
            "source_id": pa.array([(found.origin or {}).get("source_id") for _, found, _ in self._group], pa.string()),
            "url": pa.array([row["url"] for row, _, _ in self._group], pa.string()),
            "fetch_ts": pa.array([row["fetch_ts"] for row, _, _ in self._group], schemas.TS),
            "text": texts,
            "title": pa.array([found.outcome.title for _, found, _ in self._group], pa.string()),
            "extractor": pa.array([found.outcome.extractor for _, found, _ in self._group], pa.string()),
            "extract_meta": pa.array([found.outcome.meta for _, found, _ in self._group], pa.string()),
            "n_chars": pc.utf8_length(texts).cast(pa.int64()),
            "n_bytes": pc.binary_length(texts).cast(pa.int64()),
        }))
        self._group, self._size = [], 0

    def finish(self, part: Partition) -> None:
        """The last row group, what was set aside and what suppliers said; report it all.

        Raises:
            AssertionError: a row had no outcome.
        """
        if self._next != len(self._rows):
            raise AssertionError(f"no outcome for record {self._rows[self._next]['record_id'].hex()}")
        self._flush()
        if self._said:
            part.write(schemas.from_rows(self._said, schemas.ORIGINS), schemas.ORIGINS, role="origins")
        part.write(schemas.from_rows(self._aside, schemas.QUARANTINE), schemas.QUARANTINE, role="quarantine")
        sizes = np.array(self._sizes, np.int64)
        part.report(docs_in=len(self._rows), docs_out=len(sizes), bytes_in=self._bytes_in, bytes_out=int(sizes.sum()),
                    reasons=self._reasons, engines=dict(sorted(self._engines.items())),
                    **clumping.facts(np.array(self._hosts, np.uint64), sizes))


def quarantined(row: Row, stage: str, reason: str, detail: str) -> dict[str, Any]:
    """A row of the quarantine table for a record of the index."""
    return {"crawl": row["crawl"], "record_id": row["record_id"], "stage": stage, "reason": reason,
            "detail": detail[:500],
            "url": row["url"], "warc_path": row["warc_path"], "offset": row["offset"], "length": row["length"]}


def _joined(texts: Sequence[bytes]) -> pa.Array:
    """UTF-8 texts as large_string."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(t) for t in texts], out=offsets[1:])
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts)))


def _origin(record_id: bytes, said: Mapping[str, str]) -> dict[str, Any]:
    """A row of ORIGINS."""
    parent = said.get("derived_from")
    return {"record_id": record_id, "derived_from": bytes.fromhex(parent) if parent else None,
            "generator_model_id": said.get("generator_model_id"), "prompt_template_id": said.get("prompt_template_id")}
