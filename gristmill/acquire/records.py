"""Reading our own raw WARC partitions: a row's payload by its byte range.

Belongs here: what extraction and ``explain`` call to get the bytes of a page. Does not belong here: foreign WARC files
(``warc.py``).
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import zstandard

from gristmill.errors import DamagedPartitionError
from gristmill.partition import Partition
from gristmill.store import FileRef, Key, Store

MAX_GAP = 64 << 10  # frames this close together are fetched in one read
MAX_READ = 8 << 20
_BLANK = b"\r\n\r\n"


def split_frame(data: bytes) -> tuple[bytes, bytes, bytes]:
    """(WARC head, HTTP head, payload) of a decoded frame; the HTTP head is empty where the record holds none."""
    end = data.find(_BLANK)
    if end < 0:
        return data, b"", b""
    head, start, stop = data[:end], end + 4, max(len(data) - 4, end + 4)  # the record ends in blank lines
    if b"\r\nContent-Type: application/http; msgtype=response\r\n" not in head:
        return head, b"", data[start:stop]
    end = data.find(_BLANK, start, stop)
    return (head, data[start:end], data[end + 4 : stop]) if end >= 0 else (head, data[start:stop], b"")


class RawWarc:
    """A raw WARC partition, opened where a worker needs it. Picklable.

    Args:
        store: the store.
        key: of a committed ``raw_warc`` partition.
    """

    def __init__(self, store: Store, key: Key) -> None:
        self.store, self.key = store, key
        refs = store.require(key).role("warc")
        if len(refs) != 1:
            raise DamagedPartitionError(f"{key} holds {len(refs)} WARC files, not one")
        self.ref: FileRef = refs[0]
        self.path = f"{key.path}/{self.ref.name}"
        self._inflate: zstandard.ZstdDecompressor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inflate": None}

    def frames(self, offset: int, length: int) -> bytes:
        """Compressed bytes of a range."""
        try:
            data = self.store.blobs.get_range(self.path, offset, length)
        except FileNotFoundError as error:
            raise DamagedPartitionError(f"{self.key}: {self.path} is gone") from error
        if len(data) != length:
            raise DamagedPartitionError(f"{self.key}: {self.path} ends before byte {offset + length}")
        return data

    def decode(self, frame: bytes) -> bytes:
        """The payload of a frame, verified by its checksum.

        Raises:
            DamagedPartitionError: when the frame is not what was written.
        """
        return split_frame(self.record(frame))[2]

    def record(self, frame: bytes) -> bytes:
        """The whole WARC record of a frame."""
        if self._inflate is None:
            self._inflate = zstandard.ZstdDecompressor()
        try:
            return self._inflate.decompress(frame)
        except zstandard.ZstdError as error:
            raise DamagedPartitionError(
                f"{self.key}: a frame of {self.path} does not decode ({error}); run `gristmill run --crawl "
                f"{self.key.crawl} --stage raw_warc --force`"
            ) from error

    def payload(self, offset: int, length: int) -> bytes:
        """The payload at ``part_offset``, ``part_length`` of an index row: transfer and content decoded."""
        return self.decode(self.frames(offset, length))


def read_payloads(part: Partition, rows: pa.Table | None = None, *, record_ids: set[bytes] | None = None,
                  bucket: int | None = -1, crawl: str | None = None) -> Iterator[tuple[dict[str, Any], bytes]]:
    """(row of ``raw_index``, payload) of a bucket's records, in order of their place in the file.

    Args:
        part: the partition that is being made; by default its own bucket of its crawl is read.
        rows: rows of ``raw_index`` (with part_offset and part_length) to read; None reads the index.
        record_ids: only these.
        bucket: another bucket.
        crawl: another crawl.

    Neighbouring frames are fetched together; at most ``MAX_READ`` bytes and one payload are held.
    """
    warc = RawWarc(part.store, part.key("raw_warc", bucket, crawl))
    table = part.read("raw_warc", bucket=bucket, crawl=crawl) if rows is None else rows
    chosen = [r for r in table.to_pylist() if record_ids is None or r["record_id"] in record_ids]
    chosen.sort(key=lambda r: int(r["part_offset"]))
    first = 0
    while first < len(chosen):
        start, last = chosen[first]["part_offset"], first
        end = start + chosen[first]["part_length"]
        while last + 1 < len(chosen):
            row = chosen[last + 1]
            after = row["part_offset"] + row["part_length"]
            if row["part_offset"] - end > MAX_GAP or after - start > MAX_READ:
                break
            last, end = last + 1, after
        data = warc.frames(start, end - start)
        for row in chosen[first : last + 1]:
            at = row["part_offset"] - start
            yield row, warc.decode(data[at : at + row["part_length"]])
        first = last + 1
