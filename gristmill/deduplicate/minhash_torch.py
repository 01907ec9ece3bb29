"""Signatures on a GPU (or in torch on a CPU): the same integers as ``minhash.py``.

Belongs here: the minima over permutations, in torch. Does not belong here: shingling, which stays in the kernel over
Arrow buffers. torch is imported when a function is called, never before; the library's base does not need it.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.deduplicate.minhash import EMPTY, permutations, shingle_table
from gristmill.observe import profile_meter as meter

CELLS = 1 << 26  # shingles x permutations in one step: 256 MiB of int32
_SIGN = -(1 << 31)  # flips the sign bit, so that a signed comparison orders unsigned values


def signatures(texts: pa.Array | pa.ChunkedArray, *, shingle: str = "word", n: int = 5, size: int = 112, seed: int = 1,
               fold_digits: bool = False, device: str = "cuda", cells: int = CELLS) -> tuple[np.ndarray, np.ndarray]:
    """As ``minhash.signatures``: uint32[texts, size] and int32[texts].

    Args:
        device: ``cuda``, ``cpu``, or any other that torch knows.
        cells: memory of one step; any number gives the same integers.
    """
    hashes, edges = shingle_table(texts, shingle, n, fold_digits=fold_digits)
    return sign(hashes, edges, size=size, seed=seed, device=device, cells=cells), np.diff(edges).astype(np.int32)


def sign(hashes: np.ndarray, edges: np.ndarray, *, size: int, seed: int, device: str = "cuda", cells: int = CELLS
         ) -> np.ndarray:
    """Minima of ``size`` permutations over each text's shingle hashes.

    Args:
        hashes: uint64, all texts' shingles.
        edges: int64[texts + 1], where each text's begin.

    Returns:
        uint32[texts, size]; a text without shingles has the largest value everywhere.
    """
    import torch

    with meter.gpu(device):
        a, b = (torch.from_numpy(p.view(np.int32).copy()).to(device) for p in permutations(size, seed))
        low = (hashes & np.uint64(EMPTY)).astype(np.uint32).view(np.int32)
        of = np.repeat(np.arange(len(edges) - 1, dtype=np.int64), np.diff(edges))
        out = torch.full((len(edges) - 1, size), (1 << 31) - 1, dtype=torch.int32, device=device)
        step = max(1, cells // size)
        for start in range(0, len(low), step):
            x = torch.from_numpy(low[start : start + step]).to(device)
            rows = torch.from_numpy(of[start : start + step]).to(device)
            values = (x[:, None] * a + b) ^ _SIGN  # int32 wraps modulo 2^32
            out.scatter_reduce_(0, rows[:, None].expand(-1, size), values, "amin")
        return _unsigned(out)


def _unsigned(values: Any) -> np.ndarray:
    found: np.ndarray = (values ^ _SIGN).cpu().numpy().view(np.uint32)
    return found
