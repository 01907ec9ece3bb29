import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.interchange import megatron as lib


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(0, 65_499), max_size=20), max_size=12), st.sampled_from([1000 * 65, 200_000]))
def test_round_trips_are_identical(tmp_path_factory, docs, vocab):
    prefix = tmp_path_factory.mktemp("m") / "x"
    assert lib.write((np.array(d, np.uint32) for d in docs), prefix, vocab) == len(docs)
    assert [d.tolist() for d in lib.read(prefix)] == docs


def test_the_header_is_megatrons():
    data = b"".join(lib.index_bytes(np.array([3, 0, 5]), np.dtype("<i4")))
    assert data[:9] == b"MMIDIDX\x00\x00"
    assert struct.unpack_from("<QBQQ", data, 9) == (1, 4, 3, 4)
    assert np.frombuffer(data, "<i4", 3, 34).tolist() == [3, 0, 5]
    assert np.frombuffer(data, "<i8", 3, 46).tolist() == [0, 12, 12]
    assert np.frombuffer(data, "<i8", 4, 70).tolist() == [0, 1, 2, 3]
    assert len(data) == 102


def test_pointers_stay_positive_past_two_gib():
    """32-bit pointers go negative there (Megatron-LM#1672)."""
    lengths = np.full(5000, 1_000_000, np.int32)  # 18.6 GiB of int32 tokens
    index = lib.read_index(b"".join(lib.index_bytes(lengths, np.dtype("<i4"))))
    assert (np.diff(index.pointers) == 4_000_000).all()
    assert int(index.pointers[-1]) == 4999 * 4_000_000


def test_a_sparse_file_past_two_gib_is_read_at_its_end(tmp_path):
    """A real file, with holes: the last document lies beyond 2^31 bytes."""
    lengths = np.array([300_000_000, 300_000_000, 4], np.int64)
    prefix = tmp_path / "big"
    with (tmp_path / "big.bin").open("wb") as file:
        file.seek(2_400_000_000)
        file.write(np.array([1, 2, 3, 4], "<i4").tobytes())
    (tmp_path / "big.idx").write_bytes(b"".join(lib.index_bytes(lengths, np.dtype("<i4"))))
    index = lib.read_index((tmp_path / "big.idx").read_bytes())
    with (tmp_path / "big.bin").open("rb") as file:
        file.seek(int(index.pointers[2]))
        assert np.frombuffer(file.read(), "<i4").tolist() == [1, 2, 3, 4]
    assert prefix.name == "big"


def test_what_does_not_fit_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(lib.MegatronError, match="70000"):
        lib.write([np.array([70_000], np.uint32)], tmp_path / "x", 60_000)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(lib.MegatronError, match="32 bits"):
        list(lib.index_bytes(np.array([1 << 31]), np.dtype("<i4")))
    with pytest.raises(lib.MegatronError):
        lib.read_index(b"nonsense")
    with pytest.raises(lib.MegatronError):
        lib.read_index(b"".join(lib.index_bytes(np.array([3]), np.dtype("<i4")))[:-9])
