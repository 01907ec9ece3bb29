"""The band index: (band, key) -> documents of earlier crawls, so that a new crawl meets all that came before.

Belongs here: the entries of a generation, and probing a range of it. Does not belong here: what documents match
(``matching.py``), which generations a crawl may see (``generations.py``), and merging them (``compaction.py``).

A generation is a crawl's survivors, one partition a range of keys, immutable: entries sorted by (band, key, doc_id) in
Parquet, where its row groups begin, and a bloom filter beside them. The filter spares reading row groups for keys that
are not there, which is nearly all of them.
"""

import io
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gristmill import schemas
from gristmill.deduplicate import bloom, ids
from gristmill.errors import BandIndexError, DamagedPartitionError
from gristmill.store import FileRef, Key, PartitionManifest, Store

GROUP = 65_536  # rows of a row group
KEEP = 1 << 30  # bytes of decoded row groups that a run keeps

STARTS = pa.schema([("band", pa.uint8()), ("key", pa.uint64())])  # first entry of every row group


@dataclass(frozen=True)
class Entries:
    """Entries in order of (band, key, doc_id)."""

    band: np.ndarray  # uint8
    key: np.ndarray  # uint64
    doc_id: np.ndarray  # uint64[n, 2]
    overflow: int = 0  # postings over the cap, left out

    def table(self) -> pa.Table:
        """The ``BAND_INDEX`` columns."""
        return pa.table({"band": pa.array(self.band), "key": pa.array(self.key), "doc_id": ids.to_array(self.doc_id)})

    def to_bytes(self) -> bytes:
        """The table as Parquet."""
        return encode(schemas.check(self.table(), schemas.BAND_INDEX, "band_index"))

    def starts(self) -> pa.Table:
        """The first entry of each row group."""
        return pa.table({"band": pa.array(self.band[::GROUP]), "key": pa.array(self.key[::GROUP])}, schema=STARTS)


def encode(table: pa.Table) -> bytes:
    """Entries as Parquet in row groups of ``GROUP``: keys as differences, ids as they are (nothing makes them smaller).

    About 22 bytes an entry, where general encodings take 28. The same bytes for the same table.
    """
    sink = io.BytesIO()
    pq.write_table(
        table.combine_chunks(), sink, row_group_size=GROUP, compression="zstd", compression_level=1, version="2.6",
        use_dictionary=["band"], column_encoding={"key": "DELTA_BINARY_PACKED", "doc_id": "PLAIN"},
        write_page_checksum=True, write_statistics=False,
    )
    return sink.getvalue()


def entries(band: np.ndarray, key: np.ndarray, doc_id: np.ndarray, max_postings: int) -> Entries:
    """Sort entries and keep at most ``max_postings`` documents (the smallest ids) of each (band, key)."""
    order = np.lexsort((doc_id[:, 1], doc_id[:, 0], key, band))
    band, key, doc_id = band[order], key[order], doc_id[order]
    new = np.ones(len(key), bool)
    new[1:] = (key[1:] != key[:-1]) | (band[1:] != band[:-1])
    starts = np.flatnonzero(new)
    position = np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
    keep = position < max_postings
    return Entries(band[keep], key[keep], doc_id[keep], int((~keep).sum()))


