"""Finding things: a URL's records, a document's home, a provenance row by its locator.

Belongs here: the look-ups that lineage, ``whereis`` and ``explain`` share. Each reads one range or one bucket, never a
table of everything. Does not belong here: what is said about what was found.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill import identity, shuffle
from gristmill.errors import DamagedPartitionError
from gristmill.schemas import ID
from gristmill.store import Key, Store


class Finder:
    """Look-ups in a store, under given fingerprints.

    Args:
        store: where.
        fingerprints: asset -> fingerprint: a plan's, or those that a manifest recorded.
        buckets: host buckets of the grid.
        crawls: where to look, in order.
    """

    def __init__(self, store: Store, fingerprints: Mapping[str, str], buckets: int, crawls: Sequence[str]) -> None:
        self.store = store
        self.fingerprints = fingerprints
        self.buckets = buckets
        self.crawls = tuple(crawls)

    def key(self, asset: str, crawl: str, bucket: int | None) -> Key:
        """Key of a partition: of the grid, or (without a bucket) of a crawl."""
        return Key(asset, self.fingerprints[asset], crawl, bucket)

    def has(self, asset: str, crawl: str, bucket: int) -> bool:
        """Is the partition committed."""
        return self.store.manifest(self.key(asset, crawl, bucket)) is not None

    def rows(
        self, asset: str, crawl: str, bucket: int, column: str, value: Any, *, role: str = "data"
    ) -> list[dict[str, Any]]:
        """Rows of a partition with one value in a column, as plain dictionaries; none where it is not committed."""
        if not self.has(asset, crawl, bucket):
            return []
        table = self.store.read(self.key(asset, crawl, bucket), role=role)
        kind = table.schema.field(column).type
        found: list[dict[str, Any]] = table.filter(pc.equal(table.column(column), pa.scalar(value, kind))).to_pylist()
        return found

    def bucket_of_url(self, url: str) -> int:
        """Host bucket of a URL."""
        return identity.host_bucket(identity.host_id(url), self.buckets)

    def range_of(self, doc_id: bytes) -> int:
        """Range of ``exact`` and ``clusters`` in which a document lies."""
        head = np.array([int.from_bytes(doc_id[:8], "big")], np.uint64)
        return int(shuffle.range_of(head, self.buckets)[0])

    def home(self, doc_id: bytes) -> list[tuple[str, int, bytes]]:
        """(crawl, host bucket, record_id) of the record that represents a document, in every crawl that has it."""
        out = []
        for crawl in self.crawls:
            for row in self.rows("exact", crawl, self.range_of(doc_id), "doc_id", doc_id):
                if row["first"]:
                    out.append((crawl, row["host_bucket"], row["record_id"]))
        return out

    def provenance(self, crawl: str, bucket: int, row: int, record_id: bytes) -> dict[str, Any]:
        """The provenance row at a locator; one read of one row group.

        A partition made anew under the same fingerprint keeps its rows; should it not, the record is searched for.

        Raises:
            MissingPartitionError: provenance is gone.
            DamagedPartitionError: it does not hold the record.
        """
        key = self.key("provenance", crawl, bucket)
        at = row
        for ref in self.store.require(key).role("data"):
            with self.store.open_file(key, ref) as source:
                file = pq.ParquetFile(source, page_checksum_verification=True)
                for group in range(file.num_row_groups):
                    n = file.metadata.row_group(group).num_rows
                    if at < n:
                        one = file.read_row_group(group, use_threads=False).slice(at, 1)
                        found: dict[str, Any] = one.to_pylist()[0]
                        if found["record_id"] == record_id:
                            return found
                        at = 1 << 62
                    at -= n
        matches = self.rows("provenance", crawl, bucket, "record_id", record_id)
        if not matches:
            raise DamagedPartitionError(f"{key} does not hold record {record_id.hex()} that a shard names")
        return matches[0]

    def chain(self, row: Mapping[str, Any], limit: int = 20) -> list[dict[str, Any]]:
        """Parents of a synthetic document, nearest first: provenance rows, or ``{"doc_id", "missing": True}``."""
        out: list[dict[str, Any]] = []
        parent = row.get("derived_from")
        seen: set[bytes] = set()
        while parent is not None and parent not in seen and len(out) < limit:
            seen.add(parent)
            step: dict[str, Any] | None = None
            for crawl, bucket, record_id in self.home(parent):
                matches = self.rows("provenance", crawl, bucket, "record_id", record_id)
                if matches:
                    step = matches[0]
                    break
            if step is None:
                out.append({"doc_id": parent, "missing": True})
                break
            out.append(step)
            parent = step.get("derived_from")
        return out


def as_id(text: str) -> bytes | None:
    """The 16 bytes of an id in hex, None where it is not one."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return None
    return value if len(value) == ID.byte_width else None
