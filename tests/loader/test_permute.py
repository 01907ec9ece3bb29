"""Keyed bijections: every number is reached once, at every size, and keys differ."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import uint64
from scipy import stats

from gristmill.loader.kernels import key64, mix64, permute64, permute_all
from gristmill.loader.permute import MASK, key, mix, permute, permute_many, unpermute


def test_every_small_size_is_a_bijection_with_its_inverse():
    for n in range(1, 150):
        for k in (0, 1, MASK, key(n)):
            image = [permute(x, n, k) for x in range(n)]
            assert sorted(image) == list(range(n))
            assert [unpermute(y, n, k) for y in image] == list(range(n))
            assert permute_all(n, uint64(k)).tolist() == image
            assert permute_many(n, k).tolist() == image


@settings(deadline=None)
@given(st.integers(1, 1 << 62), st.integers(0, MASK), st.data())
def test_large_sizes_invert_and_the_kernel_agrees(n, k, data):
    x = data.draw(st.integers(0, n - 1))
    y = permute(x, n, k)
    assert 0 <= y < n
    assert unpermute(y, n, k) == x
    assert int(permute64(np.uint64(x), np.uint64(n), np.uint64(k))) == y


@pytest.mark.parametrize("n", [(1 << 21) + 3, (1 << 22) - 1, 1_000_003])
def test_no_part_of_a_large_range_is_left_out(n):
    # A permutation by a 64-bit product that became a float once left half of a range unvisited.
    image = permute_all(n, uint64(key(n)))
    assert image.dtype == np.int64
    assert np.bincount(image, minlength=n).tolist() == [1] * n


@pytest.mark.parametrize("n", [(1 << 28) + 3, (1 << 29) + 11, (1 << 53) + 1, (1 << 62) - 1])
def test_every_number_of_a_huge_range_has_an_origin(n):
    rng = np.random.default_rng(1)
    for y in [0, 1, n // 2, n - 1, *rng.integers(0, n, 200).tolist()]:
        assert permute(unpermute(y, n, 99), n, 99) == y


@pytest.mark.parametrize("n", [3, 5, 7, 24])
def test_over_keys_every_place_is_equally_likely(n):
    counts = np.zeros((n, n))
    for k in range(4000):
        for x, y in enumerate(permute_all(n, uint64(key(k, 5)))):
            counts[x, y] += 1
    assert stats.chisquare(counts.reshape(-1)).pvalue > 1e-4


def test_all_orders_of_four_occur_about_equally_often():
    seen = dict.fromkeys(itertools.permutations(range(4)), 0)
    for k in range(12_000):
        seen[tuple(permute_all(4, uint64(key(k))).tolist())] += 1
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_keys_depend_on_every_part_and_their_order():
    keys = {key(*parts) for parts in itertools.product(range(4), repeat=3)}
    assert len(keys) == 64
    assert key(1, 2) != key(2, 1)
    assert key(0) != key(0, 0)


@settings(deadline=None)
@given(st.integers(0, MASK), st.integers(0, MASK))
def test_kernels_mix_as_plain_python_does(state, part):
    assert int(mix64(np.uint64(state))) == mix(state)
    first = np.uint64(key64(np.uint64(0), np.uint64(state)))  # a kernel returns a plain int
    assert int(key64(first, np.uint64(part))) == key(state, part)
