"""k-means: the same clusters on every run and in any order, none empty, none over the cap."""

import numpy as np
import pytest

pytest.importorskip("torch")

from gristmill.deduplicate import kmeans
from gristmill.errors import ModelError


def unit(rng: np.random.Generator, n: int, dim: int = 16) -> np.ndarray:
    x = rng.normal(size=(n, dim)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def blobs(rng: np.random.Generator, centres: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    truth = np.repeat(np.arange(centres), each)
    x = unit(rng, centres, 32)[truth] + 0.02 * rng.normal(size=(len(truth), 32)).astype(np.float32)
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), truth


def some_ids(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, 1 << 63, size=(n, 2), dtype=np.int64).astype(np.uint64)


def partition(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == v).tolist()) for v in np.unique(labels)}


def test_well_apart_blobs_are_found_whatever_the_order():
    rng = np.random.default_rng(5)
    x, truth = blobs(rng, 6, 40)
    doc = some_ids(rng, len(x))
    drawn = kmeans.rank(doc, 3)
    centroids = kmeans.train(x, drawn, 12, iterations=30)
    assert np.allclose(np.linalg.norm(centroids, axis=1), 1, atol=1e-5)
    labels = kmeans.assign(x, centroids)
    for group in partition(labels):
        assert len({truth[i] for i in group}) == 1, "with more clusters than blobs no cluster mixes two"
    assert len(np.unique(labels)) == 12, "a centroid without members moved to where one was wanting"
    again = kmeans.assign(x, kmeans.train(x, drawn, 12, iterations=30))
    assert np.array_equal(labels, again)
    order = rng.permutation(len(x))
    mixed = kmeans.assign(x[order], kmeans.train(x[order], drawn[order], 12, iterations=30))
    back = np.empty_like(mixed)
    back[order] = mixed
    assert partition(back) == partition(labels)


def test_assignment_is_the_nearest_centroid_in_pieces_too(monkeypatch):
    rng = np.random.default_rng(6)
    x, centroids = unit(rng, 500), unit(rng, 23)
    plain = (x.astype(np.float64) @ centroids.T.astype(np.float64)).argmax(axis=1)
    assert np.array_equal(kmeans.assign(x, centroids), plain)
    monkeypatch.setattr(kmeans, "CELLS", 100)
    assert np.array_equal(kmeans.assign(x, centroids), plain)


def test_no_part_is_over_the_cap_and_equal_vectors_are_cut_and_counted():
    rng = np.random.default_rng(7)
    x = unit(rng, 1_000)
    drawn = kmeans.rank(some_ids(rng, len(x)), 1)
    parts, cut = kmeans.split(x, drawn, 100, iterations=10, sample=500)
    sizes = np.bincount(parts)
    assert sizes.max() <= 100
    assert sizes.min() >= 1, "numbers without a gap"
    assert cut == 0
    assert np.array_equal(parts, kmeans.split(x, drawn, 100, iterations=10, sample=500)[0])
    same = np.repeat(x[:1], 250, axis=0)
    parts, cut = kmeans.split(same, drawn[:250], 100, iterations=10, sample=500)
    assert np.bincount(parts).max() <= 100
    assert cut == 250, "k-means cannot split equal vectors: cut by order, and said"
    one, none = kmeans.split(x[:50], drawn[:50], 100, iterations=10, sample=500)
    assert (one == 0).all()
    assert none == 0


def test_documents_are_drawn_by_seed():
    doc = some_ids(np.random.default_rng(8), 1_000)
    first, second = (np.argsort(kmeans.rank(doc, seed))[:100] for seed in (1, 2))
    assert len(np.intersect1d(first, second)) < 40, "another seed draws others: 10 are expected in common"
    assert len(np.unique(kmeans.rank(doc, 1))) == 1_000


def test_cuml_absent_says_what_is_wanting():
    pytest.importorskip("torch")
    try:
        import cuml  # noqa: F401
    except ImportError:
        with pytest.raises(ModelError, match=r"needs cuml\.cluster, which is not installed"):
            kmeans.train_cuml(np.eye(3, dtype=np.float32), 2, iterations=3, seed=1)
