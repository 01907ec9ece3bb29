"""Spherical k-means over embeddings, seeded and the same on every run: centroids, assignment, and a cap on sizes.

Belongs here: training, assigning, and splitting what is over the cap. Does not belong here: embeddings
(``gristmill/embed``) and what is done inside a cluster (``semantic.py``). torch is imported when a function is called.

Vectors have length 1, so the nearest centroid has the largest dot product. The first centroids are the vectors with the
smallest keyed hash of their document's id, so no order of rows decides anything. A centroid that nothing is nearest to
moves to the vector that its own centroid fits worst.
"""

from typing import Any

import numpy as np

from gristmill.embed.engines import Device, require, torch_device
from gristmill.errors import ParameterError

CELLS = 1 << 26  # similarities in memory together: 256 MiB
DEPTH = 8  # splits of splits; what is still over the cap then is cut by order
WHY = "removal of semantic duplicates (params.semantic.tiers)"


def rank(doc_id: np.ndarray, seed: int) -> np.ndarray:
    """uint64[n]: a keyed hash of ids (uint64[n, 2]), the order in which documents are drawn."""
    key = np.uint64((seed * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
    return _mix(_mix(doc_id[:, 0] ^ key) ^ doc_id[:, 1])


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64, over an array."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def train(vectors: np.ndarray, drawn: np.ndarray, k: int, *, iterations: int, device: Device = "cpu") -> np.ndarray:
    """Centroids of ``vectors``, float32[k, dim], each of length 1.

    Args:
        vectors: float32[n, dim] of length 1, n at least k.
        drawn: uint64[n], ``rank``: the k smallest are the first centroids.
        iterations: at most; it stops when no label moves.
        device: ``cpu``, ``gpu`` or ``auto``.
    """
    torch = require("torch", WHY)
    where = torch_device(torch, device)
    x = torch.from_numpy(np.ascontiguousarray(vectors)).to(where)
    first = np.sort(np.argsort(drawn, kind="stable")[:k])
    centroids = x[torch.from_numpy(first).to(where)].clone()
    before = None
    with _deterministic(torch):
        for _ in range(iterations):
            labels, like = _nearest(torch, x, centroids)
            if before is not None and torch.equal(labels, before):
                break
            before = labels
            sums = torch.zeros(centroids.shape, dtype=torch.float64, device=where)
            sums.index_add_(0, labels, x.double())
            counts = torch.bincount(labels, minlength=k)
            norms = sums.norm(dim=1, keepdim=True)
            centroids = torch.where(norms > 0, sums / norms.clamp_min(1e-30), centroids.double()).float()
            empty = torch.nonzero(counts == 0).flatten()
            if len(empty):
                worst = torch.argsort(like, stable=True)[: len(empty)]
                centroids[empty] = x[worst]
    found: np.ndarray = centroids.cpu().numpy()
    return found


def train_cuml(vectors: np.ndarray, k: int, *, iterations: int, seed: int) -> np.ndarray:
    """As ``train``, by cuML: faster on a GPU, and the same again only on the same GPU and version.

    Raises:
        ModelError: cuML is not installed.
    """
    cluster = require("cuml.cluster", "params.semantic.kmeans: cuml")
    fitted = cluster.KMeans(n_clusters=k, max_iter=iterations, random_state=seed, output_type="numpy").fit(vectors)
    centroids = np.asarray(fitted.cluster_centers_, np.float32)
    return centroids / np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), 1e-12)


def assign(vectors: np.ndarray, centroids: np.ndarray, device: Device = "cpu") -> np.ndarray:
    """int64[n]: the centroid nearest to each vector, the first of equals."""
    torch = require("torch", WHY)
    where = torch_device(torch, device)
    labels, _ = _nearest(torch, torch.from_numpy(np.array(vectors, np.float32)).to(where),
                         torch.from_numpy(np.ascontiguousarray(centroids)).to(where))
    found: np.ndarray = labels.cpu().numpy()
    return found


def split(vectors: np.ndarray, drawn: np.ndarray, cap: int, *, iterations: int, sample: int, device: Device = "cpu",
          depth: int = DEPTH) -> tuple[np.ndarray, int]:
    """A second k-means inside a cluster over the cap, again where a part is still over it.

    Args:
        vectors, drawn: as in ``train``, of the cluster's members in order of doc_id.
        cap: members a part may have.
        sample: members that centroids are trained on.

    Returns:
        int64[n], parts from 0; and how many members stand in parts that k-means could not split (equal vectors) and
        that were cut by order instead, where a pair may be missed.
    """
    n = len(vectors)
    if n <= cap:
        return np.zeros(n, np.int64), 0
    k = -(-2 * n // cap)
    if depth == 0:
        return np.arange(n) // cap, n
    chosen = np.sort(np.argsort(drawn, kind="stable")[: max(sample, k)])
    labels = assign(vectors, train(vectors[chosen], drawn[chosen], k, iterations=iterations, device=device), device)
    out = np.zeros(n, np.int64)
    parts, cut = 0, 0
    for label in np.unique(labels).tolist():
        mine = np.flatnonzero(labels == label)
        left = depth - 1 if len(mine) < n else 0  # nothing was split off: it would go on for ever
        inner, more = split(vectors[mine], drawn[mine], cap, iterations=iterations, sample=sample, device=device,
                            depth=left)
        out[mine] = parts + inner
        parts += int(inner.max()) + 1
        cut += more
    return out, cut


def clusters_for(n: int, docs_per_cluster: int) -> int:
    """How many clusters n documents get."""
    if docs_per_cluster < 1:
        raise ParameterError("semantic.docs_per_cluster must be 1 or more")
    return max(1, -(-n // docs_per_cluster))


def _nearest(torch: Any, x: Any, centroids: Any) -> tuple[Any, Any]:
    """Label and similarity of each row, some rows at a time."""
    labels = torch.empty(len(x), dtype=torch.int64, device=x.device)
    like = torch.empty(len(x), dtype=torch.float32, device=x.device)
    step = max(1, CELLS // max(len(centroids), 1))
    turned = centroids.T.contiguous()
    for start in range(0, len(x), step):
        best = (x[start : start + step] @ turned).max(dim=1)
        like[start : start + step] = best.values
        labels[start : start + step] = best.indices
    return labels, like


class _deterministic:  # noqa: N801 - reads as a word of the with statement
    """torch's sums on a GPU in one order, while inside."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def __enter__(self) -> None:
        self.before = self.torch.are_deterministic_algorithms_enabled()
        self.torch.use_deterministic_algorithms(True, warn_only=True)

    def __exit__(self, *_: object) -> None:
        self.torch.use_deterministic_algorithms(self.before)
