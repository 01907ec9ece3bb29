"""The sort-based shuffle: each map partition writes one file, cut at range edges; each reducer reads its range of all.

Belongs here: range numbers of hashes, sorting with an explicit order, and cutting a table into row groups by range.
Does not belong here: who reads what (the stages), and paths (``store.py``).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.store import parquet_bytes


def first_uint64(ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The first 8 bytes of 16-byte ids as big-endian uint64, so that numeric order is byte order. No nulls."""
    array = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if array.null_count:
        raise ValueError("an id is null")
    n = len(array)
    if n == 0:
        return np.zeros(0, np.uint64)
    raw = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 16 : (array.offset + n) * 16]
    return np.ascontiguousarray(raw.reshape(n, 16)[:, :8]).view(">u8").ravel().astype(np.uint64)


def range_of(keys: np.ndarray, ranges: int) -> np.ndarray:
    """Which of ``ranges`` equal parts of [0, 2^64) a well-mixed uint64 falls in. Monotone in the key.

    Exact integer arithmetic on the top 32 bits: floor(top32 * ranges / 2^32).
    """
    return (((keys.astype(np.uint64) >> np.uint64(32)) * np.uint64(ranges)) >> np.uint64(32)).astype(np.int64)


def sort_by(table: pa.Table, *keys: str) -> pa.Table:
    """Rows in ascending order of ``keys`` (nulls last); ties keep their input order."""
    if table.num_rows < 2:
        return table
    order = "__order"
    with_order = table.select(list(keys)).append_column(order, pa.array(np.arange(table.num_rows, dtype=np.int64)))
    names = [*[(k, "ascending") for k in keys], (order, "ascending")]
    return table.take(pc.sort_indices(with_order, sort_keys=names))


def cut(table: pa.Table, numbers: np.ndarray, ranges: int) -> tuple[bytes, dict[str, list[int]]]:
    """Parquet bytes with one row group a non-empty range, and which row group holds which range.

    Args:
        table: rows in any order; inside a range they keep it, so sort first.
        numbers: int, the range of each row, in [0, ranges).
        ranges: how many there are.
    """
    order = np.argsort(numbers, kind="stable")
    table = table.take(pa.array(order))
    counts = np.bincount(numbers, minlength=ranges) if len(numbers) else np.zeros(ranges, np.int64)
    if len(counts) != ranges:
        raise ValueError(f"range number {int(numbers.max())} is outside [0, {ranges})")
    groups: list[tuple[int, int]] = []
    where: dict[str, list[int]] = {}
    start = 0
    for number, count in enumerate(counts.tolist()):
        if count:
            where[str(number)] = [len(groups)]
            groups.append((start, count))
            start += count
    return parquet_bytes(table, groups), where
