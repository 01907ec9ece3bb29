"""The van der Corput counts: the digits give what counting gives, and the kernels what plain Python gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.loader.corput import WORD, below, below_reference, reverse
from gristmill.loader.kernels import below64, reverse64

WORDS = st.integers(0, WORD - 1)


def test_digits_count_what_counting_counts_exhaustively():
    cuts = sorted({0, 1, WORD - 1, WORD // 3, *(k * WORD // 16 for k in range(1, 16)),
                   *(k * WORD // 16 + 1 for k in range(1, 16))})
    for b in range(130):
        for f in cuts:
            assert below(f, b) == below_reference(f, b)


def test_the_first_points_are_the_binary_van_der_corput_sequence():
    assert [reverse(b) / WORD for b in range(8)] == [0, 0.5, 0.25, 0.75, 0.125, 0.625, 0.375, 0.875]


@settings(deadline=None)
@given(WORDS)
def test_reversal_is_its_own_inverse_and_the_kernel_agrees(b):
    assert reverse(reverse(b)) == b
    assert int(reverse64(np.uint64(b))) == reverse(b)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_kernel_counts_as_plain_python_does_at_any_size(f, b):
    assert int(below64(np.uint64(f), np.uint64(b))) == below(f, b)


@settings(deadline=None)
@given(WORDS, st.integers(0, 1 << 40))
def test_the_count_is_within_the_number_of_digits_of_its_share(f, b):
    # The discrepancy bound that segment cutting relies on (``_most_steps``).
    assert abs(below(f, b) - f * b / WORD) <= b.bit_length() + 1


@pytest.mark.parametrize("b", [0, 1, 2**63, WORD - 1])
def test_extremes(b):
    assert below(0, b) == 0
    assert below(WORD - 1, b) >= b - 1
