import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.deduplicate import bloom

KEYS = st.lists(st.integers(0, 2**64 - 1), max_size=200)


@given(KEYS, st.integers(1, 16))
def test_what_is_there_is_always_found(keys: list[int], bits: int):
    held = np.array(keys, np.uint64)
    words = bloom.from_bytes(bloom.to_bytes(bloom.build(held, bits)))
    assert bloom.contains(words, held).all()


def test_false_positives_are_as_designed():
    rng = np.random.default_rng(1)
    held, asked = rng.integers(0, 2**64, (2, 400_000), np.uint64)
    words = bloom.build(held, 12)
    assert len(words) * 64 / len(held) < 12.01
    assert bloom.contains(words, asked).mean() < 1.1 * 0.00422  # the design, by the Poisson formula of bench.band_index


def test_keys_of_one_range_spread_over_the_filter():
    rng = np.random.default_rng(2)
    held, asked = rng.integers(0, 2**58, (2, 200_000), np.uint64)  # one range of 64: the top six bits are the same
    assert bloom.contains(bloom.build(held, 12), asked).mean() < 0.007


def test_an_empty_filter_holds_nothing():
    words = bloom.build(np.zeros(0, np.uint64), 12)
    assert not bloom.contains(words, np.arange(100, dtype=np.uint64)).any()
