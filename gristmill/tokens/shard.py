"""The bytes of a token shard: a flat token file and the index that lets a reader fetch and verify ranges of it.

Belongs here: the two formats, their content hash, and block checksums. Does not belong here: which documents go into a
shard (``tokens/stages.py``), where shards lie, or how sequences are cut from them (``packing.py``).

``.bin`` is flat little-endian uint32, no framing. ``.idx`` is, little-endian: ``GRISTIDX``, u32 version (1), u32 log2
of the checksum block in bytes (20), u64 documents d, u64 blocks k, u64[d + 1] token offsets, u64[k] xxh3-64 of each
block.
"""

import hashlib
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from gristmill.errors import ShardError

MAGIC = b"GRISTIDX"
VERSION = 1
BLOCK_LOG2 = 20  # 1 MiB: 128 sequences of 2,048 tokens share one checksum, and one range request
BLOCK = 1 << BLOCK_LOG2
TOKEN_BYTES = 4
_HEADER = struct.Struct("<8sIIQQ")

U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Index:
    """A parsed ``.idx``. Arrays are views of the bytes it was read from.

    Attributes:
        offsets: uint64 [documents + 1], in tokens; document ``i`` is tokens ``offsets[i]:offsets[i + 1]``.
        block_checksums: uint64 [blocks], xxh3-64 of each block of the ``.bin``.
        block_log2: log2 of a block's bytes.
    """

    offsets: U64
    block_checksums: U64
    block_log2: int

    @property
    def documents(self) -> int:
        """How many documents."""
        return len(self.offsets) - 1

    @property
    def tokens(self) -> int:
        """How many tokens."""
        return int(self.offsets[-1])


def checksum(block: Any) -> int:
    """xxh3-64 of one block's bytes."""
    return xxhash.xxh3_64_intdigest(block)


def encode(tokens: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> tuple[bytes, bytes]:
    """One shard's bytes.

    Args:
        tokens: uint32 [n], documents end to end.
        offsets: integers [documents + 1], in tokens, from 0 to n, never falling.

    Returns:
        (``.bin``, ``.idx``).

    Raises:
        ShardError: when the offsets do not describe the tokens, or a token does not fit 32 bits.
    """
    values = np.asarray(tokens)
    if values.dtype != np.uint32:
        if values.size and (int(values.min()) < 0 or int(values.max()) > 0xFFFFFFFF):
            raise ShardError("a token id does not fit 32 bits")
        values = values.astype(np.uint32)
    ends = np.asarray(offsets).astype(np.int64)
    if ends.ndim != 1 or not len(ends) or ends[0] != 0 or ends[-1] != len(values) or bool((np.diff(ends) < 0).any()):
        raise ShardError(f"offsets must rise from 0 to the {len(values)} tokens; got {ends[:3]}...{ends[-3:]}")
    data = values.astype("<u4", copy=False).tobytes()
    view = memoryview(data)
    sums = [checksum(view[start : start + BLOCK]) for start in range(0, len(data), BLOCK)]
    header = _HEADER.pack(MAGIC, VERSION, BLOCK_LOG2, len(ends) - 1, len(sums))
    return data, header + ends.astype("<u8").tobytes() + np.array(sums, "<u8").tobytes()


def content_hash(data: bytes, index: bytes) -> str:
    """The shard's name: sha256 (hex) of ``.bin`` followed by ``.idx``."""
    digest = hashlib.sha256(data)
    digest.update(index)
    return digest.hexdigest()


def read_idx(data: Any, where: str = "index") -> Index:
    """Parse an ``.idx`` (bytes, or anything with a buffer such as a memory map).

    Raises:
        ShardError: naming ``where``, when it is not an index, is cut short, or contradicts itself.
    """
    view = memoryview(data)
    if len(view) < _HEADER.size or bytes(view[:8]) != MAGIC:
        raise ShardError(f"{where} is not a shard index")
    _, version, log2, documents, blocks = _HEADER.unpack(view[: _HEADER.size])
    if version != VERSION:
        raise ShardError(f"{where} has index version {version}; this release reads {VERSION}")
    if len(view) != _HEADER.size + 8 * (documents + 1 + blocks):
        raise ShardError(f"{where} is cut short: {len(view)} bytes for {documents} documents and {blocks} blocks")
    offsets = np.frombuffer(view, "<u8", documents + 1, _HEADER.size)
    sums = np.frombuffer(view, "<u8", blocks, _HEADER.size + 8 * (documents + 1))
    tokens = int(offsets[-1])
    if int(offsets[0]) != 0 or bool((offsets[1:] < offsets[:-1]).any()):
        raise ShardError(f"{where}: document offsets do not rise from 0")
    if blocks != -(-tokens * TOKEN_BYTES // (1 << log2)):
        raise ShardError(f"{where}: {blocks} checksums for {tokens} tokens")
    return Index(offsets, sums, log2)


def verify(data: Any, index: Any, expected_hash: str | None = None, where: str = "shard") -> Index:
    """Check a whole shard: sizes, every block, and the content hash where it is given.

    Raises:
        ShardError: naming the first block that differs.
    """
    parsed = read_idx(index, where)
    view = memoryview(data).cast("B")
    if len(view) != parsed.tokens * TOKEN_BYTES:
        raise ShardError(f"{where}: {len(view)} bytes for {parsed.tokens} tokens")
    size = 1 << parsed.block_log2
    for block, wanted in enumerate(parsed.block_checksums):
        if checksum(view[block * size : (block + 1) * size]) != int(wanted):
            raise ShardError(f"{where}: block {block} (bytes {block * size} on) does not match its checksum")
    if expected_hash is not None:
        digest = hashlib.sha256(view)
        digest.update(memoryview(index).cast("B"))
        if digest.hexdigest() != expected_hash:
            raise ShardError(f"{where}: content hash {digest.hexdigest()} is not {expected_hash}")
    return parsed
