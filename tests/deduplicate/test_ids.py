import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.deduplicate import ids

# Few values in each half, so that first halves collide and order depends on the second.
HALF = st.sampled_from([b"\x00" * 8, b"\x00" * 7 + b"\x01", b"\xff" * 8, b"\x80" + b"\x00" * 7])
IDS = st.lists(st.builds(lambda a, b: a + b, HALF, HALF), max_size=30)


@given(IDS)
def test_pairs_order_as_bytes(values: list[bytes]):
    pairs = ids.pairs(pa.array(values, pa.binary(16)))
    assert ids.to_array(pairs).to_pylist() == values
    assert ids.to_array(pairs[ids.argsort(pairs)]).to_pylist() == sorted(values)
    assert ids.to_array(ids.unique(pairs)).to_pylist() == sorted(set(values))


@given(IDS, IDS)
def test_find_is_a_look_up(have: list[bytes], wanted: list[bytes]):
    ordered = sorted(set(have))
    found = ids.find(ids.pairs(pa.array(ordered, pa.binary(16))), ids.pairs(pa.array(wanted, pa.binary(16))))
    assert found.tolist() == [ordered.index(w) if w in ordered else -1 for w in wanted]


def test_nulls_come_from_the_mask_and_are_refused_as_input():
    pairs = ids.pairs(pa.array([b"a" * 16, b"b" * 16], pa.binary(16)))
    assert ids.to_array(pairs, pairs[:, 0] > 0x62 << 56).to_pylist() == [None, b"b" * 16]
    with pytest.raises(ValueError, match="1 of 2 ids are null"):
        ids.pairs(pa.array([b"a" * 16, None], pa.binary(16)))
