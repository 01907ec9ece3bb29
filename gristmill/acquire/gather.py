"""One host bucket's records out of the runs of all slices: a merge that copies frames and holds none.

Belongs here: merging runs sorted by record_id, collapsing a record that came twice, verifying frames. Does not belong
here: what is in a frame (``ingest.py``).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

from gristmill import schemas, shuffle
from gristmill.errors import DamagedPartitionError
from gristmill.partition import Partition
from gristmill.store import Key

BUFFERS = 64 << 20  # bytes of all read buffers together
MIN_BUFFER, MAX_BUFFER = 64 << 10, 4 << 20


class RunReader:
    """One bucket's stretch of a run, read forward through a buffer."""

    def __init__(self, part: Partition, key: Key, name: str, end: int, block: int) -> None:
        self._blobs, self._path, self._end, self._block = part.store.blobs, f"{key.path}/{name}", end, block
        self._key = key
        self._start = 0
        self._data = b""

    def frame(self, offset: int, length: int) -> bytes:
        """A frame's bytes. Raises DamagedPartitionError when the file is gone or short."""
        inside = offset - self._start
        if not 0 <= inside <= len(self._data) - length:
            want = min(max(length, self._block), self._end - offset)
            try:
                self._start, self._data, inside = offset, self._blobs.get_range(self._path, offset, want), 0
            except FileNotFoundError as error:
                raise _damaged(self._key, f"{self._path} is gone") from error
            if len(self._data) < length:
                raise _damaged(self._key, f"{self._path} is cut short")
        return self._data[inside : inside + length]


def _damaged(key: Key, what: str) -> DamagedPartitionError:
    return DamagedPartitionError(f"{key}: {what}; run `gristmill run --crawl {key.crawl} --stage {key.asset} --force`")


@dataclass
class Gathered:
    """What a bucket's merge gave."""

    index: pa.Table
    duplicates: list[dict[str, Any]]
    bytes_in: int
    bytes_out: int


def gather(part: Partition, target: Path) -> Gathered:
    """Write the bucket's frames to ``target``, sorted by record_id, and return their index.

    A record that came twice (the same URI, date and body) is kept where (warc_path, offset) is smallest.

    Raises:
        DamagedPartitionError: when a frame is not what was written.
    """
    tables = []
    readers: dict[tuple[int, int], tuple[Key, str]] = {}
    for number in range(part.buckets):
        key = part.key("crawl_slices", number)
        manifest = part.store.require(key)
        assert part.bucket is not None
        table = part.store.read_range(key, "index", part.bucket)
        readers.update({(number, run): (key, ref.name) for run, ref in enumerate(manifest.role("warc"))})
        tables.append(table.append_column("slice", pa.array(np.full(table.num_rows, number, np.int32))))
    table = shuffle.sort_by(pa.concat_tables(tables), "record_id", "warc_path", "offset", "slice", "run", "part_offset")
    bytes_in = int(np.sum(table["part_length"].to_numpy())) if table.num_rows else 0

    ids = table["record_id"].to_pylist()
    slices, runs = table["slice"].to_pylist(), table["run"].to_pylist()
    offsets, lengths = table["part_offset"].to_pylist(), table["part_length"].to_pylist()
    ends: dict[tuple[int, int], int] = {}
    for where, offset, length in zip(zip(slices, runs, strict=True), offsets, lengths, strict=True):
        ends[where] = max(ends.get(where, 0), offset + length)
    block = min(max(BUFFERS // max(len(ends), 1), MIN_BUFFER), MAX_BUFFER)
    open_runs = {where: RunReader(part, *readers[where], end, block) for where, end in ends.items()}

    keep = np.ones(len(ids), bool)
    placed = np.zeros(len(ids), np.int64)
    at = 0
    inflate = zstandard.ZstdDecompressor()
    with target.open("wb", buffering=1 << 20) as out:
        for i, record in enumerate(ids):
            if i and record == ids[i - 1]:
                keep[i] = False
                continue
            where = (slices[i], runs[i])
            frame = open_runs[where].frame(offsets[i], lengths[i])
            try:
                inflate.decompress(frame)  # its checksum: damage must not be copied under a new digest
            except zstandard.ZstdError as error:
                key, name = readers[where]
                raise _damaged(key, f"a frame of {name} does not decode ({error})") from error
            out.write(frame)
            placed[i] = at
            at += lengths[i]
            if i % 256 == 0:
                part.progress(i, i)
    table = table.set_column(table.column_names.index("part_offset"), "part_offset", pa.array(placed))
    twice = table.filter(pa.array(~keep))
    columns = ["crawl", "record_id", "url", "warc_path", "offset", "length"]
    why = {"stage": "raw_warc", "reason": "duplicate_record", "detail": "the same URI, date and body again"}
    duplicates = [{**why, **r} for r in twice.select(columns).to_pylist()]
    index = table.filter(pa.array(keep)).select(schemas.RAW_INDEX.names)
    return Gathered(index, duplicates, bytes_in, at)
