"""Every shard that a manifest may name, by content hash, in columns: a million take some 250 MB, as objects 650.

Belongs here: that table and looking up in it. Does not belong here: which shards there are (``examine.py``).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

HEX = 64


class Named(NamedTuple):
    """A shard that a manifest may name."""

    stratum: str
    path: str
    n_docs: int
    n_tokens: int


class ShardTable(Mapping[str, Named]):
    """Content hash -> shard, in order of hashes; of a hash that is given twice the last row counts.

    Args:
        table: columns ``hash`` (64 hexadecimal digits) and those of ``Named``.
    """

    def __init__(self, table: pa.Table) -> None:
        given = _keys(table.column("hash"))
        order = np.argsort(given, kind="stable")
        sorted_ = given[order]
        last = np.ones(len(order), bool)
        last[:-1] = sorted_[1:] != sorted_[:-1]
        self._hashes = sorted_[last]
        rows = pa.array(order[last])
        self._columns = []
        for name in Named._fields:
            column = table.column(name).combine_chunks()
            if name == "stratum":
                column = column.dictionary_encode()
            self._columns.append(column.take(rows))

    def __getitem__(self, name: str) -> Named:
        key = name.encode("ascii")
        at = int(np.searchsorted(self._hashes, key))
        if at == len(self._hashes) or self._hashes[at] != key:
            raise KeyError(name)
        return Named(*(column[at].as_py() for column in self._columns))

    def __iter__(self) -> Iterator[str]:
        return (key.decode("ascii") for key in self._hashes)

    def __len__(self) -> int:
        return len(self._hashes)


def _keys(column: pa.ChunkedArray) -> np.ndarray:
    """The hashes as an array of bytes, without a Python object each."""
    whole = column.cast(pa.large_string()).combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) and whole.num_chunks else whole
    if not len(whole):
        return np.zeros(0, f"S{HEX}")
    edges = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole) + 1]
    if not (np.diff(edges) == HEX).all():
        raise ValueError("a content hash has 64 hexadecimal digits")
    return np.frombuffer(whole.buffers()[2], np.uint8)[edges[0] : edges[-1]].view(f"S{HEX}")
