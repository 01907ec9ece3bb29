"""Divergence of histograms: its bounds, its noise, and another model's scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from gristmill.observe.drift import BINS, drift, histogram, jensen_shannon, noise, stability

COUNTS = st.lists(st.integers(0, 10_000), min_size=BINS, max_size=BINS)


@given(COUNTS, COUNTS)
def test_divergence_is_symmetric_bounded_and_scipys(a, b):
    found = jensen_shannon(a, b)
    assert 0 <= found <= 1 + 1e-12
    assert found == pytest.approx(jensen_shannon(b, a), abs=1e-12)
    if sum(a) and sum(b):
        assert found == pytest.approx(float(jensenshannon(a, b, base=2)) ** 2, abs=1e-9)


def test_disjoint_is_one_bit_and_equal_is_none():
    left, right = [5, 0] * (BINS // 2), [0, 5] * (BINS // 2)
    assert jensen_shannon(left, right) == pytest.approx(1.0)
    assert jensen_shannon(left, [x * 7 for x in left]) == pytest.approx(0.0, abs=1e-12)
    assert stability(left, left) == pytest.approx(0.0)


@pytest.mark.parametrize("n", [300, 3000, 30_000])
def test_two_samples_of_one_distribution_stay_under_the_noise_floor(n):
    rng = np.random.default_rng(n)
    found = [jensen_shannon(histogram(rng.beta(2, 5, n)), histogram(rng.beta(2, 5, 5 * n))) for _ in range(60)]
    assert np.mean([f > noise(n, 5 * n) for f in found]) < 0.02
    assert noise(n, 5 * n) < 4 * np.mean(found)  # and it is no wall


def test_a_shift_is_told_and_documents_of_one_host_are_not_many():
    rng = np.random.default_rng(5)
    past = [histogram(rng.beta(2, 5, 20_000)) for _ in range(3)]
    assert drift(histogram(rng.beta(2, 5, 20_000)), past, 0.02).passed
    swapped = histogram(1 - rng.beta(2, 5, 20_000))
    assert drift(swapped, past, 0.02).divergence > 0.3
    assert not drift(swapped, past, 0.02).passed
    assert drift(histogram(1 - rng.beta(2, 5, 300)), past, 0.02, clump=200).allowed > 0.5


def test_months_that_differ_by_themselves_raise_what_is_allowed():
    rng = np.random.default_rng(6)
    past = [histogram(rng.beta(a, 5, 50_000)) for a in (1.5, 2, 2.5, 3)]
    assert drift(histogram(rng.beta(1.5, 5, 50_000)), past, 0.001).passed


def test_the_stability_index_has_its_usual_scale():
    rng = np.random.default_rng(7)
    before = histogram(rng.normal(0.5, 0.1, 50_000))
    assert stability(histogram(rng.normal(0.5, 0.1, 50_000)), before) < 0.01
    assert stability(histogram(rng.normal(0.6, 0.1, 50_000)), before) > 0.25


def test_perplexities_are_binned_by_their_logarithm():
    counts = histogram(np.array([1.0, 1e3, 1e9, np.nan]), bounded=False)
    assert (counts[0], counts[BINS // 2], counts[-1], sum(counts)) == (1, 1, 1, 3)
