"""Shard bytes: the format as written down, and every kind of damage seen."""

import hashlib
import struct

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import ShardError
from gristmill.tokens import shard


def made(documents=40, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 40_000, documents)
    tokens = rng.integers(0, 1 << 32, lengths.sum(), dtype=np.uint32)
    return tokens, np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)


def test_the_bytes_are_those_of_the_contract():
    tokens, offsets = made()
    data, idx = shard.encode(tokens, offsets)
    assert data == tokens.astype("<u4").tobytes()
    blocks = -(-len(data) // 2**20)
    assert idx[:32] == b"GRISTIDX" + struct.pack("<IIQQ", 1, 20, 40, blocks)
    assert idx[32 : 32 + 8 * 41] == offsets.astype("<u8").tobytes()
    sums = struct.unpack(f"<{blocks}Q", idx[32 + 8 * 41 :])
    assert sums == tuple(xxhash.xxh3_64_intdigest(data[i << 20 : (i + 1) << 20]) for i in range(blocks))
    assert shard.content_hash(data, idx) == hashlib.sha256(data + idx).hexdigest()


def test_an_index_reads_back():
    tokens, offsets = made()
    data, idx = shard.encode(tokens, offsets)
    index = shard.verify(data, idx, shard.content_hash(data, idx))
    assert (index.documents, index.tokens) == (40, len(tokens))
    assert (index.offsets == offsets).all()


def test_an_empty_shard_is_a_shard():
    data, idx = shard.encode(np.zeros(0, np.uint32), np.array([0]))
    assert shard.verify(data, idx).documents == 0


@given(st.data())
def test_any_flipped_bit_is_seen(data):
    tokens, offsets = made(5, 3)
    raw, idx = (bytearray(x) for x in shard.encode(tokens, offsets))
    name = shard.content_hash(raw, idx)
    which = data.draw(st.sampled_from([raw, idx]))
    which[data.draw(st.integers(0, len(which) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ShardError):
        shard.verify(bytes(raw), bytes(idx), name)


def test_a_flipped_token_is_seen_without_the_hash_and_its_block_named():
    tokens, offsets = made()
    raw, idx = shard.encode(tokens, offsets)
    damaged = bytearray(raw)
    damaged[(1 << 20) + 5] ^= 1
    with pytest.raises(ShardError, match=r"block 1 \(bytes 1048576 on\)"):
        shard.verify(bytes(damaged), idx)
    with pytest.raises(ShardError, match="bytes for"):
        shard.verify(raw[:-4], idx)


@pytest.mark.parametrize(
    "idx", [b"", b"GRISTIDX", b"NOTANIDX" + bytes(24), b"GRISTIDX" + struct.pack("<IIQQ", 2, 20, 0, 0)])
def test_what_is_not_an_index_is_refused(idx):
    with pytest.raises(ShardError):
        shard.read_idx(idx, "x.idx")


@pytest.mark.parametrize("offsets", [[0, 3, 2, 5], [1, 5], [0, 4], [0, 6], []])
def test_offsets_that_do_not_describe_the_tokens_are_refused(offsets):
    with pytest.raises(ShardError):
        shard.encode(np.arange(5, dtype=np.uint32), np.array(offsets, np.int64))


def test_ids_past_32_bits_are_refused_and_the_largest_kept():
    assert shard.encode(np.array([0xFFFFFFFF]), np.array([0, 1]))[0] == b"\xff\xff\xff\xff"
    with pytest.raises(ShardError, match="32 bits"):
        shard.encode(np.array([1 << 32]), np.array([0, 1]))
    with pytest.raises(ShardError, match="32 bits"):
        shard.encode(np.array([-1]), np.array([0, 1]))


def test_offsets_past_two_to_the_31_and_32_read_back():
    # Only the index: a shard of 6e9 tokens would be 24 GB. Offsets kept in 32 bits would be negative or wrap here.
    ends = np.array([0, 2**31 - 1, 2**31 + 7, 2**32 + 11, 6_000_000_000], "<u8")
    blocks = -(-6_000_000_000 * 4 // 2**20)
    raw = b"GRISTIDX" + struct.pack("<IIQQ", 1, 20, 4, blocks) + ends.tobytes() + bytes(8 * blocks)
    index = shard.read_idx(raw)
    assert index.tokens == 6_000_000_000
    assert index.offsets.tolist() == ends.tolist()
