"""Megatron-LM's indexed dataset (``.bin`` and ``.idx``), out and back in.

Belongs here: that format. Does not belong here: our own shards (``tokens/shard.py``). Pointers are 64-bit from the
first addition on: past 2 GiB, 32-bit ones go negative (Megatron-LM#1672).
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.errors import GristmillError

HEADER = b"MMIDIDX\x00\x00"
CODES: dict[int, Any] = {4: np.dtype("<i4"), 8: np.dtype("<u2")}  # Megatron's DType codes of token types


class MegatronError(GristmillError):
    """An indexed dataset cannot be written or read."""


def dtype_for(vocab_size: int) -> Any:
    """uint16 under 65,500 ids, else int32: Megatron's own choice."""
    return np.dtype("<u2") if vocab_size < 65_500 else np.dtype("<i4")


def index_bytes(lengths: np.ndarray, dtype: Any) -> Iterator[bytes]:
    """The ``.idx`` file, piece by piece: one sequence a document.

    Args:
        lengths: tokens of each document.
        dtype: of a token in ``.bin``.

    Raises:
        MegatronError: a document over 2^31 - 1 tokens, which the format cannot say.
    """
    code = next((c for c, d in CODES.items() if d == np.dtype(dtype)), None)
    if code is None:
        raise MegatronError(f"{dtype} is not a token type of Megatron")
    sizes = np.asarray(lengths, np.int64)
    if len(sizes) and (int(sizes.max()) >= 1 << 31 or int(sizes.min()) < 0):
        raise MegatronError(f"a document of {int(sizes.max()):,} tokens does not fit the format's 32 bits")
    ends = np.cumsum(sizes * np.int64(np.dtype(dtype).itemsize))
    pointers = np.concatenate([np.zeros(min(len(sizes), 1), np.int64), ends[:-1]])
    yield HEADER + struct.pack("<QBQQ", 1, code, len(sizes), len(sizes) + 1)
    yield sizes.astype("<i4").tobytes()
    yield pointers.astype("<i8").tobytes()
    yield np.arange(len(sizes) + 1, dtype="<i8").tobytes()


def write(documents: Iterable[np.ndarray], prefix: str | Path, vocab_size: int) -> int:
    """Write ``prefix.bin`` and ``prefix.idx``; returns the documents written. Neither appears before it is whole.

    Args:
        documents: token ids of each, with BOS and EOS as wanted.
        prefix: of both files.
        vocab_size: decides the token type.

    Raises:
        MegatronError: an id that the token type does not hold.
    """
    dtype = dtype_for(vocab_size)
    top = np.iinfo(dtype).max
    base = Path(prefix)
    base.parent.mkdir(parents=True, exist_ok=True)
    lengths: list[int] = []
    aside = {s: base.with_name(f".{base.name}{s}.part") for s in (".bin", ".idx")}
    try:
        with aside[".bin"].open("wb") as file:
            for ids in documents:
                if len(ids) and int(ids.max()) > top:
                    raise MegatronError(f"token id {int(ids.max())} does not fit {dtype}; vocab_size is {vocab_size}")
                file.write(np.ascontiguousarray(ids).astype(dtype).tobytes())
                lengths.append(len(ids))
        with aside[".idx"].open("wb") as file:
            for piece in index_bytes(np.array(lengths, np.int64), dtype):
                file.write(piece)
        for suffix, path in aside.items():
            path.replace(base.with_name(base.name + suffix))
    finally:
        for path in aside.values():
            path.unlink(missing_ok=True)
    return len(lengths)


@dataclass(frozen=True)
class Index:
    """A parsed ``.idx``."""

    dtype: Any
    lengths: np.ndarray  # int32
    pointers: np.ndarray  # int64, bytes
    documents: np.ndarray  # int64, sequence at which each document starts, and their number


def read_index(data: bytes) -> Index:
    """Parse an ``.idx``. Raises MegatronError for anything else."""
    if data[:9] != HEADER:
        raise MegatronError("not an indexed dataset")
    version, code, sequences, documents = struct.unpack_from("<QBQQ", data, 9)
    at = 9 + 25
    if version != 1 or code not in CODES or len(data) < at + 12 * sequences + 8 * documents:
        raise MegatronError(f"index version {version}, type {code}, {len(data)} bytes: cut short or of another kind")
    lengths = np.frombuffer(data, "<i4", sequences, at)
    pointers = np.frombuffer(data, "<i8", sequences, at + 4 * sequences)
    return Index(CODES[code], lengths, pointers, np.frombuffer(data, "<i8", documents, at + 12 * sequences))


def read(prefix: str | Path) -> Iterator[np.ndarray]:
    """Documents of an indexed dataset as uint32 ids, in order."""
    base = Path(prefix)
    index = read_index(base.with_name(base.name + ".idx").read_bytes())
    with base.with_name(base.name + ".bin").open("rb") as file:
        for first, last in zip(index.documents, index.documents[1:], strict=False):
            parts = []
            for i in range(int(first), int(last)):
                file.seek(int(index.pointers[i]))
                parts.append(np.frombuffer(file.read(int(index.lengths[i]) * index.dtype.itemsize), index.dtype))
            yield (
                np.array(list(chain.from_iterable(parts)), np.uint32) if len(parts) != 1 else parts[0].astype(np.uint32)
            )
