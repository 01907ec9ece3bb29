"""Signatures and embeddings of a crawl, fetched by locator (host bucket, row) from the raw files of their buckets.

Belongs here: reading rows of a matrix file by memory map or by range. Does not belong here: what the numbers say.
"""

import numpy as np
import pyarrow as pa

from gristmill.partition import Partition

GAP = 64  # rows; on an object store one longer read is cheaper than two requests


def read_matrix(part: Partition, bucket: int, size: int, asset: str = "signatures", role: str = "signatures",
                dtype: str = "<u4") -> np.ndarray:
    """All rows of a bucket's matrix (of 4-byte numbers), [rows, size], verified."""
    ref = part.manifest(asset, bucket).role(role)[0]
    raw = part.store.read_file(part.key(asset, bucket), ref)
    return np.frombuffer(raw, dtype).reshape(-1, size)


def gather(part: Partition, host_bucket: np.ndarray, row: np.ndarray, size: int, asset: str = "signatures",
           role: str = "signatures", dtype: str = "<u4") -> np.ndarray:
    """The rows at (host_bucket[i], row[i]), [n, size]; only they are read."""
    out = np.empty((len(row), size), np.dtype(dtype).newbyteorder("="))
    width = 4 * size
    for bucket in np.unique(host_bucket).tolist():
        mine = np.flatnonzero(host_bucket == bucket)
        ref = part.manifest(asset, bucket).role(role)[0]
        with part.store.open_file(part.key(asset, bucket), ref) as source:
            if isinstance(source, pa.MemoryMappedFile):
                whole = np.frombuffer(source.read_buffer(), dtype).reshape(-1, size)
                out[mine] = whole[row[mine]]
                continue
            mine = mine[np.argsort(row[mine], kind="stable")]
            wanted = row[mine].astype(np.int64)
            cuts = np.flatnonzero(np.diff(wanted) > GAP) + 1
            for run, rows in zip(np.split(mine, cuts), np.split(wanted, cuts)):
                first, count = int(rows[0]), int(rows[-1] - rows[0]) + 1
                source.seek(first * width)
                block = np.frombuffer(source.read(count * width), dtype).reshape(count, size)
                out[run] = block[rows - first]
    return out