class Run:
    """One range of a generation, opened for probing.

    Args:
        store, key, manifest: the committed partition.

    Raises:
        BandIndexError: when a file is gone or is not what was committed.
    """

    def __init__(self, store: Store, key: Key, manifest: PartitionManifest, keep: int = KEEP) -> None:
        self._store, self._key, self._room = store, key, keep
        self._kept: OrderedDict[int, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]] = OrderedDict()
        self._used = 0
        try:
            self._data = _only(manifest, "data", key)
            self._filter = bloom.from_bytes(store.read_file(key, _only(manifest, "bloom", key)))
            starts = store.read(key, role="starts")
        except DamagedPartitionError as error:
            raise BandIndexError(f"the band index cannot be trusted: {error}") from error
        self._band = starts["band"].to_numpy().astype(np.uint8)
        self._first = starts["key"].to_numpy().astype(np.uint64)
        if -(-self._data.rows // GROUP) != len(self._first):
            raise BandIndexError(f"the band index cannot be trusted: {key} names {len(self._first)} row groups")

    def probe(self, band: np.ndarray, key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Look keys up.

        Returns:
            For every posting found: the query's row (int64), the document (uint64[m, 2]), and its ``tag`` (int64; the
            number of the crawl in a compacted generation, 0 otherwise).
        """
        maybe = np.flatnonzero(bloom.contains(self._filter, key)) if self._data.rows else np.zeros(0, np.int64)
        if len(maybe) == 0:
            return np.zeros(0, np.int64), np.zeros((0, 2), np.uint64), np.zeros(0, np.int64)
        maybe = maybe[np.lexsort((key[maybe], band[maybe]))]
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for group, queries in self._by_group(band[maybe], key[maybe]):
            rows = maybe[queries]
            held_band, held_key, docs, tags = self._group(group)
            query, at = look_up(held_band, held_key, band[rows], key[rows])
            if len(at):
                found.append((rows[query], docs[at], tags[at] if tags is not None else np.zeros(len(at), np.int64)))
        if not found:
            return np.zeros(0, np.int64), np.zeros((0, 2), np.uint64), np.zeros(0, np.int64)
        rows, docs, tags = (np.concatenate(c) for c in zip(*found))
        return rows, docs, tags

    def _by_group(self, band: np.ndarray, key: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Row groups that may hold queries (in order of band, key), each with its queries' positions."""
        last = _position(self._band, self._first, band, key, "right") - 1
        first = np.maximum(_position(self._band, self._first, band, key, "left") - 1, 0)
        count = last - first + 1  # a posting list may run on into the next group
        count[last < 0] = 0
        which = np.repeat(np.arange(len(band)), count)
        group = spread(first, count)
        order = np.argsort(group, kind="stable")
        group, which = group[order], which[order]
        edges = np.flatnonzero(np.diff(group)) + 1
        for g, w in zip(np.split(group, edges), np.split(which, edges)):
            if len(g):
                yield int(g[0]), w

    def _group(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """A decoded row group; the most recent ones are kept."""
        hit = self._kept.get(number)
        if hit is not None:
            self._kept.move_to_end(number)
            return hit
        try:
            with self._store.open_file(self._key, self._data) as source:
                file = pq.ParquetFile(source, page_checksum_verification=True)
                table = file.read_row_group(number, use_threads=False)
        except (OSError, pa.ArrowException, DamagedPartitionError) as error:
            raise BandIndexError(
                f"the band index cannot be trusted: {self._key}, row group {number}: {error}"
            ) from error
        tags = table["generation"].to_numpy().astype(np.int64) if "generation" in table.column_names else None
        hit = (table["band"].to_numpy(), table["key"].to_numpy(), ids.pairs(table["doc_id"]), tags)
        self._kept[number] = hit
        self._used += table.nbytes
        while self._used > self._room and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._used -= sum(a.nbytes for a in old if a is not None)
        return hit


def _only(manifest: PartitionManifest, role: str, key: Key) -> FileRef:
    refs = manifest.role(role)
    if len(refs) != 1:
        raise BandIndexError(f"the band index cannot be trusted: {key} has {len(refs)} files of role {role!r}")
    return refs[0]


def _position(bands: np.ndarray, keys: np.ndarray, band: np.ndarray, key: np.ndarray, side: str) -> np.ndarray:
    """Positions (``searchsorted``) over (band, key) pairs."""
    out = np.empty(len(band), np.int64)
    for number in np.unique(band).tolist():
        mine = band == number
        low, high = np.searchsorted(bands, [number, number + 1])
        out[mine] = np.searchsorted(keys[low:high], key[mine], side) + low  # type: ignore[call-overload]
    return out


def spread(first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """``first[i]``, ``first[i] + 1``, ... (``count[i]`` of them) for every i, one after the other: int64."""
    return np.repeat(first - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))


def look_up(held_band: np.ndarray, held_key: np.ndarray, band: np.ndarray, key: np.ndarray
            ) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of (a query's row, an entry's row) with the same band and key; entries are in order of both."""
    rows, entries = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number in np.unique(band).tolist():
        mine = np.flatnonzero(band == number)
        low, high = np.searchsorted(held_band, [number, number + 1])
        left = np.searchsorted(held_key[low:high], key[mine], "left") + low
        count = np.searchsorted(held_key[low:high], key[mine], "right") + low - left
        rows.append(np.repeat(mine, count))
        entries.append(spread(left, count))
    return np.concatenate(rows), np.concatenate(entries)
