"""The shuffle: every row in exactly one range, ranges in the order of the key, sorting with an explicit order."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.shuffle import cut, first_uint64, range_of, sort_by


@given(st.lists(st.integers(0, 2**64 - 1), max_size=200), st.integers(1, 100))
def test_ranges_are_monotone_and_in_bounds(keys, ranges):
    numbers = range_of(np.array(sorted(keys), np.uint64), ranges)
    assert ((numbers >= 0) & (numbers < ranges)).all()
    assert (np.diff(numbers) >= 0).all()


def test_ranges_are_equal_parts():
    keys = np.random.default_rng(0).integers(0, 2**64, 64_000, dtype=np.uint64)
    counts = np.bincount(range_of(keys, 64), minlength=64)
    assert counts.min() > 850
    assert counts.max() < 1150


def test_id_order_is_byte_order():
    ids = sorted(np.random.default_rng(1).bytes(16) for _ in range(500))
    assert (np.diff(first_uint64(pa.array(ids, pa.binary(16))).astype(object)) >= 0).all()
    sliced = pa.array(ids, pa.binary(16)).slice(100, 50)
    assert first_uint64(sliced).tolist() == [int.from_bytes(i[:8], "big") for i in ids[100:150]]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 6), max_size=60))
def test_a_cut_file_gives_every_row_back_by_range(numbers):
    table = pa.table({"n": pa.array(numbers, pa.int64()), "row": pa.array(range(len(numbers)), pa.int64())})
    data, where = cut(table, np.array(numbers, np.int64), 7)
    file = pq.ParquetFile(io.BytesIO(data))
    seen = []
    for number in range(7):
        groups = where.get(str(number), [])
        part = file.read_row_groups(groups) if groups else table.schema.empty_table()
        assert set(part["n"].to_pylist()) <= {number}
        assert part["row"].to_pylist() == sorted(part["row"].to_pylist())
        seen += part["row"].to_pylist()
    assert sorted(seen) == list(range(len(numbers)))


def test_sorting_is_stable():
    table = pa.table({"k": [2, 1, 2, 1, None], "v": [0, 1, 2, 3, 4]})
    assert sort_by(table, "k")["v"].to_pylist() == [1, 3, 0, 2, 4]
