import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gristmill.deduplicate.components import Components

EDGES = st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60)


def oracle(n: int, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Smallest member of every node's component, by scipy."""
    _, labels = connected_components(coo_array((np.ones(len(one)), (one, other)), shape=(n, n)), directed=False)
    smallest = np.full(n, n)
    np.minimum.at(smallest, labels, np.arange(n))
    return smallest[labels]


@given(EDGES, st.randoms())
def test_labels_are_the_smallest_member_in_any_order_of_edges(edges, rng):
    one = np.array([a for a, _ in edges], np.int64)
    other = np.array([b for _, b in edges], np.int64)
    want = oracle(30, one, other)
    for _ in range(3):
        with Components(30) as components:
            for i in range(0, len(edges), 7):
                components.join(one[i : i + 7], other[i : i + 7])
            assert np.array_equal(components.labels(), want)
        order = np.array(rng.sample(range(len(edges)), len(edges)), np.int64)
        one, other = one[order], other[order]


def test_a_large_graph_in_a_file(tmp_path):
    rng = np.random.default_rng(3)
    one, other = rng.integers(0, 100_000, (2, 90_000))
    with Components(100_000, tmp_path, in_memory=10) as components:
        assert (tmp_path / "parents").stat().st_size == 400_000
        components.join(one, other)
        assert np.array_equal(components.labels(), oracle(100_000, one, other))
    assert not list(tmp_path.iterdir())


def test_anchors_join_like_edges():
    anchors = np.array([0, 0, 2, 2, 1, 5])
    with Components(6) as components:
        components.join_anchors(anchors)
        assert components.labels().tolist() == [0, 0, 2, 2, 0, 5]


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_to_join(n: int):
    with Components(n) as components:
        assert components.labels().tolist() == list(range(n))
