"""How much of a bucket lies with few hosts: what the margins of the yield checks are made of.

Belongs here: the one measure, as stages report it. Does not belong here: judging with it (``observe/judge.py``).
"""

from typing import Any

import numpy as np


def clump(weights: np.ndarray) -> float:
    """How many documents share a document's host, on average over documents; 1 where there are none.

    Args:
        weights: numbers of documents [hosts].
    """
    n = weights.astype(np.float64)
    return float((n * n).sum() / n.sum()) if n.sum() else 1.0


def facts(host_id: np.ndarray, n_bytes: np.ndarray) -> dict[str, Any]:
    """``clump`` and ``clump_bytes`` of documents, as a stage reports them.

    By bytes it is the number of documents over that of hosts with equal parts that would scatter as much: documents
    times the sum of squares of the hosts' shares of bytes (Kish 1965, Survey Sampling, 8.2).

    Args:
        host_id: uint64 [documents].
        n_bytes: integer [documents].
    """
    if not len(host_id):
        return {"clump": 1.0, "clump_bytes": 1.0}
    _, host = np.unique(host_id, return_inverse=True)
    size = np.bincount(host, weights=n_bytes.astype(np.float64))
    shares = size / size.sum() if size.sum() else np.zeros(1)
    return {"clump": round(clump(np.bincount(host)), 3),
            "clump_bytes": round(max(len(host_id) * float((shares * shares).sum()), 1.0), 3)}
