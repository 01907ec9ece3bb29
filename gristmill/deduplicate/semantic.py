"""Semantic duplicates inside a cluster: best first, each document is compared with the better ones that were kept.

Belongs here: the order, the tiled search. Does not belong here: clusters (``kmeans.py``), which documents have vectors
(``semantic_stages.py``). torch is imported when a function is called.

A document goes when its cosine with a kept one is at least ``1 - epsilon``; so what went always resembles a document
that stays, and chains do not merge. (SemDeDup compares with all better ones, removed or not, and may remove the whole
of a chain but its first.) For every other document the nearest kept better one is noted too: those pairs, read by band
of cosine, are how epsilon is chosen.
"""

from dataclasses import dataclass

import numpy as np

from gristmill.deduplicate.kmeans import WHY
from gristmill.embed.engines import Device, require, torch_device

TILE = 1024  # rows compared at once


@dataclass(frozen=True)
class Verdicts:
    """Of each row of a cluster."""

    nearest: np.ndarray  # int64: row of the kept better document most like it; -1 for the first
    cosine: np.ndarray  # float32: with it; NaN for the first
    removed: np.ndarray  # bool


def order(quality: np.ndarray, when: np.ndarray, record_id: np.ndarray) -> np.ndarray:
    """Rows best first: the higher quality (NaN last), then the order of all duplicates, (fetch time, record id)."""
    found: np.ndarray = np.lexsort((record_id[:, 1], record_id[:, 0], when, -quality.astype(np.float64)))
    return found


def best_first(vectors: np.ndarray, least: float, device: Device = "cpu", tile: int = TILE) -> Verdicts:
    """Greedy verdicts.

    Args:
        vectors: float32[n, dim] of length 1, best first.
        least: cosine at and over which the later document goes.
        device: ``cpu``, ``gpu`` or ``auto``.
        tile: rows compared at once; memory is tile x tile.
    """
    torch = require("torch", WHY)
    n = len(vectors)
    nearest = np.full(n, -1, np.int64)
    cosine = np.full(n, -np.inf, np.float32)
    removed = np.zeros(n, bool)
    x = torch.from_numpy(np.array(vectors, np.float32)).to(torch_device(torch, device))
    kept = np.zeros(0, np.int64)
    for start in range(0, n, tile):
        rows = x[start : start + tile]
        for at in range(0, len(kept), tile):
            block = kept[at : at + tile]
            best = (rows @ x[torch.from_numpy(block).to(x.device)].T).max(dim=1)
            value, which = best.values.cpu().numpy(), block[best.indices.cpu().numpy()]
            better = value > cosine[start : start + tile]  # of equals the first
            cosine[start : start + tile][better] = value[better]
            nearest[start : start + tile][better] = which[better]
        inside = (rows @ rows.T).cpu().numpy()
        stay = np.zeros(len(rows), bool)
        for i in range(len(rows)):
            here = np.flatnonzero(stay[:i])
            if len(here):
                j = here[int(np.argmax(inside[i, here]))]
                if inside[i, j] > cosine[start + i]:
                    cosine[start + i], nearest[start + i] = inside[i, j], start + j
            stay[i] = cosine[start + i] < least
        removed[start : start + tile] = ~stay
        kept = np.append(kept, start + np.flatnonzero(stay))
    cosine[nearest < 0] = np.nan
    return Verdicts(nearest, cosine, removed)
